"""Fair timing on a noisy machine: contenders take turns, and are compared round by round."""

from __future__ import annotations

import gc
import statistics
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass


@dataclass(frozen=True)
class Times:
    """Wall times of one contender, one a round [s]."""

    seconds: tuple[float, ...]
    """Of its second run in a row."""
    after_others: tuple[float, ...] = ()
    """Of the first, which finds what others left in the processor's caches."""

    @property
    def best(self) -> float:
        """The shortest [s]: what the work costs when nothing else disturbs it."""
        return min(self.seconds)

    def shared(self, pieces: int) -> Times:
        """The times of one piece of work, where a run does several."""
        return Times(*(tuple(value / pieces for value in values) for values in (self.seconds, self.after_others)))

    @property
    def cold(self) -> Times:
        """The first runs as times to compare."""
        return Times(self.after_others)


@dataclass(frozen=True)
class Ratio:
    """How much longer one contender takes than another, from the rounds that both took part in.

    A machine that others use, too, has phases of some seconds, of which one may be a fifth slower than the next: best
    times may come from different phases, while the two of a round lie side by side.
    """

    middle: float
    """Median of the ratios of single rounds."""
    low: float
    """Lower quartile of them: how far noise reaches."""
    high: float
    """Upper quartile."""
    best: float
    """Ratio of the best times."""

    def __str__(self) -> str:
        return f"{self.middle:.2f} ({self.low:.2f}–{self.high:.2f})"

    def times(self, factor: float) -> Ratio:
        """The same in another unit."""
        return Ratio(*(factor * value for value in (self.middle, self.low, self.high, self.best)))

    def inverse(self) -> Ratio:
        """The same comparison seen from the other side."""
        return Ratio(1.0 / self.middle, 1.0 / self.high, 1.0 / self.low, 1.0 / self.best)


def ratio(longer: Times, shorter: Times) -> Ratio:
    """How many times longer the first takes, from times that were taken in turns."""
    pairs = [a / b for a, b in zip(longer.seconds, shorter.seconds, strict=True)]
    low, middle, high = statistics.quantiles(pairs, n=4) if len(pairs) > 1 else (pairs[0],) * 3
    return Ratio(middle, low, high, longer.best / shorter.best)


def take_turns(
    contenders: Mapping[str, Callable[[], object]], *, rounds: int, most_seconds: float = 30.0
) -> dict[str, Times]:
    """Run all contenders in turn, `rounds` times or until `most_seconds` [s] are over (three rounds at least).

    In a turn a contender runs twice: work is mostly done many times in a row, and what the contender before left in the
    processor's caches is not part of it. Who goes first changes from round to round. Garbage collection is held back
    during a round.
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
