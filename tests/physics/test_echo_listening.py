"""Listening to a world's sounds against closed forms: image sources of a room, levels, Doppler's effect, delays."""

from __future__ import annotations

import itertools
import wave
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from oracles import oracle
from parhelion.core.errors import ConfigError
from parhelion.core.frames import ECHO_ORIGINS
from parhelion.core.trajectory import ConstantTwist
from parhelion.sensors.waves.echo import passive
from parhelion.sensors.waves.echo.config import EchoConfig
from wave_rigs import sonar

ROOM = np.array([4.0, 6.0, 3.0])
SOURCE, PLACE = np.array([3.1, 4.3, 1.9]), np.array([1.3, 2.1, 1.2])
ORDER = 3
TONE_KHZ = 5.0


def listener(**more: object) -> EchoConfig:
    """Receiver for the front half-space without own pulse."""
    field = {"azimuth_deg": (-89, 89), "elevation_deg": (-89, 89), "rays": 1000, "bounces": ORDER}
    fields = {"mode": "passive", "noise_level_db": -60, "listening_band_khz": (1, 60), "field": field, **more}
    return sonar(**fields)


def room() -> ph.World:
    world = ph.World("room")
    world.add(ph.shapes.box(*ROOM), material="concrete", label="wall", pose=ph.Pose(tuple(ROOM / 2)))
    return world


def heard_all_around(world: ph.World) -> dict[str, NDArray[np.float64]]:
    """Path lengths and levels of both half-spaces, shortest first."""
    echo = ph.Echo(listener(), noise=False)
    pings = [echo.ping(world, pose=ph.Pose(tuple(PLACE), rpy_deg=(0, 0, yaw))) for yaw in (0, 180)]
    found = {
        name: np.concatenate([ping.fields[name].astype(float) for ping in pings])
        for name in ("path_length", "attenuation", "bounces")
    }
    order = np.argsort(found["path_length"])
    return {name: values[order] for name, values in found.items()}


def shoebox_images(order: int) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
    """Distances of the images of a source in a shoebox, and their numbers of reflections (Allen and Berkley 1979)."""
    axes = []
    for size, source in zip(ROOM, SOURCE, strict=True):
        images = [(2 * n * size + (1 - 2 * u) * source, abs(n - u) + abs(n)) for n in range(-3, 4) for u in (0, 1)]
        axes.append([one for one in images if one[1] <= order])
    found = [
        (np.linalg.norm(np.array([x, y, z]) - PLACE), a + b + c)
        for (x, a), (y, b), (z, c) in itertools.product(*axes)
        if a + b + c <= order
    ]
    distance, mirrors = zip(*sorted(found), strict=True)
    return np.array(distance), np.array(mirrors)


def test_a_room_has_the_images_of_a_shoebox() -> None:
    world = room()
    world.add_sound("beacon", xyz=SOURCE.tolist(), level_db=100, tone_khz=TONE_KHZ)
    found = heard_all_around(world)
    distance, mirrors = shoebox_images(ORDER)
    assert len(distance) == 63
    assert found["path_length"] == pytest.approx(distance, abs=1e-5)
    assert np.array_equal(found["bounces"], mirrors)
    # Concrete reflects 97 % of the power; its roughness of 0.1 mm costs less than 0.002 dB at 5 kHz.
    absorbed = listener().medium.absorption_db_per_m(1e3 * TONE_KHZ) * distance
    expected = 20.0 * np.log10(distance) + absorbed - mirrors * 10.0 * np.log10(0.97)
    assert found["attenuation"] == pytest.approx(expected, abs=0.01)


@pytest.mark.oracle
def test_a_room_has_the_images_of_pyroomacoustics() -> None:
    pra = oracle("pyroomacoustics")
    box = pra.ShoeBox(ROOM, fs=48_000, materials=pra.Material(0.03), max_order=ORDER, air_absorption=False)
    box.add_source(SOURCE)
    box.add_microphone(PLACE)
    box.image_source_model()
    images = box.sources[0]
    distance = np.linalg.norm(images.images.T - PLACE, axis=1)
    order = np.argsort(distance)
    world = room()
    world.add_sound("beacon", xyz=SOURCE.tolist(), level_db=100, tone_khz=TONE_KHZ)
    found = heard_all_around(world)
    assert found["path_length"] == pytest.approx(distance[order], abs=1e-5)
    assert np.array_equal(found["bounces"], np.asarray(images.orders)[order])
    damping = np.asarray(images.damping).reshape(-1)[order]
    absorbed = listener().medium.absorption_db_per_m(1e3 * TONE_KHZ) * distance[order]
    assert found["attenuation"] - absorbed == pytest.approx(-20.0 * np.log10(damping / distance[order]), abs=0.01)


