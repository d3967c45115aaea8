"""Receiver of radars: high-pass filters, phase noise and static clutter, against closed forms and a recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.frames import AdcFrame
from parhelion.sensors.waves.radar.baseband import (
    beat_frequency_hz,
    correlated_share,
    filter_power,
    noise_share,
    oscillator_noise,
    sensitivity,
)
from parhelion.sensors.waves.radar.config import RadarConfig
from parhelion.sensors.waves.radar.cube import noise_bandwidth
from wave_rigs import alone, radar_config

RECORDING = Path(__file__).resolve().parents[3] / "shared" / "data" / "radar_ti_adc" / "doppler_example_1.npy"


# ---- high-pass filters ----------------------------------------------------------------------------------------------


def test_each_filter_has_half_power_at_its_corner() -> None:
    config = radar_config(baseband={"highpass_khz": [350.0], "converter_noise_db": -60.0})
    # 500 MHz in 40 us: 83.4 kHz per metre.
    assert beat_frequency_hz(config, 1.0) == pytest.approx(2.0 * 12.5e12 / SPEED_OF_LIGHT_M_S)
    corner = 350e3 / float(beat_frequency_hz(config, 1.0))
    assert filter_power(config, corner) == pytest.approx(0.5)
    assert filter_power(config, 100.0 * corner) == pytest.approx(1.0, abs=1e-3)
    two = radar_config(baseband={"highpass_khz": [350.0, 350.0]})
    # 40 dB per decade below two filters.
    assert filter_power(two, 0.01 * corner) / filter_power(two, 0.001 * corner) == pytest.approx(1e4, rel=1e-3)


def test_sensitivity_is_lost_where_the_converter_adds_the_noise() -> None:
    config = radar_config(baseband={"highpass_khz": [350.0, 350.0], "converter_noise_db": 0.0})
    near, far = 0.05, 1e4
    assert noise_share(config, near) == pytest.approx(0.5, rel=1e-3)
    assert sensitivity(config, near) == pytest.approx(2.0 * float(filter_power(config, near)), rel=1e-3)
    assert sensitivity(config, far) == pytest.approx(1.0, rel=1e-3)
    assert np.all(sensitivity(radar_config(), np.array([0.1, 10.0])) == 1.0)


def test_filters_cost_signal_and_not_the_reported_cross_section() -> None:
    world = alone(ph.shapes.sphere(0.5), 5.5)
    rcs, level, expected = [], [], []
    for baseband in ({}, {"highpass_khz": [350.0, 350.0], "converter_noise_db": 0.0}):
        config = radar_config(baseband=baseband)
        rcs.append(float(ph.Radar(config).scan(world, pose=ph.Pose(), seed=1).rcs[0]))
        cube = ph.Radar(config, cube=True, noise=False).scan(world, pose=ph.Pose()).cube
        assert cube is not None
        level.append(10.0 * np.log10(cube.power.max()))
        expected.append(10.0 * np.log10(float(sensitivity(config, 5.0))))
    assert rcs[1] == pytest.approx(rcs[0], abs=0.3)
    assert expected[1] < -2.5
    assert level[1] - level[0] == pytest.approx(expected[1], abs=0.3)  # the filters' slope over half a cell, 0.15 m


@pytest.mark.skipif(not RECORDING.exists(), reason="needs ../shared/data/radar_ti_adc")
def test_the_noise_of_a_recording_has_the_shape_of_its_filters() -> None:
    # Predicted: the shape, from corner frequencies of 175 and 350 kHz; fitted: the noise of the converter, -2 dB.
    raw = np.load(RECORDING)
    parts = [part.astype(np.uint16).view(np.int16).astype(np.float32) for part in (raw.real, raw.imag)]
    power = AdcFrame((parts[0] + 1j * parts[1]).astype(np.complex64), 0.0488, 0.0823).range_velocity()
    quiet = np.r_[5:45, 84:124]  # velocities without echoes
    floor = 10.0 * np.log10(np.median(power[:, quiet], axis=1))
    rows = np.arange(4, 110)  # below are the skirts of the leakage, above the filter of the converter
    config = ti_like()
    shape = 10.0 * np.log10(noise_share(config, rows * config.range_step_m))
    recorded = floor[rows] - np.median(floor[60:110])
    assert np.max(np.abs(np.convolve(recorded - shape, np.ones(5) / 5, "valid"))) < 1.0
    assert recorded[:4].mean() == pytest.approx(-3.8, abs=0.8)


def ti_like() -> RadarConfig:
    """The radar of the recording: 60 MHz/us over 51.2 us."""
    wave = {"bandwidth_mhz": 3072.0, "ramp_us": 51.2, "interval_us": 184.0, "ramps": 128, "range_bins": 128}
    return radar_config(
        frequency_ghz=77.42, waveform=wave, array={"azimuth_channels": 8},
        baseband={"highpass_khz": [175.0, 350.0], "converter_noise_db": -2.0},
    )  # fmt: skip


def test_samples_have_the_colour_of_the_filters() -> None:
    config = ti_like()
    radar = ph.Radar(config)
    frame = radar.adc(ph.World(), pose=ph.Pose(), seed=3)
    spectrum = np.mean(np.abs(np.fft.fft(frame.samples, axis=2)) ** 2, axis=(0, 1)) / frame.samples.shape[2]
    # 1024 exponential draws per bin: 3.1 %; five sigma.
    assert spectrum == pytest.approx(noise_share(config, radar.axes.range), rel=5.0 / np.sqrt(1024))


# ---- phase noise ----------------------------------------------------------------------------------------------------


def test_phase_noise_cancels_at_short_range() -> None:
    # 100 kHz off the carrier, 1 m: 4 sin^2(pi 1e5 6.67e-9) = -47.6 dB; up to 6 dB where both are independent.
    assert 10.0 * np.log10(correlated_share(1e5, 1.0)) == pytest.approx(-47.55, abs=0.05)
    assert 10.0 * np.log10(correlated_share(1e6, 75.0)) == pytest.approx(6.0, abs=0.1)
    config = radar_config(baseband={"phase_noise_dbc_hz": -95.0, "loop_khz": 100.0})
    assert 10.0 * np.log10(oscillator_noise(config, 1e6)) == pytest.approx(-95.0)
    assert 10.0 * np.log10(oscillator_noise(config, 1e7)) == pytest.approx(-115.0, abs=0.1)
    assert oscillator_noise(config, 0.0) / oscillator_noise(config, 1e5) == pytest.approx(2.0)


def noisy(level_dbc_hz: float | None) -> RadarConfig:
    """A radar with a poor oscillator and one strong channel."""
    wave = {"bandwidth_mhz": 500, "ramp_us": 40, "interval_us": 60, "ramps": 128, "range_bins": 512}
    return radar_config(
        power_dbm=60, waveform=wave, array={"azimuth_channels": 4}, baseband={"phase_noise_dbc_hz": level_dbc_hz}
    )


def expected_floor(config: RadarConfig, peak: float, range_m: float, ranges: np.ndarray) -> np.ndarray:
    """Closed form of the phase noise in the cube: P S(f) 4 sin^2(pi f tau) / (T N) times the windows' bandwidths."""
    wave = config.waveform
    offset = np.abs(ranges - range_m) * float(beat_frequency_hz(config, 1.0))
    density = oscillator_noise(config, offset) * correlated_share(offset, range_m)
    windows = noise_bandwidth(wave.range_window) * noise_bandwidth(wave.speed_window)
    return np.asarray(peak * density * windows / (wave.ramp_us * 1e-6 * wave.ramps))


