"""Position of the sensor at each frame of a drive, from the flat surfaces that frames share.

Point-to-plane ICP (Chen and Medioni 1992) of each frame onto the preceding ones, started at the extrapolated motion,
with decreasing matching distance. Calibration needs neighbouring frames to agree to some decimetres; odometry programs
are more accurate over long distances.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.drive.flat_pixels import FlatPixels
from parhelion.calibrate.range_images import Floats

MOST_POINTS = 2500
"""Number of points of a frame that are matched."""
MAP_FRAMES = 5
"""Number of preceding frames that a frame is matched with."""
FARTHEST_M, FAR_M, NEAREST_M, SHRINK = 4.0, 1.5, 0.3, 0.82
"""Matching distances [m]: initially, without and with a known motion; finally; and the factor per step."""
MOST_STEPS = 40
SETTLED_M = 0.002
"""Smallest change of the pose per step; the registration ends below it."""
LEAST_MATCHED = 0.3
"""Share of points that must have a match at the end."""
MOST_APART_M = 0.1
"""Largest root mean square distance from matched planes of a registered frame."""
TRIED_FRAMES = 6
GUESSES_M = tuple(
    np.array([length * np.cos(angle), length * np.sin(angle), 0.0])
    for length, number in ((0.0, 1), (2.5, 8))
    for angle in 2.0 * np.pi * np.arange(number) / number
)
"""Initial shifts for the first motion."""
UNMATCHED_M = 0.1
"""Cost of a point without a match or far from it."""
STILL = (np.zeros(3), np.zeros(3))
Pose = tuple[Floats, Floats]
"""Rotation and position."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Poses of the frames relative to the first."""

    rotation: list[Floats]
    """Rotation of each frame, shape (3, 3)."""
    shift: list[Floats]
    """Position of each frame [m], shape (3,)."""
    moved: list[tuple[Floats, Floats]]
    """Rotation vector [rad] and shift [m] of the sensor during each frame; zeros for snapshots."""
    apart_m: list[float] = field(default_factory=list)
    """Root mean square distance from matched planes; infinite for frames that are not registered."""

    @property
    def known(self) -> list[bool]:
        """Registered frames, up to the first that is not."""
        return np.logical_and.accumulate(np.asarray(self.apart_m) < MOST_APART_M).tolist()

    @property
    def path_m(self) -> float:
        """Length of the path over the registered frames."""
        there = [shift for shift, known in zip(self.shift, self.known, strict=True) if known]
        return float(sum(np.linalg.norm(b - a) for a, b in pairwise(there)))

    def in_world(self, number: int, points: FlatPixels) -> tuple[Floats, Floats]:
        """Points and normals of a frame in the coordinates of the first frame."""
        return _placed(points, (self.rotation[number], self.shift[number]), self.moved[number])

    def to_world(self, number: int, points: FlatPixels, vectors: Floats) -> Floats:
        """Vectors at a frame's points in the coordinates of the first frame."""
        return _placed(
            replace(points, normal=vectors), (self.rotation[number], self.shift[number]), self.moved[number]
        )[1]


def register(frames: Sequence[FlatPixels], seed: int = 1, every: int = 1) -> Placed:
    """Register the frames of a drive, which are every `every`-th of the recording.

    The better of two fits determines whether the sensor moves during a frame or frames are snapshots.
    """
    some = frames[:TRIED_FRAMES]
    tried = [_register(some, seed, share) for share in (0.0, 1.0 / every)]
    off = [np.median(one.apart_m[1:]) if len(one.apart_m) > 1 else 0.0 for one in tried]
    return _register(frames, seed, 1.0 / every if off[1] < off[0] else 0.0)


def _register(frames: Sequence[FlatPixels], seed: int, skew: float) -> Placed:
    """Register frames during which the sensor moves by the share `skew` of the way to the next.

    The registration is repeated from the median motion if the first frames, which had no initial motion, moved
    differently.
    """
    found = _one_pass(frames, seed, None, skew)
    steps = [
        (a.T @ b, a.T @ (q - p))
        for (a, b), (p, q), apart in zip(
            pairwise(found.rotation), pairwise(found.shift), found.apart_m[1:], strict=True
        )
        if np.isfinite(apart)
    ]
    if not steps:
        return found
    typical_step = np.median([shift for _, shift in steps], axis=0)
    if np.linalg.norm(steps[0][1] - typical_step) < FAR_M / 3.0 and np.isfinite(found.apart_m).all():
        return found
    again = _one_pass(frames, seed, (np.eye(3), typical_step), skew)
    return min(found, again, key=lambda one: float(np.mean(np.minimum(one.apart_m, MOST_APART_M))))


