"""Light of a lidar in water: refraction, spreading, attenuation, and the correction of points for them.

A beam that meets water at the angle a is refracted to w by Snell's law, sin a = n sin w, and light travels at c / n. A
bottom at the slant distance D behind a surface at the slant distance H appears at the range

    R = H + n D

The receiver, seen from the bottom, has the solid angle A / ((D + n H) (D cos a / cos w + n H cos w / cos a)): sagittal
and tangential rays spread differently at a flat interface. It replaces A / R^2 of the link budget, and with
exp(-2 K_d D) and the two-way Fresnel transmittance gives the power (G. C. Guenther, "Airborne laser hydrography", NOAA
Professional Paper 1, 1985, for vertical beams: 1 / (n H + D)^2). Functions take NumPy or Dr.Jit arrays.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError
from parhelion.core.pose import quat_rotate


def refracted(direction: Any, normal: Any, slope: Reals, index: Reals) -> tuple[Any, Reals]:
    """Direction behind an interface to a medium of a relative index, and cos w / cos a.

    `direction` and `normal` are unit vectors, (3, n) or Dr.Jit vectors; `slope` is their scalar product, of any sign.
    """
    xp = namespace(slope, index)
    ratio = 1.0 / index
    cos_in = xp.abs(slope)
    cos_out = xp.sqrt(xp.maximum(1.0 - ratio * ratio * (1.0 - cos_in * cos_in), 0.0))
    along = xp.where(slope < 0.0, ratio * cos_in - cos_out, cos_out - ratio * cos_in)
    return ratio * direction + along * normal, cos_out / xp.maximum(cos_in, 1e-6)


def spreading_factor(dry_m: Reals, depth_m: Reals, *, index: Reals, squeeze: Reals) -> Reals:
    """Power of a target under water, relative to one at the surface: H^2 / ((D + n H) (D / q + n H q)).

    `dry_m` is the slant distance H to the surface, `depth_m` that from there, D, and `squeeze` q is cos w / cos a.
    """
    far = index * dry_m
    return dry_m * dry_m / ((depth_m + far) * (depth_m / squeeze + far * squeeze))


def column_level(reflectance: Reals, attenuation: Reals, *, index: Reals) -> Reals:
    """Signal of the water just below the surface, per metre of range and relative to 1 / R^2 [1/(m sr)].

        2 K_d rho / (pi n)

    It falls as exp(-2 K_d D), so that the whole column returns what the reflectance rho of deep water does, rho / pi.
    """
    return 2.0 * attenuation * reflectance / (np.pi * index)


def corrected(scan: Scan, *, index: float = 1.34, level_m: float | None = None) -> PointCloud:
    """Cloud in the world frame with points under water moved to where refraction and the speed of light put them.

    A point behind the surface lies on the straight extension of its beam, too far away. The surface of each shot is the
    level `level_m` [m] of still water, or without it the shot's own surface return: the nearest one from water, if
    there are returns behind it. The surface counts as horizontal, as for the mean surface of a survey. Points above it,
    and shots without a surface return, stay.
    """
    if not (np.isfinite(index) and 1.0 < index < 2.0):
        raise ConfigError(f"index: the refractive index of water must be from 1 to 2, got {index!r}")
    cloud = scan.in_world()
    xyz = np.asarray(cloud.xyz, np.float64)
    shot = cloud.fields["shot"].astype(np.int64)
    times = scan.start_time + scan.shots.time.astype(np.float64)
    seconds, rows = np.unique(times, return_inverse=True)
    place, quat = scan.motion.sample(seconds)
    direction = quat_rotate(quat[rows], scan.shots.direction.astype(np.float64))[shot]
    start = (place[rows] + quat_rotate(quat[rows], scan.shots.origin.astype(np.float64)))[shot]
    surface = surface_ranges(scan) if level_m is None else _level_m(start, direction, level_m)
    behind = np.linalg.norm(xyz - start, axis=1) - surface
    under = np.isfinite(surface) & (behind > 0.0)
    if level_m is None:
        under &= ~np.isclose(behind, 0.0, atol=1e-3)  # the surface itself
    up = np.zeros((3, len(xyz)))
    up[2] = 1.0
    bent, _ = refracted(direction.T, up, direction[:, 2], np.full(len(xyz), index))
    entry = start + np.where(under, surface, 0.0)[:, None] * direction
    moved = entry + (behind / index)[:, None] * np.asarray(bent).T
    return PointCloud(np.where(under[:, None], moved, xyz), cloud.fields, "world", cloud.names, cloud.metadata)


def surface_ranges(scan: Scan) -> NDArray[np.float64]:
    """Range of the surface return of each point's shot [m]: its nearest return from water before others, or NaN."""
    fields, shot = scan.fields, scan.fields["shot"].astype(np.int64)
    water = [code for code, name in scan.names.get("label", {}).items() if name == "water"]
    first = (fields["return_index"] + 1 < fields["return_count"]) & np.isin(fields["label"], water)
    ranges = np.full(len(scan.shots), np.inf)
    np.minimum.at(ranges, shot[first], fields["range"][first].astype(np.float64))
    return np.where(np.isfinite(ranges), ranges, np.nan)[shot]


def _level_m(start: NDArray[np.float64], direction: NDArray[np.float64], level_m: float) -> NDArray[np.float64]:
    """Range at which each beam meets a level [m]; NaN for beams that do not."""
    down = np.where(direction[:, 2] < 0.0, direction[:, 2], np.nan)
    found = (level_m - start[:, 2]) / down
    return np.where(found > 0.0, found, np.nan)
