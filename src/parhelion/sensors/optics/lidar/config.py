"""Data sheet of a lidar: the fields of a preset file. Units are in the names; sources are required."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from parhelion.core.config import Config, Fraction, NonNegative, Number, Positive, Source
from parhelion.makers import makers
from parhelion.makers.scales import scales

# ---- Measurements of a user's own unit: section `calibration` of a sensor's file, written by `parhelion calibrate` --
# Fitted values replace the fields of the sheet itself. This section holds their errors, the fields that could not be
# determined, the system constant from each of its sources, and the noise of materials measured on boards.


Share = Annotated[float, Field(ge=0, le=1)]
Angle = Annotated[float, Field(ge=0, le=90)]
Metres = Annotated[float, Field(ge=-1e4, le=1e4)]
MOST_CELLS = 64
"""Largest number of intensity cells of a profile."""


class FittedBrdf(Config):
    """Reflection model for the angles of incidence that were not recorded."""

    model: Literal["lambert", "oren-nayar", "cook-torrance", "phong"]
    parameters: dict[str, float]
    scale: float
    """Intensity at f cos(theta) = 1/pi, a white matt target facing the sensor."""
    error: Annotated[float, Field(ge=0)]
    """RMS relative error at the angles left out in cross-validation."""
    constant_error: Annotated[float, Field(ge=0)]
    """RMS relative error of a constant intensity; a model that is no better is not used."""


class MaterialProfile(Config):
    """Noise and intensity of one material, by angle of incidence."""

    angle_deg: list[Angle] = Field(min_length=2, max_length=181)
    """Edges of the bins of incidence."""
    shots: list[Annotated[int, Field(ge=0)]]
    """Shots on the board per bin, including lost ones; 0 where a model fills the gap."""
    drop: list[Share]
    """Share of lost shots per bin."""
    drop_error: list[Share]
    """Standard error of `drop`."""
    range_bias_m: list[Metres]
    """Mean of measured minus true range per bin."""
    range_sigma_m: list[Annotated[float, Field(ge=0, le=1e4)]]
    """Standard deviation of range per bin."""
    intensity: list[float] = Field(min_length=1, max_length=MOST_CELLS + 1)
    """Intensity values if the sensor reports only a few (`kind: values`), otherwise cell edges (`kind: cells`)."""
    kind: Literal["values", "cells"]
    counts: list[list[Annotated[float, Field(ge=0)]]]
    """Number of returns per bin of incidence and value or cell; smoothed, so not necessarily whole."""
    distance_m: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]]
    """Nearest and farthest recorded board. Up to the farthest, the profile alone decides which shots are lost; beyond
    it, the sensor's threshold applies as well."""
    reference_m: Annotated[float, Field(gt=0)] = 1.0
    """Range to which the intensities refer, for scales that fall with range."""
    recorded_deg: tuple[Angle, Angle] = (0.0, 90.0)
    """Smallest and largest angle of incidence with recorded shots."""
    brdf: FittedBrdf | None = None

    @model_validator(mode="after")
    def _one_shape(self) -> MaterialProfile:
        bins = len(self.angle_deg) - 1
        for name in ("shots", "drop", "drop_error", "range_bias_m", "range_sigma_m", "counts"):
            if len(getattr(self, name)) != bins:
                raise ValueError(f"{name} has {len(getattr(self, name))} entries for {bins} bins of angle")
        for name in ("angle_deg", "intensity"):
            if any(after <= before for before, after in pairwise(getattr(self, name))):
                raise ValueError(f"{name} must increase from entry to entry")
        cells = len(self.intensity) - (self.kind == "cells")
        for row in self.counts:
            if len(row) != cells:
                raise ValueError(f"counts has {len(row)} entries in a row for {cells} of intensity")
        return self


