"""A bridge to another simulator: it moves the bodies, and Parhelion's sensors measure.

    bridge = Bridge("warehouse", seed=7)
    bridge.add_body("cart", shapes.box(1, 0.6, 0.8), material="steel", label="cart")
    bridge.attach(Lidar("velodyne/vlp-16", name="top"), "cart", mount=Pose(xyz=(0, 0, 0.5)))
    for one in bridge.step(time, {"cart": (xyz, quat_xyzw)}):          # their clock leads
        one.sensor, one.record
    for one in bridge.run(advance, until=10.0, dt=0.01):               # ours leads: advance(time) returns the poses
        ...

A frame is measured when all poses up to its end are known: records are at most one frame older than the newest pose.
"""

from __future__ import annotations

import gzip
import json
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np

from parhelion.core.errors import ConfigError, FormatError, unknown_name
from parhelion.core.noise import sample_number
from parhelion.core.pose import LARGEST_POSITION_M, Floats, Pose
from parhelion.core.trajectory import Fixed, Mounted, Trajectory
from parhelion.motion.actors import set_mobility
from parhelion.motion.actors.body import one_body
from parhelion.motion.pushed import COLUMNS, PushedMotion, PushedValue
from parhelion.scenario.robots import OwnLidar, RobotOnBoard, UrdfEntry
from parhelion.sensors.base import FrameSensor, SampleStream, StreamSensor, finite_time, private_key
from parhelion.sensors.kinds import kind_named
from parhelion.weather.weather import Weather
from parhelion.world.kit.props import KitPart
from parhelion.world.mjcf import MjcfBody, MujocoScene, material_of
from parhelion.world.usd_bodies import UsdBody, UsdScene
from parhelion.world.world import World

HISTORY_S = 1.0
"""Time [s] before the oldest frame to be measured for which poses remain: delays of sensors are shorter."""
LOG_VERSION = 1

PoseLike = Any
"""A `Pose`; (xyz, quat_xyzw); (xyz, quat_xyzw, velocity, angular_velocity); or these as 7 or 13 numbers."""


class BridgeRecord(NamedTuple):
    """A measurement that is due."""

    sensor: str
    """Name of the sensor."""
    number: int
    """Number of the frame, or of the first sample: time times rate."""
    record: Any
    """The record, for example a `Scan` or `ImuData`."""


@dataclass
class _Sensor:
    """An attached sensor and the measurements that it has made."""

    sensor: Any
    body: str | None
    mount: Pose
    phase_s: float
    link: str | None
    motion: Trajectory = field(default_factory=lambda: Fixed(Pose()))
    next_frame: int = 0
    """Number of the next frame or sample."""
    stream: SampleStream | None = None

    @property
    def period_s(self) -> float:
        return 1.0 / float(self.sensor.rate_hz)

    def start(self, number: int) -> float:
        """Start of a frame [s]."""
        return self.phase_s + number * self.period_s


