"""Diffracted paths of radio waves around obstacles on the direct line, found by ray casting.

Four planes contain the line: above, below, left and right of it. In each plane, rays from both ends search for the
smallest angle that clears all obstacles. The two rays meet in one point: the edge of a thin screen, or Bullington's
point above a thick building or several obstacles. The loss is that of a single knife edge at this point.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.pose import Floats
from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene

MOST_LOSS_DB = 40.0
"""Largest loss of a path [dB]; the search ignores weaker ones."""
_HEIGHTS = 48
"""Number of heights tried in each plane, with smaller steps near the line; smaller gaps are missed."""
_HALVINGS = 16
"""Bisection steps between the highest blocked and the lowest free height."""
_ASIDE_M = 0.02
"""Rays end this far [m] behind the obstacle, because rounding can lose a hit at the very end of a ray."""
_LEAN = 3.0
"""Additional ray length per height above the line, for obstacles that lean away from it by up to 72 degrees."""
_OVER = 1e-5
"""Clearance above the edge at which the path is tested, as a fraction of the distance."""


def knife_edge_loss_db(nu: ArrayLike) -> Floats:
    """Loss [dB] behind a knife edge by Fresnel's parameter, for nu > -0.78 (ITU-R P.526-15, section 4.1, J(nu)).

    Within 0.15 dB of the Fresnel integral.
    """
    x = np.asarray(nu, dtype=np.float64) - 0.1
    return np.asarray(6.9 + 20.0 * np.log10(np.sqrt(x * x + 1.0) + x))


def fresnel_parameter(detour_m: ArrayLike, wavelength_m: ArrayLike) -> Floats:
    """Fresnel's parameter of an edge from the detour [m] over it: 2 sqrt(detour / wavelength).

    The same as h sqrt(2 (1/d1 + 1/d2) / wavelength) for an edge at a height h much smaller than its distances d.
    """
    return np.asarray(2.0 * np.sqrt(np.asarray(detour_m, dtype=np.float64) / np.asarray(wavelength_m)))


def diffracted_amplitude(detour_m: ArrayLike, wavelength_m: ArrayLike) -> NDArray[np.complex128]:
    """Complex amplitude behind a knife edge relative to the unobstructed line, without the phase of the detour itself.

    The phase is -45 degrees, the limit of the Fresnel integral in deep shadow.
    """
    loss = knife_edge_loss_db(fresnel_parameter(detour_m, wavelength_m))
    return np.asarray(10.0 ** (-loss / 20.0) * np.exp(-0.25j * np.pi))


def most_detour(wavelength_m: float) -> float:
    """Detour [m] at which the loss of a knife edge is MOST_LOSS_DB."""
    # Inverse of J(nu): with y = 10^((J - 6.9) / 20), sqrt(x^2 + 1) + x = y gives x = (y - 1/y) / 2.
    y = 10.0 ** ((MOST_LOSS_DB - 6.9) / 20.0)
    nu = (y - 1.0 / y) / 2.0 + 0.1
    return wavelength_m * nu * nu / 4.0


def edge_paths(
    scene: RayScene, start: Floats, end: Floats, times: Floats, most_detour_m: float
) -> tuple[NDArray[np.int64], Floats]:
    """Edges over which waves can pass where the lines from `start` to `end` (n, 3) [m] at times (n,) [s] are blocked.

    Returns the number of the line (m,) and the position of the edge [m] (m, 3). A blocked line has up to four edges, a
    free line has none.
    """
    search = _Search(scene, start, end, times, most_detour_m)
    row, way = (one.ravel() for one in np.indices((len(search.row), 4), dtype=np.int64))
    slope1 = search.steepness(0, row, way)
    open1 = np.isfinite(slope1)
    row, way, slope1 = row[open1], way[open1], slope1[open1]
    slope2 = search.steepness(1, row, way)
    open2 = np.isfinite(slope2)
    row, way, slope1, slope2 = row[open2], way[open2], slope1[open2], slope2[open2]
    # Two rays that rise from either end meet over the line.
    span = search.length[row]
    along = span * slope2 / (slope1 + slope2)
    place = search.place(row, way, along, slope1 * along)
    over = search.place(row, way, along, slope1 * along + _OVER * span + 1e-3)
    detour = _length(place - search.start[row]) + _length(place - search.end[row]) - span
    good = detour < most_detour_m
    for side in (search.start, search.end):
        good[good] = ~search.blocked(side[row][good], over[good], search.times[row][good])
    return search.row[row[good]], place[good]


def _length(vector: Floats) -> Floats:
    return np.asarray(np.sqrt(np.einsum("...i,...i->...", vector, vector)))


class _Search:
    """Blocked lines, each with four lateral directions."""

    def __init__(self, scene: RayScene, start: Floats, end: Floats, times: Floats, most_detour_m: float) -> None:
        self.scene = scene
        length = _length(end - start)
        direction = (end - start) / np.maximum(length, 1e-9)[:, None]
        ahead = scene.cast(Rays(start, direction, times, length))
        self.row = np.flatnonzero(ahead.found & (length > 4.0 * _ASIDE_M))
        self.start, self.end, self.times = start[self.row], end[self.row], times[self.row]
        self.length, self.direction = length[self.row], direction[self.row]
        back = scene.cast(Rays(self.end, -self.direction, self.times, self.length))
        near = ahead.range[self.row]
        far = self.length - np.where(back.found, back.range, 0.0)
        self.near = np.clip(np.minimum(near, far) - _ASIDE_M, _ASIDE_M, self.length - _ASIDE_M)
        self.far = np.clip(np.maximum(near, far) + _ASIDE_M, _ASIDE_M, self.length - _ASIDE_M)
        self.aside = _aside(self.direction)
        self.highest = self._highest(most_detour_m)

    def _highest(self, detour_m: float) -> Floats:
        """Height [m] above the line of the ellipsoid of the largest detour, at the obstacle, shape (n,)."""
        half, axis = self.length / 2.0, (self.length + detour_m) / 2.0
        at = np.clip(half, self.near, self.far)
        return np.asarray(np.sqrt(axis**2 - half**2) * np.sqrt(1.0 - ((at - half) / axis) ** 2))

    def place(self, row: NDArray[np.int64], way: NDArray[np.int64], along: Floats, height: Floats) -> Floats:
        """Positions [m] at a distance along the lines and a height in one of the four lateral directions."""
        return np.asarray(
            self.start[row] + along[:, None] * self.direction[row] + height[:, None] * self.aside[row, way]
        )

    def blocked(self, start: Floats, end: Floats, times: Floats) -> NDArray[np.bool_]:
        """Mask of the pairs of positions (n, 3) [m] with an obstacle in between."""
        vector = end - start
        length = _length(vector)
        return self.scene.is_blocked(Rays(start, vector / length[:, None], times, length))

    def steepness(self, side: int, row: NDArray[np.int64], way: NDArray[np.int64]) -> Floats:
        """Smallest slope of free rays from the start (0) or end (1) of lines `row` (m,), on their sides `way` (m,).

        NaN where no ray is free.
        """
        at = self.far if side == 0 else self.near
        reach = at if side == 0 else self.length - at
        # An obstacle close to one end can require a steeper ray than the height of the ellipsoid suggests.
        most = self.highest * np.maximum(
            1.0, reach / np.maximum(self.near if side == 0 else self.length - self.far, 0.05)
        )
        eye = self.start if side == 0 else self.end

        def is_blocked(rows: NDArray[np.int64], height: Floats) -> NDArray[np.bool_]:
            # One or more heights for each row.
            each = height.shape[1]
            r, w, up = np.repeat(row[rows], each), np.repeat(way[rows], each), height.ravel()
            longer = np.minimum(reach[r] + _LEAN * up, self.length[r])
            there = self.place(r, w, longer if side == 0 else self.length[r] - longer, up / reach[r] * longer)
            return self.blocked(eye[r], there, self.times[r]).reshape(height.shape)

        tried = most[row][:, None] * (np.arange(1, _HEIGHTS + 1) / _HEIGHTS) ** 2
        free = ~is_blocked(np.arange(len(row)), tried)
        passable = np.flatnonzero(np.any(free, axis=1))
        first = np.argmax(free[passable], axis=1)
        high = tried[passable, first][:, None]
        low = np.where(first > 0, tried[passable, np.maximum(first - 1, 0)], 0.0)[:, None]
        for _ in range(_HALVINGS):
            middle = (low + high) / 2.0
            closed = is_blocked(passable, middle)
            low, high = np.where(closed, middle, low), np.where(closed, high, middle)
        slope = np.full(len(row), np.nan)
        slope[passable] = high[:, 0] / reach[row[passable]]
        return slope


def _aside(direction: Floats) -> Floats:
    """Unit vectors across each direction (n, 3): over, under, left and right of it, shape (n, 4, 3)."""
    steep = np.abs(direction[:, 2]) > 0.999
    base = np.where(steep[:, None], np.array([1.0, 0.0, 0.0]), np.array([0.0, 0.0, 1.0]))
    up = base - np.einsum("ij,ij->i", base, direction)[:, None] * direction
    up = up / np.maximum(_length(up), 1e-9)[:, None]
    left = np.cross(up, direction)
    return np.stack([up, -up, left, -left], axis=1)
