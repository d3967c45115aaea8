"""Frames whose points are ordered by ring and azimuth, so that neighbours and missing shots are known.

Recordings without ring numbers are restored from their file order: laser by laser, as KITTI stores them, or column by
column with elevations that drift, as deskewed clouds have them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.core.pose import Floats
from parhelion.evaluate.clouds.distances import returns_of

Numbers = NDArray[np.int64]

FEWEST_POINTS = 200
"""Smallest frame with local features [points]."""
LONGEST_RUN = 64
"""Longest counted run of missing shots; longer runs, such as sky, count as this many."""
_WINDOWS = (600, 300)  # points: about ten columns of 64 rings, in which the elevation of a ring is nearly constant
_MOST_RINGS = 300


@dataclass(frozen=True, eq=False)
class Frame:
    """One frame, sorted by ring and azimuth if rings are known."""

    name: str
    xyz: Floats
    """Points [m], sensor frame, shape (n, 3)."""
    range: Floats
    """Distance from the sensor [m], shape (n,)."""
    azimuth: Floats
    """Azimuth [rad], 0 to 2π, shape (n,)."""
    intensity: Floats | None
    """Intensity in the unit of the recording, shape (n,)."""
    ring: Numbers | None
    """Ring of each point, 0 the lowest, shape (n,); None if rings are unknown."""
    rings_from: str
    """Source of the rings: 'field', 'file order', 'elevation' or 'none'."""
    step: float
    """Azimuth between the shots of a ring [rad]; 0 without rings."""
    missing: Floats
    """Missing shots between each point and the next of its ring, at most `LONGEST_RUN`; NaN if unknown."""

    def __len__(self) -> int:
        return len(self.range)

    @property
    def rings(self) -> int:
        """Number of rings; 0 if unknown."""
        return 0 if self.ring is None else int(self.ring.max()) + 1

    @property
    def elevation(self) -> Floats:
        """Elevation of each point [rad], shape (n,)."""
        return np.asarray(np.arcsin(np.clip(self.xyz[:, 2] / self.range, -1.0, 1.0)))


def frame_of(cloud: PointCloud, name: str = "") -> Frame:
    """Frame of a cloud in the sensor's frame; lost shots are dropped. Raise FormatError for fewer than 200 points."""
    kept = returns_of(cloud)
    if len(kept) < FEWEST_POINTS:
        raise FormatError(f"{name or 'cloud'}: has {len(kept)} points; local features need at least {FEWEST_POINTS}")
    xyz = np.asarray(kept.xyz, np.float64)
    azimuth = np.arctan2(xyz[:, 1], xyz[:, 0]) % (2.0 * np.pi)
    metres = np.linalg.norm(xyz, axis=1)
    intensity = np.asarray(kept.fields["intensity"], np.float64) if "intensity" in kept.fields else None
    ring: Numbers | None
    if "ring" in kept.fields:
        ring, source = np.asarray(kept.fields["ring"], np.int64), "field"
    else:
        ring, source = restored_rings(xyz, azimuth, metres)
    unordered = np.full(len(xyz), np.nan)
    if ring is None:
        return Frame(name, xyz, metres, azimuth, intensity, None, source, 0.0, unordered)
    ring = _upwards(ring, np.arcsin(np.clip(xyz[:, 2] / metres, -1.0, 1.0)))
    order = np.lexsort((azimuth, ring))
    if intensity is not None:
        intensity = intensity[order]
    ring, azimuth = ring[order], azimuth[order]
    step, missing = _gaps(ring, azimuth)
    return Frame(name, xyz[order], metres[order], azimuth, intensity, ring, source, step, missing)


def _upwards(ring: Numbers, elevation: Floats) -> Numbers:
    """Rings renumbered from the lowest to the highest, without unused numbers."""
    names, ring = np.unique(ring, return_inverse=True)
    middle = np.array([np.median(part) for part in _grouped(ring, elevation)])
    place = np.empty(len(names), np.int64)
    place[np.argsort(middle, kind="stable")] = np.arange(len(names))
    return place[ring]


def _grouped(group: Numbers, values: Floats) -> list[Floats]:
    order = np.argsort(group, kind="stable")
    return np.split(values[order], np.flatnonzero(np.diff(group[order])) + 1)


def _gaps(ring: Numbers, azimuth: Floats) -> tuple[float, Floats]:
    """Azimuth step [rad], and the number of missing shots up to the next point of the same ring."""
    last = np.append(np.diff(ring) != 0, True)
    apart = np.append(np.diff(azimuth), 0.0)
    # Returns of the same shot, of lidars with several, have no azimuth between them.
    inner = apart[~last & (apart > 1e-5)]
    if not len(inner):
        return 0.0, np.full(len(ring), np.nan)
    step = float(np.median(inner))
    missing = np.minimum(np.maximum(np.rint(apart / step) - 1.0, 0.0), LONGEST_RUN)
    return step, np.where(last, np.nan, missing)


