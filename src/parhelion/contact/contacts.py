"""Contacts of the hulls of all vehicles within a step."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats


@dataclass
class Contacts:
    """Strongest contact of each hull, and the sum of all, over the launches of a step."""

    count: int

    any: bool = False
    """True if there was a contact; the arrays exist only then."""

    def _begin(self) -> None:
        if not self.any:
            self.any = True
            self.impulse, self.total = np.zeros(self.count), np.zeros(self.count)
            self.where = np.zeros((6, self.count))
            self.row, self.actor, self.vehicle = (np.full(self.count, -1) for _ in range(3))

    def add(self, report: Floats, rows: NDArray[np.int64]) -> None:
        """Add the report of a launch; `rows` belong to its triangles."""
        if not report[8].any():
            return
        self._begin()
        self.total = self.total + report[8]
        for k in np.flatnonzero(report[0] > self.impulse).tolist():
            number = int(report[1, k])
            self.impulse[k], self.where[:, k] = report[0, k], report[2:8, k]
            self.row[k], self.actor[k], self.vehicle[k] = rows[number], -1, -1

    def add_pair(self, first: int, second: int, actor: int, impulse: float, point: Floats, normal: Floats) -> None:
        """Add an impulse between two vehicles, or of a vehicle and an actor; the normal points to the first."""
        self._begin()
        for k, other, sign in ((first, second, 1.0), (second, first, -1.0)):
            if k < 0:
                continue
            self.total[k] += impulse
            if impulse > self.impulse[k]:
                self.impulse[k], self.vehicle[k], self.actor[k] = impulse, other, actor
                self.where[:, k] = np.concatenate([point, sign * normal])
