"""Doors, conveyor belts and robot arms."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import ClassVar

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.checks import above, whole, within
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, checked_pose, quat_multiply, quat_rotate
from parhelion.core.random import Stream
from parhelion.core.schedule import Schedule, Scheduled, schedule
from parhelion.core.trajectory import Fixed
from parhelion.motion.actors.body import Actor, Builder, Turning, about
from parhelion.world.kit.instances import boxes as box_meshes
from parhelion.world.kit.instances import struts
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import sphere
from parhelion.world.world import World

# ---- doors -----------------------------------------------------------------------------------------------------------


def add_door(
    world: World,
    pose: Pose,
    width: float = 0.9,
    height: float = 2.0,
    opening: Schedule = 0.0,
    *,
    material: str = "wood",
    name: str = "door",
    frame: bool = True,
) -> Actor:
    """Add a hinged door. Its hinge is at `pose` (on the floor); closed, it extends `width` [m] along +x.

    `opening` is the angle [rad] from -π to π, positive towards +y: one number or a schedule. With `frame`, two posts
    and a lintel are added as a separate instance.
    """
    at = checked_pose("door: pose", pose)
    wide, high = above("door: width", width, 0.0, 20.0), above("door: height", height, 0.0, 20.0)
    angle = schedule("door: opening", opening, low=-np.pi, high=np.pi)
    leaf = box_meshes([[0.5 * wide, 0.0, 0.5 * high + 0.005]], (wide, 0.04, high - 0.01))
    grip = min(1.05, 0.55 * high)
    handles = box_meshes([[0.92 * wide, y, grip] for y in (-0.06, 0.06)], (0.12, 0.03, 0.03))
    builder = Builder(world, name, "door", "dynamic")
    builder.add(
        "leaf",
        [KitPart("leaf", leaf, material, "door"), KitPart("handles", handles, "aluminium", "door")],
        Turning(Fixed(at), 2, angle),
    )
    door = builder.done()
    if frame:
        posts = box_meshes(
            [[-0.06, 0.0, 0.5 * high], [wide + 0.06, 0.0, 0.5 * high], [0.5 * wide, 0.0, high + 0.05]],
            [[0.10, 0.12, high], [0.10, 0.12, high], [wide + 0.22, 0.12, 0.08]],
        )
        around = Builder(world, f"{name}-frame", "door", "static")
        around.add("frame", [KitPart("frame", posts, "steel", "door")], at)
        around.done()
    return door


# ---- belts -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class BeltMotion:
    """Motion of a box that rides along +x of `pose`, returns unseen inside the housing, and rides again."""

    known_ahead: ClassVar[bool] = True
    pose: Pose
    """Middle of the belt, on the floor."""
    ride_m: float
    """Visible distance [m], centred; both ends lie inside the hoods."""
    round_m: float
    """Distance that the belt travels [m] between two starts of the same box."""
    speed_m_s: float
    start_m: float
    """Distance travelled at time 0 [m]."""
    height_m: float
    """Height of the box's origin on the belt [m]."""
    hidden_m: float
    """Height of the box's origin on its return [m]."""

    def travelled(self, times: ArrayLike) -> Floats:
        """Distance [m] since the start of the current round; above `ride_m` the box is returning."""
        return np.mod(self.start_m + self.speed_m_s * np.asarray(times, dtype=np.float64), self.round_m)

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        travelled = self.travelled(times)
        back = travelled > self.ride_m
        # Down inside one hood and up inside the other, so that no ray sees the jump between them.
        late = travelled > 0.5 * (self.ride_m + self.round_m)
        x = np.where(back, np.where(late, 0.0, self.ride_m), travelled) - 0.5 * self.ride_m
        local = np.stack([x, np.zeros_like(x), np.where(back, self.hidden_m, self.height_m)], axis=1)
        return self.pose.apply(local), np.tile(self.pose.quat_xyzw, (len(x), 1))


def add_conveyor(
    world: World,
    pose: Pose,
    length: float,
    boxes: int = 4,
    speed: float = 0.5,
    *,
    width: float = 0.6,
    height: float = 0.75,
    seed: int = 0,
    name: str = "conveyor",
) -> list[Actor]:
    """Add a belt along +x of `pose` (its middle, on the floor) with boxes that travel and re-appear at its start.

    `length` [m] is the open belt; at both ends is a hood with a curtain, where boxes appear and disappear. `speed`
    [m/s] is from 0 to 5; `seed` selects the sizes of the boxes. Returns the belt, then each box.
    """
    at = checked_pose("conveyor: pose", pose)
    open_m, wide, high = (
        above("conveyor: length", length, 0.0, 1000.0),
        within("conveyor: width", width, 0.3, 3.0),
        within("conveyor: height", height, 0.45, 3.0),
    )
    pace = within("conveyor: speed", speed, 0.0, 5.0)
    count = whole("conveyor: boxes", boxes, 0, 1000)
    rng = Stream(seed, "actors/conveyor").generator()
    sizes = rng.uniform([0.25, 0.4 * wide, 0.12], [0.5, 0.8 * wide, 0.36], (count, 3))
    hood = 0.6
    ride = open_m + hood
    # The return takes at least half a second, so that the samples of a slow scan also find the box in the housing.
    round_m = max(ride + 0.5 * pace + 0.1, 0.6 * count)
    if 0.6 * count > ride + hood:
        raise ConfigError(
            f"conveyor: boxes must be at most {int((ride + hood) / 0.6)} for a length of {length}, got {count}"
        )
    belt = Builder(world, name, "conveyor", "static")
    belt.add("belt", _belt(open_m, wide, high, hood), at)
    actors = [belt.done()]
    for number, (lx, ly, lz) in enumerate(sizes):
        motion = BeltMotion(at, ride, round_m, pace, number * round_m / count, high + 0.5 * lz, 0.04 + 0.5 * lz)
        rider = Builder(world, f"{name}-box-{number}", "box", "dynamic")
        rider.add("box", [KitPart("box", box_meshes([[0.0, 0.0, 0.0]], (lx, ly, lz)), "cardboard", "box")], motion)
        actors.append(rider.done())
    return actors


