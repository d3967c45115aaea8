"""What a weather file may say, and the parts of a weather in code. Units are in the names.

The parts are checked when they are made; a wrong value is a `ConfigError` that names the field.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise
from typing import Annotated, Any, Literal, get_args, overload

import numpy as np
from numpy.typing import NDArray
from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainValidator,
    SerializerFunctionWrapHandler,
    TypeAdapter,
    ValidationError,
    ValidationInfo,
    field_validator,
    model_serializer,
    model_validator,
)

from parhelion.core.config import Config, parse
from parhelion.core.errors import ConfigError, nearest_name
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Trajectory, Waypoints

USUAL_CELL_SCALE_M = 300.0
"""Size of rain and snow cells where none is said."""

Schedule = float | Sequence[Sequence[float]]
"""A number that stays, or pairs of time [s] and value: linear between them, level before the first and after the
last."""

RainModel = Literal["mie", "vane", "goodin2019", "guo2015", "ulbrich-atlas"]
DropSizeName = Literal["marshall-palmer", "feingold-levin", "deirmendjian"]
ForwardLight = Literal["lost", "collected"]
RangeShift = Literal["none", "filgueira2017"]
FogModel = Literal["kim", "kruse", "koschmieder", "hahner2021"]


@overload
def value_at(schedule: Schedule, time: float) -> float: ...


@overload
def value_at(schedule: Schedule, time: NDArray[Any]) -> NDArray[np.float64]: ...


def value_at(schedule: Schedule, time: float | NDArray[Any]) -> float | NDArray[np.float64]:
    """What a schedule says at a time, or at each of an array of times [s]."""
    times = seconds(time)
    if isinstance(schedule, Sequence):
        at, value = np.asarray(schedule, dtype=np.float64).T
        # Rounding between two points may step over their values, and below zero.
        found = np.clip(np.interp(times, at, value), value.min(), value.max())
    else:
        found = np.full(times.shape, schedule, dtype=np.float64)
    return found if times.ndim else float(found)


def seconds(time: Any) -> NDArray[np.float64]:
    """A time, or an array of times [s], checked."""
    try:
        times = np.asarray(time, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"weather: time must be a number of seconds, got {time!r}") from None
    if np.isnan(times).any():
        raise ConfigError("weather: time must be a number of seconds, got nan")
    return times


def bounds_of(schedule: Schedule) -> tuple[float, float]:
    """The least and the largest value that a schedule ever has."""
    values = [float(pair[1]) for pair in schedule] if isinstance(schedule, Sequence) else [float(schedule)]
    return min(values), max(values)


# ---- checks of single values ---------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """A value as YAML would give it: NumPy's numbers and arrays as Python's own."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


def _no_truth_value(value: Any) -> Any:
    # YAML reads `yes` and `on` as true, which would count as 1.
    if isinstance(value, bool):
        raise ValueError("must be a number")
    return value


def _text(value: float) -> str:
    return str(value) if isinstance(value, int) else f"{value:.12g}"


def _range_check(low: float, high: float, unit: str, hint: str = "") -> Callable[[float, str], float]:
    def check(value: float, where: str = "") -> float:
        if not low <= value <= high:
            raise ValueError(f"must be from {_text(low)} to {_text(high)}{unit and ' ' + unit}{hint}{where}")
        return value

    return check


def _within(low: float, high: float, unit: str = "") -> AfterValidator:
    check = _range_check(low, high, unit)
    return AfterValidator(lambda value: check(value, ""))


Number = Annotated[float, BeforeValidator(_no_truth_value), Field(allow_inf_nan=False)]
WholeNumber = Annotated[int, BeforeValidator(_no_truth_value)]
Time = Annotated[Number, _within(-1e12, 1e12, "s")]
Coordinate = Annotated[Number, _within(-1e9, 1e9, "m")]
HalfSize = Annotated[Number, _within(0.01, 1e5, "m")]
Wind = Annotated[Number, _within(-100.0, 100.0, "m/s")]
MassExtinction = Annotated[Number, _within(1.0, 1e5, "m^2/kg")]

