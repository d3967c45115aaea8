"""Lamps of a world on the device: of all that may light a place, one is drawn by how much light it sends there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Masks, Reals, Vectors, namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import interpolate_knots, rotate
from parhelion.rays.scene import NOTHING
from parhelion.sensors.optics.sky import SkyLight
from parhelion.surfaces.bands import Band, radiant_per_lumen
from parhelion.world.world import World

# ---- The lamps of a world as arrays that kernels gather from --------------------------------------------------------


Floats = NDArray[np.float64]

SWITCH_ON_LUX = 35.0
"""Daylight on level ground below which lamps for the night are lit: a usual setting of street lamps' photocells."""
ALL_AROUND = (-2.0, -3.0)
"""Cosines of the inner and outer cone of a lamp without one: every direction lies inside."""


@dataclass(frozen=True, eq=False)
class LampTable:
    """Lamps that are lit. At an angle with cosine c to the axis the intensity has the factor s^2 (3 - 2 s).

    s is (c - cos_outer) / (cos_inner - cos_outer), kept within 0 and 1. The irradiance at a distance d is intensity
    over d^2.
    """

    position: Floats
    """Places [m] in the world, or in the frame of the actor that carries the lamp, shape (n, 3)."""
    direction: Floats
    """Axes as unit vectors in the same frame, shape (n, 3)."""
    cos_inner: Floats
    cos_outer: Floats
    """Cosines of the half-angles of the cones, shape (n,)."""
    intensity: Floats
    """Radiant intensity inside the inner cone in each band [W/sr], shape (n, bands)."""
    actor: NDArray[np.int32]
    """Row in the list of actors of the geometry that the sensor sees, or -1 for what stands, shape (n,)."""

    def __len__(self) -> int:
        return len(self.position)


def lamps_lit(sky: SkyLight) -> bool:
    """Whether lamps for the night are on in this daylight."""
    return sky.illuminance_lux < SWITCH_ON_LUX


def lamp_table(
    world: World, bands: Sequence[Band], *, night: bool = True, sensor: Sequence[str] = ("camera",)
) -> LampTable:
    """The lamps of a world that are lit by night, or by day; `sensor` as in `World.geometry`.

    Lumens become watts in a band by the spectrum of a black body of the lamp's colour temperature. Real LEDs have
    little beyond 750 nm: their near infrared comes out too strong.
    """
    actors = [item for item in world.objects if item.trajectory is not None and not item.hides_from(sensor)]
    rows = {item.index: row for row, item in enumerate(actors)}
    lamps = []
    for entry in world.lamps:
        carried = entry.lamp.actor is not None
        lit = entry.lamp.lit == "always" or (entry.lamp.lit == "night" and night)
        if lit and (not carried or entry.carrier in rows):
            lamps.append((entry.lamp, rows[entry.carrier] if carried else -1))
    cones = [
        ALL_AROUND
        if lamp.inner_deg is None or lamp.outer_deg is None
        else (np.cos(np.radians(lamp.inner_deg)), np.cos(np.radians(lamp.outer_deg)))
        for lamp, _ in lamps
    ]
    temperatures = {lamp.colour_temperature_k for lamp, _ in lamps}
    watts = {kelvin: np.array([radiant_per_lumen(kelvin, band) for band in bands]) for kelvin in temperatures}
    intensity = [lamp.candela * watts[lamp.colour_temperature_k] for lamp, _ in lamps]
    cosines = np.array(cones, dtype=np.float64).reshape(-1, 2)
    return LampTable(
        np.array([lamp.xyz for lamp, _ in lamps], dtype=np.float64).reshape(-1, 3),
        np.array([lamp.axis for lamp, _ in lamps], dtype=np.float64).reshape(-1, 3),
        cosines[:, 0].copy(),
        cosines[:, 1].copy(),
        np.array(intensity, dtype=np.float64).reshape(-1, len(bands)),
        np.array([row for _, row in lamps], dtype=np.int32),
    )


# ---- lights ---------------------------------------------------------------------------------------------------------


_ROWS = 3


@dataclass
class Lit:
    """The lamp that was drawn for a place, as kernel variables."""

    found: Masks
    direction: Vectors
    """From the place to the lamp."""
    distance: Reals
    irradiance: list[Reals]
    """On a surface that faces it [W/m^2], for each band, the chance of the draw made up for."""


@kernel_tree(fixed=("bands", "carried"))
@dataclass
class Lamps:
    """Small lamps with a cone of light, standing or carried by a moving body."""

    bands: int
    carried: bool
    """Whether any lamp moves."""
    count: Ints
    rows: Reals
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

    def _at(self, number: Ints, time: Reals) -> tuple[Vectors, Vectors, Reals, Reals, list[Reals]]:
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

    def _arriving(
        self, number: Ints, time: Reals, start: Vectors, normal: Vectors
    ) -> tuple[Vectors, Reals, list[Reals], Reals]:
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

    def chosen(self, start: Vectors, normal: Vectors, time: Reals, u: Reals) -> Lit:
        """One lamp for each place, drawn by what it sends there."""
        dr, mi = running_engine().dr, running_engine().mi

        def step(number: Ints, total: Reals, best: Reals, share: Reals, luck: Reals) -> Any:
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


