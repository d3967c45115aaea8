"""Emission: from the table of shots and the sensor's motion to beams, and from beams to sub-rays, in kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Keys, Reals, Vectors
from parhelion.core.random import to_normal, to_unit, words
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import interpolate_knots, rotate
from parhelion.rays.rows import Rows
from parhelion.sensors.lidar.beam import Footprint
from parhelion.sensors.lidar.config import Noise
from parhelion.sensors.lidar.patterns import ShotTable
from parhelion.sensors.light.beams import BeamAim, Beams

AIM_DRAW = 1000
"""Number of the random draw that moves a beam's direction, apart from the receiver's draws."""
LUCK_DRAW = 1001
"""Number of the draw that gives each pulse its luck with the weather."""


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
    noise: Noise,
    *,
    noisy: bool,
    lucky: bool = False,
) -> Beams:
    """Point every shot of every scan: pose at the shot's own time, with jitter where the sensor has any.

    `lucky` gives each pulse a random number of its own.
    """
    count = len(knots) * shots.count
    jitter = None
    if noisy and (noise.azimuth_jitter_deg or noise.elevation_jitter_deg):
        sigma = (noise.azimuth_jitter_deg, noise.elevation_jitter_deg)
        jitter = [engine.number(float(np.radians(s))) for s in sigma]
    rate = engine.number((knot_count - 1) / max(duration, 1e-9))
    sizes = tuple(engine.whole(size) for size in (shots.count, knot_count))
    beams = Rows.kept(engine, count)
    scan, shot, rows = engine.frozen(_aim)(shots, beams, sizes, engine.table(knots), rate, keys, jitter, lucky)
    return Beams(count, scan, shot, rows, shots.has_gain)


def _aim(
    shots: ShotArrays,
    beams: Rows,
    sizes: tuple[Ints, Ints],
    knots: Reals,
    rate: Reals,
    keys: Keys,
    jitter: list[Reals] | None,
    lucky: bool,
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
    luck = to_unit(words((low, high), shot, LUCK_DRAW)[0]) if lucky else 0.0
    if jitter is not None:
        a, b, _, _ = words((low, high), shot, AIM_DRAW)
        sideways, upwards = to_normal(a, b)
        axis = dr.normalize(axis + jitter[0] * sideways * left + jitter[1] * upwards * dr.cross(axis, left))
    position, turn = interpolate_knots(dr, mi, knots, scan * knot_count, time * rate, knot_count)
    start = position + rotate(dr, mi, turn, origin)
    world_axis, world_left = rotate(dr, mi, turn, axis), rotate(dr, mi, turn, left)
    rows = (
        dr.ravel(mi.Vector4f(world_axis.x, world_axis.y, world_axis.z, time)),
        dr.ravel(mi.Vector4f(world_left.x, world_left.y, world_left.z, luck)),
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
