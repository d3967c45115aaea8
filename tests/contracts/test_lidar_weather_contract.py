"""The promises of scans in weather: clear air costs no bit, same seed same bits, batches, threads, no recompilation."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import FIELDS, ORIGINS
from parhelion.sensors.check import same_bits
from rigs import add_wall, sheet

BEAM = {"divergence_mrad": (3.0, 1.2), "exit_diameter_mm": 9.5, "sub_rays": 25}


def yard() -> ph.World:
    """Walls on three sides, an open one, asphalt below, and a box that moves."""
    world = ph.World("yard")
    world.add(ph.shapes.plane(120, 120), material="asphalt", label="road", pose=ph.Pose((0, 0, -1.8)))
    for turn in (0, 90, 180):
        pose = ph.Pose(rpy_deg=(0, 0, turn)) @ ph.Pose((25 + turn / 20, 0, 0))
        world.add(ph.shapes.box(1, 30, 8), material="brick", label="building", pose=pose)
    for k in range(5):
        world.add(ph.shapes.cylinder(0.1, 5), material="wood", label="pole", pose=ph.Pose((6.0 + k, 2.0 * k - 4, 0)))
    world.add_actor(
        ph.shapes.box(4, 2, 1.5), material="car-paint-red", label="car",
        trajectory=ph.ConstantTwist(ph.Pose((8, -5, -1)), (0, 8, 0)),
    )  # fmt: skip
    return world


def everything(**changes: Any) -> ph.Weather:
    """All kinds at once, heterogeneous where possible, with wind."""
    parts: dict[str, Any] = {
        "rain": ph.Rain(rate_mm_h=[[0, 10], [10, 40]], heterogeneity=ph.Heterogeneity(scale_m=60)),
        "fog": ph.Fog(visibility_m=[[0, 150], [10, 40]], heterogeneity=ph.Heterogeneity(scale_m=15)),
        "snow": ph.Snow(rate_mm_h=2, heterogeneity=ph.Heterogeneity(scale_m=50)),
        "dust": [
            ph.DustCloud(centre_m=(0, 12, 0), half_size_m=(4, 3, 2), density_kg_m3=3e-5, drifts=True),
            ph.DustTrail(path=[[0, -20, -14, -1.8], [10, 40, -14, -1.8]]),
        ],
        "wind_m_s": (4, 1, 0),
        "seed": 3,
    }
    return ph.Weather(**{**parts, **changes})


def small(returns: str = "dual", **options: Any) -> ph.Lidar:
    """A lidar of 16 x 180 beams all around, noise included."""
    pattern = {
        "kind": "raster", "rate_hz": 10, "azimuth_deg": (-180, 178), "elevation_deg": (-12, 12), "columns": 180,
        "rows": 16,
    }  # fmt: skip
    config = sheet(
        pattern=pattern, beam=BEAM, receiver={"returns": returns, "max_returns": 3}, noise={"range_sigma_m": 0.01}
    )
    return ph.Lidar(config, **options)


def scanned(weather: ph.Weather | None, lidar: ph.Lidar | None = None, **options: Any) -> ph.Scan:
    world = yard()
    world.weather = weather
    motion = ph.ConstantTwist(ph.Pose((-20, 0, 0)), (4, 0, 0), (0, 0, 0.05))
    return (lidar or small()).scan(world, **{"trajectory": motion, "time": 5.0, "seed": 7, **options})


def kinds(scan: ph.PointCloud) -> set[str]:
    return {ORIGINS[code] for code in np.unique(scan.fields["origin"])}


# ---- clear air -----------------------------------------------------------------------------------------------------

CLEAR = {
    "no weather set": ph.Weather(),
    "zero rates": ph.Weather(rain_rate_mm_h=0, snow_rate_mm_h=0),
    "zero at this time": ph.Weather(rain_rate_mm_h=[[5, 0], [9, 20]], snow_rate_mm_h=[[0, 3], [5, 0]]),
    "wind alone": ph.Weather(wind_m_s=(8, -3, 1), seed=9),
    "no rain with per-pulse variation": ph.Weather(rain=ph.Rain(rate_mm_h=0, model="vane")),
    "no rain in cells": ph.Weather(rain=ph.Rain(rate_mm_h=0, model="goodin2019", heterogeneity=ph.Heterogeneity())),
    "dust of no density": ph.Weather(
        dust=[ph.DustCloud(centre_m=(9, 0, 0), half_size_m=(3, 3, 3), density_kg_m3=0)]
    ),
    "dust to come": ph.Weather(dust=[ph.DustTrail(path=[[50, 0, 0, 0], [60, 100, 0, 0]])]),
}  # fmt: skip


@pytest.mark.parametrize("name", CLEAR)
def test_clear_air_changes_no_bit(name: str) -> None:
    lidar = small()
    clear, other = scanned(None, lidar), scanned(CLEAR[name], lidar)
    assert len(clear) > 1500
    assert same_bits(clear, other)
    assert np.array_equal(clear.shots.return_count, other.shots.return_count)
    assert kinds(clear) <= {"surface", "multipath", "noise"}


def test_weather_can_be_taken_away_again() -> None:
    world, lidar = yard(), small()
    before = lidar.scan(world, pose=ph.Pose(), seed=1)
    world.weather = everything()
    assert not same_bits(before, lidar.scan(world, pose=ph.Pose(), seed=1))
    world.weather = None
    assert same_bits(before, lidar.scan(world, pose=ph.Pose(), seed=1))


# ---- same seed, same bits ------------------------------------------------------------------------------------------


def test_same_seed_same_bits_with_everything_in_the_air() -> None:
    first, again = scanned(everything()), scanned(everything())
    assert kinds(first) >= {"surface", "rain", "fog", "snow", "dust"}
    assert same_bits(first, again)
    assert np.array_equal(first.shots.return_count, again.shots.return_count)
    assert not same_bits(first, scanned(everything(), seed=8))
    assert not same_bits(first, scanned(everything(), frame=1))
    assert not same_bits(first, scanned(everything(seed=4)))  # eddies and dust elsewhere
    assert not same_bits(first, scanned(everything(wind_m_s=(0, 0, 0))))


def test_what_was_scanned_before_leaves_no_trace() -> None:
    """Tables are kept from scan to scan: they must be those that a new sensor makes."""
    weather = ph.Weather(
        rain_rate_mm_h=30,
        fog=ph.Fog(visibility_m=[[0, 100.0], [100, 100.001]], heterogeneity=ph.Heterogeneity(scale_m=15)),
    )
    used = small()
    scanned(weather, used, time=4.0)
    assert same_bits(scanned(weather, used, time=5.0), scanned(weather, small(), time=5.0))


def test_same_bits_alone_in_one_batch_and_in_split_batches() -> None:
    world, lidar = yard(), small()
    world.weather = everything()
    poses = [ph.Pose((x, -0.5 * x, 0), rpy_deg=(0, 0, 25 * x)) for x in range(4)]
    alone = [lidar.scan(world, pose=pose, time=2.0, seed=7) for pose in poses]
    together = lidar.scan_many(world, poses, time=2.0, seed=7)
    split = lidar.scan_many(world, poses[:1], time=2.0, seed=7) + lidar.scan_many(world, poses[1:], time=2.0, seed=7)
    for a, b, c in zip(alone, together, split, strict=True):
        assert same_bits(a, b)
        assert same_bits(a, c)
        assert np.array_equal(a.shots.return_count, b.shots.return_count)


@pytest.mark.parametrize("moving", [True, False])
def test_batches_of_other_times_are_the_same_too(moving: bool) -> None:
    lidar, times = small(), [0.5, 1.0, 1.0, 3.5]
    world = yard() if moving else ph.World()
    add_wall(world, 40.0, "lambert-50")
    world.weather = everything() if moving else everything(dust=[])
    together = lidar.scan_many(world, [ph.Pose()] * 4, time=times, seed=3, frames=range(4))
    for frame, (time, scan) in enumerate(zip(times, together, strict=True)):
        assert same_bits(scan, lidar.scan(world, pose=ph.Pose(), time=time, seed=3, frame=frame))
    assert not same_bits(together[0], together[1])


SCRIPT = """
import hashlib, sys
sys.path.insert(0, {folder!r})
from test_lidar_weather_contract import everything, scanned
scan = scanned(everything())
digest = hashlib.sha256(scan.xyz.tobytes())
for name in sorted(scan.fields):
    digest.update(scan.fields[name].tobytes())
