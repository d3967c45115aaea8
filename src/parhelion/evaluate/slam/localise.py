"""Localisation of a drive in a map by small_gicp, scored without alignment: the map defines the frame."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, MissingDependencyError, unknown_name
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply
from parhelion.evaluate.clouds.distances import points_of
from parhelion.evaluate.slam import trajectories as tracks
from parhelion.evaluate.slam.drives import Drive, as_poses
from parhelion.evaluate.slam.maps import sampled
from parhelion.evaluate.slam.odometry import carried, scan_points
from parhelion.evaluate.slam.study import bootstrap, with_interval
from parhelion.io.poses import TimedPoses
from parhelion.pictures import html
from parhelion.pictures.charts import Chart, Curve

METHODS = {"icp": "ICP", "plane-icp": "PLANE_ICP", "gicp": "GICP", "vgicp": "VGICP"}
"""Registration methods of small_gicp; vgicp matches points to the Gaussians of voxels, as NDT does."""
LOST_M = 1.0
"""Position error above which the localisation counts as lost [m]."""
_POINTS_M, _VOXEL_M, _NEIGHBOURS, _REACH_M = 0.25, 1.0, 10, 1.0
_FEWEST = 50
_CURVE_POINTS = 200
MEASURES = {
    "rms_m": "RMS error [m]",
    "p95_m": "95 % below [m]",
    "rms_deg": "RMS angle [°]",
    "lost_percent": f"beyond {LOST_M:g} m [%]",
}
COLUMNS = ("method", "weather", "runs", "points per scan", *MEASURES.values(), "more than clear [m]")


@dataclass
class Localised:
    """Result of one run."""

    method: str
    weather: str
    seed: int
    scans: int
    mean_points: float
    path_m: float
    rms_m: float
    p95_m: float
    max_m: float
    rms_deg: float
    lost_percent: float
    unregistered: int
    """Scans with too few points or without convergence; their pose is the prediction."""
    way_m: list[float] = field(default_factory=list)
    error_m: list[float] = field(default_factory=list)


class Localiser:
    """Registration of scans to a map; each starts from the previous pose moved by the previous motion.

    Scans are deskewed with that motion to their end, which is the time of the pose.
    """

    def __init__(self, cloud: PointCloud, method: str, period_s: float, threads: int = 2) -> None:
        if method not in METHODS:
            raise unknown_name("method of localisation", method, METHODS)
        try:
            import small_gicp
        except ImportError:
            raise MissingDependencyError("localisation needs small_gicp: pip install 'parhelion[slam]'") from None
        self._package: Any = small_gicp
        self._kind, self._period_s, self._threads = METHODS[method], period_s, threads
        points = points_of(cloud, "map")
        self._target, self._tree = self._prepared(points)
        if method == "vgicp":
            self._voxels: Any = small_gicp.GaussianVoxelMap(_VOXEL_M)
            self._voxels.insert(self._target, np.eye(4))
        self.pose, self._step = np.eye(4), np.eye(4)
        self.unregistered = 0

    def _prepared(self, points: Floats) -> tuple[Any, Any]:
        return self._package.preprocess_points(  # type: ignore[no-any-return]
            points, downsampling_resolution=_POINTS_M, num_neighbors=_NEIGHBOURS, num_threads=self._threads
        )

    def start(self, before: Pose, after: Pose) -> None:
        """Set the known poses at the start and at the end of the first scan, from which the search begins."""
        self.pose = before.matrix
        self._step = np.linalg.inv(self.pose) @ after.matrix

    def register(self, scan: PointCloud) -> Pose:
        """Pose of the lidar in the map at the end of a scan."""
        guess = self.pose @ self._step
        points, times = scan_points(scan, 100.0)
        result = None
        if len(points) >= _FEWEST:
            cloud, _ = self._prepared(carried(points, times / self._period_s - 1.0, self._step))
            common = {"init_T_target_source": guess, "max_iterations": 50, "num_threads": self._threads}
            if self._kind == "VGICP":
                result = self._package.align(self._voxels, cloud, **common)
            else:
                common |= {"registration_type": self._kind, "max_correspondence_distance": _REACH_M}
                result = self._package.align(self._target, cloud, self._tree, **common)
        if result is None or not result.converged or result.num_inliers < _FEWEST:
            self.unregistered += 1
            self.pose = guess
        else:
            found = np.asarray(result.T_target_source)
            self._step = np.linalg.inv(self.pose) @ found
            self.pose = found
        return Pose.from_matrix(self.pose)


def localise(
    drive: Drive,
    cloud: PointCloud,
    methods: Sequence[str],
    *,
    weather: str = "as recorded",
    seed: int = 0,
    advance: Callable[[], None] = lambda: None,
) -> list[tuple[Localised, TimedPoses]]:
    """Results and trajectories of all methods on the same scans; the first pose is given."""
    period = drive.setup.period_s
    found = {name: Localiser(cloud, name, period) for name in methods}
    poses: dict[str, list[Pose]] = {name: [] for name in found}
    times: list[float] = []
    points = 0
    for frame in drive.frames():
        end = frame.time + period
        if not times:
            place, turn = sampled(drive.truth(), np.array([end - period, end]))
            for one in found.values():
                one.start(*(Pose(xyz, quat) for xyz, quat in zip(place, turn, strict=True)))
        times.append(end)
        points += len(frame.scan)
        for name, one in found.items():
            poses[name].append(one.register(frame.scan))
        advance()
    if len(times) < tracks.FEWEST:
        raise ConfigError(f"localisation needs at least {tracks.FEWEST} scans, the drive has {len(times)}")
    results = []
    for name, one in found.items():
        estimate = as_poses(times, poses[name])
        result = scored(estimate, drive.truth(), name, weather, seed)
        result.scans, result.mean_points, result.unregistered = len(times), points / len(times), one.unregistered
        results.append((result, estimate))
    return results


def scored(estimate: TimedPoses, truth: Any, method: str, weather: str = "as recorded", seed: int = 0) -> Localised:
    """Errors of poses in the frame of the map, without alignment."""
    found, true = tracks.matched(estimate, truth)
    errors = tracks.position_errors(found, true)
    turned = quat_multiply(quat_conjugate(true.quat_xyzw), found.quat_xyzw)
    angles = np.degrees(2.0 * np.arctan2(np.linalg.norm(turned[:, :3], axis=1), np.abs(turned[:, 3])))
    way = tracks.distances_along(true)
    rows = np.unique(np.linspace(0, len(way) - 1, _CURVE_POINTS).astype(np.int64))
    return Localised(
        method,
        weather,
        seed,
        len(found),
        0.0,
        float(way[-1]),
        float(np.sqrt(np.mean(errors**2))),
        float(np.percentile(errors, 95)),
        float(errors.max()),
        float(np.sqrt(np.mean(angles**2))),
        float(100.0 * np.mean(errors > LOST_M)),
        0,
        way[rows].tolist(),
        errors[rows].tolist(),
    )


def summary(runs: Sequence[Localised]) -> list[dict[str, Any]]:
    """Means over the seeds with intervals, and the additional error relative to clear air with the same seeds."""
    rows = []
    clear = {(run.method, run.seed): run.rms_m for run in runs if run.weather == "clear"}
    for method, weather in dict.fromkeys((run.method, run.weather) for run in runs):
        own = [run for run in runs if (run.method, run.weather) == (method, weather)]
        row: dict[str, Any] = {"method": method, "weather": weather, "runs": len(own)}
        row["points"] = float(np.mean([run.mean_points for run in own]))
        for name in MEASURES:
            row[name] = asdict(bootstrap([getattr(run, name) for run in own]))
        more = [run.rms_m - clear[method, run.seed] for run in own if (method, run.seed) in clear]
        row["more_than_clear_m"] = asdict(bootstrap(more)) if more and weather != "clear" else None
        rows.append(row)
    return rows


def table_rows(rows: Sequence[dict[str, Any]]) -> list[tuple[str, ...]]:
    """Table rows of the summary."""
    return [
        (
            row["method"],
            row["weather"],
            str(row["runs"]),
            f"{row['points']:.0f}",
            *(with_interval(row[name], 2) for name in MEASURES),
            with_interval(row["more_than_clear_m"], 2),
        )
        for row in rows
    ]


def write_json(path: Path, source: str, cloud: str, runs: Sequence[Localised]) -> None:
    """Means and all runs as a JSON file."""
    from parhelion.core.files import write_json as write

    write(path, {"source": source, "map": cloud, "summary": summary(runs), "runs": [asdict(run) for run in runs]})


def page_of(source: str, cloud: str, runs: Sequence[Localised], command: str = "") -> str:
    """Report as HTML; `command` is the command line that created it."""
    rows = summary(runs)
    note = html.paragraph(
        "Errors of the pose at the end of each scan, in the frame of the map, without alignment. Means over the seeds; "
        "in brackets the 95 % bootstrap interval. The last column pairs runs of the same seed."
    )
    plots = []
    for method in dict.fromkeys(run.method for run in runs):
        curves = []
        for k, weather in enumerate(dict.fromkeys(run.weather for run in runs)):
            own = [run for run in runs if (run.method, run.weather) == (method, weather)]
            way = np.linspace(0.0, min(run.way_m[-1] for run in own), 80)
            errors = np.stack([np.interp(way, run.way_m, run.error_m) for run in own])
            curves.append(Curve(weather, way, errors.mean(axis=0), errors.min(axis=0), errors.max(axis=0), k))
        caption = "Line: mean over the seeds. Band: smallest to largest."
        plots.append(Chart(curves, "error [m]", "way [m]", zero=True).figure(method, caption))
    lost = [(run.method, run.weather, run.seed, run.scans, run.unregistered, html.shown(run.rms_m, ".3g"),
             html.shown(run.max_m, ".3g")) for run in runs]  # fmt: skip
    heads = ("method", "weather", "seed", "scans", "not registered", "RMS [m]", "largest [m]")
    best = min(rows, key=lambda row: row["rms_m"]["mean"])
    table = html.table(COLUMNS, table_rows(rows), kinds="--nn" + "m" * 5)
    return html.page(
        "Localisation in a map",
        html.section("summary", "By method and weather", table, note),
        html.section("error", "Error along the path", html.pair(*plots)),
        html.section("runs", "All runs", html.table(heads, lost, kinds="--nnnnn")),
        lead=(f"Drive: {source}", f"Map: {cloud}"),
        facts=[("runs", len(runs)), ("way [m]", f"{runs[0].path_m:.0f}"),
               ("smallest RMS error [m]", f"{best['rms_m']['mean']:.2g}")],
        command=command,
    )  # fmt: skip
