"""Allan deviation: the estimator against published numbers, and simulated hours against their data sheets."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import ArrayLike

from chance import deviations, spread_bounds
from parhelion.calibrate.imu import (
    AllanFit,
    allan_deviation,
    fit_allan,
    gauss_markov_allan,
)
from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.core.noise import GAUSS_MARKOV_PEAK, gauss_markov
from parhelion.core.pose import Floats
from parhelion.motion.state import BodyState
from parhelion.sensors.body.imu import Imu, ImuConfig
from pins import check

G = 9.80665
DEG = np.pi / 180.0
HOUR = 3600.0


class Still:
    """Does not move, and knows it without differences."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        state = self.state(times)
        return state.xyz, state.quat_xyzw

    def state(self, times: ArrayLike) -> BodyState:
        t = np.asarray(times, dtype=np.float64)
        rest = np.zeros((len(t), 3))
        return BodyState(t, rest, np.tile([0.0, 0.0, 0.0, 1.0], (len(t), 1)), rest, rest, rest, rest)


def unit(gyroscope: dict[str, Any], accelerometer: dict[str, Any]) -> ImuConfig:
    data = {
        "name": "test", "grade": "industrial", "rate_hz": 100.0, "max_rate_hz": 1000.0,
        "gyroscope": {"range_deg_s": 100.0} | gyroscope, "accelerometer": {"range_g": 4.0} | accelerometer,
        "sources": [{"title": "a test", "covers": ["name"]}],
    }  # fmt: skip
    return parse(ImuConfig, data, "a test")


# ---- the estimator -------------------------------------------------------------------------------------------------


def test_published_numbers() -> None:
    """The 1000-point test set of NIST SP 1065 (Riley 2008, section 12.4), overlapping Allan deviation."""
    values, number = np.empty(1000), 1234567890
    for i in range(1000):
        values[i] = number / 2147483647
        number = 16807 * number % 2147483647
    tau, deviation = allan_deviation(values, 1.0, [1.0, 10.0, 100.0])
    np.testing.assert_array_equal(tau, [1.0, 10.0, 100.0])
    np.testing.assert_allclose(deviation, [2.922319e-01, 9.159953e-02, 3.241343e-02], rtol=2e-7)


def test_against_the_definition() -> None:
    """Means of neighbouring spans, one by one, at a rate other than 1 Hz and on several columns."""
    values = np.random.default_rng(1).normal(size=(400, 2)).cumsum(axis=0) + 50.0
    tau, deviation = allan_deviation(values, 20.0, np.array([3, 17, 60]) / 20.0)
    for row, m in enumerate((3, 17, 60)):
        means = np.array([values[k : k + m].mean(axis=0) for k in range(400 - m + 1)])
        expected = np.sqrt(0.5 * np.mean((means[m:] - means[:-m]) ** 2, axis=0))
        np.testing.assert_allclose(deviation[row], expected, rtol=1e-10)
        assert tau[row] == m / 20.0


def test_closed_form_of_a_gauss_markov_process() -> None:
    """Its highest point is where it should be, and the series joins the closed form."""
    tau = np.linspace(1.0, 3.0, 200_001)
    curve = gauss_markov_allan(tau, 1.0, 1.0)
    assert curve.max() == pytest.approx(GAUSS_MARKOV_PEAK, abs=1e-7)
    assert tau[curve.argmax()] == pytest.approx(1.892618, abs=1e-3)
    below, above = gauss_markov_allan([3e-3 * (1 - 1e-9), 3e-3 * (1 + 1e-9)], 2.0, 1.0)
    assert below == pytest.approx(above, rel=1e-7)
    # At short times it is a random walk of rate 2 σ² / T, at long ones white noise of density 2 σ² T.
    assert gauss_markov_allan(1e-4, 1.0, 1.0) == pytest.approx(np.sqrt(2.0 * 1e-4 / 3.0), rel=1e-4)
    assert gauss_markov_allan(1e4, 1.0, 1.0) == pytest.approx(np.sqrt(2.0 / 1e4), rel=1e-3)


def test_a_fit_returns_the_curve_it_was_made_from() -> None:
    made = AllanFit(0.003, 0.0005, 80.0)
    tau = np.geomspace(0.01, 1000.0, 60)
    found = fit_allan(tau, made.deviation(tau))
    assert found.white_noise == pytest.approx(0.003, rel=1e-4)
    assert found.bias_instability == pytest.approx(0.0005, rel=1e-4)
    assert found.correlation_time_s == pytest.approx(80.0, rel=1e-3)
    assert found.bias_sigma == pytest.approx(0.0005 / 0.61736, rel=1e-3)


