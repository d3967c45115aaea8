"""A stray object far away must not degrade ranges near the sensor; compared with the float64 reference."""

from __future__ import annotations

import warnings

import numpy as np
import pytest

import parhelion as ph
from parhelion.rays import Rays, RayScene, ReferenceScene
from parhelion.rays.origin import CELL_M, cell_around, likely_zero, origin_of, runs
from parhelion.sensors.check import same_bits
from rigs import sheet

FAR_M = (1e6, 1e7, 1e8)


def site(at: tuple[float, float, float] = (0.0, 0.0, 0.0), *strays: float) -> ph.World:
    """A plane and some boxes around a place, and one box far along x for each stray."""
    world, place = ph.World("site"), ph.Pose(at)
    world.add(ph.shapes.plane(300, 300), material="asphalt", pose=place)
    for k in range(6):
        world.add(ph.shapes.box(2, 2, 3), material="brick", pose=place @ ph.Pose((5.123 + 3 * k, 4 * k - 8, 1.5)))
    for stray in strays:
        world.add(ph.shapes.box(2, 2, 2), material="brick", pose=ph.Pose((stray, 0, 0)))
    return world


def down(at: tuple[float, float, float], count: int = 3000) -> Rays:
    """Rays from 1.7 m over a place, down to slightly below the horizon, to 150 m."""
    direction = np.random.default_rng(0).normal(size=(count, 3))
    direction[:, 2] = -np.abs(direction[:, 2]) - 0.1
    return Rays.of(np.add(at, (0.3, 0.2, 1.7)), direction, max_range=150.0)


def largest_error(world: ph.World, rays: Rays, **options: object) -> float:
    geometry = world.geometry()
    found = RayScene(geometry, **options).cast(rays).range  # type: ignore[arg-type]
    right = ReferenceScene(geometry).cast(rays).range
    assert np.array_equal(np.isfinite(found), np.isfinite(right))
    hit = np.isfinite(right)
    assert hit.sum() > 1000
    return float(np.abs(found - right)[hit].max())


@pytest.mark.parametrize("far", FAR_M)
def test_casts_near_the_rest_are_exact_with_a_stray_box(far: float) -> None:
    assert largest_error(site((0, 0, 0), far), down((0, 0, 0))) < 1e-4


@pytest.mark.parametrize("far", FAR_M)
def test_scans_are_exact_with_a_stray_box(far: float) -> None:
    lidar = ph.Lidar(sheet(range={"max_m": 150.0}), noise=False)
    pose = ph.Pose((0.3, 0.2, 1.7))
    with_stray, without = (lidar.scan(site((0, 0, 0), *strays), pose=pose) for strays in ((far,), ()))
    assert len(without) > 50
    np.testing.assert_array_equal(with_stray.shot, without.shot)
    np.testing.assert_allclose(with_stray.range, without.range, atol=1e-4)
    rays = Rays.of(pose.xyz, (pose.apply(with_stray.xyz) - pose.xyz).astype(np.float64))
    np.testing.assert_allclose(with_stray.range, ReferenceScene(site().geometry()).cast(rays).range, atol=2e-4)


def test_two_sites_far_apart_are_both_exact() -> None:
    """The middle lies between the sites, far from both: each sensor gets a scene around its own position."""
    here, there = (0.0, 0.0, 0.0), (3e6, -2e6, 50.0)
    world = site(here)
    for item in site(there).objects:
        world.add(item.parts[0].mesh, pose=item.pose, material=item.parts[0].material)
    lidar = ph.Lidar(sheet(range={"max_m": 150.0}), noise=False)
    poses = [ph.Pose(np.add(at, (0.3, 0.2, 1.7)), rpy_deg=(0, 12, 0)) for at in (here, there, there, here)]
    alone = [lidar.scan(world, pose=pose, seed=1) for pose in poses]
    for scan in alone:
        np.testing.assert_allclose(scan.range, alone[0].range, atol=1e-4)
    for one, other in zip(lidar.scan_many(world, poses, seed=1), alone, strict=True):
        assert same_bits(one, other)
    signal = [lidar.waveform(world, [10], pose=pose).samples for pose in poses[:2]]
    np.testing.assert_allclose(signal[0], signal[1], atol=1e-3 * signal[0].max())
    for at in (here, there):
        zero = origin_of(cell_around(np.array(at)))
        assert largest_error(world, down(at), zero=zero) < 1e-3


