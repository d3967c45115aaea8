"""People who react: they follow paths, avoid each other, vehicles and walls, and step as they go.

Velocities are those of `orca`. The preferred speed falls with the space ahead, because a step needs space: the length
that a person needs in a lane grows linearly with the speed, d = d_0 + τ v (Seyfried, Steffen, Klingsch and Boltes
2005). The values d_0 = 0.36 m and τ = 1.06 s are assumed; with them, speeds in a crowd agree with the fundamental
diagram of Weidmann (1993) within 0.2 m/s up to 2.5 people/m². Positions are recorded
once per step; between them they are cubic, so velocities are continuous. All samples at a time depend on states up to
that time only: a foot aims at the place where the body will be if it keeps its velocity, and lands there.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.history import History
from parhelion.core.pose import Floats
from parhelion.core.random import Stream
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import about, heading_of, span_of
from parhelion.motion.actors.orca import avoid_discs, avoid_points, choose, half_planes
from parhelion.motion.actors.person import (
    AFTER,
    BEFORE,
    HIP_HALF,
    LONGEST_STANCE,
    REACH,
    TURN_RADIUS_M,
    Placed,
    Walk,
    refuse_haste,
    step_length_m,
    walk_ratio_m_s,
)
from parhelion.motion.actors.walls import Walls
from parhelion.world.world import World

Numbers = NDArray[np.intp]

STEP_S = 0.05
"""Step of all reacting actors [s]."""
LATEST_HOLDS = 64
"""Number of the latest footholds of a person in memory, of half a minute; earlier ones are read from a file."""
RADIUS_M = 0.25
"""Radius [m] of a person of 1.75 m seen from above: half the breadth of the shoulders with arms. Assumed."""
MARGIN_M = 0.04
"""Margin [m] of the radius for planning; without it, 1 % of the time is in contact."""
NEIGHBOURS = 7
VEHICLES = 2
WALLS = 3
HORIZON_S, VEHICLE_HORIZON_S, WALL_HORIZON_S, CONTACT_S = 1.5, 3.0, 0.4, 0.1
HARDEST_M_S2 = 5.0
"""Largest change of a person's velocity [m/s²]. Assumed: a stop from 1.4 m/s within one step."""
HURRY = 1.3
"""Largest speed over the desired one."""
OWN_SPACE_M, SPACE_PER_SPEED_S = 0.36, 1.06
LANE_M = 0.35
"""Half width [m] of the strip ahead in which others count for the space of the steps. Assumed: breadth of a body."""
AHEAD_M = 2.5
"""Distance [m] along the path of the point that a person walks towards, further for those who left the path."""
SLOWEST_STEPS_HZ = 1.2
"""Rate of the steps with which a person who stops brings the feet together."""
STILL_M_S = 0.05
AT_HOME_M = 0.06
TURN_S, FASTEST_TURN_RAD_S = 0.3, 2.5


class Capsules(NamedTuple):
    """Vehicles seen from above: segments with a radius."""

    xyz: Floats
    """Middles [m], shape (m, 3)."""
    along: Floats
    """Unit vectors along the segments, shape (m, 2)."""
    half_m: Floats
    """Half lengths of the segments [m]."""
    radius_m: Floats
    velocity: Floats
    """[m/s], shape (m, 2)."""


