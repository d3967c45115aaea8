"""Time and place: GPS time from the calendar, and the world's frame on the ellipsoid WGS 84."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats

WEEK_S = 604_800.0
GPS_EPOCH = datetime(1980, 1, 6, tzinfo=timezone.utc)
_LEAPS = (
    "1981-07-01 1982-07-01 1983-07-01 1985-07-01 1988-01-01 1990-01-01 1991-01-01 1992-07-01 1993-07-01 1994-07-01 "
    "1996-01-01 1997-07-01 1999-01-01 2006-01-01 2009-01-01 2012-07-01 2015-07-01 2017-01-01"
)
LEAP_DAYS = tuple(datetime.fromisoformat(day).replace(tzinfo=timezone.utc) for day in _LEAPS.split())
"""Days from which GPS time is one second further ahead of UTC (IERS Bulletin C); none has come since 2017."""
EARTH_RATE_RAD_S = 7.292_115_1467e-5
"""Rotation of the Earth (IS-GPS-200, WGS 84)."""


def moment(text: str | datetime) -> datetime:
    """A time of the calendar with its zone; UTC where the text names none."""
    try:
        found = datetime.fromisoformat(text.strip().replace("Z", "+00:00")) if isinstance(text, str) else text
    except ValueError:
        found = None
    if not isinstance(found, datetime):
        raise ConfigError(f"epoch: must be a time like 2024-06-21T12:00:00+00:00, got {text!r}")
    found = found if found.tzinfo is not None else found.replace(tzinfo=timezone.utc)
    if not GPS_EPOCH <= found < datetime(2100, 1, 1, tzinfo=timezone.utc):
        raise ConfigError(f"epoch: must be from 1980-01-06, when GPS time begins, to 2099, got {found.isoformat()}")
    return found


def leap_seconds(utc: datetime) -> int:
    """Seconds that GPS time is ahead of UTC."""
    return sum(utc >= day for day in LEAP_DAYS)


@dataclass(frozen=True)
class GpsTime:
    """A time of GPS: whole week since 1980-01-06 and seconds of that week."""

    week: int
    second: float

    @classmethod
    def of(cls, utc: datetime) -> GpsTime:
        """From a time of the calendar in UTC."""
        return cls.from_calendar(utc + timedelta(seconds=leap_seconds(utc)))

    @classmethod
    def from_calendar(cls, gps: datetime) -> GpsTime:
        """From a time of the calendar that counts GPS time, as RINEX files do."""
        since = gps.replace(tzinfo=timezone.utc) - GPS_EPOCH
        days, seconds = divmod(since.days, 7)
        return cls(days, seconds * 86_400.0 + since.seconds + since.microseconds * 1e-6)

    def calendar(self, after_s: float = 0.0) -> tuple[int, int, int, int, int, float]:
        """Year, month, day, hour, minute and second of GPS time, `after_s` [s] later; seconds to 0.1 us."""
        ticks = round((self.second + after_s) * 1e7)
        whole, part = divmod(ticks, 600_000_000)
        at = GPS_EPOCH + timedelta(weeks=self.week, minutes=whole)
        return at.year, at.month, at.day, at.hour, at.minute, part * 1e-7

    def utc(self, after_s: float = 0.0) -> datetime:
        """Time of the calendar in UTC, to the microsecond."""
        at = GPS_EPOCH + timedelta(weeks=self.week, seconds=round(self.second + after_s, 6))
        return at - timedelta(seconds=leap_seconds(at - timedelta(seconds=18)))

    @property
    def day_of_year(self) -> float:
        """Days since the year began, 1 at its start."""
        at = self.utc()
        return at.timetuple().tm_yday + (at.hour + at.minute / 60.0) / 24.0

    def since(self, other: GpsTime) -> float:
        """Seconds from another time to this one."""
        return (self.week - other.week) * WEEK_S + (self.second - other.second)


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


def up_at(ecef: Floats) -> tuple[Floats, Floats, Floats]:
    """East, north and up at positions (n, 3) [m] of ECEF, each of shape (n, 3), by the ellipsoid's plumb line."""
    lat, lon, _ = geodetic(ecef)
    lat, lon = np.radians(lat), np.radians(lon)
    zero = np.zeros_like(lat)
    east = np.stack([-np.sin(lon), np.cos(lon), zero], axis=-1)
    north = np.stack([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)], axis=-1)
    up = np.stack([np.cos(lat) * np.cos(lon), np.cos(lat) * np.sin(lon), np.sin(lat)], axis=-1)
    return east, north, up
