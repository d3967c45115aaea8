"""The overlap curve without reflectivity: places on surfaces that a drive sees again from other distances.

What a place sends back is its brightness times a function of the angle of incidence times xi(R) / R^2. Brightness is
the place's own, and drops out between two looks at it. What is left are two functions, of range and of angle, in one
least squares over all places: walls that the sensor drives towards show the range alone, and floors and walls beside it
both. A turn alone cannot tell them: along any plane the cosine falls with range as 1 / R does.
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
from parhelion.calibrate.drive.registration import TRIED_TURNS, Placed, register
from parhelion.calibrate.range_images import Floats, RangeImage, is_standing
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.config import Overlap as OverlapField
from parhelion.sensors.optics.lidar.link_budget import overlap_share

PLACE_M = 0.5
"""Size of a place."""
BLOCK_M = 8.0
"""Places within such a block may be of one material and stand or fall together."""
FEWEST_TURNS = 4
MOST_TURNS = 60
STEP_M = 0.8
"""How far the sensor should move from look to look, where there are many turns: slow robots are seen in every tenth."""
FEWEST_APART = 12
"""Turns that are taken at least, where there are as many."""
FEWEST_PIXELS = 3
"""Pixels that a turn must have at a place."""
FEWEST_PLACES = 100
LEAST_RATIO = 1.08
"""By how much the ranges of a place must differ to tell anything."""
LEAST_COSINE = 0.12
STRONG = 3.0
"""Photons over those at the threshold that a place must send: of weaker ones only the lucky pixels return."""
RANGES_M = np.geomspace(0.8, 120.0, 51)
"""Knots of the curve, a tenth apart."""
COSINES = np.array([0.12, 0.18, 0.27, 0.4, 0.55, 0.75, 1.0])
"""Knots of what surfaces do with the angle; between them straight in logarithms."""
LEVEL = 0.8
"""Cosine of a normal with the vertical from which on a surface counts as floor: it has an angular law of its own."""
PLACE_NOISE = 0.1
"""By how much two looks at a place differ, relative."""
LAW_NOISE = 0.25
"""By how much places differ in the power of the cosine."""
SLOPE, SLOPE_ERROR, SLOPE_BEND = 0.6, 0.35, 0.15
"""The power of the cosine before anything is measured, its deviation, and that from angle to angle: 1 is a matt
surface, 0.2 to 0.5 are rough ones."""
BEND = 0.5
"""Usual change of the curve's slope from knot to knot."""
ROUNDS = 8
WEAK, BRIGHT = 1.0, 2.0
"""Grades of looks that are not used themselves."""
ROW_NOISE = 0.1
"""By how much rows differ in strength."""
MODEL_ERROR, TILT_ERROR = 0.05, 0.05
"""What the two functions cannot say, since surfaces differ: relative, and as a power of range. Judged by ten simulated
drives."""
MOST_RISE = 0.03
"""Logarithm by which a level curve may still rise at its end."""
UNITS = 0.2
"""By how much ranges of full overlap differ between units of a family, relative."""


@dataclass(frozen=True, eq=False)
class Observations:
    """Looks at places: one row a place and turn."""

    place: NDArray[np.int64]
    """Number of the place, each with several looks."""
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
    """The row in the middle of the look."""


def overlap_seen_again(
    turns: Sequence[RangeImage], usual: OverlapField, least_signal: float, most_signal: float, seed: int = 1
) -> Overlap:
    """The overlap curve of a drive by its signal alone, with errors; its constant is unknown (NaN).

    `least_signal` is that at the threshold, and places weaker than `STRONG` times that are left out, as are those from
    `most_signal` on. `usual` is the curve of the sensor's family, which sets the scale where the drive does not reach
    its plateau. Raises ConfigError where the drive does not tell.
    """
    if len(turns) < FEWEST_TURNS:
        raise ConfigError(f"without reflectivity it needs {FEWEST_TURNS} turns that move, and there are {len(turns)}")
    some, every = _well_apart(turns, seed)
    flat = [flat_pixels(turn) for turn in some]
    placed = register(flat, seed, every)
    if sum(placed.known) < FEWEST_TURNS:
        raise ConfigError("without reflectivity it needs to know how the sensor moved, which its surfaces do not tell")
    looks = gather(some, flat, placed, STRONG * least_signal, most_signal)
    number = len(np.unique(looks.place))
    if number < FEWEST_PLACES:
        raise ConfigError(f"only {number} places are seen again from other distances, over {placed.way_m:.0f} m of way")
    return _curve(looks, usual, turns[0].range.shape[0])


