"""The data sheet of an inertial measurement unit. Units are in the names; sources are required.

White noise is given as N, the Allan deviation at one second: rate or force per √Hz, the same number as the random walk
per √s. An angular random walk in deg/√h is 60 times N in deg/s/√Hz. Makers mostly state the one-sided spectral density
of the noise instead, whose root mean square over a bandwidth B is density · √B; that density is √2 N.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import Config
from parhelion.sensors.lidar.config import Source

FOLDER = Path(__file__).resolve().parent / "presets"

Positive = Annotated[float, Field(gt=0)]
NonNegative = Annotated[float, Field(ge=0)]
Tolerance = Annotated[float, Field(ge=0, le=20)]


class Walk(Config):
    """What the bias of both kinds of sensors has in common. Standard deviations are over units of one model."""

    bias_correlation_time_s: Positive | None = None
    """Time [s] in which the Gauss-Markov part of the bias forgets all but 1/e of itself."""
    scale_factor_percent: Tolerance = 0.0
    """Standard deviation of each axis' scale factor."""
    misalignment_deg: Tolerance = 0.0
    """Standard deviation of the angle by which each axis leans towards each other one."""


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

    @model_validator(mode="after")
    def _timed(self) -> Gyroscope:
        if self.bias_instability_deg_h > 0 and self.bias_correlation_time_s is None:
            raise ValueError("bias_instability_deg_h above 0 needs bias_correlation_time_s")
        return self


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

    @model_validator(mode="after")
    def _timed(self) -> Accelerometer:
        if self.bias_instability_ug > 0 and self.bias_correlation_time_s is None:
            raise ValueError("bias_instability_ug above 0 needs bias_correlation_time_s")
        return self


class Orientation(Config):
    """Error of the orientation that the unit's own filter reports: Gauss-Markov turns about the world's axes."""

    roll_pitch_deg: NonNegative
    """Standard deviation about each level axis."""
    yaw_deg: NonNegative
    """Standard deviation about the vertical."""
    correlation_time_s: Positive


class ImuConfig(Config):
    """One model of inertial measurement unit."""

    name: str
    grade: Literal["consumer", "industrial", "tactical", "navigation"]
    rate_hz: Positive
    """Samples a second by default."""
    max_rate_hz: Positive
    gyroscope: Gyroscope
    accelerometer: Accelerometer
    orientation: Orientation | None = None
    """Only for units that estimate their orientation."""
    sources: list[Source] = Field(min_length=1)
    assumed: dict[str, str] = Field(default_factory=dict)
    """Fields that no source gives, and why this value was taken."""

    @model_validator(mode="after")
    def _ordered(self) -> ImuConfig:
        if self.rate_hz > self.max_rate_hz:
            raise ValueError(f"rate_hz ({self.rate_hz}) must not be above max_rate_hz ({self.max_rate_hz})")
        return self
