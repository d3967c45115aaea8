"""Study: a scenario, its varied parameters, and the row of each run.

    study = Study.load("study.yaml")
    len(study)                              # number of runs
    study.row(17).values                    # varied values by path
    study.scenario_of(study.row(17))        # complete scenario of that run

A row is a function of its number, so a campaign needs no list of rows.
"""

from __future__ import annotations

import copy
import hashlib
import json
import math
from dataclasses import dataclass
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from parhelion.campaign.measures import Measure, Number, measure_called, measures, packages_for
from parhelion.core import config
from parhelion.core.clouds import Scan
from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.explain import in_yaml
from parhelion.core.random import Stream
from parhelion.scenario.fields import check_path, unfolded, with_value
from parhelion.scenario.motions import Seed
from parhelion.scenario.schema import ScenarioFile
from parhelion.sensors.kinds import kind_named
from parhelion.weather.weather import Weather

# ---- Schema of study files (YAML). Units are in the names of the varied fields --------------------------------------


MOST_ROWS = 10_000_000
"""Largest number of runs of a campaign, so that an oversized grid is reported before it fills a disk."""

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Share = Annotated[float, Field(gt=0, lt=1)]
Pair = tuple[float, float]


class StudyDraws(Config):
    """Distribution of random values; exactly one of the four kinds is given."""

    uniform: Pair | None = None
    """Smallest and largest value."""
    loguniform: Pair | None = None
    """Smallest and largest value, both above 0: the logarithm is uniform."""
    normal: Pair | None = None
    """Mean and standard deviation."""
    choice: Annotated[list[Any], Field(min_length=1)] | None = None
    """Equally likely values."""
    count: Count | None = None
    """Number of draws, equal for all distributions of a study; one of them may give it for all."""
    seed: Seed = 0
    """Seed of the draws, combined with the path of the parameter."""
    within: Pair | None = None
    """Smallest and largest value of a truncated normal distribution."""
    whole: bool = False
    """Round values to integers."""

    @property
    def kind(self) -> str:
        """Name of the distribution."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _makes_sense(self) -> StudyDraws:
        given = [name for name in _KINDS if getattr(self, name) is not None]
        if len(given) != 1:
            raise ValueError(f"give one of {', '.join(_KINDS)}; got {' and '.join(given) or 'none'}")
        for name in ("uniform", "loguniform", "within"):
            ends = getattr(self, name)
            if ends is not None and not ends[0] < ends[1]:
                raise ValueError(f"{name}: the first value must be below the second, got {list(ends)}")
        if self.loguniform is not None and self.loguniform[0] <= 0:
            raise ValueError(f"loguniform: both values must be above 0, got {list(self.loguniform)}")
        if self.normal is not None and self.normal[1] <= 0:
            raise ValueError(f"normal: the standard deviation must be above 0, got {self.normal[1]:g}")
        if self.within is not None:
            if self.normal is None:
                raise ValueError("within: applies to normal distributions")
            nearest = min(max(self.normal[0], self.within[0]), self.within[1])
            if abs(nearest - self.normal[0]) > 6 * self.normal[1]:
                raise ValueError("within: lies more than six standard deviations from the mean")
        if self.whole and self.choice is not None:
            raise ValueError("whole: does not apply to choices, which are used unchanged")
        return self


_KINDS = ("uniform", "loguniform", "normal", "choice")


Values = Annotated[
    Annotated[list[Any], Field(min_length=1)] | StudyDraws,
    Field(description="a list of values, or a distribution such as {uniform: [0, 1]}"),
]


class Stop(Config):
    """Early stopping of a grid cell when its interval is narrow enough."""

    measure: str
    """Number to monitor, for example detection_share."""
    half_width: Annotated[float, Field(gt=0)]
    """Half width of the interval of its mean, in the unit of the number."""
    confidence: Share = 0.95
    at_least: Annotated[int, Field(ge=3, le=1_000_000)] = 5
    """Runs before the first evaluation."""
    every: Count = 5
    """Runs between evaluations."""


class Split(Config):
    """Split of the sequences of a data set."""

    val: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the sequences for validation; the rest is for training."""
    seed: Seed = 0


