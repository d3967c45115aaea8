"""Robots with joints and trailers in contact with a world, moved by MuJoCo (`pip install 'parhelion[physics]'`).

    driver = JointedDriver(World.load("warehouse"))
    robot = driver.add("robot", load_urdf("robot.urdf"), Pose(xyz=(0, 0, 0)))
    collisions = driver.step([JointCommand(DriveCommand(0.8, 0.1), {"lift_joint": 0.3})], 0.01)
    driver.rows()[robot], driver.joints(robot)                 # state of the root link, positions of the joints

The solid parts of the world become convex pieces near each robot (`parhelion.contact.pieces`). Settings of MuJoCo are
those that gave the closed forms of `tests/physics/test_contact_jointed.py`: discrete integrator, elliptic cones, wheels
as ellipsoids on a sprung slide, which stands for the tyre. Without it, a rigid four-wheeler hops while it skids.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.contact.bodies import Collision
from parhelion.contact.pieces import EDGE_PART, Pieces
from parhelion.contact.terrain import is_wet, surfaces_of
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import LARGEST_POSITION_M, Floats, Pose, quat_rotate
from parhelion.core.reading import read_bytes
from parhelion.motion.vehicles.base import Command, DriveCommand
from parhelion.world.mjcf import mujoco_module
from parhelion.world.urdf import Joint, Link, Robot
from parhelion.world.urdf.shapes import LinkShape
from parhelion.world.world import World

SUBSTEP_S = 0.002
TYRE_FREQUENCY_HZ = 11.0
"""Natural frequency of a robot on its tyres: 60 kN/m per wheel under 12.5 kg, as measured to work for a Husky."""
TYRE_DAMPING_RATIO = 0.2
_CARRIER_SHARE = 0.1
"""Mass of the part that slides between chassis and wheel, as a share of the wheel's mass."""
_HARD = {"solref": [0.01, 1.0, 0.0, 0.0, 0.0], "solimp": [0.95, 0.99, 0.001, 0.5, 2.0]}
_WINDOW_M = 8.0
"""Distance around a robot within which the world is solid; the pieces are collected again after half of it."""


@dataclass(frozen=True)
class JointCommand:
    """Command of a robot with joints.

    >>> JointCommand(DriveCommand(0.5), {"lift_joint": 0.2}).positions
    {'lift_joint': 0.2}
    """

    drive: DriveCommand = field(default_factory=lambda: DriveCommand(0.0))
    """Speed and yaw rate; wheels and steered joints follow it."""
    positions: Mapping[str, float] = field(default_factory=dict)
    """Positions [rad or m] for joints with a motor, or values for the actuators of an MJCF file, by name."""


@dataclass(frozen=True)
class Wheel:
    """A wheel of a robot: its joint, place in the root frame and steering joint."""

    joint: str
    x_m: float
    y_m: float
    radius_m: float
    forward: float
    """1 if a positive rate drives forward, otherwise -1."""
    steering: str | None = None


@dataclass
class _Member:
    """A robot of the driver."""

    name: str
    spec: Any
    root: str
    start: Pose
    wheels: tuple[Wheel, ...]
    joints: tuple[str, ...]
    motors: tuple[str, ...]
    offset: float
    """Height of the root frame above the lowest point of the robot at rest [m]."""


