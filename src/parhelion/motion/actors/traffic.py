"""Traffic: cars and walkers on closed routes, each keeping a gap to the one ahead.

Speeds follow the intelligent driver model (Treiber, Hennecke and Helbing 2000):

    dv/dt = a [1 - (v/v_0)⁴ - (g*/g)²],   g* = g_0 + v T + v Δv / (2 √(a b))

with the gap g to the one ahead [m], the closing speed Δv and the wished speed v_0 there. It is integrated once, at a
fixed step, before the run; then each body's place is a function of time.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.checks import above, whole, within
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, quat_multiply
from parhelion.core.random import Stream
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Actor, about, heading_of, span_of
from parhelion.motion.actors.person import add_person
from parhelion.motion.actors.vehicles import add_car, car_length_m
from parhelion.world.kit.vehicles import CAR_SHAPES, PAINTS
from parhelion.world.world import World

STEP_S = 0.05
HARDEST_BRAKE_M_S2 = 9.0


@dataclass(frozen=True)
class Following:
    """How one body follows another."""

    acceleration_m_s2: float
    braking_m_s2: float
    """Comfortable deceleration b."""
    headway_s: float
    """Time gap T."""
    gap_m: float
    """Gap at standstill g_0."""


DRIVERS = Following(acceleration_m_s2=1.0, braking_m_s2=1.5, headway_s=1.0, gap_m=2.0)
"""Values for city traffic of Treiber and Kesting (2013)."""
WALKERS = Following(acceleration_m_s2=0.8, braking_m_s2=1.2, headway_s=0.6, gap_m=1.1)
"""Round figures."""


class Route:
    """The line of a closed motion by its length, with the speed that the motion has there."""

    def __init__(self, motion: Trajectory) -> None:
        span = span_of(motion)
        if not span.repeats:
            raise ConfigError("traffic: routes must be closed motions that repeat, such as SplineMotion(closed=True)")
        times = np.linspace(span.start_s, span.end_s, max(2001, int(np.ceil(span.length_s / 0.005)) + 1))
        xyz, _ = motion.sample(times)
        legs = np.linalg.norm(np.diff(xyz, axis=0), axis=1)
        if not np.all(legs > 0.0):
            raise ConfigError("traffic: routes must not rest on the way")
        self.motion = motion
        self._times = times
        self._way = np.concatenate([[0.0], np.cumsum(legs)])
        self._speed = legs / np.diff(times)
        self.length_m = float(self._way[-1])

    def sample(self, way_m: Floats) -> tuple[Floats, Floats]:
        """Positions and quaternions at ways (n,) [m] along the route."""
        return self.motion.sample(np.interp(np.mod(way_m, self.length_m), self._way, self._times))

    def speed(self, way_m: Floats) -> Floats:
        """Speed [m/s] of the route's own motion at ways (n,) [m]."""
        row = np.searchsorted(self._way, np.mod(way_m, self.length_m), side="right") - 1
        return self._speed[np.clip(row, 0, len(self._speed) - 1)]


class RouteMotion:
    """One body on a route: its way [m] by time, smooth in between; it stands before the start and after the end."""

    known_ahead = True
    """Its future is fixed, so it may be sampled before its time has come."""

    def __init__(self, route: Route, times: Floats, way: Floats, speed: Floats, side_m: float = 0.0) -> None:
        """`side_m` puts it that far to the right of the line. Rising times, ways and speeds (n,) belong together."""
        self.route, self.side_m = route, side_m
        self.times, self.way, self.speed = times, way, speed
        self.start_time, self.end_time = float(times[0]), float(times[-1])
        self.backwards = False

    def reversed(self) -> RouteMotion:
        """The same body going round the other way, on its own right-hand side."""
        other = RouteMotion(self.route, self.times, self.way, self.speed, self.side_m)
        other.backwards = not self.backwards
        return other

    def way_at(self, times: ArrayLike) -> Floats:
        """Way [m] at times (n,) [s]: cubic pieces through ways and speeds."""
        asked = np.clip(np.asarray(times, dtype=np.float64), self.start_time, self.end_time)
        row = np.clip(np.searchsorted(self.times, asked, side="right") - 1, 0, len(self.times) - 2)
        step = self.times[row + 1] - self.times[row]
        x = (asked - self.times[row]) / step
        leg = self.way[row + 1] - self.way[row]
        bend = (1.0 - x) * (self.speed[row] * step - leg) - x * (self.speed[row + 1] * step - leg)
        return self.way[row] + x * leg + x * (1.0 - x) * bend

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        way = self.way_at(times)
        xyz, quat = self.route.sample(-way if self.backwards else way)
        if self.backwards:
            quat = quat_multiply(quat, np.tile(about(2, np.pi), (len(way), 1)))
        heading = heading_of(quat)
        right = np.stack([np.sin(heading), -np.cos(heading), np.zeros_like(heading)], axis=1)
        return xyz + self.side_m * right, quat


