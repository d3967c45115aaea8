"""Rain: its effect on light and radio waves, and its part of a weather.

The named models of extinction differ by a factor of about 27 at 10 mm/h and 47 at 100 mm/h, because they were fitted to
different sensors, ranges and kinds of rain. Choose one; never average them. The default `mie` is pure physics. For
radar: attenuation by ITU-R P.838, backscatter by Mie's theory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.deprecation import deprecated_method
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.random import to_normal, to_unit
from parhelion.core.water import water_permittivity
from parhelion.weather.media import (
    Amount,
    Cover,
    Effects,
    Light,
    Medium,
    MediumPart,
    Option,
    Particles,
    PulseLaw,
    Radio,
    RangeShift,
    Sky,
    Slider,
)
from parhelion.weather.mie import (
    DEFAULT_ACCEPTANCE_MRAD,
    differential_backscatter,
    efficiencies,
    large_sphere_extinction,
    mie_series,
)
from parhelion.weather.particles import DropSizes, checked_rate, extinction_of
from parhelion.weather.particles import drop_sizes as sizes_at
from parhelion.weather.parts import Cells, Schedule, bounds_of, name_of
from parhelion.weather.sound_loss import rain_loss_db_per_m

_PER_M_OF_DB_PER_KM = float(np.log(10.0)) / 1e4


class RainModel(NamedTuple):
    """Relation between rain rate and extinction."""

    extinction: Callable[[float, str, float], float]
    """(rate [mm/h], name of the drop sizes, wavelength [nm]) -> extinction [1/m]."""
    source: str


def geometric_extinction(sizes: DropSizes, q_ext: float = 2.0) -> float:
    """Extinction [1/m] of drops with efficiency `q_ext` (2 in the limit of short waves)."""
    return extinction_of(sizes, lambda d: np.full_like(d, q_ext))


def mie_extinction(rate_mm_h: float, drop_sizes: str, wavelength_nm: float) -> float:
    """Extinction [1/m] of round drops, from Mie's Q_ext in its form for large spheres (x > 60 for all drops here)."""
    sizes = sizes_at(drop_sizes, rate_mm_h)
    return extinction_of(sizes, lambda d: large_sphere_extinction(d, wavelength_nm))


def vane_extinction(rate_mm_h: Reals) -> Reals:
    """Extinction 0.003 R [1/m], R [mm/h], fitted to an automotive lidar up to 30 mm/h; NumPy or Dr.Jit arrays."""
    return 0.003 * rate_mm_h


def vane_pulse_extinction(extinction_per_m: Reals, uniform: Reals) -> Reals:
    """VANE's extinction of one pulse: that of the rate times a factor uniform in (0.5, 1); `uniform` is in (0, 1)."""
    return extinction_per_m * (0.5 + 0.5 * uniform)


def vane_range(range_m: Reals, uniform: Reals) -> Reals:
    """VANE's range of an echo in rain: the true range times a factor uniform in (0.99, 1.01); `uniform` in (0, 1)."""
    return range_m * (0.99 + 0.02 * uniform)


def goodin2019_extinction(rate_mm_h: Reals) -> Reals:
    """Extinction 0.01 R^0.6 [1/m], R [mm/h]; NumPy or Dr.Jit arrays."""
    return 0.01 * namespace(rate_mm_h).power(rate_mm_h, 0.6)


def goodin2019_range_sigma(range_m: Reals, rate_mm_h: Reals) -> Reals:
    """Standard deviation of range [m] in rain: 0.02 d (1 - exp(-R))^2; NumPy or Dr.Jit arrays.

    It reaches 2 % of the range at a few mm/h, where Filgueira et al. (2017) measured shifts below 20 cm.
    """
    rise = 1.0 - namespace(rate_mm_h, range_m).exp(-rate_mm_h)
    return 0.02 * range_m * rise * rise


def ulbrich_atlas_extinction(rate_mm_h: Reals) -> Reals:
    """Extinction 1.45 R^0.64 dB/km, converted to [1/m], R [mm/h]; NumPy or Dr.Jit arrays."""
    return 1.45 * _PER_M_OF_DB_PER_KM * namespace(rate_mm_h).power(rate_mm_h, 0.64)


_GUO_RATE_MM_H = np.array([5.0, 12.5, 25.0, 100.0])
_GUO_PER_M = np.array([1.32e-3, 2.44e-3, 3.87e-3, 9.91e-3])