def _well_apart(turns: Sequence[RangeImage], seed: int) -> tuple[list[RangeImage], int]:
    """Turns from where the sensor begins to move, and of how many each is one: so many that it moves between them."""
    start = next((k for k in range(1, len(turns)) if not is_standing([turns[0], turns[k]])), None)
    if start is None:
        raise ConfigError("without reflectivity it needs a sensor that moves")
    moving = list(turns[start - 1 :])
    placed = register([flat_pixels(turn) for turn in moving[:TRIED_TURNS]], seed)
    step = placed.way_m / max(sum(placed.known) - 1, 1)
    every = int(np.clip(STEP_M / max(step, 1e-3), 1, max(len(moving) // FEWEST_APART, 1)))
    return moving[::every][:MOST_TURNS], every


def gather(
    turns: Sequence[RangeImage], flat: Sequence[FlatPixels], placed: Placed, least_signal: float, most_signal: float
) -> Observations:
    """The looks of a drive at places that it sees again."""
    parts = [
        _of_turn(turn, pixels, placed, number, least_signal, most_signal)
        for number, (turn, pixels) in enumerate(zip(turns, flat, strict=True))
        if placed.known[number]
    ]
    every = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    chosen = _in_between(every["key"], every["range"], every["grade"])
    every = {name: values[chosen] for name, values in every.items()}
    place = np.unique(every["key"], return_inverse=True)[1]
    # A place has one normal: that of all looks together. Normals of single looks scatter, and the fit would take their
    # scatter for angles at which nothing changes.
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


def _of_turn(
    turn: RangeImage, pixels: FlatPixels, placed: Placed, number: int, least_signal: float, most_signal: float
) -> dict[str, NDArray[Any]]:
    """The looks of one turn, by name: see `Looks`; beside that sums of normals, mean directions, and grades."""
    assert turn.direction is not None
    with np.errstate(invalid="ignore"):
        own = pixels.rows((turn.signal[pixels.place] > 0.0) & (pixels.cosine > LEAST_COSINE))
    signal, metres = turn.signal[own.place], turn.range[own.place]
    where, normal = placed.in_world(number, own)
    view = placed.turned(number, own, turn.direction[own.place])
    # A place has one of six sides: the two faces of a thin wall are two places.
    axis = np.argmax(np.abs(normal), axis=1)
    side = 2 * axis + (np.take_along_axis(normal, axis[:, None], axis=1)[:, 0] > 0.0)
    key, first, inverse, count = np.unique(
        _packed(where, PLACE_M) * 6 + side, return_index=True, return_inverse=True, return_counts=True
    )

    def total(values: NDArray[Any]) -> Floats:
        return np.asarray(np.bincount(inverse, values, len(key)))

    # A look counts whole or not at all: without its brightest pixels it would be too dark.
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
    """The greatest value of each group."""
    found = np.full(int(group.max(initial=0)) + 1, -np.inf)
    np.maximum.at(found, group, values)
    return found


def _in_between(place: NDArray[np.int64], metres: Floats, grade: Floats) -> NDArray[np.bool_]:
    """Looks that are nearer than the first weak one at their place, and farther than the last bright one.

    Where weak looks alone were left out, of the looks about as far those would stay that luck made strong.
    """
    group = np.unique(place, return_inverse=True)[1]
    first_weak = -_greatest(np.where(grade == WEAK, -metres, -np.inf), group)
    last_bright = _greatest(np.where(grade == BRIGHT, metres, -np.inf), group)
    return np.asarray((metres < first_weak[group]) & (metres > last_bright[group]))


def _packed(where: Floats, size: float) -> NDArray[np.int64]:
    """One number for each cell of a grid."""
    cell = np.floor(where / size).astype(np.int64) + (1 << 19)
    return np.asarray((cell[:, 0] << 40) + (cell[:, 1] << 20) + cell[:, 2])


def _tents(at: Floats, knots: Floats) -> Floats:
    """Share of each knot in values that are straight between knots, shape (n, knots)."""
    left = np.clip(np.digitize(at, knots) - 1, 0, len(knots) - 2)
    share = np.clip((at - knots[left]) / (knots[left + 1] - knots[left]), 0.0, 1.0)
    found = np.zeros((len(at), len(knots)))
    row = np.arange(len(at))
    found[row, left], found[row, left + 1] = 1.0 - share, share
    return found


def _within_place(values: Floats, place: NDArray[np.int64], weight: Floats) -> Floats:
    """Values less their place's weighted mean."""
    total = np.bincount(place, weight)
    table = values if values.ndim == 2 else values[:, None]
    mean = np.stack([np.bincount(place, weight * column) / total for column in table.T], axis=1)
    return np.asarray((table - mean[place]).reshape(values.shape))


def _curve(looks: Observations, usual: OverlapField, rows: int) -> Overlap:
    knots, angles = np.log(RANGES_M), np.log(COSINES)
    size, law = len(knots), len(angles)
    by_angle = _tents(looks.cosine, angles)
    design = np.hstack(
        [
            _tents(looks.range, knots),
            by_angle * looks.floor[:, None],
            by_angle * ~looks.floor[:, None],
            np.eye(rows)[looks.row],
        ]
    )
    even = np.ones(len(looks.place))
    off = _within_place(looks.cosine, looks.place, even)
    weight = 1.0 / (PLACE_NOISE**2 * (1.0 + 2.0 / looks.pixels) + (LAW_NOISE * off) ** 2)
    prior, right = _prior(size, law, rows, knots, angles)
    robust = even
    for _ in range(ROUNDS):
        w = weight * robust
        a, y = (_within_place(part, looks.place, w) for part in (design, looks.level))
        matrix = (w[:, None] * a).T @ a + prior
        found = np.linalg.solve(matrix, (w[:, None] * a).T @ y + right)
        left = y - a @ found
        robust = 1.0 / np.maximum(1.0, np.abs(left) * np.sqrt(weight) / 1.5)
    count = np.rint(_tents(looks.range, knots).T @ looks.pixels).astype(np.int64)
    inverse = np.linalg.inv(matrix)
    # Blocks stand or fall together: how their parts of the gradient differ gives the errors.
    score = np.zeros((looks.block.max() + 1, len(found)))
    np.add.at(score, looks.block, (w * left)[:, None] * a)
    spread = inverse @ (_student(score @ inverse, knots, count) * score.T @ score + prior) @ inverse
    return _levelled(knots, found[:size], spread[:size, :size], count, usual, rows)


def _student(influence: Floats, knots: Floats, count: NDArray[np.int64]) -> float:
    """Factor on variances, since few blocks may decide how the curve is tilted, which is what is hardest to tell.

    `influence` is what each block adds to each parameter. Student's factor for as many blocks as decide on the slope.
    """
    from scipy.special import stdtrit

    seen = count >= FEWEST_PLACES
    lever = np.where(seen, knots - np.mean(knots[seen]) if seen.any() else 0.0, 0.0)
    tilt = influence[:, : len(knots)] @ lever
    number = float(np.sum(tilt**2) ** 2 / max(float(np.sum(tilt**4)), 1e-300))
    return float(stdtrit(max(number - 1.0, 1.0), 0.975) / 1.96) ** 2


def _prior(size: int, law: int, rows: int, knots: Floats, angles: Floats) -> tuple[Floats, Floats]:
    """What is known before: the curve bends little, surfaces are between matt and rough, and rows nearly alike."""
    whole = size + 2 * law + rows
    bends = np.zeros((size - 2, whole))
    bends[:, :size] = np.diff(np.eye(size), 2, axis=0) / ((knots[1] - knots[0]) * BEND)
    steps = np.diff(np.eye(law), axis=0) / np.diff(angles)[:, None]
    usual = np.diff(angles) / (angles[-1] - angles[0]) @ steps
    slopes = np.zeros((2 * law, whole))
    for kind in range(2):
        columns = slice(size + kind * law, size + (kind + 1) * law)
        slopes[kind * law, columns] = usual / SLOPE_ERROR
        slopes[kind * law + 1 : (kind + 1) * law, columns] = (steps - usual) / SLOPE_BEND
    slope = np.zeros(2 * law)
    slope[::law] = SLOPE / SLOPE_ERROR
    # Heights of the three functions are free; they are held near 0.
    held = np.zeros((3, whole))
    held[0, :size] = 0.1 / size
    held[1, size + law - 1] = held[2, size + 2 * law - 1] = 10.0
    alike = np.eye(whole)[size + 2 * law :] / ROW_NOISE
    known = np.vstack([bends, slopes, held, alike])
    right = np.concatenate([np.zeros(size - 2), slope, np.zeros(3 + rows)])
    return known.T @ known, known.T @ right


def _levelled(
    knots: Floats, level: Floats, covariance: Floats, count: NDArray[np.int64], usual: OverlapField, rows: int
) -> Overlap:
    """The part of a curve that was seen, 1 at its plateau."""
    seen = np.flatnonzero(count >= FEWEST_PLACES)
    if len(seen) < 5:
        raise ConfigError("places that are seen again lie at few distances")
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
        # The curve goes on to rise behind what was seen: its family says how far it has come.
        at = np.exp(knots[-1]) * np.array([1.0, 1.0 / STILL_RISING, STILL_RISING])
        there, nearer, farther = np.log(np.maximum(overlap_share(usual, at), 1e-6))
        top = float(weight @ level) - there
        top_variance = (UNITS * (farther - nearer) / (2.0 * np.log(STILL_RISING))) ** 2 + rise**2 / 3.0
    beside = np.eye(len(seen)) - weight
    own = np.einsum("ij,jk,ik->i", beside, covariance, beside)
    own += MODEL_ERROR**2 + (TILT_ERROR * (knots - weight @ knots)) ** 2
    share, width, metres = np.exp(level - top), np.exp(np.sqrt(own + top_variance)), np.exp(knots)
    return Overlap(
        metres, share, share / width, share * width, share, count, np.nan, np.nan, np.ones(rows),
        plateau_ends(metres, first, last), float(metres[0]), stepped=False,
    )  # fmt: skip