def test_moving_bodies_near_the_sensor_are_exact_with_a_stray_box() -> None:
    world = ph.World()
    world.add(ph.shapes.box(2, 2, 2), material="brick", pose=ph.Pose((1e7, 0, 0)))
    world.add(ph.shapes.box(2, 2, 2), material="brick", pose=ph.Pose((-30, 0, 0)))
    world.add_actor(
        ph.shapes.box(2, 8, 8), material="brick", trajectory=ph.ConstantTwist(ph.Pose((20, 0, 0)), (1, 0, 0))
    )
    scan = ph.Lidar(sheet(), noise=False).scan(world, pose=ph.Pose(), time=2.0)
    rays = Rays.of((0, 0, 0), scan.xyz.astype(np.float64), time=2.0 + scan.time)
    assert len(scan) == 105
    np.testing.assert_allclose(scan.range, ReferenceScene(world.geometry()).cast(rays).range, atol=1e-4)


def test_the_cell_depends_on_the_position_of_the_sensor_only() -> None:
    for place in ((0, 0, 0), (2000, -2000, 100), (np.nan, 0, 0)):
        assert cell_around(np.array(place)) == (0, 0, 0)
    assert cell_around(np.array([4000.0, 0, -9000.0])) == (1, 0, -2)
    places = [np.array([x, 0.0, 0.0]) for x in (0, 10, 4000, 4001, 9000, 0)]
    assert list(runs(places)) == [
        (slice(0, 2), (0, 0, 0)),
        (slice(2, 4), (1, 0, 0)),
        (slice(4, 5), (2, 0, 0)),
        (slice(5, 6), (0, 0, 0)),
    ]
    assert list(runs([])) == []
    # A sensor is never farther from the origin of its cell than half a cell's side.
    for place in np.random.default_rng(2).uniform(-1e9, 1e9, (100, 3)):
        assert np.abs(origin_of(cell_around(place)) - place).max() <= CELL_M / 2


def test_the_default_origin_is_the_cell_of_most_vertices() -> None:
    np.testing.assert_array_equal(likely_zero(ph.World().geometry()), [0, 0, 0])
    for stray in ((), (1e6,), (2500.0,)):
        np.testing.assert_array_equal(likely_zero(site((0, 0, 0), *stray).geometry()), [0, 0, 0])
    np.testing.assert_array_equal(likely_zero(site((9000, 0, 0)).geometry()), [2 * CELL_M, 0, 0])


def test_a_long_drive_through_a_wide_world_caches_few_scenes() -> None:
    from parhelion.sensors.scene import _scenes

    world, lidar = site((0, 0, 0), 1e6), ph.Lidar(sheet())
    for x in range(0, 100_000, 5000):
        lidar.scan(world, pose=ph.Pose((float(x), 0, 1.7)))
    assert len({key[-1] for key in _scenes[world] if key[0] == "scene"}) <= 4


def test_lost_precision_is_warned_of() -> None:
    rays = down((1e6, 0, 0), 10)
    with pytest.warns(UserWarning, match=r"rays: some start 1e\+06 m from the scene's origin"):
        RayScene(site().geometry()).cast(rays)
    wide = ph.World()
    wide.add(ph.shapes.plane(1e6, 1e6), material="asphalt")
    with pytest.warns(UserWarning, match=r"2 triangles are longer than 40 km, up to 1414 km: .* off by 0.2 m"):
        RayScene(wide.geometry())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        RayScene(site((0, 0, 0), 1e6).geometry()).cast(down((0, 0, 0), 10))
