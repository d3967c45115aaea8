"""Cyclists who pedal, and motorcyclists: riders on two wheels that roll."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.pose import Floats, Pose, quat_multiply, quat_rotate
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Actor, Builder, Turning, trajectory_of
from parhelion.motion.actors.person import hanging, limb, shoe
from parhelion.motion.actors.vehicles import cruising_m_s, rolled
from parhelion.world.kit.instances import boxes, struts
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import loft, pipe, sphere, spindle
from parhelion.world.world import World

CADENCE_HZ = 75.0 / 60.0
"""Revolutions of the crank per second at the cruising speed: the middle of 60 to 90 rev/min."""
CYCLE_WHEEL_M, CYCLE_AXLES_M = 0.348, (0.52, -0.52)
CRANK_AT_M, CRANK_M, PEDAL_HALF_M = np.array([-0.04, 0.0, 0.30]), 0.17, 0.12
HIP_AT_M, HIP_HALF_M = np.array([-0.20, 0.0, 0.97]), 0.085
THIGH_M, SHANK_M, ANKLE_M = 0.43, 0.43, 0.07
MOTOR_WHEEL_M, MOTOR_AXLES_M = 0.31, (0.72, -0.68)
CYCLIST_SIZE_M, MOTORCYCLE_SIZE_M = (1.75, 0.62), (2.05, 0.75)


@dataclass(frozen=True, eq=False)
class PedalLeg:
    """Motion of one part of a pedalling leg: thigh, shank or foot."""

    carrier: Trajectory
    part: str
    sign: float
    """1 for the left leg, -1 for the right one."""
    crank_rad: Any
    """Function from times (n,) to angles (n,) of the crank."""

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        asked = np.asarray(times, dtype=np.float64)
        xyz, quat = self.carrier.sample(asked)
        at, turn = self._in_frame(np.asarray(self.crank_rad(asked), dtype=np.float64).reshape(-1))
        return xyz + quat_rotate(quat, at), quat_multiply(quat, turn)

    def _in_frame(self, angle: Floats) -> tuple[Floats, Floats]:
        """Position and orientation in the frame of the bicycle, from the two links between hip and ankle."""
        angle = angle + (0.0 if self.sign > 0 else np.pi)
        pedal = CRANK_AT_M + CRANK_M * np.stack([np.cos(angle), 0.0 * angle, -np.sin(angle)], axis=1)
        pedal[:, 1] = self.sign * PEDAL_HALF_M
        ankle = pedal + np.array([-0.06, 0.0, ANKLE_M + 0.02])
        if self.part == "foot":
            return ankle, np.tile([0.0, 0.0, 0.0, 1.0], (len(angle), 1))
        hip = np.broadcast_to(HIP_AT_M + np.array([0.0, self.sign * HIP_HALF_M, 0.0]), ankle.shape)
        line = ankle - hip
        distance = np.linalg.norm(line, axis=1, keepdims=True)
        line = line / distance
        along = (THIGH_M**2 - SHANK_M**2 + distance**2) / (2.0 * distance)
        forward = np.broadcast_to([1.0, 0.0, 0.0], line.shape)
        bend = forward - np.sum(forward * line, axis=1, keepdims=True) * line
        bend = bend / np.linalg.norm(bend, axis=1, keepdims=True)
        knee = hip + along * line + np.sqrt(np.maximum(THIGH_M**2 - along**2, 0.0)) * bend
        if self.part == "thigh":
            return np.array(hip), hanging(hip - knee, np.array(forward))
        return knee, hanging(knee - ankle, np.array(forward))


def add_cyclist(
    world: World,
    motion: Trajectory | Pose,
    *,
    paint: str = "car-paint-blue",
    clothes: str = "fabric-red",
    name: str = "cyclist",
    times: tuple[float, float] | None = None,
) -> Actor:
    """Add a bicycle with a rider; its frame is on the ground under its middle, x forward.

    Wheels turn by the distance over their radius, and the crank in a fixed ratio to them, with 75 rev/min at the
    cruising speed. With the rider it is about 1.75 m long, 0.6 m wide and 1.7 m high.
    """
    carrier = trajectory_of("cyclist", motion)
    builder = Builder(world, name, "bicyclist", "dynamic")
    builder.add("body", [*_bicycle(paint), *_rider(clothes)], carrier)
    distance = rolled(carrier, times, (0.0, 0.0, 0.0))
    for where, x in zip(("front", "rear"), CYCLE_AXLES_M, strict=True):
        turning = Turning(carrier, 1, lambda t: distance(t) / CYCLE_WHEEL_M, (x, 0.0, CYCLE_WHEEL_M))
        builder.add(f"{where} wheel", _wheel(CYCLE_WHEEL_M, 0.018, 12), turning)
    development = max(cruising_m_s(carrier, times), 1.0) / CADENCE_HZ

    def crank(t: Floats) -> Floats:
        return 2.0 * np.pi * np.asarray(distance(t)).reshape(-1) / development

    builder.add("crank", _crank(), Turning(carrier, 1, crank, tuple(CRANK_AT_M.tolist())))
    for side, sign in (("left", 1.0), ("right", -1.0)):
        for part, piece in _leg().items():
            builder.add(f"{side} {part}", piece, PedalLeg(carrier, part, sign, crank))
    return builder.done()


def add_motorcycle(
    world: World,
    motion: Trajectory | Pose,
    *,
    paint: str = "car-paint-red",
    clothes: str = "fabric",
    name: str = "motorcycle",
    times: tuple[float, float] | None = None,
) -> Actor:
    """Add a motorcycle with a rider, about 2.05 m long and 1.55 m high; its frame is on the ground under its middle."""
    carrier = trajectory_of("motorcycle", motion)
    builder = Builder(world, name, "motorcyclist", "dynamic")
    builder.add("body", [*_motorcycle(paint), *_motorcyclist(clothes)], carrier)
    distance = rolled(carrier, times, (0.0, 0.0, 0.0))
    for where, x in zip(("front", "rear"), MOTOR_AXLES_M, strict=True):
        turning = Turning(carrier, 1, lambda t: distance(t) / MOTOR_WHEEL_M, (x, 0.0, MOTOR_WHEEL_M))
        builder.add(f"{where} wheel", _wheel(MOTOR_WHEEL_M, 0.06, 5, 0.014), turning)
    actor = builder.done()
    if not isinstance(motion, Pose):
        world.add_lamp(
            carrier=actor.objects[0],
            xyz=(0.80, 0.0, 0.85),
            direction=(1.0, 0.0, -0.026),
            inner_deg=3.0,
            outer_deg=14.0,
            flux_lm=900.0,
            colour_temperature_k=4300.0,
        )
    return actor


# ---- meshes ----------------------------------------------------------------------------------------------------------


@cache
def _wheel(radius: float, tyre: float, spokes: int, spoke_radius: float = 0.003) -> list[KitPart]:
    """Wheel about the y axis: a torus of rubber, and spokes from the hub to the rim."""
    turn, minor = np.linspace(0, 2 * np.pi, 25), np.linspace(0, 2 * np.pi, 9)[:-1]
    ring = radius - tyre + tyre * np.cos(minor)
    rings = np.stack(
        [
            ring[None, :] * np.cos(turn)[:, None],
            np.broadcast_to(tyre * np.sin(minor), (25, 8)),
            ring[None, :] * np.sin(turn)[:, None],
        ],
        axis=-1,
    )
    angle = np.arange(spokes) * (2.0 * np.pi / spokes)
    rim = (radius - 1.8 * tyre) * np.column_stack([np.cos(angle), np.zeros(spokes), np.sin(angle)])
    metal = [
        struts(np.zeros((spokes, 3)), rim, spoke_radius, 4),
        struts([[0.0, -0.05, 0.0]], [[0.0, 0.05, 0.0]], 0.02 + 0.4 * tyre, 8),
    ]
    return [
        KitPart("tyre", loft(rings, caps=False), "rubber", "bicyclist"),
        KitPart("spokes", Mesh.merged(metal), "aluminium", "bicyclist"),
    ]


@cache
def _bicycle(paint: str) -> list[KitPart]:
    """Frame, fork, handlebar and saddle."""
    front, rear = ([x, 0.0, CYCLE_WHEEL_M] for x in CYCLE_AXLES_M)
    head, seat, crank = [0.40, 0.0, 0.84], [-0.17, 0.0, 0.84], CRANK_AT_M.tolist()
    frame = struts([head, head, seat, head], [seat, crank, crank, [0.37, 0.0, 1.0]], 0.017, 8)
    stays = [struts([rear, rear], [[crank[0], y, crank[2]], [seat[0], y, seat[2]]], 0.009, 6) for y in (-0.03, 0.03)]
    fork = struts([[0.40, y, 0.80] for y in (-0.05, 0.05)], [[front[0], y, front[2]] for y in (-0.05, 0.05)], 0.011, 6)
    bar = pipe([[0.27, -0.28, 1.0], [0.37, -0.2, 1.02], [0.37, 0.2, 1.02], [0.27, 0.28, 1.0]], 0.013, 8)
    post = struts([seat], [[-0.20, 0.0, 0.91]], 0.013, 6)
    return [
        KitPart("frame", Mesh.merged([frame, *stays, fork]), paint, "bicyclist"),
        KitPart("bar", Mesh.merged([bar, post]), "steel", "bicyclist"),
        KitPart(
            "saddle",
            boxes([[-0.22, 0, 0.93], [-0.10, 0, 0.93]], [[0.16, 0.16, 0.05], [0.14, 0.06, 0.05]]),
            "plastic",
            "bicyclist",
        ),
    ]


@cache
def _crank() -> list[KitPart]:
    """Chainring and both arms with their pedals, about the y axis; the left arm points along +x at angle 0."""
    ends = np.array([[CRANK_M, 0.07, 0.0], [-CRANK_M, -0.07, 0.0]])
    arms = struts([[0.0, 0.07, 0.0], [0.0, -0.07, 0.0]], ends, 0.012, 6)
    pedals = struts(ends, ends * [1.0, 2.4, 1.0], 0.015, 6)
    ring = struts([[0.0, -0.05, 0.0]], [[0.0, -0.045, 0.0]], 0.09, 20)
    axle = struts([[0.0, -0.07, 0.0]], [[0.0, 0.07, 0.0]], 0.02, 8)
    return [KitPart("crank", Mesh.merged([arms, pedals, ring, axle]), "steel", "bicyclist")]


def _upper_body(hip: Floats, neck: Floats, clothes: str, label: str, helmet: str) -> list[KitPart]:
    """Leaning trunk from the hips to the neck, head with a helmet."""
    line = neck - hip
    length = float(np.linalg.norm(line))
    lean = float(np.degrees(np.arctan2(line[0], line[2])))
    z = np.array([-0.10, 0.0, 0.18, 0.36, 0.48, 0.56]) * length / 0.56
    trunk = spindle([0.09, 0.12, 0.11, 0.12, 0.10, 0.06], [0.14, 0.17, 0.15, 0.18, 0.19, 0.08], z, 14)
    trunk = trunk.transformed(Pose(tuple(hip.tolist()), rpy_deg=(0.0, lean, 0.0)))
    head = neck + np.array([0.07, 0.0, 0.13])
    face = sphere(1.0, 2).scaled((0.095, 0.078, 0.115)).transformed(Pose(tuple(head.tolist())))
    top = head + np.array([-0.015, 0.0, 0.07])
    cap = sphere(1.0, 2).scaled((0.115, 0.095, 0.075)).transformed(Pose(tuple(top.tolist())))
    throat = struts([neck], [head], 0.05, 8)
    return [
        KitPart("trunk", trunk, clothes, label),
        KitPart("head", Mesh.merged([face, throat]), "skin", label),
        KitPart("helmet", cap, helmet, label),
    ]


def _arms(shoulder: Floats, elbow: Floats, hand: Floats, clothes: str, label: str) -> list[KitPart]:
    """Both arms as given for the left one."""
    sleeves, hands = [], []
    for sign in (1.0, -1.0):
        a, b, c = (point * [1.0, sign, 1.0] for point in (shoulder, elbow, hand))
        sleeves.append(pipe([a, b], [0.052, 0.044], 10))
        sleeves.append(pipe([b, c], [0.044, 0.032], 10))
        hands.append(sphere(0.045, 1).transformed(Pose(tuple(c.tolist()))))
    return [
        KitPart("sleeves", Mesh.merged(sleeves), clothes, label),
        KitPart("hands", Mesh.merged(hands), "skin", label),
    ]


@cache
def _rider(clothes: str) -> list[KitPart]:
    """Trunk, head and arms of a cyclist who sits on the saddle."""
    body = _upper_body(HIP_AT_M, np.array([0.08, 0.0, 1.42]), clothes, "bicyclist", "plastic")
    arms = _arms(
        np.array([0.06, 0.19, 1.38]), np.array([0.17, 0.26, 1.17]), np.array([0.30, 0.27, 1.02]), clothes, "bicyclist"
    )
    return [*body, *arms]


@cache
def _leg() -> dict[str, list[KitPart]]:
    """Thigh, shank and foot, each in its own frame at its upper joint."""
    sole = shoe(0.26, 0.09, ANKLE_M + 0.015).transformed(Pose((0.06, 0.0, -ANKLE_M)))
    return {
        "thigh": [KitPart("thigh", limb(THIGH_M, 0.085, 0.06), "fabric-blue", "bicyclist")],
        "shank": [KitPart("shank", limb(SHANK_M, 0.058, 0.042), "fabric-blue", "bicyclist")],
        "foot": [KitPart("shoe", sole, "rubber", "bicyclist")],
    }


@cache
def _motorcycle(paint: str) -> list[KitPart]:
    """Tank, engine, fork, handlebar, seat, tail and exhaust."""
    front, rear = MOTOR_AXLES_M
    tank = sphere(1.0, 2).scaled((0.30, 0.15, 0.15)).transformed(Pose((0.18, 0.0, 0.80)))
    tail = boxes([[-0.62, 0.0, 0.82]], (0.42, 0.18, 0.08))
    fairing = sphere(1.0, 2).scaled((0.16, 0.16, 0.17)).transformed(Pose((0.62, 0.0, 0.86)))
    guard = boxes([[front, 0.0, 0.66], [rear - 0.05, 0.0, 0.66]], [[0.42, 0.13, 0.02], [0.36, 0.16, 0.02]])
    fork = struts(
        [[0.48, y, 0.95] for y in (-0.09, 0.09)], [[front, y, MOTOR_WHEEL_M] for y in (-0.09, 0.09)], 0.026, 8
    )
    arm = struts([[-0.15, y, 0.42] for y in (-0.09, 0.09)], [[rear, y, MOTOR_WHEEL_M] for y in (-0.09, 0.09)], 0.025, 6)
    bar = pipe([[0.32, -0.36, 1.0], [0.46, -0.2, 1.03], [0.46, 0.2, 1.03], [0.32, 0.36, 1.0]], 0.015, 8)
    exhaust = pipe([[0.1, -0.13, 0.32], [-0.3, -0.15, 0.30], [-0.80, -0.16, 0.42]], 0.045, 10)
    frame = struts([[0.48, 0, 0.92], [0.48, 0, 0.9]], [[-0.35, 0, 0.74], [0.1, 0, 0.35]], 0.03, 6)
    engine = boxes([[0.05, 0.0, 0.45], [0.12, 0.0, 0.62]], [[0.45, 0.30, 0.28], [0.25, 0.24, 0.16]])
    return [
        KitPart("tank", Mesh.merged([tank, tail, fairing, guard]), paint, "motorcyclist"),
        KitPart("engine", Mesh.merged([fork, arm, bar, exhaust, frame, engine]), "steel", "motorcyclist"),
        KitPart("seat", boxes([[-0.30, 0.0, 0.82]], (0.55, 0.24, 0.08)), "plastic", "motorcyclist"),
        KitPart("plate", boxes([[-0.86, 0.0, 0.70]], (0.015, 0.2, 0.16)), "retro-sheeting", "motorcyclist"),
    ]


@cache
def _motorcyclist(clothes: str) -> list[KitPart]:
    """Rider with legs beside the tank and feet on the rests."""
    hip = np.array([-0.24, 0.0, 0.90])
    parts = _upper_body(hip, np.array([0.02, 0.0, 1.36]), clothes, "motorcyclist", "car-paint-white")
    parts += _arms(
        np.array([0.0, 0.19, 1.31]), np.array([0.16, 0.32, 1.11]), np.array([0.33, 0.34, 1.01]), clothes, "motorcyclist"
    )
    legs, shoes = [], []
    for sign in (1.0, -1.0):
        joints = [
            np.array([*p]) * [1.0, sign, 1.0] for p in ((-0.22, 0.09, 0.90), (0.18, 0.21, 0.76), (-0.10, 0.20, 0.40))
        ]
        legs += [pipe(joints[:2], [0.09, 0.062], 10), pipe(joints[1:], [0.062, 0.045], 10)]
        shoes.append(shoe(0.27, 0.1, 0.09).transformed(Pose((joints[2][0] + 0.06, joints[2][1], joints[2][2] - 0.08))))
    return [
        *parts,
        KitPart("legs", Mesh.merged(legs), "fabric-blue", "motorcyclist"),
        KitPart("shoes", Mesh.merged(shoes), "rubber", "motorcyclist"),
    ]
