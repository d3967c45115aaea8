"""The data sheet of a lidar: what a preset file may say. Units are in the names; sources are required."""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from parhelion.core.config import Config, Fraction, NonNegative, Number, Positive, Source
from parhelion.makers import makers
from parhelion.makers.scales import scales

# ---- What was measured on a user's own unit: part of a sensor's file, written by `parhelion calibrate` --------------
# Numbers of the sheet itself stand in their usual fields; here are their errors, what could not be told, the system
# constant from each of its sources, and the noise of materials that boards of them showed.


Share = Annotated[float, Field(ge=0, le=1)]
Angle = Annotated[float, Field(ge=0, le=90)]
Metres = Annotated[float, Field(ge=-1e4, le=1e4)]
MOST_CELLS = 64
"""Cells of intensity that a profile has at most."""


class FittedBrdf(Config):
    """The reflection model that fills the angles of which nothing was recorded."""

    model: Literal["lambert", "oren-nayar", "cook-torrance", "phong"]
    parameters: dict[str, float]
    scale: float
    """Intensity for f cos(theta) = 1/pi, that of a white matt target which faces the sensor."""
    error: Annotated[float, Field(ge=0)]
    """Root mean square of the relative differences to the angles left out in cross-validation."""
    constant_error: Annotated[float, Field(ge=0)]
    """The same for a constant: a model that is no better than that is not used."""


class MaterialProfile(Config):
    """What a sensor reports of one material, by angle of incidence."""

    angle_deg: list[Angle] = Field(min_length=2, max_length=181)
    """Edges of the bins of incidence."""
    shots: list[Annotated[int, Field(ge=0)]]
    """Shots on the board in each bin, lost ones too; 0 where a model fills the gap."""
    drop: list[Share]
    """Share of lost shots."""
    drop_error: list[Share]
    """Its standard error."""
    range_bias_m: list[Metres]
    """Mean of measured less true range of returns."""
    range_sigma_m: list[Annotated[float, Field(ge=0, le=1e4)]]
    """Standard deviation of range of returns."""
    intensity: list[float] = Field(min_length=1, max_length=MOST_CELLS + 1)
    """Values of intensity where there are few of them (`kind` values), else edges of cells (`kind` cells)."""
    kind: Literal["values", "cells"]
    counts: list[list[Annotated[float, Field(ge=0)]]]
    """For each bin of incidence, how often each value or cell was seen; smoothed, so not whole."""
    distance_m: tuple[Annotated[float, Field(ge=0)], Annotated[float, Field(ge=0)]]
    """Nearest and farthest board that was recorded. Up to the farthest the profile says alone what is lost; beyond,
    the sensor's threshold says it too."""
    reference_m: Annotated[float, Field(gt=0)] = 1.0
    """Range at which the intensities hold, for scales that fall with range."""
    recorded_deg: tuple[Angle, Angle] = (0.0, 90.0)
    """First and last angle of which there are shots."""
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
    """A system constant in R^2 = K rho exp(-2 gamma R), and where it comes from."""

    source: str
    k_m2: Annotated[float, Field(gt=0)]
    gamma_per_m: Annotated[float, Field(ge=0)] = 0.0
    k_error_m2: Annotated[float, Field(ge=0)] = 0.0
    """Half the width of its 95 % interval."""


class Calibration(Config):
    """What a calibration found, beside the numbers of the sheet that it changed."""

    version: Literal[1] = 1
    recording: str = ""
    """Files it was made from."""
    turns: Annotated[int, Field(ge=0)] = 0
    confidence: Annotated[float, Field(gt=0, lt=1)] | None = None
    """Chance that the truth lies within value and `error`."""
    error: dict[str, float] = Field(default_factory=dict)
    """Half the width of the interval of each field that was measured; of lists, the median of their entries, and of the
    overlap curve relative to its values."""
    disagree: dict[str, str] = Field(default_factory=dict)
    """Fields on which the recordings disagree, and what each of them said; the error holds all of it."""
    kept: dict[str, str] = Field(default_factory=dict)
    """Fields that stay those of the preset, and why."""
    constants: list[MeasuredConstant] = Field(default_factory=list)
    materials: dict[str, MaterialProfile] = Field(default_factory=dict)
    unknown: Literal["nearest", "usual"] = "nearest"
    """What materials without a profile get: that of the nearest calibrated one, shifted by the ratio of their models,
    or the sensor's usual noise."""


# ---- config ---------------------------------------------------------------------------------------------------------


MOST_COLUMNS = 65536
"""The `column` field of point clouds is 16 bits wide."""
MOST_SHOTS = 20_000_000
"""Shots of one frame; today's sensors fire less than a million."""