def test_bad_input() -> None:
    values = np.arange(100.0)
    with pytest.raises(ConfigError, match="values must be at least 3 finite samples"):
        allan_deviation([1.0, np.nan, 2.0, 3.0], 1.0)
    with pytest.raises(ConfigError, match="rate_hz: must be above 0"):
        allan_deviation(values, 0.0)
    with pytest.raises(ConfigError, match=r"tau_s: must be from 0\.1 to 4\.9 s"):
        allan_deviation(values, 10.0, [6.0])
    with pytest.raises(ConfigError, match="at least four pairs"):
        fit_allan([1.0, 2.0], [1.0, 2.0])
    with pytest.raises(ConfigError, match="finite and above 0"):
        fit_allan([1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 0.0, 1.0])


def test_times_and_limits_of_the_estimator() -> None:
    """By default 20 spans per decade up to a tenth of the record; given ones up to half of it."""
    values = np.random.default_rng(2).normal(size=300)
    tau, _ = allan_deviation(values, 2.0)
    spans = np.unique(np.rint(np.geomspace(1.0, 30.0, 30)))
    assert tau.tolist() == (spans / 2.0).tolist()
    assert allan_deviation(values[:3], 1.0)[0].tolist() == [1.0]
    for n, last in ((9, 4), (10, 4), (11, 5)):
        assert allan_deviation(values[:n], 1.0, [float(last)])[0].tolist() == [last]
        with pytest.raises(ConfigError, match="tau_s: must be from 1 to"):
            allan_deviation(values[:n], 1.0, [last + 1.0])
    with pytest.raises(ConfigError, match="tau_s: must be from"):
        allan_deviation(values, 1.0, [0.4])
    for wrong in (3.0, [1.0, np.nan], [[1.0, 2.0]]):
        with pytest.raises(ConfigError, match="tau_s: must be a list of finite numbers"):
            allan_deviation(values, 1.0, wrong)
    for wrong in (values[:2], 5.0, np.ones((3, 3, 3))):
        with pytest.raises(ConfigError, match="at least 3 finite samples"):
            allan_deviation(wrong, 1.0)
    for rate in (-1.0, np.inf):
        with pytest.raises(ConfigError, match="rate_hz: must be above 0"):
            allan_deviation(values, rate)


def test_fits_of_noisy_curves() -> None:
    """No parameter can be changed by 1 % for a better fit; four points are enough, and both curves must be positive."""
    tau = np.geomspace(0.01, 1000.0, 40)
    rough = AllanFit(0.003, 0.0005, 80.0).deviation(tau) * np.exp(np.random.default_rng(3).normal(0.0, 0.2, 40))
    found, four = fit_allan(tau, rough), fit_allan(tau[::13], rough[::13])
    assert four.white_noise == pytest.approx(found.white_noise, rel=1.0)

    def cost(factors: tuple[float, ...]) -> float:
        values = (found.white_noise, found.bias_instability, found.correlation_time_s)
        fit = AllanFit(*(value * factor for value, factor in zip(values, factors, strict=True)))
        return float(np.sum(np.log(fit.deviation(tau) / rough) ** 2 / tau))

    for factor in (0.99, 1.01):
        others = [cost((factor, 1.0, 1.0)), cost((1.0, factor, 1.0)), cost((1.0, 1.0, factor))]
        assert cost((1.0, 1.0, 1.0)) < 1.00001 * min(others)
    check("calibrate/allan", rel=1e-6, walk=gauss_markov_allan(np.geomspace(1e-3, 1e3, 25), 2.0, 3.0))
    with pytest.raises(ConfigError, match="at least four pairs"):
        fit_allan(tau[:3], rough[:3])
    with pytest.raises(ConfigError, match="at least four pairs"):
        fit_allan(tau[:5], rough[:4])
    with pytest.raises(ConfigError, match="at least four pairs"):
        fit_allan(tau[:, None], rough[:, None])
    for wrong in (-1.0, np.nan, np.inf):
        for place in (0, 1):
            pair = [tau[:5].copy(), rough[:5].copy()]
            pair[place][2] = wrong
            with pytest.raises(ConfigError, match="finite and above 0"):
                fit_allan(*pair)