# ---- restored rings --------------------------------------------------------------------------------------------------


def restored_rings(xyz: Floats, azimuth: Floats, metres: Floats) -> tuple[Numbers | None, str]:
    """Rings of points without ring numbers, and their source; None if neither order nor elevation shows them."""
    found = _by_revolutions(azimuth)
    if found is not None:
        return found, "file order"
    elevation = np.degrees(np.arcsin(np.clip(xyz[:, 2] / metres, -1.0, 1.0)))
    for window in (len(xyz), *_WINDOWS):
        found = _by_tracks(elevation, window)
        if found is not None:
            return found, "elevation" if window == len(xyz) else "file order"
    return None, "none"


def _by_revolutions(azimuth: Floats) -> Numbers | None:
    """Rings of files that store one revolution of each laser after another."""
    change = np.diff(azimuth)
    wrapped = np.abs(change) > np.pi
    turns = int(wrapped.sum())
    if not 3 <= turns <= _MOST_RINGS or turns * 20 > len(azimuth):
        return None
    small = change[~wrapped]
    forward = float(np.mean(small > 0.0))
    if max(forward, 1.0 - forward) < 0.9:
        return None
    # A laser near the seam may cross it twice; real revolutions are long.
    rising = forward > 0.5
    ends = np.flatnonzero(wrapped & ((change < 0.0) == rising))
    ends = ends[np.diff(ends, prepend=-(10**9)) > 20]
    return np.asarray(np.searchsorted(ends, np.arange(len(azimuth)), side="left"), np.int64)


def _by_tracks(elevation: Floats, window: int) -> Numbers | None:
    """Rings as clusters of the elevation [deg], tracked from one window of the file to the next."""
    starts = range(0, max(len(elevation) - window // 2, 1), window)
    rows = [np.arange(k, len(elevation) if k == starts[-1] else k + window) for k in starts]
    spacing = _spacing(elevation[rows[0]])
    if spacing is None:
        return None
    centres = np.zeros(0)
    ring, merged, wide = np.zeros(len(elevation), np.int64), 0, 0
    for part in rows:
        cluster, middle, width = _clusters(elevation[part], 0.5 * spacing)
        wide += int(np.sum(width > 0.25 * spacing))
        if not len(centres):
            centres = middle
        place, away = _nearest(centres, middle)
        near = np.abs(away) < 0.5 * spacing
        if near.any():  # rings without points in this window move with their neighbours
            centres = centres + np.interp(centres, middle[near], away[near])
        fresh = np.abs(away) >= 0.5 * spacing
        place[fresh] = len(centres) + np.arange(int(fresh.sum()))
        centres = np.concatenate([centres, middle[fresh]])
        centres[place] = middle
        if len(centres) > _MOST_RINGS:
            return None
        ring[part] = place[cluster]
        merged += int(np.sum(np.bincount(place, minlength=len(centres)) > 1))
    counts = np.bincount(ring, minlength=len(centres))
    whole = counts > 0.05 * np.median(counts[counts > 0])
    # Clusters that merge or split show that the elevations do not separate the rings.
    most = 0.02 * len(rows) * len(centres)
    sound = whole.sum() >= 3 and counts[whole].sum() > 0.98 * len(ring) and merged <= most and wide <= most
    return ring if sound else None


def _spacing(elevation: Floats) -> float | None:
    """Typical distance of rings [deg]; None if the elevations do not form clusters."""
    apart = np.diff(np.sort(elevation))
    wide = apart[apart > 0.08]
    if len(wide) < 2:
        return None
    spacing = float(np.median(wide))
    # Within a cluster the elevations differ by far less than between clusters.
    inside = apart[apart < 0.5 * spacing]
    sound = len(wide) <= _MOST_RINGS and len(inside) and float(np.quantile(inside, 0.9)) < 0.1 * spacing
    return spacing if sound else None


def _clusters(elevation: Floats, gap: float) -> tuple[Numbers, Floats, Floats]:
    """Cluster of each value, and centres and widths of the clusters, which are split at gaps of at least `gap`."""
    order = np.argsort(elevation, kind="stable")
    number = np.concatenate([[0], np.cumsum(np.diff(elevation[order]) > gap)])
    cluster = np.empty(len(elevation), np.int64)
    cluster[order] = number
    parts = np.split(elevation[order], np.flatnonzero(np.diff(number)) + 1)
    width = np.array([part[-1] - part[0] for part in parts])
    return cluster, np.array([part.mean() for part in parts]), width


def _nearest(centres: Floats, values: Floats) -> tuple[Numbers, Floats]:
    """Row of the nearest centre of each value, and the signed distance from it."""
    away = values[:, None] - centres[None, :]
    place = np.argmin(np.abs(away), axis=1)
    return place, away[np.arange(len(values)), place]
