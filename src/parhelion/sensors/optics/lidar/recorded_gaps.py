"""Shots without a return, found between the points of a turning sensor: by elevation and azimuth alone.

A recording need not follow the sensor's table of shots: it may begin at any azimuth, hold part of a turn, or say
nothing of rings and times, as KITTI's files do. But its points lie in rings, one a laser, at even steps of azimuth, and
where a step is left out, a shot met nothing.
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
"""Where no ring has a point over so much azimuth, the recording is taken to have a gap there: nothing is drawn."""
_FEWEST = 200  # points
_MOST_OFF, _WITHIN, _AGREE = 0.35, 0.3, 0.9  # of the spacing of rings: a unit's calibration, a point's noise; share
_OTHER_SENSOR = np.radians(2.0)  # calibrated units were seen to differ from their data sheets by up to 1.3 degrees
_FILLED = 0.8  # share of the rings between the lowest and the highest seen that have points
_FEW = 0.2  # of the mean number of points of a ring
_STEPS = (0.4, 2.5)  # azimuth steps over the sensor's own: it may have turned faster or slower
_ROUNDS = 3


@dataclass(frozen=True, eq=False)
class Rings:
    """The rings that the points of a cloud lie in."""

    of_point: NDArray[np.int64]
    """Ring of each point, shape (n,)."""
    head: Floats
    """Azimuth of the sensor's head at each point [rad], counter-clockwise, shape (n,)."""
    elevation: Floats
    """Elevation of each ring [rad], shape (rings,)."""
    offset: Floats
    """Azimuth of each ring's beam from the head's [rad], shape (rings,)."""
    step: float
    """Azimuth from column to column [rad]."""

    def directions(self, ring: NDArray[np.int64], head: Floats) -> NDArray[np.float32]:
        """Unit vectors along beams, shape (n, 3)."""
        azimuth, level = head + self.offset[ring], np.cos(self.elevation[ring])
        parts = [level * np.cos(azimuth), level * np.sin(azimuth), np.sin(self.elevation[ring])]
        return np.stack(parts, axis=1).astype(np.float32)


@dataclass(frozen=True, eq=False)
class Gaps:
    """Shots that met nothing, between the points of a cloud."""

    direction: NDArray[np.float32]
    """Unit vectors, shape (n, 3)."""
    ring: NDArray[np.int64]
    like: NDArray[np.int64]
    """A point that was measured at about the same time, shape (n,)."""
    blank_deg: float
    """Azimuth without any point, in which no shots were taken to be [deg]."""


def rings_of(points: NDArray[Any], lidar: Lidar, names: NDArray[Any] | None = None) -> Rings | None:
    """The rings of a turning sensor in which points lie; None where they do not lie in its rings.

    `names` is what the cloud itself calls the ring of each point, where it does.
    """
    beams = _beams(lidar)
    most = len(lidar.shots(0.0)) / _STEPS[0]  # more are several turns in one
    if beams is None or not _FEWEST <= len(points) <= most or len(beams[0]) < 2:
        return None
    elevation, offset, exits, own_step = beams
    spacing = np.zeros(len(elevation))
    order = np.argsort(elevation)
    spacing[order] = np.gradient(elevation[order])
    told = None if names is None else _by_name(points, names, elevation, exits, spacing)
    found = _by_elevation(points, elevation, exits, spacing) if told is None else told
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
    # A unit's own calibration differs from the data sheet: rings are moved to where their points are, twice.
    calibrated = elevation
    for _ in range(2):
        moved = calibrated + _median_by(found, off, len(elevation))
        calibrated = np.clip(moved, elevation - _MOST_OFF * spacing, elevation + _MOST_OFF * spacing)
        found, off = _nearest(points, calibrated, exits)
    # Near points of another sensor, whose beams leave elsewhere, fall between its rings; they are few.
    counts = np.bincount(found, minlength=len(elevation))[np.argsort(elevation)]
    seen = counts > _FEW * counts.mean()
    span = np.flatnonzero(seen)
    filled = seen[span[0] : span[-1] + 1].mean()
    agree = np.mean(np.abs(off) < _WITHIN * spacing[found])
    return (found, calibrated) if agree >= _AGREE and filled >= _FILLED else None


def _by_name(
    points: NDArray[Any], names: NDArray[Any], elevation: Floats, exits: Floats, spacing: Floats
) -> tuple[NDArray[np.int64], Floats] | None:
    """The same for a cloud that names the rings, from below or from above; None where its names are others."""
    count = len(elevation)
    ring = names.astype(np.int64)
    if names.ndim != 1 or ring.min() < 0 or ring.max() >= count:
        return None
    order = np.argsort(elevation)  # presets may number by laser; clouds number by height
    for numbered in (order, order[::-1]):
        found = numbered[ring]
        off = _elevation_of(points, exits[found]) - elevation[found]
        shift = _median_by(found, off, count)
        spread = np.abs(off - shift[found]) < _WITHIN * spacing[found]
        calibrated = elevation + shift
        seen = np.bincount(found, minlength=count) > 0
        rising = np.diff(calibrated[order][seen[order]])
        # A unit may have its beams elsewhere, but then it has as many of them.
        is_it = np.abs(shift).max() < _OTHER_SENSOR or seen.mean() >= _FILLED
        if is_it and spread.mean() >= _AGREE and len(rising) and np.mean(rising > 0) >= _AGREE:
            return found, calibrated
    return None


