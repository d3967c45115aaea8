"""Built-in worlds, generated from a seed: the same seed gives the same triangles."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, get_type_hints

from parhelion.core.errors import unknown_name

if TYPE_CHECKING:
    from parhelion.world.world import World


_PATTERNS = "whether surfaces have patterns, such as bricks and aggregate (true)"


@dataclass(frozen=True)
class BuiltinWorld:
    """One entry of the table of built-in worlds."""

    name: str
    description: str
    """One line for listings."""
    place: str
    """Builder in this package, `module:function`; its arguments are a seed and `params`."""
    params: Mapping[str, str] = field(default_factory=dict)
    """Parameters of the builder, each with its description and default."""
    patterned: bool = False
    """True if its materials have patterns by default; it then also has the parameter `patterns`."""

    def __post_init__(self) -> None:
        if self.patterned:
            object.__setattr__(self, "params", {**self.params, "patterns": _PATTERNS})

    @property
    def builder(self) -> Callable[..., World]:
        """Function that builds the world."""
        module, _, name = self.place.partition(":")
        function: Callable[..., World] = getattr(import_module(f"{__name__}.{module}"), name)
        return function


_ROAD_PARAMS = {
    "margin_m": "width of the ground around the roads in m, 0 to 2000 (40)",
    "ground": "material of the ground (grass)",
    "objects": "whether objects and signals are built (true)",
}

_ENTRIES = (
    BuiltinWorld(
        "city",
        "streets, sidewalks, buildings with windows, parked cars, trees, people; a drive (over 400 000 triangles)",
        "procedural:build_city",
        {
            "blocks": "blocks along each side, 2, 4, 6 or 8 (4)",
            "cars": "parked cars (52)",
            "trees": "trees on sidewalks and lots (84)",
            "people": "people on sidewalks (30)",
            "signs": "traffic signs (none: one on each side of each street)",
            "open_windows": "share of the windows that are open, 0 to 1 (0)",
            "leaf_blades": "leaves as blades of their real size, 2 million triangles (false)",
            "target_triangles": "total number of triangles to reach with leaves (none: 1600 leaves per tree)",
        },
        patterned=True,
    ),
    BuiltinWorld(
        "harbour",
        "a canal basin with quays, bridge, moored vessels, warehouses and cranes; a passage by boat",
        "procedural:build_harbour",
        {
            "length_m": "length of the canal in m, 80 to 900 (300)",
            "width_m": "width of the canal in m, 24 to 120 (50)",
            "bridge": "whether a bridge crosses the canal (true)",
            "vessels": "moored vessels (none: one at each berth, 13 on 300 m)",
            "cranes": "cranes on the south quay (none: two on 300 m)",
            "bollard_spacing_m": "distance of the bollards in m, 3 to 50 (12)",
            "ripple_height": "standard deviation of the water's height in m, 0 for a mirror (0.012)",
            "people": "people on the quays (16)",
            "trees": "trees on the north quay (14)",
        },
        patterned=True,
    ),
    BuiltinWorld(
        "test-range",
        "grey Lambertian boards of 10 to 90 % at 5 to 200 m, without occlusion",
        "boards:build_board_range",
        {
            "distances": "horizontal distances of the boards in m (5 to 200, twelve of them)",
            "reflectances_percent": "whole percents, a board of each at every distance (10, 30, 50, 70, 90)",
            "board_size": "side of every board in m (none: 5 % of the distance, 0.5 m at least)",
            "ground": "material of the level ground, or none (asphalt)",
        },
    ),
    BuiltinWorld(
        "boards-zigzag",
        "three foam pads in a zigzag before a 2D lidar in a room (ApolloSim, first qualitative test)",
        "boards:build_boards_zigzag",
        {"room": "whether the four walls, floor and ceiling are there (true)"},
    ),
    BuiltinWorld(
        "boards-u",
        "two foam boards and a wooden one in a U before a 2D lidar in a room (ApolloSim, second qualitative test)",
        "boards:build_boards_u",
        {"room": "whether the four walls, floor and ceiling are there (true)"},
    ),
    BuiltinWorld(
        "cylinders",
        "sixteen nested cylinders, one for each ring of a 16-channel lidar at 2 m height (after Arce 2025)",
        "published:build_cylinders",
        {
            "material": "material of all cylinders (lambert-50)",
            "segments": "flats around each cylinder (720)",
        },
    ),
    BuiltinWorld(
        "mixed-objects",
        "objects of distinct shape and surface around the sensor, a house, vehicles (after Arce 2025)",
        "published:build_mixed_objects",
        {},
    ),
    BuiltinWorld(
        "cuboids",
        "a level field with cuboid obstacles, as for comparing lidar and radar returns (after VANE)",
        "published:build_cuboids",
        {"obstacles": "number of cuboids, 1 to 24 (9)"},
    ),
    BuiltinWorld(
        "warehouse",
        "rack rows with pallets, aisles, doors, markers and anchors in a hall, generated from the seed; a drive",
        "procedural:build_warehouse",
        {
            "size_m": "length and width in m, outside the walls (40, 25)",
            "rack_rows": "rows of racks (none: as many as fit)",
            "aisle_m": "width of all aisles in m, 1.5 to 8 (3)",
            "density": "share of rack and floor places that are taken, 0 to 1 (0.7)",
            "roof": "whether the hall has its roof (true)",
        },
        patterned=True,
    ),
    BuiltinWorld(
        "forest",
        "trees, bushes and boulders on rolling ground with a track, generated from the seed; a drive",
        "procedural:build_forest",
        {
            "size_m": "length and width in m (80, 80)",
            "density_per_ha": "trees per hectare, 0 to 1500 (500)",
            "roughness_m": "standard deviation of the ground's height in m, 0 to 8 (0.8)",
        },
        patterned=True,
    ),
    BuiltinWorld(
        "off-road",
        "open country with relief, boulders, bushes, some trees and a trail, generated from the seed; a drive",
        "procedural:build_off_road",
        {
            "size_m": "length and width in m, 20 to 1000 (120, 80)",
            "roughness_m": "standard deviation of the ground's height in m, 0 to 20 (2)",
            "hurst": "smoothness of the ground, 0.1 to 0.95 (0.75)",
            "trees_per_ha": "trees per hectare, 0 to 1500 (30)",
            "rocks_per_ha": "boulders per hectare, 0 to 3000 (120)",
            "bushes_per_ha": "bushes per hectare, 0 to 3000 (80)",
            "trail": "whether there is a trail and a drive on it (true)",
            "height_map": "image, .npy or table of heights in place of the generated ones (none)",
            "height_range_m": "heights of an image's black and white in m (none)",
        },
        patterned=True,
    ),
    BuiltinWorld(
        "highway",
        "a closed motorway of two lanes in each direction with banked bends and hills (OpenDRIVE); lanes for traffic",
        "roads:build_highway",
        _ROAD_PARAMS,
        patterned=True,
    ),
    BuiltinWorld(
        "park",
        "a winding lit path among trees and benches (OpenDRIVE)",
        "roads:build_park",
        _ROAD_PARAMS,
        patterned=True,
    ),
    BuiltinWorld(
        "roundabout",
        "a roundabout with four arms and sidewalks (OpenDRIVE); lanes for traffic",
        "roads:build_roundabout",
        _ROAD_PARAMS,
        patterned=True,
    ),
    BuiltinWorld(
        "suburb",
        "residential streets with junctions, houses, parked cars and lamps (OpenDRIVE); lanes for traffic",
        "roads:build_suburb",
        _ROAD_PARAMS,
        patterned=True,
    ),
)

BUILTIN: Mapping[str, BuiltinWorld] = MappingProxyType({entry.name: entry for entry in _ENTRIES})
"""All built-in worlds by name."""


def build(name: str, *, seed: int = 0, **params: Any) -> World:
    """Build the world `name` from `seed` with its parameters (see `BUILTIN[name].params`)."""
    if name not in BUILTIN:
        raise unknown_name("world", name, BUILTIN)
    entry = BUILTIN[name]
    for param in params:
        if param not in entry.params:
            known = ", ".join(entry.params) or "none"
            raise unknown_name(f"parameter of world {name!r}", param, entry.params, f"(it accepts: {known})")
    _check_types(entry, entry.builder, params)
    patterns = params.pop("patterns", True) if entry.patterned else False
    world = entry.builder(seed, **params)
    world.patterns = patterns
    return world


def _check_types(entry: BuiltinWorld, builder: Callable[..., World], params: Mapping[str, Any]) -> None:
    """Refuse values of the wrong type; the builders check ranges."""
    from parhelion.core.config import At, check

    hints = {"patterns": bool, **get_type_hints(builder)}
    for param, value in params.items():
        check(hints[param], value, At(f"world {entry.name!r}", param), strict=not isinstance(value, (list, tuple)))
