"""Heights of the ground: GeoTIFF in its own coordinates, as a world or below a map, or a height map that covers a map.

Tags of GeoTIFF: OGC 19-008r4, https://docs.ogc.org/is/19-008r4/19-008r4.html
"""

from __future__ import annotations

import io
import warnings
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.reading import file_reader, read_bytes
from parhelion.world import shapes
from parhelion.world.maps.plane import MapGround
from parhelion.world.procedural.heightmap import MOST_HEIGHTS, read_height_map
from parhelion.world.sources import GeoOrigin
from parhelion.world.world import World

_SCALE, _TIEPOINT, _TRANSFORM, _KEYS, _NODATA = 33550, 33922, 34264, 34735, 42113
_LARGEST_BYTES = 512 * 1024 * 1024
_FINEST_M = 1.0
"""Smallest cell of the ground [m]."""
_MOST_CELLS = 250_000


@dataclass(frozen=True, eq=False)
class GeoImage:
    """Heights with coordinates: degrees (longitude, latitude), or metres east and north of a zone of UTM."""

    heights: Floats
    """First row in the north, shape (rows, columns); NaN where unknown."""
    start: tuple[float, float]
    """Coordinates of the centre of the first pixel."""
    step: tuple[float, float]
    """Distance of pixel centres to the east and to the south."""
    zone: int | None
    """Zone of UTM; negative in the south; None for degrees."""

    def at(self, lon: Floats, lat: Floats) -> Floats:
        """Heights [m] at places [degrees], bilinear; NaN outside of the image."""
        x, y = (lon, lat) if self.zone is None else utm(lon, lat, self.zone)
        column, row = (x - self.start[0]) / self.step[0], (self.start[1] - y) / self.step[1]
        rows, columns = self.heights.shape
        inside = (column >= -0.5) & (column <= columns - 0.5) & (row >= -0.5) & (row <= rows - 0.5)
        return np.where(inside, bilinear(self.heights, column, row), np.nan)


def bilinear(grid: Floats, column: Floats, row: Floats) -> Floats:
    """Values of a grid (rows, columns) at fractional columns and rows, constant beyond its border."""
    rows, columns = grid.shape
    c, r = np.clip(column, 0.0, columns - 1.0), np.clip(row, 0.0, rows - 1.0)
    c0, r0 = np.minimum(c.astype(int), columns - 2), np.minimum(r.astype(int), rows - 2)
    u, v = c - c0, r - r0
    top = grid[r0, c0] * (1 - u) + grid[r0, c0 + 1] * u
    bottom = grid[r0 + 1, c0] * (1 - u) + grid[r0 + 1, c0 + 1] * u
    found: Floats = top * (1 - v) + bottom * v
    return found


def utm(lon: Floats, lat: Floats, zone: int) -> tuple[Floats, Floats]:
    """Easting and northing [m] of places [degrees] in a zone of UTM (negative in the south), on WGS 84.

    Krüger series to the third order in the third flattening (Karney 2011, eq. 7 to 12 and 35), within 1 mm in a zone.
    """
    n = 1.0 / 298.257223563 / (2.0 - 1.0 / 298.257223563)
    radius = 6378137.0 / (1 + n) * (1 + n**2 / 4 + n**4 / 64)
    alpha = (n / 2 - 2 * n**2 / 3 + 5 * n**3 / 16, 13 * n**2 / 48 - 3 * n**3 / 5, 61 * n**3 / 240)
    away = np.radians(lon - (6 * abs(zone) - 183))
    sine = np.sin(np.radians(lat))
    flat = 2 * np.sqrt(n) / (1 + n)
    t = np.sinh(np.arctanh(sine) - flat * np.arctanh(flat * sine))
    xi, eta = np.arctan2(t, np.cos(away)), np.arctanh(np.sin(away) / np.sqrt(1 + t**2))
    x, y = eta.copy(), xi.copy()
    for j, factor in enumerate(alpha, start=1):
        x += factor * np.cos(2 * j * xi) * np.sinh(2 * j * eta)
        y += factor * np.sin(2 * j * xi) * np.cosh(2 * j * eta)
    return 500_000.0 + 0.9996 * radius * x, (0.0 if zone > 0 else 10_000_000.0) + 0.9996 * radius * y


