"""The data sheet of a radar: what a preset file may say. Units are in the names; sources are required."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Positive
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.sensors.waves.config import WaveSheet, beam_shape

MOST_CELLS = 60_000_000
"""Cells of one cube; a quarter of a gigabyte."""

Window = Literal["none", "hann", "hamming", "blackman"]
Count = Annotated[int, Field(ge=1, le=65536)]
Degrees = Annotated[float, Field(gt=0, le=360)]


class Antenna(Config):
    """Gain of one transmitting or receiving antenna."""

    gain_dbi: Annotated[float, Field(ge=-20, le=60)]
    """On its axis."""
    azimuth_width_deg: Degrees
    """Full width at half power."""
    elevation_width_deg: Degrees
    sidelobe_db: Annotated[float, Field(ge=-100, le=0)] = -25.0
    """Gain beside the beam, relative to the axis."""

    @property
    def shape(self) -> tuple[float, float, float]:
        """Widths over both direction cosines, and the floor: arguments of `beam_gain`."""
        return beam_shape(self.azimuth_width_deg, self.elevation_width_deg, self.sidelobe_db)


class Waveform(Config):
    """What is sent, and how often: a train of frequency ramps, or of pulses of the same bandwidth."""

    bandwidth_mhz: Positive
    """Swept during one ramp, or of one pulse; range resolution is c / 2 B."""
    ramp_us: Positive
    """Time of one ramp in which the receiver samples; of pulses, the pulse's length."""
    interval_us: Positive
    """From one ramp of a transmitter to its next; speeds are unambiguous within +- wavelength / 4 of it."""
    ramps: Count
    """Ramps in a frame (or in one direction of an antenna that turns), over which speed is found."""
    range_bins: Annotated[int, Field(ge=8, le=65536)]
    """Cells along range; the farthest is range_bins times c / 2 B."""
    coherent: bool = True
    """Whether ramps are added by phase and give speed; else by power, without speed."""
    range_window: Window = "hann"
    speed_window: Window = "hann"


class Array(Config):
    """The virtual array of all pairs of transmitters and receivers."""

    azimuth_channels: Annotated[int, Field(ge=1, le=4096)]
    elevation_channels: Annotated[int, Field(ge=1, le=4096)] = 1
    azimuth_spacing: Annotated[float, Field(gt=0, le=8)] = 0.5
    """Between neighbours [wavelength]; beyond 0.5 there are directions that look alike."""
    elevation_spacing: Annotated[float, Field(gt=0, le=8)] = 0.5
    window: Window = "none"


class Turning(Config):
    """A beam that sweeps all around."""

    rate_rpm: Annotated[float, Field(gt=0, le=6000)]
    directions: Annotated[int, Field(ge=8, le=65536)]
    """Directions of one turn that are told apart in the picture."""
    clockwise: bool = True
    """Seen from above."""


