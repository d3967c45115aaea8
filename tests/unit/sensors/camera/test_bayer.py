"""Colour filters and the colours between them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.rays.device import engine
from parhelion.sensors.optics.camera.electronics import PATTERNS, demosaic, mosaic, quad_largest

WIDTH, HEIGHT = 14, 10
PIXEL = np.arange(WIDTH * HEIGHT, dtype=np.uint32)
ROW, COLUMN = (PIXEL // WIDTH).astype(float), (PIXEL % WIDTH).astype(float)


@pytest.mark.parametrize("pattern", PATTERNS)
def test_a_pattern_names_the_colours_of_two_rows(pattern: str) -> None:
    colours = [np.full(PIXEL.shape, value) for value in (1.0, 2.0, 3.0)]
    seen = mosaic(*colours, PIXEL, WIDTH, pattern).reshape(HEIGHT, WIDTH)
    assert "".join("?RGB"[int(v)] for v in seen[:2, :2].ravel()) == pattern
    assert np.array_equal(seen[2:], seen[:-2])
    assert np.array_equal(seen[:, 2:], seen[:, :-2])


@pytest.mark.parametrize("method", ["malvar", "bilinear"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_flat_colours_come_back_to_the_edges(pattern: str, method: str) -> None:
    colours = [np.full(PIXEL.shape, value) for value in (10.0, 20.0, 35.0)]
    raw = mosaic(*colours, PIXEL, WIDTH, pattern)
    inside = inner(1 if method == "bilinear" else 2)
    found = demosaic(raw, PIXEL, WIDTH, HEIGHT, pattern, method)
    for wanted, got in zip(colours, found, strict=True):
        # Malvar's correction is the curvature of the pixel's own colour, which is 0 here, at mirrored edges too.
        assert got == pytest.approx(wanted, abs=1e-12)
        assert got[inside] == pytest.approx(wanted[inside], abs=1e-12)


@pytest.mark.parametrize("method", ["malvar", "bilinear"])
@pytest.mark.parametrize("pattern", PATTERNS)
def test_grey_gradients_come_back(pattern: str, method: str) -> None:
    grey = 100.0 + 3.0 * COLUMN - 5.0 * ROW
    raw = mosaic(grey, grey, grey, PIXEL, WIDTH, pattern)
    inside = inner(2)
    for got in demosaic(raw, PIXEL, WIDTH, HEIGHT, pattern, method):
        assert got[inside] == pytest.approx(grey[inside], abs=1e-10)


def test_the_largest_of_each_quad() -> None:
    raw = np.arange(15.0)  # 5 columns, 3 rows
    pixel = np.arange(15, dtype=np.uint32)
    assert quad_largest(raw, pixel, 5, 3).tolist() == [6, 6, 8, 8, 9, 6, 6, 8, 8, 9, 11, 11, 13, 13, 14]


def test_malvar_by_hand() -> None:
    """One bright pixel: the filters of the paper, in eighths."""
    raw = np.zeros(PIXEL.shape)
    raw[4 * WIDTH + 6] = 8.0  # red in RGGB
    red, green, blue = (p.reshape(HEIGHT, WIDTH) for p in demosaic(raw, PIXEL, WIDTH, HEIGHT, "RGGB"))
    at = np.s_[2:7, 4:9]
    assert green[at].tolist() == [
        [0, 0, -1, 0, 0], [0, 0, 0, 0, 0], [-1, 0, 4, 0, -1], [0, 0, 0, 0, 0], [0, 0, -1, 0, 0],
    ]  # fmt: skip
    assert red[at].tolist() == [
        [0, 0, 0, 0, 0], [0, 2, 4, 2, 0], [0, 4, 8, 4, 0], [0, 2, 4, 2, 0], [0, 0, 0, 0, 0],
    ]  # fmt: skip
    assert blue[at].tolist() == [
        [0, 0, -1.5, 0, 0], [0, 0, 0, 0, 0], [-1.5, 0, 6, 0, -1.5], [0, 0, 0, 0, 0], [0, 0, -1.5, 0, 0],
    ]  # fmt: skip


def test_kernels_give_the_same() -> None:
    raw = (ROW * 37 + COLUMN * 11) % 64
    e = engine()
    host = demosaic(raw, PIXEL, WIDTH, HEIGHT, "GRBG")
    made = demosaic(e.table(raw.astype(np.float32)), e.counting(len(raw)), WIDTH, HEIGHT, "GRBG")
    for a, b in zip(host, made, strict=True):
        assert np.array_equal(a, b.numpy())  # small whole numbers and eighths are exact


def test_unknown_names_are_reported() -> None:
    with pytest.raises(ConfigError, match="demosaic"):
        demosaic(ROW, PIXEL, WIDTH, HEIGHT, "RGGB", "best")
    with pytest.raises(ConfigError, match="Bayer"):
        mosaic(ROW, ROW, ROW, PIXEL, WIDTH, "RRGB")


def inner(border: int) -> Any:
    """Pixels at least so far from the edge."""
    far_down = (border <= ROW) & (HEIGHT - border > ROW)
    return far_down & (border <= COLUMN) & (WIDTH - border > COLUMN)
