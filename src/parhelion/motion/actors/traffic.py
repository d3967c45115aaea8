"""Traffic: vehicles and pedestrians on closed routes, each keeping a gap to the one ahead.

Speeds follow the intelligent driver model (Treiber, Hennecke and Helbing 2000):

    dv/dt = a [1 - (v/v_0)⁴ - (g*/g)²],   g* = g_0 + v T + v Δv / (2 √(a b))

with the gap g to the one ahead [m], the closing speed Δv and the desired speed v_0. It is integrated once, with a fixed
step, before the run; the position of each body is then a function of time. Given a `LiveActors`, the bodies are added
to it instead and react to each other, to people and to vehicles while a scenario runs.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.checks import above, whole, within
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_multiply
from parhelion.core.random import Stream
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Actor, about, heading_of, span_of
from parhelion.motion.actors.person import add_person, show_person
from parhelion.motion.actors.road_users import ROAD_USERS, add_vehicle, fastest_m_s, vehicle_size_m
from parhelion.world.kit.vehicles import CAR_SHAPES, PAINTS
from parhelion.world.world import World

if TYPE_CHECKING:
    from parhelion.motion.actors.live import LiveActors

STEP_S = 0.05
HARDEST_BRAKE_M_S2 = 9.0


@dataclass(frozen=True)
class Following:
    """Parameters of the intelligent driver model."""

    acceleration_m_s2: float
    braking_m_s2: float
    """Comfortable deceleration b."""
    headway_s: float
    """Time gap T."""
    gap_m: float
    """Gap at standstill g_0."""


DRIVERS = Following(acceleration_m_s2=1.0, braking_m_s2=1.5, headway_s=1.0, gap_m=2.0)
"""City traffic, values of Treiber and Kesting (2013)."""
SLOW_DRIVERS = Following(acceleration_m_s2=0.6, braking_m_s2=1.0, headway_s=1.0, gap_m=1.5)
"""Forklifts and automated vehicles in halls, round figures."""
FOLLOWING = {
    "cyclist": Following(acceleration_m_s2=0.8, braking_m_s2=1.5, headway_s=1.0, gap_m=1.0),
    "bus": Following(acceleration_m_s2=0.8, braking_m_s2=1.2, headway_s=1.2, gap_m=2.0),
    "tram": Following(acceleration_m_s2=0.8, braking_m_s2=1.0, headway_s=1.5, gap_m=3.0),
    "truck-trailer": Following(acceleration_m_s2=0.5, braking_m_s2=1.2, headway_s=1.5, gap_m=2.5),
    "forklift": SLOW_DRIVERS,
    "agv": SLOW_DRIVERS,
}
"""Parameters by model of vehicle, round figures; those of `DRIVERS` for all others."""
WALKERS = Following(acceleration_m_s2=0.8, braking_m_s2=1.2, headway_s=0.6, gap_m=1.1)
"""Pedestrians, round figures."""


class ClosedRoute:
    """Path of a closed motion by distance, with the speed of the motion there."""

    def __init__(self, motion: Trajectory) -> None:
        span = span_of(motion)
        if not span.repeats:
            raise ConfigError("traffic: routes must be closed motions that repeat, such as SplineMotion(closed=True)")
        times = np.linspace(span.start_s, span.end_s, max(2001, int(np.ceil(span.length_s / 0.005)) + 1))
        xyz, _ = motion.sample(times)
        legs = np.linalg.norm(np.diff(xyz, axis=0), axis=1)
        if not np.all(legs > 0.0):
            raise ConfigError("traffic: routes must not rest")
        self.motion = motion
        self._times = times
        self._distance = np.concatenate([[0.0], np.cumsum(legs)])
        self._speed = legs / np.diff(times)
        self.length_m = float(self._distance[-1])

    def distance_at_time(self, times: Floats) -> Floats:
        """Distance [m] of the route's own motion at times (n,) [s]."""
        laps = np.floor((times - self._times[0]) / (self._times[-1] - self._times[0]))
        within = times - laps * (self._times[-1] - self._times[0])
        found: Floats = np.interp(within, self._times, self._distance) + laps * self.length_m
        return found

    def sample(self, distance_m: Floats) -> tuple[Floats, Floats]:
        """Positions and quaternions at distances (n,) [m] along the route."""
        return self.motion.sample(np.interp(np.mod(distance_m, self.length_m), self._distance, self._times))

    def speed(self, distance_m: Floats) -> Floats:
        """Speed [m/s] of the route's own motion at distances (n,) [m]."""
        row = np.searchsorted(self._distance, np.mod(distance_m, self.length_m), side="right") - 1
        return self._speed[np.clip(row, 0, len(self._speed) - 1)]


