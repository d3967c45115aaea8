"""A radar's numbers on the device, and the order of its steps: emit, cast, add up, add noise, detect."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.random import Stream
from parhelion.core.trajectory import Fixed, Trajectory, pose_at, velocity_at
from parhelion.rays.device import Engine, copied
from parhelion.rays.turns import OnDevice
from parhelion.sensors.radar.axes import Axes
from parhelion.sensors.radar.budget import noise_power_w, received_constant_w
from parhelion.sensors.radar.cfar import Cells, detect
from parhelion.sensors.radar.config import Antenna, RadarConfig
from parhelion.sensors.radar.cube import Scatterers, Signal, phases, scatterers_of, signal_of
from parhelion.sensors.radar.noise import Noise
from parhelion.sensors.radar.rain import rain_attenuation_db_per_km, rain_reflectivity
from parhelion.sensors.waves.motion import Moves
from parhelion.sensors.waves.paths import Paths, trace_paths
from parhelion.sensors.waves.shoot import Emission, Pattern
from parhelion.sensors.waves.target import WaveTarget
from parhelion.weather.weather import Weather

_FADED = 3e-3
"""Single rays that bring less than this of a cell's noise are dropped in the kernel."""
RAIN_SPREAD_M_S = 1.0
"""Standard deviation of raindrops' radial velocities: turbulence and sizes (Doviak and Zrnic 1993: 0.5 to 2)."""


@dataclass(frozen=True, eq=False)
class Frame:
    """What one frame was made of."""

    paths: Paths
    scatterers: Scatterers
    signal: Signal
    power: NDArray[np.float32]
    """The cube, in units of the noise."""
    alarms: NDArray[np.int64]
    peaks: NDArray[np.int64]
    clutter: NDArray[np.float64]
    """Power of rain by range, speed and azimuth is this (ranges,) times `spread` (speeds, azimuths)."""
    spread: NDArray[np.float64]


