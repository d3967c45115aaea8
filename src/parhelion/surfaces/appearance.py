"""Appearance of surfaces in visible light: base colour, roughness, metalness, normal, emission and opacity.

This is the metallic-roughness model of glTF 2.0, https://registry.khronos.org/glTF/specs/2.0/glTF-2.0.html, section
3.9. Factors are linear; base and emissive textures are encoded with the sRGB curve. Cameras use it in the bands red,
green, blue and mono. All other sensors and bands use the material class of the surface.

BRDF: B. Burley, "Physically Based Shading at Disney", SIGGRAPH 2012, and "Extending the Disney BRDF to a BSDF",
SIGGRAPH 2015, for the diffuse part; Walter et al. 2007 (GGX with Smith's shadowing) for the facets. It equals Mitsuba's
plugin `principled` with `specular` 0.5 where `diffuse_limit` does not apply.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ConfigError
from parhelion.surfaces.brdf import INV_PI, fresnel_dielectric
from parhelion.surfaces.texture import LARGEST_SIDE

DIELECTRIC_INDEX = 1.5
"""Refractive index of non-metals: 4 % reflectance at normal incidence (glTF 2.0, appendix B.3.2)."""
LEAST_ROUGHNESS = 0.05
"""Smallest roughness; smoother facets would be narrower than the sampled lobe resolves."""
LARGEST_EMISSION_CD_M2 = 1e9
"""Largest emission [cd/m^2]; the sun has 1.6e9."""

AlphaMode = Literal["opaque", "mask", "blend"]


@dataclass(frozen=True, eq=False)
class Picture:
    """An image of 8 bits per channel. Row 0 is at the top, which is at v = 1."""

    pixels: NDArray[np.uint8]
    """Red, green, blue and alpha, shape (height, width, 4)."""
    name: str = ""
    """Name in messages."""

    def __post_init__(self) -> None:
        shape = self.pixels.shape
        if self.pixels.dtype != np.uint8 or len(shape) != 3 or shape[2] != 4 or 0 in shape:
            raise ConfigError(f"{self.name}: an image must have shape (height, width, 4) of uint8, got {shape}")
        if max(shape[:2]) > LARGEST_SIDE:
            raise ConfigError(
                f"{self.name}: {shape[1]} x {shape[0]} pixels exceed the limit of {LARGEST_SIDE} per side"
            )

    @property
    def has_alpha(self) -> bool:
        """True if any pixel is not opaque."""
        return bool((self.pixels[..., 3] < 255).any())


@dataclass(frozen=True, eq=False)
class Appearance:
    """Metallic-roughness appearance of one material in a model file."""

    base: tuple[float, float, float] = (1.0, 1.0, 1.0)
    """Linear red, green and blue in [0, 1]: diffuse albedo of non-metals, reflectance at normal incidence of metals."""
    opacity: float = 1.0
    metallic: float = 0.0
    roughness: float = 1.0
    """Perceptual roughness in [0, 1]; GGX alpha is its square."""
    emission_cd_m2: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Emission of each channel, as the luminance [cd/m^2] of white with that channel's level."""
    normal_scale: float = 1.0
    alpha_mode: AlphaMode = "opaque"
    alpha_cutoff: float = 0.5
    """Smallest opacity that is visible in the mode `mask`."""
    base_picture: Picture | None = field(default=None, repr=False)
    """sRGB colours that multiply `base`; alpha multiplies `opacity`."""
    surface_picture: Picture | None = field(default=None, repr=False)
    """Green multiplies the roughness and blue the metalness."""
    normal_picture: Picture | None = field(default=None, repr=False)
    """Tangent-space normals: red along u, green along v (up), blue along the normal."""
    glow_picture: Picture | None = field(default=None, repr=False)
    """sRGB colours that multiply the emission."""

    @property
    def pictures(self) -> tuple[Picture | None, Picture | None, Picture | None, Picture | None]:
        """Images for base colour, surface, normal and emission."""
        return self.base_picture, self.surface_picture, self.normal_picture, self.glow_picture

    @property
    def has_pictures(self) -> bool:
        """True if any property comes from an image, so that texture coordinates are needed."""
        return any(picture is not None for picture in self.pictures)

    @property
    def has_holes(self) -> bool:
        """True if rays can pass through."""
        if self.alpha_mode == "opaque":
            return False
        return self.opacity < 1.0 or (self.base_picture is not None and self.base_picture.has_alpha)

    def mean_colour(self) -> tuple[float, float, float]:
        """Mean linear base colour of the visible texels."""
        if self.base_picture is None:
            return self.base
        pixels = self.base_picture.pixels
        step = max(1, int(np.sqrt(pixels.shape[0] * pixels.shape[1] / 65536)))
        few = pixels[::step, ::step].reshape(-1, 4)
        weight = few[:, 3].astype(np.float64) if self.alpha_mode != "opaque" else np.ones(len(few))
        light = SRGB_TO_LINEAR[few[:, :3]]
        mean = (light * weight[:, None]).sum(axis=0) / max(float(weight.sum()), 1e-9)
        red, green, blue = (float(value) for value in mean * np.asarray(self.base))
        return red, green, blue


