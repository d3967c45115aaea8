"""Sounds of worlds and scenarios: files, sensor modes, and messages for bad input."""

from __future__ import annotations

import contextlib
import re
import wave
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.core.random import Stream, to_normal
from parhelion.sensors.check import check_sensor
from parhelion.sensors.waves.bounce import BouncePaths
from parhelion.sensors.waves.echo import echo, passive
from parhelion.sensors.waves.planes import planes_of
from parhelion.world.emitters import read_wav
from pins import check, even
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


# ---- numbers ---------------------------------------------------------------------------------------------------------


def band_world(tmp_path: Path) -> ph.World:
    """A tone, two bands, a recording at half the rate of the receiver and one at four times its rate."""
    world, random = ph.World(), np.random.default_rng(4)
    for name, rate in (("slow", 60_000), ("fast", 480_000)):
        with wave.open(str(tmp_path / f"{name}.wav"), "wb") as file:
            file.setnchannels(1)
            file.setsampwidth(2)
            file.setframerate(rate)
            file.writeframes(random.integers(-9000, 9000, 700).astype("<i2").tobytes())
    world.add_sound("tone", level_db=80, tone_khz=30.0)
    world.add_sound("band", level_db=80, band_khz=(20.0, 40.0), xyz=(1.0, 0.0, 0.5))
    world.add_sound("beside", level_db=80, band_khz=(50.0, 60.0))
    world.add_sound("slow", level_db=80, wav="slow.wav", folder=tmp_path)
    world.add_sound("fast", level_db=80, wav="fast.wav", folder=tmp_path)
    return world


def test_spectra_of_sounds_within_a_band(tmp_path: Path) -> None:
    world = band_world(tmp_path)
    entries = {entry.name: entry for entry in world.sounds}
    for low, high, share in ((20e3, 30e3, 1.0), (30e3, 31e3, 1.0), (30.001e3, 40e3, 0.0), (10e3, 29.999e3, 0.0)):
        hertz, found = passive.spectrum_in(entries["tone"], (low, high))
        assert (hertz.tolist(), found.tolist()) == ([30e3], [share])
    hertz, share = passive.spectrum_in(entries["band"], (25e3, 90e3))
    assert hertz == pytest.approx(25e3 + 15e3 / 33 * (np.arange(33) + 0.5))
    assert share == pytest.approx(np.full(33, 15.0 / 20.0 / 33.0))
    assert passive.spectrum_in(entries["beside"], (25e3, 45e3))[1].sum() == 0.0
    recording = entries["slow"].recording
    assert recording is not None
    hertz, share = passive.spectrum_in(entries["slow"], (5e3, 25e3))
    power = np.abs(np.fft.rfft(recording.samples)) ** 2
    at = np.fft.rfftfreq(700, 1.0 / 60_000.0)
    edges = np.linspace(5e3, 25e3, 34)
    expected = [power[(at >= a) & ((at < b) | (b == 25e3) & (at <= b))].sum() / power.sum() for a, b in pairwise(edges)]
    assert hertz == pytest.approx(0.5 * (edges[1:] + edges[:-1]))
    assert share == pytest.approx(expected)


def test_signals_of_sounds(tmp_path: Path) -> None:
    """Mean square 1 for tones and bands; noise continues from window to window; recordings keep their shape."""
    entries = {entry.name: entry for entry in band_world(tmp_path).sounds}
    rate = 120_000.0
    time = 0.01 + np.arange(4096) / rate
    tone = passive._signal(entries["tone"], 0.01, 4096, rate, 3)
    assert tone == pytest.approx(np.sqrt(2.0) * np.sin(2.0 * np.pi * 30e3 * time), abs=1e-9)
    band = passive._signal(entries["band"], 0.01, 4096, rate, 3)
    a, b, _, _ = Stream(3, "echo/sound/band").words((1200 + np.arange(4096)).astype(np.uint32))
    spectrum, hertz = np.fft.rfft(to_normal(a, b)[0]), np.arange(2049) * rate / 4096
    spectrum[(hertz < 20e3) | (hertz > 40e3)] = 0.0
    assert band == pytest.approx(np.fft.irfft(spectrum, 4096) * np.sqrt(3.0))
    assert np.mean(band**2) == pytest.approx(1.0, abs=0.1)
    for name, factor in (("slow", 0.5), ("fast", 4.0)):
        recording = entries[name].recording
        assert recording is not None
        found = passive._signal(entries[name], 0.01, 4096, rate, 3)
        samples = recording.samples
        if factor > 1.0:
            kept = np.fft.rfft(samples)
            kept[np.arange(351) * 480e3 / 700 > 60e3] = 0.0
            samples = np.fft.irfft(kept, 700)
        place = time * recording.rate_hz
        low = np.floor(place).astype(int)
        heard = samples[low % 700] * (1.0 - place + low) + samples[(low + 1) % 700] * (place - low)
        kept = np.fft.rfft(heard)
        kept[hertz > 0.5 * recording.rate_hz] = 0.0
        assert found == pytest.approx(np.fft.irfft(kept, 4096), abs=1e-9)


