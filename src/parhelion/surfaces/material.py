"""Materials: reflectance by wavelength, BRDF, and the columns that ray kernels gather."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Annotated, Any, Literal, TypeVar, cast

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from parhelion.core.arrays import Ints, Masks, Reals, namespace
from parhelion.core.config import Config, Fraction
from parhelion.core.errors import ConfigError
from parhelion.core.water import diffuse_attenuation_per_m, mean_square_slope
from parhelion.surfaces.brdf import (
    SAMPLES,
    MitsubaModel,
    TabulatedModel,
    coat_factor,
    cook_torrance,
    curve_value,
    monostatic_curve,
    normal_reflectance,
    oren_nayar,
    phong_lobe,
    retro_lobe,
    thin_pane,
)
from parhelion.surfaces.pattern import Pattern

RefractiveIndex = Annotated[float, Field(gt=1, le=4)]


class SpectrumTable(Config):
    """Reflectance by wavelength, linear between the entries."""

    wavelength_um: list[Annotated[float, Field(gt=0)]] = Field(min_length=2)
    """Wavelengths [um], ascending."""
    reflectance: list[Fraction]
    """Hemispherical reflectance at near-normal incidence, including the specular part, one value per wavelength."""

    @model_validator(mode="after")
    def _table(self) -> SpectrumTable:
        if len(self.reflectance) != len(self.wavelength_um):
            raise ValueError(f"{len(self.reflectance)} values of reflectance for {len(self.wavelength_um)} wavelengths")
        if any(b <= a for a, b in zip(self.wavelength_um, self.wavelength_um[1:], strict=False)):
            raise ValueError("wavelength_um must ascend")
        return self


class LambertModel(Config):
    """Lambertian surface: the same radiance in all directions."""

    model: Literal["lambert"] = "lambert"


class OrenNayarModel(Config):
    """Rough diffuse surface: brighter than Lambert where the source is behind the viewer, as for a lidar."""

    model: Literal["oren-nayar"]
    roughness_deg: Annotated[float, Field(ge=0, le=60)]
    """Standard deviation of the facet slope angle [deg]."""


class PhongModel(Config):
    """Diffuse part plus a lobe around the mirror direction."""

    model: Literal["phong"]
    specular_share: Fraction
    """Fraction of the reflectance in the lobe."""
    exponent: Annotated[float, Field(ge=1, le=10000)]
    """Exponent of the lobe."""


class CookTorranceModel(Config):
    """Specular facets: a dielectric coat over a diffuse body, or a rough metal."""

    model: Literal["cook-torrance"]
    roughness: Annotated[float, Field(ge=0.05, le=1)]
    """Roughness of the facets; GGX alpha is its square."""
    refractive_index: RefractiveIndex | None = None
    """Refractive index of the coat; None is a metal, whose facets carry the whole reflectance of the spectrum."""


Brdf = Annotated[
    LambertModel | OrenNayarModel | PhongModel | CookTorranceModel | TabulatedModel | MitsubaModel,
    Field(discriminator="model"),
]


class Retro(Config):
    """Retro-reflective lobe in addition to the BRDF."""

    gain_per_sr: Annotated[float, Field(gt=0)]
    """BRDF towards the source at normal incidence [1/sr]: the coefficient of retroreflection in cd/(lx m^2)."""
    width_deg: Annotated[float, Field(gt=0, le=10)]
    """Standard deviation of the lobe in observation angle [deg]."""


class MirrorFinish(Config):
    """Smooth metal: the reflected path carries a constant fraction of the power."""

    kind: Literal["mirror"]
    reflectance: Fraction
    """Power fraction of the reflected path, at every angle."""


class GlassPane(Config):
    """Smooth transparent pane: power splits into a reflected and a transmitted path."""

    kind: Literal["glass"]
    refractive_index: RefractiveIndex
    """Refractive index of the glass."""
    transmittance: Annotated[float, Field(gt=0, le=1)]
    """Internal one-way transmittance at normal incidence, without the reflection losses at the two faces."""


class WaterSurface(Config):
    """Smooth surface of deep water: power is reflected or lost in the body, whose diffuse return is the spectrum."""

    kind: Literal["water"]
    refractive_index: RefractiveIndex
    """Refractive index of the water."""
    attenuation_532_per_m: Annotated[float, Field(gt=0, le=100)] | None = None
    """Diffuse attenuation coefficient K_d of the water at 532 nm [1/m], for lidars, which then see the bottom through
    the surface; None is water without a visible bottom."""
    wind_speed_m_s: Annotated[float, Field(ge=0.5, le=20)] | None = None
    """Wind that roughens the surface below the size of the mesh, for the return of the surface; None is smooth."""


Specular = Annotated[MirrorFinish | GlassPane | WaterSurface, Field(discriminator="kind")]


class Glow(Config):
    """Light of a luminous surface, such as the lens of a lamp: the same in all directions.

    Cameras see it directly, in mirrors and through panes. Light on other surfaces comes from the lamps of the world.
    """

    luminance_cd_m2: Annotated[float, Field(gt=0, le=1e9)]
    colour_temperature_k: Annotated[float, Field(ge=1000, le=20000)] = 3000.0
    """Temperature of a black body with the same spectrum."""
    lit: Literal["night", "always"] = "night"
    """Times when it is lit."""
    filtered: bool = False
    """True if the light passes through the material, whose spectrum colours it."""


class Material(Config):
    """Surface material. Library files contain this model in YAML.

    >>> from parhelion.surfaces.library import material
    >>> round(material("concrete").reflectance_at(905.0), 2)
    0.32
    """

    name: str = Field(min_length=1)
    """Name of the material."""
    description: str = ""
    """One-line description."""
    sources: list[str] = Field(min_length=1)
    """Sources of the numbers, and which of them are assumed."""
    spectrum: SpectrumTable
    """Hemispherical reflectance by wavelength."""
    brdf: Brdf = LambertModel()
    """Angular distribution of the reflected light."""
    retro: Retro | None = None
    """Retro-reflective lobe."""
    specular: Specular | None = None
    """Reflected and transmitted paths of a smooth surface, in addition to the diffuse return of spectrum and BRDF."""
    emissivity_thermal: Fraction | None = None
    """Mean emissivity in 8 to 14 um; None uses the table of `surfaces/thermal.py`."""
    glow: Glow | None = None
    """Light that the surface emits, as cameras see it; None for none."""
    pattern: Pattern | None = None
    """Variation of the diffuse reflectance over the surface, in worlds with patterns; None for uniform surfaces."""

    @field_validator("sources")
    @classmethod
    def _not_blank(cls, sources: list[str]) -> list[str]:
        if not all(source.strip() for source in sources):
            raise ValueError("every source must contain text")
        return sources

    @model_validator(mode="after")
    def _conserves_energy(self) -> Material:
        total = max(self.spectrum.reflectance)
        if self.specular is not None:
            if isinstance(self.brdf, (PhongModel, CookTorranceModel)):
                raise ValueError(f"a specular surface has a lambert or oren-nayar brdf, not {self.brdf.model}")
            reflected, transmitted = specular_split(1.0, _specular_columns(self.specular))
            total += float(cast(float, reflected))
            if not isinstance(self.specular, WaterSurface):  # what returns from the body of water is part of the light
                total += float(cast(float, transmitted))
        if self.retro is not None:
            total += 2.0 * math.pi * self.retro.gain_per_sr * math.radians(self.retro.width_deg) ** 2
        if total > 1.0 + 1e-9:
            raise ValueError(f"diffuse, specular and retro-reflected light add up to {total:.3f} of the incident light")
        return self

    @property
    def wavelength_range_nm(self) -> tuple[float, float]:
        """First and last wavelength of the spectrum [nm]."""
        return self.spectrum.wavelength_um[0] * 1e3, self.spectrum.wavelength_um[-1] * 1e3

    def reflectance_at(self, wavelength_nm: float) -> float:
        """Hemispherical reflectance at one wavelength, linear between the table's entries."""
        first, last = self.wavelength_range_nm
        # The margin only absorbs the rounding of um to nm.
        if not first - 1e-6 <= wavelength_nm <= last + 1e-6:
            raise ConfigError(
                f"material {self.name!r}: the spectrum covers {first:g} to {last:g} nm, not {wavelength_nm:g} nm"
            )
        return float(np.interp(wavelength_nm * 1e-3, self.spectrum.wavelength_um, self.spectrum.reflectance))

    @classmethod
    def from_spectrum(
        cls,
        path: str | PathLike[str],
        *,
        name: str | None = None,
        brdf: LambertModel | OrenNayarModel | PhongModel | CookTorranceModel | None = None,
    ) -> Material:
        """Material with the reflectance of a spectrum file (`spectra.read_spectrum`), Lambertian by default.

        Values outside 0 to 1 by at most 0.1 are treated as noise and clipped; larger deviations are an error.
        """
        from parhelion.surfaces.spectra import read_spectrum

        spectrum = read_spectrum(path)
        low, high = float(spectrum.reflectance.min()), float(spectrum.reflectance.max())
        if low < -0.1 or high > 1.1:
            raise ConfigError(f"{path}: reflectance must lie within 0 to 1, found {low:g} to {high:g}")
        return cls(
            name=name or spectrum.name,
            description=spectrum.header.get("Description", ""),
            sources=[f"spectrum file {path}"],
            spectrum=SpectrumTable(
                wavelength_um=spectrum.wavelength_um.tolist(),
                reflectance=np.clip(spectrum.reflectance, 0.0, 1.0).tolist(),
            ),
            brdf=brdf or LambertModel(),
        )


