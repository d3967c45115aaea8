"""What a satellite navigation receiver measures, as a frozen record: one row a fix, one column a satellite."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.inertial import Samples, column
from parhelion.core.pose import Floats

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