class MeasuredConstant(Config):
    """System constant in R^2 = K rho exp(-2 gamma R), and its source."""

    source: str
    k_m2: Annotated[float, Field(gt=0)]
    gamma_per_m: Annotated[float, Field(ge=0)] = 0.0
    k_error_m2: Annotated[float, Field(ge=0)] = 0.0
    """Half the width of the 95 % interval of K."""


class Calibration(Config):
    """Result of a calibration, in addition to the fields of the sheet that it changed."""

    version: Literal[1] = 1
    recording: str = ""
    """Files that were evaluated."""
    turns: Annotated[int, Field(ge=0)] = 0
    """Number of frames that were evaluated."""
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Probability that the true value lies within `error` of the fitted one."""
    error: dict[str, float] = Field(default_factory=dict)
    """Half the width of the confidence interval of each fitted field: the median over the entries of a list, and the
    relative error of the overlap curve."""
    disagree: dict[str, str] = Field(default_factory=dict)
    """Fields on which the recordings disagree, with the value of each recording; `error` covers all of them."""
    kept: dict[str, str] = Field(default_factory=dict)
    """Fields that keep the preset's value, and the reason."""
    constants: list[MeasuredConstant] = Field(default_factory=list)
    materials: dict[str, MaterialProfile] = Field(default_factory=dict)
    unknown: Literal["nearest", "usual"] = "nearest"
    """Noise of materials without a profile: that of the most similar calibrated material, scaled by the ratio of their
    reflection models, or the sensor's default noise (`usual`)."""


# ---- config ---------------------------------------------------------------------------------------------------------


MOST_COLUMNS = 65536
"""Limit of the 16-bit field `column` of point clouds."""
MOST_SHOTS = 20_000_000
"""Largest number of shots per frame; current sensors fire fewer than a million."""

Rate = Annotated[float, Field(ge=0.01, le=100_000)]
"""Revolutions or frames per second."""
Columns = Annotated[int, Field(ge=1, le=MOST_COLUMNS)]

ReturnMode = Literal["first", "strongest", "last", "dual", "all"]
Overlap = NonNegative | Annotated[list[tuple[Positive, Fraction]], Field(min_length=1)] | None
"""Share of the return that the receiver collects, by range: see `RangeLimits.overlap`."""


class Channels(Config):
    """Lasers of a spinning sensor, one entry per laser, in the maker's channel order."""

    elevation_deg: list[Annotated[float, Field(ge=-90, le=90)]] = Field(min_length=1, max_length=MOST_COLUMNS)
    """Elevation of each laser."""
    azimuth_deg: list[Number] | None = None
    """Azimuth of each laser relative to the head, positive counter-clockwise as seen from above."""
    origin_height_mm: list[Number] | None = None
    """Height of each laser's exit above the head's optical centre."""
    origin_forward_mm: list[Number] | None = None
    """Distance of each laser's exit from the axis, along the laser's own azimuth."""
    origin_side_mm: list[Number] | None = None
    """Distance of each laser's exit from the axis, to the left of the laser's own azimuth."""
    fire_time_us: list[NonNegative] | None = None
    """Firing time of each laser within a firing sequence."""
    ring: list[Annotated[int, Field(ge=0, lt=MOST_COLUMNS)]] | None = None
    """Ring number reported for each laser; by default the rank by elevation, lowest first."""

    @model_validator(mode="after")
    def _same_length(self) -> Channels:
        n = len(self.elevation_deg)
        optional = ("azimuth_deg", "origin_height_mm", "origin_forward_mm", "origin_side_mm", "fire_time_us", "ring")
        for name in optional:
            values = getattr(self, name)
            if values is not None and len(values) != n:
                raise ValueError(f"{name} has {len(values)} entries for {n} channels")
        return self


def _check_shots(columns: float, channels: int, rate_hz: float) -> None:
    """Raise ValueError if a frame has no column or more shots than a cloud can hold."""
    if not 1 <= columns <= MOST_COLUMNS:
        raise ValueError(f"a frame at {rate_hz:g} Hz would have {columns:.6g} columns, allowed are 1 to {MOST_COLUMNS}")
    if columns * channels > MOST_SHOTS:
        raise ValueError(f"a frame would have {columns * channels:.6g} shots, allowed are {MOST_SHOTS}")


