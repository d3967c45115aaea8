"""Every cloud format against one contract: round trip, damage, and what happens to an earlier file."""

from __future__ import annotations

import time
import warnings
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from parhelion.core.clouds import FIELDS, PointCloud, Scan, Shots
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist
from parhelion.io import FORMATS, FieldsDroppedWarning, format_of, read_cloud, write_cloud


@dataclass(frozen=True)
class Case:
    """One format in one of its encodings, and how far its round trip may stray."""

    format: str
    options: dict[str, Any] = field(default_factory=dict)
    xyz_tolerance: float = 0.0
    xyz_dtype_kept: bool = True
    described: bool = True
    inexact: tuple[str, ...] = ()

    @property
    def ending(self) -> str:
        return FORMATS[self.format].endings[0]

    def __str__(self) -> str:
        return "-".join([self.format, *map(str, self.options.values())])


CASES = [
    Case("pcd"),
    Case("pcd", {"encoding": "binary_compressed"}),
    Case("pcd", {"encoding": "ascii"}),
    Case("ply"),
    Case("ply", {"encoding": "ascii"}),
    # Half a step of 0.1 mm, and the rounding of float32 at 100 m.
    Case("las", xyz_tolerance=0.5e-4 + 4e-6, inexact=("intensity",)),
    Case("laz", xyz_tolerance=0.5e-4 + 4e-6, inexact=("intensity",)),
    Case("kitti", described=False),
    Case("nuscenes", described=False),
    # The text holds nine digits of a float32, read as float64.
    Case("csv", xyz_tolerance=5e-7, xyz_dtype_kept=False, described=False),
    Case("csv", {"describe": True}),
    Case("npz"),
    Case("npz", {"compress": True}),
]
every_case = pytest.mark.parametrize("case", CASES, ids=str)


def example_cloud(points: int) -> PointCloud:
    """A cloud with every field of the house table, in its type."""
    rng = np.random.default_rng(points)
    fields = {}
    for name, spec in FIELDS.items():
        shape = (points,) if spec.columns == 1 else (points, spec.columns)
        if spec.dtype == "float32":
            fields[name] = rng.uniform(0, 100, shape).astype(np.float32)
        else:
            fields[name] = rng.integers(0, 9, shape).astype(spec.dtype)
    names = {"label": {1: "building", 7: 'traffic sign, "50"'}, "origin": {0: "surface"}}
    metadata = {"sensor": "velodyne/vlp-16", "seed": 7, "pitch deg": [0.5, -1.25], "note": "  two  spaces # "}
    return PointCloud(rng.uniform(-90, 90, (points, 3)).astype(np.float32), fields, "world", names, metadata)


def write_quietly(cloud: PointCloud, path: Path, case: Case) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FieldsDroppedWarning)
        write_cloud(cloud, path, **case.options)


def held(case: Case, cloud: PointCloud) -> list[str]:
    kept = FORMATS[case.format].fields
    return [name for name in cloud.fields if kept is None or name in kept]


def test_every_format_is_under_the_contract() -> None:
    # Labels alone are no cloud; tests/unit/io/test_kitti.py has them. Captures need scans, which
    # tests/unit/io/test_velodyne.py has.
    assert {case.format for case in CASES} | {"semantickitti", "pcap", "lvx2"} == set(FORMATS)


@every_case
@pytest.mark.parametrize("points", [0, 1, 257])
def test_round_trip_keeps_all_that_the_format_claims(case: Case, points: int, tmp_path: Path) -> None:
    cloud = example_cloud(points)
    path = tmp_path / f"cloud{case.ending}"
    write_quietly(cloud, path, case)
    back = read_cloud(path)
    assert type(back) is PointCloud
    assert back.xyz.shape == cloud.xyz.shape
    assert back.xyz.dtype == (np.float32 if case.xyz_dtype_kept else np.float64)
    np.testing.assert_allclose(back.xyz, cloud.xyz, rtol=0, atol=case.xyz_tolerance)
    assert set(back.fields) == set(held(case, cloud))
    for name in held(case, cloud):
        assert back.fields[name].dtype == cloud.fields[name].dtype, name
        if name in case.inexact:
            np.testing.assert_allclose(back.fields[name], cloud.fields[name], rtol=0, atol=100 / 65535, err_msg=name)
        else:
            np.testing.assert_array_equal(back.fields[name], cloud.fields[name], err_msg=name)
    if case.described:
        assert (back.frame, back.names, back.metadata) == (cloud.frame, cloud.names, cloud.metadata)


@every_case
def test_left_out_fields_are_named_in_one_warning(case: Case, tmp_path: Path) -> None:
    cloud = example_cloud(3)
    lost = [name for name in cloud.fields if name not in held(case, cloud)]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        write_cloud(cloud, tmp_path / f"cloud{case.ending}", **case.options)
    assert len(caught) == (1 if lost else 0)
    for entry in caught:
        assert entry.category is FieldsDroppedWarning
        assert entry.filename == __file__
        assert all(name in str(entry.message) for name in lost)


