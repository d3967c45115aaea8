"""A study: a scenario, what is varied in it, and the row of each run.

    study = Study.load("study.yaml")
    len(study)                              # number of runs
    study.row(17).values                    # what is varied, by path
    study.scenario_of(study.row(17))        # the whole scenario of that run

A row follows from its number alone, so a campaign needs no list of its rows.
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
from typing import Any

import numpy as np

from parhelion.campaign.measures import Measure, Number, measure_called, measures, packages_for
from parhelion.campaign.paths import check_path, unfolded, with_value
from parhelion.campaign.schema import Draws, StudyFile
from parhelion.core import config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.random import Stream
from parhelion.core.records import Scan
from parhelion.scenario.schema import ScenarioFile
from parhelion.sensors.kinds import kind_called
from parhelion.weather.weather import Weather


@dataclass(frozen=True)
class Row:
    """One run of a campaign."""

    number: int
    cell: int
    """Which combination of the lists' values, from 0."""
    draw: int
    """Which joint draw of the distributions; 0 where there are none."""
    seed: int
    """The scenario's seed."""
    values: dict[str, Any]
    """What is varied, by path."""


class Study:
    """A checked study; `folder` is where its files are, `source` what errors call it."""

    def __init__(self, settings: StudyFile, folder: str | PathLike[str] = ".", source: str = "study") -> None:
        self.settings, self.source = settings, source
        self.folder, fields = self._scenario(Path(folder))
        self.base = unfolded(fields, self.folder)
        """The scenario's fields before anything is varied."""
        for path in settings.vary:
            check_path(self.base, path, source)
        self.drawn = {path: _drawn(draws, path, settings.draw_count) for path, draws in settings.draws.items()}
        """Values of each distribution, one a draw."""
        for path, values in {**settings.grid, **self.drawn}.items():
            for value in _telling(values):
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
        """From fields as a study file has them."""
        return cls(config.parse(StudyFile, fields, "study"), folder)

    # ---- reading -----------------------------------------------------------------------------------------------

    def _scenario(self, folder: Path) -> tuple[Path, dict[str, Any]]:
        given = self.settings.scenario
        if isinstance(given, dict):
            return folder.resolve(), given
        file = (folder / given).resolve()
        try:
            fields = config.read_yaml(file)
        except ConfigError as error:
            raise ConfigError(f"{self.source}: scenario: {error}") from None
        if not isinstance(fields, dict):
            raise ConfigError(f"{self.source}: scenario: {file}: expected a mapping, got {type(fields).__name__}")
        return file.parent, fields

    def _check_value(self, path: str, value: Any) -> None:
        """See that a value fits its place, whatever the others are."""
        fields = copy.deepcopy(self.base)
        with_value(fields, path, value)
        settings = config.parse(ScenarioFile, fields, f"{self.source}: vary: {path}: {_shown(value)}")
        if isinstance(settings.weather, dict):
            Weather.from_mapping(settings.weather, f"{self.source}: vary: {path}: weather")

    def _check_whole(self) -> None:
        """See that the first row is a scenario, and that a file could hold it."""
        fields = self.scenario_of(self.row(0))
        config.parse(ScenarioFile, fields, f"{self.source}: scenario")
        try:
            json.dumps(fields)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"{self.source}: scenario: holds what is no plain value ({error})") from None

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
            raise ConfigError(f"{self.source}: scenario: has no lidar, and measures are taken of lidars")
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

    # ---- asking ------------------------------------------------------------------------------------------------

    @property
    def measure_names(self) -> list[str]:
        """Measures that are taken, in the order of the study."""
        given = self.settings.measures
        if given is None:
            return [name for name, measure in measures().items() if measure.usual]
        return list(dict.fromkeys(given))

    @cached_property
    def packages(self) -> tuple[str, ...]:
        """Packages beside Parhelion's own that the measures need; a missing one is an error."""
        return () if self.settings.kind == "dataset" else packages_for(self.measure_names)

    @property
    def lidars(self) -> list[str]:
        """Names of the scenario's lidars."""
        return [
            entry["name"] for entry in self.base["sensors"] if issubclass(kind_called(entry["type"]).record_type, Scan)
        ]

    @property
    def title(self) -> str:
        """What the study is called."""
        return self.settings.name or Path(self.source).stem

    def __len__(self) -> int:
        return math.prod(self.settings.shape)

    @property
    def cells(self) -> int:
        """Number of combinations of the lists' values."""
        return math.prod(self.settings.shape[:-2])

    def row(self, number: int) -> Row:
        """A run by its number: seeds go round quickest, then draws, then the last of the lists."""
        if not 0 <= number < len(self):
            raise ConfigError(f"{self.source}: has rows 0 to {len(self) - 1}, not {number}")
        *places, draw, seed = (int(place) for place in np.unravel_index(number, self.settings.shape))
        values = {path: options[k] for (path, options), k in zip(self.settings.grid.items(), places, strict=True)}
        values |= {path: options[draw] for path, options in self.drawn.items()}
        cell = number // (self.settings.shape[-1] * self.settings.shape[-2])
        ordered = {path: values[path] for path in self.settings.vary}
        return Row(number, cell, draw, self._seeds[seed], ordered)

    @cached_property
    def _seeds(self) -> list[int]:
        return self.settings.seed_list

    def scenario_of(self, row: Row) -> dict[str, Any]:
        """The fields of a run's scenario."""
        fields = copy.deepcopy(self.base)
        for path, value in row.values.items():
            with_value(fields, path, value)
        fields["seed"] = row.seed
        return fields

    @cached_property
    def sha256(self) -> str:
        """Hash of all that decides the rows and what is measured of them."""
        said = self.settings.model_dump(mode="json", exclude={"name", "confidence"})
        text = json.dumps({**said, "scenario": self.base}, sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()


def _drawn(draws: Draws, path: str, count: int) -> list[Any]:
    """The draws of one distribution: functions of its seed, the path and the number of the draw."""
    high, low, _, _ = Stream(draws.seed, f"campaign/{path}").words(np.arange(count))
    # 53 bits within (0, 1): neither end is ever drawn.
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


def _telling(values: list[Any]) -> list[Any]:
    """Values whose check tells of all: of many numbers, the least and the largest."""
    if len(values) > 100 and all(type(value) in (int, float) for value in values):
        return [min(values), max(values)]
    return [value for k, value in enumerate(values) if value not in values[:k]] if len(values) <= 1000 else values


def _shown(value: Any) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def json_schema() -> dict[str, Any]:
    """The schema of study files for editors."""
    schema = StudyFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Parhelion study", **schema}
