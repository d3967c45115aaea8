"""Faults of sensors: wrong mounts and clocks, lost data, dead parts, jamming, spoofing and temperature.

lidar = ph.Lidar("velodyne/vlp-16").with_faults(channels={"dead": [3]}, packets={"lost": 0.05})

A fault changes records after the measurement, or the place where the sensor measures. It is a pure function of the
record, of times on the world's clock, and of a random stream, so that split and repeated runs have the same bits.
"""

from __future__ import annotations

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray
from pydantic import Field, model_validator

from parhelion.core.clouds import Scan
from parhelion.core.config import Config, Fraction, NonNegative, Positive, parse
from parhelion.core.errors import ConfigError, FieldError
from parhelion.core.image import Image
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream, to_unit
from parhelion.core.streams import ImuData, Samples
from parhelion.core.trajectory import Trajectory

Seconds = Annotated[float, Field(ge=-1e9, le=1e9)]


@dataclass(frozen=True)
class Unit:
    """One sensor, for faults that are random or differ from unit to unit."""

    key: str
    """Key of its random streams."""
    seed: int
    rate_hz: float


class Fault(Config):
    """Settings of a fault, and its effect on a record."""

    kinds: ClassVar[Sequence[str]] = ()
    """Kinds of sensors that can have it; empty for all."""

    def applied(self, record: Any, unit: Unit) -> Any:
        """Record with the fault."""
        return record


class TimedFault(Fault):
    """A fault that lasts for a time."""

    from_s: Seconds = 0.0
    """Start [s] on the clock of the world."""
    until_s: Seconds | None = None
    """End; by default it stays."""

    def active(self, times: ArrayLike) -> NDArray[np.bool_]:
        """True at the times [s] at which the fault is present."""
        at = np.asarray(times, np.float64)
        return (at >= self.from_s) & (at < (np.inf if self.until_s is None else self.until_s))


class MountFault(Fault):
    """The sensor is not where its mount states: a bent bracket, or an extrinsic calibration that is off.

    Extrinsic calibrations of lidars on cars are off by about 0.1 to 0.5 degrees and by centimetres.
    """

    xyz: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Displacement [m] in the frame of the sensor."""
    rpy_deg: tuple[float, float, float] = (0.0, 0.0, 0.0)

    @property
    def pose(self) -> Pose:
        """True pose of the sensor in the frame of its stated mount."""
        return Pose(self.xyz, rpy_deg=self.rpy_deg)


@dataclass(frozen=True)
class Retimed:
    """A motion on a clock that is ahead of the world's by `ahead_s`."""

    motion: Trajectory
    ahead_s: float

    def sample(self, times: Any) -> tuple[Any, Any]:
        """Return positions (n, 3) [m] and quaternions (n, 4) at times (n,) [s] of that clock."""
        return self.motion.sample(np.asarray(times, np.float64) - self.ahead_s)


class ClockFault(Fault):
    """The clock of the sensor is ahead of the others: stamps are t + offset + drift (t - from_s) from a time on.

    Free crystals of sensors drift by 10 to 50 ppm. With `from_s`, the offset is a jump, as after a lost time server.
    The record of a moving sensor keeps its true motion, on its own clock.
    """

    offset_s: Annotated[float, Field(ge=-3600.0, le=3600.0)] = 0.0
    """Offset, positive for stamps that are too late."""
    drift_ppm: Annotated[float, Field(ge=-1e4, le=1e4)] = 0.0
    from_s: Seconds = 0.0
    """Time of the jump, and start of the drift."""

    def ahead_s(self, times: ArrayLike) -> Floats:
        """Error of the clock [s] at times [s]."""
        since = np.asarray(times, np.float64) - self.from_s
        return np.where(since >= 0.0, self.offset_s + 1e-6 * self.drift_ppm * since, 0.0)

    def applied(self, record: Any, unit: Unit) -> Any:
        """Record with the stamps of this clock."""
        if isinstance(record, Samples):
            return dataclasses.replace(record, time=record.time + self.ahead_s(record.time))
        ahead = float(self.ahead_s(record.start_time))
        if ahead == 0.0:
            return record
        moved = {"motion": Retimed(record.motion, ahead)} if hasattr(record, "motion") else {}
        return dataclasses.replace(record, start_time=record.start_time + ahead, **moved)


