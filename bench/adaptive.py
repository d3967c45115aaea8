"""Adaptive sampling against tracing every sub-ray: time saved, and agreement of the results."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal

import numpy as np
from numpy.typing import NDArray
from scans import scanner
from tables import Goal, Table
from timing import ratio, take_turns
from workloads import OS1, VLP, Settings, city, poses_along

import parhelion as ph
from parhelion.core.config import parse
from parhelion.sensors.optics.lidar.config import LidarConfig

_RANGE_M, _POWER = 1e-3, 0.01
_CASTS_GOAL = Goal("at most", 8.0)


def tables(settings: Settings) -> Iterator[Table]:
    """One row per sensor and number of bounces."""
    table = Table(
        "adaptive",
        "Adaptive against fixed sampling at 25 sub-rays, in the city, without noise",
        [
            "sensor",
            "bounces",
            "time fixed / adaptive",
            "casts per beam",
            "over glass",
            "goal",
            "range ≤ 1 mm",
            "power ≤ 1 %",
            "both",
        ],
        notes=[
            "Time at the viewpoint; casts and agreement over the viewpoint and poses along the drive. Shares are of "
            "the beams that either way gives a return for; ranges are compared before they are rounded to the steps "
            "that the sensor reports."
        ],
    )
    for sensor in (OS1,) if settings.quick else (VLP, OS1):
        for bounces in (2,) if settings.quick else (0, 2):
            _measure(settings, table, sensor, bounces)
    yield table


def _measure(settings: Settings, table: Table, sensor: str, bounces: int) -> None:
    world = city()
    fixed, adaptive = (_continuous(sensor, way, bounces) for way in ("fixed", "adaptive"))
    times = take_turns(
        {"fixed": scanner(fixed, world), "adaptive": scanner(adaptive, world)},
        rounds=settings.rounds(9),
        most_seconds=settings.most_seconds,
    )
    casts, specular, agreed, beams = 0.0, 0.0, np.zeros(3), 0
    poses = [world.viewpoint, *poses_along(world, 2 if settings.quick else 6)]
    for pose in poses:
        expected, found = (lidar.scan(world, pose=pose, seed=1) for lidar in (fixed, adaptive))
        casts += found.metadata["casts_per_beam"] / len(poses)
        specular += found.metadata["specular_casts_per_beam"] / len(poses)
        matches = _matches(expected, found, len(fixed.shots()))
        agreed += matches.sum(axis=1)
        beams += matches.shape[1]
    shares = [f"{100.0 * share:.2f} %" for share in agreed / max(1, beams)]
    table.add(
        {
            "sensor": sensor,
            "bounces": bounces,
            "time fixed / adaptive": ratio(times["fixed"], times["adaptive"]),
            "casts per beam": casts,
            "over glass": specular,
            "goal": _CASTS_GOAL.verdict(casts),
            **dict(zip(("range ≤ 1 mm", "power ≤ 1 %", "both"), shares, strict=True)),
        }
    )


def _continuous(sensor: str, sampling: Literal["fixed", "adaptive"], bounces: int) -> ph.Lidar:
    """The sensor without noise and range quantisation, which would turn a difference of a micrometre into a step."""
    config = ph.Lidar(sensor).config
    data = config.model_dump(mode="python")
    data["range"]["resolution_m"] = 0.0
    data["beam"]["sub_rays"] = 25
    smooth = parse(LidarConfig, data, sensor)
    return ph.Lidar(smooth, sampling=sampling, noise=False, bounces=bounces)


def _matches(expected: ph.Scan, found: ph.Scan, shots: int) -> NDArray[np.bool_]:
    """Agreement in range, in power and in both, for every beam with a return in either scan, shape (3, n); one return
    per beam.
    """

    def by_shot(scan: ph.Scan, name: str) -> NDArray[np.float64]:
        values = np.full(shots, np.nan)
        values[scan.fields["shot"]] = scan.fields[name]
        return values

    seen = np.zeros(shots, bool)
    for scan in (expected, found):
        seen[scan.fields["shot"]] = True
    with np.errstate(invalid="ignore"):  # a return in only one of the scans compares with NaN, which never matches
        range_m = np.abs(by_shot(found, "range") - by_shot(expected, "range")) <= _RANGE_M
        power = np.abs(by_shot(found, "power") / by_shot(expected, "power") - 1.0) <= _POWER
    return np.stack([range_m, power, range_m & power])[:, seen]
