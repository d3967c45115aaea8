"""What fog and haze take from a beam of light, and the soft echo that they send back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals, is_drjit, namespace
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pulse import pulse_shape
from parhelion.weather.fog_drops import fog_lidar_ratio
from parhelion.weather.mie import checked_wavelength

LN_20 = float(np.log(20.0))
HAHNER_BACKSCATTER = 0.046
"""Backscatter times optical range [1/sr] that Hahner et al. 2021 take: a lidar ratio of 65 sr, that of dry aerosol."""

_NEAREST_M = 0.05
_PANELS, _NODES = 256, 3


class FogModel(NamedTuple):
    """A way to get extinction from visibility."""

    extinction: Callable[[Reals, float], Reals]
    """(visibility [m], wavelength [nm]) -> extinction [1/m], arrays of either kind."""
    source: str


def _by_wavelength(visibility_m: Reals, wavelength_nm: float, exponent: Reals) -> Reals:
    log_ratio = float(np.log(wavelength_nm / 550.0))
    return 3.91 / visibility_m * namespace(visibility_m).exp(-exponent * log_ratio)


def kim_extinction(visibility_m: Reals, wavelength_nm: float) -> Reals:
    """Kim's form, in which dense fog takes all wavelengths alike; arrays of either kind.

    (3.91 / V) (lambda / 550 nm)^-q with q = 1.6 (V > 50 km), 1.3 (6 to 50), 0.16 V + 0.34 (1 to 6), V - 0.5 (0.5 to 1)
    and 0 below. For 1 to 6 km Huang et al. (2023) print a factor of 9.27 where their own equations give 6.60. Made for
    785 to 1550 nm.
    """
    xp = namespace(visibility_m)
    km = visibility_m * 1e-3
    q = xp.where(km > 0.5, km - 0.5, 0.0 * km)
    q = xp.where(km > 1.0, 0.16 * km + 0.34, q)
    q = xp.where(km > 6.0, 1.3 + 0.0 * km, q)
    q = xp.where(km > 50.0, 1.6 + 0.0 * km, q)
    return _by_wavelength(visibility_m, wavelength_nm, q)


def kruse_extinction(visibility_m: Reals, wavelength_nm: float) -> Reals:
    """Kruse's form: as Kim's, but q = 0.585 V^(1/3) for all V below 6 km; arrays of either kind. Valid for haze."""
    xp = namespace(visibility_m)
    km = visibility_m * 1e-3
    q = xp.where(km > 6.0, 1.3 + 0.0 * km, 0.585 * xp.power(km, 1.0 / 3.0))
    q = xp.where(km > 50.0, 1.6 + 0.0 * km, q)
    return _by_wavelength(visibility_m, wavelength_nm, q)


def koschmieder_extinction(visibility_m: Reals, wavelength_nm: float) -> Reals:
    """-ln(0.02) / V = 3.912 / V at any wavelength: a black object's contrast has fallen to 2 %."""
    return float(-np.log(0.02)) / visibility_m


def hahner2021_extinction(visibility_m: Reals, wavelength_nm: float) -> Reals:
    """ln 20 / V at any wavelength: V is the meteorological optical range, at which 5 % of light is left."""
    return LN_20 / visibility_m


FOG_MODELS: dict[str, FogModel] = {
    "kim": FogModel(kim_extinction, "Kim, McArthur and Korevaar 2001"),
    "kruse": FogModel(kruse_extinction, "Kruse, McGlauchlin and McQuistan 1962"),
    "koschmieder": FogModel(koschmieder_extinction, "Koschmieder 1924, contrast 0.02"),
    "hahner2021": FogModel(hahner2021_extinction, "Hahner et al. 2021"),
}
"""Models of extinction by name."""


def fog_extinction(visibility_m: Reals, model: str = "kim", wavelength_nm: float = 905.0) -> Reals:
    """One-way extinction [1/m] at a visibility above 0 m; infinite visibility gives 0. Arrays of either kind."""
    if model not in FOG_MODELS:
        raise unknown_name("fog model", model, FOG_MODELS)
    wavelength = checked_wavelength(wavelength_nm)
    if is_drjit(visibility_m):
        return FOG_MODELS[model].extinction(visibility_m, wavelength)
    v = np.asarray(visibility_m, dtype=np.float64)
    _check(v, v > 0.0, "visibility_m", "above 0 m")
    # Inf times 0 is no number, and so far away every q is that of the clearest air.
    extinction = FOG_MODELS[model].extinction(np.minimum(v, 1e15), wavelength)
    return np.where(np.isinf(v), 0.0, extinction)[()]


