"""BRDFs [1/sr], written once for NumPy and Dr.Jit arrays.

A lidar measures along its own beam, so the plain functions are monostatic: incident direction, reflected direction and
half vector coincide, and the BRDF is a function of `cos_theta`, the cosine between the normal on the sensor's side and
the direction to the sensor. The `*_between` forms take the cosines of any two directions and agree with the monostatic
form where the directions coincide. No value includes the cosine of the link budget. Sampling of directions is in
`sensors/optics/camera/scene.py`.

Sources: modified Phong, VANE (ERDC/GSL TR-20-32) eq. 2.7 after Lafortune and Willems 1994; Oren and Nayar 1994;
Cook and Torrance 1982 with the distribution of Walter et al. 2007 (GGX), Schlick 1994's Fresnel term and the
shadowing of Karis 2013; diffuse light under a coat after the coupling of Ashikhmin and Shirley 2000.
"""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from parhelion.core.arrays import Reals, namespace
from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, MissingDependencyError

GRAZING_COS = 0.01
"""Smallest cosine (89.4 degrees) in the tangent of Oren-Nayar, which is unbounded at grazing incidence."""

INV_PI = 1.0 / math.pi


def lambert(*, reflectance: Reals) -> Reals:
    """Lambertian BRDF [1/sr]: reflectance / pi at every angle."""
    return reflectance * INV_PI


def modified_phong(cos_theta: Reals, *, diffuse: Reals, specular: Reals, exponent: Reals) -> Reals:
    """Modified Phong BRDF, monostatic [1/sr].

        f = kd / pi + ks (n + 2) / (2 pi) max(cos 2 theta, 0)^n

    The mirror direction has the angle 2 theta to the sensor's direction. Valid for kd, ks >= 0, kd + ks <= 1 and
    n >= 1, where the albedo is at most kd + ks; other values raise ConfigError (NumPy input; kernels receive validated
    tables).
    """
    _check_phong(diffuse, specular, exponent)
    return lambert(reflectance=diffuse) + phong_lobe(cos_theta, specular=specular, exponent=exponent)


def phong_lobe(cos_theta: Reals, *, specular: Reals, exponent: Reals) -> Reals:
    """Specular part of `modified_phong`, monostatic [1/sr], not validated."""
    return _phong_lobe(2.0 * cos_theta * cos_theta - 1.0, specular, exponent)


def oren_nayar(cos_theta: Reals, *, reflectance: Reals, sigma_rad: Reals) -> Reals:
    """Oren-Nayar BRDF of Lambertian facets whose slope angle has standard deviation `sigma_rad`, monostatic [1/sr].

        f = rho / pi (A + B sin theta tan theta),  A = 1 - 0.5 s / (s + 0.33),  B = 0.45 s / (s + 0.09),  s = sigma^2

    (ApolloSim eq. 4.6.) The albedo of this form rises to rho (A + B / 2) at grazing incidence, up to 1.5 % above rho,
    so `reflectance` is limited to 1 / (A + B / 2). Interreflections between facets are neglected, as in the source.
    """
    cos = namespace(cos_theta, reflectance).maximum(cos_theta, 0.0)
    return _oren_nayar(1.0 - cos * cos, cos, reflectance, sigma_rad)


def cook_torrance(cos_theta: Reals, *, roughness: Reals, f0: Reals) -> Reals:
    """Cook-Torrance specular BRDF, monostatic [1/sr]: D G F / (4 cos^2) with half vector = direction to the sensor.

        D = a^2 / (pi (cos^2 (a^2 - 1) + 1)^2),  a = roughness^2
        G = (cos / (cos (1 - k) + k))^2,  k = (roughness + 1)^2 / 8
        F = F0 at every angle, because contributing facets face the sensor

    There is no Fresnel rise at grazing incidence, and f cos, which a lidar receives, decreases monotonically.
    `roughness` in (0, 1], `f0` in [0, 1].
    """
    xp = namespace(cos_theta, roughness, f0)
    cos = xp.clip(cos_theta, 0.0, 1.0)
    k = _shadowing_k(roughness)
    visible = cos * (1.0 - k) + k  # G / cos^2 without the division by zero at grazing
    return _ggx(cos, roughness) * f0 / (4.0 * visible * visible)


