"""Effect of weather on a cloud: exact matching on clouds with known changes, and the picture as a file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.pictures.weather import (
    LOST,
    MOVED_M,
    draw_weather,
    origin_colours,
    weather_changes,
    weather_picture,
)
from parhelion.weather import media

RAIN, FOG = ORIGINS.index("rain"), ORIGINS.index("fog")


def cloud(direction: np.ndarray, distance: np.ndarray, **fields: np.ndarray) -> ph.PointCloud:
    """Points along unit directions."""
    return ph.PointCloud((direction * distance[:, None]).astype(np.float32), fields)


def rays(count: int, seed: int = 0) -> np.ndarray:
    """Unit directions on a grid of 0.4 by 2 degrees, as of a spinning sensor, in mixed order."""
    azimuth, elevation = np.radians(0.4 * (np.arange(count) // 16)), np.radians(2.0 * (np.arange(count) % 16) - 15.0)
    unit = np.stack(
        [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)], axis=1
    )
    return np.random.default_rng(seed).permutation(unit)


@settings(max_examples=40, deadline=None)
@given(seed=st.integers(0, 2**32 - 1), count=st.integers(1, 400), named=st.booleans())
def test_changes_that_are_known_are_found(seed: int, count: int, named: bool) -> None:
    """Shots lost, moved along their ray by up to a metre, dimmed, and echoes of rain: with and without `shot`."""
    rng = np.random.default_rng(seed)
    direction, distance = rays(count, seed), rng.uniform(5.0, 60.0, count)
    shot = np.arange(count, dtype=np.uint32)
    stays = rng.random(count) < 0.7
    shift = np.where(rng.random(count) < 0.3, rng.uniform(0.1, 1.0, count), 0.0)
    drops = rng.permutation(count)[: count // 4]
    left = rng.uniform(0.1, 1.0, count)
    power = rng.uniform(1.0, 50.0, count)
    before = cloud(direction, distance, power=power, **({"shot": shot} if named else {}))
    rows = np.concatenate([np.flatnonzero(stays), drops])
    is_drop = np.arange(len(rows)) >= stays.sum()
    order = rng.permutation(len(rows))
    rows, is_drop = rows[order], is_drop[order]
    after = cloud(
        direction[rows], np.where(is_drop, rng.uniform(1.0, 4.0, len(rows)), (distance + shift)[rows]),
        power=np.where(is_drop, 1.0, (power * left)[rows]), origin=np.where(is_drop, RAIN, 0).astype(np.uint8),
        **({"shot": shot[rows]} if named else {}),
    )  # fmt: skip
    found = weather_changes(before, after)
    assert found.kept_before.tolist() == np.flatnonzero(stays).tolist()
    assert np.array_equal(rows[found.kept_after], found.kept_before)
    assert not is_drop[found.kept_after].any()
    assert found.lost.tolist() == np.flatnonzero(~stays).tolist()
    assert found.invented == ({"rain": len(drops)} if len(drops) else {})
    assert np.array_equal(found.moved, shift[found.kept_before] > MOVED_M)
    assert np.allclose(found.moved_m, shift[found.kept_before], atol=2e-5)  # coordinates are float32
    assert found.signal == "power"
    assert found.signal_left is not None
    assert np.allclose(found.signal_left, left[found.kept_before], rtol=1e-9)
    assert found.outshone == (int(np.isin(np.flatnonzero(~stays), drops).sum()) if named else None)


def test_of_several_returns_the_nearest_are_the_same() -> None:
    direction = np.repeat(rays(1), 3, axis=0)
    shot = np.zeros(3, np.uint32)
    before = cloud(direction, np.array([10.0, 20.0, 30.0]), shot=shot)
    origin = np.array([FOG, 0, 0], np.uint8)
    after = cloud(direction, np.array([1.4, 20.01, 30.2]), shot=shot, origin=origin)
    found = weather_changes(before, after)
    assert found.kept_before.tolist() == [1, 2]
    assert found.kept_after.tolist() == [1, 2]
    assert found.lost.tolist() == [0]
    assert found.moved.tolist() == [False, True]
    assert found.invented == {"fog": 1}
    assert found.outshone == 1


def test_an_echo_of_the_air_is_never_a_surface_even_at_its_place() -> None:
    direction, distance = rays(50), np.full(50, 2.0)
    fog = np.full(50, FOG, np.uint8)
    found = weather_changes(cloud(direction, distance), cloud(direction, distance, origin=fog))
    assert (len(found.lost), found.invented) == (50, {"fog": 50})
    # What the recording held of fog already is the same point, though.
    again = weather_changes(cloud(direction, distance, origin=fog), cloud(direction, distance, origin=fog))
    assert (len(again.kept_before), again.invented) == (50, {})


def test_rows_without_coordinates_are_no_points() -> None:
    direction, distance = rays(6), np.array([5.0, np.nan, 7.0, 0.0, 9.0, 11.0])
    gone = np.where(np.arange(6) == 4, np.nan, distance)
    found = weather_changes(cloud(direction, distance), cloud(direction, gone))
    assert found.kept_before.tolist() == [0, 2, 5]
    assert found.lost.tolist() == [4]
    assert len(found.new) == 0


def test_signal_is_what_both_clouds_have() -> None:
    direction, distance = rays(4), np.full(4, 8.0)
    bright, dim = np.array([10.0, 20.0, 40.0, 0.0]), np.array([5.0, 5.0, 40.0, 0.0])
    by_intensity = weather_changes(
        cloud(direction, distance, intensity=bright, power=bright), cloud(direction, distance, intensity=dim)
    )
    assert by_intensity.signal == "intensity"
    assert by_intensity.signal_left is not None
    assert np.array_equal(by_intensity.signal_left, [0.5, 0.25, 1.0, np.nan], equal_nan=True)
    without = weather_changes(cloud(direction, distance), cloud(direction, distance, intensity=dim))
    assert (without.signal, without.signal_left) == (None, None)


def test_new_points_without_origin_are_of_unknown_origin() -> None:
    direction = rays(3)
    found = weather_changes(cloud(direction[:2], np.full(2, 9.0)), cloud(direction, np.array([9.0, 9.0, 1.5])))
    assert found.invented == {"unknown": 1}


def test_several_scans_in_one_cloud_are_matched_by_place() -> None:
    """Their shots have the same numbers, which then carry no information."""
    count = 20
    xyz = np.random.default_rng(0).uniform(-50, 50, (16 * count, 3))
    shot = np.tile(np.arange(16, dtype=np.uint32), count)
    before = ph.PointCloud(xyz, {"shot": shot}, "world")
    after = ph.PointCloud(xyz[5:] + np.array([0.0, 0.0, 0.02]), {"shot": shot[5:]}, "world")
    found = weather_changes(before, after)
    assert np.array_equal(found.kept_before, np.arange(5, 16 * count))
    assert found.outshone is None
    assert np.allclose(found.moved_m, 0.02)


@pytest.fixture(scope="module")
def scans() -> tuple[ph.Scan, ph.Scan]:
    """A scan in clear air and the same one in rain and fog."""
    world = ph.World.load("cuboids")
    lidar = ph.Lidar("velodyne/vlp-16", sub_rays=1)
    clear = lidar.scan(world, seed=3)
    world.weather = ph.Weather(rain_rate_mm_h=50, visibility_m=400)
    return clear, lidar.scan(world, seed=3)


def test_a_simulated_scan_by_sets_of_shots(scans: tuple[ph.Scan, ph.Scan]) -> None:
    """For a sensor with one return per shot, sets of shot numbers give the same result."""
    clear, wet = scans
    found = weather_changes(clear, wet)
    in_air = np.isin(wet.origin, [ORIGINS.index(word) for word in media.names()])
    before, after = set(clear.shot.tolist()), set(wet.shot[~in_air].tolist())
    assert len(found.lost) == len(before - after) > 100
    assert len(found.kept_before) == len(before & after) > 1000
    assert found.outshone == len((before - after) & set(wet.shot[in_air].tolist()))
    assert sum(found.invented.get(word, 0) for word in media.names()) == in_air.sum() > 100
    assert found.signal_left is not None
    # The air only ever takes: the receiver's noise is the same in both scans.
    assert np.median(found.signal_left) < 1.0


def test_matching_by_place_agrees_with_that_by_shot(scans: tuple[ph.Scan, ph.Scan]) -> None:
    clear, wet = scans
    by_shot = weather_changes(clear, wet)
    bare = [
        ph.PointCloud(each.xyz, {name: values for name, values in each.fields.items() if name != "shot"})
        for each in scans
    ]
    by_place = weather_changes(*bare)
    assert len(by_place.kept_before) == pytest.approx(len(by_shot.kept_before), rel=0.002)
    assert by_place.invented.keys() >= {"rain", "fog"}
    common = np.isin(by_place.kept_before, by_shot.kept_before)
    assert common.mean() > 0.999


def colours_in(file: Path) -> set[tuple[int, ...]]:
    with Image.open(file) as image:
        found = image.convert("RGB").getcolors(10**7)
    assert found is not None
    return {colour for _, colour in found}


def rgb(colour: str) -> tuple[int, ...]:
    return tuple(int(colour[at : at + 2], 16) for at in (1, 3, 5))


def test_the_picture_shows_what_was_lost_and_invented(scans: tuple[ph.Scan, ph.Scan], tmp_path: Path) -> None:
    file = tmp_path / "weather.png"
    changes = draw_weather(*scans, file, "rain and fog")
    shown = colours_in(file)
    assert {rgb(LOST), rgb(origin_colours()["rain"]), rgb(origin_colours()["fog"])} <= shown
    assert rgb(origin_colours()["dust"]) not in shown
    figure = weather_picture(*scans, "rain and fog")
    words = " ".join(text.get_text() for text in figure.texts)
    assert "rain and fog" in words
    assert f"{len(changes.lost)} lost".replace(" ", "") in words.replace(" ", "")
    assert [axes.get_title(loc="left") for axes in figure.axes] == [
        "Effect on each point, top view",
        "Remaining signal, by power",
        "Around the sensor",
        "Points over range",
        "Remaining share over range",
    ]


def test_pictures_of_poor_clouds(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing at all, nothing left, only new, nothing changed; no fields, and in the world frame."""
    monkeypatch.setattr("parhelion.pictures.style.DPI", 20)
    file = tmp_path / "poor.png"
    for frame, before, after in (("sensor", 0, 0), ("sensor", 40, 0), ("world", 0, 40), ("world", 40, 40)):
        points = np.random.default_rng(1).uniform(-20, 20, (40, 3))
        clouds = (ph.PointCloud(points[:count], {}, frame) for count in (before, after))
        weather_picture(*clouds).savefig(file)
        assert file.stat().st_size > 1000
        file.unlink()


def test_picture_of_bad_input(tmp_path: Path, scans: tuple[ph.Scan, ph.Scan]) -> None:
    with pytest.raises(ph.ConfigError, match="must end in"):
        draw_weather(*scans, tmp_path / "weather.bmp")
    with pytest.raises(ph.ConfigError, match="two point clouds, got ndarray"):
        weather_changes(scans[0], scans[1].xyz)  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []
