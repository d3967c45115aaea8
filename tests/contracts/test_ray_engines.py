"""Contract of both ray engines: the fast engine must give the results of the reference."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist
from parhelion.rays import MovingTriangles, Rays, RayScene, ReferenceScene, SceneGeometry, Triangles

BOX = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)], dtype=float)
BOX_FACES = np.array(
    [[0, 1, 3], [0, 3, 2], [4, 6, 7], [4, 7, 5], [0, 4, 5], [0, 5, 1],
     [2, 3, 7], [2, 7, 6], [0, 2, 6], [0, 6, 4], [1, 5, 7], [1, 7, 3]], dtype=np.int32
)  # fmt: skip


def boxes(centres: np.ndarray, half: np.ndarray) -> Triangles:
    vertices = (BOX[None] * half[:, None, :] + centres[:, None, :]).reshape(-1, 3)
    faces = (BOX_FACES[None] + 8 * np.arange(len(centres))[:, None, None]).reshape(-1, 3)
    return Triangles(vertices, faces.astype(np.int32), np.repeat(np.arange(len(centres)), 12).astype(np.uint32))


def random_scene(seed: int, shift: np.ndarray | float = 0.0, count: int = 12) -> SceneGeometry:
    rng = np.random.default_rng(seed)
    return SceneGeometry(boxes(rng.uniform(-20, 20, (count, 3)) + shift, rng.uniform(0.2, 3.0, (count, 3))))


def random_rays(seed: int, shift: np.ndarray | float = 0.0, n: int = 500, times: float = 0.0) -> Rays:
    rng = np.random.default_rng(seed)
    return Rays.of(
        rng.uniform(-25, 25, (n, 3)) + shift, rng.normal(size=(n, 3)), rng.uniform(0, times, n) if times else 0.0
    )


def agree(scene: SceneGeometry, rays: Rays, tolerance: float = 2e-4, *, coherent: bool = False) -> None:
    engine, slow = RayScene(scene), ReferenceScene(scene).cast(rays)
    fast = engine.cast(rays, coherent=coherent)
    assert np.array_equal(engine.is_blocked(rays), fast.found)
    # A ray through an edge may hit either neighbour, or miss a silhouette edge in one precision only. The comparison
    # excludes rays for which the reference changes under a slight rotation.
    sure = np.ones(len(rays), bool)
    for axis in range(3):
        for sign in (-1, 1):
            nudge = np.zeros(3)
            nudge[axis] = sign * 1e-5
            nudged = ReferenceScene(scene).cast(Rays.of(rays.origin, rays.direction + nudge, rays.time, rays.max_range))
            sure &= nudged.triangle == slow.triangle
    assert sure.mean() > 0.9
    assert np.array_equal(fast.found[sure], slow.found[sure])
    both = sure & slow.found
    cosine = np.abs(np.sum(slow.normal * rays.direction, axis=1))
    assert np.all(np.abs(fast.range[both] - slow.range[both]) <= tolerance / np.maximum(cosine[both], 0.02))
    assert np.array_equal(fast.part[both], slow.part[both])
    assert np.array_equal(fast.actor[both], slow.actor[both])
    assert np.allclose(fast.normal[both], slow.normal[both], atol=2e-5)
    assert np.array_equal(fast.triangle[both], slow.triangle[both])
    assert np.all(np.isinf(fast.range[~fast.found]))


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 10_000))
def test_same_hits_in_random_scenes(seed: int) -> None:
    agree(random_scene(seed), random_rays(seed + 1))


def test_large_offsets_keep_their_precision() -> None:
    shift = np.array([4.2e6, -5.8e6, 300.0])
    agree(random_scene(3, shift), random_rays(4, shift))


def test_degenerate_triangles_are_never_hit() -> None:
    scene = random_scene(5)
    flat = np.array([[0, 0, 0], [1, 1, 1], [2, 2, 2], [5, 5, 5], [5, 5, 5], [5, 5, 5]], dtype=float)
    static = scene.static
    spoiled = Triangles(
        np.concatenate([static.vertices, flat]),
        np.concatenate([static.faces, np.array([[0, 1, 2], [3, 4, 5]], np.int32) + len(static.vertices)]),
        np.concatenate([static.part, np.array([98, 99], np.uint32)]),
    )
    rays = random_rays(6)
    towards = Rays.of(rays.origin, np.array([1.0, 1.0, 1.0]) - rays.origin)
    agree(SceneGeometry(spoiled), rays)
    for engine in (RayScene, ReferenceScene):
        assert not np.isin(engine(SceneGeometry(spoiled)).cast(towards).part, (98, 99)).any()


def test_grazing_rays_over_a_floor() -> None:
    floor = Triangles(
        np.array([[-1e3, -1e3, 0], [1e3, -1e3, 0], [1e3, 1e3, 0], [-1e3, 1e3, 0]], dtype=float),
        np.array([[0, 1, 2], [0, 2, 3]], np.int32), np.zeros(2, np.uint32),
    )  # fmt: skip
    down = np.radians(np.linspace(0.3, 5, 300))
    azimuth = np.linspace(0.1, 6.2, 300)
    direction = np.stack([np.cos(azimuth) * np.cos(down), np.sin(azimuth) * np.cos(down), -np.sin(down)], axis=1)
    hits = RayScene(SceneGeometry(floor)).cast(Rays.of([0.0, 0.0, 2.0], direction))
    assert np.allclose(hits.range, 2.0 / np.sin(down), rtol=1e-5)


@pytest.mark.parametrize("engine", [RayScene, ReferenceScene])
def test_empty_world_and_no_rays(engine: type) -> None:
    nothing = engine(SceneGeometry(Triangles.empty())).cast(random_rays(1))
    assert not nothing.found.any()
    assert np.all(np.isinf(nothing.range))
    assert np.all(nothing.part == -1)
    none = engine(random_scene(1)).cast(Rays.of(np.zeros((0, 3)), np.zeros((0, 3))))
    assert len(none) == 0


@pytest.mark.parametrize("engine", [RayScene, ReferenceScene])
def test_range_limit(engine: type) -> None:
    scene = SceneGeometry(boxes(np.array([[10.0, 0, 0]]), np.array([[1.0, 1, 1]])))
    hits = engine(scene).cast(Rays.of(np.zeros((2, 3)), [[1.0, 0.1, 0.05]] * 2, max_range=[8.0, 10.0]))
    assert hits.found.tolist() == [False, True]


@settings(max_examples=8, deadline=None)
@given(st.integers(0, 10_000), st.booleans())
def test_moving_bodies_at_each_rays_own_time(seed: int, coherent: bool) -> None:
    rng = np.random.default_rng(seed)
    scene = random_scene(seed, count=5)
    actors = [
        MovingTriangles(
            boxes(np.zeros((1, 3)), rng.uniform(0.3, 2.0, (1, 3))),
            ConstantTwist(
                Pose(rng.uniform(-15, 15, 3), rpy_deg=rng.uniform(-180, 180, 3)),
                tuple(rng.uniform(-20, 20, 3)), tuple(rng.uniform(-2, 2, 3)), 5.0,
            ),
        )
        for _ in range(7)
    ]  # fmt: skip
    rays = random_rays(seed, n=800)
    times = 5.0 + rng.uniform(0, 0.1, len(rays))
    timed = Rays.of(rays.origin, rays.direction, times)
    agree(SceneGeometry(scene.static, actors), timed, tolerance=1e-3, coherent=coherent)


def test_a_ray_that_starts_inside_a_body_hits_it_from_within() -> None:
    actor = MovingTriangles(boxes(np.zeros((1, 3)), np.ones((1, 3))), ConstantTwist(Pose((3.0, 0, 0)), (10.0, 0, 0)))
    scene = SceneGeometry(Triangles.empty(), [actor])
    rays = Rays.of([3.0, 0.1, 0.2], [[1.0, 0, 0], [1.0, 0, 0]], time=[0.0, 0.05])
    assert np.allclose(RayScene(scene).cast(rays).range, [1.0, 1.5], atol=1e-4)


def test_nan_rays_are_refused() -> None:
    with pytest.raises(ConfigError, match="finite"):
        Rays.of([np.nan, 0, 0], [1.0, 0, 0])
    with pytest.raises(ConfigError, match="zero"):
        Rays.of([0.0, 0, 0], [0.0, 0, 0])


@pytest.mark.parametrize("coherent", [False, True])
@pytest.mark.parametrize("turn_deg", [0.0, 0.01, 45.0])
def test_rays_in_planes_and_along_axes_hit_a_closed_room(coherent: bool, turn_deg: float) -> None:
    """Plain packet tracing fails for rays in one plane and for rays exactly along an axis."""
    room = boxes(np.zeros((1, 3)), np.array([[40.0, 25.0, 6.0]]))
    furniture = random_scene(9, count=30).static
    scene = SceneGeometry(
        Triangles(
            np.concatenate([room.vertices, furniture.vertices]),
            np.concatenate([room.faces, furniture.faces + len(room.vertices)]),
            np.concatenate([room.part, furniture.part + 1]),
        )
    )
    rays = rows_of_rays(turn_deg)
    engine, slow = RayScene(scene), ReferenceScene(scene).cast(rays)
    fast = engine.cast(rays, coherent=coherent)
    assert np.array_equal(engine.is_blocked(rays), fast.found)
    # The room is closed: every ray hits it, at the right distance except for rays that graze an edge.
    assert fast.found.all()
    assert np.mean(np.abs(fast.range - slow.range) < 1e-3) > 0.999


@pytest.mark.parametrize("coherent", [False, True])
@pytest.mark.parametrize("body_turn_deg", [0.0, 90.0, 30.0])
def test_rays_in_planes_and_along_axes_hit_bodies(coherent: bool, body_turn_deg: float) -> None:
    """The same for bodies, whose rays are transformed into the frame of the body."""
    rng = np.random.default_rng(4)
    room = boxes(np.zeros((1, 3)), np.array([[40.0, 25.0, 6.0]]))
    actors = [
        MovingTriangles(
            boxes(np.zeros((1, 3)), rng.uniform(0.5, 2.0, (1, 3))),
            ConstantTwist(Pose(rng.uniform([-15, -10, -2], [15, 10, 2]), rpy_deg=(0.0, 0.0, body_turn_deg))),
        )
        for _ in range(25)
    ]
    # One around the sensor, seen along its axes.
    actors.append(MovingTriangles(room, ConstantTwist(Pose((2.0, 1.0, 0.0), rpy_deg=(0.0, 0.0, body_turn_deg)))))
    scene, rays = SceneGeometry(Triangles.empty(), actors), rows_of_rays(0.0)
    engine, slow = RayScene(scene), ReferenceScene(scene).cast(rays)
    fast = engine.cast(rays, coherent=coherent)
    assert np.array_equal(engine.is_blocked(rays), fast.found)
    assert fast.found.all()
    assert np.mean(np.abs(fast.range - slow.range) < 1e-3) > 0.999
    assert np.count_nonzero(slow.actor < 25) > 500


def rows_of_rays(turn_deg: float) -> Rays:
    azimuth = np.radians(np.arange(0, 360, 0.25) + turn_deg)
    rings = []
    for elevation in np.radians([-15.0, -3.0, 0.0, 1.0, 12.0]):
        level = np.cos(elevation)
        height = np.full_like(azimuth, np.sin(elevation))
        rings.append(np.stack([level * np.cos(azimuth), level * np.sin(azimuth), height], axis=1))
    direction = np.concatenate(rings)
    direction[np.abs(direction) < 1e-12] = 0.0
    return Rays.of([0.013, 0.017, 0.011], direction)


def test_an_actor_without_area_is_refused() -> None:
    line = Triangles(
        np.array([[0.0, 0, 0], [1, 0, 0], [2, 0, 0]]), np.array([[0, 1, 2]], np.int32), np.zeros(1, np.uint32)
    )
    with pytest.raises(ConfigError, match="no triangle"):
        RayScene(SceneGeometry(Triangles.empty(), [MovingTriangles(line, ConstantTwist(Pose()))]))
