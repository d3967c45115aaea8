"""Simulated drives with known truth, and frames of public recordings, for the tests of rebuilding."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import parhelion as ph
from parhelion.core.pose import quats_from_matrices
from parhelion.rebuild.frames import FrameShots, Path
from parhelion.rebuild.reading import frame_of
from parhelion.rebuild.rebuild import RebuiltPlace, rebuilt

FRAMES, PERIOD_S = 9, 0.4
DRIVE = ph.ConstantTwist(ph.Pose((0.0, 0.0, 1.5)), (1.5, 0.2, 0.0), (0.0, 0.0, 0.2))
BOX_PATH = ph.Waypoints([0.0, 4.0], [ph.Pose((5.5, 0.9, 0.5)), ph.Pose((10.5, 0.9, 0.5))])
STANDING = np.array([8.0, -0.9, 0.5])


@cache
def lidar() -> ph.Lidar:
    return ph.Lidar("ouster/os1-64", columns=512)


@cache
def true_world() -> ph.World:
    """A warehouse with one box that stands and one that moves."""
    world = ph.World.load("warehouse")
    box = ph.shapes.box(1.0, 1.0, 1.0)
    world.add(box, material="wood", label="box", pose=ph.Pose(tuple(STANDING)))
    world.add_actor(box, material="wood", label="box", trajectory=BOX_PATH)
    return world


@cache
def scans() -> tuple[ph.Scan, ...]:
    times = PERIOD_S * np.arange(FRAMES)
    return tuple(lidar().scan(true_world(), trajectory=DRIVE, time=float(t), seed=k) for k, t in enumerate(times))


@cache
def frames() -> tuple[FrameShots, ...]:
    notes: list[str] = []
    return tuple(frame_of(scan, lidar(), f"frame {k}", k, notes) for k, scan in enumerate(scans()))


def true_poses() -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Positions and quaternions at the times of the frames."""
    return DRIVE.sample([frame.time_s for frame in frames()])


@cache
def place() -> RebuiltPlace:
    """The warehouse rebuilt from all frames but the fifth."""
    kept = [k for k in range(FRAMES) if k != HELD_OUT]
    xyz, quat = true_poses()
    return rebuilt([frames()[k] for k in kept], lidar(), (xyz[kept], quat[kept]))


HELD_OUT = 4


def room_shots(count: int = 4000, seed: int = 3) -> FrameShots:
    """Frame of a sensor 1 m above the floor of a room of 8 x 8 x 3 m, without noise."""
    random = np.random.default_rng(seed)
    direction = random.normal(size=(count, 3))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    with np.errstate(divide="ignore"):
        to_walls = np.where(direction > 0, np.array([4.0, 4.0, 2.0]), np.array([4.0, 4.0, 1.0])) / np.abs(direction)
    return frame_of_ranges(direction, to_walls.min(axis=1))


def frame_of_ranges(
    direction: NDArray[Any], range_m: NDArray[Any], time_s: float = 0.0, name: str = "room"
) -> FrameShots:
    """Snapshot from the origin with given ranges."""
    count = len(range_m)
    return FrameShots(
        name,
        time_s,
        np.asarray(direction, np.float32),
        np.asarray(range_m, np.float32),
        np.zeros((count, 3), np.float32),
        np.zeros(count, np.float32),
        np.full(count, -1, np.int16),
        np.full(count, np.nan, np.float32),
    )


def still(count: int, xyz: NDArray[Any] | None = None) -> Path:
    """Path of snapshots without rotation."""
    place = np.zeros((count, 3)) if xyz is None else np.asarray(xyz, np.float64)
    zero = np.zeros((count, 3))
    return Path(place, quats_from_matrices(np.repeat(np.eye(3)[None], count, axis=0)), zero, zero)
