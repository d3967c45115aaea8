"""Magnetometer: magnetic field -> sensor frame -> soft and hard iron -> noise, saturation and quantisation."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from os import PathLike
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field

from parhelion.core.checks import within
from parhelion.core.config import NonNegative, Positive, SampledSheet
from parhelion.core.deprecation import keyword_only
from parhelion.core.errors import ConfigError
from parhelion.core.noise import digitised, freeze_arrays, normals, rounding_variance, transformed, white
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply, quat_rotate
from parhelion.core.random import Stream
from parhelion.core.streams import MagnetometerData
from parhelion.core.trajectory import Trajectory
from parhelion.sensors.base import StreamSensor
from parhelion.sensors.sheets import PRESETS
from parhelion.world.world import World

COEFFICIENTS = PRESETS / "wmm2025.txt"
FIRST_YEAR, LAST_YEAR = 2025.0, 2030.0

DEFAULT_FIELD_UT = (0.0, 20.0, -45.0)
"""Typical field at northern mid-latitudes [µT], east, north, up: no declination, inclination 66 degrees down."""

_REFERENCE_KM = 6371.2  # radius for which the coefficients are given


@lru_cache(maxsize=1)
def _coefficients() -> Floats:
    """Rows n, m, g, h [nT] and their annual change [nT] of the World Magnetic Model."""
    return np.loadtxt(COEFFICIENTS)


def _legendre(degree: int, sine: float, cosine: float) -> tuple[Floats, Floats]:
    """Schmidt semi-normalised P(n, m) of sin(latitude), and their derivatives by latitude, each (degree + 1)²."""
    p, dp = np.zeros((degree + 1, degree + 1)), np.zeros((degree + 1, degree + 1))
    p[0, 0] = 1.0
    for n in range(1, degree + 1):
        k = 1.0 if n == 1 else math.sqrt(1.0 - 0.5 / n)
        p[n, n] = k * cosine * p[n - 1, n - 1]
        dp[n, n] = k * (cosine * dp[n - 1, n - 1] - sine * p[n - 1, n - 1])
        for m in range(n):
            below = math.sqrt((n - 1.0) ** 2 - m * m) if n > 1 else 0.0
            scale = 1.0 / math.sqrt(n * n - m * m)
            older_p, older_dp = (p[n - 2, m], dp[n - 2, m]) if n > 1 else (0.0, 0.0)
            p[n, m] = scale * ((2 * n - 1) * sine * p[n - 1, m] - below * older_p)
            dp[n, m] = scale * ((2 * n - 1) * (sine * dp[n - 1, m] + cosine * p[n - 1, m]) - below * older_dp)
    return p, dp


def earth_field(
    latitude_deg: float, longitude_deg: float, altitude_m: float = 0.0, year: float = 2025.0, degree: int = 12
) -> Floats:
    """Earth's magnetic field [T] by the World Magnetic Model 2025, east, north and up, shape (3,).

    Geodetic latitude and longitude, height above the ellipsoid from -1 to 850 km, decimal year from 2025 to 2030.
    `degree` 1 is the tilted dipole. Chulliat et al., "The US/UK World Magnetic Model for 2025-2030". The model
    describes the field of the core; rocks, buildings and currents add about 0.1 µT outdoors and much more indoors.
    """
    within("latitude_deg", latitude_deg, -90.0, 90.0)
    within("longitude_deg", longitude_deg, -180.0, 360.0)
    within("altitude_m", altitude_m, -1_000.0, 850_000.0)
    within("year", year, FIRST_YEAR, LAST_YEAR)
    if not (isinstance(degree, int) and 1 <= degree <= 12):
        raise ConfigError(f"degree: must be a whole number from 1 to 12, got {degree!r}")
    from pymap3d import geodetic2ecef

    geodetic, longitude = math.radians(latitude_deg), math.radians(longitude_deg)
    # The distances from the axis and from the equatorial plane are the same at every longitude.
    level, _, along = (float(value) / 1000.0 for value in geodetic2ecef(latitude_deg, 0.0, altitude_m))
    radius, latitude = math.hypot(level, along), math.atan2(along, level)
    # East is undefined at the poles; the limit along the meridian is used.
    sine, cosine = math.sin(latitude), max(math.cos(latitude), 1e-10)

    rows = _coefficients()
    rows = rows[rows[:, 0] <= degree]
    n, m = rows[:, 0].astype(int), rows[:, 1].astype(int)
    g, h = (rows[:, 2:4] + (year - FIRST_YEAR) * rows[:, 4:6]).T
    p, dp = (table[n, m] for table in _legendre(degree, sine, cosine))
    fall = (_REFERENCE_KM / radius) ** (n + 2)
    wave, turned = (
        g * np.cos(m * longitude) + h * np.sin(m * longitude),
        g * np.sin(m * longitude) - h * np.cos(m * longitude),
    )
    north, east = -np.sum(fall * wave * dp), np.sum(fall * m * turned * p) / cosine
    up = np.sum(fall * (n + 1) * wave * p)
    # Rotate from the geocentric to the geodetic vertical.
    tilt = latitude - geodetic
    return 1e-9 * np.array(
        [east, north * math.cos(tilt) + up * math.sin(tilt), up * math.cos(tilt) - north * math.sin(tilt)]
    )


class MagnetometerConfig(SampledSheet):
    """One magnetometer model and the magnetic disturbance of its platform."""

    range_ut: Positive
    """Largest reported field [µT], in both directions."""
    noise_ut: NonNegative = 0.0
    """Standard deviation of one sample [µT]."""
    hard_iron_ut: NonNegative = 0.0
    """Standard deviation per axis [µT] of the hard-iron field, including the sensor's own offset."""
    soft_iron_percent: Annotated[float, Field(ge=0, le=50)] = 0.0
    """Standard deviation [%] of each entry of the soft-iron matrix, including gain errors."""
    resolution_ut: NonNegative = 0.0
    """Step of the reported field [µT]; 0 is continuous."""