class Path:
    """Line that a person follows: points about 0.25 m apart."""

    def __init__(self, points: Floats, closed: bool, speed: Floats | None = None) -> None:
        """Points (n, 3) [m]; a closed path continues from the last to the first. `speed` (n,) [m/s] limits it."""
        self.points, self.closed = points, closed
        self.speed = np.full(len(points), np.inf) if speed is None else speed

    @classmethod
    def of(cls, motion: Trajectory, times: tuple[float, float] | None, side_m: float = 0.0, back: bool = False) -> Path:
        """Path of a motion, `side_m` to the right of it; with `back`, in the opposite direction."""
        span = span_of(motion, times)
        grid = np.linspace(span.start_s, span.end_s, max(2, int(np.ceil(span.length_s / 0.02)) + 1))
        xyz, quat = motion.sample(grid)
        with np.errstate(over="ignore"):
            legs = np.linalg.norm(np.diff(xyz, axis=0), axis=1)
            gone = np.concatenate([[0.0], np.cumsum(legs)])
        if gone[-1] < 1e-6:
            return cls(xyz[:1], closed=False)
        refuse_haste(float(np.max(legs / np.diff(grid))))
        pieces = max(4, int(np.ceil(gone[-1] / 0.25)))
        at = np.interp(np.linspace(0.0, gone[-1], pieces + 1), gone, grid)
        xyz, quat = motion.sample(at)
        heading = heading_of(quat) + (np.pi if back else 0.0)
        xyz = xyz + side_m * np.column_stack([np.sin(heading), -np.cos(heading), np.zeros_like(heading)])
        speed = np.interp(at, 0.5 * (grid[1:] + grid[:-1]), legs / np.diff(grid))
        if span.repeats:
            xyz, speed = xyz[:-1], speed[:-1]
        return cls(xyz[::-1], span.repeats, speed[::-1]) if back else cls(xyz, span.repeats, speed)


@dataclass(frozen=True)
class Walker:
    """A person who reacts, as added."""

    path: Path
    start: float
    """Place at time 0 as a share of the path, from 0 to 1."""
    speed_m_s: float
    """Desired speed."""
    height_m: float


