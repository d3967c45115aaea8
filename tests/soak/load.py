"""Measurements with edits, a long scenario and a long walk of a crowd: memory, descriptors and kernels stay flat.

    python tests/soak/load.py --measurements 5000 --scenario-s 3600 --slow --crowd-s 3600

Takes 100 readings of resident memory, open descriptors, recorded kernels, and files of the kernel cache, and prints
every tenth. Exits with 1 if, over the second half, memory grows by more than 2 KiB per measurement beyond its scatter,
or descriptors or recordings grow at all.
"""

from __future__ import annotations

import argparse
import math
import random
import sys
import tempfile
import time
import warnings
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import t as student

sys.path.insert(0, str(Path(__file__).parents[1]))
import parhelion as ph
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors.live import LiveActors
from parhelion.rays.device import engine
from soak.rigs import MODELS, descriptors, measured, rss_mib, sensor, write_scenario, yard

READINGS = 100
"""Readings of a run. If they scatter by 3 MiB, the slope of 50 of them in 2500 measurements has a standard error of
0.6 KiB per measurement."""
PRINTED = 10
"""One of so many readings is printed."""
MOST_GROWTH_KIB = 2.0
"""Largest growth of memory per measurement [KiB] over the second half."""
CONFIDENCE = 0.99
"""One-sided confidence with which the growth must differ from 0: memory rises and falls by some MiB as buffers come and
go, by which a line through a few readings is never quite level."""

LATEST_S = 2.0
"""Time [s] of the latest measurement. By then the sensor has moved by 4 m, and is 2 m away from the added boxes."""


def reading() -> dict[str, float]:
    """Current state of the process."""
    cache = Path.home() / ".drjit"
    return {
        "memory_mib": rss_mib(),
        "descriptors": descriptors(),
        "recordings": sum(one.n_recordings for one in engine()._frozen.values()),
        "cache_files": sum(1 for file in cache.iterdir()) if cache.is_dir() else 0,
    }


def report(parts: list[dict[str, float]], done: float, unit: str) -> bool:
    """Append the current state, and print every tenth; return whether it was printed."""
    now = reading()
    parts.append(now)
    if len(parts) % PRINTED:
        return False
    print(f"{done:8.0f} {unit}: " + ", ".join(f"{name} {value:.0f}" for name, value in now.items()), flush=True)
    return True


def slope(values: Sequence[float]) -> tuple[float, float]:
    """Growth per part of a straight line through values, and its standard error (NaN for fewer than three)."""
    x = np.arange(len(values)) - 0.5 * (len(values) - 1)
    y = np.asarray(values, np.float64)
    rate = float(x @ y / (x @ x))
    rest = y - y.mean() - rate * x
    return rate, math.sqrt(float(rest @ rest) / (len(values) - 2) / float(x @ x)) if len(values) > 2 else math.nan


def growth(parts: list[dict[str, float]], per_part: float) -> list[str]:
    """Problems of the second half of a run: growth of memory by a fitted line, and of counts from first to last."""
    half = parts[len(parts) // 2 :]
    rate, error = (1024.0 * value / per_part for value in slope([one["memory_mib"] for one in half]))
    limit = float(student.ppf(CONFIDENCE, len(half) - 2)) * error
    text = f"memory grows by {rate:.2f} KiB per item (standard error {error:.2f}, significant above {limit:.2f})"
    print(text)
    found = [text] if rate > MOST_GROWTH_KIB and rate > limit else []
    return found + [f"{name} grow" for name in ("descriptors", "recordings") if half[-1][name] > half[0][name]]


def measure_and_edit(count: int, seed: int) -> list[str]:
    """Measure with all kinds in turn, and edit the world before every third measurement."""
    draw = random.Random(seed)
    world, sensors = yard(), {kind: sensor(kind) for kind in MODELS}
    added: list[Any] = []
    parts: list[dict[str, float]] = []
    for number in range(count):
        if number % 3 == 0:
            if len(added) == 8:
                world.remove(added.pop(0))
            place = ph.Pose((draw.uniform(6, 16), draw.uniform(-8, 8), 0.5))  # away from the sensor
            added.append(world.add(ph.shapes.box(1, 1, 1), material="brick", label="box", pose=place))
        if number % 50 == 0:
            world.weather = draw.choice([None, ph.Weather(rain_rate_mm_h=20), ph.Weather(visibility_m=200)])
        measured(sensors[draw.choice(list(MODELS))], world, time=0.01 * number % LATEST_S, seed=number)
        if (number + 1) % max(1, count // READINGS) == 0:
            report(parts, number + 1, "measurements")
    return growth(parts, max(1, count // READINGS))


def long_scenario(duration_s: float, slow: bool) -> list[str]:
    """Run a scenario with all kinds, a bag and a Foxglove recording."""
    parts: list[dict[str, float]] = []
    with tempfile.TemporaryDirectory() as folder:
        outputs = [{"kind": "bag"}, {"kind": "foxglove"}]
        file = write_scenario(Path(folder), slow=slow, duration_s=duration_s, outputs=outputs)
        scenario = ph.Scenario.load(file)

        def progress(done: int, total: int) -> None:
            if done >= (len(parts) + 1) * total // READINGS and report(parts, done * duration_s / total, "s simulated"):
                size = sum(one.stat().st_size for one in Path(folder).rglob("*") if one.is_file())
                print(f"         {time.monotonic() - began:.0f} s, {size / 2**20:.0f} MiB written", flush=True)

        began = time.monotonic()
        scenario.run(Path(folder) / "out", progress=progress)
        print(f"{duration_s:g} s simulated in {time.monotonic() - began:.0f} s")
    return growth(parts, 10 * duration_s / READINGS)


def crowd(duration_s: float, people: int = 200) -> list[str]:
    """Let people who react walk around, and compute the parts of their bodies every second."""
    world = ph.World()
    world.add(ph.shapes.plane(100, 100), material="asphalt", label="road")
    turn = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    rings = [np.column_stack([r * np.cos(turn), r * np.sin(turn), 0.0 * turn]) for r in 15.0 + 3.0 * np.arange(8)]
    paths = [SplineMotion(ring, limits=MotionLimits(2.0, 1.0, 1.0), closed=True) for ring in rings]
    actors, parts = LiveActors(world, seed=1), []
    walks = [
        actors.walk(paths[number % 8], number / people, 1.3, 1.75, back=bool(number % 2)) for number in range(people)
    ]
    actors.begin()
    for step in range(1, round(duration_s / 0.1) + 1):
        actors.advance(0.1 * (step - 1), 0.1 * step)
        if step % 10 == 0:
            walks[0].poses(np.array([0.1 * (step - 1), 0.1 * step]))
        if step % max(1, round(10.0 * duration_s / READINGS)) == 0:
            report(parts, 0.1 * step, "s simulated")
    return growth(parts, duration_s / READINGS)


def main() -> int:
    """Run all parts, and print the problems."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--measurements", type=int, default=5000)
    options.add_argument("--scenario-s", type=float, default=3600.0)
    options.add_argument("--slow", action="store_true", help="low rates of the sensors in the scenario")
    options.add_argument("--crowd-s", type=float, default=3600.0)
    options.add_argument("--seed", type=int, default=0)
    given = options.parse_args()
    warnings.simplefilter("ignore")
    problems = measure_and_edit(given.measurements, given.seed) if given.measurements else []
    problems += long_scenario(given.scenario_s, given.slow) if given.scenario_s else []
    problems += crowd(given.crowd_s) if given.crowd_s else []
    for problem in problems:
        print(f"problem: {problem}")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
