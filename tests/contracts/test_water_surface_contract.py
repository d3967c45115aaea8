"""Waves under the rays: both engines, the same bits in any split, no kernel compiled twice, calm worlds as before."""

from __future__ import annotations

import dataclasses
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.motion.water import CalmWater, GerstnerWater, GerstnerWave, OceanWater, Water
from parhelion.rays import Rays, RayScene, ReferenceScene, SceneGeometry
from parhelion.rays.device import engine
from parhelion.sensors.sheets import PRESETS
from parhelion.world.labels import label_id
from rigs import sheet

CROSSING = GerstnerWater([GerstnerWave(0.2, 8.0, 20.0), GerstnerWave(0.08, 4.0, -60.0)])
LAKE = OceanWater(6.0, 3000.0, seed=2, depth_m=4.0, components=96)


WIDE = sheet(
    pattern={
        "kind": "raster", "rate_hz": 10,
        "azimuth_deg": (-40, 40), "elevation_deg": (-40, 10), "columns": 61, "rows": 31,
    },
    beam={"divergence_mrad": (3, 3), "sub_rays": 25},
    noise={"range_sigma_m": 0.01},
)  # fmt: skip


def basin(water: Water | None, *, width: float = 40.0, level: float = 0.0) -> ph.World:
    """A sheet of water 60 m long over a bed, a box that stands in it, and one that moves."""
    world = ph.World("basin")
    at = ph.Pose((0, 0, level))
    world.add(ph.shapes.plane(60, width), material="water", label="water", pose=at)
    world.add(ph.shapes.plane(80, 80), material="sand", label="terrain", pose=ph.Pose((0, 0, -3)))
    world.add(ph.shapes.box(2, 2, 4), material="steel", label="object", pose=ph.Pose((6, 2, 0)))
    motion = ph.ConstantTwist(ph.Pose((-8, 0, 0)), (1, 3, 0))
    world.add_actor(ph.shapes.box(3, 1, 2), material="car-paint-white", label="vessel", trajectory=motion)
    if water is not None:
        world.set_water(water)
    return world


def same_bits(a: ph.Scan, b: ph.Scan) -> bool:
    return all(
        np.array_equal(getattr(a, name), getattr(b, name)) for name in ("xyz", "intensity", "time", "label", "shot")
    )


def downward(seed: int, count: int) -> Rays:
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(count, 3))
    direction[:, 2] = -np.abs(direction[:, 2]) * 0.5
    origin = np.array([1.0, -2.0, 5.0]) + rng.uniform(-0.5, 0.5, (count, 3))
    return Rays.of(origin, direction, 3.0 + rng.uniform(0.0, 0.1, count))


@pytest.mark.parametrize("water", [CROSSING, LAKE], ids=["gerstner", "ocean"])
def test_both_engines_meet_the_same_waves(water: Water) -> None:
    world, rays = basin(water), downward(3, 150)
    scene = world.geometry()
    fast, slow = RayScene(scene).cast(rays), ReferenceScene(scene).cast(rays)
    assert np.array_equal(fast.found, slow.found)
    sure = fast.triangle == slow.triangle
    assert np.mean(sure) > 0.98  # a ray through an edge may be given to either face
    met = sure & slow.found
    # On a GPU the surface lies 4 km aside, where float32 has steps of 0.3 mm; slanting rays feel that more.
    off = np.abs(fast.range[met] - slow.range[met]) * np.abs(np.sum(slow.normal * rays.direction, axis=1))[met]
    assert off.max() < (5e-4 if engine().device == "cuda" else 1e-4)
    assert np.allclose(fast.normal[met], slow.normal[met], atol=2e-5)
    assert np.array_equal(fast.part[met], slow.part[met])
    assert np.array_equal(fast.actor[met], slow.actor[met])
    labels = {world.label_names[int(world.parts.label[part])] for part in fast.part[met]}
    assert {"water", "object", "terrain"} <= labels


