"""Pictures of free ground: colours by height, and the mark of the goal."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from parhelion.gym.env import BLOCKED, GOAL, HIGH, LOW, ground_image, map_picture


def slope() -> Any:
    """Ground of 101 by 60 cells of 0.5 m that rises from 10 to 12 m along x; one cell is blocked."""
    height = np.repeat(np.linspace(10.0, 12.0, 101)[:, None], 60, axis=1)
    free = np.ones(height.shape, bool)
    free[50, 0] = False
    return SimpleNamespace(height=height, low=np.zeros(2), cell_m=0.5, reachable=lambda: free)


def test_ground_is_coloured_by_its_height_and_y_points_up() -> None:
    image = ground_image(slope())
    assert image.shape == (60, 101, 3)
    for column, share in ((0, 0.0), (50, 0.5), (100, 1.0)):
        expected = (1.0 - share) * np.array(LOW) + share * np.array(HIGH)
        assert image[0, column] == pytest.approx(expected, abs=1.0)
    assert image[59, 50].tolist() == list(BLOCKED)


def test_the_goal_is_a_disc_of_visible_size() -> None:
    picture = np.asarray(map_picture(slope(), [], goal=(25.0, 15.0), longest=900))
    row, column = np.nonzero((picture == np.array(GOAL)).all(axis=2))
    # A radius of 0.9 % of 900 pixels with an outline of 2 pixels.
    assert np.pi * 5.0**2 < len(row) < np.pi * 8.5**2
    assert (column.mean(), row.mean()) == pytest.approx((25.0 / 50.5 * 900, 15.0 / 50.5 * 900), abs=1.5)
