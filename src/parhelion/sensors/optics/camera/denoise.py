"""Removal of the renderer's Monte Carlo noise ("grain") before sensor noise is added.

Most grain is indirect light: light that the first surface receives from the sky and from other surfaces. It varies
slowly along a surface, and its noise is independent between pixels. The built-in filter divides indirect light by the
reflectance of the surface, so that textures stay sharp, averages the result over neighbouring pixels of the same
surface, and multiplies by the reflectance again. Behind panes, the surface is the first one that scatters. Direct
light, reflections in smooth surfaces, and edges are not filtered. Each of five passes doubles the distance of the eight
neighbours. A neighbour counts less the more its normal differs, the farther it lies off the tangent plane, and the more
its light differs relative to the noise of both.

Sources: H. Dammertz et al., "Edge-avoiding a-trous wavelet transform for fast global illumination filtering", High
Performance Graphics 2010; C. Schied et al., "Spatiotemporal variance-guided filtering", High Performance Graphics 2017
(passes and the variance that they propagate).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals, namespace
from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.rays.device import Engine, Static
from parhelion.sensors.optics.camera.pixel_planes import Array, gather, places, signed

METHODS = ("auto", "filter", "oidn", "none")
"""auto: the filter for developed pictures, none for radiance. filter: always. oidn: Intel Open Image Denoise."""
PASSES = 5
NORMAL_WEIGHT = 16.0
"""Exponent per unit of 1 - cosine between normals: neighbours at 20 degrees count 0.38."""
LIGHT_DEVIATIONS = 3.0
"""Difference of light, in standard deviations of the difference, at which a neighbour counts 1 / e."""
LARGEST_EXPONENT = 16.0
"""Neighbours with a weight below exp(-16) = 1e-7 do not count."""
LEAST_REFLECTANCE = 0.05
"""Reflectance by which light is divided at least; darker surfaces are mostly glossy."""
ONE_SAMPLE_ERROR = 1.0
"""Relative standard error that is assumed for pictures with one sample per pixel, which has no estimate."""


def method_of(setting: bool | str, *, developed: bool) -> str:
    """Method of a `denoise` setting: filter, oidn or none. True and False mean oidn and none."""
    if isinstance(setting, bool):
        return "oidn" if setting else "none"
    if setting not in METHODS:
        raise ConfigError(f"denoise: must be {', '.join(METHODS[:-1])} or {METHODS[-1]}, got {setting!r}")
    if setting == "auto":
        return "filter" if developed else "none"
    return setting


# ---- built-in filter ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class Layers:
    """Light of a picture in separate layers, flat arrays; the output of the renderer."""

    direct: list[Array]
    """Radiance that is not filtered [W/(m^2 sr)], per band."""
    variance: Array
    """Variance of the sum of indirect light over bands."""
    indirect: list[Array]
    """Radiance scattered by the first surface from the sky and other surfaces [W/(m^2 sr)], per band."""
    reflected: list[Array]
    """Mean diffuse reflectance of the first surface, per band, times the transmittance of the air."""
    normal: list[Array]
    """Mean unit normal x, y, z."""
    place: list[Array]
    """Mean hit point relative to the lens x, y, z [m]."""
    square: Array
    """Mean square distance of the hit points [m^2]."""
    direct_variance: Array
    """Variance of the sum of direct light over bands."""

    @classmethod
    def of(cls, planes: list[Array], bands: int) -> Layers:
        """Layers from the arrays of `path.render`."""
        rest = iter(planes)

        def take(count: int) -> list[Array]:
            return [next(rest) for _ in range(count)]

        return cls(take(bands), next(rest), take(bands), take(bands), take(3), take(3), next(rest), next(rest))


def filtered(
    layers: Layers, width: int, height: int, *, pixel_rad: float, samples: int, engine: Engine | None = None
) -> tuple[list[Array], Array]:
    """Radiance per band after filtering, and the relative standard error of the sum over bands that remains.

    `pixel_rad` is the angle of a pixel [rad]. With an engine, arrays are those of Dr.Jit; otherwise of NumPy.
    """
    size = width * height
    if engine is None:
        pixel: Any = np.arange(size, dtype=np.uint32)
        number: Any = float
    else:
        pixel, number = engine.counting(size), engine.number

    def run(step: Any, *args: Any) -> Any:
        if engine is None:
            return step(*args)
        done = engine.frozen(step)(*args)
        engine.dr.eval(done)
        return done

    error = number(ONE_SAMPLE_ERROR if samples < 2 else 0.0)
    light, variance, surface = run(
        _divided,
        layers.indirect,
        layers.reflected,
        layers.variance,
        layers.normal,
        layers.place,
        layers.square,
        error,
        number(pixel_rad),
    )
    for level in range(PASSES):
        step = 2**level
        spread = Static((width, height, 3 if level == 0 else 1))
        smooth = run(_smoothed, variance, surface[0], pixel, spread)
        light, variance = run(
            _averaged, light, variance, smooth, surface, pixel, number(float(step)), Static((width, height, step))
        )
    return run(_multiplied, light, variance, layers.direct, layers.indirect, layers.reflected, layers.direct_variance)


def _divided(
    indirect: list[Array],
    reflected: list[Array],
    variance: Array,
    normal: list[Array],
    place: list[Array],
    square: Array,
    error: Reals,
    pixel_rad: Reals,
) -> tuple[list[Array], Array, list[Array]]:
    """Indirect light and its variance divided by reflectance; surface: weight, unit normal, place, size, spread."""
    xp = namespace(square)
    grey = sum(reflected[1:], start=reflected[0]) * (1.0 / len(reflected))
    floor = [xp.maximum(one, LEAST_REFLECTANCE) for one in reflected]
    light = [a / b for a, b in zip(indirect, floor, strict=True)]
    mean = xp.maximum(grey, LEAST_REFLECTANCE)
    total = sum(light[1:], start=light[0]) * error
    length = xp.sqrt(normal[0] * normal[0] + normal[1] * normal[1] + normal[2] * normal[2])
    unit = [one / xp.maximum(length, 1e-6) for one in normal]
    away = place[0] * place[0] + place[1] * place[1] + place[2] * place[2]
    footprint = xp.maximum(xp.sqrt(away) * pixel_rad, 1e-4)
    apart = xp.sqrt(xp.maximum(square - away, 0.0))
    # Pixels without indirect light have no weight. A brighter surface states its light more precisely.
    weight = xp.where(grey > 1e-6, mean, 0.0)
    return light, variance / (mean * mean) + total * total, [weight, *unit, *place, footprint, apart]


def _neighbours(pixel: Array, width: int, height: int, step: int) -> list[tuple[float, Array, Array]]:
    """Kernel weight, index and validity of the eight neighbours at a distance of `step` pixels."""
    row, column = places(pixel, width)
    found = []
    for down in (-1, 0, 1):
        for across in (-1, 0, 1):
            if down or across:
                y, x = row + down * step, column + across * step
                inside = (y >= 0) & (y < height) & (x >= 0) & (x < width)
                index = namespace(pixel).where(inside, y * width + x, signed(pixel))
                found.append((0.5 ** (abs(down) + abs(across)), index, inside))
    return found


def _smoothed(variance: Array, weight: Array, pixel: Array, fixed: Any) -> Array:
    """Variance averaged over neighbours: few samples estimate it poorly."""
    width, height, step = fixed.values
    xp = namespace(variance)
    total: Any = variance
    share: Any = 1.0
    for kernel, index, inside in _neighbours(pixel, width, height, step):
        counts = xp.where(inside & (gather(weight, index) > 0.0), kernel, 0.0)
        total, share = total + counts * gather(variance, index), share + counts
    return total / share


def _averaged(
    light: list[Array], variance: Array, smooth: Array, surface: list[Array], pixel: Array, step: Reals, fixed: Any
) -> tuple[list[Array], Array]:
    """One pass of the filter."""
    width, height, distance = fixed.values
    xp = namespace(variance)
    own_weight, *own = surface
    grey = sum(light[1:], start=light[0])
    tolerance = own[6] * step + 0.5 * own[7]
    total, share = [one * own_weight for one in light], own_weight
    squares = own_weight * own_weight * variance
    for kernel, index, inside in _neighbours(pixel, width, height, distance):
        weight, *other = (gather(one, index) for one in surface)
        theirs = [gather(one, index) for one in light]
        cosine = own[0] * other[0] + own[1] * other[1] + own[2] * other[2]
        apart = [b - a for a, b in zip(own[3:6], other[3:6], strict=True)]
        planes = [xp.abs(apart[0] * n[0] + apart[1] * n[1] + apart[2] * n[2]) for n in (own[:3], other[:3])]
        off = xp.maximum(planes[0], planes[1]) / (tolerance + 0.5 * other[7])
        difference = sum(theirs[1:], start=theirs[0]) - grey
        noise = (smooth + gather(smooth, index)) * LIGHT_DEVIATIONS**2 + 1e-20
        exponent = NORMAL_WEIGHT * (1.0 - cosine) + off * off + difference * difference / noise
        # Smaller weights would only add denormal numbers, which threads of the engine and of Python round differently.
        counts = xp.where(inside & (exponent < LARGEST_EXPONENT), kernel * weight * xp.exp(-exponent), 0.0)
        total = [a + counts * b for a, b in zip(total, theirs, strict=True)]
        share, squares = share + counts, squares + counts * counts * gather(variance, index)
    some = share > 0.0
    inverse = xp.where(some, 1.0 / xp.where(some, share, 1.0), 0.0)
    return [xp.where(some, a * inverse, b) for a, b in zip(total, light, strict=True)], squares * inverse * inverse


def _multiplied(
    light: list[Array],
    variance: Array,
    direct: list[Array],
    indirect: list[Array],
    reflected: list[Array],
    direct_variance: Array,
) -> tuple[list[Array], Array]:
    """Direct light plus filtered light times reflectance, and the relative standard error of the sum over bands."""
    xp = namespace(variance)
    grey = sum(reflected[1:], start=reflected[0]) * (1.0 / len(reflected))
    found = []
    for own, smooth, rough, share in zip(direct, light, indirect, reflected, strict=True):
        found.append(own + xp.where(grey > 1e-6, smooth * xp.maximum(share, LEAST_REFLECTANCE), rough))
    mean = xp.maximum(grey, LEAST_REFLECTANCE)
    total = sum(found[1:], start=found[0])
    error = xp.sqrt(direct_variance + mean * mean * variance) / xp.maximum(total, 1e-30)
    return found, error


# ---- Intel Open Image Denoise ---------------------------------------------------------------------------------------


def open_image_denoised(radiance: NDArray[np.float32]) -> NDArray[np.float32]:
    """Band radiance (h, w, bands) after Intel Open Image Denoise.

    Bands are denoised three at a time, with the same network. Sensor noise is added afterwards.
    """
    try:
        from pyoidn import denoise
    except ImportError:
        raise MissingDependencyError(
            "denoise: 'oidn' needs the package pyoidn: run 'pip install parhelion[denoise]', or use 'filter'"
        ) from None
    bands = radiance.shape[2]
    result = np.empty_like(radiance)
    for first in range(0, bands, 3):
        # The network takes three bands: the last band is repeated where there are fewer.
        chosen = [min(first + k, bands - 1) for k in range(3)]
        colour = np.ascontiguousarray(radiance[..., chosen], dtype=np.float32)
        smooth = np.asarray(denoise(colour, hdr=True))
        for k, band in enumerate(chosen):
            result[..., band] = smooth[..., k]
    return np.maximum(result, 0.0)
