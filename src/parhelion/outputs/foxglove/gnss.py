"""What Foxglove makes of fixes: LocationFix, for its map. A time without a fix has no message: the schema knows
none."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import TYPE_CHECKING, Any

from parhelion.core.gnss import NO_FIX, GnssData
from parhelion.outputs.foxglove.messages import FoxgloveMessage
from parhelion.outputs.foxglove.scene import timestamp

if TYPE_CHECKING:
    from parhelion.outputs.foxglove.rules import Telling
    from parhelion.scenario.scenario import Scenario


def fix_schema(sensor: Any, scenario: Scenario) -> Any:
    """Of the topic."""
    from foxglove.messages import LocationFix

    return LocationFix.get_schema()


def fix_messages(data: GnssData, telling: Telling) -> Iterator[FoxgloveMessage]:
    """A message for each fix."""
    for row, time in enumerate(data.time.tolist()):
        if data.mode[row] != NO_FIX:
            at = telling.stamp(time)
            yield FoxgloveMessage(telling.topic, at, partial(location_fix, data, row, telling.frame, at))


def location_fix(data: GnssData, row: int, frame: str, time_ns: int) -> bytes:
    """foxglove.LocationFix with velocity and covariance by east, north and up."""
    from foxglove.messages import LocationFix, LocationFixPositionCovarianceType, Vector3

    east, north, up = data.to_enu(data.velocity[row]).tolist()
    message = LocationFix(
        timestamp=timestamp(time_ns), frame_id=frame, latitude=float(data.latitude[row]),
        longitude=float(data.longitude[row]), altitude=float(data.altitude[row]),
        position_covariance=data.covariance_enu(row).ravel().tolist(),
        position_covariance_type=LocationFixPositionCovarianceType.Known, velocity=Vector3(x=east, y=north, z=up),
    )  # fmt: skip
    encoded: bytes = message.encode()
    return encoded