COLUMNS: Mapping[str, float] = {
    "diffuse": 0.0,
    "sigma_rad": 0.0,
    "phong_specular": 0.0,
    "phong_exponent": 1.0,
    "ct_weight": 0.0,
    "ct_roughness": 1.0,
    "ct_f0": 0.0,
    "retro_gain": 0.0,
    "retro_width_rad": 1.0,
    "curve_level": 0.0,
    "mirror": 0.0,
    "pane_index": 1.0,
    "transmits": 0.0,
    "pane_transmittance": 0.0,
    "water_attenuation": 0.0,
    "rough_water": 0.0,
}
"""Columns of a material table, and their neutral values, which contribute exactly 0."""


def material_table(materials: Sequence[Material], wavelength_nm: float) -> dict[str, NDArray[np.float32]]:
    """Columns of shape (n,) with one row per material at one wavelength, for kernels.

    `diffuse` [1] reflectance of the diffuse part; `sigma_rad` its Oren-Nayar roughness (0: Lambert); `phong_specular`,
    `phong_exponent` the Phong lobe; `ct_weight` 1 where a smooth surface covers the diffuse body (the Cook-Torrance
    lobe and the specular paths do), with `ct_roughness` and `ct_f0` of the lobe; `retro_gain` [1/sr] and
    `retro_width_rad`; `curve_level` reflectance of BRDFs that are curves; `mirror` power fraction of the reflected path
    at normal incidence; `pane_index` refractive index of a glass pane or water (1: neither); `transmits` 1 where rays
    pass through; `pane_transmittance` internal transmittance; `water_attenuation` [1/m] that of water with a visible
    bottom (0: none); `rough_water` 1 where facets scatter the reflected light instead of a mirrored path.
    """

    def made() -> dict[str, NDArray[np.float32]]:
        rows = [columns_of(material, material.reflectance_at(wavelength_nm)) for material in materials]
        for row, material in zip(rows, materials, strict=True):
            if isinstance(material.specular, WaterSurface):
                row |= _water_columns(material.specular, wavelength_nm)
        return {
            name: np.array([row.get(name, default) for row in rows], np.float32) for name, default in COLUMNS.items()
        }

    return {name: column.copy() for name, column in _cached(materials, "columns", wavelength_nm, made).items()}


