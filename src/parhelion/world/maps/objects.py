"""Railways, barriers, plants and street furniture of a map, as parts on the ground."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.pose import Floats
from parhelion.world.kit import props, waterfront
from parhelion.world.kit.instances import boxes, copies, struts
from parhelion.world.kit.props import KitPart
from parhelion.world.maps.features import Feature
from parhelion.world.maps.palette import colour_of, paving_of, wall_of
from parhelion.world.maps.plane import MapGround, along, box_profile, line_parts, parallel, swept
from parhelion.world.mesh import Mesh
from parhelion.world.procedural.kinds import TreeParams
from parhelion.world.procedural.object_parts import FORMS, tree_parts
from parhelion.world.shapes import sphere

# ---- railways --------------------------------------------------------------------------------------------------------

GAUGE_M = 1.435
"""Standard gauge (UIC 510)."""
BALLAST_M = 3.4
"""Width of the ballast of a single track."""
_RAIL_M, _RAIL_HEIGHT_M = 0.07, 0.16
"""Width of the head and height of a rail (60E1: 0.072 m, 0.172 m)."""
_SLEEPER = (0.26, 2.6, 0.06)
"""Width, length and visible height of a sleeper [m]."""
_SLEEPER_SPACING_M = 0.6
RAIL_KINDS = ("rail", "light_rail", "tram", "narrow_gauge", "subway", "preserved", "disused", "funicular")


def track_parts(line: Floats, ground: MapGround, roads: Any, *, gauge: float, embedded: bool) -> list[KitPart]:
    """Rails and sleepers along a line (n, 2). Inside of `roads`, or if `embedded`, rails are flush with the ground."""
    import shapely

    path = shapely.LineString(line)
    free, flush = shapely.difference(path, roads), shapely.intersection(path, roads)
    if embedded:
        free, flush = shapely.LineString(), path
    rails = []
    for pieces, height in ((line_parts(free), _RAIL_HEIGHT_M), (line_parts(flush), 0.006)):
        for piece in pieces:
            for side in (-0.5, 0.5):
                rail = _fine(parallel(piece, side * (gauge + _RAIL_M)), ground)
                rails.append(swept(rail, ground.height(rail), box_profile(_RAIL_M, height + 0.05, -0.05)))
    made = [KitPart("rails", Mesh.merged(rails), "steel", "rail")] if rails else []
    sleepers = []
    for piece in line_parts(free):
        at, yaw = along(piece, _SLEEPER_SPACING_M)
        z = ground.height(at) + _SLEEPER[2] / 2 - 0.02
        sleepers.append(boxes(np.column_stack([at, z]), (_SLEEPER[0], _SLEEPER[1], _SLEEPER[2]), yaw))
    if sleepers:
        made.append(KitPart("sleepers", Mesh.merged(sleepers), "concrete", "rail"))
    return made


def _fine(line: Floats, ground: MapGround) -> Floats:
    """Line with more points, so that it follows the ground."""
    if ground.cell_m is None:
        return line
    import shapely

    return np.asarray(shapely.get_coordinates(shapely.segmentize(shapely.LineString(line), min(ground.cell_m) / 2)))


# ---- barriers --------------------------------------------------------------------------------------------------------

BARRIERS = {
    "wall": (1.8, 0.24),
    "city_wall": (6.0, 1.5),
    "retaining_wall": (1.5, 0.3),
    "hedge": (1.5, 0.8),
    "fence": (1.4, 0.05),
    "guard_rail": (0.75, 0.3),
    "kerb": (0.12, 0.15),
    "handrail": (1.0, 0.05),
    "jersey_barrier": (0.8, 0.5),
    "ditch": (0, 0),
    "cable_barrier": (0.75, 0.1),
}
"""Height and width [m] of barriers without tags, by value of `barrier`; a ditch is not built."""
POST_BARRIERS = {"bollard": (0.9, 0.08), "block": (0.6, 0.3), "jersey_barrier": (0.8, 0.3)}
"""Height and radius [m] of single posts."""


def barrier_parts(
    feature: Feature, kind: str, line: Floats, ground: MapGround, rng: np.random.Generator
) -> list[KitPart]:
    """Wall, fence, hedge, guard rail or kerb along a line (n, 2)."""
    height, width = BARRIERS[kind]
    height = float(np.clip(feature.metres("height") or height, 0.02, 50.0))
    width = float(np.clip(feature.metres("width") or width, 0.02, 20.0))
    path = _fine(line, ground)
    z = ground.height(path)
    if kind in ("wall", "city_wall", "retaining_wall", "jersey_barrier", "kerb"):
        material = wall_of(feature.tag("material", "wall"), "granite" if kind == "kerb" else "concrete")
        if feature.tag("wall") == "brick":
            material = "brick"
        return [
            KitPart("barrier", swept(path, z, box_profile(width, height + 0.2, -0.2)), material, _barrier_label(kind))
        ]
    if kind == "hedge":
        return [_hedge(path, z, height, width, rng)]
    if kind in ("guard_rail", "cable_barrier"):
        at, yaw = along(path, 2.0)
        base = ground.height(at)
        posts = boxes(np.column_stack([at, base + height / 2]), (0.06, 0.1, height), yaw)
        rail = swept(path, z, box_profile(0.08, 0.31, height - 0.31))
        return [KitPart("barrier", Mesh.merged([posts, rail]), "galvanised-steel", "fence")]
    return _fence(feature, path, z, height, ground)


def _barrier_label(kind: str) -> str:
    return "sidewalk" if kind == "kerb" else "wall" if kind != "jersey_barrier" else "fence"


def _fence(feature: Feature, path: Floats, z: Floats, height: float, ground: MapGround) -> list[KitPart]:
    """Posts every 2.5 m, two rails, and bars or boards."""
    material = "wood" if feature.tag("fence_type", "material") in ("wood", "pole", "split_rail", "board") else "steel"
    at, yaw = along(path, 2.5)
    posts = boxes(np.column_stack([at, ground.height(at) + height / 2]), (0.07, 0.07, height), yaw)
    rails = [swept(path, z, box_profile(0.03, 0.05, share * height)) for share in (0.15, 0.9)]
    bars_at, bars_yaw = along(path, 0.14)
    size = (0.09, 0.02, 0.85 * height) if material == "wood" else (0.016, 0.016, 0.85 * height)
    bars = boxes(np.column_stack([bars_at, ground.height(bars_at) + 0.5 * height]), size, bars_yaw)
    return [KitPart("barrier", Mesh.merged([posts, *rails, bars]), material, "fence")]


def _hedge(path: Floats, z: Floats, height: float, width: float, rng: np.random.Generator) -> KitPart:
    """Leaf triangles in a box along a line: 60 for each square metre of the sides and the top."""
    length = float(np.hypot(*np.diff(path, axis=0).T).sum())
    count = int(min(60 * length * (2 * height + width), 2_000_000)) + 20
    steps = np.diff(path, axis=0)
    lengths = np.hypot(*steps.T)
    row = rng.choice(len(steps), count, p=lengths / lengths.sum())
    share = rng.random(count)
    left = np.column_stack([-steps[:, 1], steps[:, 0]]) / lengths[:, None]
    # Most leaves are near the surface of the hedge.
    side = rng.uniform(-0.5, 0.5, count)
    side = np.sign(side) * (2 * np.abs(side)) ** 0.4 / 2 * width
    up = height * rng.random(count) ** 0.6
    centre = path[row] + share[:, None] * steps[row] + side[:, None] * left[row]
    base = z[row] + share * (z[row + 1] - z[row])
    middle = np.column_stack([centre, base + up])
    edge = rng.normal(size=(count, 2, 3))
    edge *= 0.09 / np.linalg.norm(edge, axis=2, keepdims=True)
    corners = np.stack([middle + edge[:, 0], middle + edge[:, 1], middle - edge.sum(axis=1) / 2], axis=1)
    mesh, _ = Mesh.cleaned(corners.reshape(-1, 3), np.arange(3 * count, dtype=np.int32).reshape(-1, 3))
    assert mesh is not None
    return KitPart("barrier", mesh, "leaf", "vegetation")


# ---- plants ----------------------------------------------------------------------------------------------------------

TREE_M = 9.0
ROW_SPACING_M = 8.0
_FOREST_LEAVES = 350
_STREET_LEAVES = 1500


@dataclass(frozen=True, eq=False)
class Trees:
    """Trees of one kind: positions, heights and crown diameters."""

    at: Floats
    """Shape (n, 2) [m]."""
    height: Floats
    crown: Floats
    conifer: bool
    detailed: bool

    def parts(self, ground: MapGround, rng: np.random.Generator) -> list[KitPart]:
        """Trunks and crowns, copies of a few forms."""
        if len(self.at) == 0:
            return []
        form, yaw = rng.integers(0, FORMS, len(self.at)), rng.uniform(0, 2 * np.pi, len(self.at))
        xyz = np.column_stack([self.at, ground.height(self.at)])
        found: dict[tuple[str, str, str], list[Mesh]] = {}
        for k in np.unique(form):
            rows = form == k
            for part in _prototype(int(k), self.conifer, self.detailed):
                scale = np.column_stack([self.crown[rows], self.crown[rows], self.height[rows]])
                mesh = copies(part.mesh, xyz[rows], yaw[rows], scale)
                found.setdefault((part.name, part.material, part.label), []).append(mesh)
        return [
            KitPart(name, Mesh.merged(meshes), material, label) for (name, material, label), meshes in found.items()
        ]


def _prototype(form: int, conifer: bool, detailed: bool) -> list[KitPart]:
    """Tree of crown width 1 and height 1, from one of typical proportions, so that leaves keep their size."""
    crown, height = (0.3 * TREE_M, 1.3 * TREE_M) if conifer else (0.55 * TREE_M, TREE_M)
    params = TreeParams(
        species="conifer" if conifer else "broadleaf",
        trunk_radius_m=0.018 * height,
        clear_trunk_share=0.1 if conifer else 0.28,
        leaves=_STREET_LEAVES if detailed else _FOREST_LEAVES,
        seed=form,
    )
    return [
        part._replace(mesh=part.mesh.scaled((1 / crown, 1 / crown, 1 / height)))
        for part in tree_parts(crown, crown, height, params)
    ]


def tree_of(feature: Feature, rng: np.random.Generator) -> tuple[float, float, bool]:
    """Height and crown diameter [m] of a tree, and True for a conifer."""
    conifer = feature.tag("leaf_type") == "needleleaved"
    height = feature.metres("height", "est_height") or TREE_M * (1.3 if conifer else 1.0) * rng.uniform(0.85, 1.15)
    height = float(np.clip(height, 0.5, 80.0))
    crown = feature.metres("diameter_crown") or height * (0.3 if conifer else 0.55)
    return height, float(np.clip(crown, 0.3, 40.0)), conifer


def scattered(shape: Any, per_ha: float, rng: np.random.Generator, most: int) -> Floats:
    """Positions (n, 2) of plants in an area: a jittered grid, so that they keep a distance."""
    import shapely

    spacing = max(0.3, 100.0 / np.sqrt(max(per_ha, 1e-6)))
    low_x, low_y, high_x, high_y = shape.bounds
    nx, ny = int((high_x - low_x) / spacing) + 1, int((high_y - low_y) / spacing) + 1
    if nx * ny > 4 * most:
        spacing *= float(np.sqrt(nx * ny / (4 * most)))
        nx, ny = int((high_x - low_x) / spacing) + 1, int((high_y - low_y) / spacing) + 1
    x, y = np.meshgrid(np.arange(nx), np.arange(ny))
    cells = np.column_stack([x.ravel(), y.ravel()]) + rng.uniform(0.1, 0.9, (nx * ny, 2))
    at = np.array([low_x, low_y]) + spacing * cells
    return at[shapely.contains_xy(shape, at[:, 0], at[:, 1])][:most]


def bushes(at: Floats, ground: MapGround, rng: np.random.Generator) -> list[KitPart]:
    """Low bushes at positions (n, 2)."""
    if len(at) == 0:
        return []
    leaves = 90
    size = rng.uniform(0.6, 1.6, len(at))
    centre = np.column_stack([at, ground.height(at)])
    direction = rng.normal(size=(len(at), leaves, 3))
    direction /= np.linalg.norm(direction, axis=2, keepdims=True)
    direction[..., 2] = np.abs(direction[..., 2])
    middle = centre[:, None] + direction * (size[:, None, None] * np.array([0.7, 0.7, 1.0])) * rng.uniform(
        0.6, 1.0, (len(at), leaves, 1)
    )
    edge = rng.normal(size=(len(at), leaves, 2, 3))
    edge *= 0.1 / np.linalg.norm(edge, axis=3, keepdims=True)
    corners = np.stack([middle + edge[..., 0, :], middle + edge[..., 1, :], middle - edge.sum(axis=2) / 2], axis=2)
    mesh, _ = Mesh.cleaned(corners.reshape(-1, 3), np.arange(corners.size // 3, dtype=np.int32).reshape(-1, 3))
    return [] if mesh is None else [KitPart("leaves", mesh, "leaf", "vegetation")]


# ---- furniture -------------------------------------------------------------------------------------------------------


def _post(height: float, radius: float, material: str = "concrete") -> list[KitPart]:
    return [KitPart("post", struts([[0, 0, 0]], [[0, 0, height]], radius, 12), material, "pole")]


def furniture(feature: Feature) -> tuple[str, list[KitPart]] | None:
    """Tag and parts of a point feature that is an object of the kit; None for others. x is forward."""
    height = feature.metres("height")
    pairs = {key: feature.tag(key) for key in ("highway", "amenity", "emergency", "barrier", "man_made", "power")}
    if pairs["highway"] == "street_lamp":
        return "highway=street_lamp", props.lamp_pole(float(np.clip(height or 7.0, 2.0, 20.0)))
    if pairs["highway"] == "traffic_signals":
        return "highway=traffic_signals", props.traffic_light()
    if pairs["highway"] in ("stop", "give_way"):
        plate = "stop" if pairs["highway"] == "stop" else "triangle"
        return f"highway={pairs['highway']}", props.traffic_sign(plate)
    if pairs["highway"] == "bus_stop":
        return "highway=bus_stop", props.shelter() if feature.tag("shelter") == "yes" else props.traffic_sign("round")
    if feature.tag("traffic_sign"):
        return "traffic_sign", props.traffic_sign("round")
    if pairs["amenity"] == "bench":
        return "amenity=bench", props.bench()
    if pairs["amenity"] in ("waste_basket", "recycling"):
        return f"amenity={pairs['amenity']}", props.litter_bin()
    if pairs["emergency"] == "fire_hydrant":
        return "emergency=fire_hydrant", props.hydrant()
    if pairs["barrier"] in POST_BARRIERS:
        tall, radius = POST_BARRIERS[pairs["barrier"]]
        return f"barrier={pairs['barrier']}", _post(height or tall, radius)
    if pairs["man_made"] == "crane":
        return "man_made=crane", waterfront.crane(feature.metres("crane:reach") or 24.0)
    if pairs["man_made"] in ("flagpole", "mast", "chimney"):
        radius = {"flagpole": 0.06, "mast": 0.25, "chimney": 1.2}[pairs["man_made"]]
        tall = {"flagpole": 8.0, "mast": 25.0, "chimney": 40.0}[pairs["man_made"]]
        material = "concrete" if pairs["man_made"] == "chimney" else "galvanised-steel"
        return f"man_made={pairs['man_made']}", _post(float(np.clip(height or tall, 1.0, 300.0)), radius, material)
    if pairs["power"] == "pole":
        return "power=pole", _post(float(np.clip(height or 9.0, 3.0, 40.0)), 0.14, "wood")
    if feature.tag("mooring") or pairs["man_made"] == "bollard":
        return "mooring", [KitPart("bollard", waterfront.bollard(), "steel", "other-object")]
    if feature.tag("natural") in ("rock", "stone"):
        size = float(np.clip(feature.metres("diameter", "height") or 1.0, 0.2, 20.0))
        rock = sphere(1.0, 2).scaled((0.6 * size, 0.5 * size, 0.45 * size))
        return f"natural={feature.tag('natural')}", [KitPart("rock", rock, "granite", "rock")]
    if feature.tag("seamark:type").startswith("buoy"):
        colour = colour_of(feature.tag("seamark:buoy_lateral:colour"))
        paint = "car-paint-green" if colour and "7a" in colour else "car-paint-red"
        return "seamark:type=buoy", [KitPart("buoy", struts([[0, 0, -0.4]], [[0, 0, 1.2]], 0.4, 16), paint, "buoy")]
    return None


# ---- surfaces of land ------------------------------------------------------------------------------------------------

LAND: dict[str, dict[str, tuple[str, str, str]]] = {
    "natural": {
        "grassland": ("grass", "terrain", ""),
        "heath": ("grass-dry", "terrain", "bushes"),
        "scrub": ("soil", "terrain", "bushes"),
        "shrubbery": ("soil", "terrain", "bushes"),
        "wood": ("soil", "terrain", "trees"),
        "sand": ("sand", "terrain", ""),
        "beach": ("sand", "terrain", ""),
        "dune": ("sand", "terrain", ""),
        "bare_rock": ("limestone", "terrain", ""),
        "scree": ("gravel", "terrain", ""),
        "shingle": ("gravel", "terrain", ""),
        "mud": ("soil", "terrain", ""),
        "wetland": ("grass", "terrain", "bushes"),
        "fell": ("grass-dry", "terrain", ""),
        "moor": ("grass-dry", "terrain", ""),
        "tundra": ("grass-dry", "terrain", ""),
        "tree_group": ("grass", "terrain", "trees"),
        "forest": ("soil", "terrain", "trees"),
        "shrub": ("soil", "terrain", "bushes"),
        "grass": ("grass", "terrain", ""),
        "barren": ("gravel", "terrain", ""),
    },
    "landuse": {
        "grass": ("grass", "terrain", ""),
        "meadow": ("grass", "terrain", ""),
        "forest": ("soil", "terrain", "trees"),
        "farmland": ("soil", "terrain", ""),
        "farmyard": ("gravel", "terrain", ""),
        "orchard": ("grass", "terrain", "orchard"),
        "vineyard": ("soil", "terrain", "bushes"),
        "allotments": ("grass", "terrain", ""),
        "cemetery": ("grass", "terrain", ""),
        "village_green": ("grass", "terrain", ""),
        "recreation_ground": ("grass", "terrain", ""),
        "flowerbed": ("soil", "terrain", ""),
        "greenfield": ("grass-dry", "terrain", ""),
        "brownfield": ("gravel", "terrain", ""),
        "construction": ("soil", "terrain", ""),
        "quarry": ("gravel", "terrain", ""),
        "landfill": ("soil", "terrain", ""),
        "plant_nursery": ("soil", "terrain", "bushes"),
        "residential": ("grass", "terrain", ""),
        "commercial": ("concrete", "other-ground", ""),
        "retail": ("concrete", "other-ground", ""),
        "industrial": ("concrete", "other-ground", ""),
        "port": ("concrete", "quay", ""),
        "harbour": ("concrete", "quay", ""),
        "railway": ("gravel", "other-ground", ""),
        "garages": ("asphalt", "other-ground", ""),
        "greenhouse_horticulture": ("soil", "terrain", ""),
        "education": ("grass", "terrain", ""),
        "institutional": ("grass", "terrain", ""),
        "military": ("grass-dry", "terrain", ""),
        "logging": ("soil", "terrain", ""),
        "depot": ("asphalt", "other-ground", ""),
    },
    "leisure": {
        "park": ("grass", "terrain", ""),
        "garden": ("grass", "terrain", ""),
        "pitch": ("grass", "terrain", ""),
        "playground": ("sand", "terrain", ""),
        "golf_course": ("grass", "terrain", ""),
        "track": ("rubber", "other-ground", ""),
        "common": ("grass", "terrain", ""),
        "dog_park": ("grass", "terrain", ""),
        "sports_centre": ("grass", "terrain", ""),
        "stadium": ("grass", "terrain", ""),
        "beach_resort": ("sand", "terrain", ""),
        "outdoor_seating": ("concrete", "other-ground", ""),
        "schoolyard": ("asphalt", "other-ground", ""),
        "slipway": ("concrete", "quay", ""),
    },
    "amenity": {
        "parking": ("asphalt", "parking", ""),
        "bicycle_parking": ("concrete", "parking", ""),
        "motorcycle_parking": ("asphalt", "parking", ""),
        "parking_space": ("asphalt", "parking", ""),
        "marketplace": ("concrete", "other-ground", ""),
        "fuel": ("asphalt", "other-ground", ""),
        "grave_yard": ("grass", "terrain", ""),
        "taxi": ("asphalt", "parking", ""),
        "bus_station": ("asphalt", "road", ""),
    },
    "golf": {
        "bunker": ("sand", "terrain", ""),
        "green": ("grass", "terrain", ""),
        "fairway": ("grass", "terrain", ""),
        "tee": ("grass", "terrain", ""),
        "rough": ("grass-dry", "terrain", ""),
    },
    "place": {"square": ("concrete", "sidewalk", "")},
    "aeroway": {
        "apron": ("concrete", "road", ""),
        "runway": ("asphalt", "road", ""),
        "taxiway": ("asphalt", "road", ""),
        "helipad": ("concrete", "road", ""),
    },
}
"""Material, label and plants of areas, by key and value."""
ZONES = {
    "residential",
    "commercial",
    "retail",
    "industrial",
    "education",
    "institutional",
    "military",
    "port",
    "harbour",
    "railway",
}
"""Land uses that describe a zone: any other surface lies above them, however small."""


def land_of(feature: Feature) -> tuple[str, str, str, str] | None:
    """Tag, material, label and plants of an area of land; None for other features."""
    for key, rows in LAND.items():
        value = feature.tag(key)
        if value in rows:
            material, label, plants = rows[value]
            return f"{key}={value}", paving_of(feature.tag("surface"), material), label, plants
    for key in ("area:highway", "highway"):
        value = feature.tag(key)
        if value:
            path = value in ("footway", "pedestrian", "path", "cycleway", "traffic_island", "steps", "platform")
            label = "sidewalk" if path else "road"
            return (
                f"{key}={value} (area)",
                paving_of(feature.tag("surface"), "concrete" if path else "asphalt"),
                label,
                "",
            )
    return None
