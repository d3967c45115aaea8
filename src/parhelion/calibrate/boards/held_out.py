"""Prediction of held-out shots by a profile, compared with a textbook surface with Gaussian noise."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from parhelion.calibrate.boards.profile import MODELS, OUTLIER_M, MaterialShots, _cosine, _fit, angle_edges, fit_profile
from parhelion.calibrate.range_images import Floats, Mask
from parhelion.sensors.optics.lidar.config import MaterialProfile

HELD_OUT = 0.3
"""Share of the shots that are held out."""
MOST_MEANS = 50
"""Number of textbook means evaluated per angle bin."""
LEAST_CHANCE = 1e-4
"""Probability that each model reserves for impossible values, spread over all values."""
LEAST_SIGMA_M = 1e-4
"""Smallest standard deviation of range errors, because sensors report ranges in steps."""


@dataclass(frozen=True)
class HeldOutScore:
    """Scores of two models of one material on held-out shots."""

    log_likelihood: float
    """Mean log-likelihood per shot under the profile."""
    textbook_log_likelihood: float
    wasserstein: float
    """Wasserstein distance between recorded and predicted intensities, mean over angles, in intensity units."""
    textbook_wasserstein: float
    shots: int
    textbook: str = ""
    """Textbook model: of all candidates, the one that predicts the held-out shots best."""
    range_log_likelihood: float = 0.0
    """Mean log-likelihood [ln 1/m] of the range error of a return: one mean and deviation per angle bin."""
    textbook_range_log_likelihood: float = 0.0
    """The same for unbiased Gaussian noise of one deviation."""


def chances(profile: MaterialProfile) -> Floats:
    """Probability of each intensity value or cell of a return, per angle bin, shape (bins, cells)."""
    counts = np.asarray(profile.counts, np.float64)
    total = counts.sum(axis=1, keepdims=True)
    even = np.full_like(counts, 1.0 / counts.shape[1])
    share = np.where(total > 0, counts / np.maximum(total, 1e-9), even)
    return (1.0 - LEAST_CHANCE) * share + LEAST_CHANCE * even


def cell_of(profile: MaterialProfile, intensity: Floats) -> Floats:
    """Index of the value or cell of each intensity; the nearest one for intensities outside."""
    edges = np.asarray(profile.intensity)
    if profile.kind == "values":
        edges = np.concatenate([[-np.inf], 0.5 * (edges[1:] + edges[:-1]), [np.inf]])
    last = len(edges) - 2
    return np.clip(np.searchsorted(edges, intensity, side="right") - 1, 0, last)


def compare(shots: MaterialShots, *, seed: int = 1, held: Mask | None = None) -> HeldOutScore:
    """Fit profile and textbook to part of the shots and score both on the rest.

    The textbook is the best of all reflection models, each fitted to the same shots, with Gaussian noise of one
    deviation and one drop rate: the best case of a simulator without calibration. It is selected on the held-out
    shots, which favours it. `held` is the mask of held-out shots, by default a random share.
    """
    from scipy.special import ndtr

    random = np.random.default_rng(seed)
    held = random.random(len(shots)) < HELD_OUT if held is None else held
    train, test = shots.rows(~held), shots.rows(held)
    profile, _ = fit_profile(train, gaps=False)
    edges = angle_edges()
    bins = np.clip(np.digitize(test.angle_deg, edges) - 1, 0, len(edges) - 2)
    known = (np.asarray(profile.shots) > 0)[bins]
    test, bins = test.rows(known), bins[known]
    lost, train_lost = np.isnan(test.error_m), np.isnan(train.error_m)
    cells = np.asarray(profile.intensity)
    value = cells if profile.kind == "values" else 0.5 * (cells[1:] + cells[:-1])
    place = cell_of(profile, np.where(lost, value[0], test.intensity))
    drop = np.clip(np.asarray(profile.drop)[bins], 1e-4, 1.0 - 1e-4)
    by_bin = chances(profile)
    own = np.where(lost, np.log(drop), np.log1p(-drop) + np.log(by_bin[bins, place]))
    angle, level = train.angle_deg[~train_lost], train.intensity[~train_lost]
    middles, means, numbers = _by_bin(angle, level)
    borders = np.concatenate([[-np.inf], 0.5 * (value[1:] + value[:-1]), [np.inf]])
    rate = float(np.clip(train_lost.mean(), 1e-4, 1.0 - 1e-4))
    even = LEAST_CHANCE / len(value)

    def textbook(name: str) -> tuple[float, str, Floats, float]:
        parameters, scale = _fit(name, middles, means, np.sqrt(numbers))

        def mean_at(angle_deg: Floats) -> Floats:
            return np.asarray(scale * np.pi * MODELS[name][0](_cosine(angle_deg), *parameters))

        sigma = max(float(np.std(level - mean_at(angle))), 1e-6)
        middle = mean_at(test.angle_deg)
        mass = ndtr((borders[place + 1] - middle) / sigma) - ndtr((borders[place] - middle) / sigma)
        book = np.where(lost, np.log(rate), np.log1p(-rate) + np.log((1.0 - LEAST_CHANCE) * mass + even))
        return float(book.mean()), name, middle, sigma

    book, name, middle, sigma = max((textbook(name) for name in MODELS), key=lambda one: one[0])
    distances = [
        _distances(test.intensity[(bins == k) & ~lost], *_fine(profile, by_bin[k]), middle[(bins == k) & ~lost], sigma)
        for k in np.unique(bins)
        if ((bins == k) & ~lost).sum() >= 5
    ]
    near, far = np.mean(distances, axis=0) if distances else (0.0, 0.0)
    error, here = test.error_m[~lost], bins[~lost]
    ranges = _range_score(error, np.asarray(profile.range_bias_m)[here], np.asarray(profile.range_sigma_m)[here])
    plain = _range_score(error, np.zeros(len(error)), np.full(len(error), np.std(train.error_m[~train_lost])))
    return HeldOutScore(float(own.mean()), book, float(near), float(far), len(test), name, ranges, plain)


def _range_score(error: Floats, mean: Floats, sigma: Floats) -> float:
    """Mean log-likelihood of range errors under Gaussian noise, with a small uniform part for outliers."""
    sigma = np.maximum(sigma, LEAST_SIGMA_M)
    density = np.exp(-0.5 * ((error - mean) / sigma) ** 2) / (sigma * np.sqrt(2.0 * np.pi))
    return (
        float(np.mean(np.log((1.0 - LEAST_CHANCE) * density + 0.5 * LEAST_CHANCE / OUTLIER_M))) if len(error) else 0.0
    )


def _fine(profile: MaterialProfile, chance: Floats) -> tuple[Floats, Floats]:
    """Values and their probabilities; each cell is split into several evenly spaced values."""
    cells = np.asarray(profile.intensity)
    if profile.kind == "values":
        return cells, chance
    within = (np.arange(6) + 0.5) / 6.0
    value = cells[:-1, None] + np.diff(cells)[:, None] * within
    return value.ravel(), np.repeat(chance / 6.0, 6)


def _by_bin(angle_deg: Floats, level: Floats) -> tuple[Floats, Floats, Floats]:
    """Mean angle, mean level and number of shots of each non-empty bin."""
    place = np.floor(angle_deg).astype(int)
    number = np.bincount(place).astype(np.float64)
    there = number > 0
    sums = (np.bincount(place, part)[there] for part in (angle_deg, level))
    angle, mean = (part / number[there] for part in sums)
    return angle, mean, number[there]


def _distances(recorded: Floats, value: Floats, chance: Floats, mean: Floats, sigma: float) -> tuple[float, float]:
    from scipy.special import ndtri
    from scipy.stats import wasserstein_distance

    grid = (np.arange(200) + 0.5) / 200.0
    # The means within one angle bin are close together, so a few of them represent all.
    mean = np.quantile(mean, (np.arange(MOST_MEANS) + 0.5) / MOST_MEANS) if len(mean) > MOST_MEANS else mean
    book = (mean[:, None] + sigma * ndtri(grid)[None, :]).ravel()
    return float(wasserstein_distance(recorded, value, None, chance)), float(wasserstein_distance(recorded, book))
