"""Vehicles: differential drive, car, multirotor, vessel. They move by commands, in steps, the same again each time."""

from parhelion.motion.vehicles.base import Vehicle
from parhelion.motion.vehicles.car import Car
from parhelion.motion.vehicles.commands import (
    DriveCommand,
    MotorsOff,
    PositionCommand,
    SteerCommand,
    ThrustCommand,
    VelocityCommand,
)
from parhelion.motion.vehicles.differential import DifferentialDrive
from parhelion.motion.vehicles.hull import Hull
from parhelion.motion.vehicles.library import vehicle, vehicle_names, vehicle_sheet
from parhelion.motion.vehicles.multirotor import Multirotor
from parhelion.motion.vehicles.vessel import Vessel

__all__ = [
    "Car",
    "DifferentialDrive",
    "DriveCommand",
    "Hull",
    "MotorsOff",
    "Multirotor",
    "PositionCommand",
    "SteerCommand",
    "ThrustCommand",
    "Vehicle",
    "VelocityCommand",
    "Vessel",
    "vehicle",
    "vehicle_names",
    "vehicle_sheet",
]
