"""Spinning lidars whose packets contain azimuths and distances: lasers, firing sequences, and scans as such sequences.

Makers share this module; each adds the layout of its packets. Angles of the head count clockwise from x, as in the
packets of all of them; those of lasers relative to the head count counter-clockwise, as everywhere else here.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError
from parhelion.makers.codec import ShotPattern

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Lasers(ABC):
    """Lasers of one model or unit in the order of its packets."""

    name: str
    """Name of the preset, or of the model if there is none."""
    elevation_deg: tuple[float, ...]
    """Elevation of each laser."""
    period_us: float
    """Time between firing sequences."""
    unit_m: float
    """Range of one count of the distance field."""

    @property
    @abstractmethod
    def fire_time_s(self) -> Floats:
        """Firing time of each laser within its sequence [s], shape (channels,)."""

    @property
    @abstractmethod
    def offset_deg(self) -> Floats:
        """Azimuth of each laser relative to the head, counter-clockwise [deg], shape (channels,)."""

    @property
    def channels(self) -> int:
        """Number of lasers."""
        return len(self.elevation_deg)

    @cached_property
    def ring(self) -> NDArray[np.uint16]:
        """Ring of each laser: its rank by elevation, lowest 0, shape (channels,)."""
        return np.argsort(np.argsort(self.elevation_deg, kind="stable")).astype(np.uint16)

    @cached_property
    def laser_of_ring(self) -> NDArray[np.int64]:
        """Laser of each ring, shape (channels,)."""
        return np.argsort(self.elevation_deg, kind="stable")


AnyLasers = TypeVar("AnyLasers", bound=Lasers)


@dataclass(frozen=True)
class LaserHead(Lasers):
    """Lasers whose beams leave at a fixed distance from the axis."""

    azimuth_deg: tuple[float, ...]
    """Azimuth of each laser relative to the head, counter-clockwise as seen from above."""
    fire_time_us: tuple[float, ...]
    """Firing time of each laser after the start of the sequence."""
    exit_m: float = 0.0
    """Distance of the beams' exit from the axis, in the direction of the head."""
    height_m: float = 0.0
    """Height of the beams' exit over the origin."""

    @cached_property
    def fire_time_s(self) -> Floats:
        """See `Lasers.fire_time_s`."""
        return 1e-6 * np.asarray(self.fire_time_us, np.float64)

    @cached_property
    def offset_deg(self) -> Floats:
        """See `Lasers.offset_deg`."""
        return np.asarray(self.azimuth_deg, np.float64)


# ---- firing sequences -----------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Sequences(Table):
    """Firing sequences of all lasers, in order of time."""

    time_s: Floats
    """Start of each sequence on the clock of the sensor [s], shape (n,)."""
    head_deg: Floats
    """Azimuth of the head at that time, clockwise from x, shape (n,)."""
    distance: NDArray[np.uint16]
    """Counts, 0 for no return, shape (n, returns, lasers). Of two returns, the last one comes first."""
    intensity: NDArray[np.uint8]

    @property
    def returns(self) -> int:
        """Returns per shot."""
        return int(self.distance.shape[1])


