"""Long vehicles: buses, trams of several cars on a track, trucks with a trailer; and flat automated vehicles."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any, Protocol

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Actor, Builder, Turning, about, heading_of, span_of, trajectory_of
from parhelion.motion.actors.vehicles import rolled
from parhelion.world.kit.instances import boxes, quads, struts
from parhelion.world.kit.props import KitPart
from parhelion.world.mesh import Mesh
from parhelion.world.world import World

BUS_SIZE_M = (12.0, 2.55)
BUS_HEIGHT_M, BUS_WHEEL_M, BUS_AXLES_M = 3.1, 0.48, (3.3, -2.6)
TRAM_CAR_M, TRAM_WIDTH_M, TRAM_HEIGHT_M, TRAM_JOINT_M, TRAM_WHEEL_M = 9.0, 2.4, 3.4, 0.8, 0.33
TRAM_BOGIE_M = 2.9
"""Distance [m] of each bogie from the middle of its car."""
TRACTOR_M, TRACTOR_WHEEL_M, TRACTOR_AXLES_M, HITCH_M = 6.0, 0.5, (1.9, -1.7), -1.5
TRAILER_M, TRAILER_AXLE_M, TRAILER_FRONT_M = 11.0, 7.5, 1.2
"""Length of the trailer, distance of its (middle) axle behind the hitch, and its overhang in front of the hitch [m]."""
TRUCK_SIZE_M = (TRACTOR_M / 2 - HITCH_M - TRAILER_FRONT_M + TRAILER_M, 2.5)
AGV_SIZE_M = (1.6, 0.9)


def tram_size_m(cars: int = 3) -> tuple[float, float]:
    """Length and width [m] of a tram."""
    return cars * TRAM_CAR_M + (cars - 1) * TRAM_JOINT_M, TRAM_WIDTH_M


# ---- tracks ----------------------------------------------------------------------------------------------------------


class Track(Protocol):
    """Path by distance."""

    def at(self, distance_m: Floats) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and headings (n,) [rad] at distances (n,) [m]."""
        ...


