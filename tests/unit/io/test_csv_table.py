"""CSV tables: exact text, foreign tables, damage."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io import read_cloud, write_cloud


def test_exact_text(tmp_path: Path) -> None:
    fields: dict[str, NDArray[Any]] = {
        "ring": np.array([3, 15], np.uint16),
        "velocity": np.array([[0.5, 0, -1], [np.nan, 1e-9, 2]], np.float32),
        "stamp": np.array([0.1, 1e22]),
    }
    write_cloud(PointCloud(np.array([[1, 2.5, -3], [0.1, 0, 1e6]], np.float32), fields), tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text() == (
        "x,y,z,ring,velocity_x,velocity_y,velocity_z,stamp\n"
        "1,2.5,-3,3,0.5,0,-1,0.1\n"
        "0.100000001,0,1000000,15,nan,9.99999972e-10,2,1e+22\n"
    )


def test_foreign_tables(tmp_path: Path) -> None:
    text = (
        '\ufeff# from a spreadsheet\r\n"x", y ,z,ring,track,score\r\n1,2,3,4,-70000000000,5\r\n\r\n6,7,8,9,10,0.5\r\n'
    )
    (tmp_path / "a.csv").write_bytes(text.encode())
    cloud = read_cloud(tmp_path / "a.csv")
    np.testing.assert_array_equal(cloud.xyz, [[1, 2, 3], [6, 7, 8]])
    np.testing.assert_array_equal(cloud.score, [5, 0.5])
    np.testing.assert_array_equal(cloud.track, [-70000000000, 10])


def test_types_of_standard_and_other_columns(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,z,ring,track,score\n1,2,3,4,9007199254740993,5.0\n")
    cloud = read_cloud(tmp_path / "a.csv")
    assert cloud.xyz.dtype == np.float64
    assert [cloud.fields[name].dtype.name for name in ("ring", "track", "score")] == ["uint16", "int64", "float64"]
    assert cloud.track.tolist() == [2**53 + 1]


def test_a_standard_name_with_other_values_is_read_as_numbers(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,z,ring\n1,2,3,-0.5\n")
    assert read_cloud(tmp_path / "a.csv").ring.tolist() == [-0.5]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("1,2,3\n4,5,6\n", "first line must name the columns"),
        ("x,y\n1,2\n", "first line must name the columns, including x,y,z"),
        ("x,y,z,z\n1,2,3,4\n", "first line must name the columns"),
        ("x,y,z\n1,2\n", "damaged"),
        ("x,y,z\n1,2,three\n", "damaged"),
        ("x,y,z\n1,,3\n", "damaged"),
        ("# parhelion {broken\nx,y,z\n1,2,3\n", "parhelion description is damaged"),
        ('# parhelion {"layout":{"xyz":{"columns":"x","dtype":"float32"}}}\nx,y,z\n1,2,3\n', "three columns"),
    ],
)
def test_damaged_tables_are_refused(tmp_path: Path, text: str, problem: str) -> None:
    (tmp_path / "a.csv").write_text(text)
    with pytest.raises(FormatError, match=problem):
        read_cloud(tmp_path / "a.csv")


def test_a_header_alone_is_a_cloud_of_no_points(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text("x,y,z,intensity")
    cloud = read_cloud(tmp_path / "a.csv")
    assert (len(cloud), list(cloud.fields)) == (0, ["intensity"])
