"""Buildings with real window openings: walls, reveals, recessed panes, bars, sills, curtains, floors and roofs."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from parhelion.core.pose import Floats
from parhelion.world.builtin.many import boxes, quads
from parhelion.world.builtin.props import Part
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import split_quads


@dataclass(frozen=True)
class Band:
    """A strip of facade between two heights in which all windows are alike."""

    bottom: float
    storeys: int
    storey_height: float
    pitch: float
    """Wanted distance between window middles [m]; rounded so that whole windows fit."""
    width: float
    sill: float
    """Height of the window's lower edge above its floor [m]."""
    window_height: float
    recess: float = 0.16

    @property
    def top(self) -> float:
        return self.bottom + self.storeys * self.storey_height


@dataclass
class _Skin:
    """Quads (k, 4, 3) collected by what they are made of."""

    wall: list[Floats] = field(default_factory=list)
    glass: list[Floats] = field(default_factory=list)
    bars: list[Floats] = field(default_factory=list)
    curtains: list[Floats] = field(default_factory=list)
    sill_at: list[Floats] = field(default_factory=list)
    sill_size: list[Floats] = field(default_factory=list)


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
) -> list[Part]:
    """A building `length` along x by `width` along y [m], centred, its foot on z = 0.

    `roof` is flat (parapet and roof units), hip or gable (tiles). Sides are numbered 0 front (-y), 1 right (+x),
    2 back (+y), 3 left (-x); `blind_sides` have no windows above the first band's pitch of 9 m.
    """
    skin = _Skin()
    for side, run in enumerate((length, width, length, width)):
        frame = _side_frame(side, length, width)
        for band in bands:
            pitch = 9.0 if side in blind_sides else band.pitch
            _facade(skin, rng, band, run, pitch, frame)
    height = bands[-1].top
    stone = [_belts(bands, length, width), _door(length, width)]
    if skin.sill_at:
        stone.append(boxes(np.concatenate(skin.sill_at), np.concatenate(skin.sill_size)))
    parts = [
        Part("walls", quads(np.concatenate(skin.wall)), wall, "building"),
        Part("stone", Mesh.merged(stone), "concrete", "building"),
        Part("floors", _inside(bands, length, width), "concrete", "building"),
        Part("door", _door_leaf(width), "wood", "building"),
        *_roof(rng, roof, length, width, height, wall),
    ]
    for name, pieces, material in (
        ("windows", skin.glass, "glass"),
        ("bars", skin.bars, "plastic"),
        ("curtains", skin.curtains, "cotton"),
    ):
        if pieces:
            parts.append(Part(name, quads(np.concatenate(pieces)), material, "building"))
    if balconies:
        parts += _balconies(bands, length, width)
    return parts


@dataclass(frozen=True)
class _Frame:
    """The plane of one wall: `point(u, v, w)` counts along the wall, up, and outwards from it."""

    corner: Floats
    along: Floats
    out: Floats

    def points(self, u: Floats, v: Floats, w: Floats | float) -> Floats:
        depth = np.broadcast_to(np.asarray(w, dtype=np.float64), u.shape)
        return self.corner + u[..., None] * self.along + v[..., None] * np.array([0.0, 0.0, 1.0]) + depth[..., None] * self.out


def _side_frame(side: int, length: float, width: float) -> _Frame:
    x, y = length / 2, width / 2
    corner, along = (((-x, -y), (1, 0)), ((x, -y), (0, 1)), ((x, y), (-1, 0)), ((-x, y), (0, -1)))[side]
    return _Frame(np.array([*corner, 0.0]), np.array([*along, 0.0], dtype=np.float64), np.array([along[1], -along[0], 0.0], dtype=np.float64))


def _rectangles(u0: Floats, u1: Floats, v0: Floats, v1: Floats) -> tuple[Floats, Floats]:
    """Corner coordinates (k, 4) of rectangles, counter-clockwise seen from outside."""
    return np.stack([u0, u1, u1, u0], axis=-1), np.stack([v0, v0, v1, v1], axis=-1)


