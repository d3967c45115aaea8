"""Rain: its effect on light and radio waves, and its part of a weather.

The named models of extinction differ at one rain rate by about 27 times at 10 mm/h and 47 times at 100 mm/h, because
they were fitted to other sensors, ranges and kinds of rain. Choose one; never average them. `mie` is physics alone and
the default. For radar: attenuation by ITU-R P.838, backscatter by Mie's theory.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, get_args

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


def _by_rate(law: Callable[[float], Any]) -> Callable[[float, str, float], float]:
    """A model that disregards drop sizes and wavelength."""
    return lambda rate, _sizes, _wavelength: float(law(rate))


RAIN_MODELS: dict[str, RainModel] = {
    "mie": RainModel(mie_extinction, "Mie's theory, integrated over the drop sizes"),
    "vane": RainModel(
        _by_rate(vane_extinction),
        "VANE (ERDC/GSL TR-20-32, 2020), equation 6.10, fitted to Rasshofer et al. 2011",
    ),
    "goodin2019": RainModel(
        _by_rate(goodin2019_extinction),
        "Goodin et al. 2019, as in Cosys-AirSim (Jansen et al. 2023)",
    ),
    "guo2015": RainModel(_by_rate(guo2015_extinction), "Guo et al. 2015, as tabled by Arce 2025 (Table 3.2)"),
    "ulbrich-atlas": RainModel(_by_rate(ulbrich_atlas_extinction), "Ulbrich and Atlas 1985, 1.45 R^0.64 dB/km"),
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
    diameter_mm: ArrayLike, wavelength_nm: float = 905.0, acceptance_mrad: float = DEFAULT_ACCEPTANCE_MRAD
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
    """Longest range [m] at which VANE's rain leaves an echo, by the pulse of least extinction: half that of the rate.

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


# Recommendation ITU-R P.838-3 (03/2005), tables 1 to 4: rows of a_j, b_j, c_j, then m and c.
_K_H = (((-5.33980, -0.10008, 1.13098), (-0.35351, 1.26970, 0.45400), (-0.23789, 0.86036, 0.15354),
         (-0.94158, 0.64552, 0.16817)), -0.18961, 0.71147)  # fmt: skip
_K_V = (((-3.80595, 0.56934, 0.81061), (-3.44965, -0.22911, 0.51059), (-0.39902, 0.73042, 0.11899),
         (0.50167, 1.07319, 0.27195)), -0.16398, 0.63297)  # fmt: skip
_A_H = (((-0.14318, 1.82442, -0.55187), (0.29591, 0.77564, 0.19822), (0.32177, 0.63773, 0.13164),
         (-5.37610, -0.96230, 1.47828), (16.1721, -3.29980, 3.43990)), 0.67849, -1.95537)  # fmt: skip
_A_V = (((-0.07771, 2.33840, -0.76284), (0.56727, 0.95545, 0.54039), (-0.20238, 1.14520, 0.26809),
         (-48.2991, 0.791669, 0.116226), (48.5833, 0.791459, 0.116479)), -0.053739, 0.83433)  # fmt: skip


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
    # Equations 4 and 5 at 45 degrees of tilt, where horizontal and vertical count alike.
    k = 0.5 * (k_h + k_v)
    return k, (k_h * a_h + k_v * a_v) / (2.0 * k)


def rain_attenuation_db_per_km(frequency_hz: ArrayLike, rate_mm_h: ArrayLike) -> NDArray[np.float64]:
    """Loss along one way through rain [dB/km] (ITU-R P.838-3)."""
    k, alpha = rain_coefficients(frequency_hz)
    return np.asarray(k * np.asarray(rate_mm_h, np.float64) ** alpha)


@lru_cache(maxsize=64)
def rain_reflectivity(frequency_hz: float, rate_mm_h: float) -> float:
    """Backscatter cross-section of rain [m^2/m^3]: drops of Marshall and Palmer, Mie's theory, water at 15 C."""
    if rate_mm_h <= 0.0:
        return 0.0
    # Mie's series is written for exp(-i w t), where losses are positive.
    index = complex(np.sqrt(np.conj(water_permittivity(frequency_hz))))
    wavelength_mm = 1e3 * SPEED_OF_LIGHT_M_S / frequency_hz

    def weight(diameter_mm: NDArray[np.float64]) -> NDArray[np.float64]:
        x = np.pi * diameter_mm / wavelength_mm
        back = mie_series(index, np.maximum(x, 0.05), np.zeros(1))[1][0]
        # Smaller ones are Rayleigh's, whose efficiency goes with x^4.
        back = back * np.minimum(x / 0.05, 1.0) ** 4
        return np.asarray(back * np.pi * (0.5e-3 * diameter_mm) ** 2)

    return sizes_at("marshall-palmer", rate_mm_h).integrate(weight)


# ---- in the air before a camera -----------------------------------------------------------------------------------

