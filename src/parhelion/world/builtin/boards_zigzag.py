"""Three foam pads in a zigzag: the object of ApolloSim's first qualitative test (Kepets 2024, section 5.5)."""

from __future__ import annotations

from itertools import pairwise

import numpy as np

from parhelion.core.pose import Pose
from parhelion.world.builtin.boards_room import add_board, add_room
from parhelion.world.world import World

PAD_WIDTH = 0.6
THICKNESS = 0.05
FOLD_DEG = 45.0
"""Angle of each pad to the line across the view."""
NEAREST = 1.2


def build(seed: int = 0, *, room: bool = True) -> World:
    """Three pads of foam, edge to edge, turned 45 degrees to and fro; the sensor is at the origin.

    The source gives the number, the material and the zigzag; its measures are in a picture only. Chosen here: pads
    0.6 m wide and 50 mm thick (a usual size of insulation board), the nearest edge 1.2 m ahead, all well inside the
    12 m of the sensor used there. Nothing is random: `seed` changes nothing.
    """
    step_y = PAD_WIDTH * np.cos(np.radians(FOLD_DEG))
    step_x = PAD_WIDTH * np.sin(np.radians(FOLD_DEG))
    y = 1.5 * step_y - np.arange(4) * step_y
    x = NEAREST + step_x * np.array([0.0, 1.0, 0.0, 1.0])
    world = World(name="boards-zigzag")
    # From left to right seen from the sensor the front face is on the right, so pads run from right to left.
    corners = [(float(a), float(b)) for a, b in zip(x[::-1], y[::-1], strict=True)]
    for number, (start, end) in enumerate(pairwise(corners)):
        add_board(world, start, end, thickness=THICKNESS, material="foam", name=f"pad-{number}")
    if room:
        add_room(world)
    world.viewpoint = Pose((0.0, 0.0, 1.5))
    return world
