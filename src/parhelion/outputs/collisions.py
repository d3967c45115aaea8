"""Collisions of a run: every contact of a step as a line of truth/collisions.jsonl, and contacts that last as one."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parhelion.core.files import atomic_write

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario, Step

NAME = "collisions.jsonl"
PAUSE_S = 0.2
"""Contacts of the same bodies with a shorter pause [s] between them are one collision."""


@dataclass
class Hit:
    """A collision from its first to its last contact."""

    body: str
    """Name of the vehicle."""
    other: str
    """Name or label of what it touched."""
    start_s: float
    end_s: float
    impulse_n_s: float
    """Sum of the normal impulses [N s]."""


class CollisionLog:
    """Collects the collisions of a run, step by step."""

    def __init__(self) -> None:
        self.lines: list[dict[str, Any]] = []
        """Contacts: time [s], body, other, position [m], normal and impulse [N s] of each."""
        self.hits: list[Hit] = []
        """Collisions in order of their start."""
        self._last: dict[tuple[str, str], Hit] = {}

    def take(self, step: Step) -> None:
        """Add the contacts of a step."""
        for one in step.collisions:
            self.lines.append(
                {
                    "time_s": step.time,
                    "body": one.body,
                    "other": one.other,
                    "xyz": list(one.xyz),
                    "normal": list(one.normal),
                    "impulse_n_s": one.impulse_n_s,
                }
            )
            last = self._last.get((one.body, one.other))
            if last is None or step.time - last.end_s > PAUSE_S:
                last = self._last[one.body, one.other] = Hit(one.body, one.other, step.time, step.time, 0.0)
                self.hits.append(last)
            last.end_s = step.time
            last.impulse_n_s += one.impulse_n_s

    def write(self, scenario: Scenario, folder: Path) -> list[Path]:
        """Write truth/collisions.jsonl, without lines if nothing was hit; no file if no vehicle can touch anything."""
        if not scenario.has_contact:
            return []
        file = folder / "truth" / NAME
        file.parent.mkdir(exist_ok=True)
        with atomic_write(file) as temporary:
            temporary.write_text("".join(json.dumps(line) + "\n" for line in self.lines), encoding="utf-8")
        return [file]


def listed(hits: list[Hit], most: int = 5) -> str:
    """Short list of collisions with their times, for example '1: robot hit wall at 3.21 s'."""
    words = [f"{hit.body} hit {hit.other} at {hit.start_s:.2f} s" for hit in hits[:most]]
    more = f" and {len(hits) - most} more" if len(hits) > most else ""
    return f"{len(hits)}: {', '.join(words)}{more}" if hits else "none"
