"""Replayed kernels give the same bytes as kernels that are traced for every call, in any order of calls."""

from __future__ import annotations

import gc
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any
from weakref import ref

import numpy as np
import pytest

import parhelion as ph
from parhelion.rays import device
from parhelion.rays.device import engine
from parhelion.rays.replay import capacity
from parhelion.rays.scene import RayScene
from parhelion.sensors.check import same_bits
from parhelion.sensors.optics.lidar.config import LidarConfig
from rigs import sheet

_FOG = ph.Fog(visibility_m=300, heterogeneity=ph.Heterogeneity(scale_m=20.0))
_AIRS = (
    None,
    ph.Weather(rain_rate_mm_h=60.0, fog=_FOG),
    ph.Weather(rain_rate_mm_h=30.0, fog=_FOG),
    ph.Weather(dust=[ph.DustCloud(centre_m=(12, 0, 1), half_size_m=(6, 6, 4), density_kg_m3=2e-4)]),
)


@contextmanager
def without_replay() -> Iterator[None]:
    dr = engine().dr
    with dr.scoped_set_flag(dr.JitFlag.KernelFreezing, False):
        yield


def small_lidar(columns: int) -> LidarConfig:
    elevations = [-20.0, -8.0, -3.0, 0.0, 3.0, 10.0]
    pattern = {
        "kind": "spinning", "rate_hz": 10.0, "columns": columns, "direction": "clockwise",
        "channels": {"elevation_deg": elevations},
    }  # fmt: skip
    return sheet(pattern=pattern, beam={"divergence_mrad": [6.0, 3.0], "sub_rays": 25})


def glass_and_edges(seed: int) -> ph.World:
    """Boxes that occlude each other, a glass pane, a road at grazing incidence, and for odd seeds a moving car."""
    rng = np.random.default_rng(seed)
    world = ph.World(f"yard {seed}")
    world.add(ph.shapes.plane(200, 200), material="asphalt", label="road", pose=ph.Pose((0, 0, -1.8)))
    for _ in range(int(rng.integers(10, 60))):
        pose = ph.Pose((*rng.uniform(-30, 30, 2), 0.0), rpy_deg=(0, 0, rng.uniform(0, 90)))
        world.add(ph.shapes.box(*rng.uniform(0.3, 2, 3)), material="brick", label="building", pose=pose)
    world.add(ph.shapes.box(0.02, 12, 6), material="window", label="building", pose=ph.Pose((6, 0, 0)))
    if seed % 2:
        world.add_actor(
            ph.shapes.box(4, 2, 1.5), material="car-paint-red", label="car",
            trajectory=ph.ConstantTwist(ph.Pose((10, 5, -1)), (-12, 0, 0)),
        )  # fmt: skip
    return world


@dataclass(frozen=True)
class Request:
    lidar: int
    world: int
    weather: int
    places: tuple[tuple[float, float, float], ...]
    time: float
    seed: int

    @classmethod
    def any(cls, rng: np.random.Generator) -> Request:
        count = int(rng.choice([1, 1, 1, 2, 5]))
        places = tuple(tuple(rng.uniform(-3, 3, 3).tolist()) for _ in range(count))
        lidar, world, weather = (int(rng.integers(n)) for n in (4, 3, len(_AIRS)))
        return cls(lidar, world, weather, places, float(rng.uniform(0, 5)), int(rng.integers(1 << 30)))  # type: ignore[arg-type]


def answers(requests: list[Request]) -> list[ph.Scan]:
    few, many = small_lidar(90), small_lidar(150)
    lidars = [
        ph.Lidar(few), ph.Lidar(many), ph.Lidar(few, returns="dual"), ph.Lidar(many, returns="all", sampling="fixed"),
    ]  # fmt: skip
    worlds = [glass_and_edges(seed) for seed in range(3)]
    found = []
    for request in requests:
        world = worlds[request.world]
        world.weather = _AIRS[request.weather]
        poses = [ph.Pose(place) for place in request.places]
        found += lidars[request.lidar].scan_many(world, poses, time=request.time, seed=request.seed)
    return found


def test_recorded_and_traced_scans_are_the_same_in_any_order() -> None:
    rng = np.random.default_rng(1)
    requests = [Request.any(rng) for _ in range(60)]
    recorded = answers(requests)
    with without_replay():
        expected = answers(requests)
    assert len(recorded) == len(expected)
    assert sum(len(scan) for scan in expected) > 10_000
    for one, other in zip(recorded, expected, strict=True):
        assert same_bits(one, other)


def _doubled(values: Any, table: Any) -> Any:
    dr, mi = engine().dr, engine().mi
    return 2.0 * values + dr.gather(mi.Float, table, dr.arange(mi.UInt32, dr.width(values)) % 3)


def test_a_recording_adapts_to_the_length_of_its_arguments() -> None:
    recorded: Any = engine().frozen(_doubled)
    for count in (5, 700, 31, 5):
        values, table = np.arange(count, dtype=np.float32), np.array([10.0, 20.0, 30.0 + count], np.float32)
        found = recorded(engine().table(values), engine().table(table)).numpy()
        np.testing.assert_array_equal(found, 2.0 * values + table[np.arange(count) % 3])
    assert recorded.n_recordings == 1, "it was traced more than once"


