"""A kind of sensor that Parhelion does not have, end to end: a thermometer that feels the wind of the weather.

A new kind needs a record with units, a class, one row (in `__init__`), and one function for each consumer that does
more than the base class of the record provides (a CSV file, curves in the report, a line in the viewer, a topic in
Foxglove).
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import parhelion as ph
from parhelion.core.pose import Floats
from parhelion.core.random import Stream, to_normal
from parhelion.core.streams import column
from parhelion.io.ros import messages as ros
from parhelion.outputs.ros.rules import ROS, sampled
from parhelion.outputs.topics import TOPICS, one_topic

SIGMA_K = 0.1


def presets() -> list[str]:
    """Names of its presets."""
    return ["toy/pt100"]


@dataclass(frozen=True)
class Sheet:
    """Data sheet of a thermometer."""

    rate_hz: float = 10.0
    max_rate_hz: float = 1000.0


@dataclass(frozen=True, eq=False)
class TemperatureData(ph.Samples):
    """Samples of a thermometer."""

    temperature: Floats = field(metadata=column("K", "", "n"))
    """Air temperature [K], shape (n,)."""


class Thermometer(ph.StreamSensor[Sheet, TemperatureData]):
    """288.15 K at height 0, 6.5 K less per kilometre, and 1 K less per 5 m/s of wind."""

    kind = "thermometer"

    def __init__(self, model: str, *, name: str = "", rate_hz: float | None = None, noise: bool = True) -> None:
        super().__init__(Sheet(), model, name=name, rate_hz=rate_hz, noise=noise)

    def _samples(
        self, world: ph.World, motion: ph.Trajectory, first: int, count: int, seed: int, mount: ph.Pose | None
    ) -> TemperatureData:
        number = np.arange(first, first + count)
        time = number / self.rate_hz
        height = motion.sample(time)[0][:, 2] + (0.0 if mount is None else mount.xyz[2])
        wind = 0.0 if world.weather is None else float(np.linalg.norm(world.weather.wind_m_s))
        a, b, _, _ = Stream(seed, f"thermometer/{self.model}/{self.name}").words(number)
        noise = SIGMA_K * to_normal(a, b)[0] if self.noise else 0.0
        return TemperatureData(time, 288.15 - 6.5e-3 * height - 0.2 * wind + noise)


def _message(found: Any, row: int, at: int, frame: str) -> bytes:
    return ros.fluid_pressure(at, frame, found.temperature[row], SIGMA_K**2)


# ROS has a message for temperatures; the one for pressures has the same shape and is in Parhelion's table of types.
ROS.add(TemperatureData, sampled(ros.FLUID_PRESSURE, _message))
TOPICS.add(TemperatureData, one_topic("/temperature", "thermometer_link"))
