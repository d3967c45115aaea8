"""Raw samples, leakage and polar images of radars, compared with the cube and with a recording."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from chance import spread_bounds
from parhelion.core.errors import ConfigError
from parhelion.core.frames import AdcFrame
from parhelion.sensors.waves.radar.adc import ENCODER_COUNTS, oxford_image, polar_image
from wave_rigs import radar_config

RECORDING = Path(__file__).resolve().parents[3] / "shared" / "data" / "radar_ti_adc" / "doppler_example_1.npy"
TAPS = [{"range_m": 0.049, "level_db": 54.7}, {"range_m": 0.14, "level_db": 47.5}]


def ti_radar(model: str = "test", **more: object) -> ph.Radar:
    """The radar of the recording: 60 MHz/us over 128 samples at 2.5 MHz, 128 ramps of two transmitters, 92 us each."""
    waveform = {
        "bandwidth_mhz": 60.0 * 51.2, "ramp_us": 51.2, "interval_us": 184.0, "ramps": 128, "range_bins": 128,
    }  # fmt: skip
    field = {"azimuth_deg": (-60, 60), "elevation_deg": (-15, 15), "rays": 40_000, "bounces": 2}
    config = radar_config(
        name=model, frequency_ghz=77.42, waveform=waveform, array={"azimuth_channels": 8}, field=field, leakage=TAPS
    )
    return ph.Radar(config, **more)  # type: ignore[arg-type]


def test_samples_transform_into_the_cube() -> None:
    world = ph.World()
    motion = ph.ConstantTwist(ph.Pose((4.0, 0.4, 0.0)), velocity=(-1.5, 0.0, 0.0))
    world.add_actor(ph.shapes.sphere(0.05), material="steel", trajectory=motion)
    radar = ti_radar(cube=True)
    frame = radar.adc(world, pose=ph.Pose(), seed=1)
    cube = radar.scan(world, pose=ph.Pose(), seed=1).cube
    assert cube is not None
    assert frame.samples.shape == (128, 8, 128)
    fast = slow = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(128) / 128)
    spectrum = np.fft.fft(np.fft.fft(frame.samples * fast, axis=2) * slow[:, None, None], axis=0)
    beams = np.abs(np.fft.fftshift(np.fft.fft(spectrum, axis=1), axes=(0, 1))) ** 2
    beams /= np.sum(fast**2) * np.sum(slow**2) * 8
    found = np.unravel_index(np.argmax(beams[:, :, 10:]), (128, 8, 118))
    peak = np.unravel_index(np.argmax(cube.power[10:]), cube.power[10:].shape)
    assert (found[2], found[0]) == (peak[0], peak[1])
    assert 10 * np.log10(beams[:, :, 10:].max() / cube.power[10:].max()) == pytest.approx(0.0, abs=0.3)
    # Noise is white with a variance of 1.
    assert np.median(beams[:20, :, 20:]) / np.log(2.0) == pytest.approx(1.0, abs=0.03)


@pytest.mark.slow
def test_the_phase_of_a_target_is_that_of_its_path_and_of_nothing_else() -> None:
    radar = ti_radar(noise=False)
    wavelength = radar.config.wavelength_m

    def peak(shift_m: float, *, another: bool = False) -> complex:
        world = ph.World()
        if another:
            world.add(ph.shapes.sphere(0.05), material="steel", pose=ph.Pose((2.5, -1.0, 0.0)))
        world.add(ph.shapes.sphere(0.05), material="steel", pose=ph.Pose((4.0 + shift_m, 0.0, 0.0)))
        samples = radar.adc(world, pose=ph.Pose(), seed=1).samples
        fast = 0.5 - 0.5 * np.cos(2.0 * np.pi * np.arange(128) / 128)
        spectrum = np.fft.fft(samples.mean(axis=(0, 1)) * fast)
        return complex(spectrum[round(3.95 / radar.config.range_step_m)])

    first = peak(0.0)
    # An eighth of a wavelength farther is a quarter on both ways, and 0.03 rad of the window.
    assert np.angle(peak(wavelength / 8.0) / first) == pytest.approx(-0.5 * np.pi, abs=0.06)
    assert np.angle(peak(0.0, another=True) / first) == pytest.approx(0.0, abs=0.06)


def test_samples_are_reproducible_and_savable(tmp_path: Path) -> None:
    world, radar = ph.World(), ti_radar()
    one, same, other = (radar.adc(world, pose=ph.Pose(), seed=seed) for seed in (1, 1, 2))
    assert one.samples.tobytes() == same.samples.tobytes() != other.samples.tobytes()
    one.save(tmp_path / "adc.npz")
    assert np.array_equal(AdcFrame.load(tmp_path / "adc.npz").samples, one.samples)
    counts = one.counts(noise_counts=4.0)
    assert counts.dtype == np.int16
    assert counts.shape == (128, 8, 128, 2)
    with pytest.raises(ConfigError, match="coherent waveform"):
        ph.Radar("furuno/drs4d-nxt").adc(world, pose=ph.Pose())


def recorded_map() -> NDArray[np.float64]:
    """Power by range and velocity of the recording, in units of its median; words are 16-bit two's complement."""
    raw = np.load(RECORDING)
    parts = [part.astype(np.uint16).view(np.int16).astype(np.float32) for part in (raw.real, raw.imag)]
    frame = AdcFrame((parts[0] + 1j * parts[1]).astype(np.complex64), 0.0488, 0.0823)
    found = frame.range_velocity()
    return np.asarray(found / np.median(found))


