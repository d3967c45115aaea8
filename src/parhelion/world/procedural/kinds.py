"""The kinds of things that a layout may hold: what each may say of itself, and what it is taken for.

Lengths are metres. `size` of an object is its outer length, width and height (x, y, z of its own frame); its pose is
the middle of its foot.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Annotated, Literal

from pydantic import Field, model_validator

from parhelion.world.procedural import street, water
from parhelion.world.procedural.fields import Metres, Mobility, Params, Plan, Seed, Share

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


class AnchorParams(Params):
    """A radio anchor: a small housing."""


class ChargerParams(Params):
    """A charging station whose contacts face +x of its own frame."""


class ConeParams(Params):
    """A traffic cone."""


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
        "anchor": Kind(AnchorParams, "object", "static", 8, hangs=True),
        "charging-station": Kind(ChargerParams, "machine", "static", 9),
        "cone": Kind(ConeParams, "cone", "movable", 10),
        "tree": Kind(TreeParams, "vegetation", "static", 11),
        "rock": Kind(RockParams, "rock", "static", 12),
        "bush": Kind(BushParams, "vegetation", "static", 13),
        "ground": Kind(GroundParams, "floor", "static", 14, solid=False),
        "terrain": Kind(TerrainParams, "terrain", "static", 15, solid=False),
        "roof": Kind(RoofParams, "ceiling", "static", 16, solid=False, hangs=True),
        "streets": Kind(street.StreetsParams, "road", "static", 17, solid=False),
        "building": Kind(street.BuildingParams, "building", "static", 18),
        "fence": Kind(street.FenceParams, "fence", "static", 19),
        "bench": Kind(street.BenchParams, "other-object", "static", 20),
        "lamp": Kind(street.LampParams, "pole", "static", 21, foot_m=0.12),
        "traffic-sign": Kind(street.SignParams, "traffic-sign", "static", 22, foot_m=0.03),
        "traffic-light": Kind(street.LightParams, "traffic-light", "static", 23, foot_m=0.07),
        "litter-bin": Kind(street.BinParams, "other-object", "movable", 24),
        "hydrant": Kind(street.HydrantParams, "other-object", "static", 25),
        "bicycle": Kind(street.BicycleParams, "bicycle", "movable", 26),
        "shelter": Kind(street.ShelterParams, "other-object", "static", 27),
        "car": Kind(street.CarParams, "car", "movable", 28),
        "lorry": Kind(street.LorryParams, "truck", "movable", 29),
        "person": Kind(street.PersonParams, "person", "dynamic", 30),
        "planted-tree": Kind(street.PlantedTreeParams, "vegetation", "static", 31),
        "tree-pits": Kind(street.TreePitsParams, "terrain", "static", 32, solid=False),
        "footprint": Kind(street.FootprintParams, "building", "static", 33),
        "basin": Kind(water.BasinParams, "quay", "static", 34, hangs=True),
        "bollards": Kind(water.BollardsParams, "quay", "static", 35),
        "fenders": Kind(water.FendersParams, "quay", "static", 36, solid=False),
        "ladders": Kind(water.LaddersParams, "ladder", "static", 37, solid=False),
        "rails": Kind(water.RailsParams, "rail", "static", 38, solid=False),
        "piles": Kind(water.PilesParams, "other-structure", "static", 39, hangs=True),
        "bridge": Kind(water.BridgeParams, "bridge", "static", 40, hangs=True),
        "vessel": Kind(water.VesselParams, "vessel", "movable", 41, floats=True),
        "crane": Kind(water.CraneParams, "crane", "static", 42),
        "containers": Kind(water.ContainersParams, "container", "movable", 43),
    }
)
"""Every kind by name."""
