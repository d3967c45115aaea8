"""Many equal shapes as one mesh: boxes, struts, quads and copies, each in one array operation."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.pose import Floats
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import _BOX_CORNERS, _BOX_QUADS, circle, split_quads


def quads(corners: ArrayLike) -> Mesh:
    """Planar quads (k, 4, 3) [m], each counter-clockwise seen from its front."""
    points = np.asarray(corners, dtype=np.float64)
    return Mesh(points.reshape(-1, 3), split_quads(np.arange(4 * len(points)).reshape(-1, 4)))


def moved(points: ArrayLike, dx: float, dy: float, dz: float) -> Floats:
    """Points (k, 3) [m] shifted by one offset."""
    return np.asarray(points, dtype=np.float64) + np.array([dx, dy, dz])


def boxes(centres: ArrayLike, sizes: ArrayLike, yaw: ArrayLike = 0.0) -> Mesh:
    """Boxes at `centres` (k, 3) [m] of side lengths `sizes` (k, 3) or (3,) [m], rotated by `yaw` [rad] about z."""
    at = np.atleast_2d(np.asarray(centres, dtype=np.float64))
    local = _BOX_CORNERS[None] * np.broadcast_to(np.asarray(sizes, dtype=np.float64), at.shape)[:, None, :]
    vertices = _turned(local, np.broadcast_to(np.asarray(yaw, dtype=np.float64), (len(at),))) + at[:, None, :]
    rows = (np.arange(len(at)) * 8)[:, None, None] + _BOX_QUADS
    return Mesh(vertices.reshape(-1, 3), split_quads(rows.reshape(-1, 4)))


def struts(starts: ArrayLike, ends: ArrayLike, radius: ArrayLike, segments: int = 6) -> Mesh:
    """Straight round bars from `starts` (k, 3) to `ends` (k, 3) [m], with closed ends.

    `radius` [m] is one number, one a bar (k,), or one a bar and end (k, 2).
    """
    a, b = (np.atleast_2d(np.asarray(p, dtype=np.float64)) for p in (starts, ends))
    k = len(a)
    radii = np.asarray(radius, dtype=np.float64)
    radii = np.broadcast_to(radii[:, None] if radii.ndim == 1 else radii, (k, 2))
    along = b - a
    along = along / np.linalg.norm(along, axis=1, keepdims=True)
    reference = np.where(np.abs(along[:, 2:]) < 0.9, [[0.0, 0.0, 1.0]], [[1.0, 0.0, 0.0]])
    u = np.cross(reference, along)
    u = u / np.linalg.norm(u, axis=1, keepdims=True)
    v = np.cross(along, u)
    ring = circle(1.0, segments)
    offsets = ring[None, :, :1] * u[:, None, :] + ring[None, :, 1:] * v[:, None, :]
    ends_at = np.stack([a, b], axis=1)
    vertices = ends_at[:, :, None, :] + radii[:, :, None, None] * offsets[:, None, :, :]
    start = np.arange(segments)
    after = (start + 1) % segments
    side = split_quads(np.stack([start, after, after + segments, start + segments], axis=1))
    middle = np.arange(1, segments - 1)
    fan = np.stack([np.zeros_like(middle), middle, middle + 1], axis=1)
    one = np.concatenate([side, fan[:, ::-1], fan + segments])
    faces = (np.arange(k) * 2 * segments)[:, None, None] + one
    return Mesh(vertices.reshape(-1, 3), faces.reshape(-1, 3).astype(np.int32))


def copies(mesh: Mesh, xyz: ArrayLike, yaw: ArrayLike = 0.0, scale: ArrayLike = 1.0) -> Mesh:
    """One mesh with a copy of `mesh` at each of `xyz` (k, 3) [m], scaled, then rotated by `yaw` [rad] about z.

    `scale` is one number, one a copy (k,), or one a copy and axis (k, 3).
    """
    at = np.atleast_2d(np.asarray(xyz, dtype=np.float64))
    k = len(at)
    factors = np.asarray(scale, dtype=np.float64)
    factors = np.broadcast_to(factors[:, None] if factors.ndim == 1 else factors, (k, 3))
    local = mesh.vertices[None] * factors[:, None, :]
    vertices = _turned(local, np.broadcast_to(np.asarray(yaw, dtype=np.float64), (k,))) + at[:, None, :]
    faces = (np.arange(k) * len(mesh.vertices))[:, None, None] + mesh.faces
    return Mesh(vertices.reshape(-1, 3), faces.reshape(-1, 3).astype(np.int32))


def _turned(points: Floats, yaw: Floats) -> Floats:
    """Points (k, n, 3) rotated about z by `yaw` (k,) [rad]."""
    cos, sin = np.cos(yaw)[:, None], np.sin(yaw)[:, None]
    x, y, z = points[..., 0], points[..., 1], points[..., 2]
    return np.stack([cos * x - sin * y, sin * x + cos * y, z], axis=-1)
