"""Objects of distinct shape and surface around the sensor (after Arce 2025, figures 3.7 a and 4.2)."""

from __future__ import annotations

from itertools import count

import numpy as np

from parhelion.core.pose import Pose
from parhelion.core.random import Stream
from parhelion.world.emitters import Lamp, put
from parhelion.world.kit.buildings import Band, building
from parhelion.world.kit.instances import boxes, quads
from parhelion.world.kit.plants import tree
from parhelion.world.kit.props import Part, add_parts, bench, lamp_pole, person, street_light, traffic_sign
from parhelion.world.kit.vehicles import car, lorry
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import arch, board, box, cone, cylinder, plane, sphere
from parhelion.world.world import World


def build(seed: int = 0) -> World:
    """Plain solids at 6 to 9 m, finer things at 11 to 14 m, vehicles, a tree and a house at 16 to 26 m.

    The source says that the scene holds buildings, vehicles and further objects with different characteristics and
    reflectivities; shapes, places and materials are ours. `seed` shapes the tree and the curtains of the house.
    """
    rng = Stream(seed, "world/mixed-objects").generator()
    world = World(name="mixed-objects")
    world.add(plane(120.0, 120.0, 12), material="asphalt", label="ground", name="ground", instance=0)
    instances = count(1)
    for radius, first_deg, things in ((7.5, 0.0, _solids()), (12.5, 15.0, _fine_things())):
        for number, (name, parts) in enumerate(things.items()):
            turn = first_deg + number * 360.0 / len(things)
            angle = np.radians(turn)
            pose = Pose((radius * np.cos(angle), radius * np.sin(angle), 0.0), rpy_deg=(0.0, 0.0, turn))
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


def _solids() -> dict[str, list[Part]]:
    """Plain forms, standing on the ground."""

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
    return {name: [Part("solid", mesh, material, label)] for name, (mesh, material, label) in forms.items()}


def _fine_things() -> dict[str, list[Part]]:
    """Things that a beam may pass beside, through, or come back from by a detour."""
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
        "glass-pane": [Part("pane", pane, "glass", "object"), Part("frame", frame, "aluminium", "object")],
        "stairs": [Part("steps", stairs, "granite", "stairs")],
        "sign": traffic_sign("stop"),
        "slats": [Part("slats", slats, "wood", "fence")],
        "person": person(),
        "bench": [part._replace(mesh=part.mesh.transformed(Pose(rpy_deg=(0, 0, 180)))) for part in bench()],
        "mirror": [Part("mirror", mirror, "mirror", "object"), Part("back", mirror_back, "wood", "object")],
        "tyre-wall": [Part("wall", backing, "rubber", "wall")],
        "lamp": lamp_pole(5.0, 1.0),
        "foam-board": [Part("board", board(1.8, 1.8, 0.1).transformed(Pose((0, 0, 0.9))), "foam", "board")],
    }