class RouteMotion:
    """Motion of one body on a route: distance [m] by time, smooth in between, at rest outside of its times."""

    known_ahead = True

    def __init__(self, route: ClosedRoute, times: Floats, distance: Floats, speed: Floats, side_m: float = 0.0) -> None:
        """Arrays (n,) of increasing times [s], distances [m] and speeds [m/s]; `side_m` is an offset to the right."""
        self.route, self.side_m = route, side_m
        self.times, self.distance, self.speed = times, distance, speed
        self.start_time, self.end_time = float(times[0]), float(times[-1])
        self.backwards, self.shift_m = False, 0.0

    def behind(self, distance_m: float) -> RouteMotion:
        """Return the motion of a body that follows on the same track at a distance [m]."""
        other = RouteMotion(self.route, self.times, self.distance, self.speed, self.side_m)
        other.backwards, other.shift_m = self.backwards, self.shift_m + distance_m
        return other

    def reversed(self) -> RouteMotion:
        """Return the motion in the opposite direction, on its own right-hand side."""
        other = RouteMotion(self.route, self.times, self.distance, self.speed, self.side_m)
        other.backwards = not self.backwards
        return other

    def distance_at(self, times: ArrayLike) -> Floats:
        """Distance [m] at times (n,) [s]: cubic segments through distances and speeds."""
        asked = np.clip(np.asarray(times, dtype=np.float64), self.start_time, self.end_time)
        row = np.clip(np.searchsorted(self.times, asked, side="right") - 1, 0, len(self.times) - 2)
        step = self.times[row + 1] - self.times[row]
        x = (asked - self.times[row]) / step
        leg = self.distance[row + 1] - self.distance[row]
        bend = (1.0 - x) * (self.speed[row] * step - leg) - x * (self.speed[row + 1] * step - leg)
        return self.distance[row] + x * leg + x * (1.0 - x) * bend - self.shift_m

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        distance = self.distance_at(times)
        xyz, quat = self.route.sample(-distance if self.backwards else distance)
        if self.backwards:
            quat = quat_multiply(quat, np.tile(about(2, np.pi), (len(distance), 1)))
        heading = heading_of(quat)
        right = np.stack([np.sin(heading), -np.cos(heading), np.zeros_like(heading)], axis=1)
        side, slope = self.aside(np.asarray(times, dtype=np.float64))
        if np.any(slope):
            turn = -0.5 * np.arctan(slope)
            still = np.zeros_like(turn)
            quat = quat_multiply(np.stack([still, still, np.sin(turn), np.cos(turn)], axis=1), quat)
        return xyz + side[:, None] * right, quat

    def aside(self, times: Floats) -> tuple[Floats, Floats]:
        """Places (n,) [m] to the right of the path, and their changes per distance."""
        return np.full(len(times), self.side_m), np.zeros(len(times))


