"""Rules that sort the features of a map by what is built from them; each feature is read or omitted once."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.world.kit.props import KitPart
from parhelion.world.maps import objects
from parhelion.world.maps.features import Feature
from parhelion.world.maps.palette import paving_of
from parhelion.world.maps.plane import along, line_of, line_parts, strip, union, valid_area
from parhelion.world.maps.streets import BRIDGE_M, PATHS, ROADS, StreetNet, street_of
from parhelion.world.sources import Tally

WATERWAYS = {
    "river": 10.0,
    "canal": 12.0,
    "stream": 1.5,
    "ditch": 1.0,
    "drain": 1.0,
    "fairway": 0.0,
    "tidal_channel": 5.0,
}
"""Widths [m] of waterways without `width`; a fairway is only a line on other water."""
_QUAYS = {
    "harbour",
    "dock",
    "basin",
    "canal",
    "lock",
    "marina",
    "reservoir",
    "swimming_pool",
    "fountain",
    "reflecting_pool",
    "moat",
    "wastewater",
}
QUAY_DROP_M, RIVER_DROP_M, LAKE_DROP_M = 1.5, 1.0, 0.3
"""Height of the bank above the water: at quays, at rivers and at other water (round figures)."""
_DEPTHS = {QUAY_DROP_M: 4.0, RIVER_DROP_M: 2.5, LAKE_DROP_M: 2.0}
_PLATFORM_M = 0.38


@dataclass(frozen=True)
class MapOptions:
    """Options of a map that `World.load` accepts."""

    margin_m: float = 30.0
    ground: str = "grass"
    trees_per_ha: float = 250.0
    windows: bool = True
    water_drop_m: float | None = None
    bridge_m: float = BRIDGE_M


@dataclass(eq=False)
class Water:
    """An area of water before its neighbours are joined."""

    shape: Any
    drop_m: float
    depth_m: float
    quay: bool


@dataclass(eq=False)
class Sorted:
    """Features by the rule that builds them."""

    buildings: list[Feature] = field(default_factory=list)
    parts: list[Feature] = field(default_factory=list)
    water: list[Water] = field(default_factory=list)
    streets: StreetNet = field(default_factory=StreetNet)
    tracks: list[tuple[Feature, Floats]] = field(default_factory=list)
    barriers: list[tuple[Feature, str, Floats]] = field(default_factory=list)
    land: list[tuple[Feature, Any, str, str, str]] = field(default_factory=list)
    """Feature, area, material, label and plants."""
    raised: list[tuple[Any, float, str, str]] = field(default_factory=list)
    """Areas above the ground: area, height, material and label."""
    trees: list[tuple[Floats, float, float, bool]] = field(default_factory=list)
    objects: list[tuple[Feature, Floats, str, list[KitPart]]] = field(default_factory=list)
    crossings: list[tuple[Floats, bool]] = field(default_factory=list)


class Sorter:
    """Sorts features; counts go to a tally."""

    def __init__(self, seed: int, options: MapOptions, tally: Tally) -> None:
        self.seed, self.options, self.tally = seed, options, tally
        self.sorted = Sorted()

    def rng(self, *names: object) -> np.random.Generator:
        """Random numbers of one feature, independent of all others."""
        return Stream(self.seed, "world/map/" + "/".join(map(str, names))).generator()

    def sort(self, feature: Feature) -> None:
        """Hand a feature to the first rule that matches."""
        if feature.kind == "area":
            shape = valid_area(feature.shape)
            if shape is None:
                self.tally.omit(feature_tag(feature), "its outline has no area")
                return
            feature = Feature(feature.key, feature.tags, shape)
        rules: tuple[Callable[[Feature], bool], ...] = (
            self._hidden, self._building, self._water, self._street, self._track, self._barrier, self._pier, self._land,
            self._plant, self._point,
        )  # fmt: skip
        if not any(rule(feature) for rule in rules):
            self.tally.omit(feature_tag(feature), "tag not supported" if feature.tags else "no tags")

    def read(self, feature: Feature, what: str) -> bool:
        """Count a feature that is built, with its length or area."""
        import shapely

        if feature.kind == "area":
            self.tally.add(what, shapely.area(feature.shape), "m2")
        elif feature.kind == "line":
            self.tally.add(what, shapely.length(feature.shape), "m")
        else:
            self.tally.add(what)
        return True

    def _hidden(self, feature: Feature) -> bool:
        for tag, values in (
            ("tunnel", ("yes", "culvert", "building_passage", "covered")),
            ("indoor", ("yes", "room", "area")),
            ("location", ("underground", "underwater")),
        ):
            if feature.tag(tag) in values:
                self.tally.omit(
                    feature_tag(feature), f"{tag}={feature.tag(tag)}: below the ground or inside a building"
                )
                return True
        for prefix in ("proposed", "planned", "razed", "demolished", "removed", "construction"):
            kinds = (feature.tag("highway"), feature.tag("railway"), feature.tag("building"))
            if (prefix in kinds and prefix != "construction") or (prefix == "construction" and prefix in kinds[:2]):
                self.tally.omit(feature_tag(feature), "not built yet, or no longer there")
                return True
        layer = feature.number("layer") or 0.0
        if (
            layer < 0
            and (feature.tag("highway") or feature.tag("railway") or feature.tag("waterway"))
            and not feature.tag("bridge")
        ):
            self.tally.omit(feature_tag(feature), "layer below 0: under the ground")
            return True
        return False

    def _building(self, feature: Feature) -> bool:
        kind, part = feature.tag("building"), feature.tag("building:part")
        if kind in ("", "no") and part in ("", "no"):
            return False
        if feature.kind != "area":
            self.tally.omit(feature_tag(feature), f"a building needs an outline, this is a {feature.kind}")
        elif part not in ("", "no"):
            self.sorted.parts.append(feature)
        else:
            self.sorted.buildings.append(feature)
        return True

    def _water(self, feature: Feature) -> bool:
        waterway, natural = feature.tag("waterway"), feature.tag("natural")
        pool = feature.tag("leisure") in ("swimming_pool",) or feature.tag("amenity") == "fountain"
        basin = feature.tag("landuse") in ("basin", "reservoir", "salt_pond")
        what = (
            f"natural={natural}"
            if natural in ("water", "bay", "strait", "spring")
            else f"waterway={waterway}"
            if waterway
            else f"landuse={feature.tag('landuse')}"
            if basin
            else "leisure=swimming_pool"
            if pool
            else ""
        )
        if not what or natural == "spring":
            return False
        kind = feature.tag("water") or waterway or feature.tag("landuse") or ("swimming_pool" if pool else natural)
        quay = kind in _QUAYS or bool(feature.tag("harbour"))
        river = kind in ("river", "riverbank", "stream", "rapids", "oxbow")
        drop = QUAY_DROP_M if quay and not pool else RIVER_DROP_M if river else LAKE_DROP_M
        if kind in ("stream", "ditch", "drain"):
            drop = LAKE_DROP_M
        depth = feature.metres("depth", "maxdepth") or (
            1.5 if pool else 0.5 if drop == LAKE_DROP_M and waterway else _DEPTHS[drop]
        )
        if feature.kind == "area":
            shape = feature.shape
        elif feature.kind == "line" and waterway in WATERWAYS:
            width = feature.metres("width", "est_width") or WATERWAYS[waterway]
            if width <= 0 or feature.tag("intermittent") == "yes":
                self.tally.omit(what, "a line on other water, or a dry bed")
                return True
            shape = union([strip(line_of(line), width / 2, width / 2) for line in line_parts(feature.shape)])
        else:
            self.tally.omit(what, f"water needs an area or a supported waterway, this is a {feature.kind}")
            return True
        if self.options.water_drop_m is not None:
            drop = self.options.water_drop_m
        self.sorted.water.append(Water(shape, drop, float(np.clip(depth, 0.2, 100.0)), quay))
        return self.read(feature, what)

    def _street(self, feature: Feature) -> bool:
        value = feature.tag("highway")
        if feature.kind != "line" or not value:
            return False
        if value not in ROADS and value not in PATHS:
            self.tally.omit(f"highway={value}", "tag not supported")
            return True
        layer = feature.number("layer")
        on_bridge = feature.tag("bridge") not in ("", "no")
        for street in street_of(feature):
            if on_bridge:
                self.sorted.streets.bridges.append((street, self.options.bridge_m * max(1.0, layer or 1.0)))
            else:
                self.sorted.streets.ground.append(street)
        return self.read(feature, f"highway={value}" + (" (bridge)" if on_bridge else ""))

    def _track(self, feature: Feature) -> bool:
        value = feature.tag("railway")
        if not value:
            return False
        if value == "platform" and feature.kind != "point":
            shape = (
                feature.shape
                if feature.kind == "area"
                else union([strip(line_of(line), 1.5, 1.5) for line in line_parts(feature.shape)])
            )
            self.sorted.raised.append((shape, _PLATFORM_M, "concrete", "sidewalk"))
            return self.read(feature, "railway=platform")
        if feature.kind != "line" or value not in objects.RAIL_KINDS:
            self.tally.omit(f"railway={value}", "tag not supported")
            return True
        if feature.tag("bridge") not in ("", "no"):
            self.tally.omit(f"railway={value} (bridge)", "railway bridges are not built")
            return True
        self.sorted.tracks += [(feature, line) for line in line_parts(feature.shape)]
        return self.read(feature, f"railway={value}")

    def _barrier(self, feature: Feature) -> bool:
        value = feature.tag("barrier")
        if not value or feature.kind == "point":
            return False
        if value not in objects.BARRIERS or value == "ditch":
            self.tally.omit(f"barrier={value}", "tag not supported")
            return True
        import shapely

        shape = feature.shape if feature.kind == "line" else shapely.boundary(feature.shape)
        self.sorted.barriers += [(feature, value, line) for line in line_parts(shape)]
        if feature.kind == "area":
            self.tally.add(f"barrier={value}", shapely.length(shape), "m")
            return True
        return self.read(feature, f"barrier={value}")

    def _pier(self, feature: Feature) -> bool:
        value = feature.tag("man_made")
        if value not in ("pier", "breakwater", "groyne", "quay") or feature.kind == "point":
            return False
        width = feature.metres("width") or (3.0 if value == "pier" else 6.0)
        shape = (
            feature.shape
            if feature.kind == "area"
            else union([strip(line_of(line), width / 2, width / 2) for line in line_parts(feature.shape)])
        )
        default = "wood" if value == "pier" else "granite"
        self.sorted.raised.append((shape, 0.0, paving_of(feature.tag("surface", "material"), default), "quay"))
        return self.read(feature, f"man_made={value}")

    def _land(self, feature: Feature) -> bool:
        found = objects.land_of(feature)
        if found is None:
            return False
        what, material, label, plants = found
        if feature.kind == "line" and feature.tag("aeroway"):
            width = feature.metres("width") or (45.0 if feature.tag("aeroway") == "runway" else 15.0)
            shape: Any = union([strip(line_of(line), width / 2, width / 2) for line in line_parts(feature.shape)])
        elif feature.kind == "area":
            shape = feature.shape
        else:
            return False
        self.sorted.land.append((feature, shape, material, label, plants))
        return self.read(feature, what)

    def _plant(self, feature: Feature) -> bool:
        value = feature.tag("natural")
        if value == "tree" and feature.kind == "point":
            rng = self.rng("tree", feature.key)
            for x, y in _points(feature.shape):
                self.sorted.trees.append((np.array([x, y]), *objects.tree_of(feature, rng)))
            return self.read(feature, "natural=tree")
        if value == "tree_row" and feature.kind == "line":
            rng = self.rng("tree", feature.key)
            spacing = feature.metres("spacing") or objects.ROW_SPACING_M
            for line in line_parts(feature.shape):
                for at in along(line, max(1.0, spacing), 0.0)[0]:
                    self.sorted.trees.append((at, *objects.tree_of(feature, rng)))
            return self.read(feature, "natural=tree_row")
        return False

    def _point(self, feature: Feature) -> bool:
        if feature.kind != "point":
            return False
        if feature.tag("highway") == "crossing" or feature.tag("crossing"):
            kind = feature.tag("crossing", "crossing:markings")
            barred = kind in ("zebra", "marked", "uncontrolled", "yes")
            if not barred:
                self.tally.omit("highway=crossing", "crossing without bars")
                return True
            self.sorted.crossings += [(xy, True) for xy in _points(feature.shape)]
            return self.read(feature, "highway=crossing")
        found = objects.furniture(feature)
        if found is None:
            return False
        what, parts = found
        self.sorted.objects += [(feature, xy, what, parts) for xy in _points(feature.shape)]
        return self.read(feature, what)


MAIN_KEYS = (
    "building", "building:part", "highway", "railway", "waterway", "natural", "landuse", "leisure", "amenity",
    "barrier", "man_made", "power", "aeroway",
)  # fmt: skip
_OTHER_KEYS = ("place", "boundary", "shop", "tourism", "office", "historic", "route", "public_transport")


def feature_tag(feature: Feature) -> str:
    """Tag that describes a feature: the first of the main keys, otherwise its first tag."""
    key = next((key for key in (*MAIN_KEYS, *_OTHER_KEYS) if feature.tags.get(key)), None)
    if key is None:
        key = next(iter(feature.tags), None)
    return f"{key}={feature.tags[key][:40]}" if key is not None else f"{feature.kind} without tags"


def is_flush(feature: Feature) -> bool:
    return feature.tag("railway") == "tram" or feature.tag("embedded") == "yes"


def _points(shape: Any) -> list[Floats]:
    import shapely

    return [np.asarray(xy) for xy in shapely.get_coordinates(shape)]
