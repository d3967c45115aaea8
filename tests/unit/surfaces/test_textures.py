"""Textures: red channel, row 0 at v = 1, tiling, nearest and bilinear, and the same in kernels."""

from __future__ import annotations

import numpy as np
import pytest
from PIL import Image

from parhelion.core.errors import ConfigError, FormatError
from parhelion.surfaces.texture import TextureAtlas, load_colour_texture, sample_texture

# Two rows, three columns; the top row is dark.
IMAGE = np.array([[0.0, 0.1, 0.2], [0.5, 0.6, 1.0]], np.float32)


@pytest.fixture
def atlas() -> TextureAtlas:
    return TextureAtlas.pack([IMAGE, np.full((4, 2), 0.25)])


def test_red_channel_over_255(tmp_path):
    pixels = np.array([[[255, 0, 7], [51, 255, 255]]], np.uint8)
    Image.fromarray(pixels).save(tmp_path / "colour.png")
    np.testing.assert_allclose(load_colour_texture(tmp_path / "colour.png")[0], [[1.0, 0.2]], rtol=1e-6)
    assert load_colour_texture(tmp_path / "colour.png")[0].dtype == np.float32


def test_grey_palette_and_alpha_images(tmp_path):
    grey = Image.fromarray(np.array([[0, 102]], np.uint8))
    for name, image in {"l": grey, "rgba": grey.convert("RGBA"), "p": grey.convert("RGB").convert("P")}.items():
        image.save(tmp_path / f"{name}.png")
        np.testing.assert_allclose(load_colour_texture(tmp_path / f"{name}.png")[0], [[0.0, 0.4]], atol=1e-6)


def test_image_errors_name_the_file(tmp_path):
    with pytest.raises(FormatError, match=r"none\.png: no such file"):
        load_colour_texture(tmp_path / "none.png")
    (tmp_path / "text.png").write_text("not an image")
    with pytest.raises(FormatError, match=r"text\.png: cannot be read as an image"):
        load_colour_texture(tmp_path / "text.png")
    Image.fromarray(np.zeros((2, 2), np.uint16)).save(tmp_path / "deep.png")
    with pytest.raises(FormatError, match=r"deep\.png: textures must have 8 bits"):
        load_colour_texture(tmp_path / "deep.png")
    Image.fromarray(np.zeros((64, 64), np.uint8)).save(tmp_path / "cut.png")
    (tmp_path / "cut.png").write_bytes((tmp_path / "cut.png").read_bytes()[:50])
    with pytest.raises(FormatError, match=r"cut\.png"):
        load_colour_texture(tmp_path / "cut.png")


def sample(atlas, u, v, texture, *, bilinear=False):
    """Values at texture coordinates (u, v) of the textures with these numbers, shape (n,)."""
    rows, u, v = np.asarray(texture), np.asarray(u, np.float64), np.asarray(v, np.float64)
    place = {name: getattr(atlas, name)[rows] for name in ("offset", "width", "height")}
    return np.asarray(sample_texture(u, v, texels=atlas.texels, **place, bilinear=bilinear), np.float64)


def test_image_row_0_is_at_v_1(atlas):
    u = np.array([1, 3, 5, 1, 3, 5]) / 6
    v = np.array([0.99, 0.99, 0.51, 0.01, 0.0, 0.49])
    np.testing.assert_allclose(sample(atlas, u, v, np.full(6, 1)), [0.0, 0.1, 0.2, 0.5, 0.6, 1.0], rtol=1e-6)


def test_number_0_is_white(atlas):
    assert len(atlas) == 3
    np.testing.assert_array_equal(sample(atlas, [0.3, -7.0], [0.9, 12.5], [0, 0]), 1.0)
    np.testing.assert_array_equal(sample(atlas, [0.3, -7.0], [0.9, 12.5], [2, 2], bilinear=True), 0.25)


@pytest.mark.parametrize("bilinear", [False, True])
def test_tiled_outside_the_unit_square(atlas, bilinear):
    rng = np.random.default_rng(3)
    u, v = rng.uniform(0.01, 0.99, (2, 200))
    inside = sample(atlas, u, v, np.ones(200, int), bilinear=bilinear)
    for du, dv in ((1, 0), (0, -1), (-3, 2), (40, -17)):
        np.testing.assert_allclose(
            sample(atlas, u + du, v + dv, np.ones(200, int), bilinear=bilinear), inside, atol=1e-9
        )


def test_bilinear_hits_centres_and_blends_between(atlas):
    one = np.array([1])
    for row in range(2):
        for column in range(3):
            u, v = (column + 0.5) / 3, 1 - (row + 0.5) / 2
            assert sample(atlas, [u], [v], one, bilinear=True)[0] == pytest.approx(IMAGE[row, column], abs=1e-6)
    assert sample(atlas, [1 / 3], [0.75], one, bilinear=True)[0] == pytest.approx(0.05, abs=1e-6)
    assert sample(atlas, [0.5], [0.5], one, bilinear=True)[0] == pytest.approx(0.35, abs=1e-6)
    # Across the edge the tile's other side takes part.
    assert sample(atlas, [0.0], [0.25], one, bilinear=True)[0] == pytest.approx(0.75, abs=1e-6)


def test_edges_stay_inside_their_own_texture(atlas):
    edges = np.array([0.0, 1.0, -1e-12, 1 - 1e-12, np.nextafter(1, 0)])
    u, v = (grid.ravel() for grid in np.meshgrid(edges, edges))
    for bilinear in (False, True):
        assert (sample(atlas, u, v, np.full(25, 2), bilinear=bilinear) == 0.25).all()


@pytest.mark.parametrize("bad", [np.zeros((2, 2, 3)), np.zeros((0, 4)), np.full((2, 2), 1.5), np.full((2, 2), np.nan)])
def test_atlas_refuses(bad):
    with pytest.raises(ConfigError, match="texture 1"):
        TextureAtlas.pack([bad])


@pytest.mark.parametrize("bilinear", [False, True])
def test_kernels_sample_the_same(atlas, bilinear):
    mi = pytest.importorskip("mitsuba")
    dr = pytest.importorskip("drjit")
    if mi.variant() is None:
        mi.set_variant("llvm_ad_rgb")
    rng = np.random.default_rng(5)
    u, v = rng.uniform(-3, 3, (2, 5000)).astype(np.float32)
    number = rng.integers(0, 3, 5000).astype(np.uint32)
    rows = mi.UInt32(number)
    kernel = sample_texture(
        mi.Float(u),
        mi.Float(v),
        texels=mi.Float(atlas.texels),
        offset=dr.gather(mi.UInt32, mi.UInt32(atlas.offset), rows),
        width=dr.gather(mi.UInt32, mi.UInt32(atlas.width), rows),
        height=dr.gather(mi.UInt32, mi.UInt32(atlas.height), rows),
        bilinear=bilinear,
    ).numpy()
    expected = sample(atlas, u, v, number, bilinear=bilinear)
    # Nearest may differ where float32 rounds across a texel's edge.
    assert np.mean(np.abs(kernel - expected) > 1e-5) < 0.001
