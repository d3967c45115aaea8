"""Schema of placement files (YAML). Units are in the names; lengths without a unit in their name are metres."""

from __future__ import annotations

from itertools import product
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, field_validator, model_validator

from parhelion.core.config import Config
from parhelion.core.explain import got
from parhelion.core.pose import Pose
from parhelion.scenario.motions import Name, Positive, Seed
from parhelion.scenario.schema import BodyShape, WorldEntry
from parhelion.world.schema import Angles, Coordinate, PoseEntry, Xyz

MOST_CANDIDATES = 2000
EXACT_LIMIT = 200_000
"""Default number of combinations up to which a search is exact."""

Weight = Annotated[float, Field(gt=0, le=1e6)]
Share = Annotated[float, Field(ge=0, le=1e6)]
Cell = Annotated[float, Field(ge=0.01, le=1000)]


class Span(Config):
    """Evenly spaced values, including both ends."""

    start: Coordinate
    stop: Coordinate
    count: Annotated[int, Field(ge=1, le=1000)]


Values = Annotated[list[Coordinate], Field(min_length=1)] | Span


class Grid(Config):
    """All combinations of coordinates and orientations."""

    x: Values
    y: Values
    z: Values
    rpy_deg: Annotated[tuple[Angles, ...], Field(min_length=1)] = ((0.0, 0.0, 0.0),)

    def poses(self) -> list[Pose]:
        """All poses of the grid; orientation varies fastest, then z."""
        axes = [
            np.linspace(one.start, one.stop, one.count).tolist() if isinstance(one, Span) else one
            for one in (self.x, self.y, self.z)
        ]
        return [Pose(xyz, rpy_deg=turn) for xyz in product(*axes) for turn in self.rpy_deg]


class SensorSite(Config):
    """Mounts of one sensor: on the vehicle, or in the world without a vehicle."""

    type: Literal["lidar", "camera"]
    name: Name | None = None
    """Name of the candidate, or prefix of the names of a grid."""
    model: str
    """Preset name, or YAML file relative to the folder of this file."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further options, for example the columns of a lidar."""
    mount: PoseEntry | None = None
    grid: Grid | None = None
    reflectance: Annotated[float, Field(gt=0, le=1)] = 0.1
    """Reflectance of the surface whose detection range in clear air limits a lidar."""
    range_m: Positive | None = None
    """Range of the sensor, if known [m]."""

    @model_validator(mode="after")
    def _one_place(self) -> SensorSite:
        if (self.mount is None) == (self.grid is None):
            raise ValueError("give either mount or grid")
        return self


class AnchorSite(Config):
    """Positions of ranging radio anchors in the world."""

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
    """Vehicle that carries the sensors."""

    name: Name | None = None
    """Vehicle of the scenario: its body is at its pose at time_s, and mounts are relative to it."""
    poses: Annotated[list[PoseEntry], Field(min_length=1, max_length=1000)] | None = None
    """Poses at which the vehicle is evaluated; by default the origin."""
    body: list[BodyShape] = Field(default_factory=list)
    """Body of the vehicle, which occludes the sensors."""

    @model_validator(mode="after")
    def _one_source(self) -> VehicleEntry:
        if self.name is not None and (self.poses is not None or self.body):
            raise ValueError("give either the name of a scenario's vehicle, or poses and body")
        return self


class Box(Config):
    """Axis-aligned box."""

    min: Xyz
    max: Xyz

    @model_validator(mode="after")
    def _ordered(self) -> Box:
        if any(low >= high for low, high in zip(self.min, self.max, strict=True)):
            raise ValueError(f"min must be below max in each coordinate, got {list(self.min)} and {list(self.max)}")
        return self


class Priority(Box):
    """Part of the region whose cells have a different weight."""

    weight: Share


class CoverageEntry(Config):
    """Share of a region that the chosen sensors cover."""

    weight: Weight = 1.0
    """Weight relative to the other scores."""
    kind: Literal["surface", "volume"] = "surface"
    """Cells of surfaces, on which rays end, or of space, which rays pass through."""
    region: Box
    frame: Literal["world", "vehicle"] = "world"
    """Frame of the region: the world, where points of all poses add up, or the vehicle."""
    cell_m: Cell = 0.5
    at_least: Annotated[int, Field(ge=1, le=1_000_000)] = 1
    """Points, or camera pixels, that a cell needs to be covered."""
    labels: dict[str, Share] | None = None
    """Weights of surfaces by label; other labels do not count. By default all count equally."""
    priority: list[Priority] = Field(default_factory=list)
    """Factors on the weights of cells whose centres lie in a box, in the frame of the region."""

    @model_validator(mode="after")
    def _labels_of_surfaces(self) -> CoverageEntry:
        if self.labels is not None and self.kind != "surface":
            raise ValueError("labels: apply to surfaces; set kind: surface")
        if self.labels is not None and not any(self.labels.values()):
            raise ValueError("labels: at least one weight must be above 0")
        return self


