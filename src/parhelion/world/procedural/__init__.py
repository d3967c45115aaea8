"""Procedural worlds: layouts (lists of objects), generators, checks, and the conversion of a layout to a world.

layout = warehouse(size_m=(40, 25), seed=7)
assert check(layout) == []
world = world_of(layout)
"""

from parhelion.world.procedural.build import (
    LayoutWorld,
    layout_of,
    load_listed,
    mobility_of,
    require_sound,
    world_digest,
    world_of,
)
from parhelion.world.procedural.checks import check, clearance
from parhelion.world.procedural.city import city
from parhelion.world.procedural.countryside import forest, offroad
from parhelion.world.procedural.harbour import harbour
from parhelion.world.procedural.heightmap import read_height_map, terrain_of
from parhelion.world.procedural.kinds import KINDS, Mobility
from parhelion.world.procedural.layout import Layout, LayoutObject, LayoutPose, Passage, PlannedDrive
from parhelion.world.procedural.maps import buildings_from
from parhelion.world.procedural.relief import ground_height
from parhelion.world.procedural.warehouse import warehouse

__all__ = [
    "PlannedDrive",
    "KINDS",
    "Layout",
    "LayoutObject",
    "LayoutPose",
    "LayoutWorld",
    "Mobility",
    "Passage",
    "buildings_from",
    "check",
    "city",
    "clearance",
    "forest",
    "ground_height",
    "harbour",
    "layout_of",
    "load_listed",
    "mobility_of",
    "offroad",
    "read_height_map",
    "require_sound",
    "terrain_of",
    "warehouse",
    "world_digest",
    "world_of",
]
