"""From ways of signals to what the receiver's loops hold: strength, error of the code, error of the carrier."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from parhelion.core.gnss import ABSENT, BLOCKED, DIRECT, MULTIPATH, REFLECTED
from parhelion.core.pose import Floats
from parhelion.sensors.gnss.config import AntennaConfig, GnssConfig
from parhelion.sensors.gnss.correlator import Complexes, track
from parhelion.sensors.gnss.mirrors import RADIO
from parhelion.sensors.gnss.paths import Paths
from parhelion.sensors.gnss.signals import BANDS, BandOfSatellites
from parhelion.sensors.waves.edges import bent_amplitude
from parhelion.surfaces.radio import RADIO_MATERIALS, circular, fresnel, permittivity

FOLIAGE_DB_M, FOLIAGE_AT_HZ = 1.3, 870e6
"""Loss in the crown of a tree in leaf: 1.3 dB/m at 870 MHz, growing with the root of the frequency (Goldhirsh and
Vogel 1998, Handbook of Propagation Effects for Vehicular and Personal Mobile Satellite Systems, chapter 2)."""
MOST_FOLIAGE_DB = 30.0
MOST_COPIES = 8
"""Copies of one signal that count, the strongest first."""
NOTICED = 0.25
"""Mirrors of this share of the direct amplitude make a satellite's status `multipath`."""


@dataclass(frozen=True, eq=False)
class Received:
    """What the loops hold of each satellite, arrays of shape (n, s); NaN where nothing comes."""

    level_db: Floats
    """Strength against a satellite at the zenith in the open."""
    code_m: Floats
    """What the code is late by mirrors."""
    carrier_m: Floats
    """What the carrier is late by mirrors."""
    arrival: Floats
    """Unit vector to where the strongest copy comes from, shape (n, s, 3)."""
    status: NDArray[np.int64]


def gain(antenna: AntennaConfig, sine: Floats) -> tuple[Floats, Floats]:
    """Amplitude for right- and left-handed waves, by the sine of the elevation over the antenna's plane."""
    nodes = [-1.0, 0.0, 1.0]
    found = [np.interp(sine, nodes, list(reversed(side))) for side in (antenna.rhcp_db, antenna.lhcp_db)]
    right, left = (10.0 ** (np.asarray(one) / 20.0) for one in found)
    return right, left


def foliage_db(length_m: Floats, frequency_hz: float) -> Floats:
    """Loss [dB] of a length inside of tree crowns."""
    loss = FOLIAGE_DB_M * np.sqrt(frequency_hz / FOLIAGE_AT_HZ) * length_m
    return np.asarray(np.minimum(loss, MOST_FOLIAGE_DB))


def amplitudes(paths: Paths, boresight: Floats, config: GnssConfig, band: str, wavelength_m: Floats) -> Complexes:
    """Complex amplitude of each path at the receiver; 1 is a direct signal from the zenith, its phase that of the
    carrier.

    A wave leaves right-handed. Each mirror keeps a part of it and turns a part over; the planes of incidence of two
    mirrors are taken as one. Mirrors smaller than the first Fresnel zone send A cos / (lambda r) of what a whole
    plane would (physical optics). Behind an edge it is weaker by a knife edge's loss.
    """
    frequency = BANDS[band]
    right, left = np.ones(len(paths), np.complex128), np.zeros(len(paths), np.complex128)
    table = _permittivities(frequency)
    for mirror in range(2):
        rows = np.flatnonzero(paths.radio[:, mirror] >= 0)
        same, other = circular(*fresnel(paths.cos[rows, mirror], table[paths.radio[rows, mirror]]))
        share = np.minimum(1.0, paths.size[rows, mirror] / wavelength_m[rows])
        right[rows], left[rows] = (
            share * (same * right[rows] + other * left[rows]),
            share * (other * right[rows] + same * left[rows]),
        )
    sine = np.sum(paths.arrival * boresight[paths.time], axis=1)
    for_right, for_left = gain(config.antenna, sine)
    weak = 10.0 ** (-foliage_db(paths.foliage, frequency) / 20.0)
    phase = np.exp(-2j * np.pi * np.mod(paths.extra / wavelength_m, 1.0))
    phase = np.where(paths.edges > 0, phase * bent_amplitude(np.maximum(paths.extra, 0.0), wavelength_m), phase)
    return np.asarray(weak * phase * (right * for_right + left * for_left))


