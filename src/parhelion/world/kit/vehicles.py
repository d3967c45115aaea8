"""Road vehicles: cars of a few shapes, a lorry and a bicycle, standing on z = 0 with their front at +x."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from parhelion.core.errors import unknown_name
from parhelion.core.pose import Floats
from parhelion.world.kit.instances import boxes, quads, struts
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import loft, pipe

PAINTS = tuple(f"car-paint-{colour}" for colour in ("white", "black", "red", "blue", "silver", "grey", "green"))


@dataclass(frozen=True)
class CarShape:
    """Outer dimensions of a car [m]; x is relative to the middle, forward positive."""

    length: float
    width: float
    height: float
    belt: float
    """Height of the lower edge of the windows."""
    bonnet: float
    """Height of the front edge of the bonnet."""
    screen_foot: float
    """x of the foot of the windscreen."""
    roof_front: float
    roof_rear: float
    tail_foot: float
    """x of the foot of the rear window."""
    wheel_radius: float = 0.32


CAR_SHAPES = {
    "saloon": CarShape(4.62, 1.80, 1.45, 0.93, 0.70, 0.95, 0.30, -0.95, -1.60),
    "hatchback": CarShape(4.05, 1.75, 1.50, 0.95, 0.74, 0.92, 0.40, -1.35, -1.80),
    "estate": CarShape(4.70, 1.82, 1.48, 0.93, 0.72, 0.95, 0.32, -1.75, -2.15),
    "suv": CarShape(4.45, 1.86, 1.70, 1.08, 0.88, 0.95, 0.42, -1.55, -2.00, 0.36),
    "van": CarShape(5.00, 1.95, 1.98, 1.12, 0.95, 1.60, 1.05, -2.30, -2.44, 0.34),
}
"""Round figures typical of each class; no particular model."""


def car(shape: str = "saloon", paint: str = "car-paint-silver", *, lit: bool = False) -> list[KitPart]:
    """A car: body with wheel arches, glazed cabin with seats behind the glass, wheels, lamps and plates.

    With `lit`, its lamps are on at night.
    """
    if shape not in CAR_SHAPES:
        raise unknown_name("car shape", shape, CAR_SHAPES)
    own = {"body": paint, **({"front-lamps": "lamp-clear-lit", "rear-lamps": "lamp-red-lit"} if lit else {})}
    return [part._replace(material=own.get(part.name, part.material)) for part in _unpainted(shape)]


@cache
def _unpainted(shape: str) -> tuple[KitPart, ...]:
    """Parts of a car, cached per shape."""
    s = CAR_SHAPES[shape]
    foot, head = _cabin_rings(s)
    front_axle, rear_axle = axles(s)
    hub = np.array([[x, y, s.wheel_radius] for x in (front_axle, rear_axle) for y in (-1.0, 1.0)])
    outward = hub * [0, 1, 0]
    hub = hub * [1, s.width / 2 - 0.11, 1]
    wheels = struts(hub - 0.1 * outward, hub + 0.1 * outward, s.wheel_radius, 24)
    rims = struts(hub + 0.09 * outward, hub + 0.106 * outward, 0.62 * s.wheel_radius, 16)
    body = Mesh.merged([_body(s), _roof(s, head), _pillars(foot, head), _mirrors(s)])
    return (
        KitPart("body", body, PAINTS[0], "car"),
        KitPart("windows", _windows(foot, head), "glass", "car"),
        KitPart("tyres", wheels, "rubber", "car"),
        KitPart("rims", rims, "aluminium", "car"),
        KitPart("trim", _trim(s), "plastic-black", "car"),
        KitPart("front-lamps", _front_lamps(s), "lamp-clear", "car"),
        KitPart("rear-lamps", _rear_lamps(s), "lamp-red", "car"),
        KitPart("plates", _plates(s), "retro-sheeting", "car"),
        KitPart("seats", _seats(s), "fabric", "car"),
    )


def head_lights(shape: str = "saloon") -> list[dict[str, Any]]:
    """Fields of the low beams of a car, for `World.add_lamp`: 900 lm each, 9 kcd, 1.5 degrees down (round figures)."""
    if shape == "lorry":
        front, across, height = 3.76, 0.95, 0.9
    elif shape in CAR_SHAPES:
        s = CAR_SHAPES[shape]
        front, across, height = s.length / 2 + 0.01, s.width / 2 - 0.25, s.bonnet - 0.08
    else:
        raise unknown_name("car shape", shape, CAR_SHAPES)
    return [
        {
            "xyz": (front, sign * across, height),
            "direction": (1.0, 0.0, -0.026),
            "inner_deg": 3.0,
            "outer_deg": 14.0,
            "flux_lm": 900.0,
            "colour_temperature_k": 4300.0,
        }
        for sign in (1.0, -1.0)
    ]


def axles(s: CarShape) -> tuple[float, float]:
    """Positions of the front and the rear axle along x [m]."""
    return s.length / 2 - 0.86, -s.length / 2 + 0.82


def _body(s: CarShape) -> Mesh:
    """Lower body up to the windows: a side view with wheel arches, extruded across the width with rounded edges."""
    half = s.length / 2
    front_axle, rear_axle = axles(s)
    arch = s.wheel_radius + 0.06
    turn = np.linspace(np.pi, 0.0, 9)
    sill = 0.20

    def arch_points(x: float) -> Floats:
        return np.column_stack([x + arch * np.cos(turn), np.maximum(sill, s.wheel_radius + arch * np.sin(turn))])

    profile = np.vstack(
        [
            [[-half + 0.10, sill + 0.08]],
            arch_points(rear_axle),
            arch_points(front_axle),
            [[half - 0.12, sill], [half - 0.01, 0.34], [half, 0.55], [half - 0.10, s.bonnet]],
            [[half - 0.45, s.bonnet + 0.07], [s.screen_foot, s.belt + 0.02], [s.tail_foot, s.belt + 0.02]],
            [[-half + 0.06, s.belt - 0.02], [-half, 0.60], [-half + 0.01, 0.38]],
        ]
    )
    profile[1, 1] = profile[9, 1] = profile[10, 1] = profile[18, 1] = sill
    outer = profile * [0.975, 1.0] + np.where(profile[:, 1:] > 0.5, [[0.0, -0.05]], [[0.0, 0.02]])
    across = s.width / 2
    rings = [(across, outer), (across - 0.10, profile), (-across + 0.10, profile), (-across, outer)]
    skin = loft(np.stack([np.column_stack([p[:, 0], np.full(len(p), y), p[:, 1]]) for y, p in rings]))
    # Without a floor pan, the wheel arches would be tunnels from side to side.
    pan = boxes([[0.0, 0.0, 0.45]], (s.length - 0.9, s.width - 0.56, 0.5))
    return Mesh.merged([skin, pan])


def _cabin_rings(s: CarShape) -> tuple[Floats, Floats]:
    """Corners (4, 3) of the cabin at the belt and under the roof, counter-clockwise from the front right."""
    low, high = s.width / 2 - 0.09, s.width / 2 - 0.25
    top = s.height - 0.05
    foot = [[s.screen_foot, -low], [s.screen_foot, low], [s.tail_foot, low], [s.tail_foot, -low]]
    head = [[s.roof_front, -high], [s.roof_front, high], [s.roof_rear, high], [s.roof_rear, -high]]
    return np.column_stack([foot, np.full(4, s.belt)]), np.column_stack([head, np.full(4, top)])


def _roof(s: CarShape, head: Floats) -> Mesh:
    middle = head.mean(axis=0)
    outline = head[:, :2] - middle[:2]
    insets = np.array([-0.03, -0.03, 0.10])
    rings = np.empty((3, 4, 3))
    rings[..., :2] = outline[None] * (1.0 - insets[:, None, None] / np.abs(outline).max(axis=0)) + middle[:2]
    rings[..., 2] = np.array([s.height - 0.06, s.height - 0.02, s.height])[:, None]
    return loft(rings)


def _pillars(foot: Floats, head: Floats) -> Mesh:
    """Four corner pillars and one between the side windows."""
    starts = np.vstack([foot, _between(foot)])
    ends = np.vstack([head, _between(head)])
    return struts(starts, ends, 0.035, 6)


def _between(ring: Floats) -> Floats:
    """Points a little behind the middle of the right and left edges of a cabin ring."""
    return np.stack([0.48 * ring[0] + 0.52 * ring[3], 0.48 * ring[1] + 0.52 * ring[2]])


def _windows(foot: Floats, head: Floats) -> Mesh:
    following = np.roll(np.arange(4), -1)
    return quads(np.stack([foot, foot[following], head[following], head], axis=1))


def _mirrors(s: CarShape) -> Mesh:
    x = s.screen_foot - 0.28
    y = s.width / 2 + 0.02
    return boxes([[x, -y, s.belt + 0.07], [x, y, s.belt + 0.07]], (0.09, 0.2, 0.13))


def _trim(s: CarShape) -> Mesh:
    """Grille and bumper strip."""
    half = s.length / 2
    return boxes([[half - 0.02, 0.0, 0.50], [-half + 0.02, 0.0, 0.40]], [[0.06, 0.8, 0.14], [0.06, 1.2, 0.1]])


def _front_lamps(s: CarShape) -> Mesh:
    x, y = s.length / 2 - 0.075, s.width / 2 - 0.24
    return boxes([[x, y, 0.64], [x, -y, 0.64]], (0.12, 0.3, 0.12))


def _rear_lamps(s: CarShape) -> Mesh:
    x, y = -s.length / 2 + 0.03, s.width / 2 - 0.22
    return boxes([[x, y, 0.72], [x, -y, 0.72]], (0.12, 0.22, 0.16))


def _plates(s: CarShape) -> Mesh:
    half = s.length / 2
    return boxes([[half + 0.012, 0.0, 0.40], [-half - 0.012, 0.0, 0.52]], (0.02, 0.52, 0.11))


def _seats(s: CarShape) -> Mesh:
    """Backrests and headrests seen through the windows, and the shelf under the windscreen."""
    rows = [s.roof_front - 0.45, max(s.roof_front - 1.35, s.roof_rear + 0.15)]
    at, sizes = [], []
    for x in rows:
        for y in (-0.36, 0.36):
            at += [[x, y, s.belt + 0.08], [x - 0.03, y, s.belt + 0.27]]
            sizes += [[0.12, 0.46, 0.22], [0.08, 0.24, 0.14]]
    return boxes(at, sizes)


def lorry(paint: str = "car-paint-white") -> list[KitPart]:
    """A two-axle box lorry about 7.5 m long and 3.3 m high."""
    cab = boxes([[2.9, 0, 0.95]], (1.6, 2.3, 0.9))
    foot = np.array([[3.7, -1.13, 1.4], [3.7, 1.13, 1.4], [2.1, 1.13, 1.4], [2.1, -1.13, 1.4]])
    head = np.array([[3.45, -1.08, 2.4], [3.45, 1.08, 2.4], [2.1, 1.08, 2.4], [2.1, -1.08, 2.4]])
    roof = boxes([[2.78, 0, 2.43]], (1.4, 2.2, 0.1))
    hubs = np.array([[x, y, 0.48] for x in (2.7, -2.2) for y in (-1.0, 1.0)])
    outward = hubs * [0, 0.14, 0]
    return [
        KitPart("cab", Mesh.merged([cab, roof, struts(foot, head, 0.06, 6)]), paint, "truck"),
        KitPart("windows", _windows(foot, head), "glass", "truck"),
        KitPart("box", boxes([[-0.85, 0, 2.1]], (5.6, 2.45, 2.4)), "aluminium", "truck"),
        KitPart("frame", boxes([[0.0, 0, 0.72]], (7.0, 0.9, 0.35)), "steel", "truck"),
        KitPart("tyres", struts(hubs - outward, hubs + outward, 0.48, 24), "rubber", "truck"),
        KitPart("seats", boxes([[2.4, -0.5, 1.6], [2.4, 0.5, 1.6]], (0.15, 0.5, 0.6)), "cotton", "truck"),
        KitPart("plates", boxes([[-3.67, 0, 0.75], [3.72, 0, 0.7]], (0.02, 0.52, 0.11)), "retro-sheeting", "truck"),
    ]


def bicycle() -> list[KitPart]:
    """A bicycle upright on its wheels."""
    turn = np.linspace(0, 2 * np.pi, 25)[:-1]
    minor = np.linspace(0, 2 * np.pi, 5)[:-1]
    radius = 0.33
    rings = np.stack(
        [
            (radius + 0.018 * np.cos(minor))[None, :] * np.cos(turn)[:, None],
            np.broadcast_to(0.018 * np.sin(minor), (24, 4)),
            (radius + 0.018 * np.cos(minor))[None, :] * np.sin(turn)[:, None],
        ],
        axis=-1,
    )
    rings = np.concatenate([rings, rings[:1]])
    tyre = loft(rings, caps=False)
    hubs = np.array([[-0.52, 0.0, 0.348], [0.52, 0.0, 0.348]])
    tyres = Mesh.merged([Mesh(tyre.vertices + hub, tyre.faces) for hub in hubs])
    rim = 0.315 * np.column_stack([np.cos(turn[::2]), np.zeros(12), np.sin(turn[::2])])
    spokes = struts(np.repeat(hubs, 12, axis=0), np.vstack([rim + hubs[0], rim + hubs[1]]), 0.003, 3)
    joints = np.array(
        [[0.42, 0, 0.85], [-0.14, 0, 0.90], [-0.04, 0, 0.33], [-0.52, 0, 0.348], [0.52, 0, 0.348], [0.38, 0, 1.02]]
    )
    frame = struts(joints[[0, 0, 1, 2, 1, 0, 0]], joints[[1, 2, 2, 3, 3, 4, 5]], 0.016, 6)
    bar = pipe([[0.30, -0.28, 1.0], [0.38, -0.2, 1.03], [0.38, 0.2, 1.03], [0.30, 0.28, 1.0]], 0.013, 6)
    return [
        KitPart("frame", Mesh.merged([frame, bar, spokes]), "steel", "bicycle"),
        KitPart("tyres", tyres, "rubber", "bicycle"),
        KitPart("saddle", boxes([[-0.16, 0, 0.94]], (0.26, 0.14, 0.06)), "plastic", "bicycle"),
    ]
