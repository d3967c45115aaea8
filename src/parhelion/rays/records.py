"""Rays and hits: the input and output records of every ray engine."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError


@dataclass(frozen=True, eq=False)
class Rays:
    """Half lines in the world frame, each at its own time."""

    origin: NDArray[np.float64]
    """Start points [m], shape (n, 3)."""
    direction: NDArray[np.float64]
    """Unit directions, shape (n, 3)."""
    time: NDArray[np.float64]
    """Time of each ray on the world's clock [s], shape (n,)."""
    max_range: NDArray[np.float64]
    """Hits beyond this are not reported [m], shape (n,)."""

    @classmethod
    def of(cls, origin: ArrayLike, direction: ArrayLike, time: ArrayLike = 0.0, max_range: ArrayLike = np.inf) -> Rays:
        """Make rays from arrays that broadcast against each other; directions are normalised, and values checked."""
        o = np.asarray(origin, dtype=np.float64)
        d = np.asarray(direction, dtype=np.float64)
        o, d = np.broadcast_arrays(np.atleast_2d(o), np.atleast_2d(d))
        n = len(d)
        t = np.broadcast_to(np.asarray(time, dtype=np.float64), (n,))
        limit = np.broadcast_to(np.asarray(max_range, dtype=np.float64), (n,))
        if o.shape[1:] != (3,) or not (np.all(np.isfinite(o)) and np.all(np.isfinite(d)) and np.all(np.isfinite(t))):
            raise ConfigError("rays: origins, directions and times must be finite, with three coordinates each")
        length = np.linalg.norm(d, axis=1, keepdims=True)
        if np.any(length == 0):
            raise ConfigError("rays: a direction must not be zero")
        if np.any(limit < 0) or np.any(np.isnan(limit)):
            raise ConfigError("rays: max_range must not be negative")
        return cls(o, d / length, t, limit)

    def __len__(self) -> int:
        return len(self.direction)

    @property
    def middle_time(self) -> float:
        """Half-way between the first and the last ray's time [s]; there must be a ray."""
        return float(self.time.min() + self.time.max()) / 2.0

    @property
    def middle_origin(self) -> NDArray[np.float64]:
        """Middle of the box around all start points [m], shape (3,)."""
        middle: NDArray[np.float64] = (self.origin.min(axis=0) + self.origin.max(axis=0)) / 2.0
        return middle


@dataclass(frozen=True, eq=False)
class Hits:
    """Nearest hit of each ray."""

    range: NDArray[np.float64]
    """Distance along the ray [m]; inf for misses, shape (n,)."""
    triangle: NDArray[np.int64]
    """Number of the triangle, static ones first, then those of each actor; -1 for misses, shape (n,)."""
    part: NDArray[np.int64]
    """Part number of that triangle; -1 for misses, shape (n,)."""
    actor: NDArray[np.int64]
    """Number of the actor; -1 for static triangles and misses, shape (n,)."""
    normal: NDArray[np.float64]
    """Unit normal of the triangle in the world frame at the ray's time; zero for misses, shape (n, 3)."""

    def __len__(self) -> int:
        return len(self.range)

    @property
    def found(self) -> NDArray[np.bool_]:
        """Mask of the rays with a hit, shape (n,)."""
        return self.triangle >= 0


class Caster(Protocol):
    """Contract of a ray engine."""

    def cast(self, rays: Rays) -> Hits:
        """Return the nearest triangle that each ray hits within its range."""
        ...

    def is_blocked(self, rays: Rays) -> NDArray[np.bool_]:
        """Return a mask of the rays that hit anything within their range."""
        ...