class LossFault(TimedFault):
    """Samples that never arrive: a loose plug or a full queue."""

    kinds: ClassVar[Sequence[str]] = ("imu", "gnss", "odometry", "barometer", "magnetometer", "uwb")

    lost: Fraction = 0.0
    """Fraction of the samples."""
    burst: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Number of samples in a row that are lost together."""

    def applied(self, record: Samples, unit: Unit) -> Samples:
        """Samples that arrive."""
        number = np.round(record.time * unit.rate_hz).astype(np.int64) // self.burst
        gone = lost_blocks(number, self.lost, unit, "loss") & self.active(record.time)
        return record.select(~gone) if gone.any() else record


def lost_blocks(numbers: NDArray[np.int64], share: float, unit: Unit, name: str) -> NDArray[np.bool_]:
    """True for the blocks of these numbers that are lost; each is lost with the probability `share`."""
    words = Stream(unit.seed, f"{unit.key}/faults/{name}").words((numbers & 0xFFFFFFFF).astype(np.uint32))
    return np.asarray(to_unit(words[0]) < share)


# ---- lidars ----------------------------------------------------------------------------------------------------------
# Shots without data are lost shots of the record: they have no return.


Degrees = Annotated[float, Field(ge=-360.0, le=360.0)]


class _ShotFault(TimedFault, ABC):
    """A fault that takes the returns of some shots."""

    kinds: ClassVar[Sequence[str]] = ("lidar",)

    @abstractmethod
    def gone(self, scan: Scan, unit: Unit) -> NDArray[np.bool_]:
        """Mask of the shots whose returns are lost while the fault is present."""

    def applied(self, record: Scan, unit: Unit) -> Scan:
        """Scan without the returns of these shots."""
        shots = record.shots
        gone = self.gone(record, unit) & self.active(record.start_time + shots.time.astype(np.float64))
        if not gone.any():
            return record
        kept = record.select(~gone[record.fields["shot"]])
        count = np.where(gone, 0, shots.return_count).astype(shots.return_count.dtype)
        dark: dict[str, Any] = {
            name: np.where(gone, 0.0, values).astype(np.float32)
            for name in ("near_ir", "noise")
            if (values := getattr(shots, name)) is not None
        }
        return dataclasses.replace(kept, shots=dataclasses.replace(shots, return_count=count, **dark))


class ChannelFault(_ShotFault):
    """Channels whose laser or detector has failed."""

    dead: Annotated[list[Annotated[int, Field(ge=0, le=65535)]], Field(max_length=4096)] = []  # noqa: RUF012
    """Numbers of the channels, as in the field `ring`."""

    def gone(self, scan: Scan, unit: Unit) -> NDArray[np.bool_]:
        """Shots of dead channels."""
        return np.isin(scan.shots.ring, self.dead)


class BlockedFault(_ShotFault):
    """A sector that something opaque covers, such as tape or a part of the robot that was added later.

    The sector runs counter-clockwise from `from_deg` to `to_deg`; 0 is ahead, and 90 is left.
    """

    from_deg: Degrees
    to_deg: Degrees
    lowest_deg: Annotated[float, Field(ge=-90.0, le=90.0)] = -90.0
    """Lowest elevation that is covered."""
    highest_deg: Annotated[float, Field(ge=-90.0, le=90.0)] = 90.0

    @model_validator(mode="after")
    def _in_order(self) -> BlockedFault:
        if self.highest_deg <= self.lowest_deg:
            raise ConfigError(f"highest_deg: must be above lowest_deg, {self.lowest_deg:g}, got {self.highest_deg:g}")
        return self

    def gone(self, scan: Scan, unit: Unit) -> NDArray[np.bool_]:
        """Shots into the sector."""
        x, y, z = scan.shots.direction.astype(np.float64).T
        beyond = (np.degrees(np.arctan2(y, x)) - self.from_deg) % 360.0
        up = np.degrees(np.arctan2(z, np.hypot(x, y)))
        width = self.to_deg - self.from_deg
        width = 360.0 if abs(width) >= 360.0 else width % 360.0
        return (beyond <= width) & (up >= self.lowest_deg) & (up <= self.highest_deg)


class PacketFault(_ShotFault):
    """Packets that are lost in the network, with all their firings."""

    lost: Fraction = 0.0
    """Fraction of the packets."""
    columns: Annotated[int, Field(ge=1, le=65536)] = 16
    """Consecutive firings of all channels in a packet: 16 in those of Ouster, 12 or 24 in those of Velodyne."""
    burst: Annotated[int, Field(ge=1, le=100_000)] = 1
    """Number of packets in a row that are lost together."""

    def gone(self, scan: Scan, unit: Unit) -> NDArray[np.bool_]:
        """Shots of lost packets."""
        packet = scan.shots.column.astype(np.int64) // (self.columns * self.burst)
        packet += 65536 * round(scan.start_time * unit.rate_hz)
        return lost_blocks(packet, self.lost, unit, "packets")


# ---- cameras ---------------------------------------------------------------------------------------------------------
# They are places of one unit, so all its pictures have them. They are applied to the finished picture: in a real
# colour camera, the reconstruction of colours also spreads a defect to the neighbours.


class PixelFault(TimedFault):
    """Dead and hot pixels, and dead columns.

    Most cameras correct the defects of a new sensor; radiation and age add hot pixels.
    """

    kinds: ClassVar[Sequence[str]] = ("camera",)

    dead: Fraction = 0.0
    """Fraction of the pixels that are always dark."""
    hot: Fraction = 0.0
    """Fraction of the pixels that are always at the highest value."""
    columns: Annotated[int, Field(ge=0, le=10_000)] = 0
    """Number of dark columns."""

    def masks(self, height: int, width: int, unit: Unit) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Masks (height, width) of the dark and of the bright pixels of a unit."""
        words = Stream(unit.seed, f"{unit.key}/faults/pixels").words(np.arange(height * width, dtype=np.uint32))
        draw = np.asarray(to_unit(words[0])).reshape(height, width)
        dark, bright = draw < self.dead, draw > 1.0 - self.hot
        own = Stream(unit.seed, f"{unit.key}/faults/columns").generator()
        dark = dark.copy()
        dark[:, own.permutation(width)[: self.columns]] = True
        return dark, bright & ~dark

    def applied(self, record: Image, unit: Unit) -> Image:
        """Picture with the defects."""
        if not self.active(record.start_time):
            return record
        dark, bright = self.masks(record.colour.shape[0], record.colour.shape[1], unit)
        most = float(record.colour.max()) if record.colour.dtype == np.float32 else np.iinfo(record.colour.dtype).max
        colour = record.colour.copy()
        colour[dark], colour[bright] = 0, most
        return dataclasses.replace(record, colour=colour)


