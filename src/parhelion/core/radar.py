"""What a radar measures: detections as points, and the cube they were found in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.frame_points import FramePoints
from parhelion.core.measured import Record, column
from parhelion.core.pose import Floats


@dataclass(frozen=True, eq=False)
class RadarCube(Record):
    """Power over range, radial velocity, elevation and azimuth, in units of the thermal noise of a cell."""

    power: NDArray[np.float32] = field(metadata=column("noise power", "sensor", "r", "d", "e", "a", dtype="float32"))
    """Shape (ranges, velocities, elevations, azimuths)."""
    range: Floats = field(metadata=column("m", "sensor", "r"))
    radial_velocity: Floats = field(metadata=column("m/s", "sensor", "d"))
    """Away is positive."""
    elevation: Floats = field(metadata=column("rad", "sensor", "e"))
    azimuth: Floats = field(metadata=column("rad", "sensor", "a"))
    """Left is positive. Beams of an array are even in the sine of it."""

    def _sizes(self) -> Mapping[str, int]:
        return dict(zip("rdea", np.shape(self.power), strict=False))

    @property
    def range_velocity(self) -> NDArray[np.float32]:
        """The strongest beam over range and velocity, shape (ranges, velocities)."""
        return np.asarray(self.power.max(axis=(2, 3)))

    @property
    def range_azimuth(self) -> NDArray[np.float32]:
        """The strongest velocity and elevation over range and azimuth, shape (ranges, azimuths)."""
        return np.asarray(self.power.max(axis=(1, 2)))


@dataclass(frozen=True, eq=False)
class CrossSections(Record):
    """How a thing scatters a wave, by the direction that it is seen from, in the thing's own frame."""

    azimuth_deg: Floats = field(metadata=column("deg", "object", "n"))
    """Where the transmitter stands, seen from the thing."""
    elevation_deg: Floats = field(metadata=column("deg", "object", "n"))
    receiver_azimuth_deg: Floats = field(metadata=column("deg", "object", "n"))
    receiver_elevation_deg: Floats = field(metadata=column("deg", "object", "n"))
    sigma: Floats = field(metadata=column("m^2", "object", "n"))
    """Cross-section: all that comes back, as the mean of both polarisations that may be sent."""
    scattering: NDArray[np.complex128] | None = field(
        default=None, metadata=column("m", "object", "n", 2, 2, dtype="complex128")
    )
    """S of E_s = S E exp(-j k r) / r: rows are what is received, columns what is sent; horizontal, then vertical. None
    where powers were added, not fields."""
    frequency_ghz: float = 0.0

    def _sizes(self) -> Mapping[str, int]:
        return {"n": len(self.azimuth_deg)}

    @property
    def dbsm(self) -> Floats:
        """`sigma` in decibels over 1 m^2."""
        return np.asarray(10.0 * np.log10(np.maximum(self.sigma, 1e-30)))

    @property
    def polarised(self) -> Floats:
        """Cross-section [m^2] of each pair of polarisations, 4 pi |S|^2, shape (n, 2, 2)."""
        if self.scattering is None:
            raise ConfigError("cross-sections: polarisations are known where fields were added, not powers")
        return np.asarray(4.0 * np.pi * np.abs(self.scattering) ** 2)


@dataclass(frozen=True, eq=False, repr=False)
class RadarScan(FramePoints):
    """One frame or turn of a radar: its detections, strongest first.

    Fields: range, azimuth, elevation, radial_velocity, rcs, snr; what made them: label, instance, origin ('surface',
    'multipath', 'rain', 'noise'), bounces; time within the frame.
    """

    cube: RadarCube | None = field(default=None, kw_only=True)
    """Where it was asked for."""
