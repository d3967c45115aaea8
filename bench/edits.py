"""Edits: cost of the first scan after an object of the city was added, moved or removed."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from tables import Goal, Table
from timing import ratio, take_turns
from workloads import VLP, Settings

import parhelion as ph
from parhelion.rays.scene import StandingPart

_GOAL = Goal("at most", 60.0, " ms")


def tables(settings: Settings) -> Iterator[Table]:
    """One row per kind of edit."""
    table = Table(
        "edits",
        "Edits: VLP-16 in the city, first scan after an edit",
        ["edit", "ms per edit and scan", "ms more than a scan", "goal", "time against a scan", "triangles built"],
        notes=[
            "Goal: time more than that of a scan without an edit. Removing an object that was in the world when it was "
            "first scanned builds the rest again, once; adding it elsewhere is then an edit of the second kind."
        ],
    )
    edits = _Edits()
    runs: dict[str, Callable[[], Any]] = {
        "none": edits.scan,
        "add and remove": edits.add_and_remove,
        "move": edits.move,
        "remove from the start": edits.base,
    }
    for run in runs.values():
        run()
        run()
    times = take_turns(runs, rounds=settings.rounds(10), most_seconds=settings.most_seconds)
    for name, run in runs.items():
        before = StandingPart.built
        run()
        more = 1e3 * (times[name].best - times["none"].best)
        table.add(
            {
                "edit": name,
                "ms per edit and scan": 1e3 * times[name].best,
                "ms more than a scan": more,
                "goal": None if name == "none" else _GOAL.verdict(more),
                "time against a scan": ratio(times[name], times["none"]),
                "triangles built": StandingPart.built - before,
            }
        )
    yield table


class _Edits:
    """A city that is edited between scans."""

    def __init__(self) -> None:
        self.world, self.lidar = ph.World.load("city"), ph.Lidar(VLP)
        self.pose = self.world.viewpoint
        self.scan()
        self.first = iter([item for item in self.world.objects if item.triangle_count == 12])
        self.box = self._add(5.0)
        self.place = 0

    def _add(self, x: float) -> Any:
        place = ph.Pose(self.pose.xyz + np.array([x, 1.0, -1.0]))
        return self.world.add(ph.shapes.box(1, 1, 1), material="wood", label="box", pose=place)

    def scan(self) -> Any:
        """Scan without an edit."""
        return self.lidar.scan(self.world, pose=self.pose, seed=1)

    def add_and_remove(self) -> Any:
        """Add an object, and scan; remove it for the next time."""
        item = self._add(8.0)
        found = self.scan()
        self.world.remove(item)
        return found

    def move(self) -> Any:
        """Move an object by removing and adding it."""
        self.place = (self.place + 1) % 10
        self.world.remove(self.box)
        self.box = self._add(5.0 + 0.1 * self.place)
        return self.scan()

    def base(self) -> Any:
        """Remove an object that was there from the start."""
        self.world.remove(next(self.first))
        return self.scan()
