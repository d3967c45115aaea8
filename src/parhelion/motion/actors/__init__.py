"""Actors: people, vehicles, doors, belts, robot arms and small objects that move through a world.

Each `add_` function takes the world as its first argument and returns an `Actor` with its instance number. The table
`world.mobility` then classifies each instance as static, movable or dynamic.
"""

from parhelion.core.schedule import Schedule
from parhelion.motion.actors.body import Actor, Mobility, mobility_of, mobility_table, set_mobility
from parhelion.motion.actors.cycles import add_cyclist, add_motorcycle
from parhelion.motion.actors.machines import add_conveyor, add_door, add_robot_arm
from parhelion.motion.actors.objects import add_loaded_pallet, scatter
from parhelion.motion.actors.person import add_person
from parhelion.motion.actors.traffic import pedestrians, traffic
from parhelion.motion.actors.trains import add_agv, add_bus, add_tram, add_truck
from parhelion.motion.actors.vehicles import add_car, add_forklift

__all__ = [
    "Actor",
    "Mobility",
    "Schedule",
    "add_agv",
    "add_bus",
    "add_car",
    "add_conveyor",
    "add_cyclist",
    "add_door",
    "add_forklift",
    "add_loaded_pallet",
    "add_motorcycle",
    "add_person",
    "add_robot_arm",
    "add_tram",
    "add_truck",
    "mobility_of",
    "mobility_table",
    "pedestrians",
    "scatter",
    "set_mobility",
    "traffic",
]
