"""Noise of observations, number by number: the same observation with and without noise."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from gnss_rigs import sheet
from parhelion.core.noise import normals
from parhelion.core.random import Stream, to_unit
from parhelion.sensors.waves.gnss.fix import variances
from parhelion.sensors.waves.gnss.observe import JUMP_S, Observed, errors, observe
from parhelion.sensors.waves.gnss.reception import code_sigma, phase_sigma, rate_sigma
from parhelion.sensors.waves.gnss.satellites import band_of
from parhelion.sensors.waves.radio import satellite_scene

SEED = 5
NUMBERS = np.array([3, 7], np.int64)


@pytest.fixture(scope="module")
def receiver() -> ph.Gnss:
    return ph.Gnss("u-blox/m8", order=0)


def observed(receiver: ph.Gnss, *, noise: bool) -> Observed:
    """Two epochs of an antenna at rest under an open sky."""
    world, still = ph.World(), np.zeros((2, 3))
    level = np.tile([0.0, 0.0, 0.0, 1.0], (2, 1))
    return observe(
        receiver.config, receiver.sky(world), satellite_scene(world, ("gnss",)), still, still, level, NUMBERS,
        np.array([0.0, 0.4]), SEED, "it", order=0, noise=noise,
    )  # fmt: skip


def test_noise_of_every_observable(receiver: ph.Gnss) -> None:
    """C/N0 has a level per satellite and 0.3 dB of noise per sample; the loops have the noise of their C/N0."""
    config, sky = receiver.config, receiver.sky(ph.World())
    noisy, plain = (observed(receiver, noise=noise) for noise in (True, False))
    band, before = noisy.bands[0], plain.bands[0]
    count = len(sky.satellites)
    signals = band_of(config.bands[0], sky.satellites, config.single_band)
    name = f"it/{config.bands[0]}"
    white = Stream(SEED, f"{name}/white")
    draws = np.stack([normals(white, number * 4096 + np.arange(count)) for number in NUMBERS])
    level = config.cn0_spread_db * normals(Stream(SEED, f"{name}/power"), np.arange(count))[:, 0]
    both = np.isfinite(band.cn0) & np.isfinite(before.cn0)
    assert both.sum() >= 12
    np.testing.assert_allclose((band.cn0 - before.cn0)[both], (level + 0.3 * draws[..., 3])[both], atol=1e-9)
    loops = config.loops
    code = code_sigma(band.cn0, signals.chip_m, loops.spacing_chips, loops.code_bandwidth_hz, loops.dwell_s)
    np.testing.assert_allclose(band.code_error[both], (code * draws[..., 0])[both], rtol=1e-9)
    phase = phase_sigma(band.cn0, loops.phase_bandwidth_hz, loops.dwell_s) * signals.wavelength_m
    np.testing.assert_allclose(band.carrier_error[both], (phase * draws[..., 1])[both], rtol=1e-9)
    # The carrier also has an integer number of cycles, and both have the slow errors.
    slow, whole = noisy.errors, np.floor(to_unit(Stream(SEED, f"{name}/cycles").words(np.arange(count))[0]) * 1e6)
    shift = (299_792_458.0 * slow.clock_s[:, None] + slow.space_m)[both]
    wet_and_ionosphere = ((band.pseudorange - before.pseudorange) - band.code_error)[both] - shift
    assert np.abs(wet_and_ionosphere).max() < 10.0
    cycles = ((band.carrier - before.carrier) * signals.wavelength_m - band.carrier_error)[both] - shift
    np.testing.assert_allclose(cycles, -(whole * signals.wavelength_m + 0.0 * band.cn0)[both], atol=20.0)
    rate = rate_sigma(band.cn0, loops.phase_bandwidth_hz, loops.dwell_s) * draws[..., 2]
    drift = 299_792_458.0 * slow.drift[:, None] / signals.wavelength_m
    np.testing.assert_allclose((band.doppler - before.doppler + drift)[both], rate[both], atol=1e-5)


def test_the_clock_drifts_and_jumps(receiver: ph.Gnss) -> None:
    """Bias and drift of the receiver clock: within half a millisecond, by the drift times the time."""
    times = np.array([0.0, 10.0, 1e5])
    found = errors(receiver.config, SEED, "it", times, 8, noise=True)
    own = normals(Stream(SEED, "it/clock"), np.zeros(1, np.int64))[0]
    drift = receiver.config.budget.clock_drift * own[0]
    assert found.drift.tolist() == [drift] * 3
    assert np.abs(found.clock_s).max() <= 0.5 * JUMP_S == 0.5e-3
    turns = (found.clock_s - JUMP_S * own[1] - drift * times) / JUMP_S
    np.testing.assert_allclose(turns, np.round(turns), atol=1e-6)
    none = errors(receiver.config, SEED, "it", times, 8, noise=False)
    assert not any(np.any(value) for value in vars(none).values())


@pytest.mark.parametrize(
    ("weights", "troposphere", "expected"),
    [
        ("equal", "saastamoinen", [2.25, 2.25]),
        # 30 degrees: 0.09 (1 + 2) + 2.4^2 + 0.09 + (0.5 * 4)^2 + (0.3 / 0.6)^2; 90 degrees: 0.09 (1 + 1) + ...
        ("elevation", "saastamoinen", [0.27 + 5.76 + 0.09 + 4.0 + 0.25, 0.18 + 5.76 + 0.09 + 4.0 + (0.3 / 1.1) ** 2]),
        ("elevation", "none", [0.27 + 5.76 + 0.09 + 4.0, 0.18 + 5.76 + 0.09 + 4.0]),
        # 1.5^2 at 45 dB-Hz, ten times that at 35; 0.5^2 + (0.3 * 4)^2 + a tenth of the troposphere's part.
        ("cn0", "saastamoinen", [2.25 + 0.25 + 1.44 + 0.025, 22.5 + 0.25 + 1.44 + 0.1 * (0.3 / 1.1) ** 2]),
    ],
)
def test_weights_of_ranges(weights: str, troposphere: str, expected: list[float]) -> None:
    fix = sheet(fix={"weights": weights, "sigma_m": 1.5, "troposphere": troposphere}).fix
    up, cn0, ion = np.radians([30.0, 90.0]), np.array([45.0, 35.0]), np.full(2, 4.0)
    assert variances(fix, up, cn0, np.full(2, 2.4), ion) == pytest.approx(expected, rel=1e-12)