@lru_cache(maxsize=8)
def _permittivities(frequency_hz: float) -> Complexes:
    """Of all radio materials, by number; NaN for the one that is known at higher frequencies only."""
    ghz = frequency_hz / 1e9
    known = [any(band.lower_ghz <= ghz <= band.upper_ghz for band in RADIO_MATERIALS[name]) for name in RADIO]
    return np.array(
        [complex(permittivity(name, frequency_hz)) if good else np.nan for name, good in zip(RADIO, known, strict=True)]
    )


def receive(
    paths: Paths,
    clear: NDArray[np.bool_],
    above: NDArray[np.bool_],
    boresight: Floats,
    config: GnssConfig,
    band: str,
    signals: BandOfSatellites,
) -> Received:
    """The loops of all satellites; `clear` and `above` (n, s) tell which are in view and over the horizon."""
    n, s = above.shape
    wavelength = signals.wavelength_m[paths.satellite]
    has = np.isfinite(wavelength)
    paths, wavelength = paths.rows(has), wavelength[has]
    amplitude = amplitudes(paths, boresight, config, band, wavelength)
    pair = paths.time * s + paths.satellite
    order = np.lexsort((-np.abs(amplitude), pair))
    pairs, first, counts = np.unique(pair[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, counts)
    kept = rank < MOST_COPIES
    line = np.repeat(np.arange(len(pairs)), counts)[kept]
    rows, rank = order[kept], rank[kept]
    chip = signals.chip_m[paths.satellite]
    delay = np.zeros((len(pairs), MOST_COPIES))
    copies = np.zeros((len(pairs), MOST_COPIES), np.complex128)
    delay[line, rank], copies[line, rank] = paths.extra[rows] / chip[rows], amplitude[rows]
    best = order[first] if len(pairs) else np.zeros(0, np.int64)
    rest, prompt = track(delay, copies, config.loops.spacing_chips, signals.boc[paths.satellite[best]])
    own = np.exp(2j * np.pi * np.mod(paths.extra[best] / wavelength[best], 1.0))
    carrier = paths.extra[best] - wavelength[best] / (2.0 * np.pi) * np.angle(prompt * own)
    level = 20.0 * np.log10(np.maximum(np.abs(prompt), 1e-6))
    arrival = np.full((n * s, 3), np.nan)
    arrival[pairs] = paths.arrival[best]
    return Received(
        _spread(n, s, pairs, level), _spread(n, s, pairs, rest * chip[best]), _spread(n, s, pairs, carrier),
        arrival.reshape(n, s, 3), _status(paths, amplitude, clear, above),
    )  # fmt: skip


def _spread(n: int, s: int, pairs: NDArray[np.int64], values: Floats) -> Floats:
    whole = np.full(n * s, np.nan)
    whole[pairs] = values
    return whole.reshape(n, s)


def _status(
    paths: Paths, amplitude: Complexes, clear: NDArray[np.bool_], above: NDArray[np.bool_]
) -> NDArray[np.int64]:
    direct, mirrored = np.zeros(above.shape), np.zeros(above.shape)
    at = (paths.time, paths.satellite)
    straight = (paths.order == 0) & (paths.edges == 0)
    np.maximum.at(direct, (at[0][straight], at[1][straight]), np.abs(amplitude[straight]))
    np.maximum.at(mirrored, (at[0][~straight], at[1][~straight]), np.abs(amplitude[~straight]))
    found = np.where(clear, np.where(mirrored > NOTICED * direct, MULTIPATH, DIRECT), BLOCKED)
    found = np.where(~clear & (mirrored > 0), REFLECTED, found)
    return np.asarray(np.where(above, found, ABSENT), dtype=np.int64)
