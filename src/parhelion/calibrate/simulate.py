"""Boards as a calibrated sensor would see them: the same shots again, from simulation."""

from __future__ import annotations

import warnings

import numpy as np

from parhelion.calibrate.board_find import Board
from parhelion.calibrate.board_shots import BoardShots, joined_shots
from parhelion.calibrate.board_shots import shots_of_cloud as of_cloud
from parhelion.calibrate.profile_fit import MaterialShots, shots_at
from parhelion.core.pose import Pose
from parhelion.sensors.lidar.config import LidarConfig
from parhelion.sensors.lidar.lidar import Lidar
from parhelion.sensors.lidar.profiled import UncalibratedMaterialWarning
from parhelion.surfaces.library import material_names
from parhelion.surfaces.material import Material
from parhelion.world import shapes
from parhelion.world.world import World

THICKNESS_M = 0.05
MOST_SHOTS = 40_000


def simulate_board(
    sheet: LidarConfig, material: str, distance_m: float, *, width_m: float, height_m: float = 1.2, seed: int = 1,
    shots: int = 20_000,
) -> MaterialShots:  # fmt: skip
    """Shots of a sensor at an upright board that faces it, as many turns as give about `shots` of them."""
    world = World(name="board")
    box = shapes.box(THICKNESS_M, width_m, height_m)
    # Names of the user's own stand for a grey board: its profile alone says what is seen of it.
    known = material if material in material_names() else _grey(material)
    world.add(box, material=known, label="board", pose=Pose((distance_m + 0.5 * THICKNESS_M, 0.0, 0.0)))
    lidar = Lidar(sheet)
    normal = np.array([-1.0, 0.0, 0.0])
    across, up = np.array([0.0, 1.0, 0.0]), np.array([0.0, 0.0, 1.0])
    flat = float(np.ptp(lidar.shots().direction[:, 2])) < 1e-3
    half = 0.0 if flat else 0.5 * height_m
    board = Board(normal, distance_m, across, up, (-0.5 * width_m, 0.5 * width_m, -half, half), 0, 0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncalibratedMaterialWarning)
        first = of_cloud(lidar.scan(world, pose=Pose(), seed=seed, frame=0), material)
        aimed = max(1, int(board.holds(first).sum()))
        turns = int(np.clip(np.ceil(shots / aimed), 1, MOST_SHOTS))
        scans = lidar.scan_many(world, [Pose()] * turns, seed=seed, frames=list(range(turns)))
    seen: BoardShots = joined_shots([of_cloud(scan, material) for scan in scans])
    return shots_at(board, seen)


def _grey(name: str) -> Material:
    from parhelion.surfaces.library import material

    return material("lambert-50").model_copy(update={"name": name})
