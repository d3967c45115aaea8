"""Earth: the world frame on the WGS 84 ellipsoid, and the delays of ionosphere and troposphere."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.checks import within
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.pose import Floats
from parhelion.weather.weather import Weather

EARTH_RATE_RAD_S = 7.292_115_1467e-5
"""Rotation rate of the Earth (IS-GPS-200, WGS 84)."""


@dataclass(frozen=True)
class Place:
    """Location of a world on Earth: the position of its origin and the azimuth of its x axis."""

    latitude_deg: float
    """Geodetic latitude of the origin."""
    longitude_deg: float
    """Longitude of the origin."""
    altitude_m: float = 0.0
    """Height of the world's z = 0 above the ellipsoid."""
    x_azimuth_deg: float = 90.0
    """Azimuth of the x axis, clockwise from north; 90 is east."""

    def __post_init__(self) -> None:
        within("latitude_deg", self.latitude_deg, -90.0, 90.0)
        within("longitude_deg", self.longitude_deg, -180.0, 180.0)
        within("altitude_m", self.altitude_m, -1000.0, 20_000.0)
        within("x_azimuth_deg", self.x_azimuth_deg, -360.0, 360.0)

    @cached_property
    def axes(self) -> Floats:
        """Axes of the world in ECEF as columns, shape (3, 3): tangent plane at the origin, z along the ellipsoid
        normal."""
        lat, lon, turn = np.radians([self.latitude_deg, self.longitude_deg, 90.0 - self.x_azimuth_deg])
        east = np.array([-np.sin(lon), np.cos(lon), 0.0])
        north = np.array([-np.sin(lat) * np.cos(lon), -np.sin(lat) * np.sin(lon), np.cos(lat)])
        up = np.cross(east, north)
        return np.stack(
            [np.cos(turn) * east + np.sin(turn) * north, np.cos(turn) * north - np.sin(turn) * east, up], axis=1
        )

    @cached_property
    def zero(self) -> Floats:
        """Origin of the world in ECEF [m], shape (3,)."""
        from pymap3d import geodetic2ecef

        return np.array([float(v) for v in geodetic2ecef(self.latitude_deg, self.longitude_deg, self.altitude_m)])

    def to_ecef(self, xyz: ArrayLike) -> Floats:
        """Convert positions in the world [m], shape (..., 3), to ECEF [m]."""
        return self.zero + self.rotate_to_ecef(xyz)

    def to_world(self, ecef: ArrayLike) -> Floats:
        """Convert positions in ECEF [m], shape (..., 3), to the world frame [m]."""
        return self.rotate_to_world(np.asarray(ecef, dtype=np.float64) - self.zero)

    def rotate_to_ecef(self, vectors: ArrayLike) -> Floats:
        """Rotate vectors of the world frame, shape (..., 3), to ECEF."""
        return _product(np.asarray(vectors, dtype=np.float64), self.axes.T)

    def rotate_to_world(self, vectors: ArrayLike) -> Floats:
        """Rotate vectors of ECEF, shape (..., 3), to the world frame."""
        return _product(np.asarray(vectors, dtype=np.float64), self.axes)


def _product(vectors: Floats, matrix: Floats) -> Floats:
    # Written out, because the rounding of a matrix product may depend on the number of rows.
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
    """Geodetic coordinates of n positions, and their local axes in ECEF."""

    latitude: Floats
    """Geodetic latitude [rad], shape (n,)."""
    longitude: Floats
    """Longitude [rad], shape (n,)."""
    height_m: Floats
    """Height above the ellipsoid [m], shape (n,)."""
    east: Floats
    """Unit vectors to the east, shape (n, 3)."""
    north: Floats
    """Unit vectors to the north, shape (n, 3)."""
    up: Floats
    """Unit vectors along the ellipsoid normal, shape (n, 3)."""

    @classmethod
    def at(cls, ecef: Floats) -> Local:
        """Return the local frames of positions (n, 3) [m] in ECEF."""
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


# ---- Atmospheric delays in metres of range --------------------------------------------------------------------------
# Angles are radians, heights metres above the ellipsoid. All functions accept arrays.


L1_HZ = 1_575.42e6
DEFAULT_KLOBUCHAR = (
    np.array([1.1176e-8, 7.4506e-9, -5.9605e-8, -5.9605e-8]),
    np.array([9.0112e4, 0.0, -1.9661e5, -6.5536e4]),
)
"""Default parameters without a navigation file: those of 2004-01-01, as in RTKLIB."""
DEFAULT_HUMIDITY = 0.7
"""Relative humidity assumed by receivers (RTKLIB)."""


