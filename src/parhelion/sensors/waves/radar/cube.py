"""Radar cube from paths: a few thousand scatterers, each spread over cells by windows and beams.

Paths within one cell are added by power, because the lobe of a patch already contains the interference of its rays.
The resulting scatterers are added coherently, so that neighbours interfere. All sums have a fixed order.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.sensors.waves.bounce import BouncePaths
from parhelion.sensors.waves.radar.config import RadarConfig

# ---- Axes of the cube and the response to one scatterer along each of them ------------------------------------------


_COEFFICIENTS = {"none": (1.0,), "hann": (0.5, 0.5), "hamming": (0.54, 0.46), "blackman": (0.42, 0.5, 0.08)}
"""Windows as sums of cosines: a_0 - a_1 cos(2 pi x) + a_2 cos(4 pi x) (Harris 1978, Proc. IEEE 66, 51)."""


def noise_bandwidth(window: str) -> float:
    """Noise bandwidth of a window in cells: 1 without one, 1.5 for Hann's (Harris 1978)."""
    a = _COEFFICIENTS[window]
    return 1.0 + 0.5 * sum((one / a[0]) ** 2 for one in a[1:])


def noise_taps(window: str) -> tuple[float, ...]:
    """Normalised transform of a window: weight of the cell itself, of its neighbours, and so on.

    The transform of a_0 - a_1 cos(2 pi x) + a_2 cos(4 pi x) is a_0 in the cell and -a_1 / 2, a_2 / 2 in the next ones.
    """
    a = _COEFFICIENTS[window]
    sides = [one / 2.0 if k % 2 else -one / 2.0 for k, one in enumerate(a[1:])]
    size = np.sqrt(a[0] ** 2 + 2.0 * sum(one**2 for one in sides))
    return tuple(float(one / size) for one in (a[0], *sides))


def noise_correlation(window: str, lag: NDArray[np.int64]) -> Floats:
    """Correlation of the noise of two cells at a distance `lag` [cells]."""
    taps = noise_taps(window)
    whole = np.array([*taps[:0:-1], *taps])
    found = np.correlate(whole, whole, "full")
    reach = len(found) // 2
    return np.asarray(np.where(np.abs(lag) <= reach, found[np.clip(lag, -reach, reach) + reach], 0.0))


def window_response(window: str, offset: Floats) -> Floats:
    """Response of a cell to a tone at a distance of `offset` cells, 1 at 0: a sum of shifted sinc functions.

    Valid for windows of many samples. The caller adds the linear phase exp(j pi offset).
    """
    return _windowed(window, np.sinc, offset)


def _windowed(window: str, tone: Callable[[Floats], Floats], offset: Floats) -> Floats:
    """Sum of the responses to a tone, one for each cosine of the window."""
    a = _COEFFICIENTS[window]
    found = tone(offset)
    for k, one in enumerate(a[1:], start=1):
        found = found + 0.5 * one / a[0] * (tone(offset - k) + tone(offset + k))
    return np.asarray(found)


def array_response(window: str, offset: Floats, channels: int) -> Floats:
    """Response of a beam to a direction `offset` beams away, for few samples; periodic in the number of channels."""

    def dirichlet(x: Floats) -> Floats:
        small = np.abs(np.sin(np.pi * x / channels)) < 1e-9
        below = np.where(small, 1.0, channels * np.sin(np.pi * x / channels))
        near = np.cos(np.pi * x) / np.cos(np.pi * x / channels)
        return np.asarray(np.where(small, near, np.sin(np.pi * x) / below))

    return _windowed(window, dirichlet, offset)


