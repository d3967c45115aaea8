"""ROS 2 over DDS: messages received by a second program on the same machine; no packet leaves the machine."""

from __future__ import annotations

import hashlib
import os
import socket
import stat
import sys
import threading
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from dds_rigs import DOMAIN, OTHER_DOMAIN, peer

pytest.importorskip("cyclonedds", reason="live ROS 2 needs cyclonedds")
pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, MissingDependencyError
from parhelion.io.ros import messages as ros
from parhelion.io.ros.messages import Message, Transform
from parhelion.io.ros.types import decode, encode, header, new
from parhelion.live.dds import DdsNode, Quality, dds_topic, dds_type, dds_type_name, type_hash

pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="holding sockets to an interface is Linux's")

ALL_TYPES = (
    *(ros.POINT_CLOUD, ros.LASER_SCAN, ros.IMU, ros.ODOMETRY, ros.POSE, ros.TF, ros.CLOCK, ros.MAGNETIC_FIELD),
    *(ros.FLUID_PRESSURE, "geometry_msgs/msg/Twist", "sensor_msgs/msg/NavSatFix", "sensor_msgs/msg/Image"),
)


def clouds(count: int) -> list[Message]:
    """Clouds of different sizes, each stamped with its number as seconds."""
    found = []
    for number in range(count):
        rng = np.random.default_rng(number)
        n = 100 + 37 * number
        fields = {
            "intensity": rng.uniform(0, 100, n),
            "ring": rng.integers(0, 16, n),
            "time": np.sort(rng.uniform(0, 0.1, n)),
        }
        cloud = PointCloud(rng.normal(size=(n, 3)), fields)
        data = ros.point_cloud2(cloud, "velodyne", number * 10**9, "velodyne")
        found.append(Message("/points", ros.POINT_CLOUD, number * 10**9, data))
    return found


