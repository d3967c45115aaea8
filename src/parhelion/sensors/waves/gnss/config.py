"""Data sheet of a GNSS receiver and its antenna."""

from __future__ import annotations

import itertools
from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import Config, NonNegative, Positive, SampledSheet

Decibel = Annotated[float, Field(ge=-60, le=20)]
System = Literal["gps", "galileo", "glonass", "beidou"]


class BodyConfig(Config):
    """Shadow of the body of the person who carries the antenna.

    The loss is `loss_db` cos²(azimuth - `azimuth_deg`) cos(elevation) in the half-space of the body.
    """

    loss_db: Annotated[float, Field(ge=0, le=40)]
    """Largest loss [dB], horizontally through the body."""
    azimuth_deg: Annotated[float, Field(ge=-360, le=360)] = 180.0
    """Direction of the body in the antenna plane, counter-clockwise from x of the mount; 180 is behind."""


class AntennaConfig(Config):
    """Antenna gain [dB] relative to RHCP at the zenith, by elevation above the antenna plane.

    Between the nodes, the gain in decibels is linear in the sine of the elevation.
    """

    elevation_deg: list[Annotated[float, Field(ge=-90, le=90)]] = Field(default=[90.0, 0.0, -90.0])
    """Elevations of the nodes [deg], decreasing from 90 to -90."""
    rhcp_db: list[Decibel]
    """Gain at the nodes for right-hand circular polarisation, which satellites transmit; the first value is 0."""
    lhcp_db: list[Decibel]
    """Gain at the nodes for left-hand circular polarisation, which most reflections have."""
    body: BodyConfig | None = None
    """Shadow of a person's body; None for vehicles and masts."""

    @model_validator(mode="after")
    def _aligned(self) -> AntennaConfig:
        nodes = self.elevation_deg
        if nodes[0] != 90.0 or nodes[-1] != -90.0 or any(a <= b for a, b in itertools.pairwise(nodes)):
            raise ValueError("elevation_deg must decrease from 90 to -90")
        if not len(nodes) == len(self.rhcp_db) == len(self.lhcp_db):
            raise ValueError("rhcp_db and lhcp_db must have one value per elevation_deg")
        return self


class LoopsConfig(Config):
    """Tracking loops."""

    spacing_chips: Annotated[float, Field(gt=0, le=1)]
    """Spacing between the early and the late correlator [chips]."""
    code_bandwidth_hz: Positive = 0.5
    """Noise bandwidth [Hz] of the carrier-aided code loop."""
    phase_bandwidth_hz: Positive = 10.0
    """Noise bandwidth [Hz] of the phase loop."""
    dwell_s: Annotated[float, Field(ge=0.001, le=1)] = 0.02
    """Coherent integration time [s]."""
    threshold_dbhz: Annotated[float, Field(ge=0, le=60)] = 25.0
    """Tracking threshold [dB-Hz]; weaker signals are not tracked."""


class FixConfig(Config):
    """Position solution."""

    elevation_mask_deg: Annotated[float, Field(ge=0, le=60)] = 10.0
    """Satellites below this elevation [deg] are not used."""
    min_cn0_dbhz: Annotated[float, Field(ge=0, le=60)] = 0.0
    """Signals below this C/N0 [dB-Hz] are tracked but not used."""
    weights: Literal["cn0", "elevation", "equal"] = "cn0"
    """Weights of the ranges: by C/N0, by elevation as in RTKLIB, or equal."""
    sigma_m: Positive = 0.6
    """Standard deviation [m] of one range at 45 dB-Hz; the variance is proportional to 10^(-C/N0 / 10 dB)."""
    ionosphere: Literal["klobuchar", "two-frequencies", "none"] = "klobuchar"
    """Ionosphere correction."""
    troposphere: Literal["niell", "saastamoinen", "none"] = "niell"
    """Troposphere correction: Saastamoinen's zenith delays with Niell's mapping, or with 1 / sin as in RTKLIB."""
    exclude: bool = True
    """Exclude satellites one by one until the residuals pass the chi-square test."""
    least_satellites: Annotated[int, Field(ge=4, le=12)] = 4
    """Smallest number of satellites for a fix."""


