"""Two-sample test: a classifier that tries to separate the points of two sets of frames by local features.

The area under its ROC curve (AUC) is 0.5 if the sets are indistinguishable and 1 if every point gives its set away
(Lopez-Paz and Oquab 2017, "Revisiting classifier two-sample tests"). Training and test never share a place: sectors of
azimuth alternate, with a guard between them, and each half is scored by the classifier of the other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.core.pose import Floats
from parhelion.evaluate.realism.features import FEATURES, Scale, at_resolution, common_ranks, features_of, shown_value
from parhelion.evaluate.realism.rings import Frame, Numbers

SECTOR_DEG = 30.0
GUARD_DEG = 2.0
"""Azimuth on both sides of a border of sectors whose points are not used."""
MOST_POINTS = 24_000
"""Points of each set that are classified."""
RESAMPLES = 200
"""Bootstrap resamples of blocks, each one sector of one frame."""
_TREES, _LEAVES, _RATE = 100, 31, 0.1
_TREES_ALONE, _LEAVES_ALONE = 20, 12
"""Size of the classifier of a single feature."""


@dataclass(frozen=True, eq=False)
class Sample:
    """Features of selected points of one set."""

    values: Floats
    """Shape (n, features); NaN where unknown."""
    frame: Numbers
    """Number of the frame of each point, shape (n,)."""
    row: Numbers
    """Row of each point in its frame, shape (n,)."""
    sector: Numbers
    """Sector of each point, shape (n,)."""

    def __len__(self) -> int:
        return len(self.frame)


@dataclass
class FeatureResult:
    """Contribution of one feature."""

    name: str
    title: str
    unit: str
    importance: float
    """Loss of AUC if the values of this feature are shuffled among the test points."""
    auc_alone: float
    """AUC of the classifier from this feature alone."""
    real: float
    simulated: float
    """Medians of both sets, in the unit."""


@dataclass(eq=False)
class TwoSample:
    """Result of the test for one choice of features."""

    auc: float
    low: float
    high: float
    """Ends of the 95 % bootstrap interval over sectors of frames."""
    features: list[FeatureResult] = field(default_factory=list)
    scores_real: Floats = field(default_factory=lambda: np.zeros(0))
    scores_simulated: Floats = field(default_factory=lambda: np.zeros(0))
    """Probability of 'simulated' of each point, by the classifier that has not seen its sector; NaN in guards."""

    def summary(self) -> dict[str, Any]:
        """Plain values, without scores."""
        return {"auc": self.auc, "low": self.low, "high": self.high}


def samples_of(
    sets: tuple[Sequence[Frame], Sequence[Frame]], resolution_m: float, seed: int, most: int = MOST_POINTS
) -> tuple[Sample, Sample]:
    """Features of randomly selected points of two sets, at a common resolution of range and intensity."""
    scales: list[Scale] | None = None
    if all(frame.intensity is not None for frames in sets for frame in frames):
        scales = [Scale.of(frames) for frames in sets]
    found = []
    for side, frames in enumerate(sets):
        each = max(most // len(frames), 1)
        parts = []
        for number, one in enumerate(frames):
            frame = at_resolution(one, resolution_m, seed, side, number)
            level = None if scales is None else common_ranks(frame, scales[side], scales[1 - side], seed, side, number)
            draws = np.random.default_rng((seed, side, number, 2))
            rows = np.sort(draws.permutation(len(frame))[:each])
            sector, guarded = sectors(frame.azimuth[rows])
            rows, sector = rows[~guarded], sector[~guarded]
            parts.append((features_of(frame, rows, level), np.full(len(rows), number), rows, sector))
        found.append(Sample(*(np.concatenate(column) for column in zip(*parts, strict=True))))  # type: ignore[arg-type]
    return found[0], found[1]


def sectors(azimuth: Floats) -> tuple[Numbers, NDArray[np.bool_]]:
    """Sector of each azimuth [rad], and whether it lies in the guard at a border."""
    degrees = np.degrees(azimuth) % 360.0
    inside = degrees % SECTOR_DEG
    guarded = (inside < GUARD_DEG) | (inside > SECTOR_DEG - GUARD_DEG)
    return (degrees // SECTOR_DEG).astype(np.int64), guarded


def common_features(real: Sample, simulated: Sample, *, intensity: bool) -> list[int]:
    """Columns that are known in both sets; without `intensity`, those of the shape alone."""
    known = [np.isfinite(one.values).mean(axis=0) > 0.01 for one in (real, simulated)]
    return [
        k
        for k, feature in enumerate(FEATURES)
        if known[0][k] and known[1][k] and (intensity or "intensity" not in feature.needs)
    ]


def two_sample(
    real: Sample, simulated: Sample, columns: Sequence[int], seed: int, *, explain: bool = True
) -> TwoSample:
    """Test of two samples by the given features. `explain` adds the contribution of each feature."""
    sides = [_balanced(real, simulated, seed), _balanced(simulated, real, seed)]
    values = np.concatenate([one.values[rows] for one, rows in zip((real, simulated), sides, strict=True)])
    values = values[:, list(columns)]
    is_simulated = np.repeat([0, 1], [len(rows) for rows in sides])
    block = np.concatenate(
        [one.frame[rows] * 1000 + one.sector[rows] for one, rows in zip((real, simulated), sides, strict=True)]
    )
    half = (block % 1000) % 2
    for number in (0, 1):
        if len(np.unique(is_simulated[half == number])) < 2 or np.sum(half == number) < 100:
            raise ConfigError("two-sample test: both sets need points in alternate sectors of 30°; give more frames")
    scores = np.full(len(values), np.nan)
    found: list[list[FeatureResult]] = []
    for test in (0, 1):
        own = half == test
        model = _trained(values[~own], is_simulated[~own], seed)
        scores[own] = _score(model, values[own])
        if explain:
            found.append(_explained(model, values, is_simulated, own, columns, seed))
    folds = [half == 0, half == 1]
    auc = float(np.mean([auc_of(scores[own], is_simulated[own]) for own in folds]))
    low, high = _interval(scores, is_simulated, block, folds, seed)
    result = TwoSample(auc, low, high, _merged(found) if explain else [])
    for one, rows, label in ((real, sides[0], 0), (simulated, sides[1], 1)):
        spread = np.full(len(one), np.nan)
        spread[rows] = scores[is_simulated == label]
        if label:
            result.scores_simulated = spread
        else:
            result.scores_real = spread
    return result


def auc_of(scores: Floats, positive: NDArray[Any]) -> float:
    """Area under the ROC curve: probability that a positive has the higher score; ties count half (Mann and Whitney).

    >>> auc_of(np.array([0.1, 0.4, 0.35, 0.8]), np.array([0, 0, 1, 1]))
    0.75
    """
    from scipy.stats import rankdata

    above = np.asarray(positive, bool)
    n, m = int(above.sum()), int((~above).sum())
    if not n or not m:
        raise ConfigError("AUC: needs points of both sets")
    return float((rankdata(scores)[above].sum() - 0.5 * n * (n + 1)) / (n * m))


def _balanced(own: Sample, other: Sample, seed: int) -> Numbers:
    """Rows of a sample, thinned to the size of the other."""
    n = min(len(own), len(other))
    if len(own) == n:
        return np.arange(n)
    return np.sort(np.random.default_rng((seed, 77)).permutation(len(own))[:n])


def _trained(values: Floats, labels: Numbers, seed: int, trees: int = _TREES, leaves: int = _LEAVES) -> Any:
    """Gradient-boosted trees; one thread, so that sums do not depend on the machine."""
    try:
        from sklearn.ensemble import HistGradientBoostingClassifier
    except ImportError:
        raise MissingDependencyError(
            "the two-sample test needs scikit-learn: pip install 'parhelion[realism]'"
        ) from None
    with _one_thread():
        model = HistGradientBoostingClassifier(
            max_iter=trees, max_leaf_nodes=leaves, learning_rate=_RATE, early_stopping=False, random_state=seed
        )
        return model.fit(values, labels)


def _score(model: Any, values: Floats) -> Floats:
    with _one_thread():
        return np.asarray(model.predict_proba(values)[:, 1], np.float64)


def _one_thread() -> Any:
    from threadpoolctl import threadpool_limits

    return threadpool_limits(1, user_api="openmp")


def _explained(
    model: Any, values: Floats, labels: Numbers, own: NDArray[np.bool_], columns: Sequence[int], seed: int
) -> list[FeatureResult]:
    """Contribution of each feature on the points of one half."""
    tested, truth = values[own], labels[own]
    whole = auc_of(_score(model, tested), truth)
    draws = np.random.default_rng((seed, 78))
    found = []
    for k, column in enumerate(columns):
        feature = FEATURES[column]
        shuffled = tested.copy()
        shuffled[:, k] = draws.permutation(shuffled[:, k])
        alone = _trained(values[~own][:, [k]], labels[~own], seed, _TREES_ALONE, _LEAVES_ALONE)
        medians = [_median(tested[truth == label, k]) for label in (0, 1)]
        found.append(
            FeatureResult(
                feature.name,
                feature.title,
                feature.unit,
                whole - auc_of(_score(model, shuffled), truth),
                auc_of(_score(alone, tested[:, [k]]), truth),
                *(shown_value(feature, value) for value in medians),
            )
        )
    return found


def _median(values: Floats) -> float:
    known = values[np.isfinite(values)]
    return float(np.median(known)) if len(known) else float("nan")


def _merged(halves: Sequence[Sequence[FeatureResult]]) -> list[FeatureResult]:
    """Means of both halves, the largest contribution first."""
    rows = []
    for pair in zip(*halves, strict=True):
        means = [
            float(np.mean([getattr(one, name) for one in pair]))
            for name in ("importance", "auc_alone", "real", "simulated")
        ]
        rows.append(FeatureResult(pair[0].name, pair[0].title, pair[0].unit, *means))
    return sorted(rows, key=lambda row: -row.importance)


def _interval(
    scores: Floats, labels: Numbers, block: Numbers, folds: Sequence[NDArray[np.bool_]], seed: int
) -> tuple[float, float]:
    """95 % interval of the AUC by resampling blocks: points of one sector of one frame are not independent."""
    draws = np.random.default_rng((seed, 79))
    tables = []
    for own in folds:
        order = np.argsort(scores[own], kind="stable")
        _, number = np.unique(block[own], return_inverse=True)
        tables.append((number[order], labels[own][order].astype(bool)))
    found = []
    for _ in range(RESAMPLES):
        each = []
        for number, positive in tables:
            count = number.max() + 1
            weight = np.bincount(draws.integers(count, size=count), minlength=count)[number].astype(np.float64)
            below = np.cumsum(np.where(positive, 0.0, weight))
            total = weight[positive].sum() * below[-1]
            if total > 0.0:
                each.append(float(np.sum(weight[positive] * below[positive]) / total))
        if each:
            found.append(float(np.mean(each)))
    low, high = np.percentile(found, [2.5, 97.5])
    return float(low), float(high)
