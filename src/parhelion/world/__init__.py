"""Worlds: geometry with materials and labels, from code, from files, or built in."""

from parhelion.world.labels import LABELS, label_id, label_name
from parhelion.world.loaders import MESH_SUFFIXES, load_mesh
from parhelion.world.mesh import Mesh
from parhelion.world.parts import PartTable, WorldObject, WorldPart
from parhelion.world.world import World

__all__ = [
    "LABELS",
    "MESH_SUFFIXES",
    "Mesh",
    "PartTable",
    "World",
    "WorldObject",
    "WorldPart",
    "label_id",
    "label_name",
    "load_mesh",
]
