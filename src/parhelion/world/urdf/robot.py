"""A robot: links with shapes, joints and sensors, their poses, and the conversion to objects of a world."""

from __future__ import annotations

import warnings
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import numpy as np

from parhelion.core.errors import ConfigError, ParhelionError, unknown_name
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.world.loaders import LoadedPart
from parhelion.world.mesh import LARGEST_COORDINATE_M
from parhelion.world.part_materials import MaterialLike, check_mapping
from parhelion.world.parts import WorldObject
from parhelion.world.urdf.shapes import LinkShape, choose_material
from parhelion.world.world import World

TURNING = ("revolute", "continuous")
MOVING = (*TURNING, "prismatic")
"""Kinds of joints with a position: an angle [rad], or a length [m] for 'prismatic'."""
HELD = ("floating", "planar")
"""Kinds of joints that are fixed at their origin."""
JOINT_KINDS = ("fixed", *MOVING, *HELD)

JointPositions = Mapping[str, float]
"""Angle [rad] or length [m] of joints, by name."""

SensorSource = Literal["gazebo", "name"]


@dataclass(frozen=True, eq=False)
class Inertial:
    """Mass properties of a link."""

    mass_kg: float
    origin: Pose
    """Frame at the centre of mass, in the link's frame."""
    inertia_kg_m2: tuple[float, float, float, float, float, float]
    """Moments and products of inertia in that frame: xx, yy, zz, xy, xz, yz; zeros if the file does not give them."""

    @property
    def tensor(self) -> Floats:
        """Inertia tensor [kg m^2] in that frame, shape (3, 3)."""
        xx, yy, zz, xy, xz, yz = self.inertia_kg_m2
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])


@dataclass(frozen=True, eq=False)
class Link:
    """A rigid part of a robot."""

    name: str
    visuals: tuple[LinkShape, ...] = ()
    """Shapes that sensors see."""
    collisions: tuple[LinkShape, ...] = ()
    """Simplified shapes for contact."""
    inertial: Inertial | None = None
    """Mass properties; None if the file does not give them."""
    friction: float | None = None
    """Friction `mu1` of its Gazebo block; None without one."""


@dataclass(frozen=True)
class Mimic:
    """A joint that follows another: position = multiplier x the other's + offset."""

    joint: str
    multiplier: float = 1.0
    offset: float = 0.0


@dataclass(frozen=True, eq=False)
class Joint:
    """Connection of a link to its parent: at `origin`, rotated about or translated along `axis` by its position."""

    name: str
    kind: str
    parent: str
    child: str
    origin: Pose = field(default_factory=Pose)
    axis: tuple[float, float, float] = (1.0, 0.0, 0.0)
    """Unit vector in the frame of the child."""
    lower: float | None = None
    """Smallest position [rad or m], or None without a limit."""
    upper: float | None = None
    mimic: Mimic | None = None
    effort: float | None = None
    """Largest torque [N m] or force [N] of its motor, 0 for a passive joint; None if the file gives none."""
    rate: float | None = None
    """Largest rate [rad/s or m/s] of its motor; None if the file gives none."""
    damping: float = 0.0
    """Viscous friction [N m s/rad or N s/m]."""

    @property
    def rest(self) -> float:
        """Default position: 0, or the middle of the limits if 0 is outside of them (as in RViz)."""
        if self.lower is None or self.upper is None or self.lower <= 0.0 <= self.upper:
            return 0.0
        return 0.5 * (self.lower + self.upper)

    def pose(self, position: float = 0.0) -> Pose:
        """Return the child's frame in the parent's at a position [rad or m]; fixed joints ignore it."""
        axis = np.array(self.axis)
        if self.kind in TURNING:
            half = 0.5 * position
            return self.origin @ Pose(quat_xyzw=[*(np.sin(half) * axis), np.cos(half)])
        if self.kind == "prismatic":
            return self.origin @ Pose(position * axis)
        return self.origin


