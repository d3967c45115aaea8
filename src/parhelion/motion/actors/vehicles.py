"""Moving vehicles: cars with rolling wheels, and forklifts with moving forks."""

from __future__ import annotations

from functools import cache

import numpy as np

from parhelion.core.errors import unknown_name
from parhelion.core.pose import Pose
from parhelion.core.schedule import Schedule, Scheduled, schedule
from parhelion.core.trajectory import ConstantTwist, Trajectory
from parhelion.motion.actors.body import Actor, Builder, DistanceAlong, Sliding, Turning, span_of, trajectory_of
from parhelion.world.kit.instances import boxes, struts
from parhelion.world.kit.props import KitPart
from parhelion.world.kit.vehicles import CAR_SHAPES, axles, car, head_lights, lorry
from parhelion.world.mesh import Mesh
from parhelion.world.world import World

CAR_MODELS = {"sedan": "saloon", **{name: name for name in CAR_SHAPES}, "lorry": "lorry"}
"""Names of car models, and their shapes."""
LORRY_LENGTH_M = 7.5
HIGHEST_FORK_M = 3.0
FORKLIFT_SIZE_M = (4.0, 1.1)
"""Length that a forklift needs on a route, with its forks ahead and as much behind its middle, and width."""


def car_length_m(model: str) -> float:
    """Length [m] of a car model."""
    if model not in CAR_MODELS:
        raise unknown_name("car model", model, CAR_MODELS)
    return LORRY_LENGTH_M if model == "lorry" else CAR_SHAPES[CAR_MODELS[model]].length


def car_size_m(model: str) -> tuple[float, float]:
    """Length and width [m] of a car model."""
    return car_length_m(model), 2.45 if model == "lorry" else CAR_SHAPES[CAR_MODELS[model]].width


def rolled(motion: Trajectory, times: tuple[float, float] | None, hub: tuple[float, float, float]) -> Scheduled:
    """Function from times to the distance [m] that a wheel at `hub` has rolled; of a reacting vehicle, its middle."""
    known = getattr(motion, "distance_at", None)
    live = known is not None and not getattr(motion, "known_ahead", True)
    return known if live else DistanceAlong(motion, times, hub)  # type: ignore[return-value]


def cruising_m_s(motion: Trajectory, times: tuple[float, float] | None) -> float:
    """Cruising speed [m/s] of a motion: the desired one of a reacting vehicle, otherwise the 80 % quantile."""
    wish = getattr(motion, "wish_m_s", None)
    if wish is not None:
        return float(wish)
    if isinstance(motion, ConstantTwist):
        return float(np.linalg.norm(motion.velocity))
    span = span_of(motion, times)
    grid = np.linspace(span.start_s, span.end_s, 401)
    legs = np.linalg.norm(np.diff(motion.sample(grid)[0], axis=0), axis=1)
    return float(np.quantile(legs, 0.8) / (grid[1] - grid[0]))


def add_car(
    world: World,
    motion: Trajectory | Pose,
    model: str = "sedan",
    *,
    paint: str = "car-paint-silver",
    name: str = "car",
    wheels: bool = False,
    times: tuple[float, float] | None = None,
) -> Actor:
    """Add a car whose frame (on the ground, under its middle, x forward) follows a motion.

    `model` is one of `CAR_MODELS`. With `wheels`, the four wheels are separate bodies that roll with the distance
    driven (they do not steer); those of a lorry never do. At a `Pose` the car is parked: it is static, counts as
    movable, and has no lights. A moving car has its low beams on at night. `times` is for rolling wheels on motions
    without a `start_time` and `end_time`.
    """
    if model not in CAR_MODELS:
        raise unknown_name("car model", model, CAR_MODELS)
    shape = CAR_MODELS[model]
    parts = lorry(paint) if shape == "lorry" else car(shape, paint, lit=not isinstance(motion, Pose))
    rolls = wheels and shape != "lorry"
    label = parts[0].label
    builder = Builder(world, name, label, "movable" if isinstance(motion, Pose) else "dynamic")
    carrier = motion if isinstance(motion, Pose) else trajectory_of("car", motion)
    builder.add("body", [part for part in parts if not (rolls and part.name in ("tyres", "rims"))], carrier)
    if rolls:
        s = CAR_SHAPES[shape]
        moving = trajectory_of("car", motion)
        for where, x in zip(("front", "rear"), axles(s), strict=True):
            for side, sign in (("left", 1.0), ("right", -1.0)):
                hub = (x, sign * (s.width / 2 - 0.11), s.wheel_radius)
                distance = rolled(moving, times, hub)
                turning = Turning(moving, 1, lambda t, distance=distance: distance(t) / s.wheel_radius, hub)
                builder.add(f"{where} {side} wheel", _wheel(s.wheel_radius, sign), turning)
    actor = builder.done()
    if not isinstance(motion, Pose):
        for fields in head_lights(shape):
            world.add_lamp(carrier=actor.objects[0], **fields)
    return actor


