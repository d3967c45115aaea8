"""Foxglove schemas and messages of each type of record."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.consumers import Consumer
from parhelion.core.frames import FramePoints
from parhelion.core.image import Image, Intrinsics
from parhelion.core.streams import NO_FIX, GnssData, Samples
from parhelion.io.images.plain import compressed
from parhelion.outputs.foxglove.messages import (
    FoxgloveMessage,
    as_json,
    cloud_message,
    samples_content,
    samples_schema,
    schema_of,
    time_fields,
)
from parhelion.outputs.foxglove.scene import packed, timestamp
from parhelion.outputs.ros.rules import base_topic
from parhelion.outputs.topics import optical_frame

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario

# ---- gnss -----------------------------------------------------------------------------------------------------------
# foxglove.LocationFix for the map panel. Epochs without a fix have no message, because the schema cannot express them.


def fix_messages(data: GnssData, context: FoxgloveContext) -> Iterator[FoxgloveMessage]:
    """Messages of all fixes."""
    for row, time in enumerate(data.time.tolist()):
        if data.mode[row] != NO_FIX:
            at = context.stamp(time)
            yield FoxgloveMessage(context.topic, at, partial(location_fix, data, row, context.frame, at))


def location_fix(data: GnssData, row: int, frame: str, time_ns: int) -> bytes:
    """foxglove.LocationFix with velocity and covariance in east, north and up."""
    from foxglove.messages import LocationFix, LocationFixPositionCovarianceType, Vector3

    east, north, up = data.to_enu(data.velocity[row]).tolist()
    return packed(
        LocationFix(
            timestamp=timestamp(time_ns),
            frame_id=frame,
            latitude=float(data.latitude[row]),
            longitude=float(data.longitude[row]),
            altitude=float(data.altitude[row]),
            position_covariance=data.covariance_enu(row).ravel().tolist(),
            position_covariance_type=LocationFixPositionCovarianceType.Known,
            velocity=Vector3(x=east, y=north, z=up),
        )
    )


# ---- images ---------------------------------------------------------------------------------------------------------
# CompressedImage and CameraCalibration, raw depth, and boxes on top of the picture. Topics are those of ROS:
# /front/image_raw, /front/camera_info, /front/depth/image_raw, /front/right/...; boxes of visible objects are on
# /front/objects, for the image panel.


_BOX_COLOUR = (1.0, 0.7, 0.33)


def image_topics(topic: str) -> dict[str, str]:
    """Further topics of every camera, and their schemas."""
    return {f"{base_topic(topic)}/camera_info": "CameraCalibration"}


def image_messages(image: Image, context: FoxgloveContext) -> Iterator[FoxgloveMessage]:
    """Messages of one exposure; pictures are compressed when they are sent."""
    base, frame = base_topic(context.topic), optical_frame(context.frame)
    stamp, over = context.stamp(image.start_time), context.stamp(image.start_time + context.length_s)

    def message(topic: str, kind: str, make: Any, *arguments: Any) -> FoxgloveMessage:
        return FoxgloveMessage(topic, over, partial(make, *arguments), schema_of(kind))

    bands, form = image.bands, context.images
    yield message(context.topic, "CompressedImage", picture, image.colour, bands, frame, stamp, form)
    lens = image.intrinsics
    if lens is not None:
        yield message(f"{base}/camera_info", "CameraCalibration", calibration, lens, frame, stamp, False)
    if image.right is not None:
        aside = optical_frame(context.frame, right=True)
        yield message(f"{base}/right/image_raw", "CompressedImage", picture, image.right, bands, aside, stamp, form)
        if lens is not None:
            yield message(f"{base}/right/camera_info", "CameraCalibration", calibration, lens, aside, stamp, True)
    depth = image.depth if image.measured_depth is None else image.measured_depth
    if depth is not None:
        yield message(f"{base}/depth/image_raw", "RawImage", raw, depth, "32FC1", frame, stamp)
    if image.label is not None:
        yield message(f"{base}/ground_truth/label/image_raw", "RawImage", raw, image.label, "16UC1", frame, stamp)
    if image.objects:
        yield message(f"{base}/objects", "ImageAnnotations", boxes_over, image, stamp)


def picture(pixels: NDArray[Any], bands: tuple[str, ...], frame: str, stamp: int, form: str) -> bytes:
    """foxglove.CompressedImage as PNG or JPEG."""
    from foxglove.messages import CompressedImage

    data, _ = compressed(pixels, bands, form)
    return packed(CompressedImage(timestamp=timestamp(stamp), frame_id=frame, data=data, format=form))


def raw(pixels: NDArray[Any], encoding: str, frame: str, stamp: int) -> bytes:
    """foxglove.RawImage."""
    from foxglove.messages import RawImage

    rows = np.ascontiguousarray(pixels)
    return packed(
        RawImage(
            timestamp=timestamp(stamp),
            frame_id=frame,
            width=rows.shape[1],
            height=rows.shape[0],
            encoding=encoding,
            step=rows.nbytes // rows.shape[0],
            data=rows.tobytes(),
        )
    )


def calibration(lens: Intrinsics, frame: str, stamp: int, right: bool) -> bytes:
    """foxglove.CameraCalibration; models and matrices are those of ROS."""
    from foxglove.messages import CameraCalibration

    projection = np.concatenate([lens.matrix, np.zeros((3, 1))], axis=1)
    projection[0, 3] = -lens.fx * lens.baseline_m if right else 0.0
    # Foxglove names the equidistant lens of ROS after the authors of the model.
    model = "kannala_brandt" if lens.model == "equidistant" else lens.model
    least = {"plumb_bob": 5, "rational_polynomial": 8}.get(lens.model, 4)
    numbers = [*lens.distortion, *[0.0] * (least - len(lens.distortion))]
    return packed(
        CameraCalibration(
            timestamp=timestamp(stamp),
            frame_id=frame,
            width=lens.width,
            height=lens.height,
            distortion_model=model,
            D=numbers,
            K=lens.matrix.ravel().tolist(),
            R=np.eye(3).ravel().tolist(),
            P=projection.ravel().tolist(),
        )
    )


def boxes_over(image: Image, stamp: int) -> bytes:
    """foxglove.ImageAnnotations: the visible box of each object, with its label and instance."""
    from foxglove.messages import (
        Color,
        ImageAnnotations,
        Point2,
        PointsAnnotation,
        PointsAnnotationType,
        TextAnnotation,
    )

    at, words = timestamp(stamp), image.names.get("label", {})
    red, green, blue = _BOX_COLOUR
    colour, dark = Color(r=red, g=green, b=blue, a=1.0), Color(r=0.05, g=0.06, b=0.08, a=0.7)
    loops, texts = [], []
    for one in image.objects:
        left, top, right, bottom = one.visible_box
        corners = [(left, top), (right, top), (right, bottom), (left, bottom)]
        loops.append(
            PointsAnnotation(
                timestamp=at,
                type=PointsAnnotationType.LineLoop,
                points=[Point2(x=x, y=y) for x, y in corners],
                outline_color=colour,
                thickness=1.0,
            )
        )
        text = f"{words.get(one.label, f'label {one.label}')} {one.instance}"
        texts.append(
            TextAnnotation(
                timestamp=at,
                position=Point2(x=left, y=top),
                text=text,
                font_size=10.0,
                text_color=colour,
                background_color=dark,
            )
        )
    return packed(ImageAnnotations(points=loops, texts=texts))


# ---- rules ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FoxgloveContext:
    """Topic, frame and options for the messages of one sensor."""

    topic: str
    """Topic of the sensor."""
    frame: str
    """Frame of the sensor."""
    stamp: Callable[[float], int]
    """Function from a time of the scenario [s] to a time stamp [ns]."""
    length_s: float = 0.0
    """Duration of a frame [s]."""
    images: str = "png"
    """Compression of pictures: png or jpeg."""


@dataclass(frozen=True)
class FoxgloveRule:
    """Schemas and messages of one type of record."""

    schema: str | Callable[[Any, Scenario], Any]
    """Schema of a sensor's topic: the name of a Foxglove schema, or a function of the sensor and its scenario."""
    messages: Callable[[Any, FoxgloveContext], Iterator[FoxgloveMessage]]
    """Messages of a record."""
    further_topics: Callable[[str], dict[str, str]] = lambda topic: {}
    """Names of the schemas of further topics that a sensor always has, by topic, from the name of its own topic."""

    def schemas(self, sensor: Any, scenario: Scenario, topic: str) -> dict[str, Any]:
        """Schemas of all topics that a sensor always has, by topic."""
        own = schema_of(self.schema) if isinstance(self.schema, str) else self.schema(sensor, scenario)
        return {topic: own, **{name: schema_of(kind) for name, kind in self.further_topics(topic).items()}}


