"""Base classes of all sensors: frame sensors measure one record per frame, stream sensors measure samples at a rate.

    Kind(model, *, name="", rate_hz=None, noise=True, ...)

    class Sounder(FrameSensor[SounderConfig, Ping]):            # a kind implements its constructor and
        def _measure(self, world, motion, start, seed, stream): # one frame,
    class Thermometer(StreamSensor[Sheet, TemperatureData]):
        def _samples(self, world, motion, first, count, seed, mount):  # or a span of samples

Keys of random streams: `kind/model[/name]` for frames, `kind/model/name` for samples (with the last slash even if the
name is empty).
"""

from __future__ import annotations

import copy
import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Protocol, TypeVar, cast

import numpy as np

from parhelion.core.deprecation import deprecated_alias, deprecated_method, keyword_only, warn_deprecated
from parhelion.core.errors import ConfigError
from parhelion.core.noise import chosen_rate, sample_number, sample_span
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream, number_of
from parhelion.core.streams import Samples
from parhelion.core.trajectory import Fixed, Mounted, Trajectory, pose_at
from parhelion.sensors import sheets
from parhelion.sensors.faults import Faults, Unit
from parhelion.world.world import World

if TYPE_CHECKING:
    from typing_extensions import Self

LARGEST_TIME_S = 1e12

Sheet_ = TypeVar("Sheet_")
Data = TypeVar("Data")
SampleData = TypeVar("SampleData", bound=Samples)
Function = TypeVar("Function", bound=Callable[..., Any])


def private_key(name: str) -> str:
    """Visibility key of the sensor with this name; unique even if the name is that of a kind, such as 'lidar'."""
    return f"sensor:{name}"


own_name = deprecated_alias("own_name", private_key)


class Sensor(ABC, Generic[Sheet_]):
    """A sensor of any kind.

    Args:
        config: The data sheet.
        model: Name of the model, `maker/model` for presets.
        name: Name that distinguishes the sensor from others of its model; '' if it has none.
        rate_hz: Frames or samples per second.
        noise: False gives measurements without noise.

    >>> sensor = ph.sensor("radar", "ti/iwr6843", name="front")
    >>> sensor.kind, sensor.model, sensor.name
    ('radar', 'ti/iwr6843', 'front')
    """

    kind: ClassVar[str]
    """Name of the kind in scenario files."""

    def __init__(self, config: Sheet_, model: str, *, name: str = "", rate_hz: float = 1.0, noise: bool = True) -> None:
        self.config, self.model, self.name, self.rate_hz, self.noise = config, model, name, rate_hz, noise
        self.faults: Faults | None = None
        """Faults of this unit; see `with_faults`."""

    def with_faults(self, faults: Faults | Mapping[str, Any] | None = None, /, **fields: Any) -> Self:
        """Return a copy with faults, such as a wrong mount or lost data; each is named by its field of `Faults`.

        >>> lidar = ph.Lidar("velodyne/vlp-16").with_faults(channels={"dead": [3]}, packets={"lost": 0.05})
        >>> sorted(lidar.faults.present())
        ['channels', 'packets']
        """
        found = Faults.of(fields if faults is None else faults)
        found.check(self.kind)
        other = copy.copy(self)
        other.faults = found if found.present() else None
        return other

    def _unit(self, seed: int) -> Unit:
        """This unit, for its faults."""
        return Unit(f"{self.kind}/{self.model}/{self.name}", seed, self.rate_hz)

    def _faulty(self, record: Data, seed: int) -> Data:
        """Record with the faults of this unit."""
        return record if self.faults is None else self.faults.applied(record, self._unit(seed))

    def _true_mount(self, mount: Pose | None) -> Pose | None:
        """Pose of the sensor on its body, where the stated one is wrong."""
        off = None if self.faults is None else self.faults.mount_pose
        return mount if off is None else off if mount is None else mount @ off

    @property
    def visibility_keys(self) -> tuple[str, ...]:
        """Keys by which objects can be hidden from this sensor: kind, model, name, and one unique key."""
        return (self.kind, self.model, *((self.name, private_key(self.name)) if self.name else ()))

    known_as = deprecated_method("known_as", "visibility_keys")

    @property
    def label(self) -> str:
        """Kind and name, for errors and warnings."""
        return f"{self.kind} {self.name or self.model}"

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.model}: {self.rate_hz:g} Hz>"


