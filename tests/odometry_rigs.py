"""Drives with a 2D scanner and wheel odometry of ../shared/data: scan matching against odometry."""

from __future__ import annotations

import bz2
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import parhelion as ph

Floats = NDArray[np.float64]
RADISH = Path(__file__).resolve().parents[1] / ".." / "shared" / "data" / "radish2d_sick"
DRIVES = ("intel", "fr079", "aces", "mit-csail")
STEP_M, STEP_RAD = 0.4, 0.35
"""Motion between the scans that are matched."""
FARTHEST_M = 20.0


@dataclass(frozen=True, eq=False)
class Drive:
    """Scans of a drive, first beam at the right."""

    name: str
    ranges: Floats
    """Ranges [m], shape (n, beams)."""
    odometry: Floats
    """x, y [m] and heading [rad] by the wheels, shape (n, 3)."""
    time: Floats
    """Time of each scan [s]."""

    @property
    def no_return_m(self) -> float:
        """Value that stands for no return."""
        return float(self.ranges.max())

    @property
    def static(self) -> list[slice]:
        """Runs of seven scans or more without any change of the odometry."""
        moved = np.abs(np.diff(self.odometry, axis=0)).max(axis=1) > 1e-6
        ends = np.r_[-1, np.flatnonzero(moved), len(moved)] + 1
        return [slice(int(a), int(b)) for a, b in pairwise(ends) if b - a >= 7]


def read_drive(name: str) -> Drive:
    """Drive from a CARMEN log."""
    with bz2.open(RADISH / f"{name}.clf.bz2", "rt") as log:
        rows = [line[7:].rsplit(maxsplit=2)[0] for line in log if line.startswith("FLASER")]
    beams = int(rows[0].split(maxsplit=1)[0])
    values = np.fromstring(" ".join(rows), sep=" ").reshape(len(rows), -1)[:, 1:]
    return Drive(name, values[:, :beams], values[:, beams : beams + 3], values[:, beams + 6])


def static_noise(drive: Drive, edges: tuple[float, ...]) -> tuple[Floats, NDArray[np.int64]]:
    """Median scatter [m] of single beams of the standing robot by range, and number of beams."""
    spread, middle = [], []
    for run in drive.static:
        part = drive.ranges[run]
        median = np.median(part, axis=0)
        steady = (np.abs(part - median) < 0.3).all(axis=0) & (median < drive.no_return_m - 0.5)
        spread.append(part.std(axis=0, ddof=1)[steady])
        middle.append(median[steady])
    every, metres = np.concatenate(spread), np.concatenate(middle)
    bins = np.digitize(metres, edges) - 1
    count = np.array([np.sum(bins == k) for k in range(len(edges) - 1)])
    return np.array([np.median(every[bins == k]) if count[k] >= 30 else np.nan for k in range(len(count))]), count