class JointedDriver:
    """Moves robots with joints in contact with the static solid parts of a world and with each other."""

    def __init__(self, world: World) -> None:
        self._mj = mujoco_module()
        self.world = world
        self._members: list[_Member] = []
        self._model: Any = None
        self._data: Any = None
        self._rows: Floats = np.zeros((0, 20))
        self._look_at_world()

    # ---- robots ----------------------------------------------------------------------------------------------------

    def add(self, name: str, robot: Robot | str | PathLike[str], start: Pose) -> int:
        """Place a robot at a pose of its root frame and return its number.

        A robot that starts in or below the ground is raised onto it.

        Args:
            name: Name in collisions.
            robot: Robot of a URDF file with masses, or the path of an MJCF file.
            start: Pose of the root frame; its height counts only if it is above the ground.
        """
        file = robot.file if isinstance(robot, Robot) else Path(robot)
        try:
            spec, wheels, motors = urdf_spec(robot) if isinstance(robot, Robot) else mjcf_spec(file)
            root = spec.worldbody.first_body()
            joints = tuple(one.name for one in spec.joints if one.type != self._mj.mjtJoint.mjJNT_FREE and one.name)
        except UnicodeDecodeError:
            raise FormatError(f"{file}: contains a name that is not UTF-8 text") from None
        try:
            offset = self._lowest(spec)
            if not abs(offset) <= LARGEST_POSITION_M:
                raise ConfigError(
                    f"{file}: the root frame is {offset:g} m above the lowest shape at rest; poses and sizes must be "
                    f"finite and lie within {LARGEST_POSITION_M:g} m"
                )
            member = _Member(name, spec, root.name, start, wheels, joints, motors, offset)
            member.start = self._on_ground(name, start, member.offset)
            self._members.append(member)
            self.restart()
        except (ValueError, self._mj.FatalError) as error:
            self._members = [one for one in self._members if one.spec is not spec]
            raise ConfigError(f"{file}: cannot be simulated by MuJoCo: {' '.join(str(error).split())}") from None
        return len(self._members) - 1

    def place(self, number: int, start: Pose) -> None:
        """Set the start of a robot, and reset all robots to theirs."""
        one = self._members[number]
        one.start = self._on_ground(one.name, start, one.offset)
        self.restart()

    def _lowest(self, spec: Any) -> float:
        """Height of the root frame above the lowest point of a robot at rest [m]."""
        alone = spec.copy()
        model = alone.compile()
        data = self._mj.MjData(model)
        self._mj.mj_forward(model, data)
        low = min(
            (data.geom_xpos[k][2] - _extent(model, data, k) for k in range(model.ngeom) if model.geom_contype[k]),
            default=0.0,
        )
        return float(data.xpos[1][2] - low)

    def _on_ground(self, name: str, start: Pose, offset: float) -> Pose:
        ground = float(self._pieces.solid.heights(start.xyz[None], 1.0)[0])
        if math.isnan(ground):
            raise ConfigError(f"{name}: no ground under its start at {start.xyz.tolist()}; move it into the world")
        x, y, z = start.xyz.tolist()
        return Pose(xyz=(x, y, max(z, ground + offset)), quat_xyzw=start.quat_xyzw)

    def restart(self) -> None:
        """Reset all robots to their start, at rest."""
        self._model = None
        self._build([one.start.xyz for one in self._members])
        for k, one in enumerate(self._members):
            address = self._free(k)[0]
            x, y, z, w = one.start.quat_xyzw.tolist()
            self._data.qpos[address : address + 7] = [*one.start.xyz, w, x, y, z]
        self._mj.mj_forward(self._model, self._data)
        self._rows = self._states(np.zeros((len(self._members), 6)))

    # ---- stepping --------------------------------------------------------------------------------------------------

    def step(self, commands: Sequence[Command | JointCommand | None], dt: float) -> list[Collision]:
        """Advance all robots by `dt` [s] and return the contacts of their hulls."""
        if not self._members:
            return []
        if self._version != self.world.version or self._wet != is_wet(self.world, float(self._data.time)):
            self._look_at_world()
            self._build(self._places())
        places = self._places()
        if np.any(np.abs(np.array(places) - np.array(self._centres))[:, :2] > 0.5 * _WINDOW_M):
            self._build(places)
        for k, command in enumerate(commands):
            self._control(k, command)
        count = max(1, round(dt / SUBSTEP_S))
        self._model.opt.timestep = dt / count
        before = self._velocities()
        impulses: dict[tuple[int, int], list[float]] = {}
        for _ in range(count):
            self._mj.mj_step(self._model, self._data)
            self._collect(impulses, dt / count)
        # MuJoCo returns to the start by itself if the motion diverges, with a warning.
        kinds = self._mj.mjtWarning
        bad = (kinds.mjWARN_BADQPOS, kinds.mjWARN_BADQVEL, kinds.mjWARN_BADQACC)
        if any(self._data.warning[kind].number for kind in bad) or not np.all(np.isfinite(self._data.qpos)):
            names = ", ".join(one.name for one in self._members)
            raise ConfigError(f"{names}: the motion diverged; check masses and inertias of the links")
        self._rows = self._states((self._velocities() - before) / dt)
        return self._collisions(impulses)

    def rows(self) -> Floats:
        """States of the root frames, shape (n, 20), in the order of `Vehicle.row()`."""
        return self._rows

    def joints(self, number: int) -> dict[str, float]:
        """Positions [rad or m] of the joints of a robot."""
        prefix = self._prefix(number)
        return {name: float(self._data.joint(prefix + name).qpos[0]) for name in self._members[number].joints}

    def save(self) -> bytes:
        """Return the state; the same robots resume from it with the same bits."""
        centres = np.array(self._centres, np.float64).ravel()
        return np.concatenate([centres, self._state(), self._rows.ravel()]).tobytes()

    def load(self, state: bytes) -> None:
        """Resume from a saved state."""
        values = np.frombuffer(state, np.float64)
        count, size = 3 * len(self._members), self._mj.mj_stateSize(self._model, self._kind)
        if values.size != count + size + self._rows.size:
            raise ConfigError("contact: the saved state is not of these robots")
        self._build(list(values[:count].reshape(-1, 3)))
        self._mj.mj_setState(self._model, self._data, values[count : count + size], self._kind)
        self._mj.mj_forward(self._model, self._data)
        self._mj.mj_setState(self._model, self._data, values[count : count + size], self._kind)
        self._rows = values[count + size :].reshape(self._rows.shape).copy()

    # ---- control ---------------------------------------------------------------------------------------------------

    def _control(self, number: int, command: Command | JointCommand | None) -> None:
        if command is None:
            return
        whole = command if isinstance(command, JointCommand) else JointCommand(_as_drive(command))
        member, prefix = self._members[number], self._prefix(number)
        speed, yaw = whole.drive.speed_m_s, whole.drive.yaw_rate_rad_s
        for wheel in member.wheels:
            along, across = speed - yaw * wheel.y_m, yaw * wheel.x_m
            if wheel.steering is not None:
                angle = math.atan2(across, along) if along >= 0.0 else math.atan2(-across, -along)
                self._data.actuator(prefix + wheel.steering).ctrl[0] = angle
                along = math.copysign(math.hypot(along, across), along)
            if wheel.joint in member.motors:
                self._data.actuator(prefix + wheel.joint).ctrl[0] = wheel.forward * along / wheel.radius_m
        for name, value in whole.positions.items():
            if name not in member.motors:
                known = ", ".join(member.motors) or "none"
                raise ConfigError(f"{member.name}: no motor {name!r}; motors: {known}")
            self._data.actuator(prefix + name).ctrl[0] = value

    # ---- contacts --------------------------------------------------------------------------------------------------

    def _collect(self, impulses: dict[tuple[int, int], list[float]], dt: float) -> None:
        """Add the impulses of contacts between robots' bodies, without wheels, and others."""
        force = np.zeros(6)
        for k in range(self._data.ncon):
            contact = self._data.contact[k]
            for own, other, sign in ((contact.geom1, contact.geom2, -1.0), (contact.geom2, contact.geom1, 1.0)):
                number = self._owner[own]
                if number < 0 or self._rolls[own] or self._owner[other] == number:
                    continue
                self._mj.mj_contactForce(self._model, self._data, k, force)
                push = float(force[0]) * dt
                if push <= 0.0:
                    continue
                normal = sign * contact.frame[:3]
                place = [*contact.pos.tolist(), *normal.tolist()]
                entry = impulses.setdefault((number, int(other)), [0.0, 0.0, *place])
                entry[0] += push
                if push > entry[1]:
                    entry[1:] = [push, *place]

    def _collisions(self, impulses: dict[tuple[int, int], list[float]]) -> list[Collision]:
        found: dict[tuple[int, str], Collision] = {}
        for (number, geom), entry in sorted(impulses.items()):
            other = self._named(geom)
            x, y, z, nx, ny, nz = entry[2:]
            known = found.get((number, other))
            total = entry[0] + (known.impulse_n_s if known is not None else 0.0)
            place = (
                ((x, y, z), (nx, ny, nz))
                if known is None or entry[0] > known.impulse_n_s
                else (known.xyz, known.normal)
            )
            found[number, other] = Collision(self._members[number].name, other, *place, total)
        return list(found.values())

    def _named(self, geom: int) -> str:
        if self._owner[geom] >= 0:
            return self._members[self._owner[geom]].name
        return self._pieces.name_of(self._part_of[geom])

    # ---- model -----------------------------------------------------------------------------------------------------

    def _look_at_world(self) -> None:
        self._pieces = Pieces(self.world)
        self._wet = is_wet(self.world, 0.0 if self._data is None else float(self._data.time))
        self._friction, self._version = surfaces_of(self.world, wet=self._wet)[:, 0], self.world.version

    @staticmethod
    def _prefix(number: int) -> str:
        return f"{number}/"

    def _free(self, number: int) -> tuple[int, int]:
        """Addresses of a robot's free joint in positions and velocities."""
        body = self._model.body(self._prefix(number) + self._members[number].root)
        joint = int(body.jntadr[0])
        return int(self._model.jnt_qposadr[joint]), int(self._model.jnt_dofadr[joint])

    @property
    def _kind(self) -> int:
        return int(self._mj.mjtState.mjSTATE_INTEGRATION)

    def _state(self) -> Floats:
        values = np.empty(self._mj.mj_stateSize(self._model, self._kind))
        self._mj.mj_getState(self._model, self._data, values, self._kind)
        return values

    def _places(self) -> list[Floats]:
        return [self._data.qpos[a : a + 3].copy() for a in (self._free(k)[0] for k in range(len(self._members)))]

    def _velocities(self) -> Floats:
        """Velocity in the world and angular velocity in the body frame of each root, shape (n, 6)."""
        return np.array([self._data.qvel[a : a + 6] for a in (self._free(k)[1] for k in range(len(self._members)))])

    def _build(self, centres: Sequence[Any]) -> None:
        """Compile the robots with the pieces of the world near them; the state is carried over."""
        mj = self._mj
        state = None if self._model is None else self._state()
        self._centres = [np.array(one, np.float64) for one in centres]
        spec = mj.MjSpec()
        spec.option.timestep, spec.option.integrator = SUBSTEP_S, mj.mjtIntegrator.mjINT_DISCRETE
        spec.option.cone, spec.option.impratio = mj.mjtCone.mjCONE_ELLIPTIC, 10.0
        spec.option.enableflags |= mj.mjtEnableBit.mjENBL_SLEEP  # half the cost of static pieces
        spec.option.gravity = [0.0, 0.0, -STANDARD_GRAVITY_M_S2]
        for k, one in enumerate(self._members):
            frame = spec.worldbody.add_frame()
            spec.attach(one.spec.copy(), prefix=self._prefix(k), frame=frame)
        friction = np.minimum(self._friction, max(_stickiest(one.spec, one.wheels) for one in self._members))
        parts = self._pieces.add_to(spec, self._centres, _WINDOW_M, friction, _HARD)
        self._model = spec.compile()
        self._data = mj.MjData(self._model)
        self._own_geoms(parts)
        if state is not None:
            mj.mj_setState(self._model, self._data, state, self._kind)
            mj.mj_forward(self._model, self._data)
            mj.mj_setState(self._model, self._data, state, self._kind)

    def _own_geoms(self, parts: Mapping[str, int]) -> None:
        model = self._model
        roots = {int(model.body(self._prefix(k) + one.root).id): k for k, one in enumerate(self._members)}
        self._owner = [roots.get(int(model.body_rootid[body]), -1) for body in model.geom_bodyid]
        names = [model.geom(k).name for k in range(model.ngeom)]
        self._part_of = [parts.get(name, EDGE_PART) for name in names]
        wheels = {
            int(model.jnt_bodyid[model.joint(self._prefix(k) + wheel.joint).id])
            for k, one in enumerate(self._members)
            for wheel in one.wheels
        }
        self._rolls = [int(body) in wheels for body in model.geom_bodyid]

    def _states(self, rates: Floats) -> Floats:
        rows = []
        for k in range(len(self._members)):
            q, v = self._free(k)
            place, (w, x, y, z) = self._data.qpos[q : q + 3], self._data.qpos[q + 3 : q + 7]
            rows.append([self._data.time, *place, x, y, z, w, *self._data.qvel[v : v + 6], *rates[k]])
        return np.array(rows).reshape(len(rows), 20)


