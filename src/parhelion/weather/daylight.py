"""Sun and sky of a scene: position and distance of the sun, haze and cloud.

Angles are compass angles: azimuth clockwise from north, elevation above the horizon. The world frame is x east,
y north, z up, unless `x_azimuth_deg` gives another direction of the x axis.
"""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, MissingDependencyError

DEFAULT_TURBIDITY = 3.0
"""Turbidity of clear air (Preetham, Shirley and Smits 1999)."""
DEFAULT_ELEVATION_DEG, DEFAULT_AZIMUTH_DEG = 45.0, 150.0

Degrees = Annotated[float, Field(ge=-360, le=360)]


class Daylight(Config):
    """Sun and sky of a scene. Set time and place, or the sun's elevation and azimuth.

    >>> ph.Daylight(sun_elevation_deg=30, sun_azimuth_deg=200).sun_elevation_deg
    30.0
    """

    time: str | None = None
    """Date and time of the scene's time 0: ISO 8601 with time zone, as 2024-06-21T12:00:00+02:00. Needs pvlib.
    """
    latitude_deg: Annotated[float, Field(ge=-90, le=90)] | None = None
    longitude_deg: Annotated[float, Field(ge=-180, le=180)] | None = None
    sun_elevation_deg: Annotated[float, Field(ge=-90, le=90)] | None = None
    """Elevation of the sun; negative for twilight and night. Default 45."""
    sun_azimuth_deg: Degrees | None = None
    """Azimuth of the sun, clockwise from north. Default 150."""
    turbidity: Annotated[float, Field(ge=1, le=10)] = DEFAULT_TURBIDITY
    """Haze of the whole atmosphere: 2 arctic, 3 clear, 6 hazy, 10 thick."""
    cloud_optical_depth: Annotated[float, Field(ge=0, le=1000)] = 0.0
    """Optical depth of a uniform cloud layer: 0 none, 1 veil, 10 overcast, 50 dark."""
    ground_albedo: Annotated[float, Field(ge=0, le=1)] = 0.2
    """Albedo of the surrounding ground, for the light reflected between ground and sky."""
    fog_layer_m: Annotated[float, Field(gt=0, le=5000)] = 150.0
    """Thickness of the layer that the weather's fog fills."""
    air_temperature_c: Annotated[float, Field(ge=-60, le=60)] = 15.0
    """Air temperature, for thermal cameras."""
    dew_point_c: Annotated[float, Field(ge=-60, le=40)] = 8.0
    """Dew point, which determines the sky's thermal radiation for thermal cameras."""
    x_azimuth_deg: Degrees = 90.0
    """Compass direction of the world's x axis; 90 is east."""

    @field_validator("time", mode="before")
    @classmethod
    def _with_zone(cls, value: Any) -> Any:
        if value is None:
            return None
        try:
            # YAML parses an unquoted time into a datetime.
            return moment(value).isoformat()
        except ConfigError as error:
            raise ValueError(str(error)) from None

    @model_validator(mode="after")
    def _one_sun(self) -> Daylight:
        place = (self.time, self.latitude_deg, self.longitude_deg)
        angles = (self.sun_elevation_deg, self.sun_azimuth_deg)
        if any(field is not None for field in place):
            if any(field is None for field in place):
                raise ValueError("set time, latitude_deg and longitude_deg together")
            if any(field is not None for field in angles):
                raise ValueError("set time and place, or sun_elevation_deg and sun_azimuth_deg, not both")
        return self

    def sun(self, after_s: float = 0.0) -> NDArray[np.float64]:
        """Unit vector (3,) to the sun in the world frame at a time of the scene [s]; constant if `time` is None."""
        if self.time is None:
            elevation = DEFAULT_ELEVATION_DEG if self.sun_elevation_deg is None else self.sun_elevation_deg
            azimuth = DEFAULT_AZIMUTH_DEG if self.sun_azimuth_deg is None else self.sun_azimuth_deg
        else:
            assert self.latitude_deg is not None  # ensured by the validator
            assert self.longitude_deg is not None
            elevation, azimuth = sun_position(self.time, self.latitude_deg, self.longitude_deg, after_s=after_s)
        return direction(elevation, azimuth, x_azimuth_deg=self.x_azimuth_deg)

    @property
    def distance_factor(self) -> float:
        """Factor on the sun's irradiance by day of the year; 1 if `time` is None."""
        return 1.0 if self.time is None else distance_factor(datetime.fromisoformat(self.time).timetuple().tm_yday)


Floats = NDArray[np.float64]

SUN_HALF_ANGLE_RAD = 4.65e-3
"""Half the angular diameter of the sun at the mean distance (0.533 degrees)."""


def direction(elevation_deg: float, azimuth_deg: float, *, x_azimuth_deg: float = 90.0) -> Floats:
    """Unit vector (3,) in the world frame to a point of the sky."""
    elevation, angle = np.radians(elevation_deg), np.radians(x_azimuth_deg - azimuth_deg)
    level = np.cos(elevation)
    return np.array([level * np.cos(angle), level * np.sin(angle), np.sin(elevation)])


def moment(time: str | datetime) -> datetime:
    """Datetime from ISO 8601 text with a time zone, for example '2024-06-21T12:00:00+02:00' or with Z."""
    if isinstance(time, str):
        text = time.strip()
        try:
            # Python 3.10 does not read the Z.
            time = datetime.fromisoformat(text[:-1] + "+00:00" if text[-1:] in ("Z", "z") else text)
        except ValueError:
            raise ConfigError(f"time must be ISO 8601 such as 2024-06-21T12:00:00+02:00, got {text[:80]!r}") from None
    if not isinstance(time, datetime):
        raise ConfigError(f"time must be text in ISO 8601, got {type(time).__name__}")
    if time.tzinfo is None:
        raise ConfigError(f"time must include a time zone, such as {time.isoformat()}+01:00 or {time.isoformat()}Z")
    return time


def sun_position(
    time: str | datetime, latitude_deg: float, longitude_deg: float, *, after_s: float = 0.0
) -> tuple[float, float]:
    """Elevation and azimuth of the sun [deg], refraction included, `after_s` seconds after a time.

    NREL's SPA (Reda and Andreas 2004, 0.0003 degrees for the years -2000 to 6000) as implemented in pvlib.
    """
    try:
        import pandas
        from pvlib import solarposition
    except ImportError:
        raise MissingDependencyError(
            "the sun's position from time and place needs the package pvlib: pip install 'parhelion[camera]' "
            "(or set sun_elevation_deg and sun_azimuth_deg)"
        ) from None
    at = pandas.DatetimeIndex([moment(time) + timedelta(seconds=after_s)])
    found = solarposition.get_solarposition(at, latitude_deg, longitude_deg)
    return float(found["apparent_elevation"].iloc[0]), float(found["azimuth"].iloc[0])


def distance_factor(day_of_year: float) -> float:
    """Square of mean over actual distance to the sun (Spencer 1971): 1.035 in January, 0.967 in July."""
    angle = 2.0 * np.pi * (day_of_year - 1.0) / 365.0
    first = 0.034221 * np.cos(angle) + 0.00128 * np.sin(angle)
    return float(1.00011 + first + 0.000719 * np.cos(2.0 * angle) + 0.000077 * np.sin(2.0 * angle))
