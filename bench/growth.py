"""Scaling: time and memory from ten thousand to ten million triangles, and time against the number of rays."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from machine import memory_bytes
from numpy.typing import NDArray
from tables import Table
from timing import ratio, take_turns
from workloads import OS1, Settings, bare_cast, city, city_scene, device_rays, scan_rays

import parhelion as ph
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.rays.scene import RayScene

_SIZES = (10_000, 100_000, 1_000_000, 10_000_000)
_SIDE_M = 400.0


def tables(settings: Settings) -> Iterator[Table]:
    """Scaling with triangles, then with rays."""
    sizes = _SIZES[:3] if settings.quick else _SIZES
    yield _by_triangles(settings, sizes)
    yield _by_rays(settings, sizes)


def terrain(count: int) -> Triangles:
    """Hills of 400 m by 400 m with about `count` triangles; the shape does not depend on `count`."""
    cells = max(1, round(np.sqrt(count / 2)))
    axis = np.linspace(-_SIDE_M / 2, _SIDE_M / 2, cells + 1)
    x, y = np.meshgrid(axis, axis, indexing="ij")
    # Sum of waves of decreasing length and height in different directions; flat in the centre, where the sensor is.
    turns, lengths = np.radians(37.0 * np.arange(8)), 160.0 / 1.9 ** np.arange(8)
    z = np.zeros_like(x)
    for turn, length in zip(turns, lengths, strict=True):
        z += 0.04 * length * np.sin(2 * np.pi / length * (x * np.cos(turn) + y * np.sin(turn)))
    z *= 1.0 - np.exp(-(x * x + y * y) / 15.0**2)
    corner = (np.arange(cells)[:, None] * (cells + 1) + np.arange(cells)).ravel().astype(np.int32)
    right, up, both = corner + cells + 1, corner + 1, corner + cells + 2
    faces = np.stack([corner, right, both, corner, both, up], axis=1).reshape(-1, 3)
    vertices = np.stack([x.ravel(), y.ravel(), z.ravel()], axis=1)
    return Triangles(vertices, faces, np.zeros(len(faces), np.uint32))


def _by_triangles(settings: Settings, sizes: tuple[int, ...]) -> Table:
    table = Table(
        "growth",
        "Growth with triangles: one OS1-128 scan's rays over hills",
        [
            "triangles",
            "build s",
            "build s a million",
            "memory MiB",
            "bytes a triangle",
            "peak MiB",
            "M rays/s",
            "cast time",
        ],
        notes=[
            "Build: from triangles in NumPy to a scene ready to cast. Memory: what stays resident for the scene, the "
            "NumPy triangles it was built from aside. Peak: of the whole process, libraries included. Cast time: "
            "against the fewest triangles."
        ],
    )
    shots = ph.Lidar(OS1).shots()
    origin = (shots.origin + np.array([0.0, 0.0, 2.0])).astype(np.float32)
    builds = {size: _in_own_process(size) for size in sizes}
    scenes = {str(size): RayScene(SceneGeometry(terrain(size))) for size in sizes}
    runs = {name: _cast(scene, origin, shots.direction) for name, scene in scenes.items()}
    times = take_turns(runs, rounds=settings.rounds(15), most_seconds=settings.most_seconds)
    for size, build in builds.items():
        count = len(scenes[str(size)].geometry.static)
        table.add(
            {
                "triangles": count,
                "build s": build["seconds"],
                "build s a million": build["seconds"] / count * 1e6,
                "memory MiB": build["held_bytes"] / 2**20,
                "bytes a triangle": build["held_bytes"] / count,
                "peak MiB": build["peak_bytes"] / 2**20,
                "M rays/s": len(shots) / times[str(size)].best / 1e6,
                "cast time": ratio(times[str(size)], times[str(sizes[0])]),
            }
        )
    return table


def _in_own_process(size: int) -> dict[str, float]:
    """Time and memory of one build. It runs in a separate process, because this process would reuse memory that it
    freed.
    """
    command = [sys.executable, __file__, str(size)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
    if answer.returncode != 0:
        raise RuntimeError(f"building {size} triangles failed:\n{answer.stderr}")
    measured: dict[str, float] = json.loads(answer.stdout.splitlines()[-1])
    return measured


def measure_build(size: int) -> dict[str, float]:
    """Time to build a scene [s], memory that the scene holds [bytes] and peak memory of the process [bytes]."""
    # The first scene starts the engine and fills its memory pools, which belong to no scene.
    first = RayScene(SceneGeometry(terrain(1000)))
    triangles = terrain(size)
    gc.collect()
    before, start = memory_bytes("VmRSS"), time.perf_counter()
    scene = RayScene(SceneGeometry(triangles))
    scene.engine.dr.sync_thread()
    seconds = time.perf_counter() - start
    gc.collect()
    held = memory_bytes("VmRSS") - before
    del first
    return {"seconds": seconds, "held_bytes": held, "peak_bytes": memory_bytes("VmHWM")}


def _cast(scene: RayScene, origin: NDArray[Any], direction: NDArray[Any]) -> Callable[[], Any]:
    return bare_cast(scene, *device_rays(scene, origin, direction))


def _by_rays(settings: Settings, counts: tuple[int, ...]) -> Table:
    table = Table(
        "growth",
        "Growth with rays: casts of an OS1-128 in the city",
        ["rays", "ms", "M rays/s", "time a ray"],
        notes=["Time a ray: against the most rays."],
    )
    runs = {str(count): _cast(city_scene(), *scan_rays(city(), count)) for count in counts}
    times = take_turns(runs, rounds=settings.rounds(12), most_seconds=settings.most_seconds)
    most = counts[-1]
    for count in counts:
        share = ratio(times[str(count)], times[str(most)])
        table.add(
            {
                "rays": count,
                "ms": 1e3 * times[str(count)].best,
                "M rays/s": count / times[str(count)].best / 1e6,
                "time a ray": share.times(most / count),
            }
        )
    return table


if __name__ == "__main__":
    print(json.dumps(measure_build(int(sys.argv[1]))))