def _facade(skin: _Skin, rng: np.random.Generator, band: Band, run: float, pitch: float, frame: _Frame) -> None:
    """One wall of one band: a grid of rectangles whose odd rows and columns are openings."""
    columns = max(1, round((run - 1.0) / pitch))
    width = min(band.width, 0.8 * run / columns)
    middles = (np.arange(columns) + 0.5) * run / columns
    u_edges = np.concatenate([[0.0], np.stack([middles - width / 2, middles + width / 2], axis=1).ravel(), [run]])
    sills = band.bottom + band.sill + np.arange(band.storeys) * band.storey_height
    v_edges = np.concatenate([[band.bottom], np.stack([sills, sills + band.window_height], axis=1).ravel(), [band.top]])
    row, column = np.meshgrid(np.arange(len(v_edges) - 1), np.arange(len(u_edges) - 1), indexing="ij")
    opening = (row % 2 == 1) & (column % 2 == 1)
    solid = ~opening
    skin.wall.append(
        frame.points(*_rectangles(u_edges[column[solid]], u_edges[column[solid] + 1], v_edges[row[solid]], v_edges[row[solid] + 1]), 0.0)
    )
    u0, u1 = u_edges[column[opening]], u_edges[column[opening] + 1]
    v0, v1 = v_edges[row[opening]], v_edges[row[opening] + 1]
    _windows(skin, rng, band.recess, u0, u1, v0, v1, frame)


def _windows(
    skin: _Skin, rng: np.random.Generator, recess: float, u0: Floats, u1: Floats, v0: Floats, v1: Floats, frame: _Frame
) -> None:
    """Reveals, panes, bars, sills and some curtains of the openings with edges u0..u1, v0..v1, each (k,)."""
    corner_u, corner_v = _rectangles(u0, u1, v0, v1)
    following = np.roll(np.arange(4), -1)
    # Each edge of an opening, drawn inwards by the recess, gives a reveal that faces the middle of the opening.
    edge_u = np.stack([corner_u, corner_u[:, following], corner_u[:, following], corner_u], axis=-1)
    edge_v = np.stack([corner_v, corner_v[:, following], corner_v[:, following], corner_v], axis=-1)
    depth = np.broadcast_to(np.array([0.0, 0.0, -recess, -recess]), edge_u.shape)
    skin.wall.append(frame.points(edge_u, edge_v, depth).reshape(-1, 4, 3)[:, ::-1])
    skin.glass.append(frame.points(corner_u, corner_v, -recess))
    middle_u, middle_v = (u0 + u1) / 2, v0 + 0.68 * (v1 - v0)
    for bar in (
        _rectangles(middle_u - 0.035, middle_u + 0.035, v0, v1),
        _rectangles(u0, u1, middle_v - 0.035, middle_v + 0.035),
    ):
        skin.bars.append(frame.points(*bar, -recess + 0.03))
    drawn = rng.uniform(size=len(u0)) < 0.35
    if drawn.any():
        low = v0 + rng.uniform(0.0, 0.6, len(u0)) * (v1 - v0)
        blind = _rectangles(u0[drawn] - 0.1, u1[drawn] + 0.1, low[drawn], v1[drawn] + 0.1)
        skin.curtains.append(frame.points(*blind, -recess - 0.12))
    middle = frame.points((u0 + u1) / 2, v0 - 0.04, 0.01)
    size = np.abs((u1 - u0 + 0.2)[:, None] * frame.along + 0.16 * frame.out) + [0.0, 0.0, 0.08]
    skin.sill_at.append(middle)
    skin.sill_size.append(size)


def _belts(bands: list[Band], length: float, width: float) -> Mesh:
    """A plinth at the foot, and a string course over each seam between bands and under the roof."""
    at, sizes = [], []
    for z, thick, proud in [(0.15, 0.3, 0.06), *((band.top - 0.05, 0.22, 0.14) for band in bands)]:
        for sign in (-1, 1):
            at += [[0.0, sign * (width + proud) / 2, z], [sign * (length + proud) / 2, 0.0, z]]
            sizes += [[length + 2 * proud, proud, thick], [proud, width, thick]]
    return boxes(at, sizes)


def _door(length: float, width: float) -> Mesh:
    """Steps and a frame at the middle of the front."""
    y = -width / 2
    return boxes(
        [[0, y - 0.35, 0.08], [-0.62, y - 0.07, 1.2], [0.62, y - 0.07, 1.2], [0, y - 0.07, 2.42]],
        [[1.8, 0.7, 0.16], [0.16, 0.16, 2.4], [0.16, 0.16, 2.4], [1.4, 0.3, 0.16]],
    )


def _door_leaf(width: float) -> Mesh:
    return boxes([[0, -width / 2 - 0.02, 1.25]], (1.1, 0.08, 2.2))


