"""A wooden board between two foam boards in a U: ApolloSim's second qualitative test (Kepets 2024, section 5.5)."""

from __future__ import annotations

from parhelion.core.pose import Pose
from parhelion.world.builtin.boards_room import add_board, add_room
from parhelion.world.world import World

INNER_WIDTH = 1.0
DEPTH = 0.8
NEAREST = 1.1


def build(seed: int = 0, *, room: bool = True) -> World:
    """A U that opens towards the sensor at the origin: foam on both sides, wood across the end.

    The source gives the materials, their number and the U; its measures are in a picture only. Chosen here: 1 m
    between the sides, 0.8 m deep, its mouth 1.1 m ahead; foam 50 mm and wood 18 mm thick. One foam panel of the
    source was slightly bent, which its own simulation left out; so does this. `seed` changes nothing.
    """
    half, far = INNER_WIDTH / 2, NEAREST + DEPTH
    world = World(name="boards-u")
    add_board(world, (NEAREST, -half), (far, -half), thickness=0.05, material="foam", name="right")
    add_board(world, (far, -half), (far, half), thickness=0.018, material="wood", name="end")
    add_board(world, (far, half), (NEAREST, half), thickness=0.05, material="foam", name="left")
    if room:
        add_room(world)
    world.viewpoint = Pose((0.0, 0.0, 1.5))
    return world
