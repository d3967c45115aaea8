"""Height of the ground of a world."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph


def test_the_ground_is_below_roofs_and_beside_boxes() -> None:
    world = ph.World()
    world.add(ph.shapes.box(20, 20, 1), material="concrete", label="floor", pose=ph.Pose((0, 0, -0.5)))
    world.add(ph.shapes.box(2, 2, 1), material="wood", label="furniture", pose=ph.Pose((5, 0, 0.5)))
    world.add(ph.shapes.box(20, 20, 0.2), material="steel", label="roof", pose=ph.Pose((0, 0, 4)))
    assert world.height(5.0, 0.0) == pytest.approx(0.0, abs=1e-5)
    heights = world.height([[0.0, 50.0], [1.0, 2.0]], 3.0)
    assert heights.shape == (2, 2)
    assert np.isnan(heights).tolist() == [[False, True], [False, False]]


def test_without_labels_of_the_ground_the_highest_surface_counts_and_edits_are_seen() -> None:
    world = ph.World()
    assert np.isnan(world.height(0.0, 0.0))
    box = world.add(ph.shapes.box(2, 2, 1), material="wood", pose=ph.Pose((0, 0, 0.5)))
    assert world.height(0.0, 0.0) == pytest.approx(1.0, abs=1e-5)
    world.add(ph.shapes.plane(9, 9), material="soil", label="terrain")
    assert world.height(0.0, 0.0) == pytest.approx(0.0, abs=1e-5)
    world.remove(box)
    assert world.height(4.0, -4.0) == pytest.approx(0.0, abs=1e-5)
