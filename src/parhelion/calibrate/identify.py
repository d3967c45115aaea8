"""Most likely calibrated material of each point, from its intensity and angle of incidence.

Bayes' rule with equal priors: p(m | i, angle) is proportional to the probability that the profile of m gives the
intensity i at that angle. Neighbouring points on one surface share a material, so their evidence is pooled.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.calibrate.boards.held_out import cell_of, chances
from parhelion.calibrate.range_images import Floats, Mask
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError
from parhelion.makers.scales import scale_called
from parhelion.sensors.optics.lidar.config import LidarConfig, MaterialProfile
from parhelion.sensors.optics.lidar.link_budget import overlap_share

NEIGHBOURS = 12
MOST_ROUGH = 0.15
"""Largest out-of-plane spread of a point's neighbours, as a share of their extent, for which a normal is estimated."""


@dataclass(frozen=True, eq=False)
class Identified:
    """Most likely material of each point."""

    names: tuple[str, ...]
    chance: Floats
    """Probability of each material, shape (points, materials); NaN where a point has no normal."""

    @property
    def best(self) -> NDArray[np.int64]:
        """Index of the most likely material; -1 where it is unknown."""
        known = np.isfinite(self.chance).all(axis=1)
        return np.where(known, np.argmax(np.nan_to_num(self.chance), axis=1), -1)

    def summary(self) -> list[tuple[str, int, float]]:
        """Name, number of points and their mean probability, for every material that is the most likely somewhere."""
        best = self.best
        found = [
            (name, int((best == k).sum()), float(self.chance[best == k, k].mean()))
            for k, name in enumerate(self.names)
            if (best == k).any()
        ]
        return sorted(found, key=lambda row: -row[1])


def identify(cloud: PointCloud, sensor: LidarConfig, *, neighbours: int = NEIGHBOURS) -> Identified:
    """Material of each point of a cloud in the sensor's frame, from the evidence of `neighbours` nearest points."""
    from scipy.spatial import cKDTree

    profiles = {} if sensor.calibration is None else sensor.calibration.materials
    if not profiles:
        raise ConfigError(f"{sensor.name}: the file has no calibrated materials; create them with parhelion calibrate")
    if "intensity" not in cloud.fields:
        raise FormatError(f"the cloud has no intensity; its fields are {', '.join(cloud.fields)}")
    if neighbours < 3:
        raise ConfigError(f"neighbours: must be 3 or more, got {neighbours}")
    xyz = cloud.xyz.astype(np.float64)
    level = cloud.fields["intensity"].astype(np.float64)
    use: Mask = np.asarray(np.isfinite(xyz).all(axis=1)) & np.isfinite(level)
    chance = np.full((len(cloud), len(profiles)), np.nan)
    if use.sum() <= neighbours:
        raise FormatError(
            f"the cloud has {int(use.sum())} points, too few to estimate surfaces; {neighbours + 1} are needed"
        )
    points = xyz[use]
    near = cKDTree(points).query(points, neighbours + 1)[1]
    angle = incidence_deg(points, near)
    reach = np.linalg.norm(points, axis=1)
    logs = np.stack([_log_chance(one, sensor, level[use], reach, angle) for one in profiles.values()], axis=1)
    # Points of one surface share angle and texture, so they are not independent: n of them count as √n.
    pooled = np.nanmean(np.where(np.isfinite(logs[near]), logs[near], np.nan), axis=1) * np.sqrt(neighbours + 1.0)
    pooled -= pooled.max(axis=1, keepdims=True)
    share = np.exp(pooled)
    share /= share.sum(axis=1, keepdims=True)
    chance[use] = np.where(np.isfinite(angle)[:, None], share, np.nan)
    return Identified(tuple(profiles), chance)


def incidence_deg(points: Floats, near: NDArray[np.int64]) -> Floats:
    """Angle between beam and normal of the plane through each point's neighbours [deg]; NaN where there is no plane."""
    around = points[near]
    spread = around - around.mean(axis=1, keepdims=True)
    size, axes = np.linalg.eigh(np.einsum("nki,nkj->nij", spread, spread))
    # Points of a single ring form a line, which does not determine a plane.
    flat = (size[:, 0] < MOST_ROUGH**2 * size[:, 1]) & (size[:, 1] > 1e-4 * size[:, 2])
    way = points / np.linalg.norm(points, axis=1, keepdims=True)
    cosine = np.abs(np.einsum("ni,ni->n", axes[:, :, 0], way))
    return np.where(flat, np.degrees(np.arccos(np.clip(cosine, 0.0, 1.0))), np.nan)


def _log_chance(profile: MaterialProfile, sensor: LidarConfig, level: Floats, reach: Floats, angle: Floats) -> Floats:
    """Log of the probability density of intensities under a profile, plus the log of the return probability."""
    edges = np.asarray(profile.angle_deg)
    place = np.clip(np.digitize(np.nan_to_num(angle), edges) - 1, 0, len(edges) - 2)
    if scale_called(sensor.intensity.scale).linear_in_power:
        here, xi = profile.reference_m, sensor.range.overlap
        level = level * reach**2 / overlap_share(xi, reach) * (overlap_share(xi, here) / here**2)
    cell = cell_of(profile, level)
    cells = np.asarray(profile.intensity)
    width = 1.0 if profile.kind == "values" else float(np.mean(np.diff(cells)))
    inside = (level >= cells[0] - 0.5) & (level <= cells[-1] + 0.5)
    chance = np.where(inside, chances(profile)[place, cell], 1e-6) / width
    return np.log(chance) + np.log(np.maximum(1.0 - np.asarray(profile.drop)[place], 1e-3))
