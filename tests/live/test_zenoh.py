"""ROS 2 topics over zenoh: keys and tokens of rmw_zenoh's design document, and a second session with raw calls."""

from __future__ import annotations

import json
import socket
import struct
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

pytest.importorskip("zenoh", reason="needs the extra 'zenoh'")

import zenoh

from parhelion.core.errors import ConfigError
from parhelion.io.ros import messages as ros
from parhelion.io.ros.messages import Message, Transform
from parhelion.io.ros.types import encode, new
from parhelion.live.dds import Quality
from parhelion.live.zenoh import ZenohNode, entity_token, parsed_token, quality_text, topic_key

STRING = "std_msgs/msg/String"
HASH = "RIHS01_df668c740482bbd48fb39d76a70dfd4bd59db1288021743503259e948f6b1a18"
TALKER = (
    "@ros2_lv/2/8b20917502ee955ac4476e0266340d5c/0/10/MP/%/%/talker/%chatter/std_msgs::msg::dds_::String_/"
    f"{HASH}/::,7:,:,:,,"
)
LISTENER = "@ros2_lv/2/aac3178e146ba6f1fc6e6a4085e77f21/0/0/NN/%/%/listener"


def test_keys_and_tokens_are_those_of_the_design_document() -> None:
    assert topic_key(0, "/chatter", STRING, "jazzy") == f"0/chatter/std_msgs::msg::dds_::String_/{HASH}"
    assert topic_key(0, "/robot1/chatter", STRING, "jazzy").startswith("0/robot1/chatter/std_msgs::")
    assert topic_key(0, "/chatter", STRING, "humble").endswith("/TypeHashNotSupported")
    found = parsed_token(TALKER)
    assert found == ("8b20917502ee955ac4476e0266340d5c", "MP", "/chatter", STRING, True)
    more = f"{HASH}/{quality_text(Quality(reliable=True, depth=7))}"
    made = entity_token(2, "8b20917502ee955ac4476e0266340d5c", 10, "MP", "/chatter", STRING, more)
    assert made == TALKER.replace("talker", "parhelion")
    node = entity_token(2, "aac3178e146ba6f1fc6e6a4085e77f21", 0, "NN")
    assert node == LISTENER.replace("listener", "parhelion")
    assert parsed_token(node) is None
    assert quality_text(Quality(reliable=False, depth=5)) == "2::,5:,:,:,,"
    assert quality_text(Quality(reliable=True, latched=True, depth=10)) == ":1:,10:,:,:,,"


class Other:
    """A router with raw calls of zenoh, in the place of rmw_zenohd and of another node."""

    def __init__(self) -> None:
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            self.address = f"tcp/127.0.0.1:{free.getsockname()[1]}"
        config = zenoh.Config()
        config.insert_json5("mode", '"router"')
        config.insert_json5("listen/endpoints", json.dumps([self.address]))
        config.insert_json5("scouting/multicast/enabled", "false")
        self.session = zenoh.open(config)
        self.got: list[tuple[str, bytes, bytes]] = []
        self.reader = self.session.declare_subscriber("7/**", self.keep)

    def keep(self, sample: Any) -> None:
        self.got.append((str(sample.key_expr), sample.payload.to_bytes(), sample.attachment.to_bytes()))


@pytest.fixture(scope="module")
def other() -> Iterator[Other]:
    made = Other()
    yield made
    made.session.close()


def until(condition: Callable[[], Any], seconds: float = 10.0) -> None:
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "timed out"
        time.sleep(0.01)


