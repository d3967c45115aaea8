"""Sensors that give frames: one record a turn, exposure or ping."""

from __future__ import annotations

from typing import Any, Protocol

from parhelion.core.trajectory import Trajectory
from parhelion.world.world import World


class FrameSensor(Protocol):
    """A sensor that measures a frame at a time: it is given the world and its weather, and its own motion."""

    rate_hz: float
    """Frames a second."""
    name: str

    @property
    def frame_duration_s(self) -> float:
        """Time [s] from a frame's start to the last thing that it measures."""
        ...

    @property
    def known_as(self) -> tuple[str, ...]:
        """Names that objects may be hidden from: its kind, model and name."""
        ...

    def measure(self, world: World, motion: Trajectory, time: float, seed: int, frame: int | None = None) -> Any:
        """The frame that starts at `time` [s]; `frame` numbers it for the random streams."""
        ...
