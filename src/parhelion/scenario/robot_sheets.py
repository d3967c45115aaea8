"""Data sheet of a ground vehicle from a URDF file: wheels, mass, inertia and hull of a user's robot.

Wheels are continuous joints whose axis is along the y axis of the vehicle; links with `caster` in their name are wheels
that turn freely in all directions. Mass and inertia are those of all links together, the hull is the box around all
shapes of the other links.
"""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np

from parhelion.core.config import Source
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.motion.vehicles.sheets import ChassisConfig, DifferentialConfig, WheelConfig
from parhelion.scenario.robots import RobotOnBoard
from parhelion.world.urdf import Joint

_ALONG_Y = 0.9
"""Least cosine between the axis of a wheel and the y axis."""
_FLAT_M = 0.05
"""Largest height [m] of the lowest wheels above or below the ground in the file."""
_MOST_TORQUE_N_M, _MOST_RATE_RAD_S = 1e4, 200.0
"""Larger limits in a file mean that there is none; they are not used."""
_LEAST_SPEED_M_S, _DEFAULT_SPEED_M_S = 0.05, 1.0
_HEAVY_SHARE = 0.1
"""Share of the mass from which a link without inertia is reported."""


@dataclass(frozen=True)
class _Wheel:
    joint: Joint | None
    link: str
    xyz: Floats
    """Centre in the vehicle frame [m]."""
    radius: float


def robot_sheet(robot: RobotOnBoard) -> DifferentialConfig:
    """Data sheet of the robot of a URDF file, which needs at least three wheels and the mass of a link."""
    file, root = robot.robot.file, robot.entry.pose.pose()
    poses = {name: root @ pose for name, pose in robot.poses.items()}
    wheels = _wheels(robot, poses, needed=True)
    driven = [wheel for wheel in wheels if wheel.joint is not None]
    if len(wheels) < 3 or not driven:
        names = ", ".join(wheel.link for wheel in wheels) or "none"
        raise ConfigError(
            f"{file}: a vehicle needs at least three wheels, found {names}; wheels are continuous joints about the y "
            "axis and links with 'caster' in their name; otherwise give model"
        )
    low = min(float(wheel.xyz[2]) - wheel.radius for wheel in wheels)
    if abs(low) > _FLAT_M:
        raise ConfigError(
            f"{file}: the wheels end {abs(low):.3g} m {'above' if low > 0 else 'below'} the ground of the vehicle "
            f"frame; set pose: {{xyz: [0, 0, {float(root.xyz[2]) - low:.4g}]}} of urdf"
        )
    mass, centre, inertia = _mass(robot, poses)
    hull = _hull(robot, poses, {wheel.link for wheel in wheels})
    clearance = float(hull[0, 2])
    if clearance < 0.005:
        raise ConfigError(
            f"{file}: the wheels are inside of the body, which ends {clearance:.3g} m above the ground; move the "
            "wheels down or the shapes up"
        )
    size = (2.0 * float(np.abs(hull[:, 0]).max()), 2.0 * float(np.abs(hull[:, 1]).max()), float(hull[1, 2]))
    if inertia is None:
        warnings.warn(f"{file}: no link has an inertia; that of a box of uniform density is used", stacklevel=2)
        x, y, z = (side**2 for side in size)
        inertia = np.array([y + z, x + z, x + y]) * mass / 12.0
    return _sheet(robot, wheels, driven, mass, centre, inertia, size, clearance)


