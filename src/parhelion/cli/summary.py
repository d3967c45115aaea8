"""Counts over one scan or many, without keeping the scans."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.cli.screen import count, percent

if TYPE_CHECKING:
    from parhelion.core.clouds import Scan

_BIN_M = 0.01
"""Step of the histogram of ranges, and so of the median of many scans."""


class Tally:
    """Points, lost shots, ranges, labels and times of the scans that were added."""

    def __init__(self) -> None:
        self.scans = self.points = self.shots = self.lost = 0
        self.seconds: list[float] = []
        self.casts_per_beam: list[float] = []
        self.specular_casts_per_beam: list[float] = []
        self.names: dict[int, str] = {}
        self._label_counts = np.zeros(0, np.int64)
        self._range_counts = np.zeros(0, np.int64)
        self._nearest, self._farthest = np.inf, -np.inf

    def add(self, scan: Scan, seconds: float) -> None:
        """Take one more scan, which took `seconds` of wall time."""
        self.scans += 1
        self.points += len(scan)
        self.shots += len(scan.shots)
        self.lost += int(scan.lost.sum())
        self.seconds.append(seconds)
        if "casts_per_beam" in scan.metadata:
            self.casts_per_beam.append(float(scan.metadata["casts_per_beam"]))
            self.specular_casts_per_beam.append(float(scan.metadata.get("specular_casts_per_beam", 0.0)))
        self.names.update(scan.names.get("label", {}))
        if len(scan):
            distance = scan.fields["range"]
            self._nearest = min(self._nearest, float(distance.min()))
            self._farthest = max(self._farthest, float(distance.max()))
            self._range_counts = _added(self._range_counts, np.round(distance / _BIN_M).astype(np.int64))
            self._label_counts = _added(self._label_counts, scan.fields["label"].astype(np.int64))

    @property
    def range_m(self) -> tuple[float, float, float] | None:
        """Smallest, median (to 1 cm) and largest range [m]; None where there are no points."""
        if not self.points:
            return None
        median = int(np.searchsorted(np.cumsum(self._range_counts), self.points / 2)) * _BIN_M
        return self._nearest, median, self._farthest

    @property
    def label_shares(self) -> list[tuple[str, int, float]]:
        """Word, number of points and share of each label, the largest first."""
        order = np.argsort(-self._label_counts, kind="stable")
        found = [int(number) for number in order if self._label_counts[number]]
        return [
            (self.names.get(number, str(number)), int(points := self._label_counts[number]), points / self.points)
            for number in found
        ]

    def rows(self) -> list[tuple[str, Any]]:
        """Names and values for printing."""
        rows = [("scans", count(self.scans))] if self.scans > 1 else []
        rows += [
            ("points", f"{count(self.points)} of {count(self.shots)} shots"),
            ("lost shots", f"{count(self.lost)} ({percent(self.lost / max(self.shots, 1))})"),
        ]
        if self.range_m is not None:
            rows.append(("range", "min {:.2f}, median {:.2f}, max {:.2f} m".format(*self.range_m)))
        rows.append(("time", self.time_taken()))
        if self.casts_per_beam:
            total, specular = np.mean(self.casts_per_beam), np.mean(self.specular_casts_per_beam)
            over = f", {specular:.2f} of them over glass, mirrors or water" if specular > 0 else ""
            rows.append(("casts per beam", f"{total:.2f}{over}"))
        return rows

    def time_taken(self) -> str:
        """Wall time of the first scan, which compiles, and of the others."""
        if self.scans == 1:
            return f"{self.seconds[0]:.2f} s, scene set-up included"
        later = float(np.median(self.seconds[1:]))
        return (
            f"{sum(self.seconds):.1f} s; first scan {self.seconds[0]:.2f} s with scene set-up, then {later:.3f} s each"
        )


def _added(counts: NDArray[np.int64], values: NDArray[np.int64]) -> NDArray[np.int64]:
    more = np.bincount(values, minlength=len(counts))
    more[: len(counts)] += counts
    return more
