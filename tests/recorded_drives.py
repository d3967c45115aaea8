"""Frames of two public recordings outside the repository, whose files contain returns only.

Lost shots are restored from the gaps between the points of each ring: rings follow from the elevation (Hilti) or from
the order of the file (KITTI), shots of a ring have equal steps of azimuth.
"""

from __future__ import annotations

from pathlib import Path as File
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lidar_recorded_rigs import DATA, HILTI, points_of
from parhelion.core.pose import quats_from_matrices
from parhelion.rebuild.frames import FrameShots, Path

Floats = NDArray[np.float64]
KITTI = DATA / "kitti0005_hdl64_pose"
RINGS = 64
WINDOW = 600
"""Points of a Hilti file in which deskewing shifts all rings alike."""
KITTI_PERIOD_S = 0.1035


def hilti(numbers: range = range(40, 60)) -> tuple[list[FrameShots], Path]:
    """Hand-held OS0-64: snapshots, since its clouds are corrected for motion, and their adjusted poses."""
    rows = np.loadtxt(HILTI / "alidarPose.csv", delimiter=",", usecols=(0, 1, 2, 3)).reshape(-1, 4, 4)
    frames: list[FrameShots] = []
    template: Floats | None = None
    for number in numbers:
        points = points_of(HILTI / "lidar" / f"{number:06d}.dz")
        xyz = points[:, :3]
        elevation = np.degrees(np.arcsin(xyz[:, 2] / np.linalg.norm(xyz, axis=1)))
        ring, template = _rings_by_elevation(elevation, template)
        own = ring >= 0
        frames.append(_frame(f"Hilti {number}", rows[number, 3, 3], points[own], ring[own], 2.0 * np.pi / 2048))
    matrix = rows[list(numbers)]
    zero = np.zeros((len(matrix), 3))
    return frames, Path(matrix[:, :3, 3].copy(), quats_from_matrices(matrix[:, :3, :3]), zero, zero)


def kitti(numbers: range = range(60, 86)) -> list[FrameShots]:
    """HDL-64E on a car, not corrected for motion; it turns clockwise from the rear."""
    frames = []
    for number in numbers:
        points = points_of(KITTI / "lidar" / f"{number:06d}.dz")
        azimuth = np.arctan2(points[:, 1], points[:, 0]) % (2.0 * np.pi)
        wraps = np.concatenate([[0], np.diff(azimuth) < -np.pi])
        ring = RINGS - 1 - np.clip(np.cumsum(wraps), 0, RINGS - 1)
        steps = []
        for one in range(RINGS):
            apart = np.diff(azimuth[ring == one])
            apart = apart[apart > 1e-4]
            if len(apart) > 100:
                steps.append(np.median(apart[apart < 1.3 * np.median(apart)]))
        frames.append(
            _frame(f"KITTI {number}", KITTI_PERIOD_S * number, points, ring, float(np.median(steps)), KITTI_PERIOD_S)
        )
    return frames


def _frame(
    name: str, time_s: float, points: Floats, ring: NDArray[Any], step: float, period_s: float = 0.0
) -> FrameShots:
    xyz = points[:, :3]
    range_m = np.linalg.norm(xyz, axis=1)
    azimuth, elevation = np.arctan2(xyz[:, 1], xyz[:, 0]), np.arcsin(xyz[:, 2] / range_m)
    lost, lost_ring = _between(azimuth, elevation, ring, step)
    nothing = np.full(len(lost), np.nan)
    direction = np.concatenate([xyz / range_m[:, None], lost])
    around = np.arctan2(direction[:, 1], direction[:, 0])
    share = (np.pi - around) % (2.0 * np.pi) / (2.0 * np.pi) - 0.5
    return FrameShots(
        name,
        float(time_s),
        direction.astype(np.float32),
        np.concatenate([range_m, nothing]).astype(np.float32),
        np.zeros((len(direction), 3), np.float32),
        (period_s * share).astype(np.float32),
        np.concatenate([ring, lost_ring]).astype(np.int16),
        np.concatenate([points[:, 3], nothing]).astype(np.float32),
    )


