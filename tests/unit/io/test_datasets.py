"""Parts of data sets: their folder, KITTI's pictures and labels, SemanticKITTI's classes, nuScenes' tables."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st
from PIL import Image

import parhelion as ph
from parhelion.core.clouds import Scan, Shots
from parhelion.core.errors import FormatError
from parhelion.outputs.datasets import kitti, nuscenes_tables
from parhelion.outputs.datasets.folder import README, DatasetFolder, HiddenShare, first_ranges
from parhelion.world.labels import LABELS, SEMANTIC_KITTI

# ---- folder ----------------------------------------------------------------------------------------------------------


def test_a_folder_is_whole_or_as_before(tmp_path: Path) -> None:
    first = DatasetFolder(tmp_path / "set", "test", "one")
    first.write("a/b.txt", b"1")
    assert not (tmp_path / "set").exists()
    first.close()
    assert (tmp_path / "set" / "a" / "b.txt").read_bytes() == b"1"
    assert first.files == [tmp_path / "set" / README, tmp_path / "set" / "a" / "b.txt"]
    second = DatasetFolder(tmp_path / "set", "test", "two")
    second.write("c.txt", b"2")
    second.discard()
    assert sorted(file.name for file in (tmp_path / "set").rglob("*")) == [README, "a", "b.txt"]
    third = DatasetFolder(tmp_path / "set", "test", "three")
    third.write("c.txt", b"3")
    third.close()
    assert sorted(file.name for file in (tmp_path / "set").rglob("*")) == [README, "c.txt"]
    assert [file.name for file in tmp_path.iterdir()] == ["set"]


def test_what_a_killed_run_left_is_cleared(tmp_path: Path) -> None:
    DatasetFolder(tmp_path / "set", "test", "killed").write("half.bin", b"0")
    whole = DatasetFolder(tmp_path / "set", "test", "whole")
    whole.close()
    assert [file.name for file in (tmp_path / "set").iterdir()] == [README]
    # Stopped between the two renames: the earlier set is found again.
    (tmp_path / "set").rename(tmp_path / "set.old")
    DatasetFolder(tmp_path / "set", "test", "again").discard()
    assert [file.name for file in tmp_path.iterdir()] == ["set"]


@pytest.mark.parametrize("name", ["set", "set.new", "set.old"])
def test_what_is_not_ours_is_not_replaced(tmp_path: Path, name: str) -> None:
    (tmp_path / name).mkdir()
    (tmp_path / name / "thesis.txt").write_text("years of work")
    with pytest.raises(FormatError, match="so it is not replaced"):
        DatasetFolder(tmp_path / "set", "test", "")
    assert [file.name for file in tmp_path.iterdir()] == [name]
    assert (tmp_path / name / "thesis.txt").read_text() == "years of work"


def test_nothing_is_there_before_the_first_file(tmp_path: Path) -> None:
    DatasetFolder(tmp_path / "set", "test", "one").discard()
    DatasetFolder(tmp_path / "set", "test", "two")
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    folder = DatasetFolder(tmp_path / "set", "test", "one")
    folder.write("a", b"1")
    with pytest.raises(FormatError, match="set/a/b: cannot be written"):
        folder.write("a/b", b"2")


def test_a_file_or_a_link_in_its_place_is_refused(tmp_path: Path) -> None:
    (tmp_path / "set").write_text("a file")
    with pytest.raises(FormatError, match="is not a data set"):
        DatasetFolder(tmp_path / "set", "test", "")
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(FormatError, match="is not a data set"):
        DatasetFolder(tmp_path / "link", "test", "")


# ---- KITTI -----------------------------------------------------------------------------------------------------------


def corners(centre: tuple[float, float, float], size: float) -> Any:
    bits = (np.arange(8)[:, None] >> np.arange(3)) & 1
    return np.array(centre) + (bits - 0.5) * size


def test_a_cube_ahead_has_the_rectangle_of_its_near_face() -> None:
    seen = kitti.in_picture(corners((0, 0, 10), 2))
    assert seen is not None
    focal, middle = 721.5377, (609.5593, 172.854)
    assert (seen.left, seen.right) == pytest.approx((middle[0] - focal / 9, middle[0] + focal / 9))
    assert (seen.top, seen.bottom) == pytest.approx((middle[1] - focal / 9, middle[1] + focal / 9))
    assert seen.truncated == 0.0


def test_truncation_is_the_share_outside() -> None:
    # Half of the cube's rectangle lies beyond the left edge: its middle is on it.
    x = -609.5593 / 721.5377 * 9
    seen = kitti.in_picture(corners((x, 0, 10), 2))
    assert seen is not None
    assert seen.left == 0.0
    flat = corners((x, 0, 10), 2)
    columns = 721.5377 * flat[:, 0] / flat[:, 2] + 609.5593
    assert seen.truncated == pytest.approx(-columns.min() / np.ptp(columns))
    assert kitti.in_picture(corners((0, 0, -10), 2)) is None
    assert kitti.in_picture(corners((-30, 0, 10), 2)) is None
    around = kitti.in_picture(corners((0, 0, 0), 2))  # the camera is inside
    assert around is not None
    assert around.truncated > 0.9


@given(st.tuples(*[st.floats(-50, 50)] * 3), st.floats(0.1, 20))
def test_rectangles_stay_in_the_picture(centre: tuple[float, float, float], size: float) -> None:
    seen = kitti.in_picture(corners(centre, size))
    if seen is not None:
        assert 0 <= seen.left < seen.right <= kitti.IMAGE_SIZE[0] - 1
        assert 0 <= seen.top < seen.bottom <= kitti.IMAGE_SIZE[1] - 1
        assert 0 <= seen.truncated <= 1


def test_occlusion_numbers() -> None:
    assert [kitti.occlusion(share) for share in (0.0, 0.1, 0.3, 0.5, 0.7, 1.0, np.nan)] == [0, 0, 1, 1, 2, 2, 3]


# ---- what is hidden --------------------------------------------------------------------------------------------------


def fan(ranges: Any) -> Scan:
    """Shots along +x, side by side in y from -1 to 1, each with one return at a range or none."""
    n = len(ranges)
    origin = np.stack([np.zeros(n), np.linspace(-1, 1, n), np.zeros(n)], axis=1).astype(np.float32)
    direction = np.tile(np.array([1, 0, 0], np.float32), (n, 1))
    got = np.flatnonzero(np.isfinite(ranges))
    shots = Shots(
        direction, origin, np.zeros(n, np.float32), np.zeros(n, np.uint16), np.zeros(n, np.uint16),
        np.isfinite(ranges).astype(np.uint8),
    )  # fmt: skip
    fields = {"range": np.asarray(ranges, np.float32)[got], "shot": got.astype(np.uint32)}
    fields["origin"] = np.where(fields["range"] < 1, 1, 0).astype(np.uint8)
    xyz = origin[got] + direction[got] * fields["range"][:, None]
    return Scan(xyz, fields, shots=shots)


def test_the_hidden_share_is_that_of_shots_that_end_before() -> None:
    # 100 shots through the box: 30 end before it, 20 on rain drops, 25 within, 25 go on for ever.
    ranges = np.concatenate([np.full(30, 5.0), np.full(20, 0.5), np.full(25, 10.0), np.full(25, np.inf)])
    scan = fan(ranges)
    share = HiddenShare(scan.shots, first_ranges(scan))
    half = np.array([0.5, 1.5, 1.0])
    assert share.of(np.array([10.0, 0, 0]), half, np.eye(3)) == pytest.approx(0.3)
    # The box in another place: only the shots with y below 0 go through it, 30 of 50 of which end before.
    assert share.of(np.array([10.0, -1.5, 0]), half, np.eye(3)) == pytest.approx(0.6)
    turned = ph.Pose(rpy_deg=(0, 0, 90)).rotation
    assert share.of(np.array([10.0, 0, 0]), half[[1, 0, 2]], turned) == pytest.approx(0.3)
    assert np.isnan(share.of(np.array([-10.0, 0, 0]), half, np.eye(3)))
    assert np.isnan(share.of(np.array([10.0, 30, 0]), half, np.eye(3)))


# ---- SemanticKITTI ---------------------------------------------------------------------------------------------------


def test_every_word_has_a_class_and_every_class_is_learned_once() -> None:
    assert {kitti.class_of(word, SEMANTIC_KITTI) for word in LABELS} <= set(SEMANTIC_KITTI)
    assert set(kitti.NEAREST.values()) <= set(SEMANTIC_KITTI)
    learned = [word for words in kitti.LEARNING for word in words]
    assert sorted(learned) == sorted(SEMANTIC_KITTI)
    assert len(kitti.LEARNING) == 20


def test_the_config_file_is_that_of_the_tools() -> None:
    content = yaml.safe_load(kitti.config_file(SEMANTIC_KITTI, [0, 1]))
    assert content["labels"][252] == "moving-car"
    assert content["learning_map"] == {
        0: 0, 1: 0, 10: 1, 11: 2, 13: 5, 15: 3, 16: 5, 18: 4, 20: 5, 30: 6, 31: 7, 32: 8, 40: 9, 44: 10, 48: 11, 49: 12,
        50: 13, 51: 14, 52: 0, 60: 9, 70: 15, 71: 16, 72: 17, 80: 18, 81: 19, 99: 0, 252: 1, 253: 7, 254: 6, 255: 8,
        256: 5, 257: 5, 258: 4, 259: 5,
    }  # fmt: skip
    inverse = [0, 10, 11, 15, 18, 20, 30, 31, 32, 40, 44, 48, 49, 50, 51, 70, 71, 72, 80, 81]
    assert content["learning_map_inv"] == dict(enumerate(inverse))
    assert [row for row, ignored in content["learning_ignore"].items() if ignored] == [0]
    assert set(content["color_map"]) == set(content["labels"])
    assert content["split"]["valid"] == [0, 1]


def test_the_table_turns_numbers() -> None:
    table = kitti.ClassTable({10: "car", 108: "wall", 260: "forklift", 261: "teapot"}, SEMANTIC_KITTI)
    assert table.at_rest[[10, 108, 260, 261]].tolist() == [10, 50, 20, 99]
    assert table.moving[[10, 20, 30, 50]].tolist() == [252, 259, 254, 50]
    assert table.is_countable[[10, 252, 30, 50, 99]].tolist() == [True, True, True, False, False]


# ---- nuScenes --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rate_hz", "count", "samples"),
    [(10, 12, [0, 5, 10]), (20, 21, [0, 10, 20]), (2, 3, [0, 1, 2]), (1, 3, [0, 1, 2]), (10, 1, [0]), (10, 4, [0])],
)
def test_key_frames_come_twice_a_second(rate_hz: float, count: int, samples: list[int]) -> None:
    assert nuscenes_tables.key_frames(np.arange(count) / rate_hz).tolist() == samples


def test_other_lidars_have_the_nearest_scan_as_key_frame() -> None:
    starts = 0.03 + np.arange(12) / 10
    assert nuscenes_tables.nearest_of(starts, np.array([0.0, 0.5, 1.0]), 0.05) == {0: 0, 5: 1, 10: 2}
    assert nuscenes_tables.nearest_of(np.array([0.0, 1.0]), np.array([0.0, 0.5, 1.0]), 0.6) == {0: 0, 1: 2}
    assert nuscenes_tables.nearest_of(np.array([2.0]), np.array([0.0]), 0.05) == {}
    assert nuscenes_tables.nearest_of(np.array([]), np.array([0.0]), 0.05) == {}


def test_visibility_levels() -> None:
    hidden = (0.0, 0.2, 0.3, 0.5, 0.9, 1.0, np.nan)
    assert [nuscenes_tables.visibility_token(share) for share in hidden] == ["4", "4", "3", "2", "1", "1", "1"]


def annotation(instance: int, points: int) -> nuscenes_tables.Annotation:
    ones = np.ones(3)
    turn = np.array([0.0, 0, 0, 1])
    return nuscenes_tables.Annotation(
        instance, "vehicle.car", "vehicle.parked", "4", ones, ones, turn, 0 * ones, points
    )


def test_boxes_without_points_are_kept_only_within_a_track() -> None:
    tables = nuscenes_tables.Tables(1, "a")
    scene = nuscenes_tables.SceneTables("scene-0061", "log", "car", "here", "")
    tables.scenes.append(scene)
    scene.channels["LIDAR_TOP"] = ph.Pose()
    for number, seen in enumerate([False, True, False, True, False]):
        one = [annotation(7, 5 * seen)]
        scene.add_sample(500_000 * number, one if seen else [], [] if seen else one)
        scene.add_sweep("LIDAR_TOP", 500_000 * number, f"samples/{number}", ph.Pose(), number)
        scene.add_sweep("LIDAR_TOP", 500_000 * number + 100_000, f"sweeps/{number}", ph.Pose(), None)
    rows = tables.rows()
    assert [row["num_lidar_pts"] for row in rows["sample_annotation"]] == [5, 0, 5]
    assert rows["instance"][0]["nbr_annotations"] == 3
    # A sweep goes with the sample after it, the last with the last.
    order = [row["token"] for row in rows["sample"]]
    sweeps = [order.index(row["sample_token"]) for row in rows["sample_data"] if not row["is_key_frame"]]
    assert sweeps == [1, 2, 3, 4, 4]
    linked = [row["token"] for row in rows["sample_data"]]
    assert [row["next"] for row in rows["sample_data"]] == [*linked[1:], ""]
    assert [row["prev"] for row in rows["sample_data"]] == ["", *linked[:-1]]


def test_tokens_follow_from_the_key() -> None:
    assert nuscenes_tables.Tables(1, "a").token("x", 2) == nuscenes_tables.Tables(1, "a").token("x", 2)
    assert len({nuscenes_tables.Tables(seed, "a").token("x", row) for seed in range(5) for row in range(5)}) == 25
    assert len(nuscenes_tables.Tables(1).token()) == 32


def test_a_map_is_white_where_triangles_are() -> None:
    square = np.array([[[2.0, 1], [4, 1], [4, 3]], [[2, 1], [4, 3], [2, 3]], [[-5, -5], [-4, -5], [-4, -4]]])
    picture = np.array(Image.open(io.BytesIO(nuscenes_tables.map_mask(square, 8.0, 6.0))))
    assert picture.shape == (60, 80)
    assert set(np.unique(picture)) == {0, 255}
    x, y = 3.0, 2.0  # as the development kit finds pixels: x / 0.1, height - y / 0.1
    assert picture[60 - round(10 * y), round(10 * x)] == 255
    assert picture[60 - 45, round(10 * x)] == 0
    assert np.count_nonzero(picture) == pytest.approx(400, rel=0.15)
