"""Optimal reciprocal collision avoidance of people (van den Berg, Guy, Lin and Manocha 2011), vectorised over people.

Every neighbour of a person forbids a half plane of velocities: those that would lead to contact within a horizon. Each
of two people takes half of the correction. A person chooses the permitted velocity nearest to the preferred one. The
optimum lies at the preferred velocity, on one boundary, at the intersection of two boundaries or on the circle of the
largest speed, so all of these candidates are tested at once. Where no velocity is permitted, as in dense crowds, the
worst violation is minimised; it is equal for three boundaries there. Walls are half planes that never give way.

A half plane is a row (n_x, n_y, b): it permits velocities with n·v ≥ b, where n is a unit vector. A row of zeros
permits everything.
"""

from __future__ import annotations

from functools import cache
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats

Rows = NDArray[np.intp]

TOLERANCE = 1e-9
"""Violation [m/s] of a half plane that counts as rounding."""


def avoid_discs(
    offset: Floats, velocity: Floats, other_velocity: Floats, radius: Floats, horizon_s: float, contact_s: float
) -> tuple[Floats, Floats]:
    """Boundaries of the velocity obstacles of discs: corrections u (..., 2) [m/s] and outward normals (..., 2).

    `offset` (..., 2) [m] points from the person to the disc, `radius` (...) [m] is the sum of both radii. The
    correction is the smallest change of the relative velocity that reaches the boundary of the obstacle for
    `horizon_s`; for discs in contact, of the one that separates them within `contact_s`.
    """
    relative = velocity - other_velocity
    distance2 = np.maximum(_dot(offset, offset), 1e-12)
    apart = distance2 > radius**2
    scale = np.where(apart, horizon_s, contact_s)
    from_tip = relative - offset / scale[..., None]
    length = np.sqrt(np.maximum(_dot(from_tip, from_tip), 1e-18))
    inward = _dot(from_tip, offset)
    on_cap = ~apart | ((inward < 0.0) & (inward**2 > radius**2 * length**2))
    cap_normal = from_tip / length[..., None]
    cap_shift = (radius / scale - length)[..., None] * cap_normal
    # The legs of the cone: tangents from the origin to the disc, on the side of the relative velocity.
    leg = np.sqrt(np.maximum(distance2 - radius**2, 0.0))
    side = np.where(offset[..., 0] * from_tip[..., 1] - offset[..., 1] * from_tip[..., 0] > 0.0, 1.0, -1.0)
    x, y = offset[..., 0], offset[..., 1]
    along = np.stack([x * leg - side * y * radius, side * x * radius + y * leg], axis=-1)
    along *= (side / distance2)[..., None]
    leg_shift = _dot(relative, along)[..., None] * along - relative
    leg_normal = np.stack([-along[..., 1], along[..., 0]], axis=-1)
    pick = on_cap[..., None]
    return np.where(pick, cap_shift, leg_shift), np.where(pick, cap_normal, leg_normal)


def half_planes(velocity: Floats, correction: Floats, normal: Floats, share: Floats | float) -> Floats:
    """Half planes (..., 3) of people who take a `share` of each correction (..., 2) [m/s] on themselves."""
    point = velocity + np.asarray(share)[..., None] * correction
    return np.concatenate([normal, _dot(normal, point)[..., None]], axis=-1)


def avoid_points(offset: Floats, radius: Floats, horizon_s: float) -> Floats:
    """Half planes (..., 3) that keep a person from the nearest points of static convex obstacles.

    `offset` (..., 2) [m] points from the person to the obstacle; `radius` (...) [m] is that of the person. The speed of
    approach is at most the free distance over `horizon_s`. A person who is too near moves back.
    """
    distance = np.sqrt(np.maximum(_dot(offset, offset), 1e-12))
    bound = -(distance - radius) / horizon_s
    return np.concatenate([-offset / distance[..., None], bound[..., None]], axis=-1)


def choose(preferred: Floats, planes: Floats, hard: NDArray[np.bool_], fastest: Floats) -> Floats:
    """Velocities (n, 2) [m/s] nearest to the preferred ones that all half planes (n, m, 3) permit.

    `hard` (m,) marks half planes of walls, `fastest` (n,) [m/s] limits the speed. Where the others leave no velocity,
    their worst violation is minimised.
    """
    chosen = _clipped(preferred, fastest)
    rows = np.flatnonzero(np.any(_missing(chosen, planes) > TOLERANCE, axis=1))
    if not len(rows):
        return chosen
    some, limit = planes[rows], fastest[rows]
    found, free = _permitted(chosen[rows], some, limit)
    chosen[rows] = found
    rows = rows[~free]
    if len(rows):
        chosen[rows] = _least_violation(chosen[rows], planes[rows], hard, fastest[rows])
    return chosen


