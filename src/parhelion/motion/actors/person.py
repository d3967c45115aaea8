"""People who walk: a body of rigid parts put into a world along a motion."""

from __future__ import annotations

import numpy as np

from parhelion.core.pose import Pose
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Actor, Builder, trajectory_of
from parhelion.motion.actors.gait import FOREARM, SIDES, UPPER_ARM, PartMotion, Walk
from parhelion.motion.checks import within
from parhelion.world.kit.many import struts
from parhelion.world.kit.props import Part
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import circle, loft, pipe, sphere
from parhelion.world.world import World


def add_person(
    world: World,
    motion: Trajectory | Pose,
    height_m: float = 1.75,
    *,
    name: str = "person",
    clothes: str = "cotton",
    trousers: str = "fabric-blue",
    times: tuple[float, float] | None = None,
) -> Actor:
    """A person who walks along a motion (its frame on the ground, x forward), and stands where it rests.

    Steps follow from speed and height (`steps.py`), feet stay where they are put, legs and arms swing. Made for walking
    up to about 2.5 m/s; faster people run after a fashion. `height_m` is from 0.8 to 2.3; `clothes` and `trousers` are
    materials. `times` (first, last) [s] is for motions without a `start_time` and `end_time`: when the person may walk.
    """
    height = within("person: height_m", height_m, 0.8, 2.3)
    walk = Walk(trajectory_of("person", motion), height, times)
    builder = Builder(world, name, "person", "dynamic")
    for part, pieces in _pieces(walk, clothes, trousers).items():
        builder.add(part, pieces, PartMotion(walk, part))
    return builder.done()


def _pieces(walk: Walk, clothes: str, trousers: str) -> dict[str, list[Part]]:
    """Triangles of each part in its own frame, origin at the joint nearest to the hips."""
    height = walk.height_m
    s = height / 1.75

    def piece(name: str, mesh: Mesh, material: str) -> Part:
        return Part(name, mesh, material, "person")

    parts = {"torso": [piece("torso", _torso(walk, s), clothes), piece("head", _head(walk, s), "skin")]}
    upper, lower = UPPER_ARM * height, FOREARM * height
    foot = walk.toe_m + walk.heel_m
    shoe = _shoe(foot, 0.09 * s, walk.ankle_m + 0.015 * s).transformed(
        Pose((0.5 * (walk.toe_m - walk.heel_m), 0.0, -walk.ankle_m))
    )
    for side, _ in SIDES:
        parts[f"{side} thigh"] = [piece("thigh", _limb(walk.thigh_m, 0.088 * s, 0.062 * s), trousers)]
        parts[f"{side} shank"] = [piece("shank", _limb(walk.shank_m, 0.062 * s, 0.045 * s), trousers)]
        parts[f"{side} foot"] = [piece("shoe", shoe, "rubber")]
        parts[f"{side} upper arm"] = [piece("sleeve", _limb(upper, 0.055 * s, 0.045 * s), clothes)]
        hand = sphere(1.0, 1).scaled((0.045 * s, 0.03 * s, 0.09 * s)).transformed(Pose((0.0, 0.0, -lower - 0.07 * s)))
        parts[f"{side} forearm"] = [
            piece("sleeve", _limb(lower, 0.045 * s, 0.034 * s), clothes),
            piece("hand", hand, "skin"),
        ]
    return parts


def _limb(length: float, top: float, bottom: float) -> Mesh:
    """A tapered limb that hangs from the origin, with round ends so that bent joints show no gap."""
    ends = np.array([0.6, 0.9, 1.0])
    radii = [*(top * ends), *(bottom * ends[::-1])]
    down = [0.8 * top, 0.4 * top, 0.0, -length, -length - 0.4 * bottom, -length - 0.8 * bottom]
    return pipe([[0.0, 0.0, z] for z in down], radii, 10)


def _torso(walk: Walk, s: float) -> Mesh:
    """Trunk from the seat to the neck, in the frame of the hips."""
    z = np.array([0.82, 0.95, 1.10, 1.28, 1.40, 1.46]) * s - walk.hip_m
    half_width = np.array([0.15, 0.17, 0.15, 0.18, 0.20, 0.09]) * s
    half_depth = np.array([0.09, 0.11, 0.10, 0.12, 0.10, 0.06]) * s
    ring = circle(1.0, 14)
    rings = np.stack(
        [
            ring[None, :, 0] * half_depth[:, None],
            ring[None, :, 1] * half_width[:, None],
            np.broadcast_to(z[:, None], (len(z), len(ring))),
        ],
        axis=-1,
    )
    return loft(rings)


def _head(walk: Walk, s: float) -> Mesh:
    head = sphere(1.0, 2).scaled((0.095 * s, 0.078 * s, 0.12 * s)).transformed(Pose((0.01, 0.0, 1.63 * s - walk.hip_m)))
    neck = struts([[0.0, 0.0, 1.44 * s - walk.hip_m]], [[0.01, 0.0, 1.55 * s - walk.hip_m]], 0.05 * s, 8)
    return Mesh.merged([head, neck])


def _shoe(length: float, width: float, height: float) -> Mesh:
    """A shoe with a flat sole at z = 0, centred in x and y, lower at the toe."""
    x = np.array([-0.5, -0.42, 0.05, 0.38, 0.5]) * length
    top = np.array([0.8, 1.0, 1.0, 0.55, 0.35]) * height
    half = np.array([0.36, 0.42, 0.46, 0.46, 0.30]) * width
    rings = np.stack(
        [
            np.stack([x, -half, np.zeros(5)], axis=1),
            np.stack([x, half, np.zeros(5)], axis=1),
            np.stack([x, 0.8 * half, top], axis=1),
            np.stack([x, -0.8 * half, top], axis=1),
        ],
        axis=1,
    )
    return loft(rings)
