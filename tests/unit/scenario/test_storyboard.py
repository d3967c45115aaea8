"""OpenSCENARIO storyboards: motions against closed forms, conditions, parameters, catalogs and errors."""

from __future__ import annotations

import math
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.scenario import Scenario
from parhelion.scenario.schema import SumoEntry
from parhelion.scenario.storyboard import play
from parhelion.scenario.sumo import sumo_drives
from road_rigs import tee_junction
from storyboard_rigs import CAR, STEP, WALKER, after, at_lane, begin, event, file_of, speed_to, street, when

TWO = {"Ego": CAR, "Target": CAR}


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> SimpleNamespace:
    folder = tmp_path_factory.mktemp("street")
    return SimpleNamespace(folder=folder, world=street(folder))


def xy(played, name: str, times) -> np.ndarray:
    return played.motions[name].sample(np.asarray(times, dtype=float))[0][:, :2]


def lane_change(number: int, shape: str, seconds: float) -> str:
    dynamics = f'<LaneChangeActionDynamics dynamicsShape="{shape}" value="{seconds}" dynamicsDimension="time"/>'
    target = f'<LaneChangeTarget><AbsoluteTargetLane value="{number}"/></LaneChangeTarget>'
    return f"<LateralAction><LaneChangeAction>{dynamics}{target}</LaneChangeAction></LateralAction>"


@pytest.mark.parametrize(
    ("shape", "share"),
    [
        ("linear", lambda u: u),
        ("sinusoidal", lambda u: 0.5 - 0.5 * math.cos(math.pi * u)),
        ("cubic", lambda u: 3 * u**2 - 2 * u**3),
    ],
)
def test_lane_change_follows_its_shape(place, shape, share):
    init = begin("Ego", at_lane(10.0, -1), 20.0)
    events = {"Ego": event("change", lane_change(-2, shape, 4.0), after(1.0))}
    played = play(file_of(place.folder, {"Ego": CAR}, init, events), place.world, 8.0)
    times = np.array([0.5, 1.0, 2.0, 3.0, 4.5, 5.0, 7.0])
    wanted = [-1.75 - 3.5 * share(min(max(time - 1.0, 0.0) / 4.0, 1.0)) for time in times]
    found = xy(played, "Ego", times)
    np.testing.assert_allclose(found[:, 1], wanted, atol=1e-6)
    np.testing.assert_allclose(found[:, 0], 10.0 + 20.0 * times, atol=1e-6)


def test_braking_at_a_rate_covers_the_distance_of_the_closed_form(place):
    rate = '<SpeedActionDynamics dynamicsShape="linear" value="4" dynamicsDimension="rate"/>'
    events = {"Ego": event("brake", f"<LongitudinalAction>{speed_to(8.0, rate)}</LongitudinalAction>", after(2.0))}
    played = play(file_of(place.folder, {"Ego": CAR}, begin("Ego", at_lane(0.0, -1), 20.0), events), place.world, 9.0)
    # 3 s from 20 to 8 m/s; steps of 0.05 s with the speed at their end cover 0.05 s * 12 m/s / 2 = 0.3 m less.
    assert xy(played, "Ego", [9.0])[0, 0] == pytest.approx(2 * 20 + 3 * 14 + 4 * 8, abs=0.31)
    assert played.events == [(2.0, "brake")]


def test_oncoming_lane_and_overtaking_against_it(place):
    """Traffic in the left lane drives towards -x; a change into its lane drives against its direction."""
    init = begin("Ego", at_lane(100.0, -1), 10.0) + begin("Target", at_lane(400.0, 1), 10.0)
    events = {"Ego": event("out", lane_change(1, "sinusoidal", 3.0), after(1.0))}
    played = play(file_of(place.folder, TWO, init, events), place.world, 6.0)
    np.testing.assert_allclose(xy(played, "Target", [5.0])[0], [350.0, 1.75], atol=1e-6)
    np.testing.assert_allclose(xy(played, "Ego", [6.0])[0], [160.0, 1.75], atol=1e-6)


