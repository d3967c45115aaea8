"""Everything that lives, named in a scenario file: what it adds, boxes, resuming, threads, and wrong values."""

from __future__ import annotations

import copy
import json
import os
import subprocess
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import parhelion as ph
from parhelion.core.errors import ParhelionError
from parhelion.core.trajectory import pose_at
from parhelion.motion.actors import add_forklift, mobility_of
from parhelion.scenario import Scenario, json_schema
from parhelion.world.parts import WorldObject
from run_rigs import Stop, files_of, stop_after
from urdf_rigs import write_rover

LIVING: dict[str, Any] = {
    "name": "a yard full of life",
    "seed": 5,
    "duration_s": 0.2,
    "world": "yard.yaml",
    "boxes": "nuscenes",
    "outputs": [],
    "report": False,
    "vehicles": [
        {"name": "rover", "model": "clearpath/husky", "follow": {"points": [[5, 0, 0]], "speed_m_s": 0.9},
         "urdf": {"file": "rover_description/urdf/rover.urdf", "pose": {"xyz": [0, 0, 0.5]}, "label": "robot",
                  "joints": {"wheel_joint": {"rate": 3.0}, "arm_joint": [[0, 0.1], [0.2, 0.6]], "lift_joint": 0.2},
                  "materials": {"blue": "car-paint-blue", "odd": "aluminium"}, "hide": "inside", "shapes": "visual",
                  "packages": {"rover_description": "rover_description"}}},
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "rover", "link": "velodyne",
         "options": {"sub_rays": 1}},
        {"name": "imu", "type": "imu", "model": "analog-devices/adis16470", "vehicle": "rover", "link": "imu_link"},
    ],
    "objects": [
        {"shape": {"kind": "box", "size_m": [0.5, 0.5, 1]}, "pose": {"xyz": [3, -3, 0.5]}, "material": "steel",
         "label": "machine", "mobility": "movable"},
    ],
    "actors": [
        {"shape": {"kind": "box", "size_m": [1, 1, 1]}, "label": "vessel", "material": "steel",
         "trajectory": {"spline": {"points": [[-6, 3, 0.5], [-6, -3, 0.5]]}}},
    ],
    "people": [
        {"name": "walker", "spline": {"points": [[3, 2, 0], [6, 2, 0]], "max_speed_m_s": 1.4}},
        {"name": "stander", "motion": {"fixed": {"xyz": [4, 3.5, 0]}}, "height_m": 1.6, "clothes": "fabric-red"},
        {"name": "steady", "motion": {"constant": {"xyz": [-3, -2, 0], "velocity_m_s": [1, 0, 0]}}},
    ],
    "traffic": [
        {"routes": [[[-20, -6, 0], [8, -6, 0], [8, -9, 0], [-20, -9, 0]]], "count": 2, "speed_m_s": 5, "seed": 3,
         "models": ["suv", "van"], "wheels": True},
    ],
    "pedestrians": [
        {"routes": [[[-5, 6, 0], [5, 6, 0], [5, 7, 0], [-5, 7, 0]]], "count": 2, "speed_m_s": 1.3, "side_m": 0.35},
    ],
    "machines": [
        {"kind": "forklift", "motion": {"fixed": {"xyz": [7, -2, 0], "rpy_deg": [0, 0, 180]}},
         "fork_height_m": [[0, 0.1], [0.3, 0.6]], "load": {"layers": 2, "seed": 1}, "paint": "car-paint-red"},
        {"kind": "car", "name": "parked", "motion": {"fixed": {"xyz": [-8, 0, 0]}}, "model": "hatchback"},
        {"kind": "door", "pose": {"xyz": [8, 3, 0], "rpy_deg": [0, 0, 90]}, "width_m": 1.0, "height_m": 2.1,
         "opening_deg": {"pairs": [[0, 0], [0.2, 60]], "repeat_s": 0.5}, "material": "wood", "frame": True},
        {"kind": "conveyor", "pose": {"xyz": [-4, 4, 0]}, "length_m": 2.0, "boxes": 3, "speed_m_s": 0.4,
         "width_m": 0.5, "height_m": 0.7, "seed": 9},
        {"kind": "robot-arm", "pose": {"xyz": [-4, 3, 0.5]},
         "joint_angles_deg": {"pairs": [[0, [0, -90, 0, -90, 0, 0]], [0.2, [90, -60, 30, -90, 0, 0]]], "repeat_s": 1}},
        {"kind": "pallet", "pose": {"xyz": [2, 4, 0]}, "layers": 2, "seed": 4},
    ],
    "scatter": [{"area_m": [-3, -5, 1, -3], "kinds": ["cup", "cone", "box"], "count": 4, "ground_m": 0.0, "seed": 2}],
}  # fmt: skip


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("living")
    ground = {"shape": {"kind": "plane", "size_m": [60, 60]}, "material": "concrete", "label": "road"}
    (place / "yard.yaml").write_text(yaml.safe_dump({"name": "yard", "objects": [ground]}))
    (place / "living.yaml").write_text(yaml.safe_dump(LIVING))
    write_rover(place)
    return place


