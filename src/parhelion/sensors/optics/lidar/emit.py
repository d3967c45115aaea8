"""Emission: from the table of shots and the sensor's motion to beams, and from beams to sub-rays, in kernels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int, Keys, Vectors
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import interpolate_knots, rotate
from parhelion.rays.replay import Rows
from parhelion.sensors.optics.beams import BeamAim, Beams
from parhelion.sensors.optics.lidar.config import Beam, Noise
from parhelion.sensors.optics.lidar.draws import AIM_DRAW, PULSE_DRAW
from parhelion.sensors.optics.lidar.fmcw import speckle
from parhelion.sensors.optics.lidar.patterns import ShotTable

# ---- Footprint of a pulse: a fixed set of sub-rays with weights -----------------------------------------------------


# Half of the full width at half maximum of a Gaussian, in standard deviations.
_HALF_FWHM = np.sqrt(2.0 * np.log(2.0))

PROBES = 4
"""Sub-rays that adaptive sampling always traces: the rim points left, above, right and below."""
ALL_PROBES = 9
"""Probes including the centre and the four rim points in between, which are traced if the first four disagree."""
MIDDLE = 4
"""Number of the sub-ray at the centre."""


SECTORS = 8
"""Number of sectors of a footprint between neighbouring rim probes."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """Sub-rays of one beam, the same for every pulse."""

    slope: NDArray[np.float32]
    """Tangents of the deflection from the beam's axis, horizontal (left) and vertical (up), shape (s, 2)."""
    offset: NDArray[np.float32]
    """Shift of the start point from the beam's exit [m], horizontal and vertical, shape (s, 2)."""
    weight: NDArray[np.float32]
    """Share of the pulse's energy, sum 1, shape (s,)."""
    sector: NDArray[np.uint32]
    """Sector of each sub-ray, shape (s,)."""
    sector_rim: NDArray[np.uint32]
    """Two rim probes of each sector, shape (8, 2)."""

    def __len__(self) -> int:
        return len(self.weight)

    def sector_members(self) -> NDArray[np.uint32]:
        """Sub-rays of each sector other than the probes, shape (8, n), padded with 0xFFFFFFFF."""
        inside = [ALL_PROBES + np.flatnonzero(self.sector[ALL_PROBES:] == number) for number in range(SECTORS)]
        members = np.full((SECTORS, max(1, *(len(rows) for rows in inside))), 0xFFFFFFFF, np.uint32)
        for row, numbers in zip(members, inside, strict=True):
            row[: len(numbers)] = numbers
        return members

    def five_point_weights(self) -> NDArray[np.float64] | None:
        """Weights of four probes and the centre that give the exact mean of any quadratic function over all sub-rays.

        None if no such weights exist, that is, if the probes are not distributed evenly around the centre.
        """
        if len(self) <= ALL_PROBES:
            return None
        x, y = (self.slope.astype(np.float64) / max(float(np.abs(self.slope).max()), 1e-12)).T
        forms = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y])
        weights, *_ = np.linalg.lstsq(forms[:, : MIDDLE + 1], forms.mean(axis=1), rcond=None)
        exact = np.allclose(forms[:, : MIDDLE + 1] @ weights, forms.mean(axis=1), atol=1e-5)
        return weights if exact and np.all(weights > 0.0) else None


def footprint(beam: Beam) -> Footprint:
    """Sub-rays of equal weight, placed so that the sampled beam has the centre and width of the real one."""
    divergence = np.asarray(beam.divergence_mrad) * 1e-3
    radius = np.array([beam.exit_diameter_mm, beam.exit_diameter_mm]) * 0.5e-3
    points = unit_points(beam.sub_rays, beam.shape, beam.profile)
    scale = _half_width_in_points(beam)
    order = probes_first(points)
    points = points[order]
    slope = np.tan(divergence / 2.0) / scale * points
    offset = radius / scale * points
    weight = np.full(len(points), 1.0 / len(points))
    return Footprint(
        slope.astype(np.float32),
        offset.astype(np.float32),
        weight.astype(np.float32),
        *sectors(points),
    )


def cross_section(beam: Beam, range_m: NDArray[np.float64]) -> NDArray[np.float64]:
    """Cross section of the beam [m^2] at ranges [m]: within 1/e^2 of a Gaussian, within the edge of a uniform beam."""
    widen = 2.0 / float(_HALF_FWHM) if beam.profile == "gaussian" and beam.divergence_at == "fwhm" else 1.0
    half = [
        widen * (0.5e-3 * beam.exit_diameter_mm + np.asarray(range_m) * np.tan(0.5e-3 * angle))
        for angle in beam.divergence_mrad
    ]
    area = (4.0 if beam.shape == "rectangle" else np.pi) * half[0] * half[1]
    return np.maximum(area, 1e-12)


