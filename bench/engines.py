"""Bare casts: the same rays and triangles with Parhelion's engine and with others."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import import_module
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tables import Goal, Table
from timing import ratio, take_turns
from workloads import NO_LIMIT_M, Settings, bare_cast, city, city_scene, device_rays, finish, scan_rays

from parhelion.rays.records import Rays
from parhelion.rays.scene import RayScene

OURS = "Parhelion, nearest triangle"
_RAYS = (131_072, 1_000_000)
# Two correct float32 engines differ by rounding, and occasionally hit different triangles at grazing edges.
_AGREE_M, _AGREE_PER_M = 1e-3, 1e-5

Floats = NDArray[np.float32]


@dataclass(frozen=True)
class Contender:
    """One engine with its scene built and its rays loaded."""

    run: Callable[[], Any]
    distance: Callable[[], NDArray[Any]]
    """Distances of the last run [m]; non-finite values and values of at least NO_LIMIT_M are misses."""
    threads: int
    finds: str
    """Outputs of a run for each hit."""
    goal: Goal | None = None
    """Goal for the time relative to Parhelion's nearest-triangle cast."""


def tables(settings: Settings) -> Iterator[Table]:
    """Time of each engine for one scan, and for a million rays."""
    for count in _RAYS[:1] if settings.quick else _RAYS:
        yield _compare(settings, count)


def _compare(settings: Settings, count: int) -> Table:
    table = Table(
        "engines",
        f"Bare casts: {count:,} rays of an OS1-128 in the city".replace(",", " "),
        ["engine", "threads", "finds", "M rays/s", "time against ours", "goal", "rays that differ"],
        notes=["Rays that differ: those whose distance is not that of our nearest triangle, to 1 mm and 1e-5 of it."],
    )
    scene = city_scene()
    origin, direction = scan_rays(city(), count)
    contenders = _ours(scene, origin, direction)
    for name, build in _OTHERS.items():
        if scene.engine.device != "cpu":
            table.notes.append(f"{name} skipped: it casts on the CPU, our rays were cast on the GPU.")
            continue
        try:
            contenders[name] = build(scene, origin, direction)
        except (ImportError, OSError) as reason:
            table.notes.append(f"{name} skipped: {reason}.")
    runs = {name: contender.run for name, contender in contenders.items()}
    times = take_turns(runs, rounds=settings.rounds(15), most_seconds=settings.most_seconds)
    reference = contenders[OURS].distance()
    for name, contender in contenders.items():
        against = ratio(times[name], times[OURS])
        table.add(
            {
                "engine": name,
                "threads": contender.threads,
                "finds": contender.finds,
                "M rays/s": count / times[name].best / 1e6,
                "time against ours": against,
                "goal": contender.goal.verdict(against) if contender.goal else None,
                "rays that differ": _differing(contender.distance(), reference),
            }
        )
    return table


def _differing(distance: NDArray[Any], reference: NDArray[Any]) -> int:
    """Number of rays whose distance differs, or that hit in only one of the two."""
    hit, expected = (np.isfinite(d) & (d < NO_LIMIT_M) for d in (distance, reference))
    found, wanted = np.where(hit, distance, 0.0), np.where(expected, reference, 0.0)
    same = np.abs(found - wanted) <= _AGREE_M + _AGREE_PER_M * wanted
    return int(np.count_nonzero((hit != expected) | ~same))


def _ours(scene: RayScene, origin: Floats, direction: Floats) -> dict[str, Contender]:
    engine = scene.engine
    mi, dr = engine.mi, engine.dr
    local, towards = device_rays(scene, origin, direction)
    threads = dr.thread_count()
    bare = bare_cast(scene, local, towards)
    limit = dr.opaque(mi.Float, NO_LIMIT_M)
    time = dr.opaque(mi.Float, 0.0)

    def trace() -> Any:
        hit = scene.trace(local, towards, time, limit, coherent=True)
        finish(engine, hit.found, hit.t, hit.normal, hit.part, hit.triangle)
        return hit

    rays = Rays.of(origin, direction, 0.0, NO_LIMIT_M)
    return {
        OURS: Contender(bare, lambda: _distances(bare()), threads, "distance, triangle, place in it"),
        "Parhelion, trace": Contender(trace, lambda: _distances(trace()), threads, "and normal, part"),
        "Parhelion, cast": Contender(
            lambda: scene.cast(rays, coherent=True),
            lambda: scene.cast(rays, coherent=True).range,
            threads,
            "as trace; NumPy in and out, float64",
        ),
    }


def _distances(hit: Any) -> NDArray[Any]:
    distance: NDArray[Any] = hit.t.numpy()
    return distance


def _embreex(scene: RayScene, origin: Floats, direction: Floats) -> Contender:
    mesh: Any = import_module("embreex.mesh_construction")
    embree = import_module("embreex.rtcore_scene").EmbreeScene()
    static = scene.geometry.static
    mesh.TriangleMesh(embree, static.vertices.astype(np.float32), static.faces.astype(np.int32))

    def run() -> NDArray[Any]:
        distance: NDArray[Any] = embree.run(origin, direction, query="DISTANCE")
        return distance

    return Contender(run, run, 1, "distance", Goal("at least", 2.5, "×"))


def _open3d(scene: RayScene, origin: Floats, direction: Floats) -> Contender:
    # Called by name, because its annotations do not include NumPy arrays.
    open3d: Any = import_module("open3d")
    core = open3d.core
    static = scene.geometry.static
    caster = open3d.t.geometry.RaycastingScene()
    vertices, faces = static.vertices.astype(np.float32), static.faces.astype(np.uint32)
    caster.add_triangles(core.Tensor(vertices), core.Tensor(faces))
    rays = core.Tensor(np.concatenate([origin, direction], axis=1))

    def run() -> Any:
        return caster.cast_rays(rays)

    threads = len(os.sched_getaffinity(0))
    finds = "distance, triangle, place in it, normal"
    return Contender(run, lambda: run()["t_hit"].numpy(), threads, finds, Goal("at least", 1.7, "×"))


def _warp(scene: RayScene, origin: Floats, direction: Floats) -> Contender:
    from warp_cast import caster

    static = scene.geometry.static
    run, distance = caster(static.vertices, static.faces, origin, direction, NO_LIMIT_M)
    return Contender(run, distance, 1, "distance", Goal("at least", 5.0, "×"))


_OTHERS: dict[str, Callable[[RayScene, Floats, Floats], Contender]] = {
    "Open3D RaycastingScene": _open3d,
    "embreex": _embreex,
    "Warp mesh query": _warp,
}
