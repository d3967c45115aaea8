"""Street furniture and people: composite objects as lists of parts, standing on z = 0, x forward."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.pose import Floats, Pose
from parhelion.world.kit.instances import boxes, copies, moved, quads, struts
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import circle, pipe, prism, sphere, spindle
from parhelion.world.world import World


class KitPart(NamedTuple):
    """Part of a composite object, with one material and one label."""

    name: str
    mesh: Mesh
    material: str
    label: str


def add_parts(world: World, parts: Iterable[KitPart], *, pose: Pose = Pose(), name: str, instance: int) -> None:
    """Add the parts of one object at `pose`, named `<name>/<part>`, under one instance number."""
    for part in parts:
        world.add(
            part.mesh,
            material=part.material,
            label=part.label,
            pose=pose,
            name=f"{name}/{part.name}",
            instance=instance,
        )


def placed(parts: Iterable[KitPart], xyz: Sequence[float], yaw: float = 0.0) -> list[KitPart]:
    """Parts moved to `xyz` [m] and rotated by `yaw` [rad] about z."""
    pose = Pose(xyz, rpy_deg=(0.0, 0.0, float(np.degrees(yaw))))
    return [part._replace(mesh=part.mesh.transformed(pose)) for part in parts]


def grouped(parts: Iterable[KitPart]) -> list[KitPart]:
    """Parts of the same name, material and label merged, in order of first appearance."""
    groups: dict[tuple[str, str, str], list[Mesh]] = {}
    for part in parts:
        groups.setdefault((part.name, part.material, part.label), []).append(part.mesh)
    return [KitPart(name, Mesh.merged(meshes), material, label) for (name, material, label), meshes in groups.items()]


class Outfit(NamedTuple):
    """Materials of a person's clothes and hair."""

    clothes: str = "cotton"
    trousers: str = "fabric-blue"
    hair: str = "hair-dark"
    long_hair: bool = False
    """True for hair to the shoulders."""


OUTFITS = (
    Outfit(),
    Outfit("fabric-red", "fabric-black"),
    Outfit("fabric-black", "fabric-blue", "hair-fair"),
    Outfit("fabric", "fabric-black"),
    Outfit("fabric-green", "cotton"),
    Outfit("fabric-blue", "fabric-black", "hair-fair"),
    Outfit("fabric-black", "fabric"),
    Outfit("cotton", "fabric-black"),
)
"""Outfits of the people in built-in worlds."""


def person(height: float = 1.75, stride: float = 0.3, outfit: Outfit = OUTFITS[0]) -> list[KitPart]:
    """A walking adult `height` [m] tall; `stride` [m] is half the step length. Proportions are round figures."""
    s = height / 1.75
    torso_z = [0.86, 0.95, 1.10, 1.28, 1.40, 1.46]
    half_width = [0.16, 0.17, 0.15, 0.18, 0.19, 0.09]
    half_depth = [0.10, 0.11, 0.10, 0.12, 0.10, 0.06]
    torso = spindle(half_depth, half_width, torso_z, 12)
    swing = 0.7 * stride
    left_arm = pipe([[0, 0.20, 1.42], [-0.1 * swing, 0.25, 1.14], [swing, 0.24, 0.92]], [0.055, 0.045, 0.035], 8)
    right_arm = pipe([[0, -0.20, 1.42], [-0.8 * swing, -0.25, 1.14], [-swing, -0.24, 0.90]], [0.055, 0.045, 0.035], 8)
    legs = [
        pipe([[0, y, 0.90], [0.55 * x + 0.04, y, 0.48], [x, y, 0.08]], [0.088, 0.062, 0.045], 8)
        for x, y in ((-stride, 0.09), (stride, -0.09))
    ]
    head = sphere(1.0, 2).scaled((0.095, 0.078, 0.12)).transformed(Pose((0.01, 0, 1.63)))
    neck = struts([[0, 0, 1.44]], [[0.01, 0, 1.55]], 0.05, 8)
    hands = copies(sphere(0.045, 1), [[swing, 0.24, 0.87], [-swing, -0.24, 0.85]])
    shoes = boxes([[-stride + 0.05, 0.09, 0.04], [stride + 0.05, -0.09, 0.04]], (0.26, 0.09, 0.08))
    hair, face = hair_and_face(head, (0.01, 0.0, 1.63), 1.0)
    if outfit.long_hair:
        hair = Mesh.merged([hair, long_hair((0.01, 0.0, 1.63), 1.0)])
    meshes = {
        "clothes": (Mesh.merged([torso, left_arm, right_arm]), outfit.clothes),
        "trousers": (Mesh.merged(legs), outfit.trousers),
        "skin": (Mesh.merged([face, neck, hands]), "skin"),
        "hair": (hair, outfit.hair),
        "shoes": (shoes, "rubber"),
    }
    return [KitPart(name, mesh.scaled(s), material, "person") for name, (mesh, material) in meshes.items()]


