"""Records of sensors that produce streams of samples: IMU, odometry, barometer, magnetometer, GNSS and UWB."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from parhelion.core.history import History
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
    """Samples of one sensor in chronological order, one row per sample. Arrays are read-only.

    >>> data = ph.Samples([0.0, 0.1, 0.2])
    >>> data
    <Samples: 3 samples, 0 to 0.2 s>
    >>> len(data.select(data.time > 0.05))
    2
    """

    time: Floats = field(metadata=column("s", "", "n"))
    """Time of each sample [s] on the world's clock, shape (n,)."""

    def _sizes(self) -> Mapping[str, int]:
        return {"n": int(np.size(self.time)), "w": len(getattr(self, "wheels", ()))}

    def __len__(self) -> int:
        return int(self.time.shape[0])

    def select(self, rows: NDArray[Any] | slice) -> Self:
        """Return the samples selected by a boolean mask, an index array or a slice."""
        return replace(self, **{name: getattr(self, name)[rows] for name in self._columns()})

    def column_names(self, name: str) -> Sequence[str]:
        """Names of the components of a field: axes, or numbers."""
        count = getattr(self, name).shape[1]
        return {3: "xyz", 4: "xyzw"}.get(count) or [str(k) for k in range(count)]

    def _repr_parts(self) -> list[str]:
        span = [f"{self.time[0]:.6g} to {self.time[-1]:.6g} s"] if len(self) else []
        return [f"{len(self)} samples", *span, *(name for name in self._columns() if name != "time")]


def joined(parts: Sequence[Kind]) -> Kind:
    """Concatenate records of one sensor, given in chronological order; at least one."""
    first = parts[0]
    return replace(
        first, **{name: np.concatenate([getattr(part, name) for part in parts]) for name in first._columns()}
    )


class SampleHistory(Generic[Kind]):
    """Samples of one sensor, added in chronological order; memory does not grow with their number."""

    def __init__(self) -> None:
        self._first: Kind | None = None
        self._rows = History(())

    def __len__(self) -> int:
        return len(self._rows)

    def add(self, samples: Kind) -> None:
        """Add samples."""
        columns = {name: getattr(samples, name) for name in samples._columns()}
        if self._first is None:
            self._first = samples
            kinds = [(name, values.dtype, values.shape[1:]) for name, values in columns.items()]
            self._rows = History((), np.dtype(kinds))
        block = np.empty(len(samples), self._rows.dtype)
        for name, values in columns.items():
            block[name] = values
        self._rows.extend(block)

    def joined(self) -> Kind:
        """Return all samples; there must have been some call of `add`."""
        assert self._first is not None
        rows = self._rows.rows(0, len(self._rows))
        return replace(self._first, **{name: np.ascontiguousarray(rows[name]) for name in self._first._columns()})


@dataclass(frozen=True, eq=False)
class ImuData(Samples):
    """Samples of an inertial measurement unit.

    >>> data = ph.Imu("xsens/mti-3").run(None, ph.Pose(), duration=0.1, seed=7)
    >>> data
    <ImuData: xsens/mti-3, 10 samples, 0 to 0.09 s, specific_force, angular_rate, orientation>
    >>> data.units["angular_rate"], data.angular_rate.shape
    ('rad/s', (10, 3))
    """

    specific_force: Floats = field(metadata=column("m/s^2", "sensor", "n", 3))
    """Acceleration minus gravity [m/s²] in the sensor frame, shape (n, 3); 9.80665 upward at rest."""
    angular_rate: Floats = field(metadata=column("rad/s", "sensor", "n", 3))
    """Angular rate [rad/s] in the sensor frame, shape (n, 3)."""
    specific_force_covariance: Floats = field(metadata=column("m^2/s^4", "sensor", 3, 3))
    """Covariance [m²/s⁴] of white noise and quantisation per sample, without bias, shape (3, 3)."""
    angular_rate_covariance: Floats = field(metadata=column("rad^2/s^2", "sensor", 3, 3))
    """Covariance [rad²/s²] of white noise and quantisation per sample, without bias, shape (3, 3)."""
    orientation: Floats | None = field(default=None, metadata=column("1", "sensor to world", "n", 4))
    """Estimated orientation as unit quaternions `xyzw`, sensor to world, shape (n, 4); None if the unit has none."""
    orientation_covariance: Floats | None = field(default=None, metadata=column("rad^2", "world", 3, 3))
    """Covariance [rad²] of small rotations about the world axes, shape (3, 3); None if the unit has none."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values stored with the samples: sensor, seed, rate."""


