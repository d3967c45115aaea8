"""Conversion of ground-truth arrays to pictures that other tools read, and back.

| array | file |
| --- | --- |
| depth | PNG, 16 bits: metres times 256; 0 without a surface and from 256 m on (KITTI's depth maps) |
| normal | PNG, 3 x 16 bits: x, y, z as (n + 1) times 32767.5; all 0 without a surface |
| label | PNG, 16 bits: the number of the class |
| mobility | PNG, 8 bits: 0 none, 1 static, 2 movable, 3 moving |
| window | PNG, 8 bits: 255 times the share of light that passes the window undeflected |
| instance | PNG, 3 x 8 bits: one colour per instance, see `instance_colours` |
| flow | PNG, 3 x 16 bits: (u, v) times 64 plus 32768, and 1 where known (KITTI's flow maps) |
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError

DEPTH_STEPS_PER_METRE = 256.0
FLOW_STEPS_PER_PIXEL = 64.0
_FLOW_ZERO = 32768.0
_NORMAL_SCALE = 32767.5
# Odd, so that the product modulo 2^24 is unique for every number below 2^24; close to the golden ratio, so that
# neighbouring numbers have very different colours.
_SPREAD = 0x9E3779
_BACK = pow(_SPREAD, -1, 1 << 24)
MOST_INSTANCES = 1 << 24


def depth_pixels(depth: NDArray[Any]) -> NDArray[np.uint16]:
    """Depth [m] as pixels of a depth map."""
    with np.errstate(invalid="ignore"):
        steps = np.round(np.asarray(depth, np.float64) * DEPTH_STEPS_PER_METRE)
        known = np.isfinite(steps) & (steps >= 1.0) & (steps <= 65535.0)
    return np.where(known, steps, 0.0).astype(np.uint16)


def depth_from(pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Depth [m] from the pixels of a depth map, infinite where it has none."""
    return np.where(pixels == 0, np.inf, pixels / DEPTH_STEPS_PER_METRE).astype(np.float32)


def normal_pixels(normal: NDArray[Any]) -> NDArray[np.uint16]:
    """Unit normals as colours; black without a normal."""
    pixels = np.round((np.asarray(normal, np.float64) + 1.0) * _NORMAL_SCALE)
    pixels[~np.any(normal, axis=2)] = 0.0
    return np.clip(pixels, 0.0, 65535.0).astype(np.uint16)


def normal_from(pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Unit normals from colours."""
    found = pixels / _NORMAL_SCALE - 1.0
    found[~np.any(pixels, axis=2)] = 0.0
    return found.astype(np.float32)


def flow_pixels(flow: NDArray[Any]) -> NDArray[np.uint16]:
    """Flow [pixel] in KITTI's encoding; unknown flow, and flow of 512 pixels and more, is 0 0 0."""
    steps = np.round(np.asarray(flow, np.float64) * FLOW_STEPS_PER_PIXEL + _FLOW_ZERO)
    with np.errstate(invalid="ignore"):
        known = np.all(np.isfinite(steps) & (steps >= 0.0) & (steps <= 65535.0), axis=2)
    pixels = np.zeros((*flow.shape[:2], 3), np.uint16)
    pixels[known, :2] = steps[known]
    pixels[known, 2] = 1
    return pixels


def flow_from(pixels: NDArray[Any]) -> NDArray[np.float32]:
    """Flow [pixel] from KITTI's encoding, NaN where unknown."""
    found = (pixels[:, :, :2].astype(np.float64) - _FLOW_ZERO) / FLOW_STEPS_PER_PIXEL
    found[pixels[:, :, 2] == 0] = np.nan
    return found.astype(np.float32)


def window_pixels(window: NDArray[Any]) -> NDArray[np.uint8]:
    """Transmittance of the window as grey values."""
    return np.rint(255.0 * np.clip(np.asarray(window, np.float64), 0.0, 1.0)).astype(np.uint8)


def instance_colours(instance: NDArray[Any]) -> NDArray[np.uint8]:
    """Unique colours, red, green, blue (..., 3), for instance numbers (...); black for 0."""
    numbers = np.atleast_1d(instance).astype(np.uint64)  # NumPy 1 turns single numbers into floats
    if int(numbers.max(initial=0)) >= MOST_INSTANCES:
        raise FormatError(f"instance numbers must be below 2^24 to have unique colours, got {int(numbers.max())}")
    mixed = numbers * _SPREAD % MOST_INSTANCES
    colours = np.stack([mixed >> 16, mixed >> 8 & 255, mixed & 255], axis=-1).astype(np.uint8)
    return colours.reshape(*np.shape(instance), 3)


def instances_from(colours: NDArray[Any]) -> NDArray[np.uint32]:
    """Instance numbers from colours (..., 3)."""
    red, green, blue = (colours[..., k].astype(np.uint64) for k in range(3))
    return ((red << 16 | green << 8 | blue) * _BACK % MOST_INSTANCES).astype(np.uint32)