class SpinningPattern(Config):
    """Rotating head: every firing sequence fires all channels at the current azimuth of the head."""

    kind: Literal["spinning"]
    rate_hz: Rate
    """Default rate of rotation."""
    rates_hz: list[Rate] = Field(default_factory=list)
    """Further rates that the sensor offers."""
    direction: Literal["clockwise", "counter-clockwise"]
    """Sense of rotation as seen from above."""
    columns: Columns | None = None
    """Firing sequences per revolution, for sensors that fire by angle."""
    columns_offered: list[Columns] = Field(default_factory=list)
    """Further numbers of columns that the sensor offers."""
    modes: list[tuple[Columns, Rate]] = Field(default_factory=list)
    """Combinations of columns and rate that the sensor offers; if empty, all combinations are offered."""
    firing_period_us: Positive | None = None
    """Time between firing sequences, for sensors that fire by time."""
    azimuth_start_deg: Number = 0.0
    """Azimuth of the head at the start of a scan, counter-clockwise from the x axis."""
    field_of_view_deg: Annotated[float, Field(gt=0, le=360)] = 360.0
    """Sector in which the sensor fires, centred on the x axis if it is less than a full circle."""
    beam_offset_mm: Number = 0.0
    """Distance of the beam exit from the axis of rotation, along the head's azimuth."""
    height_mm: Number = 0.0
    """Height of the head's optical centre above the sensor's origin, as the maker's driver places it."""
    channels: Channels

    @model_validator(mode="after")
    def _one_clock(self) -> SpinningPattern:
        if (self.columns is None) == (self.firing_period_us is None):
            raise ValueError("set either columns or firing_period_us, not both")
        if self.modes and (self.columns, self.rate_hz) not in self.modes:
            raise ValueError(f"modes must contain the default, {self.columns} columns at {self.rate_hz} Hz")
        channels = len(self.channels.elevation_deg)
        for rate in {self.rate_hz, *self.rates_hz}:
            if self.firing_period_us is not None:
                per_revolution = 1e6 / (rate * self.firing_period_us)
                _check_shots(self.field_of_view_deg / 360.0 * per_revolution + 1e-6, channels, rate)
        if self.columns is not None:
            _check_shots(max([self.columns, *self.columns_offered]), channels, self.rate_hz)
        return self


