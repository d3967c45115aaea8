"""Collisions of a run: every contact of a step as a line of truth/collisions.jsonl, and contacts that last as one."""

from __future__ import annotations

import json
import shutil
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TYPE_CHECKING

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


class Hits:
    """Collisions of a run, collected step by step."""

    def __init__(self) -> None:
        self.hits: list[Hit] = []
        """Collisions in order of their start."""
        self._last: dict[tuple[str, str], Hit] = {}

    def take(self, step: Step) -> None:
        """Add the contacts of a step."""
        for one in step.collisions:
            last = self._last.get((one.body, one.other))
            if last is None or step.time - last.end_s > PAUSE_S:
                last = self._last[one.body, one.other] = Hit(one.body, one.other, step.time, step.time, 0.0)
                self.hits.append(last)
            last.end_s = step.time
            last.impulse_n_s += one.impulse_n_s


class CollisionLog(Hits):
    """Collisions of a run with all contacts, which go to a temporary file: a vehicle at a wall has one per step."""

    def __init__(self) -> None:
        super().__init__()
        self._lines: IO[str] | None = None

    def take(self, step: Step) -> None:
        """Add the contacts of a step."""
        super().take(step)
        for one in step.collisions:
            line = {
                "time_s": step.time,
                "body": one.body,
                "other": one.other,
                "xyz": list(one.xyz),
                "normal": list(one.normal),
                "impulse_n_s": one.impulse_n_s,
            }
            if self._lines is None:
                self._lines = tempfile.TemporaryFile("w+", encoding="utf-8", prefix="parhelion-")  # noqa: SIM115
            self._lines.write(json.dumps(line) + "\n")

    def write(self, scenario: Scenario, folder: Path) -> list[Path]:
        """Write truth/collisions.jsonl, without lines if nothing was hit; no file if no vehicle can touch anything."""
        if not scenario.has_contact:
            return []
        file = folder / "truth" / NAME
        file.parent.mkdir(exist_ok=True)
        with atomic_write(file) as temporary, temporary.open("w", encoding="utf-8") as written:
            if self._lines is not None:
                self._lines.seek(0)
                shutil.copyfileobj(self._lines, written)
        return [file]


def listed(hits: list[Hit], most: int = 5) -> str:
    """Short list of collisions with their times, for example '1: robot hit wall at 3.21 s'."""
    words = [f"{hit.body} hit {hit.other} at {hit.start_s:.2f} s" for hit in hits[:most]]
    more = f" and {len(hits) - most} more" if len(hits) > most else ""
    return f"{len(hits)}: {', '.join(words)}{more}" if hits else "none"
