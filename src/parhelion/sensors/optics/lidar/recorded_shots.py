"""Shots of a recorded cloud: grouping of returns by shot, and shots without a return."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError
from parhelion.makers.scales import IntensityScale, scale_called
from parhelion.rays.scene import NOTHING
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.patterns import ShotTable
from parhelion.sensors.optics.lidar.recorded_gaps import (
    directions_at,
    gaps_between,
    median_by,
    ring_numbers,
    rings_of,
    wrapped,
)

OF_SHOTS = ("ring", "column", "time", "shot", "direction")
"""Fields that belong to shots rather than to returns."""
_MOST_RETURNS = 8
_SAME_WAY = np.cos(np.radians(2.0))
"""Cosine of the largest angle between a point and its shot of the pattern: two degrees."""
_ALONG = 0.9
"""Share of the points that must lie along their shot."""
_SAMPLED = 200
"""Number of points per ring that are compared with a pattern."""
_FEWEST_OF_RING = 20
"""Smallest number of sampled points that determine the beam of a ring."""
_LEAST_SHIFT = np.radians(0.02)
"""Smallest angle between a beam of the recording and that of the preset that is taken into account."""
_MOST_TURNED = np.radians(10.0)
"""Largest difference in azimuth: beams of a head leave within a few degrees, so a larger one is another start."""


@dataclass
class RecordedShots:
    """Shots of a cloud: first those with returns, in the order of the cloud, then those without."""

    vectors: NDArray[np.float32]
    """Vector from the beam exit to the first return [m], or the unit direction of shots without one, shape (count, 3).
    """
    points_shots: int
    """Number of shots with returns."""
    rows: NDArray[np.uint32] | None
    """Rows of each shot's returns in the cloud, padded with NOTHING, shape (count, slots); None if every row of the
    cloud is a separate shot."""
    ranges: NDArray[np.float32]
    """Ranges of those returns [m]; empty if shots have at most one return."""
    intensity: NDArray[np.float32] | None
    """Intensity of each row of the cloud on the sensor's scale."""
    intensity_unit: float = 1.0
    """Size of one step of the sensor's scale in the cloud."""
    intensity_step: float = 0.0
    """Rounding of the recorded intensities on the sensor's scale; 0 if they are continuous."""
    power: NDArray[np.float32] | None = None
    """Received power of each row of the cloud [P_min], if it is recorded."""
    reflectance: NDArray[np.float32] | None = None
    """Reflectance of each row of the cloud, if it has no intensity."""
    exit_m: NDArray[np.float32] | None = None
    """Beam exit of each shot in the sensor frame, shape (count, 3); None if it is the sensor's centre."""
    lost: dict[str, NDArray[Any]] = field(default_factory=dict)
    """Ring, column, time, shot and direction of the shots without returns, if known."""
    lost_xyz: float | None = None
    """Coordinates of shots without returns in the cloud, NaN or 0; None if it has no rows for them."""
    notes: list[str] = field(default_factory=list)

    @property
    def count(self) -> int:
        return len(self.vectors)

    @property
    def slots(self) -> int:
        return 1 if self.rows is None else self.rows.shape[1]

    @property
    def points(self) -> int:
        """Number of rows of the cloud if each is a shot."""
        return self.points_shots

    def least_gap(self) -> NDArray[np.float32] | None:
        """Least distance between two returns of each shot [m], infinite for one return; None if no shot has several."""
        if self.rows is None or self.slots == 1:
            return None
        ranges = np.sort(np.where(self.rows == NOTHING, np.float32(3e38), self.ranges), axis=1)
        gap = np.diff(ranges, axis=1)
        return np.where(ranges[:, 1:] < 1e38, gap, np.float32(np.inf)).min(axis=1).astype(np.float32)

    def row_like(self, shot: NDArray[Any]) -> NDArray[np.int64]:
        """Row of the cloud from the same shot; 0 for shots without a return."""
        has = shot < self.points_shots
        if self.rows is None:
            return np.where(has, shot, 0).astype(np.int64)
        return np.where(has, self.rows[np.where(has, shot, 0), 0], 0).astype(np.int64)

    def of_shot(
        self, name: str, values: NDArray[Any], alike: NDArray[Any], unseen: NDArray[Any], shot: NDArray[Any]
    ) -> NDArray[Any]:
        """Values of a field that belongs to shots rather than to returns; `unseen` are the rows of lost shots."""
        taken = values.take(alike, axis=0)
        if len(unseen):
            taken[unseen] = self.lost[name].take(shot[unseen] - self.points_shots, axis=0) if name in self.lost else 0
        return taken

    def rings(self, cloud: PointCloud) -> NDArray[np.int64] | None:
        """Ring of each shot, or None if the recording has no rings."""
        shot = np.arange(self.count)
        lost = shot >= self.points_shots
        if "ring" not in cloud.fields or len(cloud) == 0 or (lost.any() and "ring" not in self.lost):
            return None
        known = self.of_shot("ring", cloud.fields["ring"], self.row_like(shot), np.flatnonzero(lost), shot)
        return known.astype(np.int64)

    def exits(self, shot: NDArray[Any]) -> NDArray[np.float32] | None:
        """Beam exits of shots, or None if all are at the centre."""
        return None if self.exit_m is None else self.exit_m[shot]

    def table_places(self) -> NDArray[np.int64]:
        """Number in this table of each row of the scan's table of shots."""
        assert self.rows is not None
        place = np.zeros(self.count, np.int64)
        place[np.concatenate([self.lost["returned"], self.lost["shot"]])] = np.arange(self.count)
        return place

    def missing(self, shot: NDArray[Any]) -> NDArray[np.int64]:
        """Shots that need a row without coordinates, because none of `shot` is theirs; none if the cloud has no such
        rows."""
        return np.zeros(0, np.int64) if self.lost_xyz is None else _others(self.count, shot)


