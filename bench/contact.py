"""Vehicles in contact with built-in worlds, compared with real time."""

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
from parhelion.motion.vehicles.base import DriveCommand
from parhelion.motion.vehicles.library import vehicle
from parhelion.rays.device import engine

_DT = 0.01
_GOALS = {1: Goal("at least", 50.0, "×"), 30: Goal("at least", 3.0, "×")}


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
