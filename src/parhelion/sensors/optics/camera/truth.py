"""Ground truth: depth, normal, class and object at each pixel centre, at mid-exposure of its row.

Ground truth ends at the first surface: it does not continue behind glass or in mirrors.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Float, Int
from parhelion.core.image import Intrinsics, SeenObject
from parhelion.core.pose import Floats, Pose, quat_conjugate, quat_rotate
from parhelion.core.random import Stream
from parhelion.core.trajectory import Trajectory, pose_at
from parhelion.motion.boxes import BoxTruth
from parhelion.rays.device import Engine, copied
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import rotate_back
from parhelion.rays.replay import SceneArrays
from parhelion.rays.scene import NOTHING, RayScene
from parhelion.sensors.optics.appearance import Holes, trace_through
from parhelion.sensors.optics.camera.lens import project
from parhelion.sensors.optics.camera.view import View
from parhelion.sensors.optics.scene import PartNames
from parhelion.world.parts import WorldObject
from parhelion.world.world import World

TRUTH = ("depth", "normal", "label", "instance", "mobility", "flow", "window", "objects")
"""Available kinds of ground truth."""


@dataclass(frozen=True, eq=False)
class PixelTruth:
    """Ground truth at the pixel centres, arrays of shape (h, w)."""

    range_m: NDArray[np.float32]
    """Range along the pixel's ray [m]; infinite without a surface."""
    depth: NDArray[np.float32]
    """Depth along the optical axis [m]; infinite without a surface."""
    normal: NDArray[np.float32]
    """Unit normal in the sensor frame, towards the camera, shape (h, w, 3)."""
    label: NDArray[np.uint16]
    """Class number."""
    instance: NDArray[np.uint32]
    """Object number."""
    actor: NDArray[np.int64]
    """Number of the moving body, -1 for static geometry."""
    reflectance: NDArray[np.float32]
    """Diffuse reflectance of the material, mean over the camera's bands; 0 without a surface."""

    def within(self, shown: NDArray[np.bool_]) -> PixelTruth:
        """Ground truth with the pixels outside a mask (h, w) cleared."""
        return PixelTruth(
            np.where(shown, self.range_m, np.float32(np.inf)),
            np.where(shown, self.depth, np.float32(np.inf)),
            self.normal * shown[..., None],
            self.label * shown,
            self.instance * shown,
            np.where(shown, self.actor, -1),
            self.reflectance * shown,
        )


def trace_truth(
    engine: Engine,
    view: View,
    names: PartNames,
    scene: SceneArrays,
    reach: Float,
    *,
    moves: bool,
    holes: Holes | None = None,
) -> PixelTruth:
    """Cast one ray through the centre of each pixel."""
    count = view.width * view.height
    see = engine.frozen(_see, casts=True)
    found = see(view, names, scene, engine.counting(count), reach, count, moves, holes)
    shape = (view.height, view.width)
    range_m, depth, *normal, reflectance = (copied(values).reshape(shape) for values in found[:6])
    label, instance, actor = (copied(values).reshape(shape) for values in found[6:])
    return PixelTruth(
        range_m,
        depth,
        np.stack(normal, axis=-1),
        label.astype(np.uint16),
        instance,
        np.where(actor == NOTHING, -1, actor.astype(np.int64)),
        reflectance,
    )


def _see(
    view: View,
    names: PartNames,
    scene: SceneArrays,
    index: Int,
    reach: Float,
    size: int,
    moves: bool,
    holes: Holes | None,
) -> tuple[Float | Int, ...]:
    dr, mi = running_engine().dr, running_engine().mi
    pixel, row, column = view.pixel(index)
    ray = view.ray(row, column, 0.5, 0.5, 0.5, None)
    hit = trace_through(
        scene, holes, ray.origin, ray.direction, ray.time, reach, step_off=lambda t: 1e-4 + 1e-5 * t, coherent=True
    )
    normal = dr.select(dr.dot(hit.normal, ray.direction) > 0.0, -hit.normal, hit.normal)
    local = rotate_back(dr, mi, view.axis(ray.time)[1], normal)
    numbers = names.at(hit.part)
    actor = hit.actor if moves else mi.UInt32(NOTHING)
    floats = [
        dr.select(hit.found, hit.t, dr.inf),
        dr.select(hit.found, hit.t * ray.forward, dr.inf),
        *(dr.select(hit.found, v, 0.0) for v in (local.x, local.y, local.z)),
        names.reflectance(hit.part),
    ]
    wholes = [numbers["label"], numbers["instance"], dr.select(hit.found, actor, NOTHING)]
    results = []
    for kind, values in ((mi.Float, floats), (mi.UInt32, wholes)):
        for value in values:
            picture = dr.empty(kind, size)
            dr.scatter(picture, value, pixel)
            results.append(picture)
    dr.eval(results)
    return tuple(results)


