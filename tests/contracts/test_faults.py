"""Faults of sensors: the effect of each on the record, and the same bits without one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.sensors.faults import JammingFault, TemperatureFault, Unit
from parhelion.sensors.waves.gnss.satellites import band_of

SPEED = 2.0
MOTION = ph.ConstantTwist(ph.Pose((0, 0, 1.5)), velocity=(SPEED, 0.0, 0.0))
WHERE: dict[str, Any] = {"trajectory": MOTION, "time": 0.4, "seed": 3, "frame": 4}


@pytest.fixture(scope="module")
def world() -> ph.World:
    made = ph.World()
    made.add(ph.shapes.plane(80, 80), material="asphalt", label="road")
    for x, y in ((8, 0), (0, 9), (-7, 2), (3, -8)):
        made.add(ph.shapes.box(2, 2, 3), material="concrete", pose=ph.Pose((x, y, 1.5)))
    return made


@pytest.fixture(scope="module")
def sound(world: ph.World) -> ph.Scan:
    return ph.Lidar("velodyne/vlp-16").scan(world, **WHERE)


def lidar(**faults: Any) -> ph.Lidar:
    return ph.Lidar("velodyne/vlp-16").with_faults(**faults)


def test_without_faults_the_bits_are_the_same(world: ph.World, sound: ph.Scan) -> None:
    assert lidar().faults is None
    assert lidar().scan(world, **WHERE).equals(sound)
    never = lidar(channels={"dead": []}, packets={"lost": 0.0}, clock={"from_s": 10.0, "offset_s": 1.0})
    assert never.scan(world, **WHERE).equals(sound)


def test_dead_channels_have_no_returns(world: ph.World, sound: ph.Scan) -> None:
    found = lidar(channels={"dead": [3, 15]}).scan(world, **WHERE)
    left = ~np.isin(sound.ring, [3, 15])
    assert 0.05 < 1.0 - left.mean() < 0.3
    np.testing.assert_array_equal(found.xyz, sound.xyz[left])
    assert np.all(found.shots.return_count[np.isin(found.shots.ring, [3, 15])] == 0)
    assert found.lost.sum() + len(np.unique(found.shot)) == len(found.shots)


def test_a_blocked_sector_is_empty_while_it_is_blocked(world: ph.World, sound: ph.Scan) -> None:
    blocked = {"from_deg": 170.0, "to_deg": 200.0, "highest_deg": 0.0}
    found = lidar(blocked=blocked).scan(world, **WHERE)
    azimuth = np.degrees(np.arctan2(sound.xyz[:, 1], sound.xyz[:, 0])) % 360.0
    inside = (azimuth > 170.05) & (azimuth < 199.95) & (sound.xyz[:, 2] < -0.02)
    assert inside.sum() > 100
    assert len(sound) - len(found) == pytest.approx(inside.sum(), abs=0.02 * inside.sum() + 16)
    assert lidar(blocked={**blocked, "until_s": 0.4}).scan(world, **WHERE).equals(sound)


def test_packets_are_lost_whole(world: ph.World, sound: ph.Scan) -> None:
    sensor = lidar(packets={"lost": 0.3, "columns": 24})
    found = sensor.scan(world, **WHERE)
    packet = found.shots.column // 24
    count, lost = np.bincount(packet), np.bincount(packet, found.lost)
    before = np.bincount(packet, sound.lost)
    gone = lost == count
    assert np.all(gone | (lost == before))
    share, error = gone.mean(), np.sqrt(0.3 * 0.7 / len(count))
    assert abs(share - 0.3) < 4.0 * error
    (many,) = sensor.scan_many(world, [MOTION], time=[0.4], seed=3, frames=[4])
    assert many.equals(found)


def test_a_wrong_mount_moves_the_sensor(world: ph.World) -> None:
    off = {"xyz": (0.05, 0.0, 0.0), "rpy_deg": (0.0, 0.0, 0.5)}
    found = lidar(mount=off).scan(world, **WHERE, mount=ph.Pose((0.2, 0, 0)))
    there = ph.Pose((0.2, 0, 0)) @ ph.Pose(off["xyz"], rpy_deg=off["rpy_deg"])
    assert found.equals(ph.Lidar("velodyne/vlp-16").scan(world, **WHERE, mount=there))
    turning = ph.ConstantTwist(ph.Pose(), velocity=(0, 0, 0), angular_velocity=(0.0, 0.0, 1.0))
    gyro = ph.Imu("xsens/mti-3", noise=False).with_faults(mount={"rpy_deg": (90.0, 0.0, 0.0)})
    rate = gyro.run(None, turning, duration=0.05).angular_rate
    np.testing.assert_allclose(rate, np.tile([0.0, 1.0, 0.0], (len(rate), 1)), atol=1e-3)


def test_a_clock_jumps_and_drifts(world: ph.World, sound: ph.Scan) -> None:
    clock = {"offset_s": 0.05, "drift_ppm": 100.0, "from_s": 0.3}
    found = lidar(clock=clock).scan(world, **WHERE)
    assert found.start_time == pytest.approx(0.4 + 0.05 + 100e-6 * 0.1, abs=1e-12)
    np.testing.assert_allclose(found.in_world().xyz, sound.in_world().xyz, atol=1e-4 * SPEED)
    imu = ph.Imu("xsens/mti-3").with_faults(clock=clock)
    stamps, true = (one.run(None, MOTION, duration=1.0, seed=3).time for one in (imu, ph.Imu("xsens/mti-3")))
    np.testing.assert_allclose(stamps - true, np.where(true < 0.3, 0.0, 0.05 + 1e-4 * (true - 0.3)), atol=1e-12)


def test_lost_samples_do_not_depend_on_the_split() -> None:
    imu = ph.Imu("xsens/mti-3").with_faults(loss={"lost": 0.2, "burst": 5})
    whole = imu.run(None, MOTION, duration=20.0, seed=3)
    count = round(20.0 * imu.rate_hz)
    error = np.sqrt(0.2 * 0.8 * 5 / count)
    assert abs(1.0 - len(whole) / count - 0.2) < 4.0 * error
    gaps = np.round(np.diff(whole.time) * imu.rate_hz).astype(int)
    assert set(np.unique(gaps % 5)) == {1}
    stream = imu.stream(None, MOTION, seed=3)
    parts = [stream.until(time) for time in (3.3, 11.7, 20.0)]
    np.testing.assert_array_equal(np.concatenate([one.time for one in parts]), whole.time)
    np.testing.assert_array_equal(np.concatenate([one.angular_rate for one in parts]), whole.angular_rate)


def test_defect_pixels_stay_in_place(world: ph.World) -> None:
    camera = ph.Camera("generic/vga").with_faults(pixels={"dead": 0.02, "hot": 0.01, "columns": 2})
    first, second = (camera.shoot(world, pose=ph.Pose((0, 0, 1.5)), time=time, seed=3).colour for time in (0.0, 1.0))
    sound = ph.Camera("generic/vga").shoot(world, pose=ph.Pose((0, 0, 1.5)), time=0.0, seed=3).colour
    height, width = sound.shape[:2]
    bright, dark = (np.all(one == level, axis=2) for one, level in ((first, 255), (first, 0)))
    changed = np.any(first != sound, axis=2)
    np.testing.assert_array_equal(changed & ~dark & ~bright, False)
    assert abs((bright & changed).mean() - 0.01) < 4.0 * np.sqrt(0.01 / sound[..., 0].size) + 0.01 * 2 / width
    assert int(np.all(dark, axis=0).sum()) == 2
    assert abs(dark.mean() - 0.02 - 2 / width) < 4.0 * np.sqrt(0.02 / (height * width)) + 0.03 * 2 / width + 1e-4
    assert np.all(second[dark & changed] == 0)


def test_a_jammer_lowers_the_signals_and_takes_the_fix() -> None:
    jammer = {"xyz": (300.0, 0.0, 2.0), "power_dbm": 0.0, "from_s": 2.0, "until_s": 6.0}
    sky, place = ph.World(), ph.Pose((0, 0, 2))
    receiver = ph.Gnss("u-blox/f9p")
    sound = receiver.run(sky, place, duration=8.0, seed=3)
    found = receiver.with_faults(jamming=jammer).run(sky, place, duration=8.0, seed=3)
    during = (found.time >= 2.0) & (found.time < 6.0)
    np.testing.assert_array_equal(found.cn0[~during], sound.cn0[~during])
    # Friis: -30 dBW - 5 dB - 20 log10(4 pi 300 m / 0.1903 m) against -203.9 dBW/Hz over 2.22 * 1.023 MHz.
    received_dbw = -30.0 - 5.0 - 20.0 * np.log10(4 * np.pi * 300.0 / 0.190294)
    loss = 10.0 * np.log10(1.0 + 10.0 ** (0.1 * (received_dbw + 203.9)) / (2.22 * 1.023e6))
    assert 15.0 < loss < 20.0
    both = np.isfinite(found.cn0) & np.isfinite(sound.cn0) & during[:, None]
    assert both.sum() > 10
    np.testing.assert_allclose((sound.cn0 - found.cn0)[both], loss, atol=1e-9)
    close = receiver.with_faults(jamming={**jammer, "xyz": (10.0, 0.0, 2.0)}).run(sky, place, duration=8.0, seed=3)
    assert np.all(close.mode[during] == 0)
    assert np.all(close.mode[~during] == 3)
    # Twice the distance is a quarter of the power.
    far = JammingFault(xyz=(0, 0, 0), power_dbm=50.0)
    near_db, far_db = far.loss_db(np.array([[100.0, 0, 0], [200.0, 0, 0]]), np.zeros(2))
    assert near_db - far_db == pytest.approx(20.0 * np.log10(2.0), abs=1e-3)


def test_a_spoofer_moves_the_fix_and_the_ranges_agree() -> None:
    receiver, place = ph.Gnss("u-blox/f9p"), ph.Pose((0, 0, 2))
    spoofing = {"from_s": 1.0, "offset_m": (3.0, 0.0, 0.0), "velocity_m_s": (0.0, 2.0, 0.0)}
    sound = receiver.run(ph.World(), place, duration=4.0, seed=3)
    found = receiver.with_faults(spoofing=spoofing).run(ph.World(), place, duration=4.0, seed=3)
    since = found.time - 1.0
    away = np.where(since[:, None] >= 0.0, np.column_stack([0 * since + 3.0, 2.0 * since, 0 * since]), 0.0)
    np.testing.assert_allclose(found.position - sound.position, away, atol=1e-9)
    np.testing.assert_array_equal(found.true_position, sound.true_position)
    # One metre of latitude is 8.99e-6 degrees near 50 degrees north; x of a world is east by default.
    north = (found.latitude - sound.latitude)[-1] * 111_230.0
    east = (found.longitude - sound.longitude)[-1] * 111_320.0 * np.cos(np.radians(sound.latitude[-1]))
    np.testing.assert_allclose(np.hypot(north, east), np.hypot(*away[-1, :2]), rtol=0.01)
    # The receiver's own least squares on the changed ranges: direction cosines times the displacement.
    level, azimuth = np.cos(found.elevation[-1]), found.azimuth[-1] - np.radians(found.metadata["x_azimuth_deg"])
    toward = np.column_stack([level * np.cos(azimuth), -level * np.sin(azimuth), np.sin(found.elevation[-1])])
    longer = (found.pseudorange - sound.pseudorange)[-1]
    known = np.isfinite(longer)
    np.testing.assert_allclose(longer[known], -(toward @ away[-1])[known], atol=1e-6)
    cycles = (found.carrier - sound.carrier)[-1] * band_of("L1", found.satellites).wavelength_m
    both = np.isfinite(cycles)
    np.testing.assert_allclose(cycles[both], longer[both], atol=1e-6)


def test_an_imu_drifts_with_its_temperature() -> None:
    fault = {"ambient_c": 40.0, "rise_c": 10.0, "tau_s": 2.0}
    drifting = ph.Imu("xsens/mti-3", noise=False).with_faults(temperature=fault)
    found, sound = (
        one.run(None, ph.Pose(), duration=6.0, seed=3) for one in (drifting, ph.Imu("xsens/mti-3", noise=False))
    )
    rate, force = found.angular_rate - sound.angular_rate, found.specific_force - sound.specific_force
    warmth = 15.0 + 10.0 * (1.0 - np.exp(-found.time / 2.0))
    np.testing.assert_allclose(rate, rate[:1] / 15.0 * warmth[:, None], atol=1e-12)
    np.testing.assert_allclose(force, force[:1] / 15.0 * warmth[:, None], atol=1e-10)
    draws = [TemperatureFault().coefficients(Unit("imu/a/", seed, 100.0)) for seed in range(400)]
    gyro, accel = (np.array([one[k] for one in draws]) for k in (0, 1))
    assert np.degrees(gyro.std()) == pytest.approx(0.05, rel=4.0 / np.sqrt(2 * gyro.size))
    assert accel.std() == pytest.approx(9.80665e-3, rel=4.0 / np.sqrt(2 * accel.size))


def test_faults_that_do_not_fit_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"faults\.pixels: is for camera, not for a sensor of type lidar"):
        lidar(pixels={"dead": 0.1})
    with pytest.raises(ConfigError, match="lost"):
        lidar(packets={"lost": 1.5})
    with pytest.raises(ConfigError, match="scan_tensors: has no faults"):
        lidar(channels={"dead": [1]}).scan_tensors(ph.World(), [ph.Pose()])


def test_a_run_writes_its_faults_to_the_truth(tmp_path: Path, world: ph.World) -> None:
    settings = {
        "world": "test-range",
        "duration_s": 0.3,
        "sensors": [
            {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 2]},
             "faults": {"channels": {"dead": [0, 1]}, "clock": {"offset_s": 0.02}}},
        ],
        "outputs": [],
        "report": False,
    }  # fmt: skip
    file = tmp_path / "run.yaml"
    file.write_text(yaml.safe_dump(settings))
    ph.Scenario.load(file).run(tmp_path / "out")
    truth = json.loads((tmp_path / "out/truth/faults.json").read_text())
    assert truth["top"]["channels"]["dead"] == [0, 1]
    assert truth["top"]["clock"]["offset_s"] == 0.02
    cloud = ph.PointCloud.load(sorted((tmp_path / "out/top").glob("*.pcd"))[0])
    assert not np.isin(cloud.ring, [0, 1]).any()
    settings["sensors"][0]["faults"] = {"dead_rows": {"dead": [0]}}
    file.write_text(yaml.safe_dump(settings))
    with pytest.raises(ConfigError, match=r"faults\.dead_rows"):
        ph.Scenario.load(file)