class RadarOnDevice(OnDevice):
    """Everything that stays the same from frame to frame."""

    def __init__(self, engine: Engine, config: RadarConfig, axes: Axes) -> None:
        self.engine, self.config, self.axes = engine, config, axes
        self.constant_w = received_constant_w(config)
        self.noise_w = noise_power_w(config, axes)
        self._noise = Noise(engine, axes, 1 if config.waveform.coherent else config.waveform.ramps)
        rays = config.field
        wide, high = (edges[1] - edges[0] for edges in (rays.azimuth_deg, rays.elevation_deg))
        # Square cells of directions; columns come one after the other, since their rays run close to each other.
        self.columns = max(1, round(np.sqrt(rays.rays * wide / high)))
        self.rows = max(1, round(rays.rays / self.columns))
        number = engine.number
        self._send, self._receive = (self._pattern(one) for one in (config.transmit, config.receive))
        turning = config.turning
        self._angles = (
            number(np.radians(rays.azimuth_deg[0])), number(np.radians(wide) / self.columns),
            number(np.radians(rays.elevation_deg[0])), number(np.radians(high) / self.rows),
        )  # fmt: skip
        self._times = (0.5 * config.frame_s, 0.0)
        if turning is not None:
            step = config.frame_s / self.columns
            self._times = (config.frame_s, -step) if turning.clockwise else (0.0, step)

    def _pattern(self, antenna: Antenna) -> Pattern:
        number = self.engine.number
        across, upward = (
            2.0 * np.sin(np.radians(min(width, 180.0) / 2.0))
            for width in (antenna.azimuth_width_deg, antenna.elevation_width_deg)
        )
        return Pattern(number(across), number(upward), number(10.0 ** (antenna.sidelobe_db / 10.0)))

    def ray_times(self, ray: NDArray[np.int64]) -> NDArray[np.float64]:
        """When rays are sent, after the frame's start [s]."""
        first, step = self._times
        return np.asarray(first + (ray // self.rows + 0.5) * step)

    def trace(self, target: WaveTarget, motion: Trajectory, start: float, weather: Weather | None) -> Paths:
        """All paths of a frame whose rays are worth following."""
        engine, config, scene = self.engine, self.config, target.scene
        place = motion.pose.xyz if isinstance(motion, Fixed) else motion.sample(np.array([start]))[0][0]
        if scene.changes:
            scene.set_window(start, config.frame_s, place)
        rate = 0.0 if weather is None else weather.at(start).rain_rate_mm_h
        decibels = float(rain_attenuation_db_per_km(config.frequency_ghz * 1e9, rate)) if rate > 0.0 else 0.0
        number = engine.number
        first, step = self._times
        emission = Emission(
            config.field.bounces, config.turning is not None, scene.moving is not None, engine.whole(self.rows),
            *self._angles, number(first), number(step), self._send, self._receive, number(config.wavelength_m),
            number(config.largest_range_m * 1.05),
            number(2.0 * max(config.minimum_range_m, config.range_step_m)), number(2.0 * config.largest_range_m),
            number(_FADED * self.noise_w / self.constant_w),
            number(decibels * 1e-4 * np.log(10.0)),
        )  # fmt: skip
        moves = Moves.of(engine, scene, motion, start, config.frame_s)
        return trace_paths(engine, target, emission, moves, scene.for_kernels(), self.columns * self.rows)

    def power(self, paths: Paths) -> NDArray[np.float64]:
        """Power of paths in units of a cell's noise."""
        half = 0.5 * paths.length.astype(np.float64)
        return np.asarray(paths.cross_section * (self.constant_w / self.noise_w) / half**4)

    def measure(
        self, paths: Paths, stream: Stream, weather: Weather | None, motion: Trajectory, start: float, *, noise: bool
    ) -> Frame:
        """The cube of a frame and what stands out in it."""
        engine, axes, config = self.engine, self.axes, self.config
        scatterers = scatterers_of(paths, self.power(paths), axes)
        phase = phases(paths.patch[scatterers.owner], scatterers.range_m, config.wavelength_m)
        signal = signal_of(scatterers, phase, axes)
        clutter, spread = self._rain(weather, motion, start)
        opaque, kind = engine.dr.opaque, engine.mi.UInt32
        keys = tuple(opaque(kind, word) for word in stream.key)
        rain = (engine.table(one.astype(np.float32)) for one in (clutter, spread))
        power = self._noise.power(
            keys, engine.table(signal.real), engine.table(signal.imaginary), *rain, noise=noise
        )  # fmt: skip
        cells = Cells.of(engine, config, axes.shape, self._noise.looks)
        alarms, peaks = detect(engine, cells, power)
        cube = copied(power).reshape(axes.shape)
        return Frame(paths, scatterers, signal, cube, alarms, peaks, clutter, spread)

    def _rain(
        self, weather: Weather | None, motion: Trajectory, start: float
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Power that rain sends back, in units of a cell's noise: by range, and its share by speed and azimuth."""
        config, axes = self.config, self.axes
        ranges, speeds, _, azimuths = axes.shape
        rate = 0.0 if weather is None else weather.at(start).rain_rate_mm_h
        if not config.rain_clutter or rate <= 0.0:
            return np.zeros(ranges), np.zeros((speeds, azimuths))
        assert weather is not None
        hertz = config.frequency_ghz * 1e9
        loss = float(rain_attenuation_db_per_km(hertz, rate)) * 1e-4 * np.log(10.0)
        distance = np.maximum(axes.range, config.range_step_m)
        # A bell's square, as of both ways, is 0.753 times as wide as the bell is at half power.
        both = np.sqrt(np.pi / (8.0 * np.log(2.0)))
        high = both * np.radians(min(config.transmit.elevation_width_deg, config.receive.elevation_width_deg))
        if config.turning is not None:
            wide = both * np.radians(min(config.transmit.azimuth_width_deg, config.receive.azimuth_width_deg))
        else:
            assert config.array is not None
            wide = 1.0 / (config.array.azimuth_channels * config.array.azimuth_spacing)
            if len(axes.elevation) > 1:
                high = 1.0 / (config.array.elevation_channels * config.array.elevation_spacing)
        volume = distance**2 * wide * high * config.range_step_m
        sigma = rain_reflectivity(hertz, float(rate)) * volume * np.exp(-2.0 * loss * distance)
        clutter = sigma * (self.constant_w / self.noise_w) / distance**4
        pose = pose_at(motion, start)
        air = pose.rotation.T @ (np.asarray(weather.wind_m_s) - velocity_at(motion, start))
        toward = np.cos(axes.azimuth) * air[0] + np.sin(axes.azimuth) * air[1]
        gain = np.ones(azimuths)
        if config.turning is None:
            aside = np.sin(axes.azimuth)
            for antenna in (config.transmit, config.receive):
                width = 2.0 * np.sin(np.radians(min(antenna.azimuth_width_deg, 180.0) / 2.0))
                gain = gain * np.exp(-4.0 * np.log(2.0) * (aside / width) ** 2)
        if speeds == 1:
            return clutter, gain[None]
        span = 2.0 * config.largest_speed_m_s
        apart = (axes.speed[:, None] - toward + 0.5 * span) % span - 0.5 * span
        width = max(RAIN_SPREAD_M_S, span / speeds)
        bell = np.exp(-0.5 * (apart / width) ** 2)
        return clutter, gain * bell / bell.sum(axis=0)


def doppler_hz(rate_m_s: NDArray[np.floating], frequency_hz: float) -> NDArray[np.float64]:
    """Shift in frequency of a path whose length grows by `rate_m_s` [m/s]: - rate f / c."""
    return np.asarray(-np.asarray(rate_m_s, np.float64) * frequency_hz / SPEED_OF_LIGHT_M_S)
