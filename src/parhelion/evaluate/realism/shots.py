"""Shot by shot: a simulated frame against the real frame of the same view.

Shots correspond if both frames number them by ring and column, or if both have the same rings; columns then follow from
the azimuth. Lost shots count: a simulation that returns where the sensor lost its pulse is as wrong as one that misses.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.pose import Floats
from parhelion.evaluate.clouds import distances
from parhelion.evaluate.realism.rings import Frame, Numbers, frame_of

NEAR_M = 0.1
RANGE_EDGES_M = (0.0, 5.0, 10.0, 20.0, 40.0, 80.0, np.inf)
BINS = 10
"""Bins of the predicted probability of a return."""
_WINDOW = (3, 9)
"""Rings and columns over which the simulated share of returns is the predicted probability."""
_SAME_ELEVATION_DEG = 0.2
_SAME_VIEW = 0.3
"""Smallest share of common returns within a tenth of the range, for frames that show the same view."""

Mask = NDArray[np.bool_]


@dataclass(frozen=True, eq=False)
class ShotPair:
    """Images of one real and one simulated frame, shape (rings, columns); NaN for lost shots."""

    real: Floats
    simulated: Floats
    """Ranges [m]."""
    real_intensity: Floats
    simulated_intensity: Floats
    fired: Mask
    """Shots that were fired."""
    matched_by: str
    """'ring and column' or 'ring and azimuth'."""

    @property
    def same_view(self) -> bool:
        """The frames show the same place from the same pose."""
        both = np.isfinite(self.real) & np.isfinite(self.simulated)
        if both.sum() < 0.05 * self.fired.sum():
            return False
        near = np.abs(self.real[both] - self.simulated[both]) < 0.1 * self.real[both]
        return bool(near.mean() > _SAME_VIEW)


@dataclass
class ShotMeasures:
    """Measures over all pairs of frames."""

    pairs: int
    matched_by: str
    shots: int
    range_error_median_m: float
    range_error_mean_m: float
    near_share_of_hits: float
    """Share within 10 cm of the shots that returned in both."""
    near_share_of_returns: float
    """Share within 10 cm of the shots that really returned; a shot that the simulation lost counts as wrong."""
    hit_agreement: float
    """Share of the shots with the same outcome, return or none."""
    hit_agreement_neighbours: float
    """Share of neighbouring real shots of one ring with the same outcome: a yardstick for the agreement."""
    real_returns_hit: float
    real_losses_hit: float
    """Share of really returned, and of really lost, shots that return in the simulation."""
    brier: float
    brier_constant: float
    """Mean squared error of the predicted probability of a return, and of a constant one."""
    calibration_error: float
    """Mean distance of predicted and real share of returns over the bins, weighted by shots."""
    calibration: list[dict[str, float]] = field(default_factory=list)
    """Bins: predicted share, real share, number of shots."""
    intensity: list[dict[str, float]] = field(default_factory=list)
    """Bins of range: Wasserstein distance over the real mean, as recorded and with equal medians, and points."""
    intensity_wasserstein: float | None = None
    """Mean over the bins, weighted by points, with equal medians of the whole sets."""


def pair_of(real: PointCloud, simulated: PointCloud, frames: tuple[Frame, Frame] | None = None) -> ShotPair | None:
    """Images of two frames whose shots correspond; None if they do not."""
    if all({"ring", "column"} <= set(cloud.fields) for cloud in (real, simulated)):
        return _by_columns(real, simulated)
    a, b = frames or (frame_of(real), frame_of(simulated))
    return _by_azimuth(a, b)


def _by_columns(real: PointCloud, simulated: PointCloud) -> ShotPair:
    clouds = (real, simulated)
    keys = [_places(cloud) for cloud in clouds]
    shape = tuple(int(max(np.max(key[k]) for key in keys)) + 1 for k in (0, 1))
    images = [np.full(shape, np.nan) for _ in range(4)]
    fired = np.zeros(shape, bool)
    known = False
    for k, (cloud, (ring, column)) in enumerate(zip(clouds, keys, strict=True)):
        metres = np.linalg.norm(np.asarray(cloud.xyz, np.float64), axis=1)
        returned = np.isfinite(metres) & (metres > 0.0)
        order = np.flatnonzero(returned)[::-1]  # the first return of a shot is written last
        images[k][ring[order], column[order]] = metres[order]
        if "intensity" in cloud.fields:
            images[2 + k][ring[order], column[order]] = np.asarray(cloud.fields["intensity"], np.float64)[order]
        fired[ring, column] = True
        if isinstance(cloud, Scan) and len(cloud.shots):
            fired[cloud.shots.ring.astype(np.int64), cloud.shots.column.astype(np.int64)] = known = True
        known |= bool((~returned).any())
    if not known:
        fired[:] = True
    return ShotPair(images[0], images[1], images[2], images[3], fired, "ring and column")


def _places(cloud: PointCloud) -> tuple[Numbers, Numbers]:
    return np.asarray(cloud.fields["ring"], np.int64), np.asarray(cloud.fields["column"], np.int64)


def _by_azimuth(a: Frame, b: Frame) -> ShotPair | None:
    if a.ring is None or b.ring is None or a.step <= 0.0:
        return None
    rings = int(a.ring.max()) + 1
    if rings != int(b.ring.max()) + 1:
        return None
    levels = [np.array([np.median(frame.elevation[frame.ring == k]) for k in range(rings)]) for frame in (a, b)]
    if np.degrees(np.median(np.abs(levels[0] - levels[1]))) > _SAME_ELEVATION_DEG:
        return None
    columns = round(2.0 * np.pi / a.step)
    images = [np.full((rings, columns), np.nan) for _ in range(4)]
    for k, frame in enumerate((a, b)):
        assert frame.ring is not None
        column = np.minimum((frame.azimuth / (2.0 * np.pi) * columns).astype(np.int64), columns - 1)
        images[k][frame.ring, column] = frame.range
        if frame.intensity is not None:
            images[2 + k][frame.ring, column] = frame.intensity
    # Azimuth without a return in any ring of either frame was not recorded.
    fired = np.broadcast_to((np.isfinite(images[0]) | np.isfinite(images[1])).any(axis=0), (rings, columns))
    return ShotPair(images[0], images[1], images[2], images[3], fired, "ring and azimuth")


def measures(pairs: Sequence[ShotPair]) -> ShotMeasures:
    """Measures over all shots of the pairs."""
    real, simulated = (
        np.concatenate([getattr(one, name)[one.fired] for one in pairs]) for name in ("real", "simulated")
    )
    returned, hit = np.isfinite(real), np.isfinite(simulated)
    both = returned & hit
    off = np.abs(simulated[both] - real[both])
    predicted = np.concatenate([_predicted(one)[one.fired] for one in pairs])
    share = float(returned.mean())
    bins = _calibration(predicted, returned)
    levels = _intensity(pairs)
    return ShotMeasures(
        len(pairs),
        pairs[0].matched_by,
        len(real),
        float(np.median(off)),
        float(off.mean()),
        float(np.mean(off < NEAR_M)),
        float(np.sum(off < NEAR_M) / max(int(returned.sum()), 1)),
        float(np.mean(returned == hit)),
        float(np.mean([_neighbours_agree(one) for one in pairs])),
        _share(hit[returned]),
        _share(hit[~returned]),
        float(np.mean((predicted - returned) ** 2)),
        share * (1.0 - share),
        float(sum(row["shots"] * abs(row["predicted"] - row["real"]) for row in bins) / len(real)),
        bins,
        levels,
        _weighted([row["scaled"] for row in levels], [row["points"] for row in levels]) if levels else None,
    )


def _share(values: Mask) -> float:
    return float(values.mean()) if len(values) else float("nan")


def _weighted(values: Sequence[float], weights: Sequence[float]) -> float:
    return float(np.average(values, weights=weights))


def _predicted(pair: ShotPair) -> Floats:
    """Probability of a return: share of simulated returns among the shots around, shape (rings, columns)."""
    from scipy.ndimage import uniform_filter

    hit = uniform_filter((np.isfinite(pair.simulated) & pair.fired).astype(np.float64), _WINDOW, mode="nearest")
    fired = uniform_filter(pair.fired.astype(np.float64), _WINDOW, mode="nearest")
    return np.clip(hit / np.maximum(fired, 1e-9), 0.0, 1.0)


def _calibration(predicted: Floats, returned: Mask) -> list[dict[str, float]]:
    number = np.minimum((predicted * BINS).astype(np.int64), BINS - 1)
    count = np.bincount(number, minlength=BINS)
    rows = []
    for k in np.flatnonzero(count):
        own = number == k
        rows.append(
            {"predicted": float(predicted[own].mean()), "real": float(returned[own].mean()), "shots": int(count[k])}
        )
    return rows


def _neighbours_agree(pair: ShotPair) -> float:
    returned = np.isfinite(pair.real)
    both = pair.fired[:, 1:] & pair.fired[:, :-1]
    return _share((returned[:, 1:] == returned[:, :-1])[both])


def _intensity(pairs: Sequence[ShotPair]) -> list[dict[str, float]]:
    """Wasserstein distances of the intensity by range, over the real mean of the bin."""
    columns = []
    for one in pairs:
        common = np.isfinite(one.real_intensity) & np.isfinite(one.simulated_intensity)
        columns.append(np.stack([one.real[common], one.real_intensity[common], one.simulated_intensity[common]]))
    metres, real, simulated = np.concatenate(columns, axis=1)
    if not len(metres):
        return []
    middle = float(np.median(simulated))
    factor = float(np.median(real)) / middle if middle > 0.0 else 1.0
    rows = []
    for low, high in pairwise(RANGE_EDGES_M):
        own = (metres >= low) & (metres < high)
        mean = float(real[own].mean()) if own.sum() >= 20 else 0.0
        if mean > 0.0:
            rows.append(
                {
                    "from_m": low,
                    "to_m": high,
                    "points": int(own.sum()),
                    "recorded": distances.wasserstein(real[own], simulated[own]) / mean,
                    "scaled": distances.wasserstein(real[own], factor * simulated[own]) / mean,
                }
            )
    return rows


def chamfer_of(real: Frame, simulated: Frame) -> dict[str, Any]:
    """Chamfer distance, and median distances in both directions [m]."""
    to_real = distances.nearest_distances(simulated.xyz, real.xyz)
    to_simulated = distances.nearest_distances(real.xyz, simulated.xyz)
    return {
        "chamfer_m": float(to_real.mean() + to_simulated.mean()),
        "simulated_to_real_median_m": float(np.median(to_real)),
        "real_to_simulated_median_m": float(np.median(to_simulated)),
    }
