"""Campaign of random interrupts: start commands, send SIGINT at a random moment, and check how they end.

    python tests/soak/interrupts.py --count 500 --seed 1

Every command must end with exit code 130, or with 0 if it finished first, within 3 s of processor time after the
signal, and without a traceback. The script lists the exceptions and exits with 1 if there are any.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

PROGRAM = [sys.executable, "-m", "parhelion"]
LONGEST_CPU_S = 3.0
"""Processor time [s] that a command may use after the signal."""
LONGEST_S = 60.0
"""Wall time [s] after which a command counts as hung."""
TICKS = os.sysconf("SC_CLK_TCK")
MEASURE = "measure --world cuboids --sensor"
COMMANDS = (
    "scan --world cuboids --sensor velodyne/vlp-16 -o {out}/scan.pcd",
    f"{MEASURE} generic/vga -o {{out}}/image.npz",
    f"{MEASURE} bosch/bmi160 -o {{out}}/imu.npz",
    f"{MEASURE} ti/iwr6843 -o {{out}}/radar.npz",
    "demo -o {out}/demo --seconds 1",
    "sensors",
    "worlds city",
    "doctor",
)


def cpu_s(pid: int) -> float:
    """Processor time [s] of a process; 0 if it has ended."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / TICKS


def interrupted(command: str, after_s: float) -> str:
    """Start a command, interrupt it, and return how it ended: 'stopped', 'finished', or a problem."""
    with tempfile.TemporaryDirectory() as out, tempfile.TemporaryFile() as log:
        words = command.format(out=out).split()
        process = subprocess.Popen([*PROGRAM, *words], stdout=subprocess.DEVNULL, stderr=log)
        time.sleep(after_s)
        before = used = cpu_s(process.pid)
        process.send_signal(signal.SIGINT)
        end = time.monotonic() + LONGEST_S
        while process.poll() is None and time.monotonic() < end:
            used = max(used, cpu_s(process.pid))
            time.sleep(0.02)
        if process.poll() is None:
            process.kill()
            process.wait()
            return "hung"
        log.seek(0)
        text = log.read().decode(errors="replace")
    if process.returncode not in (0, 130):
        return f"exit code {process.returncode}: {text[-300:]!r}"
    if "Traceback" in text:
        return f"traceback: {text[-300:]!r}"
    if used - before > LONGEST_CPU_S:
        return f"used {used - before:.1f} s of processor time after the signal"
    return "stopped" if process.returncode else "finished"


def main() -> int:
    """Run the campaign and print the counts."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--count", type=int, default=500)
    options.add_argument("--seed", type=int, default=0)
    options.add_argument("--longest-s", type=float, default=6.0, help="latest moment of the signal [s]")
    given = options.parse_args()
    draw = random.Random(given.seed)
    counts: Counter[str] = Counter()
    problems = 0
    for number in range(given.count):
        command, after_s = COMMANDS[number % len(COMMANDS)], draw.uniform(0.0, given.longest_s)
        how = interrupted(command, after_s)
        counts[how if how in ("stopped", "finished") else "problem"] += 1
        if how not in ("stopped", "finished"):
            problems += 1
            print(f"{number}: {command.split()[0]} after {after_s:.3f} s: {how}", flush=True)
    print(", ".join(f"{count} {how}" for how, count in sorted(counts.items())))
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
