"""Constant false alarm rate (CFAR) detection: cells of the cube that exceed a threshold from their training cells.

The threshold is a multiple of the noise estimate of the training cells. An ordered statistic needs no sorting: a cell
passes if enough training cells, times the multiple, lie below it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.random import Stream
from parhelion.rays.device import Engine, copied, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.sensors.waves.radar.config import Detection, RadarConfig
from parhelion.sensors.waves.radar.cube import Axes, array_response, noise_correlation, window_response

# ---- Thresholds for a constant false alarm rate in noise that windows correlate -------------------------------------


_DRAWN = 3_200_000
"""Random numbers for an ordered statistic of correlated cells. They determine a probability of 1e-5 to 3 % in 0.4 s."""


@lru_cache(maxsize=64)
def threshold_multiple(
    method: str, false_alarm: float, training: int, rank: int, looks: int = 1, window: str = "none", guard: int = 2
) -> float:
    """Multiple of the noise estimate for a probability of false alarm.

    The estimate is the training cells' mean (ca), the smaller mean of both sides (so; Trunk 1978, IEEE Trans. AES 14,
    46), or their `rank`-th smallest (os).

    `looks` is the number of powers that a cell averages. `window` is the window along the axis of the `training` cells,
    which lie on both sides beyond `guard` cells. ca is exact. os without a window is the integral of Rohling 1983 (IEEE
    Trans. AES 19, 608); so, and os with a window, are means over random training cells, valid if the guard cells cover
    the correlation length of the window.
    """
    from scipy import optimize

    correlation = training_correlation(training, guard, window)

    def chance(multiple: float) -> float:
        if method == "ca":
            return mean_chance(multiple, correlation, looks)
        return rank_chance(multiple, training, rank, looks) if levels is None else levels.chance(multiple)

    drawn = method == "so" or (method == "os" and window != "none")
    levels = _Levels(correlation[1:, 1:], None if method == "so" else rank, looks) if drawn else None
    high = 2.0
    while chance(high) > false_alarm:
        high *= 2.0
    return float(optimize.brentq(lambda m: np.log(chance(m) / false_alarm), 1e-3, high, xtol=1e-9))


def rank_chance(multiple: float, training: int, rank: int, looks: int) -> float:
    """Probability that a noise cell exceeds a multiple of the `rank`-th smallest of independent training cells."""
    from scipy import integrate, special, stats

    def passed(share: float) -> float:
        # `share` is the probability that one training cell lies below; that of the rank has a beta distribution.
        level = special.gammaincinv(looks, share)
        return float(special.gammaincc(looks, multiple * level) * stats.beta.pdf(share, rank, training - rank + 1))

    return float(integrate.quad(passed, 0.0, 1.0, limit=400, epsabs=0.0, epsrel=1e-8, points=(0.01, 0.5, 0.99))[0])


class _Levels:
    """Random values of the `rank`-th smallest of correlated training cells, or of the smaller mean if `rank` is None.

    Small values determine the result. Importance sampling therefore scales the powers by a factor s and weights each
    draw by s^n exp((1 - s) G), where G is the sum of its n powers.
    """

    def __init__(self, correlation: NDArray[np.float64], rank: int | None, looks: int) -> None:
        training, self._looks = len(correlation), looks
        count, size = max(500, _DRAWN // (training * looks)), training * looks
        generator = Stream(0, "radar/threshold").generator()
        values, vectors = np.linalg.eigh(correlation)
        # The symmetric root: eigenvectors of equal eigenvalues differ between processors, but this product does not.
        mix = (vectors * np.sqrt(np.maximum(values, 0.0))) @ vectors.T
        drawn, total = np.zeros((count, training)), np.zeros(count)
        for _ in range(looks):
            white = generator.normal(scale=np.sqrt(0.5), size=(2, count, training))
            drawn += (white[0] @ mix.T) ** 2 + (white[1] @ mix.T) ** 2
            total += np.sum(white**2, axis=(0, 2))
        weaker = 1.0 - 0.35 * np.sqrt(16.0 / size) if size >= 16 else 0.65
        if rank is None:
            self._level = weaker * drawn.reshape(count, 2, training // 2).mean(axis=2).min(axis=1)
        else:
            self._level = weaker * np.partition(drawn, rank - 1, axis=1)[:, rank - 1]
        self._weight = size * np.log(weaker) + (1.0 - weaker) * total

    def chance(self, multiple: float) -> float:
        """Probability that a noise cell exceeds a multiple of the level."""
        from scipy import special

        if self._looks == 1:
            return float(np.mean(np.exp(self._weight - multiple * self._level)))
        return float(np.mean(special.gammaincc(self._looks, multiple * self._level) * np.exp(self._weight)))


def training_correlation(training: int, guard: int, window: str) -> NDArray[np.float64]:
    """Correlation of the complex noise of a cell and of its training cells, shape (training + 1, training + 1)."""
    steps = np.arange(guard + 1, guard + training // 2 + 1)
    place = np.concatenate([[0], -steps[::-1], steps])
    return noise_correlation(window, place[:, None] - place)


def mean_chance(multiple: float, correlation: NDArray[np.float64], looks: int) -> float:
    """Exact probability that a noise cell exceeds a multiple of the mean of its training cells.

    The cell minus the multiple times the mean is a quadratic form of complex normal numbers with one positive
    eigenvalue u and negative ones -m_j; each power has a gamma distribution of N looks. With s = 1/u, the probability
    is the sum over k < N of (-s)^k L^(k)(s) / k!, where L(s) is the product of (1 + s m_j)^-N. Without correlation this
    is Fisher's distribution with 2 N and 2 N M degrees of freedom.
    """
    training = len(correlation) - 1
    weight = np.full(training + 1, -multiple / training)
    weight[0] = 1.0
    values = np.sort(np.linalg.eigvals(weight[:, None] * correlation).real)
    if values[-1] <= 0.0:
        return 0.0
    part = np.maximum(-values[:-1], 0.0) / values[-1]
    ratio = part / (1.0 + part)
    sums = [looks * float(np.sum(ratio**k)) for k in range(1, looks)]
    terms = [1.0]
    for k in range(1, looks):
        terms.append(sum(sums[k - 1 - i] * terms[i] for i in range(k)) / k)
    return float(np.exp(-looks * np.sum(np.log1p(part))) * sum(terms))


# ---- detection ------------------------------------------------------------------------------------------------------


def rank_of(settings: Detection) -> int:
    """Rank of the training cell that the ordered statistic uses, counted from 1."""
    return int(np.clip(round(settings.rank * settings.training), 1, settings.training))


@kernel_tree(
    fixed=("method", "along_speed", "ranges", "speeds", "elevations", "azimuths", "half", "guard", "rank", "wraps")
)
@dataclass
class Cells:
    """Shape of the cube and settings of the detector."""

    method: str
    along_speed: bool
    ranges: int
    speeds: int
    elevations: int
    azimuths: int
    half: int
    """Number of training cells on each side."""
    guard: int
    rank: int
    wraps: bool
    """Set if azimuth is periodic."""
    multiple: Any
    """Threshold in units of the noise estimate."""

    @classmethod
    def of(cls, engine: Engine, config: RadarConfig, shape: tuple[int, int, int, int], looks: int) -> Cells:
        """Detector for a cube of `shape` cells along range, speed, elevation and azimuth."""
        settings, wave = config.detection, config.waveform
        rank = rank_of(settings)
        window = wave.speed_window if settings.axis == "speed" else wave.range_window
        multiple = threshold_multiple(
            settings.method, settings.false_alarm, settings.training, rank, looks, window, settings.guard
        )
        return cls(
            settings.method,
            settings.axis == "speed",
            *shape,
            settings.training // 2,
            settings.guard,
            rank,
            config.turning is not None,
            engine.number(multiple),
        )


def alarms(cells: Cells, index: Any, power: Any) -> Any:
    """Code per cell: 0 below the threshold, 1 above it, 2 above it and a local maximum."""
    dr, mi = running_engine().dr, running_engine().mi
    beams = cells.elevations * cells.azimuths
    row, speed = index // (cells.speeds * beams), (index // beams) % cells.speeds
    elevation, azimuth = (index // cells.azimuths) % cells.elevations, index % cells.azimuths
    own = dr.gather(mi.Float, power, index)
    below, sums = mi.UInt32(0), []
    for side in (-1, 1):
        total = mi.Float(0.0)
        for step in range(cells.guard + 1, cells.guard + cells.half + 1):
            if cells.along_speed:
                place = (speed + (step if side > 0 else cells.speeds * step - step)) % cells.speeds
                at = (row * cells.speeds + place) * beams + index % beams
            else:
                # Beyond the ends of the range axis, more distant cells on the other side replace missing ones.
                plane, farther = cells.speeds * beams, step + cells.half
                if side > 0:
                    inside, there, other = row + step < cells.ranges, index + step * plane, index - farther * plane
                else:
                    inside, there, other = row >= step, index - step * plane, index + farther * plane
                if cells.ranges <= cells.guard + 3 * cells.half + step:
                    # With few ranges, the replacements can lie beyond the other end.
                    last = cells.ranges - 1
                    opposite = mi.Int32(row) - side * farther
                    opposite = dr.select(opposite < 0, 0, dr.select(opposite > last, last, opposite))
                    other = mi.UInt32(opposite) * plane + index % plane
                at = dr.select(inside, there, other)
            value = dr.gather(mi.Float, power, at)
            if cells.method == "os":
                below += dr.select(value * cells.multiple < own, mi.UInt32(1), mi.UInt32(0))
            else:
                total += value
        sums.append(total)
    if cells.method == "ca":
        passed = own * (2.0 * cells.half) > cells.multiple * (sums[0] + sums[1])
    elif cells.method == "so":
        passed = own * (1.0 * cells.half) > cells.multiple * dr.select(sums[0] < sums[1], sums[0], sums[1])
    else:
        passed = below >= cells.rank
    plane = cells.speeds * beams
    # `peak` is a new variable, because `&=` on an alias of `passed` would modify both.
    peak = passed & _beats(power, own, index, plane, row, cells.ranges, False)
    if cells.speeds > 1:
        peak &= _beats(power, own, index, beams, speed, cells.speeds, True)
    if cells.elevations > 1:
        peak &= _beats(power, own, index, cells.azimuths, elevation, cells.elevations, False)
    if cells.azimuths > 1:
        peak &= _beats(power, own, index, 1, azimuth, cells.azimuths, cells.wraps)
    result = dr.select(peak, mi.UInt32(2), dr.select(passed, mi.UInt32(1), mi.UInt32(0)))
    dr.eval(result)
    return result


def _beats(power: Any, own: Any, index: Any, stride: int, place: Any, count: int, wraps: bool) -> Any:
    """Mask of the cells that are stronger than both neighbours along an axis; the later of equal cells counts."""
    dr, mi = running_engine().dr, running_engine().mi
    first, last = place == 0, place == count - 1
    down = dr.select(first, index + (count - 1) * stride, index - stride)
    up = dr.select(last, index - (count - 1) * stride, index + stride)
    below, above = dr.gather(mi.Float, power, down), dr.gather(mi.Float, power, up)
    lower, upper = own >= below, own > above
    return lower & upper if wraps else (first | lower) & (last | upper)


def detect(engine: Engine, cells: Cells, power: Any) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Numbers of the cells above the threshold, and of those that are peaks."""
    count = cells.ranges * cells.speeds * cells.elevations * cells.azimuths
    code = copied(engine.frozen(alarms)(cells, engine.counting(count), power))
    passed = np.flatnonzero(code)
    return passed, passed[code[passed] == 2]


