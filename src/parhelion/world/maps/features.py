"""Features of a map: tags and geometry in metres, and the values of tags."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.world.sources import GeoOrigin

MOST_POINTS = 1_000_000
"""Largest number of points of a map."""
LARGEST_MAP_M = 20_000.0
"""Longest side of a map [m]. The plane of a world leaves the ellipsoid by 8 m at half of it."""
_LATITUDE_LIMIT = 89.0


@dataclass(frozen=True, eq=False)
class Feature:
    """One object of a map."""

    key: str
    """Position in the file, for example `way 12`."""
    tags: Mapping[str, str]
    shape: Any
    """Shapely geometry [m]: Point, LineString, Polygon or a collection of one of them."""

    @property
    def kind(self) -> str:
        """`point`, `line` or `area`."""
        name = self.shape.geom_type
        return "point" if name.endswith("Point") else "line" if name.endswith(("LineString", "Ring")) else "area"

    def tag(self, *names: str) -> str:
        """First of these tags that is present, in lower case, or an empty text."""
        return next((self.tags[name].strip().lower() for name in names if self.tags.get(name)), "")

    def metres(self, *names: str) -> float | None:
        """First of these tags that is a length [m]; None without one."""
        return next((value for name in names if (value := length_m(self.tags.get(name))) is not None), None)

    def number(self, *names: str) -> float | None:
        """First of these tags that is a number; None without one."""
        return next((value for name in names if (value := plain_number(self.tags.get(name))) is not None), None)


@dataclass
class RawMap:
    """Features of a map before projection: longitude and latitude, or metres."""

    source: str
    keys: list[str] = field(default_factory=list)
    tags: list[dict[str, str]] = field(default_factory=list)
    shapes: list[Any] = field(default_factory=list)
    bounds: tuple[float, float, float, float] | None = None
    """Stated bounds: smallest longitude and latitude, then largest."""

    def add(self, key: str, tags: dict[str, str], shape: Any) -> None:
        """Add a feature."""
        self.keys.append(key)
        self.tags.append(tags)
        self.shapes.append(shape)


_LENGTH = re.compile(
    r"([+-]?\d+(?:[.,]\d+)?)\s*(m|metres?|meters?|km|cm|ft|feet|')?\s*(?:(\d+(?:\.\d+)?)\s*(?:\"|in))?"
)
_UNIT_M = {"": 1.0, "m": 1.0, "km": 1000.0, "cm": 0.01, "ft": 0.3048, "feet": 0.3048, "'": 0.3048}


def length_m(text: Any) -> float | None:
    """Length [m] of the value of a tag: metres by default, also km, cm, feet and inches; None for other text.

    >>> length_m("3.5"), length_m("10 ft"), length_m("6'6\\""), length_m("tall")
    (3.5, 3.048, 1.9812, None)
    """
    found = None if text is None else _LENGTH.fullmatch(str(text).strip().lower().split(";")[0])
    if found is None:
        return None
    unit = found[2] or ""
    factor = _UNIT_M.get(unit, 1.0)
    inches = 0.0254 * float(found[3]) if found[3] else 0.0
    return round(float(found[1].replace(",", ".")) * factor + inches, 9)


def plain_number(text: Any) -> float | None:
    """Number in the value of a tag; None for other text."""
    found = None if text is None else re.fullmatch(r"\s*([+-]?\d{1,9}(?:\.\d+)?)\s*(?:;.*)?", str(text))
    return float(found[1]) if found else None


# ---- projection ------------------------------------------------------------------------------------------------------


def projected(
    raw: RawMap, origin: Sequence[float] | None, *, degrees: bool = True
) -> tuple[list[Feature], GeoOrigin | None]:
    """Features in metres about the origin, and the origin on Earth; None for maps in metres.

    Degrees are converted to east and north on the tangent plane of the ellipsoid (WGS 84) at the origin. `origin` is
    latitude, longitude and optionally height; by default the middle of the map. Of a map in metres, it is x and y.
    """
    import shapely

    shapes = np.array(raw.shapes, dtype=object)
    points = shapely.get_coordinates(shapes)
    if len(points) > MOST_POINTS:
        raise ConfigError(f"{raw.source}: {len(points)} points; at most {MOST_POINTS} are allowed; cut out a part")
    if len(points) == 0:
        return [], None
    if not np.isfinite(points).all():
        rows = ~np.isfinite(shapely.bounds(shapes)).all(axis=1) if len(shapes) else np.zeros(0, bool)
        bad = raw.keys[int(np.flatnonzero(rows)[0])] if rows.any() else raw.keys[0]
        raise ConfigError(f"{raw.source}: {bad}: a coordinate is not a number")
    low, high = points.min(axis=0), points.max(axis=0)
    if degrees and (np.abs(points[:, 0]).max() > 180.0 or np.abs(points[:, 1]).max() > _LATITUDE_LIMIT):
        worst = points[np.argmax(np.abs(points).max(axis=1))].tolist()
        raise ConfigError(
            f"{raw.source}: {worst} is not a longitude and latitude; for x and y in metres give units='metres'"
        )
    middle = _middle(raw, origin, (low + high) / 2, degrees)
    if degrees:
        # Checked before the projection, which folds far points onto the plane.
        reach = np.abs(points - middle[[1, 0]]) * 111e3 * [np.cos(np.radians(middle[0])), 1.0]
    else:
        reach = np.abs(points - middle[:2])
    if 2 * reach.max() > LARGEST_MAP_M:
        raise ConfigError(
            f"{raw.source}: reaches {reach.max() / 1000:.1f} km from its origin; the limit is "
            f"{LARGEST_MAP_M / 2000:g} km; cut out a part, or set origin"
        )

    def to_plane(xy: Floats) -> Floats:
        if not degrees:
            return np.round(xy - middle[:2], 4)
        from pymap3d import geodetic2enu

        east, north, _ = geodetic2enu(xy[:, 1], xy[:, 0], 0.0, middle[0], middle[1], 0.0)
        return np.round(np.stack([east, north], axis=1), 4)

    placed = shapely.transform(shapes, to_plane)
    features = [Feature(*row) for row in zip(raw.keys, raw.tags, placed, strict=True)]
    if not degrees:
        return features, None
    return features, GeoOrigin(latitude_deg=middle[0], longitude_deg=middle[1], altitude_m=middle[2])


def _middle(raw: RawMap, origin: Sequence[float] | None, centre: Floats, degrees: bool) -> Floats:
    if origin is None:
        if degrees and raw.bounds is not None:
            west, south, east, north = raw.bounds
            centre = np.array([(west + east) / 2, (south + north) / 2])
        # Rounded, so that the origin can be written down; 1e-7 degrees is a centimetre.
        return np.array([*np.round(centre[::-1], 7), 0.0]) if degrees else np.array([*np.round(centre, 3), 0.0])
    values = np.array([*origin, 0.0][:3], dtype=np.float64)
    if len(origin) not in (2, 3) or not np.isfinite(values).all():
        raise ConfigError(f"{raw.source}: origin must be latitude, longitude and optionally height, got {origin!r}")
    if degrees and (abs(values[0]) > _LATITUDE_LIMIT or abs(values[1]) > 180.0):
        raise ConfigError(f"{raw.source}: origin must be latitude, longitude and optionally height, got {origin!r}")
    return values
