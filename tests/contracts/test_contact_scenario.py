"""Vehicles of scenarios in contact with the world: drivers, defaults, collisions, and what sensors notice."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.contact.solid import Solid
from parhelion.core import config
from parhelion.core.errors import ConfigError
from parhelion.io.ros import messages as ros
from parhelion.live.viewer.stages import ScenarioStage
from parhelion.motion.drivers import drive
from parhelion.motion.vehicles import DriveCommand, MotorsOff, VelocityCommand, vehicle
from parhelion.motion.vehicles.library import FOLDER
from parhelion.outputs.ros.feed import RosFeed
from parhelion.scenario import Scenario
from parhelion.scenario.bodies import DrivenBody
from parhelion.scenario.drivers import Driver, ExternalDriver, KinematicDriver, RecordedDriver
from parhelion.scenario.schema import ScenarioFile

IMU = {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "robot", "rate_hz": 100}
WHEELS = {"name": "wheels", "type": "odometry", "model": "clearpath/husky", "vehicle": "robot"}
IDEAL = {"options": {"noise": False}}


def yard() -> ph.World:
    """A concrete plane with a wall of 1 m at x = 3 m, a kerb of 3 cm at x = -3 m, and a slope of 10° at y = 20 m."""
    world = ph.World("yard")
    world.add(ph.shapes.plane(60, 60), material="concrete", label="road")
    world.add(ph.shapes.box(0.2, 6, 1), material="brick", label="wall", name="wall", pose=ph.Pose((3.1, 0, 0.5)))
    world.add(ph.shapes.box(2, 6, 0.06), material="concrete", label="sidewalk", pose=ph.Pose((-4, 0, 0)))
    world.add(
        ph.shapes.box(12, 6, 1), material="concrete", label="ramp", pose=ph.Pose((0, 20, 0.8), rpy_deg=(0, -10, 0))
    )
    return world


WORLD = yard()


def scenario(
    robot: dict[str, Any],
    sensors: Sequence[dict[str, Any]] = (IMU,),
    duration_s: float = 1.0,
    place: str = "yard",
    **fields: Any,
) -> Any:
    robot = {"name": "robot", "model": "clearpath/husky", **robot}
    fields = {"duration_s": duration_s, "world": place, "vehicles": [robot], "sensors": list(sensors), **fields}
    settings = config.parse(ScenarioFile, fields, "scenario")
    return Scenario(settings, world=WORLD if place == "yard" else None)


def driver_of(made: Scenario) -> Driver:
    return made.body("robot").driver


# ---- choice of the driver ----------------------------------------------------------------------------------------


def test_vehicles_are_in_contact_by_default() -> None:
    assert scenario({}).has_contact
    with pytest.warns(UserWarning, match=r"vehicles\.robot\.start: \(500, 0, 0\) lies outside of the world"):
        assert not scenario({"start": {"xyz": [500, 0, 0]}}).has_contact
    assert not scenario({"dynamics": "kinematic"}).has_contact
    assert scenario({"model": "asctec/hummingbird", "start": {"xyz": [0, 0, 2]}}).has_contact
    assert not scenario({"model": "asctec/hummingbird", "dynamics": "kinematic"}).has_contact
    with pytest.raises(ConfigError, match=r"scenario: vehicles\[0\]: robot: no ground under its start"):
        scenario({"start": {"xyz": [500, 0, 0]}, "dynamics": "rays"})


def test_a_data_sheet_of_a_vehicle_is_relative_to_the_scenario(tmp_path: Path) -> None:
    sheet = (FOLDER / "clearpath" / "husky.yaml").read_text()
    (tmp_path / "mine.yaml").write_text(sheet.replace("mass_kg: ", "mass_kg: 1"))
    robot = {"name": "robot", "model": "mine.yaml", "raises_dust": {}}
    imu = {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "robot"}
    fields = {"duration_s": 0.1, "world": "warehouse", "vehicles": [robot], "sensors": [imu]}
    made = Scenario.from_mapping(fields, tmp_path)
    body = made.bodies["robot"]
    assert isinstance(body, DrivenBody)
    assert body.vehicle.config.mass_kg == 150.0
    assert made.world.objects


@pytest.mark.parametrize(
    ("robot", "text"),
    [
        ({"dynamics": "contact"}, "dynamics"),
        ({"dynamics": "recorded"}, "dynamics: recorded needs motion"),
        ({"dynamics": "external"}, "dynamics: external gets its states from outside; omit model"),
        ({"dynamics": "rays", "model": None, "motion": {"fixed": {}}}, "dynamics: rays is for driven vehicles"),
        ({"on_collision": "explode"}, "on_collision"),
        ({"dynamics": "hull"}, "dynamics: hull is for multirotors and vessels, got a DifferentialDrive; use rays"),
        ({"dynamics": "rays", "model": "dlr/aurora"}, "dynamics: rays is for ground vehicles, got a Vessel; use hull"),
    ],
)
def test_wrong_drivers_are_named(robot: dict[str, Any], text: str) -> None:
    with pytest.raises(ConfigError, match=text):
        scenario(robot)


def test_kinematic_vehicles_move_as_on_their_own() -> None:
    route = {"points": [[2, 1, 0]], "speed_m_s": 0.8}
    made = scenario({"dynamics": "kinematic"}, duration_s=0.5)
    for step in made:
        step.command("robot", DriveCommand(0.8, 0.3))
    alone = vehicle("clearpath/husky")
    alone.step(DriveCommand(0.0), 0.01)
    expected = drive(alone, DriveCommand(0.8, 0.3), 0.49, dt=0.01).recorded
    found = made.body("robot").state(expected.time)
    assert np.array_equal(found.xyz, expected.xyz)
    assert np.array_equal(found.acceleration, expected.acceleration)
    through = scenario({"dynamics": "kinematic", "follow": {**route, "points": [[6, 0, 0]]}}, duration_s=6.0)
    last = list(through)[-1]
    assert last.state("robot").xyz[0, 0] > 4.0  # through the wall
    assert not last.collisions


# ---- drivers -----------------------------------------------------------------------------------------------------


def test_drivers_resume_with_the_same_bits() -> None:
    drone = vehicle("asctec/hummingbird")
    own, recorded, outside = KinematicDriver(), RecordedDriver(), ExternalDriver()
    own.add("robot", vehicle("bmw/320i"), ph.Pose((1, 2, 0)))
    own.add("drone", drone, ph.Pose((0, 0, 5)))
    recorded.add("cart", ph.ConstantTwist(ph.Pose(), velocity=(1, 0, 0)), ph.Pose())
    outside.add("box", None, ph.Pose((0, 1, 0)))
    commands = {id(own): [DriveCommand(3.0, 0.2), VelocityCommand((1.0, 0.5, 0.2))]}
    for driver in (own, recorded, outside):
        given = commands.get(id(driver), [None])
        driver.step(given, 0.01)  # type: ignore[arg-type]
        saved = driver.save()
        driver.step(given, 0.01)  # type: ignore[arg-type]
        expected = driver.rows().copy()
        driver.step(given, 0.01)  # type: ignore[arg-type]
        driver.load(saved)
        driver.step(given, 0.01)  # type: ignore[arg-type]
        assert np.array_equal(driver.rows(), expected)
    assert recorded.rows()[0, 1] == pytest.approx(0.02)
    with pytest.raises(ConfigError, match="not of these vehicles"):
        own.load(b"[]")


def test_external_vehicles_are_moved_from_outside() -> None:
    robot = {"model": None, "dynamics": "external", "start": {"xyz": [0, 0, 1]}}
    made = scenario(robot, [{**IMU, **IDEAL}], duration_s=0.3)
    for step in made:
        time = step.time + 0.01
        if step.number < 19:
            step.move("robot", ph.Pose((time, 0, 1), rpy_deg=(0, 0, 90 * time)), velocity=(1, 0, 0))
        if step.number == 10:
            samples = step.samples("imu")
            assert samples.angular_rate[-1, 2] == pytest.approx(np.radians(90), rel=1e-3)
    state = made.body("robot").state(np.array([0.1, 0.295]))
    assert state.xyz[:, 0] == pytest.approx([0.1, 0.2])
    assert state.velocity[:, 0] == pytest.approx([1.0, 0.0])
    with pytest.raises(ConfigError, match="moved from outside and accepts no commands"):
        made.body("robot").command(DriveCommand(1.0))
    with pytest.raises(ConfigError, match="set dynamics: external"):
        scenario({}).move("robot", ph.Pose())
    with pytest.raises(ConfigError, match="velocity: must be 3 finite numbers"):
        made.move("robot", ph.Pose(), velocity=(1, 2))


# ---- collisions --------------------------------------------------------------------------------------------------

INTO_WALL = {"start": {"xyz": [1.5, 0, 0]}, "follow": {"points": [[6, 0, 0]], "speed_m_s": 1.0}}


def test_a_wall_stops_the_robot_and_its_wheels_slip() -> None:
    made = scenario(INTO_WALL, [WHEELS | IDEAL], duration_s=3.0)
    feed = RosFeed(made)
    hits, messages, clear = [], [], []
    for step in made:
        hits += step.collisions
        messages += [one for one in feed.of(step) if one.type == ros.DIAGNOSTICS]
        if step.number in (0, 299):
            clear.append(step.clearance("robot"))
    assert {hit.other for hit in hits} == {"wall"}
    assert {hit.body for hit in hits} == {"robot"}
    assert hits[0].normal[0] < -0.99
    assert hits[0].xyz[0] == pytest.approx(3.0, abs=0.02)
    state = step.state("robot")
    assert state.xyz[0, 0] == pytest.approx(3.0 - 0.495, abs=0.02)  # half the length in front of the wall
    assert clear[0] == pytest.approx(1.5 - 0.495, abs=0.02)
    assert clear[-1] < 0.02
    measured = step.samples("wheels")
    assert measured.xyz[-1, 0] > state.xyz[0, 0] - 1.5 + 0.5  # the wheels turn on the spot
    assert {one.topic for one in messages} == {"/ground_truth/collisions"}
    assert len(messages) == len(hits)
    values = {pair.key: pair.value for pair in ros.decode(ros.DIAGNOSTICS, messages[0].data).status[0].values}
    assert values["other"] == "wall"
    assert float(values["impulse_n_s"]) == hits[0].impulse_n_s


def test_a_collision_stops_a_vehicle_if_asked() -> None:
    made = scenario({**INTO_WALL, "on_collision": "stop"}, duration_s=3.0)
    hit_at, states = None, []
    for step in made:
        hit_at = step.time if step.collisions and hit_at is None else hit_at
        states.append(step.state("robot").velocity[0, 0])
    body = made.body("robot")
    assert isinstance(body, DrivenBody)
    assert body.stopped
    assert hit_at is not None
    assert abs(states[-1]) < 1e-3
    assert len(list(made)) == 300
    assert body.stopped
    assert hit_at == pytest.approx(1.2, abs=0.3)


def test_a_collision_ends_a_run_if_asked(tmp_path: Path) -> None:
    lidar = {
        "name": "top",
        "type": "lidar",
        "model": "velodyne/vlp-16",
        "vehicle": "robot",
        "mount": {"xyz": [0, 0, 0.8]},
    }
    made = scenario({**INTO_WALL, "on_collision": "end"}, [IMU, lidar], duration_s=3.0, outputs=[])
    planned = made.frame_count
    summary = made.run(tmp_path)
    manifest = json.loads((tmp_path / "manifest.json").read_text())
    lines = [json.loads(line) for line in (tmp_path / "truth" / "collisions.jsonl").read_text().splitlines()]
    assert made.ended is not None
    assert made.ended[1] == "robot hit wall"
    assert manifest["complete"]
    assert manifest["ended"] == {"time_s": made.ended[0], "reason": "robot hit wall"}
    assert 0.5 < made.ended[0] < 2.0
    assert [line["time_s"] for line in lines] == [made.ended[0]]
    assert len(list((tmp_path / "top").iterdir())) == made.frame_count < planned
    assert all((tmp_path / name).is_file() for name in manifest["files"])
    rows = np.loadtxt(tmp_path / "truth" / "robot.csv", delimiter=",", skiprows=1)
    assert rows[-1, 0] == pytest.approx(made.ended[0])
    assert [(hit.body, hit.other) for hit in summary.collisions] == [("robot", "wall")]
    assert "robot hit wall" in (tmp_path / "report.html").read_text()
    again = scenario({**INTO_WALL, "on_collision": "end"}, [IMU, lidar], duration_s=3.0, outputs=[]).run(tmp_path)
    assert again.frames == 0
    assert json.loads((tmp_path / "manifest.json").read_text()) == manifest


# ---- what sensors notice -----------------------------------------------------------------------------------------


def test_sensors_notice_a_slope() -> None:
    made = scenario({"start": {"xyz": [0, 20, 1.5]}}, [{**IMU, **IDEAL}], duration_s=0.5)
    step = list(made)[-1]
    force = step.samples("imu").specific_force[-1]
    assert force == pytest.approx([9.80665 * np.sin(np.radians(10)), 0, 9.80665 * np.cos(np.radians(10))], abs=0.01)
    assert made.sensors[0].motion.sample(np.array([0.5]))[1][0, 1] == pytest.approx(-np.sin(np.radians(5)), abs=1e-3)
    assert np.abs(step.state("robot").velocity).max() < 1e-3  # parked


def test_the_imu_notices_a_kerb() -> None:
    made = scenario({"start": {"xyz": [-2.0, 0, 0], "rpy_deg": [0, 0, 180]}}, [{**IMU, **IDEAL}], duration_s=3.0)
    force, tilt = [], []
    for step in made:
        step.command("robot", DriveCommand(0.8))
        force.append(step.samples("imu").specific_force[:, 2])
        tilt.append(np.hypot(*step.state("robot").quat_xyzw[0, :2]))
    up = np.concatenate(force)
    assert np.abs(up[20:70] - 9.80665).max() < 0.05  # rolling on the plane
    assert np.abs(up[100:] - 9.80665).max() > 1.0  # wheels hit the kerb
    assert np.max(tilt) > 0.01
    assert step.state("robot").xyz[0, 2] == pytest.approx(0.03, abs=0.003)


def test_the_truth_follows_the_ground_off_road() -> None:
    robot = {"start": {"xyz": [0, 0, 0.3]}, "follow": {"points": [[6, 1, 0]], "speed_m_s": 1.0}}
    made = scenario(robot, duration_s=6.0, place="off-road")
    solid = Solid.of(made.world)
    xyz = np.concatenate([step.state("robot").xyz for step in made])
    below = solid.heights(xyz + np.array([0.0, 0.0, 0.3]))
    assert np.abs(xyz[:, 2] - below).max() < 0.02
    assert np.ptp(xyz[:, 2]) > 0.05
    assert np.ptp(xyz[:, 0]) > 4.0


# ---- multirotors and vessels -------------------------------------------------------------------------------------

FLIGHT = {"model": "asctec/hummingbird", "start": {"xyz": [0, 0, 1.0]}}


def test_a_wall_stops_a_multirotor_and_kinematic_flies_through() -> None:
    ahead = {"follow": {"points": [[8, 0, 0.7]], "speed_m_s": 2.0}}
    made = scenario({**FLIGHT, **ahead, "on_collision": "stop"}, [{**IMU, **IDEAL}], duration_s=5.0)
    hits, force = [], []
    for step in made:
        hits += step.collisions
        force.append(np.abs(step.samples("imu").specific_force[:, 0]).max(initial=0.0))
    assert {(hit.body, hit.other) for hit in hits} == {("robot", "wall")}
    assert hits[0].xyz[0] == pytest.approx(3.0, abs=0.02)
    assert max(force) > 50.0  # the impact
    assert step.state("robot").xyz[0, 0] < 3.0
    assert step.clearance("robot") < 1.0
    through = scenario({**FLIGHT, **ahead, "dynamics": "kinematic"}, duration_s=5.0)
    last = list(through)[-1]
    assert last.state("robot").xyz[0, 0] > 4.0
    with pytest.raises(ConfigError, match="clearance is for vehicles with dynamics: rays or hull"):
        last.clearance("robot")


def test_a_multirotor_that_starts_on_the_ground_stands_and_measures_gravity() -> None:
    made = scenario({"model": "asctec/hummingbird"}, [{**IMU, **IDEAL}], duration_s=0.5)
    for step in made:
        step.command("robot", MotorsOff())
    assert step.state("robot").xyz[0, 2] == pytest.approx(0.06, abs=1e-4)
    assert step.samples("imu").specific_force[-1] == pytest.approx([0, 0, 9.80665], abs=0.01)
    assert not step.collisions


def test_a_quay_ends_the_run_of_a_vessel_and_is_written_to_the_truth(tmp_path: Path) -> None:
    robot = {"model": "dlr/aurora", "start": {"xyz": [-10, 0, 0]}, "on_collision": "end"}
    fields = {"outputs": [], "water": {"kind": "calm", "level_m": 0.5}}
    robot["follow"] = {"points": [[10, 0, 0]], "speed_m_s": 3.0}
    made = _at_quay(robot, fields)
    summary = made.run(tmp_path)
    assert made.ended is not None
    assert made.ended[1] == "robot hit quay"
    lines = [json.loads(line) for line in (tmp_path / "truth" / "collisions.jsonl").read_text().splitlines()]
    assert lines[0]["impulse_n_s"] > 1700.0
    assert summary.collisions[0].other == "quay"


def _at_quay(robot: dict[str, Any], fields: dict[str, Any]) -> Scenario:
    world = ph.World("basin")
    world.add(ph.shapes.box(2, 40, 6), material="concrete", label="quay", name="quay", pose=ph.Pose((4, 0, 0)))
    given = {"duration_s": 8.0, "world": "yard", "vehicles": [{"name": "robot", **robot}], "sensors": [IMU], **fields}
    return Scenario(config.parse(ScenarioFile, given, "scenario"), world=world)


# ---- viewer ------------------------------------------------------------------------------------------------------


def test_the_viewer_marks_a_collision_for_a_second() -> None:
    lidar = {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "robot"}
    stage = ScenarioStage(scenario(INTO_WALL, [{**lidar, "mount": {"xyz": [0, 0, 0.8]}}], duration_s=2.0))
    at = {}
    for time in (0.3, 1.75):
        at[time] = stage.measure(replace(stage.places["top"], time_s=time))
    assert not any("collision" in note for note in at[0.3].notes)
    assert at[0.3].dots == ()
    (note,) = [note for note in at[1.75].notes if note.startswith("collision")]
    assert re.fullmatch(r"collision: robot and wall at 1\.\d\d s, [\d.]+ N s", note)
    (marks,), (arrows,) = at[1.75].dots, at[1.75].segments
    assert marks.xyz[0, 0] == pytest.approx(3.0, abs=0.05)
    assert marks.colours.tolist() == [[255, 40, 40]]
    assert (arrows.ends[0, 1] - arrows.ends[0, 0])[0] == pytest.approx(-1.0, abs=0.02)
