"""Contact between two vehicles: equal and opposite impulses between the boxes of their hulls."""

from __future__ import annotations

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
        return self.velocity + np.cross(self.spin, point - self.place)

    def yielding(self, point: Floats, direction: Floats) -> float:
        """Change of velocity along a direction per impulse along it [1/kg]."""
        across = self.turn.T @ np.cross(point - self.place, direction)
        return 1.0 / self.mass + float((across**2 / self.inertia).sum())

    def push(self, point: Floats, impulse: Floats) -> None:
        """Apply an impulse (3,) [N s] at a point."""
        self.velocity = self.velocity + impulse / self.mass
        moment = self.turn.T @ np.cross(point - self.place, impulse)
        self.spin = self.spin + self.turn @ (moment / self.inertia)


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
    for _ in range(_ITERATIONS):
        slide = a.speed_at(point) - b.speed_at(point)
        closing = float(normal @ slide)
        push = max((wanted - closing) / (a.yielding(point, normal) + b.yielding(point, normal)), 0.0)
        a.push(point, push * normal)
        b.push(point, -push * normal)
        total += push
        slide = a.speed_at(point) - b.speed_at(point)
        slide = slide - normal * float(normal @ slide)
        fast = float(np.linalg.norm(slide))
        if fast > 1e-9 and push > 0.0:
            tangent = slide / fast
            drag = min(fast / (a.yielding(point, tangent) + b.yielding(point, tangent)), friction * push)
            a.push(point, -drag * tangent)
            b.push(point, drag * tangent)
    return total, point, normal
