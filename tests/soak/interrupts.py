"""Campaign of random interrupts: start commands, send SIGINT at a random moment, and check how they end.

    python tests/soak/interrupts.py --count 500 --seed 1

Three fifths are commands of the shell, the rest are measurements in Python. Commands must end with exit code 130, or
with 0 if they finished first, within 3 s of processor time after the signal, and without a traceback. Python must raise
KeyboardInterrupt or finish, and the next measurement must have the same bits as without an interrupt. The script lists
the exceptions and exits with 1 if there are any.

A signal that arrives before the first line of the program, while Python itself starts, is counted apart: it ends any
Python program.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
import warnings
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))
from soak.rigs import MODELS, accept_interrupts, cpu_s, measured, sensor, write_scenario, yard

PROGRAM = [sys.executable, "-m", "parhelion"]
LONGEST_CPU_S = 3.0
"""Processor time [s] that a command may use after the signal."""
HUNG_CPU_S = 10.0
"""Processor time [s] after the signal at which a command counts as hung."""
LONGEST_S = 600.0
"""Wall time [s] after which a command counts as hung, even on a busy machine."""
ENDLESS_S = 2.0
"""Processor time [s], which an idle viewer reaches, within which a command without an end is interrupted."""
START_S = 0.06
"""Processor time [s] of the start of Python, before the first line of the program."""
GOOD = ("stopped", "finished", "before the start")
MEASURE = "measure --world cuboids --sensor"
COMMANDS = {
    "scan": "scan --world cuboids --sensor velodyne/vlp-16 --rain 20 -o {out}/scan.pcd --png {out}/scan.png",
    "shoot": "shoot --world cuboids --camera generic/vga -o {out}/picture.png",
    **{
        f"measure {kind}": f"{MEASURE} {model} -o {{out}}/{kind}.npz"
        for kind, model in MODELS.items()
        if kind not in ("lidar", "uwb")  # the world has no anchors
    },
    "run": "run {files}/scenario.yaml -o {out}/run",
    "run data set": "run {files}/kitti.yaml -o {out}/run",
    "campaign": "campaign {files}/study.yaml -o {out}/study --workers 2",
    "campaign data set": "campaign {files}/sequences.yaml -o {out}/study --workers 1",
    "stream": "stream {files}/scenario.yaml --ros2 --domain {domain} --velodyne-udp --foxglove {port} --loop",
    "view": "view --world cuboids --sensor velodyne/vlp-16 --port 0",
    "view scenario": "view {files}/scenario.yaml --port 0",
    "weather": "weather {files}/clouds -o {out}/wet --rain 25 --sensor velodyne/vlp-16 --format npz",
    "calibrate": "calibrate {files}/clouds --sensor velodyne/vlp-16 -o {out}/mine.yaml --report {out}/mine.html",
    "view recording": "view {files}/clouds --port 0",
    "evaluate clouds": "evaluate clouds {files}/clouds {files}/clouds -o {out}/report.html",
    "evaluate realism": "evaluate realism {files}/clouds {files}/clouds -o {out}/realism",
    "rebuild": "rebuild {files}/clouds --sensor velodyne/vlp-16 --poses {files}/path.tum -o {out}/place",
    "map": "map {files}/run -o {out}/map.pcd",
    "search": "search {files}/search.yaml -o {out}/search",
    "dossier": "dossier velodyne/vlp-16 -o {out}/dossier.html",
    "convert": "convert {files}/cloud.pcd {out}/cloud.ply",
    "verify": "verify {files}/run",
    "demo": "demo -o {out}/demo --seconds 1",
    "sensors": "sensors",
    "sensors model": "sensors ouster/os1-128",
    "worlds": "worlds city",
    "materials": "materials",
    "doctor": "doctor",
}
ENDLESS = ("stream", "view", "view scenario", "view recording")


def prepare(files: Path) -> None:
    """Write the files that commands read."""
    write_scenario(files, outputs=[{"kind": "bag"}, {"kind": "foxglove"}])
    (files / "whole.yaml").write_text((files / "scenario.yaml").read_text())
    write_scenario(files, ("lidar",), outputs=[{"kind": "semantic-kitti"}]).rename(files / "kitti.yaml")
    (files / "whole.yaml").rename(files / "scenario.yaml")
    study = {"name": "rain", "scenario": "kitti.yaml", "vary": {"weather.rain_rate_mm_h": [0, 20]}, "seeds": 3}
    (files / "study.yaml").write_text(json.dumps(study))
    (files / "sequences.yaml").write_text(json.dumps({**study, "kind": "dataset", "dataset": "semantic-kitti"}))
    search = {
        "scenario": "kitti.yaml", "search": {"weather.rain_rate_mm_h": {"mild": 0, "severe": 300}}, "points": 6,
        "breaks": {"measure": "points_per_scan", "falls_by": 10.0},
    }  # fmt: skip
    (files / "search.yaml").write_text(json.dumps(search))
    (files / "path.tum").write_text("".join(f"{0.1 * k:g} 0 0 0 0 0 0 1\n" for k in range(-1, 12)))
    scan = f"scan --world city --sensor velodyne/vlp-16 --scans 8 -o {files}/clouds"
    for command in (scan, f"run {files}/kitti.yaml -o {files}/run"):
        subprocess.run([*PROGRAM, *command.split()], check=True, stdout=subprocess.DEVNULL)
    (files / "cloud.pcd").write_bytes(min((files / "clouds").glob("*.pcd")).read_bytes())


@dataclass
class Ended:
    """End of a command."""

    how: str
    cpu_s: float = 0.0
    """Processor time [s] of the whole command, or after the signal if one was sent."""
    wall_s: float = 0.0
    """Wall time [s] of the same."""


def ended(name: str, files: Path, number: int, after_cpu_s: float | None, rest_s: float = 0.0) -> Ended:
    """Run a command, and interrupt it once it has used a processor time [s] and a further wall time [s]."""
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryFile() as log:
        places = {"out": out, "files": files, "domain": 100 + number % 100, "port": 20_000 + number % 20_000}
        words = COMMANDS[name].format(**places).split()
        # A terminal sends SIGINT to all processes of a command, so each gets a group of its own.
        process = subprocess.Popen([*PROGRAM, *words], stdout=log, stderr=log, start_new_session=True)
        began, before = time.monotonic(), 0.0
        if after_cpu_s is not None:
            while cpu_s(process.pid) < after_cpu_s and process.poll() is None and time.monotonic() - began < LONGEST_S:
                time.sleep(0.01)
            time.sleep(rest_s)
            began, before = time.monotonic(), cpu_s(process.pid)
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGINT)
        used = before
        most = math.inf if after_cpu_s is None else before + HUNG_CPU_S
        while process.poll() is None and used < most and time.monotonic() - began < LONGEST_S:
            used = max(used, cpu_s(process.pid))
            time.sleep(0.02)
        found = Ended("", used - before, time.monotonic() - began)
        hung = process.poll() is None
        with contextlib.suppress(ProcessLookupError):  # whatever the command left running
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        log.seek(0)
        text = log.read().decode(errors="replace")
    code, traced = process.returncode, "Traceback" in text or "Exception ignored" in text
    if hung:
        found.how = f"hung: {text[-2000:]!r}"
    elif after_cpu_s is None or (code == 0 and not traced):
        found.how = "finished" if code == 0 else f"exit code {code} without a signal: {text[-2000:]!r}"
    elif before < START_S and (code < 0 or traced) and "parhelion/c" not in text:
        found.how = "before the start"
    elif code != 130 or traced:
        found.how = f"exit code {code}: {text[-2000:]!r}"
    elif found.cpu_s > LONGEST_CPU_S:
        found.how = f"used {found.cpu_s:.1f} s of processor time after the signal"
    else:
        found.how = "stopped"
    return found


def interrupt_commands(names: list[str], count: int, seed: int, only_first_s: float | None = None) -> list[str]:
    """Interrupt commands one after the other; return the problems."""
    draw = random.Random(seed)
    totals: dict[str, float] = {}
    counts: Counter[str] = Counter()
    problems: list[str] = []
    latest: list[tuple[float, float, str]] = []
    with tempfile.TemporaryDirectory() as folder:
        prepare(Path(folder))
        for number in range(count):
            name = names[number % len(names)]
            if name not in totals:
                whole = None if name in ENDLESS else ended(name, Path(folder), number, None)
                if whole is not None and whole.how != "finished":
                    problems.append(f"{name}: {whole.how}")
                totals[name] = ENDLESS_S if whole is None else whole.cpu_s
            after_s = draw.uniform(0.0, only_first_s or totals[name])
            found = ended(name, Path(folder), number, after_s, draw.uniform(0.0, 0.03))
            if found.how not in GOOD:
                problems.append(f"{number}: {name} after {after_s:.3f} s: {found.how}")
                print(problems[-1], flush=True)
            elif found.how == "stopped":
                latest.append((found.cpu_s, found.wall_s, name))
            counts[found.how if found.how in GOOD else "problem"] += 1
            if number % 25 == 24:
                print(f"{number + 1} commands: {dict(counts)}", flush=True)
    print(f"commands: {sum(counts.values())}, " + ", ".join(f"{n} {how}" for how, n in sorted(counts.items())))
    if latest:
        times = sorted(latest)
        print(
            f"processor time after the signal: median {times[len(times) // 2][0]:.2f} s, largest {times[-1][0]:.2f} s "
            f"({times[-1][2]}); largest wall time {max(wall for _, wall, _ in times):.1f} s"
        )
    return problems


# ---- the same in Python --------------------------------------------------------------------------------------------


def interrupt_measurement(kind: str, world: Any, after_s: float) -> str:
    """Measure with a fresh sensor, interrupt it after a wall time, and return how it ended."""

    def send() -> None:
        time.sleep(after_s)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=send)
    how, complete = "finished", False
    try:
        sender.start()
        measured(sensor(kind), world, time=0.1)
        complete = True
        sender.join()
        time.sleep(0.05)  # a signal after the measurement ends here
    except KeyboardInterrupt:
        how = "finished" if complete else "stopped"
    except BaseException as error:
        how = f"raised {type(error).__name__}: {error}"
    with contextlib.suppress(KeyboardInterrupt):
        sender.join()
        time.sleep(0.05)
    return how


def interrupt_python(count: int, seed: int) -> int:
    """Interrupt measurements of all kinds in this process; print problems, and return their number."""
    draw = random.Random(seed)
    counts: Counter[str] = Counter()
    expected: dict[str, Any] = {}
    durations: dict[str, float] = {}
    world = yard()
    warnings.simplefilter("ignore")
    for number in range(count):
        kind = list(MODELS)[number % len(MODELS)]
        if number % (5 * len(MODELS)) == 0:
            world = yard()
        if kind not in expected:
            expected[kind] = measured(sensor(kind), yard())
            began = time.monotonic()
            measured(sensor(kind), yard(), time=0.1)
            durations[kind] = time.monotonic() - began
        how = interrupt_measurement(kind, world if number % 2 else yard(), draw.uniform(0.0, durations[kind]))
        if how in GOOD and not measured(sensor(kind), world).equals(expected[kind]):
            how = "the next measurement has other bits"
        if how not in GOOD:
            print(f"{number}: {kind}: {how}", flush=True)
        counts[how if how in GOOD else "problem"] += 1
    print(f"measurements: {count}, " + ", ".join(f"{n} {how}" for how, n in sorted(counts.items())))
    return counts["problem"]


def main() -> int:
    """Run the campaign and print the counts."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=500)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--only", help="commands whose name contains this text")
    options.add_argument("--python", type=int, help="number of interrupts in Python; by default two fifths")
    options.add_argument("--first-s", type=float, help="interrupt within this processor time [s], to test the start")
    options.add_argument("--in-this-process", action="store_true", help=argparse.SUPPRESS)
    given = options.parse_args()
    accept_interrupts()
    if given.in_this_process:
        return 1 if interrupt_python(given.count, given.seed) else 0
    in_python = 2 * given.count // 5 if given.python is None else given.python
    bad = False
    if in_python:
        again = [sys.executable, __file__, "--in-this-process", "--count", str(in_python), "--seed", str(given.seed)]
        # A crash of the process is a problem, too.
        code = subprocess.run(again, timeout=60 + 60 * in_python).returncode
        if code:
            print(f"measurements: the process ended with {code}")
        bad = code != 0
    names = [name for name in COMMANDS if not given.only or given.only in name]
    problems = interrupt_commands(names, given.count - in_python, given.seed, given.first_s)
    return 1 if problems or bad else 0


if __name__ == "__main__":
    sys.exit(main())
