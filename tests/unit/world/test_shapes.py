"""Parametric meshes: sizes, closedness, outward normals, texture coordinates, and errors."""

from __future__ import annotations

import time

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.world import shapes
from parhelion.world.kit import instances
from parhelion.world.mesh import Mesh

U_OUTLINE = [[0, 0], [3, 0], [3, 2], [2, 2], [2, 1], [1, 1], [1, 2], [0, 2]]

CLOSED = {
    "box": (shapes.box(1, 2, 3), 6.0),
    "board": (shapes.board(2, 1, 0.1), 0.2),
    "cylinder": (shapes.cylinder(1, 2, 256), 2 * np.pi),
    "cone": (shapes.cone(1, 3, 256), np.pi),
    "cone-down": (shapes.frustum(0, 1, 3, 256), np.pi),
    "frustum": (shapes.frustum(2, 1, 3, 256), 7 * np.pi),
    "ring": (shapes.ring(1, 2, 1, 256), 3 * np.pi),
    "sphere": (shapes.sphere(1, 5), 4 / 3 * np.pi),
    "prism": (shapes.prism(U_OUTLINE, 2), 10.0),
    "prism-clockwise": (shapes.prism(U_OUTLINE[::-1], 2), 10.0),
    "pipe": (shapes.pipe([[0, 0, 0], [0, 0, 2], [0, 0, 5]], 0.5, 128), 5 * np.pi / 4),
    "arch": (shapes.arch(4, 2, 3, 0.5, 200, pier=1), 0.5 * (6 * 3 - np.pi * 2)),
    "boxes": (instances.boxes([[0, 0, 0], [5, 0, 0]], [[1, 1, 1], [1, 2, 1]], [0.3, -0.2]), 3.0),
    "struts": (instances.struts([[0, 0, 0], [0, 5, 0]], [[0, 0, 2], [3, 5, 0]], 0.5, 128), 5 * np.pi / 4),
    "copies": (instances.copies(shapes.box(1, 1, 1), [[0, 0, 0], [3, 0, 0]], 0.5, [1.0, 2.0]), 9.0),
}


def as_solid(mesh: Mesh):
    solid = mesh.as_trimesh()
    solid.merge_vertices()
    return solid


@pytest.mark.parametrize("name", CLOSED)
def test_closed_shapes_are_watertight_with_outward_normals_and_the_right_volume(name):
    mesh, volume = CLOSED[name]
    solid = as_solid(mesh)
    assert solid.is_watertight
    assert solid.is_winding_consistent
    assert solid.volume == pytest.approx(volume, rel=2e-3)


def test_box_faces_look_outwards_and_span_unit_uv():
    mesh = shapes.box(2, 4, 6)
    corners = mesh.vertices[mesh.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.all(np.sum(normal * corners.mean(axis=1), axis=1) > 0)
    lower, upper = mesh.bounds
    np.testing.assert_allclose([lower, upper], [[-1, -2, -3], [1, 2, 3]])
    assert mesh.uv is not None
    assert mesh.uv.shape == (12, 3, 2)
    # Twice the area in UV space is 1 for each triangle: the two of a face cover the unit square, unmirrored.
    a, b = mesh.uv[:, 1] - mesh.uv[:, 0], mesh.uv[:, 2] - mesh.uv[:, 0]
    np.testing.assert_allclose(a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0], 1.0)


def test_plane_faces_up_and_its_uv_follows_x_and_y():
    mesh = shapes.plane(4, 2, (8, 3))
    assert len(mesh) == 2 * 8 * 3
    corners = mesh.vertices[mesh.faces]
    normal = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    assert np.all(normal[:, 2] > 0)
    assert mesh.area() == pytest.approx(8.0)
    np.testing.assert_allclose(mesh.uv, corners[..., :2] / [4, 2] + 0.5, atol=1e-6)


def test_board_is_wide_along_y_and_thin_along_x():
    lower, upper = shapes.board(2.0, 1.0, 0.04).bounds
    np.testing.assert_allclose(upper - lower, [0.04, 2.0, 1.0])


def test_cylinder_corners_lie_on_the_circle():
    mesh = shapes.cylinder(0.7, 2.0, 33)
    np.testing.assert_allclose(np.hypot(mesh.vertices[:, 0], mesh.vertices[:, 1]), 0.7)
    assert len(mesh) == 4 * 33 - 4
    assert len(shapes.cylinder(0.7, 2.0, 33, caps=False)) == 2 * 33