class Walkers:
    """All reacting people of a scenario."""

    def __init__(self, seed: int = 0) -> None:
        self._seed = seed
        self._all: list[Walker] = []
        self.count = 0
        self.bodies = _Bodies(self)
        self.version = 0
        """Number of changes of the recorded motion."""
        self.contacts = 0
        """People in contact with another one, counted per neighbour and summed over steps."""

    def add(self, walker: Walker) -> int:
        """Add a person and return the number."""
        self._all.append(walker)
        return len(self._all) - 1

    # ---- state -------------------------------------------------------------------------------------------------------

    def begin(self, world: World) -> None:
        """Prepare the tables; afterwards no one can be added."""
        people = self._all
        self.count = n = len(people)
        if n == 0:
            return
        first = np.cumsum([0, *(len(one.path.points) for one in people)])
        self._points = np.concatenate([one.path.points for one in people])
        self._limit = np.concatenate([one.path.speed for one in people])
        self._first, self._number = first[:-1], np.diff(first)
        self._closed = np.array([one.path.closed for one in people])
        self._spacing = np.array([_spacing(one.path) for one in people])
        self.height = np.array([one.height_m for one in people])
        self.radius = RADIUS_M * self.height / 1.75
        self._wish = np.array([one.speed_m_s for one in people])
        self.ratio = np.array([walk_ratio_m_s(one.height_m) for one in people])
        longest = np.array([float(step_length_m(HURRY * one.speed_m_s, one.height_m)) for one in people])
        self.stance = np.clip(0.5 * REACH * self.height / longest, 0.54, LONGEST_STANCE)
        # Long paths of few people need not be cut everywhere at once, but walls are static: this happens once.
        self.walls = Walls.of(world, np.unique(self._points, axis=0))
        self.restart()

    def restart(self) -> None:
        """Return to the start."""
        n = self.count
        if n == 0:
            return
        rng = Stream(self._seed, "actors/walkers").generator()
        start = np.floor(np.array([one.start for one in self._all]) * self._number)
        self._place = np.where(self._closed, np.mod(start, self._number), np.clip(start, 0, self._number - 1)).astype(
            np.intp
        )
        here, ahead = self._at(self._place), self._at(self._place + 1)
        line = ahead - here
        still = np.linalg.norm(line[:, :2], axis=1) < 1e-9
        heading = np.where(still, 0.0, np.arctan2(line[:, 1], line[:, 0]))
        speed = np.where(still, 0.0, np.minimum(self._wish, self._limit[self._first + self._place]))
        # A spread of starting places across the path, so that people do not walk in single file.
        self._phase = 4.0 + np.where(still, 0.6, 2.0 * rng.uniform(0.0, 1.0, n))
        self._bias, self._side = rng.uniform(-0.12, -0.04, n), np.zeros(n)
        self.xyz = here.copy()
        self.velocity = speed[:, None] * np.column_stack([np.cos(heading), np.sin(heading)])
        self.velocity[speed > 0.0] = self._with_space(self.velocity)[speed > 0.0]
        self._heading = heading
        self._rows = History((n, 9))
        self.steps = 0
        self.version += 1
        self._record(np.zeros(n), np.zeros(n))
        self._holds, self._held = np.zeros((LATEST_HOLDS, n, 4)), np.full((LATEST_HOLDS, n), -1)
        self._landings = History((6,))
        self._landed = np.floor(self._phase + BEFORE * self.stance).astype(np.intp)
        for back in range(4):
            step = np.maximum(self._landed - back, 0)
            self._hold(np.arange(n), step, self._target(step, self._phase, self._rows.rows(0, 1)[0]))
        self.contacts = 0

    def _at(self, place: Numbers) -> Floats:
        """Points (n, 3) of the paths at point numbers (n,)."""
        number = np.where(self._closed, np.mod(place, self._number), np.clip(place, 0, self._number - 1))
        return self._points[self._first + number]

    def _record(self, rise: Floats, turn: Floats) -> None:
        """Add the state as a row: x, y, z, heading, their rates, and the phase."""
        self._rows.append(np.column_stack([self.xyz, self._heading, self.velocity, rise, turn, self._phase]))

    # ---- one step ----------------------------------------------------------------------------------------------------

    def step(self, vehicles: Capsules) -> None:
        """Advance by `STEP_S`; `vehicles` are those at the beginning of the step."""
        if self.count == 0:
            return
        preferred = self._preferred()
        planes, hard = self._half_planes(vehicles)
        chosen = choose(preferred, planes, hard, HURRY * self._wish)
        change = chosen - self.velocity
        size = np.hypot(change[:, 0], change[:, 1])
        change *= np.minimum(1.0, HARDEST_M_S2 * STEP_S / np.maximum(size, 1e-12))[:, None]
        self.velocity = self.velocity + change
        before = self.xyz[:, 2].copy()
        self.xyz[:, :2] += STEP_S * self.velocity
        self._find_place()
        # Heights follow the path a little later than the body, which is smooth where paths are.
        level = self._level()
        self.xyz[:, 2] = before + np.clip(level - before, -0.5 * STEP_S, 0.5 * STEP_S)
        turn = self._turn(preferred)
        self._heading = self._heading + STEP_S * turn
        self._walk_on(turn)
        self.steps += 1
        self.version += 1
        self._record((self.xyz[:, 2] - before) / STEP_S, turn)
        self._land()

    def _preferred(self) -> Floats:
        """Velocities (n, 2) [m/s] towards a point ahead on the path, at the desired speed or less."""
        aside = np.linalg.norm(self._at(self._place)[:, :2] - self.xyz[:, :2], axis=1)
        ahead = np.maximum(np.round((AHEAD_M + aside) / self._spacing), 1).astype(np.intp)
        to = self._at(self._place + ahead)[:, :2] - self.xyz[:, :2]
        distance = np.hypot(to[:, 0], to[:, 1])
        limit = self._limit[
            self._first + np.where(self._closed, self._place, np.minimum(self._place, self._number - 1))
        ]
        speed = np.minimum(self._wish, np.maximum(limit, 0.3))
        # At the end of an open path, the speed falls with the distance.
        speed = np.where(self._closed, speed, np.minimum(speed, distance / 0.6))
        towards = self._around_walls(to / np.maximum(distance, 1e-9)[:, None], distance)
        across = np.stack([-towards[:, 1], towards[:, 0]], axis=1)
        # A small bias to the right breaks ties of people who meet head-on.
        wanted = speed[:, None] * (towards + self._bias[:, None] * across)
        return self._with_space(wanted)

    def _around_walls(self, towards: Floats, distance: Floats) -> Floats:
        """Directions (n, 2): along a wall that stands in the way, to one side until it is passed."""
        self._walls = away, known = self.walls.nearest(self.xyz[:, :2], WALLS)
        nearest = away[:, 0]
        size = np.hypot(nearest[:, 0], nearest[:, 1])
        across = np.stack([-nearest[:, 1], nearest[:, 0]], axis=1) / np.maximum(size, 1e-9)[:, None]
        facing = np.sum(nearest * towards, axis=1)
        in_way = known[:, 0] & (facing > 0.5 * size) & (size < self.radius + 0.5) & (distance > size)
        along = np.sum(towards * across, axis=1)
        side = np.where(np.abs(along) > 0.05, np.sign(along), np.where(self._bias > 0.0, 1.0, -1.0))
        self._side = np.where(in_way, np.where(self._side == 0.0, side, self._side), 0.0)
        return np.where(in_way[:, None], self._side[:, None] * across, towards)

    def _with_space(self, wanted: Floats) -> Floats:
        """Velocities, slower where the next person ahead in the own lane leaves little space."""
        offset, other, far = self._around()
        speed = np.hypot(wanted[:, 0], wanted[:, 1])
        facing = wanted / np.maximum(speed, 1e-9)[:, None]
        along = np.sum(offset * facing[:, None], axis=-1)
        aside = np.abs(offset[..., 0] * facing[:, None, 1] - offset[..., 1] * facing[:, None, 0])
        # Only of those who want to go the same way: people who meet pass each other.
        same_way = np.sum(facing[other] * facing[:, None], axis=-1) > 0.5
        counts = ~far & same_way & (along > 0.0) & (aside < LANE_M)
        space = np.min(np.where(counts, along, np.inf), axis=1, initial=np.inf)
        allowed = np.maximum((space - OWN_SPACE_M) / SPACE_PER_SPEED_S, 0.0)
        return facing * np.minimum(speed, allowed)[:, None]

    def _around(self) -> tuple[Floats, Numbers, NDArray[np.bool_]]:
        """Offsets (n, k, 2) [m] to the nearest others, their numbers (n, k), and a mask of missing ones."""
        from scipy.spatial import cKDTree

        k = min(NEIGHBOURS, self.count - 1)
        if k < 1:
            empty = np.zeros((self.count, 0))
            self._others = np.zeros((self.count, 0, 2)), empty.astype(np.intp), empty.astype(bool)
            return self._others
        here = self.xyz[:, :2]
        distance, other = cKDTree(here).query(here, k=k + 1)
        rows = np.arange(self.count)[:, None]
        # Of people at the same place, either may come first.
        order = np.argsort(other == rows, axis=1, kind="stable")[:, :k]
        other = np.take_along_axis(other, order, axis=1)
        distance = np.take_along_axis(distance, order, axis=1)
        offset = here[other] - here[:, None]
        far = (distance > 6.0) | (np.abs(self.xyz[other, 2] - self.xyz[:, None, 2]) > 1.5)
        self._others = offset, other, far
        return self._others

    def _half_planes(self, vehicles: Capsules) -> tuple[Floats, NDArray[np.bool_]]:
        """Half planes (n, m, 3) of all people, and a mask (m,) of those of walls."""
        offset, other, far = self._others
        radius = self.radius[:, None] + self.radius[other] + 2.0 * MARGIN_M
        own = self.velocity[:, None, :]
        shift, normal = avoid_discs(offset, own, self.velocity[other], radius, HORIZON_S, CONTACT_S)
        people = half_planes(own, shift, normal, 0.5)
        people[far] = 0.0
        self.contacts += int(np.count_nonzero(np.hypot(offset[..., 0], offset[..., 1]) < radius - 2.0 * MARGIN_M))
        blocks = [people, self._of_vehicles(vehicles)]
        away, known = self._walls
        used = int(np.count_nonzero(np.any(known, axis=0)))  # fewer half planes where no walls are near
        away, known = away[:, :used], known[:, :used]
        walls = avoid_points(away, np.broadcast_to(self.radius[:, None], known.shape), WALL_HORIZON_S)
        walls[~known] = 0.0
        blocks.append(walls)
        hard = np.concatenate([np.zeros(block.shape[1], dtype=bool) for block in blocks[:2]] + [np.ones(used, bool)])
        return np.concatenate(blocks, axis=1), hard

    def _of_vehicles(self, vehicles: Capsules) -> Floats:
        """Half planes (n, k, 3) of the nearest vehicles; people take the whole correction on themselves."""
        k = min(VEHICLES, len(vehicles.xyz))
        if k == 0:
            return np.zeros((self.count, 0, 3))
        offset = vehicles.xyz[None, :, :2] - self.xyz[:, None, :2]
        # The point of the segment that is nearest to the person.
        share = np.clip(-np.sum(offset * vehicles.along, axis=-1), -vehicles.half_m, vehicles.half_m)
        offset = offset + share[..., None] * vehicles.along
        radius = self.radius[:, None] + vehicles.radius_m + MARGIN_M
        distance = np.hypot(offset[..., 0], offset[..., 1]) - radius
        apart = np.abs(vehicles.xyz[None, :, 2] - self.xyz[:, None, 2]) > 2.5
        closing = np.hypot(vehicles.velocity[:, 0], vehicles.velocity[:, 1]) + 2.0
        soon = np.where(apart, np.inf, distance / closing)
        chosen = np.argsort(soon, axis=1, kind="stable")[:, :k]
        row = np.arange(self.count)[:, None]
        own = self.velocity[:, None, :]
        shift, normal = avoid_discs(
            offset[row, chosen], own, vehicles.velocity[chosen], radius[row, chosen], VEHICLE_HORIZON_S, CONTACT_S
        )
        planes = half_planes(own, shift, normal, 1.0)
        planes[soon[row, chosen] > VEHICLE_HORIZON_S] = 0.0
        return planes

    def _find_place(self) -> None:
        """Move the place on the path to the nearest point a little ahead; never back, so hairpins are passed."""
        near = self._place[:, None] + np.arange(9)
        number = np.where(
            self._closed[:, None], np.mod(near, self._number[:, None]), np.clip(near, 0, self._number[:, None] - 1)
        )
        away = self._points[self._first[:, None] + number, :2] - self.xyz[:, None, :2]
        best = np.argmin(np.sum(away**2, axis=-1), axis=1)
        self._place = number[np.arange(self.count), best]

    def _level(self) -> Floats:
        """Heights (n,) [m] of the paths beside the people."""
        here, ahead = self._at(self._place), self._at(self._place + 1)
        line = ahead - here
        length2 = np.maximum(np.sum(line[:, :2] ** 2, axis=1), 1e-9)
        share = np.clip(np.sum((self.xyz[:, :2] - here[:, :2]) * line[:, :2], axis=1) / length2, 0.0, 1.0)
        return here[:, 2] + share * line[:, 2]

    def _turn(self, preferred: Floats) -> Floats:
        """Rates of turn (n,) [rad/s] towards the direction of walking; people who stand keep theirs."""
        moving = np.hypot(self.velocity[:, 0], self.velocity[:, 1])
        aim = np.arctan2(self.velocity[:, 1], self.velocity[:, 0])
        off = np.mod(aim - self._heading + np.pi, 2.0 * np.pi) - np.pi
        # Slow steps backwards or aside need no turn of the body.
        weight = np.clip((moving - 0.15) / 0.3, 0.0, 1.0)
        return np.clip(weight * off / TURN_S, -FASTEST_TURN_RAD_S, FASTEST_TURN_RAD_S)

    # ---- steps of the feet -------------------------------------------------------------------------------------------

    def _walk_on(self, turn: Floats) -> None:
        """Advance the phase of the gait; people who stand bring their feet together first."""
        speed = np.hypot(np.hypot(self.velocity[:, 0], self.velocity[:, 1]), TURN_RADIUS_M * turn)
        rate = np.sqrt(speed / self.ratio)
        row = np.arange(self.count)
        last = np.stack([self._landed, self._landed - 1])
        feet = self._holds[np.maximum(last, 0) % LATEST_HOLDS, row]
        home = np.stack([self._home(step) for step in last])
        away = np.max(np.linalg.norm(feet[..., :2] - home[..., :2], axis=-1), axis=0)
        part = np.mod(self._phase, 1.0)
        both = (part > 1.0 - BEFORE * self.stance) & (part < AFTER * self.stance)
        rests = (speed < STILL_M_S) & both & (away < AT_HOME_M)
        self._phase = self._phase + STEP_S * np.where(rests, 0.0, np.maximum(rate, SLOWEST_STEPS_HZ))

    def _home(self, step: Numbers) -> Floats:
        """Places (n, 2) [m] of the feet of these step numbers when a person stands."""
        side = np.where(step % 2 == 0, 1.0, -1.0) * HIP_HALF * self.height
        return self.xyz[:, :2] + side[:, None] * np.column_stack([-np.sin(self._heading), np.cos(self._heading)])

    def _target(self, step: Numbers, phase: Floats, rows: Floats, who: Numbers | None = None) -> Floats:
        """Footholds (n, 4): place [m] and heading of the feet, for bodies that keep the velocity of their rows."""
        who = np.arange(self.count) if who is None else who
        speed = np.hypot(rows[..., 4], rows[..., 5])
        rate = np.maximum(np.sqrt(speed / self.ratio[who]), SLOWEST_STEPS_HZ)
        later = (step - phase) / rate
        heading = rows[..., 3] + np.clip(rows[..., 7] * later, -0.6, 0.6)
        side = np.where(step % 2 == 0, 1.0, -1.0) * HIP_HALF * self.height[who]
        return np.stack(
            [
                rows[..., 0] + rows[..., 4] * later - side * np.sin(heading),
                rows[..., 1] + rows[..., 5] * later + side * np.cos(heading),
                rows[..., 2] + rows[..., 6] * later,
                heading,
            ],
            axis=-1,
        )

    def _land(self) -> None:
        """Fix the footholds of the feet that landed in the last step."""
        landed = np.floor(self._phase + BEFORE * self.stance).astype(np.intp)
        who = np.flatnonzero(landed > self._landed)
        self._landed = landed
        if not len(who):
            return
        phase = landed[who] - BEFORE * self.stance[who]
        before, after = self._rows.rows(self.steps - 1, self.steps + 1)[:, who]
        share = np.clip((phase - before[:, 8]) / (after[:, 8] - before[:, 8]), 0.0, 1.0)
        rows = _between(before, after, share)
        self._hold(who, landed[who], self._target(landed[who], phase, rows, who))

    def _hold(self, who: Numbers, step: Numbers, holds: Floats) -> None:
        """Record footholds (n, 4) of people `who` (n,) with their numbers `step` (n,)."""
        self._holds[step % LATEST_HOLDS, who], self._held[step % LATEST_HOLDS, who] = holds, step
        self._landings.extend(np.column_stack([who, step, holds]))

    # ---- samples -----------------------------------------------------------------------------------------------------

    def sample(self, number: Numbers | int, times: Floats) -> Floats:
        """Rows (n, 9) at times (n,) [s], of one person or of one per time: x, y, z, heading, their rates, phase."""
        if self.count == 0:
            raise RuntimeError("walkers: begin() was not called")
        at = np.clip(np.asarray(times, dtype=np.float64) / STEP_S, 0.0, float(self.steps))
        row = np.minimum(at.astype(np.intp), max(self.steps - 1, 0))
        first, known = self._rows.around(np.min(row, initial=self.steps), np.max(row, initial=0) + 1)
        here = row - first
        following = np.minimum(here + 1, len(known) - 1)
        rows = _between(known[here, number], known[following, number], at - row)
        outside = (times < 0.0) | (times > STEP_S * self.steps + 1e-9)
        rows[outside, 4:8] = 0.0
        return rows

    def footholds(self, who: Numbers, step: Numbers, phase: Floats, rows: Floats) -> Floats:
        """Footholds (n, 4) of people `who` (n,): where the foot stands, or where it will land."""
        coming = self._target(step, phase, rows, who)
        there = step <= np.floor(phase + BEFORE * self.stance[who])
        known = self._holds[step % LATEST_HOLDS, who]
        old = np.flatnonzero(there & (self._held[step % LATEST_HOLDS, who] != step))
        if len(old):
            known[old] = self._old_footholds(who[old], step[old])
        return np.where(there[:, None], known, coming)

    def _old_footholds(self, who: Numbers, step: Numbers) -> Floats:
        """Footholds (n, 4) from the record of all landings; zeros before the first one."""
        landings = self._landings.rows(0, len(self._landings))
        code = landings[:, 0] * 2.0**32 + landings[:, 1]
        order = np.argsort(code, kind="stable")
        wanted = who * 2.0**32 + step
        row = order[np.minimum(np.searchsorted(code[order], wanted, side="right"), len(order)) - 1]
        return np.where((code[row] == wanted)[:, None], landings[row, 2:], 0.0)


