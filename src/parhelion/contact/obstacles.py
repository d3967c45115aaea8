"""Moving actors of a world as obstacles for hulls: boxes of infinite mass that follow their trajectories."""

from __future__ import annotations

from collections.abc import Collection

import numpy as np
from numpy.typing import NDArray

from parhelion.contact import kernel
from parhelion.contact.boxes import CORNERS, FACES, rotation
from parhelion.core.pose import Floats
from parhelion.world.world import World

_FASTEST_M_S = 60.0
"""Speed [m/s] at which an actor and a vehicle approach each other at most. An actor is located again when it could be
near, because to sample the motions of all of them costs more than the vehicles."""


class Obstacles:
    """Boxes around the moving objects of a world.

    Args:
        world: World with actors.
        own: Names of the vehicles; actors with these names, or with one of them before a slash, show the vehicles.
        origin: Origin (3,) [m] of the coordinates that are returned.
        soft: Labels of actors that stop nothing.
    """

    def __init__(self, world: World, own: Collection[str], origin: Floats, soft: Collection[str]) -> None:
        items = [
            one for one in world.objects
            if one.trajectory is not None and one.label not in soft and one.name.split("/")[0] not in own
        ]  # fmt: skip
        self.names = [one.name for one in items]
        self._motions = [one.trajectory for one in items]
        spans = []
        for one in items:
            vertices = np.concatenate([part.placed for part in one.parts])
            spans.append((vertices.min(axis=0), vertices.max(axis=0)))
        low, high = (np.array([span[k] for span in spans]).reshape(-1, 3) for k in range(2))
        self._middle, self._half, self._origin = (low + high) / 2.0, (high - low) / 2.0, origin
        self._radius = np.linalg.norm(self._half, axis=1) + np.linalg.norm(self._middle, axis=1)
        self._seen = np.inf
        self._due: Floats = np.zeros(len(items))
        # Parts of one body are located together, because they share the work.
        self._group = np.unique([one.instance for one in items], return_inverse=True)[1]

    def forget(self) -> None:
        """Locate all actors again in the next step."""
        self._seen = np.inf

    def near(
        self, place: Floats, reach: Floats, time: float, dt: float
    ) -> list[tuple[Floats, NDArray[np.int64]]] | None:
        """Triangles near each place (n, 3) at `time`, moving over `dt` [s], and their actors; None if there are none.

        Triangles have the columns of the kernel.
        """
        if not self.names:
            return None
        if time < self._seen:
            self._due[:] = time
        self._seen = time
        made = {}
        for n in np.flatnonzero(self._due < time + dt).tolist():
            xyz, quat = self._motions[n].sample([time, time + dt])
            at = xyz[0] - self._origin
            gaps = np.linalg.norm(place - at, axis=1) - reach - self._radius[n] - np.linalg.norm(xyz[1] - xyz[0])
            near = gaps < 0.0
            if near.any():
                made[n] = (near, self._moving(n, at, xyz[1] - self._origin, rotation(quat), dt))
            self._due[n] = time + float(gaps.min()) / _FASTEST_M_S
        first = np.full(len(self._due), np.inf)
        np.minimum.at(first, self._group, self._due)
        self._due = first[self._group]
        if not made:
            return None
        found = []
        for k in range(len(place)):
            mine = [(n, rows) for n, (near, rows) in made.items() if near[k]]
            rows = np.concatenate([one for _, one in mine]) if mine else np.zeros((0, kernel.TRIANGLE))
            found.append((rows, np.repeat([n for n, _ in mine], len(FACES)).astype(np.int64)))
        return found

    def _moving(self, n: int, before: Floats, after: Floats, turns: Floats, dt: float) -> Floats:
        """Triangles (12, columns) of a box between two poses; each moves at the mean velocity of its corners."""
        local = (CORNERS * self._half[n] + self._middle[n])[FACES].reshape(-1, 3)
        first, last = local @ turns[0].T + before, local @ turns[1].T + after
        velocity = ((last - first) / dt).reshape(-1, 3, 3).mean(axis=1)
        return np.concatenate([first.reshape(-1, 9), velocity], axis=1)
