"""Where the sensor was at each turn of a drive, by the flat surfaces that turns share.

Point-to-plane ICP (Chen and Medioni 1992) of each turn onto those just before it, begun where the last motion leads.
Matches are looked for within ever smaller distances. It serves calibration, which needs neighbouring turns to agree to
some decimetres; odometry programs do better over long ways.
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
"""Points of a turn that are matched."""
MAP_TURNS = 5
"""Turns that the next one is matched with."""
FARTHEST_M, FAR_M, NEAREST_M, SHRINK = 4.0, 1.5, 0.3, 0.82
"""Distance within which matches are looked for: at first, without and with a motion to begin from; at last; and its
factor from step to step."""
MOST_STEPS = 40
SETTLED_M = 0.002
"""A turn that moves by less is placed."""
LEAST_MATCHED = 0.3
"""Share of points that must find a match at the end."""
MOST_APART_M = 0.1
"""Root mean square distance from matched planes, above which a turn counts as not placed."""
TRIED_TURNS = 6
GUESSES_M = tuple(
    np.array([length * np.cos(angle), length * np.sin(angle), 0.0])
    for length, number in ((0.0, 1), (2.5, 8))
    for angle in 2.0 * np.pi * np.arange(number) / number
)
"""Shifts from which the first motion is looked for."""
UNMATCHED_M = 0.1
"""What a point without a match, or far from it, counts as."""
STILL = (np.zeros(3), np.zeros(3))
Pose = tuple[Floats, Floats]
"""Rotation and position."""


@dataclass(frozen=True, eq=False)
class Placed:
    """Where the turns are, relative to the first."""

    turn: list[Floats]
    """Rotation of each, shape (3, 3)."""
    shift: list[Floats]
    """Position of each [m], shape (3,)."""
    moved: list[tuple[Floats, Floats]]
    """Rotation vector [rad] and shift [m] of the sensor during each turn; zeros where turns are snapshots."""
    apart_m: list[float] = field(default_factory=list)
    """Root mean square distance from matched planes; infinite where a turn was not placed."""

    @property
    def known(self) -> list[bool]:
        """Which turns are placed, as far as the first that is not."""
        return np.logical_and.accumulate(np.asarray(self.apart_m) < MOST_APART_M).tolist()

    @property
    def way_m(self) -> float:
        """Length of the way from turn to turn, of those that are placed."""
        there = [shift for shift, known in zip(self.shift, self.known, strict=True) if known]
        return float(sum(np.linalg.norm(b - a) for a, b in pairwise(there)))

    def in_world(self, number: int, points: FlatPixels) -> tuple[Floats, Floats]:
        """Points and normals of a turn in the frame of the first."""
        return _placed(points, (self.turn[number], self.shift[number]), self.moved[number])

    def turned(self, number: int, points: FlatPixels, vectors: Floats) -> Floats:
        """Vectors of a turn's points in the frame of the first turn."""
        return _placed(replace(points, normal=vectors), (self.turn[number], self.shift[number]), self.moved[number])[1]


def register(turns: Sequence[FlatPixels], seed: int = 1, every: int = 1) -> Placed:
    """Place the turns of a drive, of which these are every so manieth.

    Whether the sensor moves during a turn, or turns are snapshots, is told by which of the two fits the better.
    """
    some = turns[:TRIED_TURNS]
    tried = [_register(some, seed, share) for share in (0.0, 1.0 / every)]
    off = [np.median(one.apart_m[1:]) if len(one.apart_m) > 1 else 0.0 for one in tried]
    return _register(turns, seed, 1.0 / every if off[1] < off[0] else 0.0)


def _register(turns: Sequence[FlatPixels], seed: int, skew: float) -> Placed:
    """Place turns, during each of which the sensor moves by the share `skew` of the way to the next.

    Once more from the usual motion where the first turns, which had none to begin with, moved in another way.
    """
    found = _one_pass(turns, seed, None, skew)
    steps = [
        (a.T @ b, a.T @ (q - p))
        for (a, b), (p, q), apart in zip(pairwise(found.turn), pairwise(found.shift), found.apart_m[1:], strict=True)
        if np.isfinite(apart)
    ]
    if not steps:
        return found
    usual = np.median([shift for _, shift in steps], axis=0)
    if np.linalg.norm(steps[0][1] - usual) < FAR_M / 3.0 and np.isfinite(found.apart_m).all():
        return found
    again = _one_pass(turns, seed, (np.eye(3), usual), skew)
    return min(found, again, key=lambda one: float(np.mean(np.minimum(one.apart_m, MOST_APART_M))))