# ---- models of robots -----------------------------------------------------------------------------------------------


def mjcf_spec(file: Path) -> tuple[Any, tuple[Wheel, ...], tuple[str, ...]]:
    """Model, wheels and actuators of an MJCF file with one robot; planes and lights of the file are removed."""
    mj = mujoco_module()
    read_bytes(file, ConfigError, largest=32 * 1024 * 1024, what="a robot as MJCF")
    try:
        spec = mj.MjSpec.from_file(str(file))
    except (ValueError, mj.FatalError) as error:
        raise FormatError(f"{file}: {' '.join(str(error).split())}") from None
    for geom in list(spec.worldbody.geoms):
        spec.delete(geom)
    bodies = list(spec.worldbody.bodies)
    if len(bodies) != 1:
        raise ConfigError(f"{file}: must have one body below worldbody, got {len(bodies)}")
    if not bodies[0].name:
        raise ConfigError(f"{file}: the body below worldbody must have a name")
    if not any(one.type == mj.mjtJoint.mjJNT_FREE for one in bodies[0].joints):
        if len(bodies[0].joints):
            raise ConfigError(f"{file}: body {bodies[0].name!r}: must have a free joint, so that it can move")
        bodies[0].add_freejoint()
    bodies[0].pos = [0.0, 0.0, 0.0]
    wheels = []
    driven = {one.target: one for one in spec.actuators}
    for body in spec.bodies:
        for joint in body.joints:
            turns = joint.type == mj.mjtJoint.mjJNT_HINGE and abs(joint.axis[1]) > 0.9
            rolls = turns and joint.name and joint.name in driven  # a motor without a target has an empty one
            round_ones = [one for one in body.geoms if one.type in _round_kinds(mj)]
            if rolls and round_ones:
                place = _place(body, bodies[0])
                radius = float(round_ones[0].size[0])
                try:
                    driven[joint.name].name = joint.name
                except ValueError as error:
                    raise FormatError(f"{file}: {' '.join(str(error).split())}") from None
                wheels.append(Wheel(joint.name, place[0], place[1], radius, math.copysign(1.0, joint.axis[1])))
    return spec, tuple(wheels), tuple(one.name for one in spec.actuators)