def follow_around(
    route: ClosedRoute, lengths_m: Floats, wished_m_s: Floats, start_m: Floats, duration_s: float, model: Following
) -> tuple[Floats, Floats, Floats]:
    """Times (k,) [s], distances (k, n) [m] and speeds (k, n) [m/s] of bodies on one lane of a route.

    Bodies are sorted from the rearmost: body i follows body i + 1, and the last one follows the first. `start_m` are
    the distances of their centres, within one lap. A body drives at its own desired speed or that of the route,
    whichever is lower.
    """
    steps = int(np.ceil(duration_s / STEP_S))
    distance, ahead = start_m.copy(), np.roll(np.arange(len(start_m)), -1)
    lap = np.where(np.arange(len(start_m)) == len(start_m) - 1, route.length_m, 0.0)
    between = 0.5 * (lengths_m + lengths_m[ahead])
    gap = distance[ahead] + lap - distance - between
    # The initial speed respects the headway, so that no body has to brake immediately.
    speed = np.minimum(
        np.minimum(wished_m_s, route.speed(distance)), np.maximum(gap - model.gap_m, 0.0) / (2.0 * model.headway_s)
    )
    distances, speeds = np.empty((steps + 1, len(distance))), np.empty((steps + 1, len(distance)))
    distances[0], speeds[0] = distance, speed
    root = 2.0 * np.sqrt(model.acceleration_m_s2 * model.braking_m_s2)
    for step in range(1, steps + 1):
        gap = np.maximum(distance[ahead] + lap - distance - between, 0.01)
        desired_speed = np.minimum(wished_m_s, route.speed(distance))
        desired_gap = model.gap_m + np.maximum(speed * model.headway_s + speed * (speed - speed[ahead]) / root, 0.0)
        change = model.acceleration_m_s2 * (1.0 - (speed / desired_speed) ** 4 - (desired_gap / gap) ** 2)
        faster = np.maximum(speed + STEP_S * np.maximum(change, -HARDEST_BRAKE_M_S2), 0.0)
        distance = distance + 0.5 * STEP_S * (speed + faster)
        speed = faster
        distances[step], speeds[step] = distance, speed
    return STEP_S * np.arange(steps + 1, dtype=np.float64), distances, speeds


def traffic(
    world: World,
    routes: Trajectory | Sequence[Trajectory],
    count: int,
    seed: int = 0,
    speed_m_s: float = 10.0,
    *,
    duration_s: float = 120.0,
    models: Sequence[str] = tuple(CAR_SHAPES),
    wheels: bool = False,
    lanes: int = 1,
    lane_width_m: float = 3.25,
    live: LiveActors | None = None,
) -> list[Actor]:
    """Add vehicles on closed routes from time 0 for `duration_s` [s]; afterwards they stand.

    `routes` are periodic motions. A car drives at its desired speed (`speed_m_s` ± 15 %), or at that of the route where
    it is lower, as in bends. Cars on one route keep their gaps. Routes are independent of each other, so they should
    not intersect. `seed` selects positions, models, paints and desired speeds. With `live`, the cars react: they also
    brake for people and other vehicles in their lane, and yield where routes cross. With several `lanes`, the route is
    the right-hand one, the others lie to its left; cars that react change lanes.
    """
    wished, duration = _checked(speed_m_s, duration_s)
    beside, lane_m = whole("traffic: lanes", lanes, 1, 4), within("traffic: lane_width_m", lane_width_m, 2.5, 5.0)
    ways = _lanes(routes)
    rng = Stream(seed, "actors/traffic").generator()
    actors: list[Actor] = []
    for route, cars in zip(ways, _shares(ways, whole("traffic: count", count, 0, 10_000)), strict=True):
        chosen = rng.choice(list(models), cars).tolist()
        paints = rng.choice(PAINTS, cars).tolist()
        lengths = np.array([vehicle_size_m(model)[0] for model in chosen])
        wishes = wished * rng.uniform(0.85, 1.15, cars)
        wishes = np.minimum(wishes, [fastest_m_s(model) for model in chosen])
        motions: list[Trajectory | None] = [None] * cars
        for lane in range(beside):
            rows = list(range(lane, cars, beside))
            if live is None:
                driven = _drive(rng, route, lengths[rows], wishes[rows], duration, DRIVERS, -lane * lane_m)
                motions[lane::beside] = driven
                continue
            for row, start in zip(rows, _starts(rng, route, lengths[rows], DRIVERS).tolist(), strict=True):
                model = chosen[row]
                alone = model not in ROAD_USERS or not ROAD_USERS[model].lead_m
                motions[row] = live.drive(
                    route, start, float(wishes[row]), *vehicle_size_m(model), FOLLOWING.get(model, DRIVERS),
                    lanes=beside, lane_m=lane_m, lane=lane, changes=alone,
                )  # fmt: skip
        for number, motion in enumerate(motions):
            name = f"traffic-car-{len(actors)}"
            assert motion is not None
            actors.append(add_vehicle(world, motion, chosen[number], paint=paints[number], name=name, wheels=wheels))
    return actors


