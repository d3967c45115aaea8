"""Gymnasium environments: the contract of Gymnasium, reproducible episodes, every kind of sensor, processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.gym import DYNAMICS, WAREHOUSE, Outcome, ScenarioEnv
from parhelion.rays.scene import RayScene

OWN_KINDS = list(ph.sensors())
HALL = {**WAREHOUSE, "world": {"name": "warehouse", "params": {"size_m": [20, 14]}}}
"""A small warehouse."""
LINE = {"scan": {"model": "sick/lms-111"}}
"""A lidar of one ring, which is cheap."""
NOT_NORMALISED = "ignore:.*symmetric and normalized space.*"
"""Actions are in the units of the data sheet; `gymnasium.wrappers.RescaleAction` scales them."""


@pytest.fixture(scope="module")
def hall() -> ScenarioEnv:
    return ScenarioEnv(HALL, sensors=LINE, duration_s=3.0)


def same(a: Any, b: Any) -> bool:
    if isinstance(a, dict):
        return a.keys() == b.keys() and all(same(a[key], b[key]) for key in a)
    return bool(np.array_equal(a, b))


def episode(env: ScenarioEnv, seed: int | None, steps: int = 4) -> list[Any]:
    found = [env.reset(seed=seed)]
    actions = np.random.Generator(np.random.Philox(key=5)).uniform(-0.5, 0.5, (steps, 2))
    return [*found, *(env.step(action) for action in actions)]


# ---- the contract ---------------------------------------------------------------------------------------------------


@pytest.mark.filterwarnings(NOT_NORMALISED)
def test_a_registered_environment_passes_the_check_of_gymnasium() -> None:
    env = gymnasium.make("parhelion/Warehouse-v0", sensors=["lidar", "xsens/mti-3"], render_mode="rgb_array")
    assert set(env.observation_space.spaces) == {"lidar", "imu", "goal"}  # type: ignore[attr-defined]
    assert env.observation_space["lidar"].shape == (16, 360)  # type: ignore[index]
    assert env.observation_space["imu"].shape == (10, 6)  # type: ignore[index]
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=1)
    picture = env.render()
    assert picture is not None
    assert picture.shape == (563, 900, 3)  # type: ignore[union-attr]


def test_all_names_are_registered() -> None:
    names = {name for name in gymnasium.registry if name.startswith("parhelion/")}
    assert names == {"parhelion/Warehouse-v0", "parhelion/City-v0", "parhelion/OffRoad-v0"}


# ---- episodes -------------------------------------------------------------------------------------------------------


def test_the_same_seed_gives_the_same_bits(hall: ScenarioEnv) -> None:
    first = episode(hall, 11)
    following = episode(hall, None)
    other = ScenarioEnv(HALL, sensors=LINE, duration_s=3.0)
    for env in (hall, other):
        for expected, found in zip([*first, *following], [*episode(env, 11), *episode(env, None)], strict=True):
            assert same(expected[0], found[0])
            assert expected[1:-1] == found[1:-1]
            assert same(expected[-1], found[-1])
    assert not same(first[0][1]["xyz"], following[0][1]["xyz"])
    assert not same(first[0][1]["xyz"], episode(hall, 12)[0][1]["xyz"])


def test_starts_and_goals_are_free_and_as_far_as_asked() -> None:
    env = ScenarioEnv(HALL, sensors=LINE, goal_distance_m=(3.0, 5.0))
    for seed in range(5):
        _, info = env.reset(seed=seed)
        assert 3.0 <= info["distance_m"] <= 5.1
        assert env.goal is not None
        for place in (info["xyz"], env.goal):
            assert env.free_space.clearance_at(*place[:2]) > 0.6


def test_a_reset_builds_no_scene_and_no_kernel(hall: ScenarioEnv, monkeypatch: pytest.MonkeyPatch) -> None:
    import drjit as dr

    episode(hall, 1)
    version = hall.scenario.world.version
    monkeypatch.setattr(RayScene, "__init__", lambda *args, **options: pytest.fail("a ray scene was built"))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory):
        dr.kernel_history_clear()
        episode(hall, 2)
        history = dr.kernel_history((dr.KernelType.JIT,))
    assert len(history) > 5
    assert all(one["cache_hit"] for one in history)
    assert hall.scenario.world.version == version


def test_driving_into_a_wall_ends_the_episode(hall: ScenarioEnv) -> None:
    observation, _ = hall.reset(seed=1, options={"start": (8.5, 0.0, 0.0), "goal": (-8.0, 0.0)})
    assert observation["goal"].tolist() == pytest.approx([-16.5, 0.0], abs=0.05)
    for _ in range(29):
        _, reward, terminated, truncated, info = hall.step(np.array([1.0, 0.0]))
        if terminated:
            break
        assert reward < 0.0  # away from the goal
    assert terminated
    assert not truncated
    assert info["collision"]
    assert reward < -9.0
    assert not info["reached"]


def test_the_goal_ends_the_episode_with_a_reward(hall: ScenarioEnv) -> None:
    hall.reset(seed=1, options={"start": (8.0, 0.0, 90.0), "goal": (8.0, 1.5)})
    total = 0.0
    for _ in range(29):
        observation, reward, terminated, _, info = hall.step(np.array([1.0, 0.0]))
        total += reward
        if terminated:
            break
    assert info["reached"]
    assert info["distance_m"] <= 0.5
    assert observation["goal"][0] == pytest.approx(info["distance_m"], abs=0.05)
    assert total == pytest.approx(10.0 + 1.5 - info["distance_m"], abs=0.5)


def test_time_truncates_an_episode_and_a_step_after_it_is_an_error(hall: ScenarioEnv) -> None:
    hall.reset(seed=1)
    ends = [hall.step(np.zeros(2))[2:4] for _ in range(30)]
    assert ends == [(False, False)] * 29 + [(False, True)]
    with pytest.raises(ConfigError, match="the episode has ended; call reset first"):
        hall.step(np.zeros(2))


def test_reward_and_end_are_functions_of_the_outcome() -> None:
    seen: list[Outcome] = []

    def reward(outcome: Outcome) -> float:
        seen.append(outcome)
        return outcome.travelled_m

    env = ScenarioEnv(HALL, sensors=LINE, goal=None, reward=reward, terminated=lambda outcome: outcome.time > 0.25)
    assert "goal" not in env.observation_space.spaces  # type: ignore[attr-defined]
    env.reset(seed=4, options={"start": (8.0, 0.0, 90.0)})
    found = [env.step(np.array([-0.5, 0.0]))[1:3] for _ in range(3)]
    assert [end for _, end in found] == [False, False, True]
    assert found[-1][0] == pytest.approx(-0.05, abs=0.01)
    assert [outcome.command for outcome in seen] == [ph.DriveCommand(-0.5, 0.0)] * 3
    assert len(seen[-1].records["scan"]) > 100


# ---- sensors and vehicles -------------------------------------------------------------------------------------------

SMALL = {
    "lidar": {"model": "sick/lms-111"},
    "camera": {"model": "flir/lepton-3.5"},
    "gnss": {"model": "generic/phone-2016"},
    "thermometer": {"model": "toy/pt100"},
}
"""Presets that are cheap to measure; otherwise the first preset of the kind."""


@pytest.mark.usefixtures("user_package")
def test_every_kind_of_sensor_can_be_observed() -> None:
    names = [*OWN_KINDS, "thermometer"]
    sensors = {name: {"type": name, "model": ph.presets(name)[0], **SMALL.get(name, {})} for name in names}
    env = ScenarioEnv(HALL, sensors=sensors, start="scenario", goal=None)
    observation, _ = env.reset(seed=2)
    later = env.step(np.array([0.5, 0.2]))[0]
    assert list(observation) == names
    for name in names:
        space = env.observation_space[name]  # type: ignore[index]
        assert space.contains(observation[name]), name
        assert space.contains(later[name]), name
    changed = {name for name in names if not same(observation[name], later[name])}
    assert changed >= {"lidar", "imu", "odometry", "thermometer"}


@pytest.mark.parametrize(
    ("model", "world", "size"), [("asctec/hummingbird", "cuboids", 4), ("dlr/aurora", "harbour", 2)]
)
def test_vehicles_off_the_ground_start_where_the_scenario_says(
    model: str, world: str, size: int, tmp_path: Path
) -> None:
    fields = f"""
