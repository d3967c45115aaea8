"""Motion by pushed states: each holds from its time on, with its twist."""

from __future__ import annotations

import math

import numpy as np

from parhelion.core.pose import Pose
from parhelion.motion.pushed import LONGEST_MEMORY_S, PlacedMotion


def test_a_state_holds_from_its_time_on_and_moves_with_its_twist() -> None:
    motion = PlacedMotion(Pose(xyz=(1, 2, 3)))
    motion.place(1.0, Pose(xyz=(5, 0, 0)), velocity=(2.0, 0.0, -1.0), angular_velocity=(0.0, 0.0, math.pi))
    xyz, quat = motion.sample([-1.0, 0.999, 1.0, 1.5])
    assert xyz.tolist() == [[1, 2, 3], [1, 2, 3], [5, 0, 0], [6, 0, -0.5]]
    assert np.allclose(quat[3], [0, 0, math.sqrt(0.5), math.sqrt(0.5)], atol=1e-15)
    state = motion.state([0.5, 1.5])
    assert state.velocity.tolist() == [[0, 0, 0], [2, 0, -1]]
    assert np.allclose(state.angular_velocity, [[0, 0, 0], [0, 0, math.pi]])
    assert not state.acceleration.any()


def test_spin_is_in_the_world_frame_and_reported_in_the_body_frame() -> None:
    tilted = Pose(rpy_deg=(90, 0, 0))
    motion = PlacedMotion(tilted, angular_velocity=(0.0, 0.0, 1.0))
    turned = Pose(*[rows[0] for rows in motion.sample([0.25])])
    assert np.allclose(turned.rotation, Pose(rpy_deg=(0, 0, math.degrees(0.25))).rotation @ tilted.rotation)
    assert np.allclose(motion.state([0.25]).angular_velocity, [[0, 1, 0]])


def test_the_last_state_of_a_time_counts_and_a_restart_returns_to_the_first() -> None:
    motion = PlacedMotion(Pose(xyz=(1, 0, 0)), velocity=(1.0, 0.0, 0.0), since_s=4.0)
    assert motion.sample([3.0, 5.0])[0][:, 0].tolist() == [1, 2]
    motion.place(5.0, Pose(xyz=(7, 0, 0)))
    motion.place(5.0, Pose(xyz=(9, 0, 0)))
    assert motion.sample([4.5, 5.0, 6.0])[0][:, 0].tolist() == [1.5, 9, 9]
    motion.restart()
    assert motion.sample([0.0, 2.0])[0][:, 0].tolist() == [1, 3]


def test_old_states_are_forgotten() -> None:
    motion = PlacedMotion(Pose())
    for number in range(2000):
        motion.place(number * 0.1, Pose(xyz=(number, 0, 0)))
    assert len(motion._rows) <= LONGEST_MEMORY_S / 0.1 + 3
    assert motion.sample([199.9 - 0.5 * LONGEST_MEMORY_S])[0][0, 0] == 1699
