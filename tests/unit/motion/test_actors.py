"""Actors: what they put into a world, what they refuse, and that seeds decide everything."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parhelion as ph
from parhelion.core import history
from parhelion.core.errors import ConfigError
from parhelion.core.schedule import schedule
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors import (
    add_car,
    add_conveyor,
    add_door,
    add_forklift,
    add_loaded_pallet,
    add_person,
    add_robot_arm,
    mobility_of,
    pedestrians,
    scatter,
    set_mobility,
    traffic,
    walkers,
)
from parhelion.motion.actors.body import DistanceAlong, span_of
from parhelion.motion.actors.drivers import LiveRoute
from parhelion.motion.actors.live import LiveActors
from parhelion.motion.actors.traffic import DRIVERS, ClosedRoute
from parhelion.motion.actors.walkers import LiveWalk

DRIVE = ph.ConstantTwist(ph.Pose(), (1.0, 0, 0))
RING = SplineMotion([(0, 0, 0), (30, 0, 0), (30, 30, 0), (0, 30, 0)], limits=MotionLimits(8, 2, 3), closed=True)


# ---- what is in the world --------------------------------------------------------------------------------------------

MAKERS: dict[str, tuple[Callable[[ph.World], Any], str, str]] = {
    "person": (lambda w: add_person(w, DRIVE), "person", "dynamic"),
    "car": (lambda w: add_car(w, DRIVE), "car", "dynamic"),
    "car with wheels": (lambda w: add_car(w, DRIVE, "suv", wheels=True), "car", "dynamic"),
    "parked car": (lambda w: add_car(w, ph.Pose()), "car", "movable"),
    "lorry": (lambda w: add_car(w, DRIVE, "lorry", wheels=True), "truck", "dynamic"),
    "forklift": (lambda w: add_forklift(w, DRIVE), "forklift", "dynamic"),
    "door": (lambda w: add_door(w, ph.Pose(), frame=False), "door", "dynamic"),
    "arm": (lambda w: add_robot_arm(w, ph.Pose()), "robot-arm", "dynamic"),
    "pallet": (lambda w: add_loaded_pallet(w, ph.Pose()), "pallet", "movable"),
    "carried pallet": (lambda w: add_loaded_pallet(w, DRIVE), "pallet", "movable"),
}


@pytest.mark.parametrize("kind", MAKERS)
def test_every_actor_is_one_instance_with_label_and_mobility(kind: str) -> None:
    make, label, mobility = MAKERS[kind]
    world = ph.World()
    world.add(ph.shapes.plane(5, 5), material="concrete", label="floor")
    first, second = make(world), make(world)
    assert first.instance != second.instance
    for actor in (first, second):
        assert {item.instance for item in actor.objects} == {actor.instance}
        assert {item.label for item in actor.objects} == {label}
        assert vars(world)["mobility"][actor.instance] == mobility_of(world, actor.instance) == mobility
        assert all(item in world.objects for item in actor.objects)
    assert mobility_of(world, world.objects[0].instance) == "static"
    parts = [part for item in first.objects for part in item.parts]
    for part in parts:
        assert np.isfinite(part.mesh.vertices).all()
    assert len(first.objects) <= 12, "bodies are dear: one for each rigid part"


@pytest.mark.parametrize("kind", MAKERS)
def test_surfaces_face_outward(kind: str) -> None:
    """Signed volume of each closed piece's triangles is positive in sum; flat panes and open cups aside."""
    world = ph.World()
    actor = MAKERS[kind][0](world)
    volume = 0.0
    for item in actor.objects:
        for part in item.parts:
            a, b, c = (part.mesh.vertices[part.mesh.faces[:, k]] for k in range(3))
            volume += float(np.sum(a * np.cross(b, c))) / 6.0
    assert volume > 0.0