@dataclass(frozen=True, eq=False)
class RobotSensor:
    """A sensor on the robot."""

    name: str
    kind: str
    """'lidar', 'imu', 'camera', 'gnss', 'magnetometer' or 'barometer'."""
    link: str
    pose: Pose
    """Pose in the base frame with joints at rest; for other positions use `Robot.sensor_poses`."""
    pose_in_link: Pose = field(default_factory=Pose)
    """Pose in the frame of the link."""
    hints: Mapping[str, float] = field(default_factory=dict)
    """Properties of the sensor in the file, with the unit in the name, for example `rate_hz` and `range_max_m`."""
    source: SensorSource = "gazebo"
    """Origin of the description: a Gazebo block, or only the name of a link."""
    housing: tuple[str, ...] = ()
    """Names of the links that are the body of the sensor."""


@dataclass(frozen=True, eq=False)
class Robot:
    """Robot of a URDF file. Its base frame is that of its root link."""

    name: str
    file: Path
    base: str
    """Name of the root link."""
    links: Mapping[str, Link]
    joints: Mapping[str, Joint]
    """Joints from the base outwards: each after the joint of its parent."""
    sensors: tuple[RobotSensor, ...] = ()

    # ---- poses -------------------------------------------------------------------------------------------------

    def positions(self, joint_positions: JointPositions | None = None) -> dict[str, float]:
        """Return the positions [rad or m] of all moving joints: given, mimicked, or at rest."""
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
        """Enter the position of a joint that mimics another, possibly over several joints."""
        chain: list[tuple[str, Mimic]] = []
        while name not in found:
            mimic = self.joints[name].mimic
            assert mimic is not None  # all other joints are in `found`
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
            raise ConfigError(f"{self.file}: joint {name!r}: is {joint.kind} and has no position")
        if joint.mimic is not None:
            raise ConfigError(f"{self.file}: joint {name!r}: mimics joint {joint.mimic.joint!r}; set that one instead")
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
        """Return the pose of every link in the base frame."""
        positions = self.positions(joint_positions)
        poses = {self.base: Pose()}
        for joint in self.joints.values():
            poses[joint.child] = poses[joint.parent] @ joint.pose(positions.get(joint.name, 0.0))
        return {name: poses[name] for name in self.links}

    def sensor_poses(self, joint_positions: JointPositions | None = None) -> dict[str, Pose]:
        """Return the pose of every sensor in the base frame."""
        poses = self.link_poses(joint_positions)
        return {sensor.name: poses[sensor.link] @ sensor.pose_in_link for sensor in self.sensors}

    def sensor(self, name: str) -> RobotSensor:
        """Return a sensor by name."""
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
        """Add the robot to a world as actors, one per visual and material, with one instance number.

        Args:
            world: The world.
            motion: Motion of the base frame.
            joint_positions: Constant positions of joints [rad or m]; all others are at rest.
            material: Material of the whole robot.
            materials: Materials by name of a link, or of a material in the files.
            label: Semantic class.
            name: Name of the robot; by default that of the file.
            instance: Instance number; by default a new one.
            hidden_from: As in `World.add`, or such names by link.
            hide_housings: True to hide the body of a lidar or camera from sensors of that kind, which are inside it.
            shapes: "visual" or "collision".
        """
        if shapes not in ("visual", "collision"):
            raise ConfigError(f"shapes: must be 'visual' or 'collision', got {shapes!r}")
        carrier = Fixed(motion) if isinstance(motion, Pose) else motion
        if not isinstance(carrier, Trajectory):
            raise ConfigError(f"motion: must be a Pose or have sample(times), got {type(motion).__name__}")
        title = self.name if name is None else name
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
                    name=f"{title}/{link}/{tail}",
                    instance=instance,
                    hidden_from=hidden.get(link, ()),
                )
                added.append(item)
                instance = item.instance
        except ParhelionError:
            for item in added:  # a robot is added completely or not at all
                world.remove(item)
            raise
        return added

    def chosen_parts(
        self, shapes: str, material: MaterialLike | None, materials: Mapping[str, MaterialLike], advice: str
    ) -> list[tuple[str, LinkShape, LoadedPart, MaterialLike]]:
        """Return link, shape, part and material of all visible parts; a warning with `advice` lists guesses."""
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
        """Names of sensors from which each link is hidden."""
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
