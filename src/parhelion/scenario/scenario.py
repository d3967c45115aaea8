"""A scenario: a world in which vehicles move and sensors measure, in fixed time steps."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.contact.bodies import Collision
from parhelion.contact.driver import ContactDriver
from parhelion.contact.hulls import HullDriver
from parhelion.contact.jointed import JointedDriver
from parhelion.core import config
from parhelion.core.checks import vector
from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError, FormatError, at_field
from parhelion.core.pose import Pose, checked_pose
from parhelion.core.reading import files_read
from parhelion.core.streams import Samples
from parhelion.core.trajectory import Mounted
from parhelion.io import format_of
from parhelion.motion.actors.live import LiveActors
from parhelion.motion.state import BodyState
from parhelion.motion.vehicles.base import Command
from parhelion.motion.wake import Wake, WaterWithWakes
from parhelion.motion.water import CalmWater, GerstnerWater, GerstnerWave, OceanWater, Water
from parhelion.scenario.bodies import Body, DrivenBody, JointedBody, LiveBody, MovedBody, body_of, size_of
from parhelion.scenario.drivers import Driver, ExternalDriver, KinematicDriver, RecordedDriver
from parhelion.scenario.fields import settings_of
from parhelion.scenario.populate import Populate, entity_motions, watch
from parhelion.scenario.raises import Plumes
from parhelion.scenario.robot_sheets import wheel_joints
from parhelion.scenario.robots import OwnLidar, RobotOnBoard
from parhelion.scenario.schema import (
    BodyShape,
    GerstnerEntry,
    OceanEntry,
    ScenarioFile,
    SensorEntry,
    VehicleEntry,
    WorldEntry,
)
from parhelion.scenario.sensors import FrameOnBoard, OnBoard, StreamOnBoard, on_board
from parhelion.sensors.base import SampleStream, private_key
from parhelion.sensors.optics.lidar.validity import Validity, validity_in
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import Weather
from parhelion.world.emitters import Sound
from parhelion.world.schema import weather_file
from parhelion.world.world import World

DRIVERS: dict[str, Callable[[], Driver]] = {
    "kinematic": KinematicDriver,
    "recorded": RecordedDriver,
    "external": ExternalDriver,
}
"""Drivers that need no world, by name."""
IN_CONTACT: dict[str, Callable[[World], Driver]] = {
    "rays": ContactDriver,
    "hull": HullDriver,
    "mujoco": JointedDriver,
}
"""Drivers of bodies in contact with the world, by name."""
InContact = ContactDriver | HullDriver | JointedDriver

Wanted = Callable[[str, int], bool]
"""Function that returns True if a frame, given by sensor and number, is to be measured."""
Between = Callable[[int, float], "str | None"]
"""Function that is called before each step with its number and the time [s]; a text ends the run for that reason."""
Edited = Callable[[str, Mapping[str, Any]], None]
"""Function that is called after each edit of a scenario with its name and arguments."""


@dataclass(slots=True)
class Step:
    """One completed step of a scenario's clock.

    >>> fields = {"duration_s": 0.1, "world": "cuboids", "vehicles": [{"name": "robot", "model": "clearpath/husky"}],
    ...           "sensors": [{"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "robot"}]}
    >>> step = next(iter(Scenario.from_mapping(fields)))
    >>> step.number, step.time, step.state("robot").xyz.shape
    (0, 0.01, (1, 3))
    """

    number: int
    """Number of the step, from 0."""
    time: float
    """Time at the end of the step [s]."""
    frames: dict[str, list[tuple[int, Any]]]
    """Numbers and records of the frames that were completed in this step, by sensor."""
    _scenario: Scenario = field(repr=False)
    _start: float = field(repr=False, default=0.0)
    _streams: Mapping[str, SampleStream] = field(repr=False, default_factory=dict)
    """Sources of samples by stream sensor; empty if samples are deferred to a later step."""
    collisions: list[Collision] = field(default_factory=list)
    """Contacts of vehicle hulls with the world in this step."""
    _samples: dict[str, Samples] | None = field(repr=False, default=None)

    @property
    def scans(self) -> dict[str, list[tuple[int, Scan]]]:
        """Numbers and scans that were completed in this step, by lidar."""
        lidars = {sensor.name for sensor in self._scenario.giving(Scan)}
        return {name: found for name, found in self.frames.items() if name in lidars}

    def command(self, vehicle: str, command: Command) -> None:
        """Give a vehicle a command for the next step; it holds until the next command."""
        self._scenario.command(vehicle, command)

    def move(
        self, vehicle: str, pose: Pose, velocity: ArrayLike | None = None, angular_velocity: ArrayLike | None = None
    ) -> None:
        """Give a vehicle with `dynamics: external` its state at the end of the next step; see `Scenario.move`."""
        self._scenario.move(vehicle, pose, velocity, angular_velocity)

    @property
    def world(self) -> World:
        """World of the scenario. Changes of objects, weather and daylight take effect from the next step on."""
        return self._scenario.world

    def attach(self, sensor: SensorEntry | Mapping[str, Any]) -> None:
        """Attach another sensor, which measures from now on; see `Scenario.attach`."""
        self._scenario.attach(sensor)

    def detach(self, sensor: str) -> None:
        """Remove a sensor; see `Scenario.detach`."""
        self._scenario.detach(sensor)

    def mount(self, sensor: str, pose: Pose) -> None:
        """Change the mount of a sensor from now on; see `Scenario.mount`."""
        self._scenario.mount(sensor, pose)

    def clearance(self, vehicle: str) -> float:
        """Horizontal distance [m] from a vehicle to the nearest solid obstacle; see `Scenario.clearance`."""
        return self._scenario.clearance(vehicle)

    def state(self, vehicle: str) -> BodyState:
        """Return the state of a vehicle at the end of the step."""
        return self._scenario.body(vehicle).state(np.array([self.time]))

    def samples(self, sensor: str) -> Any:
        """Return the samples of an IMU or other stream sensor in this step; possibly none."""
        rate_hz = self._scenario.stream_sensor(sensor).sensor.rate_hz
        found = self.new_samples()[sensor]
        # The new samples include those of earlier steps that were not requested. The margin allows for rounding: a
        # sample is stamped at the start of its period, or at its end if it accumulates over the period.
        return found.select(found.time >= self._start - 1e-6 / rate_hz)

    def new_samples(self) -> dict[str, Samples]:
        """Return all new samples since the last request, by stream sensor.

        They are measured once: further calls in this step return the same records.
        """
        if self._samples is None:
            self._samples = {name: stream.until(self.time) for name, stream in self._streams.items()}
        return self._samples


class Scenario:
    """A scenario from a file, a mapping or checked settings.

        scenario = Scenario.load("drive.yaml")
        scenario.run("out/")                                    # write all outputs
        for step in scenario:                                   # or step by step, with commands
            step.command("robot", DriveCommand(0.5, 0.1))

    >>> sensors = [{"name": "top", "type": "lidar", "model": "velodyne/vlp-16"}]
    >>> scenario = Scenario.from_mapping({"duration_s": 1.0, "world": "cuboids", "sensors": sensors})
    >>> scenario.steps, scenario.frame_count
    (100, 10)
    """

    def __init__(
        self,
        settings: ScenarioFile,
        folder: str | PathLike[str] = ".",
        source: str = "scenario",
        *,
        world: World | None = None,
        place: World | None = None,
    ) -> None:
        """Build a scenario from checked settings; `Scenario.load` reads a file.

        Args:
            settings: The checked fields.
            folder: Folder to which file names in the settings are relative.
            source: Name of the file in error messages.
            world: A world that was loaded for the same fields; only its weather is set.
            place: A world that replaces that of the settings; the scenario adds its water and its objects.
        """
        self.settings, self.folder, self.source = settings, Path(folder), source
        self.seed = settings.seed
        self.inputs: set[Path] = set()
        """Files that were read to build the scenario."""
        self.changes: dict[str, Any] = {}
        """Values by path in place of those of the file."""
        self._at("cloud_format", format_of, Path("cloud"), settings.cloud_format)
        self.water = _water(settings, self.seed)
        self._live: LiveActors | None = None
        self._raising: list[Any] = []
        self._entities: dict[str, Any] | None = None
        self.world = self._load_world(place) if world is None else world
        self._set_weather()
        self._drivers: dict[str, Driver] = {}
        self._ended: tuple[float, str] | None = None
        self.bodies: dict[str, Body] = {
            entry.name: self._at(f"vehicles[{row}]", self._body, entry) for row, entry in enumerate(settings.vehicles)
        }
        self.robots: dict[str, RobotOnBoard] = {
            entry.name: self._at(f"vehicles[{row}].urdf", RobotOnBoard, entry.urdf, self.folder, self.duration_s)
            for row, entry in enumerate(settings.vehicles)
            if entry.urdf is not None
        }
        """Vehicles with the body of a URDF file."""
        for name, robot in self.robots.items():
            if isinstance(body := self.bodies[name], JointedBody):
                robot.follow({joint: body.joint(joint) for joint in robot.positions})
            elif isinstance(body, DrivenBody) and body.chassis is not None:
                wheels = wheel_joints(robot, body.chassis)
                robot.follow({joint: body.wheel(*which) for joint, which in wheels.items()})
        self.sensors: list[OnBoard] = [
            self._at(f"sensors[{row}]", on_board, entry, self.folder, self.bodies, self.robots)
            for row, entry in enumerate(settings.sensors)
        ]
        for row, entry in enumerate(settings.vehicles):
            if entry.body is not None:
                self._at(f"vehicles[{row}].body", self._show, entry, entry.body)
            if entry.urdf is not None:
                self._at(f"vehicles[{row}].urdf", self._show_robot, entry.name)
        if world is None:
            for row, sound in enumerate(settings.sounds):
                self._at(f"sounds[{row}]", self._sound, sound)
        for row, sensor in enumerate(self.sensors):
            fits = getattr(sensor.sensor, "check_world", None)
            if fits is not None:
                self._at(f"sensors[{row}]: {sensor.name}", fits, self.world)
        self._reactions = {entry.name: entry.on_collision for entry in settings.vehicles}
        if self._live is not None:
            watch(self._live, self.world, self.bodies, settings.vehicles, self.folder)
        wakes = [
            self._at(f"vehicles[{row}].wake", self._wake, one) for row, one in enumerate(settings.vehicles) if one.wake
        ]
        if wakes and self.water is not None:
            self._at("water", self.world.set_water, WaterWithWakes(self.water, wakes))
        self._plumes = self._raised_plumes()
        self._plumes.attach(self.world)
        self._commands: dict[str, Command] = {}
        self._begun = False
        self.now_s = 0.0
        """Time [s] at the end of the last step."""
        self.detached: list[OnBoard] = []
        """Sensors that were detached in this run."""
        self.mount_changes = 0
        """Number of changed mounts, so that consumers can send them again."""
        self.on_edit: Edited | None = None
        """Function that is called after each edit of vehicles and sensors; None for none."""
        self.first_air = (self.world.weather, self.world.daylight)
        """Weather and daylight of the file."""
        self._done: dict[str, int] = {}
        self._streams: dict[str, SampleStream] = {}

    @classmethod
    def load(cls, path: str | PathLike[str], changes: Mapping[str, Any] | None = None) -> Scenario:
        """Read a scenario file; `changes` are other values by path, for example {"weather.rain_rate_mm_h": 25}."""
        with files_read() as inputs:
            made = cls(settings_of(path, changes or {}), Path(path).parent, str(path))
        made.inputs, made.changes = inputs, dict(changes or {})
        return made

    @classmethod
    def from_mapping(cls, fields: Mapping[str, Any], folder: str | PathLike[str] = ".") -> Scenario:
        """Build a scenario from the fields of a scenario file."""
        with files_read() as inputs:
            made = cls(config.parse(ScenarioFile, dict(fields), "scenario"), folder)
        made.inputs = inputs
        return made

    @property
    def weather_validity(self) -> dict[str, dict[str, Validity]]:
        """Validity of each graded sensor in each medium of the weather, by name of sensor and medium."""
        found = {one.name: validity_in(one.sensor, self.world.weather) for one in self.sensors}
        return {name: grades for name, grades in found.items() if grades}

    # ---- building ----------------------------------------------------------------------------------------------

    def _at(self, where: str, make: Callable[..., Any], *arguments: Any) -> Any:
        """Call `make`; its errors are raised with the file and the field."""
        try:
            return make(*arguments)
        except (ConfigError, FormatError) as error:
            raise ConfigError(f"{self.source}: {at_field(where, error)}") from None

    def _body(self, entry: VehicleEntry) -> Body:
        if entry.entity is None:
            return body_of(entry, self.folder, self.water, self._driver)
        if self._entities is None:
            self._entities = entity_motions(self.settings, self.folder, self.world)
        if entry.entity not in self._entities:
            known = ", ".join(self._entities)
            raise ConfigError(f"entity: the storyboard places no {entry.entity!r}; it places {known}")
        return MovedBody(entry.name, self._entities[entry.entity], self._driver("recorded"))

    def _driver(self, name: str) -> Driver:
        """Return the driver of a name, made for the first of its bodies."""
        if name not in self._drivers:
            made = IN_CONTACT[name](self.world) if name in IN_CONTACT else DRIVERS[name]()
            self._drivers[name] = made
        return self._drivers[name]

    def _advance(self, dt: float) -> list[Collision]:
        """Advance all bodies by one step and return the collisions."""
        for name, body in self.bodies.items():
            body.command(self._commands.pop(name, None))
        collisions: list[Collision] = []
        # Bodies in contact move last, so that all others are where they will be at the end of the step.
        for driver in sorted(self._drivers.values(), key=lambda one: isinstance(one, InContact)):
            moved = [body for body in self.bodies.values() if body.driver is driver]
            collisions += driver.step([body.next_command for body in moved], dt)
            for body in moved:
                body.record()
        return collisions

    def _react(self, collisions: list[Collision], time: float) -> None:
        """Stop vehicles or end the run after collisions, as their entries ask."""
        for one in collisions:
            body, reaction = self.bodies[one.body], self._reactions[one.body]
            if reaction == "stop" and isinstance(body, DrivenBody | JointedBody):
                body.stopped = True
            if reaction == "end" and self._ended is None:
                self._ended = (time, f"{one.body} hit {one.other}")

    def _load_world(self, place: World | None) -> World:
        entry = self.settings.world
        entry = WorldEntry(name=entry) if isinstance(entry, str) else entry
        name = entry.name
        is_file = Path(name).suffix != ""
        world: World = place or self._at(
            "world", lambda: World.load(self.folder / name if is_file else name, seed=entry.seed, **entry.params)
        )
        if self.settings.daylight is not None:
            world.daylight = self.settings.daylight
        # A vessel may float in a world without water; there is no surface for waves then.
        if self.water is not None and any(item.label == "water" for item in world.objects):
            self._at("water", world.set_water, self.water)
        populate = Populate(world, self.settings, self.folder, self.source)
        populate.all()
        self._live = None if populate.live.empty else populate.live
        self._raising, self._entities = populate.raising, populate.entities
        return world

    def _raised_plumes(self) -> Plumes:
        """Dust and spray of vehicles and traffic."""
        plumes = Plumes(self.world)
        for entry in self.settings.vehicles:
            plumes.add(entry, entry.name, self.bodies[entry.name].motion, **size_of(entry, self.folder))
        for cars, actors in self._raising:
            plumes.add_actors(cars, actors)
        return plumes

    def _wake(self, entry: VehicleEntry) -> Wake:
        """Wake of a vessel."""
        if self.water is None:
            raise ConfigError("there is no water for a wake; add water, for example {kind: calm}")
        size = {name: value for name, value in size_of(entry, self.folder).items() if name in ("length_m", "width_m")}
        return Wake(self.bodies[entry.name].motion, **{"length_m": 6.0, "width_m": 2.0, **size})

    @property
    def weather(self) -> Weather | None:
        """Weather of the world, which may be set between steps; None is clear air."""
        return self.world.weather

    @weather.setter
    def weather(self, weather: Weather | None) -> None:
        self.world.weather = weather

    @property
    def daylight(self) -> Daylight | None:
        """Sun and sky of the world, which may be set between steps; None is a clear day."""
        return self.world.daylight

    @daylight.setter
    def daylight(self, daylight: Daylight | None) -> None:
        self.world.daylight = daylight

    def _set_weather(self) -> None:
        weather = self.settings.weather
        if isinstance(weather, dict):
            self.world.weather = Weather.from_mapping(weather, config.At(self.source, "weather"))
        elif weather is not None:
            self.world.weather = self._at("weather", lambda: Weather.load(weather_file(self.folder, weather)))

    def _show(self, entry: VehicleEntry, shape: BodyShape) -> None:
        """Add a vehicle's body to the world, hidden from the sensors that it carries."""
        body = self.bodies[entry.name]
        carried = [private_key(sensor.name) for sensor in self.sensors if sensor.body is body]
        what: Any = self.folder / shape.mesh if shape.mesh is not None else shape.shape
        self.world.add_actor(
            what,
            material=shape.material,
            label=shape.label,
            name=entry.name,
            hidden_from=carried,
            trajectory=Mounted(body.motion, shape.pose.pose()),
        )

    def _show_robot(self, name: str) -> None:
        """Add the links of a URDF to the world; by default a lidar does not see the link that contains it."""
        body = self.bodies[name]
        own = [
            OwnLidar(private_key(one.name), one.mount, one.entry.link) for one in self.frame_sensors if one.body is body
        ]
        self.robots[name].show(self.world, body.motion, name, own)

    def _sound(self, sound: Sound) -> None:
        """Add a sound source to the world; on a vehicle, its position is in the vehicle frame, even without a body."""
        fields = sound.model_dump(exclude_defaults=True)
        if isinstance(sound.actor, str) and sound.actor in self.bodies:
            robot = self.robots.get(sound.actor)
            own = None if robot is None else robot.instance
            seen = (one for one in self.world.objects if one.name == sound.actor or one.instance == own)
            fields |= {"motion": self.bodies[sound.actor].motion, "carrier": next(seen, None)}
        self.world.add_sound(**fields, folder=self.folder)

    # ---- queries -----------------------------------------------------------------------------------------------

    @property
    def has_contact(self) -> bool:
        """True if a vehicle is in contact with the world (`dynamics: rays`, `hull` or `mujoco`)."""
        return any(isinstance(body.driver, InContact) for body in self.bodies.values())

    @property
    def ended(self) -> tuple[float, str] | None:
        """Time [s] and reason if the last run ended early, by `on_collision: end`."""
        return self._ended

    @property
    def duration_s(self) -> float:
        """Duration [s] of the scenario, or of its last run if that ended early."""
        return self.settings.duration_s if self._ended is None else self._ended[0]

    @property
    def steps(self) -> int:
        """Number of steps of the clock."""
        return max(1, round(self.duration_s / self.settings.step_s))

    def body(self, name: str) -> Body:
        """Return a vehicle by name."""
        if name not in self.bodies:
            raise ConfigError(f"scenario: no vehicle {name!r}; vehicles: {', '.join(self.bodies) or 'none'}")
        return self.bodies[name]

    @property
    def frame_sensors(self) -> list[FrameOnBoard]:
        """Sensors that measure frames."""
        return [sensor for sensor in self.sensors if isinstance(sensor, FrameOnBoard)]

    @property
    def stream_sensors(self) -> list[StreamOnBoard]:
        """Sensors that measure streams of samples."""
        return [sensor for sensor in self.sensors if isinstance(sensor, StreamOnBoard)]

    def giving(self, record: type) -> list[FrameOnBoard]:
        """Return the sensors whose frames have a record type, for example `Scan`."""
        return [sensor for sensor in self.frame_sensors if issubclass(sensor.record_type, record)]

    def own_instances(self, sensor: FrameOnBoard) -> list[int]:
        """Instance numbers of the robot that carries a sensor: visible to the sensor, but not an object to detect."""
        owned = (robot.instance for name, robot in self.robots.items() if self.bodies[name] is sensor.body)
        return [instance for instance in owned if instance is not None]

    def stream_sensor(self, name: str) -> StreamOnBoard:
        """Return a stream sensor by name."""
        for sensor in self.stream_sensors:
            if sensor.name == name:
                return sensor
        names = ", ".join(sensor.name for sensor in self.stream_sensors) or "none"
        raise ConfigError(f"scenario: no stream sensor {name!r}; stream sensors: {names}")

    @property
    def frame_count(self) -> int:
        """Number of frames of all frame sensors."""
        return sum(sensor.count(self.duration_s) for sensor in self.frame_sensors)

    # ---- running -----------------------------------------------------------------------------------------------

    def command(self, vehicle: str, command: Command) -> None:
        """Give a vehicle a command for the next step."""
        body = self.body(vehicle)
        if isinstance(body, DrivenBody):
            body.vehicle.check(command)
        elif not isinstance(body, JointedBody):
            body.command(command)  # refused
        self._commands[vehicle] = command
        self._report("command", vehicle=vehicle, command=command)

    def _report(self, edit: str, **arguments: Any) -> None:
        if self.on_edit is not None:
            self.on_edit(edit, arguments)

    def move(
        self, vehicle: str, pose: Pose, velocity: ArrayLike | None = None, angular_velocity: ArrayLike | None = None
    ) -> None:
        """Give a vehicle with `dynamics: external` its state at the end of the next step.

        Velocity [m/s] is in the world, angular velocity [rad/s] in the vehicle frame; by default both are means of the
        step. Without a new state the vehicle rests where it is.
        """
        body = self.body(vehicle)
        if not (isinstance(body, LiveBody) and isinstance(body.driver, ExternalDriver)):
            raise ConfigError(f"{vehicle}: is moved by the scenario; set dynamics: external to move it from outside")
        given = ((f"{vehicle}: velocity", velocity), (f"{vehicle}: angular_velocity", angular_velocity))
        rates = [None if value is None else np.array(vector(name, value, 3)) for name, value in given]
        body.driver.move(body.number, checked_pose(f"{vehicle}: pose", pose), *rates)
        self._report("move", vehicle=vehicle, pose=pose, velocity=rates[0], angular_velocity=rates[1])

    # ---- sensors at run time -----------------------------------------------------------------------------------

    def sensor(self, name: str) -> OnBoard:
        """Return a sensor by name."""
        for sensor in self.sensors:
            if sensor.name == name:
                return sensor
        raise ConfigError(f"scenario: no sensor {name!r}; sensors: {', '.join(one.name for one in self.sensors)}")

    def attach(self, sensor: SensorEntry | Mapping[str, Any]) -> OnBoard:
        """Attach another sensor; its fields are those of a sensor in a scenario file.

        The first frame or sample starts now, or at `phase_s` if that is later. Clouds, samples, truth and ROS messages
        of attached sensors are written like those of others; captures, data sets, Foxglove recordings and the report
        hold the sensors of the file only.
        """
        given = sensor.model_dump() if isinstance(sensor, SensorEntry) else sensor
        entry = config.parse(SensorEntry, given, "sensor")
        entry = entry.model_copy(update={"phase_s": max(entry.phase_s, self.now_s)})
        used = [one.name for one in (*self.sensors, *self.detached)]
        folders = [one.entry.folder or one.name for one in (*self.sensors, *self.detached)]
        if entry.name in used or (entry.folder or entry.name) in folders:
            raise ConfigError(f"sensor: the name or folder of {entry.name!r} was used in this run; choose another one")
        if entry.vehicle is not None:
            self.body(entry.vehicle)
        if entry.link is not None and entry.vehicle not in self.robots:
            raise ConfigError(f"sensor: link is for vehicles with a urdf; {entry.vehicle!r} has none")
        made: OnBoard = on_board(entry, self.folder, self.bodies, self.robots)
        fits = getattr(made.sensor, "check_world", None)
        if fits is not None:
            fits(self.world)
        if made.body is not None:
            # A sensor does not see the body of the vehicle that carries it.
            for item in self.world.objects:
                if item.name == entry.vehicle and item.is_actor:
                    self.world.revise(item, hidden_from=(*item.hidden_from, private_key(entry.name)))
        if isinstance(made, StreamOnBoard):
            self._streams[made.name] = made.stream(self.world, self.seed)
        self.sensors.append(made)
        self._report("attach", sensor=entry)
        return made

    def detach(self, name: str) -> None:
        """Remove a sensor. Frames that have not ended are lost."""
        sensor = self.sensor(name)
        if len(self.sensors) == 1:
            raise ConfigError(f"scenario: {name!r} is the only sensor; a scenario needs one")
        self.sensors.remove(sensor)
        sensor.until_s = self.now_s
        self._streams.pop(name, None)
        self.detached.append(sensor)
        self._report("detach", sensor=name)

    def mount(self, name: str, pose: Pose) -> None:
        """Change the mount of a frame sensor from now on: its pose on the vehicle, or in the world without one.

        Samples of an IMU or another stream sensor depend on its mount at all earlier times: detach it and attach
        another one instead.
        """
        sensor = self.sensor(name)
        if isinstance(sensor, StreamOnBoard):
            raise ConfigError(f"{name}: the mount of a stream of samples is fixed; detach it and attach another sensor")
        sensor.remount(self.now_s, checked_pose(f"{name}: pose", pose))
        self.mount_changes += 1
        self._report("mount", sensor=name, pose=pose)

    def clearance(self, vehicle: str) -> float:
        """Horizontal distance [m] from a vehicle in contact with the world to the nearest obstacle; inf without one.

        For vehicles with `dynamics: rays` or `hull`. Objects, other vehicles, actors and the edge of the world count
        from the lower to the upper side of the hull, up to 10 m; vegetation does not.
        """
        body = self.body(vehicle)
        if not (isinstance(body, DrivenBody) and isinstance(body.driver, ContactDriver | HullDriver)):
            raise ConfigError(
                f"{vehicle}: has no contact with the world; clearance is for vehicles with dynamics: rays or hull"
            )
        return float(body.driver.clearances()[body.number])

    def rewind(self) -> None:
        """Forget that a run ended early, before another one is prepared."""
        self._ended, self.now_s = None, 0.0

    def place(self, vehicle: str, start: Pose) -> None:
        """Set the start of a driven vehicle for the runs that begin after this call.

        World, ray scenes and kernels remain. Set `seed` as well for other noise.
        """
        self.body(vehicle).place(start)

    def __iter__(self) -> Iterator[Step]:
        return self.walk()

    def walk(
        self,
        wanted: Wanted = lambda sensor, number: True,
        *,
        batch_s: float = 0.0,
        between: Between | None = None,
        events: str | PathLike[str] | None = None,
    ) -> Generator[Step, None, None]:
        """Iterate over the steps of the clock from the beginning; only `wanted` frames are measured.

        Samples of stream sensors are measured once per `batch_s` [s], which costs much less than in every step. Edits
        of the loop body are logged to the file `events`, and `parhelion run --events` repeats them. `between` is called
        before each step.
        """
        if events is None:
            return self._walk(wanted, batch_s, between)
        from parhelion.scenario.events import logged

        return logged(self, events, self._walk(wanted, batch_s, between))

    def _walk(self, wanted: Wanted, batch_s: float, between: Between | None) -> Generator[Step, None, None]:
        self.rewind()
        if self._begun:
            for driver in self._drivers.values():
                driver.restart()
            if self._live is not None:
                self._live.restart()
            for body in self.bodies.values():
                body.restart()
            self._plumes.restart()
            for sensor in self.sensors:
                sensor.restart()
        self._begun = True
        self._commands.clear()
        self.detached.clear()
        done = self._done = {sensor.name: 0 for sensor in self.frame_sensors}
        self._streams = {one.name: one.stream(self.world, self.seed) for one in self.stream_sensors}
        sampled_until = 0.0
        step_s = self.settings.step_s
        for number in range(self.steps):
            if between is not None and (reason := between(number, number * step_s)) is not None:
                self._ended = (number * step_s, reason)
                return
            time = (number + 1) * step_s
            if self._live is not None:
                self._live.advance(number * step_s, time)
            collisions = self._advance(step_s)
            self._react(collisions, time)
            self._plumes.attach(self.world)  # to a weather that was set since the last step
            finished: dict[str, list[tuple[int, Any]]] = {}
            last = number == self.steps - 1
            for sensor in self.frame_sensors:
                while self._is_over(sensor, count := done.setdefault(sensor.name, 0), time, last):
                    if wanted(sensor.name, count):
                        finished.setdefault(sensor.name, []).append(
                            (count, sensor.measure(self.world, count, self.seed))
                        )
                    done[sensor.name] += 1
            due = last or self._ended is not None or time - sampled_until >= batch_s - 1e-9
            sampled_until = time if due else sampled_until
            self.now_s = time
            yield Step(number, time, finished, self, time - step_s, dict(self._streams) if due else {}, collisions)
            if self._ended is not None:
                return

    def _is_over(self, sensor: FrameOnBoard, number: int, time: float, last: bool) -> bool:
        """Return True if a frame ends at or before a time."""
        if number >= sensor.count(self.duration_s):
            return False
        return last or sensor.start(number) + sensor.length_s <= time + 1e-12

    def run(self, folder: str | PathLike[str], **options: Any) -> Any:
        """Run the scenario and write its outputs; see `parhelion.outputs.run.run`."""
        from parhelion.outputs.run import run

        return run(self, Path(folder), **options)


def _water(settings: ScenarioFile, seed: int) -> Water | None:
    entry = settings.water
    if entry is None:
        return None
    if isinstance(entry, OceanEntry):
        return OceanWater(seed=seed, **entry.model_dump(exclude={"kind"}))
    if isinstance(entry, GerstnerEntry):
        return GerstnerWater([GerstnerWave(**wave.model_dump()) for wave in entry.waves], level_m=entry.level_m)
    return CalmWater(entry.level_m)
