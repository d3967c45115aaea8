"""A capture to look at: its turns one after the other, on the recording's own clock."""

from __future__ import annotations

import time as clock
from bisect import bisect_right
from collections import OrderedDict
from collections.abc import Iterator
from pathlib import Path

from parhelion.core.errors import FormatError
from parhelion.core.records import Scan
from parhelion.io import read_turns
from parhelion.live.viewer.stages import CloudStage, Measured, Request
from parhelion.world.world import World

_TURNS_KEPT = 8
_USUAL_PERIOD_S = 0.1


class TurnsStage:
    """The turns of a capture. They are read as they are asked for; going back reads the file from its beginning."""

    cameras: tuple[str, ...] = ()

    def __init__(self, path: Path, *, model: str | None = None) -> None:
        self._path, self._model = path, model
        self.world: World | None = None
        self.title = path.name
        self.places: dict[str, Request] = {}
        # One pass for the times of all turns, in which no more than one is held.
        self._starts: list[float] = []
        for turn in self._read():
            at = turn.start_time
            # A sensor's clock may be set back while it runs; the page's goes on.
            self._starts.append(at if not self._starts or at > self._starts[-1] else self._starts[-1] + _USUAL_PERIOD_S)
        if not self._starts:
            raise FormatError(f"{path}: the capture holds no turn")
        first, last = self._starts[0], self._starts[-1]
        self._period_s = (last - first) / (len(self._starts) - 1) if last > first else _USUAL_PERIOD_S
        self.duration_s = last - first
        self._kept: OrderedDict[int, Measured] = OrderedDict()
        self._ahead: Iterator[Scan] = iter(())
        self._next = len(self._starts)

    def _read(self) -> Iterator[Scan]:
        return read_turns(self._path, model=self._model)

    def _number(self, request: Request) -> int:
        now = self._starts[0] + request.time_s + 1e-6
        return max(bisect_right(self._starts, now) - 1, 0)

    def period_s(self, request: Request) -> float:
        """Time from this turn to the next [s]."""
        number = self._number(request)
        if number + 1 < len(self._starts):
            return max(self._starts[number + 1] - self._starts[number], 1e-3)
        return self._period_s

    def scan_start(self, request: Request) -> float:
        """Start [s] of the turn that is running at the request's time."""
        return self._starts[self._number(request)] - self._starts[0]

    def measure(self, request: Request) -> Measured:
        """The turn at that time, as it was recorded."""
        number = self._number(request)
        if number not in self._kept:
            self._kept[number] = self._measured(number)
            while len(self._kept) > _TURNS_KEPT:
                self._kept.popitem(last=False)
        self._kept.move_to_end(number)
        return self._kept[number]

    def _measured(self, number: int) -> Measured:
        begun = clock.perf_counter()
        if number < self._next:
            self._ahead, self._next = self._read(), 0
        turn = next(self._ahead)
        while self._next < number:
            turn = next(self._ahead)
            self._next += 1
        self._next = number + 1
        shown = CloudStage(turn).measure(Request())
        notes = [f"turn {number} of {len(self._starts)}, {int(turn.lost.sum())} shots without a return"]
        if turn.metadata.get("missing_columns"):
            notes.append(f"{turn.metadata['missing_columns']} columns are missing: packets were lost")
        return Measured(
            shown.cloud, time_s=self._starts[number] - self._starts[0], shots=len(turn.shots),
            seconds=clock.perf_counter() - begun, notes=(*notes, *shown.notes),
        )  # fmt: skip
