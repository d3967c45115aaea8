"""Strengths of rows from cells of rows and bins."""

from __future__ import annotations

import numpy as np

from chance import deviations
from parhelion.calibrate.drive.overlap_errors import strengths

RANDOM = np.random.default_rng(4)


def cells(of_rows: np.ndarray, of_bins: np.ndarray, shared: np.ndarray, sigma: float) -> tuple[np.ndarray, ...]:
    """Levels of rows in the bins that they share, with noise."""
    bins, rows = np.nonzero(shared)
    value = of_rows[rows] + of_bins[bins] + RANDOM.normal(0.0, sigma, len(rows))
    return value, np.full(len(rows), sigma**2), bins, rows


def test_rows_that_share_all_bins_are_their_means() -> None:
    """Least squares reduces to the mean over bins, with the error of a mean."""
    true, levels = RANDOM.normal(0.0, 0.2, 24), RANDOM.normal(0.0, 1.0, 16)
    value, variance, bins, rows = cells(true, levels, np.ones((16, 24), bool), 0.01)
    found = strengths(value, variance, bins, rows, 16, 24)
    means = np.array([value[rows == k].mean() for k in range(24)])
    np.testing.assert_allclose(found.factor, means - means.mean(), atol=2e-4)
    np.testing.assert_allclose(np.sqrt(np.diag(found.covariance)), 0.01 / 4.0 * np.sqrt(23 / 24), rtol=0.02)
    off = (found.factor - true + true.mean()) / np.sqrt(np.diag(found.covariance))
    assert np.abs(off).max() < deviations(24)


def test_equal_rows_are_found_equal() -> None:
    value, variance, bins, rows = cells(np.zeros(24), RANDOM.normal(0.0, 1.0, 16), np.ones((16, 24), bool), 0.02)
    found = strengths(value, variance, bins, rows, 16, 24)
    assert np.abs(found.factor).max() < 0.5 * 0.02  # noise of one row's mean is 0.005
    assert found.deviation <= 0.008


def test_a_row_alone_in_its_bins_is_unknown() -> None:
    """Its strength and the levels of its bins are degenerate: it keeps the prior, with the spread of rows as error."""
    true = RANDOM.normal(0.0, 0.2, 24)
    shared = np.zeros((20, 24), bool)
    shared[:16, 1:] = True
    shared[16:, 0] = True
    value, variance, bins, rows = cells(true, np.zeros(20), shared, 0.01)
    found = strengths(value, variance, bins, rows, 20, 24)
    error = np.sqrt(np.diag(found.covariance))
    assert found.likeness < 0.5
    assert 0.12 < error[0] < 0.35
    # The isolated row moves the overall mean by a share of its own error; the others are well known relatively.
    np.testing.assert_allclose(np.diff(found.factor[1:]), np.diff(true[1:]), atol=deviations(23) * 0.01 / 4 * 1.5)


def test_an_unshared_row_takes_after_its_neighbours() -> None:
    """A slow variation over the rows: the row that shares no bin lies between its neighbours."""
    true = 0.2 * np.sin(np.arange(32) / 5.0)
    shared = np.ones((12, 32), bool)
    shared[:, 20] = False
    value, variance, bins, rows = cells(true, np.zeros(12), shared, 0.002)
    found = strengths(value, variance, bins, rows, 12, 32)
    assert found.likeness >= 0.9
    assert abs(found.factor[20] - 0.5 * (found.factor[19] + found.factor[21])) < 0.01
    assert np.sqrt(found.covariance[20, 20]) > 5.0 * np.sqrt(found.covariance[19, 19])


def test_scatter_beyond_the_errors_widens_them() -> None:
    true = RANDOM.normal(0.0, 0.2, 24)
    value, variance, bins, rows = cells(true, np.zeros(16), np.ones((16, 24), bool), 0.03)
    widened, honest = (strengths(value, part, bins, rows, 16, 24) for part in (variance / 9.0, variance))
    np.testing.assert_allclose(np.diag(widened.covariance), np.diag(honest.covariance), rtol=0.1)


def test_scatter_is_divided_by_its_degrees_of_freedom() -> None:
    """With all cells and a weak prior this is a two-way table: (bins - 1) (rows - 1) degrees of freedom."""
    bins, rows = (one.ravel() for one in np.mgrid[:4, :6])
    value = np.random.default_rng(8).normal(0.0, 0.1, 24)
    found = strengths(value, np.full(24, 1e-4), bins, rows, 4, 6, law=(100.0, 0.0))
    table = value.reshape(4, 6)
    off = table - table.mean(axis=0) - table.mean(axis=1, keepdims=True) + table.mean()
    variance = np.sum(off**2) / (3 * 5)
    np.testing.assert_allclose(np.diag(found.covariance), variance / 4 * (5 / 6), rtol=1e-4)
    np.testing.assert_allclose(found.factor, table.mean(axis=0) - table.mean(), atol=1e-6)