def test_sizes_of_objects() -> None:
    world = ph.World()
    low, high = add_car(world, ph.Pose()).objects[0].bounds()
    assert high - low == pytest.approx([4.64, 2.04, 1.45], abs=0.06)  # with plates and mirrors
    low, high = add_loaded_pallet(world, ph.Pose(), layers=0).objects[0].bounds()
    assert high - low == pytest.approx([1.2, 0.8, 0.144], abs=1e-3)
    low, high = add_loaded_pallet(world, ph.Pose(), layers=3, seed=4).objects[0].bounds()
    assert high[2] - low[2] > 0.144 + 3 * 0.22 - 1e-6
    door = add_door(world, ph.Pose(), 1.0, 2.1, 0.0, frame=False).objects[0]
    assert door.bounds()[1] == pytest.approx([1.0, 0.075, 2.1], abs=1e-6)
    arm = add_robot_arm(world, ph.Pose())
    assert max(item.bounds()[1][2] for item in arm.objects) == pytest.approx(0.1625 + 0.425 + 0.3922 + 0.0997, abs=0.1)


def test_mobility_can_be_set_and_is_checked() -> None:
    world = ph.World()
    item = world.add(ph.shapes.box(1, 1, 1), material="steel")
    assert mobility_of(world, item.instance) == "static"
    set_mobility(world, item.instance, "movable")
    assert mobility_of(world, item.instance) == "movable"
    moving = world.add_actor(ph.shapes.box(1, 1, 1), material="steel", trajectory=DRIVE)
    assert mobility_of(world, moving.instance) == "dynamic"
    with pytest.raises(ConfigError, match="mobility: must be one of static, movable, dynamic, got 'flying'"):
        set_mobility(world, 1, "flying")  # type: ignore[arg-type]


# ---- small objects ---------------------------------------------------------------------------------------------------


def fingerprint(world: ph.World, times: tuple[float, ...] = (0.0, 3.7, 11.2)) -> list[Any]:
    """Every vertex and every pose, bit for bit."""
    rows: list[Any] = []
    for item in world.objects:
        rows += [item.name, item.label, item.instance, *(part.placed.tobytes() for part in item.parts)]
        rows += [part.material.name for part in item.parts]
        if item.trajectory is not None:
            rows += [array.tobytes() for array in item.trajectory.sample(np.array(times))]
    return rows


@settings(max_examples=15, deadline=None)
@given(seed=st.integers(0, 2**32), count=st.integers(0, 25))
def test_scattered_objects_never_touch_and_stay_inside(seed: int, count: int) -> None:
    world = ph.World()
    items = scatter(world, (-3.0, 1.0, 3.0, 8.0), count=count, seed=seed, ground_m=0.2)
    assert len(items) == count
    clouds = []
    for item in items:
        points = np.concatenate([part.placed for part in item.objects[0].parts])
        assert points[:, 2].min() == pytest.approx(0.2, abs=5e-3)
        assert np.all((points[:, :2] >= [-3.0, 1.0]) & (points[:, :2] <= [3.0, 8.0]))
        clouds.append(points[:, :2])
    middles = np.array([0.5 * (cloud.min(axis=0) + cloud.max(axis=0)) for cloud in clouds]).reshape(-1, 2)
    # Separated on the line between their middles, so they do not touch.
    for one in range(count):
        for other in range(one):
            along = middles[other] - middles[one]
            along = along / np.linalg.norm(along)
            assert np.max(clouds[one] @ along) < np.min(clouds[other] @ along)


def test_same_seed_same_bits_other_seed_other_bits() -> None:
    def build(seed: int) -> ph.World:
        world = ph.World()
        traffic(world, RING, 4, seed=seed, speed_m_s=7.0, duration_s=15.0)
        pedestrians(world, RING, 4, seed=seed, duration_s=15.0)
        scatter(world, (5, 5, 25, 25), count=12, seed=seed)
        add_conveyor(world, ph.Pose((15, 15, 0)), 4.0, 3, 0.5, seed=seed)
        add_loaded_pallet(world, ph.Pose((10, 10, 0)), seed=seed)
        return world

    assert fingerprint(build(7)) == fingerprint(build(7))
    assert fingerprint(build(7)) != fingerprint(build(8))


def test_samples_of_parts_do_not_depend_on_earlier_calls() -> None:
    person = add_person(ph.World(), DRIVE)
    motion = person.objects[3].trajectory
    assert motion is not None
    asked = np.array([0.3, 1.7])
    before = motion.sample(asked)
    person.objects[0].trajectory.sample(np.linspace(0, 9, 50))  # type: ignore[union-attr]
    before[0][:] = 0.0  # what was handed out is the caller's own
    after, alone = motion.sample(asked), motion.sample(asked[1:])
    assert after[0][1] == pytest.approx(alone[0][0], abs=0.0)
    assert np.any(after[0] != 0.0)


