"""Racks, pallets and what stands on them, as parts in their own frame: foot at z = 0, centred in x and y."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream
from parhelion.world.kit.many import boxes, copies, struts
from parhelion.world.kit.props import Part
from parhelion.world.mesh import Mesh
from parhelion.world.procedural.kinds import PALLET_HEIGHT_M, RackParams

POST_M = 0.1
"""Width of a rack's posts."""
BEAM_M = 0.1
"""Height of a rack's beams and decks."""
PALLET_M = (1.2, 0.8)
"""Length and width of a flat pallet (EN 13698-1)."""
_GAP_M = 0.05
"""Air between a load and what is beside and above it."""
_LEAST_PALLET_SPACE_M = 0.6
"""Places lower than this hold cartons without a pallet."""
_GOODS = ("cartons", "wrapped", "drums", "none")
_GOODS_SHARES = (0.55, 0.27, 0.1, 0.08)


class Load(NamedTuple):
    """One load in a rack: a thing of its own."""

    pose: Pose
    """In the rack's frame."""
    parts: list[Part]


@lru_cache(maxsize=1)
def _bare_pallet() -> Mesh:
    """A flat pallet of 1.2 x 0.8 x 0.144 m: five top boards, cross boards, nine blocks, three runners."""
    across = np.linspace(-0.3275, 0.3275, 5)
    top = boxes([[0.0, y, 0.133] for y in across], (1.2, 0.145, 0.022))
    cross = boxes([[x, 0.0, 0.111] for x in (-0.5275, 0.0, 0.5275)], (0.145, 0.8, 0.022))
    blocks = boxes([[x, y, 0.061] for x in (-0.5275, 0.0, 0.5275) for y in (-0.35, 0.0, 0.35)], (0.145, 0.1, 0.078))
    runners = boxes([[0.0, y, 0.011] for y in (-0.35, 0.0, 0.35)], (1.2, 0.1, 0.022))
    return Mesh.merged([top, cross, blocks, runners])


@lru_cache(maxsize=64)
def _cartons(columns: int, rows: int, layers: int) -> Mesh:
    """Cartons that fill the unit cube on z = 0 but for thin gaps."""
    count = np.array([columns, rows, layers])
    cell = np.stack(np.meshgrid(*(np.arange(n) for n in count), indexing="ij"), axis=-1).reshape(-1, 3)
    return boxes((cell + 0.5) / count - [0.5, 0.5, 0.0], 0.97 / count)


@lru_cache(maxsize=8)
def _drums(columns: int, rows: int) -> Mesh:
    """Upright drums side by side that fill the unit cube on z = 0."""
    x, y = np.meshgrid((np.arange(columns) + 0.5) / columns - 0.5, (np.arange(rows) + 0.5) / rows - 0.5)
    foot = np.column_stack([x.ravel(), y.ravel(), np.zeros(x.size)])
    one = struts([[0.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]], 1.0, 16)
    return copies(one, foot, 0.0, np.tile([0.48 / columns, 0.48 / rows, 1.0], (x.size, 1)))


def _stack(goods: str, size: Floats) -> Part:
    """Goods of one sort in a block of `size` [m] on z = 0."""
    if goods == "drums":
        columns, rows = (max(1, round(side / 0.6)) for side in size[:2])
        return Part("drums", _drums(columns, rows).scaled(size.tolist()), "car-paint-blue", "other-object")
    if goods == "wrapped":
        return Part("wrapped", boxes([[0.0, 0.0, size[2] / 2]], size), "plastic", "other-object")
    count = (max(1, min(12, round(side / wanted))) for side, wanted in zip(size, (0.4, 0.4, 0.3), strict=True))
    return Part("cartons", _cartons(*count).scaled(size.tolist()), "cardboard", "other-object")


def pallet_parts(length: float, width: float, height: float, goods: str) -> list[Part]:
    """A pallet and its goods, `height` [m] in all; too low for goods, it is a pallet alone, thinner where need be."""
    deck = min(PALLET_HEIGHT_M, height)
    scale = (length / PALLET_M[0], width / PALLET_M[1], deck / PALLET_HEIGHT_M)
    parts = [Part("pallet", _bare_pallet().scaled(scale), "wood", "pallet")]
    if goods != "none" and height > deck + 0.05:
        block = _stack(goods, np.array([0.97 * length, 0.97 * width, height - deck]))
        parts.append(block._replace(mesh=block.mesh.transformed(Pose((0.0, 0.0, deck)))))
    return parts


