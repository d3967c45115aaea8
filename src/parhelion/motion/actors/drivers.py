"""Vehicles on routes that react: they follow each other, brake for whatever is in their lane, and yield at crossings.

Speeds are those of the intelligent driver model (see `traffic`). The obstacle ahead is the nearest of: the next vehicle
of the same route, any disc of another body that covers the lane (people also at the places where they will be soon),
the entry of a crossing that another vehicle passes first, and the end of an open route. The state of a vehicle is its
distance along the route, so all its parts follow from one number.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.history import History
from parhelion.core.pose import Floats
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import heading_of, span_of
from parhelion.motion.actors.traffic import HARDEST_BRAKE_M_S2, Following, Route, RouteMotion
from parhelion.motion.actors.walkers import STEP_S, Capsules

SPACING_M = 0.5
"""Distance [m] between the points of a lane."""
SIDE_GAP_M = 0.3
"""Free distance [m] to the side of a vehicle that a driver keeps; nearer bodies count as ahead. Assumed."""
CROSSING_MARGIN_M = 0.5
COMMITTED_M_S2 = 3.0
"""A driver who would have to brake harder than this does not stop for a crossing any more. Assumed."""
PATIENCE_S = 4.0
"""A driver who has waited this long at a crossing goes first. Assumed; avoids that all wait for each other."""


class Discs(NamedTuple):
    """Bodies seen from above, as discs."""

    xyz: Floats
    """[m], shape (m, 3)."""
    velocity: Floats
    """[m/s], shape (m, 2)."""
    radius_m: Floats
    owner: np.ndarray
    """Number of the reacting vehicle that a disc belongs to; -1 for other bodies."""


class OpenRoute(Route):
    """Path of a motion with an end, by distance; at its ends a body rests."""

    def __init__(self, motion: Trajectory, times: tuple[float, float] | None = None) -> None:
        span = span_of(motion, times)
        grid = np.linspace(span.start_s, span.end_s, max(2001, int(np.ceil(span.length_s / 0.005)) + 1))
        xyz, _ = motion.sample(grid)
        legs = np.linalg.norm(np.diff(xyz, axis=0), axis=1)
        moves = legs > 1e-9
        grid = np.concatenate([grid[:1], grid[1:][moves]])
        legs = legs[moves]
        self.motion, self._times = motion, grid
        self._distance = np.concatenate([[0.0], np.cumsum(legs)])
        self._speed = np.maximum(legs / np.diff(grid), 0.2) if len(legs) else np.array([0.2])
        self.length_m = float(self._distance[-1])
        self.closed = False

    def distance_at_time(self, times: Floats) -> Floats:
        """Distance [m] of the route's own motion at times (n,) [s]."""
        found: Floats = np.interp(times, self._times, self._distance)
        return found

    def sample(self, distance_m: Floats) -> tuple[Floats, Floats]:
        """Positions and quaternions at distances (n,) [m] along the route."""
        return self.motion.sample(np.interp(np.clip(distance_m, 0.0, self.length_m), self._distance, self._times))

    def speed(self, distance_m: Floats) -> Floats:
        """Speed [m/s] of the route's own motion at distances (n,) [m]."""
        row = np.searchsorted(self._distance, np.clip(distance_m, 0.0, self.length_m), side="right") - 1
        return self._speed[np.clip(row, 0, len(self._speed) - 1)]


@dataclass(frozen=True)
class Driver:
    """A reacting vehicle, as added."""

    route: Route
    start_m: float
    """Distance [m] of its middle along the route at time 0."""
    speed_m_s: float
    """Desired speed."""
    length_m: float
    width_m: float
    model: Following


