"""GNSS receiver: motion -> satellites -> signal paths -> tracking loops -> ranges -> fix."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any, Literal

import numpy as np

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.deprecation import keyword_only
from parhelion.core.errors import ConfigError
from parhelion.core.gps_time import GpsTime, moment
from parhelion.core.pose import Floats, Pose
from parhelion.core.streams import FIX, NO_FIX, GnssData, joined
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.motion.state import at_mount, state_of
from parhelion.sensors.base import StreamSensor
from parhelion.sensors.kinds import presets
from parhelion.sensors.sheets import load_sheet
from parhelion.sensors.waves.gnss.config import GnssConfig
from parhelion.sensors.waves.gnss.earth import AirAtHeight, Place, geodetic
from parhelion.sensors.waves.gnss.fix import Fix, fixes
from parhelion.sensors.waves.gnss.observe import Observed, Sky, geometry, observe
from parhelion.sensors.waves.gnss.paths import find_paths
from parhelion.sensors.waves.gnss.rinex_nav import Navigation, check_covers, read_navigation
from parhelion.sensors.waves.gnss.rtk import rtk_fixes
from parhelion.sensors.waves.gnss.satellites import SYSTEMS, band_of, channel_of, nominal
from parhelion.sensors.waves.gnss.skyline import skyline_of
from parhelion.sensors.waves.radio import satellite_scene
from parhelion.world.world import World

DEFAULT_PLACE = (50.0, 10.0)
"""Default latitude and longitude [deg]: northern mid-latitudes."""
DEFAULT_EPOCH = "2024-06-21T12:00:00+00:00"
BLOCK = 500
"""Number of epochs that are measured together; it limits the memory of a long run to about 200 MB."""
Rule = Literal["physics", "vane"]
_MEASURED = ("cn0", "pseudorange", "carrier", "doppler")
"""Columns that each band of a receiver reports."""


class Gnss(StreamSensor[GnssConfig, GnssData]):
    """A GNSS receiver with its antenna; the antenna's boresight is the z axis of the mount.

        >>> from parhelion import Gnss, Pose, World
        >>> gnss = Gnss("u-blox/f9p", latitude_deg=41.39, longitude_deg=2.17)
        >>> fixes = gnss.run(World(), Pose(), duration=1.0, seed=7)
        >>> len(fixes), bool((fixes.mode > 0).all())
        (5, True)

    Place and x axis default to those of `world.origin`, then of the daylight of the world; time to its daylight.

    Args:
        model: Preset name, YAML file or `GnssConfig`.
        name: Name that distinguishes the receiver from others of its model; each name has its own noise.
        rate_hz: Fixes per second; by default that of the data sheet.
        noise: False removes all random errors; blockage, multipath and foliage remain.
        latitude_deg: Latitude of the origin of the world.
        longitude_deg: Longitude of the origin of the world.
        altitude_m: Altitude of the origin of the world above the ellipsoid [m]; by default of `world.origin`, or 0.
        x_azimuth_deg: Azimuth of the x axis of the world; 90 is east.
        epoch: Time 0 of the world, as an ISO 8601 string or a datetime.
        ephemeris: RINEX navigation file with the satellites; by default the nominal constellations.
        constellations: Constellations to use, of gps, galileo, glonass and beidou; by default those of the sheet.
        order: Largest number of reflections on the path of a signal, 0 to 2.
        rule: "physics", or "vane" for the simplified rules of VANE for multipath, delays and weights.
        diffraction: True adds signals that are diffracted around the edges of what blocks them.
        skyline: True continues the buildings of the world beyond its edge, where they shadow low satellites.
        rtk_baseline_km: Distance to the base station [km] for real-time kinematics; None for no corrections.
    """

    kind = "gnss"

    @keyword_only("rate_hz", "noise")
    def __init__(
        self,
        model: str | PathLike[str] | GnssConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
        latitude_deg: float | None = None,
        longitude_deg: float | None = None,
        altitude_m: float | None = None,
        x_azimuth_deg: float | None = None,
        epoch: str | datetime | None = None,
        ephemeris: str | PathLike[str] | None = None,
        constellations: Sequence[str] | None = None,
        order: int = 2,
        rule: Rule = "physics",
        diffraction: bool = True,
        skyline: bool = True,
        rtk_baseline_km: float | None = None,
    ) -> None:
        super().__init__(*self._opened(GnssConfig, model), name=name, rate_hz=rate_hz, noise=noise)
        if order not in (0, 1, 2):
            raise ConfigError(f"order: must be 0, 1 or 2 mirrors, got {order!r}")
        if rule not in ("physics", "vane"):
            raise ConfigError(f"rule: must be physics or vane, got {rule!r}")
        if (latitude_deg is None) != (longitude_deg is None):
            raise ConfigError("latitude_deg: give it together with longitude_deg, or neither")
        if not isinstance(diffraction, bool):
            raise ConfigError(f"diffraction: must be true or false, got {diffraction!r}")
        if not isinstance(skyline, bool):
            raise ConfigError(f"skyline: must be true or false, got {skyline!r}")
        self.order, self.rule, self.diffraction, self.skyline = order, rule, diffraction, skyline
        self.rtk_baseline_km = self._baseline(rtk_baseline_km)
        self._latitude, self._longitude = latitude_deg, longitude_deg
        self._altitude, self._azimuth = None if altitude_m is None else float(altitude_m), x_azimuth_deg
        self._epoch = None if epoch is None else GpsTime.of(moment(epoch))
        self.constellations = tuple(self.config.constellations if constellations is None else constellations)
        for system in self.constellations:
            if system not in SYSTEMS:
                raise ConfigError(f"constellations: must be of {', '.join(SYSTEMS)}, got {system!r}")
        self._file = None if ephemeris is None else Path(ephemeris)
        self._navigation: Navigation | None = None if self._file is None else read_navigation(self._file)
        self._skies: dict[Any, Sky] = {}
        self._no_epochs: dict[Any, GnssData] = {}
        if self._navigation is not None and self._epoch is not None:
            check_covers(self._navigation, self._epoch, str(self._file))
        self.place_in(World())  # rejects an invalid place

    def _baseline(self, distance_km: float | None) -> float | None:
        if distance_km is None:
            return None
        if self.config.rtk is None:
            able = [name for name in presets("gnss") if load_sheet("gnss", GnssConfig, name).rtk is not None]
            raise ConfigError(f"rtk_baseline_km: {self.model} has no RTK; use one of {', '.join(able)}")
        if not (isinstance(distance_km, (int, float)) and 0.0 <= distance_km <= 1000.0):
            raise ConfigError(f"rtk_baseline_km: must be from 0 to 1000 km, got {distance_km!r}")
        return float(distance_km)

    # ---- time and place --------------------------------------------------------------------------------------------

    def place_in(self, world: World) -> Place:
        """Location of a world on Earth."""
        light, origin = world.daylight, world.origin
        latitude, longitude, altitude = self._latitude, self._longitude, self._altitude
        if latitude is None or longitude is None:
            latitude, longitude = DEFAULT_PLACE
            if origin is not None:
                latitude, longitude = origin.latitude_deg, origin.longitude_deg
                altitude = origin.altitude_m if altitude is None else altitude
            elif light is not None and light.latitude_deg is not None and light.longitude_deg is not None:
                latitude, longitude = light.latitude_deg, light.longitude_deg
        azimuth = self._azimuth
        if azimuth is None:
            azimuth = origin.x_azimuth_deg if origin is not None else 90.0 if light is None else light.x_azimuth_deg
        return Place(float(latitude), float(longitude), 0.0 if altitude is None else altitude, float(azimuth))

    def epoch_in(self, world: World) -> GpsTime:
        """GPS time of the world's time 0: as given, else from the daylight, the middle of the file, or the default."""
        if self._epoch is not None:
            return self._epoch
        light = world.daylight
        if light is not None and light.time is not None:
            return GpsTime.of(moment(light.time))
        if self._navigation is not None:
            middle = float(np.median(self._navigation.ephemerides.toe))
            return GpsTime(self._navigation.start.week, self._navigation.start.second + middle)
        return GpsTime.of(moment(DEFAULT_EPOCH))

    def sky(self, world: World) -> Sky:
        """The satellites over a world."""
        place, epoch = self.place_in(world), self.epoch_in(world)
        if (place, epoch) not in self._skies:
            self._skies = {(place, epoch): self._build_sky(place, epoch)}
        return self._skies[place, epoch]

    def _build_sky(self, place: Place, epoch: GpsTime) -> Sky:
        from parhelion.sensors.waves.gnss.earth import DEFAULT_KLOBUCHAR

        if self._navigation is None:
            return Sky(nominal(self.constellations, epoch), place, epoch, DEFAULT_KLOBUCHAR)
        check_covers(self._navigation, epoch, str(self._file))
        # Times of the sky and of the file both count from the start of the file's first week.
        counted = GpsTime(self._navigation.start.week, epoch.since(self._navigation.start))
        eph = self._navigation.ephemerides
        letters = [SYSTEMS[one] for one in self.constellations]
        chosen = eph.rows(np.isin(eph.satellite.astype("U1"), letters))
        if not len(chosen):
            raise ConfigError(f"{self._file}: has no satellites of {', '.join(self.constellations)}")
        return Sky(chosen, place, counted, self._navigation.klobuchar or DEFAULT_KLOBUCHAR)

    def save_navigation(self, world: World, path: str | PathLike[str]) -> None:
        """Write the satellites over a world as a RINEX navigation file, without GLONASS.

        For a nominal constellation, the file holds one set of ephemerides; programs use it for two hours.
        """
        from parhelion.sensors.waves.gnss.rinex_nav import write_navigation

        sky = self.sky(world)
        write_navigation(path, sky.ephemerides, GpsTime(sky.epoch.week, 0.0), sky.klobuchar)

    # ---- measuring -------------------------------------------------------------------------------------------------

    def _samples(
        self, world: World, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None
    ) -> GnssData:
        blocks = range(first, first + count, BLOCK)
        return joined(
            [
                self._measured(world, motion, start, min(BLOCK, first + count - start), seed, mount, world)
                for start in blocks
            ]
        )

    def _empty(self, world: World, seed: int) -> GnssData:
        # One epoch in an empty world has the same satellites; it is measured once.
        key = (self.place_in(world), self.epoch_in(world), seed)
        if key not in self._no_epochs:
            one = self._measured(World(), Fixed(Pose()), 0, 1, seed, None, world)
            self._no_epochs = {key: one.select(slice(0, 0))}
        return self._no_epochs[key]

    def _measured(
        self, world: World, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None, sky_world: World
    ) -> GnssData:
        """Measure with the satellites over `sky_world` and the obstacles of `world`."""
        # Carrier lock depends on the samples before the first one.
        lock = 0 if self.rtk_baseline_km is None or self.config.rtk is None else self.config.rtk.lock_time_s
        before = min(max(first, 0), int(np.ceil(lock * self.rate_hz)))
        numbers = np.arange(first - before, first + count, dtype=np.int64)
        times = numbers / self.rate_hz
        sky, radio = self.sky(sky_world), satellite_scene(world, self.visibility_keys)
        state = state_of(motion, times) if mount is None else at_mount(state_of(motion, times), mount)
        if self.rule == "vane":
            from parhelion.sensors.waves.gnss.vane import observe_by_vane_rules

            found, rules = observe_by_vane_rules(self.config, sky, radio, state.xyz, state.velocity, times)
        else:
            found = observe(
                self.config,
                sky,
                radio,
                state.xyz,
                state.velocity,
                state.quat_xyzw,
                numbers,
                times,
                seed,
                self._streams,
                order=self.order,
                noise=self.noise,
                diffraction=self.diffraction,
                skyline=skyline_of(world, self.visibility_keys) if self.skyline else None,
                weather=AirAtHeight.of(world.weather, sky.place.altitude_m),
                jammed_db=self._jammed_db(state.xyz, times),
            )
            rules = self.config.fix
        self._warn(found, times, state.xyz)
        solved = fixes(found, sky, rules, self.config.bands)
        if self.rtk_baseline_km is not None:
            solved = rtk_fixes(
                found,
                sky,
                self.config,
                solved,
                sky.place.to_ecef(state.xyz),
                self.rtk_baseline_km,
                times,
                seed,
                self._streams,
                self.noise,
            )
        record = self._spoofed(self._record(found, solved, sky, times, state.xyz, seed), sky.place)
        return record.select(slice(before, None)) if before else record

    def _jammed_db(self, xyz: Floats, times: Floats) -> Floats | None:
        jamming = None if self.faults is None else self.faults.jamming
        return None if jamming is None else jamming.loss_db(xyz, times)

    def _spoofed(self, record: GnssData, place: Place) -> GnssData:
        """Fixes and ranges of the false position of a spoofer."""
        spoofing = None if self.faults is None else self.faults.spoofing
        if spoofing is None or not spoofing.active(record.time).any():
            return record
        away, speed = spoofing.moved(record.time)
        position = record.position + away
        latitude, longitude, altitude = geodetic(place.to_ecef(position))
        # Towards each satellite, in the axes of the world: azimuth is clockwise from north.
        turn = np.radians(place.x_azimuth_deg) - record.azimuth
        level = np.cos(record.elevation)
        toward = np.stack([level * np.cos(turn), level * np.sin(turn), np.sin(record.elevation)], axis=2)
        longer_m = -np.sum(toward * away[:, None], axis=2)
        faster_m_s = -np.sum(toward * speed[:, None], axis=2)
        ranges = {}
        for ending, band in zip(("", "_2"), self.config.bands, strict=False):
            wavelength = band_of(band, record.satellites, self.config.single_band).wavelength_m
            ranges[f"pseudorange{ending}"] = getattr(record, f"pseudorange{ending}") + longer_m
            ranges[f"carrier{ending}"] = getattr(record, f"carrier{ending}") + longer_m / wavelength
            ranges[f"doppler{ending}"] = getattr(record, f"doppler{ending}") - faster_m_s / wavelength
        return replace(
            record,
            position=position,
            velocity=record.velocity + speed,
            latitude=latitude,
            longitude=longitude,
            altitude=altitude,
            **ranges,
        )

    def _warn(self, found: Observed, times: Floats, xyz: Floats) -> None:
        inside = np.flatnonzero(found.sight.enclosed)
        if len(inside):
            k = int(inside[0])
            warnings.warn(f"{self.label}: at {times[k]:g} s {_enclosed(xyz[k])} and its trajectory", stacklevel=5)

    def _check(self, world: World, place: Floats | None, time: float) -> None:
        if place is not None:
            nothing = np.zeros((1, 0), bool)
            radio = satellite_scene(world, self.visibility_keys)
            if find_paths(radio, place[None], np.full(1, time), np.zeros((1, 0, 3)), nothing, 0).enclosed[0]:
                raise ConfigError(f"{self.label}: {_enclosed(place)}")
        sky, mask, least = self.sky(world), self.config.fix.elevation_mask_deg, self.config.fix.least_satellites
        seen = geometry(sky, sky.place.to_ecef(np.zeros((1, 3))), np.array([sky.epoch.second + time]))
        up = int(np.sum(np.nan_to_num(seen.elevation, nan=-1.0) > np.radians(mask)))
        if up < least:
            warnings.warn(
                f"{self.label}: at {time:g} s the sky has {up} of the {least} satellites that a fix needs "
                f"({', '.join(self.constellations)}; more than {mask:g} degrees above the horizon)",
                stacklevel=3,
            )

    def _record(
        self, found: Observed, solved: list[Fix | None], sky: Sky, times: Floats, xyz: Floats, seed: int
    ) -> GnssData:
        n, s = found.seen.range_m.shape
        ecef, speed = np.full((n, 3), np.nan), np.full((n, 3), np.nan)
        covariance, dop = np.full((n, 3, 3), np.nan), np.full((n, 4), np.nan)
        bias, drift, residual = np.full(n, np.nan), np.full(n, np.nan), np.full((n, s), np.nan)
        mode, consistent, used = np.full(n, NO_FIX), np.zeros(n, np.int64), np.zeros((n, s), np.int64)
        quality = np.zeros(n, np.int64)
        for k, fix in enumerate(solved):
            if fix is None:
                continue
            ecef[k], speed[k], dop[k] = fix.xyz, fix.velocity, fix.dop
            covariance[k] = sky.place.axes.T @ fix.covariance @ sky.place.axes
            bias[k], drift[k] = fix.clock_m / SPEED_OF_LIGHT_M_S, fix.drift_m_s / SPEED_OF_LIGHT_M_S
            mode[k], consistent[k], quality[k] = FIX, int(fix.consistent), fix.quality
            used[k, fix.used], residual[k, fix.used] = 1, fix.residual
        latitude, longitude, altitude = geodetic(ecef)
        first = found.bands[0]
        second = {f"{name}_2": getattr(band, name) for band in found.bands[1:] for name in _MEASURED}
        return GnssData(
            time=times,
            satellites=sky.satellites,
            receiver_time=found.seconds,
            mode=mode,
            position=sky.place.to_world(ecef),
            velocity=sky.place.rotate_to_world(speed),
            position_covariance=covariance,
            latitude=latitude,
            longitude=longitude,
            altitude=altitude,
            dop=dop,
            consistent=consistent,
            clock_bias=bias,
            clock_drift=drift,
            azimuth=found.seen.azimuth,
            elevation=found.seen.elevation,
            status=found.received.status,
            used=used,
            cn0=first.cn0,
            pseudorange=first.pseudorange,
            carrier=first.carrier,
            doppler=first.doppler,
            residual=residual,
            true_position=xyz,
            quality=quality,
            metadata=self._metadata(sky, seed),
            **second,
        )

    def _metadata(self, sky: Sky, seed: int) -> dict[str, Any]:
        place = sky.place
        return {
            "sensor": self.model,
            "seed": int(seed),
            "rate_hz": self.rate_hz,
            "bands": tuple(self.config.bands),
            "gps_week": sky.epoch.week,
            "gps_second": sky.epoch.second,
            "latitude_deg": place.latitude_deg,
            "longitude_deg": place.longitude_deg,
            "altitude_m": place.altitude_m,
            "x_azimuth_deg": place.x_azimuth_deg,
            "glonass_channels": {name: channel_of(name) for name in sky.satellites if name[0] == "R"},
        }

    def __repr__(self) -> str:
        return f"<Gnss {self.model}: {self.rate_hz:g} Hz, {' and '.join(self.config.bands)}>"


def _enclosed(xyz: Floats) -> str:
    where = ", ".join(f"{value:.2f}" for value in xyz)
    return (
        f"the antenna at ({where}) m is inside a solid object: it sees back faces only, so it has no fix there; "
        "check its mount"
    )
