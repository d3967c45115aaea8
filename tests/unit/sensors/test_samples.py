"""Clocks, digits, fixed errors and wheels of the small sensors, by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from numpy.typing import ArrayLike

from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.core.noise import (
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
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_normal, words
from parhelion.motion.state import BodyState
from parhelion.sensors.body.imu import Imu, ImuConfig
from parhelion.sensors.body.odometry import Odometry, OdometryConfig


def test_samples_are_counted_from_time_zero() -> None:
    assert [sample_number(time, 100.0) for time in (0.0, 0.001, 0.01, 0.1 + 0.2, -0.005)] == [0, 1, 1, 30, 0]
    assert sample_span(1.0, 0.5, 10.0) == (10, 5)
    assert sample_span(0.05, 0.1, 10.0) == (1, 1)
    # A hundred million samples per run, and times that integers can represent.
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
    data = Odometry("clearpath/husky", rate_hz=5.0, noise=False).run(None, Rush(), 0.0, 2.0)
    assert data.time == pytest.approx(np.arange(1, 11) / 5.0)
    assert data.xyz[:, 0] == pytest.approx(data.time**6, rel=1e-9)
    assert data.velocity[:, 0] == pytest.approx(np.diff(np.append(0.0, data.time**6)) * 5.0, rel=1e-9)


def imu_sheet(gyroscope: dict[str, float], accelerometer: dict[str, float]) -> ImuConfig:
    data = {
        "name": "test", "grade": "industrial", "rate_hz": 50.0, "max_rate_hz": 1000.0,
        "gyroscope": {"range_deg_s": 2000.0} | gyroscope, "accelerometer": {"range_g": 16.0} | accelerometer,
        "sources": [{"title": "a test", "covers": ["name"]}],
    }  # fmt: skip
    return parse(ImuConfig, data, "a test")


def test_sheets_that_name_no_errors_have_none() -> None:
    measured, truth = (
        Imu(imu_sheet({}, {}), noise=noise).run(None, Rush(), 0.0, 1.0, seed=3) for noise in (True, False)
    )
    np.testing.assert_array_equal(measured.specific_force, truth.specific_force)
    np.testing.assert_array_equal(measured.angular_rate, truth.angular_rate)
    assert not measured.specific_force_covariance.any()
    assert not measured.angular_rate_covariance.any()
    wheels = {
        "name": "cart", "kind": "car", "rate_hz": 10.0, "max_rate_hz": 100.0, "wheel_radius_m": 0.3, "track_m": 1.5,
        "wheelbase_m": 2.5, "ticks_per_turn": 1_000_000_000, "sources": [{"title": "a test", "covers": ["name"]}],
    }  # fmt: skip
    sheet = parse(OdometryConfig, wheels, "a test")
    plain, exact = (Odometry(sheet, noise=noise).run(None, Rush(), 0.0, 1.0, seed=3) for noise in (True, False))
    np.testing.assert_allclose(plain.xyz, exact.xyz, atol=1e-7)
    np.testing.assert_array_equal(plain.steering_angle, exact.steering_angle)


def test_units_of_the_imus_sheet() -> None:
    """Degrees, milli-g and micro-g in SI, times the very draws of the unit; variances of white noise and rounding."""
    gyroscope = {
        "turn_on_bias_deg_s": 2.0, "scale_factor_percent": 3.0, "misalignment_deg": 0.5, "g_sensitivity_deg_s_g": 0.1,
        "noise_deg_s_sqrt_hz": 0.01, "resolution_deg_s": 0.02,
    }  # fmt: skip
    accelerometer = {
        "turn_on_bias_mg": 30.0, "scale_factor_percent": 1.0, "misalignment_deg": 0.2, "noise_ug_sqrt_hz": 200.0,
        "resolution_mg": 0.5,
    }  # fmt: skip
    imu = Imu(imu_sheet(gyroscope, accelerometer))
    unit, g, degree = imu.unit(6), 9.80665, math.pi / 180
    for name, found, scale, lean, bias in (
        ("gyroscope", unit.gyroscope, 0.03, 0.5 * degree, 2.0 * degree),
        ("accelerometer", unit.accelerometer, 0.01, 0.2 * degree, 0.030 * g),
    ):
        draws = normals(Stream(6, f"imu/test//{name}"), np.arange(3))
        spread = np.where(np.eye(3) > 0, scale, lean)
        np.testing.assert_allclose(found.matrix, np.eye(3) + spread * draws[:, :3], rtol=1e-12)
        np.testing.assert_allclose(found.bias, bias * draws[:, 3], rtol=1e-12)
    draws = normals(Stream(6, "imu/test//g-sensitivity"), np.arange(3))
    np.testing.assert_allclose(unit.g_sensitivity, 0.1 * degree / g * draws[:, :3], rtol=1e-12)
    data = imu.run(None, Rush(), 0.0, 0.1, seed=6)
    rate = (0.01 * degree) ** 2 * 50.0 + (0.02 * degree) ** 2 / 12.0
    force = (200e-6 * g) ** 2 * 50.0 + (0.5e-3 * g) ** 2 / 12.0
    np.testing.assert_allclose(data.angular_rate_covariance, rate * np.eye(3), rtol=1e-12)
    np.testing.assert_allclose(data.specific_force_covariance, force * np.eye(3), rtol=1e-12)
