"""Distances between clouds against closed forms and brute force."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError
from parhelion.evaluate.clouds.distances import (
    chamfer,
    earth_mover,
    kolmogorov_smirnov,
    nearest_distances,
    wasserstein,
)


def grid(side: int, step: float) -> np.ndarray:
    axes = np.arange(side) * step
    return np.stack(np.meshgrid(axes, axes, axes), axis=-1).reshape(-1, 3)


def test_chamfer_of_a_shifted_grid_is_twice_the_shift() -> None:
    points = grid(6, 1.0)
    assert chamfer(points, points + np.array([0.25, 0.0, 0.0])) == pytest.approx(0.5, abs=1e-12)
    assert chamfer(points, points) == 0.0


def test_chamfer_counts_each_side_by_its_own_points() -> None:
    """One point against two: mean 1 there, mean (1 + 3) / 2 back (Huang 2023, eq. 25, distances not squared)."""
    assert chamfer([[0.0, 0, 0]], [[1.0, 0, 0], [3.0, 0, 0]]) == pytest.approx(1.0 + 2.0)


def test_nearest_distances_equal_those_of_all_pairs() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(size=(300, 3)), rng.normal(size=(200, 3)) * [1, 5, 0.1]
    brute = np.linalg.norm(a[:, None] - b[None], axis=2).min(axis=1)
    np.testing.assert_allclose(nearest_distances(a, b), brute, rtol=0, atol=1e-12)


def test_coincident_points_have_a_distance() -> None:
    assert chamfer(np.zeros((5, 3)), np.ones((2, 3))) == pytest.approx(2 * np.sqrt(3))


def test_earth_mover_is_the_best_of_all_assignments() -> None:
    rng = np.random.default_rng(2)
    a, b = rng.normal(size=(6, 3)), rng.normal(size=(6, 3))
    best = min(np.linalg.norm(a - b[list(order)], axis=1).sum() for order in itertools.permutations(range(6)))
    found = earth_mover(a, b)
    assert found.exact
    assert found.sum_m == pytest.approx(best, abs=1e-12)
    assert found.mean_m == pytest.approx(best / 6, abs=1e-12)


def test_earth_mover_of_a_shift_is_the_shift_exactly_and_by_slices() -> None:
    points = np.random.default_rng(3).uniform(size=(500, 3))
    shift = np.array([3.0, -2.0, 1.0])
    exact, sliced = earth_mover(points, points + shift), earth_mover(points, points + shift, exact_points=10)
    assert exact.mean_m == pytest.approx(np.linalg.norm(shift), rel=1e-9)
    assert not sliced.exact
    assert sliced.mean_m == pytest.approx(np.linalg.norm(shift), rel=0.01)


def test_sliced_distance_is_a_lower_bound() -> None:
    rng = np.random.default_rng(4)
    a, b = rng.normal(size=(400, 3)), rng.normal(size=(400, 3)) * [2.0, 0.5, 1.0]
    assert earth_mover(a, b, exact_points=1).mean_m <= earth_mover(a, b).mean_m


def test_clouds_of_two_sizes_are_moved_by_shares() -> None:
    """One point of weight 1 to two of weight 1/2 each, 1 m and 3 m away: 2 m."""
    found = earth_mover([[0.0, 0, 0]], [[1.0, 0, 0], [3.0, 0, 0]])
    try:
        import ot  # noqa: F401
    except ImportError:
        assert not found.exact
    else:
        assert found.exact
        assert found.mean_m == pytest.approx(2.0)


def test_wasserstein_and_ks_of_uniform_samples() -> None:
    u = (np.arange(1000) + 0.5) / 1000
    assert wasserstein(u, u + 0.3) == pytest.approx(0.3)
    assert kolmogorov_smirnov(u, u + 0.3) == pytest.approx(0.3, abs=2e-3)
    # [0, 1] against [0, 2]: quantiles x and 2x, on average 1/2 apart; the distributions 1/2 at x = 1.
    assert wasserstein(u, 2 * u[::2]) == pytest.approx(0.5, abs=2e-3)
    assert kolmogorov_smirnov(u, 2 * u) == pytest.approx(0.5, abs=2e-3)


def test_wasserstein_and_ks_equal_those_of_scipy() -> None:
    from scipy import stats

    rng = np.random.default_rng(5)
    a, b = rng.gamma(2.0, size=300), rng.gamma(3.0, size=170).round(1)
    assert wasserstein(a, b) == pytest.approx(stats.wasserstein_distance(a, b), rel=1e-12)
    assert kolmogorov_smirnov(a, b) == pytest.approx(stats.ks_2samp(a, b).statistic, rel=1e-12)


def test_empty_clouds_and_clouds_of_nan_are_rejected() -> None:
    some = np.zeros((2, 3))
    for nothing in (np.zeros((0, 3)), np.full((2, 3), np.nan)):
        with pytest.raises(ConfigError, match="second cloud: the cloud is empty"):
            chamfer(some, PointCloud(nothing))
    with pytest.raises(ConfigError, match="shape"):
        chamfer(some, np.zeros((3, 2)))
