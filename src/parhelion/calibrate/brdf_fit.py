"""Reflection models fitted to the intensities of a material by angle, for the angles of which nothing is recorded.

The models are those of `surfaces/brdf.py`; a lidar receives f cos(theta). The best is chosen by leaving each bin out
in turn (cross-validation), so that a model with more numbers has to earn them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.calibrate.turns import Floats
from parhelion.sensors.lidar.profile import FittedBrdf
from parhelion.surfaces import brdf

FEWEST_BINS = 3


def _lambert(cos: Floats) -> Floats:
    return brdf.lambert(reflectance=1.0) * cos


def _oren_nayar(cos: Floats, sigma_rad: float) -> Floats:
    return np.asarray(brdf.oren_nayar(cos, reflectance=0.5, sigma_rad=sigma_rad)) * 2.0 * cos


def _cook_torrance(cos: Floats, roughness: float, diffuse: float) -> Floats:
    gloss = np.asarray(brdf.cook_torrance(cos, roughness=roughness, f0=0.04))
    return (gloss + np.asarray(brdf.coated_diffuse(cos, reflectance=diffuse))) * cos


def _phong(cos: Floats, specular: float, exponent: float) -> Floats:
    return np.asarray(brdf.modified_phong(cos, diffuse=1.0 - specular, specular=specular, exponent=exponent)) * cos


Model = tuple[Callable[..., Floats], tuple[str, ...], tuple[tuple[float, ...], ...], tuple[tuple[float, float], ...]]
MODELS: dict[str, Model] = {
    "lambert": (_lambert, (), ((),), ()),
    "oren-nayar": (_oren_nayar, ("sigma_rad",), ((0.3,),), ((0.0, 1.2),)),
    "cook-torrance": (
        _cook_torrance, ("roughness", "diffuse"), ((0.3, 0.3), (0.6, 0.05)), ((0.05, 1.0), (0.0, 0.96)),
    ),
    "phong": (_phong, ("specular", "exponent"), ((0.2, 10.0), (0.5, 60.0)), ((0.0, 1.0), (1.0, 2000.0))),
}  # fmt: skip
"""f cos(theta) of each model, its parameters, where the search starts, and their bounds."""


@dataclass(frozen=True, eq=False)
class BrdfFit:
    """A model with its parameters."""

    model: str
    parameters: tuple[float, ...]
    scale: float
    error: float
    """Root mean square of relative differences to the bins left out."""
    constant_error: float

    def at(self, angle_deg: Floats | float) -> Floats:
        """Mean intensity at angles of incidence."""
        return self.scale * np.pi * MODELS[self.model][0](_cosine(angle_deg), *self.parameters)

    def as_config(self) -> FittedBrdf:
        """The fit as a sensor's file holds it."""
        names = MODELS[self.model][1]
        return FittedBrdf(
            model=self.model,  # type: ignore[arg-type]
            parameters={name: float(f"{value:.4g}") for name, value in zip(names, self.parameters, strict=True)},
            scale=float(f"{self.scale:.5g}"), error=float(f"{self.error:.3g}"),
            constant_error=float(f"{self.constant_error:.3g}"),
        )  # fmt: skip


def _cosine(angle_deg: Floats | float) -> Floats:
    return np.maximum(np.cos(np.radians(angle_deg)), 1e-6)


def fit_brdf(angle_deg: Floats, level: Floats, error: Floats) -> BrdfFit | None:
    """The model that foretells left-out bins best; None where none does it better than a constant.

    `level` is the mean intensity of each bin, `error` its standard error.
    """
    if len(angle_deg) < FEWEST_BINS or not np.any(level > 0):
        return None
    weight = 1.0 / np.hypot(error, 0.02 * float(np.max(level)))
    constant = _left_out(lambda rows: _mean(level[rows], weight[rows]), level)
    best: BrdfFit | None = None
    for name in MODELS:
        if len(angle_deg) <= len(MODELS[name][1]) + 1:
            continue

        whole, whole_scale = _fit(name, angle_deg, level, weight)

        def foretell(rows: Any, name: str = name, start: tuple[float, ...] = whole) -> Callable[[int], float]:
            parameters, scale = _fit(name, angle_deg[rows], level[rows], weight[rows], start)
            return lambda k: float(scale * np.pi * MODELS[name][0](_cosine(angle_deg[k]), *parameters))

        misfit = _left_out(foretell, level)
        if misfit < constant and (best is None or misfit < 0.98 * best.error):
            best = BrdfFit(name, whole, whole_scale, misfit, constant)
    return best


def _mean(level: Floats, weight: Floats) -> Callable[[int], float]:
    value = float(np.sum(weight**2 * level) / np.sum(weight**2))
    return lambda k: value


def _left_out(foretell: Callable[[Any], Callable[[int], float]], level: Floats) -> float:
    """Root mean square of what is foretold of each bin by the others, over the mean level."""
    numbers = np.arange(len(level))
    off = [foretell(numbers != k)(int(k)) - level[k] for k in numbers]
    return float(np.sqrt(np.mean(np.square(off))) / np.mean(np.abs(level)))


def _fit(
    name: str, angle_deg: Floats, level: Floats, weight: Floats, start: tuple[float, ...] | None = None
) -> tuple[tuple[float, ...], float]:
    """Parameters and scale by least squares; the scale is linear, so it follows from the rest.

    From `start`, where a solution is known nearby, else from several places.
    """
    from scipy.optimize import least_squares

    shape, names, starts, bounds = MODELS[name]
    cos = _cosine(angle_deg)

    def scale_of(parameters: Floats) -> tuple[Floats, float]:
        form = np.pi * shape(cos, *parameters)
        return form, float(np.sum(weight**2 * form * level) / max(float(np.sum((weight * form) ** 2)), 1e-30))

    def misfit(parameters: Floats) -> Floats:
        form, scale = scale_of(parameters)
        return weight * (scale * form - level)

    if not names:
        return (), scale_of(np.zeros(0))[1]
    low, high = zip(*bounds, strict=True)
    inside = [np.clip(one, np.array(low) + 1e-6, np.array(high) - 1e-6) for one in ([start] if start else starts)]
    tries = [least_squares(misfit, one, bounds=(low, high), max_nfev=25) for one in inside]
    best = min(tries, key=lambda one: one.cost)
    return tuple(float(value) for value in best.x), scale_of(best.x)[1]
