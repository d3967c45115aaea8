"""Sensors that give frames: one record a turn, exposure or ping."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream, number_of
from parhelion.core.trajectory import Fixed, Mounted, Trajectory, pose_at
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


class Named:
    """What a sensor is called: its kind, its model, and a name that tells it from others of its model."""

    kind: ClassVar[str]
    """Its name in scenario files."""
    model: str
    name: str

    @property
    def known_as(self) -> tuple[str, ...]:
        """Names that objects may be hidden from: its kind, model and name, and one that no other sensor can have."""
        return (self.kind, self.model, *((self.name, own_name(self.name)) if self.name else ()))


class Framed(Named):
    """What frame sensors have in common: every frame has random numbers of its own."""

    @property
    def _identity(self) -> str:
        return self.model + (f"/{self.name}" if self.name else "")

    def _stream(self, seed: int, motion: Trajectory, start: float, frame: int | None) -> Stream:
        """The random numbers of a frame; its number follows from time and place where none is given."""
        number = number_of(start, place_of(motion, start)) if frame is None else frame
        return Stream(seed, f"{self.kind}/{self._identity}", number)


def place_of(motion: Trajectory, start: float) -> Pose:
    """Where a motion is at the start of a frame [s]."""
    return motion.pose if isinstance(motion, Fixed) else pose_at(motion, start)


def checked_world(world: Any) -> World:
    """A world, or the error that it is none."""
    if not isinstance(world, World):
        raise ConfigError(f"world: expected a parhelion World, got {type(world).__name__}")
    return world


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
