"""A robot: links with shapes, joints between them, sensors on them; where all of it is, and how a world gets it."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from parhelion.core.errors import ConfigError, ParhelionError, unknown_name
from parhelion.core.pose import Pose
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.world.loaders import LoadedPart
from parhelion.world.mesh import LARGEST_COORDINATE_M
from parhelion.world.part_materials import MaterialLike, check_mapping
from parhelion.world.parts import WorldObject
from parhelion.world.urdf.shapes import LinkShape, choose_material
from parhelion.world.world import World

TURNING = ("revolute", "continuous")
MOVING = (*TURNING, "prismatic")
"""Kinds of joints that have a position: an angle [rad], or a length [m] for 'prismatic'."""
HELD = ("floating", "planar")
"""Kinds of joints that are kept at their origin."""
JOINT_KINDS = ("fixed", *MOVING, *HELD)

JointPositions = Mapping[str, float]
"""Angle [rad] or length [m] of joints, by name."""

SensorSource = Literal["gazebo", "name"]


@dataclass(frozen=True, eq=False)
class Link:
    """A rigid part of a robot."""

    name: str
    visuals: tuple[LinkShape, ...] = ()
    """What sensors see."""
    collisions: tuple[LinkShape, ...] = ()
    """Plainer shapes that stand for it where things touch."""


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another: position = multiplier x the other's + offset."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class Joint:
    """How a link sits on its parent: at `origin`, turned about or shifted along `axis` by the joint's position."""

    name: str
    kind: str
    parent: str
    child: str
    origin: Pose = field(default_factory=Pose)
    axis: tuple[float, float, float] = (1.0, 0.0, 0.0)
    """Unit vector in the child's frame."""
    lower: float | None = None
    """Least position [rad or m], None where there is no limit."""
    upper: float | None = None
    mimic: Mimic | None = None

    @property
    def rest(self) -> float:
        """Position where nobody says: 0, or the middle of the limits where 0 is not within them (as RViz's sliders)."""
        if self.lower is None or self.upper is None or self.lower <= 0.0 <= self.upper:
            return 0.0
        return 0.5 * (self.lower + self.upper)

    def pose(self, position: float = 0.0) -> Pose:
        """The child's frame in the parent's at a position [rad or m]; joints that do not move pay no heed to it."""
        axis = np.array(self.axis)
        if self.kind in TURNING:
            half = 0.5 * position
            return self.origin @ Pose(quat_xyzw=[*(np.sin(half) * axis), np.cos(half)])
        if self.kind == "prismatic":
            return self.origin @ Pose(position * axis)
        return self.origin


@dataclass(frozen=True, eq=False)
class RobotSensor:
    """A place on the robot where a sensor sits."""

    name: str
    kind: str
    """'lidar', 'imu', 'camera', 'gnss', 'magnetometer' or 'barometer'."""
    link: str
    pose: Pose
    """Pose in the base frame, joints at rest; `Robot.sensor_poses` gives it for other positions."""
    pose_in_link: Pose = field(default_factory=Pose)
    hints: Mapping[str, float] = field(default_factory=dict)
    """What the file says of the sensor, each with its unit in the name, such as `rate_hz` and `range_max_m`."""
    source: SensorSource = "gazebo"
    """Whether a Gazebo block describes it, or only a link's name speaks of it."""
    housing: tuple[str, ...] = ()
    """Links that are the sensor's own body, by their names."""