class Bridge:
    """A world whose moving bodies are placed by another simulator, with sensors on them.

    Describe the scene first (`add_body`, `add_urdf`, `add_mjcf`, `add_usd`, `attach`), then push poses. The same pushes
    and requests give the same bits; `log` records them, and `replay` repeats them.

    Args:
        world: The static world: a `World`, or the name or file of one.
        seed: Seed of all random numbers.
        log: File for all pushes (.jsonl or .jsonl.gz), or None.

    >>> bridge = ph.Bridge(ph.World(), seed=7)
    >>> bridge.add_body("cart", ph.shapes.box(1, 1, 1), material="steel")
    >>> bridge.attach(ph.Imu("xsens/mti-3", name="imu"), "cart")
    >>> for k in range(3):
    ...     found = bridge.step(0.02 * k, {"cart": ph.Pose(xyz=(0.01 * k, 0, 0))})
    >>> found[0].record.time.tolist()
    [0.02, 0.03]
    """

    def __init__(
        self, world: World | str | PathLike[str], *, seed: int = 0, log: str | PathLike[str] | None = None
    ) -> None:
        self.world = world if isinstance(world, World) else World.load(world)
        self.seed = int(seed)
        self.bodies: dict[str, PushedMotion] = {}
        """Motions of the bodies by name."""
        self.joints: dict[str, PushedValue] = {}
        """Positions of the joints of URDF robots, by `robot/joint`."""
        self._shapes: dict[str, tuple[Any, dict[str, Any]]] = {}
        self._robots: dict[str, RobotOnBoard] = {}
        self._sensors: dict[str, _Sensor] = {}
        self._begun_at: float | None = None
        self._measured_until = -math.inf
        self._log_path = None if log is None else Path(log)
        self._log: IO[str] | None = None

    @property
    def weather(self) -> Weather | None:
        """Weather of the world, which may be set between steps and is not part of the log; None is clear air."""
        return self.world.weather

    @weather.setter
    def weather(self, weather: Weather | None) -> None:
        self.world.weather = weather

    # ---- scene -----------------------------------------------------------------------------------------------------

    def add_body(self, name: str, mesh: Any = None, *, pose: Pose = Pose(), **options: Any) -> None:
        """Add a body that poses will be pushed for.

        Args:
            name: Name in `push`.
            mesh: Its shape, as for `World.add_actor`; None for a body that is not visible.
            pose: Pose until the first push.
            options: Options of `World.add_actor`: material, label and others.
        """
        self._describe(name)
        self.bodies[name] = PushedMotion(pose)
        if mesh is not None:
            self._shapes[name] = (mesh, options)

    def add_urdf(self, file: str | PathLike[str], name: str = "robot", **options: Any) -> None:
        """Add the robot of a URDF file: the pose of its root link is pushed as `name`, joints as `name/joint`.

        `options` are the fields of `vehicles[].urdf` in scenario files: packages, shapes, label, material and others.
        """
        self._describe(name)
        path = Path(file)
        robot = RobotOnBoard(UrdfEntry(file=path.name, **options), path.parent, 0.0)
        self.bodies[name] = PushedMotion(Pose())
        values = {joint: PushedValue(position) for joint, position in robot.positions.items()}
        self.joints |= {f"{name}/{joint}": value for joint, value in values.items()}

        def law(joint: str) -> Callable[[Floats], Floats]:
            source, factor, offset = robot.source(joint)
            return lambda times: factor * values[source](times) + offset

        robot.follow({joint: law(joint) for joint in robot.positions})
        self._robots[name] = robot

    def add_mjcf(
        self,
        model: Any,
        *,
        material: str = "plastic",
        materials: Mapping[str, str] | None = None,
        label: str = "object",
        static_material: str = "concrete",
        static_label: str = "structure",
    ) -> MujocoScene:
        """Add the bodies of a MuJoCo model (`mujoco.MjModel` or file); bodies that cannot move become static objects.

        Push `scene.poses(data)` of the returned scene after each step.

        Args:
            model: The model.
            material: Material of moving bodies.
            materials: Materials by name of a geom, of a material in the model, or of a body.
            label: Label of moving bodies.
            static_material: Material of static bodies.
            static_label: Label of static bodies.
        """
        scene = MujocoScene(model)
        self._add_parts(scene.bodies, materials or {}, (material, label), (static_material, static_label))
        return scene

    def add_usd(
        self,
        file: str | PathLike[str],
        *,
        material: str = "plastic",
        materials: Mapping[str, str] | None = None,
        label: str = "object",
        static_material: str = "concrete",
        static_label: str = "structure",
    ) -> UsdScene:
        """Add the geometry of a USD stage: rigid bodies (`PhysicsRigidBodyAPI`) move, all else is static.

        Push poses by the names of `scene.bodies` of the returned scene; `scene.pose_of(matrix)` converts transforms of
        USD.

        Args:
            file: .usd, .usda, .usdc or .usdz.
            material: Material of moving bodies.
            materials: Materials by path of a prim, by name of a material in the stage, or by name of a body.
            label: Label of moving bodies.
            static_material: Material of static geometry.
            static_label: Label of static geometry.
        """
        scene = UsdScene(file)
        self._add_parts(scene.bodies, materials or {}, (material, label), (static_material, static_label))
        return scene

    def _add_parts(
        self,
        bodies: Iterable[MjcfBody | UsdBody],
        materials: Mapping[str, str],
        moving: tuple[str, str],
        static: tuple[str, str],
    ) -> None:
        """Add the bodies of a file: moving ones as bodies, others as static objects; pairs are material and label."""
        for body in bodies:
            default, label = moving if body.moves else static
            chosen = [
                KitPart(one.name, one.mesh, material_of(one, body.name, materials, default), label)
                for one in body.geoms
            ]
            mesh, kinds = one_body(chosen)
            if body.moves:
                self.add_body(body.name, mesh, pose=body.start, label=label, **kinds)
            else:
                self.world.add(mesh, pose=body.start, label=label, name=body.name, **kinds)

    def attach(
        self,
        sensor: FrameSensor[Any, Any] | StreamSensor[Any, Any],
        body: str | None = None,
        mount: Pose = Pose(),
        *,
        link: str | None = None,
        phase_s: float = 0.0,
    ) -> None:
        """Attach a sensor of any kind, which has a name, to a body, or to the world if no body is given.

        A body is not visible to its own sensors; of a URDF robot, the links that contain a sensor are not.

        Args:
            sensor: The sensor, for example `Lidar("velodyne/vlp-16", name="top")`.
            body: Name of a body.
            mount: Pose of the sensor on the body, on the link, or in the world.
            link: Link of a URDF robot.
            phase_s: Start of frame 0, or of the first sample [s].
        """
        if not isinstance(sensor, (FrameSensor, StreamSensor)):
            raise ConfigError(f"attach: expected a sensor, got {type(sensor).__name__}")
        if self._begun_at is not None:
            raise ConfigError("attach: the scene is complete after the first push; attach sensors before it")
        if not sensor.name or sensor.name in self._sensors:
            problem = "has no name" if not sensor.name else f"{sensor.name!r} is attached already"
            raise ConfigError(f"attach: {sensor.label} {problem}; give each sensor its own name=")
        if body is not None and body not in self.bodies:
            raise unknown_name("body", body, self.bodies)
        if body is None and not getattr(sensor, "allow_static", True):
            raise ConfigError(f"attach: {sensor.label} measures motion; give the body that carries it")
        if link is not None:
            if body not in self._robots:
                raise ConfigError("attach: link is for robots of add_urdf")
            mount = self._robots[body].mount(link) @ mount
        self._sensors[sensor.name] = _Sensor(sensor, body, mount, finite_time(phase_s), link)

    def sensors_on(self, body: str | None, record: type | None = None) -> list[Any]:
        """Return the sensors that are attached to a body, or to the world; with `record`, those with such records."""
        found = [one.sensor for one in self._sensors.values() if one.body == body]
        if record is None:
            return found
        return [one for one in found if issubclass(kind_named(one.kind).record_type, record)]

    def _describe(self, name: str) -> None:
        if self._begun_at is not None:
            raise ConfigError("bridge: the scene is complete after the first push; add bodies before it")
        if name in self.bodies:
            raise ConfigError(f"bridge: body {name!r} exists already; give each body its own name")

    def _begin(self, time: float) -> None:
        """Complete the scene at the first push."""
        self._begun_at = time
        carried: dict[str, list[_Sensor]] = {name: [] for name in self.bodies}
        for one in self._sensors.values():
            if one.body is None:
                one.motion = Fixed(one.mount)
            else:
                one.motion = Mounted(self.bodies[one.body], one.mount)
                carried[one.body].append(one)
        for name, (mesh, options) in self._shapes.items():
            own = [private_key(one.sensor.name) for one in carried[name]]
            hidden = options.get("hidden_from", ())
            hidden = [hidden] if isinstance(hidden, str) else list(hidden)
            item = self.world.add_actor(
                mesh, trajectory=self.bodies[name], **{"name": name, **options, "hidden_from": hidden + own}
            )
            set_mobility(self.world, item.instance, "dynamic")
        for name, robot in self._robots.items():
            lidars = [OwnLidar(private_key(one.sensor.name), one.mount, one.link) for one in carried[name]]
            robot.show(self.world, self.bodies[name], name, lidars)
        for one in self._sensors.values():
            fits = getattr(one.sensor, "check_world", None)
            if fits is not None:
                fits(self.world)
            if isinstance(one.sensor, FrameSensor):
                one.next_frame = max(0, math.ceil((time - one.phase_s) / one.period_s - 1e-9))
        if self._log_path is not None:
            self._log = _opened(self._log_path, "wt")
            self._write(self._header())

    # ---- poses -----------------------------------------------------------------------------------------------------

    @property
    def time(self) -> float:
        """Time [s] of the newest pose of any body; -inf before the first push."""
        return max((motion.newest for motion in self.bodies.values()), default=-math.inf)

    def push(self, time: float, poses: Mapping[str, PoseLike], joints: Mapping[str, float] | None = None) -> None:
        """Give the poses of bodies at a time [s], later than their earlier ones.

        Velocities are optional: in the world [m/s], and about the axes of the body [rad/s]. Bodies that are not named
        keep their pose; they may be pushed on their own, for times that no measurement has needed yet.

        Args:
            time: Time [s] on the clock of the other simulator, which is also that of the world.
            poses: A `Pose`, or (xyz, quat_xyzw) with or without (velocity, angular_velocity), by name of the body.
            joints: Positions [rad or m] of joints of URDF robots, by `robot/joint`.
        """
        clock = finite_time(time)
        rows = {name: self._row(name, pose) for name, pose in poses.items()}
        values = {name: self._value(name, value) for name, value in (joints or {}).items()}
        newest = max([self._measured_until, *(self.bodies[name].newest for name in rows)])
        if not clock > newest:
            raise ConfigError(
                f"push: time {clock:.9g} s is not after {newest:.9g} s, up to which poses are known; push in the order "
                "of time"
            )
        if self._begun_at is None:
            self._begin(clock)
        for name, row in rows.items():
            self.bodies[name].push_row(clock, row)
        for name, value in values.items():
            self.joints[name].push(clock, value)
        if self._log is not None:
            plain = {name: [None if math.isnan(one) else one for one in row.tolist()] for name, row in rows.items()}
            self._write({"time": clock, "poses": plain, **({"joints": values} if values else {})})

    def _row(self, name: str, pose: PoseLike) -> Floats:
        if name not in self.bodies:
            raise unknown_name("body", name, self.bodies)
        row = np.full(COLUMNS, np.nan)
        try:
            if isinstance(pose, Pose):
                given = np.concatenate([pose.xyz, pose.quat_xyzw])
            elif isinstance(pose, np.ndarray) and pose.ndim == 1:
                given = pose.astype(np.float64)
            else:
                parts = [[np.nan] * 3 if part is None else np.asarray(part, np.float64).ravel() for part in pose]
                given = np.concatenate(parts)
            if len(given) not in (7, COLUMNS):
                raise ValueError
        except (TypeError, ValueError):
            raise ConfigError(
                f"push: {name}: expected a Pose, (xyz, quat_xyzw) or (xyz, quat_xyzw, velocity, angular_velocity)"
            ) from None
        row[: len(given)] = given
        length = float(np.sqrt(np.sum(row[3:7] ** 2)))
        if not np.all(np.abs(row[:3]) <= LARGEST_POSITION_M) or np.any(np.isinf(row)):
            raise ConfigError(f"push: {name}: position and velocity must be finite, got {row[:3].tolist()}")
        if not abs(length - 1.0) <= 1e-2:
            raise ConfigError(f"push: {name}: quat_xyzw must be a unit quaternion, got one of length {length:g}")
        if abs(length - 1.0) > 1e-12:
            row[3:7] /= length
        return row

    def _value(self, name: str, value: Any) -> float:
        if name not in self.joints:
            raise unknown_name("joint", name, self.joints)
        if not math.isfinite(value):
            raise ConfigError(f"push: {name}: must be a finite number, got {value!r}")
        return float(value)

    # ---- records ---------------------------------------------------------------------------------------------------

    def records(self, until: float | None = None) -> list[BridgeRecord]:
        """Return the measurements that are due: frames that end by `until` [s], and samples before it.

        By default `until` is the time of the newest pose. Bodies with older poses rest there; give the time up to which
        all poses are known if bodies are pushed at different times.
        """
        if self._begun_at is None:
            return []
        end = self.time if until is None else finite_time(until)
        if end > self.time:
            raise ConfigError(f"records: poses are known until {self.time:.9g} s, not {end:.9g} s; push them first")
        if end <= self._measured_until:
            return []
        for motion in self._pushed():
            motion.rest(end)
        self._measured_until = end
        if self._log is not None:
            self._write({"until": end})
            self._log.flush()
        found = [record for one in self._sensors.values() for record in self._due(one, end)]
        self._forget(end)
        return found

    def _due(self, one: _Sensor, end: float) -> Iterator[BridgeRecord]:
        sensor, name = one.sensor, one.sensor.name
        if isinstance(sensor, FrameSensor):
            while one.start(one.next_frame) + float(sensor.frame_duration_s) <= end + 1e-9:
                number, one.next_frame = one.next_frame, one.next_frame + 1
                start = one.start(number)
                yield BridgeRecord(name, number, sensor.measure(self.world, one.motion, start, self.seed, frame=number))
            return
        if one.stream is None:
            motion = one.motion if one.body is None else self.bodies[one.body]
            mount = Pose() if one.body is None else one.mount
            start = max(float(self._begun_at or 0.0), one.phase_s)
            one.stream = sensor.stream(self.world, motion, self.seed, mount=mount, start=start)
        # Most steps are shorter than the period of a sensor, and even an empty record takes time to make.
        due = sample_number(end, sensor.rate_hz)
        if due <= one.next_frame:
            return
        one.next_frame = due
        samples = one.stream.until(end)
        if len(samples):
            yield BridgeRecord(name, round(float(samples.time[0]) * float(sensor.rate_hz)), samples)

    def _pushed(self) -> list[PushedMotion | PushedValue]:
        return [*self.bodies.values(), *self.joints.values()]

    def _forget(self, end: float) -> None:
        starts = [one.start(one.next_frame) for one in self._sensors.values() if isinstance(one.sensor, FrameSensor)]
        before = min([end, *starts]) - HISTORY_S
        for motion in self._pushed():
            motion.forget(before)

    def step(
        self, time: float, poses: Mapping[str, PoseLike], joints: Mapping[str, float] | None = None
    ) -> list[BridgeRecord]:
        """Push poses and return the measurements that are due."""
        self.push(time, poses, joints)
        return self.records()

    def run(
        self, advance: Callable[[float], Mapping[str, PoseLike]], *, until: float, dt: float, start: float = 0.0
    ) -> Iterator[BridgeRecord]:
        """Lead the clock: call `advance(time)` for every step of `dt` [s], which returns the poses at that time.

        The first call is for `start`; the times are `start` + k `dt`.
        """
        if not dt > 0.0:
            raise ConfigError(f"run: dt must be above 0 s, got {dt!r}")
        for k in range(math.floor((until - start) / dt + 1e-9) + 1):
            time = start + k * dt
            yield from self.step(time, advance(time))

    # ---- log and replay --------------------------------------------------------------------------------------------

    def _header(self) -> dict[str, Any]:
        sensors = {name: f"{one.sensor.kind} {one.sensor.model}" for name, one in self._sensors.items()}
        return {"bridge": LOG_VERSION, "seed": self.seed, "bodies": sorted(self.bodies), "sensors": sensors}

    def _write(self, line: Mapping[str, Any]) -> None:
        assert self._log is not None
        self._log.write(json.dumps(line) + "\n")

    def replay(self, log: str | PathLike[str]) -> Iterator[BridgeRecord]:
        """Repeat the pushes of a log on the same scene; the records have the same bits.

        The scene must be described as before: a log holds poses, not shapes.
        """
        path = Path(log)
        if self._begun_at is not None:
            raise ConfigError("replay: poses were pushed already; replay on a new Bridge")
        with _opened(path, "rt") as lines:
            head = _line(path, 1, next(lines, ""))
            expected = self._header()
            for name, value in expected.items():
                if head.get(name) != value:
                    raise ConfigError(f"{path}: {name} is {head.get(name)!r}, but that of this bridge is {value!r}")
            for number, text in enumerate(lines, start=2):
                line = _line(path, number, text)
                if "until" in line:
                    yield from self.records(line["until"])
                else:
                    poses = {name: _numbers(row) for name, row in line.get("poses", {}).items()}
                    self.push(line.get("time", math.nan), poses, line.get("joints"))

    def close(self) -> None:
        """Close the log. Closing twice is allowed."""
        if self._log is not None:
            self._log.close()
            self._log = None

    def __enter__(self) -> Bridge:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _numbers(row: Iterable[float | None]) -> Floats:
    return np.array([math.nan if one is None else one for one in row], dtype=np.float64)


def _opened(path: Path, mode: str) -> IO[str]:
    try:
        if path.suffix == ".gz":
            return gzip.open(path, mode, encoding="utf-8")  # type: ignore[return-value]
        return path.open(mode, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"{path}: {error.strerror or error}") from None


def _line(path: Path, number: int, text: str) -> dict[str, Any]:
    try:
        found = json.loads(text)
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise FormatError(f"{path}: line {number} is not an entry of a bridge log; the file may be truncated")
    return found