def read_geotiff(file: Path) -> GeoImage | None:
    """Read a GeoTIFF in degrees (WGS 84) or UTM; None for images without coordinates."""
    from PIL import Image

    data = read_bytes(file, ConfigError, largest=_LARGEST_BYTES, what="a height map")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of unknown tags and of large sizes, which are checked below
        picture: Any = Image.open(io.BytesIO(data))
        tags = getattr(picture, "tag_v2", {})
        if (_SCALE not in tags or _TIEPOINT not in tags) and _TRANSFORM not in tags:
            return None
        width, height = picture.size
        if width * height > 100 * MOST_HEIGHTS:
            raise ConfigError(f"{file}: {height} x {width} heights; the limit is {100 * MOST_HEIGHTS}; cut out a part")
        heights = np.asarray(picture, dtype=np.float64)
    if heights.ndim != 2 or min(heights.shape) < 2:
        raise ConfigError(f"{file}: a height map must have one band and at least 2 x 2 heights, got {heights.shape}")
    missing = str(tags.get(_NODATA, "")).strip("\0 ")
    try:
        heights = np.where(heights == float(missing), np.nan, heights) if missing else heights
    except ValueError:
        raise ConfigError(f"{file}: the marker of missing heights is not a number, got {missing[:40]!r}") from None
    if _TRANSFORM in tags:
        matrix = [float(value) for value in tags[_TRANSFORM]]
        if matrix[1] or matrix[4]:
            raise ConfigError(f"{file}: is rotated; resample it with gdalwarp")
        step, corner = (matrix[0], -matrix[5]), (matrix[3], matrix[7])
    else:
        scale, tie = tags[_SCALE], tags[_TIEPOINT]
        step = (float(scale[0]), float(scale[1]))
        corner = (float(tie[3]) - float(tie[0]) * step[0], float(tie[4]) + float(tie[1]) * step[1])
    if not (np.isfinite([*step, *corner]).all() and min(step) > 0):
        raise ConfigError(f"{file}: its pixel size must be above 0, got {step}")
    zone, centred = _system(file, tags.get(_KEYS))
    # A pixel is an area by default, and its position that of its upper left corner.
    shift = 0.0 if centred else 0.5
    return GeoImage(heights, (corner[0] + shift * step[0], corner[1] - shift * step[1]), step, zone)


def _system(file: Path, keys: Any) -> tuple[int | None, bool]:
    """Zone of UTM or None for degrees, and True if positions are those of pixel centres."""
    values = [] if keys is None else [int(value) for value in keys]
    rows = {values[k]: values[k + 3] for k in range(4, len(values) - 3, 4) if values[k + 1] == 0}
    model, centred = rows.get(1024, 0), rows.get(1025) == 2
    projected = rows.get(3072, 0)
    if model == 2 or (not model and not projected):
        return None, centred
    for first, sign in ((32600, 1), (32700, -1), (25800, 1), (26900, 1)):
        if 1 <= projected - first <= 60:
            return sign * (projected - first), centred
    raise ConfigError(
        f"{file}: its coordinate system EPSG:{projected} is not supported; convert it with gdalwarp -t_srs EPSG:4326"
    )


def ground_from(
    file: Path, range_m: tuple[float, float] | None, origin: GeoOrigin | None, low: Floats, high: Floats
) -> MapGround:
    """Ground of a map from a file of heights.

    Heights of a GeoTIFF are relative to that at the origin of the map. Other height maps cover the rectangle from
    `low` to `high` (2,) [m].
    """
    image = read_geotiff(file) if file.suffix.lower() in (".tif", ".tiff") else None
    if image is None:
        grid = read_height_map(file, range_m=range_m)
        step = (high - low) / (np.array(grid.shape[::-1]) - 1)
        return _ground(grid, low, step)
    if origin is None:
        raise ConfigError(f"{file}: a GeoTIFF needs a map with coordinates; this one is in metres")
    size = high - low
    native = 111e3 * min(image.step) if image.zone is None else min(image.step)
    step_m = max(native, _FINEST_M, float(np.sqrt(size[0] * size[1] / _MOST_CELLS)))
    counts = np.maximum(2, np.ceil(size / step_m).astype(int) + 1)
    step = size / (counts - 1)
    x, y = np.meshgrid(low[0] + step[0] * np.arange(counts[0]), low[1] + step[1] * np.arange(counts[1]))
    from pymap3d import enu2geodetic

    place = (origin.latitude_deg, origin.longitude_deg)
    lat, lon, _ = enu2geodetic(x, y, 0.0, *place, 0.0)
    grid = image.at(np.asarray(lon), np.asarray(lat))
    zero = image.at(np.array([origin.longitude_deg]), np.array([origin.latitude_deg]))[0]
    if not np.isfinite(grid).all() or not np.isfinite(zero):
        share = 100.0 * np.count_nonzero(~np.isfinite(grid)) / grid.size
        raise ConfigError(f"{file}: has no heights for {share:.0f} % of the map")
    return _ground(grid - zero, low, step)


