"""The sensors of a scenario: each measures at its own rate and phase, from what it is mounted on."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.io import format_of
from parhelion.scenario.bodies import Body
from parhelion.scenario.robots import RobotOnBoard
from parhelion.scenario.schema import SensorEntry
from parhelion.sensors.barometer import Barometer
from parhelion.sensors.imu.imu import Imu
from parhelion.sensors.lidar.lidar import Lidar, Mounted
from parhelion.sensors.magnetometer import Magnetometer
from parhelion.sensors.odometry import Odometry
from parhelion.world.world import World

SAMPLED: dict[str, Any] = {"imu": Imu, "odometry": Odometry, "barometer": Barometer, "magnetometer": Magnetometer}
"""Sensors that give a stream of samples, by type."""


class ScannerOnBoard:
    """A lidar: one cloud a turn or frame."""

    def __init__(self, entry: SensorEntry, folder: Path, body: Body | None, mount: Pose) -> None:
        self.entry, self.name, self.body = entry, entry.name, body
        options = dict(entry.options)
        if entry.rate_hz is not None:
            options["rate_hz"] = entry.rate_hz
        self.lidar: Lidar = _made(entry, Lidar, _model(entry, folder), {"name": entry.name, **options})
        if entry.format is not None:
            format_of(Path("cloud"), entry.format)  # an unknown one is told now, not at the first scan
        self.mount = mount
        self.period_s = 1.0 / self.lidar.rate_hz
        self.length_s = float(self.lidar.shots(0.0).time.max(initial=0.0))
        """Time [s] from a scan's start to its last shot."""

    @property
    def motion(self) -> Trajectory:
        """The sensor's own motion in the world."""
        return Fixed(self.mount) if self.body is None else Mounted(self.body.motion, self.mount)

    def start(self, number: int) -> float:
        """When scan `number` begins [s]."""
        return self.entry.phase_s + number * self.period_s

    def count(self, duration_s: float) -> int:
        """How many whole scans a run has."""
        room = duration_s - self.entry.phase_s - self.length_s
        return max(0, int(np.floor(room / self.period_s + 1e-9)) + 1) if room >= -1e-9 else 0

    def scan(self, world: World, number: int, seed: int) -> Any:
        """Scan `number`."""
        return self.lidar.scan(world, trajectory=self.motion, time=self.start(number), seed=seed, frame=number)


class SamplerOnBoard:
    """A sensor that gives a stream of samples."""

    def __init__(self, entry: SensorEntry, folder: Path, body: Body | None, mount: Pose) -> None:
        if body is None and entry.type != "barometer":
            raise ConfigError(f"sensors: {entry.name}: say which vehicle it is on")
        self.entry, self.name, self.body = entry, entry.name, body
        options = dict(entry.options)
        if entry.rate_hz is not None:
            options["rate_hz"] = entry.rate_hz
        self.sensor: Any = _made(entry, SAMPLED[entry.type], _model(entry, folder), {"name": entry.name, **options})
        self.mount = mount

    def run(self, start: float, duration: float, seed: int) -> Any:
        """All samples from a time [s] on."""
        if self.body is None:
            return self.sensor.run(Fixed(self.mount), start, duration, seed, Pose())
        return self.sensor.run(self.body.motion, start, duration, seed, self.mount)


OnBoard = ScannerOnBoard | SamplerOnBoard


def on_board(entry: SensorEntry, folder: Path, bodies: dict[str, Body], robots: dict[str, RobotOnBoard]) -> OnBoard:
    """The sensor that a scenario's entry describes."""
    body = None if entry.vehicle is None else bodies[entry.vehicle]
    mount = entry.mount.pose()
    if entry.link is not None and entry.vehicle is not None:
        mount = robots[entry.vehicle].mount(entry.link) @ mount
    if entry.type == "lidar":
        return ScannerOnBoard(entry, folder, body, mount)
    return SamplerOnBoard(entry, folder, body, mount)


def _model(entry: SensorEntry, folder: Path) -> str:
    """A preset's name, or the path of a sheet beside the scenario."""
    if entry.model.lower().endswith((".yaml", ".yml")):
        return str(folder / entry.model)
    return entry.model


def _made(entry: SensorEntry, kind: Any, model: str, options: dict[str, Any]) -> Any:
    try:
        return kind(model, **options)
    except TypeError as error:
        raise ConfigError(f"sensors: {entry.name}: options do not fit a {entry.type} ({error})") from None
    except ConfigError as error:
        raise ConfigError(f"sensors: {entry.name}: {error}") from None