class FrameSensor(Sensor[Sheet_], Generic[Sheet_, Data]):
    """A sensor that measures one record per frame, such as a revolution, an exposure or a ping.

    A kind implements `frame_duration_s` and `_measure`; its constructor forwards the arguments of `Sensor`.

    >>> isinstance(ph.Lidar("velodyne/vlp-16"), ph.FrameSensor)
    True
    """

    @property
    @abstractmethod
    def frame_duration_s(self) -> float:
        """Time [s] from the start of a frame to the last measurement in it."""

    @abstractmethod
    def _measure(self, world: World, motion: Trajectory, start: float, seed: int, stream: Stream) -> Data:
        """Measure one frame; `stream` holds its random numbers."""

    @keyword_only("frame")
    def measure(
        self,
        world: World,
        motion: Trajectory | Pose | None = None,
        time: float = 0.0,
        seed: int = 0,
        *,
        pose: Pose | None = None,
        trajectory: Trajectory | None = None,
        mount: Pose | None = None,
        frame: int | None = None,
    ) -> Data:
        """Measure one frame.

        Args:
            world: The world, with its weather.
            motion: Pose or trajectory of the sensor; the same as `pose` or `trajectory`.
            time: Start of the frame [s] on the clock of the world.
            seed: Seed of all random numbers.
            pose: Pose of a sensor at rest; the viewpoint of the world if no motion is given.
            trajectory: Motion of the body that carries the sensor, or of the sensor itself.
            mount: Pose of the sensor on that body.
            frame: Number of the frame for the random streams; by default it follows from time and pose.
        """
        moved = motion_of(checked_world(world), motion, pose, trajectory, mount)
        start = finite_time(time)
        stream = self._stream(seed, moved, start, frame)
        return self._faulty(self._measure(world, self._true_motion(moved), start, seed, stream), seed)

    def _true_motion(self, motion: Trajectory) -> Trajectory:
        """Motion of the sensor, where its stated mount is wrong."""
        off = self._true_mount(None)
        return (
            motion if off is None else Fixed(motion.pose @ off) if isinstance(motion, Fixed) else Mounted(motion, off)
        )

    @property
    def _identity(self) -> str:
        return self.model + (f"/{self.name}" if self.name else "")

    def _stream(self, seed: int, motion: Trajectory, start: float, frame: int | None) -> Stream:
        """Random numbers of a frame; by default the frame number is derived from time and pose."""
        number = number_of(start, place_of(motion, start)) if frame is None else frame
        return Stream(seed, f"{self.kind}/{self._identity}", number)


class SampleStream(Protocol):
    """The samples of one sensor in the order of time, each returned once."""

    def until(self, time: float) -> Samples:
        """Return the samples since the last call and before a time [s]; possibly none."""
        ...


def _motion_first(function: Function) -> Function:
    """Decorator of `run`: reject a trajectory in place of the world; body sensors accept it for one more version."""

    @functools.wraps(function)
    def call(self: Any, *args: Any, **options: Any) -> Any:
        first = args[0] if args else options.get("world")
        if not isinstance(first, Trajectory) and (args or "world" in options or self.uses_world):
            return function(self, *args, **options)
        if self.uses_world or any(isinstance(value, World) for value in (*args, *options.values())):
            raise ConfigError("run(world, motion): got a trajectory first")
        warn_deprecated(f"{type(self).__name__}.run(motion)", "run(world, motion), where the world may be None")
        if "world" in options:
            args = (options.pop("world"),)
        return function(self, None, *args, **options)

    return cast(Function, call)