def sequences_of(scan: PointCloud, lasers: Lasers, title: str, dual: bool, epoch_s: float = 0.0) -> Sequences:
    """Firing sequences of a scan; `epoch_s` is the sensor's clock at time 0 of the scan's clock."""
    if not isinstance(scan, Scan):
        raise ConfigError(
            f"{title} packets: expected a Scan with its table of shots; this cloud holds points only "
            "(scan in the frame 'sensor', without lost shots as rows)"
        )
    if scan.frame != "sensor" or "range" not in scan.fields or "shot" not in scan.fields:
        raise ConfigError(f"{title} packets: the scan must be in the frame 'sensor' and have fields 'range' and 'shot'")
    laser, column = places(scan, lasers, title)
    reference = int(np.argmin(lasers.fire_time_s))
    first = np.empty(len(scan.shots) // lasers.channels, np.int64)
    first[column[laser == reference]] = np.flatnonzero(laser == reference)
    direction = scan.shots.direction[first].astype(np.float64)
    own = np.degrees(np.arctan2(direction[:, 1], direction[:, 0])) - lasers.offset_deg[reference]
    delay = float(lasers.fire_time_s[reference])
    time = scan.start_time + epoch_s + scan.shots.time[first].astype(np.float64) - delay
    head = np.unwrap(-own, period=360.0)
    if delay and len(head) > 1:
        head -= delay * (head[-1] - head[0]) / (time[-1] - time[0])
    return Sequences(time, head % 360.0, *measured(scan, laser, column, lasers, title, dual))


def places(scan: Scan, lasers: Lasers, title: str) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Laser and firing sequence of each shot; every sequence must contain every laser once."""
    shots = scan.shots
    columns = len(shots) // lasers.channels
    fits = len(shots) > 0 and len(shots) == columns * lasers.channels and int(shots.ring.max()) < lasers.channels
    if fits:
        laser = lasers.laser_of_ring[shots.ring]
        column = shots.column.astype(np.int64)
        fits = bool((np.bincount(column * lasers.channels + laser, minlength=len(shots)) == 1).all())
    if not fits:
        raise ConfigError(
            f"{title} packets: the scan's {len(shots)} shots are not complete firing sequences of the "
            f"{lasers.channels} lasers of a {lasers.name}"
        )
    return laser, column


def measured(
    scan: Scan, laser: NDArray[np.int64], column: NDArray[np.int64], lasers: Lasers, title: str, dual: bool
) -> tuple[NDArray[np.uint16], NDArray[np.uint8]]:
    """Distances and intensities in counts, of shape (sequences, returns, lasers); last returns come first."""
    n = len(scan.shots)
    shot = scan.fields["shot"].astype(np.int64)
    if len(shot) and int(shot.max()) >= n:
        raise ConfigError(f"{title} packets: a point refers to shot {int(shot.max())}, but the scan has {n} shots")
    counts = scan.fields["range"].astype(np.float64) / lasers.unit_m
    held = np.isfinite(counts) & (counts < 65535.5)
    shot, counts = shot[held], np.rint(counts[held]).astype(np.uint16)
    intensity = scan.fields.get("intensity", np.zeros(len(scan)))[held]
    shade = np.rint(np.clip(np.nan_to_num(intensity), 0.0, 255.0)).astype(np.uint8)
    # Points of a shot may be in any order. In order of range, the farthest is written last and remains.
    by_range = np.argsort(counts, kind="stable")
    orders = (by_range, by_range[::-1]) if dual else (by_range,)
    shape = (n // lasers.channels, len(orders), lasers.channels)
    distance, reflectivity = np.zeros(shape, np.uint16), np.zeros(shape, np.uint8)
    for number, order in enumerate(orders):
        rows = shot[order]
        distance[column[rows], number, laser[rows]] = counts[order]
        reflectivity[column[rows], number, laser[rows]] = shade[order]
    reflectivity[distance == 0] = 0
    return distance, reflectivity


# ---- matching -------------------------------------------------------------------------------------------------------
# Packets contain neither times of single lasers nor, for most makers, their angles; decoders use those of the model. A
# sensor may therefore send the packets of a model only if it has that model's lasers and firing sequence, within the
# calibration tolerance of a single unit.

ANGLE_TOLERANCE_DEG = 0.15
"""Tolerance of beam angles: units differ from the nominal angles by about 0.01 deg; neighbouring lasers of a VLP-32C
are 0.333 deg apart."""
PERIOD_TOLERANCE_US = 0.05
FIRE_TOLERANCE_US = 0.3
"""Tolerance of firing times; firings of an HDL-32E are 1.152 us apart."""


def matching_model(shots: ShotPattern, models: Iterable[AnyLasers], title: str) -> AnyLasers:
    """Model whose packets can hold these shots; the error states the difference from each candidate."""
    every = list(models)
    channels = int(shots.ring.max()) + 1 if len(shots.ring) else 0
    known = [model for model in every if model.channels == channels]
    if not known:
        numbers = ", ".join(f"{model.channels} ({model.name})" for model in every)
        raise ConfigError(f"it has {channels} channels, but {title} packets exist for {numbers}")
    sequences = len(shots.ring) // channels
    order = np.lexsort((shots.ring, shots.column))
    whole = np.tile(np.arange(channels), sequences)
    if sequences < 2 or len(order) != len(whole) or not np.array_equal(shots.ring[order], whole):
        raise ConfigError(f"its {len(shots.ring)} shots are not complete firing sequences of {channels} channels")
    shape = (sequences, channels)
    time_us = 1e6 * shots.time[order].astype(np.float64).reshape(shape)
    direction = shots.direction[order].astype(np.float64).reshape(*shape, 3)
    reasons = [_difference(model, time_us, direction) for model in known]
    for model, reason in zip(known, reasons, strict=True):
        if not reason:
            return model
    differences = (f"of a {model.name}, because {reason}" for model, reason in zip(known, reasons, strict=True))
    raise ConfigError(f"it cannot send the packets {', nor '.join(differences)}")


def _difference(model: Lasers, time_us: Floats, direction: Floats) -> str:
    """Difference of shots, by firing sequence and ring, from a model; empty if they agree."""
    laser = model.laser_of_ring
    first = int(model.ring[0])
    elevation = np.degrees(np.arcsin(np.clip(direction[..., 2], -1.0, 1.0))).mean(axis=0)
    off = np.abs(elevation - np.asarray(model.elevation_deg)[laser])
    if off.max() > ANGLE_TOLERANCE_DEG:
        return f"channel {int(off.argmax())} is {off.max():.2f} deg off its elevation"
    period = (time_us[-1, first] - time_us[0, first]) / (len(time_us) - 1)
    if abs(period - model.period_us) > PERIOD_TOLERANCE_US:
        return f"it fires every {period:.3f} us, not every {model.period_us:g} us"
    after = 1e6 * (model.fire_time_s[laser] - model.fire_time_s[0])
    late = np.abs(np.median(time_us - time_us[:, [first]], axis=0) - after)
    if late.max() > FIRE_TOLERANCE_US:
        return f"channel {int(late.argmax())} fires {late.max():.2f} us off its time"
    # The head rotates uniformly, so azimuths minus its rotation are the lasers' own.
    azimuth = np.degrees(np.unwrap(np.arctan2(direction[..., 1], direction[..., 0]), axis=0))
    rate = (azimuth[-1, first] - azimuth[0, first]) / (time_us[-1, first] - time_us[0, first])
    if rate >= 0.0:
        return "it rotates counter-clockwise"
    own = azimuth - rate * time_us
    apart = np.median((own - own[:, [first]] + 180.0) % 360.0 - 180.0, axis=0)
    aside = np.abs(apart - (model.offset_deg[laser] - model.offset_deg[0]))
    if aside.max() > ANGLE_TOLERANCE_DEG:
        return f"channel {int(aside.argmax())} is {aside.max():.2f} deg off its azimuth"
    return ""


def return_mode(scan: Scan, wanted: str | None, known: Mapping[str, int], title: str) -> str:
    """Return mode of a stream: the wanted one, or that of its first scan, or the one that the points need."""
    mode = wanted or scan.metadata.get("returns")
    if mode is None:
        mode = "dual" if scan.shots.return_count.max(initial=0) > 1 else next(iter(known))
    if mode not in known:
        raise ConfigError(f"{title} packets: the return mode {mode!r} is not one of {', '.join(known)}")
    return str(mode)
