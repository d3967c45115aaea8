"""What inertial and other small sensors measure, as frozen records: one row a sample, unit and frame on every field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.core.records import Column, Record, column, scalar, units

if TYPE_CHECKING:
    from typing_extensions import Self

__all__ = [
    "BarometerData", "ImuData", "MagnetometerData", "OdometryData", "Record", "Samples", "column", "joined", "units",
]  # fmt: skip


Kind = TypeVar("Kind", bound="Samples")


@dataclass(frozen=True, eq=False)
class Samples(Record):
    """Samples of one sensor in the order of time. Arrays are finite and read-only."""

    time: Floats = field(metadata=column("s", "", "n"))
    """Time of each sample [s] on the world's clock, shape (n,)."""

    def _sizes(self) -> Mapping[str, int]:
        return {"n": int(np.size(self.time)), "w": len(getattr(self, "wheels", ()))}

    def __len__(self) -> int:
        return int(self.time.shape[0])

    def select(self, rows: NDArray[Any] | slice) -> Self:
        """The samples that a boolean mask, an index array or a slice picks."""
        return replace(self, **{name: getattr(self, name)[rows] for name in self._columns()})

    def column_names(self, name: str) -> Sequence[str]:
        """Names of the columns of a field with several: axes, or numbers."""
        count = getattr(self, name).shape[1]
        return {3: "xyz", 4: "xyzw"}.get(count) or [str(k) for k in range(count)]

    def _facts(self) -> list[str]:
        span = [f"{self.time[0]:.6g} to {self.time[-1]:.6g} s"] if len(self) else []
        return [f"{len(self)} samples", *span, *(name for name in self._columns() if name != "time")]


def joined(parts: Sequence[Kind]) -> Kind:
    """Samples of one sensor in one record, from parts in the order of time; at least one part."""
    first = parts[0]
    return replace(
        first, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in first._columns()}
    )


@dataclass(frozen=True, eq=False)
class ImuData(Samples):
    """Samples of an inertial measurement unit."""

    specific_force: Floats = field(metadata=column("m/s^2", "sensor", "n", 3))
    """Acceleration less gravity [m/s²] in the sensor frame, shape (n, 3); 9.80665 upward at rest."""
    angular_rate: Floats = field(metadata=column("rad/s", "sensor", "n", 3))
    """Turn rate [rad/s] in the sensor frame, shape (n, 3)."""
    specific_force_covariance: Floats = field(metadata=column("m^2/s^4", "sensor", 3, 3))
    """Covariance [m²/s⁴] of one sample's white noise and rounding, shape (3, 3); bias is not part of it."""
    angular_rate_covariance: Floats = field(metadata=column("rad^2/s^2", "sensor", 3, 3))
    """Covariance [rad²/s²] of one sample's white noise and rounding, shape (3, 3); bias is not part of it."""
    orientation: Floats | None = field(default=None, metadata=column("1", "sensor to world", "n", 4))
    """Estimated orientation, unit quaternions `xyzw` sensor to world, shape (n, 4); None where the unit gives none."""
    orientation_covariance: Floats | None = field(default=None, metadata=column("rad^2", "world", 3, 3))
    """Covariance [rad²] of small turns about the world's axes, shape (3, 3); None where the unit gives none."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that came with the samples: sensor, seed, rate."""


@dataclass(frozen=True, eq=False)
class OdometryData(Samples):
    """Wheels, and the pose that follows from them. A row tells of the time since the row before it."""

    wheels: tuple[str, ...]
    """Names of the w wheels, in the order of the columns."""
    ticks: NDArray[np.int64] = field(metadata=column("ticks", "wheel", "n", "w", dtype="int64"))
    """Counters of the encoders, shape (n, w)."""
    wheel_speed: Floats = field(metadata=column("rad/s", "wheel", "n", "w"))
    """Mean turn rate of each wheel [rad/s] since the sample before, forward positive, shape (n, w)."""
    xyz: Floats = field(metadata=column("m", "odometry", "n", 3))
    """Dead-reckoned position [m] in the frame that the sensor had at the start of the run, shape (n, 3)."""
    quat_xyzw: Floats = field(metadata=column("1", "sensor to odometry", "n", 4))
    """Dead-reckoned orientation, unit quaternions sensor to the frame of `xyz`, shape (n, 4)."""
    velocity: Floats = field(metadata=column("m/s", "sensor", "n", 3))
    """Mean velocity [m/s] since the sample before, in the sensor frame, shape (n, 3)."""
    angular_velocity: Floats = field(metadata=column("rad/s", "sensor", "n", 3))
    """Mean turn rate [rad/s] since the sample before, in the sensor frame, shape (n, 3)."""
    steering_angle: Floats | None = field(default=None, metadata=column("rad", "sensor", "n"))
    """Steering angle [rad] of the middle front wheel, left positive, shape (n,); None without steering."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that came with the samples: sensor, seed, rate."""

    def _labels(self) -> Mapping[str | int, Sequence[str]]:
        return {"w": self.wheels}


