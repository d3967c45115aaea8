"""Triangles as the ray engine takes them: float64 in, with a part number on each triangle."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Reals
from parhelion.core.errors import ConfigError
from parhelion.core.trajectory import Trajectory


@dataclass(frozen=True, eq=False)
class Triangles:
    """A soup of triangles in one frame."""

    vertices: NDArray[np.float64]
    """Corner positions [m], shape (n, 3)."""
    faces: NDArray[np.int32]
    """Rows of `vertices`, shape (m, 3)."""
    part: NDArray[np.uint32]
    """Row of the world's table of parts (material, label, instance) for each triangle, shape (m,)."""
    uv: NDArray[np.float32] | None = None
    """Texture coordinates of each triangle's corners, shape (m, 3, 2), or None where nothing is textured."""

    def __post_init__(self) -> None:
        if self.vertices.ndim != 2 or self.vertices.shape[1] != 3 or self.faces.ndim != 2 or self.faces.shape[1] != 3:
            raise ConfigError("triangles: vertices must be (n, 3) and faces (m, 3)")
        if self.part.shape != (len(self.faces),):
            raise ConfigError(f"triangles: {len(self.part)} part numbers for {len(self.faces)} triangles")

    def __len__(self) -> int:
        return len(self.faces)

    @classmethod
    def empty(cls) -> Triangles:
        return cls(np.zeros((0, 3)), np.zeros((0, 3), np.int32), np.zeros(0, np.uint32))

    def solid(self) -> tuple[Triangles, NDArray[np.int64]]:
        """The triangles that have an area, and their numbers here: an edge alone reflects nothing."""
        a, b, c = (self.vertices[self.faces[:, k]] for k in range(3))
        twice_area = np.linalg.norm(np.cross(b - a, c - a), axis=1)
        longest = np.maximum(np.sum((b - a) ** 2, axis=1), np.sum((c - a) ** 2, axis=1))
        rows = np.flatnonzero(twice_area > 1e-9 * longest)
        if len(rows) == len(self):
            return self, rows
        uv = None if self.uv is None else self.uv[rows]
        return Triangles(self.vertices, self.faces[rows], self.part[rows], uv), rows

    def normals(self) -> NDArray[np.float64]:
        """Unit normals (m, 3), by the right-hand rule; zero for triangles without area."""
        a, b, c = (self.vertices[self.faces[:, k]] for k in range(3))
        n = np.cross(b - a, c - a)
        length = np.linalg.norm(n, axis=1, keepdims=True)
        return np.divide(n, length, out=np.zeros_like(n), where=length > 0)


@dataclass(frozen=True, eq=False)
class MovingTriangles:
    """A rigid body: triangles in its own frame, and the motion of that frame in the world."""

    triangles: Triangles
    trajectory: Trajectory


@dataclass(frozen=True, eq=False)
class RaisedSurface:
    """A surface that changes its shape, at one time."""

    triangles: Triangles
    normal: NDArray[np.float64]
    """Unit normals of the triangles, upward, shape (m, 3)."""
    rise: NDArray[np.float64]
    """Speed at which each triangle rises [m/s], shape (m,)."""


class ChangingSurface(Protocol):
    """A surface that changes its shape: water with waves. Its mesh may be finer in the neighbourhood of a sensor."""

    bounds: tuple[NDArray[np.float64], NDArray[np.float64]]
    """Lower and upper corner of all it may ever reach [m], each of shape (3,)."""
    most_triangles: int
    """It never has more."""

    def neighbourhood(self, xyz: NDArray[np.float64]) -> tuple[int, int]:
        """A number for the place (3,) [m]: the mesh is the same for all places of one number."""
        ...

    def at(self, neighbourhood: tuple[int, int], time: float) -> RaisedSurface:
        """The surface at `time` [s]."""
        ...


MOST_SHIFT_M = 0.25
"""A ray that grazes a rising face would meet it far from where it is at the middle time: it is moved by no more."""


def risen(distance: Reals, normal: Reals, rise: Reals, late: Reals, toward: Reals, xp: Any) -> Reals:
    """Distance [m] at which rays meet faces that moved on for `late` [s], from the distance at which they stood.

    `normal` is the upward component of the faces' normals and `toward` the cosine between normal and ray; arrays of
    NumPy or Dr.Jit, with their namespace.
    """
    steep = xp.where(xp.abs(toward) < 1e-6, 1e-6, toward)
    return distance + xp.clip(rise * late * normal / steep, -MOST_SHIFT_M, MOST_SHIFT_M)


@dataclass(frozen=True, eq=False)
class SceneGeometry:
    """All that a ray can meet."""

    static: Triangles
    actors: list[MovingTriangles] = field(default_factory=list)
    surface: ChangingSurface | None = None
    """Water with waves, where there is any."""

    @cached_property
    def bounds(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Lower and upper corner of what does not move about [m], or None where there is none of it."""
        corners = [] if self.surface is None else list(self.surface.bounds)
        if len(self.static):
            corners += [self.static.vertices.min(axis=0), self.static.vertices.max(axis=0)]
        return (np.min(corners, axis=0), np.max(corners, axis=0)) if corners else None

    @cached_property
    def middle(self) -> NDArray[np.float64]:
        """Middle of the bounds in whole metres [m], shape (3,)."""
        return np.zeros(3) if self.bounds is None else np.round((self.bounds[0] + self.bounds[1]) / 2)
