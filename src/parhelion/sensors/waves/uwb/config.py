"""Data sheet of a ranging radio."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import NonNegative, Positive, SampledSheet


class UwbConfig(SampledSheet):
    """Data sheet of one ranging radio model, used by the tag and its anchors."""

    method: Literal["two-way", "tdoa", "rssi"] = "two-way"
    """Two-way time of flight, time difference of arrival, or distance from signal strength."""
    carrier_ghz: Annotated[float, Field(gt=0, le=100)]
    bandwidth_mhz: Annotated[float, Field(gt=0, le=10_000)]
    """Bandwidth of the signal used for timing."""
    roll_off: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Roll-off of the raised-cosine pulse after the matched filter."""
    tx_power_dbm: Annotated[float, Field(ge=-100, le=40)]
    antenna_gain_dbi: Annotated[float, Field(ge=-30, le=30)] = 0.0
    """Sum of tag and anchor antenna gain."""
    noise_figure_db: Annotated[float, Field(ge=0, le=30)]
    processing_gain_db: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Gain from accumulating preamble symbols or tones."""
    sensitivity_dbm: Annotated[float, Field(ge=-150, le=0)]
    """Frames below this received power are lost."""
    threshold_db: Annotated[float, Field(ge=0, le=60)] = 12.0
    """Minimum level of a first path above the noise of the impulse response."""
    dynamic_range_db: Annotated[float, Field(gt=0, le=100)] = 30.0
    """Maximum level of a first path below the strongest path."""
    range_noise_m: NonNegative = 0.0
    """Standard deviation of a single range at high signal-to-noise ratio (clocks, time stamps, filters)."""
    unit_bias_m: NonNegative = 0.0
    """Unit-to-unit standard deviation of the bias left by an uncalibrated antenna delay."""
    reply_time_s: NonNegative = 0.0
    clock_error_ppm: NonNegative = 0.0
    """Standard deviation of the residual clock offset during the reply; the range bias is c/2 · reply time · offset."""
    sync_noise_ns: NonNegative = 0.0
    """TDoA: standard deviation of an anchor clock relative to the others."""
    rssi_noise_db: NonNegative = 0.0
    rssi_step_db: NonNegative = 0.0
    range_step_m: NonNegative = 0.0
    max_range_m: Positive = 300.0
    path_loss_exponent: Annotated[float, Field(ge=1, le=6)] = 2.0
    """RSSI: path-loss exponent assumed by the receiver beyond 1 m; free space up to 1 m."""

    @model_validator(mode="after")
    def _complete(self) -> UwbConfig:
        if self.bandwidth_mhz > 2e3 * self.carrier_ghz:
            raise ValueError("bandwidth_mhz must not be above twice the carrier")
        return self

    @property
    def carrier_hz(self) -> float:
        """Centre of the band [Hz]."""
        return self.carrier_ghz * 1e9

    @property
    def bandwidth_hz(self) -> float:
        """Bandwidth [Hz]."""
        return self.bandwidth_mhz * 1e6