# ---- the bias walk -------------------------------------------------------------------------------------------------


def test_the_walk_is_gauss_markov() -> None:
    """Variance 1 and correlation exp(-lag / time), over 400 independent records of 4096 samples.

    A mean of n samples with the correlation exp(-lag / T) has the variance 2 T / n. So have means of products at a lag,
    at most: theirs is the sum of rho_k^2 + rho_(k - lag) rho_(k + lag) over k, by n, which is largest at lag 0.
    """
    walk = np.concatenate([gauss_markov(seed, "walk", -2000, 4096, 10.0) for seed in range(100)], axis=1)
    sigma = np.sqrt(2.0 * 10.0 / walk.size)
    assert abs(walk.mean()) < deviations(7) * sigma
    for lag in (0, 1, 3, 10, 30, 100):
        found = np.mean(walk[lag:] * walk[: len(walk) - lag])
        assert found == pytest.approx(np.exp(-lag / 10.0), abs=deviations(7) * sigma), lag
    # Given its neighbour, a value does not know the one before (the process has no other memory).
    left = walk[1:-1] - np.exp(-0.1) * walk[:-2]
    right = walk[2:] - np.exp(-0.1) * walk[1:-1]
    assert abs(np.corrcoef(left.ravel(), right.ravel())[0, 1]) < deviations() / np.sqrt(left.size)


def test_the_walk_is_as_wide_at_every_sample() -> None:
    """No sample is privileged by where it hangs between its neighbours: variance by sample, 1000 records."""
    walk = np.concatenate([gauss_markov(seed, "walk", 0, 64, 5.0) for seed in range(250)], axis=1)
    deviation = np.sqrt(2.0 / 1000.0)
    assert np.abs(walk.var(axis=1) - 1.0).max() < deviations(64) * deviation
    steps = np.diff(walk, axis=0).var(axis=1) / (2.0 - 2.0 * np.exp(-0.2))
    assert np.abs(steps - 1.0).max() < deviations(64) * deviation


def test_walk_is_its_own_in_any_order_and_far_away() -> None:
    far = 2**40 + 12_345
    whole = gauss_markov(1, "walk", far, 100, 30.0)
    assert whole.tobytes() == np.concatenate([gauss_markov(1, "walk", far + k, 1, 30.0) for k in range(100)]).tobytes()
    assert not np.array_equal(whole, gauss_markov(1, "walk", far + 2**32, 100, 30.0))


def test_units_of_one_model_differ_as_the_sheet_says() -> None:
    """Standard deviations over 300 seeds, and their own deviations (1 / √(2 n))."""
    imu = Imu("invensense/mpu-9250")
    units = [imu.unit(seed) for seed in range(300)]
    gyro, accel = imu.config.gyroscope, imu.config.accelerometer
    diagonal = np.eye(3, dtype=bool)
    for found, expected in (
        ([u.gyroscope.bias for u in units], gyro.turn_on_bias_deg_s * DEG),
        ([u.accelerometer.bias for u in units], accel.turn_on_bias_mg * 1e-3 * G),
        ([u.gyroscope.matrix[diagonal] - 1.0 for u in units], gyro.scale_factor_percent / 100.0),
        ([u.accelerometer.matrix[~diagonal] for u in units], accel.misalignment_deg * DEG),
        ([u.g_sensitivity for u in units], gyro.g_sensitivity_deg_s_g * DEG / G),
    ):
        values = np.array(found)
        assert np.sqrt(np.mean(values**2)) == pytest.approx(expected, rel=deviations(10) / np.sqrt(2.0 * values.size))
        assert abs(values.mean()) < deviations(10) * expected / np.sqrt(values.size)


def test_measured_minus_truth_is_bias_and_noise() -> None:
    walk = {"bias_instability_deg_h": 50.0, "bias_correlation_time_s": 20.0, "turn_on_bias_deg_s": 1.0}
    imu = Imu(unit(walk, {}))
    data = imu.run(None, Still(), 5.0, 10.0, seed=4)
    gyro, accel = imu.biases(5.0, 10.0, 4)
    np.testing.assert_allclose(data.angular_rate, gyro, atol=1e-15)
    np.testing.assert_array_equal(accel, 0.0)
    assert np.ptp(gyro[:, 0]) > 1e-5  # the bias does walk


