"""Detectable drops drawn by thinning, against drawing all drops and keeping those that can be seen. Fixed seeds."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import integrate, stats

from chance import LIKELY, deviations
from parhelion.core.errors import ConfigError
from parhelion.weather.media.rain import drop_backscatter, drop_cross_section, rain_extinction
from parhelion.weather.media.snow import flake_backscatter, snow_extinction
from parhelion.weather.particles import (
    STEPS,
    TAIL_STEPS,
    Detectable,
    counts,
    detectable,
    drop_echo,
    drop_sizes,
    obscured,
    sample,
)
from weather_rigs import open_at_1_m

VLP_16_THRESHOLD = 0.9 / np.pi / 100.0**2
EXIT_RADIUS_M, DIVERGENCE_RAD = 0.00475, 0.003

Curve = Callable[[NDArray[np.float64]], NDArray[np.float64]]


def radius(z: NDArray[np.float64] | float) -> NDArray[np.float64]:
    return np.asarray(EXIT_RADIUS_M + 0.5 * DIVERGENCE_RAD * np.asarray(z))


def area(z: NDArray[np.float64]) -> NDArray[np.float64]:
    return np.pi * radius(z) ** 2


CASES: dict[str, tuple[str, float, Curve, Curve, float, float]] = {
    # sizes, rate, backscatter, overlap, least and largest range
    "rain, Mie": ("marshall-palmer", 25.0, drop_backscatter, np.ones_like, 0.5, 6.0),
    "rain, overlap": ("feingold-levin", 50.0, drop_backscatter, open_at_1_m, 0.3, 6.0),
    "snow": ("constant-intercept", 1.0, flake_backscatter, open_at_1_m, 0.5, 8.0),
    "mirror balls": ("deirmendjian", 40.0, lambda d: d * d * 1e-6 / 16.0, np.ones_like, 1.0, 5.0),
}


def make(case: str, floor: float = 1.0) -> tuple[Detectable, float]:
    sizes, rate, backscatter, overlap, near, far = CASES[case]
    extinction = snow_extinction(rate) if case == "snow" else rain_extinction(rate)
    table = detectable(
        drop_sizes(sizes, rate), backscatter, area=area, overlap=overlap, extinction_per_m=extinction,
        threshold=VLP_16_THRESHOLD, floor=floor, least_range_m=near, largest_range_m=far,
    )  # fmt: skip
    return table, extinction


def beam_volume(range_m: float, radius_m: float, radius_at_range_m: float) -> float:
    """Volume [m^3] of the frustum from the exit to a range."""
    return np.pi / 3.0 * range_m * (radius_m**2 + radius_m * radius_at_range_m + radius_at_range_m**2)


def draw_everything(
    case: str, extinction: float, beams: int, seed: int, floor: float = 1.0
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.float64]]:
    """All drops of many beams, kept where the echo is at least `floor`: counts a beam, ranges and diameters."""
    name, rate, backscatter, overlap, near, far = CASES[case]
    sizes = drop_sizes(name, rate)
    draw = np.random.default_rng(seed)
    # The beam is a cone with its tip behind the exit: distance from the tip goes as the cube root of volume.
    tip = EXIT_RADIUS_M / (0.5 * DIVERGENCE_RAD)
    volume = beam_volume(far, EXIT_RADIUS_M, radius(far)) - beam_volume(near, EXIT_RADIUS_M, radius(near))
    per_beam = draw.poisson(float(volume) * sizes.count(), beams)
    total = int(per_beam.sum())
    z = np.cbrt(draw.uniform((near + tip) ** 3, (far + tip) ** 3, total)) - tip
    # Sizes by the density itself, on a grid of its own, not by the tail that is under test.
    edges = np.linspace(sizes.least_mm, sizes.largest_mm, 60_001)
    middle = 0.5 * (edges[1:] + edges[:-1])
    share = np.concatenate([[0.0], np.cumsum(sizes.density(middle))])
    d = np.interp(draw.uniform(size=total), share / share[-1], edges)
    echo = drop_echo(
        backscatter(d), beam_area_m2=area(z), range_m=z, extinction_per_m=extinction, overlap=overlap(z),
        threshold=VLP_16_THRESHOLD,
    )  # fmt: skip
    seen = echo >= floor
    beam = np.repeat(np.arange(beams), per_beam)[seen]
    return np.bincount(beam, minlength=beams), z[seen], d[seen]


def same_counts(a: NDArray[np.int64], b: NDArray[np.int64]) -> float:
    """p-value of the two histograms of counts having one parent."""
    most = max(int(a.max()), int(b.max()))
    both = np.array([np.bincount(n, minlength=most + 1) for n in (a, b)])
    # Rare counts go into one bin, since chi-square needs about 10 in each.
    cut = int(np.argmax(np.cumsum(both.sum(axis=0)[::-1]) >= 20))
    cut = most - cut
    merged = np.concatenate([both[:, :cut], both[:, cut:].sum(axis=1, keepdims=True)], axis=1)
    return float(stats.chi2_contingency(merged).pvalue)


@pytest.mark.parametrize("case", CASES)
def test_thinning_is_the_whole_process(case: str) -> None:
    beams = 8000
    table, extinction = make(case)
    everything, z_all, d_all = draw_everything(case, extinction, beams, seed=11)
    draw = np.random.default_rng(12)
    thinned = counts(table, draw.uniform(size=beams))
    z, d = sample(table, *draw.uniform(size=(2, int(thinned.sum()))))
    assert z_all.size > 500
    assert table.mean == pytest.approx(everything.mean(), abs=deviations() * np.sqrt(table.mean / beams))
    assert same_counts(everything, thinned) > LIKELY
    assert stats.ks_2samp(z_all, z).pvalue > LIKELY
    assert stats.ks_2samp(d_all, d).pvalue > LIKELY
    # Range and size hang together: near the sensor small drops are seen as well.
    for near, far in ((0.0, 1.5), (1.5, 9.0)):
        ours, all_ = ((r > near) & (r <= far) for r in (z, z_all))
        assert stats.ks_2samp(d_all[all_], d[ours]).pvalue > LIKELY


def test_a_wrong_mean_or_range_would_be_noticed() -> None:
    """The checks above have the power to fail: a floor 20 % off shows in counts, ranges and sizes."""
    case, beams = "rain, Mie", 8000
    table, extinction = make(case, floor=0.8)
    everything, z_all, d_all = draw_everything(case, extinction, beams, seed=11)
    draw = np.random.default_rng(12)
    thinned = counts(table, draw.uniform(size=beams))
    z, d = sample(table, *draw.uniform(size=(2, int(thinned.sum()))))
    assert same_counts(everything, thinned) < 1e-3
    assert min(stats.ks_2samp(z_all, z).pvalue, stats.ks_2samp(d_all, d).pvalue) < 1e-3


@pytest.mark.parametrize("case", CASES)
def test_sampled_drops_can_be_seen(case: str) -> None:
    """To 1 %, which is what lines between the points of the tables may cost."""
    _, _, backscatter, overlap, near, far = CASES[case]
    table, extinction = make(case)
    z, d = sample(table, *np.random.default_rng(2).uniform(size=(2, 50_000)))
    echo = drop_echo(
        backscatter(d), beam_area_m2=area(z), range_m=z, extinction_per_m=extinction, overlap=overlap(z),
        threshold=VLP_16_THRESHOLD,
    )  # fmt: skip
    assert echo.min() > 0.99
    assert z.min() >= near
    assert z.max() <= far


def test_mean_against_a_double_integral() -> None:
    """Mirror balls: the least diameter has a closed form, and the tail is integrated by quad."""
    table, extinction = make("mirror balls")
    sizes = drop_sizes("deirmendjian", 40.0)

    def per_m(z: float) -> float:
        need = VLP_16_THRESHOLD * z**2 * float(area(np.float64(z))) * np.exp(2 * extinction * z)
        return float(area(np.float64(z))) * sizes.count(float(np.sqrt(16e6 * need)))

    mean, _ = integrate.quad(per_m, 1.0, 5.0, epsrel=1e-9, limit=200)
    assert table.mean == pytest.approx(mean, rel=1e-4)


def test_counts_are_poisson() -> None:
    table = Detectable(2.5, *(np.zeros(STEPS),) * 4)
    drawn = counts(table, (np.arange(100_000) + 0.5) / 100_000)
    expected = stats.poisson(2.5).pmf(np.arange(13)) * 100_000
    assert np.bincount(drawn, minlength=13)[:13] == pytest.approx(expected, abs=1.0)


@pytest.mark.parametrize("change", [{"rate": 0.0}, {"threshold": 1e9}, {"floor": 1e30}])
def test_nothing_to_see(change: dict[str, float]) -> None:
    table = detectable(
        drop_sizes("marshall-palmer", change.get("rate", 25.0)), drop_backscatter, area=area, overlap=open_at_1_m,
        extinction_per_m=0.003, threshold=change.get("threshold", VLP_16_THRESHOLD), floor=change.get("floor", 1.0),
        least_range_m=0.0, largest_range_m=100.0,
    )  # fmt: skip
    assert table.mean == 0.0
    assert np.all(counts(table, np.array([1e-7, 0.5, 1 - 1e-7])) == 0)
    for values in (*sample(table, [0.1, 0.9], [1e-7, 0.9]), table.range_m, table.log_tail, table.diameter_mm):
        assert np.all(np.isfinite(values))


def test_tables_are_even_and_in_order() -> None:
    table, _ = make("rain, overlap")
    for column in (table.range_m, table.log_tail, table.log_tail_steps, table.diameter_mm):
        assert column.shape in ((STEPS,), (TAIL_STEPS,))
        assert column.dtype == np.float64
        assert np.all(np.isfinite(column))
    assert np.all(np.diff(table.range_m) > 0)
    assert np.diff(table.log_tail_steps) == pytest.approx(np.diff(table.log_tail_steps)[0])
    assert np.all(np.diff(table.diameter_mm) <= 0)
    assert table.range_m[0] > 0.9


def test_running_maximum_of_a_backscatter_that_dips() -> None:
    """Drops of 1 to 2 mm that return less than those of 1 mm count as those of 1 mm do."""

    def dips(d: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.where((d > 1.0) & (d < 2.0), 0.1, 1.0) * d**2 * 1e-7

    def level(d: NDArray[np.float64]) -> NDArray[np.float64]:
        return np.maximum.accumulate(dips(d))

    tables = [
        detectable(
            drop_sizes("marshall-palmer", 25.0), curve, area=area, overlap=np.ones_like, extinction_per_m=0.0,
            threshold=VLP_16_THRESHOLD, least_range_m=1.0, largest_range_m=50.0,
        )
        for curve in (dips, level)
    ]  # fmt: skip
    assert tables[0].mean == tables[1].mean
    assert np.array_equal(tables[0].range_m, tables[1].range_m)


def test_a_vlp_16_sees_drops_within_a_few_metres() -> None:
    """A 2 mm drop to 2.1 m with Q_back = 0.1, to about 3 m with Mie's mean; drops crowd near the sensor."""
    z = np.linspace(0.5, 20.0, 20_000)

    def reach(sigma: float) -> float:
        echo = drop_echo(sigma, beam_area_m2=area(z), range_m=z, extinction_per_m=0.0028, threshold=VLP_16_THRESHOLD)
        return float(z[echo >= 1.0].max())

    assert reach(4e-6 * 0.1 / 16.0) == pytest.approx(2.1, abs=0.05)
    assert 2.5 < reach(float(drop_backscatter(2.0, 903.0))) < 3.5
    means = []
    for rate in (5.0, 25.0, 100.0):
        table = detectable(
            drop_sizes("marshall-palmer", rate), lambda d: drop_backscatter(d, 903.0), area=area, overlap=np.ones_like,
            extinction_per_m=rain_extinction(rate, wavelength_nm=903.0), threshold=VLP_16_THRESHOLD,
            least_range_m=1.0, largest_range_m=130.0,
        )  # fmt: skip
        means.append(table.mean)
        assert np.quantile(table.range_m, 0.95) < 3.6
        whole = float(beam_volume(100.0, EXIT_RADIUS_M, radius(100.0))) * drop_sizes("marshall-palmer", rate).count()
        assert table.mean < 1e-4 * whole
    # With 20 % of room for the noise of Q_back.
    assert means == pytest.approx([0.065, 0.18, 0.39], rel=0.2)


