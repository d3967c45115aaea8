"""Point clouds and scans as records: frozen, checked, selected, moved, and with the shots that were lost."""

from __future__ import annotations

import copy
import pickle
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.spatial.transform import Rotation

from parhelion.core.clouds import FIELDS, ORIGINS, PointCloud, Scan, Shots, Waveform
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist, Fixed


def cloud(count: int = 5) -> PointCloud:
    rng = np.random.default_rng(count)
    return PointCloud(
        rng.normal(size=(count, 3)).astype(np.float32),
        {"ring": np.arange(count, dtype=np.uint16), "normal": rng.normal(size=(count, 3))},
        names={"label": {1: "car"}},
        metadata={"seed": 7},
    )


# ---- what a cloud holds --------------------------------------------------------------------------------------------


def test_fields_are_attributes() -> None:
    c = cloud()
    assert len(c) == 5
    assert c.ring is c.fields["ring"]
    assert c.normal.shape == (5, 3)
    assert c.frame == "sensor"
    assert c.names["label"][1] == "car"
    assert c.metadata["seed"] == 7


def test_a_missing_field_is_reported_with_those_that_are_there() -> None:
    with pytest.raises(AttributeError, match=r"no field 'rings'; it has: xyz, ring, normal$"):
        _ = cloud().rings
    with pytest.raises(AttributeError, match=r"no field 'ring'; it has: xyz$"):
        _ = PointCloud(np.zeros((2, 3))).ring
    assert not hasattr(cloud(), "_repr_png_")


def test_nothing_can_be_changed() -> None:
    c = cloud()
    for array in (c.xyz, c.ring, c.normal):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 0
    for mapping in (c.fields, c.names, c.metadata):
        with pytest.raises(TypeError):
            mapping["ring"] = np.zeros(5)  # type: ignore[index]
    with pytest.raises(AttributeError):
        c.xyz = np.zeros((5, 3))  # type: ignore[misc]


def test_freezing_leaves_the_givers_arrays_and_dicts_alone() -> None:
    xyz, fields, metadata = np.zeros((2, 3)), {"ring": np.zeros(2)}, {"a": 1}
    c = PointCloud(xyz, fields, metadata=metadata)
    xyz[0, 0] = 1.0  # the array that was given can still be written by who made it
    fields["time"] = np.zeros(2)
    metadata["b"] = 2
    assert list(c.fields) == ["ring"]
    assert dict(c.metadata) == {"a": 1}


@pytest.mark.parametrize(
    ("given_as", "kept_as"),
    [("float32", "float32"), ("float64", "float64"), ("int32", "float64"), ("float16", "float64")],
)
def test_coordinates_are_float32_or_float64(given_as: str, kept_as: str) -> None:
    assert PointCloud(np.ones((2, 3), given_as)).xyz.dtype == kept_as


def test_lists_are_taken() -> None:
    c = PointCloud([[1, 2, 3]], {"ring": [4]})  # type: ignore[arg-type, dict-item, list-item]
    assert c.xyz.tolist() == [[1.0, 2.0, 3.0]]
    assert c.ring.tolist() == [4]


def test_an_empty_cloud_is_a_cloud() -> None:
    c = PointCloud(np.zeros((0, 3)), {"ring": np.zeros(0), "normal": np.zeros((0, 3))})
    assert len(c) == 0
    assert len(c.select(np.zeros(0, bool))) == 0


@pytest.mark.parametrize(
    ("xyz", "fields", "words"),
    [
        (np.zeros((4, 2)), {}, r"xyz must have shape \(n, 3\), got \(4, 2\)"),
        (np.zeros(3), {}, r"xyz must have shape \(n, 3\), got \(3,\)"),
        (np.zeros((1, 4, 3)), {}, r"xyz must have shape"),
        (np.zeros((4, 3)), {"ring": np.zeros(3)}, r"field 'ring' has shape \(3,\), but there are 4 points"),
        (np.zeros((4, 3)), {"ring": np.zeros(())}, r"field 'ring' has shape \(\)"),
        (np.zeros((4, 3)), {"ring": np.zeros((4, 1, 1))}, r"field 'ring' has shape \(4, 1, 1\)"),
        (np.zeros((4, 3)), {"normal": np.zeros((3, 4))}, r"field 'normal' has shape \(3, 4\)"),
    ],
)
def test_shapes_are_checked(xyz: Any, fields: dict[str, Any], words: str) -> None:
    with pytest.raises(ConfigError, match=f"^point cloud: {words}"):
        PointCloud(xyz, fields)


