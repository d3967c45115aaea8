"""Odometry study: methods on a drive, in several weathers, with several seeds, and intervals of the means."""

from __future__ import annotations

import math
import time as wall
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError, ParhelionError, nearest_name
from parhelion.core.pose import Floats, Pose
from parhelion.evaluate.slam import trajectories as tracks
from parhelion.evaluate.slam.drives import Drive, as_poses
from parhelion.evaluate.slam.odometry import Odometry, Setup
from parhelion.io.poses import TimedPoses
from parhelion.pictures import html
from parhelion.pictures.charts import GREY, Chart, Curve
from parhelion.weather import media
from parhelion.weather.weather import Weather

RPE_METRES = 10.0
"""Path length over which relative errors are computed [m]."""
RESAMPLES = 10_000
_CURVE_POINTS = 120


@dataclass
class RunResult:
    """Result of one method on one drive."""

    method: str
    weather: str
    seed: int
    scans: int
    mean_points: float
    """Points per scan."""
    path_m: float
    """Length of the true path."""
    ate_m: float
    """Absolute trajectory error."""
    ate_deg: float
    rpe_m: float
    """Relative error over 10 m of path; over one scan if the path is shorter."""
    rpe_deg: float
    drift_percent: float | None
    """KITTI drift; None if the path is shorter than 100 m."""
    drift_deg_100m: float | None
    end_drift_percent: float
    """Error of the last position with the first poses aligned, as a share of the path."""
    seconds: float
    """Wall time of the method [s]."""
    way_m: list[float] = field(default_factory=list)
    """Path length at each pose."""
    error_m: list[float] = field(default_factory=list)
    """Distance from the truth along the path, with the first poses aligned."""
    estimated_m: float = 0.0
    """Length of the estimated path, over the same stretches as `path_m`."""
    tracked: bool = True
    """False if the estimate did not follow the motion, so that the other numbers do not measure accuracy."""
    hint: str = ""
    """Likely cause if the estimate did not follow the motion."""
    true_xy: list[list[float]] = field(default_factory=list)
    estimated_xy: list[list[float]] = field(default_factory=list)


MEASURES = {
    "drift_percent": "KITTI drift [%]",
    "drift_deg_100m": "KITTI rotation [°/100 m]",
    "ate_m": "ATE [m]",
    "rpe_m": f"RPE over {RPE_METRES:g} m [m]",
    "end_drift_percent": "end error [% of path]",
}
"""Measures that are averaged over seeds, with their labels."""


def weather_fields(text: str) -> dict[str, Any] | None:
    """Weather fields of a scenario file for text such as `clear`, `rain=25` or `rain=25,fog=800`.

    Each word is a medium with its amount, for example the rate [mm/h] of rain or the visibility [m] in fog. `own` gives
    None, which keeps the weather of the scenario.
    """
    if text == "own":
        return None
    if text == "clear":
        return {}
    fields: dict[str, Any] = {}
    amounts = {name: medium.amount for name, medium in media.table().items() if medium.place is None}
    for part in text.split(","):
        word, _, number = part.partition("=")
        if word not in amounts:
            nearest = nearest_name(word, [*amounts, "clear", "own"])
            hint = f"; did you mean {nearest!r}?" if nearest else ""
            known = ", ".join(f"{name}={amount.metavar}" for name, amount in amounts.items())
            raise ConfigError(f"weather {text!r}: use clear, own, {known}{hint}")
        try:
            fields[amounts[word].short] = float(number)
        except ValueError:
            raise ConfigError(f"weather {text!r}: {word} needs a number, for example {word}=25") from None
    Weather.from_mapping(fields, f"weather {text!r}")
    return fields


