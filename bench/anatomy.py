"""Breakdown of the time of a scan: kernels, compilation and the remainder."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any, Literal, TypeVar

from scans import scanner
from tables import Table
from workloads import OS1, VLP, Settings, city

import parhelion as ph
from parhelion.rays.device import engine

Result = TypeVar("Result")

_WAYS: tuple[tuple[str, Literal["fixed", "adaptive"], int], ...] = (
    (VLP, "fixed", 0),
    (VLP, "fixed", 2),
    (VLP, "adaptive", 2),
    (OS1, "fixed", 2),
    (OS1, "adaptive", 2),
)


def watch(run: Callable[[], Result]) -> tuple[Result, float, list[dict[str, Any]]]:
    """The result of a run, its wall time [s], and Dr.Jit's record of every launch in it."""
    dr = engine().dr
    dr.kernel_history_clear()
    with dr.scoped_set_flag(dr.JitFlag.KernelHistory, True):
        start = time.perf_counter()
        result = run()
        dr.sync_thread()
        seconds = time.perf_counter() - start
        launches: list[dict[str, Any]] = dr.kernel_history()
    return result, seconds, launches


def tables(settings: Settings) -> Iterator[Table]:
    """One row per sensor and sampling method."""
    table = Table(
        "anatomy",
        "Where a scan's time goes, in the city at 25 sub-rays",
        ["sensor", "sampling", "bounces", "ms per scan", "ms in kernels", "longest kernels ms", "kernels",
         "new kernels", "other launches", "ms other", "ms elsewhere"],
        notes=[
            "The quickest of several scans. Other launches: sums, compactions and copies. Elsewhere: tracing in "
            "Python, looking kernels up, and NumPy records. New kernels: those compiled, or loaded from disk, "
            "in any of the watched scans after the first two; more than 0 means that a changing number is in the code."
        ],
    )  # fmt: skip
    world = city()
    for sensor, sampling, bounces in _WAYS[2:3] if settings.quick else _WAYS:
        run = scanner(ph.Lidar(sensor, sub_rays=25, sampling=sampling, bounces=bounces), world)
        for _ in range(2):
            run()
        watched = [watch(run)[1:] for _ in range(settings.rounds(9))]
        seconds, launches = min(watched, key=lambda item: item[0])
        new = sum(is_new(launch) for _, others in watched for launch in others)
        row = {"sensor": sensor, "sampling": sampling, "bounces": bounces, "new kernels": new}
        table.add({**row, **_row(1e3 * seconds, launches)})
    yield table


def is_new(launch: dict[str, Any]) -> bool:
    """Return True if a kernel was not in memory yet. Dr.Jit counts a kernel from the disk cache of an earlier process
    as a hit.
    """
    return launch["type"] == engine().dr.KernelType.JIT and (not launch["cache_hit"] or bool(launch["cache_disk"]))


def _row(milliseconds: float, launches: list[dict[str, Any]]) -> dict[str, Any]:
    kernel = engine().dr.KernelType.JIT
    compiled = [launch for launch in launches if launch["type"] == kernel]
    spent = sorted((launch["execution_time"] for launch in compiled), reverse=True)
    other = [launch["execution_time"] for launch in launches if launch["type"] != kernel]
    return {
        "ms per scan": milliseconds,
        "ms in kernels": sum(spent),
        "longest kernels ms": ", ".join(f"{value:.1f}" for value in spent[:4]),
        "kernels": len(compiled),
        "other launches": len(other),
        "ms other": sum(other),
        "ms elsewhere": milliseconds - sum(spent) - sum(other),
    }