def test_arrays_that_are_not_arguments_are_refused() -> None:
    dr, mi = engine().dr, engine().mi

    class Holder:
        values = mi.Float(np.arange(5, dtype=np.float32))

    def hidden(holder: Holder, index: Any) -> Any:
        return dr.gather(mi.Float, holder.values, index)

    with pytest.raises(RuntimeError):
        engine().frozen(hidden)(Holder(), mi.UInt32(np.arange(3, dtype=np.uint32)))


@contextmanager
def nothing_recorded_yet() -> Iterator[None]:
    known = dict(engine()._frozen)
    engine()._frozen.clear()
    try:
        yield
    finally:
        engine()._frozen.clear()
        engine()._frozen.update(known)


def count_traces(monkeypatch: pytest.MonkeyPatch) -> list[RayScene]:
    """Return a list that collects the scene of every cast that is traced in Python."""
    traced: list[RayScene] = []
    trace = RayScene.trace

    def counted(self: RayScene, *args: Any, **kwargs: Any) -> Any:
        traced.append(self)
        return trace(self, *args, **kwargs)

    monkeypatch.setattr(RayScene, "trace", counted)
    return traced


def test_casts_are_recorded_once_for_all_worlds_of_a_kind(monkeypatch: pytest.MonkeyPatch) -> None:
    traced, lidar = count_traces(monkeypatch), ph.Lidar(small_lidar(90))
    with nothing_recorded_yet():
        worlds = [glass_and_edges(0), glass_and_edges(1)]
        # Tables of moving bodies get other addresses with every scan, and some kernels depend on their alignment.
        for number in range(12):
            lidar.scan(worlds[number % 2], time=0.01 * number)
        assert len(traced) >= 8, "the first scans have nothing to replay"
        traced.clear()
        for number in range(12, 20):
            lidar.scan(worlds[number % 2], time=0.01 * number)
        assert len(traced) <= 4, "each of eight scans casts four times"
        fresh = []
        for _ in range(6):
            traced.clear()
            lidar.scan(glass_and_edges(0))
            fresh.append(len(traced))
        assert min(fresh) == 0, "a world of its kind was seen before"


def test_casts_that_cannot_be_recorded_are_traced(monkeypatch: pytest.MonkeyPatch) -> None:
    expected = [ph.Lidar(small_lidar(90)).scan(glass_and_edges(seed), time=0.5) for seed in range(2)]
    for module in ("scene", "moving"):
        monkeypatch.setattr(f"parhelion.rays.{module}.addresses", lambda engine, scene: ())
    traced = count_traces(monkeypatch)
    with nothing_recorded_yet():
        for seed in (0, 1, 0, 1):
            traced.clear()
            assert same_bits(ph.Lidar(small_lidar(90)).scan(glass_and_edges(seed), time=0.5), expected[seed])
            assert traced, "a recording has no addresses of the triangles"


def test_recordings_do_not_keep_a_world() -> None:
    world = glass_and_edges(1)
    lidar = ph.Lidar(small_lidar(90))
    lidar.scan(world)
    scene = ref(lidar._target(world).scene)
    assert scene() is not None
    del world
    gc.collect()
    assert scene() is None


def test_capacity_exceeds_many_rows_by_at_most_a_quarter() -> None:
    for rows in [*range(1, 5000, 7), 28_030, 147_700, 10_000_000]:
        assert rows <= capacity(rows) <= rows + max(1024, rows // 4)
    assert len({capacity(rows) for rows in range(2**14, 2**15)}) <= 8


def test_the_cache_of_index_arrays_is_bounded() -> None:
    running = engine()
    assert running.counting(1234) is running.counting(1234)
    np.testing.assert_array_equal(running.counting(5).numpy(), np.arange(5))
    for count in range(3_000_000, 3_000_005):
        running.counting(count)
    assert sum(running._counting) <= 8_000_000


_GARBAGE = """
import gc
import numpy as np
from parhelion.rays.device import engine

class Loop: pass

def recorded(values):
    gc.set_threshold(10, 1, 1)
    many = [[] for _ in range(2000)]  # new containers trigger a garbage collection
    return 2.0 * values + len(many)

def main():
    running = engine()
    gc.set_threshold(100_000, 100, 100)
    for _ in range(50):
        one = Loop()
        one.itself, one.table = one, running.table(np.zeros(5000, np.float32))
    print(running.frozen(recorded)(running.mi.Float([1.0, 2.0])).numpy(), gc.isenabled())

main()
"""


def test_garbage_is_not_collected_while_a_recording_is_made() -> None:
    """Dr.Jit crashes the process if a table that borrows NumPy's memory is freed during a recording."""
    found = subprocess.run([sys.executable, "-c", _GARBAGE], capture_output=True, text=True, timeout=120)
    assert found.returncode == 0, found.stderr
    assert found.stdout.split() == ["[2002.", "2004.]", "True"]


def test_garbage_collection_resumes_after_the_last_recording_of_all_threads() -> None:
    held = device._NoCollection()
    gc.enable()
    with held:
        with held:
            assert not gc.isenabled()
        assert not gc.isenabled()
    assert gc.isenabled()
    gc.disable()
    try:
        with held:
            pass
        assert not gc.isenabled(), "it was off before"
    finally:
        gc.enable()
