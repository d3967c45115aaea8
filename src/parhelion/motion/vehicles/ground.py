"""Ground vehicles: a car (dynamic bicycle, saturating tyres, steering and speed control) and a differential drive."""

from __future__ import annotations

import math
from typing import ClassVar

from parhelion.core.checks import finite
from parhelion.core.pose import Pose
from parhelion.motion.sea_spectrum import GRAVITY_M_S2
from parhelion.motion.vehicles.base import DriveCommand, GroundVehicle, Row, SteerCommand, Vector
from parhelion.motion.vehicles.sheets import CarConfig, DifferentialConfig

ROLLING_M_S, SLIDING_M_S = 1.0, 2.0
"""Speeds [m/s] between which the model blends from rolling wheels without slip angles to tyre forces.

The speed is the forward speed, or the lateral speed if the car slides.
"""

_ROLLING_LAG_S = 0.05

Drive = DriveCommand | SteerCommand

_State = tuple[float, float, float, float, float, float, float]
"""x, y, psi, forward speed, speed to the left, yaw rate, steering angle."""


def understeer_gradient(config: CarConfig) -> float:
    """Understeer gradient K [rad s^2/m]: a steady circle of radius R needs the steering angle L/R + K v^2/R.

    K = m/L (b/C_f - a/C_r) with the axle stiffnesses C [N/rad] (Riekert and Schunck 1940). Valid while no tyre is near
    its limit.
    """
    a, b = config.front_axle_m, config.rear_axle_m
    weight = config.mass_kg * GRAVITY_M_S2
    front = config.friction * config.front_stiffness_1_rad * weight * b / (a + b)
    rear = config.friction * config.rear_stiffness_1_rad * weight * a / (a + b)
    return config.mass_kg / (a + b) * (b / front - a / rear)


def tyre_force(
    slip_angle_rad: float, pull_n: float, load_n: float, friction: float, stiffness_1_rad: float
) -> tuple[float, float]:
    """Force along and across a wheel [N]: linear in the slip angle, limited to the circle friction * load.

    Limiting preserves the direction of the force. Linear tyres are valid up to about half of their limit.
    """
    limit = friction * load_n
    side = stiffness_1_rad * limit * slip_angle_rad
    size = math.hypot(pull_n, side)
    if size <= limit:
        return pull_n, side
    return pull_n * limit / size, side * limit / size


