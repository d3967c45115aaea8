"""Spray that the vehicles of a scenario raise on wet paved roads."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.weather.media.spray import airborne_share, film_depth_mm, picked_up_kg_m

SPRAY = 7
SPEED = 30.0


def behind(folder: Path, material: str = "asphalt", spray: Any = None, **fields: Any) -> ph.Scenario:
    """A lidar 12 m behind a car of 108 km/h."""
    road = {"shape": {"kind": "plane", "size_m": [800, 80]}, "material": material, "label": "road"}
    (folder / "road.yaml").write_text(yaml.safe_dump({"objects": [road]}))

    def vehicle(name: str, x: float, **more: Any) -> dict[str, Any]:
        points = [{"time_s": 0, "xyz": [x, 0, 0]}, {"time_s": 9, "xyz": [x + 9 * SPEED, 0, 0]}]
        return {"name": name, "motion": {"waypoints": points}, **more}

    lidar = {
        "name": "top", "type": "lidar", "model": "velodyne/vlp-32c", "vehicle": "own", "mount": {"xyz": [0, 0, 1.8]},
        "phase_s": 1.0, "options": {"sub_rays": 1},
    }  # fmt: skip
    found = {
        "duration_s": 1.4, "world": "road.yaml", "sensors": [lidar], "outputs": [], "report": False,
        "vehicles": [vehicle("ahead", -188.0, raises_spray=spray or {}), vehicle("own", -200.0)], **fields,
    }  # fmt: skip
    return ph.Scenario.from_mapping(found, folder)


def drops(made: ph.Scenario, time: float = 1.0) -> Any:
    weather = made.world.weather
    assert weather is not None
    return weather.raised[0][1].raised.particles(weather, time)[0]


def points(made: ph.Scenario) -> int:
    return sum(int(np.count_nonzero(scan.origin == SPRAY)) for step in made for _, scan in step.scans.get("top", []))


def test_rain_wets_the_road_and_tyres_raise_it(tmp_path: Path) -> None:
    rain = {"rain_rate_mm_h": [[0.0, 0.0], [0.5, 0.0], [0.501, 40.0]]}
    mass = drops(behind(tmp_path, weather=rain)).mass_kg.sum()
    rate = SPEED * picked_up_kg_m(film_depth_mm(40.0)) * airborne_share(SPEED)
    assert mass == pytest.approx(0.5 * rate, rel=0.01)
    assert drops(behind(tmp_path)).mass_kg.sum() == 0.0, "a dry road"
    assert drops(behind(tmp_path, "gravel", weather={"rain_rate_mm_h": 40})).mass_kg.sum() == 0.0


def test_a_given_film_needs_no_rain(tmp_path: Path) -> None:
    made = behind(tmp_path, spray={"film_mm": 1.0, "tyre_width_m": 0.25})
    expected = SPEED * picked_up_kg_m(1.0, tyre_width_m=0.25) * airborne_share(SPEED)
    assert drops(made).mass_kg.sum() == pytest.approx(expected, rel=1e-3)
    assert repr(made.world.weather) == "<Weather 1 spray plume>"


def test_a_lidar_behind_the_car_sees_tens_to_hundreds_of_points_and_the_same_again(tmp_path: Path) -> None:
    made = behind(tmp_path, spray={"film_mm": 1.0})
    scans = [scan for step in made for _, scan in step.scans.get("top", [])]
    counts = [int(np.count_nonzero(scan.origin == SPRAY)) for scan in scans]
    assert 10 < np.mean(counts) < 1000
    seen = scans[-1].xyz[scans[-1].origin == SPRAY]
    assert np.median(seen[:, 0]) < 12.0
    (sensor,) = made.frame_sensors
    again = sensor.measure(made.world, len(scans) - 1, made.seed)
    assert np.array_equal(scans[-1].xyz, again.xyz)
    assert points(behind(tmp_path, spray={"film_mm": 0.0})) == 0


def test_traffic_raises_spray(tmp_path: Path) -> None:
    route = [[-60, -15, 0], [60, -15, 0], [60, 15, 0], [-60, 15, 0]]
    traffic = {"routes": [route], "count": 3, "speed_m_s": 12, "raises_spray": {"film_mm": 1.0}}
    made = behind(tmp_path, vehicles=[], traffic=[traffic], sensors=[
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 2]}}])  # fmt: skip
    weather = made.world.weather
    assert weather is not None
    assert [name for name, _ in weather.raised] == ["spray"] * 3
    for _ in made.walk(lambda sensor, number: False):  # cars react, so their motion is known up to now only
        pass
    plumes = weather.raised[0][1].raised.particles(weather, made.duration_s)
    assert all(plume.mass_kg.sum() > 0.0 for plume in plumes)


def test_wrong_fields_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"vehicles\[0\]\.raises_spray\.film_mm: .*20"):
        behind(tmp_path, spray={"film_mm": 50})
