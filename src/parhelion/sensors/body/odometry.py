"""Wheel odometry: motion -> rolling distance of each wheel -> slip, radius, track -> ticks -> dead-reckoned pose."""

from __future__ import annotations

from dataclasses import dataclass, replace
from os import PathLike
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from parhelion.core.config import NonNegative, Positive, SampledSheet
from parhelion.core.deprecation import keyword_only
from parhelion.core.noise import gauss_markov, normals, white
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_from_rpy, quat_multiply, quat_rotate
from parhelion.core.random import Stream, to_unit
from parhelion.core.streams import OdometryData
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.motion.state import at_mount, state_of
from parhelion.sensors.base import SampleStream, StreamSensor
from parhelion.world.world import World

WHEELS = {"differential": ("left", "right"), "car": ("rear-left", "rear-right", "front-left", "front-right")}
MOST_SLIP = 0.9
"""Limit of the slip, in both directions; beyond it, a wheel no longer measures the road."""
STANDING_M_S = 1e-6
"""Speed [m/s] below which the steering angle cannot be derived from the path and is reported as 0."""

_DEG = np.pi / 180.0
# Gauss-Legendre nodes and weights on (0, 1): exact for speeds that are polynomials of degree 5 within a period.
_NODES = 0.5 + np.array([-0.5, 0.0, 0.5]) * np.sqrt(0.6)
_WEIGHTS = np.array([5.0, 8.0, 5.0]) / 18.0

Tolerance = Annotated[float, Field(ge=0, le=20)]


class OdometryConfig(SampledSheet):
    """Wheels and encoders of one vehicle. The sensor frame is at the middle of the (rear) axle, x forward."""

    kind: Literal["differential", "car"]
    """Drive: differential, or car with Ackermann steering."""
    wheel_radius_m: Positive
    """Nominal wheel radius [m]."""
    track_m: Positive
    """Distance between left and right wheels [m]."""
    effective_track_factor: Positive = 1.0
    """Factor on the track of skid-steered vehicles, whose wheels roll farther than the geometry predicts."""
    wheelbase_m: Positive | None = None
    """Distance between the axles of a car [m]."""
    ticks_per_turn: Annotated[int, Field(ge=1)]
    """Encoder counts per wheel revolution."""
    radius_error_percent: Tolerance = 0.0
    """Standard deviation [%] of the true radius of each wheel, over vehicles."""
    track_error_percent: Tolerance = 0.0
    """Standard deviation [%] of the true (effective) track, over vehicles."""
    slip_percent: Annotated[float, Field(ge=0, le=50)] = 0.0
    """Mean longitudinal slip [%]: a wheel that rolls r·ω moves its vehicle by (1 - slip) r·ω."""
    slip_sigma_percent: Tolerance = 0.0
    """Standard deviation [%] of the Gauss-Markov part of the slip, independent per wheel."""
    slip_correlation_time_s: Positive | None = None
    """Correlation time of the slip [s]."""
    steering_offset_deg: NonNegative = 0.0
    """Standard deviation [deg] of the constant error of the steering angle, over vehicles."""
    steering_noise_deg: NonNegative = 0.0
    """Standard deviation [deg] of one sample of the steering angle."""

    @model_validator(mode="after")
    def _complete(self) -> OdometryConfig:
        if (self.kind == "car") != (self.wheelbase_m is not None):
            raise ValueError("wheelbase_m must be given for a car, and only for a car")
        if self.slip_sigma_percent > 0 and self.slip_correlation_time_s is None:
            raise ValueError("slip_sigma_percent above 0 needs slip_correlation_time_s")
        return self