def pedestrians(
    world: World,
    routes: Trajectory | Sequence[Trajectory],
    count: int,
    seed: int = 0,
    speed_m_s: float = 1.35,
    *,
    duration_s: float = 120.0,
    side_m: float = 0.4,
    live: LiveActors | None = None,
) -> list[Actor]:
    """Add people on closed sidewalks from time 0 for `duration_s` [s], half of them in the opposite direction.

    Everyone keeps `side_m` [m] to the right of the route, so that the two lanes pass each other, and a gap to the
    person ahead. Heights are normally distributed, 1.70 m with a standard deviation of 0.09 m. With `live`, people
    react: they avoid each other, vehicles and walls, and overtake.
    """
    wished, duration = _checked(speed_m_s, duration_s)
    aside = within("pedestrians: side_m", side_m, 0.3, 5.0)
    lanes = _lanes(routes)
    rng = Stream(seed, "actors/pedestrians").generator()
    actors: list[Actor] = []
    for route, people in zip(lanes, _shares(lanes, whole("pedestrians: count", count, 0, 10_000)), strict=True):
        for backwards, lane in ((False, (people + 1) // 2), (True, people // 2)):
            heights = np.clip(rng.normal(1.70, 0.09, lane), 1.45, 2.0)
            clothes = rng.choice(["cotton", "fabric", "fabric-red", "fabric-green"], lane).tolist()
            wishes = wished * rng.uniform(0.85, 1.15, lane)
            sizes = np.full(lane, 0.5)
            if live is not None:
                starts = _starts(rng, route, sizes, WALKERS) / route.length_m if lane else np.zeros(0)
                for start, wish, height, cloth in zip(starts, wishes, heights, clothes, strict=True):
                    walk = live.walk(route.motion, float(start), float(wish), float(height), aside, backwards)
                    actors.append(show_person(world, walk, f"pedestrian-{len(actors)}", cloth))
                continue
            motions = _drive(rng, route, sizes, wishes, duration, WALKERS, aside)
            for motion, height, cloth in zip(motions, heights, clothes, strict=True):
                path = motion.reversed() if backwards else motion
                name = f"pedestrian-{len(actors)}"
                actors.append(add_person(world, path, float(height), name=name, clothes=cloth))
    return actors


def _checked(speed_m_s: float, duration_s: float) -> tuple[float, float]:
    return above("traffic: speed_m_s", speed_m_s, 0.0, 70.0), above("traffic: duration_s", duration_s, 0.0, 86_400.0)


def _lanes(routes: Trajectory | Sequence[Trajectory]) -> list[ClosedRoute]:
    given: Iterable[Trajectory] = [routes] if isinstance(routes, Trajectory) else routes
    lanes = [ClosedRoute(motion) for motion in given]
    if not lanes:
        raise ConfigError("traffic: routes must be at least one closed motion, got none")
    return lanes


def _shares(lanes: Sequence[ClosedRoute], count: int) -> list[int]:
    """Number of bodies per route, in proportion to the lengths of the routes."""
    ends = np.cumsum([route.length_m for route in lanes])
    return np.diff(np.round(count * np.concatenate([[0.0], ends]) / ends[-1])).astype(int).tolist()


def _drive(
    rng: np.random.Generator,
    route: ClosedRoute,
    lengths_m: Floats,
    wished_m_s: Floats,
    duration_s: float,
    model: Following,
    side_m: float,
) -> list[RouteMotion]:
    """Motions of bodies on one lane, from random starting positions."""
    if len(lengths_m) == 0:
        return []
    start = _starts(rng, route, lengths_m, model)
    times, distances, speeds = follow_around(route, lengths_m, wished_m_s, start, duration_s, model)
    return [RouteMotion(route, times, distances[:, k], speeds[:, k], side_m) for k in range(len(lengths_m))]


def _starts(rng: np.random.Generator, route: ClosedRoute, lengths_m: Floats, model: Following) -> Floats:
    """Random starting positions (n,) [m] of bodies on one lane, the rearmost first."""
    count = len(lengths_m)
    needed = float(lengths_m.sum()) + count * 2.0 * model.gap_m
    if needed > route.length_m:
        raise ConfigError(f"traffic: {count} bodies need {needed:.0f} m, but their route has {route.length_m:.0f} m")
    spare = np.diff(np.concatenate([[0.0], np.sort(rng.uniform(0.0, route.length_m - needed, count))]))
    slots = lengths_m + 2.0 * model.gap_m
    start: Floats = np.cumsum(spare) + np.cumsum(slots) - 0.5 * slots + rng.uniform(0.0, route.length_m)
    return start
