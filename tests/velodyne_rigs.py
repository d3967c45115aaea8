"""Scans of Velodyne sensors with known ranges, made without a world."""

from __future__ import annotations

import numpy as np

import parhelion as ph
from parhelion.core.clouds import Scan, Shots


def made_up_scan(lidar: ph.Lidar, start: float = 0.0, seed: int = 0, lost: float = 0.3) -> Scan:
    """Scan with random ranges in steps of the sensor's resolution; some shots are lost and some have two returns."""
    table, rng = lidar.shots(), np.random.default_rng(seed)
    two = 0.3 if lidar.config.receiver.returns == "dual" else 0.0
    count = np.where(rng.random(len(table)) < lost, 0, np.where(rng.random(len(table)) < two, 2, 1)).astype(np.uint8)
    shot = np.repeat(np.arange(len(table)), count)
    second = np.concatenate([[False], shot[1:] == shot[:-1]])
    unit = lidar.config.range.resolution_m
    counts = np.where(second, rng.integers(round(62 / unit), round(125 / unit), len(shot)), 0)
    counts = np.where(second, counts, rng.integers(round(1 / unit), round(60 / unit), len(shot)))
    measured = (counts * unit).astype(np.float32)
    fields = {
        "range": measured,
        "intensity": rng.integers(0, 256, len(shot)).astype(np.float32),
        "ring": table.ring[shot],
        "column": table.column[shot],
        "time": table.time[shot].astype(np.float32),
        "return_index": second.astype(np.uint8),
        "return_count": count[shot],
        "shot": shot.astype(np.uint32),
    }
    return Scan(
        (table.origin[shot] + measured[:, None] * table.direction[shot]).astype(np.float32),
        fields,
        metadata={"sensor": lidar.model, "returns": lidar.config.receiver.returns, "rate_hz": lidar.rate_hz},
        shots=Shots(table.direction, table.origin, table.time.astype(np.float32), table.ring, table.column, count),
        start_time=start,
    )


def azimuth_deg(xyz: np.ndarray) -> np.ndarray:
    """Azimuth of points, counter-clockwise from x [deg]."""
    return np.degrees(np.arctan2(xyz[:, 1].astype(np.float64), xyz[:, 0].astype(np.float64)))


def turned(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """Angle from b to a [deg], within 180 deg."""
    return (a - b + 180.0) % 360.0 - 180.0
