"""Data sheet of a radar: the fields of a preset file. Names contain units; sources are required."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Positive
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.sensors.waves.config import WaveSheet, beam_shape

MOST_CELLS = 60_000_000
"""Largest number of cells of one cube; 240 MB of powers."""

Window = Literal["none", "hann", "hamming", "blackman"]
Count = Annotated[int, Field(ge=1, le=65536)]
Degrees = Annotated[float, Field(gt=0, le=360)]


class Antenna(Config):
    """Gain of one transmitting or receiving antenna."""

    gain_dbi: Annotated[float, Field(ge=-20, le=60)]
    """Gain on the axis [dBi]."""
    azimuth_width_deg: Degrees
    """Full width at half power in azimuth [deg]."""
    elevation_width_deg: Degrees
    """Full width at half power in elevation [deg]."""
    sidelobe_db: Annotated[float, Field(ge=-100, le=0)] = -25.0
    """Gain outside the main lobe, relative to the axis [dB]."""

    @property
    def shape(self) -> tuple[float, float, float]:
        """Widths in both direction cosines, and the floor: arguments of `beam_gain`."""
        return beam_shape(self.azimuth_width_deg, self.elevation_width_deg, self.sidelobe_db)


class Waveform(Config):
    """Transmitted waveform: a train of frequency ramps, or of pulses of the same bandwidth."""

    bandwidth_mhz: Positive
    """Bandwidth of one ramp or pulse [MHz]; the range resolution is c / 2 B."""
    ramp_us: Positive
    """Sampled duration of one ramp, or length of one pulse [us]."""
    interval_us: Positive
    """Time between ramps of one transmitter [us]; speeds are unambiguous within +- wavelength / (4 interval)."""
    ramps: Count
    """Ramps in a frame, or in one direction of a rotating antenna."""
    range_bins: Annotated[int, Field(ge=8, le=65536)]
    """Cells along range; the largest range is range_bins times c / 2 B."""
    second_interval_us: Positive | None = None
    """Interval of a second train of as many ramps in the same frame [us]. Its aliases lie elsewhere, so that both
    trains together resolve `speed_limits_m_s`."""
    speed_limits_m_s: tuple[float, float] | None = None
    """Smallest and largest radial velocity that the two trains resolve [m/s]; away is positive."""
    coherent: bool = True
    """True adds ramps coherently and resolves speed; False adds their powers."""
    range_window: Window = "hann"
    """Window of the transform over range."""
    speed_window: Window = "hann"
    """Window of the transform over speed."""


class Array(Config):
    """Virtual array of all pairs of transmitters and receivers."""

    azimuth_channels: Annotated[int, Field(ge=1, le=4096)]
    """Number of channels in azimuth."""
    elevation_channels: Annotated[int, Field(ge=1, le=4096)] = 1
    """Number of channels in elevation."""
    azimuth_spacing: Annotated[float, Field(gt=0, le=8)] = 0.5
    """Distance of neighbouring channels [wavelength]; above 0.5, directions are ambiguous."""
    elevation_spacing: Annotated[float, Field(gt=0, le=8)] = 0.5
    """Distance of neighbouring channels in elevation [wavelength]."""
    window: Window = "none"
    """Window over the channels."""


class Turning(Config):
    """Rotating antenna."""

    rate_rpm: Annotated[float, Field(gt=0, le=6000)]
    """Revolutions per minute."""
    directions: Annotated[int, Field(ge=8, le=65536)]
    """Number of azimuths per revolution."""
    clockwise: bool = True
    """Sense of rotation, seen from above."""


class Detection(Config):
    """Constant false alarm rate (CFAR) detector."""

    method: Literal["ca", "so", "os"] = "ca"
    """Cell averaging; smallest of the means of both sides (Trunk 1978), which tolerates clutter or targets on one side;
    or ordered statistic (Rohling 1983), which tolerates several closely spaced targets."""
    false_alarm: Annotated[float, Field(gt=0, le=0.1)] = 1e-5
    """Probability of false alarm per cell."""
    training: Annotated[int, Field(ge=2, le=256)] = 16
    """Number of training cells, both sides together."""
    guard: Annotated[int, Field(ge=0, le=64)] = 2
    """Number of guard cells on each side."""
    rank: Annotated[float, Field(gt=0, le=1)] = 0.75
    """Rank of the ordered statistic as a fraction of the training cells."""
    axis: Literal["range", "speed"] = "range"
    """Axis along which the training cells lie."""
    floor_db: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Smallest power of a cell over the thermal noise [dB], in addition to the threshold over the training cells.
    With a floor, `false_alarm` holds in clutter and the rate in thermal noise is lower."""
    least_rcs_dbsm: Annotated[float, Field(ge=-200, le=60)] = -200.0
    """Smallest cross-section of a reported detection [dBsm]. Tracking radars discard weaker ones at any range."""

    @model_validator(mode="after")
    def _even(self) -> Detection:
        if self.training % 2:
            raise ValueError("training must be even: half of the cells lie on each side")
        return self


class LeakageTap(Config):
    """Leakage from the transmitters to the receivers over one short path: antenna coupling, housing or bumper."""

    range_m: Annotated[float, Field(ge=0, le=10)]
    """Half the length of the path [m]."""
    level_db: Annotated[float, Field(ge=0, le=120)]
    """Mean power over the thermal noise of a range-velocity cell of one channel [dB]."""


