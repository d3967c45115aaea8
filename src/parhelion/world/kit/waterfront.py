"""Objects of a harbour: vessels, cranes, bollards, containers, a bridge. The water level is z = 0."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats, Pose
from parhelion.world.kit.instances import boxes, copies, moved, quads, struts
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import arch, loft, pipe, prism, spindle, split_quads


@dataclass(frozen=True)
class Hull:
    """Dimensions of a hull [m]: freeboard is the height of the deck amidships, sheer its rise at the bow."""

    length: float
    beam: float
    draught: float
    freeboard: float
    sheer: float = 0.3
    bow: float = 2.2
    """Fullness of the bow: the half-beam decreases as 1 - s^bow over the forward part."""
    bilge: float = 0.35
    """Narrowing of the bottom relative to the deck: 0 box-shaped, 1 V-shaped."""

    def half_beam(self, station: Floats) -> Floats:
        """Half-beam at the deck [m] at stations from 0 (stern) to 1 (bow)."""
        forward = np.clip((station - 0.55) / 0.45, 0.0, 1.0)
        aft = np.clip((0.15 - station) / 0.15, 0.0, 1.0)
        return self.beam / 2 * np.maximum(0.015, (1.0 - forward**self.bow) * (1.0 - 0.15 * aft**2))

    def deck(self, station: Floats) -> Floats:
        """Deck height [m] above the water at the same stations."""
        return self.freeboard + self.sheer * np.clip((station - 0.4) / 0.6, 0.0, 1.0) ** 2


def hull_mesh(hull: Hull, stations: int = 25) -> Mesh:
    """Closed hull with its bow at +x, with a flat deck and a bottom that rises towards the bow."""
    s = np.linspace(0.0, 1.0, stations)
    half, deck = hull.half_beam(s), hull.deck(s)
    keel = -hull.draught * (1.0 - 0.8 * np.clip((s - 0.75) / 0.25, 0.0, 1.0) ** 2)
    # Half of the section from the edge of the deck to the keel, as shares of half-beam and depth.
    across = np.array([1.0, 1.0, 1.0 - 0.25 * hull.bilge, 1.0 - 0.6 * hull.bilge])
    down = np.array([0.0, 0.25, 0.7, 0.95])
    y = half[:, None] * np.concatenate([across, [0.0], -across[::-1]])
    z = deck[:, None] - (deck - keel)[:, None] * np.concatenate([down, [1.0], down[::-1]])
    x = np.broadcast_to(((s - 0.5) * hull.length)[:, None], y.shape)
    return loft(np.stack([x, y, z], axis=-1)[:, ::-1])


def wheelhouse(length: float, width: float, wall: float, glass: float, base: float, x: float = 0.0) -> list[KitPart]:
    """A cabin: walls up to `wall` [m] over `base`, a band of glass all round, and a roof; `x` is its middle."""
    half_x, half_y, sill, head = length / 2, width / 2, base + wall, base + wall + glass
    ring = np.array([[half_x, -half_y], [half_x, half_y], [-half_x, half_y], [-half_x, -half_y]])
    middle = np.array([x, 0.0])
    low = np.column_stack([ring + middle, np.full(4, sill)])
    high = np.column_stack([0.94 * ring + middle, np.full(4, head)])
    following = np.roll(np.arange(4), -1)
    middles = np.vstack([low, (low + low[following]) / 2])
    tops = np.vstack([high, (high + high[following]) / 2])
    walls = boxes([[x, 0.0, base + wall / 2 - 0.1]], (length, width, wall + 0.2))
    inside = boxes(
        [[x + 0.3 * length, 0.0, sill + 0.1], [x - 0.1 * length, 0.0, sill + 0.1]],
        [[0.3, 0.7 * width, 0.2], [0.4, 0.5, 0.5]],
    )
    return [
        KitPart("cabin", Mesh.merged([walls, struts(middles, tops, 0.05, 6)]), "car-paint-white", "vessel"),
        KitPart(
            "cabin-windows", quads(np.stack([low, low[following], high[following], high], axis=1)), "glass", "vessel"
        ),
        KitPart("cabin-roof", boxes([[x, 0.0, head + 0.06]], (length + 0.3, width + 0.3, 0.12)), "aluminium", "vessel"),
        KitPart("cabin-inside", inside, "wood", "vessel"),
    ]


def _rail(hull: Hull, height: float = 0.9, posts: int = 18) -> Mesh:
    """A railing along both edges of the deck."""
    s = np.linspace(0.02, 0.96, posts)
    half, deck = hull.half_beam(s) - 0.06, hull.deck(s)
    x = (s - 0.5) * hull.length
    sides = [np.column_stack([x, sign * half, deck]) for sign in (-1.0, 1.0)]
    uprights = [struts(side, moved(side, 0, 0, height), 0.018, 5) for side in sides]
    bars = [
        struts(moved(side[:-1], 0, 0, z), moved(side[1:], 0, 0, z), 0.018, 5)
        for side in sides
        for z in (height, 0.5 * height)
    ]
    return Mesh.merged([*uprights, *bars])


def _fenders(hull: Hull) -> Mesh:
    s = np.array([0.2, 0.4, 0.6])
    half, deck, x = hull.half_beam(s), hull.deck(s), (s - 0.5) * hull.length
    at = np.concatenate([np.column_stack([x, sign * (half + 0.12), deck - 0.35]) for sign in (-1.0, 1.0)])
    return struts(at - [0, 0, 0.35], moved(at, 0, 0, 0.35), 0.12, 10)


def motor_boat(length: float = 8.0) -> list[KitPart]:
    """An open motor boat with a small cabin."""
    hull = Hull(length, 0.33 * length, 0.45, 0.75, 0.35, 2.0, 0.9)
    cabin = wheelhouse(0.3 * length, 0.22 * length, 0.7, 0.7, 0.72, -0.02 * length)
    return [
        KitPart("hull", hull_mesh(hull), "car-paint-white", "vessel"),
        KitPart("rail", _rail(hull, 0.5, 12), "aluminium", "vessel"),
        KitPart("fenders", _fenders(hull), "rubber", "vessel"),
        KitPart("engine", boxes([[-0.5 * length - 0.15, 0, 0.45]], (0.4, 0.45, 1.0)), "plastic", "vessel"),
        *cabin,
    ]


def sailing_yacht(length: float = 10.0) -> list[KitPart]:
    """A yacht with a bare mast, boom and rigging."""
    hull = Hull(length, 0.31 * length, 0.6, 0.95, 0.3, 1.8, 0.9)
    mast_x, mast_top = 0.08 * length, 1.3 * length
    cabin = loft(
        np.stack(
            [
                np.column_stack([x + np.zeros(4), [w, w, -w, -w], [0.85, top, top, 0.85]])
                for x, w, top in (
                    (-0.15 * length, 0.09 * length, 1.5),
                    (0.1 * length, 0.09 * length, 1.4),
                    (0.25 * length, 0.05 * length, 1.05),
                )
            ]
        )
    )
    deck = float(hull.deck(np.array([0.5]))[0])
    stays = np.array(
        [
            [0.49 * length, 0, deck + 0.2],
            [-0.48 * length, 0, deck],
            [mast_x, 0.14 * length, deck],
            [mast_x, -0.14 * length, deck],
        ]
    )
    boom = pipe([[mast_x, 0, 2.2], [-0.32 * length, 0, 2.3]], 0.06, 8)
    sail = pipe([[mast_x - 0.1, 0, 2.36], [-0.3 * length, 0, 2.42]], 0.16, 8)
    mast = pipe([[mast_x, 0, deck - 0.1], [mast_x, 0, mast_top]], [0.09, 0.06], 10)
    spreaders = struts([[mast_x, -0.9, 0.6 * mast_top]], [[mast_x, 0.9, 0.6 * mast_top]], 0.03, 6)
    rig = struts(stays, np.tile([mast_x, 0, mast_top - 0.1], (4, 1)), 0.006, 4)
    return [
        KitPart("hull", hull_mesh(hull), "car-paint-blue", "vessel"),
        KitPart("cabin", cabin, "plastic", "vessel"),
        KitPart("mast", Mesh.merged([mast, boom, spreaders]), "aluminium", "vessel"),
        KitPart("rigging", rig, "steel", "vessel"),
        KitPart("sail", sail, "cotton", "vessel"),
        KitPart("rail", _rail(hull, 0.6, 14), "steel", "vessel"),
        KitPart("fenders", _fenders(hull), "rubber", "vessel"),
    ]


def tug(length: float = 18.0) -> list[KitPart]:
    """A harbour tug with a high wheelhouse, funnel and fendered bow."""
    hull = Hull(length, 0.32 * length, 1.6, 1.3, 0.9, 2.6, 0.6)
    funnel = struts([[-0.22 * length, 0, 1.3]], [[-0.24 * length, 0, 5.0]], np.array([[0.55, 0.45]]), 16)
    mast = pipe([[0.02 * length, 0, 5.0], [0.0, 0, 8.6]], [0.08, 0.05], 8)
    return [
        KitPart("hull", hull_mesh(hull), "car-paint-black", "vessel"),
        KitPart("deckhouse", boxes([[0.0, 0, 2.2]], (0.42 * length, 0.2 * length, 2.0)), "car-paint-white", "vessel"),
        KitPart("funnel", funnel, "car-paint-red", "vessel"),
        KitPart("mast", mast, "steel", "vessel"),
        KitPart("rail", _rail(hull, 0.9, 22), "galvanised-steel", "vessel"),
        KitPart("fenders", _fenders(hull), "rubber", "vessel"),
        *wheelhouse(0.2 * length, 0.17 * length, 0.9, 1.0, 3.2, 0.04 * length),
    ]


def barge(rng: np.random.Generator, length: float = 42.0, cargo: str = "gravel") -> list[KitPart]:
    """A canal barge with a wheelhouse aft; `cargo` is gravel or containers."""
    hull = Hull(length, 5.6, 1.2, 0.9, 0.5, 4.0, 0.2)
    hold, middle = 0.62 * length, 0.06 * length
    half_hold, half_beam = hold / 2, 2.3
    coaming = boxes(
        [[middle, s * half_beam, 1.3] for s in (-1, 1)] + [[middle + s * half_hold, 0, 1.3] for s in (-1, 1)],
        [[hold, 0.12, 0.9]] * 2 + [[0.12, 2 * half_beam, 0.9]] * 2,
    )
    parts = [
        KitPart("hull", hull_mesh(hull, 33), "steel", "vessel"),
        KitPart("coaming", coaming, "car-paint-black", "vessel"),
        KitPart("rail", _rail(hull, 0.9, 26), "galvanised-steel", "vessel"),
        KitPart("fenders", _fenders(hull), "rubber", "vessel"),
        *wheelhouse(4.2, 4.0, 1.2, 1.0, 0.9, -0.40 * length),
    ]
    if cargo == "containers":
        at = [[middle + (k - 1.5) * 6.2, 0, 0.95] for k in range(4)]
        return parts + containers(rng, np.array(at), np.zeros(4), 2, label="vessel")
    u, v = np.meshgrid(np.linspace(-1, 1, 41), np.linspace(-1, 1, 13))
    heap = 1.0 + 1.1 * (1 - v**2) * (0.75 + 0.25 * np.cos(3 * np.pi * u)) * (1 - u**8) + 0.04 * rng.normal(size=u.shape)
    vertices = np.stack([middle + u * (half_hold - 0.1), v * (half_beam - 0.1), heap], axis=-1).reshape(-1, 3)
    corner = (np.arange(12) * 41)[:, None] + np.arange(40)
    rows = np.stack([corner, corner + 1, corner + 42, corner + 41], axis=-1).reshape(-1, 4)
    heap_mesh = Mesh(vertices, split_quads(rows))
    return [*parts, KitPart("cargo", heap_mesh, "gravel", "vessel")]


CONTAINER_PAINTS = ("car-paint-red", "car-paint-blue", "car-paint-silver", "galvanised-steel")
CONTAINER_PITCH_M = 2.6
"""Height of a container, including the fitting to the next one [m]."""


def containers(
    rng: np.random.Generator, xyz: Floats, yaw: Floats, levels: int, label: str = "container"
) -> list[KitPart]:
    """Stacks of 20-foot containers (6.06 x 2.44 x 2.59 m outside) with corrugated sides, in four paints."""
    return painted_containers(rng.integers(0, len(CONTAINER_PAINTS), levels * len(xyz)), xyz, yaw, levels, label)


def painted_containers(
    paint: NDArray[np.integer], xyz: Floats, yaw: Floats, levels: int, label: str = "container"
) -> list[KitPart]:
    """Container stacks with given paints: numbers in `CONTAINER_PAINTS` (stacks x levels,), each stack from below."""
    one = _container()
    rise = np.tile(np.arange(levels) * CONTAINER_PITCH_M, len(xyz))[:, None]
    stack = np.repeat(xyz, levels, axis=0) + rise * [0, 0, 1]
    turned = np.repeat(yaw, levels)
    return [
        KitPart(f"containers-{name}", copies(one, stack[paint == k], turned[paint == k]), name, label)
        for k, name in enumerate(CONTAINER_PAINTS)
        if np.any(paint == k)
    ]


@cache
def _container() -> Mesh:
    """Walls with trapezoidal ribs: one outline, extruded upwards between floor and roof frames."""
    length, width, height, deep = 6.06, 2.44, 2.59, 0.04
    ribs = 18
    u = np.linspace(-length / 2 + 0.12, length / 2 - 0.12, 4 * ribs + 1)
    dent = np.tile([0.0, deep, deep, 0.0], ribs)
    side = np.column_stack([u, -width / 2 + 0.01 + np.append(dent, 0.0)])
    outline = np.vstack([side, -side])
    rings = np.stack([np.column_stack([outline, np.full(len(outline), z)]) for z in (0.06, height - 0.06)])
    skin = loft(rings, caps=False)  # its ends are inside the frames
    frames = boxes([[0, 0, 0.08], [0, 0, height - 0.06]], [[length, width, 0.16], [length, width, 0.12]])
    corners = boxes(
        [[x * (length / 2 - 0.06), y * (width / 2 - 0.06), height / 2] for x in (-1, 1) for y in (-1, 1)],
        (0.12, 0.12, height),
    )
    return Mesh.merged([skin, frames, corners])


def bollard() -> Mesh:
    """A cast mooring bollard, 0.55 m high, standing on z = 0."""
    radius = [0.24, 0.24, 0.15, 0.14, 0.22, 0.24, 0.14]
    return spindle(radius, radius, [0.0, 0.06, 0.12, 0.34, 0.42, 0.50, 0.55], 14)


def crane(reach: float = 24.0, lift_deg: float = 35.0) -> list[KitPart]:
    """A portal slewing crane on the quay: four legs, a turning cab, a lattice jib along +x, a hook."""
    legs = np.array([[x, y, 0.0] for x in (-3.5, 3.5) for y in (-4.5, 4.5)])
    heads = legs * [0.6, 0.6, 0.0] + [0, 0, 9.0]
    portal = struts(legs, heads, 0.32, 10)
    braces = struts(heads[[0, 1, 3, 2]], heads[[1, 3, 2, 0]], 0.25, 8)
    trucks = boxes(moved(legs, 0, 0, 0.35), (1.6, 0.6, 0.7))
    base = struts([[0, 0, 8.9], [0, 0, 9.3]], [[0, 0, 9.3], [0, 0, 10.4]], np.array([3.0, 1.5]), 24)
    jib_foot = np.array([1.6, 0.0, 11.2])
    angle = np.radians(lift_deg)
    tip = jib_foot + reach * np.array([np.cos(angle), 0.0, np.sin(angle)])
    mast_top = np.array([-1.2, 0.0, 18.0])
    ropes = struts(np.stack([mast_top, mast_top, tip]), np.stack([tip, [-4.2, 0.0, 12.4], [tip[0], 0.0, 5.0]]), 0.04, 5)
    a_frame = struts(
        [[1.2, 1.2, 12.5], [1.2, -1.2, 12.5], [-2.5, 1.2, 12.5], [-2.5, -1.2, 12.5]], np.tile(mast_top, (4, 1)), 0.12, 6
    )
    house = boxes([[-1.2, 0, 11.6]], (5.6, 3.0, 2.4))
    weight = boxes([[-4.4, 0, 11.4]], (1.2, 3.2, 2.0))
    cab = [part._replace(label="crane") for part in wheelhouse(1.8, 1.6, 0.8, 1.2, 10.6)]
    cab = [part._replace(mesh=part.mesh.transformed(Pose((2.6, 2.0, 0.0)))) for part in cab]
    hook = boxes([[tip[0], 0, 4.8]], (0.5, 0.3, 0.6))
    return [
        KitPart("portal", Mesh.merged([portal, braces, trucks, base]), "car-paint-blue", "crane"),
        KitPart("house", Mesh.merged([house, a_frame]), "car-paint-white", "crane"),
        KitPart("weight", weight, "concrete", "crane"),
        KitPart("jib", lattice(jib_foot, tip, 1.3, 16), "galvanised-steel", "crane"),
        KitPart("ropes", Mesh.merged([ropes, hook]), "steel", "crane"),
        *cab,
    ]


def lattice(start: Floats, end: Floats, side: float, bays: int) -> Mesh:
    """A square lattice girder of round bars between two points [m]: four chords, frames and diagonals."""
    along = (end - start) / np.linalg.norm(end - start)
    across = np.cross([0.0, 0.0, 1.0], along)
    across = across / np.linalg.norm(across)
    up = np.cross(along, across)
    corner = side / 2 * np.array([across + up, across - up, -across - up, -across + up])
    taper = np.linspace(1.0, 0.5, bays + 1)[:, None, None]
    nodes = start + np.linspace(0, 1, bays + 1)[:, None, None] * (end - start) + taper * corner
    turned = np.roll(nodes, -1, axis=1)
    chords = struts(nodes[0], nodes[-1], 0.06, 6)
    frames = struts(nodes.reshape(-1, 3), turned.reshape(-1, 3), 0.03, 4)
    diagonals = struts(nodes[:-1].reshape(-1, 3), turned[1:].reshape(-1, 3), 0.03, 4)
    return Mesh.merged([chords, frames, diagonals])


def bridge(span: float, deck_width: float, crown: float, quay_height: float, ramp: float) -> list[KitPart]:
    """A masonry arch over a canal of width `span` [m] along y, feet 3 m under water, with ramps on both banks.

    `crown` [m] is the free height over the water in the middle; the roadway is 1.1 m above it; ramps of length
    `ramp` [m] lead down to the quays at `quay_height` [m].
    """
    deck, foot, pier = crown + 1.1, 3.0, 3.0
    body = arch(span - 2.0, crown + foot, deck + foot, deck_width, 40, pier=pier).transformed(
        Pose((0, 0, -foot), rpy_deg=(0, 0, 90))
    )
    start = span / 2 - 1.0 + pier
    profile = [
        [start, quay_height - 1.0],
        [start + ramp, quay_height - 1.0],
        [start + ramp, quay_height + 0.02],
        [start, deck],
    ]
    wedge = prism(profile, deck_width - 0.02)
    x, z, y = wedge.vertices.T
    forward = Mesh(np.column_stack([deck_width / 2 - 0.01 - y, x, z])[:, [0, 1, 2]], wedge.faces[:, ::-1])
    backward = forward.transformed(Pose(rpy_deg=(0, 0, 180)))
    slope = np.arctan2(deck - quay_height, ramp)
    parapets = []
    for sign in (-1, 1):
        side = sign * (deck_width / 2 - 0.2)
        parapets.append(boxes([[side, 0, deck + 0.45]], (0.35, 2 * start, 0.95)))
        sloped = boxes([[0, 0, 0]], (0.35, ramp / np.cos(slope), 0.95))
        middle = (side, start + ramp / 2, (deck + quay_height) / 2 + 0.42)
        parapets.append(sloped.transformed(Pose(middle, rpy_deg=(-float(np.degrees(slope)), 0, 0))))
        parapets.append(
            sloped.transformed(Pose((side, -middle[1], middle[2]), rpy_deg=(float(np.degrees(slope)), 0, 0)))
        )
    road = boxes([[0, 0, deck + 0.01]], (deck_width - 0.8, 2 * start, 0.04))
    return [
        KitPart("arch", body, "granite", "bridge"),
        KitPart("ramps", Mesh.merged([forward, backward]), "brick", "bridge"),
        KitPart("parapets", Mesh.merged(parapets), "granite", "bridge"),
        KitPart("road", road, "asphalt", "road"),
    ]
