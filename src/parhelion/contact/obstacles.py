"""Moving actors of a world as obstacles for hulls: boxes with mass that follow their trajectories.

A vehicle that hits an actor feels its mass: both exchange the impulse of their reduced mass. The actor gains a recoil,
which its feet or wheels take away; it does not leave its trajectory, so a heavy vehicle may overlap a light actor.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from parhelion.contact.boxes import rotation
from parhelion.contact.pairs import Hulls
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.pose import Floats, quat_conjugate, quat_multiply
from parhelion.core.trajectory import Trajectory
from parhelion.world.world import World

MASSES_KG = {
    "person": 75.0, "moving-person": 75.0, "pedestrian": 75.0, "bicycle": 90.0, "cyclist": 90.0, "motorcycle": 300.0,
    "car": 1500.0, "truck": 12000.0, "trailer": 8000.0, "bus": 12000.0, "tram": 40000.0, "train": 40000.0,
    "forklift": 4000.0, "agv": 300.0,
}  # fmt: skip
"""Masses by label, with riders and without load; assumed: an adult, and typical vehicles of each class."""
DENSITY_KG_M3 = 200.0
"""Mass of other actors per volume of their box; assumed: a car has 130, machines have several hundred."""
TRACTION = 0.7
"""Friction by which an actor that was pushed returns to its own motion; assumed: soles and tyres on a dry road."""
FRICTION, RESTITUTION = 0.4, 0.1
"""Friction and restitution of actors; assumed, as for hulls of vehicles."""
_FASTEST_M_S = 60.0
"""Speed [m/s] at which an actor and a vehicle approach each other at most. An actor is located again when it could be
near, because to sample the motions of all of them costs more than the vehicles."""


class Obstacles:
    """Boxes around the moving objects of a world.

    Args:
        world: World with actors.
        own: Names of the vehicles; actors with these names, or with one of them before a slash, show the vehicles.
        soft: Labels of actors that stop nothing.
    """

    def __init__(self, world: World, own: Collection[str], soft: Collection[str]) -> None:
        items = [
            one
            for one in world.objects
            if one.trajectory is not None and one.label not in soft and one.name.split("/")[0] not in own
        ]
        self.names = [one.name for one in items]
        self._motions: list[Trajectory] = [one.trajectory for one in items if one.trajectory is not None]
        spans = []
        for one in items:
            vertices = np.concatenate([part.placed for part in one.parts])
            spans.append((vertices.min(axis=0), vertices.max(axis=0)))
        low, high = (np.array([span[k] for span in spans]).reshape(-1, 3) for k in range(2))
        self._middle, self._half = (low + high) / 2.0, (high - low) / 2.0
        self._radius = np.linalg.norm(self._half, axis=1) + np.linalg.norm(self._middle, axis=1)
        self._seen = np.inf
        self._due: Floats = np.zeros(len(items))
        # Parts of one body are located together, because they share the work; they share their recoil, too.
        bodies, self._group = np.unique([one.instance for one in items], return_inverse=True)
        volumes = np.zeros(len(bodies))
        np.add.at(volumes, self._group, 8.0 * self._half.prod(axis=1))
        known = np.array([MASSES_KG.get(one.label, np.nan) for one in items])
        self._mass: Floats = np.where(np.isnan(known), np.maximum(volumes[self._group] * DENSITY_KG_M3, 1.0), known)
        self._recoil = np.zeros((len(bodies), 3))

    def forget(self) -> None:
        """Locate all actors again in the next step, without recoil."""
        self._seen = np.inf
        self._recoil[:] = 0.0

    @property
    def recoils(self) -> dict[str, list[float]]:
        """Velocities [m/s] relative to the trajectories, by the number of the body, of those that were pushed."""
        return {str(n): self._recoil[n].tolist() for n in np.flatnonzero(self._recoil.any(axis=1)).tolist()}

    @recoils.setter
    def recoils(self, values: dict[str, list[float]]) -> None:
        self._recoil[:] = 0.0
        for number, value in values.items():
            self._recoil[int(number)] = value

    def near(self, place: Floats, reach: Floats, time: float, dt: float) -> tuple[NDArray[np.int64], Hulls] | None:
        """Actors near any of the places (n, 3) within `dt` [s] after `time`, and their hulls; None without any."""
        if not self.names:
            return None
        if time < self._seen:
            self._due[:] = time
        self._seen = time
        made = []
        for n in np.flatnonzero(self._due < time + dt).tolist():
            xyz, quat = self._motions[n].sample([time, time + dt])
            gaps = np.linalg.norm(place - xyz[0], axis=1) - reach - self._radius[n] - np.linalg.norm(xyz[1] - xyz[0])
            if (gaps < 0.0).any():
                made.append((n, xyz, quat))
            self._due[n] = time + float(gaps.min()) / _FASTEST_M_S
        first = np.full(len(self._due), np.inf)
        np.minimum.at(first, self._group, self._due)
        self._due = first[self._group]
        if not made:
            return None
        rows = np.array([n for n, _, _ in made])
        xyz, quat = (np.array([one[k] for one in made]) for k in (1, 2))
        turn = rotation(quat[:, 0])
        change = quat_multiply(quat[:, 1], quat_conjugate(quat[:, 0]))
        spin = 2.0 * change[:, :3] * np.sign(change[:, 3:]) / dt  # small angles
        velocity = (xyz[:, 1] - xyz[:, 0]) / dt + self._recoil[self._group[rows]]
        count = len(rows)
        return rows, Hulls(
            self._mass[rows],
            np.full((count, 3), np.inf),
            self._half[rows],
            self._middle[rows],
            np.full(count, FRICTION),
            np.full(count, RESTITUTION),
            xyz[:, 0],
            turn,
            velocity,
            spin,
            self._group[rows],
        )

    def push(self, bodies: NDArray[np.int64], changes: Floats) -> None:
        """Add changes (n, 3) [m/s] to the recoils of bodies."""
        for body, change in dict(zip(bodies.tolist(), changes, strict=True)).items():
            self._recoil[body] += change

    def recoil_of(self, bodies: NDArray[np.int64]) -> Floats:
        """Recoils (n, 3) [m/s] of bodies."""
        return self._recoil[bodies]

    def settle(self, dt: float) -> None:
        """Reduce recoils by traction over `dt` [s]."""
        if self._recoil.any():
            size = np.sqrt((self._recoil**2).sum(axis=1, keepdims=True))
            left = np.maximum(size - TRACTION * STANDARD_GRAVITY_M_S2 * dt, 0.0)
            self._recoil *= left / np.maximum(size, 1e-12)