def test_route_leads_through_a_junction(tmp_path):
    """A car turns right where its route leads, within 1 cm of the arc of 10 m radius about (-10, -11.75)."""
    (tmp_path / "street.xodr").write_text(tee_junction())
    world = ph.World.load(str(tmp_path / "street.xodr"))
    goal = f"<Position>{at_lane(30.0, -1, road_number=3)}</Position>"
    route = f"<RoutingAction><AcquirePositionAction>{goal}</AcquirePositionAction></RoutingAction>"
    start = begin("Ego", at_lane(10.0, -1), 8.0)
    turned = play(file_of(tmp_path, {"Ego": CAR}, start, {"Ego": event("r", route, after(0.0))}), world, 12.0)
    straight = play(file_of(tmp_path, {"Ego": CAR}, start), world, 8.0)
    times = np.arange(0.0, 12.0, 0.1)
    found = xy(turned, "Ego", times)
    bend = (found[:, 0] > -10.0) & (found[:, 1] > -10.0)
    assert bend.sum() > 10
    assert np.abs(np.hypot(found[bend, 0] + 10.0, found[bend, 1] + 10.0) - 8.25).max() < 0.01
    assert found[-1, 1] < -30.0
    assert xy(straight, "Ego", [8.0])[0].tolist() == pytest.approx([14.0, -1.75], abs=1e-6)


@pytest.mark.parametrize(
    ("condition", "time"),
    [
        # Ego: 100 m behind, 20 against 10 m/s, so 10 s to the reference points; boxes are 4.5 m long.
        ('<TimeToCollisionCondition value="5" rule="lessThan" freespace="false"><TimeToCollisionConditionTarget>'
         '<EntityRef entityRef="Target"/></TimeToCollisionConditionTarget></TimeToCollisionCondition>', 5.05),
        ('<TimeHeadwayCondition entityRef="Target" value="2" rule="lessOrEqual" freespace="false"/>', 6.0),
        ('<RelativeDistanceCondition entityRef="Target" value="50" rule="lessThan" freespace="false" '
         'relativeDistanceType="euclidianDistance"/>', 5.05),
        ('<RelativeDistanceCondition entityRef="Target" value="50.5" rule="lessOrEqual" freespace="true" '
         'relativeDistanceType="longitudinal"/>', 4.5),
        ('<TraveledDistanceCondition value="60"/>', 3.0),
        ('<ReachPositionCondition tolerance="2"><Position><WorldPosition x="80" y="-1.75"/></Position>'
         '</ReachPositionCondition>', 3.4),
        ('<CollisionCondition><EntityRef entityRef="Target"/></CollisionCondition>', 9.55),
        ('<RelativeSpeedCondition entityRef="Target" value="9" rule="greaterThan"/>', 0.0),
    ],
)  # fmt: skip
def test_conditions_hold_from_the_time_of_the_closed_form(place, condition, time):
    init = begin("Ego", at_lane(10.0, -1), 20.0) + begin("Target", at_lane(110.0, -1), 10.0)
    stop = f"<LongitudinalAction>{speed_to(0.0, STEP)}</LongitudinalAction>"
    events = {"Ego": event("stop", stop, when("Ego", condition))}
    played = play(file_of(place.folder, TWO, init, events), place.world, 11.0)
    assert played.events == [(pytest.approx(time, abs=0.0501), "stop")]


def test_edges_delays_and_states_of_elements(place):
    """The second event starts 1 s after the first one has ended; an edge needs a change."""
    stop = f"<LongitudinalAction>{speed_to(0.0, STEP)}</LongitudinalAction>"
    ended = (
        '<ByValueCondition><StoryboardElementStateCondition storyboardElementType="event" '
        'storyboardElementRef="change" state="completeState"/></ByValueCondition>'
    )
    always = event("never", stop, after(0.0), edge="rising")
    rows = event("change", lane_change(-2, "linear", 2.0), after(1.0)) + event("stop", stop, ended, delay=1.0) + always
    init = begin("Ego", at_lane(10.0, -1), 20.0)
    played = play(file_of(place.folder, {"Ego": CAR}, init, {"Ego": rows}), place.world, 6.0)
    assert [name for _, name in played.events] == ["change", "stop"]
    assert played.events[1][0] == pytest.approx(4.0, abs=0.11)


