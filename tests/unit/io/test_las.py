"""LAS and LAZ against laspy used directly, and headers that lie."""

from __future__ import annotations

import struct
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io import read_cloud, write_cloud

laspy = pytest.importorskip("laspy")


def example(points: int = 50) -> PointCloud:
    rng = np.random.default_rng(8)
    fields: dict[str, NDArray[Any]] = {
        "intensity": rng.uniform(0, 3, points).astype(np.float32),
        "return_index": (np.arange(points) % 3).astype(np.uint8),
        "return_count": np.full(points, 3, np.uint8),
        "label": (np.arange(points) % 9).astype(np.uint16),
        "time": np.linspace(0, 0.1, points, dtype=np.float32),
        "rgb": rng.integers(0, 256, (points, 3)).astype(np.uint8),
        "ring": (np.arange(points) % 16).astype(np.uint16),
        "velocity": rng.normal(size=(points, 3)).astype(np.float32),
    }
    return PointCloud(rng.uniform(-50, 50, (points, 3)) + np.array([500000, 5400000, 120]), fields, "world")


@pytest.mark.parametrize("ending", [".las", ".laz"])
def test_other_programs_find_the_fields_where_they_look(tmp_path: Path, ending: str) -> None:
    cloud = example()
    write_cloud(cloud, tmp_path / f"a{ending}")
    las = laspy.read(tmp_path / f"a{ending}")
    assert (str(las.header.version), las.header.point_format.id) == ("1.4", 7)
    np.testing.assert_array_equal(las.header.scales, [1e-4] * 3)
    np.testing.assert_allclose(las.xyz, cloud.xyz, rtol=0, atol=0.5001e-4)
    step = float(cloud.intensity.max()) / 65535
    np.testing.assert_array_equal(las.intensity, np.round(cloud.intensity.astype(np.float64) / step))
    np.testing.assert_array_equal(las.return_number, cloud.return_index + 1)
    np.testing.assert_array_equal(las.number_of_returns, cloud.return_count)
    np.testing.assert_array_equal(las.classification, cloud.label)
    np.testing.assert_array_equal(las.gps_time, cloud.time.astype(np.float64))
    np.testing.assert_array_equal(las.red, cloud.rgb[:, 0].astype(np.uint16) * 257)
    np.testing.assert_array_equal(las["ring"], cloud.ring)
    np.testing.assert_array_equal(las["velocity_y"], cloud.velocity[:, 1])
    assert list(las.point_format.extra_dimension_names) == ["ring", "velocity_x", "velocity_y", "velocity_z"]


def test_the_file_has_no_date(tmp_path: Path) -> None:
    write_cloud(example(), tmp_path / "a.las")
    assert (tmp_path / "a.las").read_bytes()[90:94] == bytes(4)


@pytest.mark.parametrize(("compressed", "point_format"), [(False, 3), (True, 3), (False, 6), (True, 8), (True, 1)])
def test_files_of_laspy_are_read(tmp_path: Path, compressed: bool, point_format: int) -> None:
    header = laspy.LasHeader(point_format=point_format)
    header.scales, header.offsets = np.full(3, 0.01), np.array([100.0, 0, 0])
    header.add_extra_dim(laspy.ExtraBytesParams("amplitude", "f4"))
    las = laspy.LasData(header)
    n = 60_000  # two chunks
    las.x, las.y, las.z = 100 + np.arange(n) / 100, np.arange(n) / 50, np.zeros(n)
    las.intensity, las.classification = np.arange(n) % 65536, np.full(n, 6)
    las.return_number, las.number_of_returns = np.full(n, 2), np.full(n, 4)
    las.gps_time, las.user_data = np.arange(n) / 7, np.full(n, 9)
    las["amplitude"] = np.arange(n) / 3
    path = tmp_path / ("a.laz" if compressed else "a.las")
    las.write(str(path))
    cloud = read_cloud(path)
    assert cloud.frame == "world"
    np.testing.assert_allclose(cloud.xyz[:, 0], 100 + np.arange(n) / 100, rtol=0, atol=1e-9)
    np.testing.assert_array_equal(cloud.intensity, np.arange(n) % 65536)
    np.testing.assert_array_equal(cloud.time, np.arange(n) / 7)
    np.testing.assert_array_equal(cloud.amplitude, (np.arange(n) / 3).astype(np.float32))
    for name, value in (("label", 6), ("return_index", 1), ("return_count", 4), ("user_data", 9)):
        np.testing.assert_array_equal(cloud.fields[name], value, err_msg=name)
    assert "point_source_id" not in cloud.fields  # all zero, so it was never set


def test_whole_intensities_are_stored_as_they_are(tmp_path: Path) -> None:
    values = np.array([0, 255, 65535], np.float32)
    write_cloud(PointCloud(np.zeros((3, 3)), {"intensity": values}), tmp_path / "a.las")
    np.testing.assert_array_equal(laspy.read(tmp_path / "a.las").intensity, values)
    np.testing.assert_array_equal(read_cloud(tmp_path / "a.las").intensity, values)


