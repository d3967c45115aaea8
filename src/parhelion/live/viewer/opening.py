"""Opening view of a page: a camera with free sight of the scene, a free place for the lidar, and the height of a cut
through buildings, so that a camera above sees into them.
"""

from __future__ import annotations

from itertools import product
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from parhelion.core.pose import Floats, Pose
from parhelion.world.assemble import SENSOR_HEIGHT_M
from parhelion.world.world import World

if TYPE_CHECKING:
    from parhelion.live.viewer.stages import ViewFrame

ROOF_WITHIN_M = 40.0
"""Greatest distance [m] to a roof."""
CUT_BELOW_M = 0.4
"""Height of the cut below the roof [m], which removes lamps and beams as well."""
_UP_RAYS = 64
_INDOORS = 0.85
_TARGETS = 160
_SEES_M = 0.3
_FRAMED_DEG = 35.0
"""Half the field of view of a camera that must contain a target."""
_FREE_SIGHT, _GOOD_ENOUGH = 0.7, 0.85
"""Free sight with which the default camera is kept, and share of the best other one."""
_FREE_M = 1.5
_SPACING_M = 4.0
POINT_SIZE_M, _POINT_LIMITS_M = 0.05, (0.015, 0.2)
_POINT_SHARE = 0.003
"""Initial diameter of points per distance: 2 to 3 pixels on a page of 900 lines with a field of view of 60 degrees."""
_GOLDEN_RAD = np.pi * (3.0 - np.sqrt(5.0))


def roof_cut(world: World | None, pose: Pose | None) -> float | None:
    """Height [m] above which a page hides triangles and points around a lidar; None outdoors."""
    if world is None or pose is None:
        return None
    number = np.arange(_UP_RAYS)
    # Directions within 60 degrees of the vertical.
    height = 1.0 - 0.5 * (number + 0.5) / _UP_RAYS
    aside = np.sqrt(1.0 - height**2)
    up = np.stack([aside * np.cos(_GOLDEN_RAD * number), aside * np.sin(_GOLDEN_RAD * number), height], axis=1)
    hits = world.cast(np.tile(pose.xyz, (_UP_RAYS, 1)), up, max_range=ROOF_WITHIN_M)
    met = np.isfinite(hits.range) & (hits.range < ROOF_WITHIN_M)
    if np.count_nonzero(met) < _INDOORS * _UP_RAYS:
        return None
    top = pose.xyz[2] + hits.range[met] * up[met, 2]
    return float(max(np.median(top) - CUT_BELOW_M, pose.xyz[2] + 0.5))


def free_place(world: World) -> Pose:
    """Viewpoint of a world, or the nearest place with free sight if it is inside of a body or on a roof."""
    pose, bounds = world.viewpoint, world.bounds
    if world.has_own_viewpoint or bounds is None:
        return pose
    ground = float(world.height(*pose.xyz[:2]))
    if np.isfinite(ground) and pose.xyz[2] > ground + 1.5 * SENSOR_HEIGHT_M:
        pose = Pose((pose.xyz[0], pose.xyz[1], ground + SENSOR_HEIGHT_M), pose.quat_xyzw)
    if _sight_m(world, pose) >= _FREE_M:
        return pose
    lower, upper = bounds
    reach = float(np.linalg.norm((upper - lower)[:2]) / 2.0)
    best, found = _sight_m(world, pose), pose
    for k in range(1, 200):
        radius = _SPACING_M * np.sqrt(k)
        if radius > reach:
            break
        x, y = pose.xyz[:2] + radius * np.array([np.cos(_GOLDEN_RAD * k), np.sin(_GOLDEN_RAD * k)])
        ground = float(world.height(x, y))
        place = Pose((x, y, ground + SENSOR_HEIGHT_M if np.isfinite(ground) else pose.xyz[2]), pose.quat_xyzw)
        sight = _sight_m(world, place)
        if sight > best:
            best, found = sight, place
        if best >= _FREE_M:
            break
    return found


def _sight_m(world: World, pose: Pose) -> float:
    """Distance [m] to the nearest surface at the height of a place; 0 if most directions end there."""
    angles = np.linspace(0.0, 2.0 * np.pi, 24, endpoint=False)
    level = np.stack([np.cos(angles), np.sin(angles), np.zeros(24)], axis=1)
    hits = world.cast(np.tile(pose.xyz, (24, 1)), level, max_range=50.0)
    ranges = np.where(np.isfinite(hits.range), hits.range, 50.0)
    return float(min(np.percentile(ranges, 10), np.median(ranges) / 3.0))


# ---- camera ---------------------------------------------------------------------------------------------------------

_View = tuple[NDArray[np.float64], NDArray[np.float64]]
_TURNS_DEG = (0.0, 50.0, -50.0, 100.0, -100.0, 150.0, -150.0)
"""Directions of candidate cameras around the sensor, from the default one."""
_RISES = (1.0, 1.8, 0.5)
"""Heights of candidate cameras over that of the default one."""
_ARMS = (1.0, 0.45)
"""Distances of candidate cameras over that of the default one."""


def point_size_of(measured: ViewFrame, camera: Floats) -> float:
    """Initial diameter of points [m]: a few pixels at the median distance from the camera."""
    if not len(measured.cloud):
        return POINT_SIZE_M
    far = float(np.median(np.linalg.norm(measured.cloud.xyz - measured.offset - camera, axis=1)))
    return float(np.clip(round(_POINT_SHARE * far / 0.005) * 0.005, *_POINT_LIMITS_M))


