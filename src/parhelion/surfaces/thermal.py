"""Thermal emission of surfaces and sky, and steady-state surface temperatures.

Temperatures follow from the steady energy balance per square metre: absorbed sunlight, thermal radiation received from
the sky and emitted by the surface, and convection. There is no heat storage, so surfaces respond to the sun at once;
real thick walls lag by hours and are cooler by some kelvin.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import STEFAN_BOLTZMANN_W_M2_K4, ZERO_CELSIUS_K
from parhelion.core.errors import ConfigError
from parhelion.surfaces.bands import Band, band_reflectance, planck_radiance
from parhelion.surfaces.material import CookTorranceModel, Material, MirrorFinish

Floats = NDArray[np.float64]

DEFAULT_EMISSIVITY, METAL_EMISSIVITY, MIRROR_EMISSIVITY = 0.92, 0.2, 0.05
EMISSIVITY = {
    "aluminium": 0.12, "asphalt": 0.95, "asphalt-dark": 0.95, "asphaltic-concrete": 0.95, "bark": 0.95, "brick": 0.93,
    "cardboard": 0.90, "concrete": 0.93, "copper": 0.15, "cotton": 0.90, "epoxy": 0.90, "fabric": 0.90, "foam": 0.90,
    "galvanised-steel": 0.25, "glass": 0.88, "granite": 0.93, "grass": 0.98, "grass-dry": 0.96, "gravel": 0.94,
    "leaf": 0.97, "limestone": 0.94, "mirror": 0.05, "needles": 0.98, "paper": 0.92, "plaster": 0.91, "plastic": 0.92,
    "plywood": 0.91, "retro-sheeting": 0.90, "road-paint": 0.93, "road-paint-yellow": 0.93, "roof-tile": 0.93,
    "roofing-felt": 0.93, "rubber": 0.93, "rusted-steel": 0.80, "sand": 0.92, "shingle": 0.95, "skin": 0.98,
    "slate": 0.95, "snow": 0.985, "snow-fresh": 0.985, "snow-wet": 0.985, "soil": 0.95, "stainless-steel": 0.20,
    "steel": 0.30, "sea-foam": 0.985, "water": 0.985, "white-paint": 0.90, "wood": 0.91,
}  # fmt: skip
"""Emissivity in 8 to 14 um by material: round figures within the ranges of Incropera and DeWitt, table A.11 (metals,
paints, stone, skin, water), and of the MODIS UCSB emissivity library (plants, soils, asphalt, snow)."""
FIXED_K = {"skin": ZERO_CELSIUS_K + 33.0}
"""Surfaces with a regulated temperature [K]: skin at rest, a round figure."""
LATENT_SHARE = {"grass": 0.7, "leaf": 0.7, "needles": 0.7, "sea-foam": 0.9, "water": 0.9}
"""Fraction of the absorbed sunlight that evaporates water or is conducted into depth; assumed after the Bowen ratios
of watered plants (0.2 to 0.5) and of lakes (0.1)."""
MELTING = ("snow", "snow-fresh", "snow-wet")
VEHICLES = ("bus", "car", "motorcycle", "truck", "van", "vehicle")
"""Labels of objects whose engine and tyres are warm while they move."""
TYRE_RISE_K, ENGINE_RISE_K = 15.0, 25.0
"""Temperature rise of rolling tyres and of the body around the engine over the same surface of a parked vehicle [K];
assumed: tyres of cars settle 10 to 20 K above the air in traffic, bonnets 20 to 30 K."""
ENGINE_SHARE = 0.28
"""Front part of the length of a vehicle that the engine warms, with a smooth transition of half that length."""


def emissivity_of(material: Material) -> float:
    """Emissivity in 8 to 14 um: that of the material, of the table, or the default of its class."""
    if material.emissivity_thermal is not None:
        return material.emissivity_thermal
    if material.name in EMISSIVITY:
        return EMISSIVITY[material.name]
    if isinstance(material.specular, MirrorFinish):
        return MIRROR_EMISSIVITY
    metal = isinstance(material.brdf, CookTorranceModel) and material.brdf.refractive_index is None
    return METAL_EMISSIVITY if metal else DEFAULT_EMISSIVITY


def solar_absorptance(material: Material) -> float:
    """Solar absorptance from the material's spectrum and a sun of 5772 K, over the known part of 300 to 2500 nm."""
    first, last = material.wavelength_range_nm
    first, last = max(first, 300.0), min(last, 2500.0)
    if first >= last:
        raise ConfigError(f"material {material.name!r}: the spectrum must cover a part of 300 to 2500 nm")
    grid = np.linspace(first, last, 401)
    sun = planck_radiance(grid, 5772.0)
    return 1.0 - band_reflectance(material, Band("sun", [first, last], [1.0, 1.0]), illuminant=(grid, sun))


