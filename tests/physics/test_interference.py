"""False points by the pulses of other lidars of the same model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.core.constants import SPEED_OF_LIGHT_M_S
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.lidar.interference import (
    REFERENCE_KLX,
    acceptance_rad,
    blinded_sigma,
    coincidences,
    false_range_m,
    interferers_of,
    share_of_disc,
    sun_normal_klx,
)

FALSE, SUN = ORIGINS.index("interference"), ORIGINS.index("sunlight")


def test_range_of_light_that_arrives_late() -> None:
    """Light that arrives 1 us after the shot looks like an echo from 149.9 m."""
    assert false_range_m(2.0, 2.0 + 1e-6) == pytest.approx(149.896, abs=1e-3)


@pytest.mark.parametrize("salt", [1, 2])
def test_coincidences_by_brute_force(salt: int) -> None:
    rng = np.random.default_rng(salt)
    fired, arrived = np.sort(rng.random(300)), rng.random(400)
    look, source = (rng.normal(size=(n, 3)) for n in (300, 400))
    look, source = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (look, source))
    shot, arrival = coincidences(fired, look, arrived, source, gate_s=0.05, half_angle_rad=0.6)
    late = arrived - fired[:, None]
    there = (late >= 0.0) & (late < 0.05) & (look @ source.T > np.cos(0.6))
    assert sorted(zip(shot.tolist(), arrival.tolist(), strict=True)) == sorted(
        zip(*map(list, np.nonzero(there)), strict=True)
    )
    assert len(shot) > 50


def test_the_rate_of_random_pulses_follows_from_gate_and_angle() -> None:
    """Poisson: shots times rate times gate times the solid angle over 4 pi; within four standard deviations."""
    rng, gate, angle = np.random.default_rng(3), 1e-5, 0.1
    fired, arrived = np.sort(rng.random(20_000)), rng.random(300_000)
    look, source = (rng.normal(size=(n, 3)) for n in (len(fired), len(arrived)))
    look, source = (v / np.linalg.norm(v, axis=1, keepdims=True) for v in (look, source))
    shot, _ = coincidences(fired, look, arrived, source, gate_s=gate, half_angle_rad=angle)
    expected = len(fired) * len(arrived) * gate * 0.5 * (1.0 - np.cos(angle))
    assert abs(len(shot) - expected) < 4.0 * np.sqrt(expected)


def test_options_and_errors() -> None:
    assert interferers_of([]) == ()
    faulty = ph.Lidar("velodyne/vlp-16").with_faults(channels={"dead": [3]})
    assert faulty.faults is not None
    assert faulty.silent_twin().faults is None  # another unit
    assert acceptance_rad((1.0, 6.0)) == 3e-3
    for wrong, words in (({"xyz": [0, 0, 0]}, "expected a list"), ([{"xyz": [0, 0]}], r"interferers\[0\]")):
        with pytest.raises(ConfigError, match=words):
            ph.Lidar("velodyne/vlp-16", interferers=wrong)


def yard() -> ph.World:
    world = ph.World()
    for xyz, size in (((15, 0, 2), (0.2, 60, 20)), ((-15, 0, 2), (0.2, 60, 20)), ((0, 0, -0.1), (80, 80, 0.2))):
        world.add(ph.shapes.box(*size), material="white-paint", label="wall", pose=ph.Pose(xyz=xyz))
    return world


def scan(world: ph.World, others: Any, time: float = 0.0, **options: Any) -> ph.Scan:
    lidar = ph.Lidar("ouster/os1-32", columns=512, interferers=others, **options)
    return lidar.scan(world, pose=ph.Pose(xyz=(0, 0, 2)), time=time, seed=1)


@pytest.mark.slow
def test_false_points_by_timing() -> None:
    """A lidar in step, two metres aside, looks at the same spots: its light arrives at nearly the same time."""
    world = yard()
    clean = scan(world, ())
    none = scan(world, [{"xyz": [0, 2, 2], "offset_s": 0.1e-3}])
    # 32 beams at once every 0.2 ms, gates of 1.8 us: pulses that lag by half a period arrive when all gates are shut.
    np.testing.assert_array_equal(none.xyz, clean.xyz)
    assert FALSE not in clean.fields["origin"]
    lag = 40.0 / SPEED_OF_LIGHT_M_S
    far = scan(world, [{"xyz": [0, 0.05, 2], "offset_s": lag}])
    false = far.fields["origin"] == FALSE
    shots = far.fields["shot"][false]
    assert false.sum() > 0
    assert len(np.unique(shots)) == len(shots)
    assert np.all(far.fields["label"][false] == 0)
    assert np.all(far.fields["power"][false] >= 1.0)
    # A spot at range r of the other one appears at r + c lag / 2 = r + 20 m.
    true = clean.fields["range"][np.searchsorted(clean.fields["shot"], shots)]
    # On the ground, neighbouring rows see spots that are metres apart.
    assert np.mean(np.abs(far.fields["range"][false] - true - 20.0) < 0.3) > 0.98
    assert len(far) == int(far.shots.return_count.sum())
    again = scan(world, [{"xyz": [0, 0.05, 2], "offset_s": lag}])
    np.testing.assert_array_equal(again.xyz, far.xyz)


@pytest.mark.slow
def test_beams_that_meet_the_receiver() -> None:
    """A lidar that faces this one in step blinds the shots that look at it; a wall in between protects them."""
    world, lidar = ph.World(), ph.Lidar("velodyne/vlp-16")
    table, rise = lidar.shots(0.0), np.tan(np.radians(1.0))
    # The laser at +1 degree looks ahead, that at -1 degree of the other one back along the line, in step.
    ours, theirs = (int(np.argmax(table.direction @ [1.0, 0.0, side * rise])) for side in (1.0, -1.0))
    lag = float(table.time[ours]) - float(table.time[theirs])
    ahead, back = table.direction[ours].astype(float), table.direction[theirs].astype(float)
    turn = np.degrees(np.arctan2(ahead[1], ahead[0]) - np.arctan2(back[1], back[0]))
    place = np.array([0.0, 0.0, 2.0]) + 12.0 * ahead
    other = [{"xyz": place.tolist(), "yaw_deg": 180.0 + turn, "offset_s": lag}]

    def scan(world: ph.World, others: Any) -> ph.Scan:
        return ph.Lidar("velodyne/vlp-16", interferers=others).scan(world, pose=ph.Pose(xyz=(0, 0, 2)), seed=1)

    world.add(ph.shapes.box(1, 1, 1), material="concrete", label="box", pose=ph.Pose(xyz=(0, 30, 2)))
    seen = scan(world, other)
    false = seen.fields["origin"] == FALSE
    assert 1 <= false.sum() < 20
    # Light needs d / c, so the point appears at half the distance.
    np.testing.assert_allclose(seen.fields["range"][false], 6.0, atol=0.1)
    assert np.abs(seen.xyz[false, 1]).max() < 0.1
    world.add(ph.shapes.box(0.2, 4, 4), material="concrete", label="wall", pose=ph.Pose(xyz=(6, 0, 2)))
    hidden = scan(world, other)
    near = hidden.fields["origin"] == FALSE
    assert not np.any(near & (np.abs(hidden.fields["range"] - 6.0) < 0.1) & (hidden.fields["power"] > 1e5))


@pytest.mark.slow
def test_an_interferer_on_an_actor_moves_with_it() -> None:
    """At the time when the actor passes the place of a lidar at rest, both cause the same false points."""
    world = yard()
    drive = ph.ConstantTwist(ph.Pose(xyz=(0, -8, 1)), velocity=(0, 2, 0))
    world.add_actor(ph.shapes.box(0.01, 0.01, 0.01), trajectory=drive, material="steel", label="car", name="truck")
    lag = 40.0 / SPEED_OF_LIGHT_M_S
    there = scan(world, [{"xyz": [0, 0.05, 1], "actor": "truck", "offset_s": 4.0 + lag}], time=4.0)
    rest = scan(world, [{"xyz": [0, 0.05, 2], "offset_s": 4.0 + lag}], time=4.0)
    moving, still = (np.count_nonzero(one.fields["origin"] == FALSE) for one in (there, rest))
    assert still > 200
    # It moves by 0.2 m during the frame, so beams near the end of the frame no longer look at the same spots.
    assert 0.02 * still < moving < still
    early = scan(world, [{"xyz": [0, 0.05, 1], "actor": "truck", "offset_s": lag}])
    assert np.count_nonzero(early.fields["origin"] == FALSE) < 0.1 * moving + 10
    with pytest.raises(ConfigError, match="unknown interferers: actor 'lorry'"):
        scan(world, [{"xyz": [0, 0, 0], "actor": "lorry"}])


@pytest.mark.slow
def test_tensors_hold_the_false_points() -> None:
    world, others = yard(), [{"xyz": [0, 0.05, 2], "offset_s": 40.0 / SPEED_OF_LIGHT_M_S}]
    lidar = ph.Lidar("ouster/os1-32", columns=512, interferers=others)
    poses = [ph.Pose(xyz=(0, 0, 2))] * 2
    scans = lidar.scan_many(world, poses, seed=1)
    (batch,) = lidar.scan_tensors(world, poses, seed=1, fields=("xyz", "origin", "range"))
    assert np.count_nonzero(scans[0].fields["origin"] == FALSE) > 200
    assert batch.first.tolist() == [0, len(scans[0]), len(scans[0]) + len(scans[1])]
    np.testing.assert_array_equal(np.asarray(batch["origin"]), np.concatenate([one.fields["origin"] for one in scans]))
    np.testing.assert_array_equal(np.asarray(batch["xyz"]), np.concatenate([one.xyz for one in scans]))
    with pytest.raises(ConfigError, match="radial_velocity: this sensor does not report it"):
        lidar.scan_tensors(world, poses, fields=("radial_velocity",))


# ---- the sun in the field of view ------------------------------------------------------------------------------------


def test_share_of_the_disc_by_sampling() -> None:
    """Share of random points of a disc within a field of view, for fields smaller and larger than the disc."""
    rng, disc = np.random.default_rng(5), 4.65e-3
    radius, angle = disc * np.sqrt(rng.random(200_000)), 2 * np.pi * rng.random(200_000)
    x, y = radius * np.cos(angle), radius * np.sin(angle)
    for field in (2e-3, 6e-3):
        for offset in (0.0, 0.3 * field, disc, 0.9 * (disc + field), 1.1 * (disc + field)):
            inside = np.mean(np.hypot(x - offset, y) < field)
            found = float(share_of_disc(np.array([offset]), field, disc)[0])
            assert abs(found - inside) < 4.0 * 0.5 / np.sqrt(len(x)) + 1e-9


def test_the_sun_outshines_a_white_wall() -> None:
    """A field of 2 mrad: one 2 mrad^2-th of the steradian; half of the noise power is background at 100 klx."""
    config = ph.Lidar("velodyne/vlp-16").config
    rated = config.noise.background_klx or REFERENCE_KLX
    sigma = float(blinded_sigma(config, np.array([rated]), 2e-3)[0])
    assert sigma * config.receiver.threshold_to_noise == pytest.approx(np.sqrt(1.0 + 0.5 / 2e-3**2))
    assert sun_normal_klx(np.pi / 2) == pytest.approx(133.0 * 0.7)
    assert sun_normal_klx(0.0) == 0.0


@pytest.mark.slow
def test_shots_into_the_sun_report_points_at_random_ranges() -> None:
    sun = ph.Daylight(sun_elevation_deg=2.0, sun_azimuth_deg=90.0)  # towards x
    world = yard()
    world.daylight = sun
    pose = ph.Pose(xyz=(0, 0, 30))  # above the walls
    clean = ph.Lidar("ouster/os1-64").scan(world, pose=pose, seed=1)
    lidar = ph.Lidar("ouster/os1-64", sun_in_view=True)
    found = [one.select(one.fields["origin"] == SUN) for one in lidar.scan_many(world, [pose] * 40, seed=1)]
    count = [len(one) for one in found]
    toward = np.concatenate([lidar.shots().direction[one.fields["shot"]] for one in found]) @ world.daylight.sun()
    away = np.degrees(np.arccos(np.clip(toward, -1.0, 1.0)))
    assert away.max() < np.degrees(acceptance_rad(lidar.config.beam.divergence_mrad) + 4.65e-3) + 0.01
    # Beams 0.35 deg apart in azimuth and 0.53 in elevation, a circle of 0.38 deg around the sun: two or three shots.
    assert min(count) >= 1
    assert max(count) <= 4
    ranges = np.concatenate([one.range for one in found])
    limits = lidar.config.range
    # Uniform over the gate: the mean is within four standard errors of its middle.
    expected = 0.5 * (limits.min_m + limits.max_m)
    assert abs(ranges.mean() - expected) < 4.0 * (limits.max_m - limits.min_m) / np.sqrt(12 * len(ranges))
    again = lidar.scan(world, pose=pose, seed=1)
    blind = again.fields["origin"] == SUN
    others = ~np.isin(clean.fields["shot"], again.fields["shot"][blind])
    np.testing.assert_array_equal(again.xyz[~blind], clean.xyz[others])
    # A wall in front of the sun, the night, and coherent lidars: nothing happens.
    low = lidar.scan(world, pose=ph.Pose(xyz=(0, 0, 2)), seed=1)
    assert not np.any(low.fields["origin"] == SUN)
    world.daylight = ph.Daylight(sun_elevation_deg=-2.0, sun_azimuth_deg=90.0)
    np.testing.assert_array_equal(lidar.scan(world, pose=pose, seed=1).xyz, clean.xyz)
    world.daylight = None
    with pytest.raises(ConfigError, match="the world has no sun"):
        lidar.scan(world, pose=pose)
