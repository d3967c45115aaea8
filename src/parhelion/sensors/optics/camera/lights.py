"""Lamps and sky on the device. One lamp per surface point is sampled in proportion to its irradiance there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Bool, Float, Int, Vectors, namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import MovingScene, interpolate_knots, rotate
from parhelion.rays.scene import NOTHING
from parhelion.sensors.optics.sky import SkyLight
from parhelion.surfaces.bands import Band, radiant_per_lumen
from parhelion.world.world import World

# ---- Lamps of a world as arrays -------------------------------------------------------------------------------------


Floats = NDArray[np.float64]

SWITCH_ON_LUX = 35.0
"""Horizontal illuminance [lux] below which night lamps are lit: a common setting of street-lamp photocells."""
ALL_AROUND = (-2.0, -3.0)
"""Cosines of the inner and outer cone of an omnidirectional lamp: every direction lies inside."""


@dataclass(frozen=True, eq=False)
class LampTable:
    """Lamps that are lit. At an angle with cosine c to the axis, the intensity has the factor s^2 (3 - 2 s).

    s is (c - cos_outer) / (cos_inner - cos_outer), clipped to [0, 1]. The irradiance at a distance d is the intensity
    divided by d^2.
    """

    position: Floats
    """Positions [m] in the world, or in the frame of the actor that carries the lamp, shape (n, 3)."""
    direction: Floats
    """Axes as unit vectors in the same frame, shape (n, 3)."""
    cos_inner: Floats
    """Cosines of the half-angles of the inner cones, shape (n,)."""
    cos_outer: Floats
    """Cosines of the half-angles of the outer cones, shape (n,)."""
    intensity: Floats
    """Radiant intensity inside the inner cone in each band [W/sr], shape (n, bands)."""
    actor: NDArray[np.int32]
    """Row in the actor list of the sensor's geometry, or -1 for a stationary lamp, shape (n,)."""

    def __len__(self) -> int:
        return len(self.position)


def lamps_lit(sky: SkyLight) -> bool:
    """Return True if night lamps are lit in this daylight."""
    return sky.illuminance_lux < SWITCH_ON_LUX


def lamp_table(
    world: World, bands: Sequence[Band], *, night: bool = True, sensor: Sequence[str] = ("camera",)
) -> LampTable:
    """Lamps of a world that are lit by night, or by day; `sensor` as in `World.geometry`.

    Lumens are converted to watts per band with the spectrum of a black body at the lamp's colour temperature. Real LEDs
    emit little beyond 750 nm, so their near infrared is too strong here.
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
    """Sampled lamp of a surface point, as kernel variables."""

    found: Bool
    direction: Vectors
    """Unit direction to the lamp."""
    distance: Float
    """Distance to the lamp [m]."""
    irradiance: list[Float]
    """Irradiance on a surface that faces the lamp [W/m^2], per band, divided by the sampling probability."""


@kernel_tree(fixed=("bands", "carried"))
@dataclass
class Lamps:
    """Point lamps with a light cone, stationary or carried by a moving body."""

    bands: int
    carried: bool
    """True if any lamp is carried by a moving body."""
    count: Int
    rows: Float
    """Position and body; axis and outer cosine; inner cosine; intensity of each band."""
    moving: tuple[Any, ...]
    """Poses of bodies: knots, number of knots, knots per second, and time of the first."""

    @classmethod
    def of(cls, engine: Engine, table: LampTable, origin: NDArray[np.float64]) -> Lamps:
        """Copy a table of lamps to the device."""
        count, bands = table.intensity.shape
        wide = 4 * ((bands + 3) // 4)
        rows = np.zeros((count, 4 * _ROWS + wide), np.float32)
        actor = table.actor.astype(np.int64)
        # Positions of carried lamps are in the frame of their body.
        rows[:, :3] = table.position - np.where(actor[:, None] < 0, origin, 0.0)
        rows[:, 3] = np.where(actor < 0, NOTHING, actor).astype(np.uint32).view(np.float32)
        rows[:, 4:7] = table.direction
        rows[:, 7], rows[:, 8] = table.cos_outer, table.cos_inner
        rows[:, 4 * _ROWS : 4 * _ROWS + bands] = table.intensity
        return cls(bands, bool(np.any(actor >= 0)), engine.whole(count), engine.table(rows), ())

    def with_bodies(self, moving: MovingScene | None) -> Lamps:
        """Lamps with the body poses of the current time window; `moving` is the scene's `MovingScene`, or None."""
        if not self.carried or moving is None:
            return self
        arrays = (moving.knots, moving.knot_count, moving.knots_per_second, moving.time_of_first)
        return Lamps(self.bands, True, self.count, self.rows, arrays)

    def _at(self, number: Int, time: Float) -> tuple[Vectors, Vectors, Float, Float, list[Float]]:
        """Position, axis, outer and inner cosine, and intensities of lamps."""
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
        self, number: Int, time: Float, start: Vectors, normal: Vectors
    ) -> tuple[Vectors, Float, list[Float], Float]:
        """Direction, distance, irradiance per band, and total irradiance on the surface."""
        dr = running_engine().dr
        place, axis, outer, inner, intensity = self._at(number, time)
        offset = place - start
        square = namespace(offset.x).maximum(dr.dot(offset, offset), 1e-4)
        distance = dr.sqrt(square)
        direction = offset / distance
        within = (-dr.dot(direction, axis) - outer) / namespace(square).maximum(inner - outer, 1e-4)
        cone = namespace(within).clip(within, 0.0, 1.0)
        factor = cone * cone * (3.0 - 2.0 * cone) / square
        light = [one * factor for one in intensity]
        cosine = dr.dot(normal, direction)
        total = sum(light[1:], start=light[0]) * dr.select(cosine > 0.0, cosine, 0.0)
        return direction, distance, light, total

    def sampled(self, start: Vectors, normal: Vectors, time: Float, u: Float) -> Lit:
        """One lamp per surface point, sampled in proportion to its irradiance there (reservoir sampling)."""
        dr, mi = running_engine().dr, running_engine().mi

        def step(number: Int, total: Float, best: Float, share: Float, draw: Float) -> Any:
            sent = self._arriving(number, time, start, normal)[3]
            total = total + sent
            chance = dr.select(total > 0.0, sent / total, 0.0)
            # The draw is rescaled after each decision, so that it is uniform again.
            takes = draw < chance
            draw = dr.select(takes, draw / namespace(chance).maximum(chance, 1e-12), (draw - chance) / (1.0 - chance))
            draw = namespace(draw).clip(draw, 1e-7, 1.0 - 1e-7)
            return number + 1, total, dr.select(takes, number, best), dr.select(takes, sent, share), draw

        state = (mi.UInt32(0), mi.Float(0.0), mi.UInt32(0), mi.Float(0.0), mi.Float(u))
        _, total, best, share, _ = dr.while_loop(state, lambda number, *_: number < self.count, step)
        direction, distance, light, _ = self._arriving(best, time, start, normal)
        found = share > 0.0
        weight = dr.select(found, total / share, 0.0)
        return Lit(found, direction, distance, [one * weight for one in light])


