"""Parts of the run report: curves, tables, pictures and the counts shown on the page."""

from __future__ import annotations

import base64
import io
import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import parhelion as ph
from parhelion.outputs.report.frames import CountsFile, ScanCounts, counts_of
from parhelion.outputs.report.tables import files_table, seconds, size_of
from parhelion.pictures import export, html
from parhelion.pictures.charts import Chart, Curve, number, ticks
from parhelion.pictures.images import field_limits, field_uri, points_uri, rgb_uri
from parhelion.pictures.top_view import Way, steps_m, way_map


def picture(address: str) -> Any:
    from PIL import Image

    kind, _, data = address.partition(",")
    assert kind == "data:image/png;base64"
    return Image.open(io.BytesIO(base64.b64decode(data)))


@pytest.fixture(scope="module")
def scan() -> ph.Scan:
    world = ph.World("room")
    for x in (-4.0, 4.0):
        world.add(ph.shapes.box(0.2, 8, 3), material="brick", label="wall", pose=ph.Pose(xyz=(x, 0, 0)))
    return ph.Lidar("velodyne/vlp-16", sub_rays=1).scan(world, pose=ph.Pose(), seed=3)


# ---- curves --------------------------------------------------------------------------------------------------------


def test_a_long_curve_keeps_its_extremes_and_its_ends() -> None:
    time = np.linspace(0.0, 1000.0, 100_000)
    value = np.sin(time)
    value[54_321] = 7.5
    curve = Curve.of("a", time, value)
    assert len(curve.x) <= 320
    assert (curve.x[0], curve.x[-1]) == (0.0, 1000.0)
    assert (curve.high.max(), curve.low.min()) == (7.5, value.min())
    assert np.all(np.diff(curve.x) > 0)
    assert np.average(curve.mean) == pytest.approx(value.mean(), abs=2e-3)
    assert "band" in Chart([curve], "m").svg()


def test_what_is_not_finite_is_left_out() -> None:
    curve = Curve.of("a", [0, 1, 2, 3], [1, np.nan, np.inf, 2])
    assert curve.mean.tolist() == [1.0, 2.0]
    assert Chart([Curve.of("a", [], [])], "m").svg() == ""
    assert 'class="dots large s0"' in Chart([Curve.of("a", [1.0], [5.0])], "m").svg()


@given(
    st.floats(-1e6, 1e6), st.floats(1e-6, 1e6), st.integers(2, 9),
)  # fmt: skip
def test_ticks_are_round_and_within(low: float, span: float, about: int) -> None:
    found = ticks(low, low + span, about)
    assert len(found) <= 2 * about + 2
    slack = 1e-6 * max(abs(low), span)
    assert all(low - slack <= tick <= low + span + slack for tick in found)


@given(st.lists(st.floats(-1e12, 1e12), min_size=1, max_size=20))
def test_any_numbers_give_a_plot_without_nan(values: list[float]) -> None:
    plot = Chart([Curve.of("a", np.arange(len(values)), values)], "m").svg()
    assert "nan" not in plot
    assert "inf" not in plot


def test_numbers_at_ticks() -> None:
    assert [number(v) for v in (0.0, -1.5, 20000.0, 1e-3)] == ["0", "\u22121.5", "20\u202f000", "0.001"]


# ---- numbers -------------------------------------------------------------------------------------------------------


def test_numbers_of_tables_have_no_exponent_below_ten_million() -> None:
    assert [html.shown(value, ".3g") for value in (None, 0.25, 6634.0, -2.1e6)] == ["–", "0.25", "6 634", "-2 100 000"]
    assert html.shown(3e8, ".3g") == "3e+08"
    assert html.with_interval(0.25, 0.21, 0.3) == "0.25 (0.21\u00a0to\u00a00.3)"
    assert html.with_interval(0.25, None, None) == "0.25"
    assert html.with_interval(None, None, None) == "–"


# ---- words ---------------------------------------------------------------------------------------------------------


@given(st.text(max_size=30))
def test_words_never_become_tags(words: str) -> None:
    hostile = f"<script>{words}</script>\"'><img src=x onerror=y>"
    made = [
        html.table((hostile,), [(hostile,)]), html.figure(hostile, "-", hostile), html.key([(hostile, 1)]),
        html.section("a", hostile, "-"), html.image("data:,", hostile, "scan"), html.swatch(hostile, (0, 0, 0)),
        html.tiles([(hostile, hostile)]), html.scale(hostile, hostile, "red, blue"), html.folded(hostile, "-"),
        html.page(hostile, lead=[hostile], facts=[(hostile, hostile)], command=hostile), html.code(hostile),
        html.paragraph(hostile), html.panels(hostile),
        Chart([Curve.of(hostile, [0, 1], [0, 1])], hostile, hostile).svg(),
    ]  # fmt: skip
    for one in made:
        assert "<script" not in one.replace(f"<script>{export.SCRIPT}</script>", "")
        assert "<img src=x" not in one
        # A quote must not end an attribute either.
        assert not re.search(r"=\"[^\"]*\"'><", one)


def test_times_and_sizes_in_words() -> None:
    assert [seconds(t) for t in (2.5, 299, 3599, 7260)] == ["2.5 s", "299 s", "59 min 59 s", "2 h 01 min"]
    sizes = (0, 999, 1000, 123_456, 9_990_000, 2_500_000_000_000)
    assert [size_of(n) for n in sizes] == ["0 B", "999 B", "1 kB", "123 kB", "9.99 MB", "2500 GB"]


