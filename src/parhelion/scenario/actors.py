"""Fields of a scenario file for objects, people, traffic, machines and scattered objects."""

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
from parhelion.scenario.raises import Raises
from parhelion.world.schema import Coordinate, ObjectEntry, ObjectFields, PoseEntry, Xyz

Mobility = Literal["static", "movable", "dynamic"]


# ---- the user's objects ----------------------------------------------------------------------------------------------


class StaticObject(ObjectEntry):
    """An additional static object, as in a world file."""

    mobility: Mobility = "static"
    """Class of the object in ground-truth boxes: built in, movable, or moving on its own."""


class MovingObject(ObjectFields):
    """An additional moving object, as in a world file, but along any motion."""

    trajectory: MotionEntry
    mobility: Mobility = "dynamic"


# ---- people and traffic ----------------------------------------------------------------------------------------------


class PersonEntry(Config):
    """A person who walks or stands."""

    name: Name = "person"
    spline: SplineEntry | None = None
    """Path; by default at walking speed."""
    motion: MotionEntry | None = None
    """Any other motion; `fixed` for a standing person."""
    height_m: Annotated[float, Field(ge=0.8, le=2.3)] = 1.75
    clothes: str = "cotton"
    """Material of the upper body."""
    trousers: str = "fabric-blue"
    react: bool = False
    """True to avoid others on the way, which changes the times along the path; False to keep to the rails."""

    @model_validator(mode="after")
    def _one_motion(self) -> PersonEntry:
        if (self.spline is None) == (self.motion is None):
            raise ValueError("give either spline or motion")
        return self


class CrowdEntry(Config):
    """Cars or people on closed routes that keep their gaps."""

    routes: Annotated[list[Annotated[list[Xyz], Field(min_length=3)]], Field(min_length=1)]
    """Points of each route, which closes from the last point to the first."""
    count: Annotated[int, Field(ge=1, le=1000)]
    speed_m_s: Positive
    seed: Seed | None = None
    """Selects positions, appearance and desired speeds; by default from the scenario's seed."""
    react: bool = True
    """True to avoid each other, the vehicles of the scenario and all that moves; False to keep to the rails."""


CarModel = Literal["sedan", "saloon", "hatchback", "estate", "suv", "van", "lorry"]
RoadUserModel = Literal["cyclist", "motorcycle", "bus", "tram", "truck-trailer", "agv"]
TrafficModel = CarModel | RoadUserModel | Literal["forklift"]


class TrafficEntry(CrowdEntry, Raises):
    """Vehicles on roads."""

    routes: (  # type: ignore[assignment]
        Literal["lanes"] | Annotated[list[Annotated[list[Xyz], Field(min_length=3)]], Field(min_length=1)]
    )
    """Points of each route, which closes from the last point to the first; `lanes` for closed routes on the lanes of a
    world from OpenDRIVE."""
    models: Annotated[list[TrafficModel], Field(min_length=1)] | None = None
    """Models to choose from; by default all cars except lorries."""
    wheels: bool = False
    """True for wheels as separate bodies that roll."""
    lanes: Annotated[int, Field(ge=1, le=4)] = 1
    """Lanes of each route: the route itself, and more to its left. Vehicles that react change lanes."""
    lane_width_m: Annotated[float, Field(ge=2.5, le=5)] = 3.25


class PedestriansEntry(CrowdEntry):
    """People on sidewalks, half of them in the opposite direction."""

    side_m: Annotated[float, Field(ge=0.3, le=5)] = 0.4
    """Distance that they keep to the right of the route."""


# ---- machines --------------------------------------------------------------------------------------------------------

Layers = Annotated[int, Field(ge=0, le=8)]


class LoadEntry(Config):
    """A loaded Euro pallet."""

    layers: Layers = 3
    """Layers of cartons."""
    seed: Seed | None = None


class ForkliftEntry(Config):
    """A counterbalance forklift with its forks forward."""

    kind: Literal["forklift"]
    name: Name = "forklift"
    motion: MotionEntry
    """Motion of its frame: on the ground under its middle, x forward."""
    fork_height_m: ForkHeights = ForkHeights(pairs=[(0.0, 0.1)])
    paint: str = "car-paint-yellow"
    load: LoadEntry | None = None
    """Pallet on the forks."""
    react: bool = False
    """True to brake for people and vehicles in the way, which changes the times along the path."""


