"""Tracking loops: from signal paths to signal strength, code error and carrier error."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.pose import Floats, quat_conjugate, quat_rotate
from parhelion.core.random import Stream, to_normal, to_unit
from parhelion.core.streams import ABSENT, BLOCKED, DIRECT, MULTIPATH, REFLECTED
from parhelion.sensors.waves.diffraction import diffracted_amplitude
from parhelion.sensors.waves.gnss.config import AntennaConfig, GnssConfig
from parhelion.sensors.waves.gnss.paths import WAVELENGTH_M, DiffusePaths, SatellitePaths, SkyVisibility
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
    triangle = np.maximum(1.0 - x, 0.0)
    if not np.any(boc):
        return triangle
    return np.asarray(np.where(boc, np.where(x < 0.5, 1.0 - 3.0 * x, -triangle), triangle))


def _sum(delay: Floats, amplitude: Complexes, boc: NDArray[np.bool_], at: Floats) -> tuple[Floats, Floats]:
    """Real and imaginary part of the correlation of the sum of copies (m, k) at lags (m, g) [chips], shape (m, g)."""
    lag = at[:, :, None] - delay[:, None, :]
    value = correlation(lag, boc[:, None, None])
    return np.einsum("mgk,mk->mg", value, amplitude.real), np.einsum("mgk,mk->mg", value, amplitude.imag)


def _power(delay: Floats, amplitude: Complexes, boc: NDArray[np.bool_], at: Floats) -> Floats:
    real, imaginary = _sum(delay, amplitude, boc, at)
    return np.asarray(real * real + imaginary * imaginary)


def _balance(delay: Floats, amplitude: Complexes, boc: NDArray[np.bool_], at: Floats, spacing: float) -> Floats:
    """Early minus late power; the loop locks where it crosses 0 upwards."""
    early = _power(delay, amplitude, boc, at - spacing / 2.0)
    return np.asarray(early - _power(delay, amplitude, boc, at + spacing / 2.0))


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
    peak = grid[np.arange(len(grid)), np.argmax(_power(delay, amplitude, boc, grid), axis=1)]
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
    real, imaginary = _sum(delay, amplitude, boc, rest[:, None])
    return rest, real[:, 0] + 1j * imaginary[:, 0]


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
"""Attenuation in the crown of a tree in leaf for short paths: 1.3 dB/m at 870 MHz, proportional to the square root of
the frequency (Goldhirsh and Vogel 1998, Handbook of Propagation Effects for Vehicular and Personal Mobile Satellite
Systems, chapter 2)."""
FOLIAGE_SPREAD = 0.3
"""Standard deviation of the attenuation of one crown, relative to its mean. Assumed: within the 2 to 4 dB of the
log-normal component that Loo 1985 (IEEE Trans. Veh. Technol. 34, 122) fits to shadowing by trees."""
FOLIAGE_CELL_M = 1.0
"""Distance [m] over which the attenuation by foliage decorrelates; about the size of a branch."""
MOST_COPIES = 8
"""Number of copies of one signal that are tracked, the strongest first."""
NOTICED = 0.25
"""Reflections above this fraction of the direct amplitude set the status `multipath`."""
FAINTEST = 0.01
"""Blocked signals below this amplitude, 40 dB under that of the zenith, count as not received."""
AVERAGING_S = 1.0
"""Time [s] over which tracking loops and the estimate of C/N0 average; 1 / (2 x 0.5 Hz) for a code loop of 0.5 Hz."""
DELAY_EDGES_M = (10.0, 30.0, 90.0)
"""Excess path lengths [m] that separate the bins in which diffusely scattered signals are added up."""


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


@dataclass(frozen=True, eq=False)
class _Copies:
    """Copies of the signals at the correlator, one per row."""

    pair: NDArray[np.int64]
    """Index of the time, times the number of satellites, plus index of the satellite."""
    satellite: NDArray[np.int64]
    extra: Floats
    arrival: Floats
    amplitude: Complexes
    straight: NDArray[np.bool_]
    """True for the direct path."""


def gain(antenna: AntennaConfig, direction: Floats) -> tuple[Floats, Floats]:
    """Amplitude gain for right- and left-hand polarisation from unit vectors (m, 3) in the frame of the antenna."""
    sine = direction[:, 2]
    nodes = np.sin(np.radians(antenna.elevation_deg[::-1]))
    right, left = (np.interp(sine, nodes, side[::-1]) for side in (antenna.rhcp_db, antenna.lhcp_db))
    if antenna.body is not None:
        flat = np.maximum(np.hypot(direction[:, 0], direction[:, 1]), 1e-9)
        toward = np.radians(antenna.body.azimuth_deg)
        cosine = (direction[:, 0] * np.cos(toward) + direction[:, 1] * np.sin(toward)) / flat
        shadow = antenna.body.loss_db * np.maximum(cosine, 0.0) ** 2 * flat
        right, left = right - shadow, left - shadow
    return np.asarray(10.0 ** (right / 20.0)), np.asarray(10.0 ** (left / 20.0))


def foliage_db(length_m: Floats, frequency_hz: float, elevation_deg: ArrayLike = 45.0) -> Floats:
    """Attenuation [dB] over a length inside tree crowns.

    Short paths have a constant attenuation per metre. For long ones, scattering around and within the trees limits
    the attenuation to 0.25 f^0.39 d^0.25 theta^0.05, f in MHz, d in metres, theta in degrees (ITU-R P.833, slant
    paths through woodland, as commonly quoted); the smaller value applies.
    """
    length, frequency_mhz = np.asarray(length_m, dtype=np.float64), frequency_hz / 1e6
    short = FOLIAGE_DB_M * np.sqrt(frequency_hz / FOLIAGE_AT_HZ) * length
    angle = np.maximum(np.asarray(elevation_deg, dtype=np.float64), 1.0)
    return np.asarray(np.minimum(short, 0.25 * frequency_mhz**0.39 * length**0.25 * angle**0.05))


def amplitudes(
    paths: SatellitePaths, quat_xyzw: Floats, config: GnssConfig, band: str, wavelength_m: Floats, seed: int | None
) -> Complexes:
    """Complex amplitude of each path at the receiver, relative to a direct signal from the zenith.

    Satellites transmit right-hand polarisation. Each reflection preserves one part and reverses the polarisation of
    the other; two reflections are assumed to share one plane of incidence. Reflectors smaller than the first Fresnel
    zone return A cos / (lambda r) of the amplitude of an infinite plane (physical optics). Diffracted paths have the
    loss of a knife edge. With a `seed`, the attenuation by foliage varies log-normally from place to place.
    """
    frequency = BANDS[band]
    permittivities = _permittivities(frequency)
    right, left = np.ones(len(paths), np.complex128), np.zeros(len(paths), np.complex128)
    for mirror in range(2):
        rows = np.flatnonzero(paths.radio[:, mirror] >= 0)
        te, tm = fresnel(paths.cos[rows, mirror], permittivities[paths.radio[rows, mirror]])
        same, other = circular(te, tm)
        share = np.minimum(1.0, paths.size[rows, mirror] / wavelength_m[rows])
        right[rows], left[rows] = (
            share * (same * right[rows] + other * left[rows]),
            share * (other * right[rows] + same * left[rows]),
        )
    for_right, for_left = gain(config.antenna, quat_rotate(quat_conjugate(quat_xyzw[paths.time]), paths.arrival))
    elevation = np.degrees(np.arcsin(np.clip(paths.arrival[:, 2], -1.0, 1.0)))
    loss = foliage_db(paths.foliage, frequency, elevation)
    if seed is not None:
        loss = np.maximum(loss * (1.0 + FOLIAGE_SPREAD * _foliage_draw(paths, seed)), 0.0)
    phase = np.exp(-2j * np.pi * np.mod(paths.extra / wavelength_m, 1.0))
    phase = np.where(paths.edges > 0, phase * diffracted_amplitude(np.maximum(paths.extra, 0.0), wavelength_m), phase)
    return np.asarray(10.0 ** (-loss / 20.0) * phase * (right * for_right + left * for_left))


def _foliage_draw(paths: SatellitePaths, seed: int) -> Floats:
    """Standard normal numbers by satellite, direction and place inside the foliage."""
    inside = np.floor(paths.foliage[:, None] * paths.arrival / FOLIAGE_CELL_M + 4096.0).astype(np.int64)
    cell = inside[:, 0] * 73_856_093 ^ inside[:, 1] * 19_349_663 ^ inside[:, 2] * 83_492_791 ^ paths.satellite * 7919
    a, b, _, _ = Stream(seed, "gnss/foliage").words(cell & 0xFFFFFFFF)
    return np.asarray(to_normal(a, b)[0], dtype=np.float64)


@lru_cache(maxsize=8)
def _permittivities(frequency_hz: float) -> Complexes:
    """Complex permittivities of all radio materials; NaN for materials that are known at other frequencies only."""
    ghz = frequency_hz / 1e9
    known = [any(band.lower_ghz <= ghz <= band.upper_ghz for band in RADIO_MATERIALS[name]) for name in RADIO]
    return np.array(
        [complex(permittivity(name, frequency_hz)) if good else np.nan for name, good in zip(RADIO, known, strict=True)]
    )


def receive(
    sight: SkyVisibility,
    above: NDArray[np.bool_],
    quat_xyzw: Floats,
    config: GnssConfig,
    band: str,
    signals: BandOfSatellites,
    seed: int | None = None,
    speed_m_s: Floats | None = None,
) -> TrackedSignals:
    """Track all satellites with the antenna in orientation `quat_xyzw` (n, 4).

    `above` (n, s) marks satellites above the horizon. `seed` selects the random structure of rough surfaces and
    foliage; None leaves it out. `speed_m_s` (n,) is that of the antenna; a moving antenna averages fading.
    """
    n, s = above.shape
    copies = _specular(sight.paths, s, quat_xyzw, config, band, signals, seed)
    looks = 1.0 + AVERAGING_S * (np.zeros(n) if speed_m_s is None else speed_m_s) / (WAVELENGTH_M / 2.0)
    if seed is not None and len(sight.diffuse):
        copies = _joined(copies, _diffuse(sight.diffuse, s, quat_xyzw, config, signals, seed, looks))
    order = np.lexsort((-np.abs(copies.amplitude), copies.pair))
    pairs, first, counts = np.unique(copies.pair[order], return_index=True, return_counts=True)
    rank = np.arange(len(order)) - np.repeat(first, counts)
    strong = rank < MOST_COPIES
    line = np.repeat(np.arange(len(pairs)), counts)[strong]
    rows, rank = order[strong], rank[strong]
    chip = signals.chip_m[copies.satellite]
    delay = np.zeros((len(pairs), MOST_COPIES))
    amplitude = np.zeros((len(pairs), MOST_COPIES), np.complex128)
    delay[line, rank], amplitude[line, rank] = copies.extra[rows] / chip[rows], copies.amplitude[rows]
    best = order[first] if len(pairs) else np.zeros(0, np.int64)
    wavelength = signals.wavelength_m[copies.satellite[best]]
    rest, prompt = track(delay, amplitude, config.loops.spacing_chips, signals.boc[copies.satellite[best]])
    own = np.exp(2j * np.pi * np.mod(copies.extra[best] / wavelength, 1.0))
    carrier = copies.extra[best] - wavelength / (2.0 * np.pi) * np.angle(prompt * own)
    if speed_m_s is not None:
        # The phases of reflections rotate against that of the direct signal, and the loops average their errors.
        average = np.where(copies.straight[best], 1.0 / np.sqrt(looks[pairs // s]), 1.0)
        rest, carrier = rest * average, carrier * average
    level = 20.0 * np.log10(np.maximum(np.abs(prompt), 1e-6))
    arrival = np.full((n * s, 3), np.nan)
    arrival[pairs] = copies.arrival[best]
    return TrackedSignals(
        _spread(n, s, pairs, level),
        _spread(n, s, pairs, rest * chip[best]),
        _spread(n, s, pairs, carrier),
        arrival.reshape(n, s, 3),
        _status(copies, sight.clear, above),
    )


def _specular(
    paths: SatellitePaths,
    s: int,
    quat_xyzw: Floats,
    config: GnssConfig,
    band: str,
    signals: BandOfSatellites,
    seed: int | None,
) -> _Copies:
    """Copies by direct, reflected and diffracted paths."""
    paths = paths.rows(np.isfinite(signals.wavelength_m[paths.satellite]))
    amplitude = amplitudes(paths, quat_xyzw, config, band, signals.wavelength_m[paths.satellite], seed)
    straight = (paths.order == 0) & (paths.edges == 0)
    return _Copies(paths.time * s + paths.satellite, paths.satellite, paths.extra, paths.arrival, amplitude, straight)


def _diffuse(
    found: DiffusePaths,
    s: int,
    quat_xyzw: Floats,
    config: GnssConfig,
    signals: BandOfSatellites,
    seed: int,
    looks: Floats,
) -> _Copies:
    """Copies by diffuse scattering, added up by bins of delay.

    Scattered waves are depolarised: half of their power has either hand. The phase of each surface cell is random, so
    the sum fades as the antenna moves (Rayleigh without, Rician with a direct signal). The field decorrelates within
    half a wavelength; a receiver that passes `looks` (n,) such lengths while it averages sees fades, in decibels,
    that are smaller by the square root of their number.
    """
    found = found.rows(np.isfinite(signals.wavelength_m[found.satellite]))
    right, left = gain(config.antenna, quat_rotate(quat_conjugate(quat_xyzw[found.time]), found.arrival))
    turns = found.extra / signals.wavelength_m[found.satellite]
    turns = turns + to_unit(Stream(seed, "gnss/rough").words(found.cell)[0])
    size = found.amplitude * np.sqrt((right * right + left * left) / 2.0)
    place = found.time * s + found.satellite
    key = place * (len(DELAY_EDGES_M) + 1) + np.searchsorted(DELAY_EDGES_M, found.extra)
    order = np.lexsort((-size, key))
    keys, first, group = np.unique(key[order], return_index=True, return_inverse=True)
    group = np.asarray(group).reshape(-1)
    wave = (size * np.exp(-2j * np.pi * np.mod(turns, 1.0)))[order]
    power = (size * size)[order]
    total = np.bincount(group, wave.real, len(keys)) + 1j * np.bincount(group, wave.imag, len(keys))
    mean = np.bincount(group, power, len(keys))
    extra = np.bincount(group, power * found.extra[order], len(keys)) / mean
    best = order[first] if len(keys) else np.zeros(0, np.int64)
    fade = np.maximum(np.abs(total) / np.sqrt(mean), 1e-6)
    total = total * fade ** (1.0 / np.sqrt(looks[found.time[best]]) - 1.0)
    return _Copies(place[best], found.satellite[best], extra, found.arrival[best], total, np.zeros(len(keys), bool))


def _joined(a: _Copies, b: _Copies) -> _Copies:
    return _Copies(*(np.concatenate([getattr(a, one.name), getattr(b, one.name)]) for one in fields(_Copies)))


def _spread(n: int, s: int, pairs: NDArray[np.int64], values: Floats) -> Floats:
    whole = np.full(n * s, np.nan)
    whole[pairs] = values
    return whole.reshape(n, s)


def _status(copies: _Copies, clear: NDArray[np.bool_], above: NDArray[np.bool_]) -> NDArray[np.int64]:
    strongest = np.zeros((2, above.size))
    np.maximum.at(strongest, (copies.straight.astype(np.int64), copies.pair), np.abs(copies.amplitude))
    other, direct = strongest.reshape(2, *above.shape)
    found = np.where(clear, np.where(other > NOTICED * direct, MULTIPATH, DIRECT), BLOCKED)
    found = np.where(~clear & (np.maximum(direct, other) > FAINTEST), REFLECTED, found)
    return np.asarray(np.where(above, found, ABSENT), dtype=np.int64)