def run_methods(
    drive: Drive,
    makers: Mapping[str, Callable[[Setup], Odometry]],
    *,
    weather: str = "as recorded",
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> list[tuple[RunResult, TimedPoses]]:
    """Results and trajectories of all methods on the same scans."""
    methods = {name: make(drive.setup) for name, make in makers.items()}
    poses: dict[str, list[Pose]] = {name: [] for name in methods}
    took = dict.fromkeys(methods, 0.0)
    starts: list[float] = []
    points = 0
    ranges: list[float] = []
    for frame in drive.frames():
        starts.append(frame.time)
        points += len(frame.scan)
        if len(frame.scan):
            ranges.append(float(np.median(np.linalg.norm(np.asarray(frame.scan.xyz, np.float64), axis=1))))
        for name, method in methods.items():
            before = wall.perf_counter()
            poses[name].append(_registered(name, method, frame.scan, frame.imu, len(starts) - 1))
            took[name] += wall.perf_counter() - before
        advance()
    if len(starts) < tracks.FEWEST:
        raise ConfigError(f"odometry needs at least {tracks.FEWEST} scans, the drive has {len(starts)}")
    found = []
    for name, method in methods.items():
        later = float(getattr(method, "pose_at", 0.0)) * drive.setup.period_s
        estimate = as_poses([start + later for start in starts], poses[name])
        result = scored(estimate, drive.truth(), name, weather, seed)
        result.scans, result.mean_points, result.seconds = len(starts), points / len(starts), took[name]
        if not result.tracked:
            result.hint = _hint(result, method, float(np.median(ranges)) if ranges else 0.0)
        found.append((result, estimate))
    return found


_LEAST_PATH_M = 0.3
"""Shorter paths do not show whether a method follows them."""
_STRETCHES = 20
_FOLLOWS = (0.5, 2.0)
"""Ratio of the estimated to the true path length of a method that follows the motion."""
_LOST_PERCENT, _LOST_M = 25.0, 0.2
"""End error, or error over 10 m of path, from which a method did not follow the motion; working methods stay below a
few percent. Smaller end errors than `_LOST_M` never count."""
_WIDE_VOXELS = 0.1
"""Ratio of voxel size to median range from which a map has too few voxels around the sensor."""
_FEW_POINTS = 500
_LONG_STEP = 0.2
"""Motion between scans as a share of the median range from which neighbours are hard to find."""


def _follows(found: TimedPoses, true: TimedPoses, end_percent: float, relative_percent: float) -> tuple[float, bool]:
    """Length of the estimated path, and whether it follows the true one.

    Lengths are those of a few long stretches, because the noise of every pose would add up to a path of its own.
    """
    way = tracks.distances_along(true)
    rows = np.unique(np.searchsorted(way, np.linspace(0.0, way[-1], _STRETCHES + 1)).clip(0, len(way) - 1))
    lengths = [float(np.linalg.norm(np.diff(one.xyz[rows], axis=0), axis=1).sum()) for one in (found, true)]
    if way[-1] < _LEAST_PATH_M or lengths[1] <= 0.0:
        return lengths[0], True
    in_length = _FOLLOWS[0] <= lengths[0] / lengths[1] <= _FOLLOWS[1]
    at_end = end_percent <= max(_LOST_PERCENT, 100.0 * _LOST_M / way[-1])
    return lengths[0], bool(in_length and at_end and relative_percent <= _LOST_PERCENT)


def _hint(run: RunResult, method: Odometry, median_range_m: float) -> str:
    """Likely cause of a run that did not follow the motion."""
    voxel = getattr(method, "voxel_m", None)
    if voxel is not None and voxel > _WIDE_VOXELS * median_range_m:
        smaller = max(0.05, float(f"{0.04 * median_range_m:.1g}"))
        name = run.method.partition(":")[0]
        return (
            f"the voxels of {voxel:g} m are large for points at {median_range_m:.1f} m (median); try --method "
            f"{name}:voxel_size={smaller:g}"
        )
    if run.mean_points < _FEW_POINTS:
        return f"scans have {run.mean_points:.0f} points on average, which is few to register"
    step = run.path_m / max(run.scans - 1, 1)
    if step > _LONG_STEP * median_range_m:
        return f"the lidar moves {step:.2g} m from scan to scan, far for points at {median_range_m:.1f} m (median)"
    return "the surroundings may look the same all along the path, or moving objects may cover most of the view"


def _registered(name: str, method: Odometry, scan: Any, imu: Any, number: int) -> Pose:
    try:
        pose = method.register(scan, imu)
    except ParhelionError as error:
        raise ConfigError(f"{name}: scan {number}: {error}") from None
    except Exception as error:  # third-party code: report its failure as an error of the run
        raise ConfigError(f"{name}: scan {number}: {type(error).__name__}: {error}") from error
    if not isinstance(pose, Pose):
        raise ConfigError(f"{name}: register must return a Pose, got {type(pose).__name__}")
    return pose


def scored(estimate: TimedPoses, truth: Any, method: str, weather: str = "as recorded", seed: int = 0) -> RunResult:
    """All measures of one estimated trajectory."""
    found, true = tracks.matched(estimate, truth)
    way = tracks.distances_along(true)
    absolute = tracks.ate(found, true)
    long_enough = way[-1] > 2.0 * RPE_METRES
    relative = tracks.rpe(found, true, metres=RPE_METRES) if long_enough else tracks.rpe(found, true, frames=1)
    drift = tracks.kitti_drift(found, true)
    laid = tracks.from_first_pose(found, true)
    rows = np.unique(np.linspace(0, len(way) - 1, _CURVE_POINTS).astype(np.int64))
    end = tracks.end_drift_percent(found, true)
    estimated_m, tracked = _follows(found, true, end, 100.0 * relative.translation / RPE_METRES if long_enough else 0.0)
    return RunResult(
        method,
        weather,
        seed,
        len(found),
        0.0,
        float(way[-1]),
        absolute.translation,
        absolute.rotation,
        relative.translation,
        relative.rotation,
        None if drift is None else drift.translation,
        None if drift is None else drift.rotation,
        end,
        0.0,
        way[rows].tolist(),
        tracks.position_errors(laid, true)[rows].tolist(),
        estimated_m,
        tracked,
        true_xy=true.xyz[rows, :2].tolist(),
        estimated_xy=laid.xyz[rows, :2].tolist(),
    )


# ---- over seeds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """Mean over runs with its 95 % bootstrap interval."""

    mean: float
    low: float | None
    high: float | None
    """None for a single run."""
    runs: int


def bootstrap(values: Sequence[float]) -> Mean:
    """Mean and 95 % percentile interval (Efron 1979); deterministic."""
    known: Floats = np.array([value for value in values if value is not None and math.isfinite(value)], np.float64)
    if not len(known):
        raise ConfigError("bootstrap: no values")
    if len(known) == 1:
        return Mean(float(known[0]), None, None, 1)
    draws = np.random.default_rng(0).integers(0, len(known), (RESAMPLES, len(known)))
    means = known[draws].mean(axis=1)
    tail = 50.0 * (1.0 - 0.95)
    low, high = np.percentile(means, [tail, 100.0 - tail]).tolist()
    return Mean(float(known.mean()), low, high, len(known))


def summary(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """Mean of each measure over the seeds with its interval, by method and weather."""
    rows = []
    for (method, weather), members in _by(runs, "method", "weather").items():
        row: dict[str, Any] = {
            "method": method,
            "weather": weather,
            "runs": len(members),
            "path_m": float(np.mean([run.path_m for run in members])),
            "points": float(np.mean([run.mean_points for run in members])),
            "estimated_m": float(np.mean([run.estimated_m for run in members])),
            "tracked": sum(run.tracked for run in members),
        }
        for name in MEASURES:
            values = [getattr(run, name) for run in members]
            row[name] = None if any(value is None for value in values) else asdict(bootstrap(values))
        rows.append(row)
    return rows


def write_json(path: Path, source: str, runs: Sequence[RunResult]) -> None:
    """Means and all runs as a JSON file."""
    from parhelion.core.files import write_json as write

    write(path, {"source": source, "summary": summary(runs), "runs": [asdict(run) for run in runs]})


# ---- Report of an odometry study ------------------------------------------------------------------------------------


_WAY_POINTS = 80


def with_interval(mean: dict[str, Any] | None, digits: int = 3) -> str:
    """Mean with its interval as text: '0.25 (0.21 to 0.30)'; a dash for None."""
    return "–" if mean is None else html.with_interval(mean["mean"], mean["low"], mean["high"], f".{digits}g")


def table_rows(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Table rows of the summary, for the terminal and the report."""
    return [
        (
            row["method"],
            row["weather"],
            str(row["runs"]),
            f"{row['tracked']} of {row['runs']}",
            f"{row['path_m']:.3g}",
            f"{row['points']:.0f}",
            *(with_interval(row[name]) for name in MEASURES),
        )
        for row in rows
    ]


COLUMNS = ("method", "weather", "runs", "tracked", "path [m]", "points per scan", *MEASURES.values())


def page_of(source: str, runs: Sequence[RunResult], command: str = "") -> str:
    """Report as HTML; `command` is the command line that created it."""
    rows = summary(runs)
    best = min(rows, key=lambda row: row["end_drift_percent"]["mean"])
    tiles = [
        ("runs", len(runs)),
        ("tracked", f"{sum(run.tracked for run in runs)} of {len(runs)}"),
        ("way [m]", f"{rows[0]['path_m']:.3g}"),
        ("smallest end error [%]", f"{best['end_drift_percent']['mean']:.2g}"),
    ]
    note = html.paragraph(
        "Means over the seeds; in brackets the 95 % bootstrap interval over the runs. ATE: root mean square after the "
        "best rigid alignment. KITTI drift: mean over segments of 100 to 800 m."
    )
    table = html.table(COLUMNS, table_rows(rows), kinds="--nnnn" + "m" * len(MEASURES))
    return html.page(
        "Odometry on a drive",
        html.section("lost", "Did not track", *(html.paragraph(words, "") for words in lost(runs))),
        html.section("summary", "By method and weather", table, note),
        html.section("error", "Error along the path", html.pair(*_error_plots(runs))),
        html.section("ways", "From above", html.pair(*_maps(runs))),
        html.section("runs", "All runs", _all(runs)),
        lead=(source,),
        facts=tiles,
        command=command,
    )


def lost(runs: Sequence[RunResult]) -> list[str]:
    """A sentence for each method and weather with runs that did not follow the motion, with the likely cause."""
    found = []
    for (method, weather), members in _by(runs, "method", "weather").items():
        failed = [run for run in members if not run.tracked]
        if not failed:
            continue
        first = failed[0]
        text = (
            f"{method}, {weather}: did not track in {len(failed)} of {len(members)} runs: it estimated "
            f"{first.estimated_m:.3g} m of {first.path_m:.3g} m with an end error of {first.end_drift_percent:.0f} %"
        )
        found.append(text + (f"; {first.hint}" if first.hint else ""))
    return found


def _by(runs: Sequence[RunResult], *names: str) -> dict[tuple[Any, ...], list[RunResult]]:
    groups: dict[tuple[Any, ...], list[RunResult]] = {}
    for run in runs:
        groups.setdefault(tuple(getattr(run, name) for name in names), []).append(run)
    return groups


def error_curve(name: str, runs: Sequence[RunResult], colour: int) -> Curve:
    """Mean error along the path [m], with the smallest and largest of all runs."""
    way = np.linspace(0.0, min(run.way_m[-1] for run in runs), _WAY_POINTS)
    errors = np.stack([np.interp(way, run.way_m, run.error_m) for run in runs])
    return Curve(name, way, errors.mean(axis=0), errors.min(axis=0), errors.max(axis=0), colour)


def _error_plots(runs: Sequence[RunResult]) -> list[str]:
    plots = []
    for (method,), members in _by(runs, "method").items():
        weathers = _by(members, "weather")
        curves = [error_curve(weather, group, k) for k, ((weather,), group) in enumerate(weathers.items())]
        caption = "Line: mean over the seeds. Band: smallest to largest."
        plots.append(Chart(curves, "error [m]", "way [m]", zero=True).figure(method, caption))
    return plots


def _maps(runs: Sequence[RunResult]) -> list[str]:
    """Paths from above, to scale."""
    plots = []
    for (method,), members in _by(runs, "method").items():
        firsts = [group[0] for group in _by(members, "weather").values()]
        lines = [("truth", firsts[0].true_xy, GREY, "thick")]
        lines += [(run.weather, run.estimated_xy, k, "line") for k, run in enumerate(firsts)]
        curves = [
            Curve(name, x, y, y, y, colour, look)
            for name, xy, colour, look in lines
            for x, y in [np.asarray(xy, np.float64).T]
        ]
        chart = Chart(curves, "y [m]", "x [m]", equal=True, size=(480, 360))
        plots.append(chart.figure(method, "The first seed in each weather; the thick grey line is the truth."))
    return plots


def _all(runs: Sequence[RunResult]) -> str:
    def shown(value: float | None) -> str:
        return html.shown(value, ".3g")

    rows = [
        (
            run.method,
            run.weather,
            run.seed,
            run.scans,
            "yes" if run.tracked else "no",
            f"{run.mean_points:.0f}",
            shown(run.drift_percent),
            shown(run.ate_m),
            shown(run.rpe_m),
            shown(run.end_drift_percent),
            f"{1e3 * run.seconds / run.scans:.0f}",
        )
        for run in runs
    ]
    columns = (
        "method", "weather", "seed", "scans", "tracked", "points per scan", "drift [%]", "ATE [m]", "RPE [m]",
        "end error [%]", "ms per scan",
    )  # fmt: skip
    return html.table(columns, rows, kinds="--nn-nnnnnn")
