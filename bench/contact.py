"""Vehicles in contact with built-in worlds, scenarios with them, and people who react, compared with real time."""

from __future__ import annotations

import time
import warnings
from collections.abc import Iterator

import numpy as np
from tables import Goal, Table
from workloads import Settings

import parhelion as ph
from parhelion.contact.driver import ContactDriver
from parhelion.core.errors import ConfigError
from parhelion.motion.actors.walkers import STEP_S, Capsules, Path, Walker, Walkers
from parhelion.motion.vehicles.base import DriveCommand
from parhelion.motion.vehicles.library import vehicle
from parhelion.outputs.run import BATCH_S
from parhelion.rays.device import engine
from parhelion.scenario.scenario import Scenario

_DT = 0.01
_GOALS = {1: Goal("at least", 50.0, "×"), 30: Goal("at least", 3.0, "×")}
_SCENARIO_GOAL, _CROWD_GOAL = Goal("at least", 0.9, "×"), Goal("at least", 15.0, "×")
_PLACES = {"warehouse": (0.0, 0.0), "city": (0.0, -3.0)}


def tables(settings: Settings) -> Iterator[Table]:
    """One row per world and number of vehicles."""
    table = Table(
        "contact",
        "Vehicles with hulls in contact, against real time",
        ["world", "vehicles", "simulated s", "times real time", "by processor time", "triangles near", "new kernels",
         "goal"],
        notes=["Husky robots at random free places, steps of 10 ms with four substeps. By processor time: of all "
               "threads of the process, which other programs disturb less. Triangles near: mean of the lists. New "
               "kernels: after the first step."],
    )  # fmt: skip
    for name in ("warehouse", "city"):
        world = ph.World.load(name)
        for count, goal in _GOALS.items():
            table.add({"world": name, "vehicles": count, **_row(world, count, goal, settings)})
    yield table
    yield _scenarios(settings)
    yield _crowd(settings)


def _scenarios(settings: Settings) -> Table:
    """A robot with sensors in contact, against the same on rails."""
    table = Table(
        "contact",
        "Scenarios with a robot in contact, against kinematic driving",
        ["world", "kinematic, times real time", "in contact", "ratio", "ratio by processor time", "goal"],
        notes=["Husky with VLP-16 (25 rays per beam), IMU and odometry. Both alternate; the best of their times."],
    )
    seconds = 1.0 if settings.quick else 5.0
    for name in _PLACES:
        best = {dynamics: [np.inf, np.inf] for dynamics in ("kinematic", "rays")}
        for _ in range(1 + settings.rounds(6)):
            for dynamics, known in best.items():
                known[:] = np.minimum(known, _driven(name, dynamics, seconds))
        wall, own = (best["kinematic"][k] / best["rays"][k] for k in range(2))
        table.add(
            {"world": name, "kinematic, times real time": seconds / best["kinematic"][0],
             "in contact": seconds / best["rays"][0], "ratio": wall, "ratio by processor time": own,
             "goal": _SCENARIO_GOAL.verdict(own)}
        )  # fmt: skip
    return table


def _driven(world: str, dynamics: str, seconds: float) -> tuple[float, float]:
    """Wall and processor time [s] of a scenario."""
    x, y = _PLACES[world]
    robot = {"name": "robot", "model": "clearpath/husky", "dynamics": dynamics, "start": {"xyz": [x, y, 0.0]},
             "follow": {"points": [[x + 6.0, y, 0.0]], "speed_m_s": 0.8}}  # fmt: skip
    sensors = [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0.0, 0.0, 0.8]},
         "options": {"sub_rays": 25}},
        {"name": "imu", "type": "imu", "model": "xsens/mti-3"},
        {"name": "wheels", "type": "odometry", "model": "clearpath/husky"},
    ]  # fmt: skip
    scenario = Scenario.from_mapping(
        {"seed": 3, "duration_s": seconds, "world": world, "vehicles": [robot],
         "sensors": [{**one, "vehicle": "robot"} for one in sensors]}
    )  # fmt: skip
    wall, own = time.perf_counter(), time.process_time()
    for step in scenario.walk(batch_s=BATCH_S):
        step.new_samples()
    return time.perf_counter() - wall, time.process_time() - own


def _crowd(settings: Settings) -> Table:
    """People on random closed ways through a square of 20 m."""
    table = Table(
        "contact",
        "People who avoid each other, against real time",
        ["people", "times real time", "by processor time", "goal"],
    )
    rng, walkers, count = np.random.default_rng(3), Walkers(3), 200
    for number in range(count):
        corners = rng.uniform(0.0, 20.0, (4, 2))
        corners[0] = (np.array(divmod(number, 15)) + 0.5) * 20.0 / 15.0
        legs = [np.linspace(a, b, 40, endpoint=False) for a, b in zip(corners, np.roll(corners, -1, 0), strict=True)]
        points = np.pad(np.concatenate(legs), ((0, 0), (0, 1)))
        walkers.add(Walker(Path(points, closed=True), 0.0, float(1.34 * rng.uniform(0.85, 1.15)), 1.75))
    walkers.begin(ph.World())
    nobody = Capsules(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros((0, 2)))
    best, processor, steps = 0.0, 0.0, 60
    for _ in range(1 + settings.rounds(6)):
        wall, own = time.perf_counter(), time.process_time()
        for _ in range(steps):
            walkers.step(nobody)
        best = max(best, steps * STEP_S / (time.perf_counter() - wall))
        processor = max(processor, steps * STEP_S / (time.process_time() - own))
    table.add(
        {"people": count, "times real time": best, "by processor time": processor,
         "goal": _CROWD_GOAL.verdict(processor)}
    )  # fmt: skip
    return table


def _placed(world: ph.World, count: int) -> ContactDriver:
    """Vehicles at random free places on the ground."""
    driver, rng = ContactDriver(world), np.random.default_rng(1)
    low, high = world.bounds  # type: ignore[misc]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        while len(driver.rows()) < count:
            x, y = 0.9 * rng.uniform(low[:2], high[:2])
            try:
                driver.add(f"v{len(driver.rows())}", vehicle("clearpath/husky"), ph.Pose((x, y, 0.1)))
            except ConfigError:
                continue
    return driver


def _row(world: ph.World, count: int, goal: Goal, settings: Settings) -> dict[str, object]:
    dr, driver = engine().dr, _placed(world, count)
    commands = [DriveCommand(0.8, 0.1 * (k % 3 - 1)) for k in range(len(driver.rows()))]
    for _ in range(5):
        driver.step(commands, _DT)
    seconds = 1.0 if settings.quick else 4.0
    best, processor, near = 0.0, 0.0, []
    for _ in range(settings.rounds(4)):
        wall, own = time.perf_counter(), time.process_time()
        for _ in range(round(seconds / _DT)):
            driver.step(commands, _DT)
        best = max(best, seconds / (time.perf_counter() - wall))
        processor = max(processor, seconds / (time.process_time() - own))
        near.append(np.mean([len(rows) for rows in driver._lists.rows]))
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        dr.kernel_history()
        for _ in range(20):
            driver.step(commands, _DT)
        new = sum(not one["cache_hit"] for one in dr.kernel_history() if one["type"] == dr.KernelType.JIT)
    return {
        "simulated s": seconds, "times real time": best, "by processor time": processor,
        "triangles near": float(np.mean(near)), "new kernels": new, "goal": goal.verdict(best),
    }  # fmt: skip
