"""Conversion of the features of a map to a world.

Each feature is handled by the first rule that matches its tags, and is counted as read or omitted. The ground is a
partition: paint, carriageways, sidewalks, paths, tracks, water and land, in this order; of two areas of land, the
smaller one lies above.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parhelion.core.budgets import check_budget
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.random import Stream
from parhelion.world.emitters import Lamp, put
from parhelion.world.kit.props import KitPart, street_light
from parhelion.world.maps import things
from parhelion.world.maps.buildings import BuildingSheet, building_parts, sheet_of
from parhelion.world.maps.features import Feature
from parhelion.world.maps.palette import paving_of, tinted
from parhelion.world.maps.plane import (
    Ground,
    along,
    box_profile,
    common,
    line_parts,
    minus,
    parallel,
    polygons,
    skirt,
    strip,
    surface,
    swept,
    union,
    valid_area,
)
from parhelion.world.maps.streets import (
    BRIDGE_M,
    DECK_M,
    KERB_M,
    PATHS,
    ROADS,
    RampHeight,
    Street,
    StreetNet,
    carriageways,
    markings,
    ramp_segments,
    ramps,
    street_of,
)
from parhelion.world.mesh import Mesh
from parhelion.world.sources import GeoOrigin, Tally
from parhelion.world.world import World

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
_QUAYS = {"harbour", "dock", "basin", "canal", "lock", "marina", "reservoir", "swimming_pool", "fountain", "reflecting_pool",
          "moat", "wastewater"}  # fmt: skip
QUAY_DROP_M, RIVER_DROP_M, LAKE_DROP_M = 1.5, 1.0, 0.3
"""Height of the bank above the water: at quays, at rivers and at other water (round figures)."""
_DEPTHS = {QUAY_DROP_M: 4.0, RIVER_DROP_M: 2.5, LAKE_DROP_M: 2.0}
_SOFT_BANKS = {"soil", "grass"}
MOST_TREES = 20_000
_PLATFORM_M = 0.38
_RAMP_CELL_M = 4.0


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


def map_world(
    name: str,
    features: Sequence[Feature],
    origin: GeoOrigin | None,
    ground: Ground,
    seed: int,
    options: MapOptions,
    tally: Tally,
) -> World:
    """Build the world of a map; counts of what became geometry and what did not go to `tally`."""
    return _Builder(World(name), features, origin, ground, seed, options, tally).build()


class _Builder:
    def __init__(
        self,
        world: World,
        features: Sequence[Feature],
        origin: GeoOrigin | None,
        ground: Ground,
        seed: int,
        options: MapOptions,
        tally: Tally,
    ) -> None:
        self.world, self.features, self.base_ground, self.ground = world, features, ground, ground
        self.seed, self.options, self.tally = seed, options, tally
        self.sorted = Sorted()
        world.origin = origin

    def rng(self, *names: object) -> np.random.Generator:
        """Random numbers of one feature, independent of all others."""
        return Stream(self.seed, "world/map/" + "/".join(map(str, names))).generator()

    def build(self) -> World:
        for feature in self.features:
            self._sort(feature)
        self._extent()
        self._streets()
        self._surfaces()
        self._buildings()
        self._tracks()
        for number, (feature, kind, line) in enumerate(self.sorted.barriers):
            rng = self.rng("barrier", number)
            self._add(things.barrier_parts(feature, kind, line, self.ground, rng), f"barrier-{feature.key}")
        self._plants()
        self._objects()
        if not self.world.objects:
            raise ConfigError(f"{self.world.name}: no feature has a supported tag")
        self._viewpoint()
        return self.world

    def _add(
        self, parts: Sequence[KitPart], name: str, pose: Pose = Pose(), tints: dict[str, str] | None = None
    ) -> int:
        """Add the parts of one object under one instance number."""
        instance: int | None = None
        for part in parts:
            colour = (tints or {}).get(part.name)
            material = part.material if colour is None else tinted(part.material, colour)
            added = self.world.add(
                part.mesh, material=material, label=part.label, pose=pose, name=f"{name}/{part.name}", instance=instance
            )
            instance = added.instance
        return instance or 0

    # ---- rules -------------------------------------------------------------------------------------------------------

    def _sort(self, feature: Feature) -> None:
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

    def _read(self, feature: Feature, what: str) -> bool:
        import shapely

        if feature.kind == "area":
            self.tally.add(what, shapely.area(feature.shape), "m2")
        elif feature.kind == "line":
            self.tally.add(what, shapely.length(feature.shape), "m")
        else:
            self.tally.add(what)
        return True

    def _hidden(self, feature: Feature) -> bool:
        for tag, values in (("tunnel", ("yes", "culvert", "building_passage", "covered")), ("indoor", ("yes", "room", "area")),
                            ("location", ("underground", "underwater"))):  # fmt: skip
            if feature.tag(tag) in values:
                self.tally.omit(
                    feature_tag(feature), f"{tag}={feature.tag(tag)}: below the ground or inside a building"
                )
                return True
        for prefix in ("proposed", "planned", "razed", "demolished", "removed", "construction"):
            kinds = (feature.tag("highway"), feature.tag("railway"), feature.tag("building"))
            if prefix in kinds and prefix != "construction" or (prefix == "construction" and prefix in kinds[:2]):
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
            f"natural={natural}" if natural in ("water", "bay", "strait", "spring") else f"waterway={waterway}" if waterway
            else f"landuse={feature.tag('landuse')}" if basin else "leisure=swimming_pool" if pool else ""
        )  # fmt: skip
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
            shape = union([strip(_line(line), width / 2, width / 2) for line in line_parts(feature.shape)])
        else:
            self.tally.omit(what, f"water needs an area or a supported waterway, this is a {feature.kind}")
            return True
        if self.options.water_drop_m is not None:
            drop = self.options.water_drop_m
        self.sorted.water.append(Water(shape, drop, float(np.clip(depth, 0.2, 100.0)), quay))
        return self._read(feature, what)

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
        return self._read(feature, f"highway={value}" + (" (bridge)" if on_bridge else ""))

    def _track(self, feature: Feature) -> bool:
        value = feature.tag("railway")
        if not value:
            return False
        if value == "platform" and feature.kind != "point":
            shape = (
                feature.shape
                if feature.kind == "area"
                else union([strip(_line(line), 1.5, 1.5) for line in line_parts(feature.shape)])
            )
            self.sorted.raised.append((shape, _PLATFORM_M, "concrete", "sidewalk"))
            return self._read(feature, "railway=platform")
        if feature.kind != "line" or value not in things.RAIL_KINDS:
            self.tally.omit(f"railway={value}", "tag not supported")
            return True
        if feature.tag("bridge") not in ("", "no"):
            self.tally.omit(f"railway={value} (bridge)", "railway bridges are not built")
            return True
        self.sorted.tracks += [(feature, line) for line in line_parts(feature.shape)]
        return self._read(feature, f"railway={value}")

    def _barrier(self, feature: Feature) -> bool:
        value = feature.tag("barrier")
        if not value or feature.kind == "point":
            return False
        if value not in things.BARRIERS or value == "ditch":
            self.tally.omit(f"barrier={value}", "tag not supported")
            return True
        import shapely

        shape = feature.shape if feature.kind == "line" else shapely.boundary(feature.shape)
        self.sorted.barriers += [(feature, value, line) for line in line_parts(shape)]
        if feature.kind == "area":
            self.tally.add(f"barrier={value}", shapely.length(shape), "m")
            return True
        return self._read(feature, f"barrier={value}")

    def _pier(self, feature: Feature) -> bool:
        value = feature.tag("man_made")
        if value not in ("pier", "breakwater", "groyne", "quay") or feature.kind == "point":
            return False
        width = feature.metres("width") or (3.0 if value == "pier" else 6.0)
        shape = (
            feature.shape
            if feature.kind == "area"
            else union([strip(_line(line), width / 2, width / 2) for line in line_parts(feature.shape)])
        )
        default = "wood" if value == "pier" else "granite"
        self.sorted.raised.append((shape, 0.0, paving_of(feature.tag("surface", "material"), default), "quay"))
        return self._read(feature, f"man_made={value}")

    def _land(self, feature: Feature) -> bool:
        found = things.land_of(feature)
        if found is None:
            return False
        what, material, label, plants = found
        if feature.kind == "line" and feature.tag("aeroway"):
            width = feature.metres("width") or (45.0 if feature.tag("aeroway") == "runway" else 15.0)
            shape: Any = union([strip(_line(line), width / 2, width / 2) for line in line_parts(feature.shape)])
        elif feature.kind == "area":
            shape = feature.shape
        else:
            return False
        self.sorted.land.append((feature, shape, material, label, plants))
        return self._read(feature, what)

    def _plant(self, feature: Feature) -> bool:
        value = feature.tag("natural")
        if value == "tree" and feature.kind == "point":
            rng = self.rng("tree", feature.key)
            for x, y in _points(feature.shape):
                self.sorted.trees.append((np.array([x, y]), *things.tree_of(feature, rng)))
            return self._read(feature, "natural=tree")
        if value == "tree_row" and feature.kind == "line":
            rng = self.rng("tree", feature.key)
            spacing = feature.metres("spacing") or things.ROW_SPACING_M
            for line in line_parts(feature.shape):
                for at in along(line, max(1.0, spacing), 0.0)[0]:
                    self.sorted.trees.append((at, *things.tree_of(feature, rng)))
            return self._read(feature, "natural=tree_row")
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
            return self._read(feature, "highway=crossing")
        found = things.furniture(feature)
        if found is None:
            return False
        what, parts = found
        self.sorted.objects += [(feature, xy, what, parts) for xy in _points(feature.shape)]
        return self._read(feature, what)

    # ---- construction ------------------------------------------------------------------------------------------------

    def _extent(self) -> None:
        """Rectangle of the ground: all features that are built, and a margin."""
        import shapely

        kept = self.sorted
        shapes = [f.shape for f in (*kept.buildings, *kept.parts)] + [water.shape for water in kept.water]
        shapes += [street.line for street in kept.streets.ground] + [street.line for street, _ in kept.streets.bridges]
        shapes += [_line(line) for _, line in kept.tracks] + [_line(line) for _, _, line in kept.barriers]
        shapes += [row[1] for row in kept.land] + [row[0] for row in kept.raised]
        shapes += [shapely.Point(row[0]) for row in kept.trees] + [shapely.Point(row[1]) for row in kept.objects]
        if not shapes:
            known = "building, highway, natural, landuse, waterway, railway, barrier"
            raise ConfigError(
                f"{self.world.name}: none of its {len(self.features)} features has a supported tag ({known}, ...); "
                "if outlines without tags are buildings, set untagged='building'"
            )
        low_x, low_y, high_x, high_y = shapely.total_bounds(np.array(shapes, dtype=object))
        margin = self.options.margin_m
        self.extent = shapely.box(
            *np.floor([low_x - margin, low_y - margin]), *np.ceil([high_x + margin, high_y + margin])
        )

    def _streets(self) -> None:
        """Areas of streets and paint, and the ramps of bridges."""
        net = self.sorted.streets
        rise = ramps(net)
        if rise:
            segments, heights = ramp_segments(net, rise)
            widest = max(street.width_m + 2 * max(street.sidewalks) for street in net.ground)
            lift = RampHeight(segments, heights, widest)
            base = self.base_ground
            cell = base.cell_m or (_RAMP_CELL_M, _RAMP_CELL_M)
            self.lift: Any = lift
            self.ramp = Ground(lambda xy: base.height(xy) + lift(xy), cell, base.corner_m)
        else:
            self.lift, self.ramp = None, self.base_ground
        # Paths on the same line as a road would only hide it; carriageways come first.
        carriageways(net.ground)

    def _surfaces(self) -> None:
        net, kept = self.sorted.streets, self.sorted
        roads = [street for street in net.ground if street.is_road]
        paths = [street for street in net.ground if not street.is_road]
        road_area = union([street.area for street in roads])
        paint = markings(roads, kept.crossings) if roads else union([])
        taken = union([])
        self.taken_by_roads = road_area

        def take(shape: Any) -> Any:
            nonlocal taken
            free = common(minus(shape, taken), self.extent)
            taken = union([taken, free])
            return free

        layers: list[tuple[str, Any, str, str, float]] = []
        layers.append(("paint", take(paint), "road-paint", "lane-marking", 0.0))
        for material in dict.fromkeys(street.material for street in roads):
            area = union([street.area for street in roads if street.material == material])
            layers.append((f"road-{material}", take(area), material, "road", 0.0))
        walks = []
        for street in roads:
            left, right = street.sidewalks
            half = street.width_m / 2
            walks += [strip(street.line, half + left, -half)] if left else []
            walks += [strip(street.line, -half, half + right)] if right else []
        layers.append(("sidewalks", take(union(walks)), "concrete", "sidewalk", KERB_M))
        for shape, height, material, label in kept.raised:
            layers.append(("platform", take(shape), material, label, height))
        for material in dict.fromkeys(street.material for street in paths):
            area = union([street.area for street in paths if street.material == material])
            layers.append((f"path-{material}", take(area), material, "sidewalk", 0.0))
        ballast = union(
            [strip(_line(line), things.BALLAST_M / 2, things.BALLAST_M / 2) for f, line in kept.tracks if not _flush(f)]
        )
        layers.append(("ballast", take(ballast), "gravel", "rail", 0.0))
        self._basins(take(union([water.shape for water in kept.water])))
        # A smaller area lies above a larger one; zones lie below all others.
        order = sorted(
            range(len(kept.land)), key=lambda k: (kept.land[k][0].tag("landuse") in things.ZONES, kept.land[k][1].area)
        )
        self.planted: list[tuple[Feature, Any, str]] = []
        for k in order:
            feature, shape, material, label, plants = kept.land[k]
            free = take(shape)
            layers.append((f"land-{feature.key}", free, material, label, 0.0))
            if plants:
                self.planted.append((feature, free, plants))
        layers.append(("ground", take(self.extent), self.options.ground, "terrain", 0.0))
        for name, shape, material, label, lift in layers:
            self._layer(name, shape, material, label, lift)
        self._bridges()

    def _layer(self, name: str, shape: Any, material: str, label: str, lift: float) -> None:
        """Surface of one layer; parts on ramps are raised, with walls down to the ground."""
        on_ramp = self.lift is not None and name.startswith(("paint", "road", "path", "sidewalks"))
        ground = self.base_ground
        if on_ramp:
            high, flat = self._split_by_ramp(shape)
            made = [surface(flat, ground, lift), surface(high, self.ramp, lift)]
            walls = skirt(high, ground, -0.1, lambda xy: self.lift(xy) + lift)
            if walls is not None and not name.startswith("paint"):
                self._add([KitPart("embankment", walls, "concrete", "other-structure")], name)
        else:
            made = [surface(shape, ground, lift)]
        meshes = [mesh for mesh in made if mesh is not None]
        if not meshes:
            return
        parts = [KitPart("surface", Mesh.merged(meshes), material, label)]
        if lift > 0:
            kerb = skirt(shape, self.ramp if on_ramp else ground, -0.05, lift)
            parts += [KitPart("kerb", kerb, "granite" if label == "sidewalk" else material, label)] if kerb else []
        self._add(parts, name)

    def _split_by_ramp(self, shape: Any) -> tuple[Any, Any]:
        """Parts of an area on ramps and beside them."""
        import shapely

        lines = shapely.multilinestrings([shapely.linestrings(segment) for segment in self.lift.segments])
        near = shapely.buffer(lines, self.lift.reach_m / 2 + 0.5, cap_style="flat")
        return common(shape, near), minus(shape, near)

    def _basins(self, free: Any) -> None:
        """Surface, bed and walls of each connected area of water."""
        import shapely

        for number, basin in enumerate(polygons(shapely.union_all(polygons(free), grid_size=1e-3))):
            members = [water for water in self.sorted.water if shapely.intersects(water.shape, basin)]
            if not members:
                continue
            drop, depth = max(one.drop_m for one in members), max(one.depth_m for one in members)
            quay = any(one.quay for one in members)
            border = shapely.get_coordinates(basin.exterior)
            level = float(np.min(self.base_ground.height(border))) - drop
            flat = Ground()
            water, bed = surface(basin, flat, level), surface(basin, flat, level - depth)
            ground = self.base_ground
            walls = skirt(basin, ground, lambda xy, z=level - depth: z - ground.height(xy), 0.0, inward=True)
            parts = [KitPart("water", water, "water", "water"), KitPart("bed", bed, "sand", "terrain")]
            bank = ("granite", "quay") if quay else ("soil", "terrain")
            parts.append(KitPart("bank", walls, *bank))
            for part in parts:
                if part.mesh is not None:
                    self._add([part], f"water-{number}")

    def _bridges(self) -> None:
        """Decks with railings, and abutments where no ramp leads to them."""
        for number, (street, height) in enumerate(self.sorted.streets.bridges):
            line = np.asarray(street.line.coords)
            ends = self.base_ground.height(line[[0, -1]])
            share = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
            z = height + ends[0] + share / share[-1] * (ends[1] - ends[0])
            width = street.width_m + sum(street.sidewalks)
            middle = parallel(line, (street.sidewalks[0] - street.sidewalks[1]) / 2) if any(street.sidewalks) else line
            deck = swept(middle, z, box_profile(width, DECK_M, -DECK_M))
            parts = [KitPart("deck", deck, street.material, "bridge")]
            rails = []
            for side in (-1.0, 1.0):
                edge = parallel(middle, side * (width / 2 - 0.08))
                rails.append(swept(edge, z, box_profile(0.06, 0.06, 1.0)))
                at, _ = along(edge, 2.0)
                up = np.interp(np.arange(len(at)), [0, max(1, len(at) - 1)], [z[0], z[-1]])
                rails.append(things.boxes(np.column_stack([at, up + 0.5]), (0.05, 0.05, 1.0)))
            parts.append(KitPart("railing", Mesh.merged(rails), "steel", "railing"))
            piers = self._piers(middle, z, width)
            parts += [KitPart("piers", piers, "concrete", "bridge")] if piers is not None else []
            self._add(parts, f"bridge-{number}")

    def _piers(self, line: Floats, z: Floats, width: float) -> Mesh | None:
        """Piers every 20 m that stand beside roads and tracks below."""
        import shapely

        at, yaw = along(line, 20.0)
        tracks = union([strip(_line(track), 3.0, 3.0) for _, track in self.sorted.tracks])
        blocked = shapely.buffer(union([self.taken_by_roads, tracks]), 1.2)
        path = shapely.LineString(line)
        place = shapely.line_locate_point(path, shapely.points(at))
        free = ~shapely.contains_xy(blocked, at[:, 0], at[:, 1]) & (place > 3.0) & (place < path.length - 3.0)
        at, yaw = at[free], yaw[free]
        if len(at) == 0:
            return None
        ends = np.concatenate([[0.0], np.cumsum(np.hypot(*np.diff(line, axis=0).T))])
        top = np.interp(place[free], ends, z) - DECK_M
        foot = self.base_ground.height(at) - 6.0
        return things.boxes(
            np.column_stack([at, (top + foot) / 2]),
            np.column_stack([np.ones(len(at)), np.full(len(at), 0.7 * width), top - foot]),
            yaw,
        )

    def _buildings(self) -> None:
        import shapely

        kept = self.sorted
        outlines = np.array([part.shape for part in kept.parts], dtype=object)
        tree = shapely.STRtree(outlines) if len(outlines) else None
        for feature in kept.buildings:
            sheet, notes = sheet_of(feature)
            if tree is not None:
                rows = tree.query(feature.shape)
                covered = union([common(outlines[k], feature.shape) for k in rows]) if len(rows) else None
                if covered is not None and covered.area > 0.5 * feature.shape.area:
                    self.tally.omit(f"building={sheet.kind} (outline)", "its building:part features are built instead")
                    continue
            self._house(feature, sheet, notes, "building")
        for feature in kept.parts:
            sheet, notes = sheet_of(feature)
            self._house(feature, sheet, notes, "building:part")

    def _house(self, feature: Feature, sheet: BuildingSheet, notes: Sequence[str], key: str) -> None:
        import shapely

        foot = float(np.min(self.base_ground.height(shapely.get_coordinates(feature.shape))))
        parts = building_parts(feature.shape, sheet, foot, windows=self.options.windows)
        tints = {"walls": sheet.wall_colour, "roof": sheet.roof_colour}
        self._add(parts, f"{key}-{feature.key}", tints={name: colour for name, colour in tints.items() if colour})
        self._read(feature, f"{key}={sheet.kind}")
        for note in notes:
            self.tally.add(f"note: {note}")

    def _tracks(self) -> None:
        import shapely

        for feature, line in self.sorted.tracks:
            gauge = (feature.number("gauge") or 1000 * things.GAUGE_M) / 1000.0
            gauge = gauge if 0.3 <= gauge <= 3.0 else things.GAUGE_M
            flush = _flush(feature)
            parts = things.track_parts(
                line, self.base_ground, shapely.buffer(self.taken_by_roads, 0.3), gauge=gauge, embedded=flush
            )
            self._add(parts, f"track-{feature.key}")

    def _plants(self) -> None:
        rows = self.sorted.trees
        for conifer in (False, True):
            chosen = [row for row in rows if row[3] is conifer]
            for number, (at, height, crown, _) in enumerate(chosen):
                one = things.Trees(at[None], np.array([height]), np.array([crown]), conifer, detailed=True)
                self._add(
                    one.parts(self.ground, self.rng("form", conifer, number)), f"tree-{'c' if conifer else 'b'}{number}"
                )
        left = MOST_TREES
        for feature, shape, plants in self.planted:
            rng = self.rng("plants", feature.key)
            density = (
                feature.number("density")
                or {"trees": self.options.trees_per_ha, "orchard": 250.0, "bushes": 800.0}[plants]
            )
            at = things.scattered(shape, density, rng, left) if shape.area > 0 else np.zeros((0, 2))
            wanted = int(round(density * shape.area / 10_000))
            if wanted > left:
                self.tally.omit("plants of an area", f"the limit is {MOST_TREES} plants", wanted - len(at))
            left = max(0, left - len(at))
            if plants == "bushes":
                self._add(things.bushes(at, self.ground, rng), f"bushes-{feature.key}")
                continue
            mixed = feature.tag("leaf_type") in ("mixed", "")
            conifer = rng.random(len(at)) < (
                0.35 if mixed and plants == "trees" else float(feature.tag("leaf_type") == "needleleaved")
            )
            mean = feature.metres("height") or (5.0 if plants == "orchard" else 11.0)
            height = mean * rng.uniform(0.75, 1.25, len(at))
            spacing = 100.0 / np.sqrt(max(density, 1.0))
            for kind in (False, True):
                some = conifer == kind
                crown = np.clip(height[some] * (0.28 if kind else 0.45), 0.5, 1.4 * spacing)
                trees = things.Trees(at[some], height[some], crown, kind, detailed=False)
                check_budget("triangles", self.world.triangle_count + 1000 * len(at), self.world.name)
                self._add(trees.parts(self.ground, rng), f"forest-{feature.key}-{'c' if kind else 'b'}")

    def _objects(self) -> None:
        """Furniture; objects at a road face it."""
        import shapely

        roads = [street for street in self.sorted.streets.ground if street.is_road]
        lines = np.array([street.line for street in roads], dtype=object)
        for number, (feature, xy, what, parts) in enumerate(self.sorted.objects):
            toward = feature.number("direction")
            yaw = 90.0 - toward if toward is not None else 0.0
            if toward is None and len(lines):
                row = int(np.argmin(shapely.distance(shapely.Point(xy), lines)))
                nearest = shapely.line_interpolate_point(
                    lines[row], shapely.line_locate_point(lines[row], shapely.Point(xy))
                )
                away = np.array([nearest.x, nearest.y]) - xy
                yaw = float(np.degrees(np.arctan2(away[1], away[0]))) if np.hypot(*away) > 0.01 else 0.0
            z = float(self.ground.height(xy[None])[0])
            pose = Pose((float(xy[0]), float(xy[1]), z), rpy_deg=(0.0, 0.0, yaw))
            self._add(parts, f"{what.partition('=')[2] or what}-{number}", pose)
            if what == "highway=street_lamp":
                height = float(np.clip(feature.metres("height") or 7.0, 2.0, 20.0))
                self.world.add_lamp(**put(Lamp(**street_light(height)), pose).model_dump(exclude_defaults=True))

    def _viewpoint(self) -> None:
        """Middle of the longest street, otherwise of the map, 1.8 m above the ground."""
        import shapely

        roads = [street for street in self.sorted.streets.ground if street.is_road]
        if roads:
            line = max((street.line for street in roads), key=lambda one: one.length)
            point = shapely.line_interpolate_point(line, 0.5, normalized=True)
            ahead = shapely.line_interpolate_point(line, 0.5 + 1e-3, normalized=True)
            yaw = float(np.degrees(np.arctan2(ahead.y - point.y, ahead.x - point.x)))
            z = float(self.ramp.height(np.array([[point.x, point.y]]))[0])
            self.world.viewpoint = Pose((point.x, point.y, z + 1.8), rpy_deg=(0.0, 0.0, yaw))


def feature_tag(feature: Feature) -> str:
    """Tag that describes a feature: the first of the main keys, otherwise its first tag."""
    keys = (
        "building", "building:part", "highway", "railway", "waterway", "natural", "landuse", "leisure", "amenity", "barrier",
        "man_made", "power", "aeroway", "place", "boundary", "shop", "tourism", "office", "historic", "route", "public_transport",
    )  # fmt: skip
    key = next((key for key in keys if feature.tags.get(key)), None)
    if key is None:
        key = next(iter(feature.tags), None)
    return f"{key}={feature.tags[key][:40]}" if key is not None else f"{feature.kind} without tags"


def _flush(feature: Feature) -> bool:
    return feature.tag("railway") == "tram" or feature.tag("embedded") == "yes"


def _line(points: Floats) -> Any:
    import shapely

    return shapely.LineString(points)


def _points(shape: Any) -> list[Floats]:
    import shapely

    return [np.asarray(xy) for xy in shapely.get_coordinates(shape)]