def built(fields: dict[str, Any], folder: Path) -> Scenario:
    # A warning lists the materials that are guessed for the rover.
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return Scenario.from_mapping(fields, folder)


def named(world: ph.World, name: str) -> WorldObject:
    return next(item for item in world.objects if item.name == name)


# ---- what comes into the world ---------------------------------------------------------------------------------------


def test_everything_named_is_there_with_label_and_mobility(folder: Path) -> None:
    world = built(LIVING, folder).world
    found = {(item.label, mobility_of(world, item.instance)) for item in world.objects}
    assert found >= {
        ("machine", "movable"), ("vessel", "dynamic"), ("person", "dynamic"), ("car", "dynamic"), ("car", "movable"),
        ("forklift", "dynamic"), ("pallet", "movable"), ("door", "dynamic"), ("door", "static"),
        ("conveyor", "static"), ("box", "dynamic"), ("robot-arm", "dynamic"), ("robot", "dynamic"), ("road", "static"),
    }  # fmt: skip
    people = {item.instance for item in world.objects if item.label == "person"}
    assert len(people) == 3 + 2
    lying = [item for item in world.objects if item.label in ("cup", "cone") or item.name.startswith("box-")]
    assert len({item.instance for item in lying}) == 4


def test_machines_are_those_of_the_python_functions(folder: Path) -> None:
    world = built(LIVING, folder).world
    alone = ph.World()
    add_forklift(alone, ph.Pose((7, -2, 0), rpy_deg=(0, 0, 180)), [(0.0, 0.1), (0.3, 0.6)], paint="car-paint-red")
    times = np.array([0.0, 0.1, 0.22, 0.3])
    for item in alone.objects:
        other = named(world, item.name)
        assert item.trajectory is not None
        assert other.trajectory is not None
        for mine, theirs in zip(item.trajectory.sample(times), other.trajectory.sample(times), strict=True):
            np.testing.assert_allclose(mine, theirs, atol=1e-12)
        assert [part.material.name for part in item.parts] == [part.material.name for part in other.parts]


def test_a_load_rides_on_the_forks(folder: Path) -> None:
    world = built(LIVING, folder).world
    load, forks = named(world, "forklift-load/pallet"), named(world, "forklift/forks")
    for time in (0.0, 0.15, 0.3):
        low, _ = load.bounds(time)
        assert forks.trajectory is not None
        height = pose_at(forks.trajectory, time).xyz[2]
        assert low[2] == pytest.approx(height - 0.1, abs=1e-9)  # its deck lies on the forks, its foot 0.1 m lower
    assert load.bounds(0.0)[0][2] == pytest.approx(0.0, abs=1e-9)


def test_a_cycle_begins_anew(folder: Path) -> None:
    world = built(LIVING, folder).world
    leaf = named(world, "door/leaf")
    assert leaf.trajectory is not None

    def opening(time: float) -> float:
        assert leaf.trajectory is not None
        return float(pose_at(leaf.trajectory, time).rpy_deg[2] - 90.0)

    assert opening(0.2) == pytest.approx(60.0, abs=1e-9)
    assert opening(0.35) == pytest.approx(30.0, abs=1e-9)  # half of the way back
    for time in (0.05, 0.13, 0.31):
        assert opening(time + 1.5) == pytest.approx(opening(time), abs=1e-9)


def test_objects_that_a_procedural_world_calls_movable_get_boxes(tmp_path: Path) -> None:
    fields: dict[str, Any] = {
        "duration_s": 0.1, "boxes": "kitti", "world": {"name": "warehouse", "params": {"size_m": [20, 15]}},
        "sensors": [{"name": "eye", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 1.5]}}],
    }  # fmt: skip
    scenario = Scenario.from_mapping(fields, tmp_path)
    layout = dict(scenario.world.mobility)  # type: ignore[attr-defined]
    assert {mobility_of(scenario.world, instance) for instance in layout} == {"static", "movable"}
    scenario.run(tmp_path / "out")
    lines = (tmp_path / "out" / "eye-boxes" / "000000.txt").read_text().splitlines()
    assert len(lines) > 5


