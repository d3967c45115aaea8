"""Thermal cameras: emission of surfaces, and read-out of radiance as temperature, counts or grey values.

The read-out is written once for NumPy and Dr.Jit. Temperature is a polynomial in log radiance, fitted to Planck's law.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int, Ints, Keys, Reals, Vectors, is_drjit, namespace
from parhelion.core.constants import BOLTZMANN_J_K, PLANCK_J_S, SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.random import Stream, to_normal, words
from parhelion.rays.device import Engine, copied, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.replay import SceneArrays
from parhelion.rays.scene import Trace
from parhelion.sensors.optics.beams import RangeCurve
from parhelion.sensors.optics.camera.path import RenderDraws, start_of_sample, step_off
from parhelion.sensors.optics.camera.pixel_planes import Array, planes_of
from parhelion.sensors.optics.camera.view import View
from parhelion.sensors.optics.scene import Patches
from parhelion.sensors.optics.sky import SkyLight
from parhelion.surfaces.bands import Band
from parhelion.surfaces.thermal import band_radiance, reflected_sun, sky_radiance, thermal_table
from parhelion.weather.daylight import Daylight

OUTPUTS = ("centikelvin", "counts", "grey")


def band_radiance_um(temperature_k: Reals, band_um: tuple[float, float]) -> NDArray[np.float64]:
    """Radiance of a black body in a band [W/(m^2 sr)]: Planck's law, integrated by Gauss-Legendre quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(200)
    low, high = band_um[0] * 1e-6, band_um[1] * 1e-6
    wavelength = 0.5 * (high + low) + 0.5 * (high - low) * nodes
    t = np.asarray(temperature_k, dtype=np.float64)[..., None]
    photon = PLANCK_J_S * SPEED_OF_LIGHT_M_S / (BOLTZMANN_J_K * wavelength * t)
    spectral = 2.0 * PLANCK_J_S * SPEED_OF_LIGHT_M_S**2 / wavelength**5 / np.expm1(photon)
    return np.asarray(0.5 * (high - low) * (spectral * weights).sum(axis=-1))


def black_radiance(temperature_k: Any, band: Band | tuple[float, float]) -> NDArray[np.float64]:
    """Radiance of a black body [W/(m^2 sr)] in a band, or in a box with limits [um]."""
    if isinstance(band, Band):
        return band_radiance(temperature_k, band)
    return band_radiance_um(temperature_k, band)


@dataclass(frozen=True)
class ThermalCurve:
    """Temperature of a black body as a function of band radiance L: 1 / T is a polynomial in ln L."""

    band: Band | tuple[float, float]
    """Response, or limits of a box [um]."""
    centre: float
    """Centre of ln L over the temperature range."""
    half: float
    """Half of the span of ln L."""
    coefficients: tuple[float, ...]
    """Coefficients of the powers of (ln L - centre) / half, lowest first [1/K]."""

    def temperature(self, radiance: Array) -> Array:
        """Temperature [K] of the black body with this radiance, which must be above 0; NumPy or Dr.Jit."""
        return _temperature(radiance, [self.centre, 1.0 / self.half, *self.coefficients])

    def slope(self, temperature_k: float) -> float:
        """dL/dT [W/(m^2 sr K)]."""
        step = 1e-3 * temperature_k
        low, high = black_radiance([temperature_k - step, temperature_k + step], self.band)
        return float((high - low) / (2.0 * step))


def _temperature(radiance: Array, numbers: Sequence[Reals]) -> Array:
    """Polynomial of `ThermalCurve`; `numbers` are centre, 1 / half and the coefficients."""
    x = (namespace(radiance).log(radiance) - numbers[0]) * numbers[1]
    value = numbers[-1]
    for coefficient in numbers[-2:1:-1]:
        value = value * x + coefficient
    return 1.0 / value


@lru_cache(maxsize=64)
def thermal_curve(band: Band | tuple[float, float], range_k: tuple[float, float]) -> ThermalCurve:
    """Curve of a band over a temperature range, fitted to Planck's law.

    Degree 6 has an error below 1 mK from 233 to 423 K, in the bands from 3 to 5 um and from 8 to 14 um.
    """
    t = np.linspace(*range_k, 400)
    light = np.log(black_radiance(t, band))
    centre, half = 0.5 * float(light[0] + light[-1]), 0.5 * float(light[-1] - light[0])
    fit = np.polynomial.polynomial.polyfit((light - centre) / half, 1.0 / t, 6)
    return ThermalCurve(band, centre, half, tuple(float(c) for c in fit))


