"""Spectral bands of cameras, and the reflectance of materials in them.

A band is a relative response by wavelength with its peak at 1, linear between its entries. The power in a band is the
spectrum times the response, integrated over wavelength, so that a radiance in W/(m^2 sr nm) becomes W/(m^2 sr).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.constants import BOLTZMANN_J_K, PLANCK_J_S, SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.surfaces.material import COLUMNS, Material, columns_of

Floats = NDArray[np.float64]
SHORTEST_NM, LONGEST_NM = 200.0, 20_000.0
SPECTRAL_COLUMNS = ("diffuse", "phong_specular", "ct_f0", "curve_level")
"""Columns of a material table that change with wavelength."""


@dataclass(frozen=True, eq=False)
class Band:
    """Relative spectral response: non-negative, with at least one value above 0, normalised to a peak of 1."""

    name: str
    """Name of the band."""
    wavelength_nm: Floats
    """Wavelengths [nm], ascending, shape (n,)."""
    response: Floats
    """Response to power at each wavelength, peak 1, linear between entries and 0 outside, shape (n,)."""

    def __init__(self, name: str, wavelength_nm: ArrayLike, response: ArrayLike) -> None:
        try:
            grid, values = (np.array(field, dtype=np.float64) for field in (wavelength_nm, response))
        except (TypeError, ValueError):
            raise ConfigError(f"band {name!r}: wavelength_nm and response must be lists of numbers") from None
        if grid.ndim != 1 or grid.shape != values.shape or len(grid) < 2:
            raise ConfigError(f"band {name!r}: expected one response per wavelength, and at least two of each")
        if not (np.isfinite(grid).all() and np.isfinite(values).all()):
            raise ConfigError(f"band {name!r}: every wavelength and response must be finite")
        if np.any(np.diff(grid) <= 0.0):
            raise ConfigError(f"band {name!r}: wavelengths must ascend")
        if grid[0] < SHORTEST_NM or grid[-1] > LONGEST_NM:
            raise ConfigError(
                f"band {name!r}: wavelengths must lie within {SHORTEST_NM:g} to {LONGEST_NM:g} nm, "
                f"got {grid[0]:g} to {grid[-1]:g} nm"
            )
        if values.min() < 0.0 or values.max() <= 0.0:
            raise ConfigError(f"band {name!r}: responses must not be negative, and at least one must be above 0")
        values = values / values.max()
        for field, array in (("wavelength_nm", grid), ("response", values)):
            array.setflags(write=False)
            object.__setattr__(self, field, array)
        object.__setattr__(self, "name", str(name))

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Band):
            return NotImplemented
        same = np.array_equal(self.wavelength_nm, other.wavelength_nm) and np.array_equal(self.response, other.response)
        return self.name == other.name and same

    def __hash__(self) -> int:
        return hash((self.name, self.wavelength_nm.tobytes(), self.response.tobytes()))

    @property
    def range_nm(self) -> tuple[float, float]:
        """First and last wavelength of the response [nm]."""
        return float(self.wavelength_nm[0]), float(self.wavelength_nm[-1])

    @property
    def width_nm(self) -> float:
        """Integral of the response [nm]: width of the box band with the same power from a flat spectrum."""
        return float(self.weights(self.wavelength_nm).sum())

    @property
    def centre_nm(self) -> float:
        """Mean wavelength [nm], weighted by the response."""
        return float(self.weights(self.wavelength_nm) @ self.wavelength_nm) / self.width_nm

    def weights(self, grid_nm: ArrayLike) -> Floats:
        """Quadrature weights (n,) [nm] for values at `grid_nm` (n,).

        The weights are exact for values that are linear between grid points and constant beyond its ends.
        """
        grid = np.asarray(grid_nm, dtype=np.float64)
        inside = grid[(grid > self.wavelength_nm[0]) & (grid < self.wavelength_nm[-1])]
        union = np.union1d(self.wavelength_nm, inside)
        middle, step = 0.5 * (union[1:] + union[:-1]), np.diff(union)
        total = np.zeros(len(grid))
        # Simpson's rule is exact for the product of two linear functions.
        for at, share in ((union[:-1], 1.0), (middle, 4.0), (union[1:], 1.0)):
            amount = share / 6.0 * step * np.interp(at, self.wavelength_nm, self.response)
            place = np.clip(np.searchsorted(grid, at, side="right") - 1, 0, max(len(grid) - 2, 0))
            if len(grid) == 1:
                total[0] += amount.sum()
                continue
            fraction = np.clip((at - grid[place]) / (grid[place + 1] - grid[place]), 0.0, 1.0)
            np.add.at(total, place, amount * (1.0 - fraction))
            np.add.at(total, place + 1, amount * fraction)
        return total

    def integral(self, grid_nm: ArrayLike, values: ArrayLike) -> Floats:
        """Values (..., n) per nm at `grid_nm` (n,), integrated over the band, shape (...)."""
        return np.asarray(np.asarray(values, dtype=np.float64) @ self.weights(grid_nm))

    def mean(self, grid_nm: ArrayLike, values: ArrayLike) -> Floats:
        """Mean of values (..., n) at `grid_nm` (n,), weighted by the response, shape (...)."""
        return self.integral(grid_nm, values) / self.width_nm


def box_band(name: str, centre_nm: float, width_nm: float) -> Band:
    """Band with a constant response over `width_nm`."""
    if not width_nm > 0.0:
        raise ConfigError(f"band {name!r}: width_nm must be above 0, got {width_nm:g}")
    return Band(name, [centre_nm - width_nm / 2, centre_nm + width_nm / 2], [1.0, 1.0])


def gaussian_band(name: str, centre_nm: float, width_nm: float) -> Band:
    """Gaussian band with full width at half maximum `width_nm`, truncated 1.35 widths from the centre (at 0.6 %)."""
    if not width_nm > 0.0:
        raise ConfigError(f"band {name!r}: width_nm must be above 0, got {width_nm:g}")
    offset = np.linspace(-1.35, 1.35, 81)
    return Band(name, centre_nm + width_nm * offset, np.exp2(-4.0 * offset**2))


def smooth_box_band(name: str, first_nm: float, last_nm: float, edge_nm: float) -> Band:
    """Band that is constant between two half-maximum wavelengths, with cosine edges of width `edge_nm`."""
    if not 0.0 < edge_nm < last_nm - first_nm:
        raise ConfigError(f"band {name!r}: edge_nm must lie between 0 and {last_nm - first_nm:g}, got {edge_nm:g}")
    step = np.linspace(-0.5, 0.5, 25)
    rise = 0.5 * (1.0 + np.sin(np.pi * step))
    return Band(
        name, np.concatenate([first_nm + edge_nm * step, last_nm + edge_nm * step]), np.concatenate([rise, rise[::-1]])
    )


_NAMED: Mapping[str, Callable[[str], Band]] = {
    "red": lambda name: gaussian_band(name, 600.0, 75.0),
    "green": lambda name: gaussian_band(name, 530.0, 95.0),
    "blue": lambda name: gaussian_band(name, 460.0, 80.0),
    "mono": lambda name: smooth_box_band(name, 415.0, 675.0, 50.0),
    "nir": lambda name: gaussian_band(name, 842.0, 115.0),
    "swir": lambda name: smooth_box_band(name, 950.0, 1650.0, 100.0),
    "mwir": lambda name: smooth_box_band(name, 3_000.0, 5_000.0, 200.0),
    "thermal": lambda name: smooth_box_band(name, 8_000.0, 14_000.0, 500.0),
}
"""Predefined bands. Red, green and blue are Gaussians with peaks near those that Jiang, Liu, Gu and Susstrunk (2013)
measured on 28 colour cameras; their widths are assumed. Mono is a sensor behind an infrared-cut filter, NIR has the
centre and width of Sentinel-2's band 8, SWIR is the range of InGaAs, MWIR that of InSb behind a cold filter, thermal
that of an uncooled bolometer."""

BAND_NAMES = tuple(_NAMED)
THERMAL_FROM_NM = 2800.0
"""Centre wavelength [nm] from which a band is dominated by thermal emission of surfaces."""
_HELD_BELOW_NM, _HELD_ABOVE = 60.0, 1.2
"""The ends of a spectrum are held for 60 nm below and up to 1.2 times its last wavelength: 0.29 to 3 um for ours."""


def named_band(name: str) -> Band:
    """Predefined band, one of `BAND_NAMES`."""
    if name not in _NAMED:
        raise unknown_name("band", str(name), _NAMED)
    return _NAMED[name](name)


def band_reflectance(material: Material, band: Band, *, illuminant: tuple[ArrayLike, ArrayLike] | None = None) -> float:
    """Mean reflectance in a band, weighted by its response and optionally by the incident light.

    `illuminant` is a pair of wavelengths [nm] and relative spectral irradiance. The material's spectrum must cover the
    band; its ends are held for 60 nm below and 20 % above. Library spectra span 350 to 2500 nm, so bands from 0.3 to
    3 um are accepted.
    """
    first, last = material.wavelength_range_nm
    low, high = band.range_nm
    if low < first - _HELD_BELOW_NM or high > last * _HELD_ABOVE:
        raise ConfigError(
            f"material {material.name!r}: the spectrum covers {first:g} to {last:g} nm, "
            f"and band {band.name!r} needs {low:g} to {high:g} nm"
        )
    grid = np.asarray(material.spectrum.wavelength_um, dtype=np.float64) * 1e3
    values = np.asarray(material.spectrum.reflectance, dtype=np.float64)
    if illuminant is None:
        return float(band.mean(grid, values))
    light_nm, light = (np.asarray(part, dtype=np.float64) for part in illuminant)
    fine = np.union1d(np.union1d(grid, light_nm), band.wavelength_nm)
    weight = np.interp(fine, light_nm, light, left=0.0, right=0.0)
    total = float(band.integral(fine, weight))
    if not total > 0.0:
        raise ConfigError(f"band {band.name!r}: the illuminant has no light in it")
    return float(band.integral(fine, weight * np.interp(fine, grid, values))) / total


def material_band_table(materials: Sequence[Material], bands: Sequence[Band]) -> dict[str, NDArray[np.float32]]:
    """Columns of `material_table` for several bands, for the kernels of cameras.

    The columns of `SPECTRAL_COLUMNS` have shape (n_materials, n_bands), all others (n_materials,).
    """
    if not bands:
        raise ConfigError("a material table needs at least one band")
    rows = [[columns_of(material, band_reflectance(material, band)) for band in bands] for material in materials]
    table = {}
    for name, default in COLUMNS.items():
        values = np.array([[row.get(name, default) for row in line] for line in rows], np.float32)
        values = values.reshape(len(materials), len(bands))
        table[name] = values if name in SPECTRAL_COLUMNS else values[:, 0].copy()
    return table


# ---- Planck's law and photometry ------------------------------------------------------------------------------------


LUMENS_PER_WATT = 683.002
"""Maximum luminous efficacy K_m [lm/W], at 555 nm (CIE)."""

_V = np.array([
    3.9e-5, 1.2e-4, 3.96e-4, 0.00121, 0.004, 0.0116, 0.023, 0.038, 0.06, 0.09098, 0.13902, 0.20802, 0.323, 0.503, 0.71,
    0.862, 0.954, 0.99495, 0.995, 0.952, 0.87, 0.757, 0.631, 0.503, 0.381, 0.265, 0.175, 0.107, 0.061, 0.032, 0.017,
    0.00821, 0.004102, 0.002091, 0.001047, 5.2e-4, 2.49e-4, 1.2e-4, 6e-5, 3e-5, 1.5e-5,
])  # fmt: skip


@lru_cache(maxsize=1)
def eye_band() -> Band:
    """V(lambda) of the CIE 1924 photopic observer, 380 to 780 nm by 10 nm (CIE 18.2), as a band."""
    return Band("eye", np.arange(380.0, 781.0, 10.0), _V)


def luminous(wavelength_nm: ArrayLike, spectrum: ArrayLike) -> Floats:
    """Lumens from a spectrum (..., n) in W/nm at wavelengths (n,) [nm]; likewise lux, candela, cd/m^2."""
    # The band is normalised to a peak of 1; the CIE table with 10 nm steps peaks at 0.995.
    return LUMENS_PER_WATT * float(_V.max()) * eye_band().integral(wavelength_nm, spectrum)


def planck_radiance(wavelength_nm: ArrayLike, temperature_k: ArrayLike) -> Floats:
    """Spectral radiance of a black body [W/(m^2 sr nm)]; the two arguments broadcast, temperatures above 0."""
    metres = np.asarray(wavelength_nm, dtype=np.float64) * 1e-9
    temperature = np.asarray(temperature_k, dtype=np.float64)
    exponent = PLANCK_J_S * SPEED_OF_LIGHT_M_S / (metres * BOLTZMANN_J_K * temperature)
    front = 2.0 * PLANCK_J_S * SPEED_OF_LIGHT_M_S**2 / metres**5 * 1e-9
    # exp(-x) / (1 - exp(-x)) does not overflow for large x.
    return np.asarray(front * np.exp(-exponent) / -np.expm1(-exponent))


def glow_radiance(materials: Sequence[Material], bands: Sequence[Band], *, night: bool) -> NDArray[np.float32]:
    """Radiance of luminous materials in bands [W/(m^2 sr)], shape (materials, bands); 0 for those that are not lit."""
    found = np.zeros((len(materials), len(bands)), np.float32)
    for row, material in zip(found, materials, strict=True):
        glow = material.glow
        if glow is None or (glow.lit == "night" and not night):
            continue
        colour = np.ones(len(bands))
        if glow.filtered:
            grid = np.arange(400.0, 701.0, 5.0)
            light = planck_radiance(grid, glow.colour_temperature_k)
            passed = np.interp(grid * 1e-3, material.spectrum.wavelength_um, material.spectrum.reflectance)
            share = float(luminous(grid, light * passed)) / float(luminous(grid, light))
            colour = np.array([band_reflectance(material, band) for band in bands]) / share
        row[:] = colour * [glow.luminance_cd_m2 * radiant_per_lumen(glow.colour_temperature_k, band) for band in bands]
    return found


def radiant_per_lumen(colour_temperature_k: float, band: Band) -> float:
    """Power in a band [W] of a lamp of 1 lm with a black-body spectrum."""
    visible = np.arange(380.0, 781.0, 5.0)
    lumens = float(luminous(visible, planck_radiance(visible, colour_temperature_k)))
    first, last = band.range_nm
    grid = np.linspace(first, last, 201)
    return float(band.integral(grid, planck_radiance(grid, colour_temperature_k))) / lumens
