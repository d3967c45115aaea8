"""Lidar returns from waves: their height at the time of each ray, and glints where they face the sensor."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.pose import Floats
from parhelion.motion.water import CalmWater, GerstnerWater, GerstnerWave, OceanWater, Water
from parhelion.rays import Rays, RayScene
from parhelion.surfaces.material import CookTorranceModel, Material, SpectrumTable
from parhelion.world.water_surface import CELLS_PER_WAVE, WaterSurface, finest_cell
from rigs import sheet

GLINTING = Material(
    name="glinting-water", sources=["made for tests"],
    spectrum=SpectrumTable(wavelength_um=[0.35, 2.5], reflectance=[0.0, 0.0]),
    brdf=CookTorranceModel(model="cook-torrance", roughness=0.05, refractive_index=1.33),
)  # fmt: skip
"""A surface that mirrors 2 % within some mrad, and a body that gives nothing back: all that is seen are glints."""

HEIGHT_M = 5.0
DOWN = {
    "kind": "raster", "rate_hz": 10, "azimuth_deg": (-32, 32), "elevation_deg": (-32, 32), "columns": 81, "rows": 81,
}  # fmt: skip


def pool(water: Water, material: str | Material = "water", size: float = 30.0) -> ph.World:
    world = ph.World("pool")
    world.add(ph.shapes.plane(size, size), material=material, label="water", pose=ph.Pose((2.5, 2.5, 0)))
    world.set_water(water)
    return world


def down_looking(range_m: float = 20.0) -> ph.Lidar:
    """A lidar with rays within 32 degrees of its x axis, rated to a range [m] on 90 %."""
    rated = {"min_m": 0.1, "max_m": 300, "rated": [{"reflectance": 0.9, "range_m": range_m}]}
    return ph.Lidar(sheet(pattern=DOWN, range=rated), noise=False, bounces=0)


def down_scan(world: ph.World, lidar: ph.Lidar) -> ph.Scan:
    """A scan straight down from 5 m over the middle of a fine square of the mesh."""
    return lidar.scan(world, pose=ph.Pose((2.5, 2.5, HEIGHT_M), rpy_deg=(0, 90, 0)))


def tangents(scan: ph.Scan) -> Floats:
    """Horizontal distance of each return per metre down, along the two level axes of the sensor, shape (n, 2)."""
    return scan.xyz[:, 1:].astype(np.float64) / scan.xyz[:, :1]


# ---- where the surface is ------------------------------------------------------------------------------------------

WATERS = {
    "one train": (GerstnerWater([GerstnerWave(0.2, 9.0, 25.0)]), 3e-3),
    "two trains": (GerstnerWater([GerstnerWave(0.15, 8.0, 20.0), GerstnerWave(0.05, 5.0, -60.0)]), 3e-3),
    "sea": (OceanWater(9.0, 200e3, seed=3, components=64), 6e-3),
}


@pytest.mark.parametrize("name", WATERS)
def test_returns_lie_on_the_surface_of_their_own_time(name: str) -> None:
    """Within the scan's 0.1 s the water rises by centimetres; standing still it would be wrong by that."""
    water, tolerance = WATERS[name]
    rng = np.random.default_rng(1)
    direction = np.column_stack([rng.uniform(-0.5, 0.5, (300, 2)), np.full(300, -1.0)])
    rays = Rays.of([2.5, 2.5, HEIGHT_M], direction, 20.0 + rng.uniform(0.0, 0.1, 300))
    hits = RayScene(pool(water).geometry()).cast(rays)
    assert hits.found.all()
    points = rays.origin + hits.range[:, None] * rays.direction
    own = np.array([float(water.height(x, y, t)) for (x, y, _), t in zip(points, rays.time, strict=True)])
    middle = water.height(points[:, 0], points[:, 1], rays.middle_time)
    error, frozen = points[:, 2] - own, points[:, 2] - middle
    assert np.sqrt(np.mean(error**2)) < tolerance
    assert np.sqrt(np.mean(frozen**2)) > 2.0 * np.sqrt(np.mean(error**2))
    normal = np.array([water.normal(x, y, t) for (x, y, _), t in zip(points, rays.time, strict=True)])
    tilt = np.arccos(np.clip(np.sum(hits.normal * normal, axis=1), -1.0, 1.0))
    assert np.sqrt(np.mean(tilt**2)) < np.radians(2.0 if name != "sea" else 4.0)


