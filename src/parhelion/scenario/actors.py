"""What a scenario file says of everything that lives: people, traffic, machines and small things that lie about."""

from __future__ import annotations

from typing import Annotated, Literal, get_args

from pydantic import Field, model_validator

from parhelion.core.config import Config
from parhelion.scenario.motions import (
    ArmAngles,
    DoorAngles,
    ForkHeights,
    MotionEntry,
    Name,
    Positive,
    Seed,
    SplineEntry,
)
from parhelion.world.schema import Coordinate, ObjectEntry, PoseEntry, Thing, Xyz

Mobility = Literal["static", "movable", "dynamic"]


# ---- things of the user's own ----------------------------------------------------------------------------------------


class StaticObject(ObjectEntry):
    """A further thing that stands, as in a world file."""

    mobility: Mobility = "static"
    """Whether it is built in, could be carried away, or moves by itself; for boxes."""


class MovingObject(Thing):
    """A further thing that moves, as in a world file, but along any motion."""

    trajectory: MotionEntry
    mobility: Mobility = "dynamic"


# ---- people and traffic ----------------------------------------------------------------------------------------------


class PersonEntry(Config):
    """Somebody who walks, or stands."""

    name: Name = "person"
    spline: SplineEntry | None = None
    """Where they go; by default at the pace of walking."""
    motion: MotionEntry | None = None
    """Any other motion; `fixed` for somebody who stands."""
    height_m: Annotated[float, Field(ge=0.8, le=2.3)] = 1.75
    clothes: str = "cotton"
    """Material of the upper body."""
    trousers: str = "fabric-blue"

    @model_validator(mode="after")
    def _one_motion(self) -> PersonEntry:
        if (self.spline is None) == (self.motion is None):
            raise ValueError("give either spline or motion")
        return self


class CrowdEntry(Config):
    """Cars or people on closed routes, who keep their gaps."""

    routes: Annotated[list[Annotated[list[Xyz], Field(min_length=3)]], Field(min_length=1)]
    """Points of each route, which goes on from the last to the first."""
    count: Annotated[int, Field(ge=1, le=1000)]
    speed_m_s: Positive
    seed: Seed | None = None
    """Decides places, looks and wishes; else the scenario's seed does."""


CarModel = Literal["sedan", "saloon", "hatchback", "estate", "suv", "van", "lorry"]


class TrafficEntry(CrowdEntry):
    """Cars on roads."""

    models: Annotated[list[CarModel], Field(min_length=1)] | None = None
    """Car models to choose from; all but lorries where not given."""
    wheels: bool = False
    """Whether wheels are bodies of their own that roll."""


class PedestriansEntry(CrowdEntry):
    """People on sidewalks, half of them the other way round."""

    side_m: Annotated[float, Field(ge=0.3, le=5)] = 0.4
    """How far to the right of the line they keep."""


# ---- machines --------------------------------------------------------------------------------------------------------

Layers = Annotated[int, Field(ge=0, le=8)]


class LoadEntry(Config):
    """A loaded Euro pallet."""

    layers: Layers = 3
    """Layers of cartons."""
    seed: Seed | None = None


class ForkliftEntry(Config):
    """A counterbalance forklift, forks ahead."""

    kind: Literal["forklift"]
    name: Name = "forklift"
    motion: MotionEntry
    """Of its frame: on the ground under its middle, x forward."""
    fork_height_m: ForkHeights = ForkHeights(pairs=[(0.0, 0.1)])
    paint: str = "car-paint-yellow"
    load: LoadEntry | None = None
    """A pallet on its forks."""


class CarEntry(Config):
    """A car that drives, or is parked where its motion is `fixed`."""

    kind: Literal["car"]
    name: Name = "car"
    motion: MotionEntry
    model: CarModel = "sedan"
    paint: str = "car-paint-silver"
    wheels: bool = False
    """Whether wheels are bodies of their own that roll."""


class DoorEntry(Config):
    """A door on a hinge: closed it reaches along +x of its pose, and it opens towards +y."""

    kind: Literal["door"]
    name: Name = "door"
    pose: PoseEntry
    """Of the hinge, on the floor."""
    width_m: Annotated[float, Field(gt=0, le=20)] = 0.9
    height_m: Annotated[float, Field(gt=0, le=20)] = 2.0
    opening_deg: DoorAngles = DoorAngles(pairs=[(0.0, 0.0)])
    material: str = "wood"
    frame: bool = True
    """Whether posts and a lintel stand around it."""


class ConveyorEntry(Config):
    """A belt with boxes that travel along +x of its pose, and come again."""

    kind: Literal["conveyor"]
    name: Name = "conveyor"
    pose: PoseEntry
    """Of its middle, on the floor."""
    length_m: Annotated[float, Field(gt=0, le=1000)]
    """Of the open belt; a hood of 0.6 m stands at each end."""
    boxes: Annotated[int, Field(ge=0, le=1000)] = 4
    speed_m_s: Annotated[float, Field(ge=0, le=5)] = 0.5
    width_m: Annotated[float, Field(ge=0.3, le=3)] = 0.6
    height_m: Annotated[float, Field(ge=0.45, le=3)] = 0.75
    seed: Seed | None = None
    """Decides the boxes' sizes."""


class ArmEntry(Config):
    """A six-axis robot arm of a UR5e's measures."""

    kind: Literal["robot-arm"]
    name: Name = "robot-arm"
    pose: PoseEntry
    """Of its base; z is the first axis."""
    joint_angles_deg: ArmAngles = ArmAngles(pairs=[(0.0, (0.0, -90.0, 0.0, -90.0, 0.0, 0.0))])
    material: str = "aluminium"


class PalletEntry(Config):
    """A loaded Euro pallet that stands, or is moved as told."""

    kind: Literal["pallet"]
    name: Name = "pallet"
    pose: PoseEntry | None = None
    motion: MotionEntry | None = None
    layers: Layers = 3
    seed: Seed | None = None
    """Decides heights of cartons, and what is missing on top."""

    @model_validator(mode="after")
    def _one_place(self) -> PalletEntry:
        if (self.pose is None) == (self.motion is None):
            raise ValueError("give either pose or motion")
        return self


MachineEntry = Annotated[
    ForkliftEntry | CarEntry | DoorEntry | ConveyorEntry | ArmEntry | PalletEntry, Field(discriminator="kind")
]


SmallThing = Literal["cup", "cone", "broom", "box"]


class ScatterEntry(Config):
    """Small things at random places of an area, none touching another."""

    area_m: tuple[Coordinate, Coordinate, Coordinate, Coordinate]
    """x_min, y_min, x_max, y_max."""
    kinds: Annotated[list[SmallThing], Field(min_length=1)] = Field(default_factory=lambda: list(get_args(SmallThing)))
    count: Annotated[int, Field(ge=0, le=10_000)] = 10
    ground_m: Coordinate = 0.0
    """Height that they stand on."""
    seed: Seed | None = None

    @model_validator(mode="after")
    def _has_room(self) -> ScatterEntry:
        x_min, y_min, x_max, y_max = self.area_m
        if not (x_min < x_max and y_min < y_max):
            raise ValueError("area_m must be x_min, y_min, x_max, y_max with x_min < x_max and y_min < y_max")
        return self
