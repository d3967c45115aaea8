"""Settings of AirSim and Cosys-AirSim become scenarios; what has no counterpart is listed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

from parhelion import ConfigError, Lidar, Scenario
from parhelion.scenario.airsim import imported, read_settings

HUSKY: dict[str, Any] = {
    "VehicleType": "CPHusky", "X": 1, "Y": 2, "Z": -0.5, "Yaw": 90, "RC": {"RemoteControlID": 0},
    "Cameras": {"front": {"X": 0.4, "Y": 0.1, "Z": -0.5, "Pitch": -10,
                          "CaptureSettings": [{"ImageType": 0, "Width": 320, "Height": 180, "FOV_Degrees": 60}]}},
    "Sensors": {
        "imu": {"SensorType": 2},
        "gps": {"SensorType": 3, "EphInitial": 25},
        "barometer": {"SensorType": 1, "Enabled": False},
        "uwb": {"SensorType": 10, "NumberOfTraces": 5000},
        "lidar": {"SensorType": 6, "NumberOfChannels": 5, "Range": 120, "MeasurementsPerCycle": 81, "Z": -0.55,
                  "VerticalFOVUpper": 10, "VerticalFOVLower": -10, "HorizontalFOVStart": -20, "HorizontalFOVEnd": 60,
                  "DrawDebugPoints": True},
        "down": {"SensorType": 5, "Pitch": -90, "MaxDistance": 20},
    },
}  # fmt: skip
SETTINGS = {
    "SettingsVersion": 2,
    "Wind": {"X": 1, "Y": 2, "Z": 0},
    "OriginGeopoint": {"Latitude": 51.2, "Longitude": 4.4, "Altitude": 10},
    "Vehicles": {"robot 1": HUSKY, "drone": {"VehicleType": "simpleflight", "Z": -3, "Sensors": {}}},
}


@pytest.fixture
def written(tmp_path: Path) -> Path:
    for name, text in imported(SETTINGS, "mine", "settings.json").files.items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    return tmp_path


def test_frames_become_those_of_parhelion(written: Path) -> None:
    found = yaml.safe_load((written / "mine.yaml").read_text(encoding="utf-8"))
    robot, drone = found["vehicles"]
    assert robot == {"name": "robot-1", "model": "clearpath/husky",
                     "start": {"xyz": [1, -2, 0], "rpy_deg": [0, 0, -90]}}  # fmt: skip
    assert drone["start"] == {"xyz": [0, 0, 3]}
    sensors = {one["name"]: one for one in found["sensors"]}
    assert sensors["front"]["mount"] == {"xyz": [0.4, -0.1, 0.5], "rpy_deg": [0, 10, 0]}
    assert sensors["lidar"]["mount"] == {"xyz": [0, 0, 0.55], "rpy_deg": [0, 0, -20]}
    assert sensors["gps"]["options"] == {"latitude_deg": 51.2, "longitude_deg": 4.4, "altitude_m": 10}
    assert found["weather"] == {"wind_m_s": [1, -2, 0]}
    assert sorted(sensors) == ["down", "front", "gps", "imu", "lidar"]


def test_the_scenario_and_its_sheets_load(written: Path) -> None:
    scenario = Scenario.load(written / "mine.yaml")
    assert len(scenario.sensors) == 5


def test_beams_cover_the_field_of_view_of_the_settings(written: Path) -> None:
    shots = Lidar(written / "mine-lidar.yaml", noise=False).shots()
    x, y, z = shots.direction.T
    azimuth, elevation = np.degrees(np.arctan2(y, x)), np.degrees(np.arcsin(z))
    assert sorted(set(elevation.round(3))) == [-10, -5, 0, 5, 10]
    # 81 measurements per cycle over 80 deg; a revolution has a whole number of columns.
    assert abs(len(shots.direction) - 5 * 81) <= 5
    np.testing.assert_allclose([azimuth.min(), azimuth.max()], [-40, 40], atol=1.0)


def test_everything_unused_is_listed_with_its_place() -> None:
    lines = imported(SETTINGS, "mine", "settings.json").left_out
    assert "top level: SettingsVersion" in lines
    assert "Vehicles.robot 1.RC: RemoteControlID" in lines
    assert "Vehicles.robot 1.Sensors.barometer: Enabled is false" in lines
    assert "Vehicles.robot 1.Sensors.uwb: UWB needs anchors at known places" in lines
    assert "Vehicles.robot 1.Sensors.gps: EphInitial" in lines
    assert "Vehicles.robot 1.Sensors.lidar: DrawDebugPoints" in lines
    assert not any("Sensors.imu" in line or "Sensors.down" in line for line in lines)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"VehicleType": "Submarine"}, r"Vehicles\.robot 1\.VehicleType: expected PhysXCar.*got 'submarine'"),
        ({"X": "one"}, r"Vehicles\.robot 1\.X: expected a number, got 'one'"),
        ({"Sensors": {"lidar": {"SensorType": 6, "NumberOfChannels": 0}}}, r"Sensors\.lidar: has no beams"),
        ({"Sensors": {}, "Cameras": {}}, "no vehicle has an enabled sensor"),
    ],
)
def test_bad_settings_are_errors_with_their_place(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        imported({"Vehicles": {"robot 1": {**HUSKY, **change}}}, "mine", "settings.json")


@pytest.mark.parametrize(
    ("text", "message"),
    [('{\n"Vehicles": {},,\n}', "line 2"), ("[]", "'Vehicles'"), ('{"Vehicles": []}', "'Vehicles'")],
)
def test_files_that_are_no_settings_are_errors(text: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(text, encoding="utf-8")
    with pytest.raises(ConfigError, match=rf"settings\.json: .*{message}"):
        read_settings(tmp_path / "settings.json")


def test_a_byte_order_mark_and_nan_are_accepted(tmp_path: Path) -> None:
    text = json.dumps({"Vehicles": {"robot": {**HUSKY, "Roll": float("nan")}}})
    (tmp_path / "settings.json").write_text(text, encoding="utf-8-sig")
    assert imported(read_settings(tmp_path / "settings.json"), "a", "settings.json").vehicles == 1
