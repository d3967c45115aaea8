"""Fair timing on a noisy machine: contenders alternate and are compared round by round."""

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
    """Times of its second consecutive run."""
    after_others: tuple[float, ...] = ()
    """Times of its first run, which finds the data of other contenders in the processor caches."""

    @property
    def best(self) -> float:
        """Shortest time [s]: the cost of the work without disturbance."""
        return min(self.seconds)

    def shared(self, pieces: int) -> Times:
        """Times per piece of work, for runs that do several."""
        return Times(*(tuple(value / pieces for value in values) for values in (self.seconds, self.after_others)))

    @property
    def cold(self) -> Times:
        """Times of the first runs, for comparison."""
        return Times(self.after_others)


@dataclass(frozen=True)
class Ratio:
    """Ratio of the times of two contenders, from the rounds that both took part in.

    On a shared machine the speed changes by up to a fifth between phases of a few seconds. Best times may come from
    different phases, while the two times of one round are adjacent.
    """

    middle: float
    """Median of the ratios of single rounds."""
    low: float
    """Lower quartile of these ratios, a measure of the noise."""
    high: float
    """Upper quartile."""
    best: float
    """Ratio of the best times."""

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f}–{self.high:.2f})"

    def times(self, factor: float) -> Ratio:
        """The same ratio in another unit."""
        return Ratio(*(factor * value for value in (self.middle, self.low, self.high, self.best)))

    def inverse(self) -> Ratio:
        """The inverse comparison."""
        return Ratio(1.0 / self.middle, 1.0 / self.high, 1.0 / self.low, 1.0 / self.best)


def ratio(longer: Times, shorter: Times) -> Ratio:
    """Ratio of the first contender's time to the second's, from alternating runs."""
    pairs = [a / b for a, b in zip(longer.seconds, shorter.seconds, strict=True)]
    low, middle, high = statistics.quantiles(pairs, n=4) if len(pairs) > 1 else (pairs[0],) * 3
    return Ratio(middle, low, high, longer.best / shorter.best)


def take_turns(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int, most_seconds: float = 30.0
) -> dict[str, Times]:
    """Run all contenders alternately, `rounds` times or until `most_seconds` [s] have passed (at least three rounds).

    Each contender runs twice in a row, because work is mostly repeated and the cache state left by the previous
    contender is not part of it. The first contender changes from round to round. Garbage collection is disabled during
    a round.
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
