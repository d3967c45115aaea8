"""Data sheets of small sensors, `<kind>/<vendor>-<model>.yaml`, and the one way to read any such sheet."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

from pydantic import BaseModel

from parhelion.core import config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.reading import shown

FOLDER = Path(__file__).resolve().parent
YAML_SUFFIXES = (".yaml", ".yml")

Model = TypeVar("Model", bound=BaseModel)


def sheet_names(folder: Path) -> list[str]:
    """Names of all sheets below a folder, such as `bosch/bmi160`, sorted."""
    return sorted(file.relative_to(folder).with_suffix("").as_posix() for file in folder.rglob("*.yaml"))


def load_sheet(model: type[Model], kind: str, folder: Path, name_or_path: str | PathLike[str]) -> Model:
    """A checked sheet by its name in `folder` (any case) or by the path of a YAML file.

    `kind` is the word for the sensor in errors. The result is kept until the file changes.
    """
    text = str(name_or_path)
    names = sheet_names(folder)
    if text.lower() in names:
        file = folder / f"{text.lower()}.yaml"
    else:
        file = Path(name_or_path)
        if file.suffix.lower() not in YAML_SUFFIXES:
            raise unknown_name(kind, text, names, "(or give the path of a YAML file)")
    try:
        state = file.stat()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        raise ConfigError(f"{shown(file)}: no such file") from None
    return cast(Model, _load(model, file, state.st_mtime_ns, state.st_size))


def sheet_of(
    kind_of_sheet: type[Model], kind: str, folder: Path, model: str | PathLike[str] | Model
) -> tuple[Model, str]:
    """A sheet, and what its sensor is called: a sheet as it is, or what `load_sheet` finds."""
    if isinstance(model, kind_of_sheet):
        return model, str(getattr(model, "name", kind))
    return load_sheet(kind_of_sheet, kind, folder, cast("str | PathLike[str]", model)), str(model).lower()


def given_sheet(
    kind: str, kind_of_sheet: type[Model], load: Callable[[str | PathLike[str]], Model], given: Any
) -> tuple[Model, str]:
    """The sheet that a user gave, and one name for its model, however it is spelt: random streams go by it."""
    if isinstance(given, kind_of_sheet):
        return given, str(getattr(given, "name", kind))
    if not isinstance(given, (str, PathLike)):
        name, got = kind_of_sheet.__name__, type(given).__name__
        article = "an" if name[0] in "AEIOU" else "a"
        raise ConfigError(f"{kind}: give the name of a preset, a YAML file or {article} {name}, got {got}")
    sheet = load(given)
    is_file = Path(given).suffix.lower() in YAML_SUFFIXES
    return sheet, str(getattr(sheet, "name", kind)) if is_file else str(given).lower()


@lru_cache(maxsize=256)
def _load(model: type[BaseModel], file: Path, modified_ns: int, size: int) -> BaseModel:
    """`modified_ns` and `size` are part of the key only, so that an edited file is read again."""
    return config.load(model, file)
