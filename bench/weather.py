"""Cost of weather: simulated scans against clear ones, and recorded clouds."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import count

import numpy as np
from tables import Goal, Table
from timing import ratio, take_turns
from workloads import OS1, VLP, Settings, city

import parhelion as ph

_HETEROGENEOUS_FOG = ph.Fog(visibility_m=500, heterogeneity=ph.Heterogeneity())
_WEATHERS: dict[str, ph.Weather | None] = {
    "clear": None,
    "rain 50 mm/h": ph.Weather(rain_rate_mm_h=50),
    "fog 500 m": ph.Weather(visibility_m=500),
    "heterogeneous fog 500 m": ph.Weather(fog=_HETEROGENEOUS_FOG),
    "rain 50 mm/h, heterogeneous fog 500 m": ph.Weather(rain_rate_mm_h=50, fog=_HETEROGENEOUS_FOG),
    "snow 5 mm/h": ph.Weather(snow_rate_mm_h=5),
}
_COST_GOALS = {name: Goal("at most", 1.25, "×") for name in ("rain 50 mm/h", "rain 50 mm/h, heterogeneous fog 500 m")}
_SPEED_GOAL = Goal("at least", 10.0, " M")
_STREAM_GOAL = Goal("at most", 15.0, " %")
_STREAM_HZ = 10.0


def tables(settings: Settings) -> Iterator[Table]:
    """Scans of two sensors, then recorded clouds."""
    for sensor in (VLP,) if settings.quick else (VLP, OS1):
        yield _scans(settings, sensor)
    yield _recorded(settings)


def _scans(settings: Settings, sensor: str) -> Table:
    table = Table(
        "weather",
        f"Scans of {sensor} in the city, in weather, against clear air",
        ["weather", "ms per scan", "time against clear", "goal", "points", "of the air"],
        notes=["Full physics with noise, 25 sub-rays, adaptive, each scan of another seed. Of the air: points that "
               "drops, flakes and fog made."],
    )  # fmt: skip
    world, lidar = city(), ph.Lidar(sensor)
    runs = {name: _scanner(lidar, world, weather) for name, weather in _WEATHERS.items()}
    # Scans of a sixteen-channel lidar are short, so many rounds are needed for an undisturbed one of each.
    times = take_turns(runs, rounds=settings.rounds(60), most_seconds=2 * settings.most_seconds)
    for name, run in runs.items():
        scan = run()
        against = ratio(times[name], times["clear"])
        goal = _COST_GOALS.get(name)
        table.add(
            {
                "weather": name,
                "ms per scan": 1e3 * times[name].best,
                "time against clear": against,
                "goal": goal.verdict(against) if goal else None,
                "points": len(scan),
                "of the air": int(np.count_nonzero((scan.origin >= 1) & (scan.origin <= 4))),
            }
        )
    world.weather = None
    return table


def _scanner(lidar: ph.Lidar, world: ph.World, weather: ph.Weather | None) -> Callable[[], ph.Scan]:
    number = count()

    def run() -> ph.Scan:
        world.weather = weather
        return lidar.scan(world, seed=next(number))

    return run


def _recorded(settings: Settings) -> Table:
    table = Table(
        "weather",
        "Weather on recorded clouds: rain of 25 mm/h",
        ["cloud", "points", "ms", "M points/s", "goal for speed", "share of one core at 10 Hz", "goal for a stream"],
        notes=["A cloud of coordinates and intensity, and one scan with ring and time whose shots without a return are "
               "found by the pattern. Share of one core: time of all threads together."],
    )  # fmt: skip
    world, lidar = city(), ph.Lidar(VLP)
    weather = ph.Weather(rain_rate_mm_h=25)
    scan = lidar.scan(world, seed=0)
    one = ph.PointCloud(scan.xyz, {name: scan.fields[name] for name in ("intensity", "ring", "time")})
    many = -(-1_000_000 // len(scan))
    big = ph.PointCloud(np.tile(scan.xyz, (many, 1)), {"intensity": np.tile(scan.intensity, many)})
    for name, cloud in (("1 M points", big), ("a scan of VLP-16", one)):
        number = count()
        times = take_turns(
            {"apply": lambda c=cloud, n=number: weather.apply(c, sensor=lidar, frame=next(n))},  # type: ignore[misc]
            rounds=settings.rounds(25),
            most_seconds=settings.most_seconds,
        )["apply"]
        speed = len(cloud) / times.best / 1e6
        row = {"cloud": name, "points": len(cloud), "ms": 1e3 * times.best, "M points/s": speed}
        if cloud is big:
            row["goal for speed"] = _SPEED_GOAL.verdict(speed)
        else:
            share = 100.0 * _STREAM_HZ * _processor_time(weather, cloud, lidar)
            row |= {"share of one core at 10 Hz": f"{share:.1f} %", "goal for a stream": _STREAM_GOAL.verdict(share)}
        table.add(row)
    return table


def _processor_time(weather: ph.Weather, cloud: ph.PointCloud, lidar: ph.Lidar) -> float:
    """Shortest processor time [s] of one application, summed over all threads."""
    best = np.inf
    for frame in range(30):
        start = time.process_time()
        weather.apply(cloud, sensor=lidar, frame=frame)
        best = min(best, time.process_time() - start)
    return float(best)
