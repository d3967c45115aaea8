"""Inertial measurement unit: motion -> truth at the mount -> fixed errors -> bias and noise -> digital output."""

from __future__ import annotations

from dataclasses import dataclass
from os import PathLike
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Positive, SampledSheet
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.deprecation import keyword_only
from parhelion.core.noise import (
    GAUSS_MARKOV_PEAK,
    AxesErrors,
    digitised,
    drawn_axes,
    gauss_markov,
    rounding_variance,
    sample_span,
    transformed,
    white,
)
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_multiply, quat_rotate
from parhelion.core.streams import ImuData
from parhelion.core.trajectory import Trajectory
from parhelion.motion.state import BodyState, at_mount, state_of
from parhelion.sensors.base import StreamSensor
from parhelion.world.world import World

# ---- Data sheet of an inertial measurement unit ---------------------------------------------------------------------
# White noise is given as N, the Allan deviation at one second: rate or force per √Hz, the same number as the random
# walk per √s. An angular random walk in deg/√h is 60 times N in deg/s/√Hz. Most data sheets state the one-sided
# spectral density instead, whose RMS over a bandwidth B is density · √B; that density is √2 N.


Tolerance = Annotated[float, Field(ge=0, le=20)]


class SensorTriad(Config):
    """Fields shared by gyroscopes and accelerometers. Standard deviations are over units of one model."""

    bias_correlation_time_s: Positive | None = None
    """Correlation time [s] of the Gauss-Markov part of the bias."""
    scale_factor_percent: Tolerance = 0.0
    """Standard deviation [%] of the scale factor of each axis."""
    misalignment_deg: Tolerance = 0.0
    """Standard deviation [deg] of the angle between each axis and its nominal direction, towards each other axis."""

    @model_validator(mode="after")
    def _timed(self) -> SensorTriad:
        for name in ("bias_instability_deg_h", "bias_instability_ug"):
            if getattr(self, name, 0.0) > 0 and self.bias_correlation_time_s is None:
                raise ValueError(f"{name} above 0 needs bias_correlation_time_s")
        return self


class Gyroscope(SensorTriad):
    """Three gyroscopes."""

    range_deg_s: Positive
    """Largest reported rate [deg/s], in both directions."""
    noise_deg_s_sqrt_hz: NonNegative = 0.0
    """White noise N [deg/s/√Hz]."""
    bias_instability_deg_h: NonNegative = 0.0
    """Highest Allan deviation of the Gauss-Markov part of the bias: the floor that a data sheet states."""
    turn_on_bias_deg_s: NonNegative = 0.0
    """Standard deviation of the constant part of the bias [deg/s]."""
    g_sensitivity_deg_s_g: NonNegative = 0.0
    """Standard deviation of each coefficient of g-sensitivity [deg/s/g]."""
    resolution_deg_s: NonNegative = 0.0
    """Step of the reported rate [deg/s]; 0 is continuous."""


class Accelerometer(SensorTriad):
    """Three accelerometers."""

    range_g: Positive
    """Largest reported specific force [g], in both directions."""
    noise_ug_sqrt_hz: NonNegative = 0.0
    """White noise N [µg/√Hz]."""
    bias_instability_ug: NonNegative = 0.0
    """Highest Allan deviation of the Gauss-Markov part of the bias: the floor that a data sheet states."""
    turn_on_bias_mg: NonNegative = 0.0
    """Standard deviation of the constant part of the bias [mg]."""
    resolution_mg: NonNegative = 0.0
    """Step of the reported force [mg]; 0 is continuous."""


class Orientation(Config):
    """Error of the orientation estimated by the unit: Gauss-Markov rotations about the axes of the world."""

    roll_pitch_deg: NonNegative
    """Standard deviation about each horizontal axis [deg]."""
    yaw_deg: NonNegative
    """Standard deviation about the vertical axis [deg]."""
    correlation_time_s: Positive
    """Correlation time [s]."""


class ImuConfig(SampledSheet):
    """One model of inertial measurement unit."""

    grade: Literal["consumer", "industrial", "tactical", "navigation"]
    """Performance class."""
    gyroscope: Gyroscope
    """Errors of the gyroscopes."""
    accelerometer: Accelerometer
    """Errors of the accelerometers."""
    orientation: Orientation | None = None
    """Error of the estimated orientation; only for units that have one."""


# ---- imu ------------------------------------------------------------------------------------------------------------


