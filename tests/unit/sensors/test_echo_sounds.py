"""Sounds of worlds and scenarios: files, sensor modes, and messages for bad input."""

from __future__ import annotations

import contextlib
import re
import wave
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.sensors.check import check_sensor
from parhelion.sensors.waves.echo import passive
from parhelion.sensors.waves.planes import planes_of
from parhelion.world.emitters import read_wav
from wave_rigs import alone, sonar


def scene() -> ph.World:
    world = alone(ph.shapes.board(3, 3, 0.1), 2.0)
    world.add_sound("pump", xyz=(1, 0.5, 0), level_db=80, band_khz=(20, 60))
    return world


def test_each_mode_receives_its_own_signals() -> None:
    world = scene()
    found = {mode: ph.Echo(sonar(), mode=mode).ping(world, pose=ph.Pose(), seed=1) for mode in ("active", "both")}
    found["passive"] = ph.Echo(sonar(), mode="passive", sounds=["pump"]).ping(world, pose=ph.Pose(), seed=1)
    assert set(found["active"].source) == {0}
    assert set(found["passive"].source) == {1}
    assert set(found["both"].source) == {0, 1}
    assert found["both"].nearest == pytest.approx(found["active"].nearest, abs=1e-3)
    assert np.all(np.diff(found["both"].range) >= 0)
    # One direct path, and one over the board behind it, which carries the board's label.
    assert set(found["passive"].bounces) == {0, 1}
    words = {found["passive"].names["label"][int(label)] for label in found["passive"].label}
    assert words == {"object", "target"}
    check_sensor(ph.Echo(sonar(), mode="both"), world, ph.Fixed(ph.Pose()))


def test_world_files_hold_sounds(tmp_path: Path) -> None:
    world = ph.World()
    car = world.add_actor(
        ph.shapes.box(2, 1, 1), trajectory=ph.Waypoints([0, 2], [ph.Pose((5, 0, 0)), ph.Pose((9, 0, 0))]), name="car",
        label="car",
    )  # fmt: skip
    world.add_sound("engine", xyz=(1, 0, 0), carrier=car, level_db=90, tone_khz=12)
    world.add_sound("bell", xyz=(0, 3, 0), level_db=70, band_khz=(10, 20))
    world.save(tmp_path / "yard.yaml")
    again = ph.World.load(tmp_path / "yard.yaml")
    assert [one.name for one in again.sounds] == ["engine", "bell"]
    place, velocity = again.sounds[0].place(1.0)
    assert place == pytest.approx([8, 0, 0])
    assert velocity == pytest.approx([2, 0, 0])
    world.remove(car)
    assert [one.name for one in world.sounds] == ["bell"]
    world.remove_sound(world.sounds[0])
    assert world.sounds == ()


def scenario(**more: Any) -> dict[str, Any]:
    (tmp,) = (more.pop("options", {"mode": "passive"}),)
    return {
        "duration_s": 0.3, "seed": 4, "world": "test-range",
        "vehicles": [{"name": "robot", "model": "clearpath/husky", "follow": {"points": [[5, 1, 0]]}}],
        "sounds": [{"name": "fan", "actor": "robot", "xyz": [0, 0, 0.5], "level_db": 110, "band_khz": [35, 45]}],
        "sensors": [
            {"name": "ears", "type": "echo", "model": "generic/ultrasonic-ranger", "options": tmp,
             "mount": {"xyz": [-3, 0, 1]}}
        ], "outputs": [], "report": False, **more,
    }  # fmt: skip


def test_a_scenario_has_sounds_on_vehicles(tmp_path: Path) -> None:
    ph.Scenario.from_mapping(scenario()).run(tmp_path / "out")
    files = sorted((tmp_path / "out" / "ears").glob("*.csv"))
    rows = np.genfromtxt(files[0], delimiter=",", names=True)
    assert np.any(rows["source"] == 1)
    assert np.min(rows["range"]) == pytest.approx(np.hypot(3.0, 0.5), abs=0.1)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"options": {"mode": "passive", "sounds": ["fam"]}}, "sensors[0]: ears: unknown sound 'fam': did you mean"),
        ({"options": {"mode": "loud"}}, "mode"),
        ({"options": {"sounds": ["fan"]}}, "set mode to passive or both"),
        ({"sounds": [{"name": "a", "level_db": 50}]}, "give one of tone_khz, band_khz, wav"),
        ({"sounds": [{"name": "a", "level_db": 50, "tone_khz": 2, "actor": "robo"}]}, "unknown sound: actor 'robo'"),
        ({"sounds": [{"name": "a", "level_db": 50, "band_khz": [9, 2]}]}, "band_khz must increase"),
        ({"sounds": [{"name": "a", "level_db": 50, "wav": "nothing.wav"}]}, "no such file"),
        ({"sounds": [{"name": "a", "level_db": 50, "tone_khz": 2}] * 2}, "the name 'a' is given twice"),
    ],
)
def test_bad_sounds_are_reported(change: dict[str, Any], words: str) -> None:
    with pytest.raises(ParhelionError, match=re.escape(words)):
        ph.Scenario.from_mapping(scenario(**change))


def test_bad_recordings_are_reported(tmp_path: Path) -> None:
    world = ph.World()
    (tmp_path / "no.wav").write_bytes(b"RIFF nonsense")
    with pytest.raises(FormatError, match="is not a PCM WAV file"):
        world.add_sound("a", level_db=50, wav="no.wav", folder=tmp_path)
    with pytest.raises(ConfigError, match="level_db"):
        world.add_sound("a", level_db=5000, tone_khz=1)
    # Damaged headers and truncated files raise a ConfigError.
    with wave.open(str(tmp_path / "good.wav"), "wb") as file:
        file.setnchannels(1)
        file.setsampwidth(2)
        file.setframerate(8000)
        file.writeframes((np.arange(100) % 9).astype("<i2").tobytes())
    good, random = (tmp_path / "good.wav").read_bytes(), np.random.default_rng(5)
    for _ in range(200):
        bad = bytearray(good[: random.integers(1, len(good))])
        bad[random.integers(0, min(50, len(bad)))] = int(random.integers(0, 256))
        (tmp_path / "bad.wav").write_bytes(bytes(bad))
        with contextlib.suppress(ParhelionError):
            read_wav(tmp_path / "bad.wav")


@pytest.mark.parametrize(("squared_phase", "mirrors"), [(5.99, True), (6.01, False)])
def test_rough_planes_are_no_mirrors(monkeypatch: pytest.MonkeyPatch, squared_phase: float, mirrors: bool) -> None:
    """The limit applies at the lowest frequency of the band, where planes are smoothest."""
    world, config = scene(), ph.Echo("cosys/ertis-array").config
    longest = config.medium.speed_m_s / config.band_hz[0]
    height = np.sqrt(squared_phase) * longest / (4.0 * np.pi)
    monkeypatch.setattr(passive, "finish_of", lambda name: SimpleNamespace(height_m=height))
    found = passive._mirrors(world, planes_of(world, "echo"), config)
    assert len(found)
    assert found.tolist() == [mirrors] * len(found)


@pytest.mark.parametrize(("share", "known"), [(0.899, True), (0.901, False)])
def test_waveforms_of_fast_sounds_are_refused(share: float, known: bool) -> None:
    entry = scene().sounds[0]
    rates = np.array([[0.0, -share * 340.0]])
    heard = replace(passive._nothing(), rates=rates, length=np.ones(1))
    with contextlib.nullcontext() if known else pytest.raises(ConfigError, match=r"waveforms support up to 0\.9"):
        passive._check(entry, heard, 1e5, 340.0)
