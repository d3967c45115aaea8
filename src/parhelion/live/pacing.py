"""Real-time execution of a scenario: one thread measures ahead, others send each step at its time."""

from __future__ import annotations

import math
import threading
import time as wall
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from os import PathLike
from typing import Any, Protocol

from parhelion.core.errors import ConfigError
from parhelion.core.interrupts import uninterrupted
from parhelion.core.streams import Samples
from parhelion.scenario.scenario import Scenario, Step

LONGEST_WAIT_S = 0.05
"""Interval between checks for a stop request [s]."""


class Outlet(Protocol):
    """Destination of the steps of a stream.

    Optional methods: `prepare(step)` and `rest()` are called in the measuring thread, after each step and after the
    last, and return items with their times [s]; `take` then receives each item at its time instead of the step.
    `idle()` is called while the outlet waits.
    """

    def take(self, step: Any) -> None:
        """Send the data of a step, at the time of the step."""
        ...

    def close(self) -> None:
        """Leave off."""
        ...


Controller = Callable[[Step], None]
"""Controller that is called after every measured step and may command vehicles."""


Pieces = list[tuple[float, Any]]
"""Items to send, with increasing times of the scenario [s]."""


@dataclass
class SharedStep(Step):
    """Step that other threads may query while the scenario runs; a lock pauses the scenario during the query."""

    _standing: Any = field(repr=False, default_factory=threading.RLock)

    @classmethod
    def of(cls, step: Step, standing: Any) -> SharedStep:
        """Same step, queried under a lock."""
        return cls(
            step.number,
            step.time,
            step.frames,
            step._scenario,
            step._start,
            step._streams,
            step.collisions,
            step._samples,
            standing,
        )

    def state(self, vehicle: str) -> Any:
        """State of a vehicle at the step's end."""
        with self._standing:
            return super().state(vehicle)

    def samples(self, sensor: str) -> Any:
        """Samples of a stream sensor during this step."""
        with self._standing:
            return super().samples(sensor)

    def new_samples(self) -> dict[str, Samples]:
        """New samples per stream sensor since the last query."""
        with self._standing:
            return super().new_samples()


@dataclass
class Lag:
    """Delay of an outlet behind the clock [s of wall time]."""

    steps: int = 0
    worst_s: float = 0.0
    last_s: float = 0.0
    _sum: float = field(repr=False, default=0.0)

    def add(self, behind_s: float) -> None:
        """Record one step."""
        self.steps += 1
        self.last_s = max(behind_s, 0.0)
        self.worst_s = max(self.worst_s, self.last_s)
        self._sum += self.last_s

    @property
    def mean_s(self) -> float:
        """Mean over all steps."""
        return self._sum / self.steps if self.steps else 0.0


@dataclass
class StreamSummary:
    """Summary of a stream."""

    simulated_s: float = 0.0
    """Time of the last measured step, over all rounds."""
    seconds: float = 0.0
    """Wall time since the first sent step."""
    rounds: int = 0
    scans: int = 0
    points: int = 0
    lags: dict[str, Lag] = field(default_factory=dict)
    """By outlet."""
    finished: bool = False
    """True if the stream reached its end and was not stopped."""


