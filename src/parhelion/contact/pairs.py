"""Contact between moving boxes, vehicles and actors: equal and opposite impulses, for many pairs at once."""

from __future__ import annotations

from dataclasses import dataclass, fields

import numpy as np
from numpy.typing import NDArray

from parhelion.contact import kernel
from parhelion.contact.boxes import CORNERS, FACES
from parhelion.core.pose import Floats

_SPREAD_M = 0.005
_ITERATIONS = 3
_EDGE_HANDICAP_M = 1e-3
Rows = NDArray[np.int64]

FASTEST_M_S, FASTEST_RAD_S = 150.0, 100.0
"""Largest speed [m/s] and rate of turn [rad/s] of a body."""
_SLOW = 50.0
"""Component of a speed or rate of turn below which both are within their limits."""


@dataclass
class Hulls:
    """Moving boxes with mass; velocities and positions in the world, inertia and boxes in their own frames."""

    mass: Floats
    """Masses (n,) [kg]."""
    inertia: Floats
    """Moments of inertia (n, 3) [kg m^2]; infinite for a body that does not turn."""
    half: Floats
    centre: Floats
    friction: Floats
    restitution: Floats
    place: Floats
    """Centres of mass (n, 3) [m]."""
    turn: Floats
    """Rotation matrices (n, 3, 3), body to world."""
    velocity: Floats
    spin: Floats
    """Angular velocities (n, 3) [rad/s] in the world."""
    body: Rows
    """Numbers (n,) of the bodies; hulls of one body change their velocities together."""

    def __getitem__(self, rows: Rows | NDArray[np.bool_] | slice) -> Hulls:
        return Hulls(*(getattr(self, one.name)[rows] for one in fields(self)))

    def joined(self, other: Hulls) -> Hulls:
        """These hulls, then the others."""
        return Hulls(*(np.concatenate([getattr(self, one.name), getattr(other, one.name)]) for one in fields(self)))

    @property
    def middle(self) -> Floats:
        """Centres of the boxes (n, 3) in the world."""
        return self.place + _times(self.turn, self.centre)

    @property
    def reach(self) -> Floats:
        """Largest distances (n,) [m] of points of the boxes from the centres of mass."""
        return _length(self.half) + _length(self.centre)

    def triangles(self) -> Floats:
        """Triangles (n, 12, 3, 3) [m] of the boxes in the world."""
        corners = (CORNERS * self.half[:, None] + self.centre[:, None]) @ self.turn.swapaxes(1, 2)
        return (corners + self.place[:, None])[:, FACES]

    @property
    def fastest(self) -> Floats:
        """Largest speeds (n,) [m/s] of points of the boxes."""
        return _length(self.velocity) + _length(self.spin) * self.reach

    def speed_at(self, points: Floats) -> Floats:
        """Velocities (n, 3) [m/s] at points (n, 3) in the world."""
        return self.velocity + _cross(self.spin, points - self.place)

    def yielding(self, points: Floats) -> Floats:
        """Changes of velocity at points per impulse at them, matrices (n, 3, 3) [1/kg]."""
        arm = _cross_matrices(points - self.place)
        inverse = (self.turn / self.inertia[:, None, :]) @ self.turn.swapaxes(1, 2)
        return np.eye(3) / self.mass[:, None, None] - arm @ inverse @ arm

    def pushed(self, points: Floats, impulses: Floats) -> tuple[Floats, Floats]:
        """Velocities and angular velocities after impulses (n, 3) [N s] at points."""
        moment = _times(self.turn.swapaxes(1, 2), _cross(points - self.place, impulses)) / self.inertia
        return self.velocity + impulses / self.mass[:, None], self.spin + _times(self.turn, moment)


def _length(v: Floats) -> Floats:
    return np.sqrt((v * v).sum(axis=-1))


def _times(matrices: Floats, v: Floats) -> Floats:
    return (matrices @ v[:, :, None])[:, :, 0]


def _dot(a: Floats, b: Floats) -> Floats:
    return (a * b).sum(axis=-1)


def _cross(a: Floats, b: Floats) -> Floats:
    """Cross products along the last axis; `np.cross` takes several times longer for few rows."""
    return a[..., (1, 2, 0)] * b[..., (2, 0, 1)] - a[..., (2, 0, 1)] * b[..., (1, 2, 0)]


def _cross_matrices(v: Floats) -> Floats:
    """Matrices (n, 3, 3) whose products with a vector are the cross products of `v` with it."""
    result = np.zeros((len(v), 3, 3))
    result[:, (2, 0, 1), (1, 2, 0)] = v
    result[:, (1, 2, 0), (2, 0, 1)] = -v
    return result


def separation(a: Hulls, b: Hulls) -> tuple[Floats, Floats]:
    """Normals (n, 3) from `b` to `a` and gaps (n,) [m] of pairs of boxes by separating axes; negative: overlap."""
    one, other = a.turn.swapaxes(1, 2), b.turn.swapaxes(1, 2)  # rows are the axes of the boxes
    edges = _cross(one[:, :, None], other[:, None]).reshape(-1, 9, 3)
    size = _length(edges)
    axes = np.concatenate([one, other, edges / np.maximum(size, 1e-6)[..., None]], axis=1)
    reach = (np.abs(axes @ a.turn) * a.half[:, None]).sum(axis=2) + (np.abs(axes @ b.turn) * b.half[:, None]).sum(
        axis=2
    )
    shadow = _times(axes, a.middle - b.middle)
    gaps = np.abs(shadow) - reach
    gaps[:, 6:] = np.where(size > 1e-6, gaps[:, 6:] - _EDGE_HANDICAP_M, -np.inf)  # edges must be clearly better
    rows, best = np.arange(len(gaps)), gaps.argmax(axis=1)
    sign = np.where(shadow[rows, best] >= 0.0, 1.0, -1.0)
    return axes[rows, best] * sign[:, None], gaps[rows, best] + np.where(best >= 6, _EDGE_HANDICAP_M, 0.0)