def _half_width_in_points(beam: Beam) -> float:
    """Half the stated width in units of `unit_points`: standard deviations (Gaussian) or half widths (uniform)."""
    if beam.profile == "uniform":
        return 1.0
    return {"1/e2": 2.0, "fwhm": float(_HALF_FWHM), "edge": 2.0}[beam.divergence_at]


def unit_points(count: int, shape: str, profile: str) -> NDArray[np.float64]:
    """Evenly distributed points, shape (count, 2), of unit standard deviation (gaussian) or unit half width (uniform).

    Ellipses have a point at the centre and rings of 8, 16, 24 ... points, each ring at the radius that halves the
    energy of its share of the beam. Rectangles use the R2 sequence. Mean and second moments (from three points on) are
    then set to their exact values, so that the sampled footprint integral is exact for quadratic functions.
    """
    if count == 1:
        return np.zeros((1, 2))
    points = _square(count) if shape == "rectangle" else _rings(count)
    if profile == "gaussian":
        if shape == "rectangle":
            from scipy.special import ndtri

            points = ndtri(0.5 + 0.5 * np.clip(points, -1.0 + 1.0 / count, 1.0 - 1.0 / count))
        else:
            radius = np.linalg.norm(points, axis=1, keepdims=True)
            stretched = np.sqrt(-2.0 * np.log1p(-(radius**2)))
            points = np.where(radius > 0, points / np.maximum(radius, 1e-12) * stretched, 0.0)
    variance = 1.0 if profile == "gaussian" else 1.0 / 3.0 if shape == "rectangle" else 0.25
    points = points - points.mean(axis=0)
    if count >= 3:
        values, vectors = np.linalg.eigh(points.T @ points / count)
        points = points @ (vectors @ np.diag(np.sqrt(variance / values)) @ vectors.T)
    return points


