"""What rain takes from a beam of light.

The named models of extinction differ at one rain rate by about 27 times at 10 mm/h and 47 times at 100 mm/h, because
they were fitted to other sensors, ranges and kinds of rain. Choose one; never average them. `mie` is physics alone and
the default.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.weather.drop_sizes import DropSizes, checked_rate, extinction_of
from parhelion.weather.drop_sizes import drop_sizes as sizes_at
from parhelion.weather.mie import (
    USUAL_ACCEPTANCE_MRAD,
    differential_backscatter,
    efficiencies,
    large_sphere_extinction,
)

_PER_M_OF_DB_PER_KM = float(np.log(10.0)) / 1e4


class RainModel(NamedTuple):
    """A way to get extinction from the rain rate."""

    extinction: Callable[[float, str, float], float]
    """(rate [mm/h], name of the drop sizes, wavelength [nm]) -> extinction [1/m]."""
    source: str


def geometric_extinction(sizes: DropSizes, q_ext: float = 2.0) -> float:
    """Extinction [1/m] where every drop takes away `q_ext` times its shadow (2 in the limit of short waves)."""
    return extinction_of(sizes, lambda d: np.full_like(d, q_ext))


def mie_extinction(rate_mm_h: float, drop_sizes: str, wavelength_nm: float) -> float:
    """Extinction [1/m] of round drops, from Mie's Q_ext in its form for large spheres (x > 60 for all drops here)."""
    sizes = sizes_at(drop_sizes, rate_mm_h)
    return extinction_of(sizes, lambda d: large_sphere_extinction(d, wavelength_nm))


def vane_extinction(rate_mm_h: Reals) -> Reals:
    """0.003 R [1/m], R [mm/h]; arrays of either kind. Fitted to ranges of an automotive lidar up to 30 mm/h."""
    return 0.003 * rate_mm_h


def vane_pulse_extinction(extinction_per_m: Reals, uniform: Reals) -> Reals:
    """VANE's extinction of one pulse: the rate's times a factor even in (0.5, 1); `uniform` in (0, 1)."""
    return extinction_per_m * (0.5 + 0.5 * uniform)


def vane_range(range_m: Reals, uniform: Reals) -> Reals:
    """VANE's range of an echo in rain: the true one times a factor even in (0.99, 1.01); `uniform` in (0, 1)."""
    return range_m * (0.99 + 0.02 * uniform)


def goodin2019_extinction(rate_mm_h: Reals) -> Reals:
    """0.01 R^0.6 [1/m], R [mm/h]; arrays of either kind."""
    return 0.01 * namespace(rate_mm_h).power(rate_mm_h, 0.6)


def goodin2019_range_sigma(range_m: Reals, rate_mm_h: Reals) -> Reals:
    """Standard deviation of range [m] in rain: 0.02 d (1 - exp(-R))^2; arrays of either kind.

    It reaches 2 % of the range at a few mm/h, where Filgueira et al. (2017) measured shifts below 20 cm.
    """
    rise = 1.0 - namespace(rate_mm_h, range_m).exp(-rate_mm_h)
    return 0.02 * range_m * rise * rise


def ulbrich_atlas_extinction(rate_mm_h: Reals) -> Reals:
    """1.45 R^0.64 dB/km as [1/m], R [mm/h]; arrays of either kind."""
    return 1.45 * _PER_M_OF_DB_PER_KM * namespace(rate_mm_h).power(rate_mm_h, 0.64)


_GUO_RATE_MM_H = np.array([5.0, 12.5, 25.0, 100.0])
_GUO_PER_M = np.array([1.32e-3, 2.44e-3, 3.87e-3, 9.91e-3])


def guo2015_extinction(rate_mm_h: ArrayLike) -> NDArray[np.float64]:
    """Guo's table [1/m] at 5, 12.5, 25 and 100 mm/h, straight lines in log-log between and beyond."""
    rate = np.asarray(rate_mm_h, dtype=np.float64)
    at, value = np.log(_GUO_RATE_MM_H), np.log(_GUO_PER_M)
    slope = np.diff(value) / np.diff(at)
    log_rate = np.log(np.where(rate > 0.0, rate, 1.0))
    row = np.clip(np.searchsorted(at, log_rate) - 1, 0, slope.size - 1)
    return np.where(rate > 0.0, np.exp(value[row] + slope[row] * (log_rate - at[row])), 0.0)


