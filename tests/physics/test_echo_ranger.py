"""Ultrasonic ranger, imaging sonar, weather and grouping of echoes."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import binom, fisher_exact

import parhelion as ph
from chance import LIKELY
from parhelion.sensors.waves.echo import sound
from parhelion.weather.sound_loss import droplet_loss_db_per_m, rain_loss_db_per_m, scattering_efficiency

RANGER = "generic/ultrasonic-ranger"
RECORDED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "ultrasonic_hcsr04" / "hcsr04_cm.csv"
HALF_WAVE_M = 0.5 * 343.3 / 40e3


def wall(distance: float, tilt_deg: float = 0.0, size: float = 4.0, weather: ph.Weather | None = None) -> ph.World:
    """A board whose front is at a distance on the axis."""
    world = ph.World()
    if weather is not None:
        world.weather = weather
    board = ph.shapes.board(size, size, 0.01)
    pose = ph.Pose(xyz=(distance + 0.005, 0, 0), rpy_deg=(0, 0, tilt_deg))
    world.add(board, material="concrete", label="wall", pose=pose)
    return world


def readings(world: ph.World, count: int, seed: int = 4) -> np.ndarray:  # type: ignore[type-arg]
    sensor = ph.Echo(RANGER)
    return np.array([sensor.ping(world, pose=ph.Pose(), time=0.05 * k, seed=seed).nearest for k in range(count)])


@pytest.mark.parametrize("distance", [1.0, 2.0])
def test_the_strongest_echo_of_a_sphere_does_not_depend_on_its_triangles(distance: float) -> None:
    strongest = []
    for subdivisions in (2, 3, 4, 5):
        world = ph.World()
        world.add(ph.shapes.sphere(0.25, subdivisions), material="steel", pose=ph.Pose(xyz=(distance, 0, 0)))
        sheet = ph.Echo(RANGER).config.model_copy(update={"threshold_db": 15.0})
        found = ph.Echo(sheet, noise=False).ping(world, pose=ph.Pose())
        strongest.append(float(-found.attenuation.min()))
    assert np.ptp(strongest) < 2.0, strongest


@pytest.mark.parametrize(("distance", "heard"), [(0.03, True), (0.3, True), (2.0, True), (3.8, True), (4.5, False)])
def test_a_ranger_reaches_4_m(distance: float, heard: bool) -> None:
    nearest = ph.Echo(RANGER, noise=False).ping(wall(distance), pose=ph.Pose()).nearest
    assert np.isfinite(nearest) == heard
    if heard:
        # Late by at most the periods of the pulse.
        assert -1.1 * HALF_WAVE_M < nearest - distance < 8 * HALF_WAVE_M


@pytest.mark.slow
def test_the_threshold_ends_the_reach_at_4_m() -> None:
    # By the sonar equation 4.2 m; the window of the data sheet ends at 4 m in any case.
    longer = ph.Echo(RANGER).config.model_copy(update={"range_m": (0.02, 8.0)})
    heard = [np.isfinite(ph.Echo(longer, noise=False).ping(wall(at), pose=ph.Pose()).nearest) for at in (3.9, 4.6)]
    assert heard == [True, False]


def test_a_ranger_does_not_detect_tilted_walls() -> None:
    sensor = ph.Echo(RANGER, noise=False)
    assert np.isfinite(sensor.ping(wall(1.0, 10.0), pose=ph.Pose()).nearest)
    for distance in (0.5, 1.0, 2.0):
        assert sensor.ping(wall(distance, 45.0, 6.0), pose=ph.Pose()).nearest == np.inf


def test_readings_slip_by_half_a_wavelength() -> None:
    found = readings(wall(2.5), 80)
    close = found[np.abs(found - 2.51) < 0.03]
    assert len(close) >= 75
    steps = np.unique(np.round((close - close.min()) / HALF_WAVE_M, 1))
    assert set(steps) <= {0.0, 1.0, 2.0, 3.0}
    assert len(steps) > 1


@pytest.mark.skipif(not RECORDED.exists(), reason="needs the ultrasonic recordings of ../shared/data")
def test_readings_scatter_like_those_of_an_hc_sr04() -> None:
    rows = [[float(v) for v in row] for row in list(csv.reader(RECORDED.open()))[1:]]
    real = [np.array(row[1:]) / 100.0 for row in rows if row[0] >= 10]
    ours = [readings(wall(row[0] / 100.0, size=0.4), 10, seed=k) for k, row in enumerate(rows) if row[0] >= 10]
    outliers, slipped = [], []
    for values in (*real, *ours):
        near = values[np.abs(values - np.median(values)) < 0.01]
        outliers.append(len(values) - len(near))
        # Readings of a fixed plate differ by whole half waves, to 1.3 mm.
        steps = (near - near.min()) / HALF_WAVE_M
        assert np.all(np.abs(steps - np.round(steps)) < 0.3)
        assert steps.max() < 1.3
        slipped.append(bool(np.any(steps > 0.5)))
    # In some rows the amplitude is near a step of the comparator: 5 of the 7 recorded ones, 3 of ours.
    assert sum(slipped[: len(real)]) == 5
    assert any(slipped[len(real) :])
    # Single readings lie far off, in both about as often: one of 70 recorded ones.
    counts = np.array([sum(outliers[: len(real)]), sum(outliers[len(real) :])])
    assert counts[0] == 1
    assert fisher_exact([counts, 10 * len(real) - counts]).pvalue > LIKELY
    assert counts[1] <= binom.isf(LIKELY, 10 * len(ours), 0.02)


def test_ringing_hides_near_echoes() -> None:
    sheet = ph.Echo(RANGER).config
    assert sheet.ranger is not None
    loud = sheet.model_copy(update={"ranger": sheet.ranger.model_copy(update={"ring_level_db": 160.0})})
    sensor = ph.Echo(loud, noise=False)
    assert sensor.ping(wall(0.05), pose=ph.Pose()).nearest == np.inf
    assert sensor.ping(wall(0.5), pose=ph.Pose()).nearest == pytest.approx(0.5, abs=0.01)


@pytest.mark.parametrize("temperature", [-10.0, 40.0])
def test_ranges_follow_the_temperature_of_the_air(temperature: float) -> None:
    plain = ph.Echo("cosys/ertis-array", noise=False).ping(wall(2.0), pose=ph.Pose())
    world = wall(2.0, weather=ph.Weather(temperature_c=temperature))
    found = ph.Echo("cosys/ertis-array", noise=False).ping(world, pose=ph.Pose())
    ratio = float(sound.air_speed_m_s(20.0) / sound.air_speed_m_s(temperature))
    assert found.nearest / plain.nearest == pytest.approx(ratio, rel=2e-3)
    assert found.attenuation.min() != pytest.approx(plain.attenuation.min(), abs=0.1)


def test_wind_lengthens_the_way_there_and_back() -> None:
    plain = ph.Echo(RANGER, noise=False).ping(wall(2.0), pose=ph.Pose())
    windy = ph.Echo(RANGER, noise=False).ping(wall(2.0, weather=ph.Weather(wind_m_s=(20, 0, 0))), pose=ph.Pose())
    # c^2 / (c^2 - w^2) along the wind.
    assert windy.range[0] / plain.range[0] == pytest.approx(1.0 / (1.0 - (20.0 / 343.2) ** 2), rel=1e-5)


def test_rain_and_fog_attenuate_sound() -> None:
    plain = ph.Echo(RANGER, noise=False).ping(wall(3.0), pose=ph.Pose()).attenuation[0]
    for weather in (ph.Weather(rain_rate_mm_h=200), ph.Weather(visibility_m=30)):
        wet = ph.Echo(RANGER, noise=False).ping(wall(3.0, weather=weather), pose=ph.Pose()).attenuation[0]
        assert wet - plain == pytest.approx(6.0 * weather.sound(0.0, 40e3), rel=0.02)
        assert wet > plain
    # Rayleigh's law for small spheres, twice the geometric cross-section for large ones.
    assert scattering_efficiency(1e-4, 4e3) == pytest.approx(7.0 / 9.0 * (np.pi * 1e-4 * 4e3 / 343.0) ** 4, rel=1e-3)
    assert scattering_efficiency(1.0, 40e3) == pytest.approx(2.0, rel=1e-3)
    assert rain_loss_db_per_m(0.0, 40e3) == 0.0
    # Beyond the relaxation the loss of droplets does not depend on the frequency.
    assert droplet_loss_db_per_m(0.1, 1e-5, 80e3) == pytest.approx(droplet_loss_db_per_m(0.1, 1e-5, 40e3), rel=1e-2)


def test_wind_over_the_sea_raises_the_noise() -> None:
    sheet = ph.Echo("generic/echo-sounder-200").config
    calm, storm = (sheet.in_weather(ph.Weather(wind_m_s=(w, 0, 0))).noise_db for w in (1.0, 20.0))
    assert storm > calm
    assert sheet.in_weather(None) is sheet
    assert sheet.in_weather(ph.Weather()) is sheet


def test_an_imaging_sonar_sees_a_ball_above_the_bottom() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(80, 80), material="sand", label="bottom", pose=ph.Pose(xyz=(20, 0, -3)))
    world.add(ph.shapes.sphere(0.25, 4), material="steel", label="ball", pose=ph.Pose(xyz=(8, 1, -2.5)))
    found = ph.Echo("generic/forward-looking-750").ping(world, pose=ph.Pose(rpy_deg=(0, 12, 0)), seed=1)
    number = next(k for k, name in found.names["label"].items() if name == "ball")
    ball = found.label == number
    loudest = np.argmax(np.where(ball, found.snr, -np.inf))
    assert found.range[loudest] == pytest.approx(np.sqrt(8**2 + 1 + 2.5**2) - 0.25, abs=0.02)
    assert np.degrees(found.azimuth[loudest]) == pytest.approx(np.degrees(np.arctan2(1, 8.34)), abs=0.6)
    # Its beams separate echoes of one range: those of the bottom from 9 to 10 m, where few wide beams would have 8.
    step = ph.Echo("generic/forward-looking-750").config.range_step_m
    cell = np.floor(found.range[~ball & (found.range > 9.0) & (found.range < 10.0)] / step).astype(int)
    assert len(cell) > 20 * len(np.unique(cell))


@pytest.mark.parametrize("preset", ph.presets("echo"))
def test_every_number_of_a_preset_has_a_source_or_a_reason(preset: str) -> None:
    config = ph.Echo(preset).config
    known = {name for source in config.sources for name in source.covers} | set(config.assumed)
    given = set(config.model_fields_set) - {"name", "description", "maker", "model", "sources", "assumed"}
    parts = {name.partition(".")[0] for name in known}
    assert given <= parts
    assert all(config.assumed.values())
