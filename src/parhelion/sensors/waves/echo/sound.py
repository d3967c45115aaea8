"""Sound in air and water: speed, absorption and noise from published formulas. Pure functions of NumPy arrays."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import ZERO_CELSIUS_K
from parhelion.sensors.waves.scene import ANGLES, Finish, beam_gain, cosines
from parhelion.surfaces.radio import radio_name

Floats = NDArray[np.float64]

_T0_K, _T01_K, _PR_KPA = 293.15, 273.16, 101.325


def air_speed_m_s(temperature_c: ArrayLike) -> Floats:
    """Speed of sound in dry air [m/s]: 331.3 sqrt(T / 273.15 K), accurate to 0.4 % in moist air from -20 to 50 C."""
    return np.asarray(331.3 * np.sqrt((np.asarray(temperature_c, np.float64) + ZERO_CELSIUS_K) / ZERO_CELSIUS_K))


def air_absorption_db_per_m(
    frequency_hz: ArrayLike, temperature_c: float = 20.0, humidity_percent: float = 50.0, pressure_kpa: float = _PR_KPA
) -> Floats:
    """Absorption in air [dB/m] by ISO 9613-1:1993, equations 3 to 5 and B.1 to B.3.

    Accurate to 10 % for -20 to 50 C, 10 to 100 % and 50 Hz to 10 kHz at 1 atm. Up to 1 MHz the same physics applies.
    """
    f = np.asarray(frequency_hz, np.float64)
    t, pressure = temperature_c + ZERO_CELSIUS_K, pressure_kpa / _PR_KPA
    saturation = 10.0 ** (-6.8346 * (_T01_K / t) ** 1.261 + 4.6151)
    h = humidity_percent * saturation / pressure
    oxygen = pressure * (24.0 + 4.04e4 * h * (0.02 + h) / (0.391 + h))
    ratio = t / _T0_K
    nitrogen = pressure * ratio**-0.5 * (9.0 + 280.0 * h * np.exp(-4.170 * (ratio ** (-1.0 / 3.0) - 1.0)))
    relaxing = 0.01275 * np.exp(-2239.1 / t) / (oxygen + f**2 / oxygen)
    relaxing = relaxing + 0.1068 * np.exp(-3352.0 / t) / (nitrogen + f**2 / nitrogen)
    return np.asarray(8.686 * f**2 * (1.84e-11 / pressure * np.sqrt(ratio) + ratio**-2.5 * relaxing))


def water_speed_m_s(temperature_c: ArrayLike, salinity: float = 35.0, depth_m: float = 0.0) -> Floats:
    """Speed of sound in sea water [m/s] by Mackenzie 1981 (JASA 70, 807): 2 to 30 C, 25 to 40 per mille, to 8000 m."""
    t = np.asarray(temperature_c, np.float64)
    s = salinity - 35.0
    return np.asarray(
        1448.96
        + 4.591 * t
        - 5.304e-2 * t**2
        + 2.374e-4 * t**3
        + 1.340 * s
        + 1.630e-2 * depth_m
        + 1.675e-7 * depth_m**2
        - 1.025e-2 * t * s
        - 7.139e-13 * t * depth_m**3
    )


def water_absorption_db_per_m(
    frequency_hz: ArrayLike, temperature_c: float = 10.0, salinity: float = 35.0, depth_m: float = 0.0, ph: float = 8.0
) -> Floats:
    """Absorption in sea water [dB/m] by Francois and Garrison 1982 (JASA 72, 1879): boric acid, magnesium, water.

    Accurate to 5 % for 0.4 to 1000 kHz, -1.8 to 30 C, 30 to 35 per mille.
    """
    f = np.asarray(frequency_hz, np.float64) / 1e3
    t, kelvin = temperature_c, temperature_c + 273.0
    c = 1412.0 + 3.21 * t + 1.19 * salinity + 0.0167 * depth_m
    boric, f1 = 8.86 / c * 10.0 ** (0.78 * ph - 5.0), 2.8 * np.sqrt(salinity / 35.0) * 10.0 ** (4.0 - 1245.0 / kelvin)
    magnesium = 21.44 * salinity / c * (1.0 + 0.025 * t)
    f2 = 8.17 * 10.0 ** (8.0 - 1990.0 / kelvin) / (1.0 + 0.0018 * (salinity - 35.0))
    p2, p3 = 1.0 - 1.37e-4 * depth_m + 6.2e-9 * depth_m**2, 1.0 - 3.83e-5 * depth_m + 4.9e-10 * depth_m**2
    pure = 4.937e-4 - 2.59e-5 * t + 9.11e-7 * t**2 - 1.50e-8 * t**3
    if t > 20.0:
        pure = 3.964e-4 - 1.146e-5 * t + 1.45e-7 * t**2 - 6.5e-10 * t**3
    per_km = boric * f1 * f**2 / (f1**2 + f**2) + magnesium * p2 * f2 * f**2 / (f2**2 + f**2) + pure * p3 * f**2
    return np.asarray(1e-3 * per_km)


# ---- noise ----------------------------------------------------------------------------------------------------------
# Noise at the receiver: the sea by wind, shipping and temperature; a microphone by its electronics.
# Spectrum levels are dB re 1 uPa^2/Hz in water and dB re (20 uPa)^2/Hz in air.


_STEPS = 513


def _added(*levels: Floats) -> Floats:
    return np.asarray(10.0 * np.log10(sum(10.0 ** (level / 10.0) for level in levels)))


def wind_noise_db(frequency_hz: ArrayLike, wind_m_s: float) -> Floats:
    """Noise of the sea surface: 50 + 7.5 sqrt(w) + 20 lg f - 40 lg(f + 0.4), f in kHz.

    Coates 1990, Underwater Acoustic Systems, after the curves of Wenz (1962, JASA 34, 1936); within 2 dB of Knudsen's
    levels for sea states 0 to 4 at 1 kHz. For 0.1 to 100 kHz and winds up to 20 m/s.
    """
    f = np.asarray(frequency_hz, np.float64) / 1e3
    return np.asarray(50.0 + 7.5 * np.sqrt(wind_m_s) + 20.0 * np.log10(f) - 40.0 * np.log10(f + 0.4))


def shipping_noise_db(frequency_hz: ArrayLike, shipping: float) -> Floats:
    """Noise of distant ships: 40 + 20 (s - 0.5) + 26 lg f - 60 lg(f + 0.03), f in kHz, s from 0 (few) to 1 (many).

    Same source.
    """
    f = np.asarray(frequency_hz, np.float64) / 1e3
    return np.asarray(40.0 + 20.0 * (shipping - 0.5) + 26.0 * np.log10(f) - 60.0 * np.log10(f + 0.03))


def turbulence_noise_db(frequency_hz: ArrayLike) -> Floats:
    """Noise of turbulence: 17 - 30 lg f, f in kHz; relevant below 10 Hz only. Same source."""
    return np.asarray(17.0 - 30.0 * np.log10(np.asarray(frequency_hz, np.float64) / 1e3))


def thermal_noise_db(frequency_hz: ArrayLike) -> Floats:
    """Thermal noise of water: -15 + 20 lg f, f in kHz (Mellen 1952, JASA 24, 478). It dominates above 50 to 200 kHz."""
    return np.asarray(-15.0 + 20.0 * np.log10(np.asarray(frequency_hz, np.float64) / 1e3))


def sea_noise_db(frequency_hz: ArrayLike, wind_m_s: float = 5.0, shipping: float = 0.5) -> Floats:
    """Total spectrum level of sea noise at an omnidirectional hydrophone."""
    return _added(
        turbulence_noise_db(frequency_hz),
        shipping_noise_db(frequency_hz, shipping),
        wind_noise_db(frequency_hz, wind_m_s),
        thermal_noise_db(frequency_hz),
    )


def a_weight_db(frequency_hz: ArrayLike) -> Floats:
    """A-weighting of sound levels [dB], 0 at 1 kHz (IEC 61672-1:2013, annex E)."""
    f2 = np.asarray(frequency_hz, np.float64) ** 2
    poles = (f2 + 20.6**2) * np.sqrt((f2 + 107.7**2) * (f2 + 737.9**2)) * (f2 + 12194.0**2)
    return np.asarray(20.0 * np.log10(12194.0**2 * f2**2 / poles) + 2.0)


def microphone_noise_db(equivalent_noise_dba: float) -> Floats:
    """Spectrum level of microphone self-noise, flat over frequency.

    Computed from the equivalent noise level in dB(A), which data sheets state for 20 Hz to 20 kHz.
    """
    return np.asarray(equivalent_noise_dba - 10.0 * np.log10(_a_weighted_width_hz()))


@lru_cache(maxsize=1)
def _a_weighted_width_hz() -> float:
    """Noise bandwidth of the A-weighting filter [Hz]."""
    hertz = np.linspace(20.0, 20e3, 20_000)
    return float(_integral(10.0 ** (a_weight_db(hertz) / 10.0), hertz))


def band_level_db(spectrum_db: Floats, frequency_hz: Floats) -> float:
    """Band level: integral of a spectrum level over increasing frequencies [Hz], both of shape (n,)."""
    return float(10.0 * np.log10(_integral(10.0 ** (spectrum_db / 10.0), frequency_hz)))


@lru_cache(maxsize=64)
def directivity_index_db(across: float, upward: float, floor: float) -> float:
    """Suppression of isotropic noise relative to an omnidirectional receiver [dB].

    10 lg (4 pi / integral of its relative power gain); the arguments are those of `beam_gain`.
    """
    azimuth, elevation = _steps(across)[:, None], _steps(upward)[None, :]
    level = np.cos(elevation)
    x, y, z = level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)
    gain = beam_gain(np.maximum(x, 1e-12), y, z, across, upward, floor) * level
    return float(10.0 * np.log10(4.0 * np.pi / _integral(_integral(gain, elevation[0]), azimuth[:, 0])))


def _integral(values: Floats, at: Floats) -> Floats:
    """Trapezoidal integral over the last axis."""
    return np.asarray(np.sum(0.5 * (values[..., 1:] + values[..., :-1]) * np.diff(at), axis=-1))


def _steps(width: float) -> Floats:
    """Angles from -90 to 90 degrees [rad], half of them within twice the width about 0."""
    share = np.linspace(-1.0, 1.0, _STEPS)
    near = min(1.0, max(1e-3, 2.0 * width))
    # Cubic with a small slope at the centre: s^3 (1 - near) + s near.
    return np.asarray(0.5 * np.pi * (near * share + (1.0 - near) * share**3))


# ---- Acoustic materials ---------------------------------------------------------------------------------------------
# In air solids reflect nearly all sound; porous materials absorb a part. In water a surface reflects as a fluid of
# different density and speed (Rayleigh). Roughness is relative to the wavelength.


ABSORBED_IN_AIR = {
    "foliage": 0.7,
    "cloth": 0.6,
    "dry-snow": 0.8,
    "wet-snow": 0.6,
    "medium-dry-ground": 0.4,
    "wet-ground": 0.3,
    "very-dry-ground": 0.3,
    "ceiling-board": 0.5,
    "skin": 0.1,
}
"""Absorbed fraction of the power; assumed, of the order given by Kuttruff 2009, Room Acoustics, at 4 kHz. All other
materials absorb 3 %."""
IN_WATER = {
    "metal": (7.85, 3.9), "glass": (2.5, 3.7), "concrete": (2.4, 2.1), "marble": (2.6, 2.5), "brick": (1.8, 2.0),
    "asphalt": (2.3, 1.9), "wood": (0.7, 2.0), "plywood": (0.7, 1.7), "plastic": (1.1, 1.5), "rubber": (1.1, 1.05),
    "very-dry-ground": (1.845, 1.178), "medium-dry-ground": (1.149, 0.987), "wet-ground": (1.149, 0.987),
    "skin": (1.05, 1.03), "foliage": (1.02, 1.01), "cloth": (1.1, 1.02),
}  # fmt: skip
"""Density and speed relative to water: sand and mud after APL-UW TR 9407 (1994), table 2 (medium sand, clay); solids by
their densities and longitudinal speeds, rounded. Other materials use the values of concrete."""
SCATTERED_DB = -16.0
"""Lambert's law with Mackenzie's -27 dB (1961, JASA 33, 1498) per steradian, times 4 pi."""


def reflection(material: str, medium: str) -> NDArray[np.float64]:
    """Fraction of the power that a smooth surface reflects, at the incidence angles `cosines()`."""
    name, cos = radio_name(material), cosines()
    if medium == "air":
        return np.full(ANGLES, 1.0 - ABSORBED_IN_AIR.get(name, 0.03))
    if name == "water":  # the surface from below, with air behind it
        return np.ones(ANGLES)
    density, speed = IN_WATER.get(name, IN_WATER["concrete"])
    # Rayleigh: (rho c / cos behind - 1 / cos) / (sum); beyond the critical angle the root is imaginary.
    root = np.sqrt((1.0 - speed**2 * (1.0 - cos**2)).astype(complex))
    ratio = density * speed * cos
    return np.asarray(np.abs((ratio - root) / (ratio + root + 1e-12)) ** 2)


ROUGH = {"foliage", "medium-dry-ground", "wet-ground", "very-dry-ground", "dry-snow", "wet-snow", "cloth"}
SMOOTH, COARSE = Finish(0.0, 1e-4, -30.0), Finish(0.3, 5e-3, SCATTERED_DB)


def finish_of(material: str) -> Finish:
    """Surface finish of a material."""
    return COARSE if radio_name(material) in ROUGH else SMOOTH


def scatters(material: str) -> bool:
    """Return True if a material scatters diffusely rather than reflecting specularly."""
    return radio_name(material) in ROUGH


def table(names: list[str], medium: str) -> tuple[NDArray[np.float64], list[Finish]]:
    """Reflection and finishes of materials by name."""
    shares = np.array([reflection(name, medium) for name in names]).reshape(len(names), ANGLES)
    return shares, [finish_of(name) for name in names]
