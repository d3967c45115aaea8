"""Bags on the command line: clouds out of them and into them, other storages, and weather on them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rosbags.highlevel import AnyReader

import parhelion as ph
from parhelion.io.ros import BagReader, BagWriter, Message, Topic, cloud_of, read_bag
from parhelion.io.ros import messages as ros

Run = Callable[..., Any]
Fails = Callable[..., str]

SECRET = Topic("/secret", "acme_msgs/msg/Secret", definition="uint8 value\n")
SENSOR = ("--sensor", "velodyne/vlp-16")


@pytest.fixture(scope="module")
def scans() -> list[Any]:
    world = ph.World.load("cuboids")
    lidar = ph.Lidar("velodyne/vlp-16", sub_rays=1)
    return [lidar.scan(world, time=0.1 * k, seed=k) for k in range(2)]


@pytest.fixture
def bag(tmp_path: Path, scans: list[Any]) -> Path:
    """Two clouds among other messages, one of an unknown type."""
    with BagWriter(tmp_path / "drive") as writer:
        writer.add(SECRET)
        for number, scan in enumerate(scans):
            at = 5_000_000_000 + 100_000_000 * number
            data = ros.point_cloud2(scan, "velodyne", at, "velodyne")
            writer.write(Message("/velodyne_points", ros.POINT_CLOUD, at, data))
            writer.write(Message("/imu/data", ros.IMU, at + 1, ros.imu(at, "imu_link", [0, 0, number], [0, 0, 9.8])))
            writer.write(Message("/secret", SECRET.type, at + 2, bytes([0, 1, 0, 0, number])))
    return tmp_path / "drive"


def test_clouds_out_of_a_bag_and_back(run: Run, bag: Path, tmp_path: Path, scans: list[Any]) -> None:
    result = run("convert", bag, tmp_path / "clouds", "--topic", "/velodyne_points")
    assert result.exit_code == 0, result.output
    files = sorted((tmp_path / "clouds").iterdir())
    assert [file.name for file in files] == ["000000.pcd", "000001.pcd"]
    for file, scan in zip(files, scans, strict=True):
        cloud = ph.PointCloud.load(file)
        np.testing.assert_array_equal(cloud.xyz, scan.xyz)
        np.testing.assert_array_equal(cloud.ring, scan.ring)
    again = run("convert", bag, tmp_path / "clouds")
    assert "skipped 2" in again.stdout
    for target, options in (("new.mcap", ()), ("new.db3", ()), ("folder", ("--format", "sqlite3"))):
        made = run("convert", tmp_path / "clouds", tmp_path / target, "--layout", "velodyne", *options)
        assert made.exit_code == 0, made.output
        found = list(read_bag(tmp_path / target))
        # The clouds keep the times that they had in the bag.
        assert [(one.topic, one.time_ns) for one in found] == [("/points", 5_000_000_000), ("/points", 5_100_000_000)]
        np.testing.assert_array_equal(cloud_of(found[1]).xyz, scans[1].xyz)
    with AnyReader([tmp_path / "folder"]) as other:
        assert other.message_count == 2


def test_clouds_without_times_go_by_a_rate(run: Run, tmp_path: Path) -> None:
    (tmp_path / "clouds").mkdir()
    for number in range(3):
        ph.PointCloud(np.full((4, 3), number, np.float32)).save(tmp_path / "clouds" / f"{number}.bin", format="kitti")
    result = run("convert", tmp_path / "clouds", tmp_path / "a.mcap", "--rate", 20, "--topic", "/x", "--frame", "roof")
    assert result.exit_code == 0, result.output
    found = list(read_bag(tmp_path / "a.mcap"))
    assert [ros.nanoseconds(ros.decode(one.type, one.data).header.stamp) for one in found] == [
        0,
        50_000_000,
        100_000_000,
    ]
    assert {cloud_of(one).metadata["frame_id"] for one in found} == {"roof"}


def test_from_one_storage_to_another(run: Run, bag: Path, tmp_path: Path) -> None:
    result = run("convert", bag, tmp_path / "other.db3")
    assert result.exit_code == 0, result.output
    assert list(read_bag(tmp_path / "other.db3")) == list(read_bag(bag))
    assert BagReader(tmp_path / "other.db3").topics["/secret"].definition == SECRET.definition
    back = run("convert", tmp_path / "other.db3", tmp_path / "back.mcap", "--topic", "/imu/data")
    assert back.exit_code == 0, back.output
    assert {one.topic for one in read_bag(tmp_path / "back.mcap")} == {"/imu/data"}


def test_weather_on_a_bag(run: Run, bag: Path, tmp_path: Path, scans: list[Any]) -> None:
    result = run("weather", bag, "-o", tmp_path / "wet.mcap", "--rain", 40, *SENSOR, "--seed", 3)
    assert result.exit_code == 0, result.output
    assert "wet.mcap" in result.stdout
    before, after = list(read_bag(bag)), list(read_bag(tmp_path / "wet.mcap"))
    assert [(one.topic, one.type, one.time_ns) for one in after] == [
        (one.topic, one.type, one.time_ns) for one in before
    ]
    for old, new in zip(before, after, strict=True):
        assert (old.data == new.data) == (old.topic != "/velodyne_points")
    old_head, new_head = (ros.decode(one[0].type, one[0].data) for one in (before, after))
    assert [field.name for field in new_head.fields] == [field.name for field in old_head.fields]
    assert new_head.header == old_head.header
    # The same drops as in Python, on the same cloud.
    lidar = ph.Lidar("velodyne/vlp-16")
    for number, message in enumerate(one for one in before if one.topic == "/velodyne_points"):
        wet = ph.Weather(rain_rate_mm_h=40).apply(
            cloud_of(message), sensor=lidar, seed=3, time=0.1 * number,
            frame=ros.nanoseconds(ros.decode(message.type, message.data).header.stamp),
        )  # fmt: skip
        found = cloud_of([one for one in after if one.topic == "/velodyne_points"][number])
        np.testing.assert_array_equal(found.xyz, wet.xyz)
        assert np.any(wet.origin == 1)
    again = run("weather", bag, "-o", tmp_path / "wet-folder", "--rain", 40, *SENSOR, "--seed", 3)
    assert again.exit_code == 0, again.output
    assert list(read_bag(tmp_path / "wet-folder")) == after


def test_weather_on_a_bag_that_names_its_sensors(run: Run, bag: Path, tmp_path: Path) -> None:
    result = run("weather", bag, "-o", tmp_path / "wet.mcap", "--rain", 40, *SENSOR)
    assert result.exit_code == 0, result.output
    with BagWriter(tmp_path / "own", overwrite=True) as writer:
        writer.sensors = {"/velodyne_points": SENSOR[1], "/lost": "no/sensor"}
        writer.add(SECRET)
        for message in read_bag(bag):
            writer.write(message)
    assert BagReader(tmp_path / "own").sensors == {"/velodyne_points": SENSOR[1], "/lost": "no/sensor"}
    result = run("weather", tmp_path / "own", "-o", tmp_path / "same.mcap", "--rain", 40)
    assert result.exit_code == 0, result.output
    assert list(read_bag(tmp_path / "same.mcap")) == list(read_bag(tmp_path / "wet.mcap"))


def test_weather_on_an_organised_bag(run: Run, tmp_path: Path) -> None:
    scan = ph.Lidar("ouster/os0-32", sub_rays=1, columns=512).scan(ph.World.load("cuboids"), seed=1)
    with BagWriter(tmp_path / "os.mcap") as writer:
        writer.write(Message("/ouster/points", ros.POINT_CLOUD, 1, ros.point_cloud2(scan, "os_lidar", 1, "ouster")))
    result = run(
        "weather", tmp_path / "os.mcap", "-o", tmp_path / "fog.mcap", "--visibility", 30, "--sensor", "ouster/os0-32"
    )
    assert result.exit_code == 0, result.output
    before, after = (next(read_bag(tmp_path / name)) for name in ("os.mcap", "fog.mcap"))
    image = ros.decode(after.type, after.data)
    assert (image.height, image.width, image.point_step) == (32, 512, 48)
    old, new = (cloud_of(one, keep_missing=True) for one in (before, after))
    np.testing.assert_array_equal(new.ring, old.ring)
    np.testing.assert_array_equal(new.time, old.time)
    # Fog sends something back along shots that met nothing before.
    empty = np.isnan(old.xyz[:, 0])
    assert np.isfinite(new.xyz[empty, 0]).sum() > 0
    assert np.nanmax(new.range[empty]) < 15.0
    both = np.isfinite(old.xyz[:, 0]) & np.isfinite(new.xyz[:, 0])
    # Points that are in both images lie in the same direction.
    dots = np.sum(old.xyz[both] * new.xyz[both], axis=1)
    lengths = np.linalg.norm(old.xyz[both], axis=1) * np.linalg.norm(new.xyz[both], axis=1)
    assert np.all(dots > 0.999 * lengths)


def test_what_is_wrong_is_reported_in_one_line(fails: Fails, bag: Path, tmp_path: Path, scans: list[Any]) -> None:
    assert "did you mean '/velodyne_points'" in fails("convert", bag, tmp_path / "x", "--topic", "/velodyne_point")
    assert "not sensor_msgs/msg/PointCloud2" in fails("convert", bag, tmp_path / "x", "--topic", "/imu/data")
    assert "give it with --sensor" in fails("weather", bag, "-o", tmp_path / "w.mcap", "--rain", 5)
    assert not (tmp_path / "w.mcap").exists()
    assert "would replace the input" in fails("weather", bag, "-o", bag, "--rain", 5, *SENSOR, "--overwrite")
    (tmp_path / "broken.mcap").write_bytes(b"no bag at all")
    assert "not an MCAP file" in fails("convert", tmp_path / "broken.mcap", tmp_path / "x")
    before = (tmp_path / "there.mcap").write_bytes(b"earlier")
    assert "--force replaces it" in fails("convert", bag, tmp_path / "there.mcap")
    assert (tmp_path / "there.mcap").stat().st_size == before
    with BagWriter(tmp_path / "none.mcap") as writer:
        writer.write(Message("/clock", ros.CLOCK, 1, ros.clock(1)))
    assert "no topic with point clouds" in fails("convert", tmp_path / "none.mcap", tmp_path / "x")
    with BagWriter(tmp_path / "two.mcap") as writer:
        for name in ("/a", "/b"):
            data = ros.point_cloud2(scans[0], "lidar", 1, "velodyne")
            writer.write(Message(name, ros.POINT_CLOUD, 1, data))
    assert "select one with --topic" in fails(
        "weather", tmp_path / "two.mcap", "-o", tmp_path / "w.mcap", "--rain", 5, *SENSOR
    )


def test_several_topics_go_to_folders_of_their_own(run: Run, tmp_path: Path, scans: list[Any]) -> None:
    with BagWriter(tmp_path / "two.mcap") as writer:
        for name in ("/front/points", "/back/points"):
            writer.write(Message(name, ros.POINT_CLOUD, 1, ros.point_cloud2(scans[0], "lidar", 1, "velodyne")))
    result = run("convert", tmp_path / "two.mcap", tmp_path / "out", "--format", "ply")
    assert result.exit_code == 0, result.output
    assert sorted(file.relative_to(tmp_path / "out").as_posix() for file in (tmp_path / "out").rglob("*.ply")) == [
        "back_points/000000.ply", "front_points/000000.ply"
    ]  # fmt: skip


def test_a_broken_bag_is_reported_and_read(run: Run, bag: Path, tmp_path: Path) -> None:
    whole = next(bag.glob("*.mcap")).read_bytes()
    (tmp_path / "cut.mcap").write_bytes(whole[:-60])
    result = run("convert", tmp_path / "cut.mcap", tmp_path / "clouds")
    assert result.exit_code == 0, result.output
    assert "is truncated" in result.stderr
    assert len(list((tmp_path / "clouds").iterdir())) == 2