def _permitted(preferred: Floats, planes: Floats, fastest: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Nearest permitted velocities (n, 2) and a mask (n,) of the people who have one; the preferred one otherwise."""
    normal, bound = planes[..., :2], planes[..., 2]
    gap = bound - _dot(normal, preferred[:, None, :])
    on_line = preferred[:, None, :] + gap[..., None] * normal
    along = np.stack([-normal[..., 1], normal[..., 0]], axis=-1)
    half = np.sqrt(np.maximum(fastest[:, None] ** 2 - bound**2, 0.0))
    foot = bound[..., None] * normal
    ends = [foot + sign * half[..., None] * along for sign in (-1.0, 1.0)]
    a, b = _pairs(planes.shape[1])
    cross = normal[:, a, 0] * normal[:, b, 1] - normal[:, a, 1] * normal[:, b, 0]
    safe = np.where(np.abs(cross) > 1e-6, cross, np.inf)
    corner = np.stack(
        [
            (bound[:, a] * normal[:, b, 1] - bound[:, b] * normal[:, a, 1]) / safe,
            (bound[:, b] * normal[:, a, 0] - bound[:, a] * normal[:, b, 0]) / safe,
        ],
        axis=-1,
    )
    candidates = np.concatenate([on_line, *ends, corner], axis=1)
    too_fast = _dot(candidates, candidates) > (fastest[:, None] + TOLERANCE) ** 2
    missing = np.max(_violations(planes, candidates), axis=1)
    away = candidates - preferred[:, None, :]
    cost = np.where(too_fast | (missing > TOLERANCE), np.inf, _dot(away, away))
    best = np.argmin(cost, axis=1)
    row = np.arange(len(preferred))
    free = np.isfinite(cost[row, best])
    return np.where(free[:, None], candidates[row, best], preferred), free


def _least_violation(preferred: Floats, planes: Floats, hard: NDArray[np.bool_], fastest: Floats) -> Floats:
    """Velocities (n, 2) whose worst violation of the half planes of other people is the smallest."""
    normal, bound = planes[..., :2], planes[..., 2]
    soft = np.where(hard, 0.0, 1.0)
    a, b, c = _triples(planes.shape[1])
    # Three boundaries that are violated equally: n·v + s ε = b for each, solved by Cramer's rule.
    rows = [
        np.stack([normal[:, k, 0], normal[:, k, 1], np.broadcast_to(soft[k], bound[:, k].shape)]) for k in (a, b, c)
    ]
    right = np.stack([bound[:, k] for k in (a, b, c)])
    matrix = np.stack(rows, axis=1)
    det = _determinant(matrix[0], matrix[1], matrix[2])
    safe = np.where(np.abs(det) > 1e-6, det, np.inf)
    equal = np.stack(
        [_determinant(right, matrix[1], matrix[2]) / safe, _determinant(matrix[0], right, matrix[2]) / safe], axis=-1
    )
    # On the circle of the largest speed: two boundaries that are violated equally, or straight away from one.
    a, b = _pairs(planes.shape[1])
    across, offset = normal[:, a] - normal[:, b], bound[:, a] - bound[:, b]
    size2 = np.maximum(_dot(across, across), 1e-9)
    half = np.sqrt(np.maximum(fastest[:, None] ** 2 - offset**2 / size2, 0.0) / size2)
    aside = np.stack([-across[..., 1], across[..., 0]], axis=-1)
    foot = (offset / size2)[..., None] * across
    ends = [foot + sign * half[..., None] * aside for sign in (-1.0, 1.0)]
    candidates = np.concatenate(
        [equal, *ends, fastest[:, None, None] * normal, np.zeros((len(preferred), 1, 2)), preferred[:, None, :]], axis=1
    )
    candidates = _clipped(candidates, fastest[:, None])
    missing = _violations(planes, candidates)
    # Walls come first: their violations weigh so much that they are avoided wherever possible.
    worst = np.max(missing * np.where(hard, 100.0, 1.0)[None, :, None], axis=1)
    best = np.argmin(worst, axis=1)
    return candidates[np.arange(len(preferred)), best]


def _determinant(x: Floats, y: Floats, z: Floats) -> Floats:
    """Determinants of matrices with columns x, y and z, each (3, ...)."""
    return x[0] * (y[1] * z[2] - y[2] * z[1]) - y[0] * (x[1] * z[2] - x[2] * z[1]) + z[0] * (x[1] * y[2] - x[2] * y[1])


def _violations(planes: Floats, candidates: Floats) -> Floats:
    """Violations (n, m, k) [m/s] of half planes (n, m, 3) by candidate velocities (n, k, 2)."""
    x, y = candidates[:, None, :, 0], candidates[:, None, :, 1]
    return planes[:, :, 2:] - planes[:, :, :1] * x - planes[:, :, 1:2] * y


def _missing(velocity: Floats, planes: Floats) -> Floats:
    """Violations (n, m) [m/s] of half planes by velocities (n, 2); negative where a half plane permits."""
    return planes[..., 2] - _dot(planes[..., :2], velocity[:, None, :])


def _clipped(velocity: Floats, fastest: Floats) -> Floats:
    """Velocities, scaled down to the largest speed."""
    speed = np.sqrt(np.maximum(_dot(velocity, velocity), 1e-18))
    return velocity * np.minimum(1.0, fastest / speed)[..., None]


def _dot(a: Floats, b: Floats) -> Floats:
    return a[..., 0] * b[..., 0] + a[..., 1] * b[..., 1]


@cache
def _pairs(count: int) -> tuple[Rows, Rows]:
    return np.triu_indices(count, 1)


@cache
def _triples(count: int) -> tuple[Rows, Rows, Rows]:
    found = np.array(list(combinations(range(count), 3)), dtype=np.intp).reshape(-1, 3)
    return found[:, 0], found[:, 1], found[:, 2]
