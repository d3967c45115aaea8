"""Numbers and arguments that no sensor has: each is refused in one sentence with the allowed values."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from hostile_rigs import fence
from parhelion import Lidar, Pose, World
from parhelion.core.errors import ConfigError
from parhelion.sensors.sheets import PRESETS
from parhelion.world.shapes import box

BY_TIME, BY_ANGLE = "velodyne/vlp-16", "ouster/os1-128"


def sheet(path: Path, preset: str, *place: str, value: Any) -> Path:
    data = yaml.safe_load((PRESETS / "lidar" / f"{preset}.yaml").read_text())
    inner = data
    for name in place[:-1]:
        inner = inner[name]
    inner[place[-1]] = value
    path.write_text(yaml.safe_dump(data))
    return path


@pytest.mark.parametrize(
    ("preset", "field", "value", "message"),
    [
        (
            BY_TIME,
            "firing_period_us",
            1e300,
            "pattern.firing_period_us: expected a number above 0 and up to 1e9 us",
        ),
        (BY_TIME, "firing_period_us", 1e8, r"would have 0.00\d+ columns, allowed are 1 to 65536"),
        (BY_TIME, "firing_period_us", 1e-6, "columns, allowed are 1 to 65536"),
        (BY_TIME, "rate_hz", 1e-5, "rate_hz: expected a number from 0.01 to 100000 Hz, got 1e-05"),
        (BY_TIME, "rate_hz", 0.02, "columns, allowed are 1 to 65536"),
        (BY_TIME, "rates_hz", [1e300], r"rates_hz\[0\]: expected a number from 0.01 to 100000 Hz"),
        (BY_ANGLE, "columns", 1_200_000_000, "columns: expected a whole number from 1 to 65536, got 1200000000"),
        (BY_ANGLE, "columns_offered", [10**300], "columns_offered"),
        (BY_ANGLE, "beam_offset_mm", 1e300, "beam_offset_mm: expected a number from -1e9 to 1e9 mm"),
    ],
)
def test_numbers_of_a_sheet_that_no_sensor_has(
    tmp_path: Path, preset: str, field: str, value: Any, message: str
) -> None:
    file = sheet(tmp_path / "lidar.yaml", preset, "pattern", field, value=value)
    with fence(), pytest.raises(ConfigError, match=rf"lidar\.yaml: .*{message}"):
        Lidar(file)


def test_frames_of_more_shots_than_fit(tmp_path: Path) -> None:
    pattern = {
        "kind": "raster", "rate_hz": 10, "azimuth_deg": [-10, 10], "elevation_deg": [-5, 5], "columns": 60_000,
        "rows": 60_000,
    }  # fmt: skip
    file = tmp_path / "lidar.yaml"
    data = yaml.safe_load((PRESETS / "lidar" / f"{BY_ANGLE}.yaml").read_text())
    file.write_text(yaml.safe_dump({**data, "pattern": pattern}))
    with fence(), pytest.raises(ConfigError, match=r"a frame would have 3.6e\+09 shots, allowed are 20000000"):
        Lidar(file)
    rosette = {
        "kind": "rosette", "rate_hz": 0.01, "points_per_second": 1e9, "prism_hz": [1, -1], "prism_deg": [9, 9]
    }  # fmt: skip
    file.write_text(yaml.safe_dump({**data, "pattern": rosette}))
    with fence(), pytest.raises(ConfigError, match=r"at 0.01 Hz would have 1e\+11 columns, allowed are 1 to 65536"):
        Lidar(file)


@pytest.mark.parametrize("model", [None, 5, ["velodyne/vlp-16"], {"name": "x"}])
def test_what_is_no_model_of_a_lidar(model: Any) -> None:
    with pytest.raises(ConfigError, match="lidar: give the name of a preset, a YAML file or a LidarConfig, got"):
        Lidar(model)


@pytest.mark.parametrize("options", [{"rate_hz": "10"}, {"rate_hz": None, "columns": "512"}, {"rate_hz": True}])
def test_choices_that_are_no_numbers(options: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=r"(rate_hz|columns): must be a number, got"):
        Lidar(BY_ANGLE, **options)


@pytest.fixture(scope="module")
def world() -> World:
    made = World("one box")
    made.add(box(1.0, 1.0, 1.0))
    return made


@pytest.fixture(scope="module")
def lidar() -> Lidar:
    return Lidar(BY_TIME, noise=False, sub_rays=1)


def test_arguments_of_scans(world: World, lidar: Lidar) -> None:
    here = Pose((0, 0, 3))
    for call, message in (
        (lambda: lidar.scan(world, mount=(0, 0, 1)), "mount: expected a parhelion Pose, got tuple"),
        (lambda: lidar.scan(world, pose=here, time="now"), "time: must be a number"),
        (lambda: lidar.scan(world, pose=here, time=1e308), "time: must be finite and within"),
        (
            lambda: lidar.scan_many(world, [here, here], time=[0.0]),
            "time: got 1 times for 2 scans; pass one, or one per scan",
        ),
        (lambda: lidar.scan_many(world, [here], time=[0.0, 1.0]), "time: got 2 times for 1 scans"),
        (lambda: lidar.scan_many(world, [here], time=["a"]), "time: must be one number"),
        (
            lambda: lidar.scan_many(world, [here], time=[[0.0]]),
            "time: got 1 times for 1 scans; pass one, or one per scan",
        ),
        (lambda: lidar.scan_many(world, [here, here], frames=[1]), "frames: 1 numbers for 2 scans"),
        (lambda: lidar.scan_many(world, [here, (0, 0, 1)]), r"poses\[1\]: must be a Pose or a trajectory, got tuple"),
        (lambda: Pose((1e308, 0, 0)), r"pose: xyz must lie within 1e\+12 m, got \[1e\+308"),
    ):
        with pytest.raises(ConfigError, match=message):
            call()