class Baseband(Config):
    """Receiver between mixer and converter, and the oscillator."""

    highpass_khz: list[Positive] = Field(default=[], max_length=4)
    """Corner frequencies of the high-pass filters, each of first order [kHz]."""
    converter_noise_db: Annotated[float, Field(ge=-60, le=20)] = -60.0
    """Noise added after the filters, relative to the thermal noise that passes them [dB]."""
    phase_noise_dbc_hz: Annotated[float, Field(ge=-200, le=-40)] | None = None
    """Phase noise of the oscillator 1 MHz off the carrier [dBc/Hz]; None omits it."""
    loop_khz: Positive = 150.0
    """Bandwidth of the oscillator's control loop, within which the phase noise is flat [kHz]."""


class RadarConfig(WaveSheet):
    """One radar model.

    >>> ph.Radar("ti/iwr6843").config.name
    'Texas Instruments IWR6843'
    """

    plain_sources_cover = ("waveform", "field")

    frequency_ghz: Annotated[float, Field(ge=1, le=100)]
    """Centre frequency [GHz]; the material tables cover 1 to 100 GHz."""
    power_dbm: Annotated[float, Field(ge=-60, le=120)]
    """Power of one transmitter while it transmits [dBm]."""
    transmit: Antenna
    """Transmitting antenna."""
    receive: Antenna
    """Receiving antenna."""
    noise_figure_db: Annotated[float, Field(ge=0, le=60)]
    """Noise figure of the receiver [dB]."""
    losses_db: NonNegative = 0.0
    """Total losses of cables, radome and processing [dB]."""
    waveform: Waveform
    """Ramps or pulses of one frame."""
    array: Array | None = None
    """Virtual array; required unless the antenna rotates."""
    turning: Turning | None = None
    """Rotation; required without an array."""
    baseband: Baseband = Baseband()
    """Filters, and phase noise of the oscillator."""
    leakage: list[LeakageTap] = Field(default=[], max_length=16)
    """Leakage near range 0, which stands at velocity 0."""
    minimum_range_m: NonNegative = 0.0
    """Smallest range of a detection [m]."""
    detection: Detection = Detection()
    """Threshold of the detections."""
    rain_clutter: bool = True
    """True adds backscatter of rain and other media."""
    lateral_resolution_m: Positive = 1.0
    """Cell size of the cluster mode [m]; returns in touching cells form one target."""

    @model_validator(mode="after")
    def _holds_together(self) -> RadarConfig:
        if (self.array is None) == (self.turning is None):
            raise ValueError("a radar has either the section array or the section turning")
        if self.turning is not None:
            if abs(self.turning.rate_rpm / 60.0 - self.rate_hz) > 0.01 * self.rate_hz:
                raise ValueError(
                    f"rate_hz ({self.rate_hz:g}) must be the revolutions per second of {self.turning.rate_rpm:g} rpm"
                )
            if self.field.azimuth_deg != (-180.0, 180.0):
                raise ValueError("field.azimuth_deg of a rotating antenna must be -180 to 180")
        if self.array is not None and not -90.0 <= self.field.azimuth_deg[0] < self.field.azimuth_deg[1] <= 90.0:
            raise ValueError("field.azimuth_deg of an array must lie within -90 to 90")
        if self.waveform.ramp_us > self.waveform.interval_us * (1 + 1e-9):
            raise ValueError("waveform.ramp_us must not be longer than waveform.interval_us")
        wave = self.waveform
        if (wave.second_interval_us is None) != (wave.speed_limits_m_s is None):
            raise ValueError(
                "waveform.second_interval_us and waveform.speed_limits_m_s belong together: give both or none"
            )
        if wave.speed_limits_m_s is not None and not wave.speed_limits_m_s[0] < 0.0 < wave.speed_limits_m_s[1]:
            raise ValueError("waveform.speed_limits_m_s must be a negative and a positive speed")
        if wave.second_interval_us is not None and (not wave.coherent or self.turning is not None):
            raise ValueError("waveform.second_interval_us needs a coherent waveform and an array")
        if self.frame_s + wave.ramps * (wave.second_interval_us or 0.0) * 1e-6 > (1.0 + 1e-6) / self.rate_hz:
            raise ValueError(
                f"waveform: {self.waveform.ramps} ramps take {self.frame_s:.4g} s, but a frame at {self.rate_hz:g} Hz "
                f"lasts {1.0 / self.rate_hz:.4g} s"
            )
        if self.detection.axis == "speed" and self.speed_bins < 8:
            raise ValueError("detection.axis: speed needs a coherent waveform of 8 ramps or more")
        cells = self.waveform.range_bins * self.speed_bins * self.beams
        if cells > MOST_CELLS:
            raise ValueError(f"the cube would have {cells} cells; at most {MOST_CELLS} are allowed")
        return self

    @property
    def beams(self) -> int:
        """Largest number of directions of the cube."""
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
        """Duration of one frame, or of one revolution of a rotating antenna [s]."""
        if self.turning is not None:
            return 60.0 / self.turning.rate_rpm
        return self.waveform.ramps * self.waveform.interval_us * 1e-6

    @property
    def wavelength_m(self) -> float:
        """Wavelength [m]."""
        return SPEED_OF_LIGHT_M_S / (self.frequency_ghz * 1e9)

    @property
    def range_step_m(self) -> float:
        """Range resolution c / 2 B, which is the length of a cell [m]."""
        return SPEED_OF_LIGHT_M_S / (2e6 * self.waveform.bandwidth_mhz)

    @property
    def largest_range_m(self) -> float:
        """Range of the last cell [m]."""
        return self.range_step_m * (self.waveform.range_bins - 1)

    @property
    def largest_speed_m_s(self) -> float:
        """Largest unambiguous speed [m/s]; faster targets are aliased."""
        return self.wavelength_m / (4e-6 * self.waveform.interval_us)
