"""Control of a running scenario from other threads: one simulation thread, edits between steps, deferred replies.

    control = Control(scenario, log=EventLog("events.jsonl", scenario))
    threading.Thread(target=client, args=[control]).start()     # calls control.call(SetWeather(...))
    control.run()                                               # until a client quits

Front ends (WebSocket, ROS 2 services) are thin: they parse verbs, submit them and send the replies. A `Script` replays
the log of an earlier run with the same result.
"""

from __future__ import annotations

import math
import queue
import threading
import time as wall
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.scenario import verbs
from parhelion.scenario.editor import Editor
from parhelion.scenario.events import Event, EventLog, Script
from parhelion.scenario.scenario import Scenario, Step
from parhelion.scenario.verbs import Verb, VerbError

MOST_WAITING = 1000
"""Largest number of waiting verbs; further ones are refused."""
MOST_PER_STEP = 1000
"""Largest number of verbs between two steps of a playing scenario, so that a flood cannot stop the clock."""
_POLL_S = 0.1
_CATCH_UP_S = 0.5
"""Delay [s] behind the wall clock that is caught up; a longer one shifts the clock."""


@dataclass(frozen=True)
class Reply:
    """Answer to a verb."""

    result: Mapping[str, Any] = field(default_factory=dict)
    error: VerbError | None = None

    @property
    def outcome(self) -> dict[str, Any]:
        """Result or error as in the event log."""
        if self.error is None:
            return {"result": dict(self.result)}
        return {"error": {"code": self.error.code, "message": str(self.error)}}


Answer = Callable[[Reply], None]
Listener = Callable[[str, int, float, Any], None]
"""Function of sensor, number, time [s] and record, called in the simulation thread."""