# ---- making others of it -------------------------------------------------------------------------------------------


@settings(deadline=None)
@given(st.integers(0, 30), st.integers(0, 1000))
def test_selecting_keeps_rows_together(count: int, seed: int) -> None:
    c = cloud(count)
    rng = np.random.default_rng(seed)
    mask = rng.random(count) < 0.5
    for rows in (mask, np.flatnonzero(mask), slice(1, None, 2)):
        chosen = c.select(rows)
        assert np.array_equal(chosen.xyz, c.xyz[rows])
        assert np.array_equal(chosen.ring, c.ring[rows])
        assert np.array_equal(chosen.normal, c.normal[rows])
        assert (chosen.frame, chosen.names, chosen.metadata) == (c.frame, c.names, c.metadata)


def test_fields_are_added_and_replaced_in_a_copy() -> None:
    c = cloud()
    more = c.with_fields(time=np.arange(5.0), ring=np.zeros(5))
    assert list(more.fields) == ["ring", "normal", "time"]
    assert more.ring.tolist() == [0] * 5
    assert c.ring.tolist() == [0, 1, 2, 3, 4]
    assert "time" not in c.fields
    assert more.metadata == c.metadata
    with pytest.raises(ConfigError, match="field 'time'"):
        c.with_fields(time=np.arange(4.0))


def test_records_can_be_copied_and_sent_to_other_processes() -> None:
    for record in (cloud(), scan()):
        for again in (copy.deepcopy(record), pickle.loads(pickle.dumps(record)), copy.copy(record)):
            assert type(again) is type(record)
            assert np.array_equal(again.xyz, record.xyz)
            assert {k: v.tolist() for k, v in again.fields.items()} == {k: v.tolist() for k, v in record.fields.items()}
            assert dict(again.metadata) == dict(record.metadata)
            with pytest.raises(ValueError, match="read-only"):
                again.xyz[0] = 0


def test_the_table_of_fields_is_whole() -> None:
    assert len(set(ORIGINS)) == len(ORIGINS) <= 256
    for name, spec in FIELDS.items():
        assert np.dtype(spec.dtype).name == spec.dtype, name
        assert spec.meaning, name
        assert spec.columns in (1, 3), name


# ---- scans ---------------------------------------------------------------------------------------------------------

MOTION = ConstantTwist(Pose((10, 20, 1), rpy_deg=(0, 0, 30)), (5, -3, 0.5), (0, 0, 0.8), start_time=2.0)


def scan() -> Scan:
    """Six shots of which the second and the last are lost and the fourth has two returns."""
    returns = np.array([1, 0, 1, 2, 1, 0], np.uint8)
    time = np.array([0.0, 0.0, 0.02, 0.02, 0.05, 0.1], np.float32)
    angle = np.linspace(0, 2, 6)
    direction = np.stack([np.cos(angle), np.sin(angle), np.zeros(6)], axis=1).astype(np.float32)
    ring, column = np.array([0, 1, 0, 1, 0, 1], np.uint16), np.array([0, 0, 1, 1, 2, 2], np.uint16)
    shots = Shots(direction, np.zeros((6, 3), np.float32), time, ring, column, returns)
    shot = np.repeat(np.arange(6), returns).astype(np.uint32)
    range_m = np.array([5, 6, 7, 9, 8], np.float32)
    fields: dict[str, Any] = {
        "range": range_m, "ring": ring[shot], "column": column[shot], "time": time[shot], "shot": shot,
        "return_count": returns[shot], "velocity": np.ones((5, 3), np.float32),
    }  # fmt: skip
    return Scan(
        range_m[:, None] * direction[shot], fields, metadata={"seed": 7}, shots=shots, motion=MOTION, start_time=2.5
    )


def test_a_scan_knows_its_lost_shots_and_its_pose() -> None:
    s = scan()
    assert s.lost.tolist() == [False, True, False, False, False, True]
    assert len(s.shots) == 6
    assert s.pose.xyz == pytest.approx([12.5, 18.5, 1.25])
    assert s.pose.rpy_deg == pytest.approx([0, 0, 30 + np.degrees(0.4)])


