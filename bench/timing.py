"""Fair timing on a shared machine: contenders alternate and are compared round by round."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Wall times of one contender, one per round [s]."""

    seconds: tuple[float, ...]
    """Times of the second of two consecutive runs."""
    after_others: tuple[float, ...] = ()
    """Times of the first run, with the caches that other contenders left."""

    @property
    def best(self) -> float:
        """Shortest time [s], with the least disturbance."""
        return min(self.seconds)

    def shared(self, pieces: int) -> Times:
        """Times per item, for runs that process several items."""
        return Times(*(tuple(value / pieces for value in values) for values in (self.seconds, self.after_others)))

    @property
    def cold(self) -> Times:
        """First runs, for comparison."""
        return Times(self.after_others)


@dataclass(frozen=True)
class Ratio:
    """Time of one contender relative to another, from their common rounds.

    A shared machine has phases of some seconds whose speeds differ by up to a fifth. Best times may come from different
    phases, but the two times of a round are close together.
    """

    middle: float
    """Median of the ratios of single rounds."""
    low: float
    """Lower quartile, which shows the noise."""
    high: float
    """Upper quartile."""
    best: float
    """Ratio of the best times."""

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f}–{self.high:.2f})"

    def times(self, factor: float) -> Ratio:
        """Ratio in another unit."""
        return Ratio(*(factor * value for value in (self.middle, self.low, self.high, self.best)))

    def inverse(self) -> Ratio:
        """Inverse comparison."""
        return Ratio(1.0 / self.middle, 1.0 / self.high, 1.0 / self.low, 1.0 / self.best)


def ratio(longer: Times, shorter: Times) -> Ratio:
    """Time of the first relative to the second, from alternating runs."""
    pairs = [a / b for a, b in zip(longer.seconds, shorter.seconds, strict=True)]
    low, middle, high = statistics.quantiles(pairs, n=4) if len(pairs) > 1 else (pairs[0],) * 3
    return Ratio(middle, low, high, longer.best / shorter.best)


def take_turns(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int, most_seconds: float = 30.0
) -> dict[str, Times]:
    """Run all contenders alternately, `rounds` times or until `most_seconds` [s] have passed (at least three rounds).

    A contender runs twice per round, because work is usually repeated, and the caches that the previous contender left
    are not part of it. The order changes from round to round. Garbage collection is disabled during a round.
    """
    for run in contenders.values():  # compile
        run()
    seconds: dict[str, list[tuple[float, float]]] = {name: [] for name in contenders}
    names = list(contenders)
    end = time.perf_counter() + most_seconds
    for number in range(rounds):
        if number >= 3 and time.perf_counter() > end:
            break
        first = number % len(names)
        gc.collect()
        gc.disable()
        try:
            for name in names[first:] + names[:first]:
                start = time.perf_counter()
                contenders[name]()
                again = time.perf_counter()
                contenders[name]()
                seconds[name].append((time.perf_counter() - again, again - start))
        finally:
            gc.enable()
    return {name: Times(*zip(*values, strict=True)) for name, values in seconds.items()}
