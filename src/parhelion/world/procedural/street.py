"""What things of streets and lots may say of themselves: buildings, vehicles, street furniture, people, trees."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.core.config import Config
from parhelion.world.procedural.draws import ThingSeed
from parhelion.world.procedural.fields import Metres, NearPlan, Params, Plan, Seed

Line = tuple[Plan, Plan]
MOST_CORNERS = 2000
"""Of a building's outline, and of its holes together."""
Paint = Literal[
    "car-paint-white",
    "car-paint-black",
    "car-paint-red",
    "car-paint-blue",
    "car-paint-silver",
    "car-paint-grey",
    "car-paint-green",
    "car-paint-yellow",
]


class StreetsParams(Params):
    """A square grid of streets with kerbed blocks between them, and a belt of hills around; `size` is all of it."""

    blocks: Annotated[int, Field(ge=2, le=8, multiple_of=2)] = 4
    """Blocks along each side."""
    lawns: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Numbers of the blocks that are grass inside, the others are gravel; the nearest to the crossing is 0."""
    seed: Seed = 0
    """Draws the hills and the manholes."""

    @model_validator(mode="after")
    def _known_blocks(self) -> StreetsParams:
        if any(number >= self.blocks**2 for number in self.lawns):
            raise ValueError(f"lawns must be numbers from 0 to {self.blocks**2 - 1} for {self.blocks} blocks a side")
        return self


class StoreysParams(Config):
    """Storeys of a building whose windows are alike."""

    bottom_m: Annotated[float, Field(ge=0.0, le=500.0)] = 0.0
    storeys: Annotated[int, Field(ge=1, le=100)] = 1
    storey_height_m: Metres = 3.1
    pitch_m: Metres = 3.3
    """Distance between windows, wanted."""
    window_width_m: Metres = 1.3
    sill_m: Annotated[float, Field(ge=0.0, le=10.0)] = 0.85
    """Height of a window's lower edge above the floor."""
    window_height_m: Metres = 1.6
    recess_m: Annotated[float, Field(ge=0.01, le=1.0)] = 0.16

    @model_validator(mode="after")
    def _fits(self) -> StoreysParams:
        if self.sill_m + self.window_height_m >= self.storey_height_m:
            raise ValueError("sill_m and window_height_m together must be less than storey_height_m")
        return self


class BuildingParams(Params):
    """A building with windows, its door at -y; `size` is that of its walls, without the roof."""

    bands: tuple[StoreysParams, ...] = ()
    """Storeys from below; by default as many of 3.1 m or so as the height has room for."""
    wall: str = "brick"
    roof: Literal["flat", "hip", "gable"] = "flat"
    balconies: bool = False
    blind_sides: tuple[Annotated[int, Field(ge=0, le=3)], ...] = ()
    """Sides with few windows: 0 front, 1 right, 2 back, 3 left."""
    gates: bool = False
    """Whether the front has two gates for lorries."""
    seed: ThingSeed = 0
    """Draws curtains and what stands on a flat roof."""

    @model_validator(mode="after")
    def _stacked(self) -> BuildingParams:
        top = 0.0
        for row, band in enumerate(self.bands):
            if abs(band.bottom_m - top) > 1e-6:
                raise ValueError(f"bands[{row}].bottom_m must be {top:g}, the top of what is below it")
            top = band.bottom_m + band.storeys * band.storey_height_m
        return self


class FenceParams(Params):
    """A fence of steel bars along x, or along lines in the plan."""

    lines: tuple[Line, ...] = ()
    """Starts and ends in the fence's own frame; by default one of the length of `size`."""
    base_m: Annotated[float, Field(ge=-100.0, le=1000.0)] = 0.0
    """Height of the foot over the pose."""


class BenchParams(Params):
    """A park bench, its back at -x."""


class LampParams(Params):
    """A street lamp, its arm along +x; drawn for a height and an arm, then stretched to `size`."""

    height_m: Metres = 7.0
    arm_m: Metres = 1.6


class SignParams(Params):
    """A traffic sign on a post, facing -x."""

    plate: Literal["round", "triangle", "square", "stop"] = "round"


class LightParams(Params):
    """A traffic light that faces -x."""

    arm_m: Annotated[float, Field(ge=0.0, le=20.0)] = 0.0
    """Length of an arm along +y with a second head; 0 for none."""


class BinParams(Params):
    """A litter bin."""


class HydrantParams(Params):
    """A pillar hydrant."""


class BicycleParams(Params):
    """A bicycle upright on its wheels."""


class ShelterParams(Params):
    """A glazed bus shelter, open along +x."""


class CarParams(Params):
    """A car that heads along +x."""

    shape: Literal["saloon", "hatchback", "estate", "suv", "van"] = "saloon"
    paint: Paint = "car-paint-silver"


class LorryParams(Params):
    """A box lorry that heads along +x."""

    paint: Paint = "car-paint-white"


class PersonParams(Params):
    """Somebody who walks along +x."""

    height_m: Annotated[float, Field(ge=0.5, le=2.5)] = 1.75
    stride_m: Annotated[float, Field(ge=0.0, le=0.6)] = 0.3
    """Half the length of a step."""


class PlantedTreeParams(Params):
    """A broad-leaved tree with a crown of many leaves, as streets have them; `size` is crown and whole height."""

    trunk_radius_m: Metres = 0.25
    """What it takes up on the ground."""
    clear_trunk_m: Metres = 2.5
    """Height below the crown."""
    leaves: Annotated[int, Field(ge=20, le=1_000_000)] = 1600
    leaf_m: Metres = 0.24
    """Mean length of a leaf triangle."""
    seed: ThingSeed = 0


class TreePitsParams(Params):
    """Squares of soil around street trees."""

    points: Annotated[tuple[Plan, ...], Field(min_length=1)]
    width_m: Metres = 1.2


class FootprintParams(Params):
    """A building as an outline with a flat roof, such as maps hold; `size` is the box around it and its height."""

    outline: Annotated[tuple[NearPlan, ...], Field(min_length=3, max_length=MOST_CORNERS)]
    """Corners in the building's own frame, either way round; the last is joined to the first."""
    holes: tuple[Annotated[tuple[NearPlan, ...], Field(min_length=3)], ...] = ()
    """Courtyards."""
    wall: str = "plaster"
    roof: str = "roofing-felt"

    @model_validator(mode="after")
    def _inside(self) -> FootprintParams:
        corners = sum(map(len, self.holes))
        if corners > MOST_CORNERS:
            raise ValueError(f"holes must have {MOST_CORNERS} corners at most, got {corners}")
        for axis in (0, 1):
            low, high = (pick(point[axis] for point in self.outline) for pick in (min, max))
            for row, hole in enumerate(self.holes):
                if not all(low <= point[axis] <= high for point in hole):
                    raise ValueError(f"holes[{row}] must lie inside of the outline")
        return self
