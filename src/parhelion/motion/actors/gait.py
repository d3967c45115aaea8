"""A walking body: where its limbs are at any time, rigid parts that hang together at their joints.

Feet are planted: each stands where the body was at its step, rolls from heel to toe, and swings to the next place. The
hips sink as far as the legs' length asks for, knees follow from hips and ankles (two links in a plane), arms swing
against the legs. Lengths are shares of the height (Winter 2009, after Drillis and Contini 1966).
"""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.pose import Floats, quat_from_rpy, quat_multiply, quat_rotate
from parhelion.core.trajectory import Trajectory
from parhelion.motion.actors.body import about, heading_of
from parhelion.motion.actors.schedule import eased
from parhelion.motion.actors.steps import StepClock, step_clock, step_length_m

THIGH, SHANK, ANKLE = 0.245, 0.246, 0.039
FOOT, HEEL_SHARE = 0.152, 0.25
"""Length of the foot, and how much of it lies behind the ankle."""
HIP_HALF, SHOULDER_HALF = 0.05, 0.129
SHOULDER, UPPER_ARM, FOREARM = 0.818, 0.186, 0.146
STRETCH = 0.998
"""Share of the leg's length to which it may stretch."""
REACH = 0.54
"""Longest way over one planted foot, as a share of the height: 0.95 m for 1.75 m, with the toe's roll."""
BEFORE, AFTER = 0.8, 1.2
"""A foot stands from `BEFORE` to `AFTER` times the stance share, in steps, around the moment the body is over it."""
HEEL_RISE_RAD, TOE_RISE_RAD = np.radians(45.0), np.radians(18.0)
CLEARANCE = 0.018
"""How high the lowest point of a swinging shoe is lifted, as a share of the height."""
ARM_SWING_RAD, ELBOW_RAD = np.radians(26.0), np.radians(14.0)
SIDES = (("left", 1.0), ("right", -1.0))

Placed = dict[str, tuple[Floats, Floats]]
"""Positions (n, 3) [m] and quaternions `xyzw` (n, 4) of each part."""