class RasterPattern(Config):
    """Mirror or flash array that covers a rectangle line by line."""

    kind: Literal["raster"]
    rate_hz: Rate
    rates_hz: list[Rate] = Field(default_factory=list)
    azimuth_deg: tuple[Number, Number]
    """First and last azimuth of a line."""
    elevation_deg: tuple[Number, Number]
    """First and last elevation."""
    columns: Columns
    rows: Columns
    simultaneous_rows: bool = True
    """True if all rows of a column fire at once (flash columns), False if row after row."""
    flash: bool = False
    """True if the whole frame fires at one instant."""
    duty: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of the frame period, from its start, in which lines are scanned; the mirror flies back in the rest."""

    @model_validator(mode="after")
    def _countable(self) -> RasterPattern:
        _check_shots(self.columns, self.rows, self.rate_hz)
        return self


class RosettePattern(Config):
    """Counter-rotating (Risley) prisms: the deflection is the sum of two rotating vectors; it never repeats within a
    frame."""

    kind: Literal["rosette"]
    rate_hz: Rate
    rates_hz: list[Rate] = Field(default_factory=list)
    points_per_second: Positive
    """Shots per second, all lines together."""
    prism_hz: tuple[Number, Number]
    """Rates of rotation of the two prisms; opposite signs mean opposite directions."""
    prism_deg: tuple[Positive, Positive]
    """Deflection of each prism; their sum is the half angle of the circular field of view."""
    lines: Columns = 1
    """Lines that fire at once."""
    line_spacing_deg: NonNegative = 0.0
    """Angle between simultaneous lines, across the field of view."""
    stretch: tuple[Positive, Positive] = (1.0, 1.0)
    """Factors on azimuth and elevation, for fields of view that are not circular."""

    @model_validator(mode="after")
    def _countable(self) -> RosettePattern:
        for rate in {self.rate_hz, *self.rates_hz}:
            _check_shots(max(1.0, self.points_per_second / self.lines / rate), self.lines, rate)
        return self


class NonRepetitivePattern(Config):
    """Beam that rotates steadily in azimuth and oscillates in elevation, at rates without a common period."""

    kind: Literal["non-repetitive"]
    rate_hz: Rate
    rates_hz: list[Rate] = Field(default_factory=list)
    points_per_second: Positive
    turns_hz: Positive
    """Azimuth sweeps per second."""
    nod_hz: Positive
    """Elevation oscillations (up and down) per second."""
    azimuth_deg: tuple[Number, Number] = (-180.0, 180.0)
    """First and last azimuth of a sweep; their order gives its direction."""
    elevation_deg: tuple[Number, Number]
    """Lowest and highest elevation of any line."""
    lines: Columns = 1
    """Lines that fire at once."""
    line_spacing_deg: NonNegative = 0.0
    """Angle between neighbouring lines. If azimuth covers the full circle, the stack of lines rolls with it."""

    @model_validator(mode="after")
    def _fits(self) -> NonRepetitivePattern:
        low, high = self.elevation_deg
        if high - low < (self.lines - 1) * self.line_spacing_deg:
            raise ValueError(f"{self.lines} lines {self.line_spacing_deg} deg apart need more than {high - low} deg")
        for rate in {self.rate_hz, *self.rates_hz}:
            _check_shots(max(1.0, self.points_per_second / self.lines / rate), self.lines, rate)
        return self


class SwathPattern(Config):
    """Mirror of an airborne scanner that looks down: lines across the flight direction x, or circles around nadir."""

    kind: Literal["swath"]
    mirror: Literal["oscillating", "polygon", "palmer"]
    """Oscillating mirror: a sine across the track. Polygon: parallel lines at a constant angular rate, from right to
    left. Palmer: a rotating inclined mirror, whose beam moves on a cone."""
    rate_hz: Rate
    """Frames per second: the stream is divided into frames of whole cycles."""
    rates_hz: list[Rate] = Field(default_factory=list)
    points_per_second: Positive
    """Shots per second while the scanner measures."""
    scan_hz: Positive
    """Cycles per second: oscillations to and fro, lines of a polygon, or revolutions."""
    half_angle_deg: Annotated[float, Field(gt=0, lt=80)]
    """Largest angle from nadir across the flight direction."""
    along_angle_deg: Annotated[float, Field(gt=0, lt=80)] | None = None
    """Largest angle from nadir along the flight direction, for a Palmer mirror; by default that across it."""
    duty: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Share of a polygon's line in which it measures; the edge of the polygon passes in the rest."""

    @model_validator(mode="after")
    def _whole_cycles(self) -> SwathPattern:
        for rate in {self.rate_hz, *self.rates_hz}:
            cycles = self.scan_hz / rate
            if abs(cycles - round(cycles)) > 1e-6 or round(cycles) < 1:
                raise ValueError(f"scan_hz ({self.scan_hz:g}) must be a multiple of the frame rate ({rate:g} Hz)")
            _check_shots(max(1.0, self.duty * self.points_per_second / rate), 1, rate)
        if self.mirror != "polygon" and self.duty != 1.0:
            raise ValueError(f"duty is for a polygon, not for a mirror that is {self.mirror}")
        if self.mirror != "palmer" and self.along_angle_deg is not None:
            raise ValueError(f"along_angle_deg is for a palmer mirror, not for one that is {self.mirror}")
        return self


