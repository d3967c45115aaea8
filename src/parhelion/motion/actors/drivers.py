"""Vehicles on routes that react: they follow each other, brake for whatever is in their lane, and yield at crossings.

Speeds are those of the intelligent driver model (see `traffic`). The obstacle ahead is the nearest of: the next vehicle
of the same route, any disc of another body that covers the lane (people also at the places where they will be soon),
the entry of a crossing that another vehicle passes first, and the end of an open route. The state of a vehicle is its
distance along the route and its place beside it, so all its parts follow from two numbers.

A route may have several lanes in the same direction, side by side to its left. Vehicles change between them by MOBIL
(Kesting, Treiber and Helbing 2007): a change must be safe for the new follower, and the gain in acceleration must
exceed the loss of the others by a threshold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.history import History
from parhelion.core.pose import Floats
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import heading_of, span_of
from parhelion.motion.actors.traffic import HARDEST_BRAKE_M_S2, ClosedRoute, Following, RouteMotion
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


@dataclass(frozen=True)
class LaneChanging:
    """Parameters of MOBIL: values of Kesting, Treiber and Helbing (2007)."""

    politeness: float = 0.2
    """Weight of the accelerations of the followers on both lanes."""
    safe_m_s2: float = 4.0
    """Hardest braking that a change may demand."""
    threshold_m_s2: float = 0.1
    bias_m_s2: float = 0.3
    """Advantage that a change to the left needs in addition, and that a change to the right does not need."""


MOBIL = LaneChanging()
CHANGE_S, CHANGE_M = 4.0, 10.0
"""Duration [s] of a lane change (Toledo and Zohar 2007: 4.6 s on average, 1 to 13 s), and its shortest way [m], on
which a car shifts by 3.25 m with a radius of 5.3 m."""
STAND_OFF_M = 5.0
"""Distance [m] that a driver keeps to an obstacle that stands, in addition, where there is a lane to change to: the way
out then needs no reversing. Assumed."""
STANDING_M_S = 0.1
_CLOSE_M = 0.5
"""Gap at standstill [m] of a driver who changes lanes."""


def wants_change(
    own: Floats, follower: Floats, left_behind: Floats, bias: Floats | float, model: LaneChanging = MOBIL
) -> Floats:
    """Incentive [m/s^2] of a lane change beyond the threshold, positive for a change; MOBIL.

    Args:
        own: Accelerations (2, n) [m/s^2] of the vehicle now and after a change.
        follower: Those of the follower on the new lane.
        left_behind: Those of the follower on the old lane.
        bias: `model.bias_m_s2` for a change to the left, its negative for one to the right.
        model: Parameters.

    A change that is not safe has no incentive: -inf.
    """
    others = follower[1] - follower[0] + left_behind[1] - left_behind[0]
    gain = own[1] - own[0] + model.politeness * others - model.threshold_m_s2 - bias
    safe = (follower[1] > -model.safe_m_s2) & (own[1] > -model.safe_m_s2)
    return np.where(safe, gain, -np.inf)


class Discs(NamedTuple):
    """Bodies seen from above, as discs."""

    xyz: Floats
    """[m], shape (m, 3)."""
    velocity: Floats
    """[m/s], shape (m, 2)."""
    radius_m: Floats
    owner: np.ndarray
    """Number of the reacting vehicle that a disc belongs to; -1 for other bodies."""


class OpenRoute(ClosedRoute):
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

    route: ClosedRoute
    start_m: float
    """Distance [m] of its middle along the route at time 0."""
    speed_m_s: float
    """Desired speed."""
    length_m: float
    width_m: float
    model: Following
    lanes: int = 1
    """Lanes of its route, side by side to the left of the path."""
    lane_m: float = 3.25
    """Width of a lane."""
    lane: int = 0
    """Lane at time 0; 0 is the path of the route."""
    changes: bool = True
    """False for a vehicle that keeps its lane."""


class _Lane:
    """Points of a route, to find what lies on it."""

    def __init__(self, route: ClosedRoute) -> None:
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
        """Rows of the discs near the lane, their distances along it and to its left [m], and speeds along it."""
        distance, row = self.tree.query(discs.xyz[:, :2], distance_upper_bound=reach_m)
        there = np.flatnonzero(np.isfinite(distance))
        row = row[there]
        offset = discs.xyz[there] - self.xyz[row]
        there = there[np.abs(offset[:, 2]) < 3.0]
        keep = np.abs(offset[:, 2]) < 3.0
        offset, row = offset[keep], row[keep]
        along = self.along[row]
        ahead = np.sum(offset[:, :2] * along, axis=1)
        aside = offset[:, 1] * along[:, 0] - offset[:, 0] * along[:, 1]
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
        self._lanes_of, self._lane_m = (np.array([getattr(car, name) for car in cars]) for name in ("lanes", "lane_m"))
        self._changes = np.array([car.changes and car.lanes > 1 for car in cars])
        wider = [float(np.max(((self._lanes_of - 1) * self._lane_m)[self._lane == k])) for k in range(len(self._lanes))]
        self._crossings = _crossings(self._lanes, float(np.max(self.width)), wider)
        self.restart()

    def restart(self) -> None:
        """Return to the start."""
        if self.count == 0:
            return
        self.distance = np.array([car.start_m for car in self._all])
        self.lane = np.array([car.lane for car in self._all])
        """Lane of each vehicle, or the one that it changes to."""
        self._from, self._progress = self.lane.copy(), np.ones(self.count)
        self.left = self.lane * self._lane_m
        """Distance [m] of each vehicle to the left of the path of its route."""
        gap, _ = self._ahead_on_lane()
        # The initial speed respects the headway, so that no vehicle has to brake immediately.
        self.speed = np.minimum(
            np.minimum(self._wish, self._limit()), np.maximum(gap - self._least, 0.0) / (2.0 * self._headway)
        )
        self._waited = np.zeros(self.count)
        self.steps = 0
        self._rows = History((self.count, 4))
        self._record()

    def _record(self) -> None:
        p, shift = self._progress, (self.lane - self._from) * self._lane_m
        rate = np.where(p < 1.0, 30.0 * p**2 * (1.0 - p) ** 2 * shift * self._pace() / STEP_S, 0.0)
        self._rows.append(np.column_stack([self.distance, self.speed, self.left, rate]))
        self.version += 1

    def around(self, number: int, times: Floats) -> tuple[Floats, Floats]:
        """Times (k,) [s] and rows (k, 4) of one vehicle around times (n,) [s]: distance [m], speed, place to the left
        [m] and its rate [m/s]."""
        low, high = np.min(times, initial=STEP_S * self.steps), np.max(times, initial=0.0)
        # One step more at both ends allows for rounding of the times.
        first, rows = self._rows.around(low / STEP_S - 1.0, high / STEP_S + 1.0)
        known = STEP_S * np.arange(first, first + len(rows), dtype=np.float64)
        return known, rows[:, number]

    def capsules(self) -> Capsules:
        """The vehicles seen from above."""
        if self.count == 0:
            return Capsules(np.zeros((0, 3)), np.zeros((0, 2)), np.zeros(0), np.zeros(0), np.zeros((0, 2)))
        xyz, along = np.zeros((self.count, 3)), np.zeros((self.count, 2))
        for number, lane in enumerate(self._lanes):
            rows = np.flatnonzero(self._lane == number)
            xyz[rows], along[rows] = lane.place(self.distance[rows])
        beside = self._lanes_of > 1
        if beside.any():
            xyz[beside, :2] += self.left[beside, None] * np.column_stack([-along[beside, 1], along[beside, 0]])
        radius = 0.5 * self.width
        return Capsules(xyz, along, np.maximum(0.5 * self.length - radius, 0.0), radius, self.speed[:, None] * along)

    # ---- one step ----------------------------------------------------------------------------------------------------

    def step(self, discs: Discs) -> None:
        """Advance by `STEP_S`; `discs` are all bodies at the beginning of the step."""
        if self.count == 0:
            return
        limit = np.maximum(np.minimum(self._wish, self._limit()), 0.01)
        beside = [self._beside(number, discs) for number in range(len(self._lanes))]
        crossing, lane = self._ahead_of_crossings(), self._ahead_on_lane()
        gap, closing = lane
        for near in (self._ahead_of_discs(beside), crossing):
            closing = np.where(near[0] < gap, near[1], closing)
            gap = np.minimum(gap, near[0])
        change = self._acceleration(np.arange(self.count), limit, gap, closing)
        if self._changes.any():
            self._change_lanes(change, limit, crossing, beside, gap)
        faster = np.maximum(self.speed + STEP_S * np.maximum(change, -HARDEST_BRAKE_M_S2), 0.0)
        self.distance = self.distance + 0.5 * STEP_S * (self.speed + faster)
        self.speed = faster
        self._shift()
        self.steps += 1
        self._record()

    def _acceleration(self, rows: np.ndarray, limit: Floats, gap: Floats, closing: Floats) -> Floats:
        """Accelerations [m/s^2] of vehicles (n,) by the intelligent driver model; `limit` are the speeds wished."""
        speed, most = self.speed[rows], self._most[rows]
        root = 2.0 * np.sqrt(most * self._brake[rows])
        least = np.where(self._progress[rows] < 1.0, _CLOSE_M, self._least[rows])
        wanted = least + np.maximum(speed * self._headway[rows] + speed * closing / root, 0.0)
        return most * (1.0 - (speed / limit[rows]) ** 4 - (wanted / np.maximum(gap, 0.01)) ** 2)

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
            if np.max(self._lanes_of[rows]) > 1:
                for left in (self.left[rows], self.lane[rows] * self._lane_m[rows]):
                    leader, free, *_ = self._next(number, rows, left)
                    nearer = free < gap[rows]
                    gap[rows] = np.where(nearer, free, gap[rows])
                    closing[rows] = np.where(nearer, speed[rows] - speed[leader], closing[rows])
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

    def _beside(self, number: int, discs: Discs) -> _Beside:
        """Discs near the lanes of a route that are not of its own vehicles, which keep their gaps along the lane."""
        rows, lane = np.flatnonzero(self._lane == number), self._lanes[number]
        none = np.zeros(0)
        if not len(discs.xyz) or not len(rows):
            return _Beside(rows, none, none, none, none)
        other_lane = np.where(discs.owner < 0, -1, self._lane[np.maximum(discs.owner, 0)])
        reach = 0.5 * float(np.max(self.width[rows])) + SIDE_GAP_M + float(np.max(discs.radius_m)) + SPACING_M
        reach += float(np.max((self._lanes_of[rows] - 1) * self._lane_m[rows]))
        there, at, aside, speed = lane.find(discs, reach)
        other = other_lane[there] != number
        return _Beside(rows, at[other], aside[other], speed[other], discs.radius_m[there[other]])

    def _toward_discs(self, near: _Beside, number: int, left: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """Distances (n, m) [m] along the lane from vehicles to discs; mask of those on the way at places `left`."""
        lane = self._lanes[number]
        ahead = near.at_m[None, :] - self.distance[near.rows, None]
        if lane.closed:
            ahead = np.mod(ahead, lane.route.length_m)
        wide = near.radius_m + 0.5 * self.width[near.rows, None] + SIDE_GAP_M
        return ahead, np.abs(near.left_m[None, :] - left[:, None]) < wide

    def _free_of_discs(self, near: _Beside, number: int, left: Floats, still_m: Floats) -> tuple[Floats, Floats]:
        """Gaps [m] to the nearest disc ahead of each vehicle at places `left`, and its speeds along the lane."""
        ahead, on_lane = self._toward_discs(near, number, left)
        half = 0.5 * self.length[near.rows, None]
        # Beside the own body it is too late to brake; a body that stands in front of the bumper counts.
        in_front = ahead > 0.8 * half
        free = np.where(on_lane & in_front, ahead - half - near.radius_m, np.inf)
        free = free - np.where(np.abs(near.speed_m_s) < STANDING_M_S, still_m[:, None], 0.0)
        best = np.argmin(free, axis=1)
        return free[np.arange(len(free)), best], near.speed_m_s[best]

    def _ahead_of_discs(self, beside: list[_Beside]) -> tuple[Floats, Floats]:
        """Gaps [m] to the nearest disc on the lane of each vehicle, and closing speeds [m/s]."""
        gap, closing = np.full(self.count, np.inf), np.zeros(self.count)
        for number, near in enumerate(beside):
            if not len(near.at_m):
                continue
            rows = near.rows
            still = np.where(self._changes[rows] & (self._progress[rows] >= 1.0), STAND_OFF_M, 0.0)
            gap[rows], speed = self._free_of_discs(near, number, self.left[rows], still)
            if (self._progress[rows] < 1.0).any():
                free, other = self._free_of_discs(near, number, self.lane[rows] * self._lane_m[rows], 0.0 * still)
                speed = np.where(free < gap[rows], other, speed)
                gap[rows] = np.minimum(gap[rows], free)
            closing[rows] = self.speed[rows] - np.maximum(speed, 0.0)
        return gap, closing

    # ---- several lanes -----------------------------------------------------------------------------------------------

    def _next(self, number: int, rows: np.ndarray, left: Floats) -> tuple[np.ndarray, Floats, np.ndarray, Floats]:
        """Next vehicles of the route ahead of vehicles at places `left` [m] and behind them, and the gaps [m] to them.

        Vehicles that change lanes are on both. Without any, the gap is infinite.
        """
        lane = self._lanes[number]
        apart = self.distance[rows][None, :] - self.distance[rows][:, None]
        wide = 0.5 * (self.width[rows][None, :] + self.width[rows][:, None]) + SIDE_GAP_M
        aims = self.lane[rows] * self._lane_m[rows]
        meets = (np.abs(self.left[rows][None, :] - left[:, None]) < wide) | (
            np.abs(aims[None, :] - left[:, None]) < wide
        )
        np.fill_diagonal(meets, False)
        ways = (
            (np.mod(apart, lane.route.length_m), np.mod(-apart, lane.route.length_m))
            if lane.closed
            else (apart, -apart)
        )
        found: list[Any] = []
        for way in ways:
            free = np.where(
                meets & (way >= 0.0), way - 0.5 * (self.length[rows][None, :] + self.length[rows][:, None]), np.inf
            )
            best = np.argmin(free, axis=1)
            found += [rows[best], free[np.arange(len(rows)), best]]
        return found[0], found[1], found[2], found[3]

    def _change_lanes(
        self, now: Floats, limit: Floats, crossing: tuple[Floats, Floats], beside: list[_Beside], ahead_m: Floats
    ) -> None:
        """Let at most one vehicle per route begin a lane change: the one with the largest incentive.

        `now` are the accelerations on the present lanes, `ahead_m` the gaps on them.
        """
        for number, near in enumerate(beside):
            rows = near.rows
            if not self._changes[rows].any():
                continue
            begins, best = -1, 0.0
            side = 0
            leader, leads, old, old_gap = self._next(number, rows, self.left[rows])
            freed = old_gap + self.length[rows] + leads
            left_behind = np.zeros((2, len(rows)))
            has = np.isfinite(old_gap)
            left_behind[0] = np.where(has, now[old], 0.0)
            left_behind[1] = np.where(
                has, self._acceleration(old, limit, freed, self.speed[old] - self.speed[leader]), 0.0
            )
            for way in (1, -1):
                aim = self.lane[rows] + way
                may = self._changes[rows] & (self._progress[rows] >= 1.0) & (aim >= 0) & (aim < self._lanes_of[rows])
                # A vehicle that hardly moves needs space ahead to leave its lane.
                may &= (self.speed[rows] > 2.0) | (ahead_m[rows] + STAND_OFF_M > CHANGE_M * 0.65)
                if not may.any():
                    continue
                left = aim * self._lane_m[rows]
                ahead, gap, behind, back = self._next(number, rows, left)
                new = np.minimum(
                    self._acceleration(rows, limit, gap, self.speed[rows] - self.speed[ahead]),
                    self._acceleration(rows, limit, crossing[0][rows], crossing[1][rows]),
                )
                follower = np.zeros((2, len(rows)))
                has = np.isfinite(back)
                follower[0] = np.where(has, now[behind], 0.0)
                pressed = self._acceleration(behind, limit, back, self.speed[behind] - self.speed[rows])
                follower[1] = np.where(has, np.minimum(pressed, now[behind]), 0.0)
                if len(near.at_m):
                    free, speed = self._free_of_discs(near, number, left, np.zeros(len(rows)))
                    new = np.minimum(
                        new, self._acceleration(rows, limit, free, self.speed[rows] - np.maximum(speed, 0.0))
                    )
                    follower[1] = np.minimum(follower[1], self._braking_behind(near, number, left))
                free_sides = (gap > 0.0) & (back > 0.0)
                gain = wants_change(np.stack([now[rows], new]), follower, left_behind, way * MOBIL.bias_m_s2)
                gain = np.where(may & free_sides, gain, -np.inf)
                pick = int(np.argmax(gain))
                if gain[pick] > best:
                    begins, best, side = int(rows[pick]), float(gain[pick]), way
            if begins >= 0:
                self._from[begins], self._progress[begins] = self.lane[begins], 0.0
                self.lane[begins] += side

    def _braking_behind(self, near: _Beside, number: int, left: Floats) -> Floats:
        """Accelerations [m/s^2] that a change demands of other bodies on the new lane behind; -inf for one beside."""
        ahead, on_lane = self._toward_discs(near, number, left)
        half = 0.5 * self.length[near.rows, None] + near.radius_m
        if self._lanes[number].closed:
            ahead = np.where(
                ahead > 0.5 * self._lanes[number].route.length_m, ahead - self._lanes[number].route.length_m, ahead
            )
        gap = -ahead - half
        speed = np.maximum(near.speed_m_s, 0.0)[None, :]
        least, headway = self._least[near.rows, None], self._headway[near.rows, None]
        root = 2.0 * np.sqrt(self._most[near.rows, None] * self._brake[near.rows, None])
        wanted = least + np.maximum(speed * headway + speed * (speed - self.speed[near.rows, None]) / root, 0.0)
        braking = -self._most[near.rows, None] * (wanted / np.maximum(gap, 0.01)) ** 2
        result = np.where(
            gap > 0.0, np.where(speed > STANDING_M_S, braking, 0.0), np.where(np.abs(ahead) < half, -np.inf, 0.0)
        )
        return np.min(np.where(on_lane, result, 0.0), axis=1, initial=0.0)

    def _pace(self) -> Floats:
        """Share of a lane change per step; a vehicle at rest does not move aside."""
        return STEP_S * self.speed / np.maximum(self.speed * CHANGE_S, CHANGE_M)

    def _shift(self) -> None:
        """Move the vehicles that change lanes aside, with zero velocity and acceleration at both ends."""
        if not self._changes.any():
            return
        p = self._progress = np.minimum(self._progress + np.where(self._progress < 1.0, self._pace(), 0.0), 1.0)
        share = p**3 * (10.0 - 15.0 * p + 6.0 * p**2)
        self.left = (self._from + (self.lane - self._from) * share) * self._lane_m

    def _ahead_of_crossings(self) -> tuple[Floats, Floats]:
        """Gaps [m] to crossings where another vehicle goes first, and closing speeds [m/s]."""
        gap, closing = np.full(self.count, np.inf), self.speed.copy()
        waits = np.zeros(self.count, dtype=bool)
        for crossing in self._crossings:
            first, second = (self._at_crossing(crossing, side) for side in (0, 1))
            pairs = [(mine, second) for mine in first] + [(mine, first) for mine in second]
            for mine, others in pairs:
                if mine.next < 0:
                    continue
                yields = any(
                    one.inside
                    or (
                        not mine.committed
                        and one.next >= 0
                        and (one.committed or (one.arrival_s, one.next) < (mine.arrival_s, mine.next))
                    )
                    for one in others
                )
                if yields:
                    # The gap at standstill is shorter than behind a vehicle.
                    free = mine.distance_m + 0.5 * self._least[mine.next]
                    gap[mine.next] = min(gap[mine.next], max(free, 0.01))
                    waits[mine.next] = True
        self._waited = np.where(waits & (self.speed < 0.3), self._waited + STEP_S, np.where(waits, self._waited, 0.0))
        return gap, closing

    def _at_crossing(self, crossing: _Crossing, side: int) -> list[_Approach]:
        """State of the lanes of a route at a crossing."""
        rows = np.flatnonzero(self._lane == crossing.lanes[side])
        lanes = self.lane[rows]
        return [self._approach(crossing, side, rows[lanes == k]) for k in range(int(np.max(lanes, initial=0)) + 1)]

    def _approach(self, crossing: _Crossing, side: int, rows: np.ndarray) -> _Approach:
        """State of one lane, with these vehicles, at a crossing."""
        lane, start, length = crossing.lanes[side], crossing.start[side], crossing.length[side]
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


class _Beside(NamedTuple):
    """Vehicles of a route, and discs near its lanes."""

    rows: np.ndarray
    at_m: Floats
    """Distances of the discs along the route."""
    left_m: Floats
    """Places of the discs to the left of its path."""
    speed_m_s: Floats
    """Speeds of the discs along it."""
    radius_m: Floats


class _Approach(NamedTuple):
    """One lane of a crossing: a vehicle inside, and the next one to come."""

    inside: bool
    next: int
    """Number of the vehicle; -1 for none."""
    distance_m: float
    arrival_s: float
    committed: bool


def _crossings(lanes: list[_Lane], width_m: float, wider_m: list[float]) -> list[_Crossing]:
    """All places where two routes cross at more than 30 degrees; `wider_m` are the widths of lanes beside the path."""
    found = []
    for a in range(len(lanes)):
        for b in range(a + 1, len(lanes)):
            one, two = lanes[a], lanes[b]
            near = width_m + CROSSING_MARGIN_M + wider_m[a] + wider_m[b]
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
        known, rows = self._drivers.around(self._number, asked)
        if len(known) < 2:
            return np.full(len(asked), rows[0, 0] - self.shift_m)
        return RouteMotion(self.route, known, rows[:, 0], rows[:, 1]).distance_at(asked) - self.shift_m

    def aside(self, times: Floats) -> tuple[Floats, Floats]:
        """Places (n,) [m] to the right of the path, and their changes per distance."""
        if self._driver.lanes == 1:
            return super().aside(times)
        known, rows = self._drivers.around(self._number, times)
        if len(known) < 2:
            return np.full(len(times), -rows[0, 2]), np.zeros(len(times))
        left = RouteMotion(self.route, known, rows[:, 2], rows[:, 3]).distance_at(times)
        rate, speed = (np.interp(times, known, rows[:, k]) for k in (3, 1))
        return -left, -rate / np.maximum(speed, 0.1)