def test_large_coordinates_lose_nothing() -> None:
    shift = np.array([4.2e5, -5.8e5, 30.0])
    world = ph.World()
    world.add(ph.shapes.plane(60, 40), material="water", label="water", pose=ph.Pose(shift))
    world.set_water(GerstnerWater(CROSSING.waves, level_m=30.0))
    rays = downward(4, 100)
    rays = Rays.of(rays.origin + shift, rays.direction, rays.time)
    fast, slow = RayScene(world.geometry()).cast(rays), ReferenceScene(world.geometry()).cast(rays)
    met = fast.found & slow.found & (fast.triangle == slow.triangle)
    assert np.mean(met) > 0.5
    assert np.allclose(fast.range[met], slow.range[met], atol=1e-3)


def test_same_bits_alone_together_and_again() -> None:
    """Scans at several times and places, some of which may share a launch and some not."""
    lidar = ph.Lidar(WIDE)
    poses = [ph.Pose((x, 0.5, 2.0), rpy_deg=(0, 10, 5)) for x in (0.5, 1.0, 14.0, 14.5, 0.5)]
    times = [0.0, 0.0, 0.0, 0.3, 0.3]
    together = lidar.scan_many(basin(LAKE), poses, time=times, seed=5)
    world = basin(LAKE)
    for row in (4, 2, 0, 1, 3):
        assert same_bits(together[row], lidar.scan(world, pose=poses[row], time=times[row], seed=5))
    split = [
        *lidar.scan_many(world, poses[:2], time=0.0, seed=5),
        *lidar.scan_many(world, poses[2:], time=times[2:], seed=5),
    ]
    assert all(same_bits(a, b) for a, b in zip(together, split, strict=True))
    assert not np.array_equal(together[0].xyz, lidar.scan(world, pose=poses[0], time=0.7, seed=5).xyz)


def test_no_kernel_is_compiled_while_the_waves_run() -> None:
    """Twenty frames from a moving place, across neighbourhoods: only known kernels run."""
    import drjit as dr

    world = basin(LAKE)
    lidar = ph.Lidar(WIDE)
    motion = ph.ConstantTwist(ph.Pose((-8, 0.5, 2.0), rpy_deg=(0, 20, 0)), (8, 0, 0))
    for k in range(3):
        lidar.scan(world, trajectory=motion, time=0.1 * k, seed=k)
    dr.set_flag(dr.JitFlag.KernelHistory, True)
    try:
        compiled = []
        for k in range(20):
            dr.kernel_history_clear()
            lidar.scan(world, trajectory=motion, time=0.1 * k, seed=100 + k)
            compiled += [
                e["hash"] for e in dr.kernel_history() if str(e["type"]).endswith("JIT") and not e["cache_hit"]
            ]
    finally:
        dr.set_flag(dr.JitFlag.KernelHistory, False)
    assert compiled == []


def test_calm_water_and_taking_waves_away_leave_the_world_as_it_was() -> None:
    lidar = ph.Lidar(WIDE)
    pose = ph.Pose((0, 0, 2), rpy_deg=(0, 30, 0))
    before = lidar.scan(basin(None), pose=pose, seed=1)
    assert same_bits(before, lidar.scan(basin(CalmWater(0.0)), pose=pose, seed=1))
    world = basin(CROSSING)
    assert not same_bits(before, lidar.scan(world, pose=pose, seed=1))
    world.set_water(None)
    assert same_bits(before, lidar.scan(world, pose=pose, seed=1))


def test_water_that_does_not_fit_is_reported() -> None:
    with pytest.raises(ConfigError, match="no static object has the label 'water'"):
        ph.World().set_water(CROSSING)
    with pytest.raises(ConfigError, match="within 1 m of the water level 5 m"):
        basin(None).set_water(GerstnerWater(CROSSING.waves, level_m=5.0))
    with pytest.raises(ConfigError, match="must be a Water"):
        basin(None).set_water("waves")
    world = ph.World()
    plane = ph.shapes.plane(4, 4)
    uv = np.zeros((len(plane.faces), 3, 2), np.float32)
    from parhelion.world.mesh import Mesh

    world.add(Mesh(plane.vertices, plane.faces, uv=uv), material="water", label="water", texture=np.ones((2, 2)))
    with pytest.raises(ConfigError, match="texture"):
        world.set_water(CROSSING)