class Clock:
    """Wall clock in times of the scenario; it starts on request."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.stopped = threading.Event()
        self._started = threading.Event()
        self._zero = 0.0

    def start(self) -> None:
        """Set time 0 to now."""
        if not self._started.is_set():
            self._zero = wall.monotonic()
            self._started.set()

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return wall.monotonic() - self._zero if self._started.is_set() else 0.0

    def behind(self, time_s: float) -> float:
        """Wall time [s] since a time of the scenario; negative for future times."""
        return self.seconds - time_s / self.speed if self._started.is_set() else -math.inf

    def wait(self, time_s: float, idle: Callable[[], None]) -> bool:
        """Wait for a time of the scenario; return False if the stream was stopped."""
        while not self.stopped.is_set():
            left = -self.behind(time_s)
            if left <= 0:
                return True
            if self.stopped.wait(min(left, LONGEST_WAIT_S)):
                return False
            if left > LONGEST_WAIT_S:
                idle()
        return False


class Sender:
    """Thread that passes steps, or items of steps, to an outlet at their times."""

    def __init__(self, name: str, outlet: Outlet, clock: Clock, standing: Any) -> None:
        self.name, self.lag = name, Lag()
        self.failure: BaseException | None = None
        self._outlet, self._clock, self._standing = outlet, clock, standing
        self._idle: Callable[[], None] = getattr(outlet, "idle", lambda: None)
        self._waiting: deque[tuple[float, Any]] = deque()
        self._changed = threading.Condition()
        self._complete = False
        self._thread = threading.Thread(target=self._work, name=f"parhelion-{name}", daemon=True)
        self._thread.start()

    @property
    def asks_steps(self) -> bool:
        """True if the outlet receives complete steps, which it may query for samples and states."""
        return not hasattr(self._outlet, "prepare")

    def put(self, before_s: float, step: Step) -> None:
        """Queue a step for its time; `before_s` [s] is the duration of earlier rounds."""
        if self.asks_steps:
            self._add(before_s, [(step.time, SharedStep.of(step, self._standing))])
        else:
            self._add(before_s, self._outlet.prepare(step))  # type: ignore[attr-defined]

    def round_over(self, before_s: float) -> None:
        """Queue the remaining items after the last step of a round."""
        if hasattr(self._outlet, "rest"):
            self._add(before_s, self._outlet.rest())

    def hold(self, until_s: float) -> None:
        """Wait until everything due before a time was sent; re-raise errors of the outlet."""
        while not self._clock.stopped.is_set():
            with self._changed:
                if self.failure is not None:
                    raise self.failure
                if not self._waiting or self._waiting[0][0] >= until_s:
                    return
                self._changed.wait(LONGEST_WAIT_S)

    def finish(self) -> None:
        """Wait until everything is sent."""
        self._complete = True
        self.hold(math.inf)

    def close(self) -> None:
        """Stop the thread, then close the outlet. The clock is stopped, or everything is sent."""
        self._thread.join(5.0)
        self._outlet.close()

    def _add(self, before_s: float, pieces: Pieces) -> None:
        with self._changed:
            self._waiting.extend((before_s + time_s, piece) for time_s, piece in pieces)
            self._changed.notify_all()

    def _next(self) -> tuple[float, Any] | None:
        """Next item to send, which stays in the queue until it is sent; None at the end."""
        while not self._clock.stopped.is_set():
            with self._changed:
                if self._waiting:
                    return self._waiting[0]
                if self._complete:
                    return None
                self._changed.wait(LONGEST_WAIT_S)
            self._idle()
        return None

    def _work(self) -> None:
        try:
            while (item := self._next()) is not None and self._clock.wait(item[0], self._idle):
                self.lag.add(self._clock.behind(item[0]))
                self._outlet.take(item[1])
                with self._changed:
                    self._waiting.popleft()
                    self._changed.notify_all()
        except BaseException as failure:  # reported by the measuring thread
            self.failure = failure


class PacedRun:
    """Real-time run of a scenario that sends its data to outlets.

    Measurements run ahead by at most `ahead_s` of simulated time; commands of controllers take effect that much later.
    Each outlet has its own thread. The clock starts when the first `ahead_s` are measured.
    """

    def __init__(
        self,
        scenario: Scenario,
        outlets: Mapping[str, Outlet],
        *,
        speed: float = 1.0,
        ahead_s: float = 0.5,
        loop: bool = False,
        controllers: Sequence[Controller] = (),
        events: str | PathLike[str] | None = None,
    ) -> None:
        if not (math.isfinite(speed) and 0 < speed <= 1000):
            raise ConfigError(f"stream: speed must be above 0 and at most 1000, got {speed:g}")
        if not (math.isfinite(ahead_s) and 0 <= ahead_s <= 60):
            raise ConfigError(f"stream: ahead must be from 0 to 60 s, got {ahead_s:g}")
        if events is not None and loop:
            raise ConfigError("stream: the events of a loop cannot be logged; omit one of loop and events")
        self.scenario, self.outlets, self.loop, self.ahead_s = scenario, dict(outlets), loop, ahead_s
        self.events = events
        """Log of the edits that controllers make, or None."""
        self.controllers = list(controllers)
        self.clock = Clock(speed)
        self.summary = StreamSummary()
        self.ending: list[Callable[[], None]] = []
        """Functions that are called before the outlets are closed."""
        self._standing = threading.RLock()

    def stop(self) -> None:
        """Request the end of the stream, from any thread."""
        self.clock.stopped.set()

    def run(self, progress: Callable[[StreamSummary], None] | None = None) -> StreamSummary:
        """Stream until the scenario ends, or indefinitely if it loops. Outlets are always closed at the end."""
        summary = self.summary
        senders = [Sender(name, outlet, self.clock, self._standing) for name, outlet in self.outlets.items()]
        summary.lags = {sender.name: sender.lag for sender in senders}
        try:
            self._warm_up()
            while not self.clock.stopped.is_set():
                self._round(senders, progress or (lambda _: None))
                if not self.loop:
                    break
            self.clock.start()
            for sender in senders:
                sender.finish()
            summary.finished = not self.clock.stopped.is_set()
        finally:
            summary.seconds = self.clock.seconds
            with uninterrupted:  # threads and outlets are closed in order
                self.stop()
                for end in self.ending:
                    end()
                _close_all(senders)
        return summary

    def _warm_up(self) -> None:
        """Measure one frame of each sensor and discard it: the first one compiles kernels, which takes seconds."""
        for sensor in self.scenario.frame_sensors:
            sensor.measure(self.scenario.world, 0, self.scenario.seed)

    def _round(self, senders: Sequence[Sender], progress: Callable[[StreamSummary], None]) -> None:
        summary = self.summary
        before = summary.rounds * self.scenario.steps * self.scenario.settings.step_s
        with closing(self.scenario.walk(events=self.events)) as steps:  # an interrupt completes the log, too
            for step in self._steps(steps, senders, before):
                for scans in step.scans.values():
                    summary.scans += len(scans)
                    summary.points += sum(len(scan) for _, scan in scans)
                progress(summary)
                if not self._keep_pace(senders, summary.simulated_s):
                    return
        for sender in senders:
            sender.round_over(before)
        summary.rounds += 1
        if self.loop:
            # Vehicles return to their start now, so old steps must not be queried any more.
            self.clock.start()
            for sender in senders:
                if sender.asks_steps:
                    sender.hold(math.inf)

    def _steps(self, steps: Iterator[Step], senders: Sequence[Sender], before: float) -> Iterator[Step]:
        """Measure, queue and control each step while other threads wait."""
        while True:
            with self._standing:
                step = next(steps, None)
                if step is None:
                    return
                for sender in senders:
                    sender.put(before, step)
                for control in self.controllers:
                    control(step)
            self.summary.simulated_s = before + step.time
            yield step

    def _keep_pace(self, senders: Sequence[Sender], time_s: float) -> bool:
        """Wait while the measurements are far enough ahead; return False if the stream was stopped."""
        latest = time_s - self.ahead_s
        if latest >= 0:
            self.clock.start()
            self.clock.wait(latest, lambda: None)
        for sender in senders:
            sender.hold(latest)
        return not self.clock.stopped.is_set()


def _close_all(senders: Sequence[Sender]) -> None:
    """Close every outlet even if one fails, then raise the first error."""
    failure: BaseException | None = None
    for sender in senders:
        try:
            sender.close()
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
