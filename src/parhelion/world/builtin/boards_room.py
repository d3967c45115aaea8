"""The room of the two board scenes, and boards that stand on a line from point to point."""

from __future__ import annotations

import numpy as np

from parhelion.core.pose import Pose
from parhelion.world.kit.instances import boxes
from parhelion.world.shapes import board, plane
from parhelion.world.world import World

ROOM = (8.0, 6.0, 3.2)
"""Inner length, width and height of the room [m]."""
BOARD_HEIGHT = 2.4
"""Boards reach from the floor to here [m], so that a level scan at any usual height meets them."""


def add_board(
    world: World, start: tuple[float, float], end: tuple[float, float], *, thickness: float, material: str, name: str
) -> None:
    """A board from the floor up whose front face runs from `start` to `end` (x, y) [m]; its left side is the front."""
    a, b = np.array(start), np.array(end)
    along = b - a
    width = float(np.linalg.norm(along))
    front = np.array([-along[1], along[0]]) / width
    middle = (a + b) / 2 - front * thickness / 2
    yaw = float(np.degrees(np.arctan2(-front[1], -front[0])))
    world.add(
        board(width, BOARD_HEIGHT, thickness),
        material=material,
        label="board",
        pose=Pose((middle[0], middle[1], BOARD_HEIGHT / 2), rpy_deg=(0.0, 0.0, yaw)),
        name=name,
    )


def add_room(world: World) -> None:
    """A closed room around the origin, which stands 2.5 m from the wall behind it."""
    length, width, height = ROOM
    x = length / 2 - 2.5
    walls = boxes(
        [[x + s * (length + 0.2) / 2, 0.0, height / 2] for s in (-1, 1)]
        + [[x, s * (width + 0.2) / 2, height / 2] for s in (-1, 1)],
        [[0.2, width + 0.4, height]] * 2 + [[length, 0.2, height]] * 2,
    )
    world.add(walls, material="concrete", label="wall", name="walls")
    world.add(plane(length, width), material="concrete", label="floor", pose=Pose((x, 0, 0)), name="floor")
    lid = Pose((x, 0, height), rpy_deg=(180.0, 0, 0))
    world.add(plane(length, width), material="lambert-80", label="ceiling", pose=lid, name="ceiling")