def coated_diffuse(cos_theta: Reals, *, reflectance: Reals) -> Reals:
    """Diffuse BRDF of a body under a smooth dielectric surface, monostatic [1/sr].

        f = rho / pi * 21/20 (1 - (1 - cos)^5)^2

    Light that the surface reflects does not reach the body, on the way in and on the way out. The albedo is
    rho (1 - (1 - cos)^5): rho at normal incidence, 0 at grazing. With rho <= 1 - F0, the sum with `cook_torrance` is at
    most 1 at every angle; a Lambertian body weighted by 1 - F0 would reach 1.11.
    """
    xp = namespace(cos_theta, reflectance)
    return lambert(reflectance=reflectance) * coat_factor(xp.clip(cos_theta, 0.0, 1.0))


def coat_factor(cos_theta: Reals) -> Reals:
    """Factor of a smooth dielectric surface on the monostatic BRDF below it; it conserves the mean over directions."""
    enters = _enters(cos_theta)
    return 1.05 * enters * enters


def retro_lobe(cos_theta: Reals, *, gain: Reals, width_rad: Reals, cos_observation: Reals = 1.0) -> Reals:
    """Retro-reflective lobe around the direction to the source [1/sr].

        f = gain cos^2 theta exp(-(1 - cos alpha) / width^2)

    alpha is the observation angle between source and receiver (0 for a lidar, so that f = gain cos^2 theta);
    near 0 the lobe is a Gaussian of standard deviation `width_rad`. The coefficient of retroreflection [cd/(lx m^2)] is
    R_A = f cos^2 theta = gain cos^4 theta. Its ratio between 30 and 4 degrees is 0.57; ASTM D4956 requires 0.6 for
    type III sheeting (150 and 250 cd/(lx m^2)). The albedo is at most 2 pi gain width^2.
    """
    cos = namespace(cos_theta, gain).maximum(cos_theta, 0.0)
    return cos * cos * _retro(cos_observation, gain, width_rad)


# Bistatic forms. `cos_i` and `cos_o` are the cosines between the normal and the directions to source and receiver, both
# above 0; `cos_io` is the cosine between those two directions.


def phong_lobe_between(cos_i: Reals, cos_o: Reals, cos_io: Reals, *, specular: Reals, exponent: Reals) -> Reals:
    """Specular part of the modified Phong BRDF [1/sr], a lobe around the mirror direction 2 (n.wi) n - wi."""
    return _phong_lobe(2.0 * cos_i * cos_o - cos_io, specular, exponent)


def oren_nayar_between(cos_i: Reals, cos_o: Reals, cos_io: Reals, *, reflectance: Reals, sigma_rad: Reals) -> Reals:
    """Oren-Nayar BRDF [1/sr]: rho / pi (A + B max(0, cos dphi) sin alpha tan beta)."""
    xp = namespace(cos_i, cos_o, cos_io, reflectance, sigma_rad)
    # sin i sin o cos dphi = wi.wo - cos i cos o, and tan beta divides it by the larger of the two cosines.
    along = xp.maximum(cos_io - cos_i * cos_o, 0.0)
    return _oren_nayar(along, xp.maximum(cos_i, cos_o), reflectance, sigma_rad)


