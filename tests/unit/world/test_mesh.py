"""Meshes by hand: areas, slivers, what is merged, picked, scaled and refused at the very edge."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.world.mesh import LARGEST_COORDINATE_M, Mesh, triangle_sizes

TURN = Pose(rpy_deg=(20, -35, 70)).rotation
CORNERS = np.array([[0.0, 0, 0], [3, 0, 0], [0, 4, 0]])
"""A right triangle with sides of 3, 4 and 5 m."""


@pytest.mark.parametrize("order", [(0, 1, 2), (1, 2, 0), (2, 0, 1), (0, 2, 1)])
def test_area_and_height_of_a_triangle(order: tuple[int, int, int]) -> None:
    """Area 6; twice the area over the longest side squared is 12 / 25, whichever side that is, wherever it lies."""
    area, height = triangle_sizes(CORNERS[list(order)] @ TURN.T + [7.0, -2.0, 1.0], np.array([[0, 1, 2]], np.int32))
    assert area == pytest.approx([6.0], rel=1e-12)
    assert height == pytest.approx([0.48], rel=1e-12)
    # A point: no sides, no area, and no division.
    assert [float(v[0]) for v in triangle_sizes(CORNERS[[1, 1, 1]], np.array([[0, 1, 2]], np.int32))] == [0.0, 0.0]


def test_slivers_are_dropped_and_counted() -> None:
    vertices = np.vstack([CORNERS, [[6.0, 0, 0], [1.5, 1e-11, 0.0], [1.5, 1e-9, 0.0]]])
    faces = np.array([[0, 1, 2], [0, 1, 3], [0, 4, 1], [0, 5, 1]])
    uv = np.arange(24, dtype=np.float32).reshape(4, 3, 2)
    with pytest.warns(UserWarning, match="dropped 1 triangle without area of 4"):
        mesh = Mesh(vertices, faces, uv)
    # 1e-11 / 3 m is above the limit of 1e-12, a line is not.
    assert mesh.faces.tolist() == [[0, 1, 2], [0, 4, 1], [0, 5, 1]]
    assert mesh.uv is not None
    assert np.array_equal(mesh.uv, uv[[0, 2, 3]])
    found, dropped = Mesh.cleaned(vertices, faces[:2])
    assert found is not None
    assert (len(found), dropped) == (1, 1)
    assert Mesh.cleaned(vertices, faces[1:2]) == (None, 1)
    with pytest.raises(ConfigError, match="no triangle with an area"):
        Mesh(vertices, faces[1:2])
    assert not mesh.vertices.flags.writeable
    assert not mesh.faces.flags.writeable


def test_merging_shifts_faces_and_fills_uvs() -> None:
    plain = Mesh(CORNERS, np.array([[0, 1, 2]]))
    uv = np.full((1, 3, 2), 0.5, np.float32)
    both = Mesh.merged([plain, Mesh(CORNERS + 10.0, np.array([[2, 1, 0]]), uv), plain])
    assert both.faces.tolist() == [[0, 1, 2], [5, 4, 3], [6, 7, 8]]
    assert both.area() == pytest.approx(18.0)
    assert both.uv is not None
    assert both.uv.tolist() == [np.zeros((3, 2)).tolist(), uv[0].tolist(), np.zeros((3, 2)).tolist()]
    assert Mesh.merged([plain, plain]).uv is None
    low, high = both.bounds
    assert low.tolist() == [0, 0, 0]
    assert high.tolist() == [13, 14, 10]
    with pytest.raises(ConfigError, match="nothing to merge"):
        Mesh.merged([])


def test_picked_triangles_keep_the_vertices_that_they_use() -> None:
    vertices = np.vstack([CORNERS, CORNERS + 5.0])
    mesh = Mesh(vertices, np.array([[0, 1, 2], [3, 4, 5], [1, 2, 4]]), np.arange(18, dtype=np.float32).reshape(3, 3, 2))
    for rows in (np.array([False, True, False]), np.array([1])):
        one = mesh.select(rows)
        assert one.faces.tolist() == [[0, 1, 2]]
        assert one.vertices.tolist() == (CORNERS + 5.0).tolist()
        assert one.uv is not None
        assert one.uv.tolist() == np.arange(6, 12, dtype=np.float32).reshape(1, 3, 2).tolist()
    last = mesh.select(np.array([2]))
    assert last.faces.tolist() == [[0, 1, 2]]
    assert last.vertices.tolist() == vertices[[1, 2, 4]].tolist()
    assert mesh.bounds[1].tolist() == [8, 9, 5]
    # Vertices that no triangle uses do not count.
    assert Mesh(vertices, np.array([[0, 1, 2]])).bounds[1].tolist() == [3, 4, 0]
    with pytest.raises(ConfigError, match="no triangle selected"):
        mesh.select(np.zeros(3, bool))


def test_placed_and_scaled() -> None:
    mesh = Mesh(CORNERS, np.array([[0, 1, 2]]))
    moved = mesh.transformed(Pose((1, 2, 3), rpy_deg=(0, 0, 90)))
    np.testing.assert_allclose(moved.vertices, [[1, 2, 3], [1, 5, 3], [-3, 2, 3]], atol=1e-12)
    assert mesh.scaled((1, 2, 3)).vertices[2].tolist() == [0, 8, 0]
    assert mesh.scaled(LARGEST_COORDINATE_M / 4).area() == pytest.approx(6.0 * (LARGEST_COORDINATE_M / 4) ** 2)
    for factor in (LARGEST_COORDINATE_M / 3.999, 0.0, -1.0, (1.0, 2.0), np.inf, (1, 0, 1), "wide"):
        with pytest.raises(ConfigError, match="mesh: scale"):
            mesh.scaled(factor)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("vertices", "faces", "uv", "words"),
    [
        (CORNERS[:, :2], [[0, 1, 2]], None, "shape"),
        (CORNERS[0], [[0, 1, 2]], None, "shape"),
        (np.zeros((0, 3)), [[0, 1, 2]], None, "no vertices"),
        (CORNERS * [[1], [np.nan], [1]], [[0, 1, 2]], None, "1 are not, the first is vertex 1"),
        (CORNERS * 1e9, [[0, 1, 2]], None, "within 1e"),
        (CORNERS, [[0, 1, 3]], None, "face index 3 is outside 0 to 2"),
        (CORNERS, [[0, 1, -1]], None, "face index -1 is outside 0 to 2"),
        (CORNERS, [[0, 1]], None, "faces must have shape"),
        (CORNERS, [0, 1, 2], None, "faces must have shape"),
        (CORNERS, [[0.0, 1.0, 2.0]], None, "whole numbers"),
        (CORNERS, [], None, "no triangles"),
        (CORNERS, [[0, 1, 2]], np.zeros((2, 3, 2)), "uv must have shape"),
        (CORNERS, [[0, 1, 2]], np.full((1, 3, 2), np.inf), "uv must be finite"),
        ("abc", [[0, 1, 2]], None, "numbers"),
    ],
)
def test_what_is_no_mesh_is_refused(vertices: object, faces: object, uv: object, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        Mesh(vertices, faces, uv)  # type: ignore[arg-type]


def test_read_only_arrays_are_not_copied_and_others_are() -> None:
    mine = CORNERS.copy()
    assert Mesh(mine, np.array([[0, 1, 2]])).vertices is not mine
    assert mine.flags.writeable
    mine.setflags(write=False)
    assert Mesh(mine, np.array([[0, 1, 2]])).vertices is mine
    part = np.vstack([mine, mine])[:3]
    part.setflags(write=False)  # a view, whose base may be written
    assert Mesh(part, np.array([[0, 1, 2]])).vertices is not part
    assert Mesh(mine.astype(np.float32), np.array([[0, 1, 2]])).vertices.dtype == np.float64
