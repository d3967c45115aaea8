"""Surfaces of a world without its ceiling, in shaded label colours: from above and in perspective."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats, Pose
from parhelion.pictures.style import colour_labels
from parhelion.rays.records import Hits, Rays
from parhelion.rays.scene import RayScene
from parhelion.world.labels import FURTHER
from parhelion.world.world import World

Extent = tuple[float, float, float, float]

_LIGHT = np.array([-0.45, 0.35, 0.82])  # from the upper left, as maps are shaded
_BELOW_CEILING_M = 0.02
_LIFT_M = 0.3
"""Height [m] above a position at which the search for a ceiling starts."""
_COVERED = 0.8
"""Share of positions under a roof from which it is removed, if it is not labelled as a ceiling."""
_MATERIALS = 20_000
"""Number of the first material among the classes; labels have smaller ones."""
_MOST_BODIES = 4
"""Moving bodies that a search for a ceiling passes through, for example that of the robot itself."""


def class_names(world: World) -> dict[int, str]:
    """Names of the numbers of `classes`."""
    return {**world.label_names, **{_MATERIALS + k: one.name for k, one in enumerate(world.materials)}}


def classes(label: NDArray[Any], material: NDArray[Any]) -> NDArray[np.uint16]:
    """Numbers for the colours of a picture: labels, and materials of surfaces without a label of their own (`object`).

    Models of a hall often name only materials, and a picture in one colour shows nothing.
    """
    return np.where(label == FURTHER["object"], _MATERIALS + material, label).astype(np.uint16)


class Relief:
    """A world at one time, with one acceleration structure for all pictures of it.

    A ceiling above most of the positions `below` (n, 3) [m] is removed; by default one above the viewpoint. A roof
    without the label `ceiling` is removed if nearly all positions lie below it.
    """

    def __init__(self, world: World, time: float = 0.0, below: Floats | None = None) -> None:
        self.world, self.time, self.names = world, time, class_names(world)
        bounds = world.bounds
        self.lower, self.upper = bounds if bounds is not None else (np.zeros(3), np.zeros(3))
        self.scene = RayScene(world.geometry())
        self.ceiling = self._ceiling(world.viewpoint.xyz[None, :] if below is None else below)
        """Height [m] of the removed ceiling; None without one."""

    def from_above(self, extent: Extent, columns: int, rows: int) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
        """Colours (rows, columns, 4), and the class of each pixel that hit a surface, see `classes`."""
        x = extent[0] + (np.arange(columns) + 0.5) * (extent[1] - extent[0]) / columns
        y = extent[3] - (np.arange(rows) + 0.5) * (extent[3] - extent[2]) / rows
        start = np.empty((rows * columns, 3))
        start[:, 0], start[:, 1] = np.tile(x, rows), np.repeat(y, columns)
        start[:, 2] = self.upper[2] + 1.0 if self.ceiling is None else self.ceiling - _BELOW_CEILING_M
        hits = self.scene.cast(Rays.of(start, (0.0, 0.0, -1.0), self.time))
        colour, label = self._shaded(hits, start[:, 2] - hits.range)
        image = np.concatenate([colour, hits.found[:, None]], axis=1)
        return image.reshape(rows, columns, 4).astype(np.float32), label[hits.found]

    def in_perspective(self, pose: Pose, width: int, height: int, focal: float) -> tuple[Floats, Floats]:
        """Colours (height, width, 3) and distances (height, width) [m] of a pinhole camera; inf where nothing is hit.

        The camera looks along the x axis of its pose, and `focal` is its focal length [pixels].
        """
        right, down = np.meshgrid(np.arange(width) + 0.5 - width / 2, np.arange(height) + 0.5 - height / 2)
        local = np.stack([np.full(right.size, focal), -right.ravel(), -down.ravel()], axis=1)
        rays = Rays.of(np.broadcast_to(pose.xyz, local.shape), local @ pose.rotation.T, self.time)
        ahead = np.zeros(len(rays))
        if self.ceiling is not None and pose.xyz[2] > self.ceiling:
            # Rays start where they pass below the ceiling; level and rising ones never do.
            with np.errstate(divide="ignore"):
                ahead = (self.ceiling - _BELOW_CEILING_M - pose.xyz[2]) / rays.direction[:, 2]
            ahead = np.where(ahead > 0.0, ahead, np.inf)
        from_here = np.isfinite(ahead)
        origin = rays.origin + np.where(from_here, ahead, 0.0)[:, None] * rays.direction
        hits = self.scene.cast(Rays(origin, rays.direction, rays.time, rays.max_range))
        distance = np.where(from_here & hits.found, ahead + hits.range, np.inf)
        with np.errstate(invalid="ignore"):
            colour, _ = self._shaded(hits, origin[:, 2] + hits.range * rays.direction[:, 2])
        return colour.reshape(height, width, 3), distance.reshape(height, width)

    def _shaded(self, hits: Hits, level: Floats) -> tuple[Floats, NDArray[np.uint16]]:
        """Label colours (n, 3) of hits at a height [m], brighter towards the light and with height; their classes."""
        part = np.maximum(hits.part, 0)
        label = classes(self.world.parts.label[part], self.world.parts.material[part])
        up = np.where(hits.normal[:, 2:] < 0.0, -hits.normal, hits.normal)
        slope = np.clip(up @ (_LIGHT / np.linalg.norm(_LIGHT)), 0.0, 1.0)
        tall = max(self.upper[2] - self.lower[2], 1e-3)
        rise = np.clip(np.nan_to_num((level - self.lower[2]) / tall, nan=0.0, neginf=0.0, posinf=0.0), 0.0, 1.0)
        light = (0.35 + 0.75 * slope) * (0.8 + 0.2 * rise)
        return np.clip(colour_labels(label, self.names) * light[:, None], 0.0, 1.0), label

    def _ceiling(self, places: Floats) -> float | None:
        """Height [m] of a ceiling or a roof above the positions, or None."""
        if not len(places) or self.world.bounds is None:
            return None
        start = places + np.array([0.0, 0.0, _LIFT_M])
        found, label = np.full(len(places), np.inf), np.zeros(len(places), np.uint16)
        seeking = np.arange(len(places))
        for _ in range(_MOST_BODIES):
            hits = self.scene.cast(Rays.of(start[seeking], (0.0, 0.0, 1.0), self.time))
            height = start[seeking, 2] + hits.range
            fixed = hits.found & (hits.actor < 0)
            found[seeking[fixed]] = height[fixed]
            label[seeking[fixed]] = self.world.parts.label[hits.part[fixed]]
            again = hits.found & (hits.actor >= 0)
            start[seeking[again], 2] = height[again] + 1e-3
            seeking = seeking[again]
            if not len(seeking):
                break
        ceilings = [number for number, word in self.world.label_names.items() if word == "ceiling"]
        named = np.isfinite(found) & np.isin(label, ceilings)
        if np.mean(named) > 0.5:
            return float(found[named].min())
        covered = np.isfinite(found)
        return float(found[covered].min()) if np.mean(covered) >= _COVERED else None


def from_above(
    world: World, extent: Extent, columns: int, rows: int, time: float = 0.0, below: Floats | None = None
) -> tuple[NDArray[np.float32], NDArray[np.uint16]]:
    """Colours (rows, columns, 4) of the world at a time [s], and the class of each pixel that hit a surface."""
    return Relief(world, time, below).from_above(extent, columns, rows)