_NUMBER: TypeAdapter[float] = TypeAdapter(Number)
_PAIRS: TypeAdapter[tuple[tuple[float, float], ...]] = TypeAdapter(
    Annotated[tuple[tuple[Time, Number], ...], Field(min_length=1)]
)
_ROWS: TypeAdapter[tuple[tuple[float, float, float, float], ...]] = TypeAdapter(
    Annotated[tuple[tuple[Time, Coordinate, Coordinate, Coordinate], ...], Field(min_length=2)]
)


def _increasing(rows: tuple[tuple[float, ...], ...]) -> None:
    for before, after in pairwise(rows):
        if not before[0] < after[0]:
            raise ValueError(f"times must increase, but {after[0]:.12g} s follows {before[0]:.12g} s")


def _scheduled(low: float, high: float, unit: str, hint: str = "") -> PlainValidator:
    """The check of a field that holds a schedule with values from `low` to `high`."""
    in_range = _range_check(low, high, unit, hint)

    def check(value: Any) -> Schedule:
        if not isinstance(value, (list, tuple)):
            return in_range(_NUMBER.validate_python(value), "")
        pairs = _PAIRS.validate_python(value)
        for time, entry in pairs:
            in_range(entry, f", got {entry:.12g} at {time:.12g} s")
        _increasing(pairs)
        return pairs

    return PlainValidator(check)


def _name_of(names: tuple[str, ...]) -> BeforeValidator:
    """The check of a field that holds one of some names; a wrong one is told with the nearest."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and value in names:
            return value
        nearest = nearest_name(value, names) if isinstance(value, str) else None
        hint = f" (did you mean {nearest!r}?)" if nearest else ""
        raise ValueError(f"must be one of {', '.join(names)}{hint}")

    return BeforeValidator(check)


def _checked_path(value: Any) -> Any:
    if isinstance(value, Waypoints):
        value = np.column_stack([value.times, value.xyz]).tolist()
    elif isinstance(value, Trajectory) and not isinstance(value, type):
        return value
    elif not isinstance(value, (list, tuple)):
        raise ValueError("must be a list of [time_s, x, y, z] rows, or in code a trajectory")
    rows = _ROWS.validate_python(value)
    _increasing(rows)
    return rows


RainRate = Annotated[Schedule, _scheduled(0.0, 500.0, "mm/h")]
SnowRate = Annotated[Schedule, _scheduled(0.0, 50.0, "mm/h of melted water")]
Visibility = Annotated[Schedule, _scheduled(5.0, 300_000.0, "m", " (air without fog has no visibility_m)")]
DustDensity = Annotated[Schedule, _scheduled(0.0, 1.0, "kg/m^3")]


# ---- the parts of a weather ----------------------------------------------------------------------------------------


class Part(Config):
    """Base of the parts: one made in code tells of wrong values by `ConfigError`, as one in a file does."""

    def __init__(self, /, **data: Any) -> None:
        fields = {name: plain(value) for name, value in data.items()}
        try:
            super().__init__(**fields)
        except ValidationError:
            parse(type(self), fields, type(self).__name__)  # raises the same as one clear sentence
            raise

    # Says that fields need no detour through this `__init__` when a part is within another: the place of an error
    # stays whole then.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def to_mapping(self) -> dict[str, Any]:
        """What a file says of it: the fields that are not as usual."""
        return self.model_dump(mode="json", exclude_defaults=True)


class Uneven(Part):
    """How density varies from place to place: a sum of noise octaves that drifts with the wind.

    The factor on density has mean 1 over space and is never negative, so that the rate or visibility beside it is
    the mean one.
    """

    scale_m: Annotated[Number, _within(0.1, 1e5, "m")] = 40.0
    """Size of the largest eddies or cells [m]; 40 in fog and 300 for cells of rain and snow where none is said."""
    octaves: Annotated[WholeNumber, _within(1, 6)] = 4
    """Number of sizes, each half of the one before."""
    roughness: Annotated[Number, _within(0.0, 1.0)] = 0.5
    """Amplitude of an octave over that of the one before."""
    contrast: Annotated[Number, _within(0.0, 1.0)] = 0.5
    """Standard deviation of density over its mean."""

    @model_serializer(mode="wrap")
    def _with_scale(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Its usual value depends on what is uneven, so it is always said.
        return {"scale_m": self.scale_m, **handler(self)}


def _at_cell_scale(value: Any) -> Any:
    if isinstance(value, dict):
        return {"scale_m": USUAL_CELL_SCALE_M, **value}
    if isinstance(value, Uneven) and "scale_m" not in value.model_fields_set:
        return value.model_copy(update={"scale_m": USUAL_CELL_SCALE_M})
    return value


Cells = Annotated[Uneven, BeforeValidator(_at_cell_scale)]


class Rain(Part):
    """Rain of a given rate."""

    rate_mm_h: RainRate
    """Rain rate [mm/h], 0 to 500."""
    drop_sizes: Annotated[DropSizeName, _name_of(get_args(DropSizeName))] = "marshall-palmer"
    """Distribution of drop sizes."""
    model: Annotated[RainModel, _name_of(get_args(RainModel))] = "mie"
    """How extinction follows from the rate. The models differ many times over at one rate."""
    cells: Cells | None = None
    """Cells of stronger and weaker rain; the same everywhere where None."""
    forward_light: Annotated[ForwardLight, _name_of(get_args(ForwardLight))] = "lost"
    """Whether the light that drops bend by less than about 1 mrad counts as lost, as extinction does, or is still
    `collected` by the receiver: half of what a drop takes from a beam is bent so little."""
    range_shift: Annotated[RangeShift, _name_of(get_args(RangeShift))] = "none"
    """Whether rain lets surfaces appear farther away: `none`, or `filgueira2017`, up to 0.1 m."""


class Fog(Part):
    """Fog or haze of a given visibility."""

    visibility_m: Visibility
    """Visibility [m], 5 to 300 000 (about that of air without any particle)."""
    model: Annotated[FogModel, _name_of(get_args(FogModel))] = "kim"
    """How extinction at the sensor's wavelength follows from visibility."""
    backscatter: Annotated[Number, _within(0.01, 0.6)] | None = None
    """Backscatter coefficient [1/(m sr)] times meteorological optical range [m]. Where None, it follows from the
    droplets by Mie's theory (about 0.165 at 905 nm); the model `hahner2021` takes its authors' 0.046."""
    uneven: Uneven | None = None
    """Thicker and thinner places; the same everywhere where None."""


