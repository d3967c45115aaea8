"""Worlds, rays and sensors shared by several tables."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

import parhelion as ph
from parhelion.rays.device import Engine
from parhelion.rays.scene import RayScene

OS1 = "ouster/os1-128"
VLP = "velodyne/vlp-16"
NO_LIMIT_M = 1e6


@dataclass(frozen=True)
class Settings:
    """Amount of work to measure."""

    quick: bool

    def rounds(self, most: int) -> int:
        """Rounds of a measurement: `most`, or two in a quick run."""
        return min(most, 2) if self.quick else most

    @property
    def most_seconds(self) -> float:
        """Time limit of one measurement [s]."""
        return 0.5 if self.quick else 8.0


@lru_cache(maxsize=1)
def city() -> ph.World:
    """The built-in city without motion; built once."""
    return ph.World.load("city")


@lru_cache(maxsize=1)
def city_scene() -> RayScene:
    """The ray scene of the city."""
    return RayScene(city().geometry("lidar"))


def scan_rays(world: ph.World, count: int) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
    """`count` rays of an OS1-128 at the world's viewpoint, ring by ring: origins and directions, (n, 3) each.

    Ring by ring is the order in which Parhelion traces, and the fastest for every engine that exploits coherence.

    For more rays than one scan has, the scan is repeated, each time rotated by the golden section of a column, like a
    scan of higher resolution.
    """
    shots = ph.Lidar(OS1).shots()
    order = np.lexsort((shots.time, shots.ring))
    scans = -(-count // len(shots))
    turns = 2.0 * np.pi / 1024.0 * ((np.arange(scans) * 0.6180339887) % 1.0)
    c, s, zero = np.cos(turns), np.sin(turns), np.zeros(scans)
    turn = np.stack([c, -s, zero, s, c, zero, zero, zero, zero + 1.0], axis=1).reshape(-1, 3, 3)
    origin = np.einsum("kij,nj->kni", turn, shots.origin[order]).reshape(-1, 3)[:count] + world.viewpoint.xyz
    direction = np.einsum("kij,nj->kni", turn, shots.direction[order]).reshape(-1, 3)[:count]
    return origin.astype(np.float32), direction.astype(np.float32)


def device_rays(scene: RayScene, origin: NDArray[Any], direction: NDArray[Any]) -> tuple[Any, Any]:
    """Rays on the device, in the scene's local frame."""
    mi, dr = scene.engine.mi, scene.engine.dr
    local = mi.Point3f((origin - scene.origin).T.astype(np.float32))
    towards = mi.Vector3f(np.ascontiguousarray(direction.T))
    dr.eval(local, towards)
    dr.sync_thread()
    return local, towards


def bare_cast(
    scene: RayScene, origin: Any, direction: Any, limit_m: float = NO_LIMIT_M, *, packets: bool = True
) -> Callable[[], Any]:
    """Cast device rays into the static triangles; return only distance, triangle and position in the triangle.

    Neighbouring rays are similar, so they may be cast in packets, as in scans. Without packets each ray is traversed
    separately, which is Mitsuba's default.
    """
    engine = scene.engine
    mi = engine.mi
    limit = engine.dr.opaque(mi.Float, limit_m)

    def run() -> Any:
        assert scene.static is not None
        hit = scene.static.ray_intersect_preliminary(mi.Ray3f(origin, direction, limit, 0.0, []), packets)
        finish(engine, hit.t, hit.prim_index, hit.prim_uv)
        return hit

    return run


def finish(engine: Engine, *values: Any) -> None:
    """Evaluate kernel variables and wait for them."""
    engine.dr.eval(*values)
    engine.dr.sync_thread()


def sub_rays_of_scan(lidar: ph.Lidar, world: ph.World, seed: int) -> tuple[RayScene, Any, Any]:
    """Every sub-ray that `lidar.scan(world, seed=seed)` traces first, as evaluated device rays."""
    from parhelion.core.trajectory import Fixed
    from parhelion.sensors.optics.lidar.device import Launch

    target = lidar._target(world)
    device = lidar._device(target)
    motion = Fixed(world.viewpoint)
    stream = lidar._stream(seed, motion, 0.0, None)
    beams, _ = device._emit(Launch(target, None, lidar.shots(), [motion], [0.0], [stream]))
    engine = target.engine
    dr, mi = engine.dr, engine.mi
    index = dr.arange(mi.UInt32, beams.count * device.sub_rays.count)
    beam = index // device.sub_rays.count
    aim = beams.aim(engine, beam)
    offset, direction = device.sub_rays.ray(aim, index - beam * device.sub_rays.count)
    origin = aim.origin + offset
    finish(engine, origin, direction)
    return target.scene, origin, direction


def poses_along(world: ph.World, count: int) -> list[ph.Pose]:
    """Poses spread evenly in time over the world's drive."""
    path: Any = world.path
    xyz, quat = path.sample(np.linspace(path.times[0], path.times[-1], count + 2)[1:-1])
    return [ph.Pose(x, q) for x, q in zip(xyz, quat, strict=True)]
