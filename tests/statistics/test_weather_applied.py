"""Weather applied to a clear scan against a scan in the same weather, for every lidar preset, by range band.

McNemar's test: of the shots that return a surface in only one of the two, each side has half. Shots at edges, and powers
within one step of intensity, are not known from a recording, so that one percent of the points is allowed in addition
to the statistical error.
"""

from __future__ import annotations

import lzma
import struct
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from chance import deviations

KITTI = Path(__file__).parents[3] / "shared/data/kitti0005_hdl64_pose/lidar"
WEATHERS = {
    "rain": ph.Weather(rain_rate_mm_h=25),
    "fog": ph.Weather(visibility_m=200),
    "snow": ph.Weather(snow_rate_mm_h=2),
}
FRACTIONS = (0.04, 0.08, 0.14, 0.2, 0.28, 0.36, 0.45, 0.55, 0.66, 0.78, 0.9, 1.0)
"""Distances of the boards over the longest range of a board of 50 %."""
ALLOWED = 0.01


def boards(farthest_m: float) -> ph.World:
    """Boards of 50 and 10 % around the sensor, each filling a sector of 30 degrees."""
    world = ph.World("boards")
    for k, fraction in enumerate(FRACTIONS):
        at = max(fraction * farthest_m, 1.5)
        pose = ph.Pose(rpy_deg=(0, 0, 30.0 * k)) @ ph.Pose((at + 0.05, 0, 0))
        board = ph.shapes.box(0.1, 2.0 * at * np.tan(np.radians(14.5)), 4.0 * at)
        world.add(board, material=("lambert-50", "lambert-10")[k % 2], label="board", pose=pose)
    return world


def returned(scans: list[ph.PointCloud], low: float, high: float, shots: int) -> NDArray[np.bool_]:
    """Shots of all scans that return a surface between two ranges."""
    found = np.zeros((len(scans), shots), bool)
    for row, scan in zip(found, scans, strict=True):
        row[scan.shot[(scan.origin == 0) & (scan.range >= low) & (scan.range < high)]] = True
    return found


def recorded(scan: ph.Scan, fields: str) -> ph.Scan:
    """The scan as a file without received power would hold it, or with all of its fields."""
    if fields == "power":
        return scan
    kept = {name: values for name, values in scan.fields.items() if name not in ("power", "reflectivity")}
    return ph.Scan(
        scan.xyz, kept, scan.frame, scan.names, scan.metadata, shots=scan.shots, motion=scan.motion,
        start_time=scan.start_time,
    )  # fmt: skip


@pytest.mark.parametrize("preset", ph.presets("lidar"))
def test_applied_weather_equals_a_scan_in_weather(preset: str) -> None:
    lidar = ph.Lidar(preset)
    farthest = lidar.max_range(0.5)
    world, edges = boards(farthest), np.array([0.0, 0.11, 0.24, 0.4, 0.6, 0.84, 2.0]) * farthest
    yaws = (0.0,) if lidar.config.pattern.kind == "spinning" else (0.0, 120.0, 240.0)
    poses = [ph.Pose(rpy_deg=(0, 0, yaw)) for yaw in yaws]
    clear = [lidar.scan(world, pose=pose, seed=k) for k, pose in enumerate(poses)]
    shots = len(lidar.shots())
    for name, weather in WEATHERS.items():
        world.weather = weather
        direct = [lidar.scan(world, pose=pose, seed=10 + k) for k, pose in enumerate(poses)]
        for fields in ("power",) if lidar.config.intensity.scale == "none" else ("power", "intensity"):
            applied = [
                weather.apply(recorded(scan, fields), sensor=lidar, seed=20 + k, pose=pose)
                for k, (scan, pose) in enumerate(zip(clear, poses, strict=True))
            ]
            for low, high in pairwise(edges):
                here, there = returned(applied, low, high, shots), returned(direct, low, high, shots)
                gained, lost = int(np.sum(here & ~there)), int(np.sum(there & ~here))
                count = int(np.sum(returned(clear, low, high, shots)))
                bound = deviations(1500) * np.sqrt(gained + lost + 1) + ALLOWED * count
                where = f"{preset} in {name} by {fields}, {low:.0f} to {high:.0f} m of {count}: +{gained} -{lost}"
                assert abs(gained - lost) <= bound, where
            mine, theirs = (sum(int(np.sum(scan.origin > 0)) for scan in scans) for scans in (applied, direct))
            assert abs(mine - theirs) <= deviations(1500) * np.sqrt(mine + theirs + 1) + ALLOWED * theirs, (
                preset,
                name,
            )


@pytest.mark.skipif(not KITTI.is_dir(), reason=f"needs the recording {KITTI}")
def test_drizzle_of_no_amount_leaves_a_recording_as_it_is() -> None:
    """KITTI's intensities are hundredths of full scale, which are not steps of the sensor's byte."""
    file = sorted(KITTI.glob("*.dz"))[0].read_bytes()
    count, scale = struct.unpack("<4sII", file[:12])[1:]
    data = lzma.decompress(file[12:])
    planes = np.frombuffer(data, np.uint8, 12 * count).reshape(3, 4, count).transpose(0, 2, 1)
    millimetres = np.ascontiguousarray(planes).view("<i4")[:, :, 0].astype(np.int64).cumsum(axis=1).T
    intensity = np.frombuffer(data, "<u2", count, 12 * count) / np.float32(scale)
    cloud = ph.PointCloud((millimetres / 1000.0).astype(np.float32), {"intensity": intensity.astype(np.float32)})
    wet = ph.Weather(rain_rate_mm_h=1e-6).apply(cloud, sensor="velodyne/hdl-64e", seed=1)
    assert np.array_equal(wet.intensity, cloud.intensity)
    assert np.array_equal(wet.xyz, cloud.xyz)
