"""Base classes of vehicles (reset, step with a command, state) and of ground vehicles, and the commands."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, ClassVar

import numpy as np

from parhelion.core.checks import above, finite, vector
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.motion.state import BodyState

# ---- rotation -------------------------------------------------------------------------------------------------------
# Quaternions `xyzw` and vectors are tuples of floats, which are faster than arrays for a single body.


Vector = tuple[float, float, float]
Quaternion = tuple[float, float, float, float]
Matrix = tuple[float, float, float, float, float, float, float, float, float]


def matrix(q: Quaternion) -> Matrix:
    """Rotation matrix of a unit quaternion, body to world, in row-major order."""
    x, y, z, w = q
    xx, yy, zz, xy, xz, yz, wx, wy, wz = x * x, y * y, z * z, x * y, x * z, y * z, w * x, w * y, w * z
    return (
        1.0 - 2.0 * (yy + zz),
        2.0 * (xy - wz),
        2.0 * (xz + wy),
        2.0 * (xy + wz),
        1.0 - 2.0 * (xx + zz),
        2.0 * (yz - wx),
        2.0 * (xz - wy),
        2.0 * (yz + wx),
        1.0 - 2.0 * (xx + yy),
    )


def to_world(r: Matrix, v: Vector) -> Vector:
    """Transform a vector from the body frame to the world."""
    a, b, c = v
    return (r[0] * a + r[1] * b + r[2] * c, r[3] * a + r[4] * b + r[5] * c, r[6] * a + r[7] * b + r[8] * c)


def to_body(r: Matrix, v: Vector) -> Vector:
    """Transform a vector from the world to the body frame."""
    a, b, c = v
    return (r[0] * a + r[3] * b + r[6] * c, r[1] * a + r[4] * b + r[7] * c, r[2] * a + r[5] * b + r[8] * c)


def cross(a: Vector, b: Vector) -> Vector:
    return (a[1] * b[2] - a[2] * b[1], a[2] * b[0] - a[0] * b[2], a[0] * b[1] - a[1] * b[0])


def multiply(a: Quaternion, b: Quaternion) -> Quaternion:
    """Hamilton product: rotation `b` first, then `a`."""
    ax, ay, az, aw = a
    bx, by, bz, bw = b
    return (
        aw * bx + ax * bw + ay * bz - az * by,
        aw * by - ax * bz + ay * bw + az * bx,
        aw * bz + ax * by - ay * bx + az * bw,
        aw * bw - ax * bx - ay * by - az * bz,
    )


def spin(q: Quaternion, w: Vector) -> Quaternion:
    """Time derivative of the quaternion of a body with angular velocity `w` [rad/s] in the body frame."""
    x, y, z, s = q
    p, r, t = 0.5 * w[0], 0.5 * w[1], 0.5 * w[2]
    return (s * p + y * t - z * r, s * r - x * t + z * p, s * t + x * r - y * p, -x * p - y * r - z * t)


def normalised(q: Quaternion) -> Quaternion:
    x, y, z, w = q
    scale = 1.0 / math.sqrt(x * x + y * y + z * z + w * w)
    return (x * scale, y * scale, z * scale, w * scale)


Body = tuple[Vector, Quaternion, Vector, Vector]
"""Position, orientation, velocity and angular velocity of a body, or their time derivatives."""


def integrated(body: Body, rates: Callable[[Body, int], Body], dt: float) -> Body:
    """Body after `dt` [s], by the Runge-Kutta method; `rates` receives 0, 1 or 2 for the start, middle or end."""
    k1 = rates(body, 0)
    k2 = rates(_moved(body, k1, 0.5 * dt), 1)
    k3 = rates(_moved(body, k2, 0.5 * dt), 1)
    k4 = rates(_moved(body, k3, dt), 2)
    xyz, quat, velocity, turn = (
        tuple([n + dt / 6.0 * (a + 2.0 * (b + c) + d) for n, a, b, c, d in zip(*parts, strict=True)])
        for parts in zip(body, k1, k2, k3, k4, strict=True)
    )
    return (xyz, normalised(quat), velocity, turn)  # type: ignore[return-value,arg-type]


def _moved(body: Body, k: Body, dt: float) -> Body:
    (x, y, z), (a, b, c, d), (u, v, w), (p, q, r) = body
    (dx, dy, dz), (da, db, dc, dd), (du, dv, dw), (dp, dq, dr) = k
    return (
        (x + dt * dx, y + dt * dy, z + dt * dz),
        (a + dt * da, b + dt * db, c + dt * dc, d + dt * dd),
        (u + dt * du, v + dt * dv, w + dt * dw),
        (p + dt * dp, q + dt * dq, r + dt * dr),
    )


def heading(q: Quaternion) -> float:
    """Angle [rad] of the body's x axis in the world's xy plane."""
    x, y, z, w = q
    return math.atan2(2.0 * (x * y + w * z), 1.0 - 2.0 * (y * y + z * z))


def wrapped(angle: float) -> float:
    """Angle [rad] wrapped to the range from -pi to pi."""
    return math.remainder(angle, 2.0 * math.pi)


# ---- Commands. A command holds until the next one -------------------------------------------------------------------


class _Finite:
    """Base class of commands; checks that numbers and vectors are finite."""

    def __post_init__(self) -> None:
        name = f"{type(self).__name__.removesuffix('Command').lower()} command"
        for one in fields(self):  # type: ignore[arg-type]
            value = getattr(self, one.name)
            if one.type == "Vector":
                vector(f"{name}: {one.name}", value, 3)
            elif value is not None or one.type == "float":
                finite(f"{name}: {one.name}", value)


@dataclass(frozen=True)
class DriveCommand(_Finite):
    """Speed and yaw rate of a ground vehicle.

    >>> DriveCommand(0.8, yaw_rate_rad_s=0.1)
    DriveCommand(speed_m_s=0.8, yaw_rate_rad_s=0.1)
    """

    speed_m_s: float
    """Forward speed [m/s], negative in reverse."""
    yaw_rate_rad_s: float = 0.0
    """Yaw rate [rad/s], positive to the left."""


@dataclass(frozen=True)
class SteerCommand(_Finite):
    """Speed and steering angle of a car.

    >>> SteerCommand(5.0, steering_rad=-0.05)
    SteerCommand(speed_m_s=5.0, steering_rad=-0.05)
    """

    speed_m_s: float
    """Forward speed [m/s], negative in reverse."""
    steering_rad: float = 0.0
    """Angle of the front wheels [rad], positive to the left."""


@dataclass(frozen=True)
class VelocityCommand(_Finite):
    """Velocity of a multirotor.

    >>> VelocityCommand((2.0, 0.0, 0.5)).yaw_rad is None
    True
    """

    velocity_m_s: Vector
    """Velocity in the world [m/s]."""
    yaw_rad: float | None = None
    """Heading in the world [rad]; None keeps the last commanded one."""


@dataclass(frozen=True)
class PositionCommand(_Finite):
    """Position for a multirotor to reach and hold.

    >>> PositionCommand((10.0, 0.0, 5.0), speed_m_s=3.0).xyz_m
    (10.0, 0.0, 5.0)
    """

    xyz_m: Vector
    """Position in the world [m]."""
    yaw_rad: float | None = None
    """Heading in the world [rad]; None keeps the last commanded one."""
    speed_m_s: float | None = None
    """Speed limit [m/s]; None for that of the vehicle, which also applies."""


@dataclass(frozen=True)
class MotorsOff:
    """Stop the rotors of a multirotor."""


@dataclass(frozen=True)
class RotorCommand:
    """Speeds of the rotors of a multirotor, in the order of its data sheet, as an autopilot commands them.

    >>> RotorCommand((450.0, 450.0, 450.0, 450.0)).speeds_rad_s[0]
    450.0
    """

    speeds_rad_s: tuple[float, ...]
    """Commanded speeds [rad/s], limited to those of the vehicle."""

    def __post_init__(self) -> None:
        vector("rotor command: speeds_rad_s", self.speeds_rad_s, len(self.speeds_rad_s))


@dataclass(frozen=True)
class ThrustCommand(_Finite):
    """Thrust of the two thrusters of a vessel, forward positive.

    >>> ThrustCommand(port_n=40.0, starboard_n=60.0).steering_rad
    0.0
    """

    port_n: float
    """Thrust on the port side [N]."""
    starboard_n: float
    """Thrust on the starboard side [N]."""
    steering_rad: float = 0.0
    """Angle of both thrusters [rad], positive to turn left when moving forward; for steerable thrusters."""


Command = DriveCommand | SteerCommand | VelocityCommand | PositionCommand | MotorsOff | RotorCommand | ThrustCommand


# ---- base -----------------------------------------------------------------------------------------------------------


Row = tuple[float, ...]
"""State as 20 floats: time, xyz, quaternion, velocity, angular velocity, acceleration, angular acceleration."""

LONGEST_STEP_S = 10.0


class Vehicle(ABC):
    """Base class of vehicles. The same commands and steps give the same bits.

    A step is divided into equal parts of at most `longest_part_s`; the command holds for the whole step.
    """

    accepts: ClassVar[tuple[type, ...]]
    """Types of the accepted commands."""
    longest_part_s: ClassVar[float]
    """Longest step of the integration [s]."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.time = 0.0
        """Time [s]."""

    @abstractmethod
    def reset(self, pose: Pose = Pose(), *, time: float = 0.0) -> None:
        """Place the vehicle at rest at `pose` and `time` [s]."""

    @abstractmethod
    def row(self) -> Row:
        """Return the state as plain floats; see `Row`."""

    @abstractmethod
    def _target(self, command: Any) -> Any:
        """Convert a command to the target of `_advance`."""

    @abstractmethod
    def _advance(self, target: Any, dt: float) -> None:
        """Advance by `dt` [s], at most `longest_part_s`; `time` is the start of the part."""

    @property
    @abstractmethod
    def xyz(self) -> Vector:
        """Position [m] of the body frame in the world."""

    @property
    @abstractmethod
    def quat_xyzw(self) -> Quaternion:
        """Orientation, body to world."""

    @property
    @abstractmethod
    def speed_m_s(self) -> float:
        """Speed along the body's x axis [m/s]."""

    @property
    def yaw_rad(self) -> float:
        """Heading in the world [rad], from -pi to pi."""
        return heading(self.quat_xyzw)

    def check(self, command: object) -> None:
        """Raise ConfigError for a command that this vehicle does not accept."""
        if not isinstance(command, self.accepts):
            accepted = " or ".join(kind.__name__ for kind in self.accepts)
            raise ConfigError(f"{self.name}: accepts {accepted}, got {type(command).__name__}")

    def step(self, command: Command, dt: float) -> None:
        """Follow `command` for `dt` [s]."""
        self.check(command)
        if not 0.0 < dt <= LONGEST_STEP_S:
            above(f"{self.name}: dt", dt, 0.0, LONGEST_STEP_S)
        parts = max(1, math.ceil(dt / self.longest_part_s - 1e-9))
        start, part = self.time, dt / parts
        target = self._target(command)
        for number in range(parts):
            self.time = start + number * part
            self._advance(target, part)
        self.time = start + dt

    def state(self) -> BodyState:
        """Return the current state, as arrays for one time."""
        return state_of_rows(np.array([self.row()]))

    def saved(self) -> dict[str, Any]:
        """Return the changing numbers; `resume` goes on from them with the same bits."""
        return {name: value for name, value in vars(self).items() if _is_state(value)}

    def resume(self, values: dict[str, Any]) -> None:
        """Go on from saved numbers, in which lists may stand for tuples."""
        for name, value in values.items():
            setattr(self, name, _tupled(value) if isinstance(getattr(self, name), tuple) else value)