def test_keeps_its_distance_and_a_walker_follows_timed_points(place):
    follow = (
        '<LongitudinalAction><LongitudinalDistanceAction entityRef="Target" timeGap="1.5" freespace="true" '
        'continuous="true"/></LongitudinalAction>'
    )
    vertices = "".join(
        f'<Vertex time="{t}"><Position><WorldPosition x="200" y="{y}" h="1.57"/></Position></Vertex>'
        for t, y in ((0, -9), (4, -3), (8, 9))
    )
    walk = (
        f'<RoutingAction><FollowTrajectoryAction><Trajectory name="t" closed="false"><Shape><Polyline>{vertices}'
        '</Polyline></Shape></Trajectory><TimeReference><Timing domainAbsoluteRelative="relative" scale="1" '
        'offset="0"/></TimeReference></FollowTrajectoryAction></RoutingAction>'
    )
    init = begin("Ego", at_lane(10.0, -1), 20.0) + begin("Target", at_lane(40.0, -1), 12.0)
    init += begin("Walker", '<WorldPosition x="200" y="-9" h="1.57"/>')
    events = {"Ego": event("follow", follow, after(0.0)), "Walker": event("walk", walk, after(2.0))}
    played = play(file_of(place.folder, {**TWO, "Walker": WALKER}, init, events), place.world, 40.0)
    ego, target = (xy(played, name, [39.0, 40.0]) for name in TWO)
    assert (ego[1] - ego[0])[0] == pytest.approx(12.0, abs=0.05)
    assert (target - ego)[1, 0] - 4.5 == pytest.approx(1.5 * 12.0, abs=0.3)
    np.testing.assert_allclose(xy(played, "Walker", [2.0, 4.0, 8.0])[:, 1], [-9.0, -6.0, 3.0], atol=0.02)


def test_parameters_expressions_and_catalogs(place, tmp_path):
    catalog = tmp_path / "vehicles"
    catalog.mkdir()
    (catalog / "cars.xosc").write_text(
        '<OpenSCENARIO><Catalog name="cars"><Vehicle name="long" vehicleCategory="bus"><ParameterDeclarations>'
        '<ParameterDeclaration name="length" parameterType="double" value="8"/></ParameterDeclarations><BoundingBox>'
        '<Center x="3" y="0" z="1.5"/><Dimensions length="$length" width="2.5" height="3"/></BoundingBox></Vehicle>'
        "</Catalog></OpenSCENARIO>"
    )
    head = (
        '<ParameterDeclarations><ParameterDeclaration name="v" parameterType="double" value="10"/>'
        '</ParameterDeclarations><CatalogLocations><VehicleCatalog><Directory path="vehicles"/></VehicleCatalog>'
        "</CatalogLocations>"
    )
    bus = (
        '<CatalogReference catalogName="cars" entryName="long"><ParameterAssignments><ParameterAssignment '
        'parameterRef="length" value="12"/></ParameterAssignments></CatalogReference>'
    )
    init = begin("Ego", at_lane(10.0, -1), 1.0).replace('Speed value="1.0"', 'Speed value="${2 * $v + 1}"')
    file = file_of(tmp_path, {"Ego": bus}, init, head=head)
    assert xy(play(file, place.world, 2.0), "Ego", [1.0])[0, 0] == pytest.approx(31.0)
    other = play(file, place.world, 2.0, {"v": 2.0})
    assert xy(other, "Ego", [1.0])[0, 0] == pytest.approx(15.0)
    assert other.sheets["Ego"].size_m == (12.0, 2.5, 3.0)
    assert other.sheets["Ego"].kind == "bus"
    with pytest.raises(ConfigError, match="has no parameter 'w'; it declares: v"):
        play(file, place.world, 2.0, {"w": 2.0})
    file.write_text(file.read_text().replace("${2 * $v + 1}", "${__import__('os')}"))
    with pytest.raises(ConfigError, match="cannot evaluate the expression"):
        play(file, place.world, 2.0)