# ---- detections -----------------------------------------------------------------------------------------------------
# Interpolation of peaks between cells, and removal of sidelobes.


Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

_SIDELOBES_DB = {"none": 12.0, "hann": 29.0, "hamming": 38.0, "blackman": 52.0}
"""Sidelobe level of each window (Harris 1978) [dB]; weaker peaks next to a strong one are treated as its sidelobes."""
_NEAR = 8
"""Distance in range and speed within which a stronger peak is searched [cells]."""


@dataclass(frozen=True, eq=False)
class Peaks:
    """Interpolated peaks; angles in rad."""

    cell: IntArray
    """Number of the cell."""
    range_m: Floats
    speed_m_s: Floats
    azimuth: Floats
    elevation: Floats
    power: Floats
    """Power of the peak in units of the noise."""
    noise: Floats
    """Noise estimate of the training cells in the same unit."""


def peaks_of(power: NDArray[np.float32], cells: IntArray, axes: Axes, settings: Detection) -> Peaks:
    """Interpolate peaks between cells by the ratio to the stronger neighbour along each axis."""
    cells = cells[_no_sidelobe(power, cells, axes)]
    at = np.unravel_index(cells, axes.shape)
    peak = power[at].astype(np.float64)
    own, places = peak, []
    wave, array = axes.config.waveform, axes.config.array
    beam = "bell" if array is None else array.window
    kinds = (wave.range_window, wave.speed_window, beam, beam)
    wraps = (False, True, False, array is None)
    for axis, (kind, wrap) in enumerate(zip(kinds, wraps, strict=True)):
        place, count = at[axis], axes.shape[axis]
        if count < 2:
            places.append(place.astype(np.float64))
            continue
        sides = []
        for step in (-1, 1):
            moved = place + step
            beside = [*at]
            beside[axis] = moved % count if wrap else np.clip(moved, 0, count - 1)
            there = wrap | ((moved >= 0) & (moved < count))
            sides.append(np.where(there, power[tuple(beside)], 0.0).astype(np.float64))
        offset, gain = _between(kind, own, sides[0], sides[1], axes, axis)
        peak = peak / gain
        places.append(place + offset)
    speeds = axes.speed
    speed_step = float(speeds[1] - speeds[0]) if len(speeds) > 1 else 0.0
    speed = speeds[0] + places[1] * speed_step
    azimuth, elevation = _directions(axes, places[3], places[2])
    noise = noise_around(power, at, settings)
    return Peaks(cells, places[0] * axes.config.range_step_m, speed, azimuth, elevation, peak, noise)