def test_columns_of_sounds(tmp_path: Path) -> None:
    world = band_world(tmp_path)
    world.add(ph.shapes.board(1, 1), material="steel", label="wall", pose=ph.Pose((3, 0, 0)))
    config = sonar().model_copy(update={"mode": "passive"})
    heard = replace(
        passive._nothing(),
        sound=np.array([1, 3, 0]),
        level_db=np.array([70.0, 60.0, 50.0]),
        length=np.array([1.0, 2.0, 3.0]),
        direction=np.eye(3),
        bounces=np.array([0, 1, 2]),
        part=np.array([-1, 0, -1]),
        gain=np.array([0.5, 0.2, 0.1]),
        image=np.array([[1.0, 0.0, 0.5], [2.0, 1.0, 0.0], [0.0, 0.0, 3.0]]),
        rates=np.array([[0.0, 0.0], [20.0, -5.0], [-9.0, 4.0]]),
    )
    for place in (world, band_world(tmp_path)):
        found = passive.columns_of(place, heard, config, (7, 8))
        own = [entry.label_id for entry in place.sounds]
        item = [entry.instance for entry in place.sounds]
        walls = place is world
        assert found["time"] == pytest.approx(heard.length / config.medium.speed_m_s)
        assert found["label"].tolist() == [own[1], place.parts.label[0] if walls else own[3], own[0]]
        assert found["instance"].tolist() == [item[1], place.parts.instance[0] if walls else item[3], item[0]]
        assert found["origin"].tolist() == [7, 8, 7]
        assert (found["source"].tolist(), found["bounces"].tolist()) == ([2, 4, 1], [0, 1, 2])
        assert found["sent"].tolist() == [80.0, 80.0, 80.0]
    empty = passive.columns_of(ph.World(), passive._nothing(), config, (7, 8))
    assert {len(values) for values in empty.values()} == {0}
    microphones = config.model_copy(update={"microphones_mm": [(0.0, 30.0, 0.0), (0.0, -30.0, 10.0)]})
    pressure = passive.pressures(world, heard, microphones, ph.Pose((0.1, 0.2, 0.3), rpy_deg=(5, 6, 7)), 0.02, 600, 5)
    check("echo/pressures", rel=1e-7, pressure=pressure)


def test_numbers_of_echoes() -> None:
    """Groups, speckle, pressures, noise, ringing, wind and readings of made-up paths: recorded."""
    random, config = np.random.default_rng(8), ph.Echo("generic/ultrasonic-ranger").config
    n = 300
    direction = random.normal(size=(n, 3)) * [0.3, 1.0, 1.0] + [2.0, 0.0, 0.0]
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    length = random.choice([1.5, 2.0, 3.7], n) + random.uniform(0.0, 0.01, n)
    paths = BouncePaths(
        random.uniform(1e-4, 1e-2, n).astype(np.float32), length.astype(np.float32), np.zeros(n, np.float32),
        direction.astype(np.float32), (0.4 * length).astype(np.float32), (np.arange(n) % 3).astype(np.uint32),
        np.zeros(n, np.uint32), (np.arange(n) % 3).astype(np.uint8), np.arange(n),
    )  # fmt: skip
    found = echo.grouped(paths, config)
    rough = echo.speckled(found, paths, np.arange(n) % 2 == 0, ph.Pose((1, 2, 3), rpy_deg=(0, 0, 30)), config)
    stream = Stream(3, "echo/numbers")
    rows = {
        "range": 0.5 * found["length"], "path_length": found["length"], "time": found["length"] / 343.0,
        "direction": direction[found["row"]], "level": np.linspace(20.0, 110.0, len(found["row"])),
        "source": (np.arange(len(found["row"])) % 2).astype(np.int64),
    }  # fmt: skip
    loud = [echo._above_ringing(rows | {"time": late * rows["time"]}, config) for late in (0.05, 0.2, 1.0)]
    assert 0 < np.sum(loud) < np.size(loud)
    assert config.ranger is not None
    readings = []
    for noise in (False, True):
        sensor = ph.Echo(config, noise=noise)
        for changes in ({}, {"spurious_share": 0.5, "timer_us": 10.0}, {"amplitude_jitter": 0.3}):
            ranger = config.ranger.model_copy(update=changes)
            for k, level in enumerate((7.0, 20.0, 60.0)):
                drawn = Stream(k, "echo/readings")
                readings += [
                    sensor._reading(ranger, 1.3, np.array([level]), drawn),
                    sensor._reading(ranger, np.inf, np.array([]), drawn),
                ]
    shifted = {name: values.copy() for name, values in rows.items()}
    hot = config.in_weather(ph.Weather(temperature_c=40.0))
    echo._stretch(
        shifted, config.medium.speed_m_s, hot, ph.Pose(rpy_deg=(0, 0, 40)), ph.Weather(wind_m_s=(9.0, -4.0, 1.0))
    )
    check(
        "echo/parts", rel=1e-6, power=even(rough["power"]), length=found["length"], row=found["row"],
        pressure=even(echo.echo_pressures(paths, rough, config, 2000)), phase=rough["phase"], loud=loud,
        noise=echo._noise_db(rows["level"] - 40.0, stream), readings=readings, range=shifted["range"],
        time=even(shifted["time"]), way=shifted["path_length"],
    )  # fmt: skip
    with pytest.raises(ConfigError, match="sounds: give a list of names"):
        ph.Echo("generic/ultrasonic-ranger", mode="passive", sounds=["a", 1])  # type: ignore[list-item]
    with pytest.raises(ConfigError, match="sounds: give a list of names"):
        ph.Echo("generic/ultrasonic-ranger", mode="passive", sounds="fan")
    assert ph.Echo("generic/ultrasonic-ranger", mode="passive", sounds=["a", "b"]).sounds == ("a", "b")
    assert ph.Echo("generic/ultrasonic-ranger", mode="passive", sounds=[]).sounds == ()
