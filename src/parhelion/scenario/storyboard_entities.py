"""Entities of a storyboard: where they are, and the actions that move them along lanes and trajectories."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from parhelion.core.pose import Floats
from parhelion.scenario.lane_map import LaneMap
from parhelion.scenario.openscenario import EntitySheet
from parhelion.world.xml import Node

STEP_S = 0.05
"""Step of a storyboard [s]."""
_GAP_GAIN = 0.5
"""Closing speed [m/s] per metre of distance that an entity is too far away."""
_SHAPES: dict[str, tuple[Callable[[float], float], float]] = {
    "linear": (lambda u: u, 1.0),
    "sinusoidal": (lambda u: 0.5 - 0.5 * math.cos(math.pi * u), math.pi / 2),
    "cubic": (lambda u: u * u * (3.0 - 2.0 * u), 1.5),
    "step": (lambda u: 1.0, 1.0),
}
"""Share of a change by share of its duration, and its largest slope, by `dynamicsShape`."""


@dataclass
class Place:
    """A place that a file names: on a lane for vehicles, or free."""

    xyz: Floats
    heading: float
    lane: tuple[int, float] | None = None
    left_m: float = 0.0
    """Distance to the left of the lane's centre, in the entity's direction."""
    way: int = 1
    """1 in the lane's direction of travel, -1 against it."""


@dataclass(eq=False)
class Entity:
    """State of one entity, and the actions that are moving it."""

    sheet: EntitySheet
    lanes: LaneMap | None
    place: Place | None = None
    """None while it is not in the world."""
    speed: float = 0.0
    acceleration: float = 0.0
    pitch: float = 0.0
    travelled: float = 0.0
    still_s: float = 0.0
    at_end: bool = False
    """True at the end of the last lane."""
    route: list[int] = field(default_factory=list)
    longitudinal: Any = None
    lateral: Any = None
    path: Any = None
    parts: list[list[tuple[float, ...]]] = field(default_factory=list)
    """Recorded rows of time, position, heading and pitch, one part per stay without a jump."""
    jumped: bool = True

    def put(self, place: Place | None) -> None:
        """Move to a place without a way between, or leave the world."""
        self.place, self.jumped, self.at_end = place, True, False
        self.path = self.lateral = None
        self.route = []

    def record(self, time: float) -> None:
        """Record the state at a time [s]."""
        if self.place is None:
            return
        if self.jumped:
            self.parts.append([])
            self.jumped = False
        rows = self.parts[-1]
        heading = self.place.heading
        if rows:  # without jumps of a full turn
            heading = rows[-1][4] + math.remainder(heading - rows[-1][4], 2.0 * math.pi)
        rows.append((time, *self.place.xyz.tolist(), heading, self.pitch))

    def velocity(self) -> Floats:
        """Velocity (2,) [m/s]."""
        heading = 0.0 if self.place is None else self.place.heading
        return self.speed * np.array([math.cos(heading), math.sin(heading)])

    def corners(self) -> Floats:
        """Corners (4, 2) [m] of the box, seen from above."""
        assert self.place is not None
        length, width, _ = self.sheet.size_m
        x, y, _ = self.sheet.centre_m
        local = np.array([[x + a * length / 2, y + b * width / 2] for a, b in ((1, 1), (1, -1), (-1, -1), (-1, 1))])
        c, s = math.cos(self.place.heading), math.sin(self.place.heading)
        return self.place.xyz[:2] + local @ np.array([[c, s], [-s, c]])

    # ---- one step --------------------------------------------------------------------------------------------------

    def step(self, time: float) -> None:
        """Advance by one step that ends at a time [s]."""
        if self.place is None:
            return
        before = self.speed
        if self.longitudinal is not None and self.longitudinal.step(self):
            self.longitudinal = None
        if self.path is not None:
            done = self.path.step(self, time)
            self.path = None if done else self.path
        elif self.place.lane is not None:
            self._along_lane()
        else:
            ahead = np.array([math.cos(self.place.heading), math.sin(self.place.heading), 0.0])
            self.place = Place(self.place.xyz + self.speed * STEP_S * ahead, self.place.heading)
        self.acceleration = (self.speed - before) / STEP_S
        self.travelled += abs(self.speed) * STEP_S
        self.still_s = self.still_s + STEP_S if abs(self.speed) < 0.01 else 0.0

    def _along_lane(self) -> None:
        place, lanes = self.place, self.lanes
        assert place is not None
        assert place.lane is not None
        assert lanes is not None
        row, distance = place.lane
        distance += place.way * self.speed * STEP_S
        while not 0.0 <= distance <= lanes.length[row]:
            after = self._next(row, place.way, distance > 0.0)
            if after is None:
                distance, self.speed, self.at_end = float(np.clip(distance, 0.0, lanes.length[row])), 0.0, True
                self.longitudinal = None
                break
            if distance > 0.0:
                row, distance = after, distance - lanes.length[row]
            else:
                row, distance = after, distance + lanes.length[after]
        left = place.left_m
        if self.lateral is not None:
            left, done = self.lateral.step(self)
            self.lateral = None if done else self.lateral
        xyz, ahead = lanes.point(row, distance, place.way * left)
        ahead = place.way * ahead
        heading = math.atan2(ahead[1], ahead[0])
        if abs(self.speed) > 1e-3:
            heading += math.atan2(left - place.left_m, self.speed * STEP_S)
        self.pitch = -math.asin(float(np.clip(ahead[2], -1.0, 1.0)))
        self.place = Place(xyz, heading, (row, distance), left, place.way)

    def _next(self, row: int, way: int, at_end: bool) -> int | None:
        assert self.lanes is not None
        if at_end:
            if self.route:
                return self.route.pop(0)
            return self.lanes.follower(row)
        return next((k for k, lane in enumerate(self.lanes.graph.lanes) if row in lane.successors), None)