def unfold_speeds(
    first_m_s: Floats, second_m_s: Floats, spans_m_s: tuple[float, float], limits_m_s: tuple[float, float]
) -> Floats:
    """Speeds [m/s] within `limits_m_s` whose aliases in two ramp trains match best.

    `first_m_s` and `second_m_s` (n,) are aliased speeds, known up to multiples of `spans_m_s`, which are lambda / 2 T
    of the two intervals T. Each alias of the first speed is a candidate; the closest one to an alias of the second wins
    (Chinese remainder theorem for measurements with errors). A measurement error of more than half the smallest
    distance between candidates gives a wrong alias, as in real parts.
    """
    first = np.asarray(first_m_s, np.float64)
    low = int(np.floor((limits_m_s[0] - spans_m_s[0]) / spans_m_s[0]))
    high = int(np.ceil((limits_m_s[1] + spans_m_s[0]) / spans_m_s[0]))
    candidates = first[:, None] + spans_m_s[0] * np.arange(low, high + 1)
    apart = candidates - np.asarray(second_m_s, np.float64)[:, None]
    apart = np.abs(apart - spans_m_s[1] * np.rint(apart / spans_m_s[1]))
    outside = (candidates < limits_m_s[0]) | (candidates > limits_m_s[1])
    best = np.argmin(np.where(outside, np.inf, apart), axis=1)
    return np.asarray(np.take_along_axis(candidates, best[:, None], axis=1)[:, 0])


