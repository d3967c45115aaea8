"""Display of clouds and scans: in a terminal, in a notebook and in `dir`."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import numpy as np
import pytest

from parhelion.core.clouds import PointCloud, Scan, Shots

XYZ = np.array([[3.0, 4.0, 0.0], [0.0, 0.0, 12.5], [np.nan, np.nan, np.nan]])


def scan() -> Scan:
    directions, numbers = np.zeros((4, 3), np.float32), np.zeros(4, np.uint16)
    shots = Shots(directions, directions, numbers.astype(np.float32), numbers, numbers, numbers.astype(np.uint8))
    fields = {"range": np.array([2.0, 70.25], np.float32), "shot": np.array([0, 3], np.uint32)}
    return Scan(XYZ[:2], fields, metadata={"sensor": "velodyne/vlp-16"}, shots=shots)


def test_a_scan_is_one_line() -> None:
    assert repr(scan()) == "<Scan: velodyne/vlp-16, 2 points of 4 shots, range 2 to 70.25 m, frame 'sensor'>"


@pytest.mark.parametrize(
    ("cloud", "line"),
    [
        (PointCloud(XYZ), "<PointCloud: 3 points, range 5 to 12.5 m, frame 'sensor'>"),
        (PointCloud(XYZ, frame="world"), "<PointCloud: 3 points, frame 'world'>"),
        (
            PointCloud(XYZ, {"range": np.array([1.0, 2.0, 0.0])}, "world"),
            "<PointCloud: 3 points, range 1 to 2 m, frame 'world'>",
        ),
        (PointCloud(XYZ[:0]), "<PointCloud: 0 points, frame 'sensor'>"),
        (PointCloud(XYZ[2:]), "<PointCloud: 1 points, frame 'sensor'>"),
        (
            PointCloud(XYZ, {"range": np.array(["near", "far", ""])}),
            "<PointCloud: 3 points, range 5 to 12.5 m, frame 'sensor'>",
        ),
        (
            PointCloud(XYZ, {"shots": np.zeros(3)}, metadata={"sensor": "my\nlidar"}),
            "<PointCloud: my lidar, 3 points, range 5 to 12.5 m, frame 'sensor'>",
        ),
        (
            PointCloud(XYZ[:0], metadata={"sensor": "x" * 1000}),
            f"<PointCloud: {'x' * 57}..., 0 points, frame 'sensor'>",
        ),
    ],
)
def test_a_cloud_is_one_line(cloud: PointCloud, line: str) -> None:
    assert repr(cloud) == line


class Cells(HTMLParser):
    """The text of every cell, and all tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.rows: list[list[str]] = []
        self.tags: set[str] = set()
        self.open: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        self.open.append(tag)
        if tag == "tr":
            self.rows.append([])
        elif tag in ("td", "th"):
            self.rows[-1].append("")

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open[-1] in ("td", "th"):
            self.rows[-1][-1] += data


def test_a_notebook_shows_the_line_and_a_table_of_fields() -> None:
    shown = scan()._repr_html_()
    assert "Scan: velodyne/vlp-16, 2 points of 4 shots, range 2 to 70.25 m" in shown
    rows = Cells(shown).rows
    assert rows[0] == ["field", "type", "unit", "smallest", "largest", "meaning"]
    assert rows[1] == ["xyz", "float64 × 3", "m", "0", "12.5", "coordinates"]
    assert rows[2] == ["range", "float32", "m", "2", "70.25", "measured distance from the beam's origin"]
    assert rows[3][:5] == ["shot", "uint32", "", "0", "3"]


def test_fields_that_cannot_be_compared_have_no_span() -> None:
    fields = {"good": np.array([True, False, True]), "none": np.full(3, np.nan), "word": np.array(["a", "b", "c"])}
    rows = Cells(PointCloud(XYZ, fields)._repr_html_()).rows
    assert [row[3:5] for row in rows[2:]] == [["", ""]] * 3
    assert len(Cells(PointCloud(XYZ[:0])._repr_html_()).rows) == 2


def test_nothing_of_a_file_is_taken_as_html() -> None:
    bad = "<script>alert(1)</script>"
    shown = PointCloud(XYZ, {bad: np.zeros(3)}, frame=bad, metadata={"sensor": bad})._repr_html_()
    assert Cells(shown).tags == {"div", "strong", "table", "tr", "th", "td"}
    assert re.findall("<script", shown) == []


def test_dir_has_the_fields_that_are_attributes() -> None:
    names = dir(PointCloud(XYZ, {"ring": np.zeros(3), "not a name": np.zeros(3)}))
    assert {"ring", "xyz", "fields", "select", "frame"} <= set(names)
    assert "not a name" not in names
    assert {"range", "shots", "in_world"} <= set(dir(scan()))
