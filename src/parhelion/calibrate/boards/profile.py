"""The profile of a material: what a sensor reports of it, by angle of incidence.

Statistics are those of returned shots alone; drops are counted once, by their rate. Intensities are kept as they are
distributed, since many sensors report but a few values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.boards.find import Board
from parhelion.calibrate.boards.shots import BoardShots
from parhelion.calibrate.range_images import Floats, Mask, TableWithFacts
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.config import FittedBrdf, MaterialProfile
from parhelion.sensors.optics.lidar.profiles import drop_at
from parhelion.surfaces import brdf

# ---- brdf fit -------------------------------------------------------------------------------------------------------
# Reflection models fitted to the intensities of a material by angle, for the angles of which nothing is recorded.
# The models are those of `surfaces/brdf.py`; a lidar receives f cos(theta). The best is chosen by leaving each bin out
# in turn (cross-validation), so that a model with more numbers has to earn them.


FEWEST_BINS = 3


def _lambert(cos: Floats) -> Floats:
    return brdf.lambert(reflectance=1.0) * cos


def _oren_nayar(cos: Floats, sigma_rad: float) -> Floats:
    return np.asarray(brdf.oren_nayar(cos, reflectance=0.5, sigma_rad=sigma_rad)) * 2.0 * cos


def _cook_torrance(cos: Floats, roughness: float, diffuse: float) -> Floats:
    gloss = np.asarray(brdf.cook_torrance(cos, roughness=roughness, f0=0.04))
    return (gloss + np.asarray(brdf.coated_diffuse(cos, reflectance=diffuse))) * cos


def _phong(cos: Floats, specular: float, exponent: float) -> Floats:
    return np.asarray(brdf.modified_phong(cos, diffuse=1.0 - specular, specular=specular, exponent=exponent)) * cos


Model = tuple[Callable[..., Floats], tuple[str, ...], tuple[tuple[float, ...], ...], tuple[tuple[float, float], ...]]
MODELS: dict[str, Model] = {
    "lambert": (_lambert, (), ((),), ()),
    "oren-nayar": (_oren_nayar, ("sigma_rad",), ((0.3,),), ((0.0, 1.2),)),
    "cook-torrance": (
        _cook_torrance,
        ("roughness", "diffuse"),
        ((0.3, 0.3), (0.6, 0.05)),
        ((0.05, 1.0), (0.0, 0.96)),
    ),
    "phong": (_phong, ("specular", "exponent"), ((0.2, 10.0), (0.5, 60.0)), ((0.0, 1.0), (1.0, 2000.0))),
}
"""f cos(theta) of each model, its parameters, where the search starts, and their bounds."""


@dataclass(frozen=True, eq=False)
class BrdfFit:
    """A model with its parameters."""

    model: str
    parameters: tuple[float, ...]
    scale: float
    error: float
    """Root mean square of relative differences to the bins left out."""
    constant_error: float

    def at(self, angle_deg: Floats | float) -> Floats:
        """Mean intensity at angles of incidence."""
        return self.scale * np.pi * MODELS[self.model][0](_cosine(angle_deg), *self.parameters)

    def as_config(self) -> FittedBrdf:
        """The fit as a sensor's file holds it."""
        names = MODELS[self.model][1]
        return FittedBrdf(
            model=self.model,  # type: ignore[arg-type]
            parameters={name: float(f"{value:.4g}") for name, value in zip(names, self.parameters, strict=True)},
            scale=float(f"{self.scale:.5g}"),
            error=float(f"{self.error:.3g}"),
            constant_error=float(f"{self.constant_error:.3g}"),
        )


def _cosine(angle_deg: Floats | float) -> Floats:
    return np.maximum(np.cos(np.radians(angle_deg)), 1e-6)


def fit_brdf(angle_deg: Floats, level: Floats, error: Floats) -> BrdfFit | None:
    """The model that foretells left-out bins best; None where none does it better than a constant.

    `level` is the mean intensity of each bin, `error` its standard error.
    """
    if len(angle_deg) < FEWEST_BINS or not np.any(level > 0):
        return None
    weight = 1.0 / np.hypot(error, 0.02 * float(np.max(level)))
    constant = _left_out(lambda rows: _mean(level[rows], weight[rows]), level)
    best: BrdfFit | None = None
    for name in MODELS:
        if len(angle_deg) <= len(MODELS[name][1]) + 1:
            continue

        whole, whole_scale = _fit(name, angle_deg, level, weight)

        def foretell(rows: Any, name: str = name, start: tuple[float, ...] = whole) -> Callable[[int], float]:
            parameters, scale = _fit(name, angle_deg[rows], level[rows], weight[rows], start)
            return lambda k: float(scale * np.pi * MODELS[name][0](_cosine(angle_deg[k]), *parameters))

        misfit = _left_out(foretell, level)
        if misfit < constant and (best is None or misfit < 0.98 * best.error):
            best = BrdfFit(name, whole, whole_scale, misfit, constant)
    return best


