"""Skyline: buildings beyond the edge of a world, which shadow satellites at low elevations.

A model of a town ends somewhere, and its streets would end in open country. The heights of the buildings of the model
continue beyond its edge: one row of buildings stands there, with Rayleigh-distributed heights of the same mean, as in
the roadside building-shadowing model of ITU-R P.681. Each building diffracts as a knife edge (ITU-R P.526-15).
A world without buildings has no skyline.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_unit
from parhelion.sensors.waves.diffraction import knife_edge_loss_db
from parhelion.sensors.waves.planes import cached
from parhelion.world.world import World

LABEL = "building"
WIDTH_M = 15.0
"""Width [m] of the buildings of the skyline. Assumed: a detached or terraced house."""
NEAREST_M = 10.0
"""Smallest distance [m] between antenna and skyline."""
_RAYLEIGH_MEAN = float(np.sqrt(np.pi / 2.0))


@dataclass(frozen=True, eq=False)
class Skyline:
    """A row of buildings along the edge of a rectangle."""

    low: Floats
    """Lower corner of the rectangle [m], shape (2,)."""
    high: Floats
    """Upper corner of the rectangle [m], shape (2,)."""
    ground_m: float
    """Height of the ground [m]."""
    height_m: float
    """Modal height of the buildings [m]."""

    def loss_db(self, xyz: Floats, toward: Floats, seed: int, wavelength_m: float) -> tuple[Floats, NDArray[np.bool_]]:
        """Diffraction loss [dB] from antennas (n, 3) [m] to satellites (n, s, 3), and a mask of blocked ones, (n, s).

        An antenna outside the rectangle has no loss.
        """
        flat = toward[..., :2]
        span = np.maximum(np.sqrt(np.sum(flat * flat, axis=2)), 1e-9)
        step = flat / span[..., None]
        place = xyz[:, None, :2]
        with np.errstate(divide="ignore", invalid="ignore"):
            edge = np.where(step > 0, self.high - place, self.low - place) / step
        distance = np.nanmin(np.where(step == 0.0, np.inf, edge), axis=2)
        inside = np.all((xyz[:, :2] >= self.low) & (xyz[:, :2] <= self.high), axis=1)[:, None]
        distance = np.maximum(np.where(inside, distance, NEAREST_M), NEAREST_M)
        x, y = np.moveaxis(np.floor((place + distance[..., None] * step) / WIDTH_M).astype(np.int64), -1, 0)
        cell = (x * 73_856_093 ^ y * 19_349_663) & 0xFFFFFFFF
        drawn = to_unit(Stream(seed, "gnss/skyline").words(cell.ravel())[0]).reshape(cell.shape)
        height = self.ground_m + self.height_m * np.sqrt(-2.0 * np.log(drawn))
        over = height - (xyz[:, None, 2] + distance * toward[..., 2] / span)
        nu = over * span * np.sqrt(2.0 / (wavelength_m * distance))
        loss = np.where(nu > -0.78, np.maximum(knife_edge_loss_db(np.maximum(nu, -0.78)), 0.0), 0.0)
        return np.where(inside, loss, 0.0), inside & (over > 0.0)


def skyline_of(world: World, names: tuple[str, ...]) -> Skyline | None:
    """Skyline that continues the buildings of a world; None without buildings."""
    geometry = world.geometry(*names)

    def built() -> list[Skyline]:
        labels = [number for number, name in world.label_names.items() if name == LABEL]
        static = geometry.static
        rows = np.isin(world.parts.label[static.part], labels) if len(static) and labels else np.zeros(0, bool)
        if not np.any(rows):
            return []
        points = static.vertices[static.faces[rows]].reshape(-1, 3)
        part = np.repeat(world.parts.instance[static.part[rows]], 3)
        _, part = np.unique(part, return_inverse=True)
        part = part.reshape(-1)
        top, bottom = (np.full(int(part.max()) + 1, sign * np.inf) for sign in (-1, 1))
        np.maximum.at(top, part, points[:, 2])
        np.minimum.at(bottom, part, points[:, 2])
        # Cellars and tunnels are not in sight. Sorted heights have the same mean in any order of adding buildings.
        above = top > np.median(bottom)
        points = points[above[part], :2]
        ground = float(bottom[above].min())
        mean = float(np.mean(np.sort(top[above]) - ground))
        return [Skyline(points.min(axis=0), points.max(axis=0), ground, mean / _RAYLEIGH_MEAN)]

    found: list[Skyline] = cached(world, ("skyline", id(geometry)), built)
    return found[0] if found else None
