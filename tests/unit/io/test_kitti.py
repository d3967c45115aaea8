"""KITTI scans and SemanticKITTI labels, byte by byte."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io import FieldsDroppedWarning, read_cloud, write_cloud

CLOUD = PointCloud(
    np.array([[1, 2, 3], [4, 5, 6]], np.float32),
    {
        "intensity": np.array([0.25, 0.75], np.float32),
        "label": np.array([10, 252], np.uint16),
        "instance": np.array([0, 513], np.uint16),
    },
)


def test_layout_of_scan_and_labels(tmp_path: Path) -> None:
    scan, labels = tmp_path / "000000.bin", tmp_path / "000000.label"
    write_cloud(CLOUD, scan, labels=labels)  # both files: nothing is lost, so nothing is warned about
    assert np.fromfile(scan, "<f4").tolist() == [1, 2, 3, 0.25, 4, 5, 6, 0.75]
    assert np.fromfile(labels, "<u4").tolist() == [10, 513 << 16 | 252]


def test_labels_merge_with_their_scan(tmp_path: Path) -> None:
    np.array([[7, 8, 9, 0.5]], "<f4").tofile(tmp_path / "a.bin")
    np.array([3 << 16 | 40], "<u4").tofile(tmp_path / "b.label")
    assert list(read_cloud(tmp_path / "a.bin").fields) == ["intensity"]
    for cloud in (
        read_cloud(tmp_path / "a.bin", labels=tmp_path / "b.label"),
        read_cloud(tmp_path / "b.label", points=tmp_path / "a.bin"),
    ):
        assert cloud.xyz.tolist() == [[7, 8, 9]]
        assert (cloud.label.tolist(), cloud.instance.tolist()) == ([40], [3])
        assert cloud.label.dtype == cloud.instance.dtype == np.uint16


@pytest.mark.parametrize("folder", ["labels", "velodyne"])
def test_a_label_file_finds_its_scan_beside_it_or_in_velodyne(tmp_path: Path, folder: str) -> None:
    (tmp_path / "labels").mkdir()
    (tmp_path / "velodyne").mkdir(exist_ok=True)
    labels = tmp_path / "labels" / "000001.label"
    with pytest.warns(FieldsDroppedWarning, match="semantickitti cannot store xyz, intensity; skipped"):
        write_cloud(CLOUD, labels)
    with pytest.raises(FormatError, match=r"labels without points, and neither .*000001\.bin nor .*velodyne"):
        read_cloud(labels)
    np.zeros((2, 4), "<f4").tofile(tmp_path / folder / "000001.bin")
    np.testing.assert_array_equal(read_cloud(labels).instance, [0, 513])


def test_labels_that_do_not_fit_the_scan_or_sixteen_bits(tmp_path: Path) -> None:
    np.zeros((2, 4), "<f4").tofile(tmp_path / "a.bin")
    (tmp_path / "a.label").write_bytes(bytes(4))
    with pytest.raises(FormatError, match=r"a\.label: has 1 labels, but .*a\.bin has 2 points"):
        read_cloud(tmp_path / "a.label")
    wide = PointCloud(np.zeros((1, 3)), {"label": np.array([70000])})
    with pytest.raises(FormatError, match="'label' must be whole numbers from 0 to 65535"):
        write_cloud(wide, tmp_path / "b.bin", labels=tmp_path / "b.label")
    assert not (tmp_path / "b.bin").exists()
    assert not (tmp_path / "b.label").exists()


def test_part_of_a_point_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.bin").write_bytes(bytes(33))
    with pytest.raises(FormatError, match="33 bytes are not a whole number of points of 16 bytes"):
        read_cloud(tmp_path / "a.bin")


def test_coordinates_beyond_float32_are_refused(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="too large for float32"):
        write_cloud(PointCloud(np.array([[1e300, 0, 0]])), tmp_path / "a.bin")