class TablePattern(Config):
    """List of directions and times from a file with columns azimuth_deg, elevation_deg, time_s[, ring]."""

    kind: Literal["table"]
    rate_hz: Rate
    rates_hz: list[Rate] = Field(default_factory=list)
    file: str
    """CSV or NPY file, relative to the preset's own folder."""


Pattern = Annotated[
    SpinningPattern | RasterPattern | RosettePattern | NonRepetitivePattern | SwathPattern | TablePattern,
    Field(discriminator="kind"),
]


class Beam(Config):
    """Footprint of one pulse."""

    divergence_mrad: tuple[NonNegative, NonNegative]
    """Full angle, horizontal and vertical, as defined by `divergence_at`."""
    divergence_at: Literal["1/e2", "fwhm", "edge"] = "1/e2"
    """Definition of the full angle: 1/e^2 or half maximum of a Gaussian, or the edge of a uniform beam."""
    exit_diameter_mm: NonNegative = 0.0
    """Diameter of the beam at the exit, by the same definition."""
    shape: Literal["ellipse", "rectangle"] = "ellipse"
    profile: Literal["gaussian", "uniform"] = "gaussian"
    sub_rays: Annotated[int, Field(ge=1, le=1024)] = 25
    """Number of rays that sample the footprint."""


class RatedRange(Config):
    """Range at which a Lambertian target of known reflectance is detected."""

    reflectance: Annotated[float, Field(gt=0, le=1)]
    """Reflectance of the target at the sensor's wavelength."""
    range_m: Positive
    """Rated range."""
    detection: Annotated[float, Field(ge=0.5, lt=1)] = 0.5
    """Detection probability at that range. At one half, the echo equals the threshold."""


class RangeLimits(Config):
    """Reported ranges, rated ranges and overlap of the receiver."""

    min_m: NonNegative
    """Shortest reported range."""
    max_m: Positive
    """Longest reported range (range gate)."""
    resolution_m: NonNegative = 0.0
    """Step of the reported range; 0 means continuous."""
    rated: list[RatedRange] = Field(min_length=1)
    """Rated ranges. One fixes the system constant, two also the extinction. With more, each point is met: the receiver
    collects a share of the signal that depends on range."""
    overlap: Overlap = None
    """Share of the beam's return that the receiver collects. A single number is the range [m] beyond which it collects
    everything; below it, the share falls with the square of range (0: full overlap at every range). A list of points
    (range [m], share) is a measured curve: linear between the points, constant beyond the last, square law below the
    first. By default everything is collected, which no real receiver does at close range."""

    @model_validator(mode="after")
    def _ordered(self) -> RangeLimits:
        if self.max_m <= self.min_m:
            raise ValueError(f"max_m ({self.max_m}) must exceed min_m ({self.min_m})")
        if len({rated.range_m for rated in self.rated}) < len(self.rated):
            raise ValueError("rated must have different ranges")
        if isinstance(self.overlap, list):
            ranges = [point[0] for point in self.overlap]
            if any(after <= before for before, after in pairwise(ranges)):
                raise ValueError("ranges of overlap must increase from point to point")
        return self