def test_many_files_of_a_folder_are_one_row(tmp_path: Path) -> None:
    hashes = {}
    for place, count in (("top", 500), ("truth", 2)):
        (tmp_path / place).mkdir()
        for k in range(count):
            (tmp_path / place / f"{k:06d}.pcd").write_bytes(b"x" * 100)
            hashes[f"{place}/{k:06d}.pcd"] = f"{k:064x}"
    text = files_table(tmp_path, hashes)
    assert text.count("<tr>") == 1 + 1 + 2
    assert "top/000000.pcd … 000499.pcd" in text
    assert "502 files, 50.2 kB" in text


# ---- pictures ------------------------------------------------------------------------------------------------------


def test_a_scan_as_picture_has_its_rings_and_holes(scan: ph.Scan) -> None:
    image = picture(field_uri(scan, "range", field_limits([scan], "range")))
    shape = ph_range_shape(scan)
    assert image.size[0] % shape[1] == 0
    assert image.size[1] == 64
    pixels = np.asarray(image.convert("RGBA"))
    seen = pixels[2::4, :: image.size[0] // shape[1], 3] > 0
    assert seen.shape == shape
    assert int(seen.sum()) == int((scan.shots.return_count > 0).sum())


def ph_range_shape(scan: ph.Scan) -> tuple[int, int]:
    from parhelion.pictures import range_image

    rows, columns = range_image(scan).shape
    return rows, columns


def test_patterns_without_a_grid_become_pictures() -> None:
    world = ph.World("wall")
    world.add(ph.shapes.box(0.2, 30, 30), material="brick", label="wall", pose=ph.Pose(xyz=(8, 0, 0)))
    scan = ph.Lidar("livox/mid-40", sub_rays=1).scan(world, pose=ph.Pose(), seed=3)
    image = picture(field_uri(scan, "intensity", (1.0, 100.0)))
    share = np.mean(np.asarray(image.convert("RGBA"))[..., 3] > 0)
    assert 0.1 < share < 0.9


def test_pictures_of_nothing() -> None:
    none = np.zeros(0)
    address = points_uri(np.zeros((0, 3)), none, none, none, {1: "wall"}, [np.zeros((2, 3))])
    assert picture(address).size == (1320, 660)
    sky = ph.Lidar("velodyne/vlp-16", sub_rays=1).scan(ph.World("sky"), pose=ph.Pose(), seed=3)
    assert len(sky) == 0
    assert not np.any(np.asarray(picture(field_uri(sky, "range", (1.0, 2.0))).convert("RGBA"))[..., 3])
    assert counts_of("top", 0, sky, [1]).range_m is None


def test_pictures_are_the_same_for_the_same_numbers() -> None:
    image = np.linspace(0, 1, 3000).reshape(20, 50, 3)
    assert rgb_uri(image) == rgb_uri(image.copy())


def test_a_map_without_ways_and_one_without_a_world() -> None:
    world = ph.World("post")
    world.add(ph.shapes.box(1, 1, 3), material="brick", label="pole")
    assert "<image" in way_map(world, [])
    drawn = way_map(ph.World("empty"), [Way("a", np.array([[0.0, 0, 0], [5, 0, 0]]), 0)])
    assert "<image" not in drawn
    assert 'class="way s0"' in drawn


def test_a_jump_back_to_the_start_of_a_belt_is_not_a_speed() -> None:
    along = np.concatenate([np.linspace(0.0, 2.0, 101), np.linspace(0.0, 2.0, 101)])  # 2 cm per step
    steps = steps_m(np.stack([along, 0 * along, 0 * along], axis=1))
    assert steps.max() == pytest.approx(0.02)
    assert Way("box", np.stack([along, 0 * along, 0 * along], axis=1)).length_m == pytest.approx(4.0)
    assert Way("from here to there", np.array([[0.0, 0, 0], [5, 0, 0]])).length_m == pytest.approx(5.0)
    start = 0.5 * 3.0 * np.linspace(0.0, 10.0, 21) ** 2  # from rest with 3 m/s2, steps of 0.5 s
    assert steps_m(np.stack([start, 0 * start, 0 * start], axis=1)).min() > 0.0


# ---- counts --------------------------------------------------------------------------------------------------------


def test_counts_of_a_scan(scan: ph.Scan) -> None:
    counts = counts_of("top", 4, scan, [1])
    assert (counts.points, counts.shots) == (len(scan), len(scan.shots))
    assert counts.points + counts.lost == counts.shots, "one return a shot"
    assert counts.labels == {"wall": len(scan)}
    assert counts.origins == {"surface": len(scan)}
    assert counts.instances == {"1": int(np.sum(scan.instance == 1))}
    assert counts.range_m is not None
    assert counts.range_m[1] == pytest.approx(float(np.median(scan.range)), abs=1e-4)


def test_counts_are_read_again_after_a_stop(tmp_path: Path) -> None:
    rows = [ScanCounts("top", k, 0.1 * k, 5, 9, 4, (1.0, 2.0, 3.0), {"rain": 1}, {"wall": 4}, {}) for k in range(4)]
    expected = {("top", k) for k in range(3)}
    file = tmp_path / "counts.jsonl"
    first = CountsFile(file, expected)
    for row in reversed(rows):
        first.add(row)
    with file.open("a") as stream:
        stream.write('{"lidar": "top", "scan": 9, "poi')
    again = CountsFile(file, expected)
    assert again.rows == {("top", k): rows[k] for k in range(3)}, "neither the cut line nor what is not of this run"
    assert [json.loads(line)["scan"] for line in file.read_text().splitlines()] == [0, 1, 2]


@pytest.mark.parametrize("line", ["", "[]", "7", "{}", '{"lidar": 3}', "\x00\xff"])
def test_lines_of_another_kind_are_passed_over(tmp_path: Path, line: str) -> None:
    file = tmp_path / "counts.jsonl"
    file.write_text(line + "\n")
    assert CountsFile(file, {("top", 0)}).rows == {}