def cook_torrance_shape(cos_i: Reals, cos_o: Reals, cos_io: Reals, *, roughness: Reals) -> tuple[Reals, Reals]:
    """Cook-Torrance BRDF without its Fresnel term, the same for all wavelengths, and the cosine for that term."""
    xp = namespace(cos_i, cos_o, cos_io, roughness)
    length = xp.sqrt(xp.maximum(2.0 + 2.0 * cos_io, 1e-30))  # |wi + wo|
    cos_h = xp.clip((cos_i + cos_o) / length, 0.0, 1.0)
    k = _shadowing_k(roughness)
    visible = (xp.maximum(cos_i, 0.0) * (1.0 - k) + k) * (xp.maximum(cos_o, 0.0) * (1.0 - k) + k)
    return _ggx(cos_h, roughness) / (4.0 * visible), 0.5 * length  # v.h is half the length of wi + wo


def coat_factor_between(cos_i: Reals, cos_o: Reals) -> Reals:
    """Factor of a smooth dielectric surface on the BRDF below it, for any pair of directions."""
    xp = namespace(cos_i, cos_o)
    return 1.05 * _enters(xp.clip(cos_i, 0.0, 1.0)) * _enters(xp.clip(cos_o, 0.0, 1.0))


def retro_lobe_between(cos_i: Reals, cos_o: Reals, cos_io: Reals, *, gain: Reals, width_rad: Reals) -> Reals:
    """Retro-reflective lobe [1/sr] for any pair of directions."""
    return cos_i * cos_o * _retro(cos_io, gain, width_rad)


def normal_reflectance(*, index: Reals) -> Reals:
    """Fresnel reflectance of a dielectric at normal incidence, F0 = ((n - 1) / (n + 1))^2."""
    ratio = (index - 1.0) / (index + 1.0)
    return ratio * ratio


def fresnel_schlick(cos_i: Reals, *, f0: Reals) -> Reals:
    """Schlick's Fresnel reflectance, F0 + (1 - F0) (1 - cos)^5."""
    cos = namespace(cos_i, f0).clip(cos_i, 0.0, 1.0)
    return f0 + (1.0 - f0) * (1.0 - _enters(cos))


def fresnel_dielectric(cos_i: Reals, *, index: Reals) -> Reals:
    """Unpolarised Fresnel reflectance of a smooth dielectric of relative refractive index `index`.

    Total reflection (index < 1) gives 1. The cosine is limited to at least 1e-4.
    """
    xp = namespace(cos_i, index)
    cos = xp.clip(cos_i, 1e-4, 1.0)
    inside = xp.sqrt(xp.maximum(index * index - 1.0 + cos * cos, 0.0))  # index * cosine of the refracted ray
    across = (cos - inside) / (cos + inside)
    along = (index * index * cos - inside) / (index * index * cos + inside)
    return 0.5 * (across * across + along * along)


def thin_pane(cos_i: Reals, *, index: Reals, transmittance: Reals) -> tuple[Reals, Reals]:
    """Power fractions reflected and transmitted by a plane-parallel pane, with all internal reflections, incoherent.

        R = F + F (1 - F)^2 t^2 / (1 - F^2 t^2),  T = (1 - F)^2 t / (1 - F^2 t^2)

    `transmittance` is the internal one-way transmittance at normal incidence; the slant path has
    t = transmittance^(1 / cos theta_t). Without absorption, R = 2 F / (1 + F). A transmittance of 0 is a half space:
    R = F, T = 0.
    """
    xp = namespace(cos_i, index, transmittance)
    cos = xp.clip(cos_i, 1e-4, 1.0)
    fresnel = fresnel_dielectric(cos, index=index)
    cos_inside = xp.sqrt(xp.maximum(1.0 - (1.0 - cos * cos) / (index * index), 1e-8))
    passed = xp.where(transmittance > 0.0, xp.power(xp.maximum(transmittance, 1e-30), 1.0 / cos_inside), 0.0)
    once = (1.0 - fresnel) * (1.0 - fresnel) * passed / (1.0 - fresnel * fresnel * passed * passed)
    return fresnel * (1.0 + once * passed), once


