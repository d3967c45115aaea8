"""Reacting actors in scenarios: the same bits in every order, kernels that stay, rails on request."""

from __future__ import annotations

import copy
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ParhelionError
from parhelion.core.trajectory import pose_at
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors import pedestrians, traffic
from parhelion.rays.device import engine
from parhelion.scenario import Scenario

WALK = [[-6, -3, 0], [6, -3, 0], [6, 3, 0], [-6, 3, 0]]
ROAD = [[-20, -8, 0], [20, -8, 0], [20, -12, 0], [-20, -12, 0]]
YARD: dict[str, Any] = {
    "seed": 5,
    "duration_s": 0.4,
    "world": "cuboids",
    "outputs": [],
    "report": False,
    "vehicles": [
        {"name": "rover", "model": "clearpath/husky", "follow": {"points": [[5, 0, 0]], "speed_m_s": 0.9},
         "body": {"shape": {"kind": "box", "size_m": [1, 0.7, 0.6]}, "pose": {"xyz": [0, 0, 0.4]}}},
    ],
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "vehicle": "rover", "mount": {"xyz": [0, 0, 1]},
         "options": {"sub_rays": 1}},
    ],
    "traffic": [{"routes": [ROAD], "count": 2, "speed_m_s": 5, "models": ["suv", "cyclist"], "wheels": True}],
    "pedestrians": [{"routes": [WALK], "count": 12, "speed_m_s": 1.3}],
}  # fmt: skip


def scans(scenario: Scenario, **options: Any) -> dict[int, bytes]:
    return {
        number: scan.xyz.tobytes() + scan.label.tobytes()
        for step in scenario.walk(**options)
        for number, scan in step.frames.get("top", [])
    }


def test_frames_do_not_depend_on_order_repetition_or_choice() -> None:
    scenario = Scenario.from_mapping(YARD)
    first = scans(scenario)
    assert len(first) == 4
    assert scans(scenario) == first  # the same scenario once more
    some = scans(Scenario.from_mapping(YARD), wanted=lambda sensor, number: number in (1, 3))
    assert some == {number: first[number] for number in (1, 3)}
    # Frames of the past stay as they were measured.
    later = [scenario.frame_sensors[0].measure(scenario.world, number, 5) for number in range(4)]
    assert [scan.xyz.tobytes() + scan.label.tobytes() for scan in later] == list(first.values())
    words = {name for scan in later for name in (scan.names["label"][int(n)] for n in np.unique(scan.label))}
    assert "person" in words


def test_without_reaction_the_motions_are_those_of_the_rails() -> None:
    fields = copy.deepcopy(YARD)
    for entry in (*fields["traffic"], *fields["pedestrians"]):
        entry["react"] = False
    scenario = Scenario.from_mapping(fields)
    alone = ph.World()
    lanes = [SplineMotion(route, limits=MotionLimits(speed * 1.2, 2.0, 2.5), closed=True)
             for route, speed in ((ROAD, 5.0), (WALK, 1.3))]  # fmt: skip
    traffic(alone, lanes[:1], 2, 5, 5, duration_s=1.4, models=["suv", "cyclist"], wheels=True)
    pedestrians(alone, lanes[1:], 12, 5, 1.3, duration_s=1.4)
    known = {item.name: item.trajectory for item in scenario.world.objects}
    times = np.linspace(0.0, 0.4, 9)
    for item in alone.objects:
        mine, theirs = item.trajectory, known[item.name]
        assert mine is not None
        assert theirs is not None
        for a, b in zip(mine.sample(times), theirs.sample(times), strict=True):
            assert a.tobytes() == b.tobytes()
    reacting = {item.name: item.trajectory for item in Scenario.from_mapping(YARD).world.objects}
    torso = reacting["pedestrian-0/torso"]
    assert torso is not None
    assert not np.array_equal(torso.sample(times)[0], known["pedestrian-0/torso"].sample(times)[0])  # type: ignore[union-attr]


def test_twenty_reacting_people_compile_no_kernel_per_frame() -> None:
    dr = engine().dr
    fields = copy.deepcopy(YARD)
    fields["pedestrians"][0]["count"] = 20
    scenario = Scenario.from_mapping(fields)
    kernels: list[set[Any]] = []
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history()
        for step in scenario.walk():
            if step.frames:
                kernels.append({one["hash"] for one in dr.kernel_history() if one["type"] == dr.KernelType.JIT})
    assert len(kernels) == 4
    known = kernels[0] | kernels[1]
    assert all(later <= known for later in kernels[2:])


def test_a_car_stops_for_a_vehicle_that_stands_in_its_lane() -> None:
    path = {"spline": {"points": [[-60, 0, 0], [60, 0, 0]], "max_speed_m_s": 8}}
    fields: dict[str, Any] = {
        "duration_s": 20.0, "step_s": 0.05, "world": "cuboids", "outputs": [], "report": False,
        "vehicles": [
            {"name": "rover", "model": "clearpath/husky", "start": {"xyz": [0, 0, 0]}, "dynamics": "kinematic"}
        ],
        "sensors": [{"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "rover"}],
        "machines": [{"kind": "car", "motion": path, "react": True}],
    }  # fmt: skip
    scenario = Scenario.from_mapping(fields)
    for _ in scenario.walk(batch_s=20.0):
        pass
    car = next(one.trajectory for one in scenario.world.objects if one.name == "car/body")
    assert car is not None
    # The footprint of a robot without a body is 1 m long; the gap at standstill is 2 m.
    front = pose_at(car, 20.0).xyz[0] + 4.62 / 2
    assert front == pytest.approx(-2.5, abs=0.5)


def test_a_person_with_a_path_reacts_on_request() -> None:
    fields: dict[str, Any] = {
        "duration_s": 6.0, "step_s": 0.05, "world": "cuboids", "outputs": [], "report": False,
        "vehicles": [
            {"name": "rover", "model": "clearpath/husky", "start": {"xyz": [0, 0, 0]}, "dynamics": "kinematic"}
        ],
        "sensors": [{"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "rover"}],
        "people": [
            {"name": name, "react": reacts, "spline": {"points": [[-3.5, 0, 0], [3.5, 0, 0]], "max_speed_m_s": 1.4}}
            for name, reacts in (("polite", True), ("ghost", False))
        ],
    }  # fmt: skip
    scenario = Scenario.from_mapping(fields)
    for _ in scenario.walk(batch_s=10.0):
        pass
    times = np.linspace(0.0, 6.0, 121)
    nearest = {}
    for name in ("polite", "ghost"):
        motion = next(one.trajectory for one in scenario.world.objects if one.name == f"{name}/torso")
        assert motion is not None
        away = np.maximum(np.abs(motion.sample(times)[0][:, :2]) - [0.15, 0.0], 0.0)
        nearest[name] = float(np.min(np.linalg.norm(away, axis=1)))
    assert nearest["polite"] > 0.35 + 0.2
    assert nearest["ghost"] < 0.05


def test_wrong_models_are_reported_with_their_place() -> None:
    fields = copy.deepcopy(YARD)
    fields["traffic"][0]["models"] = ["cyclists"]
    with pytest.raises(ParhelionError, match=r"traffic\[0\]\.models\[0\]") as error:
        Scenario.from_mapping(fields)
    assert "\n" not in str(error.value)
