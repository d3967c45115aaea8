"""Parts of the objects of a layout in their own frame: base at z = 0, centred in x and y."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np

from parhelion.core.geometry import GOLDEN_ANGLE_RAD
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream
from parhelion.world.kit.instances import boxes, copies, struts
from parhelion.world.kit.props import KitPart
from parhelion.world.markers import INK, PAPER, marker_cells, marker_meshes
from parhelion.world.mesh import Mesh
from parhelion.world.procedural import kinds
from parhelion.world.procedural.footprints import beside_line, to_line
from parhelion.world.procedural.kinds import PALLET_HEIGHT_M, BushParams, RackParams, RockParams, TreeParams
from parhelion.world.procedural.layout import LayoutObject
from parhelion.world.procedural.maps import outline_parts
from parhelion.world.procedural.relief import height_field
from parhelion.world.procedural.town_parts import town_parts
from parhelion.world.shapes import grid_terrain, plane, sphere, spindle

# ---- Trees, bushes and boulders -------------------------------------------------------------------------------------
# A few forms of each kind are generated once. Every plant is one of them, scaled to its size, so that a forest of
# hundreds of trees is built in a fraction of a second.


FORMS = 6
"""Number of forms of each kind of plant."""
_LEAF_M = 0.3
"""Mean length of a leaf triangle [m]; each represents a spray of leaves or needles."""


def tree_parts(length: float, width: float, height: float, params: TreeParams) -> list[KitPart]:
    """Trunk with limbs, and the crown: an ellipsoid of leaves, or a cone of needles."""
    form = params.seed % FORMS
    clear = params.clear_trunk_share
    if params.species == "conifer":
        leaves = _needles(form, params.leaves)
        foliage = "needles"
        limbs = _limbs(form, 18, rising=False)
    else:
        leaves = _leaves(form, params.leaves)
        foliage = "leaf"
        limbs = _limbs(form, 10, rising=True)
    crown_size = np.array([length, width, height * (1.0 - clear)])
    foot = np.array([0.0, 0.0, height * clear])
    radius = params.trunk_radius_m
    trunk = _trunk().scaled((radius, radius, height * (0.8 if params.species == "broadleaf" else 0.97)))
    starts, ends = limbs
    thick = np.tile([[0.28 * radius, 0.08 * radius]], (len(starts), 1))
    wood = Mesh.merged([trunk, struts(starts * crown_size + foot, ends * crown_size + foot, thick, 4)])
    return [
        KitPart("trunk", wood, "bark", "trunk"),
        KitPart("crown", _foliage(leaves, crown_size, foot, _LEAF_M), foliage, "vegetation"),
    ]


def bush_parts(length: float, width: float, height: float, params: BushParams) -> list[KitPart]:
    """Half an ellipsoid of leaves on the ground."""
    leaves = _bush(params.seed % FORMS, params.leaves)
    mesh = _foliage(leaves, np.array([length, width, height]), np.zeros(3), min(_LEAF_M, height / 4))
    return [KitPart("leaves", mesh, "leaf", "vegetation")]


def rock_parts(length: float, width: float, height: float, params: RockParams) -> list[KitPart]:
    """Boulder: a dented sphere, cut off at its base."""
    form = _boulder(params.seed % FORMS)
    return [KitPart("rock", form.scaled((length, width, height)), params.material, "rock")]


def _foliage(leaves: tuple[Floats, Floats], size: Floats, foot: Floats, leaf_m: float) -> Mesh:
    """Leaves of mean length `leaf_m` in a box of `size` [m] on `foot` [m]."""
    centre, tips = leaves
    corners = (centre * size + foot)[:, None, :] + leaf_m * tips
    return Mesh(corners.reshape(-1, 3), np.arange(3 * len(centre), dtype=np.int32).reshape(-1, 3))


@lru_cache(maxsize=1)
def _trunk() -> Mesh:
    """Tapering trunk of base radius 1 and height 1."""
    radius = [1.0, 0.8, 0.65, 0.4, 0.08]
    return spindle(radius, radius, [0.0, 0.05, 0.4, 0.75, 1.0], 9)


@lru_cache(maxsize=64)
def _limbs(form: int, count: int, *, rising: bool) -> tuple[Floats, Floats]:
    """Starts and ends of limbs in the unit box of the crown (x, y from -0.5 to 0.5, z from 0 to 1)."""
    rng = Stream(form, f"world/limbs/{count}").generator()
    turn = np.arange(count) * GOLDEN_ANGLE_RAD + rng.uniform(0.0, 2 * np.pi)
    low = np.linspace(0.02, 0.55 if rising else 0.9, count)
    far = 0.38 * np.sqrt(1.0 - low**2) if rising else 0.42 * (1.0 - low)
    up = low + (rng.uniform(0.1, 0.3, count) if rising else -0.02)
    starts = np.column_stack([np.zeros((count, 2)), low])
    return starts, np.column_stack([far * np.cos(turn), far * np.sin(turn), np.clip(up, 0.0, 0.95)])


def _scattered(rng: np.random.Generator, centre: Floats) -> tuple[Floats, Floats]:
    """Centres (n, 3), and one triangle (n, 3, 3) of random attitude per centre, of unit length on average."""
    count = len(centre)
    normal = rng.normal(size=(count, 3)) + np.array([0.0, 0.0, 0.8])
    along = np.cross(normal, rng.normal(size=(count, 3)))
    along /= np.linalg.norm(along, axis=1, keepdims=True)
    across = np.cross(normal, along)
    across /= np.linalg.norm(across, axis=1, keepdims=True)
    length = rng.uniform(0.7, 1.3, (count, 1, 1))
    tips = np.stack([0.55 * along, -0.45 * along + 0.4 * across, -0.45 * along - 0.4 * across], axis=1)
    return centre, length * tips


def _ball(rng: np.random.Generator, count: int) -> Floats:
    """Points in the unit ball, in clumps near its surface."""
    clump = rng.normal(size=(16, 3))
    clump *= rng.uniform(0.45, 0.75, (16, 1)) / np.linalg.norm(clump, axis=1, keepdims=True)
    points = clump[rng.integers(0, 16, count)] + 0.2 * rng.normal(size=(count, 3))
    return points / np.maximum(1.0, np.linalg.norm(points, axis=1, keepdims=True) / 0.95)


@lru_cache(maxsize=64)
def _leaves(form: int, count: int) -> tuple[Floats, Floats]:
    """Broad crown in its unit box."""
    rng = Stream(form, "world/leaves").generator()
    return _scattered(rng, 0.47 * _ball(rng, count) + [0.0, 0.0, 0.5])


@lru_cache(maxsize=64)
def _needles(form: int, count: int) -> tuple[Floats, Floats]:
    """Conical crown in its unit box: whorls of sprays that become shorter towards the tip."""
    rng = Stream(form, "world/needles").generator()
    z = 1.0 - np.sqrt(rng.uniform(0.0005, 1.0, count))
    whorl = np.round(z * 14) / 14
    z = np.clip(0.6 * whorl + 0.4 * z, 0.0, 0.97)
    turn, out = rng.uniform(0.0, 2 * np.pi, count), np.sqrt(rng.uniform(0.05, 1.0, count))
    flat = 0.46 * (1.0 - z) * out
    centre = np.column_stack([flat * np.cos(turn), flat * np.sin(turn), np.maximum(0.02, z - 0.05 * out * (1.0 - z))])
    return _scattered(rng, centre)


@lru_cache(maxsize=64)
def _bush(form: int, count: int) -> tuple[Floats, Floats]:
    """Half a ball of leaves in the unit box on z = 0."""
    rng = Stream(form, "world/bush").generator()
    centre = _ball(rng, count) * [0.46, 0.46, 0.9]
    return _scattered(rng, np.column_stack([centre[:, :2], 0.05 + np.abs(centre[:, 2])]))


@lru_cache(maxsize=FORMS)
def _boulder(form: int) -> Mesh:
    """Dented ball in the unit box with a flat base on z = 0."""
    rng = Stream(form, "world/boulder").generator()
    ball = sphere(1.0, 2)
    direction = rng.normal(size=(10, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    # Each plane cuts off a cap: points beyond the plane are projected onto it.
    cut = np.max(ball.vertices @ direction.T / rng.uniform(0.7, 0.95, 10), axis=1)
    points = ball.vertices / np.maximum(1.0, cut)[:, None]
    z = np.maximum(points[:, 2], -0.35 + 0.02 * points[:, 0])
    points = np.column_stack([points[:, :2], z])
    low, high = points.min(axis=0), points.max(axis=0)
    unit = (points - low) / (high - low) - [0.5, 0.5, 0.0]
    radius = np.hypot(unit[:, 0], unit[:, 1])
    unit[:, :2] *= 0.5 / np.maximum(0.5, radius.max())
    mesh, _ = Mesh.cleaned(unit, ball.faces)
    assert mesh is not None  # a ball is not flat
    return mesh


# ---- goods ----------------------------------------------------------------------------------------------------------
# Racks, pallets and their loads.


POST_M = 0.1
"""Width of the posts of a rack [m]."""
BEAM_M = 0.1
"""Height of the beams and decks of a rack [m]."""
PALLET_M = (1.2, 0.8)
"""Length and width of a flat pallet [m] (EN 13698-1)."""
_GAP_M = 0.05
"""Clearance beside and above a load [m]."""
_LEAST_PALLET_SPACE_M = 0.6
"""Height of a place [m] below which it holds cartons without a pallet."""
_GOODS = ("cartons", "wrapped", "drums", "none")
_GOODS_SHARES = (0.55, 0.27, 0.1, 0.08)


class Load(NamedTuple):
    """One load in a rack, a separate object."""

    pose: Pose
    """Pose in the frame of the rack."""
    parts: list[KitPart]


@lru_cache(maxsize=1)
def _bare_pallet() -> Mesh:
    """Flat pallet of 1.2 x 0.8 x 0.144 m: five top boards, cross boards, nine blocks, three runners."""
    across = np.linspace(-0.3275, 0.3275, 5)
    top = boxes([[0.0, y, 0.133] for y in across], (1.2, 0.145, 0.022))
    cross = boxes([[x, 0.0, 0.111] for x in (-0.5275, 0.0, 0.5275)], (0.145, 0.8, 0.022))
    blocks = boxes([[x, y, 0.061] for x in (-0.5275, 0.0, 0.5275) for y in (-0.35, 0.0, 0.35)], (0.145, 0.1, 0.078))
    runners = boxes([[0.0, y, 0.011] for y in (-0.35, 0.0, 0.35)], (1.2, 0.1, 0.022))
    return Mesh.merged([top, cross, blocks, runners])


@lru_cache(maxsize=64)
def _cartons(columns: int, rows: int, layers: int) -> Mesh:
    """Cartons that fill the unit cube on z = 0, with thin gaps."""
    count = np.array([columns, rows, layers])
    cell = np.stack(np.meshgrid(*(np.arange(n) for n in count), indexing="ij"), axis=-1).reshape(-1, 3)
    return boxes((cell + 0.5) / count - [0.5, 0.5, 0.0], 0.97 / count)


@lru_cache(maxsize=8)
def _drums(columns: int, rows: int) -> Mesh:
    """Upright drums next to each other that fill the unit cube on z = 0."""
    x, y = np.meshgrid((np.arange(columns) + 0.5) / columns - 0.5, (np.arange(rows) + 0.5) / rows - 0.5)
    foot = np.column_stack([x.ravel(), y.ravel(), np.zeros(x.size)])
    one = struts([[0.0, 0.0, 0.0]], [[0.0, 0.0, 1.0]], 1.0, 16)
    return copies(one, foot, 0.0, np.tile([0.48 / columns, 0.48 / rows, 1.0], (x.size, 1)))


def _stack(goods: str, size: Floats) -> KitPart:
    """Goods of one kind in a block of `size` [m] on z = 0."""
    if goods == "drums":
        columns, rows = (max(1, round(side / 0.6)) for side in size[:2])
        return KitPart("drums", _drums(columns, rows).scaled(size.tolist()), "car-paint-blue", "other-object")
    if goods == "wrapped":
        return KitPart("wrapped", boxes([[0.0, 0.0, size[2] / 2]], size), "plastic", "other-object")
    count = (max(1, min(12, round(side / wanted))) for side, wanted in zip(size, (0.4, 0.4, 0.3), strict=True))
    return KitPart("cartons", _cartons(*count).scaled(size.tolist()), "cardboard", "other-object")


def pallet_parts(length: float, width: float, height: float, goods: str) -> list[KitPart]:
    """Pallet with goods, `height` [m] in total; if it is too low for goods, only a pallet, thinner if necessary."""
    deck = min(PALLET_HEIGHT_M, height)
    scale = (length / PALLET_M[0], width / PALLET_M[1], deck / PALLET_HEIGHT_M)
    parts = [KitPart("pallet", _bare_pallet().scaled(scale), "wood", "pallet")]
    if goods != "none" and height > deck + 0.05:
        block = _stack(goods, np.array([0.97 * length, 0.97 * width, height - deck]))
        parts.append(block._replace(mesh=block.mesh.transformed(Pose((0.0, 0.0, deck)))))
    return parts


def _bays(length: float, depth: float, bay_m: float) -> tuple[int, float]:
    """Number of bays of a rack of `length` [m], with a bay length near `bay_m` [m], and the width of its posts [m]."""
    bays = max(1, round((length - POST_M) / bay_m))
    return bays, min(POST_M, depth / 3, length / (bays + 1) / 2)


def rack_parts(length: float, depth: float, height: float, params: RackParams) -> list[KitPart]:
    """Posts, braced frames, beams and decks of a rack along x; posts end at `height` [m]."""
    bays, post = _bays(length, depth, params.bay_m)
    x = np.linspace(-(length - post) / 2, (length - post) / 2, bays + 1)
    sides = np.array([-1.0, 1.0]) * (depth - post) / 2
    at = np.array([[a, b, height / 2] for a in x for b in sides])
    posts = boxes(at, (post, post, height))
    rungs = np.append(np.arange(0.1, height - 0.05, 0.9), height - 0.05)
    starts = np.array([[a, sides[k % 2], low] for a in x for k, low in enumerate(rungs[:-1])])
    ends = np.array([[a, sides[1 - k % 2], high] for a in x for k, high in enumerate(rungs[1:])])
    frames = Mesh.merged([posts, struts(starts, ends, 0.02, 5)]) if len(starts) else posts
    parts = [KitPart("frames", frames, "car-paint-blue", "shelf")]
    decks = height * np.arange(1, params.levels) / params.levels - BEAM_M / 2
    if len(decks):
        clear = (length - post) / bays - post
        middles = (x[:-1] + x[1:]) / 2
        beams = boxes([[a, b, z] for a in middles for b in sides for z in decks], (clear, 0.05, BEAM_M))
        shelves = boxes([[a, 0.0, z + 0.04] for a in middles for z in decks], (clear, depth - 0.12, 0.02))
        parts += [
            KitPart("beams", beams, "car-paint-red", "shelf"),
            KitPart("decks", shelves, "galvanised-steel", "shelf"),
        ]
    return parts


def rack_loads(length: float, depth: float, height: float, params: RackParams) -> list[Load]:
    """Loads of a rack by its seed: pallets with goods, or only cartons if there is little space."""
    rng = Stream(params.seed, "world/rack").generator()
    bays, post = _bays(length, depth, params.bay_m)
    pitch = (length - post) / bays
    clear = pitch - post
    space = height / params.levels - BEAM_M - _GAP_M
    on_pallets = space >= _LEAST_PALLET_SPACE_M and clear >= PALLET_M[1] + 2 * _GAP_M
    wanted = PALLET_M[1] if on_pallets else 0.6
    across = max(1, int((clear - _GAP_M) / (wanted + _GAP_M)))
    if space < 0.1 or clear < 0.2:
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
    tall = rng.uniform(0.5, 1.0, count) * space
    deep = min(PALLET_M[0], depth) * (rng.uniform(0.7, 1.0, count) if not on_pallets else np.ones(count))
    x = -(length - post) / 2 + bay * pitch + post / 2 + (place + 0.5) * cell
    z = level * height / params.levels
    loads = []
    for k in np.flatnonzero(held):
        # The length of a pallet is across the rack.
        pose = Pose((x[k], 0.0, z[k]), rpy_deg=(0.0, 0.0, 90.0))
        sort = _GOODS[goods[k]]
        if on_pallets:
            parts = pallet_parts(float(deep[k]), width, float(tall[k]) if sort != "none" else PALLET_HEIGHT_M, sort)
        else:
            parts = [_stack("cartons", np.array([deep[k], width, tall[k]]))]
        loads.append(Load(pose, parts))
    return loads


# ---- parts of objects -----------------------------------------------------------------------------------------------


def parts_of(item: LayoutObject) -> list[KitPart]:
    """Return the parts of one object, without the loads of a rack; a label of the object replaces that of its kind."""
    kind = kinds.KINDS[item.kind]
    return [part._replace(label=item.label if part.label == kind.label else part.label) for part in _parts(item)]


def _parts(item: LayoutObject) -> list[KitPart]:
    length, width, height = item.size
    params = item.params
    if isinstance(params, kinds.TerrainParams):
        return terrain_parts(item, params)
    if isinstance(params, kinds.PillarParams) and params.round:
        pillar = struts([[0.0, 0.0, 0.0]], [[0.0, 0.0, height]], 0.5, 24).scaled((length, width, 1.0))
        return [KitPart("pillar", pillar, params.material, "column")]
    if isinstance(params, (kinds.WallParams, kinds.BoxParams, kinds.PillarParams, kinds.RoofParams)):
        block = boxes([[0.0, 0.0, height / 2]], item.size)
        return [KitPart(item.kind, block, params.material, kinds.KINDS[item.kind].label)]
    make = _MAKERS.get(item.kind)
    return town_parts(item) if make is None else make(length, width, height, params)


def _door(length: float, width: float, height: float, params: kinds.DoorParams) -> list[KitPart]:
    """Leaf of a rolling door, raised by its open share, with its drum at the top."""
    free, roll = params.free_height(height), params.drum_height(height)
    leaf = boxes([[0.0, 0.0, (free + height) / 2]], (length, 0.4 * width, height - free))
    drum = boxes([[0.0, 0.0, height - roll / 2]], (length, width, roll))
    return [KitPart("leaf", Mesh.merged([leaf, drum]), params.material, "door")]


def _marker(length: float, width: float, height: float, params: kinds.MarkerParams) -> list[KitPart]:
    """Thin sheet on the +x face of a plate, or a fiducial marker as large as the plate."""
    middle = height / 2
    if params.family is not None:
        cells = marker_cells(params.family, params.dictionary, params.number)
        side = min(width, height) * len(cells) / (len(cells) + 2)
        at = Pose((length / 2, 0.0, middle))
        meshes = marker_meshes(cells, side, thickness_m=length)
        names = {PAPER: "plate", INK: "ink"}
        return [KitPart(names[one], mesh.transformed(at), one, "target") for one, mesh in meshes.items()]
    plate = boxes([[-length / 4, 0.0, middle]], (length / 2, width, height))
    sheet = boxes([[length / 4, 0.0, middle]], (length / 2, 0.96 * width, 0.96 * height))
    return [KitPart("plate", plate, "aluminium", "target"), KitPart("sheet", sheet, params.material, "target")]


def _anchor(length: float, width: float, height: float, _: kinds.Params) -> list[KitPart]:
    """Housing with a short antenna."""
    body = boxes([[0.0, 0.0, 0.35 * height]], (length, width, 0.7 * height))
    aerial = struts([[0.0, 0.0, 0.7 * height]], [[0.0, 0.0, height]], 0.15 * min(length, width), 8)
    return [KitPart("housing", Mesh.merged([body, aerial]), "plastic", "object")]


def _charger(length: float, width: float, height: float, _: kinds.Params) -> list[KitPart]:
    """Cabinet with two copper rails low on its +x face."""
    cabinet = boxes([[-0.05 * length, 0.0, height / 2]], (0.9 * length, width, height))
    rails = boxes([[0.45 * length, 0.0, z * height] for z in (0.12, 0.2)], (0.1 * length, 0.6 * width, 0.04 * height))
    return [KitPart("cabinet", cabinet, "car-paint-white", "machine"), KitPart("rails", rails, "copper", "machine")]


def _cone(length: float, width: float, height: float, _: kinds.Params) -> list[KitPart]:
    """Cone with a base plate and a reflective collar."""
    z = np.array([[0.06, 0.45], [0.45, 0.65], [0.65, 1.0]])
    radius = np.array([[0.36, 0.24], [0.24, 0.17], [0.17, 0.06]])
    base = np.zeros((3, 2))
    lower, upper = np.column_stack([base, z[:, 0]]), np.column_stack([base, z[:, 1]])
    scale = (length, width, height)
    foot = boxes([[0.0, 0.0, 0.03]], (0.7, 0.7, 0.06))
    body = Mesh.merged([foot, struts(lower[[0, 2]], upper[[0, 2]], radius[[0, 2]], 16)]).scaled(scale)
    collar = struts(lower[1:2], upper[1:2], radius[1:2], 16).scaled(scale)
    return [KitPart("body", body, "plastic", "cone"), KitPart("collar", collar, "retro-sheeting", "cone")]


def terrain_parts(item: LayoutObject, params: kinds.TerrainParams) -> list[KitPart]:
    """Triangles of the ground and, separately, of the track."""
    field = height_field(item)
    mesh = grid_terrain(field.z, field.cell)
    if not params.track:
        return [KitPart("ground", mesh, params.material, "terrain")]
    middle = mesh.vertices[mesh.faces][..., :2].mean(axis=1)
    on_track = np.zeros(len(middle), dtype=bool)
    rows = beside_line(middle, params.track, params.track_width_m / 2)
    on_track[rows] = to_line(middle[rows], params.track)[0] < params.track_width_m / 2
    parts = []
    for name, chosen, material, label in (
        ("ground", ~on_track, params.material, "terrain"),
        ("track", on_track, params.track_material, "road"),
    ):
        if chosen.any():
            parts.append(KitPart(name, mesh.select(chosen), material, label))
    return parts


_MAKERS: dict[str, Callable[[float, float, float, Any], list[KitPart]]] = {
    "rack": rack_parts,
    "pallet": lambda length, width, height, params: pallet_parts(length, width, height, params.goods),
    "tree": tree_parts,
    "bush": bush_parts,
    "rock": rock_parts,
    "door": _door,
    "marker": _marker,
    "anchor": _anchor,
    "charging-station": _charger,
    "cone": _cone,
    "ground": lambda length, width, _, params: [KitPart("ground", plane(length, width), params.material, "floor")],
    "footprint": outline_parts,
}
"""Functions that build the parts of a kind from length, width, height and parameters."""
