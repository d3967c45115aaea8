"""Bags as files: both storages, read by rosbags and by mcap, whole and broken off."""

from __future__ import annotations

import signal
import sqlite3
import subprocess
import sys
import warnings
from pathlib import Path

import pytest
from mcap.reader import make_reader
from rosbags.highlevel import AnyReader

from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.ros import BagReader, BagWarning, BagWriter, Message, Topic, is_bag, read_bag
from parhelion.io.ros import messages as ros

STORAGES = ("mcap", "sqlite3")
SECRET = Topic("/secret", "acme_msgs/msg/Secret", definition="uint8 value\n", hash="RIHS01_00")


def some_messages(count: int = 30) -> list[Message]:
    found = [Message("/tf_static", ros.TF, 1, ros.tf_message([]))]
    for k in range(count):
        at = 10_000_000 * (k + 1)
        found.append(Message("/clock", ros.CLOCK, at, ros.clock(at)))
        found.append(Message("/imu/data", ros.IMU, at + 1, ros.imu(at, "imu_link", [k, 0, 0], [0, 0, 9.8])))
        found.append(Message("/pressure", ros.FLUID_PRESSURE, at + 2, ros.fluid_pressure(at, "baro", 1e5 + k)))
    return found


def written(path: Path, storage: str | None = None, **options: str) -> list[Message]:
    found = some_messages()
    with BagWriter(path, storage, **options) as bag:
        for message in found:
            bag.write(message)
    return found


@pytest.mark.parametrize("storage", STORAGES)
def test_a_bag_is_read_by_us_and_by_rosbags(tmp_path: Path, storage: str) -> None:
    sent = written(tmp_path / "bag", storage)
    assert is_bag(tmp_path / "bag")
    reader = BagReader(tmp_path / "bag")
    assert list(reader) == sent
    assert {name: (topic.type, topic.count) for name, topic in reader.topics.items()} == {
        "/tf_static": (ros.TF, 1), "/clock": (ros.CLOCK, 30), "/imu/data": (ros.IMU, 30),
        "/pressure": (ros.FLUID_PRESSURE, 30),
    }  # fmt: skip
    assert list(read_bag(tmp_path / "bag", ["/clock"])) == [one for one in sent if one.topic == "/clock"]
    with AnyReader([tmp_path / "bag"]) as other:
        assert other.message_count == len(sent)
        assert other.start_time == 1
        found = [(connection.topic, connection.msgtype, at, bytes(data)) for connection, at, data in other.messages()]
        assert sorted(found) == sorted(tuple(one) for one in sent)
        for connection, _, data in other.messages():
            other.deserialize(data, connection.msgtype)  # by the definitions in the bag itself
        latched = next(one for one in other.connections if one.topic == "/tf_static")
        offered = str(latched.ext.offered_qos_profiles)  # type: ignore[union-attr]
        assert "durability: 1" in offered or "TRANSIENT_LOCAL" in offered  # as text, or as newer rosbags parse it


@pytest.mark.parametrize("compression", ["zstd", "lz4", "none"])
def test_mcap_is_a_ros2_file(tmp_path: Path, compression: str) -> None:
    sent = written(tmp_path / "one.mcap", compression=compression)
    with (tmp_path / "one.mcap").open("rb") as file:
        reader = make_reader(file, validate_crcs=True)
        assert reader.get_header().profile == "ros2"
        found = [(s.name, s.encoding, c.message_encoding, m.data) for s, c, m in reader.iter_messages() if s]
        summary = reader.get_summary()
    assert [entry[3] for entry in found] == [one.data for one in sent]
    assert {entry[1:3] for entry in found} == {("ros2msg", "cdr")}
    assert summary is not None
    assert {index.compression for index in summary.chunk_indexes} == {"" if compression == "none" else compression}
    definition = next(s for s in summary.schemas.values() if s.name == ros.TF).data.decode()
    assert "MSG: geometry_msgs/TransformStamped" in definition
    assert "MSG: builtin_interfaces/Time" in definition


def test_the_same_messages_are_the_same_bytes(tmp_path: Path) -> None:
    for storage, ending in (("mcap", ".mcap"), ("sqlite3", ".db3")):
        for name in ("a", "b"):
            written(tmp_path / name / f"one{ending}" if (tmp_path / name).mkdir(exist_ok=True) is None else tmp_path)
        one, two = (tmp_path / name / f"one{ending}" for name in ("a", "b"))
        assert one.read_bytes() == two.read_bytes(), storage