def wheel_velocity(velocity: Floats, yaw_rate: Floats, positions: Floats) -> Floats:
    """Rolling speed [m/s] of wheels at `positions` (w, 2) [m] in the sensor frame, shape (n, w).

    Rigid body: v + ω × r, for `velocity` (n, 3) [m/s] and `yaw_rate` (n,) [rad/s] in the sensor frame. Wheels on the
    axle of the sensor roll straight ahead; all others are steered along their path and roll with their full speed.
    """
    ahead = velocity[:, :1] - yaw_rate[:, None] * positions[:, 1]
    aside = velocity[:, 1:2] + yaw_rate[:, None] * positions[:, 0]
    along_path = np.copysign(np.sqrt(ahead * ahead + aside * aside), ahead)
    return np.where(positions[:, 0] == 0.0, ahead, along_path)


def dead_reckoned(distance: Floats, turn: Floats) -> tuple[Floats, Floats]:
    """Poses after each step, (n, 3) [m] and (n, 4), from lengths [m] and heading changes [rad] of circular arcs."""
    after = np.cumsum(turn)
    middle = after - 0.5 * turn
    # The chord of an arc: sin(turn / 2) / (turn / 2) of its length.
    chord = distance * np.sinc(0.5 * turn / np.pi)
    xyz = np.stack([np.cumsum(chord * np.cos(middle)), np.cumsum(chord * np.sin(middle)), np.zeros_like(turn)], axis=1)
    return xyz, quat_from_rpy(np.zeros_like(after), np.zeros_like(after), after)


@dataclass(frozen=True, eq=False)
class WheelErrors:
    """Deviations of one vehicle from its nominal geometry."""

    radius_factor: Floats
    """Ratio of true to nominal radius of each wheel, shape (w,)."""
    track_factor: float
    """Ratio of true to nominal track."""
    steering_offset_rad: float
    """Constant error of the steering angle [rad]."""
    phase: Floats
    """Encoder phase at the start of a run, as a fraction of a revolution from 0 to 1, shape (w,)."""


