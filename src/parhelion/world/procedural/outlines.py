"""Buildings as outlines with a height, such as maps hold, as parts: walls and a flat roof."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.world.kit.many import quads
from parhelion.world.kit.props import Part
from parhelion.world.mesh import Mesh
from parhelion.world.procedural.layout import LayoutObject
from parhelion.world.procedural.street import FootprintParams
from parhelion.world.shapes import triangulated


def outline_parts(thing: LayoutObject) -> list[Part] | None:
    """Walls and roof of a building's outline, or None for a thing of another sort."""
    params = thing.params
    if not isinstance(params, FootprintParams):
        return None
    height = thing.size[2]
    rings = [turned(params.outline, left=True), *(turned(hole, left=False) for hole in params.holes)]
    walls = np.concatenate([_walls(ring, height) for ring in rings])
    return [
        Part("walls", quads(walls), params.wall, "building"),
        Part("roof", roof_mesh(rings[0], rings[1:], height), params.roof, "building"),
    ]


def area(ring: Floats) -> float:
    """Area [m^2] of an outline (n, 2), positive where it runs counter-clockwise."""
    x, y = ring.T
    return 0.5 * float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


def turned(ring: tuple[tuple[float, float], ...], *, left: bool) -> Floats:
    """An outline (n, 2) counter-clockwise (`left`) or clockwise."""
    points = np.array(ring, dtype=np.float64)
    if abs(area(points)) < 1e-6:
        raise ConfigError("the outline of a building must have an area")
    return points if (area(points) > 0) == left else points[::-1].copy()


def _walls(ring: Floats, height: float) -> Floats:
    """Upright rectangles (n, 4, 3) on the sides of an outline; they face to its right."""
    after = np.roll(ring, -1, axis=0)
    low, high = np.zeros(len(ring)), np.full(len(ring), height)
    corners = ((ring, low), (after, low), (after, high), (ring, high))
    return np.stack([np.column_stack([points, z]) for points, z in corners], axis=1)


def roof_mesh(outer: Floats, holes: list[Floats], height: float) -> Mesh:
    """The level area inside an outline and outside its holes, facing up at `height` [m]."""
    faces = triangulated(outer)  # also tells of outlines that cross themselves
    if not holes:
        return Mesh(np.column_stack([outer, np.full(len(outer), height)]), faces)
    flat = _trapezoids([outer, *holes])
    points = np.concatenate([flat, np.full((*flat.shape[:2], 1), height)], axis=2)
    corner = flat.reshape(-1, 4, 2)
    across = (corner[:, 1, 0] - corner[:, 0, 0] + corner[:, 2, 0] - corner[:, 3, 0]) / 2
    covered = float(np.sum(across * (corner[:, 3, 1] - corner[:, 0, 1])))
    wanted = area(outer) - sum(abs(area(hole)) for hole in holes)
    if abs(covered - wanted) > 1e-3 * area(outer):
        raise ConfigError("the holes of a building's outline must lie inside it and apart")
    whole = quads(points)
    mesh, _ = Mesh.cleaned(whole.vertices, whole.faces)
    assert mesh is not None  # what is left has an area
    return mesh


def _trapezoids(rings: list[Floats]) -> Floats:
    """Quads (n, 4, 2) that fill rings by even and odd: bands between the heights of neighbouring corners.

    A roof with courts is cut so, since a cut from court to court would leave corners on the sides of triangles.
    """
    start = np.concatenate(rings)
    end = np.concatenate([np.roll(ring, -1, axis=0) for ring in rings])
    levels = np.unique(start[:, 1])
    pieces = []
    for low, high in pairwise(levels.tolist()):
        spans = (np.minimum(start[:, 1], end[:, 1]) <= low) & (np.maximum(start[:, 1], end[:, 1]) >= high)
        a, b = start[spans], end[spans]
        slope = (b[:, 0] - a[:, 0]) / (b[:, 1] - a[:, 1])
        x = a[:, :1] + (np.array([low, high]) - a[:, 1:]) * slope[:, None]
        x = x[np.argsort(x.sum(axis=1), kind="stable")].reshape(-1, 2, 2)
        left, right = x[:, 0], x[:, 1]
        y = np.broadcast_to([low, high], left.shape)
        corners = ((left, 0), (right, 0), (right, 1), (left, 1))
        pieces.append(np.stack([np.stack([side[:, k], y[:, k]], axis=1) for side, k in corners], axis=1))
    return np.concatenate(pieces)
