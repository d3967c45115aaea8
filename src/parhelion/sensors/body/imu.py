"""The inertial measurement unit: motion -> truth at the mount -> fixed errors -> bias and noise -> digits."""

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

# ---- The data sheet of an inertial measurement unit. Units are in the names; sources are required -------------------
# White noise is given as N, the Allan deviation at one second: rate or force per √Hz, the same number as the random
# walk per √s. An angular random walk in deg/√h is 60 times N in deg/s/√Hz. Makers mostly state the one-sided spectral
# density of the noise instead, whose root mean square over a bandwidth B is density · √B; that density is √2 N.


Tolerance = Annotated[float, Field(ge=0, le=20)]


class Walk(Config):
    """What the bias of both kinds of sensors has in common. Standard deviations are over units of one model."""

    bias_correlation_time_s: Positive | None = None
    """Time [s] in which the Gauss-Markov part of the bias forgets all but 1/e of itself."""
    scale_factor_percent: Tolerance = 0.0
    """Standard deviation of each axis' scale factor."""
    misalignment_deg: Tolerance = 0.0
    """Standard deviation of the angle by which each axis leans towards each other one."""

    @model_validator(mode="after")
    def _timed(self) -> Walk:
        for name in ("bias_instability_deg_h", "bias_instability_ug"):
            if getattr(self, name, 0.0) > 0 and self.bias_correlation_time_s is None:
                raise ValueError(f"{name} above 0 needs bias_correlation_time_s")
        return self


class Gyroscope(Walk):
    """Three gyroscopes."""

    range_deg_s: Positive
    """Largest rate reported, either way."""
    noise_deg_s_sqrt_hz: NonNegative = 0.0
    """White noise N."""
    bias_instability_deg_h: NonNegative = 0.0
    """Highest Allan deviation of the Gauss-Markov part of the bias: the floor that a data sheet states."""
    turn_on_bias_deg_s: NonNegative = 0.0
    """Standard deviation of the constant part of the bias."""
    g_sensitivity_deg_s_g: NonNegative = 0.0
    """Standard deviation of each coefficient that turns specific force [g] into rate."""
    resolution_deg_s: NonNegative = 0.0
    """Step of the reported rate; 0 is continuous."""


class Accelerometer(Walk):
    """Three accelerometers."""

    range_g: Positive
    """Largest specific force reported, either way."""
    noise_ug_sqrt_hz: NonNegative = 0.0
    """White noise N."""
    bias_instability_ug: NonNegative = 0.0
    """Highest Allan deviation of the Gauss-Markov part of the bias: the floor that a data sheet states."""
    turn_on_bias_mg: NonNegative = 0.0
    """Standard deviation of the constant part of the bias."""
    resolution_mg: NonNegative = 0.0
    """Step of the reported force; 0 is continuous."""


class Orientation(Config):
    """Error of the orientation that the unit's own filter reports: Gauss-Markov turns about the world's axes."""

    roll_pitch_deg: NonNegative
    """Standard deviation about each level axis."""
    yaw_deg: NonNegative
    """Standard deviation about the vertical."""
    correlation_time_s: Positive


class ImuConfig(SampledSheet):
    """One model of inertial measurement unit."""

    grade: Literal["consumer", "industrial", "tactical", "navigation"]
    gyroscope: Gyroscope
    accelerometer: Accelerometer
    orientation: Orientation | None = None
    """Only for units that estimate their orientation."""


# ---- imu ------------------------------------------------------------------------------------------------------------


STANDARD_GRAVITY = STANDARD_GRAVITY_M_S2
"""g [m/s²], ISO 80000-3."""
GRAVITY = np.array([0.0, 0.0, -STANDARD_GRAVITY])
"""Gravity [m/s²] in the world frame."""

_DEG = np.pi / 180.0
_DEG_H = _DEG / 3600.0