@dataclass(frozen=True, eq=False)
class BarometerData(Samples):
    """Samples of a barometer."""

    pressure: Floats = field(metadata=column("Pa", "", "n"))
    """Static air pressure [Pa], shape (n,)."""
    altitude: Floats = field(metadata=column("m", "above mean sea level", "n"))
    """Altitude [m] at which the standard atmosphere has that pressure, shape (n,)."""
    pressure_variance: float = field(metadata=scalar("Pa^2"))
    """Variance [Pa²] of one sample's noise and rounding; offset and drift are not part of it."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that came with the samples: sensor, seed, rate."""


@dataclass(frozen=True, eq=False)
class MagnetometerData(Samples):
    """Samples of a magnetometer."""

    magnetic_field: Floats = field(metadata=column("T", "sensor", "n", 3))
    """Magnetic flux density [T] in the sensor frame, shape (n, 3)."""
    magnetic_field_covariance: Floats = field(metadata=column("T^2", "sensor", 3, 3))
    """Covariance [T²] of one sample's noise and rounding, shape (3, 3); iron is not part of it."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that came with the samples: sensor, seed, rate."""


# ---- gnss -----------------------------------------------------------------------------------------------------------
# What a satellite navigation receiver measures, as a frozen record: one row a fix, one column a satellite.


ABSENT, BLOCKED, REFLECTED, MULTIPATH, DIRECT = range(5)
STATUS = ("absent", "blocked", "reflected", "multipath", "direct")
"""How a satellite is received: below the horizon; above it, but not at all; by mirrors alone; directly with mirrors
of a quarter of its amplitude and more; directly."""
NO_FIX, FIX = 0, 3
"""Values of `mode`: no position, and one in three dimensions."""


def _gaps(unit: str, frame: str, *shape: str | int) -> dict[str, Any]:
    """A column that may have gaps."""
    return column(unit, frame, *shape, finite=False)


