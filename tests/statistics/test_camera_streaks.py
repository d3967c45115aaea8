"""Streaks as random numbers: how many there are, and where. Significance 1e-4 a test."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats
from tests.camera_rigs import expected_count

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.core.image import Intrinsics
from parhelion.sensors.optics.camera.lattice import drops_in_cells, particle_classes
from parhelion.sensors.optics.camera.streaks import streaks_of

SIGNIFICANCE = 1e-4
LENS = Intrinsics(320, 240, 300.0, 300.0, 159.5, 119.5)
POSE = ph.Pose((3.0, -2.0, 2.0), rpy_deg=(0.0, 10.0, 33.0))


@pytest.mark.parametrize("model", ["vane", "physical"])
@pytest.mark.parametrize("weather", [{"rain_rate_mm_h": 2}, {"rain_rate_mm_h": 25}, {"snow_rate_mm_h": 1}], ids=str)
def test_number_of_streaks(weather: dict[str, float], model: str) -> None:
    """Sums over views that share no drop are Poisson numbers of the sum of means."""
    seeds, total, mean = range(6), 0, 0.0
    for seed in seeds:
        sky = ph.Weather(**weather, seed=seed)
        found = streaks_of(sky, LENS, POSE, 17.0 + seed, 0.004, model=model, most=4000)
        total += int(found.inside.sum())
        mean += expected_count(particle_classes(sky, 0.0, POSE.xyz, model), LENS, 4000)
    lower, upper = stats.poisson.ppf([SIGNIFICANCE / 2, 1 - SIGNIFICANCE / 2], mean)
    assert lower <= total <= upper


def test_number_in_cells_is_a_poisson_number() -> None:
    (kind,) = particle_classes(ph.Weather(rain_rate_mm_h=1), 0.0, np.zeros(3), "vane")
    few = type(kind)(**{**kind.__dict__, "number_per_m3": 0.5})
    counts = [len(drops_in_cells(few, 1, np.array([[i, -i, 2 * i]]), 0.0).diameter_m) for i in range(2000)]
    wanted = stats.poisson.pmf(np.arange(12), 4.0)
    wanted = np.append(wanted[:11], 1.0 - wanted[:11].sum()) * 2000
    found = np.bincount(np.minimum(counts, 11), minlength=12)
    assert stats.chisquare(found, wanted).pvalue > SIGNIFICANCE


@pytest.mark.parametrize("time", [0.0, 3.7, 86_400.0])
def test_drops_stay_evenly_spread(time: float) -> None:
    """Depths of the view's drops go as z^2, and columns and rows are even, at any time."""
    found = streaks_of(ph.Weather(rain_rate_mm_h=10, seed=2), LENS, POSE, time, 0.004, model="vane", most=8000)
    at = 0.5 * (found.start + found.end)[found.inside]
    depth = found.depth_m[found.inside]
    far = depth.max()
    # With the largest depth as the end, the others are even in (0, 1).
    even = np.sort((depth**3 - 0.1**3) / (far**3 - 0.1**3))[:-1]
    assert stats.kstest(even, "uniform").pvalue > SIGNIFICANCE
    # The middle of the ends is the middle of the path to second order, less than a tenth of a pixel.
    assert stats.kstest((at[:, 0] + 0.5) / 320, "uniform").pvalue > SIGNIFICANCE
    assert stats.kstest((at[:, 1] + 0.5) / 240, "uniform").pvalue > SIGNIFICANCE


def row_of_cells(cell_m: float) -> np.ndarray:
    """Cells of 320 cubic metres together."""
    count = round(320.0 / cell_m**3)
    return np.stack([np.arange(count), np.zeros(count), np.zeros(count)], axis=1).astype(np.int64)


def test_sizes_are_those_of_the_weather() -> None:
    kinds = particle_classes(ph.Weather(rain_rate_mm_h=25), 0.0, np.zeros(3))
    sizes = np.concatenate([drops_in_cells(kind, 9, row_of_cells(kind.cell_m), 1.0).diameter_m for kind in kinds])
    slope = 4.1e3 * 25**-0.21  # Marshall and Palmer [1/m]
    assert stats.kstest(slope * (sizes - 0.5e-3), "expon").pvalue > SIGNIFICANCE


def test_velocities_are_even_within_fifteen_percent() -> None:
    (kind,) = particle_classes(ph.Weather(rain_rate_mm_h=5, wind_m_s=(4, 2, 0)), 0.0, np.zeros(3), "vane")
    cells = np.stack([np.arange(12), np.zeros(12), np.zeros(12)], axis=1).astype(np.int64)
    found = drops_in_cells(kind, 9, cells, 1.0).velocity_m_s / np.array(kind.velocity_m_s)
    for axis in range(3):
        # Steps of 1 / 512 move the distribution by 1 / 1024 at most.
        test = stats.kstest((found[:, axis] - 0.85) / 0.3, "uniform")
        assert test.statistic < stats.kstwo.isf(SIGNIFICANCE, len(found)) + 1 / 1024


def test_vane_s_blend_is_an_option_of_the_camera() -> None:
    """VANE's streaks approach the white of the exposure; physical ones have the light of the sky."""
    world = ph.World()
    world.add(ph.shapes.plane(200, 200), material="lambert-10")
    world.weather = ph.Weather(rain_rate_mm_h=50)
    brightest = {}
    for blend in ("physical", "vane"):
        camera = ph.Camera(
            "generic/vga", samples=1, bounces=0, truth=(), noise=False, exposure_s=1e-4, gain_db=0.0, developed=False,
            rain_blend=blend,
        )  # fmt: skip
        wet = camera.shoot(world, pose=ph.Pose((0, 0, 2), rpy_deg=(0, 20, 0)), seed=3).colour[300:].mean(axis=2)
        brightest[blend] = float(np.percentile(wet, 99.9) / np.median(wet))
    assert brightest["vane"] > 2.0 * brightest["physical"] > 2.0
    with pytest.raises(ConfigError, match="rain_blend"):
        ph.Camera("generic/vga", rain_blend="wet")  # type: ignore[arg-type]
