"""A used lidar travels: pickled, copied, to another process, and measures the same bits there."""

from __future__ import annotations

import copy
import json
import multiprocessing
import pickle
from collections.abc import Callable
from pathlib import Path

import pytest

import parhelion as ph
from parhelion.sensors.check import same_bits
from rigs import sheet, wall
from threads_rigs import digest

RAIN = ph.Weather(rain=ph.Rain(rate_mm_h=30))


def used_lidar() -> ph.Lidar:
    """One that holds all it may hold: arrays of scans, of weather in scans and of weather on recordings."""
    lidar = ph.Lidar("velodyne/vlp-16", sub_rays=5, returns="dual", name="left")
    world = wall(12.0)
    world.weather = RAIN
    RAIN.apply(lidar.scan(world, pose=ph.Pose(), seed=1), sensor=lidar)
    return lidar


def measured(lidar: ph.Lidar) -> list[str]:
    """Hashes of a scan, one in rain, and a recording put in rain."""
    world = wall(15.0)
    dry = lidar.scan(world, pose=ph.Pose(), seed=5)
    world.weather = RAIN
    wet = lidar.scan(world, pose=ph.Pose(), seed=5)
    return [digest(cloud) for cloud in (dry, wet, RAIN.apply(dry, sensor=lidar, seed=2))]


@pytest.mark.parametrize("copier", [copy.deepcopy, copy.copy, lambda lidar: pickle.loads(pickle.dumps(lidar))])
def test_a_copy_gives_the_same_bits_and_shares_nothing(copier: Callable[[ph.Lidar], ph.Lidar]) -> None:
    lidar = used_lidar()
    other = copier(lidar)
    assert other._on_device is None
    assert other.recorded_weather is None
    assert measured(other) == measured(lidar)
    assert (other.model, other.visibility_keys, other.rate_hz) == (lidar.model, lidar.visibility_keys, lidar.rate_hz)


def test_a_used_lidar_is_as_small_as_a_new_one() -> None:
    new = ph.Lidar("velodyne/vlp-16", sub_rays=5, returns="dual", name="left")
    assert len(pickle.dumps(used_lidar())) == len(pickle.dumps(new)) < 20_000


@pytest.mark.slow
def test_a_used_lidar_measures_the_same_in_another_process() -> None:
    lidar = used_lidar()
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        there = pool.apply_async(measured, (lidar,)).get(120.0)
    assert there == measured(lidar)


def test_a_used_world_travels_too() -> None:
    world, lidar = wall(12.0), ph.Lidar(sheet())
    lidar.scan(world, pose=ph.Pose())
    other = pickle.loads(pickle.dumps(world))
    other.add(ph.shapes.box(1, 1, 1), material="brick", pose=ph.Pose((5, 0, 0)))
    assert len(world.objects) == 1
    assert same_bits(lidar.scan(world, pose=ph.Pose()), lidar.scan(pickle.loads(pickle.dumps(world)), pose=ph.Pose()))
    assert lidar.scan(other, pose=ph.Pose()).range.min() == pytest.approx(4.5, abs=0.01)


def test_files_beside_a_data_sheet_are_found_from_another_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    (tmp_path / "shots.csv").write_text("azimuth_deg,elevation_deg,time_s\n0,0,0\n1,0,0.01\n")
    fields = sheet().model_dump(mode="json", exclude_none=True)
    fields["pattern"] = {"kind": "table", "rate_hz": 10, "file": "shots.csv"}
    (tmp_path / "own.yaml").write_text(json.dumps(fields))
    monkeypatch.chdir(tmp_path)
    packed = pickle.dumps(ph.Lidar("own.yaml"))
    monkeypatch.chdir(tmp_path / "here")
    assert len(pickle.loads(packed).shots()) == 2
