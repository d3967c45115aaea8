"""Worlds after publications: cuboids (VANE, ERDC/GSL TR-20-32, figures 5-1 and 5-2), cylinders and mixed objects."""

from __future__ import annotations

from itertools import count

import numpy as np

from parhelion.core.checks import whole
from parhelion.core.pose import Pose
from parhelion.core.random import Stream
from parhelion.world.emitters import Lamp, put
from parhelion.world.kit.buildings import Band, building
from parhelion.world.kit.instances import boxes, quads
from parhelion.world.kit.plants import tree
from parhelion.world.kit.props import KitPart, add_parts, bench, lamp_pole, person, street_light, traffic_sign
from parhelion.world.kit.vehicles import car, lorry
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import arch, board, box, cone, cylinder, plane, ring, sphere
from parhelion.world.world import World

_MATERIALS = ("concrete", "steel", "wood", "brick", "plastic", "aluminium")
NEAREST, FARTHEST = 8.0, 45.0
"""Distances of the middles of the obstacles [m]."""
HALF_VIEW_DEG = 40.0
"""Largest angle of an obstacle from the x axis, as in the field of view of an automotive radar."""


def build_cuboids(seed: int = 0, *, obstacles: int = 9) -> World:
    """Cuboids of 0.8 to 4 m in front of the sensor on a field of soil, each in its own sector.

    The report shows cuboids on level ground in front of a sensor, without dimensions: number, sizes and positions are
    ours, selected by `seed`. Sectors do not overlap, so every cuboid is visible from the origin.
    """
    obstacles = whole("world cuboids: obstacles", obstacles, 1, 24)
    rng = Stream(seed, "world/cuboids").generator()
    world = World(name="cuboids")
    sector = np.radians(2 * HALF_VIEW_DEG) / obstacles
    azimuth = (np.arange(obstacles) - (obstacles - 1) / 2) * sector
    distance = rng.permutation(np.linspace(NEAREST, FARTHEST, obstacles))
    # The diagonal of the footprint must fit into nine tenths of the sector at the distance of the obstacle.
    space = 1.8 * distance * np.tan(sector / 2)
    size = np.minimum(rng.uniform(0.8, 4.0, (obstacles, 2)), (space / np.sqrt(2.0))[:, None])
    height = rng.uniform(0.8, 4.0, obstacles)
    yaw = rng.uniform(0.0, 90.0, obstacles)
    material = rng.integers(0, len(_MATERIALS), obstacles)
    for k in range(obstacles):
        at = (distance[k] * np.cos(azimuth[k]), distance[k] * np.sin(azimuth[k]), height[k] / 2)
        world.add(
            box(float(size[k, 0]), float(size[k, 1]), float(height[k])),
            material=_MATERIALS[material[k]],
            label="cuboid",
            pose=Pose(at, rpy_deg=(0.0, 0.0, yaw[k])),
            name=f"cuboid-{k}",
            instance=k + 1,
        )
    world.add(plane(160.0, 160.0, 16), material="soil", label="ground", name="ground", instance=0)
    world.viewpoint = Pose((0.0, 0.0, 2.0))
    return world


# ---- cylinders ------------------------------------------------------------------------------------------------------
# Sixteen nested cylinders, one per ring of a 16-channel lidar (after Arce 2025, figure 3.7 b).


ELEVATIONS_DEG = tuple(range(-15, 16, 2))
"""Beam elevations of a Velodyne VLP-16, lowest first."""
SENSOR_HEIGHT = 2.0
FIRST_RADIUS = 3.0
RADIUS_STEP = 1.0
WALL = 0.02


def build_cylinders(seed: int = 0, *, material: str = "lambert-50", segments: int = 720) -> World:
    """Hollow cylinders around the axis of the sensor, each 1 m wider than the last and high enough for one ring.

    Seen from (0, 0, 2), cylinder k has an inner radius of 3 + k [m] and ends 1 degree above the k-th elevation of a
    VLP-16 (-15 to +15 degrees in steps of 2), so ring k passes over all smaller cylinders and hits this one at the
    range (3 + k) / cos(elevation). The source has sixteen cylinders, for this sensor, to isolate its rings, but no
    dimensions, so these are ours. The faces lie inside the circle by at most radius (1 - cos(pi / segments)): 0.2 mm
    for the largest. Nothing is random: `seed` has no effect.
    """
    segments = whole("world cylinders: segments", segments, 16, 10000)
    world = World(name="cylinders")
    for number, elevation in enumerate(ELEVATIONS_DEG):
        radius = FIRST_RADIUS + number * RADIUS_STEP
        height = SENSOR_HEIGHT + radius * float(np.tan(np.radians(elevation + 1.0)))
        world.add(
            ring(radius, radius + WALL, height, segments),
            material=material,
            label="cylinder",
            pose=Pose((0.0, 0.0, height / 2)),
            name=f"cylinder-{number}",
            instance=number + 1,
        )
    world.add(plane(50.0, 50.0, 10), material="concrete", label="ground", name="ground", instance=0)
    world.viewpoint = Pose((0.0, 0.0, SENSOR_HEIGHT))
    return world


# ---- Objects of distinct shape and surface around the sensor (after Arce 2025, figures 3.7 a and 4.2) ---------------