# ---- Sun, sky and ground on the device: radiance of rays that leave the world ---------------------------------------


SIDE = 129
"""Points along each side of the sky map."""


@kernel_tree(fixed=("bands",))
@dataclass
class SkyOnDevice:
    """Sky radiance as a paraboloid map of the upper hemisphere.

    A direction (x, y, z) maps to x / (1 + z), y / (1 + z), so kernels need no trigonometry.
    """

    bands: int
    table: Float
    """Radiance [W/(m^2 sr)] of each point, bands in groups of four."""
    below: list[Float]
    """Radiance below the horizon [W/(m^2 sr)], per band."""
    sun: list[Float]
    """Unit direction to the sun."""
    sun_irradiance: list[Float]
    """Irradiance on a surface that faces the sun [W/m^2], per band."""
    sun_radius: Float
    """Half-angle of the solar disc [rad]."""
    sun_radiance: list[Float]
    """Radiance of the solar disc [W/(m^2 sr)], per band."""

    @classmethod
    def of(cls, engine: Engine, sky: SkyLight) -> SkyOnDevice:
        """Copy a sky to the device."""
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

    def radiance(self, direction: Vectors, *, with_sun: Bool) -> list[Float]:
        """Radiance from a direction, per band; `with_sun` masks the rays that include the solar disc."""
        dr, mi = running_engine().dr, running_engine().mi
        xp = namespace(direction.x)
        scale = 0.5 * (SIDE - 1) / (1.0 + xp.maximum(direction.z, 0.0))
        # Directions just below the horizon read the edge of the map, which is the horizon.
        across, down = (xp.clip(v * scale + 0.5 * (SIDE - 1), 0.0, SIDE - 1.001) for v in (direction.x, direction.y))
        column, row = mi.UInt32(across), mi.UInt32(down)
        fx, fy = across - mi.Float(column), down - mi.Float(row)
        groups = (self.bands + 3) // 4
        found: list[Float] = []
        for group in range(groups):

            def point(k: int, group: int = group) -> Any:
                return dr.gather(mi.Vector4f, self.table, (row * SIDE + column + k) * groups + group)

            four = dr.lerp(dr.lerp(point(0), point(1), fx), dr.lerp(point(SIDE), point(SIDE + 1), fx), fy)
            found += [four.x, four.y, four.z, four.w]
        up = direction.z >= 0.0
        values = [dr.select(up, value, low) for value, low in zip(found[: self.bands], self.below, strict=True)]
        in_disc = mi.Bool(with_sun) & (self.off_sun(direction) < self.sun_radius)
        return [v + dr.select(in_disc, sun, 0.0) for v, sun in zip(values, self.sun_radiance, strict=True)]

    def off_sun(self, direction: Vectors) -> Float:
        """Angle between directions and the centre of the sun [rad], exact for small angles."""
        dr, mi = running_engine().dr, running_engine().mi
        # In float32, 1 - cos has no significant digits left at half a degree; the chord length has.
        return dr.norm(direction - mi.Vector3f(*self.sun))

    def to_sun(self, u: tuple[Float, Float]) -> Vectors:
        """Directions to points of the solar disc, uniform by area, from two uniform numbers in (0, 1)."""
        dr, mi = running_engine().dr, running_engine().mi
        middle = mi.Vector3f(*self.sun)
        side, up = mi.coordinate_system(middle)
        sine, cosine = dr.sincos(2.0 * np.pi * u[1])
        radius = self.sun_radius * dr.sqrt(u[0])
        return dr.normalize(middle + side * (radius * cosine) + up * (radius * sine))


def directions() -> NDArray[np.float64]:
    """Directions of the map points, shape (SIDE, SIDE, 3); points outside the circle lie on the horizon."""
    place = np.linspace(-1.0, 1.0, SIDE)
    y, x = np.meshgrid(place, place, indexing="ij")
    square = x * x + y * y
    z = np.maximum((1.0 - square) / (1.0 + square), 0.0)
    level = np.where(square > 1.0, 1.0 / np.sqrt(np.maximum(square, 1e-12)), 1.0 + z)
    return np.stack([x * level, y * level, z], axis=-1)