def recorded_shots(cloud: PointCloud, lidar: Lidar, no_returns: str, reflectance: float | None = None) -> RecordedShots:
    """Shots of a cloud, in the sensor frame; `reflectance` is that of points without intensity."""
    if no_returns not in ("auto", "none"):
        raise ConfigError(f"no_returns: must be 'auto' or 'none', got {no_returns!r}")
    if cloud.frame == "world":
        raise ConfigError(
            "weather: the cloud is in the world frame and has no sensor position; transform it to the sensor frame"
        )
    frames = len(np.unique(cloud.fields["turn"])) if "turn" in cloud.fields else 1
    if frames > 1:
        raise ConfigError(
            f"weather: the cloud contains {frames} frames; apply weather to each frame separately "
            "(parhelion.read_frames returns the frames of a capture)"
        )
    # Drivers write a shot without a return as NaN or as zeros.
    x, y, z = np.ascontiguousarray(cloud.xyz.T)
    finite = np.isfinite(x) & np.isfinite(y) & np.isfinite(z) & ((x != 0.0) | (y != 0.0) | (z != 0.0))
    notes: list[str] = []
    intensity, unit = _intensity(cloud, lidar, finite, notes, reflectance)
    step, power = _intensity_step(intensity, lidar, unit), _power(cloud, finite)
    known = reflectance_of(cloud, lidar) if intensity is None else None
    typical = scale_called(lidar.config.intensity.scale).typical_reflectance
    if typical is not None and intensity is not None and power is None:
        notes.append(
            f"intensities of {lidar.model} do not determine the signal; a reflectance of {typical:g} is assumed unless "
            "one is passed"
        )
    if known is not None:
        known = np.where(finite, known, 0.0).astype(np.float32)
        notes.append("the cloud has no intensity; its reflectivity was used")
    if isinstance(cloud, Scan):
        return replace(
            _of_scan(cloud, intensity, unit, no_returns, notes), reflectance=known, intensity_step=step, power=power
        )
    xyz = cloud.xyz.astype(np.float32, copy=False)
    rows: NDArray[np.int64] | None = None
    lost_xyz: float | None = None
    if not finite.all():
        rows = np.flatnonzero(finite)
        # Rows without a return are NaN or zeros: one coordinate of each that is not 0 decides.
        lost_xyz = float(np.where(np.any(x[~finite] != 0.0), np.nan, 0.0))
    grouped, ranges = _grouped(cloud, xyz, rows)
    first = grouped[:, 0] if grouped is not None else rows
    vectors = xyz if first is None else xyz.take(first, axis=0)
    lost, directions = _lost_shots(cloud, lidar, finite, vectors, first, no_returns, notes)
    if grouped is None and rows is not None:
        grouped = rows[:, None]
    table = None
    if grouped is not None:
        table = np.full((len(vectors) + len(directions), grouped.shape[1]), NOTHING, np.uint32)
        table[: len(vectors)] = grouped
        ranges = np.concatenate([ranges, np.zeros((len(directions), ranges.shape[1]), np.float32)])
    return RecordedShots(
        np.concatenate([vectors, directions]) if len(directions) else vectors,
        len(vectors),
        table,
        ranges,
        intensity,
        unit,
        intensity_step=step,
        power=power,
        reflectance=known,
        lost=lost,
        lost_xyz=lost_xyz,
        notes=notes,
    )


