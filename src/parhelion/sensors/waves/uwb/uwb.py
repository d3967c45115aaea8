"""Ranging radio: tag and anchors -> paths -> impulse response -> first path -> noise, bias -> ranges -> position."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from os import PathLike
from typing import Any
from weakref import WeakKeyDictionary

import numpy as np

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.deprecation import keyword_only
from parhelion.core.errors import ConfigError
from parhelion.core.noise import normals, white
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.core.random import Stream
from parhelion.core.streams import UwbData
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.sensors.base import StreamSensor
from parhelion.sensors.waves.radio import HOUSING, Polarisation, RadioScene, Wave, housings, radio_scene
from parhelion.sensors.waves.uwb.channel import (
    TAPS,
    Links,
    Rooms,
    arrival_sigma_m,
    distance_by_rssi,
    impulse_responses,
    level_bias_m,
    links_of,
    response_noise_dbm,
    rooms_at,
    saturated,
    sent_dbm,
    shadowing,
    with_diffuse,
)
from parhelion.sensors.waves.uwb.config import CHANNELS, UwbConfig
from parhelion.sensors.waves.uwb.paths import RadioPaths, find_paths, mirror_finder
from parhelion.sensors.waves.uwb.solve import Fixes, can_locate, check_layout, locate
from parhelion.sensors.waves.uwb.walls import wall_around
from parhelion.world.world import World

# ---- Anchors: given by the user, or part of the world ---------------------------------------------------------------


MOST_ANCHORS = 1000


@dataclass(frozen=True, eq=False)
class Anchors:
    """Names and positions of anchors."""

    names: tuple[str, ...]
    xyz: Floats
    """Positions in the world [m], shape (a, 3)."""

    def __len__(self) -> int:
        return len(self.names)


def given_anchors(value: Any) -> Anchors:
    """Anchors from user input: a mapping of names to positions, a list of positions, or an array (a, 3)."""
    if isinstance(value, Anchors):
        return value
    if isinstance(value, Mapping):
        names, places = tuple(str(name) for name in value), list(value.values())
    elif isinstance(value, (Sequence, np.ndarray)) and not isinstance(value, str):
        places = list(value)
        names = tuple(f"anchor-{k}" for k in range(len(places)))
    else:
        raise ConfigError(f"anchors: give positions by name, or a list of positions, got {type(value).__name__}")
    if not places:
        raise ConfigError("anchors: the list is empty; give at least one position")
    if len(places) > MOST_ANCHORS:
        raise ConfigError(f"anchors: {len(places)} are more than {MOST_ANCHORS}")
    for name, place in zip(names, places, strict=True):
        try:
            point = np.asarray(place, dtype=np.float64)
        except (TypeError, ValueError):
            point = np.zeros(0)
        if point.shape != (3,) or not np.all(np.isfinite(point)):
            raise ConfigError(f"anchors: {name}: must be three finite coordinates in m, got {place!r}")
    found = np.array([np.asarray(place, dtype=np.float64) for place in places])
    if len(found) > 1 and np.ptp(found, axis=0).max() < 1e-3:
        raise ConfigError(f"anchors: all {len(found)} are at one place, so ranges to them give no position")
    return Anchors(names, found)


def anchors_of(world: World) -> Anchors:
    """Anchors among the objects of a world; an empty world has none."""
    found = housings(world)
    if not found and world.objects:
        raise ConfigError(
            f"anchors: none given, and the world has no objects whose names begin with {HOUSING!r}; pass anchors=..."
        )
    return Anchors(tuple(found), np.array(list(found.values())).reshape(-1, 3))


def check_places(radio: RadioScene, anchors: Anchors) -> None:
    """Raise ConfigError if an anchor is inside a wall."""
    for name, place in zip(anchors.names, anchors.xyz, strict=True):
        wall = wall_around(radio, place)
        if wall is not None:
            at = ", ".join(f"{value:g}" for value in place)
            raise ConfigError(f"anchors: {name} at ({at}) m is inside {wall!r}; move it out of the wall")


# ---- uwb ------------------------------------------------------------------------------------------------------------


ORDERS = (0, 1, 2)
METHODS = ("two-way", "tdoa", "rssi")
POLARISATIONS = ("vertical", "horizontal")
BACKENDS = ("own", "sionna")


def _changed(sheet: UwbConfig, method: str | None, channel: int | None, data_rate_kbps: int | None) -> UwbConfig:
    """Data sheet with the options of the constructor."""
    changes: dict[str, Any] = {}
    if method is not None:
        if method not in METHODS:
            raise ConfigError(f"method: must be two-way, tdoa or rssi, got {method!r}")
        changes["method"] = method
    if channel is not None:
        if channel not in CHANNELS:
            raise ConfigError(f"channel: must be one of {sorted(CHANNELS)}, got {channel!r}")
        changes["carrier_ghz"], changes["bandwidth_mhz"] = CHANNELS[channel]
    if data_rate_kbps is not None:
        changes["data_rate_kbps"] = data_rate_kbps
        if data_rate_kbps not in sheet.modes:
            known = ", ".join(str(rate) for rate in sorted(sheet.modes)) or "none"
            raise ConfigError(f"data_rate_kbps: {sheet.name} has {known}, got {data_rate_kbps!r}")
    return sheet.model_copy(update=changes) if changes else sheet


@dataclass(frozen=True, eq=False)
class _Site:
    """Anchors, scene and path finder for one version of a world."""

    version: int
    anchors: Anchors
    radio: RadioScene
    paths: Callable[[Floats, Floats], RadioPaths]
    """Paths from tags (n, 3) [m] at times (n,) [s]."""
    rooms: Rooms
    """Rooms around the anchors."""


class Uwb(StreamSensor[UwbConfig, UwbData]):
    """Ranging radio: a tag that measures ranges to anchors.

    >>> import parhelion as ph
    >>> tag = ph.Uwb("qorvo/dw1000", anchors={"a": (5, 0, 2), "b": (0, 8, 2)}, noise=False)
    >>> ranges = tag.run(ph.World(), ph.Pose(xyz=(0, 0, 2)), duration=0.1)
    >>> ranges.range.round(3).tolist()
    [[5.0, 8.0]]

    Args:
        model: Preset name, YAML file or `UwbConfig`.
        name: Name that distinguishes sensors of the same model; each name has its own noise.
        rate_hz: Ranges per second and anchor; the default comes from the data sheet.
        noise: False removes receiver errors; walls and reflections remain.
        anchors: Positions [m] by name, or a list of positions; by default the anchors of the world.
        order: Maximum number of reflections per path, 0 to 2.
        method: two-way, tdoa or rssi; overrides the data sheet.
        height_m: Known z of the tag [m] for the position solver.
        diffraction: True adds paths around the edges of obstacles.
        polarisation: Polarisation of all antennas, vertical or horizontal.
        backend: "own", or "sionna" to find paths with Sionna RT (`pip install parhelion[sionna]`).
        diffuse: True adds the diffuse multipath of closed rooms; by default for UWB radios.
        cir: True records the channel impulse response of every range; by default for UWB radios.
        channel: UWB channel (IEEE 802.15.4: 1 to 5, 7, 9); overrides carrier and bandwidth of the data sheet.
        data_rate_kbps: Data rate, one of those in the data sheet; it sets preamble length, sensitivity and power.
    """

    kind = "uwb"

    @keyword_only("anchors", "rate_hz", "noise")
    def __init__(
        self,
        model: str | PathLike[str] | UwbConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
        anchors: Any = None,
        order: int = 2,
        method: str | None = None,
        height_m: float | None = None,
        diffraction: bool = False,
        polarisation: Polarisation = "vertical",
        backend: str = "own",
        diffuse: bool | None = None,
        cir: bool | None = None,
        channel: int | None = None,
        data_rate_kbps: int | None = None,
    ) -> None:
        super().__init__(*self._opened(UwbConfig, model), name=name, rate_hz=rate_hz, noise=noise)
        self.config = _changed(self.config, method, channel, data_rate_kbps)
        if order not in ORDERS or isinstance(order, bool):
            raise ConfigError(f"order: must be 0, 1 or 2 reflections, got {order!r}")
        if backend not in BACKENDS:
            raise ConfigError(f"backend: must be own or sionna, got {backend!r}")
        if polarisation not in POLARISATIONS:
            raise ConfigError(f"polarisation: must be vertical or horizontal, got {polarisation!r}")
        if not isinstance(diffraction, bool):
            raise ConfigError(f"diffraction: must be true or false, got {diffraction!r}")
        self.backend, self.diffraction = backend, diffraction
        self.cir = bool(self.config.modes) if cir is None else cir
        self.diffuse = bool(self.config.modes) if diffuse is None else diffuse
        self.wave = Wave(self.config.carrier_hz, polarisation)
        if height_m is not None and not np.isfinite(height_m):
            raise ConfigError(f"height_m: must be finite, got {height_m!r}")
        self.order, self.height_m = order, height_m
        self._given = None if anchors is None else given_anchors(anchors)
        self._sites: WeakKeyDictionary[World, _Site] = WeakKeyDictionary()
        self._biases: tuple[tuple[int, tuple[str, ...]], Floats] | None = None

    def anchors(self, world: World) -> Anchors:
        """Anchors to which the tag measures ranges in a world."""
        return self._site(world).anchors

    def paths(self, world: World, places: Any, times: Any = 0.0) -> RadioPaths:
        """Paths at the carrier frequency from positions (n, 3) or (3,) [m] at times [s] to all anchors."""
        tags = np.atleast_2d(np.asarray(places, dtype=np.float64))
        if tags.ndim != 2 or tags.shape[1] != 3 or not np.all(np.isfinite(tags)):
            raise ConfigError("places: must be finite, of shape (n, 3) or (3,)")
        site = self._site(world)
        when = np.broadcast_to(np.asarray(times, dtype=np.float64), len(tags))
        return site.paths(tags, when)

    def _site(self, world: World) -> _Site:
        found = self._sites.get(world)
        if found is None or found.version != world.version:
            version = world.version
            anchors = anchors_of(world) if self._given is None else self._given
            try:
                radio = radio_scene(world, self.visibility_keys, self.config.carrier_hz)
                check_places(radio, anchors)
            except ConfigError as error:
                raise ConfigError(f"{self.label}: {error}") from None
            rooms = rooms_at(radio, anchors.xyz)
            found = self._sites[world] = _Site(version, anchors, radio, self._finder(radio, anchors.xyz), rooms)
        return found

    def _check(self, world: World, place: Floats | None, time: float) -> None:
        site = self._site(world)
        if place is not None:
            wall = wall_around(site.radio, place)
            if wall is not None:
                at = ", ".join(f"{value:g}" for value in place)
                raise ConfigError(f"{self.label}: its position ({at}) m is inside {wall!r}; move it out of the wall")
        if len(site.anchors) > 1:
            try:
                check_layout(site.anchors.xyz, self.height_m is not None, self.config.method == "tdoa")
            except ConfigError as error:
                warnings.warn(f"{self.label}: {error}; the record contains ranges without positions", stacklevel=3)

    def _finder(self, radio: RadioScene, anchors: Floats) -> Callable[[Floats, Floats], RadioPaths]:
        """Path finder for a radio scene."""
        if self.backend == "sionna":
            from parhelion.sensors.waves.uwb.sionna import SionnaPaths

            return SionnaPaths(radio, anchors, self.wave, self.order, self.diffraction)
        finder = mirror_finder(radio, self.order, self.config.max_range_m)
        known = finder.sequences(anchors)
        return partial(find_paths, radio, finder, known, anchors, wave=self.wave, diffraction=self.diffraction)

    def _empty(self, world: World, seed: int) -> UwbData:
        return self._samples(world, Fixed(Pose()), 0, 0, seed, None)

    def _samples(
        self, world: World, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None
    ) -> UwbData:
        from scipy.special import ndtr

        site = self._site(world)
        times = np.arange(first, first + count, dtype=np.int64) / self.rate_hz
        tags = np.zeros((0, 3))
        if count:
            xyz, quat = motion.sample(times)
            tags = xyz if mount is None else xyz + quat_rotate(quat, mount.xyz)
        anchors = site.anchors
        vector = tags[:, None] - anchors.xyz
        true = np.sqrt(np.sum(vector * vector, axis=2))
        paths = site.paths(tags, times)
        if self.diffuse and count and len(anchors):
            paths = with_diffuse(paths, site.rooms, rooms_at(site.radio, tags), anchors.xyz, tags, self.wave)
        draws = self._draws(anchors, first, count, seed)
        chance = ndtr(draws[:, :, 3]) if self.noise else None
        shadow = self._shadow(site, tags, seed)
        links = links_of(paths, count, len(anchors), self.config, chance, shadow, first)
        rssi = self._strength(links, draws)
        ranges, sigma = self._ranges(links, rssi, draws, self._bias(anchors, seed))
        if self.config.method == "tdoa":
            true = true - true[:, :1]
        fixes = self._fixes(anchors, ranges, sigma)
        responses = self._responses(paths, links, anchors, first, seed) if self.cir else {}
        snr = 10.0 * np.log10(np.where(np.isfinite(links.snr), np.maximum(links.snr, 1e-40), np.nan))
        return UwbData(
            times,
            anchors.names,
            anchors.xyz,
            ranges,
            sigma,
            rssi,
            snr,
            links.los,
            true,
            fixes.position,
            fixes.covariance,
            fixes.gdop,
            self.config.method,
            metadata={"sensor": self.model, "seed": int(seed), "rate_hz": self.rate_hz},
            first_path_power=self._first_path(links, draws),
            **responses,
        )

    # ---- errors of the receiver ------------------------------------------------------------------------------------

    def _draws(self, anchors: Anchors, first: int, count: int, seed: int) -> Floats:
        """Standard normal numbers, shape (count, a, 4): range, signal strength, first-path power, lost frames."""
        if not (count and len(anchors) and self.noise):
            return np.zeros((count, len(anchors), 4))
        return np.stack([white(seed, f"{self._streams}/{name}", first, count) for name in anchors.names], axis=1)

    def _responses(self, paths: RadioPaths, links: Links, anchors: Anchors, first: int, seed: int) -> dict[str, Any]:
        """Impulse responses with receiver noise, which has its own random streams."""
        time, cir = impulse_responses(paths, links, self.config)
        count, sigma = len(cir), 10.0 ** (response_noise_dbm(self.config) / 20.0) / np.sqrt(2.0)
        if self.noise and count:
            for k, name in enumerate(anchors.names):
                drawn = white(seed, f"{self._streams}/{name}/cir", first * TAPS, count * TAPS)[:, :2] * sigma
                cir[:, k] += (drawn[:, 0] + 1j * drawn[:, 1]).reshape(count, TAPS)
        return {"cir": cir, "cir_time": time}

    def _bias(self, anchors: Anchors, seed: int) -> Floats:
        """Range bias [m] per anchor from both antenna delays and from the clocks during the reply, shape (a,)."""
        if not self.noise:
            return np.zeros(len(anchors))
        key = (int(seed), anchors.names)
        if self._biases is None or self._biases[0] != key:
            self._biases = (key, self._drawn_bias(anchors, seed))
        return self._biases[1]

    def _drawn_bias(self, anchors: Anchors, seed: int) -> Floats:
        sheet, zero = self.config, np.zeros(1, dtype=np.int64)
        reply = 0.5 * SPEED_OF_LIGHT_M_S * sheet.reply_time_s * sheet.clock_error_ppm * 1e-6
        own = normals(Stream(seed, f"{self._streams}/unit"), zero)[0]
        each = [normals(Stream(seed, f"{self._streams}/{name}/unit"), zero)[0] for name in anchors.names]
        # The standard deviation is that of a pair; tag and anchor contribute half of the variance each.
        half = sheet.unit_bias_m / np.sqrt(2.0)
        return np.array([half * (own[0] + one[0]) + reply * one[1] for one in each]).reshape(len(anchors))

    def _shadow(self, site: _Site, tags: Floats, seed: int) -> Floats | None:
        """Shadowing [dB] per tag and anchor, shape (n, a); None without noise, or in a world without surfaces."""
        sheet, names = self.config, site.anchors.names
        if not (self.noise and sheet.shadowing_db > 0 and len(site.radio.patches) and len(tags)):
            return None
        fields = [shadowing(tags, seed, f"{self._streams}/{name}/shadow", sheet.shadowing_distance_m) for name in names]
        return sheet.shadowing_db * np.stack(fields, axis=1)

    def _first_path(self, links: Links, draws: Floats) -> Floats:
        """Reported first-path power [dBm], shape (n, a)."""
        sheet = self.config
        if not self.noise:
            return links.first_path_dbm
        level = saturated(links.first_path_dbm, sheet.first_path_saturation_dbm, sheet.saturation_sharpness)
        return level + sheet.rssi_noise_db * draws[:, :, 2]

    def _strength(self, links: Links, draws: Floats) -> Floats:
        sheet = self.config
        if not self.noise:
            return links.rssi_dbm
        level = saturated(links.rssi_dbm, sheet.rssi_saturation_dbm, sheet.saturation_sharpness)
        rssi = level + sheet.rssi_noise_db * draws[:, :, 1]
        return np.asarray(np.rint(rssi / sheet.rssi_step_db) * sheet.rssi_step_db) if sheet.rssi_step_db else rssi

    def _ranges(self, links: Links, rssi: Floats, draws: Floats, bias: Floats) -> tuple[Floats, Floats]:
        """Ranges and their standard deviations [m], each of shape (n, a)."""
        sheet = self.config
        if sheet.method == "rssi":
            found = distance_by_rssi(rssi, sent_dbm(sheet), sheet.carrier_hz, sheet.path_loss_exponent)
            spread = np.hypot(sheet.rssi_noise_db, sheet.rssi_step_db / np.sqrt(12.0))
            return found, found * np.log(10.0) / (10.0 * sheet.path_loss_exponent) * spread
        arrival = arrival_sigma_m(links, sheet)
        if self.noise:
            bias = bias + level_bias_m(links.first_path_dbm, sheet)
        if sheet.method == "two-way":
            # A two-way range is the mean of two flights, each timed on arrival.
            sigma = np.hypot(arrival / np.sqrt(2.0), sheet.range_noise_m)
            found = links.arrival_m + (bias + sigma * draws[:, :, 0] if self.noise else 0.0)
            return self._stepped(found), sigma
        clock = SPEED_OF_LIGHT_M_S * 1e-9 * sheet.sync_noise_ns
        single = np.sqrt(arrival**2 + sheet.range_noise_m**2 + clock**2)
        found = links.arrival_m + (bias + single * draws[:, :, 0] if self.noise else 0.0)
        return self._stepped(found - found[:, :1]), np.hypot(single, single[:, :1])

    def _stepped(self, ranges: Floats) -> Floats:
        step = self.config.range_step_m
        return np.asarray(np.rint(ranges / step) * step) if step and self.noise else ranges

    def _fixes(self, anchors: Anchors, ranges: Floats, sigma: Floats) -> Fixes:
        differences = self.config.method == "tdoa"
        if can_locate(anchors.xyz, self.height_m is not None, differences):
            # Noise-free ranges have no standard deviation and get equal weights.
            safe = np.where(sigma > 0, sigma, 1e-3)
            return locate(anchors.xyz, ranges, safe, differences=differences, height_m=self.height_m)
        n = len(ranges)
        return Fixes(np.full((n, 3), np.nan), np.full((n, 3, 3), np.nan), np.full(n, np.nan))

    def __repr__(self) -> str:
        return f"<Uwb {self.model}: {self.config.method}, {self.rate_hz:g} Hz>"