def _is_state(value: Any) -> bool:
    """Return True for a number, None, or nested tuples and lists of numbers."""
    if isinstance(value, tuple | list):
        return all(_is_state(one) for one in value)
    return value is None or isinstance(value, float)


def _tupled(value: Any) -> Any:
    return tuple(_tupled(one) for one in value) if isinstance(value, list) else value


def state_of_rows(rows: np.ndarray[Any, np.dtype[np.float64]]) -> BodyState:
    """States from rows of 20 numbers, shape (n, 20)."""
    return BodyState(
        rows[:, 0], rows[:, 1:4], rows[:, 4:8], rows[:, 8:11], rows[:, 11:14], rows[:, 14:17], rows[:, 17:20]
    )


class RigidBody(Vehicle):
    """A vehicle with six degrees of freedom; its frame is at the centre of mass."""

    _body: Body

    @property
    def xyz(self) -> Vector:
        return self._body[0]

    @property
    def quat_xyzw(self) -> Quaternion:
        return self._body[1]

    @property
    @abstractmethod
    def heavy(self) -> tuple[Vector, Vector]:
        """Mass along the body axes [kg] and inertia about them [kg m^2] that an impulse moves."""

    def motion(self) -> Body:
        """Position, orientation, velocity in the world [m/s] and angular velocity in the body frame [rad/s]."""
        return self._body

    def carry(self, xyz: Vector, quat: Quaternion, velocity: Vector, turn: Vector) -> None:
        """Take over pose and velocities, in the order of `motion`, after an impact."""
        self._body = (xyz, quat, velocity, turn)


