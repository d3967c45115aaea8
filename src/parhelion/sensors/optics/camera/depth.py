"""Depth output: stereo from the disparity of two lenses, time of flight from the phase of modulated light.

Both start from the ground truth at the pixel centres and remove what the measuring principle cannot observe. The noise
of stereo is correlated between pixels, and each unit has a calibration error of its own.

Sources: H. Hirschmüller, "Stereo processing by semiglobal matching and mutual information", 2008 (the check from right
to left); H. Hirschmüller, P. R. Innocent, J. Garibaldi, "Real-time correlation-based stereo vision with reduced border
errors", 2002 (borders grow by up to half a window); R. Lange, P. Seitz, "Solid-state time-of-flight range camera",
2001, in the form of M. Hansard et al., "Time-of-flight cameras", 2012, section 1.2 (noise of phase by signal); J. R.
Wallace, K. A. Elmquist, E. A. Haines, "A ray tracing algorithm for progressive radiosity", 1989 (light from patches).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.image import Intrinsics
from parhelion.core.random import Stream, to_normal, to_unit
from parhelion.sensors.optics.camera.config import Depth, Stereo, TimeOfFlight
from parhelion.sensors.optics.camera.lens import project
from parhelion.sensors.optics.camera.truth import PixelTruth
from parhelion.sensors.optics.phase import ambiguity_m, phase_sigma_m, wrapped

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]

AGREES_PX = 1.0
"""Largest difference of the left and right disparities [pixel]; beyond it, one lens does not see the point."""
GRAZING_COSINE = 0.05
"""Smallest cosine of incidence at which a surface is matched: 87 degrees."""
TEXTURE_CORRELATION = 0.5
"""Smallest correlation of the gradients of matched windows; at 0.5, texture and noise have equal variance."""
TEXTURE_WINDOW_PX = 5
"""Smallest side of the correlated windows [pixel]."""
DARK_SHARE = 1.0 / 255.0
"""Pixels below this fraction of full scale count as black."""
MIXED_SHARE = 0.25
"""Window fraction from which the foreground determines the disparity; below it, foreground and background mix."""
INTERREFLECTION_SIDE = 32
"""Patches along the longer side of the image between which interreflections are computed."""


@dataclass(frozen=True, eq=False)
class DepthDraws:
    """Random numbers per pixel, each of shape (h, w)."""

    first: Floats
    """Standard normal, for the noise of disparity or phase."""
    second: Floats
    """Standard normal, for the additional noise of the data sheet."""
    share: Floats
    """Uniform in (0, 1), for the mixing of surfaces at edges."""

    @classmethod
    def of(cls, stream: Stream, shape: tuple[int, int], *, noise: bool) -> DepthDraws:
        """Draws of a stream, or the mean of each distribution without noise."""
        if not noise:
            return cls(np.zeros(shape), np.zeros(shape), np.full(shape, 0.5))
        words = stream.words(np.arange(shape[0] * shape[1], dtype=np.uint32))
        first, second = to_normal(words[0], words[1])
        return cls(*(np.asarray(one, np.float64).reshape(shape) for one in (first, second, to_unit(words[2]))))


def correlated(normal: Floats, sigma_px: float) -> Floats:
    """Standard normal field with a Gaussian correlation: white noise filtered with a kernel of `sigma_px` [pixel].

    The mean of n pixels then has the variance of n / (4 pi sigma_px^2) independent ones, for n much larger than the
    kernel.
    """
    if sigma_px == 0.0:
        return normal
    from scipy.ndimage import gaussian_filter

    impulse = np.zeros(normal.shape)
    impulse[0, 0] = 1.0
    gain = np.linalg.norm(gaussian_filter(impulse, sigma_px, mode="wrap", truncate=3.0))
    return np.asarray(gaussian_filter(normal, sigma_px, mode="wrap", truncate=3.0)) / gain


@dataclass(frozen=True)
class StereoCalibration:
    """Calibration error of one unit."""

    offset_px: float = 0.0
    """Constant error of disparity [pixel]."""
    tilt_px: tuple[float, float] = (0.0, 0.0)
    """Error of disparity at the last column and at the last row [pixel], linear and 0 at the image centre."""
    scale: float = 0.0
    """Relative error of focal length times baseline."""

    @classmethod
    def of(cls, stereo: Stereo, identity: str) -> StereoCalibration:
        """Error of the unit `identity`, the same in every frame."""
        words = Stream(0, f"stereo-calibration/{identity}").words(np.arange(1, dtype=np.uint32))
        a, b = to_normal(words[0], words[1])
        c, d = to_normal(words[2], words[3])
        z = [float(np.asarray(one)[0]) for one in (a, b, c, d)]
        return cls(stereo.offset_px * z[0], (stereo.tilt_px * z[1], stereo.tilt_px * z[2]), stereo.scale * z[3])

    def error_px(self, shape: tuple[int, int]) -> Floats:
        """Error of disparity [pixel], shape (h, w)."""
        row, column = (np.linspace(-1.0, 1.0, n) if n > 1 else np.zeros(1) for n in shape)
        return self.offset_px + self.tilt_px[0] * column[None, :] + self.tilt_px[1] * row[:, None]


def stereo_depth(
    stereo: Stereo,
    sheet: Depth,
    lens: Intrinsics,
    directions: Floats,
    left: PixelTruth,
    right: PixelTruth,
    draws: DepthDraws,
    pictures: tuple[NDArray[Any], NDArray[Any]] | None = None,
    calibration: StereoCalibration | None = None,
) -> NDArray[np.float32]:
    """Depth [m] from matching two images, NaN without a match, shape (h, w).

    `directions` (h, w, 3) are the unit directions of the pixel centres in the sensor frame; `right` is the ground truth
    of the second lens. Without `pictures`, texture and brightness are not checked. Disparity d = f B / z refers to
    rectified images, so a standard deviation of 1 pixel in d is one of z^2 / (f B) in depth.
    """
    scale = lens.fx * stereo.baseline_m
    seen = np.isfinite(left.range_m)
    far = np.where(seen, left.range_m, 0.0).astype(np.float64)
    points = directions * far[..., None] + np.array([0.0, stereo.baseline_m, 0.0])
    uv, inside = project(lens, points.reshape(-1, 3))
    uv, inside = uv.reshape(*seen.shape, 2), inside.reshape(seen.shape)
    true, other = _disparity(left.depth, scale), _disparity(right.depth, scale)
    answered = seen & inside & _agrees(true, other, uv, inside)
    if pictures is not None:
        answered &= lit(pictures[0])
        if not stereo.active:
            answered &= textured(pictures[0], pictures[1], uv, inside, stereo.window_px)
    answered &= np.einsum("hwk,hwk->hw", left.normal, directions) <= -GRAZING_COSINE
    disparity, answered = fattened(true, answered, stereo.window_px, draws.share)
    sigma: Floats | float = stereo.subpixel_px
    if stereo.pattern_m is not None:
        sigma = sigma * np.hypot(1.0, scale / np.maximum(disparity, 1e-9) / stereo.pattern_m)
    disparity = disparity + sigma * correlated(draws.first, stereo.correlation_px)
    if calibration is not None:
        disparity = disparity + calibration.error_px(disparity.shape)
        scale *= 1.0 + calibration.scale
    answered &= (disparity > 0.0) & (disparity >= stereo.min_disparity_px)
    if stereo.max_disparity_px is not None:
        answered &= disparity <= stereo.max_disparity_px
    return reported(scale / np.where(answered, disparity, 1.0), answered, sheet, draws.second)


def reported(depth: Floats, answered: Flags, sheet: Depth, normal: Floats) -> NDArray[np.float32]:
    """Depth with the noise, range limits and resolution of the data sheet."""
    noise = sheet.noise
    sigma = noise.constant_m + noise.linear * depth + noise.quadratic_per_m * depth * depth
    depth = depth + sigma * normal
    answered = answered & (depth >= sheet.min_m) & (depth <= sheet.max_m)
    if sheet.resolution_m:
        depth = np.round(depth / sheet.resolution_m) * sheet.resolution_m
    return np.where(answered, depth, np.nan).astype(np.float32)


def _disparity(depth: NDArray[np.float32], scale: float) -> Floats:
    """Disparity [pixel] of depths [m]; 0 where there is no surface."""
    return np.divide(scale, depth, out=np.zeros(depth.shape), where=np.isfinite(depth) & (depth > 0.0))


def _agrees(true: Floats, other: Floats, uv: Floats, inside: Flags) -> Flags:
    """Mask of the pixels whose disparity agrees with that of the second lens at `uv` (left-right check)."""
    column = np.where(inside, np.round(uv[..., 0]), 0.0).astype(np.intp).clip(0, true.shape[1] - 1)
    row = np.where(inside, np.round(uv[..., 1]), 0.0).astype(np.intp).clip(0, true.shape[0] - 1)
    agrees: Flags = np.abs(true - other[row, column]) <= AGREES_PX
    return agrees


def lit(colour: NDArray[Any]) -> Flags:
    """Mask of the pixels that are neither black nor saturated in all bands; all pixels of a floating-point image."""
    if colour.dtype.kind != "u":
        return np.ones(colour.shape[:2], np.bool_)
    top = np.iinfo(colour.dtype).max
    bands = colour.reshape(*colour.shape[:2], -1)
    found: Flags = (bands.min(axis=2) < top) & (bands.max(axis=2) > DARK_SHARE * top)
    return found


def textured(
    left: NDArray[Any], right: NDArray[Any], uv: Floats, inside: Flags, window_px: int = TEXTURE_WINDOW_PX
) -> Flags:
    """Mask of the pixels with enough texture to match: row gradients that agree in both images, above the noise.

    Noise is independent in the two images, texture is not. The correlation of windows at the true disparity separates
    the two, regardless of the sensor's response curve. `uv` is the position of each pixel in the second image.
    """
    from scipy.ndimage import map_coordinates, uniform_filter

    first, second = _gradient(left), _gradient(right)
    places = np.where(inside[..., None], uv, 0.0)
    second = map_coordinates(second, [places[..., 1], places[..., 0]], order=1, mode="nearest")
    side = max(window_px, TEXTURE_WINDOW_PX)
    both, one, two = (uniform_filter(a, side, mode="nearest") for a in (first * second, first * first, second * second))
    found: Flags = both > TEXTURE_CORRELATION * np.sqrt(np.maximum(one * two, 0.0))
    return found


def _gradient(picture: NDArray[Any]) -> Floats:
    """Difference of the right and left neighbours along a row."""
    grey = picture.astype(np.float64) if picture.ndim == 2 else picture.mean(axis=2, dtype=np.float64)
    around = np.pad(grey, ((0, 0), (1, 1)), mode="edge")
    return around[:, 2:] - around[:, :-2]


def fattened(disparity: Floats, answered: Flags, window_px: int, share: Floats) -> tuple[Floats, Flags]:
    """Disparities and validity after foreground fattening by the matching window.

    The foreground determines the disparity where it fills a quarter of the window or more, so its border grows by about
    half a window. Where it fills less, the result lies between the two surfaces (a flying pixel).
    """
    half = window_px // 2
    if half == 0:
        return disparity, answered
    from scipy.ndimage import maximum_filter

    front = maximum_filter(disparity, window_px, mode="nearest")
    rows, columns = np.nonzero(front - disparity > AGREES_PX)
    around = np.pad(disparity, half, mode="edge")
    known = np.pad(answered, half, mode="edge")
    offsets = [(i, j) for i in range(window_px) for j in range(window_px)]
    windows = np.stack([around[rows + i, columns + j] for i, j in offsets], axis=-1)
    answers = np.stack([known[rows + i, columns + j] for i, j in offsets], axis=-1)
    own, near = disparity[rows, columns], front[rows, columns]
    is_front = windows > 0.5 * (own + near)[:, None]
    filled = is_front.mean(axis=1)
    wins = filled >= MIXED_SHARE
    # The mean of the foreground, not its nearest point: a slanted surface would be measured too near.
    middle = np.where(is_front, windows, 0.0).sum(axis=1) / np.maximum(is_front.sum(axis=1), 1)
    mixed = own + share[rows, columns] * (middle - own)
    result, answers_now = disparity.copy(), answered.copy()
    result[rows, columns] = np.where(wins, middle, mixed)
    answers_now[rows, columns] = np.where(wins, (answers & is_front).any(axis=1), answered[rows, columns])
    return result, answers_now


def flight_depth(
    sheet: Depth, directions: Floats, seen: PixelTruth, draws: DepthDraws, full_well_e: float
) -> NDArray[np.float32]:
    """Depth [m] from the phase of modulated light, NaN without a valid measurement, shape (h, w).

    The standard deviation of range is c / (4 sqrt(2) pi f) sqrt(A + B) / (C A), with the electrons A of the camera's
    own light, B of ambient light, and the demodulation contrast C. Without a section `time_of_flight`, only the noise
    of the data sheet applies.
    """
    found = np.isfinite(seen.range_m)
    range_m = np.where(found, seen.range_m, 1.0).astype(np.float64)
    along = np.where(found, seen.depth, 1.0) / range_m
    flight = sheet.time_of_flight
    if flight is None:
        return reported(range_m * along, found, sheet, draws.second)
    facing = -np.einsum("hwk,hwk->hw", seen.normal, directions)
    signal = np.where(found, flight.signal_e * seen.reflectance * np.maximum(facing, 0.0) / range_m**2, 0.0)
    phasor, own = _received(flight, range_m, signal, draws.share)
    if flight.interreflection:
        relative, added = interreflected(flight, directions, seen, range_m, found)
        phasor, own = phasor * (1.0 + relative), own * (1.0 + added)
    if flight.harmonic:
        # Four samples per period cannot separate the third harmonic from the conjugate of the first.
        phasor = phasor + flight.harmonic * np.abs(phasor) * np.exp(-3j * np.angle(phasor))
    period = ambiguity_m(flight.modulation_mhz * 1e6)
    metres = period / (2.0 * np.pi)
    measured = range_m + np.angle(phasor * np.exp(-1j * range_m / metres)) * metres
    total = own + flight.ambient_e
    noise = flight_sigma(flight, own)
    answered = found & (total <= full_well_e) & (flight.contrast * own >= flight.least_signal_to_noise * np.sqrt(total))
    measured = measured + np.where(answered, noise, 0.0) * draws.first
    if flight.wraps:
        measured = np.asarray(wrapped(measured, period))
    return reported(measured * along, answered, sheet, draws.second)


def flight_sigma(flight: TimeOfFlight, signal_e: Floats) -> Floats:
    """Standard deviation of range [m] for `signal_e` electrons of the camera's own light."""
    # Pixels without any light have no valid depth; the limit keeps their division finite.
    snr = np.maximum(flight.contrast * signal_e, 1e-9) / np.sqrt(np.maximum(signal_e + flight.ambient_e, 1e-9))
    return np.asarray(phase_sigma_m(snr, modulation_hz=flight.modulation_mhz * 1e6))


