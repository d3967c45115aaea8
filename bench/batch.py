"""Many sensors in one call: scans per second as the batch grows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import count
from typing import Literal

from tables import Goal, Table
from timing import ratio, take_turns
from workloads import OS1, VLP, Settings, city, poses_along

import parhelion as ph
from parhelion.rays.device import engine

_GPU_GOAL = Goal("at least", 1.0, " G")


def tables(settings: Settings) -> Iterator[Table]:
    """Batches of 1, 10 and 100 poses; on a GPU also for a sensor with more beams."""
    on_gpu = engine().device == "cuda"
    sizes = (1, 10) if settings.quick else (1, 10, 100)
    for sensor in (VLP, OS1) if on_gpu else (VLP,):
        for sampling in ("adaptive", "fixed") if on_gpu else ("adaptive",):
            yield _measure(settings, sensor, sampling, sizes, on_gpu)


def _measure(
    settings: Settings, sensor: str, sampling: Literal["adaptive", "fixed"], sizes: tuple[int, ...], on_gpu: bool
) -> Table:
    table = Table(
        "batch",
        f"scan_many: {sensor}, {sampling}, 25 sub-rays, in the city",
        ["poses", "scans/s", "time a scan", "M beams/s", "M casts/s", "M sub-rays/s", "goal", "kernels s", "of total"],
        notes=[
            "Time per scan: against one pose alone. Casts: rays that were traced; sub-rays: 25 per beam, traced or "
            "followed from their neighbours. Kernels: time on the device; the rest of the total is Python and NumPy."
        ],
    )
    world, lidar = city(), ph.Lidar(sensor, sub_rays=25, sampling=sampling)
    runs = {str(size): _scanner(lidar, world, size) for size in sizes}
    times = take_turns(runs, rounds=settings.rounds(6), most_seconds=1.5 * settings.most_seconds)
    for size in sizes:
        best, beams = times[str(size)].best, size * len(lidar.shots())
        share = ratio(times[str(size)], times["1"])
        in_kernels, total, casts = _kernel_seconds(runs[str(size)], len(lidar.shots()))
        sub_rays_per_s = 25.0 * beams / best
        table.add(
            {
                "poses": size,
                "scans/s": size / best,
                "time a scan": share.times(1.0 / size),
                "M beams/s": beams / best / 1e6,
                "M casts/s": casts / best / 1e6,
                "M sub-rays/s": sub_rays_per_s / 1e6,
                "goal": _GPU_GOAL.verdict(sub_rays_per_s / 1e9) if on_gpu and size == sizes[-1] else None,
                "kernels s": in_kernels,
                "of total": f"{100.0 * in_kernels / total:.0f} %",
            }
        )
    return table


def _scanner(lidar: ph.Lidar, world: ph.World, size: int) -> Callable[[], list[ph.Scan]]:
    number = count()
    poses = poses_along(world, size)

    def run() -> list[ph.Scan]:
        return lidar.scan_many(world, poses, seed=next(number))

    return run


def _kernel_seconds(run: Callable[[], list[ph.Scan]], beams: int) -> tuple[float, float, float]:
    """Time in kernels and total time [s], and the number of rays cast, in one additional run."""
    from anatomy import watch

    scans, seconds, launches = watch(run)
    casts = sum(scan.metadata["casts_per_beam"] * beams for scan in scans)
    return sum(launch["execution_time"] for launch in launches) * 1e-3, seconds, casts