@dataclass(frozen=True, eq=False)
class OdometryData(Samples):
    """Wheel measurements, and the pose dead-reckoned from them. Each row covers the time since the previous row.

    >>> drive = ph.ConstantTwist(ph.Pose(), velocity=(1.0, 0.0, 0.0))
    >>> data = ph.Odometry("clearpath/husky").run(None, drive, duration=1.0, seed=7)
    >>> data.wheels
    ('left', 'right')
    >>> data.ticks.shape == (len(data), 2)
    True
    """

    wheels: tuple[str, ...]
    """Names of the w wheels, in the order of the columns."""
    ticks: NDArray[np.int64] = field(metadata=column("ticks", "wheel", "n", "w", dtype="int64"))
    """Encoder counters [ticks], shape (n, w)."""
    wheel_speed: Floats = field(metadata=column("rad/s", "wheel", "n", "w"))
    """Mean angular rate of each wheel [rad/s] since the previous sample, forward positive, shape (n, w)."""
    xyz: Floats = field(metadata=column("m", "odometry", "n", 3))
    """Dead-reckoned position [m] in the sensor frame at the start of the run, shape (n, 3)."""
    quat_xyzw: Floats = field(metadata=column("1", "sensor to odometry", "n", 4))
    """Dead-reckoned orientation as unit quaternions, sensor to the frame of `xyz`, shape (n, 4)."""
    velocity: Floats = field(metadata=column("m/s", "sensor", "n", 3))
    """Mean velocity [m/s] since the previous sample, in the sensor frame, shape (n, 3)."""
    angular_velocity: Floats = field(metadata=column("rad/s", "sensor", "n", 3))
    """Mean angular rate [rad/s] since the previous sample, in the sensor frame, shape (n, 3)."""
    steering_angle: Floats | None = field(default=None, metadata=column("rad", "sensor", "n"))
    """Steering angle [rad] of the virtual centre front wheel, left positive, shape (n,); None without steering."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values stored with the samples: sensor, seed, rate."""

    def _labels(self) -> Mapping[str | int, Sequence[str]]:
        return {"w": self.wheels}


@dataclass(frozen=True, eq=False)
class BarometerData(Samples):
    """Samples of a barometer.

    >>> data = ph.Barometer("bosch/bmp388").run(None, ph.Pose(xyz=(0, 0, 100)), duration=1.0, seed=7)
    >>> bool(100_000 < data.pressure[0] < 100_500)
    True
    """

    pressure: Floats = field(metadata=column("Pa", "", "n"))
    """Static air pressure [Pa], shape (n,)."""
    altitude: Floats = field(metadata=column("m", "above mean sea level", "n"))
    """Altitude [m] at which the standard atmosphere has that pressure, shape (n,)."""
    pressure_variance: float = field(metadata=scalar("Pa^2"))
    """Variance [Pa²] of noise and quantisation per sample, without offset and drift."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values stored with the samples: sensor, seed, rate."""


@dataclass(frozen=True, eq=False)
class MagnetometerData(Samples):
    """Samples of a magnetometer.

    >>> data = ph.MagnetometerData([0.0], [[2e-5, 0.0, -4.5e-5]], np.eye(3) * 1e-14)
    >>> data
    <MagnetometerData: 1 samples, 0 to 0 s, magnetic_field>
    """

    magnetic_field: Floats = field(metadata=column("T", "sensor", "n", 3))
    """Magnetic flux density [T] in the sensor frame, shape (n, 3)."""
    magnetic_field_covariance: Floats = field(metadata=column("T^2", "sensor", 3, 3))
    """Covariance [T²] of noise and quantisation per sample, without hard and soft iron, shape (3, 3)."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values stored with the samples: sensor, seed, rate."""


# ---- gnss -----------------------------------------------------------------------------------------------------------


