"""Overlap curve without reflectivity, from places on surfaces that a drive revisits at other distances.

The signal of a place is its brightness times a function of the angle of incidence times xi(R) / R^2. The brightness is
constant and cancels between two observations. Two functions remain, of range and of angle, in one least squares over
all places. Walls that the sensor approaches head-on constrain the range function alone; floors and side walls constrain
both. A single frame does not separate them, because along any plane the cosine falls with range as 1 / R.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.drive.flat_pixels import FlatPixels, flat_pixels
from parhelion.calibrate.drive.overlap import Overlap, plateau_bins, plateau_ends
from parhelion.calibrate.drive.overlap_errors import STILL_RISING
from parhelion.calibrate.drive.registration import TRIED_FRAMES, Placed, register
from parhelion.calibrate.range_images import Floats, RangeImage, is_stationary
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.config import Overlap as OverlapField
from parhelion.sensors.optics.lidar.link_budget import overlap_share

PLACE_M = 0.5
"""Size of a place."""
BLOCK_M = 8.0
"""Size of a block of places that may share a material and are resampled together."""
FEWEST_FRAMES = 4
MOST_FRAMES = 60
STEP_M = 0.8
"""Distance between observations of a place, for recordings with many frames: slow robots use every tenth frame."""
FEWEST_APART = 12
"""Smallest number of frames to use, if available."""
FEWEST_PIXELS = 3
"""Smallest number of pixels of a frame at a place."""
FEWEST_PLACES = 100
LEAST_RATIO = 1.08
"""Smallest ratio of the ranges to a place that constrains the curve."""
LEAST_COSINE = 0.12
STRONG = 3.0
"""Smallest signal of a place over the threshold: among weaker ones only upward fluctuations return."""
RANGES_M = np.geomspace(0.8, 120.0, 51)
"""Knots of the curve, a tenth apart."""
COSINES = np.array([0.12, 0.18, 0.27, 0.4, 0.55, 0.75, 1.0])
"""Knots of the angle function; it is linear in logarithms between them."""
LEVEL = 0.8
"""Cosine of a normal with the vertical above which a surface counts as floor, with its own angle function."""
PLACE_NOISE = 0.1
"""Relative difference between two observations of a place."""
LAW_NOISE = 0.25
"""Spread of the cosine exponent between places."""
SLOPE, SLOPE_ERROR, SLOPE_BEND = 0.6, 0.35, 0.15
"""Prior of the cosine exponent, its standard deviation, and that between angles: 1 is a matt surface, 0.2 to 0.5 are
rough ones."""
BEND = 0.5
"""Typical change of the curve's slope between knots."""
ROUNDS = 8
WEAK, BRIGHT = 1.0, 2.0
"""Grades of observations that are not used themselves."""
ROW_NOISE = 0.1
"""Relative spread of the strengths of rows."""
MODEL_ERROR, TILT_ERROR = 0.05, 0.05
"""Model error of the two functions, because surfaces differ: relative, and as a power of range. Estimated from ten
simulated drives."""
MOST_RISE = 0.03
"""Logarithm by which a flat curve may still rise at its end."""
UNITS = 0.2
"""Relative spread of the range of full overlap between units of a family."""


@dataclass(frozen=True, eq=False)
class Observations:
    """Observations of places: one row per place and frame."""

    place: NDArray[np.int64]
    """Index of the place; each has several observations."""
    block: NDArray[np.int64]
    level: Floats
    """Logarithm of the mean of signal times range squared."""
    range: Floats
    """Logarithm of the mean range [m]."""
    cosine: Floats
    """Logarithm of the mean cosine of incidence."""
    floor: NDArray[np.bool_]
    pixels: Floats
    row: NDArray[np.int64]
    """Middle row of the observation."""


def overlap_from_revisits(
    frames: Sequence[RangeImage], family: OverlapField, least_signal: float, most_signal: float, seed: int = 1
) -> Overlap:
    """Overlap curve of a drive from its signal alone, with errors; its constant is unknown (NaN).

    `least_signal` is the signal at the threshold. Places weaker than `STRONG` times that or at least as strong as
    `most_signal` are excluded. `family` is the curve of the sensor family, which sets the scale if the drive does not
    reach the plateau. ConfigError is raised if the drive does not determine the curve.
    """
    if len(frames) < FEWEST_FRAMES:
        raise ConfigError(
            f"without reflectivity {FEWEST_FRAMES} frames of a moving sensor are needed, got {len(frames)}"
        )
    some, every = _well_apart(frames, seed)
    flat = [flat_pixels(frame) for frame in some]
    placed = register(flat, seed, every)
    if sum(placed.known) < FEWEST_FRAMES:
        raise ConfigError(
            "without reflectivity the motion of the sensor is needed, and its surfaces do not determine it"
        )
    observations = gather(some, flat, placed, STRONG * least_signal, most_signal)
    number = len(np.unique(observations.place))
    if number < FEWEST_PLACES:
        raise ConfigError(
            f"only {number} places are revisited at other distances, over a path of {placed.path_m:.0f} m"
        )
    return _curve(observations, family, frames[0].range.shape[0])