# ---- GNSS receivers --------------------------------------------------------------------------------------------------


NOISE_DBW_HZ = -203.9
"""Density of thermal noise at 290 K, -174 dBm/Hz, and 0.1 dB."""
CHIP_RATE_HZ = 1.023e6
SPREAD = 2.22
"""Resistance of the correlator to a jammer as wide as the band (quoted from Kaplan and Hegarty 2017)."""
L1_WAVELENGTH_M = 0.190294
_NEAREST_M = 1.0


class JammingFault(TimedFault):
    """A jammer: it raises the noise, so that weak satellites, then all, are lost.

    With the power J at the antenna, C/N0 falls by 10 log10(1 + J / (N0 Q Rc)) for every satellite (Kaplan and Hegarty
    2017, quoted; for equal antenna gains). The jammer is in free space and in view.
    """

    kinds: ClassVar[Sequence[str]] = ("gnss",)

    xyz: tuple[float, float, float]
    """Position in the world [m]."""
    power_dbm: Annotated[float, Field(ge=-60.0, le=80.0)] = 10.0
    """Radiated power."""
    antenna_db: Annotated[float, Field(ge=-40.0, le=20.0)] = -5.0
    """Gain of the receiving antenna towards the horizon (assumed)."""

    def loss_db(self, xyz: Floats, times: Floats) -> Floats:
        """Loss of C/N0 [dB] at positions (n, 3) [m] and times (n,) [s]."""
        away = np.maximum(np.linalg.norm(xyz - np.array(self.xyz), axis=1), _NEAREST_M)
        spread_db = 20.0 * np.log10(4.0 * np.pi * away / L1_WAVELENGTH_M)
        power_dbw = self.power_dbm - 30.0 + self.antenna_db - spread_db
        ratio = 10.0 ** (0.1 * (power_dbw - NOISE_DBW_HZ)) / (SPREAD * CHIP_RATE_HZ)
        return np.where(self.active(times), 10.0 * np.log10(1.0 + ratio), 0.0)


class SpoofingFault(TimedFault):
    """A spoofer that has captured the receiver and moves its position away, at first slowly.

    The ranges fit the false position, so the consistency test of the receiver passes. Fixes are only moved where the
    receiver has one.
    """

    kinds: ClassVar[Sequence[str]] = ("gnss",)

    offset_m: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Jump of the position in the world."""
    velocity_m_s: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Velocity at which it then moves on."""

    def moved(self, times: Floats) -> tuple[Floats, Floats]:
        """Errors of the position (n, 3) [m] and velocity (n, 3) [m/s] at times (n,) [s]."""
        active = self.active(times)[:, None]
        since = np.maximum(times - self.from_s, 0.0)[:, None]
        velocity = np.array(self.velocity_m_s)
        return active * (np.array(self.offset_m) + since * velocity), active * velocity[None, :]


