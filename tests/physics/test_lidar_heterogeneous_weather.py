"""Attenuation by single drops and heterogeneous weather, against closed forms and sums by NumPy. Noise is off."""

from __future__ import annotations

import numpy as np
import pytest

import parhelion as ph
from chance import deviations, spread_bounds
from parhelion.weather.air import air_contents
from parhelion.weather.media.fog import fog_extinction
from rigs import many_beams, one_beam, sheet
from weather_rigs import BEAM, NM, STRONG, depth, fan, integral, seen, shares_taken, summed, surface_power

# ---- drops that stand in the beam ----------------------------------------------------------------------------------


def dimmed_by_drops(
    kind: str, rate: float, weather: ph.Weather, place: np.ndarray, density: float = 1.0
) -> tuple[np.ndarray, float]:
    """Power left of a wall at 40 m over many beams, 0 where it is lost, and how far its mean is from the closed form.

    In standard deviations of the mean. `density` is the factor on the number of drops at the sensor's front. Drops and
    flakes near the sensor are drawn one by one; what they take in the mean, D, is left out of the even extinction. A
    drop that takes the share o leaves (1 - o)^2, and their number is Poisson of mean L, so that

        mean of the product of (1 - o)^2 = exp(-L (2 <o> - <o^2>)),   of its square: exp(-L (1 - <(1 - o)^4>)),

    and with D = L <o> the whole leaves exp(-2 tau) exp(L <o^2>): more than Beer-Lambert, since a flake takes a
    part of the beam once, however large it is.
    """
    n, distance = 20_000, 40.0
    config = many_beams(n, beam=BEAM, range={**STRONG, "rated": [{"reflectance": 0.9, "range_m": 150}]})
    world = ph.World()
    board = ph.shapes.plane(50, 50)
    at = ph.Pose(place + np.array([distance, 0.0, 0.0])) @ ph.Pose(rpy_deg=(0, -90, 0))
    world.add((board.vertices, board.faces), material="lambert-50", pose=at)
    power = surface_power(seen(weather, world, config, returns="last", seed=5, pose=ph.Pose(place)))
    clear = surface_power(seen(None, world, config, pose=ph.Pose(place)))
    number, share = shares_taken(kind, rate, config)
    number *= density
    tau = summed(weather, place, [[1.0, 0.0, 0.0]], [distance])[0]
    expected = np.exp(-2 * tau + number * np.mean(share**2))
    square = np.exp(-4 * (tau - number * np.mean(share)) - number * np.mean(1 - (1 - share) ** 4))
    error = np.sqrt((square - expected**2) / n)
    ratio = np.nan_to_num(power) / clear
    # Shots that flakes leave below the threshold count as nothing; each had up to one threshold of power. D itself is
    # summed over 256 x 256 drops, which misses half a percent of it in the largest ones.
    most = np.mean(np.isnan(power)) / clear[0] + 2 * 0.005 * number * np.mean(share) * expected
    off = ratio.mean() - expected
    return ratio, float(max(off, -off - most) / error)


@pytest.mark.parametrize(("kind", "rate"), [("rain", 50.0), ("snow", 1.0)])
def test_drops_that_stand_in_the_beam_dim_it_as_the_extinction_says_in_the_mean(kind: str, rate: float) -> None:
    """Near drops are drawn one by one and shade the beam; the others dim it evenly. See `dimmed_by_drops`."""
    ratio, off = dimmed_by_drops(kind, rate, ph.Weather(**{f"{kind}_rate_mm_h": rate}), np.zeros(3))
    assert ratio.std() > 1e-2
    assert off < deviations()


@pytest.mark.parametrize("density", [0.3, 3.0])
def test_drops_in_cells_dim_the_beam_as_the_extinction_says_there(density: float) -> None:
    """Denser flakes are drawn in proportion and removed from the uniform part in proportion."""
    snow = ph.Snow(rate_mm_h=0.5, heterogeneity=ph.Heterogeneity(scale_m=100, contrast=1.0))
    weather = ph.Weather(snow=snow, seed=3)
    field = air_contents(weather, 0.0, NM).components[0].field
    assert field is not None
    # The node of the field that comes nearest to this density, 2 m before the sensor.
    level = field.table[:, :, 0, 0]
    node = np.array(np.unravel_index(np.abs(level - density).argmin(), level.shape))
    front = np.append(node * field.cell_m, 0.0)
    there = float(field.at(front[None])[0])
    assert there == pytest.approx(density, rel=0.1)
    _, off = dimmed_by_drops("snow", 0.5, weather, front - np.array([2.0, 0.0, 0.0]), there)
    assert off < deviations()


