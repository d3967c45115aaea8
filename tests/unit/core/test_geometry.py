"""Directions over the sphere."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.core.geometry import fibonacci_sphere, unit


def test_a_fibonacci_sphere_is_even() -> None:
    found = fibonacci_sphere(2000)
    assert np.linalg.norm(found, axis=1) == pytest.approx(1.0)
    assert np.abs(found[:, 2]).mean() == pytest.approx(0.5, rel=1e-3)
    # Second moments of an even distribution are 1/3 of the unit matrix.
    assert found.T @ found / len(found) == pytest.approx(np.eye(3) / 3.0, abs=1e-3)
    nearest = np.sort(found @ found.T, axis=1)[:, -2]
    spacing = np.sqrt(4.0 * np.pi / len(found))
    assert np.degrees(np.arccos(nearest)).min() > 0.8 * np.degrees(spacing)


def test_the_first_half_of_a_fibonacci_sphere_is_the_upper_hemisphere() -> None:
    found = fibonacci_sphere(200)
    assert np.all(found[:100, 2] > 0.0)
    assert np.all(found[100:, 2] < 0.0)
    with pytest.raises(ValueError, match="read-only"):
        found[0] = 0.0


def test_vectors_without_a_length_stay_zero() -> None:
    direction, length = unit(np.array([[3.0, 0.0, 4.0], [0.0, 0.0, 0.0]]))
    assert direction.tolist() == [[0.6, 0.0, 0.8], [0.0, 0.0, 0.0]]
    assert length.tolist() == [5.0, 0.0]
