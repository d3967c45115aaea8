"""The missions in `examples/missions/`, shortened: the robots reach their goals around obstacles."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import gymnasium
import numpy as np

from parhelion.gym.env import map_picture

ROCK = (-21.11, 1.92)
"""A boulder of 1 m in the world of the off-road mission, without others near it."""
MISSIONS = Path(__file__).resolve().parents[2] / "examples" / "missions"


def mission(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(f"mission_{name}", MISSIONS / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_missions_are_those_that_are_checked() -> None:
    assert {file.stem for file in MISSIONS.glob("*.py")} == {"warehouse", "off_road"}


def test_the_warehouse_robot_drives_around_shelves(tmp_path: Path) -> None:
    warehouse = mission("warehouse")
    env = gymnasium.make("parhelion/Warehouse-v0", duration_s=40.0)
    # A row of shelves stands between start and goal.
    options = {"start": (6.0, 6.0, -90.0), "goal": (7.0, 1.0)}
    env.reset(seed=3, options=options)
    ended = collided = False
    while not ended:
        *_, terminated, truncated, info = env.step(np.array([1.0, 0.0], np.float32))
        ended, collided = terminated or truncated, bool(info["collision"])
    assert collided
    result = warehouse.drive(env, 3, options)
    assert result["reached"], result
    assert result["collision"] == ""
    assert result["length_m"] > 1.2 * result["straight_m"]
    space, path = env.unwrapped.free_space, env.unwrapped.path  # type: ignore[attr-defined]
    map_picture(space, path, goal=env.unwrapped.goal, file=tmp_path / "map.png")  # type: ignore[attr-defined]
    assert (tmp_path / "map.png").stat().st_size > 1000


def test_the_off_road_robot_drives_around_a_rock() -> None:
    off_road = mission("off_road")
    x, y = ROCK
    env = off_road.environment(goal=(x + 3.5, y), duration_s=25.0)
    start = (x - 3.5, y, 0.0)
    env.reset(seed=2, options={"start": start})
    ended = collided = False
    while not ended:
        *_, terminated, truncated, info = env.step(np.array([1.0, 0.0], np.float32))
        ended, collided = terminated or truncated, bool(info["collision"])
    assert collided
    result = off_road.drive(env, 2, start)
    assert result["reached"], result
    assert result["collision"] == ""
    assert not result["fell"]
    aside = np.abs(np.array(env.path)[:, 1] - y).max()
    assert aside > 0.6
    assert 5.0 < result["length_m"] < 12.0