SCENARIO: dict[str, Any] = {
    "duration_s": 0.45,
    "seed": 4,
    "world": {"name": "harbour", "params": {"people": 0, "trees": 0}},
    "water": {"kind": "gerstner", "waves": [{"amplitude_m": 0.15, "length_m": 6.0, "direction_deg": 30.0}]},
    "vehicles": [{"name": "boat", "model": "dlr/aurora"}],
    "sensors": [
        {"name": "down", "type": "lidar", "model": "hesai/xt32", "vehicle": "boat",
         "options": {"sub_rays": 1, "noise": False}, "mount": {"xyz": [0, 0, 2.0], "rpy_deg": [0, 75, 0]}},
    ],
    "report": False,
}  # fmt: skip


def test_a_scenario_shows_the_waves_that_its_vessel_rides(tmp_path: Path) -> None:
    """Points on the water lie on the surface that the vessel floats on, scan by scan; resumed runs give the same."""
    # Real lidars hardly see water; a receiver with full overlap close by does.
    sheet = tmp_path / "near.yaml"
    text = (PRESETS / "lidar" / "hesai" / "xt32.yaml").read_text(encoding="utf-8")
    near, count = re.subn(r"overlap: \[\[.*?\]\]\n", "overlap: 5.0\n", text, flags=re.DOTALL)
    assert count == 1
    sheet.write_text(near, encoding="utf-8")
    fields = {**SCENARIO, "sensors": [{**SCENARIO["sensors"][0], "model": str(sheet)}]}
    scenario = ph.Scenario.from_mapping(fields)
    water = scenario.water
    assert water is not None
    seen = [(number, scan) for step in scenario for number, scan in step.scans.get("down", [])]
    assert [number for number, _ in seen] == [0, 1, 2, 3]
    for number, scan in seen:
        on = scan.label == label_id("water")
        assert on.sum() > 100
        some = np.flatnonzero(on)[::20]
        points, times = scan.in_world().xyz[some], 0.1 * number + scan.time[some]
        height = np.array([float(water.height(x, y, t)) for (x, y, _), t in zip(points, times, strict=True)])
        assert np.ptp(height) > 0.05
        # Cells of 0.25 m, and 0.5 m from 3 to 9 m away: straight lines miss a crest by k^2 a d^2 / 8, 1 and 5 mm. To
        # that comes the sensor's range resolution of 4 mm.
        assert np.std(points[:, 2] - height) < 0.003
        assert np.max(np.abs(points[:, 2] - height)) < 0.012
    scenario.run(tmp_path / "whole", resume=True)
    clouds = {file.name: file.read_bytes() for file in sorted((tmp_path / "whole" / "down").iterdir())}
    for name in ("000001.pcd", "000003.pcd"):
        (tmp_path / "whole" / "down" / name).unlink()
    ph.Scenario.from_mapping(fields).run(tmp_path / "whole", resume=True)
    assert clouds == {file.name: file.read_bytes() for file in sorted((tmp_path / "whole" / "down").iterdir())}


def test_a_scenario_at_another_level_is_reported() -> None:
    water = {**SCENARIO["water"], "level_m": 7.0}
    with pytest.raises(ConfigError, match="scenario: water: world: no static object has the label"):
        ph.Scenario.from_mapping({**SCENARIO, "water": water})


def test_one_scene_for_all_gives_the_same_hits(monkeypatch: pytest.MonkeyPatch) -> None:
    """On a GPU a kernel may use one scene only, and waves lie aside in it: that way round, on whatever is here."""
    world, rays = basin(CROSSING), downward(3, 400)
    apart = RayScene(world.geometry()).cast(rays)
    joint = dataclasses.replace(engine(), device="cuda")
    monkeypatch.setattr("parhelion.rays.scene.engine", lambda: joint)
    for scene in (world.geometry(), SceneGeometry(world.geometry().static, [], world.geometry().surface)):
        together = RayScene(scene)
        assert together.surface is not None
        assert together.surface.scene is together.static
        hits = together.cast(rays)
        # Rays whose body is left out of the second scene meet what is behind it; rays at edges may take either side.
        same = (hits.part == apart.part) & np.isclose(hits.range, apart.range, atol=5e-3)
        assert np.mean(same[apart.found & (apart.actor < 0)]) > 0.98
        assert np.array_equal(hits.found, apart.found)