def _phong_lobe(cos_mirror: Reals, specular: Reals, exponent: Reals) -> Reals:
    xp = namespace(cos_mirror, specular, exponent)
    # The floor avoids log(0) in the power function of kernels; 1e-30^1 is below any signal.
    peak = xp.power(xp.maximum(cos_mirror, 1e-30), exponent)
    return specular * (exponent + 2.0) * (0.5 * INV_PI) * peak


def _oren_nayar(along: Reals, cos_larger: Reals, reflectance: Reals, sigma_rad: Reals) -> Reals:
    xp = namespace(along, reflectance, sigma_rad)
    variance = sigma_rad * sigma_rad
    a = 1.0 - 0.5 * variance / (variance + 0.33)
    b = 0.45 * variance / (variance + 0.09)
    kept = xp.minimum(reflectance, 1.0 / (a + 0.5 * b))
    return kept * INV_PI * (a + b * along / xp.maximum(cos_larger, GRAZING_COS))


def _ggx(cos_h: Reals, roughness: Reals) -> Reals:
    a2 = roughness * roughness * roughness * roughness
    # cos^2 (a^2 - 1) + 1, written without cancellation in float32 near cos = 1
    spread = (1.0 - cos_h) * (1.0 + cos_h) + a2 * cos_h * cos_h
    return a2 * INV_PI / (spread * spread)


def _shadowing_k(roughness: Reals) -> Reals:
    return (roughness + 1.0) * (roughness + 1.0) * 0.125


def _enters(cos: Reals) -> Reals:
    grazing = 1.0 - cos
    square = grazing * grazing
    return 1.0 - square * square * grazing


def _retro(cos_observation: Reals, gain: Reals, width_rad: Reals) -> Reals:
    xp = namespace(cos_observation, gain, width_rad)
    return gain * xp.exp((cos_observation - 1.0) / (width_rad * width_rad))


def _check_phong(diffuse: Reals, specular: Reals, exponent: Reals) -> None:
    if namespace(diffuse, specular, exponent).name != "numpy":
        return
    kd, ks, n = (np.asarray(value, np.float64) for value in (diffuse, specular, exponent))
    # `not all(...)` also rejects NaN; the margin accepts float32 columns that sum to 1.
    if not (np.all(kd >= 0) and np.all(ks >= 0) and np.all(kd + ks <= 1 + 1e-6)):
        raise ConfigError("modified Phong: diffuse and specular must be >= 0 and their sum <= 1")
    if not np.all(n >= 1):
        raise ConfigError("modified Phong: exponent must be >= 1")


# ---- curves ---------------------------------------------------------------------------------------------------------
# Monostatic BRDFs as curves over the angle of incidence: measured ones, and Mitsuba's models. A curve is the shape
# g(theta) [1/sr] for a reflectance of 1; the material's spectrum sets the level: f(theta) = rho(wavelength) g(theta).
# The Lambertian curve is 1 / pi at every angle.


SAMPLES = 512
"""Points of a curve, uniform in sin(theta): 2 mrad apart near the normal, where glossy surfaces peak."""
PLUGINS = ("diffuse", "measured", "principled", "roughconductor", "roughdielectric", "roughplastic")
"""Supported Mitsuba models. Perfectly smooth ones have no BRDF value towards the sensor."""
_ALBEDO_SAMPLES = 4096
_LATTICE = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)  # powers of the root of x^4 = x + 1, inverted


class TabulatedModel(Config):
    """Measured curve, linear between its points, constant outside."""

    model: Literal["tabulated"]
    angle_deg: list[Annotated[float, Field(ge=0, le=90)]] = Field(min_length=1)
    """Angles of incidence [deg], ascending."""
    shape_per_sr: list[Annotated[float, Field(ge=0)]]
    """Monostatic BRDF divided by the hemispherical reflectance [1/sr], one value per angle."""

    @model_validator(mode="after")
    def _table(self) -> TabulatedModel:
        if len(self.shape_per_sr) != len(self.angle_deg):
            raise ValueError(f"{len(self.shape_per_sr)} values for {len(self.angle_deg)} angles")
        if any(b <= a for a, b in zip(self.angle_deg, self.angle_deg[1:], strict=False)):
            raise ValueError("angle_deg must ascend")
        return self


