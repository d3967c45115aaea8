"""VANE's simplified rules for GPS (ERDC/GSL TR-20-32, chapter 3), an alternative to the physical model.

A visible satellite has its true range. A blocked satellite is received by way of a surface: 100 evenly distributed rays
over the hemisphere, hits within 45 m, and an unobstructed ray from the hit to the satellite. The range error is the
distance to the surface (the nearest such surface here; VANE does not specify which). Atmospheric and ephemeris delays
are added and not corrected. The fix uses equal weights. Misprints of the report are corrected: the root of eq. 3.8
covers two terms, eq. 3.9 is the standard continued fraction, eq. 3.12 has a cosine, and eq. 3.16 gives metres for
hectopascals.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.geometry import fibonacci_sphere
from parhelion.core.pose import Floats
from parhelion.core.streams import ABSENT, BLOCKED, DIRECT, REFLECTED
from parhelion.rays.records import Rays
from parhelion.sensors.waves.gnss import earth
from parhelion.sensors.waves.gnss.config import FixConfig, GnssConfig
from parhelion.sensors.waves.gnss.observe import Observed, RangeErrors, Ranges, Sky, geometry, range_rate
from parhelion.sensors.waves.gnss.paths import FAR_M, find_paths
from parhelion.sensors.waves.gnss.reception import TrackedSignals
from parhelion.sensors.waves.gnss.satellites import band_of
from parhelion.sensors.waves.radio import SatelliteScene

RAYS, REACH_M = 100, 45.0
HEIGHT_200_M = 11_836.0
"""Height of the 200 hPa level for VANE's eq. 3.10: the mean stated in the report."""
FIX = FixConfig(
    elevation_mask_deg=0.0, weights="equal", sigma_m=1.0, ionosphere="none", troposphere="none", exclude=False
)


def wet_delay(latitude_deg: Floats, elevation: Floats) -> Floats:
    """Wet delay [m], eqs. 3.9 to 3.15: 0.1 m at the zenith times a mapping by the height of the 200 hPa level."""

    def wave(zero: float) -> Floats:
        return np.asarray(np.cos(2.0 * np.radians(latitude_deg - zero)))

    reference = 11_836.0 + 619.0 * wave(3.0)
    a = 0.00124 + 4.0e-5 * wave(2.0) + (7.4e-8 - 1.6e-8 * wave(0.0)) * (HEIGHT_200_M - reference)
    c = 0.0634 + 0.0014 * wave(0.0)
    return np.asarray(0.1 * earth.continued_fraction(np.sin(elevation), a, 0.002905, c))


def ephemeris_error(latitude_deg: Floats, range_m: Floats) -> Floats:
    """Error of the ephemeris [m], eq. 3.17 as printed."""
    power = 10.0 ** (2.0 * 2.655e7 / range_m)
    return np.sqrt((1.0 + 0.5 * np.sin(np.radians(latitude_deg))) * power + SPEED_OF_LIGHT_M_S**2 * 1e-18 + 0.0918)


def observe_by_vane_rules(
    config: GnssConfig, sky: Sky, scene: SatelliteScene, xyz: Floats, velocity: Floats, times: Floats
) -> tuple[Observed, FixConfig]:
    """Observations by VANE's rules, and the settings of the fix. The result is deterministic."""
    seconds, ecef = sky.epoch.second + times, sky.place.to_ecef(xyz)
    seen = geometry(sky, ecef, seconds)
    above = np.nan_to_num(seen.elevation, nan=-1.0) > 0.0
    toward = np.nan_to_num(sky.place.rotate_to_world(seen.toward))
    sight = find_paths(scene, xyz, times, toward, above, 0)
    detour = _detour(scene, xyz, times, toward, above & ~sight.clear)
    lat, height = np.degrees(seen.local.latitude)[:, None], seen.local.height_m[:, None]
    up = np.maximum(np.nan_to_num(seen.elevation, nan=1.0), np.radians(1.0))
    pressure = 1013.25 * (1.0 - 2.2557e-5 * np.maximum(height, 0.0)) ** 5.2568
    wrong = (
        earth.thin_shell(up)
        + wet_delay(lat, up)
        + earth.saastamoinen_dry(pressure, np.radians(lat), height)
        + ephemeris_error(lat, seen.range_m)
    )
    got = np.where(sight.clear, 0.0, detour)
    row = np.where(seen.row >= 0, seen.row, 0)
    clock = SPEED_OF_LIGHT_M_S * (seen.state.clock - sky.ephemerides.tgd[row])
    ranges = seen.range_m + wrong + got - clock
    bands, nothing = [], np.zeros(len(times))
    moving = sky.place.rotate_to_ecef(velocity)
    rate = range_rate(seen, moving, seen.toward) - SPEED_OF_LIGHT_M_S * seen.state.clock_rate
    level = np.where(np.isfinite(got), config.cn0_zenith_dbhz, np.nan)
    for band in config.bands:
        wavelength = band_of(band, sky.satellites).wavelength_m
        has = np.where(np.isfinite(got), 0.0, np.nan)
        doppler = np.where(np.isnan(has), np.nan, -rate / wavelength)
        bands.append(Ranges(level, ranges + 0.0 * wavelength, ranges / wavelength, doppler, got, got))
    status = np.where(sight.clear, DIRECT, np.where(np.isfinite(got), REFLECTED, BLOCKED))
    status = np.where(above, status, ABSENT)
    tracked = TrackedSignals(level, got, got, seen.toward, status)
    none = RangeErrors(np.zeros(above.shape), nothing[:, None], nothing[:, None], nothing, nothing)
    return Observed(seen, sight, tracked, bands, none, seconds), FIX


def _detour(scene: SatelliteScene, xyz: Floats, times: Floats, toward: Floats, wanted: NDArray[np.bool_]) -> Floats:
    """Distance [m] to the nearest surface with a view of a blocked satellite, shape (n, s); NaN for none."""
    rays = fibonacci_sphere(2 * RAYS)[:RAYS]
    found = np.full(wanted.shape, np.nan)
    for k in range(len(times)):
        if not np.any(wanted[k]):
            continue
        place = np.broadcast_to(xyz[k], rays.shape)
        hits = scene.cast(Rays(place, rays, np.full(RAYS, times[k]), np.full(RAYS, REACH_M)))
        near = np.flatnonzero(hits.found)
        satellites = np.flatnonzero(wanted[k])
        if not len(near):
            continue
        points = xyz[k] + hits.range[near, None] * rays[near] + 0.01 * _facing(hits.normal[near], rays[near])
        origin = np.repeat(points, len(satellites), axis=0)
        direction = np.tile(toward[k, satellites], (len(near), 1))
        count = len(origin)
        met = scene.is_blocked(Rays(origin, direction, np.full(count, times[k]), np.full(count, FAR_M)))
        free = ~met.reshape(len(near), len(satellites))
        distance = np.where(free, hits.range[near, None], np.inf).min(axis=0)
        found[k, satellites] = np.where(np.isfinite(distance), distance, np.nan)
    return found


def _facing(normal: Floats, direction: Floats) -> Floats:
    return np.where(np.sum(normal * direction, axis=1, keepdims=True) > 0, -normal, normal)
