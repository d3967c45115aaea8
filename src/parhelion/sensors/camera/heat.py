"""What a thermal camera sees: surfaces that glow by their temperature, and mirror a little of the rest, in kernels.

A surface has the steady temperature of its material in the sun's light or in shade. It sends out its emissivity's share
of a black body's light; the rest is what it reflects, taken from the mirrored direction: the sky, or the surface there,
which counts as black.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.arrays import namespace
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.replayable import SceneArrays
from parhelion.sensors.camera.path import Draws, start_of_sample, step_off
from parhelion.sensors.camera.view import View
from parhelion.sensors.light.curve import Curve
from parhelion.sensors.light.sky import SkyLight
from parhelion.surfaces.bands import Band
from parhelion.surfaces.thermal import band_radiance, sky_radiance, thermal_table
from parhelion.weather.daylight import Daylight

_HOTTEST_K = 1024.0
"""Hotter surfaces glow as those of this temperature."""
_COLUMNS = ("emissivity", "dark_k", "wall_dark_k", "kelvin_per_w_m2")


@kernel_tree()
@dataclass
class Warmth:
    """Temperatures and thermal light on the device."""

    rows: Any
    """Emissivity, temperature of ground and of walls in the dark, and its rise with sunlight, of each part."""
    most: Any
    """Temperature that each part never passes [K]."""
    glow: Curve
    """Radiance of a black body in the band by its temperature [K]."""
    sky: Curve
    """Radiance of the sky by 1000 times the sine of the elevation."""
    ground: Any
    """Radiance from below the horizon."""
    sun: list[Any]
    """Direction to the sun."""
    beam: Any
    """Irradiance of the whole of the sun's light across the beam [W/m^2]."""
    diffuse: Any
    """Of the whole of the sky's on level ground [W/m^2]."""

    @classmethod
    def of(
        cls, engine: Engine, materials: list[Any], rows: Any, band: Band, day: Daylight, solar: SkyLight,
        cloud: float, wind_m_s: float,
    ) -> Warmth:  # fmt: skip
        """`rows` are the materials' numbers of parts; `solar` is the light of sun and sky in one wide band."""
        air_k = day.air_temperature_c + 273.15
        air = {"air_k": air_k, "dew_point_c": day.dew_point_c, "cloud_optical_depth": cloud}
        table = thermal_table(materials, wind_m_s=wind_m_s, **air)
        packed = np.stack([table[name] for name in _COLUMNS], axis=1)[rows] if len(rows) else np.zeros((1, 4))
        most = table["most_k"][rows] if len(rows) else np.zeros(1)
        kelvin = np.linspace(100.0, _HOTTEST_K, 400)
        sine = np.linspace(0.0, 1.0, 200)
        number = engine.number
        return cls(
            engine.table(packed.astype(np.float32)), engine.table(most.astype(np.float32)),
            Curve.of(engine, "temperature", list(zip(kelvin, band_radiance(kelvin, band), strict=True))),
            Curve.of(engine, "sky", list(zip(1000.0 * sine, sky_radiance(band, sine, **air), strict=True))),
            number(float(band_radiance(air_k, band))), [number(float(v)) for v in solar.sun_direction],
            number(float(solar.sun_irradiance[0])), number(float(solar.diffuse_irradiance[0])),
        )  # fmt: skip

    def black(
        self, scene: SceneArrays, hit: Any, origin: Any, direction: Any, time: Any, reach: Any
    ) -> tuple[Any, Any]:
        """Black-body radiance and emissivity of surfaces that rays met."""
        dr, mi = running_engine().dr, running_engine().mi
        part = dr.select(hit.found, hit.part, 0)
        row = dr.gather(mi.Vector4f, self.rows, part, hit.found)
        normal = dr.select(dr.dot(hit.normal, direction) > 0.0, -hit.normal, hit.normal)
        start = mi.Point3f(dr.fma(direction, hit.t, origin) + normal * step_off(hit.t))
        towards = mi.Vector3f(*self.sun)
        facing = dr.dot(normal, towards)
        sunny = hit.found & (facing > 0.0) & (self.beam > 0.0)
        lit = sunny & ~scene.blocked(start, towards, time, reach, sunny, coherent=True)
        up = namespace(facing).clip(normal.z, 0.0, 1.0)
        light = dr.select(lit, self.beam * facing, 0.0) + self.diffuse * 0.5 * (1.0 + normal.z)
        # Walls see half the sky, ceilings none of it: they are as warm as the air around.
        kelvin = row.z + up * (row.y - row.z) + row.w * light
        most = dr.gather(mi.Float, self.most, part, hit.found)
        return self.glow(dr.select(kelvin < most, kelvin, most)), row.x

    def from_sky(self, direction: Any) -> Any:
        """Radiance of rays that leave the world."""
        dr = running_engine().dr
        return dr.select(direction.z > 0.0, self.sky(1000.0 * direction.z, direction.z > 0.0), self.ground)


def render_heat(
    view: View,
    warmth: Warmth,
    reach: Any,
    scene: SceneArrays,
    index: Any,
    keys: tuple[Any, Any],
    samples: Any,
    size: int,
) -> Any:
    """Mean thermal radiance of each pixel [W/(m^2 sr)], row by row."""
    dr, mi = running_engine().dr, running_engine().mi
    pixel, row, column = view.pixel(index)

    def one(number: Any, total: Any) -> Any:
        ray = start_of_sample(view, Draws(keys, pixel, number), row, column)
        hit = scene.trace(ray.origin, ray.direction, ray.time, reach, coherent=True)
        black, emissivity = warmth.black(scene, hit, ray.origin, ray.direction, ray.time, reach)
        normal = dr.select(dr.dot(hit.normal, ray.direction) > 0.0, -hit.normal, hit.normal)
        mirrored = ray.direction - 2.0 * dr.dot(ray.direction, normal) * normal
        start = mi.Point3f(dr.fma(ray.direction, hit.t, ray.origin) + normal * step_off(hit.t))
        beyond = scene.trace(start, mirrored, ray.time, reach, hit.found)
        other, _ = warmth.black(scene, beyond, start, mirrored, ray.time, reach)
        seen = dr.select(beyond.found, other, warmth.from_sky(mirrored))
        own = emissivity * black + (1.0 - emissivity) * seen
        return number + 1, total + dr.select(hit.found, own, warmth.from_sky(ray.direction))

    _, total = dr.while_loop((mi.UInt32(0), mi.Float(0.0)), lambda number, _: number < samples, one)
    picture = dr.empty(mi.Float, size)
    dr.scatter(picture, total / mi.Float(samples), pixel)
    dr.eval(picture)
    return picture
