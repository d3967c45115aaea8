"""What a surface is made of: its reflectance by wavelength, its BRDF, and the columns that ray kernels gather."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from os import PathLike
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, field_validator, model_validator

from parhelion.core.arrays import Ints, Masks, Reals, namespace
from parhelion.core.config import Config, Fraction
from parhelion.core.errors import ConfigError
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

RefractiveIndex = Annotated[float, Field(gt=1, le=4)]


class SpectrumTable(Config):
    """Reflectance by wavelength, linear between the entries."""

    wavelength_um: list[Annotated[float, Field(gt=0)]] = Field(min_length=2)
    """Wavelengths [um], ascending."""
    reflectance: list[Fraction]
    """Hemispherical reflectance at near-normal incidence, the specular part included, one value a wavelength."""

    @model_validator(mode="after")
    def _table(self) -> SpectrumTable:
        if len(self.reflectance) != len(self.wavelength_um):
            raise ValueError(f"{len(self.reflectance)} values of reflectance for {len(self.wavelength_um)} wavelengths")
        if any(b <= a for a, b in zip(self.wavelength_um, self.wavelength_um[1:], strict=False)):
            raise ValueError("wavelength_um must ascend")
        return self


class LambertModel(Config):
    """Matt: the same radiance in all directions."""

    model: Literal["lambert"] = "lambert"


class OrenNayarModel(Config):
    """Matt and rough: brighter than Lambert where the source is behind the viewer, as a lidar's always is."""

    model: Literal["oren-nayar"]
    roughness_deg: Annotated[float, Field(ge=0, le=60)]
    """Standard deviation of the facets' slope angle."""


class PhongModel(Config):
    """Part matt, part a lobe around the mirror direction."""

    model: Literal["phong"]
    specular_share: Fraction
    """Share of the reflectance that goes into the lobe."""
    exponent: Annotated[float, Field(ge=1, le=10000)]


class CookTorranceModel(Config):
    """Facets that mirror: a dielectric coat over a diffuse body, or a rough metal."""

    model: Literal["cook-torrance"]
    roughness: Annotated[float, Field(ge=0.05, le=1)]
    refractive_index: RefractiveIndex | None = None
    """Of the coat; None is a metal, whose facets mirror the whole of the spectrum's reflectance."""


Brdf = Annotated[
    LambertModel | OrenNayarModel | PhongModel | CookTorranceModel | TabulatedModel | MitsubaModel,
    Field(discriminator="model"),
]


class Retro(Config):
    """Retro-reflecting lobe on top of the BRDF."""

    gain_per_sr: Annotated[float, Field(gt=0)]
    """BRDF towards the source at normal incidence [1/sr]: the coefficient of retroreflection in cd/(lx m^2)."""
    width_deg: Annotated[float, Field(gt=0, le=10)]
    """Standard deviation of the lobe in observation angle."""


class MirrorFinish(Config):
    """Smooth metal: the mirrored path goes on with this share of the power, at every angle."""

    kind: Literal["mirror"]
    reflectance: Fraction


class GlassPane(Config):
    """Smooth transparent pane: power splits into a mirrored and a transmitted path."""

    kind: Literal["glass"]
    refractive_index: RefractiveIndex
    transmittance: Annotated[float, Field(gt=0, le=1)]
    """Internal one-way transmittance at normal incidence, the losses at the two faces not included."""


class WaterSurface(Config):
    """Smooth surface of a deep body: power is mirrored or lost in the body; what the body returns is the spectrum."""

    kind: Literal["water"]
    refractive_index: RefractiveIndex


Specular = Annotated[MirrorFinish | GlassPane | WaterSurface, Field(discriminator="kind")]