ABSENT, BLOCKED, REFLECTED, MULTIPATH, DIRECT = range(5)
STATUS = ("absent", "blocked", "reflected", "multipath", "direct")
"""Reception of a satellite: below the horizon; above it but not received; by reflections only; directly with
reflections of at least a quarter of the direct amplitude; directly."""
NO_FIX, FIX = 0, 3
"""Values of `mode`: no fix, and a three-dimensional fix."""
SINGLE, DIFFERENTIAL, RTK_FIXED, RTK_FLOAT = 1, 2, 4, 5
"""Values of `quality`, as in the GGA sentence of NMEA 0183; 0 without a fix."""
QUALITY = {
    NO_FIX: "no fix",
    SINGLE: "single",
    DIFFERENTIAL: "differential",
    RTK_FIXED: "RTK fixed",
    RTK_FLOAT: "RTK float",
}
"""Names of the values of `quality`."""


def _gaps(unit: str, frame: str, *shape: str | int) -> dict[str, Any]:
    """Metadata of a column that may contain NaN."""
    return column(unit, frame, *shape, finite=False)


@dataclass(frozen=True, eq=False)
class GnssData(Samples):
    """Fixes and raw measurements of a GNSS receiver: one row per epoch, one column per satellite; NaN if not measured.

    >>> data = ph.Gnss("u-blox/f9p").run(ph.World(), ph.Pose(xyz=(0, 0, 2)), duration=1.0, seed=7)
    >>> bool(np.linalg.norm(data.error[0]) < 10.0)
    True
    >>> data.cn0.shape == data.pseudorange.shape == (len(data), len(data.satellites))
    True
    """

    satellites: tuple[str, ...]
    """Names of the s satellites, for example G01, in the order of the columns."""
    receiver_time: Floats = field(metadata=column("s", "GPS week", "n"))
    """Time shown by the receiver clock [s of the GPS week in the metadata], shape (n,)."""
    mode: NDArray[np.int64] = field(metadata=column("1", "", "n", dtype="int64"))
    """0 without a fix, 3 with a three-dimensional fix, shape (n,)."""
    position: Floats = field(metadata=_gaps("m", "world", "n", 3))
    """Measured position of the antenna [m], shape (n, 3); NaN without a fix."""
    velocity: Floats = field(metadata=_gaps("m/s", "world", "n", 3))
    """Measured velocity of the antenna [m/s], shape (n, 3); NaN without a fix."""
    position_covariance: Floats = field(metadata=_gaps("m^2", "world", "n", 3, 3))
    """Covariance of the position [m^2] as estimated by the receiver, shape (n, 3, 3)."""
    latitude: Floats = field(metadata=_gaps("deg", "WGS 84", "n"))
    """Measured geodetic latitude [deg], shape (n,)."""
    longitude: Floats = field(metadata=_gaps("deg", "WGS 84", "n"))
    """Measured longitude [deg], shape (n,)."""
    altitude: Floats = field(metadata=_gaps("m", "WGS 84", "n"))
    """Measured height above the ellipsoid [m], shape (n,)."""
    dop: Floats = field(metadata=_gaps("1", "", "n", 4))
    """Dilutions of precision: geometric, position, horizontal, vertical, shape (n, 4)."""
    consistent: NDArray[np.int64] = field(metadata=column("1", "", "n", dtype="int64"))
    """1 where the residuals pass the consistency test, shape (n,)."""
    clock_bias: Floats = field(metadata=_gaps("s", "", "n"))
    """Estimated bias of the receiver clock [s], positive if it is ahead, shape (n,)."""
    clock_drift: Floats = field(metadata=_gaps("s/s", "", "n"))
    """Estimated drift of the receiver clock [s/s], shape (n,)."""
    azimuth: Floats = field(metadata=_gaps("rad", "north, clockwise", "n", "s"))
    """True azimuth of each satellite [rad], shape (n, s)."""
    elevation: Floats = field(metadata=_gaps("rad", "horizon", "n", "s"))
    """True elevation of each satellite [rad], shape (n, s)."""
    status: NDArray[np.int64] = field(metadata=column("1", "", "n", "s", dtype="int64"))
    """Truth: reception of each satellite as an index into `STATUS`, shape (n, s)."""
    used: NDArray[np.int64] = field(metadata=column("1", "", "n", "s", dtype="int64"))
    """1 where the fix uses the satellite, shape (n, s)."""
    cn0: Floats = field(metadata=_gaps("dB-Hz", "", "n", "s"))
    """Carrier-to-noise density [dB-Hz], shape (n, s)."""
    pseudorange: Floats = field(metadata=_gaps("m", "", "n", "s"))
    """Pseudorange on the first band [m], shape (n, s)."""
    carrier: Floats = field(metadata=_gaps("cycles", "", "n", "s"))
    """Carrier phase on the first band [cycles], shape (n, s)."""
    doppler: Floats = field(metadata=_gaps("Hz", "", "n", "s"))
    """Doppler on the first band [Hz], positive for approaching satellites, shape (n, s)."""
    residual: Floats = field(metadata=_gaps("m", "", "n", "s"))
    """Pseudorange minus its value predicted from the fix [m], shape (n, s)."""
    true_position: Floats = field(metadata=column("m", "world", "n", 3))
    """Truth: position of the antenna [m], shape (n, 3)."""
    cn0_2: Floats | None = field(default=None, metadata=_gaps("dB-Hz", "", "n", "s"))
    """Carrier-to-noise density on the second band [dB-Hz], shape (n, s); None for single-band receivers."""
    pseudorange_2: Floats | None = field(default=None, metadata=_gaps("m", "", "n", "s"))
    """Pseudorange on the second band [m], shape (n, s); None for single-band receivers."""
    carrier_2: Floats | None = field(default=None, metadata=_gaps("cycles", "", "n", "s"))
    """Carrier phase on the second band [cycles], shape (n, s); None for single-band receivers."""
    doppler_2: Floats | None = field(default=None, metadata=_gaps("Hz", "", "n", "s"))
    """Doppler on the second band [Hz], shape (n, s); None for single-band receivers."""
    quality: NDArray[np.int64] | None = field(default=None, metadata=column("1", "", "n", dtype="int64"))
    """Solution as in GGA: 0 none, 1 single point, 2 differential, 4 RTK fixed, 5 RTK float, shape (n,)."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values stored with the samples: sensor, seed, rate, time and place of the world's origin, bands."""

    def _sizes(self) -> Mapping[str, int]:
        return {"n": int(np.size(self.time)), "s": len(self.satellites)}

    def _labels(self) -> Mapping[str | int, Sequence[str]]:
        return {"s": self.satellites, 4: ("geometric", "position", "horizontal", "vertical")}

    def _repr_parts(self) -> list[str]:
        fixes = f"{int(np.sum(self.mode != NO_FIX))} fixes"
        return [
            *super()._repr_parts()[: 2 if len(self) else 1],
            fixes,
            f"{len(self.satellites)} satellites",
            "frame 'world'",
        ]

    @property
    def error(self) -> Floats:
        """Measured minus true position [m], shape (n, 3); NaN without a fix."""
        return np.asarray(self.position - self.true_position)

    @property
    def satellites_used(self) -> NDArray[np.int64]:
        """Number of satellites used in each fix, shape (n,)."""
        return np.asarray(self.used.sum(axis=1))

    @property
    def tracked(self) -> NDArray[np.bool_]:
        """True where the receiver has a pseudorange, shape (n, s)."""
        return np.isfinite(self.pseudorange)

    def to_enu(self, vectors: Floats) -> Floats:
        """Convert world vectors, shape (..., 3), to east, north and up."""
        turn = np.radians(90.0 - float(self.metadata.get("x_azimuth_deg", 90.0)))
        c, s = np.cos(turn), np.sin(turn)
        x, y, z = (vectors[..., k] for k in range(3))
        return np.stack([c * x - s * y, s * x + c * y, z], axis=-1)

    def covariance_enu(self, row: int) -> Floats:
        """Covariance of one position [m^2] in east, north and up, shape (3, 3)."""
        half = self.to_enu(self.position_covariance[row])
        return self.to_enu(half.T).T

    def directions(self) -> Floats:
        """Unit vectors from the antenna to the satellites in the world frame, shape (n, s, 3)."""
        turn = np.radians(90.0 - float(self.metadata.get("x_azimuth_deg", 90.0)))
        angle = np.pi / 2.0 - self.azimuth - turn
        flat = np.cos(self.elevation)
        return np.stack([flat * np.cos(angle), flat * np.sin(angle), np.sin(self.elevation)], axis=-1)