# ---- heterogeneous weather -----------------------------------------------------------------------------------------

HETEROGENEOUS = {
    "fog": ph.Weather(fog=ph.Fog(visibility_m=300, heterogeneity=ph.Heterogeneity(scale_m=40, contrast=0.6)), seed=2),
    "rain": ph.Weather(rain=ph.Rain(rate_mm_h=80, heterogeneity=ph.Heterogeneity(scale_m=60, contrast=0.8)), seed=3),
    "snow": ph.Weather(snow=ph.Snow(rate_mm_h=2, heterogeneity=ph.Heterogeneity(scale_m=60, contrast=0.8)), seed=3),
    "all": ph.Weather(
        fog=ph.Fog(visibility_m=400, heterogeneity=ph.Heterogeneity(scale_m=30)),
        rain=ph.Rain(rate_mm_h=50, heterogeneity=ph.Heterogeneity(scale_m=80)),
        snow=ph.Snow(rate_mm_h=1, heterogeneity=ph.Heterogeneity(scale_m=60)), seed=4,
    ),
}  # fmt: skip
FLOAT_SUM = 1e-5
"""32 numbers of float32 added up, and two powers divided: each rounds by 6e-8, and depths are 0.2 or more."""


@pytest.mark.parametrize("kind", HETEROGENEOUS)
def test_heterogeneous_weather_is_the_sum_of_its_steps_along_each_beam(kind: str) -> None:
    """All kinds, flakes of snow too: beams without width hold none of them (one in 300 000 meets one, and is lost)."""
    weather, config = HETEROGENEOUS[kind], sheet(pattern=fan(), range=STRONG)
    pose = ph.Pose((13.0, -7.0, 3.0), rpy_deg=(0, 0, 40))
    world = ph.World()
    world.add(ph.shapes.box(0.1, 200, 60), material="lambert-90", pose=pose @ ph.Pose((50.05, 0, 0)))
    shots = ph.Lidar(config).shots()
    way = pose.apply(shots.direction) - pose.xyz
    length = 50.0 / shots.direction[:, 0]
    expected = summed(weather, pose.xyz, way, length)
    even = air_contents(weather, 0.0, NM).components
    assert np.ptp(expected / length) > 0.05 * sum(part.extinction_per_m for part in even)
    assert depth(weather, world, config, pose=pose) == pytest.approx(expected, rel=FLOAT_SUM)


def step_error(heterogeneous: ph.Heterogeneity, reach: float, length: float) -> float:
    """A bound on the relative deviation of that sum from the integral, over a way.

    Read in the middle of a step of length L, a wave of length s is off its mean by 1 - sinc(L / s) of its deviation.
    Octaves have the waves s, s/2, s/4 ... and the variances 1, r^2, r^4 ... (gradient noise varies more slowly than
    its lattice, so that this is more than it errs by). Steps err independently of each other.
    """
    ends = reach * (np.arange(33) / 32) ** 2
    step = np.diff(ends)[ends[:-1] < length]
    octave = np.arange(heterogeneous.octaves)
    variance = heterogeneous.roughness ** (2 * octave)
    off = 1 - np.sinc(step[:, None] * 2.0**octave / heterogeneous.scale_m)
    per_step = heterogeneous.contrast**2 * (off**2 * variance / variance.sum()).sum(axis=1)
    return float(np.sqrt((step**2 * per_step).sum()) / length)


@pytest.mark.parametrize("kind", ["fog", "rain", "snow"])
def test_the_steps_are_fine_enough_for_the_integral(kind: str) -> None:
    """Beams of 50 m anywhere, which know nothing of each other: 0.4 % is found, some percent are the bound."""
    weather = HETEROGENEOUS[kind]
    fields = {"fog": weather.fog and weather.fog.heterogeneity, "rain": weather.rain and weather.rain.heterogeneity,
              "snow": weather.snow and weather.snow.heterogeneity}[kind]  # fmt: skip
    assert fields is not None
    n, draw = 200, np.random.default_rng(1)
    start, turn = draw.uniform(0, 1000, (n, 3)), draw.uniform(0, 2 * np.pi, n)
    way, length = np.stack([np.cos(turn), np.sin(turn), 0 * turn], axis=1), np.full(n, 50.0)
    off = summed(weather, start, way, length) / integral(weather, start, way, length) - 1
    most = step_error(fields, 150.0, 50.0)
    assert most < 0.03
    assert np.sqrt(np.mean(off**2)) < most * spread_bounds(n)[1]
    assert abs(off.mean()) < deviations() * most / np.sqrt(n)


