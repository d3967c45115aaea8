"""Building blocks of the parts of a weather: schedules, checks of single values, amounts, heterogeneity.

The parts themselves are in `media`. They are validated on creation; a wrong value raises a `ConfigError` that names the
field. Units are in the names.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, overload

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
    model_serializer,
    model_validator,
)

from parhelion.core.config import Config, parse
from parhelion.core.deprecation import warn_deprecated
from parhelion.core.errors import ConfigError, nearest_name

if TYPE_CHECKING:
    from parhelion.weather.grids import DensityGrid
    from parhelion.weather.weather import Weather

DEFAULT_CELL_SCALE_M = 300.0
"""Default size of rain and snow cells."""
_MOST_CHANGES = 7
"""Largest number of schedule entries that a report lists."""

Schedule = float | Sequence[Sequence[float]]
"""Constant number, or pairs of time [s] and value: linear in between, constant before the first and after the last."""


@overload
def value_at(schedule: Schedule, time: float) -> float: ...


@overload
def value_at(schedule: Schedule, time: NDArray[Any]) -> NDArray[np.float64]: ...


def value_at(schedule: Schedule, time: float | NDArray[Any]) -> float | NDArray[np.float64]:
    """Value of a schedule at a time [s], or at each of an array of times."""
    times = seconds(time)
    if isinstance(schedule, Sequence):
        at, value = np.asarray(schedule, dtype=np.float64).T
        # Rounding of the interpolation may exceed the values of both points, or fall below zero.
        found = np.clip(np.interp(times, at, value), value.min(), value.max())
    else:
        found = np.full(times.shape, schedule, dtype=np.float64)
    return found if times.ndim else float(found)


def seconds(time: Any) -> NDArray[np.float64]:
    """Validated time or array of times [s]."""
    try:
        times = np.asarray(time, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"weather: time must be a number of seconds, got {time!r}") from None
    if np.isnan(times).any():
        raise ConfigError("weather: time must be a number of seconds, got nan")
    return times


def bounds_of(schedule: Schedule) -> tuple[float, float]:
    """Smallest and largest value of a schedule."""
    values = [float(pair[1]) for pair in schedule] if isinstance(schedule, Sequence) else [float(schedule)]
    return min(values), max(values)


# ---- checks of single values ---------------------------------------------------------------------------------------


def plain(value: Any) -> Any:
    """Value as plain YAML types: NumPy numbers and arrays become Python numbers and lists."""
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    if isinstance(value, Mapping):
        return {name: plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(entry) for entry in value]
    return value


def _no_truth_value(value: Any) -> Any:
    # YAML parses `yes` and `on` as true, which would count as 1.
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


def within(low: float, high: float, unit: str = "") -> AfterValidator:
    """Validator of a field that holds a number from `low` to `high`."""
    check = _range_check(low, high, unit)
    return AfterValidator(lambda value: check(value, ""))


Number = Annotated[float, BeforeValidator(_no_truth_value), Field(allow_inf_nan=False)]
WholeNumber = Annotated[int, BeforeValidator(_no_truth_value)]
Time = Annotated[Number, within(-1e12, 1e12, "s")]
Coordinate = Annotated[Number, within(-1e9, 1e9, "m")]
HalfSize = Annotated[Number, within(0.01, 1e5, "m")]
Wind = Annotated[Number, within(-100.0, 100.0, "m/s")]

_NUMBER: TypeAdapter[float] = TypeAdapter(Number)
_PAIRS: TypeAdapter[tuple[tuple[float, float], ...]] = TypeAdapter(
    Annotated[tuple[tuple[Time, Number], ...], Field(min_length=1)]
)


def increasing(rows: tuple[tuple[float, ...], ...]) -> None:
    """Raise ValueError if the first entries of rows, times [s], do not increase."""
    for before, after in pairwise(rows):
        if not before[0] < after[0]:
            raise ValueError(f"times must increase, but {after[0]:.12g} s follows {before[0]:.12g} s")


@dataclass(frozen=True)
class _Scheduled(PlainValidator):
    """Validator of a schedule, with a description for error messages."""

    description: str = ""


def scheduled(low: float, high: float, unit: str, hint: str = "") -> PlainValidator:
    """Validator of a field that holds a schedule with values from `low` to `high`."""
    in_range = _range_check(low, high, unit, hint)

    def check(value: Any) -> Schedule:
        if not isinstance(value, (list, tuple)):
            return in_range(_NUMBER.validate_python(value), "")
        pairs = _PAIRS.validate_python(value)
        for time, entry in pairs:
            in_range(entry, f", got {entry:.12g} at {time:.12g} s")
        increasing(pairs)
        return pairs

    words = f"a number from {_text(low)} to {_text(high)}{unit and ' ' + unit}"
    return _Scheduled(check, description=f"{words}, or pairs [[time_s, value], ...]")


def name_of(names: tuple[str, ...]) -> BeforeValidator:
    """Validator of a field that holds one of several names; the error suggests the nearest one."""

    def check(value: Any) -> Any:
        if isinstance(value, str) and value in names:
            return value
        nearest = nearest_name(value, names) if isinstance(value, str) else None
        hint = f" (did you mean {nearest!r}?)" if nearest else ""
        raise ValueError(f"must be one of {', '.join(names)}{hint}")

    return BeforeValidator(check)


# ---- the parts of a weather ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Slider:
    """Slider of the viewer. The amount is the slider's value times `scale`."""

    top: float
    step: float
    low: float = 0.0
    unit: str = ""
    """Unit on the slider; that of the amount by default."""
    scale: float = 1.0
    hint: str = ""
    marks: tuple[tuple[float, str], ...] = ()


