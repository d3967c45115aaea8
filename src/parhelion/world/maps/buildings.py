"""Buildings of a map: walls and roofs from an outline, heights and the shape of the roof.

Tags: https://wiki.openstreetmap.org/wiki/Simple_3D_Buildings
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from parhelion.core.pose import Floats
from parhelion.world.kit.props import KitPart
from parhelion.world.maps.features import Feature
from parhelion.world.maps.palette import colour_of, roof_of, wall_of
from parhelion.world.maps.plane import polygons, triangles, upright
from parhelion.world.mesh import Mesh

STOREY_M = 3.0
DEFAULT_STOREYS = {
    "house": 2,
    "detached": 2,
    "semidetached_house": 2,
    "terrace": 2,
    "bungalow": 1,
    "apartments": 4,
    "residential": 3,
    "garage": 1,
    "garages": 1,
    "shed": 1,
    "hut": 1,
    "cabin": 1,
    "kiosk": 1,
    "greenhouse": 1,
    "farm_auxiliary": 1,
    "barn": 2,
    "industrial": 2,
    "warehouse": 3,
    "office": 5,
    "commercial": 3,
    "retail": 2,
    "school": 3,
    "hospital": 4,
    "hotel": 5,
    "church": 4,
    "cathedral": 8,
    "hangar": 4,
    "roof": 1,
    "carport": 1,
}
"""Storeys of buildings without a height, by value of `building`; round figures. Three for all others."""
_PLAIN_WALLS = {
    "industrial": "galvanised-steel",
    "warehouse": "galvanised-steel",
    "garage": "concrete",
    "garages": "concrete",
    "shed": "wood",
    "barn": "wood",
    "greenhouse": "glass",
    "hangar": "galvanised-steel",
    "church": "limestone",
    "cathedral": "limestone",
    "office": "concrete",
}
_NO_WALLS = {"roof", "carport"}
_NO_WINDOWS = {
    "garage",
    "garages",
    "shed",
    "hut",
    "barn",
    "greenhouse",
    "warehouse",
    "industrial",
    "hangar",
    "storage_tank",
    "silo",
    "transformer_tower",
    "farm_auxiliary",
}
_DOORS = {"garage": (2.4, 2.1, "galvanised-steel"), "garages": (2.4, 2.1, "galvanised-steel")}
"""Width and height [m] and material of doors by kind."""
_DOOR = (1.0, 2.1, "wood")
"""The same for buildings with windows: round figures."""
_ROOM = "plastic-black"
"""Material behind panes: rooms are not built, and from outside they are dark."""
_DOOR_EVERY_M = 15.0
"""Length of a wall per front door."""
_BAY_M = 3.0
_PITCH_DEG = 35.0
"""Slope of roofs without a height: a round figure."""
_SAME_M = 2e-3

ROOF_SHAPES = (
    "flat", "gabled", "hipped", "half-hipped", "pyramidal", "skillion", "gambrel", "mansard", "round", "dome", "onion",
    "cone", "saltbox",
)  # fmt: skip
"""Values of `roof:shape` that are built; `half-hipped`, `saltbox` and `onion` as `gabled`, `gabled` and `dome`."""


@dataclass(frozen=True)
class BuildingSheet:
    """Dimensions and surfaces of a building."""

    base_m: float
    """Height of the lower edge of its walls above the ground."""
    eaves_m: float
    top_m: float
    roof: str
    direction_deg: float | None
    """Azimuth of the slope of a `skillion` roof, or across the ridge of others."""
    across: bool
    """True for a ridge along the shorter side."""
    storeys: float
    kind: str
    wall: str
    roof_material: str
    wall_colour: str | None
    roof_colour: str | None

    @property
    def has_walls(self) -> bool:
        """False for a roof on posts."""
        return self.kind not in _NO_WALLS

    @property
    def has_windows(self) -> bool:
        """True if its walls have windows."""
        return self.has_walls and self.kind not in _NO_WINDOWS and self.wall != "glass"


def sheet_of(feature: Feature) -> tuple[BuildingSheet, list[str]]:
    """Sheet of a building, and notes on tags that were replaced by a default."""
    kind = feature.tag("building", "building:part")
    notes = []
    storeys = feature.number("building:levels", "levels")
    roof_storeys = feature.number("roof:levels") or 0.0
    total = feature.metres("height", "building:height", "height_m")
    if total is None and storeys is None:
        notes.append("building without height or building:levels: default by kind")
        storeys = float(DEFAULT_STOREYS.get(kind, 3))
    roof = feature.tag("roof:shape", "building:roof:shape") or "flat"
    if roof not in ROOF_SHAPES:
        notes.append(f"roof:shape={roof}: built flat")
        roof = "flat"
    if roof in ("half-hipped", "saltbox", "onion"):
        replacement = "dome" if roof == "onion" else "gabled"
        notes.append(f"roof:shape={roof}: built {replacement}")
        roof = replacement
    narrow = _narrow_side(feature.shape)
    rise = feature.metres("roof:height", "building:roof:height")
    if roof == "flat":
        rise = 0.0
    elif rise is None:
        angle = feature.number("roof:angle") or _PITCH_DEG
        run = narrow if roof == "skillion" else narrow / 2
        rise = roof_storeys * STOREY_M if roof_storeys else run * float(np.tan(np.radians(np.clip(angle, 1.0, 75.0))))
        if roof == "dome":
            rise = narrow / 2
    if total is not None and not 0.1 <= total <= 1000.0:
        notes.append(f"height={feature.tags.get('height', total)}: outside of 0.1 to 1000 m, default by kind")
        total, storeys = None, storeys or float(DEFAULT_STOREYS.get(kind, 3))
    if total is None:
        # `height` includes the roof, `building:levels` does not.
        total = min(max(storeys or 1.0, 0.5), 300.0) * STOREY_M + rise
    base = feature.metres("min_height", "building:min_height")
    if base is None:
        base = (feature.number("building:min_level") or 0.0) * STOREY_M
    if not 0.0 <= base < total:
        notes.append("min_height is not below height: ignored")
        base = 0.0
    rise = min(rise, total - base)
    direction = feature.number("roof:direction")
    default_wall = _PLAIN_WALLS.get(kind, "plaster")
    default_roof = "roofing-felt" if roof == "flat" else "roof-tile"
    return (
        BuildingSheet(
            base,
            total - rise,
            total,
            roof,
            direction,
            feature.tag("roof:orientation") == "across",
            storeys or max(1.0, round((total - rise - base) / STOREY_M)),
            kind,
            wall_of(feature.tag("building:material", "building:facade:material"), default_wall),
            roof_of(feature.tag("roof:material"), default_roof),
            colour_of(feature.tag("building:colour", "building:color")),
            colour_of(feature.tag("roof:colour", "roof:color")),
        ),
        notes,
    )


def building_parts(
    shape: Any, sheet: BuildingSheet, ground_m: float, *, windows: bool = True, street: Any = None
) -> list[KitPart]:
    """Walls, roof, windows, and doors, of a building; `ground_m` is the height of the ground at its foot.

    Doors are in the wall that is nearest to `street`, a geometry; without one, in the longest wall.
    """
    roofs, walls, panes, rooms, doors = [], [], [], [], []
    for part in polygons(shape):
        crown = _Crown(part, sheet)
        corners = crown.roof()
        roofs.append(corners + np.array([0.0, 0.0, ground_m]))
        a, b, top = crown.wall_tops()
        low = np.full_like(top, sheet.base_m)
        if sheet.has_walls:
            mesh = upright(a, b, low + ground_m, top + ground_m)
            walls += [mesh] if mesh is not None else []
            entrances = _entrances(a, b, sheet, street) if windows else np.zeros(0, int)
            if windows and sheet.has_windows:
                panes.append(_windows(a, b, sheet, ground_m, entrances, 0.03))
                rooms.append(_windows(a, b, sheet, ground_m, entrances, 0.01))
            doors.append(_leaves(a, b, sheet, ground_m, entrances))
        if not sheet.has_walls or sheet.base_m > 0:
            level = sheet.base_m if sheet.has_walls else sheet.eaves_m - 0.2
            under = triangles(part)[:, ::-1]
            roofs.append(np.concatenate([under, np.full((*under.shape[:2], 1), level + ground_m)], axis=2))
    made = []
    if walls:
        made.append(KitPart("walls", Mesh.merged(walls), sheet.wall, "building"))
    faces = np.concatenate(roofs)
    roof, _ = Mesh.cleaned(faces.reshape(-1, 3), np.arange(3 * len(faces), dtype=np.int32).reshape(-1, 3))
    if roof is not None:
        made.append(KitPart("roof", roof, sheet.roof_material, "building"))
    material = _DOORS.get(sheet.kind, _DOOR)[2]
    for name, found, what, label in (
        ("windows", panes, "glass", "window"),
        ("rooms", rooms, _ROOM, "building"),
        ("doors", doors, material, "building"),
    ):
        rows = np.concatenate(found) if found else np.zeros((0, 4, 3))
        if len(rows):
            mesh, _ = Mesh.cleaned(rows.reshape(-1, 3), _quad_rows(len(rows)))
            assert mesh is not None
            made.append(KitPart(name, mesh, what, label))
    return made


def _quad_rows(count: int) -> Any:
    rows = np.arange(4 * count, dtype=np.int32).reshape(-1, 4)
    return rows[:, [[0, 1, 2], [0, 2, 3]]].reshape(-1, 3)


def _narrow_side(shape: Any) -> float:
    import shapely

    corners = shapely.get_coordinates(shapely.minimum_rotated_rectangle(shape))
    sides = np.hypot(*np.diff(corners, axis=0).T)
    return float(sides.min()) if len(sides) >= 2 else 1.0


# ---- roofs -----------------------------------------------------------------------------------------------------------


class _Crown:
    """Height of a roof over one polygon: cells in the frame of the ridge, and a plane over each of them."""

    def __init__(self, part: Any, sheet: BuildingSheet) -> None:
        import shapely

        self.part, self.sheet = shapely.orient_polygons(part), sheet
        corners = shapely.get_coordinates(shapely.minimum_rotated_rectangle(part))[:4]
        first, second = corners[1] - corners[0], corners[2] - corners[1]
        longer = first if np.hypot(*first) >= np.hypot(*second) else second
        if sheet.direction_deg is not None and sheet.roof in ("skillion", "gabled", "gambrel", "round"):
            azimuth = np.radians(sheet.direction_deg)
            # The ridge is the side of the outline that is most nearly perpendicular to the direction.
            down = np.array([np.sin(azimuth), np.cos(azimuth)])
            longer = min((first, second), key=lambda side: abs(float(side @ down)) / float(np.hypot(*side)))
            side = np.array([-longer[1], longer[0]])
            longer = longer if side @ down <= 0 else -longer
        elif sheet.across:
            longer = first if longer is second else second
        self.axis = longer / np.hypot(*longer)
        self.middle = corners.mean(axis=0)
        uv = self._to_frame(corners)
        self.half = np.abs(uv).max(axis=0)
        """Half length along the ridge and half width across it [m]."""

    def _to_frame(self, xy: Floats) -> Floats:
        away = xy - self.middle
        return np.stack([away @ self.axis, away @ [-self.axis[1], self.axis[0]]], axis=-1)

    def height(self, xy: Floats) -> Floats:
        """Height of the roof above the ground [m] at points (n, 2)."""
        sheet, (length, width) = self.sheet, self.half
        rise = sheet.top_m - sheet.eaves_m
        u, v = self._to_frame(xy).T
        across, along_ = np.abs(v) / width, np.abs(u) / length
        if rise <= 0 or sheet.roof == "flat":
            share = np.zeros(len(xy))
        elif sheet.roof == "gabled":
            share = 1.0 - across
        elif sheet.roof == "skillion":
            share = (1.0 - v / width) / 2 if sheet.direction_deg is None else (1.0 + v / width) / 2
        elif sheet.roof == "hipped":
            share = np.minimum(1.0 - across, (length - np.abs(u)) / width)
        elif sheet.roof in ("pyramidal", "cone"):
            share = 1.0 - np.maximum(across, along_)
        elif sheet.roof == "gambrel":
            share = np.where(across > 0.5, (1.0 - across) * 1.4, 0.7 + (0.5 - across) * 0.6)
        elif sheet.roof == "mansard":
            edge = np.minimum(1.0 - across, (length - np.abs(u)) / width)
            share = np.minimum(edge / 0.3, 1.0) * 0.9 + np.clip((edge - 0.3) / 0.7, 0.0, 1.0) * 0.1
        else:  # round
            share = np.sqrt(np.maximum(0.0, 1.0 - across**2))
        return sheet.eaves_m + rise * np.clip(share, 0.0, 1.0)

    def cells(self) -> list[Floats]:
        """Convex cells in the frame of the ridge; the roof is a plane over each."""
        length, width = self.half * 1.001
        roof = self.sheet.roof
        if roof == "gabled":
            rows: Sequence[float] = (-width, 0.0, width)
        elif roof == "gambrel":
            rows = (-width, -self.half[1] / 2, 0.0, self.half[1] / 2, width)
        elif roof == "round":
            rows = width * np.sin(np.linspace(-np.pi / 2, np.pi / 2, 13))
        elif roof in ("hipped", "mansard", "pyramidal", "cone"):
            return self._hips()
        else:
            rows = (-width, width)
        return [
            np.array([[-length, low], [length, low], [length, high], [-length, high]]) for low, high in pairwise(rows)
        ]

    def _hips(self) -> list[Floats]:
        length, width = self.half * 1.001
        if self.sheet.roof in ("pyramidal", "cone"):
            levels, ridge = [0.0, 1.0], 0.0
        else:
            ridge = max(0.0, length - width)
            levels = [0.0, 1.0] if self.sheet.roof == "hipped" else [0.0, 0.3, 1.0]
        rings = []
        for share in levels:
            half_u, half_v = length + share * (ridge - length), width * (1.0 - share)
            rings.append(np.array([[-half_u, -half_v], [half_u, -half_v], [half_u, half_v], [-half_u, half_v]]))
        found = []
        for outer, inner in pairwise(rings):
            for k in range(4):
                j = (k + 1) % 4
                found.append(np.array([outer[k], outer[j], inner[j], inner[k]]))
        return found

    def _pieces(self) -> Any:
        """Polygons of the outline, one per cell of the roof."""
        import shapely

        frame = np.array([self.axis, [-self.axis[1], self.axis[0]]])
        cells = [shapely.Polygon(cell @ frame + self.middle) for cell in self.cells()]
        return polygons(shapely.intersection(self.part, np.array(cells, dtype=object)))

    def roof(self) -> Floats:
        """Triangles (n, 3, 3) of the roof."""
        if self.sheet.roof == "dome":
            return self._dome()
        pieces = np.array([self.part], dtype=object) if self.sheet.roof in ("flat", "skillion") else self._pieces()
        flat = triangles(pieces)
        z = self.height(flat.reshape(-1, 2)).reshape(-1, 3)
        return np.concatenate([flat, z[..., None]], axis=2)

    def _dome(self) -> Floats:
        """Rings of the outline, scaled about its middle, on an ellipse."""
        import shapely

        centre = shapely.get_coordinates(self.part.centroid)[0]
        ring = shapely.get_coordinates(self.part.exterior)[:-1]
        angle = np.linspace(0.0, np.pi / 2, 9)
        rise = self.sheet.top_m - self.sheet.eaves_m
        levels = [
            np.column_stack(
                [centre + (ring - centre) * np.cos(a), np.full(len(ring), self.sheet.eaves_m + rise * np.sin(a))]
            )
            for a in angle
        ]
        faces = []
        for low, high in pairwise(levels):
            low_next, high_next = np.roll(low, -1, axis=0), np.roll(high, -1, axis=0)
            faces += [np.stack([low, low_next, high_next], axis=1), np.stack([low, high_next, high], axis=1)]
        return np.concatenate(faces)

    def wall_tops(self) -> tuple[Floats, Floats, Floats]:
        """Starts and ends (n, 2) of walls, which face outward, and heights of the roof at both (n, 2)."""
        import shapely

        border = shapely.get_rings(self.part)
        if self.sheet.roof in ("flat", "skillion", "dome"):
            pieces = np.array([self.part], dtype=object)
        else:
            pieces = shapely.orient_polygons(self._pieces())
        xy, row = shapely.get_coordinates(shapely.get_rings(pieces), return_index=True)
        same = row[1:] == row[:-1]
        a, b = xy[:-1][same], xy[1:][same]
        # Edges of the pieces on the outline; the others are folds of the roof.
        middle = shapely.points((a + b) / 2)
        outside = shapely.distance(middle, shapely.multilinestrings(border)) < _SAME_M
        a, b = a[outside], b[outside]
        # A wall faces to the right of its direction, and outlines are counter-clockwise, holes clockwise.
        if self.sheet.roof == "dome":
            tops = np.full((len(a), 2), self.sheet.eaves_m)
        else:
            tops = np.stack([self.height(a), self.height(b)], axis=1)
        return a, b, tops


def _bays(a: Floats, b: Floats) -> tuple[Any, Floats, Floats]:
    """Bays of walls, about one per 3 m: row of the wall, and middle and direction along the wall (n, 2)."""
    run = np.hypot(*(b - a).T)
    count = np.where(run > 2.4, np.maximum(1, (run / _BAY_M).astype(int)), 0)
    wall = np.repeat(np.arange(len(a)), count)
    rank = np.arange(len(wall)) - np.repeat(np.cumsum(count) - count, count)
    share = (rank + 0.5) / count[wall]
    return wall, a[wall] + share[:, None] * (b - a)[wall], (b - a)[wall] / run[wall, None]


def _storeys(sheet: BuildingSheet) -> tuple[int, float]:
    """Number and height [m] of the storeys with windows."""
    count = int(max(1, min(round((sheet.eaves_m - sheet.base_m) / STOREY_M), 200)))
    return count, (sheet.eaves_m - sheet.base_m) / count


def _entrances(a: Floats, b: Floats, sheet: BuildingSheet, street: Any) -> Any:
    """Rows of the bays with a door; none in parts of a building above the ground."""
    import shapely

    has_doors = sheet.kind in _DOORS or sheet.has_windows
    wall, _, _ = _bays(a, b)
    if not has_doors or sheet.base_m > 0 or _storeys(sheet)[1] < 2.4 or len(wall) == 0:
        return np.zeros(0, int)
    rows, length = np.unique(wall), np.hypot(*(b - a).T)
    # From 1 m in front of its middle, the wall behind the house is farther from the street than the one before it.
    front = (b - a)[rows] / length[rows, None]
    before = (a + b)[rows] / 2 + np.column_stack([front[:, 1], -front[:, 0]])
    away = -length[rows] if street is None else np.round(shapely.distance(shapely.points(before), street), 3)
    bays = np.flatnonzero(wall == rows[np.lexsort((-length[rows], away))[0]])
    wanted = len(bays) if sheet.kind in _DOORS else max(1, int(len(bays) * _BAY_M / _DOOR_EVERY_M))
    return bays[((np.arange(wanted) + 0.5) / wanted * len(bays)).astype(int)]


def _leaves(a: Floats, b: Floats, sheet: BuildingSheet, ground_m: float, entrances: Any) -> Floats:
    """Door leaves (n, 4, 3), 4 cm before the walls."""
    wide, tall, _ = _DOORS.get(sheet.kind, _DOOR)
    _, middle, along = _bays(a, b)
    return _standing(middle[entrances], along[entrances], wide, np.full(len(entrances), ground_m), tall, 0.04)


def _windows(a: Floats, b: Floats, sheet: BuildingSheet, ground_m: float, entrances: Any, before: float) -> Floats:
    """Panes (n, 4, 3) of 1.2 x 1.4 m, `before` [m] the walls, in every bay of each storey without a door."""
    storeys, tall = _storeys(sheet)
    wall, middle, along = _bays(a, b)
    if tall < 2.2 or len(wall) == 0:
        return np.zeros((0, 4, 3))
    sill = np.repeat(sheet.base_m + ground_m + tall * np.arange(storeys) + 0.3 * tall, len(wall))
    free = np.delete(np.arange(storeys * len(wall)), entrances)  # those of the lowest storey come first
    bay = free % len(wall)
    return _standing(middle[bay], along[bay], 1.2, sill[free], min(1.4, 0.6 * tall), before)


def _standing(middle: Floats, along: Floats, wide: float, low: Floats, tall: float, before: float) -> Floats:
    """Upright rectangles (n, 4, 3) on walls, `before` [m] in front of them, from the height `low` [m]."""
    middle = middle + before * np.column_stack([along[:, 1], -along[:, 0]])
    left, right = middle - wide / 2 * along, middle + wide / 2 * along
    corners = [(left, low), (right, low), (right, low + tall), (left, low + tall)]
    return np.stack([np.column_stack([points, z]) for points, z in corners], axis=1)
