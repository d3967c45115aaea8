"""A scenario in step with the wall clock: measured ahead in one thread, sent at its own times in others."""

from __future__ import annotations

import math
import threading
import time as wall
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from parhelion.core.errors import ConfigError
from parhelion.core.streams import Samples
from parhelion.scenario.scenario import Scenario, Step

LONGEST_WAIT_S = 0.05
"""Between two looks at whether to stop."""


class Outlet(Protocol):
    """Where the steps of a stream go.

    It may have methods more. `prepare(step)` and `rest()` are called where the steps are measured, after each and after
    the last, and give pieces with their times [s]; `take` is then given each piece at its time, in the step's place.
    `idle()` is called while it waits.
    """

    def take(self, step: Any) -> None:
        """Send what a step gave, at the step's time."""
        ...

    def close(self) -> None:
        """Leave off."""
        ...


Controller = Callable[[Step], None]
"""Called after every step that was measured, to command vehicles."""


Pieces = list[tuple[float, Any]]
"""What is to be sent, with times of the scenario [s], which rise."""


@dataclass
class SharedStep(Step):
    """A step that another thread may ask while time goes on: the scenario stands still for as long as that takes."""

    _standing: Any = field(repr=False, default_factory=threading.RLock)

    @classmethod
    def of(cls, step: Step, standing: Any) -> SharedStep:
        """The same step, asked under a lock."""
        return cls(
            step.number, step.time, step.frames, step._scenario, step._start, step._streams, step._samples, standing
        )

    def state(self, vehicle: str) -> Any:
        """State of a vehicle at the step's end."""
        with self._standing:
            return super().state(vehicle)

    def samples(self, sensor: str) -> Any:
        """What an IMU or other small sensor gave during this step."""
        with self._standing:
            return super().samples(sensor)

    def new_samples(self) -> dict[str, Samples]:
        """By stream sensor: all samples that became known since they were last asked for."""
        with self._standing:
            return super().new_samples()


@dataclass
class Lag:
    """How far an outlet was behind the clock [s of wall time]."""

    steps: int = 0
    worst_s: float = 0.0
    last_s: float = 0.0
    _sum: float = field(repr=False, default=0.0)

    def add(self, behind_s: float) -> None:
        """Take down one step."""
        self.steps += 1
        self.last_s = max(behind_s, 0.0)
        self.worst_s = max(self.worst_s, self.last_s)
        self._sum += self.last_s

    @property
    def mean_s(self) -> float:
        """Over all steps."""
        return self._sum / self.steps if self.steps else 0.0


@dataclass
class StreamSummary:
    """What a stream came to."""

    simulated_s: float = 0.0
    """Time of the last step that was measured, over all rounds."""
    seconds: float = 0.0
    """Wall time from the first step sent."""
    rounds: int = 0
    scans: int = 0
    points: int = 0
    lags: dict[str, Lag] = field(default_factory=dict)
    """By outlet."""
    finished: bool = False
    """Whether it came to its end, and was not stopped."""


class Clock:
    """The wall clock, as times of the scenario; it stands until it is started."""

    def __init__(self, speed: float) -> None:
        self.speed = speed
        self.stopped = threading.Event()
        self._started = threading.Event()
        self._zero = 0.0

    def start(self) -> None:
        """Let time 0 be now."""
        if not self._started.is_set():
            self._zero = wall.monotonic()
            self._started.set()

    @property
    def seconds(self) -> float:
        """Wall time since the start."""
        return wall.monotonic() - self._zero if self._started.is_set() else 0.0

    def behind(self, time_s: float) -> float:
        """By how much [s of wall time] a time of the scenario has passed; below 0 where it is to come."""
        return self.seconds - time_s / self.speed if self._started.is_set() else -math.inf

    def wait(self, time_s: float, idle: Callable[[], None]) -> bool:
        """Wait for a time of the scenario; False where the stream was stopped."""
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
    """A thread that gives an outlet its steps, or pieces of them, each at its time."""

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
        """Whether the outlet is given whole steps, which it may ask for samples and states."""
        return not hasattr(self._outlet, "prepare")

    def put(self, before_s: float, step: Step) -> None:
        """Have a step sent at its time; `before_s` [s] is that of earlier rounds."""
        if self.asks_steps:
            self._add(before_s, [(step.time, SharedStep.of(step, self._standing))])
        else:
            self._add(before_s, self._outlet.prepare(step))  # type: ignore[attr-defined]

    def round_over(self, before_s: float) -> None:
        """After the last step of a round: have the rest sent, too."""
        if hasattr(self._outlet, "rest"):
            self._add(before_s, self._outlet.rest())

    def hold(self, until_s: float) -> None:
        """Wait until all that is due before a time was sent; raises what the outlet raised."""
        while not self._clock.stopped.is_set():
            with self._changed:
                if self.failure is not None:
                    raise self.failure
                if not self._waiting or self._waiting[0][0] >= until_s:
                    return
                self._changed.wait(LONGEST_WAIT_S)

    def finish(self) -> None:
        """Wait until all is sent."""
        self._complete = True
        self.hold(math.inf)

    def close(self) -> None:
        """End the thread, then the outlet. The clock is stopped by now, or all is sent."""
        self._thread.join(5.0)
        self._outlet.close()

    def _add(self, before_s: float, pieces: Pieces) -> None:
        with self._changed:
            self._waiting.extend((before_s + time_s, piece) for time_s, piece in pieces)
            self._changed.notify_all()

    def _next(self) -> tuple[float, Any] | None:
        """What is to be sent next; it stays in the queue until it is sent. None at the end."""
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
        except BaseException as failure:  # told by the thread that measures
            self.failure = failure


