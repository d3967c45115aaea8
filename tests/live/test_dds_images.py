"""Pictures over DDS: the topics of a camera as received by another ROS node."""

from __future__ import annotations

import sys
import time

import numpy as np
import pytest

import parhelion as ph
from dds_rigs import DOMAIN

pytest.importorskip("cyclonedds", reason="live ROS 2 needs cyclonedds")
pytest.importorskip("rosbags", reason="ROS messages need rosbags")

from parhelion.io.ros.messages import CAMERA_INFO, COMPRESSED_IMAGE, IMAGE
from parhelion.io.ros.types import decode
from parhelion.live.dds import DdsNode, Quality
from parhelion.live.ros import RosOutlet

pytestmark = [
    pytest.mark.skipif(sys.platform != "linux", reason="holding sockets to an interface is Linux's"),
    pytest.mark.usefixtures("user_package"),
]


def test_a_camera_s_topics_are_sent_and_advertised() -> None:
    scenario = ph.Scenario.from_mapping(
        {
            "duration_s": 0.2, "world": "cuboids",
            "sensors": [{"name": "front", "type": "toy-camera", "model": "toy/colour", "mount": {"xyz": [0, 0, 1.5]}}],
        }
    )  # fmt: skip
    with DdsNode(DOMAIN, reliable=True) as node:
        outlet = RosOutlet(scenario, node, batch_s=0.0)
        assert outlet.topics == {"/front/image_raw": IMAGE, "/front/camera_info": CAMERA_INFO}
        heard = {topic: node.subscribe(topic, kind) for topic, kind in outlet.topics.items()}
        end = time.monotonic() + 10.0
        while any(not one.publishers for one in heard.values()) and time.monotonic() < end:
            time.sleep(0.01)
        shots = []
        for step in scenario:
            shots += [image for _, image in step.frames.get("front", ())]
            for _, message in outlet.prepare(step):
                outlet.take(message)
        got: dict[str, list[bytes]] = {topic: [] for topic in heard}
        while any(len(found) < len(shots) for found in got.values()) and time.monotonic() < end:
            for topic, one in heard.items():
                got[topic] += one.take()
            time.sleep(0.01)
    picture, lens = (decode(kind, got[topic][0]) for topic, kind in outlet.topics.items())
    assert np.array_equal(picture.data.reshape(64, 96, 3), shots[0].colour)
    assert picture.header.frame_id == lens.header.frame_id == "front_optical_frame"
    assert lens.k[0] == pytest.approx(0.8 * 96)


def test_pictures_are_sent_as_sensor_data() -> None:
    for kind in (IMAGE, COMPRESSED_IMAGE, CAMERA_INFO):
        assert Quality.of("/front/any", kind) == Quality(reliable=False, depth=5)
