"""`parhelion doctor`: installed parts, missing parts, and how to install them."""

from __future__ import annotations

import os
import platform
import re
import shutil
import sys
import time as clock
from importlib import metadata
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from parhelion.cli import screen
from parhelion.cli.screen import start_engine
from parhelion.core.errors import ParhelionError

if TYPE_CHECKING:
    from parhelion.rays.device import Engine

EXAMPLES = ("parhelion doctor", "PARHELION_DEVICE=cpu parhelion doctor")

_GIB = 2.0**30


def doctor() -> None:
    """Check packages, LLVM library, GPU, memory, a small scan. Exit with 1 if a required part is missing."""
    problems: list[str] = []
    screen.facts("machine", _machine())
    _packages(problems)
    running = _engine(problems)
    if running is not None:
        _tiny_scan(problems)
    if problems:
        screen.print_line("")
        for problem in problems:
            screen.print_line(f"missing: {problem}")
        raise typer.Exit(1)
    screen.print_line("\neverything required is installed")


def _machine() -> list[tuple[str, str]]:
    free = shutil.disk_usage(Path.cwd()).free / _GIB
    return [
        ("system", f"{platform.system()} {platform.release()}, {platform.machine()}"),
        ("python", f"{platform.python_version()}  {sys.executable}"),
        ("processors", str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count())),
        ("memory", _memory()),
        ("disk", f"{free:.1f} GiB free in {Path.cwd()}"),
    ]


def _memory() -> str:
    """Memory available to a new process, as the kernel reports it."""
    try:
        table = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text().splitlines())
        available, total = (int(table[key].split()[0]) * 1024 / _GIB for key in ("MemAvailable", "MemTotal"))
    except (OSError, KeyError, ValueError):
        return "unknown"
    return f"{available:.1f} GiB available of {total:.1f} GiB"


def _packages(problems: list[str]) -> None:
    """Versions of required and optional packages."""
    try:
        wanted = metadata.requires("parhelion") or []
    except metadata.PackageNotFoundError:
        problems.append("parhelion is not installed as a package: run 'pip install .' in its folder")
        return
    needed: list[tuple[str, str]] = []
    optional: dict[str, str] = {}  # by name: several extras may want the same package
    for line in wanted:
        name = re.split(r"[^A-Za-z0-9_.-]", line, maxsplit=1)[0]
        extra = re.search(r"extra == ['\"]([\w-]+)['\"]", line)
        if name == "parhelion" or (extra and extra[1] in ("dev", "docs", "bench", "devkits", "oracles", "all")):
            continue
        have = _version(name)
        least = re.search(r">=\s*([\d.]+)", line)
        if extra:
            optional.setdefault(name, have or f"-  pip install 'parhelion[{extra[1]}]'")
            continue
        needed.append((name, have or "MISSING"))
        if have is None:
            problems.append(f"the package {name}: run 'pip install {name}'")
        elif least and _numbers(have) < _numbers(least[1]):
            problems.append(f"{name} {least[1]} or later, found {have}: run 'pip install -U {name}'")
    screen.facts("\nneeded packages", [("parhelion", _version("parhelion")), *needed])
    screen.facts("\noptional packages", list(optional.items()))


def _version(name: str) -> str | None:
    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return None


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _engine(problems: list[str]) -> Engine | None:
    """Start the ray engine and report its device."""
    try:
        running = start_engine()
    except ParhelionError as error:
        problems.append(str(error))
        screen.facts("\nray engine", [("engine", "does not start")])
        return None
    words = {"cpu": "processor (LLVM)", "cuda": "NVIDIA GPU (CUDA)", "metal": "Apple GPU (Metal), untested"}
    rows = [("device", words[running.device])]
    if running.device == "cpu":
        rows.append(("LLVM library", _llvm_file(running)))
        rows.append(("threads", str(running.dr.thread_count())))
        rows.append(("CUDA", "no NVIDIA GPU and driver found" if not _has_nvidia() else "not chosen"))
    rows.append(("kernel cache", _kernel_cache()))
    screen.facts("\nray engine", rows)
    return running


def _kernel_cache() -> str:
    """Number and size of the stored kernels, and the limits."""
    from parhelion.rays.kernel_cache import contents, folder, limit

    kernels = contents(folder())
    size = sum(bytes_ for _, bytes_, _ in kernels) / 2.0**20
    bound = f"{limit('PARHELION_CACHE_MIB')} MiB and {limit('PARHELION_CACHE_DAYS')} days"
    return f"{len(kernels)} kernels, {size:.0f} MiB in {folder()}; pruned to {bound}"


def _has_nvidia() -> bool:
    return shutil.which("nvidia-smi") is not None or os.path.exists("/dev/nvidiactl")


def _llvm_file(running: Engine) -> str:
    """Path of the loaded library, from the table of mapped files."""
    running.dr.eval(running.mi.Float(1.0) + running.mi.Float(2.0))
    try:
        mapped = {line.split()[-1] for line in Path("/proc/self/maps").read_text().splitlines() if "libLLVM" in line}
    except OSError:
        mapped = set()
    return ", ".join(sorted(mapped)) or os.environ.get("DRJIT_LIBLLVM_PATH") or "loaded"


def _tiny_scan(problems: list[str]) -> None:
    """Check that a scan works, and measure its time."""
    from parhelion import Lidar, World
    from parhelion.cli.screen import sentence

    try:
        world, lidar = World.load("cuboids"), Lidar("velodyne/vlp-16")
        times = []
        for number in range(2):
            before = clock.perf_counter()
            scan = lidar.scan(world, time=0.1 * number)
            times.append(clock.perf_counter() - before)
    except Exception as error:  # doctor reports any failure
        problems.append(f"a working scan: {sentence(error)}")
        return
    text = f"{screen.count(len(scan))} points; first {times[0]:.2f} s with set-up, then {1e3 * times[1]:.0f} ms"
    screen.facts("", [("test scan", text)])
    if len(scan) == 0:
        problems.append("a working scan: the test scan of the world 'cuboids' has no points")
