"""What Foxglove makes of each type of record: the schema of its topic, and the messages."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from parhelion.core.frame_points import FramePoints
from parhelion.core.gnss import GnssData
from parhelion.core.image import Image
from parhelion.core.inertial import Samples
from parhelion.core.readers import Readers
from parhelion.core.records import Scan
from parhelion.outputs.foxglove.gnss import fix_messages, fix_schema
from parhelion.outputs.foxglove.images import image_messages, image_schema, image_topics
from parhelion.outputs.foxglove.messages import (
    FoxgloveMessage,
    as_json,
    cloud_message,
    samples_content,
    samples_schema,
    time_fields,
)

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario


@dataclass(frozen=True)
class Telling:
    """How one sensor's records are told."""

    topic: str
    frame: str
    stamp: Callable[[float], int]
    """A time of the scenario [s] as messages have it [ns]."""
    length_s: float = 0.0
    """How long a frame takes."""
    images: str = "png"
    """How pictures are compressed: png or jpeg."""


@dataclass(frozen=True)
class FoxgloveRule:
    """What Foxglove makes of one type of record."""

    schema: Callable[[Any, Scenario], Any]
    """Of a sensor's topic, for the sensor on board and its scenario."""
    messages: Callable[[Any, Telling], Iterator[FoxgloveMessage]]
    """The messages of a record."""
    beside: Callable[[Any, Scenario, str], dict[str, Any]] = lambda sensor, scenario, topic: {}
    """Schemas of further topics that a sensor is sure to have, of its own topic's name."""


def _cloud_schema(sensor: Any, scenario: Scenario) -> Any:
    from foxglove.messages import PointCloud as CloudMessage

    return CloudMessage.get_schema()


def _cloud(scan: Scan, telling: Telling) -> Iterator[FoxgloveMessage]:
    over = telling.stamp(scan.start_time + float(scan.shots.time.max(initial=0.0)))
    # Packed when it is sent: many megabytes need not be made where nobody listens.
    yield FoxgloveMessage(
        telling.topic, over, partial(cloud_message, scan, telling.frame, telling.stamp(scan.start_time))
    )


def _points(found: FramePoints, telling: Telling) -> Iterator[FoxgloveMessage]:
    over = telling.stamp(found.start_time + found.duration)
    yield FoxgloveMessage(
        telling.topic, over, partial(cloud_message, found, telling.frame, telling.stamp(found.start_time))
    )


def _samples_schema(sensor: Any, scenario: Scenario) -> Any:
    return samples_schema(sensor.example(scenario.world, scenario.seed))


def _samples(samples: Samples, telling: Telling) -> Iterator[FoxgloveMessage]:
    for time_s, content in samples_content(samples):
        at = telling.stamp(time_s)
        body = as_json({"timestamp": time_fields(at), "frame_id": telling.frame, **content})
        yield FoxgloveMessage(telling.topic, at, body)


FOXGLOVE: Readers[FoxgloveRule] = Readers(
    "Foxglove",
    {
        Scan: FoxgloveRule(_cloud_schema, _cloud),
        FramePoints: FoxgloveRule(_cloud_schema, _points),
        Samples: FoxgloveRule(_samples_schema, _samples),
        GnssData: FoxgloveRule(fix_schema, fix_messages),
        Image: FoxgloveRule(image_schema, image_messages, image_topics),
    },
)
"""What Foxglove makes of each type of record."""