def test_in_world_moves_each_point_by_the_pose_of_its_own_shot() -> None:
    s = scan()
    moved = s.in_world()
    for k in range(len(s)):
        dt = 0.5 + float(s.time[k])
        turn = Rotation.from_euler("z", np.radians(30) + 0.8 * dt)
        expected = turn.apply(s.xyz[k]) + np.array([10, 20, 1]) + dt * np.array([5, -3, 0.5])
        assert moved.xyz[k] == pytest.approx(expected, abs=1e-6)
    assert moved.xyz.dtype == np.float64
    assert moved.frame == "world"
    assert moved.fields.keys() == s.fields.keys()
    assert moved.metadata == s.metadata
    assert not isinstance(moved, Scan)


def test_deskewed_is_the_world_seen_from_the_start() -> None:
    s = scan()
    flat = s.deskewed()
    assert flat.frame == "sensor-start"
    assert flat.xyz.dtype == np.float32
    assert s.pose.apply(flat.xyz) == pytest.approx(s.in_world().xyz, abs=1e-5)
    # The first shot was fired at the start: its point stays. The later ones do not.
    assert flat.xyz[0] == pytest.approx(s.xyz[0], abs=1e-5)
    assert np.linalg.norm(flat.xyz[-1] - s.xyz[-1]) > 0.1


def test_a_standing_scan_is_not_skewed() -> None:
    s = scan()
    still = Scan(s.xyz, s.fields, shots=s.shots, motion=Fixed(Pose((4, 5, 6), rpy_deg=(10, 20, 30))))
    assert still.deskewed().xyz == pytest.approx(s.xyz, abs=1e-5)
    assert still.in_world().xyz == pytest.approx(still.pose.apply(s.xyz))
    assert Scan(s.xyz, s.fields, shots=s.shots).in_world().xyz == pytest.approx(s.xyz)


def test_far_from_the_origin_the_world_frame_keeps_millimetres() -> None:
    s = scan()
    far = Scan(s.xyz, s.fields, shots=s.shots, motion=Fixed(Pose((4.2e6, 5.8e6, 400))))
    assert far.in_world().xyz - np.array([4.2e6, 5.8e6, 400]) == pytest.approx(s.xyz, abs=1e-6)
    assert far.deskewed().xyz == pytest.approx(s.xyz, abs=1e-6)


def test_moved_points_are_not_moved_again() -> None:
    s = scan()
    moved = Scan(s.xyz, s.fields, "world", shots=s.shots)
    with pytest.raises(ConfigError, match="scan: points are already in the frame 'world'"):
        moved.in_world()
    with pytest.raises(ConfigError, match="scan: points are already in the frame 'world'"):
        moved.deskewed()


def test_lost_shots_become_rows_with_all_that_is_known_of_them() -> None:
    s = scan()
    whole = s.with_lost_shots()
    assert len(whole) == 7
    assert np.array_equal(whole.xyz[:5], s.xyz)
    assert np.all(np.isnan(whole.xyz[5:]))
    assert whole.shot.tolist() == [0, 2, 3, 3, 4, 1, 5]
    assert whole.ring[5:].tolist() == [1, 1]
    assert whole.column[5:].tolist() == [0, 2]
    assert whole.time[5:].tolist() == pytest.approx([0.0, 0.1])
    assert whole.return_count.tolist() == [1, 1, 2, 2, 1, 0, 0]
    assert whole.direction == pytest.approx(s.shots.direction[whole.shot])
    assert np.array_equal(whole.velocity[5:], np.zeros((2, 3)))
    for name, values in s.fields.items():
        assert whole.fields[name].dtype == values.dtype, name
        assert np.array_equal(whole.fields[name][:5], values), name


def test_a_scan_with_new_fields_is_still_a_scan() -> None:
    more = scan().with_fields(intensity=np.zeros(5))
    assert isinstance(more, Scan)
    assert more.start_time == 2.5
    assert more.lost.sum() == 2


def test_a_selected_scan_is_still_a_scan_with_all_its_shots() -> None:
    s = scan()
    near = s.select(s.range < 7.5)
    assert isinstance(near, Scan)
    assert near.range.tolist() == [5, 6, 7]
    assert near.shots is s.shots
    assert (near.motion, near.start_time) == (s.motion, s.start_time)
    assert near.lost.tolist() == s.lost.tolist()
    assert near.in_world().xyz == pytest.approx(s.in_world().xyz[:3])
    assert len(near.with_lost_shots()) == 5


def test_waveform_ranges_are_the_bins_centres() -> None:
    w = Waveform(np.array([3], np.uint32), 10.0, 0.15, np.zeros((1, 4), np.float32), 0.1)
    assert w.ranges == pytest.approx([10.0, 10.15, 10.30, 10.45])
