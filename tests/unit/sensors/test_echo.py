"""Pulse-echo sensors: repeatability, persistent speckle, files, and messages for bad input."""

from __future__ import annotations

import wave
from pathlib import Path

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.sensors.check import check_sensor
from parhelion.sensors.waves.echo.echo import speckle
from wave_rigs import alone, sonar


@pytest.mark.parametrize("name", ph.presets("echo"))
def test_presets_keep_the_contract(name: str) -> None:
    world = alone(ph.shapes.board(3, 3, 0.1), 2.0)
    check_sensor(ph.Echo(name, rays=20_000), world, ph.Fixed(ph.Pose()))
    config = ph.Echo(name).config
    reported = {path.split(".")[0] for source in config.sources for path in source.covers}
    reported |= {path.split(".")[0] for path in config.assumed}
    assert {"frequency_khz", "source_level_db", "noise", "emitter", "field"} <= reported


def test_speckle_stays_while_the_geometry_does(tmp_path: Path) -> None:
    world = ph.World()
    world.add(ph.shapes.plane(6, 6, 30), material="gravel", label="ground", pose=ph.Pose((2, 0, -0.5)))
    field = {"azimuth_deg": (-30, 30), "elevation_deg": (-60, 0), "rays": 50_000, "bounces": 1}
    echo = ph.Echo(sonar(field=field), waveform=True, noise=False)
    one, later = (echo.ping(world, pose=ph.Pose(), time=time, seed=seed) for time, seed in ((0.0, 1), (3.0, 2)))
    assert one.waveform is not None
    assert later.waveform is not None
    assert one.waveform.samples.tobytes() == later.waveform.samples.tobytes()
    assert np.ptp(one.waveform.samples) > 0
    one.waveform.save_wav(tmp_path / "heard.wav")
    with wave.open(str(tmp_path / "heard.wav")) as file:
        assert file.getnchannels() == 1
        assert file.getnframes() == one.waveform.samples.shape[1]


def test_a_step_aside_changes_the_speckle() -> None:
    # 5 cm are many half apertures, so the sum over the bottom's scatterers changes.
    world = ph.World()
    world.add(ph.shapes.plane(6, 6, 30), material="gravel", label="ground", pose=ph.Pose((2, 0, -0.5)))
    field = {"azimuth_deg": (-30, 30), "elevation_deg": (-60, 0), "rays": 50_000, "bounces": 1}
    echo = ph.Echo(sonar(field=field), waveform=True, noise=False)
    waves = [echo.ping(world, pose=ph.Pose((0.0, aside, 0.0))).waveform for aside in (0.0, 0.0, 0.05)]
    samples = np.stack([wave.samples[0] for wave in waves if wave is not None]).astype(float)
    alike = np.corrcoef(samples)
    assert alike[0, 1] == pytest.approx(1.0, abs=1e-12)
    assert abs(alike[0, 2]) < 0.5


def test_speckle_is_that_of_many_scatterers() -> None:
    # 10^5 places: means of exponential and uniform numbers, within 4 standard deviations.
    place = np.random.default_rng(3).uniform(-100, 100, (100_000, 3))
    power, phase = speckle(place, 0.01)
    assert np.mean(power) == pytest.approx(1.0, abs=4.0 / np.sqrt(1e5))
    assert np.var(power) == pytest.approx(1.0, abs=4.0 * np.sqrt(8.0 / 1e5))
    assert abs(np.mean(np.exp(2j * np.pi * phase))) < 4.0 / np.sqrt(1e5)
    assert abs(np.corrcoef(power, phase)[0, 1]) < 4.0 / np.sqrt(1e5)
    again, _ = speckle(place, 0.01)
    assert np.array_equal(power, again)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"frequency_khz": 3000}, "frequency_khz"),
        ({"range_m": (5, 1)}, "range_m must increase"),
        ({"range_m": (0, 400)}, "pings at 5 Hz"),
        ({"pulse": {"duration_ms": 0}}, "pulse.duration_ms"),
        ({"pulse": {"duration_ms": 1, "bandwidth_khz": 90}}, "less than twice frequency_khz"),
        ({"medium": {"kind": "mud"}}, "medium.kind"),
    ],
)
def test_errors_in_sheets_name_the_field(change: dict, words: str) -> None:  # type: ignore[type-arg]
    with pytest.raises(ConfigError, match=words):
        sonar(**change)


def test_a_sensor_inside_a_wall_is_reported() -> None:
    world = ph.World()
    world.add(ph.shapes.box(0.3, 10, 10), material="concrete")
    field = {"azimuth_deg": (-30, 30), "elevation_deg": (-30, 30), "rays": 5000}
    with pytest.raises(ConfigError, match="inside something"):
        ph.Echo(sonar(field=field)).ping(world, pose=ph.Pose())
    with pytest.raises(ConfigError, match="unknown echo"):
        ph.Echo("nothing")