def _rings(count: int) -> NDArray[np.float64]:
    """Points in the unit disc, each for the same area."""
    if count == 3:  # a centre point and a ring of two would lie on one line
        angle = 2.0 * np.pi * np.arange(3) / 3.0
        return np.sqrt(0.5) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    number = max(1, round((np.sqrt(count) - 1.0) / 2.0))
    outer = np.cumsum(np.arange(1, number + 1))
    edges = np.round(1 + (count - 1) * np.concatenate([[0], outer]) / outer[-1]).astype(int)
    points = [np.zeros((1, 2))]
    for first, last in pairwise(edges.tolist()):
        size = last - first
        # The ring covers the shares first / count to last / count of the area; this radius halves its area.
        radius = np.sqrt((first + last) / 2.0 / count)
        # The outermost ring has a point on the horizontal axis; each inner ring is rotated by half a step.
        rotation = 0.0 if last == count else np.pi / size
        angle = rotation + 2.0 * np.pi * np.arange(size) / size
        points.append(radius * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    return np.concatenate(points)


def _square(count: int) -> NDArray[np.float64]:
    """Points in the square from -1 to 1, by the R2 sequence."""
    plastic = 1.32471795724474602596  # root of x^3 = x + 1; its powers make the sequence
    unit = (0.5 + np.outer(np.arange(1, count + 1), [1 / plastic, 1 / plastic**2])) % 1.0
    return 2.0 * unit - 1.0


def probes_first(points: NDArray[np.float64]) -> NDArray[np.intp]:
    """Order of the points that starts with four rim points, the centre, and the four rim points in between.

    The first four lie on the axes: edges of man-made objects are mostly horizontal or vertical, and such an edge passes
    one of these points first.
    """
    count = len(points)
    if count <= ALL_PROBES:
        return np.arange(count)
    middle = int(np.argmin(np.sum(points**2, axis=1)))
    chosen: list[int] = []
    for angle in np.radians([0, 90, 180, 270, 45, 135, 225, 315]):
        reach = points @ np.array([np.cos(angle), np.sin(angle)])
        reach[[middle, *chosen]] = -np.inf
        chosen.append(int(np.argmax(reach)))
    # Sorted by angle, points are assigned alternately, so that every sector has one of the first four.
    rim = np.array(chosen)
    rim = rim[np.argsort(np.arctan2(points[rim, 1], points[rim, 0]))]
    rim = np.roll(rim, -int(np.flatnonzero(rim == chosen[0])[0]))
    rest = np.setdiff1d(np.arange(count), [middle, *chosen])
    return np.concatenate([rim[0::2], [middle], rim[1::2], rest])


def sectors(points: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """Sector between neighbouring rim probes of each point, by angle, and the two probes of each sector."""
    rim = np.array([k for k in range(ALL_PROBES) if k != MIDDLE])
    if len(points) <= ALL_PROBES:
        return np.zeros(len(points), np.uint32), np.zeros((len(rim), 2), np.uint32)
    angle = np.arctan2(points[:, 1], points[:, 0])
    rim = rim[np.argsort(angle[rim])]
    sector = np.searchsorted(angle[rim], angle) % len(rim)
    return sector.astype(np.uint32), np.stack([rim, np.roll(rim, 1)], axis=1).astype(np.uint32)


# ---- emit -----------------------------------------------------------------------------------------------------------


@kernel_tree()
@dataclass
class ShotArrays:
    """Table of shots on the device, in the sensor frame."""

    count: int
    rows: tuple[Float, Float, Float]
    """Axis and time, the horizontal direction to its left, and origin: four numbers per shot each, in tracing order."""
    time: Float
    ring_column: Int
    """Ring in the lower, column in the upper 16 bits."""
    order: Int
    """Shots in tracing order: ring by ring, so that neighbouring rays are coherent."""
    place: Int
    """Inverse of `order`: position of each shot in tracing order."""
    has_gain: bool = False
    """True if shots have individual gains, which are then the fourth number of the origins."""

    @classmethod
    def upload(
        cls,
        engine: Engine,
        table: ShotTable,
        gains: NDArray[np.float64] | None = None,
        raised: NDArray[np.float64] | None = None,
    ) -> ShotArrays:
        """Copy a table to the device and add the horizontal direction to the left of each beam.

        `gains` are those of the shots, `raised` the angles [rad] by which the beams of each ring leave above the
        directions of the table; None if there are none.
        """
        axis = table.direction.astype(np.float64)
        left = np.stack([-axis[:, 1], axis[:, 0], np.zeros(len(axis))], axis=1)
        length = np.linalg.norm(left, axis=1, keepdims=True)
        left = np.where(length > 1e-6, left / np.maximum(length, 1e-12), [0.0, 1.0, 0.0])
        if raised is not None:
            angle = raised[table.ring][:, None]
            axis = np.cos(angle) * axis + np.sin(angle) * np.cross(axis, left)
        order = np.lexsort((table.time, table.ring))
        ring_column = table.ring.astype(np.uint32) | (table.column.astype(np.uint32) << 16)
        origin = table.origin if gains is None else np.c_[table.origin, gains]
        rows = (in_fours(engine, values[order]) for values in (np.c_[axis, table.time], left, origin))
        return cls(
            len(axis),
            tuple(rows),  # type: ignore[arg-type]
            engine.table(table.time),
            engine.table(ring_column),  # type: ignore[arg-type]
            engine.table(order),
            engine.table(np.argsort(order)),
            gains is not None,
        )


def in_fours(engine: Engine, rows: NDArray[Any]) -> Float:
    """Rows of up to four numbers, padded to four, which kernels read faster than columns."""
    return engine.table(np.pad(rows.astype(np.float32), ((0, 0), (0, 4 - rows.shape[1]))))


def aim(
    engine: Engine,
    shots: ShotArrays,
    knots: NDArray[np.float32],
    knot_count: int,
    duration: float,
    keys: Keys,
    noise: Noise | None,
    *,
    varies_per_pulse: bool,
    looks: int = 0,
) -> Beams:
    """Aim every shot of every scan: the pose at the time of the shot, plus pointing jitter if `noise` has any.

    `varies_per_pulse` draws one random number per pulse, and `looks` above 0 the speckle of a coherent lidar.
    """
    count = len(knots) * shots.count
    jitter = None
    if noise is not None and (noise.azimuth_jitter_deg or noise.elevation_jitter_deg):
        sigma = (noise.azimuth_jitter_deg, noise.elevation_jitter_deg)
        jitter = [engine.number(float(np.radians(s))) for s in sigma]
    rate = engine.number((knot_count - 1) / max(duration, 1e-9))
    sizes = tuple(engine.whole(size) for size in (shots.count, knot_count))
    beams = Rows.cached(engine, count)
    scan, shot, rows = engine.frozen(_aim)(
        shots, beams, sizes, engine.table(knots), rate, keys, jitter, varies_per_pulse, looks
    )
    return Beams(count, scan, shot, rows, shots.has_gain or looks > 0, looks)


def _aim(
    shots: ShotArrays,
    beams: Rows,
    sizes: tuple[Int, Int],
    knots: Float,
    rate: Float,
    keys: Keys,
    jitter: list[Float] | None,
    varies_per_pulse: bool,
    looks: int,
) -> tuple[Int, Int, tuple[Float, Float, Float]]:
    """Scan, shot and rows of beams; a scan has `sizes` shots and motion knots, with `rate` knots per second."""
    engine = running_engine()
    dr, mi, index = engine.dr, engine.mi, beams.index
    per_scan, knot_count = sizes
    scan = index // per_scan
    place = index - scan * per_scan
    shot = dr.gather(mi.UInt32, shots.order, place)
    fours = [dr.gather(mi.Vector4f, rows, place) for rows in shots.rows]
    axis, left, origin = (mi.Vector3f(four.x, four.y, four.z) for four in fours)
    time = fours[0].w
    low, high = (dr.gather(mi.UInt32, cast("Int", k), scan) for k in keys)
    pulse_draw = to_unit(words((low, high), shot, PULSE_DRAW)[0]) if varies_per_pulse else 0.0
    if jitter is not None:
        a, b, _, _ = words((low, high), shot, AIM_DRAW)
        sideways, upwards = to_normal(a, b)
        axis = dr.normalize(axis + jitter[0] * sideways * left + jitter[1] * upwards * dr.cross(axis, left))
    position, rotation = interpolate_knots(dr, mi, knots, scan * knot_count, time * rate, knot_count)
    start = position + rotate(dr, mi, rotation, origin)
    world_axis, world_left = rotate(dr, mi, rotation, axis), rotate(dr, mi, rotation, left)
    gain: Any = fours[2].w if shots.has_gain else 0.0
    if looks:
        gain = (gain if shots.has_gain else 1.0) * speckle((low, high), shot, looks)
    rows = (
        dr.ravel(mi.Vector4f(world_axis.x, world_axis.y, world_axis.z, time)),
        dr.ravel(mi.Vector4f(world_left.x, world_left.y, world_left.z, pulse_draw)),
        dr.ravel(mi.Vector4f(start.x, start.y, start.z, gain)),
    )
    dr.eval(scan, shot, *rows)
    return scan, shot, rows


@kernel_tree(fixed=("count", "weight", "five_point_weights", "sector_size", "sectors_are_even"))
@dataclass
class SubRays:
    """Footprint on the device, which generates the sub-rays of beams."""

    count: int
    weight: float
    """Share of the pulse's energy, equal for all sub-rays."""
    rows: Float
    """Slope and offset, each to the left and up."""
    five_point_weights: tuple[float, ...] | None
    """See `Footprint.five_point_weights`."""
    sector_rim: Int
    """See `Footprint.sector_rim`."""
    sector_size: int
    """Largest number of sub-rays of a sector, not counting the probes."""
    sector_members: Int
    """See `Footprint.sector_members`."""
    sectors_are_even: bool
    """True if all sectors have equally many sub-rays."""

    @classmethod
    def of(cls, engine: Engine, footprint: Footprint) -> SubRays:
        """Copy a footprint to the device."""
        weights = footprint.five_point_weights()
        members = footprint.sector_members()
        return cls(
            len(footprint),
            float(footprint.weight[0]),
            engine.table(np.concatenate([footprint.slope, footprint.offset], axis=1)),
            None if weights is None else tuple(weights.tolist()),
            engine.table(footprint.sector_rim),
            members.shape[1],
            engine.table(members),
            bool(np.all(members < len(footprint))),
        )

    def ray(self, aim: BeamAim, sub_ray: Int) -> tuple[Vectors, Vectors]:
        """Start point relative to the beam exit, and unit direction, of sub-rays, as kernel variables."""
        dr, mi = running_engine().dr, running_engine().mi
        if self.count == 1:
            return mi.Vector3f(0.0), aim.axis
        up = dr.cross(aim.axis, aim.left)
        bend = dr.gather(mi.Vector4f, self.rows, sub_ray)
        return bend.z * aim.left + bend.w * up, dr.normalize(aim.axis + bend.x * aim.left + bend.y * up)
