"""Odometry and localisation: trajectory scores, adapters of methods, maps, and studies over weather and seeds."""

from parhelion.evaluate.slam.odometry import METHODS, Method, Odometry, Setup, method_maker
from parhelion.evaluate.slam.trajectories import Errors, ate, end_drift_percent, kitti_drift, matched, path_length, rpe

__all__ = [
    "METHODS", "Errors", "Method", "Odometry", "Setup", "ate", "end_drift_percent", "kitti_drift", "matched",
    "method_maker", "path_length", "rpe",
]  # fmt: skip
