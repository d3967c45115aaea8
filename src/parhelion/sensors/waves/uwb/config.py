"""Data sheet of a ranging radio."""

from __future__ import annotations

import itertools
import math
from typing import Annotated, Literal

import numpy as np
from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Positive, SampledSheet

CHANNELS = {
    1: (3.4944, 499.2), 2: (3.9936, 499.2), 3: (4.4928, 499.2), 4: (3.9936, 1331.2), 5: (6.4896, 499.2),
    7: (6.4896, 1081.6), 9: (7.9872, 499.2),
}  # fmt: skip
"""Centre frequency [GHz] and bandwidth [MHz] of HRP UWB channels (IEEE Std 802.15.4-2020, clause 15)."""
PREAMBLE_SYMBOL_US = 1.01763
"""Duration of a preamble symbol at 64 MHz PRF (IEEE Std 802.15.4-2020, clause 15)."""
_BITS_US = {110: (8.20513, 8.20513), 850: (1.02564, 1.02564), 6800: (1.02564, 0.128205)}
"""Duration of a bit of header and of payload [us] by data rate [kb/s] (IEEE Std 802.15.4-2020, clause 15)."""
_SFD_SYMBOLS = {110: 64, 850: 8, 6800: 8}


class FrameMode(Config):
    """Frame settings and sensitivity of a UWB radio at one data rate."""

    preamble_symbols: Annotated[int, Field(ge=16, le=4096)]
    """Number of preamble symbols."""
    sensitivity_dbm: Annotated[float, Field(ge=-150, le=0)]
    """Received power at which 10 % of the frames are lost."""


