"""The mesh of a world's water: it fills the water's own outline, no more and no less, and is fine in one place."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parhelion as ph
from parhelion.core.pose import Floats
from parhelion.motion.water import GerstnerWater, GerstnerWave, OceanWater
from parhelion.world.water_surface import MOST_TRIANGLES, Grading, Outline, WaterSurface, graded_mesh

WAVES = GerstnerWater([GerstnerWave(0.2, 8.0, 20.0)])


def rectangle(x0: float, y0: float, x1: float, y1: float) -> Floats:
    """Two triangles seen from above, the second wound the other way round."""
    return np.array([[[x0, y0], [x1, y0], [x1, y1]], [[x0, y0], [x0, y1], [x1, y1]]], dtype=np.float64)


def areas(vertices: Floats, faces: np.ndarray) -> Floats:
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return 0.5 * ((b - a)[:, 0] * (c - a)[:, 1] - (b - a)[:, 1] * (c - a)[:, 0])


GRADING = Grading((3.0, 2.0), (0.5, 1.0, 2.0, 4.0), (6.0, 12.0, 24.0, 96.0))

SHAPES = {
    "rectangle": (rectangle(-30, -10, 30, 10), 1200.0),
    "two that meet, with a seam": (np.concatenate([rectangle(-30, -10, 0, 10), rectangle(0, -10, 30, 7)]), 1110.0),
    "a bend": (np.concatenate([rectangle(-20, -5, 10, 5), rectangle(0, 5, 10, 30)]), 550.0),
    "two that lap": (np.concatenate([rectangle(-20, -5, 5, 5), rectangle(0, -5, 20, 5)]), 400.0),
    "a pond around an island": (
        np.concatenate([rectangle(*r) for r in ((-9, -9, 9, -1), (-9, 2, 9, 9), (-9, -1, -2, 2), (1, -1, 9, 2))]),
        18.0**2 - 9.0,
    ),
    "basins with a thin wall between": (np.concatenate([rectangle(-9, -9, 2.9, 9), rectangle(3.1, -9, 15, 9)]), 428.4),
    "a wedge": (np.array([[[-20.0, 0], [20, -1], [20, 2]]]), 60.0),
}  # fmt: skip


@pytest.mark.parametrize("name", SHAPES)
def test_a_mesh_fills_its_outline_and_no_more(name: str) -> None:
    corners, area = SHAPES[name]
    outline = Outline.of(corners)
    vertices, faces, count = graded_mesh(outline, GRADING)
    assert np.all(areas(vertices, faces) > 0)
    assert np.sum(areas(vertices, faces)) == pytest.approx(area, rel=1e-9)
    assert np.max(outline.distance(vertices[:count])) < 1e-9
    assert np.all(outline.winding(vertices[faces].mean(axis=1)) > 0)
    # Every inner edge is shared by two triangles that walk it in opposite directions: no cracks, no hanging corners.
    edges = np.concatenate([faces[:, [0, 1]], faces[:, [1, 2]], faces[:, [2, 0]]])
    once = {tuple(edge) for edge in edges.tolist()}
    assert len(once) == len(edges)
    rim = np.array([edge for edge in once if edge[::-1] not in once])
    assert np.max(outline.distance(vertices[rim].mean(axis=1))) < 1e-9


def test_a_grid_of_many_triangles_has_a_short_outline() -> None:
    world = ph.World()
    plane = ph.shapes.grid_terrain(np.zeros((21, 41)))
    world.add(plane, material="water", label="water")
    part = world.objects[0].parts[0]
    outline = Outline.of(part.placed[part.mesh.faces][..., :2])
    assert len(outline.segments) == 4
    low, high = outline.bounds
    np.testing.assert_allclose(high - low, np.ptp(part.placed[:, :2], axis=0))


@settings(max_examples=12, deadline=None)
@given(st.floats(-40.0, 40.0), st.floats(-40.0, 40.0), st.integers(0, 1000))
def test_any_polygon_about_any_place(x: float, y: float, seed: int) -> None:
    rng = np.random.default_rng(seed)
    angle = np.sort(rng.uniform(0.0, 2.0 * np.pi, 9))
    angle = angle[np.append(True, np.diff(angle) > 0.05)]
    star = rng.uniform(5.0, 30.0, len(angle))[:, None] * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    fan = np.stack([np.zeros_like(star), star, np.roll(star, -1, axis=0)], axis=1)
    turn = np.diff(np.append(angle, angle[0] + 2.0 * np.pi))
    fan = fan[turn < np.pi - 0.05]
    flat = fan.reshape(-1, 2)
    area = np.sum(np.abs(areas(flat, np.arange(len(flat)).reshape(-1, 3))))
    vertices, faces, _ = graded_mesh(Outline.of(fan), Grading((x, y), GRADING.steps, (6.0, 12.0, 24.0, 200.0)))
    assert np.sum(areas(vertices, faces)) == pytest.approx(area, rel=1e-6)


def surface_of(world: ph.World) -> WaterSurface:
    surface = world.geometry("lidar").surface
    assert isinstance(surface, WaterSurface)
    return surface


def test_the_harbour_keeps_its_basin_and_gets_waves() -> None:
    world = ph.World.load("harbour", people=0, trees=0)
    before = len(world.geometry("lidar").static)
    sheet = next(item for item in world.objects if item.label == "water")
    viewpoint, bounds = world.viewpoint, world.bounds
    world.set_water(OceanWater(6.0, 3000.0, seed=2, depth_m=4.0, components=64))
    scene, surface = world.geometry("lidar"), surface_of(world)
    assert len(scene.static) == before - sheet.triangle_count
    assert (world.viewpoint, world.triangle_count) == (viewpoint, before)
    assert bounds is not None
    np.testing.assert_array_equal(bounds, np.array(world.bounds))
    for place in ((0.0, 0.0, 2.0), (-140.0, 20.0, 3.0), (500.0, 0.0, 3.0)):
        now = surface.at(surface.neighbourhood(np.array(place)), 1.0)
        assert 10 < len(now.triangles) <= MOST_TRIANGLES
        x, y, z = now.triangles.vertices.T
        assert np.max(np.abs(x)) == 150.5
        assert np.max(np.abs(y)) == 25.5
        assert np.max(np.abs(z)) < 0.3
        flat = now.triangles.vertices[:, :2]
        assert np.sum(areas(flat, now.triangles.faces)) == pytest.approx(301 * 51, rel=1e-9)
        np.testing.assert_allclose(now.normal, now.triangles.normals(), atol=1e-9)
        assert set(now.triangles.part.tolist()) == {sheet.parts[0].number}


def test_sheets_keep_their_parts_and_other_waters_stay() -> None:
    world = ph.World()
    canal = world.add(ph.shapes.plane(20, 10), material="water", label="water")
    dock = world.add(ph.shapes.plane(10, 10), material="water", label="water", pose=ph.Pose((15, 0, 0.1)))
    world.add(ph.shapes.plane(5, 5), material="water", label="water", pose=ph.Pose((0, 40, 6)), name="pool on a roof")
    world.set_water(WAVES)
    now = surface_of(world).at((0, 0), 0.0)
    middle = now.triangles.vertices[now.triangles.faces].mean(axis=1)
    expected = np.where(middle[:, 0] < 10.0, canal.parts[0].number, dock.parts[0].number)
    np.testing.assert_array_equal(now.triangles.part, expected)
    assert len(world.geometry("lidar").static) == 2


def test_what_is_hidden_has_no_waves_either() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(20, 10), material="water", label="water", hidden_from="lidar")
    world.set_water(WAVES)
    assert world.geometry("lidar").surface is None
    assert world.geometry("radar").surface is not None


def test_a_mesh_is_the_same_again_and_needs_no_order() -> None:
    one, two = (surface_of(lake()) for _ in range(2))
    places = [(0, 0), (3, -2), (0, 1)]
    first = [one.at(place, 2.0) for place in places]
    second = [two.at(place, 2.0) for place in reversed(places)][::-1]
    for a, b in zip(first, second, strict=True):
        np.testing.assert_array_equal(a.triangles.vertices, b.triangles.vertices)
        np.testing.assert_array_equal(a.triangles.faces, b.triangles.faces)
        np.testing.assert_array_equal(a.rise, b.rise)


def lake(size: float = 3000.0) -> ph.World:
    world = ph.World()
    world.add(ph.shapes.plane(size, size), material="water", label="water")
    world.set_water(WAVES)
    return world


def test_a_wide_lake_stays_within_the_limit_and_is_finest_at_the_sensor() -> None:
    surface = surface_of(lake())
    now = surface.at(surface.neighbourhood(np.array([104.0, 56.0, 3.0])), 0.0)
    assert len(now.triangles) <= MOST_TRIANGLES
    corners = now.triangles.vertices[now.triangles.faces][..., :2]
    side = np.sqrt(2.0 * areas(corners.reshape(-1, 2), np.arange(3 * len(corners)).reshape(-1, 3)))
    away = np.linalg.norm(corners.mean(axis=1) - [104.0, 56.0], axis=1)
    assert np.max(side[away < 5.0]) == pytest.approx(0.5)
    assert np.median(side[(away > 120.0) & (away < 150.0)]) == pytest.approx(8.0)