RAIN_CLOUD = 30.0
"""Optical depth of the cloud that rain falls from. Nimbostratus is 23 and more in the classes of the ISCCP (Rossow and
Schiffer 1999); the number is assumed."""
FULL_CLOUD_RATE_MM_H = 0.5
"""From this rate on the sky is closed; below, the optical depth grows in proportion."""
DROP_BRIGHTNESS = 0.94
"""Radiance of a drop over the mean of what it refracts, a field of 165 degrees (Garg and Nayar 2007)."""
DROP_EDGES_MM = (0.5, 1.0, 1.5, 2.2, 3.2, 10.0)
"""Classes of drops. Smaller ones fall at less than 2 m/s and are practically invisible one by one."""


def drops_per_m3(rain_rate_mm_h: Any) -> Any:
    """Drops in a cubic metre: 172 R^0.22; arrays of either kind."""
    return 172.0 * namespace(rain_rate_mm_h).power(rain_rate_mm_h, 0.22)


def drop_diameter(rain_rate_mm_h: Any) -> Any:
    """Geometric mean diameter of drops [m]: 0.75e-3 R^0.21; arrays of either kind."""
    return 0.75e-3 * namespace(rain_rate_mm_h).power(rain_rate_mm_h, 0.21)


def terminal_velocity(diameter_m: Any) -> Any:
    """Fall speed of drops in still air [m/s]: 3.1654 ln D + 26.006, D [m]; arrays of either kind.

    Within 10 % of Gunn and Kinzer's measurements from 0.5 to 5 mm. Below 0.27 mm the formula would be negative, and 0
    is given.
    """
    xp = namespace(diameter_m)
    return xp.maximum(3.1654 * xp.log(diameter_m) + 26.006, 0.0)


# ---- the medium ----------------------------------------------------------------------------------------------------

ModelName = Literal["mie", "vane", "goodin2019", "guo2015", "ulbrich-atlas"]
DropSizeName = Literal["marshall-palmer", "feingold-levin", "deirmendjian"]
ForwardLight = Literal["lost", "collected"]
ShiftName = Literal["none", "filgueira2017"]

RATE = Amount(
    "rate_mm_h", "rain_rate_mm_h", "--rain", "MM_H", "Rain rate, 0 to 500 mm/h.", "mm/h", 0.0, 500.0,
    Slider(100.0, 0.5, hint="drizzle 1, steady rain 5, cloudburst 50 and more"),
)  # fmt: skip


class Rain(MediumPart):
    """Rain of a given rate."""

    rate_mm_h: Annotated[Schedule, RATE.check]
    """Rain rate [mm/h], 0 to 500."""
    drop_sizes: Annotated[DropSizeName, name_of(get_args(DropSizeName))] = "marshall-palmer"
    """Distribution of drop sizes."""
    model: Annotated[ModelName, name_of(get_args(ModelName))] = "mie"
    """How extinction follows from the rate. The models differ many times over at one rate."""
    heterogeneity: Cells | None = None
    """Cells of stronger and weaker rain; None is the same everywhere."""
    forward_light: Annotated[ForwardLight, name_of(get_args(ForwardLight))] = "lost"
    """Whether the light that drops bend by less than about 1 mrad counts as lost, as extinction does, or is still
    `collected` by the receiver: half of what a drop takes from a beam is bent so little."""
    range_shift: Annotated[ShiftName, name_of(get_args(ShiftName))] = "none"
    """Whether rain lets surfaces appear farther away: `none`, or `filgueira2017`, up to 0.1 m."""

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
            sizes_at(part.drop_sizes, amount), drop_backscatter, _cross_section, _diameter_m, terminal_velocity,
            DROP_EDGES_MM, 5.0, brightness=DROP_BRIGHTNESS,
            vane=(float(drops_per_m3(amount)), float(drop_diameter(amount))),
        )  # fmt: skip

    def range_shift(self, part: Rain, amount: float, extinction_per_m: float) -> RangeShift | None:
        """Those of VANE and Goodin 2019 belong to their models of extinction."""
        law = _SHIFTS.get(part.model) or _SHIFTS.get(part.range_shift)
        return None if law is None else RangeShift(law, amount, extinction_per_m)

    def sky(self, part: Rain, amount: float) -> Sky:
        """The cloud that it falls from."""
        return Sky(RAIN_CLOUD * min(amount / FULL_CLOUD_RATE_MM_H, 1.0))

    def cover(self, part: Rain) -> Cover | None:
        """It wets surfaces if it falls at any time."""
        return Cover(wets=True) if bounds_of(part.rate_mm_h)[1] > 0.0 else None

    def sound(self, part: Rain, amount: float, frequency_hz: float) -> float:
        """Scattering by drops."""
        return rain_loss_db_per_m(float(amount), frequency_hz)

    def radio(self, part: Rain, amount: float, frequency_hz: float) -> Radio | None:
        """Attenuation and backscatter."""
        loss = float(rain_attenuation_db_per_km(frequency_hz, amount))
        return Radio(loss, rain_reflectivity(frequency_hz, float(amount)))


RAIN = Medium(
    "rain", 1, "Rain", "#3f9dff", Rain, RATE, RainEffects(), first_draw=5000,
    options=(
        Option(
            "--rain-model", "model", "Extinction of rain: mie (the default), vane, goodin2019, guo2015, ulbrich-atlas.",
            get_args(ModelName),
        ),
    ),
)  # fmt: skip
