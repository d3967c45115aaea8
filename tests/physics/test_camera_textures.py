"""Colours of textures as a camera sees them, and the grey value that a lidar goes on seeing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from PIL import Image

import parhelion as ph
from camera_rigs import above, camera_sheet
from parhelion.surfaces.texture import linear_srgb, load_colour_texture

# Two by two, no two channels alike.
COLOURS = np.array([[[255, 128, 30], [20, 200, 90]], [[70, 10, 250], [180, 180, 40]]], np.uint8)
CORNERS = ((0.5, -0.5), (-0.5, -0.5), (0.5, 0.5), (-0.5, 0.5))


def ground(texture: Any) -> ph.World:
    world = ph.World()
    options = {} if texture is None else {"texture": texture}
    world.add(ph.shapes.plane(4, 4), material="lambert-80", **options)
    return world


def factors(texture: Any, *bands: str) -> NDArray[np.float64]:
    """Factor of the texture on the light of each pixel, shape (h, w, bands): the world's y runs left, its x runs up."""
    config = camera_sheet(40, 40, fx=40.0, sensor={"bands": list(bands)})
    camera = ph.Camera(config, samples=1, bounces=0, developed=False, truth=())
    plain, shown = (camera.shoot(ground(one), pose=above(3.9), seed=1).colour for one in (None, texture))
    return np.asarray(shown / plain, np.float64)


def middles(picture: NDArray[np.float64]) -> NDArray[np.float64]:
    """The middles of the four texels, in rows of the texture: its row 0 is at +y, which is left."""
    a, b = 9, 30
    return np.array([[picture[b, a], picture[a, a]], [picture[b, b], picture[a, b]]])


def test_sRGB_is_undone() -> None:
    light = linear_srgb(np.array([0, 10, 11, 128, 188, 255], np.uint8))
    assert light == pytest.approx([0.0, 10 / 255 / 12.92, 0.003347, 0.215861, 0.502886, 1.0], abs=1e-6)


def test_bands_see_their_channel() -> None:
    # Eight texels for one, so that their neighbours do not blend into the middle.
    texture = np.kron(COLOURS, np.ones((8, 8, 1), np.uint8))
    seen = middles(factors(texture, "red", "green", "blue", "mono", "nir"))
    light = linear_srgb(COLOURS).astype(float)
    assert seen[..., :3] == pytest.approx(light, abs=0.02)
    assert seen[..., 3] == pytest.approx(light @ [0.2126, 0.7152, 0.0722], abs=0.02)
    assert seen[..., 4] == pytest.approx(COLOURS[..., 0] / 255.0, abs=0.02)


def test_grey_arrays_are_factors_in_every_band() -> None:
    texture = np.kron(COLOURS[..., 1] / 255.0, np.ones((8, 8)))
    seen = middles(factors(texture, "red", "green", "blue", "mono", "nir"))
    for band in range(5):
        assert seen[..., band] == pytest.approx(COLOURS[..., 1] / 255.0, abs=0.02)


def test_texels_are_blended() -> None:
    """Two texels: light changes linearly from the middle of one to the middle of the other."""
    seen = factors(np.array([[1.0, 0.2]], np.float32), "red")[..., 0].mean(axis=1)
    # Up is +x, along which u runs: from the top, the second texel comes first.
    rows = np.arange(12, 28)
    want = 0.2 + 0.8 * (rows - 9.5) / 20.0
    assert np.abs(seen[rows] - want).max() < 0.04


def test_the_lidar_sees_the_red_channel_as_before(tmp_path: Path) -> None:
    Image.fromarray(COLOURS).save(tmp_path / "colour.png")
    Image.fromarray(COLOURS[..., 0]).save(tmp_path / "grey.png")
    grey, colours = load_colour_texture(tmp_path / "colour.png")
    assert np.array_equal(grey, load_colour_texture(tmp_path / "grey.png")[0])
    assert colours is not None
    assert np.array_equal(colours, COLOURS)
    assert load_colour_texture(tmp_path / "grey.png")[1] is None
    scans = [
        ph.Lidar("velodyne/vlp-16").scan(ground(tmp_path / name), pose=ph.Pose((0, 0, 1.5), rpy_deg=(0, 60, 0)), seed=3)
        for name in ("colour.png", "grey.png")
    ]
    assert len(scans[0].xyz) > 500
    assert scans[0].intensity.tobytes() == scans[1].intensity.tobytes()


def test_colours_survive_saving_and_forgetting(tmp_path: Path) -> None:
    world = ground(COLOURS)
    world.save(tmp_path / "world.yaml")
    again = ph.World.load(tmp_path / "world.yaml")
    assert np.array_equal(again.texture_colours[0], COLOURS)
    assert np.array_equal(again.textures[0], world.textures[0])
    floats = ground(COLOURS / 255.0)
    assert np.array_equal(floats.texture_colours[0], COLOURS)
    assert not ground(COLOURS[..., 0]).texture_colours


# ---- the image circle ----------------------------------------------------------------------------------------------


def test_pixels_beyond_the_image_circle_are_black() -> None:
    lens = {"kind": "fisheye", "fx": 30.0, "image_circle_deg": 120.0}
    camera = ph.Camera(camera_sheet(100, 80, lens=lens), samples=1, noise=False)
    image = camera.shoot(ground(None), pose=above(0.5), seed=1)
    rows, columns = np.indices((80, 100))
    angle = np.hypot(columns - 49.5, rows - 39.5) / 30.0
    beyond = angle > np.radians(60.0)
    assert 0.2 < beyond.mean() < 0.8
    assert image.colour[beyond].max() == 0
    assert image.colour[~beyond].min() > 0
    assert image.depth is not None
    assert image.label is not None
    assert np.isinf(image.depth[beyond]).all()
    assert np.isfinite(image.depth[~beyond]).all()
    assert image.label[beyond].max() == 0
    _, inside = camera.project([[1.0, 1.7, 0.0], [1.0, 1.76, 0.0]])
    assert inside.tolist() == [True, False]
