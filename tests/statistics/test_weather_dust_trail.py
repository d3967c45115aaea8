"""Dust trails: budgets, distributions and random access, with fixed seeds; `chance` states the significance."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy import stats

from chance import LIKELY, deviations
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist, Waypoints
from parhelion.weather.media.dust import DRAG_PER_M, KG_PER_M_FROM_LB_PER_MILE
from parhelion.weather.plume import DustPlume, Particles

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
        assert abs(stats.pearsonr(flown[0][:, 1], flown[1][:, 1]).statistic) < deviations() / np.sqrt(len(flown[0]))


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
    assert stats.binomtest(int(left.sum()), len(xyz)).pvalue > LIKELY
    from_wheel = offset - np.where(left, 1.0, -1.0)[:, None] * wheel
    radius = np.linalg.norm(from_wheel, axis=1)
    assert stats.kstest((radius / 1.2) ** 3, "uniform").pvalue > LIKELY
    assert stats.kstest(from_wheel[:, 2] / radius, "uniform").pvalue > LIKELY  # the upper half only
    turn = np.arctan2(from_wheel[:, 1], from_wheel[:, 0])
    assert stats.kstest(turn / (2 * np.pi) + 0.5, "uniform").pvalue > LIKELY


def test_first_velocity_is_vanes() -> None:
    drive = ConstantTwist(Pose(), velocity=(6.0, -8.0, 0.0))
    trail = DustPlume(drive, 0.0, 10.0, gravity_m_s2=0.0, drag_per_m=0.0, parcels_per_s=2000.0, seed=11)
    dust = trail.particles(10.0)
    mean = np.array([3.0, -4.0, 7.5])
    scatter = dust.velocity - mean
    size = np.linalg.norm(scatter, axis=1)
    assert stats.kstest(size / (0.5 * np.linalg.norm(mean)), "uniform").pvalue > LIKELY
    assert stats.kstest(scatter[:, 2] / size * 0.5 + 0.5, "uniform").pvalue > LIKELY
    turn = np.arctan2(scatter[:, 1], scatter[:, 0])
    assert stats.kstest(turn / (2 * np.pi) + 0.5, "uniform").pvalue > LIKELY


def flights(throws: np.ndarray, start: np.ndarray, step: float = 0.02) -> tuple[np.ndarray, np.ndarray]:
    """Heights of parcels at even times, NaN once they have landed, and those times: VANE's law by Runge and Kutta.

    dv/dt = g - C_d (1 - exp(-4.6 t / 10 s)) v |v| (eqs. 8.6 and 8.10).
    """

    def slope(v: np.ndarray, t: float) -> np.ndarray:
        drag = DRAG_PER_M * (1 - np.exp(-0.46 * t))
        return np.array([0.0, 0.0, -9.81]) - drag * v * np.linalg.norm(v, axis=1)[:, None]

    v, z, t = throws.copy(), start.copy(), 0.0
    heights, times = [z.copy()], [0.0]
    while np.any(z >= 0.0):
        a = slope(v, t)
        b = slope(v + 0.5 * step * a, t + 0.5 * step)
        c = slope(v + 0.5 * step * b, t + 0.5 * step)
        d = slope(v + step * c, t + step)
        after = v + step / 6 * (a + 2 * b + 2 * c + d)
        # Heights are cubic over a step, as Simpson sums the three speeds.
        middle = v + step / 24 * (5 * a + 4 * b + 4 * c - d)
        z = np.where(z < 0.0, z, z + step / 6 * (v + 4 * middle + after)[:, 2])
        v, t = after, t + step
        heights.append(np.where(z < 0.0, np.nan, z))
        times.append(t)
    return np.array(heights), np.array(times)


@pytest.mark.parametrize(("speed", "top_m", "longest_s"), [(5.0, 2.0, 1.2), (10.0, 4.9, 2.3), (20.0, 10.1, 3.8)])
def test_heights_and_times_aloft_with_vanes_drag(speed: float, top_m: float, longest_s: float) -> None:
    """Number of airborne parcels, and the highest and oldest of them, against flights drawn and flown by NumPy.

    500 parcels are born a second, so that 500 times the mean time which a flight spends above a height is the number
    that is expected above it. No parcel is above a height of which 9.2 are expected with a chance of exp(-9.2) = 1e-4;
    and none is higher, or flies longer, than one that is thrown straight up as hard as VANE allows.
    """
    n, draw = 20_000, np.random.default_rng(9)
    mean = np.array([0.5 * speed, 0.0, 0.75 * speed])
    unit = draw.normal(size=(n, 3))
    unit /= np.linalg.norm(unit, axis=1)[:, None]
    throws = mean + (0.5 * draw.uniform(size=n) * np.linalg.norm(mean))[:, None] * unit
    # Born evenly in the upper half of a sphere of 1 m.
    ball = draw.normal(size=(n, 3))
    start = np.cbrt(draw.uniform(size=n)) * np.abs(ball[:, 2]) / np.linalg.norm(ball, axis=1)
    heights, times = flights(throws, start)
    step, few = times[1], -np.log(LIKELY)
    aloft = DustPlume(ConstantTwist(Pose(), velocity=(speed, 0.0, 0.0)), 0.0, 30.0).particles(20.0).airborne
    flown = np.isfinite(heights).sum(axis=0) * step
    assert len(aloft) == pytest.approx(500.0 * flown.mean(), abs=deviations() * np.sqrt(500.0 * flown.mean()))
    sorted_heights = np.sort(heights[np.isfinite(heights)])[::-1]
    seldom = int(few * n / (500.0 * step))  # as many samples of height are above that of which `few` are expected
    older = np.array([500.0 * np.maximum(flown - age, 0.0).mean() for age in times])
    # Their steps of 0.1 s err by up to 5 cm, see `fly`, which is 2 % of a second at 3 m/s.
    assert aloft.xyz[:, 2].max() > sorted_heights[seldom] - 0.05
    assert aloft.age.max() > times[older < few][0] - 2 * step
    # The scatter that throws highest is straight up, and starts from the top of the sphere; drag takes least of it.
    up = np.array([[0.0, 0.0, 0.75 * speed + 0.5 * float(np.linalg.norm(mean))]])
    highest, longest = flights(up, np.array([1.0]))
    assert aloft.xyz[:, 2].max() < np.nanmax(highest) + 0.05
    assert aloft.age.max() < longest[-1] + 2 * step
    # The figures of the page on dust lie between.
    assert sorted_heights[seldom] < top_m < np.nanmax(highest)
    assert times[older < few][0] < longest_s < longest[-1]


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
