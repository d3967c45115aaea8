"""Measures computed by `parhelion.evaluate`, as columns of a campaign table.

Pair measures compare a scan with its twin in clear air: the same world, motion, time and seed without the weather, so
that all differences are due to the weather. Missing numbers are NaN.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from parhelion.campaign.measures import MeasuredRun
from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError
from parhelion.core.trajectory import Trajectory
from parhelion.evaluate.clouds import rates
from parhelion.evaluate.clouds.distances import chamfer as chamfer_distance
from parhelion.evaluate.clouds.objects import FEWEST_POINTS, SampledObject, objects_in
from parhelion.evaluate.slam.drives import Frame
from parhelion.evaluate.slam.odometry import Setup, method_maker
from parhelion.evaluate.slam.study import run_methods
from parhelion.world.labels import SEMANTIC_KITTI

VEHICLES = tuple(word for word, k in SEMANTIC_KITTI.items() if 10 <= k < 30 or k in (252, 256, 257, 258, 259))
PEOPLE = tuple(word for word, k in SEMANTIC_KITTI.items() if 30 <= k < 40 or k in (253, 254, 255))
"""Labels of road users, including riders."""


# ---- clouds ----------------------------------------------------------------------------------------------------------


def detection_rates(scan: Scan) -> dict[str, float]:
    """Shares of points on objects and of points caused by weather (Arce 2025, B.1 and B.2)."""
    if not len(scan):
        return {"detection_rate_percent": np.nan, "false_detection_rate_percent": np.nan}
    found = rates.detections(scan)
    return {
        "detection_rate_percent": found.detection_rate_percent,
        "false_detection_rate_percent": found.false_detection_rate_percent,
    }


def chamfer(scan: Scan, clear: Scan) -> dict[str, float]:
    """Chamfer distance to the scan in clear air (Huang 2023, eq. 25)."""
    return {"chamfer_m": chamfer_distance(clear, scan) if len(scan) and len(clear) else np.nan}


def range_error(scan: Scan, clear: Scan) -> dict[str, float]:
    """Mean absolute difference of the ranges of the same shots (Arce 2025, B.3)."""
    pairs = rates.paired_ranges(clear, scan)
    return {"range_error_m": rates.range_error(*pairs) if pairs is not None and len(pairs[0]) else np.nan}


# ---- objects ---------------------------------------------------------------------------------------------------------


def road_users(scan: Scan) -> dict[str, float]:
    """Vehicles and people with ten points or more, and their mean numbers of points."""
    seen = objects_in(scan, (*VEHICLES, *PEOPLE))
    vehicles, people = _of(seen, VEHICLES), _of(seen, PEOPLE)
    return {
        "vehicles": float(len(vehicles)),
        "vehicle_points": _mean([one.count for one in vehicles]),
        "people": float(len(people)),
        "people_points": _mean([one.count for one in people]),
    }


def lost_road_users(scan: Scan, clear: Scan) -> dict[str, float]:
    """Vehicles and people with ten points in clear air that have fewer, and the loss of density of all of them.

    Each object uses its box in clear air, so its density falls with its points (Huang 2023, Table V). An object without
    points counts as a complete loss.
    """
    labels = (*VEHICLES, *PEOPLE)
    before = objects_in(clear, labels)
    now = {one.instance: one.count for one in objects_in(scan, labels, fewest=1)}
    lost = sum(now.get(one.instance, 0) < FEWEST_POINTS for one in before)
    dense = sum(one.density_m3 for one in before)
    left = sum(one.density_m3 * now.get(one.instance, 0) / one.count for one in before)
    sparsity = rates.sparsity_percent(dense, left) if before else np.nan
    return {"lost_road_users": float(lost), "sparsity_percent": sparsity}


def _of(seen: Sequence[SampledObject], labels: Sequence[str]) -> list[SampledObject]:
    return [one for one in seen if one.label in labels]


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else np.nan


# ---- odometry --------------------------------------------------------------------------------------------------------


class _RunDrive:
    """Scans of a run as a drive for odometry."""

    def __init__(self, run: MeasuredRun) -> None:
        self._scans = run.scans
        lidar = next(sensor for sensor in run.scenario.giving(Scan) if sensor.name == run.lidar)
        if lidar.body is None:
            raise ConfigError(f"odometry: the lidar {run.lidar} is stationary; put it on a vehicle")
        self.count = len(run.scans)
        # One thread, because sums over several threads have no fixed order, and a row must be reproducible. KISS-ICP
        # keeps the thread count of its first run in a process; workers run nothing else.
        self.setup = Setup(lidar.period_s, threads=1)

    def frames(self) -> Iterator[Frame]:
        for scan in self._scans:
            yield Frame(scan.start_time, scan, None)

    def truth(self) -> Trajectory:
        return self._scans[0].motion


def kiss_icp(run: MeasuredRun) -> Mapping[str, float]:
    """Errors of KISS-ICP with default settings."""
    [(found, _)] = run_methods(_RunDrive(run), {"kiss-icp": method_maker("kiss-icp")})
    return {
        "drift_percent": np.nan if found.drift_percent is None else found.drift_percent,
        "ate_m": found.ate_m,
        "rpe_m": found.rpe_m,
        "end_drift_percent": found.end_drift_percent,
    }