@pytest.mark.parametrize("distance", [20.0, 60.0])
def test_phase_noise_of_a_strong_target_spreads_over_range_and_speed(distance: float) -> None:
    world, config = alone(ph.shapes.sphere(1.0), distance + 1.0), noisy(-80.0)
    radar = ph.Radar(config, cube=True)
    cube = radar.scan(world, pose=ph.Pose(), seed=1).cube
    assert cube is not None
    beam = int(np.argmin(np.abs(cube.azimuth)))
    power, ranges = cube.power[:, :, 0, beam].astype(np.float64), cube.range
    peak = power.max() / 0.8  # half a cell off its middle, Hann's window loses up to 1.4 dB
    away = np.flatnonzero((np.abs(ranges - distance) > 3.0) & (ranges > 2.0))
    quiet = np.r_[4:50, 78:124]
    found = power[np.ix_(away, quiet)].mean(axis=1)
    expected = 1.0 + expected_floor(config, peak, distance, ranges[away])
    assert expected.max() > 30.0  # it dominates near the target
    ratio = 10.0 * np.log10(found / expected)
    # 92 correlated draws per range: 0.7 dB each; 1 dB for the peak's place between cells.
    assert np.abs(np.mean(ratio)) < 1.2
    assert np.std(ratio) < 1.2
    # Raw samples have the same floor, by random phases of one oscillator instead of the spectrum.
    frame = radar.adc(world, pose=ph.Pose(), seed=2).range_velocity()
    samples = frame[np.ix_(away, quiet)].mean(axis=1)
    channels = 1.0 + expected_floor(config, frame.max() / 0.8, distance, ranges[away])
    ratio = 10.0 * np.log10(samples / channels)
    assert np.abs(np.mean(ratio)) < 1.2
    assert np.std(ratio) < 1.2


