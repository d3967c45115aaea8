"""Dust that the vehicles of a scenario raise from the ground below their wheels."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.rays.device import engine
from parhelion.weather.air import air_contents
from parhelion.weather.media.dust import KG_PER_M_FROM_LB_PER_MILE, emission_factor_lb_per_mile
from parhelion.weather.plume import living
from parhelion.weather.raised import SLOTS, Raised, neighbours

DUST = 4
LIDAR = {
    "name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [15, -12, 2]},
    "options": {"sub_rays": 1},
}  # fmt: skip
CAR = {
    "name": "car", "model": "bmw/320i", "follow": {"points": [[200, 0, 0]], "speed_m_s": 12}, "raises_dust": {},
    "dynamics": "kinematic",  # equal speed on all kinds of ground
}  # fmt: skip


def floor(x_m: float, material: str) -> dict[str, Any]:
    """Half of the floor, from x_m to the right."""
    return {
        "shape": {"kind": "plane", "size_m": [200, 100]}, "material": material, "label": "ground",
        "pose": {"xyz": [x_m + 100.0, 0.0, 0.0]},
    }  # fmt: skip


def scenario(folder: Path, left: str = "soil", right: str = "soil", **fields: Any) -> ph.Scenario:
    """A car that drives along +x from the left to the right half of the floor, which meet at x = 5 m."""
    (folder / "yard.yaml").write_text(yaml.safe_dump({"objects": [floor(-195.0, left), floor(5.0, right)]}))
    found = {
        "duration_s": 1.5, "world": "yard.yaml", "seed": 3, "vehicles": [CAR], "sensors": [LIDAR], "outputs": [],
        "report": False, **fields,
    }  # fmt: skip
    return ph.Scenario.from_mapping(found, folder)


def raised(made: ph.Scenario) -> Raised:
    assert made.world.weather is not None
    return made.world.weather.raised[0][1].raised


def driven(made: ph.Scenario) -> list[ph.Scan]:
    """Scans of a run."""
    scans = []
    for step in made:
        scans += [scan for _, scan in step.scans.get("top", [])]
    return scans


# ---- emission ------------------------------------------------------------------------------------------------------


def test_the_mass_is_the_formula_times_the_distance(tmp_path: Path) -> None:
    fields = {"raises_dust": {"silt_percent": 12, "moisture_percent": 0.4}}
    made = scenario(tmp_path, vehicles=[CAR | fields])
    driven(made)
    (dust,) = raised(made).particles(made.world.weather, 1.5)
    path = made.bodies["car"].motion.sample(np.linspace(0.0, 1.5, 3001))[0]
    distance = np.linalg.norm(np.diff(path, axis=0), axis=1).sum()
    factor = emission_factor_lb_per_mile(12.0, raised(made).raisers[0].vehicle.weight_kg, 0.4)
    assert distance > 3.0
    assert dust.mass_kg.sum() == pytest.approx(KG_PER_M_FROM_LB_PER_MILE * factor * distance, rel=1e-3)
    assert raised(made).raisers[0].vehicle.weight_kg == 1093.3


def test_the_grid_has_the_mass_in_the_air_and_rays_see_all_of_it(tmp_path: Path) -> None:
    """The optical depth summed over parallel rays is the extinction per mass times the mass in the air."""
    made = scenario(tmp_path, weather={"wind_m_s": [1, 2, 0]})
    driven(made)
    weather = made.world.weather
    (dust,) = raised(made).particles(weather, 1.5)
    (grid,) = raised(made).grids(weather, 1.5)
    air = dust.airborne.mass_kg.sum()
    assert 0.2 * dust.mass_kg.sum() < air < dust.mass_kg.sum()
    assert grid.mass_kg == pytest.approx(air, rel=1e-9)
    step = 0.25
    x, z = np.arange(-15.0, 30.0, step), np.arange(-2.0, 15.0, step)
    rays = np.stack(np.meshgrid(x, [-40.0], z, indexing="ij"), axis=-1).reshape(-1, 3)
    depth = grid.optical_depth(rays, (0.0, 1.0, 0.0), np.inf)
    assert depth.sum() * step**2 == pytest.approx(2600.0 * air, rel=1e-2)


def test_only_unpaved_ground_emits(tmp_path: Path) -> None:
    run = {"duration_s": 2.2}
    parts = {}
    for left, right in (("soil", "asphalt"), ("asphalt", "soil"), ("soil", "soil"), ("asphalt", "concrete")):
        made = scenario(tmp_path, left, right, **run)
        assert sum(1 for _ in made.walk(lambda sensor, number: False)) == 220
        parts[left, right] = raised(made).particles(made.world.weather, 2.2)[0].mass_kg.sum()
    assert parts["asphalt", "concrete"] == 0.0
    assert parts["soil", "asphalt"] > 0.0 < parts["asphalt", "soil"]
    assert parts["soil", "asphalt"] + parts["asphalt", "soil"] == pytest.approx(parts["soil", "soil"], rel=1e-12)


@pytest.mark.parametrize(
    ("weather", "height_m"), [({"rain_rate_mm_h": 2}, 0.0), ({"snow": {"rate_mm_h": 1, "covers": ["ground"]}}, 0.0),
                              ({}, 3.0)],
)  # fmt: skip
def test_wet_and_covered_ground_and_the_air_emit_nothing(
    tmp_path: Path, weather: dict[str, Any], height_m: float
) -> None:
    points = [{"time_s": 0, "xyz": [0, 0, height_m]}, {"time_s": 2, "xyz": [20, 0, height_m]}]
    car = {"name": "car", "motion": {"waypoints": points}, "raises_dust": {}}
    made = scenario(tmp_path, vehicles=[car], weather=weather)
    assert raised(made).particles(made.world.weather, 1.5)[0].mass_kg.sum() == 0.0
    points = [{"time_s": 0, "xyz": [0, 0, 0]}, {"time_s": 2, "xyz": [20, 0, 0]}]
    made = scenario(tmp_path, vehicles=[{**car, "motion": {"waypoints": points}}])
    assert raised(made).particles(made.world.weather, 1.5)[0].mass_kg.sum() > 0.0


def test_a_vehicle_at_rest_emits_nothing(tmp_path: Path) -> None:
    made = scenario(tmp_path, vehicles=[{name: CAR[name] for name in ("name", "model", "raises_dust")}])
    assert made.bodies["car"].driver is made._driver("rays")
    assert not any(np.any(scan.origin == DUST) for scan in driven(made))
    assert air_contents(made.world.weather, 1.5, 905.0).is_clear


# ---- time ----------------------------------------------------------------------------------------------------------


def same(one: ph.Scan, other: ph.Scan) -> None:
    assert np.array_equal(one.xyz, other.xyz)
    for name, values in one.fields.items():
        assert np.array_equal(values, other.fields[name], equal_nan=values.dtype.kind == "f"), name


def test_points_appear_in_the_plume_and_measuring_again_gives_the_same_bits(tmp_path: Path) -> None:
    made = scenario(tmp_path)
    scans = driven(made)
    counts = [int(np.count_nonzero(scan.origin == DUST)) for scan in scans]
    assert counts[0] == 0 < 50 < counts[-1]
    points = scans[-1].xyz[scans[-1].origin == DUST] + np.array(LIDAR["mount"]["xyz"])
    (grid,) = raised(made).grids(made.world.weather, scans[-1].start_time)
    assert np.mean(grid.density_at(points) > 0.0) > 0.95
    (sensor,) = made.frame_sensors
    for number in (3, 9):
        same(scans[number], sensor.measure(made.world, number, made.seed))
    for one, other in zip(scans, driven(made), strict=True):  # the scenario runs again
        same(one, other)


def test_a_plume_holds_what_was_emitted_before_and_not_what_follows(tmp_path: Path) -> None:
    """Commands after the measurement do not change it."""
    car = {name: CAR[name] for name in ("name", "model", "raises_dust")}
    scans, parcels = [], []
    for later in (ph.DriveCommand(12.0), ph.DriveCommand(0.0)):
        made = scenario(tmp_path, vehicles=[car], duration_s=1.2)
        found = []
        for step in made:
            step.command("car", ph.DriveCommand(12.0) if step.time < 1.05 else later)
            found += [scan for _, scan in step.scans.get("top", [])]
        scans.append(found[10])
        parcels.append(raised(made).particles(made.world.weather, 1.0)[0])
    assert np.count_nonzero(scans[0].origin == DUST) > 10
    same(*scans)
    assert np.array_equal(parcels[0].xyz, parcels[1].xyz)
    assert parcels[0].age.min() >= 0.0


def test_unfinished_intervals_are_left_out() -> None:
    """Parcel 500 is born at 1.001 s, but represents the dust until 1.002 s."""
    known, _, end = living(1.0015, 0.0, np.inf, 500.0, 10.0, live=True)
    assert len(known) == 500
    assert end.max() <= 1.0015
    assert len(living(1.0015, 0.0, np.inf, 500.0, 10.0)[0]) == 501


def test_a_weather_that_is_set_during_the_run_keeps_the_plumes(tmp_path: Path) -> None:
    made = scenario(tmp_path, duration_s=0.5)
    for step in made:
        if step.number == 20:
            made.world.weather = ph.Weather(visibility_m=500)
    assert made.world.weather is not None
    assert [name for name, _ in made.world.weather.raised] == ["dust"]
    assert made.world.weather.to_mapping() == {"visibility_m": 500}
    assert made.world.weather.replace(visibility_m=None).raised == made.world.weather.raised
    assert repr(made.world.weather) == "<Weather visibility 500 m, 1 dust plume>"


# ---- several vehicles ----------------------------------------------------------------------------------------------


def test_traffic_shares_a_few_grids(tmp_path: Path) -> None:
    route = [[-60, -30, 0], [60, -30, 0], [60, 30, 0], [-60, 30, 0]]
    traffic = {"routes": [route], "count": 9, "speed_m_s": 10, "raises_dust": {"silt_percent": 20}, "react": False}
    made = scenario(tmp_path, vehicles=[], traffic=[traffic])
    cars, weather = raised(made), made.world.weather
    assert len(cars.raisers) == 9
    assert weather is not None
    assert len(weather.raised) == SLOTS
    plumes = cars.particles(weather, 1.0)
    assert all(plume.mass_kg.sum() > 0.0 for plume in plumes)
    grids = cars.grids(weather, 1.0)
    total = sum(plume.airborne.mass_kg.sum() for plume in plumes)
    assert sum(grid.mass_kg for grid in grids) == pytest.approx(total, rel=1e-9)
    assert len(air_contents(weather, 1.0, 905.0).grids) == SLOTS
    assert {one.vehicle.weight_kg for one in cars.raisers} == {1500.0}
    assert grids[0].cell_m == pytest.approx(0.5 * (500.0 / cars.parcels_per_s) ** (1 / 3))
    assert all(3.0 < one.vehicle.length_m < 6.0 and 1.4 < one.vehicle.width_m < 2.5 for one in cars.raisers)


def test_groups_are_neighbours_and_complete() -> None:
    places = np.array([[0.0, 0.0], [100.0, 0.0], [1.0, 1.0], [101.0, 1.0], [0.0, 50.0], [100.0, 50.0]])
    groups = neighbours(places, np.arange(6))
    assert sorted(row for group in groups for row in group) == list(range(6))
    assert {frozenset(group) for group in groups} == {frozenset(one) for one in ((0, 2), (4,), (1, 3), (5,))}
    assert neighbours(places[:1], np.array([7])) == [[7], [], [], []]


def test_wrong_fields_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"vehicles\[0\]\.raises_dust\.silt_percent: .*100"):
        scenario(tmp_path, vehicles=[CAR | {"raises_dust": {"silt_percent": 120}}])
    with pytest.raises(ConfigError, match=r"raises_dust\.slit_percent: unknown field; did you mean 'silt_percent'"):
        scenario(tmp_path, vehicles=[CAR | {"raises_dust": {"slit_percent": 12}}])


def test_kernels_are_compiled_once_while_the_plume_grows(tmp_path: Path) -> None:
    made = scenario(tmp_path, vehicles=[CAR, CAR | {"name": "next", "start": {"xyz": [0, 8, 0]}, "follow": None}])
    running = engine()
    dr = running.dr
    kernels: list[set[str]] = []
    dr.set_flag(dr.JitFlag.KernelHistory, True)
    try:
        for step in made:
            if "top" in step.frames:
                found = [one for one in dr.kernel_history() if str(one["type"]).endswith("JIT")]
                kernels.append({str(one["hash"]) for one in found})
                dr.kernel_history_clear()
    finally:
        dr.set_flag(dr.JitFlag.KernelHistory, False)
    known = set().union(*kernels[:3])
    assert len(kernels) == 15
    assert all(kernels)
    assert all(later <= known for later in kernels[3:])
