"""Patterns on surfaces as lidars and cameras see them, and the light of luminous materials."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from camera_rigs import above, camera_sheet
from parhelion.surfaces.bands import radiant_per_lumen
from parhelion.surfaces.library import material
from parhelion.surfaces.material import Glow
from parhelion.surfaces.pattern import (
    LARGEST,
    STAIN_LEVEL,
    STAIN_SPREAD,
    Pattern,
    channels_at,
    packed_tile,
    surface_coordinates,
)

BRICKS = Pattern(kind="bricks", period_m=2.0, second="concrete", stains=0.1, stains_m=15.0)


def wall(**options: Any) -> ph.World:
    """Wall of brick 4 m ahead."""
    world = ph.World("wall")
    brick = material("brick").model_copy(update={"name": "wall", "pattern": BRICKS})
    world.add(ph.shapes.box(1.0, 40.0, 20.0), material=brick, pose=ph.Pose((4.5, 0.0, 0.0)), **options)
    world.patterns = True
    return world


def scan(world: ph.World, **options: Any) -> ph.Scan:
    lidar = ph.Lidar("velodyne/vlp-16", noise=False, **options)
    return lidar.scan(world, pose=ph.Pose((0.0, 0.0, 0.3)), seed=1)


def expected(place: Any, footprint: Any) -> Any:
    """Factor of the pattern at places on the wall."""
    normal = np.broadcast_to([[1.0], [0.0], [0.0]], place.shape)
    u, v = surface_coordinates(place, normal)

    def channel(kind: Any, shift: int, period: float) -> Any:
        level = np.clip(np.log2(np.maximum(footprint / period * 512.0, 1.0)) + 0.5, 0.0, 9.0).astype(np.uint32)
        level = 0 * level + STAIN_LEVEL if kind == "stains" else level

        def read(words: Any, at: Any) -> Any:
            return ((words[at] >> shift) & 0xFFFF) * (LARGEST / 65535.0)

        return channels_at(u / period, v / period, level, 0 * level, packed_tile(kind).words, read, bilinear=False)

    one, other = material("brick").reflectance_at(905.0), material("concrete").reflectance_at(905.0)
    a, b, c = packed_tile("bricks").mix(one, other, STAIN_SPREAD * BRICKS.stains)
    own = a * channel("bricks", 0, BRICKS.period_m) + b * channel("bricks", 16, BRICKS.period_m) + c
    stain = channel("stains", 0, BRICKS.stains_m) * (2.0 * STAIN_SPREAD / LARGEST) - STAIN_SPREAD
    return own * (1.0 + BRICKS.stains * stain)


def test_a_lidar_sees_the_factor_of_the_pattern() -> None:
    world = wall()
    varied = scan(world, sub_rays=1)
    world.patterns = False
    plain = scan(world, sub_rays=1)
    assert np.array_equal(varied.xyz, plain.xyz)  # hits do not depend on patterns
    factor = varied.reflectivity / plain.reflectivity
    place = (varied.xyz + np.array([0.0, 0.0, 0.3])).T.astype(np.float64)
    beam = ph.Lidar("velodyne/vlp-16").config.beam
    range_m = np.linalg.norm(varied.xyz, axis=1)
    width = beam.exit_diameter_mm * 1e-3 + np.mean(beam.divergence_mrad) * 1e-3 * range_m
    want = expected(place, width / np.sqrt(varied.xyz[:, 0] / range_m))
    # Rounding of ranges to 2 mm moves every fifth point or fewer to the next texel, of 8 mm or more.
    assert np.quantile(np.abs(factor - want), 0.7) < 1e-3
    assert 0.05 < factor.std() < 0.4


def test_the_mean_of_a_surface_stays() -> None:
    world = wall()
    varied = scan(world)
    world.patterns = False
    plain = scan(world)
    one, other = (each.reflectivity[np.abs(each.xyz[:, 1]) < 4.0] for each in (varied, plain))
    # Stains of 15 m are few: their mean over 8 m deviates by about a third of 10 %.
    assert one.mean() == pytest.approx(other.mean(), rel=0.08)
    # Beams of 12 mm at 4 m average over courses, but not over bricks.
    assert one.std() > other.std() * 1.2


def test_a_camera_sees_mortar_between_bricks() -> None:
    camera = ph.Camera(camera_sheet(160, 120, fx=400.0), samples=16, bounces=0, developed=False, truth=())
    pictures = []
    world = wall()
    world.daylight = ph.Daylight(sun_elevation_deg=40.0, sun_azimuth_deg=270.0)  # on the wall
    for patterns in (True, False):
        world.patterns = patterns
        pictures.append(camera.shoot(world, pose=ph.Pose((1.0, 0.0, 0.0)), seed=2).colour[..., 0])
    ratio = pictures[0] / pictures[1]
    assert pictures[1].std() / pictures[1].mean() < 0.1
    # Mortar is brighter than brick in the visible: 2.1 to 1.
    assert ratio.max() > 1.5
    assert ratio.mean() == pytest.approx(1.0, abs=0.3)  # three standard deviations of the stains


def test_moving_objects_and_worlds_of_users_have_none() -> None:
    assert not ph.World("own").patterns
    assert ph.World.load("park").patterns
    assert not ph.World.load("park", patterns=False).patterns
    world = wall()
    brick = world.materials[0]
    world.remove(world.objects[0])
    world.add_actor(ph.shapes.box(1.0, 40.0, 20.0), material=brick, trajectory=ph.Pose((4.5, 0.0, 0.0)))
    varied = scan(world, sub_rays=1)
    world.patterns = False
    assert np.array_equal(varied.reflectivity, scan(world, sub_rays=1).reflectivity)


def test_a_saved_world_keeps_its_patterns(tmp_path: Any) -> None:
    world = wall()
    world.save(tmp_path / "a.yaml")
    again = ph.World.load(tmp_path / "a.yaml")
    assert again.patterns
    assert again.objects[0].parts[0].material.pattern == BRICKS


@pytest.mark.parametrize("lit", ["night", "always"])
def test_a_luminous_surface_has_its_luminance(lit: Any) -> None:
    glow = Glow(luminance_cd_m2=500.0, colour_temperature_k=3000.0, lit=lit)
    dark = material("lambert-0").model_copy(update={"name": "lamp", "glow": glow})
    world = ph.World("lamp")
    world.add(ph.shapes.plane(60.0, 60.0), material=dark)
    camera = ph.Camera(camera_sheet(16, 12), samples=4, developed=False, truth=())
    world.daylight = ph.Daylight(sun_elevation_deg=-20.0)
    found = camera.shoot(world, pose=above(2.0), seed=1).colour
    want = 500.0 * radiant_per_lumen(3000.0, camera.bands[0])
    assert found == pytest.approx(want, rel=1e-3)
    world.daylight = ph.Daylight(sun_elevation_deg=40.0)
    by_day = camera.shoot(world, pose=above(2.0), seed=1).colour
    assert np.allclose(by_day, want if lit == "always" else 0.0, rtol=2e-3, atol=want * 0.01)  # light of the air