def _spacing(path: Path) -> float:
    if len(path.points) < 2:
        return 1.0
    return float(np.mean(np.linalg.norm(np.diff(path.points, axis=0), axis=1)))


def _between(first: Floats, second: Floats, share: Floats) -> Floats:
    """Rows between two recorded ones: cubic in place and heading with the recorded rates, linear in phase."""
    x = share[..., None]
    value, rate = slice(0, 4), slice(4, 8)
    a, b = first[..., value], second[..., value]
    va, vb = first[..., rate] * STEP_S, second[..., rate] * STEP_S
    leg = b - a
    found = np.empty(np.broadcast_shapes(first.shape, x.shape[:-1] + first.shape[-1:]))
    bend = (1.0 - x) * (va - leg) - x * (vb - leg)
    found[..., value] = a + x * leg + x * (1.0 - x) * bend
    slope = leg + (1.0 - 2.0 * x) * bend + x * (1.0 - x) * (2.0 * leg - va - vb)
    found[..., rate] = slope / STEP_S
    found[..., 8] = first[..., 8] + share * (second[..., 8] - first[..., 8])
    return found


# ---- walk ------------------------------------------------------------------------------------------------------------


class WalkerMotion:
    """Motion of a reacting person: the frame on the ground, x forward."""

    def __init__(self, walkers: Walkers, number: int) -> None:
        self.walkers, self.number = walkers, number

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        rows = self.walkers.sample(self.number, np.asarray(times, dtype=np.float64))
        return rows[:, :3], about(2, rows[:, 3])