# ---- inertial sensors ------------------------------------------------------------------------------------------------


CALIBRATED_C = 25.0
"""Temperature at which biases are calibrated."""
GRAVITY_M_S2 = 9.80665


class TemperatureFault(Fault):
    """Biases that change with temperature: b(T) = c (T - 25 °C), with T = ambient + rise (1 - exp(-t / tau)).

    Each unit draws its coefficients from normal distributions with the given standard deviations. The
    defaults are assumed, of the size that data sheets of consumer units state.
    """

    kinds: ClassVar[Sequence[str]] = ("imu",)

    ambient_c: Annotated[float, Field(ge=-60.0, le=150.0)] = CALIBRATED_C
    """Temperature of the sensor at the start."""
    rise_c: Annotated[float, Field(ge=-150.0, le=150.0)] = 0.0
    """Warming until the temperature is steady."""
    tau_s: Positive = 300.0
    """Time constant of the warming."""
    gyro_deg_s_per_c: NonNegative = 0.05
    """Standard deviation of the coefficients of the gyroscopes."""
    accel_mg_per_c: NonNegative = 1.0
    """Standard deviation of the coefficients of the accelerometers, in thousandths of standard gravity."""

    def temperature_c(self, times: Floats) -> Floats:
        """Temperature of the sensor [°C] at times [s]."""
        return self.ambient_c + self.rise_c * -np.expm1(-np.maximum(times, 0.0) / self.tau_s)

    def coefficients(self, unit: Unit) -> tuple[Floats, Floats]:
        """Coefficients of the angular rate [rad/s/°C] and specific force [m/s²/°C] of a unit, shape (3,) each."""
        draws = Stream(unit.seed, f"{unit.key}/faults/temperature").generator().normal(size=6)
        return (
            np.radians(self.gyro_deg_s_per_c) * draws[:3],
            1e-3 * GRAVITY_M_S2 * self.accel_mg_per_c * draws[3:],
        )

    def applied(self, record: ImuData, unit: Unit) -> ImuData:
        """Samples with the biases of the temperature."""
        above = (self.temperature_c(record.time) - CALIBRATED_C)[:, None]
        rate, force = self.coefficients(unit)
        return dataclasses.replace(
            record,
            angular_rate=record.angular_rate + above * rate,
            specific_force=record.specific_force + above * force,
        )


# ---- all faults of one sensor ----------------------------------------------------------------------------------------


class Faults(Config):
    """Faults of one sensor; records are changed in the order of these fields.

    >>> ph.Lidar("velodyne/vlp-16").with_faults(ph.Faults(channels={"dead": [3]})).faults.channels.dead
    [3]
    """

    mount: MountFault | None = None
    """True pose differs from the stated mount."""
    channels: ChannelFault | None = None
    """Dead channels of a lidar."""
    blocked: BlockedFault | None = None
    """Covered sector of a lidar."""
    packets: PacketFault | None = None
    """Lost packets of a lidar."""
    pixels: PixelFault | None = None
    """Dead and hot pixels of a camera."""
    jamming: JammingFault | None = None
    """Jammer near a GNSS receiver."""
    spoofing: SpoofingFault | None = None
    """False position of a GNSS receiver."""
    temperature: TemperatureFault | None = None
    """Drift of an IMU with temperature."""
    loss: LossFault | None = None
    """Lost samples."""
    clock: ClockFault | None = None
    """Jump and drift of the clock."""

    @classmethod
    def of(cls, faults: Faults | Mapping[str, Any]) -> Faults:
        """Faults from fields of a file."""
        return faults if isinstance(faults, Faults) else parse(cls, dict(faults), "faults")

    def present(self) -> dict[str, Fault]:
        """Faults by name, in the order of their effect."""
        named = {name: cast("Fault | None", getattr(self, name)) for name in type(self).model_fields}
        return {name: one for name, one in named.items() if one is not None}

    def check(self, kind: str) -> None:
        """Raise FieldError if a sensor of this kind cannot have one of the faults."""
        for name, one in self.present().items():
            if one.kinds and kind not in one.kinds:
                raise FieldError(f"faults.{name}: is for {' and '.join(one.kinds)}, not for a sensor of type {kind}")

    @property
    def mount_pose(self) -> Pose | None:
        """True pose of the sensor in the frame of its stated mount; None if it is there."""
        return None if self.mount is None else self.mount.pose

    def applied(self, record: Any, unit: Unit) -> Any:
        """Record with all faults."""
        for one in self.present().values():
            record = one.applied(record, unit)
        return record