def _mean(level: Floats, weight: Floats) -> Callable[[int], float]:
    value = float(np.sum(weight**2 * level) / np.sum(weight**2))
    return lambda k: value


def _left_out(foretell: Callable[[Any], Callable[[int], float]], level: Floats) -> float:
    """Root mean square of what is foretold of each bin by the others, over the mean level."""
    numbers = np.arange(len(level))
    off = [foretell(numbers != k)(int(k)) - level[k] for k in numbers]
    return float(np.sqrt(np.mean(np.square(off))) / np.mean(np.abs(level)))


def _fit(
    name: str, angle_deg: Floats, level: Floats, weight: Floats, start: tuple[float, ...] | None = None
) -> tuple[tuple[float, ...], float]:
    """Parameters and scale by least squares; the scale is linear, so it follows from the rest.

    From `start`, where a solution is known nearby, else from several places.
    """
    from scipy.optimize import least_squares

    shape, names, starts, bounds = MODELS[name]
    cos = _cosine(angle_deg)

    def scale_of(parameters: Floats) -> tuple[Floats, float]:
        form = np.pi * shape(cos, *parameters)
        return form, float(np.sum(weight**2 * form * level) / max(float(np.sum((weight * form) ** 2)), 1e-30))

    def misfit(parameters: Floats) -> Floats:
        form, scale = scale_of(parameters)
        return weight * (scale * form - level)

    if not names:
        return (), scale_of(np.zeros(0))[1]
    low, high = zip(*bounds, strict=True)
    inside = [np.clip(one, np.array(low) + 1e-6, np.array(high) - 1e-6) for one in ([start] if start else starts)]
    tries = [least_squares(misfit, one, bounds=(low, high), max_nfev=25) for one in inside]
    best = min(tries, key=lambda one: one.cost)
    return tuple(float(value) for value in best.x), scale_of(best.x)[1]


# ---- profile --------------------------------------------------------------------------------------------------------


Array = NDArray[Any]

BIN_DEG = 5.0
FEWEST_SHOTS = 10
"""Shots that a bin of angle must have to count as recorded."""
PRIOR_SHOTS = 10.0
"""Shots by which the neighbours of a bin count in it: much where it has few of its own, little where it has many."""
FEW_VALUES = 24
"""So many different intensities at most are kept one by one."""
CELLS = 32
OUTLIER_M = 0.15
"""Ranges this far off the board are of something else in any case: no shots at the board."""
OUTLIER_SIGMAS = 6.0
"""So many deviations off the others of their angle, too."""


@dataclass(frozen=True, eq=False)
class MaterialShots(TableWithFacts):
    """Shots at boards of one material."""

    angle_deg: Floats
    error_m: Floats
    """Measured less true range, NaN for lost shots."""
    intensity: Floats
    """At the reference distance, NaN for lost shots."""
    distance_m: tuple[float, float]
    knows_lost: bool
    board: Floats
    """Number of the board of each shot."""


def taken_at(board: Board, shots: BoardShots) -> Mask:
    """Which shots are taken for shots at a board: aimed at it, and without returns that are far off its plane."""
    taken = board.holds(shots)
    aimed = shots.rows(taken)
    error = aimed.range - board.true_range(aimed)
    with np.errstate(invalid="ignore"):
        kept = ~(np.abs(error) > OUTLIER_M)
    kept &= ~_outliers(board.incidence_deg(aimed), np.where(kept, error, np.nan))
    taken[taken] = kept
    return taken


def shots_at(board: Board, shots: BoardShots, number: int = 0) -> MaterialShots:
    """The shots aimed at a board; returns far off its plane are of other things and left out."""
    return held_against(board, shots.rows(taken_at(board, shots)), number)


def held_against(board: Board, aimed: BoardShots, number: int = 0) -> MaterialShots:
    """Shots that are taken for shots at a board, with their angles and range errors on it."""
    far = board.true_range(aimed)
    ends = (float(far.min()), float(far.max())) if len(far) else (0.0, 0.0)
    angle, error, which = board.incidence_deg(aimed), aimed.range - far, np.full(len(aimed), float(number))
    return MaterialShots(angle, error, aimed.intensity, ends, aimed.knows_lost, which)


