"""The kinds of things that a layout may hold: what each may say of itself, and what it is taken for.

Lengths are metres. `size` of an object is its outer length, width and height (x, y, z of its own frame); its pose is
the middle of its foot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Any, Literal

import numpy as np
from pydantic import Field, model_validator

from parhelion.core.config import Config
from parhelion.core.random import Stream

# ---- fields ---------------------------------------------------------------------------------------------------------
# What fields of a layout are made of: numbers with their ranges, and the base of what kinds say of themselves.


Share = Annotated[float, Field(ge=0.0, le=1.0)]
Metres = Annotated[float, Field(gt=0.0, le=1000.0)]
Coordinate = Annotated[float, Field(ge=-1e6, le=1e6)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Plan = tuple[Coordinate, Coordinate]
"""A point of the plan [m]."""
Near = Annotated[float, Field(ge=-1000.0, le=1000.0)]
NearPlan = tuple[Near, Near]
"""A point [m] in the frame of a thing, which is never larger than the plan."""
Place = tuple[Coordinate, Coordinate, Coordinate]
"""A point in space [m]."""
Mobility = Literal["static", "movable", "dynamic"]


class Params(Config):
    """Base of what one kind says beyond pose and size; as it is, for kinds that say nothing more."""


# ---- draws ----------------------------------------------------------------------------------------------------------
# Where a thing's own random numbers come from: a seed of its own, or a place in a stream that others draw from, too.
# A rule that draws many things from one stream notes for each thing where the stream stood. From that note the thing
# is made again alone, the same to the bit, without the things before it.


ThingSeed = (
    Annotated[int, Field(ge=0, lt=2**63)] | Annotated[str, Field(pattern=r"^[0-9a-f]{16}:[0-9]{1,15}(:[0-9a-f]{8})?$")]
)
"""A whole number, or a place in a stream: its key, how many numbers of 64 bits were drawn, and half of one kept."""


def place_of(rng: np.random.Generator) -> str:
    """Where a generator of `Stream` stands, as text; `generator_at` goes on from there."""
    state: dict[str, Any] = dict(rng.bit_generator.state)
    key, counter = state["state"]["key"], state["state"]["counter"]
    # The counter runs ahead of what was drawn: it numbers the block of four whose first numbers are used up.
    drawn = 4 * int(counter[0]) - 4 + int(state["buffer_pos"])
    half = f":{int(state['uinteger']):08x}" if state["has_uint32"] else ""
    return f"{int(key[0]):016x}:{drawn}{half}"


def generator_at(seed: int | str, stream: str) -> np.random.Generator:
    """The generator of a thing's seed: that of `stream` for a whole number, or one that stands at a noted place."""
    if isinstance(seed, int):
        return Stream(seed, stream).generator()
    key, drawn, *half = seed.split(":")
    numbers = np.random.Philox(key=int(key, 16), counter=int(drawn) // 4)
    numbers.random_raw(int(drawn) % 4)
    if half:
        state: dict[str, Any] = dict(numbers.state)
        state["has_uint32"], state["uinteger"] = 1, int(half[0], 16)
        numbers.state = state  # type: ignore[assignment]
    return np.random.Generator(numbers)


# ---- street ---------------------------------------------------------------------------------------------------------
# What things of streets and lots may say of themselves: buildings, vehicles, street furniture, people, trees.


Line = tuple[Plan, Plan]
MOST_CORNERS = 2000
"""Of a building's outline, and of its holes together."""
VehiclePaint = Literal[
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


class CarParams(Params):
    """A car that heads along +x."""

    shape: Literal["saloon", "hatchback", "estate", "suv", "van"] = "saloon"
    paint: VehiclePaint = "car-paint-silver"


class LorryParams(Params):
    """A box lorry that heads along +x."""

    paint: VehiclePaint = "car-paint-white"


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


# ---- water ----------------------------------------------------------------------------------------------------------
# What things of harbours and canals may say of themselves: the basin, its gear, bridges, vessels, cranes.


HullPaint = Literal["car-paint-red", "car-paint-blue", "car-paint-silver", "galvanised-steel"]


class BasinParams(Params):
    """A basin between quay walls, and the land around; `size` is that of the water, and the quays' height over it."""

    land_m: Metres = 70.0
    """Depth of the land beyond the long quays."""
    ends_m: Metres = 40.0
    """Depth of the land beyond the short quays."""
    paved_m: Metres = 18.0
    """Width of the paved strip along the long quays."""
    wall_m: Metres = 0.9
    """Thickness of the quay walls."""
    depth_m: Metres = 3.0
    """Depth of the water."""
    ripple_m: Annotated[float, Field(ge=0.0, le=0.2)] = 0.012
    """Standard deviation of the water's height, 0 for a mirror."""
    seed: Seed = 0
    """Draws the ripples."""


class BollardsParams(Params):
    """Mooring bollards, each at a point of the plan."""

    points: Annotated[tuple[Plan, ...], Field(min_length=1)]


class FendersParams(Params):
    """Rubber strips on a quay wall, each with its middle at a point."""

    points: Annotated[tuple[Place, ...], Field(min_length=1)]


class LaddersParams(Params):
    """Ladders on a quay wall, each at a point of the plan, from the water to 0.3 m over the quay."""

    points: Annotated[tuple[Plan, ...], Field(min_length=1)]
    quay_m: Metres = 1.6


class RailsParams(Params):
    """Crane rails along x, each with its middle at a point."""

    points: Annotated[tuple[Place, ...], Field(min_length=1)]
    length_m: Metres = 100.0


class PilesParams(Params):
    """Piles in the water, each with its foot at a point."""

    points: Annotated[tuple[Place, ...], Field(min_length=1)]
    length_m: Metres = 5.2
    radius_m: Metres = 0.22


class BridgeParams(Params):
    """A masonry arch along y over a canal, with ramps; `size` is its width, its length with ramps, and its road."""

    span_m: Annotated[float, Field(ge=10.0, le=500.0)] = 50.0
    """Width of the canal."""
    crown_m: Metres = 6.4
    """Free height over the water in the middle; the road is 1.1 m above it."""
    quay_m: Metres = 1.6
    """Height of the quays over the water, where the ramps end."""


class VesselParams(Params):
    """A vessel, its bow at +x, its pose on the water's level; drawn for its hull's length, then stretched to `size`."""

    type: Literal["barge", "tug", "yacht", "motor-boat"] = "motor-boat"
    hull_m: Metres | None = None
    """Length of the hull; by default 42 m, 18 m, 10 m and 8 m in the order of the types."""
    cargo: Literal["gravel", "containers"] = "gravel"
    """Of a barge."""
    seed: ThingSeed = 0
    """Draws a barge's cargo."""


class CraneParams(Params):
    """A portal crane, its jib along +x."""

    reach_m: Metres = 24.0
    """Length of the jib."""
    lift_deg: Annotated[float, Field(ge=0.0, le=85.0)] = 35.0


class ContainersParams(Params):
    """A stack of 20-foot containers along x."""

    paints: Annotated[tuple[HullPaint, ...], Field(min_length=1, max_length=9)] = ("car-paint-red",)
    """One a container, from below."""
    base_m: Annotated[float, Field(ge=-100.0, le=1000.0)] = 0.0
    """Height of the foot over the pose."""


# ---- kinds ----------------------------------------------------------------------------------------------------------


PALLET_HEIGHT_M = 0.144
"""Height of a flat pallet of 1200 x 800 mm (EN 13698-1)."""


class WallParams(Params):
    """A wall along x."""

    material: str = "plaster"


class RackParams(Params):
    """A rack along x, open to both sides; the lowest loads stand on the floor."""

    levels: Annotated[int, Field(ge=1, le=12)] = 4
    """Places above each other, the floor's among them."""
    fill: Share = 0.7
    """Chance that a place holds a load."""
    bay_m: Metres = 2.8
    """Length of a bay, wanted: the rack is cut into equal bays that come nearest."""
    seed: Seed = 0
    """Draws the contents."""


class PalletParams(Params):
    """A pallet: what stands on it fills `size` above the pallet itself."""

    goods: Literal["none", "cartons", "wrapped", "drums"] = "cartons"


class BoxParams(Params):
    """A plain box."""

    material: str = "cardboard"


class PillarParams(Params):
    """A pillar, square or round."""

    material: str = "concrete"
    round: bool = False


class DoorParams(Params):
    """A rolling door: its leaf goes up."""

    open: Share = 0.0
    """Share of the opening's height that is free, from below."""
    material: str = "galvanised-steel"

    def free_height(self, height_m: float) -> float:
        """How high the leaf's lower edge is [m]: the drum that it is wound on stays in the opening's head."""
        return min(self.open * height_m, height_m - self.drum_height(height_m))

    def drum_height(self, height_m: float) -> float:
        """Height of the drum [m]."""
        return min(0.3, height_m / 4)


class MarkerParams(Params):
    """A plate that faces +x of its own frame."""

    material: str = "retro-sheeting"


class TreeParams(Params):
    """A tree: `size` is that of the crown and the whole height."""

    species: Literal["broadleaf", "conifer"] = "broadleaf"
    trunk_radius_m: Metres = 0.15
    """At the foot; the trunk is what a robot runs into."""
    clear_trunk_share: Annotated[float, Field(ge=0.0, le=0.9)] = 0.3
    """Share of the height below the crown."""
    leaves: Annotated[int, Field(ge=20, le=20000)] = 700
    """Triangles of the crown."""
    seed: Seed = 0
    """Picks the tree's form and its turn."""


class RockParams(Params):
    """A boulder."""

    material: str = "granite"
    seed: Seed = 0


class BushParams(Params):
    """A bush: leaves down to the ground."""

    leaves: Annotated[int, Field(ge=20, le=20000)] = 150
    seed: Seed = 0


class GroundParams(Params):
    """A level rectangle of floor or ground."""

    material: str = "concrete"


class RoofParams(Params):
    """A level ceiling, its foot at the height that the pose says."""

    material: str = "galvanised-steel"


class TerrainParams(Params):
    """Rolling ground by rule, or by a grid of heights."""

    material: str = "grass"
    roughness_m: Annotated[float, Field(ge=0.0, le=100.0)] = 0.8
    """Standard deviation of the heights, before the track is cut into them."""
    hurst: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.8
    """Hurst exponent: near 1 gives smooth hills, near 0 jagged ground."""
    cell_m: Annotated[float, Field(ge=0.1, le=50.0)] = 1.0
    """Width of a grid cell, wanted."""
    seed: Seed = 0
    heights_m: tuple[tuple[Annotated[float, Field(ge=-1e4, le=1e4)], ...], ...] | None = None
    """Heights on a grid over `size`, rows along y from the least y on; takes the place of the rule."""
    track: tuple[Plan, ...] = ()
    """A track as a line over the terrain, or none."""
    track_width_m: Metres = 3.0
    track_material: str = "gravel"

    @model_validator(mode="after")
    def _grids(self) -> TerrainParams:
        rows = self.heights_m
        if rows is not None and (len(rows) < 2 or len(rows[0]) < 2 or any(len(row) != len(rows[0]) for row in rows)):
            raise ValueError("heights_m must be at least 2 rows of at least 2 heights, all rows of one length")
        if len(self.track) == 1:
            raise ValueError("track must have at least 2 points, or none")
        return self


@dataclass(frozen=True)
class Kind:
    """What is the same for all things of one kind."""

    params: type[Params]
    label: str
    mobility: Mobility
    code: int
    """Number in bitmaps; 0 is free floor."""
    solid: bool = True
    """Whether it takes up room: ground and roof do not."""
    hangs: bool = False
    """Whether it may be off the ground."""
    floats: bool = False
    """Whether it lies in the water, which is its ground."""
    foot_m: float | None = None
    """Radius of the pole that it stands on, where only that takes up room."""


KINDS: Mapping[str, Kind] = MappingProxyType(
    {
        "wall": Kind(WallParams, "wall", "static", 1, hangs=True),
        "rack": Kind(RackParams, "shelf", "static", 2),
        "pallet": Kind(PalletParams, "pallet", "movable", 3),
        "box": Kind(BoxParams, "other-object", "movable", 4, hangs=True),
        "pillar": Kind(PillarParams, "column", "static", 5),
        "door": Kind(DoorParams, "door", "movable", 6, hangs=True),
        "marker": Kind(MarkerParams, "target", "static", 7, hangs=True),
        "anchor": Kind(Params, "object", "static", 8, hangs=True),
        "charging-station": Kind(Params, "machine", "static", 9),
        "cone": Kind(Params, "cone", "movable", 10),
        "tree": Kind(TreeParams, "vegetation", "static", 11),
        "rock": Kind(RockParams, "rock", "static", 12),
        "bush": Kind(BushParams, "vegetation", "static", 13),
        "ground": Kind(GroundParams, "floor", "static", 14, solid=False),
        "terrain": Kind(TerrainParams, "terrain", "static", 15, solid=False),
        "roof": Kind(RoofParams, "ceiling", "static", 16, solid=False, hangs=True),
        "streets": Kind(StreetsParams, "road", "static", 17, solid=False),
        "building": Kind(BuildingParams, "building", "static", 18),
        "fence": Kind(FenceParams, "fence", "static", 19),
        "bench": Kind(Params, "other-object", "static", 20),
        "lamp": Kind(LampParams, "pole", "static", 21, foot_m=0.12),
        "traffic-sign": Kind(SignParams, "traffic-sign", "static", 22, foot_m=0.03),
        "traffic-light": Kind(LightParams, "traffic-light", "static", 23, foot_m=0.07),
        "litter-bin": Kind(Params, "other-object", "movable", 24),
        "hydrant": Kind(Params, "other-object", "static", 25),
        "bicycle": Kind(Params, "bicycle", "movable", 26),
        "shelter": Kind(Params, "other-object", "static", 27),
        "car": Kind(CarParams, "car", "movable", 28),
        "lorry": Kind(LorryParams, "truck", "movable", 29),
        "person": Kind(PersonParams, "person", "dynamic", 30),
        "planted-tree": Kind(PlantedTreeParams, "vegetation", "static", 31),
        "tree-pits": Kind(TreePitsParams, "terrain", "static", 32, solid=False),
        "footprint": Kind(FootprintParams, "building", "static", 33),
        "basin": Kind(BasinParams, "quay", "static", 34, hangs=True),
        "bollards": Kind(BollardsParams, "quay", "static", 35),
        "fenders": Kind(FendersParams, "quay", "static", 36, solid=False),
        "ladders": Kind(LaddersParams, "ladder", "static", 37, solid=False),
        "rails": Kind(RailsParams, "rail", "static", 38, solid=False),
        "piles": Kind(PilesParams, "other-structure", "static", 39, hangs=True),
        "bridge": Kind(BridgeParams, "bridge", "static", 40, hangs=True),
        "vessel": Kind(VesselParams, "vessel", "movable", 41, floats=True),
        "crane": Kind(CraneParams, "crane", "static", 42),
        "containers": Kind(ContainersParams, "container", "movable", 43),
    }
)
"""Every kind by name."""