duration_s: 1
world: {world}
vehicles: [{{name: it, model: {model}, start: {{xyz: [1, 2, 3]}}}}]
sensors: [{{name: imu, type: imu, model: xsens/mti-3, vehicle: it, rate_hz: 100}}]
"""
    (tmp_path / "own.yaml").write_text(fields)
    env = ScenarioEnv(tmp_path / "own.yaml", goal=(30.0, 2.0))
    assert env.action_space.shape[0] >= size  # type: ignore[index]
    _, info = env.reset(seed=1)
    assert info["xyz"][:2].tolist() == pytest.approx([1.0, 2.0], abs=0.1)
    action = np.zeros(env.action_space.shape)  # type: ignore[arg-type]
    action[:2] = [5.0, 0.0] if size == 4 else 50.0
    for _ in range(10):
        _, _, terminated, truncated, later = env.step(action)
    assert later["distance_m"] < info["distance_m"] < 30.0
    assert truncated
    assert not terminated


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"vehicle": "husky"}, "unknown scenario: vehicle 'husky'"),
        ({"period_s": 0.12}, r"period_s: must be a multiple of step_s \(0.05 s\)"),
        ({"sensors": "velodyne/vlp-16"}, "expected a list or a mapping"),
        ({"sensors": ["velodyne/vlp-17"]}, "unknown sensor 'velodyne/vlp-17'"),
        ({"sensors": []}, "give at least one sensor"),
        ({"sensors": {"a": {"model": "velodyne/vlp-16", "rate": 10}}}, "sensors: a: .*rate"),
        ({"render_mode": "human"}, "unknown render_mode 'human'"),
    ],
)
def test_wrong_arguments_are_reported(change: dict[str, Any], message: str) -> None:
    with pytest.raises(ConfigError, match=message):
        ScenarioEnv(HALL, **change)


def test_a_scenario_without_a_driven_vehicle_is_an_error() -> None:
    fields = {**HALL, "vehicles": [], "sensors": [{**HALL["sensors"][0], "vehicle": None}]}  # type: ignore[index,call-overload]
    with pytest.raises(ConfigError, match="needs a vehicle with a model to drive"):
        ScenarioEnv(fields)


def test_the_follower_of_the_agents_vehicle_is_ignored() -> None:
    vehicle = {"name": "robot", "model": "clearpath/husky", "dynamics": DYNAMICS, "start": {"xyz": [8, 0, 0]}}
    fields = {**HALL, "vehicles": [{**vehicle, "follow": {"points": [[8, 5, 0]]}}]}
    env = ScenarioEnv(fields, sensors=LINE, start="scenario", goal=None)
    env.reset(seed=1)
    _, _, _, _, info = env.step(np.zeros(2))
    assert info["xyz"].tolist() == pytest.approx([8.0, 0.0, 0.0], abs=0.01)


# ---- other processes ------------------------------------------------------------------------------------------------


def test_environments_run_in_processes(hall: ScenarioEnv) -> None:
    envs = gymnasium.make_vec(
        "parhelion/Warehouse-v0", num_envs=2, vectorization_mode="async", vector_kwargs={"context": "spawn"},
        scenario=HALL, sensors=LINE, duration_s=3.0,
    )  # fmt: skip
    try:
        observation, _ = envs.reset(seed=[3, 4])
        actions = np.array([[0.5, 0.1], [-0.5, 0.1]])
        for _ in range(2):
            observation, reward, *_ = envs.step(actions)
    finally:
        envs.close()
    assert reward.shape == (2,)
    for row, seed in enumerate((3, 4)):
        hall.reset(seed=seed)
        for _ in range(2):
            alone = hall.step(actions[row])
        assert same(alone[0]["scan"], observation["scan"][row])
        assert alone[1] == reward[row]


def test_without_gymnasium_the_error_names_the_package() -> None:
    script = "import sys; sys.modules['gymnasium'] = None; import parhelion.gym"
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=60)
    assert "MissingDependencyError: parhelion.gym needs gymnasium; run pip install 'parhelion[gym]'" in done.stderr
