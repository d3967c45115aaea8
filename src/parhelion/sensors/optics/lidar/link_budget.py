"""Link budget: received power of an echo, and the longest range at which a target is detected.

Powers are in units of the detection threshold P_min, so the system constant C (pulse energy, aperture, optics) enters
only through rated ranges:

    P_k / P_min = w_k f(theta_k) cos(theta_k) T(R_k)^2 xi(R_k) / R_k^2  /  (P_min / C)
    P_min / C   = (rho_ref / pi) exp(-2 gamma_ref R_ref) / R_ref^2
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.constants import PLANCK_J_S, SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.core.random import Stream, to_normal
from parhelion.rays.device import Engine
from parhelion.sensors.optics.beams import RangeCurve, curve_grid
from parhelion.sensors.optics.lidar.config import LidarConfig, Noise, Overlap
from parhelion.sensors.optics.lidar.fmcw import coherence_extinction_per_m

# ---- Overlap: the share of a beam's return that the receiver collects, by range -------------------------------------
# A receiver is focused far away, so a near target appears as a blurred spot. The spot's width grows as 1/R and its area
# as 1/R^2. While the spot is larger than the detector, the share that falls on the detector is
#
#     xi(R) = min(1, (R / R_full)^2)
#
# with a single parameter, the range R_full beyond which everything is collected. A measured curve is a list of points:
# linear in between, constant beyond the last, and the square law below the first. The same curve applies to surfaces,
# drops, flakes, fog and dust, because all of their light passes the same lens.


LEAST_OVERLAP = 1e-6
"""Lower bound of the overlap in divisions; nothing is detected where the curve is 0."""


def overlap_share(overlap: Overlap, range_m: ArrayLike) -> NDArray[np.float64]:
    """Overlap xi (0 to 1) at ranges [m], for the overlap of a data sheet (a range [m] or a list of points)."""
    r = np.asarray(range_m, dtype=np.float64)
    if overlap is None or overlap == 0:
        return np.ones_like(r)
    if isinstance(overlap, (int, float)):
        return np.minimum((r / overlap) ** 2, 1.0)
    ranges, shares = np.asarray(overlap, dtype=np.float64).T
    return np.where(r < ranges[0], shares[0] * (r / ranges[0]) ** 2, np.interp(r, ranges, shares))


def full_overlap_m(overlap: Overlap) -> float:
    """Range [m] beyond which the overlap is constant."""
    if overlap is None:
        return 0.0
    return float(overlap) if isinstance(overlap, (int, float)) else float(overlap[-1][0])


def overlap_curve(engine: Engine, overlap: Overlap) -> RangeCurve | None:
    """Overlap curve for kernels; None if the receiver collects everything at every range."""
    last = full_overlap_m(overlap)
    if last == 0.0:
        return None
    grid = curve_grid(last)
    return RangeCurve.on_grid(engine, grid, overlap_share(overlap, grid))


# ---- Measurement errors as functions of the signal. NumPy or Dr.Jit arrays ------------------------------------------


def range_sigma(snr: Reals, *, sigma_0: Reals, sigma_1: Reals) -> Reals:
    """Standard deviation of range [m]: sqrt(sigma_0^2 + (sigma_1 / SNR)^2), for SNR > 0.

    sigma_0 [m] remains at high signal; sigma_1 [m] scales the part that decreases with signal.
    """
    ratio = sigma_1 / snr
    return namespace(snr).sqrt(sigma_0 * sigma_0 + ratio * ratio)


def channel_biases(noise: Noise, rings: int, name: str) -> NDArray[np.float64] | None:
    """Constant range error [m] of each ring: as listed, or drawn once for all scans of a model; None if zero."""
    if noise.channel_bias_m:
        if len(noise.channel_bias_m) < rings:
            raise ConfigError(f"{name}: noise.channel_bias_m has {len(noise.channel_bias_m)} entries for {rings} rings")
        return np.asarray(noise.channel_bias_m, dtype=np.float64)
    if noise.channel_bias_sigma_m == 0.0:
        return None
    a, b, _, _ = Stream(0, f"channel-bias/{name}").words(np.arange(rings))
    return noise.channel_bias_sigma_m * np.asarray(to_normal(a, b)[0], dtype=np.float64)


def channel_elevations(noise: Noise, rings: int, name: str) -> NDArray[np.float64] | None:
    """Constant error of elevation [rad] of each ring, drawn once for all scans of a model; None if all are 0."""
    if noise.channel_elevation_sigma_deg == 0.0:
        return None
    a, b, _, _ = Stream(0, f"channel-elevation/{name}").words(np.arange(rings))
    return np.radians(noise.channel_elevation_sigma_deg) * np.asarray(to_normal(a, b)[0], dtype=np.float64)


def channel_intensities(noise: Noise, rings: int, name: str) -> NDArray[np.float64] | None:
    """Constant factor on the intensity of each ring, drawn once for all scans of a model; None if all are 1."""
    if noise.channel_intensity_sigma == 0.0:
        return None
    a, b, _, _ = Stream(0, f"channel-intensity/{name}").words(np.arange(rings))
    return np.exp(noise.channel_intensity_sigma * np.asarray(to_normal(a, b)[0], dtype=np.float64))


def fit_range_sigma(snr: ArrayLike, sigma_m: ArrayLike) -> tuple[float, float]:
    """Fit sigma_0 and sigma_1 [m] to pairs of SNR and standard deviation by relative least squares."""
    s, sigma = np.asarray(snr, dtype=np.float64), np.asarray(sigma_m, dtype=np.float64)
    if s.shape != sigma.shape or s.size < 2 or np.any(s <= 0) or np.any(sigma <= 0):
        raise ConfigError("range noise: expected at least two pairs of SNR and sigma, all above 0")
    from scipy.optimize import nnls

    # sigma^2 = a + b / SNR^2 with a, b >= 0; dividing by sigma^2 makes the errors relative.
    design = np.stack([1.0 / sigma**2, 1.0 / (s * sigma) ** 2], axis=1)
    (a, b), _ = nnls(design, np.ones_like(s))
    return float(np.sqrt(a)), float(np.sqrt(b))


def detection_probability(power: ArrayLike, *, threshold_to_noise: float) -> NDArray[np.float64]:
    """Probability that an echo of `power` [P_min] in Gaussian noise passes the threshold.

    Phi((P - P_min) / sigma_n) with sigma_n = P_min / threshold_to_noise: one half at the threshold itself.
    """
    from scipy.special import ndtr

    return np.asarray(ndtr((np.asarray(power, dtype=np.float64) - 1.0) * threshold_to_noise))


def power_with_chance(deviations: Reals, noise_sigma: Reals, shot_noise: Reals) -> Reals:
    """Power [P_min] that passes the threshold with probability Phi(deviations); NumPy or Dr.Jit arrays.

    Root of P - 1 = z sqrt(sigma^2 + q P), where q is the variance that a unit of signal adds.
    """
    xp = namespace(deviations)
    half = 0.5 * deviations * shot_noise
    return 1.0 + deviations * (half + xp.sqrt(half * half + shot_noise + noise_sigma * noise_sigma))


def false_alarm_rate(*, threshold_to_noise: float, pulse_length_s: float) -> float:
    """False alarms per second of open receiver: exp(-TNR^2 / 2) / (2 sqrt(3) tau).

    Rice's rate of upward crossings for noise limited to the band of a matched pulse of half-power width tau
    (RCA Electro-Optics Handbook, 1974, section 8). Valid for TNR above about 2.
    """
    if threshold_to_noise <= 0 or pulse_length_s <= 0:
        raise ConfigError("false alarms: threshold_to_noise and pulse_length_s must be above 0")
    return float(np.exp(-(threshold_to_noise**2) / 2.0) / (2.0 * np.sqrt(3.0) * pulse_length_s))


def background_noise_factor(sun_klx: float, reference_klx: float) -> float:
    """Factor on the noise in sunlight other than the rated one: shot noise grows with the square root of the light.

    Half of the rated noise power is assumed to be electronic and half to be background at the reference illuminance.
    The factor is then sqrt((1 + E / E_ref) / 2): 1 at the reference, 0.71 in darkness.
    """
    if sun_klx < 0 or reference_klx <= 0:
        raise ConfigError("background light: sun_klx must not be negative, reference_klx must be above 0")
    return float(np.sqrt(0.5 * (1.0 + sun_klx / reference_klx)))


def noise_sigma(config: LidarConfig, sun_klx: float | None) -> float:
    """Standard deviation of the receiver's noise without signal [P_min]; `sun_klx` None means the rated sunlight."""
    sigma, rated_klx = 1.0 / config.receiver.threshold_to_noise, config.noise.background_klx
    return sigma if sun_klx is None or rated_klx <= 0.0 else sigma * background_noise_factor(sun_klx, rated_klx)