def _intensity(
    cloud: PointCloud, lidar: Lidar, finite: NDArray[np.bool_], notes: list[str], reflectance: float | None
) -> tuple[NDArray[np.float32] | None, float]:
    values = cloud.fields.get("intensity")
    if values is None:
        return None, 1.0
    if not values.any(where=finite) and finite.any():
        known = reflectance_of(cloud, lidar)
        if reflectance is not None or (known is not None and known.any()):
            # ouster-ros writes zeros for the profile RNG15_RFL8_NIR8, whose packets hold no signal.
            return None, 1.0
        notes.append("all intensities are 0; pass a reflectance if this driver does not write any")
    value = np.where(finite, values, 0).astype(np.float32) if not finite.all() else values.astype(np.float32)
    if not np.isfinite(value).all():
        raise ConfigError("weather: the cloud's field intensity contains values that are not finite")
    if 0.0 < value.max(initial=0.0) <= 1.0 and scale_called(lidar.config.intensity.scale).bits == 8:
        notes.append("intensities from 0 to 1 were interpreted as shares of 255")
        return value * np.float32(255.0), 1.0 / 255.0
    return value, 1.0


def _intensity_step(intensity: NDArray[np.float32] | None, lidar: Lidar, unit: float) -> float:
    """Rounding of recorded intensities on the sensor's scale: whole steps, hundredths of full scale, or none (0)."""
    step = lidar.config.intensity.resolution
    if intensity is None or step == 0.0:
        return 0.0
    # KITTI's files hold hundredths of full scale.
    for candidate in (step, 2.55) if unit != 1.0 else (step,):
        steps = intensity / np.float32(candidate)
        steps -= np.rint(steps)
        if np.abs(steps, out=steps).max(initial=0.0) < 1e-3:
            return candidate
    return 0.0


def _power(cloud: PointCloud, finite: NDArray[np.bool_]) -> NDArray[np.float32] | None:
    """Field `power` [P_min] of a simulated cloud; None if it is missing or incomplete."""
    values = cloud.fields.get("power")
    if values is None or values.ndim != 1 or not np.all(values[finite] > 0.0):
        return None
    return np.where(finite, values, 0.0).astype(np.float32)


def reflectance_of(
    cloud: PointCloud, lidar: Lidar, rows: NDArray[np.int64] | None = None
) -> NDArray[np.float32] | None:
    """Field `reflectivity` as a fraction, from floats or bytes; None if it is missing or its scale is unknown.

    `rows` selects points; the result is a new array.
    """
    values = cloud.fields.get("reflectivity")
    if values is None or values.ndim != 1:
        return None
    values = values if rows is None else values.take(rows)
    if values.dtype.kind == "f":
        return np.maximum(np.nan_to_num(values), 0.0).astype(np.float32)
    scale = byte_scale(cloud, lidar)
    return None if scale is None else scale.reflectivity_of_bytes(values)


