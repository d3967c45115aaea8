"""Whole scans against the bare casts of the same rays: what the physics costs."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Literal

from tables import Goal, Table
from timing import ratio, take_turns
from workloads import OS1, VLP, Settings, bare_cast, city, sub_rays_of_scan

import parhelion as ph

Way = tuple[Literal["fixed", "adaptive"], int]
"""Sampling and bounces."""

_COST_GOALS = {(VLP, 25): Goal("at most", 1.15, "×")}
_SPEED_GOALS = {(5, "fixed"): Goal("at least", 1.9, " M"), (25, "adaptive"): Goal("at least", 1.0, " M")}
_WAYS: dict[int, list[Way]] = {
    1: [("fixed", 2)],
    5: [("fixed", 2)],
    25: [("fixed", 0), ("fixed", 2), ("adaptive", 2)],
}


def scanner(lidar: ph.Lidar, world: ph.World) -> Callable[[], ph.Scan]:
    """Scans of the world, each of another seed and at a later time, as a simulation asks for them."""
    number = count()

    def run() -> ph.Scan:
        frame = next(number)
        return lidar.scan(world, time=0.1 * frame, seed=frame)

    return run


def tables(settings: Settings) -> Iterator[Table]:
    """One table a sensor."""
    for sensor in (VLP, OS1):
        table = Table(
            "scans",
            f"Full-physics scans of {sensor} in the city, with noise",
            ["sub-rays", "sampling", "bounces", "casts a beam", "ms a scan", "M beams/s", "goal for speed",
             "time against bare casts", "goal for cost", "against casts ray by ray"],
            notes=[
                "A scan is all of Lidar.scan, NumPy record included. The bare casts are those of all sub-rays, "
                "whatever the sampling: nearest triangle only, rays in memory; paths that bounce are not in them. "
                "They are cast in packets, as the scan casts; ray by ray is Mitsuba's default, and how the table of "
                "engines casts."
            ],
        )  # fmt: skip
        for sub_rays in (5, 25) if settings.quick else (1, 5, 25):
            _measure(settings, table, sensor, sub_rays)
        yield table


def _measure(settings: Settings, table: Table, sensor: str, sub_rays: int) -> None:
    world = city()
    runs: dict[str, Callable[[], Any]] = {}
    lidar = ph.Lidar(sensor, sub_rays=sub_rays)
    for sampling, bounces in _WAYS[sub_rays]:
        lidar = ph.Lidar(sensor, sub_rays=sub_rays, sampling=sampling, bounces=bounces)
        runs[f"{sampling} {bounces}"] = scanner(lidar, world)
    rays = sub_rays_of_scan(lidar, world, seed=0)
    runs["bare"] = bare_cast(*rays, lidar.config.range.max_m)
    runs["ray by ray"] = bare_cast(*rays, lidar.config.range.max_m, packets=False)
    times = take_turns(runs, rounds=settings.rounds(15), most_seconds=settings.most_seconds)
    for sampling, bounces in _WAYS[sub_rays]:
        name = f"{sampling} {bounces}"
        against = ratio(times[name], times["bare"])
        speed = len(lidar.shots()) / times[name].best / 1e6
        cost_goal = _COST_GOALS.get((sensor, sub_rays))
        speed_goal = _SPEED_GOALS.get((sub_rays, sampling))
        table.add(
            {
                "sub-rays": sub_rays,
                "sampling": sampling,
                "bounces": bounces,
                "casts a beam": runs[name]().metadata["casts_per_beam"],
                "ms a scan": 1e3 * times[name].best,
                "M beams/s": speed,
                "goal for speed": speed_goal.verdict(speed) if speed_goal else None,
                "against casts ray by ray": ratio(times[name], times["ray by ray"]),
                "time against bare casts": against,
                "goal for cost": cost_goal.verdict(against) if cost_goal else None,
            }
        )