class CarEntry(Raises):
    """A driving car, or a parked one if its motion is `fixed`."""

    kind: Literal["car"]
    name: Name = "car"
    motion: MotionEntry
    model: CarModel = "sedan"
    paint: str = "car-paint-silver"
    wheels: bool = False
    """True for wheels as separate bodies that roll."""
    react: bool = False
    """True to brake for people and vehicles in the way, which changes the times along the path."""


class RoadUserEntry(Config):
    """A cyclist, a motorcycle with its rider, a bus, a tram, a truck with a trailer or an automated guided vehicle."""

    kind: RoadUserModel
    name: Name | None = None
    """By default the kind."""
    motion: MotionEntry
    """Motion of its frame, on the ground under its middle; of a tram or a truck, under its first car or tractor."""
    paint: str | None = None
    react: bool = False
    """True to brake for people and vehicles in the way, which changes the times along the path."""


class DoorEntry(Config):
    """A hinged door: closed, it extends along +x of its pose; it opens towards +y."""

    kind: Literal["door"]
    name: Name = "door"
    pose: PoseEntry
    """Pose of the hinge, on the floor."""
    width_m: Annotated[float, Field(gt=0, le=20)] = 0.9
    height_m: Annotated[float, Field(gt=0, le=20)] = 2.0
    opening_deg: DoorAngles = DoorAngles(pairs=[(0.0, 0.0)])
    material: str = "wood"
    frame: bool = True
    """True for posts and a lintel around it."""


class ConveyorEntry(Config):
    """A belt with boxes that travel along +x of its pose and re-appear at its start."""

    kind: Literal["conveyor"]
    name: Name = "conveyor"
    pose: PoseEntry
    """Pose of its middle, on the floor."""
    length_m: Annotated[float, Field(gt=0, le=1000)]
    """Length of the open belt; a hood of 0.6 m is at each end."""
    boxes: Annotated[int, Field(ge=0, le=1000)] = 4
    speed_m_s: Annotated[float, Field(ge=0, le=5)] = 0.5
    width_m: Annotated[float, Field(ge=0.3, le=3)] = 0.6
    height_m: Annotated[float, Field(ge=0.45, le=3)] = 0.75
    seed: Seed | None = None
    """Selects the sizes of the boxes."""


class ArmEntry(Config):
    """A six-axis robot arm with the dimensions of a UR5e."""

    kind: Literal["robot-arm"]
    name: Name = "robot-arm"
    pose: PoseEntry
    """Pose of its base; z is the first axis."""
    joint_angles_deg: ArmAngles = ArmAngles(pairs=[(0.0, (0.0, -90.0, 0.0, -90.0, 0.0, 0.0))])
    material: str = "aluminium"


class PalletEntry(Config):
    """A loaded Euro pallet, static or along a motion."""

    kind: Literal["pallet"]
    name: Name = "pallet"
    pose: PoseEntry | None = None
    motion: MotionEntry | None = None
    layers: Layers = 3
    seed: Seed | None = None
    """Selects heights of cartons, and missing ones on top."""

    @model_validator(mode="after")
    def _one_place(self) -> PalletEntry:
        if (self.pose is None) == (self.motion is None):
            raise ValueError("give either pose or motion")
        return self


MachineEntry = Annotated[
    ForkliftEntry | CarEntry | RoadUserEntry | DoorEntry | ConveyorEntry | ArmEntry | PalletEntry,
    Field(discriminator="kind"),
]


SmallObject = Literal["cup", "cone", "broom", "box"]


class ScatterEntry(Config):
    """Small objects at random places in an area, without contact to each other."""

    area_m: tuple[Coordinate, Coordinate, Coordinate, Coordinate]
    """x_min, y_min, x_max, y_max."""
    kinds: Annotated[list[SmallObject], Field(min_length=1)] = Field(
        default_factory=lambda: list(get_args(SmallObject))
    )
    count: Annotated[int, Field(ge=0, le=10_000)] = 10
    ground_m: Coordinate = 0.0
    """Height of the ground."""
    seed: Seed | None = None

    @model_validator(mode="after")
    def _area_in_order(self) -> ScatterEntry:
        x_min, y_min, x_max, y_max = self.area_m
        if not (x_min < x_max and y_min < y_max):
            raise ValueError("area_m must be x_min, y_min, x_max, y_max with x_min < x_max and y_min < y_max")
        return self
