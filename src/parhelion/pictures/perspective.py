"""Points as a camera sees them: projected, near ones larger and on top, far ones sinking into the background."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Pose

_NEAREST_M = 0.5


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
    local = camera.pose.inverse().apply(points)
    depth = local[:, 0]
    focal = 0.5 * camera.width / np.tan(0.5 * np.radians(camera.field_of_view_deg))
    seen = np.flatnonzero(depth > _NEAREST_M)
    depth = depth[seen]
    column = 0.5 * camera.width - focal * local[seen, 1] / depth
    row = 0.5 * camera.height - focal * local[seen, 2] / depth
    reach = np.clip(0.5 * focal * point_size_m / depth, 0.5, 3.5)
    inside = (column > -4) & (column < camera.width + 4) & (row > -4) & (row < camera.height + 4)
    seen, depth, column, row, reach = (values[inside] for values in (seen, depth, column, row, reach))
    nearest = np.full((camera.height * camera.width,), np.inf)
    owner = np.full(nearest.shape, -1, np.intp)
    for down in range(-3, 4):
        for right in range(-3, 4):
            covers = np.flatnonzero(reach >= max(abs(down), abs(right)) + 0.5 * bool(down or right) - 0.5)
            if max(abs(down), abs(right)):
                covers = covers[reach[covers] > max(abs(down), abs(right)) - 0.25]
            x = np.floor(column[covers]).astype(np.intp) + right
            y = np.floor(row[covers]).astype(np.intp) + down
            valid = (x >= 0) & (x < camera.width) & (y >= 0) & (y < camera.height)
            cell, index = (y * camera.width + x)[valid], covers[valid]
            np.minimum.at(nearest, cell, depth[index])
            front = nearest[cell] == depth[index]
            owner[cell[front]] = index[front]
    image = np.tile(np.asarray(background, np.float64), (camera.height * camera.width, 1))
    drawn = owner >= 0
    fade = np.exp(-depth[owner[drawn]] / fade_m)[:, None]
    image[drawn] = colour[seen[owner[drawn]]] * fade + image[drawn] * (1.0 - fade)
    return np.asarray(image.reshape(camera.height, camera.width, 3), np.float32)
