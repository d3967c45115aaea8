"""Best set of k candidates: greedy, and exact by branch and bound.

All scores are monotone: another sensor or anchor never reduces them. The best that every cell or place could get from
the remaining candidates therefore bounds every set of a branch. For submodular scores, such as coverage by one point,
gains shrink as the set grows. Then the largest remaining gains also bound it, and a greedy set has at least 1 - 1/e of
the best score (Nemhauser, Wolsey and Fisher, Mathematical Programming 14, 1978).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats

Rows = NDArray[np.int64]
_EQUAL = 1e-12
"""Tolerance of scores, which are shares of 1: smaller differences are rounding errors."""


class Objective(Protocol):
    """Value of a set: a share of 1 that never falls as the set grows. States are immutable."""

    name: str
    weight: float
    submodular: bool
    """The gain of a candidate never grows with the set."""

    def start(self) -> Any:
        """State of the empty set."""

    def with_one(self, state: Any, candidate: int) -> Any:
        """State with one more candidate."""

    def value(self, state: Any) -> float:
        """Value of the set."""

    def values(self, state: Any, candidates: Rows) -> Floats:
        """Value with each of the candidates added, shape (n,)."""

    def promise(self, state: Any, candidates: Rows) -> Floats:
        """Ranking of candidates that add no value yet, shape (n,)."""

    def bound(self, state: Any, values: Floats, candidates: Rows, left: int) -> float:
        """Upper bound of the value with any `left` of the candidates; `values` are those with each of them added."""


def silent() -> None:
    """Report no progress."""


class Score:
    """Weighted mean of several objectives for the candidates 0 ... count - 1."""

    def __init__(self, objectives: Sequence[Objective], count: int) -> None:
        self.objectives, self.count = tuple(objectives), count
        weight = np.array([one.weight for one in self.objectives])
        self.weight: Floats = weight / weight.sum()

    @property
    def submodular(self) -> bool:
        """True if the greedy set is guaranteed to have 1 - 1/e of the best score."""
        return all(one.submodular for one in self.objectives)

    def start(self) -> tuple[Any, ...]:
        """State of the empty set."""
        return tuple(one.start() for one in self.objectives)

    def with_one(self, state: tuple[Any, ...], candidate: int) -> tuple[Any, ...]:
        """State with one more candidate."""
        return tuple(one.with_one(part, candidate) for one, part in zip(self.objectives, state, strict=True))

    def state_of(self, chosen: Sequence[int]) -> tuple[Any, ...]:
        """State of a set."""
        state = self.start()
        for candidate in chosen:
            state = self.with_one(state, candidate)
        return state

    def value(self, state: tuple[Any, ...]) -> float:
        """Score of a state."""
        parts = [one.value(part) for one, part in zip(self.objectives, state, strict=True)]
        return float(self.weight @ np.array(parts))

    def of(self, chosen: Sequence[int]) -> float:
        """Score of a set by its candidates."""
        return self.value(self.state_of(chosen))

    def parts(self, state: tuple[Any, ...], candidates: Rows) -> Floats:
        """Value of each objective with each of the candidates added, shape (objectives, n)."""
        return np.array(
            [one.values(part, candidates) for one, part in zip(self.objectives, state, strict=True)]
        ).reshape(len(self.objectives), len(candidates))

    def promise(self, state: tuple[Any, ...], candidates: Rows) -> Floats:
        """Weighted ranking of candidates that add no value yet, shape (n,)."""
        each = [one.promise(part, candidates) for one, part in zip(self.objectives, state, strict=True)]
        return np.asarray(self.weight @ np.array(each).reshape(len(self.objectives), len(candidates)))

    def bound(self, state: tuple[Any, ...], parts: Floats, candidates: Rows, left: int) -> float:
        """Upper bound of the score with `left` more of the candidates; `parts` are their values at this state."""
        most = [
            one.bound(part, values, candidates, left)
            for one, part, values in zip(self.objectives, state, parts, strict=True)
        ]
        return float(self.weight @ np.array(most))


@dataclass(frozen=True)
class BestSet:
    """Set of candidates and its score."""

    chosen: tuple[int, ...]
    """Candidates in the order of selection; ascending for an exact search."""
    score: float
    history: tuple[float, ...] = ()
    """Score after each candidate, if they were selected one by one."""


def greedy(score: Score, choose: int, advance: Callable[[], None] = silent) -> BestSet:
    """Add the candidate with the largest gain repeatedly; the first one among equal gains."""
    state, taken, history = score.start(), [], []
    left = np.arange(score.count)
    for _ in range(choose):
        values = score.weight @ score.parts(state, left)
        best = np.flatnonzero(values >= values.max() - _EQUAL)
        if len(best) > 1:
            promise = score.promise(state, left[best])
            best = best[promise >= promise.max() - _EQUAL]
        row = int(best[0])
        taken.append(int(left[row]))
        history.append(float(values[row]))
        state = score.with_one(state, taken[-1])
        left = np.delete(left, row)
        advance()
    return BestSet(tuple(taken), score.value(state), tuple(history))


class Exact:
    """Branch and bound over all sets of a size, starting from a known set."""

    def __init__(self, score: Score, choose: int, known: BestSet) -> None:
        self._score, self._choose = score, choose
        self._best, self._best_score = known.chosen, known.score
        alone = score.weight @ score.parts(score.start(), np.arange(score.count))
        # Best candidates first, so that good sets are found early and more branches are cut.
        self._order = np.lexsort((np.arange(score.count), -alone))
        self.visited = 0
        """Number of evaluated sets."""

    def run(self, advance: Callable[[], None] = silent) -> BestSet:
        """Best set."""
        self._visit(self._score.start(), 0, (), advance)
        chosen = tuple(sorted(self._best))
        return BestSet(chosen, self._score.of(chosen))

    def _visit(self, state: tuple[Any, ...], first: int, chosen: tuple[int, ...], advance: Callable[[], None]) -> None:
        left = self._choose - len(chosen)
        candidates = self._order[first:]
        parts = self._score.parts(state, candidates)
        if left == 1:
            self.visited += len(candidates)
            values = self._score.weight @ parts
            row = int(np.argmax(values))
            if values[row] > self._best_score + _EQUAL:
                self._best, self._best_score = (*chosen, int(candidates[row])), float(values[row])
            for _ in candidates:
                advance()
            return
        cut = self._score.bound(state, parts, candidates, left) <= self._best_score + _EQUAL
        for row in range(len(candidates) - left + 1):
            if not cut:
                taken = int(candidates[row])
                self._visit(self._score.with_one(state, taken), first + row + 1, (*chosen, taken), silent)
            advance()
