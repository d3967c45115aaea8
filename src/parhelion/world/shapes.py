"""Parametric meshes: primitive shapes with outward normals, in metres.

Box, board, cylinder, cone and sphere are centred on the origin; plane and terrain lie at z = 0 and face up; prism,
pipe, arch and loft are positioned by their coordinates. Boxes, planes and boards have texture coordinates from 0 to 1
over each face.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats
from parhelion.world.mesh import Mesh

_BOX_CORNERS = np.array(
    [[x, y, z] for z in (-0.5, 0.5) for x, y in ((-0.5, -0.5), (0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))]
)
"""Corners of the unit cube: four below, counter-clockwise from above, then four above them."""
_BOX_QUADS = np.array([[0, 3, 2, 1], [4, 5, 6, 7], [1, 2, 6, 5], [3, 0, 4, 7], [2, 3, 7, 6], [0, 1, 5, 4]])
"""Faces -z, +z, +x, -x, +y, -y; each counter-clockwise from outside, starting at its lower left corner."""
_QUAD_UV = np.array([[0.0, 0.0], [1.0, 0.0], [1.0, 1.0], [0.0, 1.0]])
_QUAD_TRIANGLES = np.array([[0, 1, 2], [0, 2, 3]])


def _positive(shape: str, **sizes: float) -> None:
    for name, value in sizes.items():
        if not (np.isfinite(value) and value > 0):
            raise ConfigError(f"{shape}: {name} must be a positive number [m], got {value!r}")


def _at_least(shape: str, least: int, **counts: int) -> None:
    for name, value in counts.items():
        if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or value < least:
            raise ConfigError(f"{shape}: {name} must be a whole number of at least {least}, got {value!r}")


def _points(shape: str, value: ArrayLike, width: int, least: int) -> Floats:
    points = np.asarray(value, dtype=np.float64)
    if points.ndim != 2 or points.shape[1] != width or len(points) < least or not np.isfinite(points).all():
        raise ConfigError(f"{shape}: needs at least {least} finite points of shape (n, {width}), got {points.shape}")
    return points


def split_quads(quads: NDArray[np.integer]) -> NDArray[np.int32]:
    """Two triangles (2 k, 3) per quad (k, 4) of vertex rows, with the same winding."""
    return quads[:, _QUAD_TRIANGLES].reshape(-1, 3).astype(np.int32)


def box(lx: float, ly: float, lz: float) -> Mesh:
    """Box of side lengths `lx`, `ly`, `lz` [m], 12 triangles. Each face has its own vertices and unit UVs."""
    _positive("box", lx=lx, ly=ly, lz=lz)
    corners = _BOX_CORNERS[_BOX_QUADS].reshape(-1, 3) * np.array([lx, ly, lz])
    faces = split_quads(np.arange(24).reshape(6, 4))
    uv = np.tile(_QUAD_UV[_QUAD_TRIANGLES], (6, 1, 1))
    return Mesh(corners, faces, uv.astype(np.float32))


def plane(lx: float, ly: float, divisions: int | tuple[int, int] = 1) -> Mesh:
    """Level rectangle `lx` x `ly` [m] at z = 0 that faces up, divided into `divisions` cells along x and y."""
    _positive("plane", lx=lx, ly=ly)
    nx, ny = (divisions, divisions) if isinstance(divisions, int) else divisions
    _at_least("plane", 1, divisions=min(nx, ny))
    mesh = grid_terrain(np.zeros((ny + 1, nx + 1)), (lx / nx, ly / ny))
    span = np.array([lx, ly])
    uv = mesh.vertices[mesh.faces][..., :2] / span + 0.5
    return Mesh(mesh.vertices, mesh.faces, uv.astype(np.float32))


def board(width: float, height: float, thickness: float = 0.01) -> Mesh:
    """Upright board: `width` along y, `height` along z, `thickness` along x [m]; its faces point along -x and +x."""
    _positive("board", width=width, height=height, thickness=thickness)
    return box(thickness, width, height)


def circle(radius: float, segments: int) -> Floats:
    """Corners (segments, 2) of a regular polygon, counter-clockwise, the first on the x axis."""
    angle = np.arange(segments) * (2.0 * np.pi / segments)
    return radius * np.stack([np.cos(angle), np.sin(angle)], axis=1)


def loft(rings: ArrayLike, *, caps: bool = True) -> Mesh:
    """Surface over a sequence of closed rings (k, m, 3) [m], each counter-clockwise as seen from the next.

    With `caps`, the first and the last ring are closed; they must be planar polygons without crossings.
    """
    points = np.asarray(rings, dtype=np.float64)
    if points.ndim != 3 or points.shape[2] != 3 or points.shape[0] < 2 or points.shape[1] < 3:
        raise ConfigError(f"loft: rings must have shape (k >= 2, m >= 3, 3), got {points.shape}")
    k, m = points.shape[:2]
    low = (np.arange(k - 1) * m)[:, None] + np.arange(m)
    low_next = (np.arange(k - 1) * m)[:, None] + (np.arange(m) + 1) % m
    faces = [split_quads(np.stack([low, low_next, low_next + m, low + m], axis=-1).reshape(-1, 4))]
    if caps:
        faces.append(_cap(points[0])[:, ::-1])
        faces.append(_cap(points[-1]) + np.int32((k - 1) * m))
    return Mesh(points.reshape(-1, 3), np.concatenate(faces))


def spindle(half_x: ArrayLike, half_y: ArrayLike, z: ArrayLike, segments: int, *, caps: bool = True) -> Mesh:
    """Surface over horizontal ellipses around the z axis: half axes along x and y [m] and heights [m], each (k,)."""
    wide, deep, height = (np.asarray(values, dtype=np.float64)[:, None] for values in (half_x, half_y, z))
    x, y = circle(1.0, segments).T
    return loft(np.stack([wide * x, deep * y, np.broadcast_to(height, (len(height), segments))], axis=-1), caps=caps)


def _cap(ring: Floats) -> NDArray[np.int32]:
    """Triangles over one planar ring (m, 3), with the winding of the ring."""
    normal = np.cross(ring, np.roll(ring, -1, axis=0)).sum(axis=0)
    ring = ring - ring.mean(axis=0)
    u = ring[np.argmax(np.linalg.norm(ring, axis=1))]
    v = np.cross(normal, u)
    scale = float(np.linalg.norm(v))
    if scale <= 0:
        raise ConfigError("loft: a ring that is to be capped has no area")
    return triangulated(np.stack([ring @ u, ring @ v / scale * np.linalg.norm(u)], axis=1))


_MOST_COMPARED = 200
"""Largest number of corners of a polygon for which all ears are compared."""


def triangulated(polygon: ArrayLike) -> NDArray[np.int32]:
    """Triangles (m - 2, 3) over a simple polygon (m, 2), convex or not, with its winding (ear clipping).

    Repeated corners are ignored.
    """
    points = _points("polygon", polygon, 2, 3)
    moves = np.any(points != np.roll(points, 1, axis=0), axis=1)
    if 3 <= int(moves.sum()) < len(points):
        return np.flatnonzero(moves).astype(np.int32)[triangulated(points[moves])]
    x, y = points.T
    doubled_area = float(np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))
    if abs(doubled_area) <= 1e-12 * float(np.ptp(points)) ** 2:
        raise ConfigError("polygon: it has no area")
    sign = 1.0 if doubled_area > 0 else -1.0
    if _is_convex(points, sign):
        middle = np.arange(1, len(points) - 1)
        return np.stack([np.zeros_like(middle), middle, middle + 1], axis=1).astype(np.int32)
    if _crosses_itself(points):
        raise ConfigError("polygon: its outline crosses itself")
    rest = list(range(len(points)))
    faces = []
    while len(rest) > 3:
        # Comparing all ears takes time with the cube of the corners; large polygons use the first valid ear.
        ear = _best_ear(points[rest], sign) if len(points) <= _MOST_COMPARED else _first_ear(points[rest], sign)
        faces.append([rest[ear - 1], rest[ear], rest[(ear + 1) % len(rest)]])
        del rest[ear]
    return np.array([*faces, rest], dtype=np.int32)


def _is_convex(points: Floats, sign: float) -> bool:
    """Return True if a polygon is strictly convex: all corners turn in the same direction, once around in total."""
    step = np.concatenate([points[1:], points[:1]]) - points
    x, y = step.T
    before_x, before_y = np.concatenate([x[-1:], x[:-1]]), np.concatenate([y[-1:], y[:-1]])
    turn = sign * np.arctan2(before_x * y - before_y * x, before_x * x + before_y * y)
    return bool(turn.min() > 1e-6 and turn.sum() < 3.0 * np.pi)


def _crosses_itself(points: Floats) -> bool:
    """Return True if two edges of a polygon (m, 2) cross inside both of them."""
    start, end = points, np.roll(points, -1, axis=0)
    along = end - start

    def side(of: Floats) -> Floats:
        """Signed side of the points `of` (columns) with respect to each edge (rows)."""
        away = of[None] - start[:, None]
        return along[:, None, 0] * away[..., 1] - along[:, None, 1] * away[..., 0]

    parted = side(start) * side(end) < 0
    return bool(np.any(parted & parted.T))


def _turn(sign: float, p: Floats, q: Floats, r: Floats) -> Floats:
    """Twice the area of triangles p, q, r, positive if they have the winding `sign`."""
    first, second = q - p, r - p
    return np.asarray(sign * (first[..., 0] * second[..., 1] - first[..., 1] * second[..., 0]))


def _best_ear(points: Floats, sign: float) -> int:
    """Corner of the remaining polygon that can be cut off with the best-shaped triangle."""
    a, b, c = np.roll(points, 1, axis=0), points, np.roll(points, -1, axis=0)
    area = _turn(sign, a, b, c)
    other = points[None, :, :]
    inside = np.minimum(
        np.minimum(_turn(sign, a[:, None], b[:, None], other), _turn(sign, b[:, None], c[:, None], other)),
        _turn(sign, c[:, None], a[:, None], other),
    )
    n = len(points)
    rows = np.arange(n)
    for shift in (-1, 0, 1):
        inside[rows, (rows + shift) % n] = -1.0  # the corners of a triangle do not block it
    longest = np.max([np.sum((a - b) ** 2, axis=1), np.sum((b - c) ** 2, axis=1), np.sum((c - a) ** 2, axis=1)], axis=0)
    fatness = np.where((inside > 0).any(axis=1), -1.0, area / longest)
    best = int(np.argmax(fatness))
    if fatness[best] <= 0:
        raise ConfigError("polygon: its outline touches itself or doubles back")
    return best


def _first_ear(points: Floats, sign: float) -> int:
    """First corner that can be cut off."""
    a, c = np.roll(points, 1, axis=0), np.roll(points, -1, axis=0)
    area = _turn(sign, a, points, c)
    # Only reflex corners can lie within an ear.
    inward = points[area <= 0.0]
    for corner in np.flatnonzero(area > 0.0):
        p, q, r = a[corner], points[corner], c[corner]
        inside = np.minimum(np.minimum(_turn(sign, p, q, inward), _turn(sign, q, r, inward)), _turn(sign, r, p, inward))
        if not np.any(inside > 0.0):
            return int(corner)
    raise ConfigError("polygon: its outline touches itself or doubles back")


def prism(polygon: ArrayLike, height: float) -> Mesh:
    """Simple polygon (m, 2) [m] of any winding, extruded from z = 0 to `height` [m]."""
    _positive("prism", height=height)
    points = _points("prism", polygon, 2, 3)
    x, y = points.T
    if np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)) < 0:
        points = points[::-1]
    rings = np.stack([np.column_stack([points, np.full(len(points), z)]) for z in (0.0, height)])
    return loft(rings)


def frustum(bottom_radius: float, top_radius: float, height: float, segments: int = 48, *, caps: bool = True) -> Mesh:
    """Cylinder whose radius [m] changes from bottom to top, upright and centred; a radius of 0 is a point."""
    _positive("frustum", height=height, larger_radius=max(bottom_radius, top_radius))
    _at_least("frustum", 3, segments=segments)
    if min(bottom_radius, top_radius) < 0:
        raise ConfigError("frustum: radii must not be negative")
    if bottom_radius > 0 and top_radius > 0:
        radii = [bottom_radius, top_radius]
        return spindle(radii, radii, [-height / 2, height / 2], segments, caps=caps)
    tip_up = top_radius == 0
    base, tip = (-height / 2, height / 2) if tip_up else (height / 2, -height / 2)
    ring = np.column_stack([circle(max(bottom_radius, top_radius), segments), np.full(segments, base)])
    start = np.arange(segments)
    side = np.stack([start, (start + 1) % segments, np.full(segments, segments)], axis=1).astype(np.int32)
    cap = _cap(ring)
    faces = [side if tip_up else side[:, ::-1], *([cap[:, ::-1] if tip_up else cap] if caps else [])]
    return Mesh(np.vstack([ring, [0.0, 0.0, tip]]), np.concatenate(faces))


def cylinder(radius: float, height: float, segments: int = 48, *, caps: bool = True) -> Mesh:
    """Upright cylinder, centred. Its corners lie on the circle, so its faces are nearer by radius (1 - cos(pi/n))."""
    _positive("cylinder", radius=radius, height=height)
    return frustum(radius, radius, height, segments, caps=caps)


def capsule(radius: float, length: float, segments: int = 32) -> Mesh:
    """Cylinder of `length` [m] along z with half a sphere at each end, around the origin."""
    _positive("capsule", radius=radius, length=length)
    angle = np.linspace(0.0, 0.5 * np.pi, 9)
    # A pole would be triangles without area.
    radii = np.maximum(radius * np.sin(angle), 1e-6 * radius)
    heights = 0.5 * length + radius * np.cos(angle)
    rings = [*radii, *radii[::-1]]
    return spindle(rings, rings, [*-heights, *heights[::-1]], segments)


def cone(radius: float, height: float, segments: int = 48, *, caps: bool = True) -> Mesh:
    """Upright cone with its tip at z = height / 2 and its base at z = -height / 2."""
    _positive("cone", radius=radius, height=height)
    return frustum(radius, 0.0, height, segments, caps=caps)


def ring(inner_radius: float, outer_radius: float, height: float, segments: int = 96) -> Mesh:
    """Hollow cylinder with open ends (a thick-walled tube), upright and centred."""
    _positive("ring", inner_radius=inner_radius, outer_radius=outer_radius, height=height)
    _at_least("ring", 3, segments=segments)
    if inner_radius >= outer_radius:
        raise ConfigError(f"ring: inner_radius {inner_radius:g} must be below outer_radius {outer_radius:g}")
    # Circles around the section of the wall: outer bottom, outer top, inner top, inner bottom, outer bottom.
    radii = np.array([outer_radius, outer_radius, inner_radius, inner_radius, outer_radius])
    heights = np.array([-0.5, 0.5, 0.5, -0.5, -0.5]) * height
    return spindle(radii, radii, heights, segments, caps=False)


def sphere(radius: float, subdivisions: int = 3) -> Mesh:
    """Sphere of 20 x 4^subdivisions nearly equal triangles, corners on the sphere (a subdivided icosahedron)."""
    _positive("sphere", radius=radius)
    _at_least("sphere", 0, subdivisions=subdivisions)
    vertices, faces = _icosahedron()
    for _ in range(subdivisions):
        edges = np.sort(faces[:, [[0, 1], [1, 2], [2, 0]]].reshape(-1, 2), axis=1)
        unique, row = np.unique(edges, axis=0, return_inverse=True)
        a, b, c = (row.reshape(-1, 3) + len(vertices)).T
        middles = vertices[unique].sum(axis=1)
        vertices = np.vstack([vertices, middles / np.linalg.norm(middles, axis=1, keepdims=True)])
        v0, v1, v2 = faces.T
        faces = np.stack([v0, a, c, v1, b, a, v2, c, b, a, b, c], axis=1).reshape(-1, 3)
    return Mesh(radius * vertices, faces.astype(np.int32))


def _icosahedron() -> tuple[Floats, NDArray[np.int64]]:
    """Vertices (12, 3) of unit length, two poles and two rings of five, and faces (20, 3)."""
    height, radius = 1.0 / np.sqrt(5.0), 2.0 / np.sqrt(5.0)
    angle = np.arange(5) * (2.0 * np.pi / 5.0)
    upper = np.column_stack([radius * np.cos(angle), radius * np.sin(angle), np.full(5, height)])
    between = angle + np.pi / 5.0
    lower = np.column_stack([radius * np.cos(between), radius * np.sin(between), np.full(5, -height)])
    k = np.arange(5)
    up, up_next, low, low_next = 1 + k, 1 + (k + 1) % 5, 6 + k, 6 + (k + 1) % 5
    faces = np.concatenate(
        [
            np.stack([np.zeros(5, int), up, up_next], axis=1),
            np.stack([up, low, up_next], axis=1),
            np.stack([up_next, low, low_next], axis=1),
            np.stack([np.full(5, 11), low_next, low], axis=1),
        ]
    )
    return np.vstack([[0.0, 0.0, 1.0], upper, lower, [0.0, 0.0, -1.0]]), faces


def pipe(points: ArrayLike, radius: ArrayLike, segments: int = 12, *, caps: bool = True) -> Mesh:
    """Round tube along a polyline (n, 3) [m]; `radius` [m] is one number or one per point."""
    line = _points("pipe", points, 3, 2)
    _at_least("pipe", 3, segments=segments)
    radii = np.broadcast_to(np.asarray(radius, dtype=np.float64), (len(line),))
    if not np.isfinite(radii).all() or radii.min() <= 0:
        raise ConfigError("pipe: radius must be positive everywhere")
    steps = np.diff(line, axis=0)
    lengths = np.linalg.norm(steps, axis=1, keepdims=True)
    if lengths.min() <= 0:
        raise ConfigError("pipe: two neighbouring points coincide")
    steps = steps / lengths
    tangents = np.vstack([steps[:1], steps[:-1] + steps[1:], steps[-1:]])
    norms = np.linalg.norm(tangents, axis=1, keepdims=True)
    if norms.min() < 1e-6:
        raise ConfigError("pipe: the line doubles back on itself")
    side = _carried_normals(tangents / norms)
    up = np.cross(tangents / norms, side)
    round_ = circle(1.0, segments)
    rings = round_[None, :, :1] * side[:, None, :] + round_[None, :, 1:] * up[:, None, :]
    return loft(line[:, None, :] + radii[:, None, None] * rings, caps=caps)


def _carried_normals(tangents: Floats) -> Floats:
    """One unit normal per point, transported along the line so that the tube does not twist."""
    normal = np.cross(tangents[0], np.eye(3)[np.argmin(np.abs(tangents[0]))])
    normals = []
    for tangent in tangents:
        normal = normal - (normal @ tangent) * tangent
        normal = normal / np.linalg.norm(normal)
        normals.append(normal)
    return np.array(normals)


def arch(span: float, rise: float, height: float, depth: float, segments: int = 24, *, pier: float = 1.0) -> Mesh:
    """Wall along x with an arched opening, its base at z = 0, `depth` [m] thick along y, centred in x and y.

    The opening is half an ellipse `span` [m] wide and `rise` [m] high; `pier` [m] is the width of the wall on each
    side.
    """
    _positive("arch", span=span, rise=rise, height=height, depth=depth, pier=pier)
    _at_least("arch", 2, segments=segments)
    if rise >= height:
        raise ConfigError(f"arch: rise {rise:g} must be below height {height:g}")
    angle = np.linspace(0.0, np.pi, segments + 1)
    opening = np.column_stack([-0.5 * span * np.cos(angle), rise * np.sin(angle)])
    opening[[0, -1], 1] = 0.0
    half = span / 2 + pier
    outline = np.vstack([[-half, 0.0], opening, [half, 0.0], [half, height], [-half, height]])
    flat = prism(outline, depth)
    x, z, y = flat.vertices.T
    return Mesh(np.column_stack([x, depth / 2 - y, z]), flat.faces)


def grid_terrain(heights: ArrayLike, cell: float | tuple[float, float] = 1.0) -> Mesh:
    """Surface over a grid of heights (ny, nx) [m], rows along y, cells of `cell` [m] (along x, y), centred."""
    z = np.asarray(heights, dtype=np.float64)
    if z.ndim != 2 or min(z.shape) < 2:
        raise ConfigError(f"terrain: heights must have shape (ny >= 2, nx >= 2), got {z.shape}")
    cell_x, cell_y = (cell, cell) if isinstance(cell, (int, float)) else cell
    _positive("terrain", cell=min(cell_x, cell_y))
    ny, nx = z.shape
    x = (np.arange(nx) - (nx - 1) / 2) * cell_x
    y = (np.arange(ny) - (ny - 1) / 2) * cell_y
    grid_x, grid_y = np.meshgrid(x, y)
    vertices = np.stack([grid_x, grid_y, z], axis=-1).reshape(-1, 3)
    corner = (np.arange(ny - 1) * nx)[:, None] + np.arange(nx - 1)
    quads = np.stack([corner, corner + 1, corner + nx + 1, corner + nx], axis=-1).reshape(-1, 4)
    return Mesh(vertices, split_quads(quads))
