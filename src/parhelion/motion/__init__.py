"""Motion: body states, and trajectories through waypoints and from recordings."""

from parhelion.motion.recorded import RecordedMotion
from parhelion.motion.spline import SplineMotion
from parhelion.motion.state import BodyState, Motion, at_mount, state_of
from parhelion.motion.time_law import MotionLimits

__all__ = ["BodyState", "Motion", "MotionLimits", "RecordedMotion", "SplineMotion", "at_mount", "state_of"]
