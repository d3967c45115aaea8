"""How many drops or flakes of which size the air holds at a given rate.

Diameters are in mm, densities in 1/(m^3 mm), counts in 1/m^3, rates in mm of water an hour. A distribution is cut at
both ends: below 0.05 mm a drop hardly weighs or shines, and the largest drops ever seen have about 10 mm (Hobbs and
Rangno 2004). Snow is counted by melted diameter and cut at 20 mm.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from math import gamma
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals
from parhelion.core.errors import ConfigError, unknown_name

LEAST_DIAMETER_MM = 0.05
LARGEST_DROP_MM = 10.0
LARGEST_MELTED_FLAKE_MM = 20.0
# Sizes that only one particle in 1e9 exceeds are left out: tables then spend no steps on them.
_RAREST = 1e-9
_STEPS = 4096


@dataclass(frozen=True)
class ModifiedGamma:
    """N(D) = n_0 D^a exp(-b D^c); an exponential where a = 0 and c = 1."""

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
    """N(D) of `number` drops whose ln D is normal about ln `median_mm` with standard deviation `log_sigma`."""

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
    """A size distribution at one rate, cut to [`least_mm`, `largest_mm`]. None as spectrum means dry air."""

    name: str
    rate_mm_h: float
    least_mm: float
    largest_mm: float
    spectrum: Spectrum | None

    def density(self, diameter_mm: ArrayLike) -> NDArray[np.float64]:
        """N(D) [1/(m^3 mm)]; 0 outside the cut."""
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

    def tail_table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Ascending diameters [mm] and the number above each [1/m^3].

        Straight lines between the points are right to 1e-4 of the number, or to 1e-7 of all.
        """
        return self._table

    @cached_property
    def _table(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        d = np.geomspace(self.least_mm, self.largest_mm, _STEPS)
        # geomspace rounds its ends; the table must begin and end with the cut itself.
        d[0], d[-1] = self.least_mm, self.largest_mm
        above = self.number_above(d)
        d.flags.writeable = above.flags.writeable = False
        return d, above

    def integrate(self, weight: Callable[[NDArray[np.float64]], ArrayLike]) -> float:
        """Integral of weight(D) N(D) dD over the cut; the weight's unit for each m^3."""
        if self.spectrum is None:
            return 0.0
        d, _ = self.tail_table()
        # In ln D the integrand is smooth and the steps are even.
        height = np.asarray(weight(d), dtype=np.float64) * self.density(d) * d
        return float(0.5 * np.sum((height[1:] + height[:-1]) * np.diff(np.log(d))))


class _Family(NamedTuple):
    spectrum: Callable[[float], Spectrum]
    largest_mm: float
    source: str


def _marshall_palmer(rate: float) -> Spectrum:
    # Lambda is per mm; the 41 sometimes printed is per cm.
    return ModifiedGamma(8000.0, 0.0, 4.1 * rate**-0.21, 1.0)


def _feingold_levin(rate: float) -> Spectrum:
    return LogNormal(172.0 * rate**0.22, 0.75 * rate**0.21, float(np.log(1.43)))


# Deirmendjian's "Rain M" over radius r [mm]: n(r) = 5.3333e5 r exp(-8.9443 sqrt(r)), 1000 drops a m^3, mode 0.05 mm.
# Over D = 2 r the density halves and the rest is rewritten.
_RAIN_M = ModifiedGamma(5.3333e5 / 4.0, 1.0, 8.9443 / 2.0**0.5, 0.5)
_FALL_SPEED_M_S, _FALL_EXPONENT = 3.78, 0.67


def _deirmendjian(rate: float) -> Spectrum:
    """Rain M with number and size each growing as R^(1/4.67), so that the water that falls is the rate asked for.

    With the fall speed 3.78 D^0.67 m/s the rate goes as number x size^3.67; sharing the exponent evenly is what
    Marshall and Palmer's and Feingold and Levin's fits do as well (0.21 to 0.22 for both).
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
    """N_0 stays, and the slope follows from the water that falls: R = pi N_0 v / Lambda^4."""
    carried = np.pi * _SNOW_INTERCEPT * SNOW_FALL_SPEED_M_S * 3600.0 * 1e-6
    return ModifiedGamma(_SNOW_INTERCEPT, 0.0, float((carried / rate) ** 0.25), 1.0)


def fall_rate_mm_h(spectrum: ModifiedGamma) -> float:
    """Rain rate [mm/h] carried by an uncut spectrum: (pi / 6) x integral of D^3 v N dD with v = 3.78 D^0.67 m/s.

    Fall speed of Atlas and Ulbrich (1977), good for drops of 0.5 to 5 mm.
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
        _deirmendjian,
        LARGEST_DROP_MM,
        "Deirmendjian 1969, Rain M (modified gamma, a = 1, c = 1/2), scaled to the rate",
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
"""Size distributions by name, each with its source. Fits are good for about 0.5 to 100 mm/h (snow: 0.1 to 3)."""


def drop_sizes(name: str, rate_mm_h: float) -> DropSizes:
    """The distribution `name` at a rate of 0 mm/h or more."""
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


def checked_rate(rate_mm_h: Reals, field: str = "rate_mm_h") -> float:
    """The rate as a number, or an error that names the field."""
    if isinstance(rate_mm_h, (int, float, np.integer, np.floating)) and not isinstance(rate_mm_h, bool):
        rate = float(rate_mm_h)
        if np.isfinite(rate) and rate >= 0.0:
            return rate
    raise ConfigError(f"{field}: must be a finite number of 0 mm/h or more, got {rate_mm_h!r}")


def extinction_of(sizes: DropSizes, efficiency: Callable[[NDArray[np.float64]], ArrayLike]) -> float:
    """Extinction [1/m] of all particles: integral of Q_ext(D) (pi D^2 / 4) N(D) dD, D [mm] given to `efficiency`."""
    area_m2_per_mm2 = np.pi / 4.0 * 1e-6
    return sizes.integrate(lambda d: np.asarray(efficiency(d)) * (area_m2_per_mm2 * d * d))


def beam_volume(range_m: Reals, radius_0_m: Reals, radius_at_range_m: Reals) -> Reals:
    """Volume [m^3] of a beam from its exit to a range: the frustum (pi L / 3)(r_0^2 + r_0 r_L + r_L^2).

    A cylinder of the exit's radius, as some models take, misses most of a wide beam. Arrays of either kind.
    """
    r0, r1 = radius_0_m, radius_at_range_m
    return (np.pi / 3.0) * range_m * (r0 * r0 + r0 * r1 + r1 * r1)


def drops_in_beam(sizes: DropSizes, volume_m3: Reals, above_mm: float = LEAST_DIAMETER_MM) -> Reals:
    """Mean of the Poisson number of drops in a volume [m^3]; arrays of either kind."""
    return volume_m3 * sizes.count(above_mm)
