"""Any number of threads may scan, edit and read; a lock serialises them, and the bits are those of one thread."""

from __future__ import annotations

import gc
import subprocess
import sys
import threading
import time
import weakref
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.rays.lock import DeviceOwned, EngineLock, engine_lock
from rigs import sheet, wall

RIG = Path(__file__).parents[1] / "threads_rigs.py"


def run(*arguments: object, timeout: float) -> None:
    """Run the rig in a separate process, because Dr.Jit aborts if two threads enter the engine."""
    done = subprocess.run(
        [sys.executable, str(RIG), *map(str, arguments)], capture_output=True, text=True, timeout=timeout
    )
    assert (done.returncode, done.stdout.strip()) == (0, "done"), done.stderr[-2000:]


@pytest.mark.slow
def test_a_hundred_scans_in_each_of_four_threads_three_times() -> None:
    """All scans have the same bits as those of one thread."""
    run("scans", 100, 3, timeout=400)


@pytest.mark.slow
def test_a_world_is_edited_while_others_scan_it() -> None:
    run("edits", 60, 1, timeout=120)


@pytest.mark.slow
def test_threads_build_and_drop_ray_scenes() -> None:
    run("casts", 40, 1, timeout=120)


def test_a_waiting_thread_runs_before_the_previous_owner() -> None:
    """A loop of scans must not starve an editor: without a queue it acquires the lock again before others wake up."""
    lock, order = EngineLock(), []
    waiting = threading.Event()

    def wait() -> None:
        waiting.set()
        with lock:
            order.append("waiter")

    other = threading.Thread(target=wait)
    with lock:
        other.start()
        waiting.wait(5.0)
        time.sleep(0.1)  # until it waits for the lock
    for _ in range(100):
        with lock:
            order.append("loop")
    other.join(5.0)
    assert order.index("waiter") == 0


def test_device_memory_is_freed_under_the_lock() -> None:
    freed: list[str] = []

    class Array:
        def __del__(self) -> None:
            freed.append("freed")

    class Holder(DeviceOwned):
        def __init__(self) -> None:
            self.array = Array()

    held: list[Any] = [Holder()]
    with engine_lock:
        other = threading.Thread(target=held.clear)
        other.start()
        other.join(5.0)
        assert not held
        assert not freed
    assert freed == ["freed"]
    held = [Holder()]
    held.clear()  # no thread uses the engine: immediately
    assert freed == ["freed"] * 2


@pytest.mark.parametrize("in_cycle", [False, True])
@pytest.mark.parametrize("busy", [False, True])
def test_memory_is_never_freed_without_the_lock(in_cycle: bool, busy: bool) -> None:
    """The holder survives briefly after releasing its memory, in a reference cycle until the collection is over."""
    freed: list[bool] = []

    class Holder(DeviceOwned):
        def __init__(self) -> None:
            # Like arrays of the engine, NumPy arrays are not tracked by the garbage collector.
            self.array = np.zeros(1)

    holder: Any = Holder()
    watch = weakref.ref(holder.array, lambda _: freed.append(engine_lock._owner == threading.get_ident()))
    held = [holder]
    del holder
    if in_cycle:
        held.append(held)

    def drop() -> None:
        nonlocal held
        held = []
        gc.collect()

    with engine_lock if busy else nullcontext():
        other = threading.Thread(target=drop)
        other.start()
        other.join(5.0)
        assert freed == ([] if busy else [True])
    assert freed == [True]
    assert watch() is None


@pytest.mark.slow
def test_threads_drop_worlds_that_another_has_scanned() -> None:
    run("drops", 60, 1, timeout=120)


def test_records_hold_no_memory_of_the_engine() -> None:
    def owner(array: Any) -> Any:
        while isinstance(array.base, np.ndarray):
            array = array.base
        return array.base

    lidar, world = ph.Lidar("ouster/os1-64", sub_rays=5), wall(10.0)
    scan = lidar.scan(world, pose=ph.Pose())
    wet = ph.Weather(rain=ph.Rain(rate_mm_h=20)).apply(scan, sensor=lidar)
    for cloud in (scan, wet):
        for array in (cloud.xyz, *cloud.fields.values()):
            assert owner(array) is None
    assert owner(scan.shots.near_ir) is None
    assert owner(scan.shots.return_count) is None
    assert owner(lidar.waveform(world, [0], pose=ph.Pose()).samples) is None


def test_exceptions_hold_no_arrays() -> None:
    class Lost:
        def sample(self, times: Any) -> Any:
            return np.full((len(times), 3), np.nan), np.tile([0.0, 0, 0, 1], (len(times), 1))

    with pytest.raises(ConfigError, match="not finite") as caught:
        ph.Lidar(sheet()).scan(wall(10.0), trajectory=Lost(), frame=1)  # type: ignore[arg-type]
    frames = [entry.frame for entry in caught.traceback]
    inside = [frame for frame in frames if frame.code.name == "_emit"]
    assert inside
    assert all(not frame.f_locals for frame in inside)
