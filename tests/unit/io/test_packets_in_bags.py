"""Bags with raw packets of lidars, and with CustomMsg of Livox, read as clouds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import lidar_recorded_rigs as rig
import parhelion as ph
from parhelion.core.errors import FormatError
from parhelion.io.pcap import read_pcap
from parhelion.io.recordings import clouds_of, clouds_of_topic
from parhelion.io.ros import BagReader, BagWriter, Message
from parhelion.io.ros.clouds import POINT_CLOUD, point_cloud2
from parhelion.io.ros.returns import livox_message
from parhelion.io.ros.types import decode, encode, header, new
from parhelion.makers import codecs

needs_recordings = pytest.mark.skipif(not rig.NEBULA.exists(), reason="needs nebula_packets of ../shared/data")
LIVOX = "livox_ros_driver2/msg/CustomMsg"


@needs_recordings
@pytest.mark.parametrize(
    ("name", "model", "shots"),
    [("hesai_pandar40p", "hesai/pandar40p", 1439 * 5 * 40), ("velodyne_vlp32", "velodyne/vlp-32c", 0)],
)
def test_recorded_packets(name: str, model: str, shots: int) -> None:
    clouds = [cloud for _, cloud in clouds_of(rig.NEBULA / f"{name}.db3")]
    assert {cloud.metadata["sensor"] for cloud in clouds} == {model}
    assert 4 <= len(clouds) <= 10  # the Velodyne's messages contain two halves of a revolution each
    assert sum(map(len, clouds)) > 80_000
    if shots:
        assert sum(len(cloud.shots) for cloud in clouds if isinstance(cloud, ph.Scan)) == shots


def custom_msg(time_ns: int, count: int) -> Message:
    point = [
        new(
            "livox_ros_driver2/msg/CustomPoint", offset_time=5000 * k, x=1.0 + k, y=2.0, z=0.5 if k else 0.0,
            reflectivity=k, tag=16, line=k % 4,
        )
        for k in range(count)
    ]  # fmt: skip
    head = header(time_ns, "livox_frame")
    body = new(
        LIVOX, header=head, timebase=time_ns, point_num=count, lidar_id=1, rsvd=np.zeros(3, np.uint8), points=point
    )
    return Message("/livox/lidar", LIVOX, time_ns, encode(LIVOX, body))


def test_custom_messages(tmp_path: Path) -> None:
    with BagWriter(tmp_path / "drive.mcap") as bag:
        for k in range(2):
            bag.write(custom_msg(10**9 + k * 10**8, 6))
    clouds = [cloud for _, cloud in clouds_of(tmp_path / "drive.mcap")]
    assert [len(cloud) for cloud in clouds] == [6, 6]
    np.testing.assert_allclose(clouds[0].xyz[3], [4.0, 2.0, 0.5])
    np.testing.assert_array_equal(clouds[0].fields["ring"], [0, 1, 2, 3, 0, 1])
    np.testing.assert_array_equal(clouds[0].fields["intensity"], np.arange(6))
    np.testing.assert_allclose(clouds[0].fields["time"], 5e-6 * np.arange(6), atol=1e-9)
    assert clouds[1].metadata["time"] == pytest.approx(1.1)


def scan_of_packets(world: ph.World) -> list[bytes]:
    scan = ph.Lidar("robosense/helios-32", sub_rays=1).scan(world, pose=ph.Pose(), seed=1)
    stream = codecs()["robosense"].stream("robosense/helios-32", epoch_s=1.7e9)
    return [one.payload for one in [*stream.add(scan), *stream.finish()]]


def test_one_packet_per_message_and_damage(tmp_path: Path) -> None:
    """rslidar_msg/RslidarPacket; a damaged message is reported, and the rest is read."""
    world = ph.World()
    world.add(ph.shapes.box(20, 20, 6), material="concrete")
    packets = scan_of_packets(world)
    head = b"\0\1\0\0" + np.array([1_700_000_000, 0, 8], "<u4").tobytes() + b"rslidar\0" + b"\0\0"
    head += bytes(-(len(head) - 4) % 4)
    bodies = [head + np.array([len(one)], "<u4").tobytes() + one for one in packets]
    bodies[5] = bodies[5][:200]
    kind = "rslidar_msg/msg/RslidarPacket"
    text = "std_msgs/Header header\nuint8 is_difop\nuint8 is_frame_begin\nuint8[] data\n"
    with BagWriter(tmp_path / "drive.mcap") as bag:
        from parhelion.io.ros.bag import Topic

        bag.add(Topic("/rslidar_packets", kind, definition=text))
        for k, body in enumerate(bodies):
            bag.write(Message("/rslidar_packets", kind, 10**9 + k, body))
    found = list(clouds_of_topic(BagReader(tmp_path / "drive.mcap"), "/rslidar_packets"))
    (scan,) = [one for one in found if isinstance(one, ph.Scan)]
    (problem,) = [one for one in found if isinstance(one, FormatError)]
    assert "/rslidar_packets: a rslidar_msg/msg/RslidarPacket cannot be decoded" in str(problem)
    assert scan.metadata["missing_columns"] == 12
    assert len(scan.shots) == len([one for one in packets if one[:4] == bytes.fromhex("55aa055a")][1:]) * 12 * 32


def test_clouds_come_before_packets(tmp_path: Path) -> None:
    """A bag with the driver's clouds and the packets of the same lidar has one topic of clouds."""
    cloud = ph.PointCloud(np.ones((3, 3), np.float32), {"intensity": np.ones(3, np.float32)})
    with BagWriter(tmp_path / "drive.mcap") as bag:
        bag.write(Message("/points", POINT_CLOUD, 10**9, point_cloud2(cloud, "lidar", 10**9)))
        bag.write(custom_msg(10**9, 4))
    with pytest.raises(ph.ConfigError, match="several topics with point clouds"):
        list(clouds_of(tmp_path / "drive.mcap"))
    assert len(list(clouds_of(tmp_path / "drive.mcap", topic="/livox/lidar"))) == 1


