"""A scenario: a world in which vehicles move, sensors measure, and time goes on in fixed steps."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core import config
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Trajectory
from parhelion.io import format_of
from parhelion.motion.state import BodyState
from parhelion.motion.vehicles.commands import Command
from parhelion.motion.water import CalmWater, GerstnerWater, GerstnerWave, OceanWater, Water
from parhelion.scenario.bodies import Body, body_of
from parhelion.scenario.populate import Populate
from parhelion.scenario.robots import OwnLidar, RobotOnBoard
from parhelion.scenario.schema import BodyShape, GerstnerEntry, OceanEntry, ScenarioFile, VehicleEntry, WorldEntry
from parhelion.scenario.sensors import OnBoard, SamplerOnBoard, ScannerOnBoard, on_board
from parhelion.sensors.lidar.lidar import own_name
from parhelion.weather.weather import Weather
from parhelion.world.world import World

Wanted = Callable[[str, int], bool]
"""Whether a scan, by sensor and number, is asked for."""


@dataclass
class Step:
    """One step of the clock, after it was taken."""

    number: int
    time: float
    """Time at the step's end [s]."""
    scans: dict[str, list[tuple[int, Any]]]
    """By lidar: numbers and scans that were finished in this step."""
    _scenario: Scenario = field(repr=False)
    _start: float = field(repr=False, default=0.0)

    def command(self, vehicle: str, command: Command) -> None:
        """Tell a vehicle what to do in the next step; it goes on until told otherwise."""
        self._scenario.command(vehicle, command)

    def state(self, vehicle: str) -> BodyState:
        """State of a vehicle at the step's end."""
        return self._scenario.body(vehicle).state(np.array([self.time]))

    def samples(self, sensor: str) -> Any:
        """What an IMU or other small sensor gave during this step."""
        return self._scenario.sampler(sensor).run(self._start, self.time - self._start, self._scenario.seed)


