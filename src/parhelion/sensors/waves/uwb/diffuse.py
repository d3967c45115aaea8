"""Diffuse multipath of closed rooms: the part of the impulse response that single reflections do not explain.

Room electromagnetics (Andersen, Nielsen, Pedersen, Bauch and Herdin 2007, IEEE Antennas Propag. Mag. 49(2), 27) treats
a room like a reverberation chamber. Reflections and scattering fill it with a diffuse field that decays exponentially:

    tau = 4 V / (c A a)                  reverberation time; V volume, A surface, a mean absorption
    G   = lambda^2 c tau / (8 pi V)      mean gain between isotropic antennas of one polarisation

Volume, surface and absorption come from rays around tag and anchor. Places without a closed room have no diffuse field.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.geometry import fibonacci_sphere
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_normal, to_unit
from parhelion.rays.records import Rays
from parhelion.sensors.waves.radio import RadioScene, Wave, free_space_gain
from parhelion.sensors.waves.uwb.paths import RadioPaths, in_order
from parhelion.surfaces.radio import fresnel

RAYS = 128
"""Number of rays that measure a room."""
LEAST_CLOSED = 0.9
"""Minimum fraction of rays that meet a surface within REACH_M for a closed room."""
REACH_M = 40.0
OPENING = 1e-3
"""Minimum power coupling between two rooms. Assumed: gaps and closed doors, 30 dB below an open wall."""
LEAST_ABSORPTION = 0.1
"""Lower limit of the mean absorption: doors, people and furniture."""
TAPS = 48
"""Number of diffuse arrivals per link."""
LONGEST = 6.0
"""Length of the diffuse tail in decay times."""
SAME_ROOM = 0.5
"""Minimum power transmission of the direct line within one room."""
CELL_M = 0.02
"""Distance over which the diffuse arrivals decorrelate, about half a wavelength."""


@dataclass(frozen=True, eq=False)
class Rooms(Table):
    """Rooms around n positions."""

    volume_m3: Floats
    """Volume, shape (n,)."""
    decay_s: Floats
    """Reverberation time, shape (n,); 0 if the position is not in a closed room."""
    free_path_m: Floats
    """Mean free path 4 V / A, shape (n,)."""


def rooms_at(radio: RadioScene, places: Floats) -> Rooms:
    """Rooms around positions (n, 3) [m], measured with rays through the static world."""
    n = len(places)
    directions = fibonacci_sphere(RAYS)
    origin = np.repeat(places, RAYS, axis=0)
    heading = np.tile(directions, (n, 1))
    hits = radio.standing.cast(Rays.of(origin, heading, 0.0, REACH_M))
    found = hits.found.reshape(n, RAYS)
    distance = np.where(found, hits.range.reshape(n, RAYS), REACH_M)
    cosine = np.abs(np.einsum("ij,ij->i", hits.normal, heading)).reshape(n, RAYS)
    cosine = np.where(found, np.clip(cosine, 0.1, 1.0), 1.0)
    eta = radio.permittivity[np.maximum(hits.part, 0)] if len(radio.permittivity) else np.ones(n * RAYS, np.complex128)
    te, tm = fresnel(cosine.reshape(-1), eta)
    absorbed = 1.0 - 0.5 * (np.abs(te) ** 2 + np.abs(tm) ** 2).reshape(n, RAYS)
    # Solid angles around the position: dV = r^3 / 3 dW, dA = r^2 / cos dW.
    volume = 4.0 * np.pi / 3.0 * np.mean(distance**3, axis=1)
    area = 4.0 * np.pi * np.mean(distance**2 / cosine, axis=1)
    lossy = 4.0 * np.pi * np.mean(distance**2 / cosine * absorbed, axis=1)
    lossy = np.maximum(lossy, LEAST_ABSORPTION * area)
    closed = np.mean(found, axis=1) >= LEAST_CLOSED
    free_path = 4.0 * volume / np.maximum(area, 1e-9)
    decay = 4.0 * volume / (SPEED_OF_LIGHT_M_S * np.maximum(lossy, 1e-9))
    return Rooms(volume, np.where(closed, decay, 0.0), free_path)


def with_diffuse(
    paths: RadioPaths, anchor_rooms: Rooms, tag_rooms: Rooms, anchors: Floats, tags: Floats, wave: Wave
) -> RadioPaths:
    """Paths plus the diffuse arrivals of each link between closed rooms, sorted by measurement, anchor and delay."""
    n, count = len(tags), len(anchors)
    sample, anchor = np.repeat(np.arange(n), count), np.tile(np.arange(count), n)
    both = (anchor_rooms.decay_s[anchor] > 0) & (tag_rooms.decay_s[sample] > 0)
    sample, anchor = sample[both], anchor[both]
    if not len(sample):
        return paths
    length = np.maximum(np.linalg.norm(tags[sample] - anchors[anchor], axis=1), 1e-3)
    passed, mirrored = _powers(paths, n, count, wave)
    coupling = np.maximum(passed[sample, anchor], OPENING)
    decay = np.sqrt(anchor_rooms.decay_s[anchor] * tag_rooms.decay_s[sample])
    volume = np.sqrt(anchor_rooms.volume_m3[anchor] * tag_rooms.volume_m3[sample])
    power = wave.length_m**2 * SPEED_OF_LIGHT_M_S * decay / (8.0 * np.pi * volume) * coupling
    # Reflections that were found are part of the diffuse energy; at least a fifth remains for the others.
    power = np.maximum(power - mirrored[sample, anchor], 0.2 * power)
    one_room = passed[sample, anchor] > SAME_ROOM
    wait, amplitude = _arrivals(tags[sample], anchor, decay, one_room)
    # The first reflections arrive after about half a mean free path.
    onset = length + 0.25 * (anchor_rooms.free_path_m[anchor] + tag_rooms.free_path_m[sample])
    delay = onset[:, None] / SPEED_OF_LIGHT_M_S + wait
    rows = len(sample) * TAPS
    none, nowhere = np.zeros(rows, np.int64), np.full((rows, 3), np.nan)
    added = RadioPaths(
        np.repeat(sample, TAPS),
        np.repeat(anchor, TAPS),
        np.full(rows, 3, np.int64),
        none,
        (delay * SPEED_OF_LIGHT_M_S).ravel(),
        delay.ravel(),
        (np.sqrt(power)[:, None] * amplitude).ravel(),
        nowhere,
        nowhere,
        np.full((rows, 2, 3), np.nan),
        none,
    )
    return in_order(RadioPaths.joined([paths, added]))


def _powers(paths: RadioPaths, n: int, count: int, wave: Wave) -> tuple[Floats, Floats]:
    """Power transmission of the direct line, and total power gain of the reflections, both of shape (n, count)."""
    passed, mirrored = np.zeros((n, count)), np.zeros((n, count))
    direct = (paths.order == 0) & (paths.edges == 0)
    share = np.abs(paths.gain[direct]) / free_space_gain(paths.length[direct], wave.carrier_hz)
    passed[paths.sample[direct], paths.anchor[direct]] = np.minimum(share, 1.0) ** 2
    np.add.at(mirrored, (paths.sample[~direct], paths.anchor[~direct]), np.abs(paths.gain[~direct]) ** 2)
    return passed, mirrored


def _arrivals(
    tags: Floats, anchor: NDArray[np.int64], decay_s: Floats, one_room: NDArray[np.bool_]
) -> tuple[Floats, NDArray[np.complex128]]:
    """Excess delays [s] and complex amplitudes with unit total mean power, shapes (m, TAPS).

    The power decays as exp(-x) in one room, x = t / tau, and as x exp(-x) through two rooms in series.

    They depend on the position of the tag and on the anchor only, so a tag at rest sees a constant channel.
    """
    cell = np.floor(tags / CELL_M).astype(np.int64)
    mixed = (cell[:, 0] * 73_856_093) ^ (cell[:, 1] * 19_349_663) ^ (cell[:, 2] * 83_492_791) ^ (anchor * 2_654_435_761)
    element = ((mixed[:, None] * TAPS + np.arange(TAPS)) & 0xFFFFFFFF).astype(np.uint32)
    a, b, c, _ = Stream(0, "uwb/diffuse").words(element.reshape(-1))
    drawn = np.asarray(to_normal(a, b))
    amplitude = (drawn[0] + 1j * drawn[1]).reshape(element.shape) / np.sqrt(2.0)
    # Stratified delays; the profile is in the amplitudes.
    x = LONGEST * (np.arange(TAPS) + np.asarray(to_unit(c)).reshape(element.shape)) / TAPS
    profile = np.where(one_room[:, None], np.exp(-x), x * np.exp(-x)) * LONGEST / TAPS
    return x * decay_s[:, None], amplitude * np.sqrt(profile)