def test_obscured_share() -> None:
    assert obscured(drop_cross_section(2.0), np.pi * 0.01**2) == pytest.approx(2.0 * (2.0 / 20.0) ** 2)
    assert obscured(drop_cross_section(5.0), 1e-6) == 1.0


def test_either_kind_of_array() -> None:
    from parhelion.rays.device import engine

    mi = engine().mi
    sigma, z, d = np.array([1e-8, 1e-7, 1e-6]), np.array([1.0, 3.0, 9.0]), np.array([0.2, 2.0, 6.0])
    fixed = {"extinction_per_m": 0.01, "threshold": VLP_16_THRESHOLD}
    kernel = drop_echo(mi.Float(sigma), beam_area_m2=mi.Float(area(z)), range_m=mi.Float(z), **fixed)
    assert kernel.numpy() == pytest.approx(drop_echo(sigma, beam_area_m2=area(z), range_m=z, **fixed), rel=1e-5)
    taken = drop_cross_section(d)
    share = obscured(mi.Float(taken), mi.Float(area(z)))
    assert share.numpy() == pytest.approx(obscured(taken, area(z)), rel=1e-5)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"threshold": 0.0}, "threshold: must be finite and above 0 /\\(m\\^2 sr\\), got 0.0"),
        ({"floor": float("nan")}, "floor: must be finite and above 0, got nan"),
        ({"extinction_per_m": -1.0}, "extinction_per_m: must be finite and 0 /m or more, got -1.0"),
        ({"least_range_m": -1.0}, "least_range_m: must be finite and 0 m or more"),
        ({"largest_range_m": 0.5}, "largest_range_m: must be finite and above the least, got 0.5"),
        ({"area": np.zeros_like}, "area: must be finite and above 0 m\\^2 at every range"),
        ({"backscatter": lambda d: d * np.nan}, "backscatter: must be finite and 0 m\\^2/sr or more"),
    ],
)
def test_bad_input(change: dict[str, object], message: str) -> None:
    arguments: dict[str, object] = {
        "backscatter": flake_backscatter, "area": area, "overlap": np.ones_like, "extinction_per_m": 0.0,
        "threshold": VLP_16_THRESHOLD, "least_range_m": 1.0, "largest_range_m": 50.0,
    }  # fmt: skip
    with pytest.raises(ConfigError, match=message):
        detectable(drop_sizes("marshall-palmer", 5.0), **(arguments | change))  # type: ignore[arg-type]