# ---- uwb ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class UwbData(Samples):
    """Ranges from a tag to its anchors; NaN where an anchor was not received.

    >>> data = ph.UwbData(
    ...     time=[0.0], anchors=("A", "B"), anchor_xyz=[[0, 0, 2], [8, 0, 2]], range=[[5.1, np.nan]],
    ...     range_std=[[0.05, np.nan]], rssi=[[-81.0, np.nan]], snr=[[22.0, np.nan]], los=[[True, False]],
    ...     true_range=[[5.0, 5.0]], position=[[np.nan] * 3], position_covariance=np.full((1, 3, 3), np.nan),
    ...     gdop=[np.nan],
    ... )
    >>> data.error.round(3).tolist()
    [[0.1, nan]]
    """

    anchors: tuple[str, ...]
    """Names of the a anchors, in the order of the columns."""
    anchor_xyz: Floats = field(metadata=column("m", "world", "a", 3))
    """Positions of the anchors [m], shape (a, 3)."""
    range: Floats = field(metadata=column("m", "", "n", "a", finite=False))
    """Measured range [m], shape (n, a); with TDoA, the difference to the range of the first anchor."""
    range_std: Floats = field(metadata=column("m", "", "n", "a", finite=False))
    """Standard deviation of each range's noise [m], without bias, shape (n, a)."""
    rssi: Floats = field(metadata=column("dBm", "", "n", "a", finite=False))
    """Received signal strength [dBm], shape (n, a)."""
    snr: Floats = field(metadata=column("dB", "", "n", "a", finite=False))
    """Signal-to-noise ratio of the first path in the impulse response [dB], shape (n, a)."""
    los: NDArray[np.bool_] = field(metadata=column("1", "", "n", "a", dtype="bool"))
    """Truth: line of sight between tag and anchor is free, shape (n, a)."""
    true_range: Floats = field(metadata=column("m", "", "n", "a"))
    """Truth: `range` without errors [m], shape (n, a)."""
    position: Floats = field(metadata=column("m", "world", "n", 3, finite=False))
    """Position of the tag computed from the ranges [m], shape (n, 3); NaN without a solution."""
    position_covariance: Floats = field(metadata=column("m^2", "world", "n", 3, 3, finite=False))
    """Covariance of the position [m^2], propagated from `range_std`, shape (n, 3, 3)."""
    gdop: Floats = field(metadata=column("1", "", "n", finite=False))
    """Geometric dilution of precision of the position, shape (n,)."""
    method: str = "two-way"
    """Ranging method: two-way, tdoa or rssi."""
    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values stored with the samples: sensor, seed, rate."""
    cir: NDArray[np.complex64] | None = field(
        default=None, metadata=column("sqrt(mW)", "", "n", "a", "t", dtype="complex64", finite=False)
    )
    """Channel impulse response to each anchor [sqrt(mW)], shape (n, a, t); |cir|² is a power. None unless requested."""
    cir_time: Floats | None = field(default=None, metadata=column("s", "", "t"))
    """Time of each tap of `cir` after the first path [s], shape (t,)."""
    first_path_power: Floats | None = field(default=None, metadata=column("dBm", "", "n", "a", finite=False))
    """Power of the first path [dBm], shape (n, a); NaN for ranges by signal strength, None in older files."""

    def _sizes(self) -> Mapping[str, int]:
        return {**super()._sizes(), "a": len(self.anchors), "t": 0 if self.cir_time is None else np.size(self.cir_time)}

    def _labels(self) -> Mapping[str | int, Sequence[str]]:
        return {"a": self.anchors}

    def _repr_parts(self) -> list[str]:
        return [
            *super()._repr_parts()[: 2 if len(self) else 1],
            f"{len(self.anchors)} anchors",
            self.method,
            "frame 'world'",
        ]

    def table(self) -> list[Column]:
        """Columns without the impulse responses, which are two columns per anchor and tap."""
        return [part for name in self._columns() if name != "cir" for part in self._components(name)]

    @property
    def error(self) -> Floats:
        """Measured minus true range [m], shape (n, a)."""
        return np.asarray(self.range - self.true_range)

    def column_names(self, name: str) -> Sequence[str]:
        """Names of the components of a field: anchors, or axes."""
        values = getattr(self, name)
        return self.anchors if values.ndim == 2 and name != "position" else super().column_names(name)