_Made = TypeVar("_Made")
_MOST_TABLES = 64
_tables: dict[tuple[Any, ...], tuple[tuple[Material, ...], Any]] = {}


def _cached(materials: Sequence[Material], kind: str, wavelength_nm: float, make: Callable[[], _Made]) -> _Made:
    """Result for materials, which are immutable: a world asks for the same ones after each edit."""
    key = (kind, wavelength_nm, *map(id, materials))
    entry = _tables.get(key)
    if entry is None:
        for old in list(_tables)[: len(_tables) + 1 - _MOST_TABLES]:
            _tables.pop(old, None)
        # While the entry exists, no other material can have these ids.
        entry = _tables[key] = tuple(materials), make()
    made: _Made = entry[1]
    return made


def monostatic_brdf(cos_theta: Reals, columns: Mapping[str, Reals], *, texture: Reals = 1.0) -> Reals:
    """Monostatic BRDF [1/sr]: the sum of a material's parts, without branches.

    `cos_theta` is the cosine of incidence in [0, 1]; `columns` are a table's columns gathered by material, NumPy or
    Dr.Jit; `texture` in [0, 1] multiplies the diffuse part.
    """
    cos = namespace(cos_theta, columns["diffuse"]).clip(cos_theta, 0.0, 1.0)
    covered = columns["ct_weight"]
    body = oren_nayar(cos, reflectance=columns["diffuse"] * texture, sigma_rad=columns["sigma_rad"])
    return (
        body * (1.0 + covered * (coat_factor(cos) - 1.0))
        + phong_lobe(cos, specular=columns["phong_specular"], exponent=columns["phong_exponent"])
        + covered * cook_torrance(cos, roughness=columns["ct_roughness"], f0=columns["ct_f0"])
        + retro_lobe(cos, gain=columns["retro_gain"], width_rad=columns["retro_width_rad"])
    )


