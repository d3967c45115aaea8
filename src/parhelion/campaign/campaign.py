"""Execution of a campaign: rows to workers, results to pieces, pieces to one table.

    study = Study.load("study.yaml")
    summary = run_campaign(study, "out", workers=2)

A campaign that was stopped or killed continues where it was. The table depends on study and version only, not on
the number of workers, the order in which they finish, or the number of interruptions.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike, fspath
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.campaign.store import TABLE, Pieces, Store, arrow, results_of, store_at, table_bytes
from parhelion.campaign.study import Study, StudyRow
from parhelion.campaign.summary import METHOD, SUMMARY, interval_of_mean, summary_of, validity_of_rows
from parhelion.campaign.trial import difference, identity, run_job, version_words
from parhelion.campaign.workers import DaskWorkers, LocalWorkers, usable_cores
from parhelion.core.errors import ConfigError, FormatError
from parhelion.sensors.optics.lidar.validity import Validity

if TYPE_CHECKING:
    from parhelion.campaign.dataset import SequenceFiles

# ---- Schedule of rows, and stopping of cells ------------------------------------------------------------------------
# Cells are evaluated after fixed numbers of runs in row order, independent of who computed them and when. The rows of a
# finished campaign therefore do not depend on the number of workers.


class Plan:
    """Schedule that hands out rows, takes results, and decides when the campaign is complete."""

    def __init__(self, study: Study, results: dict[int, dict[str, Any]]) -> None:
        self._study, self.results = study, results
        """Results by row, including those of earlier runs."""
        self._stop = study.settings.stop
        self._again: deque[int] = deque()
        self._last = [self._units if self._stop is None else min(self._units, self._stop.at_least)] * study.cells
        """Units to run before the next evaluation, per cell."""
        self._open = [True] * study.cells
        self._fresh: Iterator[int] = iter(range(len(study))) if self._stop is None else iter(())
        self._queue: deque[int] = deque()
        self._handed: set[int] = set()
        if self._stop is not None:
            for cell in range(study.cells):
                self._queue.extend(self._rows(cell, 0, self._last[cell]))
                self._evaluate(cell)

    # ---- units: seeds, or draws with all their seeds --------------------------------------------------------------

    @property
    def _seeds(self) -> int:
        return self._study.settings.shape[-1]

    @property
    def _units(self) -> int:
        """Number of independent units of a cell: draws if there are any, otherwise seeds."""
        draws = self._study.settings.shape[-2]
        return draws if draws > 1 else self._seeds

    @property
    def _rows_per_unit(self) -> int:
        return self._seeds if self._study.settings.shape[-2] > 1 else 1

    def _rows(self, cell: int, first: int, last: int) -> range:
        """Rows of a range of units of a cell."""
        begin = cell * self._units * self._rows_per_unit
        return range(begin + first * self._rows_per_unit, begin + last * self._rows_per_unit)

    def _evaluate(self, cell: int) -> None:
        """Test whether a cell has enough runs, and queue more if not."""
        stop = self._stop
        while stop is not None and self._open[cell]:
            rows = self._rows(cell, 0, self._last[cell])
            if any(row not in self.results for row in rows):
                return
            values = [self._number(row, stop.measure) for row in rows]
            units = np.array(values, np.float64).reshape(-1, self._rows_per_unit)
            known = np.isfinite(units)
            means = np.where(known, units, 0.0).sum(axis=1) / np.where(known.any(axis=1), known.sum(axis=1), np.nan)
            found = interval_of_mean(means.tolist(), stop.confidence, stop.measure)
            if found.half_width <= stop.half_width or self._last[cell] >= self._units:
                self._open[cell] = False
                return
            before, self._last[cell] = self._last[cell], min(self._units, self._last[cell] + stop.every)
            self._queue.extend(self._rows(cell, before, self._last[cell]))

    def _number(self, row: int, name: str) -> float:
        value = self.results[row].get("numbers", {}).get(name)
        return np.nan if value is None else float(value)

    # ---- rows ---------------------------------------------------------------------------------------------------

    def next_row(self) -> int | None:
        """Next row to run; None if there is none at the moment."""
        while self._again or self._queue:
            row = self._again.popleft() if self._again else self._queue.popleft()
            if row not in self.results:
                self._handed.add(row)
                return row
        for row in self._fresh:
            if row not in self.results:
                self._handed.add(row)
                return row
        return None

    def hand_back(self, row: int) -> None:
        """Return a row that was not run."""
        self._handed.discard(row)
        self._again.append(row)

    def take(self, result: dict[str, Any]) -> None:
        """Store the result of a row that was handed out."""
        row = int(result["row"])
        self._handed.discard(row)
        self.results[row] = result
        if self._stop is not None:
            self._evaluate(row // (self._units * self._rows_per_unit))

    @property
    def waiting(self) -> int:
        """Number of rows that are running."""
        return len(self._handed)

    @property
    def planned(self) -> int:
        """Number of rows of the table, as currently known."""
        return sum(last * self._rows_per_unit for last in self._last)

    @property
    def saved(self) -> int:
        """Number of rows saved by early stopping."""
        return len(self._study) - self.planned

    def rows(self) -> list[int]:
        """Rows of the finished table."""
        return [row for cell, last in enumerate(self._last) for row in self._rows(cell, 0, last)]


# ---- campaign -------------------------------------------------------------------------------------------------------


ABOUT = "campaign.json"
REPORT = "report.html"


Workers = LocalWorkers | DaskWorkers
"""Executors of rows."""


@dataclass
class CampaignSummary:
    """Outcome of a campaign."""

    place: str
    rows: int = 0
    """Number of rows of the table."""
    done: int = 0
    """Rows that were run now."""
    found: int = 0
    """Rows from an earlier run."""
    failed: int = 0
    saved: int = 0
    """Rows saved by early stopping."""
    seconds: float = 0.0
    """Wall time [s]."""
    busy_s: float = 0.0
    """Run time of all rows, summed over workers [s]."""
    first_error: str | None = None
    weather_validity: dict[str, dict[str, Validity]] = field(default_factory=dict)
    """Lowest validity of each graded sensor in each medium, by name of sensor and medium."""
    notes: list[str] = field(default_factory=list)


def run_campaign(
    study: Study,
    place: str | PathLike[str],
    *,
    workers: int | None = None,
    dask: str | None = None,
    retry_failed: bool = False,
    progress: Callable[[int, int], None] | None = None,
    command: str = "",
) -> CampaignSummary:
    """Run the missing rows of a campaign, and write its table, summary and report.

    `place` is a folder or fsspec address. `workers` is the number of processes on this machine, by default the number
    of cores; `dask` is the address of a scheduler to use instead. `command` is printed below the figures of the report.
    """
    began = time.perf_counter()
    arrow()  # report a missing package before anything is run
    job_of(study, 0, fspath(place))  # and a place that cannot hold a data set
    store = store_at(place)
    with store.only_writer():
        campaign = _Campaign(study, store, fspath(place), retry_failed)
        plan, summary = campaign.plan, campaign.summary
        crew: Workers | None = None
        try:
            first = plan.next_row()
            if first is not None:
                plan.hand_back(first)
                crew = crew_of(workers, dask, plan.planned - summary.found, study.packages)
                _import_packages_of_the_report()
                campaign.run(crew, progress)
        finally:
            if crew is not None:
                summary.notes += crew.notes
                crew.close()
        campaign.finish(command)
    summary.seconds = time.perf_counter() - began
    return summary


def _import_packages_of_the_report() -> None:
    """Import the packages of table, intervals and report while workers start, instead of when they are idle."""
    import_module("parhelion.campaign.report")
    import_module("scipy.special")
    arrow().array([0.0])  # imports pandas, which takes longer than the table


def crew_of(workers: int | None, dask: str | None, rows: int, packages: tuple[str, ...] = ()) -> Workers:
    """Workers of a Dask scheduler, or processes on this machine."""
    if dask is not None:
        return DaskWorkers(dask, packages=packages)
    if workers is not None and not 1 <= workers <= 4096:
        raise ConfigError(f"workers: must be from 1 to 4096, got {workers}")
    return LocalWorkers(min(workers or usable_cores(), max(1, rows)))


class _Campaign:
    """Running study and the location of its files."""

    def __init__(self, study: Study, store: Store, place: str, retry_failed: bool) -> None:
        self.study, self.store, self.place = study, store, place
        self.about = _about(study, store, place)
        self.pieces = Pieces(store)
        results = _earlier(study, store, self.pieces, place, retry_failed)
        self.files: SequenceFiles | None = None
        again = 0
        if study.settings.kind == "dataset":
            from parhelion.campaign.dataset import SequenceFiles

            self.files = SequenceFiles(Path(place), str(study.settings.dataset), self.about)
            done = [row for row, result in results.items() if result["status"] == "done"]
            damaged = set(done) - set(self.files.keep(done))
            again = len(damaged)
            results = {row: result for row, result in results.items() if row not in damaged}
        self.plan = Plan(study, results)
        self.summary = CampaignSummary(place, found=len(results))
        if again:
            self.summary.notes.append(f"rows run again because their files are missing or differ: {again}")
        store.write(ABOUT, _json({**self.about, "complete": False}))

    def run(self, crew: Workers, progress: Callable[[int, int], None] | None) -> None:
        """Hand out rows and take results until all are complete."""
        plan, summary = self.plan, self.summary
        device = next((r["device"] for r in plan.results.values() if r.get("device")), None)
        try:
            while True:
                for _ in range(crew.capacity):
                    row = plan.next_row()
                    if row is None:
                        break
                    crew.submit(row, job_of(self.study, row, self.place))
                if not plan.waiting:
                    # No worker may be free at the moment; this is not the end.
                    row = plan.next_row()
                    if row is None:
                        return
                    plan.hand_back(row)
                for result in crew.results():
                    device = same_device(device, result)
                    if self.files is not None and result["status"] == "done":
                        self.files.add(int(result["row"]))
                    plan.take(result)
                    self.pieces.add(result)
                    summary.done += 1
                    summary.busy_s += result.get("seconds", 0.0)
                    if progress is not None:
                        progress(len(plan.results), plan.planned)
        except BaseException:
            if self.files is not None:
                self.files.close()
            raise
        finally:
            self.pieces.flush()

    def finish(self, command: str) -> None:
        """Write table, summary and report, and remove the pieces."""
        from parhelion.campaign.report import page_of

        study, store, summary = self.study, self.store, self.summary
        rows = self.plan.rows()
        kept = {row: self.plan.results[row] for row in rows}
        # Fields that a dead worker did not report follow from the study.
        for result in kept.values():
            result.setdefault("version", version_words(identity()))
        if study.settings.kind == "dataset":
            from parhelion.campaign.dataset import finish_dataset

            finish_dataset(study, kept, self.place)
        store.write(TABLE, table_bytes(study, kept, rows, {**self.about, "intervals": METHOD}))
        means = summary_of(study, kept)
        store.write(SUMMARY, _json(means))
        store.write(REPORT, page_of(study, kept, means, command).encode("utf-8"))
        self.pieces.remove()
        store.write(ABOUT, _json({**self.about, "complete": True, "table_rows": len(rows)}))
        if self.files is not None:
            self.files.finish()
        failed = [result for result in kept.values() if result["status"] != "done"]
        summary.weather_validity = validity_of_rows(kept, kept)
        summary.rows, summary.failed, summary.saved = len(rows), len(failed), self.plan.saved
        summary.first_error = f"row {failed[0]['row']}: {failed[0]['error']}" if failed else None


def same_device(device: str | None, result: dict[str, Any]) -> str | None:
    """Device of all rows, which must be the same: CPU and GPU agree within tolerances, not to the bit."""
    other = result.get("device")
    if device is not None and other is not None and other != device:
        raise ConfigError(
            f"row {result['row']}: worker {result.get('worker')} computed on {other}, the previous rows on {device}; "
            "set PARHELION_DEVICE to the same value on all workers"
        )
    return device or other


def job_of(study: Study, number: int, place: str = "") -> str:
    """Job of a row as JSON text for a worker."""
    return job_of_row(study, study.row(number), place)


def job_of_row(study: Study, row: StudyRow, place: str = "") -> str:
    """Job of any row, whose values need not be among those of the study."""
    job: dict[str, Any] = {
        "row": row.number,
        "scenario": study.scenario_of(row),
        "folder": str(study.folder),
        "identity": identity(study.packages),
    }
    if study.packages:
        job["packages"] = study.packages
    if study.settings.kind == "dataset":
        from parhelion.campaign.dataset import sequence_folder

        job |= {"dataset": study.settings.dataset, "into": sequence_folder(place, row.number)}
    else:
        job["measures"] = study.measure_names
    return json.dumps(job)


# ---- existing files --------------------------------------------------------------------------------------------------


def _about(study: Study, store: Store, place: str) -> dict[str, Any]:
    """Metadata that determines the table; an earlier campaign in the same place must have the same."""
    about: dict[str, Any] = {
        "study": study.title,
        "study_sha256": study.sha256,
        "identity": identity(study.packages),
        "rows": len(study),
    }
    data = store.read(ABOUT)
    if data is None:
        return about
    try:
        earlier = json.loads(data)
        same_study, theirs = earlier["study_sha256"] == study.sha256, dict(earlier["identity"])
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FormatError(f"{place}/{ABOUT}: is not that of a campaign; choose another folder") from None
    if not same_study:
        raise ConfigError(f"{place}: contains a campaign of another study; choose another folder, or remove it first")
    other = difference(about["identity"], theirs)
    if other is not None:
        raise ConfigError(
            f"{place}: contains a campaign of another version: {other.replace('this campaign', 'this program')}; "
            "choose another folder, or remove it first"
        )
    return about


def _earlier(study: Study, store: Store, pieces: Pieces, place: str, retry_failed: bool) -> dict[int, dict[str, Any]]:
    table = store.read(TABLE)
    found = {} if table is None else results_of(table, f"{place}/{TABLE}", study.numbers)
    found |= pieces.load()
    return {
        row: result
        for row, result in found.items()
        if 0 <= row < len(study) and not (retry_failed and result["status"] == "failed")
    }


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


# ---- repetition of one row -------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repeated:
    """Row that was run again alone."""

    result: dict[str, Any]
    earlier: dict[str, Any] | None
    """Result in the table; None if there is none."""

    @property
    def differences(self) -> list[str]:
        """Differences between the two results, as text."""
        if self.earlier is None:
            return []
        found = []
        for name in ("status", "error", "scenario_sha256", "version", "device"):
            if self.result.get(name) != self.earlier.get(name):
                found.append(f"{name}: {self.result.get(name)} now, {self.earlier.get(name)} in the table")
        now, then = self.result.get("numbers", {}), self.earlier.get("numbers", {})
        for name in then:
            if now.get(name) != then[name]:
                found.append(f"{name}: {now.get(name)} now, {then[name]} in the table")
        return found


def repeat_row(study: Study, place: str | PathLike[str], row: int) -> Repeated:
    """Run one row again in this process, and compare it with the result in the table or the pieces."""
    job = job_of(study, row, fspath(place))
    if study.settings.kind == "dataset":
        raise ConfigError("--row applies to measures; the sequences of a data set are kept unchanged")
    store = store_at(place)
    earlier = _earlier(study, store, Pieces(store), fspath(place), retry_failed=False).get(row)
    return Repeated(json.loads(run_job(job)), earlier)
