"""Noise that a receiver of sound hears: the sea by wind, shipping and temperature; a microphone by its own electronics.

Pure functions of NumPy arrays. Spectrum levels in water are dB over 1 uPa^2/Hz, in air dB over (20 uPa)^2/Hz.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.sensors.waves.lobe import beam_gain

Floats = NDArray[np.float64]

SEA_STATE_WIND_M_S = {0: 0.0, 1: 2.6, 2: 4.4, 3: 6.9, 4: 9.8, 5: 12.6, 6: 15.7}
"""Middle of the wind speeds of each sea state: calm, 4-6, 7-10, 11-16, 17-21, 22-27 and 28-33 knots (Wenz 1962)."""
_STEPS = 513


def _added(*levels: Floats) -> Floats:
    return np.asarray(10.0 * np.log10(sum(10.0 ** (level / 10.0) for level in levels)))


def wind_noise_db(frequency_hz: ArrayLike, wind_m_s: float) -> Floats:
    """Noise of the sea's surface: 50 + 7.5 sqrt(w) + 20 lg f - 40 lg(f + 0.4), f in kHz.

    Coates 1990, Underwater Acoustic Systems, after the curves of Wenz (1962, JASA 34, 1936); within 2 dB of Knudsen's
    levels for sea states 0 to 4 at 1 kHz. For 0.1 to 100 kHz and winds up to 20 m/s.
    """
    f = np.asarray(frequency_hz, np.float64) / 1e3
    return np.asarray(50.0 + 7.5 * np.sqrt(wind_m_s) + 20.0 * np.log10(f) - 40.0 * np.log10(f + 0.4))


def shipping_noise_db(frequency_hz: ArrayLike, shipping: float) -> Floats:
    """Noise of distant ships: 40 + 20 (s - 0.5) + 26 lg f - 60 lg(f + 0.03), f in kHz, s from 0 (few) to 1 (many).

    The same source.
    """
    f = np.asarray(frequency_hz, np.float64) / 1e3
    return np.asarray(40.0 + 20.0 * (shipping - 0.5) + 26.0 * np.log10(f) - 60.0 * np.log10(f + 0.03))


def turbulence_noise_db(frequency_hz: ArrayLike) -> Floats:
    """Noise of turbulence: 17 - 30 lg f, f in kHz; counts below 10 Hz only. The same source."""
    return np.asarray(17.0 - 30.0 * np.log10(np.asarray(frequency_hz, np.float64) / 1e3))


def thermal_noise_db(frequency_hz: ArrayLike) -> Floats:
    """Noise of water's molecules: -15 + 20 lg f, f in kHz (Mellen 1952, JASA 24, 478); leads from 50 to 200 kHz on."""
    return np.asarray(-15.0 + 20.0 * np.log10(np.asarray(frequency_hz, np.float64) / 1e3))


def sea_noise_db(frequency_hz: ArrayLike, wind_m_s: float = 5.0, shipping: float = 0.5) -> Floats:
    """Spectrum level of the sea's noise in all, as a hydrophone without a direction hears it."""
    return _added(
        turbulence_noise_db(frequency_hz), shipping_noise_db(frequency_hz, shipping),
        wind_noise_db(frequency_hz, wind_m_s), thermal_noise_db(frequency_hz),
    )  # fmt: skip


def a_weight_db(frequency_hz: ArrayLike) -> Floats:
    """The A-weighting of sound levels [dB], 0 at 1 kHz (IEC 61672-1:2013, annex E)."""
    f2 = np.asarray(frequency_hz, np.float64) ** 2
    poles = (f2 + 20.6**2) * np.sqrt((f2 + 107.7**2) * (f2 + 737.9**2)) * (f2 + 12194.0**2)
    return np.asarray(20.0 * np.log10(12194.0**2 * f2**2 / poles) + 2.0)


def microphone_noise_db(equivalent_noise_dba: float) -> Floats:
    """Spectrum level of a microphone's own noise, even over frequency.

    From its equivalent noise level in dB(A), as data sheets tell it for 20 Hz to 20 kHz.
    """
    return np.asarray(equivalent_noise_dba - 10.0 * np.log10(_a_weighted_width_hz()))


@lru_cache(maxsize=1)
def _a_weighted_width_hz() -> float:
    """Width of the even band that holds as much of an even noise as A-weighting lets through."""
    hertz = np.linspace(20.0, 20e3, 20_000)
    return float(_integral(10.0 ** (a_weight_db(hertz) / 10.0), hertz))


def band_level_db(spectrum_db: Floats, frequency_hz: Floats) -> float:
    """Level in a band of a spectrum level over rising frequencies [Hz], both of shape (n,): its integral."""
    return float(10.0 * np.log10(_integral(10.0 ** (spectrum_db / 10.0), frequency_hz)))


@lru_cache(maxsize=64)
def directivity_index_db(across: float, upward: float, floor: float) -> float:
    """By how much a receiver hears less of noise from everywhere than one without a direction [dB].

    10 lg (4 pi / integral of its relative power gain); the arguments are those of `beam_gain`.
    """
    azimuth, elevation = _steps(across)[:, None], _steps(upward)[None, :]
    level = np.cos(elevation)
    x, y, z = level * np.cos(azimuth), level * np.sin(azimuth), np.sin(elevation)
    gain = beam_gain(np.maximum(x, 1e-12), y, z, across, upward, floor) * level
    return float(10.0 * np.log10(4.0 * np.pi / _integral(_integral(gain, elevation[0]), azimuth[:, 0])))


def _integral(values: Floats, at: Floats) -> Floats:
    """By trapezoids, over the last axis."""
    return np.asarray(np.sum(0.5 * (values[..., 1:] + values[..., :-1]) * np.diff(at), axis=-1))


def _steps(width: float) -> Floats:
    """Angles from -90 to 90 degrees [rad], half of them within twice the width about 0."""
    share = np.linspace(-1.0, 1.0, _STEPS)
    near = min(1.0, max(1e-3, 2.0 * width))
    # A cubic that is flat in the middle: s^3 (1 - near) + s near.
    return np.asarray(0.5 * np.pi * (near * share + (1.0 - near) * share**3))