# ---- The light of sun, sky and ground on the device: what rays see that leave the world -----------------------------


SIDE = 129
"""Points along each side of the map of the sky."""


@kernel_tree(fixed=("bands",))
@dataclass
class SkyOnDevice:
    """Radiance of the sky, as a map of the upper half of all directions seen from below in a paraboloid.

    A direction (x, y, z) has its place at x / (1 + z), y / (1 + z): no angle has to be worked out in kernels.
    """

    bands: int
    table: Reals
    """Radiance [W/(m^2 sr)] of each point, bands in fours."""
    below: list[Reals]
    """Radiance of directions below the horizon, for each band."""
    sun: list[Reals]
    """Direction to the sun."""
    sun_irradiance: list[Reals]
    """On a surface that faces the sun [W/m^2], for each band."""
    sun_radius: Reals
    """Half the angle of the disc [rad]."""
    sun_radiance: list[Reals]
    """Of the disc itself, for each band."""

    @classmethod
    def of(cls, engine: Engine, sky: SkyLight) -> SkyOnDevice:
        """Copy the light of a sky."""
        rows, _, bands = sky.radiance.shape
        fours = np.zeros((SIDE * SIDE, 4 * ((bands + 3) // 4)), np.float32)
        fours[:, :bands] = sky.radiance_at(directions().reshape(-1, 3))
        below = sky.radiance[rows // 2 :].mean(axis=(0, 1))
        disc = 2.0 * np.pi * (1.0 - np.cos(sky.sun_half_angle_rad))
        number = engine.number
        return cls(
            bands,
            engine.table(fours),
            [number(float(v)) for v in below],
            [number(float(v)) for v in sky.sun_direction],
            [number(float(v)) for v in sky.sun_irradiance],
            number(sky.sun_half_angle_rad),
            [number(float(v / disc)) for v in sky.sun_irradiance],
        )

    def radiance(self, direction: Vectors, *, with_sun: Masks) -> list[Reals]:
        """Radiance from a direction, for each band; `with_sun` says where the disc of the sun is seen, too."""
        dr, mi = running_engine().dr, running_engine().mi
        xp = namespace(direction.x)
        scale = 0.5 * (SIDE - 1) / (1.0 + xp.maximum(direction.z, 0.0))
        # Just below the horizon the map's edge is read, which is the horizon itself.
        across, down = (xp.clip(v * scale + 0.5 * (SIDE - 1), 0.0, SIDE - 1.001) for v in (direction.x, direction.y))
        column, row = mi.UInt32(across), mi.UInt32(down)
        fx, fy = across - mi.Float(column), down - mi.Float(row)
        groups = (self.bands + 3) // 4
        found: list[Reals] = []
        for group in range(groups):

            def point(k: int, group: int = group) -> Any:
                return dr.gather(mi.Vector4f, self.table, (row * SIDE + column + k) * groups + group)

            four = dr.lerp(dr.lerp(point(0), point(1), fx), dr.lerp(point(SIDE), point(SIDE + 1), fx), fy)
            found += [four.x, four.y, four.z, four.w]
        up = direction.z >= 0.0
        values = [dr.select(up, value, low) for value, low in zip(found[: self.bands], self.below, strict=True)]
        in_disc = mi.Bool(with_sun) & (self.off_sun(direction) < self.sun_radius)
        return [v + dr.select(in_disc, sun, 0.0) for v, sun in zip(values, self.sun_radiance, strict=True)]

    def off_sun(self, direction: Vectors) -> Reals:
        """Angle between directions and the sun's middle [rad], exact for small ones."""
        dr, mi = running_engine().dr, running_engine().mi
        # 1 - cos has no digits left at half a degree in float32; the chord has.
        return dr.norm(direction - mi.Vector3f(*self.sun))

    def to_sun(self, u: tuple[Reals, Reals]) -> Vectors:
        """Directions to points of the sun's disc, drawn evenly by two numbers within (0, 1)."""
        dr, mi = running_engine().dr, running_engine().mi
        middle = mi.Vector3f(*self.sun)
        side, up = mi.coordinate_system(middle)
        sine, cosine = dr.sincos(2.0 * np.pi * u[1])
        radius = self.sun_radius * dr.sqrt(u[0])
        return dr.normalize(middle + side * (radius * cosine) + up * (radius * sine))


def directions() -> NDArray[np.float64]:
    """The directions of the map's points, shape (SIDE, SIDE, 3); those outside of its circle lie on the horizon."""
    place = np.linspace(-1.0, 1.0, SIDE)
    y, x = np.meshgrid(place, place, indexing="ij")
    square = x * x + y * y
    z = np.maximum((1.0 - square) / (1.0 + square), 0.0)
    level = np.where(square > 1.0, 1.0 / np.sqrt(np.maximum(square, 1e-12)), 1.0 + z)
    return np.stack([x * level, y * level, z], axis=-1)