@dataclass(frozen=True)
class ThermalElectronics:
    """Parameters of a thermal sensor."""

    identity: str = "thermal"
    """Identity of the unit. It selects the fixed pattern."""
    band: Band | tuple[float, float] = (8.0, 14.0)
    """Response, or limits of a box [um]. Temperature is that of a black body with the measured radiance in it."""
    netd_k: float = 0.05
    """Noise-equivalent temperature difference at `reference_k` [K]."""
    reference_k: float = 300.0
    """Temperature at which `netd_k` and `pattern_k` hold [K]."""
    pattern_k: float = 0.0
    """Standard deviation of the residual fixed pattern, as temperature at `reference_k` [K]."""
    range_k: tuple[float, float] = (233.15, 423.15)
    """Measuring range [K]."""
    output: Literal["centikelvin", "counts", "grey"] = "centikelvin"
    """uint16 temperature in 0.01 K, uint16 counts of `adc_bits` linear in radiance over the range, or uint8 grey
    values stretched over the content of the image."""
    adc_bits: int = 14
    """Resolution of the converter [bit]."""
    stretch_percent: tuple[float, float] = (1.0, 99.0)
    """Percentiles that map to black and white."""

    def __post_init__(self) -> None:
        if self.output not in OUTPUTS:
            raise unknown_name("thermal output", self.output, OUTPUTS)
        low, high = self.range_k
        limits = (0.0, 1.0) if isinstance(self.band, Band) else self.band
        if not 0.0 <= limits[0] < limits[1] or not 100.0 <= low < high <= 655.0:
            raise ConfigError("thermal sensor: limits of band must increase, range_k must lie between 100 and 655 K")
        if self.netd_k < 0.0 or self.pattern_k < 0.0 or not 1 <= self.adc_bits <= 16:
            raise ConfigError("thermal sensor: netd_k and pattern_k must not be negative, adc_bits from 1 to 16")


@dataclass(frozen=True, eq=False)
class DevelopedThermal:
    """Thermal image."""

    colour: NDArray[Any]
    """Stored image in the format of `output`, shape (h, w)."""
    temperature_k: NDArray[np.float32]
    """Measured temperature [K], shape (h, w)."""


def develop_thermal(
    radiance: Any,
    electronics: ThermalElectronics,
    stream: Stream,
    *,
    width: int | None = None,
    height: int | None = None,
) -> DevelopedThermal:
    """Thermal image of a scene with the given radiance in the sensor's band [W/(m^2 sr)], (h, w) or a flat array.

    Noise is added to radiance, so cold surfaces are noisier in kelvin; NETD is specified at one temperature.
    """
    planes, width, height = planes_of(radiance if isinstance(radiance, np.ndarray) else [radiance], width, height)
    if len(planes) != 1:
        raise ConfigError(f"radiance: a thermal sensor has one band, got {len(planes)}")
    (light,) = planes
    e = electronics
    curve = thermal_curve(e.band, e.range_k)
    keys = (replace(stream, name=f"{stream.name}/thermal").key, Stream(0, f"fixed-pattern/{e.identity}").key)
    levels = (e.netd_k * curve.slope(e.reference_k), e.pattern_k * curve.slope(e.reference_k))
    low, high = (float(black_radiance(t, e.band)) for t in e.range_k)
    shape = [curve.centre, 1.0 / curve.half, *curve.coefficients]
    if is_drjit(light):
        engine = running_engine()
        opaque = engine.dr.opaque
        keys = tuple(tuple(opaque(engine.mi.UInt32, word) for word in key) for key in keys)  # type: ignore[assignment]
        numbers = [engine.number(v) for v in (*levels, low, high)]
        curve_numbers = [engine.number(v) for v in shape]
        pixel: Any = engine.counting(width * height)
        measured = engine.frozen(_measured)(light, pixel, keys, numbers, curve_numbers)
        engine.dr.eval(measured)
        noisy, kelvin = (copied(one).astype(np.float64) for one in measured)
    else:
        pixel = np.arange(width * height, dtype=np.uint32)
        noisy, kelvin = _measured(light, pixel, keys, [*levels, low, high], shape)
    stored: NDArray[Any]
    if e.output == "centikelvin":
        stored = np.floor(100.0 * kelvin + 0.5).astype(np.uint16)
    elif e.output == "counts":
        stored = np.floor((noisy - low) / (high - low) * (2**e.adc_bits - 1) + 0.5).astype(np.uint16)
    else:
        stored = stretched(kelvin, e.stretch_percent)
    return DevelopedThermal(stored.reshape(height, width), kelvin.reshape(height, width).astype(np.float32))