class BudgetConfig(Config):
    """Error budget of the ranges apart from noise and multipath: standard deviations."""

    signal_in_space_m: NonNegative = 0.5
    """Orbit and clock error [m] per satellite: GPS 0.5 m (GPS SPS Performance Analysis Report, FAA), Galileo 0.3 m."""
    ionosphere_share: Annotated[float, Field(ge=0, le=1)] = 0.3
    """Relative error of the modelled ionosphere delay; Klobuchar's model leaves half of the root mean square
    (IS-GPS-200, 20.3.3.5.2.5)."""
    wet_zenith_m: NonNegative = 0.04
    """Error of the wet zenith delay [m]."""
    clock_drift: NonNegative = 5e-7
    """Drift of the receiver's oscillator [s/s]: 0.5 ppm for a TCXO."""


class RtkConfig(Config):
    """Real-time kinematic positioning with the corrections of a base station."""

    sigma_m: Positive = 0.01
    """Standard deviation [m] of a differential carrier range at 45 dB-Hz, including multipath of a clear sky."""
    distance_ppm: NonNegative = 1.0
    """Atmospheric error per satellite [mm per km of distance to the base station]."""
    phase_threshold_dbhz: Annotated[float, Field(ge=0, le=60)] = 30.0
    """Weakest signal [dB-Hz] whose carrier phase is used."""
    lock_time_s: Annotated[float, Field(ge=0, le=60)] = 10.0
    """Time [s] of uninterrupted tracking of a carrier before its ambiguity is resolved."""
    success_rate: Annotated[float, Field(gt=0.5, lt=1)] = 0.999
    """Smallest predicted success rate of ambiguity resolution for a fixed solution."""
    satellites_for_fix: NonNegative = 5.0
    """Mean number of satellites with carriers locked in both bands that the receiver needs for a fixed solution."""
    satellites_spread: NonNegative = 0.0
    """Standard deviation of this number; it varies over some ten seconds."""
    max_baseline_km: Positive = 50.0
    """Largest distance [km] to the base station at which ambiguities are resolved."""


class GnssConfig(SampledSheet):
    """One receiver model with its antenna.

    >>> ph.Gnss("u-blox/m8").config.rate_hz
    5.0
    """

    constellations: Annotated[list[System], Field(min_length=1)]
    """Satellite systems that the receiver tracks."""
    bands: Annotated[list[Literal["L1", "L2", "L5"]], Field(min_length=1, max_length=2)]
    """Frequency bands; positions are computed from the first, which must be L1."""
    single_band: list[System] = Field(default_factory=list)
    """Systems that the receiver tracks in the first band only."""
    cn0_zenith_dbhz: Annotated[float, Field(ge=20, le=60)]
    """C/N0 [dB-Hz] of a satellite at the antenna's zenith under open sky."""
    cn0_spread_db: NonNegative = 1.0
    """Standard deviation [dB] of the power from satellite to satellite."""
    antenna: AntennaConfig
    loops: LoopsConfig
    fix: FixConfig = FixConfig()
    budget: BudgetConfig = BudgetConfig()
    rtk: RtkConfig | None = None
    """Real-time kinematic positioning; None for receivers without it."""

    @model_validator(mode="after")
    def _fits(self) -> GnssConfig:
        if self.bands[0] != "L1":
            raise ValueError("the first of bands must be L1")
        if len(set(self.bands)) != len(self.bands):
            raise ValueError("bands must differ")
        if self.fix.ionosphere == "two-frequencies" and len(self.bands) < 2:
            raise ValueError("fix.ionosphere by two-frequencies needs two bands")
        return self
