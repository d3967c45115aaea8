"""Emission: from the table of shots and the sensor's motion to beams, and from beams to sub-rays, in kernels."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Keys, Reals, Vectors
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import interpolate_knots, rotate
from parhelion.rays.replay import Rows
from parhelion.sensors.optics.beams import BeamAim, Beams
from parhelion.sensors.optics.lidar.config import Beam, Noise
from parhelion.sensors.optics.lidar.patterns import ShotTable

# ---- The footprint of a pulse as a fixed set of sub-rays with weights -----------------------------------------------


# Half of the full width at half maximum of a Gaussian, in standard deviations.
_HALF_FWHM = np.sqrt(2.0 * np.log(2.0))

PROBES = 4
"""Sub-rays that adaptive sampling always traces: the rim points left, above, right and below."""
ALL_PROBES = 9
"""With the middle and the four rim points between those, which are traced where the first four disagree."""
MIDDLE = 4
"""Number of the sub-ray in the middle."""


SECTORS = 8
"""Parts of a footprint between neighbouring probes at the rim."""


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
    """Eighth of the footprint that each sub-ray lies in, shape (s,)."""
    sector_rim: NDArray[np.uint32]
    """The two probes at the rim of each eighth, shape (8, 2)."""

    def __len__(self) -> int:
        return len(self.weight)

    def sector_members(self) -> NDArray[np.uint32]:
        """The sub-rays beside the probes of each eighth, shape (8, n); 0xFFFFFFFF where there are fewer."""
        inside = [ALL_PROBES + np.flatnonzero(self.sector[ALL_PROBES:] == number) for number in range(SECTORS)]
        members = np.full((SECTORS, max(1, *(len(rows) for rows in inside))), 0xFFFFFFFF, np.uint32)
        for row, numbers in zip(members, inside, strict=True):
            row[: len(numbers)] = numbers
        return members

    def five_point_weights(self) -> NDArray[np.float64] | None:
        """Weights of the four probes and the middle that give the mean over all sub-rays of anything quadratic.

        None where there are none: footprints whose probes do not lie evenly about the middle.
        """
        if len(self) <= ALL_PROBES:
            return None
        x, y = (self.slope.astype(np.float64) / max(float(np.abs(self.slope).max()), 1e-12)).T
        forms = np.stack([np.ones_like(x), x, y, x * x, y * y, x * y])
        weights, *_ = np.linalg.lstsq(forms[:, : MIDDLE + 1], forms.mean(axis=1), rcond=None)
        exact = np.allclose(forms[:, : MIDDLE + 1] @ weights, forms.mean(axis=1), atol=1e-5)
        return weights if exact and np.all(weights > 0.0) else None


def footprint(beam: Beam) -> Footprint:
    """Sub-rays of equal weight, spread so that centre and width of the sampled beam are those of the real one."""
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
    """Area of the beam [m^2] at ranges [m]: within 1/e^2 of a Gaussian, within the edge of a uniform one."""
    widen = 2.0 / float(_HALF_FWHM) if beam.profile == "gaussian" and beam.divergence_at == "fwhm" else 1.0
    half = [
        widen * (0.5e-3 * beam.exit_diameter_mm + np.asarray(range_m) * np.tan(0.5e-3 * angle))
        for angle in beam.divergence_mrad
    ]
    area = (4.0 if beam.shape == "rectangle" else np.pi) * half[0] * half[1]
    return np.maximum(area, 1e-12)


def _half_width_in_points(beam: Beam) -> float:
    """Half the stated width in units of `unit_points`: standard deviations for a Gaussian, half widths else."""
    if beam.profile == "uniform":
        return 1.0
    return {"1/e2": 2.0, "fwhm": float(_HALF_FWHM), "edge": 2.0}[beam.divergence_at]


def unit_points(count: int, shape: str, profile: str) -> NDArray[np.float64]:
    """An even set of points (count, 2): unit standard deviation (gaussian) or unit half width (uniform).

    Ellipses take a point in the middle and rings of 8, 16, 24 ... points, each ring at the radius that halves the
    energy of its share of the beam; rectangles take the R2 sequence. Mean and second moments (of three points or
    more) are then set to the exact ones, which makes the sampled footprint integral exact for everything that is
    quadratic over the footprint.
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
    if count == 3:  # a middle point and a ring of two would lie on one line
        angle = 2.0 * np.pi * np.arange(3) / 3.0
        return np.sqrt(0.5) * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    number = max(1, round((np.sqrt(count) - 1.0) / 2.0))
    outer = np.cumsum(np.arange(1, number + 1))
    edges = np.round(1 + (count - 1) * np.concatenate([[0], outer]) / outer[-1]).astype(int)
    points = [np.zeros((1, 2))]
    for first, last in pairwise(edges.tolist()):
        size = last - first
        # Ring area from share first / count to last / count; its middle halves that area.
        radius = np.sqrt((first + last) / 2.0 / count)
        # The outermost ring has a point on the horizontal axis; each ring inside is turned by half a step.
        turn = 0.0 if last == count else np.pi / size
        angle = turn + 2.0 * np.pi * np.arange(size) / size
        points.append(radius * np.stack([np.cos(angle), np.sin(angle)], axis=1))
    return np.concatenate(points)