class Odometry(StreamSensor[OdometryConfig, OdometryData]):
    """Wheel odometry. A seed represents one vehicle on one drive.

        >>> from parhelion import ConstantTwist, Odometry, Pose
        >>> drive = ConstantTwist(Pose(), velocity=(1.0, 0.0, 0.0))
        >>> data = Odometry("clearpath/husky", noise=False).run(None, drive, duration=10.0)
        >>> data.xyz[-1].round(3).tolist()
        [10.0, 0.0, 0.0]

    Each row is at the end of a period: a run from `start` has rows at `start` + 1 / rate, `start` + 2 / rate ...
    (`start` rounded up to the sample clock). Pose and ticks count from the start of a run, so the second part of a
    split run starts again at 0. Random numbers depend on the sample number only. `mount` is the pose of the middle of
    the (rear) axle on the body.

    Args:
        model: Preset name, YAML file or `OdometryConfig`.
        name: Name that distinguishes the sensor from others of its model; each name has its own errors.
        rate_hz: Samples per second; by default that of the data sheet.
        noise: False simulates ideal wheels of nominal size without quantisation.
    """

    kind = "odometry"
    uses_world = False
    allow_static = False
    accumulates = True

    @keyword_only("rate_hz", "noise")
    def __init__(
        self,
        model: str | PathLike[str] | OdometryConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
    ) -> None:
        super().__init__(*self._opened(OdometryConfig, model), name=name, rate_hz=rate_hz, noise=noise)
        self.wheels = WHEELS[self.config.kind]

    def _stream(self, world: World, motion: Trajectory, seed: int, mount: Pose | None, start: float) -> SampleStream:
        return WheelStream(self, motion, seed, mount, start)

    def errors(self, seed: int) -> WheelErrors:
        """Errors of the vehicle that a seed represents: the truth for a calibration."""
        sheet, wheels = self.config, len(self.wheels)
        draws = normals(Stream(seed, self._streams + "/wheels"), np.arange(2, dtype=np.int64))
        phase = np.array([to_unit(word)[0] for word in Stream(seed, self._streams + "/phase").words([0])])
        return WheelErrors(
            1.0 + sheet.radius_error_percent / 100.0 * draws[0, :wheels],
            1.0 + sheet.track_error_percent / 100.0 * float(draws[1, 0]),
            sheet.steering_offset_deg * _DEG * float(draws[1, 1]),
            phase[:wheels],
        )

    def _samples(
        self, world: World | None, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None
    ) -> OdometryData:
        sheet, errors = self.config, self.errors(seed)
        track = sheet.track_m * sheet.effective_track_factor * (errors.track_factor if self.noise else 1.0)
        edges = np.arange(first, first + count + 1, dtype=np.int64) / self.rate_hz
        angles = getattr(motion, "wheel_angles", lambda times, wheels: None)(edges, len(self.wheels))
        if angles is None:
            rolled = self._rolled(motion, edges, mount, track)
            if self.noise:
                rolled = rolled / ((1.0 - self._slip(first, count, seed)) * errors.radius_factor)
        else:
            # Wheels in contact with the ground turn on their own; their slip is part of the motion.
            rolled = np.diff(angles, axis=0) * (sheet.wheel_radius_m / (errors.radius_factor if self.noise else 1.0))
        turns = np.cumsum(rolled, axis=0) / (2.0 * np.pi * sheet.wheel_radius_m)
        phase = errors.phase if self.noise else np.zeros(len(self.wheels))
        marks = np.floor((turns + phase) * sheet.ticks_per_turn)
        if self.noise:
            turns = (marks - np.floor(phase * sheet.ticks_per_turn)) / sheet.ticks_per_turn
        rolled = np.diff(turns, axis=0, prepend=np.zeros((1, len(self.wheels)))) * (2.0 * np.pi * sheet.wheel_radius_m)
        steering = self._steering(motion, edges, first, seed, mount)
        distance = 0.5 * (rolled[:, 0] + rolled[:, 1])
        if steering is None or sheet.wheelbase_m is None:
            turn = (rolled[:, 1] - rolled[:, 0]) / (sheet.track_m * sheet.effective_track_factor)
        else:
            turn = distance * np.tan(0.5 * (steering[1:] + steering[:-1])) / sheet.wheelbase_m
        xyz, quat = dead_reckoned(distance, turn)
        still = np.zeros(count)
        return OdometryData(
            time=edges[1:],
            wheels=self.wheels,
            ticks=marks.astype(np.int64),
            wheel_speed=rolled * (self.rate_hz / sheet.wheel_radius_m),
            xyz=xyz,
            quat_xyzw=quat,
            velocity=np.stack([distance * self.rate_hz, still, still], axis=1),
            angular_velocity=np.stack([still, still, turn * self.rate_hz], axis=1),
            steering_angle=None if steering is None else steering[1:],
            metadata={"sensor": self.model, "seed": int(seed), "rate_hz": self.rate_hz},
        )

    def _rolled(self, motion: Trajectory, edges: Floats, mount: Pose | None, track: float) -> Floats:
        """Distance [m] that each wheel rolls between successive `edges` [s], shape (n, w)."""
        period = 1.0 / self.rate_hz
        times = (edges[:-1, None] + period * _NODES).ravel()
        velocity, yaw_rate = self._twist(motion, times, mount)
        base = self.config.wheelbase_m or 0.0
        positions = np.array([[0.0, 0.5 * track], [0.0, -0.5 * track], [base, 0.5 * track], [base, -0.5 * track]])
        speed = wheel_velocity(velocity, yaw_rate, positions[: len(self.wheels)]).reshape(len(edges) - 1, 3, -1)
        return period * (speed[:, 0] * _WEIGHTS[0] + speed[:, 1] * _WEIGHTS[1] + speed[:, 2] * _WEIGHTS[2])

    def _twist(self, motion: Trajectory, times: Floats, mount: Pose | None) -> tuple[Floats, Floats]:
        """Velocity (n, 3) [m/s] and yaw rate (n,) [rad/s] of the axle in its own frame."""
        state = at_mount(state_of(motion, times), Pose() if mount is None else mount)
        return quat_rotate(quat_conjugate(state.quat_xyzw), state.velocity), state.angular_velocity[:, 2]

    def _slip(self, first: int, count: int, seed: int) -> Floats:
        """Slip of each wheel in each period, shape (n, w)."""
        sheet = self.config
        slip = np.full((count, len(self.wheels)), sheet.slip_percent / 100.0)
        if sheet.slip_correlation_time_s is not None:
            samples = sheet.slip_correlation_time_s * self.rate_hz
            walk = gauss_markov(seed, self._streams + "/slip", first, count, samples)
            slip = slip + sheet.slip_sigma_percent / 100.0 * walk[:, : len(self.wheels)]
        return np.clip(slip, -MOST_SLIP, MOST_SLIP)

    def _steering(self, motion: Trajectory, edges: Floats, first: int, seed: int, mount: Pose | None) -> Floats | None:
        """Steering angle [rad] of the virtual middle front wheel at all edges, with its errors; None without steering.

        Derived from the path by the kinematic bicycle model, tan δ = L ω / v; a standing car reports 0.
        """
        sheet = self.config
        if sheet.wheelbase_m is None:
            return None
        velocity, yaw_rate = self._twist(motion, edges, mount)
        moving = np.abs(velocity[:, 0]) > STANDING_M_S
        angle = np.where(moving, np.arctan(sheet.wheelbase_m * yaw_rate / np.where(moving, velocity[:, 0], 1.0)), 0.0)
        if not self.noise:
            return angle
        noise = sheet.steering_noise_deg * _DEG * white(seed, self._streams + "/steering", first, len(edges))[:, 0]
        return angle + self.errors(seed).steering_offset_rad + noise