def test_time_zero_is_read_by_others(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "bag") as bag:
        bag.write(Message("/clock", ros.CLOCK, 0, ros.clock(0)))
    with AnyReader([tmp_path / "bag"]) as other:
        assert len(list(other.messages())) == 1
    (message,) = BagReader(tmp_path / "bag")
    assert ros.nanoseconds(ros.decode(message.type, message.data).clock) == 0


@pytest.mark.parametrize("storage", STORAGES)
def test_types_of_others_pass_through(tmp_path: Path, storage: str) -> None:
    message = Message("/secret", SECRET.type, 5, b"\x00\x01\x00\x00\x07")
    with BagWriter(tmp_path / "bag", storage) as bag:
        with pytest.raises(ConfigError, match="acme_msgs"):
            bag.write(message)
        bag.add(SECRET)
        bag.write(message)
    reader = BagReader(tmp_path / "bag")
    assert list(reader) == [message]
    assert reader.topics["/secret"].definition == SECRET.definition


@pytest.mark.parametrize("storage", STORAGES)
def test_an_empty_bag(tmp_path: Path, storage: str) -> None:
    BagWriter(tmp_path / "bag", storage).close()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BagWarning)
        assert list(BagReader(tmp_path / "bag")) == []


KILLED = """
import sys, time
from parhelion.io.ros import BagWriter, Message
from parhelion.io.ros import messages as ros
import numpy as np
from parhelion.core.clouds import PointCloud
cloud = PointCloud(np.random.default_rng(0).random((5000, 3)).astype(np.float32))
bag = BagWriter(sys.argv[1], sys.argv[2])
for k in range(100000):
    at = (k + 1) * 100_000_000
    bag.write(Message("/points", ros.POINT_CLOUD, at, ros.point_cloud2(cloud, "lidar", at, "velodyne")))
    if k == 60:
        print("written", flush=True)
        time.sleep(60)
"""


@pytest.mark.parametrize("storage", STORAGES)
def test_a_killed_writer_leaves_a_readable_bag(tmp_path: Path, storage: str) -> None:
    folder = tmp_path / "bag"
    process = subprocess.Popen([sys.executable, "-c", KILLED, str(folder), storage], stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"written\n"
        process.send_signal(signal.SIGKILL)
    finally:
        process.kill()
        process.wait(20)
        process.stdout.close()  # type: ignore[union-attr]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", BagWarning)
        reader = BagReader(folder)
        found = list(reader)
    # 61 clouds of 110 kB: at most the last MiB and a message are lost.
    assert 61 - 11 <= len(found) < 61
    assert [message.time_ns for message in found] == [(k + 1) * 100_000_000 for k in range(len(found))]
    assert reader.topics["/points"].count == len(found)
    assert len(ros.cloud_of(found[-1])) == 5000
    if storage == "mcap":
        with pytest.warns(BagWarning, match="is truncated"):
            BagReader(folder)
    else:
        with AnyReader([folder]) as other:
            assert len(list(other.messages())) == len(found)


@pytest.mark.parametrize("ending", [".mcap", ".db3"])
def test_files_cut_anywhere(tmp_path: Path, ending: str) -> None:
    sent = []
    with BagWriter(tmp_path / f"whole{ending}", **({"compression": "none"} if ending == ".mcap" else {})) as bag:
        for k in range(40):
            data = ros.tf_message([ros.Transform("map", "x" * 60000, k, [0, 0, 0], [0, 0, 0, 1])])
            sent.append(Message("/tf", ros.TF, k + 1, data))
            bag.write(sent[-1])
    whole = (tmp_path / f"whole{ending}").read_bytes()
    most = 0
    for share in (0.0, 0.001, 0.2, 0.5, 0.77, 0.95, 0.9999):
        file = tmp_path / f"cut{ending}"
        file.write_bytes(whole[: int(len(whole) * share)])
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", BagWarning)
            try:
                found = list(BagReader(file))
            except FormatError:
                assert share < 0.1 or ending == ".db3"
                continue
        assert found == sent[: len(found)]
        assert len(found) >= most
        most = len(found)
    assert most >= 17


@pytest.mark.parametrize("storage", STORAGES)
def test_an_earlier_bag_stays_until_the_new_one_is_whole(tmp_path: Path, storage: str) -> None:
    place = tmp_path / "bag"
    sent = written(place, storage)
    with pytest.raises(FormatError, match="already exists"):
        BagWriter(place, storage)
    bag = BagWriter(place, storage, overwrite=True)
    bag.write(sent[0])
    assert list(BagReader(place)) == sent
    bag.discard()
    assert list(BagReader(place)) == sent
    assert [file.name for file in tmp_path.iterdir()] == ["bag"]
    with BagWriter(place, storage, overwrite=True) as bag:
        bag.write(sent[0])
    assert list(BagReader(place)) == sent[:1]
    assert [file.name for file in tmp_path.iterdir()] == ["bag"]


def test_folders_with_other_files_are_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "bag").mkdir()
    (tmp_path / "bag" / "thesis.tex").write_text("years of work")
    with pytest.raises(FormatError, match="not part of a bag"):
        BagWriter(tmp_path / "bag", overwrite=True)
    assert (tmp_path / "bag" / "thesis.tex").exists()