class UwbConfig(SampledSheet):
    """Data sheet of one ranging radio model, used by the tag and its anchors.

    >>> ph.Uwb("qorvo/dw1000").config.name
    'Qorvo (Decawave) DW1000'
    """

    method: Literal["two-way", "tdoa", "rssi"] = "two-way"
    """Two-way time of flight, time difference of arrival, or distance from signal strength."""
    carrier_ghz: Annotated[float, Field(gt=0, le=100)]
    bandwidth_mhz: Annotated[float, Field(gt=0, le=10_000)]
    """Bandwidth of the signal used for timing."""
    hop_carriers_ghz: list[Annotated[float, Field(gt=0, le=100)]] = Field(default_factory=list, max_length=80)
    """Carriers used in turn, one per sample; empty if the carrier is fixed. RSSI only."""
    roll_off: Annotated[float, Field(ge=0, le=1)] = 0.5
    """Roll-off of the raised-cosine pulse after the matched filter."""
    tx_power_dbm: Annotated[float, Field(ge=-100, le=40)]
    """Transmitted power, averaged over 1 ms."""
    boost_limit_db: Annotated[float, Field(ge=0, le=30)] = 0.0
    """Maximum power increase of frames shorter than 1 ms, which keeps the 1 ms average at the limit."""
    data_rate_kbps: int | None = None
    """Selected data rate, one of `modes`."""
    modes: dict[int, FrameMode] = Field(default_factory=dict)
    """Frame settings by data rate [kb/s]: 110, 850, 6800. Empty for radios without UWB frames."""
    payload_bytes: Annotated[int, Field(ge=0, le=1023)] = 20
    """Payload of a ranging frame."""
    antenna_gain_dbi: Annotated[float, Field(ge=-30, le=30)] = 0.0
    """Sum of tag and anchor antenna gain."""
    noise_figure_db: Annotated[float, Field(ge=0, le=30)]
    processing_gain_db: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Gain from accumulating tones or symbols; computed from the preamble if `modes` is set."""
    processing_loss_db: Annotated[float, Field(ge=0, le=30)] = 6.0
    """Implementation loss of the preamble accumulation; used with `modes`."""
    sensitivity_dbm: Annotated[float, Field(ge=-150, le=0)] | None = None
    """Frames below this received power are lost; taken from `modes` if these are set."""
    sensitivity_margin_db: Annotated[float, Field(ge=-20, le=20)] = 0.0
    """Sensitivity of a typical unit relative to the data sheet; positive is better."""
    packet_error_decade_db: NonNegative = 0.0
    """Level change per decade of packet error rate; 0 loses every frame below the sensitivity."""
    threshold_db: Annotated[float, Field(ge=0, le=60)] = 12.0
    """Minimum level of a first path above the noise of the impulse response."""
    dynamic_range_db: Annotated[float, Field(gt=0, le=100)] = 30.0
    """Maximum level of a first path below the strongest path."""
    range_noise_m: NonNegative = 0.0
    """Standard deviation of a single range at high signal-to-noise ratio (clocks, time stamps, filters)."""
    unit_bias_m: NonNegative = 0.0
    """Unit-to-unit standard deviation of the bias left by an uncalibrated antenna delay."""
    level_bias_m: list[tuple[float, float]] = Field(default_factory=list, max_length=200)
    """Range bias [m] by received level [dBm] in rows of decreasing level; extrapolated above the first row."""
    level_bias_gain: NonNegative = 1.0
    """Factor on `level_bias_m`."""
    calibration_level_dbm: Annotated[float, Field(ge=-150, le=0)] = -77.0
    """Received level at which the antenna delay was calibrated, so that the level-dependent bias is zero."""
    reply_time_s: NonNegative = 0.0
    clock_error_ppm: NonNegative = 0.0
    """Standard deviation of the residual clock offset during the reply; the range bias is c/2 · reply time · offset."""
    sync_noise_ns: NonNegative = 0.0
    """TDoA: standard deviation of an anchor clock relative to the others."""
    rssi_saturation_dbm: Annotated[float, Field(ge=-150, le=40)] | None = None
    """Upper limit of the reported signal strength; None if it does not saturate."""
    first_path_saturation_dbm: Annotated[float, Field(ge=-150, le=40)] | None = None
    """Upper limit of the reported first-path power; None if it does not saturate."""
    saturation_sharpness: Positive = 1.0
    """Exponent of the transition to saturation: (P^-k + S^-k)^(-1/k) in mW."""
    shadowing_db: NonNegative = 0.0
    """Standard deviation of log-normal shadowing by objects that the world does not model."""
    shadowing_distance_m: Positive = 1.0
    """Distance over which the shadowing decorrelates to 1/e."""
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
        if not self.modes and self.sensitivity_dbm is None:
            raise ValueError("sensitivity_dbm is missing; give it, or modes and data_rate_kbps")
        unknown = sorted(set(self.modes) - set(_BITS_US))
        if unknown:
            raise ValueError(f"modes: data rates are 110, 850 and 6800 kb/s, got {unknown[0]}")
        if self.modes and self.data_rate_kbps not in self.modes:
            raise ValueError(f"data_rate_kbps must be one of {sorted(self.modes)}, got {self.data_rate_kbps}")
        levels = [level for level, _ in self.level_bias_m]
        if any(second >= first for first, second in itertools.pairwise(levels)):
            raise ValueError("level_bias_m: levels must decrease from row to row")
        return self

    @property
    def carrier_hz(self) -> float:
        """Centre of the band [Hz]."""
        return self.carrier_ghz * 1e9

    @property
    def bandwidth_hz(self) -> float:
        """Bandwidth [Hz]."""
        return self.bandwidth_mhz * 1e6

    @property
    def mode(self) -> FrameMode | None:
        """Frame settings at the selected data rate; None for radios without UWB frames."""
        return None if self.data_rate_kbps is None else self.modes.get(self.data_rate_kbps)

    @property
    def frame_s(self) -> float:
        """Duration of a ranging frame [s]: preamble, start delimiter, header and payload; 0 without `modes`.

        The header has 21 bits. The Reed-Solomon code adds 48 bits per 330 bits of payload.
        """
        if self.mode is None or self.data_rate_kbps is None:
            return 0.0
        header_us, payload_us = _BITS_US[self.data_rate_kbps]
        bits = 8 * self.payload_bytes
        coded = bits + 48 * math.ceil(bits / 330)
        symbols = self.mode.preamble_symbols + _SFD_SYMBOLS[self.data_rate_kbps]
        return 1e-6 * (symbols * PREAMBLE_SYMBOL_US + 21 * header_us + coded * payload_us)

    @property
    def boost_db(self) -> float:
        """Transmit power increase of a frame shorter than 1 ms [dB]: 10 lg(1 ms / frame), up to the limit.

        DW1000 user manual 2.12, section 7.2.31.2 (smart transmit power control).
        """
        if not self.frame_s:
            return 0.0
        return float(np.clip(-10.0 * np.log10(self.frame_s / 1e-3), 0.0, self.boost_limit_db))

    @property
    def least_dbm(self) -> float:
        """Received power [dBm] at which 10 % of the frames are lost."""
        stated = self.sensitivity_dbm if self.mode is None else self.mode.sensitivity_dbm
        assert stated is not None  # checked on construction
        return stated - self.sensitivity_margin_db

    @property
    def gain_db(self) -> float:
        """Processing gain of the impulse response [dB]."""
        if self.mode is None:
            return self.processing_gain_db
        symbols = self.mode.preamble_symbols * PREAMBLE_SYMBOL_US * 1e-6 * self.bandwidth_hz
        return float(10.0 * np.log10(symbols) - self.processing_loss_db)
