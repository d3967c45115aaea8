"""Convex bodies against triangles: shapes, gaps, normals and points."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.contact.convex import Convex, touching
from parhelion.core.pose import Floats

BOX = Convex.box((-1.0, -0.5, -0.25), (1.0, 0.5, 0.25))
FLOOR = np.array([[[-9.0, -9.0, 0.0], [9.0, -9.0, 0.0], [0.0, 9.0, 0.0]]])


def at(z: float, triangles: Floats = FLOOR) -> Floats:
    return triangles + np.array([0.0, 0.0, z])


def test_a_box_has_six_faces_three_directions_and_twelve_triangles() -> None:
    assert len(BOX.vertices) == 8
    assert len(BOX.normals) == 6
    assert len(BOX.edges) == 3
    assert len(BOX.triangles) == 12
    np.testing.assert_allclose(np.sort(BOX.offsets), [0.25, 0.25, 0.5, 0.5, 1.0, 1.0])


def test_a_wedge_has_a_slanted_face_whose_normal_points_outward() -> None:
    wedge = Convex.around([(0, 0, 0), (1, 0, 0), (0, 0, 1), (0, 1, 0), (1, 1, 0), (0, 1, 1)])
    assert len(wedge.normals) == 5
    slanted = wedge.normals[np.abs(wedge.normals[:, 1]) < 1e-9]
    assert any(np.allclose(one, [0.5**0.5, 0.0, 0.5**0.5]) for one in slanted)
    assert len(wedge.edges) == 4


@pytest.mark.parametrize("gap", [0.05, 0.0, -0.004])
def test_a_box_over_a_floor_touches_it_with_its_four_lower_corners(gap: float) -> None:
    found = touching(BOX, at(-0.25 - gap), 0.1)
    assert len(found.gap) == 4
    np.testing.assert_allclose(found.gap, gap, atol=1e-12)
    np.testing.assert_allclose(found.normal, np.tile([0.0, 0.0, 1.0], (4, 1)), atol=1e-12)
    np.testing.assert_allclose(found.point.mean(axis=0), [0.0, 0.0, -0.25 - gap], atol=1e-12)


def test_a_triangle_out_of_reach_is_not_listed() -> None:
    assert len(touching(BOX, at(-0.45), 0.1).gap) == 0


def test_a_small_triangle_below_a_box_is_one_point() -> None:
    found = touching(BOX, at(-0.26, FLOOR / 90.0), 0.1)
    assert len(found.gap) == 1
    assert found.gap[0] == pytest.approx(0.01)
    assert np.abs(found.point[0, :2]).max() < 0.1


def test_a_neighbouring_triangle_of_a_wall_adds_no_point_beside_a_pointed_body() -> None:
    tip = Convex.around([(0, 0, -0.1), (0, 0, 0.1), (-2, 1, -0.1), (-2, 1, 0.1), (-2, -1, -0.1), (-2, -1, 0.1)])
    # The diagonal of the wall passes the tip at a distance of 0.2 m.
    wall = np.array([[[0.01, -5.0, -3.2], [0.01, 5.0, -3.2], [0.01, 5.0, 2.8]],
                     [[0.01, -5.0, -3.2], [0.01, 5.0, 2.8], [0.01, -5.0, 2.8]]])  # fmt: skip
    found = touching(tip, wall, 0.1)
    np.testing.assert_allclose(found.point, [[0.01, 0.0, -0.1], [0.01, 0.0, 0.1]], atol=1e-12)
    np.testing.assert_allclose(found.normal, np.tile([-1.0, 0.0, 0.0], (2, 1)), atol=1e-12)


def test_an_edge_beside_a_box_pushes_it_away_along_the_side_of_the_box() -> None:
    # A plate at the height of the box's middle, seen edge-on.
    plate = np.array([[[1.02, -3.0, 0.0], [1.02, 3.0, 0.0], [5.0, 0.0, 0.0]]])
    found = touching(BOX, plate, 0.1)
    np.testing.assert_allclose(found.normal, [[-1.0, 0.0, 0.0]], atol=1e-9)
    np.testing.assert_allclose(found.gap, [0.02], atol=1e-12)


def test_deep_overlap_is_left_by_the_shortest_way() -> None:
    plate = np.array([[[0.9, -3.0, 0.1], [0.9, 3.0, 0.1], [5.0, 0.0, 0.1]]])
    found = touching(BOX, plate, 0.0)
    np.testing.assert_allclose(found.gap, [-0.1], atol=1e-12)
    np.testing.assert_allclose(found.normal, [[-1.0, 0.0, 0.0]], atol=1e-9)


def test_random_triangles_that_overlap_a_box_are_found_with_a_negative_gap() -> None:
    rng = np.random.default_rng(3)
    shares = rng.dirichlet((1.0, 1.0, 1.0), 400)
    low, high = BOX.bounds
    deep = 0
    for _ in range(200):
        triangle = rng.uniform(-1.5, 1.5, (3, 3))
        points = shares @ triangle
        depth = np.minimum(points - low, high - points).min(axis=1).max()  # of the deepest point of the triangle
        found = touching(BOX, triangle[None], 0.0)
        if depth > 0.02:
            deep += 1
            assert found.gap.min(initial=np.inf) < 0.0
        if len(found.gap):
            nearest = np.linalg.norm(points - np.clip(points, low, high), axis=1).min()
            assert nearest < 0.2  # no overlap without a triangle in or beside the box
    assert deep > 40
