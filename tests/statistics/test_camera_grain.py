"""Monte Carlo noise of the renderer: stratified samples, guided directions, and the warning about it."""

from __future__ import annotations

import warnings
from dataclasses import fields
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from camera_rigs import BRIGHT, DARK, above, camera_sheet, flat
from parhelion.core.errors import ConfigError
from parhelion.rays.device import engine
from parhelion.sensors.optics.camera import device, guide
from parhelion.sensors.optics.camera.denoise import Layers, filtered, method_of
from parhelion.sensors.optics.camera.path import RenderDraws
from parhelion.sensors.optics.camera.shot import GrainWarning

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


def test_a_guide_follows_the_light() -> None:
    # All light in one bin: a quarter of 95 % of the draws after spreading to the neighbours, and its part of the rest.
    bright = 7 * guide.AZIMUTHS + 5
    made = guide.Guide.of(engine(), (1, 1), np.full(128, bright), np.ones(128))
    share = np.diff(made.cumulative.numpy())
    assert share[bright] == pytest.approx(0.95 / 4.0 + 0.05 / guide.BINS, abs=1e-6)
    assert share[bright + 1] == pytest.approx(0.95 / 8.0 + 0.05 / guide.BINS, abs=1e-6)
    assert share[bright + guide.AZIMUTHS + 1] == pytest.approx(0.95 / 16.0 + 0.05 / guide.BINS, abs=1e-6)
    assert np.sort(share)[: guide.BINS - 9] == pytest.approx(0.05 / guide.BINS, abs=1e-6)


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
    camera = ph.Camera("generic/vga", width=64, samples=4, truth=(), denoise="none")
    world = ph.World.load("warehouse")
    with pytest.warns(GrainWarning, match="with samples=4, the noise of the renderer is"):
        camera.shoot(world, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        camera.shoot(world, seed=2)
        # A card in the open needs few samples.
        ph.Camera("generic/vga", width=64, samples=64, bounces=0, truth=()).shoot(flat(), pose=above(5.0), seed=1)


def test_denoise_settings_select_a_method() -> None:
    assert method_of("auto", developed=True) == "filter"
    assert method_of("auto", developed=False) == "none"
    assert [method_of(one, developed=True) for one in (True, False)] == ["oidn", "none"]
    with pytest.raises(ConfigError, match="denoise: must be auto, filter, oidn or none, got 'often'"):
        ph.Camera("generic/vga", denoise="often")  # type: ignore[arg-type]


def test_the_filter_reduces_noise_and_keeps_the_mean() -> None:
    """Filtered pictures of 8 samples against the mean of 16 unfiltered pictures of 64 samples."""
    world = room()
    reference = shots(world, 16, samples=64)
    mean = reference.mean(axis=0)
    plain, smooth = (shots(world, 8, denoise=one) for one in ("none", "filter"))
    dim = mean < 5.0  # without the opening itself
    errors = [np.sqrt(np.mean((one - mean)[:, dim] ** 2)) for one in (plain, smooth)]
    assert errors[1] < 0.5 * errors[0]
    # Mean over the room: 5 % of bias in addition to four standard errors of the unfiltered pictures.
    levels = plain[:, dim].mean(axis=1)
    allowed = 4.0 * levels.std(ddof=1) / np.sqrt(8.0) + 0.05 * mean[dim].mean()
    assert abs(smooth[:, dim].mean() - mean[dim].mean()) < allowed


def test_light_behind_a_pane_is_filtered_as_well() -> None:
    """A dim room seen through its window: the few paths that leave it again would be bright dots."""
    world = room()
    corners = [[6.05, y, z] for y, z in ((-0.75, 1.0), (0.75, 1.0), (0.75, 2.5), (-0.75, 2.5))]
    world.add((np.array(corners), np.array([[0, 1, 2], [0, 2, 3]])), material="glass")
    camera = camera_sheet(48, 48, fx=60.0)
    pose = ph.Pose((9.0, 0.0, 1.75), rpy_deg=(0.0, 0.0, 180.0))

    def seen(method: str) -> Array:
        options: dict[str, Any] = {"samples": 8, "bounces": 1, "truth": (), "developed": False, "denoise": method}
        one = ph.Camera(camera, **options)
        return np.array([one.shoot(world, pose=pose, seed=k).colour[12:36, 12:36, 0] for k in range(8)], np.float64)

    rough, smooth = seen("none"), seen("filter")
    noise = [np.sqrt(np.mean(one.var(axis=0, ddof=1))) for one in (rough, smooth)]
    # The opening covers 1.5 m x 60 px / 2.95 m = 30 pixels, so all of these are behind glass. Averages over ten
    # neighbours of the same surface leave a tenth of the noise power.
    assert noise[1] < 0.32 * noise[0]
    error = noise[0] / np.sqrt(rough.size)
    assert smooth.mean() == pytest.approx(rough.mean(), abs=4.0 * error + 0.02 * rough.mean())


def test_the_sun_behind_a_pane_is_counted_once() -> None:
    """Shadow rays find the sun through panes, so paths that meet its disc there by chance must not count it again."""
    world = flat(BRIGHT)
    world.daylight = ph.Daylight(sun_elevation_deg=60)
    corners = np.array([[-30.0, -30.0, 4.0], [30.0, -30.0, 4.0], [30.0, 30.0, 4.0], [-30.0, 30.0, 4.0]])
    world.add((corners, np.array([[0, 1, 2], [0, 2, 3]])), material="glass")
    camera = ph.Camera(camera_sheet(64, 48, fx=60.0), samples=64, bounces=1, truth=(), developed=False)
    light = np.asarray(camera.shoot(world, pose=above(2.0), seed=3).colour[..., 0], np.float64)
    # The disc covers 2e-5 of the cosine-weighted directions: 4 of these 196 608 paths would meet it, each 700 times as
    # bright as the mean of the 64 samples of its pixel.
    assert light.max() < 1.5 * np.median(light)


def flat_layers(side: int, indirect: Array, **other: Any) -> Layers:
    """Layers of a plane of reflectance 0.5 that faces the camera at 10 m, without direct light."""
    size = side * side
    row, column = np.divmod(np.arange(size), side)
    ones, zeros = np.ones(size), np.zeros(size)
    place = [10.0 * ones, 0.01 * column, 0.01 * row]
    values = {
        "direct": [zeros], "variance": ones * 0.01, "indirect": [indirect], "reflected": [0.5 * ones],
        "normal": [-ones, zeros, zeros], "place": place, "square": sum(v * v for v in place), "direct_variance": zeros,
    }  # fmt: skip
    return Layers(**{**values, **other})


def test_the_filter_keeps_uniform_light_texture_and_edges() -> None:
    side, noise = 48, np.random.default_rng(7).normal(scale=0.1, size=48 * 48)
    column = np.arange(side * side) % side
    texture = np.where(column % 2 == 0, 0.2, 0.8)
    options: dict[str, Any] = {"pixel_rad": 0.001, "samples": 8}
    same = flat_layers(side, texture * 2.0, reflected=[texture])
    assert np.allclose(filtered(same, side, side, **options)[0][0], texture * 2.0)
    rough = filtered(flat_layers(side, 1.0 + noise), side, side, **options)
    assert rough[0][0].std() < 0.15 * noise.std()
    assert rough[0][0].mean() == pytest.approx(1.0 + noise.mean(), abs=0.01)
    # Two walls that meet at a right angle do not exchange light.
    left = column < side // 2
    corner = flat_layers(
        side, np.where(left, 1.0, 3.0), normal=[np.where(left, -1.0, 0.0), np.where(left, 0.0, -1.0), 0.0 * noise],
        variance=np.ones(side * side),
    )  # fmt: skip
    assert np.allclose(filtered(corner, side, side, **options)[0][0], np.where(left, 1.0, 3.0), rtol=1e-4)


def test_kernels_and_numpy_filter_alike() -> None:
    side = 32
    noise = np.random.default_rng(8).normal(scale=0.1, size=side * side)
    layers = flat_layers(side, 1.0 + noise)
    e = engine()

    def on_device(value: Any) -> Any:
        return [e.table(one.astype(np.float32)) for one in value] if isinstance(value, list) else e.table(value)

    there = Layers(**{one.name: on_device(getattr(layers, one.name)) for one in fields(Layers)})
    options: dict[str, Any] = {"pixel_rad": 0.001, "samples": 8}
    expected, found = filtered(layers, side, side, **options), filtered(there, side, side, engine=e, **options)
    assert np.allclose(np.asarray(found[0][0]), expected[0][0], rtol=1e-4)
    assert np.allclose(np.asarray(found[1]), expected[1], rtol=1e-3)
