"""Vehicles with the body of a URDF file: links that move with the vehicle, moving joints, and mounts of sensors."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from pydantic import Field, GetJsonSchemaHandler, model_validator
from pydantic.json_schema import JsonSchemaValue
from pydantic_core import CoreSchema

from parhelion.core.config import Config
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Floats, Pose, quat_multiply, quat_rotate
from parhelion.core.trajectory import Mounted, Trajectory
from parhelion.motion.actors import set_mobility
from parhelion.motion.actors.body import one_body
from parhelion.scenario.motions import Positive, Time, check_rows, schedule_of_pairs
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.schema import Coordinate, PoseEntry
from parhelion.world.urdf import Joint, Robot, load_urdf
from parhelion.world.world import World

Positions = Callable[[Floats], Floats]
"""Positions (n,) [rad or m] of a joint at times (n,) [s]."""


# ---- fields of the file ----------------------------------------------------------------------------------------------


class JointEntry(Config):
    """Position or motion of a joint, in the units of the URDF: rad for revolute joints, m for prismatic ones.

    A number is a constant position; a list of pairs (time [s], position) is a motion from one to the next.
    """

    position: Coordinate | None = None
    """Position at time 0; by default the rest position."""
    rate: Annotated[float, Field(ge=-1e4, le=1e4)] = 0.0
    """Rate of change [rad/s or m/s]."""
    pairs: Annotated[list[tuple[Time, Coordinate]], Field(min_length=1)] | None = None
    """Times [s] and positions."""
    repeat_s: Positive | None = None
    """Period [s] after which the pairs repeat."""

    @model_validator(mode="before")
    @classmethod
    def _short_forms(cls, value: Any) -> Any:
        if isinstance(value, (int, float)) and not isinstance(value, bool):
            return {"position": value}
        if isinstance(value, (list, tuple)):
            return {"pairs": value}
        if not isinstance(value, (dict, cls)):
            raise ValueError("give a position, pairs of a time and a position, or position and rate")
        return value

    @model_validator(mode="after")
    def _pairs_or_rate(self) -> JointEntry:
        if self.pairs is not None:
            if self.position is not None or self.rate != 0.0:
                raise ValueError("give pairs, or position and rate, not both")
            check_rows([time for time, _ in self.pairs], self.repeat_s)
        elif self.repeat_s is not None:
            raise ValueError("repeat_s is for pairs")
        return self

    @property
    def moves(self) -> bool:
        """True if the position changes with time."""
        return self.rate != 0.0 or (self.pairs is not None and len({value for _, value in self.pairs}) > 1)

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        pair = {"type": "array", "prefixItems": [{"type": "number"}] * 2, "minItems": 2, "maxItems": 2}
        return {"anyOf": [{"type": "number"}, {"type": "array", "items": pair, "minItems": 1}, handler(schema)]}


class UrdfEntry(Config):
    """URDF file of a robot; its name alone is a short form."""

    file: Annotated[str, Field(min_length=1)]
    """File, relative to the scenario's folder."""
    pose: PoseEntry = PoseEntry()
    """Pose of the root link in the vehicle frame, which is on the ground for cars and robots."""
    packages: dict[str, str] = Field(default_factory=dict)
    """Folders of the packages in `package://` names, relative to the scenario's folder."""
    joints: dict[str, JointEntry] = Field(default_factory=dict)
    """Positions and motions of joints; all others are at rest."""
    shapes: Literal["visual", "collision"] = "visual"
    label: str = "robot"
    material: str | None = None
    """One material for the whole robot."""
    materials: dict[str, str] = Field(default_factory=dict)
    """Materials by link or by material name in the file."""
    hide: Literal["inside", "all", "none"] = "inside"
    """Parts that the robot's own lidars do not see: the links that contain them, all links, or none."""

    @model_validator(mode="before")
    @classmethod
    def _file_alone(cls, value: Any) -> Any:
        if isinstance(value, str):
            return {"file": value}
        if not isinstance(value, (dict, cls)):
            raise ValueError("give the name of a URDF file, or its file with further fields")
        return value

    @classmethod
    def __get_pydantic_json_schema__(cls, schema: CoreSchema, handler: GetJsonSchemaHandler) -> JsonSchemaValue:
        return {"anyOf": [{"type": "string"}, handler(schema)]}


# ---- the robot on a vehicle ------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class OwnLidar:
    """A lidar that the robot carries."""

    name: str
    """Key by which parts are hidden from this lidar only."""
    mount: Pose
    """Pose in the vehicle frame."""
    link: str | None = None
    """Link, or sensor of the URDF, on which it is mounted."""


