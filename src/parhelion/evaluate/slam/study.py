"""A study of odometry: methods on a drive, in several weathers, with several seeds, and intervals of the means."""

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
from parhelion.io.timed_poses import TimedPoses
from parhelion.weather.weather import Weather

RPE_METRES = 10.0
"""Way over which relative errors are taken [m]."""
RESAMPLES = 10_000
_WEATHER_WORDS = {"rain": "rain_rate_mm_h", "fog": "visibility_m", "snow": "snow_rate_mm_h"}
_CURVE_POINTS = 120


@dataclass
class RunResult:
    """One method on one drive."""

    method: str
    weather: str
    seed: int
    scans: int
    mean_points: float
    path_m: float
    ate_m: float
    ate_deg: float
    rpe_m: float
    """Relative error over 10 m of way; over one scan where the way is shorter."""
    rpe_deg: float
    drift_percent: float | None
    """KITTI's; None where the way is shorter than 100 m."""
    drift_deg_100m: float | None
    end_drift_percent: float
    seconds: float
    """Wall time that the method took."""
    way_m: list[float] = field(default_factory=list)
    error_m: list[float] = field(default_factory=list)
    """Distance from the truth along the way, the first poses laid upon each other."""
    true_xy: list[list[float]] = field(default_factory=list)
    estimated_xy: list[list[float]] = field(default_factory=list)

    def as_dict(self) -> dict[str, Any]:
        return asdict(self)


MEASURES = {
    "drift_percent": "KITTI drift [%]",
    "drift_deg_100m": "KITTI rotation [°/100 m]",
    "ate_m": "ATE [m]",
    "rpe_m": f"RPE over {RPE_METRES:g} m [m]",
    "end_drift_percent": "error at the end [% of the way]",
}
"""What is averaged over seeds, and how it is called."""


def weather_fields(text: str) -> dict[str, Any] | None:
    """The weather that words such as `clear`, `rain=25` or `rain=25,fog=800` mean, as a scenario file has it.

    `rain` and `snow` are rates [mm/h], `fog` is a visibility [m]. `own` is None: the scenario's own.
    """
    if text == "own":
        return None
    if text == "clear":
        return {}
    fields: dict[str, Any] = {}
    for part in text.split(","):
        word, _, number = part.partition("=")
        if word not in _WEATHER_WORDS:
            nearest = nearest_name(word, [*_WEATHER_WORDS, "clear", "own"])
            hint = f"; did you mean {nearest!r}?" if nearest else ""
            raise ConfigError(f"weather {text!r}: known are clear, own, rain=MM_H, fog=M, snow=MM_H{hint}")
        try:
            fields[_WEATHER_WORDS[word]] = float(number)
        except ValueError:
            raise ConfigError(f"weather {text!r}: {word} needs a number, such as {word}=25") from None
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
    """All methods on the same scans: what each gave, and its trajectory."""
    methods = {name: make(drive.setup) for name, make in makers.items()}
    poses: dict[str, list[Pose]] = {name: [] for name in methods}
    took = dict.fromkeys(methods, 0.0)
    starts: list[float] = []
    points = 0
    for frame in drive.frames():
        starts.append(frame.time)
        points += len(frame.scan)
        for name, method in methods.items():
            before = wall.perf_counter()
            poses[name].append(_registered(name, method, frame.scan, frame.imu, len(starts) - 1))
            took[name] += wall.perf_counter() - before
        advance()
    if len(starts) < tracks.FEWEST:
        raise ConfigError(f"odometry needs {tracks.FEWEST} scans at least, the drive has {len(starts)}")
    found = []
    for name, method in methods.items():
        later = float(getattr(method, "pose_at", 0.0)) * drive.setup.period_s
        estimate = as_poses([start + later for start in starts], poses[name])
        result = scored(estimate, drive.truth(), name, weather, seed)
        result.scans, result.mean_points, result.seconds = len(starts), points / len(starts), took[name]
        found.append((result, estimate))
    return found


def _registered(name: str, method: Odometry, scan: Any, imu: Any, number: int) -> Pose:
    try:
        pose = method.register(scan, imu)
    except ParhelionError as error:
        raise ConfigError(f"{name}: scan {number}: {error}") from None
    except Exception as error:  # the method is another's: its failure is told as one of the run
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
    return RunResult(
        method, weather, seed, len(found), 0.0, float(way[-1]),
        absolute.translation, absolute.rotation, relative.translation, relative.rotation,
        None if drift is None else drift.translation, None if drift is None else drift.rotation,
        tracks.end_drift_percent(found, true), 0.0,
        way[rows].tolist(), tracks.position_errors(laid, true)[rows].tolist(),
        true.xyz[rows, :2].tolist(), laid.xyz[rows, :2].tolist(),
    )  # fmt: skip


# ---- over seeds -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Mean:
    """A mean over runs with the interval of 95 % that resampling the runs gives it."""

    mean: float
    low: float | None
    high: float | None
    """None where there is one run only."""
    runs: int


def bootstrap(values: Sequence[float], resamples: int = RESAMPLES, level: float = 0.95) -> Mean:
    """Mean and percentile interval (Efron 1979); the same for the same values."""
    known: Floats = np.array([value for value in values if value is not None and math.isfinite(value)], np.float64)
    if not len(known):
        raise ConfigError("bootstrap: no values")
    if len(known) == 1:
        return Mean(float(known[0]), None, None, 1)
    draws = np.random.default_rng(0).integers(0, len(known), (resamples, len(known)))
    means = known[draws].mean(axis=1)
    tail = 50.0 * (1.0 - level)
    low, high = np.percentile(means, [tail, 100.0 - tail]).tolist()
    return Mean(float(known.mean()), low, high, len(known))


def summary(runs: Sequence[RunResult]) -> list[dict[str, Any]]:
    """By method and weather: each measure's mean over the seeds with its interval."""
    groups: dict[tuple[str, str], list[RunResult]] = {}
    for run in runs:
        groups.setdefault((run.method, run.weather), []).append(run)
    rows = []
    for (method, weather), members in groups.items():
        row: dict[str, Any] = {
            "method": method,
            "weather": weather,
            "runs": len(members),
            "path_m": float(np.mean([run.path_m for run in members])),
            "points": float(np.mean([run.mean_points for run in members])),
        }
        for name in MEASURES:
            values = [getattr(run, name) for run in members]
            row[name] = None if any(value is None for value in values) else asdict(bootstrap(values))
        rows.append(row)
    return rows


def write_json(path: Path, source: str, runs: Sequence[RunResult]) -> None:
    """Means and all runs as a JSON file."""
    from parhelion.evaluate.files import write_json as write

    write(path, {"source": source, "summary": summary(runs), "runs": [run.as_dict() for run in runs]})
