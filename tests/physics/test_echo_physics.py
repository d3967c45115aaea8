"""Pulse-echo against closed forms: image sources, target strength, published absorption."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.config import parse
from parhelion.sensors.waves.echo import sound
from parhelion.sensors.waves.echo.config import EchoConfig
from parhelion.sensors.waves.echo.sound import reflection
from wave_rigs import alone, sonar


@pytest.mark.parametrize(
    ("temperature", "decibels_per_km"),
    [
        (20.0, {125: 0.3, 250: 1.1, 500: 2.8, 1000: 5.0, 2000: 9.0, 4000: 22.9, 8000: 76.6}),
        (10.0, {125: 0.4, 250: 1.0, 500: 1.9, 1000: 3.7, 2000: 9.7, 4000: 32.8, 8000: 117.0}),
    ],
)
def test_absorption_in_air_is_that_of_iso_9613(temperature: float, decibels_per_km: dict[int, float]) -> None:
    # ISO 9613-2, table 2: 70 % humidity, rounded to 0.1 dB/km. Its bands are exact powers of 10^0.3.
    for nominal, stated in decibels_per_km.items():
        exact = 1000.0 * 10.0 ** (0.3 * round(np.log10(nominal / 1000.0) / 0.3))
        found = 1e3 * float(sound.air_absorption_db_per_m(exact, temperature, 70.0))
        assert found == pytest.approx(stated, abs=0.06 + 0.005 * stated)


def test_absorption_in_water_agrees_with_ainslie_and_mccolm() -> None:
    # Their simpler formula (1998, JASA 103, 1671) is within 10 % of Francois and Garrison's from 0.1 to 1000 kHz.
    def simpler(f: float, t: float, s: float, d_km: float, ph_: float) -> float:
        f1, f2 = 0.78 * np.sqrt(s / 35) * np.exp(t / 26), 42.0 * np.exp(t / 17)
        found = 0.106 * f1 * f**2 / (f1**2 + f**2) * np.exp((ph_ - 8) / 0.56)
        found += 0.52 * (1 + t / 43) * (s / 35) * f2 * f**2 / (f2**2 + f**2) * np.exp(-d_km / 6)
        return float(found + 0.00049 * f**2 * np.exp(-(t / 27 + d_km / 17)))

    for f in (1.0, 10.0, 50.0, 200.0, 450.0, 1000.0):
        for t, d_km in ((4.0, 0.0), (10.0, 0.1), (20.0, 1.0)):
            stated = 1e3 * float(sound.water_absorption_db_per_m(1e3 * f, t, 35.0, 1e3 * d_km, 8.0))
            assert stated == pytest.approx(simpler(f, t, 35.0, d_km, 8.0), rel=0.12)


@pytest.mark.parametrize(
    ("frequency_khz", "temperature", "salinity", "depth", "ph_", "decibels_per_km"),
    [
        # echopype 0.11.1, utils.uwa.calc_absorption with formula_source="FG".
        (10, 10, 35, 0, 8.0, 0.96264), (38, 10, 35, 10, 8.0, 10.15144), (120, 10, 35, 10, 8.0, 38.77057),
        (200, 25, 35, 50, 8.1, 85.81329), (400, 4, 34, 100, 7.9, 92.79640), (1000, 15, 35, 0, 8.0, 328.09530),
        # arlpy 1.9.3, the example of uwa.absorption.
        (50, 27, 35, 10, 8.1, 10.71),
    ],
)  # fmt: skip
def test_absorption_in_water_is_that_of_other_programs(
    frequency_khz: float, temperature: float, salinity: float, depth: float, ph_: float, decibels_per_km: float
) -> None:
    stated = 1e3 * float(sound.water_absorption_db_per_m(1e3 * frequency_khz, temperature, salinity, depth, ph_))
    assert stated == pytest.approx(decibels_per_km, abs=5e-3 if frequency_khz == 50 else 1e-5)


def test_speeds_of_sound() -> None:
    assert sound.air_speed_m_s(20.0) == pytest.approx(343.2, abs=0.1)
    assert sound.water_speed_m_s(25.0, 35.0, 1000.0) == pytest.approx(1550.744, abs=1e-3)  # Mackenzie's own check


def test_first_echoes_of_a_shoebox_come_from_image_sources() -> None:
    size, place = np.array([4.0, 6.0, 3.0]), np.array([1.3, 2.1, 1.2])
    world = ph.World()
    world.add(ph.shapes.box(*size), material="concrete", label="room", pose=ph.Pose(tuple(size / 2)))
    echo = ph.Echo(sonar(), noise=False)
    found = echo.ping(world, pose=ph.Pose(tuple(place)))
    # Sides in view of a sensor that points along x: ahead, left, right, below, above.
    images = {
        "ahead": (size[0] - place[0], (1, 0, 0)), "left": (size[1] - place[1], (0, 1, 0)),
        "right": (place[1], (0, -1, 0)), "below": (place[2], (0, 0, -1)), "above": (size[2] - place[2], (0, 0, 1)),
    }  # fmt: skip
    toward = found.xyz / np.linalg.norm(found.xyz, axis=1, keepdims=True)
    for side, (distance, direction) in images.items():
        near = toward @ np.array(direction) > 0.99
        strongest = np.flatnonzero(near)[np.argmax(found.snr[near])]
        # The rays end 1 degree before the sides; the next ones, 0.4 degrees on, have paths that are up to 1 mm longer.
        exact = 2.0 * distance / (1.0 if side == "ahead" else np.cos(np.radians(1.0)))
        assert found.path_length[strongest] == pytest.approx(exact, abs=1.5e-3)
        assert found.time[strongest] == pytest.approx(2.0 * distance / 343.2, rel=1e-3)


def test_two_mirrors_make_the_second_image() -> None:
    # Between parallel walls 3 m apart: over the one behind and back, the image lies 2 m + 3 m away.
    world = ph.World()
    for x in (2.0, -1.0):
        world.add(ph.shapes.board(8, 8, 0.02), material="steel", pose=ph.Pose((x + 0.01 * np.sign(x), 0, 0)))
    field = {"azimuth_deg": (-20, 20), "elevation_deg": (-20, 20), "rays": 200_000, "bounces": 3}
    found = ph.Echo(sonar(field=field), noise=False).ping(world, pose=ph.Pose())
    for distance in (2.0, 5.0):
        assert np.abs(found.range - distance).min() < 2e-3


def test_a_sphere_has_target_strength_20_log_half_its_radius() -> None:
    radius, distance = 0.25, 4.0
    field = {"azimuth_deg": (-5, 5), "elevation_deg": (-5, 5), "rays": 200_000, "bounces": 1}
    config = sonar(field=field, beams=(1, 1), pulse={"duration_ms": 2.0}, frequency_khz=100, noise_level_db=-60)
    found = ph.Echo(config, noise=False).ping(alone(ph.shapes.sphere(radius), distance), pose=ph.Pose())
    near = distance - radius
    losses = 40.0 * np.log10(near) + 2.0 * near * config.medium.absorption_db_per_m(100e3)
    level = 10.0 * np.log10(np.sum(10.0 ** (-found.attenuation.astype(float) / 10.0)))
    # Steel absorbs 3 % of the power. The wavefront is curved at short range: d / (d + a) of the amplitude.
    expected = 20.0 * np.log10(radius / 2.0) + 20.0 * np.log10(near / (near + radius)) + 10.0 * np.log10(0.97)
    assert level + losses == pytest.approx(expected, abs=0.3)


def test_the_sonar_equation_predicts_the_reach_for_a_sphere() -> None:
    sheet = ph.Echo("generic/echo-sounder-200").config
    radius, distance = 0.5, 30.0
    near = distance - radius
    fields = sheet.model_dump(mode="python")
    fields["field"] |= {"azimuth_deg": (-1.2, 1.2), "elevation_deg": (-1.2, 1.2)}
    config = parse(EchoConfig, fields, "narrow")
    found = ph.Echo(config, noise=False).ping(alone(ph.shapes.sphere(radius, 5), distance), pose=ph.Pose())
    snr = 10.0 * np.log10(np.sum(10.0 ** (found.snr.astype(float) / 10.0)))
    steel = 10.0 * np.log10(reflection("steel", "water")[-1])
    strength = 20.0 * np.log10(radius / 2.0 * near / (near + radius)) + steel
    assert snr == pytest.approx(sheet.snr_db(near, strength), abs=0.3)
    assert sheet.snr_db(sheet.reach_m(-18.1), -18.1) == pytest.approx(sheet.threshold_db, abs=1e-6)


# Knudsen's levels at 1 kHz for the winds [m/s] of sea states 0 to 4 (Wenz 1962), as the US Navy's courses tabulate
# them [dB over 1 uPa^2/Hz].
@pytest.mark.parametrize(("wind", "level"), [(0.0, 44.5), (2.6, 55.0), (4.4, 61.5), (6.9, 64.5), (9.8, 66.5)])
def test_sea_noise_agrees_with_knudsen(wind: float, level: float) -> None:
    assert sound.wind_noise_db(1e3, wind) == pytest.approx(level, abs=2.0)
    # Above 1 kHz they fall by 17 dB per decade; the formula by 18.6 to 10 kHz.
    fall = sound.wind_noise_db(1e3, wind) - sound.wind_noise_db(1e4, wind)
    assert fall == pytest.approx(17.0, abs=3.0)


def test_noise_adds_up_over_a_band_and_a_beam() -> None:
    # Thermal noise dominates at 400 kHz: -15 + 20 lg 400 = 37.04 dB; the sea is negligible.
    assert sound.thermal_noise_db(400e3) == pytest.approx(37.04, abs=0.01)
    assert sound.sea_noise_db(400e3, 5.0) == pytest.approx(37.04, abs=0.05)
    # A flat spectrum over 10 kHz has a band level 40 dB above its spectrum level.
    hertz = np.linspace(195e3, 205e3, 33)
    assert sound.band_level_db(np.full(33, 31.0), hertz) == pytest.approx(71.0, abs=1e-9)
    # A narrow bell of widths a and b has the solid angle pi a b / (4 ln 2); half a sphere of gain 1 has 3.01 dB.
    a, b = 2.0 * np.sin(np.radians([2.0, 4.5]))
    closed = 10.0 * np.log10(4.0 * np.pi / (np.pi * a * b / (4.0 * np.log(2.0))))
    assert sound.directivity_index_db(a, b, 0.0) == pytest.approx(closed, abs=0.05)
    assert sound.directivity_index_db(2.0, 2.0, 1.0) == pytest.approx(10.0 * np.log10(2.0), abs=1e-3)


def test_microphones_have_the_noise_of_their_data_sheets() -> None:
    # IEC 61672-1, table 3: A-weighting.
    for hertz, weight in ((100, -19.1), (1000, 0.0), (4000, 1.0), (10_000, -2.5), (20_000, -9.3)):
        assert sound.a_weight_db(hertz) == pytest.approx(weight, abs=0.1)
    even = sound.microphone_noise_db(30.0)
    hertz = np.linspace(20.0, 20e3, 5001)
    assert sound.band_level_db(even + sound.a_weight_db(hertz), hertz) == pytest.approx(30.0, abs=0.01)
    ranger = ph.Echo("generic/ultrasonic-ranger").config
    assert ranger.noise_db == pytest.approx(float(even) + 10.0 * np.log10(5000.0), abs=1e-6)


def test_sand_in_water_reflects_by_its_impedance() -> None:
    # Medium sand: 1.845 times as dense, 1.178 times as fast (APL-UW TR 9407): R = (z - 1) / (z + 1).
    z = 1.845 * 1.178
    assert reflection("sand", "water")[-1] == pytest.approx(((z - 1) / (z + 1)) ** 2, rel=1e-6)
    assert reflection("sand", "water")[0] == pytest.approx(1.0)
    assert np.all(reflection("water", "water") == 1.0)


def test_microphones_receive_path_differences() -> None:
    config = sonar(
        microphones_mm=[(0, 0, 0), (0, 100, 0), (0, -100, 0)], pulse={"duration_ms": 0.1}, sample_rate_khz=2000,
        field={"azimuth_deg": (10, 50), "elevation_deg": (-15, 15), "rays": 100_000, "bounces": 1},
    )  # fmt: skip
    world = ph.World()
    place = np.array([3.0 * np.cos(np.radians(30)), 3.0 * np.sin(np.radians(30)), 0.0])
    world.add(ph.shapes.board(0.05, 0.05, 0.001), material="steel", pose=ph.Pose(tuple(place), rpy_deg=(0, 0, 30)))
    wave = ph.Echo(config, noise=False, waveform=True).ping(world, pose=ph.Pose()).waveform
    assert wave is not None
    # Lag of the best match with the first microphone: a single peak may belong to another half period.
    spectra = np.fft.rfft(wave.samples, 2 * wave.samples.shape[1])
    lag = np.argmax(np.fft.irfft(spectra[1:] * np.conj(spectra[0])), axis=1)
    lag = np.where(lag > wave.samples.shape[1], lag - 2 * wave.samples.shape[1], lag) / wave.rate_hz
    ways = [np.linalg.norm(place - microphone) for microphone in wave.position]
    assert lag * config.medium.speed_m_s == pytest.approx(np.array(ways[1:]) - ways[0], abs=1e-3)


def test_presets_detect_walls_and_bottoms() -> None:
    ranger = ph.Echo("generic/ultrasonic-ranger")
    world = alone(ph.shapes.board(2, 2, 0.1), 1.55)
    assert ranger.ping(world, pose=ph.Pose(), seed=2).nearest == pytest.approx(1.5, abs=0.01)
    sea = ph.World()
    sea.add(ph.shapes.plane(200, 200), material="sand", label="terrain", pose=ph.Pose((0, 0, -20)))
    down = ph.Pose(rpy_deg=(0, 90, 0))
    for name in ("generic/echo-sounder-200", "generic/multibeam-400"):
        found = ph.Echo(name).ping(sea, pose=down, seed=1)
        assert found.nearest == pytest.approx(20.0, abs=0.2)
        if "multibeam" in name:
            bottom = found.in_world().xyz[:, 2]
            assert np.ptp(found.in_world().xyz[:, 1]) > 40.0
            assert np.median(bottom) == pytest.approx(-20.0, abs=0.2)
    assert ph.Echo("generic/side-scan-450").config.range_step_m < 0.05