def test_split_bags_and_bags_without_metadata(tmp_path: Path) -> None:
    sent = written(tmp_path / "bag", "mcap")
    (tmp_path / "bag" / "metadata.yaml").unlink()
    assert list(BagReader(tmp_path / "bag")) == sent
    folder = tmp_path / "split"
    folder.mkdir()
    for number, part in enumerate((sent[:40], sent[40:])):
        with BagWriter(folder / f"split_{number}.mcap") as bag:
            for message in part:
                bag.write(message)
    reader = BagReader(folder)
    assert list(reader) == sent
    assert reader.count == len(sent)


def test_bags_of_humble_without_definitions(tmp_path: Path) -> None:
    file = tmp_path / "old.db3"
    base = sqlite3.connect(file)
    base.executescript(
        """CREATE TABLE topics(id INTEGER PRIMARY KEY, name TEXT NOT NULL, type TEXT NOT NULL,
             serialization_format TEXT NOT NULL);
           CREATE TABLE messages(id INTEGER PRIMARY KEY, topic_id INTEGER NOT NULL, timestamp INTEGER NOT NULL,
             data BLOB NOT NULL);"""
    )
    base.execute("INSERT INTO topics VALUES (1, '/clock', 'rosgraph_msgs/msg/Clock', 'cdr')")
    base.executemany("INSERT INTO messages VALUES (NULL, 1, ?, ?)", [(at, ros.clock(at)) for at in (30, 10, 20)])
    base.commit()
    base.close()
    assert [message.time_ns for message in read_bag(file)] == [10, 20, 30]


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("a.mcap", b"", "not an MCAP file"),
        ("a.mcap", b"PK\x03\x04 something else", "not an MCAP file"),
        ("a.db3", b"PK\x03\x04 something else", "not an SQLite file"),
        ("a.db3", b"SQLite format 3\x00" + bytes(200), "cannot be read"),
        ("a.bag", b"#ROSBAG V2.0\n", "ROS 1"),
        ("a.txt", b"hello", "is not a bag"),
    ],
)
def test_files_that_are_no_bags(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=words):
        BagReader(tmp_path / name)


def test_places_that_are_no_bags(tmp_path: Path) -> None:
    with pytest.raises(FormatError, match="no such bag"):
        BagReader(tmp_path / "nothing")
    with pytest.raises(FormatError, match="no bag in this folder"):
        BagReader(tmp_path)
    (tmp_path / "metadata.yaml").write_text("title: a paper\n")
    assert not is_bag(tmp_path)
    with pytest.raises(FormatError, match="not the metadata of a ROS 2 bag"):
        BagReader(tmp_path)
    (tmp_path / "metadata.yaml").write_text("rosbag2_bagfile_information: {relative_file_paths: [gone.mcap]}\n")
    with pytest.raises(FormatError, match=r"gone.mcap: the file is missing"):
        BagReader(tmp_path)
    with pytest.raises(FormatError, match="does not exist"):
        BagWriter(tmp_path / "no" / "such.mcap")
    with pytest.raises(ConfigError, match="storage"):
        BagWriter(tmp_path / "bag", "mcaap")
    with pytest.raises(ConfigError, match="compression"):
        BagWriter(tmp_path / "bag2", compression="zip")


def test_wrong_messages(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "bag") as bag:
        bag.write(Message("/clock", ros.CLOCK, 1, ros.clock(1)))
        with pytest.raises(ConfigError, match="has the type rosgraph_msgs"):
            bag.write(Message("/clock", ros.TF, 2, ros.tf_message([])))
        with pytest.raises(ConfigError, match="negative times"):
            bag.write(Message("/clock", ros.CLOCK, -5, b""))
    with pytest.raises(ConfigError, match="closed"):
        bag.write(Message("/clock", ros.CLOCK, 2, ros.clock(2)))
    with pytest.raises(ConfigError, match=r"did you mean '/clock'"):
        read_bag(tmp_path / "bag", ["/clok"])
