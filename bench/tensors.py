"""Labelled scans for training: tensors on the device against NumPy records."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

from tables import Goal, Table
from timing import ratio, take_turns
from workloads import OS1, VLP, Settings, city, poses_along

import parhelion as ph
from parhelion.rays.device import engine

_GPU_GOAL = Goal("at least", 4000.0, "")


def tables(settings: Settings) -> Iterator[Table]:
    """Batches of poses along the drive: NumPy records, tensors, and PyTorch tensors."""
    sizes = (44, 100, 400) if engine().device == "cuda" else (8,)
    table = Table(
        "tensors",
        "Labelled scans as tensors, in the city",
        ["sensor", "poses", "records, scans/s", "tensors, scans/s", "PyTorch, scans/s", "records / tensors", "goal"],
        notes=[
            "Records: `scan_many`, all fields in NumPy. Tensors: `scan_tensors`, place, intensity, ring, time, label "
            "and instance on the engine's device. PyTorch: these copied there into its own memory."
        ],
    )
    for sensor in (VLP, OS1):
        for size in sizes[:1] if settings.quick else sizes:
            if sensor == OS1 and size > 100:
                continue
            _measure(settings, table, sensor, size)
    yield table


def _measure(settings: Settings, table: Table, sensor: str, size: int) -> None:
    world, lidar, number = city(), ph.Lidar(sensor), count()
    poses = poses_along(world, size)
    runs = {
        "records": lambda: lidar.scan_many(world, poses, seed=next(number)),
        "tensors": lambda: lidar.scan_tensors(world, poses, seed=next(number)),
    }
    try:
        import torch  # noqa: F401
    except ImportError:
        pass
    else:
        runs["torch"] = lambda: [one.torch() for one in lidar.scan_tensors(world, poses, seed=next(number))]
    times = take_turns(runs, rounds=settings.rounds(8), most_seconds=1.5 * settings.most_seconds)
    best = {name: size / one.best for name, one in times.items()}
    on_gpu = engine().device == "cuda"
    table.add(
        {
            "sensor": sensor,
            "poses": size,
            "records, scans/s": best["records"],
            "tensors, scans/s": best["tensors"],
            "PyTorch, scans/s": best.get("torch"),
            "records / tensors": ratio(times["records"], times["tensors"]).times(1.0),
            "goal": _GPU_GOAL.verdict(best["tensors"]) if on_gpu and sensor == VLP else None,
        }
    )