def speed_error_m_s(snr: Floats, resolution_m_s: float) -> Floats:
    """Standard deviation [m/s] of a speed measured at a power ratio `snr`: the Cramer-Rao bound of a tone's frequency.

    sqrt(6 / snr) / 2 pi cells of `resolution_m_s`, for many ramps and an `snr` after integration well above 1 (Rife
    and Boorstyn 1974, IEEE Trans. IT 20, 591); at most a quarter of a cell.
    """
    error = np.sqrt(6.0 / np.maximum(np.asarray(snr, np.float64), 1e-3)) / (2.0 * np.pi)
    return np.asarray(resolution_m_s * np.minimum(error, 0.25))


def _between(kind: str, own: Floats, below: Floats, above: Floats, axes: Axes, axis: int) -> tuple[Floats, Floats]:
    """Distance of peaks from their cell towards the stronger neighbour [cells], and the share of power in the cell.

    Without a window the ratio q of amplitudes is d / (1 - d); with Hann's window it is (1 + d) / (2 - d). Other windows
    and beams are close to Gaussians, whose logarithms are parabolas.
    """
    side = np.where(above > below, 1.0, -1.0)
    q = np.sqrt(np.maximum(above, below) / np.maximum(own, 1e-30))
    if kind == "none":
        offset = q / (1.0 + q)
    elif kind == "hann":
        offset = (2.0 * q - 1.0) / (1.0 + q)
    else:
        low, middle, high = (np.log(np.maximum(one, 1e-30)) for one in (below, own, above))
        bend = low - 2.0 * middle + high
        usable = bend < -1e-6
        offset = np.where(usable, 0.5 * np.abs(low - high) / -np.where(usable, bend, -1.0), 0.0)
        offset = np.clip(offset, 0.0, 0.5)
        return side * offset, np.exp(-0.25 * np.abs(low - high) * offset)
    offset = np.clip(offset, 0.0, 0.5)
    array = axes.config.array
    if axis < 2 or array is None:
        return side * offset, window_response(kind, offset) ** 2
    channels = array.elevation_channels if axis == 2 else array.azimuth_channels
    return side * offset, array_response(kind, offset, channels) ** 2


