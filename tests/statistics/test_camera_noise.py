"""Noise of the camera as distributions. Bounds follow from the number of draws, at a significance of 1e-4 a test."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from parhelion.core.random import Stream
from parhelion.rays.device import engine
from parhelion.sensors.optics.camera.electronics import SensorElectronics, develop
from parhelion.sensors.optics.camera.readout import EXACT_POISSON_MEAN, Exposure, poisson
from parhelion.sensors.optics.camera.thermal import ThermalElectronics, band_radiance_um, develop_thermal

SIGNIFICANCE = 1e-4
SIGMAS = float(stats.norm.isf(SIGNIFICANCE / 2))
"""3.89: a normal number is farther from its mean once in 10 000 times."""
MONO = SensorElectronics(
    wavelengths_nm=(550.0,), quantum_efficiency=(0.6,), bayer=None, prnu=0.0, dsnu_e=0.0, white_balance="none",
    adc_bits=14, black_level_dn=200.0, read_noise_e=4.0, dark_current_e_s=0.0,
)  # fmt: skip


def flat(sensor: SensorElectronics, electrons: float, frame: int, size: int = 200) -> np.ndarray:
    """Raw numbers of a flat field with this mean."""
    radiance = np.full((size, size), electrons / (sensor.electrons_per_radiance()[0] * 0.01))
    raw = develop(radiance, sensor, Exposure(0.01), Stream(11, "camera", frame), with_raw=True).raw
    assert raw is not None
    return raw.astype(float)


@pytest.mark.parametrize("kind", ["numpy", "drjit"])
@pytest.mark.parametrize("mean", [0.1, 1.0, 5.0, 20.0, 100.0, 1e4])
def test_poisson_numbers(mean: float, kind: str) -> None:
    count = 100_000
    e = engine()
    element = np.arange(count) if kind == "numpy" else e.counting(count)
    a, b, _, _ = Stream(5, f"poisson-{mean}").words(element)
    means = np.full(count, mean) if kind == "numpy" else e.dr.full(e.mi.Float, mean, count)
    drawn = np.asarray(poisson(means, a, b)).astype(np.int64)
    # Neighbouring numbers together, so that at least 10 are expected in each class.
    edges = np.unique(stats.poisson.ppf(np.linspace(0.0, 1.0, 41)[1:-1], mean))
    wanted = np.diff(np.concatenate([[0.0], stats.poisson.cdf(edges, mean), [1.0]])) * count
    found = np.bincount(np.searchsorted(edges, drawn), minlength=len(wanted))
    few = wanted < 10.0
    if few.any():
        wanted, found = (np.append(v[~few], v[few].sum()) for v in (wanted, found))
    wanted, found = wanted[wanted > 0], found[wanted > 0]
    assert stats.chisquare(found, wanted).pvalue > SIGNIFICANCE


def test_error_of_the_approximation() -> None:
    """The distribution function of what is drawn, by numbers and without chance, against Poisson's own."""
    z = np.linspace(-7.0, 7.0, 400_001)
    for mean, bound in ((EXACT_POISSON_MEAN, 1.3e-4), (50.0, 2.3e-5), (100.0, 8e-6), (1e4, 1e-6)):
        root = np.sqrt(mean)
        x = mean + root * z + (z * z - 1) / 6 - (z**3 + 2 * z) / (72 * root)
        assert np.all(np.diff(x) > 0)
        k = np.arange(int(mean - 6 * root), int(mean + 6 * root))
        found = stats.norm.cdf(np.interp(k + 0.5, x, z))
        assert np.abs(found - stats.poisson.cdf(k, mean)).max() < bound