def interreflected(
    flight: TimeOfFlight, directions: Floats, seen: PixelTruth, range_m: Floats, found: Flags
) -> tuple[NDArray[np.complex128], Floats]:
    """Light that arrives over one other visible surface, relative to the direct light: phasor and electrons, (h, w).

    The image is divided into patches. A patch q of solid angle W and reflectance r, lit by the camera, adds
    r / pi W cos_q cos_p R_p^2 / (cos_i (d^2 + A_q / pi)) to the direct light at p, with the distance d between the two,
    the range R_p, the cosine of incidence cos_i at p and the area A_q of the patch. Its path is R_q + d + R_p long.
    Surfaces outside the image and shadows between patches are neglected. The result is interpolated to all pixels.
    """
    from scipy.ndimage import map_coordinates

    height, width = range_m.shape
    step = max(1, -(-max(height, width) // INTERREFLECTION_SIDE))
    rows, columns = (np.arange(step // 2, n, step) for n in (height, width))
    at = np.ix_(rows, columns)
    shape = (len(rows), len(columns))
    d, n = directions[at].reshape(-1, 3), seen.normal[at].reshape(-1, 3).astype(np.float64)
    lit, far = found[at].ravel(), range_m[at].ravel()
    facing = np.maximum(-np.einsum("pk,pk->p", n, d), GRAZING_COSINE)
    solid = _solid_angles(directions)[at].ravel() * step * step
    area = far**2 * solid / facing
    points = d * far[:, None]
    sent = np.where(lit, seen.reflectance[at].ravel().astype(np.float64) * solid / np.pi, 0.0)
    metres = SPEED_OF_LIGHT_M_S / (4.0 * np.pi * flight.modulation_mhz * 1e6)
    phasor, electrons = np.zeros(len(d), np.complex128), np.zeros(len(d))
    for p in np.flatnonzero(lit):
        to = points[p] - points
        square = np.einsum("pk,pk->p", to, to)
        distance = np.sqrt(square)
        leaves = np.einsum("pk,pk->p", to, n)
        arrives = -to @ n[p]
        factor = np.where((leaves > 0.0) & (arrives > 0.0), leaves * arrives, 0.0) / np.maximum(square, 1e-12)
        share = sent * factor * far[p] ** 2 / (facing[p] * (square + area / np.pi))
        electrons[p] = share.sum()
        phasor[p] = (share * np.exp(0.5j * (far + distance - far[p]) / metres)).sum()
    places = np.meshgrid((np.arange(height) - rows[0]) / step, (np.arange(width) - columns[0]) / step, indexing="ij")

    def everywhere(values: Floats) -> Floats:
        return np.asarray(map_coordinates(values.reshape(shape), places, order=1, mode="nearest"))

    return everywhere(phasor.real) + 1j * everywhere(phasor.imag), everywhere(electrons)


def _solid_angles(directions: Floats) -> Floats:
    """Solid angle of each pixel [sr] from the directions of the pixel centres, shape (h, w)."""
    across, down = np.gradient(directions, axis=1), np.gradient(directions, axis=0)
    return np.asarray(np.linalg.norm(np.cross(across, down), axis=-1))


def _received(
    flight: TimeOfFlight, range_m: Floats, signal: Floats, share: Floats
) -> tuple[NDArray[np.complex128], Floats]:
    """Received light as a complex phasor, and its electrons.

    Next to a neighbour at another range, a pixel receives up to half of that neighbour's light (a flying pixel). With
    `multipath`, part of the light arrives over another surface. Its additional phase is below half a period, so that
    measured ranges grow.
    """
    metres = SPEED_OF_LIGHT_M_S / (4.0 * np.pi * flight.modulation_mhz * 1e6)
    phasor = signal * np.exp(1j * range_m / metres)
    ranges, phasors, signals = (np.pad(a, 1, mode="edge") for a in (range_m, phasor, signal))
    step, mixed, electrons = np.zeros_like(range_m), phasor, signal
    height, width = range_m.shape
    for row, column in ((0, 1), (2, 1), (1, 0), (1, 2)):
        there = np.s_[row : row + height, column : column + width]
        away = np.abs(ranges[there] - range_m)
        part = 0.5 * share
        larger = (away > step) & (away > flight.edge_share * range_m)
        mixed = np.where(larger, (1.0 - part) * phasor + part * phasors[there], mixed)
        electrons = np.where(larger, (1.0 - part) * signal + part * signals[there], electrons)
        step = np.where(larger, away, step)
    turn = np.exp(1j * flight.multipath_m / metres)
    return mixed * (1.0 + flight.multipath * turn), electrons * (1.0 + flight.multipath)
