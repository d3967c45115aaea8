"""Vehicle presets: one data sheet per file, `<maker>/<model>.yaml`."""

from __future__ import annotations

from functools import lru_cache
from os import PathLike
from pathlib import Path
from typing import Annotated

from pydantic import Field

from parhelion.core import config as files
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.motion.vehicles.base import Vehicle
from parhelion.motion.vehicles.ground import Car, DifferentialDrive
from parhelion.motion.vehicles.multirotor import Multirotor
from parhelion.motion.vehicles.sheets import (
    CarConfig,
    DifferentialConfig,
    MultirotorConfig,
    VehicleConfig,
    VesselConfig,
)
from parhelion.motion.vehicles.vessel import Vessel
from parhelion.motion.water import Water

FOLDER = Path(__file__).resolve().parents[1] / "presets"
YAML_SUFFIXES = (".yaml", ".yml")


_Sheet = Annotated[VehicleConfig, Field(discriminator="kind")]


def vehicle_names() -> list[str]:
    """Sorted names of all vehicle presets, for example `clearpath/husky`."""
    return sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.yaml"))


def vehicle_sheet(name_or_path: str | PathLike[str]) -> VehicleConfig:
    """Return a checked data sheet by preset name (any case) or path of a YAML file; cached until the file changes."""
    text, names = str(name_or_path), vehicle_names()
    file = FOLDER / f"{text.lower()}.yaml" if text.lower() in names else Path(name_or_path)
    if file.suffix.lower() not in YAML_SUFFIXES:
        raise unknown_name("vehicle", text, names, "(or give the path of a YAML file)")
    try:
        state = file.stat()
    except OSError:
        raise ConfigError(f"{file}: no such file") from None
    return _load(file, state.st_mtime_ns, state.st_size)


@lru_cache(maxsize=64)
def _load(file: Path, modified_ns: int, size: int) -> VehicleConfig:
    """Read a data sheet. `modified_ns` and `size` are only cache keys, so that an edited file is read again."""
    sheet: VehicleConfig = files.check(_Sheet, files.read_yaml(file), file)
    return sheet


def vehicle(model: str | PathLike[str] | VehicleConfig, *, water: Water | None = None) -> Vehicle:
    """Return a vehicle by preset name, YAML file or data sheet; a vessel floats on `water`, calm by default."""
    if not isinstance(model, (str, PathLike)):
        return _made(model, water)
    sheet = vehicle_sheet(model)
    try:
        return _made(sheet, water)
    except ConfigError as error:
        raise ConfigError(f"{model}: {error}") from None


def _made(sheet: VehicleConfig, water: Water | None) -> Vehicle:
    if isinstance(sheet, VesselConfig):
        return Vessel(sheet, water)
    if water is not None:
        raise ConfigError(f"{sheet.name}: water is only for vessels, but this is a {sheet.kind}; omit it")
    if isinstance(sheet, DifferentialConfig):
        return DifferentialDrive(sheet)
    if isinstance(sheet, CarConfig):
        return Car(sheet)
    if isinstance(sheet, MultirotorConfig):
        return Multirotor(sheet)
    raise ConfigError(f"vehicle: must be a name, a path or a data sheet, got {type(sheet).__name__}")
