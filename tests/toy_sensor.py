"""A kind of sensor that Parhelion does not have, end to end: a thermometer that feels the wind of the weather.

All that a new kind needs: a record with units, a class, one row, and one function for each reader that wants more than
what every stream of samples gets (a CSV file, curves in the report, a line in the viewer, a topic in Foxglove).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream, to_normal
from parhelion.core.streams import Samples, column
from parhelion.core.trajectory import Trajectory
from parhelion.io.ros import messages as ros
from parhelion.outputs.ros.rules import ROS, sampled
from parhelion.sensors.kinds import SensorKind
from parhelion.sensors.stream import SampleStream, Stateless
from parhelion.world.world import World

KIND = SensorKind(
    "thermometer", "toy_sensor:Thermometer", "toy_sensor:names", "samples", "toy_sensor:TemperatureData",
    "thermometers: air temperature",
)  # fmt: skip
SIGMA_K = 0.1


def names() -> list[str]:
    """Its presets."""
    return ["toy/pt100"]


@dataclass(frozen=True, eq=False)
class TemperatureData(Samples):
    """Samples of a thermometer."""

    temperature: Floats = field(metadata=column("K", "", "n"))
    """Air temperature [K], shape (n,)."""


class Thermometer:
    """Reads 288.15 K at height 0, 6.5 K less each kilometre, and 1 K less for each 5 m/s of wind."""

    def __init__(self, model: str, rate_hz: float = 10.0, name: str = "") -> None:
        self.model, self.rate_hz, self.name, self.noise = model, float(rate_hz), name, True

    def samples(
        self, world: World, motion: Trajectory, start: float, duration: float, seed: int, mount: Pose | None = None
    ) -> TemperatureData:
        """All samples of a stretch of time."""
        first, last = (int(np.ceil(t * self.rate_hz - 1e-9)) for t in (start, start + duration))
        number = np.arange(first, last)
        time = number / self.rate_hz
        height = motion.sample(time)[0][:, 2] + (0.0 if mount is None else mount.xyz[2])
        wind = 0.0 if world.weather is None else float(np.linalg.norm(world.weather.wind_m_s))
        a, b, _, _ = Stream(seed, f"thermometer/{self.model}/{self.name}").words(number)
        return TemperatureData(time, 288.15 - 6.5e-3 * height - 0.2 * wind + SIGMA_K * to_normal(a, b)[0])

    def stream(
        self, world: World, motion: Trajectory, seed: int, mount: Pose | None = None, start: float = 0.0
    ) -> SampleStream:
        """The same as time goes on."""
        return Stateless(self, world, motion, seed, mount, start)

    def measure(self, world: World, motion: Trajectory, time: float, seed: int) -> TemperatureData:
        """One sample."""
        return self.samples(world, motion, time, 1.0 / self.rate_hz, seed)


def _message(found: Any, row: int, at: int, frame: str) -> bytes:
    return ros.fluid_pressure(at, frame, found.temperature[row], SIGMA_K**2)


# ROS has a message for temperatures; the one for pressures has the same shape, and our table of types holds it.
ROS.add(TemperatureData, sampled("/temperature", "thermometer_link", ros.FLUID_PRESSURE, _message))
