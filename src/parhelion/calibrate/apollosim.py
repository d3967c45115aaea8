"""ApolloSim's own statistics of shots at one angle, for comparison (Kepets 2024, table 4.2 and section 4.4.4).

It counts a shot of intensity 0 as dropped, and folds dropped shots into means and deviations: the drop is then felt
twice, once by the rate and once by the wider noise. `profile_fit` keeps the two apart.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError


@dataclass(frozen=True)
class AngleData:
    """Statistics of all shots at one angle, dropped ones among them; deviations are those of the population."""

    mean_intensity: float
    intensity_sigma: float
    mean_distance_m: float
    distance_sigma_m: float
    drop_rate: float


def apollosim_statistics(distance_m: ArrayLike, intensity: ArrayLike) -> AngleData:
    """Mean and deviation of distances [m] and intensities of one angle, and the share of shots of intensity 0."""
    d, i = np.asarray(distance_m, np.float64), np.asarray(intensity, np.float64)
    if d.shape != i.shape or d.size == 0:
        raise ConfigError(f"statistics: {d.size} distances for {i.size} intensities; give as many, one at least")
    there = np.isfinite(d)
    metres = d[there] if there.any() else np.zeros(1)
    level = np.where(np.isfinite(i), i, 0.0)
    return AngleData(
        float(level.mean()), float(level.std()), float(metres.mean()), float(metres.std()), float(np.mean(level == 0.0))
    )