@pytest.mark.parametrize(
    ("name", "values"),
    [
        ("intensity", np.array([-1.5, np.nan], np.float32)),
        ("intensity", np.array([70000, 1], np.uint32)),
        ("label", np.array([300, 1], np.uint16)),
        ("return_index", np.array([15, 0], np.uint8)),
        ("time", np.array([2**60 + 1, 0])),
        ("classification", np.array([2.5, 1], np.float32)),
        ("a field name longer than thirty-two bytes", np.array([1, 2], np.int16)),
        ("höhe", np.array([1.0, 2.0])),
    ],
)
def test_values_that_do_not_fit_the_standard_dimension_go_into_an_extra_dimension(
    tmp_path: Path, name: str, values: np.ndarray
) -> None:
    write_cloud(PointCloud(np.zeros((2, 3)), {name: values}), tmp_path / "a.laz")
    back = read_cloud(tmp_path / "a.laz")
    assert list(back.fields) == [name]
    np.testing.assert_array_equal(back.fields[name], values)
    assert back.fields[name].dtype == values.dtype


def test_survey_fields_keep_their_place(tmp_path: Path) -> None:
    fields: dict[str, NDArray[Any]] = {
        "user_data": np.array([7], np.uint8),
        "point_source_id": np.array([300], np.uint16),
    }
    write_cloud(PointCloud(np.zeros((1, 3)), fields), tmp_path / "a.las")
    las = laspy.read(tmp_path / "a.las")
    assert (las.user_data[0], las.point_source_id[0], las.return_number[0]) == (7, 300, 1)
    assert {name: values.tolist() for name, values in read_cloud(tmp_path / "a.las").fields.items()} == {
        "user_data": [7],
        "point_source_id": [300],
    }


def test_long_descriptions_take_several_records(tmp_path: Path) -> None:
    names = {"label": dict.fromkeys(range(3000), "long name " * 5)}
    write_cloud(PointCloud(np.zeros((1, 3)), names=names), tmp_path / "a.laz")
    assert read_cloud(tmp_path / "a.laz").names == names


def test_scale_and_reach(tmp_path: Path) -> None:
    wide = PointCloud(np.array([[-3e5, 0, 0], [3e5, 0, 0.0123]]))
    with pytest.raises(FormatError, match=r"wider than ±215 km, the limit of scale_m=0.0001"):
        write_cloud(wide, tmp_path / "a.las")
    write_cloud(wide, tmp_path / "a.las", scale_m=0.001)
    np.testing.assert_allclose(read_cloud(tmp_path / "a.las").xyz, [[-3e5, 0, 0], [3e5, 0, 0.012]], rtol=0, atol=1e-9)
    with pytest.raises(ConfigError, match="scale_m must be above 0 m, got 0"):
        write_cloud(wide, tmp_path / "a.las", scale_m=0)


@pytest.mark.parametrize("ending", [".las", ".laz"])
@pytest.mark.parametrize(
    ("place", "code", "value", "problem"),
    [
        (247, "<Q", 10**12, "truncated"),  # number of points
        (247, "<Q", 51, "damaged|truncated"),
        (100, "<I", 4 * 10**9, "do not fit"),  # number of records
        (96, "<I", 4 * 10**9, "do not fit"),  # offset of the points
        (94, "<H", 10, "do not fit"),  # size of the header
        (105, "<H", 65535, "truncated|damaged"),  # bytes of a point
        (104, "<B", 99, "damaged"),  # point format
        (235, "<QI", (0, 2**32 - 1), "extended records"),
        (131, "<d", float("nan"), "scales and offsets"),
    ],
)
def test_lying_headers_are_refused_at_once(
    tmp_path: Path, ending: str, place: int, code: str, value: object, problem: str
) -> None:
    path = tmp_path / f"a{ending}"
    write_cloud(example(), path)
    data = bytearray(path.read_bytes())
    struct.pack_into(code, data, place, *(value if isinstance(value, tuple) else (value,)))
    path.write_bytes(data)
    start = time.process_time()
    with pytest.raises(FormatError, match=problem):
        read_cloud(path)
    assert time.process_time() - start < 1


def test_lying_chunks_are_refused_before_memory_is_taken(tmp_path: Path) -> None:
    path = tmp_path / "a.laz"
    write_cloud(example(), path)
    whole = path.read_bytes()
    start = struct.unpack_from("<I", whole, 96)[0]
    row_size = struct.unpack_from("<H", whole, 105)[0]
    table = struct.unpack_from("<q", whole, start)[0]
    for place, code, value, problem in (
        (start, "<q", 2**60, "chunk table is missing"),
        (table + 4, "<I", 2**32 - 1, "claims 4294967295 chunks"),
        (start + 8 + row_size, "<I", 2**32 - 1, "the header declares 50 points, the chunks contain 4294967295"),
        (start + 8 + row_size + 4, "<I", 2**32 - 1, "layers of a chunk do not fill it"),
    ):
        data = bytearray(whole)
        struct.pack_into(code, data, place, value)
        path.write_bytes(data)
        with pytest.raises(FormatError, match=problem):
            read_cloud(path)
