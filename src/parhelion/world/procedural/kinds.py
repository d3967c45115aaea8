"""Kinds of objects in a layout, with their parameters, label and mobility.

Lengths are in metres. The `size` of an object is its outer length, width and height (x, y, z of its frame); its pose is
the middle of its base.
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
# Numbers with their ranges, and the base class of parameters.


Share = Annotated[float, Field(ge=0.0, le=1.0)]
Metres = Annotated[float, Field(gt=0.0, le=1000.0)]
Coordinate = Annotated[float, Field(ge=-1e6, le=1e6)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
Plan = tuple[Coordinate, Coordinate]
"""A point of the plan [m]."""
Near = Annotated[float, Field(ge=-1000.0, le=1000.0)]
NearPlan = tuple[Near, Near]
"""A point [m] in the frame of an object, which is never larger than the plan."""
Place = tuple[Coordinate, Coordinate, Coordinate]
"""A point in space [m]."""
Mobility = Literal["static", "movable", "dynamic"]


class Params(Config):
    """Base class of the parameters of a kind; also for kinds without parameters."""


# ---- draws ----------------------------------------------------------------------------------------------------------
# Source of an object's random numbers: its own seed, or a position in a shared stream. A generator that draws many
# objects from one stream stores the position of the stream with each of them. An object can then be regenerated
# separately, bit for bit, without the objects before it.


ObjectSeed = (
    Annotated[int, Field(ge=0, lt=2**63)] | Annotated[str, Field(pattern=r"^[0-9a-f]{16}:[0-9]{1,15}(:[0-9a-f]{8})?$")]
)
"""A whole number, or a position in a stream: its key, the count of 64-bit draws, and an unused half of a draw."""


def place_of(rng: np.random.Generator) -> str:
    """Position of a generator of `Stream`, as text; `generator_at` continues from there."""
    state: dict[str, Any] = dict(rng.bit_generator.state)
    key, counter = state["state"]["key"], state["state"]["counter"]
    # The counter is ahead of the draws: it is the number of the block of four that is partly used.
    drawn = 4 * int(counter[0]) - 4 + int(state["buffer_pos"])
    half = f":{int(state['uinteger']):08x}" if state["has_uint32"] else ""
    return f"{int(key[0]):016x}:{drawn}{half}"


def generator_at(seed: int | str, stream: str) -> np.random.Generator:
    """Return the generator of an object's seed: that of `stream` for a whole number, or one at a stored position."""
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
# Parameters of objects in streets and on lots: buildings, vehicles, street furniture, people, trees.


Line = tuple[Plan, Plan]
MOST_CORNERS = 2000
"""Largest number of corners of a building's outline, and of its holes in total."""
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
Cloth = Literal["cotton", "fabric", "fabric-black", "fabric-blue", "fabric-green", "fabric-red"]


class StreetsParams(Params):
    """A square grid of streets with kerbed blocks, surrounded by a belt of hills; `size` includes the hills."""

    blocks: Annotated[int, Field(ge=2, le=8, multiple_of=2)] = 4
    """Blocks along each side."""
    lawns: tuple[Annotated[int, Field(ge=0)], ...] = ()
    """Numbers of the blocks with grass, the others have gravel; number 0 is the nearest to the crossing."""
    seed: Seed = 0
    """Selects the hills and the manholes."""

    @model_validator(mode="after")
    def _known_blocks(self) -> StreetsParams:
        if any(number >= self.blocks**2 for number in self.lawns):
            raise ValueError(f"lawns must be numbers from 0 to {self.blocks**2 - 1} for {self.blocks} blocks per side")
        return self


class StoreysParams(Config):
    """Storeys of a building with equal windows."""

    bottom_m: Annotated[float, Field(ge=0.0, le=500.0)] = 0.0
    storeys: Annotated[int, Field(ge=1, le=100)] = 1
    storey_height_m: Metres = 3.1
    pitch_m: Metres = 3.3
    """Desired distance between windows."""
    window_width_m: Metres = 1.3
    sill_m: Annotated[float, Field(ge=0.0, le=10.0)] = 0.85
    """Height of the lower edge of a window above the floor."""
    window_height_m: Metres = 1.6
    recess_m: Annotated[float, Field(ge=0.01, le=1.0)] = 0.16

    @model_validator(mode="after")
    def _fits(self) -> StoreysParams:
        if self.sill_m + self.window_height_m >= self.storey_height_m:
            raise ValueError("sill_m and window_height_m together must be less than storey_height_m")
        return self


class BuildingParams(Params):
    """A building with windows and its door at -y; `size` is that of its walls, without the roof."""

    bands: tuple[StoreysParams, ...] = ()
    """Storeys from the bottom up; by default equal ones of about 3.1 m."""
    wall: str = "brick"
    roof: Literal["flat", "hip", "gable"] = "flat"
    balconies: bool = False
    blind_sides: tuple[Annotated[int, Field(ge=0, le=3)], ...] = ()
    """Sides with few windows: 0 front, 1 right, 2 back, 3 left."""
    gates: bool = False
    """True for two gates for lorries in the front."""
    open_windows: Annotated[float, Field(ge=0.0, le=1.0)] = 0.0
    """Share of the windows that are open."""
    seed: ObjectSeed = 0
    """Selects curtains and the units on a flat roof."""

    @model_validator(mode="after")
    def _stacked(self) -> BuildingParams:
        top = 0.0
        for row, band in enumerate(self.bands):
            if abs(band.bottom_m - top) > 1e-6:
                raise ValueError(f"bands[{row}].bottom_m must be {top:g}, the top of the band below it")
            top = band.bottom_m + band.storeys * band.storey_height_m
        return self


