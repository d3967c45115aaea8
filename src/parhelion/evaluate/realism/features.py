"""Local features of the points of a frame: quantities that describe a neighbourhood, not a place.

None depends on the position of the point, so that a classifier cannot recognise the scene; ranges enter only as ratios.
Before, the ranges of both sets are brought to one resolution: rounded to a common step, then dithered over that step.
Without this, a classifier mostly detects the range quantisation of the recording.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from parhelion.core.pose import Floats
from parhelion.evaluate.realism.rings import LONGEST_RUN, Frame, Numbers

RESOLUTION_M = 0.003
"""Common range resolution [m]: the step of the coarsest lidar recordings that are stored in millimetres."""
REACH_M = 0.5
"""Radius of a neighbourhood [m]."""
CELL_M = 0.1
"""Cell of which one point counts as a neighbour [m], so that near rings do not fill a neighbourhood."""
NEIGHBOURS = 40
"""Largest number of points of a neighbourhood."""
_FEWEST_NEIGHBOURS = 6
_WINDOW = 8  # points on each side along the ring
_TINY = 1e-4  # below the resolution; keeps logarithms finite


@dataclass(frozen=True)
class Feature:
    """One local feature."""

    name: str
    title: str
    """Words for tables."""
    unit: str
    """Unit of the values in tables, which are those before the logarithm."""
    logarithm: bool
    """The classifier receives the decimal logarithm."""
    needs: str
    """'', 'rings' or 'intensity': data without which the feature is unknown."""


FEATURES = (
    Feature("spacing_along", "spacing to the next shot of the ring, over its arc", "", True, "rings"),
    Feature("spacing_across", "spacing to the ring above, over its arc", "", True, "rings"),
    Feature("bend", "distance from the middle of both neighbours of the ring", "m", True, "rings"),
    Feature("edge", "largest range step to a neighbour of the ring, over the range", "", True, "rings"),
    Feature("roughness", "scatter around the plane of the neighbours within 0.5 m", "m", True, ""),
    Feature("planarity", "planarity of the neighbours within 0.5 m", "", False, ""),
    Feature("linearity", "linearity of the neighbours within 0.5 m", "", False, ""),
    Feature("incidence", "cosine of the angle of incidence", "", False, ""),
    Feature("dropouts", "share of missing shots along the ring", "", False, "rings"),
    Feature("dropout_run", "longer run of missing shots beside the point", "shots", False, "rings"),
    Feature("intensity_along", "rank change of the intensity to the next shot", "", False, "intensity rings"),
    Feature("intensity_across", "rank change of the intensity to the ring above", "", False, "intensity rings"),
    Feature("intensity_texture", "scatter of the intensity rank within 0.5 m", "", False, "intensity"),
)
"""All features, in the order of the columns."""


def range_step(frames: Sequence[Frame]) -> float:
    """Step in which ranges or coordinates are stored [m]; 0 if none is found.

    Looks for the largest step of 1 mm to 0.5 m of which at least 95 % of the ranges, or of the coordinates, are
    multiples within a twentieth.
    """
    metres = np.concatenate([frame.range[:: max(len(frame) // 2000, 1)] for frame in frames])
    places = np.concatenate([frame.xyz[:: max(len(frame) // 2000, 1)].ravel() for frame in frames])
    for step in (0.5, 0.2, 0.1, 0.05, 0.04, 0.03, 0.025, 0.02, 0.01, 0.005, 0.004, 0.003, 0.002, 0.001):
        for values in (metres, places):
            off = np.abs(values / step - np.rint(values / step))
            # Clouds store coordinates in single precision, which blurs the steps at large ranges.
            blur = np.abs(values) * 2.0**-23 / step
            if np.mean(off < 0.05 + blur) > 0.95 and np.all(blur < 0.2):
                return step
    return 0.0


def at_resolution(frame: Frame, resolution_m: float, *key: int) -> Frame:
    """Frame with ranges rounded to multiples of a step and dithered uniformly over it; unchanged for step 0.

    `key` are the numbers that select the random stream: seed, set and frame.
    """
    if resolution_m <= 0.0:
        return frame
    noise = np.random.default_rng(key).random(len(frame)) - 0.5
    metres = (np.rint(frame.range / resolution_m) + noise) * resolution_m
    metres = np.maximum(metres, 0.5 * frame.range)
    return replace(frame, range=metres, xyz=frame.xyz * (metres / frame.range)[:, None])


@dataclass(frozen=True, eq=False)
class Scale:
    """Intensity levels of one set."""

    levels: Floats
    """Distinct intensities, ascending, shape (k,)."""
    edges: Floats
    """Ranks between the levels, 0 to 1, shape (k + 1,)."""

    @classmethod
    def of(cls, frames: Sequence[Frame]) -> Scale:
        """Levels of all points of a set."""
        every = np.concatenate([frame.intensity for frame in frames if frame.intensity is not None])
        levels, counts = np.unique(every, return_counts=True)
        return cls(levels, np.concatenate([[0.0], np.cumsum(counts) / len(every)]))

    def ranks(self, values: Floats, draws: np.random.Generator) -> Floats:
        """Rank of each value among all points of the set; equal values receive random ranks."""
        level = np.searchsorted(self.levels, values)
        return self._within(level, draws)

    def blurred(self, rank: Floats, draws: np.random.Generator) -> Floats:
        """Ranks redrawn within the level of this set in which they lie."""
        return self._within(np.clip(np.searchsorted(self.edges, rank) - 1, 0, len(self.levels) - 1), draws)

    def _within(self, level: Numbers, draws: np.random.Generator) -> Floats:
        low, high = self.edges[level], self.edges[level + 1]
        return np.asarray(low + draws.random(len(level)) * (high - low))


def common_ranks(frame: Frame, own: Scale, other: Scale, *key: int) -> Floats:
    """Intensity of each point as a rank, 0 to 1, with the levels of both sets blurred.

    Ranks make scales comparable: counts, percent and calibrated reflectivity have the same ranks. Without the blur, a
    classifier recognises the few levels of a recording with eight bits.
    """
    assert frame.intensity is not None
    draws = np.random.default_rng((*key, 1))
    return other.blurred(own.ranks(frame.intensity, draws), draws)


def features_of(frame: Frame, rows: Numbers, level: Floats | None) -> Floats:
    """Features of the points in `rows`, shape (rows, features); NaN where one is unknown.

    `level` is the intensity of all points as a rank; None if unknown.
    """
    found = np.full((len(rows), len(FEATURES)), np.nan)
    place = {feature.name: k for k, feature in enumerate(FEATURES)}
    values = _of_neighbours(frame, rows, level)
    if frame.ring is not None and frame.step > 0.0:
        values |= _along(frame, rows, level) | _across(frame, rows, level)
    for name, column in values.items():
        feature = FEATURES[place[name]]
        found[:, place[name]] = np.log10(column + _TINY) if feature.logarithm else column
    return found


def shown_value(feature: Feature, value: float) -> float:
    """Value of a feature in its unit, from that of the classifier."""
    return float(10.0**value - _TINY) if feature.logarithm else value


def _along(frame: Frame, rows: Numbers, level: Floats | None) -> dict[str, Floats]:
    """Features along the ring."""
    n = len(frame)
    assert frame.ring is not None
    before, after = np.maximum(rows - 1, 0), np.minimum(rows + 1, n - 1)
    next_to = (after > rows) & (frame.ring[after] == frame.ring[rows]) & (frame.missing[rows] == 0.0)
    behind = (before < rows) & (frame.ring[before] == frame.ring[rows]) & (frame.missing[before] == 0.0)
    own, metres = frame.xyz[rows], frame.range[rows]
    ahead = np.linalg.norm(frame.xyz[after] - own, axis=1)
    # The arc on a ring of a cone of shots, not of a great circle.
    arc = np.maximum(np.hypot(own[:, 0], own[:, 1]), 0.05 * metres) * frame.step
    bend = np.linalg.norm(0.5 * (frame.xyz[before] + frame.xyz[after]) - own, axis=1)
    jumps = [np.abs(frame.range[other] - metres) / metres for other in (before, after)]
    both = next_to & behind
    found = {
        "spacing_along": np.where(next_to, ahead / arc, np.nan),
        "bend": np.where(both, bend, np.nan),
        "edge": np.where(both, np.maximum(*jumps), np.nan),
        "dropouts": _missing_share(frame, rows),
        "dropout_run": np.fmax(frame.missing[rows], np.where(before == rows, np.nan, frame.missing[before])),
    }
    if level is not None:
        found["intensity_along"] = np.where(next_to, np.abs(level[after] - level[rows]), np.nan)
    return found


def _missing_share(frame: Frame, rows: Numbers) -> Floats:
    """Share of missing shots in a window along the ring; sky and the seam of the frame count as few."""
    missing = np.minimum(np.nan_to_num(frame.missing), LONGEST_RUN)
    total = np.concatenate([[0.0], np.cumsum(missing)])
    low, high = np.maximum(rows - _WINDOW, 0), np.minimum(rows + _WINDOW, len(frame))
    lost = total[high] - total[low]
    return lost / (lost + (high - low))


def _across(frame: Frame, rows: Numbers, level: Floats | None) -> dict[str, Floats]:
    """Features towards the ring above, at the nearest azimuth."""
    assert frame.ring is not None
    circle = 2.0 * np.pi
    keys = frame.ring * (2.0 * circle) + frame.azimuth
    wanted = (frame.ring[rows] + 1) * (2.0 * circle) + frame.azimuth[rows]
    right = np.clip(np.searchsorted(keys, wanted), 1, len(keys) - 1)
    near = np.where(wanted - keys[right - 1] < keys[right] - wanted, right - 1, right)
    known = np.abs(keys[near] - wanted) < 1.5 * frame.step
    own = frame.xyz[rows]
    gap = np.linalg.norm(frame.xyz[near] - own, axis=1)
    rise = np.abs(frame.elevation[near] - frame.elevation[rows])
    arc = frame.range[rows] * np.hypot(np.maximum(rise, 1e-4), keys[near] - wanted)
    found = {"spacing_across": np.where(known, gap / arc, np.nan)}
    if level is not None:
        found["intensity_across"] = np.where(known, np.abs(level[near] - level[rows]), np.nan)
    return found


def _of_neighbours(frame: Frame, rows: Numbers, level: Floats | None) -> dict[str, Floats]:
    """Features of the nearest points within `REACH_M`, by the eigenvalues of their covariance."""
    from scipy.spatial import cKDTree

    own = frame.xyz[rows]
    cells = np.floor(frame.xyz / CELL_M).astype(np.int64) @ np.array([1 << 42, 1 << 21, 1])
    _, first = np.unique(cells, return_index=True)
    tree = cKDTree(frame.xyz[first], balanced_tree=False, compact_nodes=False)
    _, near = tree.query(own, k=NEIGHBOURS, distance_upper_bound=REACH_M, workers=1)
    there = near < len(first)
    count = there.sum(axis=1)
    near = first[np.where(there, near, 0)]
    weight = there[..., None] / np.maximum(count, 1)[:, None, None]
    offset = frame.xyz[near] - own[:, None, :]
    centred = (offset - np.sum(offset * weight, axis=1, keepdims=True)) * np.sqrt(weight)
    spread, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", centred, centred))
    spread = np.sqrt(np.maximum(spread, 0.0))
    longest = np.maximum(spread[:, 2], 1e-9)
    facing = np.abs(np.sum(axes[:, :, 0] * own, axis=1)) / frame.range[rows]
    enough = count >= _FEWEST_NEIGHBOURS
    found = {
        "roughness": spread[:, 0],
        "planarity": (spread[:, 1] - spread[:, 0]) / longest,
        "linearity": (spread[:, 2] - spread[:, 1]) / longest,
        "incidence": facing,
    }
    if level is not None:
        ranked = np.where(there, level[near], 0.0)
        mean = ranked.sum(axis=1) / np.maximum(count, 1)
        apart = np.where(there, level[near] - mean[:, None], 0.0)
        found["intensity_texture"] = np.sqrt(np.sum(apart**2, axis=1) / np.maximum(count, 1))
    return {name: np.where(enough, column, np.nan) for name, column in found.items()}