UNUSUAL = {
    "flag": np.array([True, False, True]),
    "half": np.array([0.5, -2.0, 65504.0], np.float16),
    "tiny": np.array([-128, 0, 127], np.int8),
    "long": np.array([-(2**31), 5, 2**31 - 1], np.int64),
    "huge": np.array([2**63, 2**53 + 1, 0], np.uint64),
    "pair": np.arange(6, dtype=np.int16).reshape(3, 2),
    "single": np.arange(3, dtype=np.float64).reshape(3, 1) / 3,
    "swapped": np.arange(3, dtype=">f8"),
    "x_offset": np.arange(3, dtype=np.float32),
    "classification": np.arange(3, dtype=np.int32),
    "normal_x": np.arange(3, dtype=np.float32),
}


@every_case
def test_fields_of_unusual_types_and_shapes_come_back(case: Case, tmp_path: Path) -> None:
    if FORMATS[case.format].fields is not None or not case.described:
        pytest.skip("the format keeps no types of its own")
    cloud = PointCloud(np.zeros((3, 3)), UNUSUAL)
    path = tmp_path / f"cloud{case.ending}"
    write_quietly(cloud, path, case)
    back = read_cloud(path)
    lost = {"huge"} if case.format == "ply" else set()  # PLY has no 64-bit integers
    assert set(back.fields) == set(UNUSUAL) - lost
    for name in back.fields:
        np.testing.assert_array_equal(back.fields[name], UNUSUAL[name], err_msg=name)
        assert back.fields[name].dtype.newbyteorder("=") == UNUSUAL[name].dtype.newbyteorder("="), name


@every_case
def test_points_without_coordinates_are_kept_or_refused(case: Case, tmp_path: Path) -> None:
    xyz = np.array([[1, 2, 3], [np.nan, np.nan, np.nan], [np.inf, 0, -np.inf]], np.float32)
    path = tmp_path / f"cloud{case.ending}"
    if case.format in ("las", "laz"):
        with pytest.raises(FormatError, match="2 points have no finite coordinates"):
            write_quietly(PointCloud(xyz), path, case)
        assert not path.exists()
    else:
        write_quietly(PointCloud(xyz), path, case)
        np.testing.assert_array_equal(read_cloud(path).xyz, xyz)


