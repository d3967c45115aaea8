"""All models of vehicles that traffic may consist of: their sizes, speeds and bodies."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Actor
from parhelion.motion.actors.cycles import CYCLIST_SIZE_M, MOTORCYCLE_SIZE_M, add_cyclist, add_motorcycle
from parhelion.motion.actors.trains import (
    AGV_SIZE_M,
    BUS_SIZE_M,
    TRACTOR_M,
    TRAM_CAR_M,
    TRUCK_SIZE_M,
    add_agv,
    add_bus,
    add_tram,
    add_truck,
    tram_size_m,
)
from parhelion.motion.actors.vehicles import FORKLIFT_SIZE_M, add_car, add_forklift, car_size_m
from parhelion.world.world import World


class RoadUser(NamedTuple):
    """A model of vehicle that is not a car."""

    size_m: tuple[float, float]
    """Length and width of the whole vehicle."""
    fastest_m_s: float
    add: Callable[..., Actor]
    lead_m: float = 0.0
    """Length of the leading unit, whose middle carries the frame; 0 if the vehicle is one body."""

    @property
    def ahead_m(self) -> float:
        """Distance [m] of the frame ahead of the middle of the whole vehicle."""
        return 0.5 * (self.size_m[0] - self.lead_m) if self.lead_m else 0.0


ROAD_USERS = {
    "cyclist": RoadUser(CYCLIST_SIZE_M, 6.0, add_cyclist),
    "motorcycle": RoadUser(MOTORCYCLE_SIZE_M, np.inf, add_motorcycle),
    "bus": RoadUser(BUS_SIZE_M, 25.0, add_bus),
    "tram": RoadUser(tram_size_m(), 20.0, add_tram, TRAM_CAR_M),
    "truck-trailer": RoadUser(TRUCK_SIZE_M, 25.0, add_truck, TRACTOR_M),
    "forklift": RoadUser(FORKLIFT_SIZE_M, 5.5, add_forklift),
    "agv": RoadUser(AGV_SIZE_M, 2.0, add_agv),
}
"""Vehicles of traffic that are no cars. Speeds are round figures: people do not cycle faster than 6 m/s in towns."""


def vehicle_size_m(model: str) -> tuple[float, float]:
    """Length and width [m] of a model of vehicle."""
    return ROAD_USERS[model].size_m if model in ROAD_USERS else car_size_m(model)


def fastest_m_s(model: str) -> float:
    """Largest desired speed [m/s] of a model of vehicle in traffic."""
    return ROAD_USERS[model].fastest_m_s if model in ROAD_USERS else np.inf


def add_vehicle(world: World, motion: Trajectory, model: str, *, paint: str, name: str, wheels: bool = False) -> Actor:
    """Add a vehicle of traffic whose middle follows a motion on a route."""
    if model not in ROAD_USERS:
        return add_car(world, motion, model, paint=paint, name=name, wheels=wheels)
    user = ROAD_USERS[model]
    behind = getattr(motion, "behind", None)
    if user.ahead_m and behind is not None:
        motion = behind(-user.ahead_m)
    return user.add(world, motion, paint=paint, name=name)