# ---- running ---------------------------------------------------------------------------------------------------------


def test_a_run_with_boxes_resumes_to_the_same_bytes_with_any_threads(folder: Path) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        scenario = Scenario.load(folder / "living.yaml")
    summary = scenario.run(folder / "whole")
    assert (summary.scans, summary.found) == (2, 0)
    whole = files_of(folder / "whole")
    manifest = json.loads(whole["manifest.json"])
    assert manifest["complete"]
    assert set(manifest["files"]) == set(whole) - {"manifest.json", "inputs.json"}
    assert manifest["scenario"]["machines"][2]["opening_deg"]["repeat_s"] == 0.5
    boxes = json.loads(whole["top-boxes/000001.json"])["results"]
    seen = {row["category_name"] for rows in boxes.values() for row in rows if row["num_lidar_pts"] > 0}
    assert {"human.pedestrian.adult", "vehicle.construction", "movable_object.pallet", "vehicle.car"} <= seen
    assert not {name for name in seen if "road" in name}

    with pytest.raises(Stop):
        built(LIVING, folder).run(folder / "threads-2", progress=stop_after(1))
    assert len(list((folder / "threads-2" / "top").glob("*.pcd"))) == 1
    for threads in ("1", "2"):  # the second goes on where it was stopped
        place = folder / f"threads-{threads}"
        command = [sys.executable, "-m", "parhelion", "run", str(folder / "living.yaml"), "-o", str(place)]
        environment = {**os.environ, "PARHELION_THREADS": threads}
        subprocess.run(command, env=environment, check=True, capture_output=True, timeout=120)
        assert files_of(place) == whole


def test_the_robots_links_do_not_block_its_own_lidar(folder: Path) -> None:
    scenario = built(LIVING, folder)
    scan = scenario.frame_sensors[0].measure(scenario.world, 0, 5)
    labels = {scan.names["label"][int(number)] for number in np.unique(scan.label) if number}
    assert {"road", "person", "robot"} <= labels  # its own arm is seen, its lidar's housing is not
    robot = scan.range[scan.label == next(n for n, name in scan.names["label"].items() if name == "robot")]
    assert robot.min() > 0.4
    assert np.mean(scan.range > 2.0) > 0.5


def test_a_robot_has_a_box_for_others_and_none_for_itself(folder: Path) -> None:
    fields = {key: LIVING[key] for key in ("seed", "world", "boxes", "outputs", "vehicles", "sensors")}
    eye = {"name": "eye", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [5, 5, 1]}}
    fields = {**fields, "duration_s": 0.1, "sensors": [*fields["sensors"], {**eye, "options": {"sub_rays": 1}}]}
    built(fields, folder).run(folder / "ego")
    message = {name: (folder / "ego" / f"{name}-boxes" / "000000.json").read_text() for name in ("top", "eye")}
    assert "dynamic_object.robot" in message["eye"]
    assert "dynamic_object.robot" not in message["top"]


def test_other_seeds_change_what_has_no_seed_of_its_own(folder: Path) -> None:
    one, two = built(LIVING, folder).world, built({**LIVING, "seed": 6}, folder).world
    changed = {
        a.name for a, b in zip(one.objects, two.objects, strict=True)
        if any(not np.array_equal(p.placed, q.placed) for p, q in zip(a.parts, b.parts, strict=True))
    }  # fmt: skip
    # All but the pedestrians have seeds of their own in this file.
    assert changed
    assert all(name.startswith("pedestrian") for name in changed)