def points_of_scan(ranges: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Points [m] of the half circle ahead, and those between 0.3 m and `FARTHEST_M`."""
    beams = len(ranges)
    angle = np.radians(-90.0 + 180.0 * np.arange(beams) / (beams - beams % 2))
    return np.c_[ranges * np.cos(angle), ranges * np.sin(angle)], (ranges > 0.3) & (ranges < FARTHEST_M)


def matched(first: Floats, second: Floats, guess: Floats) -> Floats | None:
    """Motion x, y, heading between two scans by matching points to lines; None if one direction is unconstrained."""
    from scipy.spatial import cKDTree

    points, there = points_of_scan(first)
    along = np.roll(points, -1, axis=0) - np.roll(points, 1, axis=0)
    length = np.linalg.norm(along, axis=1)
    smooth = np.abs(np.diff(first, append=first[-1])) < 0.1 + 0.05 * first
    use = there & smooth & np.roll(smooth, 1) & (length > 1e-6)
    use[[0, -1]] = False
    lines, normal = points[use], np.c_[-along[use, 1], along[use, 0]] / length[use, None]
    moving = points_of_scan(second)[0][points_of_scan(second)[1]]
    if len(lines) < 40 or len(moving) < 40:
        return None
    tree, (x, y, turn) = cKDTree(lines), guess
    for number in range(20):
        c, s = np.cos(turn), np.sin(turn)
        placed = moving @ np.array([[c, s], [-s, c]]) + [x, y]
        far, index = tree.query(placed)
        near = far < max(0.5 * 0.7**number, 0.1)
        if near.sum() < 40:
            return None
        n = normal[index[near]]
        off = ((placed[near] - lines[index[near]]) * n).sum(axis=1)
        lever = (placed[near, 0] - x) * n[:, 1] - (placed[near, 1] - y) * n[:, 0]
        design, weight = np.c_[n, lever], 1.0 / (1.0 + (off / 0.03) ** 2)
        square = (design * weight[:, None]).T @ design
        if np.linalg.eigvalsh(square[:2, :2])[0] < 0.03 * weight.sum():
            return None
        dx, dy, dturn = np.linalg.solve(square, -(design * weight[:, None]).T @ off)
        x, y, turn = x + dx, y + dy, turn + dturn
        if max(abs(dx), abs(dy), abs(dturn)) < 1e-5:
            break
    good = near.mean() > 0.7 and np.median(np.abs(off)) < 0.02
    return np.array([x, y, turn]) if good else None


def relative(first: Floats, second: Floats) -> Floats:
    """Motion x, y [m], heading [rad] from one pose to another, in the frame of the first."""
    c, s = np.cos(first[..., 2]), np.sin(first[..., 2])
    dx, dy = second[..., 0] - first[..., 0], second[..., 1] - first[..., 1]
    turn = (second[..., 2] - first[..., 2] + np.pi) % (2.0 * np.pi) - np.pi
    return np.stack([c * dx + s * dy, -s * dx + c * dy, turn], axis=-1)


def keys(poses: Floats) -> NDArray[np.int64]:
    """Scans between which the odometry moves by 0.4 m or 0.35 rad."""
    found = [0]
    for k in range(1, len(poses)):
        step = relative(poses[found[-1]], poses[k])
        if np.hypot(step[0], step[1]) > STEP_M or abs(step[2]) > STEP_RAD:
            found.append(k)
    return np.array(found)


def matched_steps(drive: Drive, most: int = 400) -> tuple[Floats, Floats]:
    """Motion between scans by odometry and by matching, both (n, 3); `most` pairs are tried."""
    at = keys(drive.odometry)
    pairs = np.c_[at[:-1], at[1:]]
    pairs = pairs[:: max(1, len(pairs) // most)]
    wheels, laser = [], []
    for a, b in pairs:
        guess = relative(drive.odometry[a], drive.odometry[b])
        if np.hypot(guess[0], guess[1]) > 1.0 or abs(guess[2]) > 0.8:
            continue
        found = matched(drive.ranges[a], drive.ranges[b], guess)
        if found is not None:
            wheels.append(guess)
            laser.append(found)
    return np.array(wheels), np.array(laser)


@dataclass(frozen=True)
class WheelErrors:
    """Errors of wheel odometry over steps of about 0.4 m."""

    forward: float
    """True over reported distance, median, minus 1."""
    forward_spread: float
    """Scatter of that ratio per step."""
    turn: float
    """True over reported rotation, minus 1."""
    drift_deg_m: float
    """Unreported rotation per metre of straight drive [deg/m], median."""
    drift_spread_deg: float
    """Scatter of the rotation per straight step [deg]."""
    steps: int


def wheel_errors(wheels: Floats, true: Floats) -> WheelErrors:
    """Errors from the motion by wheels and the true one, both (n, 3)."""
    moving, turning = wheels[:, 0] > 0.3, np.abs(wheels[:, 2]) > 0.2
    straight = moving & (np.abs(wheels[:, 2]) < 0.1)
    ratio = true[moving, 0] / wheels[moving, 0]
    off = np.degrees(true[straight, 2] - wheels[straight, 2])
    drift = float(np.median(off))
    return WheelErrors(
        float(np.median(ratio)) - 1.0,
        1.4826 * float(np.median(np.abs(ratio - np.median(ratio)))),
        float(np.sum(true[turning, 2] * wheels[turning, 2]) / np.sum(wheels[turning, 2] ** 2)) - 1.0,
        drift / float(np.median(wheels[straight, 0])),
        1.4826 * float(np.median(np.abs(off - drift))),
        len(wheels),
    )


def simulated_errors(drive: Drive, preset: str, seed: int) -> WheelErrors:
    """Errors of a simulated robot that drives the recorded path; the path is that of the recorded odometry."""
    time = drive.time - drive.time[0]
    use = np.r_[True, np.diff(time) > 1e-3]
    time, pose = np.maximum.accumulate(time[use]), drive.odometry[use]
    half = 0.5 * np.unwrap(pose[:, 2])
    zero = np.zeros(len(pose))
    motion = ph.RecordedMotion(time, np.c_[pose[:, :2], zero], np.c_[zero, zero, np.sin(half), np.cos(half)])
    got = ph.Odometry(preset).run(None, motion, start=0.0, duration=min(float(time[-1]) - 0.2, 600.0), seed=seed)
    place, quat = motion.sample(got.time)
    true = np.c_[place[:, :2], 2.0 * np.arctan2(quat[:, 2], quat[:, 3])]
    made = np.c_[got.xyz[:, :2], 2.0 * np.arctan2(got.quat_xyzw[:, 2], got.quat_xyzw[:, 3])]
    at = keys(made)
    return wheel_errors(relative(made[at[:-1]], made[at[1:]]), relative(true[at[:-1]], true[at[1:]]))
