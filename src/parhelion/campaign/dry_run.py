"""Dry run of a campaign: a few of its rows, and from these the time and the storage of all."""

from __future__ import annotations

import shutil
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.campaign.campaign import job_of
from parhelion.campaign.store import arrow, table_bytes
from parhelion.campaign.study import Study
from parhelion.campaign.workers import LocalWorkers, usable_cores
from parhelion.core.errors import ConfigError

_MOST_ROWS = 8
_BYTES_PER_VALUE = 10
"""Size of a value in the table, with its share of the page index; text is stored once per distinct value."""
_PAGE_BYTES, _FIGURE_BYTES, _MEAN_BYTES = 25_000, 4_500, 150
"""Size of a report without figures, of a figure, and of a mean with its interval in the summary."""
_LONG_ROW_S = 20.0


@dataclass
class Estimate:
    """Expected cost of a campaign."""

    rows: int
    cells: int
    workers: int
    tried: int = 0
    """Rows that were run for the estimate; their results are discarded."""
    row_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Shortest, mean and longest time [s] of the rows that were run."""
    start_s: float = 0.0
    """Time [s] of the first row of each worker, with its start."""
    storage_bytes: int = 0
    free_bytes: int | None = None
    """Free space at the output, if it is a folder on this machine."""
    errors: list[str] = field(default_factory=list)

    @property
    def seconds(self) -> float:
        """Wall time of all rows."""
        return self.start_s + self.rows * self.row_s[1] / self.workers


def dry_run(
    study: Study,
    place: str | None = None,
    *,
    workers: int | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Estimate:
    """Run a few rows, spread over the study, and estimate the whole; nothing is written to `place`.

    The rows run in as many processes as the campaign would have, because these share the cores and the memory. A study
    that stops early may need less.
    """
    arrow()  # report a missing package before anything is run
    count = min(workers or usable_cores(), len(study))
    chosen = np.unique(np.linspace(0, len(study) - 1, min(len(study), _MOST_ROWS, max(3, count))).astype(int)).tolist()
    estimate = Estimate(len(study), int(np.prod([len(v) for v in study.settings.grid.values()] or [1])), count)
    crew: LocalWorkers | None = None
    with tempfile.TemporaryDirectory() as folder:
        jobs = {row: job_of(study, row, folder) for row in chosen}
        began = time.perf_counter()
        try:
            crew = LocalWorkers(min(count, len(chosen)))
            results = _run(crew, jobs, progress)
            estimate.start_s = time.perf_counter() - began
            if all(result.get("seconds", 0.0) < _LONG_ROW_S for result in results.values()):
                # The first row of a worker includes the compilation of its kernels; once more without.
                shutil.rmtree(folder)
                results = _run(crew, jobs, progress)
        finally:
            if crew is not None:
                crew.close()
        estimate.storage_bytes = _storage(study, results, Path(folder))
    done = {row: result for row, result in results.items() if result["status"] == "done"}
    estimate.errors = [f"row {row}: {one['error']}" for row, one in sorted(results.items()) if row not in done]
    if not done:
        raise ConfigError(f"{study.source}: no row of the dry run succeeded; {estimate.errors[0]}")
    needed = [float(result["seconds"]) for result in done.values()]
    estimate.tried, estimate.row_s = len(results), (min(needed), float(np.mean(needed)), max(needed))
    if place is not None and "://" not in place:
        at = Path(place).resolve()
        while not at.exists():
            at = at.parent
        estimate.free_bytes = shutil.disk_usage(at).free
    return estimate


def _run(
    crew: LocalWorkers, jobs: dict[int, str], progress: Callable[[int, int], None] | None
) -> dict[int, dict[str, Any]]:
    """Results of jobs by row."""
    results: dict[int, dict[str, Any]] = {}
    for row, job in jobs.items():
        crew.submit(row, job)
    while len(results) < len(jobs):
        for result in crew.results():
            results[int(result["row"])] = result
            if progress is not None:
                progress(len(results), len(jobs))
    return results


def _storage(study: Study, results: dict[int, dict[str, Any]], folder: Path) -> int:
    """Size [bytes] of all files of the campaign: table, and sequences of a data set."""
    for result in results.values():
        result.setdefault("version", "")
    table = len(table_bytes(study, results, sorted(results), {}))
    columns = len(study.numbers) + len(study.settings.vary) + 6
    cells = int(np.prod([len(v) for v in study.settings.grid.values()] or [1]))
    pages = _PAGE_BYTES + len(study.numbers) * (_FIGURE_BYTES * len(study.settings.vary) + _MEAN_BYTES * cells)
    files = sum(file.stat().st_size for file in folder.rglob("*") if file.is_file())
    return (
        pages
        + table
        + (len(study) - len(results)) * columns * _BYTES_PER_VALUE
        + round(files / len(results) * len(study))
    )
