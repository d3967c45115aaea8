"""Rain and snow near the sensor: bounds from recordings, for every preset, and the grade of each combination."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.sensors.optics.lidar.validity import GRADES, weather_validity


@pytest.mark.parametrize("preset", ph.presets("lidar"))
def test_few_shots_are_rain(preset: str) -> None:
    """Recordings and published counts: under 1.5 % of shots at 25 mm/h, in whatever direction they go."""
    lidar, world = ph.Lidar(preset), ph.World("open")
    world.add(ph.shapes.plane(400, 400), material="asphalt", label="road", pose=ph.Pose((0, 0, -1.8)))
    world.weather = ph.Weather(rain_rate_mm_h=25)
    scan = lidar.scan(world, pose=ph.Pose(), seed=1)
    assert np.sum(scan.origin == 1) < 0.015 * len(scan.shots) + 10


def test_flakes_of_a_pandar64_are_where_recordings_have_them() -> None:
    """Recorded: 5 / 50 / 95 % at 4.0 / 6.6 / 11.5 to 14.3 m, none below 2 m; 4.4 to 8.8 % of shots in severe snow."""
    lidar, world = ph.Lidar("hesai/pandar64", returns="dual"), ph.World.load("city")
    world.weather = ph.Weather(snow_rate_mm_h=0.75)
    scans = [lidar.scan(world, pose=world.viewpoint, seed=seed) for seed in range(2)]
    flakes = np.concatenate([scan.range[scan.origin == 3] for scan in scans])
    low, middle, high = np.percentile(flakes, (5, 50, 95))
    assert np.mean(flakes < 2.0) < 0.02
    assert 3.0 < low < 5.0
    assert 5.5 < middle < 10.0
    assert high < 23.0
    assert 0.02 < len(flakes) / sum(len(scan.shots) for scan in scans) < 0.12


def test_few_flakes_of_an_hdl_64e_are_below_two_metres() -> None:
    lidar, world = ph.Lidar("velodyne/hdl-64e-s2"), ph.World.load("city")
    world.weather = ph.Weather(snow_rate_mm_h=0.5)
    scan = lidar.scan(world, pose=world.viewpoint, seed=1)
    flakes = scan.range[scan.origin == 3]
    assert len(flakes) > 500
    assert np.mean(flakes < 2.0) < 0.05


@pytest.mark.parametrize("preset", ph.presets("lidar"))
def test_every_combination_has_a_grade(preset: str) -> None:
    found = ph.Lidar(preset).weather_validity
    assert list(found)[:4] == ["rain", "fog", "snow", "dust"]
    for one in found.values():
        assert one.grade in GRADES
        assert len(one.reason) > 20


def test_grades_follow_what_was_compared() -> None:
    assert weather_validity("velodyne/hdl-32e")["fog"].grade == "validated"
    assert weather_validity("velodyne/vlp-16")["rain"].grade == "class"
    assert weather_validity("livox/avia")["rain"].grade == "assumed"
    # The near field of Ousters is measured; amounts of dust and spray are assumed for every sensor.
    assert weather_validity("ouster/os1-128")["rain"].grade == "class"
    assert weather_validity("ouster/os1-128")["dust"].grade == "assumed"
    assert weather_validity("velodyne/vlp-16", calibrated=True)["spray"].grade == "assumed"
    assert weather_validity("my-lidar.yaml", calibrated=True)["rain"].grade == "class"
    assert weather_validity("my-lidar.yaml")["rain"].grade == "assumed"
