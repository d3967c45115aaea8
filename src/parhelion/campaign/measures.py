"""Measures of a run: a table from measure names to functions that return numbers.

A measure takes one scan at a time, or one scan and its twin in clear air, and its numbers are means over the scans of
the run; or it takes the whole run, all scans of a lidar in order. Functions are imported on first use. Other packages
add measures by an entry point of the group `parhelion.measures` that names a `Measure`:

    [project.entry-points."parhelion.measures"]
    my-drift = "my_package.drift:MEASURE"
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import PackageNotFoundError, entry_points, version
from typing import TYPE_CHECKING, Literal

import numpy as np

from parhelion.core.clouds import ORIGINS, Scan
from parhelion.core.errors import ConfigError, MissingDependencyError, unknown_name
from parhelion.weather import media

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario

GROUP = "parhelion.measures"
_SURFACE = ORIGINS.index("surface")


@dataclass(frozen=True)
class Number:
    """One number of a measure: a column of the table."""

    name: str
    unit: str
    words: str
    """Short description."""


@dataclass(frozen=True)
class MeasuredRun:
    """Input of a measure of whole runs: the scans of one lidar, and their scenario."""

    scenario: Scenario
    lidar: str
    scans: tuple[Scan, ...]
    """Scans in time order; each contains its true motion."""


@dataclass(frozen=True)
class Measure:
    """Measure of a run or its scans."""

    name: str
    """Name in study files."""
    home: str
    """Location of its function, as `module:name`."""
    gives: tuple[Number, ...]
    of: Literal["scan", "pair", "run"] = "scan"
    """Input of the function: a `Scan`; a `Scan` and its twin in clear air; or a `MeasuredRun`."""
    default: bool = False
    """Studies that list no measures use it."""
    needs: tuple[str, ...] = ()
    """Additional packages that it needs, by their distribution names. All workers must have the same versions, as of
    Parhelion itself."""

    @property
    def function(self) -> Callable[..., Mapping[str, float]]:
        """Function from its input to numbers by name; NaN for missing numbers."""
        module, _, name = self.home.partition(":")
        found: Callable[..., Mapping[str, float]] = getattr(import_module(module), name)
        return found


# ---- built-in measures ---------------------------------------------------------------------------------------------


def points_per_scan(scan: Scan) -> dict[str, float]:
    """Number of points of a scan, on surfaces or in the air."""
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
    """Points caused by rain, fog, snow, dust or another medium, and their share of all points."""
    count = int(np.isin(scan.fields["origin"], media.codes()).sum())
    return {"air_points": float(count), "air_share": count / len(scan) if len(scan) else np.nan}


def _own(name: str, *gives: tuple[str, str, str]) -> Measure:
    return Measure(name, f"{__name__}:{name}", tuple(Number(*one) for one in gives), default=True)


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


def _score(name: str, of: Literal["scan", "pair", "run"], *gives: tuple[str, str, str], needs: str = "") -> Measure:
    home = f"parhelion.campaign.scores:{name.replace('-', '_')}"
    return Measure(name, home, tuple(Number(*one) for one in gives), of, needs=tuple(needs.split()))


_OF_EVALUATION = (
    _score(
        "detection_rates",
        "scan",
        ("detection_rate_percent", "%", "points on objects, of all points"),
        ("false_detection_rate_percent", "%", "points on rain, fog, snow or dust, of all points"),
    ),
    _score("chamfer", "pair", ("chamfer_m", "m", "Chamfer distance to the scan in clear air")),
    _score("range_error", "pair", ("range_error_m", "m", "mean difference of ranges from those in clear air")),
    _score(
        "road_users",
        "scan",
        ("vehicles", "objects", "vehicles with ten points or more"),
        ("vehicle_points", "points", "mean points of such a vehicle"),
        ("people", "objects", "people and riders with ten points or more"),
        ("people_points", "points", "mean points of such a person"),
    ),
    _score(
        "lost_road_users",
        "pair",
        ("lost_road_users", "objects", "vehicles and people with ten points in clear air, but fewer in the weather"),
        ("sparsity_percent", "%", "loss of density of vehicles and people relative to clear air"),
    ),
    _score(
        "kiss-icp",
        "run",
        ("drift_percent", "%", "KITTI drift of KISS-ICP"),
        ("ate_m", "m", "absolute trajectory error of KISS-ICP"),
        ("rpe_m", "m", "error of KISS-ICP over 10 m of path"),
        ("end_drift_percent", "%", "end error of KISS-ICP, relative to the path length"),
        needs="kiss-icp",
    ),
)
_KNOWN = {measure.name: measure for measure in (*_OWN, *_OF_EVALUATION)}
_added: dict[str, Measure] = {}


def measures() -> dict[str, Measure]:
    """All measures by name: built-in ones, those of other packages, and those added by `add_measure`."""
    return {**_KNOWN, **_of_other_packages(), **_added}


def measure_called(name: str) -> Measure:
    """A measure by name."""
    found = measures()
    if name not in found:
        raise unknown_name("measure", name, found)
    return found[name]


def packages_for(names: Iterable[str]) -> tuple[str, ...]:
    """Additional packages that measures need; a missing one raises MissingDependencyError."""
    found: dict[str, None] = {}
    for name in names:
        for package in measure_called(name).needs:
            try:
                version(package)
            except PackageNotFoundError:
                raise MissingDependencyError(
                    f"the measure {name} needs the package {package}: run 'pip install {package}'"
                ) from None
            found[package] = None
    return tuple(found)


def add_measure(measure: Measure) -> None:
    """Register a measure in this process only; workers know those of entry points."""
    if measure.name in _KNOWN:
        raise ConfigError(f"measures: {measure.name!r} is a built-in measure")
    _added[measure.name] = measure


@cache
def _of_other_packages() -> dict[str, Measure]:
    found = {}
    for entry in entry_points(group=GROUP):
        measure = entry.load()
        if not isinstance(measure, Measure):
            raise ConfigError(f"measures: the entry point {entry.name!r} names {entry.value}, which is not a Measure")
        found[measure.name] = measure
    return found