def expected(message: Message) -> list[Any]:
    cloud = decode(message.type, message.data)
    fields = {field.name: field.offset for field in cloud.fields}
    digest = hashlib.sha256(bytes(cloud.data)).hexdigest()
    return [message.time_ns // 10**9, "velodyne", cloud.height * cloud.width, fields, digest]


def wait_for(node: DdsNode, topic: str, count: int = 1, seconds: float = 20.0) -> None:
    until = time.monotonic() + seconds
    while node.subscribers(topic) < count:
        assert time.monotonic() < until, f"no subscriber of {topic}"
        time.sleep(0.005)
    time.sleep(0.05)  # the peer discovers this node a moment after this node discovers the peer


def test_names_on_the_wire() -> None:
    assert dds_topic("/velodyne_points") == "rt/velodyne_points"
    assert dds_type_name("sensor_msgs/msg/PointCloud2") == "sensor_msgs::msg::dds_::PointCloud2_"
    # The hash that ROS 2 Jazzy prints for PointCloud2 (ros2 topic info --verbose).
    assert type_hash(ros.POINT_CLOUD) == "RIHS01_9198cabf7da3796ae6fe19c4cb3bdd3525492988c70522628af5daa124bae2b5"
    # `char` is an unsigned byte in ROS 2, so the hash is that of `uint8 data` (std_msgs of ROS 2 Jazzy).
    assert type_hash("std_msgs/msg/Char") == "RIHS01_3ad2d04dd29ba19d04b16659afa3ccaedd691914b02a64e82e252f2fa6a586a9"
    for wrong in ("PointCloud2", "sensor_msgs/PointCloud2", "a/b/msg/C", "/msg/"):
        with pytest.raises(ConfigError, match="not a ROS 2 message"):
            dds_type_name(wrong)


@pytest.mark.parametrize("name", ALL_TYPES)
def test_every_type_is_as_ros_defines_it(name: str) -> None:
    made = dds_type(name)
    made.__idl__.populate()
    assert made.__idl__.keyless
    made.__idl__.fill_type_data()
    assert made.__idl_annotations__["extensibility"] == "final"
    assert made(b"abc").serialize() == b"abc"


@pytest.mark.parametrize("configuration", ["localhost-only", "localhost-range"])
def test_every_cloud_arrives_where_reliable(configuration: str) -> None:
    sent = clouds(20)
    with DdsNode(DOMAIN, reliable=True) as node:
        node.advertise("/points", ros.POINT_CLOUD)
        with peer(topic="/points", kind="PointCloud2", count=20, configuration=configuration, depth=20) as listener:
            wait_for(node, "/points")
            for message in sent:
                assert node.publish(message)
                time.sleep(0.02)
            assert listener.report()["got"] == [expected(message) for message in sent]
        assert (node.sent["/points"].messages, node.sent["/points"].refused) == (20, 0)
        assert node.sent["/points"].bytes == sum(len(message.data) for message in sent)


def test_best_effort_serves_only_those_who_ask_for_no_more() -> None:
    imu = ros.imu(0, "imu_link", np.zeros(3), np.array([0.0, 0.0, 9.81]))
    with DdsNode(DOMAIN) as node:
        node.advertise("/imu/data", ros.IMU)
        asks = {"topic": "/imu/data", "kind": "Imu", "count": 3, "seconds": 1.5}
        with peer(**asks, reliable=False) as content, peer(**asks, reliable=True) as demanding:
            wait_for(node, "/imu/data")
            for _ in range(30):
                node.publish(Message("/imu/data", ros.IMU, 0, imu))
                time.sleep(0.02)
            got = content.report()["got"]
            assert len(got) == 3
            assert got[0][0] == pytest.approx(9.81)
            assert demanding.report()["got"] == []
            assert node.subscribers("/imu/data") <= 1


def test_late_joiner_gets_static_transforms() -> None:
    mount = Transform("base_link", "velodyne", 0, (0.25, 0.0, 0.8), (0.0, 0.0, 0.0, 1.0))
    with DdsNode(DOMAIN) as node:
        node.publish(Message("/tf_static", ros.TF, 0, ros.tf_message([mount])))
        time.sleep(0.1)
        with peer(topic="/tf_static", kind="TFMessage", count=1, latched=True) as listener:
            assert listener.report()["got"] == [[["base_link", "velodyne", 0.25]]]


def test_objects_are_decoded_by_a_subscriber_with_types_of_its_own() -> None:
    from parhelion.motion.boxes import Box
    from parhelion.outputs.ros.objects import DETECTIONS_3D, detections_3d

    upright, zero = np.array([0.0, 0.0, 0.0, 1.0]), np.zeros(3)
    boxes = [
        Box(7, "car", "dynamic", np.array([3.0, 0, 0]), np.array([4.0, 2, 1.5]), upright, zero, 0, 0.0),
        Box(12, "person", "dynamic", np.array([-1.0, 0, 0]), np.array([0.5, 0.5, 1.75]), upright, zero, 0, 0.0),
    ]
    with DdsNode(DOMAIN) as node:
        node.advertise("/ground_truth/objects", DETECTIONS_3D)
        with peer(topic="/ground_truth/objects", kind="Detection3DArray", count=1) as listener:
            wait_for(node, "/ground_truth/objects")
            node.publish(Message("/ground_truth/objects", DETECTIONS_3D, 0, detections_3d(0, "map", boxes)))
            assert listener.report()["got"] == [[["car", "7", 3.0, 1.5], ["person", "12", -1.0, 1.75]]]


@pytest.mark.parametrize(("distro", "kind"), [("humble", "Range"), ("jazzy", "JazzyRange")])
def test_ranges_reach_subscribers_of_their_distribution(distro: str, kind: str) -> None:
    data = ros.range_message(1.5, (0.2, 4.0), 0.3, "sonar", 0, distro=distro)
    with DdsNode(DOMAIN, reliable=True, distro=distro) as node:
        node.advertise("/sonar/range", ros.RANGE)
        with peer(topic="/sonar/range", kind=kind, count=1) as listener:
            wait_for(node, "/sonar/range")
            node.publish(Message("/sonar/range", ros.RANGE, 0, data))
            assert listener.report()["got"] == [[1.5, 0.0 if distro == "jazzy" else None]]


def test_domains_do_not_mix() -> None:
    with DdsNode(DOMAIN, reliable=True) as node:
        node.advertise("/points", ros.POINT_CLOUD)
        asks = {"topic": "/points", "kind": "PointCloud2", "count": 3}
        with peer(**asks) as here, peer(**asks, domain=OTHER_DOMAIN, seconds=1.0) as elsewhere:
            wait_for(node, "/points")
            for message in clouds(3):
                node.publish(message)
                time.sleep(0.02)
            assert len(here.report()["got"]) == 3
            assert elsewhere.report()["got"] == []
            assert node.subscribers("/points") <= 1


def test_counting_listeners_while_they_join() -> None:
    """The library's own list of participants fails if one joins between its two queries."""
    counts: list[int] = []
    with DdsNode(DOMAIN, reliable=True) as node:
        node.advertise("/points", ros.POINT_CLOUD)
        joining = threading.Thread(target=lambda: [node.subscribe("/points", ros.POINT_CLOUD) for _ in range(60)])
        joining.start()
        until = time.monotonic() + 20.0
        while (not counts or counts[-1] < 60) and time.monotonic() < until:
            counts.append(node.subscribers("/points"))
        joining.join()
    assert counts == sorted(counts)
    assert counts[-1] == 60


def test_a_listener_that_is_killed_holds_nobody_up() -> None:
    asks = {"topic": "/points", "kind": "Undecoded", "depth": 50}
    with DdsNode(DOMAIN, reliable=True) as node:
        node.advertise("/points", ros.POINT_CLOUD)
        with peer(**asks, count=100) as doomed, peer(**asks, count=40) as other:
            wait_for(node, "/points", 2)
            slowest = 0.0
            for number in range(40):
                if number == 10:
                    doomed.process.kill()
                begun = time.monotonic()
                assert node.publish(big_cloud(number, 200_000))
                slowest = max(slowest, time.monotonic() - begun)
                time.sleep(0.01)
            assert [row[0] for row in other.report()["got"]] == list(range(40))
            assert slowest < 0.5


def big_cloud(number: int, size: int) -> Message:
    blank = np.zeros(size, dtype=np.uint8)
    data = encode(
        ros.POINT_CLOUD,
        new(
            ros.POINT_CLOUD, header=header(number * 10**9, "os_lidar"), height=128, width=1024, fields=[],
            is_bigendian=False, point_step=48, row_step=48 * 1024, data=blank, is_dense=True,
        ),
    )  # fmt: skip
    return Message("/points", ros.POINT_CLOUD, number * 10**9, data)


def test_clouds_of_an_os1_128_arrive_at_10_hz() -> None:
    sent = [big_cloud(number, 128 * 1024 * 48) for number in range(15)]
    with DdsNode(DOMAIN, reliable=True) as node:
        node.advertise("/points", ros.POINT_CLOUD)
        with peer(topic="/points", kind="Undecoded", count=15, depth=15) as listener:
            wait_for(node, "/points")
            begun = time.monotonic()
            for number, message in enumerate(sent):
                time.sleep(max(0.0, begun + 0.1 * number - time.monotonic()))
                assert node.publish(message)
            report = listener.report()
            # The payload is padded to a multiple of 4 bytes.
            assert report["got"] == [[number, (len(sent[0].data) + 3) // 4 * 4] for number in range(15)]
            # 14 periods of 0.1 s, with a margin for a busy machine.
            assert report["seconds"] < 3.0


def test_nothing_is_open_beyond_loopback(monkeypatch: pytest.MonkeyPatch) -> None:
    # Settings of other interfaces in the environment are ignored.
    elsewhere = "<General><Interfaces><NetworkInterface name='nowhere0'/></Interfaces></General>"
    monkeypatch.setenv("CYCLONEDDS_URI", f"<CycloneDDS><Domain>{elsewhere}</Domain></CycloneDDS>")
    before = udp_sockets()
    with DdsNode(DOMAIN) as node:
        node.advertise("/points", ros.POINT_CLOUD)
        time.sleep(0.2)
        opened = {number: udp_sockets()[number] for number in set(udp_sockets()) - set(before)}
        assert len(opened) >= 3
        for address, device in opened.values():
            assert device == "lo", f"a socket at {address} is not held to the loopback interface"
        joined = multicast_groups()
        assert {device for device, groups in joined.items() if "239.255.0.1" in groups} == {"lo"}
    assert set(udp_sockets()) == set(before)


def udp_sockets() -> dict[int, tuple[str, str]]:
    """Address and interface of the UDP sockets of this process."""
    found = {}
    for entry in Path("/proc/self/fd").iterdir():
        number = int(entry.name)
        try:
            if not stat.S_ISSOCK(os.fstat(number).st_mode):
                continue
            with socket.socket(fileno=os.dup(number)) as one:
                if one.type == socket.SOCK_DGRAM and one.family in (socket.AF_INET, socket.AF_INET6):
                    device = one.getsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, 64).rstrip(b"\0").decode()
                    found[number] = (str(one.getsockname()), device)
        except OSError:  # the descriptor of the folder, which is closed by now
            continue
    return found


def multicast_groups() -> dict[str, set[str]]:
    """Multicast groups of this machine by interface."""
    found: dict[str, set[str]] = {}
    device = ""
    for line in Path("/proc/net/igmp").read_text().splitlines()[1:]:
        words = line.split()
        if not line[0].isspace():
            device = words[1].rstrip(":")
        else:
            found.setdefault(device, set()).add(socket.inet_ntoa(bytes.fromhex(words[0])[::-1]))
    return found


def test_a_node_hears_what_it_subscribes_to() -> None:
    twist = encode(
        "geometry_msgs/msg/Twist",
        new(
            "geometry_msgs/msg/Twist",
            linear=new("geometry_msgs/msg/Vector3", x=0.5, y=0.0, z=0.0),
            angular=new("geometry_msgs/msg/Vector3", x=0.0, y=0.0, z=0.1),
        ),
    )
    with DdsNode(DOMAIN) as node:
        heard = node.subscribe("/cmd_vel", "geometry_msgs/msg/Twist", Quality(reliable=True, depth=3))
        node.advertise("/cmd_vel", "geometry_msgs/msg/Twist")
        wait_for(node, "/cmd_vel")
        for _ in range(5):
            node.publish(Message("/cmd_vel", "geometry_msgs/msg/Twist", 0, twist))
        time.sleep(0.1)
        assert heard.take() == [twist] * 3  # the requested depth
        assert heard.take() == []
        assert heard.publishers == 1


def test_wrong_settings_are_reported() -> None:
    with pytest.raises(ConfigError, match=r"no network interface 'nowhere0'; this machine has: .*lo"):
        DdsNode(DOMAIN, "nowhere0")
    for domain in (-1, 233):
        with pytest.raises(ConfigError, match="from 0 to 232"):
            DdsNode(domain)
    with DdsNode(DOMAIN) as node:
        with pytest.raises(ConfigError, match=f"domain {DOMAIN} cannot be opened"):
            DdsNode(DOMAIN)
        for topic in ("points", "/points/", "/a b", "//a", "/ü"):
            with pytest.raises(ConfigError, match="not a valid ROS 2 topic"):
                node.advertise(topic, ros.IMU)
        with pytest.raises(ConfigError, match="not a message that ROS 2 Humble defines"):
            node.advertise("/thing", "my_msgs/msg/Thing")
        node.advertise("/imu/data", ros.IMU)
        with pytest.raises(ConfigError, match="/imu/data carries sensor_msgs/msg/Imu"):
            node.publish(Message("/imu/data", ros.CLOCK, 0, ros.clock(0)))


def test_damaged_bytes_are_refused() -> None:
    with DdsNode(DOMAIN) as node, pytest.raises(Exception, match="/imu/data cannot be sent"):
        node.publish(Message("/imu/data", ros.IMU, 0, b"\0\1\0\0\1\2\3\4"))


def test_missing_cyclonedds_is_reported_with_the_install_command(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cyclonedds.core", None)
    with pytest.raises(MissingDependencyError, match=r"pip install 'parhelion\[ros\]'"):
        DdsNode(DOMAIN)


def test_closing_twice_does_no_harm() -> None:
    node = DdsNode(DOMAIN)
    node.close()
    node.close()
    with pytest.raises(Exception, match="closed"):
        node.advertise("/points", ros.POINT_CLOUD)
    DdsNode(DOMAIN).close()  # the domain is free again