def hair_and_face(head: Mesh, middle: tuple[float, float, float], scale: float) -> tuple[Mesh, Mesh]:
    """Triangles of a head that are covered by hair (the top and the back) and the others; x is forward.

    `middle` is that of the head [m], and `scale` is 1 for a person of 1.75 m.
    """
    x, _, z = ((head.vertices[head.faces].mean(axis=1) - middle) / scale).T
    covered = (z > 0.06) | ((x < -0.01) & (z > -0.07))
    return head.select(np.flatnonzero(covered)), head.select(np.flatnonzero(~covered))


def long_hair(middle: tuple[float, float, float], scale: float) -> Mesh:
    """Hair from the back of the head to the shoulders; arguments as for `hair_and_face`."""
    depth, width = np.array([0.035, 0.045, 0.04, 0.02]) * scale, np.array([0.06, 0.085, 0.09, 0.06]) * scale
    fall = spindle(depth, width, np.array([-0.22, -0.15, 0.0, 0.08]) * scale, 12)
    return fall.transformed(Pose((middle[0] - 0.065 * scale, middle[1], middle[2])))


def lamp_pole(height: float = 7.0, arm: float = 1.6) -> list[KitPart]:
    """A street lamp: a tapered pole, an arm of length `arm` [m] along +x, and a lamp head."""
    pole = pipe([[0.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, height - 0.5]], [0.09, 0.075, 0.045], 12)
    bracket = pipe([[0, 0, height - 0.55], [0.15 * arm, 0, height - 0.1], [arm, 0, height]], 0.03, 8)
    foot = struts([[0, 0, 0.0]], [[0, 0, 0.35]], 0.12, 12)
    head = boxes([[arm + 0.25, 0, height + 0.02]], (0.7, 0.26, 0.10))
    lens = boxes([[arm + 0.28, 0, height - 0.045]], (0.5, 0.2, 0.03))
    return [
        KitPart("pole", Mesh.merged([pole, bracket, foot]), "galvanised-steel", "pole"),
        KitPart("head", head, "aluminium", "pole"),
        KitPart("lens", lens, "street-lens", "pole"),
    ]


def street_light(height: float = 7.0, arm: float = 1.6) -> dict[str, Any]:
    """Fields of the lamp of `lamp_pole`, for `World.add_lamp`: 6000 lm of warm white LEDs, downward (round figures)."""
    return {
        "xyz": (arm + 0.28, 0.0, height - 0.07),
        "direction": (0.0, 0.0, -1.0),
        "inner_deg": 50.0,
        "outer_deg": 80.0,
        "flux_lm": 6000.0,
        "colour_temperature_k": 3000.0,
    }


def traffic_light(height: float = 3.4, arm: float = 0.0) -> list[KitPart]:
    """Traffic light that faces -x; with `arm` [m], a second head hangs from an arm along +y."""
    top = height + (2.0 if arm > 0 else 0.0)
    pole = [pipe([[0.0, 0.0, 0.0], [0.0, 0.0, top]], 0.07, 12)]
    heads = [(0.0, height - 0.45)]
    if arm > 0:
        pole.append(pipe([[0, 0, top - 0.1], [0, arm, top]], 0.05, 8))
        heads.append((arm, top - 0.5))
    at = np.array([[-0.14, y, z] for y, z in heads])
    lights = np.concatenate([moved(at, -0.11, 0.0, dz) for dz in (-0.3, 0.0, 0.3)])
    lens = struts(lights, moved(lights, -0.02, 0, 0), 0.10, 12)
    shades = boxes(moved(lights, -0.07, 0, 0.115), (0.16, 0.22, 0.012))
    return [
        KitPart("pole", Mesh.merged(pole), "galvanised-steel", "pole"),
        KitPart("housing", Mesh.merged([boxes(at, (0.2, 0.3, 0.95)), shades]), "plastic", "traffic-light"),
        KitPart("lens", lens, "plastic", "traffic-light"),
    ]


def traffic_sign(kind: str = "round", height: float = 2.4) -> list[KitPart]:
    """A sign plate of reflective sheeting on a post, facing -x; `kind` is round, triangle, square or stop."""
    outline = {
        "round": circle(0.3, 32),
        "triangle": circle(0.42, 3),
        "square": circle(0.45, 4) @ np.array([[np.sqrt(0.5), np.sqrt(0.5)], [-np.sqrt(0.5), np.sqrt(0.5)]]),
        "stop": circle(0.38, 8),
    }[kind]
    outline = outline @ np.array([[0.0, 1.0], [-1.0, 0.0]])  # first corner up
    plate = prism(outline, 0.004).transformed(Pose((-0.045, 0, height), rpy_deg=(90, 0, -90)))
    back = prism(outline * 0.98, 0.006).transformed(Pose((-0.039, 0, height), rpy_deg=(90, 0, -90)))
    return [
        KitPart("pole", struts([[0, 0, 0]], [[0, 0, height + 0.3]], 0.03, 10), "galvanised-steel", "pole"),
        KitPart("back", back, "aluminium", "traffic-sign"),
        KitPart("plate", plate, "retro-sheeting", "traffic-sign"),
    ]


