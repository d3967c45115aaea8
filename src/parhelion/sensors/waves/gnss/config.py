"""The data sheet of a receiver and its antenna."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Positive, SampledSheet

Decibel = Annotated[float, Field(ge=-60, le=20)]
System = Literal["gps", "galileo", "glonass", "beidou"]


class AntennaConfig(Config):
    """Gain against that of the zenith, at the zenith, the horizon and the nadir of the antenna [dB].

    In between it is linear in the sine of the elevation over the antenna's own plane.
    """

    rhcp_db: tuple[Decibel, Decibel, Decibel]
    """For right-handed waves, which satellites send; the first is 0."""
    lhcp_db: tuple[Decibel, Decibel, Decibel]
    """For left-handed waves, which most mirrors make of them."""


class LoopsConfig(Config):
    """Tracking loops."""

    spacing_chips: Annotated[float, Field(gt=0, le=1)]
    """From early to late."""
    code_bandwidth_hz: Positive = 0.5
    """Of the code loop, which the carrier aids."""
    phase_bandwidth_hz: Positive = 10.0
    dwell_s: Annotated[float, Field(ge=0.001, le=1)] = 0.02
    """How long a signal is added up before it is looked at."""
    threshold_dbhz: Annotated[float, Field(ge=0, le=60)] = 25.0
    """Signals below this are not tracked."""


class FixConfig(Config):
    """How positions come from ranges."""

    elevation_mask_deg: Annotated[float, Field(ge=0, le=60)] = 10.0
    weights: Literal["cn0", "elevation", "equal"] = "cn0"
    """By strength of the signal, by elevation as RTKLIB has it, or none."""
    sigma_m: Positive = 0.6
    """For weights by strength: of one range at 45 dB-Hz; the variance goes with 10^(-C/N0 / 10 dB)."""
    ionosphere: Literal["klobuchar", "two-frequencies", "none"] = "klobuchar"
    troposphere: Literal["niell", "saastamoinen", "none"] = "niell"
    """Saastamoinen's zenith delays by Niell's mapping, or by 1 / sin as RTKLIB has it."""
    exclude: bool = True
    """Whether satellites are left out until the residuals pass their test."""
    least_satellites: Annotated[int, Field(ge=4, le=12)] = 4


class BudgetConfig(Config):
    """What is wrong with the ranges beside noise and mirrors, one standard deviation each."""

    signal_in_space_m: NonNegative = 0.5
    """Orbit and clock of a satellite: GPS 0.5 m (GPS SPS Performance Analysis Report, FAA), Galileo 0.3 m."""
    ionosphere_share: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Of the model's delay that is wrong; Klobuchar leaves a half of the root mean square (IS-GPS-200,
    20.3.3.5.2.5)."""
    wet_zenith_m: NonNegative = 0.04
    """Of the wet delay at the zenith."""
    clock_drift: NonNegative = 5e-7
    """Of the receiver's oscillator [s/s]: a TCXO's half part in a million."""


class GnssConfig(SampledSheet):
    """One model of receiver with its antenna."""

    constellations: Annotated[list[System], Field(min_length=1)]
    bands: Annotated[list[Literal["L1", "L2", "L5"]], Field(min_length=1, max_length=2)]
    """The first is the one that positions come from."""
    cn0_zenith_dbhz: Annotated[float, Field(ge=20, le=60)]
    """Of a satellite at the antenna's zenith, in the open."""
    cn0_spread_db: NonNegative = 1.0
    """Standard deviation of the power from satellite to satellite."""
    antenna: AntennaConfig
    loops: LoopsConfig
    fix: FixConfig = FixConfig()
    budget: BudgetConfig = BudgetConfig()

    @model_validator(mode="after")
    def _fits(self) -> GnssConfig:
        if self.bands[0] != "L1":
            raise ValueError("the first of bands must be L1")
        if len(set(self.bands)) != len(self.bands):
            raise ValueError("bands must differ")
        if self.fix.ionosphere == "two-frequencies" and len(self.bands) < 2:
            raise ValueError("fix.ionosphere by two-frequencies needs two bands")
        return self
