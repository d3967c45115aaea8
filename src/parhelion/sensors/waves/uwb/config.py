"""The data sheet of a ranging radio."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import NonNegative, Positive, SampledSheet


class UwbConfig(SampledSheet):
    """One model of ranging radio: the tag's, and that of its anchors."""

    method: Literal["two-way", "tdoa", "rssi"] = "two-way"
    """Time of flight there and back, difference of arrival times, or distance by signal strength."""
    carrier_ghz: Annotated[float, Field(gt=0, le=100)]
    bandwidth_mhz: Annotated[float, Field(gt=0, le=10_000)]
    """Of the signal that is timed."""
    roll_off: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Of the raised-cosine pulse after the matched filter."""
    tx_power_dbm: Annotated[float, Field(ge=-100, le=40)]
    antenna_gain_dbi: Annotated[float, Field(ge=-30, le=30)] = 0.0
    """Of tag and anchor together."""
    noise_figure_db: Annotated[float, Field(ge=0, le=30)]
    processing_gain_db: Annotated[float, Field(ge=0, le=60)] = 0.0
    """By adding up the symbols of a preamble, or tones."""
    sensitivity_dbm: Annotated[float, Field(ge=-150, le=0)]
    """Weaker frames are lost."""
    threshold_db: Annotated[float, Field(ge=0, le=60)] = 12.0
    """A first path is at least this far above the noise of the impulse response."""
    dynamic_range_db: Annotated[float, Field(gt=0, le=100)] = 30.0
    """And at most this far below the strongest path."""
    range_noise_m: NonNegative = 0.0
    """Standard deviation of one range at high signal-to-noise ratio: clocks, time stamps and filters."""
    unit_bias_m: NonNegative = 0.0
    """Standard deviation over units of the bias that an uncalibrated antenna delay leaves."""
    reply_time_s: NonNegative = 0.0
    clock_error_ppm: NonNegative = 0.0
    """What is left of the clocks' difference during the reply, standard deviation: c/2 times both is a range bias."""
    sync_noise_ns: NonNegative = 0.0
    """TDoA: standard deviation of an anchor's clock against the others."""
    rssi_noise_db: NonNegative = 0.0
    rssi_step_db: NonNegative = 0.0
    range_step_m: NonNegative = 0.0
    max_range_m: Positive = 300.0
    path_loss_exponent: Annotated[float, Field(ge=1, le=6)] = 2.0
    """RSSI: the exponent that the receiver assumes, from free space at 1 m on."""

    @model_validator(mode="after")
    def _complete(self) -> UwbConfig:
        if self.bandwidth_mhz > 2e3 * self.carrier_ghz:
            raise ValueError("bandwidth_mhz must not be above twice the carrier")
        return self

    @property
    def carrier_hz(self) -> float:
        """Middle of the band [Hz]."""
        return self.carrier_ghz * 1e9

    @property
    def bandwidth_hz(self) -> float:
        """Bandwidth [Hz]."""
        return self.bandwidth_mhz * 1e6