def wheel_joints(robot: RobotOnBoard, chassis: ChassisConfig) -> dict[str, tuple[int, float]]:
    """Joints of a robot that turn with the wheels of a chassis: number of the wheel, and the sign of its angle.

    A joint belongs to the nearest wheel that is not farther away than its radius. Joints that the file of the scenario
    moves are left out.
    """
    root = robot.entry.pose.pose()
    poses = {name: root @ pose for name, pose in robot.poses.items()}
    places = np.array([(wheel.x_m, wheel.y_m) for wheel in chassis.wheels])
    found = {}
    for one in _wheels(robot, poses):
        apart = np.linalg.norm(places - one.xyz[:2], axis=1)
        nearest = int(apart.argmin())
        if one.joint is None or one.joint.name in robot.moved() or apart[nearest] > chassis.wheels[nearest].radius_m:
            continue
        axis = quat_rotate(poses[one.link].quat_xyzw, np.array(one.joint.axis))
        found[one.joint.name] = (nearest, 1.0 if axis[1] > 0.0 else -1.0)
    return found


def _sheet(
    robot: RobotOnBoard,
    wheels: list[_Wheel],
    driven: list[_Wheel],
    mass: float,
    centre: Floats,
    inertia: Floats,
    size: tuple[float, float, float],
    clearance: float,
) -> DifferentialConfig:
    radius = max(wheel.radius for wheel in driven)
    half = float(np.mean([abs(wheel.xyz[1]) for wheel in driven]))
    along = float(np.std([wheel.xyz[0] for wheel in driven]))
    load = mass * STANDARD_GRAVITY_M_S2 / len(wheels)
    effort, rate = _limits([wheel.joint for wheel in driven if wheel.joint is not None])
    speed = _DEFAULT_SPEED_M_S if rate is None else max(rate * radius, _LEAST_SPEED_M_S)
    chassis = ChassisConfig(
        wheels=[
            WheelConfig(
                x_m=float(one.xyz[0]),
                y_m=float(one.xyz[1]),
                radius_m=one.radius,
                driven=one.joint is not None,
                caster=one.joint is None,
                friction=robot.robot.links[one.link].friction,
            )
            for one in wheels
        ],
        centre_of_mass_m=(float(centre[0]), float(centre[1]), max(float(centre[2]), 0.01)),
        inertia_kg_m2=(float(inertia[0]), float(inertia[1]), float(inertia[2])),
        ground_clearance_m=clearance,
        tyre_stiffness_n_m=load / 0.002,
        relaxation_m=max(0.5 * radius, 0.02),
        wheel_inertia_kg_m2=0.5 * 0.03 * mass * radius**2,
        max_wheel_torque_n_m=mass * STANDARD_GRAVITY_M_S2 * radius / len(driven) if effort is None else effort,
    )
    track = 2.0 * half
    # Skid steering by closed form: equal loads and Coulomb friction of wheels along the track.
    skids = track * (1.0 + (along / half) ** 2) if along > 0.01 else None
    return DifferentialConfig(
        name=robot.robot.name,
        kind="differential",
        mass_kg=mass,
        size_m=size,
        wheel_radius_m=radius,
        track_m=track,
        effective_track_m=skids,
        max_speed_m_s=speed,
        max_yaw_rate_rad_s=2.0 * speed / (skids or track),
        max_acceleration_m_s2=2.0 * speed,
        max_yaw_acceleration_rad_s2=4.0 * speed / (skids or track),
        chassis=chassis,
        sources=[Source(title=str(robot.robot.file), covers=["chassis"])],
    )


def _wheels(robot: RobotOnBoard, poses: dict[str, Pose], *, needed: bool = False) -> list[_Wheel]:
    """Wheels of a robot; those without a shape are an error if they are needed."""
    found = []
    for joint in robot.robot.joints.values():
        pose = poses[joint.child]
        axis = quat_rotate(pose.quat_xyzw, np.array(joint.axis))
        spins = joint.kind == "continuous" and abs(float(axis[1])) > _ALONG_Y
        if spins or "caster" in joint.child.lower():
            radius, xyz = _radius(robot, joint.child, pose)
            if radius is not None:
                found.append(_Wheel(joint if spins else None, joint.child, xyz, radius))
            elif spins and needed:
                raise ConfigError(f"{robot.robot.file}: wheel {joint.child!r} has no shape; add its cylinder")
    return found


