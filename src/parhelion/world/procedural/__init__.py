"""Worlds from rules and from lists of things: layouts, generators, checks, and the way from a layout to a world.

layout = warehouse(size_m=(40, 25), seed=7)
assert check(layout) == []
world = world_of(layout)
"""

from parhelion.world.procedural.build import LayoutWorld, layout_of, mobility_of, world_digest, world_of
from parhelion.world.procedural.checks import check, clearance
from parhelion.world.procedural.hall import warehouse
from parhelion.world.procedural.kinds import KINDS, Mobility
from parhelion.world.procedural.layout import Drive, Layout, LayoutObject, LayoutPose, Way
from parhelion.world.procedural.relief import ground_height
from parhelion.world.procedural.woods import forest

__all__ = [
    "Drive",
    "KINDS",
    "Layout",
    "LayoutObject",
    "LayoutPose",
    "LayoutWorld",
    "Mobility",
    "Way",
    "check",
    "clearance",
    "forest",
    "ground_height",
    "layout_of",
    "mobility_of",
    "warehouse",
    "world_digest",
    "world_of",
]
