"""What every pixel shows: depth, normal, class and object at its middle, in the middle of its row's exposure.

Smooth surfaces count as what is seen: behind glass and in mirrors there is no truth.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.image import Intrinsics
from parhelion.core.pose import quat_conjugate, quat_rotate
from parhelion.core.trajectory import Trajectory
from parhelion.rays.device import Engine, copied
from parhelion.rays.device import engine as running_engine
from parhelion.rays.moving import rotate_back
from parhelion.rays.replayable import SceneArrays
from parhelion.rays.scene import NOTHING, RayScene
from parhelion.sensors.camera.lens import project
from parhelion.sensors.camera.view import View
from parhelion.sensors.light.target import PartNames

TRUTH = ("depth", "normal", "label", "instance", "flow", "objects")
"""What can be asked for beside the picture."""


@dataclass(frozen=True, eq=False)
class Seen:
    """What the middles of pixels show, as arrays of shape (h, w)."""

    range_m: NDArray[np.float32]
    """Along the pixel's ray [m]; infinite where nothing is seen."""
    depth: NDArray[np.float32]
    """Along the optical axis [m]; infinite where nothing is seen."""
    normal: NDArray[np.float32]
    """In the sensor's frame, towards the camera, shape (h, w, 3)."""
    label: NDArray[np.uint16]
    instance: NDArray[np.uint32]
    actor: NDArray[np.int64]
    """Number of the moving body, -1 for what stands."""
    reflectance: NDArray[np.float32]
    """Diffuse reflectance of the material, the mean of the camera's bands; 0 where nothing is seen."""

    def within(self, shown: NDArray[np.bool_]) -> Seen:
        """The same with nothing seen outside of a mask (h, w)."""
        return Seen(
            np.where(shown, self.range_m, np.float32(np.inf)), np.where(shown, self.depth, np.float32(np.inf)),
            self.normal * shown[..., None], self.label * shown, self.instance * shown,
            np.where(shown, self.actor, -1), self.reflectance * shown,
        )  # fmt: skip


def look(engine: Engine, view: View, names: PartNames, scene: SceneArrays, reach: Any, *, moves: bool) -> Seen:
    """Cast one ray through the middle of each pixel."""
    count = view.width * view.height
    see = engine.frozen(_see, casts=True)
    found = see(view, names, scene, engine.counting(count), reach, count, moves)
    shape = (view.height, view.width)
    range_m, depth, *normal, reflectance = (copied(values).reshape(shape) for values in found[:6])
    label, instance, actor = (copied(values).reshape(shape) for values in found[6:])
    return Seen(
        range_m, depth, np.stack(normal, axis=-1), label.astype(np.uint16), instance,
        np.where(actor == NOTHING, -1, actor.astype(np.int64)), reflectance,
    )  # fmt: skip


def _see(
    view: View, names: PartNames, scene: SceneArrays, index: Any, reach: Any, size: int, moves: bool
) -> tuple[Any, ...]:
    dr, mi = running_engine().dr, running_engine().mi
    pixel, row, column = view.pixel(index)
    ray = view.ray(row, column, 0.5, 0.5, 0.5, None)
    hit = scene.trace(ray.origin, ray.direction, ray.time, reach, coherent=True)
    normal = dr.select(dr.dot(hit.normal, ray.direction) > 0.0, -hit.normal, hit.normal)
    local = rotate_back(dr, mi, view.axis(ray.time)[1], normal)
    told = names.at(hit.part)
    actor = hit.actor if moves else mi.UInt32(NOTHING)
    floats = [
        dr.select(hit.found, hit.t, dr.inf), dr.select(hit.found, hit.t * ray.forward, dr.inf),
        *(dr.select(hit.found, v, 0.0) for v in (local.x, local.y, local.z)), names.reflectance(hit.part),
    ]  # fmt: skip
    wholes = [told["label"], told["instance"], dr.select(hit.found, actor, NOTHING)]
    results = []
    for kind, values in ((mi.Float, floats), (mi.UInt32, wholes)):
        for value in values:
            picture = dr.empty(kind, size)
            dr.scatter(picture, value, pixel)
            results.append(picture)
    dr.eval(results)
    return tuple(results)


def flow(
    seen: Seen, directions: NDArray[np.floating[Any]], motion: Trajectory, scene: RayScene, intrinsics: Intrinsics,
    times: NDArray[Any], later_s: float,
) -> NDArray[np.float32]:  # fmt: skip
    """How far what pixels show moves on the picture within `later_s` [s], shape (h, w, 2).

    `directions` (h, w, 3) are those of the pixels' middles in the sensor's frame, `times` (h,) [s] those of the rows.
    With a rolling shutter, the time of the row on which a thing is first seen counts for both pictures. The sky moves
    as things far away do; NaN is where a thing is not in front of the lens later, or passes out of the lens's field.
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
        # What leaves the picture has a place all the same; what is behind the lens has none.
        has_place = np.isfinite(moved).all(axis=1) & ((then[:, 0] > 0.0) | in_front)
        result[row] = np.where(has_place[:, None], moved, np.nan)
    return result
