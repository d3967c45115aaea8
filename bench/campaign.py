"""Speed-up of a campaign with more processes: 200 short runs with one process, two processes and all cores.

    python bench/campaign.py [runs] [rounds]        # 0 rounds: processor time only

Rounds alternate, because other programs may run at the same time; each line shows the fastest of its rounds. The time
covers all work of the command, including the start of the workers. The rate is measured between the tenth row and the
tenth to last.

The last line does not depend on other users of the machine. It measures the processor time of the start of a worker and
of its rows, both in one process, and of the program that distributes them. It prints the speed-up that follows for two
idle cores: (distribution + start + all rows) / (distribution + start + half of the rows). The workers are assumed to be
idle during distribution, so the measured speed-up may be slightly higher.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from parhelion.campaign import Study, run_campaign
from parhelion.campaign.campaign import job_of
from parhelion.campaign.workers import usable_cores

SCENARIO = {
    "duration_s": 0.5,
    "world": "boards-u",
    "weather": {"rain_rate_mm_h": 10},
    "sensors": [
        {"name": "top", "type": "lidar", "model": "velodyne/vlp-16", "mount": {"xyz": [0, 0, 1.5]},
         "options": {"sub_rays": 5}},
    ],
}  # fmt: skip


def timed(study: Study, workers: int, threads: int) -> tuple[float, float]:
    """Duration of a campaign [s], and rows per second while all workers are busy."""
    os.environ["PARHELION_THREADS"] = str(threads)
    at: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run_campaign(study, Path(folder), workers=workers, progress=lambda done, total: at.append(time.perf_counter()))
        total = time.perf_counter() - began
    return total, (len(at) - 21) / (at[-11] - at[10])


_WORKER = """
import sys, time
from parhelion.campaign.trial import run_job
spent = []
for job in sys.stdin:
    run_job(job)
    spent.append(time.process_time())
print(*spent)
"""


def by_processor_time(study: Study, rows: int = 41) -> tuple[float, float, float]:
    """Processor time [s] of distributing all rows, of starting a worker and of one row."""
    os.environ["PARHELION_THREADS"] = "1"
    jobs = "\n".join(job_of(study, row) for row in range(rows))
    worker = subprocess.run([sys.executable, "-c", _WORKER], input=jobs, capture_output=True, text=True, check=True)
    spent = [float(word) for word in worker.stdout.split()]
    row = (spent[-1] - spent[0]) / (len(spent) - 1)
    with tempfile.TemporaryDirectory() as folder:
        before = time.process_time()
        run_campaign(study, Path(folder), workers=1)
        return time.process_time() - before, spent[0] - row, row


def main(runs: int = 200, rounds: int = 3) -> None:
    """Print one line per configuration."""
    study = Study.from_mapping({"scenario": SCENARIO, "seeds": runs})
    cores = usable_cores()
    ways = list(dict.fromkeys([(1, 1), (2, 1), (1, 2), (cores, 1)]))
    best: dict[tuple[int, int], list[float]] = {}
    for _ in range(rounds):
        for way in ways:
            total, pace = timed(study, *way)
            known = best.setdefault(way, [total, pace])
            best[way] = [min(known[0], total), max(known[1], pace)]
    print(f"{runs} runs of 5 scans, VLP-16, 5 sub-rays; {cores} cores, load {os.getloadavg()[0]:.1f}")
    base = best.get((1, 1), [])
    if base:
        print("| processes | threads of each | s | runs/s at work | against one process |")
        print("| ---: | ---: | ---: | ---: | ---: |")
    for (workers, threads), (total, pace) in best.items():
        against = f"{base[0] / total:.2f}, at work {pace / base[1]:.2f}"
        print(f"| {workers} | {threads} | {total:.1f} | {pace:.1f} | {against} |")
    out, start, row = by_processor_time(study)
    ratio = (out + start + runs * row) / (out + start + runs / 2 * row)
    print(f"by processor time: handing out {out:.2f} s, start {start:.2f} s, a row {1e3 * row:.0f} ms: ", end="")
    print(f"two are {ratio:.2f} times as fast")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:3]))
