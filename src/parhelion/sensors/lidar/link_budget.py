"""How much of a pulse comes back, and how far a target can be seen.

Everything is in units of the detection threshold P_min, so the system constant C (pulse energy, aperture, optics)
enters only through rated ranges:

    P_k / P_min = w_k f(theta_k) cos(theta_k) T(R_k)^2 xi(R_k) / R_k^2  /  (P_min / C)
    P_min / C   = (rho_ref / pi) exp(-2 gamma_ref R_ref) / R_ref^2
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ConfigError
from parhelion.sensors.lidar.config import LidarConfig
from parhelion.sensors.lidar.noise import power_with_chance
from parhelion.sensors.lidar.overlap import full_overlap_m, overlap_share


class UnphysicalExtinctionWarning(UserWarning):
    """Two rated ranges imply an extinction below zero."""


@dataclass(frozen=True)
class SystemConstant:
    """R^2 = K rho exp(-2 gamma R) for a target that is just detected, facing the sensor."""

    k_m2: float
    """K [m^2]."""
    gamma_per_m: float
    """Extinction of the air in which the ranges were rated [1/m]."""

    @property
    def threshold(self) -> float:
        """P_min / C [1/(m^2 sr)]: the received share per unit constant at which detection begins."""
        return 1.0 / (np.pi * self.k_m2)

    def max_range(self, reflectance: ArrayLike, gamma_per_m: float | None = None) -> NDArray[np.float64]:
        """Longest range [m] of a Lambertian target facing the sensor: R = W(gamma sqrt(K rho)) / gamma."""
        from scipy.special import lambertw

        gamma = self.gamma_per_m if gamma_per_m is None else gamma_per_m
        if gamma < 0 or not np.isfinite(gamma):
            raise ConfigError(f"gamma_per_m: must be finite and not negative, got {gamma}")
        clear = np.sqrt(self.k_m2 * np.asarray(reflectance, dtype=np.float64))
        if gamma == 0.0:
            return clear
        return np.real(lambertw(gamma * clear)) / gamma


def one_target(reflectance: float, range_m: float) -> SystemConstant:
    """The constant from one rated range in clear air (VANE's noise cutoff for reflectance 0.9)."""
    if not (0 < reflectance <= 1 and range_m > 0):
        raise ConfigError(f"rated range: reflectance {reflectance} must be in (0, 1] and range {range_m} above 0 m")
    return SystemConstant(range_m**2 / reflectance, 0.0)


def two_targets(reflectance: Sequence[float], range_m: Sequence[float]) -> SystemConstant:
    """The constant and the extinction from the longest ranges of two targets (Huang 2023).

    From R_i^2 = K rho_i exp(-2 gamma R_i) for i = 1, 2. The paper's equation 23 prints rho_1 and rho_2 swapped.
    Where the extinction comes out negative, which no air has, it is set to 0 with a warning, and K is fitted to
    both targets (least squares of ln R).
    """
    (rho1, rho2), (r1, r2) = reflectance, range_m
    for rho, r in ((rho1, r1), (rho2, r2)):
        one_target(rho, r)  # checks the values
    if r1 == r2:
        raise ConfigError(f"rated ranges: two targets need two different ranges, got {r1} m twice")
    gamma = float(np.log(r1**2 * rho2 / (r2**2 * rho1)) / (2.0 * (r2 - r1)))
    if gamma < 0:
        k = float(np.sqrt((r1**2 / rho1) * (r2**2 / rho2)))
        warnings.warn(
            f"rated ranges {r1} m at {rho1:.0%} and {r2} m at {rho2:.0%} imply an extinction of {gamma:.2e} /m, below "
            f"zero; 0 is used instead, with K = {k:.0f} m^2",
            UnphysicalExtinctionWarning,
            stacklevel=2,
        )
        return SystemConstant(k, 0.0)
    return SystemConstant(float(r1**2 / (rho1 * np.exp(-2.0 * gamma * r1))), gamma)


def system_constant(config: LidarConfig) -> SystemConstant:
    """The constant of a data sheet with one or two rated ranges, for a receiver that collects everything.

    Where the receiver collects only the share xi at a rated range, the target there is worth xi times its reflectance.
    Where a range is rated for a detection above one half, the echo there is above the threshold by as much as the noise
    asks for: the target that is just at the threshold is darker.
    """
    limits, receiver = config.range, config.receiver
    sigma, shot_noise = 1.0 / receiver.threshold_to_noise, 1.0 / (receiver.threshold_photons or np.inf)
    reflectance = [
        rated.reflectance
        * float(overlap_share(limits.overlap, rated.range_m))
        / float(power_with_chance(np.float64(_deviations(rated.detection)), sigma, shot_noise))
        for rated in limits.rated
    ]
    if len(limits.rated) == 1:
        return one_target(reflectance[0], limits.rated[0].range_m)
    return two_targets(reflectance, [r.range_m for r in limits.rated])


def _deviations(chance: float) -> float:
    """Standard deviations that a normal number stays below with this chance."""
    from scipy.special import ndtri

    return float(ndtri(chance))


def max_range(config: LidarConfig, reflectance: float) -> float:
    """Longest range [m] of a Lambertian target facing the sensor, which half of the shots find, or the gate.

    The root of R^2 = K rho xi(R) exp(-2 gamma R).
    """
    constant, limits = system_constant(config), config.range
    last = full_overlap_m(limits.overlap)
    beyond = float(overlap_share(limits.overlap, last)) * reflectance
    reach = float(constant.max_range(beyond))
    if reach < last:
        # Within the curve the root is looked for on a fine grid: the farthest range at which the target is seen.
        r = np.linspace(last, 0.0, 20001)[:-1]
        level = constant.k_m2 * reflectance * overlap_share(limits.overlap, r) * np.exp(-2 * constant.gamma_per_m * r)
        seen = np.flatnonzero(level >= r * r)
        reach = float(r[seen[0]]) if len(seen) else 0.0
    return min(reach, limits.max_m)


def channel_gains(config: LidarConfig, rings: int) -> NDArray[np.float64] | None:
    """Strength of each ring relative to the usual one, shape (rings,); None where all are alike."""
    gains = config.receiver.channel_gain
    if not gains:
        return None
    if len(gains) < rings:
        raise ConfigError(f"{config.name}: receiver.channel_gain has {len(gains)} entries for {rings} rings")
    return np.asarray(gains, dtype=np.float64)


def received_power(
    *, weight: Reals, reflected: Reals, range_m: Reals, optical_depth: Reals, threshold: Reals, overlap: Reals = 1.0
) -> Reals:
    """Received power of a sub-ray in units of P_min; arrays of either kind.

    `reflected` is f cos(theta) [1/sr], `optical_depth` that of the air one way, `threshold` P_min / C [1/(m^2 sr)].
    Valid for a target larger than the sub-ray's share of the footprint, at any range above 0.
    """
    xp = namespace(range_m, reflected, optical_depth)
    share = weight * reflected * overlap / (range_m * range_m)
    return share * xp.exp(-2.0 * optical_depth) / threshold
