"""Noise as distributions, with fixed seeds; `chance` states the significance of the limits."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import parhelion as ph
from chance import LIKELY, deviations, spread_bounds
from parhelion.core.random import Stream, to_normal, to_unit
from parhelion.sensors.optics.lidar.link_budget import (
    background_noise_factor,
    detection_probability,
    false_alarm_rate,
    fit_range_sigma,
    range_sigma,
)
from rigs import many_beams, sheet, wall

N = 20_000


def test_philox_known_answers() -> None:
    from parhelion.core.random import philox

    zero, ones = np.zeros(1, np.uint32), np.full(1, 0xFFFFFFFF, np.uint32)
    assert [hex(int(w[0])) for w in philox((zero,) * 4, (zero,) * 2)] == [
        "0x6627e8d5", "0xe169c58d", "0xbc57ac4c", "0x9b00dbd8",
    ]  # fmt: skip
    with np.errstate(over="ignore"):
        assert [hex(int(w[0])) for w in philox((ones,) * 4, (ones,) * 2)] == [
            "0x408f276d", "0x41c83b0e", "0xa20bc7c6", "0x6d5451fd",
        ]  # fmt: skip


def test_uniform_and_normal_draws() -> None:
    a, b, c, d = Stream(1, "test").words(np.arange(100_000))
    for word in (a, b, c, d):
        assert stats.kstest(to_unit(word), "uniform").pvalue > LIKELY
        counts = np.bincount(word >> 24, minlength=256)
        assert stats.chisquare(counts).pvalue > LIKELY
    for sample in to_normal(a, b):
        assert stats.kstest(sample, "norm").pvalue > LIKELY
    assert abs(np.corrcoef(to_unit(a), to_unit(b))[0, 1]) < deviations() / np.sqrt(100_000)


@pytest.mark.parametrize("change", [{"seed": 2}, {"name": "other"}, {"number": 1}])
def test_streams_are_independent(change: dict[str, object]) -> None:
    base = {"seed": 1, "name": "test", "number": 0}
    a = to_unit(Stream(**base).words(np.arange(50_000))[0])
    b = to_unit(Stream(**{**base, **change}).words(np.arange(50_000))[0])
    assert abs(np.corrcoef(a, b)[0, 1]) < deviations() / np.sqrt(50_000)


def test_numpy_and_kernels_draw_the_same_words() -> None:
    from parhelion.rays.device import engine

    e = engine()
    stream = Stream(12345, "lidar", 99)
    for x, y in zip(stream.words(np.arange(1000), 5), stream.words(e.dr.arange(e.mi.UInt32, 1000), 5), strict=True):
        assert np.array_equal(x, y.numpy())


def test_range_noise_is_gaussian_with_the_stated_sigma() -> None:
    config = many_beams(N, noise={"range_sigma_m": 0.02})
    scan = ph.Lidar(config).scan(wall(20.0), pose=ph.Pose(), seed=11)
    assert len(scan) == N
    error = scan.range.astype(float) - 20.0
    assert stats.kstest(error / 0.02, "norm").pvalue > LIKELY


@pytest.mark.parametrize("distance", [20.0, 60.0])
def test_range_noise_grows_as_the_signal_falls(distance: float) -> None:
    config = many_beams(N, noise={"range_sigma_m": 0.01, "range_sigma_snr_m": 0.5})
    scan = ph.Lidar(config).scan(wall(distance), pose=ph.Pose(), seed=12)
    snr = (0.5 / 0.9) * (100 / distance) ** 2 * 6
    expected = float(range_sigma(snr, sigma_0=0.01, sigma_1=0.5))
    # The sample variance of n normal numbers has relative deviation sqrt(2 / n).
    assert np.var(scan.range - distance) == pytest.approx(expected**2, rel=deviations() * np.sqrt(2 / len(scan)))


def test_range_sigma_table_replaces_the_formula() -> None:
    config = many_beams(N, noise={"range_sigma_m": 1.0, "range_sigma_table": [(0.0, 0.01), (40.0, 0.05)]})
    scan = ph.Lidar(config).scan(wall(20.0), pose=ph.Pose(), seed=13)
    low, high = spread_bounds(N - 1)
    assert low < np.std(scan.range - 20.0) / 0.03 < high


@pytest.mark.parametrize("power", [0.8, 0.95, 1.0, 1.1])
def test_detection_near_the_threshold_is_the_normal_law(power: float) -> None:
    distance = 100 * np.sqrt(0.5 / 0.9 / power)
    scan = ph.Lidar(many_beams(N)).scan(wall(distance), pose=ph.Pose(), seed=14)
    expected = float(detection_probability(power, threshold_to_noise=6.0))
    assert stats.binomtest(len(scan), N, expected).pvalue > LIKELY


def test_sub_rays_do_not_give_a_weak_echo_more_chances() -> None:
    config = many_beams(N, beam={"divergence_mrad": (3, 3), "sub_rays": 25})
    distance = 100 * np.sqrt(0.5 / 0.9 / 0.9)
    scan = ph.Lidar(config).scan(wall(distance, turn_deg=40.0), pose=ph.Pose(), seed=15)
    power = (
        ph.Lidar(config, noise=False).scan(wall(20.0, turn_deg=40.0), pose=ph.Pose()).power.mean()
        * (20 / distance) ** 2
    )
    assert stats.binomtest(len(scan), N, float(detection_probability(power, threshold_to_noise=6.0))).pvalue > LIKELY


def test_false_alarms_are_poisson_and_even_over_range() -> None:
    rate = 2e5
    config = many_beams(N, noise={"false_alarm_rate_hz": rate})
    scan = ph.Lidar(config).scan(ph.World(), pose=ph.Pose(), seed=16)
    expected = N * -np.expm1(-rate * 2 * (300 - 0.1) / 299_792_458.0)
    assert abs(len(scan) - expected) < deviations() * np.sqrt(expected)
    assert stats.kstest((scan.range - 0.1) / 299.9, "uniform").pvalue > LIKELY
    assert set(scan.origin.tolist()) == {next(k for k, v in scan.names["origin"].items() if v == "noise")}


def test_channel_bias_and_jitter() -> None:
    pattern = {
        "kind": "raster", "rate_hz": 10, "azimuth_deg": (0, 1e-9), "elevation_deg": (0, 1e-9),
        "columns": N // 2, "rows": 2,
    }  # fmt: skip
    bias = ph.Lidar(sheet(pattern=pattern, noise={"channel_bias_m": [0.1, -0.2]})).scan(wall(20.0), pose=ph.Pose())
    assert bias.range[bias.ring == 0] == pytest.approx(20.1, abs=1e-4)
    assert bias.range[bias.ring == 1] == pytest.approx(19.8, abs=1e-4)
    shaken = ph.Lidar(many_beams(N, noise={"azimuth_jitter_deg": 0.5})).scan(
        wall(20.0, turn_deg=45.0), pose=ph.Pose(), seed=17
    )
    # On a wall at 45 degrees, range moves with azimuth as R tan(45 deg) dphi; the next term is 1e-4 of its square.
    low, high = spread_bounds(N - 1)
    assert low < np.std(shaken.range) / (20 * np.radians(0.5)) < high * (1 + 5e-4)
    # The direction reported is the one that was meant.
    assert np.all(np.abs(shaken.xyz[:, 1]) < 1e-3)


def test_elevation_errors_of_channels() -> None:
    """Each ring leaves at its own elevation, the same in all scans; points have the nominal one."""
    rows = 400
    pattern = {
        "kind": "raster", "rate_hz": 10, "azimuth_deg": (0, 1e-9), "elevation_deg": (-30, -30 + 1e-9),
        "columns": 2, "rows": rows,
    }  # fmt: skip
    ground = ph.World()
    ground.add(ph.shapes.plane(60, 60), material="lambert-50", pose=ph.Pose((0, 0, -2)))
    lidar = ph.Lidar(sheet(pattern=pattern, noise={"channel_elevation_sigma_deg": 0.2}))
    found = []
    for seed in (1, 2):
        scan = lidar.scan(ground, pose=ph.Pose(), seed=seed)
        assert scan.xyz[:, 2] / scan.range == pytest.approx(-0.5, abs=1e-5)
        order = np.argsort(scan.ring, kind="stable")[::2]
        found.append(np.degrees(np.arcsin(2.0 / scan.range[order])) - 30.0)
    np.testing.assert_allclose(found[0], found[1], atol=1e-3)
    low, high = spread_bounds(rows - 1)
    assert low < np.std(found[0]) / 0.2 < high
    assert ph.Lidar(lidar.config, noise=False).scan(ground, pose=ph.Pose()).range == pytest.approx(4.0, abs=1e-4)


def test_intensity_noise() -> None:
    scan = ph.Lidar(many_beams(N, noise={"intensity_sigma": 0.05})).scan(wall(20.0), pose=ph.Pose(), seed=18)
    low, high = spread_bounds(N - 1)
    assert low < np.std(scan.intensity) / 0.025 < high
    assert np.mean(scan.intensity) == pytest.approx(0.5, rel=deviations() * 0.05 / np.sqrt(N))


def test_fit_of_the_ouster_triple() -> None:
    sigma_0, sigma_1 = fit_range_sigma([250, 100, 12], [0.015, 0.03, 0.10])
    fitted = range_sigma(np.array([250.0, 100.0, 12.0]), sigma_0=sigma_0, sigma_1=sigma_1)
    assert np.all(np.abs(np.log(fitted / np.array([0.015, 0.03, 0.10]))) < 0.6)


def test_false_alarm_rate_and_background_light() -> None:
    assert false_alarm_rate(threshold_to_noise=5.0, pulse_length_s=5e-9) == pytest.approx(
        np.exp(-12.5) / (2 * np.sqrt(3) * 5e-9)
    )
    assert background_noise_factor(100.0, 100.0) == 1.0
    assert background_noise_factor(0.0, 100.0) == pytest.approx(np.sqrt(0.5))


def test_sunlight_shortens_the_range() -> None:
    config = many_beams(N, noise={"background_klx": 100.0})
    distance = 100 * np.sqrt(0.5 / 0.9 / 1.1)
    seen = [
        len(ph.Lidar(config, sun_klx=sun).scan(wall(distance), pose=ph.Pose(), seed=19)) for sun in (0.0, 100.0, 400.0)
    ]
    assert seen[0] > seen[1] > seen[2]