def _square(count: int) -> NDArray[np.float64]:
    """Points in the square from -1 to 1, by the R2 sequence."""
    plastic = 1.32471795724474602596  # root of x^3 = x + 1; its powers make the sequence
    unit = (0.5 + np.outer(np.arange(1, count + 1), [1 / plastic, 1 / plastic**2])) % 1.0
    return 2.0 * unit - 1.0


def probes_first(points: NDArray[np.float64]) -> NDArray[np.intp]:
    """An order of the points that begins with four at the rim, the middle one, and four at the rim between those.

    The first four are taken along the axes: edges in man-made worlds mostly run level or upright, and such an edge
    that cuts the rim passes one of them first.
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
    # In order of angle they are taken alternately, so that every eighth has one of the first four.
    rim = np.array(chosen)
    rim = rim[np.argsort(np.arctan2(points[rim, 1], points[rim, 0]))]
    rim = np.roll(rim, -int(np.flatnonzero(rim == chosen[0])[0]))
    rest = np.setdiff1d(np.arange(count), [middle, *chosen])
    return np.concatenate([rim[0::2], [middle], rim[1::2], rest])


def sectors(points: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The eighth between neighbouring rim probes that each point lies in, by angle, and the probes of each eighth."""
    rim = np.array([k for k in range(ALL_PROBES) if k != MIDDLE])
    if len(points) <= ALL_PROBES:
        return np.zeros(len(points), np.uint32), np.zeros((len(rim), 2), np.uint32)
    angle = np.arctan2(points[:, 1], points[:, 0])
    rim = rim[np.argsort(angle[rim])]
    sector = np.searchsorted(angle[rim], angle) % len(rim)
    return sector.astype(np.uint32), np.stack([rim, np.roll(rim, 1)], axis=1).astype(np.uint32)


# ---- emit -----------------------------------------------------------------------------------------------------------


AIM_DRAW = 1000
"""Number of the random draw that moves a beam's direction, apart from the receiver's draws."""
PULSE_DRAW = 1001
"""Number of the draw of each pulse for weather that varies from pulse to pulse."""


@kernel_tree()
@dataclass
class ShotArrays:
    """A table of shots on the device, in the sensor frame."""

    count: int
    rows: tuple[Reals, Reals, Reals]
    """Axis and time, the direction left of it, and origin: four numbers a shot each, in the order of tracing."""
    time: Reals
    ring_column: Ints
    """Ring in the lower, column in the upper 16 bits."""
    order: Ints
    """Shots in the order in which they are traced: ring by ring, so that neighbouring rays are alike."""
    place: Ints
    """The inverse: where in that order each shot is."""
    has_gain: bool = False
    """Whether rings have strengths of their own, which are then the fourth number of origins."""

    @classmethod
    def upload(cls, engine: Engine, table: ShotTable, gains: NDArray[np.float64] | None = None) -> ShotArrays:
        """Copy a table, with the direction that is level and left of each beam beside its axis.

        `gains` are the strengths of rings, None where all are alike.
        """
        axis = table.direction.astype(np.float64)
        left = np.stack([-axis[:, 1], axis[:, 0], np.zeros(len(axis))], axis=1)
        length = np.linalg.norm(left, axis=1, keepdims=True)
        left = np.where(length > 1e-6, left / np.maximum(length, 1e-12), [0.0, 1.0, 0.0])
        order = np.lexsort((table.time, table.ring))
        ring_column = table.ring.astype(np.uint32) | (table.column.astype(np.uint32) << 16)
        origin = table.origin if gains is None else np.c_[table.origin, gains[table.ring]]
        rows = (in_fours(engine, values[order]) for values in (np.c_[axis, table.time], left, origin))
        return cls(
            len(axis), tuple(rows), engine.table(table.time), engine.table(ring_column),  # type: ignore[arg-type]
            engine.table(order), engine.table(np.argsort(order)), gains is not None,
        )  # fmt: skip


