"""Contact between two vehicles: equal and opposite impulses between the boxes of their hulls."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from parhelion.contact import kernel
from parhelion.contact.boxes import CORNERS
from parhelion.core.pose import Floats

_SPREAD_M = 0.005
_ITERATIONS = 3
_EDGE_HANDICAP_M = 1e-3


@dataclass
class Hull:
    """A moving box with mass; velocities and position in the world, inertia and box in its own frame."""

    mass: float
    inertia: Floats
    half: Floats
    centre: Floats
    friction: float
    restitution: float
    place: Floats
    """Centre of mass (3,) [m]."""
    turn: Floats
    """Rotation matrix (3, 3), body to world."""
    velocity: Floats
    spin: Floats
    """Angular velocity (3,) [rad/s] in the world."""

    @property
    def middle(self) -> Floats:
        """Centre of the box in the world."""
        return self.place + self.turn @ self.centre

    def speed_at(self, point: Floats) -> Floats:
        """Velocity (3,) [m/s] of the body at a point in the world."""
        return self.velocity + _cross_matrix(self.spin) @ (point - self.place)

    def yielding(self, point: Floats) -> Floats:
        """Change of velocity at a point per impulse at it, a matrix (3, 3) [1/kg]."""
        arm = _cross_matrix(point - self.place)
        inverse = (self.turn / self.inertia) @ self.turn.T
        return np.eye(3) / self.mass - arm @ inverse @ arm

    def push(self, point: Floats, impulse: Floats) -> None:
        """Apply an impulse (3,) [N s] at a point."""
        self.velocity = self.velocity + impulse / self.mass
        moment = self.turn.T @ (_cross_matrix(point - self.place) @ impulse)
        self.spin = self.spin + self.turn @ (moment / self.inertia)


def _cross_matrix(v: Floats) -> Floats:
    """Matrix (3, 3) whose product with a vector is the cross product of `v` with it."""
    x, y, z = v.tolist()
    return np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])


def separation(a: Hull, b: Hull) -> tuple[Floats, float]:
    """Normal from `b` to `a` and gap [m] of two boxes, negative for an overlap, by separating axes."""
    apart = a.middle - b.middle
    faces = np.concatenate([a.turn.T, b.turn.T])
    edges = np.cross(a.turn.T[:, None], b.turn.T[None]).reshape(-1, 3)
    size = np.linalg.norm(edges, axis=1)
    edges = edges[size > 1e-6] / size[size > 1e-6, None]
    axes = np.concatenate([faces, edges])
    reach = np.abs(axes @ a.turn) @ a.half + np.abs(axes @ b.turn) @ b.half
    shadow = axes @ apart
    gaps = np.abs(shadow) - reach
    gaps[6:] -= _EDGE_HANDICAP_M  # edges must be clearly better than faces
    best = int(np.argmax(gaps))
    gap = float(gaps[best]) + (_EDGE_HANDICAP_M if best >= 6 else 0.0)
    return axes[best] * (1.0 if shadow[best] >= 0.0 else -1.0), gap


def gaps(middle: tuple[Floats, Floats], turn: tuple[Floats, Floats], half: tuple[Floats, Floats]) -> Floats:
    """Gaps [m] of pairs of boxes (p,), as `separation`, for centres (p, 3), rotations (p, 3, 3), half sides (p, 3)."""
    a, b = (np.swapaxes(one, 1, 2) for one in turn)  # rows are the axes of the boxes
    edges = np.cross(a[:, :, None], b[:, None]).reshape(-1, 9, 3)
    size = np.linalg.norm(edges, axis=2, keepdims=True)
    axes = np.concatenate([a, b, np.where(size > 1e-6, edges / np.maximum(size, 1e-6), a[:, :1])], axis=1)
    reach = sum((np.abs(axes @ one) * sides[:, None]).sum(axis=2) for one, sides in zip(turn, half, strict=True))
    return (np.abs((axes @ (middle[0] - middle[1])[:, :, None])[:, :, 0]) - reach).max(axis=1)


def contact_point(a: Hull, b: Hull, normal: Floats) -> Floats:
    """Point between two boxes that touch along a normal: the mean of the nearest corners, limited to the other box."""
    points = []
    for one, other, toward in ((a, b, -normal), (b, a, normal)):
        corners = (CORNERS * one.half) @ one.turn.T + one.middle
        height = corners @ toward
        nearest = corners[height > height.max() - _SPREAD_M]
        local = (nearest - other.middle) @ other.turn
        points.append(np.clip(local, -other.half, other.half) @ other.turn.T + other.middle)
    return np.concatenate(points).mean(axis=0)


def collide(a: Hull, b: Hull, dt: float) -> tuple[float, Floats, Floats]:
    """Change the velocities of two hulls that would touch within `dt` [s].

    Returns the sum of the normal impulses [N s], the point, and the normal from `b` to `a`. Momentum and angular
    momentum are conserved.
    """
    normal, gap = separation(a, b)
    total, point = 0.0, 0.5 * (a.middle + b.middle)
    fastest = np.linalg.norm(a.velocity - b.velocity) + sum(
        np.linalg.norm(one.spin) * (np.linalg.norm(one.half) + np.linalg.norm(one.centre)) for one in (a, b)
    )
    if gap > fastest * dt + kernel.SLOP_M:
        return total, point, normal
    point = contact_point(a, b, normal)
    friction = 0.5 * (a.friction + b.friction)
    closing = float(normal @ (a.speed_at(point) - b.speed_at(point)))
    recovery = min(max(-gap - kernel.SLOP_M, 0.0) * 0.2 / dt, kernel.FASTEST_RECOVERY_M_S)
    wanted = -gap / dt if gap > 0.0 else recovery
    if closing < -0.5:
        wanted = max(wanted, -0.5 * (a.restitution + b.restitution) * closing)
    slide = a.speed_at(point) - b.speed_at(point)
    yielding = a.yielding(point) + b.yielding(point)
    impulse = np.zeros(3)
    for _ in range(_ITERATIONS):
        push = max((wanted - float(normal @ slide)) / float(normal @ yielding @ normal), 0.0)
        total += push
        impulse = impulse + push * normal
        slide = slide + yielding @ (push * normal)
        along = slide - normal * float(normal @ slide)
        fast = math.sqrt(float(along @ along))
        if fast > 1e-9 and push > 0.0:
            tangent = along / fast
            drag = min(fast / float(tangent @ yielding @ tangent), friction * push)
            impulse = impulse - drag * tangent
            slide = slide - yielding @ (drag * tangent)
    if total > 0.0:
        a.push(point, impulse)
        b.push(point, -impulse)
    return total, point, normal