class FenceParams(Params):
    """A fence of steel bars along x, or along lines in the plan."""

    lines: tuple[Line, ...] = ()
    """Starts and ends in the frame of the fence; by default one line of the length of `size`."""
    base_m: Annotated[float, Field(ge=-100.0, le=1000.0)] = 0.0
    """Height of the base above the pose."""


class LampParams(Params):
    """A street lamp with its arm along +x; built for a height and an arm, then scaled to `size`."""

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
    """A car with its front at +x."""

    shape: Literal["saloon", "hatchback", "estate", "suv", "van"] = "saloon"
    paint: VehiclePaint = "car-paint-silver"


class LorryParams(Params):
    """A box lorry with its front at +x."""

    paint: VehiclePaint = "car-paint-white"


class PersonParams(Params):
    """A person who walks along +x."""

    height_m: Annotated[float, Field(ge=0.5, le=2.5)] = 1.75
    stride_m: Annotated[float, Field(ge=0.0, le=0.6)] = 0.3
    """Half the length of a step."""
    clothes: Cloth = "cotton"
    trousers: Cloth = "fabric-blue"
    hair: Literal["hair-dark", "hair-fair"] = "hair-dark"
    long_hair: bool = False
    """True for hair to the shoulders."""


class PlantedTreeParams(Params):
    """A broad-leaved street tree with a crown of many leaves; `size` is that of the crown and the total height."""

    trunk_radius_m: Metres = 0.25
    """Radius of the footprint."""
    clear_trunk_m: Metres = 2.5
    """Height of the crown above the ground."""
    leaves: Annotated[int, Field(ge=20, le=1_000_000)] = 1600
    leaf_m: Metres = 0.24
    """Mean length of a leaf triangle."""
    leaf_form: Literal["spray", "blade"] = "spray"
    """spray: one triangle for several leaves; blade: one leaf, folded along its midrib, of two triangles."""
    seed: ObjectSeed = 0


class TreePitsParams(Params):
    """Squares of soil around street trees."""

    points: Annotated[tuple[Plan, ...], Field(min_length=1)]
    width_m: Metres = 1.2


class FootprintParams(Params):
    """A building as an outline with a flat roof, as in maps; `size` is its bounding box and its height."""

    outline: Annotated[tuple[NearPlan, ...], Field(min_length=3, max_length=MOST_CORNERS)]
    """Corners in the frame of the building, with any winding; the last one is joined to the first."""
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
                    raise ValueError(f"holes[{row}] must lie inside the outline")
        return self


# ---- water ----------------------------------------------------------------------------------------------------------
# Parameters of objects in harbours and canals: the basin, its equipment, bridges, vessels, cranes.


HullPaint = Literal["car-paint-red", "car-paint-blue", "car-paint-silver", "galvanised-steel"]


class BasinParams(Params):
    """A basin between quay walls with land around it; `size` is that of the water, and the height of the quays."""

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
    """Standard deviation of the height of the water, 0 for a mirror."""
    seed: Seed = 0
    """Selects the ripples."""


class BollardsParams(Params):
    """Mooring bollards, each at a point of the plan."""

    points: Annotated[tuple[Plan, ...], Field(min_length=1)]


class FendersParams(Params):
    """Rubber strips on a quay wall, each centred at a point."""

    points: Annotated[tuple[Place, ...], Field(min_length=1)]


class LaddersParams(Params):
    """Ladders on a quay wall, each at a point of the plan, from the water to 0.3 m above the quay."""

    points: Annotated[tuple[Plan, ...], Field(min_length=1)]
    quay_m: Metres = 1.6


class RailsParams(Params):
    """Crane rails along x, each centred at a point."""

    points: Annotated[tuple[Place, ...], Field(min_length=1)]
    length_m: Metres = 100.0


class PilesParams(Params):
    """Piles in the water, each with its base at a point."""

    points: Annotated[tuple[Place, ...], Field(min_length=1)]
    length_m: Metres = 5.2
    radius_m: Metres = 0.22


class BridgeParams(Params):
    """A masonry arch along y over a canal, with ramps; `size` is its width, length with ramps, and road height."""

    span_m: Annotated[float, Field(ge=10.0, le=500.0)] = 50.0
    """Width of the canal."""
    crown_m: Metres = 6.4
    """Clearance above the water in the middle; the road is 1.1 m above it."""
    quay_m: Metres = 1.6
    """Height of the quays above the water, where the ramps end."""