def test_unsupported_elements_are_counted_and_errors_name_the_place(place):
    control = "<ControllerAction><ActivateControllerAction/></ControllerAction>"
    together = "<SynchronizeAction masterEntityRef='Idle'/>"
    shape = "<Shape><Clothoid curvature='0' curvaturePrime='0.01' length='5'/></Shape>"
    trajectory = f"<TrajectoryRef><Trajectory name='t' closed='false'>{shape}</Trajectory></TrajectoryRef>"
    clothoid = f"<RoutingAction><FollowTrajectoryAction>{trajectory}</FollowTrajectoryAction></RoutingAction>"
    unknown = "<ByValueCondition><UserDefinedValueCondition name='a' value='1' rule='equalTo'/></ByValueCondition>"
    init = begin("Ego", at_lane(10.0, -1), 20.0)
    rows = event("control", control, after(0.0)) + event("user", control, unknown)
    rows += event("together", together, after(0.0)) + event("clothoid", clothoid, after(0.0))
    played = play(file_of(place.folder, {"Ego": CAR, "Idle": CAR}, init, {"Ego": rows}), place.world, 1.0)
    omitted = {row.what for row in played.omitted.contents("a", "b").omitted}
    assert omitted == {
        "<ActivateControllerAction>",
        "<SynchronizeAction>",
        "<FollowTrajectoryAction> with a clothoid or NURBS",
        "<UserDefinedValueCondition>, which is never true",
        "entity",
    }
    file = file_of(place.folder, {"Ego": CAR}, init, {"Ego": event("e", lane_change(4, "linear", 1.0), after(0.0))})
    with pytest.raises(ConfigError, match=r"drive.xosc: .*there is no lane 4 for vehicles beside lane -1 of road '1'"):
        play(file, place.world, 1.0)
    with pytest.raises(ConfigError, match="the world has no lanes; set world to the OpenDRIVE file"):
        play(file, ph.World.load("cuboids"), 1.0)
    with pytest.raises(ConfigError, match="has no entity 'Absent'"):
        play(file_of(place.folder, {"Ego": CAR}, begin("Absent", at_lane(0.0, -1))), place.world, 1.0)


def fields(**more) -> dict:
    lidar = {"name": "roof", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "car", "mount": {"xyz": [1, 0, 2]}}
    vehicles = [{"name": "car", "entity": "Ego"}]
    return {"duration_s": 3, "world": "street.xodr", "vehicles": vehicles, "sensors": [lidar], "outputs": [], **more}


def test_scenario_with_a_storyboard_carries_sensors_and_shows_the_others(place):
    """The carrier moves as its entity; a vehicle deleted at 1 s is gone, and the frame of its body is in its middle."""
    gone = '<GlobalAction><EntityAction entityRef="Target"><DeleteEntityAction/></EntityAction></GlobalAction>'
    init = begin("Ego", at_lane(10.0, -1), 20.0) + begin("Target", at_lane(40.0, -2), 0.0)
    init += begin("Walker", '<WorldPosition x="60" y="-9" h="1.57"/>')
    file = file_of(place.folder, {**TWO, "Walker": WALKER}, init, {"Target": event("gone", gone, after(1.0))})
    scenario = Scenario.from_mapping(fields(storyboard={"file": file.name}), place.folder)
    assert scenario.body("car").state(np.array([2.0])).xyz[0].tolist() == pytest.approx([50.0, -1.75, 0.0])
    bodies = {one.name: one for one in scenario.world.objects if one.is_actor}
    middle = bodies["Target/body"].trajectory.sample(np.array([0.5, 1.5]))[0]
    assert middle[0].tolist() == pytest.approx([41.4, -5.25, 0.0])
    assert middle[1, 2] < -1000.0
    assert any(name.startswith("Walker/") for name in bodies)
    broken = fields(storyboard={"file": file.name}, vehicles=[{"name": "car", "entity": "Egon"}])
    with pytest.raises(ConfigError, match="places no 'Egon'; it places Ego, Target, Walker"):
        Scenario.from_mapping(broken, place.folder)
    with pytest.raises(ConfigError, match=r"vehicles\[0\].entity: needs a storyboard"):
        Scenario.from_mapping(fields(), place.folder)