@dataclass(frozen=True, eq=False)
class GnssData(Samples):
    """Fixes and ranges of a receiver. Numbers that were not measured are NaN."""

    satellites: tuple[str, ...]
    """Names of the s satellites, such as G01, in the order of the columns."""
    receiver_time: Floats = field(metadata=column("s", "GPS week", "n"))
    """What the receiver's clock showed [s of the GPS week of the metadata], shape (n,)."""
    mode: NDArray[np.int64] = field(metadata=column("1", "", "n", dtype="int64"))
    """0 where there is no fix, 3 where there is one, shape (n,)."""
    position: Floats = field(metadata=_gaps("m", "world", "n", 3))
    """Measured position of the antenna [m], shape (n, 3); NaN without a fix."""
    velocity: Floats = field(metadata=_gaps("m/s", "world", "n", 3))
    """Measured velocity of the antenna [m/s], shape (n, 3); NaN without a fix."""
    position_covariance: Floats = field(metadata=_gaps("m^2", "world", "n", 3, 3))
    """What the receiver takes for the covariance of the position [m^2], shape (n, 3, 3)."""
    latitude: Floats = field(metadata=_gaps("deg", "WGS 84", "n"))
    """Measured geodetic latitude [deg], shape (n,)."""
    longitude: Floats = field(metadata=_gaps("deg", "WGS 84", "n"))
    """Measured longitude [deg], shape (n,)."""
    altitude: Floats = field(metadata=_gaps("m", "WGS 84", "n"))
    """Measured height above the ellipsoid [m], shape (n,)."""
    dop: Floats = field(metadata=_gaps("1", "", "n", 4))
    """Dilutions of precision: geometric, position, horizontal, vertical, shape (n, 4)."""
    consistent: NDArray[np.int64] = field(metadata=column("1", "", "n", dtype="int64"))
    """1 where the residuals pass their test, shape (n,)."""
    clock_bias: Floats = field(metadata=_gaps("s", "", "n"))
    """What the receiver finds its clock to be ahead [s], shape (n,)."""
    clock_drift: Floats = field(metadata=_gaps("s/s", "", "n"))
    """What it finds its clock to gain [s/s], shape (n,)."""
    azimuth: Floats = field(metadata=_gaps("rad", "north, clockwise", "n", "s"))
    """True azimuth of each satellite [rad], shape (n, s)."""
    elevation: Floats = field(metadata=_gaps("rad", "horizon", "n", "s"))
    """True elevation of each satellite [rad], shape (n, s)."""
    status: NDArray[np.int64] = field(metadata=column("1", "", "n", "s", dtype="int64"))
    """How each satellite is received, a number of `STATUS`: truth, shape (n, s)."""
    used: NDArray[np.int64] = field(metadata=column("1", "", "n", "s", dtype="int64"))
    """1 where the fix uses the satellite, shape (n, s)."""
    cn0: Floats = field(metadata=_gaps("dB-Hz", "", "n", "s"))
    """Carrier to noise density [dB-Hz], shape (n, s)."""
    pseudorange: Floats = field(metadata=_gaps("m", "", "n", "s"))
    """Pseudorange on the first band [m], shape (n, s)."""
    carrier: Floats = field(metadata=_gaps("cycles", "", "n", "s"))
    """Carrier phase on the first band [cycles], shape (n, s)."""
    doppler: Floats = field(metadata=_gaps("Hz", "", "n", "s"))
    """Doppler on the first band [Hz], positive for satellites that come nearer, shape (n, s)."""
    residual: Floats = field(metadata=_gaps("m", "", "n", "s"))
    """Pseudorange less what the fix says of it [m], shape (n, s)."""
    true_position: Floats = field(metadata=column("m", "world", "n", 3))
    """Where the antenna was in truth [m], shape (n, 3)."""
    cn0_2: Floats | None = field(default=None, metadata=_gaps("dB-Hz", "", "n", "s"))
    """The same on the second band; None for receivers of one."""
    pseudorange_2: Floats | None = field(default=None, metadata=_gaps("m", "", "n", "s"))
    """The same on the second band; None for receivers of one."""
    carrier_2: Floats | None = field(default=None, metadata=_gaps("cycles", "", "n", "s"))
    """The same on the second band; None for receivers of one."""
    doppler_2: Floats | None = field(default=None, metadata=_gaps("Hz", "", "n", "s"))
    """The same on the second band; None for receivers of one."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that came with the samples: sensor, seed, rate, time and place of the world's zero, bands."""

    def _sizes(self) -> Mapping[str, int]:
        return {"n": int(np.size(self.time)), "s": len(self.satellites)}

    def _labels(self) -> Mapping[str | int, Sequence[str]]:
        return {"s": self.satellites, 4: ("geometric", "position", "horizontal", "vertical")}

    def _facts(self) -> list[str]:
        fixes = f"{int(np.sum(self.mode != NO_FIX))} fixes"
        return [
            *super()._facts()[: 2 if len(self) else 1],
            fixes,
            f"{len(self.satellites)} satellites",
            "frame 'world'",
        ]

    @property
    def error(self) -> Floats:
        """Measured less true position [m], shape (n, 3); NaN without a fix."""
        return np.asarray(self.position - self.true_position)

    @property
    def satellites_used(self) -> NDArray[np.int64]:
        """Number of satellites in each fix, shape (n,)."""
        return np.asarray(self.used.sum(axis=1))

    @property
    def tracked(self) -> NDArray[np.bool_]:
        """Satellites that the receiver has a pseudorange of, shape (n, s)."""
        return np.isfinite(self.pseudorange)

    def to_enu(self, vectors: Floats) -> Floats:
        """Vectors of the world, shape (..., 3), as east, north and up."""
        turn = np.radians(90.0 - float(self.metadata.get("x_azimuth_deg", 90.0)))
        c, s = np.cos(turn), np.sin(turn)
        x, y, z = (vectors[..., k] for k in range(3))
        return np.stack([c * x - s * y, s * x + c * y, z], axis=-1)

    def covariance_enu(self, row: int) -> Floats:
        """Covariance of one position [m^2] by east, north and up, shape (3, 3)."""
        half = self.to_enu(self.position_covariance[row])
        return self.to_enu(half.T).T

    def directions(self) -> Floats:
        """Unit vectors from the antenna to the satellites in the world, shape (n, s, 3)."""
        turn = np.radians(90.0 - float(self.metadata.get("x_azimuth_deg", 90.0)))
        angle = np.pi / 2.0 - self.azimuth - turn
        flat = np.cos(self.elevation)
        return np.stack([flat * np.cos(angle), flat * np.sin(angle), np.sin(self.elevation)], axis=-1)


