"""From paths to the signal in every cell of the cube: a few thousand scatterers, each spread by windows and beams.

Paths that end in one cell are added by power: the lobe that each patch has is the sum of its rays' phases already.
Scatterers are then added by phase, so that neighbours beat against each other. All sums run in a fixed order.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.random import Stream, to_unit
from parhelion.sensors.radar.axes import Axes, window_response
from parhelion.sensors.waves.paths import Paths

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]

WEAKEST_SNR = 10.0**-1.5
"""Scatterers weaker than this, in units of a cell's noise, are left out."""
_STRENGTHS = ((0.0, 16.0, 1, 2), (16.0, 3e3, 2, 8), (3e3, np.inf, 5, 1 << 30))
"""Signal over noise from, to; how many cells it spreads along range and speed, and how many beams, to each side."""
_LARGEST_CHUNK = 1 << 22


@dataclass(frozen=True, eq=False)
class Scatterers:
    """What a cell holds, one row a cell that holds something."""

    power: Floats
    """In units of a cell's noise."""
    range_m: Floats
    speed_m_s: Floats
    direction: Floats
    owner: Whole
    """Row of the strongest path."""

    def __len__(self) -> int:
        return len(self.power)


def scatterers_of(paths: Paths, power: Floats, axes: Axes) -> Scatterers:
    """Add up the paths of each cell; `power` (n,) in units of a cell's noise."""
    range_m, speed = 0.5 * paths.length.astype(np.float64), 0.5 * paths.rate.astype(np.float64)
    direction = paths.direction.astype(np.float64)
    zero = np.zeros(len(paths), np.int64)
    array = axes.config.array
    beams = (1, axes.shape[3]) if array is None else (array.elevation_channels, array.azimuth_channels)
    counts = (axes.shape[0], axes.shape[1], *beams)
    places = (
        axes.range_cell(range_m), axes.speed_cell(speed), axes.elevation_offset(direction, zero),
        axes.azimuth_offset(direction, zero),
    )  # fmt: skip
    # Of each body the middle of what answers lies in the middle of a cell: none is cut in two that fits into one.
    body = paths.part.astype(np.int64) * 4 + np.minimum(paths.bounces, 3)
    whole_body = np.maximum(np.bincount(body, power), 1e-300)
    # Directions an array cannot tell apart, whole turns of phase away from each other, share a cell.
    cell = zero
    for place, count in zip(places, counts, strict=True):
        if count > 1:
            middle = (np.bincount(body, place * power) / whole_body)[body]
            cell = cell * count + (np.rint(place - middle) + np.rint(middle)).astype(np.int64) % count
    size = int(np.prod(counts))
    # Sums over rows in their order, whatever the machine.
    total, number = np.bincount(cell, power, size), np.bincount(cell, minlength=size)
    filled = np.flatnonzero(total > WEAKEST_SNR)
    scatterer = np.full(size, -1, np.int64)
    scatterer[filled] = np.arange(len(filled))
    rows = np.flatnonzero(scatterer[cell] >= 0)
    group, weight = scatterer[cell[rows]], power[rows]
    whole = total[filled].astype(np.float64)

    def mean(values: Floats) -> Floats:
        return np.asarray(np.bincount(group, values[rows] * weight, len(filled)) / whole)

    # The strongest path of a cell is at least as strong as the mean: only those need sorting.
    loud = np.flatnonzero(weight * number[filled][group] >= whole[group] * (1.0 - 1e-9))
    loud = loud[np.argsort(weight[loud], kind="stable")]
    owner = np.zeros(len(filled), np.int64)
    owner[group[loud]] = rows[loud]
    toward = np.stack([mean(direction[:, k]) for k in range(3)], axis=1)
    toward /= np.maximum(np.linalg.norm(toward, axis=1, keepdims=True), 1e-12)
    return Scatterers(whole, mean(range_m), mean(speed), toward, owner)


@dataclass(frozen=True, eq=False)
class Signal:
    """The cube without noise, and who is in it."""

    real: NDArray[np.float32]
    imaginary: NDArray[np.float32]
    """Flat, in the order range, speed, elevation, azimuth; units of the noise's amplitude."""
    cell: Whole
    """Cell of each share of a scatterer."""
    strength: NDArray[np.float32]
    """Amplitude of that share."""
    scatterer: Whole
    """Whose it is."""

    def owners(self, cells: Whole, size: int) -> Whole:
        """The scatterer that is strongest in each of some cells, -1 where there is none."""
        wanted = np.zeros(size, bool)
        wanted[cells] = True
        rows = np.flatnonzero(wanted[self.cell])
        order = np.lexsort((rows, self.strength[rows], self.cell[rows]))
        best = np.full(size, -1, np.int64) if size < (1 << 22) else None
        last = rows[order]
        if best is not None:
            best[self.cell[last]] = self.scatterer[last]
            return best[cells]
        found = dict(zip(self.cell[last].tolist(), self.scatterer[last].tolist(), strict=True))
        return np.array([found.get(cell, -1) for cell in cells.tolist()], np.int64)