def optical_range(extinction_per_m: Reals) -> Reals:
    """Meteorological optical range [m], at which 5 % of light is left: ln 20 / alpha; arrays of either kind."""
    return LN_20 / extinction_per_m


def usual_backscatter(model: str, wavelength_nm: float) -> float:
    """Backscatter times optical range [1/sr] where none is given: ln 20 / S, with the lidar ratio S of fog droplets.

    The model `hahner2021` keeps its authors' own 0.046.
    """
    return HAHNER_BACKSCATTER if model == "hahner2021" else LN_20 / fog_lidar_ratio(wavelength_nm)


def fog_backscatter(extinction_per_m: Reals, factor: float) -> Reals:
    """Backscatter [1/(m sr)]: factor / MOR = factor alpha / ln 20; arrays of either kind."""
    if not (np.isfinite(factor) and factor >= 0.0):
        raise ConfigError(f"factor: must be finite and 0 /sr or more, got {factor!r}")
    return extinction_per_m * (factor / LN_20)


def soft_echo(
    range_m: ArrayLike,
    *,
    extinction_per_m: float,
    backscatter_per_m_sr: float,
    pulse_length_m: float,
    overlap: Callable[[NDArray[np.float64]], ArrayLike],
) -> NDArray[np.float64]:
    """Signal of even fog at each range, P / C [1/(m^2 sr)]: beta x integral of p(R - r) T^2(r) xi(r) / r^2 dr.

    The pulse p(x) = cos^2(pi x / L) for |x| < L / 2 has its peak of 1 at 0 and L = c tau_H, so that the numbers are in
    the units of a surface's echo: rho / pi T^2 xi / R^2. Right to 1e-4, kinks in `overlap` included. Fog nearer than
    5 cm is left out, where 1 / r^2 has no meaning. Single scattering, valid while alpha R is not large against 1.
    """
    return SoftEchoShares.of(range_m, pulse_length_m, overlap).signal(extinction_per_m, backscatter_per_m_sr)


@dataclass(frozen=True, eq=False)
class SoftEchoShares:
    """What each stretch of fog adds to the signal at each range, before fog dims it: the same for any fog."""

    r: NDArray[np.float64]
    """Ranges of the stretches [m], those of each signal along the last axis."""
    share: NDArray[np.float64]
    """p(R - r) xi(r) / r^2 dr [1/m]."""

    def signal(self, extinction_per_m: float, backscatter_per_m_sr: float) -> NDArray[np.float64]:
        """The signal of even fog at each range, as `soft_echo` gives it."""
        alpha, beta = float(extinction_per_m), float(backscatter_per_m_sr)
        for name, value in (("extinction_per_m", alpha), ("backscatter_per_m_sr", beta)):
            if not (np.isfinite(value) and value >= 0.0):
                raise ConfigError(f"{name}: must be finite and 0 or more, got {value!r}")
        return np.asarray(beta * np.sum(self.share * np.exp(-2.0 * alpha * self.r), axis=-1))

    @classmethod
    def of(
        cls, range_m: ArrayLike, pulse_length_m: float, overlap: Callable[[NDArray[np.float64]], ArrayLike]
    ) -> SoftEchoShares:
        """Shares for signals at these ranges."""
        length = float(pulse_length_m)
        if not (np.isfinite(length) and length > 0.0):
            raise ConfigError(f"pulse_length_m: must be finite and above 0 m, got {length!r}")
        centre = np.asarray(range_m, dtype=np.float64)
        _check(centre, np.isfinite(centre) & (centre >= 0.0), "range_m", "finite and 0 m or more")
        low = np.maximum(centre - 0.5 * length, _NEAREST_M)
        # Where the pulse does not reach beyond 5 cm the interval is empty.
        high = np.maximum(centre + 0.5 * length, low)
        node, weight = np.polynomial.legendre.leggauss(_NODES)
        share = ((np.arange(_PANELS)[:, None] + 0.5 * (node + 1.0)) / _PANELS).ravel()
        weights = np.tile(0.5 * weight / _PANELS, _PANELS)
        # Even steps in ln r follow 1 / r^2 near the sensor; far away they are even steps in r.
        span = np.log(high / low)[..., None]
        r = low[..., None] * np.exp(span * share)
        offset = centre[..., None] - r
        pulse = pulse_shape(offset, length_m=length)
        # dr = r d(ln r), which takes one of the two r below the line.
        return cls(r, pulse * np.asarray(overlap(r)) / r * weights * span)


def _check(values: NDArray[np.float64], good: NDArray[np.bool_], name: str, allowed: str) -> None:
    if not np.all(good):
        raise ConfigError(f"{name}: must be {allowed}, got {values[~good].flat[0]:g}")