def _measured(
    light: Array, pixel: Array, keys: Any, numbers: Sequence[Reals], curve: Sequence[Reals]
) -> tuple[Array, Array]:
    """Noisy radiance, clipped to the measuring range, and the corresponding temperature."""
    xp = namespace(light, pixel)
    sigma, pattern, low, high = numbers
    a, b, _, _ = words(keys[0], pixel)
    c, d, _, _ = words(keys[1], pixel)
    noisy = light + sigma * to_normal(a, b)[0] + pattern * to_normal(c, d)[0]
    noisy = xp.clip(noisy, low, high)
    return noisy, _temperature(noisy, curve)


def stretched(values: NDArray[np.float64], percent: tuple[float, float] = (1.0, 99.0)) -> NDArray[np.uint8]:
    """8-bit grey values, linear between two percentiles of the image; mid-grey for a uniform image."""
    low, high = np.percentile(values, percent)
    if not high > low:
        return np.full(values.shape, 128, np.uint8)
    return np.floor(np.clip((values - low) / (high - low), 0.0, 1.0) * 255.0 + 0.5).astype(np.uint8)


# ---- heat -----------------------------------------------------------------------------------------------------------
# Emission and reflection of surfaces in the thermal infrared, in kernels. A surface has the steady temperature of its
# material in sun or shade. It emits the radiance of a black body times its emissivity, and reflects the remainder from
# the specular direction: the sky, or another surface, which counts as black.


_HOTTEST_K = 1024.0
"""Upper limit of emission temperatures [K]."""
_COLUMNS = ("emissivity", "dark_k", "wall_dark_k", "kelvin_per_w_m2")


