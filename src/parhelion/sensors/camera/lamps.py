"""Lamps of a world on the device: of all that may light a place, one is drawn by how much light it sends there."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import interpolate_knots, rotate
from parhelion.rays.scene import NOTHING
from parhelion.sensors.light.lamps import LampTable

_ROWS = 3


@dataclass
class Lit:
    """The lamp that was drawn for a place, as kernel variables."""

    found: Any
    direction: Any
    """From the place to the lamp."""
    distance: Any
    irradiance: list[Any]
    """On a surface that faces it [W/m^2], for each band, the chance of the draw made up for."""


@kernel_tree(fixed=("bands", "carried"))
@dataclass
class Lamps:
    """Small lamps with a cone of light, standing or carried by a moving body."""

    bands: int
    carried: bool
    """Whether any lamp moves."""
    count: Any
    rows: Any
    """Place and body; axis and cosine where the cone ends; cosine up to which it is full; intensity of each band."""
    moving: tuple[Any, ...]
    """Poses of bodies: knots, count of them, knots a second, and time of the first."""

    @classmethod
    def of(cls, engine: Engine, table: LampTable, origin: NDArray[np.float64]) -> Lamps:
        """Copy a table of lamps."""
        count, bands = table.intensity.shape
        wide = 4 * ((bands + 3) // 4)
        rows = np.zeros((count, 4 * _ROWS + wide), np.float32)
        actor = table.actor.astype(np.int64)
        # What is carried is given in the frame of its body.
        rows[:, :3] = table.position - np.where(actor[:, None] < 0, origin, 0.0)
        rows[:, 3] = np.where(actor < 0, NOTHING, actor).astype(np.uint32).view(np.float32)
        rows[:, 4:7] = table.direction
        rows[:, 7], rows[:, 8] = table.cos_outer, table.cos_inner
        rows[:, 4 * _ROWS : 4 * _ROWS + bands] = table.intensity
        return cls(bands, bool(np.any(actor >= 0)), engine.whole(count), engine.table(rows), ())

    def with_bodies(self, moving: Any) -> Lamps:
        """The same for the time window that is set: `moving` is the scene's `MovingScene`, or None."""
        if not self.carried or moving is None:
            return self
        arrays = (moving.knots, moving.knot_count, moving.knots_per_second, moving.time_of_first)
        return Lamps(self.bands, True, self.count, self.rows, arrays)

    def _at(self, number: Any, time: Any) -> tuple[Any, Any, Any, Any, list[Any]]:
        """Place, axis, both cosines and intensities of lamps."""
        dr, mi = running_engine().dr, running_engine().mi
        width = _ROWS + (self.bands + 3) // 4
        four = [dr.gather(mi.Vector4f, self.rows, number * width + k) for k in range(width)]
        place, axis = mi.Vector3f(four[0].x, four[0].y, four[0].z), mi.Vector3f(four[1].x, four[1].y, four[1].z)
        if self.moving:
            knots, count, per_second, first = self.moving
            body = dr.reinterpret_array(mi.UInt32, four[0].w)
            on_body = body != NOTHING
            position, turn = interpolate_knots(
                dr, mi, knots, dr.select(on_body, body, 0) * count, (time - first) * per_second, count
            )
            place = dr.select(on_body, position + rotate(dr, mi, turn, place), place)
            axis = dr.select(on_body, rotate(dr, mi, turn, axis), axis)
        bands = [value for one in four[_ROWS:] for value in (one.x, one.y, one.z, one.w)]
        return place, axis, four[1].w, four[2].x, bands[: self.bands]

    def _arriving(self, number: Any, time: Any, start: Any, normal: Any) -> tuple[Any, Any, list[Any], Any]:
        """Direction, distance and irradiance of each band, and how much of it all meets the surface."""
        dr = running_engine().dr
        place, axis, outer, inner, intensity = self._at(number, time)
        way = place - start
        square = namespace(way.x).maximum(dr.dot(way, way), 1e-4)
        distance = dr.sqrt(square)
        direction = way / distance
        within = (-dr.dot(direction, axis) - outer) / namespace(square).maximum(inner - outer, 1e-4)
        cone = namespace(within).clip(within, 0.0, 1.0)
        factor = cone * cone * (3.0 - 2.0 * cone) / square
        light = [one * factor for one in intensity]
        cosine = dr.dot(normal, direction)
        total = sum(light[1:], start=light[0]) * dr.select(cosine > 0.0, cosine, 0.0)
        return direction, distance, light, total

    def chosen(self, start: Any, normal: Any, time: Any, u: Any) -> Lit:
        """One lamp for each place, drawn by what it sends there."""
        dr, mi = running_engine().dr, running_engine().mi

        def step(number: Any, total: Any, best: Any, share: Any, luck: Any) -> Any:
            sent = self._arriving(number, time, start, normal)[3]
            total = total + sent
            chance = dr.select(total > 0.0, sent / total, 0.0)
            # The number that decided once serves again: what is left of it is even again.
            takes = luck < chance
            luck = dr.select(takes, luck / namespace(chance).maximum(chance, 1e-12), (luck - chance) / (1.0 - chance))
            luck = namespace(luck).clip(luck, 1e-7, 1.0 - 1e-7)
            return number + 1, total, dr.select(takes, number, best), dr.select(takes, sent, share), luck

        state = (mi.UInt32(0), mi.Float(0.0), mi.UInt32(0), mi.Float(0.0), mi.Float(u))
        _, total, best, share, _ = dr.while_loop(state, lambda number, *_: number < self.count, step)
        direction, distance, light, _ = self._arriving(best, time, start, normal)
        found = share > 0.0
        weight = dr.select(found, total / share, 0.0)
        return Lit(found, direction, distance, [one * weight for one in light])
