"""Typed configuration from YAML. Errors name the file, the field's path and what is allowed there."""

from __future__ import annotations

import re
from collections.abc import Iterable
from os import PathLike
from pathlib import Path
from types import NoneType, UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

import yaml
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from parhelion.core.errors import ConfigError, nearest_name
from parhelion.core.reading import read_bytes, reading

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
        why = f" ({_shortened(str(error))})" if isinstance(error, ValueError) else ""
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
        raise ConfigError(f"{source}: expected a mapping of fields, got {type(data).__name__}")
    with reading(source, ConfigError):
        try:
            return model.model_validate(data)
        except ValidationError as error:
            raise ConfigError(_sentence(model, error, str(source))) from None


def load(model: type[Model], path: str | PathLike[str]) -> Model:
    """Read and check one YAML file."""
    return parse(model, read_yaml(path), path)


def _sentence(model: type[BaseModel], error: ValidationError, source: str) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        location = problem["loc"]
        if problem["type"] == "extra_forbidden":
            nearest = nearest_name(str(location[-1]), _fields_at(model, location))
            text = "unknown field" + (f"; did you mean {nearest!r}?" if nearest else "")
        elif problem["type"] == "missing":
            text = "is required"
        elif problem["type"] == "union_tag_not_found":
            text = f"its field {problem['ctx']['discriminator']} is required"
        else:
            text = problem["msg"][0].lower() + problem["msg"][1:]
            text = text.removeprefix("value error, ")
            value = problem.get("input")
            if isinstance(value, (str, int, float, bool)) or value is None:
                text += f", got {_shown(value)}"
        lines.append(f"{_path(location)}: {text}")
    return f"{source}: " + "; ".join(lines[:5]) + (f"; and {len(lines) - 5} more" if len(lines) > 5 else "")


def _path(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        word = _shortened(str(part) if str(part).isprintable() else repr(part))
        text += f"[{part}]" if isinstance(part, int) else f".{word}" if text else word
    return text or "(top level)"


def _shortened(text: str) -> str:
    return text if len(text) <= 80 else text[:60] + " ..."


def _shown(value: str | int | float | bool | None) -> str:
    if isinstance(value, int) and abs(value) >= 10**30:
        return "a number of more than 30 digits"  # Python refuses to print the longest ones
    return _shortened(repr(value[:100] if isinstance(value, str) else value))


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Field names of the model that holds the field at `location`, for a nearest-name hint."""
    types: list[Any] = [model]
    for part in location[:-1]:
        if len(types) > 1:  # of several types, pydantic's location names the one it tried
            types = [one for one in types if _is_meant(one, part)]
        elif types and _is_model(types[0]):
            types = _types(types[0].model_fields[part].annotation) if part in types[0].model_fields else []
        else:
            types = [one for inner in map(get_args, types) if inner for one in _types(inner[-1])]
    return [name for one in types if _is_model(one) for name in one.model_fields]


def _types(annotation: Any) -> list[Any]:
    """The types that an annotation allows, None aside."""
    if get_origin(annotation) is Annotated:
        return _types(get_args(annotation)[0])
    if get_origin(annotation) in (Union, UnionType):
        return [one for member in get_args(annotation) for one in _types(member)]
    return [] if annotation is NoneType else [annotation]


def _is_model(annotation: Any) -> bool:
    return isinstance(annotation, type) and issubclass(annotation, BaseModel)


def _is_meant(annotation: Any, word: int | str) -> bool:
    """Whether `word`, pydantic's name for a member of a union, stands for this model: its class or its tag."""
    if not _is_model(annotation):
        return False
    tags = (tag for field in annotation.model_fields.values() for tag in get_args(field.annotation))
    return word == annotation.__name__ or word in tags
