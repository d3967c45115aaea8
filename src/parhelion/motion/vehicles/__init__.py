"""Vehicles: differential drive, car, multirotor, vessel. They follow commands in time steps, deterministically."""

from parhelion.motion.vehicles.base import (
    DriveCommand,
    MotorsOff,
    PositionCommand,
    RotorCommand,
    SteerCommand,
    ThrustCommand,
    Vehicle,
    VelocityCommand,
)
from parhelion.motion.vehicles.ground import Car, DifferentialDrive
from parhelion.motion.vehicles.library import vehicle, vehicle_names, vehicle_sheet
from parhelion.motion.vehicles.multirotor import Multirotor
from parhelion.motion.vehicles.vessel import Hull, Vessel

__all__ = [
    "Car",
    "DifferentialDrive",
    "DriveCommand",
    "Hull",
    "MotorsOff",
    "Multirotor",
    "PositionCommand",
    "RotorCommand",
    "SteerCommand",
    "ThrustCommand",
    "Vehicle",
    "VelocityCommand",
    "Vessel",
    "vehicle",
    "vehicle_names",
    "vehicle_sheet",
]