class Car(GroundVehicle):
    """A front-steered car. Its frame is on the ground below the centre of mass.

    Accepts `SteerCommand`, or `DriveCommand`, for which it steers by L/R + K v^2/R. There is no suspension: the car
    neither rolls nor pitches, but braking and driving shift load between the axles. Below 1 m/s and in reverse, wheels
    roll (kinematic bicycle) unless the car slides. The ground is flat.
    """

    accepts: ClassVar[tuple[type, ...]] = (DriveCommand, SteerCommand)
    longest_part_s: ClassVar[float] = 0.005

    def __init__(self, config: CarConfig) -> None:
        super().__init__(config.name)
        self.config = config
        self.wheelbase_m = config.front_axle_m + config.rear_axle_m
        self.understeer = understeer_gradient(config)
        self.reset()

    def reset(self, pose: Pose = Pose(), *, time: float = 0.0, speed_m_s: float = 0.0) -> None:
        """Place the car at `pose`, at rest or driving straight at `speed_m_s`."""
        self._place(pose, time)
        self._u = finite(f"{self.name}: speed_m_s", speed_m_s)
        self._v = self._r = self._steer = 0.0
        self._asked = (self._u, 0.0)

    @property
    def speed_m_s(self) -> float:
        return self._u

    @property
    def steering_rad(self) -> float:
        return self._steer

    @property
    def wanted_speed(self) -> float:
        """Speed [m/s] of the last command, within the limits."""
        return self._asked[0]

    @property
    def wanted_acceleration(self) -> float:
        """Acceleration [m/s^2] toward the speed of the last command, within the limits of engine and brakes."""
        return self._acceleration(self._u, self._asked[0])

    def _carried(self, velocity: Vector, yaw_rate: float) -> None:
        self._u, self._v, self._r = velocity[0], velocity[1], yaw_rate

    def _target(self, command: Drive) -> Drive:
        return command

    def _steering(self, command: Drive) -> float:
        if isinstance(command, SteerCommand):
            angle = command.steering_rad
        else:
            speed = self._u
            if abs(speed) < ROLLING_M_S:
                speed = math.copysign(ROLLING_M_S, command.speed_m_s)
            sway = self.understeer * speed * command.yaw_rate_rad_s
            angle = math.atan(self.wheelbase_m * command.yaw_rate_rad_s / speed) + (sway if speed > 0.0 else 0.0)
        most = self.config.max_steering_rad
        return min(max(angle, -most), most)

    @property
    def tyre_forces_n(self) -> tuple[tuple[float, float], tuple[float, float]]:
        """Force along and across the wheels of the front and rear axles [N]; 0 while the wheels roll."""
        if self._sliding(self._u, self._v, self._steer) == 0.0:
            return (0.0, 0.0), (0.0, 0.0)
        return self._forces(self._u, self._v, self._r, self._steer, self._acceleration(self._u, self._asked[0]))

    def _now(self) -> _State:
        return (self._x, self._y, self._psi, self._u, self._v, self._r, self._steer)

    def _advance(self, target: Drive, dt: float) -> None:
        limits = self.config
        speed = min(max(target.speed_m_s, -limits.max_reverse_speed_m_s), limits.max_speed_m_s)
        steer = self._steering(target)
        s = self._now()
        k1 = self._derivative(s, speed, steer)
        k2 = self._derivative(_moved(s, k1, 0.5 * dt), speed, steer)
        k3 = self._derivative(_moved(s, k2, 0.5 * dt), speed, steer)
        k4 = self._derivative(_moved(s, k3, dt), speed, steer)
        sixth = dt / 6.0
        new = [n + sixth * (a + 2.0 * (b + c) + d) for n, a, b, c, d in zip(s, k1, k2, k3, k4, strict=True)]
        self._x, self._y, self._psi, self._u, self._v, self._r, self._steer = new
        self._asked = (speed, steer)

    def _derivative(self, state: _State, speed: float, steer: float) -> _State:
        _, _, psi, u, v, r, delta = state
        car = self.config
        c, s = math.cos(psi), math.sin(psi)
        rate = min(max((steer - delta) / car.steering_lag_s, -car.max_steering_rate_rad_s), car.max_steering_rate_rad_s)
        asked = self._acceleration(u, speed)
        share = self._sliding(u, v, delta)
        du = dv = dr = 0.0
        if share < 1.0:
            du, dv, dr = ((1.0 - share) * one for one in self._rolling(u, v, r, delta, asked))
        if share > 0.0:
            (front_pull, front_side), (rear_pull, rear_side) = self._forces(u, v, r, delta, asked)
            cd, sd = math.cos(delta), math.sin(delta)
            front_x, front_y = front_pull * cd - front_side * sd, front_pull * sd + front_side * cd
            du += share * ((front_x + rear_pull) / car.mass_kg + v * r)
            dv += share * ((front_y + rear_side) / car.mass_kg - u * r)
            dr += share * (car.front_axle_m * front_y - car.rear_axle_m * rear_side) / car.yaw_inertia_kg_m2
        return (c * u - s * v, s * u + c * v, r, du, dv, dr, rate)

    def _sliding(self, u: float, v: float, delta: float) -> float:
        """Weight of the tyre forces in the motion, 0 while wheels roll."""
        aside = abs(v - u * math.tan(delta) / self.wheelbase_m * self.config.rear_axle_m)
        return min(max((max(u, aside) - ROLLING_M_S) / (SLIDING_M_S - ROLLING_M_S), 0.0), 1.0)

    def _rolling(self, u: float, v: float, r: float, delta: float, asked: float) -> tuple[float, float, float]:
        """Derivatives of speeds and yaw rate that make the wheels roll, as far as friction allows."""
        car = self.config
        turn = u * math.tan(delta) / self.wheelbase_m
        pull, side = asked - v * r, (turn * car.rear_axle_m - v) / _ROLLING_LAG_S + u * r
        cut = min(1.0, car.friction * GRAVITY_M_S2 / max(math.hypot(pull, side), 1e-9))
        twist = car.friction * car.mass_kg * GRAVITY_M_S2 * car.front_axle_m * car.rear_axle_m / self.wheelbase_m
        most = 2.0 * twist / car.yaw_inertia_kg_m2
        return cut * pull + v * r, cut * side - u * r, min(max((turn - r) / _ROLLING_LAG_S, -most), most)

    def _acceleration(self, u: float, speed: float) -> float:
        car = self.config
        asked = (speed - u) / car.speed_lag_s
        if asked * u < 0.0:  # brakes
            return min(max(asked, -car.max_braking_m_s2), car.max_braking_m_s2)
        power = car.max_acceleration_m_s2 * min(1.0, car.full_power_speed_m_s / max(abs(u), 1e-9))
        return min(max(asked, -power), power)

    def _forces(
        self, u: float, v: float, r: float, delta: float, asked: float
    ) -> tuple[tuple[float, float], tuple[float, float]]:
        """Tyre forces [N] along and across the wheels of the front and rear axles."""
        car = self.config
        a, b, base = car.front_axle_m, car.rear_axle_m, self.wheelbase_m
        shift = car.centre_of_mass_height_m * asked
        front_load = max(car.mass_kg * (GRAVITY_M_S2 * b - shift) / base, 0.0)
        rear_load = max(car.mass_kg * (GRAVITY_M_S2 * a + shift) / base, 0.0)
        cd, sd = math.cos(delta), math.sin(delta)
        front_slip = -math.atan2((v + a * r) * cd - u * sd, abs(u * cd + (v + a * r) * sd))
        rear_slip = -math.atan2(v - b * r, abs(u))
        # The driver holds the speed: the engine also compensates for the side force of the front wheels.
        side = tyre_force(front_slip, 0.0, front_load, car.friction, car.front_stiffness_1_rad)[1]
        pull = car.mass_kg * (asked - v * r) + side * sd
        share = car.drive_front_share if pull > 0.0 else front_load / (front_load + rear_load)
        return (
            tyre_force(front_slip, share * pull, front_load, car.friction, car.front_stiffness_1_rad),
            tyre_force(rear_slip, (1.0 - share) * pull, rear_load, car.friction, car.rear_stiffness_1_rad),
        )

    def row(self) -> Row:
        du, dv, dr = self._derivative(self._now(), *self._asked)[3:6]
        return self._row((self._u, du), (self._v, dv), (self._r, dr))


