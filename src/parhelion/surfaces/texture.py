"""Textures: an 8-bit image modulates the diffuse reflectance through texture coordinates.

Convention (Arce 2025 for the red channel and the tiling): u runs along an image row, v runs up, so image row 0 is at
v = 1. Coordinates outside [0, 1] repeat the image. A lidar uses red / 255 directly. A camera uses colours: a colour
image is encoded with the sRGB curve (IEC 61966-2-1), which `linear_srgb` inverts, because reflectance is linear in
light. For a grey image, cameras also use the values / 255 directly.
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
from parhelion.core.checks import check_budget
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.reading import file_reader, read_bytes

_LARGEST_FILE_BYTES = 512 * 1024 * 1024
LARGEST_SIDE = 8192
"""Largest side of a texture [pixel]; texel positions stay exact in float32."""


@file_reader()
def load_colour_texture(path: str | PathLike[str]) -> tuple[NDArray[np.float32], NDArray[np.uint8] | None]:
    """Red channel of an 8-bit image as a reflectance factor in [0, 1], shape (height, width), and its colours.

    Row 0 is at the top. Colours have shape (height, width, 3), or are None for a grey image.
    """
    from PIL import Image

    file = Path(path)
    data = io.BytesIO(read_bytes(file, largest=_LARGEST_FILE_BYTES, what="a texture"))
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # Pillow warns about unknown tags, and about sizes, which are checked below
            image = Image.open(data)
            if max(image.size) > LARGEST_SIDE:
                raise FormatError(
                    f"{file}: {image.size[0]} x {image.size[1]} pixels exceed the limit of {LARGEST_SIDE} per side"
                )
            check_budget("pixels", image.size[0] * image.size[1], str(file))
            if image.mode not in ("1", "L", "LA", "P", "PA", "RGB", "RGBA", "CMYK", "YCbCr"):
                raise FormatError(f"{file}: textures must have 8 bits per channel, got mode {image.mode!r}")
            is_grey = image.mode in ("1", "L", "LA")
            pixels = np.asarray(image if image.mode == "L" else image.convert("RGB"))
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise FormatError(f"{file}: cannot be read as an image ({error})") from None
    red = pixels if pixels.ndim == 2 else pixels[:, :, 0]
    # A lookup table is used, because division as float64 takes eight times the memory of the pixels.
    return np.asarray(np.arange(256) / 255.0, np.float32)[red], None if is_grey else pixels


def linear_srgb(encoded: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Linear light in [0, 1] of 8-bit sRGB values (IEC 61966-2-1)."""
    value = np.arange(256) / 255.0
    light = np.where(value <= 0.04045, value / 12.92, ((value + 0.055) / 1.055) ** 2.4)
    return light.astype(np.float32)[encoded]


@dataclass(frozen=True, eq=False)
class TextureAtlas:
    """Several textures in one flat array, so that a kernel can sample any of them by number.

    Number 0 is a single white texel for untextured surfaces.
    """

    texels: NDArray[np.float32]
    """Values of all textures, row-major from the top of each image, shape (n,)."""
    offset: NDArray[np.uint32]
    """Start of each texture in `texels`, shape (t,)."""
    width: NDArray[np.uint32]
    """Columns of each texture, shape (t,)."""
    height: NDArray[np.uint32]
    """Rows of each texture, shape (t,)."""

    @classmethod
    def pack(cls, images: Sequence[NDArray[Any]]) -> TextureAtlas:
        """Textures 1, 2, ... from images of values in [0, 1], each of shape (height, width)."""
        arrays = [np.ones((1, 1), np.float32)]
        for number, image in enumerate(images, start=1):
            array = np.asarray(image, np.float32)
            if array.ndim != 2 or array.size == 0 or max(array.shape) > LARGEST_SIDE:
                raise ConfigError(f"texture {number}: must have shape (height, width), got {array.shape}")
            if not (array.min() >= 0.0 and array.max() <= 1.0):
                raise ConfigError(f"texture {number}: values must lie within 0 to 1")
            arrays.append(array)
        sizes = np.array([array.size for array in arrays], np.int64)
        if sizes.sum() >= 2**31:
            raise ConfigError(f"textures: {sizes.sum()} texels in total exceed the limit of {2**31 - 1}")
        return cls(
            texels=np.concatenate([array.ravel() for array in arrays]),
            offset=(np.cumsum(sizes) - sizes).astype(np.uint32),
            width=np.array([array.shape[1] for array in arrays], np.uint32),
            height=np.array([array.shape[0] for array in arrays], np.uint32),
        )

    def __len__(self) -> int:
        return len(self.offset)


def sample_texture(
    u: Reals,
    v: Reals,
    *,
    texels: Reals | Ints,
    offset: Ints,
    width: Ints,
    height: Ints,
    bilinear: bool = False,
    read: Callable[[Any, Any], Any] | None = None,
) -> Reals:
    """Texture value at (u, v), for NumPy and Dr.Jit; `offset`, `width`, `height` are those of each point's texture.

    The default is the nearest texel. Bilinear interpolation places the values at the texel centres and wraps across the
    edges of the tile. `read` reads texels that consist of several numbers.
    """
    xp = namespace(u, v)
    columns, rows = xp.float_of(width), xp.float_of(height)
    across = (u - xp.floor(u)) * columns
    down = (1.0 - (v - xp.floor(v))) * rows

    def texel(column: Reals, row: Reals) -> Reals:
        place = offset + xp.uint32(row) * width + xp.uint32(column)
        return _gather(texels, place, u) if read is None else read(texels, place)

    if not bilinear:
        # Rounding may give u - floor(u) = 1; v = 0 lies on the lower edge of the last row.
        return texel(xp.minimum(xp.floor(across), columns - 1.0), xp.minimum(xp.floor(down), rows - 1.0))
    left, right, blend_x = _neighbours(across, columns)
    upper, lower, blend_y = _neighbours(down, rows)
    top = texel(left, upper) * (1.0 - blend_x) + texel(right, upper) * blend_x
    bottom = texel(left, lower) * (1.0 - blend_x) + texel(right, lower) * blend_x
    return top * (1.0 - blend_y) + bottom * blend_y


def _neighbours(position: Reals, count: Reals) -> tuple[Reals, Reals, Reals]:
    """Two texels whose centres enclose `position` [texel], wrapped, and the weight of the second."""
    xp = namespace(position, count)
    first = xp.floor(position - 0.5)
    blend = position - 0.5 - first
    second = first + 1.0
    return xp.where(first < 0.0, count - 1.0, first), xp.where(second >= count, second - count, second), blend


def _gather(texels: Any, place: Ints, like: Reals) -> Any:
    if namespace(like).name == "numpy":
        return texels[place]
    import drjit

    return drjit.gather(type(like), texels, place)
