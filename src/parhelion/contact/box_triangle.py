"""Gap, normal and contact point between a triangle and a box at the origin, as kernel variables.

Axes that may separate them follow Gottschalk et al. 1996; `parhelion.contact.kernel` turns gaps into impulses.
"""

from __future__ import annotations

from typing import Any

from parhelion.core.arrays import Bool, DrJit, Float, Mitsuba, Vectors, namespace

_PLANE_M = 0.01
"""Depth [m] of a box behind the plane of a triangle up to which it counts as in front of it."""
_SPREAD_M = 0.0005
"""Difference of height [m] over which the contact point moves from one corner of a box to the next."""


def along_sides(corners: list[Vectors], half: Vectors) -> Float:
    """Largest gap [m] between a triangle and a box at the origin along the axes of the box: a cheap lower bound."""
    xp = namespace(half.x)
    gaps = []
    for k in range(3):
        a, b, c = (corner[k] for corner in corners)
        low, high = xp.minimum(xp.minimum(a, b), c), xp.maximum(xp.maximum(a, b), c)
        gaps.append(xp.maximum(low, -high) - half[k])
    return xp.maximum(xp.maximum(gaps[0], gaps[1]), gaps[2])


def separation(
    dr: DrJit, mi: Mitsuba, corners: list[Vectors], half: Vectors, reach: Float
) -> tuple[Vectors, Float, Vectors]:
    """Normal toward the box, gap [m] (negative: overlap) and contact point of a triangle and a box at the origin.

    The axis is the triangle's normal if the box lies in front of its plane, up to 1 cm; otherwise the axis of least
    overlap, or of the largest gap.
    """
    xp = namespace(half.x)
    edges = [corners[1] - corners[0], corners[2] - corners[1], corners[0] - corners[2]]
    face = dr.normalize(dr.cross(edges[0], edges[1]))
    offset = dr.dot(face, corners[0])
    face = dr.select(offset > 0.0, -face, face)  # toward the centre of the box
    plane_gap = dr.abs(offset) - dr.dot(dr.abs(face), half)
    best_gap, best, by_face = plane_gap, face, mi.Bool(True)
    units = [mi.Vector3d(*(1.0 if k == n else 0.0 for k in range(3))) for n in range(3)]
    axes = [(unit, 0.0) for unit in units]
    # Edge axes must be clearly better than faces, because edges of a flat mesh would catch a sliding box.
    axes += [(dr.cross(unit, edge), 1e-3) for unit in units for edge in edges]
    for axis, handicap in axes:
        size = dr.norm(axis)
        axis = axis / xp.maximum(size, 1e-12)
        shadows = [dr.dot(axis, corner) for corner in corners]
        low = xp.minimum(xp.minimum(shadows[0], shadows[1]), shadows[2])
        high = xp.maximum(xp.maximum(shadows[0], shadows[1]), shadows[2])
        radius = dr.dot(dr.abs(axis), half)
        above, below = low - radius, -high - radius  # the triangle lies above or below the box along the axis
        gap = xp.maximum(above, below)
        toward = dr.select(above > below, -axis, axis)
        better = (size > 1e-9) & (gap > best_gap + handicap)
        best_gap, best = dr.select(better, gap, best_gap), dr.select(better, toward, best)
        by_face &= ~better
    by_face |= (plane_gap > -_PLANE_M) & (best_gap < reach)
    normal = dr.select(by_face, face, best)
    gap = dr.select(by_face, plane_gap, best_gap)
    return normal, gap, _contact_point(dr, mi, corners, half, normal, by_face)


def _contact_point(
    dr: DrJit, mi: Mitsuba, corners: list[Vectors], half: Vectors, normal: Vectors, by_face: Bool
) -> Vectors:
    """Point in the box frame where box and triangle touch.

    On the face of the triangle: the corners of the box that are nearest to it, moved into the triangle. Otherwise: the
    middle of the part of its nearest edge that lies within the box, or its nearest corner.
    """
    xp = namespace(half.x)
    # Corners of the box nearest to the plane: per axis the sign of the direction, fading to 0 for a flat contact.
    signs = mi.Vector3d(*(xp.clip(-normal[k] * half[k] / _SPREAD_M, -1.0, 1.0) for k in range(3)))
    point = dr.select(by_face, _on_triangle(dr, corners, signs * half), _on_edge(dr, mi, corners, half, normal))
    return mi.Vector3d(*(xp.clip(point[k], -half[k], half[k]) for k in range(3)))


def _on_triangle(dr: DrJit, corners: list[Vectors], point: Vectors) -> Vectors:
    """Point of a triangle that is nearest to a point (Ericson, Real-Time Collision Detection, 2005, section 5.1.5)."""
    xp = namespace(point.x)
    a, b, c = corners
    face = dr.cross(b - a, c - a)
    scale = xp.maximum(dr.dot(face, face), 1e-18)
    found = point - face * (dr.dot(face, point - a) / scale)
    inside = [dr.dot(dr.cross(to - at, found - at), face) >= 0.0 for at, to in ((a, b), (b, c), (c, a))]
    within = inside[0] & inside[1] & inside[2]
    best: Any = None
    for at, to in ((a, b), (b, c), (c, a)):
        side = to - at
        share = xp.clip(dr.dot(point - at, side) / xp.maximum(dr.dot(side, side), 1e-18), 0.0, 1.0)
        nearest = at + side * share
        apart = dr.dot(nearest - point, nearest - point)
        if best is None:
            best, least = nearest, apart
        else:
            best, least = dr.select(apart < least, nearest, best), dr.select(apart < least, apart, least)
    return dr.select(within, found, best)


def _on_edge(dr: DrJit, mi: Mitsuba, corners: list[Vectors], half: Vectors, normal: Vectors) -> Vectors:
    """Middle of the part within a box of the edge of a triangle that lies farthest along a normal, or its corner."""
    xp = namespace(half.x)
    heights = [dr.dot(normal, corner) for corner in corners]
    first, top = corners[0], heights[0]
    second, next_top = corners[1], heights[1]
    swap = next_top > top
    first, second = dr.select(swap, second, first), dr.select(swap, first, second)
    top, next_top = dr.select(swap, next_top, top), dr.select(swap, top, next_top)
    third, height = corners[2], heights[2]
    highest, middle = height > top, height > next_top
    second = dr.select(highest, first, dr.select(middle, third, second))
    next_top = dr.select(highest, top, dr.select(middle, height, next_top))
    first, top = dr.select(highest, third, first), dr.select(highest, height, top)
    side = second - first
    low, high = mi.Float64(0.0), xp.minimum(_SPREAD_M / xp.maximum(top - next_top, 1e-12), 1.0)
    for k in range(3):
        slope = dr.select(dr.abs(side[k]) < 1e-9, 1e-9, side[k])
        one, other = (-half[k] - first[k]) / slope, (half[k] - first[k]) / slope
        low = xp.maximum(low, xp.minimum(xp.minimum(one, other), high))
        high = xp.minimum(high, xp.maximum(xp.maximum(one, other), low))
    return first + side * (0.5 * (low + high))
