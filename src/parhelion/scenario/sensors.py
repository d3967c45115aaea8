"""Sensors of a scenario: each has its own rate, phase and mount."""

from __future__ import annotations

import re
import warnings
from collections.abc import Callable
from inspect import signature
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.clouds import PointCloud
from parhelion.core.consumers import Consumer
from parhelion.core.errors import ConfigError, FieldError, unknown_name
from parhelion.core.explain import got
from parhelion.core.image import Image
from parhelion.core.pose import Floats, Pose, quat_multiply, quat_rotate
from parhelion.core.streams import Samples
from parhelion.core.trajectory import Fixed, Mounted, Trajectory
from parhelion.io import format_of
from parhelion.io.images import image_format_of
from parhelion.scenario.bodies import Body, model_in
from parhelion.scenario.robots import RobotOnBoard
from parhelion.scenario.schema import SensorEntry
from parhelion.sensors.base import SampleStream
from parhelion.sensors.kinds import SensorKind, kind_named, kinds
from parhelion.world.world import World

SAMPLE_FORMATS = ("csv", "npz")


def _check_sample_format(file: Path, name: str) -> None:
    if name not in SAMPLE_FORMATS:
        raise unknown_name("format of samples", name, SAMPLE_FORMATS)


FILE_FORMATS: Consumer[Callable[[Path, str], Any]] = Consumer(
    "file formats", {PointCloud: format_of, Image: image_format_of, Samples: _check_sample_format}
)
"""Functions that find a file format by its name, or raise an error that lists all names."""


class MovedMount:
    """Motion of a sensor whose mount was changed: each mount holds from its time on."""

    def __init__(self, body: Trajectory, since_s: list[float], mounts: list[Pose]) -> None:
        self.body, self._since_s = body, np.array(since_s)
        self._xyz = np.stack([mount.xyz for mount in mounts])
        self._quat = np.stack([mount.quat_xyzw for mount in mounts])

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and quaternions (n, 4) at times (n,) [s]."""
        xyz, quat = self.body.sample(times)
        which = np.clip(np.searchsorted(self._since_s, np.asarray(times), side="right") - 1, 0, None)
        return xyz + quat_rotate(quat, self._xyz[which]), quat_multiply(quat, self._quat[which])


class _OnBoard:
    """Base class of the sensors of a scenario."""

    until_s = np.inf
    """Time [s] at which the sensor was detached; infinite while it is attached."""

    def __init__(self, kind: SensorKind, entry: SensorEntry, folder: Path, body: Body | None, mount: Pose) -> None:
        self.kind, self.entry, self.name, self.body, self.mount = kind, entry, entry.name, body, mount
        self.record_type = kind.record_type
        """Type of the measured records; consumers dispatch on it."""
        if entry.format is not None:
            FILE_FORMATS.require(self.record_type)(Path("record"), entry.format)  # reports an unknown format early
        options = _options(kind, entry, folder)
        if entry.rate_hz is not None:
            options["rate_hz"] = entry.rate_hz
        self.sensor: Any = _made(kind, entry, model_in(folder, entry.model), {"name": entry.name, **options})
        if entry.faults.present():
            self.sensor = self.sensor.with_faults(entry.faults)
        self._first_mount = mount
        self._mounts: list[tuple[float, Pose]] = []

    @property
    def motion(self) -> Trajectory:
        """Motion of the sensor in the world."""
        if self._mounts:
            body = Fixed(Pose()) if self.body is None else self.body.motion
            since = [0.0, *(time for time, _ in self._mounts)]
            return MovedMount(body, since, [self._first_mount, *(mount for _, mount in self._mounts)])
        return Fixed(self.mount) if self.body is None else Mounted(self.body.motion, self.mount)

    def remount(self, time_s: float, mount: Pose) -> None:
        """Change the mount from a time [s] on."""
        if self._mounts and self._mounts[-1][0] == time_s:
            self._mounts.pop()
        self._mounts.append((time_s, mount))
        self.mount = mount

    def restart(self, *, first_mount: bool = False) -> None:
        """Begin again with the current mount, or with the first one."""
        self.mount = self._first_mount if first_mount else self.mount
        self._first_mount = self.mount
        self._mounts.clear()


class FrameOnBoard(_OnBoard):
    """A sensor that measures frames, for example a lidar. Its `sensor` is a `FrameSensor`."""

    def __init__(self, kind: SensorKind, entry: SensorEntry, folder: Path, body: Body | None, mount: Pose) -> None:
        super().__init__(kind, entry, folder, body, mount)
        self.period_s = 1.0 / float(self.sensor.rate_hz)
        self.length_s = float(self.sensor.frame_duration_s)
        """Time [s] from the start of a frame to its last measurement."""
        self.folder_name = entry.folder or entry.name
        """Name of the folder of the frames, one file per frame."""

    def start(self, number: int) -> float:
        """Start time of frame `number` [s]."""
        return self.entry.phase_s + number * self.period_s

    def count(self, duration_s: float) -> int:
        """Number of complete frames in a run, until the sensor is detached."""
        latest_s = min(duration_s, self.until_s) - self.entry.phase_s - self.length_s
        return max(0, int(np.floor(latest_s / self.period_s + 1e-9)) + 1) if latest_s >= -1e-9 else 0

    def measure(self, world: World, number: int, seed: int) -> Any:
        """Measure frame `number`."""
        return self.sensor.measure(world, self.motion, self.start(number), seed, frame=number)


class StreamOnBoard(_OnBoard):
    """A sensor that measures a stream of samples, for example an IMU. Its `sensor` is a `StreamSensor`."""

    def __init__(self, kind: SensorKind, entry: SensorEntry, folder: Path, body: Body | None, mount: Pose) -> None:
        super().__init__(kind, entry, folder, body, mount)
        if body is None and not getattr(self.sensor, "allow_static", True):
            raise ConfigError("vehicle: is required (the name of the vehicle that carries it)")

    def stream(self, world: World, seed: int) -> SampleStream:
        """Return the source of samples from the phase on."""
        motion, mount = (Fixed(self.mount), Pose()) if self.body is None else (self.body.motion, self.mount)
        found: SampleStream = self.sensor.stream(world, motion, seed, mount=mount, start=self.entry.phase_s)
        return found

    def example(self, world: World, seed: int) -> Samples:
        """Return one sample at rest at the world's origin, as an example of the sensor's records."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # the origin may be inside of an object, which does not matter here
            found: Samples = self.sensor.run(world, Fixed(Pose()), 0.0, 1.0 / self.sensor.rate_hz, seed)
        return found


