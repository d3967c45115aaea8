"""Size distributions of drops and flakes, and the particles of a beam that a lidar can detect.

Diameters are in mm, densities in 1/(m^3 mm), counts in 1/m^3, rates in mm of water per hour. Distributions are
truncated: drops below 0.05 mm contribute little mass and backscatter, and the largest observed drops have about 10 mm
(Hobbs and Rangno 2004). Snow is described by melted diameter and truncated at 20 mm.

Detectable drops are drawn without drawing the rest. Drops are a Poisson process over range z and diameter D with
density A(z) N(D), where A is the beam's cross section. A 100 m beam in rain contains thousands of drops, nearly all of
which return far less than the detection threshold. Those that return at least `floor` thresholds are again a Poisson
process, with density A(z) N(D) 1[echo(D, z) >= floor]: thinning is exact, not an approximation. The mean is the
integral of A(z) n(z) over range, where n(z) is the number of drops larger than the smallest detectable one at z. Range
then follows A(z) n(z), and diameter, given range, follows the tail of N(D).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import gamma
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ConfigError, unknown_name

LEAST_DIAMETER_MM = 0.05
LARGEST_DROP_MM = 10.0
LARGEST_MELTED_FLAKE_MM = 20.0
# Sizes exceeded by only one particle in 1e9 are truncated, so that tables spend no steps on them.
_RAREST = 1e-9
_STEPS = 4096


@dataclass(frozen=True)
class ModifiedGamma:
    """N(D) = n_0 D^a exp(-b D^c); exponential for a = 0 and c = 1."""

    n_0: float
    a: float
    b: float
    c: float

    def density(self, diameter_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """N(D) [1/(m^3 mm)]."""
        return np.asarray(self.n_0 * diameter_mm**self.a * np.exp(-self.b * diameter_mm**self.c))

    def tail(self, diameter_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Number above D [1/m^3]: (n_0 / c) b^-k Gamma(k, b D^c) with k = (a + 1) / c."""
        from scipy.special import gammaincc

        k = (self.a + 1.0) / self.c
        whole = self.n_0 / self.c * self.b**-k * gamma(k)
        return np.asarray(whole * gammaincc(k, self.b * diameter_mm**self.c))


