"""Visibility from a sensor mount: rays, field of view, and occlusion."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose, quat_rotate
from parhelion.evaluate.placement.schema import SensorSite
from parhelion.rays import Rays, RayScene
from parhelion.sensors.optics.camera import lens
from parhelion.sensors.optics.camera.camera import Camera
from parhelion.sensors.optics.lidar.lidar import Lidar
from parhelion.sensors.optics.lidar.patterns import repeats

Mask = NDArray[np.bool_]

BATCH = 1_000_000
"""Number of rays per launch."""
CAMERA_RAYS = 40_000
"""Approximate number of rays of a camera; each represents a square of pixels."""
FIELD_STEP_DEG = 2.0
"""Number of azimuth bins of a lidar's field of view."""
_FIELD_FRAMES = 10
"""Number of frames that determine the field of view of a non-repeating pattern."""
_SLACK_DEG = 1e-3
_FAR_M = 1e4
_GAP_M = 0.02
"""Largest distance from its target at which a ray counts as having reached it."""


@dataclass(frozen=True, eq=False)
class Eye:
    """Sensor as a set of rays in its own frame."""

    origin: Floats
    """Origins [m], shape (n, 3)."""
    direction: Floats
    """Unit vectors, shape (n, 3)."""
    points: float
    """Number of points or pixels that each ray represents."""
    near_m: float
    far_m: float
    in_view: Callable[[Floats], Mask]
    """Mask of points (n, 3) [m] in the sensor frame that lie in its field of view."""


def eye_of(site: SensorSite, folder: Path) -> Eye:
    """Rays of a candidate's sensor."""
    model: Any = folder / site.model if Path(site.model).suffix else site.model
    sensor, eye = _EYES[site.type]
    return eye(sensor(model, **_options(sensor, site)), site)


def _options(sensor: type, site: SensorSite) -> dict[str, Any]:
    import inspect

    known = [name for name in inspect.signature(sensor).parameters if name != "model"]
    for name in site.options:
        if name not in known:
            raise ConfigError(f"options: {name!r} is unknown; a {site.type} takes {', '.join(known)}")
    return dict(site.options)


def lidar_eye(lidar: Lidar, reflectance: float = 0.1, range_m: float | None = None) -> Eye:
    """Shots of one frame, up to the range at which a surface of this reflectance is detected."""
    table = lidar.shots(0.0)
    limits = lidar.config.range
    far = min(limits.max_m, lidar.max_range(reflectance)) if range_m is None else range_m
    return Eye(
        table.origin.astype(np.float64), table.direction.astype(np.float64), 1.0, limits.min_m, far, _lidar_view(lidar)
    )


def _lidar_view(lidar: Lidar) -> Callable[[Floats], Mask]:
    """Field of view between the lowest and the highest beam of each azimuth."""
    bins = round(360.0 / FIELD_STEP_DEG)
    lowest, highest = np.full(bins, np.inf), np.full(bins, -np.inf)
    for frame in range(1 if repeats(lidar.config.pattern) else _FIELD_FRAMES):
        direction = lidar.shots(frame * lidar.frame_duration_s).direction.astype(np.float64)
        azimuth, elevation = _angles(direction)
        column = _column(azimuth, bins)
        np.minimum.at(lowest, column, elevation)
        np.maximum.at(highest, column, elevation)
    slack = np.radians(_SLACK_DEG)

    def in_view(points: Floats) -> Mask:
        azimuth, elevation = _angles(points)
        column = _column(azimuth, bins)
        inside: Mask = (elevation >= lowest[column] - slack) & (elevation <= highest[column] + slack)
        return inside

    return in_view


def _angles(vectors: Floats) -> tuple[Floats, Floats]:
    level = np.hypot(vectors[:, 0], vectors[:, 1])
    return np.arctan2(vectors[:, 1], vectors[:, 0]), np.arctan2(vectors[:, 2], level)


def _column(azimuth: Floats, bins: int) -> NDArray[np.int64]:
    return np.floor((azimuth / (2.0 * np.pi) + 0.5) * bins).astype(np.int64) % bins