def test_mean_over_many_places_is_the_even_value() -> None:
    """A field repeats after 80 m, and its mean over that cube is 1: beams through the whole of it, one in each of 256
    squares of 5 m, at a place drawn within it."""
    weather = ph.Weather(fog=ph.Fog(visibility_m=200, heterogeneity=ph.Heterogeneity(scale_m=20, contrast=0.6)), seed=1)
    world = ph.World()
    world.add(ph.shapes.box(0.1, 190, 190), material="lambert-90", pose=ph.Pose((80.05, 0, 0)))
    world.weather = weather
    lidar = ph.Lidar(one_beam(range=STRONG), noise=False, returns="last")
    steps = np.linspace(-40, 40, 16, endpoint=False)
    corner = np.stack(np.meshgrid(steps, steps, indexing="ij"), axis=-1)
    places = corner + np.random.default_rng(3).uniform(0, 5, corner.shape)
    scans = lidar.scan_many(world, [ph.Pose((0, y, z)) for y, z in places.reshape(-1, 2)])
    clear = (1000.0 / 80.0) ** 2
    tau = -0.5 * np.log(np.array([float(scan.power[0]) for scan in scans]) / clear).reshape(16, 16)
    expected = 80.0 * fog_extinction(200.0)
    # One draw from each square leaves the variance within squares, which is less than that between neighbours.
    within = 0.25 * np.mean((np.roll(tau, 1, 0) - tau) ** 2 + (np.roll(tau, 1, 1) - tau) ** 2)
    assert tau.mean() == pytest.approx(expected, abs=deviations() * np.sqrt(within / tau.size))
    assert tau.std() > 0.1 * expected


@pytest.mark.parametrize("scale", [2.5, 40.0])
def test_far_from_zero_the_same(scale: float) -> None:
    """By whole periods of the field (four times its scale), a thousand kilometres away, and not on round numbers."""
    weather = ph.Weather(
        fog=ph.Fog(visibility_m=300, heterogeneity=ph.Heterogeneity(scale_m=scale, contrast=1.0)), seed=2
    )
    config = sheet(pattern=fan(20, 2), range=STRONG)
    shift = np.array([9600.0 * 104, -9600.0 * 209, 0.0])
    found = []
    for offset in (np.array([0.37, -1.23, 0.5]), np.array([0.37, -1.23, 0.5]) + shift):
        world = ph.World()
        world.add(ph.shapes.box(0.1, 200, 60), material="lambert-90", pose=ph.Pose(offset + np.array([50.05, 0, 0])))
        found.append(depth(weather, world, config, pose=ph.Pose(offset)))
    assert found[1] == pytest.approx(found[0], rel=2e-3)


def test_wind_carries_heterogeneous_fog_through_the_scan() -> None:
    """Every shot meets the fog as it is at its own time, wherever the moving sensor is by then."""
    fog = ph.Fog(visibility_m=300, heterogeneity=ph.Heterogeneity(scale_m=20, contrast=0.7))
    weather = ph.Weather(fog=fog, wind_m_s=(20, 60, 0), seed=5)
    config = sheet(pattern=fan(60, 2), range=STRONG)
    motion = ph.ConstantTwist(ph.Pose((-30, 0, 0)), (15, -20, 0))
    world = ph.World()
    world.add(ph.shapes.box(0.1, 400, 60), material="lambert-90", pose=ph.Pose((50.05, 0, 0)))
    shots = ph.Lidar(config).shots()
    time = 2.0 + shots.time
    start = motion.sample(time)[0]
    length = (50.0 - start[:, 0]) / shots.direction[:, 0]
    expected = summed(weather, start, shots.direction, length, time)
    at_start = summed(weather, start[:1], shots.direction, length, 2.0)
    found = depth(weather, world, config, trajectory=motion, time=2.0)
    assert found == pytest.approx(expected, rel=FLOAT_SUM)
    assert np.sqrt(np.mean((at_start / expected - 1) ** 2)) > 0.05


def test_who_goes_with_the_wind_sees_the_same_fog() -> None:
    wind = (9.0, 4.0, 0.0)
    weather = ph.Weather(
        fog=ph.Fog(visibility_m=300, heterogeneity=ph.Heterogeneity(scale_m=20)), wind_m_s=wind, seed=5
    )
    config = one_beam(range=STRONG)
    found = []
    for time in (0.0, 37.0):
        world = ph.World()
        drift = np.array(wind) * time
        world.add(ph.shapes.box(0.1, 20, 20), material="lambert-90", pose=ph.Pose(drift + np.array([50.05, 0, 0])))
        motion = ph.ConstantTwist(ph.Pose(), wind)
        found.append(depth(weather, world, config, trajectory=motion, time=time))
    assert found[1] == pytest.approx(found[0], rel=1e-3)