class StreamSensor(Sensor[Sheet_], Generic[Sheet_, SampleData]):
    """A sensor that measures samples at a rate: sample k is taken at k / rate_hz.

    A kind implements `_samples`; its constructor forwards the arguments of `Sensor`. The data sheet has `rate_hz`, the
    default, and `max_rate_hz`.

    >>> isinstance(ph.Imu("bosch/bmi160"), ph.StreamSensor)
    True
    """

    uses_world: ClassVar[bool] = True
    """False for sensors that depend on their own motion only: they accept None as the world."""
    allow_static: ClassVar[bool] = True
    """True if a scenario may place the sensor in the world, without a vehicle."""
    accumulates: ClassVar[bool] = False
    """True if samples accumulate from the start of a run, so that a split run differs from the whole."""

    def __init__(
        self, config: Sheet_, model: str, *, name: str = "", rate_hz: float | None = None, noise: bool = True
    ) -> None:
        sheet: Any = config
        rate = chosen_rate(rate_hz, sheet.rate_hz, sheet.max_rate_hz)
        super().__init__(config, model, name=name, rate_hz=rate, noise=noise)
        self._streams = f"{self.kind}/{sheets.stream_key(self.kind, model)}/{name}"

    @classmethod
    def _opened(cls, config: type[Any], model: Any) -> tuple[Any, str]:
        """Return the data sheet given by the user, and the name of the model."""
        sheet = sheets.open_sheet(cls.kind, config, model)
        is_own_file = sheet.preset is None and isinstance(model, (str, PathLike))
        return sheet.config, str(model).lower() if is_own_file else sheet.name

    @_motion_first
    @keyword_only("mount", stacklevel=3)
    def run(
        self,
        world: World | None,
        motion: Trajectory | Pose,
        start: float = 0.0,
        duration: float = 1.0,
        seed: int = 0,
        *,
        mount: Pose | None = None,
    ) -> SampleData:
        """Measure all samples from `start` to below `start + duration`; split runs give the same bits.

        Args:
            world: The world, with its weather; may be None for sensors that do not use it.
            motion: Motion of the body that carries the sensor, or a pose.
            start: Start of the run [s] on the clock of the world.
            duration: Length of the run [s].
            seed: Seed of all random numbers; it represents one unit and one power-up.
            mount: Pose of the sensor on the body.
        """
        try:
            span = sample_span(start, duration, self.rate_hz)
        except TypeError:
            raise ConfigError(f"start, duration: must be numbers [s], got {start!r} and {duration!r}") from None
        return self._span(world, motion, *span, seed, checked_mount(mount))

    @keyword_only("mount", "start")
    def stream(
        self,
        world: World | None,
        motion: Trajectory | Pose,
        seed: int = 0,
        *,
        mount: Pose | None = None,
        start: float = 0.0,
    ) -> SampleStream:
        """Return a stream of samples from `start` [s] on, whose `until(time)` returns the new samples.

        Args:
            world: The world, with its weather; may be None for sensors that do not use it.
            motion: Motion of the body that carries the sensor, or a pose.
            seed: Seed of all random numbers.
            mount: Pose of the sensor on the body.
            start: Time of the first sample [s], at the earliest.
        """
        self._world(world)
        checked_mount(mount)
        moved, place = moved_by(motion), None
        if isinstance(moved, Fixed):
            place = np.asarray((moved.pose if mount is None else moved.pose @ mount).xyz, dtype=np.float64)
        self._check(cast(World, world), place, start)
        stream = self._stream(cast(World, world), moved, seed, self._true_mount(mount), start)
        return stream if self.faults is None else _FaultyStream(self, stream, seed)

    def measure(
        self,
        world: World | None,
        motion: Trajectory | Pose | None = None,
        time: float = 0.0,
        seed: int = 0,
        *,
        pose: Pose | None = None,
        trajectory: Trajectory | None = None,
        mount: Pose | None = None,
    ) -> SampleData:
        """Measure the single sample within one period from `time` on.

        Args:
            world: The world, with its weather; may be None for sensors that do not use it.
            motion: Pose or trajectory of the body; the same as `pose` or `trajectory`.
            time: Time [s] on the clock of the world.
            seed: Seed of all random numbers.
            pose: Pose of a body at rest; the viewpoint of the world if no motion is given.
            trajectory: Motion of the body that carries the sensor.
            mount: Pose of the sensor on the body.
        """
        moved = motion_of(self._world(world), motion, pose, trajectory, None)
        return self._span(world, moved, sample_number(finite_time(time), self.rate_hz), 1, seed, checked_mount(mount))

    def samples(
        self, world: World, motion: Trajectory, start: float, duration: float, seed: int, mount: Pose | None = None
    ) -> SampleData:
        """Deprecated: use `run`, which also returns an empty record if no sample is due."""
        warn_deprecated(f"{type(self).__name__}.samples()", "run()")
        first, last = (sample_number(time, self.rate_hz) for time in (start, start + duration))
        return self._span(world, motion, first, last - first, seed, mount)

    def _world(self, world: Any) -> World | None:
        return None if world is None and not self.uses_world else checked_world(world)

    def _span(self, world: Any, motion: Any, first: int, count: int, seed: int, mount: Pose | None) -> SampleData:
        """Samples `first` to below `first + count`; an empty record if `count` is not positive."""
        return self._faulty(self._sound(world, motion, first, count, seed, self._true_mount(mount)), seed)

    def _sound(self, world: Any, motion: Any, first: int, count: int, seed: int, mount: Pose | None) -> SampleData:
        """Samples without the faults that change records."""
        self._world(world)
        if count > 0:
            return self._samples(world, moved_by(motion), first, count, seed, mount)
        # A clock step may be shorter than the sample period, and the motion until the next sample may be unknown.
        return self._empty(world, seed)

    def _empty(self, world: World, seed: int) -> SampleData:
        """A record without samples."""
        return self._samples(world, Fixed(Pose()), 0, 1, seed, None).select(slice(0, 0))

    @abstractmethod
    def _samples(
        self, world: World, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None
    ) -> SampleData:
        """Samples `first` to below `first + count`; `count` is at least 1."""

    def _stream(self, world: World, motion: Trajectory, seed: int, mount: Pose | None, start: float) -> SampleStream:
        return _Stateless(self, world, motion, seed, mount, start)

    def _check(self, world: World, place: Floats | None, time: float) -> None:
        """Check a scenario before its start; `place` (3,) [m] is the position of a sensor at rest, else None."""