class Receiver(Config):
    """Conversion of the received signal into returns."""

    returns: ReturnMode = "strongest"
    """Default return mode."""
    returns_offered: list[ReturnMode] = Field(default_factory=list)
    """Further return modes that the sensor offers."""
    max_returns: Annotated[int, Field(ge=1, le=8)] = 1
    """Largest number of returns per shot in mode `all`."""
    merge_distance_m: Positive = 1.0
    """Echoes closer together than this merge into one at their power-weighted mean range."""
    threshold_to_noise: Positive = 6.0
    """Ratio of the detection threshold to the standard deviation of the noise without signal."""
    threshold_photons: Positive | None = None
    """Photons counted at the detection threshold, for receivers that count few: shot noise then makes the detection of
    weak echoes random. None: shot noise is negligible."""
    channel_gain: list[Annotated[float, Field(ge=0.01, le=100)]] = Field(default_factory=list)
    """Signal of each ring relative to the nominal one at the same target: laser power times detector gain. Rated ranges
    refer to a gain of 1; calibrated reflectivity does not depend on the gain. Empty: all rings are equal."""
    pulse_length_ns: Positive = 5.0
    """Half-power width of the pulse."""
    dead_time_ns: NonNegative = 0.0
    """Time after a return during which the receiver is blind."""
    dropout: Annotated[float, Field(ge=0, lt=1)] = 0.0
    """Probability that a return is lost regardless of its signal."""
    saturation: Positive | None = None
    """Signal in units of the threshold above which the receiver saturates."""
    dust_optical_depth: Annotated[float, Field(gt=0, le=5)] = 0.2
    """Optical depth of dust above which the sensor always returns the dust; VANE gives 0.1 to 0.3."""


class Noise(Config):
    """Measurement errors. All are zero unless the preset sets them."""

    range_sigma_m: NonNegative = 0.0
    """Standard deviation of range at high signal."""
    range_sigma_snr_m: NonNegative = 0.0
    """Signal-dependent part: sigma^2 = range_sigma_m^2 + (range_sigma_snr_m / SNR)^2."""
    range_sigma_table: list[tuple[NonNegative, NonNegative]] = Field(default_factory=list)
    """Points of range [m] and standard deviation [m], linear in between; replaces the two fields above."""
    intensity_sigma: NonNegative = 0.0
    """Relative standard deviation of intensity from shot to shot."""
    channel_intensity_sigma: Annotated[float, Field(ge=0, le=1)] = 0.0
    """Standard deviation of the logarithm of the rings' constant intensity factors. Each ring gets one random factor,
    the same in all scans of this model: firmware calibrates the lasers' gains only in part."""
    azimuth_jitter_deg: NonNegative = 0.0
    """Standard deviation of the beam's azimuth."""
    elevation_jitter_deg: NonNegative = 0.0
    """Standard deviation of the beam's elevation."""
    encoder_step_deg: NonNegative = 0.0
    """Step of the reported azimuth."""
    time_jitter_ns: NonNegative = 0.0
    """Standard deviation of the clock that times the echo; 1 ns is 15 cm of range."""
    channel_bias_m: list[Number] = Field(default_factory=list)
    """Constant range error of each ring."""
    channel_bias_sigma_m: NonNegative = 0.0
    """Standard deviation of the rings' constant range errors where those of the unit are unknown: each ring gets one
    random error, the same in all scans of this model. Data sheets count it as accuracy; it is not scatter."""
    channel_elevation_sigma_deg: NonNegative = 0.0
    """Standard deviation of the rings' constant errors of elevation, which the calibration of a unit leaves: each ring
    gets one random error, the same in all scans of this model. Points have the nominal elevation."""
    false_alarm_rate_hz: NonNegative = 0.0
    """False points per second of open receiver, over the whole range gate."""
    background_klx: NonNegative = 0.0
    """Sunlight in which the rated ranges hold."""


class Fmcw(Config):
    """Frequency-modulated continuous wave: a coherent lidar that measures radial velocity."""

    bandwidth_ghz: Positive
    """Change of the laser's frequency within one chirp."""
    chirp_us: Positive
    """Duration of one chirp; a measurement consists of a rising and a falling one."""
    linewidth_khz: NonNegative = 0.0
    """Linewidth of the laser (full width of a Lorentzian); it weakens far targets."""
    threshold_snr_db: Annotated[float, Field(ge=6, le=40)] = 13.0
    """Ratio of a return at the detection threshold to the noise in one cell of the spectrum."""
    speed_sigma_m_s: NonNegative = 0.0
    """Standard deviation of radial velocity at high signal."""
    looks: Annotated[int, Field(ge=1, le=4)] = 1
    """Number of independent speckle patterns that a measurement averages."""
    max_speed_m_s: Positive | None = None
    """Largest unambiguous radial velocity; faster ones wrap around. None if there is no limit."""