def byte_scale(cloud: PointCloud, lidar: Lidar) -> IntensityScale | None:
    """Scale of the field `reflectivity` if it holds bytes as written by the sensor's driver; None otherwise."""
    values, scale = cloud.fields.get("reflectivity"), scale_called(lidar.config.intensity.scale)
    return scale if values is not None and values.dtype.kind in "iu" and scale.byte_reflectivity else None


def _of_scan(
    scan: Scan, intensity: NDArray[np.float32] | None, unit: float, no_returns: str, notes: list[str]
) -> RecordedShots:
    """Shots of a simulated scan, which has a complete table of shots."""
    shot = scan.fields["shot"].astype(np.int64)
    returned, table, ranges = _blocks(shot, scan.fields["range"].astype(np.float32))
    lost = _others(len(scan.shots), returned)
    if no_returns == "none":
        notes.append("shots without a return were ignored (no_returns='none')")
    order = np.concatenate([returned, lost])
    first = table[:, 0]
    vectors = scan.xyz[first] - scan.shots.origin[returned]
    rows = np.concatenate([table, np.full((len(lost), table.shape[1]), -1)]).astype(np.uint32)
    ranges = np.concatenate([ranges, np.zeros((len(lost), ranges.shape[1]), np.float32)])
    direction = scan.shots.direction[lost] if no_returns != "none" else np.zeros((len(lost), 3), np.float32)
    known: dict[str, NDArray[Any]] = {
        "ring": scan.shots.ring[lost],
        "column": scan.shots.column[lost],
        "time": scan.shots.time[lost],
        "shot": lost,
        "returned": returned,
    }
    return RecordedShots(
        np.concatenate([vectors, direction]).astype(np.float32),
        len(returned),
        rows,
        ranges,
        intensity,
        unit,
        exit_m=scan.shots.origin[order],
        lost=known,
        notes=notes,
    )


def _others(count: int, rows: NDArray[Any]) -> NDArray[np.int64]:
    """Numbers below `count` that are not in `rows`."""
    left = np.ones(count, bool)
    left[rows] = False
    return np.flatnonzero(left)


def _blocks(
    key: NDArray[np.int64], range_m: NDArray[np.float32]
) -> tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.float32]]:
    """Distinct keys in order, the rows of each (padded with -1), and their ranges."""
    order = np.argsort(key, kind="stable")
    distinct, start, count = np.unique(key[order], return_index=True, return_counts=True)
    slots = int(min(count.max(initial=1), _MOST_RETURNS))
    place = start[:, None] + np.arange(slots)
    has = np.arange(slots) < count[:, None]
    rows = np.where(has, order[np.minimum(place, len(order) - 1)] if len(order) else -1, -1)
    ranges = np.where(has, range_m[np.maximum(rows, 0)] if len(range_m) else 0.0, 0.0)
    return distinct, rows, ranges.astype(np.float32)


def _grouped(
    cloud: PointCloud, xyz: NDArray[np.float32], rows: NDArray[np.int64] | None
) -> tuple[NDArray[np.int64] | None, NDArray[np.float32]]:
    """Rows of each shot's returns, or None if every point is a separate shot."""
    none = np.zeros((0, 1), np.float32)
    counts = cloud.fields.get("return_count")
    chosen = np.arange(len(xyz)) if rows is None else rows
    if counts is None or not np.any(counts[chosen] > 1):
        return None, none if rows is None else np.zeros((len(rows), 1), np.float32)
    if "shot" in cloud.fields:
        key = cloud.fields["shot"][chosen].astype(np.int64)
    elif "ring" in cloud.fields and ("column" in cloud.fields or "time" in cloud.fields):
        when = cloud.fields["column" if "column" in cloud.fields else "time"][chosen]
        number = np.unique(when, return_inverse=True)[1]
        key = number * 65536 + cloud.fields["ring"][chosen].astype(np.int64)
    else:
        return None, none if rows is None else np.zeros((len(rows), 1), np.float32)
    distance = np.linalg.norm(xyz[chosen], axis=1).astype(np.float32)
    _, table, ranges = _blocks(key, distance)
    return np.where(table >= 0, chosen[np.maximum(table, 0)], -1), ranges


