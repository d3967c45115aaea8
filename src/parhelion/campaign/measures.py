"""What is measured of a run: one row a measure, from a name to a function that gives numbers.

A measure looks at one scan at a time, and its numbers are the means over the run's scans; or it looks at the whole run,
all scans of a lidar in order. Functions are imported when they are first needed. Other packages add measures by an
entry point of the group `parhelion.measures` that names a `Measure`:

    [project.entry-points."parhelion.measures"]
    my-drift = "my_package.drift:MEASURE"
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.records import ORIGINS, Scan

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario

GROUP = "parhelion.measures"
_AIR = tuple(ORIGINS.index(word) for word in ("rain", "fog", "snow", "dust"))
_SURFACE = ORIGINS.index("surface")


@dataclass(frozen=True)
class Number:
    """One number that a measure gives: a column of the table."""

    name: str
    unit: str
    words: str
    """What it is, in a few words."""


@dataclass(frozen=True)
class MeasuredRun:
    """What a measure of whole runs is given: one lidar's scans, and the scenario they come from."""

    scenario: Scenario
    lidar: str
    scans: tuple[Scan, ...]
    """In the order of time; each carries its true motion."""


@dataclass(frozen=True)
class Measure:
    """One measure."""

    name: str
    """What study files call it."""
    home: str
    """Where its function is, as `module:name`."""
    gives: tuple[Number, ...]
    of: Literal["scan", "run"] = "scan"
    """Whether the function takes a `Scan` or a `MeasuredRun`."""
    usual: bool = False
    """Whether studies that name no measures take it."""

    @property
    def function(self) -> Callable[[Any], Mapping[str, float]]:
        """Its function: from a scan or run to numbers by name. NaN stands for a number that there is not."""
        module, _, name = self.home.partition(":")
        found: Callable[[Any], Mapping[str, float]] = getattr(import_module(module), name)
        return found


# ---- our own -------------------------------------------------------------------------------------------------------


def points_per_scan(scan: Scan) -> dict[str, float]:
    """Points of a scan, whatever they are on."""
    return {"points_per_scan": float(len(scan))}


def detection_share(scan: Scan) -> dict[str, float]:
    """Share of all shots that have a return from a surface."""
    seen = np.zeros(len(scan.shots), bool)
    seen[scan.fields["shot"][scan.fields["origin"] == _SURFACE]] = True
    return {"detection_share": float(seen.mean()) if seen.size else np.nan}


def lost_shots(scan: Scan) -> dict[str, float]:
    """Shots without any return."""
    return {"lost_shots": float(scan.lost.sum())}


def range_statistics(scan: Scan) -> dict[str, float]:
    """Mean, median and 95th percentile of the measured ranges."""
    distance = scan.fields["range"].astype(np.float64)
    if not distance.size:
        return dict.fromkeys(("range_mean_m", "range_median_m", "range_p95_m"), np.nan)
    return {
        "range_mean_m": float(distance.mean()),
        "range_median_m": float(np.median(distance)),
        "range_p95_m": float(np.percentile(distance, 95)),
    }


def mean_intensity(scan: Scan) -> dict[str, float]:
    """Mean intensity of the points."""
    values = scan.fields["intensity"].astype(np.float64)
    return {"intensity_mean": float(values.mean()) if values.size else np.nan}


def air_points(scan: Scan) -> dict[str, float]:
    """Points that rain, fog, snow or dust made, and their share of all points."""
    count = int(np.isin(scan.fields["origin"], _AIR).sum())
    return {"air_points": float(count), "air_share": count / len(scan) if len(scan) else np.nan}


def _own(name: str, *gives: tuple[str, str, str]) -> Measure:
    return Measure(name, f"{__name__}:{name}", tuple(Number(*one) for one in gives), usual=True)


_OWN = (
    _own("points_per_scan", ("points_per_scan", "points", "points of a scan")),
    _own("detection_share", ("detection_share", "1", "share of shots with a return from a surface")),
    _own("lost_shots", ("lost_shots", "shots", "shots of a scan without any return")),
    _own(
        "range_statistics",
        ("range_mean_m", "m", "mean range of points"),
        ("range_median_m", "m", "median range of points"),
        ("range_p95_m", "m", "range that 95 % of points are within"),
    ),
    _own("mean_intensity", ("intensity_mean", "vendor scale", "mean intensity of points")),
    _own(
        "air_points",
        ("air_points", "points", "points of a scan on rain, fog, snow or dust"),
        ("air_share", "1", "share of points on rain, fog, snow or dust"),
    ),
)
_added: dict[str, Measure] = {}


def measures() -> dict[str, Measure]:
    """All measures by name: ours, those of other packages, and those added by `add_measure`."""
    return {**{measure.name: measure for measure in _OWN}, **_of_other_packages(), **_added}


def measure_called(name: str) -> Measure:
    """A measure by name."""
    found = measures()
    if name not in found:
        raise unknown_name("measure", name, found)
    return found[name]


def add_measure(measure: Measure) -> None:
    """Make a measure known to this process alone; workers know those of entry points."""
    if measure.name in {own.name for own in _OWN}:
        raise ConfigError(f"measures: {measure.name!r} is a measure of Parhelion's own")
    _added[measure.name] = measure


@cache
def _of_other_packages() -> dict[str, Measure]:
    found = {}
    for entry in entry_points(group=GROUP):
        measure = entry.load()
        if not isinstance(measure, Measure):
            raise ConfigError(f"measures: the entry point {entry.name!r} names {entry.value}, which is no Measure")
        found[measure.name] = measure
    return found
