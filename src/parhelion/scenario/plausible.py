"""Notes on a scenario that is valid but probably not meant: speeds, mounts and places that do not fit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from pydantic import BaseModel

from parhelion.core.pose import Floats
from parhelion.motion.vehicles.base import GroundVehicle
from parhelion.scenario.bodies import DrivenBody
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.sheets import YAML_SUFFIXES, unstated_noise

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario

_FAR_MOUNT_M = 30.0
"""Largest plausible distance of a sensor from its vehicle [m]: a mast on the largest vessels."""
_MOST_NAMED = 3
_BESIDE_M = 2.0
"""Distance [m] from the world beyond which a vehicle stands outside of it."""


def notes_on(scenario: Scenario) -> list[str]:
    """One sentence for each field of a scenario that is probably not meant, with its path, and the remedy."""
    return [*_speeds(scenario), *_places(scenario), *_mounts(scenario), *_returns(scenario), *_noise(scenario)]


def _speeds(scenario: Scenario) -> list[str]:
    found = []
    for entry in scenario.settings.vehicles:
        body = scenario.bodies[entry.name]
        if entry.follow is None or not isinstance(body, DrivenBody):
            continue
        config: Any = getattr(body.vehicle, "config", None)
        limit = getattr(config, "max_speed_m_s", None) or getattr(
            getattr(config, "control", None), "max_speed_m_s", None
        )
        if limit is not None and entry.follow.speed_m_s > limit * (1.0 + 1e-9):
            found.append(
                f"vehicles.{entry.name}.follow.speed_m_s: {entry.follow.speed_m_s:g} m/s is more than the vehicle "
                f"reaches; it drives at most {limit:g} m/s ({entry.model or 'its sheet'})"
            )
    return found


def _places(scenario: Scenario) -> list[str]:
    """Vehicles, waypoints and fixed sensors outside of the world."""
    bounds = scenario.world.bounds
    if bounds is None or scenario.water is not None:
        return []
    low, high = bounds[0][:2], bounds[1][:2]
    size = f"the world, which extends from ({low[0]:.4g}, {low[1]:.4g}) to ({high[0]:.4g}, {high[1]:.4g}) m"
    places: list[tuple[str, Floats]] = []
    for entry in scenario.settings.vehicles:
        body = scenario.bodies[entry.name]
        field = "start" if entry.follow is not None or entry.motion is None else "motion"
        # Wheels that get no ground by default have warned of their start already.
        if (
            entry.dynamics is not None
            or not isinstance(body, DrivenBody)
            or not isinstance(body.vehicle, GroundVehicle)
        ):
            places.append((f"vehicles.{entry.name}.{field}", body.state(np.zeros(1)).xyz[0]))
        if entry.follow is not None:
            places += [
                (f"vehicles.{entry.name}.follow.points[{k}]", np.asarray(point, np.float64))
                for k, point in enumerate(entry.follow.points)
            ]
    for sensor in scenario.sensors:
        if sensor.body is None:
            places.append((f"sensors.{sensor.name}.mount.xyz", np.asarray(sensor.mount.xyz, np.float64)))
    return [
        f"{path}: ({xyz[0]:.4g}, {xyz[1]:.4g}) m lies outside of {size}; move it, or choose another world"
        for path, xyz in places
        if np.any(xyz[:2] < low - _BESIDE_M) or np.any(xyz[:2] > high + _BESIDE_M)
    ]


def _mounts(scenario: Scenario) -> list[str]:
    return [
        f"sensors.{one.name}.mount.xyz: the sensor is {far:.4g} m away from {one.entry.vehicle}, which carries it; "
        "mounts are relative to the vehicle and in metres"
        for one in scenario.sensors
        if one.body is not None and (far := float(np.linalg.norm(one.mount.xyz))) > _FAR_MOUNT_M
    ]


def _returns(scenario: Scenario) -> list[str]:
    return [
        f"sensors.{one.name}.options.returns: {one.sensor.not_offered}"
        for one in scenario.sensors
        if isinstance(one.sensor, Lidar) and one.sensor.not_offered
    ]


def _noise(scenario: Scenario) -> list[str]:
    """Noise that a user's own data sheet leaves out."""
    found = []
    for one in scenario.sensors:
        config = getattr(one.sensor, "config", None)
        if not one.entry.model.lower().endswith(YAML_SUFFIXES) or not isinstance(config, BaseModel):
            continue
        left = one.sensor.unstated_noise if isinstance(one.sensor, Lidar) else unstated_noise(config)
        if left:
            more = f" and {len(left) - _MOST_NAMED} more" if len(left) > _MOST_NAMED else ""
            found.append(
                f"sensors.{one.name}.model: {one.entry.model} does not give {', '.join(left[:_MOST_NAMED])}{more}, so "
                f"they are 0; see parhelion sensors {one.entry.model}"
            )
    return found
