"""BRDFs [1/sr] by directions: `normal`, `wi` (to the source) and `wo` (to the receiver) are unit vectors (..., 3)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.surfaces import brdf

Floats = NDArray[np.float64]
Bistatic = Callable[..., Floats]


def by_directions(between: Callable[..., Any]) -> Bistatic:
    """BRDF by directions from a BRDF by cosines; 0 below the surface."""

    def bistatic(normal: Floats, wi: Floats, wo: Floats, **parameters: float) -> Floats:
        n, i, o = np.broadcast_arrays(normal, wi, wo)
        cos_i, cos_o, cos_io = np.sum(n * i, axis=-1), np.sum(n * o, axis=-1), np.sum(i * o, axis=-1)
        value = between(cos_i, cos_o, cos_io, **parameters)
        return np.asarray(np.where((cos_i > 0.0) & (cos_o > 0.0), value, 0.0), np.float64)

    return bistatic


def _phong(*cosines: Floats, diffuse: float, specular: float, exponent: float) -> Any:
    lobe = brdf.phong_lobe_between(*cosines, specular=specular, exponent=exponent)
    return brdf.lambert(reflectance=diffuse) + lobe


def _facets(*cosines: Floats, roughness: float, f0: float) -> Any:
    shape, cos_half = brdf.cook_torrance_shape(*cosines, roughness=roughness)
    return shape * brdf.fresnel_schlick(cos_half, f0=f0)


def _coated(cos_i: Floats, cos_o: Floats, cos_io: Floats, *, reflectance: float) -> Any:
    return brdf.lambert(reflectance=reflectance) * brdf.coat_factor_between(cos_i, cos_o)


lambert = by_directions(lambda *cosines, reflectance: brdf.lambert(reflectance=reflectance))
modified_phong = by_directions(_phong)
oren_nayar = by_directions(brdf.oren_nayar_between)
cook_torrance = by_directions(_facets)
coated_diffuse = by_directions(_coated)
retro_lobe = by_directions(brdf.retro_lobe_between)