# ---- link budget ----------------------------------------------------------------------------------------------------


class UnphysicalExtinctionWarning(UserWarning):
    """Two rated ranges imply a negative extinction."""


@dataclass(frozen=True)
class SystemConstant:
    """Constants of R^2 = K rho exp(-2 gamma R), the range at which a target facing the sensor is just detected."""

    k_m2: float
    """K [m^2]."""
    gamma_per_m: float
    """Extinction of the air in which the ranges were rated [1/m]."""

    @property
    def threshold(self) -> float:
        """P_min / C [1/(m^2 sr)]: received share per unit of the constant at the detection threshold."""
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
    """System constant from one rated range in clear air (VANE's noise cutoff for reflectance 0.9)."""
    if not (0 < reflectance <= 1 and range_m > 0):
        raise ConfigError(f"rated range: reflectance {reflectance} must be in (0, 1] and range {range_m} above 0 m")
    return SystemConstant(range_m**2 / reflectance, 0.0)


def two_targets(reflectance: Sequence[float], range_m: Sequence[float]) -> SystemConstant:
    """System constant and extinction from the longest ranges of two targets (Huang 2023).

    Solves R_i^2 = K rho_i exp(-2 gamma R_i) for i = 1, 2. Equation 23 of the paper has rho_1 and rho_2 swapped. If the
    extinction is negative, it is set to 0 with a warning, and K is fitted to both targets (least squares of ln R).
    """
    (rho1, rho2), (r1, r2) = reflectance, range_m
    for rho, r in ((rho1, r1), (rho2, r2)):
        one_target(rho, r)  # checks the values
    if r1 == r2:
        raise ConfigError(f"rated ranges: two targets need different ranges, got {r1} m twice")
    gamma = float(np.log(r1**2 * rho2 / (r2**2 * rho1)) / (2.0 * (r2 - r1)))
    if gamma < 0:
        k = float(np.sqrt((r1**2 / rho1) * (r2**2 / rho2)))
        warnings.warn(
            f"rated ranges {r1} m at {rho1:.0%} and {r2} m at {rho2:.0%} imply a negative extinction ({gamma:.2e} /m); "
            f"0 is used instead, with K = {k:.0f} m^2",
            UnphysicalExtinctionWarning,
            stacklevel=2,
        )
        return SystemConstant(k, 0.0)
    return SystemConstant(float(r1**2 / (rho1 * np.exp(-2.0 * gamma * r1))), gamma)


