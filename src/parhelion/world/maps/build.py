"""Conversion of the features of a map to a world.

Each feature is handled by the first rule that matches its tags, and is counted as read or omitted. The ground is a
partition: paint, carriageways, sidewalks, paths, tracks, water and land, in this order; of two areas of land, the
smaller one lies above.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from parhelion.core.checks import check_budget
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.world.emitters import Lamp, put
from parhelion.world.kit.instances import boxes
from parhelion.world.kit.props import KitPart, street_light
from parhelion.world.maps import objects
from parhelion.world.maps.buildings import BuildingSheet, building_parts, sheet_of
from parhelion.world.maps.features import Feature
from parhelion.world.maps.palette import tinted
from parhelion.world.maps.plane import (
    MapGround,
    along,
    box_profile,
    common,
    line_of,
    minus,
    parallel,
    polygons,
    skirt,
    strip,
    surface,
    swept,
    union,
)
from parhelion.world.maps.sorting import MapOptions, Sorter, is_flush
from parhelion.world.maps.streets import DECK_M, KERB_M, RampHeight, carriageways, markings, ramp_segments, ramps
from parhelion.world.mesh import Mesh
from parhelion.world.sources import GeoOrigin, Tally
from parhelion.world.world import World

MOST_TREES = 20_000
"""Largest number of plants in areas."""
_RAMP_CELL_M = 4.0


def map_world(
    name: str,
    features: Sequence[Feature],
    origin: GeoOrigin | None,
    ground: MapGround,
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
        ground: MapGround,
        seed: int,
        options: MapOptions,
        tally: Tally,
    ) -> None:
        self.world, self.features, self.base_ground, self.ground = world, features, ground, ground
        self.seed, self.options, self.tally = seed, options, tally
        self.sorter = Sorter(seed, options, tally)
        self.sorted = self.sorter.sorted
        self._lines: list[Any] | None = None
        world.origin = origin

    def build(self) -> World:
        for feature in self.features:
            self.sorter.sort(feature)
        self._extent()
        self._streets()
        self._surfaces()
        self._buildings()
        self._tracks()
        for number, (feature, kind, line) in enumerate(self.sorted.barriers):
            rng = self.sorter.rng("barrier", number)
            self._add(objects.barrier_parts(feature, kind, line, self.ground, rng), f"barrier-{feature.key}")
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

    # ---- construction ------------------------------------------------------------------------------------------------

    def _extent(self) -> None:
        """Rectangle of the ground: all features that are built, and a margin."""
        import shapely

        kept = self.sorted
        shapes = [f.shape for f in (*kept.buildings, *kept.parts)] + [water.shape for water in kept.water]
        shapes += [street.line for street in kept.streets.ground] + [street.line for street, _ in kept.streets.bridges]
        shapes += [line_of(line) for _, line in kept.tracks] + [line_of(line) for _, _, line in kept.barriers]
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
            self.ramp = MapGround(lambda xy: base.height(xy) + lift(xy), cell, base.corner_m)
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
            [
                strip(line_of(line), objects.BALLAST_M / 2, objects.BALLAST_M / 2)
                for f, line in kept.tracks
                if not is_flush(f)
            ]
        )
        layers.append(("ballast", take(ballast), "gravel", "rail", 0.0))
        self._basins(take(union([water.shape for water in kept.water])))
        # A smaller area lies above a larger one; zones lie below all others.
        order = sorted(
            range(len(kept.land)), key=lambda k: (kept.land[k][0].tag("landuse") in objects.ZONES, kept.land[k][1].area)
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
            flat = MapGround()
            water, bed = surface(basin, flat, level), surface(basin, flat, level - depth)
            walls = self._banks(basin, level - depth)
            bank = ("granite", "quay") if quay else ("soil", "terrain")
            rows = (("water", water, "water", "water"), ("bed", bed, "sand", "terrain"), ("bank", walls, *bank))
            for name, mesh, material, label in rows:
                if mesh is not None:
                    self._add([KitPart(name, mesh, material, label)], f"water-{number}")

    def _banks(self, basin: Any, bed_m: float) -> Mesh | None:
        """Upright walls from the bed of a basin to the ground."""
        ground = self.base_ground
        return skirt(basin, ground, lambda xy: bed_m - ground.height(xy), 0.0, inward=True)

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
                rails.append(boxes(np.column_stack([at, up + 0.5]), (0.05, 0.05, 1.0)))
            parts.append(KitPart("railing", Mesh.merged(rails), "steel", "railing"))
            piers = self._piers(middle, z, width)
            parts += [KitPart("piers", piers, "concrete", "bridge")] if piers is not None else []
            self._add(parts, f"bridge-{number}")

    def _piers(self, line: Floats, z: Floats, width: float) -> Mesh | None:
        """Piers every 20 m that stand beside roads and tracks below."""
        import shapely

        at, yaw = along(line, 20.0)
        tracks = union([strip(line_of(track), 3.0, 3.0) for _, track in self.sorted.tracks])
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
        return boxes(
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
        parts = building_parts(feature.shape, sheet, foot, windows=self.options.windows, street=self._roads())
        tints = {"walls": sheet.wall_colour, "roof": sheet.roof_colour}
        self._add(parts, f"{key}-{feature.key}", tints={name: colour for name, colour in tints.items() if colour})
        self.sorter.read(feature, f"{key}={sheet.kind}")
        for note in notes:
            self.tally.add(f"note: {note}")

    def _roads(self) -> Any:
        """Middle lines of all roads as one geometry; None without roads."""
        import shapely

        if self._lines is None:
            self._lines = [street.line for street in self.sorted.streets.ground if street.is_road]
        return shapely.multilinestrings(self._lines) if self._lines else None

    def _tracks(self) -> None:
        import shapely

        for feature, line in self.sorted.tracks:
            gauge = (feature.number("gauge") or 1000 * objects.GAUGE_M) / 1000.0
            gauge = gauge if 0.3 <= gauge <= 3.0 else objects.GAUGE_M
            flush = is_flush(feature)
            parts = objects.track_parts(
                line, self.base_ground, shapely.buffer(self.taken_by_roads, 0.3), gauge=gauge, embedded=flush
            )
            self._add(parts, f"track-{feature.key}")

    def _plants(self) -> None:
        rows = self.sorted.trees
        for conifer in (False, True):
            chosen = [row for row in rows if row[3] is conifer]
            for number, (at, height, crown, _) in enumerate(chosen):
                one = objects.Trees(at[None], np.array([height]), np.array([crown]), conifer, detailed=True)
                self._add(
                    one.parts(self.ground, self.sorter.rng("form", conifer, number)),
                    f"tree-{'c' if conifer else 'b'}{number}",
                )
        left = MOST_TREES
        for feature, shape, plants in self.planted:
            rng = self.sorter.rng("plants", feature.key)
            density = (
                feature.number("density")
                or {"trees": self.options.trees_per_ha, "orchard": 250.0, "bushes": 800.0}[plants]
            )
            at = objects.scattered(shape, density, rng, left) if shape.area > 0 else np.zeros((0, 2))
            wanted = round(density * shape.area / 10_000)
            if wanted > left:
                self.tally.omit("plants of an area", f"the limit is {MOST_TREES} plants", wanted - len(at))
            left = max(0, left - len(at))
            if plants == "bushes":
                self._add(objects.bushes(at, self.ground, rng), f"bushes-{feature.key}")
                continue
            mixed = feature.tag("leaf_type") in ("mixed", "")
            needles = rng.random(len(at)) < (
                0.35 if mixed and plants == "trees" else float(feature.tag("leaf_type") == "needleleaved")
            )
            mean = feature.metres("height") or (5.0 if plants == "orchard" else 11.0)
            heights = mean * rng.uniform(0.75, 1.25, len(at))
            spacing = 100.0 / np.sqrt(max(density, 1.0))
            for kind in (False, True):
                some = needles == kind
                crown = np.clip(heights[some] * (0.28 if kind else 0.45), 0.5, 1.4 * spacing)
                trees = objects.Trees(at[some], heights[some], crown, kind, detailed=False)
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