AT_REST_M, AT_REST_RAD = 1e-4, 1e-4
"""Largest motion of a body from one frame to the next that counts as rest."""


def mobility_codes(world: World, start: float, period_s: float) -> dict[int, int]:
    """Code of `core.image.MOBILITY` of each instance of a world at a time [s].

    An instance moves if one of its bodies changes its pose within `period_s`. One that can move, but rests, is movable.
    """
    table = {**getattr(world, "mobility", {}), **vars(world).get("mobility", {})}
    codes = {number: 1 if kind == "static" else 2 for number, kind in table.items()}
    for item in world.objects:
        codes.setdefault(item.instance, 1)
        if item.trajectory is not None:
            (first, last), (before, after) = item.trajectory.sample(np.array([start, start + period_s]))
            # |q1 . q2| is the cosine of half the angle between two attitudes.
            turned = 2.0 * np.arccos(min(1.0, abs(float(before @ after))))
            moves = float(np.linalg.norm(last - first)) > AT_REST_M or turned > AT_REST_RAD
            codes[item.instance] = 3 if moves else max(codes[item.instance], 2)
    return codes


def mobility_mask(seen: PixelTruth, codes: Mapping[int, int]) -> NDArray[np.uint8]:
    """Code of mobility of each pixel, shape (h, w); 0 where no surface is visible."""
    numbers, place = np.unique(seen.instance, return_inverse=True)
    found = np.array([codes.get(number, 1) for number in numbers.tolist()], np.uint8)
    return np.where(np.isfinite(seen.range_m), found[place].reshape(seen.instance.shape), np.uint8(0))


def flow(
    seen: PixelTruth,
    directions: NDArray[np.floating[Any]],
    motion: Trajectory,
    scene: RayScene,
    intrinsics: Intrinsics,
    times: NDArray[Any],
    later_s: float,
) -> NDArray[np.float32]:
    """Optical flow [pixel] over `later_s` [s], shape (h, w, 2).

    `directions` (h, w, 3) are the unit directions of the pixel centres in the sensor frame, `times` (h,) [s] those of
    the rows. With a rolling shutter, the row time of the first image applies to both images. The sky moves like distant
    objects. Flow is NaN where a point is later behind the lens or outside its field.
    """
    height, width = seen.range_m.shape
    far = np.where(np.isfinite(seen.range_m), seen.range_m, 1e7).astype(np.float64)
    result = np.full((height, width, 2), np.nan, np.float32)
    column = np.arange(width)
    xyz, quat = motion.sample(times)
    next_xyz, next_quat = motion.sample(times + later_s)
    actors = scene.geometry.actors
    for row in range(height):
        local = directions[row] * far[row][:, None]
        world = quat_rotate(quat[row], local) + xyz[row]
        for actor in np.unique(seen.actor[row]):
            if actor < 0:
                continue
            on = seen.actor[row] == actor
            place, turn = actors[actor].trajectory.sample(times[row] + np.array([0.0, later_s]))
            own = quat_rotate(quat_conjugate(turn[0]), world[on] - place[0])
            world[on] = quat_rotate(turn[1], own) + place[1]
        then = quat_rotate(quat_conjugate(next_quat[row]), world - next_xyz[row])
        uv, in_front = project(intrinsics, then)
        moved = uv - np.stack([column, np.full(width, row)], axis=1)
        # Points outside the image still have a pixel position; points behind the lens have none.
        has_place = np.isfinite(moved).all(axis=1) & ((then[:, 0] > 0.0) | in_front)
        result[row] = np.where(has_place[:, None], moved, np.nan)
    return result


# ---- seen objects ---------------------------------------------------------------------------------------------------
# Objects in an image: their 2D and 3D boxes, and their occlusion.


POINTS = 512
"""Surface points per object for the estimate of occlusion."""