def _inside(bands: list[Band], length: float, width: float) -> Mesh:
    """Floors and two cross walls, so that what passes a window finds a room."""
    levels = np.concatenate([band.bottom + np.arange(band.storeys) * band.storey_height for band in bands])
    levels = np.append(levels, bands[-1].top - 0.3) + 0.1
    slabs = np.column_stack([np.zeros((len(levels), 2)), levels])
    inner_x, inner_y, height = length - 0.6, width - 0.6, bands[-1].top - 0.4
    cross = boxes([[0, 0, height / 2 + 0.05]] * 2, [[0.2, inner_y, height], [inner_x, 0.2, height]])
    return Mesh.merged([boxes(slabs, (length - 0.05, width - 0.05, 0.2)), cross])


def _roof(rng: np.random.Generator, kind: str, length: float, width: float, height: float, wall: str) -> list[Part]:
    if kind == "flat":
        rim = 0.3
        at = [[0, s * (width - rim) / 2, height + 0.4] for s in (-1, 1)] + [[s * (length - rim) / 2, 0, height + 0.4] for s in (-1, 1)]
        sizes = [[length, rim, 0.8]] * 2 + [[rim, width - 2 * rim, 0.8]] * 2
        count = 3
        spot = rng.uniform(-0.3, 0.3, (count, 2)) * [length, width]
        size = rng.uniform([1.0, 1.0, 0.8], [2.6, 2.2, 2.0], (count, 3))
        units = boxes(np.column_stack([spot, height + 0.02 + size[:, 2] / 2]), size)
        return [
            Part("parapet", boxes(at, sizes), wall, "building"),
            Part("roof", boxes([[0, 0, height]], (length - 0.02, width - 0.02, 0.04)), "roofing-felt", "building"),
            Part("units", units, "galvanised-steel", "building"),
        ]
    eaves = 0.45
    rise = 0.36 * min(length, width)
    ridge_half = length / 2 + eaves if kind == "gable" else max(0.5, (length - width) / 2)
    chimney = boxes([[0.25 * length, 0.12 * width, height + 0.5 * rise + 0.9]], (0.9, 0.7, rise + 1.4))
    return [
        Part("roof", ridge_roof(length / 2 + eaves, width / 2 + eaves, ridge_half, height, rise), "roof-tile", "building"),
        Part("chimney", chimney, "brick", "building"),
    ]


def ridge_roof(half_length: float, half_width: float, ridge_half: float, base: float, rise: float) -> Mesh:
    """A closed roof over a rectangle, its ridge along x: hipped where the ridge is shorter than the roof."""
    x, y = half_length, half_width
    low = [[-x, -y, base], [x, -y, base], [x, y, base], [-x, y, base]]
    top = [[-ridge_half, 0, base + rise], [ridge_half, 0, base + rise]]
    flat = split_quads(np.array([[0, 1, 5, 4], [2, 3, 4, 5], [0, 3, 2, 1]]))
    ends = np.array([[1, 2, 5], [3, 0, 4]], dtype=np.int32)
    return Mesh(np.array(low + top, dtype=np.float64), np.concatenate([flat, ends]))


def _balconies(bands: list[Band], length: float, width: float) -> list[Part]:
    """A column of balconies at each end of the front, from the second storey of the upper band on."""
    band = bands[-1]
    levels = band.bottom + np.arange(band.storeys) * band.storey_height
    columns = max(1, round((length - 1.0) / band.pitch))
    ends = ((np.array([0, columns - 1]) + 0.5) / columns - 0.5) * length
    deep, wide, y = 1.1, 2.4, -width / 2
    at = np.array([[x, y - deep / 2, z + 0.1] for z in levels for x in ends])
    floor = boxes(at, (wide, deep, 0.16))
    front = boxes(at + [0, -deep / 2 + 0.02, 0.6], (wide, 0.03, 0.9))
    sides = [boxes(at + [s * (wide / 2 - 0.02), 0.02, 0.6], (0.03, deep - 0.04, 0.9)) for s in (-1, 1)]
    rails = boxes(at + [0, -deep / 2 + 0.02, 1.08], (wide, 0.06, 0.05))
    return [
        Part("balconies", Mesh.merged([floor, rails]), "concrete", "building"),
        Part("balcony-panels", Mesh.merged([front, *sides]), "aluminium", "building"),
    ]