def material_curves(materials: Sequence[Material]) -> NDArray[np.float32]:
    """Shapes of BRDFs that are curves [1/sr], one row per material, zeros for all others, shape (n, SAMPLES).

    Their BRDF is `curve_level` of the table times `curve_value`, in addition to `monostatic_brdf`.
    """
    rows = np.zeros((len(materials), SAMPLES), np.float32)
    for row, material in zip(rows, materials, strict=True):
        if isinstance(material.brdf, (TabulatedModel, MitsubaModel)):
            row[:] = monostatic_curve(material.brdf)
    return rows


def specular_split(cos_theta: Reals, columns: Mapping[str, Reals]) -> tuple[Reals, Reals]:
    """Power fractions of the reflected and the transmitted path at this incidence; both are 0 for ordinary surfaces.

    Glass is a pane with two faces, water a half space that refracts the light, and absorbs it unless its attenuation is
    known, and a mirror reflects the same fraction at every angle. Unpolarised.
    """
    index = columns["pane_index"]
    xp = namespace(cos_theta, index)
    reflected, transmitted = thin_pane(cos_theta, index=index, transmittance=columns["pane_transmittance"])
    transmitted = transmitted * columns["transmits"]
    clear: Any = columns.get("water_attenuation", 0.0)
    if not (isinstance(clear, float) and clear == 0.0):
        transmitted = xp.where(clear > 0.0, 1.0 - reflected, transmitted)
    rough: Any = columns.get("rough_water", 0.0)
    if not (isinstance(rough, float) and rough == 0.0):
        reflected = reflected * (1.0 - rough)
    return xp.where(index > 1.0, reflected, columns["mirror"]), transmitted


def columns_of(material: Material, reflectance: float) -> dict[str, float]:
    """Row of a material table for a reflectance; columns with neutral values are omitted."""
    row = {**_brdf_columns(material.brdf, reflectance)}
    if material.retro is not None:
        row["retro_gain"] = material.retro.gain_per_sr
        row["retro_width_rad"] = math.radians(material.retro.width_deg)
    if material.specular is not None:
        specular = _specular_columns(material.specular)
        row |= specular
        row["mirror"] = float(cast(float, specular_split(1.0, specular)[0]))
        row["ct_weight"] = 1.0  # the diffuse part of glass and water lies below their surface
    return row


def _brdf_columns(brdf: Config, reflectance: float) -> dict[str, float]:
    if isinstance(brdf, OrenNayarModel):
        return {"diffuse": reflectance, "sigma_rad": math.radians(brdf.roughness_deg)}
    if isinstance(brdf, (TabulatedModel, MitsubaModel)):
        return {"curve_level": reflectance}
    if isinstance(brdf, PhongModel):
        specular = reflectance * brdf.specular_share
        return {"diffuse": reflectance - specular, "phong_specular": specular, "phong_exponent": brdf.exponent}
    if isinstance(brdf, CookTorranceModel):
        lobe = {"ct_weight": 1.0, "ct_roughness": brdf.roughness}
        if brdf.refractive_index is None:
            return {**lobe, "ct_f0": reflectance}
        f0 = float(cast(float, normal_reflectance(index=brdf.refractive_index)))
        # A measured hemispherical reflectance includes the reflection of the coat; the body provides the remainder.
        return {**lobe, "ct_f0": f0, "diffuse": max(reflectance - f0, 0.0)}
    return {"diffuse": reflectance}


def _specular_columns(specular: Config) -> dict[str, Any]:
    row: dict[str, Any] = {"mirror": 0.0, "pane_index": 1.0, "transmits": 0.0, "pane_transmittance": 0.0}
    if isinstance(specular, MirrorFinish):
        row["mirror"] = specular.reflectance
    elif isinstance(specular, GlassPane):
        row |= {"pane_index": specular.refractive_index, "transmits": 1.0, "pane_transmittance": specular.transmittance}
    elif isinstance(specular, WaterSurface):
        row["pane_index"] = specular.refractive_index
    return row