print(digest.hexdigest(), len(scan))
"""


def digest_in_process(threads: int) -> str:
    here = os.path.dirname(__file__)
    path = os.pathsep.join([os.path.dirname(here), os.environ.get("PYTHONPATH", "")])
    environment = {**os.environ, "PARHELION_THREADS": str(threads), "PYTHONPATH": path}
    script = SCRIPT.format(folder=here)
    done = subprocess.run([sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_same_bytes_with_one_and_two_threads_in_different_processes() -> None:
    one, two = digest_in_process(1), digest_in_process(2)
    assert int(one.split()[1]) > 3000
    assert one == two


# ---- kernels -------------------------------------------------------------------------------------------------------


def compiled(frames: int, run: Any) -> list[list[Any]]:
    """The kernels that each frame ran, after two that were not watched."""
    import drjit as dr

    for k in range(2):
        run(k)
    dr.set_flag(dr.JitFlag.KernelHistory, True)
    try:
        history = []
        for k in range(2, 2 + frames):
            dr.kernel_history_clear()
            run(k)
            history.append([entry for entry in dr.kernel_history() if str(entry["type"]).endswith("JIT")])
    finally:
        dr.set_flag(dr.JitFlag.KernelHistory, False)
    return history


@pytest.mark.parametrize("model", ["mie", "vane", "goodin2019"])
def test_no_kernel_is_compiled_after_the_first_frames(model: str) -> None:
    """Ten frames with the wind blowing, rates and visibility changing, the sensor and an actor moving."""
    world, lidar = yard(), small()
    world.weather = everything(
        rain=ph.Rain(rate_mm_h=[[0, 10], [10, 40]], model=model, heterogeneity=ph.Heterogeneity(scale_m=60))
    )
    motion = ph.ConstantTwist(ph.Pose(), (6, 0, 0))
    frames = compiled(10, lambda k: lidar.scan(world, trajectory=motion, time=1.0 + 0.4 * k, seed=k))
    assert all(len(frame) >= 8 for frame in frames)
    assert [entry["hash"] for frame in frames for entry in frame if not entry["cache_hit"]] == []
    # Not even a known kernel in another form: every frame runs the same ones.
    assert len({tuple(sorted(entry["hash"] for entry in frame)) for frame in frames}) == 1


def test_no_kernel_is_compiled_in_even_weather_that_changes() -> None:
    world, lidar = yard(), small()
    world.weather = ph.Weather(rain_rate_mm_h=[[0, 5], [10, 60]], visibility_m=[[0, 150], [10, 60]])
    frames = compiled(6, lambda k: lidar.scan(world, pose=ph.Pose((0.1 * k, 0, 0)), time=k, seed=k))
    assert [entry["hash"] for frame in frames for entry in frame if not entry["cache_hit"]] == []
    assert len({tuple(sorted(entry["hash"] for entry in frame)) for frame in frames}) == 1


# ---- records -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("returns", ["first", "strongest", "last", "dual", "all"])
@pytest.mark.parametrize("sampling", ["adaptive", "fixed"])
def test_points_of_the_air_are_records_like_others(returns: str, sampling: str) -> None:
    thin_fog = ph.Fog(visibility_m=5000, heterogeneity=ph.Heterogeneity(scale_m=15))
    scan = scanned(everything(fog=thin_fog), small(returns, sampling=sampling))
    for name, values in scan.fields.items():
        assert values.dtype == np.dtype(FIELDS[name].dtype), name
        assert len(values) == len(scan)
        assert np.all(np.isfinite(values.astype(float)))
    air = (scan.origin >= 1) & (scan.origin <= 4)
    assert air.any()
    assert not air.all()
    assert {scan.names["material"][code] for code in np.unique(scan.material[air])} == {"none"}
    for name in ("label", "instance"):
        assert np.all(scan.fields[name][air] == 0), name
    assert np.all(scan.velocity[air] == 0)
    assert np.all(scan.instance[(scan.origin == 0)] > 0)
    assert scan.names["origin"] == dict(enumerate(ORIGINS))
    # Along the shot and at the range of their fields.
    along = scan.shots.origin[scan.shot] + scan.range[:, None] * scan.shots.direction[scan.shot]
    assert np.max(np.abs(scan.xyz - along)) < 1e-3
    assert np.array_equal(np.bincount(scan.shot, minlength=len(scan.shots)), scan.shots.return_count)
    assert np.array_equal(scan.return_count, scan.shots.return_count[scan.shot])
    assert np.all(scan.power > 0)


def test_an_empty_world_in_weather_holds_points_of_the_air_alone() -> None:
    world, lidar = ph.World(), small()
    world.weather = everything()
    scan = lidar.scan(world, pose=ph.Pose(), seed=1)
    assert len(scan) > 100
    assert kinds(scan) <= {"rain", "fog", "snow", "dust"}
    world.weather = ph.Weather(visibility_m=20_000)
    assert len(lidar.scan(world, pose=ph.Pose(), seed=1)) == 0


@pytest.mark.parametrize("preset", ["velodyne/vlp-16", "ouster/os1-32", "livox/mid-360", "hesai/pandar64"])
def test_presets_scan_in_everything(preset: str) -> None:
    scan = scanned(everything(), ph.Lidar(preset, sub_rays=5))
    # An OS1 collects so little close by that it hardly sees a drop.
    assert kinds(scan) >= {"surface", "snow", "fog"}
    assert np.all(np.isfinite(scan.xyz))
    assert same_bits(scan, scanned(everything(), ph.Lidar(preset, sub_rays=5)))