class GroundVehicle(Vehicle):
    """A vehicle in the xy plane of its reset pose, which may be a slope; its frame lies on the ground.

    Its coordinates in the plane are x, y [m] and the angle psi [rad], all 0 at the reset pose.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._place(Pose(), 0.0)

    def _place(self, pose: Pose, time: float) -> None:
        self.time = finite(f"{self.name}: time", time)
        self._x = self._y = self._psi = 0.0
        ox, oy, oz = pose.xyz.tolist()
        qx, qy, qz, qw = pose.quat_xyzw.tolist()
        self._origin: Vector = (ox, oy, oz)
        self._plane: Quaternion = (qx, qy, qz, qw)
        self._axes = matrix(self._plane)

    @property
    def xyz(self) -> Vector:
        x, y, z = to_world(self._axes, (self._x, self._y, 0.0))
        return (self._origin[0] + x, self._origin[1] + y, self._origin[2] + z)

    @property
    def quat_xyzw(self) -> Quaternion:
        half = 0.5 * self._psi
        return multiply(self._plane, (0.0, 0.0, math.sin(half), math.cos(half)))

    def carry(self, row: Row) -> None:
        """Take over the pose and time of a body that moves the vehicle; its control goes on from there."""
        self.time, x, y, z, qx, qy, qz, qw = row[:8]
        self._x = self._y = self._psi = 0.0
        self._origin, self._plane = (x, y, z), (qx, qy, qz, qw)
        self._axes = matrix(self._plane)
        self._carried(to_body(self._axes, row[8:11]), row[13])  # type: ignore[arg-type]

    def _carried(self, velocity: Vector, yaw_rate: float) -> None:
        """Take over velocity [m/s] and yaw rate [rad/s] in the body frame."""

    def _row(self, forward: tuple[float, float], left: tuple[float, float], turn: tuple[float, float]) -> Row:
        """Row from (velocity, derivative) forward and to the left [m/s, m/s^2] and (yaw rate, derivative).

        The derivatives are those of the velocity components in the rotating frame.
        """
        c, s = math.cos(self._psi), math.sin(self._psi)
        u, v, w = forward[0], left[0], turn[0]
        pull, side = forward[1] - v * w, left[1] + u * w
        velocity = to_world(self._axes, (c * u - s * v, s * u + c * v, 0.0))
        acceleration = to_world(self._axes, (c * pull - s * side, s * pull + c * side, 0.0))
        spins = (0.0, 0.0, w, *acceleration, 0.0, 0.0, turn[1])
        return (self.time, *self.xyz, *self.quat_xyzw, *velocity, *spins)
