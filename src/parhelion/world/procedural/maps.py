"""Buildings from maps: conversion of polygons with heights (GeoJSON, RFC 7946) to a layout of footprints."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.reading import reading
from parhelion.world.kit.instances import quads
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.procedural.footprints import footprints
from parhelion.world.procedural.kinds import FootprintParams
from parhelion.world.procedural.layout import Layout, LayoutObject, LayoutPose, read_json
from parhelion.world.procedural.placing import number
from parhelion.world.shapes import triangulated

# ---- Parts of a building with an outline and a height: walls and a flat roof ----------------------------------------


def outline_parts(_length: float, _width: float, height: float, params: FootprintParams) -> list[KitPart]:
    """Walls and roof of a building from its outline."""
    rings = [wound(params.outline, left=True), *(wound(hole, left=False) for hole in params.holes)]
    walls = np.concatenate([_walls(ring, height) for ring in rings])
    return [
        KitPart("walls", quads(walls), params.wall, "building"),
        KitPart("roof", roof_mesh(rings[0], rings[1:], height), params.roof, "building"),
    ]


def area(ring: Floats) -> float:
    """Area [m^2] of an outline (n, 2), positive if it is counter-clockwise."""
    x, y = ring.T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


def wound(ring: tuple[tuple[float, float], ...], *, left: bool) -> Floats:
    """Outline (n, 2) with counter-clockwise (`left`) or clockwise winding."""
    points = np.array(ring, dtype=np.float64)
    if abs(area(points)) < 1e-6:
        raise ConfigError("the outline of a building must have an area")
    return points if (area(points) > 0) == left else points[::-1].copy()


def _walls(ring: Floats, height: float) -> Floats:
    """Vertical rectangles (n, 4, 3) on the sides of an outline; they face to its right."""
    after = np.roll(ring, -1, axis=0)
    low, high = np.zeros(len(ring)), np.full(len(ring), height)
    corners = ((ring, low), (after, low), (after, high), (ring, high))
    return np.stack([np.column_stack([points, z]) for points, z in corners], axis=1)


def roof_mesh(outer: Floats, holes: list[Floats], height: float) -> Mesh:
    """Level area inside an outline and outside its holes, facing up at `height` [m]."""
    faces = triangulated(outer)  # also refuses outlines that cross themselves
    if not holes:
        return Mesh(np.column_stack([outer, np.full(len(outer), height)]), faces)
    flat = _trapezoids([outer, *holes])
    points = np.concatenate([flat, np.full((*flat.shape[:2], 1), height)], axis=2)
    corner = flat.reshape(-1, 4, 2)
    across = (corner[:, 1, 0] - corner[:, 0, 0] + corner[:, 2, 0] - corner[:, 3, 0]) / 2
    covered = float(np.sum(across * (corner[:, 3, 1] - corner[:, 0, 1])))
    wanted = area(outer) - sum(abs(area(hole)) for hole in holes)
    if abs(covered - wanted) > 1e-3 * area(outer):
        raise ConfigError("the holes of a building's outline must lie inside it and must not overlap")
    whole = quads(points)
    mesh, _ = Mesh.cleaned(whole.vertices, whole.faces)
    assert mesh is not None  # the remainder has an area
    return mesh


def _trapezoids(rings: list[Floats]) -> Floats:
    """Quads (n, 4, 2) that fill rings by the even-odd rule: bands between the y of neighbouring corners.

    This is used for roofs with courtyards: cuts between courtyards would leave corners on the sides of triangles.
    """
    start = np.concatenate(rings)
    end = np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])
    levels = np.unique(start[:, 1])
    pieces = []
    for low, high in pairwise(levels.tolist()):
        spans = (np.minimum(start[:, 1], end[:, 1]) <= low) & (np.maximum(start[:, 1], end[:, 1]) >= high)
        a, b = start[spans], end[spans]
        slope = (b[:, 0] - a[:, 0]) / (b[:, 1] - a[:, 1])
        x = a[:, :1] + (np.array([low, high]) - a[:, 1:]) * slope[:, None]
        x = x[np.argsort(x.sum(axis=1), kind="stable")].reshape(-1, 2, 2)
        left, right = x[:, 0], x[:, 1]
        y = np.broadcast_to([low, high], left.shape)
        corners = ((left, 0), (right, 0), (right, 1), (left, 1))
        pieces.append(np.stack([np.stack([side[:, k], y[:, k]], axis=1) for side, k in corners], axis=1))
    return np.concatenate(pieces)


# ---- maps -----------------------------------------------------------------------------------------------------------


Units = Literal["degrees", "metres"]

_HEIGHT_FIELDS = ("height", "height_m", "building:height")
_STOREY_FIELDS = ("levels", "building:levels", "storeys")
_SAME_M = 1e-3
"""Corners closer than this [m] are merged."""


def buildings_from(
    source: str | PathLike[str] | Mapping[str, Any],
    *,
    units: Units = "degrees",
    origin: tuple[float, float] | None = None,
    height_m: float = 9.0,
    storey_m: float = 3.0,
    margin_m: float = 30.0,
    wall: str = "plaster",
    roof: str = "roofing-felt",
    ground: str = "asphalt",
) -> Layout:
    """Return a layout of the buildings in a GeoJSON file, or in the same data as a mapping.

    Polygons and multipolygons are used, alone or in features. The height of a feature is its property `height` (or
    `height_m`, `building:height`) in metres, or `levels` (or `building:levels`, `storeys`) times `storey_m`.

    Args:
        source: Path of a GeoJSON file, or its content.
        units: "degrees" for longitude and latitude (WGS 84), or "metres" for x and y.
        origin: Longitude and latitude, or x and y, of the middle of the plan; by default the middle of the buildings.
        height_m: Height of buildings without a height [m].
        storey_m: Height of a storey [m].
        margin_m: Width of the level ground around the buildings [m].
        wall: Material of walls.
        roof: Material of roofs.
        ground: Material of the ground.
    """
    if units not in ("degrees", "metres"):
        raise ConfigError(f"buildings: units must be 'degrees' or 'metres', got {units!r}")
    default_height = number("buildings: height_m", height_m, 0.1, 1000.0)
    storey = number("buildings: storey_m", storey_m, 0.5, 20.0)
    margin = number("buildings: margin_m", margin_m, 0.0, 400.0)
    name = "buildings" if isinstance(source, Mapping) else str(source)
    with reading(name, ConfigError):
        data = (
            source if isinstance(source, Mapping) else read_json(Path(source), "a map; cut out the part that is needed")
        )
        return _layout(data, name, units, origin, default_height, storey, margin, (wall, roof, ground))


def _layout(
    data: Any,
    name: str,
    units: Units,
    origin: Any,
    default_height: float,
    storey: float,
    margin: float,
    made_of: Sequence[str],
) -> Layout:
    wall, roof, ground = made_of
    houses = list(_polygons(data, name, default_height, storey))
    if not houses:
        raise ConfigError(f"{name}: has no polygons")
    middle = _middle(houses, origin, name)
    plans = [(where, [_metres(ring, middle, units, where) for ring in rings], tall) for where, rings, tall in houses]
    for where, (outer, *holes), _ in plans:
        for k, hole in enumerate(holes):
            if np.any(hole.min(axis=0) < outer.min(axis=0)) or np.any(hole.max(axis=0) > outer.max(axis=0)):
                raise ConfigError(f"{where}: its hole {k} must lie inside the outline, the first ring")
    corners = np.concatenate([rings[0] for _, rings, _ in plans])
    reach = np.ceil(np.abs(corners).max(axis=0) + margin)
    if 2 * reach.max() > 1000.0:
        raise ConfigError(f"{name}: the plan would be {2 * reach[0]:g} x {2 * reach[1]:g} m; the limit is 1000 m")
    size = (2 * float(reach[0]), 2 * float(reach[1]))
    objects = [
        LayoutObject(kind="ground", name="ground", size=(*size, 0.0), params={"material": ground}, label="ground")  # type: ignore[arg-type]
    ]
    objects += [_house(where, k, rings, tall, wall, roof) for k, (where, rings, tall) in enumerate(plans)]
    layout = Layout(name=Path(name).stem, size=size, objects=tuple(objects))
    return layout.model_copy(update={"viewpoint": _free_place(layout)})


def _polygons(data: Any, where: str, default_height: float, storey: float) -> Iterator[tuple[str, list[Floats], float]]:
    """Yield the field, the rings (outer first) and the height [m] of each polygon."""
    kind = data.get("type") if isinstance(data, Mapping) else None
    if kind == "FeatureCollection":
        features = data.get("features")
        if not isinstance(features, list):
            raise ConfigError(f"{where}: features must be a list")
        for k, feature in enumerate(features):
            yield from _polygons(feature, f"{where}: features[{k}]", default_height, storey)
    elif kind == "Feature":
        properties = data.get("properties") or {}
        tall = _height(properties if isinstance(properties, Mapping) else {}, where, default_height, storey)
        geometry = data.get("geometry")
        if isinstance(geometry, Mapping) and geometry.get("type") in ("Polygon", "MultiPolygon"):
            yield from _polygons(geometry, f"{where}.geometry", tall, storey)
    elif kind == "Polygon":
        yield where, _rings(data.get("coordinates"), f"{where}.coordinates"), default_height
    elif kind == "MultiPolygon":
        parts = data.get("coordinates")
        if not isinstance(parts, (list, tuple)):
            raise ConfigError(f"{where}.coordinates: must be a list of polygons")
        for k, part in enumerate(parts):
            yield f"{where}.coordinates[{k}]", _rings(part, f"{where}.coordinates[{k}]"), default_height
    else:
        known = "FeatureCollection, Feature, Polygon or MultiPolygon"
        raise ConfigError(f"{where}: type must be {known}, got {kind!r}")


def _rings(value: Any, where: str) -> list[Floats]:
    if not isinstance(value, (list, tuple)) or not value:
        raise ConfigError(f"{where}: must be a list of rings")
    rings = []
    for k, ring in enumerate(value):
        try:
            points = np.array([[point[0], point[1]] for point in ring], dtype=np.float64)
        except (TypeError, ValueError, IndexError, KeyError):
            raise ConfigError(f"{where}[{k}]: must be a list of points of two numbers") from None
        if points.ndim != 2 or len(points) < 3:
            raise ConfigError(f"{where}[{k}]: a ring must have at least 3 points, got {len(points)}")
        if not np.isfinite(points).all():
            row = int(np.flatnonzero(~np.isfinite(points).all(axis=1))[0])
            raise ConfigError(f"{where}[{k}][{row}]: is not a number")
        rings.append(points)
    return rings


def _height(properties: Mapping[str, Any], where: str, default_height: float, storey: float) -> float:
    """Height of a feature [m]: its property, by its storeys, or the default."""
    for names, factor in ((_HEIGHT_FIELDS, 1.0), (_STOREY_FIELDS, storey)):
        for name in names:
            value = properties.get(name)
            if value is None:
                continue
            # Heights in maps are numbers or text, for example "12" or "12.5 m".
            text = re.fullmatch(r"\s*([0-9.+-]+(?:e[0-9+-]+)?)\s*m?\s*", str(value))
            try:
                tall = float(text[1]) * factor if text else math.nan
            except ValueError:
                tall = math.nan
            if not 0.1 <= tall <= 1000.0:
                raise ConfigError(f"{where}.properties.{name}: must give 0.1 to 1000 m, got {value!r}")
            return tall
    return default_height


def _middle(houses: list[tuple[str, list[Floats], float]], origin: Any, name: str) -> Floats:
    if origin is None:
        corners = np.concatenate([rings[0] for _, rings, _ in houses])
        return np.asarray((corners.min(axis=0) + corners.max(axis=0)) / 2)
    try:
        middle = np.array(origin, dtype=np.float64)
    except (TypeError, ValueError):
        middle = np.zeros(0)
    if middle.shape != (2,) or not np.isfinite(middle).all():
        raise ConfigError(f"{name}: origin must be two numbers, got {origin!r}")
    return middle


def _metres(ring: Floats, middle: Floats, units: Units, where: str) -> Floats:
    """Ring [m] relative to the middle, rounded to millimetres.

    Degrees are converted to east and north on the tangent plane of the ellipsoid (WGS 84) at the middle.
    """
    if units == "metres":
        return np.round(ring - middle, 3)
    if np.abs(ring[:, 0]).max() > 180.0 or np.abs(ring[:, 1]).max() > 89.0:
        worst = ring[np.argmax(np.abs(ring).max(axis=1))].tolist()
        raise ConfigError(f"{where}: {worst} is not a longitude and latitude; for x and y give units='metres'")
    from pymap3d import geodetic2enu

    east, north, _ = geodetic2enu(ring[:, 1], ring[:, 0], 0.0, middle[1], middle[0], 0.0)
    return np.round(np.stack([east, north], axis=1), 3)


def _house(where: str, row: int, rings: list[Floats], tall: float, wall: str, roof: str) -> LayoutObject:
    cleaned = [_clean(ring, where) for ring in rings]
    low, high = cleaned[0].min(axis=0), cleaned[0].max(axis=0)
    at = np.round((low + high) / 2, 3)
    outline, *holes = (tuple(map(tuple, np.round(ring - at, 3).tolist())) for ring in cleaned)
    params = FootprintParams(outline=outline, holes=tuple(holes), wall=wall, roof=roof)  # type: ignore[arg-type]
    return LayoutObject(
        kind="footprint",
        name=f"building-{row}",
        pose=LayoutPose(xyz=(float(at[0]), float(at[1]), 0.0)),
        size=(float(high[0] - low[0]), float(high[1] - low[1]), round(tall, 3)),
        params=params,
    )


def _clean(ring: Floats, where: str) -> Floats:
    """Ring without its repeated last corner and without collinear corners."""
    keep = np.hypot(*(ring - np.roll(ring, -1, axis=0)).T) > _SAME_M
    ring = ring[keep]
    if len(ring) >= 3:
        before, after = ring - np.roll(ring, 1, axis=0), np.roll(ring, -1, axis=0) - ring
        turn = before[:, 0] * after[:, 1] - before[:, 1] * after[:, 0]
        reach = np.hypot(before[:, 0], before[:, 1]) * np.hypot(after[:, 0], after[:, 1])
        ring = ring[np.abs(turn) > 1e-5 * reach]
    if len(ring) < 3 or abs(area(ring)) < 0.01:
        raise ConfigError(f"{where}: a ring has no area")
    return ring


def _free_place(layout: Layout) -> LayoutPose:
    """Free position nearest to the middle, 1.8 m above the ground."""
    half = np.array(layout.size) / 2 - 0.5
    x, y = (np.arange(-h, h + 1e-9, max(1.0, h / 100.0)) for h in half)
    places = np.stack(np.meshgrid(np.append(x, 0.0), np.append(y, 0.0)), axis=-1).reshape(-1, 2)
    places = places[np.argsort(np.hypot(places[:, 0], places[:, 1]), kind="stable")]
    obstacles = footprints(layout)
    for first in range(0, len(places), 500):
        some = places[first : first + 500]
        free = some[obstacles.distance(some).min(axis=1, initial=np.inf) > 2.0]
        if len(free):
            return LayoutPose(xyz=(float(free[0, 0]), float(free[0, 1]), 1.8))
    return LayoutPose(xyz=(0.0, 0.0, 1.8))
