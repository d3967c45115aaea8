"""Points as a camera sees them: projected, near ones larger and on top, far ones sinking into the background."""

from __future__ import annotations

import itertools
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Pose

_NEAREST_M = 0.5
_WIDEST_PIXELS = 3
"""Pixels that a near point reaches on each side of its own."""


@dataclass(frozen=True)
class Camera:
    """A pinhole camera that looks along the x axis of its pose, z up."""

    pose: Pose
    width: int
    height: int
    """Size of the image [pixels]."""
    field_of_view_deg: float
    """Horizontal angle of view."""


def render(
    points: NDArray[Any], colour: NDArray[Any], camera: Camera, *, background: Any, point_size_m: float, fade_m: float
) -> NDArray[np.float32]:
    """An image (height, width, 3) in [0, 1] of points (n, 3) [m] with colours (n, 3) in [0, 1].

    A point covers a square of `point_size_m` at its distance, 1 to 7 pixels wide; its colour falls towards
    `background` as exp(-distance / `fade_m`).
    """
    local = (points - camera.pose.xyz) @ camera.pose.rotation
    focal = 0.5 * camera.width / np.tan(0.5 * np.radians(camera.field_of_view_deg))
    ahead = np.flatnonzero(local[:, 0] > _NEAREST_M)
    ahead = ahead[np.argsort(-local[ahead, 0], kind="stable")]  # far first: of one pixel's points the last stays
    depth = local[ahead, 0]
    column = np.floor(0.5 * camera.width - focal * local[ahead, 1] / depth)
    row = np.floor(0.5 * camera.height - focal * local[ahead, 2] / depth)
    framed = (np.abs(column) < 2 * camera.width) & (np.abs(row) < 2 * camera.height)
    ahead, depth, column, row = (values[framed] for values in (ahead, depth, column, row))
    reach = np.clip(0.5 * focal * point_size_m / depth, 0.0, _WIDEST_PIXELS)
    owner = _nearest_owner(column, row, depth, reach, camera)
    image = np.tile(np.asarray(background, np.float64), (camera.height * camera.width, 1))
    drawn = owner >= 0
    fade = np.exp(-depth[owner[drawn]] / fade_m)[:, None]
    image[drawn] = colour[ahead[owner[drawn]]] * fade + image[drawn] * (1.0 - fade)
    return np.asarray(image.reshape(camera.height, camera.width, 3), np.float32)


def _nearest_owner(
    column: NDArray[Any], row: NDArray[Any], depth: NDArray[Any], reach: NDArray[Any], camera: Camera
) -> NDArray[np.intp]:
    """Row number of the nearest point that covers each pixel, or -1; points come far first."""
    owner = np.full(camera.height * camera.width, -1, np.intp)
    nearest = np.full(owner.shape, np.inf)
    candidate = np.empty(owner.shape, np.intp)
    for distance in range(_WIDEST_PIXELS + 1):
        wide = np.flatnonzero(reach >= distance)
        for down, right in _ring(distance):
            x, y = column[wide] + right, row[wide] + down
            inside = (x >= 0) & (x < camera.width) & (y >= 0) & (y < camera.height)
            covers = wide[inside]
            pixel = (y[inside] * camera.width + x[inside]).astype(np.intp)
            candidate[pixel] = covers
            # Where several cover a pixel, only the nearest of them finds itself there.
            first = candidate[pixel] == covers
            pixel, covers = pixel[first], covers[first]
            closer = depth[covers] < nearest[pixel]
            owner[pixel[closer]] = covers[closer]
            nearest[pixel[closer]] = depth[covers[closer]]
    return owner


def _ring(distance: int) -> list[tuple[int, int]]:
    """Steps down and right to all pixels at this distance, counted along the farther axis."""
    steps = range(-distance, distance + 1)
    return [pair for pair in itertools.product(steps, steps) if max(map(abs, pair)) == distance]
