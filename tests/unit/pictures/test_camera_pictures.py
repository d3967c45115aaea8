"""Pictures of images: colours of depth and masks, points over a picture, thumbnails."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parhelion import pictures
from parhelion.core.errors import ConfigError
from parhelion.core.image import Image
from parhelion.pictures.camera import image_panels, thumbnail

GREY = np.full((20, 30, 3), 100, np.uint8)


def test_points_are_where_they_should_be_and_near_ones_on_top() -> None:
    uv = np.array([[10.0, 5.0], [10.2, 5.1], [29.4, 19.4], [-3.0, 5.0], [np.nan, 1.0]])
    out = pictures.points_over(GREY, uv, np.array([50.0, 2.0, 9.0, 3.0, 4.0]), size=1, light=0.5, limits=(2.0, 50.0))
    changed = {tuple(place) for place in np.argwhere(np.any(out != 50, axis=2)).tolist()}
    assert changed == {(5, 10), (19, 29)}
    red, _, blue = out[5, 10].astype(int)
    assert red > blue + 50  # the near point
    assert GREY.max() == 100  # the original picture is unchanged
    assert np.array_equal(pictures.points_over(Image(GREY), np.zeros((0, 2)), np.zeros(0), light=1.0), GREY)
    with pytest.raises(ConfigError, match="uv must have shape"):
        pictures.points_over(GREY, np.zeros((2, 3)), np.zeros(2))


def test_a_large_point_at_the_edge_stays_within() -> None:
    out = pictures.points_over(GREY, np.array([[0.0, 0.0], [29.0, 19.0]]), np.array([1.0, 2.0]), size=3, light=1.0)
    assert np.count_nonzero(np.any(out != 100, axis=2)) == 8


def test_depth_is_light_where_near_and_dark_where_nothing_is() -> None:
    depth = np.array([[1.0, 10.0, 100.0, np.inf, np.nan]], np.float32)
    out = pictures.depth_colours(depth, (1.0, 100.0)).astype(int).sum(axis=2)[0]
    assert out[0] > out[1] > out[2] > out[3] == out[4]


def test_a_thermal_picture_is_spread_over_what_is_there() -> None:
    pixels = np.linspace(30_000, 30_400, 600).reshape(20, 30).astype(np.uint16)
    out = pictures.image_colours(Image(pixels, ("thermal",))).astype(int).sum(axis=2)
    assert out[0, 0] < 30
    assert out[-1, -1] > 600


def test_masks_have_the_colours_of_their_words() -> None:
    names = {1: "car", 2: "road"}
    out = pictures.label_colours_of(np.array([[0, 1], [2, 1]], np.uint16), names)
    assert out[0, 1].tolist() == out[1, 1].tolist() == [0x4A, 0xA3, 0xFF]
    assert out[1, 0].tolist() == [0x6E, 0x76, 0x86]
    assert out[0, 0].max() < 30


def test_thumbnails_average_the_picture_and_thin_the_truth() -> None:
    colour = np.zeros((41, 61), np.uint16)
    colour[:, ::2] = 1000
    label = np.arange(41 * 61, dtype=np.uint16).reshape(41, 61)
    small = thumbnail(Image(colour, label=label, depth=np.ones((41, 61))), 20)
    assert (small.width, small.height) == (15, 10)
    assert small.colour[2, 3] == 500
    assert small.label is not None
    assert small.label[0, 0] == label[2, 2]
    assert thumbnail(Image(GREY), 100).colour.shape == GREY.shape
    assert thumbnail(Image(np.zeros((1, 50), np.uint8)), 10).height == 1


@pytest.mark.slow
def test_a_sheet_shows_all_that_is_there(tmp_path: Path) -> None:
    rng = np.random.default_rng(1)
    image = Image(
        GREY, right=GREY, depth=rng.uniform(1, 9, (20, 30)), normal=np.zeros((20, 30, 3)),
        label=np.ones((20, 30)), instance=np.ones((20, 30)), names={"label": {1: "car"}},
    )  # fmt: skip
    assert [title.split(",")[0] for title, _ in image_panels(image)] == [
        "picture", "right picture", "depth", "normals", "labels", "instances"
    ]  # fmt: skip
    pictures.draw_image(image, tmp_path / "sheet.png")
    assert (tmp_path / "sheet.png").stat().st_size > 5000
    with pytest.raises(ConfigError, match="must end in"):
        pictures.draw_image(image, tmp_path / "sheet.txt")
