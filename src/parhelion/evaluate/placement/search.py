"""The best set of k candidates: greedy, and exact by branch and bound.

All scores are monotone: another sensor or anchor never makes one worse. So what every cell or place could have at best
of the candidates that are left bounds every set that a branch can still reach. Where gains also shrink as the set grows
(submodular scores, such as coverage by one point), the largest gains left bound it, too, and a greedy set has at least
1 - 1/e of the best score (Nemhauser, Wolsey and Fisher, Mathematical Programming 14, 1978).
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
"""Scores are shares of 1; nearer ones are equal but for rounding."""


class Objective(Protocol):
    """What a set is worth: a share of 1, which never falls as the set grows. States are not changed, but made anew."""

    name: str
    weight: float
    submodular: bool
    """Whether what a candidate adds never grows with the set."""

    def start(self) -> Any:
        """The state of the empty set."""

    def with_one(self, state: Any, candidate: int) -> Any:
        """The state with one more."""

    def value(self, state: Any) -> float:
        """What the set is worth."""

    def values(self, state: Any, candidates: Rows) -> Floats:
        """What it would be worth with each of the candidates, shape (n,)."""

    def promise(self, state: Any, candidates: Rows) -> Floats:
        """A number that tells candidates apart which add nothing by themselves yet, shape (n,)."""

    def bound(self, state: Any, values: Floats, candidates: Rows, left: int) -> float:
        """It is worth no more with any `left` of the candidates; `values` are those with each of them."""


def silent() -> None:
    """Report no progress."""


class Score:
    """The mean of several objectives by their weights, of the candidates 0 ... count - 1."""

    def __init__(self, objectives: Sequence[Objective], count: int) -> None:
        self.objectives, self.count = tuple(objectives), count
        weight = np.array([one.weight for one in self.objectives])
        self.weight: Floats = weight / weight.sum()

    @property
    def submodular(self) -> bool:
        """Whether the greedy set is known to have 1 - 1/e of the best score."""
        return all(one.submodular for one in self.objectives)

    def start(self) -> tuple[Any, ...]:
        """The state of the empty set."""
        return tuple(one.start() for one in self.objectives)

    def with_one(self, state: tuple[Any, ...], candidate: int) -> tuple[Any, ...]:
        """The state with one more."""
        return tuple(one.with_one(part, candidate) for one, part in zip(self.objectives, state, strict=True))

    def state_of(self, chosen: Sequence[int]) -> tuple[Any, ...]:
        """The state of a set."""
        state = self.start()
        for candidate in chosen:
            state = self.with_one(state, candidate)
        return state

    def value(self, state: tuple[Any, ...]) -> float:
        """The score of a set."""
        parts = [one.value(part) for one, part in zip(self.objectives, state, strict=True)]
        return float(self.weight @ np.array(parts))

    def of(self, chosen: Sequence[int]) -> float:
        """The score of a set by its candidates."""
        return self.value(self.state_of(chosen))

    def parts(self, state: tuple[Any, ...], candidates: Rows) -> Floats:
        """Values of each objective with each of the candidates, shape (objectives, n)."""
        return np.array(
            [one.values(part, candidates) for one, part in zip(self.objectives, state, strict=True)]
        ).reshape(len(self.objectives), len(candidates))

    def promise(self, state: tuple[Any, ...], candidates: Rows) -> Floats:
        """By weight, what candidates may be worth later, shape (n,)."""
        each = [one.promise(part, candidates) for one, part in zip(self.objectives, state, strict=True)]
        return np.asarray(self.weight @ np.array(each).reshape(len(self.objectives), len(candidates)))

    def bound(self, state: tuple[Any, ...], parts: Floats, candidates: Rows, left: int) -> float:
        """No set of the state and `left` more of the candidates is worth more; `parts` are theirs at this state."""
        most = [
            one.bound(part, values, candidates, left)
            for one, part, values in zip(self.objectives, state, parts, strict=True)
        ]
        return float(self.weight @ np.array(most))


@dataclass(frozen=True)
class Found:
    """A set and its score."""

    chosen: tuple[int, ...]
    """Candidates, in the order in which they were taken; rising where the search was exact."""
    score: float
    history: tuple[float, ...] = ()
    """Score after each of them, where they were taken one by one."""


def greedy(score: Score, choose: int, advance: Callable[[], None] = silent) -> Found:
    """Take the candidate that adds most, again and again; the first of several that add the same."""
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
    return Found(tuple(taken), score.value(state), tuple(history))


class Exact:
    """Branch and bound over all sets of a size, from a set that is known already."""

    def __init__(self, score: Score, choose: int, known: Found) -> None:
        self._score, self._choose = score, choose
        self._best, self._best_score = known.chosen, known.score
        alone = score.weight @ score.parts(score.start(), np.arange(score.count))
        # The best first: good sets are found early, and the rest is cut off sooner.
        self._order = np.lexsort((np.arange(score.count), -alone))
        self.visited = 0
        """Sets that were looked at."""

    def run(self, advance: Callable[[], None] = silent) -> Found:
        """The best set there is."""
        self._visit(self._score.start(), 0, (), advance)
        chosen = tuple(sorted(self._best))
        return Found(chosen, self._score.of(chosen))

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
