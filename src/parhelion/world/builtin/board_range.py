"""A test range: upright grey boards at known distances around the sensor, each in a sector of its own."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.world.kit.instances import moved, struts
from parhelion.world.shapes import board, plane
from parhelion.world.world import World

DISTANCES = (5.0, 10.0, 15.0, 20.0, 30.0, 40.0, 50.0, 75.0, 100.0, 125.0, 150.0, 200.0)
REFLECTANCES_PERCENT = (10, 30, 50, 70, 90)
SENSOR_HEIGHT = 2.0
THICKNESS = 0.05
GAP_DEG = 1.5
"""Free angle between neighbouring boards as seen from the sensor."""


def build(
    seed: int = 0,
    *,
    distances: Sequence[float] = DISTANCES,
    reflectances_percent: Sequence[int] = REFLECTANCES_PERCENT,
    board_size: float | None = None,
    ground: str | None = "asphalt",
) -> World:
    """A board of each reflectance at each distance [m], facing the vertical axis through the origin.

    A board's front face is exactly its distance away from that axis, measured along its normal. Boards are centred
    at 2 m height, or stand on the ground where they are taller than 4 m; lower ones stand on two posts. Their size
    is `board_size` [m], or 5 % of the distance and 0.5 m at least, so that a 16-channel lidar's beams 2 degrees apart
    meet each one. Names are `board-<percent>-<distance>m`. The layout needs no random numbers: `seed` changes nothing.
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


def _checked(
    name: str, values: Sequence[float], low: float, high: float
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    try:
        array = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError):
        array = np.zeros(0)
    if array.ndim != 1 or len(array) == 0 or not np.all((array >= low) & (array <= high)):
        raise ConfigError(f"world test-range: {name} must be numbers from {low:g} to {high:g}, got {values!r}")
    if len(np.unique(array)) != len(array):
        raise ConfigError(f"world test-range: {name} must not repeat a value")
    return array


def _azimuths(
    distance: np.ndarray[tuple[int], np.dtype[np.float64]], size: np.ndarray[tuple[int], np.dtype[np.float64]]
) -> np.ndarray[tuple[int], np.dtype[np.float64]]:
    """Middles of the boards' sectors [rad], counter-clockwise from the x axis, free gaps spread evenly."""
    width = 2.0 * np.arctan2(size / 2, distance)
    free = 2.0 * np.pi - width.sum()
    gap = free / len(width)
    if gap < np.radians(GAP_DEG):
        raise ConfigError(
            f"world test-range: {len(width)} boards leave {np.degrees(gap):.2f} degrees between neighbours, "
            f"{GAP_DEG:g} are needed; take fewer or smaller boards"
        )
    ends = np.cumsum(width + gap)
    return ends - gap - width / 2


def _put_board(
    world: World, instance: int, distance: float, percent: int, size: float, azimuth: float, *, posts: bool
) -> None:
    direction = np.array([np.cos(azimuth), np.sin(azimuth)])
    bottom = max(0.0, SENSOR_HEIGHT - size / 2)
    centre = direction * (distance + THICKNESS / 2)
    turn = float(np.degrees(azimuth))
    name = f"board-{percent}-{distance:g}m"
    world.add(
        board(size, size, THICKNESS),
        material=f"lambert-{percent}",
        label="board",
        pose=Pose((centre[0], centre[1], bottom + size / 2), rpy_deg=(0.0, 0.0, turn)),
        name=name,
        instance=instance,
    )
    if posts and bottom > 0:
        feet = np.array([[THICKNESS, side * 0.4 * size, 0.0] for side in (-1, 1)])
        world.add(
            struts(feet, moved(feet, 0.0, 0.0, bottom + 0.8 * size), 0.02, 8),
            material="galvanised-steel",
            label="pole",
            pose=Pose((centre[0], centre[1], 0.0), rpy_deg=(0.0, 0.0, turn)),
            name=f"{name}/posts",
            instance=instance,
        )
