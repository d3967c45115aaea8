"""Typed configuration from YAML. Errors name the file, the path of the field and the allowed values."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, cast

import yaml
from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationError, model_validator

from parhelion.core.errors import ConfigError
from parhelion.core.explain import explained, got, shortened
from parhelion.core.reading import read_bytes, reading

if TYPE_CHECKING:
    from typing_extensions import Self

# ---- yaml limits ----------------------------------------------------------------------------------------------------
# Limits on the size of YAML data. A few hundred bytes of nested aliases can expand to terabytes.
# The check runs on the parser's events, before any value is built. An alias counts as all values that it refers to,
# because code that walks over the data visits them each time.


DEEPEST_NESTING = 100
"""Levels of nesting. The C loader recurses without a limit, so deep nesting would crash the process."""
MOST_VALUES = 1_500_000
"""Number of values. A layout with the largest height map has a million numbers and takes some seconds to load."""
MOST_KEYS = 20_000
"""Keys of one mapping. Integers can be chosen so that all collide in Python's hash table."""
LONGEST_NUMBER = 400
"""Digits of one number. Conversion from decimal takes quadratic time."""

_NUMBER = re.compile(r"[-+0-9._:eExXoa-fA-F]+")


def check_events(file: Path, events: Iterable[Any]) -> None:
    """Raise ConfigError if the file is nested too deeply, is too large, or refers to itself."""
    known: dict[str, tuple[int, int]] = {}  # number of values and levels of each anchor
    outer: list[tuple[Any, int, int, int]] = []  # start, values, levels and entries of each enclosing collection
    start: Any = None  # start event of the open collection
    values, levels, entries = 1, 0, 0  # of the open collection so far, itself included
    for event in events:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            more, below = 1, 0
            if len(event.value) > LONGEST_NUMBER and event.implicit[0] and _NUMBER.fullmatch(event.value):
                raise _error(file, event, f"contains a number of more than {LONGEST_NUMBER} digits")
            if event.anchor is not None:
                known[event.anchor] = (1, 0)
        elif kind is yaml.SequenceStartEvent or kind is yaml.MappingStartEvent:
            outer.append((start, values, levels, entries))
            if len(outer) > DEEPEST_NESTING:
                raise _error(file, event, f"is nested deeper than {DEEPEST_NESTING} levels")
            start, values, levels, entries = event, 1, 1, 0
            continue
        elif kind is yaml.SequenceEndEvent or kind is yaml.MappingEndEvent:
            more, below = values, levels
            if start.anchor is not None:
                known[start.anchor] = (values, levels)
            start, values, levels, entries = outer.pop()
        elif kind is yaml.AliasEvent:
            if event.anchor in {one.anchor for one in (start, *(row[0] for row in outer)) if one is not None}:
                raise _error(file, event, f"refers to {event.anchor!r} from within itself")
            more, below = known.get(event.anchor, (1, 0))
        else:
            continue
        values += more
        entries += 1
        if values > MOST_VALUES:
            raise _error(file, event, f"contains more than {MOST_VALUES} values, with aliases expanded")
        if below >= levels:
            levels = below + 1
            if len(outer) + below > DEEPEST_NESTING:
                raise _error(file, event, f"is nested deeper than {DEEPEST_NESTING} levels")
        if entries > 2 * MOST_KEYS and type(start) is yaml.MappingStartEvent:
            raise _error(file, event, f"contains a mapping of more than {MOST_KEYS} keys")


def _error(file: Path, event: Any, problem: str) -> ConfigError:
    where = f" line {event.start_mark.line + 1}" if event.start_mark else ""
    return ConfigError(f"{file}:{where} {problem}")


# ---- config ---------------------------------------------------------------------------------------------------------


LARGEST_CONFIG_BYTES = 64 * 1024 * 1024

