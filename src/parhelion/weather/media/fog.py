"""Fog and haze: extinction and backscatter of light, the lidar ratio of droplets, and the part of a weather.

Four spectra of fog droplets (Shettle and Fenn 1979, as in MODTRAN) are modified gamma laws over radius r [um],
n(r) ~ r^a exp(-b r): heavy and moderate advection fog (sea fog, modes at 10 and 8 um), heavy and moderate radiation fog
(modes at 4 and 2 um). Mie's series over each gives the lidar ratio

    S = 4 pi  integral Q_ext r^2 n dr / integral Q_back r^2 n dr    [sr].

The mean over the four is 17 to 20 sr in the near infrared. Measurements of water clouds, which consist of the same
droplets, give 18 to 19 sr (O'Connor et al. 2004; Pinnick et al. 1983). Hahner et al. 2021 use a backscatter that
corresponds to 65 sr, the lidar ratio of dry aerosol, which is too low by a factor of 3.5.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Annotated, Any, ClassVar, Literal, NamedTuple, cast, get_args

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals, is_drjit, namespace
from parhelion.core.deprecation import deprecated_method
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.water import checked_wavelength, water_index
from parhelion.weather.media import Amount, Effects, Light, Medium, MediumPart, Option, Sky, Slider
from parhelion.weather.parts import Heterogeneity, Number, Schedule, name_of, within
from parhelion.weather.sound_loss import droplet_loss_db_per_m, fog_water_g_m3

LN_20 = float(np.log(20.0))
HAHNER_BACKSCATTER = 0.046
"""Backscatter times optical range [1/sr] of Hahner et al. 2021: a lidar ratio of 65 sr, that of dry aerosol."""


class FogModel(NamedTuple):
    """Relation between visibility and extinction."""

    extinction: Callable[[Reals, float], Reals]
    """(visibility [m], wavelength [nm]) -> extinction [1/m]; NumPy or Dr.Jit arrays."""
    source: str


def _by_wavelength(visibility_m: Reals, wavelength_nm: float, exponent: Reals) -> Reals:
    log_ratio = float(np.log(wavelength_nm / 550.0))
    return 3.91 / visibility_m * namespace(visibility_m).exp(-exponent * log_ratio)


def kim_extinction(visibility_m: Reals, wavelength_nm: float) -> Reals:
    """Kim's model, in which the extinction of dense fog does not depend on wavelength; NumPy or Dr.Jit arrays.

    (3.91 / V) (lambda / 550 nm)^-q with q = 1.6 (V > 50 km), 1.3 (6 to 50), 0.16 V + 0.34 (1 to 6), V - 0.5 (0.5 to 1)
    and 0 below. For 1 to 6 km, Huang et al. (2023) print a factor of 9.27, but their own equations give 6.60. Fitted
    for 785 to 1550 nm.
    """
    xp = namespace(visibility_m)
    km = visibility_m * 1e-3
    q = xp.where(km > 0.5, km - 0.5, 0.0 * km)
    q = xp.where(km > 1.0, 0.16 * km + 0.34, q)
    q = xp.where(km > 6.0, 1.3 + 0.0 * km, q)
    q = xp.where(km > 50.0, 1.6 + 0.0 * km, q)
    return _by_wavelength(visibility_m, wavelength_nm, q)


def kruse_extinction(visibility_m: Reals, wavelength_nm: float) -> Reals:
    """Kruse's model: as Kim's, but q = 0.585 V^(1/3) for all V below 6 km. Valid for haze. NumPy or Dr.Jit arrays."""
    xp = namespace(visibility_m)
    km = visibility_m * 1e-3
    q = xp.where(km > 6.0, 1.3 + 0.0 * km, 0.585 * xp.power(km, 1.0 / 3.0))
    q = xp.where(km > 50.0, 1.6 + 0.0 * km, q)
    return _by_wavelength(visibility_m, wavelength_nm, q)


def koschmieder_extinction(visibility_m: Reals, wavelength_nm: float) -> Reals:
    """Extinction -ln(0.02) / V = 3.912 / V at any wavelength: the contrast of a black object is 2 % at range V."""
    return float(-np.log(0.02)) / visibility_m


def hahner2021_extinction(visibility_m: Reals, wavelength_nm: float) -> Reals:
    """Extinction ln 20 / V at any wavelength: V is the meteorological optical range, where transmittance is 5 %."""
    return LN_20 / visibility_m


FOG_MODELS: dict[str, FogModel] = {
    "kim": FogModel(kim_extinction, "Kim, McArthur and Korevaar 2001"),
    "kruse": FogModel(kruse_extinction, "Kruse, McGlauchlin and McQuistan 1962"),
    "koschmieder": FogModel(koschmieder_extinction, "Koschmieder 1924, contrast 0.02"),
    "hahner2021": FogModel(hahner2021_extinction, "Hahner et al. 2021"),
}
"""Models of extinction by name."""


def fog_extinction(visibility_m: Reals, model: str = "kim", wavelength_nm: float = 905.0) -> Reals:
    """One-way extinction [1/m] at a visibility above 0 m; infinite visibility gives 0. NumPy or Dr.Jit arrays."""
    if model not in FOG_MODELS:
        raise unknown_name("fog model", model, FOG_MODELS)
    wavelength = checked_wavelength(wavelength_nm)
    if is_drjit(visibility_m):
        return FOG_MODELS[model].extinction(visibility_m, wavelength)
    v = np.asarray(visibility_m, dtype=np.float64)
    _check(v, v > 0.0, "visibility_m", "above 0 m")
    # Infinity times 0 is undefined; at such visibilities, q is that of the clearest air.
    extinction = FOG_MODELS[model].extinction(np.minimum(v, 1e15), wavelength)
    return np.where(np.isinf(v), 0.0, extinction)[()]


def default_backscatter(model: str, wavelength_nm: float) -> float:
    """Default backscatter times optical range [1/sr]: ln 20 / S, with the lidar ratio S of fog droplets.

    The model `hahner2021` uses its authors' 0.046.
    """
    return HAHNER_BACKSCATTER if model == "hahner2021" else LN_20 / fog_lidar_ratio(wavelength_nm)


def fog_backscatter(extinction_per_m: Reals, factor: float) -> Reals:
    """Backscatter [1/(m sr)]: factor / MOR = factor alpha / ln 20; NumPy or Dr.Jit arrays."""
    if not (np.isfinite(factor) and factor >= 0.0):
        raise ConfigError(f"factor: must be finite and 0 /sr or more, got {factor!r}")
    return extinction_per_m * (factor / LN_20)


def _check(values: NDArray[np.float64], good: NDArray[np.bool_], name: str, allowed: str) -> None:
    if not np.all(good):
        raise ConfigError(f"{name}: must be {allowed}, got {values[~good].flat[0]:g}")


SPECTRA: dict[str, tuple[float, float]] = {
    "heavy advection": (3.0, 0.3),
    "moderate advection": (3.0, 0.375),
    "heavy radiation": (6.0, 1.5),
    "moderate radiation": (6.0, 3.0),
}
"""Exponent a and slope b [1/um] of each spectrum of droplets (Shettle and Fenn 1979)."""

_RADII_UM = (0.05, 80.0)
_SIZES = 4000


def fog_lidar_ratio(wavelength_nm: float) -> float:
    """Extinction over backscatter [sr] of fog: the mean over four spectra of droplets. Valid for 350 to 2500 nm."""
    return float(np.mean([lidar_ratio(name, wavelength_nm) for name in SPECTRA]))


@lru_cache(maxsize=64)
def lidar_ratio(spectrum: str, wavelength_nm: float) -> float:
    """Extinction over backscatter [sr] of one of `SPECTRA`."""
    a, b = SPECTRA[spectrum]
    radius, q_ext, q_back = _droplets(checked_wavelength(wavelength_nm))
    # The steps are equal in ln r, so dr is r d(ln r).
    weight = radius**3 * radius**a * np.exp(-b * radius)
    return float(4.0 * np.pi * np.sum(weight * q_ext) / np.sum(weight * q_back))


@lru_cache(maxsize=8)
def _droplets(wavelength_nm: float) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    radius = np.geomspace(*_RADII_UM, _SIZES)
    return (radius, *droplet_efficiencies(2.0 * np.pi * radius * 1e3 / wavelength_nm, water_index(wavelength_nm)))


def droplet_efficiencies(x: NDArray[np.float64], index: complex) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Q_ext and Q_back of spheres with increasing size parameters x from 0.01 to 2000.

    Mie's series with the logarithmic derivative by downward recurrence, which is stable for small spheres, unlike the
    upward recurrence of `mie.mie_series` (Bohren and Huffman 1983, appendix A).
    """
    terms = np.ceil(x + 4.05 * np.cbrt(x) + 2.0)
    last = int(terms[-1])
    inside = np.zeros((last + 1, x.size), complex)
    # The recurrence converges within a few terms from any start beyond |m| x.
    for n in range(max(last, int(abs(index) * x[-1])) + 32, last, -1):
        ratio = n / (index * x)
        inside[last] = ratio - 1.0 / (inside[last] + ratio)
    for n in range(last, 0, -1):
        ratio = n / (index * x)
        inside[n - 1] = ratio - 1.0 / (inside[n] + ratio)
    psi_older, psi, chi_older, chi = np.cos(x), np.sin(x), -np.sin(x), np.cos(x)
    q_ext, back = np.zeros_like(x), np.zeros(x.size, complex)
    for n in range(1, last + 1):
        climb = (2.0 * n - 1.0) / x
        active = n <= terms
        # Beyond its last term, chi of a small sphere overflows; it is not used there.
        psi_older, psi = psi, np.where(active, climb * psi - psi_older, 0.0)
        chi_older, chi = chi, np.where(active, climb * chi - chi_older, 1.0)
        xi, xi_older = psi - 1j * chi, psi_older - 1j * chi_older
        electric, magnetic = inside[n] / index + n / x, inside[n] * index + n / x
        a = (electric * psi - psi_older) / (electric * xi - xi_older)
        b = (magnetic * psi - psi_older) / (magnetic * xi - xi_older)
        q_ext += np.where(active, (2.0 * n + 1.0) * (a + b).real, 0.0)
        back += np.where(active, (2.0 * n + 1.0) * (-1.0) ** n * (a - b), 0.0)
    return 2.0 * q_ext / x**2, np.abs(back) ** 2 / x**2


