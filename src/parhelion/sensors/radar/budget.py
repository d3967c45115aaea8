"""The radar equation: from cross-section and range to the signal in a cell, and the noise there."""

from __future__ import annotations

from typing import Any

import numpy as np

from parhelion.core.constants import BOLTZMANN_J_K
from parhelion.sensors.radar.axes import Axes, noise_bandwidth
from parhelion.sensors.radar.config import RadarConfig

REFERENCE_K = 290.0
"""Temperature that noise figures are told for."""


def received_constant_w(config: RadarConfig) -> float:
    """C of P = C sigma / R^4 [W m^2], on the axis of both antennas: P_t G_t G_r lambda^2 / ((4 pi)^3 losses)."""
    decibels = config.power_dbm - 30.0 + config.transmit.gain_dbi + config.receive.gain_dbi - config.losses_db
    return float(10.0 ** (decibels / 10.0) * config.wavelength_m**2 / (4.0 * np.pi) ** 3)


def noise_power_w(config: RadarConfig, axes: Axes) -> float:
    """Thermal noise of a cell [W], on the scale on which a scatterer's peak is its received power.

    k T_0 F divided by the time over which the cell adds up, times the noise bandwidths of all windows. An array of N
    virtual channels listens with each of them for all of its ramps.
    """
    wave = config.waveform
    channels = 1 if config.array is None else config.array.azimuth_channels * config.array.elevation_channels
    seconds = wave.ramp_us * 1e-6 * channels
    bandwidths = noise_bandwidth(wave.range_window) * axes.beam_noise_bandwidth
    if wave.coherent:
        seconds *= wave.ramps
        bandwidths *= noise_bandwidth(wave.speed_window) if config.speed_bins > 1 else 1.0
    figure = 10.0 ** (config.noise_figure_db / 10.0)
    return BOLTZMANN_J_K * REFERENCE_K * figure * bandwidths / seconds


def power_w(constant_w: Any, cross_section_m2: Any, range_m: Any) -> Any:
    """Received power [W]; arrays of either kind."""
    square = range_m * range_m
    return constant_w * cross_section_m2 / (square * square)


def cross_section_m2(constant_w: Any, power: Any, range_m: Any) -> Any:
    """The cross-section that explains a power [m^2]."""
    square = range_m * range_m
    return power * square * square / constant_w