def bay_count(length: float, bay_m: float) -> int:
    """Bays of a rack of `length` [m]: so many that their length comes nearest to `bay_m` [m]."""
    return max(1, round((length - POST_M) / bay_m))


def rack_parts(length: float, depth: float, height: float, params: RackParams) -> list[Part]:
    """Posts, braced frames, beams and decks of a rack along x; posts end at `height` [m]."""
    bays = bay_count(length, params.bay_m)
    post = min(POST_M, depth / 3, length / (bays + 1) / 2)
    x = np.linspace(-(length - post) / 2, (length - post) / 2, bays + 1)
    sides = np.array([-1.0, 1.0]) * (depth - post) / 2
    at = np.array([[a, b, height / 2] for a in x for b in sides])
    posts = boxes(at, (post, post, height))
    rungs = np.arange(0.1, height - 0.05, 0.9)
    rungs = np.append(rungs, height - 0.05)
    starts = np.array([[a, sides[k % 2], low] for a in x for k, low in enumerate(rungs[:-1])])
    ends = np.array([[a, sides[1 - k % 2], high] for a in x for k, high in enumerate(rungs[1:])])
    frames = Mesh.merged([posts, struts(starts, ends, 0.02, 5)]) if len(starts) else posts
    parts = [Part("frames", frames, "car-paint-blue", "shelf")]
    decks = height * np.arange(1, params.levels) / params.levels - BEAM_M / 2
    if len(decks):
        clear = (length - post) / bays - post
        middles = (x[:-1] + x[1:]) / 2
        beams = boxes([[a, b, z] for a in middles for b in sides for z in decks], (clear, 0.05, BEAM_M))
        shelves = boxes([[a, 0.0, z + 0.04] for a in middles for z in decks], (clear, depth - 0.12, 0.02))
        parts += [
            Part("beams", beams, "car-paint-red", "shelf"),
            Part("decks", shelves, "galvanised-steel", "shelf"),
        ]
    return parts


def rack_loads(length: float, depth: float, height: float, params: RackParams) -> list[Load]:
    """The loads of a rack, drawn from its own seed: pallets with goods, or cartons alone where there is little room."""
    rng = Stream(params.seed, "world/rack").generator()
    bays = bay_count(length, params.bay_m)
    post = min(POST_M, depth / 3, length / (bays + 1) / 2)
    pitch = (length - post) / bays
    clear = pitch - post
    room = height / params.levels - BEAM_M - _GAP_M
    on_pallets = room >= _LEAST_PALLET_SPACE_M and clear >= PALLET_M[1] + 2 * _GAP_M
    wanted = PALLET_M[1] if on_pallets else 0.6
    across = max(1, int((clear - _GAP_M) / (wanted + _GAP_M)))
    if room < 0.1 or clear < 0.2:
        return []
    cell = clear / across
    width = min(PALLET_M[1], cell - _GAP_M) if on_pallets else 0.85 * cell
    bay, level, place = (
        grid.ravel()
        for grid in np.meshgrid(np.arange(bays), np.arange(params.levels), np.arange(across), indexing="ij")
    )
    count = len(bay)
    held = rng.uniform(size=count) < params.fill
    goods = rng.choice(len(_GOODS), count, p=_GOODS_SHARES)
    tall = rng.uniform(0.5, 1.0, count) * room
    deep = min(PALLET_M[0], depth) * (rng.uniform(0.7, 1.0, count) if not on_pallets else np.ones(count))
    x = -(length - post) / 2 + bay * pitch + post / 2 + (place + 0.5) * cell
    z = level * height / params.levels
    loads = []
    for k in np.flatnonzero(held):
        # A pallet's length lies across the rack.
        pose = Pose((x[k], 0.0, z[k]), rpy_deg=(0.0, 0.0, 90.0))
        sort = _GOODS[goods[k]]
        if on_pallets:
            parts = pallet_parts(float(deep[k]), width, float(tall[k]) if sort != "none" else PALLET_HEIGHT_M, sort)
        else:
            parts = [_stack("cartons", np.array([deep[k], width, tall[k]]))]
        loads.append(Load(pose, parts))
    return loads