def _array(value: ArrayLike) -> Floats:
    return np.asarray(value, dtype=np.float64)


# ---- ionosphere ----------------------------------------------------------------------------------------------------


def klobuchar(
    alpha: Floats,
    beta: Floats,
    latitude: ArrayLike,
    longitude: ArrayLike,
    azimuth: ArrayLike,
    elevation: ArrayLike,
    second: ArrayLike,
) -> Floats:
    """Ionosphere delay [m] on L1 by Klobuchar 1987 (IS-GPS-200, 20.3.3.5.2.5); it removes about half of the RMS error.

    `second` is GPS time within the day or week [s].
    """
    # The model uses angles in semicircles.
    lat, lon, el = _array(latitude) / np.pi, _array(longitude) / np.pi, _array(elevation) / np.pi
    azimuth = _array(azimuth)
    psi = 0.0137 / (el + 0.11) - 0.022
    phi = np.clip(lat + psi * np.cos(azimuth), -0.416, 0.416)
    lam = lon + psi * np.sin(azimuth) / np.cos(phi * np.pi)
    phi_m = phi + 0.064 * np.cos((lam - 1.617) * np.pi)
    local = np.mod(43_200.0 * lam + _array(second), 86_400.0)
    slant = 1.0 + 16.0 * (0.53 - el) ** 3
    amplitude = np.maximum(alpha[0] + phi_m * (alpha[1] + phi_m * (alpha[2] + phi_m * alpha[3])), 0.0)
    period = np.maximum(beta[0] + phi_m * (beta[1] + phi_m * (beta[2] + phi_m * beta[3])), 72_000.0)
    x = 2.0 * np.pi * (local - 50_400.0) / period
    day = 5e-9 + amplitude * (1.0 + x * x * (-0.5 + x * x / 24.0))
    return np.asarray(SPEED_OF_LIGHT_M_S * slant * np.where(np.abs(x) < 1.57, day, 5e-9))


def thin_shell(elevation: ArrayLike) -> Floats:
    """Slant over vertical delay, 2.037 / (sqrt(sin^2 + 0.076) + sin): 1 at the zenith, elevations above 0.

    Montenbruck and Garcia-Fernandez 2005, after Lear. VANE (eq. 3.8) prints the root over all three terms.
    """
    sine = np.sin(_array(elevation))
    return np.asarray(2.037 / (np.sqrt(sine * sine + 0.076) + sine))


def at_frequency(delay_l1: ArrayLike, frequency_hz: ArrayLike) -> Floats:
    """Ionosphere delay at another frequency, proportional to 1/f^2. The carrier advances by the delay of the code."""
    return np.asarray(_array(delay_l1) * (L1_HZ / _array(frequency_hz)) ** 2)


# ---- troposphere ---------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class AirAtHeight:
    """State of the air at one height; by default that of the standard atmosphere at the ellipsoid."""

    pressure_hpa: float = 1013.25
    """Pressure [hPa]."""
    temperature_c: float = 15.0
    """Temperature [°C]."""
    humidity: float = DEFAULT_HUMIDITY
    """Relative humidity, 0 to 1."""
    height_m: float = 0.0
    """Height above the ellipsoid at which these values hold [m]."""

    @classmethod
    def of(cls, weather: Weather | None, height_m: float) -> AirAtHeight:
        """Air of a world whose z = 0 is at a height [m]; values that the weather does not give are standard."""
        height = max(height_m, 0.0)
        humidity = getattr(weather, "humidity_percent", None)
        pressure, temperature = (getattr(weather, name, None) for name in ("pressure_hpa", "temperature_c"))
        return cls(
            1013.25 * float(_pressure_ratio(height)) if pressure is None else pressure,
            15.0 - 6.5e-3 * height if temperature is None else temperature,
            DEFAULT_HUMIDITY if humidity is None else humidity / 100.0,
            height,
        )


STANDARD_AIR = AirAtHeight()


def _pressure_ratio(height_m: ArrayLike) -> Floats:
    """Pressure of the standard atmosphere relative to that at height 0."""
    return np.asarray((1.0 - 2.2557e-5 * _array(height_m)) ** 5.2568)


