"""What was measured on a user's own unit: part of a sensor's file, written by `parhelion calibrate`.

Numbers of the sheet itself stand in their usual fields; here are their errors, what could not be told, the system
constant from each of its sources, and the noise of materials that boards of them showed.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import Config

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
