"""Scenarios: fields of a file, runs that write files, resuming, and commands during a run."""

from __future__ import annotations

import copy
import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import parhelion as ph
from parhelion.core.errors import ParhelionError
from parhelion.io import poses as tum
from parhelion.scenario import Scenario, json_schema
from parhelion.scenario.bodies import DrivenBody
from run_rigs import YARD, Stop, files_of, stop_after

DRIVE: dict[str, Any] = {
    "name": "husky in a yard",
    "seed": 7,
    "duration_s": 0.5,
    "world": "yard.yaml",
    "report": False,
    "weather": {"rain_rate_mm_h": 20},
    "vehicles": [
        {"name": "husky", "model": "clearpath/husky", "follow": {"points": [[5, 0, 0], [5, 5, 0]], "speed_m_s": 0.9},
         "body": {"shape": {"kind": "box", "size_m": [1, 0.7, 0.4]}, "pose": {"xyz": [0, 0, 0.2]}}},
        {"name": "car", "motion": {"spline": {"points": [[-8, 4, 0], [0, 4, 0], [8, 4, 0]], "max_speed_m_s": 8}},
         "body": {"shape": {"kind": "box", "size_m": [4, 1.8, 1.5]}, "pose": {"xyz": [0, 0, 0.75]}, "label": "car"}},
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "husky",
         "mount": {"xyz": [0, 0, 0.8]}, "options": {"sub_rays": 1}},
        {"name": "imu", "type": "imu", "model": "analog-devices/adis16470", "vehicle": "husky", "rate_hz": 200},
        {"name": "wheels", "type": "odometry", "model": "clearpath/husky", "vehicle": "husky"},
    ],
}  # fmt: skip


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "yard.yaml").write_text(yaml.safe_dump(YARD))
    (tmp_path / "drive.yaml").write_text(yaml.safe_dump(DRIVE))
    return tmp_path


def test_a_run_writes_clouds_streams_truth_and_a_manifest(folder: Path) -> None:
    summary = Scenario.load(folder / "drive.yaml").run(folder / "out")
    assert (summary.scans, summary.found) == (5, 0)
    written = files_of(folder / "out")
    assert set(written) == {
        *(f"top/{number:06d}.pcd" for number in range(5)), "imu.csv", "wheels.csv", "manifest.json", "inputs.json",
        "truth/top.tum", "truth/husky.csv", "truth/husky.tum",
        "truth/collisions.jsonl", "truth/car.csv", "truth/car.tum", "bag/bag_0.mcap", "bag/metadata.yaml",
    }  # fmt: skip
    manifest = json.loads(written["manifest.json"])
    assert manifest["complete"]
    assert manifest["seed"] == 7
    assert set(manifest["files"]) == set(written) - {"manifest.json", "inputs.json"}
    imu = np.loadtxt(folder / "out" / "imu.csv", delimiter=",", skiprows=1)
    assert imu.shape == (100, 7)
    assert np.mean(imu[:, 3]) == pytest.approx(9.8, abs=0.2)
    cloud = ph.PointCloud.load(folder / "out" / "top" / "000004.pcd")
    assert {"car", "building", "road"} <= {cloud.names["label"][int(n)] for n in np.unique(cloud.label) if n}
    # Nothing of the vehicle that carries the sensor: its box would lie within half a metre below it.
    near = np.linalg.norm(cloud.xyz, axis=1) < 0.9
    assert not np.any(near & (cloud.origin == 0))
    poses = tum.read_tum(folder / "out" / "truth" / "top.tum")
    np.testing.assert_allclose(poses.times, np.arange(5) * 0.1, atol=1e-12)


def test_scans_are_those_that_the_lidar_gives_alone(folder: Path) -> None:
    scenario = Scenario.load(folder / "drive.yaml")
    found = [(number, scan) for step in scenario for number, scan in step.scans.get("top", [])]
    assert [number for number, _ in found] == list(range(5))
    scanner = scenario.frame_sensors[0]
    alone = scanner.sensor.scan(scenario.world, trajectory=scanner.motion, time=scanner.start(3), seed=7, frame=3)
    assert np.array_equal(alone.xyz, found[3][1].xyz)
    again = [scan for step in scenario for _, scan in step.scans.get("top", [])]
    assert all(np.array_equal(a.xyz, b.xyz) for a, (_, b) in zip(again, found, strict=True))


def test_a_stopped_run_goes_on_to_the_same_bytes(folder: Path) -> None:
    Scenario.load(folder / "drive.yaml").run(folder / "whole")

    with pytest.raises(Stop):
        Scenario.load(folder / "drive.yaml").run(folder / "parts", progress=stop_after(2))
    assert len(list((folder / "parts" / "top").glob("*.pcd"))) == 2
    assert not json.loads((folder / "parts" / "manifest.json").read_text())["complete"]
    summary = Scenario.load(folder / "drive.yaml").run(folder / "parts")
    assert (summary.scans, summary.found) == (3, 2)
    assert files_of(folder / "parts") == files_of(folder / "whole")


