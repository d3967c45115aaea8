"""How much faster a campaign is with more processes: 200 short runs, by one process, by two, by all cores.

    python bench/campaign.py [runs] [rounds]

Rounds alternate, since other programs may come and go; each line is the quickest of its rounds. The time is that of the
whole command's work, workers' start included; the pace is that between the tenth row and the tenth last.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from parhelion.campaign import Study, run_campaign
from parhelion.campaign.local import usable_cores

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
    """Seconds of a campaign, and rows a second while all workers are at work."""
    os.environ["PARHELION_THREADS"] = str(threads)
    at: list[float] = []
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        run_campaign(study, Path(folder), workers=workers, progress=lambda done, total: at.append(time.perf_counter()))
        total = time.perf_counter() - began
    return total, (len(at) - 21) / (at[-11] - at[10])


def main(runs: int = 200, rounds: int = 3) -> None:
    """Print a line for each way."""
    study = Study.from_mapping({"scenario": SCENARIO, "seeds": runs})
    cores = usable_cores()
    ways = list(dict.fromkeys([(1, 1), (2, 1), (1, 2), (cores, 1)]))
    best: dict[tuple[int, int], list[float]] = {}
    for _ in range(rounds):
        for way in ways:
            total, pace = timed(study, *way)
            known = best.setdefault(way, [total, pace])
            best[way] = [min(known[0], total), max(known[1], pace)]
    base = best[1, 1]
    print(f"{runs} runs of 5 scans, VLP-16, 5 sub-rays; {cores} cores, load {os.getloadavg()[0]:.1f}")
    print("| processes | threads of each | s | runs/s at work | against one process |")
    print("| ---: | ---: | ---: | ---: | ---: |")
    for (workers, threads), (total, pace) in best.items():
        against = f"{base[0] / total:.2f}, at work {pace / base[1]:.2f}"
        print(f"| {workers} | {threads} | {total:.1f} | {pace:.1f} | {against} |")


if __name__ == "__main__":
    main(*(int(word) for word in sys.argv[1:3]))
