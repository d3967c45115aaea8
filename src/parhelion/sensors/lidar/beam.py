"""The footprint of a pulse as a fixed set of sub-rays with weights."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.sensors.lidar.config import Beam

_GOLDEN_ANGLE = np.pi * (3.0 - np.sqrt(5.0))
# Half of the full width at half maximum of a Gaussian, in standard deviations.
_HALF_FWHM = np.sqrt(2.0 * np.log(2.0))

PROBES = 5
"""Sub-rays that adaptive sampling always traces: the middle and four at the rim."""
SECTORS = 4
"""Sectors of the footprint, each between the middle probe and two neighbours at the rim."""


@dataclass(frozen=True, eq=False)
class Footprint:
    """Sub-rays of one beam, the same for every pulse."""

    slope: NDArray[np.float32]
    """Tangents of the deflection from the beam's axis, horizontal (left) and vertical (up), shape (s, 2)."""
    offset: NDArray[np.float32]
    """Shift of the start point from the beam's exit [m], horizontal and vertical, shape (s, 2)."""
    weight: NDArray[np.float32]
    """Share of the pulse's energy, sum 1, shape (s,)."""
    sector: NDArray[np.uint32]
    """Sector that each sub-ray lies in, shape (s,)."""
    corners: NDArray[np.uint32]
    """The two rim probes of each sector, shape (4, 2); all zero where there are no more sub-rays than probes."""

    def __len__(self) -> int:
        return len(self.weight)


def footprint(beam: Beam) -> Footprint:
    """Sub-rays of equal weight, spread so that centre and width of the sampled beam are those of the real one."""
    divergence = np.asarray(beam.divergence_mrad) * 1e-3
    radius = np.array([beam.exit_diameter_mm, beam.exit_diameter_mm]) * 0.5e-3
    points = unit_points(beam.sub_rays, beam.shape, beam.profile)
    scale = _half_width_in_points(beam)
    order = probes_first(points)
    points = points[order]
    slope = np.tan(divergence / 2.0) / scale * points
    offset = radius / scale * points
    weight = np.full(len(points), 1.0 / len(points))
    return Footprint(slope.astype(np.float32), offset.astype(np.float32), weight.astype(np.float32), *sectors(points))


def _half_width_in_points(beam: Beam) -> float:
    """Half the stated width in units of `unit_points`: standard deviations for a Gaussian, half widths else."""
    if beam.profile == "uniform":
        return 1.0
    return {"1/e2": 2.0, "fwhm": float(_HALF_FWHM), "edge": 2.0}[beam.divergence_at]


def unit_points(count: int, shape: str, profile: str) -> NDArray[np.float64]:
    """A low-discrepancy set of points (count, 2): unit standard deviation (gaussian) or unit half width (uniform).

    A sunflower spiral (Vogel 1979) with the radius mapped through the profile's distribution; rectangles take the
    R2 sequence. Mean and second moments are then set to the exact ones, which makes the sampled footprint integral
    exact for everything that is quadratic over the footprint.
    """
    if count == 1:
        return np.zeros((1, 2))
    k = np.arange(count)
    if shape == "rectangle":
        plastic = 1.32471795724474602596  # root of x^3 = x + 1; its powers make the R2 sequence
        unit = (0.5 + np.outer(k + 1, [1 / plastic, 1 / plastic**2])) % 1.0
        if profile == "gaussian":
            from scipy.special import ndtri

            points = ndtri((unit * count + 0.5 / count).clip(0.5, count - 0.5) / count)
        else:
            points = 2.0 * unit - 1.0
    else:
        share = (k + 0.5) / count
        radius = np.sqrt(-2.0 * np.log1p(-share)) if profile == "gaussian" else np.sqrt(share)
        angle = _GOLDEN_ANGLE * k
        points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
    variance = 1.0 if profile == "gaussian" else 1.0 / 3.0 if shape == "rectangle" else 0.25
    points = points - points.mean(axis=0)
    if count >= 3:
        covariance = points.T @ points / count
        values, vectors = np.linalg.eigh(covariance)
        points = points @ (vectors @ np.diag(np.sqrt(variance / values)) @ vectors.T)
    return points


def probes_first(points: NDArray[np.float64]) -> NDArray[np.intp]:
    """An order of the points that begins with the one nearest the middle and the outermost in each quadrant."""
    count = len(points)
    if count <= PROBES:
        return np.arange(count)
    chosen = [int(np.argmin(np.sum(points**2, axis=1)))]
    for direction in np.array([[1, 1], [-1, 1], [-1, -1], [1, -1]]) / np.sqrt(2.0):
        reach = points @ direction
        reach[chosen] = -np.inf
        chosen.append(int(np.argmax(reach)))
    rest = np.setdiff1d(np.arange(count), chosen)
    return np.concatenate([chosen, rest])


def sectors(points: NDArray[np.float64]) -> tuple[NDArray[np.uint32], NDArray[np.uint32]]:
    """The sector of each point, by angle, and the rim probes on either side of each sector."""
    count = len(points)
    if count <= PROBES:
        return np.zeros(count, np.uint32), np.zeros((SECTORS, 2), np.uint32)
    angle = np.arctan2(points[:, 1], points[:, 0])
    rim = np.arange(1, PROBES)
    rim = rim[np.argsort(angle[rim])]
    sector = np.searchsorted(angle[rim], angle) % SECTORS
    return sector.astype(np.uint32), np.stack([rim, np.roll(rim, 1)], axis=1).astype(np.uint32)
