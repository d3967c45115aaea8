"""Errors of a measurement as functions of its signal. Arrays of either kind."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream, to_normal
from parhelion.sensors.lidar.config import Noise


def range_sigma(snr: Reals, *, sigma_0: Reals, sigma_1: Reals) -> Reals:
    """Standard deviation of range [m]: sqrt(sigma_0^2 + (sigma_1 / SNR)^2), for SNR > 0.

    sigma_0 is left at high signal, sigma_1 is the part that falls with it (both [m]).
    """
    ratio = sigma_1 / snr
    return namespace(snr).sqrt(sigma_0 * sigma_0 + ratio * ratio)


def channel_biases(noise: Noise, rings: int, name: str) -> NDArray[np.float64] | None:
    """Constant range error [m] of each ring: as listed, or drawn once for all scans of a model; None where zero."""
    if noise.channel_bias_m:
        if len(noise.channel_bias_m) < rings:
            raise ConfigError(f"{name}: noise.channel_bias_m has {len(noise.channel_bias_m)} entries for {rings} rings")
        return np.asarray(noise.channel_bias_m, dtype=np.float64)
    if noise.channel_bias_sigma_m == 0.0:
        return None
    a, b, _, _ = Stream(0, f"channel-bias/{name}").words(np.arange(rings))
    return noise.channel_bias_sigma_m * np.asarray(to_normal(a, b)[0], dtype=np.float64)


def fit_range_sigma(snr: ArrayLike, sigma_m: ArrayLike) -> tuple[float, float]:
    """sigma_0 and sigma_1 [m] that fit pairs of SNR and standard deviation best (relative least squares)."""
    s, sigma = np.asarray(snr, dtype=np.float64), np.asarray(sigma_m, dtype=np.float64)
    if s.shape != sigma.shape or s.size < 2 or np.any(s <= 0) or np.any(sigma <= 0):
        raise ConfigError("range noise: give at least two pairs of SNR and sigma, all above 0")
    from scipy.optimize import nnls

    # sigma^2 = a + b / SNR^2 with a, b >= 0; dividing by sigma^2 makes the errors relative.
    design = np.stack([1.0 / sigma**2, 1.0 / (s * sigma) ** 2], axis=1)
    (a, b), _ = nnls(design, np.ones_like(s))
    return float(np.sqrt(a)), float(np.sqrt(b))


def detection_probability(power: ArrayLike, *, threshold_to_noise: float) -> NDArray[np.float64]:
    """Chance that an echo of `power` (in units of P_min) in Gaussian noise passes the threshold.

    Phi((P - P_min) / sigma_n) with sigma_n = P_min / threshold_to_noise: one half at the threshold itself.
    """
    from scipy.special import ndtr

    return np.asarray(ndtr((np.asarray(power, dtype=np.float64) - 1.0) * threshold_to_noise))


def power_with_chance(deviations: Reals, noise_sigma: Reals, shot_noise: Reals) -> Reals:
    """The power [P_min] that passes the threshold with the chance Phi(deviations); arrays of either kind.

    The root of P - 1 = z sqrt(sigma^2 + q P), with q the variance that a unit of signal adds.
    """
    xp = namespace(deviations)
    half = 0.5 * deviations * shot_noise
    return 1.0 + deviations * (half + xp.sqrt(half * half + shot_noise + noise_sigma * noise_sigma))


def false_alarm_rate(*, threshold_to_noise: float, pulse_length_s: float) -> float:
    """False alarms a second of open receiver: exp(-TNR^2 / 2) / (2 sqrt(3) tau).

    Rice's rate of upward crossings for noise limited to the band of a matched pulse of half-power width tau
    (RCA Electro-Optics Handbook, 1974, section 8). Valid for TNR above about 2.
    """
    if threshold_to_noise <= 0 or pulse_length_s <= 0:
        raise ConfigError("false alarms: threshold_to_noise and pulse_length_s must be above 0")
    return float(np.exp(-(threshold_to_noise**2) / 2.0) / (2.0 * np.sqrt(3.0) * pulse_length_s))


def background_noise_factor(sun_klx: float, reference_klx: float) -> float:
    """Factor on the noise under other sunlight than the rated one: shot noise grows with the root of the light.

    Half of the rated noise power is taken as electronic and half as background at the reference illuminance, so
    that the factor is sqrt((1 + E / E_ref) / 2); 1 at the reference, 0.71 in darkness.
    """
    if sun_klx < 0 or reference_klx <= 0:
        raise ConfigError("background light: sun_klx must not be negative, reference_klx must be above 0")
    return float(np.sqrt(0.5 * (1.0 + sun_klx / reference_klx)))
