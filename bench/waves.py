"""Radio and sound in the city: one measurement of GNSS, UWB, radar and sonar, against the time limit of each."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
from tables import Goal, Table
from timing import take_turns
from workloads import Settings, city

import parhelion as ph
from parhelion.core.trajectory import Trajectory

_ANCHORS = 8
_SYSTEMS = ("gps", "galileo", "beidou")
"""Satellite systems; about 30 of their satellites are above the horizon."""
_RADAR_RAYS, _SONAR_RAYS, _RADAR_BOUNCES, _SONAR_BOUNCES = 100_000, 50_000, 2, 3
_EPOCHS = 20
"""Fixes per call, as in a drive; the time per fix is shown."""
_GOALS_MS = {"gnss": 10.0, "uwb": 20.0, "radar": 60.0, "sonar": 50.0}


def tables(settings: Settings) -> Iterator[Table]:
    """One row per sensor."""
    table = Table(
        "waves",
        "Radio and sound in the city: one measurement",
        ["sensor", "work", "ms", "goal", "time against the goal", "processor ms", "found"],
        notes=[
            "All of a call, record included, each from another place of the drive; the best wall time, and the mean "
            "processor time of both cores. The search for UWB's mirrors, once for each set of anchors, is not in it."
        ],
    )
    world, path = city(), city().path
    assert path is not None  # the city has a drive
    sensors = _sensors(world, path)
    runs = {name: run for name, (_, run, _) in sensors.items()}
    times = take_turns(runs, rounds=settings.rounds(40), most_seconds=2.0 * settings.most_seconds)
    for name, (work, run, found) in sensors.items():
        rounds = settings.rounds(10)
        begun = time.process_time()
        for _ in range(rounds):
            run()
        share = _EPOCHS if name == "gnss" else 1
        processor = (time.process_time() - begun) / rounds / share
        goal, best = Goal("at most", _GOALS_MS[name], " ms"), 1e3 * times[name].best / share
        table.add(
            {
                "sensor": name, "work": work, "ms": best, "goal": goal.verdict(best),
                "time against the goal": best / goal.value, "processor ms": 1e3 * processor, "found": found(run()),
            }
        )  # fmt: skip
    yield table


def _sensors(world: ph.World, path: Trajectory) -> dict[str, tuple[str, Callable[[], object], Callable[[object], str]]]:
    """Name of the work, the call that does it, and a description of its result."""
    place = world.viewpoint.xyz
    corners = np.array([(12.0 * np.cos(a), 12.0 * np.sin(a), 3.0) for a in np.linspace(0.0, 2.0 * np.pi, _ANCHORS + 1)])
    anchors = (corners[:-1] + np.array([place[0], place[1], 0.0])).tolist()
    gnss = ph.Gnss("u-blox/f9p", order=1, constellations=_SYSTEMS)
    uwb = ph.Uwb("qorvo/dw1000", anchors=anchors, order=2)
    radar = ph.Radar("continental/ars408-21-far", rays=_RADAR_RAYS, bounces=_RADAR_BOUNCES)
    sonar = ph.Echo("cosys/ertis-array", rays=_SONAR_RAYS, bounces=_SONAR_BOUNCES)
    number = count()

    def when() -> float:
        return float(next(number) % 20)

    def one_fix() -> ph.GnssData:
        return gnss.run(world, path, start=when(), duration=_EPOCHS / gnss.rate_hz, seed=1)

    def one_range() -> ph.UwbData:
        near = ph.Fixed(ph.Pose((place[0] + 0.1 * (next(number) % 40), place[1], 1.0)))
        return uwb.run(world, near, start=0.0, duration=1.0 / uwb.rate_hz, seed=1)

    def satellites(fixes: object) -> str:
        assert isinstance(fixes, ph.GnssData)
        return f"{int(np.sum(fixes.status[-1] > 0))} satellites over the horizon"

    def heard(ranges: object) -> str:
        assert isinstance(ranges, ph.UwbData)
        return f"{int(np.isfinite(ranges.range[-1]).sum())} anchors heard"

    def points(scan: object) -> str:
        assert isinstance(scan, ph.PointCloud)
        return f"{len(scan)} points"

    return {
        "gnss": (f"all satellites, one mirror, one of {_EPOCHS} fixes", one_fix, satellites),
        "uwb": (f"{_ANCHORS} anchors, two mirrors", one_range, heard),
        "radar": (
            f"{_RADAR_RAYS:.0e} rays, {_RADAR_BOUNCES} bounces",
            lambda: radar.scan(world, trajectory=path, time=when(), seed=1), points,
        ),
        "sonar": (
            f"{_SONAR_RAYS:.0e} rays, {_SONAR_BOUNCES} bounces",
            lambda: sonar.ping(world, trajectory=path, time=when(), seed=1), points,
        ),
    }  # fmt: skip