def guo2015_extinction(rate_mm_h: ArrayLike) -> NDArray[np.float64]:
    """Extinction [1/m] from Guo's table at 5, 12.5, 25 and 100 mm/h, linear in log-log in between and beyond."""
    rate = np.asarray(rate_mm_h, dtype=np.float64)
    at, value = np.log(_GUO_RATE_MM_H), np.log(_GUO_PER_M)
    slope = np.diff(value) / np.diff(at)
    log_rate = np.log(np.where(rate > 0.0, rate, 1.0))
    row = np.clip(np.searchsorted(at, log_rate) - 1, 0, slope.size - 1)
    return np.where(rate > 0.0, np.exp(value[row] + slope[row] * (log_rate - at[row])), 0.0)


def _by_rate(law: Callable[[float], Any]) -> Callable[[float, str, float], float]:
    """Model that does not depend on drop sizes and wavelength."""
    return lambda rate, _sizes, _wavelength: float(law(rate))


RAIN_MODELS: dict[str, RainModel] = {
    "mie": RainModel(mie_extinction, "Mie's theory, integrated over the drop sizes"),
    "vane": RainModel(
        _by_rate(vane_extinction), "VANE (ERDC/GSL TR-20-32, 2020), equation 6.10, fitted to Rasshofer et al. 2011"
    ),
    "goodin2019": RainModel(
        _by_rate(goodin2019_extinction), "Goodin et al. 2019, as in Cosys-AirSim (Jansen et al. 2023)"
    ),
    "guo2015": RainModel(_by_rate(guo2015_extinction), "Guo et al. 2015, as tabled by Arce 2025 (Table 3.2)"),
    "ulbrich-atlas": RainModel(_by_rate(ulbrich_atlas_extinction), "Ulbrich and Atlas 1985, 1.45 R^0.64 dB/km"),
}
"""Models of extinction by name. Only `mie` depends on drop sizes and wavelength."""


def rain_extinction(
    rate_mm_h: float, model: str = "mie", drop_sizes: str = "marshall-palmer", wavelength_nm: float = 905.0
) -> float:
    """One-way extinction [1/m] at a rain rate; exactly 0 at rate 0."""
    if model not in RAIN_MODELS:
        raise unknown_name("rain model", model, RAIN_MODELS)
    rate = checked_rate(rate_mm_h)
    # Evaluated at rate 0 as well, so that a wrong name or wavelength is reported.
    extinction = RAIN_MODELS[model].extinction(rate, drop_sizes, wavelength_nm)
    return extinction if rate > 0.0 else 0.0


def drop_backscatter(
    diameter_mm: ArrayLike, wavelength_nm: float = 905.0, acceptance_mrad: float = DEFAULT_ACCEPTANCE_MRAD
) -> NDArray[np.float64]:
    """Backscatter of a water drop of 0.05 to 10 mm [m^2/sr], as a mean over similar drops (see `mie`)."""
    d = np.asarray(diameter_mm, dtype=np.float64)
    _, q_back = efficiencies(d, wavelength_nm, acceptance_mrad=acceptance_mrad)
    return np.asarray(differential_backscatter(d, q_back))


def drop_cross_section(diameter_mm: ArrayLike, q_ext: float = 2.0) -> NDArray[np.float64]:
    """Extinction cross section of a drop [m^2]: Q_ext pi D^2 / 4, with Q_ext of large spheres."""
    d = np.asarray(diameter_mm, dtype=np.float64)
    return np.asarray(q_ext * (np.pi / 4.0 * 1e-6) * d * d)


def range_in_extinction(clear_range_m: float, extinction_per_m: float) -> float:
    """Longest range [m] of a target that is just detected at `clear_range_m` in clear air: R exp(alpha R) = R_clear.

    R = W(alpha R_clear) / alpha with Lambert's W; power falls as exp(-2 alpha R) / R^2.
    """
    if not (np.isfinite(clear_range_m) and clear_range_m > 0.0):
        raise ConfigError(f"clear_range_m: must be finite and above 0 m, got {clear_range_m!r}")
    if not (np.isfinite(extinction_per_m) and extinction_per_m >= 0.0):
        raise ConfigError(f"extinction_per_m: must be finite and 0 /m or more, got {extinction_per_m!r}")
    from scipy.special import lambertw

    depth = extinction_per_m * clear_range_m
    # For small arguments, W(x) / x is 1 - x, which avoids 0 / 0.
    return float(clear_range_m * (np.real(lambertw(depth)) / depth if depth > 1e-12 else 1.0 - depth))