def test_phase_noise_vanishes_without_an_oscillator_and_far_from_strong_targets() -> None:
    world = alone(ph.shapes.sphere(1.0), 61.0)
    quiet = ph.Radar(noisy(None), cube=True).scan(world, pose=ph.Pose(), seed=1).cube
    good = ph.Radar(noisy(-190.0), cube=True).scan(world, pose=ph.Pose(), seed=1).cube
    assert quiet is not None
    assert good is not None
    assert good.power == pytest.approx(quiet.power, rel=1e-5)


# ---- static clutter -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("velocity", [(8.0, 0.0, 0.0), (6.0, 2.0, 0.0)])
def test_all_stationary_points_have_the_doppler_of_the_vehicle(velocity: tuple[float, float, float]) -> None:
    # v_r = - v . u for every point at rest: ground, walls and poles; - v cos(azimuth) cos(elevation) straight ahead.
    world = ph.World()
    world.add(ph.shapes.plane(160, 160), material="asphalt", pose=ph.Pose((60, 0, -0.6)))
    for side in (-9.0, 12.0):
        world.add(ph.shapes.box(80, 0.3, 6), material="brick", pose=ph.Pose((50, side, 2.0)))
    for x, y in ((20.0, 5.0), (35.0, -6.0), (50.0, 3.0)):
        world.add(ph.shapes.cylinder(0.1, 4.0), material="steel", pose=ph.Pose((x, y, 1.0)))
    config = radar_config(field={"bounces": 1, "azimuth_deg": (-60, 60)}, array={"azimuth_channels": 32})
    radar, motion = ph.Radar(config, cube=True), ph.ConstantTwist(ph.Pose(), velocity=velocity)
    paths = radar.paths(world, trajectory=motion)
    own = np.array(velocity)
    assert len(paths) > 1000
    # The path's direction is that of the surface point; facets of poles shift it by a fraction of a degree.
    apart = 0.5 * paths.rate + paths.direction @ own
    assert np.percentile(np.abs(apart), 99) < 0.03
    # The ridge in the cube: at each azimuth, power lies at - v . u and nowhere else but for the sidelobes of the array,
    # 31 dB below the beams to the left and to the right.
    scan = ph.Radar(config, cube=True, noise=False).scan(world, trajectory=motion)
    assert scan.cube is not None
    by_beam = scan.cube.power.sum(axis=(0, 2))
    level, beams = by_beam.sum(axis=0), scan.cube.azimuth
    expected = -(own[0] * np.cos(beams) + own[1] * np.sin(beams))
    step = 2.0 * config.largest_speed_m_s / config.waveform.ramps
    # A beam of 3.6 degrees at 45 degrees azimuth spans v sin(45) times its width.
    beam = np.hypot(*velocity[:2]) * np.radians(3.6)
    there = np.abs(scan.cube.radial_velocity[:, None] - expected) < 2.0 * step + beam
    assert np.all((by_beam * ~there).sum(axis=0) < 2.0 * 10.0**-3.1 * level.max())
    assert np.median(level) > 10.0**-2.5 * level.max()
    scan = radar.scan(world, trajectory=motion, seed=1)
    real = scan.origin != 6
    u = scan.xyz[real] / np.linalg.norm(scan.xyz[real], axis=1)[:, None]
    assert len(u)
    assert np.median(np.abs(scan.radial_velocity[real] + u @ own)) < 0.5 * step
    assert np.max(np.abs(scan.radial_velocity[real] + u @ own)) < step + beam