def spans_error(spans: float, comparisons: int = 1) -> float:
    """Relative bound on an Allan deviation from this many spans that know nothing of each other.

    It is a root of a mean of squares, and known to 1 / sqrt(2 n). Overlapping spans only make it better.
    """
    return deviations(comparisons) / float(np.sqrt(2.0 * spans))


# ---- simulated hours -----------------------------------------------------------------------------------------------


def test_one_hour_gives_noise_and_bias_back() -> None:
    """One unit, one hour at 40 Hz, three axes averaged.

    The bias forgets itself within 4 s, so that an hour holds enough of it: 480 spans of 7.6 s, where its curve is
    highest, on each axis. White noise is read at one second and less. Where the curve falls, at three times 7.6 s and
    beyond, it falls by the root of time: what it is off there counts twice in the time of correlation.
    """
    config = unit(
        {"noise_deg_s_sqrt_hz": 0.005, "bias_instability_deg_h": 20.0, "bias_correlation_time_s": 4.0},
        {"noise_ug_sqrt_hz": 60.0, "bias_instability_ug": 50.0, "bias_correlation_time_s": 4.0},
    )
    data = Imu(config, rate_hz=40.0).run(None, Still(), 0.0, HOUR, seed=1)
    assert len(data) == 144_000
    for values, noise, instability in (
        (data.angular_rate / DEG, 0.005, 20.0 / 3600.0),
        (data.specific_force / G * 1e6, 60.0, 50.0),
    ):
        tau, deviation = allan_deviation(values, 40.0)
        found = fit_allan(tau, np.sqrt(np.mean(deviation**2, axis=1)))
        assert found.white_noise == pytest.approx(noise, rel=spans_error(3 * HOUR))
        assert found.bias_instability == pytest.approx(instability, rel=spans_error(3 * HOUR / 7.6))
        assert found.correlation_time_s == pytest.approx(4.0, rel=2.0 * spans_error(3 * HOUR / (3 * 7.6)))


def test_a_data_sheet_comes_back_from_many_hours() -> None:
    """ADIS16470, one hour each of 60 units: white noise and bias instability of the sheet.

    Its bias is highest at 284 s, of which one hour holds 12: a single unit is known to 20 % there, 180 axes to 1.5 %.
    White noise is read at 10 s and less.
    """
    imu = Imu("analog-devices/adis16470", rate_hz=2.0)
    gyro, accel = imu.config.gyroscope, imu.config.accelerometer
    runs = [imu.run(None, Still(), 0.0, HOUR, seed=seed) for seed in range(60)]
    for values, noise, instability in (
        ([run.angular_rate / DEG for run in runs], gyro.noise_deg_s_sqrt_hz, gyro.bias_instability_deg_h / 3600.0),
        ([run.specific_force / G * 1e6 for run in runs], accel.noise_ug_sqrt_hz, accel.bias_instability_ug),
    ):
        tau, deviation = allan_deviation(np.concatenate(values, axis=1), 2.0, np.geomspace(0.5, 900.0, 40))
        measured = np.sqrt(np.mean(deviation**2, axis=1))
        found = fit_allan(tau, measured)
        assert found.white_noise == pytest.approx(noise, rel=spans_error(180 * HOUR / 10.0))
        assert found.bias_instability == pytest.approx(instability, rel=spans_error(180 * HOUR / 284.0))
        expected = AllanFit(noise, instability, 150.0).deviation(tau)
        limits = np.array([spans_error(180 * (HOUR / t - 1), len(tau)) for t in tau])
        assert np.all(np.abs(measured / expected - 1) < limits)


@pytest.mark.parametrize("rate_hz", [50.0, 400.0])
def test_white_noise_does_not_depend_on_the_rate(rate_hz: float) -> None:
    """N √rate for one sample, N at one second whatever the rate: 400 s, three axes."""
    config = unit({"noise_deg_s_sqrt_hz": 0.01}, {"noise_ug_sqrt_hz": 100.0})
    data = Imu(config, rate_hz=rate_hz).run(None, Still(), 0.0, 400.0, seed=2)
    low, high = spread_bounds(data.angular_rate.size)
    assert low < data.angular_rate.std() / (0.01 * DEG * np.sqrt(rate_hz)) < high
    assert data.angular_rate_covariance[1, 1] == pytest.approx((0.01 * DEG) ** 2 * rate_hz)
    _, deviation = allan_deviation(data.specific_force, rate_hz, [1.0])
    assert np.sqrt(np.mean(deviation**2)) == pytest.approx(100e-6 * G, rel=spans_error(3 * 400))
