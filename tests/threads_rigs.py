"""Threads that scan, edit and drop worlds. Run as a program, because an engine without its lock crashes the process.

python threads_rigs.py scans 60 1      four threads, 60 scans each, once
"""

from __future__ import annotations

import gc
import hashlib
import queue
import sys
import threading
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np

import parhelion as ph
from rigs import add_wall, sheet, wall

THREADS = 4


def digest(scan: ph.PointCloud) -> str:
    """Hash of all fields of a scan."""
    content = hashlib.sha256(scan.xyz.tobytes())
    for name in sorted(scan.fields):
        content.update(scan.fields[name].tobytes())
    return content.hexdigest()


def in_threads(work: Callable[[int], object], count: int = THREADS) -> list[object]:
    """Return the result of each thread; an exception in one of them is raised here."""
    results: list[object] = [None] * count
    start = threading.Barrier(count)

    def run(number: int) -> None:
        start.wait()
        try:
            results[number] = work(number)
        except BaseException as error:
            results[number] = error

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for result in results:
        if isinstance(result, BaseException):
            raise result
    return results


def _scene(number: int) -> ph.World:
    """Return a world for one thread: a wall, a moving car, and rain for odd numbers."""
    world = wall(20.0 + number)
    world.add_actor(
        ph.shapes.box(2, 1, 1), material="brick", trajectory=ph.ConstantTwist(ph.Pose((10, -2, 0)), (0, 4, 0))
    )
    if number % 2:
        world.weather = ph.Weather(rain=ph.Rain(rate_mm_h=30))
    return world


def scans(count: int) -> None:
    """Each thread scans its own world with its own lidar and drops both half-way, while another thread may record."""

    def work(number: int) -> list[str]:
        found = []
        for half in range(2):
            world, lidar = _scene(number), ph.Lidar(sheet(noise={"range_sigma_m": 0.02}))
            for k in range(count // 2):
                pose = ph.Pose((0.01 * k, 0.0, 0.0))
                scan = lidar.scan(world, pose=pose, time=0.1 * half, seed=k)
                found.append(digest(scan))
                if k % 16 == 0:
                    found.append(digest(ph.Weather(rain=ph.Rain(rate_mm_h=20)).apply(scan, sensor=lidar, seed=k)))
                    found.append(
                        hashlib.sha256(lidar.waveform(world, [3, 50], pose=pose).samples.tobytes()).hexdigest()
                    )
            del world, lidar, scan
            gc.collect()
        return found

    together = in_threads(work)
    alone = [work(number) for number in range(THREADS)]
    assert together == alone, "scans in threads differ from scans alone"


def edits(count: int) -> None:
    """Two threads scan one world with one lidar while two others move its wall: each scan shows it before or after a
    move.
    """
    world, lidar = ph.World(), ph.Lidar(sheet(), noise=False)
    add_wall(world, 20.0, "lambert-50")
    places = {}
    for place in (20.0, 30.0):
        apart = ph.World()
        add_wall(apart, place, "lambert-50")
        places[lidar.scan(apart, pose=ph.Pose()).range.tobytes()] = place
    seen: set[float] = set()
    done = threading.Event()

    def edit() -> None:
        k = 0
        while k < count or len(seen) < 2:
            k += 1
            with world.edits():
                for item in world.objects:
                    world.remove(item)
                add_wall(world, (20.0, 30.0)[k % 2], "lambert-50")
            assert world.bounds is not None
            world.geometry()

    def observe() -> None:
        while not done.is_set():
            seen.add(places[lidar.scan(world, pose=ph.Pose()).range.tobytes()])

    def work(number: int) -> None:
        try:
            edit() if number < 2 else observe()
        finally:
            if number < 2:
                done.set()

    in_threads(work)
    assert seen == {20.0, 30.0}, seen


def drops(count: int) -> None:
    """One thread scans worlds, others drop them, also as reference cycles; memory is freed only under the lock."""
    from parhelion.rays.lock import DeviceOwned, engine_lock

    watched: dict[int, weakref.ref[Any]] = {}
    without_lock: list[str] = []

    def new(cls: type[DeviceOwned], *_: object, **__: object) -> DeviceOwned:
        made: DeviceOwned = object.__new__(cls)
        made.__dict__["watched"] = array = np.zeros(1)

        def freed(gone: weakref.ref[Any]) -> None:
            del watched[id(gone)]
            if engine_lock._owner != threading.get_ident():
                without_lock.append(cls.__name__)

        watch = weakref.ref(array, freed)
        watched[id(watch)] = watch
        return made

    DeviceOwned.__new__ = new  # type: ignore[assignment,method-assign]
    sys.setswitchinterval(1e-4)
    waiting: queue.Queue[list[Any] | None] = queue.Queue(8)

    def drop(number: int) -> None:
        while (held := waiting.get()) is not None:
            if number % 2:
                held.append(held)
            del held
            gc.collect()

    def work(number: int) -> None:
        if number:
            return drop(number)
        try:
            for k in range(count):
                world, lidar = _scene(k), ph.Lidar(sheet(noise={"range_sigma_m": 0.02}))
                scan = lidar.scan(world, pose=ph.Pose(), seed=k)
                ph.Weather(rain=ph.Rain(rate_mm_h=20)).apply(scan, sensor=lidar, seed=k)
                waiting.put([world, lidar, scan])
                del world, lidar
        finally:
            for _ in range(THREADS - 1):
                waiting.put(None)

    in_threads(work)
    assert not without_lock, without_lock


def casts(count: int) -> None:
    """Threads build ray scenes, cast at them and drop them; the results equal those of one thread."""
    from parhelion.rays import Rays, RayScene

    directions = np.random.default_rng(1).normal(size=(500, 3))

    def work(number: int) -> list[bytes]:
        geometry = _scene(number).geometry()
        return [RayScene(geometry).cast(Rays.of((0, 0, 0), directions, time=0.1)).range.tobytes() for _ in range(count)]

    together = in_threads(work)
    assert together == [work(number) for number in range(THREADS)]


if __name__ == "__main__":
    for _ in range(int(sys.argv[3])):
        {"scans": scans, "edits": edits, "casts": casts, "drops": drops}[sys.argv[1]](int(sys.argv[2]))
    print("done")
