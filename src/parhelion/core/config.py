"""Typed configuration from YAML. Errors name the file, the field's path and what is allowed there."""

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
# How large a YAML file may become. A few hundred bytes of references to references can stand for terabytes.
# The check follows the parser's events, before anything is built of them. What a reference stands for counts each time,
# as it does for whoever walks over the data afterwards.


DEEPEST_NESTING = 100
"""The C loader builds nested values by recursion without a limit: deep nesting would end the process."""
MOST_VALUES = 1_500_000
"""A layout with the largest height map has a million numbers; building so many takes some seconds."""
MOST_KEYS = 20_000
"""Keys of one mapping. Whole numbers can be chosen so that all fall into one slot of the table."""
LONGEST_NUMBER = 400
"""Digits grow into numbers in quadratic time."""

_NUMBER = re.compile(r"[-+0-9._:eExXoa-fA-F]+")


def check_events(file: Path, events: Iterable[Any]) -> None:
    """Raise ConfigError where the file is too deep, too large, or refers to itself."""
    known: dict[str, tuple[int, int]] = {}  # values and levels of what each anchor stands for
    outer: list[tuple[Any, int, int, int]] = []  # start, values, levels and entries of each collection around
    start: Any = None  # of the collection that is open, and what it holds so far, itself included
    values, levels, entries = 1, 0, 0
    for event in events:
        kind = type(event)
        if kind is yaml.ScalarEvent:
            more, below = 1, 0
            if len(event.value) > LONGEST_NUMBER and event.implicit[0] and _NUMBER.fullmatch(event.value):
                raise _error(file, event, f"holds a number of more than {LONGEST_NUMBER} digits")
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
            raise _error(file, event, f"holds more than {MOST_VALUES} values, references counted each time")
        if below >= levels:
            levels = below + 1
            if len(outer) + below > DEEPEST_NESTING:
                raise _error(file, event, f"is nested deeper than {DEEPEST_NESTING} levels")
        if entries > 2 * MOST_KEYS and type(start) is yaml.MappingStartEvent:
            raise _error(file, event, f"holds a mapping of more than {MOST_KEYS} keys")


def _error(file: Path, event: Any, problem: str) -> ConfigError:
    where = f" line {event.start_mark.line + 1}" if event.start_mark else ""
    return ConfigError(f"{file}:{where} {problem}")


# ---- config ---------------------------------------------------------------------------------------------------------


LARGEST_CONFIG_BYTES = 64 * 1024 * 1024

# The C parser is several times faster on presets with long channel tables.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class Config(BaseModel):
    """Base of all configuration models: unknown fields are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)

    @classmethod
    def type_of(cls, field: str, data: Mapping[Any, Any]) -> Any:
        """Type of a field that depends on other fields, for error messages; None for the annotated one."""
        return None


class At(str):
    """A field of a file as the source of what is below it: errors of `At("a.yaml", "weather")` name `weather.rain`."""

    def __new__(cls, source: str | PathLike[str], field: str) -> At:
        made = super().__new__(cls, f"{source}: {field}")
        made.source, made.field = source, field
        return made

    source: str | PathLike[str]
    field: str


# ---- fields that data sheets share ----------------------------------------------------------------------------------


LARGEST_NUMBER = 1e9
"""No quantity of a data sheet comes near to this in its unit; far larger ones overflow on the way."""
Positive = Annotated[float, Field(gt=0, le=LARGEST_NUMBER)]
NonNegative = Annotated[float, Field(ge=0, le=LARGEST_NUMBER)]
Number = Annotated[float, Field(ge=-LARGEST_NUMBER, le=LARGEST_NUMBER)]
Fraction = Annotated[float, Field(ge=0, le=1)]


class Source(Config):
    """Where numbers of a data sheet come from."""

    title: str
    covers: list[str] = Field(min_length=1)
    """Fields of this file that the source gives, by path, such as `pattern.channels`."""
    note: str = ""
    quoted: bool = False
    """Figures as commonly quoted from this source, which was not at hand: not checked against it. Compare them with the
    sheet of your own unit."""


class DataSheet(Config):
    """Fields of every data sheet."""

    name: str
    sources: list[Source] = Field(min_length=1)
    assumed: dict[str, str] = Field(default_factory=dict)
    """Fields that no source gives, and why this value was taken."""


class SampledSheet(DataSheet):
    """Data sheet of a sensor that measures samples at a rate."""

    rate_hz: Positive
    """Samples a second by default."""
    max_rate_hz: Positive

    @model_validator(mode="after")
    def _rates(self) -> Self:
        if self.rate_hz > self.max_rate_hz:
            raise ValueError(f"rate_hz ({self.rate_hz}) must not be above max_rate_hz ({self.max_rate_hz})")
        return self


Model = TypeVar("Model", bound=BaseModel)


def read_yaml(path: str | PathLike[str]) -> Any:
    """The data of a YAML file (safe subset: data only, no code)."""
    file = Path(path)
    with reading(file, ConfigError):
        return yaml_data(file, _text(file))


def yaml_data(file: Path, text: str) -> Any:
    """The data of a YAML file's text; `file` is named in errors."""
    try:
        check_events(file, yaml.parse(text, Loader=_Loader))
        return yaml.load(text, Loader=_Loader)
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid YAML"
        raise ConfigError(f"{file}:{where} {problem}") from None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError) as error:
        # What PyYAML lets through for values that are none of their type, such as the date 2020-99-99.
        why = f" ({shortened(str(error))})" if isinstance(error, ValueError) else ""
        raise ConfigError(f"{file}: holds a value that is not valid for its YAML type{why}") from None


def _text(file: Path) -> str:
    content = read_bytes(file, ConfigError, largest=LARGEST_CONFIG_BYTES, what="a configuration file")
    try:
        return content.decode("utf-8")
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: is not a text file") from None


def parse(model: type[Model], data: Any, source: str | PathLike[str]) -> Model:
    """Check `data` against `model`; `source` is the file's name, or words for where the data came from."""
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected a mapping of fields, {got(data)}")
    with reading(source, ConfigError):
        return cast(Model, check(model, data, source))


def load(model: type[Model], path: str | PathLike[str]) -> Model:
    """Read and check one YAML file."""
    return parse(model, read_yaml(path), path)


def check(annotation: Any, value: Any, source: str | PathLike[str], *, strict: bool | None = None) -> Any:
    """Check one value against a type; `source` stands first in the error."""
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
