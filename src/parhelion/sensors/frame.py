"""Sensors that give frames: one record a turn, exposure or ping."""

from __future__ import annotations

from typing import Any, Protocol

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Fixed, Mounted, Trajectory
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


LARGEST_TIME_S = 1e12


def own_name(name: str) -> str:
    """What to hide an object from that only the sensor of this name shall not see, be it called 'lidar' itself."""
    return f"sensor:{name}"


def motion_of(world: World, pose: Pose | None, trajectory: Trajectory | None, mount: Pose | None) -> Trajectory:
    """How a sensor moves, of what its user said: the world's viewpoint where that is nothing."""
    if pose is not None and trajectory is not None:
        raise ConfigError("give pose or trajectory, not both")
    if pose is not None and not isinstance(pose, Pose):
        raise ConfigError(f"pose: expected a parhelion Pose, got {type(pose).__name__}")
    if mount is not None and not isinstance(mount, Pose):
        raise ConfigError(f"mount: expected a parhelion Pose, got {type(mount).__name__}")
    if trajectory is None:
        place = world.viewpoint if pose is None else pose
        return Fixed(place if mount is None else place @ mount)
    if not isinstance(trajectory, Trajectory):
        raise ConfigError(f"trajectory: expected an object with sample(times), got {type(trajectory).__name__}")
    return trajectory if mount is None else Mounted(trajectory, mount)


def finite_time(time: float) -> float:
    """A time on the world's clock [s], checked."""
    try:
        number = float(time)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"time: must be a number [s], got {time!r}") from None
    if not abs(number) <= LARGEST_TIME_S:
        raise ConfigError(f"time: must be finite and within ±{LARGEST_TIME_S:g} s, got {time!r}")
    return number