def test_photon_transfer_gives_gain_and_read_noise_back() -> None:
    """Half the variance of differences of two flat fields, over their mean: slope K, offset K^2 read^2 + 1/12."""
    gain, pixels = MONO.dn_per_e(), 200 * 200
    levels = np.array([0.0, 100.0, 500.0, 1000.0, 2000.0, 4000.0, 7000.0])
    mean, variance = [], []
    for number, level in enumerate(levels):
        one, two = (flat(MONO, level, 2 * number + k) for k in (0, 1))
        mean.append(0.5 * (one + two).mean() - MONO.black_level_dn)
        variance.append(0.5 * np.var(one - two))
    # Half the variance of n differences has the relative deviation sqrt(2 / n): weighted least squares.
    true = gain * (gain * levels) + (gain * MONO.read_noise_e) ** 2 + 1.0 / 12.0
    weight = 1.0 / (true * np.sqrt(2.0 / pixels))
    design = np.stack([mean, np.ones(len(levels))], axis=1) * weight[:, None]
    (slope, offset), *_ = np.linalg.lstsq(design, np.array(variance) * weight, rcond=None)
    error = np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
    assert abs(slope - gain) < SIGMAS * error[0]
    assert abs(offset - (gain * MONO.read_noise_e) ** 2 - 1.0 / 12.0) < SIGMAS * error[1]
    assert error[0] / gain < 0.01


def test_level_of_darkness_and_noise_of_a_black_frame() -> None:
    sensor = replace(MONO, dark_current_e_s=3000.0)
    raw = flat(sensor, 0.0, 0)
    dark, gain = 30.0, sensor.dn_per_e()
    sigma = gain * np.sqrt(dark + sensor.read_noise_e**2 + 1.0 / (12.0 * gain * gain))
    assert abs(raw.mean() - 200.0 - gain * dark) < SIGMAS * sigma / 200.0
    # Kurtosis of Poisson numbers adds 1 / mean to the 2 of normal ones.
    assert abs(raw.std() / sigma - 1.0) < SIGMAS * np.sqrt((2.0 + 1.0 / dark) / 40_000) / 2.0


def test_a_full_pixel_has_no_shot_noise_left() -> None:
    quiet = replace(MONO, read_noise_e=0.0)
    assert np.all(flat(quiet, 50_000.0, 0) == quiet.largest_dn)


def test_sizes_of_the_fixed_patterns() -> None:
    sensor = replace(MONO, noise=False, prnu=0.01, dsnu_e=20.0)
    gain, n = sensor.dn_per_e(), 40_000
    dark, bright = flat(sensor, 0.0, 0), flat(sensor, 5000.0, 0)
    assert abs(dark.std() / (gain * 20.0) - 1.0) < SIGMAS / np.sqrt(2 * n)
    assert abs((bright - dark).std() / (gain * 50.0) - 1.0) < SIGMAS / np.sqrt(2 * n)
    assert abs(np.corrcoef((bright - dark).ravel(), dark.ravel())[0, 1]) < SIGMAS / np.sqrt(n)


def test_pixels_and_bands_are_independent() -> None:
    sensor = replace(
        MONO, wavelengths_nm=(600.0, 550.0, 450.0), quantum_efficiency=(0.5, 0.6, 0.5), read_noise_e=3.0
    )  # fmt: skip
    raw = develop(np.full((200, 200, 3), 1.0), sensor, Exposure(1e-3), Stream(1, "c"), with_raw=True).raw
    assert raw is not None
    centred = raw.astype(float) - raw.mean(axis=(0, 1))
    bound = SIGMAS / np.sqrt(40_000)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        assert abs(np.corrcoef(centred[..., a].ravel(), centred[..., b].ravel())[0, 1]) < bound
    assert abs(np.corrcoef(centred[:, 1:, 0].ravel(), centred[:, :-1, 0].ravel())[0, 1]) < bound * 1.01


def test_thermal_noise_is_the_netd() -> None:
    light = np.full((200, 200), float(band_radiance_um(300.0, (8.0, 14.0))))
    made = develop_thermal(light, ThermalElectronics(netd_k=0.06), Stream(4, "t"))
    assert abs(made.temperature_k.astype(float).std() / 0.06 - 1.0) < SIGMAS / np.sqrt(80_000)
    assert abs(made.temperature_k.astype(float).mean() - 300.0) < SIGMAS * 0.06 / 200.0 + 1e-4
