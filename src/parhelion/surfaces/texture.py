"""Textures: an 8-bit image modulates the diffuse reflectance through texture coordinates.

The convention (Arce 2025 for the red channel and the tiling): u runs along an image row, v runs up, so image row 0
lies at v = 1. Coordinates outside [0, 1] repeat the image. A lidar takes red / 255 as it is. A camera takes colours:
those of a colour image are encoded by sRGB's curve (IEC 61966-2-1), which `linear_srgb` undoes, since reflectance is
linear in light. A grey image has no colours; cameras too take its values / 255 as they are.
"""

from __future__ import annotations

import io
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Ints, Reals, namespace
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.reading import file_reader, read_bytes

_LARGEST_FILE_BYTES = 512 * 1024 * 1024
LARGEST_SIDE = 8192
"""Pixels; larger images are refused. Texel positions stay exact in float32."""


@file_reader()
def load_colour_texture(path: str | PathLike[str]) -> tuple[NDArray[np.float32], NDArray[np.uint8] | None]:
    """Red channel of an 8-bit image as a reflectance factor in [0, 1], shape (height, width), row 0 at the top; and the
    image's colours, shape (height, width, 3), where it is not grey."""
    from PIL import Image

    file = Path(path)
    data = io.BytesIO(read_bytes(file, largest=_LARGEST_FILE_BYTES, what="a texture"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow tells of odd tags, and of sizes, which are checked right below
            image = Image.open(data)
            if max(image.size) > LARGEST_SIDE:
                raise FormatError(
                    f"{file}: {image.size[0]} x {image.size[1]} pixels, {LARGEST_SIDE} a side is the most"
                )
            if image.mode not in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"):
                raise FormatError(f"{file}: textures must have 8 bits a channel, this image has mode {image.mode!r}")
            is_grey = image.mode in ("1", "L", "LA")
            pixels = np.asarray(image if image.mode == "L" else image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise FormatError(f"{file}: cannot be read as an image ({error})") from None
    red = pixels if pixels.ndim == 2 else pixels[:, :, 0]
    # By a table of all values: an image divided as float64 takes eight times the memory of its pixels.
    return np.asarray(np.arange(256) / 255.0, np.float32)[red], None if is_grey else pixels


def linear_srgb(encoded: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Light in [0, 1] that 8-bit values of sRGB stand for (IEC 61966-2-1)."""
    value = np.arange(256) / 255.0
    light = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return light.astype(np.float32)[encoded]


@dataclass(frozen=True, eq=False)
class TextureAtlas:
    """Several textures in one flat array, so that a kernel samples any of them by its number.

    Number 0 is a single white texel: untextured surfaces use it and keep their reflectance.
    """

    texels: NDArray[np.float32]
    """Values of all textures, row by row from each image's top, shape (n,)."""
    offset: NDArray[np.uint32]
    """Where each texture starts in `texels`, shape (t,)."""
    width: NDArray[np.uint32]
    """Columns of each texture, shape (t,)."""
    height: NDArray[np.uint32]
    """Rows of each texture, shape (t,)."""

    @classmethod
    def pack(cls, images: Sequence[NDArray[Any]]) -> TextureAtlas:
        """Textures 1, 2, ... from images of values in [0, 1], each of shape (height, width)."""
        kept = [np.ones((1, 1), np.float32)]
        for number, image in enumerate(images, start=1):
            array = np.asarray(image, np.float32)
            if array.ndim != 2 or array.size == 0 or max(array.shape) > LARGEST_SIDE:
                raise ConfigError(f"texture {number}: must have shape (height, width), got {array.shape}")
            if not (array.min() >= 0.0 and array.max() <= 1.0):
                raise ConfigError(f"texture {number}: values must lie within 0 to 1")
            kept.append(array)
        sizes = np.array([array.size for array in kept], np.int64)
        if sizes.sum() >= 2**31:
            raise ConfigError(f"textures: {sizes.sum()} texels in all, {2**31 - 1} are the most")
        return cls(
            texels=np.concatenate([array.ravel() for array in kept]),
            offset=(np.cumsum(sizes) - sizes).astype(np.uint32),
            width=np.array([array.shape[1] for array in kept], np.uint32),
            height=np.array([array.shape[0] for array in kept], np.uint32),
        )

    def __len__(self) -> int:
        return len(self.offset)


def sample_texture(
    u: Reals,
    v: Reals,
    *,
    texels: Reals,
    offset: Ints,
    width: Ints,
    height: Ints,
    bilinear: bool = False,
    read: Callable[[Reals, Ints], Reals] | None = None,
) -> Reals:
    """Texture value at (u, v), for NumPy and Dr.Jit; `offset`, `width`, `height` are those of each point's texture.

    Nearest texel by default. Bilinear puts the texels' values at their centres and blends across the tile's edges.
    `read` gives the texels at places where they are not one number each.
    """
    xp = namespace(u, v)
    columns, rows = xp.float_of(width), xp.float_of(height)
    across = (u - xp.floor(u)) * columns
    down = (1.0 - (v - xp.floor(v))) * rows

    def texel(column: Reals, row: Reals) -> Reals:
        place = offset + xp.uint32(row) * width + xp.uint32(column)
        return _gather(texels, place, u) if read is None else read(texels, place)

    if not bilinear:
        # Rounding may put u - floor(u) at exactly 1; v = 0 lies on the lower edge of the last row.
        return texel(xp.minimum(xp.floor(across), columns - 1.0), xp.minimum(xp.floor(down), rows - 1.0))
    left, right, blend_x = _neighbours(across, columns)
    upper, lower, blend_y = _neighbours(down, rows)
    top = texel(left, upper) * (1.0 - blend_x) + texel(right, upper) * blend_x
    bottom = texel(left, lower) * (1.0 - blend_x) + texel(right, lower) * blend_x
    return top * (1.0 - blend_y) + bottom * blend_y


def _neighbours(position: Reals, count: Reals) -> tuple[Reals, Reals, Reals]:
    """The two texels whose centres enclose `position` [texels], wrapped, and the share of the second."""
    xp = namespace(position, count)
    first = xp.floor(position - 0.5)
    blend = position - 0.5 - first
    second = first + 1.0
    return xp.where(first < 0.0, count - 1.0, first), xp.where(second >= count, second - count, second), blend


def _gather(texels: Reals, place: Ints, like: Reals) -> Reals:
    if namespace(like).name == "numpy":
        return texels[place]
    import drjit

    return drjit.gather(type(like), texels, place)