def _cloud(scan: Scan, context: FoxgloveContext) -> Iterator[FoxgloveMessage]:
    over = context.stamp(scan.start_time + float(scan.shots.time.max(initial=0.0)))
    # Serialized when it is sent: without subscribers, many megabytes need not be created.
    yield FoxgloveMessage(
        context.topic, over, partial(cloud_message, scan, context.frame, context.stamp(scan.start_time))
    )


def _points(found: FramePoints, context: FoxgloveContext) -> Iterator[FoxgloveMessage]:
    over = context.stamp(found.start_time + found.duration)
    yield FoxgloveMessage(
        context.topic, over, partial(cloud_message, found, context.frame, context.stamp(found.start_time))
    )


def _samples_schema(sensor: Any, scenario: Scenario) -> Any:
    return samples_schema(sensor.example(scenario.world, scenario.seed))


def _samples(samples: Samples, context: FoxgloveContext) -> Iterator[FoxgloveMessage]:
    for time_s, content in samples_content(samples):
        at = context.stamp(time_s)
        body = as_json({"timestamp": time_fields(at), "frame_id": context.frame, **content})
        yield FoxgloveMessage(context.topic, at, body)


FOXGLOVE: Consumer[FoxgloveRule] = Consumer(
    "Foxglove",
    {
        Scan: FoxgloveRule("PointCloud", _cloud),
        FramePoints: FoxgloveRule("PointCloud", _points),
        Samples: FoxgloveRule(_samples_schema, _samples),
        GnssData: FoxgloveRule("LocationFix", fix_messages),
        Image: FoxgloveRule("CompressedImage", image_messages, image_topics),
    },
)
"""Foxglove schemas and messages by type of record."""