def test_clouds_as_custom_messages(tmp_path: Path) -> None:
    """A capture becomes a bag of CustomMsg, which rosbags' own decoder reads, and clouds again."""
    world = ph.World()
    world.add(ph.shapes.box(20, 20, 6), material="concrete")
    scan = ph.Lidar("livox/mid-360").scan(world, pose=ph.Pose(), seed=1)
    data = livox_message(scan, "livox_frame", 1_700_000_000_250_000_000)
    read = decode(LIVOX, data)
    assert (read.point_num, read.timebase, read.header.frame_id) == (
        len(scan),
        1_700_000_000_250_000_000,
        "livox_frame",
    )
    order = np.argsort(scan.time, kind="stable")
    np.testing.assert_array_equal([(one.x, one.y, one.z) for one in read.points[:500]], scan.xyz[order[:500]])
    np.testing.assert_array_equal([one.line for one in read.points], scan.ring[order])
    np.testing.assert_array_equal([one.reflectivity for one in read.points], scan.intensity[order])
    np.testing.assert_allclose([1e-9 * one.offset_time for one in read.points], scan.time[order], atol=1e-9)
    run = {
        "duration_s": 0.11, "world": "mixed-objects", "report": False,
        "sensors": [{"name": "top", "type": "lidar", "model": "livox/mid-360"}],
        "outputs": [{"kind": "bag", "layout": "livox-custom"}],
    }  # fmt: skip
    ph.Scenario.from_mapping(run).run(tmp_path / "run")
    (bag,) = (path.parent for path in (tmp_path / "run").rglob("*.mcap"))
    assert BagReader(bag).topics["/livox/lidar"].type == LIVOX
    assert [len(cloud) for _, cloud in clouds_of(bag)] == [
        len(ph.PointCloud.load(tmp_path / "run" / "top" / f"{k:06d}.pcd")) for k in range(1)
    ]


# ---- counts of recordings, by a few lines of NumPy from the manuals --------------------------------------------------


def payloads(file: Path, size: int) -> np.ndarray:
    """Payloads of the datagrams of a capture that have this size, shape (n, size)."""
    return np.array([np.frombuffer(one.payload, np.uint8) for one in read_pcap(file) if len(one.payload) == size])


@needs_recordings
def test_revolutions_of_a_velodyne_have_the_points_of_its_packets() -> None:
    """12 blocks of 100 bytes: flag, azimuth [0.01 degrees], then 32 times a distance (2 mm) and an intensity."""
    file = rig.DATA / "lidar" / "velodyne_vlp16.pcap"
    blocks = payloads(file, 1206)[:, :1200].reshape(-1, 100)
    distance = blocks[:, 4:].reshape(-1, 32, 3)[:, :, :2].copy().view("<u2")[..., 0]
    azimuth = blocks[:, 2:4].copy().view("<u2")[:, 0]
    frames = list(ph.read_frames(file))
    assert len(frames) == 1 + int(np.sum(np.diff(azimuth.astype(int)) < 0))
    assert sum(len(frame.shots) for frame in frames) == distance.size
    assert sum(map(len, frames)) == np.count_nonzero(distance)
    first = int(np.argmax(np.diff(azimuth.astype(int)) < 0)) + 1
    assert abs(len(frames[0]) - np.count_nonzero(distance[:first])) <= 32  # a revolution may end within a block


@needs_recordings
def test_revolutions_of_an_ouster_have_the_points_of_its_packets() -> None:
    """Legacy packets: 16 columns of a header (16 bytes: time, measurement, frame, encoder), 32 times 12 bytes that
    begin with the range [mm] in 20 bits, and a status that is -1 for a valid column."""
    file = rig.DATA / "lidar" / "OS-1-32-G_v2.1.1_1024x10.pcap"
    columns = payloads(file, 16 * 404).reshape(-1, 404)
    valid = np.all(columns[:, -4:] == 255, axis=1)
    number = columns[:, 10:12].copy().view("<u2")[:, 0]
    word = columns[:, 16:400].reshape(-1, 32, 12)[:, :, :4].copy().view("<u4")[..., 0]
    frames = list(ph.read_frames(file))
    assert len(frames) == len(np.unique(number[valid]))
    for frame, one in zip(frames, np.unique(number[valid]), strict=True):
        own = valid & (number == one)
        assert len(frame) == np.count_nonzero(word[own] & 0xFFFFF)
        assert len(frame.shots) == 1024 * 32
