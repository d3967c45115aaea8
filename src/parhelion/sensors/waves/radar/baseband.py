"""Receiver between mixer and converter: high-pass filters, noise of the converter, and phase noise of the oscillator.

An echo from range R has the beat frequency 2 R / c times the slope of the ramp. High-pass filters attenuate leakage and
nearby targets, which would saturate the converter. They attenuate the thermal noise as well, but not the noise that is
added after them, so a radar is less sensitive at short range than the fourth power of range suggests.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.sensors.waves.radar.config import RadarConfig

# ---- filters --------------------------------------------------------------------------------------------------------


def beat_frequency_hz(config: RadarConfig, range_m: ArrayLike) -> Floats:
    """Beat frequency [Hz] of an echo from a range [m]: R / step periods within one ramp."""
    return np.asarray(range_m, np.float64) / (config.range_step_m * config.waveform.ramp_us * 1e-6)


def filter_power(config: RadarConfig, range_m: ArrayLike) -> Floats:
    """Share of an echo's power that passes the high-pass filters, f^2 / (f^2 + f_c^2) for each of first order."""
    square = beat_frequency_hz(config, range_m) ** 2
    found = np.ones_like(square)
    for corner in config.baseband.highpass_khz:
        found = found * square / (square + (1e3 * corner) ** 2)
    return np.asarray(found)


def noise_share(config: RadarConfig, range_m: ArrayLike) -> Floats:
    """Noise power at the beat frequency of a range [m], relative to frequencies far above the filters.

    Thermal noise passes the filters; the noise of the converter is added after them.
    """
    added = 10.0 ** (config.baseband.converter_noise_db / 10.0)
    return np.asarray((filter_power(config, range_m) + added) / (1.0 + added))


def sensitivity(config: RadarConfig, range_m: ArrayLike) -> Floats:
    """Signal-to-noise ratio of an echo from a range [m] relative to a receiver without filters, 0 to 1."""
    if not config.baseband.highpass_khz:
        return np.ones(np.shape(range_m))
    return filter_power(config, range_m) / noise_share(config, range_m)


# ---- phase noise ----------------------------------------------------------------------------------------------------

_OFFSET_HZ = 1e6
"""Offset from the carrier at which data sheets state the phase noise [Hz]."""
_FEWEST = 1e-2
"""Phase noise that no scatterer raises above this share of a cell's noise is omitted."""
_MOST = 64
"""Largest number of scatterers whose phase noise is simulated in samples, strongest first."""


def oscillator_noise(config: RadarConfig, offset_hz: ArrayLike) -> Floats:
    """Phase noise of the oscillator [1/Hz] at offsets from the carrier [Hz]: flat within the bandwidth of its control
    loop, and falling with the square of the offset beyond it."""
    level, loop = config.baseband.phase_noise_dbc_hz, 1e3 * config.baseband.loop_khz
    if level is None:
        return np.zeros(np.shape(offset_hz))
    square = np.asarray(offset_hz, np.float64) ** 2
    return np.asarray(10.0 ** (level / 10.0) * (_OFFSET_HZ**2 + loop**2) / (square + loop**2))


def correlated_share(offset_hz: ArrayLike, range_m: ArrayLike) -> Floats:
    """Share of the oscillator's phase noise left in an echo after mixing: 4 sin^2(pi f tau), tau = 2 R / c.

    Transmitted and received noise are correlated, so it cancels at short range (Budge and Burt 1993, IEEE National
    Radar Conference).
    """
    delay = 2.0 * np.asarray(range_m, np.float64) / SPEED_OF_LIGHT_M_S
    return np.asarray(4.0 * np.sin(np.pi * np.asarray(offset_hz, np.float64) * delay) ** 2)


def phase_noise_cube(config: RadarConfig, scatterers: Any, beams: Any, bandwidths: float) -> Floats | None:
    """Power of the phase noise of all scatterers by range and beam, in units of a cell's noise; None if negligible.

    Ramps are independent, so the noise of an echo spreads over all velocities: the echo's power times S(f) / (T N),
    with T the duration of one of N ramps and f the beat frequency off the echo's. It arrives from the direction of the
    echo. `beams` (scatterers, beams) are amplitudes, `bandwidths` the noise bandwidths of the windows over range and
    speed.
    """
    if config.baseband.phase_noise_dbc_hz is None:
        return None
    wave, step = config.waveform, config.range_step_m
    per_bin = 1e6 / wave.ramp_us
    scale = bandwidths * per_bin / wave.ramps
    # S(f) 4 sin^2(x) is at most S(f) 4 x^2, which is largest far above the control loop.
    delay, largest = 2.0 * scatterers.range_m / SPEED_OF_LIGHT_M_S, float(oscillator_noise(config, 0.0))
    bound = 4.0 * largest * np.minimum(1.0, (np.pi * 1e3 * config.baseband.loop_khz * delay) ** 2)
    rows = np.flatnonzero(scatterers.power * scale * bound > _FEWEST)
    if not len(rows):
        return None
    place, range_m = scatterers.range_m[rows] / step, scatterers.range_m[rows]
    ranges = np.arange(wave.range_bins, dtype=np.float64)
    offset = np.abs(ranges[:, None] - place) * per_bin
    density = oscillator_noise(config, offset) * correlated_share(offset, range_m)
    # Phase noise passes the filters at its own frequency; powers are in units of the noise at the range of the echo.
    filters = sensitivity(config, ranges * step)[:, None] / sensitivity(config, range_m)
    spread = density * filters * (scale * scatterers.power[rows])
    gain = beams[rows]
    gain = gain**2 if isinstance(gain, np.ndarray) else gain.multiply(gain).toarray()
    return np.asarray(spread @ np.asarray(gain, np.float64))


def noisy_tones(config: RadarConfig, range_m: Floats, stream: Stream) -> NDArray[np.complex64]:
    """Phase noise of unit echoes from ranges (n,) [m] in the samples of all ramps, shape (n, ramps, samples).

    All echoes share one oscillator: with its phase p(t), the error of an echo is p(t) - p(t - tau). Sampling at twice
    the rate and a transform remove what lies below frequency 0 and above the last range, as in the converter.
    """
    wave = config.waveform
    count, double = wave.range_bins, 2 * wave.range_bins
    rate = double * 1e6 / wave.ramp_us
    white = np.fft.rfft(stream.generator().standard_normal((wave.ramps, double)), axis=1)
    offset = np.fft.rfftfreq(double, 1.0 / rate)
    phase = white * np.sqrt(oscillator_noise(config, offset) * rate)
    late = 1.0 - np.exp(-2j * np.pi * offset * (2.0 * range_m[:, None] / SPEED_OF_LIGHT_M_S))
    error = np.fft.irfft(phase * late[:, None], double, axis=2)
    tone = np.exp(2j * np.pi * (range_m / config.range_step_m / double)[:, None] * np.arange(double))
    spectrum = np.fft.fft(1j * error * tone[:, None], axis=2)[:, :, :count]
    return np.asarray(0.5 * np.fft.ifft(spectrum, axis=2), np.complex64)


def loud_scatterers(power: Floats) -> NDArray[np.int64]:
    """Rows of the scatterers whose phase noise is simulated in samples."""
    return np.argsort(-power, kind="stable")[:_MOST]
