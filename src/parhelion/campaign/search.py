"""Search for the mildest conditions that break a measure.

    search = Search.load("study.yaml")
    found = run_search(search, "out")
    found.values                       # {"weather.rain_rate_mm_h": 31.2}

Each field has a range from mild to severe. The severity of a point is 0 at the mild ends and 1 at the severe end of one
field; that of several fields is the length of the vector of their severities. Along a direction, the boundary between
points that hold and points that break is found by bisection, which presumes that more severe conditions do not repair
what milder ones broke. Optuna proposes the directions (tree-structured Parzen estimator, Bergstra et al. 2011), and a
direction that holds at the best severity so far costs a single point.
"""

from __future__ import annotations

import hashlib
import json
import math
import os
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from os import PathLike, fspath
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from parhelion.campaign.campaign import Workers, crew_of, job_of_row, same_device
from parhelion.campaign.measures import measures
from parhelion.campaign.store import store_at
from parhelion.campaign.study import Count, Share, Study, StudyFile, StudyRow
from parhelion.campaign.trial import difference, identity
from parhelion.core import config
from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError, unknown_name
from parhelion.core.pose import Floats
from parhelion.scenario.motions import Seed

RUNS, SUMMARY, REPORT, REPLAYS = "runs.json", "search.json", "report.html", "replay"
INSTALL = "pip install 'parhelion[search]'"
_FINEST = 1.0 / 1024.0
"""Smallest step of severity."""


# ---- file -----------------------------------------------------------------------------------------------------------


class SearchAxis(Config):
    """Range of a field of the scenario, from harmless to severe."""

    mild: float
    severe: float
    scale: Literal["linear", "log"] = "linear"
    """Scale on which severity increases; `log` suits visibility or probabilities."""
    whole: bool = False
    """Round values to integers."""

    @model_validator(mode="after")
    def _makes_sense(self) -> SearchAxis:
        if self.mild == self.severe:
            raise ValueError(f"mild and severe must differ, both are {self.mild:g}")
        if self.scale == "log" and min(self.mild, self.severe) <= 0:
            raise ValueError("scale: log needs values above 0")
        return self

    def at(self, severity: float) -> float:
        """Value at a severity from 0 to 1."""
        if self.scale == "log":
            value = self.mild * (self.severe / self.mild) ** severity
        else:
            value = self.mild + severity * (self.severe - self.mild)
        return round(value) if self.whole else float(f"{value:.6g}")


_LIMITS = ("above", "below", "rises_by", "falls_by")