@dataclass(frozen=True, eq=False)
class JointMotion:
    """Motion of the child of a joint: the motion of its parent, and a rotation about or translation along the axis."""

    carrier: Trajectory
    origin: Pose
    """Pose of the joint in the carrier's frame."""
    joint: Joint
    positions: Positions

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        asked = np.asarray(times, dtype=np.float64)
        xyz, quat = Mounted(self.carrier, self.origin).sample(asked)
        value, axis = self.positions(asked)[:, None], np.asarray(self.joint.axis)
        if self.joint.kind == "prismatic":
            return xyz + quat_rotate(quat, value * axis), quat
        rotation = np.concatenate([np.sin(0.5 * value) * axis, np.cos(0.5 * value)], axis=1)
        return xyz, quat_multiply(quat, rotation)


class RobotOnBoard:
    """The robot of a URDF file on a vehicle of a scenario."""

    def __init__(self, entry: UrdfEntry, folder: Path, duration_s: float) -> None:
        self.entry = entry
        packages = {name: folder / place for name, place in entry.packages.items()}
        self.robot: Robot = load_urdf(folder / entry.file, packages=packages)
        self._check_joints(duration_s)
        resting = {name: _start(joint) for name, joint in entry.joints.items()}
        given = {name: value for name, value in resting.items() if value is not None}
        self.positions = self.robot.positions(given)
        """Positions of all joints at time 0 [rad or m]."""
        self.poses = self.robot.link_poses(given)
        """Poses of all links at time 0, in the frame of the root link."""
        self._live: dict[str, Positions] = {}
        self._moving = {name for name in self.positions if self.source(name)[0] in self.moved()}
        self.heads = self._heads()
        self.instance: int | None = None
        """Instance number of the robot in the world, after `show`."""

    def moved(self) -> set[str]:
        """Joints that the entry moves."""
        return {name for name, joint in self.entry.joints.items() if joint.moves}

    def _check_joints(self, duration_s: float) -> None:
        """Check that all joints exist and stay within their limits for the whole run."""
        for name, joint in self.entry.joints.items():
            reached = [value for _, value in joint.pairs or ()]
            if joint.pairs is None:
                start = joint.position if joint.position is not None else self._rest(name)
                reached = [start, start + joint.rate * duration_s]
            for value in reached:
                self.robot.positions({name: value})

    def _rest(self, name: str) -> float:
        joint = self.robot.joints.get(name)
        return 0.0 if joint is None else joint.rest

    def source(self, name: str) -> tuple[str, float, float]:
        """Return the joint that a joint mimics, or itself, with factor and offset."""
        factor, offset = 1.0, 0.0
        while (mimic := self.robot.joints[name].mimic) is not None:
            name, offset, factor = mimic.joint, offset + factor * mimic.offset, factor * mimic.multiplier
        return name, factor, offset

    def _heads(self) -> dict[str, str]:
        """Return, per link, the nearest link towards the root (or itself) that is attached to a moving joint."""
        heads = {self.robot.base: self.robot.base}
        for joint in self.robot.joints.values():
            heads[joint.child] = joint.child if joint.name in self._moving else heads[joint.parent]
        return heads

    def follow(self, laws: dict[str, Positions]) -> None:
        """Move joints by laws of their names instead of the entry's motions."""
        self._live = laws
        self._moving |= set(laws)
        self.heads = self._heads()

    # ---- places for sensors --------------------------------------------------------------------------------------

    def mount(self, place: str) -> Pose:
        """Return the pose of a link, or of a sensor in the URDF, in the vehicle frame."""
        described = {sensor.name: sensor for sensor in self.robot.sensors}
        link, own = place, Pose()
        if place not in self.robot.links:
            if place not in described:
                raise unknown_name("link", place, [*self.robot.links, *described], f"(of {self.robot.file})")
            link, own = described[place].link, described[place].pose_in_link
        head = self.heads[link]
        if head != self.robot.base:
            joint = next(joint.name for joint in self.robot.joints.values() if joint.child == head)
            raise ConfigError(
                f"link {link!r} moves with joint {joint!r} of {self.robot.file}; mount the sensor on a link that is "
                "fixed to its vehicle"
            )
        return self.entry.pose.pose() @ self.poses[link] @ own

    def _hidden(self, lidars: Sequence[OwnLidar]) -> dict[str, tuple[str, ...]]:
        """Keys of the own lidars that do not see a link, by link."""
        if self.entry.hide == "none":
            return {}
        if self.entry.hide == "all":
            return dict.fromkeys(self.robot.links, tuple(lidar.name for lidar in lidars))
        hidden: dict[str, tuple[str, ...]] = {}
        for lidar in lidars:
            housings = [
                sensor.housing
                for sensor in self.robot.sensors
                if lidar.link is not None and lidar.link in (sensor.name, sensor.link, *sensor.housing)
            ]
            inside = (self.entry.pose.pose().inverse() @ lidar.mount).xyz
            for name in self.robot.links:
                point = self.poses[name].inverse().apply(inside[None])[0]
                if any(name in housing for housing in housings) or any(
                    encloses(part.mesh, point) for shape in self._shapes(name) for part in shape.parts
                ):
                    hidden[name] = (*hidden.get(name, ()), lidar.name)
        return hidden

    def _shapes(self, link: str) -> tuple[Any, ...]:
        found = self.robot.links[link]
        return found.visuals if self.entry.shapes == "visual" else found.collisions

    # ---- into the world --------------------------------------------------------------------------------------------

    def show(self, world: World, body: Trajectory, name: str, lidars: Sequence[OwnLidar]) -> None:
        """Add the links to a world under one instance number; links without relative motion are one body."""
        hidden = self._hidden(lidars)
        groups: dict[tuple[str, tuple[str, ...]], list[KitPart]] = {}
        first: dict[tuple[str, tuple[str, ...]], str] = {}
        entry = self.entry
        for link, shape, part, chosen in self.robot.chosen_parts(
            entry.shapes, entry.material, entry.materials, "give material or materials"
        ):
            head = self.heads[link]
            at = self.poses[head].inverse() @ self.poses[link]
            key = (head, hidden.get(link, ()))
            piece = KitPart(shape.name, part.mesh.transformed(at), str(chosen), entry.label)
            groups.setdefault(key, []).append(piece)
            first.setdefault(key, link)
        motions = self._motions(body)
        # The body of the root is added first, because boxes have the heading of the first body.
        for key in sorted(groups, key=lambda key: list(motions).index(key[0])):
            (head, names), (mesh, materials) = key, one_body(groups[key])
            item = world.add_actor(
                mesh,
                trajectory=motions[head],
                label=self.entry.label,
                name=f"{name}/{first[key]}",
                instance=self.instance,
                hidden_from=names,
                **materials,
            )
            self.instance = item.instance
        if self.instance is not None:
            set_mobility(world, self.instance, "dynamic")

    def _motions(self, body: Trajectory) -> dict[str, Trajectory]:
        """Return the motion of each link that heads a rigid group, the root first."""
        motions: dict[str, Trajectory] = {self.robot.base: Mounted(body, self.entry.pose.pose())}
        for joint in self.robot.joints.values():
            if joint.name in self._moving:
                head = self.heads[joint.parent]
                origin = self.poses[head].inverse() @ self.poses[joint.parent] @ joint.origin
                motions[joint.child] = JointMotion(motions[head], origin, joint, self._law(joint.name))
        return motions

    def _law(self, name: str) -> Positions:
        """Positions of a moving joint by time."""
        if name in self._live:
            return self._live[name]
        source, factor, offset = self.source(name)
        entry, start = self.entry.joints[source], self.positions[source]
        if entry.pairs is None:
            return lambda times: factor * (start + entry.rate * times) + offset
        positions = schedule_of_pairs(entry.pairs, entry.repeat_s)
        return lambda times: factor * positions(times)[:, 0] + offset


def _start(entry: JointEntry) -> float | None:
    """Initial position of a joint: its position, or the first of its pairs."""
    return entry.position if entry.pairs is None else entry.pairs[0][1]


def encloses(mesh: Mesh, point: ArrayLike) -> bool:
    """Return True if a point [m] lies inside a mesh, whose triangles then cover more than half of the full solid angle.

    Solid angles of triangles by Van Oosterom and Strackee (1983); small holes do not matter.
    """
    a, b, c = np.moveaxis(mesh.vertices[mesh.faces] - np.asarray(point, dtype=np.float64), 1, 0)
    la, lb, lc = (np.linalg.norm(side, axis=1) for side in (a, b, c))
    volume = np.sum(a * np.cross(b, c), axis=1)
    rest = la * lb * lc + np.sum(a * b, axis=1) * lc + np.sum(b * c, axis=1) * la + np.sum(c * a, axis=1) * lb
    return bool(abs(np.arctan2(volume, rest).sum()) > np.pi)
