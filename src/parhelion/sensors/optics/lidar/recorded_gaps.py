"""Shots without a return between the points of a spinning sensor, found by elevation and azimuth alone.

A recording need not follow the sensor's table of shots: it may start at any azimuth, contain part of a revolution, or
lack rings and times, as KITTI's files do. Its points still lie in rings, one per laser, at equal steps of azimuth; a
missing step is a shot without a return.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals
from parhelion.sensors.optics.lidar.lidar import Lidar

Floats = NDArray[np.float64]

BLANK_DEG = 5.0
"""Azimuth interval without points of any ring that counts as not recorded; no shots are assumed there."""
_FEWEST = 200  # points
_MOST_OFF = 0.35  # largest deviation of a unit's calibration, in ring spacings
_WITHIN = 0.3  # largest deviation of a point from its ring, in ring spacings
_AGREE = 0.9  # share of points that must lie within it
_OTHER_SENSOR = np.radians(2.0)  # calibrated units differ from their data sheets by up to 1.3 degrees
_FILLED = 0.8  # share of the rings with points, between the lowest and the highest ring present
_FEW = 0.2  # of the mean number of points of a ring
_STEPS = (0.4, 2.5)  # range of azimuth steps relative to the preset's: the sensor may rotate faster or slower
_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Rings:
    """Rings in which the points of a cloud lie."""

    of_point: NDArray[np.int64]
    """Ring of each point, shape (n,)."""
    head: Floats
    """Azimuth of the sensor's head at each point [rad], counter-clockwise, shape (n,)."""
    elevation: Floats
    """Elevation of each ring [rad], shape (rings,)."""
    offset: Floats
    """Azimuth of each ring's beam relative to the head [rad], shape (rings,)."""
    step: float
    """Azimuth from column to column [rad]."""

    def directions(self, ring: NDArray[np.int64], head: Floats) -> NDArray[np.float32]:
        """Unit vectors along beams, shape (n, 3)."""
        azimuth, level = head + self.offset[ring], np.cos(self.elevation[ring])
        parts = [level * np.cos(azimuth), level * np.sin(azimuth), np.sin(self.elevation[ring])]
        return np.stack(parts, axis=1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Gaps:
    """Shots without a return between the points of a cloud."""

    direction: NDArray[np.float32]
    """Unit vectors, shape (n, 3)."""
    ring: NDArray[np.int64]
    like: NDArray[np.int64]
    """Row of a point measured at about the same time, shape (n,)."""
    blank_deg: float
    """Azimuth without any point, in which no shots are assumed [deg]."""


def rings_of(points: NDArray[Any], lidar: Lidar, names: NDArray[Any] | None = None) -> Rings | None:
    """Rings of a spinning sensor in which points lie; None if they do not lie in its rings.

    `names` is the ring number of each point in the cloud, if it has any.
    """
    beams = _beams(lidar)
    most = len(lidar.shots(0.0)) / _STEPS[0]  # more points mean several revolutions
    if beams is None or not _FEWEST <= len(points) <= most or len(beams[0]) < 2:
        return None
    elevation, offset, exits, own_step = beams
    spacing = np.zeros(len(elevation))
    order = np.argsort(elevation)
    spacing[order] = np.gradient(elevation[order])
    named = None if names is None else _by_name(points, names, elevation, exits, spacing)
    found = _by_elevation(points, elevation, exits, spacing) if named is None else named
    if found is None:
        return None
    ring, calibrated = found
    head = _azimuth(points, ring, exits) - offset[ring]
    step = _step(ring, head + offset[ring], own_step)
    return None if step is None else Rings(ring, head, calibrated, offset, step)


def _by_elevation(
    points: NDArray[Any], elevation: Floats, exits: Floats, spacing: Floats
) -> tuple[NDArray[np.int64], Floats] | None:
    """Ring of each point by its elevation alone, and the elevations of this unit's rings."""
    found, off = _nearest(points, elevation, exits)
    # A unit's calibration differs from the data sheet: rings are moved to their points, in two iterations.
    calibrated = elevation
    for _ in range(2):
        moved = calibrated + median_by(found, off, len(elevation))
        calibrated = np.clip(moved, elevation - _MOST_OFF * spacing, elevation + _MOST_OFF * spacing)
        found, off = _nearest(points, calibrated, exits)
    # If the cloud is from another sensor with other beam exits, a few near points fall between the rings.
    counts = np.bincount(found, minlength=len(elevation))[np.argsort(elevation)]
    seen = counts > _FEW * counts.mean()
    span = np.flatnonzero(seen)
    filled = seen[span[0] : span[-1] + 1].mean()
    agree = np.mean(np.abs(off) < _WITHIN * spacing[found])
    return (found, calibrated) if agree >= _AGREE and filled >= _FILLED else None


def _by_name(
    points: NDArray[Any], names: NDArray[Any], elevation: Floats, exits: Floats, spacing: Floats
) -> tuple[NDArray[np.int64], Floats] | None:
    """Ring of each point by the cloud's ring numbers, counted from below or above; None if they do not match."""
    count = len(elevation)
    ring = names.astype(np.int64)
    if names.ndim != 1 or ring.min() < 0 or ring.max() >= count:
        return None
    order = np.argsort(elevation)  # presets may number by laser; clouds number by height
    for numbered in (order, order[::-1]):
        found = numbered[ring]
        off = _elevation_of(points, exits[found]) - elevation[found]
        shift = median_by(found, off, count)
        spread = np.abs(off - shift[found]) < _WITHIN * spacing[found]
        calibrated = elevation + shift
        seen = np.bincount(found, minlength=count) > 0
        rising = np.diff(calibrated[order][seen[order]])
        # A unit's beams may be shifted by more if their number agrees.
        is_it = np.abs(shift).max() < _OTHER_SENSOR or seen.mean() >= _FILLED
        if is_it and spread.mean() >= _AGREE and len(rising) and np.mean(rising > 0) >= _AGREE:
            return found, calibrated
    return None


def gaps_between(rings: Rings) -> Gaps:
    """Shots that are missing between the points of each ring."""
    order = np.lexsort((rings.head % (2.0 * np.pi), rings.of_point))
    ring, head = rings.of_point[order], rings.head[order] % (2.0 * np.pi)
    apart, last = _to_next(ring, head)
    missing = np.where(apart > 1.5 * rings.step, np.rint(apart / rings.step).astype(np.int64) - 1, 0)
    place = np.repeat(np.arange(len(head)), missing)
    number = np.arange(len(place)) - np.repeat(np.cumsum(missing) - missing, missing) + 1
    heads = [head[place] + number * apart[place] / (missing[place] + 1)]
    lost = [ring[place]]
    columns = round(2.0 * np.pi / rings.step)
    for empty in np.setdiff1d(np.arange(len(rings.elevation)), ring[last]):
        heads.append(np.arange(columns) * rings.step)
        lost.append(np.full(columns, empty))
    lost_head, lost_ring = np.concatenate(heads) % (2.0 * np.pi), np.concatenate(lost)
    everywhere = np.sort(head)
    wide, _ = _to_next(np.zeros(len(head), np.int64), everywhere)
    blank = np.radians(BLANK_DEG)
    below = np.searchsorted(everywhere, lost_head, side="right") - 1
    recorded = wide[below] < blank
    lost_head, lost_ring = lost_head[recorded], lost_ring[recorded]
    by_head = np.argsort(rings.head % (2.0 * np.pi))
    like = by_head[np.clip(np.searchsorted(everywhere, lost_head), 0, len(head) - 1)]
    return Gaps(rings.directions(lost_ring, lost_head), lost_ring, like, float(np.degrees(wide[wide >= blank].sum())))


def directions_at(
    rings: Rings, names: NDArray[Any], when: NDArray[Any], wanted: NDArray[Any], wanted_when: NDArray[Any]
) -> NDArray[np.float32]:
    """Directions of shots of known ring and time (or column); zero for rings without points.

    `names` and `when` are ring and time of the cloud's points, `wanted` and `wanted_when` those of the shots.
    """
    order = np.argsort(when, kind="stable")
    head = np.interp(wanted_when, when[order].astype(np.float64), np.unwrap(rings.head[order]))
    ring = ring_numbers(rings, names)
    found = np.full(int(max(names.max(initial=0), wanted.max(initial=0))) + 1, -1)
    found[ring[ring >= 0]] = np.flatnonzero(ring >= 0)
    known = found[wanted.astype(np.int64)]
    return np.where((known >= 0)[:, None], rings.directions(np.maximum(known, 0), head), np.float32(0.0))


def ring_numbers(rings: Rings, names: NDArray[Any]) -> NDArray[np.int64]:
    """Number of each ring in the cloud, which may count from above; extrapolated for rings without points."""
    count = len(rings.elevation)
    numbers = np.full(count, -1)
    for ring in range(count):
        here = names[rings.of_point == ring]
        if len(here):
            numbers[ring] = int(np.median(here))
    seen = np.flatnonzero(numbers >= 0)
    upwards = np.arange(count)
    for guess in (upwards, count - 1 - upwards):
        if np.array_equal(numbers[seen], guess[seen]):
            return guess
    return numbers


def _beams(lidar: Lidar) -> tuple[Floats, Floats, Floats, float] | None:
    """Elevation, azimuth relative to the head, and exit (along, across, up) of each ring, and the column step."""
    if lidar.config.pattern.kind != "spinning":
        return None
    table = lidar.shots(0.0)
    rows = np.flatnonzero(table.column == 0)
    count = int(table.ring.max()) + 1
    if len(rows) != count or not np.array_equal(np.sort(table.ring[rows]), np.arange(count)):
        return None
    rows = rows[np.argsort(table.ring[rows])]
    azimuth = table.azimuth[rows].astype(np.float64)
    ahead = np.stack([np.cos(azimuth), np.sin(azimuth)], axis=1)
    leaves = table.origin[rows].astype(np.float64)
    along = np.sum(leaves[:, :2] * ahead, axis=1)
    across = leaves[:, 1] * ahead[:, 0] - leaves[:, 0] * ahead[:, 1]
    after = table.azimuth[(table.column == 1) & (table.ring == 0)]
    if len(after) != 1:
        return None
    step = abs(float(wrapped(after[0] - azimuth[0])))
    exits = np.stack([along, across, leaves[:, 2]], axis=1)
    return table.elevation[rows].astype(np.float64), wrapped(azimuth - azimuth[0]), exits, step


def wrapped(angle: Reals) -> Reals:
    """Angle in [-pi, pi) [rad]."""
    return (angle + np.pi) % (2.0 * np.pi) - np.pi


def _nearest(points: NDArray[Any], elevation: Floats, exits: Floats) -> tuple[NDArray[np.int64], Floats]:
    """Ring of each point by elevation as seen from the beam exits, and the point's elevation above that ring [rad]."""
    order = np.argsort(elevation)
    between = 0.5 * (elevation[order][1:] + elevation[order][:-1])
    # The ring depends on the beam exit, which depends on the ring; a few iterations converge.
    leaves = np.broadcast_to(exits.mean(axis=0), (len(points), 3))
    for _ in range(_ROUNDS):
        rank = np.searchsorted(between, _elevation_of(points, leaves))
        leaves = exits[order[rank]]
    # Compare with the neighbouring rings in case the iteration oscillates.
    ranks = np.clip(rank[None] + np.array([[-1], [0], [1]]), 0, len(order) - 1)
    away = np.stack([_elevation_of(points, exits[order[row]]) - elevation[order[row]] for row in ranks])
    best = np.argmin(np.abs(away), axis=0)
    every = np.arange(len(points))
    return order[ranks[best, every]], away[best, every]


def _elevation_of(points: NDArray[Any], exits: Floats) -> Floats:
    """Elevation of points as seen from the beam exits of their rings."""
    x, y, z = points.T.astype(np.float64)
    along = np.sqrt(np.maximum(x * x + y * y - exits[:, 1] ** 2, 0.0)) - exits[:, 0]
    return np.asarray(np.arctan2(z - exits[:, 2], np.maximum(along, 1e-6)))


def _azimuth(points: NDArray[Any], ring: NDArray[np.int64], exits: Floats) -> Floats:
    """Azimuth of the beams of points, corrected for the lateral offset of the beam exits."""
    x, y = points[:, 0].astype(np.float64), points[:, 1].astype(np.float64)
    across = exits[ring, 1] / np.maximum(np.hypot(x, y), 1e-6)
    return np.asarray(np.arctan2(y, x) - np.arcsin(np.clip(across, -1.0, 1.0)))


def median_by(group: NDArray[Any], values: Floats, count: int) -> Floats:
    """Median of the values of each group, shape (..., count) for values (..., n); 0 for empty groups."""
    size = np.bincount(group, minlength=count)
    order = np.argsort(group, kind="stable")
    first = np.cumsum(size) - size
    # One row per group; sorting rows is several times faster than sorting all values by group and value.
    width = max(int(size.max(initial=0)), 1)
    place = np.arange(len(group)) + np.repeat(np.arange(count) * width - first, size)
    ranked = np.full((*values.shape[:-1], count * width), np.inf)
    ranked[..., place] = values[..., order]
    ranked = ranked.reshape(*values.shape[:-1], count, width)
    row, low, high = np.arange(count), np.maximum(size - 1, 0) // 2, size // 2 - (size == 0)
    ranked.sort(axis=-1)
    middle = 0.5 * (ranked[..., row, low] + ranked[..., row, high])
    return np.where(size > 0, middle, 0.0)


def _to_next(ring: NDArray[np.int64], head: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """Azimuth from each point to the next of its ring (cyclic), and the last row of each ring.

    Points are in order of ring and azimuth.
    """
    last = np.flatnonzero(np.concatenate([ring[1:] != ring[:-1], [True]]))
    first = np.concatenate([[0], last[:-1] + 1])
    apart = np.empty(len(head))
    apart[:-1] = np.diff(head)
    apart[last] = head[first] + 2.0 * np.pi - head[last]
    return apart, last


def _step(ring: NDArray[np.int64], azimuth: Floats, own: float) -> float | None:
    """Azimuth step between shots of a ring, from the points themselves; None if it does not match the sensor's."""
    order = np.lexsort((azimuth % (2.0 * np.pi), ring))
    apart, _ = _to_next(ring[order], (azimuth % (2.0 * np.pi))[order])
    apart = apart[apart > 0.1 * own]  # several returns of one shot
    if not len(apart):
        return None
    near = np.percentile(apart, 20)
    step = float(np.median(apart[apart < 1.5 * near]))
    return step if _STEPS[0] < step / own < _STEPS[1] else None