# ---- schedules and spans ---------------------------------------------------------------------------------------------


def test_schedules() -> None:
    constant = schedule("x", 2.5)
    assert constant(np.array([-1.0, 9.0])) == pytest.approx(np.full((2, 1), 2.5))
    ramp = schedule("x", [(1.0, 0.0), (3.0, 1.0), (4.0, 1.0)])
    times = np.linspace(0.0, 5.0, 501)
    values = ramp(times)[:, 0]
    assert values[[0, 100, 200, 300, 500]] == pytest.approx([0, 0, 0.5, 1, 1])
    assert np.all(np.diff(values) >= 0)
    assert np.max(np.diff(values)) / 0.01 == pytest.approx(15 / 8 / 2, rel=1e-3)
    free = schedule("x", lambda t: 0.1 * t, low=0.0, high=1.0)
    assert free(np.array([2.0]))[0, 0] == pytest.approx(0.2)
    with pytest.raises(ConfigError, match=r"x: must be from 0 to 1, got 1\.2"):
        free(np.array([12.0]))
    six = schedule("x", [(0.0, [0] * 6), (1.0, [1, 2, 3, 4, 5, 6])], columns=6)
    assert six(np.array([0.5]))[0] == pytest.approx([0.5, 1, 1.5, 2, 2.5, 3])


def test_spans_of_motions() -> None:
    assert span_of(RING).repeats
    once = SplineMotion([(0, 0, 0), (5, 0, 0)], limits=MotionLimits(1, 1, 1), start_time=3.0)
    span = span_of(once)
    assert (span.repeats, span.start_s, span.end_s) == (False, 3.0, once.end_time)
    assert not span_of(ph.Fixed(ph.Pose())).repeats
    turning = ph.ConstantTwist(ph.Pose(), (1, 0, 0), (0, 0, 1))
    with pytest.raises(ConfigError, match=r"a ConstantTwist has no start_time and end_time, so give times"):
        span_of(turning)


def test_distance_counts_backwards_and_laps() -> None:
    there = DistanceAlong(ph.Waypoints([0, 2, 3, 4], [ph.Pose((x, 0, 0)) for x in (0, 4, 4, 3)]))
    assert there(np.array([-1, 1, 2.5, 3.5, 9])) == pytest.approx([0, 2, 4, 3.5, 3], abs=1e-9)
    lap = DistanceAlong(RING)
    period = RING.end_time - RING.start_time
    assert lap(np.array([period * 2 + 1.0])) - lap(np.array([1.0])) == pytest.approx(2 * RING.length_m, rel=1e-3)
    straight = DistanceAlong(ph.ConstantTwist(ph.Pose(rpy_deg=(0, 0, 180)), (2, 0, 0)))
    assert straight(np.array([3.0])) == pytest.approx(-6.0)


# ---- refusals --------------------------------------------------------------------------------------------------------

REFUSED: list[tuple[Callable[[ph.World], Any], str]] = [
    (lambda w: add_person(w, DRIVE, 0.3), "person: height_m: must be from 0.8 to 2.3, got 0.3"),
    (lambda w: add_person(w, DRIVE, float("nan")), "person: height_m: must be from 0.8 to 2.3, got nan"),
    (lambda w: add_person(w, "here"), "person: motion must have sample"),
    (lambda w: add_person(w, DRIVE, times=(3.0, 1.0)), "times: must be two finite times"),
    (lambda w: add_car(w, DRIVE, "sedn"), "unknown car model 'sedn': did you mean 'sedan'"),
    (lambda w: add_forklift(w, DRIVE, 4.0), "forklift: fork_height: must be from 0 to 3, got 4"),
    (lambda w: add_forklift(w, DRIVE, [(0, 1), (0, 2)]), "forklift: fork_height: times must be strictly increasing"),
    (lambda w: add_door(w, ph.Pose(), -1.0), "door: width: must be above 0"),
    (lambda w: add_door(w, ph.Pose(), opening=float("nan")), "door: opening: must be 1 finite number"),
    (lambda w: add_door(w, (0, 0, 0)), "door: pose: must be a Pose"),
    (lambda w: add_conveyor(w, ph.Pose(), 3.0, 50), "conveyor: boxes must be at most 7"),
    (lambda w: add_conveyor(w, ph.Pose(), 3.0, 2, -1.0), "conveyor: speed: must be from 0 to 5, got -1.0"),
    (lambda w: add_robot_arm(w, ph.Pose(), (0, 0, 0)), "robot arm: joint_angles: must be 6 finite numbers"),
    (lambda w: add_loaded_pallet(w, ph.Pose(), layers=20), "pallet: layers: must be a whole number from 0 to 8"),
    (lambda w: scatter(w, (0, 0, 1, 1), count=500), "scatter: no space for 500 objects"),
    (lambda w: scatter(w, (1, 0, 0, 1)), "scatter: area must be x_min"),
    (lambda w: scatter(w, (0, 0, 9, 9), kinds=("cupp",)), "unknown kind of small object 'cupp': did you mean 'cup'"),
    (lambda w: traffic(w, RING, 100), "traffic: 100 bodies need"),
    (lambda w: traffic(w, DRIVE, 1), "has no start_time and end_time"),
    (lambda w: traffic(w, [], 1), "traffic: routes must be at least one closed motion"),
    (lambda w: traffic(w, RING, 1, speed_m_s=float("nan")), "traffic: speed_m_s: must be above 0"),
    (lambda w: traffic(w, SplineMotion([(0, 0, 0), (5, 0, 0)], times=[0, 5]), 1), "traffic: routes must be closed"),
    (lambda w: add_car("world", DRIVE), "car: world must be a World, got str"),
]