def zenith_delays(latitude: ArrayLike, height_m: ArrayLike, air: AirAtHeight = STANDARD_AIR) -> tuple[Floats, Floats]:
    """Hydrostatic and wet delay at the zenith [m] by Saastamoinen 1972, below 10 km; by default in standard air."""
    height = np.maximum(_array(height_m), 0.0)
    pressure = air.pressure_hpa * _pressure_ratio(height) / _pressure_ratio(air.height_m)
    kelvin = air.temperature_c - 6.5e-3 * (height - air.height_m) + 273.16
    vapour = 6.108 * air.humidity * np.exp((17.15 * kelvin - 4684.0) / (kelvin - 38.45))
    dry = saastamoinen_dry(pressure, latitude, height)
    return dry, np.asarray(0.002277 * (1255.0 / kelvin + 0.05) * vapour)


def saastamoinen_dry(pressure_hpa: ArrayLike, latitude: ArrayLike, height_m: ArrayLike) -> Floats:
    """Hydrostatic delay at the zenith [m]: 0.0022768 P / (1 - 0.00266 cos 2 phi - 0.00028 h / km)."""
    gravity = 1.0 - 0.00266 * np.cos(2.0 * _array(latitude)) - 0.00028e-3 * _array(height_m)
    return np.asarray(0.0022768 * _array(pressure_hpa) / gravity)


def saastamoinen(
    latitude: ArrayLike, height_m: ArrayLike, elevation: ArrayLike, humidity: float = DEFAULT_HUMIDITY
) -> Floats:
    """Total troposphere delay [m] with the mapping 1 / sin, the correction in receivers. Elevations above 0."""
    dry, wet = zenith_delays(latitude, height_m, AirAtHeight(humidity=humidity))
    return np.asarray((dry + wet) / np.sin(_array(elevation)))


_LATITUDES = np.array([15.0, 30.0, 45.0, 60.0, 75.0])
_DRY = np.array([
    [1.2769934e-3, 1.2683230e-3, 1.2465397e-3, 1.2196049e-3, 1.2045996e-3],
    [2.9153695e-3, 2.9152299e-3, 2.9288445e-3, 2.9022565e-3, 2.9024912e-3],
    [62.610505e-3, 62.837393e-3, 63.721774e-3, 63.824265e-3, 64.258455e-3],
])  # fmt: skip
_DRY_SEASON = np.array([
    [0.0, 1.2709626e-5, 2.6523662e-5, 3.4000452e-5, 4.1202191e-5],
    [0.0, 2.1414979e-5, 3.0160779e-5, 7.2562722e-5, 11.723375e-5],
    [0.0, 9.0128400e-5, 4.3497037e-5, 84.795348e-5, 170.37206e-5],
])  # fmt: skip
_WET = np.array([
    [5.8021897e-4, 5.6794847e-4, 5.8118019e-4, 5.9727542e-4, 6.1641693e-4],
    [1.4275268e-3, 1.5138625e-3, 1.4572752e-3, 1.5007428e-3, 1.7599082e-3],
    [4.3472961e-2, 4.6729510e-2, 4.3908931e-2, 4.4626982e-2, 5.4736038e-2],
])  # fmt: skip
_HEIGHT = (2.53e-5, 5.49e-3, 1.14e-3)
"""Niell 1996, tables 3 and 4: coefficients a, b, c by latitude, their annual amplitudes, and those for height."""


def continued_fraction(sine: ArrayLike, a: ArrayLike, b: ArrayLike, c: ArrayLike) -> Floats:
    """(1 + a/(1 + b/(1 + c))) / (s + a/(s + b/(s + c))): slant over zenith delay, 1 at the zenith (Herring 1992)."""
    s, a, b, c = _array(sine), _array(a), _array(b), _array(c)
    return np.asarray((1.0 + a / (1.0 + b / (1.0 + c))) / (s + a / (s + b / (s + c))))


def niell(latitude: ArrayLike, height_m: ArrayLike, elevation: ArrayLike, day_of_year: float) -> tuple[Floats, Floats]:
    """Slant over zenith delay, hydrostatic and wet (Niell 1996, J. Geophys. Res. 101, 3227), elevations of 3 to 90
    deg."""
    latitude = _array(latitude)
    sine = np.sin(_array(elevation))
    degrees = np.degrees(np.abs(latitude))
    season = (day_of_year - 28.0) / 365.25 + np.where(latitude < 0, 0.5, 0.0)
    swing = np.cos(2.0 * np.pi * season)
    dry = [
        np.interp(degrees, _LATITUDES, mean) - np.interp(degrees, _LATITUDES, part) * swing
        for mean, part in zip(_DRY, _DRY_SEASON, strict=True)
    ]
    wet = [np.interp(degrees, _LATITUDES, row) for row in _WET]
    higher = (1.0 / sine - continued_fraction(sine, *_HEIGHT)) * _array(height_m) / 1000.0
    return continued_fraction(sine, *dry) + higher, continued_fraction(sine, *wet)
