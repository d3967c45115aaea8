"""What inertial and other small sensors measure, as frozen records: one row a sample, unit and frame on every field."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from parhelion.core.measured import Record, column, units
from parhelion.core.pose import Floats

__all__ = [
    "BarometerData", "ImuData", "MagnetometerData", "OdometryData", "Record", "Samples", "column", "joined", "units",
]  # fmt: skip

if TYPE_CHECKING:
    from typing_extensions import Self

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

    def _columns(self) -> list[str]:
        """Names of the arrays with a row a sample."""
        return [
            one.name
            for one in fields(self)
            if one.metadata.get("shape", ())[:1] == ("n",) and getattr(self, one.name) is not None
        ]


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


@dataclass(frozen=True, eq=False)
class BarometerData(Samples):
    """Samples of a barometer."""

    pressure: Floats = field(metadata=column("Pa", "", "n"))
    """Static air pressure [Pa], shape (n,)."""
    altitude: Floats = field(metadata=column("m", "above mean sea level", "n"))
    """Altitude [m] at which the standard atmosphere has that pressure, shape (n,)."""
    pressure_variance: float
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
