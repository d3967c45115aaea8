"""CityJSON 1.0, 1.1 and 2.0: city objects with surfaces, as they are, without a ground of their own.

Format: https://www.cityjson.org/specs/2.0.1/
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.checks import check_budget
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.reading import file_reader
from parhelion.world.maps.features import MOST_POINTS
from parhelion.world.maps.plane import triangles
from parhelion.world.mesh import Mesh
from parhelion.world.procedural.layout import read_json
from parhelion.world.sources import Tally
from parhelion.world.world import World

_NESTING = {"MultiSurface": 0, "CompositeSurface": 0, "Solid": 1, "MultiSolid": 2, "CompositeSolid": 2}
"""Levels of lists above the surfaces of a geometry."""
_OBJECTS = {
    "Building": ("plaster", "building"),
    "BuildingPart": ("plaster", "building"),
    "BuildingRoom": ("plaster", "building"),
    "BuildingInstallation": ("concrete", "building"),
    "Bridge": ("concrete", "bridge"),
    "BridgePart": ("concrete", "bridge"),
    "Road": ("asphalt", "road"),
    "Square": ("concrete", "sidewalk"),
    "Railway": ("gravel", "rail"),
    "TransportSquare": ("concrete", "sidewalk"),
    "Tunnel": ("concrete", "other-structure"),
    "Waterway": ("water", "water"),
    "WaterBody": ("water", "water"),
    "LandUse": ("grass", "terrain"),
    "TINRelief": ("soil", "terrain"),
    "PlantCover": ("leaf", "vegetation"),
    "SolitaryVegetationObject": ("leaf", "vegetation"),
    "CityFurniture": ("steel", "other-object"),
    "GenericCityObject": ("concrete", "other-object"),
    "OtherConstruction": ("concrete", "other-structure"),
}
"""Material and label by type of city object."""
_SURFACES = {
    "RoofSurface": "roof-tile",
    "GroundSurface": "concrete",
    "Window": "glass",
    "Door": "wood",
    "TrafficArea": "asphalt",
    "AuxiliaryTrafficArea": "grass",
    "WaterSurface": "water",
    "WaterGroundSurface": "sand",
}
"""Materials by type of surface; those of the object for others."""


@dataclass
class _Surfaces:
    """Triangles of one object by material."""

    rows: dict[str, list[Floats]] = field(default_factory=dict)

    def area(self) -> float:
        corners = np.concatenate([one for rows in self.rows.values() for one in rows])
        cross = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
        return float(np.linalg.norm(cross, axis=1).sum() / 2)


@file_reader(ConfigError)
def load_cityjson(path: str | PathLike[str], seed: int = 0, *, origin: tuple[float, ...] | None = None) -> World:
    """Load a city model; of each object, the geometry with the highest level of detail.

    Args:
        path: The file.
        seed: Not used.
        origin: x, y and z of the origin of the world in the coordinates of the file; by default the middle of the
            model, at its lowest point.
    """
    file = Path(path)
    data = read_json(file, "a city model; cut out the part that is needed")
    if not isinstance(data, Mapping) or data.get("type") != "CityJSON":
        raise ConfigError(f"{file}: type must be CityJSON")
    if not str(data.get("version", "")).startswith(("1.", "2.")):
        raise ConfigError(f"{file}: version must be 1.0 to 2.0, got {str(data.get('version'))[:20]!r}")
    objects = data.get("CityObjects")
    if not isinstance(objects, Mapping):
        raise ConfigError(f"{file}: CityObjects must be a mapping")
    vertices = _vertices(file, data)
    tally, made = Tally(), []
    for name, item in objects.items():
        found = _object(f"{file}: {str(name)[:60]}", item, vertices, tally)
        if found is not None:
            made.append((str(name)[:60], str(item["type"]), found))
    if not made:
        raise ConfigError(f"{file}: has no surfaces")
    check_budget("triangles", sum(len(one) for *_, s in made for rows in s.rows.values() for one in rows), str(file))
    every = np.concatenate([one.reshape(-1, 3) for *_, s in made for rows in s.rows.values() for one in rows])
    low, high = every.min(axis=0), every.max(axis=0)
    middle = (
        np.array([*np.round((low + high)[:2] / 2, 3), low[2]]) if origin is None else np.array([*origin, 0.0, 0.0][:3])
    )
    world = World(file.name.partition(".")[0])
    for name, kind, surfaces in made:
        instance = None
        for material, rows in surfaces.rows.items():
            corners = (np.concatenate(rows) - middle).reshape(-1, 3)
            mesh, _ = Mesh.cleaned(corners, np.arange(len(corners), dtype=np.int32).reshape(-1, 3))
            if mesh is None:
                continue
            label = _OBJECTS.get(kind, ("concrete", "other-object"))[1]
            added = world.add(mesh, material=material, label=label, name=f"{name}/{material}", instance=instance)
            instance = added.instance
    world.contents = tally.contents(file, "CityJSON")
    world.patterns = True
    return world


def _vertices(file: Path, data: Mapping[str, Any]) -> Floats:
    try:
        points = np.array(data.get("vertices"), dtype=np.float64)
    except (TypeError, ValueError):
        points = np.zeros(0)
    if points.ndim != 2 or points.shape[1] != 3 or not np.isfinite(points).all():
        raise ConfigError(f"{file}: vertices must be a list of points of three numbers")
    if len(points) > MOST_POINTS:
        raise ConfigError(f"{file}: {len(points)} points; at most {MOST_POINTS} are allowed; cut out a part")
    transform = data.get("transform")
    if transform is None:
        return points
    try:
        scale, shift = (np.array(transform[key], dtype=np.float64).reshape(3) for key in ("scale", "translate"))
    except (TypeError, ValueError, KeyError):
        raise ConfigError(f"{file}: transform must have scale and translate, three numbers each") from None
    return points * scale + shift


def _object(where: str, item: Any, vertices: Floats, tally: Tally) -> _Surfaces | None:
    if not isinstance(item, Mapping) or not isinstance(item.get("type"), str):
        raise ConfigError(f"{where}: must be a mapping with a type")
    kind, geometries = item["type"], item.get("geometry") or []
    if kind not in _OBJECTS:
        tally.omit(kind[:40], "type not supported")
        return None
    usable = [
        one for one in geometries if isinstance(one, Mapping) and one.get("type") in _NESTING and one.get("boundaries")
    ]
    for one in geometries:
        if one not in usable:
            shape = one.get("type") if isinstance(one, Mapping) else one
            tally.omit(f"{kind} {str(shape)[:30]}", "geometry not supported")
    if not usable:
        tally.omit(kind, "it has no surfaces")
        return None
    usable.sort(key=lambda one: str(one.get("lod", "")))
    for one in usable[:-1]:
        tally.omit(f"{kind} lod {one.get('lod')}", "geometry of a lower level of detail")
    best, made = usable[-1], _Surfaces()
    semantics = best.get("semantics") or {}
    kinds = [str(one.get("type")) for one in semantics.get("surfaces", []) if isinstance(one, Mapping)]
    depth = _NESTING[best["type"]]
    values = list(_flat(semantics.get("values"), depth)) if semantics.get("values") is not None else []
    for row, rings in enumerate(_flat(best["boundaries"], depth)):
        value = values[row] if row < len(values) else None
        surface = kinds[value] if isinstance(value, int) and 0 <= value < len(kinds) else ""
        corners = _triangles(where, rings, vertices)
        if len(corners):
            made.rows.setdefault(_SURFACES.get(surface, _OBJECTS[kind][0]), []).append(corners)
    if not made.rows:
        tally.omit(kind, "its surfaces have no area")
        return None
    tally.add(kind, made.area(), "m2")
    return made


def _flat(value: Any, depth: int) -> Iterator[Any]:
    """Entries of nested lists; missing lists count as none."""
    for one in value if isinstance(value, list) else []:
        if depth == 0:
            yield one
        else:
            yield from _flat(one, depth - 1)


def _triangles(where: str, rings: Any, vertices: Floats) -> Floats:
    """Triangles (n, 3, 3) of a planar surface with holes, counter-clockwise from outside."""
    import shapely

    outlines = []
    for ring in rings if isinstance(rings, Sequence) else []:
        rows = np.array(ring)
        if rows.ndim != 1 or rows.dtype.kind not in "iu" or len(rows) < 3:
            raise ConfigError(f"{where}: a ring must be a list of at least 3 numbers of vertices")
        if rows.min() < 0 or rows.max() >= len(vertices):
            raise ConfigError(f"{where}: refers to vertex {int(rows.max())} of {len(vertices)}")
        outlines.append(vertices[rows])
    if not outlines:
        return np.zeros((0, 3, 3))
    outer = outlines[0]
    normal = np.cross(outer - outer[0], np.roll(outer, -1, axis=0) - outer[0]).sum(axis=0)
    size = float(np.linalg.norm(normal))
    if size < 1e-9:
        return np.zeros((0, 3, 3))
    normal /= size
    u = np.cross(normal, np.eye(3)[int(np.argmin(np.abs(normal)))])
    u /= np.linalg.norm(u)
    frame = np.stack([u, np.cross(normal, u), normal])
    flat = [(ring - outer[0]) @ frame.T for ring in outlines]
    shape = shapely.Polygon(flat[0][:, :2], [ring[:, :2] for ring in flat[1:]])
    corners = triangles(shape if shape.is_valid else shapely.make_valid(shape))
    level = float(np.mean(flat[0][:, 2]))
    local = np.concatenate([corners, np.full((*corners.shape[:2], 1), level)], axis=2)
    return np.asarray(local @ frame + outer[0])
