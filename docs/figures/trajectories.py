"""A drive through waypoints within limits, its speed, and its accelerations: docs/images/trajectories.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import BLUE, GREEN, GREY, ORANGE, finish, sheet

from parhelion.core.pose import Floats
from parhelion.motion import BodyState, MotionLimits, SplineMotion

WAYPOINTS = [(0, 0, 0), (25, 0, 0), (40, 0, 0), (45, 5, 0), (45, 20, 0), (38, 26, 0), (20, 22, 0), (0, 26, 0)]
LIMITS = MotionLimits(max_speed_m_s=8.0, max_acceleration_m_s2=2.0, max_lateral_m_s2=3.0)


def draw_line(figure: Any, axes: Any, state: BodyState) -> None:
    """The line from above, coloured by speed."""
    speed = np.linalg.norm(state.velocity, axis=1)
    dots = axes.scatter(*state.xyz[:, :2].T, c=speed, s=5, cmap="viridis", linewidths=0)
    axes.plot(*np.array(WAYPOINTS, dtype=float)[:, :2].T, "o", color=ORANGE, markersize=5, label="waypoints")
    axes.set(xlabel="x [m]", ylabel="y [m]", title="From above", aspect="equal")
    axes.legend(fontsize=8, loc="center")
    figure.colorbar(dots, ax=axes, label="speed [m/s]", shrink=0.8)


def draw_speed(axes: Any, time: Floats, state: BodyState) -> None:
    """Speed and turn rate over time."""
    axes.plot(time, np.linalg.norm(state.velocity, axis=1), color=BLUE, label="speed [m/s]")
    axes.plot(time, 10.0 * state.angular_velocity[:, 2], color=GREEN, label="turn rate [0.1 rad/s]")
    axes.axhline(LIMITS.max_speed_m_s, color=GREY, linewidth=0.8, linestyle=":")
    axes.set(xlabel="time [s]", title="Speed and turn rate")
    axes.legend(fontsize=8)


def draw_accelerations(axes: Any, time: Floats, state: BodyState) -> None:
    """Acceleration along and across the line, with their limits."""
    yaw = 2.0 * np.arctan2(state.quat_xyzw[:, 2], state.quat_xyzw[:, 3])
    forward, left = np.stack([np.cos(yaw), np.sin(yaw)]), np.stack([-np.sin(yaw), np.cos(yaw)])
    along, across = (np.sum(axis.T * state.acceleration[:, :2], axis=1) for axis in (forward, left))
    axes.plot(time, along, color=BLUE, label="along the line")
    axes.plot(time, across, color=ORANGE, label="to the left")
    for limit, colour in ((LIMITS.max_acceleration_m_s2, BLUE), (LIMITS.max_lateral_m_s2, ORANGE)):
        for sign in (-1.0, 1.0):
            axes.axhline(sign * limit, color=colour, linewidth=0.8, linestyle=":")
    axes.set(xlabel="time [s]", ylabel="acceleration [m/s²]", title="Accelerations and their limits")
    axes.legend(fontsize=8)


if __name__ == "__main__":
    motion = SplineMotion(WAYPOINTS, limits=LIMITS)
    clock = np.linspace(motion.start_time, motion.end_time, 1500)
    drive = motion.state(clock)
    page, (left_panel, middle_panel, right_panel) = sheet(13.0, 3.8, 3, width_ratios=(1.2, 1.0, 1.0))
    draw_line(page, left_panel, drive)
    draw_speed(middle_panel, clock, drive)
    draw_accelerations(right_panel, clock, drive)
    finish(page, "trajectories")