def test_cells_follow_the_waves() -> None:
    assert finest_cell(GerstnerWater([GerstnerWave(0.5, 40.0)])) == 2.0
    assert finest_cell(GerstnerWater([GerstnerWave(0.01, 0.5)])) == 0.25
    assert finest_cell(OceanWater(20.0, 500e3)) == 1.0
    # A ripple of no height decides nothing.
    assert finest_cell(GerstnerWater([GerstnerWave(0.5, 40.0), GerstnerWave(1e-4, 1.0)])) == 2.0


def test_slopes_of_the_faces_have_the_variance_of_the_waves_they_show() -> None:
    water = OceanWater(6.0, 3000.0, seed=5, components=128)
    surface = pool(water).geometry().surface
    assert isinstance(surface, WaterSurface)
    waves = water.components
    kept = 2.0 * np.pi / waves.wave_number_1_m >= CELLS_PER_WAVE * surface.cell_m
    expected = [np.sum((waves.amplitude_m * k)[kept] ** 2) / 2.0 for k in (waves.wave_x_1_m, waves.wave_y_1_m)]
    found = []
    for time in 5.0 * np.arange(20):
        now = surface.at((0, 0), float(time))
        middle = now.triangles.vertices[now.triangles.faces].mean(axis=1)
        fine = np.max(np.abs(middle[:, :2] - 2.5), axis=1) < 4.5
        slope = now.normal[fine, :2] / now.normal[fine, 2:]
        found.append(np.mean(slope**2, axis=0))
    # A face's slope is a difference over one cell: of waves of 3 cells it keeps (sin(60 deg) / 60 deg)^2 = 0.68.
    ratio = np.mean(found, axis=0) / np.array(expected)
    assert np.all((ratio > 0.8) & (ratio < 1.05))


# ---- what comes back -----------------------------------------------------------------------------------------------


def test_calm_water_gives_returns_near_the_nadir_only() -> None:
    """The library's water: its body returns 0.3 % at 905 nm, so 100 m rated on 90 % are 5.8 m, and less aslant."""
    scan = down_scan(pool(CalmWater(0.0)), down_looking(100.0))
    angle = np.degrees(np.arctan(np.linalg.norm(tangents(scan), axis=1)))
    assert len(scan) > 100
    assert np.max(angle) < 32.0
    assert np.all(np.abs(scan.in_world().xyz[:, 2]) < 1e-4)
    # A sensor rated to a tenth sees none of it.
    assert len(down_scan(pool(CalmWater(0.0)), down_looking(10.0))) == 0


def test_glints_of_calm_water_are_at_the_nadir_and_waves_spread_them_by_their_slopes() -> None:
    """A face glints where it faces the sensor, so the glints' directions have the slopes' distribution (Cox, Munk)."""
    lidar, edge = down_looking(), np.tan(np.radians(31.0))
    calm = tangents(down_scan(pool(CalmWater(0.0), GLINTING), lidar))
    assert len(calm) > 5
    assert np.max(np.linalg.norm(calm, axis=1)) < np.tan(np.radians(2.5))
    places = [(x, y, HEIGHT_M) for x in (0.5, 2.5, 4.5) for y in (0.5, 2.5, 4.5)]
    nine = [ph.Pose(place, rpy_deg=(0, 90, 0)) for place in places]
    spread = []
    for wind in (4.0, 8.0):
        water = OceanWater(wind, 3000.0, seed=5, components=96)
        world = pool(water, GLINTING)
        surface = world.geometry("lidar").surface
        assert isinstance(surface, WaterSurface)
        directions, slopes = [], []
        for time in 3.7 * np.arange(20):
            # From nine places that share the fine mesh.
            scans = lidar.scan_many(world, nine, time=float(time))
            directions += [tangents(scan)[:, ::-1] for scan in scans]
            now = surface.at((0, 0), float(time))
            middle = now.triangles.vertices[now.triangles.faces].mean(axis=1)
            slopes.append((now.normal[:, :2] / now.normal[:, 2:])[np.max(np.abs(middle[:, :2] - 2.5), axis=1) < 3.5])
        seen, slope = np.concatenate(directions), np.concatenate(slopes)
        seen, slope = (s[np.max(np.abs(s), axis=1) < edge] for s in (seen, slope))
        # Rays are even in angle: per unit of slope there are fewer of them the farther out.
        azimuth = np.arctan(seen[:, 1])
        elevation = np.arctan(seen[:, 0] * np.cos(azimuth))
        weight = 1.0 / (np.cos(azimuth) ** 3 * np.cos(elevation) ** 2)
        variance = np.sum(weight[:, None] * seen**2, axis=0) / np.sum(weight)
        np.testing.assert_allclose(variance, np.mean(slope**2, axis=0), rtol=0.2)
        spread.append(variance)
    assert np.all(spread[1] > 1.2 * spread[0])
    assert np.all(spread[0] > 10.0 * np.mean(calm**2))