class Sumo:
    """Stand-in of libsumo: one car towards north that enters after 1 s, and a person."""

    TraCIException = RuntimeError

    def __init__(self) -> None:
        self.time, self.command, self.closed = 0.0, [], False
        names = ("getIDList", "getPosition3D", "getAngle", "getLength", "getWidth", "getHeight", "getVehicleClass")
        car = (self.cars, self.at, lambda _: 0.0, lambda _: 4.0, lambda _: 1.8, lambda _: 1.5, lambda _: "passenger")
        self.vehicle = SimpleNamespace(**dict(zip(names, car, strict=True)))
        one = (lambda: ["w"], lambda _: (112.0, 43.0, 0.0), lambda _: 90.0, lambda _: 0.2, lambda _: 0.5, lambda _: 1.7)
        self.person = SimpleNamespace(**dict(zip(names, one, strict=False)))
        self.simulation = SimpleNamespace(getTime=lambda: self.time)

    def start(self, command: list[str]) -> None:
        self.command = command

    def simulationStep(self) -> None:
        self.time += float(self.command[self.command.index("--step-length") + 1])

    def cars(self) -> list[str]:
        return ["a b"] if self.time >= 5.0 - 1e-9 else []

    def at(self, name: str) -> tuple[float, float, float]:
        return 110.0, 50.0 + 10.0 * (self.time - 5.0), 0.0

    def close(self) -> None:
        self.closed = True


def test_traffic_of_sumo_is_shifted_to_its_middle_and_to_the_origin(place, monkeypatch):
    """Front bumper at (110, 50 + 10 t) in a network with offset (100, 40); the car enters 1 s after begin_s."""
    import sys

    stand_in = Sumo()
    monkeypatch.setitem(sys.modules, "libsumo", stand_in)
    (place.folder / "a.net.xml").write_text('<net><location netOffset="100.00,40.00"/></net>')
    config = '<configuration><input><net-file value="a.net.xml"/></input></configuration>'
    (place.folder / "a.sumocfg").write_text(config)
    more = {"vehicles": [], "sumo": {"file": "a.sumocfg", "begin_s": 4.0}, "seed": 5}
    sensors = [{"name": "roof", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 4]}}]
    scenario = Scenario.from_mapping(fields(sensors=sensors, **more), place.folder)
    assert stand_in.closed
    assert stand_in.command[stand_in.command.index("--seed") + 1] == "5"
    body = next(one for one in scenario.world.objects if one.name == "a-b/body")
    xyz, quat = body.trajectory.sample(np.array([0.5, 1.0, 3.0]))
    assert xyz[0, 2] < -1000.0
    # The car is beside the road, on the ground 1 cm below it.
    np.testing.assert_allclose(xyz[1:], [[10.0, 8.0, -0.01], [10.0, 28.0, -0.01]], atol=1e-6)
    assert np.degrees(2 * np.arctan2(quat[1, 2], quat[1, 3])) == pytest.approx(90.0)
    person = next(one for one in scenario.world.objects if one.name.startswith("w/"))
    assert person.trajectory.sample(np.array([2.0]))[0][0, :2] == pytest.approx([12.0, 3.0], abs=0.3)


def test_without_libsumo_the_message_has_the_command(place, monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "libsumo", None)
    with pytest.raises(ph.MissingDependencyError, match=r"pip install 'parhelion\[sumo\]'"):
        sumo_drives(place.folder / "a.sumocfg", place.world, 1.0, 0, SumoEntry(file="a.sumocfg"))


def test_new_scenario_from_a_storyboard_loads(place, tmp_path, monkeypatch):
    from parhelion.scenario.openscenario import scenario_of

    street(tmp_path)
    rain = '<Precipitation precipitationType="rain" precipitationIntensity="8"/>'
    dull = f'<Environment name="e"><Weather>{rain}<Fog visualRange="500"/></Weather></Environment>'
    init = begin("Ego", at_lane(10.0, -1), 20.0) + (
        f"<GlobalAction><EnvironmentAction>{dull}</EnvironmentAction></GlobalAction>"
    )
    file = file_of(tmp_path, {"Ego": CAR}, init)
    (tmp_path / "s.yaml").write_text(scenario_of(Path(file), Path(file.name)))
    scenario = Scenario.load(tmp_path / "s.yaml")
    assert scenario.weather is not None
    assert scenario.weather.rain
    assert scenario.weather.fog
    assert scenario.body("ego").state(np.array([1.0])).xyz[0, 0] == pytest.approx(30.0)