def _directions(axes: Axes, azimuth_place: Floats, elevation_place: Floats) -> tuple[Floats, Floats]:
    if axes.config.turning is not None:
        angle = axes.azimuth[0] + azimuth_place * (2.0 * np.pi / len(axes.azimuth))
        return (angle + np.pi) % (2.0 * np.pi) - np.pi, np.zeros(len(angle))

    def cosine(angles: Floats, place: Floats) -> Floats:
        sines = np.sin(angles)
        step = sines[1] - sines[0] if len(sines) > 1 else 0.0
        return np.clip(sines[0] + place * step, -1.0, 1.0)

    upward, aside = cosine(axes.elevation, elevation_place), cosine(axes.azimuth, azimuth_place)
    level = np.sqrt(np.maximum(1.0 - upward**2, 1e-12))
    return np.arcsin(np.clip(aside / level, -1.0, 1.0)), np.arcsin(upward)


def _no_sidelobe(power: NDArray[np.float32], cells: IntArray, axes: Axes) -> NDArray[np.bool_]:
    """Mask of the peaks that are not sidelobes of a stronger one at the same range and speed, or in the same beam."""
    r, d, e, a = np.unravel_index(cells, axes.shape)
    own = power[r, d, e, a]
    wave, array = axes.config.waveform, axes.config.array
    kept = np.ones(len(cells), bool)
    if array is not None and axes.shape[3] > 1:
        strongest = power[r, d].max(axis=(1, 2), initial=0.0)
        kept &= own >= strongest * 10.0 ** (-_SIDELOBES_DB[array.window] / 10.0)
    if len(cells):
        near = np.clip(r[:, None] + np.arange(-_NEAR, _NEAR + 1), 0, axes.shape[0] - 1)
        strongest = power[near, d[:, None], e[:, None], a[:, None]].max(axis=1)
        kept &= own >= strongest * 10.0 ** (-_SIDELOBES_DB[wave.range_window] / 10.0)
    if axes.shape[1] > 1 and len(cells):
        near = (d[:, None] + np.arange(-_NEAR, _NEAR + 1)) % axes.shape[1]
        strongest = power[r[:, None], near, e[:, None], a[:, None]].max(axis=1)
        kept &= own >= strongest * 10.0 ** (-_SIDELOBES_DB[wave.speed_window] / 10.0)
    return np.asarray(kept)