# ---- the medium ----------------------------------------------------------------------------------------------------

ModelName = Literal["kim", "kruse", "koschmieder", "hahner2021"]

FOG_LAYER_M = 150.0
"""Thickness of a fog layer above a camera."""
VISIBILITY = Amount(
    "visibility_m",
    "visibility_m",
    "--visibility",
    "M",
    "Visibility in fog or haze, 5 m or more.",
    "m",
    5.0,
    300_000.0,
    Slider(
        2000.0,
        10.0,
        low=10.0,
        hint="no fog at the right end",
        marks=((200.0, "fog"), (1000.0, "mist"), (2000.0, "clear")),
    ),
    clear=float("inf"),
    word="visibility",
    limit_note=" (air without fog has no visibility_m)",
    report_unit="m visibility",
)


class Fog(MediumPart):
    """Fog or haze of a given visibility.

    >>> ph.Weather(fog=ph.Fog(visibility_m=120, model="kruse"))
    <Weather visibility 120 m>
    """

    visibility_m: Annotated[Schedule, VISIBILITY.check]
    """Visibility [m], 5 to 300 000 (about that of air without any particle)."""
    model: Annotated[ModelName, name_of(get_args(ModelName))] = "kim"
    """Model of extinction at the sensor's wavelength as a function of visibility."""
    backscatter: Annotated[Number, within(0.01, 0.6)] | None = None
    """Backscatter coefficient [1/(m sr)] times meteorological optical range [m]. By default from Mie's theory of the
    droplets (about 0.165 at 905 nm); the model `hahner2021` uses its authors' 0.046."""
    heterogeneity: Heterogeneity | None = None
    """Variation of density; None means uniform fog."""

    renamed: ClassVar[Mapping[str, str]] = {"uneven": "heterogeneity"}
    uneven: ClassVar[Any] = deprecated_method("uneven", "heterogeneity")  # wording: ok


