"""From a world's objects to the triangles that the ray engine takes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats, Pose
from parhelion.rays.geometry import MovingTriangles, SceneGeometry, Triangles
from parhelion.world.parts import WorldObject, WorldPart
from parhelion.world.water_surface import WaterSurface, Waves, is_sheet, sheet_corners

SENSOR_HEIGHT_M = 2.0
"""Height of a default viewpoint above the ground."""


def assemble(objects: Iterable[WorldObject], water: Waves | None = None) -> SceneGeometry:
    """Standing objects merged into one soup; each actor a body of its own; sheets of water raised by its waves."""
    standing: list[WorldPart] = []
    actors: list[MovingTriangles] = []
    sheets: list[WorldPart] = []
    for item in objects:
        if item.trajectory is not None:
            actors.append(MovingTriangles(merged(item.parts), item.trajectory))
        elif water is not None and is_sheet(item, water):
            sheets.extend(item.parts)
        else:
            standing.extend(item.parts)
    if water is None or not sheets:
        return SceneGeometry(merged(standing), actors)
    surface = WaterSurface(water, [(part.number, sheet_corners(part)) for part in sheets])
    return SceneGeometry(merged(standing), actors, surface)


def merged(parts: Sequence[WorldPart]) -> Triangles:
    """All triangles of the parts, with their part numbers; UVs where any part has a texture."""
    if not parts:
        return Triangles.empty()
    vertex_counts = np.array([len(part.placed) for part in parts])
    face_counts = np.array([len(part.mesh.faces) for part in parts])
    starts = np.cumsum(vertex_counts) - vertex_counts
    faces = np.concatenate([part.mesh.faces for part in parts])
    faces += np.repeat(starts, face_counts).astype(np.int32)[:, None]
    numbers = np.repeat(np.array([part.number for part in parts], dtype=np.uint32), face_counts)
    vertices = np.concatenate([part.placed for part in parts])
    return Triangles(vertices, faces, numbers, _texture_coordinates(parts, face_counts))


def _texture_coordinates(parts: Sequence[WorldPart], face_counts: NDArray[np.int64]) -> NDArray[np.float32] | None:
    if all(part.texture < 0 for part in parts):
        return None
    uv = np.zeros((int(face_counts.sum()), 3, 2), dtype=np.float32)
    ends = np.cumsum(face_counts)
    for part, end, count in zip(parts, ends, face_counts, strict=True):
        if part.texture >= 0 and part.mesh.uv is not None:
            uv[end - count : end] = part.mesh.uv
    return uv


def default_viewpoint(standing: Triangles) -> Pose:
    """A place from which a sensor sees something: over the centre, 2 m above the lowest ground with room above it.

    Ground is a surface that faces up. Where nothing lies under the centre, half-way up what stands around it.
    """
    if len(standing) == 0:
        return Pose(xyz=(0.0, 0.0, SENSOR_HEIGHT_M))
    lower, upper = standing.vertices.min(axis=0), standing.vertices.max(axis=0)
    centre = (lower + upper) / 2.0
    heights, faces_up = _surfaces_on_vertical(standing, centre)
    if len(heights) == 0:
        return Pose(xyz=(centre[0], centre[1], min(centre[2], lower[2] + SENSOR_HEIGHT_M)))
    ceiling = np.append(heights[1:], np.inf)
    free = faces_up & (ceiling - heights > 1.25 * SENSOR_HEIGHT_M)
    ground = float(heights[free][0]) if free.any() else float(heights[-1])
    return Pose(xyz=(centre[0], centre[1], ground + SENSOR_HEIGHT_M))


def _surfaces_on_vertical(standing: Triangles, centre: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Heights [m], rising, at which the vertical line through `centre` meets triangles, and which of them face up."""
    x, y, z = (standing.vertices[:, axis][standing.faces] for axis in range(3))
    x, y = x - centre[0], y - centre[1]
    # Twice the signed areas, seen from above, of the three triangles that the line's foot makes with the sides.
    weights = np.stack(
        [
            x[:, 1] * y[:, 2] - x[:, 2] * y[:, 1],
            x[:, 2] * y[:, 0] - x[:, 0] * y[:, 2],
            x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0],
        ],
        axis=1,
    )
    area = weights.sum(axis=1)
    met = (area != 0) & (((weights >= 0).all(axis=1)) | ((weights <= 0).all(axis=1)))
    heights = (weights[met] * z[met]).sum(axis=1) / area[met]
    order = np.argsort(heights, kind="stable")
    return heights[order], (area[met] > 0)[order]
