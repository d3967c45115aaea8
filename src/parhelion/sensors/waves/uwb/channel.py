"""Receiver model: impulse response from propagation paths and diffuse field, signal strength and first path."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Table
from parhelion.core.constants import BOLTZMANN_J_K, SPEED_OF_LIGHT_M_S
from parhelion.core.geometry import fibonacci_sphere
from parhelion.core.noise import normals
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_normal, to_unit
from parhelion.rays.records import Rays
from parhelion.sensors.waves.radio import RadioScene, Wave, free_space_gain
from parhelion.sensors.waves.uwb.config import UwbConfig
from parhelion.sensors.waves.uwb.paths import RadioPaths, in_order
from parhelion.surfaces.radio import Complexes, fresnel

ROOM_K = 290.0
"""Temperature of noise figures (IEEE Std 161)."""
_FREQUENCIES = 33
_WAVES = 128
"""Number of plane waves of a shadowing field."""
_COARSE = 6
"""Samples per reciprocal bandwidth in the first-path search."""


def pulse(time_s: ArrayLike, bandwidth_hz: float, roll_off: float) -> Floats:
    """Raised-cosine pulse with value 1 at time 0: the matched-filter output for the pulse of IEEE 802.15.4.

    p(t) = sinc(B t) cos(pi b B t) / (1 - (2 b B t)^2) with roll-off b; pi/4 sinc(1 / 2b) at a zero divisor.
    """
    x = np.asarray(time_s, dtype=np.float64) * bandwidth_hz
    divisor = 1.0 - (2.0 * roll_off * x) ** 2
    flat = np.abs(divisor) < 1e-9
    bare = np.sinc(x)
    shape = bare * np.cos(np.pi * roll_off * x) / np.where(flat, 1.0, divisor)
    return np.asarray(np.where(flat, np.pi / 4.0 * bare, shape))


def effective_bandwidth(bandwidth_hz: float, roll_off: float) -> float:
    """Root-mean-square bandwidth [Hz] of the raised-cosine spectrum about its centre.

    Closed form of sqrt(int f^2 S df / int S df): B sqrt(1/12 + b^2 (1/4 - 2/pi^2)), or B / sqrt(12) for a flat band.
    """
    return bandwidth_hz * float(np.sqrt(1.0 / 12.0 + roll_off**2 * (0.25 - 2.0 / np.pi**2)))


def noise_dbm(bandwidth_hz: float, noise_figure_db: float) -> float:
    """Receiver noise power [dBm]: k T B F."""
    return float(10.0 * np.log10(BOLTZMANN_J_K * ROOM_K * bandwidth_hz * 1e3) + noise_figure_db)


def impulse_response(
    delay_s: Floats, gain: Complexes, time_s: Floats, bandwidth_hz: float, roll_off: float
) -> Complexes:
    """Impulse response h(t) = sum_k a_k p(t - tau_k) at times [s], shape (t,)."""
    offset = time_s[:, None] - delay_s
    return np.asarray(np.sum(gain * pulse(offset, bandwidth_hz, roll_off), axis=1))


def received_gain(delay_s: Floats, gain: Complexes, bandwidth_hz: float) -> float:
    """Ratio of received to transmitted power, averaged over the band: the mean of |H(f)|^2. Only narrow bands fade."""
    if len(gain) == 1:
        return float(np.abs(gain[0]) ** 2)
    offset = np.linspace(-0.5, 0.5, _FREQUENCIES) * bandwidth_hz
    phasor = np.exp(-2j * np.pi * offset[:, None] * (delay_s - delay_s[0]))
    return float(np.mean(np.abs(np.sum(gain * phasor, axis=1)) ** 2))


@dataclass(frozen=True)
class FirstPath:
    """First path as the receiver detects it."""

    delay_s: float
    power: float
    """Power of the impulse response at that delay, relative to the transmitted power."""


def first_path(
    delay_s: Floats, gain: Complexes, bandwidth_hz: float, roll_off: float, least_power: float, dynamic_range_db: float
) -> FirstPath | None:
    """First maximum of the impulse response above the threshold; None if there is none.

    The threshold is the higher of `least_power` and the power of the strongest path minus the dynamic range. Paths
    separated by less than 1 / B merge, and the maximum then lies between them. Rows must be sorted by delay.
    """
    power = np.abs(gain) ** 2
    strongest = int(np.argmax(power))
    threshold = max(least_power, float(power[strongest]) * 10.0 ** (-dynamic_range_db / 10.0))
    # Weaker paths shift a maximum by less than a hundredth of its width.
    audible = power > 1e-4 * threshold
    delay_s, gain = delay_s[audible], gain[audible]
    if not len(delay_s):
        return None
    if len(delay_s) == 1:
        single = float(np.abs(gain[0]) ** 2)
        return FirstPath(float(delay_s[0]), single) if single >= threshold else None
    step = 1.0 / (_COARSE * bandwidth_hz)
    # Maxima lie within one pulse width of a path, so only those samples are evaluated.
    number = np.floor((delay_s - delay_s[0]) / step).astype(np.int64)
    near = np.unique(number[:, None] + np.arange(-2 * _COARSE, 2 * _COARSE + 1))
    level = _power(delay_s, gain, near * step + delay_s[0], bandwidth_hz, roll_off)
    middle = np.arange(1, len(near) - 1)
    peak = (level[middle] >= level[middle - 1]) & (level[middle] > level[middle + 1]) & (level[middle] >= threshold)
    peak &= (near[middle + 1] - near[middle - 1]) == 2
    # Reject side lobes of strong paths: a valid maximum has a path of comparable power within half a pulse width.
    loud = delay_s[np.abs(gain) ** 2 >= 0.1 * threshold] - delay_s[0]
    apart = np.abs(near[middle] * step - loud[:, None]).min(axis=0, initial=np.inf)
    peak &= apart <= 0.75 / bandwidth_hz
    if not peak.any():
        return None
    at = float(near[middle[np.argmax(peak)]] * step + delay_s[0])
    for width in (step, step / 16.0):
        at = _summit(delay_s, gain, at, width, bandwidth_hz, roll_off)
    return FirstPath(at, float(_power(delay_s, gain, np.array([at]), bandwidth_hz, roll_off)[0]))


def _power(delay_s: Floats, gain: Complexes, time_s: Floats, bandwidth_hz: float, roll_off: float) -> Floats:
    return np.asarray(np.abs(impulse_response(delay_s, gain, time_s, bandwidth_hz, roll_off)) ** 2)


def _summit(delay_s: Floats, gain: Complexes, at: float, width: float, bandwidth_hz: float, roll_off: float) -> float:
    """Vertex of the parabola through three samples spaced by `width`."""
    low, middle, high = _power(delay_s, gain, at + width * np.array([-1.0, 0.0, 1.0]), bandwidth_hz, roll_off)
    bend = low - 2.0 * middle + high
    return at if bend >= 0 else at + width * float(np.clip(0.5 * (low - high) / bend, -1.0, 1.0))


def arrival_sigma(snr: ArrayLike, effective_bandwidth_hz: float) -> Floats:
    """Lower bound [s] of the standard deviation of an arrival time: 1 / (2 sqrt(2) pi b sqrt(SNR)), SNR as a ratio.

    Cramer-Rao bound for a single path in white noise (Gezici et al. 2005, IEEE Signal Process. Mag. 22(4), 70).
    """
    ratio = np.asarray(snr, dtype=np.float64)
    return np.asarray(1.0 / (2.0 * np.sqrt(2.0) * np.pi * effective_bandwidth_hz * np.sqrt(ratio)))


def shadowing(places: Floats, seed: int, name: str, distance_m: float) -> Floats:
    """Spatially correlated standard normal field at positions (n, 3) [m], constant over time, shape (n,).

    A sum of plane waves over x and y whose spectrum gives the correlation exp(-r / distance_m) (Gudmundson 1991,
    Electron. Lett. 27, 2145).
    """
    from scipy.special import ndtr

    drawn = normals(Stream(seed, name), np.arange(2 * _WAVES, dtype=np.int64))
    # Radial distribution of the spectrum of a two-dimensional exponential correlation: 1 - (1 + k^2 L^2)^(-1/2).
    share, turn, phase = ndtr(drawn[:_WAVES, 0]), ndtr(drawn[:_WAVES, 1]), ndtr(drawn[_WAVES:, 0])
    radius = np.minimum(np.sqrt(share**-2.0 - 1.0), 1e3) / distance_m
    wave = radius * np.stack([np.cos(2.0 * np.pi * turn), np.sin(2.0 * np.pi * turn)])
    return np.asarray(np.sqrt(2.0 / _WAVES) * np.cos(places[:, :2] @ wave + 2.0 * np.pi * phase).sum(axis=1))


def distance_by_rssi(rssi_dbm: ArrayLike, sent_dbm: float, carrier_hz: float, exponent: float) -> Floats:
    """Distance [m] for a signal strength by the log-distance law: free space up to 1 m, exponent n beyond.

    d = 10^((P_1m - P) / (10 n)) (Rappaport 2002, section 4.9).
    """
    at_one_metre = sent_dbm + 20.0 * np.log10(SPEED_OF_LIGHT_M_S / (4.0 * np.pi * carrier_hz))
    return np.asarray(10.0 ** ((at_one_metre - np.asarray(rssi_dbm, dtype=np.float64)) / (10.0 * exponent)))


# ---- Links before receiver errors: arrival, signal strength and line of sight ----------------------------------------


TAPS, TAPS_BEFORE = 128, 16
"""Number of taps of a recorded impulse response (two per reciprocal bandwidth), and of taps before the first path."""


@dataclass(frozen=True, eq=False)
class Links:
    """Links between n measurements and a anchors; NaN for frames that were not received."""

    arrival_m: Floats
    """Path length [m] from the arrival time of the detected first path, shape (n, a)."""
    snr: Floats
    """Ratio of first-path power to the noise power of the impulse response, shape (n, a)."""
    rssi_dbm: Floats
    """Received power over the band [dBm], shape (n, a)."""
    first_path_dbm: Floats
    """Power of the detected first path [dBm], shape (n, a)."""
    los: NDArray[np.bool_]
    """True if the direct path is unobstructed, shape (n, a)."""


def sent_dbm(sheet: UwbConfig) -> float:
    """Transmitted power of a frame plus the gain of both antennas [dBm]."""
    return sheet.tx_power_dbm + sheet.boost_db + sheet.antenna_gain_dbi


def response_noise_dbm(sheet: UwbConfig) -> float:
    """Noise power of the impulse response [dBm]: receiver noise minus the processing gain of the preamble."""
    return noise_dbm(sheet.bandwidth_hz, sheet.noise_figure_db) - sheet.gain_db


def saturated(level_dbm: Floats, limit_dbm: float | None, sharpness: float) -> Floats:
    """Reported level [dBm] of a receiver that saturates smoothly at a limit: (P^-k + S^-k)^(-1/k) in mW.

    The DW1000 user manual 2.12, section 4.7.2, states that the estimate is close to the actual power at low levels and
    falls below it at high levels.
    """
    if limit_dbm is None:
        return level_dbm
    k = 0.1 * sharpness
    return np.asarray(-np.log10(10.0 ** (-k * level_dbm) + 10.0 ** (-k * limit_dbm)) / k)


def level_bias_m(level_dbm: Floats, sheet: UwbConfig) -> Floats:
    """Range bias [m] at received levels [dBm], zero at the calibration level (Decawave APS011, section 3)."""
    if not sheet.level_bias_m:
        return np.zeros(np.shape(level_dbm))
    level, bias = np.array(sheet.level_bias_m).T

    def table(at: ArrayLike) -> Floats:
        found = np.interp(-np.asarray(at), -level, bias)
        above = np.maximum(np.asarray(at) - level[0], 0.0)
        slope = (bias[1] - bias[0]) / (level[0] - level[1]) if len(level) > 1 else 0.0
        return np.asarray(found - slope * above)

    return np.asarray(sheet.level_bias_gain * (table(level_dbm) - table(sheet.calibration_level_dbm)))


def received_share(level_dbm: Floats, sheet: UwbConfig) -> Floats:
    """Probability that an exchange of two frames succeeds at received levels [dBm].

    The packet error rate is logistic in the level, 10 % at the sensitivity, and changes by one decade per
    `packet_error_decade_db` above it.
    """
    above = np.asarray(level_dbm, dtype=np.float64) - sheet.least_dbm
    if sheet.packet_error_decade_db == 0.0:
        return np.asarray(above >= 0.0, dtype=np.float64)
    # Odds of 1:9 at the sensitivity and 1:99 one decade above it.
    odds = np.exp(np.clip(-np.log(9.0) - np.log(11.0) * above / sheet.packet_error_decade_db, -700.0, 700.0))
    return np.asarray((1.0 / (1.0 + odds)) ** 2)


def links_of(
    paths: RadioPaths,
    count: int,
    anchors: int,
    sheet: UwbConfig,
    chance: Floats | None = None,
    shadow_db: Floats | None = None,
    first: int = 0,
) -> Links:
    """Links between `count` measurements and `anchors` anchors, from all their paths.

    `chance` holds uniform numbers in (0, 1), shape (count, anchors), that decide which frames are lost; without it a
    frame is lost if its probability of success is below one half. `shadow_db` is added to the received power, with the
    same shape. `first` is the number of the first sample, which
    selects the carrier of radios that hop.
    """
    arrival, snr, rssi, first_dbm = (np.full((count, anchors), np.nan) for _ in range(4))
    los = np.zeros((count, anchors), bool)
    direct = (paths.order == 0) & (paths.surfaces == 0) & (paths.edges == 0)
    los[paths.sample[direct], paths.anchor[direct]] = True
    sent, noise = sent_dbm(sheet), response_noise_dbm(sheet)
    least = 10.0 ** ((noise + sheet.threshold_db - sent) / 10.0)
    number = paths.sample * anchors + paths.anchor
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    hops = 1e9 * np.array(sheet.hop_carriers_ghz)
    for start, end in zip(starts, [*starts[1:], len(number)], strict=False):
        delay, gain = paths.delay[start:end], paths.gain[start:end]
        at = int(paths.sample[start]), int(paths.anchor[start])
        if len(hops):
            carrier = hops[(first + at[0]) % len(hops)]
            gain = gain * np.exp(-2j * np.pi * (carrier - sheet.carrier_hz) * delay)
        power = received_gain(delay, gain, sheet.bandwidth_hz)
        strength = sent + 10.0 * np.log10(max(power, 1e-40)) + (0.0 if shadow_db is None else float(shadow_db[at]))
        if received_share(np.asarray(strength), sheet) < (0.5 if chance is None else chance[at]):
            continue
        if sheet.method == "rssi":
            rssi[at], snr[at], arrival[at] = strength, 10.0 ** ((strength - noise) / 10.0), paths.length[start]
            continue
        found = first_path(delay, gain, sheet.bandwidth_hz, sheet.roll_off, least, sheet.dynamic_range_db)
        if found is None or found.delay_s * SPEED_OF_LIGHT_M_S > sheet.max_range_m:
            continue
        arrival[at], rssi[at] = found.delay_s * SPEED_OF_LIGHT_M_S, strength
        first_dbm[at] = sent + 10.0 * np.log10(found.power)
        snr[at] = found.power * 10.0 ** ((sent - noise) / 10.0)
    return Links(arrival, snr, rssi, first_dbm, los)


def impulse_responses(paths: RadioPaths, links: Links, sheet: UwbConfig) -> tuple[Floats, NDArray[np.complex64]]:
    """Tap times relative to the first path [s], shape (t,), and noise-free responses [sqrt(mW)], shape (n, a, t).

    Links that were not received are NaN.
    """
    time = (np.arange(TAPS) - TAPS_BEFORE) / (2.0 * sheet.bandwidth_hz)
    response = np.full((*links.arrival_m.shape, TAPS), np.nan, np.complex64)
    sent = 10.0 ** (sent_dbm(sheet) / 20.0)
    number = paths.sample * links.arrival_m.shape[1] + paths.anchor
    starts = np.flatnonzero(np.diff(number, prepend=-1))
    for first, last in zip(starts, [*starts[1:], len(number)], strict=False):
        at = int(paths.sample[first]), int(paths.anchor[first])
        if np.isfinite(links.arrival_m[at]):
            when = links.arrival_m[at] / SPEED_OF_LIGHT_M_S + time
            delay, gain = paths.delay[first:last], paths.gain[first:last]
            response[at] = sent * impulse_response(delay, gain, when, sheet.bandwidth_hz, sheet.roll_off)
    return time, response


def arrival_sigma_m(links: Links, sheet: UwbConfig) -> Floats:
    """Standard deviation [m] of each arrival due to noise, shape (n, a)."""
    ratio = np.where(np.isfinite(links.snr), links.snr, 1.0)
    sigma = SPEED_OF_LIGHT_M_S * arrival_sigma(ratio, effective_bandwidth(sheet.bandwidth_hz, sheet.roll_off))
    return np.where(np.isfinite(links.snr), sigma, np.nan)


# ---- diffuse multipath of closed rooms -------------------------------------------------------------------------------


RAYS = 128
"""Number of rays that measure a room."""
LEAST_CLOSED = 0.9
"""Minimum fraction of rays that meet a surface within REACH_M for a closed room."""
REACH_M = 40.0
OPENING = 1e-3
"""Minimum power coupling between two rooms. Assumed: gaps and closed doors, 30 dB below an open wall."""
LEAST_ABSORPTION = 0.1
"""Lower limit of the mean absorption: doors, people and furniture."""
DIFFUSE_TAPS = 48
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
    """Rooms around positions (n, 3) [m], measured with rays through the static world.

    The diffuse part of the impulse response is what single reflections do not explain. Room electromagnetics (Andersen,
    Nielsen, Pedersen, Bauch and Herdin 2007, IEEE Antennas Propag. Mag. 49(2), 27) treats a room like a reverberation
    chamber. Reflections and scattering fill it with a diffuse field that decays exponentially:

        tau = 4 V / (c A a)                  reverberation time; V volume, A surface, a mean absorption
        G   = lambda^2 c tau / (8 pi V)      mean gain between isotropic antennas of one polarisation

    Places without a closed room have no diffuse field.
    """
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
    rows = len(sample) * DIFFUSE_TAPS
    none, nowhere = np.zeros(rows, np.int64), np.full((rows, 3), np.nan)
    added = RadioPaths(
        np.repeat(sample, DIFFUSE_TAPS),
        np.repeat(anchor, DIFFUSE_TAPS),
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
    """Excess delays [s] and complex amplitudes with unit total mean power, shapes (m, DIFFUSE_TAPS).

    The power decays as exp(-x) in one room, x = t / tau, and as x exp(-x) through two rooms in series.

    They depend on the position of the tag and on the anchor only, so a tag at rest sees a constant channel.
    """
    cell = np.floor(tags / CELL_M).astype(np.int64)
    mixed = (cell[:, 0] * 73_856_093) ^ (cell[:, 1] * 19_349_663) ^ (cell[:, 2] * 83_492_791) ^ (anchor * 2_654_435_761)
    element = ((mixed[:, None] * DIFFUSE_TAPS + np.arange(DIFFUSE_TAPS)) & 0xFFFFFFFF).astype(np.uint32)
    a, b, c, _ = Stream(0, "uwb/diffuse").words(element.reshape(-1))
    drawn = np.asarray(to_normal(a, b))
    amplitude = (drawn[0] + 1j * drawn[1]).reshape(element.shape) / np.sqrt(2.0)
    # Stratified delays; the profile is in the amplitudes.
    x = LONGEST * (np.arange(DIFFUSE_TAPS) + np.asarray(to_unit(c)).reshape(element.shape)) / DIFFUSE_TAPS
    profile = np.where(one_room[:, None], np.exp(-x), x * np.exp(-x)) * LONGEST / DIFFUSE_TAPS
    return x * decay_s[:, None], amplitude * np.sqrt(profile)