STANDARD_GRAVITY = STANDARD_GRAVITY_M_S2
"""g [m/s²], ISO 80000-3."""
GRAVITY = np.array([0.0, 0.0, -STANDARD_GRAVITY])
"""Gravity [m/s²] in the world frame."""

_DEG = np.pi / 180.0
_DEG_H = _DEG / 3600.0


def specific_force(state: BodyState) -> Floats:
    """Specific force [m/s²] in the sensor frame, shape (n, 3): Rᵀ (a - g).

    It is 0 in free fall and 9.80665 m/s² upward at rest.
    """
    return quat_rotate(quat_conjugate(state.quat_xyzw), state.acceleration - GRAVITY)


@dataclass(frozen=True, eq=False)
class UnitErrors:
    """Fixed errors of one unit after power-up."""

    gyroscope: AxesErrors
    """Matrix of scale factors and misalignments, and bias [rad/s]."""
    accelerometer: AxesErrors
    """Matrix of scale factors and misalignments, and bias [m/s²]."""
    g_sensitivity: Floats
    """Rate [rad/s] per m/s² of specific force, shape (3, 3): rows are gyroscopes, columns are forces."""


class Imu(StreamSensor[ImuConfig, ImuData]):
    """An inertial measurement unit.

        >>> from parhelion import Imu, Pose
        >>> imu = Imu("analog-devices/adis16470", rate_hz=200)
        >>> data = imu.run(None, Pose(), duration=60.0, seed=7, mount=Pose(xyz=(0.3, 0, 0.5)))
        >>> data.specific_force.shape
        (12000, 3)

    A seed represents one unit and one power-up: its fixed errors, its bias and its noise. Two units of one model on
    one robot need different seeds or names.

    Args:
        model: Preset name, YAML file or `ImuConfig`.
        name: Name that distinguishes the sensor from others of its model; each name has its own noise.
        rate_hz: Samples per second; by default that of the data sheet.
        noise: False gives the true motion, with no error of any kind.
        unit: Known fixed errors of a real unit, in place of drawn ones.
    """

    kind = "imu"
    uses_world = False
    allow_static = False

    @keyword_only("rate_hz", "noise")
    def __init__(
        self,
        model: str | PathLike[str] | ImuConfig,
        *,
        name: str = "",
        rate_hz: float | None = None,
        noise: bool = True,
        unit: UnitErrors | None = None,
    ) -> None:
        super().__init__(*self._opened(ImuConfig, model), name=name, rate_hz=rate_hz, noise=noise)
        self._given_unit = unit

    def unit(self, seed: int) -> UnitErrors:
        """Fixed errors of the unit that a seed represents: the truth for a calibration."""
        if self._given_unit is not None:
            return self._given_unit
        gyro, accel = self.config.gyroscope, self.config.accelerometer
        draws = white(seed, self._streams + "/g-sensitivity", 0, 3)
        return UnitErrors(
            drawn_axes(
                seed,
                self._streams + "/gyroscope",
                scale=gyro.scale_factor_percent / 100.0,
                misalignment_rad=gyro.misalignment_deg * _DEG,
                bias=gyro.turn_on_bias_deg_s * _DEG,
            ),
            drawn_axes(
                seed,
                self._streams + "/accelerometer",
                scale=accel.scale_factor_percent / 100.0,
                misalignment_rad=accel.misalignment_deg * _DEG,
                bias=accel.turn_on_bias_mg * 1e-3 * STANDARD_GRAVITY,
            ),
            draws[:, :3] * gyro.g_sensitivity_deg_s_g * _DEG / STANDARD_GRAVITY,
        )

    def biases(self, start: float, duration: float, seed: int) -> tuple[Floats, Floats]:
        """True bias of gyroscopes [rad/s] and accelerometers [m/s²] at the samples of a run, (n, 3) each."""
        return self._biases(*sample_span(start, duration, self.rate_hz), seed)

    def _biases(self, first: int, count: int, seed: int) -> tuple[Floats, Floats]:
        unit, gyro, accel = self.unit(seed), self.config.gyroscope, self.config.accelerometer
        gyro_walk = self._walk("gyroscope", first, count, seed, gyro.bias_correlation_time_s)
        accel_walk = self._walk("accelerometer", first, count, seed, accel.bias_correlation_time_s)
        gyro_sigma = gyro.bias_instability_deg_h * _DEG_H / GAUSS_MARKOV_PEAK
        accel_sigma = accel.bias_instability_ug * 1e-6 * STANDARD_GRAVITY / GAUSS_MARKOV_PEAK
        return unit.gyroscope.bias + gyro_sigma * gyro_walk, unit.accelerometer.bias + accel_sigma * accel_walk

    def _walk(self, part: str, first: int, count: int, seed: int, correlation_time_s: float | None) -> Floats:
        if correlation_time_s is None:
            return np.zeros((count, 3))
        name = f"{self._streams}/{part}-bias"
        return gauss_markov(seed, name, first, count, correlation_time_s * self.rate_hz)[:, :3]

    def _samples(
        self, world: World | None, motion: Trajectory, first: int, count: int, seed: int, mount: Pose | None
    ) -> ImuData:
        times = np.arange(first, first + count, dtype=np.int64) / self.rate_hz
        state = at_mount(state_of(motion, times), Pose() if mount is None else mount)
        force, rate = specific_force(state), state.angular_velocity
        metadata = {"sensor": self.model, "seed": int(seed), "rate_hz": self.rate_hz}
        if not self.noise:
            nothing = np.zeros((3, 3))
            given = None if self.config.orientation is None else state.quat_xyzw
            return ImuData(
                times, force, rate, nothing, nothing, given, None if given is None else nothing, metadata=metadata
            )
        force, rate = self._measured(force, rate, first, seed)
        orientation, orientation_covariance = self._orientation(state, first, seed)
        gyro, accel = self.config.gyroscope, self.config.accelerometer
        force_variance = self._force_sigma**2 + rounding_variance(accel.resolution_mg * 1e-3 * STANDARD_GRAVITY)
        rate_variance = self._rate_sigma**2 + rounding_variance(gyro.resolution_deg_s * _DEG)
        return ImuData(
            times,
            force,
            rate,
            np.eye(3) * force_variance,
            np.eye(3) * rate_variance,
            orientation,
            orientation_covariance,
            metadata=metadata,
        )

    @property
    def _rate_sigma(self) -> float:
        """White noise of one sample [rad/s]: the mean of a period 1 / rate has deviation N √rate."""
        return float(self.config.gyroscope.noise_deg_s_sqrt_hz * _DEG * np.sqrt(self.rate_hz))

    @property
    def _force_sigma(self) -> float:
        """White noise of one sample [m/s²]."""
        return float(self.config.accelerometer.noise_ug_sqrt_hz * 1e-6 * STANDARD_GRAVITY * np.sqrt(self.rate_hz))

    def _measured(self, force: Floats, rate: Floats, first: int, seed: int) -> tuple[Floats, Floats]:
        """Specific force and rate as the unit reports them, from the true ones."""
        unit, gyro, accel, count = self.unit(seed), self.config.gyroscope, self.config.accelerometer, len(force)
        gyro_bias, accel_bias = self._biases(first, count, seed)
        rate_noise = self._rate_sigma * white(seed, self._streams + "/gyroscope-noise", first, count)[:, :3]
        force_noise = self._force_sigma * white(seed, self._streams + "/accelerometer-noise", first, count)[:, :3]
        from_force = transformed(unit.g_sensitivity, force)
        rate = transformed(unit.gyroscope.matrix, rate) + from_force + gyro_bias + rate_noise
        force = transformed(unit.accelerometer.matrix, force) + accel_bias + force_noise
        g = STANDARD_GRAVITY
        return (
            digitised(force, accel.range_g * g, accel.resolution_mg * 1e-3 * g),
            digitised(rate, gyro.range_deg_s * _DEG, gyro.resolution_deg_s * _DEG),
        )

    def _orientation(self, state: BodyState, first: int, seed: int) -> tuple[Floats | None, Floats | None]:
        """Estimated orientation with its error, and its covariance; None for units without an estimate."""
        sheet = self.config.orientation
        if sheet is None:
            return None, None
        sigma = np.array([sheet.roll_pitch_deg, sheet.roll_pitch_deg, sheet.yaw_deg]) * _DEG
        turn = sigma * self._walk("orientation", first, len(state), seed, sheet.correlation_time_s)
        half = 0.5 * np.sqrt(np.sum(turn * turn, axis=1, keepdims=True))
        # sin(half) / (2 half) by sinc, which is 1 at 0.
        error = np.concatenate([0.5 * np.sinc(half / np.pi) * turn, np.cos(half)], axis=1)
        return quat_multiply(error, state.quat_xyzw), np.diag(sigma**2)
