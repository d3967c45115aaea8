"""Properties of a receiver beyond those that `parhelion.calibrate` measures: bright targets, and laws of noise.

The measurements are those of `parhelion calibrate`; `recordings.Frame` has the fields of its revolutions.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

import numpy as np
from recordings import Frame

from parhelion.calibrate.drive.detection import dropout
from parhelion.calibrate.drive.overlap import CELL_EDGES, CELL_M, REFLECTIVITIES, Overlap, overlap, usable
from parhelion.calibrate.drive.range_noise import FEWEST_WINDOWS, RangeNoise, range_noise
from parhelion.calibrate.range_images import Mask, clean

__all__ = [
    "CELL_EDGES", "CELL_M", "PHOTON_EDGES", "Overlap", "RangeNoise", "dropout", "fit_sigma", "overlap", "pile_up",
    "range_noise", "retro_scale", "returned_share", "usable",
]  # fmt: skip

PHOTON_EDGES = (4.0, 8.0, 12.0, 17.0, 25.0, 50.0, 100.0, 200.0, np.inf)


def returned_share(frame: Frame, photons: Sequence[int], among: Mask | None = None) -> list[tuple[int, int, float]]:
    """Share of the pixels with just so many photons that have a return: (photons, pixels, share).

    Of all pixels, or of those `among`.
    """
    counted = ~frame.withheld if among is None else ~frame.withheld & among
    found = []
    for count in photons:
        mask = counted & (frame.signal == count)
        found.append((count, int(mask.sum()), float((~frame.lost)[mask].mean()) if mask.any() else np.nan))
    return found


def pile_up(frame: Frame, curve: Overlap, edges: tuple[float, ...]) -> list[tuple[float, float, int, float]]:
    """Photons over those that reflectivity and curve imply, by photons: (from, to, pixels, median ratio)."""
    factor = curve.row_factor[frame.row]
    with np.errstate(invalid="ignore"):
        implied = curve.constant * factor * curve.at(frame.range) * (frame.reflectivity + 0.5) / 100.0 / frame.range**2
        grey = (frame.reflectivity >= REFLECTIVITIES[0]) & (frame.reflectivity < REFLECTIVITIES[1])
    found = []
    for low, high in pairwise(edges):
        mask = clean(frame) & grey & (frame.signal >= low) & (frame.signal < high)
        ratio = float(np.median((frame.signal[mask] + 0.5) / implied[mask])) if mask.any() else np.nan
        found.append((low, high, int(mask.sum()), ratio))
    return found


def retro_scale(frame: Frame, curve: Overlap, edges: Sequence[float]) -> list[tuple[float, float, int, float]]:
    """Reflectance in percent, by the curve, of counts above 100: (from, to, pixels, median) for each bin of counts."""
    factor = curve.row_factor[frame.row]
    with np.errstate(invalid="ignore"):
        percent = 100.0 * frame.signal * frame.range**2 / (curve.constant * factor * curve.at(frame.range))
    found = []
    for low, high in pairwise(edges):
        mask = clean(frame) & (frame.reflectivity >= low) & (frame.reflectivity < high)
        found.append((low, high, int(mask.sum()), float(np.median(percent[mask])) if mask.any() else np.nan))
    return found


def fit_sigma(noise: RangeNoise, most_photons: float = np.inf, power: float = 1.0) -> tuple[float, float, float]:
    """σ_0 and σ_1 [m] of σ² = σ_0² + (σ_1 / photons^power)² and the misfit, all by least squares of logarithms."""
    known = (noise.count >= FEWEST_WINDOWS) & (noise.photons < most_photons)
    photons, sigma = noise.photons[known], noise.sigma_m[known]
    floors = np.linspace(1e-5, sigma.max(), 400)
    slopes = np.linspace(0.0, 2.0 * (sigma * photons**power).max(), 800)
    model = 0.5 * np.log(floors[:, None, None] ** 2 + (slopes[:, None] / photons**power) ** 2)
    misfit = ((model - np.log(sigma)) ** 2).mean(axis=-1)
    best = np.unravel_index(np.argmin(misfit), misfit.shape)
    return float(floors[best[0]]), float(slopes[best[1]]), float(np.sqrt(misfit[best]))
