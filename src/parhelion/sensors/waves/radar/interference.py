"""Interference between radars of the same model: ghosts by ramps in step, a raised floor by ramps that cross.

The other radar's signal travels one way, so it is far stronger than an echo: at the distance d, the receiver collects

    P = P_t G_t G_r lambda^2 / ((4 pi d)^2 losses)

Ramps of the same slope that start within the receiver's band after its own, by dt, stay at one beat frequency: a ghost
at R = (d + c dt) / 2, and at half the radial speed. Ramps of another slope, s times that of the receiver, cross its
band of N / T (N range cells, T the ramp) within a share of the ramp

    eta = N / (B T |s - 1|)

The crossings are short pulses, whose energy spreads evenly over range and speed: each cell in the direction of the
other radar has eta P / (N / T) times the noise bandwidth of a cell in addition to its noise (G. M. Brooker, "Mutual
interference of millimeter-wave radar systems", IEEE Trans. Electromagn. Compat. 49, 2007).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field

from parhelion.core.clouds import ORIGINS
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.trajectory import Trajectory, pose_at, velocity_at
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene
from parhelion.sensors.scene import OtherSensor
from parhelion.sensors.waves.bounce import BouncePaths
from parhelion.sensors.waves.radar.config import RadarConfig
from parhelion.sensors.waves.radar.plumes import IN_AIR
from parhelion.sensors.waves.scene import beam_gain

if TYPE_CHECKING:
    from parhelion.world.world import World


class OtherRadar(OtherSensor):
    """Another radar of the same model, at rest or on an actor."""

    slope: Annotated[float, Field(gt=0, le=100)] = 1.0
    """Slope of its ramps over that of the receiver's: at 1 they are in step and cause a ghost."""
    offset_us: Annotated[float, Field(ge=-1e3, le=1e3)] = 0.0
    """Start of its ramps after those of the receiver, for ramps in step."""


@dataclass(frozen=True)
class Interference:
    """Signals of other radars in one frame."""

    ghosts: BouncePaths
    """Rows of the ghosts, as echoes of the air."""
    floor: NDArray[np.float64] | None
    """Raised noise of each beam in units of that of a cell, shape (elevations, azimuths); None if it is not raised."""


def one_way_power_w(config: RadarConfig, distance_m: float, gain: float) -> float:
    """Power [W] of a radar of the same model at a distance; `gain` is that of both antennas off their axes."""
    decibels = config.power_dbm - 30.0 + config.transmit.gain_dbi + config.receive.gain_dbi - config.losses_db
    return float(10.0 ** (decibels / 10.0) * (config.wavelength_m / (4.0 * np.pi * distance_m)) ** 2 * gain)


def crossing_share(config: RadarConfig, slope: float) -> float:
    """Share of a ramp within which a ramp of `slope` times its slope is in the receiver's band, at most 1."""
    wave = config.waveform
    if slope == 1.0:
        return 1.0
    return min(1.0, wave.range_bins / (wave.bandwidth_mhz * wave.ramp_us * abs(slope - 1.0)))


def interference(
    others: Sequence[OtherRadar],
    world: World,
    config: RadarConfig,
    motion: Trajectory,
    start: float,
    scene: RayScene,
    beams: Any,
    noise_w: float,
    bandwidths: float,
) -> Interference:
    """Signals of other radars that nothing hides from this one.

    `beams` returns the responses of all beams to unit directions (n, 3), `noise_w` is the noise of a cell and
    `bandwidths` the noise bandwidths of the windows over range and speed.
    """
    ghosts: list[BouncePaths] = []
    floor: NDArray[np.float64] | None = None
    own, speed = pose_at(motion, start), velocity_at(motion, start)
    for other in others:
        path = other.motion(world)
        theirs = pose_at(path, start)
        away = theirs.xyz - own.xyz
        distance = float(np.linalg.norm(away))
        if distance < 1e-3:
            continue
        toward = own.rotation.T @ (away / distance)
        back = theirs.rotation.T @ (-away / distance)
        gain = _one_way(config.receive, toward, config) * _one_way(config.transmit, back, config)
        line = Rays.of(own.xyz, away / distance, start, distance - 0.3)
        if gain <= 0.0 or bool(scene.is_blocked(line)[0]):
            continue
        watts = one_way_power_w(config, distance, gain)
        if other.slope == 1.0:
            rate = float((velocity_at(path, start) - speed) @ (away / distance))
            delay_m = distance + SPEED_OF_LIGHT_M_S * other.offset_us * 1e-6
            if 0.0 < 0.5 * delay_m < config.largest_range_m:
                ghosts.append(_ghost(config, watts, delay_m, rate, toward))
            continue
        wave = config.waveform
        cells = wave.range_bins * (wave.ramps if wave.coherent else 1)
        raised = crossing_share(config, other.slope) * watts * bandwidths / (cells * noise_w)
        answer = np.asarray(beams(toward[None]), np.float64)[0] ** 2
        floor = raised * answer if floor is None else floor + raised * answer
    return Interference(BouncePaths.joined(ghosts) if ghosts else BouncePaths.none(), floor)


def _one_way(antenna: Any, direction: NDArray[np.float64], config: RadarConfig) -> float:
    """Gain of an antenna relative to its axis; a rotating one has its axis at every azimuth."""
    if config.turning is not None:
        return float(beam_gain(1.0, 0.0, direction[2], *antenna.shape))
    return float(beam_gain(direction[0], direction[1], direction[2], *antenna.shape))


def _ghost(
    config: RadarConfig, watts: float, delay_m: float, rate_m_s: float, toward: NDArray[np.float64]
) -> BouncePaths:
    """Row of a ghost: the target in the middle of the path that would return this power."""
    half = 0.5 * delay_m
    decibels = config.power_dbm - 30.0 + config.transmit.gain_dbi + config.receive.gain_dbi - config.losses_db
    constant = 10.0 ** (decibels / 10.0) * config.wavelength_m**2 / (4.0 * np.pi) ** 3
    one = np.float32
    return BouncePaths(
        np.array([watts * half**4 / constant], one),
        np.array([delay_m], one),
        np.array([rate_m_s], one),
        toward[None].astype(one),
        np.array([half], one),
        np.zeros(1, np.uint32),
        np.full(1, ORIGINS.index("interference"), np.uint32),
        np.full(1, IN_AIR, np.uint8),
        np.zeros(1, np.int64),
    )
