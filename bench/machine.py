"""Description of the machine that the figures were measured on."""

from __future__ import annotations

import os
import platform
import shutil
import subprocess
import time
from datetime import datetime, timezone
from importlib import metadata

_PACKAGES = ("parhelion", "mitsuba", "drjit", "numpy", "embreex", "open3d", "warp-lang")


def description() -> list[str]:
    """Lines with the date, the hardware, its load, and the versions of all measured packages."""
    from parhelion.rays.device import engine

    running = engine()
    lines = [
        f"date: {datetime.now(timezone.utc):%Y-%m-%d %H:%M} UTC",
        f"CPU: {_cpu_model()}, {len(os.sched_getaffinity(0))} cores; load before the run {os.getloadavg()[0]:.1f}",
        f"memory: {os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GiB",
        f"engine: {running.device}, {running.dr.thread_count()} CPU threads",
        f"Python {platform.python_version()}, " + ", ".join(_versions()),
    ]
    gpu = _gpu_names()
    if gpu:
        lines.insert(2, f"GPU: {gpu}")
    return lines


class OtherPrograms:
    """Processor time that programs other than this one and its children have used since this object was created."""

    def __init__(self) -> None:
        self._start = time.perf_counter()
        self._all, self._own = _busy_seconds(), _own_seconds()

    def __str__(self) -> str:
        wall = max(1e-9, time.perf_counter() - self._start)
        others = (_busy_seconds() - self._all) - (_own_seconds() - self._own)
        return f"other programs took {max(0.0, others) / wall:.1f} of {os.cpu_count()} cores during the run"


def _busy_seconds() -> float:
    """Processor time of all programs since the machine started [s], including time stolen by other virtual machines."""
    with open("/proc/stat", encoding="utf-8") as file:
        user, nice, system, _idle, _waiting, interrupts, soft_interrupts, stolen = map(
            int, file.readline().split()[1:9]
        )
    return (user + nice + system + interrupts + soft_interrupts + stolen) / os.sysconf("SC_CLK_TCK")


def _own_seconds() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def _cpu_model() -> str:
    try:
        with open("/proc/cpuinfo", encoding="utf-8") as file:
            for line in file:
                if line.startswith("model name"):
                    return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor() or platform.machine()


def _gpu_names() -> str:
    program = shutil.which("nvidia-smi")
    if program is None:
        return ""
    command = [program, "--query-gpu=name,driver_version", "--format=csv,noheader"]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    return "; ".join(answer.stdout.strip().splitlines()) if answer.returncode == 0 else ""


def _versions() -> list[str]:
    found = []
    for name in _PACKAGES:
        try:
            found.append(f"{name} {metadata.version(name)}")
        except metadata.PackageNotFoundError:
            continue
    return found


def memory_bytes(field: str) -> int:
    """A field of /proc/self/status [bytes]: VmRSS is the current resident memory, VmHWM its peak."""
    with open("/proc/self/status", encoding="utf-8") as file:
        for line in file:
            if line.startswith(field + ":"):
                return int(line.split()[1]) * 1024
    raise OSError(f"/proc/self/status has no field {field}")
