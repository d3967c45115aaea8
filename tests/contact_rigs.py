"""Worlds and vehicles for tests of contact."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

import parhelion as ph
from parhelion.contact import kernel
from parhelion.contact.bodies import Collision
from parhelion.contact.chassis import chassis_of
from parhelion.contact.driver import ContactDriver
from parhelion.core.pose import Floats
from parhelion.motion.vehicles.base import Command, DriveCommand
from parhelion.motion.vehicles.ground import Car, DifferentialDrive
from parhelion.motion.vehicles.library import vehicle
from parhelion.surfaces.library import material
from parhelion.surfaces.material import Material

G = 9.80665
HUSKY, CAR = "clearpath/husky", "bmw/320i"


def ground_material(name: str) -> Material:
    """A material by name; ice and mud, which the library does not have, look like snow and soil."""
    looks = {"ice": "snow", "mud": "soil"}
    return material(looks.get(name, name)).model_copy(update={"name": name})


def flat(kind: str = "asphalt", size: float = 400.0, slope_deg: float = 0.0) -> ph.World:
    """A plane; its slope rises along x."""
    world = ph.World()
    half = -0.5 * math.radians(slope_deg)
    tilt = ph.Pose((0, 0, 0), (0.0, math.sin(half), 0.0, math.cos(half)))
    world.add(ph.shapes.plane(size, size), material=ground_material(kind), label="road", pose=tilt, name="ground")
    return world


def wall(world: ph.World, x: float, thickness: float = 0.2, *, height: float = 1.0, width: float = 40.0) -> None:
    """Add a wall across the x axis whose near side is at x."""
    pose = ph.Pose((x + 0.5 * thickness, 0, 0.5 * height))
    world.add(ph.shapes.box(thickness, width, height), material="concrete", label="wall", name="wall", pose=pose)


def model(name: str, **changes: Any) -> Any:
    """A vehicle model with the chassis that follows from mass and size, so that closed forms have round numbers.

    `changes` are of its chassis, or of its sheet if they are fields of it.
    """
    config = vehicle(name).config.model_copy(update={"chassis": None})
    own = {key: value for key, value in changes.items() if key in type(config).model_fields}
    chassis = {key: value for key, value in changes.items() if key not in own}
    if chassis:
        own["chassis"] = chassis_of(config).model_copy(update=chassis)
    config = config.model_copy(update=own)
    return Car(config) if config.kind == "car" else DifferentialDrive(config)


def launched(driver: ContactDriver, number: int, velocity: tuple[float, float, float]) -> None:
    """Give a vehicle a velocity, with wheels that roll along x."""
    one = driver._members[number]
    driver._state[7:10, number] = velocity
    for k, wheel in enumerate(one.chassis.wheels):
        driver._state[13 + len(kernel.WHEEL_STATE) * k, number] = velocity[0] / wheel.radius_m
    if isinstance(one.vehicle, DifferentialDrive):
        one.vehicle._v = velocity[0]
    driver._rows[number, 8:11] = velocity
    driver._forget()
    driver._carry()


def run(
    driver: ContactDriver, commands: list[Command], seconds: float, dt: float = 0.01,
    watch: Callable[[Floats, list[Collision]], None] | None = None,
) -> list[Collision]:  # fmt: skip
    """Drive and return all collisions."""
    found = []
    for _ in range(round(seconds / dt)):
        new = driver.step(commands, dt)
        found += new
        if watch is not None:
            watch(driver.rows(), new)
    return found


def tilted(driver: ContactDriver, degrees: float, axis: int = 0) -> None:
    """Tilt gravity: as on a slope that rises along x (axis 0) or y (axis 1)."""
    angle = math.radians(degrees)
    gravity = np.zeros(3)
    gravity[axis], gravity[2] = -G * math.sin(angle), -G * math.cos(angle)
    driver.gravity = gravity


REST = DriveCommand(0.0)