class Detection(Config):
    """How cells become detections: a constant rate of false alarms."""

    method: Literal["ca", "os"] = "ca"
    """Cell averaging, or ordered statistic (Rohling 1983), which bears several targets close to each other."""
    false_alarm: Annotated[float, Field(gt=0, le=0.1)] = 1e-5
    """Chance of an alarm in a cell of noise alone."""
    training: Annotated[int, Field(ge=2, le=256)] = 16
    """Cells that the noise is taken from, both sides together, along range."""
    guard: Annotated[int, Field(ge=0, le=64)] = 2
    """Cells on each side that are left out."""
    rank: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Of an ordered statistic: which of the training cells, as a share."""
    axis: Literal["range", "speed"] = "range"
    """Along which the training cells lie."""

    @model_validator(mode="after")
    def _even(self) -> Detection:
        if self.training % 2:
            raise ValueError("training must be even: half of it lies on each side")
        return self


class RadarConfig(WaveSheet):
    """One radar model."""

    plain_sources_cover = ("waveform", "field")

    frequency_ghz: Annotated[float, Field(ge=1, le=100)]
    """Middle of the band; the tables of materials end at 1 and 100 GHz."""
    power_dbm: Annotated[float, Field(ge=-60, le=120)]
    """Sent by one transmitter while it sends."""
    transmit: Antenna
    receive: Antenna
    noise_figure_db: Annotated[float, Field(ge=0, le=60)]
    losses_db: NonNegative = 0.0
    """All losses of cables, radome and processing together."""
    waveform: Waveform
    array: Array | None = None
    turning: Turning | None = None
    minimum_range_m: NonNegative = 0.0
    detection: Detection = Detection()
    rain_clutter: bool = True
    """Whether rain sends something back, too."""
    lateral_resolution_m: Positive = 1.0
    """Of the cluster mode: points closer than this are one target."""

    @model_validator(mode="after")
    def _holds_together(self) -> RadarConfig:
        if (self.array is None) == (self.turning is None):
            raise ValueError("a radar has either the section array or the section turning")
        if self.turning is not None:
            if abs(self.turning.rate_rpm / 60.0 - self.rate_hz) > 0.01 * self.rate_hz:
                raise ValueError(
                    f"rate_hz ({self.rate_hz:g}) must be the turns a second of {self.turning.rate_rpm:g} rpm"
                )
            if self.field.azimuth_deg != (-180.0, 180.0):
                raise ValueError("field.azimuth_deg of a turning antenna is -180 to 180")
        if self.array is not None and not -90.0 <= self.field.azimuth_deg[0] < self.field.azimuth_deg[1] <= 90.0:
            raise ValueError("field.azimuth_deg of an array must lie within -90 to 90")
        if self.waveform.ramp_us > self.waveform.interval_us * (1 + 1e-9):
            raise ValueError("waveform.ramp_us must not be longer than waveform.interval_us")
        if self.frame_s > (1.0 + 1e-6) / self.rate_hz:
            raise ValueError(
                f"waveform: {self.waveform.ramps} ramps take {self.frame_s:.4g} s, a frame at {self.rate_hz:g} Hz "
                f"{1.0 / self.rate_hz:.4g} s"
            )
        if self.detection.axis == "speed" and self.speed_bins < 8:
            raise ValueError("detection.axis: speed needs a coherent waveform of 8 ramps or more")
        cells = self.waveform.range_bins * self.speed_bins * self.beams
        if cells > MOST_CELLS:
            raise ValueError(f"the cube would have {cells} cells, allowed are {MOST_CELLS}")
        return self

    @property
    def beams(self) -> int:
        """Directions of the cube, at most."""
        if self.turning is not None:
            return self.turning.directions
        assert self.array is not None
        return self.array.azimuth_channels * self.array.elevation_channels

    @property
    def speed_bins(self) -> int:
        """Cells along speed."""
        return self.waveform.ramps if self.waveform.coherent else 1

    @property
    def frame_s(self) -> float:
        """Time that one frame takes [s]; of a turning antenna, one turn."""
        if self.turning is not None:
            return 60.0 / self.turning.rate_rpm
        return self.waveform.ramps * self.waveform.interval_us * 1e-6

    @property
    def wavelength_m(self) -> float:
        """[m]"""
        return SPEED_OF_LIGHT_M_S / (self.frequency_ghz * 1e9)

    @property
    def range_step_m(self) -> float:
        """Range resolution c / 2 B, the length of a cell [m]."""
        return SPEED_OF_LIGHT_M_S / (2e6 * self.waveform.bandwidth_mhz)

    @property
    def largest_range_m(self) -> float:
        """Range of the last cell [m]."""
        return self.range_step_m * (self.waveform.range_bins - 1)

    @property
    def largest_speed_m_s(self) -> float:
        """Speeds are told apart within +- this [m/s]; faster ones fold over."""
        return self.wavelength_m / (4e-6 * self.waveform.interval_us)