@dataclass(frozen=True)
class LogNormal:
    """N(D) of `number` drops whose ln D is normal with mean ln `median_mm` and standard deviation `log_sigma`."""

    number: float
    median_mm: float
    log_sigma: float

    def density(self, diameter_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """N(D) [1/(m^3 mm)]."""
        t = np.log(diameter_mm / self.median_mm) / self.log_sigma
        return np.asarray(self.number * np.exp(-0.5 * t * t) / (np.sqrt(2.0 * np.pi) * self.log_sigma * diameter_mm))

    def tail(self, diameter_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        """Number above D [1/m^3]."""
        from scipy.special import ndtr

        return np.asarray(self.number * ndtr(-np.log(diameter_mm / self.median_mm) / self.log_sigma))


Spectrum = ModifiedGamma | LogNormal


@dataclass(frozen=True)
class DropSizes:
    """Size distribution at one rate, truncated to [`least_mm`, `largest_mm`]; spectrum None means no particles."""

    name: str
    rate_mm_h: float
    least_mm: float
    largest_mm: float
    spectrum: Spectrum | None

    def density(self, diameter_mm: ArrayLike) -> NDArray[np.float64]:
        """N(D) [1/(m^3 mm)]; 0 outside the truncation limits."""
        d = np.asarray(diameter_mm, dtype=np.float64)
        if self.spectrum is None:
            return np.zeros_like(d)
        inside = (d >= self.least_mm) & (d <= self.largest_mm)
        return np.where(inside, self.spectrum.density(np.clip(d, self.least_mm, self.largest_mm)), 0.0)

    def number_above(self, diameter_mm: ArrayLike) -> NDArray[np.float64]:
        """Number of particles larger than each diameter [1/m^3], in closed form."""
        d = np.clip(np.asarray(diameter_mm, dtype=np.float64), self.least_mm, self.largest_mm)
        if self.spectrum is None:
            return np.zeros_like(d)
        return np.maximum(self.spectrum.tail(d) - self.spectrum.tail(np.float64(self.largest_mm)), 0.0)

    def count(self, above_mm: float = LEAST_DIAMETER_MM) -> float:
        """Number of particles larger than `above_mm` [1/m^3]."""
        return float(self.number_above(above_mm))

    @cached_property
    def tail_table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ascending diameters [mm] and the number above each [1/m^3].

        Linear interpolation is accurate to 1e-4 of the number, or to 1e-7 of the total.
        """
        d = np.geomspace(self.least_mm, self.largest_mm, _STEPS)
        # geomspace rounds its end points; the table must start and end at the truncation limits.
        d[0], d[-1] = self.least_mm, self.largest_mm
        above = self.number_above(d)
        d.flags.writeable = above.flags.writeable = False
        return d, above

    def integrate(self, weight: Callable[[NDArray[np.float64]], ArrayLike]) -> float:
        """Integral of weight(D) N(D) dD between the truncation limits, in the unit of the weight per m^3."""
        if self.spectrum is None:
            return 0.0
        d, _ = self.tail_table
        # In ln D the integrand is smooth and the steps are equal.
        height = np.asarray(weight(d), dtype=np.float64) * self.density(d) * d
        return float(0.5 * np.sum((height[1:] + height[:-1]) * np.diff(np.log(d))))


class _Family(NamedTuple):
    spectrum: Callable[[float], Spectrum]
    largest_mm: float
    source: str


def _marshall_palmer(rate: float) -> Spectrum:
    # Lambda is per mm; the value 41 found in some texts is per cm.
    return ModifiedGamma(8000.0, 0.0, 4.1 * rate**-0.21, 1.0)


def _feingold_levin(rate: float) -> Spectrum:
    return LogNormal(172.0 * rate**0.22, 0.75 * rate**0.21, float(np.log(1.43)))


# Deirmendjian's "Rain M" over radius r [mm]: n(r) = 5.3333e5 r exp(-8.9443 sqrt(r)), 1000 drops per m^3, mode 0.05 mm.
# As a function of D = 2 r, the density halves and r is substituted.
_RAIN_M = ModifiedGamma(5.3333e5 / 4.0, 1.0, 8.9443 / 2.0**0.5, 0.5)
_FALL_SPEED_M_S, _FALL_EXPONENT = 3.78, 0.67


def _deirmendjian(rate: float) -> Spectrum:
    """Rain M with number and size each scaled as R^(1/4.67), so that the water flux equals the rate.

    With the fall speed 3.78 D^0.67 m/s, the rate scales as number x size^3.67. The fits of Marshall and Palmer and of
    Feingold and Levin divide the exponent equally as well (0.21 to 0.22 for both).
    """
    grow = (rate / fall_rate_mm_h(_RAIN_M)) ** (1.0 / (4.0 + _FALL_EXPONENT))
    shape = _RAIN_M
    return ModifiedGamma(shape.n_0 / grow**shape.a, shape.a, shape.b / grow**shape.c, shape.c)


def _gunn_marshall(n_0: float) -> Callable[[float], Spectrum]:
    return lambda rate: ModifiedGamma(n_0 * rate**-0.87, 0.0, 2.55 * rate**-0.48, 1.0)


SNOW_FALL_SPEED_M_S = 1.0
"""Fall speed of aggregates of snow crystals, nearly the same for all sizes (Locatelli and Hobbs 1974: 0.8 to 1.3)."""
_SNOW_INTERCEPT = 3800.0


def _constant_intercept(rate: float) -> Spectrum:
    """Spectrum with constant N_0 and a slope from the water flux: R = pi N_0 v / Lambda^4."""
    carried = np.pi * _SNOW_INTERCEPT * SNOW_FALL_SPEED_M_S * 3600.0 * 1e-6
    return ModifiedGamma(_SNOW_INTERCEPT, 0.0, float((carried / rate) ** 0.25), 1.0)


def fall_rate_mm_h(spectrum: ModifiedGamma) -> float:
    """Rain rate [mm/h] of an untruncated spectrum: (pi / 6) x integral of D^3 v N dD with v = 3.78 D^0.67 m/s.

    Fall speed of Atlas and Ulbrich (1977), valid for drops of 0.5 to 5 mm.
    """
    power = 3.0 + _FALL_EXPONENT + spectrum.a
    k = (power + 1.0) / spectrum.c
    moment = spectrum.n_0 / spectrum.c * spectrum.b**-k * gamma(k)
    return float(np.pi / 6.0 * _FALL_SPEED_M_S * moment * 3600.0 * 1e-6)


DROP_SIZES: dict[str, _Family] = {
    "marshall-palmer": _Family(
        _marshall_palmer, LARGEST_DROP_MM, "Marshall and Palmer 1948: N_0 = 8000 /m^3/mm, Lambda = 4.1 R^-0.21 /mm"
    ),
    "feingold-levin": _Family(
        _feingold_levin,
        LARGEST_DROP_MM,
        "Feingold and Levin 1986: lognormal, N_T = 172 R^0.22 /m^3, D_g = 0.75 R^0.21 mm, sigma_g = 1.43",
    ),
    "deirmendjian": _Family(
        _deirmendjian, LARGEST_DROP_MM, "Deirmendjian 1969, Rain M (modified gamma, a = 1, c = 1/2), scaled to the rate"
    ),
    "gunn-marshall": _Family(
        _gunn_marshall(7600.0),
        LARGEST_MELTED_FLAKE_MM,
        "Gunn and Marshall 1958 as used for lidars: N_0 = 7600 R^-0.87 /m^3/mm, Lambda = 2.55 R^-0.48 /mm, melted "
        "diameters; its water falls at 0.49 m/s, which is that of single crystals",
    ),
    "constant-intercept": _Family(
        _constant_intercept,
        LARGEST_MELTED_FLAKE_MM,
        "N_0 = 3800 /m^3/mm at every rate, that of Gunn and Marshall 1958 at 1 mm/h, as cloud models take a constant "
        "intercept (Lin et al. 1983); its water falls at 1 m/s at every rate, so that more snow has more flakes",
    ),
    "gunn-marshall-1958": _Family(
        _gunn_marshall(3800.0),
        LARGEST_MELTED_FLAKE_MM,
        "Gunn and Marshall 1958 with N_0 = 3800 R^-0.87 /m^3/mm: its water falls at 0.99 m/s, which is that of "
        "aggregates",
    ),
}
"""Size distributions by name, each with its source. Valid for about 0.5 to 100 mm/h (snow: 0.1 to 3)."""


def drop_sizes(name: str, rate_mm_h: float) -> DropSizes:
    """Distribution `name` at a rate of 0 mm/h or more."""
    if name not in DROP_SIZES:
        raise unknown_name("drop size distribution", name, DROP_SIZES)
    rate = checked_rate(rate_mm_h)
    family = DROP_SIZES[name]
    if rate == 0.0:
        return DropSizes(name, rate, LEAST_DIAMETER_MM, family.largest_mm, None)
    spectrum = family.spectrum(rate)
    d = np.geomspace(LEAST_DIAMETER_MM, family.largest_mm, _STEPS)
    above = spectrum.tail(d)
    if above[0] <= 0.0:
        return DropSizes(name, rate, LEAST_DIAMETER_MM, family.largest_mm, None)
    common = int(np.searchsorted(-above, -_RAREST * above[0]))
    largest = float(d[common]) if common < _STEPS - 1 else family.largest_mm
    return DropSizes(name, rate, LEAST_DIAMETER_MM, largest, spectrum)


def checked_rate(rate_mm_h: Reals) -> float:
    """Validated rate [mm/h]."""
    if isinstance(rate_mm_h, (int, float, np.integer, np.floating)) and not isinstance(rate_mm_h, bool):
        rate = float(rate_mm_h)
        if np.isfinite(rate) and rate >= 0.0:
            return rate
    raise ConfigError(f"rate_mm_h: must be a finite number of 0 mm/h or more, got {rate_mm_h!r}")


def extinction_of(sizes: DropSizes, efficiency: Callable[[NDArray[np.float64]], ArrayLike]) -> float:
    """Extinction [1/m] of all particles: integral of Q_ext(D) (pi D^2 / 4) N(D) dD; `efficiency` is Q_ext by D [mm]."""
    area_m2_per_mm2 = np.pi / 4.0 * 1e-6
    return sizes.integrate(lambda d: np.asarray(efficiency(d)) * (area_m2_per_mm2 * d * d))


def drops_in_beam(sizes: DropSizes, volume_m3: Reals) -> Reals:
    """Mean number of drops (Poisson) in a volume [m^3]; NumPy or Dr.Jit arrays."""
    return volume_m3 * sizes.count()


STEPS = 1024
"""Points of the tables over range, at equal steps of the distribution function."""
TAIL_STEPS = 4096
"""Points of the table over diameter, at equal steps of ln tail."""

_COARSE, _FINE = 4096, 16384
_NEAREST_M = 1e-3
# A probability of exp(-24) is below the smallest uniform number of a 24-bit draw.
_DEEPEST = 24.0


@dataclass(frozen=True, eq=False)
class Detectable:
    """Tables from which detectable drops are drawn; see `sample`."""

    mean: float
    """Mean number of detectable drops per beam (Poisson)."""
    range_m: NDArray[np.float64]
    """Range at equal steps of its distribution function from 0 to 1; both ends are a quarter step inside."""
    log_tail: NDArray[np.float64]
    """ln of the number of drops [1/m^3] above the smallest detectable diameter, at those ranges."""
    log_tail_steps: NDArray[np.float64]
    """Equal, increasing steps of ln of the number of drops [1/m^3] above a diameter."""
    diameter_mm: NDArray[np.float64]
    """Diameter at each of those steps, decreasing."""


def drop_echo(
    backscatter_m2_sr: Reals,
    *,
    beam_area_m2: Reals,
    range_m: Reals,
    extinction_per_m: Reals,
    overlap: Reals = 1.0,
    threshold: Reals,
) -> Reals:
    """Echo of one drop in units of the detection threshold: (sigma_b / A) T^2 xi / z^2 / (P_min / C).

    The drop is anywhere in a beam of uniform irradiance whose cross section A(z) is larger than the drop. `threshold`
    is P_min / C [1/(m^2 sr)], `extinction_per_m` is one way and uniform. NumPy or Dr.Jit arrays.
    """
    transmission = namespace(range_m, backscatter_m2_sr).exp(-2.0 * extinction_per_m * range_m)
    return backscatter_m2_sr / beam_area_m2 * transmission * overlap / (range_m * range_m * threshold)


def obscured(cross_section_m2: Reals, area_m2: Reals) -> Reals:
    """Share of the beam obscured by a drop of this extinction cross section, at most 1; NumPy or Dr.Jit arrays."""
    return namespace(cross_section_m2, area_m2).minimum(cross_section_m2 / area_m2, 1.0)


def detectable(
    sizes: DropSizes,
    backscatter: Callable[[NDArray[np.float64]], ArrayLike],
    *,
    area: Callable[[NDArray[np.float64]], ArrayLike],
    overlap: Callable[[NDArray[np.float64]], ArrayLike],
    extinction_per_m: float,
    threshold: float,
    floor: float = 1.0,
    least_range_m: float,
    largest_range_m: float,
) -> Detectable:
    """Tables of the drops between two ranges whose echo is at least `floor` detection thresholds.

    `backscatter` maps D [mm] to sigma_b [m^2/sr], `area` maps range to the beam's cross section [m^2], `overlap` maps
    range to the share that the receiver collects. The smallest detectable diameter follows from the running maximum of
    sigma_b over D: a larger drop that returns slightly less than a smaller one counts as returning the same. Drops
    within 1 mm are left out. Without detectable drops, `mean` is 0 and the tables hold arbitrary finite values.
    """
    _check(extinction_per_m, threshold, floor, least_range_m, largest_range_m)
    diameter, above = sizes.tail_table
    strength = np.maximum.accumulate(np.asarray(backscatter(diameter), dtype=np.float64))
    if not (np.all(np.isfinite(strength)) and np.all(strength >= 0.0)):
        raise ConfigError("backscatter: must be finite and 0 m^2/sr or more for every diameter")

    def density(z: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Detectable drops per metre of range, and per m^3."""
        beam = np.broadcast_to(np.asarray(area(z), dtype=np.float64), z.shape)
        if not (np.all(np.isfinite(beam)) and np.all(beam > 0.0)):
            raise ConfigError("area: must be finite and above 0 m^2 at every range")
        # The echo is linear in sigma_b, so the echo of 1 m^2/sr gives the required sigma_b.
        unit = drop_echo(
            np.ones_like(z),
            beam_area_m2=beam,
            range_m=z,
            extinction_per_m=extinction_per_m,
            overlap=np.asarray(overlap(z), dtype=np.float64),
            threshold=threshold,
        )
        needed = np.where(unit > 0.0, floor / np.where(unit > 0.0, unit, 1.0), np.inf)
        number = np.interp(_least_with(strength, diameter, needed), diameter, above, right=0.0)
        return beam * number, number

    near = max(least_range_m, _NEAREST_M)
    # Finer steps near the sensor, where most detectable drops are.
    coarse = near + (largest_range_m - near) * np.linspace(0.0, 1.0, _COARSE) ** 2
    seen = np.flatnonzero(density(coarse)[0] > 0.0)
    if seen.size == 0:
        return _nothing(near, largest_range_m)
    first, last = coarse[max(seen[0] - 1, 0)], coarse[min(seen[-1] + 1, _COARSE - 1)]
    z = np.linspace(first, last, _FINE)
    per_m, number = density(z)
    cumulative = np.concatenate([[0.0], np.cumsum(0.5 * (per_m[1:] + per_m[:-1]) * np.diff(z))])
    mean = float(cumulative[-1])
    if mean <= 0.0:
        return _nothing(near, largest_range_m)
    range_m = _inverse(cumulative / mean, z)
    log_tail = np.log(np.interp(range_m, z, number))
    top, bottom = float(np.log(above[0])), float(log_tail.min()) - _DEEPEST
    log_tail_steps = np.linspace(bottom, top, TAIL_STEPS)
    # If small drops are rare, the tail is nearly constant at first. The last point is moved inwards by a quarter step,
    # as at the ends of range; otherwise interpolation would produce drops of the smallest diameter.
    at = np.minimum(log_tail_steps, top - 0.25 * (log_tail_steps[1] - log_tail_steps[0]))
    descending = np.interp(np.exp(at), above[::-1], diameter[::-1])
    return Detectable(mean, range_m, log_tail, log_tail_steps, descending)


def sample(table: Detectable, u1: ArrayLike, u2: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Range [m] and diameter [mm] of detectable drops from pairs of uniform numbers in (0, 1)."""
    place = np.asarray(u1, dtype=np.float64) * (table.range_m.size - 1)
    steps = np.arange(table.range_m.size)
    log_number = np.interp(place, steps, table.log_tail) + np.log(np.asarray(u2, dtype=np.float64))
    return np.interp(place, steps, table.range_m), np.interp(log_number, table.log_tail_steps, table.diameter_mm)


def counts(table: Detectable, u: ArrayLike) -> NDArray[np.int64]:
    """Number of detectable drops per beam: Poisson numbers by inversion of uniform numbers in (0, 1)."""
    chance = np.asarray(u, dtype=np.float64)
    if table.mean <= 0.0:
        return np.zeros(chance.shape, dtype=np.int64)
    from scipy.special import pdtr

    # 12 standard deviations above the mean, plus 40 for small means.
    most = int(table.mean + 12.0 * np.sqrt(table.mean) + 40.0)
    return np.asarray(np.searchsorted(pdtr(np.arange(most), table.mean), chance, side="left"), dtype=np.int64)


def _check(extinction: float, threshold: float, floor: float, least: float, largest: float) -> None:
    for name, value, good, allowed in (
        ("extinction_per_m", extinction, np.isfinite(extinction) and extinction >= 0.0, "0 /m or more"),
        ("threshold", threshold, np.isfinite(threshold) and threshold > 0.0, "above 0 /(m^2 sr)"),
        ("floor", floor, np.isfinite(floor) and floor > 0.0, "above 0"),
        ("least_range_m", least, np.isfinite(least) and least >= 0.0, "0 m or more"),
        ("largest_range_m", largest, np.isfinite(largest) and largest > max(least, _NEAREST_M), "above the least"),
    ):
        if not good:
            raise ConfigError(f"{name}: must be finite and {allowed}, got {value!r}")


def _least_with(
    strength: NDArray[np.float64], diameter: NDArray[np.float64], needed: NDArray[np.float64]
) -> NDArray[np.float64]:
    """Smallest diameter [mm] whose running maximum of sigma_b reaches `needed`; beyond the last if none does."""
    row = np.searchsorted(strength, needed, side="left")
    high = np.clip(row, 1, diameter.size - 1)
    low = high - 1
    rise = strength[high] - strength[low]
    part = np.clip((needed - strength[low]) / np.where(rise > 0.0, rise, 1.0), 0.0, 1.0)
    between = diameter[low] + part * (diameter[high] - diameter[low])
    return np.where(row == 0, diameter[0], np.where(row == diameter.size, 2.0 * diameter[-1], between))


def _inverse(cumulative: NDArray[np.float64], z: NDArray[np.float64]) -> NDArray[np.float64]:
    """Ranges at equal steps of a distribution function that rises from 0 to 1."""
    # Constant intervals contain no drops and cannot be inverted.
    rising = np.concatenate([[False], np.diff(cumulative) > 0.0, [False]])
    keep = rising[1:] | rising[:-1]
    # The ends are moved inwards by a quarter step: at the exact ends, the number of detectable drops may be 0, and its
    # logarithm is interpolated.
    u = np.clip(np.arange(STEPS), 0.25, STEPS - 1.25) / (STEPS - 1)
    return np.interp(u, cumulative[keep], z[keep])


def _nothing(near: float, far: float) -> Detectable:
    """Tables with finite values for a mean of 0."""
    return Detectable(
        0.0,
        np.linspace(near, far, STEPS),
        np.zeros(STEPS),
        np.linspace(-_DEEPEST, 0.0, TAIL_STEPS),
        np.ones(TAIL_STEPS),
    )
