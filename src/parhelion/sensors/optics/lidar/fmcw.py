"""Frequency-modulated continuous-wave (FMCW) lidars: chirps, coherence, speckle and radial velocity.

The laser's frequency rises and falls by B within T each. The return of a target at range R that moves away at v beats
with the laser at

    f_up = 2 B R / (c T) - f_D,   f_down = 2 B R / (c T) + f_D,   f_D = -2 v / wavelength

so that the sum gives the range and the difference the velocity. Errors are those of the frequency of a tone in white
noise at the Cramer-Rao bound (D. C. Rife, R. R. Boorstyn, IEEE Trans. Inf. Theory 20, 1974). Functions take NumPy or
Dr.Jit arrays.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int, Ints, Keys, Reals, namespace
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import quat_rotate
from parhelion.core.random import Stream, to_normal, to_unit, words
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.optics.lidar.draws import AIR_SPECKLE_DRAW, SPECKLE_DRAW

if TYPE_CHECKING:
    from parhelion.sensors.optics.lidar.config import Fmcw, LidarConfig
    from parhelion.sensors.optics.lidar.patterns import ShotTable

# ---- beat frequencies -----------------------------------------------------------------------------------------------


def beat_frequencies_hz(
    range_m: Reals, speed_m_s: Reals, *, bandwidth_hz: float, chirp_s: float, wavelength_m: float
) -> tuple[Reals, Reals]:
    """Beat frequencies [Hz] of the rising and the falling chirp; speeds away from the sensor are positive."""
    delay = 2.0 * bandwidth_hz * range_m / (SPEED_OF_LIGHT_M_S * chirp_s)
    doppler = -2.0 * speed_m_s / wavelength_m
    return delay - doppler, delay + doppler


def range_and_speed(
    up_hz: Reals, down_hz: Reals, *, bandwidth_hz: float, chirp_s: float, wavelength_m: float
) -> tuple[Reals, Reals]:
    """Range [m] and radial speed [m/s] of beat frequencies; inverse of `beat_frequencies_hz`."""
    range_m = 0.25 * (up_hz + down_hz) * SPEED_OF_LIGHT_M_S * chirp_s / bandwidth_hz
    return range_m, 0.25 * (up_hz - down_hz) * wavelength_m


def range_resolution_m(bandwidth_hz: float) -> float:
    """Range between two targets that the chirp separates: c / 2 B."""
    return SPEED_OF_LIGHT_M_S / (2.0 * bandwidth_hz)


def tone_sigma_hz(snr: Reals, *, chirp_s: float) -> Reals:
    """Standard deviation of the frequency of a tone of unknown phase [Hz]: sqrt(6 / SNR) / (2 pi T).

    `snr` is the power of the tone over that of the noise in one cell of its spectrum, 1 / T wide. The bound is met for
    an SNR above about 10; receivers set their threshold there.
    """
    return math.sqrt(6.0) / (2.0 * math.pi * chirp_s) / namespace(snr).sqrt(snr)


def range_sigma_m(snr: Reals, *, bandwidth_hz: float, chirp_s: float) -> Reals:
    """Standard deviation of range by two chirps of equal SNR [m]."""
    per_hz = SPEED_OF_LIGHT_M_S * chirp_s / (2.0 * bandwidth_hz)
    return per_hz / math.sqrt(2.0) * tone_sigma_hz(snr, chirp_s=chirp_s)


def speed_sigma_m_s(snr: Reals, *, chirp_s: float, wavelength_m: float) -> Reals:
    """Standard deviation of radial speed by two chirps of equal SNR [m/s]."""
    return 0.5 * wavelength_m / math.sqrt(2.0) * tone_sigma_hz(snr, chirp_s=chirp_s)


def coherence_extinction_per_m(linewidth_hz: float) -> float:
    """Loss of the beat line by the laser's linewidth, as a one-way extinction [1/m]: 2 pi dnu / c.

    A Lorentzian line of width dnu leaves exp(-2 pi dnu t) of the power in the line at a delay t = 2 R / c (L. Richter
    et al., IEEE J. Quantum Electron. 22, 1986), that is exp(-2 gamma R) as for air.
    """
    return 2.0 * math.pi * linewidth_hz / SPEED_OF_LIGHT_M_S


# ---- speckle --------------------------------------------------------------------------------------------------------


MOST_LOOKS = 4
"""Largest number of averaged speckle patterns: one draw has four random words."""


def speckle(keys: Keys, shot: Ints, looks: int, *, of_air: bool = False) -> Reals:
    """Factor of speckle on the power of shots: the mean of `looks` exponential variables, of mean 1.

    A rough surface returns light of random phase. One receiver mode collects one speckle, whose intensity is
    exponential (J. W. Goodman, "Speckle phenomena in optics", 2007); independent patterns average. The air in front of
    a surface has other scatterers, so its speckle is independent of the surface's.
    """
    drawn = words(keys, shot, AIR_SPECKLE_DRAW if of_air else SPECKLE_DRAW)
    xp = namespace(drawn[0])
    total = -xp.log(to_unit(drawn[0]))
    for word in drawn[1:looks]:
        total = total - xp.log(to_unit(word))
    return total * (1.0 / looks)


def brightest_speckle(looks: int) -> float:
    """Factor of speckle that one shot in 1000 exceeds; 1 without speckle."""
    from scipy import special

    return float(special.gammainccinv(looks, 1e-3) / looks) if looks else 1.0


# ---- radial velocity ------------------------------------------------------------------------------------------------


@kernel_tree()
@dataclass
class Doppler:
    """Inputs of the radial velocity of returns, on the device."""

    rows: Float
    """Unit direction of each shot of each scan in the world, and the sensor's own part of its radial velocity [m/s]."""
    deviations: Float
    """Two standard normal numbers per shot; zeros without noise."""
    per_scan: Int
    sigma_floor: Reals
    """Standard deviation at high signal [m/s]."""
    sigma_1: Reals
    """Standard deviation at an SNR of 1 [m/s]."""
    snr_at_threshold: Reals
    span: Reals | None
    """Speeds are reported modulo this [m/s]; None if there is no ambiguity."""

    def speeds(self, beam: Int, shot: Int, number: Int, power: Float, moved: Any) -> Float:
        """Measured radial velocities [m/s] of returns: their beams, shots, numbers, powers and surface velocities."""
        dr, mi = running_engine().dr, running_engine().mi
        row = (beam // self.per_scan) * self.per_scan + shot
        way = dr.gather(mi.Vector4f, self.rows, row)
        two = dr.gather(mi.Vector2f, self.deviations, row)
        speed = way.w
        if moved is not None:
            speed = speed + moved.x * way.x + moved.y * way.y + moved.z * way.z
        snr = namespace(power).maximum(power, 1e-3) * self.snr_at_threshold
        sigma = dr.sqrt(self.sigma_floor * self.sigma_floor + self.sigma_1 * self.sigma_1 / snr)
        speed = speed + sigma * dr.select((number & 1) == 0, two.x, two.y)
        if self.span is None:
            return speed
        return speed - self.span * dr.round(speed / self.span)


_STEP_S = 1e-4


def own_speeds(motion: Trajectory, start_s: float, table: ShotTable) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Direction of each shot in the world (n, 3), and minus the velocity of its exit along it [m/s] (n,)."""
    direction = table.direction.astype(np.float64)
    if isinstance(motion, Fixed):
        quat = np.broadcast_to(motion.pose.quat_xyzw, (len(direction), 4))
        return quat_rotate(quat, direction), np.zeros(len(direction))
    times, rows = np.unique(table.time, return_inverse=True)
    at = start_s + times.astype(np.float64)
    _, quat = motion.sample(at)
    ends = []
    for step in (-0.5 * _STEP_S, 0.5 * _STEP_S):
        xyz, turned = motion.sample(at + step)
        ends.append(xyz[rows] + quat_rotate(turned[rows], table.origin.astype(np.float64)))
    way = quat_rotate(quat[rows], direction)
    return way, -np.sum((ends[1] - ends[0]) / _STEP_S * way, axis=1)


def doppler_of(
    engine: Engine,
    config: LidarConfig,
    table: ShotTable,
    motions: list[Trajectory],
    starts: list[float],
    streams: list[Stream],
    *,
    noisy: bool,
) -> Doppler | None:
    """Inputs of the radial velocity for the scans of a launch; None for lidars that do not measure it."""
    sheet = config.fmcw
    if sheet is None:
        return None
    rows, deviations = [], []
    shot = np.arange(len(table))
    for motion, start, stream in zip(motions, starts, streams, strict=True):
        way, own = own_speeds(motion, start, table)
        rows.append(np.c_[way, own])
        drawn = Stream(stream.seed, f"{stream.name}/speed", stream.number).words(shot) if noisy else None
        deviations.append(np.zeros((len(shot), 2)) if drawn is None else np.stack(to_normal(*drawn[:2]), axis=1))
    chirp_s, wavelength_m = sheet.chirp_us * 1e-6, config.wavelength_nm * 1e-9
    opaque = engine.dr.opaque
    return Doppler(
        engine.table(np.concatenate(rows).astype(np.float32)),
        engine.table(np.concatenate(deviations).astype(np.float32)),
        opaque(engine.mi.UInt32, len(table)),
        engine.number(sheet.speed_sigma_m_s if noisy else 0.0),
        engine.number(float(speed_sigma_m_s(1.0, chirp_s=chirp_s, wavelength_m=wavelength_m))),  # type: ignore[arg-type]
        engine.number(snr_at_threshold(sheet)),
        None if sheet.max_speed_m_s is None else engine.number(2.0 * sheet.max_speed_m_s),
    )


def snr_at_threshold(sheet: Fmcw) -> float:
    """SNR of a return at the detection threshold, as a ratio."""
    return float(10.0 ** (sheet.threshold_snr_db / 10.0))