class Material(Config):
    """A surface material. Library files are this model in YAML."""

    name: str = Field(min_length=1)
    description: str = ""
    sources: list[str] = Field(min_length=1)
    """Where the numbers come from, and which of them are assumed."""
    spectrum: SpectrumTable
    brdf: Brdf = LambertModel()
    retro: Retro | None = None
    specular: Specular | None = None
    """Mirrored and transmitted paths of a smooth surface, beside the diffuse return of spectrum and BRDF."""
    emissivity_thermal: Fraction | None = None
    """Mean emissivity in 8 to 14 um; None takes that of `surfaces/thermal.py`."""

    @field_validator("sources")
    @classmethod
    def _said(cls, sources: list[str]) -> list[str]:
        if not all(source.strip() for source in sources):
            raise ValueError("every source must say something")
        return sources

    @model_validator(mode="after")
    def _gives_back_no_more_than_it_gets(self) -> Material:
        total = max(self.spectrum.reflectance)
        if self.specular is not None:
            if isinstance(self.brdf, (PhongModel, CookTorranceModel)):
                raise ValueError(f"a specular surface has a lambert or oren-nayar brdf, not {self.brdf.model}")
            reflected, transmitted = specular_split(1.0, _specular_columns(self.specular))
            total += float(reflected) + float(transmitted)
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
        # The margin forgives the rounding of um to nm, nothing more.
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
        """A material with the reflectance of a spectrum file (`spectra.read_spectrum`), Lambertian by default.

        Noise that leaves 0 to 1 by no more than 0.1 is clipped; anything further is an error that names the file.
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
}
"""Columns of a material table, and the value each has where a material lacks that part: then it adds exactly 0."""


def material_table(materials: Sequence[Material], wavelength_nm: float) -> dict[str, NDArray[np.float32]]:
    """One row a material at the lidar's wavelength, each column of shape (n,): what kernels gather.

    `diffuse` [1] reflectance of the diffuse part; `sigma_rad` its Oren-Nayar roughness (0: Lambert); `phong_specular`,
    `phong_exponent` the Phong lobe; `ct_weight` 1 where a smooth surface covers the diffuse body (the Cook-Torrance
    lobe and the specular paths do), with `ct_roughness` and `ct_f0` of the lobe; `retro_gain` [1/sr] and
    `retro_width_rad`; `curve_level` reflectance of BRDFs that are curves;
    `mirror` share of the power on the mirrored path at normal incidence; `pane_index` refractive
    index of a glass pane or water (1: neither); `transmits` 1 where rays pass through; `pane_transmittance` internal.
    """
    rows = [columns_of(material, material.reflectance_at(wavelength_nm)) for material in materials]
    return {name: np.array([row.get(name, default) for row in rows], np.float32) for name, default in COLUMNS.items()}


def monostatic_brdf(cos_theta: Reals, columns: Mapping[str, Reals], *, texture: Reals = 1.0) -> Reals:
    """BRDF towards the sensor [1/sr]: the sum of a material's parts, without branches.

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
    """One row a material: the shape of BRDFs that are curves [1/sr], zeros for all others, shape (n, SAMPLES).

    Their BRDF is `curve_level` of the table times `curves.curve_value`, on top of `monostatic_brdf`.
    """
    rows = np.zeros((len(materials), SAMPLES), np.float32)
    for row, material in zip(rows, materials, strict=True):
        if isinstance(material.brdf, (TabulatedModel, MitsubaModel)):
            row[:] = monostatic_curve(material.brdf)
    return rows


def specular_split(cos_theta: Reals, columns: Mapping[str, Reals]) -> tuple[Reals, Reals]:
    """Power fractions on the mirrored and on the transmitted path at this incidence; both 0 for ordinary surfaces.

    Glass is a pane with two faces, water a half space that swallows what it does not mirror, a mirror the same at
    every angle. Unpolarised.
    """
    index = columns["pane_index"]
    xp = namespace(cos_theta, index)
    reflected, transmitted = thin_pane(cos_theta, index=index, transmittance=columns["pane_transmittance"])
    return xp.where(index > 1.0, reflected, columns["mirror"]), transmitted * columns["transmits"]


def columns_of(material: Material, reflectance: float) -> dict[str, float]:
    """One row of a material table for a reflectance of the spectrum; columns that the material lacks are left out."""
    row = {**_brdf_columns(material.brdf, reflectance)}
    if material.retro is not None:
        row["retro_gain"] = material.retro.gain_per_sr
        row["retro_width_rad"] = math.radians(material.retro.width_deg)
    if material.specular is not None:
        specular = _specular_columns(material.specular)
        row |= specular
        row["mirror"] = float(specular_split(1.0, specular)[0])
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
        f0 = float(normal_reflectance(index=brdf.refractive_index))
        # A measured hemispherical reflectance holds the coat's own reflection; the body gives the rest.
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


# ---- reflection -----------------------------------------------------------------------------------------------------
# What materials send back to the sensor, tabulated over the angle of incidence, so that kernels look it up.
# A BRDF with all its parts costs a kernel dozens of operations a ray; a table costs one access. Entries are f
# cos(theta)
# [1/sr], which stays finite at grazing incidence where f alone does not, even in u = (1 - cos theta)^(1/4): the angle
# is
# about sqrt(2) u^2, so the narrow lobes of glossy surfaces are resolved (17 steps within a lobe of 0.4 mrad).


STEPS = 1024


def reflection_table(materials: Sequence[Material], wavelength_nm: float, *, textured: bool) -> NDArray[np.float32]:
    """One block of STEPS rows a material: f cos(theta) at the row's angle, and how much it changes to the next row.

    Two columns for all of the BRDF together; where `textured`, two for the part that a texture multiplies and two for
    the rest. Lines between rows are within 0.3 % of the BRDF for any roughness above 0.02.
    """
    cos = 1.0 - np.linspace(0.0, 1.0, STEPS + 1) ** 4
    columns = {
        name: values.astype(np.float64)[:, None] for name, values in material_table(materials, wavelength_nm).items()
    }
    number = np.arange(len(materials))[:, None]
    curve = columns["curve_level"] * curve_value(
        np.broadcast_to(cos, (len(materials), STEPS + 1)), number, material_curves(materials).astype(np.float64).ravel()
    )
    # At grazing incidence itself f may be infinite, but f cos is not: the last angle is a little above it.
    near = np.maximum(cos, 1e-9)
    gloss = monostatic_brdf(near, columns, texture=0.0)
    body = monostatic_brdf(near, columns) - gloss + curve
    parts = [body, gloss] if textured else [body + gloss]
    rows = [column for part in parts for column in ((part * near)[:, :-1], np.diff(part * near, axis=1))]
    return np.stack(rows, axis=-1).astype(np.float32)


def reflected(cos_theta: Reals, material: Ints, table: Reals, *, texture: Reals = None, active: Masks = True) -> Reals:
    """f cos(theta) [1/sr] of materials by number; `table` is a reflection table, flat, NumPy or Dr.Jit.

    `texture` in [0, 1] multiplies the diffuse part, and is given where the table was made for textures.
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
