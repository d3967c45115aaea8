"""Reacting actors of a scenario, advanced together with its clock.

All of them advance in steps of 0.05 s, at least one step ahead of the clock: what sensors sample during a frame, and a
little after its end, never changes any more. Vehicles of the scenario are seen as they are now, and continue with their
velocity until the end of the step; a person or a driver reacts that much later.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import Mobility, heading_of
from parhelion.motion.actors.drivers import Discs, Driver, Drivers, LiveRoute
from parhelion.motion.actors.person import PartMotion
from parhelion.motion.actors.traffic import ClosedRoute, Following
from parhelion.motion.actors.walkers import STEP_S, Capsules, LiveWalk, Path, Walker, Walkers
from parhelion.motion.boxes import Box, BoxTruth
from parhelion.world.world import World

LEAD_S = 0.05
"""Time [s] by which actors are ahead of the clock."""
SOON_S = (0.7, 1.4)
"""Times [s] ahead at which drivers also expect people and vehicles, at their present velocity."""
SLOWEST_LOOK_M_S = 0.2
"""Bodies slower than this [m/s] are expected where they are."""
MOVES: tuple[Mobility, ...] = ("dynamic",)
MOVABLE: tuple[Mobility, ...] = ("movable",)


class Footprint(NamedTuple):
    """Rectangle of a body seen from above, in the frame of its motion [m]."""

    length_m: float
    width_m: float
    centre_m: tuple[float, float] = (0.0, 0.0)


State = Callable[[float], tuple[Floats, Floats, Floats]]
"""Function from a time [s] to position (3,), quaternion (4,) and velocity (3,)."""


class LiveActors:
    """People and vehicles that react to each other and to the vehicles of a scenario."""

    def __init__(self, world: World, seed: int = 0) -> None:
        self.world = world
        self.walkers, self.drivers = Walkers(seed), Drivers()
        self._now: list[tuple[State, Footprint]] = []
        self._rails: list[tuple[Trajectory, Footprint]] = []
        self._parked: list[Box] = []
        self._begun = False
        self.steps = 0

    @property
    def empty(self) -> bool:
        """True without reacting actors."""
        return not self.walkers._all and not self.drivers._all

    def walk(
        self,
        motion: Trajectory,
        start: float,
        speed_m_s: float,
        height_m: float,
        side_m: float = 0.0,
        back: bool = False,
        times: tuple[float, float] | None = None,
    ) -> LiveWalk:
        """Add a person who follows the path of a motion, from a share `start` of it.

        The person keeps `side_m` [m] to the right of the path, and walks in the opposite direction with `back`.
        """
        number = self.walkers.add(Walker(Path.of(motion, times, side_m, back), start, speed_m_s, height_m))
        return LiveWalk(self.walkers, number, height_m)

    def drive(
        self, route: ClosedRoute, start_m: float, speed_m_s: float, length_m: float, width_m: float, model: Following,
        *, lanes: int = 1, lane_m: float = 3.25, lane: int = 0, changes: bool = True,
    ) -> LiveRoute:  # fmt: skip
        """Add a vehicle on a route, with its middle at the distance `start_m` [m].

        The route may have several `lanes`, each `lane_m` [m] to the left of the last; `lane` is the first one of the
        vehicle, which keeps it unless it `changes`.
        """
        driver = Driver(route, start_m, speed_m_s, length_m, width_m, model, lanes, lane_m, lane, changes)
        return LiveRoute(self.drivers, self.drivers.add(driver), driver)

    # ---- other bodies ------------------------------------------------------------------------------------------------

    def see(self, state: State, footprint: Footprint) -> None:
        """Let the actors see a vehicle of the scenario; `state` is asked for times up to now only."""
        self._now.append((state, footprint))

    def see_rails(self, own: Iterable[int]) -> None:
        """Let the actors see all bodies with a given motion and all movable objects, except instances `own`."""
        items = {item.instance: item for item in reversed(self.world.objects)}
        skip = (*own, *(number for number, item in items.items() if _reacts(item.trajectory)))
        for box in BoxTruth(self.world, mobility=MOVES, without=skip).at(0.0):
            motion = items[box.instance].trajectory
            if isinstance(motion, PartMotion):
                motion = motion.walk.motion  # of a person, the path is enough
            if motion is not None:
                xyz, quat = motion.sample(np.zeros(1))
                pose = Pose((xyz[0, 0], xyz[0, 1], 0.0), rpy_deg=(0.0, 0.0, np.degrees(heading_of(quat)[0])))
                centre = pose.inverse().apply(np.array([[*box.centre[:2], 0.0]]))[0]
                self._rails.append((motion, Footprint(box.size[0], box.size[1], (centre[0], centre[1]))))
        if self.drivers._all:
            self._parked = BoxTruth(self.world, mobility=MOVABLE, without=skip).at(0.0)

    def begin(self) -> None:
        """Prepare all tables before the first step."""
        if not self._begun:
            self.walkers.begin(self.world)
            self.drivers.begin()
            still = [(box.centre, box.quat_xyzw, Footprint(box.size[0], box.size[1])) for box in self._parked]
            self._still = _capsules(still, np.zeros((len(still), 3)))
            self._begun = True

    def restart(self) -> None:
        """Return to the start."""
        self.begin()
        self.walkers.restart()
        self.drivers.restart()
        self.steps = 0

    # ---- steps -------------------------------------------------------------------------------------------------------

    def advance(self, now_s: float, until_s: float) -> None:
        """Advance the actors beyond `until_s` [s]; the states of vehicles are known up to `now_s` [s]."""
        while self.steps * STEP_S < until_s + LEAD_S - 1e-9:
            self.step(min(now_s, self.steps * STEP_S), self.steps * STEP_S)

    def step(self, known_s: float, time_s: float) -> None:
        """Advance by one step from `time_s` [s]."""
        others = self._others(known_s, time_s)
        cars = self.drivers.capsules()
        self.drivers.step(self._discs(cars, others))
        self.walkers.step(_joined([cars, others]))
        self.steps += 1

    def _others(self, known_s: float, time_s: float) -> Capsules:
        """Bodies that do not react: the vehicles of the scenario, and those with a given motion."""
        rows: list[tuple[Floats, Floats, Footprint]] = []
        velocities: list[Floats] = []
        for state, footprint in self._now:
            xyz, quat, velocity = state(known_s)
            rows.append((xyz + (time_s - known_s) * velocity, quat, footprint))
            velocities.append(velocity)
        times = np.array([time_s, time_s + 0.01])
        for motion, footprint in self._rails:
            xyzs, quats = motion.sample(times)
            rows.append((xyzs[0], quats[0], footprint))
            velocities.append((xyzs[1] - xyzs[0]) / 0.01)
        return _capsules(rows, np.array(velocities).reshape(-1, 3))

    def _discs(self, cars: Capsules, others: Capsules) -> Discs:
        """Discs of all bodies, for drivers."""
        found = [_discs_of(cars, np.arange(len(cars.xyz)))]
        found += [_discs_of(one, np.full(len(one.xyz), -1)) for one in (others, self._still)]
        moving = np.hypot(others.velocity[:, 0], others.velocity[:, 1]) > SLOWEST_LOOK_M_S
        some = Capsules(*(column[moving] for column in others))
        for later in SOON_S:
            found.append(_discs_of(_moved(some, later), np.full(len(some.xyz), -1)))
        people = self.walkers
        if people.count:
            speed = np.hypot(people.velocity[:, 0], people.velocity[:, 1])
            for later in (0.0, *SOON_S):
                who = slice(None) if later == 0.0 else speed > SLOWEST_LOOK_M_S
                xyz = people.xyz[who].copy()
                xyz[:, :2] += later * people.velocity[who]
                found.append(Discs(xyz, people.velocity[who], people.radius[who], np.full(len(xyz), -1)))
        return Discs(*(np.concatenate(columns) for columns in zip(*found, strict=True)))


def _reacts(trajectory: Any) -> bool:
    """True for the motion of a reacting actor or of one of its parts."""
    while trajectory is not None and not isinstance(trajectory, (LiveRoute, LiveWalk)):
        found = (getattr(trajectory, name, None) for name in ("carrier", "body", "walk"))
        trajectory = next((one for one in found if one is not None), None)
    return trajectory is not None


def _capsules(rows: list[tuple[Floats, Floats, Footprint]], velocity: Floats) -> Capsules:
    """Capsules of bodies with position (3,), quaternion (4,) and footprint, and velocities (n, 3)."""
    count = len(rows)
    xyz = np.array([row[0] for row in rows]).reshape(count, 3)
    heading = heading_of(np.array([row[1] for row in rows]).reshape(count, 4))
    along = np.column_stack([np.cos(heading), np.sin(heading)])
    size = np.array([row[2][:2] for row in rows]).reshape(count, 2)
    centre = np.array([row[2].centre_m for row in rows]).reshape(count, 2)
    # A body that is wider than long is a segment across.
    wide = size[:, 1] > size[:, 0]
    left = np.stack([-along[:, 1], along[:, 0]], axis=1)
    xyz[:, :2] += centre[:, :1] * along + centre[:, 1:] * left
    along = np.where(wide[:, None], left, along)
    radius = 0.5 * np.min(size, axis=1, initial=np.inf)
    return Capsules(xyz, along, 0.5 * np.max(size, axis=1, initial=0.0) - radius, radius, velocity[:, :2])


def _moved(capsules: Capsules, later_s: float) -> Capsules:
    xyz = capsules.xyz.copy()
    xyz[:, :2] += later_s * capsules.velocity
    return capsules._replace(xyz=xyz)


def _discs_of(capsules: Capsules, owner: np.ndarray) -> Discs:
    """Discs along capsules, at most one radius apart, so that they cover them but for small dents."""
    pieces = np.ceil(2.0 * capsules.half_m / np.maximum(capsules.radius_m, 0.05)).astype(np.intp) + 1
    row = np.repeat(np.arange(len(pieces)), pieces)
    first = np.cumsum(pieces) - pieces
    share = (np.arange(len(row)) - first[row]) / np.maximum(pieces[row] - 1, 1)
    xyz = capsules.xyz[row].copy()
    xyz[:, :2] += ((2.0 * share - 1.0) * capsules.half_m[row])[:, None] * capsules.along[row]
    return Discs(xyz, capsules.velocity[row], capsules.radius_m[row], owner[row])


def _joined(parts: list[Capsules]) -> Capsules:
    return Capsules(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