# ---- What a ranging radio measures, as a frozen record --------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UwbData(Samples):
    """Ranges between a tag and a anchors; NaN for frames that were not received."""

    anchors: tuple[str, ...]
    """Names of the a anchors, in the order of the columns."""
    anchor_xyz: Floats = field(metadata=column("m", "world", "a", 3))
    """Positions of the anchors [m], shape (a, 3)."""
    range: Floats = field(metadata=column("m", "", "n", "a", finite=False))
    """Measured range [m], shape (n, a); with TDoA, the difference to the range of the first anchor."""
    range_std: Floats = field(metadata=column("m", "", "n", "a", finite=False))
    """Standard deviation of the noise of each range [m], without bias, shape (n, a)."""
    rssi: Floats = field(metadata=column("dBm", "", "n", "a", finite=False))
    """Received signal strength [dBm], shape (n, a)."""
    snr: Floats = field(metadata=column("dB", "", "n", "a", finite=False))
    """Signal-to-noise ratio of the first path in the impulse response [dB], shape (n, a)."""
    los: NDArray[np.bool_] = field(metadata=column("1", "", "n", "a", dtype="bool"))
    """Truth: True if the line between tag and anchor is free, shape (n, a)."""
    true_range: Floats = field(metadata=column("m", "", "n", "a"))
    """Truth: `range` without errors [m], shape (n, a)."""
    position: Floats = field(metadata=column("m", "world", "n", 3, finite=False))
    """Position of the tag from the ranges [m], shape (n, 3); NaN if they determine none."""
    position_covariance: Floats = field(metadata=column("m^2", "world", "n", 3, 3, finite=False))
    """Covariance of the position from the standard deviations of the ranges [m^2], shape (n, 3, 3)."""
    gdop: Floats = field(metadata=column("1", "", "n", finite=False))
    """Geometric dilution of precision of the position, shape (n,)."""
    method: str = "two-way"
    """Ranging method: two-way, tdoa or rssi."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values that came with the samples: sensor, seed, rate."""
    cir: NDArray[np.complex64] | None = field(
        default=None, metadata=column("sqrt(mW)", "", "n", "a", "t", dtype="complex64", finite=False)
    )
    """Channel impulse response to each anchor, |cir|² is a power [mW], shape (n, a, t); None if not recorded."""
    cir_time: Floats | None = field(default=None, metadata=column("s", "", "t"))
    """Time of each tap of `cir` after the first path [s], shape (t,)."""
    first_path_power: Floats | None = field(default=None, metadata=column("dBm", "", "n", "a", finite=False))
    """Power of the first path [dBm], shape (n, a); NaN for ranges by signal strength, None in older files."""

    def _sizes(self) -> Mapping[str, int]:
        return {**super()._sizes(), "a": len(self.anchors), "t": 0 if self.cir_time is None else np.size(self.cir_time)}

    def _labels(self) -> Mapping[str | int, Sequence[str]]:
        return {"a": self.anchors}

    def _facts(self) -> list[str]:
        return [
            *super()._facts()[: 2 if len(self) else 1],
            f"{len(self.anchors)} anchors",
            self.method,
            "frame 'world'",
        ]

    def table(self) -> list[Column]:
        """Columns without the impulse responses, which are two columns per anchor and tap."""
        return [part for name in self._columns() if name != "cir" for part in self._components(name)]

    @property
    def error(self) -> Floats:
        """Measured less true range [m], shape (n, a)."""
        return np.asarray(self.range - self.true_range)

    def column_names(self, name: str) -> Sequence[str]:
        """Names of the columns of a field: anchors, or axes."""
        values = getattr(self, name)
        return self.anchors if values.ndim == 2 and name != "position" else super().column_names(name)
