"""Materials without a profile through the nearest calibrated one, and profiles in weather."""

from __future__ import annotations

import time
import warnings

import numpy as np
import pytest

import parhelion as ph
from calibrate_rigs import sheet_of
from parhelion.sensors.optics.lidar.config import MaterialProfile
from parhelion.sensors.optics.lidar.profiles import UncalibratedMaterialWarning, drop_at, returned, substitute_for
from parhelion.surfaces.library import material
from parhelion.weather.air import air_contents

VLP, OUSTER, SICK = "velodyne/vlp-16", "ouster/os1-32", "sick/lms-111"
DROP, LOW, HIGH, SPLIT = 0.1, 40.0, 80.0, 0.25
"""Properties of the profiles: lost shots, cells [LOW, LOW + 1] and [HIGH, HIGH + 1], and the share of the upper one."""
DISTANCE_M = 4.0
SIGMAS = 4.0
"""Tolerance of a mean in standard errors: exceeded by chance once in 16 000 tests."""


def profile(drop: float = DROP, cells: bool = True) -> MaterialProfile:
    """Profile that is the same at all angles: two cells of intensity far apart, or two single values."""
    if cells:
        edges = [LOW, LOW + 1.0, *np.arange(LOW + 2.0, HIGH + 1.5).tolist()]
        row = [1.0 - SPLIT, *[0.0] * (len(edges) - 3), SPLIT]
    else:
        edges, row = [LOW, HIGH], [1.0 - SPLIT, SPLIT]
    return MaterialProfile(
        angle_deg=[0.0, 45.0, 90.0], shots=[1000, 1000], drop=[drop, drop], drop_error=[0.01, 0.01],
        range_bias_m=[0.0, 0.0], range_sigma_m=[0.01, 0.01], intensity=edges, kind="cells" if cells else "values",
        counts=[row, row], distance_m=(1.0, 6.0), reference_m=DISTANCE_M,
    )  # fmt: skip


def mean_and_variance(factor: float) -> tuple[float, float]:
    """Mean and variance of intensities times a factor, rounded to integers."""
    fine = (np.arange(4000) + 0.5) / 4000.0
    low, high = np.rint(factor * (LOW + fine)), np.rint(factor * (HIGH + fine))
    mean = (1.0 - SPLIT) * low.mean() + SPLIT * high.mean()
    return float(mean), float((1.0 - SPLIT) * (low**2).mean() + SPLIT * (high**2).mean() - mean**2)


def board(of: object, weather: ph.Weather | None = None) -> ph.World:
    world = ph.World()
    place = ph.Pose((DISTANCE_M + 0.05, 0.0, 0.0))
    world.add(ph.shapes.box(0.1, 3, 1.2), material=of, label="board", pose=place)  # type: ignore[arg-type]
    world.weather = weather
    return world


def seen(lidar: ph.Lidar, world: ph.World, frames: int = 8) -> tuple[np.ndarray, np.ndarray, int]:
    """Intensities and ranges of returns from the board, and the number of shots aimed at it, excluding its rim."""
    at = lidar.shots().direction.astype(np.float64)
    with np.errstate(divide="ignore", invalid="ignore"):
        aimed = (at[:, 0] > 0) & (np.abs(at[:, 1] / at[:, 0]) < 0.3) & (np.abs(at[:, 2] / at[:, 0]) < 0.1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncalibratedMaterialWarning)
        scans = lidar.scan_many(world, [ph.Pose()] * frames, seed=2, frames=list(range(frames)))
    level, metres = [], []
    for scan in scans:
        own = aimed[scan.fields["shot"]] & (scan.fields["label"] != 0) & (scan.fields["range"] > DISTANCE_M - 0.3)
        level.append(scan.fields["intensity"][own].astype(np.float64))
        metres.append(scan.fields["range"][own].astype(np.float64))
    return np.concatenate(level), np.concatenate(metres), frames * int(aimed.sum())


def holds(level: np.ndarray, shots: int, mean: float, variance: float, drop: float) -> None:
    """Mean intensity and drop rate, each within `SIGMAS` of its own error."""
    assert abs(level.mean() - mean) < SIGMAS * np.sqrt(variance / len(level))
    lost = 1.0 - len(level) / shots
    assert abs(lost - drop) < SIGMAS * np.sqrt(drop * (1.0 - drop) / shots)


