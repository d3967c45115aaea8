"""Small parts of contact against closed forms: recoil, gaps of boxes, and states of frames on a body."""

from __future__ import annotations

import numpy as np
import pytest

from parhelion.contact.obstacles import TRACTION, Obstacles
from parhelion.contact.pairs import Hulls, separation
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.pose import Pose
from parhelion.scenario.bodies import mounted_row


def test_a_recoil_slows_down_by_friction_along_its_own_direction() -> None:
    pushed = object.__new__(Obstacles)
    pushed._recoil = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 0.0], [0.01, 0.0, 0.0]])
    pushed.settle(0.1)
    left = 5.0 - TRACTION * STANDARD_GRAVITY_M_S2 * 0.1
    assert pushed._recoil == pytest.approx(np.array([[0.6 * left, 0.8 * left, 0.0], [0.0] * 3, [0.0] * 3]))


def hull(place: tuple[float, float, float], turn_x_deg: float = 0.0) -> Hulls:
    """A cube of 2 m."""
    c, s = np.cos(np.radians(turn_x_deg)), np.sin(np.radians(turn_x_deg))
    turn = np.array([[[1.0, 0.0, 0.0], [0.0, c, -s], [0.0, s, c]]])
    zero, one = np.zeros((1, 3)), np.ones((1, 3))
    return Hulls(
        np.ones(1), one, one, zero, np.ones(1), np.ones(1), np.array([place]), turn, zero, zero, np.zeros(1, np.int64)
    )


@pytest.mark.parametrize("gap_m", [0.1, -0.05])
def test_the_gap_between_an_edge_and_a_face(gap_m: float) -> None:
    height = 1.0 + np.sqrt(2.0) + gap_m
    normal, gap = separation(hull((0.0, 0.0, height), 45.0), hull((0.0, 0.0, 0.0)))
    assert normal[0] == pytest.approx([0.0, 0.0, 1.0], abs=1e-12)
    assert gap[0] == pytest.approx(gap_m, abs=1e-12)


def test_a_frame_on_a_turning_body_moves_on_a_circle() -> None:
    spin, rate = 2.0, 0.5
    row = np.array([1.0, 5, 6, 7, 0, 0, 0, 1, 0.1, 0.2, 0.3, 0, 0, spin, 0.4, 0.5, 0.6, 0, 0, rate])
    found = np.concatenate([np.ravel(one) for one in mounted_row(row, Pose((1.0, 0.0, 0.0)))])
    position, velocity = [6.0, 6.0, 7.0], [0.1, 0.2 + spin, 0.3]
    acceleration = [0.4 - spin**2, 0.5 + rate, 0.6]
    expected = [1.0, *position, 0, 0, 0, 1, *velocity, 0, 0, spin, *acceleration, 0, 0, rate]
    assert found == pytest.approx(expected, abs=1e-12)