def _one_pass(frames: Sequence[FlatPixels], seed: int, typical_step: Pose | None, skew: float) -> Placed:
    random = np.random.default_rng(seed)
    found = Placed([], [], [], [])
    mapped: list[tuple[Floats, Floats]] = []
    lost = True
    for number, frame in enumerate(frames):
        if lost:
            step: Pose = typical_step or (np.eye(3), np.zeros(3))
        some = frame.rows(even_sample(frame.normal, random))
        if number == 0:
            placed = _Fit((np.eye(3), np.zeros(3)), STILL, 0.0, 0.0)
        else:
            before = found.rotation[-1], found.shift[-1]
            # Several motions are tried if none is known yet or registration failed.
            starts = [(step[0], step[1] + off) for off in (GUESSES_M if lost else GUESSES_M[:1])]
            near = FARTHEST_M if lost else FAR_M
            tried = [_fit(some, before, start, mapped, near, skew) for start in starts]
            placed = min(tried, key=lambda one: one.cost)
            step = before[0].T @ placed.pose[0], before[0].T @ (placed.pose[1] - before[1])
            lost = not np.isfinite(placed.apart_m)
        found.rotation.append(placed.pose[0])
        found.shift.append(placed.pose[1])
        found.moved.append(placed.during)
        found.apart_m.append(placed.apart_m)
        mapped = [*mapped, _placed(some, placed.pose, placed.during)][-MAP_FRAMES:]
    return found


@dataclass(frozen=True, eq=False)
class _Fit:
    """Result of registering one frame."""

    pose: Pose
    during: tuple[Floats, Floats]
    apart_m: float
    cost: float


def _fit(
    points: FlatPixels, before: Pose, step: Pose, mapped: Sequence[tuple[Floats, Floats]], near: float, skew: float
) -> _Fit:
    """Register a frame to preceding ones, from the extrapolated motion; `near` is the initial matching distance [m]."""
    from scipy.spatial import cKDTree
    from scipy.spatial.transform import Rotation

    rotation, shift = before[0] @ step[0], before[0] @ step[1] + before[1]
    places, normals = (np.concatenate(part) for part in zip(*mapped, strict=True))
    tree, during = cKDTree(places), STILL
    apart = cost = np.inf
    for _ in range(MOST_STEPS):
        if skew:
            rotated_by = Rotation.from_matrix(before[0].T @ rotation).as_rotvec()
            during = skew * rotated_by, skew * (before[0].T @ (shift - before[1]))
        here, facing = _placed(points, (rotation, shift), during)
        rotated, moved, apart, cost = match_planes(here, facing, places, normals, tree, near)
        after = rotated @ shift + moved
        settled = near <= NEAREST_M and float(np.linalg.norm(after - shift)) < SETTLED_M
        rotation, shift = rotated @ rotation, after
        if settled or not np.isfinite(apart):
            break
        near = max(NEAREST_M, SHRINK * near)
    return _Fit((rotation, shift), during, apart, cost)


def even_sample(normal: Floats, random: np.random.Generator) -> NDArray[np.int64]:
    """Sample of points whose normals are spread over all directions (after Rusinkiewicz and Levoy 2001).

    Most points lie on the road, which does not constrain the horizontal position.
    """
    if len(normal) <= MOST_POINTS:
        return np.arange(len(normal))
    facing = np.rint(1.2 * normal).astype(np.int64) + 1
    group, count = np.unique(facing @ np.array([9, 3, 1]), return_inverse=True, return_counts=True)[1:]
    # Weighted sampling without replacement (Efraimidis and Spirakis 2006).
    key = random.exponential(size=len(normal)) * count[group]
    return np.asarray(np.sort(np.argpartition(key, MOST_POINTS)[:MOST_POINTS]))


def _placed(points: FlatPixels, pose: Pose, during: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Points and normals in the coordinates of the first frame; the pose applies to the middle of the frame."""
    off = (points.turn_share - 0.5)[:, None]
    rotated, moved = off * during[0], off * during[1]
    # The rotation within a frame is small, so its first order suffices.
    point = points.point + np.cross(rotated, points.point) + moved
    normal = points.normal + np.cross(rotated, points.normal)
    return point @ pose[0].T + pose[1], normal @ pose[0].T


def match_planes(
    here: Floats, facing: Floats, places: Floats, normals: Floats, tree: object, near: float
) -> tuple[Floats, Floats, float, float]:
    """Small rotation and shift that move points onto the planes of their nearest neighbours.

    Also returns the root mean square distance [m] of matched points, and a cost over all points.
    """
    from scipy.spatial.transform import Rotation

    distance, index = tree.query(here, distance_upper_bound=near)  # type: ignore[attr-defined]
    there = np.isfinite(distance)
    index = np.where(there, index, 0)
    there &= np.abs(np.einsum("ij,ij->i", facing, normals[index])) > 0.8
    if there.sum() < max(30, LEAST_MATCHED * len(here) * (near <= NEAREST_M)):
        return np.eye(3), np.zeros(3), np.inf, np.inf
    p, q, n = here[there], places[index[there]], normals[index[there]]
    off = np.einsum("ij,ij->i", q - p, n)
    scale = max(1.4826 * float(np.median(np.abs(off))), 0.005)
    weight = 1.0 / np.maximum(1.0, np.abs(off) / (1.5 * scale))
    rows = np.hstack([np.cross(p, n), n])
    normal_matrix = (weight[:, None] * rows).T @ rows + 1e-3 * np.eye(6)
    found = np.linalg.solve(normal_matrix, (weight[:, None] * rows).T @ off)
    apart = float(np.sqrt(np.mean(np.minimum(np.abs(off), 3.0 * scale) ** 2)))
    cost = float(np.sum(np.minimum(np.abs(off), UNMATCHED_M) ** 2)) + UNMATCHED_M**2 * int((~there).sum())
    return Rotation.from_rotvec(found[:3]).as_matrix(), found[3:], apart, cost / len(here)