def system_constant(config: LidarConfig) -> SystemConstant:
    """System constant of a data sheet, for a receiver that collects everything.

    If the receiver collects only the share xi at a rated range, the target's effective reflectance there is xi times
    its own. If a range is rated for a detection probability above one half, the echo there exceeds the threshold by the
    corresponding noise margin, so the target that is just at the threshold is darker.
    """
    config = with_rated_table(config)
    limits = config.range
    lost = 0.0 if config.fmcw is None else coherence_extinction_per_m(config.fmcw.linewidth_khz * 1e3)
    reflectance = [
        rated.reflectance
        * float(overlap_share(limits.overlap, rated.range_m))
        / _excess(config, rated.detection)
        * float(np.exp(-2.0 * lost * rated.range_m))
        for rated in limits.rated
    ]
    if len(limits.rated) == 1:
        found = one_target(reflectance[0], limits.rated[0].range_m)
    else:
        found = two_targets(reflectance, [r.range_m for r in limits.rated])
    # Loss of coherence grows with range as extinction does.
    return SystemConstant(found.k_m2, found.gamma_per_m + lost) if lost else found


def with_rated_table(config: LidarConfig) -> LidarConfig:
    """Data sheet in which at most two rated ranges remain and the overlap curve meets all others.

    With more than two rated ranges (Cosys-AirSim's function of reflectance limits), no system constant and extinction
    meet all of them. The constant is that of the most sensitive point, without extinction. At the other rated ranges
    the receiver collects the share that they imply; it is linear in between and constant beyond.
    """
    limits = config.range
    if len(limits.rated) <= 2:
        return config
    rated = sorted(limits.rated, key=lambda one: one.range_m)
    at = np.array([one.range_m for one in rated])
    # Collected share over K that puts each target at its rated detection; K is that of the largest share.
    needed = at**2 * np.array([_excess(config, one.detection) / one.reflectance for one in rated])
    share = needed / needed.max()
    base = overlap_share(limits.overlap, at)
    if np.any(base <= 0.0):
        raise ConfigError(f"{config.name}: range.rated: the overlap is 0 at a rated range")
    full = full_overlap_m(limits.overlap)
    knots = [point[0] for point in limits.overlap] if isinstance(limits.overlap, list) else []
    grid = np.unique(np.concatenate([[0.01], knots, np.linspace(0.0, full, 17), at]))
    grid = grid[grid > 0.0]
    curve = overlap_share(limits.overlap, grid) / np.interp(grid, at, base) * np.interp(grid, at, share)
    top = float(curve.max())
    points = [(float(r), float(x)) for r, x in zip(grid, curve / top, strict=True)]
    best = rated[int(np.argmax(share))]
    return config.model_copy(update={"range": limits.model_copy(update={"rated": [best], "overlap": points})})