OnBoard = FrameOnBoard | StreamOnBoard


def on_board(entry: SensorEntry, folder: Path, bodies: dict[str, Body], robots: dict[str, RobotOnBoard]) -> OnBoard:
    """Return the sensor of an entry."""
    body = None if entry.vehicle is None else bodies[entry.vehicle]
    mount = entry.mount.pose()
    if entry.link is not None and entry.vehicle is not None:
        mount = robots[entry.vehicle].mount(entry.link) @ mount
    kind = kind_named(entry.type)
    if kind.output == "frames":
        return FrameOnBoard(kind, entry, folder, body, mount)
    return StreamOnBoard(kind, entry, folder, body, mount)


def _options(kind: SensorKind, entry: SensorEntry, folder: Path) -> dict[str, Any]:
    """Options of an entry; the paths of files among them are relative to the scenario."""
    taken = signature(kind.sensor).parameters
    files = {name for name in entry.options if name in taken and "PathLike" in str(taken[name].annotation)}
    for name, value in entry.options.items():
        if name in taken and taken[name].annotation in (bool, "bool") and not isinstance(value, bool):
            raise FieldError(f"options.{name}: expected true or false, {got(value)}")
    return {
        name: str(folder / value) if name in files and isinstance(value, str) else value
        for name, value in entry.options.items()
    }


def _made(kind: SensorKind, entry: SensorEntry, model: str, options: dict[str, Any]) -> Any:
    try:
        return kind.sensor(model, **options)
    except TypeError as error:
        taken = signature(kind.sensor).parameters
        unknown = next((name for name in entry.options if name not in taken), None)
        if unknown is not None:
            known = [name for name in taken if name != "model"]
            raise FieldError(f"options.{unknown}: {unknown_name('option of this sensor', unknown, known)}") from None
        raise FieldError(f"options: do not fit a {entry.type} ({error})") from None
    except ConfigError as error:
        raise _in_entry(str(error), kind, entry, model) from None


def _in_entry(text: str, kind: SensorKind, entry: SensorEntry, model: str) -> ConfigError:
    """Error of a sensor with the field of its entry: the model, the rate, or an option."""
    for other in kinds().values():
        if other is not kind and entry.model.lower() in other.preset_names():
            return FieldError(f"model: {entry.model!r} is a {other.name}, not a {kind.name}; write type: {other.name}")
    if text.startswith((f"unknown {kind.name} ", model)):
        return FieldError(f"model: {text}")
    named = re.match(r"(?:[^:]*: )?(?:\w+\.)?(\w+): ", text)
    if named is not None and named[1] in entry.options:
        return FieldError(f"options.{named[1]}: {text[named.end() :]}")
    if named is not None and named[1] == "rate_hz":
        return FieldError(f"rate_hz: {text[named.end() :]}")
    return ConfigError(text)