class Scenario:
    """A scenario by file, fields or checked configuration.

    scenario = Scenario.load("drive.yaml")
    scenario.run("out/")                                    # everything to files
    for step in scenario:                                   # or step by step, with commands
        step.command("robot", DriveCommand(0.5, 0.1))
    """

    def __init__(self, settings: ScenarioFile, folder: str | PathLike[str] = ".", source: str = "scenario") -> None:
        self.settings, self.folder, self.source = settings, Path(folder), source
        self.seed = settings.seed
        self._at("cloud_format", format_of, Path("cloud"), settings.cloud_format)
        self.water = _water(settings, self.seed)
        self.world = self._load_world()
        self.bodies: dict[str, Body] = {
            entry.name: self._at(f"vehicles[{row}]", body_of, entry, self.folder, self.water)
            for row, entry in enumerate(settings.vehicles)
        }
        self.robots: dict[str, RobotOnBoard] = {
            entry.name: self._at(f"vehicles[{row}].urdf", RobotOnBoard, entry.urdf, self.folder, self.duration_s)
            for row, entry in enumerate(settings.vehicles)
            if entry.urdf is not None
        }
        """Vehicles that have the body of a URDF file."""
        self.sensors: list[OnBoard] = [
            self._at(f"sensors[{row}]", on_board, entry, self.folder, self.bodies, self.robots)
            for row, entry in enumerate(settings.sensors)
        ]
        for row, entry in enumerate(settings.vehicles):
            if entry.body is not None:
                self._at(f"vehicles[{row}].body", self._show, entry, entry.body)
            if entry.urdf is not None:
                self._at(f"vehicles[{row}].urdf", self._show_robot, entry.name)
        self._commands: dict[str, Command] = {}
        self._begun = False

    @classmethod
    def load(cls, path: str | PathLike[str]) -> Scenario:
        """Read a scenario file."""
        file = Path(path)
        return cls(config.load(ScenarioFile, file), file.parent, str(path))

    @classmethod
    def from_mapping(cls, fields: Mapping[str, Any], folder: str | PathLike[str] = ".") -> Scenario:
        """From fields as a scenario file has them."""
        return cls(config.parse(ScenarioFile, dict(fields), "scenario"), folder)

    # ---- building ----------------------------------------------------------------------------------------------

    def _at(self, where: str, make: Callable[..., Any], *arguments: Any) -> Any:
        """Call a maker; what it says of wrong values is told with the file and the place in it."""
        try:
            return make(*arguments)
        except (ConfigError, FormatError) as error:
            raise ConfigError(f"{self.source}: {where}: {error}") from None

    def _load_world(self) -> World:
        entry = self.settings.world
        entry = WorldEntry(name=entry) if isinstance(entry, str) else entry
        name = entry.name
        is_file = Path(name).suffix != ""
        world: World = self._at(
            "world", lambda: World.load(self.folder / name if is_file else name, seed=entry.seed, **entry.params)
        )
        weather = self.settings.weather
        if isinstance(weather, dict):
            world.weather = Weather.from_mapping(weather, f"{self.source}: weather")
        elif weather is not None:
            world.weather = Weather.load(self.folder / weather)
        # A vessel may float in a world without water; there is nothing for waves to run over, then.
        if self.water is not None and any(item.label == "water" for item in world.objects):
            self._at("water", world.set_water, self.water)
        Populate(world, self.settings, self.folder, self.source).all()
        return world

    def _show(self, entry: VehicleEntry, shape: BodyShape) -> None:
        """Put a vehicle's body into the world, unseen by the sensors that it carries itself."""
        body = self.bodies[entry.name]
        carried = [own_name(sensor.name) for sensor in self.sensors if sensor.body is body]
        what: Any = self.folder / shape.mesh if shape.mesh is not None else shape.shape
        self.world.add_actor(
            what, material=shape.material, label=shape.label, name=entry.name, hidden_from=carried,
            trajectory=_OnBody(body.motion, shape.pose.pose()),
        )  # fmt: skip

    def _show_robot(self, name: str) -> None:
        """Put a URDF's links into the world; by default a lidar does not see the link that it sits in."""
        body = self.bodies[name]
        own = [OwnLidar(own_name(one.name), one.mount, one.entry.link) for one in self.scanners if one.body is body]
        self.robots[name].show(self.world, body.motion, name, own)

    # ---- asking ------------------------------------------------------------------------------------------------

    @property
    def duration_s(self) -> float:
        return self.settings.duration_s

    @property
    def steps(self) -> int:
        """Number of steps of the clock."""
        return max(1, round(self.settings.duration_s / self.settings.step_s))

    def body(self, name: str) -> Body:
        """A vehicle."""
        if name not in self.bodies:
            raise ConfigError(f"scenario: has no vehicle {name!r}; it has: {', '.join(self.bodies) or 'none'}")
        return self.bodies[name]

    @property
    def scanners(self) -> list[ScannerOnBoard]:
        """Its lidars."""
        return [sensor for sensor in self.sensors if isinstance(sensor, ScannerOnBoard)]

    @property
    def samplers(self) -> list[SamplerOnBoard]:
        """Its sensors that give streams of samples."""
        return [sensor for sensor in self.sensors if isinstance(sensor, SamplerOnBoard)]

    def own_instances(self, scanner: ScannerOnBoard) -> list[int]:
        """Numbers of the robot that carries a lidar: it may see itself, but is no thing to be found."""
        owned = (robot.instance for name, robot in self.robots.items() if self.bodies[name] is scanner.body)
        return [instance for instance in owned if instance is not None]

    def sampler(self, name: str) -> SamplerOnBoard:
        """A sensor that gives a stream of samples."""
        for sensor in self.samplers:
            if sensor.name == name:
                return sensor
        raise ConfigError(f"scenario: has no IMU or other small sensor {name!r}")

    @property
    def scan_count(self) -> int:
        """Number of scans of all lidars."""
        return sum(scanner.count(self.duration_s) for scanner in self.scanners)

    # ---- running -----------------------------------------------------------------------------------------------

    def command(self, vehicle: str, command: Command) -> None:
        """Tell a vehicle what to do in the next step."""
        self.body(vehicle)
        self._commands[vehicle] = command

    def __iter__(self) -> Iterator[Step]:
        return self.walk()

    def walk(self, wanted: Wanted = lambda sensor, number: True) -> Iterator[Step]:
        """Go through the steps of the clock from the beginning; of the scans, only those wanted are made."""
        if self._begun:
            for body in self.bodies.values():
                body.restart()
        self._begun = True
        self._commands.clear()
        done = {scanner.name: 0 for scanner in self.scanners}
        step_s = self.settings.step_s
        for number in range(self.steps):
            time = (number + 1) * step_s
            for name, body in self.bodies.items():
                body.advance(self._commands.pop(name, None), step_s)
            finished: dict[str, list[tuple[int, Any]]] = {}
            for scanner in self.scanners:
                last = number == self.steps - 1
                while self._is_over(scanner, done[scanner.name], time, last):
                    count = done[scanner.name]
                    if wanted(scanner.name, count):
                        finished.setdefault(scanner.name, []).append(
                            (count, scanner.scan(self.world, count, self.seed))
                        )
                    done[scanner.name] += 1
            yield Step(number, time, finished, self, time - step_s)

    def _is_over(self, scanner: ScannerOnBoard, number: int, time: float, last: bool) -> bool:
        """Whether a scan's last shot is not after a time."""
        if number >= scanner.count(self.duration_s):
            return False
        return last or scanner.start(number) + scanner.length_s <= time + 1e-12

    def run(self, folder: str | PathLike[str], **options: Any) -> Any:
        """Run it all and write what it gives; see `parhelion.scenario.output.run`."""
        from parhelion.scenario.output import run

        return run(self, Path(folder), **options)


class _OnBody:
    """The motion of something that is fixed to a body."""

    def __init__(self, body: Trajectory, pose: Pose) -> None:
        from parhelion.sensors.lidar.lidar import Mounted

        self._motion = Mounted(body, pose)

    def sample(self, times: Any) -> Any:
        """Positions and quaternions at times [s]."""
        return self._motion.sample(times)


def _water(settings: ScenarioFile, seed: int) -> Water | None:
    entry = settings.water
    if entry is None:
        return None
    if isinstance(entry, OceanEntry):
        return OceanWater(
            entry.wind_speed_m_s, entry.fetch_m, seed, direction_deg=entry.direction_deg, level_m=entry.level_m
        )
    if isinstance(entry, GerstnerEntry):
        waves = [
            GerstnerWave(wave.amplitude_m, wave.length_m, wave.direction_deg, wave.phase_deg) for wave in entry.waves
        ]
        return GerstnerWater(waves, level_m=entry.level_m)
    return CalmWater(entry.level_m)
