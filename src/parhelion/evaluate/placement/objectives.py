"""Objectives of a set of sensors or anchors: coverage, visible ground, and position errors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats

# ---- Geometric dilution of precision of ranges to anchors. Pure functions -------------------------------------------


LARGEST_GDOP = 1e4
"""Largest dilution; above it the anchors are nearly collinear with the place, and ranges give no position."""


def gdop(
    anchors: ArrayLike, places: ArrayLike, visible: ArrayLike | None = None, *, dimensions: int = 2, least: int = 0
) -> Floats:
    """Dilution of precision sqrt(trace((H^T H)^-1)) of ranges to anchors (a, 3) [m] at places (p, 3) [m], shape (p,).

    Rows of H are unit vectors from the anchors. With 2 dimensions the height is known, and only horizontal components
    count. `visible` (a, p) states which ranges exist. The result is infinite if fewer than `least` anchors are visible
    or if they give no position. Range errors are assumed independent and equal: the root mean square position error is
    this times their standard deviation. Source: Langley, "Dilution of precision", GPS World 10 (5), 1999.
    """
    if dimensions not in (2, 3):
        raise ConfigError(f"dimensions: must be 2 or 3, got {dimensions!r}")
    seen = None if visible is None else np.asarray(visible, dtype=bool)
    parts = information(anchors, places, seen, dimensions)
    found = dilution(parts.sum(axis=0))
    if seen is not None:
        found = np.where(seen.sum(axis=0) >= least, found, np.inf)
    elif len(parts) < least:
        found = np.full(len(found), np.inf)
    return found


def information(
    anchors: ArrayLike, places: ArrayLike, visible: NDArray[np.bool_] | None = None, dimensions: int = 2
) -> Floats:
    """Contribution of each range to H^T H: xx, xy, yy, and for 3 dimensions xz, yz, zz; shape (a, p, 3 or 6)."""
    offset = np.asarray(places, dtype=np.float64)[None] - np.asarray(anchors, dtype=np.float64)[:, None]
    length = np.sqrt(np.sum(offset * offset, axis=2, keepdims=True))
    unit = np.divide(offset, length, out=np.zeros_like(offset), where=length > 0.0)
    x, y, z = (unit[:, :, k] for k in range(3))
    columns = [x * x, x * y, y * y] + ([x * z, y * z, z * z] if dimensions == 3 else [])
    parts = np.stack(columns, axis=2)
    return parts if visible is None else parts * visible[:, :, None]


def dilution(parts: NDArray[Any]) -> Floats:
    """sqrt(trace((H^T H)^-1)) from the entries of H^T H (..., 3 or 6), as `information` orders them; shape (...)."""
    xx, xy, yy = (parts[..., k] for k in range(3))
    if parts.shape[-1] == 3:
        trace, determinant = xx + yy, xx * yy - xy * xy
        size = trace**2
    else:
        xz, yz, zz = (parts[..., k] for k in range(3, 6))
        minors = yy * zz - yz * yz, xx * zz - xz * xz, xx * yy - xy * xy
        trace = minors[0] + minors[1] + minors[2]
        determinant = xx * minors[0] - xy * (xy * zz - yz * xz) + xz * (xy * yz - yy * xz)
        size = (xx + yy + zz) ** 3
    # A determinant at the level of rounding errors counts as zero.
    good = (determinant * LARGEST_GDOP**2 > trace) & (determinant > 1e-13 * size)
    return np.sqrt(np.divide(trace, determinant, out=np.full(np.shape(trace), np.inf), where=good))


# ---- objectives -----------------------------------------------------------------------------------------------------


Rows = NDArray[np.int64]
_BLOCK = 4_000_000
"""Number of values that are processed at once."""


def _largest(values: NDArray[Any], count: int) -> NDArray[Any]:
    """Sum of the `count` largest of each column, shape (columns,)."""
    if count >= len(values):
        return np.asarray(values.sum(axis=0))
    return np.asarray(np.partition(values, len(values) - count, axis=0)[len(values) - count :].sum(axis=0))


class Covered:
    """Weighted share of cells with enough points; for the ground, one point is enough."""

    def __init__(
        self, name: str, weight: float, points: NDArray[np.int32], cell_weight: Floats, at_least: int = 1
    ) -> None:
        """`points` (candidates, cells) are those of each candidate, `cell_weight` (cells,) the weights of cells."""
        self.name, self.weight, self.at_least = name, weight, at_least
        self.submodular = at_least == 1
        # Counts are clipped at the required number, so that sums stay small.
        self.points: NDArray[np.int32] = np.minimum(points, at_least).astype(np.int32)
        self.cell_weight: Floats = cell_weight / cell_weight.sum()

    def start(self) -> NDArray[np.int32]:
        """Zero points per cell."""
        return np.zeros(len(self.cell_weight), np.int32)

    def with_one(self, state: NDArray[np.int32], candidate: int) -> NDArray[np.int32]:
        """Points with one more candidate."""
        return np.asarray(state + self.points[candidate])

    def seen(self, state: NDArray[np.int32]) -> NDArray[np.bool_]:
        """Mask of cells with enough points, shape (cells,)."""
        return np.asarray(state >= self.at_least)

    def value(self, state: NDArray[np.int32]) -> float:
        """Weighted share of covered cells."""
        return float(self.seen(state) @ self.cell_weight)

    def values(self, state: NDArray[np.int32], candidates: Rows) -> Floats:
        """Value with each of the candidates added."""
        # Cells that already have enough points are skipped.
        open_ = np.flatnonzero(state < self.at_least)
        need, weight = self.at_least - state[open_], self.cell_weight[open_]
        found = np.empty(len(candidates))
        step = max(1, _BLOCK // max(1, len(open_)))
        for first in range(0, len(candidates), step):
            rows = candidates[first : first + step]
            found[first : first + step] = (self.points[np.ix_(rows, open_)] >= need) @ weight
        return found + self.value(state)

    def promise(self, state: NDArray[np.int32], candidates: Rows) -> Floats:
        """Weighted share of the required points."""
        have = np.minimum(state + self.points[candidates], self.at_least) / self.at_least
        return np.asarray(have @ self.cell_weight)

    def value_with_all(self, state: NDArray[np.int32], candidates: Rows) -> float:
        """Value with all of the candidates added."""
        return self.value(state + self.points[candidates].sum(axis=0))

    def bound(self, state: NDArray[np.int32], values: Floats, candidates: Rows, left: int) -> float:
        """Upper bound: every cell gets its own best `left` candidates, or the largest gains add up."""
        limit = self.value(state + _largest(self.points[candidates], left))
        if not self.submodular:
            return limit
        here = self.value(state)
        return min(limit, here + float(np.sort(values - here)[::-1][:left].sum()))


@dataclass(frozen=True, eq=False)
class Fixed:
    """State of a set of anchors at each place."""

    parts: Floats
    """Entries of H^T H, shape (places, 3 or 6)."""
    count: NDArray[np.int32]
    """Number of visible anchors, shape (places,)."""


class Located:
    """One minus the mean position error over the largest error that counts."""

    name = "localisation"
    submodular = False

    def __init__(
        self, weight: float, parts: Floats, visible: NDArray[np.bool_], least: int, sigma_m: float, limit_m: float
    ) -> None:
        """`parts` (candidates, places, 3 or 6) and `visible` (candidates, places) are those of each candidate."""
        self.weight, self.least, self.sigma_m, self.limit_m = weight, least, sigma_m, limit_m
        self.parts, self.visible = parts, visible.astype(np.int32)
        self._diagonal = [0, 2] if parts.shape[2] == 3 else [0, 2, 5]
        self._level: Floats = parts[:, :, self._diagonal].sum(axis=2)
        """Contribution of each anchor to the trace of H^T H, shape (candidates, places)."""

    def start(self) -> Fixed:
        """No anchors."""
        return Fixed(np.zeros(self.parts.shape[1:]), np.zeros(self.parts.shape[1], np.int32))

    def with_one(self, state: Fixed, candidate: int) -> Fixed:
        """State with one more anchor."""
        return Fixed(state.parts + self.parts[candidate], state.count + self.visible[candidate])

    def errors(self, parts: Floats, count: NDArray[np.int32]) -> Floats:
        """Root mean square position error [m], infinite without a position, shape (..., places)."""
        return np.where(count >= self.least, self.sigma_m * dilution(parts), np.inf)

    def _worth(self, errors: Floats) -> Any:
        return (1.0 - np.minimum(errors, self.limit_m) / self.limit_m).mean(axis=-1)

    def value(self, state: Fixed) -> float:
        """Value of the set."""
        return float(self._worth(self.errors(state.parts, state.count)))

    def values(self, state: Fixed, candidates: Rows) -> Floats:
        """Value with each of the candidates added."""
        found = np.empty(len(candidates))
        step = max(1, _BLOCK // self.parts[0].size)
        for first in range(0, len(candidates), step):
            rows = candidates[first : first + step]
            errors = self.errors(state.parts + self.parts[rows], state.count + self.visible[rows])
            found[first : first + step] = self._worth(errors)
        return found

    def promise(self, state: Fixed, candidates: Rows) -> Floats:
        """Places with anchors in different directions: mean of log det(1 + H^T H / 0.01)."""
        width = 2 if self.parts.shape[2] == 3 else 3
        rows, columns = ([0, 0, 1], [0, 1, 1]) if width == 2 else ([0, 0, 1, 0, 1, 2], [0, 1, 1, 2, 2, 2])
        found = np.empty(len(candidates))
        for number, candidate in enumerate(candidates):
            matrix = np.zeros((self.parts.shape[1], width, width))
            matrix[:, rows, columns] = matrix[:, columns, rows] = state.parts + self.parts[candidate]
            found[number] = np.linalg.slogdet(np.eye(width) + 100.0 * matrix)[1].mean()
        return found

    def value_with_all(self, state: Fixed, candidates: Rows) -> float:
        """Value with all of the candidates added."""
        parts = state.parts + self.parts[candidates].sum(axis=0)
        return float(self._worth(self.errors(parts, state.count + self.visible[candidates].sum(axis=0))))

    def bound(self, state: Fixed, values: Floats, candidates: Rows, left: int) -> float:
        """Upper bound: every place gets all candidates for its directions, but only the best `left` for their number.

        For a d × d matrix, trace(A^-1) is at least d^2 / trace(A), and the trace of H^T H adds up over anchors.
        """
        visible, level = self.visible[candidates], self._level[candidates]
        count = state.count + np.minimum(visible.sum(axis=0), left)
        errors = self.errors(state.parts + self.parts[candidates].sum(axis=0), count)
        trace = state.parts[:, self._diagonal].sum(axis=1) + _largest(level, left)
        least = self.sigma_m * len(self._diagonal) / np.sqrt(np.maximum(trace, 1e-12))
        return float(self._worth(np.maximum(errors, least)))