def _excess(config: LidarConfig, detection: float) -> float:
    """Power [P_min] that is detected with this probability."""
    from scipy.special import ndtri

    receiver = config.receiver
    sigma, shot_noise = 1.0 / receiver.threshold_to_noise, 1.0 / (receiver.threshold_photons or np.inf)
    return float(cast(float, power_with_chance(np.float64(ndtri(detection)), sigma, shot_noise)))


@dataclass(frozen=True)
class AbsoluteBudget:
    """Link budget in watts and photons; see `absolute_budget`."""

    constant_w_m2: float
    """C [W m^2 sr]: received power is C f cos(theta) T^2 xi / R^2."""
    threshold_w: float
    """Received peak power at the detection threshold."""
    threshold_photons: float
    """Detected photons per pulse at the detection threshold."""

    def watts(self, power: ArrayLike) -> NDArray[np.float64]:
        """Received peak power [W] of a power in units of the threshold."""
        return self.threshold_w * np.asarray(power, dtype=np.float64)

    def photons(self, power: ArrayLike) -> NDArray[np.float64]:
        """Detected photons per pulse of a power in units of the threshold."""
        return self.threshold_photons * np.asarray(power, dtype=np.float64)


def absolute_budget(config: LidarConfig) -> AbsoluteBudget:
    """Link budget of a data sheet in watts and photons, from its rated ranges and its transmitter.

    C = P_0 eta pi D^2 / 4 with peak power P_0, efficiency eta and aperture D; the threshold is C times P_min / C. A
    pulse of peak power P has the energy P tau_H, of which `quantum_efficiency` is detected as photons of energy h c /
    lambda.
    """
    optics = config.transmitter
    if optics is None:
        raise ConfigError(f"{config.name}: results in watts need the section transmitter (peak_power_w, aperture_mm)")
    area = np.pi / 4.0 * (optics.aperture_mm * 1e-3) ** 2
    constant = optics.peak_power_w * optics.efficiency * area
    threshold = constant * system_constant(config).threshold
    energy = threshold * config.receiver.pulse_length_ns * 1e-9
    photon_j = PLANCK_J_S * SPEED_OF_LIGHT_M_S / (config.wavelength_nm * 1e-9)
    return AbsoluteBudget(float(constant), float(threshold), float(optics.quantum_efficiency * energy / photon_j))


