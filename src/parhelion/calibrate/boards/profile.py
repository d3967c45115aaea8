"""Material profiles: the response of a sensor to a material, by angle of incidence.

Statistics cover returned shots only; lost shots enter once, through the drop rate. Intensities are stored as
histograms, because many sensors report only a few values.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.boards.find import Board
from parhelion.calibrate.boards.shots import BoardShots
from parhelion.calibrate.range_images import Floats, Mask, TableWithMetadata
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.config import FittedBrdf, MaterialProfile
from parhelion.sensors.optics.lidar.profiles import drop_at
from parhelion.surfaces import brdf

# ---- reflection model fit -------------------------------------------------------------------------------------------
# Reflection models fitted to the intensities of a material by angle, for angles without recorded shots. The models are
# those of `surfaces/brdf.py`; a lidar receives f cos(theta). The best one is selected by leave-one-out cross-validation
# over the angle bins, which penalises models with more parameters.


FEWEST_BINS = 3


def _lambert(cos: Floats) -> Floats:
    return cast("Floats", brdf.lambert(reflectance=1.0) * cos)


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
    "cook-torrance": (_cook_torrance, ("roughness", "diffuse"), ((0.3, 0.3), (0.6, 0.05)), ((0.05, 1.0), (0.0, 0.96))),
    "phong": (_phong, ("specular", "exponent"), ((0.2, 10.0), (0.5, 60.0)), ((0.0, 1.0), (1.0, 2000.0))),
}
"""f cos(theta) of each model, its parameter names, starting values and bounds."""


@dataclass(frozen=True, eq=False)
class BrdfFit:
    """Reflection model with fitted parameters."""

    model: str
    parameters: tuple[float, ...]
    scale: float
    error: float
    """Root mean square of the relative prediction errors of left-out bins."""
    constant_error: float

    def at(self, angle_deg: Floats | float) -> Floats:
        """Mean intensity at angles of incidence."""
        return self.scale * np.pi * MODELS[self.model][0](_cosine(angle_deg), *self.parameters)

    def as_config(self) -> FittedBrdf:
        """Fit as stored in a sensor file."""
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
    """Model that predicts left-out bins best; None if no model is better than a constant.

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

        def predict(rows: Any, name: str = name, start: tuple[float, ...] = whole) -> Callable[[int], float]:
            parameters, scale = _fit(name, angle_deg[rows], level[rows], weight[rows], start)
            return lambda k: float(scale * np.pi * MODELS[name][0](_cosine(angle_deg[k]), *parameters))

        misfit = _left_out(predict, level)
        if misfit < constant and (best is None or misfit < 0.98 * best.error):
            best = BrdfFit(name, whole, whole_scale, misfit, constant)
    return best


def _mean(level: Floats, weight: Floats) -> Callable[[int], float]:
    value = float(np.sum(weight**2 * level) / np.sum(weight**2))
    return lambda k: value


def _left_out(predict: Callable[[Any], Callable[[int], float]], level: Floats) -> float:
    """Root mean square of the prediction error of each bin by the others, relative to the mean level."""
    numbers = np.arange(len(level))
    off = [predict(numbers != k)(int(k)) - level[k] for k in numbers]
    return float(np.sqrt(np.mean(np.square(off))) / np.mean(np.abs(level)))


def _fit(
    name: str, angle_deg: Floats, level: Floats, weight: Floats, start: tuple[float, ...] | None = None
) -> tuple[tuple[float, ...], float]:
    """Parameters and scale by least squares; the scale is linear and solved in closed form.

    Starts at `start` if a nearby solution is known, otherwise at several points.
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
"""Shots that an angle bin needs to count as recorded."""
PRIOR_SHOTS = 10.0
"""Weight of a bin's neighbours, in shots: it dominates in bins with few shots and vanishes in bins with many."""
FEW_VALUES = 24
"""Largest number of distinct intensities that are stored individually."""
CELLS = 32
OUTLIER_M = 0.15
"""Range error beyond which a return cannot come from the board."""
OUTLIER_SIGMAS = 6.0
"""Number of standard deviations beyond which a return is an outlier of its angle bin."""


@dataclass(frozen=True, eq=False)
class MaterialShots(TableWithMetadata):
    """Shots at boards of one material."""

    angle_deg: Floats
    error_m: Floats
    """Measured minus true range, NaN for lost shots."""
    intensity: Floats
    """Intensity at the reference distance, NaN for lost shots."""
    distance_m: tuple[float, float]
    knows_lost: bool
    board: Floats
    """Index of the board of each shot."""


def taken_at(board: Board, shots: BoardShots) -> Mask:
    """Mask of shots assigned to a board: aimed at it, excluding returns far off its plane."""
    taken = board.holds(shots)
    aimed = shots.rows(taken)
    error = aimed.range - board.true_range(aimed)
    with np.errstate(invalid="ignore"):
        kept = ~(np.abs(error) > OUTLIER_M)
    kept &= ~_outliers(board.incidence_deg(aimed), np.where(kept, error, np.nan))
    taken[taken] = kept
    return taken


def shots_at(board: Board, shots: BoardShots, number: int = 0) -> MaterialShots:
    """Shots aimed at a board; returns far off its plane come from other objects and are excluded."""
    return material_shots(board, shots.rows(taken_at(board, shots)), number)


