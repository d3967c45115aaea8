"""Differential drive: two driven sides, speed and turn rate with limits, exact motion between them."""

from __future__ import annotations

import math
from typing import ClassVar

from parhelion.core.pose import Pose
from parhelion.motion.checks import finite
from parhelion.motion.vehicles.base import GroundVehicle, Row
from parhelion.motion.vehicles.commands import DriveCommand
from parhelion.motion.vehicles.config import DifferentialConfig

_NODE, _OUTER, _MIDDLE = math.sqrt(0.6), 5.0 / 18.0, 8.0 / 18.0
"""Gauss and Legendre's rule of three points on an interval: exact for polynomials of degree 5."""


class DifferentialDrive(GroundVehicle):
    """A robot with a driven side left and right. Its frame is on the ground, between the wheels.

    Speed and turn rate run towards the command at constant accelerations, as a motor controller makes them. Wheels
    follow v -+ w b/2 with the effective track b, which for skid steering is wider than the real one. Slip takes a
    constant share of what the wheels would do without it.
    """

    accepts: ClassVar[tuple[type, ...]] = (DriveCommand,)
    longest_part_s: ClassVar[float] = 0.02

    def __init__(self, config: DifferentialConfig) -> None:
        super().__init__(config.name)
        self.config = config
        self._grip, self._turn_grip = 1.0 - config.forward_slip, 1.0 - config.turn_slip
        self.reset()

    def reset(self, pose: Pose = Pose(), *, time: float = 0.0, speed_m_s: float = 0.0) -> None:
        """Stand at `pose`, or drive there at `speed_m_s` of the wheels already."""
        self._place(pose, time)
        self._v = finite(f"{self.name}: speed_m_s", speed_m_s)
        self._w = self._dv = self._dw = 0.0

    @property
    def speed_m_s(self) -> float:
        return self._grip * self._v

    @property
    def wheel_rates_rad_s(self) -> tuple[float, float]:
        """Turn rates of the left and right wheels, forward positive, as encoders see them."""
        half, radius = 0.5 * self.config.effective_track, self.config.wheel_radius_m
        return ((self._v - half * self._w) / radius, (self._v + half * self._w) / radius)

    def _target(self, command: DriveCommand) -> tuple[float, float]:
        limits = self.config
        v = min(max(command.speed_m_s, -limits.max_speed_m_s), limits.max_speed_m_s)
        w = min(max(command.yaw_rate_rad_s, -limits.max_yaw_rate_rad_s), limits.max_yaw_rate_rad_s)
        if limits.max_wheel_speed_m_s is not None:
            # Both are scaled alike, so that the path keeps its curvature.
            wheel = abs(v) + 0.5 * limits.effective_track * abs(w)
            if wheel > limits.max_wheel_speed_m_s:
                v, w = v * limits.max_wheel_speed_m_s / wheel, w * limits.max_wheel_speed_m_s / wheel
        return v, w

    def _advance(self, target: tuple[float, float], dt: float) -> None:
        # Pieces end where speed or turn rate reach their target, so accelerations are constant within a piece.
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
            way = dt * (v + 0.5 * dv * dt)
            self._x += way * math.cos(psi)
            self._y += way * math.sin(psi)
            return
        for node, weight in ((-_NODE, _OUTER), (0.0, _MIDDLE), (_NODE, _OUTER)):
            t = 0.5 * dt * (1.0 + node)
            angle, way = psi + t * (w + 0.5 * dw * t), weight * dt * (v + dv * t)
            self._x += way * math.cos(angle)
            self._y += way * math.sin(angle)

    def row(self) -> Row:
        grip, turn = self._grip, self._turn_grip
        return self._row((grip * self._v, grip * self._dv), (0.0, 0.0), (turn * self._w, turn * self._dw))