def test_messages_have_the_bytes_and_the_attachment_of_rmw_zenoh(other: Other) -> None:
    with ZenohNode(7, other.address, reliable=True) as node:
        node.advertise("/imu/data", ros.IMU)
        sent = [ros.imu(k * 10**9, "imu_link", np.zeros(3), np.array([0.0, 0.0, 9.8])) for k in range(3)]
        before = time.time_ns()
        for k, data in enumerate(sent):
            node.publish(Message("/imu/data", ros.IMU, k, data))
        until(lambda: len(other.got) >= 3)
        keys, payloads, attached = zip(*other.got[-3:], strict=True)
        assert set(keys) == {topic_key(7, "/imu/data", ros.IMU, "jazzy")}
        assert list(payloads) == sent
        assert {len(one) for one in attached} == {33}
        numbers, times, sizes, gids = zip(*(struct.unpack("<qqB16s", one) for one in attached), strict=True)
        assert numbers == (1, 2, 3)
        assert before <= times[0] <= times[2] <= time.time_ns()
        assert (set(sizes), len(set(gids))) == ({16}, 1)
        tokens = [str(one.ok.key_expr) for one in other.session.liveliness().get("@ros2_lv/7/**", timeout=1.0)]
        assert sum("/NN/%/%/parhelion" in one for one in tokens) == 1
        (publisher,) = [one for one in tokens if "/MP/" in one]
        assert "%imu%data/sensor_msgs::msg::dds_::Imu_/RIHS01_" in publisher
        assert publisher.endswith("/::,5:,:,:,,")
        assert node.sent["/imu/data"].messages == 3
    until(lambda: not list(other.session.liveliness().get("@ros2_lv/7/**", timeout=0.5)))


def test_messages_of_others_arrive_with_their_attachment_only(other: Other) -> None:
    with ZenohNode(7, other.address) as node:
        assert node.connected
        received = node.subscribe("/chatter", STRING)
        key = topic_key(7, "/chatter", STRING, "jazzy")
        data = encode(STRING, new(STRING, data="hello"))
        time.sleep(0.3)  # the router learns about the subscription
        other.session.put(key, b"no attachment")
        other.session.put(key, data, attachment=struct.pack("<qqB16s", 1, 123, 16, bytes(16)))
        assert received.wait(10.0)
        assert received.take_timed() == [(data, 123)]
        assert received.take() == []
        assert not received.wait(0.01)
        token = other.session.liveliness().declare_token(TALKER.replace("@ros2_lv/2/", "@ros2_lv/7/"))
        until(lambda: node.publishers("/chatter"))
        assert node.publishers("/chatter")[0].type == STRING
        assert node.publishers("/elsewhere") == []
        assert node.subscribers("/chatter") == 0  # its own does not count
        token.undeclare()


def test_late_subscribers_receive_latched_messages(other: Other) -> None:
    mount = Transform("base_link", "velodyne", 0, (0.25, 0.0, 0.8), (0.0, 0.0, 0.0, 1.0))
    with ZenohNode(7, other.address) as node, ZenohNode(7, other.address) as late:
        data = ros.tf_message([mount])
        node.publish(Message("/tf_static", ros.TF, 0, data))
        time.sleep(0.3)
        received = late.subscribe("/tf_static", ros.TF)
        assert received.wait(10.0)
        assert received.take() == [data]
        until(lambda: node.subscribers("/tf_static") == 1)


def test_large_clouds_arrive(other: Other) -> None:
    with ZenohNode(7, other.address, reliable=True) as node, ZenohNode(7, other.address) as listener:
        received = listener.subscribe("/points", ros.POINT_CLOUD, Quality(reliable=True, depth=20))
        node.advertise("/points", ros.POINT_CLOUD)
        until(lambda: node.subscribers("/points") == 1)
        time.sleep(0.3)
        data = bytes(4) + np.random.default_rng(0).bytes(128 * 1024 * 48)
        for _ in range(5):
            node.publish(Message("/points", ros.POINT_CLOUD, 0, data))
            time.sleep(0.1)
        got: list[bytes] = []

        def arrived() -> bool:
            got.extend(received.take())
            return len(got) >= 5

        until(arrived)
        assert all(one == data for one in got)


def test_wrong_and_remote_addresses_are_refused() -> None:
    with pytest.raises(ConfigError, match="expected an address such as tcp/localhost:7447"):
        ZenohNode(0, "localhost:7447")
    with pytest.raises(ConfigError, match="is not this machine"):
        ZenohNode(0, "tcp/192.0.2.1:7447")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        nobody = f"tcp/127.0.0.1:{free.getsockname()[1]}"
    with ZenohNode(7, nobody) as alone:
        assert not alone.connected
