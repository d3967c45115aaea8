"""What a placement file (YAML) may say. Units are in the names; lengths without a unit in their name are metres."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from parhelion.core.config import Config
from parhelion.core.pose import Pose
from parhelion.scenario.motions import Name, Positive, Seed
from parhelion.scenario.schema import BodyShape, WorldEntry
from parhelion.world.schema import Angles, Coordinate, PoseEntry, Xyz

MOST_CANDIDATES = 2000
EXACT_LIMIT = 200_000
"""Combinations up to which a search is exact by default."""

Weight = Annotated[float, Field(gt=0, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1e6)]
Cell = Annotated[float, Field(ge=0.01, le=1000)]


class Span(Config):
    """Evenly spaced values, both ends among them."""

    start: Coordinate
    stop: Coordinate
    count: Annotated[int, Field(ge=1, le=1000)]


Values = Annotated[list[Coordinate], Field(min_length=1)] | Span


class Grid(Config):
    """All combinations of coordinates, and of orientations."""

    x: Values
    y: Values
    z: Values
    rpy_deg: Annotated[tuple[Angles, ...], Field(min_length=1)] = ((0.0, 0.0, 0.0),)

    def poses(self) -> list[Pose]:
        """Every pose of the grid; z changes fastest, after the orientation."""
        axes = [
            np.linspace(one.start, one.stop, one.count).tolist() if isinstance(one, Span) else one
            for one in (self.x, self.y, self.z)
        ]
        return [Pose(xyz, rpy_deg=turn) for xyz in product(*axes) for turn in self.rpy_deg]


class SensorSite(Config):
    """Mounts of one sensor: on the vehicle, or in the world where there is none."""

    type: Literal["lidar", "camera"]
    name: Name | None = None
    """Of the candidate, or the beginning of the names of a grid's."""
    model: str
    """A preset's name, or a YAML file relative to this file's folder."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further choices, such as a lidar's columns."""
    mount: PoseEntry | None = None
    grid: Grid | None = None
    reflectance: Annotated[float, Field(gt=0, le=1)] = 0.1
    """A lidar sees as far as it detects a surface of this reflectance in clear air."""
    range_m: Positive | None = None
    """How far it sees, where that is known better."""

    @model_validator(mode="after")
    def _one_place(self) -> SensorSite:
        if (self.mount is None) == (self.grid is None):
            raise ValueError("give either mount or grid")
        return self


class AnchorSite(Config):
    """Places of anchors of ranging radios in the world."""

    type: Literal["anchor"]
    name: Name | None = None
    xyz: Xyz | None = None
    grid: Grid | None = None

    @model_validator(mode="after")
    def _one_place(self) -> AnchorSite:
        if (self.xyz is None) == (self.grid is None):
            raise ValueError("give either xyz or grid")
        return self


Site = Annotated[SensorSite | AnchorSite, Field(discriminator="type")]


class VehicleEntry(Config):
    """What carries the sensors."""

    name: Name | None = None
    """A vehicle of the scenario: its body stands where it is at time_s, and mounts count from there."""
    poses: Annotated[list[PoseEntry], Field(min_length=1, max_length=1000)] | None = None
    """Where the vehicle is judged; the origin, else."""
    body: list[BodyShape] = Field(default_factory=list)
    """Its body, which hides from the sensors what lies behind it."""

    @model_validator(mode="after")
    def _one_source(self) -> VehicleEntry:
        if self.name is not None and (self.poses is not None or self.body):
            raise ValueError("give the name of a scenario's vehicle, or poses and body, not both")
        return self


class Box(Config):
    """An upright box."""

    min: Xyz
    max: Xyz

    @model_validator(mode="after")
    def _ordered(self) -> Box:
        if any(low >= high for low, high in zip(self.min, self.max, strict=True)):
            raise ValueError(f"min must be below max in each coordinate, got {list(self.min)} and {list(self.max)}")
        return self


class Priority(Box):
    """A part of the region whose cells count more, or less."""

    weight: Share


class CoverageEntry(Config):
    """Share of a region that the chosen sensors see."""

    weight: Weight = 1.0
    """Against the other scores."""
    kind: Literal["surface", "volume"] = "surface"
    """Cells of surfaces, which rays end on; or of space, which rays pass."""
    region: Box
    frame: Literal["world", "vehicle"] = "world"
    """Whether the region stands in the world, where points of all poses add up, or goes with the vehicle."""
    cell_m: Cell = 0.5
    at_least: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Points, or pixels of a camera, that a cell needs to be seen."""
    labels: dict[str, Share] | None = None
    """Weights of surfaces by label; other labels do not count. All count alike where not given."""
    priority: list[Priority] = Field(default_factory=list)
    """Factors on the weights of cells whose middles lie in a box; in the region's frame."""

    @model_validator(mode="after")
    def _labels_of_surfaces(self) -> CoverageEntry:
        if self.labels is not None and self.kind != "surface":
            raise ValueError("labels: are those of surfaces; give kind: surface")
        if self.labels is not None and not any(self.labels.values()):
            raise ValueError("labels: one of the weights must be above 0")
        return self


