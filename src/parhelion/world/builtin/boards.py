"""Worlds of boards: a test range with boards at known distances, and the two board scenes of ApolloSim."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.world.kit.instances import boxes, moved, struts
from parhelion.world.shapes import board, plane
from parhelion.world.world import World

DISTANCES = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 75.0, 100.0, 125.0, 150.0, 200.0)
REFLECTANCES_PERCENT = (10, 30, 50, 70, 90)
SENSOR_HEIGHT = 2.0
RANGE_BOARD_THICKNESS = 0.05
GAP_DEG = 1.5
"""Smallest angle between neighbouring boards, seen from the sensor."""


def build_board_range(
    seed: int = 0,
    *,
    distances: Sequence[float] = DISTANCES,
    reflectances_percent: Sequence[int] = REFLECTANCES_PERCENT,
    board_size: float | None = None,
    ground: str | None = "asphalt",
) -> World:
    """One board per reflectance and distance [m], facing the vertical axis through the origin.

    The front face of a board is at its exact distance from that axis, measured along its normal. Boards are centred at
    a height of 2 m, or stand on the ground if they are taller than 4 m; lower ones stand on two posts. Their size is
    `board_size` [m], by default 5 % of the distance and at least 0.5 m, so that beams 2 degrees apart hit each of them.
    Names are `board-<percent>-<distance>m`. Nothing is random: `seed` has no effect.
    """
    ranges = _checked("distances", distances, 1.5, 1000.0)
    percents = _checked("reflectances_percent", reflectances_percent, 0.0, 100.0)
    if np.any(percents != np.round(percents)):
        raise ConfigError("world test-range: reflectances_percent must be whole percents")
    if board_size is not None and not (np.isfinite(board_size) and 0 < board_size <= 20):
        raise ConfigError(f"world test-range: board_size must be above 0 and at most 20 m, got {board_size!r}")
    world = World(name="test-range")
    distance, percent = (grid.ravel() for grid in np.meshgrid(ranges, percents, indexing="ij"))
    size = np.full(len(distance), board_size) if board_size else np.maximum(0.5, 0.05 * distance)
    azimuth = _azimuths(distance, size)
    for number, (r, p, s, a) in enumerate(zip(distance, percent, size, azimuth, strict=True)):
        _put_board(world, number + 1, float(r), int(p), float(s), float(a), posts=ground is not None)
    if ground is not None:
        side = 2.2 * float(ranges.max()) + 20.0
        world.add(plane(side, side, 20), material=ground, label="ground", name="ground", instance=0)
    world.viewpoint = Pose((0.0, 0.0, SENSOR_HEIGHT))
    return world


def _checked(name: str, values: Sequence[float], low: float, high: float) -> Floats:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim != 1 or len(array) == 0 or not np.all((array >= low) & (array <= high)):
        raise ConfigError(f"world test-range: {name} must be numbers from {low:g} to {high:g}, got {values!r}")
    if len(np.unique(array)) != len(array):
        raise ConfigError(f"world test-range: {name} must not repeat a value")
    return array


def _azimuths(distance: Floats, size: Floats) -> Floats:
    """Azimuths of the boards [rad], counter-clockwise from the x axis, with equal gaps."""
    width = 2.0 * np.arctan2(size / 2, distance)
    free = 2.0 * np.pi - width.sum()
    gap = free / len(width)
    if gap < np.radians(GAP_DEG):
        raise ConfigError(
            f"world test-range: {len(width)} boards leave {np.degrees(gap):.2f} degrees between neighbours, "
            f"{GAP_DEG:g} are needed; use fewer or smaller boards"
        )
    ends = np.cumsum(width + gap)
    return ends - gap - width / 2


def _put_board(
    world: World, instance: int, distance: float, percent: int, size: float, azimuth: float, *, posts: bool
) -> None:
    direction = np.array([np.cos(azimuth), np.sin(azimuth)])
    bottom = max(0.0, SENSOR_HEIGHT - size / 2)
    centre = direction * (distance + RANGE_BOARD_THICKNESS / 2)
    yaw = float(np.degrees(azimuth))
    name = f"board-{percent}-{distance:g}m"
    world.add(
        board(size, size, RANGE_BOARD_THICKNESS),
        material=f"lambert-{percent}",
        label="board",
        pose=Pose((centre[0], centre[1], bottom + size / 2), rpy_deg=(0.0, 0.0, yaw)),
        name=name,
        instance=instance,
    )
    if posts and bottom > 0:
        feet = np.array([[RANGE_BOARD_THICKNESS, side * 0.4 * size, 0.0] for side in (-1, 1)])
        world.add(
            struts(feet, moved(feet, 0.0, 0.0, bottom + 0.8 * size), 0.02, 8),
            material="galvanised-steel",
            label="pole",
            pose=Pose((centre[0], centre[1], 0.0), rpy_deg=(0.0, 0.0, yaw)),
            name=f"{name}/posts",
            instance=instance,
        )


# ---- Room and boards of the ApolloSim scenes ------------------------------------------------------------------------


ROOM = (8.0, 6.0, 3.2)
"""Inner length, width and height of the room [m]."""
BOARD_HEIGHT = 2.4
"""Height of the boards [m], so that a level scan at any typical height hits them."""


def add_board(
    world: World, start: tuple[float, float], end: tuple[float, float], *, thickness: float, material: str, name: str
) -> None:
    """Add a board on the floor with its front face, on its left side, from `start` to `end` (x, y) [m]."""
    a, b = np.array(start), np.array(end)
    along = b - a
    width = float(np.linalg.norm(along))
    front = np.array([-along[1], along[0]]) / width
    middle = (a + b) / 2 - front * thickness / 2
    yaw = float(np.degrees(np.arctan2(-front[1], -front[0])))
    world.add(
        board(width, BOARD_HEIGHT, thickness),
        material=material,
        label="board",
        pose=Pose((middle[0], middle[1], BOARD_HEIGHT / 2), rpy_deg=(0.0, 0.0, yaw)),
        name=name,
    )


def add_room(world: World) -> None:
    """Add a closed room around the origin; the wall behind it is 2.5 m away."""
    length, width, height = ROOM
    x = length / 2 - 2.5
    walls = boxes(
        [[x + s * (length + 0.2) / 2, 0.0, height / 2] for s in (-1, 1)]
        + [[x, s * (width + 0.2) / 2, height / 2] for s in (-1, 1)],
        [[0.2, width + 0.4, height]] * 2 + [[length, 0.2, height]] * 2,
    )
    world.add(walls, material="concrete", label="wall", name="walls")
    world.add(plane(length, width), material="concrete", label="floor", pose=Pose((x, 0, 0)), name="floor")
    lid = Pose((x, 0, height), rpy_deg=(180.0, 0, 0))
    world.add(plane(length, width), material="lambert-80", label="ceiling", pose=lid, name="ceiling")


def _in_room(world: World, room: bool) -> World:
    """Add the viewpoint and, optionally, the room to a world of boards."""
    if room:
        add_room(world)
    world.viewpoint = Pose((0.0, 0.0, 1.5))
    return world


# ---- boards u -------------------------------------------------------------------------------------------------------
# A wooden board between two foam boards in a U: ApolloSim's second qualitative test (Kepets 2024, section 5.5).


INNER_WIDTH = 1.0
DEPTH = 0.8
U_NEAREST = 1.1


def build_boards_u(seed: int = 0, *, room: bool = True) -> World:
    """U-shaped boards, open towards the sensor at the origin: foam on both sides, wood at the end.

    The source gives the materials, their number and the shape; its dimensions are only in a picture. Chosen here: 1 m
    between the sides, 0.8 m deep, its opening 1.1 m ahead; foam 50 mm and wood 18 mm thick. One foam panel of the
    source was slightly bent, which neither its simulation nor this one includes. `seed` has no effect.
    """
    half, far = INNER_WIDTH / 2, U_NEAREST + DEPTH
    world = World(name="boards-u")
    add_board(world, (U_NEAREST, -half), (far, -half), thickness=0.05, material="foam", name="right")
    add_board(world, (far, -half), (far, half), thickness=0.018, material="wood", name="end")
    add_board(world, (far, half), (U_NEAREST, half), thickness=0.05, material="foam", name="left")
    return _in_room(world, room)


# ---- boards zigzag --------------------------------------------------------------------------------------------------
# Three foam pads in a zigzag: ApolloSim's first qualitative test (Kepets 2024, section 5.5).


PAD_WIDTH = 0.6
PAD_THICKNESS = 0.05
FOLD_DEG = 45.0
"""Angle of each pad to the y axis."""
ZIGZAG_NEAREST = 1.2


def build_boards_zigzag(seed: int = 0, *, room: bool = True) -> World:
    """Three pads of foam, edge to edge, at alternating angles of 45 degrees; the sensor is at the origin.

    The source gives the number, the material and the zigzag; its dimensions are only in a picture. Chosen here: pads
    0.6 m wide and 50 mm thick (a common size of insulation board), the nearest edge 1.2 m ahead, all well within the
    12 m range of the sensor used there. Nothing is random: `seed` has no effect.
    """
    step_y = PAD_WIDTH * np.cos(np.radians(FOLD_DEG))
    step_x = PAD_WIDTH * np.sin(np.radians(FOLD_DEG))
    y = 1.5 * step_y - np.arange(4) * step_y
    x = ZIGZAG_NEAREST + step_x * np.array([0.0, 1.0, 0.0, 1.0])
    world = World(name="boards-zigzag")
    # The front face is on the left of a pad, so pads are added from right to left as seen from the sensor.
    corners = [(float(a), float(b)) for a, b in zip(x[::-1], y[::-1], strict=True)]
    for number, (start, end) in enumerate(pairwise(corners)):
        add_board(world, start, end, thickness=PAD_THICKNESS, material="foam", name=f"pad-{number}")
    return _in_room(world, room)
