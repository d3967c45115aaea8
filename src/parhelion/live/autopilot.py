"""Autopilots in lockstep with a bridge: what MAVLink (PX4) and the JSON interface of ArduPilot share.

The autopilot commands the actuators of one body of the bridge, and receives the measurements of its sensors. Sensors
are found by the type of their records, so a sensor of another package may take the place of each.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.streams import ImuData
from parhelion.motion.vehicles.base import RotorCommand
from parhelion.motion.vehicles.multirotor import Multirotor
from parhelion.scenario.bridge import Bridge, BridgeRecord

if TYPE_CHECKING:
    from typing_extensions import Self

Mover = Callable[[float, Floats], Any]
"""Function that moves an external vehicle: from a time [s] and controls (16,) to the pose, as for `Bridge.push`."""


def frd(vector: Any) -> Floats:
    """Vector of a body frame x forward, y left, z up as x forward, y right, z down; also the inverse."""
    return np.asarray(vector, np.float64) * np.array([1.0, -1.0, -1.0])


def ned(vector: Any) -> Floats:
    """Vector east, north, up as north, east, down; also the inverse."""
    east, north, up = np.moveaxis(np.asarray(vector, np.float64), -1, 0)
    return np.stack([north, east, -up], axis=-1)


def speeds_of(controls: ArrayLike, vehicle: Multirotor, order: Sequence[int] | None = None) -> RotorCommand:
    """Rotor speeds: control 0 to 1 times the largest speed. `order` gives the control of each rotor."""
    most, values = vehicle.config.max_rotor_speed_rad_s, np.asarray(controls, np.float64)
    chosen = [float(values[k]) for k in (order or range(len(vehicle.config.rotors)))]
    return RotorCommand(tuple(most * min(max(one, 0.0), 1.0) for one in chosen))


class Autopilot(ABC):
    """An autopilot that flies a body of a bridge, one step per sample of its IMU; `with` closes the connection."""

    def __init__(
        self,
        bridge: Bridge,
        body: str,
        vehicle: Multirotor | Mover,
        *,
        order: Sequence[int] | None,
        start: Pose,
        timeout_s: float,
        connect_s: float,
    ) -> None:
        self.bridge, self.body, self.vehicle, self.order = bridge, body, vehicle, order
        self.timeout_s, self.connect_s, self.start = timeout_s, connect_s, start
        imus = bridge.sensors_on(body, ImuData)
        if len(imus) != 1:
            raise ConfigError(f"autopilot: body {body!r} must have one IMU, got {len(imus)}; use bridge.attach")
        self.rate_hz = float(imus[0].rate_hz)
        """Steps per second: the rate of the IMU."""

    def place(self) -> None:
        """Place a multirotor at its start, with resting rotors."""
        if isinstance(self.vehicle, Multirotor):
            self.vehicle.reset(self.start, rotor_speed_rad_s=0.0)

    def moved(self, time: float, controls: Floats, command: RotorCommand | None, *, first: bool = False) -> Any:
        """Pose of the vehicle after a step to `time` [s]; a multirotor does not sink below its start."""
        vehicle = self.vehicle
        if not isinstance(vehicle, Multirotor):
            return vehicle(time, controls)
        if not first:
            vehicle.step(command or RotorCommand((0.0,) * len(vehicle.config.rotors)), 1.0 / self.rate_hz)
            if vehicle.xyz[2] < float(self.start.xyz[2]):
                vehicle.land(float(self.start.xyz[2]))
        return np.array(vehicle.row()[1:14])

    def newest(self, found: Iterable[BridgeRecord]) -> dict[type, Any]:
        """Newest record of each type from the sensors on the body."""
        mine = {one.name for one in self.bridge.sensors_on(self.body)}
        return {kind: one.record for one in found if one.sensor in mine for kind in _types(one.record)}

    @abstractmethod
    def run(self, duration_s: float) -> Iterator[BridgeRecord]:
        """Fly for a time [s] and yield the records of all sensors of the bridge."""

    @abstractmethod
    def close(self) -> None:
        """Close the connection. Closing twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _types(record: Any) -> tuple[type, ...]:
    """Type of a record and its base classes."""
    return type(record).__mro__