class Snow(Part):
    """Falling snow of a given rate."""

    rate_mm_h: SnowRate
    """Snow rate [mm/h] as melted water, 0 to 50."""
    cells: Cells | None = None
    """Cells of stronger and weaker snow; the same everywhere where None."""
    covers: tuple[str, ...] = ()
    """Labels of what snow lies on, such as road and ground: they have the reflectance of snow."""


class DustPart(Part):
    """What kinds of dust have in common."""

    kind: str
    mass_extinction_m2_kg: MassExtinction = 2600.0
    """Extinction per mass [m^2/kg]: 2600 for dust that vehicles raise, 650 for fine atmospheric dust (VANE)."""

    @model_serializer(mode="wrap")
    def _with_kind(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # Files tell the kinds apart by it, so it is always said.
        return {"kind": self.kind, **handler(self)}


class DustCloud(DustPart):
    """A cloud of dust placed by hand: an ellipsoid along the world's axes, densest in the middle."""

    kind: Literal["cloud"] = "cloud"
    centre_m: tuple[Coordinate, Coordinate, Coordinate]
    """Its centre in the world at time 0."""
    half_size_m: tuple[HalfSize, HalfSize, HalfSize]
    """Half of its lengths along x, y and z: where the dust ends."""
    density_kg_m3: DustDensity
    """Mass of dust in a volume of air at the centre, 0 to 1."""
    drifts: bool = False
    """Whether the wind carries it."""


class DustTrail(DustPart):
    """Dust that a vehicle raises on its way over an unpaved road."""

    kind: Literal["trail"] = "trail"
    path: Annotated[Sequence[Sequence[float]] | Trajectory, PlainValidator(_checked_path)]
    """Where the vehicle is: rows of time [s] and x, y, z [m] (straight between them, facing where it goes), or in code
    a trajectory. Of `Waypoints` the times and places are taken."""
    weight_kg: Annotated[Number, _within(1.0, 1e6, "kg")] = 2000.0
    """Weight of the vehicle; the emission formula is fitted to 1800 to 260 000 kg (EPA AP-42, 13.2.2)."""
    width_m: Annotated[Number, _within(0.1, 50.0, "m")] = 2.0
    length_m: Annotated[Number, _within(0.1, 100.0, "m")] = 5.0
    silt_percent: Annotated[Number, _within(0.0, 100.0, "%")] = 8.5
    """Share of silt in the road's surface; fitted to 1.8 to 25.2, 8.5 is the mean of construction sites (AP-42)."""
    moisture_percent: Annotated[Number, _within(0.01, 100.0, "%")] = 0.2
    """Water in the road's surface; fitted to 0.03 to 13, 0.2 is a dry road (AP-42)."""
    start_s: Time | None = None
    """When the vehicle begins to raise dust; None is the path's own beginning, or 0 where it has none."""
    end_s: Time | None = None
    """When it ceases to; None is the path's own end. A trajectory that is no `Waypoints` has none: say it then."""

    @model_validator(mode="after")
    def _begins_before_it_ends(self) -> DustTrail:
        start, end = self.span_s
        if math.isinf(end):
            raise ValueError("give end_s, too: this path has no end of its own")
        if not start < end:
            raise ValueError(f"must begin before it ends, but starts at {start:.12g} s and ends at {end:.12g} s")
        return self

    @property
    def span_s(self) -> tuple[float, float]:
        """First and last time [s] at which dust is raised."""
        first, last = (self.path[0][0], self.path[-1][0]) if isinstance(self.path, tuple) else (0.0, math.inf)
        return (first if self.start_s is None else self.start_s), (last if self.end_s is None else self.end_s)

    def trajectory(self) -> Trajectory:
        """The vehicle's motion; along rows it faces the way it goes, level."""
        if not isinstance(self.path, tuple):
            assert isinstance(self.path, Trajectory)  # the validator's other case
            return self.path
        rows = np.asarray(self.path, dtype=np.float64)
        step = np.diff(rows[:, 1:3], axis=0)
        yaw_deg = np.degrees(np.arctan2(step[:, 1], step[:, 0]))
        moving = np.flatnonzero(np.any(step != 0.0, axis=1))
        if len(moving):
            # Where it waits it faces as it came, and before its first move as it will leave.
            latest = np.searchsorted(moving, np.arange(len(rows)), side="right") - 1
            yaw_deg = yaw_deg[moving[np.maximum(latest, 0)]]
        else:
            yaw_deg = np.zeros(len(rows))
        poses = [Pose(xyz, rpy_deg=(0.0, 0.0, yaw)) for xyz, yaw in zip(rows[:, 1:], yaw_deg.tolist(), strict=True)]
        return Waypoints(rows[:, 0].tolist(), poses)


def _a_list(value: Any) -> Any:
    if not isinstance(value, (list, tuple)):
        raise ValueError("must be a list of dust clouds and trails")
    return value


Dust = Annotated[DustCloud | DustTrail, Field(discriminator="kind")]


class WeatherFields(Config):
    """A whole weather file: parts in full, or their one number in short."""

    rain: Rain | None = None
    fog: Fog | None = None
    snow: Snow | None = None
    rain_rate_mm_h: RainRate | None = None
    """Short for `rain` with this rate."""
    visibility_m: Visibility | None = None
    """Short for `fog` with this visibility."""
    snow_rate_mm_h: SnowRate | None = None
    """Short for `snow` with this rate."""
    dust: Annotated[list[Dust], BeforeValidator(_a_list)] = Field(default_factory=list)
    wind_m_s: tuple[Wind, Wind, Wind] = (0.0, 0.0, 0.0)
    """Velocity of the air, the same everywhere."""
    seed: Annotated[WholeNumber, _within(0, 2**64 - 1)] = 0
    """Chooses where eddies and cells are, and how dust swirls."""

    @field_validator("rain_rate_mm_h", "visibility_m", "snow_rate_mm_h")
    @classmethod
    def _said_once(cls, value: Schedule | None, info: ValidationInfo) -> Schedule | None:
        part = {"rain_rate_mm_h": "rain", "visibility_m": "fog", "snow_rate_mm_h": "snow"}[info.field_name or ""]
        if value is not None and info.data.get(part) is not None:
            raise ValueError(f"give {part} or {info.field_name}, not both")
        return value
