"""Buildings with real window openings: walls, reveals, recessed panes, bars, sills, curtains, floors and roofs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parhelion.core.pose import Floats
from parhelion.world.kit.instances import boxes, moved, quads
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import split_quads

GOLDEN_RATIO = 0.618033988749895
"""Fractional part of the golden ratio; its multiples are spread evenly modulo 1."""
OPEN_DEG = 75.0
"""Angle of the sash of an open window."""
LIT_EVERY = 3
"""One of so many curtains is lit at night."""
_ROOF_UNITS = 3
"""Number of units on a flat roof."""


@dataclass(frozen=True)
class Band:
    """A strip of facade between two heights with equal windows."""

    bottom: float
    storeys: int
    storey_height: float
    pitch: float
    """Desired distance between the middles of windows [m]; adjusted so that whole windows fit."""
    width: float
    sill: float
    """Height of the lower edge of a window above its floor [m]."""
    window_height: float
    recess: float = 0.16

    @property
    def top(self) -> float:
        return self.bottom + self.storeys * self.storey_height


def building(
    rng: np.random.Generator,
    length: float,
    width: float,
    bands: list[Band],
    *,
    wall: str = "brick",
    roof: str = "flat",
    balconies: bool = False,
    blind_sides: tuple[int, ...] = (),
    open_windows: float = 0.0,
) -> list[KitPart]:
    """A building `length` along x by `width` along y [m], centred, its foot on z = 0.

    `roof` is flat (parapet and roof units), hip or gable (tiles). Sides are numbered 0 front (-y), 1 right (+x),
    2 back (+y), 3 left (-x); `blind_sides` have no windows above the first band's pitch of 9 m. A share `open_windows`
    of the windows is open: their sashes are turned inwards, and they have no curtains.
    """
    wall_rows, opening_rows = [], []
    for side, run in enumerate((length, width, length, width)):
        for band in bands:
            solid, opening = _facade(band, run, 9.0 if side in blind_sides else band.pitch)
            wall_rows.append(np.column_stack([solid, np.full(len(solid), side)]))
            opening_rows.append(np.column_stack([opening, np.full(len(opening), side)]))
    planes = _Planes(length, width)
    solid, opening = np.concatenate(wall_rows), np.concatenate(opening_rows)
    pieces = _windows(rng, opening, planes, open_windows)
    walls = [planes.rectangles(solid[:, 4], solid, 0.0), pieces["reveals"]]
    height = bands[-1].top
    stone = Mesh.merged([_belts(bands, length, width), _door(width), _sills(opening, planes)])
    parts = [
        KitPart("walls", quads(np.concatenate(walls)), wall, "building"),
        KitPart("stone", stone, "concrete", "building"),
        KitPart("floors", _inside(bands, length, width), "concrete", "building"),
        KitPart("door", _door_leaf(width), "wood", "building"),
        KitPart("windows", quads(pieces["glass"]), "glass", "building"),
        KitPart("bars", quads(pieces["bars"]), "plastic", "building"),
        *_roof(rng, roof, length, width, height, wall),
    ]
    # Every third curtain belongs to a room that is lit at night.
    lit = np.arange(len(pieces["curtains"])) % LIT_EVERY == 0
    for name, chosen, cloth in (("curtains", ~lit, "fabric"), ("lit-curtains", lit, "curtain-lit")):
        if chosen.any():
            parts.append(KitPart(name, quads(pieces["curtains"][chosen]), cloth, "building"))
    if balconies:
        parts += _balconies(bands, length, width)
    return parts


def building_draws(
    length: float, width: float, bands: list[Band], *, roof: str = "flat", blind_sides: tuple[int, ...] = ()
) -> int:
    """Number of random draws of `building`: two per window, and those of the units on a flat roof."""
    windows = sum(
        band.storeys * _columns(run, 9.0 if side in blind_sides else band.pitch)
        for side, run in enumerate((length, width, length, width))
        for band in bands
    )
    return 2 * windows + (5 * _ROOF_UNITS if roof == "flat" else 0)


def _columns(run: float, pitch: float) -> int:
    """Number of windows in a wall of length `run` [m]."""
    return max(1, round((run - 1.0) / pitch))


class _Planes:
    """Planes of the four walls: coordinates along the wall (u), up (v) and outwards (w) from a lower corner."""

    def __init__(self, length: float, width: float) -> None:
        x, y = length / 2, width / 2
        self.corner = np.array([[-x, -y, 0.0], [x, -y, 0.0], [x, y, 0.0], [-x, y, 0.0]])
        self.along = np.array([[1.0, 0, 0], [0, 1.0, 0], [-1.0, 0, 0], [0, -1.0, 0]])
        self.out = np.array([[0, -1.0, 0], [1.0, 0, 0], [0, 1.0, 0], [-1.0, 0, 0]])

    def points(self, side: Floats, u: Floats, v: Floats, w: Floats | float) -> Floats:
        """Positions (k, ..., 3) [m] of wall coordinates (k, ...), row k on wall `side[k]`."""
        k = side.astype(np.intp)
        index = (slice(None), *(None,) * (u.ndim - 1))
        depth = np.asarray(w, dtype=np.float64)[..., None]
        flat = self.corner[k][index] + u[..., None] * self.along[k][index] + depth * self.out[k][index]
        flat[..., 2] += v
        return flat

    def rectangles(self, side: Floats, edges: Floats, w: Floats | float) -> Floats:
        """Quads (k, 4, 3) from rows u0, u1, v0, v1, counter-clockwise seen from outside."""
        u0, u1, v0, v1 = edges[:, 0], edges[:, 1], edges[:, 2], edges[:, 3]
        depth = w if isinstance(w, float) else w[:, None]
        return self.points(side, np.stack([u0, u1, u1, u0], axis=1), np.stack([v0, v0, v1, v1], axis=1), depth)


def _facade(band: Band, run: float, pitch: float) -> tuple[Floats, Floats]:
    """One wall of one band as a grid of rectangles; those in odd rows and columns are open.

    Rows u0, u1, v0, v1 of the solid rectangles, and u0, u1, v0, v1, recess of the openings.
    """
    columns = _columns(run, pitch)
    width = min(band.width, 0.8 * run / columns)
    middles = (np.arange(columns) + 0.5) * run / columns
    u = np.concatenate([[0.0], np.stack([middles - width / 2, middles + width / 2], axis=1).ravel(), [run]])
    sills = band.bottom + band.sill + np.arange(band.storeys) * band.storey_height
    v = np.concatenate([[band.bottom], np.stack([sills, sills + band.window_height], axis=1).ravel(), [band.top]])
    row, column = (grid.ravel() for grid in np.meshgrid(np.arange(len(v) - 1), np.arange(len(u) - 1), indexing="ij"))
    edges = np.column_stack([u[column], u[column + 1], v[row], v[row + 1]])
    is_open = (row % 2 == 1) & (column % 2 == 1)
    opening = edges[is_open]
    return edges[~is_open], np.column_stack([opening, np.full(len(opening), band.recess)])


def _windows(rng: np.random.Generator, opening: Floats, planes: _Planes, open_share: float) -> dict[str, Floats]:
    """Quads of the reveals, panes, bars and some curtains of the openings (k, 6): u0, u1, v0, v1, recess, side."""
    u0, u1, v0, v1, recess, side = opening.T
    corner_u, corner_v = np.stack([u0, u1, u1, u0], axis=1), np.stack([v0, v0, v1, v1], axis=1)
    following = np.roll(np.arange(4), -1)
    # Each edge of an opening, extruded inwards by the recess, is a reveal that faces the middle of the opening.
    edge_u = np.stack([corner_u[:, following], corner_u, corner_u, corner_u[:, following]], axis=-1)
    edge_v = np.stack([corner_v[:, following], corner_v, corner_v, corner_v[:, following]], axis=-1)
    inwards = -recess[:, None, None] * np.array([1.0, 1.0, 0.0, 0.0])
    middle_u, middle_v = (u0 + u1) / 2, v0 + 0.68 * (v1 - v0)
    bars = [
        np.column_stack([middle_u - 0.035, middle_u + 0.035, v0, v1]),
        np.column_stack([u0, u1, middle_v - 0.035, middle_v + 0.035]),
    ]
    drawn = rng.uniform(size=len(u0)) < 0.35
    low = v0 + rng.uniform(0.0, 0.6, len(u0)) * (v1 - v0)
    # Spread evenly over the windows, without a draw.
    stands_open = (np.arange(len(u0)) + 0.5) * GOLDEN_RATIO % 1.0 < open_share
    drawn &= ~stands_open
    curtains = np.column_stack([u0 - 0.1, u1 + 0.1, low, v1 + 0.1])[drawn]

    def sashes(edges: Floats, proud: float) -> Floats:
        """Quads of parts of the sashes, `proud` outside of their plane; those of open windows are turned."""
        u, v = edges[:, [0, 1, 1, 0]], edges[:, [2, 2, 3, 3]]
        turn = np.where(stands_open, np.radians(OPEN_DEG), 0.0)[:, None]
        hinge, sine, cosine = u0[:, None], np.sin(turn), np.cos(turn)
        along = np.where(stands_open[:, None], hinge + (u - hinge) * cosine + proud * sine, u)
        out = np.where(stands_open[:, None], -(u - hinge) * sine + proud * cosine, proud) - recess[:, None]
        return planes.points(side, along, v, out)

    return {
        "reveals": planes.points(side, edge_u, edge_v, inwards).reshape(-1, 4, 3),
        "glass": sashes(opening, 0.0),
        "bars": np.concatenate([sashes(bar, 0.03) for bar in bars]),
        "curtains": planes.rectangles(side[drawn], curtains, -recess[drawn] - 0.12),
    }


def _sills(opening: Floats, planes: _Planes) -> Mesh:
    """Stone sill under each window."""
    u0, u1, v0, _, _, side = opening.T
    k = side.astype(np.intp)
    size = np.abs((u1 - u0 + 0.2)[:, None] * planes.along[k] + 0.16 * planes.out[k])
    size[:, 2] = 0.08
    return boxes(planes.points(side, (u0 + u1) / 2, v0 - 0.04, 0.01), size)


def _belts(bands: list[Band], length: float, width: float) -> Mesh:
    """Plinth at the base, and a string course above each seam between bands and under the roof."""
    at, sizes = [], []
    for z, thick, proud in [(0.15, 0.3, 0.06), *((band.top - 0.05, 0.22, 0.14) for band in bands)]:
        for sign in (-1, 1):
            at += [[0.0, sign * (width + proud) / 2, z], [sign * (length + proud) / 2, 0.0, z]]
            sizes += [[length + 2 * proud, proud, thick], [proud, width, thick]]
    return boxes(at, sizes)


def _door(width: float) -> Mesh:
    """Steps and a frame at the middle of the front."""
    y = -width / 2
    return boxes(
        [[0, y - 0.35, 0.08], [-0.62, y - 0.07, 1.2], [0.62, y - 0.07, 1.2], [0, y - 0.07, 2.42]],
        [[1.8, 0.7, 0.16], [0.16, 0.16, 2.4], [0.16, 0.16, 2.4], [1.4, 0.3, 0.16]],
    )


def _door_leaf(width: float) -> Mesh:
    return boxes([[0, -width / 2 - 0.02, 1.25]], (1.1, 0.08, 2.2))


def _inside(bands: list[Band], length: float, width: float) -> Mesh:
    """Floors and two cross walls, so that rays through a window hit a room."""
    levels = np.concatenate([band.bottom + np.arange(band.storeys) * band.storey_height for band in bands])
    levels = np.append(levels, bands[-1].top - 0.3) + 0.1
    slabs = np.column_stack([np.zeros((len(levels), 2)), levels])
    inner_x, inner_y, height = length - 0.6, width - 0.6, bands[-1].top - 0.4
    cross = boxes([[0, 0, height / 2 + 0.05]] * 2, [[0.2, inner_y, height], [inner_x, 0.2, height]])
    return Mesh.merged([boxes(slabs, (length - 0.05, width - 0.05, 0.2)), cross])


def _roof(rng: np.random.Generator, kind: str, length: float, width: float, height: float, wall: str) -> list[KitPart]:
    if kind == "flat":
        rim = 0.3
        at = [[0, s * (width - rim) / 2, height + 0.4] for s in (-1, 1)] + [
            [s * (length - rim) / 2, 0, height + 0.4] for s in (-1, 1)
        ]
        sizes = [[length, rim, 0.8]] * 2 + [[rim, width - 2 * rim, 0.8]] * 2
        spot = rng.uniform(-0.3, 0.3, (_ROOF_UNITS, 2)) * [length, width]
        size = rng.uniform([1.0, 1.0, 0.8], [2.6, 2.2, 2.0], (_ROOF_UNITS, 3))
        units = boxes(np.column_stack([spot, height + 0.02 + size[:, 2] / 2]), size)
        return [
            KitPart("parapet", boxes(at, sizes), wall, "building"),
            KitPart("roof", boxes([[0, 0, height]], (length - 0.02, width - 0.02, 0.04)), "roofing-felt", "building"),
            KitPart("units", units, "galvanised-steel", "building"),
        ]
    eaves = 0.45
    rise = 0.36 * min(length, width)
    ridge_half = length / 2 + eaves if kind == "gable" else max(0.5, (length - width) / 2)
    chimney = boxes([[0.25 * length, 0.12 * width, height + 0.5 * rise + 0.9]], (0.9, 0.7, rise + 1.4))
    return [
        KitPart(
            "roof", ridge_roof(length / 2 + eaves, width / 2 + eaves, ridge_half, height, rise), "roof-tile", "building"
        ),
        KitPart("chimney", chimney, "brick", "building"),
    ]


def ridge_roof(half_length: float, half_width: float, ridge_half: float, base: float, rise: float) -> Mesh:
    """Closed roof over a rectangle with its ridge along x; hipped if the ridge is shorter than the roof."""
    x, y = half_length, half_width
    low = [[-x, -y, base], [x, -y, base], [x, y, base], [-x, y, base]]
    top = [[-ridge_half, 0, base + rise], [ridge_half, 0, base + rise]]
    flat = split_quads(np.array([[0, 1, 5, 4], [2, 3, 4, 5], [0, 3, 2, 1]]))
    ends = np.array([[1, 2, 5], [3, 0, 4]], dtype=np.int32)
    return Mesh(np.array(low + top, dtype=np.float64), np.concatenate([flat, ends]))


def _balconies(bands: list[Band], length: float, width: float) -> list[KitPart]:
    """Column of balconies at each end of the front, from the second storey of the upper band."""
    band = bands[-1]
    levels = band.bottom + np.arange(band.storeys) * band.storey_height
    columns = max(1, round((length - 1.0) / band.pitch))
    ends = ((np.array([0, columns - 1]) + 0.5) / columns - 0.5) * length
    deep, wide, y = 1.1, 2.4, -width / 2
    at = np.array([[x, y - deep / 2, z + 0.1] for z in levels for x in ends])
    floor = boxes(at, (wide, deep, 0.16))
    front = boxes(moved(at, 0, -deep / 2 + 0.02, 0.6), (wide, 0.03, 0.9))
    sides = [boxes(moved(at, s * (wide / 2 - 0.02), 0.02, 0.6), (0.03, deep - 0.04, 0.9)) for s in (-1, 1)]
    rails = boxes(moved(at, 0, -deep / 2 + 0.02, 1.08), (wide, 0.06, 0.05))
    return [
        KitPart("balconies", Mesh.merged([floor, rails]), "concrete", "building"),
        KitPart("balcony-panels", Mesh.merged([front, *sides]), "aluminium", "building"),
    ]