def test_a_material_with_the_same_model_gives_the_same_bytes() -> None:
    known = material("plywood")
    lidar = ph.Lidar(sheet_of(VLP, {"plywood": profile()}))
    one = lidar.scan(board(known), pose=ph.Pose(), seed=3)
    with pytest.warns(UncalibratedMaterialWarning, match="that of plywood for my-board"):
        other = lidar.scan(board(known.model_copy(update={"name": "my-board"})), pose=ph.Pose(), seed=3)
    assert one.xyz.tobytes() == other.xyz.tobytes()
    assert one.fields["intensity"].tobytes() == other.fields["intensity"].tobytes()
    with warnings.catch_warnings():
        warnings.simplefilter("error")  # named once
        lidar.scan(board(known.model_copy(update={"name": "my-board"})), pose=ph.Pose(), seed=4)


@pytest.mark.parametrize(("darker", "ratio"), [("lambert-20", 0.5), ("lambert-80", 2.0)])
def test_intensities_follow_the_ratio_of_the_models_and_lost_shots_the_signal(darker: str, ratio: float) -> None:
    lidar = ph.Lidar(sheet_of(VLP, {"lambert-40": profile()}))
    level, _, shots = seen(lidar, board(darker))
    holds(level, shots, *mean_and_variance(ratio), 1.0 - (1.0 - DROP) ** (1.0 / ratio))


def test_lone_values_stay_and_bytes_end_at_255() -> None:
    two = ph.Lidar(sheet_of(VLP, {"lambert-40": profile(cells=False)}))
    level, _, shots = seen(two, board("lambert-20"), frames=3)
    assert set(np.unique(level)) == {LOW, HIGH}
    assert abs(1.0 - len(level) / shots - (1.0 - 0.9**2)) < SIGMAS * np.sqrt(0.19 * 0.81 / shots)
    bright, _, _ = seen(ph.Lidar(sheet_of(VLP, {"lambert-10": profile()})), board("lambert-100"), frames=1)
    assert bright.max() == 255.0


def test_a_logarithmic_scale_moves_by_the_logarithm() -> None:
    """The echo amplitude of 2D scanners: 255 ln(P) / ln(100 000)."""
    sheet = sheet_of(SICK, {"lambert-40": profile()})
    ratio = 255.0 * np.log(0.5) / np.log(1e5)
    level, _, _ = seen(ph.Lidar(sheet), board("lambert-20"), frames=60)
    mean, variance = mean_and_variance(1.0)
    step = sheet.intensity.resolution or 0.0
    assert abs(level.mean() - mean - ratio) < SIGMAS * np.sqrt((variance + step**2 / 12.0) / len(level)) + 0.5 * step


def test_the_nearest_material_has_the_most_similar_returns() -> None:
    names = ("lambert-10", "lambert-50", "bare-metal", "no-such-material")
    worlds = [material(name) for name in ("lambert-12", "lambert-40", "glass", "retro-sheeting")]
    found, alone = substitute_for(names, worlds, 905.0)
    assert {one.name: one.calibrated for one in found} == {"lambert-12": "lambert-10", "lambert-40": "lambert-50"}
    assert alone == ["glass", "retro-sheeting"]
    np.testing.assert_allclose(found[0].ratio(np.array([0.0, 60.0])), 1.2, rtol=1e-6)
    assert found[0].distance == pytest.approx(np.log(1.2), rel=1e-6)
    np.testing.assert_allclose(returned([material("lambert-50")], np.array([60.0]), 905.0), 0.25 / np.pi, rtol=1e-5)


def test_lost_shots_by_signal_have_their_limits() -> None:
    ratio = np.array([1e-6, 0.5, 1.0, 2.0])
    np.testing.assert_allclose(drop_at(0.19, ratio), [1.0, 1.0 - 0.81**2, 0.19, 0.1], atol=1e-12)
    np.testing.assert_allclose(drop_at(np.array([0.0, 1.0]), 0.5), [0.0, 1.0], atol=1e-8)