@dataclass(frozen=True)
class Amount:
    """Main quantity of a medium: a rate, a visibility, a density."""

    field: str
    """Field of the part, for example `rate_mm_h`."""
    short: str
    """Name in weather files, studies, `Weather(...)` and `Conditions`; empty for a placed medium."""
    option: str
    """Shell option, for example `--rain`."""
    metavar: str
    help: str
    unit: str
    low: float
    high: float
    slider: Slider
    clear: float = 0.0
    """Value in clear air: 0, or infinity for a visibility."""
    word: str = ""
    """Name of the amount in text, by default the name of the medium."""
    limit_note: str = ""
    """Text after the unit in error messages."""
    report_unit: str = ""
    """Unit in reports, by default `unit`."""
    default: float | None = None
    """Default amount of a placed part in the shell."""

    @property
    def check(self) -> PlainValidator:
        """Validator of the field: a number or a schedule within the limits."""
        return scheduled(self.low, self.high, self.unit, self.limit_note)

    def at(self, part: MediumPart | None, time: float) -> float:
        """Amount of a part at a time [s]; that of clear air if the part or its field is missing."""
        return value_at(getattr(part, self.field, self.clear), time)


class _Checked(Config):
    """Configuration from code or from a file; a wrong value raises a `ConfigError` in both cases."""

    def __init__(self, /, **data: Any) -> None:
        fields = {name: plain(value) for name, value in data.items()}
        try:
            super().__init__(**fields)
        except ValidationError:
            parse(type(self), fields, type(self).__name__)  # raises the same error with a readable message
            raise

    # A nested model skips this `__init__`, so that the location of an error stays complete.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]

    def to_mapping(self) -> dict[str, Any]:
        """Fields that differ from their defaults, as in a file."""
        return self.model_dump(mode="json", exclude_defaults=True)


class MediumPart(_Checked):
    """Base of the parts of a weather; each medium has one or more classes."""

    renamed: ClassVar[Mapping[str, str]] = {}
    """Earlier names of fields, which are still accepted."""

    @model_validator(mode="before")
    @classmethod
    def _accept_old_names(cls, data: Any) -> Any:
        for old, new in cls.renamed.items():
            if isinstance(data, dict) and old in data and new not in data:
                warn_deprecated(f"weather: the field {old!r}", f"{new!r}")
                data = {new if name == old else name: value for name, value in data.items()}
        return data

    def is_there(self, amount: Amount, time: float | None = None) -> bool:
        """Return True if the air holds some of it at a time [s], or at any time."""
        if time is not None:
            return amount.at(self, time) != amount.clear
        return bounds_of(getattr(self, amount.field)) != (amount.clear, amount.clear)

    def is_constant(self, amount: Amount) -> bool:
        """Return True if the amount is the same at all times."""
        low, high = bounds_of(getattr(self, amount.field))
        return low == high

    def summary(self, name: str, amount: Amount) -> tuple[str, str, str]:
        """Name, amount and times for a report."""
        return name, *schedule_words(getattr(self, amount.field), amount.report_unit or amount.unit)