def contact_points(a: Hulls, b: Hulls, normal: Floats) -> Floats:
    """Points (n, 3) between boxes that touch along normals: means of the nearest corners, limited to the other box."""
    total, count = np.zeros((len(normal), 3)), np.zeros((len(normal), 1))
    for one, other, toward in ((a, b, -normal), (b, a, normal)):
        corners = (CORNERS * one.half[:, None]) @ one.turn.swapaxes(1, 2) + one.middle[:, None]
        height = _times(corners, toward)
        nearest = (height > height.max(axis=1, keepdims=True) - _SPREAD_M)[..., None]
        local = (corners - other.middle[:, None]) @ other.turn
        inside = np.minimum(np.maximum(local, -other.half[:, None]), other.half[:, None])
        total += ((inside @ other.turn.swapaxes(1, 2) + other.middle[:, None]) * nearest).sum(axis=1)
        count += nearest.sum(axis=1)
    return total / count


def rounds(first: Rows, second: Rows) -> list[Rows]:
    """Divide pairs of bodies into rounds in which none occurs twice; the order of the pairs decides."""
    taken: list[set[int]] = []
    found: list[list[int]] = []
    for k, pair in enumerate(zip(first.tolist(), second.tolist(), strict=True)):
        n = next((n for n, used in enumerate(taken) if not used.intersection(pair)), len(taken))
        if n == len(taken):
            taken.append(set())
            found.append([])
        taken[n].update(pair)
        found[n].append(k)
    return [np.array(rows) for rows in found]


def collide(hulls: Hulls, first: Rows, second: Rows, dt: float) -> tuple[Rows, Floats, Floats, Floats]:
    """Change the velocities of pairs of hulls that would touch within `dt` [s].

    Returns the pairs that touch, the sums of their normal impulses [N s], points, and normals from the second to the
    first. Momentum and angular momentum are conserved.
    """
    found: list[tuple[Rows, Floats, Floats, Floats]] = []
    for rows in rounds(hulls.body[first], hulls.body[second]):
        a, b = hulls[first[rows]], hulls[second[rows]]
        normal, gap = separation(a, b)
        near = gap <= (a.fastest + b.fastest) * dt + kernel.SLOP_M
        if not near.any():
            continue
        rows, a, b, normal, gap = rows[near], a[near], b[near], normal[near], gap[near]
        total, point, impulse = _impulses(a, b, normal, gap, dt)
        change = np.zeros((int(hulls.body.max()) + 1, 3))
        for side, one, push in ((first, a, impulse), (second, b, -impulse)):
            velocity, hulls.spin[side[rows]] = one.pushed(point, push)
            change[one.body] = velocity - one.velocity
        hulls.velocity += change[hulls.body]
        touch = total > 0.0
        found.append((rows[touch], total[touch], point[touch], normal[touch]))
    if not found:
        return np.zeros(0, np.int64), np.zeros(0), np.zeros((0, 3)), np.zeros((0, 3))
    pairs, totals, points, normals = (np.concatenate(one) for one in zip(*found, strict=True))
    return pairs, totals, points, normals


def _impulses(a: Hulls, b: Hulls, normal: Floats, gap: Floats, dt: float) -> tuple[Floats, Floats, Floats]:
    """Sums of the normal impulses (n,), points (n, 3), and impulses (n, 3) [N s] on `a` of pairs that may touch."""
    point = contact_points(a, b, normal)
    friction = 0.5 * (a.friction + b.friction)
    slide = a.speed_at(point) - b.speed_at(point)
    closing = _dot(normal, slide)
    recovery = np.minimum(np.maximum(-gap - kernel.SLOP_M, 0.0) * 0.2 / dt, kernel.FASTEST_RECOVERY_M_S)
    wanted = np.where(gap > 0.0, -gap / dt, recovery)
    bounce = -0.5 * (a.restitution + b.restitution) * closing
    wanted = np.where(closing < -0.5, np.maximum(wanted, bounce), wanted)
    yielding = a.yielding(point) + b.yielding(point)
    along_normal = _times(yielding, normal)
    total, impulse = np.zeros(len(gap)), np.zeros((len(gap), 3))
    for _ in range(_ITERATIONS):
        push = np.maximum((wanted - _dot(normal, slide)) / _dot(normal, along_normal), 0.0)
        total = total + push
        impulse = impulse + push[:, None] * normal
        slide = slide + push[:, None] * along_normal
        across = slide - normal * _dot(normal, slide)[:, None]
        fast = _length(across)
        tangent = across / np.maximum(fast, 1e-9)[:, None]
        along_tangent = _times(yielding, tangent)
        drag = np.minimum(fast / np.maximum(_dot(tangent, along_tangent), 1e-12), friction * push)[:, None]
        impulse = impulse - drag * tangent
        slide = slide - drag * along_tangent
    return total, point, impulse


def limit_speeds(state: Floats) -> bool:
    """Limit velocities and turns of states (13 or more, n) in place; True if any was changed.

    A body that is squeezed between others gains speed without end. No vehicle of the sheets comes near the limits.
    """
    if np.abs(state[7:13]).max(initial=0.0) < _SLOW:
        return False
    if np.abs(state[7:13]).max(initial=0.0) < _SLOW:
        return False
    changed = False
    for rows, most in ((slice(7, 10), FASTEST_M_S), (slice(10, 13), FASTEST_RAD_S)):
        speed = np.sqrt((state[rows] ** 2).sum(axis=0))
        if (speed > most).any():
            state[rows] *= most / np.maximum(speed, most)
            changed = True
    return changed