@dataclass(frozen=True, eq=False)
class Iron:
    """Magnetic disturbance that moves with the sensor: measured = soft @ field + hard."""

    soft: Floats
    """Soft-iron matrix, symmetric and near the identity, shape (3, 3)."""
    hard: Floats
    """Hard-iron field [T] in the sensor frame, shape (3,)."""

    def __post_init__(self) -> None:
        freeze_arrays(self, "iron", soft=(3, 3), hard=(3,))


class Magnetometer(StreamSensor[MagnetometerConfig, MagnetometerData]):
    """A magnetometer in a field that is uniform over the world.

        >>> from parhelion import Magnetometer, Pose
        >>> compass = Magnetometer("pni/rm3100", latitude_deg=48.1, longitude_deg=11.6, year=2026.0, noise=False)
        >>> data = compass.run(None, Pose(), duration=1.0)
        >>> (1e6 * data.magnetic_field[0]).round(1).tolist()  # east, north, up [uT]
        [1.6, 21.0, -44.0]

    Args:
        model: Preset name, YAML file or `MagnetometerConfig`.
        name: Name that distinguishes the sensor from others of its model; each name has its own noise.
        rate_hz: Samples per second; by default that of the data sheet.
        noise: False gives the true field.
        field_ut: Field [µT] along x, y, z of the world (east, north, up); by default that of northern mid-latitudes.
        latitude_deg: Latitude, for the field of the World Magnetic Model in place of `field_ut`.
        longitude_deg: Longitude, given together with the latitude.
        altitude_m: Altitude above the ellipsoid [m] for that model.
        year: Decimal year for that model, 2025 to 2030.
        iron: Known iron around the sensor, in place of drawn iron.
    """

    kind = "magnetometer"
    uses_world = False
    allow_static = False

    @keyword_only("rate_hz", "noise")
    def __init__(
        self,
        model: str | PathLike[str] | MagnetometerConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
        field_ut: ArrayLike | None = None,
        latitude_deg: float | None = None,
        longitude_deg: float | None = None,
        altitude_m: float = 0.0,
        year: float = 2025.0,
        iron: Iron | None = None,
    ) -> None:
        super().__init__(*self._opened(MagnetometerConfig, model), name=name, rate_hz=rate_hz, noise=noise)
        self._given_iron = iron
        if (latitude_deg is None) != (longitude_deg is None):
            raise ConfigError("latitude_deg: give it together with longitude_deg, or neither")
        if latitude_deg is not None and longitude_deg is not None:
            if field_ut is not None:
                raise ConfigError("field_ut: give it or latitude_deg and longitude_deg, not both")
            self.field = earth_field(latitude_deg, longitude_deg, altitude_m, year)
        else:
            given = np.asarray(DEFAULT_FIELD_UT if field_ut is None else field_ut, dtype=np.float64)
            if given.shape != (3,) or not np.all(np.isfinite(given)):
                raise ConfigError(f"field_ut: must be 3 finite numbers, got {given.tolist()}")
            self.field = 1e-6 * given

    def iron(self, seed: int) -> Iron:
        """Disturbance that a seed represents: the truth for a calibration."""
        if self._given_iron is not None:
            return self._given_iron
        draws = normals(Stream(seed, self._streams + "/iron"), np.arange(3, dtype=np.int64))
        # The matrix of induced magnetism is symmetric. The mean of two draws is scaled to the spread of one.
        share = self.config.soft_iron_percent / 100.0
        both = (draws[:, :3] + draws[:, :3].T) * np.where(np.eye(3, dtype=bool), 0.5, math.sqrt(0.5))
        return Iron(np.eye(3) + share * both, self.config.hard_iron_ut * 1e-6 * draws[:, 3])

    def _samples(
        self, world: World | None, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None
    ) -> MagnetometerData:
        times = np.arange(first, first + count, dtype=np.int64) / self.rate_hz
        _, quat = motion.sample(times)
        if mount is not None:
            quat = quat_multiply(quat, mount.quat_xyzw)
        field, covariance = quat_rotate(quat_conjugate(quat), self.field), np.zeros((3, 3))
        if self.noise:
            sheet, iron = self.config, self.iron(seed)
            noise = sheet.noise_ut * 1e-6 * white(seed, self._streams + "/noise", first, count)[:, :3]
            disturbed = transformed(iron.soft, field) + iron.hard + noise
            field = digitised(disturbed, sheet.range_ut * 1e-6, sheet.resolution_ut * 1e-6)
            covariance = 1e-12 * np.eye(3) * (sheet.noise_ut**2 + rounding_variance(sheet.resolution_ut))
        return MagnetometerData(
            times, field, covariance, metadata={"sensor": self.model, "seed": int(seed), "rate_hz": self.rate_hz}
        )
