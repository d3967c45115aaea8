"""Questions to the solid parts of a world and to a driver: ground, the nearest obstacle, and turning wheels."""

from __future__ import annotations

import numpy as np

from parhelion.contact import kernel
from parhelion.contact.driver import ContactDriver
from parhelion.contact.solid import Solid
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.rays.records import Rays

_FAR_M = 1e5
_FAN = 72
"""Rays of a fan, one every 5°."""
_LEVELS = (0.35, 0.65, 0.95)
"""Heights of the fans, as shares of the height of the hull above its lower side."""


def has_ground(solid: Solid, xyz: Floats) -> bool:
    """Return True if there is a solid surface below a place, or above it as for a start inside a hill."""
    ways = np.array([[0.0, 0.0, -1.0], [0.0, 0.0, 1.0]])
    start = np.stack([xyz + np.array([0.0, 0.0, 0.1]), xyz])
    return bool(solid.scene.cast(Rays(start, ways, np.zeros(2), np.full(2, _FAR_M))).found.any())


def ground_height(solid: Solid, xyz: Floats) -> Floats:
    """Heights [m] of the first solid surface below places (n, 3); NaN where there is none."""
    count = len(xyz)
    down = np.tile([0.0, 0.0, -1.0], (count, 1))
    hits = solid.scene.cast(Rays(np.asarray(xyz, np.float64), down, np.zeros(count), np.full(count, _FAR_M)))
    return np.where(hits.found, xyz[:, 2] - hits.range, np.nan)


def clearance(solid: Solid, pose: Pose, size_m: tuple[float, float, float], ground_clearance_m: float) -> float:
    """Horizontal distance [m] from the sides of a vehicle's box to the nearest solid surface; infinite without one.

    Three fans of 72 rays start at the vertical axis of the vehicle, at shares of its height, and end outside of its
    box. A gap between two rays grows with the distance: at 2 m, an obstacle narrower than 17 cm may lie between them.
    """
    length, width, height = size_m
    angle = np.arange(_FAN) * (2.0 * np.pi / _FAN)
    way = np.stack([np.cos(angle), np.sin(angle), np.zeros(_FAN)], axis=1)
    with np.errstate(divide="ignore"):
        inside = np.minimum(0.5 * length / np.abs(way[:, 0]), 0.5 * width / np.abs(way[:, 1]))
    levels = ground_clearance_m + np.array(_LEVELS) * (height - ground_clearance_m)
    start = np.zeros((len(_LEVELS), _FAN, 3))
    start[..., 2] = levels[:, None]
    start += inside[:, None] * way
    count = len(_LEVELS) * _FAN
    origins = pose.xyz + quat_rotate(pose.quat_xyzw, start.reshape(-1, 3))
    ways = quat_rotate(pose.quat_xyzw, np.tile(way, (len(_LEVELS), 1)))
    hits = solid.scene.cast(Rays(origins, ways, np.zeros(count), np.full(count, _FAR_M)))
    return float(np.min(np.where(hits.found, hits.range, np.inf)))


def wheel_rates(driver: ContactDriver, number: int, count: int) -> Floats:
    """Rates [rad/s] of the wheels of a vehicle, in the order of its chassis."""
    first = len(kernel.STATE) + kernel.WHEEL_STATE.index("rate")
    return driver._state[first :: len(kernel.WHEEL_STATE), number][:count]