class Control:
    """Runs a scenario and applies verbs between its steps.

    Args:
        scenario: The scenario.
        log: Log of all edits, or None.
        script: Events to replay instead of verbs of clients.
        playing: True to start the clock at once.
        speed: Simulated seconds per second of wall time while playing; infinite for no limit.
        check: Called before each step and while waiting; the run ends as by `quit` if it returns True.
    """

    def __init__(
        self,
        scenario: Scenario,
        *,
        log: EventLog | None = None,
        script: Script | None = None,
        playing: bool = True,
        speed: float = 1.0,
        check: Callable[[], bool] = lambda: False,
    ) -> None:
        if not speed > 0:
            raise ConfigError(f"speed: must be above 0, got {speed:g}")
        self.scenario, self.log, self.editor = scenario, log, Editor(scenario)
        self.playing = playing if script is None else script.playing
        """True while the clock runs by itself."""
        self.speed, self.step_number, self.time_s = speed, 0, 0.0
        self.episode = 0
        """Number of resets."""
        self.ended = False
        """True after the last step of the scenario, until a reset."""
        self.deviations: list[str] = []
        """Differences between the results of a replayed script and those in its file."""
        self.listeners: list[Listener] = []
        self.watchers: list[Callable[[Step], None]] = []
        """Functions that are called after each step, in the simulation thread."""
        self._check = check
        self._waiting: queue.Queue[tuple[Verb, Answer]] = queue.Queue(MOST_WAITING)
        self._script = None if script is None else list(reversed(script.events))
        self._stepping: tuple[int, Answer] | None = None
        """Steps that remain of a call, and its answer."""
        self._ending: verbs.Reset | verbs.Quit | None = None
        self._anchor: tuple[float, float] | None = None
        self._closed = threading.Event()

    # ---- from any thread -----------------------------------------------------------------------------------------

    def submit(self, verb: Verb, answer: Answer) -> None:
        """Queue a verb; `answer` is called once, in the simulation thread. Raise VerbError if the queue is full."""
        if self._closed.is_set():
            raise VerbError("wrong_state", "the run is over")
        try:
            self._waiting.put_nowait((verb, answer))
        except queue.Full:
            raise VerbError("busy", f"{MOST_WAITING} verbs are waiting; send fewer at once") from None

    def call(self, verb: Verb, timeout_s: float | None = None) -> dict[str, Any]:
        """Submit a verb from another thread, wait, and return its result; raise VerbError if it is refused."""
        answered = threading.Event()
        replies: list[Reply] = []

        def answer(reply: Reply) -> None:
            replies.append(reply)
            answered.set()

        self.submit(verb, answer)
        if not answered.wait(timeout_s):
            raise VerbError("failed", f"no reply within {timeout_s:g} s")
        if replies[0].error is not None:
            raise replies[0].error
        return dict(replies[0].result)

    # ---- the run, in the simulation thread -----------------------------------------------------------------------

    def run(self, folder: str | PathLike[str] | None = None, **options: Any) -> Any:
        """Run the scenario until a client quits, or until a script is over, and write outputs into a folder.

        After a reset, the outputs are written into the subfolder `reset-1`, `reset-2` ... Return the summary of the
        last run; `options` are those of `Scenario.run`.
        """
        summary = None
        try:
            while True:
                summary = self._episode(None if folder is None else Path(folder), options)
                if not isinstance(self._ending, verbs.Reset):
                    break
                self.editor.reset(self._ending.keep)
                self.episode += 1
                self.step_number, self.time_s, self.ended, self._ending = 0, 0.0, False, None
                self.scenario.rewind()
        finally:
            self._closed.set()
            self._refuse_all()
            if self.log is not None:
                self.log.close()
        return summary

    def _episode(self, folder: Path | None, options: Mapping[str, Any]) -> Any:
        self._anchor = summary = None
        if folder is None:
            for step in self.scenario.walk(between=self.between):
                self.take(step)
        else:
            target = folder / f"reset-{self.episode}" if self.episode else folder
            summary = self.scenario.run(target, resume=False, between=self.between, watch=self, **options)
        if self._ending is None:
            self.ended = True
            self.step_number, self.time_s = self.scenario.steps, self.scenario.now_s
            self._count_step()
            self._finish_stepping()
            self._wait_at_end()
        self._finish_stepping()
        return summary

    def between(self, number: int, time_s: float) -> str | None:
        """Apply the verbs that wait before a step; a text ends the run."""
        self.step_number, self.time_s = number, time_s
        if number > 0:
            self._count_step()
        if self._script is not None:
            self._replay()
            self._is_stopped()
        else:
            self._apply_waiting()
        if self._ending is None:
            return None
        return "reset" if isinstance(self._ending, verbs.Reset) else "quit"

    def take(self, step: Step) -> None:
        """Pass a step to the watchers, and its records to the listeners."""
        for watcher in self.watchers:
            watcher(step)
        for sensor, number, time_s, record in self.editor.take(step):
            for listener in list(self.listeners):
                listener(sensor, number, time_s, record)

    def close(self) -> list[Path]:
        """Do nothing: part of the interface of a sink."""
        return []

    def abandon(self) -> None:
        """Do nothing: part of the interface of a sink."""

    def on_page(self) -> str:
        """Note in the run report."""
        count = 0 if self.log is None else self.log.count
        return f"<p>{count} events changed this run; the event log repeats it.</p>"

    # ---- waiting -------------------------------------------------------------------------------------------------

    def _apply_waiting(self) -> None:
        """Apply verbs until the next step is due."""
        handled = 0
        while self._ending is None:
            if self._is_stopped():
                return
            running = self.playing or self._stepping is not None
            left = self._left_s() if running else math.inf
            if running and handled >= MOST_PER_STEP:
                return
            try:
                if left <= 0.0:
                    item = self._waiting.get_nowait()
                else:
                    item = self._waiting.get(timeout=min(left, _POLL_S))
            except queue.Empty:
                if running and self._left_s() <= 0.0:
                    return
                continue
            handled += 1
            self._handle(*item)

    def _is_stopped(self) -> bool:
        if self._check():
            self._handle(verbs.Quit(), lambda _: None)
        return self._ending is not None

    def _left_s(self) -> float:
        """Wall time [s] until the next step is due."""
        if not self.playing or math.isinf(self.speed):
            return 0.0
        now = wall.monotonic()
        if self._anchor is None:
            self._anchor = (now, self.time_s)
        left = self._anchor[0] + (self.time_s - self._anchor[1]) / self.speed - now
        if left < -_CATCH_UP_S:
            self._anchor = (now, self.time_s)
        return left

    def _wait_at_end(self) -> None:
        """Answer verbs after the last step until a reset or the end."""
        if self._script is not None:
            self._replay()
            return
        while self._ending is None and not self._is_stopped():
            try:
                self._handle(*self._waiting.get(timeout=_POLL_S))
            except queue.Empty:
                continue

    def _count_step(self) -> None:
        if self._stepping is not None:
            left, answer = self._stepping
            self._stepping = (left - 1, answer)
            if left <= 1:
                self._finish_stepping()

    def _finish_stepping(self) -> None:
        if self._stepping is None:
            return
        left, answer = self._stepping
        self._stepping = None
        if left > 0:
            why = "the scenario ended" if self._ending is None else f"{self._ending.op} ended the steps"
            hint = "; reset it" if self._ending is None else ""
            error = VerbError("failed", f"{why} at {self.time_s:g} s, {left} steps early{hint}")
            answer(Reply(error=error))
        else:
            answer(Reply(self._clock()))

    def _refuse_all(self) -> None:
        if self._stepping is not None:
            self._stepping[1](Reply(error=VerbError("wrong_state", "the run is over")))
            self._stepping = None
        while not self._waiting.empty():
            self._waiting.get_nowait()[1](Reply(error=VerbError("wrong_state", "the run is over")))

    # ---- verbs ---------------------------------------------------------------------------------------------------

    def _replay(self) -> None:
        """Apply the events of the script that belong before this step."""
        assert self._script is not None
        while self._script and self._script[-1].step <= self.step_number and self._ending is None:
            event = self._script.pop()
            self._handle(event.verb, self._compare(event))

    def _compare(self, event: Event) -> Answer:
        def answer(reply: Reply) -> None:
            # The reply to `step` comes after its steps, but its line is written before them.
            same = isinstance(event.verb, verbs.StepVerb) or reply.outcome == event.outcome
            if not same:
                self.deviations.append(f"line {event.line}: {event.verb.op}: {reply.outcome}")  # type: ignore[attr-defined]

        return answer

    def _handle(self, verb: Verb, answer: Answer) -> None:
        """Apply a verb, log it and answer it."""
        try:
            reply = Reply(self._apply(verb, answer))
        except VerbError as error:
            reply = Reply(error=error)
        except ParhelionError as error:
            reply = Reply(error=VerbError("failed", str(error)))
        if verb.edits and self.log is not None:
            self.log.add(self.step_number, self.time_s, verb, reply.outcome)
        deferred = isinstance(verb, verbs.StepVerb) and reply.error is None
        if not deferred:
            answer(reply)

    def _apply(self, verb: Verb, answer: Answer) -> Mapping[str, Any]:
        if isinstance(verb, verbs.Play):
            if self.ended:
                raise VerbError("wrong_state", self._over())
            self.playing, self._anchor = True, None
        elif isinstance(verb, verbs.Pause):
            self.playing = False
        elif isinstance(verb, verbs.StepVerb):
            self._start_stepping(verb, answer)
        elif isinstance(verb, verbs.Reset | verbs.Quit):
            self._ending = verb
        elif isinstance(verb, verbs.Status):
            return self._status()
        else:
            return self.editor.apply(verb)
        return {}

    def _start_stepping(self, verb: verbs.StepVerb, answer: Answer) -> None:
        if self.ended:
            raise VerbError("wrong_state", self._over())
        if self.playing:
            raise VerbError("wrong_state", "the clock runs; pause first")
        if self._stepping is not None:
            raise VerbError("wrong_state", "another call of step is not finished")
        self._stepping = (verb.steps, answer)

    def _over(self) -> str:
        return f"the scenario ended at {self.time_s:g} s; reset it"

    def _clock(self) -> dict[str, Any]:
        return {"step": self.step_number, "time_s": self.time_s}

    def _status(self) -> dict[str, Any]:
        world = self.scenario.world
        return {
            **self._clock(),
            "state": "ended" if self.ended else "playing" if self.playing else "paused",
            "episode": self.episode,
            "step_s": self.scenario.settings.step_s,
            "duration_s": self.scenario.settings.duration_s,
            "speed": None if math.isinf(self.speed) else self.speed,
            "weather": {} if world.weather is None else world.weather.to_mapping(),
            "daylight": {} if world.daylight is None else world.daylight.model_dump(mode="json", exclude_unset=True),
        }
