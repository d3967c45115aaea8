"""Tracking loops: from signal paths to signal strength, code error and carrier error."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.pose import Floats
from parhelion.core.streams import ABSENT, BLOCKED, DIRECT, MULTIPATH, REFLECTED
from parhelion.sensors.waves.diffraction import diffracted_amplitude
from parhelion.sensors.waves.gnss.config import AntennaConfig, GnssConfig
from parhelion.sensors.waves.gnss.paths import SatellitePaths
from parhelion.sensors.waves.gnss.satellites import BANDS, BandOfSatellites
from parhelion.sensors.waves.radio import RADIO
from parhelion.surfaces.radio import RADIO_MATERIALS, circular, fresnel, permittivity

# ---- tracking loops -------------------------------------------------------------------------------------------------
# A delay lock loop sets the early and the late correlator to equal power. Reflected copies bias it by their amplitude,
# delay and phase. A phase lock loop follows the phase of the sum. The front end has infinite bandwidth here, so the
# correlation peak is sharp; a real peak is rounded, which makes narrow spacings slightly worse.


Complexes = NDArray[np.complex128]

_REACH, _GRID = 1.2, 121
"""Half-width [chips] and number of points of the search around the strongest copy."""
_HALVINGS = 16
_CHUNK = 4096


def correlation(chips: ArrayLike, boc: ArrayLike = False) -> Floats:
    """Autocorrelation at a lag [chips]: a triangle for BPSK; for BOC(1,1) 1 - 3|x| to half a chip, then |x| - 1."""
    x = np.abs(np.asarray(chips, dtype=np.float64))
    near = np.where(np.asarray(boc) & (x < 0.5), 1.0 - 3.0 * x, np.where(np.asarray(boc), x - 1.0, 1.0 - x))
    return np.asarray(np.where(x < 1.0, near, 0.0))


def _sum(delay: Floats, amplitude: Complexes, boc: NDArray[np.bool_], at: Floats) -> Complexes:
    """Correlation of the sum of copies (m, k) at lags (m, g) [chips], shape (m, g)."""
    lag = at[:, :, None] - delay[:, None, :]
    return np.asarray(np.sum(amplitude[:, None, :] * correlation(lag, boc[:, None, None]), axis=2))


def _balance(delay: Floats, amplitude: Complexes, boc: NDArray[np.bool_], at: Floats, spacing: float) -> Floats:
    """Early minus late power; the loop locks where it crosses 0 upwards."""
    early = _sum(delay, amplitude, boc, at - spacing / 2.0)
    late = _sum(delay, amplitude, boc, at + spacing / 2.0)
    return np.asarray(np.abs(early) ** 2 - np.abs(late) ** 2)


def track(delay: ArrayLike, amplitude: ArrayLike, spacing: float, boc: ArrayLike = False) -> tuple[Floats, Complexes]:
    """Lock point of the code loop [chips after the direct signal], and the prompt correlation there.

    `delay` [chips] and complex `amplitude` describe the copies, shape (m, k); `spacing` [chips] is that between early
    and late, above 0 to 1. Copies of amplitude 0 are ignored. The loop locks at the highest peak of the sum near the
    strongest copy.
    """
    delay = np.atleast_2d(np.asarray(delay, dtype=np.float64))
    amplitude = np.atleast_2d(np.asarray(amplitude, dtype=np.complex128))
    kind = np.broadcast_to(np.asarray(boc, dtype=bool), (len(delay),))
    rest, prompt = np.zeros(len(delay)), np.zeros(len(delay), np.complex128)
    strongest = np.argmax(np.abs(amplitude), axis=1)
    each = np.arange(len(delay))
    rest[:], prompt[:] = delay[each, strongest], amplitude[each, strongest]
    several = np.flatnonzero(np.sum(np.abs(amplitude) > 0.0, axis=1) > 1)
    for start in range(0, len(several), _CHUNK):
        rows = several[start : start + _CHUNK]
        rest[rows], prompt[rows] = _tracked(delay[rows], amplitude[rows], kind[rows], rest[rows], spacing)
    return rest, prompt


def _tracked(
    delay: Floats, amplitude: Complexes, boc: NDArray[np.bool_], around: Floats, spacing: float
) -> tuple[Floats, Complexes]:
    grid = around[:, None] + np.linspace(-_REACH, _REACH, _GRID)
    peak = grid[np.arange(len(grid)), np.argmax(np.abs(_sum(delay, amplitude, boc, grid)), axis=1)]
    value = _balance(delay, amplitude, boc, grid, spacing)
    rising = (value[:, :-1] < 0.0) & (value[:, 1:] >= 0.0)
    away = np.where(rising, np.abs((grid[:, :-1] + grid[:, 1:]) / 2.0 - peak[:, None]), np.inf)
    best = np.argmin(away, axis=1)
    each = np.arange(len(grid))
    low, high = grid[each, best], grid[each, best + 1]
    for _ in range(_HALVINGS):
        middle = (low + high) / 2.0
        below = _balance(delay, amplitude, boc, middle[:, None], spacing)[:, 0] < 0.0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    # Without an upward zero crossing, the copies cancel. The highest peak, of negligible power, stands in.
    rest = np.where(np.any(rising, axis=1), (low + high) / 2.0, peak)
    return rest, _sum(delay, amplitude, boc, rest[:, None])[:, 0]


def code_sigma(cn0_dbhz: ArrayLike, chip_m: ArrayLike, spacing: float, bandwidth_hz: float, dwell_s: float) -> Floats:
    """Noise of the code loop [m], one standard deviation (Kaplan and Hegarty 2006, eq. 5.23, early minus late power).

    chip sqrt(B d / (2 s) (1 + 2 / ((2 - d) T s))), s the carrier to noise density [Hz], T the dwell.
    """
    s = 10.0 ** (np.asarray(cn0_dbhz, dtype=np.float64) / 10.0)
    squared = bandwidth_hz * spacing / (2.0 * s) * (1.0 + 2.0 / ((2.0 - spacing) * dwell_s * s))
    return np.asarray(np.asarray(chip_m) * np.sqrt(squared))


def phase_sigma(cn0_dbhz: ArrayLike, bandwidth_hz: float, dwell_s: float) -> Floats:
    """Noise of the phase loop [cycles]: sqrt(B / s (1 + 1 / (2 T s))) / 2 pi (Kaplan and Hegarty 2006, eq. 5.8)."""
    s = 10.0 ** (np.asarray(cn0_dbhz, dtype=np.float64) / 10.0)
    return np.asarray(np.sqrt(bandwidth_hz / s * (1.0 + 1.0 / (2.0 * dwell_s * s))) / (2.0 * np.pi))


def rate_sigma(cn0_dbhz: ArrayLike, bandwidth_hz: float, dwell_s: float) -> Floats:
    """Noise of the frequency loop [Hz]: sqrt(4 B / s (1 + 1 / (T s))) / (2 pi T) (Kaplan and Hegarty 2006, eq.
    5.16)."""
    s = 10.0 ** (np.asarray(cn0_dbhz, dtype=np.float64) / 10.0)
    return np.asarray(np.sqrt(4.0 * bandwidth_hz / s * (1.0 + 1.0 / (dwell_s * s))) / (2.0 * np.pi * dwell_s))


# ---- reception ------------------------------------------------------------------------------------------------------


FOLIAGE_DB_M, FOLIAGE_AT_HZ = 1.3, 870e6
"""Loss in the crown of a tree in leaf: 1.3 dB/m at 870 MHz, growing with the root of the frequency (Goldhirsh and
Vogel 1998, Handbook of Propagation Effects for Vehicular and Personal Mobile Satellite Systems, chapter 2)."""
MOST_FOLIAGE_DB = 30.0
MOST_COPIES = 8
"""Number of copies of one signal that are tracked, the strongest first."""
NOTICED = 0.25
"""Reflections above this fraction of the direct amplitude set the status `multipath`."""


@dataclass(frozen=True, eq=False)
class TrackedSignals:
    """State of the tracking loops per satellite, arrays of shape (n, s); NaN without a signal."""

    level_db: Floats
    """Power [dB] relative to a satellite at the zenith under open sky."""
    code_m: Floats
    """Multipath error of the code [m]."""
    carrier_m: Floats
    """Multipath error of the carrier [m]."""
    arrival: Floats
    """Unit vector to the direction of arrival of the strongest copy, shape (n, s, 3)."""
    status: NDArray[np.int64]
    """Reception of each signal, one of the constants in `core.streams`."""


def gain(antenna: AntennaConfig, sine: Floats) -> tuple[Floats, Floats]:
    """Amplitude gain for right- and left-hand polarisation, by the sine of the elevation above the antenna plane."""
    nodes = [-1.0, 0.0, 1.0]
    found = [np.interp(sine, nodes, list(reversed(side))) for side in (antenna.rhcp_db, antenna.lhcp_db)]
    right, left = (10.0 ** (np.asarray(one) / 20.0) for one in found)
    return right, left


def foliage_db(length_m: Floats, frequency_hz: float) -> Floats:
    """Attenuation [dB] over a length inside tree crowns."""
    loss = FOLIAGE_DB_M * np.sqrt(frequency_hz / FOLIAGE_AT_HZ) * length_m
    return np.asarray(np.minimum(loss, MOST_FOLIAGE_DB))


def amplitudes(
    paths: SatellitePaths, boresight: Floats, config: GnssConfig, band: str, wavelength_m: Floats
) -> Complexes:
    """Complex amplitude of each path at the receiver, relative to a direct signal from the zenith.

    Satellites transmit right-hand polarisation. Each reflection preserves one part and reverses the polarisation of
    the other; two reflections are assumed to share one plane of incidence. Reflectors smaller than the first Fresnel
    zone return A cos / (lambda r) of the amplitude of an infinite plane (physical optics). Diffracted paths have the
    loss of a knife edge.
    """
    frequency = BANDS[band]
    right, left = np.ones(len(paths), np.complex128), np.zeros(len(paths), np.complex128)
    table = _permittivities(frequency)
    for mirror in (1, 0):
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
    phase = np.where(paths.edges > 0, phase * diffracted_amplitude(np.maximum(paths.extra, 0.0), wavelength_m), phase)
    return np.asarray(weak * phase * (right * for_right + left * for_left))


@lru_cache(maxsize=8)
def _permittivities(frequency_hz: float) -> Complexes:
    """Complex permittivities of all radio materials; NaN for materials that are known at other frequencies only."""
    ghz = frequency_hz / 1e9
    known = [any(band.lower_ghz <= ghz <= band.upper_ghz for band in RADIO_MATERIALS[name]) for name in RADIO]
    return np.array(
        [complex(permittivity(name, frequency_hz)) if good else np.nan for name, good in zip(RADIO, known, strict=True)]
    )


def receive(
    paths: SatellitePaths,
    clear: NDArray[np.bool_],
    above: NDArray[np.bool_],
    boresight: Floats,
    config: GnssConfig,
    band: str,
    signals: BandOfSatellites,
) -> TrackedSignals:
    """Track all satellites; `clear` and `above` (n, s) mark those in direct view and above the horizon."""
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
    return TrackedSignals(
        _spread(n, s, pairs, level), _spread(n, s, pairs, rest * chip[best]), _spread(n, s, pairs, carrier),
        arrival.reshape(n, s, 3), _status(paths, amplitude, clear, above),
    )  # fmt: skip


def _spread(n: int, s: int, pairs: NDArray[np.int64], values: Floats) -> Floats:
    whole = np.full(n * s, np.nan)
    whole[pairs] = values
    return whole.reshape(n, s)


def _status(
    paths: SatellitePaths, amplitude: Complexes, clear: NDArray[np.bool_], above: NDArray[np.bool_]
) -> NDArray[np.int64]:
    direct, mirrored = np.zeros(above.shape), np.zeros(above.shape)
    at = (paths.time, paths.satellite)
    straight = (paths.order == 0) & (paths.edges == 0)
    np.maximum.at(direct, (at[0][straight], at[1][straight]), np.abs(amplitude[straight]))
    np.maximum.at(mirrored, (at[0][~straight], at[1][~straight]), np.abs(amplitude[~straight]))
    found = np.where(clear, np.where(mirrored > NOTICED * direct, MULTIPATH, DIRECT), BLOCKED)
    found = np.where(~clear & (mirrored > 0), REFLECTED, found)
    return np.asarray(np.where(above, found, ABSENT), dtype=np.int64)