class BlindEntry(Config):
    """Ground around the vehicle that lies in no chosen sensor's field of view, or behind something."""

    weight: Weight = 1.0
    radius_m: Annotated[float, Field(gt=0, le=1000)] = 10.0
    cell_m: Cell = 0.25
    above_m: Annotated[float, Field(gt=0, le=100)] = 2.5
    """Ground is looked for from this height over the vehicle's origin down."""
    tolerance_m: Annotated[float, Field(gt=0, le=10)] = 0.3
    """What is met at most this far from the plane that the vehicle stands on is ground."""


class LocalisationEntry(Config):
    """Error of positions by ranges to the chosen anchors: dilution of precision times the ranges' scatter."""

    weight: Weight = 1.0
    region: Box
    """Places of a tag, at the middles of cells; cells are level, one layer for each height."""
    cell_m: Cell = 0.5
    heights_m: Annotated[tuple[Annotated[float, Field(ge=0, le=1000)], ...], Field(min_length=1)] = (1.0,)
    """Heights of the tag over the region's lower face."""
    dimensions: Literal[2, 3] = 2
    """2 where the tag's height is known."""
    model: str = "qorvo/dw1000"
    """Ranging radio: its data sheet has the scatter of one range, and the longest one."""
    sigma_m: Positive | None = None
    """Standard deviation of a range, where it is known better."""
    range_m: Positive | None = None
    """Longest range, where it is known better."""
    limit_m: Positive = 1.0
    """A larger error, or no position at all, counts as this one."""
    over_floor: bool = True
    """Whether only places count where nothing lies between the region's upper face and a floor at its lower one: not
    those in racks, or under them."""


class Scores(Config):
    """What makes a set good; each is a share of 1, and their mean by weight is the score."""

    coverage: CoverageEntry | None = None
    blind: BlindEntry | None = None
    localisation: LocalisationEntry | None = None

    @model_validator(mode="after")
    def _any(self) -> Scores:
        if self.coverage is None and self.blind is None and self.localisation is None:
            raise ValueError("give one of coverage, blind, localisation at least")
        return self


class SearchEntry(Config):
    """How the best set is looked for."""

    method: Literal["auto", "greedy", "exact"] = "auto"
    """auto: exact where there are few combinations."""
    exact_limit: Annotated[int, Field(ge=1, le=100_000_000)] = EXACT_LIMIT
    """Combinations up to which the search is exact."""


class PlacementFile(Config):
    """A whole question of placement."""

    name: str = ""
    seed: Seed = 0
    """Chooses the points by which surfaces are divided into cells."""
    world: WorldEntry | str | None = None
    """A world by name or file."""
    scenario: str | None = None
    """Or the world of a scenario file, with its people, machines and traffic."""
    time_s: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """When the world is looked at."""
    vehicle: VehicleEntry | None = None
    choose: Annotated[int, Field(ge=1, le=100)]
    """How many of the candidates are taken."""
    candidates: list[Site]
    score: Scores
    search: SearchEntry = SearchEntry()

    @field_validator("world", mode="before")
    @classmethod
    def _name_or_fields(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, (str, dict, WorldEntry)):
            raise ValueError("give a world's name or file, or its name with seed and params")
        return value

    @field_validator("candidates")
    @classmethod
    def _some(cls, value: list[Site]) -> list[Site]:
        if not value:
            raise ValueError("there is no candidate; give one at least")
        return value

    @model_validator(mode="after")
    def _fits(self) -> PlacementFile:
        if (self.world is None) == (self.scenario is None):
            raise ValueError("give either world or scenario")
        if self.vehicle is not None and self.vehicle.name is not None and self.scenario is None:
            raise ValueError("vehicle: name is that of a scenario's vehicle; give scenario")
        anchors = [isinstance(site, AnchorSite) for site in self.candidates]
        if any(anchors) and not all(anchors):
            raise ValueError("candidates: give anchors, or lidars and cameras, not both")
        about_sensors = self.score.coverage is not None or self.score.blind is not None
        if any(anchors) and about_sensors:
            raise ValueError("score: coverage and blind are for lidars and cameras; anchors have localisation")
        if not any(anchors) and self.score.localisation is not None:
            raise ValueError("score: localisation is for candidates of type anchor")
        if any(anchors) and self.vehicle is not None:
            raise ValueError("vehicle: anchors stand in the world, and no vehicle carries them")
        goes_along = self.score.coverage is not None and self.score.coverage.frame == "vehicle"
        if self.vehicle is None and (goes_along or self.score.blind is not None):
            raise ValueError("vehicle: is needed for blind ground, and for a region that goes with it")
        return self


def json_schema() -> dict[str, Any]:
    """The schema of placement files for editors."""
    schema = {**PlacementFile.model_json_schema(), "title": "Parhelion placement"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
