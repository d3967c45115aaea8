"""Echoes, mixed pixels, return modes, ghosts and waveforms."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.weather.volume_echo import pulse_shape
from rigs import add_wall, one_beam, sheet, wall

WIDE = {"divergence_mrad": (20, 20), "sub_rays": 100}


def stairs(near: float = 10.0, far: float = 10.6, *, cover: float = 0.0) -> ph.World:
    """A wall with a half wall before it, whose edge stands at y = `cover`: it covers y > cover."""
    world = wall(far)
    add_wall(world, near, "lambert-50", size=50.0, y=25.0 + cover)
    return world


@pytest.mark.parametrize("sampling", ["fixed", "adaptive"])
def test_divergence_makes_points_between_two_surfaces(sampling: str) -> None:
    pattern = {
        "kind": "raster", "rate_hz": 10, "azimuth_deg": (-3, 3), "elevation_deg": (0, 0), "columns": 301, "rows": 1,
    }  # fmt: skip
    wide = ph.Lidar(sheet(pattern=pattern, beam=WIDE), noise=False, sampling=sampling).scan(stairs(), pose=ph.Pose())
    between = (wide.xyz[:, 0] > 10.02) & (wide.xyz[:, 0] < 10.58)
    assert between.sum() > 20
    # Their range moves evenly from one surface to the other as the beam crosses the edge.
    order = np.argsort(wide.xyz[:, 1])
    assert np.all(np.diff(wide.xyz[order, 0]) < 0.03)
    thin = ph.Lidar(sheet(pattern=pattern), noise=False).scan(stairs(), pose=ph.Pose())
    assert len(thin) == 301
    assert np.all((thin.xyz[:, 0] < 10.001) | (thin.xyz[:, 0] > 10.599))


def test_mixed_range_is_the_power_weighted_mean() -> None:
    scan = ph.Lidar(one_beam(beam=WIDE), noise=False, sampling="fixed").scan(stairs(10.0, 10.5), pose=ph.Pose())
    p_near, p_far = 1 / 10.0**2, 1 / 10.5**2
    assert scan.return_count[0] == 1
    assert scan.range[0] == pytest.approx((p_near * 10 + p_far * 10.5) / (p_near + p_far), abs=0.03)


def test_echoes_farther_apart_than_the_merge_distance_are_separate() -> None:
    config = one_beam(beam=WIDE, receiver={"returns": "all", "max_returns": 4, "merge_distance_m": 1.0})
    scan = ph.Lidar(config, noise=False).scan(stairs(10.0, 14.0), pose=ph.Pose())
    assert scan.range == pytest.approx([10.0, 14.0], abs=0.01)
    assert scan.return_index.tolist() == [0, 1]
    assert scan.return_count.tolist() == [2, 2]
    assert scan.power == pytest.approx(0.5 * (5 / 9) * (100 / np.array([10.0, 14.0])) ** 2, rel=0.1)


def mode(returns: str, world: ph.World, **receiver: object) -> list[float]:
    config = one_beam(beam=WIDE, receiver={"returns": returns, "merge_distance_m": 1.0, **receiver})
    scan = ph.Lidar(config, noise=False, bounces=0).scan(world, pose=ph.Pose())
    return np.round(scan.range, 1).tolist()


def three_walls() -> ph.World:
    """Near: dark and a third of the beam; middle: bright and a third; far: bright and a third."""
    world = wall(40.0, "lambert-90")
    add_wall(world, 20.0, "lambert-90", y=25.0 - 0.06)
    add_wall(world, 10.0, "lambert-5", y=25.0 + 0.03)
    return world


def test_return_modes_choose_differently() -> None:
    world = three_walls()
    assert mode("first", world) == [10.0]
    assert mode("strongest", world) == [20.0]
    assert mode("last", world) == [40.0]
    assert mode("dual", world) == [20.0, 40.0]
    assert mode("all", world, max_returns=2) == [10.0, 20.0]
    assert mode("all", world, max_returns=5) == [10.0, 20.0, 40.0]


def test_dual_gives_the_second_strongest_where_the_strongest_is_last() -> None:
    world = wall(14.0, "lambert-90")
    add_wall(world, 10.0, "lambert-5", y=25.0 + 0.05)
    assert mode("last", world) == mode("strongest", world) == [14.0]
    assert mode("dual", world) == [10.0, 14.0]
    assert mode("dual", wall(14.0)) == [14.0]


def test_dead_time_hides_what_follows() -> None:
    world = stairs(10.0, 14.0)
    assert mode("all", world, max_returns=4, dead_time_ns=10) == [10.0, 14.0]
    assert mode("all", world, max_returns=4, dead_time_ns=40) == [10.0]


def test_lost_shots_are_kept_with_direction_time_and_ring() -> None:
    scan = ph.Lidar("velodyne/vlp-16", sub_rays=1, noise=False).scan(wall(20.0, size=5.0), pose=ph.Pose())
    assert 0 < len(scan) < len(scan.shots)
    assert scan.lost.sum() == len(scan.shots) - len(scan)
    assert np.allclose(np.linalg.norm(scan.shots.direction, axis=1), 1, atol=1e-6)
    everything = scan.with_lost_shots()
    assert len(everything) == len(scan.shots)
    assert np.isnan(everything.xyz).any(axis=1).sum() == scan.lost.sum()
    assert sorted(everything.shot.tolist()) == list(range(len(scan.shots)))


def test_nearer_than_the_least_range_blocks_and_is_not_seen() -> None:
    config = one_beam(range={"min_m": 5.0, "max_m": 100, "rated": [{"reflectance": 0.9, "range_m": 100}]})
    world = wall(20.0)
    add_wall(world, 3.0, "lambert-50", size=1.0)
    assert len(ph.Lidar(config, noise=False).scan(world, pose=ph.Pose())) == 0


def test_range_gate() -> None:
    config = one_beam(range={"min_m": 0.5, "max_m": 15, "rated": [{"reflectance": 0.9, "range_m": 100}]})
    lidar = ph.Lidar(config, noise=False)
    assert len(lidar.scan(wall(14.9), pose=ph.Pose())) == 1
    assert len(lidar.scan(wall(15.1), pose=ph.Pose())) == 0


def test_range_steps() -> None:
    limits = {"min_m": 0.5, "max_m": 150, "rated": [{"reflectance": 0.9, "range_m": 100}], "resolution_m": 0.004}
    scan = ph.Lidar(sheet(range=limits), noise=False).scan(wall(20.0), pose=ph.Pose())
    steps = scan.range.astype(float) / 0.004
    assert np.allclose(steps, np.round(steps), atol=2e-3)


def test_saturation_caps_retro_reflectors() -> None:
    bright = ph.Lidar(one_beam(), noise=False).scan(wall(20.0, "retro-sheeting"), pose=ph.Pose())
    capped = ph.Lidar(one_beam(receiver={"saturation": 50.0}), noise=False).scan(
        wall(20.0, "retro-sheeting"), pose=ph.Pose()
    )
    assert bright.power[0] > 500
    assert capped.power[0] == pytest.approx(50.0)


def mirror_room() -> ph.World:
    """A mirror 10 m ahead at 45 degrees, which shows a board 6 m to its left."""
    world = ph.World()
    add_wall(world, 10.0, "mirror", size=4.0, turn_deg=45.0)
    world.add(ph.shapes.box(4, 0.1, 4), material="lambert-80", label="board", pose=ph.Pose((10, -6, 0)))
    world.add(ph.shapes.box(4, 0.1, 4), material="lambert-80", label="board", pose=ph.Pose((10, 6, 0)))
    return world


def test_mirror_shows_a_ghost_at_the_folded_range() -> None:
    scan = ph.Lidar(one_beam(), noise=False).scan(mirror_room(), pose=ph.Pose())
    assert len(scan) == 1
    assert scan.range[0] == pytest.approx(10 + 6 - 0.05, abs=0.01)
    assert ORIGINS[scan.origin[0]] == "multipath"
    assert scan.names["label"][scan.label[0]] == "board"
    # The ghost lies where the sensor believes it: straight ahead, behind the mirror.
    assert scan.xyz[0] == pytest.approx([15.95, 0, 0], abs=0.01)
    assert len(ph.Lidar(one_beam(), noise=False, bounces=0).scan(mirror_room(), pose=ph.Pose())) == 0


def test_mirror_keeps_the_square_of_its_reflectance() -> None:
    from parhelion.surfaces.library import material

    scan = ph.Lidar(one_beam(), noise=False).scan(mirror_room(), pose=ph.Pose())
    r = 10 + 6 - 0.05
    reflectance = material("mirror").specular.reflectance
    assert scan.power[0] == pytest.approx(reflectance**2 * (0.8 / 0.9) * (100 / r) ** 2, rel=1e-3)


def test_glass_shows_what_lies_behind_at_its_true_range() -> None:
    world = wall(12.0, "lambert-80")
    add_wall(world, 8.0, "glass", size=4.0)
    behind = ph.Lidar(one_beam(), noise=False, returns="last").scan(world, pose=ph.Pose())
    open_air = ph.Lidar(one_beam(), noise=False, returns="last").scan(wall(12.0, "lambert-80"), pose=ph.Pose())
    assert behind.range[0] == pytest.approx(12.0, abs=1e-3)
    assert ORIGINS[behind.origin[0]] == "surface"
    from parhelion.surfaces.library import material
    from parhelion.surfaces.material import material_table, specular_split

    columns = material_table([material("glass")], 905.0)
    _, transmitted = specular_split(np.array([1.0]), columns)
    assert behind.power[0] / open_air.power[0] == pytest.approx(float(transmitted[0]) ** 2, rel=1e-3)


def test_oblique_water_gives_a_mirror_image_or_nothing() -> None:
    world = ph.World()
    world.add(ph.shapes.plane(200, 200), material="water", label="water")
    world.add(ph.shapes.box(0.2, 20, 20), material="lambert-90", label="quay", pose=ph.Pose((15, 0, 10)))
    lidar = ph.Lidar(one_beam(), noise=False)
    glancing = ph.Pose((0, 0, 1.0), rpy_deg=(0, 6, 0))  # meets the water at 9.5 m, 84 degrees from its normal
    ghost = lidar.scan(world, pose=glancing)
    assert ORIGINS[ghost.origin[0]] == "multipath"
    assert ghost.range[0] == pytest.approx(14.9 / np.cos(np.radians(6)), abs=0.01)
    steep = ph.Pose((0, 0, 1.0), rpy_deg=(0, 45, 0))
    assert len(lidar.scan(world, pose=steep)) == 0 or lidar.scan(world, pose=steep).power[0] < 100


def test_path_length_is_bounded_between_two_mirrors() -> None:
    world = ph.World()
    add_wall(world, 5.0, "mirror", size=4.0)
    add_wall(world, -5.0, "mirror", size=4.0)
    for bounces in (0, 1, 2, 5):
        ph.Lidar(one_beam(), noise=False, bounces=bounces).scan(world, pose=ph.Pose((0, 0.3, 0.2)))


def test_waveform_has_the_echoes_where_and_as_high_as_they_are() -> None:
    config = one_beam(beam=WIDE, receiver={"pulse_length_ns": 5.0})
    wave = ph.Lidar(config, noise=False).waveform(stairs(10.0, 14.0), [0], pose=ph.Pose(), bin_size_m=0.01)
    assert wave.samples.shape[0] == 1
    peaks = [wave.ranges[np.argmax(np.where(np.abs(wave.ranges - r) < 1.5, wave.samples[0], 0))] for r in (10, 14)]
    assert peaks == pytest.approx([10, 14], abs=0.02)
    length = 299_792_458.0 * 5e-9
    assert np.all(wave.samples[0][(wave.ranges > 10 + length) & (wave.ranges < 14 - length)] == 0)
    returns = ph.Lidar(config, noise=False, returns="all", max_returns=4).scan(stairs(10.0, 14.0), pose=ph.Pose())
    heights = [wave.samples[0][np.abs(wave.ranges - r) < 1.5].max() for r in (10, 14)]
    assert heights == pytest.approx(returns.power.tolist(), rel=0.02)


def test_pulse_energy_and_half_width() -> None:
    x = np.linspace(-2, 2, 40001)
    p = pulse_shape(x, length_m=1.5)
    assert p.max() == pytest.approx(1.0)
    # Energy of sin^2 over its length is half of peak times length: P_0 tau_H with tau_H = L / c.
    assert p.sum() * (x[1] - x[0]) == pytest.approx(0.75, rel=1e-4)
    half = x[p >= 0.5]
    assert half[-1] - half[0] == pytest.approx(0.75, abs=1e-3)


def test_waveform_noise_floor_is_as_stated() -> None:
    lidar = ph.Lidar(one_beam(receiver={"threshold_to_noise": 8.0}))
    wave = lidar.waveform(wall(50.0), [0], pose=ph.Pose(), bin_size_m=0.01, range_m=(100, 200), seed=3)
    assert wave.noise_floor == pytest.approx(1 / 8)
    assert wave.samples.std() == pytest.approx(1 / 8, rel=0.03)
    assert abs(wave.samples.mean()) < 4 * wave.noise_floor / np.sqrt(wave.samples.size)


def test_ouster_reports_the_ambient_light_of_what_it_hit() -> None:
    world = wall(10.0, "lambert-80", size=2.0)
    add_wall(world, 15.0, "lambert-20", size=100.0)
    scan = ph.Lidar("ouster/os1-32", sub_rays=1, noise=False, sun_klx=50.0).scan(world, pose=ph.Pose())
    near = scan.range < 12
    assert near.any()
    assert np.allclose(scan.near_ir[near], 10 * 50 * 0.8)
    assert np.allclose(scan.near_ir[~near], 10 * 50 * 0.2)
    dark = ph.Lidar("ouster/os1-32", sub_rays=1, noise=False, sun_klx=0.0).scan(world, pose=ph.Pose())
    assert np.all(dark.near_ir == 0)
    assert "near_ir" not in ph.Lidar("velodyne/vlp-16", sub_rays=1).scan(world, pose=ph.Pose()).fields