def gaps_between(rings: Rings) -> Gaps:
    """The shots that are left out between the points of each ring."""
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
    """Directions of shots of which ring and time, or column, are known; zero for rings that no point has.

    `names` and `when` are what the cloud calls ring and time of its points, `wanted` and `wanted_when` those of shots.
    """
    order = np.argsort(when, kind="stable")
    head = np.interp(wanted_when, when[order].astype(np.float64), np.unwrap(rings.head[order]))
    ring = ring_numbers(rings, names)
    found = np.full(int(max(names.max(initial=0), wanted.max(initial=0))) + 1, -1)
    found[ring[ring >= 0]] = np.flatnonzero(ring >= 0)
    known = found[wanted.astype(np.int64)]
    return np.where((known >= 0)[:, None], rings.directions(np.maximum(known, 0), head), np.float32(0.0))


def ring_numbers(rings: Rings, names: NDArray[Any]) -> NDArray[np.int64]:
    """What the cloud calls each ring, which may count from above; of rings without points as the others suggest."""
    count = len(rings.elevation)
    told = np.full(count, -1)
    for ring in range(count):
        here = names[rings.of_point == ring]
        if len(here):
            told[ring] = int(np.median(here))
    seen = np.flatnonzero(told >= 0)
    upwards = np.arange(count)
    for guess in (upwards, count - 1 - upwards):
        if np.array_equal(told[seen], guess[seen]):
            return guess
    return told


def _beams(lidar: Lidar) -> tuple[Floats, Floats, Floats, float] | None:
    """Elevation, azimuth from the head's, and exit (along, across, up) of each ring, and the step of a column."""
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
    step = abs(float(_wrapped(after[0] - azimuth[0])))
    exits = np.stack([along, across, leaves[:, 2]], axis=1)
    return table.elevation[rows].astype(np.float64), _wrapped(azimuth - azimuth[0]), exits, step


def _wrapped(angle: Reals) -> Reals:
    return (angle + np.pi) % (2.0 * np.pi) - np.pi


def _nearest(points: NDArray[Any], elevation: Floats, exits: Floats) -> tuple[NDArray[np.int64], Floats]:
    """The ring of each point by the elevation at which its beams leave, and the point's elevation above it [rad]."""
    order = np.argsort(elevation)
    between = 0.5 * (elevation[order][1:] + elevation[order][:-1])
    # Which beam it is depends on where beams leave, and that on the beam: a few rounds settle it.
    leaves = np.broadcast_to(exits.mean(axis=0), (len(points), 3))
    for _ in range(_ROUNDS):
        rank = np.searchsorted(between, _elevation_of(points, leaves))
        leaves = exits[order[rank]]
    # And of the neighbours the best, should it go back and forth.
    ranks = np.clip(rank[None] + np.array([[-1], [0], [1]]), 0, len(order) - 1)
    away = np.stack([_elevation_of(points, exits[order[row]]) - elevation[order[row]] for row in ranks])
    best = np.argmin(np.abs(away), axis=0)
    every = np.arange(len(points))
    return order[ranks[best, every]], away[best, every]


def _elevation_of(points: NDArray[Any], exits: Floats) -> Floats:
    """Elevation of points as seen from where the beams of their rings leave."""
    x, y, z = points.T.astype(np.float64)
    along = np.sqrt(np.maximum(x * x + y * y - exits[:, 1] ** 2, 0.0)) - exits[:, 0]
    return np.asarray(np.arctan2(z - exits[:, 2], np.maximum(along, 1e-6)))


def _azimuth(points: NDArray[Any], ring: NDArray[np.int64], exits: Floats) -> Floats:
    """Azimuth of the beams that points lie on, which leave beside the axis."""
    x, y = points[:, 0].astype(np.float64), points[:, 1].astype(np.float64)
    across = exits[ring, 1] / np.maximum(np.hypot(x, y), 1e-6)
    return np.asarray(np.arctan2(y, x) - np.arcsin(np.clip(across, -1.0, 1.0)))


def _median_by(group: NDArray[np.int64], values: Floats, count: int) -> Floats:
    """Median of the values of each group, 0 for those without."""
    medians = np.zeros(count)
    order = np.argsort(group, kind="stable")
    borders = np.searchsorted(group[order], np.arange(count + 1))
    for number in range(count):
        here = values[order[borders[number] : borders[number + 1]]]
        if len(here):
            medians[number] = np.median(here)
    return medians


def _to_next(ring: NDArray[np.int64], head: Floats) -> tuple[Floats, NDArray[np.int64]]:
    """From each of points, in order of ring and azimuth, to the next of its ring, around; and each ring's last."""
    last = np.flatnonzero(np.concatenate([ring[1:] != ring[:-1], [True]]))
    first = np.concatenate([[0], last[:-1] + 1])
    apart = np.empty(len(head))
    apart[:-1] = np.diff(head)
    apart[last] = head[first] + 2.0 * np.pi - head[last]
    return apart, last


def _step(ring: NDArray[np.int64], azimuth: Floats, own: float) -> float | None:
    """Azimuth from one shot of a ring to the next, from the points themselves; None where they are not so spaced."""
    order = np.lexsort((azimuth % (2.0 * np.pi), ring))
    apart, _ = _to_next(ring[order], (azimuth % (2.0 * np.pi))[order])
    apart = apart[apart > 0.1 * own]  # several returns of one shot
    if not len(apart):
        return None
    near = np.percentile(apart, 20)
    step = float(np.median(apart[apart < 1.5 * near]))
    return step if _STEPS[0] < step / own < _STEPS[1] else None
