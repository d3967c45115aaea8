"""Pictures of maps: free ground, path, goal and points from above."""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.pose import Floats
from parhelion.gym.free_space import FreeSpace

BLOCKED, LOW, HIGH = (38, 42, 50), (150, 158, 140), (238, 234, 220)
"""Colours of blocked ground, and of the lowest and highest free ground."""
PATH, GOAL, START, POINT = (214, 39, 40), (44, 160, 44), (31, 119, 180), (20, 60, 200)
_LONGEST = 900


def ground_image(space: FreeSpace) -> NDArray[np.uint8]:
    """Colour of each cell by height, dark where it is blocked or out of reach, shape (ny, nx, 3); y points up."""
    free = space.reachable()
    low, high = (np.nanpercentile(space.height[free], share) for share in (1.0, 99.0))
    share = np.clip((np.nan_to_num(space.height) - low) / max(high - low, 0.5), 0.0, 1.0)[..., None]
    colour = np.where(free[..., None], (1.0 - share) * np.array(LOW) + share * np.array(HIGH), np.array(BLOCKED))
    return np.asarray(colour.transpose(1, 0, 2)[::-1], np.uint8)


def map_picture(
    space: FreeSpace,
    path: Sequence[ArrayLike] | Floats,
    *,
    goal: ArrayLike | None = None,
    clouds: Sequence[NDArray[Any]] = (),
    longest: int = _LONGEST,
    file: str | PathLike[str] | None = None,
) -> Any:
    """Picture (PIL) of the map with a path, its start, the goal and points; `file` writes it as well.

    Args:
        space: Free ground.
        path: Positions [m], shape (n, 2) or (n, 3).
        goal: Position of the goal [m].
        clouds: Points in the world [m], each of shape (n, 3).
        longest: Pixels of the longer side.
        file: Image file to write.
    """
    from PIL import Image, ImageDraw

    ground = Image.fromarray(ground_image(space))
    scale = longest / max(ground.size)
    image = ground.resize((round(ground.width * scale), round(ground.height * scale)))
    draw, top = ImageDraw.Draw(image), space.low[1] + space.height.shape[1] * space.cell_m
    per_metre = scale / space.cell_m

    def pixels(points: ArrayLike) -> list[tuple[float, float]]:
        xy = np.asarray(points, np.float64).reshape(-1, np.shape(points)[-1])[:, :2]
        x, y = (xy[:, 0] - space.low[0]) * per_metre, (top - xy[:, 1]) * per_metre
        return list(zip(x.tolist(), y.tolist(), strict=True))

    for cloud in clouds:
        if len(cloud):
            draw.point(pixels(cloud), fill=POINT)
    if len(path) > 1:
        draw.line(pixels(np.asarray(path)), fill=PATH, width=max(2, round(0.004 * longest)), joint="curve")
    for place, colour in ((path[0] if len(path) else None, START), (goal, GOAL)):
        if place is not None:
            x, y = pixels(np.asarray(place)[None])[0]
            size = 0.009 * longest
            draw.ellipse((x - size, y - size, x + size, y + size), fill=colour, outline=(255, 255, 255), width=2)
    if file is not None:
        image.save(file)
    return image
