"""Maps from drives: all clouds in the frame of the true trajectory, one point per voxel.

map = build_map(drive, voxel_m=0.1, static=True)
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, origin_names
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_rotate
from parhelion.core.trajectory import Trajectory
from parhelion.evaluate.slam.drives import Drive
from parhelion.io.poses import TimedPoses

MOVING_M_S = 0.1
"""Speed above which a surface counts as moving [m/s]."""
_REACH = 1 << 20  # voxels on each side of the origin
_MERGE = 2_000_000  # rows between two reductions


class Voxels:
    """Mean point and intensity per voxel, accumulated scan by scan."""

    def __init__(self, size_m: float) -> None:
        if not size_m > 0.0:
            raise ConfigError(f"map: the voxel must be larger than 0 m, got {size_m:g}")
        self.size_m = size_m
        self._parts: list[tuple[NDArray[np.int64], Floats]] = []
        self._rows = 0

    def add(self, points: Floats, intensity: Floats | None) -> None:
        """Add points (n, 3) [m] in the frame of the map."""
        if not len(points):
            return
        cells = np.floor(points / self.size_m).astype(np.int64) + _REACH
        if cells.min() < 0 or cells.max() >= 2 * _REACH:
            raise ConfigError(f"map: a point is farther than {_REACH * self.size_m:.0f} m from the origin of the map")
        key = (cells[:, 0] << 42) | (cells[:, 1] << 21) | cells[:, 2]
        level = np.full(len(points), np.nan) if intensity is None else intensity
        self._parts.append(_reduced(key, np.column_stack([points, level, np.ones(len(points))])))
        self._rows += len(self._parts[-1][0])
        if self._rows > _MERGE and len(self._parts) > 1:
            self._merge()

    def _merge(self) -> None:
        keys, sums = (np.concatenate(column) for column in zip(*self._parts, strict=True))
        self._parts = [_reduced(keys, sums)]
        self._rows = len(self._parts[0][0])

    def cloud(self) -> PointCloud:
        """The map as a cloud in the world frame, sorted by voxel."""
        if not self._parts:
            raise ConfigError("map: no points")
        self._merge()
        sums = self._parts[0][1]
        means = sums[:, :4] / sums[:, 4:]
        fields = {"intensity": means[:, 3].astype(np.float32)} if np.isfinite(means[:, 3]).all() else {}
        return PointCloud(means[:, :3], fields, frame="world", metadata={"voxel_m": self.size_m})


def _reduced(key: NDArray[np.int64], rows: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Sums of the rows of each key."""
    order = np.argsort(key, kind="stable")
    key = key[order]
    first = np.flatnonzero(np.diff(key, prepend=key[0] - 1))
    return key[first], np.add.reduceat(rows[order], first, axis=0)


def build_map(
    drive: Drive,
    voxel_m: float = 0.1,
    *,
    static: bool = False,
    without: Sequence[str] = (),
    max_range_m: float = 100.0,
    advance: Callable[[], None] = lambda: None,
) -> PointCloud:
    """Map of a drive with known poses; every point is moved by the pose at the time of its shot.

    With `static`, points on surfaces that move (field `velocity`, or a label such as moving-car), on drops and of
    ghosts are omitted. `without` lists further labels to omit.
    """
    found = Voxels(voxel_m)
    for number, frame in enumerate(drive.frames()):
        scan = frame.scan
        xyz = np.asarray(scan.xyz, np.float64)
        metres = np.linalg.norm(xyz, axis=1)
        kept = np.isfinite(metres) & (metres > 0.0) & (metres <= max_range_m)
        if static or without:
            kept &= _allowed(scan, static, without, number)
        if kept.any():
            offset = (
                np.asarray(scan.fields["time"], np.float64)[kept] if "time" in scan.fields else np.zeros(kept.sum())
            )
            times, rows = np.unique(frame.time + offset, return_inverse=True)
            place, turn = sampled(drive.truth(), times)
            points = quat_rotate(turn[rows], xyz[kept]) + place[rows]
            level = np.asarray(scan.fields["intensity"], np.float64)[kept] if "intensity" in scan.fields else None
            found.add(points, level)
        advance()
    return found.cloud()


def sampled(truth: TimedPoses | Trajectory, times: Floats) -> tuple[Floats, Floats]:
    """True positions (n, 3) and quaternions (n, 4) at times [s]."""
    if isinstance(truth, TimedPoses):
        from parhelion.motion.recorded import RecordedMotion

        truth = RecordedMotion(truth.times, truth.xyz, truth.quat_xyzw)
    place, turn = truth.sample(times)
    return np.asarray(place, np.float64), np.asarray(turn, np.float64)


def _allowed(scan: PointCloud, static: bool, without: Sequence[str], number: int) -> NDArray[np.bool_]:
    """Mask of the points that the map keeps."""
    names: Any = scan.names.get("label", {})
    kept = np.ones(len(scan), bool)
    if "label" in scan.fields and names:
        dropped = {*without, *(word for word in names.values() if static and word.startswith("moving-"))}
        kept &= ~np.isin(scan.fields["label"], [code for code, word in names.items() if word in dropped])
    elif without:
        raise ConfigError(f"map: scan {number} has no labels, so {', '.join(without)} cannot be omitted")
    if not static:
        return kept
    if "velocity" not in scan.fields and not names:
        raise ConfigError(
            f"map: scan {number} has neither velocities nor labels, so moving objects are unknown; omit --static"
        )
    if "velocity" in scan.fields:
        kept &= np.linalg.norm(np.asarray(scan.fields["velocity"], np.float64), axis=1) <= MOVING_M_S
    if "origin" in scan.fields:
        words = scan.names.get("origin") or origin_names()
        kept &= np.isin(scan.fields["origin"], [code for code, word in words.items() if word == "surface"])
    return kept