def max_range(config: LidarConfig, reflectance: float) -> float:
    """Longest range [m] at which half of the shots detect a Lambertian target facing the sensor, limited by the gate.

    Root of R^2 = K rho xi(R) exp(-2 gamma R).
    """
    config = with_rated_table(config)
    constant, limits = system_constant(config), config.range
    last = full_overlap_m(limits.overlap)
    beyond = float(overlap_share(limits.overlap, last)) * reflectance
    reach = float(constant.max_range(beyond))
    if reach < last:
        # Within the overlap curve, the root is searched on a fine grid: the farthest range with detection.
        r = np.linspace(last, 0.0, 20001)[:-1]
        level = constant.k_m2 * reflectance * overlap_share(limits.overlap, r) * np.exp(-2 * constant.gamma_per_m * r)
        seen = np.flatnonzero(level >= r * r)
        reach = float(r[seen[0]]) if len(seen) else 0.0
    return min(reach, limits.max_m)


def channel_gains(config: LidarConfig, rings: int) -> NDArray[np.float64] | None:
    """Gain of each ring relative to the nominal one, shape (rings,); None if all rings are equal."""
    gains = config.receiver.channel_gain
    if not gains:
        return None
    if len(gains) < rings:
        raise ConfigError(f"{config.name}: receiver.channel_gain has {len(gains)} entries for {rings} rings")
    return np.asarray(gains, dtype=np.float64)


def received_power(
    *, weight: Reals, reflected: Reals, range_m: Reals, optical_depth: Reals, threshold: Reals, overlap: Reals = 1.0
) -> Reals:
    """Received power of a sub-ray [P_min]; NumPy or Dr.Jit arrays.

    `reflected` is f cos(theta) [1/sr], `optical_depth` the one-way depth of the air, `threshold` P_min / C
    [1/(m^2 sr)]. Valid for targets larger than the sub-ray's share of the footprint, at any range above 0.
    """
    xp = namespace(range_m, reflected, optical_depth)
    share = weight * reflected * overlap / (range_m * range_m)
    return share * xp.exp(-2.0 * optical_depth) / threshold


DEFAULT_PHOTONS = 6.0
"""Photons at the threshold of a photon-counting sensor whose data sheet does not state the number."""


def threshold_photons(config: LidarConfig) -> float:
    """Photons at the detection threshold, for scales in photons."""
    return config.receiver.threshold_photons or DEFAULT_PHOTONS


def reflectivity(
    power: Reals, range_m: Reals, *, threshold: Reals, extinction_per_m: Reals = 0.0, overlap: Reals = 1.0
) -> Reals:
    """Range-corrected reflectance: that of a Lambertian target facing the sensor that returns this power.

    `power` is in units of P_min, `threshold` is P_min / C [1/(m^2 sr)], `extinction_per_m` is one way. `overlap` is the
    share that the receiver collects at this range, which makers calibrate out. 1 is a perfect white diffuser;
    retro-reflectors are far above it.
    """
    xp = namespace(power, range_m)
    clear = np.pi * power * threshold * range_m * range_m * xp.exp(2.0 * extinction_per_m * range_m)
    return clear / xp.maximum(overlap, LEAST_OVERLAP)


def in_steps(value: Reals, step: Reals | None) -> Reals:
    """Value rounded to whole steps; unmodified if the step is None."""
    return value if step is None else namespace(value).round(value / step) * step
