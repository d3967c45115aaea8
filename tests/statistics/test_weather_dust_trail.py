"""Trails of dust: budgets, distributions and random access, with fixed seeds; limits at 99.9 % confidence or beyond."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist, Waypoints
from parhelion.weather.dust import KG_PER_M_FROM_LB_PER_MILE
from parhelion.weather.dust_plume import DustPlume, Particles

DRIVE = DustPlume(ConstantTwist(Pose(), velocity=(10.0, 0.0, 0.0)), 0.0, 30.0, seed=5)
"""30 s at 10 m/s along x."""


def same(a: Particles, b: Particles) -> bool:
    fields = ("xyz", "velocity", "age", "mass_kg", "settled")
    return all(np.array_equal(getattr(a, field), getattr(b, field)) for field in fields)


@pytest.mark.parametrize(("time", "count"), [(-1.0, 0), (0.0, 0), (4.0, 2000), (20.0, 5000), (35.0, 2500), (40.0, 0)])
def test_a_drive_has_the_parcels_of_the_last_ten_seconds(time: float, count: int) -> None:
    dust = DRIVE.particles(time)
    assert len(dust) == count
    assert dust.mass_kg.sum() == pytest.approx(6.506 * 2.81849e-4 * 10.0 * count / 500.0, rel=1e-4)
    assert np.all((dust.age >= 0.0) & (dust.age < 10.0))
    assert np.all(np.diff(dust.age) < 0.0)
    assert np.all(dust.xyz[:, 2] >= 0.0)


def test_mass_is_what_was_emitted_in_the_living_window() -> None:
    # Speeds up, stands for a while, drives on: all the way driven within the window counts, and nothing else.
    path = Waypoints([0.0, 4.0, 7.0, 12.0], [Pose((0, 0, 0)), Pose((30, 0, 0)), Pose((30, 0, 0)), Pose((30, 25, 0))])
    trail = DustPlume(path, 0.0, 12.0, parcels_per_s=200.0)
    per_metre = trail.emission_factor * KG_PER_M_FROM_LB_PER_MILE
    for time, metres in ((4.0, 30.0), (6.5, 30.0), (9.0, 40.0), (12.0, 15.0 + 25.0), (15.0, 25.0), (30.0, 0.0)):
        assert trail.particles(time).mass_kg.sum() == pytest.approx(per_metre * metres, rel=1e-9, abs=1e-15)
    assert len(trail.particles(6.5)) == 800  # none while it stands


def test_a_last_interval_that_is_cut_short_counts_in_part() -> None:
    trail = replace(DRIVE, end_s=1.05, parcels_per_s=10.0)
    dust = trail.particles(2.0)
    per_metre = trail.emission_factor * KG_PER_M_FROM_LB_PER_MILE
    np.testing.assert_allclose(dust.mass_kg, per_metre * np.array([1.0] * 10 + [0.5]), rtol=1e-9)
    assert len(replace(trail, end_s=0.3).particles(1.0)) == 3  # 0.3 * 10 is a little more than 3 in floats


def test_a_trail_without_an_end_is_the_same_trail() -> None:
    assert same(replace(DRIVE, end_s=np.inf).particles(20.0), DRIVE.particles(20.0))
    assert len(replace(DRIVE, end_s=np.inf).particles(1e5)) == 5000


def test_same_seed_same_bits_other_seed_others() -> None:
    assert same(DRIVE.particles(12.3), replace(DRIVE).particles(12.3))
    for other in (replace(DRIVE, seed=6), replace(DRIVE, name="second truck")):
        a, b = DRIVE.particles(12.3), other.particles(12.3)
        assert np.array_equal(a.age, b.age)
        assert np.array_equal(a.mass_kg, b.mass_kg)
        assert not np.any(a.xyz[:, 0] == b.xyz[:, 0])
        flown = a.velocity[~(a.settled | b.settled)], b.velocity[~(a.settled | b.settled)]
        assert abs(stats.pearsonr(flown[0][:, 1], flown[1][:, 1]).statistic) < 4 / np.sqrt(len(flown[0]))


def test_any_time_may_be_asked_for_in_any_order() -> None:
    alone = replace(DRIVE).particles(7.0)
    trail = replace(DRIVE)
    trail.particles(3.0)
    trail.grid(25.0)
    assert same(trail.particles(7.0), alone)


def test_a_parcel_keeps_its_identity_over_time() -> None:
    trail = replace(DRIVE, drag_per_m=0.0, gravity_m_s2=0.0)
    early, late = trail.particles(3.0), trail.particles(4.25)
    both = slice(0, len(early))
    np.testing.assert_array_equal(late.velocity[both], early.velocity)
    np.testing.assert_allclose(late.xyz[both], early.xyz + 1.25 * early.velocity, atol=1e-9)


def test_dust_is_born_evenly_in_spheres_behind_the_wheels() -> None:
    # So slow that parcels stay where they are born; facing along -y.
    slow = ConstantTwist(Pose((5.0, 7.0, 2.0), rpy_deg=(0, 0, -90)), velocity=(0.0, -1e-9, 0.0))
    trail = DustPlume(slow, 0.0, 10.0, gravity_m_s2=0.0, parcels_per_s=2000.0, width_m=2.4, length_m=6.0, seed=3)
    xyz = trail.particles(10.0).xyz
    offset = xyz - [5.0, 7.0 + 3.0, 0.0]
    wheel = np.array([1.2, 0.0, 0.0])
    left = np.linalg.norm(offset - wheel, axis=1) <= 1.2 + 1e-6
    right = np.linalg.norm(offset + wheel, axis=1) <= 1.2 + 1e-6
    assert np.all(left ^ right)
    assert stats.binomtest(int(left.sum()), len(xyz)).pvalue > 1e-3
    from_wheel = offset - np.where(left, 1.0, -1.0)[:, None] * wheel
    radius = np.linalg.norm(from_wheel, axis=1)
    assert stats.kstest((radius / 1.2) ** 3, "uniform").pvalue > 1e-3
    assert stats.kstest(from_wheel[:, 2] / radius, "uniform").pvalue > 1e-3  # the upper half only
    turn = np.arctan2(from_wheel[:, 1], from_wheel[:, 0])
    assert stats.kstest(turn / (2 * np.pi) + 0.5, "uniform").pvalue > 1e-3


def test_first_velocity_is_vanes() -> None:
    drive = ConstantTwist(Pose(), velocity=(6.0, -8.0, 0.0))
    trail = DustPlume(drive, 0.0, 10.0, gravity_m_s2=0.0, drag_per_m=0.0, parcels_per_s=2000.0, seed=11)
    dust = trail.particles(10.0)
    mean = np.array([3.0, -4.0, 7.5])
    scatter = dust.velocity - mean
    size = np.linalg.norm(scatter, axis=1)
    assert stats.kstest(size / (0.5 * np.linalg.norm(mean)), "uniform").pvalue > 1e-3
    assert stats.kstest(scatter[:, 2] / size * 0.5 + 0.5, "uniform").pvalue > 1e-3
    turn = np.arctan2(scatter[:, 1], scatter[:, 0])
    assert stats.kstest(turn / (2 * np.pi) + 0.5, "uniform").pvalue > 1e-3


@pytest.mark.parametrize(("speed", "top_m", "longest_s"), [(5.0, 2.0, 1.2), (10.0, 4.9, 2.3), (20.0, 10.1, 3.8)])
def test_heights_and_times_aloft_with_vanes_drag(speed: float, top_m: float, longest_s: float) -> None:
    trail = DustPlume(ConstantTwist(Pose(), velocity=(speed, 0.0, 0.0)), 0.0, 30.0)
    aloft = trail.particles(20.0).airborne
    # The highest and the oldest of some thousand: extremes, which vary by a tenth or two from draw to draw.
    assert aloft.xyz[:, 2].max() == pytest.approx(top_m, rel=0.3)
    assert aloft.age.max() == pytest.approx(longest_s, rel=0.3)


def test_dust_that_is_held_up_goes_with_the_wind() -> None:
    trail = replace(DRIVE, gravity_m_s2=0.0, wind_m_s=(0.0, 4.0, 0.0), lifetime_s=30.0, drag_per_m=3.0)
    old = trail.particles(30.0)
    old_velocity = old.velocity[old.age > 25.0]
    np.testing.assert_allclose(old_velocity, np.tile([0.0, 4.0, 0.0], (len(old_velocity), 1)), atol=0.05)
    still = replace(trail, wind_m_s=(0.0, 0.0, 0.0)).particles(30.0)
    drift = old.xyz[old.age > 25.0, 1] - still.xyz[still.age > 25.0, 1]
    assert np.all((drift > 80.0) & (drift < 4.0 * 30.0))


def test_ground_is_flat_or_the_road_itself() -> None:
    climb = Waypoints([0.0, 30.0], [Pose((0, 0, 100.0)), Pose((300, 0, 160.0))])
    trail = DustPlume(climb, 0.0, 30.0, ground_z_m=None)
    dust = trail.particles(20.0)
    born_at = 100.0 + 2.0 * (20.0 - dust.age)
    assert np.all(dust.xyz[:, 2] >= born_at - 1e-9)
    np.testing.assert_allclose(dust.xyz[dust.settled, 2], born_at[dust.settled], atol=1e-9)
    flat = replace(trail, ground_z_m=-5.0).particles(20.0)
    assert np.all(flat.xyz[flat.settled, 2] == -5.0)


def test_the_grid_holds_what_is_airborne() -> None:
    dust, grid = DRIVE.particles(20.0), DRIVE.grid(20.0)
    assert 0.0 < dust.airborne.mass_kg.sum() < dust.mass_kg.sum()
    assert grid.mass_kg == pytest.approx(dust.airborne.mass_kg.sum(), rel=1e-9)
    assert DRIVE.grid(-5.0).mass_kg == 0.0
    # Across the trail the mass of light paths is mass per length: the sum over heights and places is all of it.
    x, z = (grid.origin_m[axis] + grid.cell_m * np.arange(grid.shape[axis]) for axis in (0, 2))
    places = np.stack(np.meshgrid(x, [-100.0], z, indexing="ij"), axis=-1).reshape(-1, 3)
    seen = grid.density_path(places, (0.0, 1.0, 0.0), np.inf).sum() * grid.cell_m**2
    assert seen == pytest.approx(grid.mass_kg, rel=2e-3)


class Lost:
    """A trajectory that does not know its way."""

    def sample(self, times: object) -> tuple[np.ndarray, np.ndarray]:
        n = np.asarray(times).shape[0]
        return np.full((n, 3), np.nan), np.tile([0.0, 0.0, 0.0, 1.0], (n, 1))


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"start_s": np.nan}, r"start_s: .*got nan"),
        ({"end_s": -1.0}, r"end_s: .*at least 0, got -1"),
        ({"seed": -1}, r"seed: "),
        ({"weight_kg": -2}, r"weight_kg: .*above 0"),
        ({"width_m": 0}, r"width_m: .*above 0"),
        ({"step_s": 0}, r"step_s: .*at least 0.001"),
        ({"wind_m_s": (1.0, np.nan, 0.0)}, r"wind_m_s: must be 3 finite numbers"),
        ({"drag_per_m": -1}, r"drag_per_m: .*at least 0"),
        ({"ground_z_m": np.inf}, r"ground_z_m: .*got inf"),
    ],
)
def test_bad_trails_are_refused(change: dict[str, object], words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        replace(DRIVE, **change)  # type: ignore[arg-type]


def test_bad_moments_are_refused() -> None:
    with pytest.raises(ConfigError, match="time: "):
        DRIVE.particles(np.nan)
    with pytest.raises(ConfigError, match=r"trajectory: .*finite"):
        DustPlume(Lost(), 0.0, 1.0).particles(0.5)
    with pytest.raises(ConfigError, match="parcels_per_s: "):
        replace(DRIVE, end_s=np.inf).particles(1e9)