def build_mixed_objects(seed: int = 0) -> World:
    """Solids at 6 to 9 m, fine objects at 11 to 14 m, vehicles, a tree and a house at 16 to 26 m.

    In the source, the scene contains buildings, vehicles and other objects with different characteristics and
    reflectivities; shapes, positions and materials are ours. `seed` selects the tree and the curtains of the house.
    """
    rng = Stream(seed, "world/mixed-objects").generator()
    world = World(name="mixed-objects")
    world.add(plane(120.0, 120.0, 12), material="asphalt", label="ground", name="ground", instance=0)
    instances = count(1)
    for radius, first_deg, items in ((7.5, 0.0, _solids()), (12.5, 15.0, _fine_objects())):
        for number, (name, parts) in enumerate(items.items()):
            azimuth_deg = first_deg + number * 360.0 / len(items)
            angle = np.radians(azimuth_deg)
            pose = Pose((radius * np.cos(angle), radius * np.sin(angle), 0.0), rpy_deg=(0.0, 0.0, azimuth_deg))
            add_parts(world, parts, pose=pose, name=name, instance=next(instances))
            if name == "lamp":
                world.add_lamp(**put(Lamp(**street_light(5.0, 1.0)), pose).model_dump(exclude_defaults=True))
    bands = [Band(0.0, 1, 3.4, 3.4, 1.3, 0.9, 1.6), Band(3.4, 1, 3.0, 3.4, 1.2, 0.9, 1.4)]
    house = building(rng, 12.0, 9.0, bands, wall="brick", roof="gable")
    for name, parts, xyz, yaw in (
        ("house", house, (0.0, 25.0, 0.0), 0.0),
        ("saloon", car("saloon", "car-paint-red"), (18.0, -3.0, 0.0), 100.0),
        ("van", car("van", "car-paint-white"), (-17.0, 6.0, 0.0), 40.0),
        ("lorry", lorry("car-paint-blue"), (4.0, -19.0, 0.0), 15.0),
        ("tree", tree(rng, 9.0, 2.8, 2.2, 2500), (-15.0, -13.0, 0.0), 0.0),
    ):
        add_parts(world, parts, pose=Pose(xyz, rpy_deg=(0.0, 0.0, yaw)), name=name, instance=next(instances))
    world.viewpoint = Pose((0.0, 0.0, 2.0))
    return world


def _solids() -> dict[str, list[KitPart]]:
    """Solids on the ground."""

    def raised(mesh: Mesh, height: float) -> Mesh:
        return mesh.transformed(Pose((0.0, 0.0, height)))

    forms = {
        "cube": (raised(box(1.5, 1.5, 1.5), 0.75), "concrete", "cuboid"),
        "sphere": (raised(sphere(0.9, 4), 0.9), "plastic", "sphere"),
        "cylinder": (raised(cylinder(0.6, 2.4, 64), 1.2), "steel", "cylinder"),
        "cone": (raised(cone(0.9, 2.2, 64), 1.1), "car-paint-red", "cone"),
        "dark-board": (raised(board(1.6, 2.2, 0.05), 1.1), "lambert-10", "board"),
        "bright-board": (raised(board(1.6, 2.2, 0.05), 1.1), "lambert-90", "board"),
        "cardboard-boxes": (
            boxes([[0, 0, 0.4], [0.05, 0.1, 1.1]], [[1.0, 1.2, 0.8], [0.7, 0.8, 0.6]]),
            "cardboard",
            "object",
        ),
        "wood-arch": (arch(1.4, 1.7, 2.3, 0.6, pier=0.4).transformed(Pose(rpy_deg=(0, 0, 90))), "wood", "object"),
    }
    return {name: [KitPart("solid", mesh, material, label)] for name, (mesh, material, label) in forms.items()}


def _fine_objects() -> dict[str, list[KitPart]]:
    """Objects that a beam may partly miss, pass through, or hit by a reflection."""
    pane = quads([[[0, 1.2, 0.1], [0, -1.2, 0.1], [0, -1.2, 2.3], [0, 1.2, 2.3]]])
    frame = boxes(
        [[0, -1.25, 1.2], [0, 1.25, 1.2], [0, 0, 0.05], [0, 0, 2.35]],
        [[0.08, 0.1, 2.4], [0.08, 0.1, 2.4], [0.08, 2.4, 0.1], [0.08, 2.4, 0.1]],
    )
    steps = np.arange(6)
    stairs = boxes(
        np.column_stack([0.3 * steps, np.zeros(6), 0.09 * (steps + 1)]),
        np.column_stack([np.full(6, 0.3), np.full(6, 2.0), 0.18 * (steps + 1)]),
    )
    slats = boxes([[0, y, 1.0] for y in np.linspace(-1.5, 1.5, 16)], (0.03, 0.06, 2.0))
    backing = boxes([[0.08, 0, 0.6]], (0.1, 2.6, 1.2))
    mirror = quads([[[0, 0.9, 0.2], [0, -0.9, 0.2], [0, -0.9, 2.0], [0, 0.9, 2.0]]])
    mirror_back = boxes([[0.03, 0, 1.05]], (0.05, 1.9, 2.1))
    return {
        "glass-pane": [KitPart("pane", pane, "glass", "object"), KitPart("frame", frame, "aluminium", "object")],
        "stairs": [KitPart("steps", stairs, "granite", "stairs")],
        "sign": traffic_sign("stop"),
        "slats": [KitPart("slats", slats, "wood", "fence")],
        "person": person(),
        "bench": [part._replace(mesh=part.mesh.transformed(Pose(rpy_deg=(0, 0, 180)))) for part in bench()],
        "mirror": [KitPart("mirror", mirror, "mirror", "object"), KitPart("back", mirror_back, "wood", "object")],
        "tyre-wall": [KitPart("wall", backing, "rubber", "wall")],
        "lamp": lamp_pole(5.0, 1.0),
        "foam-board": [KitPart("board", board(1.8, 1.8, 0.1).transformed(Pose((0, 0, 0.9))), "foam", "board")],
    }