class Amcw(Config):
    """Amplitude-modulated continuous wave: a lidar that measures the phase of modulated light."""

    fine_mhz: Positive
    """Modulation frequency; its phase repeats after c / 2f."""
    coarse_mhz: Positive | None = None
    """Lower frequency, or difference of two, that selects the period of the first; None leaves ranges ambiguous."""

    @model_validator(mode="after")
    def _ordered(self) -> Amcw:
        if self.coarse_mhz is not None and self.coarse_mhz >= self.fine_mhz:
            raise ValueError(f"coarse_mhz ({self.coarse_mhz:g}) must be below fine_mhz ({self.fine_mhz:g})")
        return self


def _known_scale(name: Any) -> Any:
    if not isinstance(name, str) or name not in scales():
        raise ValueError(f"expected {', '.join(map(repr, scales()))}")
    return name


class Transmitter(Config):
    """Absolute link budget: emitted power and receiver optics, for results in watts and photons."""

    peak_power_w: Positive = 80.0
    """Peak power of the pulse P_0; the pulse is P_0 sin^2(pi t / 2 tau_H) with energy P_0 tau_H."""
    aperture_mm: Positive = 25.0
    """Diameter of the receiver's aperture."""
    efficiency: Annotated[float, Field(gt=0, le=1)] = 0.5
    """Transmittance of the optics, emitter and receiver together."""
    quantum_efficiency: Annotated[float, Field(gt=0, le=1)] = 0.7
    """Share of the received photons that is detected."""


class Intensity(Config):
    """Scale of the `intensity` field."""

    scale: Annotated[str, BeforeValidator(_known_scale)]
    """Name of the maker's scale (`parhelion.makers.scales`)."""
    resolution: NonNegative = 0.0
    """Step of the reported intensity; 0 means continuous."""


class LidarConfig(Config):
    """Data sheet of one lidar model.

    >>> ph.Lidar("velodyne/vlp-16").config.wavelength_nm
    903.0
    """

    name: str
    """Maker and model, for example 'Velodyne VLP-16'."""
    maker: str = ""
    """Maker whose driver, packets and intensity scales apply; empty if unknown (`parhelion.makers`)."""
    wavelength_nm: Annotated[float, Field(ge=350, le=2500)]
    """Wavelength of the laser."""
    pattern: Pattern
    beam: Beam
    range: RangeLimits
    receiver: Receiver = Receiver()
    noise: Noise = Noise()
    intensity: Intensity
    fmcw: Fmcw | None = None
    """Chirps of a coherent lidar; None for others."""
    amcw: Amcw | None = None
    """Modulation of a lidar that measures phases; None for others."""
    transmitter: Transmitter | None = None
    """Absolute link budget; None if results in units of the threshold suffice."""
    sources: list[Source] = Field(min_length=1)
    assumed: dict[str, str] = Field(default_factory=dict)
    """Fields without a source, and the reason for their value."""
    calibration: Calibration | None = None
    """Results measured on the user's own unit."""

    @model_validator(mode="after")
    def _one_range(self) -> LidarConfig:
        offered = {self.receiver.returns, *self.receiver.returns_offered}
        if self.amcw is not None and (self.fmcw is not None or offered != {"strongest"}):
            raise ValueError("amcw has one range per shot: use it without fmcw, and with returns: strongest only")
        return self

    @model_validator(mode="before")
    @classmethod
    def _maker_by_name(cls, data: Any) -> Any:
        """Take the maker from the first word of the name if the sheet does not set it."""
        if isinstance(data, dict) and not data.get("maker") and isinstance(data.get("name"), str):
            first = data["name"].split(" ")[0].lower()
            return {**data, "maker": first if first in makers() else ""}
        return data
