"""Sun and sky light of a scene from time and place or sun elevation, haze, cloud, and weather."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.sky import (
    SkyLight,
    cell_directions,
    clear_sky,
    cosine_weights,
    haze_optical_depth,
    solid_angles,
)
from parhelion.surfaces.bands import Band
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import Weather

# ---- Sun and sky under a layer of cloud or fog -----------------------------------------------------------------------


Floats = NDArray[np.float64]

CLOUD_ASYMMETRY = 0.85
"""Mean cosine of scattering of visible light by cloud drops of about 10 um (Stephens 1978)."""


def layer_transmittance(optical_depth: float, g: float, cosine: float) -> float:
    """Fraction of a beam's power that reaches level ground through a layer, direct or scattered.

    Two-stream approximation with Eddington closure and delta scaling (Joseph, Wiscombe and Weinman 1976), non-absorbing
    drops, black ground: [2 + 3 m + (2 - 3 m) exp(-t'/m)] / [4 + 3 (1 - g) t], t' = (1 - g^2) t, with the cosine m of
    the zenith angle and the vertical optical depth t of the layer. The value is 1 at t = 0. Valid for m from 0 to 1.
    """
    straight = float(np.exp(-(1.0 - g * g) * optical_depth / max(cosine, 1e-6)))
    return (2.0 + 3.0 * cosine + (2.0 - 3.0 * cosine) * straight) / (4.0 + 3.0 * (1.0 - g) * optical_depth)


def diffuse_transmittance(optical_depth: float, g: float) -> float:
    """Transmittance of a layer for isotropic light: 1 / (1 + 3/4 (1 - g) t); the remainder is reflected upwards."""
    return 1.0 / (1.0 + 0.75 * (1.0 - g) * optical_depth)


def overcast_shape(sin_elevation: Floats) -> Floats:
    """CIE overcast sky: radiance relative to the zenith, (1 + 2 sin e) / 3 (Moon and Spencer 1942)."""
    return np.asarray((1.0 + 2.0 * np.clip(sin_elevation, 0.0, 1.0)) / 3.0)


def under_cloud(sky: SkyLight, optical_depth: float, g: float = CLOUD_ASYMMETRY) -> SkyLight:
    """Sun and sky under a homogeneous layer of vertical `optical_depth` (0 to 1000) and asymmetry `g` (-1 to 1).

    The beam and the clear-sky radiance are attenuated by exp(-t / sin e). Light scattered downwards has the angular
    distribution of the CIE overcast sky and the power of the two-stream approximation, including multiple reflections
    between layer and ground. Drops do not absorb, which holds below about 1.3 um.
    """
    if not 0.0 <= optical_depth <= 1000.0:
        raise ConfigError(f"light: an optical depth must be from 0 to 1000, got {optical_depth:g}")
    if not -1.0 < g < 1.0:
        raise ConfigError(f"light: the asymmetry of scattering must be between -1 and 1, got {g:g}")
    if optical_depth == 0.0:
        return sky
    shape = sky.radiance.shape[:2]
    up, cosines = cell_directions(*shape)[..., 2], cosine_weights(*shape)
    cosine = max(float(sky.sun_direction[2]), 0.0)
    fade = float(np.exp(-optical_depth / max(cosine, 1e-6))) if cosine > 0.0 else 0.0
    through, spread = layer_transmittance(optical_depth, g, cosine), diffuse_transmittance(optical_depth, g)
    # Geometric series of the reflections between ground and layer.
    repeats = 1.0 / (1.0 - sky.ground_albedo * (1.0 - spread))

    def total(beam: Floats, diffuse: Floats) -> Floats:
        """Irradiance on level ground from a beam (given normal to it) and from diffuse light."""
        return (beam * cosine * through + diffuse * spread) * repeats

    level = total(sky.sun_irradiance, sky.diffuse_irradiance)
    seen = np.where(up > 0.0, np.exp(-optical_depth / np.maximum(up, 1e-6)), 0.0)[..., None] * sky.radiance
    beam = sky.sun_irradiance * fade
    scattered = level - beam * cosine - np.tensordot(cosines, seen, axes=2)
    even = overcast_shape(up)
    even = even / float((cosines * even).sum())
    table = seen + even[..., None] * np.maximum(scattered, 0.0)
    table[up < 0.0] = sky.ground_albedo * level / np.pi
    sun_lux = sky.sun_illuminance_lux
    sky_lux = sky.illuminance_lux - sun_lux * cosine
    radiance = table.astype(np.float32)
    for array in (radiance, beam, level):
        array.setflags(write=False)
    return replace(
        sky,
        radiance=radiance,
        sun_irradiance=beam,
        horizontal_irradiance=level,
        illuminance_lux=float(total(np.array(sun_lux), np.array(sky_lux))),
        sun_illuminance_lux=sun_lux * fade,
    )


# ---- airlight -------------------------------------------------------------------------------------------------------
# Extinction by air and haze, and scattering towards the camera. Over a path of length d with extinction b, a radiance L
# becomes L exp(-b d) + A (1 - exp(-b d)): Koschmieder's law, with the airlight A.


HAZE_SCALE_HEIGHT_M = 1250.0
"""Scale height of haze [m]: optical depth of the column divided by the extinction at the ground."""
HAZE_ASYMMETRY = 0.65
"""Mean cosine of scattering by rural aerosol (Bird and Riordan 1984)."""
CONTRAST_LOG = float(-np.log(0.02))
"""Visibility times extinction (Koschmieder): a black object has a contrast of 2 % at the visibility."""
MOLECULES_PER_M3 = 2.547e25
"""Number density of air at 15 C and 1013 hPa."""
_DEPOLARISATION = 0.035


def refractive_index(wavelength_nm: ArrayLike) -> Floats:
    """Refractive index of dry air at 15 C and 1013 hPa (Peck and Reeder 1972), 230 to 1690 nm; extrapolated beyond."""
    wavenumber2 = (1e3 / np.asarray(wavelength_nm, dtype=np.float64)) ** 2
    return np.asarray(1.0 + 1e-8 * (8060.51 + 2480990.0 / (132.274 - wavenumber2) + 17455.7 / (39.32957 - wavenumber2)))


def rayleigh_extinction(wavelength_nm: ArrayLike) -> Floats:
    """Extinction by the air's molecules at the ground [1/m]: 8 pi^3 (n^2 - 1)^2 / (3 N l^4) (6 + 3 p) / (6 - 7 p).

    p = 0.035 is the depolarisation. 1.16e-5 /m at 550 nm. (VANE prints 8 pi for 8 pi^3.)
    """
    metres = np.asarray(wavelength_nm, dtype=np.float64) * 1e-9
    excess = refractive_index(wavelength_nm) ** 2 - 1.0
    king = (6.0 + 3.0 * _DEPOLARISATION) / (6.0 - 7.0 * _DEPOLARISATION)
    return 8.0 * np.pi**3 * excess**2 / (3.0 * MOLECULES_PER_M3 * metres**4) * king


def haze_extinction(turbidity: float, wavelength_nm: ArrayLike) -> Floats:
    """Extinction by haze at the ground [1/m]: Angstrom's column optical depth divided by the scale height, 1.25 km."""
    return haze_optical_depth(turbidity, np.asarray(wavelength_nm, dtype=np.float64)) / HAZE_SCALE_HEIGHT_M


def clear_air_extinction(bands: Sequence[Band], turbidity: float) -> tuple[Floats, Floats]:
    """Mean extinction in each band [1/m] by molecules and by haze, shape (bands,) each."""
    rows = []
    for band in bands:
        grid = np.linspace(*band.range_nm, 201)
        rows.append([band.mean(grid, rayleigh_extinction(grid)), band.mean(grid, haze_extinction(turbidity, grid))])
    molecules, haze = np.array(rows, dtype=np.float64).T
    return molecules, haze


def turbidity_of_visibility(visibility_m: float) -> float:
    """Turbidity, from 1 to 10, whose haze gives this visibility [m] at 550 nm; visibilities below 5.3 km give 10.

    The column's optical depth is the extinction at the ground times 1.25 km, and Angstrom's coefficient at 1 um is
    0.04608 T - 0.04856.
    """
    if not visibility_m > 0.0:
        raise ConfigError(f"light: visibility must be above 0 m, got {visibility_m:g}")
    haze = max(CONTRAST_LOG / visibility_m - float(rayleigh_extinction(550.0)), 0.0)
    per_beta = float(haze_extinction(10.0, 550.0)) / (0.04608 * 10.0 - 0.04856)
    return float(np.clip((haze / per_beta + 0.04856) / 0.04608, 1.0, 10.0))


def layer_reflectance(albedo: float, asymmetry: float) -> float:
    """Share of diffuse light that an opaque layer of particles returns; 1 for particles that do not absorb.

    R = (1 - s) (1 - 0.139 s) / (1 + 1.17 s) with s = sqrt((1 - w) / (1 - w g)), for the single-scattering albedo w and
    the mean cosine g (van de Hulst 1980, quoted).
    """
    s = math.sqrt((1.0 - albedo) / (1.0 - albedo * asymmetry)) if albedo < 1.0 else 0.0
    return (1.0 - s) * (1.0 - 0.139 * s) / (1.0 + 1.17 * s)


def mean_radiance(sky: SkyLight) -> Floats:
    """Mean radiance of sky and ground over all directions, without the sun [W/(m^2 sr)], shape (bands,)."""
    angles = solid_angles(*sky.radiance.shape[:2])
    return np.tensordot(angles, sky.radiance.astype(np.float64), axes=2) / (4.0 * np.pi)


# ---- lighting -------------------------------------------------------------------------------------------------------


FOG_ASYMMETRY = 0.8
STEP_S = 10.0
"""Time step of the sun's position [s]: 0.04 degrees."""


def cloud_of_weather(weather: Weather, time: float) -> float:
    """Optical depth of the cloud that rain, snow and other media imply at a time [s]."""
    skies = (medium.effects.sky(part, amount) for medium, part, amount, _ in weather.present(time))
    return max((sky.cloud_optical_depth for sky in skies), default=0.0)


def lighting(
    daylight: Daylight, bands: Sequence[Band], *, weather: Weather | None = None, time: float = 0.0
) -> SkyLight:
    """Sun and sky at a time of the scene [s], under the cloud of the daylight or of the weather, and in fog.

    The result is cached: equal arguments return the same object, and the sun moves in steps of 10 s.
    """
    turbidity, cloud, fog = daylight.turbidity, daylight.cloud_optical_depth, 0.0
    if weather is not None:
        cloud = max(cloud, cloud_of_weather(weather, time))
        for medium, part, amount, _ in weather.present(time):
            effect = medium.effects.sky(part, amount)
            if effect.haze > 0.0:
                turbidity += effect.haze * max(turbidity_of_visibility(effect.visibility_m) - turbidity, 0.0)
            fog += (1.0 - effect.haze) * effect.layer_extinction_per_m * daylight.fog_layer_m
        fog = min(fog, 1000.0)
    moved = 0.0 if daylight.time is None else STEP_S * math.floor(time / STEP_S)
    return _cached_lighting(daylight, tuple(bands), turbidity, cloud, fog, moved)


@lru_cache(maxsize=32)
def _cached_lighting(
    daylight: Daylight, bands: tuple[Band, ...], turbidity: float, cloud: float, fog: float, after_s: float
) -> SkyLight:
    sky = clear_sky(
        bands,
        daylight.sun(after_s),
        turbidity=turbidity,
        ground_albedo=daylight.ground_albedo,
        distance_factor=daylight.distance_factor,
    )
    return under_cloud(under_cloud(sky, cloud, CLOUD_ASYMMETRY), fog, FOG_ASYMMETRY)