# The C parser is several times faster on presets with long channel tables.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Config(BaseModel):
    """Base of all configuration models. Unknown fields are errors, and instances are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def type_of(cls, field: str, data: Mapping[Any, Any]) -> Any:
        """Type of a field if it depends on other fields, for error messages; None for the annotated type."""
        return None


class At(str):
    """Source for values below one field of a file: errors of `At("a.yaml", "weather")` name `weather.rain`."""

    def __new__(cls, source: str | PathLike[str], field: str) -> At:
        made = super().__new__(cls, f"{source}: {field}")
        made.source, made.field = source, field
        return made

    source: str | PathLike[str]
    field: str


# ---- fields that data sheets share ----------------------------------------------------------------------------------


LARGEST_NUMBER = 1e9
"""Upper limit of numbers in data sheets. Real quantities are far smaller; much larger ones would overflow."""
Positive = Annotated[float, Field(gt=0, le=LARGEST_NUMBER)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST_NUMBER)]
Number = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Source(Config):
    """Source of the numbers of a data sheet."""

    title: str
    """Title of the document, with version or date."""
    covers: list[str] = Field(min_length=1)
    """Fields of this file that the source states, by path, for example `pattern.channels`."""
    note: str = ""
    """Remarks on the source."""
    quoted: bool = False
    """True if the figures are commonly quoted from this source, but were not checked against it because it was not
    available. Compare them with the data sheet of your own unit."""


class DataSheet(Config):
    """Fields of every data sheet."""

    name: str
    """Name of the sensor."""
    sources: list[Source] = Field(min_length=1)
    """Sources of the numbers."""
    assumed: dict[str, str] = Field(default_factory=dict)
    """Fields that no source states, each with the reason for the chosen value."""


class SampledSheet(DataSheet):
    """Data sheet of a sensor that takes samples at a fixed rate."""

    rate_hz: Positive
    """Default sample rate [Hz]."""
    max_rate_hz: Positive
    """Highest sample rate [Hz]."""

    @model_validator(mode="after")
    def _rates(self) -> Self:
        if self.rate_hz > self.max_rate_hz:
            raise ValueError(f"rate_hz: must not be above max_rate_hz ({self.max_rate_hz:g} Hz), got {self.rate_hz:g}")
        return self


Model = TypeVar("Model", bound=BaseModel)


def read_yaml(path: str | PathLike[str]) -> Any:
    """Read the data of a YAML file (safe subset: data only, no code)."""
    file = Path(path)
    with reading(file, ConfigError):
        return yaml_data(file, _text(file))


def yaml_data(file: Path, text: str) -> Any:
    """Parse the text of a YAML file; errors name `file`."""
    try:
        check_events(file, yaml.parse(text, Loader=_Loader))
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid YAML"
        raise ConfigError(f"{file}:{where} {problem}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        # Exceptions that PyYAML does not wrap, for values that are invalid for their type, such as the date 2020-99-99.
        why = f" ({shortened(str(error))})" if isinstance(error, ValueError) else ""
        raise ConfigError(f"{file}: contains a value that is not valid for its YAML type{why}") from None


def _text(file: Path) -> str:
    content = read_bytes(file, ConfigError, largest=LARGEST_CONFIG_BYTES, what="a configuration file")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: is not a text file") from None


def parse(model: type[Model], data: Any, source: str | PathLike[str]) -> Model:
    """Validate `data` against `model`; `source` is the file name, or a description of the origin of the data."""
    if not isinstance(data, dict):
        empty = "; the file is empty: `parhelion new` writes a commented start" if data is None else ""
        raise ConfigError(f"{source}: expected a mapping of fields, {got(data)}{empty}")
    with reading(source, ConfigError):
        return cast(Model, check(model, data, source))


def load(model: type[Model], path: str | PathLike[str]) -> Model:
    """Read and validate one YAML file."""
    return parse(model, read_yaml(path), path)


def check(annotation: Any, value: Any, source: str | PathLike[str], *, strict: bool | None = None) -> Any:
    """Validate one value against a type; error messages start with `source`."""
    file, field = (source.source, source.field) if isinstance(source, At) else (source, "")
    is_model = isinstance(annotation, type) and issubclass(annotation, BaseModel)
    try:
        if is_model:
            return annotation.model_validate(value, strict=strict)
        return TypeAdapter(annotation).validate_python(value, strict=strict)
    except ValidationError as error:
        raise ConfigError(f"{file}: {explained(annotation, value, error, field)}") from None
    except ConfigError as error:  # raised by a validator, which does not know the file
        raise ConfigError(f"{source}: {error}") from None
