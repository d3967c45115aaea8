"""Overlap curve with errors, from a frame whose curve, rows and constant are known."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.calibrate.drive.overlap import Overlap, overlap
from parhelion.calibrate.drive.overlap_errors import _unexplained, with_errors
from parhelion.calibrate.range_images import RangeImage
from pins import check

ROWS, COLUMNS, CONSTANT, FULL_M = 8, 512, 8000.0, 9.0
STRENGTH = 1.0 + 0.1 * np.sin(np.arange(ROWS))


def frame() -> RangeImage:
    """Walls at 2 to 18 m, integer percents and photons, and an overlap (R / 9 m)^1.5."""
    column, row = np.arange(COLUMNS), np.arange(ROWS)[:, None]
    metres = 2.0 + 7.0 * (1.0 - np.cos(2.0 * np.pi * (column + 20 * row) / COLUMNS)) + 0.3 * row
    percent = np.rint(20.0 + 15.0 * np.sin(column / 9.0) + 10.0 * np.cos(row))
    share = np.minimum(metres / FULL_M, 1.0) ** 1.5
    scatter = np.exp(np.random.default_rng(11).normal(0.0, 0.02, metres.shape))
    photons = np.floor(CONSTANT * STRENGTH[:, None] * percent / 100.0 * share / metres**2 * scatter)
    none, never = np.full(metres.shape, np.nan), np.zeros(metres.shape, bool)
    return RangeImage("made", metres, photons, percent, none, never, never, np.linspace(10, -10, ROWS), 0.03)


@pytest.fixture(scope="module")
def found() -> Overlap:
    return with_errors(frame(), overlap(frame()))


def test_constant_rows_and_curve_are_those_of_the_frame(found: Overlap) -> None:
    assert abs(found.constant - CONSTANT * np.exp(np.log(STRENGTH).mean())) < 3.0 * found.constant_error
    assert found.row_error is not None
    rows = STRENGTH / np.exp(np.log(STRENGTH).mean())
    assert np.all(np.abs(found.row_factor - rows) < 3.0 * found.row_error)
    true = np.minimum(found.range / FULL_M, 1.0) ** 1.5
    assert np.mean((found.low < true) & (true < found.high)) > 0.5
    assert found.plateau_m[0] == pytest.approx(FULL_M, abs=0.5)


def test_the_numbers_of_the_curve(found: Overlap) -> None:
    names = ("range", "share", "low", "high", "count", "plain", "row_factor", "row_error", "constant", "constant_error")
    values = {name: getattr(found, name) for name in (*names, "plateau_m", "open_m")}
    # SciPy's optimisers stop at slightly different places: 1.12 and 1.17 differ by 1e-5.
    check("calibrate/overlap-with-errors", rel=1e-4, **values)


def test_scatter_that_errors_do_not_explain() -> None:
    """Levels alternate by ±d on equal steps: off = 2 d, off² / (1.5 (v + m)) = 0.455."""
    centre, d, v = np.arange(9.0), 0.02, 1e-4
    level = d * (-1.0) ** np.arange(9)
    more = _unexplained(centre, level, np.full(9, v))
    assert more == pytest.approx((2.0 * d) ** 2 / (0.455 * 1.5) - v, rel=1e-6)
    assert _unexplained(centre, level, np.full(9, 0.01)) == 0.0
    assert _unexplained(centre[:4], level[:4], np.full(4, v)) == 0.0
    assert _unexplained(centre[:5], level[:5], np.full(5, v)) == pytest.approx(more, rel=1e-6)
    # Steps of different length: the neighbours count by their distances, 3/4 and 1/4.
    apart = np.array([0.0, 1.0, 4.0, 5.0, 8.0, 9.0, 12.0])
    assert _unexplained(apart, 0.1 * apart, np.full(7, 1e-9)) == 0.0