def _belt(open_m: float, wide: float, high: float, hood: float) -> list[KitPart]:
    """Closed housing down to the floor with a rubber belt on top, and hoods with curtains at both ends."""
    total = open_m + 2.0 * hood
    housing = box_meshes([[0.0, 0.0, 0.5 * (high - 0.02)]], (total, wide + 0.1, high - 0.02))
    sides = box_meshes([[0.0, y * 0.5 * (wide + 0.06), high + 0.02] for y in (-1, 1)], (total, 0.04, 0.08))
    ends = np.array([-1.0, 1.0]) * 0.5 * (open_m + hood)
    hoods = box_meshes([[x, 0.0, high + 0.25] for x in ends], (hood, wide + 0.1, 0.5))
    return [
        KitPart("housing", Mesh.merged([housing, sides, hoods]), "galvanised-steel", "conveyor"),
        KitPart("belt", box_meshes([[0.0, 0.0, high - 0.01]], (open_m, wide, 0.02)), "rubber", "conveyor"),
    ]


# ---- arms ------------------------------------------------------------------------------------------------------------

ARM_LINKS = np.array(
    [
        [0.0, 0.1625, np.pi / 2],
        [-0.425, 0.0, 0.0],
        [-0.3922, 0.0, 0.0],
        [0.0, 0.1333, np.pi / 2],
        [0.0, 0.0997, -np.pi / 2],
        [0.0, 0.0996, 0.0],
    ]
)
"""Rows a [m], d [m], α [rad] of the six links (Denavit and Hartenberg 1955); source: Universal Robots, "Parameters for
calculations of kinematics and dynamics", UR5e."""
_LINK_RADII = (0.06, 0.055, 0.045, 0.04, 0.04, 0.035)


def arm_frames(base: Pose, joint_angles_rad: ArrayLike) -> tuple[Floats, Floats]:
    """Origins (n, 7, 3) [m] and quaternions (n, 7, 4) of the base and the six link frames, for angles (n, 6) [rad].

    Link i: rotation by θ about z, translation by d along z and by a along x, rotation by α about x.
    """
    angles = np.asarray(joint_angles_rad, dtype=np.float64)
    xyz, quat = [np.tile(base.xyz, (len(angles), 1))], [np.tile(base.quat_xyzw, (len(angles), 1))]
    for (a, d, alpha), angle in zip(ARM_LINKS, angles.T, strict=True):
        turned = quat_multiply(quat[-1], about(2, angle))
        xyz.append(xyz[-1] + quat_rotate(turned, np.array([a, 0.0, d])))
        quat.append(quat_multiply(turned, about(0, alpha)))
    return np.stack(xyz, axis=1), np.stack(quat, axis=1)


@dataclass(frozen=True, eq=False)
class LinkMotion:
    """Motion of one link of an arm; its frame is at the far end of the link."""

    known_ahead: ClassVar[bool] = True
    base: Pose
    joint_angles: Scheduled
    link: int
    """Number of the link, 1 to 6."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        xyz, quat = arm_frames(self.base, self.joint_angles(times))
        return xyz[:, self.link], quat[:, self.link]


def link_start(link: int) -> Floats:
    """Start of a link (1 to 6) [m] in its own frame: the origin of the previous frame."""
    a, d, alpha = ARM_LINKS[link - 1]
    return quat_rotate(about(0, -alpha), np.array([-a, 0.0, -d]))


def add_robot_arm(
    world: World,
    pose: Pose,
    joint_angles: Schedule = (0.0, -np.pi / 2, 0.0, -np.pi / 2, 0.0, 0.0),
    *,
    material: str = "aluminium",
    name: str = "robot-arm",
) -> Actor:
    """Add a six-axis arm with the dimensions of a UR5e, its base at `pose` (z is the first axis).

    `joint_angles` [rad] are six numbers from -2π to 2π, or a schedule of pairs (time, six numbers). By default the arm
    is upright.
    """
    base = checked_pose("robot arm: pose", pose)
    limit = 2.0 * np.pi
    angles = schedule("robot arm: joint_angles", joint_angles, low=-limit, high=limit, columns=6)
    builder = Builder(world, name, "robot-arm", "dynamic")
    foot = struts([[0.0, 0.0, 0.0]], [[0.0, 0.0, 0.08]], 0.08, 20)
    builder.add("base", [KitPart("base", foot, material, "robot-arm")], base)
    radii = [*_LINK_RADII, 0.03]
    for link, (radius, following) in enumerate(pairwise(radii), start=1):
        tube = struts([link_start(link)], [[0.0, 0.0, 0.0]], radius, 14)
        joint = sphere(1.25 * max(radius, following), 1)
        builder.add(
            f"link {link}",
            [KitPart("link", Mesh.merged([tube, joint]), material, "robot-arm")],
            LinkMotion(base, angles, link),
        )
    return builder.done()