def _water_columns(water: WaterSurface, wavelength_nm: float) -> dict[str, float]:
    """Columns of water for lidars only; cameras see a smooth surface over the water's own colour."""
    row = {}
    if water.attenuation_532_per_m is not None:
        row["water_attenuation"] = diffuse_attenuation_per_m(water.attenuation_532_per_m, wavelength_nm)
    if water.wind_speed_m_s is not None:
        # Facets that face the sensor carry the reflected light; GGX alpha^2 is the mean square slope.
        row["ct_roughness"] = float(mean_square_slope(water.wind_speed_m_s) ** 0.25)
        row["ct_f0"] = float(cast(float, normal_reflectance(index=water.refractive_index)))
        row["rough_water"] = 1.0
    return row


# ---- reflection -----------------------------------------------------------------------------------------------------
# Monostatic reflection tabulated over the angle of incidence. A BRDF with all its parts costs dozens of operations per
# ray; a table costs one access. Entries are f cos(theta) [1/sr], which stays finite at grazing incidence where f alone
# does not. They are uniform in u = (1 - cos theta)^(1/4): the angle is about sqrt(2) u^2, so narrow lobes of glossy
# surfaces are resolved (17 steps within a lobe of 0.4 mrad).


STEPS = 1024


def reflection_table(
    materials: Sequence[Material],
    wavelength_nm: float,
    *,
    textured: bool,
    table: Mapping[str, NDArray[Any]] | None = None,
) -> NDArray[np.float32]:
    """Table of f cos(theta) with STEPS rows per material: value at the row's angle, and difference to the next row.

    `table` are other columns than those of `material_table`, for example of wet surfaces. There are two columns for
    the whole BRDF; with `textured`, two for the part that a texture multiplies and two for the remainder. Linear
    interpolation is within 0.3 % of the BRDF for any roughness above 0.02.
    """
    if table is None:
        dry = material_table(materials, wavelength_nm)
        kind = "textured reflection" if textured else "reflection"
        return _cached(materials, kind, wavelength_nm, lambda: _reflection(materials, dry, textured=textured)).copy()
    return _reflection(materials, table, textured=textured)


def _reflection(
    materials: Sequence[Material], table: Mapping[str, NDArray[Any]], *, textured: bool
) -> NDArray[np.float32]:
    """Reflection table of materials with given columns."""
    cos = 1.0 - np.linspace(0.0, 1.0, STEPS + 1) ** 4
    columns = {name: values.astype(np.float64)[:, None] for name, values in table.items()}
    number = np.arange(len(materials))[:, None]
    curve = columns["curve_level"] * curve_value(
        np.broadcast_to(cos, (len(materials), STEPS + 1)), number, material_curves(materials).astype(np.float64).ravel()
    )
    # At grazing incidence f may be infinite while f cos is not, so the last angle is slightly above it.
    near = np.maximum(cos, 1e-9)
    gloss = monostatic_brdf(near, columns, texture=0.0)
    body = monostatic_brdf(near, columns) - gloss + curve
    parts = [body, gloss] if textured else [body + gloss]
    rows = [column for part in parts for column in ((part * near)[:, :-1], np.diff(part * near, axis=1))]
    return np.stack(rows, axis=-1).astype(np.float32)


def reflected(
    cos_theta: Reals, material: Ints, table: Any, *, texture: Reals | None = None, active: Masks | bool = True
) -> Reals:
    """f cos(theta) [1/sr] of materials by number; `table` is a flat reflection table, NumPy or Dr.Jit.

    `texture` in [0, 1] multiplies the diffuse part; it is required if the table was made with `textured`.
    """
    xp = namespace(cos_theta, material)
    place = xp.sqrt(xp.sqrt(xp.abs(1.0 - cos_theta))) * float(STEPS)
    row = xp.uint32(place)
    row = xp.where(row < STEPS, row, STEPS - 1)
    start, along = material * STEPS + row, place - xp.float_of(row)
    if xp.name == "numpy":
        found = table.reshape(-1, 2 if texture is None else 4)[start].T
    else:
        import drjit as dr
        import mitsuba as mi

        found = dr.gather(mi.Vector2f if texture is None else mi.Vector4f, table, start, active)
    body = found[0] + along * found[1]
    return body if texture is None else texture * body + found[2] + along * found[3]
