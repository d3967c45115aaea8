"""Clocks, digits, fixed errors and wheels of the small sensors, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_normal, words
from parhelion.motion.state import BodyState
from parhelion.sensors.imu.errors import (
    AxesErrors,
    chosen_rate,
    digitised,
    drawn_axes,
    gauss_markov,
    normals,
    rounding_variance,
    sample_number,
    sample_span,
    transformed,
    white,
)
from parhelion.sensors.odometry import Odometry


def test_samples_are_counted_from_time_zero() -> None:
    assert [sample_number(time, 100.0) for time in (0.0, 0.001, 0.01, 0.1 + 0.2, -0.005)] == [0, 1, 1, 30, 0]
    assert sample_span(1.0, 0.5, 10.0) == (10, 5)
    assert sample_span(0.05, 0.1, 10.0) == (1, 1)
    # A hundred million samples a run, and times that whole numbers can tell apart.
    assert sample_span(0.0, 1e6, 100.0) == (0, 100_000_000)
    with pytest.raises(ConfigError, match="split it"):
        sample_span(0.0, 1e6 + 0.02, 100.0)
    assert sample_number((2.0**52 - 4) / 64, 64.0) == 2**52 - 6  # four of the last bits, half a sample each
    with pytest.raises(ConfigError, match="too far from 0"):
        sample_number(2.0**52, 1.0)
    for bad in (0.0, -1.0, math.inf, math.nan):
        with pytest.raises(ConfigError, match="duration"):
            sample_span(0.0, bad, 10.0)
    with pytest.raises(ConfigError, match="time: must be finite"):
        sample_number(math.nan, 10.0)


def test_rates_are_the_users_within_the_sheets() -> None:
    assert (chosen_rate(None, 100.0, 400.0), chosen_rate(400, 100.0, 400.0)) == (100.0, 400.0)
    for bad in (0.0, -1.0, 400.1, math.nan):
        with pytest.raises(ConfigError, match="at most 400 Hz"):
            chosen_rate(bad, 100.0, 400.0)


def test_digits_stay_within_the_range() -> None:
    values = np.array([-9.0, -0.26, -0.24, 0.0, 0.74, 0.76, 9.0])
    assert digitised(values, 2.0, 0.5).tolist() == [-2.0, -0.5, 0.0, 0.0, 0.5, 1.0, 2.0]
    # The last whole step below a limit that is none; 0 is continuous.
    assert digitised(values, 1.2, 0.5).tolist() == [-1.0, -0.5, 0.0, 0.0, 0.5, 1.0, 1.0]
    assert digitised(values, 1.2, 0.0).tolist() == [-1.2, -0.26, -0.24, 0.0, 0.74, 0.76, 1.2]
    # 0.3 / 0.1 is a little less than 3 in floats: the limit itself is a whole step.
    assert digitised(np.array([5.0]), 0.3, 0.1) == pytest.approx([0.3])
    even = (np.arange(1000) + 0.5) / 1000 - 0.5
    assert rounding_variance(0.7) == pytest.approx(np.mean((0.7 * even) ** 2), rel=1e-5)


def test_normal_numbers_are_those_of_the_words() -> None:
    """Four of a sample's number: low word and high word of it are element and draw."""
    stream = Stream(4, "imu")
    for number in (5, 2**33 + 7):
        a, b, c, d = words(stream.key, np.array([number % 2**32]), number // 2**32)
        expected = np.concatenate([*to_normal(a, b), *to_normal(c, d)])
        assert normals(stream, np.array([number], dtype=np.int64))[0] == pytest.approx(expected, rel=1e-6)


def test_blocks_are_the_same_however_many_are_asked_for() -> None:
    whole = white(1, "x", 500, 1000)
    assert np.array_equal(whole[10:15], white(1, "x", 510, 5))
    assert np.array_equal(whole[12:14], white(1, "x", 512, 2))
    walk = gauss_markov(1, "x", 500, 1000, 20.0)
    assert np.array_equal(walk[10:15], gauss_markov(1, "x", 510, 5, 20.0))
    assert white(1, "x", 3, 0).shape == (0, 4)


def test_matrices_act_on_every_row() -> None:
    matrix, rows = np.arange(9.0).reshape(3, 3), np.array([[1.0, 2.0, 3.0], [0.0, -1.0, 0.5]])
    np.testing.assert_allclose(transformed(matrix, rows), rows @ matrix.T, rtol=1e-15)


def test_fixed_errors_are_drawn_by_their_deviations() -> None:
    unit = drawn_axes(2, "imu", scale=0.01, misalignment_rad=0.002, bias=0.3)
    draws = normals(Stream(2, "imu"), np.arange(3))
    for row in range(3):
        for column in range(3):
            spread = 0.01 if row == column else 0.002
            assert unit.matrix[row, column] == pytest.approx(float(row == column) + spread * draws[row, column])
        assert unit.bias[row] == pytest.approx(0.3 * draws[row, 3])
    assert not unit.matrix.flags.writeable
    for matrix, bias in ((np.eye(2), np.zeros(3)), (np.eye(3), np.zeros(2)), (np.eye(3) * np.nan, np.zeros(3))):
        with pytest.raises(ConfigError, match="unit errors"):
            AxesErrors(matrix, bias)


class Rush:
    """Along x by t^6, which Gauss's three points sum exactly: its speed is a polynomial of degree 5."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        state = self.state(times)
        return state.xyz, state.quat_xyzw

    def state(self, times: ArrayLike) -> BodyState:
        t = np.asarray(times, dtype=np.float64)
        x, none = np.eye(3)[0], np.zeros((len(t), 3))
        way, speed, pull = (np.outer(values, x) for values in (t**6, 6 * t**5, 30 * t**4))
        return BodyState(t, way, np.tile([0.0, 0.0, 0.0, 1.0], (len(t), 1)), speed, none, pull, none)


def test_wheels_roll_the_whole_way_of_a_motion_that_speeds_up() -> None:
    data = Odometry("clearpath-husky", rate_hz=5.0, noise=False).run(Rush(), 0.0, 2.0)
    assert data.time == pytest.approx(np.arange(1, 11) / 5.0)
    assert data.xyz[:, 0] == pytest.approx(data.time**6, rel=1e-9)
    assert data.velocity[:, 0] == pytest.approx(np.diff(np.append(0.0, data.time**6)) * 5.0, rel=1e-9)