class RouteTrack:
    """Path of a closed route."""

    def __init__(self, route: Any) -> None:
        self._route, self.length_m = route, float(route.length_m)
        self.closed = getattr(route, "closed", True)

    def at(self, distance_m: Floats) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and headings (n,) [rad]; an open path continues straight before its start."""
        xyz, quat = self._route.sample(distance_m)
        heading = heading_of(quat)
        if not self.closed:
            before = np.minimum(distance_m, 0.0)
            xyz = xyz + before[:, None] * np.column_stack([np.cos(heading), np.sin(heading), 0.0 * heading])
        return xyz, heading


def track_of(motion: Trajectory, times: tuple[float, float] | None) -> tuple[RouteTrack, Any]:
    """Track of a motion, and the function from times (n,) [s] to distances (n,) [m] along it."""
    from parhelion.motion.actors.drivers import OpenRoute
    from parhelion.motion.actors.traffic import ClosedRoute, RouteMotion

    if isinstance(motion, RouteMotion):
        return RouteTrack(motion.route), motion.distance_at
    span = span_of(motion, times)
    route = ClosedRoute(motion) if span.repeats else OpenRoute(motion, times)
    return RouteTrack(route), route.distance_at_time


@dataclass(frozen=True, eq=False)
class OnBogies:
    """Motion of a car on rails, between two bogies on the track."""

    track: Track
    distance_m: Any
    """Function from times (n,) [s] to distances (n,) [m] of the frame of the vehicle."""
    behind_m: float
    """Distance [m] of the middle of the car behind that frame."""
    bogie_m: float

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        middle = self.distance_m(np.asarray(times, dtype=np.float64)) - self.behind_m
        front, rear = (self.track.at(middle + sign * self.bogie_m)[0] for sign in (1.0, -1.0))
        line = front - rear
        return 0.5 * (front + rear), about(2, np.arctan2(line[:, 1], line[:, 0]))


class Trailer:
    """Motion of a trailer behind a hitch: its axle rolls without slip, dψ/ds = sin(φ - ψ) / L.

    φ is the direction in which the hitch moves, s its distance, and L the distance of the axle behind it. On a circle
    of radius R, the axle settles at the radius √(R² - L²) (kinematic off-tracking). The frame is at the hitch.
    """

    STEP_M = 0.1

    def __init__(self, track: RouteTrack, distance_m: Any, hitch_m: float, axle_m: float) -> None:
        """`hitch_m` is the place of the hitch in the frame of the truck, `axle_m` that of the axle behind the hitch."""
        self._track, self._distance_m, self._hitch_m = track, distance_m, hitch_m
        count = max(8, int(np.ceil(track.length_m / self.STEP_M)))
        self._at = np.linspace(0.0, track.length_m, count + 1)
        hitch, heading = self._hitch(self._at)
        legs = np.diff(hitch[:, :2], axis=0)
        steps = np.hypot(legs[:, 0], legs[:, 1])
        moves = np.arctan2(legs[:, 1], legs[:, 0]) if len(legs) else np.zeros(0)
        yaw = float(heading[0])
        # A closed route begins with the state after one lap.
        for _ in range(2 if track.closed else 1):
            found = [yaw]
            for step, direction in zip(steps.tolist(), moves.tolist(), strict=True):
                # Exact on a straight line: tan((ψ - φ)/2) decays exponentially with the distance.
                bend = np.tan(0.5 * (np.mod(yaw - direction + np.pi, 2.0 * np.pi) - np.pi))
                yaw = direction + 2.0 * float(np.arctan(bend * np.exp(-step / axle_m)))
                found.append(yaw)
        self._off = np.unwrap(np.array(found) - heading)

    def _hitch(self, distance_m: Floats) -> tuple[Floats, Floats]:
        xyz, heading = self._track.at(distance_m)
        return xyz + self._hitch_m * np.column_stack([np.cos(heading), np.sin(heading), 0.0 * heading]), heading

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        distance = self._distance_m(np.asarray(times, dtype=np.float64))
        hitch, heading = self._hitch(distance)
        place = np.mod(distance, self._track.length_m) if self._track.closed else distance
        return hitch, about(2, heading + np.interp(place, self._at, self._off))


# ---- vehicles --------------------------------------------------------------------------------------------------------


def add_bus(
    world: World,
    motion: Trajectory | Pose,
    *,
    paint: str = "car-paint-red",
    name: str = "bus",
    times: tuple[float, float] | None = None,
) -> Actor:
    """Add a city bus of 12 m with rolling wheels; its frame is on the ground under its middle, x forward."""
    carrier = trajectory_of("bus", motion)
    builder = Builder(world, name, "bus", "dynamic")
    builder.add("body", _bus(paint), carrier)
    _add_wheels(builder, carrier, times, BUS_AXLES_M, BUS_SIZE_M[1], BUS_WHEEL_M, "bus")
    actor = builder.done()
    _add_lights(world, actor, motion, BUS_SIZE_M[0] / 2 + 0.02, 0.95, 0.75)
    return actor


def add_tram(
    world: World,
    motion: Trajectory | Pose,
    *,
    cars: int = 3,
    paint: str = "car-paint-white",
    name: str = "tram",
    times: tuple[float, float] | None = None,
) -> Actor:
    """Add a tram whose cars follow each other on the path of the motion; its frame is that of the first car.

    The two bogies of each car are on the path. A path with an end continues straight before its start.
    """
    builder = Builder(world, name, "on-rails", "dynamic")
    fixed = isinstance(motion, Pose)
    carrier = trajectory_of("tram", motion)
    track, distance = (None, None) if fixed else track_of(carrier, times)
    for number in range(cars):
        behind = number * (TRAM_CAR_M + TRAM_JOINT_M)
        car: Trajectory
        if track is None:
            assert isinstance(motion, Pose)
            car = trajectory_of("tram", motion @ Pose((-behind, 0.0, 0.0)))
        else:
            car = OnBogies(track, distance, behind, TRAM_BOGIE_M)
        ends = (number == 0, number == cars - 1)
        builder.add("body" if number == 0 else f"body {number}", _tram_car(paint, ends), car)
        for where, x in (("front", TRAM_BOGIE_M), ("rear", -TRAM_BOGIE_M)):
            turn = (lambda t: np.zeros(len(t))) if distance is None else (lambda t: distance(t) / TRAM_WHEEL_M)
            builder.add(
                f"{where} wheels {number}",
                _axle(TRAM_WHEEL_M, 1.435, "on-rails"),
                Turning(car, 1, turn, (x, 0.0, TRAM_WHEEL_M)),
            )
    actor = builder.done()
    _add_lights(world, actor, motion, TRAM_CAR_M / 2 + 0.02, 0.8, 0.9)
    return actor


def add_truck(
    world: World,
    motion: Trajectory | Pose,
    *,
    paint: str = "car-paint-blue",
    name: str = "truck",
    times: tuple[float, float] | None = None,
) -> Actor:
    """Add a tractor with a trailer that follows it by kinematic off-tracking; its frame is that of the tractor."""
    builder = Builder(world, name, "truck", "dynamic")
    carrier = trajectory_of("truck", motion)
    builder.add("body", _tractor(paint), carrier)
    if isinstance(motion, Pose):
        trailer = trajectory_of("truck", motion @ Pose((HITCH_M, 0.0, 0.0)))
        builder.add("trailer", _trailer(), trailer)
        _add_wheels(builder, carrier, times, TRACTOR_AXLES_M, 2.5, TRACTOR_WHEEL_M, "truck")
        return builder.done()
    track, distance = track_of(carrier, times)
    follows = Trailer(track, distance, HITCH_M, TRAILER_AXLE_M)
    builder.add("trailer", _trailer(), follows)
    _add_wheels(builder, carrier, times, TRACTOR_AXLES_M, 2.5, TRACTOR_WHEEL_M, "truck")
    for number, x in enumerate((-TRAILER_AXLE_M + 0.65, -TRAILER_AXLE_M - 0.65)):
        turning = Turning(follows, 1, lambda t: distance(t) / TRACTOR_WHEEL_M, (x, 0.0, TRACTOR_WHEEL_M))
        builder.add(f"trailer axle {number}", _axle(TRACTOR_WHEEL_M, 2.1, "truck", 0.28), turning)
    actor = builder.done()
    _add_lights(world, actor, motion, TRACTOR_M / 2 + 0.02, 0.95, 0.8)
    return actor


def add_agv(
    world: World,
    motion: Trajectory | Pose,
    *,
    paint: str = "car-paint-yellow",
    name: str = "agv",
    times: tuple[float, float] | None = None,
) -> Actor:
    """Add a flat automated guided vehicle, 1.6 m by 0.9 m; its frame is on the ground under its middle."""
    carrier = trajectory_of("agv", motion)
    builder = Builder(world, name, "other-vehicle", "dynamic")
    hull = boxes([[0, 0, 0.21]], (1.6, 0.9, 0.26))
    deck = boxes([[0, 0, 0.355]], (1.3, 0.8, 0.03))
    scanners = struts([[0.72, 0.36, 0.1], [-0.72, -0.36, 0.1]], [[0.72, 0.36, 0.24], [-0.72, -0.36, 0.24]], 0.09, 14)
    wheels = struts(
        [[0.0, y - 0.04, 0.1] for y in (-0.38, 0.38)], [[0.0, y + 0.04, 0.1] for y in (-0.38, 0.38)], 0.1, 18
    )
    label = "other-vehicle"
    pieces = [
        KitPart("hull", hull, paint, label),
        KitPart("deck", deck, "steel", label),
        KitPart("scanners", Mesh.merged([scanners]), "plastic", label),
        KitPart("wheels", wheels, "rubber", label),
    ]
    builder.add("body", pieces, carrier)
    return builder.done()


def _add_lights(
    world: World, actor: Actor, motion: Trajectory | Pose, front: float, across: float, height: float
) -> None:
    if isinstance(motion, Pose):
        return
    for sign in (1.0, -1.0):
        world.add_lamp(
            carrier=actor.objects[0],
            xyz=(front, sign * across, height),
            direction=(1.0, 0.0, -0.026),
            inner_deg=3.0,
            outer_deg=14.0,
            flux_lm=900.0,
            colour_temperature_k=4300.0,
        )


def _add_wheels(
    builder: Builder,
    carrier: Trajectory,
    times: tuple[float, float] | None,
    axles_m: tuple[float, ...],
    width_m: float,
    radius_m: float,
    label: str,
) -> None:
    """Add axles with two wheels each, which roll with the distance driven by their middle."""
    for number, x in enumerate(axles_m):
        at = (x, 0.0, radius_m)
        distance = rolled(carrier, times, at)
        turning = Turning(carrier, 1, lambda t, distance=distance: distance(t) / radius_m, at)
        builder.add(f"axle {number}", _axle(radius_m, width_m - 0.35, label, 0.28), turning)


# ---- meshes ----------------------------------------------------------------------------------------------------------


@cache
def _axle(radius: float, gauge: float, label: str, tyre: float = 0.12) -> list[KitPart]:
    """Two wheels on an axle about the y axis, with spokes on their outer sides to show rotation."""
    y = np.array([-0.5 * gauge, 0.5 * gauge])
    zero = np.zeros(2)
    ends = np.column_stack([zero, y, zero])
    half = np.array([0.0, 0.5 * tyre, 0.0])
    tyres = struts(ends - half, ends + half, radius, 28)
    angle = np.arange(6) * (2.0 * np.pi / 6.0)
    rim = 0.6 * radius * np.column_stack([np.cos(angle), np.zeros(6), np.sin(angle)])
    metal = [struts([ends[0]], [ends[1]], 0.05, 8)]
    for end, sign in zip(ends, (-1.0, 1.0), strict=True):
        outer = end + sign * (half + np.array([0.0, 0.005, 0.0]))
        metal.append(struts(np.tile(outer, (6, 1)), outer + rim, 0.02, 6))
        metal.append(struts([outer - [0, 0.01, 0]], [outer + np.array([0.0, 0.02, 0.0])], 0.13 * radius / 0.5, 10))
    material = "steel" if label == "on-rails" else "rubber"
    return [KitPart("wheels", tyres, material, label), KitPart("rims", Mesh.merged(metal), "aluminium", label)]


def _coach(
    length: float,
    width: float,
    height: float,
    floor: float,
    sill: float,
    paint: str,
    label: str,
    *,
    glass_ends: tuple[bool, bool],
    gaps: tuple[tuple[float, float], ...] = (),
) -> list[KitPart]:
    """Body of a bus or a tram: lower panels, roof, pillars, windows, floor and seats.

    `gaps` are intervals along x [m] of wheel arches, where the panels begin higher.
    """
    half, side, top = length / 2, width / 2, height - 0.35
    # Lower panels: pieces between and above the wheel arches.
    edges = [-half, *(x for gap in gaps for x in gap), half]
    low_pieces, pieces = [], list(pairwise(edges))
    for number, (a, b) in enumerate(pieces):
        bottom = 1.05 if number % 2 else floor
        if b - a > 1e-6:
            low_pieces.append([[0.5 * (a + b), 0.0, 0.5 * (bottom + sill)], [b - a, width, sill - bottom]])
    rows = np.array(low_pieces)
    panels = boxes(rows[:, 0], rows[:, 1])
    roof = boxes(
        [[0, 0, height - 0.175], [0, 0, height - 0.01]], [[length, width, 0.35], [0.6 * length, 0.7 * width, 0.02]]
    )
    posts = np.linspace(-half + 0.06, half - 0.06, max(3, round(length / 1.5)))
    foot = np.array([[x, y, sill] for x in posts for y in (-side + 0.04, side - 0.04)])
    pillars = struts(foot, foot + np.array([0.0, 0.0, top - sill]), 0.045, 6)
    corners = [[half, -side], [half, side], [-half, side], [-half, -side]]
    low = np.column_stack([corners, np.full(4, sill)])
    high = np.column_stack([corners, np.full(4, top)])
    following = np.roll(np.arange(4), -1)
    every = np.stack([low, low[following], high[following], high], axis=1)
    keep = [row for row in range(4) if row in (1, 3) or glass_ends[0 if row == 0 else 1]]
    walls = [every[row] for row in range(4) if row not in keep]
    seats_x = np.arange(-half + 1.2, half - 1.6, 0.9)
    seats = [[[x, y, sill - 0.05], [0.12, 0.9, 0.85]] for x in seats_x for y in (-side + 0.55, side - 0.55)]
    seat_rows = np.array(seats)
    solid = [panels, roof, pillars]
    if walls:
        solid.append(quads(np.stack(walls)))
    return [
        KitPart("body", Mesh.merged(solid), paint, label),
        KitPart("windows", quads(every[keep]), "glass", label),
        KitPart("seats", boxes(seat_rows[:, 0], seat_rows[:, 1]), "fabric", label),
    ]


@cache
def _bus(paint: str) -> list[KitPart]:
    length, width = BUS_SIZE_M
    gaps = tuple((x - 0.62, x + 0.62) for x in reversed(BUS_AXLES_M))
    coach = _coach(length, width, BUS_HEIGHT_M, 0.32, 1.2, paint, "bus", glass_ends=(True, True), gaps=gaps)
    half = length / 2
    at = [[half + 0.01, y, 0.75] for y in (-0.95, 0.95)] + [[-half - 0.01, y, 0.9] for y in (-1.05, 1.05)]
    lamps = boxes(at, (0.04, 0.34, 0.2))
    mirrors = boxes([[half + 0.12, y, 2.25] for y in (-1.42, 1.42)], (0.1, 0.22, 0.36))
    plates = boxes([[half + 0.02, 0, 0.5], [-half - 0.02, 0, 0.7]], (0.02, 0.52, 0.11))
    return [
        *coach,
        KitPart("trim", Mesh.merged([lamps, mirrors]), "plastic", "bus"),
        KitPart("plates", plates, "retro-sheeting", "bus"),
    ]


@cache
def _tram_car(paint: str, ends: tuple[bool, bool]) -> list[KitPart]:
    coach = _coach(TRAM_CAR_M, TRAM_WIDTH_M, TRAM_HEIGHT_M, 0.30, 1.15, paint, "on-rails", glass_ends=ends)
    half = TRAM_CAR_M / 2
    more = []
    if not ends[1]:
        # The bellows to the next car, a little narrower than the cars.
        more.append(
            KitPart(
                "bellows",
                boxes([[-half - 0.5 * TRAM_JOINT_M, 0, 1.75]], (TRAM_JOINT_M, 2.0, 2.6)),
                "rubber",
                "on-rails",
            )
        )
    if ends[0]:
        lamps = boxes([[half + 0.01, y, 0.9] for y in (-0.8, 0.8)], (0.04, 0.3, 0.18))
        arm = pipe_arm()
        more += [KitPart("lamps", lamps, "plastic", "on-rails"), KitPart("pantograph", arm, "steel", "on-rails")]
    return [*coach, *more]


def pipe_arm() -> Mesh:
    """Current collector on the roof, up to the wire at 5 m."""
    top = TRAM_HEIGHT_M
    knee, head = [0.9, 0.0, top + 0.75], [0.0, 0.0, top + 1.6]
    return struts([[0.0, 0.0, top], knee, [0.0, -0.75, top + 1.6]], [knee, head, [0.0, 0.75, top + 1.6]], 0.03, 6)


@cache
def _tractor(paint: str) -> list[KitPart]:
    """Cab over the front axle, frame, tank and hitch plate; 6 m long and 3.7 m high."""
    half = TRACTOR_M / 2
    cab = boxes([[half - 1.1, 0, 1.2], [half - 1.25, 0, 3.45]], [[2.2, 2.45, 1.1], [1.9, 2.3, 0.5]])
    foot = np.array([[half, -1.2, 1.75], [half, 1.2, 1.75], [half - 2.2, 1.2, 1.75], [half - 2.2, -1.2, 1.75]])
    head = foot + np.array([[-0.2, 0.05, 1.5], [-0.2, -0.05, 1.5], [0.0, -0.05, 1.5], [0.0, 0.05, 1.5]])
    following = np.roll(np.arange(4), -1)
    every = np.stack([foot, foot[following], head[following], head], axis=1)
    back = quads(every[2:3])
    frame = boxes([[-0.4, 0, 0.78], [HITCH_M, 0, 1.05]], [[5.0, 0.85, 0.3], [0.9, 0.9, 0.15]])
    tanks = boxes([[0.2, y, 0.75] for y in (-0.95, 0.95)], (1.0, 0.5, 0.5))
    guard = boxes([[x, y, 1.08] for x in TRACTOR_AXLES_M for y in (-1.05, 1.05)], (1.15, 0.4, 0.06))
    return [
        KitPart("cab", Mesh.merged([cab, back, struts(foot, head, 0.07, 6)]), paint, "truck"),
        KitPart("windows", quads(every[[0, 1, 3]]), "glass", "truck"),
        KitPart("frame", Mesh.merged([frame, tanks, guard]), "steel", "truck"),
        KitPart("seats", boxes([[half - 1.5, y, 2.0] for y in (-0.6, 0.6)], (0.15, 0.5, 0.9)), "cotton", "truck"),
        KitPart("plates", boxes([[half + 0.02, 0, 0.75]], (0.02, 0.52, 0.11)), "retro-sheeting", "truck"),
        KitPart("bumper", boxes([[half - 0.02, 0, 0.55]], (0.12, 2.4, 0.35)), "plastic", "truck"),
    ]


@cache
def _trailer() -> list[KitPart]:
    """Box trailer in the frame of the hitch, on the ground: 11 m long and 3.9 m high."""
    middle = TRAILER_FRONT_M - TRAILER_M / 2
    box = boxes([[middle, 0, 2.55]], (TRAILER_M, 2.5, 2.7))
    beams = boxes([[middle - 0.6, y, 1.05] for y in (-0.4, 0.4)], (TRAILER_M - 1.6, 0.12, 0.3))
    legs = struts([[-1.6, y, 0.35] for y in (-0.7, 0.7)], [[-1.6, y, 1.2] for y in (-0.7, 0.7)], 0.06, 8)
    guard = boxes([[-4.0, y, 0.75] for y in (-1.2, 1.2)], (3.6, 0.03, 0.5))
    rear = TRAILER_FRONT_M - TRAILER_M
    bar = boxes([[rear + 0.1, 0, 0.55]], (0.1, 2.3, 0.15))
    marks = boxes([[rear - 0.01, y, 1.15] for y in (-0.85, 0.85)], (0.02, 0.6, 0.12))
    return [
        KitPart("box", box, "aluminium", "truck"),
        KitPart("frame", Mesh.merged([beams, legs, guard, bar]), "steel", "truck"),
        KitPart("marks", marks, "retro-sheeting", "truck"),
    ]
