"""What a study file (YAML) may say. Units are in the names of what is varied."""

from __future__ import annotations

import math
from typing import Annotated, Any, Literal

from pydantic import Field, field_validator, model_validator

from parhelion.core import config
from parhelion.core.config import Config
from parhelion.scenario.motions import Seed

MOST_ROWS = 10_000_000
"""Runs that a campaign may have: a grid with one parameter too many is told before it fills a disk."""

Count = Annotated[int, Field(ge=1, le=1_000_000)]
Share = Annotated[float, Field(gt=0, lt=1)]
Pair = tuple[float, float]


class Draws(Config):
    """A distribution that values are drawn from; exactly one of the four is given."""

    uniform: Pair | None = None
    """Least and largest value."""
    loguniform: Pair | None = None
    """Least and largest value, both above 0: the logarithm is uniform."""
    normal: Pair | None = None
    """Mean and standard deviation."""
    choice: Annotated[list[Any], Field(min_length=1)] | None = None
    """Values that are equally likely."""
    count: Count | None = None
    """Number of draws; the same for all distributions of a study, so one of them may say it for all."""
    seed: Seed = 0
    """Chooses the draws, together with the path of what is varied."""
    within: Pair | None = None
    """Least and largest value of a normal distribution, which is cut off there."""
    whole: bool = False
    """Whether values are rounded to whole numbers."""

    @property
    def kind(self) -> str:
        """The distribution's name."""
        return next(name for name in _KINDS if getattr(self, name) is not None)

    @model_validator(mode="after")
    def _makes_sense(self) -> Draws:
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
                raise ValueError("within: is for normal distributions")
            nearest = min(max(self.normal[0], self.within[0]), self.within[1])
            if abs(nearest - self.normal[0]) > 6 * self.normal[1]:
                raise ValueError("within: lies more than six standard deviations from the mean")
        if self.whole and self.choice is not None:
            raise ValueError("whole: is not for choices, which are taken as they are")
        return self


_KINDS = ("uniform", "loguniform", "normal", "choice")


class Stop(Config):
    """When a cell of the grid has runs enough: its interval is tight."""

    measure: str
    """The number that is watched, such as detection_share."""
    half_width: Annotated[float, Field(gt=0)]
    """Half the width of the interval of its mean, in the number's own unit."""
    confidence: Share = 0.95
    at_least: Annotated[int, Field(ge=3, le=1_000_000)] = 5
    """Runs before the first look."""
    every: Count = 5
    """Further runs before each next look."""


class Split(Config):
    """How the sequences of a data set are divided."""

    val: Annotated[float, Field(ge=0, lt=1)] = 0.2
    """Share of the sequences for validation; the rest is for training."""
    seed: Seed = 0


DatasetKind = Literal["kitti-odometry", "kitti-object", "semantic-kitti", "nuscenes"]


class StudyFile(Config):
    """A whole study."""

    name: str = ""
    kind: Literal["measures", "dataset"] = "measures"
    """Whether runs are measured, or written as the sequences of a data set."""
    scenario: str | dict[str, Any]
    """A scenario file relative to the study's folder, or what it would say."""
    vary: dict[str, Annotated[list[Any], Field(min_length=1)] | Draws] = Field(default_factory=dict)
    """By path in the scenario: a list of values, of which all combinations are run, or a distribution."""
    seeds: Count | Annotated[list[Seed], Field(min_length=1)] = 1
    """Seeds of the scenario: how many, from 0 on, or which."""
    measures: Annotated[list[str], Field(min_length=1)] | None = None
    """What is measured of each run; where not given, all own measures that cost little."""
    stop: Stop | None = None
    confidence: Share = 0.95
    """Of the intervals in the report."""
    dataset: DatasetKind | None = None
    """Layout of a data set."""
    split: Split = Split()

    @field_validator("vary", mode="before")
    @classmethod
    def _lists_or_draws(cls, value: Any) -> Any:
        if not isinstance(value, dict):
            raise ValueError("give a mapping from paths in the scenario to lists or distributions")
        for path, values in value.items():
            if isinstance(values, list) and not values:
                raise ValueError(f"{path}: the list is empty, so there would be no runs")
            if not isinstance(values, (list, dict, Draws)):
                raise ValueError(f"{path}: give a list of values, or a distribution such as {{uniform: [0, 1]}}")
            if isinstance(values, dict):
                # Checked here, so that the message is that of a distribution and not of a union.
                config.parse(Draws, values, path)
        return value

    @model_validator(mode="after")
    def _fits(self) -> StudyFile:
        for path, values in self.vary.items():
            if not isinstance(values, Draws) and len({repr(v) for v in values}) < len(values):
                raise ValueError(f"vary: {path}: a value is given twice")
        counts = {d.count for d in self.draws.values() if d.count is not None}
        if len(counts) > 1:
            told = ", ".join(map(str, sorted(counts)))
            raise ValueError(f"vary: all distributions are drawn together, so their count must be one: got {told}")
        if self.draws and not counts:
            raise ValueError("vary: say how many draws: count, in one of the distributions")
        if isinstance(self.seeds, list) and len(set(self.seeds)) < len(self.seeds):
            raise ValueError("seeds: a seed is given twice")
        if "seed" in self.vary:
            raise ValueError("vary: the scenario's seed is varied by seeds")
        if (self.kind == "dataset") != (self.dataset is not None):
            raise ValueError("give kind: dataset and dataset: semantic-kitti (or another) together")
        if self.kind == "dataset" and (self.stop is not None or self.measures is not None):
            raise ValueError("a data set has no measures and no stop")
        if math.prod((*self.shape, 1)) > MOST_ROWS:
            raise ValueError(f"vary: gives {math.prod(self.shape)} runs, more than {MOST_ROWS}")
        return self

    @property
    def grid(self) -> dict[str, list[Any]]:
        """What is varied over lists."""
        return {path: v for path, v in self.vary.items() if not isinstance(v, Draws)}

    @property
    def draws(self) -> dict[str, Draws]:
        """What is drawn from distributions."""
        return {path: v for path, v in self.vary.items() if isinstance(v, Draws)}

    @property
    def draw_count(self) -> int:
        """Number of joint draws; 1 where nothing is drawn."""
        return next((d.count for d in self.draws.values() if d.count is not None), 1)

    @property
    def seed_list(self) -> list[int]:
        """The seeds themselves."""
        return list(self.seeds) if isinstance(self.seeds, list) else list(range(self.seeds))

    @property
    def shape(self) -> tuple[int, ...]:
        """Number of values of each list, of draws, and of seeds: the rows' axes, the last is the quickest."""
        seeds = len(self.seeds) if isinstance(self.seeds, list) else self.seeds
        return (*(len(v) for v in self.grid.values()), self.draw_count, seeds)
