"""Velocities of the sensor and of moving bodies during a measurement, as evenly spaced knots for kernels.

Velocities are computed in float64 on the host, because differences of float32 positions have errors of mm/s.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import quat_conjugate, quat_multiply
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import interpolate_knots
from parhelion.rays.scene import RayScene
from parhelion.sensors.scene import motion_knots

_STEP_S = 1e-3
"""Step of the central differences [s]; exact at the midpoint for constant acceleration."""
_KNOT_S = 0.05
"""Spacing of the knots [s]."""


def twists(motions: list[Trajectory], times: NDArray[np.float64]) -> NDArray[np.float64]:
    """Velocities [m/s] and angular rates [rad/s] in the world frame, shape (bodies, times, 6)."""
    found = np.zeros((len(motions), len(times), 6))
    both = np.concatenate([times - 0.5 * _STEP_S, times + 0.5 * _STEP_S])
    for row, motion in enumerate(motions):
        if isinstance(motion, Fixed):
            continue
        xyz, quat = motion.sample(both)
        before, after = quat[: len(times)], quat[len(times) :]
        found[row, :, :3] = (xyz[len(times) :] - xyz[: len(times)]) / _STEP_S
        turn = quat_multiply(after, quat_conjugate(before))
        turn *= np.where(turn[:, 3:] < 0.0, -1.0, 1.0)
        # The angle itself, not its sine: a wheel rotates by up to a tenth of a revolution during the step.
        sine = np.linalg.norm(turn[:, :3], axis=1, keepdims=True)
        angle = 2.0 * np.arctan2(sine, turn[:, 3:])
        found[row, :, 3:] = (
            turn[:, :3] * np.divide(angle, sine, out=np.full_like(sine, 2.0), where=sine > 1e-12) / _STEP_S
        )
    if not np.all(np.isfinite(found)):
        raise ConfigError("motion: a velocity is not finite during the measurement; check the trajectory")
    return found


@kernel_tree()
@dataclass
class Moves:
    """Poses and velocities of the sensor and velocities of the bodies, as device arrays."""

    poses: Any
    """Poses of the sensor, evenly spaced."""
    pose_count: Any
    poses_per_s: Any
    speeds: Any
    """Velocity and angular rate of the sensor and then of each body, eight numbers per knot."""
    speed_count: Any
    speeds_per_s: Any

    @classmethod
    def of(cls, engine: Engine, scene: RayScene, motion: Trajectory, start: float, duration: float) -> Moves:
        """Motion during a measurement that starts at `start` [s] and lasts `duration` [s]."""
        poses, count = motion_knots([motion], [start], duration, scene.origin)
        if not np.all(np.isfinite(poses)):
            raise ConfigError("pose: the sensor's motion is not finite during the measurement; check the trajectory")
        # An odd number makes the middle of the measurement a knot. Most sensors send all their rays at that time, and
        # velocities of limbs change too quickly to be interpolated.
        knots = 2 * max(1, int(np.ceil(0.5 * duration / _KNOT_S))) + 1
        times = start + np.linspace(0.0, duration, knots)
        motions = [motion, *(actor.trajectory for actor in scene.geometry.actors)]
        speeds = twists(motions, times)
        rows = np.zeros((*speeds.shape[:2], 8), np.float32)
        rows[..., :3], rows[..., 4:7] = speeds[..., :3], speeds[..., 3:]
        length = max(duration, 1e-9)
        return cls(
            engine.table(poses[0]),
            engine.whole(count),
            engine.number((count - 1) / length),
            engine.table(rows),
            engine.whole(knots),
            engine.number((knots - 1) / length),
        )

    def pose(self, time: Any) -> tuple[Any, Any]:
        """Position [m] and quaternion of the sensor at times after the start [s]."""
        dr, mi = running_engine().dr, running_engine().mi
        return interpolate_knots(dr, mi, self.poses, 0, time * self.poses_per_s, self.pose_count)

    def speed(self, row: Any, time: Any) -> tuple[Any, Any]:
        """Velocity [m/s] and angular rate [rad/s]; row 0 is the sensor, row k + 1 is body k."""
        dr, mi = running_engine().dr, running_engine().mi
        place = time * self.speeds_per_s
        most = mi.Int32(self.speed_count) - 2
        index = mi.Int32(place)
        index = dr.select(index < 0, 0, dr.select(index > most, most, index))
        share = place - mi.Float(index)
        share = dr.select(share < 0.0, 0.0, dr.select(share > 1.0, 1.0, share))
        at = (mi.UInt32(row) * self.speed_count + mi.UInt32(index)) * 2
        rows = [dr.gather(mi.Vector4f, self.speeds, at + k) for k in range(4)]
        v, w = rows[0] + share * (rows[2] - rows[0]), rows[1] + share * (rows[3] - rows[1])
        return mi.Vector3f(v.x, v.y, v.z), mi.Vector3f(w.x, w.y, w.z)