@pytest.mark.parametrize(("make", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
def test_bad_input_is_refused_and_leaves_the_world_alone(make: Callable[[ph.World], Any], message: str) -> None:
    world = ph.World()
    with pytest.raises(ConfigError) as error:
        make(world)
    assert message in str(error.value)
    assert world.objects == []


def _crowd() -> LiveActors:
    """Six people and two cars who react, after 20 s."""
    turn = np.linspace(0.0, 2.0 * np.pi, 16, endpoint=False)
    loops = [
        SplineMotion(
            np.column_stack([radius * np.cos(turn), radius * np.sin(turn), 0.0 * turn]),
            limits=MotionLimits(4.0, 2.0, 2.0), closed=True,
        )
        for radius in (6.0, 20.0)
    ]  # fmt: skip
    actors = LiveActors(ph.World(), seed=4)
    for number in range(6):
        actors.walk(loops[0], number / 6, 1.3, 1.7, back=number % 2 == 0)
    for number in range(2):
        actors.drive(ClosedRoute(loops[1]), 30.0 * number, 4.0, 4.5, 1.8, DRIVERS)
    actors.begin()
    actors.advance(0.0, 20.0)
    return actors


def test_old_poses_of_reacting_actors_have_the_same_bits_from_a_file(monkeypatch: pytest.MonkeyPatch) -> None:
    times = np.array([0.0, 1.234, 7.5, 7.51, 13.0, 19.99, 20.05])

    def sampled(actors: LiveActors) -> bytes:
        found = b""
        for asked in (times, times[:1], times[3:5]):
            parts = LiveWalk(actors.walkers, 3, 1.7).poses(asked).values()
            found += b"".join(xyz.tobytes() + quat.tobytes() for xyz, quat in parts)
            found += b"".join(values.tobytes() for values in actors.drivers.around(1, asked)[1:])
            route = LiveRoute(actors.drivers, 1, actors.drivers._all[1])
            found += route.sample(asked)[0].tobytes()
        return found

    in_memory = _crowd()
    monkeypatch.setattr(history, "RECENT_BYTES", 0)
    monkeypatch.setattr(history, "RECENT_ROWS", 3)
    monkeypatch.setattr(walkers, "LATEST_HOLDS", 4)
    in_file = _crowd()
    assert in_file.walkers._rows._stored > 300
    assert sampled(in_file) == sampled(in_memory)


LIDAR = {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 1]}}


@pytest.mark.parametrize("react", [False, True])
def test_people_of_absurd_speed_are_refused_by_name(react: bool) -> None:
    person = {"motion": {"constant": {"xyz": [9, 5, 0], "velocity_m_s": [1e308, 0, 0]}}, "react": react}
    with pytest.raises(ConfigError, match=r"people\[0\]: .*people move at 1000 m/s at most"):
        ph.Scenario.from_mapping({"duration_s": 0.2, "world": "cuboids", "people": [person], "sensors": [LIDAR]})
