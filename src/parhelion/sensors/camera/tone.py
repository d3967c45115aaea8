"""From linear signal to what is stored: white balance, colour matrix, response curve, bits, JPEG.

Written once for NumPy and Dr.Jit, JPEG aside. Signal is 0 at the black level and 1 where the converter is full.

Sources: IEC 61966-2-1 (sRGB); G. Buchsbaum, "A spatial processor model for object colour perception", 1980 (grey
world).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import namespace
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.sensors.camera.planes import Array

CURVES = ("srgb", "gamma", "linear")


def response(signal: Array, curve: str, gamma: float = 2.2) -> Array:
    """What is stored for a linear signal, both 0 to 1; signals beyond are cut."""
    xp = namespace(signal)
    x = xp.clip(signal, 0.0, 1.0)
    if curve == "srgb":
        return xp.where(x <= 0.0031308, 12.92 * x, 1.055 * xp.power(xp.maximum(x, 1e-6), 1.0 / 2.4) - 0.055)
    if curve == "gamma":
        return xp.where(x > 0.0, xp.power(xp.maximum(x, 1e-12), 1.0 / gamma), 0.0)
    if curve == "linear":
        return x
    raise unknown_name("response curve", curve, CURVES)


def quantised(value: Array, bits: int) -> Array:
    """Values 0 to 1 as whole numbers of so many bits, as floats."""
    return namespace(value).floor(value * float(2**bits - 1) + 0.5)


def grey_world_gains(means: Sequence[Any]) -> list[Any]:
    """Gains that make the means of all bands alike: the least is 1, so that what is full stays white.

    Means are of the linear signal; those of 0 and less count as nothing seen, and get the gain 1.
    """
    xp = namespace(*means)
    top = means[0]
    for mean in means[1:]:
        top = xp.maximum(top, mean)
    return [xp.where(mean > 0.0, top / xp.maximum(mean, 1e-9), 1.0) for mean in means]


def mixed(planes: Sequence[Array], matrix: tuple[tuple[float, ...], ...] | None) -> list[Array]:
    """Bands of the output from those of the sensor: each row of the matrix times the planes."""
    if matrix is None:
        return list(planes)
    out = []
    for row in matrix:
        total = planes[0] * row[0]
        for weight, plane in zip(row[1:], planes[1:], strict=True):
            total = total + weight * plane
        out.append(total)
    return out


def jpeg(colour: NDArray[np.uint8], quality: int) -> NDArray[np.uint8]:
    """A picture (h, w) or (h, w, 3) of 8 bits after JPEG compression, quality 1 to 95 (Pillow)."""
    import io

    from PIL import Image

    if colour.dtype != np.uint8 or not (colour.ndim == 2 or (colour.ndim == 3 and colour.shape[2] == 3)):
        raise ConfigError(f"jpeg_quality: JPEG holds 8 bits and 1 or 3 bands, not {colour.dtype} {colour.shape}")
    store = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(colour)).save(store, "JPEG", quality=quality)
    store.seek(0)
    with Image.open(store) as picture:
        return np.array(picture)