class Walk:
    """Poses of a walker's parts. The motion's frame runs on the ground between the feet, x forward."""

    def __init__(self, motion: Trajectory, height_m: float, times: tuple[float, float] | None = None) -> None:
        self.motion, self.height_m = motion, height_m
        self.clock: StepClock = step_clock(motion, height_m, REACH * height_m, times)
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
        if last[0] != key:  # every part is asked for the same times
            last = self._last = key, self._poses(asked)
        return last[1]

    def joints(self) -> list[tuple[str, tuple[float, float, float], str, tuple[float, float, float]]]:
        """Points [m] that two parts share, each in the part's own frame: part, point, other part, its point."""
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
        phase, speed, bout = self.clock.at(times)
        xyz, quat = self.motion.sample(self.clock.body_times(times))
        heading = heading_of(quat)
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

    def _hip_height(self, ground: Floats, hips: dict[str, Floats], feet: dict[str, tuple[Floats, Floats]]) -> Floats:
        """As high as when standing, or as the legs reach: a smooth minimum, never above any of the three."""
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
        first, last, stance = self.clock.bounds(bout)
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
        # Longer steps roll more; feet that begin or end side by side with the other do not roll at all.
        stride = 2.0 * float(step_length_m(1.4, self.height_m))
        rolls = [np.minimum(np.linalg.norm(b - a, axis=1) / stride, 1.0) for a, b in pairwise(places)]
        roll_in, roll_out = rolls[0], np.where(step + after < first, 0.0, rolls[1])
        roll_next = np.where(step + 2.0 - before > last, 0.0, rolls[1])
        heel = HEEL_RISE_RAD * roll_out * eased(np.clip((phase - step) / after * 4.0 / 3.0 - 1.0 / 3.0, 0.0, 1.0))
        toe = TOE_RISE_RAD * roll_in * eased(np.clip((step - phase) / before * 2.0 - 1.0, 0.0, 1.0))
        pitch = np.where(
            swings, (1.0 - share) * HEEL_RISE_RAD * roll_out - share * TOE_RISE_RAD * roll_next, heel - toe
        )
        # In the air the ankle goes from where it leaves to where it lands, high enough for the shoe.
        leaves, lands = self._shift(HEEL_RISE_RAD * roll_out), self._shift(-TOE_RISE_RAD * roll_next)
        along = np.where(swings, (1.0 - share) * leaves + share * lands, self._shift(pitch))
        mix = np.where(swings, share, 0.0)
        turned = np.mod(headings[2] - headings[1] + np.pi, 2.0 * np.pi) - np.pi
        yaw = headings[1] + mix * turned
        place = places[1] + mix[:, None] * (places[2] - places[1])
        lifted = CLEARANCE * self.height_m * np.maximum(rolls[1], 0.3) * 4.0 * mix * (1.0 - mix)
        ankle = place + np.stack([along * np.cos(yaw), along * np.sin(yaw), self._height(pitch) + lifted], axis=1)
        return ankle, quat_from_rpy(np.zeros_like(pitch), pitch, yaw)

    def _foothold(
        self, step: Floats, bout: Floats, sign: float, stands: NDArray[np.bool_], xyz: Floats, heading: Floats
    ) -> tuple[Floats, Floats]:
        """Places (n, 3) below the ankle and headings (n,) of footholds; those of the body where it stands."""
        at, quat = self.motion.sample(self.clock.landing_times(bout, step))
        yaw = np.where(stands, heading, heading_of(quat))
        middle = np.where(stands[:, None], xyz, at)
        side = sign * HIP_HALF * self.height_m
        return middle + np.stack([-side * np.sin(yaw), side * np.cos(yaw), np.zeros_like(yaw)], axis=1), yaw

    def _shift(self, pitch: Floats) -> Floats:
        """How far [m] the ankle comes forward when the foot rolls over its toe (pitch above 0) or heel (below)."""
        pivot = np.where(pitch > 0.0, self.toe_m, -self.heel_m)
        return pivot * (1.0 - np.cos(pitch)) + self.ankle_m * np.sin(pitch)

    def _height(self, pitch: Floats) -> Floats:
        """Height [m] of the ankle above the ground that the shoe's lowest point touches."""
        pivot = np.where(pitch > 0.0, self.toe_m, -self.heel_m)
        return pivot * np.sin(pitch) + self.ankle_m * np.cos(pitch)

    def _leg(self, side: str, hip: Floats, foot: tuple[Floats, Floats], forward: Floats) -> Placed:
        ankle, turn = foot
        upper, lower = self.thigh_m, self.shank_m
        line = ankle - hip
        distance = np.linalg.norm(line, axis=1, keepdims=True)
        line = line / distance
        # A foot out of reach (a motion far too fast to walk) leaves the ground, not the leg.
        distance = np.clip(distance, abs(upper - lower) + 1e-6, STRETCH * (upper + lower) + 1e-9)
        along = (upper**2 - lower**2 + distance**2) / (2.0 * distance)
        bend = forward - np.sum(forward * line, axis=1, keepdims=True) * line
        bend = bend / np.linalg.norm(bend, axis=1, keepdims=True)
        knee = hip + along * line + np.sqrt(np.maximum(upper**2 - along**2, 0.0)) * bend
        end = hip + distance * line
        return {
            f"{side} thigh": (hip, _hanging(hip - knee, forward)),
            f"{side} shank": (knee, _hanging(knee - end, forward)),
            f"{side} foot": (end, turn),
        }

    # ---- arms --------------------------------------------------------------------------------------------------------

    def _arm(self, side: str, sign: float, pelvis: Floats, upright: Floats, phase: Floats, speed: Floats) -> Placed:
        """The left foot is ahead where -sin(π φ) is positive, and then the left arm is behind."""
        vigour = np.minimum(step_length_m(speed, self.height_m) / step_length_m(1.4, self.height_m), 1.3)
        ahead = sign * ARM_SWING_RAD * vigour * np.sin(np.pi * phase)
        shoulder = np.array([0.0, sign * SHOULDER_HALF, SHOULDER]) * self.height_m - [0.0, 0.0, self.hip_m]
        at = pelvis + quat_rotate(upright, shoulder)
        upper = quat_multiply(upright, about(1, -ahead))
        elbow = at + quat_rotate(upper, np.array([0.0, 0.0, -UPPER_ARM * self.height_m]))
        flexed = quat_multiply(upper, about(1, -ELBOW_RAD * (1.0 + vigour) - 0.3 * np.maximum(ahead, 0.0)))
        return {f"{side} upper arm": (at, upper), f"{side} forearm": (elbow, flexed)}


def _hanging(up: Floats, forward: Floats) -> Floats:
    """Quaternions (n, 4) of limbs whose z axis points along `up` (n, 3) and whose x axis leans to `forward` (n, 3)."""
    z = up / np.linalg.norm(up, axis=1, keepdims=True)
    y = np.cross(z, forward)
    y = y / np.linalg.norm(y, axis=1, keepdims=True)
    return quats_from_axes(np.cross(y, z), y, z)


def quats_from_axes(x: Floats, y: Floats, z: Floats) -> Floats:
    """Quaternions `xyzw` (n, 4) of frames with axes x, y, z, each (n, 3), as `core.pose.quat_from_matrix` does one."""
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
    """The motion of one part of a walker."""

    known_ahead = True
    """Its future is fixed, so it may be sampled before its time has come."""

    def __init__(self, walk: Walk, part: str) -> None:
        self.walk, self.part = walk, part

    def sample(self, times: ArrayLike) -> tuple[Floats, Floats]:
        """Positions (n, 3) [m] and unit quaternions `xyzw` (n, 4) at `times` (n,) [s]."""
        xyz, quat = self.walk.poses(times)[self.part]
        return xyz.copy(), quat.copy()
