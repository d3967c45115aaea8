"""Weather in scans as distributions, with fixed seeds; `chance` states the significance of the limits. Noise is off."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import parhelion as ph
from chance import LIKELY, deviations
from parhelion.sensors.optics.lidar.config import LidarConfig
from parhelion.sensors.optics.lidar.emit import cross_section
from parhelion.sensors.optics.lidar.link_budget import detection_probability
from parhelion.weather.air import air_contents
from parhelion.weather.media.fog import default_backscatter, fog_backscatter, fog_extinction
from parhelion.weather.media.rain import drop_backscatter, goodin2019_range_sigma, rain_extinction
from parhelion.weather.particles import drop_echo, sample
from parhelion.weather.volume_echo import soft_echo
from rigs import many_beams, wall
from weather_rigs import (
    BEAM,
    DUST,
    FOG,
    NM,
    RAIN,
    RECEIVER,
    SNOW,
    STRONG,
    SURFACE,
    extinction_of,
    open_at_1_m,
    seen,
    shares_taken,
    summed,
    surface_power,
    table_of,
)  # fmt: skip

N = 40_000
EVERY_ECHO = {"returns": "all", "max_returns": 8, "merge_distance_m": 1e-5}
"""Drops closer together than this would be one return: one pair in 100 000."""


def poisson_fits(counts: np.ndarray, mean: float) -> bool:
    """True if counts are consistent with Poisson numbers of this mean, by chi-square over classes of at least ten."""
    n = len(counts)
    last = int(stats.poisson.ppf(1 - 10 / n, mean))
    expected = n * np.append(stats.poisson.pmf(np.arange(last), mean), stats.poisson.sf(last - 1, mean))
    found = np.bincount(np.minimum(counts, last), minlength=last + 1)
    return bool(stats.chisquare(found, expected).pvalue > LIKELY)


CASES = [("rain", 25.0), ("rain", 150.0), ("snow", 0.5), ("snow", 2.0)]


@pytest.mark.parametrize(("kind", "rate"), CASES)
def test_number_and_range_of_echoes_are_those_of_detectable_drops(kind: str, rate: float) -> None:
    config = many_beams(N, beam=BEAM, receiver=EVERY_ECHO)
    scan = seen(ph.Weather(**{f"{kind}_rate_mm_h": rate}), ph.World(), config, seed=21)
    assert np.all(scan.origin == {"rain": RAIN, "snow": SNOW}[kind])
    table = table_of(kind, rate, config)
    counts = np.bincount(scan.shot, minlength=N)
    assert counts.mean() == pytest.approx(table.mean, abs=deviations() * np.sqrt(table.mean / N))
    assert poisson_fits(counts, table.mean)
    assert not poisson_fits(counts, 1.1 * table.mean)
    steps = np.linspace(0, 1, len(table.range_m))
    assert stats.kstest(scan.range, lambda r: np.interp(r, table.range_m, steps)).pvalue > LIKELY
    assert np.all(scan.power >= 1.0)


def test_echoes_of_neighbouring_beams_and_frames_are_independent() -> None:
    config = many_beams(N, beam=BEAM, receiver=EVERY_ECHO)
    counts = [
        np.bincount(seen(ph.Weather(snow_rate_mm_h=5), ph.World(), config, **change).shot, minlength=N)
        for change in ({"seed": 1}, {"seed": 2}, {"seed": 1, "time": 0.1})
    ]
    limit = deviations() / np.sqrt(N)
    assert abs(np.corrcoef(counts[0][1:], counts[0][:-1])[0, 1]) < limit
    assert abs(np.corrcoef(counts[0], counts[1])[0, 1]) < limit
    assert abs(np.corrcoef(counts[0], counts[2])[0, 1]) < limit


def test_rain_and_snow_together_dim_each_other_and_are_drawn_apart() -> None:
    """Each dims the other's echoes: the extinction of both decides which drops and flakes are detectable.

    Snow of 1 mm/h takes 1.2 % of the drops that are seen, which are near, and rain of 100 mm/h 4.7 % of the flakes.
    That is all that either knows of the other: given the extinction, their numbers are drawn apart, so that a beam with
    more drops has no fewer flakes. What one drop takes from the echo of a flake behind it counts in the mean.
    """
    config = many_beams(N, beam=BEAM, receiver=EVERY_ECHO)
    scan = seen(ph.Weather(rain_rate_mm_h=100, snow_rate_mm_h=1), ph.World(), config, seed=22)
    rain, snow = (np.bincount(scan.shot[scan.origin == origin], minlength=N) for origin in (RAIN, SNOW))
    both = {"rain": (rain, 100.0, extinction_of("snow", 1.0)), "snow": (snow, 1.0, extinction_of("rain", 100.0))}
    # More than eight echoes per shot are not reported; hardly any shot has as many.
    total = sum(table_of(kind, rate, config, more=other).mean for kind, (_, rate, other) in both.items())
    untold = stats.poisson.expect(lambda k: np.maximum(k - 8, 0), (total,))
    taken = {"rain": 0.012, "snow": 0.047}
    for kind, (counts, rate, other) in both.items():
        expected, alone = table_of(kind, rate, config, more=other).mean, table_of(kind, rate, config).mean
        assert 1 - expected / alone == pytest.approx(taken[kind], abs=5e-4)
        assert counts.mean() == pytest.approx(expected, abs=deviations() * np.sqrt(expected / N) + untold)
    assert abs(np.corrcoef(rain, snow)[0, 1]) < deviations() / np.sqrt(N)


def test_receiver_noise_lets_weak_drops_pass_and_hides_strong_ones() -> None:
    """With noise a drop is seen with the chance that its echo has; the noise is 1/6 of the threshold."""
    rate = 100.0
    config = many_beams(N, beam=BEAM, receiver={**EVERY_ECHO, "merge_distance_m": 1e-3})
    world = ph.World()
    world.weather = ph.Weather(rain_rate_mm_h=rate)
    noisy = ph.Lidar(config).scan(world, pose=ph.Pose(), seed=23)
    table = table_of("rain", rate, config, floor=1.0 - 5.0 / 6.0)
    u = (np.arange(400) + 0.5) / 400
    range_m, diameter = sample(table, *(axis.ravel() for axis in np.meshgrid(u, u)))
    echo = drop_echo(
        drop_backscatter(diameter, NM), beam_area_m2=cross_section(config.beam, range_m), range_m=range_m,
        extinction_per_m=rain_extinction(rate), overlap=open_at_1_m(range_m),
        threshold=ph.Lidar(config).system_constant.threshold,
    )  # fmt: skip
    expected = table.mean * detection_probability(echo, threshold_to_noise=6.0).mean()
    assert expected > 1.02 * table_of("rain", rate, config).mean
    # Drops in one window share their noise, and add up: a few in a thousand.
    assert len(noisy) / N == pytest.approx(expected, abs=0.005 * expected + deviations() * np.sqrt(expected / N))
    assert np.any(noisy.power < 0.9)


def test_cells_of_rain_thicken_the_drops_before_the_sensor() -> None:
    cells = ph.Heterogeneity(scale_m=50, contrast=1.0)
    weather = ph.Weather(rain=ph.Rain(rate_mm_h=50, cells=cells), seed=6)
    config = many_beams(N // 4, beam=BEAM, receiver=EVERY_ECHO)
    field = air_contents(weather, 0.0, NM).components[0].field
    assert field is not None
    mean = table_of("rain", 50.0, config).mean
    for place in ([0.0, 0.0, 0.0], [20.0, 60.0, 0.0], [110.0, -35.0, 0.0]):
        scan = seen(weather, ph.World(), config, seed=24, pose=ph.Pose(place))
        expected = mean * field.at(np.array([place]) + np.array([2.0, 0.0, 0.0]))[0]
        assert len(scan) / (N // 4) == pytest.approx(expected, abs=deviations() * np.sqrt(expected / (N // 4)))


# ---- variation per pulse ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("rate", [4.0, 20.0])
def test_vane_gives_every_pulse_its_own_share_of_extinction(rate: float) -> None:
    """Power over shots is exp(-2 alpha R U) with U even in (0.5, 1), and range R U with U even in (0.99, 1.01)."""
    weather, config = ph.Weather(rain=ph.Rain(rate_mm_h=rate, model="vane")), many_beams(N, range=STRONG)
    scan = seen(weather, wall(30.0), config, returns="last", seed=31)
    clear = surface_power(seen(None, wall(30.0), config))
    factor = -0.5 * np.log(surface_power(scan) / clear) / (0.003 * rate * 30.0)
    assert stats.kstest(factor, stats.uniform(0.5, 0.5).cdf).pvalue > LIKELY
    assert stats.kstest(scan.range / 30.0, stats.uniform(0.99, 0.02).cdf).pvalue > LIKELY
    assert abs(np.corrcoef(factor, scan.range)[0, 1]) < deviations() / np.sqrt(N)
    again = seen(weather, wall(30.0), config, returns="last", seed=32)
    assert abs(np.corrcoef(scan.range, again.range)[0, 1]) < deviations() / np.sqrt(N)


def test_vane_pulse_variation_holds_in_cells_of_rain() -> None:
    # Light enough that even the thickest cells leave every pulse above the threshold.
    rain = ph.Rain(rate_mm_h=8, model="vane", heterogeneity=ph.Heterogeneity(scale_m=40, contrast=0.8))
    config = many_beams(N // 4, range=STRONG)
    weather = ph.Weather(rain=rain, seed=2)
    power = surface_power(seen(weather, wall(30.0), config, returns="last", seed=33))
    clear = surface_power(seen(None, wall(30.0), config))
    tau = -0.5 * np.log(power / clear)
    full = summed(weather, np.zeros(3), [[1.0, 0.0, 0.0]], [30.0])[0]
    assert stats.kstest(tau, stats.uniform(0.5 * full, 0.5 * full).cdf).pvalue > LIKELY
    # The lowest and highest of n even numbers are nearer to the ends than ln(1 / chance) / n of the span.
    near = 0.5 * full * np.log(1 / LIKELY) / len(tau)
    rounding = 1e-5 * full
    assert 0.5 * full - rounding < tau.min() < 0.5 * full + near
    assert full - near < tau.max() < full + rounding


@pytest.mark.parametrize(("rate", "distance"), [(0.5, 30.0), (10.0, 30.0), (10.0, 60.0)])
def test_goodin_scatters_ranges(rate: float, distance: float) -> None:
    weather = ph.Weather(rain=ph.Rain(rate_mm_h=rate, model="goodin2019"))
    scan = seen(weather, wall(distance), many_beams(N, range=STRONG), returns="last", seed=34)
    error = scan.range.astype(float) - distance
    assert stats.kstest(error / goodin2019_range_sigma(distance, rate), "norm").pvalue > LIKELY
    assert scan.power.std() < 1e-4 * scan.power.mean()


def test_ranges_of_drops_themselves_are_true_ones() -> None:
    """VANE and Goodin displace surfaces only: near drops would leave the sensor's own range."""
    config = many_beams(N // 4, beam=BEAM, receiver=EVERY_ECHO)
    for model in ("vane", "goodin2019"):
        scan = seen(ph.Weather(rain=ph.Rain(rate_mm_h=100, model=model)), ph.World(), config, seed=35)
        assert len(scan) > 1000
        assert scan.range.min() > 0.9


# ---- fog -----------------------------------------------------------------------------------------------------------


FOG_CELL_M = 0.5 * 299_792_458.0 * 6e-9
"""Half of the pulse's length: what is farther apart fluctuates independently."""


def fog_signal(visibility: float, config: LidarConfig, range_m: np.ndarray) -> np.ndarray:
    """Mean signal of even fog in units of the threshold."""
    alpha = fog_extinction(visibility)
    signal = soft_echo(
        range_m, extinction_per_m=alpha, backscatter_per_m_sr=fog_backscatter(alpha, default_backscatter("kim", NM)),
        pulse_length_m=2 * FOG_CELL_M, overlap=open_at_1_m,
    )  # fmt: skip
    return np.asarray(signal / ph.Lidar(config).system_constant.threshold)


def fog_by_hand(visibility: float, config: LidarConfig, mode: str, sigma: float) -> tuple[np.ndarray, np.ndarray]:
    """Range and reading of the fog's echo over many beams, drawn by NumPy; NaN where nothing passes.

    Cells of half a pulse from the least range to 30 m, each with 15 % of fluctuation and the receiver's noise.
    """
    rng = np.random.default_rng(7)
    cells = np.arange(config.range.min_m, 30.0, FOG_CELL_M)
    at = cells + rng.uniform(size=(N, len(cells))) * FOG_CELL_M
    grid = np.linspace(0.05, 32.0, 4000)
    mean = np.interp(at, grid, fog_signal(visibility, config, grid))
    reading = mean + np.hypot(0.15 * mean, sigma) * rng.normal(size=at.shape)
    passes = reading >= 1.0
    best = {
        "first": passes.argmax(axis=1),
        "last": at.shape[1] - 1 - passes[:, ::-1].argmax(axis=1),
        "strongest": reading.argmax(axis=1),
    }[mode]
    row = np.arange(N)
    none = ~passes.any(axis=1)
    return (np.where(none, np.nan, values[row, best]) for values in (at, reading))  # type: ignore[return-value]


@pytest.mark.parametrize("mode", ["first", "last", "strongest"])
@pytest.mark.parametrize(("visibility", "noise"), [(100.0, False), (800.0, False), (800.0, True), (2000.0, True)])
def test_fog_is_reported_where_its_signal_and_noise_pass_the_threshold(
    visibility: float, noise: bool, mode: str
) -> None:
    """Share, range and power of fog points against the same fog drawn by hand, one cell of half a pulse at a time."""
    receiver = {**RECEIVER, "returns": mode, "threshold_to_noise": 6.0}
    config = many_beams(N, beam=BEAM, receiver=receiver)
    world = ph.World()
    world.weather = ph.Weather(visibility_m=visibility)
    scan = ph.Lidar(config, noise=noise).scan(world, pose=ph.Pose(), seed=41)
    assert np.all(scan.origin == FOG)
    where, reading = fog_by_hand(visibility, config, mode, 1 / 6 if noise else 0.0)
    there = np.isfinite(where)
    share = there.mean()
    # Two binomial counts of N each.
    assert len(scan) / N == pytest.approx(share, abs=deviations() * np.sqrt(2 * share * (1 - share) / N) + 1e-4)
    if share > 0.002:
        assert stats.ks_2samp(scan.range, where[there]).pvalue > LIKELY
        assert stats.ks_2samp(scan.power, reading[there]).pvalue > LIKELY


def test_fog_points_spread_over_the_width_of_the_echo() -> None:
    """A receiver that collects all from 6.5 m on sees fog from 1 to 6 m, not in one shell."""
    config = many_beams(N, beam=BEAM, range={"overlap": 6.5, "min_m": 1.0}, receiver=RECEIVER)
    world = ph.World()
    world.weather = ph.Weather(visibility_m=120)
    scan = ph.Lidar(config).scan(world, pose=ph.Pose(), seed=43)
    low, high = np.percentile(scan.range, [5, 95])
    assert low < 1.8
    assert 4.0 < high < 7.5


# ---- dust ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("density", [2e-6, 8e-6, 1.6e-5, 4e-5])
def test_chance_of_a_return_from_dust_is_vanes(density: float) -> None:
    """min(1, mu / 0.2), mu the optical depth before the surface; the place follows the dust passed."""
    weather = ph.Weather(
        dust=[ph.DustCloud(centre_m=(25, 0, 0), half_size_m=(4, 4, 4), density_kg_m3=density)]
    )  # fmt: skip
    config = many_beams(N, beam=BEAM, receiver={"returns": "first", **RECEIVER})
    scan = seen(weather, wall(40.0), config, seed=51)
    (placed,) = air_contents(weather, 0.0, NM).grids
    grid, per_mass = placed.grid, placed.per_mass
    reach = np.linspace(20.0, 40.0, 400)
    passed = grid.optical_depth(np.zeros(3), np.array([1.0, 0, 0]), reach, per_mass)
    chance = min(1.0, passed[-1] / 0.2)
    dust = scan.origin == DUST
    assert len(scan) == N
    if chance < 1:
        test = stats.chisquare([dust.sum(), (~dust).sum()], [N * chance, N * (1 - chance)])
        assert test.pvalue > LIKELY
    else:
        assert dust.all()
    most = min(passed[-1], 0.2)
    assert stats.kstest(scan.range[dust], lambda r: np.interp(r, reach, np.minimum(passed / most, 1))).pvalue > LIKELY
    # What is left of the wall is dimmed twice.
    wall_power = surface_power(seen(weather, wall(40.0), config, returns="last", seed=51))
    clear = 0.5 / 0.9 * (100 / 40) ** 2
    assert np.nanmean(wall_power) == pytest.approx(clear * np.exp(-2 * passed[-1]), rel=2e-3)


def test_a_surface_within_the_cloud_leaves_only_the_dust_before_it() -> None:
    weather = ph.Weather(
        dust=[ph.DustCloud(centre_m=(25, 0, 0), half_size_m=(4, 4, 4), density_kg_m3=2e-5)]
    )  # fmt: skip
    config = many_beams(N, beam=BEAM, receiver={"returns": "first", **RECEIVER, "merge_distance_m": 1e-3})
    scan = seen(weather, wall(24.0), config, seed=52)
    (placed,) = air_contents(weather, 0.0, NM).grids
    grid, per_mass = placed.grid, placed.per_mass
    chance = grid.optical_depth(np.zeros(3), np.array([1.0, 0, 0]), 24.0, per_mass)[0] / 0.2
    share = np.mean(scan.origin == DUST)
    assert share == pytest.approx(chance, abs=deviations() * np.sqrt(chance * (1 - chance) / N))
    assert np.all(scan.range[scan.origin == DUST] < 24.0)
    assert np.all(np.abs(scan.range[scan.origin == SURFACE] - 24.0) < 1e-3)


def test_rain_lowers_the_number_of_points_and_their_intensity() -> None:
    """Filgueira et al. 2017: fewer and darker points, most of all on pavement, which is dark and met at a slant."""
    lost, dimmed, error = [], [], []
    for material in ("lambert-80", "lambert-5"):
        world, lidar = wall(28.0, material), ph.Lidar(many_beams(N // 4, beam=BEAM), noise=True)
        clear = lidar.scan(world, pose=ph.Pose(), seed=61)
        world.weather = ph.Weather(rain_rate_mm_h=60)
        rain = lidar.scan(world, pose=ph.Pose(), seed=61)
        surface = rain.origin == SURFACE
        lost.append(1 - surface.sum() / len(clear))
        dimmed.append(rain.intensity[surface].mean() / clear.intensity.mean())
        error.append(rain.intensity[surface].std() / clear.intensity.mean() / np.sqrt(surface.sum()))
        assert np.abs(rain.range[surface] - 28.0).max() < 0.2
    assert lost[1] > lost[0] + 0.01
    # Drops that stand in the beam leave a little more than the extinction gives (see `dimmed_by_drops`), and shots that
    # were lost to them are missing from the mean: each would have changed it by its own share at most.
    number, share = shares_taken("rain", 60.0, many_beams(1, beam=BEAM))
    expected = np.exp(-2 * 28 * rain_extinction(60) + number * np.mean(share**2))
    assert dimmed[0] == pytest.approx(expected, abs=deviations() * error[0] + lost[0] * expected)
