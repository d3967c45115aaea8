"""Colours of points with their legends, and the point selected by a click."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.core.errors import ConfigError
from parhelion.live.viewer.colours import Ramp, Swatches, colour_choices, paint, ramp, rgb
from parhelion.live.viewer.panel import legend_html
from parhelion.live.viewer.session import nearest_to_ray


def cloud_of(n: int = 100, **fields: Any) -> ph.PointCloud:
    xyz = np.random.default_rng(3).normal(size=(n, 3)) * 10
    return ph.PointCloud(xyz, fields, names={"origin": dict(enumerate(ORIGINS))})


def test_numbers_follow_their_map_and_missing_ones_are_grey() -> None:
    values = np.linspace(0.0, 50.0, 100, dtype=np.float32)
    values[7] = np.nan
    painted = paint(cloud_of(range=values), "range", limits=(0.0, 50.0))
    table = ramp("viridis_r")
    assert painted.colours.dtype == np.uint8
    np.testing.assert_array_equal(painted.colours[0], table[0])
    np.testing.assert_array_equal(painted.colours[-1], table[255])
    np.testing.assert_array_equal(painted.colours[50], table[round(255 * values[50] / 50.0)])
    np.testing.assert_array_equal(painted.colours[7], rgb("#6b7480"))


@settings(deadline=None, max_examples=30)
@given(st.floats(0.0, 1.0), st.sampled_from(["intensity", "ring"]))
def test_a_legend_names_the_value_of_its_colour(share: float, field: str) -> None:
    cloud = cloud_of(2, **{field: np.array([3.0, 11.0], np.float32)})
    legend = paint(cloud, field, limits=(3.0, 11.0)).legend
    assert isinstance(legend, Ramp)
    value = legend.value_at(share)
    again = paint(cloud.with_fields(**{field: np.array([value, value])}), field, limits=(3.0, 11.0)).colours[0]
    table = ramp("inferno" if field == "intensity" else "viridis").astype(int)
    assert np.abs(table[round(share * 255)] - again).max() <= 6  # one step of the map


def test_lightness_of_every_ramp_only_rises_or_only_falls() -> None:
    for name in ("inferno", "magma", "viridis", "viridis_r", "cividis"):
        # Luma: perceived weights of red, green and blue.
        light = ramp(name).astype(float) @ (0.299, 0.587, 0.114)
        steps = np.diff(light[::8])
        assert (steps > 0).all() or (steps < 0).all()


def test_coded_fields_have_one_colour_a_word_and_a_legend_by_number() -> None:
    origin = np.array([0] * 60 + [1] * 30 + [4] * 10, dtype=np.uint8)
    painted = paint(cloud_of(origin=origin), "origin")
    assert isinstance(painted.legend, Swatches)
    assert [(word, count) for word, _, count in painted.legend.rows] == [("surface", 60), ("rain", 30), ("dust", 10)]
    assert len(np.unique(painted.colours, axis=0)) == 3
    np.testing.assert_array_equal(painted.colours[0], rgb(painted.legend.rows[0][1]))


def test_every_origin_has_a_colour_of_its_own() -> None:
    painted = paint(cloud_of(len(ORIGINS), origin=np.arange(len(ORIGINS))), "origin")
    assert len(np.unique(painted.colours, axis=0)) == len(ORIGINS)


def test_unknown_labels_differ_from_their_neighbours() -> None:
    painted = paint(cloud_of(40, label=np.arange(200, 240)), "label")
    apart = np.abs(np.diff(painted.colours.astype(int), axis=0)).sum(axis=1)
    assert apart.min() > 60


def test_choices_and_wrong_ones() -> None:
    cloud = cloud_of(ring=np.zeros(100, np.uint16), velocity=np.zeros((100, 3)), custom=np.zeros(100))
    assert colour_choices(cloud) == ["range", "height", "ring", "custom"]
    with pytest.raises(ConfigError, match="did you mean 'ring'"):
        paint(cloud, "rings")
    red = np.tile(np.array([255, 0, 0], np.uint8), (100, 1))
    np.testing.assert_array_equal(paint(cloud_of(rgb=red), "rgb").colours, red)


def test_clouds_without_points_or_spread_are_painted() -> None:
    empty = ph.PointCloud(np.zeros((0, 3)), {"label": np.zeros(0, np.uint16), "ring": np.zeros(0, np.uint16)})
    for field in ("label", "ring", "height"):
        assert paint(empty, field).colours.shape == (0, 3)
    assert paint(cloud_of(intensity=np.full(100, 7.0)), "intensity").colours.shape == (100, 3)


def test_words_of_files_cannot_become_markup() -> None:
    cloud = ph.PointCloud(np.zeros((1, 3)), {"label": np.array([1])}, names={"label": {1: "<script>alert(1)</script>"}})
    text = legend_html(paint(cloud, "label").legend)
    assert "<script>" not in text
    assert "&lt;script&gt;" in text


# ---- picking -------------------------------------------------------------------------------------------------------


@settings(deadline=None, max_examples=40)
@given(st.integers(0, 499), st.floats(-0.2, 0.2), st.floats(-0.2, 0.2))
def test_a_click_on_a_point_picks_it(row: int, aside: float, up: float) -> None:
    """Check against the definition: no other point has a smaller angle, except points at the same position."""
    xyz = np.random.default_rng(5).uniform((20, -20, -20), (60, 20, 20), (500, 3))
    eye = np.array([-10.0, 3.0, 5.0])
    direction = xyz[row] - eye + (0.0, aside, up)
    picked = nearest_to_ray(xyz, eye, direction)
    to = (xyz - eye) / np.linalg.norm(xyz - eye, axis=1, keepdims=True)
    angle = np.degrees(np.arccos(np.clip(to @ (direction / np.linalg.norm(direction)), -1, 1)))
    assert picked is not None
    assert angle[picked] <= angle.min() + 0.05 + 1e-6


def test_points_behind_and_far_from_the_click_are_not_picked() -> None:
    xyz = np.array([[10.0, 0, 0], [-10.0, 0, 0], [20.0, 0.001, 0]])
    assert nearest_to_ray(xyz, (0, 0, 0), (1, 0, 0)) == 0  # in front of the one behind it
    assert nearest_to_ray(xyz, (0, 0, 0), (-1, 0, 0)) == 1
    assert nearest_to_ray(xyz, (0, 0, 0), (0, 0, 1)) is None
    assert nearest_to_ray(xyz[:0], (0, 0, 0), (1, 0, 0)) is None