Rate = Annotated[float, Field(ge=0.01, le=100_000)]
"""Turns or frames a second."""
Columns = Annotated[int, Field(ge=1, le=MOST_COLUMNS)]

ReturnMode = Literal["first", "strongest", "last", "dual", "all"]
Overlap = NonNegative | Annotated[list[tuple[Positive, Fraction]], Field(min_length=1)] | None
"""How much of the return the receiver collects by range: see `RangeLimits.overlap`."""


class Channels(Config):
    """Lasers of a spinning sensor, one entry a laser, in the maker's channel order."""

    elevation_deg: list[Annotated[float, Field(ge=-90, le=90)]] = Field(min_length=1, max_length=MOST_COLUMNS)
    azimuth_deg: list[Number] | None = None
    """Azimuth offset of each laser from the head's azimuth, positive counter-clockwise seen from above."""
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
    """Refuse scans of no columns, or of more shots than a cloud can hold, before a table of them is made."""
    if not 1 <= columns <= MOST_COLUMNS:
        raise ValueError(f"a frame at {rate_hz:g} Hz would have {columns:.6g} columns, allowed are 1 to {MOST_COLUMNS}")
    if columns * channels > MOST_SHOTS:
        raise ValueError(f"a frame would have {columns * channels:.6g} shots, allowed are {MOST_SHOTS}")


class SpinningPattern(Config):
    """A head that turns: every firing sequence fires all channels at the azimuth the head has then."""

    kind: Literal["spinning"]
    rate_hz: Rate
    """Turns a second by default."""
    rates_hz: list[Rate] = Field(default_factory=list)
    """Further rates the sensor offers."""
    direction: Literal["clockwise", "counter-clockwise"]
    """Sense of rotation seen from above."""
    columns: Columns | None = None
    """Firing sequences a turn, where the sensor fires by angle."""
    columns_offered: list[Columns] = Field(default_factory=list)
    modes: list[tuple[Columns, Rate]] = Field(default_factory=list)
    """Columns and rates that the sensor offers together; where empty, any columns offered go with any rate offered."""
    firing_period_us: Positive | None = None
    """Time between firing sequences, where the sensor fires by time."""
    azimuth_start_deg: Number = 0.0
    """Azimuth of the head at the start of a scan, counter-clockwise from the x axis."""
    field_of_view_deg: Annotated[float, Field(gt=0, le=360)] = 360.0
    """Part of a turn in which the sensor fires, centred on x where it is less than a full turn."""
    beam_offset_mm: Number = 0.0
    """Distance of the beam's exit from the axis of rotation, along the head's azimuth."""
    height_mm: Number = 0.0
    """Height of the head's optical centre above the sensor's origin, as the maker's driver places it."""
    channels: Channels

    @model_validator(mode="after")
    def _one_clock(self) -> SpinningPattern:
        if (self.columns is None) == (self.firing_period_us is None):
            raise ValueError("give either columns or firing_period_us")
        if self.modes and (self.columns, self.rate_hz) not in self.modes:
            raise ValueError(f"modes must hold the default, {self.columns} columns at {self.rate_hz} Hz")
        channels = len(self.channels.elevation_deg)
        for rate in {self.rate_hz, *self.rates_hz}:
            if self.firing_period_us is not None:
                turn = 1e6 / (rate * self.firing_period_us)
                _check_shots(self.field_of_view_deg / 360.0 * turn + 1e-6, channels, rate)
        if self.columns is not None:
            _check_shots(max([self.columns, *self.columns_offered]), channels, self.rate_hz)
        return self


class RasterPattern(Config):
    """A mirror or flash array that covers a rectangle line by line."""

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
    """Whether all rows of a column fire at once (flash columns), or row after row."""
    flash: bool = False
    """Whether the whole frame fires at one instant."""
    duty: Annotated[float, Field(gt=0, le=1)] = 1.0
    """Part of the frame's time in which the lines are scanned, at its start; the mirror returns in the rest."""

    @model_validator(mode="after")
    def _countable(self) -> RasterPattern:
        _check_shots(self.columns, self.rows, self.rate_hz)
        return self


class RosettePattern(Config):
    """Counter-rotating (Risley) prisms: deflections add as two turning vectors; never repeats within a frame."""

    kind: Literal["rosette"]
    rate_hz: Rate
    rates_hz: list[Rate] = Field(default_factory=list)
    points_per_second: Positive
    """Shots a second, all lines together."""
    prism_hz: tuple[Number, Number]
    """Turns a second of the two prisms; opposite signs turn against each other."""
    prism_deg: tuple[Positive, Positive]
    """Deflection of each prism; their sum is the half angle of the round field of view."""
    lines: Columns = 1
    line_spacing_deg: NonNegative = 0.0
    """Angle between simultaneous lines, across the field of view."""
    stretch: tuple[Positive, Positive] = (1.0, 1.0)
    """Factor on azimuth and elevation, for fields of view that are not round."""

    @model_validator(mode="after")
    def _countable(self) -> RosettePattern:
        for rate in {self.rate_hz, *self.rates_hz}:
            _check_shots(max(1.0, self.points_per_second / self.lines / rate), self.lines, rate)
        return self