# ---- actions ---------------------------------------------------------------------------------------------------------


class SpeedAction:
    """Change of the speed to a target by a transition."""

    def __init__(self, node: Node, entity: Entity, target: Callable[[], float], continuous: bool = False) -> None:
        dynamics = node.needed("SpeedActionDynamics")
        self.target, self.start, self.continuous = target, entity.speed, continuous
        change = abs(target() - entity.speed)
        mean = max(0.5 * abs(target() + entity.speed), 1e-3)
        self.shape, self.duration = transition(dynamics, change, mean)
        self.u = 0.0

    def step(self, entity: Entity) -> bool:
        """Advance; True at the end."""
        self.u = 1.0 if self.duration <= 0.0 else min(self.u + STEP_S / self.duration, 1.0)
        entity.speed = self.start + (self.target() - self.start) * self.shape(self.u)
        return self.u >= 1.0 and not self.continuous


class SpeedProfile:
    """Speeds at times since the start, linear in between."""

    def __init__(self, times: Floats, speeds: Floats) -> None:
        self.times, self.speeds, self.clock = times, speeds, 0.0

    def step(self, entity: Entity) -> bool:
        """Advance; True at the end."""
        self.clock += STEP_S
        entity.speed = float(np.interp(self.clock, self.times, self.speeds))
        return bool(self.clock >= self.times[-1])


class KeepDistance:
    """Distance or time gap to another entity ahead, within limits of acceleration."""

    def __init__(self, node: Node, other: Entity, gap: Callable[[], float]) -> None:
        self.distance, self.headway = node.number("distance", -1.0), node.number("timeGap", -1.0)
        if (self.distance < 0) == (self.headway < 0):
            raise node.fail("needs either distance or timeGap, at least 0")
        limits = node.child("DynamicConstraints")
        self.up = 3.0 if limits is None else limits.number("maxAcceleration", 3.0)
        self.down = 6.0 if limits is None else limits.number("maxDeceleration", 6.0)
        self.fastest = 70.0 if limits is None else limits.number("maxSpeed", 70.0)
        self.continuous, self.other, self.gap = node.element.get("continuous") == "true", other, gap

    def step(self, entity: Entity) -> bool:
        """Advance; True at the end."""
        error = self.gap() - (self.distance if self.distance >= 0 else self.headway * entity.speed)
        wished = min(max(self.other.speed + _GAP_GAIN * error, 0.0), self.fastest)
        change = min(max(wished - entity.speed, -self.down * STEP_S), self.up * STEP_S)
        entity.speed += change
        return not self.continuous and abs(error) < 0.1 and abs(self.other.speed - entity.speed) < 0.1