def camera_eye(camera: Camera, range_m: float | None = None) -> Eye:
    """Rays through the centres of squares of pixels."""
    width, height = camera.intrinsics.width, camera.intrinsics.height
    step = max(1, round(np.sqrt(width * height / CAMERA_RAYS)))
    u = np.arange(step / 2 - 0.5, width - 0.5, step)
    v = np.arange(step / 2 - 0.5, height - 0.5, step)
    direction = lens.directions(camera.intrinsics, np.stack(np.meshgrid(u, v), axis=-1).reshape(-1, 2))
    direction = direction[camera.project(direction)[1]]
    far = _FAR_M if range_m is None else range_m
    return Eye(
        np.zeros_like(direction), direction, float(step * step), 0.0, far, lambda points: camera.project(points)[1]
    )


class Surroundings:
    """World at one time, with the body and the poses of the vehicle."""

    def __init__(self, scene: RayScene, body: RayScene | None, poses: Sequence[Pose], time: float) -> None:
        self.scene, self.body, self.poses, self.time = scene, body, tuple(poses), time

    def rays_at(self, eye: Eye, mount: Pose) -> Iterator[tuple[Floats, Floats, Floats, Mask]]:
        """For each pose: origins, directions (n, 3) and lengths (n,) [m] of rays in the world, and a mask of hits.

        A ray that hits the vehicle's own body, or a surface nearer than the minimum range of the sensor, ends there
        and does not count as a hit.
        """
        start, along = mount.apply(eye.origin), quat_rotate(mount.quat_xyzw, eye.direction)
        own = self.ranges(self.body, start, along, eye.far_m) if self.body is not None else np.full(len(start), np.inf)
        for pose in self.poses:
            origin, direction = pose.apply(start), quat_rotate(pose.quat_xyzw, along)
            length = self.ranges(self.scene, origin, direction, eye.far_m)
            found = np.isfinite(length) & (length < own) & (length >= eye.near_m)
            yield origin, direction, np.minimum(np.minimum(length, own), eye.far_m), found

    def sees(self, eye: Eye, mount: Pose, pose: Pose, targets: Floats) -> Mask:
        """Mask of targets (m, 3) [m] in the world within field of view and range and not occluded."""
        sensor = pose @ mount
        local = sensor.inverse().apply(targets)
        away = np.linalg.norm(local, axis=1)
        seen = (away >= eye.near_m) & (away <= eye.far_m) & (away > _GAP_M) & eye.in_view(local)
        rows = np.flatnonzero(seen)
        target = targets[rows]
        seen[rows] = self.free(self.scene, np.broadcast_to(sensor.xyz, target.shape), target)
        if self.body is not None:
            rows = np.flatnonzero(seen)
            target = pose.inverse().apply(targets[rows])
            seen[rows] = self.free(self.body, np.broadcast_to(mount.xyz, target.shape), target)
        return seen

    def free(self, scene: RayScene, start: Floats, end: Floats, gap_m: float = _GAP_M) -> Mask:
        """Mask of segments from starts to ends (n, 3) [m] that are free, excluding the last `gap_m`."""
        offset = end - start
        away = np.sqrt(np.sum(offset * offset, axis=1))
        far = away > gap_m
        clear = np.ones(len(start), bool)
        if far.any():
            limit = away[far] - gap_m
            clear[far] = ~np.isfinite(self.ranges(scene, start[far], offset[far] / away[far, None], limit))
        return clear

    def ranges(self, scene: RayScene, origin: Floats, direction: Floats, limit: Floats | float) -> Floats:
        """Range [m] of the first hit of each ray, infinite without a hit, shape (n,); cast in batches."""
        limits = np.broadcast_to(np.asarray(limit, np.float64), len(origin))
        found = np.full(len(origin), np.inf)
        for first in range(0, len(origin), BATCH):
            rows = slice(first, first + BATCH)
            rays = Rays.of(origin[rows], direction[rows], self.time, limits[rows])
            found[rows] = scene.cast(rays).range
        return found


_EYES: dict[str, tuple[type[Lidar | Camera], Callable[[Any, SensorSite], Eye]]] = {
    "lidar": (Lidar, lambda lidar, site: lidar_eye(lidar, site.reflectance, site.range_m)),
    "camera": (Camera, lambda camera, site: camera_eye(camera, site.range_m)),
}
"""Sensors that can be placed, with the function that turns one into rays, by the `type` of an entry."""