# ---- black bodies in a band ----------------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _curve(band: Band) -> tuple[Floats, Floats]:
    """Logarithms of temperatures from 20 to 3000 K, equally spaced, and of the radiance in the band."""
    kelvin = np.geomspace(20.0, 3000.0, 2001)
    grid = np.linspace(*band.range_nm, 257)
    radiance = band.integral(grid, planck_radiance(grid, kelvin[:, None]))
    return np.log(kelvin), np.log(np.maximum(radiance, 1e-300))


def band_radiance(temperature_k: ArrayLike, band: Band) -> Floats:
    """Radiance of a black body in a band [W/(m^2 sr)], 20 to 3000 K."""
    kelvin = np.asarray(temperature_k, dtype=np.float64)
    if np.any(~(kelvin >= 20.0)) or np.any(kelvin > 3000.0):
        raise ConfigError("thermal: temperatures must be from 20 to 3000 K")
    grid = np.linspace(*band.range_nm, 257)
    return band.integral(grid, planck_radiance(grid, kelvin[..., None]))


def brightness_temperature(radiance: ArrayLike, band: Band) -> Floats:
    """Temperature [K] of the black body with this radiance in a band [W/(m^2 sr)]: the inverse of `band_radiance`.

    Interpolated on a curve of 2001 points, within 1 mK for 200 to 1000 K in 8 to 14 um.
    """
    log_kelvin, log_radiance = _curve(band)
    with np.errstate(divide="ignore"):
        wanted = np.log(np.maximum(np.asarray(radiance, dtype=np.float64), 0.0))
    return np.asarray(np.exp(np.interp(wanted, log_radiance, log_kelvin)))


# ---- the sky -------------------------------------------------------------------------------------------------------


def sky_emissivity(dew_point_c: float, cloud_optical_depth: float = 0.0) -> float:
    """Broadband emissivity of the sky: Berdahl and Martin 1984 for clear nights, dew points of -20 to 30 C.

    0.711 + 0.56 d + 0.73 d^2 with d = dew point / 100 C. Cloud of visible optical depth t closes the remainder by
    1 - exp(-t / 2), because the thermal extinction of 10 um drops is about half of the visible one.
    """
    d = float(np.clip(dew_point_c, -20.0, 30.0)) / 100.0
    clear = 0.711 + 0.56 * d + 0.73 * d * d
    return clear + (1.0 - clear) * (1.0 - float(np.exp(-0.5 * cloud_optical_depth)))


def sky_radiance(
    band: Band,
    sin_elevation: ArrayLike,
    *,
    air_k: float = 288.15,
    dew_point_c: float = 8.0,
    cloud_optical_depth: float = 0.0,
) -> Floats:
    """Thermal radiance of the sky in a band [W/(m^2 sr)] by the sine of the elevation; below 0, that of the horizon.

    The atmospheric windows are assumed to span 3.4 to 4.15, 4.45 to 5 and 8 to 14 um, with the same optical depth;
    outside them, the sky is a black body at air temperature.
    Within it, the sky is a grey layer whose vertical depth reproduces the broadband emissivity: its emissivity at an
    elevation e is 1 - exp(-depth / sin e), and over the hemisphere 1 - exp(-1.66 depth).
    """
    # A mid-wave band sees the sky through its own windows, on both sides of the CO2 band at 4.3 um.
    window = Band("window", [8_000.0, 14_000.0], [1.0, 1.0])
    black = band_radiance(air_k, window) * np.pi / (STEFAN_BOLTZMANN_W_M2_K4 * air_k**4)
    closed = 1.0 - (1.0 - sky_emissivity(dew_point_c, cloud_optical_depth)) / float(black)
    depth = -np.log(1.0 - np.clip(closed, 0.01, 1.0 - 1e-9)) / 1.66
    sine = np.clip(np.asarray(sin_elevation, dtype=np.float64), 1e-4, 1.0)
    share = 1.0 - np.exp(-depth / sine)
    grid = np.linspace(*band.range_nm, 257)
    inside = np.zeros(len(grid))
    for low, high in ((3400.0, 4150.0), (4450.0, 5000.0), (8000.0, 14000.0)):
        inside = inside + np.interp(grid, [low - 1.0, low, high, high + 1.0], [0.0, 1.0, 1.0, 0.0])
    planck = planck_radiance(grid, air_k)
    return np.asarray(band.integral(grid, planck * (1.0 - inside) + share[..., None] * inside * planck))


def sky_brightness_temperature(band: Band, sin_elevation: ArrayLike, **air: float) -> Floats:
    """Brightness temperature of the sky [K]; `air` as in `sky_radiance`."""
    return brightness_temperature(sky_radiance(band, sin_elevation, **air), band)


def dew_point_c(temperature_c: float, humidity_percent: float) -> float:
    """Dew point [C] by the Magnus formula with the constants of Alduchov and Eskridge 1996, for -40 to 50 C."""
    share = np.log(max(humidity_percent, 0.1) / 100.0) + 17.625 * temperature_c / (243.04 + temperature_c)
    return float(243.04 * share / (17.625 - share))


