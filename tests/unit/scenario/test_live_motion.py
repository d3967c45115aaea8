"""Recorded motion of driven vehicles: a part of the record gives the same bits as the whole record."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core import history
from parhelion.motion.drivers import DrivenMotion
from parhelion.motion.vehicles.base import state_of_rows
from parhelion.scenario.bodies import LiveMotion

STEP_S, COUNT = 0.01, 300


@pytest.fixture(params=[512, 4], ids=["in memory", "in a file"])
def live(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> tuple[LiveMotion, np.ndarray, np.ndarray]:
    """A motion with its rows (n, 20) and the rates (n - 1, 2) of its wheels."""
    monkeypatch.setattr(history, "RECENT_BYTES", 0)
    monkeypatch.setattr(history, "RECENT_ROWS", request.param)
    rng = np.random.default_rng(5)
    rows = rng.normal(size=(COUNT, 20))
    rows[:, 0] = STEP_S * np.arange(COUNT)
    rows[:, 4:8] /= np.linalg.norm(rows[:, 4:8], axis=1, keepdims=True)
    rates = rng.normal(size=(COUNT - 1, 2))
    motion = LiveMotion(tuple(rows[0].tolist()))
    for row, rate in zip(rows[1:], rates, strict=True):
        motion.append(tuple(row.tolist()), rate)
    return motion, rows, rates


TIMES = np.concatenate([np.random.default_rng(2).uniform(0.0, 3.0, 40), STEP_S * np.array([0, 1, 17, 298, 299])])


def test_states_at_any_time_are_those_of_the_whole_record(live: tuple[LiveMotion, np.ndarray, np.ndarray]) -> None:
    motion, rows, _ = live
    whole = DrivenMotion(state_of_rows(rows))
    for times in (*np.split(TIMES, 9), TIMES, np.array([-1.0, 99.0])):
        xyz, quat = motion.sample(times)
        assert np.array_equal(xyz, whole.sample(times)[0])
        assert np.allclose(np.abs(np.sum(quat * whole.sample(times)[1], axis=1)), 1.0, atol=1e-12)
        assert np.array_equal(motion.state(times).velocity, whole.state(times).velocity)
    assert np.array_equal(motion.latest().xyz, rows[-1:, 1:4])


def test_wheels_turn_as_in_the_whole_record(live: tuple[LiveMotion, np.ndarray, np.ndarray]) -> None:
    motion, rows, rates = live
    steps = np.array([late - early for early, late in zip(rows[:-1, 0], rows[1:, 0], strict=True)])
    angles = np.concatenate([np.zeros((1, 2)), np.cumsum(rates * steps[:, None], axis=0)])
    for times in (*np.split(TIMES, 9), TIMES, np.array([-1.0, 99.0])):
        expected = np.stack([np.interp(times, rows[:, 0], angles[:, k]) for k in range(2)], axis=1)
        found = motion.wheel_angles(times, 2)
        assert found is not None
        assert np.array_equal(found, expected)
    assert motion.wheel_angles(TIMES, 3) is None


def test_a_restart_forgets_the_record(live: tuple[LiveMotion, np.ndarray, np.ndarray]) -> None:
    motion, rows, _ = live
    motion.restart(tuple(rows[7].tolist()))
    assert np.array_equal(motion.sample(np.array([0.0, 2.0]))[0], rows[[7, 7], 1:4])
    assert motion.wheel_angles(TIMES, 2) is None
