"""Colour filters over the pixels, and the two missing colours of each pixel from its neighbours.

Written once for NumPy and Dr.Jit. Planes are flat; the mosaic is mirrored at its edges, so that the pattern goes on.

Source: H. S. Malvar, L. He, R. Cutler, "High-quality linear interpolation for demosaicing of Bayer-patterned color
images", ICASSP 2004.
"""

from __future__ import annotations

from typing import Any

from parhelion.core.arrays import namespace
from parhelion.core.errors import unknown_name
from parhelion.sensors.camera.planes import Array, gather, mirrored, places

PATTERNS = ("RGGB", "BGGR", "GRBG", "GBRG")
"""Colours of the first two pixels of row 0, then of row 1."""
DEMOSAICS = ("malvar", "bilinear")


def sites(pixel: Array, width: int, pattern: str) -> tuple[Array, Array, Array]:
    """Whether each pixel is red, whether it is blue, and whether it lies in a row with red ones."""
    if pattern not in PATTERNS:
        raise unknown_name("Bayer pattern", pattern, PATTERNS)
    row, column = places(pixel, width)
    red = pattern.index("R")
    in_red_row = (row & 1) == red // 2
    in_red_column = (column & 1) == red % 2
    return in_red_row & in_red_column, ~in_red_row & ~in_red_column, in_red_row


def mosaic(red: Array, green: Array, blue: Array, pixel: Array, width: int, pattern: str) -> Array:
    """The one colour that each pixel sees."""
    is_red, is_blue, _ = sites(pixel, width, pattern)
    xp = namespace(red, pixel)
    return xp.where(is_red, red, xp.where(is_blue, blue, green))


def quad_largest(raw: Array, pixel: Array, width: int, height: int) -> Array:
    """The largest value of the two by two pixels, one of each colour and a second green, that each pixel belongs to."""
    xp = namespace(raw, pixel)
    row, column = places(pixel, width)
    top, left = row - (row & 1), column - (column & 1)
    # The last row or column of an odd number has the next to last as its partner.
    bottom, right = mirrored(top + 1, height), mirrored(left + 1, width)
    upper = xp.maximum(gather(raw, top * width + left), gather(raw, top * width + right))
    lower = xp.maximum(gather(raw, bottom * width + left), gather(raw, bottom * width + right))
    return xp.maximum(upper, lower)


def demosaic(
    raw: Array, pixel: Array, width: int, height: int, pattern: str, method: str = "malvar"
) -> tuple[Array, Array, Array]:
    """Red, green and blue of every pixel of a mosaic. Both methods are exact where each colour is flat.

    `malvar` corrects the bilinear value by the curvature of the pixel's own colour, gains 1/2, 5/8 and 3/4, and is
    exact for grey gradients; it may give values a little outside of those around.
    """
    if method not in DEMOSAICS:
        raise unknown_name("demosaic method", method, DEMOSAICS)
    xp = namespace(raw, pixel)
    row, column = places(pixel, width)

    def at(down: int, right: int) -> Any:
        return gather(raw, mirrored(row + down, height) * width + mirrored(column + right, width))

    own = gather(raw, pixel)
    beside, above = at(0, -1) + at(0, 1), at(-1, 0) + at(1, 0)
    corners = at(-1, -1) + at(-1, 1) + at(1, -1) + at(1, 1)
    if method == "bilinear":
        green_here, along, across = 0.25 * (beside + above), 0.5 * beside, 0.5 * above
        opposite = 0.25 * corners
    else:
        far_beside, far_above = at(0, -2) + at(0, 2), at(-2, 0) + at(2, 0)
        green_here = 0.125 * (4.0 * own + 2.0 * (beside + above) - far_beside - far_above)
        along = 0.125 * (5.0 * own + 4.0 * beside - far_beside - corners + 0.5 * far_above)
        across = 0.125 * (5.0 * own + 4.0 * above - far_above - corners + 0.5 * far_beside)
        opposite = 0.125 * (6.0 * own + 2.0 * corners - 1.5 * (far_beside + far_above))
    is_red, is_blue, in_red_row = sites(pixel, width, pattern)
    red = xp.where(is_red, own, xp.where(is_blue, opposite, xp.where(in_red_row, along, across)))
    green = xp.where(is_red | is_blue, green_here, own)
    blue = xp.where(is_blue, own, xp.where(is_red, opposite, xp.where(in_red_row, across, along)))
    return red, green, blue