def vane_longest_range(rate_mm_h: float, clear_range_m: float) -> float:
    """Longest range [m] of an echo in VANE's rain, for the pulse of least extinction: half that of the rate.

    For a board facing the sensor that is just detected at `clear_range_m` in clear air.
    """
    alpha = float(cast(float, vane_extinction(checked_rate(rate_mm_h))))
    return range_in_extinction(clear_range_m, float(cast(float, vane_pulse_extinction(alpha, 0.0))))


EXTINCTION_WITH_FORWARD_LIGHT = 0.55
"""Factor on extinction if the receiver collects the light that drops diffract: Q_ext of about 1.1 instead of 2.

Half of the extinction of a large drop is diffraction within about lambda / D, 1 mrad for a drop of 1 mm, and most of
that light still reaches a receiver with a field of view of a few mrad. A tenth is assumed to be lost.
"""
LARGEST_RANGE_SHIFT_M = 0.1


def rain_range_shift(optical_depth: Reals) -> Reals:
    """Apparent increase [m] of the range of a surface in rain: 0.1 m (1 - exp(-tau)), tau the one-way optical depth.

    Proportional to the number of drops while they are few, and bounded: in real rain the shift stays below 0.2 m
    (Filgueira et al. 2017). The factor is assumed; the delay of light by one forward scattering is below 0.1 mm.
    NumPy or Dr.Jit arrays.
    """
    return LARGEST_RANGE_SHIFT_M * (1.0 - namespace(optical_depth).exp(-optical_depth))


# Recommendation ITU-R P.838-3 (03/2005), tables 1 to 4: rows of a_j, b_j, c_j, then m and c.
_K_H = (
    (
        (-5.33980, -0.10008, 1.13098),
        (-0.35351, 1.26970, 0.45400),
        (-0.23789, 0.86036, 0.15354),
        (-0.94158, 0.64552, 0.16817),
    ),
    -0.18961,
    0.71147,
)
_K_V = (
    (
        (-3.80595, 0.56934, 0.81061),
        (-3.44965, -0.22911, 0.51059),
        (-0.39902, 0.73042, 0.11899),
        (0.50167, 1.07319, 0.27195),
    ),
    -0.16398,
    0.63297,
)
_A_H = (
    (
        (-0.14318, 1.82442, -0.55187),
        (0.29591, 0.77564, 0.19822),
        (0.32177, 0.63773, 0.13164),
        (-5.37610, -0.96230, 1.47828),
        (16.1721, -3.29980, 3.43990),
    ),
    0.67849,
    -1.95537,
)
_A_V = (
    (
        (-0.07771, 2.33840, -0.76284),
        (0.56727, 0.95545, 0.54039),
        (-0.20238, 1.14520, 0.26809),
        (-48.2991, 0.791669, 0.116226),
        (48.5833, 0.791459, 0.116479),
    ),
    -0.053739,
    0.83433,
)


def _sum(table: tuple[tuple[tuple[float, float, float], ...], float, float], log_f: NDArray[np.float64]) -> ArrayLike:
    terms, slope, constant = table
    found = slope * log_f + constant
    for a, b, c in terms:
        found = found + a * np.exp(-(((log_f - b) / c) ** 2))
    return np.asarray(found)


def rain_coefficients(frequency_hz: ArrayLike) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """k and alpha of gamma = k R^alpha [dB/km, R in mm/h], mean of both polarisations; 1 to 1000 GHz (P.838-3)."""
    ghz = np.asarray(frequency_hz, np.float64) / 1e9
    if np.any((ghz < 1.0) | (ghz > 1000.0)):
        raise ConfigError("rain: ITU-R P.838 has coefficients for 1 to 1000 GHz")
    log_f = np.log10(ghz)
    k_h, k_v = 10.0 ** np.asarray(_sum(_K_H, log_f)), 10.0 ** np.asarray(_sum(_K_V, log_f))
    a_h, a_v = np.asarray(_sum(_A_H, log_f)), np.asarray(_sum(_A_V, log_f))
    # Equations 4 and 5 at a tilt of 45 degrees, where both polarisations have equal weight.
    k = 0.5 * (k_h + k_v)
    return k, (k_h * a_h + k_v * a_v) / (2.0 * k)


def rain_attenuation_db_per_km(frequency_hz: ArrayLike, rate_mm_h: ArrayLike) -> NDArray[np.float64]:
    """One-way loss in rain [dB/km] (ITU-R P.838-3)."""
    k, alpha = rain_coefficients(frequency_hz)
    return np.asarray(k * np.asarray(rate_mm_h, np.float64) ** alpha)