@dataclass(frozen=True, eq=False)
class Robot:
    """What a URDF describes. Its base frame is that of its root link."""

    name: str
    file: Path
    base: str
    """Name of the root link."""
    links: Mapping[str, Link]
    joints: Mapping[str, Joint]
    """Joints from the base outwards: each after the joint of its parent."""
    sensors: tuple[RobotSensor, ...] = ()

    # ---- where things are --------------------------------------------------------------------------------------

    def positions(self, joint_positions: JointPositions | None = None) -> dict[str, float]:
        """Positions [rad or m] of all joints that move: those given, those that follow them, the others at rest."""
        given = {} if joint_positions is None else joint_positions
        if not isinstance(given, Mapping):
            raise ConfigError(f"joint_positions: must map joints to numbers, got {type(given).__name__}")
        moving = {name: joint for name, joint in self.joints.items() if joint.kind in MOVING}
        for name, value in given.items():
            self._check_position(name, value)
        found = {name: float(given.get(name, joint.rest)) for name, joint in moving.items() if joint.mimic is None}
        for name in moving:
            self._follow(name, found)
        return {name: found[name] for name in moving}

    def _follow(self, name: str, found: dict[str, float]) -> None:
        """Enter the position of a joint that follows another, which may follow a third."""
        chain: list[tuple[str, Mimic]] = []
        while name not in found:
            mimic = self.joints[name].mimic
            assert mimic is not None  # joints of their own are in `found`
            chain.append((name, mimic))
            name = mimic.joint
        for follower, mimic in reversed(chain):
            found[follower] = mimic.multiplier * found[mimic.joint] + mimic.offset

    def _check_position(self, name: str, value: Any) -> None:
        joint = self.joints.get(name)
        if joint is None:
            own = [known.name for known in self.joints.values() if known.kind in MOVING and known.mimic is None]
            raise unknown_name("joint", str(name), own, f"(of {self.file})")
        if joint.kind not in MOVING:
            raise ConfigError(f"{self.file}: joint {name!r}: is {joint.kind} and takes no position")
        if joint.mimic is not None:
            raise ConfigError(f"{self.file}: joint {name!r}: follows joint {joint.mimic.joint!r} and takes no position")
        unit = "m" if joint.kind == "prismatic" else "rad"
        number = isinstance(value, (int, float, np.integer, np.floating)) and not isinstance(value, bool)
        if not number or not abs(value) <= LARGEST_COORDINATE_M:
            raise ConfigError(f"{self.file}: joint {name!r}: position must be a finite number [{unit}], got {value!r}")
        low = -np.inf if joint.lower is None else joint.lower
        high = np.inf if joint.upper is None else joint.upper
        if not low - 1e-9 <= value <= high + 1e-9:
            raise ConfigError(
                f"{self.file}: joint {name!r}: position must be from {low:g} to {high:g} {unit}, got {value:g}"
            )

    def link_poses(self, joint_positions: JointPositions | None = None) -> dict[str, Pose]:
        """The frame of every link in the base frame."""
        positions = self.positions(joint_positions)
        poses = {self.base: Pose()}
        for joint in self.joints.values():
            poses[joint.child] = poses[joint.parent] @ joint.pose(positions.get(joint.name, 0.0))
        return {name: poses[name] for name in self.links}

    def sensor_poses(self, joint_positions: JointPositions | None = None) -> dict[str, Pose]:
        """The frame of every sensor in the base frame."""
        poses = self.link_poses(joint_positions)
        return {sensor.name: poses[sensor.link] @ sensor.pose_in_link for sensor in self.sensors}

    def sensor(self, name: str) -> RobotSensor:
        """The sensor of this name."""
        for sensor in self.sensors:
            if sensor.name == name:
                return sensor
        raise unknown_name("sensor", str(name), [sensor.name for sensor in self.sensors], f"(of {self.file})")

    # ---- into a world ------------------------------------------------------------------------------------------

    def add_to(
        self,
        world: World,
        motion: Trajectory | Pose,
        *,
        joint_positions: JointPositions | None = None,
        material: MaterialLike | None = None,
        materials: Mapping[str, MaterialLike] | None = None,
        label: str = "robot",
        name: str | None = None,
        instance: int | None = None,
        hidden_from: str | Collection[str] | Mapping[str, str | Collection[str]] = (),
        hide_housings: bool = True,
        shapes: Literal["visual", "collision"] = "visual",
    ) -> list[WorldObject]:
        """Add the robot to a world: its base frame follows `motion`, its joints stay at `joint_positions`.

        Each visual becomes an actor (one for each material that its mesh file names); all share one instance number.
        `material` is for the whole robot; `materials` maps names of links or of materials in the files. `hidden_from`
        is as in `World.add`, or maps links to such names. With `hide_housings` the body of a lidar or camera is
        hidden from sensors of that kind, which would else look at it from within.
        """
        if shapes not in ("visual", "collision"):
            raise ConfigError(f"shapes: must be 'visual' or 'collision', got {shapes!r}")
        carrier = Fixed(motion) if isinstance(motion, Pose) else motion
        if not isinstance(carrier, Trajectory):
            raise ConfigError(f"motion: must be a Pose or have sample(times), got {type(motion).__name__}")
        called = self.name if name is None else name
        poses = self.link_poses(joint_positions)
        parts = self.chosen_parts(shapes, material, materials or {}, "pass material= or materials= to choose")
        if not parts:
            raise ConfigError(f"{self.file}: no link has a {shapes} shape, so there is nothing to add to a world")
        hidden = self._hidden(hidden_from, hide_housings)
        added: list[WorldObject] = []
        try:
            for link, shape, part, chosen in parts:
                tail = shape.name if part.material is None else f"{shape.name}/{part.material}"
                item = world.add_actor(
                    part.mesh.transformed(poses[link]),
                    trajectory=carrier,
                    material=chosen,
                    label=label,
                    name=f"{called}/{link}/{tail}",
                    instance=instance,
                    hidden_from=hidden.get(link, ()),
                )
                added.append(item)
                instance = item.instance
        except ParhelionError:
            for item in added:  # a robot is in a world as a whole, or not at all
                world.remove(item)
            raise
        return added

    def chosen_parts(
        self, shapes: str, material: MaterialLike | None, materials: Mapping[str, MaterialLike], advice: str
    ) -> list[tuple[str, LinkShape, LoadedPart, MaterialLike]]:
        """Link, shape, part and material of all that it shows; a warning with `advice` names what was guessed."""
        own = {name: link.visuals if shapes == "visual" else link.collisions for name, link in self.links.items()}
        parts = [(link, shape, part) for link, found in own.items() for shape in found for part in shape.parts]
        known = [name for _, shape, part in parts for name in (shape.material, part.material) if name is not None]
        check_mapping(self.file, materials, [*self.links, *dict.fromkeys(known)], "link or material")
        chosen, notes = [], []
        for link, shape, part in parts:
            kind, note = choose_material(link, shape, part, material, materials)
            chosen.append((link, shape, part, kind))
            if note is not None and note not in notes:
                notes.append(note)
        if notes:
            shown = ", ".join(notes[:20]) + (f" and {len(notes) - 20} more" if len(notes) > 20 else "")
            warnings.warn(f"{self.file}: materials guessed: {shown}; {advice}", stacklevel=3)
        return chosen

    def _hidden(self, hidden_from: Any, hide_housings: bool) -> dict[str, tuple[str, ...]]:
        """Names of sensors that each link is hidden from."""
        by_link = hidden_from if isinstance(hidden_from, Mapping) else dict.fromkeys(self.links, hidden_from)
        hidden: dict[str, tuple[str, ...]] = {}
        for link, names in by_link.items():
            if link not in self.links:
                raise unknown_name("link", str(link), self.links, f"(of {self.file}, in hidden_from)")
            hidden[link] = tuple(names) if isinstance(names, Collection) and not isinstance(names, str) else (names,)
        for sensor in self.sensors if hide_housings else ():
            if sensor.kind in ("lidar", "camera"):
                for link in sensor.housing:
                    hidden[link] = (*hidden.get(link, ()), sensor.kind)
        return hidden

    def __repr__(self) -> str:
        moving = sum(joint.kind in MOVING for joint in self.joints.values())
        return (
            f"Robot({self.name!r}: {len(self.links)} links, {moving} of {len(self.joints)} joints move, "
            f"{len(self.sensors)} sensors)"
        )
