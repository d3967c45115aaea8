"""Whole scans: what the physics costs on top of bare casts, what adaptive sampling saves, what moving bodies cost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tables import Goal, Table
from timing import ratio, take_turns
from workloads import OS1, VLP, Settings, bare_cast, city, poses_along, sub_rays_of_scan

import parhelion as ph
from parhelion.sensors.lidar.presets import load_preset

_SUB_RAYS = (1, 5, 25)
_COST_GOAL = {(VLP, 25): Goal("at most", 1.15, "×")}
_SPEED_GOALS = {5: Goal("at least", 1.9, " M"), 25: Goal("at least", 1.0, " M")}
_RANGE_M, _POWER = 1e-3, 0.01


def _scanner(lidar: ph.Lidar, world: ph.World) -> Callable[[], ph.Scan]:
    """Scans of the world, each of another seed and at a later time, as a simulation asks for them."""
    number = count()

    def run() -> ph.Scan:
        frame = next(number)
        return lidar.scan(world, time=0.1 * frame, seed=frame)

    return run


def cost_tables(settings: Settings) -> Iterator[Table]:
    """Scans with everything in them against the bare casts of the same rays."""
    for sensor in (VLP, OS1):
        yield _cost(settings, sensor)


def _cost(settings: Settings, sensor: str) -> Table:
    table = Table(
        "scans",
        f"Full-physics scans of {sensor} in the city, with noise",
        ["sub-rays", "sampling", "bounces", "casts a beam", "ms a scan", "M beams/s", "goal M beams/s",
         "against bare casts", "goal against bare"],
        notes=[
            "A scan is all of Lidar.scan, NumPy record included. Bare casts are those of all sub-rays (nearest triangle "
            "only, rays in memory), whatever the sampling; paths over mirrors and through glass are not in them."
        ],
    )  # fmt: skip
    world = city()
    for sub_rays in _SUB_RAYS[1:] if settings.quick else _SUB_RAYS:
        lidars = {("fixed", 0): None, ("fixed", 2): None, ("adaptive", 2): None} if sub_rays > 9 else {("fixed", 2): None}
        runs: dict[Any, Callable[[], Any]] = {}
        for sampling, bounces in lidars:
            lidar = ph.Lidar(sensor, sub_rays=sub_rays, sampling=sampling, bounces=bounces)  # type: ignore[arg-type]
            runs[sampling, bounces] = _scanner(lidar, world)
        scene, origin, direction = sub_rays_of_scan(lidar, world, seed=0)
        runs["bare"] = bare_cast(scene, origin, direction, lidar.config.range.max_m)
        times = take_turns(runs, rounds=settings.rounds(15), most_seconds=settings.most_seconds)
        beams = len(lidar.shots())
        for sampling, bounces in lidars:
            best, against = times[sampling, bounces].best, ratio(times[sampling, bounces], times["bare"])
            speed = beams / best / 1e6
            cost_goal = _COST_GOAL.get((sensor, sub_rays)) if sampling == "fixed" else None
            speed_goal = _SPEED_GOALS.get(sub_rays) if sampling == "adaptive" or sub_rays <= 9 else None
            table.add(
                {
                    "sub-rays": sub_rays,
                    "sampling": sampling,
                    "bounces": bounces,
                    "casts a beam": runs[sampling, bounces]().metadata["casts_per_beam"],
                    "ms a scan": 1e3 * best,
                    "M beams/s": speed,
                    "goal M beams/s": speed_goal.verdict(speed) if speed_goal else None,
                    "against bare casts": against,
                    "goal against bare": cost_goal.verdict(against.best) if cost_goal else None,
                }
            )
    return table