def _outliers(angle_deg: Floats, error: Floats) -> Mask:
    """Returns far off the others of their bin of angle, by the median deviation."""
    place = np.clip(np.digitize(angle_deg, angle_edges()) - 1, 0, None)
    found = np.zeros(len(error), bool)
    for k in np.unique(place):
        own = (place == k) & np.isfinite(error)
        if own.sum() >= FEWEST_SHOTS:
            middle = np.median(error[own])
            sigma = 1.4826 * float(np.median(np.abs(error[own] - middle)))
            found[own] = np.abs(error[own] - middle) > OUTLIER_SIGMAS * max(sigma, 1e-3)
    return found


def together(parts: list[MaterialShots]) -> MaterialShots:
    """Shots at several boards of one material."""
    ends = (min(part.distance_m[0] for part in parts), max(part.distance_m[1] for part in parts))
    return MaterialShots.joined(parts, distance_m=ends, knows_lost=all(part.knows_lost for part in parts))


def angle_edges() -> Floats:
    """Edges of the bins of incidence [deg]."""
    return np.arange(0.0, 90.0 + BIN_DEG, BIN_DEG)


def intensity_cells(level: Floats) -> tuple[str, Floats]:
    """'values' and the few there are, or 'cells' and their edges."""
    values = np.unique(level)
    if len(values) <= FEW_VALUES:
        return "values", values
    # From 0 on, where a scale begins there: angles of which nothing is recorded may be darker than all that are.
    low, high = min(float(level.min()), 0.0), float(level.max())
    # Whole numbers stay apart: cells end between them.
    if np.all(values == np.round(values)):
        step = max(1.0, np.ceil((high - low + 1.0) / CELLS))
        return "cells", np.arange(low - 0.5, high + 0.5 + step, step)
    return "cells", np.linspace(low, high + 1e-6 * max(abs(high), 1.0), CELLS + 1)


def fit_profile(
    shots: MaterialShots, *, reference_m: float = 1.0, gaps: bool = True
) -> tuple[MaterialProfile, BrdfFit | None]:
    """The profile of a material, and the reflection model that fills its gaps; None where none is worth it.

    `gaps` False leaves them empty. Raises ConfigError where less than two bins of angle are recorded.
    """
    edges = angle_edges()
    bins = len(edges) - 1
    place = np.clip(np.digitize(shots.angle_deg, edges) - 1, 0, bins - 1)
    fired = np.bincount(place, minlength=bins)
    lost = np.isnan(shots.error_m)
    known = fired >= FEWEST_SHOTS
    if known.sum() < 2:
        spread = f"{shots.angle_deg.min():.1f} to {shots.angle_deg.max():.1f} deg" if len(shots) else "no shots"
        raise ConfigError(f"only one angle of incidence is recorded ({spread}): a wider or turned board is needed")
    if lost.all():
        raise ConfigError("every shot at the board is lost, so there is nothing to learn but that")
    gone = np.bincount(place, lost, bins)
    returned = ~lost
    kind, cells = intensity_cells(shots.intensity[returned])
    width = len(cells) - (kind == "cells")
    side: Any = "right" if kind == "cells" else "left"
    cell = np.searchsorted(cells, shots.intensity, side=side) - (kind == "cells")
    cell = np.clip(cell, 0, width - 1)
    flat = np.bincount(place[returned] * width + cell[returned], minlength=bins * width)
    counts = flat.reshape(bins, width).astype(np.float64)
    error = np.where(returned, shots.error_m, 0.0)
    many = _smoothed(np.bincount(place, returned, bins), known, fired)
    total: Array = np.bincount(place, error, bins)
    squares: Array = np.bincount(place, error**2, bins)
    lost_smooth = _smoothed(gone, known, fired)
    fired_smooth = _smoothed(fired.astype(float), known, fired)
    counts = np.stack([_smoothed(column, known, fired) for column in counts.T], axis=1)
    total, squares = _smoothed(total, known, fired), _smoothed(squares, known, fired)
    drop = lost_smooth / np.maximum(fired_smooth, 1e-9)
    mean = total / np.maximum(many, 1e-9)
    sigma = np.sqrt(np.maximum(squares / np.maximum(many, 1e-9) - mean**2, 0.0))
    # Two more of either kind (Agresti and Coull 1998): rates near 0 are not known as well as they look.
    careful = (lost_smooth + 2.0) / (fired_smooth + 4.0)
    drop_error = np.sqrt(careful * (1.0 - careful) / np.maximum(fired_smooth, 1.0))
    drop_error = np.hypot(drop_error, _between_boards(shots, place, bins))
    if not shots.knows_lost:
        drop, drop_error = 0.0 * drop, np.ones(bins)
    middles = 0.5 * (edges[1:] + edges[:-1])
    value = cells if kind == "values" else 0.5 * (cells[1:] + cells[:-1])
    level = counts @ value / np.maximum(counts.sum(axis=1), 1e-9)
    seen = known & (many > 2)
    if kind == "values":
        level = level * (1.0 - drop)  # of sensors with few values, it is drops that follow the signal
    brdf = fit_brdf(middles[seen], level[seen], level[seen] / np.sqrt(np.maximum(many[seen], 1.0))) if gaps else None
    if brdf is not None:
        _fill_gaps((drop, drop_error, mean, sigma), counts, seen, brdf, value if kind == "cells" else None)
    profile = MaterialProfile(
        angle_deg=edges.tolist(),
        shots=np.where(known, fired, 0).tolist(),
        drop=_short(np.clip(drop, 0.0, 1.0), 5),
        drop_error=_short(np.clip(drop_error, 0.0, 1.0), 3),
        range_bias_m=_short(mean, 4),
        range_sigma_m=_short(sigma, 4),
        intensity=_short(cells, 7),
        kind=kind,  # type: ignore[arg-type]
        counts=[_short(row, 5) for row in counts],
        distance_m=(round(shots.distance_m[0], 3), round(shots.distance_m[1], 3)),
        reference_m=round(reference_m, 4),
        recorded_deg=(float(edges[:-1][known].min()), float(edges[1:][known].max())),
        brdf=None if brdf is None else brdf.as_config(),
    )
    return profile, brdf