def _lost_shots(
    cloud: PointCloud,
    lidar: Lidar,
    finite: NDArray[np.bool_],
    vectors: NDArray[np.float32],
    first: NDArray[np.int64] | None,
    no_returns: str,
    notes: list[str],
) -> tuple[dict[str, NDArray[Any]], NDArray[np.float32]]:
    """Known fields of the shots without a return, and their directions."""
    nowhere = np.zeros((0, 3), np.float32)
    fields = cloud.fields
    has_pattern = "ring" in fields and ("column" in fields or "time" in fields)
    if no_returns == "none":
        notes.append("shots without a return were ignored (no_returns='none')")
    if not finite.all():
        missing = np.flatnonzero(~finite)
        known = {name: fields[name][missing] for name in OF_SHOTS if name in fields}
        if no_returns == "none":
            return known, np.zeros((len(missing), 3), np.float32)
        if "direction" in fields:
            return known, fields["direction"][missing].astype(np.float32)
        return known, _directions_of_rows(cloud, lidar, vectors, first, missing, notes)
    if no_returns == "none" or "direction" in fields:  # a cloud with directions has a row for each shot
        return {}, nowhere
    table = lidar.shots(0.0)
    followed = _along_pattern(cloud, lidar, vectors, first) if has_pattern else None
    if followed is not None:
        lost = _others(len(table), followed.shot)
        lost = lost[_was_recorded(cloud, table.column[lost])]
        known = {"ring": table.ring[lost], "column": table.column[lost], "time": table.time[lost], "shot": lost}
        notes.append(f"{len(lost)} shots without a return were found by the pattern of {lidar.model}{followed.words}")
        return known, followed.directions(lost)
    named = None if "ring" not in fields else fields["ring"] if first is None else fields["ring"][first]
    rings = rings_of(vectors, lidar, named)
    if rings is None:
        notes.append(
            f"the points do not lie in the rings of {lidar.model}, so shots without a return are unknown; points of "
            "the air were added only along shots with a return"
        )
        return {}, nowhere
    gaps = gaps_between(rings)
    notes.append(
        f"{len(gaps.ring)} shots without a return were found between the points, by the rings and azimuth steps of "
        f"{lidar.model}"
    )
    if gaps.blank_deg:
        notes.append(
            f"{gaps.blank_deg:.0f} degrees of azimuth have no points and count as not recorded; nothing was added there"
        )
    rows = gaps.like if first is None else first[gaps.like]
    known = {name: fields[name][rows] for name in ("column", "time") if name in fields}
    if named is not None:
        known["ring"] = np.maximum(ring_numbers(rings, named)[gaps.ring], 0)
    return known, gaps.direction


def _directions_of_rows(
    cloud: PointCloud,
    lidar: Lidar,
    vectors: NDArray[np.float32],
    first: NDArray[np.int64] | None,
    missing: NDArray[np.int64],
    notes: list[str],
) -> NDArray[np.float32]:
    """Directions of the rows without coordinates; zero if unknown."""
    fields = cloud.fields
    when = next((name for name in ("column", "time") if name in fields), None)
    if "ring" in fields and when is not None:
        followed = _along_pattern(cloud, lidar, vectors, first)
        if followed is not None:
            notes.append(
                f"directions of {len(missing)} shots without a return are those of {lidar.model}{followed.words}"
            )
            return followed.directions(_shots_of_pattern(cloud, followed.table, missing))
        rows = np.arange(len(cloud)) if first is None else first
        rings = rings_of(vectors, lidar, fields["ring"][rows])
        if rings is not None:
            found = directions_at(
                rings, fields["ring"][rows], fields[when][rows], fields["ring"][missing], fields[when][missing]
            )
            known = np.count_nonzero(found.any(axis=1))
            notes.append(f"directions of {known} shots without a return follow from ring and {when} of the points")
            return found
    notes.append(f"{len(missing)} rows without coordinates have no direction; nothing was added along them")
    return np.zeros((len(missing), 3), np.float32)