class _Lane:
    """Points of a route, to find what lies on it."""

    def __init__(self, route: Route) -> None:
        from scipy.spatial import cKDTree

        self.route = route
        self.closed = getattr(route, "closed", True)
        count = max(2, int(np.ceil(route.length_m / SPACING_M)))
        self.at = np.linspace(0.0, route.length_m, count + 1)
        if self.closed:
            self.at = self.at[:-1]
        self.xyz, quat = route.sample(self.at)
        heading = heading_of(quat)
        self.along = np.column_stack([np.cos(heading), np.sin(heading)])
        self.tree = cKDTree(self.xyz[:, :2])

    def place(self, distance_m: Floats) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] between the points of the lane, and directions (n, 2) there, at distances (n,) [m]."""
        count, step = len(self.at), self.at[1]
        at = np.mod(distance_m, self.route.length_m) if self.closed else np.clip(distance_m, 0.0, self.route.length_m)
        row = np.minimum((at / step).astype(np.intp), count - 1)
        following = (row + 1) % count if self.closed else np.minimum(row + 1, count - 1)
        share = (at / step - row)[:, None]
        return self.xyz[row] + share * (self.xyz[following] - self.xyz[row]), self.along[row]

    def find(self, discs: Discs, reach_m: float) -> tuple[np.ndarray, Floats, Floats, Floats]:
        """Rows of the discs near the lane, their distances along it [m], to its side [m], and speeds along it."""
        distance, row = self.tree.query(discs.xyz[:, :2], distance_upper_bound=reach_m)
        there = np.flatnonzero(np.isfinite(distance))
        row = row[there]
        offset = discs.xyz[there] - self.xyz[row]
        there = there[np.abs(offset[:, 2]) < 3.0]
        keep = np.abs(offset[:, 2]) < 3.0
        offset, row = offset[keep], row[keep]
        along = self.along[row]
        ahead = np.sum(offset[:, :2] * along, axis=1)
        aside = np.abs(offset[:, 0] * along[:, 1] - offset[:, 1] * along[:, 0])
        return there, self.at[row] + ahead, aside, np.sum(discs.velocity[there] * along, axis=1)


class _Crossing(NamedTuple):
    """Place where two lanes cross: numbers of the lanes, and the intervals [m] on them."""

    lanes: tuple[int, int]
    start: tuple[float, float]
    length: tuple[float, float]


class Drivers:
    """All reacting vehicles of a scenario."""

    def __init__(self) -> None:
        self._all: list[Driver] = []
        self.count = 0
        self.version = 0

    def add(self, driver: Driver) -> int:
        """Add a vehicle and return the number."""
        self._all.append(driver)
        return len(self._all) - 1

    def begin(self) -> None:
        """Prepare the tables; afterwards nothing can be added."""
        cars = self._all
        self.count = len(cars)
        if not cars:
            return
        routes = list(dict.fromkeys(id(car.route) for car in cars))
        known = {id(car.route): car.route for car in cars}
        self._lanes = [_Lane(known[number]) for number in routes]
        self._lane = np.array([routes.index(id(car.route)) for car in cars])
        self._round = np.array([self._lanes[k].route.length_m for k in self._lane])
        self._closed = np.array([self._lanes[k].closed for k in self._lane])
        self.length, self.width = (np.array([getattr(car, name) for car in cars]) for name in ("length_m", "width_m"))
        self._wish = np.array([car.speed_m_s for car in cars])
        model = {name: np.array([getattr(car.model, name) for car in cars]) for name in Following.__dataclass_fields__}
        self._most, self._brake = model["acceleration_m_s2"], model["braking_m_s2"]
        self._headway, self._least = model["headway_s"], model["gap_m"]
        self._crossings = _crossings(self._lanes, float(np.max(self.width)))
        self.restart()

    def restart(self) -> None:
        """Return to the start."""
        if self.count == 0:
            return
        self.distance = np.array([car.start_m for car in self._all])
        gap, _ = self._ahead_on_lane()
        # The initial speed respects the headway, so that no vehicle has to brake immediately.
        self.speed = np.minimum(
            np.minimum(self._wish, self._limit()), np.maximum(gap - self._least, 0.0) / (2.0 * self._headway)
        )
        self._waited = np.zeros(self.count)
        self.steps = 0
        self._rows = History((self.count, 2))
        self._record()

    def _record(self) -> None:
        self._rows.append(np.column_stack([self.distance, self.speed]))
        self.version += 1

    def around(self, number: int, times: Floats) -> tuple[Floats, Floats, Floats]:
        """Recorded times [s], distances [m] and speeds [m/s] of one vehicle around times (n,) [s]."""
        low, high = np.min(times, initial=STEP_S * self.steps), np.max(times, initial=0.0)
        # One step more at both ends allows for rounding of the times.
        first, rows = self._rows.around(low / STEP_S - 1.0, high / STEP_S + 1.0)
        known = STEP_S * np.arange(first, first + len(rows), dtype=np.float64)
        return known, rows[:, number, 0], rows[:, number, 1]

    def capsules(self) -> Capsules:
        """The vehicles seen from above."""
        if self.count == 0:
            return Capsules(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros((0, 2)))
        xyz, along = np.zeros((self.count, 3)), np.zeros((self.count, 2))
        for number, lane in enumerate(self._lanes):
            rows = np.flatnonzero(self._lane == number)
            xyz[rows], along[rows] = lane.place(self.distance[rows])
        radius = 0.5 * self.width
        return Capsules(xyz, along, np.maximum(0.5 * self.length - radius, 0.0), radius, self.speed[:, None] * along)

    # ---- one step ----------------------------------------------------------------------------------------------------

    def step(self, discs: Discs) -> None:
        """Advance by `STEP_S`; `discs` are all bodies at the beginning of the step."""
        if self.count == 0:
            return
        gap, closing = self._ahead_on_lane()
        for near in (self._ahead_of_discs(discs), self._ahead_of_crossings()):
            closing = np.where(near[0] < gap, near[1], closing)
            gap = np.minimum(gap, near[0])
        gap = np.maximum(gap, 0.01)
        desired = np.maximum(np.minimum(self._wish, self._limit()), 0.01)
        root = 2.0 * np.sqrt(self._most * self._brake)
        wanted = self._least + np.maximum(self.speed * self._headway + self.speed * closing / root, 0.0)
        change = self._most * (1.0 - (self.speed / desired) ** 4 - (wanted / gap) ** 2)
        faster = np.maximum(self.speed + STEP_S * np.maximum(change, -HARDEST_BRAKE_M_S2), 0.0)
        self.distance = self.distance + 0.5 * STEP_S * (self.speed + faster)
        self.speed = faster
        self.steps += 1
        self._record()

    def _limit(self) -> Floats:
        """Speeds [m/s] of the motions of the routes at the vehicles."""
        found = np.empty(self.count)
        for number, lane in enumerate(self._lanes):
            rows = self._lane == number
            found[rows] = lane.route.speed(self.distance[rows])
        return found

    def _ahead_on_lane(self) -> tuple[Floats, Floats]:
        """Gaps [m] to the next vehicle of the same route or to its end, and closing speeds [m/s]."""
        gap, closing = np.full(self.count, np.inf), np.zeros(self.count)
        speed = getattr(self, "speed", np.zeros(self.count))
        for number, lane in enumerate(self._lanes):
            rows = np.flatnonzero(self._lane == number)
            round_m = lane.route.length_m
            if not lane.closed:
                # A vehicle stops with its middle at the end of the route.
                gap[rows] = round_m - self.distance[rows] + self._least[rows]
                closing[rows] = speed[rows]
            if len(rows) < 2:
                continue
            place = np.mod(self.distance[rows], round_m) if lane.closed else self.distance[rows]
            order = rows[np.argsort(place, kind="stable")]
            following = np.roll(order, -1)
            there = np.mod(self.distance[following] - self.distance[order], round_m)
            if not lane.closed:
                there[-1] = np.inf
            free = there - 0.5 * (self.length[order] + self.length[following])
            nearer = free < gap[order]
            gap[order] = np.where(nearer, free, gap[order])
            closing[order] = np.where(nearer, speed[order] - speed[following], closing[order])
        return gap, closing

    def _ahead_of_discs(self, discs: Discs) -> tuple[Floats, Floats]:
        """Gaps [m] to the nearest disc on the lane of each vehicle, and closing speeds [m/s]."""
        gap, closing = np.full(self.count, np.inf), np.zeros(self.count)
        if not len(discs.xyz):
            return gap, closing
        other_lane = np.where(discs.owner < 0, -1, self._lane[np.maximum(discs.owner, 0)])
        for number, lane in enumerate(self._lanes):
            rows = np.flatnonzero(self._lane == number)
            reach = 0.5 * float(np.max(self.width[rows])) + SIDE_GAP_M + float(np.max(discs.radius_m)) + SPACING_M
            there, at, aside, speed = lane.find(discs, reach)
            # Vehicles of the same route keep their gaps along the lane.
            other = other_lane[there] != number
            there, at, aside, speed = there[other], at[other], aside[other], speed[other]
            if not len(there):
                continue
            ahead = at[None, :] - self.distance[rows, None]
            if lane.closed:
                ahead = np.mod(ahead, lane.route.length_m)
            half = 0.5 * self.length[rows, None]
            # Beside the own body it is too late to brake; a body that stands in front of the bumper counts.
            on_lane = aside[None, :] < discs.radius_m[there] + 0.5 * self.width[rows, None] + SIDE_GAP_M
            in_front = ahead > 0.8 * half
            free = np.where(on_lane & in_front, ahead - half - discs.radius_m[there], np.inf)
            best = np.argmin(free, axis=1)
            gap[rows] = free[np.arange(len(rows)), best]
            closing[rows] = self.speed[rows] - np.maximum(speed[best], 0.0)
        return gap, closing

    def _ahead_of_crossings(self) -> tuple[Floats, Floats]:
        """Gaps [m] to crossings where another vehicle goes first, and closing speeds [m/s]."""
        gap, closing = np.full(self.count, np.inf), self.speed.copy()
        waits = np.zeros(self.count, dtype=bool)
        for crossing in self._crossings:
            first, second = (self._at_crossing(crossing, side) for side in (0, 1))
            for mine, others in ((first, second), (second, first)):
                if mine.next < 0:
                    continue
                yields = others.inside or (
                    not mine.committed
                    and others.next >= 0
                    and (others.committed or (others.arrival_s, others.next) < (mine.arrival_s, mine.next))
                )
                if yields:
                    # The gap at standstill is shorter than behind a vehicle.
                    free = mine.distance_m + 0.5 * self._least[mine.next]
                    gap[mine.next] = min(gap[mine.next], max(free, 0.01))
                    waits[mine.next] = True
        self._waited = np.where(waits & (self.speed < 0.3), self._waited + STEP_S, np.where(waits, self._waited, 0.0))
        return gap, closing

    def _at_crossing(self, crossing: _Crossing, side: int) -> _Approach:
        """State of one lane of a crossing."""
        lane, start, length = crossing.lanes[side], crossing.start[side], crossing.length[side]
        rows = np.flatnonzero(self._lane == lane)
        closed, round_m = self._lanes[lane].closed, self._lanes[lane].route.length_m
        past = self.distance[rows] + 0.5 * self.length[rows] - start
        if closed:
            past = np.mod(past, round_m)
            inside = past < length + self.length[rows]
            ahead = np.where(inside, np.inf, round_m - past)
        else:
            inside = (past >= 0.0) & (past < length + self.length[rows])
            ahead = np.where(past < 0.0, -past, np.inf)
        best = int(np.argmin(ahead)) if len(rows) else 0
        if not len(rows) or not ahead[best] < 10.0 + 4.0 * self.speed[rows[best]]:
            return _Approach(bool(np.any(inside)), -1, np.inf, np.inf, False)
        car, far = int(rows[best]), float(ahead[best])
        speed = float(self.speed[car])
        arrival = far / max(speed, 1.0) - (100.0 if self._waited[car] > PATIENCE_S else 0.0)
        committed = speed > 0.5 and far < speed**2 / (2.0 * COMMITTED_M_S2)
        return _Approach(bool(np.any(inside)), car, far, arrival, committed)


class _Approach(NamedTuple):
    """One lane of a crossing: a vehicle inside, and the next one to come."""

    inside: bool
    next: int
    """Number of the vehicle; -1 for none."""
    distance_m: float
    arrival_s: float
    committed: bool


def _crossings(lanes: list[_Lane], width_m: float) -> list[_Crossing]:
    """All places where two lanes cross at more than 30 degrees."""
    found = []
    near = width_m + CROSSING_MARGIN_M
    for a in range(len(lanes)):
        for b in range(a + 1, len(lanes)):
            one, two = lanes[a], lanes[b]
            distance, row = two.tree.query(one.xyz[:, :2], distance_upper_bound=near)
            hit = np.flatnonzero(np.isfinite(distance))
            row = row[hit]
            cosine = np.abs(np.sum(one.along[hit] * two.along[row], axis=1))
            level = np.abs(one.xyz[hit, 2] - two.xyz[row, 2]) < 3.0
            keep = (cosine < np.cos(np.radians(30.0))) & level
            hit, row = hit[keep], row[keep]
            for group in _groups(hit, len(one.at), one.closed):
                mine, others = hit[group], row[group]
                start, length = _interval(mine, one)
                start2, length2 = _interval(others, two)
                found.append(_Crossing((a, b), (start, start2), (length, length2)))
    return found


def _groups(rows: np.ndarray, count: int, closed: bool) -> list[np.ndarray]:
    """Positions in `rows` (increasing) of runs of neighbours, with gaps of at most 4 points."""
    if not len(rows):
        return []
    cuts = np.flatnonzero(np.diff(rows) > 4) + 1
    groups = np.split(np.arange(len(rows)), cuts)
    if closed and len(groups) > 1 and rows[0] + count - rows[-1] <= 4:
        groups[0] = np.concatenate([groups.pop(), groups[0]])
    return groups


def _interval(rows: np.ndarray, lane: _Lane) -> tuple[float, float]:
    """Start and length [m] of the part of a lane that contains these points, across its seam where needed."""
    count, half = len(lane.at), len(lane.at) // 2
    shifted = np.mod(rows - rows[0] + half, count) if lane.closed else rows - rows[0] + half
    low, high = int(np.min(shifted)), int(np.max(shifted))
    start = (rows[0] - half + low) % count if lane.closed else rows[0] - half + low
    return float(lane.at[start]), (high - low) * SPACING_M


class LiveRoute(RouteMotion):
    """Motion of a reacting vehicle, as far as it is known; at rest outside of its times."""

    known_ahead = False

    def __init__(self, drivers: Drivers, number: int, driver: Driver) -> None:
        self._drivers, self._number, self._driver = drivers, number, driver
        self.route, self.side_m, self.backwards, self.shift_m = driver.route, 0.0, False, 0.0
        self.wish_m_s = driver.speed_m_s
        self.start_time = 0.0

    def behind(self, distance_m: float) -> LiveRoute:
        """Return the motion of a body that follows on the same track at a distance [m]."""
        other = LiveRoute(self._drivers, self._number, self._driver)
        other.shift_m = self.shift_m + distance_m
        return other

    def distance_at(self, times: ArrayLike) -> Floats:
        """Distance [m] at times (n,) [s]: cubic segments through distances and speeds."""
        asked = np.asarray(times, dtype=np.float64)
        known, distance, speed = self._drivers.around(self._number, asked)
        if len(known) < 2:
            return np.full(len(asked), distance[0] - self.shift_m)
        return RouteMotion(self.route, known, distance, speed).distance_at(asked) - self.shift_m
