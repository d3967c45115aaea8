"""Columns of range images by the azimuth of their points."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from parhelion.calibrate.beam_angles import FEWEST_RETURNS, point_elevations_deg
from parhelion.calibrate.range_images import (
    SEAM_COLUMNS,
    STATIONARY_M,
    STATIONARY_SHARE,
    _columns_by_azimuth,
    clean,
    is_stationary,
    joined,
    mean_level,
    range_image,
)
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from pins import check


def test_columns_follow_the_azimuth_whatever_the_height() -> None:
    azimuth = np.radians(-90.0 + 2.0 * np.arange(60) + 0.5)
    height = np.where(np.arange(60) % 2, 3.0, -1.0)
    xyz = np.column_stack([5.0 * np.cos(azimuth), 5.0 * np.sin(azimuth), height])
    ring = np.arange(60) % 2  # a ring has every other azimuth, so a step of 4 degrees
    columns = _columns_by_azimuth(xyz, np.ones(60, bool), ring)
    assert np.diff(columns[ring == 0]).tolist() == [1] * 29
    assert np.diff(columns[ring == 1]).tolist() == [1] * 29
    assert (columns.min(), columns.max()) == (22, 52)  # (180 - 89.5) / 4 and (180 + 28.5) / 4


def test_lost_shots_are_known_by_their_columns() -> None:
    """Points that are not finite are lost shots, if columns state where they were fired."""
    xyz = np.full((40, 3), 4.0) * (1.0 + np.arange(40.0))[:, None]
    xyz[[3, 17]] = np.nan
    fields = {"ring": np.arange(40) % 4, "column": np.arange(40) // 4}
    known = range_image(PointCloud(xyz, fields))
    assert known.knows_lost
    assert np.flatnonzero(known.lost[::-1].T.ravel()).tolist() == [3, 17]
    assert known.returned.sum() == 38
    unknown = range_image(PointCloud(xyz, {"ring": fields["ring"]}))
    assert not unknown.knows_lost
    assert not unknown.lost.any()
    whole = range_image(PointCloud(np.nan_to_num(xyz, nan=5.0), fields))
    assert not whole.knows_lost


def cloud(lost: int, *, column: bool = True, seed: int = 4) -> PointCloud:
    """Five rows of forty columns over the whole circle, all but some of them returned."""
    random = np.random.default_rng(seed)
    ring, place = (part.ravel() for part in np.meshgrid(np.arange(5), np.arange(40), indexing="ij"))
    azimuth, elevation = (
        2.0 * np.pi * (place + 0.3) / 40.0,
        np.radians(-10.0 + 5.0 * ring + 0.2 * random.normal(size=200)),
    )
    metres = random.uniform(2.0, 4.0, 200)
    unit = [np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)]
    xyz = metres[:, None] * np.stack(unit, axis=1)
    xyz[random.permutation(200)[:lost]] = np.nan
    fields = {
        "ring": ring, "intensity": random.uniform(1.0, 9.0, 200), "reflectivity": random.random(200),
        "near_ir": random.random(200), "time": 1e-3 * place,
    }  # fmt: skip
    return PointCloud(xyz, fields | ({"column": place + 7} if column else {}), metadata={"time": 3.5})


def test_images_of_clouds_hold_their_points() -> None:
    for lost, column in ((0, True), (20, True), (20, False)):
        made = cloud(lost, column=column)
        found = range_image(made, "a")
        assert found.knows_lost == (lost > 0 and column)
        assert (found.numbered, found.start_s, found.beam_offset_m) == (column, 3.5, 0.0)
        metres = np.linalg.norm(made.xyz.astype(np.float64), axis=1)
        if column:
            there = np.isfinite(metres)
            row, place = 4 - made.ring.astype(int), made.fields["column"].astype(int) - 7
            for name, values, factor in (
                ("range", metres, 1.0), ("signal", made.intensity, 1.0), ("near_ir", made.fields["near_ir"], 1.0),
                ("reflectivity", made.fields["reflectivity"], 100.0), ("time", made.fields["time"], 1.0),
            ):  # fmt: skip
                expected = np.full((5, 40), np.nan)
                kept = there if not found.knows_lost else np.ones(200, bool)
                expected[row[kept], place[kept]] = factor * np.asarray(values, float)[kept]
                assert getattr(found, name) == pytest.approx(expected, nan_ok=True), name
            assert found.lost.sum() == lost
            assert found.row[:, 0].tolist() == [0, 1, 2, 3, 4]
            assert found.ring[:, 0].tolist() == [4, 3, 2, 1, 0]
            assert found.column[0].tolist() == list(range(40))
        check(
            f"calibrate/image-{lost}-{column}", rel=1e-6, range=found.range, elevation=found.elevation_deg,
            direction=found.direction, clean=clean(found), columns=found.range.shape,
        )  # fmt: skip


def test_clouds_that_do_not_fill_their_image_are_refused() -> None:
    """A fiftieth of the pixels must return."""
    xyz = np.full((10, 3), 2.0)
    for last, fits in ((499, True), (500, False)):
        made = PointCloud(xyz, {"ring": np.zeros(10, int), "column": np.r_[np.arange(9), last]})
        if fits:
            assert range_image(made).range.shape == (1, 500)
        else:
            with pytest.raises(FormatError, match="do not form rows and columns"):
                range_image(made)
    with pytest.raises(FormatError, match="no point with finite coordinates"):
        range_image(PointCloud(np.full((3, 3), np.nan), {"ring": np.arange(3)}))


def test_frames_side_by_side() -> None:
    frames = [range_image(cloud(lost, seed=lost), f"{lost}") for lost in (0, 10, 20)]
    wide = joined(frames)
    assert joined(frames[:1]) is frames[0]
    step = 40 + SEAM_COLUMNS
    assert wide.range.shape == (5, 3 * 40 + 2 * SEAM_COLUMNS)
    for k, frame in enumerate(frames):
        for name in ("range", "signal", "lost", "direction"):
            np.testing.assert_array_equal(getattr(wide, name)[:, k * step : k * step + 40], getattr(frame, name))
    seam = [wide.range[:, k * step - SEAM_COLUMNS : k * step] for k in (1, 2)]
    assert np.isnan(seam).all()
    assert not wide.lost[:, 40:step].any()
    assert not wide.knows_lost
    assert joined(frames[1:]).knows_lost
    assert (wide.time, wide.start_s) == (None, None)
    level = mean_level(frames, wide.signal)
    assert level == pytest.approx(np.nanmean([frame.signal for frame in frames], axis=0))
    blank = np.where(np.isin(np.arange(wide.signal.shape[1]), [3, 3 + step, 3 + 2 * step, 5]), np.nan, wide.signal)
    assert np.isnan(mean_level(frames, blank)[:, 3]).all()
    assert mean_level(frames, blank)[:, 5] == pytest.approx(np.mean([one.signal[:, 5] for one in frames[1:]], axis=0))


def test_pixels_at_edges_are_not_clean() -> None:
    metres = np.array([[10.0, 10.2, 10.4, 10.8, 10.75, 10.7, np.nan, 10.0]])
    one = replace(range_image(cloud(0)), range=metres)
    # 10.2 to 10.4 is less than 3 % of 10.2, 10.4 to 10.8 more than 3 % of 10.4; the first and the last are neighbours.
    assert clean(one).tolist() == [[True, True, False, False, True, False, False, False]]


def test_a_sensor_is_stationary_if_most_ranges_stay() -> None:
    random = np.random.default_rng(3)
    first = random.uniform(2.0, 40.0, (8, 60))
    base = range_image(cloud(0))

    def still(share: float, shift: float = 1.0, shape: tuple[int, int] = (8, 60)) -> bool:
        part = first[: shape[0], : shape[1]]
        moved = np.where(random.random(part.shape) < share, part, part + shift)
        return is_stationary([replace(base, range=part), replace(base, range=part), replace(base, range=moved)])

    assert still(1.0)
    assert still(0.0, 0.9 * STATIONARY_M)
    assert not still(0.0, 1.1 * STATIONARY_M)
    assert still(STATIONARY_SHARE + 0.06)
    assert not still(STATIONARY_SHARE - 0.06)
    assert not still(1.0, shape=(8, 12))  # too few pixels
    assert still(1.0, shape=(8, 13))
    assert not is_stationary([base])
    # A level road: rows have one range wherever the sensor is, so the few pixels that stand out decide.
    road = np.repeat(np.linspace(5.0, 30.0, 8)[:, None], 60, axis=1)
    posts = road.copy()
    posts[:, ::4] *= 0.5
    ahead = np.where(posts < road, posts + 1.0, posts)
    assert not is_stationary([replace(base, range=posts), replace(base, range=ahead)])
    assert is_stationary([replace(base, range=posts), replace(base, range=posts)])


def test_elevations_of_rows_of_points() -> None:
    """Beams that start 2 cm above the sensor at elevations of whole degrees, with noise; some rows have few points."""
    random = np.random.default_rng(9)
    elevation = np.radians(np.arange(-8.0, 8.0, 2.0))
    rho = random.uniform(3.0, 30.0, (8, 90))
    azimuth = np.broadcast_to(2.0 * np.pi * np.arange(90) / 90.0, rho.shape)
    point = np.stack([rho * np.cos(azimuth), rho * np.sin(azimuth), rho * np.tan(elevation)[:, None] + 0.02], axis=-1)
    point += random.normal(0.0, 1e-3, point.shape)
    metres = np.linalg.norm(point, axis=-1)
    seen = np.where((np.arange(8) == 5)[:, None] & (np.arange(90) >= FEWEST_RETURNS - 1), np.nan, metres)
    base = range_image(cloud(0))
    frame = replace(base, range=seen, direction=point / metres[..., None], origin=np.zeros_like(point))
    found = point_elevations_deg(frame)
    assert np.isnan(found[5])
    assert np.delete(found, 5) == pytest.approx(np.delete(np.degrees(elevation), 5), abs=0.01)
    check("calibrate/elevations", rel=1e-7, found=found)
    again = point_elevations_deg(replace(frame, range=np.where(np.arange(90) < FEWEST_RETURNS, metres, np.nan)))
    assert np.isfinite(again).all()
