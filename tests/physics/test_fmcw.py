"""FMCW lidars: beat frequencies, errors at the Cramer-Rao bound, speckle, coherence, measured radial velocity."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from chance import deviations
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.fmcw import (
    beat_frequencies_hz,
    coherence_extinction_per_m,
    own_speeds,
    range_and_speed,
    range_resolution_m,
    range_sigma_m,
    snr_at_threshold,
    speckle,
    speed_sigma_m_s,
    tone_sigma_hz,
)

CHIRP = {"bandwidth_hz": 1e9, "chirp_s": 5e-6, "wavelength_m": 1.55e-6}
AERIES = "aeva/aeries-ii"


def sheet(**fmcw: Any) -> Any:
    """Data sheet of the Aeries with fewer shots and other chirps."""
    config = ph.Lidar(AERIES).config
    pattern = config.pattern.model_copy(update={"columns": 60, "rows": 24})
    assert config.fmcw is not None
    return config.model_copy(update={"pattern": pattern, "fmcw": config.fmcw.model_copy(update=fmcw)})


def wall(distance_m: float = 30.0, material: str = "concrete") -> ph.World:
    world = ph.World()
    box = ph.shapes.box(0.2, 200, 100)
    world.add(box, material=material, label="wall", pose=ph.Pose(xyz=(distance_m, 0, 0)))
    return world


# ---- formulas -------------------------------------------------------------------------------------------------------


def test_beats_of_range_and_speed() -> None:
    """At 100 m and at rest: 2 B R / c T = 133.4 MHz; 10 m/s shift 1550 nm by 12.9 MHz."""
    up, down = beat_frequencies_hz(100.0, 0.0, **CHIRP)
    assert up == down == pytest.approx(2e9 * 100.0 / SPEED_OF_LIGHT_M_S / 5e-6)
    up, down = beat_frequencies_hz(100.0, 10.0, **CHIRP)
    assert 0.5 * (up - down) == pytest.approx(2.0 * 10.0 / 1.55e-6)
    ranges, speeds = np.array([5.0, 80.0, 300.0]), np.array([-30.0, 0.0, 12.5])
    found = range_and_speed(*beat_frequencies_hz(ranges, speeds, **CHIRP), **CHIRP)
    np.testing.assert_allclose(found, (ranges, speeds), rtol=1e-12, atol=1e-10)
    assert range_resolution_m(1e9) == pytest.approx(0.14990, rel=1e-4)


@pytest.mark.parametrize("salt", [1, 2])
def test_frequency_of_a_tone_reaches_its_bound(salt: int) -> None:
    """Maximum-likelihood frequencies of tones in noise; 400 trials know the deviation to 3.5 %, the bound is 4
    times."""
    count, trials, snr = 64, 400, 100.0
    rng = np.random.default_rng(salt)
    time = np.arange(count) - 0.5 * (count - 1)
    true = rng.uniform(-0.2, 0.2, trials)
    noise = (rng.normal(size=(trials, count)) + 1j * rng.normal(size=(trials, count))) * np.sqrt(0.5 * count / snr)
    signal = np.exp(2j * np.pi * (true[:, None] * time + rng.random((trials, 1)))) + noise
    grid = np.fft.fftfreq(64 * count)
    guess = grid[np.argmax(np.abs(np.fft.fft(signal, 64 * count, axis=1)), axis=1)]
    for _ in range(3):  # Newton's steps on the logarithm of the periodogram
        step = 1e-5
        power = [np.log(np.abs((signal * np.exp(-2j * np.pi * (guess + d)[:, None] * time)).sum(axis=1)))
                 for d in (-step, 0.0, step)]  # fmt: skip
        guess = guess - 0.5 * step * (power[2] - power[0]) / (power[2] - 2 * power[1] + power[0])
    # SNR is the power of the tone over that of the noise in a cell 1 / T wide, with T = 64 samples.
    assert np.std(guess - true) == pytest.approx(float(tone_sigma_hz(snr, chirp_s=count)), rel=0.14)


def test_errors_of_range_and_speed_follow_from_those_of_the_beats() -> None:
    """Two independent chirps, by Gaussian propagation through `range_and_speed`."""
    rng, snr = np.random.default_rng(5), 50.0
    up, down = beat_frequencies_hz(60.0, 4.0, **CHIRP)
    sigma = float(tone_sigma_hz(snr, chirp_s=5e-6))
    found = range_and_speed(up + sigma * rng.normal(size=100_000), down + sigma * rng.normal(size=100_000), **CHIRP)
    assert np.std(found[0]) == pytest.approx(float(range_sigma_m(snr, bandwidth_hz=1e9, chirp_s=5e-6)), rel=0.01)
    assert np.std(found[1]) == pytest.approx(float(speed_sigma_m_s(snr, chirp_s=5e-6, wavelength_m=1.55e-6)), rel=0.01)


@pytest.mark.parametrize("looks", [1, 2, 4])
def test_speckle_is_a_mean_of_exponential_variables(looks: int) -> None:
    from scipy.stats import gamma, kstest

    shot = np.arange(20_000, dtype=np.uint32)
    for salt in (3, 4):
        surface, air = (speckle((np.uint32(salt), np.uint32(9)), shot, looks, of_air=one) for one in (False, True))
        for drawn in (surface, air):
            assert kstest(drawn, gamma(looks, scale=1.0 / looks).cdf).pvalue > 1e-4
        # The air has other scatterers than the surface behind it.
        assert abs(np.corrcoef(surface, air)[0, 1]) < deviations(6) / np.sqrt(len(shot))


def test_coherence_extends_the_rated_range() -> None:
    """The laser of 100 kHz loses exp(-4 pi dnu R / c) at range R; the rated range is met with and without it."""
    gamma = coherence_extinction_per_m(100e3)
    assert np.exp(-2.0 * gamma * 200.0) == pytest.approx(np.exp(-2 * np.pi * 1e5 * 400.0 / SPEED_OF_LIGHT_M_S))
    ideal, real = (ph.Lidar(sheet(linewidth_khz=width)) for width in (0.0, 100.0))
    assert ideal.max_range(0.1) == pytest.approx(real.max_range(0.1), rel=1e-3) == pytest.approx(150.0, rel=0.01)
    assert real.max_range(0.9) < 0.85 * ideal.max_range(0.9)


# ---- scans ----------------------------------------------------------------------------------------------------------


def expected_speed(scan: ph.Scan) -> np.ndarray:
    """Radial velocity of the surfaces from the geometry in world coordinates, by central differences."""
    times = scan.start_time + scan.shots.time[scan.fields["shot"]].astype(float)
    points = scan.in_world().xyz
    ends = [np.linalg.norm(points + step * scan.fields["velocity"] - scan.motion.sample(times + step)[0], axis=1)
            for step in (-1e-4, 1e-4)]  # fmt: skip
    return (ends[1] - ends[0]) / 2e-4


@pytest.mark.slow
def test_speeds_of_walls_and_cars_without_noise() -> None:
    """A turning sensor that passes a wall and a moving box; the error of float32 directions is below 1 mm/s."""
    world = wall()
    path = ph.ConstantTwist(ph.Pose(xyz=(12, 2, 0)), velocity=(-8.0, 3.0, 0.0))
    world.add_actor(ph.shapes.box(2, 2, 2), material="car-paint-red", label="car", trajectory=path)
    drive = ph.ConstantTwist(ph.Pose(), velocity=(15.0, -2.0, 0.5), angular_velocity=(0.0, 0.0, 0.4))
    scan = ph.Lidar(sheet(), noise=False).scan(world, trajectory=drive, seed=1)
    car = np.any(scan.fields["velocity"] != 0.0, axis=1)
    assert 20 < car.sum() < len(scan)
    assert scan.fields["radial_velocity"].dtype == np.float32
    np.testing.assert_allclose(scan.fields["radial_velocity"], expected_speed(scan), atol=2e-3)
    rest = ph.Lidar(sheet(), noise=False).scan(wall(), pose=ph.Pose(), seed=1)
    assert np.all(rest.fields["radial_velocity"] == 0.0)


@pytest.mark.slow
@pytest.mark.parametrize("salt", [11, 12])
def test_bias_and_deviation_of_measured_speeds(salt: int) -> None:
    """The bias is below 0.02 m/s, and the deviation follows the bound by the power of each return."""
    drive = ph.ConstantTwist(ph.Pose(), velocity=(20.0, 5.0, 0.0))
    config = sheet(speed_sigma_m_s=0.0, chirp_us=0.5)
    errors, powers = [], []
    for time in np.arange(12) * 1e-3:
        scan = ph.Lidar(config).scan(wall(100.0), trajectory=drive, time=float(time), seed=salt)
        errors.append(scan.fields["radial_velocity"] - expected_speed(scan))
        powers.append(scan.fields["power"])
    error, power = np.concatenate(errors), np.concatenate(powers)
    assert config.fmcw is not None
    assert len(error) > 5000
    snr = power * snr_at_threshold(config.fmcw)
    sigma = speed_sigma_m_s(snr, chirp_s=0.5e-6, wavelength_m=1.55e-6)
    assert abs(error.mean()) < 0.02
    score = error / sigma
    # The deviation of n scores is known to 1 / sqrt(2 n), that of their mean to 1 / sqrt(n): 5 deviations each.
    assert score.std() == pytest.approx(1.0, abs=5.0 / np.sqrt(2 * len(score)))
    assert abs(score.mean()) < 5.0 / np.sqrt(len(score))
    weak = power < np.median(power)
    assert error[weak].std() > 1.3 * error[~weak].std()


@pytest.mark.slow
def test_power_speckles_and_range_noise_falls_with_its_root() -> None:
    config = sheet(bandwidth_ghz=0.02)
    config = config.model_copy(update={"noise": config.noise.model_copy(update={"range_sigma_m": 0.0})})
    world = wall(12.0)
    clean, noisy = (ph.Lidar(config, noise=noise).scan(world, pose=ph.Pose(), seed=3) for noise in (False, True))
    _, first, second = np.intersect1d(clean.fields["shot"], noisy.fields["shot"], return_indices=True)
    ratio = noisy.fields["power"][second] / clean.fields["power"][first]
    # The weakest speckles are lost, the noise of the receiver is small at this power.
    assert len(second) > 0.9 * len(clean)
    assert ratio.std() == pytest.approx(1.0, abs=0.12)
    assert config.fmcw is not None
    snr = noisy.fields["power"][second] * snr_at_threshold(config.fmcw)
    sigma = range_sigma_m(snr, bandwidth_hz=0.02e9, chirp_s=5e-6)
    score = (noisy.fields["range"][second] - clean.fields["range"][first]) / sigma
    assert score.std() == pytest.approx(1.0, abs=5.0 / np.sqrt(2 * len(score)))


@pytest.mark.slow
def test_fast_targets_wrap_around() -> None:
    drive = ph.ConstantTwist(ph.Pose(), velocity=(30.0, 0.0, 0.0))
    whole, wrapped = (
        ph.Lidar(sheet(max_speed_m_s=most), noise=False)
        .scan(wall(), trajectory=drive, seed=1)
        .fields["radial_velocity"]
        for most in (None, 20.0)
    )
    assert whole.min() < -25.0
    assert np.abs(wrapped).max() <= 20.0
    np.testing.assert_allclose((wrapped - whole) % 40.0 % 39.9999, 0.0, atol=1e-3)


@pytest.mark.slow
def test_files_bags_and_tensors_hold_the_speed(tmp_path: Path) -> None:
    from parhelion.io.ros.clouds import cloud_of, point_cloud2
    from parhelion.io.ros.types import Message

    drive = ph.ConstantTwist(ph.Pose(), velocity=(5.0, 0.0, 0.0))
    lidar = ph.Lidar(sheet())
    scan = lidar.scan(wall(), trajectory=drive, seed=1)
    scan.save(tmp_path / "scan.npz")
    np.testing.assert_array_equal(
        ph.Scan.load(tmp_path / "scan.npz").fields["radial_velocity"], scan.fields["radial_velocity"]
    )
    (batch,) = lidar.scan_tensors(wall(), [drive], seed=1, fields=["xyz", "radial_velocity"])
    np.testing.assert_array_equal(np.asarray(batch["radial_velocity"]), scan.fields["radial_velocity"])
    for layout in ("aeva", "all"):
        data = point_cloud2(scan, "lidar", 0, layout)
        read = cloud_of(Message("/aeva/pointcloud", "sensor_msgs/msg/PointCloud2", 0, data))
        np.testing.assert_array_equal(read.fields["radial_velocity"], scan.fields["radial_velocity"])
    with pytest.raises(ConfigError, match="radial_velocity: this sensor does not report it"):
        ph.Lidar("velodyne/vlp-16").scan_tensors(wall(), [ph.Pose()], fields=["radial_velocity"])


def test_pulsed_lidars_have_no_speed() -> None:
    motion = ph.ConstantTwist(ph.Pose(), velocity=(5.0, 0.0, 0.0))
    lidar = ph.Lidar("velodyne/vlp-16")
    assert lidar.config.fmcw is None
    assert "radial_velocity" not in lidar.scan(wall(), pose=ph.Pose(), seed=1).fields
    way, own = own_speeds(motion, 0.0, lidar.shots(0.0))
    np.testing.assert_allclose(own, -5.0 * way[:, 0], atol=1e-6)
