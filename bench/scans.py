"""Complete scans against bare casts of the same rays: cost of the physics."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any, Literal

from tables import Goal, Table
from timing import ratio, take_turns
from workloads import OS1, VLP, Settings, bare_cast, city, sub_rays_of_scan

import parhelion as ph

Way = tuple[Literal["fixed", "adaptive"], int, int]
"""Sampling, bounces, and number of scans per call."""

# The goals are for the default scans, with adaptive sampling; scans with all sub-rays are shown for comparison.
_COST_GOALS = {(VLP, 25, "adaptive"): Goal("at most", 1.15, "×")}
_SPEED_GOALS = {(5, "fixed"): Goal("at least", 1.9, " M"), (25, "adaptive"): Goal("at least", 1.0, " M")}
_WAYS: dict[int, list[Way]] = {
    1: [("fixed", 2, 1)],
    5: [("fixed", 2, 1)],
    25: [("fixed", 0, 1), ("fixed", 2, 1), ("adaptive", 2, 1), ("adaptive", 2, 8)],
}


def scanner(lidar: ph.Lidar, world: ph.World, together: int = 1) -> Callable[[], ph.Scan]:
    """Scan the world with successive seeds and times, as a simulation does; return the last scan."""
    number = count()

    def run() -> ph.Scan:
        frame = next(number)
        if together == 1:
            return lidar.scan(world, time=0.1 * frame, seed=frame)
        times = [0.1 * (frame + k) for k in range(together)]
        return lidar.scan_many(world, [world.viewpoint] * together, time=times, seed=frame)[-1]

    return run


def tables(settings: Settings) -> Iterator[Table]:
    """One table per sensor."""
    for sensor in (VLP, OS1):
        table = Table(
            "scans",
            f"Full-physics scans of {sensor} in the city, with noise",
            ["sub-rays", "sampling", "bounces", "together", "casts per beam", "ms per scan", "M beams/s",
             "goal for speed", "time against bare casts", "after other work", "goal for cost",
             "against casts ray by ray"],
            notes=[
                "A scan is all of Lidar.scan, NumPy record included. The bare casts are those of all sub-rays, "
                "whatever the sampling: nearest triangle only, rays in memory; paths that bounce are not in them. "
                "They are cast in packets, as the scan casts; ray by ray is Mitsuba's default, and how the table of "
                "engines casts. Together: scans of one call of scan_many; the time is that of one. After other work: "
                "the first of two runs in a row, scan and casts alike, which finds the caches cold. Goals are for "
                "adaptive sampling, the default, against the casts of all 25 sub-rays, and for the worse of the two; "
                "with 5, all are traced."
            ],
        )  # fmt: skip
        for sub_rays in (5, 25) if settings.quick else (1, 5, 25):
            _measure(settings, table, sensor, sub_rays)
        yield table


def _measure(settings: Settings, table: Table, sensor: str, sub_rays: int) -> None:
    world = city()
    runs: dict[str, Callable[[], Any]] = {}
    lidar = ph.Lidar(sensor, sub_rays=sub_rays)
    for way in _WAYS[sub_rays]:
        sampling, bounces, together = way
        lidar = ph.Lidar(sensor, sub_rays=sub_rays, sampling=sampling, bounces=bounces)
        runs[str(way)] = scanner(lidar, world, together)
    rays = sub_rays_of_scan(lidar, world, seed=0)
    runs["bare"] = bare_cast(*rays, lidar.config.range.max_m)
    runs["ray by ray"] = bare_cast(*rays, lidar.config.range.max_m, packets=False)
    times = take_turns(runs, rounds=settings.rounds(40), most_seconds=settings.most_seconds)
    for way in _WAYS[sub_rays]:
        sampling, bounces, together = way
        taken = times[str(way)].shared(together)
        against, after_others = ratio(taken, times["bare"]), ratio(taken.cold, times["bare"].cold)
        worse = max(against, after_others, key=lambda one: one.middle)
        speed = len(lidar.shots()) / taken.best / 1e6
        cost_goal = _COST_GOALS.get((sensor, sub_rays, sampling))
        speed_goal = _SPEED_GOALS.get((sub_rays, sampling))
        table.add(
            {
                "sub-rays": sub_rays,
                "sampling": sampling,
                "bounces": bounces,
                "together": together,
                "casts per beam": runs[str(way)]().metadata["casts_per_beam"],
                "ms per scan": 1e3 * taken.best,
                "M beams/s": speed,
                "goal for speed": speed_goal.verdict(speed) if speed_goal else None,
                "against casts ray by ray": ratio(taken, times["ray by ray"]),
                "time against bare casts": against,
                "after other work": after_others,
                "goal for cost": cost_goal.verdict(worse) if cost_goal else None,
            }
        )