def _was_recorded(cloud: PointCloud, column: NDArray[Any]) -> NDArray[np.bool_]:
    """Mask of the columns that a frame of a capture contains; all True if the cloud has no such information."""
    held = cloud.metadata.get("recorded_columns")
    if isinstance(held, (list, tuple)) and len(held) == 2 and all(isinstance(value, int) for value in held):
        return (column >= held[0]) & (column <= held[1])
    return np.ones(len(column), bool)


@dataclass(frozen=True, eq=False)
class _Followed:
    """Table of shots that a recording follows, and the beam angles of its unit."""

    table: ShotTable
    shot: NDArray[np.int64]
    """Row of the table of each shot with a return."""
    shift: NDArray[np.float64]
    """Azimuth and elevation of each ring's beam relative to the table [rad], shape (rings, 2)."""

    @property
    def words(self) -> str:
        """End of a note: the difference from the preset, if there is one."""
        most = np.degrees(np.abs(self.shift).max(initial=0.0))
        return f", with the beam angles of the recording (up to {most:.2g} degrees off)" if most > 0.0 else ""

    def directions(self, shot: NDArray[np.int64]) -> NDArray[np.float32]:
        """Unit vectors along shots of the table, with the angles of the unit, shape (n, 3)."""
        nominal = self.table.direction.take(shot, axis=0)
        if not self.shift.any():
            return nominal
        # The nominal direction is rotated by the angles of its ring, so that no sines of single shots are needed.
        ring = self.table.ring.take(shot)
        (turn_cos, tilt_cos), (turn_sin, tilt_sin) = (f(self.shift.T).astype(np.float32) for f in (np.cos, np.sin))
        x, y, z = nominal.T
        level = np.hypot(x, y)
        # cos(e + tilt) / cos(e); the azimuth of a vertical beam is not defined, and it stays as it is.
        shrink = tilt_cos.take(ring) - np.divide(z, level, out=np.zeros_like(z), where=level > 0.0) * tilt_sin.take(
            ring
        )
        cos, sin = turn_cos.take(ring) * shrink, turn_sin.take(ring) * shrink
        own = np.empty_like(nominal)
        np.subtract(x * cos, y * sin, out=own[:, 0])
        np.add(x * sin, y * cos, out=own[:, 1])
        np.add(z * tilt_cos.take(ring), level * tilt_sin.take(ring), out=own[:, 2])
        return own


