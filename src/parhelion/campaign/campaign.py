"""Running a campaign: rows to workers, results to pieces, pieces to one table.

    study = Study.load("study.yaml")
    summary = run_campaign(study, "out", workers=2)

A campaign that was stopped or killed goes on where it was. Its table depends on the study and the version alone: not on
the number of workers, the order in which they finished, or on how often it was stopped.
"""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib import import_module
from os import PathLike, fspath
from typing import Any

import numpy as np

from parhelion.campaign.store import TABLE, Pieces, Store, arrow, results_of, store_at, table_bytes
from parhelion.campaign.study import Study
from parhelion.campaign.summary import METHOD, SUMMARY, interval_of_mean, summary_of
from parhelion.campaign.trial import difference, identity, run_job, version_words
from parhelion.campaign.workers import DaskWorkers, LocalWorkers, usable_cores
from parhelion.core.errors import ConfigError, FormatError

# ---- Which rows are run, and when a cell has enough of them ---------------------------------------------------------
# Cells are looked at after fixed numbers of runs, in the order of their rows, whoever computed them and when. So the
# rows
# that a campaign ends with do not depend on how many workers there were.


class Plan:
    """Hands out rows, takes results, and knows when all is done."""

    def __init__(self, study: Study, results: dict[int, dict[str, Any]]) -> None:
        self._study, self.results = study, results
        """Results by row, those of earlier runs among them."""
        self._stop = study.settings.stop
        self._again: deque[int] = deque()
        self._last = [self._units if self._stop is None else min(self._units, self._stop.at_least)] * study.cells
        """By cell: units that are run before the next look."""
        self._open = [True] * study.cells
        self._fresh: Iterator[int] = iter(range(len(study))) if self._stop is None else iter(())
        self._queue: deque[int] = deque()
        self._handed: set[int] = set()
        if self._stop is not None:
            for cell in range(study.cells):
                self._queue.extend(self._rows(cell, 0, self._last[cell]))
                self._look(cell)

    # ---- units: seeds, or draws with all their seeds --------------------------------------------------------------

    @property
    def _seeds(self) -> int:
        return self._study.settings.shape[-1]

    @property
    def _units(self) -> int:
        """Independent units of a cell: draws where there are any, else seeds."""
        draws = self._study.settings.shape[-2]
        return draws if draws > 1 else self._seeds

    @property
    def _rows_a_unit(self) -> int:
        return self._seeds if self._study.settings.shape[-2] > 1 else 1

    def _rows(self, cell: int, first: int, last: int) -> range:
        """Rows of some units of a cell."""
        begin = cell * self._units * self._rows_a_unit
        return range(begin + first * self._rows_a_unit, begin + last * self._rows_a_unit)

    def _look(self, cell: int) -> None:
        """See whether a cell has runs enough, and hand out more where it has not."""
        stop = self._stop
        while stop is not None and self._open[cell]:
            rows = self._rows(cell, 0, self._last[cell])
            if any(row not in self.results for row in rows):
                return
            values = [self._number(row, stop.measure) for row in rows]
            units = np.array(values, np.float64).reshape(-1, self._rows_a_unit)
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
        """A row that is to be run now; None where none is known at the moment."""
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
        """A row that was not run after all."""
        self._handed.discard(row)
        self._again.append(row)

    def take(self, result: dict[str, Any]) -> None:
        """A result of a row that was handed out."""
        row = int(result["row"])
        self._handed.discard(row)
        self.results[row] = result
        if self._stop is not None:
            self._look(row // (self._units * self._rows_a_unit))

    @property
    def waiting(self) -> int:
        """Rows that are being run."""
        return len(self._handed)

    @property
    def planned(self) -> int:
        """Number of rows of the table, as far as is known."""
        return sum(last * self._rows_a_unit for last in self._last)

    @property
    def saved(self) -> int:
        """Rows that tight intervals made needless."""
        return len(self._study) - self.planned

    def rows(self) -> list[int]:
        """Rows of the finished table."""
        return [row for cell, last in enumerate(self._last) for row in self._rows(cell, 0, last)]


# ---- campaign -------------------------------------------------------------------------------------------------------


ABOUT = "campaign.json"
REPORT = "report.html"


Workers = LocalWorkers | DaskWorkers
"""Who runs the rows."""


@dataclass
class CampaignSummary:
    """What a campaign gave."""

    place: str
    rows: int = 0
    """Rows of the table."""
    done: int = 0
    """Rows that were run now."""
    found: int = 0
    """Rows that an earlier run had left."""
    failed: int = 0
    saved: int = 0
    """Rows that tight intervals made needless."""
    seconds: float = 0.0
    """Wall time."""
    busy_s: float = 0.0
    """Time that the rows took, all workers together."""
    first_error: str | None = None
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
    """Run what is missing of a campaign, and write its table, summary and report.

    `place` is a folder or an address that fsspec knows. `workers` is the number of processes on this machine, its cores
    by default; `dask` the address of a scheduler instead. `command` stands below the report's figures.
    """
    began = time.perf_counter()
    arrow()  # a missing package is told before anything is run
    job_of(study, 0, fspath(place))  # so is a place where a data set cannot be
    store = store_at(place)
    with store.only_writer():
        campaign = _Campaign(study, store, fspath(place), retry_failed)
        plan, summary = campaign.plan, campaign.summary
        crew: Workers | None = None
        try:
            first = plan.next_row()
            if first is not None:
                plan.hand_back(first)
                crew = _crew(workers, dask, plan.planned - summary.found, study.packages)
                _import_what_the_end_needs()
                campaign.run(crew, progress)
        finally:
            if crew is not None:
                summary.notes += crew.notes
                crew.close()
        campaign.finish(command)
    summary.seconds = time.perf_counter() - began
    return summary


def _import_what_the_end_needs() -> None:
    """Packages of the table, its intervals and the report: imported while workers start, not when they stand idle."""
    import_module("parhelion.campaign.report")
    import_module("scipy.special")
    arrow().array([0.0])  # looks for pandas, which takes longer than the table


def _crew(workers: int | None, dask: str | None, rows: int, packages: tuple[str, ...] = ()) -> Workers:
    if dask is not None:
        return DaskWorkers(dask, packages=packages)
    if workers is not None and not 1 <= workers <= 4096:
        raise ConfigError(f"workers: must be from 1 to 4096, got {workers}")
    return LocalWorkers(min(workers or usable_cores(), max(1, rows)))


class _Campaign:
    """A study in the place of its files, while it is run."""

    def __init__(self, study: Study, store: Store, place: str, retry_failed: bool) -> None:
        self.study, self.store, self.place = study, store, place
        self.about = _about(study, store, place)
        self.pieces = Pieces(store)
        results = _earlier(study, store, self.pieces, place, retry_failed)
        self.plan = Plan(study, results)
        self.summary = CampaignSummary(place, found=len(results))
        store.write(ABOUT, _json({**self.about, "complete": False}))

    def run(self, crew: Workers, progress: Callable[[int, int], None] | None) -> None:
        """Hand out rows and take results until all are there."""
        plan, summary = self.plan, self.summary
        device = next((r["device"] for r in plan.results.values() if r.get("device")), None)
        try:
            while True:
                for _ in range(crew.room):
                    row = plan.next_row()
                    if row is None:
                        break
                    crew.submit(row, job_of(self.study, row, self.place))
                if not plan.waiting:
                    # Nobody may be there to take a row just now, which is not the end.
                    row = plan.next_row()
                    if row is None:
                        return
                    plan.hand_back(row)
                for result in crew.results():
                    device = _one_device(device, result)
                    plan.take(result)
                    self.pieces.add(result)
                    summary.done += 1
                    summary.busy_s += result.get("seconds", 0.0)
                    if progress is not None:
                        progress(len(plan.results), plan.planned)
        finally:
            self.pieces.flush()

    def finish(self, command: str) -> None:
        """Write table, summary and report, and remove the pieces."""
        from parhelion.campaign.report import page_of

        study, store, summary = self.study, self.store, self.summary
        rows = self.plan.rows()
        kept = {row: self.plan.results[row] for row in rows}
        # What a worker that died could not say follows from the study.
        for result in kept.values():
            result.setdefault("version", version_words(identity()))
        if study.settings.kind == "dataset":
            from parhelion.campaign.dataset import finish_dataset

            finish_dataset(study, kept, self.place)
        store.write(TABLE, table_bytes(study, kept, rows, {**self.about, "intervals": METHOD}))
        said = summary_of(study, kept)
        store.write(SUMMARY, _json(said))
        store.write(REPORT, page_of(study, kept, said, command).encode("utf-8"))
        self.pieces.remove()
        store.write(ABOUT, _json({**self.about, "complete": True, "table_rows": len(rows)}))
        failed = [result for result in kept.values() if result["status"] != "done"]
        summary.rows, summary.failed, summary.saved = len(rows), len(failed), self.plan.saved
        summary.first_error = f"row {failed[0]['row']}: {failed[0]['error']}" if failed else None


def _one_device(device: str | None, result: dict[str, Any]) -> str | None:
    """The device of all rows: CPU and GPU agree within tolerances, not to the bit."""
    other = result.get("device")
    if device is not None and other is not None and other != device:
        raise ConfigError(
            f"row {result['row']}: worker {result.get('worker')} computed on {other}, the rows before on {device}; "
            "set PARHELION_DEVICE alike on all workers"
        )
    return device or other


def job_of(study: Study, number: int, place: str = "") -> str:
    """The job of a row, as a worker takes it."""
    row = study.row(number)
    job: dict[str, Any] = {
        "row": number,
        "scenario": study.scenario_of(row),
        "folder": str(study.folder),
        "identity": identity(study.packages),
    }
    if study.packages:
        job["packages"] = study.packages
    if study.settings.kind == "dataset":
        from parhelion.campaign.dataset import sequence_folder

        job |= {"dataset": study.settings.dataset, "into": sequence_folder(place, number)}
    else:
        job["measures"] = study.measure_names
    return json.dumps(job)


# ---- what is there ---------------------------------------------------------------------------------------------------


def _about(study: Study, store: Store, place: str) -> dict[str, Any]:
    """What decides the table; an earlier campaign in the same place must be the same."""
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
    except (ValueError, KeyError, TypeError):
        raise FormatError(f"{place}/{ABOUT}: cannot be read as that of a campaign; choose another folder") from None
    if not same_study:
        raise ConfigError(f"{place}: holds a campaign of another study; choose another folder, or remove it first")
    other = difference(about["identity"], theirs)
    if other is not None:
        raise ConfigError(
            f"{place}: holds a campaign of another version: {other.replace('this campaign', 'this program')}; "
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


# ---- one row again ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Repeated:
    """A row that was run again alone."""

    result: dict[str, Any]
    earlier: dict[str, Any] | None
    """What the table has of it; None where there is none."""

    @property
    def differences(self) -> list[str]:
        """In what the two differ, in words."""
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
    """Run one row again, in this process, and hold it to what the table or the pieces have of it."""
    job = job_of(study, row, fspath(place))
    if study.settings.kind == "dataset":
        raise ConfigError("--row is for measures; the sequences of a data set are kept as they are")
    store = store_at(place)
    earlier = _earlier(study, store, Pieces(store), fspath(place), retry_failed=False).get(row)
    return Repeated(json.loads(run_job(job)), earlier)