@cache
def _wheel(radius: float, side: float) -> list[KitPart]:
    """Wheel about the y axis: a tyre, and five spokes on the outer side (left 1, right -1) to show rotation."""
    tyre = struts([[0.0, -0.1, 0.0]], [[0.0, 0.1, 0.0]], radius, 24)
    angle = np.arange(5) * (2.0 * np.pi / 5.0)
    rim = 0.62 * radius * np.column_stack([np.cos(angle), np.zeros(5), np.sin(angle)])
    hub = np.array([0.0, 0.105 * side, 0.0])
    spokes = struts(np.tile(hub, (5, 1)), hub + rim, 0.02, 6)
    return [KitPart("tyre", tyre, "rubber", "car"), KitPart("rim", spokes, "aluminium", "car")]


def add_forklift(
    world: World,
    motion: Trajectory | Pose,
    fork_height: Schedule = 0.1,
    *,
    paint: str = "car-paint-yellow",
    name: str = "forklift",
) -> Actor:
    """Add a counterbalance forklift with its forks forward (+x); its frame is on the ground under its middle.

    `fork_height` [m] from 0 to 3 is one number or a schedule; the inner mast rises with the upper half of the lift.
    Outer dimensions are round figures of a truck for 1.6 t.
    """
    height = schedule("forklift: fork_height", fork_height, low=0.0, high=HIGHEST_FORK_M)
    # The inner mast is as long as the outer one and rises once the carriage has reached its top.
    mast = schedule(
        "forklift: mast", lambda t: np.maximum(height(t) - 0.5 * HIGHEST_FORK_M, 0.0), low=0.0, high=HIGHEST_FORK_M
    )
    builder = Builder(world, name, "forklift", "dynamic")
    carrier = trajectory_of("forklift", motion)
    builder.add("body", _truck(paint), carrier)
    builder.add("mast", _inner_mast(), Sliding(carrier, (0.0, 0.0, 1.0), mast))
    builder.add("forks", _forks(), Sliding(carrier, (0.0, 0.0, 1.0), height))
    return builder.done()


def _truck(paint: str) -> list[KitPart]:
    """Chassis, counterweight, seat, overhead guard, outer mast and wheels."""
    hull = boxes(
        [[-0.25, 0.0, 0.55], [-0.85, 0.0, 0.62], [0.45, 0.0, 0.35]],
        [[0.9, 0.98, 0.6], [0.5, 1.06, 0.85], [0.5, 0.9, 0.3]],
    )
    posts = np.array([[0.62, 0.42], [0.62, -0.42], [-0.80, 0.42], [-0.80, -0.42]])
    foot = np.column_stack([posts, [0.5, 0.5, 1.0, 1.0]])
    head = np.column_stack([posts * [0.75, 1.0], np.full(4, 2.08)])
    roof = boxes([[x, 0.0, 2.10] for x in np.linspace(-0.6, 0.46, 8)], (0.05, 0.95, 0.04))
    rails = boxes([[-0.07, y, 2.10] for y in (-0.45, 0.45)], (1.15, 0.05, 0.05))
    uprights = boxes([[0.78, y, 1.05] for y in (-0.33, 0.33)], (0.14, 0.07, 2.0))
    hubs = np.array([[0.5, 0.45, 0.29], [0.5, -0.45, 0.29], [-0.75, 0.42, 0.22], [-0.75, -0.42, 0.22]])
    outward = np.array([0.0, 0.09, 0.0])
    wheels = struts(hubs - outward, hubs + outward, np.array([0.29, 0.29, 0.22, 0.22]), 20)
    seat = boxes([[-0.25, 0.0, 0.95], [-0.45, 0.0, 1.2]], [[0.45, 0.46, 0.12], [0.1, 0.44, 0.5]])
    return [
        KitPart("hull", hull, paint, "forklift"),
        KitPart("guard", Mesh.merged([struts(foot, head, 0.03, 8), roof, rails, uprights]), "steel", "forklift"),
        KitPart("wheels", wheels, "rubber", "forklift"),
        KitPart("seat", seat, "plastic", "forklift"),
    ]


def _inner_mast() -> list[KitPart]:
    bars = boxes(
        [[0.78, -0.25, 1.02], [0.78, 0.25, 1.02], [0.78, 0.0, 1.95]],
        [[0.10, 0.06, 1.9], [0.10, 0.06, 1.9], [0.08, 0.5, 0.08]],
    )
    return [KitPart("mast", bars, "steel", "forklift")]


def _forks() -> list[KitPart]:
    """Carriage with load guard, and two forks of 1.07 m; z = 0 is the upper side of the forks."""
    plate = [[[0.90, 0.0, z], [0.05, 0.9, 0.1]] for z in (0.12, 0.45)]
    guard = [[[0.90, y, 0.7], [0.03, 0.03, 0.6]] for y in np.linspace(-0.4, 0.4, 6)]
    shanks = [[[0.945, y, 0.26], [0.04, 0.1, 0.6]] for y in (-0.28, 0.28)]
    blades = [[[1.46, y, -0.02], [1.07, 0.1, 0.04]] for y in (-0.28, 0.28)]
    rows = np.array(plate + guard + shanks + blades)
    return [KitPart("forks", boxes(rows[:, 0], rows[:, 1]), "steel", "forklift")]