@pytest.mark.parametrize("threads", ["1", "2"])
def test_the_same_bytes_with_any_number_of_threads(folder: Path, threads: str) -> None:
    Scenario.load(folder / "drive.yaml").run(folder / "here")
    command = [sys.executable, "-m", "parhelion", "run", str(folder / "drive.yaml"), "-o", str(folder / "there")]
    subprocess.run(
        command, env={**os.environ, "PARHELION_THREADS": threads}, check=True, capture_output=True, timeout=120
    )
    assert files_of(folder / "there") == files_of(folder / "here")


def test_another_scenario_is_not_mixed_into_a_folder(folder: Path) -> None:
    Scenario.load(folder / "drive.yaml").run(folder / "out")
    other = Scenario.from_mapping({**DRIVE, "seed": 8}, folder)
    with pytest.raises(ph.ConfigError, match="another scenario"):
        other.run(folder / "out")
    shutil.rmtree(folder / "out")
    other.run(folder / "out")


def test_a_route_may_begin_with_the_start_of_the_vehicle(folder: Path) -> None:
    ends = []
    for first in ([], [[0, 0, 0]]):
        fields = copy.deepcopy(DRIVE)
        fields["vehicles"][0]["follow"]["points"][:0] = first
        fields["sensors"] = fields["sensors"][1:2]
        *_, last = Scenario.from_mapping(fields, folder)
        ends.append(last.state("husky").xyz.tolist())
    assert ends[0] == ends[1]
    assert ends[0][0][0] > 0.1


def test_commands_drive_a_vehicle(folder: Path) -> None:
    fields = copy.deepcopy(DRIVE)
    del fields["vehicles"][0]["follow"]
    fields["sensors"] = fields["sensors"][1:2]
    fields["duration_s"] = 2.0
    scenario = Scenario.from_mapping(fields, folder)
    for step in scenario:
        assert step.state("husky").time[0] == pytest.approx(step.time)
        if step.number == 0:
            step.command("husky", ph.DriveCommand(0.5, 0.0))
        if step.number == 100:
            step.command("husky", ph.DriveCommand(0.0, 0.0))
        if 60 < step.number < 100:  # at the very end of a step it moves, too
            assert step.state("husky").velocity[0, 0] == pytest.approx(0.5, abs=0.01)
        assert len(step.samples("imu")) == 2
    body = scenario.body("husky")
    assert isinstance(body, DrivenBody)
    x = body.state(np.array([2.0])).xyz[0, 0]
    assert 0.4 < x < 0.65
    with pytest.raises(ph.ConfigError, match="no vehicle 'huskey'"):
        scenario.command("huskey", ph.DriveCommand(1.0))


@pytest.mark.parametrize("style", ["kitti", "nuscenes"])
def test_people_traffic_and_their_boxes(folder: Path, style: str) -> None:
    fields = copy.deepcopy(DRIVE)
    fields |= {
        "duration_s": 0.2,
        "boxes": style,
        "people": [{"name": "walker", "spline": {"points": [[3, -2, 0], [6, -2, 0]], "max_speed_m_s": 1.4}}],
        "traffic": [
            {"routes": [[[-20, -6, 0], [8, -6, 0], [8, -9, 0], [-20, -9, 0]]], "count": 2, "speed_m_s": 5},
        ],
    }  # fmt: skip
    del fields["weather"]
    summary = Scenario.from_mapping(fields, folder).run(folder / "out")
    assert summary.scans == 2
    ending = {"kitti": "txt", "nuscenes": "json"}[style]
    boxes = [folder / "out" / "top-boxes" / f"{number:06d}.{ending}" for number in range(2)]
    assert all(file.relative_to(folder / "out").as_posix() in files_of(folder / "out") for file in boxes)
    text = boxes[1].read_text()
    assert "Pedestrian" in text if style == "kitti" else "pedestrian" in text or "person" in text
    assert "Car" in text if style == "kitti" else "car" in text
    # Walls and ground stand still and get no box.
    assert "building" not in text
    again = Scenario.from_mapping(fields, folder).run(folder / "out")
    assert (again.scans, again.found) == (0, 2)


def test_the_schema_knows_every_field() -> None:
    schema = json_schema()
    assert set(DRIVE) <= set(schema["properties"])
    assert "sensors" in schema["required"]