class MitsubaModel(Config):
    """Mitsuba reflection model given by its plugin dictionary, for example {type: roughconductor, alpha: 0.2}."""

    model: Literal["mitsuba"]
    plugin: dict[str, Any]
    """Argument of `mitsuba.load_dict`. Its colours are ignored: the material's spectrum sets the level."""

    @model_validator(mode="after")
    def _known(self) -> MitsubaModel:
        kind = self.plugin.get("type")
        if kind not in PLUGINS:
            raise ValueError(f"plugin.type must be one of {', '.join(PLUGINS)}, got {kind!r}")
        return self


def monostatic_curve(brdf: TabulatedModel | MitsubaModel) -> NDArray[np.float64]:
    """Shape g at SAMPLES values of sin(theta) from 0 to 1 [1/sr]."""
    angle = np.arcsin(np.linspace(0.0, 1.0, SAMPLES))
    if isinstance(brdf, TabulatedModel):
        return np.interp(np.degrees(angle), brdf.angle_deg, brdf.shape_per_sr)
    return np.array(_of_plugin(brdf.model_dump_json()))


@lru_cache(maxsize=64)
def _of_plugin(text: str) -> tuple[float, ...]:
    """Curve of a Mitsuba model, divided by its hemispherical reflectance at normal incidence."""
    brdf = MitsubaModel.model_validate_json(text)
    try:
        import mitsuba as mi
    except ImportError:
        raise MissingDependencyError("Mitsuba's models need the package mitsuba: run 'pip install mitsuba'") from None
    # Scalar variant: the vectorised one aborts with LLVM 15 for some models. The engine's variant is restored.
    before = mi.variant()
    mi.set_variant("scalar_rgb")
    try:
        try:
            bsdf = mi.load_dict(brdf.plugin)
        except Exception as error:  # Mitsuba raises RuntimeError, TypeError, KeyError ... for wrong dictionaries
            reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
            raise ConfigError(f"brdf.plugin: rejected by Mitsuba ({reason})") from None
        context, place = mi.BSDFContext(), mi.SurfaceInteraction3f()
        place.wi = mi.Vector3f(0.0, 0.0, 1.0)
        # A lattice samples the outgoing directions, so the numbers are the same every time.
        number = np.arange(_ALBEDO_SAMPLES)
        lattice = (0.5 + np.outer(number, _LATTICE)) % 1.0
        weights = [np.mean(bsdf.sample(context, place, u, mi.Point2f(v, w))[1]) for u, v, w in lattice.tolist()]
        albedo = float(np.mean(weights))
        if not albedo > 1e-6:
            raise ConfigError("brdf.plugin: this model has zero reflectance, so its shape is undefined")
        values = []
        for sine in np.linspace(0.0, 1.0, SAMPLES).clip(0.0, 0.9999):
            cosine = float(np.sqrt(1.0 - sine * sine))
            place.wi = mi.Vector3f(float(sine), 0.0, cosine)
            values.append(float(np.mean(bsdf.eval(context, place, place.wi))) / cosine / albedo)
    finally:
        if before is not None:
            mi.set_variant(before)
    return tuple(values)


def curve_value(cos_theta: NDArray[Any], row: NDArray[Any], curves: NDArray[Any]) -> NDArray[Any]:
    """Shape g of curve number `row`, linear between points; `curves` is the flat table."""
    sine = np.sqrt(np.maximum(1.0 - cos_theta * cos_theta, 0.0))
    place = np.minimum(sine * (SAMPLES - 1.0), SAMPLES - 1.001)
    below = np.floor(place)
    start = row * SAMPLES + below.astype(np.int64)
    return curves[start] + (place - below) * (curves[start + 1] - curves[start])