def _along_pattern(
    cloud: PointCloud,
    lidar: Lidar,
    vectors: NDArray[np.float32],
    first: NDArray[np.int64] | None,
) -> _Followed | None:
    """Shots of the points by ring and column or time, or None if points do not lie along these shots.

    Drivers apply the beam angles of the unit to the points, so that each ring of the recording has its own.
    """
    table = lidar.shots(0.0)
    shot = _shots_of_pattern(cloud, table, first)
    rings = int(table.ring.max(initial=0)) + 1
    # An odd stride visits all rings of columns with an even number of them.
    some = slice(None, None, max(1, len(shot) // (_SAMPLED * rings)) | 1)
    seen, sampled = vectors[some], shot[some]
    shift = np.zeros((rings, 2))
    if lidar.config.pattern.kind == "spinning":
        shift = _shift_of_rings(seen - table.origin.take(sampled, axis=0), table, sampled, rings)
    followed = _Followed(table, shot, shift)
    along = np.einsum("ij,ij->i", seen, followed.directions(sampled))
    length = np.sqrt(np.einsum("ij,ij->i", seen, seen))
    agree = float(np.mean(along > _SAME_WAY * length)) if len(along) else 0.0
    return followed if agree >= _ALONG else None


def _shift_of_rings(
    seen: NDArray[np.float32], table: ShotTable, shot: NDArray[np.int64], rings: int
) -> NDArray[np.float64]:
    """Azimuth and elevation of the beam of each ring relative to the table [rad]; zero if the rings do not match.

    `seen` are vectors from beam exits to points of the shots `shot`. Rings with few points are interpolated.
    """
    none = np.zeros((rings, 2))
    x, y, z = seen.T.astype(np.float64)
    ring = table.ring.take(shot)
    known = np.flatnonzero(np.bincount(ring, minlength=rings) >= _FEWEST_OF_RING)
    if len(known) < 0.5 * rings:
        return none
    turn = wrapped(np.arctan2(y, x) - table.azimuth.take(shot))
    tilt = np.arctan2(z, np.sqrt(x * x + y * y)) - table.elevation.take(shot)
    off = median_by(ring, np.stack([turn, tilt]), rings)
    found, nominal = off.T[known], _elevations(table)[known]
    order = np.argsort(nominal)
    falling = np.diff((nominal + found[:, 1])[order]) < 0.0  # empty for one ring
    if np.abs(found[:, 0]).max() > _MOST_TURNED or np.count_nonzero(falling) > (1.0 - _ALONG) * len(falling):
        return none
    found[np.abs(found).max(axis=1) < _LEAST_SHIFT] = 0.0
    return np.stack([np.interp(np.arange(rings), known, values) for values in found.T], axis=1)


@lru_cache(maxsize=16)
def _elevations(table: ShotTable) -> NDArray[np.float64]:
    """Median elevation of each ring [rad]."""
    return median_by(table.ring, table.elevation.astype(np.float64), int(table.ring.max(initial=0)) + 1)


def _shots_of_pattern(cloud: PointCloud, table: ShotTable, first: NDArray[np.int64] | None) -> NDArray[np.int64]:
    """Row of each shot in the sensor's table of shots, by ring and column, or by ring and time."""
    by_column = "column" in cloud.fields
    ring, when = cloud.fields["ring"], cloud.fields["column" if by_column else "time"]
    shots = next(
        (
            found
            for known, rings, times, found in _known_shots
            if known is table and _equal(rings, ring) and _equal(times, when)
        ),
        None,
    )
    if shots is None:
        shots = _nearest_shots(ring.astype(np.int64), when, table, by_column)
        _known_shots[2:] = []
        _known_shots.insert(0, (table, ring, when, shots))
    return shots if first is None else shots.take(first)


def _equal(known: NDArray[Any], values: NDArray[Any]) -> bool:
    return known is values or np.array_equal(known, values)


_known_shots: list[tuple[ShotTable, NDArray[Any], NDArray[Any], NDArray[np.int64]]] = []
"""Latest clouds of streams: organised clouds have the same rings and times in every message."""


def _nearest_shots(ring: NDArray[np.int64], when: NDArray[Any], table: ShotTable, by_column: bool) -> NDArray[np.int64]:
    wanted: NDArray[Any]
    if by_column:
        wanted = ring * 65536 + when.astype(np.int64)
    else:
        time, last = when.astype(np.float64), table.duration
        # Times within a scan are relative to its start; absolute times are made relative to the first point.
        if len(time) and not (time.min() >= 0.0 and time.max() <= 1.001 * last):
            time = time - time.min()
        wanted = ring * (last + 1.0) + time
    order, ordered = _ordered(table, by_column)
    above = np.clip(np.searchsorted(ordered, wanted), 1, max(len(ordered) - 1, 1))
    nearer = np.where(np.abs(ordered[above - 1] - wanted) <= np.abs(ordered[above] - wanted), above - 1, above)
    return order[nearer]


_orders: dict[tuple[int, bool], tuple[ShotTable, NDArray[np.int64], NDArray[Any]]] = {}


def _ordered(table: ShotTable, by_column: bool) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """Rows of a table of shots sorted by ring and column, or ring and time, and the sorted keys; cached for streams."""
    key = (id(table), by_column)
    if key not in _orders or _orders[key][0] is not table:
        if len(_orders) > 16:
            _orders.clear()
        ring = table.ring.astype(np.int64)
        span = table.duration + 1.0
        values = ring * 65536 + table.column if by_column else ring * span + table.time
        order = np.argsort(values)
        _orders[key] = table, order, values[order]
    return _orders[key][1:]


assert NOTHING == 0xFFFFFFFF  # -1 as an unsigned row number
