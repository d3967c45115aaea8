"""Height maps: heights of a terrain from an image, a table of numbers or an array."""

from __future__ import annotations

import io
import warnings
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.reading import array_of, file_reader, read_bytes
from parhelion.world.procedural.kinds import TerrainParams
from parhelion.world.procedural.layout import LayoutObject

IMAGE_SUFFIXES = (".png", ".tif", ".tiff", ".pgm", ".jpg", ".jpeg", ".bmp")
TABLE_SUFFIXES = (".npy", ".csv", ".txt", ".asc")
_LARGEST_FILE_BYTES = 256 * 1024 * 1024
MOST_HEIGHTS = 1_000_000
"""Largest number of grid points of a height map."""


def read_height_map(source: str | PathLike[str] | ArrayLike, *, range_m: tuple[float, float] | None = None) -> Floats:
    """Heights [m] on a grid (ny, nx), rows along y from the smallest y, from a file or an array.

    In files and arrays, the first row has the largest y, as in pictures and survey grids. Images are grey, of 8 or 16
    bits; `range_m` gives the heights of black and white. Numbers in .npy, .csv, .txt and .asc (ESRI) files, in images
    of 32-bit floats and in arrays are metres, or are scaled to `range_m` if it is given.
    """
    if isinstance(source, (str, PathLike)):
        name, (values, span) = str(source), _read(Path(source))
    else:
        name, span = "height map", None
        try:
            values = np.asarray(source, dtype=np.float64)
        except (TypeError, ValueError):
            raise ConfigError("height map: must be a path, or rows of numbers") from None
    if values.ndim != 2 or min(values.shape) < 2:
        raise ConfigError(f"{name}: a height map must have at least 2 x 2 heights, got shape {values.shape}")
    if values.size > MOST_HEIGHTS:
        raise ConfigError(f"{name}: {values.shape[0]} x {values.shape[1]} heights; the limit is {MOST_HEIGHTS}")
    if not np.isfinite(values).all():
        row, column = np.argwhere(~np.isfinite(values))[0]
        raise ConfigError(f"{name}: the height in row {row}, column {column} is not a number")
    if range_m is not None:
        low, high = _range(name, range_m)
        first, last = (values.min(), values.max()) if span is None else span
        values = low + (values - first) * ((high - low) / (last - first if last > first else 1.0))
    elif span is not None:
        raise ConfigError(f"{name}: an image has no scale: give range_m, the heights of black and white")
    if np.abs(values).max() > 1e4:
        raise ConfigError(f"{name}: heights must lie within -10000 to 10000 m, got {np.abs(values).max():g}")
    return np.round(values[::-1], 4) + 0.0


def terrain_of(
    source: str | PathLike[str] | ArrayLike,
    size_m: tuple[float, float],
    *,
    range_m: tuple[float, float] | None = None,
    material: str = "grass",
    name: str = "ground",
) -> LayoutObject:
    """Return a terrain of `size_m` (length along x, width along y) from a height map; see `read_height_map`."""
    heights = read_height_map(source, range_m=range_m)
    params = TerrainParams(material=material, heights_m=tuple(map(tuple, heights.tolist())))
    return LayoutObject(kind="terrain", name=name, size=(*size_m, 0.0), params=params)


def _range(name: str, range_m: Any) -> tuple[float, float]:
    try:
        low, high = (float(value) for value in range_m)
    except (TypeError, ValueError):
        raise ConfigError(f"{name}: range_m must be the heights of black and white, got {range_m!r}") from None
    if not (np.isfinite(low) and np.isfinite(high)):
        raise ConfigError(f"{name}: range_m must be finite, got {range_m!r}")
    return low, high


@file_reader(ConfigError)
def _read(file: Path) -> tuple[Floats, tuple[float, float] | None]:
    """Values of a file, and the values of black and white if it is an image of integers."""
    ending = file.suffix.lower()
    if ending not in (*IMAGE_SUFFIXES, *TABLE_SUFFIXES):
        raise ConfigError(f"{file}: a height map must be one of {' '.join((*IMAGE_SUFFIXES, *TABLE_SUFFIXES))}")
    data = read_bytes(file, ConfigError, largest=_LARGEST_FILE_BYTES, what="a height map")
    try:
        if ending in IMAGE_SUFFIXES:
            return _image(file, data)
        return (_npy(data) if ending == ".npy" else _table(data)), None
    except (OSError, ValueError, SyntaxError, EOFError) as error:
        raise ConfigError(f"{file}: cannot be read as a height map ({error})") from None


def _npy(data: bytes) -> Floats:
    values = array_of(data)
    if values.dtype.kind not in "biuf":
        raise ValueError(f"its values have the type {values.dtype} and are not numbers")
    if values.size > MOST_HEIGHTS:
        raise ValueError(f"{values.size} heights; the limit is {MOST_HEIGHTS}")
    return values.astype(np.float64)


def _image(file: Path, data: bytes) -> tuple[Floats, tuple[float, float] | None]:
    from PIL import Image

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of unknown tags and of large sizes, which are checked below
        picture = Image.open(io.BytesIO(data))
        width, height = picture.size
        if width * height > MOST_HEIGHTS:
            raise ConfigError(f"{file}: {height} x {width} heights; the limit is {MOST_HEIGHTS}")
        if picture.mode == "F":
            return np.asarray(picture, dtype=np.float64), None
        if picture.mode.startswith("I"):
            return np.asarray(picture, dtype=np.float64), (0.0, 65535.0)
        return np.asarray(picture.convert("L"), dtype=np.float64), (0.0, 255.0)


def _table(data: bytes) -> Floats:
    lines = data.decode("utf-8").replace(",", " ").replace(";", " ").splitlines()
    missing = None
    rows = []
    for line in lines:
        words = line.split()
        if words and words[0][0].isalpha() and words[0].lower() not in ("nan", "inf"):
            # Header of an ESRI grid; only the marker of missing heights is used.
            if words[0].lower() == "nodata_value":
                if len(words) != 2:
                    raise ValueError("nodata_value must be one number")
                missing = float(words[1])
        elif words:
            rows.append([float(word) for word in words])
            if len(rows) * len(words) > MOST_HEIGHTS:
                raise ValueError(f"more than {MOST_HEIGHTS} heights")
    if not rows or any(len(row) != len(rows[0]) for row in rows):
        raise ValueError("rows of unequal length")
    values = np.array(rows)
    return values if missing is None else np.where(values == missing, np.nan, values)