class LiveWalk(Walk):
    """Poses of the parts of a reacting person; those of all people are computed together."""

    known_ahead = False

    def __init__(self, walkers: Walkers, number: int, height_m: float) -> None:
        self._set_lengths(WalkerMotion(walkers, number), height_m)
        self._walkers, self._number = walkers, number

    def poses(self, times: ArrayLike) -> Placed:
        """All parts at times (n,) [s]."""
        asked = np.ascontiguousarray(times, dtype=np.float64)
        rows = slice(self._number * len(asked), (self._number + 1) * len(asked))
        return {
            part: (self.height_m * xyz[rows], quat[rows])
            for part, (xyz, quat) in self._walkers.bodies.poses(asked).items()
        }


class _Bodies(Walk):
    """Parts of all people at once, in units of the height of each: all lengths of a body scale with it."""

    def __init__(self, walkers: Walkers) -> None:
        self._set_lengths(WalkerMotion(walkers, 0), 1.0)
        self._walkers = walkers
        self._version = -1
        self._rows, self._who = np.zeros((0, 9)), np.zeros(0, dtype=np.intp)

    def poses(self, times: ArrayLike) -> Placed:
        """All parts of all people at times (n,) [s], one person after another."""
        # Later steps may extend a motion that was sampled beyond its end.
        if self._version != self._walkers.version:
            self._version, self._last = self._walkers.version, (b"", {})
        return super().poses(times)

    def _body(self, times: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        count = self._walkers.count
        self._who = np.repeat(np.arange(count), len(times))
        rows = self._rows = self._walkers.sample(self._who, np.tile(times, count))
        height = self._walkers.height[self._who]
        speed = np.hypot(rows[:, 4], rows[:, 5])
        return rows[:, 8], speed, np.zeros(len(rows)), rows[:, :3] / height[:, None], rows[:, 3]

    def _bounds(self, bout: Floats) -> tuple[Floats, Floats, Floats]:
        return np.full(len(bout), -np.inf), np.full(len(bout), np.inf), self._walkers.stance[self._who]

    def _stride(self) -> Floats:
        ratio, height = self._walkers.ratio[self._who], self._walkers.height[self._who]
        return 2.0 * np.sqrt(ratio * 1.4) / height

    def _foothold(
        self, step: Floats, bout: Floats, sign: float, stands: NDArray[np.bool_], xyz: Floats, heading: Floats
    ) -> tuple[Floats, Floats]:
        found = self._walkers.footholds(self._who, step.astype(np.intp), self._rows[:, 8], self._rows)
        return found[:, :3] / self._walkers.height[self._who][:, None], found[:, 3]
