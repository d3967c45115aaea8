"""Patterns of materials: tiles, coordinates along surfaces and the levels of the mip map."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core.config import parse
from parhelion.core.errors import ConfigError
from parhelion.surfaces.library import material, material_names
from parhelion.surfaces.material import Material
from parhelion.surfaces.pattern import (
    LARGEST,
    LEVELS,
    SIDE,
    STAIN_SPREAD,
    TILE_WORDS,
    TILES,
    channels_at,
    level_of,
    packed_tile,
    stains,
    surface_coordinates,
    tile,
)


def read(words: np.ndarray, at: np.ndarray) -> np.ndarray:
    """First channel of words."""
    return (words[at] & 0xFFFF) * (LARGEST / 65535.0)


@pytest.mark.parametrize("kind", TILES)
def test_the_mean_of_a_mixture_is_that_of_the_material(kind):
    bright, share = tile(kind)
    assert bright.shape == share.shape == (SIDE, SIDE)
    assert 0.0 < bright.min() < bright.max() < LARGEST
    assert 0.0 <= share.min() <= share.max() <= 1.0
    packed = packed_tile(kind)
    for ratio in (0.3, 1.0, 4.0):
        first, second, rest = packed.mix(0.05, 0.05 * ratio)
        assert rest == 0.0  # dark surfaces have the full contrast
        assert np.mean(first * bright + second * bright * share) == pytest.approx(1.0, abs=1e-9)
        # The mixture is A ((1 - w) rho + w rho_2) / (rho m).
        expected = bright * (1.0 + (ratio - 1.0) * share)
        assert np.allclose(first * bright + second * bright * share, expected / expected.mean(), rtol=1e-9)


@pytest.mark.parametrize("kind", TILES)
def test_every_level_has_the_mean_of_the_tile(kind):
    packed = packed_tile(kind)
    assert len(packed.words) == TILE_WORDS
    start = 0
    for level in range(LEVELS):
        size = (SIDE >> level) ** 2
        mean = ((packed.words[start : start + size] & 0xFFFF) * (LARGEST / 65535.0)).mean()
        assert mean == pytest.approx(packed.mean, abs=LARGEST / 65535.0)
        start += size


def test_stains_have_mean_zero_and_unit_spread():
    assert stains().mean() == pytest.approx(0.0, abs=1e-9)
    assert stains().std() == pytest.approx(1.0, abs=1e-9)
    assert np.abs(stains()).max() < STAIN_SPREAD + 0.2


def test_bricks_have_the_module_of_the_standard():
    """DIN 4172: 8 bricks of 250 mm and 24 courses of 83.3 mm on 2 m, with joints of 10 mm."""
    _, share = tile("bricks")
    joints = share > 0.5
    rows = joints.all(axis=1)
    assert np.diff(np.flatnonzero(rows & ~np.roll(rows, 1))).mean() == pytest.approx(SIDE / 24, abs=0.5)
    course = joints[np.flatnonzero(~rows)[SIDE // 48]]
    assert int((course & ~np.roll(course, 1)).sum()) == 8
    bed = rows.mean()
    assert bed == pytest.approx(24 * 0.010 / 2.0, abs=24 / SIDE)


def test_coordinates_are_metres_along_any_surface():
    rng = np.random.default_rng(3)
    normal = rng.normal(size=(200, 3))
    normal /= np.linalg.norm(normal, axis=1, keepdims=True)
    normal = normal[np.abs(normal[:, 2]) < 0.89]
    start = rng.uniform(-50.0, 50.0, normal.shape)
    step = np.cross(normal, rng.normal(size=normal.shape))
    at, there = (np.stack(surface_coordinates(p.T, normal.T), axis=1) for p in (start, start + step))
    assert np.linalg.norm(there - at, axis=1) == pytest.approx(np.linalg.norm(step, axis=1), rel=1e-9)
    turned = np.stack(surface_coordinates(start.T, -normal.T), axis=1)
    assert turned == pytest.approx(at, abs=1e-9)  # the back of a surface has the same pattern


def test_courses_are_level_on_walls_and_streets_use_the_map():
    at = np.array([[3.0], [4.0], [5.0]])
    for heading in (0.0, 0.7, 2.0, 5.0):
        wall = np.array([[np.cos(heading)], [np.sin(heading)], [0.0]])
        assert surface_coordinates(at, wall)[1] == pytest.approx(5.0)
    u, v = surface_coordinates(at, np.array([[0.05], [0.02], [0.998]]))
    assert (u, v) == (pytest.approx(3.0), pytest.approx(4.0))


@pytest.mark.parametrize(
    ("footprint", "expected"), [(0.0, 0), (2.0 / SIDE, 0), (4.0 / SIDE, 1), (64.0 / SIDE, 5), (9.0, 9)]
)
def test_the_level_follows_the_footprint(footprint, expected):
    assert level_of(np.array([footprint]), np.array([2.0])) == expected


def test_lookup_reads_texel_centres_of_each_level():
    words = np.concatenate([np.zeros(TILE_WORDS, np.uint32), packed_tile("bricks").words])
    bright, _ = tile("bricks")
    rng = np.random.default_rng(1)
    column, row = rng.integers(0, SIDE, (2, 50))
    u, v = (column + 0.5) / SIDE + 7.0, 1.0 - (row + 0.5) / SIDE - 3.0
    zero = np.zeros(50, np.uint32)
    found = channels_at(u, v, zero, zero + TILE_WORDS, words, read)
    assert found == pytest.approx(bright[row, column], abs=LARGEST / 65535.0)
    coarse = channels_at(u, v, zero + LEVELS - 1, zero + TILE_WORDS, words, read)
    assert coarse == pytest.approx(1.0, abs=2e-4)


@pytest.mark.parametrize("name", [name for name in material_names() if material(name).pattern is not None])
def test_no_place_of_a_library_material_reflects_more_than_it_receives(name):
    one = material(name)
    assert one.pattern is not None
    packed, stain = packed_tile(one.pattern.kind), STAIN_SPREAD * one.pattern.stains
    second = material(one.pattern.second) if one.pattern.second else one
    for nm in (450.0, 550.0, 650.0, 905.0, 1550.0):
        first = one.reflectance_at(nm)
        a, b, c = packed.mix(first, second.reflectance_at(nm), stain)
        factor = a * packed.channels(1)[0] + b * packed.channels(1)[1] + c
        assert factor.min() > 0.0
        assert factor.mean() == pytest.approx(1.0, abs=1e-4)
        assert factor.max() * (1.0 + stain) * first < 1.0 + 1e-6, nm


def test_patterns_are_checked():
    fields = material("brick").model_dump()
    with pytest.raises(ConfigError, match=r"pattern\.period_m"):
        parse(Material, {**fields, "pattern": {"kind": "bricks", "period_m": 0.0}}, "material")