def _one_pass(turns: Sequence[FlatPixels], seed: int, usual: Pose | None, skew: float) -> Placed:
    random = np.random.default_rng(seed)
    found = Placed([], [], [], [])
    mapped: list[tuple[Floats, Floats]] = []
    step: Pose = usual or (np.eye(3), np.zeros(3))
    lost = True
    for number, turn in enumerate(turns):
        some = turn.rows(_even_sample(turn.normal, random))
        if number == 0:
            placed = _Fit((np.eye(3), np.zeros(3)), STILL, 0.0, 0.0)
        else:
            before = found.turn[-1], found.shift[-1]
            # Where no motion is known yet, or it was lost, several are tried.
            starts = [(step[0], step[1] + off) for off in (GUESSES_M if lost else GUESSES_M[:1])]
            near = FARTHEST_M if lost else FAR_M
            tried = [_fit(some, before, start, mapped, near, skew) for start in starts]
            placed = min(tried, key=lambda one: one.cost)
            step = before[0].T @ placed.pose[0], before[0].T @ (placed.pose[1] - before[1])
            lost = not np.isfinite(placed.apart_m)
        found.turn.append(placed.pose[0])
        found.shift.append(placed.pose[1])
        found.moved.append(placed.during)
        found.apart_m.append(placed.apart_m)
        mapped = [*mapped, _placed(some, placed.pose, placed.during)][-MAP_TURNS:]
        if lost:
            step = usual or (np.eye(3), np.zeros(3))
    return found


@dataclass(frozen=True, eq=False)
class _Fit:
    """How a turn was placed."""

    pose: Pose
    during: tuple[Floats, Floats]
    apart_m: float
    cost: float


def _fit(
    points: FlatPixels, before: Pose, step: Pose, mapped: Sequence[tuple[Floats, Floats]], near: float, skew: float
) -> _Fit:
    """A turn on those before it, from where a step after the last one leads; matches lie within `near` [m] at first."""
    from scipy.spatial import cKDTree
    from scipy.spatial.transform import Rotation

    rotation, shift = before[0] @ step[0], before[0] @ step[1] + before[1]
    places, normals = (np.concatenate(part) for part in zip(*mapped, strict=True))
    tree, during = cKDTree(places), STILL
    apart = cost = np.inf
    for _ in range(MOST_STEPS):
        if skew:
            turned_by = Rotation.from_matrix(before[0].T @ rotation).as_rotvec()
            during = skew * turned_by, skew * (before[0].T @ (shift - before[1]))
        here, facing = _placed(points, (rotation, shift), during)
        turned, moved, apart, cost = _match(here, facing, places, normals, tree, near)
        after = turned @ shift + moved
        settled = near <= NEAREST_M and float(np.linalg.norm(after - shift)) < SETTLED_M
        rotation, shift = turned @ rotation, after
        if settled or not np.isfinite(apart):
            break
        near = max(NEAREST_M, SHRINK * near)
    return _Fit((rotation, shift), during, apart, cost)


def _even_sample(normal: Floats, random: np.random.Generator) -> NDArray[np.int64]:
    """Points whose surfaces face all ways alike, as far as there are some (after Rusinkiewicz and Levoy 2001).

    Most points lie on the road, which does not tell where on it the sensor is.
    """
    if len(normal) <= MOST_POINTS:
        return np.arange(len(normal))
    facing = np.rint(1.2 * normal).astype(np.int64) + 1
    group, count = np.unique(facing @ np.array([9, 3, 1]), return_inverse=True, return_counts=True)[1:]
    # Drawn without putting back, by weight (Efraimidis and Spirakis 2006).
    key = random.exponential(size=len(normal)) * count[group]
    return np.asarray(np.sort(np.argpartition(key, MOST_POINTS)[:MOST_POINTS]))


def _placed(points: FlatPixels, pose: Pose, during: tuple[Floats, Floats]) -> tuple[Floats, Floats]:
    """Points and normals in the first turn's frame; the pose holds in the middle of the turn."""
    off = (points.turn_share - 0.5)[:, None]
    turned, moved = off * during[0], off * during[1]
    # Within a turn the sensor turns little, so that the rotation is its first order.
    point = points.point + np.cross(turned, points.point) + moved
    normal = points.normal + np.cross(turned, points.normal)
    return point @ pose[0].T + pose[1], normal @ pose[0].T


def _match(
    here: Floats, facing: Floats, places: Floats, normals: Floats, tree: object, near: float
) -> tuple[Floats, Floats, float, float]:
    """The small rotation and shift that bring points onto the planes of their nearest neighbours.

    Beside them the root mean square distance [m] of those that have one, and a cost in which all points count.
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
    usual = max(1.4826 * float(np.median(np.abs(off))), 0.005)
    weight = 1.0 / np.maximum(1.0, np.abs(off) / (1.5 * usual))
    rows = np.hstack([np.cross(p, n), n])
    normal_matrix = (weight[:, None] * rows).T @ rows + 1e-3 * np.eye(6)
    found = np.linalg.solve(normal_matrix, (weight[:, None] * rows).T @ off)
    apart = float(np.sqrt(np.mean(np.minimum(np.abs(off), 3.0 * usual) ** 2)))
    cost = float(np.sum(np.minimum(np.abs(off), UNMATCHED_M) ** 2)) + UNMATCHED_M**2 * int((~there).sum())
    return Rotation.from_rotvec(found[:3]).as_matrix(), found[3:], apart, cost / len(here)
