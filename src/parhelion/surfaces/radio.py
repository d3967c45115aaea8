"""Radio waves at surfaces: permittivity by material and frequency, reflection and transmission.

The time convention is exp(+j w t), so lossy materials have a negative imaginary part of the permittivity. All surfaces
are smooth and non-magnetic. P.2040 refers to ITU-R P.2040-3 (08/2023), "Effects of building materials and structures on
radiowave propagation above about 100 MHz".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.water import water_permittivity
from parhelion.surfaces.library import match_material

Complexes = NDArray[np.complex128]
Floats = NDArray[np.float64]

VACUUM_PERMITTIVITY_F_M = 8.854_187_8188e-12
"""CODATA 2022."""
METAL_CONDUCTIVITY_S_M = 1e7
_ITU = "ITU-R P.2040-3, table 3"


@dataclass(frozen=True)
class Band:
    """Permittivity of one material in one range of frequencies: a f^b - j c f^d / (w e0), f in GHz, c f^d in S/m."""

    lower_ghz: float
    upper_ghz: float
    a: float
    b: float
    c: float
    d: float
    source: str = _ITU

    def permittivity(self, ghz: Floats) -> Complexes:
        """Complex relative permittivity at frequencies [GHz] inside the band."""
        conductivity = self.c * ghz**self.d
        return np.asarray(self.a * ghz**self.b - 1j * conductivity / (2e9 * np.pi * ghz * VACUUM_PERMITTIVITY_F_M))


@dataclass(frozen=True)
class MixedBand:
    """Permittivity of soil or snow as a mixture of grains, air and water, by the refractive law.

    sqrt(e) = (1 - p) sqrt(e_grain) + (p - m) + m sqrt(e_water); p: share of pores, m: share of water by volume.
    """

    lower_ghz: float
    upper_ghz: float
    grain: complex
    pores: float
    water: float
    source: str

    def permittivity(self, ghz: Floats) -> Complexes:
        """Complex relative permittivity at frequencies [GHz] inside the band."""
        root = (1.0 - self.pores) * np.sqrt(self.grain) + (self.pores - self.water)
        return np.asarray((root + self.water * np.sqrt(water_permittivity(ghz * 1e9))) ** 2)


@dataclass(frozen=True)
class WaterBand:
    """Permittivity of fresh water."""

    lower_ghz: float
    upper_ghz: float
    source: str

    def permittivity(self, ghz: Floats) -> Complexes:
        """Complex relative permittivity at frequencies [GHz] inside the band."""
        return water_permittivity(ghz * 1e9)


def _fixed(real: float, loss_tangent: float, source: str, lower: float = 1.0, upper: float = 100.0) -> Band:
    """Band of constant permittivity and loss tangent; the conductivity is then proportional to the frequency."""
    return Band(lower, upper, real, 0.0, real * loss_tangent * 2e9 * np.pi * VACUUM_PERMITTIVITY_F_M, 1.0, source)


def _soil(water: float, pores: float = 0.5) -> MixedBand:
    return MixedBand(
        10.0,
        100.0,
        4.7 - 0.05j,
        pores,
        water,
        "refractive mixture (Birchak et al. 1974, Proc. IEEE 62, 93) of grains of 4.7 (Ulaby et al. 1986), air and "
        "water, since ITU-R P.2040 ends at 10 GHz; the real part joins it there",
    )


_CONTINUED = "ITU-R P.2040-3, table 3, continued beyond its band: no measurement stands behind it"
_SNOW = "refractive mixture (Birchak et al. 1974) of ice of 3.17 (Matzler and Wegmuller 1987), air and water"
_POLYMER = "Riddle, Baker-Jarvis and Krupka 2003, IEEE Trans. MTT 51, 727: common polymers at 10 GHz, a round figure"
_SKIN = "power laws through Gabriel 1996, dry skin: 40.9 and 0.90 S/m at 1 GHz, 31.3 and 8.01 at 10, 6.6 and 37 at 77"
_GUESS = "assumed: a round figure for dry cloth, paper and foam with their air"

RADIO_MATERIALS: dict[str, tuple[Band | MixedBand | WaterBand, ...]] = {
    "vacuum": (Band(0.001, 100, 1, 0, 0, 0),),
    "concrete": (Band(1, 100, 5.24, 0, 0.0462, 0.7822),),
    "brick": (Band(1, 40, 3.91, 0, 0.0238, 0.16), Band(40, 100, 3.91, 0, 0.0238, 0.16, _CONTINUED)),
    "plasterboard": (Band(1, 100, 2.73, 0, 0.0085, 0.9395),),
    "wood": (Band(0.001, 100, 1.99, 0, 0.0047, 1.0718),),
    "glass": (Band(0.1, 100, 6.31, 0, 0.0036, 1.3394), Band(220, 450, 5.79, 0, 0.0004, 1.658)),
    "ceiling-board": (Band(1, 100, 1.48, 0, 0.0011, 1.0750), Band(220, 450, 1.52, 0, 0.0029, 1.029)),
    "chipboard": (Band(1, 100, 2.58, 0, 0.0217, 0.78),),
    "plywood": (Band(1, 40, 2.71, 0, 0.33, 0), Band(40, 100, 2.71, 0, 0.33, 0, _CONTINUED)),
    "marble": (Band(1, 60, 7.074, 0, 0.0055, 0.9262), Band(60, 100, 7.074, 0, 0.0055, 0.9262, _CONTINUED)),
    "floorboard": (Band(50, 100, 3.66, 0, 0.0044, 1.3515),),
    "metal": (Band(1, 100, 1, 0, METAL_CONDUCTIVITY_S_M, 0),),
    "very-dry-ground": (Band(1, 10, 3, 0, 0.00015, 2.52), _soil(0.0, 0.373)),
    "medium-dry-ground": (Band(1, 10, 15, -0.1, 0.035, 1.63), _soil(0.278)),
    "wet-ground": (Band(1, 10, 30, -0.4, 0.15, 1.30), _soil(0.278)),
    "asphalt": (
        _fixed(5.0, 0.03, "Jaselskis et al. 2003, J. Mater. Civ. Eng. 15, 427: 4 to 6.5 up to 12 GHz", 1, 20),
        _fixed(3.18, 0.0314, "Li, Nashashibi and Sarabandi 1998: 3.18 - 0.1j at 94 GHz", 20, 100),
    ),
    "water": (WaterBand(0.1, 1000, "ITU-R P.840-8: fresh water at 15 C"),),
    "dry-snow": (MixedBand(0.1, 100, 3.17 - 0.002j, 0.73, 0.0, _SNOW),),
    "wet-snow": (MixedBand(0.1, 100, 3.17 - 0.002j, 0.56, 0.04, _SNOW),),
    "plastic": (_fixed(2.6, 0.007, _POLYMER),),
    "rubber": (_fixed(3.0, 0.02, "assumed: filled natural rubber, a round figure", 1, 100),),
    "cloth": (_fixed(1.6, 0.02, _GUESS),),
    "skin": (
        Band(1, 10, 40.9, -0.116, 0.90, 0.949, _SKIN),
        Band(10, 100, 181.1, -0.7625, 1.425, 0.7497, _SKIN),
    ),
    "foliage": (Band(1, 100, 1.0, 0, 0, 0, "leaves and air: weakens what passes, mirrors nothing"),),
}
"""Permittivity by material, from ITU-R P.2040 where available. Where two bands meet, the first one applies."""

_METAL = (
    "aluminium copper galvanised-steel mirror rusted-steel stainless-steel steel car-paint-black car-paint-blue "
    "car-paint-green car-paint-grey car-paint-red car-paint-silver car-paint-white car-paint-yellow "
    "huang-metal"
)
_LIBRARY = {
    "metal": _METAL,
    "asphalt": "asphalt asphalt-dark asphaltic-concrete road-paint road-paint-yellow roofing-felt shingle huang-road",
    "concrete": "concrete huang-wall",
    "brick": "brick roof-tile",
    "plasterboard": "plaster",
    "marble": "granite limestone slate",
    "glass": "glass huang-glass",
    "wood": "wood bark cardboard",
    "plywood": "plywood",
    "medium-dry-ground": "soil grass",
    "very-dry-ground": "sand gravel grass-dry",
    "water": "water clear-water sea-foam",
    "dry-snow": "snow snow-fresh",
    "wet-snow": "snow-wet",
    "plastic": "plastic plastic-black lamp-clear lamp-clear-lit lamp-red lamp-red-lit street-lens epoxy "
    "retro-sheeting olive-paint white-paint",
    "rubber": "rubber",
    "cloth": "cotton curtain-lit fabric fabric-black fabric-blue fabric-green fabric-red foam hair-dark hair-fair "
    "paper",
    "skin": "skin huang-person",
    "foliage": "leaf needles",
}
RADIO_NAME = {name: radio for radio, names in _LIBRARY.items() for name in names.split()}
"""Radio material of each library material. Thin coats take the material below: car paint is metal, road paint asphalt;
olive and white paint are on plastic."""


def radio_name(material: str) -> str:
    """Radio material for a material name: its own entry, a radio material's name, or the nearest library material.

    For example, `mossy-brick` is brick. Names that match nothing, and meshes without a material, are concrete.
    """
    for name in (material, match_material(material)[0].name):
        if name in RADIO_NAME:
            return RADIO_NAME[name]
        if name in RADIO_MATERIALS:
            return name
    return "concrete"


def permittivity(material: str, frequency_hz: ArrayLike) -> Complexes:
    """Complex relative permittivity of a radio material at frequencies [Hz] inside its bands."""
    if material not in RADIO_MATERIALS:
        raise unknown_name("radio material", material, RADIO_MATERIALS)
    ghz = np.asarray(frequency_hz, dtype=np.float64) / 1e9
    found = np.full(ghz.shape, np.nan + 0j)
    for band in reversed(RADIO_MATERIALS[material]):
        inside = (ghz >= band.lower_ghz) & (ghz <= band.upper_ghz)
        found = np.where(inside, band.permittivity(np.where(inside, ghz, band.lower_ghz)), found)
    if np.any(np.isnan(found)):
        bands = " and ".join(f"{band.lower_ghz:g} to {band.upper_ghz:g} GHz" for band in RADIO_MATERIALS[material])
        bad = float(np.atleast_1d(ghz)[np.atleast_1d(np.isnan(found))][0])
        raise ConfigError(f"radio material {material!r}: no permittivity at {bad:g} GHz; its bands are {bands}")
    return found


# ---- half-spaces ---------------------------------------------------------------------------------------------------


def fresnel(cos_incidence: ArrayLike, relative_permittivity: ArrayLike) -> tuple[Complexes, Complexes]:
    """Reflection coefficients (TE, TM) of a half-space for a wave from air, P.2040 eqs. 31 and 32.

    `cos_incidence` is between the ray and the normal, 0 to 1. TM is signed so that TE = -TM at normal incidence.
    """
    cos = np.asarray(cos_incidence, dtype=np.float64)
    eta = np.asarray(relative_permittivity, dtype=np.complex128)
    root = np.sqrt(eta - (1.0 - cos * cos))
    return np.asarray((cos - root) / (cos + root)), np.asarray((eta * cos - root) / (eta * cos + root))


def circular(te: ArrayLike, tm: ArrayLike) -> tuple[Complexes, Complexes]:
    """Co- and cross-polarised reflection coefficients of a circularly polarised wave.

    ((TM + TE) / 2, (TM - TE) / 2): a metal at normal incidence reverses the handedness, grazing incidence keeps it.
    """
    te, tm = np.asarray(te, dtype=np.complex128), np.asarray(tm, dtype=np.complex128)
    return np.asarray((tm + te) / 2.0), np.asarray((tm - te) / 2.0)


# ---- slabs ---------------------------------------------------------------------------------------------------------


def slab(
    cos_incidence: ArrayLike, relative_permittivity: ArrayLike, thickness_m: ArrayLike, frequency_hz: ArrayLike
) -> tuple[tuple[Complexes, Complexes], tuple[Complexes, Complexes]]:
    """Reflection (TE, TM) and transmission (TE, TM) of one slab in air: P.2040 eqs. 42 to 44.

    Internal reflections are included. The phase of the transmission is from face to face along the normal.
    """
    cos = np.asarray(cos_incidence, dtype=np.float64)
    eta = np.asarray(relative_permittivity, dtype=np.complex128)
    wavelength = SPEED_OF_LIGHT_M_S / np.asarray(frequency_hz, dtype=np.float64)
    q = 2.0 * np.pi * np.asarray(thickness_m, dtype=np.float64) / wavelength * np.sqrt(eta - (1.0 - cos * cos))
    once, twice = np.exp(-1j * q), np.exp(-2j * q)

    def reflected(r: Complexes) -> Complexes:
        return np.asarray(r * (1.0 - twice) / (1.0 - r * r * twice))

    def passed(r: Complexes) -> Complexes:
        return np.asarray((1.0 - r * r) * once / (1.0 - r * r * twice))

    return _both(reflected, cos, eta), _both(passed, cos, eta)


def _both(make: Callable[[Complexes], Complexes], cos: Floats, eta: Complexes) -> tuple[Complexes, Complexes]:
    te, tm = fresnel(cos, eta)
    return make(te), make(tm)


def coated(
    cos_incidence: ArrayLike,
    film_permittivity: ArrayLike,
    below_permittivity: ArrayLike,
    thickness_m: ArrayLike,
    frequency_hz: ArrayLike,
) -> tuple[Complexes, Complexes]:
    """Reflection (TE, TM) of a film on a half-space, in air, with all internal reflections.

        r = (r_1 + r_2 e^{-2iq}) / (1 + r_1 r_2 e^{-2iq}),  q = 2 pi d / wavelength sqrt(eta - sin^2)

    r_1 and r_2 are Fresnel's coefficients of the upper and the lower side of the film (Born and Wolf, section 1.6).
    """
    cos = np.asarray(cos_incidence, dtype=np.float64)
    etas = [np.asarray(one, dtype=np.complex128) for one in (1.0, film_permittivity, below_permittivity)]
    roots = [np.sqrt(eta - (1.0 - cos * cos)) for eta in etas]
    wavelength = SPEED_OF_LIGHT_M_S / np.asarray(frequency_hz, dtype=np.float64)
    # The imaginary part of a permittivity is negative, so that waves decay as exp(-i q).
    twice = np.exp(-4j * np.pi * np.asarray(thickness_m, dtype=np.float64) / wavelength * roots[1])
    found = []
    for weights in ((1.0, 1.0, 1.0), etas):
        sides = [
            (weights[k + 1] * roots[k] - weights[k] * roots[k + 1])
            / (weights[k + 1] * roots[k] + weights[k] * roots[k + 1])
            for k in range(2)
        ]
        found.append(np.asarray((sides[0] + sides[1] * twice) / (1.0 + sides[0] * sides[1] * twice)))
    return found[0], found[1]


def slab_loss_db(
    cos_incidence: ArrayLike, relative_permittivity: ArrayLike, thickness_m: ArrayLike, frequency_hz: ArrayLike
) -> Floats:
    """Power loss [dB] through one slab, mean of both polarisations, limited to 400 dB."""
    _, (te, tm) = slab(cos_incidence, relative_permittivity, thickness_m, frequency_hz)
    power = (np.abs(te) ** 2 + np.abs(tm) ** 2) / 2.0
    return np.asarray(-10.0 * np.log10(np.maximum(power, 1e-40)))