def array_pattern(window: str, offset: Floats, beams: int, channels: int) -> Floats:
    """`array_response` of beams 0, 1, ... to directions `offset` (n,) beams left of the first one, shape (n, beams).

    Neighbouring beams are one unit apart, so addition theorems replace most of the sines.
    """
    a = _COEFFICIENTS[window]
    reach = len(a) - 1
    row = np.arange(-reach, beams + reach)
    angle, turn = np.pi * offset / channels, np.pi * row / channels
    below = channels * (np.sin(angle)[:, None] * np.cos(turn) - np.cos(angle)[:, None] * np.sin(turn))
    above = np.sin(np.pi * offset)[:, None] * np.where(row % 2, -1.0, 1.0)
    exact = np.abs(below) < 1e-7 * channels
    found = above / np.where(exact, 1.0, below)
    if exact.any():
        where = np.nonzero(exact)
        found[where] = array_response("none", offset[where[0]] - row[where[1]], channels)
    middle = found[:, reach : reach + beams]
    for k, one in enumerate(a[1:], start=1):
        sides = found[:, reach - k : reach - k + beams] + found[:, reach + k : reach + k + beams]
        middle = middle + 0.5 * one / a[0] * sides
    return np.asarray(middle)


@dataclass(frozen=True)
class Axes:
    """Axes of the cube: range, speed, elevation, azimuth."""

    config: RadarConfig
    azimuth: Floats
    """Azimuths of the beams [rad], for an array at elevation 0, shape (a,)."""
    elevation: Floats
    """Elevations of the beams [rad], shape (e,)."""

    @classmethod
    def of(cls, config: RadarConfig) -> Axes:
        """Axes of the radar of a data sheet."""
        if config.turning is not None:
            count = config.turning.directions
            azimuth = -np.pi + 2.0 * np.pi * (np.arange(count) + 0.5) / count
            return cls(config, azimuth, np.zeros(1))
        array = config.array
        assert array is not None
        low, high = (np.sin(np.radians(edge)) for edge in config.field.azimuth_deg)
        across = _beam_axis(array.azimuth_channels, array.azimuth_spacing, low, high)
        low, high = (np.sin(np.radians(edge)) for edge in config.field.elevation_deg)
        upward = _beam_axis(array.elevation_channels, array.elevation_spacing, low, high)
        return cls(config, np.arcsin(across), np.arcsin(upward))

    @property
    def range(self) -> Floats:
        """Ranges of cells [m]."""
        return self.config.range_step_m * np.arange(self.config.waveform.range_bins, dtype=np.float64)

    @property
    def speed(self) -> Floats:
        """Radial velocities of cells [m/s], away is positive."""
        bins, largest = self.config.speed_bins, self.config.largest_speed_m_s
        return np.zeros(1) if bins == 1 else (np.arange(bins, dtype=np.float64) - bins // 2) * (2.0 * largest / bins)

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Cells along range, speed, elevation and azimuth."""
        wave = self.config.waveform
        return wave.range_bins, self.config.speed_bins, len(self.elevation), len(self.azimuth)

    # ---- positions of scatterers, in cells ----------------------------------------------------------------------

    def speed_cell(self, speed_m_s: Floats) -> Floats:
        """Position of speeds on the speed axis [cells]; speeds beyond the largest are aliased."""
        bins = self.config.speed_bins
        if bins == 1:
            return np.zeros_like(speed_m_s)
        place = speed_m_s * (bins / (2.0 * self.config.largest_speed_m_s)) + bins // 2
        # Equal to `place % bins` and four times as fast.
        return np.asarray(place - bins * np.floor(place / bins))

    def azimuth_offset(self, direction: Floats, row: NDArray[np.int64]) -> Floats:
        """Distance of directions (n, 3) to the left of the beams `row` (n or (k, 1)) [beams]."""
        config = self.config
        if config.turning is not None:
            step = 2.0 * np.pi / len(self.azimuth)
            angle = np.arctan2(direction[:, 1], direction[:, 0]) - self.azimuth[row]
            return np.asarray(((angle + np.pi) % (2.0 * np.pi) - np.pi) / step)
        assert config.array is not None
        span = config.array.azimuth_channels * config.array.azimuth_spacing
        return np.asarray((direction[:, 1] - np.sin(self.azimuth)[row]) * span)

    def elevation_offset(self, direction: Floats, row: NDArray[np.int64]) -> Floats:
        """Distance of directions (n, 3) above the beams `row` [beams]."""
        if self.config.array is None or len(self.elevation) == 1:
            return np.zeros(np.broadcast_shapes(direction[:, 2].shape, np.shape(row)))
        span = self.config.array.elevation_channels * self.config.array.elevation_spacing
        return np.asarray((direction[:, 2] - np.sin(self.elevation)[row]) * span)

    def turning_response(self, azimuth_offset: Floats) -> Floats:
        """Two-way amplitude response of a rotating antenna to directions at a distance [beams], 1 at 0."""
        step = 360.0 / len(self.azimuth)
        width = self.config.transmit.azimuth_width_deg, self.config.receive.azimuth_width_deg
        # Amplitudes of transmit and receive pattern: half of each exponent.
        spread = sum(2.0 * np.log(2.0) / one**2 for one in width)
        return np.asarray(np.exp(-spread * (azimuth_offset * step) ** 2))

    @property
    def beam_noise_bandwidth(self) -> float:
        """Noise bandwidth of the array window over all axes of the array."""
        if self.config.array is None:
            return 1.0
        axes = 1 + (len(self.elevation) > 1)
        return noise_bandwidth(self.config.array.window) ** axes


def _beam_axis(channels: int, spacing: float, low: float, high: float) -> Floats:
    """Direction cosines of the beams of a row of channels, within the field of view."""
    if channels == 1:
        return np.zeros(1)
    step = 1.0 / (channels * spacing)
    # Bins of a discrete Fourier transform: one of them points ahead. Beams on both sides of the axis instead would lose
    # 3.9 dB of every target ahead. Two channels need both to measure an angle at all.
    found = (np.arange(channels) - (0.5 if channels == 2 else channels // 2)) * step
    inside = found[(found >= low - 0.5 * step) & (found <= high + 0.5 * step) & (np.abs(found) < 1.0)]
    return inside if len(inside) else np.zeros(1)


# ---- cube -----------------------------------------------------------------------------------------------------------


Floats = NDArray[np.float64]
IntArray = NDArray[np.int64]

WEAKEST_SNR = 10.0**-1.5
"""Smallest power of a scatterer in units of a cell's noise; weaker ones are omitted."""
_STRENGTHS = ((0.0, 16.0, 1), (16.0, 3e3, 2), (3e3, np.inf, 5))
"""Classes of signal-to-noise ratio: lower bound, upper bound, extent in range and speed to each side [cells]."""


_KINDS = 4
"""Kinds of returns of a body by their number of reflections: none (in the air), 1, 2, and more."""


@dataclass(frozen=True, eq=False)
class Scatterers(Table):
    """Scatterers, one row per occupied cell."""

    power: Floats
    """Power in units of a cell's noise."""
    range_m: Floats
    speed_m_s: Floats
    direction: Floats
    """Unit vectors in the sensor frame, shape (n, 3)."""
    owner: IntArray
    """Row of the strongest path."""


def scatterers_of(paths: BouncePaths, power: Floats, axes: Axes) -> Scatterers:
    """Add the powers of all paths in each cell; `power` (n,) is in units of a cell's noise."""
    range_m, speed = 0.5 * paths.length.astype(np.float64), 0.5 * paths.rate.astype(np.float64)
    direction = paths.direction.astype(np.float64)
    zero = np.zeros(len(paths), np.int64)
    array = axes.config.array
    beams = (1, axes.shape[3]) if array is None else (array.elevation_channels, array.azimuth_channels)
    counts = (axes.shape[0], axes.shape[1], *beams)
    places = (
        range_m / axes.config.range_step_m,
        axes.speed_cell(speed),
        axes.elevation_offset(direction, zero),
        axes.azimuth_offset(direction, zero),
    )
    # The cell grid is centred on the returns of each body, so that a body smaller than a cell is not split. Its weaker
    # returns (edges, fewer or more mirrors) join the strongest ones if they are less than half a cell away.
    kind = paths.part.astype(np.int64) * _KINDS + np.minimum(paths.bounces, _KINDS - 1)
    of_kind = np.bincount(kind, power, _KINDS * (int(paths.part.max(initial=0)) + 1))
    loudest = np.argmax(of_kind.reshape(-1, _KINDS), axis=1) + _KINDS * np.arange(len(of_kind) // _KINDS)
    of_kind = np.maximum(of_kind, 1e-300)
    # Ambiguous directions of a sparse array, which differ by multiples of 2 pi in phase, share a cell.
    cell = zero
    for place, count in zip(places, counts, strict=True):
        if count > 1:
            middle = np.bincount(kind, place * power, len(of_kind)) / of_kind
            main = np.repeat(middle[loudest], _KINDS)
            offset = np.rint(middle - main) + np.rint(main)
            whole_place = np.rint(place - middle[kind]) + offset[kind]
            # A float remainder is ten times as fast as an integer one.
            whole_place -= count * np.floor(whole_place * (1.0 / count) + 0.5 / count)
            cell = cell * count + whole_place.astype(np.int64)
    size = int(np.prod(counts))
    # bincount adds rows in their order, so the result does not depend on the machine.
    total = np.bincount(cell, power, size)
    filled = np.flatnonzero(total > WEAKEST_SNR)
    scatterer = np.full(size, -1, np.int64)
    scatterer[filled] = np.arange(len(filled))
    rows = np.flatnonzero(scatterer[cell] >= 0)
    group, weight = scatterer[cell[rows]], power[rows]
    whole = total[filled].astype(np.float64)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(group, values[rows] * weight, len(filled)) / whole)

    strongest = np.zeros(len(filled))
    np.maximum.at(strongest, group, weight)
    loud = np.flatnonzero(weight == strongest[group])
    owner = np.zeros(len(filled), np.int64)
    owner[group[loud]] = rows[loud]
    toward = np.stack([mean(direction[:, k]) for k in range(3)], axis=1)
    toward /= np.maximum(np.linalg.norm(toward, axis=1, keepdims=True), 1e-12)
    return Scatterers(whole, mean(range_m), mean(speed), toward, owner)


@dataclass(frozen=True, eq=False)
class Signal:
    """Cube without noise, with the contribution of each scatterer."""

    real: NDArray[np.float32]
    imaginary: NDArray[np.float32]
    """Flat arrays in the order range, speed, elevation, azimuth, in units of the noise amplitude."""
    map: Any
    """Amplitudes over cells of range and speed, sparse (cells, scatterers)."""
    beams: Any
    """Responses of the beams, (scatterers, beams); sparse for a rotating antenna."""

    def owners(self, cells: IntArray) -> IntArray:
        """Strongest scatterer of each given cell, -1 if there is none."""
        plane, beam = np.divmod(cells, self.beams.shape[1])
        first, count = self.map.indptr[plane], np.diff(self.map.indptr)[plane]
        # Concatenated numbers of the map entries in these cells.
        asked = np.repeat(np.arange(len(cells)), count)
        entry = np.arange(len(asked)) + np.repeat(first - (np.cumsum(count) - count), count)
        scatterer = self.map.indices[entry].astype(np.int64)
        answer = np.asarray(self.beams[scatterer, beam[asked]]).ravel()
        strength = np.abs(self.map.data[entry]) * np.abs(answer)
        best = np.zeros(len(cells))
        np.maximum.at(best, asked, strength)
        wins = np.flatnonzero((strength > 0.0) & (strength == best[asked]))
        found = np.full(len(cells), -1, np.int64)
        found[asked[wins]] = scatterer[wins]
        return found


def signal_of(scatterers: Scatterers, phase: Floats, axes: Axes) -> Signal:
    """Add scatterers with `phase` (n,) [rad] to the cube.

    The response to a scatterer is a product of one factor over range and speed and one over beams. The cube is
    therefore a product of two matrices that are much smaller than the cube.
    """
    map_, beams = _map(scatterers, phase, axes), responses_of(scatterers, axes)
    found = map_ @ beams
    found = (found if isinstance(found, np.ndarray) else found.toarray()).ravel()
    return Signal(np.ascontiguousarray(found.real), np.ascontiguousarray(found.imag), map_, beams)


def _map(scatterers: Scatterers, phase: Floats, axes: Axes) -> Any:
    """Amplitude of each scatterer over cells of range and speed, complex, sparse (cells, scatterers)."""
    from scipy.sparse import coo_array

    ranges, speeds = axes.shape[:2]
    wave = axes.config.waveform
    amplitude = np.sqrt(scatterers.power) * np.exp(1j * phase)
    r, d = scatterers.range_m / axes.config.range_step_m, axes.speed_cell(scatterers.speed_m_s)

    def tone(offset: Floats, window: str) -> Floats:
        # Windows start at sample 0, which shifts the phase by pi from cell to cell.
        return np.asarray(window_response(window, offset) * np.exp(1j * np.pi * offset))

    cells, values, owners = [], [], []
    for low, high, near in _STRENGTHS:
        rows = np.flatnonzero((scatterers.power > low) & (scatterers.power <= high))
        r_cell = np.rint(r[rows]).astype(np.int64)[:, None] + np.arange(-near, near + 1)
        r_value = tone(r[rows, None] - r_cell, wave.range_window) * ((r_cell >= 0) & (r_cell < ranges))
        d_cell = np.rint(d[rows]).astype(np.int64)[:, None] + (np.arange(-near, near + 1) if speeds > 1 else 0)
        # The speed axis is periodic, but each cell is used once.
        d_value = tone(d[rows, None] - d_cell, wave.speed_window) if speeds > 1 else np.ones(d_cell.shape)
        d_value = d_value * (np.abs(d_cell - d_cell[:, [d_cell.shape[1] // 2]]) < 0.5 * speeds)
        cell = np.clip(r_cell, 0, ranges - 1)[:, :, None] * speeds + (d_cell % speeds)[:, None]
        value = (amplitude[rows, None] * r_value)[:, :, None] * d_value[:, None]
        cells.append(cell.ravel())
        values.append(value.ravel())
        owners.append(np.repeat(rows, r_cell.shape[1] * d_cell.shape[1]))
    where = np.concatenate(cells), np.concatenate(owners)
    shares = np.concatenate(values).astype(np.complex64)
    return coo_array((shares, where), shape=(ranges * speeds, len(scatterers))).tocsr()


def responses_of(scatterers: Scatterers, axes: Axes) -> Any:
    """Responses of all beams to each scatterer, (scatterers, beams); azimuth is the fastest index."""
    zero = np.zeros(len(scatterers), np.int64)
    azimuth = axes.azimuth_offset(scatterers.direction, zero)
    azimuths, array = axes.shape[3], axes.config.array
    if array is not None:
        across = array_pattern(array.window, azimuth, azimuths, array.azimuth_channels)
        if axes.shape[2] == 1:
            return across.astype(np.float32)
        upward = axes.elevation_offset(scatterers.direction, zero)
        upward = array_pattern(array.window, upward, axes.shape[2], array.elevation_channels)
        both = upward[:, :, None].astype(np.float32) * across[:, None].astype(np.float32)
        return both.reshape(len(scatterers), axes.shape[2] * azimuths)
    from scipy.sparse import coo_array

    width = max(axes.config.transmit.azimuth_width_deg, axes.config.receive.azimuth_width_deg)
    near = min(int(np.ceil(1.3 * width * azimuths / 360.0)), (azimuths - 1) // 2)
    cell = np.rint(azimuth).astype(np.int64)[:, None] + np.arange(-near, near + 1)
    value = axes.turning_response(azimuth[:, None] - cell).astype(np.float32)
    where = np.repeat(np.arange(len(scatterers)), cell.shape[1]), (cell % azimuths).ravel()
    return coo_array((value.ravel(), where), shape=(len(scatterers), azimuths)).tocsr()


def phases(range_m: Floats, wavelength_m: float) -> Floats:
    """Phase [rad] of scatterers at ranges [m]: that of the two-way path, -4 pi R / lambda.

    The phase depends on the geometry only, so objects that a path does not touch cannot change it.
    """
    return np.asarray(-2.0 * np.pi * (2.0 * np.asarray(range_m, np.float64) / wavelength_m % 1.0))
