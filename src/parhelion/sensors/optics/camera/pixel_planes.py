"""Images as planes: one flat row-major array per band, NumPy or Dr.Jit."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import is_drjit, namespace
from parhelion.core.errors import ConfigError

Array = Any
"""Flat NumPy or Dr.Jit array."""


def gather(plane: Array, index: Array) -> Array:
    """Elements of a plane by index."""
    if not is_drjit(plane):
        return np.take(plane, index)
    import drjit as dr

    return dr.gather(type(plane), plane, index)


def signed(values: Array) -> Array:
    """Values truncated to signed integers, in an array of the same kind."""
    if not is_drjit(values):
        return np.asarray(values).astype(np.int64)
    import drjit as dr

    return dr.int32_array_t(values)(values)


def places(pixel: Array, width: int) -> tuple[Array, Array]:
    """Row and column of pixel numbers, as signed integers."""
    pixel = signed(pixel)
    row = pixel // width
    return row, pixel - row * width


def mirrored(position: Array, size: int) -> Array:
    """Rows or columns up to two beyond the edge, mirrored: -1 becomes 1, `size` becomes size - 2.

    The mirrored pixel has the same colour in a Bayer mosaic.
    """
    xp = namespace(position)
    position = xp.abs(position)
    return xp.where(position >= size, 2 * (size - 1) - position, position)


def bilinear(plane: Array, u: Array, v: Array, width: int, height: int) -> Array:
    """Bilinear interpolation at column `u` and row `v`; positions beyond the edge are clamped."""
    xp = namespace(plane, u, v)
    u, v = xp.clip(u, 0.0, width - 1.0), xp.clip(v, 0.0, height - 1.0)
    left, top = xp.floor(u), xp.floor(v)
    left, top = xp.minimum(left, max(width - 2.0, 0.0)), xp.minimum(top, max(height - 2.0, 0.0))
    right_share, lower_share = u - left, v - top
    corner = signed(top) * width + signed(left)
    step, line = (1 if width > 1 else 0), (width if height > 1 else 0)
    upper = gather(plane, corner) * (1.0 - right_share) + gather(plane, corner + step) * right_share
    lower = gather(plane, corner + line) * (1.0 - right_share) + gather(plane, corner + line + step) * right_share
    return upper * (1.0 - lower_share) + lower * lower_share


def zoomed(plane: Array, pixel: Array, width: int, height: int, centre: tuple[Any, Any], scale: Any) -> Array:
    """Plane magnified by `scale` about a point (column, row): lateral chromatic aberration of one band.

    A point at distance r from the principal point of an ideal lens appears at r * scale.
    """
    xp = namespace(plane, pixel)
    row, column = places(pixel, width)
    u = centre[0] + (xp.float_of(column) - centre[0]) / scale
    v = centre[1] + (xp.float_of(row) - centre[1]) / scale
    return bilinear(plane, u, v, width, height)


def blur_weights(sigma_px: float) -> tuple[float, ...]:
    """Weights of a Gaussian of `sigma_px` [pixel] integrated over pixels, for distances of 0, 1, ... pixels; sum 1."""
    reach = max(1, math.ceil(3.0 * sigma_px))
    edges = [math.erf((k - 0.5) / (sigma_px * math.sqrt(2.0))) for k in range(reach + 2)]
    weights = [0.5 * (b - a) for a, b in pairwise(edges)]
    total = weights[0] + 2.0 * sum(weights[1:])
    return tuple(weight / total for weight in weights)


def blurred(plane: Array, pixel: Array, width: int, height: int, weights: Sequence[Any], *, down: bool) -> Array:
    """Plane convolved along columns (`down`) or rows with symmetric weights; the edge is repeated."""
    xp = namespace(plane, pixel)
    row, column = places(pixel, width)
    along, size, step = (row, height, width) if down else (column, width, 1)
    total = gather(plane, pixel) * weights[0]
    for distance, weight in enumerate(weights[1:], start=1):
        for sign in (-distance, distance):
            at = along + sign
            at = xp.where(at < 0, 0, xp.where(at > size - 1, size - 1, at))
            total = total + gather(plane, signed(pixel) + (at - along) * step) * weight
    return total


def planes_of(radiance: Any, width: int | None, height: int | None) -> tuple[list[Array], int, int]:
    """Bands as flat arrays, width and height, from a NumPy array (h, w) or (h, w, bands) or a list of flat arrays."""
    if isinstance(radiance, np.ndarray):
        if radiance.ndim not in (2, 3) or 0 in radiance.shape:
            raise ConfigError(f"radiance: must have shape (h, w) or (h, w, bands), got {radiance.shape}")
        bands = radiance[..., None] if radiance.ndim == 2 else radiance
        rows, columns, count = bands.shape
        return [np.ascontiguousarray(bands[..., b], np.float64).ravel() for b in range(count)], columns, rows
    if width is None or height is None:
        raise ConfigError("radiance: flat arrays require width and height")
    planes: list[Array] = list(radiance) if isinstance(radiance, Sequence) else [radiance]
    for plane in planes:
        if len(plane) != width * height:
            raise ConfigError(f"radiance: a band has {len(plane)} values for {width} x {height} pixels")
    return planes, width, height


def pictured(planes: list[NDArray[Any]], width: int, height: int) -> NDArray[Any]:
    """Image (h, w) from one plane, (h, w, bands) from several."""
    if len(planes) == 1:
        return planes[0].reshape(height, width)
    return np.stack(planes, axis=-1).reshape(height, width, len(planes))
