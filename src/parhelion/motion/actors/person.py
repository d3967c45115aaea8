"""Walking people: a body of rigid parts that follows a motion."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.checks import within
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_from_rpy, quat_multiply, quat_rotate
from parhelion.core.schedule import eased
from parhelion.core.trajectory import ConstantTwist, Trajectory
from parhelion.motion.actors.body import Actor, Builder, Span, about, heading_of, span_of, trajectory_of
from parhelion.world.kit.instances import struts
from parhelion.world.kit.props import KitPart, hair_and_face
from parhelion.world.mesh import Mesh
from parhelion.world.shapes import loft, pipe, sphere, spindle
from parhelion.world.world import World

# ---- steps ----------------------------------------------------------------------------------------------------------
# Phase of the gait by time, counted in steps, and the places where each foot lands.
# Step length L and step rate n of adults have a constant ratio, the walk ratio w = L/n, over a wide range of speeds
# (Sekiya and Nagasaki 1998: about 0.0065 m/(steps/min), which is 0.39 m·s). With v = L n: L = √(w v) and n = √(v/w).
# Both vanish with the speed, so the phase φ = ∫ n dt needs no special case for slow walking. Lengths scale with height
# and times with its square root, so w scales with height^1.5. Valid for walking at about 0.5 to 2.5 m/s; below 1 m/s
# people take somewhat longer steps (Murakami and Otaka 2017), and running is only approximate.


WALK_RATIO_M_S = 0.0065 * 60.0
WALK_RATIO_HEIGHT_M = 1.70
"""Height [m] to which that walk ratio applies: young adults, a round figure."""
SLOWEST_M_S = 1e-3
"""Speed [m/s] below which a body stands."""
FASTEST_M_S = 1000.0
"""Speed [m/s] above which a motion is refused, far beyond any person; it bounds the number of steps."""
TURN_RADIUS_M = 0.3
"""A body that turns on the spot steps as if it walked on a circle of this radius [m]."""
LONGEST_STANCE = 0.6
"""Share of the stride in which a walking foot is on the ground (Perry 1992)."""


def step_length_m(speed_m_s: Floats | float, height_m: float) -> Floats:
    """Length of a step [m], from one foot to the other, at a walking speed [m/s]."""
    return np.sqrt(walk_ratio_m_s(height_m) * np.abs(np.asarray(speed_m_s, dtype=np.float64)))


def walk_ratio_m_s(height_m: float) -> float:
    """Step length over step rate [m·s] for a height [m]."""
    return float(WALK_RATIO_M_S * (height_m / WALK_RATIO_HEIGHT_M) ** 1.5)


@dataclass(frozen=True, eq=False)
class StepClock:
    """Phase of a walk. Foot `k` (even: left, odd: right) lands where the body is at phase k.

    A walk from rest to rest has a whole number of steps, so that the feet end next to each other.
    """

    span: Span
    times: Floats
    """Increasing times [s] within the span, shape (m,)."""
    phase: Floats
    """Phase at `times`, in steps, shape (m,)."""
    speed: Floats
    """Speed [m/s] at `times`, shape (m,)."""
    bout_times: Floats
    """Start and end [s] of each walk between rests, shape (b, 2)."""
    bout_phases: Floats
    """Phase at the start and the end, whole numbers, shape (b, 2)."""
    bout_stance: Floats
    """Share of the stride in which a foot is on the ground, per walk, shape (b,)."""
    endless: bool
    """True if the walk never rests, so that phase and times continue from lap to lap."""

    def at(self, times: Floats) -> tuple[Floats, Floats, Floats]:
        """Phase, speed [m/s] and number of the walk (-1 while the body stands) at `times` (n,) [s]."""
        inside = self.span.inside(times)
        phase = np.interp(inside, self.times, self.phase)
        speed = np.interp(inside, self.times, self.speed)
        if self.endless:
            return phase + self.phase[-1] * self.span.laps(times), speed, np.zeros(len(times), dtype=np.intp)
        if len(self.bout_times) == 0:
            return phase, speed, np.full(len(times), -1)
        bout = np.searchsorted(self.bout_times[:, 0], inside, side="right") - 1
        walks = (bout >= 0) & (inside < self.bout_times[np.maximum(bout, 0), 1])
        return phase, speed, np.where(walks, bout, -1)

    def body_times(self, times: Floats) -> Floats:
        """Times at which to sample the motion: within the span, unless the walk is endless."""
        return times if self.endless else self.span.inside(times)

    def landing_times(self, bout: Floats, step: Floats) -> Floats:
        """Times [s] when the body is over foothold `step` (n,) of walk `bout` (n,), clipped to the walk."""
        if self.endless:
            laps = np.floor(step / self.phase[-1])
            return np.interp(step - laps * self.phase[-1], self.phase, self.times) + laps * self.span.length_s
        found = np.interp(step, self.phase, self.times)
        if len(self.bout_times) == 0:
            return found
        first, last = self.bout_times[np.maximum(bout, 0)].T
        return np.clip(found, first, last)

    def bounds(self, bout: Floats) -> tuple[Floats, Floats, Floats]:
        """First and last phase, and stance share, of walks (n,); infinite bounds for an endless walk."""
        if self.endless or len(self.bout_times) == 0:
            share = self.bout_stance[0] if len(self.bout_stance) else LONGEST_STANCE
            return np.full(len(bout), -np.inf), np.full(len(bout), np.inf), np.full(len(bout), share)
        row = np.maximum(bout, 0)
        return self.bout_phases[row, 0], self.bout_phases[row, 1], self.bout_stance[row]


def step_clock(
    motion: Trajectory, height_m: float, reach_m: float, times: tuple[float, float] | None = None
) -> StepClock:
    """Lay out the steps of a motion; `reach_m` is the longest distance [m] of the body over one planted foot."""
    ratio = walk_ratio_m_s(height_m)
    if isinstance(motion, ConstantTwist) and times is None:
        return _steady(motion, ratio, reach_m)
    span = span_of(motion, times)
    grid = span.grid()
    speed = _speeds(motion, grid)
    moving = speed > SLOWEST_M_S
    if span.repeats and np.all(moving):
        return _endless(span, grid, speed, ratio, reach_m)
    if span.repeats:
        # Begin at a rest, so that no walk crosses the boundary between two laps.
        begin = float(grid[int(np.argmin(moving))])
        span = Span(begin, begin + span.length_s, repeats=True)
        grid = span.grid()
        speed = _speeds(motion, grid)
        moving = speed > SLOWEST_M_S
    return _with_rests(span, grid, speed, moving, ratio, reach_m)


def _steady(motion: ConstantTwist, ratio: float, reach_m: float) -> StepClock:
    with np.errstate(over="ignore"):
        speed = float(np.hypot(np.linalg.norm(motion.velocity), TURN_RADIUS_M * abs(motion.angular_velocity[2])))
    refuse_haste(speed)
    if speed <= SLOWEST_M_S:
        span = Span(motion.start_time, motion.start_time + 1.0, repeats=False)
        grid = np.array([span.start_s, span.end_s])
        return _with_rests(span, grid, np.zeros(1), np.zeros(1, dtype=bool), ratio, reach_m)
    span = Span(motion.start_time, motion.start_time + 2.0 / np.sqrt(speed / ratio), repeats=True)
    return _endless(span, np.array([span.start_s, span.end_s]), np.array([speed]), ratio, reach_m)


def _speeds(motion: Trajectory, grid: Floats) -> Floats:
    """Speed [m/s] between neighbours of the grid, turns on the spot included."""
    xyz, quat = motion.sample(grid)
    heading = heading_of(quat)
    turned = np.mod(np.diff(heading) + np.pi, 2.0 * np.pi) - np.pi
    with np.errstate(over="ignore"):
        speed = np.hypot(np.linalg.norm(np.diff(xyz, axis=0), axis=1), TURN_RADIUS_M * turned) / np.diff(grid)
    refuse_haste(float(speed.max(initial=0.0)))
    return speed


def refuse_haste(speed_m_s: float) -> None:
    """Raise ConfigError for a speed [m/s] that no person reaches: steps and path points would become countless."""
    if not speed_m_s <= FASTEST_M_S:
        raise ConfigError(f"motion: reaches {speed_m_s:g} m/s; people move at {FASTEST_M_S:g} m/s at most")


def _stance(longest_step_m: float, reach_m: float) -> float:
    return float(np.clip(0.5 * reach_m / max(longest_step_m, 1e-9), 0.2, LONGEST_STANCE))


def _endless(span: Span, grid: Floats, speed: Floats, ratio: float, reach_m: float) -> StepClock:
    steps = np.sqrt(speed / ratio) * np.diff(grid)
    # An even number of steps per lap, so that every lap begins with the same foot.
    count = max(2.0, 2.0 * round(0.5 * float(steps.sum())))
    steps *= count / steps.sum()
    longest = float(np.max(speed * np.diff(grid) / steps))
    phase = np.concatenate([[0.0], np.cumsum(steps)])
    phase[-1] = count
    return StepClock(
        span,
        grid,
        phase,
        _at_nodes(speed),
        np.zeros((0, 2)),
        np.zeros((0, 2)),
        np.array([_stance(longest, reach_m)]),
        endless=True,
    )


def _with_rests(
    span: Span, grid: Floats, speed: Floats, moving: NDArray[np.bool_], ratio: float, reach_m: float
) -> StepClock:
    edges = np.diff(np.concatenate([[0], moving.astype(np.int8), [0]]))
    first, last = np.flatnonzero(edges == 1), np.flatnonzero(edges == -1)
    lasting = np.diff(grid)
    steps = np.where(moving, np.sqrt(speed / ratio), 0.0) * lasting
    stance = []
    for begin, end in zip(first, last, strict=True):
        total = float(steps[begin:end].sum())
        steps[begin:end] *= max(1.0, round(total)) / total
        longest = np.max(speed[begin:end] * lasting[begin:end] / steps[begin:end])
        stance.append(_stance(float(longest), reach_m))
    phase = np.concatenate([[0.0], np.cumsum(steps)])
    bouts = np.stack([first, last], axis=1)
    # Remove rounding errors of the sum: phases are whole numbers at both ends of a walk.
    phase[bouts] = np.round(phase[bouts])
    return StepClock(
        span,
        grid,
        np.maximum.accumulate(phase),
        _at_nodes(np.where(moving, speed, 0.0)),
        grid[bouts],
        phase[bouts],
        np.array(stance),
        endless=False,
    )


def _at_nodes(between: Floats) -> Floats:
    """Values at the points of a grid from values between them; constant beyond the ends."""
    wide = np.concatenate([between[:1], between, between[-1:]])
    return 0.5 * (wide[:-1] + wide[1:])


# ---- Poses of the limbs of a walking body: rigid parts connected at their joints ------------------------------------
# Feet are planted: each rests at its foothold, rolls from heel to toe, and swings to the next foothold. The hips sink
# as far as the length of the legs requires, knees follow from hips and ankles (two links in a plane), and arms swing
# against the legs. Lengths are shares of the height (Winter 2009, after Drillis and Contini 1966).


THIGH, SHANK, ANKLE = 0.245, 0.246, 0.039
FOOT, HEEL_SHARE = 0.152, 0.25
"""Length of the foot, and its share behind the ankle."""
HIP_HALF, SHOULDER_HALF = 0.05, 0.129
SHOULDER, UPPER_ARM, FOREARM = 0.818, 0.186, 0.146
STRETCH = 0.998
"""Largest extension of a leg, as a share of its length."""
REACH = 0.54
"""Longest distance over one planted foot, as a share of the height: 0.95 m for 1.75 m, with the roll over the toe."""
BEFORE, AFTER = 0.8, 1.2
"""A foot rests from `BEFORE` stance shares before to `AFTER` after the body is over it, in steps."""
HEEL_RISE_RAD, TOE_RISE_RAD = np.radians(45.0), np.radians(18.0)
CLEARANCE = 0.018
"""Lift of the lowest point of a swinging shoe, as a share of the height."""
ARM_SWING_RAD, ELBOW_RAD = np.radians(26.0), np.radians(14.0)
SIDES = (("left", 1.0), ("right", -1.0))

Placed = dict[str, tuple[Floats, Floats]]
"""Positions (n, 3) [m] and quaternions `xyzw` (n, 4) of each part."""


class Walk:
    """Poses of the parts of a walking person. The frame of the motion is on the ground between the feet, x forward."""

    known_ahead = True

    def __init__(self, motion: Trajectory, height_m: float, times: tuple[float, float] | None = None) -> None:
        self._set_lengths(motion, height_m)
        self.clock: StepClock = step_clock(motion, height_m, REACH * height_m, times)

    def _set_lengths(self, motion: Trajectory, height_m: float) -> None:
        self.motion, self.height_m = motion, height_m
        self.thigh_m, self.shank_m, self.ankle_m = (share * height_m for share in (THIGH, SHANK, ANKLE))
        self.hip_m = self.ankle_m + 0.99 * (self.thigh_m + self.shank_m)
        """Height of the hips when standing."""
        self.heel_m, self.toe_m = HEEL_SHARE * FOOT * height_m, (1.0 - HEEL_SHARE) * FOOT * height_m
        self._last: tuple[bytes, Placed] = (b"", {})

    def poses(self, times: ArrayLike) -> Placed:
        """All parts at times (n,) [s]: torso, thighs, shanks, feet, upper arms and forearms."""
        asked = np.ascontiguousarray(times, dtype=np.float64)
        key = asked.tobytes()
        last = self._last
        if last[0] != key:  # every part is sampled at the same times
            last = self._last = key, self._poses(asked)
        return last[1]

    def joints(self) -> list[tuple[str, tuple[float, float, float], str, tuple[float, float, float]]]:
        """Joints: part, point [m] in its frame, other part, the same point in the frame of the other part."""
        found: list[tuple[str, tuple[float, float, float], str, tuple[float, float, float]]] = []
        origin = (0.0, 0.0, 0.0)
        for side, sign in SIDES:
            hip = (0.0, sign * HIP_HALF * self.height_m, 0.0)
            shoulder = (0.0, sign * SHOULDER_HALF * self.height_m, SHOULDER * self.height_m - self.hip_m)
            found += [
                ("torso", hip, f"{side} thigh", origin),
                (f"{side} thigh", (0.0, 0.0, -self.thigh_m), f"{side} shank", origin),
                (f"{side} shank", (0.0, 0.0, -self.shank_m), f"{side} foot", origin),
                ("torso", shoulder, f"{side} upper arm", origin),
                (f"{side} upper arm", (0.0, 0.0, -UPPER_ARM * self.height_m), f"{side} forearm", origin),
            ]
        return found

    # ---- the whole body ----------------------------------------------------------------------------------------------

    def _poses(self, times: Floats) -> Placed:
        phase, speed, bout, xyz, heading = self._body(times)
        feet = {side: self._foot(number, sign, phase, bout, xyz, heading) for number, (side, sign) in enumerate(SIDES)}
        forward = np.stack([np.cos(heading), np.sin(heading), np.zeros_like(heading)], axis=1)
        left = np.stack([-np.sin(heading), np.cos(heading), np.zeros_like(heading)], axis=1)
        hips = {side: xyz + sign * HIP_HALF * self.height_m * left for side, sign in SIDES}
        height = self._hip_height(xyz[:, 2], hips, feet)
        upright = about(2, heading)
        pelvis = np.column_stack([xyz[:, :2], height])
        placed: Placed = {"torso": (pelvis, upright)}
        for side, sign in SIDES:
            hip = np.column_stack([hips[side][:, :2], height])
            placed |= self._leg(side, hip, feet[side], forward)
            placed |= self._arm(side, sign, pelvis, upright, phase, speed)
        return placed

    def _body(self, times: Floats) -> tuple[Floats, Floats, Floats, Floats, Floats]:
        """Phase, speed [m/s], number of the walk, position [m] and heading [rad] of the body at times (n,) [s]."""
        phase, speed, bout = self.clock.at(times)
        xyz, quat = self.motion.sample(self.clock.body_times(times))
        return phase, speed, bout, xyz, heading_of(quat)

    def _bounds(self, bout: Floats) -> tuple[Floats, Floats, Floats]:
        """First and last phase, and stance share, of walks (n,)."""
        return self.clock.bounds(bout)

    def _hip_height(self, ground: Floats, hips: dict[str, Floats], feet: dict[str, tuple[Floats, Floats]]) -> Floats:
        """Height of the hips [m]: a smooth lower bound of the standing height and of the reach of both legs."""
        limits = [ground + self.hip_m]
        longest = STRETCH * (self.thigh_m + self.shank_m)
        for side, (ankle, _) in feet.items():
            aside = np.sum((ankle - hips[side])[:, :2] ** 2, axis=1)
            limits.append(ankle[:, 2] + np.sqrt(np.maximum(longest**2 - aside, (0.3 * longest) ** 2)))
        rows = np.stack(limits)
        lowest, width = rows.min(axis=0), 0.003 * self.height_m
        return lowest - width * np.log(np.sum(np.exp((lowest - rows) / width), axis=0))

    # ---- legs --------------------------------------------------------------------------------------------------------

    def _foot(
        self, number: int, sign: float, phase: Floats, bout: Floats, xyz: Floats, heading: Floats
    ) -> tuple[Floats, Floats]:
        """Ankle (n, 3) [m] and orientation (n, 4) of one foot."""
        first, last, stance = self._bounds(bout)
        before, after = BEFORE * stance, AFTER * stance
        step = 2.0 * np.floor((phase + before - number) / 2.0) + number
        lift, land = np.maximum(step + after, first), np.minimum(step + 2.0 - before, last)
        stands = bout < 0
        swings = (phase > lift) & ~stands
        part = np.clip((phase - lift) / np.maximum(land - lift, 1e-12), 0.0, 1.0)
        share = part**2 * (3.0 - 2.0 * part)
        places, headings = zip(
            *(self._foothold(step + shift, bout, sign, stands, xyz, heading) for shift in (-2.0, 0.0, 2.0)), strict=True
        )
        # Longer steps roll more; feet that start or end next to the other foot do not roll at all.
        stride = self._stride()
        rolls = [np.minimum(np.linalg.norm(b - a, axis=1) / stride, 1.0) for a, b in pairwise(places)]
        roll_in, roll_out = rolls[0], np.where(step + after < first, 0.0, rolls[1])
        roll_next = np.where(step + 2.0 - before > last, 0.0, rolls[1])
        heel = HEEL_RISE_RAD * roll_out * eased(np.clip((phase - step) / after * 4.0 / 3.0 - 1.0 / 3.0, 0.0, 1.0))
        toe = TOE_RISE_RAD * roll_in * eased(np.clip((step - phase) / before * 2.0 - 1.0, 0.0, 1.0))
        pitch = np.where(
            swings, (1.0 - share) * HEEL_RISE_RAD * roll_out - share * TOE_RISE_RAD * roll_next, heel - toe
        )
        # In the air the ankle moves from take-off to landing, high enough for the shoe.
        leaves, lands = self._shift(HEEL_RISE_RAD * roll_out), self._shift(-TOE_RISE_RAD * roll_next)
        along = np.where(swings, (1.0 - share) * leaves + share * lands, self._shift(pitch))
        mix = np.where(swings, share, 0.0)
        turned = np.mod(headings[2] - headings[1] + np.pi, 2.0 * np.pi) - np.pi
        yaw = headings[1] + mix * turned
        place = places[1] + mix[:, None] * (places[2] - places[1])
        lifted = CLEARANCE * self.height_m * np.maximum(rolls[1], 0.3) * 4.0 * mix * (1.0 - mix)
        ankle = place + np.stack([along * np.cos(yaw), along * np.sin(yaw), self._height(pitch) + lifted], axis=1)
        return ankle, quat_from_rpy(np.zeros_like(pitch), pitch, yaw)

    def _stride(self) -> Floats | float:
        """Length [m] of two steps at 1.4 m/s."""
        return 2.0 * float(step_length_m(1.4, self.height_m))

    def _foothold(
        self, step: Floats, bout: Floats, sign: float, stands: NDArray[np.bool_], xyz: Floats, heading: Floats
    ) -> tuple[Floats, Floats]:
        """Positions (n, 3) below the ankle and headings (n,) of footholds; those of the body while it stands."""
        at, quat = self.motion.sample(self.clock.landing_times(bout, step))
        yaw = np.where(stands, heading, heading_of(quat))
        middle = np.where(stands[:, None], xyz, at)
        side = sign * HIP_HALF * self.height_m
        return middle + np.stack([-side * np.sin(yaw), side * np.cos(yaw), np.zeros_like(yaw)], axis=1), yaw

    def _shift(self, pitch: Floats) -> Floats:
        """Forward shift of the ankle [m] when the foot rolls over its toe (pitch above 0) or heel (below)."""
        pivot = np.where(pitch > 0.0, self.toe_m, -self.heel_m)
        return pivot * (1.0 - np.cos(pitch)) + self.ankle_m * np.sin(pitch)

    def _height(self, pitch: Floats) -> Floats:
        """Height [m] of the ankle above the lowest point of the shoe."""
        pivot = np.where(pitch > 0.0, self.toe_m, -self.heel_m)
        return pivot * np.sin(pitch) + self.ankle_m * np.cos(pitch)

    def _leg(self, side: str, hip: Floats, foot: tuple[Floats, Floats], forward: Floats) -> Placed:
        ankle, orientation = foot
        upper, lower = self.thigh_m, self.shank_m
        line = ankle - hip
        distance = np.linalg.norm(line, axis=1, keepdims=True)
        line = line / distance
        # A foot out of reach (a motion far too fast to walk) leaves the ground instead of the leg.
        distance = np.clip(distance, abs(upper - lower) + 1e-6, STRETCH * (upper + lower) + 1e-9)
        along = (upper**2 - lower**2 + distance**2) / (2.0 * distance)
        bend = forward - np.sum(forward * line, axis=1, keepdims=True) * line
        bend = bend / np.linalg.norm(bend, axis=1, keepdims=True)
        knee = hip + along * line + np.sqrt(np.maximum(upper**2 - along**2, 0.0)) * bend
        end = hip + distance * line
        return {
            f"{side} thigh": (hip, hanging(hip - knee, forward)),
            f"{side} shank": (knee, hanging(knee - end, forward)),
            f"{side} foot": (end, orientation),
        }

    # ---- arms --------------------------------------------------------------------------------------------------------

    def _arm(self, side: str, sign: float, pelvis: Floats, upright: Floats, phase: Floats, speed: Floats) -> Placed:
        """Poses of an arm. The left foot is ahead where -sin(π φ) is positive; the left arm is then behind."""
        vigour = np.minimum(step_length_m(speed, self.height_m) / step_length_m(1.4, self.height_m), 1.3)
        ahead = sign * ARM_SWING_RAD * vigour * np.sin(np.pi * phase)
        shoulder = np.array([0.0, sign * SHOULDER_HALF, SHOULDER]) * self.height_m - [0.0, 0.0, self.hip_m]
        at = pelvis + quat_rotate(upright, shoulder)
        upper = quat_multiply(upright, about(1, -ahead))
        elbow = at + quat_rotate(upper, np.array([0.0, 0.0, -UPPER_ARM * self.height_m]))
        flexed = quat_multiply(upper, about(1, -ELBOW_RAD * (1.0 + vigour) - 0.3 * np.maximum(ahead, 0.0)))
        return {f"{side} upper arm": (at, upper), f"{side} forearm": (elbow, flexed)}


def hanging(up: Floats, forward: Floats) -> Floats:
    """Quaternions (n, 4) of limbs whose z axis points along `up` (n, 3) and whose x axis leans to `forward` (n, 3)."""
    z = up / np.linalg.norm(up, axis=1, keepdims=True)
    y = np.cross(z, forward)
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    return quats_from_axes(np.cross(y, z), y, z)


def quats_from_axes(x: Floats, y: Floats, z: Floats) -> Floats:
    """Quaternions `xyzw` (n, 4) of frames with axes x, y, z, each (n, 3): a batch of `core.pose.quat_from_matrix`."""
    rows = np.empty((len(x), 4, 4))
    rows[:, 0, 0] = x[:, 0] - y[:, 1] - z[:, 2]
    rows[:, 1, 1] = y[:, 1] - x[:, 0] - z[:, 2]
    rows[:, 2, 2] = z[:, 2] - x[:, 0] - y[:, 1]
    rows[:, 3, 3] = x[:, 0] + y[:, 1] + z[:, 2]
    rows[:, 0, 1] = rows[:, 1, 0] = x[:, 1] + y[:, 0]
    rows[:, 0, 2] = rows[:, 2, 0] = z[:, 0] + x[:, 2]
    rows[:, 1, 2] = rows[:, 2, 1] = y[:, 2] + z[:, 1]
    rows[:, 0, 3] = rows[:, 3, 0] = y[:, 2] - z[:, 1]
    rows[:, 1, 3] = rows[:, 3, 1] = z[:, 0] - x[:, 2]
    rows[:, 2, 3] = rows[:, 3, 2] = x[:, 1] - y[:, 0]
    quat: Floats = np.linalg.eigh(rows)[1][:, :, -1]
    return np.where(quat[:, 3:] < 0.0, -quat, quat)


class PartMotion:
    """Motion of one part of a walking person."""

    def __init__(self, walk: Walk, part: str) -> None:
        self.walk, self.part, self.known_ahead = walk, part, walk.known_ahead

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        xyz, quat = self.walk.poses(times)[self.part]
        return xyz.copy(), quat.copy()


# ---- person ---------------------------------------------------------------------------------------------------------


def add_person(
    world: World,
    motion: Trajectory | Pose,
    height_m: float = 1.75,
    *,
    name: str = "person",
    clothes: str = "cotton",
    trousers: str = "fabric-blue",
    hair: str = "hair-dark",
    times: tuple[float, float] | None = None,
) -> Actor:
    """Add a person who walks along a motion (its frame on the ground, x forward), and stands while it rests.

    Steps follow from speed and height, planted feet do not slide, legs and arms swing. Valid for walking up to about
    2.5 m/s; running is only approximate. `height_m` is from 0.8 to 2.3; `clothes`, `trousers` and `hair` are materials.
    `times` (first, last) [s] limits the walk, for motions without a `start_time` and `end_time`.
    """
    height = within("person: height_m", height_m, 0.8, 2.3)
    return show_person(world, Walk(trajectory_of("person", motion), height, times), name, clothes, trousers, hair)


def show_person(
    world: World, walk: Walk, name: str, clothes: str, trousers: str = "fabric-blue", hair: str = "hair-dark"
) -> Actor:
    """Add the body of a person whose walk is given."""
    builder = Builder(world, name, "person", "dynamic")
    for part, pieces in _pieces(walk, clothes, trousers, hair).items():
        builder.add(part, pieces, PartMotion(walk, part))
    return builder.done()


def _pieces(walk: Walk, clothes: str, trousers: str, hair: str) -> dict[str, list[KitPart]]:
    """Meshes of each part in its own frame, whose origin is the joint nearest to the hips."""
    height = walk.height_m
    s = height / 1.75

    def piece(name: str, mesh: Mesh, material: str) -> KitPart:
        return KitPart(name, mesh, material, "person")

    covered, bare = _head(walk, s)
    torso = [piece("torso", _torso(walk, s), clothes), piece("head", bare, "skin"), piece("hair", covered, hair)]
    parts = {"torso": torso}
    upper, lower = UPPER_ARM * height, FOREARM * height
    foot = walk.toe_m + walk.heel_m
    sole = shoe(foot, 0.09 * s, walk.ankle_m + 0.015 * s).transformed(
        Pose((0.5 * (walk.toe_m - walk.heel_m), 0.0, -walk.ankle_m))
    )
    for side, _ in SIDES:
        parts[f"{side} thigh"] = [piece("thigh", limb(walk.thigh_m, 0.088 * s, 0.062 * s), trousers)]
        parts[f"{side} shank"] = [piece("shank", limb(walk.shank_m, 0.062 * s, 0.045 * s), trousers)]
        parts[f"{side} foot"] = [piece("shoe", sole, "rubber")]
        parts[f"{side} upper arm"] = [piece("sleeve", limb(upper, 0.055 * s, 0.045 * s), clothes)]
        hand = sphere(1.0, 1).scaled((0.045 * s, 0.03 * s, 0.09 * s)).transformed(Pose((0.0, 0.0, -lower - 0.07 * s)))
        parts[f"{side} forearm"] = [
            piece("sleeve", limb(lower, 0.045 * s, 0.034 * s), clothes),
            piece("hand", hand, "skin"),
        ]
    return parts


def limb(length: float, top: float, bottom: float) -> Mesh:
    """Tapered limb that hangs from the origin, with round ends so that bent joints have no gap."""
    ends = np.array([0.6, 0.9, 1.0])
    radii = [*(top * ends), *(bottom * ends[::-1])]
    down = [0.8 * top, 0.4 * top, 0.0, -length, -length - 0.4 * bottom, -length - 0.8 * bottom]
    return pipe([[0.0, 0.0, z] for z in down], radii, 10)


def _torso(walk: Walk, s: float) -> Mesh:
    """Trunk from the seat to the neck, in the frame of the hips."""
    z = np.array([0.82, 0.95, 1.10, 1.28, 1.40, 1.46]) * s - walk.hip_m
    half_width = np.array([0.15, 0.17, 0.15, 0.18, 0.20, 0.09]) * s
    half_depth = np.array([0.09, 0.11, 0.10, 0.12, 0.10, 0.06]) * s
    return spindle(half_depth, half_width, z, 14)


def _head(walk: Walk, s: float) -> tuple[Mesh, Mesh]:
    """Hair, and face with neck."""
    middle = (0.01, 0.0, 1.63 * s - walk.hip_m)
    head = sphere(1.0, 2).scaled((0.095 * s, 0.078 * s, 0.12 * s)).transformed(Pose(middle))
    hair, face = hair_and_face(head, middle, s)
    neck = struts([[0.0, 0.0, 1.44 * s - walk.hip_m]], [[0.01, 0.0, 1.55 * s - walk.hip_m]], 0.05 * s, 8)
    return hair, Mesh.merged([face, neck])


def shoe(length: float, width: float, height: float) -> Mesh:
    """A shoe with a flat sole at z = 0, centred in x and y, lower at the toe."""
    x = np.array([-0.5, -0.42, 0.05, 0.38, 0.5]) * length
    top = np.array([0.8, 1.0, 1.0, 0.55, 0.35]) * height
    half = np.array([0.36, 0.42, 0.46, 0.46, 0.30]) * width
    rings = np.stack(
        [
            np.stack([x, -half, np.zeros(5)], axis=1),
            np.stack([x, half, np.zeros(5)], axis=1),
            np.stack([x, 0.8 * half, top], axis=1),
            np.stack([x, -0.8 * half, top], axis=1),
        ],
        axis=1,
    )
    return loft(rings)