class Failure(Config):
    """When a point counts as broken: exactly one limit is given."""

    measure: str
    """Number of a measure, such as drift_percent."""
    above: float | None = None
    """The number is above this value."""
    below: float | None = None
    """The number is below this value."""
    rises_by: float | None = None
    """The number is higher than with the same seed at the mild ends, by more than this."""
    falls_by: float | None = None
    """The number is lower than with the same seed at the mild ends, by more than this."""
    share: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Share of the seeds that must break. A run without the number, such as one that lost its track, counts as
    broken."""

    @model_validator(mode="after")
    def _one_limit(self) -> Failure:
        given = [name for name in _LIMITS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(_LIMITS)}; got {' and '.join(given) or 'none'}")
        for name in ("rises_by", "falls_by"):
            change = getattr(self, name)
            if change is not None and change <= 0:
                raise ValueError(f"{name}: must be above 0, got {change:g}")
        return self

    def limit(self, mild: float) -> float:
        """Value of the number at which a run breaks, from its value at the mild ends."""
        for value in (self.above, self.below):
            if value is not None:
                return value
        return mild + (self.rises_by or 0.0) - (self.falls_by or 0.0)

    def excess(self, number: float, mild: float) -> float:
        """Distance of a number beyond its limit, in its own unit; NaN counts as infinitely far."""
        if math.isnan(number):
            return math.inf
        upward = self.above is not None or self.rises_by is not None
        return (number - self.limit(mild)) * (1.0 if upward else -1.0)

    @property
    def in_words(self) -> str:
        """The condition as text: 'drift_percent above 1'."""
        name = next(name for name in _LIMITS if getattr(self, name) is not None)
        return f"{self.measure} {name.replace('_', ' ')} {getattr(self, name):g}"


class SearchFile(Config):
    """Contents of a search file."""

    name: str = ""
    scenario: str | dict[str, Any]
    """Scenario file relative to the folder of this file, or its contents."""
    search: Annotated[dict[str, SearchAxis], Field(min_length=1, max_length=16)]
    """Ranges of fields, by their path in the scenario."""
    breaks: Failure
    """Condition for a broken run."""
    seeds: Count | Annotated[list[Seed], Field(min_length=1)] = 1
    """Seeds of the scenario at every point: their number, counted from 0, or a list."""
    points: Annotated[int, Field(ge=3, le=100_000)] = 40
    """Largest number of points; each runs once per seed."""
    tolerance: Share = 0.01
    """Relative uncertainty of the severity found, at which the search ends along a direction."""
    seed: Seed = 0
    """Seed of the directions."""


@dataclass(frozen=True)
class TriedPoint:
    """Conditions that were tried."""

    severity: tuple[float, ...]
    """Severity of each field, 0 to 1."""
    values: dict[str, Any]
    numbers: tuple[float, ...]
    """The number of each seed; NaN where a run has none."""
    broken: tuple[bool, ...]
    """Verdict on the run of each seed."""
    breaks: bool
    nearness: float
    """0 at the mild ends, 1 at the limit and beyond, as the mean over seeds."""

    @property
    def total(self) -> float:
        """Severity of the point."""
        return math.hypot(*self.severity)


# ---- search ---------------------------------------------------------------------------------------------------------


@dataclass
class _Budget:
    """Points that may still be tried."""

    left: int

    def spend(self) -> bool:
        self.left -= 1
        return self.left >= 0


Breaks = Callable[[Floats], TriedPoint]
"""Runs a point of given severities."""


def mildest(axes: int, run: Breaks, *, points: int, tolerance: float, seed: int) -> TriedPoint | None:
    """Mildest point that breaks, by bisection along directions that Optuna proposes; None if none was found."""
    budget, best = _Budget(points), None
    for direction, report in _directions(axes, seed):
        edge = 1.0 / float(direction.max())
        reach = edge if best is None else min(edge, best.total * (1.0 - tolerance))
        if not budget.spend():
            break
        at_reach = run(direction * reach)
        if at_reach.breaks:
            best = _bisected(direction, at_reach, run, tolerance, budget)
            report(best.total)
        else:
            # Directions that hold rank behind those that break, by how near they came to breaking.
            report(2.0 * math.sqrt(axes) - at_reach.nearness)
        if axes == 1:
            break
    return best


def _bisected(direction: Floats, broken: TriedPoint, run: Breaks, tolerance: float, budget: _Budget) -> TriedPoint:
    """Mildest point along a direction that breaks, below one that does."""
    holds = 0.0
    while broken.total - holds > max(tolerance * broken.total, _FINEST) and budget.spend():
        middle = 0.5 * (holds + broken.total)
        tried = run(direction * middle)
        if tried.breaks:
            broken = tried
        else:
            holds = middle
    return broken


def _directions(axes: int, seed: int) -> Iterator[tuple[Floats, Callable[[float], None]]]:
    """Unit vectors of severities without end, each with a function that takes the severity found along it."""
    if axes == 1:
        yield np.ones(1), lambda _: None
        return
    try:
        import optuna
    except ImportError:
        raise MissingDependencyError(f"a search over several fields needs Optuna; run {INSTALL}") from None
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(sampler=optuna.samplers.TPESampler(seed=seed % 2**32, n_startup_trials=2 * axes + 2))
    for start in (*np.eye(axes), np.ones(axes)):  # each field alone, then all together
        study.enqueue_trial({str(k): float(value) for k, value in enumerate(start)})
    while True:
        trial = study.ask()
        weights = np.array([trial.suggest_float(str(k), 0.0, 1.0) for k in range(axes)])
        length = float(np.linalg.norm(weights))

        def report(value: float, trial: Any = trial) -> None:
            study.tell(trial, value)  # wording: ok

        yield (weights / length if length > 1e-6 else np.full(axes, axes**-0.5)), report


def mildest_of_grid(axes: int, run: Breaks, *, points: int) -> TriedPoint | None:
    """Mildest point of a regular grid that breaks; the grid has at most this number of points."""
    steps = max(2, math.floor(points ** (1.0 / axes) + 1e-9))
    grid = np.stack(np.meshgrid(*[np.linspace(0.0, 1.0, steps)] * axes, indexing="ij"), axis=-1).reshape(-1, axes)
    broken = [point for severity in grid if (point := run(severity)).breaks]
    return min(broken, key=lambda point: point.total, default=None)


# ---- runs -----------------------------------------------------------------------------------------------------------


class Search:
    """Validated search; `folder` contains its files, `source` is its name in error messages."""

    def __init__(self, settings: SearchFile, folder: str | PathLike[str] = ".", source: str = "search") -> None:
        self.settings, self.source = settings, source
        fields = {
            "name": settings.name,
            "scenario": settings.scenario,
            "vary": {path: [axis.at(0.0), axis.at(1.0)] for path, axis in settings.search.items()},
            "seeds": settings.seeds,
            "measures": [_measure_with(settings.breaks.measure, source)],
        }
        self.study = Study(config.parse(StudyFile, fields, source), folder, source)
        if settings.breaks.measure not in self.study.numbers:
            error = unknown_name("number", settings.breaks.measure, self.study.numbers)
            raise ConfigError(f"{source}: breaks.measure: {error}")

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Search:
        """Read a search file."""
        file = Path(path)
        return cls(config.load(SearchFile, file), file.parent, str(path))

    @classmethod
    def from_mapping(cls, fields: dict[str, Any], folder: str | PathLike[str] = ".") -> Search:
        """Create a search from the fields of a search file."""
        return cls(config.parse(SearchFile, fields, "search"), folder)

    def values_at(self, severity: Sequence[float]) -> dict[str, Any]:
        """Values of the fields at severities from 0 to 1."""
        axes = self.settings.search.items()
        return {path: axis.at(float(s)) for (path, axis), s in zip(axes, severity, strict=True)}

    def scenario_at(self, values: dict[str, Any], seed: int) -> dict[str, Any]:
        """Fields of the scenario of a run."""
        return self.study.scenario_of(StudyRow(0, 0, 0, seed, values))

    @property
    def sha256(self) -> str:
        """Hash of everything that determines the numbers of a run."""
        text = json.dumps([self.study.base, self.study.measure_names], sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def _measure_with(number: str, source: str) -> str:
    """Name of the measure that gives a number; of a scenario with several lidars, 'NAME.number'."""
    plain = number.rpartition(".")[2]
    found = {one.name: name for name, measure in measures().items() for one in measure.gives}
    if plain not in found:
        raise ConfigError(f"{source}: breaks.measure: {unknown_name('number', plain, found)}")
    return found[plain]


@dataclass
class SearchSummary:
    """Outcome of a search."""

    place: str
    mild: TriedPoint
    """The mild ends of all fields."""
    found: TriedPoint | None
    """Mildest point that breaks; None if none was found."""
    holds: TriedPoint | None
    """Most severe point that holds and is milder than the one found, along all fields."""
    points: list[TriedPoint] = field(default_factory=list)
    runs: int = 0
    """Runs made now; others are from an earlier search in the same place."""
    replays: list[str] = field(default_factory=list)
    """Scenarios of the broken runs, by their names in the folder."""

    @property
    def values(self) -> dict[str, Any]:
        """Values of the mildest point that breaks; empty if none was found."""
        return {} if self.found is None else self.found.values


def run_search(
    search: Search,
    place: str | PathLike[str],
    *,
    method: Literal["search", "grid"] = "search",
    workers: int | None = None,
    dask: str | None = None,
    progress: Callable[[int, int], None] | None = None,
    command: str = "",
) -> SearchSummary:
    """Find the mildest point that breaks, and write its scenarios, a summary and a report.

    Runs of an interrupted search in the same folder are used again. `method` may be a regular grid with the same number
    of points, for comparison.
    """
    settings = search.settings
    store = store_at(place)
    with store.only_writer(), _Runs(search, store, fspath(place), workers, dask, progress) as runs:
        axes = len(settings.search)
        mild = runs.point(np.zeros(axes))
        found: TriedPoint | None = mild
        if not mild.breaks and method == "grid":
            found = mildest_of_grid(axes, runs.point, points=settings.points - 1)
        elif not mild.breaks:
            found = mildest(
                axes, runs.point, points=settings.points - 1, tolerance=settings.tolerance, seed=settings.seed
            )
        tried = runs.points
        milder = [one for one in tried if not one.breaks and found is not None and _milder(one, found)]
        summary = SearchSummary(fspath(place), mild, found, max(milder, key=lambda one: one.total, default=None), tried)
        summary.runs = runs.done
        _write(search, summary, store, command)
    return summary


def _milder(one: TriedPoint, other: TriedPoint) -> bool:
    return all(a <= b for a, b in zip(one.severity, other.severity, strict=True))


class _Runs:
    """Runs of points on workers, with those of an earlier search."""

    def __init__(
        self,
        search: Search,
        store: Any,
        place: str,
        workers: int | None,
        dask: str | None,
        progress: Callable[[int, int], None] | None,
    ) -> None:
        self._search, self._store, self._progress = search, store, progress
        self._about = {"search_sha256": search.sha256, "identity": identity(search.study.packages)}
        self._known = _earlier(store, self._about, place)
        self._workers, self._dask = workers, dask
        self._crew: Workers | None = None
        self._device: str | None = None
        self.points: list[TriedPoint] = []
        """Points in the order in which they were tried, each once."""
        self.done = 0

    def __enter__(self) -> _Runs:
        return self

    def __exit__(self, *_: object) -> None:
        if self._crew is not None:
            self._crew.close()

    def point(self, severity: Floats) -> TriedPoint:
        """A point of given severities, run with all seeds."""
        search = self._search
        values = search.values_at(severity.tolist())
        tried = next((one for one in self.points if one.values == values), None)
        if tried is not None:
            return tried
        seeds = search.study.settings.seed_list
        keys = [json.dumps([values, seed]) for seed in seeds]
        missing = {row: key for row, key in enumerate(keys) if key not in self._known}
        if missing:
            self._run({row: StudyRow(row, 0, 0, seeds[row], values) for row in missing}, missing)
        numbers = [math.nan if self._known[key] is None else float(self._known[key]) for key in keys]
        found = self._judged(tuple(severity.tolist()), values, numbers)
        self.points.append(found)
        if self._progress is not None:
            self._progress(len(self.points), search.settings.points)
        return found

    def _run(self, rows: dict[int, StudyRow], keys: dict[int, str]) -> None:
        study, name = self._search.study, self._search.settings.breaks.measure
        if self._crew is None:
            self._crew = crew_of(self._workers, self._dask, len(study.settings.seed_list), study.packages)
        crew, waiting = self._crew, dict(rows)
        for number, row in rows.items():
            crew.submit(number, job_of_row(study, row))
        while waiting:
            for result in crew.results():
                row = waiting.pop(int(result["row"]))
                if result["status"] != "done":
                    shown = ", ".join(f"{path} = {value}" for path, value in row.values.items())
                    raise ConfigError(f"{self._search.source}: {shown}, seed {row.seed}: {result['error']}")
                self._device = same_device(self._device, result)
                self._known[keys[row.number]] = result["numbers"].get(name)
                self.done += 1
        self._store.write(RUNS, _json({**self._about, "numbers": self._known}))

    def _judged(self, severity: tuple[float, ...], values: dict[str, Any], numbers: list[float]) -> TriedPoint:
        """Point with its verdict, from its numbers and those at the mild ends."""
        breaks, mild = self._search.settings.breaks, self.points[0].numbers if self.points else tuple(numbers)
        if not self.points and any(map(math.isnan, mild)):
            raise ConfigError(
                f"{self._search.source}: {breaks.measure} has no value at the mild ends; is the scenario too short?"
            )
        excess = [breaks.excess(number, before) for number, before in zip(numbers, mild, strict=True)]
        broken = tuple(one > 0 for one in excess)
        spans = [max(-breaks.excess(before, before), 1e-300) for before in mild]
        near = [float(np.clip(1.0 + one / span, 0.0, 1.0)) for one, span in zip(excess, spans, strict=True)]
        share = sum(broken) / len(broken)
        return TriedPoint(severity, values, tuple(numbers), broken, share >= breaks.share, float(np.mean(near)))


def _earlier(store: Any, about: dict[str, Any], place: str) -> dict[str, Any]:
    """Numbers of an earlier search in the same place, by values and seed."""
    data = store.read(RUNS)
    if data is None:
        return {}
    try:
        content = json.loads(data)
        same, theirs, numbers = (
            content["search_sha256"] == about["search_sha256"],
            content["identity"],
            content["numbers"],
        )
        known = {str(key): None if value is None else float(value) for key, value in numbers.items()}
        other = difference(about["identity"], dict(theirs))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError):
        raise FormatError(f"{place}/{RUNS}: is not that of a search; choose another folder") from None
    if not same:
        raise ConfigError(f"{place}: contains a search of another scenario; choose another folder, or remove it first")
    if other is not None:
        raise ConfigError(
            f"{place}: contains a search of another version: {other.replace('this campaign', 'this program')}; "
            "choose another folder, or remove it first"
        )
    return known


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, sort_keys=True) + "\n").encode()


# ---- files ----------------------------------------------------------------------------------------------------------


def _write(search: Search, summary: SearchSummary, store: Any, command: str) -> None:
    from parhelion.campaign.report import page_of_search

    found = summary.found
    if found is not None:
        folder = store.folder / REPLAYS if hasattr(store, "folder") else None
        for seed, broken in zip(search.study.settings.seed_list, found.broken, strict=True):
            if broken:
                name = f"{REPLAYS}/seed-{seed}.yaml"
                store.write(name, _replay(search, found, seed, folder))
                summary.replays.append(name)
    store.write(SUMMARY, _json(as_plain(search, summary)))
    store.write(REPORT, page_of_search(search, summary, command).encode())


def as_plain(search: Search, summary: SearchSummary) -> dict[str, Any]:
    """Summary as JSON."""

    def plain(point: TriedPoint | None) -> dict[str, Any] | None:
        if point is None:
            return None
        numbers = [None if math.isnan(one) else one for one in point.numbers]
        return {"values": point.values, "severity": point.total, "numbers": numbers, "breaks": point.breaks}

    return {
        "search": search.study.title,
        "breaks": search.settings.breaks.in_words,
        "seeds": search.study.settings.seed_list,
        "found": plain(summary.found),
        "holds": plain(summary.holds),
        "mild": plain(summary.mild),
        "points": [plain(one) for one in summary.points],
        "replays": summary.replays,
        "identity": identity(search.study.packages),
    }


def _replay(search: Search, found: TriedPoint, seed: int, folder: Path | None) -> bytes:
    """Scenario file of a broken run; names of existing files are relative to its own folder."""
    import yaml

    def moved(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: moved(part) for key, part in value.items()}
        if isinstance(value, list):
            return [moved(part) for part in value]
        if folder is not None and isinstance(value, str) and value and "\0" not in value:
            file = search.study.folder / value
            if len(value) < 1024 and file.exists():
                return Path(os.path.relpath(file.absolute(), folder.absolute())).as_posix()
        return value

    text = yaml.safe_dump(moved(search.scenario_at(found.values, seed)), sort_keys=False, allow_unicode=True)
    head = f"# A run with {search.settings.breaks.in_words}. To repeat it: parhelion run seed-{seed}.yaml -o out\n"
    return (head + text).encode()
