"""Worlds: geometry with materials and labels, built in code, from files, or built in. Imports core, rays, surfaces."""

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