@file_reader(ConfigError)
def load_geotiff(
    path: str | PathLike[str],
    seed: int = 0,
    *,
    area_m: tuple[float, float, float, float] | None = None,
    material: str = "grass",
    water_level_m: float | None = None,
    water: str = "water",
) -> World:
    """Load the heights of a GeoTIFF as a world whose z is the height in the file.

    Args:
        path: The file.
        seed: Unused; heights have no random part.
        area_m: Part of the file as x0, y0, x1, y1 [m] from its centre, x east and y north; by default all
            of it, between the centres of its outer pixels.
        material: Material of the ground.
        water_level_m: Height of a level of water [m]; None for none.
        water: Material of the water.
    """
    from pymap3d import enu2geodetic

    file = Path(path)
    image = read_geotiff(file)
    if image is None:
        raise ConfigError(f"{file}: has no coordinates; use it as the terrain of a layout instead")
    rows, columns = image.heights.shape
    x, y = (
        start + sign * step * 0.5 * (n - 1)
        for start, step, n, sign in zip(image.start, image.step, (columns, rows), (1, -1), strict=True)
    )
    lat, lon = (y, x) if image.zone is None else inverse_utm(x, y, image.zone)
    per_x, per_y = (111_320.0 * np.cos(np.radians(lat)), 110_574.0) if image.zone is None else (1.0, 1.0)
    half = 0.5 * np.array([(columns - 1) * image.step[0] * per_x, (rows - 1) * image.step[1] * per_y])
    low, high = (-half, half) if area_m is None else (np.array(area_m[:2]), np.array(area_m[2:]))
    if not (np.all(np.isfinite([low, high])) and np.all(high > low)):
        raise ConfigError(f"{file}: area_m must be x0, y0, x1, y1 with x0 < x1 and y0 < y1, got {area_m}")
    step_m = max(min(image.step[0] * per_x, image.step[1] * per_y), float(np.sqrt(np.prod(high - low) / _MOST_CELLS)))
    counts = np.maximum(2, np.ceil((high - low) / step_m - 1e-9).astype(int) + 1)
    east, north = np.meshgrid(*(np.linspace(a, b, n) for a, b, n in zip(low, high, counts, strict=True)))
    lats, lons, _ = enu2geodetic(east, north, 0.0, lat, lon, 0.0)
    heights = image.at(np.asarray(lons), np.asarray(lats))
    corner = np.arange(counts[0] * counts[1]).reshape(counts[::-1])
    a, b, c, d = corner[:-1, :-1], corner[:-1, 1:], corner[1:, 1:], corner[1:, :-1]
    faces = np.concatenate([np.stack(f, axis=-1).reshape(-1, 3) for f in ((a, b, c), (a, c, d))])
    faces = faces[np.isfinite(heights.ravel()[faces]).all(axis=1)]
    if not len(faces):
        raise ConfigError(f"{file}: has no heights in the area from {low.tolist()} to {high.tolist()} m")
    world = World(file.stem)
    world.origin = GeoOrigin(latitude_deg=float(lat), longitude_deg=float(lon))
    points = np.stack([east, north, np.nan_to_num(heights)], axis=-1).reshape(-1, 3)
    world.add((points, faces), material=material, label="terrain", name="terrain")
    if water_level_m is not None:
        level = Pose(xyz=(*(0.5 * (low + high)), water_level_m))
        world.add(shapes.plane(*(high - low)), material=water, label="water", name="water", pose=level)
    return world


def inverse_utm(x: float, y: float, zone: int) -> tuple[float, float]:
    """Latitude and longitude [degrees] of a place in a zone of UTM, the inverse of `utm` by Newton's method."""
    lat, lon = y / 110_574.0 if zone > 0 else (y - 10_000_000.0) / 110_574.0, 6.0 * abs(zone) - 183.0
    for _ in range(8):
        place = np.array(utm(np.array([lon, lon + 1e-6, lon]), np.array([lat, lat, lat + 1e-6]), zone))
        slopes = np.stack([place[:, 1] - place[:, 0], place[:, 2] - place[:, 0]], axis=1) / 1e-6
        step = np.linalg.solve(slopes, np.array([x, y]) - place[:, 0])
        lon, lat = lon + float(step[0]), lat + float(step[1])
    return lat, lon


def _ground(grid: Floats, low: Floats, step: Floats) -> MapGround:
    def height(xy: Floats) -> Floats:
        return bilinear(grid, (xy[:, 0] - low[0]) / step[0], (xy[:, 1] - low[1]) / step[1])

    return MapGround(height, (float(step[0]), float(step[1])), (float(low[0]), float(low[1])))