class NonRepetitivePattern(Config):
    """A beam that turns steadily in azimuth and nods in elevation at a rate that shares no period with the turn."""

    kind: Literal["non-repetitive"]
    rate_hz: Rate
    rates_hz: list[Rate] = Field(default_factory=list)
    points_per_second: Positive
    turns_hz: Positive
    """Sweeps from the first azimuth to the last a second."""
    nod_hz: Positive
    """Elevation sweeps, up and down again, a second."""
    azimuth_deg: tuple[Number, Number] = (-180.0, 180.0)
    """First and last azimuth of a sweep; they say its sense too."""
    elevation_deg: tuple[Number, Number]
    """Lowest and highest elevation of any line."""
    lines: Columns = 1
    """Lines fired at once."""
    line_spacing_deg: NonNegative = 0.0
    """Angle between neighbouring lines; where azimuth goes full circle, the stack of lines rolls with the turn."""

    @model_validator(mode="after")
    def _fits(self) -> NonRepetitivePattern:
        low, high = self.elevation_deg
        if high - low < (self.lines - 1) * self.line_spacing_deg:
            raise ValueError(f"{self.lines} lines {self.line_spacing_deg} deg apart need more than {high - low} deg")
        for rate in {self.rate_hz, *self.rates_hz}:
            _check_shots(max(1.0, self.points_per_second / self.lines / rate), self.lines, rate)
        return self


class TablePattern(Config):
    """Any list of directions with times, from a file of columns azimuth_deg, elevation_deg, time_s[, ring]."""

    kind: Literal["table"]
    rate_hz: Rate
    rates_hz: list[Rate] = Field(default_factory=list)
    file: str
    """CSV or NPY file, relative to the preset's own folder."""


Pattern = Annotated[
    SpinningPattern | RasterPattern | RosettePattern | NonRepetitivePattern | TablePattern,
    Field(discriminator="kind"),
]


class Beam(Config):
    """Footprint of one pulse."""

    divergence_mrad: tuple[NonNegative, NonNegative]
    """Full angle, horizontal and vertical, by `divergence_at`."""
    divergence_at: Literal["1/e2", "fwhm", "edge"] = "1/e2"
    """Where the full angle is measured: 1/e^2 of a Gaussian, its half maximum, or the edge of a uniform beam."""
    exit_diameter_mm: NonNegative = 0.0
    """Diameter of the beam as it leaves the sensor, by the same definition."""
    shape: Literal["ellipse", "rectangle"] = "ellipse"
    profile: Literal["gaussian", "uniform"] = "gaussian"
    sub_rays: Annotated[int, Field(ge=1, le=1024)] = 25
    """Rays that sample the footprint."""


class RatedRange(Config):
    """A range at which a Lambertian target of known reflectance is detected."""

    reflectance: Annotated[float, Field(gt=0, le=1)]
    range_m: Positive
    detection: Annotated[float, Field(ge=0.5, lt=1)] = 0.5
    """Share of shots that find it there. One half: its echo is at the threshold."""


class RangeLimits(Config):
    """What the sensor reports, and how far it sees."""

    min_m: NonNegative
    max_m: Positive
    """Longest range reported at all (range gate)."""
    resolution_m: NonNegative = 0.0
    """Step of the reported range; 0 is continuous."""
    rated: list[RatedRange] = Field(min_length=1, max_length=2)
    """One or two data-sheet ranges, which fix the system constant (and the extinction, where two)."""
    overlap: Overlap = None
    """Share of the beam's return that the receiver collects. One number is the range [m] from which on it collects all
    of it: nearer, the share falls with the square of range (0: it collects all at every range). Points of range [m] and
    share give a measured curve: linear between them, level behind the last, square law below the first. Where it is not
    said, everything is collected, which no real receiver does close by."""

    @model_validator(mode="after")
    def _ordered(self) -> RangeLimits:
        if self.max_m <= self.min_m:
            raise ValueError(f"max_m ({self.max_m}) must be larger than min_m ({self.min_m})")
        if isinstance(self.overlap, list):
            ranges = [point[0] for point in self.overlap]
            if any(after <= before for before, after in pairwise(ranges)):
                raise ValueError("ranges of overlap must increase from point to point")
        return self