def specific_force(state: BodyState) -> Floats:
    """What ideal accelerometers read [m/s²], sensor frame, shape (n, 3): Rᵀ (a - g).

    Newton's law in the sensor frame: free fall reads 0, rest reads 9.80665 upward.
    """
    return quat_rotate(quat_conjugate(state.quat_xyzw), state.acceleration - GRAVITY)


@dataclass(frozen=True, eq=False)
class UnitErrors:
    """What one unit has wrong from the moment it is switched on."""

    gyroscope: AxesErrors
    """Matrix, and bias [rad/s]."""
    accelerometer: AxesErrors
    """Matrix, and bias [m/s²]."""
    g_sensitivity: Floats
    """Rate [rad/s] for each m/s² of specific force, shape (3, 3): row the gyroscope, column the force."""


class Imu(StreamSensor[ImuConfig, ImuData]):
    """An inertial measurement unit.

        imu = Imu("analog-devices/adis16470", rate_hz=200)
        data = imu.run(None, drive, start=0.0, duration=60.0, seed=7, mount=Pose(xyz=(0.3, 0, 0.5)))

    The seed stands for one unit and one power-up: its fixed errors, its bias and its noise. Two units of one model on
    one robot need two seeds or two names.

    Args:
        model: Preset name, YAML file or `ImuConfig`.
        name: Name that distinguishes it from others of its model; it has noise of its own.
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
        """The fixed errors of the unit that a seed stands for: what a calibration should find."""
        if self._given_unit is not None:
            return self._given_unit
        gyro, accel = self.config.gyroscope, self.config.accelerometer
        draws = white(seed, self._streams + "/g-sensitivity", 0, 3)
        return UnitErrors(
            drawn_axes(
                seed, self._streams + "/gyroscope", scale=gyro.scale_factor_percent / 100.0,
                misalignment_rad=gyro.misalignment_deg * _DEG, bias=gyro.turn_on_bias_deg_s * _DEG,
            ),
            drawn_axes(
                seed, self._streams + "/accelerometer", scale=accel.scale_factor_percent / 100.0,
                misalignment_rad=accel.misalignment_deg * _DEG, bias=accel.turn_on_bias_mg * 1e-3 * STANDARD_GRAVITY,
            ),
            draws[:, :3] * gyro.g_sensitivity_deg_s_g * _DEG / STANDARD_GRAVITY,
        )  # fmt: skip

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
            times, force, rate, np.eye(3) * force_variance, np.eye(3) * rate_variance,
            orientation, orientation_covariance, metadata=metadata,
        )  # fmt: skip

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
        felt = transformed(unit.g_sensitivity, force)
        rate = transformed(unit.gyroscope.matrix, rate) + felt + gyro_bias + rate_noise
        force = transformed(unit.accelerometer.matrix, force) + accel_bias + force_noise
        g = STANDARD_GRAVITY
        return (
            digitised(force, accel.range_g * g, accel.resolution_mg * 1e-3 * g),
            digitised(rate, gyro.range_deg_s * _DEG, gyro.resolution_deg_s * _DEG),
        )

    def _orientation(self, state: BodyState, first: int, seed: int) -> tuple[Floats | None, Floats | None]:
        """Orientation with the error of the unit's own filter, and its covariance; nothing for units without one."""
        sheet = self.config.orientation
        if sheet is None:
            return None, None
        sigma = np.array([sheet.roll_pitch_deg, sheet.roll_pitch_deg, sheet.yaw_deg]) * _DEG
        turn = sigma * self._walk("orientation", first, len(state), seed, sheet.correlation_time_s)
        half = 0.5 * np.sqrt(np.sum(turn * turn, axis=1, keepdims=True))
        # sin(half) / (2 half) by sinc, which is 1 at 0.
        error = np.concatenate([0.5 * np.sinc(half / np.pi) * turn, np.cos(half)], axis=1)
        return quat_multiply(error, state.quat_xyzw), np.diag(sigma**2)
