"""Columns of range images by the azimuth of their points."""

from __future__ import annotations

import numpy as np

from parhelion.calibrate.range_images import _columns_by_azimuth, range_image
from parhelion.core.clouds import PointCloud


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