def _moved(s: _State, k: _State, dt: float) -> _State:
    return tuple([value + dt * rate for value, rate in zip(s, k, strict=True)])  # type: ignore[return-value]


# ---- Differential drive: limited speed and yaw rate, exact motion between them --------------------------------------


_NODE, _OUTER, _MIDDLE = math.sqrt(0.6), 5.0 / 18.0, 8.0 / 18.0
"""Three-point Gauss-Legendre rule: exact for polynomials of degree 5."""


class DifferentialDrive(GroundVehicle):
    """A robot with independently driven left and right wheels. Its frame is on the ground, between the wheels.

    Speed and yaw rate approach the command at constant accelerations, as with a motor controller. Wheel speeds are
    v -+ w b/2 with the effective track b, which is wider than the real one for skid steering. Slip reduces the motion
    of the robot by a constant share.
    """

    accepts: ClassVar[tuple[type, ...]] = (DriveCommand,)
    longest_part_s: ClassVar[float] = 0.02

    def __init__(self, config: DifferentialConfig) -> None:
        super().__init__(config.name)
        self.config = config
        self._grip, self._turn_grip = 1.0 - config.forward_slip, 1.0 - config.turn_slip
        self.reset()

    def reset(self, pose: Pose = Pose(), *, time: float = 0.0, speed_m_s: float = 0.0) -> None:
        """Place the robot at `pose`, at rest or with a wheel speed of `speed_m_s`."""
        self._place(pose, time)
        self._v = finite(f"{self.name}: speed_m_s", speed_m_s)
        self._w = self._dv = self._dw = 0.0
        self._moving: float | None = None

    @property
    def speed_m_s(self) -> float:
        return self._grip * self._v if self._moving is None else self._moving

    def _carried(self, velocity: Vector, yaw_rate: float) -> None:
        self._moving = velocity[0]

    @property
    def wheel_rates_rad_s(self) -> tuple[float, float]:
        """Angular velocities of the left and right wheels [rad/s], forward positive, as encoders measure them."""
        half, radius = 0.5 * self.config.effective_track, self.config.wheel_radius_m
        return ((self._v - half * self._w) / radius, (self._v + half * self._w) / radius)

    def _target(self, command: DriveCommand) -> tuple[float, float]:
        limits = self.config
        v = min(max(command.speed_m_s, -limits.max_speed_m_s), limits.max_speed_m_s)
        w = min(max(command.yaw_rate_rad_s, -limits.max_yaw_rate_rad_s), limits.max_yaw_rate_rad_s)
        if limits.max_wheel_speed_m_s is not None:
            # Scaling both preserves the curvature of the path.
            wheel = abs(v) + 0.5 * limits.effective_track * abs(w)
            if wheel > limits.max_wheel_speed_m_s:
                v, w = v * limits.max_wheel_speed_m_s / wheel, w * limits.max_wheel_speed_m_s / wheel
        return v, w

    def _advance(self, target: tuple[float, float], dt: float) -> None:
        # Pieces end when speed or yaw rate reaches its target, so accelerations are constant within a piece.
        left, (v_end, w_end), limits = dt, target, self.config
        while left > 0.0:
            v_gap, w_gap = v_end - self._v, w_end - self._w
            v_time = abs(v_gap) / limits.max_acceleration_m_s2
            w_time = abs(w_gap) / limits.max_yaw_acceleration_rad_s2
            self._dv = math.copysign(limits.max_acceleration_m_s2, v_gap) if v_gap else 0.0
            self._dw = math.copysign(limits.max_yaw_acceleration_rad_s2, w_gap) if w_gap else 0.0
            piece = min(left, v_time if v_gap else left, w_time if w_gap else left)
            self._move(piece)
            self._v = v_end if piece >= v_time else self._v + self._dv * piece
            self._w = w_end if piece >= w_time else self._w + self._dw * piece
            left -= piece
        if self._v == v_end:
            self._dv = 0.0
        if self._w == w_end:
            self._dw = 0.0

    def _move(self, dt: float) -> None:
        v, dv = self._grip * self._v, self._grip * self._dv
        w, dw = self._turn_grip * self._w, self._turn_grip * self._dw
        psi = self._psi
        self._psi = psi + dt * (w + 0.5 * dw * dt)
        if v == 0.0 and dv == 0.0:
            return
        if w == 0.0 and dw == 0.0:
            distance = dt * (v + 0.5 * dv * dt)
            self._x += distance * math.cos(psi)
            self._y += distance * math.sin(psi)
            return
        for node, weight in ((-_NODE, _OUTER), (0.0, _MIDDLE), (_NODE, _OUTER)):
            t = 0.5 * dt * (1.0 + node)
            angle, distance = psi + t * (w + 0.5 * dw * t), weight * dt * (v + dv * t)
            self._x += distance * math.cos(angle)
            self._y += distance * math.sin(angle)

    def row(self) -> Row:
        grip, turn = self._grip, self._turn_grip
        return self._row((grip * self._v, grip * self._dv), (0.0, 0.0), (turn * self._w, turn * self._dw))