def follow_around(
    route: Route, lengths_m: Floats, wished_m_s: Floats, start_m: Floats, duration_s: float, manner: Following
) -> tuple[Floats, Floats, Floats]:
    """Times (k,) [s], ways (k, n) [m] and speeds (k, n) [m/s] of bodies on one lane of a route.

    Bodies are given from the rearmost on: body i follows body i + 1, and the last one the first. `start_m` are the ways
    of their middles, within one lap. A body wishes for its own speed, or the route's where that is lower.
    """
    steps = int(np.ceil(duration_s / STEP_S))
    way, ahead = start_m.copy(), np.roll(np.arange(len(start_m)), -1)
    lap = np.where(np.arange(len(start_m)) == len(start_m) - 1, route.length_m, 0.0)
    between = 0.5 * (lengths_m + lengths_m[ahead])
    gap = way[ahead] + lap - way - between
    # As fast as the headway allows, so that nobody has to brake at once.
    speed = np.minimum(
        np.minimum(wished_m_s, route.speed(way)), np.maximum(gap - manner.gap_m, 0.0) / (2.0 * manner.headway_s)
    )
    ways, speeds = np.empty((steps + 1, len(way))), np.empty((steps + 1, len(way)))
    ways[0], speeds[0] = way, speed
    root = 2.0 * np.sqrt(manner.acceleration_m_s2 * manner.braking_m_s2)
    for step in range(1, steps + 1):
        gap = np.maximum(way[ahead] + lap - way - between, 0.01)
        wish = np.minimum(wished_m_s, route.speed(way))
        desired = manner.gap_m + np.maximum(speed * manner.headway_s + speed * (speed - speed[ahead]) / root, 0.0)
        change = manner.acceleration_m_s2 * (1.0 - (speed / wish) ** 4 - (desired / gap) ** 2)
        faster = np.maximum(speed + STEP_S * np.maximum(change, -HARDEST_BRAKE_M_S2), 0.0)
        way = way + 0.5 * STEP_S * (speed + faster)
        speed = faster
        ways[step], speeds[step] = way, speed
    return STEP_S * np.arange(steps + 1, dtype=np.float64), ways, speeds


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
) -> list[Actor]:
    """Cars on closed routes from time 0 on, for `duration_s` [s]; then they stand.

    `routes` are motions that repeat; where a route's own motion is slower than a car's wish (`speed_m_s`, more or less
    by 15 %), as in bends, the car is as slow. Cars of one route keep their gaps. Routes know nothing of each other, so
    they should neither cross nor meet. `seed` decides places, models, paints and wishes.
    """
    wished, duration = _checked(speed_m_s, duration_s)
    lanes = _lanes(routes)
    rng = Stream(seed, "actors/traffic").generator()
    actors: list[Actor] = []
    for route, cars in zip(lanes, _shares(lanes, whole("traffic: count", count, 0, 10_000)), strict=True):
        chosen = rng.choice(list(models), cars).tolist()
        paints = rng.choice(PAINTS, cars).tolist()
        lengths = np.array([car_length_m(model) for model in chosen])
        wishes = wished * rng.uniform(0.85, 1.15, cars)
        for number, motion in enumerate(_drive(rng, route, lengths, wishes, duration, DRIVERS, 0.0)):
            name = f"traffic-car-{len(actors)}"
            actors.append(add_car(world, motion, chosen[number], paint=paints[number], name=name, wheels=wheels))
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
) -> list[Actor]:
    """People on closed sidewalks from time 0 on, for `duration_s` [s], half of them the other way round.

    Everybody keeps `side_m` [m] to the right of the line, so that the two lanes pass each other, and a gap to the one
    ahead. Heights are normal around 1.70 m with 0.09 m.
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
            motions = _drive(rng, route, np.full(lane, 0.5), wishes, duration, WALKERS, aside)
            for motion, height, cloth in zip(motions, heights, clothes, strict=True):
                path = motion.reversed() if backwards else motion
                name = f"pedestrian-{len(actors)}"
                actors.append(add_person(world, path, float(height), name=name, clothes=cloth))
    return actors


def _checked(speed_m_s: float, duration_s: float) -> tuple[float, float]:
    return above("traffic: speed_m_s", speed_m_s, 0.0, 70.0), above("traffic: duration_s", duration_s, 0.0, 86_400.0)


def _lanes(routes: Trajectory | Sequence[Trajectory]) -> list[Route]:
    given: Iterable[Trajectory] = [routes] if isinstance(routes, Trajectory) else routes
    lanes = [Route(motion) for motion in given]
    if not lanes:
        raise ConfigError("traffic: routes must be at least one closed motion, got none")
    return lanes


def _shares(lanes: Sequence[Route], count: int) -> list[int]:
    """How many of `count` go on each route, by their lengths."""
    ends = np.cumsum([route.length_m for route in lanes])
    return np.diff(np.round(count * np.concatenate([[0.0], ends]) / ends[-1])).astype(int).tolist()


def _drive(
    rng: np.random.Generator,
    route: Route,
    lengths_m: Floats,
    wished_m_s: Floats,
    duration_s: float,
    manner: Following,
    side_m: float,
) -> list[RouteMotion]:
    """Motions of bodies on one lane: put at random places, then driven."""
    count = len(lengths_m)
    if count == 0:
        return []
    needed = float(lengths_m.sum()) + count * 2.0 * manner.gap_m
    if needed > route.length_m:
        raise ConfigError(f"traffic: {count} bodies need {needed:.0f} m, and their route has {route.length_m:.0f} m")
    spare = np.diff(np.concatenate([[0.0], np.sort(rng.uniform(0.0, route.length_m - needed, count))]))
    room = lengths_m + 2.0 * manner.gap_m
    start = np.cumsum(spare) + np.cumsum(room) - 0.5 * room + rng.uniform(0.0, route.length_m)
    times, ways, speeds = follow_around(route, lengths_m, wished_m_s, start, duration_s, manner)
    return [RouteMotion(route, times, ways[:, k], speeds[:, k], side_m) for k in range(count)]