def test_sphere_has_equal_radius_and_the_stated_number_of_triangles():
    mesh = shapes.sphere(2.5, 3)
    np.testing.assert_allclose(np.linalg.norm(mesh.vertices, axis=1), 2.5)
    assert len(mesh) == 20 * 4**3


def test_terrain_is_centred_with_rows_along_y():
    heights = np.zeros((3, 5))
    heights[2, 4] = 1.0
    mesh = shapes.grid_terrain(heights, (2.0, 3.0))
    assert len(mesh) == 2 * 2 * 4
    np.testing.assert_allclose(mesh.vertices[np.argmax(mesh.vertices[:, 2])], [4.0, 3.0, 1.0])


def test_pipe_keeps_its_radius_at_every_point_of_a_bent_line():
    line = np.array([[0.0, 0, 0], [0, 0, 2], [0, 1, 3], [2, 1, 3]])
    rings = shapes.pipe(line, [0.1, 0.2, 0.3, 0.4], 16).vertices.reshape(4, 16, 3)
    distance = np.linalg.norm(rings - line[:, None], axis=2)
    np.testing.assert_allclose(distance, np.repeat([[0.1], [0.2], [0.3], [0.4]], 16, axis=1))


@given(st.lists(st.floats(0.3, 2.0), min_size=3, max_size=24))
@settings(max_examples=60, deadline=None)
def test_triangulation_covers_any_star_shaped_polygon(radii):
    angle = np.arange(len(radii)) * 2 * np.pi / len(radii)
    polygon = np.array(radii)[:, None] * np.column_stack([np.cos(angle), np.sin(angle)])
    triangles = polygon[shapes.triangulated(polygon)]
    a, b = triangles[:, 1] - triangles[:, 0], triangles[:, 2] - triangles[:, 0]
    area = 0.5 * (a[:, 0] * b[:, 1] - a[:, 1] * b[:, 0])
    x, y = polygon.T
    assert len(triangles) == len(radii) - 2
    assert np.all(area > 0)
    assert area.sum() == pytest.approx(0.5 * np.sum(x * np.roll(y, -1) - y * np.roll(x, -1)))


@pytest.mark.parametrize(
    ("make", "says"),
    [
        (lambda: shapes.box(1, 0, 1), "box: ly must be a positive number"),
        (lambda: shapes.box(1, float("nan"), 1), "box: ly"),
        (lambda: shapes.plane(1, 1, 0), "plane: divisions"),
        (lambda: shapes.cylinder(-1, 1), "cylinder: radius"),
        (lambda: shapes.cylinder(1, 1, 2), "segments must be a whole number of at least 3"),
        (lambda: shapes.ring(2, 1, 1), "inner_radius 2 must be below outer_radius 1"),
        (lambda: shapes.pipe([[0, 0, 0]], 0.1), "pipe: needs at least 2"),
        (lambda: shapes.pipe([[0, 0, 0], [0, 0, 0]], 0.1), "coincide"),
        (lambda: shapes.pipe([[0, 0, 0], [0, 0, 1], [0, 0, 0]], 0.1), "doubles back"),
        (lambda: shapes.prism([[0, 0], [1, 1], [2, 2]], 1), "no area"),
        (lambda: shapes.prism([[0, 0], [2, 3], [2, 0], [0, 2]], 1), "crosses itself"),
        (lambda: shapes.arch(2, 3, 2, 1), "rise 3 must be below height 2"),
        (lambda: shapes.grid_terrain([[0.0, 1.0]]), "terrain: heights"),
        (lambda: shapes.sphere(1, -1), "sphere: subdivisions"),
    ],
)
def test_bad_sizes_are_named(make, says):
    with pytest.raises(ConfigError, match=says):
        make()


def test_polygons_of_many_corners_are_cut_in_good_time() -> None:
    """A star of 2000 corners, each given twice: the triangles have its area, and it takes no minute."""
    angle = np.linspace(0.0, 2.0 * np.pi, 2000, endpoint=False)
    star = np.stack([np.cos(angle), np.sin(angle)], axis=1) * np.where(np.arange(2000) % 2, 3.0, 5.0)[:, None]
    started = time.process_time()
    faces = shapes.triangulated(np.repeat(star, 2, axis=0))
    assert time.process_time() - started < 20.0
    x, y = star.T
    wanted = 0.5 * np.sum(x * np.roll(y, -1) - y * np.roll(x, -1))
    a, b, c = np.repeat(star, 2, axis=0)[faces].transpose(1, 0, 2)
    areas = 0.5 * ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])
    assert len(faces) == 1998
    assert np.all(areas > 0.0)
    assert areas.sum() == pytest.approx(wanted, rel=1e-9)
