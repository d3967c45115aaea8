"""Input geometry of the ray engine: float64 triangles, each with a part number."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Protocol
from weakref import ReferenceType

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Namespace, Reals
from parhelion.core.errors import ConfigError
from parhelion.core.pose import cross
from parhelion.core.trajectory import Trajectory

_TOGETHER = 64
"""Number of vertices that are compared at a time."""


@dataclass(frozen=True, eq=False)
class Triangles:
    """A triangle soup in one frame."""

    vertices: NDArray[np.float64]
    """Corner positions [m], shape (n, 3)."""
    faces: NDArray[np.int32]
    """Rows of `vertices`, shape (m, 3)."""
    part: NDArray[np.uint32]
    """Row of the world's table of parts (material, label, instance) for each triangle, shape (m,)."""
    uv: NDArray[np.float32] | None = None
    """Texture coordinates of each triangle's corners, shape (m, 3, 2), or None without textures."""

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

    @classmethod
    def joined(cls, soups: Sequence[Triangles]) -> Triangles:
        """All triangles of several soups, in order."""
        first = np.cumsum([0, *(len(soup.vertices) for soup in soups[:-1])])
        uv = None
        if any(soup.uv is not None for soup in soups):
            none = [np.zeros((len(soup), 3, 2), np.float32) for soup in soups]
            uv = np.concatenate(
                [blank if soup.uv is None else soup.uv for soup, blank in zip(soups, none, strict=True)]
            )
        return cls(
            np.concatenate([soup.vertices for soup in soups]),
            np.concatenate([soup.faces + np.int32(start) for soup, start in zip(soups, first, strict=True)]),
            np.concatenate([soup.part for soup in soups]),
            uv,
        )

    @cached_property
    def bounds(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """Lower and upper corner of the vertices [m], of which there must be some."""
        # A minimum along rows of many numbers is about ten times as fast as along rows of three.
        whole = len(self.vertices) // _TOGETHER * _TOGETHER
        blocks, rest = self.vertices[:whole].reshape(-1, 3 * _TOGETHER), self.vertices[whole:]
        found = []
        for extreme in (np.min, np.max):
            rows = [extreme(blocks, axis=0).reshape(_TOGETHER, 3)] if len(blocks) else []
            found.append(extreme(np.concatenate([*rows, rest]), axis=0))
        return found[0], found[1]

    def solid(self) -> tuple[Triangles, NDArray[np.int64]]:
        """Return the triangles with a non-zero area, and their row numbers; degenerate ones reflect nothing."""
        a, b, c = (self.vertices[self.faces[:, k]] for k in range(3))
        twice_area = np.linalg.norm(cross(b - a, c - a), axis=1)
        longest = np.maximum(np.sum((b - a) ** 2, axis=1), np.sum((c - a) ** 2, axis=1))
        rows = np.flatnonzero(twice_area > 1e-9 * longest)
        return (self if len(rows) == len(self) else self.chosen(rows)), rows

    def chosen(self, rows: NDArray[np.int64]) -> Triangles:
        """Return some of the triangles, with all vertices."""
        return Triangles(self.vertices, self.faces[rows], self.part[rows], None if self.uv is None else self.uv[rows])

    def without(self, gone: NDArray[np.bool_], counts: NDArray[np.int64]) -> Triangles:
        """Return the triangles and vertices that remain if some of the objects of this soup are removed.

        Args:
            gone: True for removed objects, shape (n,).
            counts: Numbers of triangles and vertices of each object, shape (n, 2).
        """
        # Few objects are removed, and copies of the long blocks between them are fast.
        ends = np.concatenate([np.zeros((1, 2), np.int64), np.cumsum(counts, axis=0)])
        edges = ends[np.flatnonzero(np.diff(~gone, prepend=False, append=False))].reshape(-1, 2, 2).tolist()
        rows = [slice(begin[0], end[0]) for begin, end in edges]
        corners = [slice(begin[1], end[1]) for begin, end in edges]
        before = np.cumsum([0, *(one.stop - one.start for one in corners)]).tolist()
        shifts = [np.int32(one.start - first) for one, first in zip(corners, before, strict=False)]
        found = Triangles(
            np.concatenate([self.vertices[:0], *(self.vertices[one] for one in corners)]),
            np.concatenate([self.faces[:0], *(self.faces[r] - one for r, one in zip(rows, shifts, strict=True))]),
            np.concatenate([self.part[:0], *(self.part[one] for one in rows)]),
            None if self.uv is None else np.concatenate([self.uv[:0], *(self.uv[one] for one in rows)]),
        )
        missing = self.vertices[np.repeat(gone, counts[:, 1])]
        if np.all((missing > self.bounds[0]) & (missing < self.bounds[1])):
            found.__dict__["bounds"] = self.bounds  # of the cached property
        return found

    def normals(self) -> NDArray[np.float64]:
        """Return unit normals (m, 3) by the right-hand rule; zero for degenerate triangles."""
        a, b, c = (self.vertices[self.faces[:, k]] for k in range(3))
        n = cross(b - a, c - a)
        length = np.linalg.norm(n, axis=1, keepdims=True)
        return np.divide(n, length, out=np.zeros_like(n), where=length > 0)


@dataclass(frozen=True, eq=False)
class MovingTriangles:
    """A rigid body: triangles in its own frame, and the motion of that frame in the world."""

    triangles: Triangles
    trajectory: Trajectory


@dataclass(frozen=True, eq=False)
class RaisedSurface:
    """A deforming surface at one time."""

    triangles: Triangles
    normal: NDArray[np.float64]
    """Unit normals of the triangles, upward, shape (m, 3)."""
    rise: NDArray[np.float64]
    """Speed at which each triangle rises [m/s], shape (m,)."""


class ChangingSurface(Protocol):
    """A deforming surface: water with waves. Its mesh may be finer in the neighbourhood of a sensor."""

    bounds: tuple[NDArray[np.float64], NDArray[np.float64]]
    """Lower and upper corner of the space that the surface can ever reach [m], each of shape (3,)."""
    most_triangles: int
    """Upper bound of the number of triangles."""

    def neighbourhood(self, xyz: NDArray[np.float64]) -> tuple[int, int]:
        """Return the key of the neighbourhood that contains `xyz` (3,) [m]; the mesh is the same within it."""
        ...

    def at(self, neighbourhood: tuple[int, int], time: float) -> RaisedSurface:
        """Return the surface at `time` [s]."""
        ...


MOST_SHIFT_M = 0.25
"""Largest correction of a hit distance for the motion of the surface [m]. Grazing rays would need much more."""


def risen(distance: Reals, normal: Reals, rise: Reals, late: Reals, toward: Reals, xp: Namespace) -> Reals:
    """Distance [m] at which rays hit faces that have moved for `late` [s], given the `distance` before they moved.

    `normal` is the upward component of the face normals, `rise` their vertical speed [m/s] and `toward` the cosine
    between normal and ray. All are arrays of NumPy or Dr.Jit; `xp` is their namespace.
    """
    steep = xp.where(xp.abs(toward) < 1e-6, 1e-6, toward)
    return distance + xp.clip(rise * late * normal / steep, -MOST_SHIFT_M, MOST_SHIFT_M)


@dataclass(frozen=True, eq=False)
class Remainder:
    """Static triangles that remain of a geometry, whose tables need not be computed again."""

    whole: ReferenceType[SceneGeometry]
    kept: NDArray[np.bool_]
    """True for the triangles that remain, in the same order, shape (n,)."""


@dataclass(frozen=True, eq=False)
class SceneGeometry:
    """Everything that a ray can hit."""

    static: Triangles
    actors: list[MovingTriangles] = field(default_factory=list)
    surface: ChangingSurface | None = None
    """Water with waves, or None."""
    remainder: Remainder | None = None
    """Geometry of which the static triangles are a part, if objects were removed from it."""

    @cached_property
    def bounds(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Lower and upper corner of the static triangles and the surface [m], or None if there are none."""
        corners = [] if self.surface is None else list(self.surface.bounds)
        if len(self.static):
            corners += self.static.bounds
        return (np.min(corners, axis=0), np.max(corners, axis=0)) if corners else None


class EditedGeometry(SceneGeometry):
    """Geometry of a world that was edited: a large unchanged part, whose structures are reused, and a small rest.

    It equals `SceneGeometry` with the static triangles of both, which are joined on first use.
    """

    base: SceneGeometry
    """Unchanged static triangles; the same object after each edit."""
    added: Triangles
    """Static triangles that were added since, which follow those of `base`."""

    def __init__(
        self, base: SceneGeometry, added: Triangles, actors: list[MovingTriangles], surface: ChangingSurface | None
    ) -> None:
        for name, value in (("base", base), ("added", added), ("actors", actors), ("surface", surface)):
            object.__setattr__(self, name, value)

    @cached_property
    def static(self) -> Triangles:  # type: ignore[override]
        """All static triangles."""
        return Triangles.joined([self.base.static, self.added])

    @cached_property
    def bounds(self) -> tuple[NDArray[Any], NDArray[Any]] | None:
        """Lower and upper corner of the static triangles and the surface [m]."""
        parts = (self.base, SceneGeometry(self.added, [], self.surface))
        corners = [corner for part in parts if part.bounds is not None for corner in part.bounds]
        return (np.min(corners, axis=0), np.max(corners, axis=0)) if corners else None
