"""Cold processes: time to the first scan, with and without compiled kernels on disk, and peak memory."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from tables import Goal, Table
from workloads import OS1, VLP, Settings

_WORLDS = ("city", "harbour", "test-range")
_COLD_GOAL, _WARM_GOAL = Goal("at most", 6.0, " s"), Goal("at most", 2.0, " s")
_IMPORT_GOAL_S = 0.3
_MEMORY_GOAL = Goal("at most", 1.5, " GB")
_MEMORY_SCANS = 5


def _first_scan(cache: Path, world: str, sensor: str, scans: int = 1) -> dict[str, float]:
    """Run a process with `cache` as its kernel cache; return the durations of its steps [s] and its peak memory
    [bytes].
    """
    # Dr.Jit reads DRJIT_CACHE_DIR, older versions only HOME; the CUDA driver and OptiX have separate caches.
    places = ("HOME", "DRJIT_CACHE_DIR", "CUDA_CACHE_PATH", "OPTIX_CACHE_PATH")
    environment = {**os.environ, **{name: str(cache) for name in places}}
    script = Path(__file__).with_name("first_scan.py")
    start = time.perf_counter()
    answer = subprocess.run(
        [sys.executable, str(script), world, sensor, str(scans)],
        env=environment, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    if answer.returncode != 0:
        raise RuntimeError(f"first_scan.py {world} {sensor} failed:\n{answer.stderr}")
    marks = json.loads(answer.stdout.splitlines()[-1])
    return {
        "start": marks["start"] - start,
        "import": marks["imported"] - marks["start"],
        "load": marks["loaded"] - marks["imported"],
        "scan": marks["scanned"] - marks["loaded"],
        "total": marks["scanned"] - start,
        "peak_bytes": marks["peak_bytes"],
    }


def tables(settings: Settings) -> Iterator[Table]:
    """Time to the first scan: one row per world and state of the kernel cache."""
    table = Table(
        "latency",
        "First scan of a cold process: OS1-128 in built-in worlds",
        ["world", "compiled kernels", "total s", "goal", "Python starts s", "import parhelion s", "load world s",
         "first scan s"],
        notes=[
            "From the start of the process to the scan in NumPy; the best of the runs, by total. First scan: starting "
            f"the engine, building the scene and compiling or loading kernels. Import goal: {_IMPORT_GOAL_S} s."
        ],
    )  # fmt: skip
    worlds = _WORLDS[:1] if settings.quick else _WORLDS
    runs: dict[tuple[str, str], list[dict[str, float]]] = {}
    for _ in range(1 if settings.quick else 2):
        for world in worlds:
            with tempfile.TemporaryDirectory(prefix="parhelion-bench-") as folder:
                runs.setdefault((world, "none"), []).append(_first_scan(Path(folder), world, OS1))
                for _ in range(1 if settings.quick else 2):
                    runs.setdefault((world, "on disk"), []).append(_first_scan(Path(folder), world, OS1))
    for (world, kernels), steps in runs.items():
        best = min(steps, key=lambda step: step["total"])
        table.add(
            {
                "world": world,
                "compiled kernels": kernels,
                "total s": best["total"],
                "goal": (_COLD_GOAL if kernels == "none" else _WARM_GOAL).verdict(best["total"]),
                "Python starts s": best["start"],
                "import parhelion s": best["import"],
                "load world s": best["load"],
                "first scan s": best["scan"],
            }
        )
    yield table


def memory_tables(settings: Settings) -> Iterator[Table]:
    """Peak memory of a process that scans: one row per sensor."""
    table = Table(
        "memory",
        f"Peak memory of a process that scans the city {_MEMORY_SCANS} times",
        ["sensor", "sub-rays", "peak GB", "goal"],
        notes=["Resident memory of the host (VmHWM), libraries included; with a GPU, its own memory is not in it."],
    )
    with tempfile.TemporaryDirectory(prefix="parhelion-bench-") as folder:
        for sensor in (OS1,) if settings.quick else (VLP, OS1):
            peak = _first_scan(Path(folder), "city", sensor, _MEMORY_SCANS)["peak_bytes"] / 1e9
            goal = _MEMORY_GOAL.verdict(peak) if sensor == OS1 else None
            table.add({"sensor": sensor, "sub-rays": 25, "peak GB": peak, "goal": goal})
    yield table
