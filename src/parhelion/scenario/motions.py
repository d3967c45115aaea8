"""Fields of a scenario file for motions and for values that change with time. Units are part of the names."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

import numpy as np
from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from parhelion.core.config import Config
from parhelion.core.pose import Floats
from parhelion.core.schedule import schedule
from parhelion.world.schema import TrajectoryEntry, Xyz

Name = Annotated[
    str, Field(pattern=r"^[A-Za-z0-9][A-Za-z0-9_.-]{0,63}$", description="1 to 64 letters, digits, '_', '.' or '-'")
]
"""A name that is also used as a file or folder name."""
Positive = Annotated[float, Field(gt=0, le=1e6)]
Time = Annotated[float, Field(ge=-1e9, le=1e9)]
Seed = Annotated[int, Field(ge=0, le=2**63 - 1)]


class SplineEntry(Config):
    """A smooth path through points, within limits of speed and acceleration, or at given times."""

    points: Annotated[list[Xyz], Field(min_length=2)]
    times_s: list[Time] | None = None
    """One increasing time per point; by default the limits determine the speed."""
    max_speed_m_s: Positive = 5.0
    max_acceleration_m_s2: Positive = 1.5
    max_lateral_m_s2: Positive = 2.0
    closed: bool = False
    """True for a closed path that repeats."""
    follow_slope: bool = False
    """True to pitch with the slope of the path."""
    bank: bool = False
    """True to lean into bends, as an aircraft does."""
    start_time_s: Time = 0.0


class RecordedEntry(Config):
    """A recorded motion."""

    file: str
    """Trajectory file relative to the scenario's folder."""
    format: Literal["tum", "kitti"] = "tum"
    rate_hz: Positive | None = None
    """Poses per second, for KITTI files without times."""


class FlightEntry(Config):
    """Parallel flight lines over a rectangle; see `FlightLines`."""

    area_m: tuple[float, float, float, float]
    """Rectangle x0, y0, x1, y1."""
    height_m: Positive
    """Height above `ground_m`."""
    speed_m_s: Positive
    half_angle_deg: Annotated[float, Field(gt=0, lt=80)]
    """Half angle of the swath that is planned with."""
    overlap: Annotated[float, Field(ge=0, lt=1)] = 0.3
    """Share of the swath that neighbouring lines have in common."""
    heading_deg: float = 0.0
    """Direction of the first line, counter-clockwise from x."""
    turn_s: Positive = 10.0
    """Duration of the curve between two lines."""
    ground_m: float = 0.0
    start_s: Time = 0.0


class MotionEntry(TrajectoryEntry):
    """One of: timed poses, a constant motion, a fixed pose, a smooth path, flight lines, a recording."""

    spline: SplineEntry | None = None
    flight_lines: FlightEntry | None = None
    recorded: RecordedEntry | None = None


# ---- values by time --------------------------------------------------------------------------------------------------


def check_rows(times: Sequence[float], repeat_s: float | None) -> None:
    """Check that times increase and fit into one period; the error is for a field's validator."""
    if any(later <= earlier for earlier, later in pairwise(times)):
        raise ValueError(f"times must increase, got {', '.join(f'{time:g}' for time in times)}")
    if repeat_s is not None and times[-1] - times[0] >= repeat_s:
        raise ValueError(f"repeat_s must be more than the {times[-1] - times[0]:g} s from the first to the last time")


class ScheduleEntry(Config):
    """A constant value, pairs of a time [s] and a value, or such pairs with a period.

    Between two times the value eases from one to the next; it is constant before the first and after the last. With
    `repeat_s` it returns to the first value and repeats.
    """

    numbers: ClassVar[int] = 1
    """Number of components of a value."""
    pairs: Any
    repeat_s: Positive | None = None
    """Period [s]."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        one = value[0] if isinstance(value, (list, tuple)) and value else value
        if isinstance(one, (int, float)) and not isinstance(one, bool) and (cls.numbers == 1) == (one is value):
            return {"pairs": [[0.0, value]]}
        if isinstance(value, (list, tuple)):
            return {"pairs": value}
        if not isinstance(value, (dict, cls)):
            what = "a number" if cls.numbers == 1 else f"{cls.numbers} numbers"
            raise ValueError(f"give {what}, pairs of a time and {what}, or pairs with repeat_s")
        return value

    @model_validator(mode="after")
    def _in_order(self) -> ScheduleEntry:
        check_rows([time for time, _ in self.pairs], self.repeat_s)
        return self

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        fields = handler(schema)
        pairs = handler.resolve_ref_schema(fields)["properties"]["pairs"]
        value = pairs["items"]["prefixItems"][1]
        return {"anyOf": [value, pairs, fields]}


class ForkHeights(ScheduleEntry):
    """Height [m] of a forklift's forks, from 0 to 3."""

    pairs: Annotated[list[tuple[Time, Annotated[float, Field(ge=0, le=3)]]], Field(min_length=1)]


class DoorAngles(ScheduleEntry):
    """Opening angle of a door [°], from -180 to 180."""

    pairs: Annotated[list[tuple[Time, Annotated[float, Field(ge=-180, le=180)]]], Field(min_length=1)]


JointAngle = Annotated[float, Field(ge=-360, le=360)]


class ArmAngles(ScheduleEntry):
    """Angles [°] of an arm's six joints, each from -360 to 360."""

    numbers: ClassVar[int] = 6
    pairs: Annotated[
        list[tuple[Time, tuple[JointAngle, JointAngle, JointAngle, JointAngle, JointAngle, JointAngle]]],
        Field(min_length=1),
    ]


def schedule_of(entry: ScheduleEntry, factor: float = 1.0) -> Callable[[Floats], Floats]:
    """Function from times to the values of an entry, multiplied by a factor."""
    return schedule_of_pairs(entry.pairs, entry.repeat_s, factor)


def schedule_of_pairs(
    pairs: Sequence[tuple[float, float | Sequence[float]]], repeat_s: float | None, factor: float = 1.0
) -> Callable[[Floats], Floats]:
    """Return a function from times (n,) [s] to values (n, k), eased between the pairs.

    With `repeat_s`, the last value eases back to the first until the next period begins.
    """
    rows = [np.concatenate([[time], factor * np.atleast_1d(np.asarray(value, float))]) for time, value in pairs]
    first_s = float(rows[0][0])
    if repeat_s is not None:
        rows.append(np.concatenate([[first_s + repeat_s], rows[0][1:]]))
    values = schedule("schedule", np.stack(rows).tolist(), columns=len(rows[0]) - 1)

    def at(times: Floats) -> Floats:
        return values(times if repeat_s is None else first_s + np.mod(np.asarray(times) - first_s, repeat_s))

    return at