# ---- what is wrong ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("field", "change", "words"),
    [
        ("machines", lambda m: m[0].update(fork_height_m=4), r"machines\[0\]\.fork_height_m"),
        ("machines", lambda m: m[0].update(fork_height_m=[[1, 0], [0, 1]]), "times must increase"),
        ("machines", lambda m: m[0].update(paint="car-paint-mauve"), r"machines\[0\]: .*car-paint"),
        ("machines", lambda m: m[1].update(modell="van"), "did you mean 'model'"),
        ("machines", lambda m: m[2].update(kind="gate"), r"machines\[2\]"),
        ("machines", lambda m: m[2].update(opening_deg=200), r"machines\[2\]\.opening_deg"),
        ("machines", lambda m: m[3].update(boxes=50), r"machines\[3\]: conveyor: boxes must be at most"),
        ("machines", lambda m: m[4].update(joint_angles_deg=[0, 0]), r"machines\[4\]\.joint_angles_deg"),
        ("machines", lambda m: m[5].update(motion={"fixed": {}}), "either pose or motion"),
        ("machines", lambda m: m[5].update(pose={"quat_xyzw": [0, 0, 0, 0]}), r"machines\[5\]\.pose"),
        (
            "machines",
            lambda m: m[0].update(motion={"recorded": {"file": "gone.tum"}}),
            r"machines\[0\]\.motion: .*gone",
        ),
        ("people", lambda p: p[0].update(motion={"fixed": {}}), r"people\[0\]: give either spline or motion"),
        ("people", lambda p: p[0]["spline"].update(points=[[0, 0, 0], [0, 0, 0]]), r"people\[0\]\.spline"),
        ("traffic", lambda t: t[0].update(count=500), r"traffic\[0\]: "),
        ("traffic", lambda t: t[0].update(models=["tank"]), r"traffic\[0\]\.models\[0\]"),
        ("scatter", lambda s: s[0].update(area_m=[1, 0, 0, 1]), r"scatter\[0\]: area_m"),
        ("scatter", lambda s: s[0].update(count=150), r"scatter\[0\]: scatter: no space"),
        ("vehicles", lambda v: v[0]["urdf"].update(file="gone.urdf"), r"vehicles\[0\]\.urdf: .*gone\.urdf"),
        ("vehicles", lambda v: v[0]["urdf"]["joints"].update(whel_joint=1), "did you mean 'wheel_joint'"),
        ("vehicles", lambda v: v[0].update(body={"mesh": "x.obj"}), "body or urdf, not both"),
        ("sensors", lambda s: s[0].update(link="velodine"), r"sensors\[0\]: .*did you mean 'velodyne'"),
        ("sensors", lambda s: s[0].update(link="arm"), r"sensors\[0\]: .*moves with joint 'arm_joint'"),
    ],
)
def test_wrong_values_are_reported_with_their_place(folder: Path, field: str, change: Any, words: str) -> None:
    fields = copy.deepcopy(LIVING)
    change(fields[field])
    with pytest.raises(ParhelionError, match=words) as error:
        built(fields, folder)
    assert "\n" not in str(error.value)


def places(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    inside = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [here, *(place for key, entry in inside for place in places(entry, (*here, key)))]


LIVES = ("objects", "actors", "people", "traffic", "pedestrians", "machines", "scatter")
ODD = [None, True, -1, 0, 1e30, float("nan"), "", "x", [], {}, [[1]], {"a": 1}, "../x", "door", 2**70, [0, 0, 0], "\0"]


@settings(
    max_examples=120, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    place=st.sampled_from([place for place in places(LIVING) if place and place[0] in (*LIVES, "vehicles", "sensors")]),
    action=st.sampled_from(["set", "drop", "rename"]),
    value=st.sampled_from(ODD),
)
def test_any_change_gives_a_scenario_or_the_place_of_what_is_wrong(
    folder: Path, place: tuple[Any, ...], action: str, value: Any
) -> None:
    fields = copy.deepcopy(LIVING)
    for other in LIVES:  # one kind at a time, to be quick
        if other != place[0]:
            del fields[other]
    if place[0] in LIVES:
        del fields["vehicles"]
        fields["sensors"] = [{"name": "imu", "type": "barometer", "model": "bosch/bmp388"}]
    inner: Any = fields
    for key in place[:-1]:
        inner = inner[key]
    if action == "set":
        inner[place[-1]] = value
    elif action == "drop":
        del inner[place[-1]]
    elif isinstance(inner, dict):
        inner[f"{place[-1]}x"] = inner.pop(place[-1])
    try:
        built(fields, folder)
    except ParhelionError as error:
        message = str(error)
    else:
        return
    assert "\n" not in message
    # Vehicles and sensors refer to each other, so a problem of one may be reported for the other.
    if place[0] in ("vehicles", "sensors"):
        assert "vehicles" in message or "sensors" in message
    else:
        assert place[0] in message
        assert len(place) < 2 or action != "set" or f"{place[0]}[{place[1]}]" in message


def test_the_schema_for_editors_knows_the_short_forms(folder: Path) -> None:
    import jsonschema

    schema = json_schema()
    jsonschema.validate(LIVING, schema)
    short = copy.deepcopy(LIVING)
    short["vehicles"][0]["urdf"] = "rover.urdf"
    short["machines"][0]["fork_height_m"] = 0.3
    short["machines"][4]["joint_angles_deg"] = [0, 0, 0, 0, 0, 0]
    jsonschema.validate(short, schema)
    short["machines"][0]["fork_height_m"] = "high"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(short, schema)