def _short(values: Floats, digits: int) -> list[float]:
    return [float(f"{value:.{digits}g}") for value in np.asarray(values, np.float64)]


def _smoothed(values: Array, known: Array, fired: Array) -> Floats:
    """Sums of each recorded bin, with `PRIOR_SHOTS` shots' worth of what its recorded neighbours have; 0 elsewhere."""
    found = np.zeros_like(values, dtype=np.float64)
    for k in np.flatnonzero(known):
        near = [j for j in (k - 1, k + 1) if 0 <= j < len(values) and known[j]]
        share = sum(values[j] for j in near) / max(sum(fired[j] for j in near), 1) if near else 0.0
        found[k] = values[k] + (PRIOR_SHOTS * share if near else 0.0)
    return found


def _between_boards(shots: MaterialShots, place: Array, bins: int) -> Floats:
    """How far the mean drop rate may be off since boards of one material differ: standard error over boards."""
    numbers = np.unique(shots.board)
    if len(numbers) < 2:
        return np.zeros(bins)
    rates = np.full((len(numbers), bins), np.nan)
    noise = np.full((len(numbers), bins), np.nan)
    for row, number in enumerate(numbers):
        own = shots.board == number
        fired = np.bincount(place[own], minlength=bins)
        gone = np.bincount(place[own], np.isnan(shots.error_m[own]), bins)
        there = fired >= FEWEST_SHOTS
        rates[row, there] = gone[there] / fired[there]
        p = (gone[there] + 0.5) / (fired[there] + 1.0)
        noise[row, there] = p * (1.0 - p) / fired[there]
    found = np.zeros(bins)
    for k in range(bins):
        own = np.isfinite(rates[:, k])
        if own.sum() >= 2:
            excess = float(np.var(rates[own, k], ddof=1) - np.mean(noise[own, k]))
            found[k] = np.sqrt(max(excess, 0.0) / own.sum())
    return found


def _fill_gaps(
    bins: tuple[Floats, Floats, Floats, Floats], counts: Floats, seen: Array, brdf: BrdfFit, value: Floats | None
) -> None:
    """Give bins of which nothing is recorded the nearest recorded one, changed by the ratio of the model.

    `bins` are drop rate and its error, mean and deviation of range errors. Intensities scale with the ratio where they
    are kept in cells of mean `value`, and lost shots follow the signal (`drop_at`); at the border the ratio is 1.
    """
    drop, drop_error, mean, sigma = bins
    middles, there = angle_edges()[:-1] + 0.5 * BIN_DEG, np.flatnonzero(seen)
    for k in np.flatnonzero(~seen):
        near = int(there[np.argmin(np.abs(there - k))])
        ratio = float(brdf.at(middles[k]) / max(float(brdf.at(middles[near])), 1e-12))
        counts[k] = counts[near] if value is None else _scaled(counts[near], value, ratio)
        drop[k] = drop_at(drop[near], min(1.0, ratio))
        drop_error[k] = min(1.0, float(np.hypot(drop_error[near], brdf.error * (1.0 - drop[k]))))
        mean[k], sigma[k] = mean[near], sigma[near]


def _scaled(row: Floats, value: Floats, ratio: float) -> Floats:
    """Counts of cells with every intensity times a ratio, shared between the two cells that it falls among."""
    place = np.interp(value * ratio, value, np.arange(len(value)))
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, len(value) - 1)
    share = place - low
    lower, upper = np.bincount(low, row * (1.0 - share), len(value)), np.bincount(high, row * share, len(value))
    return np.asarray(lower + upper, np.float64)