def test_an_echo_of_a_wall_is_as_loud_as_its_image() -> None:
    # Active mode: sound from the image of the sensor itself, twice the distance away.
    distance = 2.5
    world = ph.World()
    world.add(ph.shapes.board(6, 6, 0.1), material="concrete", pose=ph.Pose((distance + 0.05, 0, 0)))
    config = sonar(
        field={"azimuth_deg": (-35, 35), "elevation_deg": (-35, 35), "rays": 200_000, "bounces": 1}, beams=(1, 1),
        pulse={"duration_ms": 3.0}, frequency_khz=20, noise_level_db=-60,
    )  # fmt: skip
    found = ph.Echo(config, noise=False).ping(world, pose=ph.Pose())
    level = 10.0 * np.log10(np.sum(10.0 ** (-found.attenuation.astype(float) / 10.0)))
    way = 2.0 * distance
    absorbed = config.medium.absorption_db_per_m(20e3) * way
    # Sampling error of 10^5 equally weighted rays and of the lobe: 0.3 dB, as for the sphere.
    assert level == pytest.approx(-20.0 * np.log10(way) - absorbed + 10.0 * np.log10(0.97), abs=0.3)


def test_walls_hide_sounds_and_carriers_do_not() -> None:
    world = ph.World()
    car = world.add(ph.shapes.box(1, 1, 1), material="steel", label="car", pose=ph.Pose((5, 0, 0)), name="car")
    world.add_sound("engine", carrier=car, level_db=100, band_khz=(10, 20))
    echo = ph.Echo(listener(), mode="passive", noise=False)
    found = echo.ping(world, pose=ph.Pose())
    assert found.range == pytest.approx([5.0])
    assert [found.names["label"][int(label)] for label in found.label] == ["car"]
    assert [found.names["source"][int(number)] for number in found.source] == ["engine"]
    assert [ECHO_ORIGINS[number] for number in found.origin] == ["sound"]
    assert found.instance.tolist() == [car.instance]
    assert np.isinf(found.nearest)
    world.add(ph.shapes.board(8, 8, 0.2), material="concrete", label="wall", pose=ph.Pose((3, 0, 0)))
    assert len(echo.ping(world, pose=ph.Pose())) == 0


def test_the_band_limits_the_received_power() -> None:
    # Noise from 10 to 30 kHz, a receiver from 20 to 25: a quarter of the power, 6.02 dB less.
    world = ph.World()
    world.add_sound("noise", xyz=(2, 0, 0), level_db=90, band_khz=(10, 30))
    world.add_sound("whistle", xyz=(2, 0.5, 0), level_db=90, tone_khz=40)
    medium = {"kind": "water", "temperature_c": 10}  # negligible absorption over 2 m
    config = listener(medium=medium, listening_band_khz=(20, 25), rate_hz=1)
    found = ph.Echo(config, noise=False).ping(world, pose=ph.Pose())
    absorbed = 2.0 * float(np.mean(config.medium.absorption(np.linspace(20e3, 25e3, 11))))
    assert found.attenuation == pytest.approx([20 * np.log10(2.0) + 10 * np.log10(4.0) + absorbed], abs=1e-3)
    assert [found.names["source"][int(number)] for number in found.source] == ["noise"]
    assert len(ph.Echo(config, noise=False, sounds=["whistle"]).ping(world, pose=ph.Pose())) == 0


@pytest.mark.parametrize("who", ["source", "receiver"])
def test_approaching_sounds_are_doppler_shifted_up(who: str) -> None:
    speed = 20.0
    moving = ConstantTwist(ph.Pose((4, 0, 0) if who == "source" else (0, 0, 0)), (speed, 0, 0))
    away = ConstantTwist(ph.Pose((4, 0, 0)), (-speed, 0, 0))
    world = ph.World()
    world.add_sound("horn", level_db=100, tone_khz=10, **({"motion": away} if who == "source" else {"xyz": (4, 0, 0)}))
    echo = ph.Echo(listener(), waveform=True, noise=False)
    heard = echo.ping(world, **({"pose": ph.Pose()} if who == "source" else {"trajectory": moving})).waveform
    assert heard is not None
    c = listener().medium.speed_m_s
    expected = 10e3 / (1.0 - speed / c) if who == "source" else 10e3 * (1.0 + speed / c)
    samples = heard.samples[0, 200:-200].astype(float)
    rises = np.flatnonzero((samples[:-1] < 0) & (samples[1:] >= 0))
    exact = rises - samples[rises] / (samples[rises + 1] - samples[rises])
    stated = (len(exact) - 1) / (exact[-1] - exact[0]) * heard.rate_hz
    assert stated == pytest.approx(expected, rel=1e-4)
    # Received root mean square: the level at 1 m minus 20 lg 4 and absorption.
    level = 20.0 * np.log10(np.std(samples) / 20e-6)
    way = 100.0 - 20.0 * np.log10(4.0) - 4.0 * listener().medium.absorption_db_per_m(expected)
    assert level == pytest.approx(way, abs=0.05)