@dataclass
class _Stateless:
    """Stream of a sensor whose samples do not depend on earlier ones, so any span can be measured independently."""

    sensor: StreamSensor[Any, Any]
    world: World
    motion: Trajectory
    seed: int
    mount: Pose | None
    sent_until: float

    def until(self, time: float) -> Samples:
        """Return the samples since the last call and before a time [s]."""
        start, self.sent_until = self.sent_until, max(self.sent_until, time)
        first, last = (sample_number(one, self.sensor.rate_hz) for one in (start, self.sent_until))
        found: Samples = self.sensor._sound(self.world, self.motion, first, last - first, self.seed, self.mount)
        return found


@dataclass
class _FaultyStream:
    """Stream of a sensor with faults."""

    sensor: StreamSensor[Any, Any]
    stream: SampleStream
    seed: int

    def until(self, time: float) -> Samples:
        """Return the samples since the last call and before a time [s]."""
        return self.sensor._faulty(self.stream.until(time), self.seed)


# ---- arguments ------------------------------------------------------------------------------------------------------


def place_of(motion: Trajectory, start: float) -> Pose:
    """Pose of a motion at the start of a frame [s]."""
    return motion.pose if isinstance(motion, Fixed) else pose_at(motion, start)


def checked_world(world: Any) -> World:
    """Return the world, or raise ConfigError if it is not a World."""
    if isinstance(world, Trajectory):
        raise ConfigError("run(world, motion) and measure(world, motion): got a trajectory first")
    if not isinstance(world, World):
        raise ConfigError(f"world: expected a parhelion World, got {type(world).__name__}")
    return world


def motion_of(
    world: World | None,
    motion: Trajectory | Pose | None,
    pose: Pose | None,
    trajectory: Trajectory | None,
    mount: Pose | None,
) -> Trajectory:
    """Motion of a sensor from the arguments of `measure`; by default, it rests at the viewpoint of the world."""
    given = {"motion": motion, "pose": pose, "trajectory": trajectory}
    names = [name for name, value in given.items() if value is not None]
    if len(names) > 1:
        raise ConfigError(f"give {' or '.join(names)}, not both")
    if pose is not None and not isinstance(pose, Pose):
        raise ConfigError(f"pose: expected a parhelion Pose, got {type(pose).__name__}")
    checked_mount(mount)
    if not names and world is None:
        raise ConfigError("motion: give a pose or a trajectory; without a world there is no viewpoint")
    moved = moved_by(given[names[0]] if names else cast(World, world).viewpoint, *names)
    if mount is None:
        return moved
    return Fixed(moved.pose @ mount) if isinstance(moved, Fixed) and trajectory is None else Mounted(moved, mount)


def checked_mount(mount: Any) -> Pose | None:
    """Return the pose of a sensor on its body, or raise ConfigError if it is not a Pose."""
    if mount is not None and not isinstance(mount, Pose):
        raise ConfigError(f"mount: expected a parhelion Pose, got {type(mount).__name__}")
    return mount


def moved_by(motion: Any, what: str = "motion") -> Trajectory:
    """Return a trajectory unchanged, or a fixed trajectory for a pose."""
    if isinstance(motion, Pose) and what != "trajectory":
        return Fixed(motion)
    if not isinstance(motion, Trajectory):
        raise ConfigError(f"{what}: expected an object with sample(times), got {type(motion).__name__}")
    return motion


def finite_time(time: float) -> float:
    """Return a time on the clock of the world [s], or raise ConfigError if it is not finite."""
    try:
        number = float(time)
    except (TypeError, ValueError, OverflowError):
        raise ConfigError(f"time: must be a number [s], got {time!r}") from None
    if not abs(number) <= LARGEST_TIME_S:
        raise ConfigError(f"time: must be finite and within ±{LARGEST_TIME_S:g} s, got {time!r}")
    return number