class Receiver(Config):
    """From the summed signal to returns."""

    returns: ReturnMode = "strongest"
    """Which returns the sensor reports by default."""
    returns_offered: list[ReturnMode] = Field(default_factory=list)
    max_returns: Annotated[int, Field(ge=1, le=8)] = 1
    """Returns reported in mode `all`."""
    merge_distance_m: Positive = 1.0
    """Echoes closer than this merge into one at their power-weighted mean range."""
    threshold_to_noise: Positive = 6.0
    """Detection threshold over the standard deviation of the noise without signal."""
    threshold_photons: Positive | None = None
    """Photons counted at the detection threshold, where the receiver counts few: their shot noise makes weak echoes
    come and go. None: so many that it does not matter."""
    channel_gain: list[Annotated[float, Field(ge=0.01, le=100)]] = Field(default_factory=list)
    """Strength of each ring relative to the usual one, by which its signal is larger at the same target: power of its
    laser times what its detector makes of the light. Rated ranges hold for 1, and calibrated reflectivity is free of
    it. Empty: all rings are alike."""
    pulse_length_ns: Positive = 5.0
    """Half-power width of the pulse."""
    dead_time_ns: NonNegative = 0.0
    """Time after a return during which the receiver is blind."""
    saturation: Positive | None = None
    """Signal, in units of the threshold, above which the receiver saturates."""
    dust_optical_depth: Annotated[float, Field(gt=0, le=5)] = 0.2
    """Optical depth of dust above which the sensor always returns the dust; VANE gives 0.1 to 0.3."""


class Noise(Config):
    """Errors of one measurement. Zero by default: a preset says what its sensor has."""

    range_sigma_m: NonNegative = 0.0
    """Standard deviation of range at high signal."""
    range_sigma_snr_m: NonNegative = 0.0
    """sigma^2 = range_sigma_m^2 + (range_sigma_snr_m / SNR)^2."""
    range_sigma_table: list[tuple[NonNegative, NonNegative]] = Field(default_factory=list)
    """Range [m] and standard deviation [m], linear between; replaces the two fields above."""
    intensity_sigma: NonNegative = 0.0
    """Relative standard deviation of intensity from shot to shot."""
    azimuth_jitter_deg: NonNegative = 0.0
    elevation_jitter_deg: NonNegative = 0.0
    encoder_step_deg: NonNegative = 0.0
    """Step of the reported azimuth."""
    time_jitter_ns: NonNegative = 0.0
    """Standard deviation of the clock that times the echo; 1 ns is 15 cm of range."""
    channel_bias_m: list[Number] = Field(default_factory=list)
    """Constant range error of each ring."""
    channel_bias_sigma_m: NonNegative = 0.0
    """Standard deviation of the rings' constant range errors, where those of the unit are not known: every ring gets
    one, the same in all scans of this model. Data sheets count it into accuracy; it is not scatter."""
    false_alarm_rate_hz: NonNegative = 0.0
    """False points a second of open receiver, over the whole range gate."""
    background_klx: NonNegative = 0.0
    """Sunlight under which the rated ranges hold."""


def _known_scale(name: Any) -> Any:
    if not isinstance(name, str) or name not in scales():
        raise ValueError(f"expected {', '.join(map(repr, scales()))}")
    return name


class Intensity(Config):
    """Which vendor's scale the `intensity` field has."""

    scale: Annotated[str, BeforeValidator(_known_scale)]
    resolution: NonNegative = 0.0
    """Step of the reported intensity; 0 is continuous."""


class LidarConfig(Config):
    """One lidar model."""

    name: str
    maker: str = ""
    """Maker whose driver, packets and intensity scales it has; empty if unknown (`parhelion.makers`)."""
    wavelength_nm: Annotated[float, Field(ge=350, le=2500)]
    pattern: Pattern
    beam: Beam
    range: RangeLimits
    receiver: Receiver = Receiver()
    noise: Noise = Noise()
    intensity: Intensity
    sources: list[Source] = Field(min_length=1)
    assumed: dict[str, str] = Field(default_factory=dict)
    """Fields that no source gives, and why this value was taken."""
    calibration: Calibration | None = None
    """What was measured on the user's own unit."""

    @model_validator(mode="before")
    @classmethod
    def _maker_by_name(cls, data: Any) -> Any:
        """A sheet that names no maker has the one that its name begins with."""
        if isinstance(data, dict) and not data.get("maker") and isinstance(data.get("name"), str):
            first = data["name"].split(" ")[0].lower()
            return {**data, "maker": first if first in makers() else ""}
        return data
