"""Wheel odometry step by step: the same ticks and poses as one run over all steps gives."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from parhelion.core.inertial import OdometryData
from parhelion.core.pose import Pose, quat_multiply, quat_rotate
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.sensors.odometry import Odometry, WheelErrors

_FINE_TICKS = 10**9
"""Ticks a turn of the encoder by which the wheels' angles are carried from one part to the next."""


class _Continued(Odometry):
    """The same sensor whose encoders stand elsewhere when a run begins."""

    phase: Any = None

    @classmethod
    def like(cls, sensor: Odometry) -> _Continued:
        made = cls.__new__(cls)
        made.__dict__.update(sensor.__dict__)
        return made

    def errors(self, seed: int) -> WheelErrors:
        known = super().errors(seed)
        return known if self.phase is None else replace(known, phase=self.phase)


class WheelStream:
    """Samples of wheel odometry as they become known."""

    def __init__(self, sensor: Odometry, motion: Trajectory, seed: int, mount: Pose | None, start: float) -> None:
        self._motion, self._seed, self._mount = motion, seed, mount
        self._sensor = _Continued.like(sensor)
        self._fine = _Continued.like(sensor)
        self._fine.config = sensor.config.model_copy(update={"ticks_per_turn": _FINE_TICKS})
        self._next = int(np.ceil(start * sensor.rate_hz - 1e-9))
        """Number of the first period that was not told."""
        self._phase = sensor.errors(seed).phase
        self._xyz, self._quat = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])

    def until(self, time: float) -> OdometryData:
        """The periods that ended since the last call and until a time [s]; perhaps none."""
        rate = self._sensor.rate_hz
        # A period that is still going on is not measured: where the vehicle will be is not known yet.
        end = int(np.floor(time * rate + 1e-9))
        if end <= self._next:
            nothing: OdometryData = self._sensor.run(Fixed(Pose()), 0.0, 1.0 / rate, self._seed).select(slice(0, 0))
            return nothing
        start, duration = self._next / rate, (end - self._next) / rate
        self._next = end
        self._sensor.phase = self._fine.phase = self._phase
        found = self._sensor.run(self._motion, start, duration, self._seed, self._mount)
        if self._sensor.noise:
            fine = self._fine.run(self._motion, start, duration, self._seed, self._mount)
            self._phase = fine.ticks[-1] / _FINE_TICKS
        xyz = quat_rotate(self._quat, found.xyz) + self._xyz
        quat = quat_multiply(np.broadcast_to(self._quat, found.quat_xyzw.shape), found.quat_xyzw)
        self._xyz, self._quat = xyz[-1], quat[-1] / np.linalg.norm(quat[-1])
        return replace(found, xyz=xyz, quat_xyzw=quat)
