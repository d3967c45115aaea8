"""nuScenes scans, byte by byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io import read_cloud, write_cloud


def test_layout(tmp_path: Path) -> None:
    path = tmp_path / "a.pcd.bin"
    fields: dict[str, NDArray[Any]] = {"ring": np.array([31], np.uint16), "intensity": np.array([4], np.float32)}
    write_cloud(PointCloud(np.array([[1, 2, 3]], np.float32), fields), path)
    assert np.fromfile(path, "<f4").tolist() == [1, 2, 3, 4, 31]
    cloud = read_cloud(path)
    assert (cloud.ring.tolist(), cloud.ring.dtype) == ([31], np.uint16)
    assert (cloud.intensity.tolist(), cloud.intensity.dtype) == ([4], np.float32)


def test_missing_fields_are_zero(tmp_path: Path) -> None:
    write_cloud(PointCloud(np.ones((2, 3))), tmp_path / "a.pcd.bin")
    assert np.fromfile(tmp_path / "a.pcd.bin", "<f4").tolist() == [1, 1, 1, 0, 0] * 2


@pytest.mark.parametrize("ring", [0.5, -1.0, np.nan, np.inf, 70000.0])
def test_rings_that_are_no_channel_numbers_are_refused(tmp_path: Path, ring: float) -> None:
    np.array([1, 2, 3, 4, ring], "<f4").tofile(tmp_path / "a.pcd.bin")
    with pytest.raises(FormatError, match="rings are not integers"):
        read_cloud(tmp_path / "a.pcd.bin")
    with pytest.raises(FormatError, match="'ring' must be whole numbers"):
        write_cloud(PointCloud(np.zeros((1, 3)), {"ring": np.array([ring])}), tmp_path / "b.pcd.bin")


def test_part_of_a_point_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.pcd.bin").write_bytes(bytes(16))
    with pytest.raises(FormatError, match="16 bytes are not a whole number of points of 20 bytes"):
        read_cloud(tmp_path / "a.pcd.bin")
