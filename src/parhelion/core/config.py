"""Typed configuration from YAML. Errors name the file, the field's path and what is allowed there."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import yaml
from pydantic import BaseModel, ConfigDict, ValidationError

from parhelion.core.errors import ConfigError, nearest_name

LARGEST_CONFIG_BYTES = 64 * 1024 * 1024


class Config(BaseModel):
    """Base of all configuration models: unknown fields are errors, values are frozen."""

    model_config = ConfigDict(extra="forbid", frozen=True, allow_inf_nan=False)


Model = TypeVar("Model", bound=BaseModel)


def read_yaml(path: str | PathLike[str]) -> Any:
    """The data of a YAML file (safe subset: data only, no code)."""
    file = Path(path)
    try:
        if file.stat().st_size > LARGEST_CONFIG_BYTES:
            raise ConfigError(f"{file}: larger than {LARGEST_CONFIG_BYTES >> 20} MiB, not a configuration file")
        text = file.read_text(encoding="utf-8")
    except FileNotFoundError:
        raise ConfigError(f"{file}: no such file") from None
    except IsADirectoryError:
        raise ConfigError(f"{file}: is a folder, not a file") from None
    except UnicodeDecodeError:
        raise ConfigError(f"{file}: is not a text file") from None
    except OSError as error:
        raise ConfigError(f"{file}: cannot be read ({error.strerror})") from None
    try:
        # The C parser is several times faster on presets with long channel tables.
        return yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        where = f" line {mark.line + 1}, column {mark.column + 1}" if mark else ""
        problem = getattr(error, "problem", None) or "not valid YAML"
        raise ConfigError(f"{file}:{where} {problem}") from None
    except RecursionError:
        raise ConfigError(f"{file}: nested too deeply") from None


def parse(model: type[Model], data: Any, source: str | PathLike[str]) -> Model:
    """Check `data` against `model`; `source` is the file's name, or words for where the data came from."""
    if not isinstance(data, dict):
        raise ConfigError(f"{source}: expected a mapping of fields, got {type(data).__name__}")
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise ConfigError(_sentence(model, error, str(source))) from None


def load(model: type[Model], path: str | PathLike[str]) -> Model:
    """Read and check one YAML file."""
    return parse(model, read_yaml(path), path)


def _path(location: tuple[int | str, ...]) -> str:
    text = ""
    for part in location:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text or "(top level)"


def _fields_at(model: type[BaseModel], location: tuple[int | str, ...]) -> list[str]:
    """Field names of the model that holds the field at `location`, for a nearest-name hint."""
    current: Any = model
    for part in location[:-1]:
        if isinstance(part, int) or not (isinstance(current, type) and issubclass(current, BaseModel)):
            return []
        info = current.model_fields.get(part)
        current = info.annotation if info else None
    return list(current.model_fields) if isinstance(current, type) and issubclass(current, BaseModel) else []


def _sentence(model: type[BaseModel], error: ValidationError, source: str) -> str:
    lines = []
    for problem in error.errors(include_url=False):
        location = problem["loc"]
        if problem["type"] == "extra_forbidden":
            nearest = nearest_name(str(location[-1]), _fields_at(model, location))
            text = "unknown field" + (f"; did you mean {nearest!r}?" if nearest else "")
        elif problem["type"] == "missing":
            text = "is required"
        else:
            text = problem["msg"][0].lower() + problem["msg"][1:]
            text = text.removeprefix("value error, ")
            value = problem.get("input")
            if isinstance(value, (str, int, float, bool)) or value is None:
                text += f", got {value!r}"
        lines.append(f"{_path(location)}: {text}")
    return f"{source}: " + "; ".join(lines[:5]) + (f"; and {len(lines) - 5} more" if len(lines) > 5 else "")
