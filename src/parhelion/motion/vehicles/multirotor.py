"""A multirotor: a rigid body, rotors with a lag, and control loops from position to torque."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import ClassVar

import numpy as np

from parhelion.core.checks import finite, vector, within
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.motion.sea_spectrum import GRAVITY_M_S2
from parhelion.motion.vehicles import base
from parhelion.motion.vehicles.base import (
    Body,
    Matrix,
    MotorsOff,
    PositionCommand,
    RigidBody,
    RotorCommand,
    Row,
    Vector,
    VelocityCommand,
    cross,
    to_body,
    to_world,
)
from parhelion.motion.vehicles.sheets import MultirotorConfig

_Push = tuple[float, Vector, float]
"""Thrust [N], torque [N m] in the body frame, sum of the rotors' speeds [rad/s]."""

Asked = PositionCommand | VelocityCommand | MotorsOff | RotorCommand


class Multirotor(RigidBody):
    """A multirotor. Each rotor pushes along the body's z axis with k w^2 and exerts a torque by its arm and its drag.

    Rotor speed follows its command with a first-order lag. Drag consists of a part perpendicular to the rotor axes,
    linear in rotor and air speed (Martin and Salaun 2010), and a quadratic part of the body; the air is at rest. The
    control goes from position to velocity to acceleration to thrust and attitude (Lee et al. 2010), at the rate of the
    inner steps.
    """

    accepts: ClassVar[tuple[type, ...]] = (PositionCommand, VelocityCommand, MotorsOff, RotorCommand)
    longest_part_s: ClassVar[float] = 0.005

    def __init__(self, config: MultirotorConfig) -> None:
        super().__init__(config.name)
        self.config = config
        arms = np.array([[1.0, r.y_m, -r.x_m, -r.spin * config.torque_to_thrust_m] for r in config.rotors]).T
        if np.linalg.matrix_rank(arms) < 4:
            raise ConfigError(f"{config.name}: positions and spins of the rotors must allow roll, pitch and yaw")
        self._effect = [[float(value) for value in row] for row in arms]
        self._mix = [[float(value) for value in row] for row in np.linalg.pinv(arms)]
        self.hover_speed_rad_s = math.sqrt(config.mass_kg * GRAVITY_M_S2 / (len(arms.T) * config.thrust_n_s2))
        self.reset()

    def reset(
        self,
        pose: Pose = Pose(),
        *,
        time: float = 0.0,
        velocity_m_s: Sequence[float] = (0.0, 0.0, 0.0),
        rotor_speed_rad_s: float | None = None,
    ) -> None:
        """Place the multirotor at `pose` with a velocity in the world; rotors spin as in hover by default."""
        self.time = finite(f"{self.name}: time", time)
        most = self.config.max_rotor_speed_rad_s
        speed = self.hover_speed_rad_s if rotor_speed_rad_s is None else rotor_speed_rad_s
        self._rotors = [within(f"{self.name}: rotor_speed_rad_s", speed, 0.0, most)] * len(self.config.rotors)
        x, y, z = pose.xyz.tolist()
        qx, qy, qz, qw = pose.quat_xyzw.tolist()
        u, v, w = vector(f"{self.name}: velocity_m_s", velocity_m_s, 3)
        self._body = ((x, y, z), (qx, qy, qz, qw), (u, v, w), (0.0, 0.0, 0.0))
        self._yaw = base.heading(self._body[1])

    @property
    def heavy(self) -> tuple[Vector, Vector]:
        mass = self.config.mass_kg
        return (mass, mass, mass), self.config.inertia_kg_m2

    @property
    def velocity_m_s(self) -> Vector:
        """Velocity in the world [m/s]."""
        return self._body[2]

    @property
    def speed_m_s(self) -> float:
        return to_body(base.matrix(self._body[1]), self._body[2])[0]

    @property
    def rotor_speeds_rad_s(self) -> tuple[float, ...]:
        return tuple(self._rotors)

    def _target(self, command: Asked) -> Asked:
        if isinstance(command, (PositionCommand, VelocityCommand)) and command.yaw_rad is not None:
            self._yaw = command.yaw_rad
        if isinstance(command, RotorCommand) and len(command.speeds_rad_s) != len(self._rotors):
            raise ConfigError(
                f"{self.name}: has {len(self._rotors)} rotors, got speeds for {len(command.speeds_rad_s)}"
            )
        return command

    def land(self, height_m: float) -> None:
        """Stop on level ground with the body frame at a height [m]; heading and rotor speeds remain."""
        (x, y, _), quat, _, _ = self._body
        half = 0.5 * base.heading(quat)
        level = (0.0, 0.0, math.sin(half), math.cos(half))
        self._body = ((x, y, height_m), level, (0.0, 0.0, 0.0), (0.0, 0.0, 0.0))

    # ---- physics -----------------------------------------------------------------------------------------------

    def _advance(self, target: Asked, dt: float) -> None:
        asked = self._asked(target)
        pushes = [self._push(self._rotors), self._push(self._lagged(asked, 0.5 * dt))]
        self._rotors = self._lagged(asked, dt)
        pushes.append(self._push(self._rotors))
        self._body = base.integrated(self._body, lambda body, half: self._rates(body, pushes[half]), dt)

    def _asked(self, target: Asked) -> list[float]:
        """Commanded rotor speeds [rad/s]."""
        if isinstance(target, MotorsOff):
            return [0.0] * len(self._rotors)
        if isinstance(target, RotorCommand):
            most = self.config.max_rotor_speed_rad_s
            return [min(max(float(speed), 0.0), most) for speed in target.speeds_rad_s]
        return self._control(target)

    def _lagged(self, asked: Sequence[float], dt: float) -> list[float]:
        """Rotor speeds after `dt`: the exact solution of the lag, stable for any step."""
        up, down = math.exp(-dt / self.config.spin_up_s), math.exp(-dt / self.config.spin_down_s)
        return [to + (now - to) * (up if to > now else down) for now, to in zip(self._rotors, asked, strict=True)]

    def _push(self, rotors: Sequence[float]) -> _Push:
        lift = [self.config.thrust_n_s2 * speed * speed for speed in rotors]
        thrust, roll, pitch, yaw = (sum(map(float.__mul__, row, lift)) for row in self._effect)
        return thrust, (roll, pitch, yaw), sum(rotors)

    def _rates(self, body: Body, push: _Push) -> Body:
        _, quat, velocity, turn = body
        thrust, torque, spinning = push
        sheet, r = self.config, base.matrix(quat)
        drag = self._drag(r, velocity, spinning)
        force = (drag[0] + r[2] * thrust, drag[1] + r[5] * thrust, drag[2] + r[8] * thrust)
        ix, iy, iz = sheet.inertia_kg_m2
        gx, gy, gz = cross(turn, (ix * turn[0], iy * turn[1], iz * turn[2]))
        mass = sheet.mass_kg
        acceleration = (force[0] / mass, force[1] / mass, force[2] / mass - GRAVITY_M_S2)
        spin = ((torque[0] - gx) / ix, (torque[1] - gy) / iy, (torque[2] - gz) / iz)
        return velocity, base.spin(quat, turn), acceleration, spin

    def _drag(self, r: Matrix, velocity: Vector, spinning: float) -> Vector:
        """Drag force [N] in the world."""
        u, v, w = to_body(r, velocity)
        blade = self.config.rotor_drag_n_s2_m * spinning
        air = self.config.body_drag_n_s2_m2 * math.sqrt(u * u + v * v + w * w)
        return to_world(r, (-(blade + air) * u, -(blade + air) * v, -air * w))

    def row(self) -> Row:
        xyz, quat, velocity, turn = self._body
        _, _, acceleration, spin = self._rates(self._body, self._push(self._rotors))
        return (self.time, *xyz, *quat, *velocity, *turn, *acceleration, *spin)

    # ---- control -----------------------------------------------------------------------------------------------

    def _control(self, target: PositionCommand | VelocityCommand) -> list[float]:
        """Commanded rotor speeds [rad/s]."""
        r = base.matrix(self._body[1])
        asked = self._acceleration(self._velocity(target), r)
        pull = (asked[0], asked[1], asked[2] + GRAVITY_M_S2)
        # Component of the commanded force along the current body axis.
        thrust = self.config.mass_kg * max(pull[0] * r[2] + pull[1] * r[5] + pull[2] * r[8], 0.0)
        roll, pitch, yaw = self._torque(r, pull)
        most = self.config.max_rotor_speed_rad_s
        speeds = []
        for share in self._mix:
            lift = share[0] * thrust + share[1] * roll + share[2] * pitch + share[3] * yaw
            speeds.append(min(math.sqrt(max(lift, 0.0) / self.config.thrust_n_s2), most))
        return speeds

    def _velocity(self, target: PositionCommand | VelocityCommand) -> Vector:
        gains = self.config.control
        most = gains.max_speed_m_s
        if isinstance(target, VelocityCommand):
            u, v, w = target.velocity_m_s
        else:
            here, k = self._body[0], gains.position_1_s
            u, v, w = (k * (to - at) for to, at in zip(target.xyz_m, here, strict=True))
            most = most if target.speed_m_s is None else min(most, abs(target.speed_m_s))
        level = math.hypot(u, v)
        scale = min(1.0, most / level) if level > 0.0 else 1.0
        climb = min(gains.max_climb_m_s, most)
        return (scale * u, scale * v, min(max(w, -climb), climb))

    def _acceleration(self, asked: Vector, r: Matrix) -> Vector:
        gains, velocity = self.config.control, self._body[2]
        # The known drag is compensated, so that the commanded speed is reached (Faessler et al. 2018).
        drag = self._drag(r, velocity, sum(self._rotors))
        x, y, z = (
            gains.velocity_1_s * (to - at) - pull / self.config.mass_kg
            for to, at, pull in zip(asked, velocity, drag, strict=True)
        )
        most, level = GRAVITY_M_S2 * math.tan(gains.max_tilt_rad), math.hypot(x, y)
        if level > most:
            x, y = x * most / level, y * most / level
        return (x, y, min(max(z, -0.7 * GRAVITY_M_S2), 0.7 * GRAVITY_M_S2))

    def _torque(self, r: Matrix, pull: Vector) -> Vector:
        """Torque [N m] that rotates the body's z axis towards `pull` and its x axis to the commanded heading."""
        size = math.sqrt(pull[0] * pull[0] + pull[1] * pull[1] + pull[2] * pull[2])
        up = (pull[0] / size, pull[1] / size, pull[2] / size)
        left = cross(up, (math.cos(self._yaw), math.sin(self._yaw), 0.0))
        scale = 1.0 / math.sqrt(left[0] * left[0] + left[1] * left[1] + left[2] * left[2])
        left = (left[0] * scale, left[1] * scale, left[2] * scale)
        forward = cross(left, up)
        # Columns of the target matrix in the body frame; half the skew part is the sine of the rotation error.
        f, s, u = to_body(r, forward), to_body(r, left), to_body(r, up)
        turn, (ix, iy, iz) = self._body[3], self.config.inertia_kg_m2
        fast, slow = self.config.control.attitude_rad_s, self.config.control.yaw_rad_s
        gyro = cross(turn, (ix * turn[0], iy * turn[1], iz * turn[2]))
        return (
            ix * fast * (0.5 * fast * (s[2] - u[1]) - 2.0 * turn[0]) + gyro[0],
            iy * fast * (0.5 * fast * (u[0] - f[2]) - 2.0 * turn[1]) + gyro[1],
            iz * slow * (0.5 * slow * (f[1] - s[0]) - 2.0 * turn[2]) + gyro[2],
        )