@lru_cache(maxsize=64)
def rain_reflectivity(frequency_hz: float, rate_mm_h: float) -> float:
    """Backscatter cross section of rain [m^2/m^3]: Marshall-Palmer drops, Mie's theory, water at 15 C."""
    if rate_mm_h <= 0.0:
        return 0.0
    # Mie's series is written for exp(-i w t), where losses are positive.
    index = complex(np.sqrt(np.conj(water_permittivity(frequency_hz))))
    wavelength_mm = 1e3 * SPEED_OF_LIGHT_M_S / frequency_hz

    def weight(diameter_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.pi * diameter_mm / wavelength_mm
        back = mie_series(index, np.maximum(x, 0.05), np.zeros(1))[1][0]
        # Smaller drops are in the Rayleigh regime, where the efficiency scales with x^4.
        back = back * np.minimum(x / 0.05, 1.0) ** 4
        return np.asarray(back * np.pi * (0.5e-3 * diameter_mm) ** 2)

    return sizes_at("marshall-palmer", rate_mm_h).integrate(weight)


# ---- rain in camera images -----------------------------------------------------------------------------------------

RAIN_CLOUD = 30.0
"""Optical depth of the rain cloud. Nimbostratus has 23 and more in the classes of the ISCCP (Rossow and Schiffer 1999);
the value is assumed."""
FULL_CLOUD_RATE_MM_H = 0.5
"""Rate from which the sky is overcast; below it, the optical depth is proportional to the rate."""
DROP_BRIGHTNESS = 0.94
"""Radiance of a drop relative to the mean of its refracted field of 165 degrees (Garg and Nayar 2007)."""
DROP_EDGES_MM = (0.5, 1.0, 1.5, 2.2, 3.2, 10.0)
"""Size classes of drops. Smaller drops fall at less than 2 m/s and are practically invisible individually."""


def drops_per_m3(rain_rate_mm_h: Any) -> Any:
    """Number of drops per cubic metre: 172 R^0.22; NumPy or Dr.Jit arrays."""
    return 172.0 * namespace(rain_rate_mm_h).power(rain_rate_mm_h, 0.22)


def drop_diameter(rain_rate_mm_h: Any) -> Any:
    """Geometric mean diameter of drops [m]: 0.75e-3 R^0.21; NumPy or Dr.Jit arrays."""
    return 0.75e-3 * namespace(rain_rate_mm_h).power(rain_rate_mm_h, 0.21)


def terminal_velocity(diameter_m: Any) -> Any:
    """Fall speed of drops in still air [m/s]: 3.1654 ln D + 26.006, D [m]; NumPy or Dr.Jit arrays.

    Within 10 % of Gunn and Kinzer's measurements from 0.5 to 5 mm. Below 0.27 mm, where the formula is negative, it is
    0.
    """
    xp = namespace(diameter_m)
    return xp.maximum(3.1654 * xp.log(diameter_m) + 26.006, 0.0)


# ---- the medium ----------------------------------------------------------------------------------------------------

ModelName = Literal["mie", "vane", "goodin2019", "guo2015", "ulbrich-atlas"]
DropSizeName = Literal["marshall-palmer", "feingold-levin", "deirmendjian"]
ForwardLight = Literal["lost", "collected"]
ShiftName = Literal["none", "filgueira2017"]

RATE = Amount(
    "rate_mm_h",
    "rain_rate_mm_h",
    "--rain",
    "MM_H",
    "Rain rate, 0 to 500 mm/h.",
    "mm/h",
    0.0,
    500.0,
    Slider(100.0, 0.5, hint="drizzle 1, steady rain 5, cloudburst 50 and more"),
)


class Rain(MediumPart):
    """Rain of a given rate.

    >>> ph.Weather(rain=ph.Rain(rate_mm_h=25, model="goodin2019"))
    <Weather rain 25 mm/h>
    """

    rate_mm_h: Annotated[Schedule, RATE.check]
    """Rain rate [mm/h], 0 to 500."""
    drop_sizes: Annotated[DropSizeName, name_of(get_args(DropSizeName))] = "marshall-palmer"
    """Distribution of drop sizes."""
    model: Annotated[ModelName, name_of(get_args(ModelName))] = "mie"
    """Model of extinction by rate. At one rate, the models differ by large factors."""
    heterogeneity: Cells | None = None
    """Cells of stronger and weaker rain; None means uniform rain."""
    forward_light: Annotated[ForwardLight, name_of(get_args(ForwardLight))] = "lost"
    """Treatment of light that drops diffract by less than about 1 mrad, half of their extinction: `lost`, or
    `collected` by the receiver."""
    range_shift: Annotated[ShiftName, name_of(get_args(ShiftName))] = "none"
    """Apparent increase of the range of surfaces: `none`, or `filgueira2017` (up to 0.1 m)."""

    renamed: ClassVar[Mapping[str, str]] = {"cells": "heterogeneity"}
    cells: ClassVar[Any] = deprecated_method("cells", "heterogeneity")


def vane_shift(range_m: Reals, words: Any, rate_mm_h: Reals, extinction_per_m: Reals) -> Reals:
    """Range by VANE's law."""
    return vane_range(range_m, to_unit(words[0]))


def goodin2019_shift(range_m: Reals, words: Any, rate_mm_h: Reals, extinction_per_m: Reals) -> Reals:
    """Range by the law of Goodin et al. 2019."""
    return range_m + goodin2019_range_sigma(range_m, rate_mm_h) * to_normal(words[0], words[1])[0]


def filgueira2017_shift(range_m: Reals, words: Any, rate_mm_h: Reals, extinction_per_m: Reals) -> Reals:
    """Range by the shift of Filgueira et al. 2017."""
    return range_m + rain_range_shift(extinction_per_m * range_m)


_SHIFTS = {"vane": vane_shift, "goodin2019": goodin2019_shift, "filgueira2017": filgueira2017_shift}


@lru_cache(maxsize=256)
def _extinction(rate_mm_h: float, model: str, drop_sizes: str, wavelength_nm: float) -> float:
    return float(rain_extinction(rate_mm_h, model=model, drop_sizes=drop_sizes, wavelength_nm=wavelength_nm))


def _cross_section(diameter_mm: NDArray[Any], wavelength_nm: float) -> NDArray[Any]:
    return drop_cross_section(diameter_mm)


def _diameter_m(diameter_mm: Any) -> Any:
    return 1e-3 * diameter_mm


class RainEffects(Effects):
    """Effects of rain."""

    flat = True

    def light(self, part: Rain, amount: float, wavelength_nm: float) -> Light:
        """Extinction by the part's model."""
        extinction = _extinction(amount, part.model, part.drop_sizes, wavelength_nm)
        if part.forward_light == "collected":
            extinction *= EXTINCTION_WITH_FORWARD_LIGHT
        return Light(extinction)

    def per_pulse(self, part: Rain) -> PulseLaw | None:
        """VANE's extinction varies from pulse to pulse."""
        return vane_pulse_extinction if part.model == "vane" else None

    def particles(self, part: Rain, amount: float) -> Particles | None:
        """Drops."""
        return Particles(
            sizes_at(part.drop_sizes, amount),
            drop_backscatter,
            _cross_section,
            _diameter_m,
            terminal_velocity,
            DROP_EDGES_MM,
            5.0,
            brightness=DROP_BRIGHTNESS,
            vane=(float(drops_per_m3(amount)), float(drop_diameter(amount))),
        )

    def range_shift(self, part: Rain, amount: float, extinction_per_m: float) -> RangeShift | None:
        """Range shift; those of VANE and Goodin 2019 belong to their models of extinction."""
        law = _SHIFTS.get(part.model) or _SHIFTS.get(part.range_shift)
        return None if law is None else RangeShift(law, amount, extinction_per_m)

    def sky(self, part: Rain, amount: float) -> Sky:
        """Rain cloud."""
        return Sky(RAIN_CLOUD * min(amount / FULL_CLOUD_RATE_MM_H, 1.0))

    def cover(self, part: Rain) -> Cover | None:
        """Wet surfaces, if it rains at any time."""
        return Cover(wets=True) if bounds_of(part.rate_mm_h)[1] > 0.0 else None

    def sound(self, part: Rain, amount: float, frequency_hz: float) -> float:
        """Scattering by drops."""
        return rain_loss_db_per_m(float(amount), frequency_hz)

    def radio(self, part: Rain, amount: float, frequency_hz: float) -> Radio | None:
        """Attenuation and backscatter."""
        loss = float(rain_attenuation_db_per_km(frequency_hz, amount))
        return Radio(loss, rain_reflectivity(frequency_hz, float(amount)))


RAIN = Medium(
    "rain",
    1,
    "Rain",
    "#3f9dff",
    Rain,
    RATE,
    RainEffects(),
    first_draw=5000,
    options=(
        Option(
            "--rain-model",
            "model",
            "Extinction of rain: mie (the default), vane, goodin2019, guo2015, ulbrich-atlas.",
            get_args(ModelName),
        ),
    ),
)