RAIN_MODELS: dict[str, RainModel] = {
    "mie": RainModel(mie_extinction, "Mie's theory, integrated over the drop sizes"),
    "vane": RainModel(
        lambda rate, _sizes, _wavelength: float(vane_extinction(rate)),
        "VANE (ERDC/GSL TR-20-32, 2020), equation 6.10, fitted to Rasshofer et al. 2011",
    ),
    "goodin2019": RainModel(
        lambda rate, _sizes, _wavelength: float(goodin2019_extinction(rate)),
        "Goodin et al. 2019, as in Cosys-AirSim (Jansen et al. 2023)",
    ),
    "guo2015": RainModel(
        lambda rate, _sizes, _wavelength: float(guo2015_extinction(rate)),
        "Guo et al. 2015, as tabled by Arce 2025 (Table 3.2)",
    ),
    "ulbrich-atlas": RainModel(
        lambda rate, _sizes, _wavelength: float(ulbrich_atlas_extinction(rate)),
        "Ulbrich and Atlas 1985, 1.45 R^0.64 dB/km",
    ),
}
"""Models of extinction by name. All but `mie` disregard drop sizes and wavelength."""


def rain_extinction(
    rate_mm_h: float, model: str = "mie", drop_sizes: str = "marshall-palmer", wavelength_nm: float = 905.0
) -> float:
    """One-way extinction [1/m] at a rain rate; exactly 0 at rate 0."""
    if model not in RAIN_MODELS:
        raise unknown_name("rain model", model, RAIN_MODELS)
    rate = checked_rate(rate_mm_h)
    # At rate 0 too, so that a wrong name or wavelength is told.
    extinction = RAIN_MODELS[model].extinction(rate, drop_sizes, wavelength_nm)
    return extinction if rate > 0.0 else 0.0


def drop_backscatter(
    diameter_mm: ArrayLike, wavelength_nm: float = 905.0, acceptance_mrad: float = USUAL_ACCEPTANCE_MRAD
) -> NDArray[np.float64]:
    """What a water drop of 0.05 to 10 mm sends back to a lidar [m^2/sr], as a mean over alike drops (see `mie`)."""
    d = np.asarray(diameter_mm, dtype=np.float64)
    _, q_back = efficiencies(d, wavelength_nm, acceptance_mrad=acceptance_mrad)
    return np.asarray(differential_backscatter(d, q_back))


def drop_cross_section(diameter_mm: ArrayLike, q_ext: float = 2.0) -> NDArray[np.float64]:
    """What a drop takes from a beam [m^2]: Q_ext pi D^2 / 4, with Q_ext of large spheres."""
    d = np.asarray(diameter_mm, dtype=np.float64)
    return np.asarray(q_ext * (np.pi / 4.0 * 1e-6) * d * d)


def range_in_extinction(clear_range_m: float, extinction_per_m: float) -> float:
    """How far a target is seen that is just seen at `clear_range_m` in clear air: R exp(alpha R) = R_clear.

    R = W(alpha R_clear) / alpha with Lambert's W; power falls as exp(-2 alpha R) / R^2.
    """
    if not (np.isfinite(clear_range_m) and clear_range_m > 0.0):
        raise ConfigError(f"clear_range_m: must be finite and above 0 m, got {clear_range_m!r}")
    if not (np.isfinite(extinction_per_m) and extinction_per_m >= 0.0):
        raise ConfigError(f"extinction_per_m: must be finite and 0 /m or more, got {extinction_per_m!r}")
    from scipy.special import lambertw

    depth = extinction_per_m * clear_range_m
    # For small arguments W(x) / x is 1 - x, and 0 / 0 is kept away.
    return float(clear_range_m * (np.real(lambertw(depth)) / depth if depth > 1e-12 else 1.0 - depth))


def vane_longest_range(rate_mm_h: float, clear_range_m: float) -> float:
    """Longest range [m] at which VANE's rain leaves an echo: that of its luckiest pulse, with half the extinction.

    For one board facing the sensor that is just seen at `clear_range_m` in clear air.
    """
    alpha = float(vane_extinction(checked_rate(rate_mm_h)))
    return range_in_extinction(clear_range_m, float(vane_pulse_extinction(alpha, 0.0)))


EXTINCTION_WITH_FORWARD_LIGHT = 0.55
"""Extinction that is left where the light that drops diffract is collected: Q_ext of about 1.1 in place of 2.

Half of what a large drop takes is diffracted within about lambda / D, 1 mrad for a drop of 1 mm, and most of that still
reaches a receiver whose field of view is a few mrad. A tenth is taken to be lost all the same.
"""
LARGEST_RANGE_SHIFT_M = 0.1


def rain_range_shift(optical_depth: Reals) -> Reals:
    """How much farther [m] a surface seems through rain: 0.1 m (1 - exp(-tau)), tau that of the rain, one way.

    In proportion to the drops met while they are few, and bounded: in real rain the shift stays below 0.2 m
    (Filgueira et al. 2017). The factor is assumed; light that one forward scattering delays gives less than 0.1 mm.
    Arrays of either kind.
    """
    return LARGEST_RANGE_SHIFT_M * (1.0 - namespace(optical_depth).exp(-optical_depth))