def _stickiest(spec: Any, wheels: Sequence[Wheel]) -> float:
    """Largest friction coefficient of the wheels of a robot, or of all of its shapes.

    The ground near robots has no more than that: as in Gazebo, the smaller one of both surfaces counts.
    """
    rolling = {wheel.joint for wheel in wheels}
    bodies = [body for body in spec.bodies if not rolling or any(joint.name in rolling for joint in body.joints)]
    return max((float(geom.friction[0]) for body in bodies for geom in body.geoms), default=1.0)


def _round_kinds(mj: Any) -> tuple[Any, ...]:
    return mj.mjtGeom.mjGEOM_CYLINDER, mj.mjtGeom.mjGEOM_SPHERE, mj.mjtGeom.mjGEOM_ELLIPSOID


def _place(body: Any, root: Any) -> Floats:
    """Position of a body in the root frame at rest [m]; bodies between them are not rotated."""
    place = np.zeros(3)
    while body is not root and body is not None and body.name != root.name:
        place, body = place + np.asarray(body.pos), body.parent
    return place


def urdf_spec(robot: Robot) -> tuple[Any, tuple[Wheel, ...], tuple[str, ...]]:
    """Model, wheels and motors of a URDF robot.

    Wheels are links without children on a continuous joint about y with a round shape. Joints about z on which wheels
    stand are steered if they have a motor. A joint has a motor if its `effort` is positive; a wheel has one unless its
    `effort` is 0.
    """
    mj = mujoco_module()
    masses = {name: link.inertial for name, link in robot.links.items() if link.inertial is not None}
    total = sum(one.mass_kg for one in masses.values())
    if total <= 0.0:
        raise ConfigError(f"{robot.file}: no link has <inertial>; contact needs the mass and inertia of each link")
    spec = mj.MjSpec()
    spec.compiler.degree, spec.compiler.inertiafromgeom = False, mj.mjtInertiaFromGeom.mjINERTIAFROMGEOM_FALSE
    root = spec.worldbody.add_body(name=robot.base)
    root.add_freejoint()
    bodies, poses = {robot.base: root}, robot.link_poses()
    parents = {joint.parent for joint in robot.joints.values()}
    builder = _UrdfBuilder(mj, spec, robot, total)
    builder.fill(root, robot.links[robot.base])
    for joint in robot.joints.values():
        link = robot.links[joint.child]
        shapes = builder.shapes(link)
        rolls = joint.kind == "continuous" and joint.child not in parents and _is_wheel(poses, joint, shapes)
        bodies[joint.child] = builder.body(bodies[joint.parent], joint, link, rolls)
        if rolls:
            builder.wheel(joint, link, poses)
    return spec, tuple(builder.wheels), tuple(builder.motors)