def first_camera(measured: ViewFrame, world: World | None = None, cut_m: float | None = None) -> _View:
    """Initial camera position and target in screen coordinates [m].

    The camera is behind and above the sensor. With a world, it is at another place around the sensor if something hides
    the cloud there; `cut_m` is the height of the cut through a building.
    """
    if measured.pose is None:
        return _of_recording(measured)
    default = _behind(measured, under_roof=cut_m is None)
    sensor = measured.pose.xyz - measured.offset
    targets = _targets(measured, cut_m)
    if world is None or not len(targets):
        return default
    position, target = default
    arm, ahead = position - sensor, float(np.linalg.norm((target - sensor)[:2]))
    places, looks = [], []
    for length, rise, turn in product(_ARMS, _RISES, np.radians(_TURNS_DEG)):
        east, north = np.cos(turn) * arm[0] - np.sin(turn) * arm[1], np.sin(turn) * arm[0] + np.cos(turn) * arm[1]
        places.append(sensor + length * np.array([east, north, arm[2] * rise]))
        looks.append(sensor - ahead * np.array([east, north, 0.0]) / max(float(np.hypot(east, north)), 1e-6))
    looks[0] = target
    offset = measured.offset
    free, framed = _share_seen(world, np.array(places) + offset, np.array(looks) + offset, targets + offset, cut_m)
    best = 0 if free[0] >= _FREE_SIGHT else int(np.argmax(framed >= _GOOD_ENOUGH * framed.max()))
    return places[best], looks[best]


def _targets(measured: ViewFrame, cut_m: float | None) -> Floats:
    """Points that the camera should see: a sample of the cloud around the sensor, and the sensor."""
    assert measured.pose is not None
    cloud, sensor = measured.cloud.xyz - measured.offset, measured.pose.xyz - measured.offset
    if "origin" in measured.cloud.fields:
        cloud = cloud[measured.cloud.fields["origin"] == 0]
    if cut_m is not None:
        cloud = cloud[cloud[:, 2] < cut_m - measured.offset[2]]
    ranges = np.linalg.norm(cloud - sensor, axis=1)
    near = cloud[ranges < max(1.5 * float(np.median(ranges)), 5.0)] if len(cloud) else cloud
    step = max(1, len(near) // _TARGETS)
    return np.concatenate([near[::step], np.repeat(sensor[None], max(1, _TARGETS // 8), axis=0)]).astype(np.float64)


def _share_seen(
    world: World, places: Floats, looks: Floats, targets: Floats, cut_m: float | None
) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Fraction of the targets in free sight of each place, and of those in the picture of a camera, shape (places,)."""
    start = np.repeat(places, len(targets), axis=0)
    axis = np.repeat(looks - places, len(targets), axis=0)
    towards = np.tile(targets, (len(places), 1)) - start
    cosine = np.sum(axis * towards, axis=1) / np.maximum(
        np.linalg.norm(axis, axis=1) * np.linalg.norm(towards, axis=1), 1e-9
    )
    framed = cosine > np.cos(np.radians(_FRAMED_DEG))
    way = np.tile(targets, (len(places), 1)) - start
    if cut_m is not None:
        # A ray from above starts at the cut, because everything over it is hidden.
        drop = np.where(way[:, 2] < 0.0, (cut_m - start[:, 2]) / np.minimum(way[:, 2], -1e-9), 0.0)
        start = start + np.clip(drop, 0.0, 1.0)[:, None] * way
        way = np.tile(targets, (len(places), 1)) - start
    distance = np.linalg.norm(way, axis=1)
    hits = world.cast(start, way / np.maximum(distance, 1e-9)[:, None])
    ranges = np.where(np.isfinite(hits.range), hits.range, np.inf)
    inside = (ranges < _SEES_M).reshape(len(places), -1).all(axis=1)
    free = (ranges >= distance - _SEES_M) & ~np.repeat(inside, len(targets))
    return free.reshape(len(places), -1).mean(axis=1), (free & framed).reshape(len(places), -1).mean(axis=1)


def _of_recording(measured: ViewFrame) -> _View:
    cloud = measured.cloud.xyz - measured.offset
    if len(cloud) == 0:
        return np.array([-10.0, -6.0, 6.0]), np.zeros(3)
    centre = np.median(cloud, axis=0)
    reach = max(float(np.percentile(np.linalg.norm(cloud - centre, axis=1), 75)), 0.5)
    return centre + reach * np.array([-1.3, -0.9, 0.9]), centre


def _behind(measured: ViewFrame, *, under_roof: bool) -> _View:
    """Camera behind and above the sensor; with `under_roof`, it stays below surfaces overhead."""
    assert measured.pose is not None
    cloud = measured.cloud.xyz - measured.offset
    sensor = measured.pose.xyz - measured.offset
    forward = measured.pose.rotation[:, 0] * (1.0, 1.0, 0.0)
    length = float(np.linalg.norm(forward))
    forward = forward / length if length > 1e-6 else np.array([1.0, 0.0, 0.0])
    left = np.array([-forward[1], forward[0], 0.0])
    up = np.array([0.0, 0.0, 1.0])
    if "origin" in measured.cloud.fields:
        cloud = cloud[measured.cloud.fields["origin"] == 0]  # drops around the sensor are irrelevant for the view
    offset = cloud - sensor
    ranges = np.linalg.norm(offset, axis=1)
    reach = float(np.clip(np.median(ranges), 3.0, 20.0)) if len(cloud) else 12.0
    height = 0.75 * reach if under_roof else 1.3 * reach
    overhead = offset[:, 2] > 0.6 * ranges
    if under_roof and np.count_nonzero(overhead) > 0.02 * max(1, len(cloud)):
        height = min(height, 0.6 * float(np.percentile(offset[overhead, 2], 20)))
        reach = min(reach, 6.0)
    return sensor - 1.3 * reach * forward + 0.55 * reach * left + height * up, sensor + 0.35 * reach * forward