class LateralAction:
    """Transition of the distance to the left of the lane's centre."""

    def __init__(
        self, entity: Entity, target: float, shape: Callable[[float], float], total: float, by_distance: bool = False
    ) -> None:
        """`total` is the duration [s], or the way [m] with `by_distance`."""
        assert entity.place is not None
        self.start, self.target, self.u = entity.place.left_m, target, 0.0
        self.shape, self.total, self.by_distance = shape, total, by_distance

    @classmethod
    def by(cls, dynamics: Node, entity: Entity, target: float) -> LateralAction:
        """Action with the transition of a lane change."""
        assert entity.place is not None
        shape, total = transition(dynamics, abs(target - entity.place.left_m), 1.0)
        return cls(entity, target, shape, total, dynamics.element.get("dynamicsDimension") == "distance")

    @classmethod
    def within(cls, dynamics: Node, entity: Entity, target: float) -> LateralAction:
        """Action with the transition of a lane offset, whose duration follows from the largest acceleration."""
        assert entity.place is not None
        name = dynamics.element.get("dynamicsShape", "cubic")
        shape, _ = _SHAPES.get(name, _SHAPES["cubic"])
        way, most = abs(target - entity.place.left_m), max(dynamics.number("maxLateralAcc", 1.0), 1e-3)
        # A transition of width w in time T has the largest acceleration 6 w / T^2 (cubic) or pi^2 w / (2 T^2).
        return cls(entity, target, shape, 0.0 if name == "step" else math.sqrt(6.0 * way / most))

    def step(self, entity: Entity) -> tuple[float, bool]:
        """New distance to the left [m], and True at the end."""
        gone = abs(entity.speed) * STEP_S if self.by_distance else STEP_S
        self.u = 1.0 if self.total <= 0.0 else min(self.u + gone / self.total, 1.0)
        return self.start + (self.target - self.start) * self.shape(self.u), self.u >= 1.0


class FollowPath:
    """Positions in order, at given times or at the entity's speed."""

    def __init__(self, points: Floats, times: Floats | None, lanes: LaneMap | None) -> None:
        legs = np.linalg.norm(np.diff(points, axis=0), axis=1)
        self.points, self.times, self.lanes = points, times, lanes
        self.along = np.concatenate([[0.0], np.cumsum(legs)])
        ahead = np.gradient(points, np.maximum.accumulate(self.along + 1e-9 * np.arange(len(points))), axis=0)
        self.heading = np.unwrap(np.arctan2(ahead[:, 1], ahead[:, 0]))
        self.distance = 0.0

    def step(self, entity: Entity, time: float) -> bool:
        """Advance; True at the end."""
        if self.times is not None:
            new = float(np.interp(time, self.times, self.along))
            entity.speed = (new - self.distance) / STEP_S
            done = time >= self.times[-1]
        else:
            new = min(self.distance + entity.speed * STEP_S, float(self.along[-1]))
            done = new >= self.along[-1]
        self.distance = new
        xyz = np.array([np.interp(new, self.along, self.points[:, k]) for k in range(3)])
        heading = float(np.interp(new, self.along, self.heading))
        entity.place = Place(xyz, heading)
        entity.pitch = 0.0
        if done and self.lanes is not None:
            found = self.lanes.nearest(xyz, heading)
            if found is not None:
                entity.place = Place(xyz, heading, found[:2], found[2])
        return bool(done)


def transition(dynamics: Node, change: float, mean: float) -> tuple[Callable[[float], float], float]:
    """Shape and duration of a transition by `change`; distances are converted by the `mean` speed [m/s]."""
    name = dynamics.attribute("dynamicsShape")
    if name not in _SHAPES:
        raise dynamics.fail(f"dynamicsShape must be one of {', '.join(_SHAPES)}, got {name!r}")
    shape, steepest = _SHAPES[name]
    value, dimension = dynamics.number("value", 0.0), dynamics.element.get("dynamicsDimension", "time")
    if dimension not in ("time", "distance", "rate"):
        raise dynamics.fail(f"dynamicsDimension must be time, distance or rate, got {dimension!r}")
    if name == "step":
        return shape, 0.0
    if dimension == "rate":
        return shape, steepest * change / max(abs(value), 1e-6)
    return shape, abs(value) / mean if dimension == "distance" else abs(value)
