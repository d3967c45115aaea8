"""Streaks against the formulas of one drop, and the layers that they make."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from camera_rigs import expected_count
from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.rays.device import engine
from parhelion.sensors.optics.camera import lattice as drops_module
from parhelion.sensors.optics.camera.lattice import CELL_M, drops_in_cells, particle_classes
from parhelion.sensors.optics.camera.streaks import (
    Streaks,
    _cells_in_view,
    _in_picture,
    _near_view,
    capsules,
    drawn_area,
    farthest_m,
    layer_of,
    project_plain,
    reaches,
    streaks_of,
    vane_blend,
    view_steradian,
    with_layer,
)
from parhelion.weather.media.rain import drop_diameter, drops_per_m3, terminal_velocity
from pins import check, even

LENS = Intrinsics(320, 240, 300.0, 300.0, 159.5, 119.5)
RAIN = ph.Weather(rain_rate_mm_h=25, seed=3)
AHEAD = ph.Pose((0.0, 0.0, 2.0))


def one(start: tuple[float, float], end: tuple[float, float], width_px: float, **changes: Any) -> Streaks:
    """A single streak at 5 m."""
    ones = np.ones(1)
    fields = {
        "start": np.array([start]), "end": np.array([end]), "depth_m": 5.0 * ones, "width_px": width_px * ones,
        "blur_px": 0.0 * ones, "cover": ones, "brightness": ones, "inside": ones > 0,
    }  # fmt: skip
    return Streaks(**{**fields, **changes})


# ---- drops ---------------------------------------------------------------------------------------------------------


def test_number_and_size_of_drops() -> None:
    assert drops_per_m3(1.0) == 172.0
    assert drops_per_m3(25.0) == pytest.approx(349.2, abs=0.1)
    assert drop_diameter(1.0) == 0.75e-3
    assert drop_diameter(25.0) == pytest.approx(1.4744e-3, rel=1e-4)


@pytest.mark.parametrize(
    ("diameter_mm", "measured_m_s"), [(0.5, 2.06), (1.0, 4.03), (2.0, 6.49), (3.0, 8.06), (4.0, 8.83), (5.0, 9.09)]
)
def test_fall_speed_against_gunn_and_kinzer(diameter_mm: float, measured_m_s: float) -> None:
    assert terminal_velocity(1e-3 * diameter_mm) == pytest.approx(measured_m_s, rel=0.07)


def test_mist_does_not_fall_up() -> None:
    assert terminal_velocity(np.array([1e-5, 1e-4])).tolist() == [0.0, 0.0]


def test_what_falls() -> None:
    here = np.zeros(3)
    assert particle_classes(ph.Weather(), 0.0, here) == []
    (vane,) = particle_classes(RAIN, 0.0, here, "vane")
    assert vane.number_per_m3 == pytest.approx(349.2, abs=0.1)
    assert vane.velocity_m_s[2] == pytest.approx(-terminal_velocity(1.4744e-3), rel=1e-4)
    physical = particle_classes(RAIN, 0.0, here)
    # Marshall and Palmer above 0.5 mm: (8000 / L) exp(-0.5 L), L = 4.1 R^-0.21.
    slope = 4.1 * 25**-0.21
    assert sum(kind.number_per_m3 for kind in physical) == pytest.approx(8000 / slope * np.exp(-slope / 2), rel=1e-3)
    windy = particle_classes(RAIN.replace(wind_m_s=(3.0, -1.0, 0.0)), 0.0, here, "vane")[0]
    assert windy.velocity_m_s == (3.0, -1.0, vane.velocity_m_s[2])
    snow = particle_classes(ph.Weather(snow_rate_mm_h=1), 0.0, here)
    assert all(kind.velocity_m_s == (0.0, 0.0, -1.0) and kind.cover == 0.6 for kind in snow)
    with pytest.raises(ConfigError, match="model of streaks"):
        particle_classes(RAIN, 0.0, here, "fast")


def test_cells_of_rain_thin_it_out() -> None:
    cells = ph.Weather(rain={"rate_mm_h": 25, "cells": {"scale_m": 100.0, "contrast": 0.8}}, seed=1)
    places = np.random.default_rng(0).uniform(-2000, 2000, (40, 3))
    numbers = [particle_classes(cells, 0.0, place, "vane")[0].number_per_m3 for place in places]
    assert max(numbers) > 349.2 > min(numbers)


def test_drops_move_by_their_velocity() -> None:
    (kind,) = particle_classes(RAIN.replace(wind_m_s=(2.0, 0.0, 0.0)), 0.0, np.zeros(3), "vane")
    cells = np.array([[0, 0, 0], [5, -3, 1]])
    before, after = (drops_in_cells(kind, 7, cells, time) for time in (100.0, 100.01))
    step = after.xyz - before.xyz
    same = np.abs(step - 0.01 * before.velocity_m_s).max(axis=1) < 1e-9
    # The others came in again on the other side: those within 0.01 s times the spread of a face of their cell.
    assert same.mean() > 1.0 - 3 * 0.01 * 0.15 * 6.0 / CELL_M
    jump = np.abs(step - 0.01 * before.velocity_m_s)[~same]
    assert np.all(np.isclose(jump, CELL_M, atol=1e-6) | (jump < 1e-6))
    share = before.velocity_m_s / np.array([2.0, 1.0, -terminal_velocity(drop_diameter(25.0))])
    assert np.all((share[:, 0] > 0.85) & (share[:, 0] < 1.15) & (share[:, 2] > 0.85) & (share[:, 2] < 1.15))
    assert np.all(before.velocity_m_s[:, 1] == 0.0)


def test_cells_are_drawn_alike_alone_and_together(monkeypatch: pytest.MonkeyPatch) -> None:
    (kind,) = particle_classes(RAIN, 0.0, np.zeros(3), "vane")
    cells = np.array([[0, 0, 0], [-1, 2, 3]])
    both = drops_in_cells(kind, 7, cells, 3.0)
    alone = [drops_in_cells(kind, 7, cells[k : k + 1], 3.0) for k in (0, 1)]
    assert np.array_equal(both.xyz, np.concatenate([part.xyz for part in alone]))
    monkeypatch.setattr(drops_module, "_FEW", 10**9)  # all by NumPy
    assert np.array_equal(both.xyz, drops_in_cells(kind, 7, cells, 3.0).xyz)
    assert not np.array_equal(both.xyz[:5], drops_in_cells(kind, 8, cells, 3.0).xyz[:5])


# ---- the view ------------------------------------------------------------------------------------------------------


def test_how_far_drops_are_drawn() -> None:
    assert farthest_m(600.0, 1.4744e-3) == pytest.approx(600 * 1.4744e-3 / 0.02)
    kinds = particle_classes(RAIN, 0.0, np.zeros(3), "vane")
    assert reaches(kinds, LENS, 1e12) == [pytest.approx(300 * float(drop_diameter(25.0)) / 0.02)]
    volume = LENS.width * LENS.height / 300.0**2 * (reaches(kinds, LENS, 1e12)[0] ** 3 - 0.1**3) / 3
    assert expected_count(kinds, LENS, 1e12) == pytest.approx(kinds[0].number_per_m3 * volume)
    assert expected_count(kinds, LENS, 5000) == pytest.approx(5000)


def test_view_of_a_fisheye() -> None:
    # A whole hemisphere: radius pi / 2 times the focal length.
    fisheye = Intrinsics(401, 401, 400 / np.pi, 400 / np.pi, 200.0, 200.0, model="equidistant")
    square = view_steradian(fisheye)
    assert 2 * np.pi < square < 4 * np.pi
    points = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 2.0], [0.0, -1.0, 1.0]])
    assert project_plain(points, fisheye) == pytest.approx(np.array([[400, 200], [200, 200], [200, 100]]), abs=1e-9)
    found = streaks_of(RAIN, fisheye, AHEAD, 0.0, 0.005, most=500)
    assert len(found) > 300


def test_length_and_width_of_streaks() -> None:
    found = streaks_of(RAIN, LENS, AHEAD, 2.0, 0.004, model="vane", most=3000)
    assert found.width_px == pytest.approx(300.0 * float(drop_diameter(25.0)) / found.depth_m, rel=1e-12)
    # Level camera, no wind: all fall straight down, at 0.85 to 1.15 of the terminal velocity.
    speed = found.length_px * found.depth_m / (300.0 * 0.004)
    terminal = float(terminal_velocity(drop_diameter(25.0)))
    assert np.all((speed > 0.85 * terminal) & (speed < 1.15 * terminal))
    assert np.abs(found.end[:, 0] - found.start[:, 0]).max() < 1e-9
    assert np.all(found.end[:, 1] > found.start[:, 1])


def test_a_moving_camera_slants_streaks() -> None:
    ahead = replace(LENS, cx=159.5)
    still = streaks_of(RAIN, ahead, AHEAD, 0.0, 0.004, model="vane", most=2000)
    moved = streaks_of(RAIN, ahead, AHEAD, 0.0, 0.004, end_pose=ph.Pose((0.0, 0.04, 2.0)), model="vane", most=2000)
    # 0.04 m to the left: drops move to the right by f 0.04 / Z.
    shift = (moved.end[:, 0] - moved.start[:, 0]) * moved.depth_m
    assert shift == pytest.approx(np.full(len(moved), 300.0 * 0.04), rel=1e-9)
    assert len(still) > 1500


def test_drops_are_the_same_from_frame_to_frame() -> None:
    first, again = (streaks_of(RAIN, LENS, AHEAD, 1.0, 0.004, most=1000) for _ in range(2))
    assert all(np.array_equal(getattr(first, name), getattr(again, name)) for name in ("start", "end", "depth_m"))
    other = streaks_of(RAIN.replace(seed=4), LENS, AHEAD, 1.0, 0.004, most=1000)
    assert not np.array_equal(first.start[:10], other.start[:10])
    # The end of one exposure is the start of the next: nearly all drops are found again where they were left.
    later = streaks_of(RAIN, LENS, AHEAD, 1.004, 0.004, most=1000)
    gap = np.abs(first.end[:, None] - later.start[None]).max(axis=2).min(axis=1)
    assert np.mean(gap[first.inside] < 1e-6) > 0.9


def test_dry_air_has_no_streaks() -> None:
    found = streaks_of(ph.Weather(), LENS, AHEAD, 0.0, 0.01)
    assert len(found) == 0
    layer = layer_of(found, LENS.width, LENS.height)
    assert layer.share.max() == layer.mask.max() == 0.0
    with pytest.raises(ConfigError, match="above 0 s"):
        streaks_of(RAIN, LENS, AHEAD, 0.0, 0.0)


# ---- on the picture ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("start", "end", "width_px"),
    [((30.3, 20.2), (30.3, 60.9), 3.0), ((20.0, 30.0), (70.0, 44.0), 2.2), ((40.0, 40.0), (40.0, 40.0), 9.0),
     ((20.2, 20.7), (50.1, 51.3), 1.0)],
)  # fmt: skip
def test_capsules_keep_their_area(start: Any, end: Any, width_px: float) -> None:
    parts = list(capsules(np.array([start]), np.array([end]), np.array([width_px]), 100, 80))
    area = sum(part.coverage.sum() for part in parts)
    length = np.hypot(end[0] - start[0], end[1] - start[1])
    # The ramp of one pixel makes each of the two half discs larger by pi / 24, for any radius of a half or more.
    by_hand = width_px * length + 0.25 * np.pi * width_px**2 + np.pi / 12
    assert drawn_area(length, width_px) == pytest.approx(by_hand)
    # A ramp of one pixel, sampled along a diagonal, is off by up to 2 sinc(sqrt 2)^2 = 9 % where a line is one wide.
    diagonal = abs(end[0] - start[0]) > 0.9 * abs(end[1] - start[1]) > 1.0 and width_px == 1.0
    assert area == pytest.approx(drawn_area(length, width_px), rel=0.09 if diagonal else 0.01)
    assert len({*parts[0].pixel.tolist()}) == len(parts[0].pixel)


def test_thin_capsules_are_faint() -> None:
    line = [np.array([[30.0, 20.5]]), np.array([[30.0, 60.5]])]
    thick, thin = (next(capsules(*line, np.array([w]), 100, 80)) for w in (1.0, 0.1))
    assert thin.coverage == pytest.approx(0.1 * thick.coverage)


def test_capsules_beyond_the_edge() -> None:
    start, end = (
        np.array([[-50.0, 5.0], [95.0, 75.0], [-500.0, -500.0]]),
        np.array([[20.0, 5.0], [200.0, 300.0], [-490.0, -500.0]]),
    )
    parts = list(capsules(start, end, np.full(3, 3.0), 100, 80))
    pixel = np.concatenate([part.pixel for part in parts])
    assert pixel.min() >= 0
    assert pixel.max() < 8000
    assert set(np.concatenate([part.capsule for part in parts]).tolist()) == {0, 1}


def test_a_streak_takes_the_share_of_the_exposure_that_the_drop_is_there() -> None:
    # 4 pixels wide, 60 long: before a pixel on its way for the share pi 4^2 / 4 / (4 60 + pi 4^2 / 4 + pi / 12).
    layer = layer_of(one((50.0, 10.0), (50.0, 70.0), 4.0), 100, 80)
    share = layer.share.reshape(80, 100)
    assert share[40, 50] == pytest.approx(4 * np.pi / (240 + 4 * np.pi + np.pi / 12), rel=1e-5)
    assert layer.mask.reshape(80, 100)[40, 50] == 1.0
    # A drop that stands still hides what is behind, but for the ramp of its edge.
    assert layer_of(one((50.0, 40.0), (50.0, 40.0), 6.0), 100, 80).share.max() == pytest.approx(1.0, abs=0.01)


@pytest.mark.parametrize(("length", "width_px"), [(0.0, 0.1), (0.7, 0.1), (30.0, 0.3), (30.0, 2.5), (5.0, 8.0)])
def test_shares_of_a_drop_sum_up_to_its_disc(length: float, width_px: float) -> None:
    layer = layer_of(one((50.0, 30.0), (50.0 + 0.3 * length, 30.0 + length), width_px), 100, 80)
    # A spot thinner than a pixel is a cone of volume 1.047. Sampled in the middle of a pixel it sums up to 1.
    assert layer.share.sum() == pytest.approx(0.25 * np.pi * width_px**2, rel=0.05)


def test_a_flake_hides_in_proportion_to_what_it_covers_of_its_disc() -> None:
    whole, part = (
        layer_of(one((50.0, 30.0), (50.0, 50.0), 2.0, cover=np.array([cover])), 100, 80) for cover in (1.0, 0.25)
    )
    assert part.share == pytest.approx(0.25 * whole.share, rel=1e-6)
    assert np.array_equal(part.mask, whole.mask)


def test_defocus_spreads_the_same_light() -> None:
    sharp = layer_of(one((50.0, 30.0), (50.0, 50.0), 2.0), 100, 80)
    soft = layer_of(one((50.0, 30.0), (50.0, 50.0), 2.0, blur_px=np.array([8.0])), 100, 80)
    assert soft.share.max() < 0.5 * sharp.share.max()
    assert soft.share.sum() == pytest.approx(sharp.share.sum(), rel=0.03)


def test_streaks_behind_the_scene_are_not_seen() -> None:
    depth = np.full((80, 100), np.inf)
    depth[:, :50] = 4.0
    share = layer_of(one((10.0, 40.0), (90.0, 40.0), 3.0), 100, 80, depth).share.reshape(80, 100)
    assert share[:, :50].max() == 0.0
    assert share[:, 50:].max() > 0.0


def test_a_drop_takes_on_the_light_around_it() -> None:
    layer = layer_of(one((50.0, 40.0), (50.0, 40.0), 6.0, brightness=np.array([0.94])), 100, 80)
    planes = [np.full(8000, 10.0), np.full(8000, 20.0)]
    first, second = with_layer(planes, layer.share.astype(float), layer.light.astype(float), [100.0, 5.0])
    share = 9 * np.pi / (9 * np.pi + np.pi / 12)  # of a disc of 6 pixels, with its ramp
    assert first[40 * 100 + 50] == pytest.approx(10.0 + share * 84.0, rel=1e-5)
    assert second[40 * 100 + 50] == pytest.approx(20.0 - share * 15.3, rel=1e-5)
    assert first[0] == 10.0
    e = engine()
    made = with_layer([e.table(planes[0].astype(np.float32))], e.table(layer.share), e.table(layer.light), [100.0])
    assert made[0].numpy() == pytest.approx(first, rel=1e-6)


def test_vane_blend_by_hand() -> None:
    picture = np.full((5, 5), 0.2)
    mask = np.zeros((5, 5))
    assert np.array_equal(vane_blend(picture, mask), picture)
    mask[2, 2] = 1.0
    # I_b = 0.2 + 0.8 0.8 = 0.84 in the middle; the mean of 3 x 3 is (0.84 + 8 0.2) / 9.
    found = vane_blend(picture, mask)
    assert found[2, 2] == pytest.approx((0.84 + 1.6) / 9.0)
    found[2, 2] = 0.2
    assert found == pytest.approx(picture)
    bands = vane_blend(np.full((5, 5, 3), 10.0), mask, white=50.0)
    assert bands[2, 2] == pytest.approx(50.0 * (0.84 + 1.6) / 9.0)


def test_streaks_are_the_paths_of_drops_during_the_exposure() -> None:
    """Ends and centre of every streak, from the drops of the lattice at mid-exposure and their velocities."""
    rain, time, exposure = RAIN.replace(wind_m_s=(1.0, 2.0, 0.0)), 10.0, 0.02
    (kind,) = particle_classes(rain, time, AHEAD.xyz, "vane")
    found = streaks_of(rain, LENS, AHEAD, time, exposure, model="vane", most=200.0)
    assert len(found) > 100
    middle = time + 0.5 * exposure
    reach = np.ceil((reaches([kind], LENS, 200.0)[0] + 1.0) / CELL_M) + 1
    here = np.floor((AHEAD.xyz - np.asarray(kind.velocity_m_s) * middle) / CELL_M)
    steps = np.arange(-reach, reach + 1)
    cells = (here + np.stack(np.meshgrid(steps, steps, steps, indexing="ij"), axis=-1).reshape(-1, 3)).astype(np.int64)
    drops = drops_in_cells(kind, rain.seed, cells, middle)
    order = np.argsort(drops.xyz[:, 0])
    row = order[np.clip(np.searchsorted(drops.xyz[order, 0], found.depth_m - 1e-9), 0, len(order) - 1)]
    np.testing.assert_allclose(drops.xyz[row, 0], found.depth_m, atol=2e-9)
    for pixel, sign in ((found.start, -1.0), (found.end, 1.0)):
        x, y, z = (drops.xyz[row] + sign * 0.5 * exposure * drops.velocity_m_s[row] - AHEAD.xyz).T
        np.testing.assert_allclose(pixel, np.stack([159.5 - 300 * y / x, 119.5 - 300 * z / x], axis=1), atol=1e-5)
    np.testing.assert_allclose(found.width_px, 300.0 * drops.diameter_m[row] / found.depth_m, rtol=1e-9)


def test_typical_drops_are_the_geometric_mean_of_their_class() -> None:
    """The typical size sets the fall speed and the reach of a class; diameters of rain are those of the table."""
    (rain,) = RAIN.present(0.0)
    particles = rain.medium.effects.particles(rain.part, rain.amount)
    assert particles is not None
    edges = np.asarray(particles.edges_mm)
    middle = np.sqrt(edges[:-1] * np.minimum(edges[1:], particles.largest_typical_mm))
    kinds = particle_classes(RAIN, 0.0, np.zeros(3))
    np.testing.assert_allclose(
        [kind.typical_m for kind in kinds], particles.diameter_m(middle)[: len(kinds)], rtol=1e-12
    )
    falls = [-float(particles.speed_m_s(np.float64(kind.typical_m))) for kind in kinds]
    assert [kind.velocity_m_s[2] for kind in kinds] == pytest.approx(falls)


def test_capsules_cover_the_first_and_last_pixels() -> None:
    """A capsule along each edge, one pixel wide: the pixels of the edge are covered by half or more."""
    start = np.array([[0.0, 0.0], [0.0, 0.0], [9.0, 0.0], [0.0, 7.0]])
    end = np.array([[9.0, 0.0], [0.0, 7.0], [9.0, 7.0], [9.0, 7.0]])
    parts = list(capsules(start, end, np.full(4, 1.0), 10, 8))
    pixel, number = (np.concatenate([getattr(part, name) for part in parts]) for name in ("pixel", "capsule"))
    edges = [range(10), range(0, 80, 10), range(9, 80, 10), range(70, 80)]
    for which, edge in enumerate(edges):
        assert set(edge) <= set(pixel[number == which].tolist())
    assert (pixel.min(), pixel.max()) == (0, 79)


def test_cells_of_a_narrow_view_lie_near_its_cone() -> None:
    """Half of the diagonal is 33.6 degrees; no cell may lie farther from it than its own radius."""
    kind = particle_classes(RAIN, 0.0, AHEAD.xyz)[0]
    cells = _cells_in_view(kind, LENS, AHEAD, 30.0, 0.0, 0.0)
    away = (cells + 0.5) * kind.cell_m - AHEAD.xyz
    distance = np.linalg.norm(away, axis=1)
    radius = 0.5 * np.sqrt(3.0) * kind.cell_m
    far = distance > 2.0 * radius
    angle = np.arccos(away[far, 0] / distance[far])
    half = np.arctan(np.hypot(159.5 + 0.5, 119.5 + 0.5) / 300.0)
    assert far.any()
    assert np.all(angle < 1.2 * half + np.arcsin(radius / distance[far]))


def test_the_coarse_test_of_the_view_follows_its_edges() -> None:
    """15 % wider than the picture, and a margin in metres around it."""
    lens = Intrinsics(40, 20, 50.0, 25.0, 12.0, 13.0)
    limits = {0: (-12.5 / 50.0, 27.5 / 50.0), 1: (-13.5 / 25.0, 6.5 / 25.0)}
    for z in (0.5, 2.0):
        for axis, ends in limits.items():
            for sign, end in zip((-1.0, 1.0), ends, strict=True):
                edge = 1.15 * end * z + sign * 0.1
                point = np.zeros((2, 3))
                point[:, 2], point[:, axis] = z, (edge - sign * 1e-6, edge + sign * 1e-6)
                assert _near_view(point, lens, 3.0, 0.1).tolist() == [0], (z, axis, sign)
    deep = np.array([[0.0, 0.0, z] for z in (-0.01, 0.01, 3.0999, 3.1001)])
    assert _near_view(deep, lens, 3.0, 0.1).tolist() == [1, 2]
    fisheye = Intrinsics(40, 20, 50.0, 25.0, 12.0, 13.0, model="equidistant")
    around = 3.1 * np.array([[0.0, 0.0, -0.999], [0.999, 0.0, 0.0], [0.0, 1.001, 0.0], [0.6, 0.64, 0.48]])
    assert _near_view(around, fisheye, 3.0, 0.1).tolist() == [0, 1, 3]
    low = np.array([[-0.5, 0.0], [-0.6, 0.0], [39.4, 0.0], [39.5, 0.0], [3.0, -0.6], [3.0, 19.5], [3.0, 19.4]])
    assert _in_picture(low, low, lens, 0.0).tolist() == [True, False, True, False, False, False, True]
    assert _in_picture(low - 2.0, low, lens, 0.0).tolist() == [True, False, True, True, False, True, True]
    assert _in_picture(low - 3.0, low - 3.0, lens, 3.0).tolist() == [True, False, True, True, False, True, True]


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["pinhole", "fisheye", "snow"])
def test_numbers_of_streaks(kind: str) -> None:
    """Ends, depths, widths and layers of the drops of a moving camera: recorded."""
    lens = Intrinsics(64, 48, 50.0, 52.0, 30.0, 25.0)
    weather = ph.Weather(rain_rate_mm_h=40, wind_m_s=(3.0, -1.0, 0.0), seed=4)
    if kind == "fisheye":
        lens = Intrinsics(64, 48, 20.0, 21.0, 31.0, 23.0, model="equidistant")
    if kind == "snow":
        weather = ph.Weather(snow_rate_mm_h=3, seed=4)
    place, last = ph.Pose((1.0, 2.0, 3.0), rpy_deg=(3, 10, 40)), ph.Pose((1.05, 2.0, 3.0), rpy_deg=(3, 10, 41))
    for most in (40.0, 3e3):
        found = streaks_of(weather, lens, place, 0.7, 8e-3, end_pose=last, most=most, aperture_m=2e-3, focus_m=4.0)
        assert len(found.start) > 5
        behind = layer_of(found, 64, 48, np.full((48, 64), 1.0))
        whole = layer_of(found, 64, 48)
        check(
            f"camera/streaks-{kind}-{most:g}", rel=1e-6, **vars(found), share=even(whole.share),
            light=even(whole.light), mask=even(whole.mask), hidden=even(behind.share),
        )  # fmt: skip