class VesselParams(Params):
    """A vessel with its bow at +x and its pose at the water level; built for its hull length, then scaled to `size`."""

    type: Literal["barge", "tug", "yacht", "motor-boat"] = "motor-boat"
    hull_m: Metres | None = None
    """Length of the hull; by default 42 m, 18 m, 10 m and 8 m in the order of the types."""
    cargo: Literal["gravel", "containers"] = "gravel"
    """Cargo of a barge."""
    seed: ObjectSeed = 0
    """Selects the cargo of a barge."""


class CraneParams(Params):
    """A portal crane with its jib along +x."""

    reach_m: Metres = 24.0
    """Length of the jib."""
    lift_deg: Annotated[float, Field(ge=0.0, le=85.0)] = 35.0


class ContainersParams(Params):
    """A stack of 20-foot containers along x."""

    paints: Annotated[tuple[HullPaint, ...], Field(min_length=1, max_length=9)] = ("car-paint-red",)
    """Paint of each container, from the bottom up."""
    base_m: Annotated[float, Field(ge=-100.0, le=1000.0)] = 0.0
    """Height of the base above the pose."""


# ---- kinds ----------------------------------------------------------------------------------------------------------


PALLET_HEIGHT_M = 0.144
"""Height of a flat pallet of 1200 x 800 mm [m] (EN 13698-1)."""


class WallParams(Params):
    """A wall along x."""

    material: str = "plaster"


class RackParams(Params):
    """A rack along x, open on both sides; the lowest loads stand on the floor."""

    levels: Annotated[int, Field(ge=1, le=12)] = 4
    """Number of levels, including the floor."""
    fill: Share = 0.7
    """Probability that a place holds a load."""
    bay_m: Metres = 2.8
    """Desired length of a bay; the rack is divided into equal bays of about this length."""
    seed: Seed = 0
    """Selects the loads."""


class PalletParams(Params):
    """A pallet; its goods fill `size` above the pallet."""

    goods: Literal["none", "cartons", "wrapped", "drums"] = "cartons"


class BoxParams(Params):
    """A box."""

    material: str = "cardboard"


class PillarParams(Params):
    """A pillar, square or round."""

    material: str = "concrete"
    round: bool = False


class DoorParams(Params):
    """A rolling door, whose leaf moves up."""

    open: Share = 0.0
    """Open share of the height, from the bottom."""
    material: str = "galvanised-steel"

    def free_height(self, height_m: float) -> float:
        """Height of the lower edge of the leaf [m]; the drum stays in the top of the opening."""
        return min(self.open * height_m, height_m - self.drum_height(height_m))

    def drum_height(self, height_m: float) -> float:
        """Height of the drum [m]."""
        return min(0.3, height_m / 4)


class MarkerParams(Params):
    """A plate that faces +x of its frame: one sheet, or a fiducial marker if it has a family."""

    material: str = "retro-sheeting"
    family: Literal["aruco", "apriltag"] | None = None
    dictionary: str | None = None
    """Dictionary of the family, such as 4x4_50 or 36h11; None for these two."""
    number: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Number of the marker in its dictionary."""


class TreeParams(Params):
    """A tree; `size` is that of the crown and the total height."""

    species: Literal["broadleaf", "conifer"] = "broadleaf"
    trunk_radius_m: Metres = 0.15
    """Radius at the base; the trunk is the footprint of the tree."""
    clear_trunk_share: Annotated[float, Field(ge=0.0, le=0.9)] = 0.3
    """Share of the height below the crown."""
    leaves: Annotated[int, Field(ge=20, le=20000)] = 700
    """Number of triangles of the crown."""
    seed: Seed = 0
    """Selects the form of the tree."""


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
    """A level ceiling with its lower side at the height of the pose."""

    material: str = "galvanised-steel"


class TerrainParams(Params):
    """Fractal terrain, or terrain from a grid of heights."""

    material: str = "grass"
    roughness_m: Annotated[float, Field(ge=0.0, le=100.0)] = 0.8
    """Standard deviation of the heights, before the track is cut into them."""
    hurst: Annotated[float, Field(gt=0.0, lt=1.0)] = 0.8
    """Hurst exponent: near 1 gives smooth hills, near 0 jagged ground."""
    cell_m: Annotated[float, Field(ge=0.1, le=50.0)] = 1.0
    """Desired width of a grid cell."""
    seed: Seed = 0
    heights_m: tuple[tuple[Annotated[float, Field(ge=-1e4, le=1e4)], ...], ...] | None = None
    """Heights on a grid over `size`, rows along y from the smallest y; replaces the fractal terrain."""
    track: tuple[Plan, ...] = ()
    """Line of a track over the terrain, or none."""
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
    """Common properties of all objects of one kind."""

    params: type[Params]
    label: str
    mobility: Mobility
    code: int
    """Number in bitmaps; 0 is free floor."""
    solid: bool = True
    """True if it is an obstacle, unlike ground and roof."""
    hangs: bool = False
    """True if it may be above the ground."""
    floats: bool = False
    """True if it lies in the water."""
    foot_m: float | None = None
    """Radius of the pole, if only the pole is an obstacle."""


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
"""All kinds by name."""
