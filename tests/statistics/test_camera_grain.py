"""Monte Carlo noise of the renderer: stratified samples, guided directions, and the warning about it."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from camera_rigs import BRIGHT, DARK, above, camera_sheet, flat
from parhelion.core.errors import ConfigError
from parhelion.rays.device import engine
from parhelion.sensors.optics.camera import device, guide
from parhelion.sensors.optics.camera.path import RenderDraws
from parhelion.sensors.optics.camera.shot import GrainWarning, denoises

Array = NDArray[Any]


def room() -> ph.World:
    """A closed room of 12 x 8 x 4 m with one opening of 1.5 x 1.5 m, lit by the sky alone."""
    world = ph.World()
    world.daylight = ph.Daylight(sun_elevation_deg=40, sun_azimuth_deg=270)
    for size, at in (
        ((12.0, 8.0, 0.1), (0, 0, -0.05)), ((12.0, 8.0, 0.1), (0, 0, 4.05)), ((12.0, 0.1, 4.0), (0, 4.05, 2)),
        ((12.0, 0.1, 4.0), (0, -4.05, 2)), ((0.1, 8.0, 4.0), (-6.05, 0, 2)), ((0.1, 3.25, 4.0), (6.05, 2.375, 2)),
        ((0.1, 3.25, 4.0), (6.05, -2.375, 2)), ((0.1, 1.5, 1.0), (6.05, 0, 0.5)), ((0.1, 1.5, 1.5), (6.05, 0, 3.25)),
    ):  # fmt: skip
        world.add(ph.shapes.box(*size), material="lambert-50", pose=ph.Pose(at))
    return world


def shots(world: ph.World, count: int, **options: Any) -> Array:
    sheet = camera_sheet(64, 48, fx=40.0)
    camera = ph.Camera(sheet, **{"samples": 8, "bounces": 1, "truth": (), "developed": False, **options})
    pose = ph.Pose((-4.0, 0.0, 1.5))
    return np.array([camera.shoot(world, pose=pose, seed=seed).colour[..., 0] for seed in range(count)], np.float64)


def test_light_through_an_opening_is_sampled_by_a_guide(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guided pictures have the same mean as unguided ones, and much less noise."""
    world = room()
    guided = shots(world, 12)
    monkeypatch.setattr(device, "LEAST_CONTRAST", 1e9)
    plain = shots(world, 12)
    dim = plain.mean(axis=0) < 5.0  # without the opening itself
    error = np.sqrt((guided.var(axis=0, ddof=1) + plain.var(axis=0, ddof=1)) / 12.0)[dim]
    difference = (guided.mean(axis=0) - plain.mean(axis=0))[dim]
    # The mean over all pixels, whose errors are independent: four standard errors.
    assert abs(difference.mean()) < 4.0 * np.sqrt((error**2).sum()) / error.size
    noise = [np.sqrt(np.mean(one.var(axis=0, ddof=1)[dim])) for one in (guided, plain)]
    assert noise[0] < 0.93 * noise[1]


def test_an_open_scene_needs_no_guide() -> None:
    light = np.random.default_rng(2).uniform(0.5, 1.5, 6 * 8 * 16)
    assert guide.contrast((6, 8), light) == pytest.approx(1.0 + 1.0 / 12.0, rel=0.05)
    rare = np.where(np.random.default_rng(3).uniform(size=6 * 8 * 64) < 0.02, 10.0, 0.01)
    assert guide.contrast((6, 8), rare) > guide.LEAST_CONTRAST
    assert guide.contrast((2, 2), np.zeros(16)) == 1.0


def test_guided_directions_have_the_probability_that_is_stated() -> None:
    e = engine()
    dr, mi = e.dr, e.mi
    rng = np.random.default_rng(4)
    bins, light = rng.integers(0, guide.BINS, 4000), rng.exponential(size=4000)
    made = guide.Guide.of(e, (1, 1), bins, light)
    count = 400_000
    u = [mi.Float(rng.uniform(size=count).astype(np.float32)) for _ in range(3)]
    tile = dr.zeros(mi.UInt32, count)
    wi = made.sampled(tile, (u[0], u[1], u[2]))
    assert np.allclose(np.asarray(dr.norm(wi)), 1.0, atol=1e-5)
    # The mean of 1 / p over drawn directions is the solid angle of the sphere.
    p = np.asarray(made.probability(tile, wi), np.float64)
    assert np.mean(1.0 / p) == pytest.approx(4.0 * np.pi, rel=0.02)
    drawn = np.bincount(np.asarray(guide.bin_of(wi)), minlength=guide.BINS) / count
    want = np.diff(np.asarray(made.cumulative).reshape(-1))
    assert np.abs(drawn - want).max() < 5.0 * np.sqrt(want.max() / count)


def test_samples_of_a_pixel_are_stratified_and_uniform() -> None:
    e = engine()
    mi = e.mi
    keys = (mi.UInt32(123), mi.UInt32(77))
    pixel = e.dr.arange(mi.UInt32, 4096)
    draws = np.array(
        [[np.asarray(v) for v in RenderDraws(keys, pixel, mi.UInt32(k)).four(mi.UInt32(3))] for k in range(8)]
    )
    for dimension in range(4):
        values = draws[:, dimension]
        counts = np.bincount((values.ravel() * 16).astype(int), minlength=16)
        expected = values.size / 16
        assert np.abs(counts - expected).max() < 5.0 * np.sqrt(expected)
        # The mean of 8 independent numbers has a deviation of 0.289 / sqrt(8) = 0.102.
        assert values.mean(axis=0).std() < 0.07


def test_edges_of_objects_have_less_noise_than_with_independent_samples() -> None:
    world = flat(DARK)
    world.add(ph.shapes.box(1.3, 1.7, 0.01), material=BRIGHT, pose=ph.Pose((0.013, 0.021, 0.01)))
    camera = ph.Camera(camera_sheet(64, 48, fx=60.0), samples=8, bounces=0, truth=(), developed=False)
    found = np.array([camera.shoot(world, pose=above(3.0), seed=s).colour[..., 0] for s in range(16)], np.float64)
    mean, deviation = found.mean(axis=0), found.std(axis=0, ddof=1)
    low, high = mean.min(), mean.max()
    share = (mean - low) / (high - low)
    edge = (share > 0.2) & (share < 0.8)
    assert edge.sum() > 20
    binomial = (high - low) * np.sqrt(share * (1.0 - share) / 8.0)
    assert np.sqrt(np.mean(deviation[edge] ** 2)) < 0.7 * np.sqrt(np.mean(binomial[edge] ** 2))


def test_a_camera_warns_once_where_the_renderer_s_noise_dominates() -> None:
    camera = ph.Camera("generic/vga", width=64, samples=4, truth=())
    world = ph.World.load("warehouse")
    with pytest.warns(GrainWarning, match="with samples=4, the noise of the renderer is"):
        camera.shoot(world, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        camera.shoot(world, seed=2)
        # A card in the open needs few samples.
        ph.Camera("generic/vga", width=64, samples=64, bounces=0, truth=()).shoot(flat(), pose=above(5.0), seed=1)


def test_the_denoiser_is_used_where_it_is_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    assert denoises(True)
    assert not denoises(False)
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    assert not denoises("auto")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: object())
    assert denoises("auto")
    with pytest.raises(ConfigError, match="denoise: must be true, false or auto"):
        ph.Camera("generic/vga", denoise="often")  # type: ignore[arg-type]