def _between(azimuth: Floats, elevation: Floats, ring: NDArray[Any], step: float) -> tuple[Floats, NDArray[np.int64]]:
    """Directions and rings of the shots that are missing between the points of each ring."""
    found, rings = [np.zeros((0, 3))], [np.zeros(0, np.int64)]
    for number in range(RINGS):
        own = np.flatnonzero(ring == number)
        if len(own) < 2:
            continue
        order = np.argsort(np.unwrap(azimuth[own]), kind="stable")
        a, e = np.unwrap(azimuth[own])[order], elevation[own][order]
        a, e = np.append(a, a[0] + 2.0 * np.pi), np.append(e, e[0])
        gap = np.diff(a)
        missing = np.maximum(np.rint(gap / step).astype(int) - 1, 0)
        place = np.repeat(np.arange(len(gap)), missing)
        count = np.arange(len(place)) - np.repeat(np.cumsum(missing) - missing, missing) + 1
        share = count / (missing[place] + 1)
        at, level = a[place] + share * gap[place], e[place] + share * (e[place + 1] - e[place])
        found.append(np.stack([np.cos(level) * np.cos(at), np.cos(level) * np.sin(at), np.sin(level)], axis=1))
        rings.append(np.full(len(at), number))
    return np.concatenate(found), np.concatenate(rings)


def _rings_by_elevation(elevation: Floats, template: Floats | None) -> tuple[NDArray[np.int64], Floats]:
    """Rings of points in order of firing, -1 for none, and the elevations of the rings [deg].

    The correction of motion shifts the rings by up to 1.5 degrees; the shift is followed from window to window.
    """
    windows = np.array_split(np.arange(len(elevation)), len(elevation) // WINDOW)
    groups = []
    for window in windows:
        level = np.sort(elevation[window])
        groups.append(np.array([one.mean() for one in np.split(level, np.flatnonzero(np.diff(level) > 0.4) + 1)]))
    by_middle = sorted(range(len(windows)), key=lambda k: abs(k - len(windows) // 2))
    start = next((k for k in by_middle if len(groups[k]) == RINGS), None)
    begin = np.zeros(3)
    if start is not None:
        template = groups[start]
    else:
        assert template is not None
        start = max(by_middle, key=lambda k: (len(groups[k]) <= RINGS) * len(groups[k]))
        begin = _shift_of(groups[start], template)
    ring = np.full(len(elevation), -1)
    for sequence in (range(start, len(windows)), range(start, -1, -1)):
        shift = begin.copy()
        for number in sequence:
            shift, ring[windows[number]] = _followed(elevation[windows[number]], template, shift)
    return ring, template


def _shift_of(group: Floats, template: Floats) -> Floats:
    """Offset and tilt that bring the rings closest to the elevations of a window."""
    tried = [
        (np.abs(group[:, None] - template - off - tilt * template / 45.0).min(axis=1).mean(), off, tilt)
        for off in np.arange(-1.5, 1.5, 0.05)
        for tilt in np.arange(-1.0, 1.01, 0.1)
    ]
    _, off, tilt = min((miss + 0.01 * (abs(off) + abs(tilt)), off, tilt) for miss, off, tilt in tried)
    return np.array([0.0, tilt, off])


def _followed(level: Floats, template: Floats, shift: Floats) -> tuple[Floats, NDArray[np.int64]]:
    for _ in range(3):
        now = template + np.polyval(shift, template / 45.0)
        own = np.searchsorted(0.5 * (now[1:] + now[:-1]), level)
        near = np.abs(level - now[own]) < 0.5
        rows = np.vander(template[own] / 45.0, 3)[near]
        left = (level - template[own])[near] - rows @ shift
        damping = 0.02 * len(level) * np.diag([1.0, 1.0, 0.2])
        shift = shift + np.linalg.solve(rows.T @ rows + damping, rows.T @ left)
    now = template + np.polyval(shift, template / 45.0)
    own = np.searchsorted(0.5 * (now[1:] + now[:-1]), level)
    return shift, np.where(np.abs(level - now[own]) < 0.7, own, -1)


def available() -> bool:
    """Both recordings exist."""
    return all(File(folder).is_dir() for folder in (HILTI, KITTI))
