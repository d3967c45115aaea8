"""Which rows are run, and when a cell has enough of them.

Cells are looked at after fixed numbers of runs, in the order of their rows, whoever computed them and when. So the rows
that a campaign ends with do not depend on how many workers there were.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Any

import numpy as np

from parhelion.campaign.statistics import interval_of_mean
from parhelion.campaign.study import Study


class Plan:
    """Hands out rows, takes results, and knows when all is done."""

    def __init__(self, study: Study, results: dict[int, dict[str, Any]]) -> None:
        self._study, self.results = study, results
        """Results by row, those of earlier runs among them."""
        self._stop = study.settings.stop
        self._again: deque[int] = deque()
        self._last = [self._first_look() for _ in range(study.cells)]
        """By cell: units that are run before the next look."""
        self._open = [True] * study.cells
        self._fresh: Iterator[int] = iter(range(len(study))) if self._stop is None else iter(())
        self._queue: deque[int] = deque()
        self._handed: set[int] = set()
        if self._stop is not None:
            for cell in range(study.cells):
                self._queue.extend(self._rows(cell, 0, self._last[cell]))
                self._look(cell)

    # ---- units: seeds, or draws with all their seeds --------------------------------------------------------------

    @property
    def _seeds(self) -> int:
        return self._study.settings.shape[-1]

    @property
    def _units(self) -> int:
        """Independent units of a cell: draws where there are any, else seeds."""
        draws = self._study.settings.shape[-2]
        return draws if draws > 1 else self._seeds

    @property
    def _rows_a_unit(self) -> int:
        return self._seeds if self._study.settings.shape[-2] > 1 else 1

    def _first_look(self) -> int:
        return self._units if self._stop is None else min(self._units, self._stop.at_least)

    def _rows(self, cell: int, first: int, last: int) -> range:
        """Rows of some units of a cell."""
        begin = cell * self._units * self._rows_a_unit
        return range(begin + first * self._rows_a_unit, begin + last * self._rows_a_unit)

    def _look(self, cell: int) -> None:
        """See whether a cell has runs enough, and hand out more where it has not."""
        stop = self._stop
        while stop is not None and self._open[cell]:
            rows = self._rows(cell, 0, self._last[cell])
            if any(row not in self.results for row in rows):
                return
            values = [self._number(row, stop.measure) for row in rows]
            units = np.array(values, np.float64).reshape(-1, self._rows_a_unit)
            known = np.isfinite(units)
            means = np.where(known, units, 0.0).sum(axis=1) / np.where(known.any(axis=1), known.sum(axis=1), np.nan)
            found = interval_of_mean(means.tolist(), stop.confidence, stop.measure)
            if found.half_width <= stop.half_width or self._last[cell] >= self._units:
                self._open[cell] = False
                return
            before, self._last[cell] = self._last[cell], min(self._units, self._last[cell] + stop.every)
            self._queue.extend(self._rows(cell, before, self._last[cell]))

    def _number(self, row: int, name: str) -> float:
        value = self.results[row].get("numbers", {}).get(name)
        return np.nan if value is None else float(value)

    # ---- rows ---------------------------------------------------------------------------------------------------

    def next_row(self) -> int | None:
        """A row that is to be run now; None where none is known at the moment."""
        while self._again or self._queue:
            row = self._again.popleft() if self._again else self._queue.popleft()
            if row not in self.results:
                self._handed.add(row)
                return row
        for row in self._fresh:
            if row not in self.results:
                self._handed.add(row)
                return row
        return None

    def hand_back(self, row: int) -> None:
        """A row that was not run after all."""
        self._handed.discard(row)
        self._again.append(row)

    def take(self, result: dict[str, Any]) -> None:
        """A result of a row that was handed out."""
        row = int(result["row"])
        self._handed.discard(row)
        self.results[row] = result
        if self._stop is not None:
            self._look(row // (self._units * self._rows_a_unit))

    @property
    def waiting(self) -> int:
        """Rows that are being run."""
        return len(self._handed)

    @property
    def planned(self) -> int:
        """Number of rows of the table, as far as is known."""
        return sum(last * self._rows_a_unit for last in self._last)

    @property
    def saved(self) -> int:
        """Rows that tight intervals made needless."""
        return len(self._study) - self.planned

    def rows(self) -> list[int]:
        """Rows of the finished table."""
        return [row for cell, last in enumerate(self._last) for row in self._rows(cell, 0, last)]
