"""Boxes and triangles on the host: which triangles a box overlaps, and its distance from the nearest of them.

All coordinates are in the frame of the box, whose centre is the origin; corners of triangles have the shape (m, 3, 3).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats

CORNERS = np.array([[x, y, z] for x in (-1.0, 1.0) for y in (-1.0, 1.0) for z in (-1.0, 1.0)])
"""Corners of a box of half sides 1."""
FACES = np.array(
    [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1], [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4],
     [1, 5, 7], [1, 7, 3]]
)  # fmt: skip
"""Triangles of a box, as rows of `CORNERS`."""


def rotation(quat: Floats) -> Floats:
    """Matrices (n, 3, 3), body to world, of unit quaternions (n, 4)."""
    x, y, z, w = np.asarray(quat, float).T
    rows = [
        [1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z), 2.0 * (x * z - w * y)],
        [2.0 * (x * y - w * z), 1.0 - 2.0 * (x * x + z * z), 2.0 * (y * z + w * x)],
        [2.0 * (x * z + w * y), 2.0 * (y * z - w * x), 1.0 - 2.0 * (x * x + y * y)],
    ]  # transposed
    return np.array(rows).T


def gap_bounds(corners: Floats, half: Floats) -> Floats:
    """Lower bounds [m] of the distances (m,) of triangles from a box, by its sides and the planes of the triangles."""
    low, high = corners.min(axis=1), corners.max(axis=1)
    sides = (np.maximum(low, -high) - half).max(axis=1)
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normal /= np.maximum(np.linalg.norm(normal, axis=1), 1e-300)[:, None]
    planes = np.abs((normal * corners[:, 0]).sum(axis=1)) - np.abs(normal) @ half
    return np.maximum(sides, planes)


def overlaps(corners: Floats, half: Floats) -> NDArray[np.bool_]:
    """True (m,) for triangles that overlap a box, by all 13 separating axes (Gottschalk et al. 1996)."""
    meets = gap_bounds(corners, half) < 0.0
    edges = np.roll(corners, -1, axis=1) - corners
    for unit in np.eye(3):
        for k in range(3):
            axis = np.cross(unit, edges[:, k])
            shadows = np.einsum("mij,mj->mi", corners, axis)
            radius = np.abs(axis) @ half
            meets &= (shadows.min(axis=1) <= radius) & (shadows.max(axis=1) >= -radius)
    return meets


def clearance(corners: Floats, half: Floats) -> float:
    """Distance [m] in the xy plane from a box to the parts of triangles at its height; infinite if there are none.

    Only what lies between the lower and the upper side of the box counts, so the ground below a vehicle does not.
    """
    near = (corners[:, :, 2].min(axis=1) < half[2]) & (corners[:, :, 2].max(axis=1) > -half[2])
    if not near.any():
        return np.inf
    starts, ends = _outlines(corners[near], half[2])
    return float(_rectangle_distance(starts, ends, half[:2]).min(initial=np.inf))


def _outlines(corners: Floats, height: float) -> tuple[Floats, Floats]:
    """Segments (n, 2), (n, 2) around the parts of triangles between the heights -`height` and `height`."""
    after = np.roll(corners, -1, axis=1)
    rise = after[:, :, 2] - corners[:, :, 2]
    safe = np.where(np.abs(rise) < 1e-12, 1.0, rise)
    cuts = [(level - corners[:, :, 2]) / safe for level in (-height, height)]
    enter, leave = (
        np.where(np.abs(rise) < 1e-12, edge, pick)
        for edge, pick in ((0.0, np.minimum(*cuts)), (1.0, np.maximum(*cuts)))
    )
    flat_out = (np.abs(rise) < 1e-12) & (np.abs(corners[:, :, 2]) > height)
    enter, leave = np.maximum(enter, 0.0), np.minimum(leave, 1.0)
    along = after[:, :, :2] - corners[:, :, :2]
    inside = (enter <= leave) & ~flat_out
    starts = [(corners[:, :, :2] + along * enter[..., None])[inside]]
    ends = [(corners[:, :, :2] + along * leave[..., None])[inside]]
    for cut in cuts:  # where the plane at one height cuts two edges
        crosses = (cut >= 0.0) & (cut <= 1.0) & (np.abs(rise) > 1e-12)
        two = crosses.sum(axis=1) >= 2
        order = np.argsort(~crosses[two], axis=1, kind="stable")[:, :2]
        rows = np.arange(int(two.sum()))[:, None]
        points = corners[two][rows, order, :2] + along[two][rows, order] * cut[two][rows, order][..., None]
        starts.append(points[:, 0])
        ends.append(points[:, 1])
    return np.concatenate(starts), np.concatenate(ends)


def _rectangle_distance(starts: Floats, ends: Floats, half: Floats) -> Floats:
    """Distances (n,) of segments from a rectangle at the origin; 0 inside."""
    beyond = [np.linalg.norm(np.maximum(np.abs(p) - half, 0.0), axis=1) for p in (starts, ends)]
    along = ends - starts
    size = np.maximum((along**2).sum(axis=1), 1e-300)
    result = np.minimum(*beyond)
    for x, y in ((-1, -1), (-1, 1), (1, -1), (1, 1)):
        corner = half * (x, y)
        share = np.clip(((corner - starts) * along).sum(axis=1) / size, 0.0, 1.0)
        result = np.minimum(result, np.linalg.norm(starts + along * share[:, None] - corner, axis=1))
    # A segment that crosses the rectangle: its interval of parameters within both pairs of sides is not empty.
    with np.errstate(divide="ignore", invalid="ignore"):
        a, b = (-half - starts) / along, (half - starts) / along
    still = np.abs(along) < 1e-12
    out = still & (np.abs(starts) > half)
    low = np.where(still, 0.0, np.minimum(a, b)).max(axis=1)
    high = np.where(still, 1.0, np.maximum(a, b)).min(axis=1)
    crosses = (np.maximum(low, 0.0) <= np.minimum(high, 1.0)) & ~out.any(axis=1)
    return np.where(crosses, 0.0, result)