@pytest.mark.skipif(not RECORDING.exists(), reason="needs ../shared/data/radar_ti_adc")
def test_leakage_and_static_ridge_are_those_of_a_recording() -> None:
    recorded = 10.0 * np.log10(recorded_map())
    # A room: walls, shelves and a table, of which the recording's scene is unknown.
    world = ph.World()
    world.add(ph.shapes.box(0.2, 8.0, 3.0), material="plaster", pose=ph.Pose((6.0, 0.0, 0.5), rpy_deg=(0, 0, 8)))
    for side in (-2.5, 2.5):
        world.add(ph.shapes.box(6.0, 0.2, 3.0), material="plaster", pose=ph.Pose((3.0, side, 0.5)))
    world.add(ph.shapes.box(0.4, 1.2, 2.0), material="wood", pose=ph.Pose((4.5, 1.5, 0.0), rpy_deg=(0, 0, 20)))
    # The levels of the eight channels belong to a model: the mean power of twelve models.
    radars = [ti_radar(model=f"model {number}") for number in range(12)]
    maps = [radar.adc(world, pose=ph.Pose(), seed=1).range_velocity() for radar in radars]
    simulated = 10.0 * np.log10(np.mean([one / np.median(one) for one in maps], axis=0))
    # Fitted to 1 dB: the leakage, bin by bin at velocity 0. Its powers are sums of 2 x 8 x 12 squared normal numbers.
    assert recorded[:4, 64] == pytest.approx([48.9, 54.7, 48.7, 47.3], abs=0.5)
    low, high = 20.0 * np.log10(spread_bounds(2 * 8 * len(radars)))
    off = simulated[:4, 64] - recorded[:4, 64]
    assert np.all((off > low - 1.0) & (off < high + 1.0)), off
    # Predicted: the skirts of the leakage over velocity are no higher than the floor, two bins off the ridge.
    for one in (recorded, simulated):
        assert np.median(one[:4, 70:120]) < 3.0
    # Predicted: whatever stands still makes a ridge at velocity 0 over all ranges of the scene.
    ridge = [float(np.median(one[20:100, 64])) for one in (recorded, simulated)]
    aside = [float(np.median(one[20:100, 74])) for one in (recorded, simulated)]
    assert min(ridge) > 10.0
    assert max(aside) < 3.0


def test_leakage_is_in_the_cube_and_not_detected() -> None:
    radar = ph.Radar("ti/iwr6843", cube=True)
    scan = radar.scan(ph.World(), pose=ph.Pose(), seed=1)
    assert scan.cube is not None
    middle = radar.config.speed_bins // 2
    assert 10 * np.log10(scan.cube.power[:4, middle].mean()) > 45.0
    assert 10 * np.log10(scan.cube.power[:4, middle + 8].mean()) < 5.0
    assert np.all(scan.range >= radar.config.minimum_range_m)


def test_polar_images_are_as_the_oxford_data_set_stores_them() -> None:
    world = ph.World()
    # 30 m ahead and 20 m to the right.
    for x, y in ((30.0, 0.0), (0.0, -20.0)):
        world.add(ph.shapes.sphere(0.5), material="steel", pose=ph.Pose((x, y, 0.0)))
    radar = ph.Radar("navtech/cts350-x", cube=True)
    scan = radar.scan(world, pose=ph.Pose(), seed=1, time=2.0)
    assert scan.cube is not None
    rows = oxford_image(scan.cube, scan.start_time, scan.duration)
    assert rows.shape == (400, 11 + 3768)
    assert rows.dtype == np.uint8
    # As the SDK of the data set reads it.
    stamps = rows[:, :8].copy().view(np.int64).ravel()
    angle = rows[:, 8:10].copy().view(np.uint16).ravel() / ENCODER_COUNTS * 2.0 * np.pi
    power = rows[:, 11:].astype(np.float32) / 255.0
    assert np.all(rows[:, 10] == 255)
    assert np.all(np.diff(angle) > 0.0)
    # The antenna starts straight behind, turns clockwise, and needs a quarter of a second per revolution.
    turned = (scan.cube.azimuth.max() - scan.cube.azimuth[np.argsort(-scan.cube.azimuth)]) / (2.0 * np.pi)
    assert np.sort(stamps) == pytest.approx(np.sort(stamps).min() + 250_000 * turned, abs=1.0)
    ahead = int(np.argmin(angle))
    assert stamps[ahead] == pytest.approx(2_125_000 + 250_000 * angle[ahead] / (2.0 * np.pi), abs=1.0)
    assert stamps.min() >= 2_000_000
    assert stamps.max() <= 2_250_000
    cell = 0.0432
    for azimuth, distance in ((0.0, 29.5), (np.pi / 2.0, 19.5)):
        row = int(np.argmin(np.abs((angle - azimuth + np.pi) % (2 * np.pi) - np.pi)))
        assert np.argmax(power[row]) * cell == pytest.approx(distance, abs=0.1)
    assert np.array_equal(rows[:, 11:], polar_image(scan.cube))
