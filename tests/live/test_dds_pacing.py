"""Streams keep the pace of the wall clock, measure ahead within bounds, and end cleanly under all circumstances."""

from __future__ import annotations

import threading
import time
from typing import Any

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.live.pacing import PacedRun, SharedStep
from parhelion.scenario.scenario import Scenario

LATE_S = 0.4
"""Delay that is allowed on a busy machine [s]."""


def drive(duration_s: float = 0.4, step_s: float = 0.02) -> Scenario:
    """A robot and a barometer: without rays, so measuring takes almost no time."""
    return Scenario.from_mapping(
        {
            "duration_s": duration_s, "step_s": step_s, "world": "cuboids", "outputs": [],
            "vehicles": [{"name": "robot", "model": "clearpath/husky", "follow": {"points": [[5, 0, 0]]}}],
            "sensors": [{"name": "air", "type": "barometer", "model": "bosch/bmp388", "vehicle": "robot"}],
        }
    )  # fmt: skip


class Recorder:
    """Outlet that records every item with its time."""

    def __init__(self, fail_at: int = -1, slow_s: float = 0.0) -> None:
        self.taken: list[tuple[float, Any]] = []
        self.closed = 0
        self._fail_at, self._slow_s = fail_at, slow_s

    def take(self, step: Any) -> None:
        if len(self.taken) == self._fail_at:
            raise ConfigError("the cable is out")
        self.taken.append((time.monotonic(), step))
        time.sleep(self._slow_s)

    def close(self) -> None:
        self.closed += 1


class Cutter(Recorder):
    """Outlet that sends a step in two halves, and one more piece at the end."""

    def prepare(self, step: Any) -> list[tuple[float, Any]]:
        return [(step.time - 0.01, ("first", step.number)), (step.time, ("second", step.number))]

    def rest(self) -> list[tuple[float, Any]]:
        return [(0.4, ("rest", -1))]


@pytest.mark.parametrize("speed", [1.0, 4.0])
def test_steps_come_at_their_times(speed: float) -> None:
    recorder = Recorder()
    summary = PacedRun(drive(), {"recorder": recorder}, speed=speed).run()
    times = np.array([when for when, _ in recorder.taken])
    assert [step.number for _, step in recorder.taken] == list(range(20))
    assert (summary.finished, summary.rounds, recorder.closed) == (True, 1, 1)
    assert summary.simulated_s == pytest.approx(0.4)
    due = np.array([step.time for _, step in recorder.taken]) / speed
    behind = (times - times[0]) - (due - due[0])
    assert behind.min() > -LATE_S
    assert times[-1] - times[0] >= (due[-1] - due[0]) - summary.lags["recorder"].worst_s - 1e-3
    assert abs(np.median(behind)) < LATE_S
    assert summary.seconds >= 0.4 / speed - 1e-3
    assert summary.lags["recorder"].steps == 20


def test_pieces_have_times_of_their_own() -> None:
    cutter = Cutter()
    PacedRun(drive(), {"cutter": cutter}, speed=4).run()
    pieces = [piece for _, piece in cutter.taken]
    assert pieces[:4] == [("first", 0), ("second", 0), ("first", 1), ("second", 1)]
    assert pieces[-1] == ("rest", -1)
    assert len(pieces) == 41


def test_measuring_goes_ahead_but_not_too_far() -> None:
    recorder, leads = Recorder(), []
    flow = PacedRun(drive(1.0), {"recorder": recorder}, ahead_s=0.2, speed=2.0)
    flow.controllers.append(lambda step: leads.append(step.time - 2.0 * flow.clock.seconds))
    flow.run()
    # Never further ahead than requested, plus the step that is being measured.
    assert max(leads) <= 0.2 + 0.02 + 1e-6
    assert np.median(leads) > 0.0


def test_lag_of_a_slow_outlet_is_reported_and_others_wait_in_bounds() -> None:
    slow, quick = Recorder(slow_s=0.04), Recorder()
    summary = PacedRun(drive(), {"slow": slow, "quick": quick}, ahead_s=0.1).run()
    assert len(slow.taken) == len(quick.taken) == 20
    # 20 steps take 0.04 s each, where 0.02 s each were available.
    assert summary.lags["slow"].worst_s > 0.3
    assert summary.lags["slow"].mean_s <= summary.lags["slow"].worst_s


def test_other_threads_may_ask_a_step() -> None:
    class Asks(Recorder):
        def take(self, step: Any) -> None:
            assert isinstance(step, SharedStep)
            super().take((step.time, step.state("robot").xyz[0, 0], step.samples("air").pressure))

    asks = Asks()
    PacedRun(drive(), {"asks": asks}, speed=4).run()
    plain = [(step.time, step.state("robot").xyz[0, 0], step.samples("air").pressure) for step in drive()]
    for (_, got), want in zip(asks.taken, plain, strict=True):
        assert got[:2] == pytest.approx(want[:2], abs=1e-12)  # queried later, so after the end of the step
        np.testing.assert_array_equal(got[2], want[2])


def test_a_loop_goes_on_in_time_until_it_is_stopped() -> None:
    recorder = Recorder()
    flow = PacedRun(drive(0.2), {"recorder": recorder}, speed=4, loop=True)
    threading.Timer(0.5, flow.stop).start()
    summary = flow.run()
    numbers = [step.number for _, step in recorder.taken]
    assert numbers[:12] == [*range(10), 0, 1]
    assert not summary.finished
    assert summary.rounds >= 2
    assert recorder.closed == 1


def test_a_failing_outlet_ends_the_stream_and_all_are_closed() -> None:
    fails, other = Recorder(fail_at=3), Recorder()
    with pytest.raises(ConfigError, match="the cable is out"):
        PacedRun(drive(), {"fails": fails, "other": other}).run()
    assert (len(fails.taken), fails.closed, other.closed) == (3, 1, 1)
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("parhelion-")]


def test_a_failing_controller_ends_the_stream() -> None:
    def control(step: Any) -> None:
        if step.number == 5:
            raise KeyboardInterrupt

    recorder = Recorder()
    with pytest.raises(KeyboardInterrupt):
        PacedRun(drive(), {"recorder": recorder}, controllers=[control]).run()
    assert recorder.closed == 1


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"speed": 0.0}, "speed"),
        ({"speed": float("nan")}, "speed"),
        ({"ahead_s": -1.0}, "ahead"),
        ({"ahead_s": 61.0}, "ahead"),
    ],
)
def test_wrong_paces_are_refused(options: dict[str, float], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        PacedRun(drive(), {}, **options)