@kernel_tree()
@dataclass
class Warmth:
    """Surface temperatures and thermal radiance on the device."""

    rows: Float
    """Per part: emissivity, temperature of ground and of walls without sun [K], and rise with sunlight [K m^2/W]."""
    most: Float
    """Maximum temperature of each part [K]."""
    glow: RangeCurve
    """Radiance of a black body in the band as a function of temperature [K]."""
    sky: RangeCurve
    """Radiance of the sky as a function of 1000 times the sine of the elevation."""
    ground: Reals
    """Radiance from below the horizon [W/(m^2 sr)]."""
    sun: list[Reals]
    """Unit direction to the sun."""
    beam: Reals
    """Total solar irradiance normal to the beam [W/m^2]."""
    diffuse: Reals
    """Total diffuse irradiance on level ground [W/m^2]."""
    sun_band: Reals
    """Solar irradiance in the band normal to the beam [W/m^2], for reflected sunlight."""
    heat: Float | None
    """Temperature rise of each triangle by engines and tyres [K], or None."""
    patches: Patches | None = None
    """Puddles and snow, whose rows follow those of the parts; None without any."""

    @classmethod
    def of(
        cls,
        engine: Engine,
        materials: list[Any],
        rows: NDArray[np.integer[Any]],
        band: Band,
        day: Daylight,
        solar: SkyLight,
        cloud: float,
        wind_m_s: float,
        heat: Float | None = None,
        patches: Patches | None = None,
    ) -> Warmth:
        """Compute the tables; `rows` are material numbers per part, `solar` is sun and sky in one wide band."""
        air_k = day.air_temperature_c + 273.15
        air = {"air_k": air_k, "dew_point_c": day.dew_point_c, "cloud_optical_depth": cloud}
        table = thermal_table(materials, wind_m_s=wind_m_s, **air)
        packed = np.stack([table[name] for name in _COLUMNS], axis=1)[rows] if len(rows) else np.zeros((1, 4))
        most = table["most_k"][rows] if len(rows) else np.zeros(1)
        kelvin = np.linspace(100.0, _HOTTEST_K, 400)
        sine = np.linspace(0.0, 1.0, 200)
        number = engine.number
        return cls(
            engine.table(packed.astype(np.float32)),
            engine.table(most.astype(np.float32)),
            RangeCurve.of(engine, "temperature", list(zip(kelvin, band_radiance(kelvin, band), strict=True))),
            RangeCurve.of(engine, "sky", list(zip(1000.0 * sine, sky_radiance(band, sine, **air), strict=True))),
            number(float(band_radiance(air_k, band))),
            [number(float(v)) for v in solar.sun_direction],
            number(float(solar.sun_irradiance[0])),
            number(float(solar.diffuse_irradiance[0])),
            number(reflected_sun(band, float(solar.sun_irradiance[0]))),
            heat,
            patches,
        )

    def black(
        self, scene: SceneArrays, hit: Trace, origin: Vectors, direction: Vectors, time: Float, reach: Float
    ) -> tuple[Float, Float, Float]:
        """Black-body radiance and emissivity of the surfaces that rays hit, and diffusely reflected sunlight."""
        dr, mi = running_engine().dr, running_engine().mi
        part = dr.select(hit.found, hit.part, 0)
        normal = dr.select(dr.dot(hit.normal, direction) > 0.0, -hit.normal, hit.normal)
        if self.patches is not None:
            place = dr.fma(direction, hit.t, origin)
            part = part + self.patches.blocks(part, place, normal.z, hit.found) * self.patches.parts
        row = dr.gather(mi.Vector4f, self.rows, part, hit.found)
        start = mi.Point3f(dr.fma(direction, hit.t, origin) + normal * step_off(hit.t))
        towards = mi.Vector3f(*self.sun)
        facing = dr.dot(normal, towards)
        sunny = hit.found & (facing > 0.0) & (self.beam > 0.0)
        lit = sunny & ~scene.blocked(start, towards, time, reach, sunny, coherent=True)
        up = namespace(facing).clip(normal.z, 0.0, 1.0)
        light = dr.select(lit, self.beam * facing, 0.0) + self.diffuse * 0.5 * (1.0 + normal.z)
        # Walls face half of the sky, ceilings none of it; ceilings have the temperature of walls.
        kelvin = row.z + up * (row.y - row.z) + row.w * light
        if self.heat is not None:
            kelvin += dr.gather(mi.Float, self.heat, dr.select(hit.found, hit.triangle, 0), hit.found)
        most = dr.gather(mi.Float, self.most, part, hit.found)
        sun = dr.select(lit, (1.0 - row.x) * facing * self.sun_band * (1.0 / np.pi), 0.0)
        return self.glow(dr.select(kelvin < most, kelvin, most)), row.x, sun

    def from_sky(self, direction: Vectors) -> Any:
        """Radiance along rays that leave the world."""
        dr = running_engine().dr
        return dr.select(direction.z > 0.0, self.sky(1000.0 * direction.z, direction.z > 0.0), self.ground)


def render_heat(
    view: View,
    warmth: Warmth,
    reach: Float,
    scene: SceneArrays,
    index: Int,
    keys: Keys,
    samples: Ints,
    size: int,
) -> Any:
    """Mean thermal radiance of each pixel [W/(m^2 sr)], in row-major order."""
    dr, mi = running_engine().dr, running_engine().mi
    pixel, row, column = view.pixel(index)

    def one(number: Int, total: Reals) -> Any:
        ray = start_of_sample(view, RenderDraws(keys, pixel, number), row, column)
        hit = scene.trace(ray.origin, ray.direction, ray.time, reach, coherent=True)
        black, emissivity, sun = warmth.black(scene, hit, ray.origin, ray.direction, ray.time, reach)
        normal = dr.select(dr.dot(hit.normal, ray.direction) > 0.0, -hit.normal, hit.normal)
        mirrored = ray.direction - 2.0 * dr.dot(ray.direction, normal) * normal
        start = mi.Point3f(dr.fma(ray.direction, hit.t, ray.origin) + normal * step_off(hit.t))
        beyond = scene.trace(start, mirrored, ray.time, reach, hit.found)
        other, _, _ = warmth.black(scene, beyond, start, mirrored, ray.time, reach)
        seen = dr.select(beyond.found, other, warmth.from_sky(mirrored))
        own = emissivity * black + (1.0 - emissivity) * seen + sun
        return number + 1, total + dr.select(hit.found, own, warmth.from_sky(ray.direction))

    _, total = dr.while_loop((mi.UInt32(0), mi.Float(0.0)), lambda number, _: number < samples, one)
    picture = dr.empty(mi.Float, size)
    dr.scatter(picture, total / mi.Float(samples), pixel)
    dr.eval(picture)
    return picture
