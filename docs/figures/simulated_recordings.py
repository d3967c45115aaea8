"""Recordings and scans of the same sensors in a comparable scene, measured alike.

The scene: places along the drive through the built-in `city`, with the row angles of the recorded unit. The OS0 stands
1.3 m above the road, since the lowest row of its recording meets the floor at 1.8 m, 45 degrees down; the others 1.8 m.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from near_field import MANY, OPEN_M, PLATEAU_M
from near_field_measures import CELL_EDGES, CELL_M, Overlap, overlap, usable
from page import changed
from recordings import Floats, Frame, of_scan, read
from weather_page import places

import parhelion as ph

PLACES = 16
LOWER_M = {"os0-32": 0.5}
"""Height of the sensor below that of the drive, 1.8 m."""
PRESETS = {"os0-32": "ouster/os0-32", "os1-32": "ouster/os1-32", "vlp-16": "velodyne/vlp-16"}


@dataclass(frozen=True, eq=False)
class Pair:
    """A recording, and the simulation of its preset in a comparable scene."""

    name: str
    recorded: Frame
    simulated: list[Frame]

    def joined(self) -> Frame:
        """All simulated scans as one frame, each scan's rows below those of the last."""
        parts = [
            np.concatenate([getattr(frame, field) for frame in self.simulated])
            for field in ("range", "signal", "reflectivity", "near_ir", "lost", "withheld", "elevation_deg")
        ]
        return Frame("simulated", *parts)


def pair(name: str, seed: int = 1, count: int = PLACES) -> Pair:
    """A recording and its simulation; raises FileNotFoundError if the recording is absent."""
    recorded = read(name)[0]
    preset = PRESETS[name]
    config = ph.Lidar(preset).config
    if name.startswith("os"):
        pattern = config.pattern.model_dump(mode="python")
        pattern["channels"]["elevation_deg"] = recorded.elevation_deg.tolist()
        config = changed(preset, pattern=pattern)
    world = ph.World.load("city")
    lower = ph.Pose((0.0, 0.0, -LOWER_M.get(name, 0.0)))
    scans = ph.Lidar(config).scan_many(world, [lower @ place for place in places(world, count)], seed=seed)
    return Pair(name, recorded, [of_scan(scan) for scan in scans])


@dataclass(frozen=True, eq=False)
class Strengths:
    """Photons · R² for a reflectance of 1, recorded and simulated, by range."""

    range: Floats
    recorded: Floats
    simulated: Floats
    recorded_points: Floats
    simulated_points: Floats

    @property
    def ratio(self) -> Floats:
        return self.simulated / self.recorded

    @property
    def many(self) -> Floats:
        """Bins from 2 m on that hold enough points on both sides."""
        enough = (self.recorded_points >= MANY) & (self.simulated_points >= MANY)
        return enough & (self.range >= 2.0)


def strengths(both: Pair) -> Strengths:
    """Absolute strength of the signal in the bins of the recording's overlap curve.

    A simulated pixel is held against the recorded curve at its own range: within a bin the curve may be steep.
    """
    curve: Overlap = overlap(both.recorded, PLATEAU_M[both.name], OPEN_M[both.name], repeats=2)
    offset = both.recorded.beam_offset_m
    ratio, distance = [], []
    for frame in both.simulated:
        mask = usable(frame)
        level = 100.0 * frame.signal[mask] * frame.range[mask] ** 2 / frame.reflectivity[mask]
        ratio.append(level / (curve.constant * curve.at(frame.range[mask])))
        distance.append(frame.range[mask])
    ratios, ranges = np.concatenate(ratio), np.concatenate(distance)
    edges = np.array(CELL_EDGES) * CELL_M - offset
    # Bins of the recording that held too few points are not in its curve.
    bins = np.digitize(ranges, edges) - 1
    of_curve = np.digitize(curve.range, edges) - 1
    median = np.array([np.median(ratios[bins == k]) if (bins == k).any() else np.nan for k in of_curve])
    recorded = curve.constant * curve.share
    points = np.array([np.sum(bins == k) for k in of_curve])
    return Strengths(curve.range, recorded, recorded * median, curve.count.astype(float), points.astype(float))


def percentiles(frame: Frame) -> Floats:
    """1, 50 and 99 % of the signal of returns."""
    return np.percentile(frame.signal[~frame.lost], [1.0, 50.0, 99.0])