DatasetKind = Literal["kitti-odometry", "kitti-object", "semantic-kitti", "nuscenes"]


class StudyFile(Config):
    """Contents of a study file."""

    name: str = ""
    kind: Literal["measures", "dataset"] = "measures"
    """Runs are measured, or written as the sequences of a data set."""
    scenario: str | dict[str, Any]
    """Scenario file relative to the folder of the study, or its contents."""
    vary: dict[str, Values] = Field(default_factory=dict)
    """By path in the scenario: a list of values, all combinations of which are run, or a distribution."""
    seeds: Count | Annotated[list[Seed], Field(min_length=1)] = 1
    """Seeds of the scenario: their number, counted from 0, or a list."""
    measures: Annotated[list[str], Field(min_length=1)] | None = None
    """Measures of each run; by default all built-in measures that are cheap."""
    stop: Stop | None = None
    confidence: Share = 0.95
    """Confidence level of the intervals in the report."""
    dataset: DatasetKind | None = None
    """Layout of a data set."""
    split: Split = Split()

    @model_validator(mode="after")
    def _fits(self) -> StudyFile:
        for path, values in self.vary.items():
            if not isinstance(values, StudyDraws) and len({repr(v) for v in values}) < len(values):
                raise ValueError(f"vary: {path}: a value is given twice")
        numbers = {d.count for d in self.draws.values() if d.count is not None}
        if len(numbers) > 1:
            given = ", ".join(map(str, sorted(numbers)))
            raise ValueError(f"vary: all distributions are drawn together, so their count must be one: got {given}")
        if self.draws and not numbers:
            raise ValueError("vary: give the number of draws: count, in one of the distributions")
        if isinstance(self.seeds, list) and len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed is given twice")
        if "seed" in self.vary:
            raise ValueError("vary: use seeds to vary the seed of the scenario")
        if (self.kind == "dataset") != (self.dataset is not None):
            raise ValueError("give kind: dataset and dataset: semantic-kitti (or another) together")
        if self.kind == "dataset" and (self.stop is not None or self.measures is not None):
            raise ValueError("a data set has no measures and no stop")
        if math.prod((*self.shape, 1)) > MOST_ROWS:
            raise ValueError(f"vary: gives {math.prod(self.shape)} runs, more than {MOST_ROWS}")
        return self

    @property
    def grid(self) -> dict[str, list[Any]]:
        """Parameters varied over lists."""
        return {path: v for path, v in self.vary.items() if not isinstance(v, StudyDraws)}

    @property
    def draws(self) -> dict[str, StudyDraws]:
        """Parameters drawn from distributions."""
        return {path: v for path, v in self.vary.items() if isinstance(v, StudyDraws)}

    @property
    def draw_count(self) -> int:
        """Number of joint draws; 1 without distributions."""
        return next((d.count for d in self.draws.values() if d.count is not None), 1)

    @property
    def seed_list(self) -> list[int]:
        """List of seeds."""
        return list(self.seeds) if isinstance(self.seeds, list) else list(range(self.seeds))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each list, of draws, and of seeds: the axes of the rows, the last varies fastest."""
        seeds = len(self.seeds) if isinstance(self.seeds, list) else self.seeds
        return (*(len(v) for v in self.grid.values()), self.draw_count, seeds)


# ---- study ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class StudyRow:
    """One run of a campaign."""

    number: int
    cell: int
    """Index of the combination of list values, from 0."""
    draw: int
    """Index of the joint draw of the distributions; 0 without distributions."""
    seed: int
    """Seed of the scenario."""
    values: dict[str, Any]
    """Varied values by path."""


class Study:
    """Validated study; `folder` contains its files, `source` is its name in error messages."""

    def __init__(self, settings: StudyFile, folder: str | PathLike[str] = ".", source: str = "study") -> None:
        self.settings, self.source = settings, source
        self.folder, fields = self._scenario(Path(folder))
        self.base = unfolded(fields, self.folder)
        """Fields of the scenario before variation."""
        for path in settings.vary:
            check_path(self.base, path, f"{source}: vary")
        self.drawn = {path: _drawn(draws, path, settings.draw_count) for path, draws in settings.draws.items()}
        """Values of each distribution, one per draw."""
        self._check_base()
        for path, values in {**settings.grid, **self.drawn}.items():
            for value in _representative(values):
                self._check_value(path, value)
        self._check_whole()
        self.numbers = self._numbers()

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Study:
        """Read a study file."""
        file = Path(path)
        return cls(config.load(StudyFile, file), file.parent, str(path))

    @classmethod
    def from_mapping(cls, fields: dict[str, Any], folder: str | PathLike[str] = ".") -> Study:
        """Create a study from the fields of a study file."""
        return cls(config.parse(StudyFile, fields, "study"), folder)

    # ---- reading -----------------------------------------------------------------------------------------------

    def _scenario(self, folder: Path) -> tuple[Path, dict[str, Any]]:
        given = self.settings.scenario
        if isinstance(given, dict):
            return folder.resolve(), given
        if "\0" in given:
            raise ConfigError(f"{self.source}: scenario: {given!r} is not a file name")
        file = (folder / given).resolve()
        try:
            fields = config.read_yaml(file)
        except ConfigError as error:
            raise ConfigError(f"{self.source}: scenario: {error}") from None
        if not isinstance(fields, dict):
            raise ConfigError(f"{self.source}: scenario: {file}: expected a mapping, got {type(fields).__name__}")
        return file.parent, fields

    def _check_base(self) -> None:
        """Report problems of the scenario itself, before those of varied values."""
        place = config.At(self.source, "scenario")
        try:
            config.parse(ScenarioFile, self.scenario_of(self.row(0)), place)
        except ConfigError:
            config.parse(ScenarioFile, self.base, place)

    def _check_value(self, path: str, value: Any) -> None:
        """Check that a value fits its field, independent of the others."""
        fields = copy.deepcopy(self.base)
        with_value(fields, path, value)
        place = f"{self.source}: vary"
        try:
            settings = config.parse(ScenarioFile, fields, place)
            if isinstance(settings.weather, dict):
                Weather.from_mapping(settings.weather, config.At(place, "weather"))
        except ConfigError as error:
            text = str(error).removeprefix(f"{place}: ")
            named = text.startswith(path)
            raise ConfigError(f"{place}: {text if named else f'{path}: {in_yaml(value)}: {text}'}") from None

    def _check_whole(self) -> None:
        """Check that the first row is a valid scenario that can be written to a file."""
        fields = self.scenario_of(self.row(0))
        config.parse(ScenarioFile, fields, config.At(self.source, "scenario"))
        try:
            json.dumps(fields)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.source}: scenario: contains a value that is not plain data ({error})") from None

    def _measure(self, name: str) -> Measure:
        try:
            return measure_called(name)
        except ConfigError as error:
            raise ConfigError(f"{self.source}: measures: {error}") from None

    def _numbers(self) -> dict[str, Number]:
        if self.settings.kind == "dataset":
            from parhelion.campaign.dataset import NUMBERS

            return {number.name: number for number in NUMBERS}
        lidars = self.lidars
        if not lidars:
            raise ConfigError(f"{self.source}: scenario: has no lidar, which measures need")
        found: dict[str, Number] = {}
        for name in self.measure_names:
            for number in self._measure(name).gives:
                for column in [number.name] if len(lidars) == 1 else [f"{lidar}.{number.name}" for lidar in lidars]:
                    if column in found:
                        raise ConfigError(f"{self.source}: measures: two of them give {column!r}")
                    found[column] = number
        stop = self.settings.stop
        if stop is not None and stop.measure not in found:
            error = unknown_name("number", stop.measure, found)
            raise ConfigError(f"{self.source}: stop.measure: {error}")
        return found

    # ---- access ------------------------------------------------------------------------------------------------

    @property
    def measure_names(self) -> list[str]:
        """Names of the measures, in the order of the study."""
        given = self.settings.measures
        if given is None:
            return [name for name, measure in measures().items() if measure.default]
        return list(dict.fromkeys(given))

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """Additional packages that the measures need; a missing one is an error."""
        return () if self.settings.kind == "dataset" else packages_for(self.measure_names)

    @property
    def lidars(self) -> list[str]:
        """Names of the lidars of the scenario."""
        return [
            entry["name"] for entry in self.base["sensors"] if issubclass(kind_named(entry["type"]).record_type, Scan)
        ]

    @property
    def title(self) -> str:
        """Name of the study."""
        return self.settings.name or Path(self.source).stem

    def __len__(self) -> int:
        return math.prod(self.settings.shape)

    def options(self, path: str) -> list[Any]:
        """All values of a parameter."""
        return self.drawn[path] if path in self.drawn else self.settings.grid[path]

    def is_numeric(self, path: str) -> bool:
        """Test whether all values of a parameter are numbers."""
        return all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in self.options(path))

    @property
    def cells(self) -> int:
        """Number of combinations of list values."""
        return math.prod(self.settings.shape[:-2])

    def row(self, number: int) -> StudyRow:
        """Run by its number: seeds vary fastest, then draws, then the last of the lists."""
        if not 0 <= number < len(self):
            raise ConfigError(f"{self.source}: has rows 0 to {len(self) - 1}, not {number}")
        *places, draw, seed = (int(place) for place in np.unravel_index(number, self.settings.shape))
        values = {path: options[k] for (path, options), k in zip(self.settings.grid.items(), places, strict=True)}
        values |= {path: options[draw] for path, options in self.drawn.items()}
        cell = number // (self.settings.shape[-1] * self.settings.shape[-2])
        ordered = {path: values[path] for path in self.settings.vary}
        return StudyRow(number, cell, draw, self._seeds[seed], ordered)

    @cached_property
    def _seeds(self) -> list[int]:
        return self.settings.seed_list

    def scenario_of(self, row: StudyRow) -> dict[str, Any]:
        """Fields of the scenario of a run."""
        fields = copy.deepcopy(self.base)
        for path, value in row.values.items():
            with_value(fields, path, value)
        fields["seed"] = row.seed
        return fields

    @cached_property
    def sha256(self) -> str:
        """Hash of everything that determines the rows and their measures."""
        settings = self.settings.model_dump(mode="json", exclude={"name", "confidence"})
        text = json.dumps({**settings, "scenario": self.base}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def _drawn(draws: StudyDraws, path: str, count: int) -> list[Any]:
    """Draws of one distribution: functions of its seed, the path and the index of the draw."""
    high, low, _, _ = Stream(draws.seed, f"campaign/{path}").words(np.arange(count))
    # 53 bits in the open interval (0, 1).
    share = ((high.astype(np.uint64) << np.uint64(21)) | (low.astype(np.uint64) >> np.uint64(11))) * 2.0**-53 + 2.0**-54
    if draws.choice is not None:
        return [draws.choice[int(one)] for one in np.floor(share * len(draws.choice))]
    if draws.uniform is not None:
        values = draws.uniform[0] + share * (draws.uniform[1] - draws.uniform[0])
    elif draws.loguniform is not None:
        first, last = np.log(draws.loguniform)
        values = np.exp(first + share * (last - first))
    else:
        from scipy.special import ndtr, ndtri

        mean, deviation = draws.normal or (0.0, 1.0)
        ends = (-np.inf, np.inf) if draws.within is None else draws.within
        first, last = ndtr((np.array(ends) - mean) / deviation)
        values = np.clip(mean + deviation * ndtri(first + share * (last - first)), *ends)
    return [round(value) for value in values.tolist()] if draws.whole else values.tolist()


def _representative(values: list[Any]) -> list[Any]:
    """Values to check on behalf of all: for numbers, the smallest and the largest."""
    if len(values) > 100 and all(type(value) in (int, float) for value in values):
        return [min(values), max(values)]
    return [value for k, value in enumerate(values) if value not in values[:k]] if len(values) <= 1000 else values


def json_schema() -> dict[str, Any]:
    """JSON schema of study files for editors."""
    schema = StudyFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Parhelion study", **schema}