class BlindEntry(Config):
    """Ground around the vehicle that is outside every chosen field of view, or occluded."""

    weight: Weight = 1.0
    radius_m: Annotated[float, Field(gt=0, le=1000)] = 10.0
    cell_m: Cell = 0.25
    above_m: Annotated[float, Field(gt=0, le=100)] = 2.5
    """Height above the vehicle's origin from which ground is searched downwards."""
    tolerance_m: Annotated[float, Field(gt=0, le=10)] = 0.3
    """Largest distance of ground from the plane on which the vehicle stands."""


class LocalisationEntry(Config):
    """Position error by ranges to the chosen anchors: dilution of precision times the standard deviation of ranges."""

    weight: Weight = 1.0
    region: Box
    """Region of the tag, whose places are the centres of horizontal cells, with one layer per height."""
    cell_m: Cell = 0.5
    heights_m: Annotated[tuple[Annotated[float, Field(ge=0, le=1000)], ...], Field(min_length=1)] = (1.0,)
    """Heights of the tag above the lower face of the region."""
    dimensions: Literal[2, 3] = 2
    """Dimensions of the position; 2 if the height of the tag is known."""
    model: str = "qorvo/dw1000"
    """Ranging radio: its data sheet gives the standard deviation and the limit of a range."""
    sigma_m: Positive | None = None
    """Standard deviation of a range, if known [m]."""
    range_m: Positive | None = None
    """Longest range, if known [m]."""
    limit_m: Positive = 1.0
    """Error that counts for larger errors and for missing positions."""
    over_floor: bool = True
    """Count only places with nothing between the upper face of the region and a floor at its lower face. This excludes
    places in racks or under them."""


class Scores(Config):
    """Scores of a set; each is a share of 1, and the total is their weighted mean."""

    coverage: CoverageEntry | None = None
    blind: BlindEntry | None = None
    localisation: LocalisationEntry | None = None

    @model_validator(mode="after")
    def _any(self) -> Scores:
        if self.coverage is None and self.blind is None and self.localisation is None:
            raise ValueError("give at least one of coverage, blind, localisation")
        return self


class SearchEntry(Config):
    """Search for the best set."""

    method: Literal["auto", "greedy", "exact"] = "auto"
    """auto: exact if there are few combinations."""
    exact_limit: Annotated[int, Field(ge=1, le=100_000_000)] = EXACT_LIMIT
    """Largest number of combinations for an exact search."""


class PlacementFile(Config):
    """Contents of a placement file."""

    name: str = ""
    seed: Seed = 0
    """Seed of the points that divide surfaces into cells."""
    world: WorldEntry | str | None = None
    """World by name or file."""
    scenario: str | None = None
    """Scenario file whose world is used, with its people, machines and traffic."""
    time_s: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """Time at which the world is evaluated."""
    vehicle: VehicleEntry | None = None
    choose: Annotated[int, Field(ge=1, le=100)]
    """Number of candidates to choose."""
    candidates: list[Site]
    score: Scores
    search: SearchEntry = SearchEntry()

    @field_validator("world", mode="before")
    @classmethod
    def _name_or_fields(cls, value: Any) -> Any:
        if value is not None and not isinstance(value, (str, dict, WorldEntry)):
            raise ValueError(
                f"expected the name or file of a world, or {{name: ..., seed: ..., params: ...}}, {got(value)}"
            )
        return value

    @field_validator("candidates")
    @classmethod
    def _some(cls, value: list[Site]) -> list[Site]:
        if not value:
            raise ValueError("give at least one")
        return value

    @model_validator(mode="after")
    def _fits(self) -> PlacementFile:
        if (self.world is None) == (self.scenario is None):
            raise ValueError("give either world or scenario")
        if self.vehicle is not None and self.vehicle.name is not None and self.scenario is None:
            raise ValueError("vehicle: name refers to a vehicle of a scenario; set scenario")
        anchors = [isinstance(site, AnchorSite) for site in self.candidates]
        if any(anchors) and not all(anchors):
            raise ValueError("candidates: give anchors, or lidars and cameras, not both")
        about_sensors = self.score.coverage is not None or self.score.blind is not None
        if any(anchors) and about_sensors:
            raise ValueError("score: coverage and blind apply to lidars and cameras; use localisation for anchors")
        if not any(anchors) and self.score.localisation is not None:
            raise ValueError("score: localisation applies to candidates of type anchor")
        if any(anchors) and self.vehicle is not None:
            raise ValueError("vehicle: anchors are fixed in the world and cannot be on a vehicle")
        goes_along = self.score.coverage is not None and self.score.coverage.frame == "vehicle"
        if self.vehicle is None and (goes_along or self.score.blind is not None):
            raise ValueError("vehicle: is required for blind ground, and for a region in the vehicle frame")
        return self


def json_schema() -> dict[str, Any]:
    """JSON schema of placement files for editors."""
    schema = {**PlacementFile.model_json_schema(), "title": "Parhelion placement"}
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", **schema}
