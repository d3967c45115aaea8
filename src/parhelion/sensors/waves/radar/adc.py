"""Raw samples of a radar's receivers, and the polar images that data sets of scanning radars store."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.frames import RadarCube
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.sensors.waves.radar.baseband import loud_scatterers, noise_share, noisy_tones
from parhelion.sensors.waves.radar.config import RadarConfig
from parhelion.sensors.waves.radar.cube import Axes, Scatterers, noise_bandwidth, phases, window_response

# ---- samples of the receivers ---------------------------------------------------------------------------------------


def adc_samples(
    config: RadarConfig, scatterers: Scatterers, axes: Axes, stream: Stream, *, noise: bool = True
) -> NDArray[np.complex64]:
    """Samples of all channels, shape (ramps, channels, samples), in units of their noise far above the filters.

    A scatterer is a complex tone: 2 R / c of delay becomes R / step periods over the samples of a ramp, its velocity
    advances the phase from ramp to ramp, and its direction from channel to channel. Powers of scatterers are those of
    a cell of the cube, in units of the cell's noise; transforms with the windows of the data sheet give the cube back,
    up to the colour of the noise. Phase noise is that of the strongest scatterers. Range migration and Doppler within a
    ramp are left out.
    """
    array, wave = config.array, config.waveform
    if array is None or not wave.coherent:
        raise ConfigError("adc: raw samples need a coherent waveform and the section array")
    count, ramps = wave.range_bins, wave.ramps
    gain = noise_bandwidth(wave.range_window) / count
    gain *= (noise_bandwidth(wave.speed_window) if ramps > 1 else 1.0) / ramps
    gain *= axes.beam_noise_bandwidth / (array.azimuth_channels * array.elevation_channels)
    received = scatterers.power * noise_share(config, scatterers.range_m) * gain
    amplitude = np.sqrt(received) * np.exp(1j * phases(scatterers.range_m, config.wavelength_m))

    def tones(cycles: Floats, size: int) -> NDArray[np.complex64]:
        """Unit tones of `cycles` (n,) periods per sample, shape (n, size)."""
        return np.exp(2j * np.pi * cycles[:, None] * np.arange(size)).astype(np.complex64)

    fast = tones(scatterers.range_m / config.range_step_m / count, count)
    slow = tones(scatterers.speed_m_s / (2.0 * config.largest_speed_m_s), ramps)
    across = tones(scatterers.direction[:, 1] * array.azimuth_spacing, array.azimuth_channels)
    upward = tones(scatterers.direction[:, 2] * array.elevation_spacing, array.elevation_channels)
    receivers = array.azimuth_channels * array.elevation_channels
    channels = (upward[:, :, None] * across[:, None]).reshape(len(amplitude), receivers)
    outer = slow[:, :, None] * (amplitude.astype(np.complex64)[:, None] * channels)[:, None]
    loud = loud_scatterers(received) if config.baseband.phase_noise_dbc_hz is not None else np.zeros(0, np.int64)
    found = (outer.reshape(len(amplitude), ramps * receivers).T @ fast).reshape(ramps, receivers, count)
    if len(loud):
        noisy = noisy_tones(config, scatterers.range_m[loud], replace(stream, name=f"{stream.name}/phase"))
        found += outer[loud].transpose(1, 2, 0) @ noisy.transpose(1, 0, 2)
    found += leakage_samples(config, receivers)[None]
    if noise:
        white = stream.generator().standard_normal((2, *found.shape), dtype=np.float32) * np.float32(np.sqrt(0.5))
        made = white[0] + 1j * white[1]
        if config.baseband.highpass_khz:
            colour = np.sqrt(noise_share(config, axes.range)).astype(np.float32)
            made = np.fft.ifft(np.fft.fft(made, axis=2) * colour, axis=2)
        found += made
    return np.asarray(found, np.complex64)


# ---- leakage from the transmitters to the receivers -----------------------------------------------------------------


def leakage_samples(config: RadarConfig, channels: int) -> NDArray[np.complex64]:
    """Samples of the leakage in one ramp, shape (channels, samples), in units of their thermal noise.

    Leakage is the same in every ramp: it stands at velocity 0 whatever the sensor does. Its amplitude and phase differ
    from channel to channel, as complex normal numbers that belong to the model.
    """
    wave = config.waveform
    found = np.zeros((channels, wave.range_bins), np.complex128)
    gain = noise_bandwidth(wave.range_window) / wave.range_bins
    gain *= (noise_bandwidth(wave.speed_window) if config.speed_bins > 1 else 1.0) / wave.ramps
    for tap, each in zip(config.leakage, _leakage_channels(config, channels), strict=True):
        cycles = tap.range_m / config.range_step_m / wave.range_bins
        tone = np.exp(2j * np.pi * cycles * np.arange(wave.range_bins))
        found += np.sqrt(10.0 ** (tap.level_db / 10.0) * gain) * each[:, None] * tone
    return found.astype(np.complex64)


def leakage_cube(axes: Axes) -> NDArray[np.complex64]:
    """Leakage in the cube, shape (ranges, speeds, elevations, azimuths), in units of the amplitude of a cell's noise.

    Channels are independent, so beams are as well, each with the level of one channel.
    """
    config, wave = axes.config, axes.config.waveform
    ranges, speeds, elevations, azimuths = axes.shape
    found = np.zeros(axes.shape, np.complex64)
    drawn = _leakage_channels(config, elevations * azimuths)
    offset = np.arange(speeds, dtype=np.float64) - speeds // 2
    slow = window_response(wave.speed_window, offset) * np.where(offset % 2, -1.0, 1.0) if speeds > 1 else np.ones(1)
    for tap, each in zip(config.leakage, drawn, strict=True):
        away = tap.range_m / config.range_step_m - np.arange(ranges, dtype=np.float64)
        fast = window_response(wave.range_window, away) * np.exp(1j * np.pi * away)
        level = 10.0 ** (tap.level_db / 20.0)
        both = level * fast[:, None, None, None] * slow[:, None, None]
        found += (both * each.reshape(elevations, azimuths)).astype(np.complex64)
    return found


def _leakage_channels(config: RadarConfig, count: int) -> NDArray[np.complex128]:
    """Complex normal numbers of unit mean power, shape (taps, count); the same for every unit of a model."""
    drawn = Stream(0, f"radar/leakage/{config.name}").generator().standard_normal((2, len(config.leakage), count))
    return np.asarray((drawn[0] + 1j * drawn[1]) * np.sqrt(0.5))


# ---- polar images ---------------------------------------------------------------------------------------------------

STEP_DB = 0.5
"""Power of one grey level of a polar image [dB]; assumed, as Navtech states for its 8-bit powers."""
NOISE_LEVEL = 60
"""Grey level of thermal noise; assumed, of the order of the images of the Oxford Radar RobotCar data set."""
ENCODER_COUNTS = 5600
"""Encoder counts per revolution in files of the Oxford Radar RobotCar data set (its SDK, radar.py)."""


def polar_image(cube: RadarCube) -> NDArray[np.uint8]:
    """Powers by azimuth and range as grey levels of `STEP_DB`, shape (azimuths, ranges).

    Azimuths run clockwise from straight ahead, as in the files of data sets.
    """
    decibels = 10.0 * np.log10(np.maximum(cube.range_azimuth.T, 1e-12))
    levels = np.clip(np.rint(NOISE_LEVEL + decibels / STEP_DB), 0, 255).astype(np.uint8)
    return np.asarray(levels[np.argsort(_clockwise(cube.azimuth), kind="stable")])


def oxford_image(cube: RadarCube, start_time_s: float, duration_s: float) -> NDArray[np.uint8]:
    """Rows of a file of the Oxford Radar RobotCar data set, shape (azimuths, 11 + ranges).

    Each row holds 8 bytes of time stamp [us, int64], 2 bytes of encoder count (uint16, clockwise from straight ahead),
    1 byte of validity (255), and one byte per range. Write it as an 8-bit grey PNG. The antenna starts straight behind
    and turns clockwise.
    """
    order = np.argsort(_clockwise(cube.azimuth), kind="stable")
    angle = _clockwise(cube.azimuth)[order]
    share = (angle / (2.0 * np.pi) + 0.5) % 1.0
    stamp = np.rint((start_time_s + duration_s * share) * 1e6).astype("<i8")
    encoder = (np.rint(angle / (2.0 * np.pi) * ENCODER_COUNTS).astype(np.int64) % ENCODER_COUNTS).astype("<u2")
    head = [
        stamp.view(np.uint8).reshape(-1, 8),
        encoder.view(np.uint8).reshape(-1, 2),
        np.full((len(order), 1), 255, np.uint8),
    ]
    return np.concatenate([*head, polar_image(cube)], axis=1)


def _clockwise(azimuth: Floats) -> Floats:
    """Angles clockwise from straight ahead, 0 to 2 pi [rad]; azimuths are positive to the left."""
    return np.asarray((-azimuth) % (2.0 * np.pi))