class PacedRun:
    """Runs a scenario and sends what it gives, at the pace of the wall clock.

    Measuring goes ahead by at most `ahead_s` of simulated time; commands of controllers take effect that much later.
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
    ) -> None:
        if not (math.isfinite(speed) and 0 < speed <= 1000):
            raise ConfigError(f"stream: speed must be above 0 and at most 1000, got {speed:g}")
        if not (math.isfinite(ahead_s) and 0 <= ahead_s <= 60):
            raise ConfigError(f"stream: ahead must be from 0 to 60 s, got {ahead_s:g}")
        self.scenario, self.outlets, self.loop, self.ahead_s = scenario, dict(outlets), loop, ahead_s
        self.controllers = list(controllers)
        self.clock = Clock(speed)
        self.summary = StreamSummary()
        self._standing = threading.RLock()

    def stop(self) -> None:
        """End the stream soon; may be called from any thread."""
        self.clock.stopped.set()

    def run(self, progress: Callable[[StreamSummary], None] | None = None) -> StreamSummary:
        """Stream until the scenario is over, or for ever where it loops. Outlets are closed in the end in any case."""
        told = self.summary
        senders = [Sender(name, outlet, self.clock, self._standing) for name, outlet in self.outlets.items()]
        told.lags = {sender.name: sender.lag for sender in senders}
        try:
            self._warm_up()
            while not self.clock.stopped.is_set():
                self._round(senders, progress or (lambda _: None))
                if not self.loop:
                    break
            self.clock.start()
            for sender in senders:
                sender.finish()
            told.finished = not self.clock.stopped.is_set()
        finally:
            told.seconds = self.clock.seconds
            self.stop()
            _close_all(senders)
        return told

    def _warm_up(self) -> None:
        """One frame of each sensor, thrown away: the first of a process compiles kernels, which takes seconds."""
        for sensor in self.scenario.frame_sensors:
            sensor.measure(self.scenario.world, 0, self.scenario.seed)

    def _round(self, senders: Sequence[Sender], progress: Callable[[StreamSummary], None]) -> None:
        told = self.summary
        before = told.rounds * self.scenario.steps * self.scenario.settings.step_s
        steps = iter(self.scenario)
        while True:
            with self._standing:
                step = next(steps, None)
                if step is None:
                    break
                for sender in senders:
                    sender.put(before, step)
                for control in self.controllers:
                    control(step)
            told.simulated_s = before + step.time
            for scans in step.scans.values():
                told.scans += len(scans)
                told.points += sum(len(scan) for _, scan in scans)
            progress(told)
            if not self._keep_pace(senders, told.simulated_s):
                return
        for sender in senders:
            sender.round_over(before)
        told.rounds += 1
        if self.loop:
            # Vehicles go back to their start now, so nobody may ask an old step any more.
            self.clock.start()
            for sender in senders:
                if sender.asks_steps:
                    sender.hold(math.inf)

    def _keep_pace(self, senders: Sequence[Sender], time_s: float) -> bool:
        """Wait where measuring is far enough ahead; False where the stream was stopped."""
        latest = time_s - self.ahead_s
        if latest >= 0:
            self.clock.start()
            self.clock.wait(latest, lambda: None)
        for sender in senders:
            sender.hold(latest)
        return not self.clock.stopped.is_set()


def _close_all(senders: Sequence[Sender]) -> None:
    """Close every outlet, though one fails; the first failure is raised in the end."""
    failure: BaseException | None = None
    for sender in senders:
        try:
            sender.close()
        except Exception as error:
            failure = failure or error
    if failure is not None:
        raise failure