WRONG: dict[str, tuple[Any, str]] = {
    "duration_s": (-1, "duration_s"),
    "seed": ("seven", "seed"),
    "world": (5, "world"),
    "step_s": (0, "step_s"),
    "weather": ({"rain_rate_mm_h": -3}, r"weather\.rain_rate_mm_h"),
    "sensors": ([], "sensors"),
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_fields_are_named(folder: Path, name: str) -> None:
    value, words = WRONG[name]
    (folder / "wrong.yaml").write_text(yaml.safe_dump({**DRIVE, name: value}))
    with pytest.raises(ph.ConfigError, match=words) as error:
        Scenario.load(folder / "wrong.yaml")
    assert "wrong.yaml" in str(error.value)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (
            lambda d: d["sensors"][0].update(vehicle="huskey"),
            r"sensors\[0\].vehicle: expected the name of a vehicle \(husky",
        ),
        (lambda d: d["sensors"][0].update(model="velodyne/vlp16"), "velodyne/vlp-16"),
        (lambda d: d["sensors"][0].update(options={"sub_ray": 1}), "sub_ray"),
        (lambda d: d["vehicles"][0].update(model="clearpath/huskey"), "clearpath/husky"),
        (lambda d: d["vehicles"][0].update(motion={"fixed": {}}), "either model"),
        (lambda d: d["vehicles"][1]["motion"].update(fixed={}), "one of"),
        (lambda d: d["vehicles"][1].update(name="husky"), "twice"),
        (lambda d: d.update(world="nowhere.yaml"), "nowhere.yaml"),
        (lambda d: d.update(weather="gone.yaml"), "gone.yaml"),
        (lambda d: d["sensors"][1].update(name="../imu"), "name"),
    ],
)
def test_wrong_values_are_reported_in_one_sentence(folder: Path, change: Any, words: str) -> None:
    fields = copy.deepcopy(DRIVE)
    change(fields)
    with pytest.raises(ParhelionError, match=words) as error:
        Scenario.from_mapping(fields, folder)
    assert "\n" not in str(error.value)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, entry in inside for place in places(entry, (*here, key)))]


@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    place=st.sampled_from(places(DRIVE)[1:]),
    value=st.sampled_from(
        [None, True, -1, 0, 1e30, float("nan"), "", "x", [], {}, [[1]], {"a": 1}, "../x", "gerstner", 2**70]
    ),
)
def test_any_wrong_value_gives_a_sentence_or_a_scenario(folder: Path, place: tuple[Any, ...], value: Any) -> None:
    fields = copy.deepcopy(DRIVE)
    inner: Any = fields
    for key in place[:-1]:
        inner = inner[key]
    inner[place[-1]] = value
    message = "a scenario"
    try:
        Scenario.from_mapping(fields, folder)
    except ParhelionError as error:
        message = str(error)
    assert message
    assert "\n" not in message


def test_a_vehicle_is_hidden_from_its_own_lidar_alone_whatever_that_is_called(folder: Path) -> None:
    body = {"shape": {"kind": "box", "size_m": [4.0, 2.0, 1.5]}, "label": "car"}
    place = {"fixed": {"xyz": [0.0, 0.0, 0.75]}}
    fields = {
        "duration_s": 0.2, "world": "test-range", "outputs": [], "report": False,
        "vehicles": [{"name": "car", "motion": place, "body": body}],
        "sensors": [
            {"name": "lidar", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "car"},
            {"name": "beside", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [6.0, 0.0, 1.0]}},
        ],
    }  # fmt: skip
    scenario = Scenario.from_mapping(fields, folder)
    own, other = (sensor.measure(scenario.world, 0, 0) for sensor in scenario.frame_sensors)
    car = next(number for number, name in other.names["label"].items() if name == "car")
    assert np.count_nonzero(other.label == car) > 100
    assert np.count_nonzero(own.label == car) == 0


def test_two_runs_do_not_write_into_one_folder(folder: Path) -> None:
    first = Scenario.from_mapping(DRIVE, folder)

    def second(done: int, total: int) -> None:
        with pytest.raises(ph.ConfigError, match="another program is writing into this folder"):
            Scenario.from_mapping(DRIVE, folder).run(folder / "one")

    first.run(folder / "one", progress=second)
    assert not (folder / "one" / ".writing").exists()
    assert json.loads((folder / "one" / "manifest.json").read_text())["complete"]


def test_weather_and_daylight_of_a_scenario_are_those_of_its_world(folder: Path) -> None:
    fields = copy.deepcopy(DRIVE) | {"weather": None, "outputs": []}
    fields.pop("weather")

    def points(at_step: int | None) -> list[Any]:
        scenario, found = Scenario.from_mapping(fields, folder), []
        for step in scenario:
            found += [scan for scans in step.scans.values() for _, scan in scans]
            if step.number == at_step:
                scenario.weather = ph.Weather(visibility_m=20)
                assert scenario.world.weather is scenario.weather
        return found

    dry, foggy = points(None), points(15)
    np.testing.assert_array_equal(foggy[0].xyz, dry[0].xyz)
    assert np.any(foggy[-1].origin != 0)
    assert not np.any(dry[-1].origin != 0)
    scenario = Scenario.from_mapping(fields, folder)
    scenario.daylight = ph.Daylight(sun_elevation_deg=10, sun_azimuth_deg=200)
    assert scenario.world.daylight.sun_elevation_deg == 10.0
    with pytest.raises(ParhelionError, match="weather must be a Weather"):
        scenario.weather = "rain"
