"""Data sheets of sensors: one tree, `presets/<kind>/<maker>/<model>.yaml`, and its reader.

preset_names("imu")                              # ["analog-devices/adis16470", "bosch/bmi160", ...]
load_sheet("imu", ImuConfig, "bosch/bmi160")     # or the path of a YAML file
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, Generic, TypeVar, cast

from pydantic import BaseModel

from parhelion.core import config
from parhelion.core.deprecation import warn_deprecated
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.reading import shown

PRESETS = Path(__file__).resolve().parent / "presets"
YAML_SUFFIXES = (".yaml", ".yml")
RENAMED = {
    "odometry": {
        "clearpath-husky": "clearpath/husky",
        "passenger-car": "generic/passenger-car",
        "pioneer-p3-dx": "pioneer/p3-dx",
    },
    "barometer": {"bosch-bmp388": "bosch/bmp388", "te-ms5611": "te/ms5611"},
    "magnetometer": {"akm-ak8963": "akm/ak8963", "bosch-bmm150": "bosch/bmm150", "pni-rm3100": "pni/rm3100"},
}
"""Renamed presets by kind: old name to new name. Random streams use the old name, so that seeds give the same noise."""

Model = TypeVar("Model", bound=BaseModel)


@dataclass(frozen=True)
class Sheet(Generic[Model]):
    """A validated data sheet and its origin."""

    config: Model
    preset: str | None = None
    """Name of the preset, `maker/model`; None for a user's own file or configuration."""
    file: Path | None = None

    @property
    def name(self) -> str:
        """Name of the preset, or the name in the sheet."""
        return str(getattr(self.config, "name", "")) if self.preset is None else self.preset

    @property
    def folder(self) -> Path | None:
        """Folder to which file names in the sheet are relative."""
        return None if self.file is None else self.file.parent


@lru_cache(maxsize=64)
def _names(kind: str) -> tuple[str, ...]:
    folder = PRESETS / kind
    return tuple(sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.glob("*/*.yaml")))


def preset_names(kind: str) -> list[str]:
    """Names of the presets of a kind that ship with Parhelion, such as `bosch/bmi160`, sorted."""
    return list(_names(kind))


def stream_key(kind: str, model: str) -> str:
    """Name of a model in the keys of its random streams."""
    return next((old for old, new in RENAMED.get(kind, {}).items() if new == model), model)


def load_sheet(kind: str, model: type[Model], name_or_path: str | PathLike[str]) -> Model:
    """Load a validated sheet by preset name (any case) or YAML path; cached until the file changes."""
    return _opened(kind, model, name_or_path).config


def open_sheet(kind: str, model: type[Model], given: Any) -> Sheet[Model]:
    """Open a sheet given as preset name, YAML file or validated configuration."""
    if isinstance(given, model):
        return Sheet(given)
    if not isinstance(given, (str, PathLike)):
        article = "an" if model.__name__[0] in "AEIOU" else "a"
        got = type(given).__name__
        raise ConfigError(f"{kind}: give the name of a preset, a YAML file or {article} {model.__name__}, got {got}")
    return _opened(kind, model, given)


def _opened(kind: str, model: type[Model], name_or_path: str | PathLike[str]) -> Sheet[Model]:
    name = _preset(kind, str(name_or_path))
    file = Path(name_or_path) if name is None else PRESETS / kind / f"{name}.yaml"
    if file.suffix.lower() not in YAML_SUFFIXES:
        raise _unknown(kind, str(name_or_path))
    try:
        state = file.stat()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        raise ConfigError(f"{shown(file)}: no such file") from None
    return Sheet(cast(Model, _load(model, file, state.st_mtime_ns, state.st_size)), name, file)


def _preset(kind: str, text: str) -> str | None:
    """Canonical name of a preset; None if there is no such preset."""
    name = text.lower()
    new = RENAMED.get(kind, {}).get(name)
    if new is not None:
        warn_deprecated(f"the {kind} preset {name!r}", repr(new), stacklevel=7)
        return new
    return name if name in _names(kind) else None


def _unknown(kind: str, text: str) -> ConfigError:
    """Error for a name that is not a preset of a kind; it names the kind that has such a preset."""
    for other in sorted(folder.name for folder in PRESETS.iterdir() if folder.is_dir()):
        if text.lower() in _names(other):
            return ConfigError(
                f"{text!r} is a sensor of the kind {other!r}, not {kind!r}; `parhelion measure` takes any kind"
            )
    return unknown_name(kind, text, _names(kind), "(or give the path of a YAML file)")


@lru_cache(maxsize=256)
def _load(model: type[BaseModel], file: Path, modified_ns: int, size: int) -> BaseModel:
    """`modified_ns` and `size` are part of the key only, so that an edited file is read again."""
    return config.load(model, file)


# ---- noise that a sheet leaves out -----------------------------------------------------------------------------------

_NOISE = re.compile(
    "noise|sigma|jitter|bias|instability|_error_|drift|misalignment|scale_factor|slip|steering_offset|offset_p|hard_iron|soft_iron|"
    "dark_current|prnu|dsnu|dropout|false_alarm|sensitivity_deg|shadowing"
)
"""Parts of the names of fields that describe errors of a sensor."""


def unstated_noise(config: BaseModel, path: str = "") -> list[str]:
    """Paths of the noise fields of a data sheet that it does not give and whose default is 0.

    A table of range noise stands for the two numbers of its law.
    """
    found = []
    for name in type(config).model_fields:
        value = getattr(config, name)
        if isinstance(value, BaseModel):
            found += unstated_noise(value, f"{path}{name}.")
        elif (
            name not in config.model_fields_set
            and isinstance(value, float)
            and value == 0.0
            and _NOISE.search(f"{name}_")
            and not (name.startswith("range_sigma") and getattr(config, "range_sigma_table", None))
        ):
            found.append(f"{path}{name}")
    return found
