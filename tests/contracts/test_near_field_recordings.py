"""Simulated scans against recordings of real receivers: signal, range noise, and what weather adds close by.

Tests that need a recording skip where it is absent (`../shared/data/lidar`, see docs/figures/recordings.py). Counts in
weather need none: they are held to what was found in recordings of the same sensors, whose rates and visibilities are
unknown, so that bounds are wide. Where a bound could be missed by chance, the text states its distance in deviations.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import parhelion as ph

SEEDS = (1, 2)
PLACES = 8


def recorded_pair(figures: Any, name: str) -> Any:
    try:
        return figures("simulated_recordings").pair(name)
    except FileNotFoundError as missing:
        pytest.skip(str(missing))


@pytest.fixture
def clutter(figures: Any) -> Any:
    return figures("clutter")


@pytest.fixture(scope="module")
def city() -> ph.World:
    return ph.World.load("city")


@pytest.fixture(scope="module")
def harbour() -> ph.World:
    return ph.World.load("harbour")


@pytest.fixture
def drive(figures: Any, city: ph.World) -> list[ph.Pose]:
    """Places along the drive through the city."""
    poses: list[ph.Pose] = figures("weather_page").places(city, PLACES)
    return poses


# Signal ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["os0-32", "os1-32"])
def test_signal_times_squared_range_follows_the_recording(figures: Any, name: str) -> None:
    """Photons x R^2 over reflectance, in photons x m^2: shape and height, within 20 % from 2 m on."""
    both = recorded_pair(figures, name)
    found = figures("simulated_recordings").strengths(both)
    assert found.many.sum() >= 10
    np.testing.assert_allclose(found.ratio[found.many], 1.0, atol=0.2)


@pytest.mark.parametrize("name", ["os0-32", "os1-32"])
def test_signal_in_a_comparable_scene_has_the_recorded_spread(figures: Any, name: str) -> None:
    """1, 50 and 99 % of the photons of returns within a factor of two.

    The scene is the drive through the city, the OS0 as high above the road as the recorded one; ranges are alike there.
    """
    both = recorded_pair(figures, name)
    real, made = both.recorded, both.joined()
    ranges = [np.median(frame.range[~frame.lost]) for frame in (real, made)]
    assert ranges[1] == pytest.approx(ranges[0], rel=0.25)
    measures = figures("simulated_recordings")
    ratio = measures.percentiles(made) / measures.percentiles(real)
    assert np.all((ratio > 0.5) & (ratio < 2.0)), f"1 / 50 / 99 % of simulated over recorded photons: {ratio.round(2)}"


# Range noise ----------------------------------------------------------------------------------------------------------

SHOTS = 20_000
"""The scatter of so many ranges is known to 0.5 %."""


@pytest.mark.parametrize(
    ("preset", "weak_m", "strong_m", "at_20_cm", "bright_cm"),
    [
        ("ouster/os0-32", 11.2, 7.0, 0.5, 0.5),
        ("ouster/os1-32", 27.0, 12.0, 0.7, 0.7),
        ("ouster/os2-32", 44.0, 30.0, 2.1, 1.5),
    ],
)
def test_range_noise_of_ousters(
    figures: Any, preset: str, weak_m: float, strong_m: float, at_20_cm: float, bright_cm: float
) -> None:
    """On a flat wall at 20 photons, and above 200, within 50 % of what recordings show."""
    page = figures("page")
    steady = {"azimuth_jitter_deg": 0.0, "elevation_jitter_deg": 0.0}
    fan = page.raster(azimuth_deg=(0.0, 1e-9), columns=SHOTS)
    lidar = ph.Lidar(page.changed(preset, pattern=fan, noise=steady, beam={"sub_rays": 1}))
    for range_m, material, expected_cm, fewest, most in (
        (weak_m, "lambert-10", at_20_cm, 18.0, 22.0),
        (strong_m, "lambert-90", bright_cm, 200.0, 2000.0),
    ):
        scan = lidar.scan(page.wall(range_m, material), pose=ph.Pose(), seed=3)
        assert fewest <= np.median(scan.intensity) <= most
        assert 100.0 * np.std(scan.range) == pytest.approx(expected_cm, rel=0.5)


# Fog ------------------------------------------------------------------------------------------------------------------


def test_an_hdl_32e_in_fog_has_no_points_close_by_and_loses_most_shots(
    clutter: Any, city: ph.World, drive: list[ph.Pose]
) -> None:
    """Recorded: no return at 0.8 to 3 m in 911 400 shots of rings above +2 degrees, 65 % of them lost.

    At the crossing nothing stands within 3 m, along the drive branches do. The expected number of fog points is far
    below 1; the share of lost shots is known to 0.2 %.
    """
    fog = ph.Weather(visibility_m=75.0)
    for poses in ([city.viewpoint] * 4, drive):
        found = clutter.fog_count(clutter.scans_of("velodyne/hdl-32e", city, fog, poses, SEEDS), 3.0, above_deg=2.0)
        assert found.near.percent < 0.1
        assert 50.0 < found.lost.percent < 80.0
        if poses is not drive:
            assert found.near_surfaces.found == 0


def test_an_hdl_64e_in_fog_has_hardly_a_point_close_by(clutter: Any, city: ph.World, drive: list[ph.Pose]) -> None:
    """Recorded in dense fog: 0.00 % of the shots of the top 7 rings nearer than 2.5 m, 0.07 % in one of 20 scans."""
    scans = clutter.scans_of("velodyne/hdl-64e", city, ph.Weather(visibility_m=100.0), drive, SEEDS[:1])
    assert clutter.fog_count(scans, 2.5, highest=7).near.percent < 1.0


@pytest.mark.parametrize("name", ["city", "harbour"])
def test_thin_fog_gives_a_vlp_16_no_points_worth_the_name(
    figures: Any, clutter: Any, request: pytest.FixtureRequest, name: str
) -> None:
    """About 40 points in 231 000 shots in the harbour; the bound is 231."""
    world = request.getfixturevalue(name)
    poses = figures("weather_page").places(world, PLACES)
    fog = ph.Weather(visibility_m=500.0)
    count, _ = clutter.points_of(clutter.scans_of("velodyne/vlp-16", world, fog, poses, SEEDS[:1]), clutter.FOG)
    assert count.percent < 0.1


# Rain -----------------------------------------------------------------------------------------------------------------


def test_rain_gives_a_vlp_16_a_fraction_of_a_percent(clutter: Any, harbour: ph.World) -> None:
    """25 mm/h on the water: about 350 drops in 231 000 shots, known to 19; the bounds are 46 and 3470."""
    rain = ph.Weather(rain_rate_mm_h=25.0)
    scans = clutter.scans_of("velodyne/vlp-16", harbour, rain, [harbour.viewpoint] * 8, SEEDS[:1])
    count, range_m = clutter.points_of(scans, clutter.RAIN)
    assert 0.02 < count.percent < 1.5
    assert np.median(range_m) < 4.0


@pytest.mark.parametrize(("rate_mm_h", "most_percent"), [(1.0, 0.1), (25.0, 1.0)])
def test_isolated_points_of_an_hdl_64e_in_rain(
    clutter: Any, city: ph.World, drive: list[ph.Pose], rate_mm_h: float, most_percent: float
) -> None:
    """Recorded: a median of 0.007 % of the upper 24 rings at 1.6 to 4 m, 0.52 % in one of 20 scans.

    Edges of objects in the city alone make 0.03 %, so that the lower bound leaves three times that.
    """
    scans = clutter.scans_of("velodyne/hdl-64e", city, ph.Weather(rain_rate_mm_h=rate_mm_h), drive, SEEDS[:1])
    every, of_rain = clutter.isolated(scans, 1.6, 4.0, 24)
    assert every.percent < most_percent
    assert of_rain.found <= every.found


# Snow -----------------------------------------------------------------------------------------------------------------


def test_snow_around_a_vlp_32c_is_as_much_as_published(clutter: Any, city: ph.World, drive: list[ph.Pose]) -> None:
    """Within 4 m either way: published 25 to 1500 points per scan from light to extreme snow.

    Means over the drive: about 130 at 0.5 mm/h and 1080 at 2.5 mm/h, known to 3 and 8 points. Single scans differ by
    how open the place is, from 80 to 1480.
    """
    means = []
    for rate in (0.5, 1.0, 1.5, 2.0, 2.5):
        scans = clutter.scans_of("velodyne/vlp-32c", city, ph.Weather(snow_rate_mm_h=rate), drive, SEEDS)
        counts = clutter.within_box(scans, clutter.SNOW, 4.0)
        assert min(counts) >= 25
        means.append(float(np.mean(counts)))
    assert means[0] >= 25.0
    assert means[-1] <= 1500.0
    assert np.all(np.diff(means) > 0.0), means
