"""Forests against the figures that their rule names."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pytest

from chance import deviations
from parhelion.core.errors import ConfigError
from parhelion.world.procedural.countryside import forest, winding_track
from parhelion.world.procedural.footprints import along_line, to_line
from parhelion.world.procedural.layout import Layout
from parhelion.world.procedural.relief import height_field


@lru_cache(maxsize=1)
def wood() -> Layout:
    return forest((120.0, 90.0), density_per_ha=700.0, roughness_m=1.2, seed=3)


def items(kind: str) -> tuple[np.ndarray, np.ndarray, list]:
    """Places (n, 3), sizes (n, 3) and parameters of one kind."""
    found = [item for item in wood().objects if item.kind == kind]
    return np.array([t.pose.xyz for t in found]), np.array([t.size for t in found]), [t.params for t in found]


def beside(xy: np.ndarray) -> np.ndarray:
    track = next(item for item in wood().objects if item.kind == "terrain").params.track  # type: ignore[union-attr]
    return to_line(xy, along_line(np.array(track), 2.0))[0]


def test_numbers_follow_the_area() -> None:
    """700 trees a hectare, 25 boulders and 120 bushes, on 1.08 hectares."""
    counts = [len(items(kind)[0]) for kind in ("tree", "rock", "bush", "terrain")]
    assert counts == [756, 27, 130, 1]
    plan = wood()
    assert plan.viewpoint is not None
    assert plan.viewpoint.xyz == (0.0, 0.0, 1.8)
    assert plan.drive is not None
    assert (plan.drive.speed_m_s, plan.drive.height_m) == (3.0, 1.6)
    assert (plan.ways[0].width_m, plan.size) == (3.2, (120.0, 90.0))
    ends = [point[0] for point in plan.drive.points]
    assert (min(ends), max(ends)) == (-58.0, 58.0)


def test_trees_have_the_measures_of_the_rule() -> None:
    place, size, params = items("tree")
    height = size[:, 2]
    assert np.all((height > 5.0) & (height < 22.0))
    # Beta(2, 2.5) has the mean 2 / 4.5 and the variance 5 / (4.5^2 5.5).
    error = 17.0 * np.sqrt(5.0 / (4.5**2 * 5.5) / len(height))
    assert height.mean() == pytest.approx(5.0 + 17.0 * 2.0 / 4.5, abs=deviations() * error)
    radius = np.array([one.trunk_radius_m for one in params])
    over = radius - 0.012 * height
    assert np.all((over > -6e-4) & (over < 0.0506))
    assert over.mean() == pytest.approx(0.025, abs=deviations() * 0.05 / np.sqrt(12 * len(over)))
    conifer = np.array([one.species == "conifer" for one in params])
    # In patches: the wave over the plan moves the chance by 0.3 to either side of 0.35.
    assert 0.05 < conifer.mean() < 0.65
    crown, clear = size[:, 0] / height, np.array([one.clear_trunk_share for one in params])
    np.testing.assert_array_equal(size[:, 0], size[:, 1])
    rounding = 0.005 / height
    for mask, crowns, trunks in ((conifer, (0.22, 0.3), (0.05, 0.25)), (~conifer, (0.3, 0.45), (0.25, 0.45))):
        assert np.all((crown >= crowns[0] - rounding)[mask] & (crown <= crowns[1] + rounding)[mask])
        assert np.ptp(crown[mask]) > 0.9 * (crowns[1] - crowns[0])
        free = mask & (beside(place[:, :2]) - size[:, 0] / 2 >= 1.8)
        assert np.all((clear >= trunks[0] - 0.0051)[free] & (clear <= trunks[1] + 0.0051)[free])
        assert np.ptp(clear[free]) > 0.9 * (trunks[1] - trunks[0])
    # Crowns over the track begin at 3.4 m or more.
    above = beside(place[:, :2]) - size[:, 0] / 2 < 1.8
    assert above.sum() > 5
    assert np.all((clear * height)[above] >= 3.4 - 1e-9)
    assert len({one.seed for one in params}) == len(params)


def test_nothing_is_too_near_to_anything() -> None:
    places, radii = [], []
    for kind in ("tree", "rock", "bush"):
        place, size, params = items(kind)
        places.append(place[:, :2])
        radii.append(np.array([one.trunk_radius_m for one in params]) if kind == "tree" else size[:, 0] / 2)
    gap = {0: 1.1 - 2 * radii[0].max(), 1: 0.1, 2: 0.05}
    for kind in range(3):
        xy, radius = places[kind], radii[kind]
        assert np.all(np.abs(xy) + radius[:, None] <= [60.0, 45.0])
        assert np.all(np.abs(xy) <= [60.0 - 1.2, 45.0 - 1.2])
        assert np.all(beside(xy) > 1.6 + 0.9 + radius)
        for other in range(kind + 1):
            apart = np.linalg.norm(xy[:, None] - places[other], axis=-1) - radius[:, None] - radii[other]
            if other == kind:
                np.fill_diagonal(apart, np.inf)
            assert apart.min() >= gap[kind] - 1e-9
    # They come close to all of these limits.
    assert (np.abs(places[0]) > [57.0, 42.0]).any(axis=0).all()
    assert beside(places[0]).min() < 3.2


def test_objects_stand_in_the_ground_a_little() -> None:
    field = height_field(next(item for item in wood().objects if item.kind == "terrain"))
    for kind in ("tree", "rock", "bush"):
        place, size, _ = items(kind)
        sink = 0.25 * size[:, 2] if kind == "rock" else 0.05
        np.testing.assert_allclose(place[:, 2], field.at(place[:, 0], place[:, 1]) - sink, atol=6e-4)


def test_boulders_and_bushes_have_the_measures_of_the_rule() -> None:
    for kind, across, flat in (("rock", (0.3, 1.8), (0.5, 0.9)), ("bush", (0.5, 1.6), (0.6, 1.1))):
        _, size, _ = items(kind)
        assert np.all((size[:, 0] >= across[0]) & (size[:, 0] <= across[1]))
        share = size[:, 2] / size[:, 0]
        assert np.all((share >= flat[0] - 0.02) & (share <= flat[1] + 0.02))
        np.testing.assert_array_equal(size[:, 0], size[:, 1])
    rock, bush = items("rock")[1][:, 0], items("bush")[1][:, 0]
    # Beta(1.2, 3) has the mean 1.2 / 4.2 and the variance 3.6 / (4.2^2 5.2).
    error = 1.5 * np.sqrt(3.6 / (4.2**2 * 5.2) / len(rock))
    assert rock.mean() == pytest.approx(0.3 + 1.5 * 1.2 / 4.2, abs=deviations() * error)
    assert bush.mean() == pytest.approx(1.05, abs=deviations() * 1.1 / np.sqrt(12 * len(bush)))
    assert np.ptp(bush) > 0.8


@pytest.mark.parametrize(("length", "width"), [(80.0, 80.0), (20.0, 20.0), (400.0, 30.0), (61.0, 300.0)])
def test_tracks_wind_along_x_through_the_origin(length: float, width: float) -> None:
    for seed in range(5):
        track = np.array(winding_track(np.random.default_rng(seed), length, width))
        assert len(track) == 2 * (max(8, round(length / 2)) // 2) + 1
        assert track[[0, -1], 0].tolist() == [-length / 2, length / 2]
        assert track[len(track) // 2].tolist() == [0.0, 0.0]
        assert np.abs(track[:, 1]).max() <= width / 2 - 5.0 + 1e-3
        # Two waves, each with an amplitude of 0.13 periods at most: slopes below 2 pi 0.13 each.
        slope = np.abs(np.diff(track[:, 1]) / np.diff(track[:, 0]))
        assert slope.max() < 2 * 2 * np.pi * 0.13
        # The second derivative of either is below (2 pi / period)^2 of its amplitude.
        long, short = 1.1 * max(length, 40.0), 0.47 * max(length, 40.0)
        heights = min(0.24 * width, 0.13 * long), min(0.07 * width, 0.13 * short)
        most = sum(h * (2 * np.pi / p) ** 2 for h, p in zip(heights, (long, short), strict=True))
        step = track[1, 0] - track[0, 0]
        bend = np.abs(np.diff(track[:, 1], 2)) / step**2
        assert 0.1 * most * min(1.0, (width / 2 - 5) / sum(heights)) < bend.max() < most + 4e-3


@pytest.mark.slow
def test_the_grid_is_coarser_in_large_forests() -> None:
    for size, cell in (((80.0, 80.0), 0.5), ((300.0, 300.0), 0.8)):
        ground = forest(size, density_per_ha=0.0, seed=1).objects[0]
        assert ground.params.cell_m == cell  # type: ignore[union-attr]
        assert ground.params.track_width_m == 3.2  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("name", "low", "high"), [("density_per_ha", 0.0, 1500.0), ("roughness_m", 0.0, 8.0)],
)  # fmt: skip
def test_limits(name: str, low: float, high: float) -> None:
    for good in (low, int(high) if name == "roughness_m" else 10):
        forest((20.0, 20.0), seed=1, **{"density_per_ha": 0.0, name: good})
    for bad in (low - 0.01, high + 0.01, np.nan, True, "much"):
        with pytest.raises(ConfigError, match=f"forest: {name}: must be a number from"):
            forest((20.0, 20.0), seed=1, **{name: bad})
    for size in ((19.9, 20.0), (20.0, 1000.1), 20.0):
        with pytest.raises(ConfigError, match="forest: size_m"):
            forest(size)  # type: ignore[arg-type]
