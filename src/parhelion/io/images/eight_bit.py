"""Any picture as 8-bit colours, for eyes and for formats that hold nothing else."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

_RGB = ("red", "green", "blue")


def shown_colours(colour: NDArray[Any], bands: tuple[str, ...] = ()) -> NDArray[np.uint8]:
    """Pixels (h, w) or (h, w, bands) as grey (h, w) or red, green, blue (h, w, 3), uint8.

    Of more bands than three those called red, green and blue are shown, or else the first three; of two the first.
    16 bits are cut to their upper 8. Numbers of floating point are spread from 0 to their 99.5th percentile.
    """
    pixels = colour if colour.ndim == 3 else colour[:, :, None]
    if pixels.shape[2] != 3 and all(band in bands for band in _RGB):
        pixels = pixels[:, :, [bands.index(band) for band in _RGB]]
    elif pixels.shape[2] > 3:
        pixels = pixels[:, :, :3]
    elif pixels.shape[2] == 2:
        pixels = pixels[:, :, :1]
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    elif pixels.dtype != np.uint8:
        finite = pixels[np.isfinite(pixels)]
        top = max(float(np.percentile(finite, 99.5)) if finite.size else 0.0, 1e-12)
        known = np.nan_to_num(pixels, nan=0.0, posinf=top, neginf=0.0)
        pixels = np.round(np.clip(known / top, 0.0, 1.0) * 255.0).astype(np.uint8)
    return pixels[:, :, 0] if pixels.shape[2] == 1 else np.ascontiguousarray(pixels)


def red_green_blue(colour: NDArray[Any], bands: tuple[str, ...] = ()) -> NDArray[np.uint8]:
    """The same, always (h, w, 3)."""
    pixels = shown_colours(colour, bands)
    return np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else pixels