class ObjectFinder:
    """Finds the objects in images of one world. Surface points of the objects are cached between images."""

    def __init__(self, world: World, visibility_keys: tuple[str, ...]) -> None:
        self.truth = BoxTruth(world, sensor=visibility_keys)
        self._world = world
        self._version = -1
        self._objects: dict[int, list[WorldObject]] = {}
        self._points: dict[int, Floats] = {}

    def find(self, seen: PixelTruth, intrinsics: Intrinsics, camera: Pose, time: float) -> tuple[SeenObject, ...]:
        """Objects with at least one visible pixel, by instance number."""
        self._refresh()
        boxes = {box.instance: box for box in self.truth.at(time)}
        found = []
        for instance, rows in _pixels(seen.instance).items():
            if instance not in boxes or instance not in self._objects:
                continue
            box = boxes[instance].seen_from(camera)
            y, x = rows
            visible = (float(x.min()), float(y.min()), float(x.max() + 1), float(y.max() + 1))
            outline, hidden = self._outline(instance, seen, intrinsics, camera, time)
            edges = (float(intrinsics.width), float(intrinsics.height))
            full = _cut(_around(visible, outline), edges)
            whole, inside = _area(_around(visible, outline)), _area(full)
            found.append(
                SeenObject(
                    instance=instance,
                    label=int(seen.label[y[0], x[0]]),
                    visible_box=visible,
                    full_box=full,
                    pixels=len(x),
                    occlusion=hidden,
                    truncation=max(0.0, 1.0 - inside / whole) if whole > 0 else 0.0,
                    pose=Pose(box.centre, box.quat_xyzw),
                    size_m=(float(box.size[0]), float(box.size[1]), float(box.size[2])),
                )
            )
        return tuple(found)

    def _refresh(self) -> None:
        if self._version == self._world.version:
            return
        self._version = self._world.version
        self._objects.clear()
        self._points.clear()
        for item in self._world.objects:
            self._objects.setdefault(item.instance, []).append(item)

    def _outline(
        self, instance: int, seen: PixelTruth, intrinsics: Intrinsics, camera: Pose, time: float
    ) -> tuple[tuple[float, float, float, float] | None, float]:
        """2D box around the surface points of an object, and the fraction of points hidden by other objects."""
        points = np.concatenate([self._sampled(item, time) for item in self._objects[instance]])
        local = camera.inverse().apply(points)
        uv, inside = project(intrinsics, local)
        placed = np.isfinite(uv).all(axis=1) & (local[:, 0] > 0.05)
        outline = None
        if placed.any():
            low, high = uv[placed].min(axis=0), uv[placed].max(axis=0)
            outline = (float(low[0]), float(low[1]), float(high[0] + 1.0), float(high[1] + 1.0))
        if not inside.any():
            return outline, 0.0
        column, row = np.rint(uv[inside]).astype(int).T
        row, column = row.clip(0, intrinsics.height - 1), column.clip(0, intrinsics.width - 1)
        # A point counts as hidden where another object is nearer; self-occlusion does not count.
        nearer = seen.depth[row, column] < 0.995 * local[inside, 0] - 0.02
        hidden = nearer & (seen.instance[row, column] != instance)
        return outline, float(np.mean(hidden))

    def _sampled(self, item: WorldObject, time: float) -> Floats:
        """Surface points of an object, uniform by area, in the world frame."""
        if item.index not in self._points:
            self._points[item.index] = _on_surface(item)
        points = self._points[item.index]
        return points if item.trajectory is None else pose_at(item.trajectory, time).apply(points)


def _on_surface(item: WorldObject) -> Floats:
    corners = np.concatenate([part.placed[part.mesh.faces] for part in item.parts])
    area = np.linalg.norm(np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0]), axis=1)
    draw = Stream(0, "camera/surface-points", item.index).generator()
    total = area.sum()
    if not total > 0.0:
        return np.asarray(corners.reshape(-1, 3)[:POINTS])
    # Stratified by area: each triangle receives points in proportion to its area.
    steps = (np.arange(POINTS) + 0.5) / POINTS * total
    row = np.searchsorted(np.cumsum(area), steps).clip(0, len(area) - 1)
    u, v = draw.random((2, POINTS))
    over = u + v > 1.0
    u, v = np.where(over, 1.0 - u, u)[:, None], np.where(over, 1.0 - v, v)[:, None]
    a, b, c = corners[row, 0], corners[row, 1], corners[row, 2]
    inner = a + u * (b - a) + v * (c - a)
    # The outline ends at vertices; the extreme ones along each axis are sufficient.
    flat = corners.reshape(-1, 3)
    ends = np.concatenate([flat[flat.argmin(axis=0)], flat[flat.argmax(axis=0)]])
    return np.asarray(np.concatenate([inner, ends]))


def _pixels(instance: NDArray[np.uint32]) -> dict[int, tuple[NDArray[np.int64], NDArray[np.int64]]]:
    """Rows and columns of the pixels of each instance except 0."""
    flat = instance.ravel()
    order = np.argsort(flat, kind="stable")
    numbers, first = np.unique(flat[order], return_index=True)
    width = instance.shape[1]
    return {
        int(number): (rows // width, rows % width)
        for number, rows in zip(numbers, np.split(order, first[1:]), strict=True)
        if number
    }


Box2 = tuple[float, float, float, float]


def _around(a: Box2, b: Box2 | None) -> Box2:
    return a if b is None else (min(a[0], b[0]), min(a[1], b[1]), max(a[2], b[2]), max(a[3], b[3]))


def _cut(box: Box2, edges: tuple[float, float]) -> Box2:
    return max(box[0], 0.0), max(box[1], 0.0), min(box[2], edges[0]), min(box[3], edges[1])


def _area(box: Box2) -> float:
    return max(0.0, box[2] - box[0]) * max(0.0, box[3] - box[1])