def schedule_words(schedule: Schedule, unit: str) -> tuple[str, str]:
    """Amounts and times of a schedule as text; the middle of a long one is omitted."""
    if not isinstance(schedule, Sequence):
        return f"{schedule:g} {unit}", "all the time"
    pairs = [(f"{pair[0]:g}", f"{pair[1]:g}") for pair in schedule]
    if len(pairs) > _MOST_CHANGES:
        pairs = [*pairs[: _MOST_CHANGES - 1], ("…", "…"), pairs[-1]]
    times, values = zip(*pairs, strict=True)
    return f"{' → '.join(values)} {unit}", f"at {', '.join(times)} s"


def range_words(schedule: Schedule) -> str:
    """Smallest and largest value of a schedule as text."""
    low, high = bounds_of(schedule)
    return f"{low:g}" if low == high else f"{low:g} to {high:g}"


class PlacedCloud(MediumPart):
    """Base of manually placed clouds: an axis-aligned ellipsoid, densest at the centre."""

    centre_m: tuple[Coordinate, Coordinate, Coordinate]
    """Centre in the world at time 0."""
    half_size_m: tuple[HalfSize, HalfSize, HalfSize]
    """Semi-axes along x, y and z, where the cloud ends."""
    drifts: bool = False
    """True if the wind carries the cloud."""

    def summary(self, name: str, amount: Amount) -> tuple[str, str, str]:
        """Place, density and times for a report."""
        place = ", ".join(f"{value:g}" for value in self.centre_m)
        return f"{name} cloud at ({place})", *schedule_words(getattr(self, amount.field), amount.report_unit)

    def grid(self, weather: Weather, time: float, amount: Amount) -> DensityGrid:
        """Density at a time [s]."""
        from parhelion.weather.grids import ellipsoid_cloud

        drift = np.array(weather.wind_m_s) * time if self.drifts else np.zeros(3)
        return ellipsoid_cloud(np.array(self.centre_m) + drift, self.half_size_m, amount.at(self, time))


class Heterogeneity(_Checked):
    """Variation of density from place to place: a sum of noise octaves that drifts with the wind.

    The factor on density has mean 1 over space and is never negative. The rate or visibility of the part is therefore
    the mean.

    >>> ph.Fog(visibility_m=120, heterogeneity=ph.Heterogeneity(scale_m=15)).heterogeneity.scale_m
    15.0
    """

    scale_m: Annotated[Number, within(0.1, 1e5, "m")] = 40.0
    """Size of the largest eddies or cells [m]; by default 40 in fog and 300 for cells of rain and snow."""
    octaves: Annotated[WholeNumber, within(1, 6)] = 4
    """Number of sizes, each half of the previous one."""
    roughness: Annotated[Number, within(0.0, 1.0)] = 0.5
    """Ratio of the amplitudes of successive octaves."""
    contrast: Annotated[Number, within(0.0, 1.0)] = 0.5
    """Standard deviation of density relative to its mean."""

    @model_serializer(mode="wrap")
    def _with_scale(self, handler: SerializerFunctionWrapHandler) -> dict[str, Any]:
        # The default scale depends on the medium, so it is always written.
        return {"scale_m": self.scale_m, **handler(self)}


def _at_cell_scale(value: Any) -> Any:
    if isinstance(value, dict):
        return {"scale_m": DEFAULT_CELL_SCALE_M, **value}
    if isinstance(value, Heterogeneity) and "scale_m" not in value.model_fields_set:
        return value.model_copy(update={"scale_m": DEFAULT_CELL_SCALE_M})
    return value


Cells = Annotated[Heterogeneity, BeforeValidator(_at_cell_scale)]
"""Heterogeneity with the default size of rain and snow cells."""