def _well_apart(frames: Sequence[RangeImage], seed: int) -> tuple[list[RangeImage], int]:
    """Frames from the start of the motion, thinned out until the sensor moves between them, and the thinning factor."""
    start = next((k for k in range(1, len(frames)) if not is_stationary([frames[0], frames[k]])), None)
    if start is None:
        raise ConfigError("without reflectivity a moving sensor is needed")
    moving = list(frames[start - 1 :])
    placed = register([flat_pixels(frame) for frame in moving[:TRIED_FRAMES]], seed)
    step = placed.path_m / max(sum(placed.known) - 1, 1)
    every = int(np.clip(STEP_M / max(step, 1e-3), 1, max(len(moving) // FEWEST_APART, 1)))
    return moving[::every][:MOST_FRAMES], every


def gather(
    frames: Sequence[RangeImage], flat: Sequence[FlatPixels], placed: Placed, least_signal: float, most_signal: float
) -> Observations:
    """Observations of places that a drive revisits."""
    parts = [
        _of_frame(frame, pixels, placed, number, least_signal, most_signal)
        for number, (frame, pixels) in enumerate(zip(frames, flat, strict=True))
        if placed.known[number]
    ]
    every = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    chosen = _in_between(every["key"], every["range"], every["grade"])
    every = {name: values[chosen] for name, values in every.items()}
    place = np.unique(every["key"], return_inverse=True)[1]
    # All observations of a place share one normal. Normals of single observations scatter, and the fit would interpret
    # the scatter as angles at which nothing changes.
    normal = np.stack([np.bincount(place, axis) for axis in every["normal"].T], axis=1).astype(np.float64)
    normal /= np.maximum(np.linalg.norm(normal, axis=1, keepdims=True), 1e-9)
    cosine = np.abs(np.einsum("ij,ij->i", normal[place], every["view"]))
    ratio = _greatest(every["range"], place) + _greatest(-every["range"], place)
    again = (ratio > np.log(LEAST_RATIO))[place] & (cosine > LEAST_COSINE)
    floor = (np.abs(normal[:, 2]) > LEVEL)[place]
    every = {name: values[again] for name, values in every.items()}
    number, block = (np.unique(every[name], return_inverse=True)[1] for name in ("key", "block"))
    level, metres, pixels, row = (every[name] for name in ("level", "range", "pixels", "row"))
    angle = np.log(cosine[again])
    return Observations(number, block, level, metres, angle, floor[again], pixels, row.astype(np.int64))


def _of_frame(
    frame: RangeImage, pixels: FlatPixels, placed: Placed, number: int, least_signal: float, most_signal: float
) -> dict[str, NDArray[Any]]:
    """Observations of one frame by name, see `Observations`; also sums of normals, mean directions, and grades."""
    assert frame.direction is not None
    with np.errstate(invalid="ignore"):
        own = pixels.rows((frame.signal[pixels.place] > 0.0) & (pixels.cosine > LEAST_COSINE))
    signal, metres = frame.signal[own.place], frame.range[own.place]
    where, normal = placed.in_world(number, own)
    view = placed.to_world(number, own, frame.direction[own.place])
    # The side of a place is one of six, so that the two faces of a thin wall are two places.
    axis = np.argmax(np.abs(normal), axis=1)
    side = 2 * axis + (np.take_along_axis(normal, axis[:, None], axis=1)[:, 0] > 0.0)
    key, first, inverse, count = np.unique(
        _packed(where, PLACE_M) * 6 + side, return_index=True, return_inverse=True, return_counts=True
    )

    def total(values: NDArray[Any]) -> Floats:
        return np.asarray(np.bincount(inverse, values, len(key)))

    # An observation is used completely or not at all: without its brightest pixels it would be too dark.
    bright, weak = total(signal >= most_signal) > 0.0, total(signal) < least_signal * count
    found = {
        "key": key,
        "block": _packed(where, BLOCK_M)[first],
        "level": np.log(total(signal * metres**2) / count),
        "range": np.log(total(metres) / count),
        "pixels": count.astype(np.float64),
        "grade": np.where(bright, BRIGHT, np.where(weak, WEAK, 0.0)),
        "row": np.rint(total(own.row) / count),
        "normal": np.stack([total(part) for part in normal.T], axis=1),
        "view": np.stack([total(part) / count for part in view.T], axis=1),
    }
    return {name: values[count >= FEWEST_PIXELS] for name, values in found.items()}


def _greatest(values: Floats, group: NDArray[np.int64]) -> Floats:
    """Largest value of each group."""
    found = np.full(int(group.max(initial=0)) + 1, -np.inf)
    np.maximum.at(found, group, values)
    return found


def _in_between(place: NDArray[np.int64], metres: Floats, grade: Floats) -> NDArray[np.bool_]:
    """Observations nearer than the first weak one at their place, and farther than the last bright one.

    If only weak observations were excluded, those of similar range that fluctuated upward would remain.
    """
    group = np.unique(place, return_inverse=True)[1]
    first_weak = -_greatest(np.where(grade == WEAK, -metres, -np.inf), group)
    last_bright = _greatest(np.where(grade == BRIGHT, metres, -np.inf), group)
    return np.asarray((metres < first_weak[group]) & (metres > last_bright[group]))


def _packed(where: Floats, size: float) -> NDArray[np.int64]:
    """Grid cell index, as one integer per cell."""
    cell = np.floor(where / size).astype(np.int64) + (1 << 19)
    return np.asarray((cell[:, 0] << 40) + (cell[:, 1] << 20) + cell[:, 2])


def _tents(at: Floats, knots: Floats) -> Floats:
    """Weight of each knot in piecewise linear interpolation, shape (n, knots)."""
    left = np.clip(np.digitize(at, knots) - 1, 0, len(knots) - 2)
    share = np.clip((at - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0)
    found = np.zeros((len(at), len(knots)))
    row = np.arange(len(at))
    found[row, left], found[row, left + 1] = 1.0 - share, share
    return found


def _within_place(values: Floats, place: NDArray[np.int64], weight: Floats) -> Floats:
    """Values minus the weighted mean of their place."""
    total = np.bincount(place, weight)
    table = values if values.ndim == 2 else values[:, None]
    mean = np.stack([np.bincount(place, weight * column) / total for column in table.T], axis=1)
    return np.asarray((table - mean[place]).reshape(values.shape))


def _curve(observations: Observations, family: OverlapField, rows: int) -> Overlap:
    knots, angles = np.log(RANGES_M), np.log(COSINES)
    size, law = len(knots), len(angles)
    by_angle = _tents(observations.cosine, angles)
    design = np.hstack(
        [
            _tents(observations.range, knots),
            by_angle * observations.floor[:, None],
            by_angle * ~observations.floor[:, None],
            np.eye(rows)[observations.row],
        ]
    )
    even = np.ones(len(observations.place))
    off = _within_place(observations.cosine, observations.place, even)
    weight = 1.0 / (PLACE_NOISE**2 * (1.0 + 2.0 / observations.pixels) + (LAW_NOISE * off) ** 2)
    prior, right = _prior(size, law, rows, knots, angles)
    robust = even
    for _ in range(ROUNDS):
        w = weight * robust
        a, y = (_within_place(part, observations.place, w) for part in (design, observations.level))
        matrix = (w[:, None] * a).T @ a + prior
        found = np.linalg.solve(matrix, (w[:, None] * a).T @ y + right)
        left = y - a @ found
        robust = 1.0 / np.maximum(1.0, np.abs(left) * np.sqrt(weight) / 1.5)
    count = np.rint(_tents(observations.range, knots).T @ observations.pixels).astype(np.int64)
    inverse = np.linalg.inv(matrix)
    # Errors follow from the differences between the gradients of blocks, which are not independent within.
    score = np.zeros((observations.block.max() + 1, len(found)))
    np.add.at(score, observations.block, (w * left)[:, None] * a)
    spread = inverse @ (_student(score @ inverse, knots, count) * score.T @ score + prior) @ inverse
    return _levelled(knots, found[:size], spread[:size, :size], count, family, rows)


def _student(influence: Floats, knots: Floats, count: NDArray[np.int64]) -> float:
    """Factor on variances, because few blocks may determine the tilt of the curve, its least constrained mode.

    `influence` is the contribution of each block to each parameter. The factor is Student's for the effective number of
    blocks that determine the slope.
    """
    from scipy.special import stdtrit

    seen = count >= FEWEST_PLACES
    lever = np.where(seen, knots - np.mean(knots[seen]) if seen.any() else 0.0, 0.0)
    tilt = influence[:, : len(knots)] @ lever
    number = float(np.sum(tilt**2) ** 2 / max(float(np.sum(tilt**4)), 1e-300))
    return float(stdtrit(max(number - 1.0, 1.0), 0.975) / 1.96) ** 2


def _prior(size: int, law: int, rows: int, knots: Floats, angles: Floats) -> tuple[Floats, Floats]:
    """Prior: the curve has little curvature, surfaces are between matt and rough, and rows are nearly equal."""
    whole = size + 2 * law + rows
    bends = np.zeros((size - 2, whole))
    bends[:, :size] = np.diff(np.eye(size), 2, axis=0) / ((knots[1] - knots[0]) * BEND)
    steps = np.diff(np.eye(law), axis=0) / np.diff(angles)[:, None]
    mean_slope = np.diff(angles) / (angles[-1] - angles[0]) @ steps
    slopes = np.zeros((2 * law, whole))
    for kind in range(2):
        columns = slice(size + kind * law, size + (kind + 1) * law)
        slopes[kind * law, columns] = mean_slope / SLOPE_ERROR
        slopes[kind * law + 1 : (kind + 1) * law, columns] = (steps - mean_slope) / SLOPE_BEND
    slope = np.zeros(2 * law)
    slope[::law] = SLOPE / SLOPE_ERROR
    # Levels of the three functions are free; they are held near 0.
    held = np.zeros((3, whole))
    held[0, :size] = 0.1 / size
    held[1, size + law - 1] = held[2, size + 2 * law - 1] = 10.0
    alike = np.eye(whole)[size + 2 * law :] / ROW_NOISE
    known = np.vstack([bends, slopes, held, alike])
    right = np.concatenate([np.zeros(size - 2), slope, np.zeros(3 + rows)])
    return known.T @ known, known.T @ right


def _levelled(
    knots: Floats, level: Floats, covariance: Floats, count: NDArray[np.int64], family: OverlapField, rows: int
) -> Overlap:
    """Observed part of a curve, 1 at its plateau."""
    seen = np.flatnonzero(count >= FEWEST_PLACES)
    if len(seen) < 5:
        raise ConfigError("revisited places lie at few distances")
    seen = np.arange(seen[0], seen[-1] + 1)
    knots, level, covariance, count = knots[seen], level[seen], covariance[np.ix_(seen, seen)], count[seen]
    variance = np.maximum(np.diag(covariance), 1e-8)
    first, last, smooth = plateau_bins(level, 1.0 / variance)
    weight = np.zeros(len(seen))
    weight[first : last + 1] = 1.0 / variance[first : last + 1]
    weight /= weight.sum()
    mean, highest = float(weight @ level), float(smooth[first : last + 1].max())
    # As for curves by reflectivity, full overlap lies between the mean and the highest of the plateau's bins.
    top, top_variance = 0.5 * (mean + highest), (highest - mean) ** 2 / 3.0
    rise = float(smooth[-1] - np.interp(knots[-1] - np.log(STILL_RISING), knots, smooth))
    if last == len(seen) - 1 and rise > MOST_RISE:
        # The curve still rises beyond the observed part: the curve of the family gives its level there.
        at = np.exp(knots[-1]) * np.array([1.0, 1.0 / STILL_RISING, STILL_RISING])
        there, nearer, farther = np.log(np.maximum(overlap_share(family, at), 1e-6))
        top = float(weight @ level) - there
        top_variance = (UNITS * (farther - nearer) / (2.0 * np.log(STILL_RISING))) ** 2 + rise**2 / 3.0
    beside = np.eye(len(seen)) - weight
    own = np.einsum("ij,jk,ik->i", beside, covariance, beside)
    own += MODEL_ERROR**2 + (TILT_ERROR * (knots - weight @ knots)) ** 2
    share, width, metres = np.exp(level - top), np.exp(np.sqrt(own + top_variance)), np.exp(knots)
    return Overlap(
        metres,
        share,
        share / width,
        share * width,
        share,
        count,
        np.nan,
        np.nan,
        np.ones(rows),
        plateau_ends(metres, first, last),
        float(metres[0]),
        stepped=False,
    )
