"""BRDFs towards the sensor as curves over the angle of incidence: measured ones, and any of Mitsuba's own models.

A curve gives the shape g(theta) [1/sr] for a reflectance of 1; the material's spectrum gives the level:
f(theta) = rho(wavelength) g(theta). Lambert's curve is 1 / pi at every angle.
"""

from __future__ import annotations

from functools import lru_cache
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import Field, model_validator

from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, MissingDependencyError

SAMPLES = 512
"""Points of a curve, even in sin(theta): 2 mrad apart near the normal, where glossy surfaces peak."""
PLUGINS = ("diffuse", "measured", "principled", "roughconductor", "roughdielectric", "roughplastic")
"""Mitsuba's models that scatter into all directions; perfectly smooth ones have no value towards the sensor."""
_ALBEDO_SAMPLES = 4096
_LATTICE = (0.8191725133961645, 0.6710436067037893, 0.5497004779019703)  # powers of the root of x^4 = x + 1, inverted


class TabulatedModel(Config):
    """A measured curve, straight lines between its points, level outside them."""

    model: Literal["tabulated"]
    angle_deg: list[Annotated[float, Field(ge=0, le=90)]] = Field(min_length=1)
    """Angles of incidence, ascending."""
    shape_per_sr: list[Annotated[float, Field(ge=0)]]
    """BRDF towards the sensor divided by the hemispherical reflectance, one value an angle."""

    @model_validator(mode="after")
    def _table(self) -> TabulatedModel:
        if len(self.shape_per_sr) != len(self.angle_deg):
            raise ValueError(f"{len(self.shape_per_sr)} values for {len(self.angle_deg)} angles")
        if any(b <= a for a, b in zip(self.angle_deg, self.angle_deg[1:], strict=False)):
            raise ValueError("angle_deg must ascend")
        return self


class MitsubaModel(Config):
    """One of Mitsuba's reflection models by its plugin dictionary, such as {type: roughconductor, alpha: 0.2}."""

    model: Literal["mitsuba"]
    plugin: dict[str, Any]
    """As `mitsuba.load_dict` takes it. Its colours do not matter: the level comes from the material's spectrum."""

    @model_validator(mode="after")
    def _known(self) -> MitsubaModel:
        kind = self.plugin.get("type")
        if kind not in PLUGINS:
            raise ValueError(f"plugin.type must be one of {', '.join(PLUGINS)}, got {kind!r}")
        return self


def monostatic_curve(brdf: TabulatedModel | MitsubaModel) -> NDArray[np.float64]:
    """g at SAMPLES values of sin(theta) from 0 to 1 [1/sr]."""
    angle = np.arcsin(np.linspace(0.0, 1.0, SAMPLES))
    if isinstance(brdf, TabulatedModel):
        return np.interp(np.degrees(angle), brdf.angle_deg, brdf.shape_per_sr)
    return np.array(_of_plugin(brdf.model_dump_json()))


@lru_cache(maxsize=64)
def _of_plugin(text: str) -> tuple[float, ...]:
    """The curve of a Mitsuba model, divided by its own hemispherical reflectance at normal incidence."""
    brdf = MitsubaModel.model_validate_json(text)
    try:
        import mitsuba as mi
    except ImportError:
        raise MissingDependencyError("Mitsuba's models need the package mitsuba: run 'pip install mitsuba'") from None
    # Scalar code: the vectorised one ends the process on LLVM 15 for some models. The engine's variant is put back.
    before = mi.variant()
    mi.set_variant("scalar_rgb")
    try:
        try:
            bsdf = mi.load_dict(brdf.plugin)
        except Exception as error:  # Mitsuba raises RuntimeError, TypeError, KeyError ... for wrong dictionaries
            reason = str(error).strip().splitlines()[-1] if str(error).strip() else type(error).__name__
            raise ConfigError(f"brdf.plugin: Mitsuba does not take it ({reason})") from None
        context, place = mi.BSDFContext(), mi.SurfaceInteraction3f()
        place.wi = mi.Vector3f(0.0, 0.0, 1.0)
        # A plain lattice samples the outgoing directions: the same numbers every time.
        number = np.arange(_ALBEDO_SAMPLES)
        lattice = (0.5 + np.outer(number, _LATTICE)) % 1.0
        weights = [np.mean(bsdf.sample(context, place, u, mi.Point2f(v, w))[1]) for u, v, w in lattice.tolist()]
        albedo = float(np.mean(weights))
        if not albedo > 1e-6:
            raise ConfigError("brdf.plugin: this model reflects nothing, so it has no shape")
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
    """g of curve number `row` at an angle, linear between points; `curves` is the flat table."""
    sine = np.sqrt(np.maximum(1.0 - cos_theta * cos_theta, 0.0))
    place = np.minimum(sine * (SAMPLES - 1.0), SAMPLES - 1.001)
    below = np.floor(place)
    start = row * SAMPLES + below.astype(np.int64)
    return curves[start] + (place - below) * (curves[start + 1] - curves[start])
