"""Place: the world's frame on the ellipsoid WGS 84."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats

EARTH_RATE_RAD_S = 7.292_115_1467e-5
"""Rotation of the Earth (IS-GPS-200, WGS 84)."""


@dataclass(frozen=True)
class Place:
    """Where the world lies on Earth: the position of its zero, and the compass direction of its x axis."""

    latitude_deg: float
    longitude_deg: float
    altitude_m: float = 0.0
    """Height of the world's z = 0 above the ellipsoid."""
    x_azimuth_deg: float = 90.0
    """Clockwise from north; 90 is east."""

    def __post_init__(self) -> None:
        for name, value, low, high in (
            ("latitude_deg", self.latitude_deg, -90.0, 90.0),
            ("longitude_deg", self.longitude_deg, -180.0, 180.0),
            ("altitude_m", self.altitude_m, -1000.0, 20_000.0),
            ("x_azimuth_deg", self.x_azimuth_deg, -360.0, 360.0),
        ):
            if not low <= value <= high:
                raise ConfigError(f"{name}: must be from {low:g} to {high:g}, got {value!r}")

    @cached_property
    def axes(self) -> Floats:
        """Axes of the world in ECEF as columns, shape (3, 3): the tangent plane at the world's zero, z along the plumb
        line of the ellipsoid."""
        lat, lon, turn = np.radians([self.latitude_deg, self.longitude_deg, 90.0 - self.x_azimuth_deg])
        east = np.array([-np.sin(lon), np.cos(lon), 0.0])
        north = np.array([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)])
        up = np.cross(east, north)
        return np.stack(
            [np.cos(turn) * east + np.sin(turn) * north, np.cos(turn) * north - np.sin(turn) * east, up], axis=1
        )

    @cached_property
    def zero(self) -> Floats:
        """The world's zero in ECEF [m], shape (3,)."""
        from pymap3d import geodetic2ecef

        return np.array([float(v) for v in geodetic2ecef(self.latitude_deg, self.longitude_deg, self.altitude_m)])

    def to_ecef(self, xyz: ArrayLike) -> Floats:
        """Positions of the world [m], shape (..., 3), in ECEF [m]."""
        return self.zero + self.turned_to_ecef(xyz)

    def to_world(self, ecef: ArrayLike) -> Floats:
        """Positions of ECEF [m], shape (..., 3), in the world [m]."""
        return self.turned_to_world(np.asarray(ecef, dtype=np.float64) - self.zero)

    def turned_to_ecef(self, vectors: ArrayLike) -> Floats:
        """Directions or velocities of the world, shape (..., 3), in ECEF."""
        return _product(np.asarray(vectors, dtype=np.float64), self.axes.T)

    def turned_to_world(self, vectors: ArrayLike) -> Floats:
        """Directions or velocities of ECEF, shape (..., 3), in the world."""
        return _product(np.asarray(vectors, dtype=np.float64), self.axes)


def _product(vectors: Floats, matrix: Floats) -> Floats:
    # Written out: a matrix product's rounding may depend on how many rows it is given.
    return vectors[..., 0:1] * matrix[0] + vectors[..., 1:2] * matrix[1] + vectors[..., 2:3] * matrix[2]


def geodetic(ecef: ArrayLike) -> tuple[Floats, Floats, Floats]:
    """Latitude [deg], longitude [deg] and height above the ellipsoid [m] of positions (..., 3) [m]; NaN stays NaN."""
    from pymap3d import ecef2geodetic

    x, y, z = np.moveaxis(np.asarray(ecef, dtype=np.float64), -1, 0)
    known = np.isfinite(x)
    if not np.any(known):
        return np.full(x.shape, np.nan), np.full(x.shape, np.nan), np.full(x.shape, np.nan)
    found = ecef2geodetic(np.where(known, x, 6.4e6), np.where(known, y, 0.0), np.where(known, z, 0.0))
    lat, lon, height = (np.where(known, np.asarray(value, dtype=np.float64), np.nan) for value in found)
    return lat, lon, height


@dataclass(frozen=True, eq=False)
class Local:
    """Places on the ellipsoid and their axes in ECEF: n of them."""

    latitude: Floats
    """Geodetic [rad], shape (n,)."""
    longitude: Floats
    """[rad], shape (n,)."""
    height_m: Floats
    """Above the ellipsoid, shape (n,)."""
    east: Floats
    """Unit vectors, shape (n, 3)."""
    north: Floats
    up: Floats
    """Along the ellipsoid's plumb line."""

    @classmethod
    def at(cls, ecef: Floats) -> Local:
        """Of positions (n, 3) [m]."""
        lat, lon, height = geodetic(ecef)
        lat, lon = np.radians(lat), np.radians(lon)
        sin_lat, cos_lat, sin_lon, cos_lon = np.sin(lat), np.cos(lat), np.sin(lon), np.cos(lon)
        east = np.stack([-sin_lon, cos_lon, np.zeros_like(lat)], axis=-1)
        north = np.stack([-sin_lat * cos_lon, -sin_lat * sin_lon, cos_lat], axis=-1)
        up = np.stack([cos_lat * cos_lon, cos_lat * sin_lon, sin_lat], axis=-1)
        return cls(lat, lon, height, east, north, up)

    def angles(self, toward: Floats) -> tuple[Floats, Floats]:
        """Azimuth and elevation [rad] of unit vectors (n, s, 3)."""
        east, north, up = (np.sum(toward * axis[:, None], axis=2) for axis in (self.east, self.north, self.up))
        return np.mod(np.arctan2(east, north), 2.0 * np.pi), np.arcsin(np.clip(up, -1.0, 1.0))