def signal_of(scatterers: Scatterers, phase: Floats, axes: Axes) -> Signal:
    """Spread scatterers over the cube; `phase` (n,) [rad]."""
    size = int(np.prod(axes.shape))
    real, imaginary = np.zeros(size), np.zeros(size)
    cells, strengths, owners = [], [], []
    for low, high, near, beams in _STRENGTHS:
        rows = np.flatnonzero((scatterers.power > low) & (scatterers.power <= high))
        chunk = max(1, _LARGEST_CHUNK // (np.prod(_reach(axes, near, beams), dtype=np.int64)))
        for first in range(0, len(rows), int(chunk)):
            some = rows[first : first + int(chunk)]
            cell, value = _spread(scatterers, phase, some, axes, near, beams)
            real += np.bincount(cell.ravel(), value.real.ravel(), size)
            imaginary += np.bincount(cell.ravel(), value.imag.ravel(), size)
            cells.append(cell.ravel())
            strengths.append(np.abs(value).ravel().astype(np.float32))
            owners.append(np.repeat(some, cell[0].size))
    if not cells:
        return Signal(*(np.zeros(size, np.float32) for _ in "ab"), *(np.zeros(0, kind) for kind in ("i8", "f4", "i8")))  # type: ignore[arg-type]
    return Signal(
        real.astype(np.float32), imaginary.astype(np.float32), np.concatenate(cells), np.concatenate(strengths),
        np.concatenate(owners),
    )  # fmt: skip


def _reach(axes: Axes, near: int, beams: int) -> tuple[int, int, int, int]:
    """How many cells one scatterer is spread over along each axis."""
    _, speeds, elevations, azimuths = axes.shape
    if axes.config.turning is not None:
        width = max(axes.config.transmit.azimuth_width_deg, axes.config.receive.azimuth_width_deg)
        beams = int(np.ceil(1.3 * width * azimuths / 360.0))
    return 2 * near + 1, min(2 * near + 1, speeds), elevations, min(2 * beams + 1, azimuths)


def _spread(
    scatterers: Scatterers, phase: Floats, rows: Whole, axes: Axes, near: int, beams: int
) -> tuple[Whole, NDArray[np.complex64]]:
    """Cells (n, ranges, speeds, elevations, azimuths) and the signal in each; cells out of the cube get none."""
    ranges, speeds, elevations, azimuths = axes.shape
    reach = _reach(axes, near, beams)
    wave = axes.config.waveform
    count = len(rows)

    def across(middle: Floats, number: int, size: int, wraps: bool) -> tuple[Whole, NDArray[np.bool_]]:
        if number == size:
            return np.tile(np.arange(size), (count, 1)), np.ones((count, size), bool)
        place = np.rint(middle).astype(np.int64)[:, None] + np.arange(number) - number // 2
        return (place % size, np.ones(place.shape, bool)) if wraps else (
            np.clip(place, 0, size - 1), (place >= 0) & (place < size))  # fmt: skip

    r = axes.range_cell(scatterers.range_m[rows])
    r_cell, r_in = across(r, reach[0], ranges, False)
    d = axes.speed_cell(scatterers.speed_m_s[rows])
    d_cell, d_in = across(d, reach[1], speeds, True)
    toward = scatterers.direction[rows]
    zero = np.zeros(count, np.int64)
    a_cell, a_in = across(axes.azimuth_offset(toward, zero), reach[3], azimuths, axes.config.turning is not None)
    e_cell, e_in = across(axes.elevation_offset(toward, zero), reach[2], elevations, False)

    def tone(offset: Floats, window: str) -> Floats:
        # Windows begin at 0, which turns the phase by half a circle from cell to cell.
        return np.asarray(window_response(window, offset) * np.exp(1j * np.pi * offset))

    r_value = tone(r[:, None] - r_cell, wave.range_window) * r_in
    apart = (d[:, None] - d_cell + 0.5 * speeds) % speeds - 0.5 * speeds if speeds > 1 else np.zeros((count, 1))
    d_value = tone(apart, wave.speed_window) * d_in
    a_off = np.stack([axes.azimuth_offset(toward, a_cell[:, k]) for k in range(a_cell.shape[1])], axis=1)
    e_off = np.stack([axes.elevation_offset(toward, e_cell[:, k]) for k in range(e_cell.shape[1])], axis=1)
    a_value = axes.beam_response(a_off, np.zeros_like(a_off)) * a_in
    e_value = axes.beam_response(np.zeros_like(e_off), e_off) * e_in
    amplitude = np.sqrt(scatterers.power[rows]) * np.exp(1j * phase[rows])
    beam = (e_value[:, :, None] * a_value[:, None, :]).astype(np.float32)
    map_ = (amplitude[:, None, None] * r_value[:, :, None] * d_value[:, None, :]).astype(np.complex64)
    value = map_[:, :, :, None, None] * beam[:, None, None]
    plane = r_cell[:, :, None] * speeds + d_cell[:, None, :]
    direction = e_cell[:, :, None] * azimuths + a_cell[:, None, :]
    cell = plane[:, :, :, None, None] * (elevations * azimuths) + direction[:, None, None]
    return cell, value


def phases(patch: NDArray[np.uint32], range_m: Floats, wavelength_m: float) -> Floats:
    """Phase of scatterers [rad]: that of the way there and back, and one that belongs to the patch for good."""
    word = Stream(0, "radar/patch-phase").words(patch)[0]
    return np.asarray(2.0 * np.pi * (to_unit(word) - 2.0 * range_m / wavelength_m % 1.0))