@pytest.mark.parametrize("sensor", [VLP, OUSTER])
def test_fog_dims_profiled_intensities_by_both_ways(sensor: str) -> None:
    """exp(-2 alpha R) on intensities, and lost shots as the signal falls; a board in an otherwise empty world."""
    weather = ph.Weather(visibility_m=60.0)
    sheet = sheet_of(sensor, {"lambert-40": profile()})
    level, metres, shots = seen(ph.Lidar(sheet), board("lambert-40", weather), frames=4)
    alpha = sum(part.extinction_per_m for part in air_contents(weather, 0.0, sheet.wavelength_nm).components)
    clear, clear_m, _ = seen(ph.Lidar(sheet), board("lambert-40"), frames=4)
    left = np.exp(-2.0 * alpha * metres)
    assert left.mean() < 0.75
    if sensor == VLP:
        holds(level, shots, *mean_and_variance(float(left.mean())), float(np.mean(1.0 - (1.0 - DROP) ** (1.0 / left))))
        return
    # Ouster sensors count photons, which also fall with range: compare with clear air at the same ranges.
    expected = np.mean(clear * np.exp(-2.0 * alpha * clear_m))
    error = np.std(clear) * np.sqrt(2.0 / len(level))
    assert abs(level.mean() - expected) < SIGMAS * error


def test_rain_dims_profiled_intensities_as_it_dims_the_power() -> None:
    """Drops near the sensor are drawn individually and dim only their beam, in power and intensity alike."""
    lidar = ph.Lidar(sheet_of(VLP, {"lambert-40": profile(drop=0.0)}))
    rain = ph.Weather(rain_rate_mm_h=100.0)
    level, power = [], []
    for weather in (None, rain):
        scan = lidar.scan(board("lambert-40", weather), pose=ph.Pose(), seed=3)
        of_shots = np.full((len(scan.shots), 2), np.nan)
        own = (np.abs(scan.xyz[:, 1]) < 1.2) & (np.abs(scan.xyz[:, 2]) < 0.4) & (scan.xyz[:, 0] > 3.5)
        of_shots[scan.fields["shot"][own]] = np.stack([scan.fields[n][own] for n in ("intensity", "power")], axis=1)
        level.append(of_shots[:, 0])
        power.append(of_shots[:, 1])
    both = np.isfinite(level[0]) & np.isfinite(level[1])
    one, two = (level[1] / level[0])[both], (power[1] / power[0])[both]
    assert both.sum() > 500
    assert np.quantile(two, 0.02) < 0.85 < two.mean() < 0.97  # single drops are visible
    # Both scans use the same random draws: they differ by rounding to integers, 1 of 40 in either.
    step = np.sqrt(2.0 / 12.0) / LOW
    assert abs((one - two).mean()) < SIGMAS * np.hypot(step, (one - two).std()) / np.sqrt(both.sum())
    assert np.corrcoef(one, two)[0, 1] > 0.9


def test_empty_weather_is_clear_air_to_the_bit() -> None:
    lidar = ph.Lidar(sheet_of(VLP, {"lambert-40": profile()}))
    clear, none = (lidar.scan(board("lambert-40", weather), pose=ph.Pose(), seed=3) for weather in (None, ph.Weather()))
    assert clear.xyz.tobytes() == none.xyz.tobytes()
    assert clear.fields["intensity"].tobytes() == none.fields["intensity"].tobytes()


@pytest.fixture(scope="module")
def city() -> ph.World:
    return ph.World.load("city")


def test_the_nearest_material_costs_less_than_a_twentieth_of_a_scan(city: ph.World) -> None:
    """Processor time of alternating scans, by the median ratio, with the error from the spread of the ratios."""
    lidars = [ph.Lidar(sheet_of(OUSTER, {"plywood": profile()}, unknown=how)) for how in ("usual", "nearest")]
    ratios = []
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UncalibratedMaterialWarning)
        for frame in range(20):
            spent = []
            for lidar in lidars:
                before = time.process_time()
                lidar.scan(city, seed=frame)
                spent.append(time.process_time() - before)
            ratios.append(spent[1] / spent[0])
    ratios = ratios[4:]  # the first ones compile kernels
    error = 1.2533 * np.std(ratios, ddof=1) / np.sqrt(len(ratios))
    assert np.median(ratios) < 1.05 + 2.0 * error
