"""What a camera's data sheet may say of a second lens and of the depth that it reports."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import Config
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.sensors.lidar.config import NonNegative, Positive


class Stereo(Config):
    """A second lens to the right of the first, of the same make and parallel to it."""

    baseline_m: Positive
    """Distance of the two lenses."""
    subpixel_px: NonNegative = 0.0
    """Standard deviation of the disparity that matching finds on well textured surfaces [pixel]."""
    min_disparity_px: NonNegative = 0.0
    """Disparities below have no answer: it ends the range."""
    max_disparity_px: Positive | None = None
    """Disparities above have no answer: what is nearer is not seen; null for no end."""
    active: bool = False
    """Whether a projector puts a texture on bare surfaces."""
    window_px: Annotated[int, Field(ge=1, le=63)] = 5
    """Side of the windows that are matched, an odd number: the borders of what is near grow by about half of it."""

    @model_validator(mode="after")
    def _ordered(self) -> Stereo:
        if self.window_px % 2 == 0:
            raise ValueError(f"window_px must be odd, got {self.window_px}")
        if self.max_disparity_px is not None and self.max_disparity_px <= self.min_disparity_px:
            raise ValueError("max_disparity_px must be larger than min_disparity_px")
        return self


class DepthNoise(Config):
    """Standard deviation of depth z [m]: constant_m + linear z + quadratic_per_m z^2, beside that of disparity."""

    constant_m: NonNegative = 0.0
    linear: NonNegative = 0.0
    quadratic_per_m: NonNegative = 0.0


class TimeOfFlight(Config):
    """Light that a camera sends out and demodulates by itself."""

    modulation_mhz: Positive
    """Frequency of its modulation; the phase repeats after c / 2f of range."""
    signal_e: Positive
    """Electrons in a pixel from a white surface at 1 m that faces the camera."""
    ambient_e: NonNegative = 0.0
    """Electrons in a pixel from all other light."""
    contrast: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Of the demodulation."""
    least_signal_to_noise: NonNegative = 3.0
    """Amplitude over its noise below which a pixel has no answer."""
    wraps: bool = False
    """Whether ranges beyond the phase's repeat come back as short ones; else more frequencies tell them apart."""
    edge_share: Positive = 0.05
    """Neighbours whose ranges differ by more than this share mix at the edge between them."""
    multipath: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Light that comes round by another surface, over that which comes straight; the same for all pixels."""
    multipath_m: NonNegative = 0.5
    """How much longer its range is, below the half of the phase's repeat: measured ranges only grow."""

    @model_validator(mode="after")
    def _later(self) -> TimeOfFlight:
        half = SPEED_OF_LIGHT_M_S / (4e6 * self.modulation_mhz)
        if self.multipath and self.multipath_m >= half:
            raise ValueError(f"multipath_m must be below {half:.3g}, half of what the phase repeats after")
        return self


class Depth(Config):
    """What a depth camera reports."""

    kind: Literal["stereo", "time-of-flight"]
    min_m: NonNegative
    max_m: Positive
    resolution_m: NonNegative = 0.0
    """Step of the reported depth; 0 is continuous."""
    noise: DepthNoise = DepthNoise()
    time_of_flight: TimeOfFlight | None = None
    """Of a camera by time of flight; null where no more than its noise is known."""

    @model_validator(mode="after")
    def _ordered(self) -> Depth:
        if self.time_of_flight is not None and self.kind != "time-of-flight":
            raise ValueError("the section time_of_flight is for kind: time-of-flight")
        if self.max_m <= self.min_m:
            raise ValueError(f"max_m ({self.max_m:g}) must be larger than min_m ({self.min_m:g})")
        return self