@every_case
def test_a_failed_write_leaves_the_earlier_file_whole(
    case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"cloud{case.ending}"
    write_quietly(example_cloud(5), path, case)
    before = path.read_bytes()

    def interrupted(*_: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr("parhelion.core.files.os.replace", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_quietly(example_cloud(9), path, case)
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


@every_case
def test_the_same_cloud_gives_the_same_bytes(case: Case, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    first, second = tmp_path / f"a{case.ending}", tmp_path / f"b{case.ending}"
    write_quietly(example_cloud(20), first, case)
    later = time.time() + 400 * 86400
    monkeypatch.setattr(time, "time", lambda: later)
    write_quietly(example_cloud(20), second, case)
    assert first.read_bytes() == second.read_bytes()


@every_case
def test_files_of_another_kind_are_refused(case: Case, tmp_path: Path) -> None:
    path = tmp_path / f"cloud{case.ending}"
    raw = case.format in ("kitti", "nuscenes")
    for content in (b"", b"\n", b"hello world\n", b"\x00\xff" * 501, b"\x89PNG\r\n\x1a\n" + bytes(9)):
        path.write_bytes(content)
        if raw and not content:
            assert len(read_cloud(path)) == 0  # without a header, no bytes are no points
        else:
            with pytest.raises(FormatError, match="cloud") as caught:
                read_cloud(path)
            assert str(path) in str(caught.value)
            assert "\n" not in str(caught.value)


@every_case
def test_missing_files_and_folders_are_named(case: Case, tmp_path: Path) -> None:
    path = tmp_path / f"cloud{case.ending}"
    with pytest.raises(FormatError, match="no such file"):
        read_cloud(path)
    path.mkdir()
    with pytest.raises(FormatError, match="is a folder"):
        read_cloud(path)
    with pytest.raises(FormatError, match="is a folder"):
        write_quietly(example_cloud(1), path, case)
    with pytest.raises(FormatError, match="does not exist"):
        write_quietly(example_cloud(1), tmp_path / "nowhere" / f"cloud{case.ending}", case)


_whole_files: dict[str, bytes] = {}


def whole_file(case: Case, folder: Path) -> bytes:
    if str(case) not in _whole_files:
        path = folder / f"whole{case.ending}"
        cloud: PointCloud = example_cloud(12)
        if case.format == "npz":
            shots = Shots(*np.zeros((2, 4, 3), np.float32), *(np.arange(4).astype(t) for t in ("f4", "u2", "u2", "u1")))
            cloud = Scan(cloud.xyz, cloud.fields, shots=shots, motion=ConstantTwist(Pose(), (1.0, 0.0, 0.0)))
        write_quietly(cloud, path, case)
        _whole_files[str(case)] = path.read_bytes()
    return _whole_files[str(case)]


@every_case
@settings(
    max_examples=60, deadline=2000, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(data=st.data())
def test_damaged_files_never_raise_anything_else(case: Case, tmp_path: Path, data: st.DataObject) -> None:
    damaged = bytearray(whole_file(case, tmp_path))
    places = st.one_of(st.integers(0, len(damaged) - 1), st.integers(0, min(600, len(damaged)) - 1))
    for place in data.draw(st.lists(places, max_size=4), label="flipped bytes"):
        damaged[place] = data.draw(st.one_of(st.just(255), st.integers(0, 255)), label="new value")
    damaged = damaged[: data.draw(st.one_of(st.just(len(damaged)), st.integers(0, len(damaged))), label="length")]
    path = tmp_path / f"damaged{case.ending}"
    path.write_bytes(damaged)
    problem = None
    try:
        read_cloud(path)
    except ParhelionError as error:
        problem = str(error)
    assert problem is None or str(path) in problem


def test_the_longest_ending_wins() -> None:
    assert format_of("a.pcd.bin").name == "nuscenes"
    assert format_of("a.bin").name == "kitti"
    assert format_of("A.PCD").name == "pcd"
    assert format_of("a.bin", "pcd").name == "pcd"


def test_unknown_endings_formats_and_options_are_named(tmp_path: Path) -> None:
    cloud = example_cloud(1)
    with pytest.raises(FormatError, match=r"unknown file extension; use one of .*\.pcd"):
        read_cloud("cloud.xyzzy")
    with pytest.raises(ConfigError, match="did you mean 'nuscenes'"):
        read_cloud("cloud.pcd", format="nuscene")
    with pytest.raises(ConfigError, match="did you mean 'encoding'"):
        write_cloud(cloud, tmp_path / "a.pcd", encodng="ascii")
    with pytest.raises(ConfigError, match="accepts no options, got 'compress'"):
        write_cloud(cloud, tmp_path / "a.pcd.bin", compress=True)
    for ending in ("pcd", "ply"):
        with pytest.raises(ConfigError, match="did you mean 'binary'"):
            write_cloud(cloud, tmp_path / f"a.{ending}", encoding="binari")
    assert list(tmp_path.iterdir()) == []


def test_load_and_save_of_the_record_use_the_table(tmp_path: Path) -> None:
    cloud = example_cloud(4)
    cloud.save(tmp_path / "scan.dat", format="pcd", encoding="ascii")
    back = PointCloud.load(tmp_path / "scan.dat", format="pcd")
    np.testing.assert_array_equal(back.xyz, cloud.xyz)


@pytest.mark.parametrize(
    ("ending", "metadata", "fields", "problem"),
    [
        (".pcd", {"lidar": object()}, {}, "metadata cannot be written as JSON"),
        (".pcd", {}, {"a b": np.zeros(1)}, "field called 'a b'"),
        (".ply", {}, {"ä": np.zeros(1)}, "field called 'ä'"),
        (".csv", {}, {"a,b": np.zeros(1)}, "field called 'a,b'"),
        (".pcd", {}, {"x": np.zeros(1)}, "two fields .* column 'x'"),
        (".ply", {}, {"velocity": np.zeros((1, 3)), "velocity_x": np.zeros(1)}, "column 'velocity_x'"),
        (".npz", {}, {"words": np.array([None], object)}, "Python objects"),
        (".pcd", {"viewpoint": [1, 2]}, {}, "viewpoint"),
    ],
)
def test_what_a_file_cannot_say_is_refused(
    tmp_path: Path, ending: str, metadata: dict[str, Any], fields: dict[str, Any], problem: str
) -> None:
    with pytest.raises(FormatError, match=problem):
        write_cloud(PointCloud(np.zeros((1, 3)), fields, metadata=metadata), tmp_path / f"a{ending}")
    assert list(tmp_path.iterdir()) == []


def test_binary_formats_are_quick(tmp_path: Path) -> None:
    n = 1_000_000
    rng = np.random.default_rng(1)
    xyz = rng.normal(0, 30, (n, 3)).astype(np.float32)
    cloud = PointCloud(xyz, {"intensity": xyz[:, 0] ** 2, "ring": (np.arange(n) % 16).astype(np.uint16)})
    for ending in (".pcd", ".npz", ".pcd.bin"):
        start = time.process_time()
        write_cloud(cloud, tmp_path / f"a{ending}")
        assert len(read_cloud(tmp_path / f"a{ending}")) == n
        assert time.process_time() - start < 1.0, ending