def haze_share(visibility_m: float) -> float:
    """Share of a visibility that is due to haze in the whole atmosphere rather than fog near the ground.

    0 up to 1 km, where the air above the fog keeps its turbidity; 1 from 5 km, where there is no fog layer;
    interpolated by the logarithm in between.
    """
    return float(np.interp(np.log(visibility_m), np.log([1000.0, 5000.0]), [0.0, 1.0]))


class FogEffects(Effects):
    """Effects of fog."""

    def light(self, part: Fog, amount: float, wavelength_nm: float) -> Light:
        """Extinction by the part's model, backscatter by the lidar ratio of droplets."""
        extinction = float(cast(float, fog_extinction(amount, model=part.model, wavelength_nm=wavelength_nm)))
        factor = part.backscatter
        if factor is None:
            factor = default_backscatter(part.model, wavelength_nm)
        return Light(extinction, float(cast(float, fog_backscatter(extinction, factor))), layer_m=FOG_LAYER_M)

    def sound(self, part: Fog, amount: float, frequency_hz: float) -> float:
        """Drag on droplets of 10 um."""
        return droplet_loss_db_per_m(fog_water_g_m3(float(amount)), 10e-6, frequency_hz)

    def sky(self, part: Fog, amount: float) -> Sky:
        """Haze and a ground layer."""
        per_m = float(cast(float, fog_extinction(amount, model=part.model, wavelength_nm=550.0)))
        return Sky(haze=haze_share(amount), visibility_m=amount, layer_extinction_per_m=per_m)


FOG = Medium(
    "fog",
    2,
    "Fog",
    "#b79cff",
    Fog,
    VISIBILITY,
    FogEffects(),
    first_draw=7000,
    options=(
        Option(
            "--fog-model",
            "model",
            "Extinction of fog: kim (the default), kruse, koschmieder, hahner2021.",
            get_args(ModelName),
        ),
        Option(
            "--heterogeneous-fog",
            "heterogeneity",
            "Fog with thicker and thinner places.",
            value=Heterogeneity(),
            old="--uneven-fog",
        ),
    ),
)