def bench(length: float = 1.8) -> list[KitPart]:
    """A park bench whose back is at -x: wooden slats on two steel frames."""
    seat = [[x, 0.0, 0.45] for x in (-0.16, -0.03, 0.10, 0.23)]
    back = [[-0.25, 0.0, z] for z in (0.60, 0.72, 0.84)]
    slats = Mesh.merged([boxes(seat, (0.10, length, 0.035)), boxes(back, (0.03, length, 0.09))])
    sides = np.array([-0.4, 0.4]) * length
    legs = [[[x, y, 0.0], [x, y, z]] for y in sides for x, z in ((0.22, 0.43), (-0.22, 0.88))]
    rails = [[[-0.22, y, 0.42], [0.27, y, 0.42]] for y in sides]
    bars = np.array(legs + rails)
    return [
        KitPart("slats", slats, "wood", "other-object"),
        KitPart("frame", struts(bars[:, 0], bars[:, 1], 0.02, 6), "steel", "other-object"),
    ]


def litter_bin(height: float = 0.95) -> list[KitPart]:
    """A litter bin: a steel drum with a plastic lid."""
    drum = struts([[0, 0, 0.0]], [[0, 0, height - 0.1]], 0.22, 20)
    lid = struts([[0, 0, height - 0.1]], [[0, 0, height]], np.array([[0.24, 0.16]]), 20)
    return [KitPart("drum", drum, "steel", "other-object"), KitPart("lid", lid, "plastic", "other-object")]


def fence(start: ArrayLike, end: ArrayLike, height: float = 1.2, base: float = 0.0) -> list[KitPart]:
    """A fence of vertical steel bars between two points (x, y) [m]: bars every 0.14 m, posts about every 2 m."""
    a, b = np.asarray(start, dtype=np.float64), np.asarray(end, dtype=np.float64)
    length = float(np.linalg.norm(b - a))
    yaw = float(np.arctan2(b[1] - a[1], b[0] - a[0]))

    def along(count: int, z: float) -> Floats:
        fraction = np.linspace(0.0, 1.0, count)[:, None]
        return np.column_stack([a + fraction * (b - a), np.full(count, base + z)])

    bars = boxes(along(max(2, int(length / 0.14)), 0.52 * height), (0.016, 0.016, 0.9 * height), yaw)
    posts = boxes(along(max(2, int(length / 2.0) + 1), height / 2), (0.06, 0.06, height), yaw)
    middle = (a + b) / 2
    rails = boxes([[*middle, base + f * height] for f in (0.15, 0.92)], (length, 0.03, 0.04), yaw)
    return [KitPart("fence", Mesh.merged([bars, posts, rails]), "steel", "fence")]


def shelter(length: float = 4.0) -> list[KitPart]:
    """A glazed bus shelter, open along +x, with a bench inside."""
    half, depth, height = length / 2, 1.4, 2.4
    posts = np.array([[x, y, 0.0] for x in (-depth / 2, depth / 2) for y in (-half, 0.0, half)])
    corners = np.array(
        [[depth / 2, -half], [-depth / 2, -half], [-depth / 2, 0.0], [-depth / 2, half], [depth / 2, half]]
    )
    low, high = (np.column_stack([corners, np.full(5, z)]) for z in (0.3, 2.2))
    frame = Mesh.merged(
        [
            struts(posts, moved(posts, 0, 0, height), 0.04, 8),
            boxes([[0, 0, height + 0.05]], (depth + 0.4, length + 0.3, 0.1)),
        ]
    )
    seat = boxes(
        [[-0.35, 0.0, 0.45], [-0.35, -half / 2, 0.22], [-0.35, half / 2, 0.22]],
        [[0.4, length * 0.7, 0.05], [0.06, 0.06, 0.44], [0.06, 0.06, 0.44]],
    )
    return [
        KitPart("frame", frame, "aluminium", "other-object"),
        KitPart("panes", quads(np.stack([low[:-1], low[1:], high[1:], high[:-1]], axis=1)), "glass", "other-object"),
        KitPart("seat", seat, "wood", "other-object"),
    ]


def hydrant() -> list[KitPart]:
    """A pillar hydrant about 0.8 m tall."""
    body = Mesh.merged(
        [
            struts([[0, 0, 0.0], [0, 0, 0.1]], [[0, 0, 0.1], [0, 0, 0.7]], np.array([0.16, 0.11]), 14),
            sphere(0.125, 2).transformed(Pose((0, 0, 0.7))),
            struts([[0, -0.2, 0.5], [0.0, 0, 0.5]], [[0, 0.2, 0.5], [0.2, 0, 0.5]], 0.05, 10),
        ]
    )
    return [KitPart("body", body, "car-paint-red", "other-object")]