def test_noise_reaches_microphones_with_path_delays() -> None:
    place = np.array([2.0, 1.0, 0.3])
    world = ph.World()
    world.add_sound("hiss", xyz=place.tolist(), level_db=90, band_khz=(5, 45))
    config = listener(microphones_mm=[(0, 0, 0), (0, 60, 0), (0, -60, 20)], sample_rate_khz=400)
    heard = ph.Echo(config, waveform=True, noise=False).ping(world, pose=ph.Pose(), seed=3).waveform
    assert heard is not None
    first = np.fft.rfft(heard.samples[0], 16 * heard.samples.shape[1])
    for row in (1, 2):
        product = np.fft.rfft(heard.samples[row], 16 * heard.samples.shape[1]) * np.conj(first)
        lag = np.fft.irfft(np.concatenate([product, np.zeros(7 * (len(product) - 1))]))  # eightfold oversampling
        shift = int(np.argmax(lag))
        shift -= len(lag) if shift > len(lag) // 2 else 0
        ways = np.linalg.norm(place - heard.position[[0, row]], axis=1)
        stated = shift / 8.0 / heard.rate_hz * config.medium.speed_m_s
        assert stated == pytest.approx(ways[1] - ways[0], abs=343.0 / heard.rate_hz / 8.0)


def test_a_recording_is_heard_and_noise_is_the_seeds(tmp_path: Path) -> None:
    rate, count = 96_000, 9600
    tones = np.sin(2 * np.pi * 8e3 * np.arange(count) / rate) + np.sin(2 * np.pi * 30e3 * np.arange(count) / rate)
    with wave.open(str(tmp_path / "two.wav"), "wb") as file:
        file.setnchannels(2)
        file.setsampwidth(2)
        file.setframerate(rate)
        both = np.stack([0.4 * tones, np.zeros(count)], axis=1)
        file.writeframes(np.round(both * 32767).astype("<i2").tobytes())
    world = ph.World()
    world.add_sound("two", xyz=(1, 0, 0), level_db=80, wav="two.wav", folder=tmp_path)
    config = listener(listening_band_khz=(5, 20), sample_rate_khz=200)
    ping = ph.Echo(config, waveform=True, noise=False).ping(world, pose=ph.Pose())
    # Half of its power, the tone of 8 kHz, is in the band.
    assert ping.attenuation == pytest.approx([10 * np.log10(2.0) + config.medium.absorption_db_per_m(8e3)], abs=0.1)
    assert ping.waveform is not None
    spectrum = np.abs(np.fft.rfft(ping.waveform.samples[0] * np.hanning(ping.waveform.samples.shape[1])))
    peak = np.argmax(spectrum) * ping.waveform.rate_hz / ping.waveform.samples.shape[1]
    assert peak == pytest.approx(8e3, abs=ping.waveform.rate_hz / ping.waveform.samples.shape[1])
    world.add_sound("hiss", xyz=(1, 0.2, 0), level_db=90, band_khz=(5, 20))
    echo = ph.Echo(config, waveform=True, noise=False)
    one, again, other = (echo.ping(world, pose=ph.Pose(), seed=seed).waveform for seed in (1, 1, 2))
    assert one is not None
    assert again is not None
    assert other is not None
    assert one.samples.tobytes() == again.samples.tobytes() != other.samples.tobytes()


def test_impossible_waveforms_are_reported() -> None:
    echo = ph.Echo(listener(), waveform=True, noise=False)
    world = ph.World()
    world.add_sound("jet", motion=ConstantTwist(ph.Pose((50, 0, 0)), (-400, 0, 0)), level_db=120, tone_khz=5)
    with pytest.raises(ConfigError, match="sound 'jet': its path length changes by 400 m/s"):
        echo.ping(world, pose=ph.Pose())
    # A sound at the position of the sensor has no direction: only its image in the wall ahead is received.
    world = room()
    world.add_sound("own", xyz=PLACE.tolist(), level_db=80, tone_khz=5)
    ping = ph.Echo(listener(), bounces=1, waveform=True, noise=False).ping(world, pose=ph.Pose(tuple(PLACE)))
    assert ping.range == pytest.approx([2.0 * (ROOM[0] - PLACE[0])])
    assert ping.waveform is not None
    assert np.all(np.isfinite(ping.waveform.samples))


def test_rays_find_the_mirrors_that_all_tries_find(monkeypatch: pytest.MonkeyPatch) -> None:
    # As in worlds of many planes, where not all sequences can be tried.
    monkeypatch.setattr(passive, "RULES", replace(passive.RULES, most_tried=0))
    world = room()
    world.add_sound("beacon", xyz=SOURCE.tolist(), level_db=100, tone_khz=TONE_KHZ)
    found = heard_all_around(world)
    distance, mirrors = shoebox_images(ORDER)
    assert found["path_length"] == pytest.approx(distance, abs=1e-5)
    assert np.array_equal(found["bounces"], mirrors)