def material_shots(board: Board, aimed: BoardShots, number: int = 0) -> MaterialShots:
    """Shots assigned to a board, with their angles and range errors relative to it."""
    far = board.true_range(aimed)
    ends = (float(far.min()), float(far.max())) if len(far) else (0.0, 0.0)
    angle, error, which = board.incidence_deg(aimed), aimed.range - far, np.full(len(aimed), float(number))
    return MaterialShots(angle, error, aimed.intensity, ends, aimed.knows_lost, which)


def _outliers(angle_deg: Floats, error: Floats) -> Mask:
    """Returns that deviate strongly from the others of their angle bin, by the median absolute deviation."""
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
    """Shots at several boards of one material, concatenated."""
    ends = (min(part.distance_m[0] for part in parts), max(part.distance_m[1] for part in parts))
    return MaterialShots.joined(parts, distance_m=ends, knows_lost=all(part.knows_lost for part in parts))


def angle_edges() -> Floats:
    """Edges of the bins of incidence [deg]."""
    return np.arange(0.0, 90.0 + BIN_DEG, BIN_DEG)


def intensity_cells(level: Floats) -> tuple[str, Floats]:
    """'values' and the distinct values, or 'cells' and their edges."""
    values = np.unique(level)
    if len(values) <= FEW_VALUES:
        return "values", values
    # Cells start at 0 if the scale does: angles without recorded shots may be darker than all recorded ones.
    low, high = min(float(level.min()), 0.0), float(level.max())
    # Cell edges lie between integers, so that integers are not split.
    if np.all(values == np.round(values)):
        step = max(1.0, np.ceil((high - low + 1.0) / CELLS))
        return "cells", np.arange(low - 0.5, high + 0.5 + step, step)
    return "cells", np.linspace(low, high + 1e-6 * max(abs(high), 1.0), CELLS + 1)


def fit_profile(
    shots: MaterialShots, *, reference_m: float = 1.0, gaps: bool = True
) -> tuple[MaterialProfile, BrdfFit | None]:
    """Profile of a material, and the reflection model that fills its gaps, or None if no model is useful.

    `gaps=False` leaves gaps empty. ConfigError is raised if fewer than two angle bins are recorded.
    """
    edges = angle_edges()
    bins = len(edges) - 1
    place = np.clip(np.digitize(shots.angle_deg, edges) - 1, 0, bins - 1)
    fired = np.bincount(place, minlength=bins)
    lost = np.isnan(shots.error_m)
    known = fired >= FEWEST_SHOTS
    if known.sum() < 2:
        spread = f"{shots.angle_deg.min():.1f} to {shots.angle_deg.max():.1f} deg" if len(shots) else "no shots"
        raise ConfigError(f"only one angle of incidence is recorded ({spread}): use a wider or rotated board")
    if lost.all():
        raise ConfigError("every shot at the board is lost, so only the drop rate is known")
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
    # Two more of either kind (Agresti and Coull 1998), because rates near 0 are known less well than counts suggest.
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
        level = level * (1.0 - drop)  # with only a few values, the drop rate follows the signal
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
    """Sums per recorded bin, plus `PRIOR_SHOTS` shots distributed as in its recorded neighbours; 0 elsewhere."""
    found = np.zeros_like(values, dtype=np.float64)
    for k in np.flatnonzero(known):
        near = [j for j in (k - 1, k + 1) if 0 <= j < len(values) and known[j]]
        share = sum(values[j] for j in near) / max(sum(fired[j] for j in near), 1) if near else 0.0
        found[k] = values[k] + (PRIOR_SHOTS * share if near else 0.0)
    return found


def _between_boards(shots: MaterialShots, place: Array, bins: int) -> Floats:
    """Standard error of the mean drop rate over boards of one material, which differ from each other."""
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
    """Fill bins without recorded shots with the nearest recorded bin, scaled by the ratio of the model.

    `bins` are drop rate and its error, mean and deviation of range errors. Intensities scale with the ratio if they
    are stored in cells of mean `value`, and lost shots follow the signal (`drop_at`). At the border the ratio is 1.
    """
    drop, drop_error, mean, sigma = bins
    middles, there = angle_edges()[:-1] + 0.5 * BIN_DEG, np.flatnonzero(seen)
    for k in np.flatnonzero(~seen):
        near = int(there[np.argmin(np.abs(there - k))])
        ratio = float(brdf.at(middles[k]) / max(float(brdf.at(middles[near])), 1e-12))
        counts[k] = counts[near] if value is None else _scaled(counts[near], value, ratio)
        drop[k] = cast(float, drop_at(drop[near], min(1.0, ratio)))
        drop_error[k] = min(1.0, float(np.hypot(drop_error[near], brdf.error * (1.0 - drop[k]))))
        mean[k], sigma[k] = mean[near], sigma[near]


def _scaled(row: Floats, value: Floats, ratio: float) -> Floats:
    """Cell counts after multiplying every intensity by a ratio, shared between the two nearest cells."""
    place = np.interp(value * ratio, value, np.arange(len(value)))
    low = np.floor(place).astype(int)
    high = np.minimum(low + 1, len(value) - 1)
    share = place - low
    lower, upper = np.bincount(low, row * (1.0 - share), len(value)), np.bincount(high, row * share, len(value))
    return np.asarray(lower + upper, np.float64)
