"""Dirty windows: shares over time, what shots and pixels lose, echoes of the window, glare."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.core.errors import ConfigError
from parhelion.sensors.optics.window import (
    CELLS,
    DROP_MM,
    KINDS,
    MOST_DROPS,
    MOST_DROPS_BLOWN,
    SPREAD,
    Window,
    covered_disc,
    drop_growth_per_s,
    drop_share,
    drops_in_picture,
    through,
    window_map,
    window_of,
)
from parhelion.weather.media.rain import terminal_velocity

NAMES = tuple(KINDS)


def hall() -> ph.World:
    """Inside of a room, so that every shot meets a wall at some metres."""
    world = ph.World()
    for xyz, size in (((9, 0, 0), (0.2, 40, 40)), ((-9, 0, 0), (0.2, 40, 40)), ((0, 9, 0), (40, 0.2, 40)),
                      ((0, -9, 0), (40, 0.2, 40))):  # fmt: skip
        world.add(ph.shapes.box(*size), material="concrete", label="wall", pose=ph.Pose(xyz=xyz))
    return world


def scan(window: Any, world: ph.World | None = None, **where: Any) -> ph.Scan:
    lidar = ph.Lidar("velodyne/hdl-32e", noise=False, window=window)
    return lidar.scan(world or hall(), **({"pose": ph.Pose()} | where), seed=1)


# ---- shares ---------------------------------------------------------------------------------------------------------


def test_growth_of_drops_by_water_met() -> None:
    """In one second at 10 m/s, a window meets R v / v_t of water; each drop covers a disc of 1.5 times its diameter."""
    rate, speed = 5.0, 10.0
    water_m = rate * 1e-3 / 3600.0 * speed / float(terminal_velocity(1e-3 * DROP_MM))
    drops = water_m / (np.pi / 6.0 * (1e-3 * DROP_MM) ** 3)
    covered = drops * np.pi / 4.0 * (SPREAD * 1e-3 * DROP_MM) ** 2
    assert drop_growth_per_s(rate, speed) == pytest.approx(covered, rel=1e-12)
    assert drop_share(covered, 1.0) == pytest.approx(covered, rel=0.01)  # the first drops do not overlap
    assert drop_share(covered, 1e6) == pytest.approx(MOST_DROPS)
    assert drop_growth_per_s(rate, 0.0) == drop_growth_per_s(0.0, speed) == 0.0


def test_wiper_and_blower() -> None:
    rain = ph.Weather(rain_rate_mm_h=20)
    drops = NAMES.index("drops")
    wiped = parsed({"drops": "from-rain", "wiper_s": 4.0})
    growth = drop_growth_per_s(20.0, 25.0)
    for time in (1.0, 3.5):
        assert wiped.shares(time, rain, 25.0)[drops] == pytest.approx(drop_share(growth, time), abs=0.006)
        assert wiped.shares(time + 8.0, rain, 25.0) == wiped.shares(time, rain, 25.0)
    assert wiped.shares(4.0, rain, 25.0)[drops] == 0.0
    assert parsed({"drops": "from-rain"}).shares(0.0, rain, 25.0)[drops] == MOST_DROPS
    assert parsed({"drops": "from-rain", "blower": True}).shares(0.0, rain, 25.0)[drops] == MOST_DROPS_BLOWN
    assert parsed({"drops": "from-rain"}).shares(0.0, None, 25.0)[drops] == 0.0
    shower = ph.Weather(rain_rate_mm_h=[[10, 0], [10.001, 20]])
    found = [parsed({"drops": "from-rain"}).shares(time, shower, 25.0)[drops] for time in (5.0, 30.0, 120.0)]
    assert found[0] == 0.0 < found[1] < found[2]


def parsed(fields: dict[str, Any]) -> Window:
    window = window_of(fields)
    assert window is not None
    return window


def test_options_and_errors() -> None:
    assert window_of(None) is None
    assert window_of({}) is None
    assert window_of({"mud": 0.0}) is None
    assert parsed({"mud": [[0, 0], [10, 0.5]]}).shares(5.0, None, 0.0)[NAMES.index("mud")] == 0.25
    for wrong, words in (({"mud": 2}, "mud: must be from 0 to 1"), ({"dirt": 1}, "dirt"), (3, "expected fields")):
        with pytest.raises(ConfigError, match=words):
            ph.Lidar("velodyne/vlp-16", window=wrong)


# ---- maps -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 5, 77])
@pytest.mark.parametrize("name", NAMES)
def test_dirt_covers_its_share(seed: int, name: str) -> None:
    """The mean over the window is the share for any size of beam; dirt grows in place."""
    for share in (0.1, 0.5):
        for diameter in (0.0, 9.5):
            assert covered_disc(seed, name, share, diameter).mean() == pytest.approx(share, abs=1e-4)
    small, large = (covered_disc(seed, name, share, 0.0) for share in (0.1, 0.3))
    assert np.all(large - small > -1e-9)


def test_kinds_lie_independently_and_conserve_light() -> None:
    found = window_map(3, (0.2, 0.3, 0.1, 0.2, 0.1), 6.0)
    assert np.all(found.transmittance + found.scattered <= 1.0 + 1e-12)
    assert np.all(found.scattered >= 0.0)
    alone = [window_map(3, tuple(0.2 * (name == one) for one in NAMES), 6.0).transmittance for name in NAMES]
    both = window_map(3, (0.2,) * len(NAMES), 6.0).transmittance
    np.testing.assert_allclose(both, np.prod(alone, axis=0), rtol=1e-12)


def test_directions_find_their_place() -> None:
    values = np.zeros(CELLS)
    values[:, 1:200] = 1.0  # to the left of the axis, up to 99 mm along the circumference
    direction = np.array([[np.cos(a), np.sin(a), 0.0] for a in np.radians([-20.0, 20.0, 100.0, 170.0])])
    assert through(values, direction, 40.75).tolist() == [0.0, 1.0, 1.0, 0.0]


# ---- lidar ----------------------------------------------------------------------------------------------------------


@pytest.mark.slow
def test_shots_lose_what_the_window_takes() -> None:
    clean = scan(None)
    assert clean.shots.window is None
    for window in ({"film": 1.0}, {"mud": 0.2, "drops": 0.1, "seed": 4}):
        dirty = scan(window)
        passed = dirty.shots.window
        assert passed is not None
        both, first, second = np.intersect1d(clean.fields["shot"], dirty.fields["shot"], return_indices=True)
        ratio = dirty.fields["power"][second] / clean.fields["power"][first]
        np.testing.assert_allclose(ratio, passed[both], rtol=1e-3)
        # The firmware does not know of the dirt, so its reflectivity falls too.
        ratio = dirty.fields["reflectivity"][second] / clean.fields["reflectivity"][first]
        np.testing.assert_allclose(ratio, passed[both], rtol=1e-3)
        lost = np.setdiff1d(clean.fields["shot"], dirty.fields["shot"])
        assert np.all(clean.fields["power"][np.searchsorted(clean.fields["shot"], lost)] * passed[lost] < 1.01)
    np.testing.assert_allclose(scan({"film": 1.0}).shots.window, KINDS["film"].transmittance ** 2, rtol=1e-6)
    same = scan({"mud": 0.0})
    np.testing.assert_array_equal(same.xyz, clean.xyz)
    assert same.shots.window is None


@pytest.mark.slow
def test_echoes_of_the_window() -> None:
    hidden, shown = scan({"mud": 0.3}), scan({"mud": 0.3, "near_returns": True})
    window = shown.fields["origin"] == ORIGINS.index("window")
    assert window.sum() > 1000
    assert ORIGINS.index("window") not in hidden.fields["origin"]
    shortest = ph.Lidar("velodyne/hdl-32e").config.range.min_m
    np.testing.assert_allclose(np.linalg.norm(shown.xyz[window], axis=1), shortest, atol=0.1)
    assert np.all(shown.fields["range"][window] == np.float32(shortest))
    shots = shown.fields["shot"][window]
    assert len(np.unique(shots)) == len(shots)
    assert np.all(np.diff(shown.fields["shot"].astype(int)) >= 0)
    assert len(shown) == int(shown.shots.return_count.sum())
    assert shown.shots.window is not None
    assert np.all(shown.shots.window[shots] < 0.3)
    np.testing.assert_array_equal(np.isin(shots, shown.fields["shot"][~window]), False)


@pytest.mark.slow
def test_drops_follow_the_motion_of_the_sensor() -> None:
    """A sensor at rest meets no drops; a fast one loses light until the next wipe."""
    world = hall()
    world.weather = ph.Weather(rain_rate_mm_h=[[0, 20], [60, 20]])
    window = {"drops": "from-rain", "wiper_s": 10.0}
    drive = ph.ConstantTwist(ph.Pose(), velocity=(0.0, 0.0, 20.0))
    assert scan(window, world).shots.window is None
    fast, wiped = (scan(window, world, pose=None, trajectory=drive, time=time) for time in (0.9, 10.0))
    assert fast.shots.window is not None
    assert 0.9 < fast.shots.window.mean() < 0.999
    assert wiped.shots.window is None


# ---- camera ---------------------------------------------------------------------------------------------------------


def picture(window: Any) -> np.ndarray:
    world = ph.World()
    world.add(ph.shapes.box(0.2, 40, 40), material="lambert-50", label="wall", pose=ph.Pose(xyz=(9, 0, 0)))
    world.daylight = ph.Daylight(sun_elevation_deg=30, sun_azimuth_deg=180)
    camera = ph.Camera("generic/vga", width=160, samples=4, developed=False, denoise="none", window=window, bounces=0)
    return camera.shoot(world, pose=ph.Pose(), seed=2).colour[..., 1].astype(float)


@pytest.mark.slow
def test_pictures_through_the_window() -> None:
    clean = picture(None)
    np.testing.assert_array_equal(picture({"mud": 0.0}), clean)
    # An even film takes 30 % and scatters it over the picture: an even wall stays as it is.
    film = picture({"film": 1.0})
    assert film.mean() == pytest.approx(clean.mean(), rel=0.01)
    assert film.std() < clean.std()
    mud = np.mean([(picture({"mud": 0.2, "seed": seed}) / clean).mean() for seed in range(4)])
    # The picture shows 23 mm of the window with patches 15 mm apart, so four windows vary by about 0.1.
    assert 1.0 - mud == pytest.approx(0.2, abs=0.2)
    assert (picture({"mud": 0.2, "seed": 1}) / clean).min() < 0.01


@pytest.mark.slow
def test_the_truth_of_the_window_is_what_the_picture_lost(tmp_path: Path) -> None:
    """On an even wall, a picture without glare is the clean one times the truth; files and formats hold the truth."""
    clean = picture(None)
    window = {"mud": 0.2, "seed": 1}
    camera = ph.Camera("generic/vga", width=160, samples=4, truth=("window", "label"), picture=False, window=window)
    world = ph.World()
    world.add(ph.shapes.box(0.2, 40, 40), material="lambert-50", label="wall", pose=ph.Pose(xyz=(9, 0, 0)))
    image = camera.shoot(world, pose=ph.Pose(), seed=2)
    assert image.window.dtype == np.float32
    lost = picture(window) / clean
    np.testing.assert_allclose(image.window, lost, atol=0.02)
    assert image.window.min() < 0.01
    assert image.window.max() == pytest.approx(1.0, abs=1e-6)
    for name in ("image.npz", "image.exr"):
        image.save(tmp_path / name)
        np.testing.assert_array_equal(ph.Image.load(tmp_path / name).window, image.window)
    wet = ph.Camera("generic/vga", width=160, truth=("window",), picture=False, window={"drops": 0.3})
    share = 1.0 - np.mean([wet.shoot(world, pose=ph.Pose(), seed=seed).window.mean() for seed in range(2)])
    assert share == pytest.approx(0.3, abs=0.15)
    free = ph.Camera("generic/vga", width=160, truth=("window",), picture=False).shoot(world, pose=ph.Pose())
    assert np.all(free.window == 1.0)


def test_number_of_drops_in_a_picture() -> None:
    """A Boolean model of discs: 1 - exp(-n pi E[r^2] / A) is covered, by simulation of the discs."""
    count = drops_in_picture(0.3, 640, 480, (6.0, 30.0))
    rng = np.random.default_rng(1)
    radius = 6.0 * 5.0 ** rng.random(20 * count)
    place = rng.random((20 * count, 2)) * [640, 480]
    points = rng.random((400, 2)) * [440, 280] + 100
    inside = radius > np.hypot(*(points[:, None] - place).T).T
    hit = inside.reshape(400, 20, count).any(axis=2)
    # 20 pictures of 400 points; points of a picture are correlated over the size of drops, about 100 are independent.
    assert hit.mean() == pytest.approx(0.3, abs=4.0 * np.sqrt(0.3 * 0.7 / 2000))