# ---- Incremental wheel odometry: the same ticks and poses as one run over all steps ---------------------------------


_FINE_TICKS = 10**9
"""Ticks per revolution of the virtual encoder that carries the wheel angles from one part to the next."""


class _Continued(Odometry):
    """The same sensor with a given encoder phase at the start of a run."""

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
    """Incremental samples of wheel odometry; ticks and pose continue from one call to the next."""

    def __init__(self, sensor: Odometry, motion: Trajectory, seed: int, mount: Pose | None, start: float) -> None:
        self._motion, self._seed, self._mount = motion, seed, mount
        self._sensor = _Continued.like(sensor)
        self._fine = _Continued.like(sensor)
        self._fine.config = sensor.config.model_copy(update={"ticks_per_turn": _FINE_TICKS})
        self._next = int(np.ceil(start * sensor.rate_hz - 1e-9))
        """Number of the first period that has not been returned yet."""
        self._phase = sensor.errors(seed).phase
        self._xyz, self._quat = np.zeros(3), np.array([0.0, 0.0, 0.0, 1.0])

    def until(self, time: float) -> OdometryData:
        """Return the periods that ended since the last call and until a time [s]; possibly none."""
        rate = self._sensor.rate_hz
        # A period that has not ended cannot be measured, because the motion until its end is unknown.
        end = int(np.floor(time * rate + 1e-9))
        if end <= self._next:
            nothing: OdometryData = self._sensor._samples(None, Fixed(Pose()), 0, 1, self._seed, None).select(
                slice(0, 0)
            )
            return nothing
        first, count = self._next, end - self._next
        self._next = end
        self._sensor.phase = self._fine.phase = self._phase
        found = self._sensor._samples(None, self._motion, first, count, self._seed, self._mount)
        if self._sensor.noise:
            fine = self._fine._samples(None, self._motion, first, count, self._seed, self._mount)
            self._phase = fine.ticks[-1] / _FINE_TICKS
        xyz = quat_rotate(self._quat, found.xyz) + self._xyz
        quat = quat_multiply(np.broadcast_to(self._quat, found.quat_xyzw.shape), found.quat_xyzw)
        self._xyz, self._quat = xyz[-1], quat[-1] / np.linalg.norm(quat[-1])
        return replace(found, xyz=xyz, quat_xyzw=quat)