def _srgb_table() -> NDArray[np.float32]:
    value = np.arange(256) / 255.0
    return np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4).astype(np.float32)


SRGB_TO_LINEAR = _srgb_table()
"""Linear light of each 8-bit sRGB value, shape (256,)."""


# ---- BRDF -----------------------------------------------------------------------------------------------------------


def burley_diffuse(cos_i: Reals, cos_o: Reals, cos_d: Reals, *, roughness: Reals) -> Reals:
    """Diffuse BRDF of Burley 2015 for a base colour of 1 [1/sr].

        f = 1/pi ((1 - Fi / 2) (1 - Fo / 2) + R (Fi + Fo + Fi Fo (R - 1))),  F = (1 - cos)^5,  R = 2 roughness cos_d^2

    `cos_d` is the cosine between either direction and the half vector. Reciprocal. Unlike a Lambertian surface, rough
    ones are brighter and smooth ones darker at grazing angles.
    """
    enters_i, enters_o = _weight(cos_i), _weight(cos_o)
    retro = 2.0 * roughness * cos_d * cos_d
    smooth = (1.0 - 0.5 * enters_i) * (1.0 - 0.5 * enters_o)
    return INV_PI * (smooth + retro * (enters_i + enters_o + enters_i * enters_o * (retro - 1.0)))


def facet_shape(cos_i: Reals, cos_o: Reals, cos_h: Reals, *, roughness: Reals) -> Reals:
    """GGX facets without their Fresnel term [1/sr]: D G1(i) G1(o) / (4 cos_i cos_o), all cosines above 0."""
    a2 = roughness * roughness * roughness * roughness
    spread = (1.0 - cos_h) * (1.0 + cos_h) + a2 * cos_h * cos_h
    # G1 = 2 cos / (cos + sqrt(a^2 + (1 - a^2) cos^2)), so that G1(i) G1(o) / (4 cos_i cos_o) = 1 / (.. ..).
    return a2 * INV_PI / (spread * spread * _smith(cos_i, a2) * _smith(cos_o, a2))


def facet_reflectance(cos_d: Reals, *, base: Reals, metallic: Reals, dielectric: Reals) -> Reals:
    """Fresnel reflectance of facets: a dielectric of index 1.5 mixed with a metal of the reflectance `base`.

    `dielectric` is the result of `dielectric_reflectance`, which is the same for all bands.
    """
    return (1.0 - metallic) * dielectric + metallic * (base + (1.0 - base) * _weight(cos_d))


def dielectric_reflectance(cos_d: Reals) -> Reals:
    """Fresnel reflectance of a dielectric of index 1.5."""
    return fresnel_dielectric(cos_d, index=DIELECTRIC_INDEX)


def metallic_roughness(
    cos_i: Reals, cos_o: Reals, cos_io: Reals, *, base: Reals, metallic: Reals, roughness: Reals
) -> Reals:
    """Whole BRDF [1/sr] for two directions above the surface and the cosine between them."""
    xp = namespace(cos_i, cos_o, cos_io)
    length = xp.sqrt(xp.maximum(2.0 + 2.0 * cos_io, 1e-30))  # |wi + wo|
    cos_h, cos_d = xp.clip((cos_i + cos_o) / length, 0.0, 1.0), 0.5 * length
    facets = facet_shape(cos_i, cos_o, cos_h, roughness=roughness)
    mirrored = facet_reflectance(cos_d, base=base, metallic=metallic, dielectric=dielectric_reflectance(cos_d))
    kept = diffuse_limit(xp.minimum(cos_i, cos_o), roughness=roughness)
    body = burley_diffuse(cos_i, cos_o, cos_d, roughness=roughness)
    return (1.0 - metallic) * xp.minimum(base, kept) * body + facets * mirrored


def diffuse_limit(cos: Reals, *, roughness: Reals) -> Reals:
    """Largest base colour of a non-metal at which a surface reflects no more light than arrives.

    Burley's diffuse part and the facets do not share their energy: near grazing incidence, surfaces with a base colour
    above about 0.6 would reflect up to 1.5 times the incident light. `cos` is the smaller cosine of the two directions,
    so that the BRDF remains reciprocal. Fits to the hemispherical albedos by quadrature: of the diffuse part within
    0.025, and an upper bound for the facets, for a roughness of 0.15 to 1.
    """
    flat = 1.0 - namespace(cos, roughness).clip(cos, 0.0, 1.0)
    smooth = 1.0 - roughness
    diffuse = 1.0 + 0.0674 * roughness + (1.0637 * roughness - 0.5065) * _weight(cos)
    facets = 0.04 + (0.015 + 0.72 * smooth * smooth) * flat * flat
    return (1.0 - facets) / diffuse


def _weight(cos: Reals) -> Reals:
    """Schlick's weight (1 - cos)^5."""
    grazing = 1.0 - namespace(cos).clip(cos, 0.0, 1.0)
    square = grazing * grazing
    return square * square * grazing


def _smith(cos: Reals, a2: Reals) -> Reals:
    """Denominator of Smith's G1: cos + sqrt(a^2 + (1 - a^2) cos^2)."""
    xp = namespace(cos, a2)
    above = xp.maximum(cos, 1e-4)
    return above + xp.sqrt(a2 + (1.0 - a2) * above * above)