def _radius(robot: RobotOnBoard, link: str, pose: Pose) -> tuple[float | None, Floats]:
    """Radius and centre of a wheel: of its cylinder or sphere, otherwise half the height of its shapes."""
    shapes = robot.robot.links[link].collisions or robot.robot.links[link].visuals
    round_ones = [shape for shape in shapes if shape.kind in ("cylinder", "sphere")]
    if round_ones:
        best = max(round_ones, key=lambda shape: shape.size[0])
        return float(best.size[0]), (pose @ best.origin).xyz
    if not shapes:
        return None, pose.xyz
    points = np.concatenate([pose.apply(part.mesh.vertices) for shape in shapes for part in shape.parts])
    return 0.5 * float(np.ptp(points[:, 2])), 0.5 * (points.min(axis=0) + points.max(axis=0))


def _hull(robot: RobotOnBoard, poses: dict[str, Pose], wheels: set[str]) -> Floats:
    """Corners (2, 3) of the box around all shapes of links that are not wheels, in the vehicle frame."""
    corners = []
    for name, link in robot.robot.links.items():
        if name not in wheels:
            for shape in link.collisions or link.visuals:
                corners += [poses[name].apply(part.mesh.vertices) for part in shape.parts]
    if not corners:
        raise ConfigError(f"{robot.robot.file}: no link besides the wheels has a shape; add the body")
    points = np.concatenate(corners)
    return np.stack([points.min(axis=0), points.max(axis=0)])


def _mass(robot: RobotOnBoard, poses: dict[str, Pose]) -> tuple[float, Floats, Floats | None]:
    """Mass [kg], centre of mass [m] and moments of inertia [kg m^2] of all links; None for the moments without any."""
    file = robot.robot.file
    masses, centres, tensors = [], [], []
    for name, link in robot.robot.links.items():
        if link.inertial is not None:
            pose = poses[name] @ link.inertial.origin
            turn = pose.matrix[:3, :3]
            masses.append(link.inertial.mass_kg)
            centres.append(pose.xyz)
            tensors.append(turn @ link.inertial.tensor @ turn.T)
    total = sum(masses)
    if total <= 0.0:
        text = "no link has <inertial> with a mass" if not masses else "the mass of all links together is 0"
        raise ConfigError(f"{file}: {text}; add it, or give model for the dynamics of the vehicle")
    if 0.0 in masses:
        empty = ", ".join(
            repr(name) for name, link in robot.robot.links.items() if link.inertial and not link.inertial.mass_kg
        )
        warnings.warn(f"{file}: mass 0 of {empty}; the robot weighs {total:g} kg", stacklevel=3)
    weights = np.array(masses)
    places = np.array(centres)
    centre = weights @ places / total
    if not any(tensor.any() for tensor in tensors):
        return total, centre, None
    for name, link in robot.robot.links.items():
        own = link.inertial
        if own is not None and own.mass_kg > _HEAVY_SHARE * total and not own.tensor.any():
            warnings.warn(f"{file}: link {name!r} has no inertia and counts as a point; add <inertia>", stacklevel=3)
    apart = places - centre
    spread = [mass * (np.dot(r, r) * np.eye(3) - np.outer(r, r)) for mass, r in zip(masses, apart, strict=True)]
    moments = np.diag(np.sum(tensors, axis=0) + np.sum(spread, axis=0))
    if np.any(moments <= 0.0):
        raise ConfigError(f"{file}: the moments of inertia of all links together must be above 0, got {moments}")
    return total, centre, moments


def _limits(joints: list[Joint]) -> tuple[float | None, float | None]:
    """Least torque [N m] and rate [rad/s] in the limits of the driven joints; None where missing or not plausible."""
    effort = min((one.effort for one in joints if one.effort and one.effort < _MOST_TORQUE_N_M), default=None)
    rate = min((one.rate for one in joints if one.rate and one.rate < _MOST_RATE_RAD_S), default=None)
    return effort, rate