def noise_around(power: NDArray[np.float32], at: tuple[IntArray, ...], settings: Detection) -> Floats:
    """Noise estimate around the given cells: mean of the training cells (of the smaller side for so), or for os the
    mean implied by their median."""
    r, d, e, a = at
    steps = np.arange(settings.guard + 1, settings.guard + settings.training // 2 + 1)
    steps = np.concatenate([-steps[::-1], steps])
    if settings.axis == "speed":
        values = power[r[:, None], (d[:, None] + steps) % power.shape[1], e[:, None], a[:, None]]
    else:
        place = r[:, None] + steps
        other = r[:, None] - np.sign(steps) * (np.abs(steps) + settings.training // 2)
        place = np.where((place >= 0) & (place < power.shape[0]), place, other)
        values = power[np.clip(place, 0, power.shape[0] - 1), d[:, None], e[:, None], a[:, None]]
    if settings.method == "ca":
        return np.maximum(values.astype(np.float64).mean(axis=1), 1e-30)
    if settings.method == "so":
        sides = values.astype(np.float64).reshape(len(values), 2, settings.training // 2)
        return np.maximum(sides.mean(axis=2).min(axis=1), 1e-30)
    # The median of an exponential distribution is ln 2 times its mean.
    return np.maximum(np.median(values, axis=1).astype(np.float64) / np.log(2.0), 1e-30)


# ---- clusters -------------------------------------------------------------------------------------------------------
# Method of VANE (ERDC/GSL TR-20-32, chapter 5): returns in a grid, connected cells are targets at their centroids.


MOST_CELLS = 100_000_000
"""Largest number of cells of the grid."""


@dataclass(frozen=True, eq=False)
class Clusters:
    """Targets in the order of descending power."""

    xyz: Floats
    """Power-weighted centroids [m], shape (n, 3)."""
    speed_m_s: Floats
    """Power-weighted mean radial velocity [m/s]."""
    power: Floats
    """Sum over the returns."""
    owner: NDArray[np.int64]
    """Row of the strongest return."""


GROUND_WINDOW_M = 7.0
"""Objects narrower than this do not count as ground [m]."""
GROUND_MARGIN_M = 0.2
"""Returns up to this height above the ground belong to it [m]."""
_GROUND_SHARE = 0.1
"""Smallest share of the window that must be covered by ground returns."""
MOVING_M_S = 0.5
"""Smallest speed over ground of a return that is never ground [m/s]."""


def ground_returns(
    xyz: Floats, moving_m_s: Floats, direct: NDArray[np.bool_], resolution_m: float
) -> NDArray[np.bool_]:
    """Mask of the returns of the ground, by height and Doppler; `xyz` (n, 3) [m] is level, z up.

    The ground is the morphological opening of the lowest direct returns in cells of `resolution_m` (Zhang et al. 2003,
    IEEE Trans. GRS 41, 872), which removes objects narrower than `GROUND_WINDOW_M` and leaves slopes as they are. A
    position has a ground only if ground returns cover a tenth of the window around it. Returns up to `GROUND_MARGIN_M`
    above the ground or below it are ground, unless their speed over ground `moving_m_s` (n,) exceeds `MOVING_M_S`.
    """
    from scipy import ndimage

    if not np.any(direct):
        return np.zeros(len(xyz), bool)
    cell = np.floor(xyz[:, :2] / resolution_m).astype(np.int64)
    first = cell[direct].min(axis=0)
    size = np.minimum(cell[direct].max(axis=0) - first + 1, int(np.sqrt(MOST_CELLS)))
    cell = np.clip(cell - first, 0, size - 1)
    flat = cell[:, 0] * size[1] + cell[:, 1]
    still = direct & (np.abs(moving_m_s) < MOVING_M_S)
    lowest = np.full(int(size[0] * size[1]), np.inf)
    np.minimum.at(lowest, flat[still], xyz[still, 2])
    lowest = lowest.reshape(tuple(size))
    half = max(1, round(0.5 * GROUND_WINDOW_M / resolution_m))
    eroded = ndimage.minimum_filter(lowest, 2 * half + 1, mode="constant", cval=np.inf)
    eroded = np.where(np.isfinite(eroded), eroded, -np.inf)
    ground = ndimage.maximum_filter(eroded, 2 * half + 1, mode="constant", cval=-np.inf)
    on_ground = (lowest - ground < GROUND_MARGIN_M).astype(np.float64)
    covered = ndimage.uniform_filter(on_ground, 2 * half + 1, mode="constant") > _GROUND_SHARE
    height = np.where(covered, ground, -np.inf).ravel()[flat]
    low = (xyz[:, 2] < height + GROUND_MARGIN_M) & (np.abs(moving_m_s) < MOVING_M_S)
    return np.asarray(low)


def clusters_of(
    xyz: Floats, power: Floats, speed_m_s: Floats, resolution_m: float, least_power: float = 0.0
) -> Clusters:
    """Join returns at `xyz` (n, 3) [m] whose horizontal cells of side `resolution_m` touch.

    Cells with a total power below `least_power` are omitted.
    """
    from scipy import ndimage

    if not len(xyz):
        return Clusters(np.zeros((0, 3)), np.zeros(0), np.zeros(0), np.zeros(0, np.int64))
    cell = np.floor(xyz[:, :2] / resolution_m).astype(np.int64)
    cell -= cell.min(axis=0)
    size = cell.max(axis=0) + 1
    if int(size[0]) * int(size[1]) > MOST_CELLS:
        size = np.minimum(size, int(np.sqrt(MOST_CELLS)))
        cell = np.minimum(cell, size - 1)
    flat = cell[:, 0] * size[1] + cell[:, 1]
    grid = np.bincount(flat, power, int(size[0] * size[1])).reshape(tuple(size)) > least_power
    labels, count = ndimage.label(grid, structure=np.ones((3, 3), int))
    group = labels.ravel()[flat] - 1
    kept = np.flatnonzero(group >= 0)
    xyz, power, speed_m_s, group = xyz[kept], power[kept], speed_m_s[kept], group[kept]
    total = np.bincount(group, power, count)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(group, values * power, count) / total)

    order = np.lexsort((np.arange(len(group)), power))
    owner = np.zeros(count, np.int64)
    owner[group[order]] = kept[order]  # the strongest return is assigned last
    found = np.stack([mean(xyz[:, k]) for k in range(3)], axis=1)
    rank = np.argsort(-total, kind="stable")
    return Clusters(found[rank], mean(speed_m_s)[rank], total[rank].astype(np.float64), owner[rank])
