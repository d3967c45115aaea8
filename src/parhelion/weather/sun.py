"""Where the sun stands, and how far it is.

Angles are compass angles: azimuth clockwise from north, elevation above the horizon. The world's frame is x east,
y north, z up unless `x_azimuth_deg` says where else its x axis points.
"""

from __future__ import annotations

from datetime import datetime, timedelta

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, MissingDependencyError

Floats = NDArray[np.float64]

SUN_HALF_ANGLE_RAD = 4.65e-3
"""Half of the angle that the sun's disc fills, at the mean distance (0.533 degrees across)."""


def direction(elevation_deg: float, azimuth_deg: float, *, x_azimuth_deg: float = 90.0) -> Floats:
    """Unit vector (3,) in the world's frame to a point of the sky."""
    elevation, angle = np.radians(elevation_deg), np.radians(x_azimuth_deg - azimuth_deg)
    level = np.cos(elevation)
    return np.array([level * np.cos(angle), level * np.sin(angle), np.sin(elevation)])


def moment(time: str | datetime) -> datetime:
    """A time from ISO 8601, with its zone: '2024-06-21T12:00:00+02:00', or with Z."""
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
        raise ConfigError(f"time must say its zone, such as {time.isoformat()}+01:00 or {time.isoformat()}Z")
    return time


def sun_position(
    time: str | datetime, latitude_deg: float, longitude_deg: float, *, after_s: float = 0.0
) -> tuple[float, float]:
    """Elevation and azimuth of the sun [deg], refraction included, `after_s` seconds after a time.

    By NREL's SPA (Reda and Andreas 2004, 0.0003 degrees for the years -2000 to 6000) in pvlib, which it needs.
    """
    try:
        import pandas
        from pvlib import solarposition
    except ImportError:
        raise MissingDependencyError(
            "the sun's place from time and place needs the package pvlib: pip install 'parhelion[camera]' "
            "(or give its elevation and azimuth)"
        ) from None
    at = pandas.DatetimeIndex([moment(time) + timedelta(seconds=after_s)])
    found = solarposition.get_solarposition(at, latitude_deg, longitude_deg)
    return float(found["apparent_elevation"].iloc[0]), float(found["azimuth"].iloc[0])


def distance_factor(day_of_year: float) -> float:
    """Square of the mean over the actual distance to the sun, by Spencer 1971: 1.035 in January, 0.967 in July."""
    angle = 2.0 * np.pi * (day_of_year - 1.0) / 365.0
    first = 0.034221 * np.cos(angle) + 0.00128 * np.sin(angle)
    return float(1.00011 + first + 0.000719 * np.cos(2.0 * angle) + 0.000077 * np.sin(2.0 * angle))
