"""Movable objects: loaded pallets, cups, cones, brooms and boxes."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from parhelion.core.checks import finite, vector, whole
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Actor, Builder, trajectory_of
from parhelion.world.kit.instances import boxes, struts
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import frustum
from parhelion.world.world import World

PALLET_M = (1.2, 0.8, 0.144)
"""Length, width and height of a Euro pallet (EN 13698-1)."""
MOST_TRIES = 400
"""Positions tried per object before the area counts as full."""


def add_loaded_pallet(
    world: World, pose: Trajectory | Pose, *, layers: int = 3, seed: int = 0, name: str = "pallet"
) -> Actor:
    """Add a Euro pallet with layers of cartons, the top one incomplete; on the floor at `pose`, or along a trajectory.

    `layers` is from 0 to 8; `seed` selects heights and the missing cartons. Pallet and cartons are one instance.
    """
    count = whole("pallet: layers", layers, 0, 8)
    if not isinstance(pose, Pose):
        trajectory_of("pallet", pose)
    rng = Stream(seed, "actors/pallet").generator()
    builder = Builder(world, name, "pallet", "movable")
    pieces = [KitPart("pallet", _pallet(), "wood", "pallet")]
    cartons = _cartons(rng, count)
    if cartons is not None:
        pieces.append(KitPart("cartons", cartons, "cardboard", "pallet"))
    builder.add("pallet", pieces, pose)
    return builder.done()


def _pallet() -> Mesh:
    """Seven boards on top, nine blocks, three runners."""
    length, width, height = PALLET_M
    rows: list[tuple[list[float], list[float]]] = []
    rows += [([0.0, y, height - 0.011], [length, 0.1, 0.022]) for y in np.linspace(-0.35, 0.35, 5)]
    rows += [([x, 0.0, height - 0.033], [0.145, width, 0.022]) for x in (-0.5275, 0.0, 0.5275)]
    rows += [([x, y, 0.061], [0.145, 0.1, 0.078]) for x in (-0.5275, 0.0, 0.5275) for y in (-0.35, 0.0, 0.35)]
    rows += [([0.0, y, 0.011], [length, 0.1, 0.022]) for y in (-0.35, 0.0, 0.35)]
    centres, sizes = zip(*rows, strict=True)
    return boxes(centres, sizes)


def _cartons(rng: np.random.Generator, layers: int) -> Mesh | None:
    """Layers of 3 x 2 or 4 x 2 cartons, each slightly rotated and shifted."""
    centres: list[Floats] = []
    sizes: list[Floats] = []
    base = PALLET_M[2]
    for layer in range(layers):
        across = int(rng.choice([3, 4]))
        height = float(rng.uniform(0.22, 0.38))
        cell = np.array([PALLET_M[0] / across, PALLET_M[1] / 2.0])
        x, y = np.meshgrid(np.arange(across) - (across - 1) / 2.0, [-0.5, 0.5])
        place = np.column_stack([x.ravel(), y.ravel()]) * cell
        filled = rng.permutation(len(place))
        filled = np.sort(filled[: rng.integers(1, len(place))] if layer == layers - 1 and layers > 1 else filled)
        place = place[filled] + rng.uniform(-0.006, 0.006, (len(filled), 2))
        centres.append(np.column_stack([place, np.full(len(filled), base + 0.5 * height)]))
        sizes.append(np.tile([cell[0] - 0.02, cell[1] - 0.02, height], (len(filled), 1)))
        base += height
    if not centres:
        return None
    at = np.concatenate(centres)
    return boxes(at, np.concatenate(sizes), rng.normal(0.0, 0.004, len(at)))


# ---- small objects ---------------------------------------------------------------------------------------------------


def _cup(rng: np.random.Generator) -> tuple[list[KitPart], float]:
    height = float(rng.uniform(0.09, 0.14))
    wall = frustum(0.028, 0.042, height, 20, caps=False).transformed(Pose((0.0, 0.0, 0.5 * height)))
    inner = frustum(0.026, 0.040, height, 20, caps=False).transformed(Pose((0.0, 0.0, 0.5 * height + 0.002)))
    inside = Mesh(inner.vertices, inner.faces[:, ::-1])
    floor = struts([[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.004]], 0.028, 20)
    return [KitPart("cup", Mesh.merged([wall, inside, floor]), "paper", "cup")], 0.042


def _cone(rng: np.random.Generator) -> tuple[list[KitPart], float]:
    height = float(rng.choice([0.3, 0.5, 0.75]))
    half = 0.27 * height
    base = boxes([[0.0, 0.0, 0.015]], (2.0 * half, 2.0 * half, 0.03))
    body = frustum(0.20 * height, 0.03 * height, height - 0.03, 24)
    band = frustum(0.128 * height, 0.0925 * height, 0.2 * height, 24, caps=False)
    at = 0.03 + 0.5 * (height - 0.03)
    return [
        KitPart("cone", Mesh.merged([base, body.transformed(Pose((0.0, 0.0, at)))]), "plastic", "cone"),
        KitPart("band", band.transformed(Pose((0.0, 0.0, 0.57 * height + 0.01))), "retro-sheeting", "cone"),
    ], float(np.sqrt(2.0) * half)


def _broom(rng: np.random.Generator) -> tuple[list[KitPart], float]:
    length = float(rng.uniform(1.2, 1.5))
    start, end = -0.5 * length, 0.5 * length
    stick = struts([[start, 0.0, 0.014]], [[end - 0.08, 0.0, 0.04]], 0.013, 10)
    head = boxes([[end - 0.06, 0.0, 0.04]], (0.05, 0.4, 0.06))
    bristles = boxes([[end - 0.01, 0.0, 0.04]], (0.06, 0.38, 0.05))
    return [
        KitPart("stick", Mesh.merged([stick, head]), "wood", "broom"),
        KitPart("bristles", bristles, "plastic", "broom"),
    ], float(np.hypot(0.5 * length + 0.02, 0.2))


def _box(rng: np.random.Generator) -> tuple[list[KitPart], float]:
    size = rng.uniform([0.2, 0.15, 0.1], [0.5, 0.4, 0.4])
    carton = boxes([[0.0, 0.0, 0.5 * size[2]]], size)
    return [KitPart("box", carton, "cardboard", "box")], float(0.5 * np.hypot(size[0], size[1]))


SMALL_OBJECTS: dict[str, Callable[[np.random.Generator], tuple[list[KitPart], float]]] = {
    "cup": _cup,
    "cone": _cone,
    "broom": _broom,
    "box": _box,
}
"""Kinds of objects for `scatter`: functions that return the parts, on z = 0, and their horizontal radius [m]."""


def scatter(
    world: World,
    area: Sequence[float],
    kinds: Sequence[str] = ("cup", "cone", "broom", "box"),
    count: int = 10,
    seed: int = 0,
    *,
    ground_m: float = 0.0,
) -> list[Actor]:
    """Add small objects at random places in an area (x_min, y_min, x_max, y_max) [m], without contact to each other.

    They lie entirely inside the area, at the height `ground_m` [m]. Other objects of the world are ignored.
    """
    x_min, y_min, x_max, y_max = vector("scatter: area", area, 4)
    if not (x_min < x_max and y_min < y_max):
        raise ConfigError(f"scatter: area must be x_min, y_min, x_max, y_max with x_min < x_max, got {area!r}")
    wanted = whole("scatter: count", count, 0, 10_000)
    ground = finite("scatter: ground_m", ground_m)
    for kind in kinds:
        if kind not in SMALL_OBJECTS:
            raise unknown_name("kind of small object", kind, SMALL_OBJECTS)
    if wanted and not kinds:
        raise ConfigError(f"scatter: kinds must name at least one of {', '.join(SMALL_OBJECTS)}, got none")
    rng = Stream(seed, "actors/scatter").generator()
    made = [(kind, *SMALL_OBJECTS[kind](rng)) for kind in rng.choice(list(kinds), wanted).tolist()] if wanted else []
    reach = np.array([radius for _, _, radius in made])
    low, high = np.array([x_min, y_min]), np.array([x_max, y_max])
    places = _apart(rng, low, high, reach)
    yaws = rng.uniform(-180.0, 180.0, wanted)
    actors = []
    for number, ((kind, parts, _), place, yaw) in enumerate(zip(made, places, yaws, strict=True)):
        builder = Builder(world, f"{kind}-{number}", kind, "movable")
        builder.add(kind, parts, Pose((*place, ground), rpy_deg=(0.0, 0.0, float(yaw))))
        actors.append(builder.done())
    return actors


def _apart(rng: np.random.Generator, low: Floats, high: Floats, reach: Floats) -> Floats:
    """Centres (n, 2) of disjoint circles of radii `reach` (n,) [m] inside a rectangle; large ones are placed first."""
    places = np.full((len(reach), 2), np.nan)
    for row in np.argsort(-reach, kind="stable"):
        inner_low, inner_high = low + reach[row], high - reach[row]
        tried = rng.uniform(inner_low, np.maximum(inner_high, inner_low), (MOST_TRIES, 2))
        distance = np.linalg.norm(tried[:, None] - places[None], axis=2) - reach
        # Circles that are not yet placed have NaN distances, which are never too small.
        free = ~np.any(distance < reach[row] + 0.01, axis=1) & bool(np.all(inner_low <= inner_high))
        if not np.any(free):
            raise ConfigError(
                f"scatter: no space for {len(reach)} objects in an area of {high[0] - low[0]:g} m x "
                f"{high[1] - low[1]:g} m; lower the count or enlarge the area"
            )
        places[row] = tried[np.argmax(free)]
    return places