def reflected_sun(band: Band, sun_w_m2: float) -> float:
    """Irradiance of the sun in a band [W/m^2] for a total irradiance at the ground; 0 beyond 7 um, where it is lost.

    The spectrum is that of a black body of 5772 K, reduced by a transmittance of 0.7 for water vapour and CO2 in the
    mid-wave window (assumed). Scattered skylight is negligible there.
    """
    if band.centre_nm > 7000.0:
        return 0.0
    grid = np.linspace(*band.range_nm, 257)
    total = STEFAN_BOLTZMANN_W_M2_K4 * 5772.0**4 / np.pi
    return 0.7 * sun_w_m2 * float(band.integral(grid, planck_radiance(grid, 5772.0))) / total


# ---- surfaces ------------------------------------------------------------------------------------------------------


def vehicle_rise(material: str, along: ArrayLike) -> Floats:
    """Temperature rise [K] of surfaces of a moving vehicle; `along` is the position from rear (0) to front (1)."""
    place = np.asarray(along, dtype=np.float64)
    if material == "rubber":
        return np.full(place.shape, TYRE_RISE_K)
    if not material.startswith(("car-paint", "plastic", "steel", "aluminium")):
        return np.zeros(place.shape)
    return ENGINE_RISE_K * np.clip((place - 1.0 + 1.5 * ENGINE_SHARE) / (0.5 * ENGINE_SHARE), 0.0, 1.0)


def convection(wind_m_s: float) -> float:
    """Convective heat transfer coefficient [W/(m^2 K)]: 5.7 + 3.8 v (Juerges 1924, in McAdams 1954), v up to 5 m/s."""
    return 5.7 + 3.8 * max(float(wind_m_s), 0.0)


def surface_temperature(
    absorbed_w_m2: ArrayLike,
    emissivity: ArrayLike,
    *,
    air_k: float = 288.15,
    dew_point_c: float = 8.0,
    cloud_optical_depth: float = 0.0,
    wind_m_s: float = 2.0,
    sky_share: ArrayLike = 1.0,
) -> Floats:
    """Steady temperature [K] of a surface that absorbs sunlight or internal heat; arguments broadcast.

    absorbed + emissivity s (share e_sky T_air^4 + (1 - share) T_air^4 - T^4) = h (T - T_air), with the Stefan-Boltzmann
    constant s. `sky_share` is the view factor of the sky: 1 for level ground, 0.5 for walls; the remainder is at air
    temperature.
    """
    power = np.asarray(absorbed_w_m2, dtype=np.float64)
    grey = np.asarray(emissivity, dtype=np.float64) * STEFAN_BOLTZMANN_W_M2_K4
    share = np.asarray(sky_share, dtype=np.float64)
    around = (share * sky_emissivity(dew_point_c, cloud_optical_depth) + 1.0 - share) * air_k**4
    carried = convection(wind_m_s)
    kelvin = np.full(np.broadcast_shapes(power.shape, grey.shape, share.shape), float(air_k))
    for _ in range(8):  # Newton's method converges, because the balance is monotonic and convex
        excess = power + grey * (around - kelvin**4) - carried * (kelvin - air_k)
        kelvin = kelvin + excess / (4.0 * grey * kelvin**3 + carried)
    return kelvin


def thermal_table(
    materials: Sequence[Material],
    *,
    air_k: float = 288.15,
    dew_point_c: float = 8.0,
    cloud_optical_depth: float = 0.0,
    wind_m_s: float = 2.0,
) -> dict[str, NDArray[np.float32]]:
    """Columns of shape (n,) with one row per material, for the kernels of thermal cameras.

    `emissivity` [1]; `dark_k` and `wall_dark_k` [K] temperature of level ground and of walls without sun;
    `kelvin_per_w_m2` rise with the total solar irradiance on the surface, the mean slope up to 1000 W/m^2 (within 1.5 K
    of the balance); `most_k` maximum temperature (0 C for snow).
    """
    air = {"air_k": air_k, "dew_point_c": dew_point_c, "cloud_optical_depth": cloud_optical_depth, "wind_m_s": wind_m_s}
    rows = []
    for material in materials:
        emissivity, absorbed = emissivity_of(material), solar_absorptance(material)
        power = 1000.0 * absorbed * (1.0 - LATENT_SHARE.get(material.name, 0.0))
        dark, wall, sunny = surface_temperature(
            np.array([0.0, 0.0, power]), emissivity, sky_share=np.array([1.0, 0.5, 1.0]), **air
        )
        row = {"emissivity": emissivity, "dark_k": dark, "wall_dark_k": wall, "most_k": 3000.0}
        row["kelvin_per_w_m2"] = (sunny - dark) / 1000.0
        if material.name in MELTING:
            row["most_k"] = ZERO_CELSIUS_K
        if material.name in FIXED_K:
            fixed = FIXED_K[material.name]
            row |= {"dark_k": fixed, "wall_dark_k": fixed, "kelvin_per_w_m2": 0.0}
        rows.append(row)
    names = ("emissivity", "dark_k", "wall_dark_k", "kelvin_per_w_m2", "most_k")
    return {name: np.array([row[name] for row in rows], np.float32) for name in names}