def in_fours(engine: Engine, rows: NDArray[Any]) -> Reals:
    """Rows of up to four numbers as a table of four each, which kernels read faster than columns."""
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
) -> Beams:
    """Point every shot of every scan: pose at the shot's own time, with jitter where the sensor's noise has any.

    `varies_per_pulse` gives each pulse a random number of its own.
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
        shots, beams, sizes, engine.table(knots), rate, keys, jitter, varies_per_pulse
    )
    return Beams(count, scan, shot, rows, shots.has_gain)


def _aim(
    shots: ShotArrays,
    beams: Rows,
    sizes: tuple[Ints, Ints],
    knots: Reals,
    rate: Reals,
    keys: Keys,
    jitter: list[Reals] | None,
    varies_per_pulse: bool,
) -> tuple[Ints, Ints, tuple[Reals, Reals, Reals]]:
    """Scan, shot and rows of beams; a scan has `sizes` shots and knots, of which `rate` come a second."""
    engine = running_engine()
    dr, mi, index = engine.dr, engine.mi, beams.index
    per_scan, knot_count = sizes
    scan = index // per_scan
    place = index - scan * per_scan
    shot = dr.gather(mi.UInt32, shots.order, place)
    fours = [dr.gather(mi.Vector4f, rows, place) for rows in shots.rows]
    axis, left, origin = (mi.Vector3f(four.x, four.y, four.z) for four in fours)
    time = fours[0].w
    low, high = (dr.gather(mi.UInt32, k, scan) for k in keys)
    pulse_draw = to_unit(words((low, high), shot, PULSE_DRAW)[0]) if varies_per_pulse else 0.0
    if jitter is not None:
        a, b, _, _ = words((low, high), shot, AIM_DRAW)
        sideways, upwards = to_normal(a, b)
        axis = dr.normalize(axis + jitter[0] * sideways * left + jitter[1] * upwards * dr.cross(axis, left))
    position, turn = interpolate_knots(dr, mi, knots, scan * knot_count, time * rate, knot_count)
    start = position + rotate(dr, mi, turn, origin)
    world_axis, world_left = rotate(dr, mi, turn, axis), rotate(dr, mi, turn, left)
    rows = (
        dr.ravel(mi.Vector4f(world_axis.x, world_axis.y, world_axis.z, time)),
        dr.ravel(mi.Vector4f(world_left.x, world_left.y, world_left.z, pulse_draw)),
        dr.ravel(mi.Vector4f(start.x, start.y, start.z, fours[2].w if shots.has_gain else 0.0)),
    )
    dr.eval(scan, shot, *rows)
    return scan, shot, rows


@kernel_tree(fixed=("count", "weight", "five_point_weights", "sector_size", "sectors_are_even"))
@dataclass
class SubRays:
    """The footprint on the device: gives the ray of sub-ray k of beam b."""

    count: int
    weight: float
    """Share of the pulse's energy, the same for all."""
    rows: Reals
    """Slope and offset, each to the left and up."""
    five_point_weights: tuple[float, ...] | None
    """As `Footprint.five_point_weights`."""
    sector_rim: Ints
    """As of `Footprint`."""
    sector_size: int
    """Most sub-rays beside the probes that lie in one eighth of the footprint."""
    sector_members: Ints
    """As of `Footprint`."""
    sectors_are_even: bool
    """Whether all eighths have as many."""

    @classmethod
    def of(cls, engine: Engine, footprint: Footprint) -> SubRays:
        """Copy a footprint."""
        weights = footprint.five_point_weights()
        members = footprint.sector_members()
        return cls(
            len(footprint), float(footprint.weight[0]),
            engine.table(np.concatenate([footprint.slope, footprint.offset], axis=1)),
            None if weights is None else tuple(weights.tolist()),
            engine.table(footprint.sector_rim), members.shape[1], engine.table(members),
            bool(np.all(members < len(footprint))),
        )  # fmt: skip

    def ray(self, aim: BeamAim, sub_ray: Ints) -> tuple[Vectors, Vectors]:
        """Start point relative to the beam's exit, and unit direction, of sub-rays, as kernel variables."""
        dr, mi = running_engine().dr, running_engine().mi
        if self.count == 1:
            return mi.Vector3f(0.0), aim.axis
        up = dr.cross(aim.axis, aim.left)
        bend = dr.gather(mi.Vector4f, self.rows, sub_ray)
        return bend.z * aim.left + bend.w * up, dr.normalize(aim.axis + bend.x * aim.left + bend.y * up)