def _is_wheel(poses: Mapping[str, Pose], joint: Joint, shapes: Sequence[LinkShape]) -> bool:
    axis = quat_rotate(poses[joint.child].quat_xyzw, np.array(joint.axis))
    return abs(axis[1]) > 0.9 and any(one.kind in ("cylinder", "sphere", "mesh") for one in shapes)


class _UrdfBuilder:
    """Builds the bodies of a URDF robot, from the root outwards."""

    def __init__(self, mj: Any, spec: Any, robot: Robot, mass_kg: float) -> None:
        self.mj, self.spec, self.robot, self.mass_kg = mj, spec, robot, mass_kg
        self.wheels: list[Wheel] = []
        self.motors: list[str] = []
        self._tyres: list[Any] = []
        self._meshes = 0

    def shapes(self, link: Link) -> tuple[LinkShape, ...]:
        """Shapes for contact: the collision shapes, or the visible ones of links without."""
        return link.collisions or link.visuals

    def fill(self, body: Any, link: Link, *, wheel: bool = False) -> None:
        """Set mass and shapes of a body."""
        own = link.inertial
        known = own is not None and own.mass_kg > 0.0
        mass = own.mass_kg if own is not None and known else 1e-4 * self.mass_kg
        body.explicitinertial, body.mass = True, mass
        if own is not None and known:
            body.ipos, body.iquat = list(own.origin.xyz), _wxyz(own.origin)
        moments = own.inertia_kg_m2 if own is not None and known and any(own.inertia_kg_m2) else None
        # Without an inertia: that of a ball with a radius of 0.16 m.
        body.fullinertia = [0.01 * mass] * 3 + [0.0] * 3 if moments is None else list(moments)
        for shape in self.shapes(link):
            self._geom(body, shape, wheel, link.friction)

    def body(self, parent: Any, joint: Joint, link: Link, rolls: bool) -> Any:
        """Add the body of a link with its joint; a wheel gets a sprung carrier."""
        place = {"pos": list(joint.origin.xyz), "quat": _wxyz(joint.origin)}
        if rolls:
            own = link.inertial
            parent = parent.add_body(name=f"{link.name}/tyre", **place)
            mass = _CARRIER_SHARE * (own.mass_kg if own is not None else 0.01 * self.mass_kg)
            parent.explicitinertial, parent.mass = True, mass
            parent.inertia = [0.01 * mass] * 3
            slide = parent.add_joint(name="", type=self.mj.mjtJoint.mjJNT_SLIDE, axis=[0.0, 0.0, 1.0])
            self._tyres.append(slide)
            place = {}
        body = parent.add_body(name=link.name, **place)
        kinds = {"revolute": "mjJNT_HINGE", "continuous": "mjJNT_HINGE", "prismatic": "mjJNT_SLIDE"}
        if joint.kind in kinds:
            moving = body.add_joint(name=joint.name, type=getattr(self.mj.mjtJoint, kinds[joint.kind]))
            moving.axis = list(joint.axis)
            moving.damping[0] = joint.damping
            moving.armature = 1e-5 * self.mass_kg
            if joint.lower is not None and joint.upper is not None:
                moving.limited, moving.range = 1, [joint.lower, joint.upper]
            if not rolls and joint.effort:
                self._motor(joint, joint.effort)
        self.fill(body, link, wheel=rolls)
        return body

    def wheel(self, joint: Joint, link: Link, poses: Mapping[str, Pose]) -> None:
        """Register a wheel and its motor, and share the load among the tyres so far."""
        x, y, _ = poses[link.name].xyz.tolist()
        axis = quat_rotate(poses[link.name].quat_xyzw, np.array(joint.axis))
        radius = max(_radius(one) for one in self.shapes(link))
        above = next((one for one in self.robot.joints.values() if one.child == joint.parent), None)
        steering = above.name if above is not None and above.name in self.motors and abs(above.axis[2]) > 0.9 else None
        self.wheels.append(Wheel(joint.name, x, y, radius, math.copysign(1.0, axis[1]), steering))
        if joint.effort != 0.0:
            torque = joint.effort or 0.5 * self.mass_kg * STANDARD_GRAVITY_M_S2 * radius
            actuator = self.spec.add_actuator(name=joint.name, target=joint.name, trntype=self.mj.mjtTrn.mjTRN_JOINT)
            actuator.set_to_velocity(kv=torque / 0.05)
            actuator.forcelimited, actuator.forcerange = 1, [-torque, torque]
            self.motors.append(joint.name)
        load = self.mass_kg / len(self._tyres)
        for slide in self._tyres:
            slide.stiffness[0] = load * (2.0 * math.pi * TYRE_FREQUENCY_HZ) ** 2
            slide.damping[0] = 2.0 * TYRE_DAMPING_RATIO * load * 2.0 * math.pi * TYRE_FREQUENCY_HZ
            slide.springref = -load * STANDARD_GRAVITY_M_S2 / slide.stiffness[0]

    def _motor(self, joint: Joint, effort: float) -> None:
        """Add a position servo that reaches its largest effort at 1 % of a radian or metre."""
        actuator = self.spec.add_actuator(name=joint.name, target=joint.name, trntype=self.mj.mjtTrn.mjTRN_JOINT)
        actuator.set_to_position(kp=effort / 0.01, dampratio=1.0)
        actuator.forcelimited, actuator.forcerange = 1, [-effort, effort]
        self.motors.append(joint.name)

    def _geom(self, body: Any, shape: LinkShape, wheel: bool, friction: float | None) -> None:
        kinds = self.mj.mjtGeom
        place = {"pos": list(shape.origin.xyz), "quat": _wxyz(shape.origin)}
        if shape.kind == "box":
            geom = body.add_geom(type=kinds.mjGEOM_BOX, size=[0.5 * side for side in shape.size], **place)
        elif shape.kind == "sphere":
            geom = body.add_geom(type=kinds.mjGEOM_SPHERE, size=[shape.size[0], 0.0, 0.0], **place)
        elif shape.kind in ("cylinder", "capsule"):
            radius, half = shape.size[0], 0.5 * shape.size[1]
            # A cylinder stops at kerbs that a wheel climbs; an ellipsoid does not.
            size = [radius, radius, half] if wheel else [radius, half, 0.0]
            kind = kinds.mjGEOM_CYLINDER if shape.kind == "cylinder" else kinds.mjGEOM_CAPSULE
            geom = body.add_geom(type=kinds.mjGEOM_ELLIPSOID if wheel else kind, size=size, **place)
        else:
            self._meshes += 1
            name = f"shape {self._meshes}"
            vertices = shape.mesh.vertices
            self.spec.add_mesh(name=name, uservert=np.asarray(vertices, np.float32).ravel().tolist())
            geom = body.add_geom(type=kinds.mjGEOM_MESH, meshname=name)
        geom.solref[:2], geom.solimp[:] = _HARD["solref"][:2], _HARD["solimp"]
        geom.condim = 3
        if friction is not None:
            geom.friction[0] = friction


def _radius(shape: LinkShape) -> float:
    if shape.kind == "mesh":
        size = np.ptp(shape.mesh.vertices, axis=0)
        return float(0.5 * np.sort(size)[1])
    return float(shape.size[0])


def _wxyz(pose: Pose) -> list[float]:
    x, y, z, w = pose.quat_xyzw.tolist()
    return [w, x, y, z]


def _as_drive(command: Command) -> DriveCommand:
    if isinstance(command, DriveCommand):
        return command
    raise ConfigError(f"a robot with joints accepts DriveCommand and JointCommand, got {type(command).__name__}")


def _extent(model: Any, data: Any, geom: int) -> float:
    """Reach [m] of a shape below its centre, by its bounding box."""
    rotation = data.geom_xmat[geom].reshape(3, 3)
    centre, half = model.geom_aabb[geom][:3], model.geom_aabb[geom][3:]
    return float(np.abs(rotation[2]) @ half - rotation[2] @ centre)
