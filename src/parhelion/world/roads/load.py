"""Loader of OpenDRIVE files, for `World.load`: surfaces, objects and signals, and the graph of lanes."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.checks import within
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream
from parhelion.core.reading import file_reader
from parhelion.surfaces import library
from parhelion.world.emitters import Lamp, put
from parhelion.world.kit import props
from parhelion.world.kit.instances import boxes, quads, struts
from parhelion.world.kit.plants import tree
from parhelion.world.kit.props import KitPart, grouped
from parhelion.world.kit.vehicles import CAR_SHAPES, PAINTS, car
from parhelion.world.maps.buildings import building_parts, sheet_of
from parhelion.world.maps.features import Feature
from parhelion.world.mesh import Mesh
from parhelion.world.roads.lanes import lane_graph
from parhelion.world.roads.reader import Road, RoadNetwork, RoadObject, read_opendrive
from parhelion.world.roads.shape import headings, points
from parhelion.world.roads.surface import ground_part, parts_of, road_surfaces
from parhelion.world.shapes import prism
from parhelion.world.sources import Tally
from parhelion.world.world import World

_SIGNS = {"206": "stop", "205": "triangle", "101": "triangle", "306": "square", "325": "square", "350": "square"}
"""Shapes of sign plates by their numbers in Germany (StVO); other signs are round."""
_MOST_REPEATS = 2000


@file_reader(ConfigError)
def load_opendrive(
    path: str | PathLike[str], seed: int = 0, *, margin_m: float = 40.0, ground: str = "grass", objects: bool = True
) -> World:
    """Load roads of an OpenDRIVE file (.xodr, 1.4 to 1.8): lanes, markings, kerbs, signals and objects.

    Args:
        path: The file.
        seed: Seed of plants.
        margin_m: Width of the ground around the roads [m].
        ground: Material of the ground.
        objects: Whether objects and signals are built.
    """
    file = Path(path)
    tally = Tally()
    library.material(ground)
    margin = within(f"{file}: margin_m", margin_m, 0.0, 2000.0)
    network = read_opendrive(file, tally)
    world = World(file.stem)
    made = road_surfaces(network, tally)
    if not made.strips:
        raise ConfigError(f"{file}: none of its lanes has a surface")
    parts, taken = parts_of(made)
    around = ground_part(made, taken, margin, ground)
    for part in [*parts, *([around] if around else [])]:
        world.add(part.mesh, material=part.material, label=part.label, name=part.name)
    if objects:
        _objects(world, network, seed, tally)
    world.origin = network.origin
    world.lanes = lane_graph(network)
    for lane in world.lanes.lanes:
        tally.add("lane of the graph" + (" (junction)" if lane.in_junction else ""), lane.length_m, "m")
    world.contents = tally.contents(file, "OpenDRIVE")
    world.patterns = True
    if world.lanes.lanes:
        longest = max(world.lanes.lanes, key=lambda lane: lane.length_m)
        k = len(longest.line) // 2
        ahead = longest.line[min(k + 1, len(longest.line) - 1)] - longest.line[k - 1]
        x, y, z = longest.line[k].tolist()
        world.viewpoint = Pose((x, y, z + 1.8), rpy_deg=(0.0, 0.0, float(np.degrees(np.arctan2(ahead[1], ahead[0])))))
    return world


def _objects(world: World, network: RoadNetwork, seed: int, tally: Tally) -> None:
    number = 0
    for road in network.roads.values():
        for item in road.objects:
            built = _parts(item, Stream(seed, f"world/roads/{road.number}/{number}").generator())
            what = f"signal {item.signal}" if item.kind == "signal" else f"object type={item.kind}"
            if built is None:
                tally.omit(what, "type not supported, and without a size")
                continue
            poses = _poses(road, item)
            title = f"{item.name or item.kind}-{number}"
            if len(poses) > 1:
                # Repetitions are one object, so that a guard rail is not thousands of objects.
                rows = [part._replace(mesh=part.mesh.transformed(pose)) for pose in poses for part in built]
                _add(world, grouped(rows), Pose(), title)
            else:
                _add(world, built, poses[0], title)
            number += 1
            for pose in poses:
                if item.kind == "streetLamp":
                    lamp = Lamp(**props.street_light(item.size[2] or 7.0))
                    world.add_lamp(**put(lamp, pose).model_dump(exclude_defaults=True))
            tally.add(what, count=len(poses))


def _add(world: World, parts: list[KitPart], pose: Pose, name: str) -> None:
    """Add the parts of one object under one new instance number."""
    instance = None
    for part in parts:
        added = world.add(
            part.mesh,
            material=part.material,
            label=part.label,
            pose=pose,
            name=f"{name}/{part.name}",
            instance=instance,
        )
        instance = added.instance


def _poses(road: Road, item: RoadObject) -> list[Pose]:
    """Poses of an object and its repetitions. Signals face the traffic that they are for; their x axis looks away."""
    s = np.array([item.s])
    if item.repeat is not None:
        start, length, distance = item.repeat
        count = int(min(length / distance + 1e-6, _MOST_REPEATS)) + 1 if distance > 0 else 1
        s = start + distance * np.arange(count)
    s = np.clip(s, 0.0, road.length - 1e-6)
    xyz = points(road, s, np.full(len(s), item.t))
    xyz[:, 2] += item.z if item.kind != "signal" else 0.0
    turn = np.pi if item.kind == "signal" and item.facing == "-" else 0.0
    yaw = np.degrees(headings(road, s) + item.heading + turn)
    return [Pose(at, rpy_deg=(0.0, 0.0, float(angle))) for at, angle in zip(xyz, yaw, strict=True)]


def _parts(item: RoadObject, rng: np.random.Generator) -> list[KitPart] | None:
    """Parts of an object, standing at the origin; None for unknown ones without a size."""
    length, width, height = item.size
    if item.kind == "signal":
        if item.signal == "light" or item.signal.startswith("100000"):
            return props.traffic_light()
        if item.signal.startswith("294") or item.signal.startswith("293"):
            return None  # paint, which is a marking
        return props.traffic_sign(_SIGNS.get(item.signal.partition("-")[0], "round"))
    if item.kind in ("tree", "vegetation") and (height > 2.5 or (not height and not item.corners)):
        tall = height or 8.0
        crown = item.radius or max(length, width) / 2 or 0.28 * tall
        return tree(rng, tall, crown, 0.28 * tall)
    if item.kind == "streetLamp":
        return props.lamp_pole(height or 7.0)
    if item.kind == "bench":
        return props.bench()
    if item.kind == "car":
        return car(str(rng.choice(list(CAR_SHAPES))), str(rng.choice(PAINTS)))
    if item.kind == "building" and min(length, width, height) > 0 and not item.corners:
        side = -np.sign(item.t) or 1.0  # towards the road
        return _house(length, width, height, (1e3 * side * np.sin(item.heading), 1e3 * side * np.cos(item.heading)))
    if item.corners:
        return _outlined(item)
    if item.kind == "crosswalk":
        return [KitPart("bars", _bars(length or 4.0, width or 6.0), "road-paint", "lane-marking")]
    material, label = _LOOKS.get(item.kind, ("concrete", "other-object"))
    if item.kind == "barrier" and 0.5 <= height < 1.1 and 0 < width <= 0.3 and length > 0:
        # A guard rail: a beam of 0.31 m on posts every 2 m.
        posts = [[x, 0.0, height / 2] for x in np.arange(-length / 2 + min(1.0, length / 2), length / 2, 2.0)]
        beam = boxes([[0, 0, height - 0.155]], (length, 0.08, 0.31))
        return [KitPart("body", Mesh.merged([boxes(posts, (0.06, 0.1, height)), beam]), material, label)]
    if item.radius > 0 and height > 0:
        return [KitPart("body", struts([[0, 0, 0]], [[0, 0, height]], item.radius, 16), material, label)]
    if min(length, width, height) > 0:
        return [KitPart("body", boxes([[0, 0, height / 2]], (length, width, height)), material, label)]
    return None


_LOOKS = {
    "building": ("plaster", "building"),
    "barrier": ("galvanised-steel", "fence"),
    "pole": ("galvanised-steel", "pole"),
    "vegetation": ("leaf", "vegetation"),
    "tree": ("leaf", "vegetation"),
    "soundBarrier": ("concrete", "wall"),
    "trafficIsland": ("concrete", "sidewalk"),
    "gantry": ("galvanised-steel", "other-structure"),
    "railing": ("steel", "railing"),
    "parkingSpace": ("asphalt", "parking"),
    "car": ("car-paint-silver", "car"),
    "wind": ("steel", "pole"),
    "patch": ("asphalt-dark", "road"),
}


def _house(length: float, width: float, height: float, street: tuple[float, float]) -> list[KitPart]:
    """House with windows and a front door at the side of a point [m]; below 12 m with a gabled roof."""
    import shapely

    sides = (-length / 2, -width / 2, length / 2, width / 2)
    tags = {"building": "house" if height < 12.0 else "yes", "height": str(height)}
    if 3.5 < height < 12.0:
        tags |= {"roof:shape": "gabled", "roof:height": str(min(0.35 * min(length, width), height - 2.5))}
    outline = Feature("object", tags, shapely.box(*sides))
    return building_parts(outline.shape, sheet_of(outline)[0], 0.0, street=shapely.Point(street))


def _outlined(item: RoadObject) -> list[KitPart] | None:
    """Object with an outline: extruded, or paint if it has no height."""
    corners = np.array(item.corners)
    ring, high = corners[:, :2], float(corners[:, 3].max())
    if len(ring) > 3 and np.allclose(ring[0], ring[-1]):
        ring = ring[:-1]
    if len(ring) < 3:
        return None
    material, label = _LOOKS.get(item.kind, ("concrete", "other-object"))
    if item.kind == "crosswalk":
        low, far = ring.min(axis=0), ring.max(axis=0)
        return [KitPart("bars", _bars(*(far - low)), "road-paint", "lane-marking")]
    body: Any = prism(ring, max(high, 0.02))
    return [KitPart("body", body, material, label)]


def _bars(length: float, width: float) -> Mesh:
    """Bars of a crossing along x, over `width` [m] along y, 6 mm above the road."""
    count = max(2, int(width / 1.0))
    y = (np.arange(count) - (count - 1) / 2) * (width / count)
    half = length / 2
    z = np.full(count, 0.006)
    corners = [(-half, y - 0.25), (half, y - 0.25), (half, y + 0.25), (-half, y + 0.25)]
    return quads(np.stack([np.column_stack([np.full(count, x), v, z]) for x, v in corners], axis=1))
