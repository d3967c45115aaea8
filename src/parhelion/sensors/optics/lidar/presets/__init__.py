"""The lidar models that come with Parhelion: one data sheet a file, `<vendor>/<model>.yaml`."""

from __future__ import annotations

from functools import lru_cache
from os import PathLike
from pathlib import Path

from parhelion.core import config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.reading import shown
from parhelion.sensors.optics.lidar.config import LidarConfig

FOLDER = Path(__file__).resolve().parent
YAML_SUFFIXES = (".yaml", ".yml")


def preset_names() -> list[str]:
    """Names of all presets, such as `velodyne/vlp-16`, sorted."""
    return sorted(f"{file.parent.name}/{file.stem}" for file in FOLDER.glob("*/*.yaml"))


def canonical_name(name_or_path: str | PathLike[str]) -> str:
    """The name of a preset as the list has it, whatever case it is given in; paths as they are."""
    text = str(name_or_path)
    return text.lower() if text.lower() in preset_names() else text


def load_preset(name_or_path: str | PathLike[str]) -> tuple[LidarConfig, Path]:
    """A checked data sheet and the file it came from, by preset name (any case) or by path of a YAML file.

    The result is kept until the file changes. Files that a pattern names lie relative to the returned path's folder.
    """
    text = str(name_or_path)
    names = preset_names()
    if text.lower() in names:
        file = FOLDER / f"{text.lower()}.yaml"
    else:
        file = Path(name_or_path)
        if file.suffix.lower() not in YAML_SUFFIXES:
            raise unknown_name("sensor", text, names, "(or give the path of a YAML file)")
    try:
        state = file.stat()
    except (OSError, ValueError):  # ValueError: a NUL in the name
        raise ConfigError(f"{shown(file)}: no such file") from None
    return _load(file, state.st_mtime_ns, state.st_size), file


@lru_cache(maxsize=256)
def _load(file: Path, modified_ns: int, size: int) -> LidarConfig:
    """`modified_ns` and `size` are part of the key only, so that an edited file is read again."""
    return config.load(LidarConfig, file)
