"""Garbage sent to live servers does not fill the terminal or a queue and does not end them; Foxglove has a separate
file.
"""

from __future__ import annotations

import os
import socket
import sys
import threading
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from dds_rigs import OTHER_DOMAIN
from parhelion.live.udp import SensorHttp
from parhelion.makers.ouster.codec import OusterApi
from parhelion.makers.ouster.packets import metadata

Lines = Callable[[], int]


@pytest.fixture
def lines(capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture) -> Lines:
    """Number of lines that were printed or logged since the last call."""

    def count() -> int:
        out, err = capfd.readouterr()
        logged = len([record for record in caplog.records if record.levelname in ("WARNING", "ERROR", "CRITICAL")])
        caplog.clear()
        return len(out.splitlines()) + len(err.splitlines()) + logged

    return count


def ask(port: int, data: bytes) -> bytes:
    with socket.create_connection(("127.0.0.1", port), timeout=5) as caller:
        caller.sendall(data)
        try:
            return caller.recv(4096)
        except ConnectionResetError:
            return b""


def test_an_ouster_s_http_interface(lines: Lines) -> None:
    document = metadata(ph.Lidar("ouster/os1-32"))
    garbage = (
        b"garbage\r\n\r\n",
        b"GET /" + 70_000 * b"x",
        b"PUT /api/v1/sensor/config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\nConnection: close\r\n\r\n{[}",
        b"BREW /tea HTTP/1.1\r\nHost: localhost\r\n\r\n",
        b"GET /nowhere HTTP/9.9\r\n\r\n",
    )
    with SensorHttp(OusterApi(document)) as server:
        for k in range(1000):
            ask(server.port, garbage[k % len(garbage)])
        assert b" 200 " in ask(server.port, b"GET /api/v1/sensor/metadata HTTP/1.1\r\nHost: localhost\r\n\r\n")
    assert lines() == 0


@pytest.mark.skipif(sys.platform != "linux", reason="live ROS 2 is for Linux")
def test_ros_over_dds(lines: Lines) -> None:
    """Cyclone prints a line for every packet that it cannot read, by default."""
    pytest.importorskip("cyclonedds", reason="live ROS 2 needs cyclonedds")
    pytest.importorskip("rosbags", reason="ROS messages need rosbags")
    from parhelion.live.dds import DdsNode

    first = 7400 + 250 * OTHER_DOMAIN
    packet = b"RTPS\x02\x01\x01\x10\x01\x10abcdefghij"
    with DdsNode(OTHER_DOMAIN) as node, socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as stranger:
        commands = node.subscribe("/cmd_vel", "geometry_msgs/msg/Twist")
        for k in range(500):
            for port in (first, first + 1, first + 10, first + 11):
                for data in (os.urandom(50), packet + os.urandom(60), packet + b"\x15\x05\xff\x00" + os.urandom(30)):
                    stranger.sendto(data, ("127.0.0.1", port))
            if k % 50 == 0:
                time.sleep(0.01)
        time.sleep(0.2)
        assert commands.take() == []
    assert lines() <= 3


@pytest.mark.filterwarnings("ignore:Queued a")  # from viser, when a page is gone or the viewer was closed meanwhile
def test_the_viewer(lines: Lines) -> None:
    viser = pytest.importorskip("viser")
    msgspec = pytest.importorskip("msgspec")
    from websockets.exceptions import ConnectionClosed
    from websockets.sync.client import connect

    from parhelion.live.viewer import CloudStage, Viewer

    cloud = ph.PointCloud(np.eye(3), {"intensity": np.arange(3.0)})
    with Viewer(CloudStage(cloud, "three points"), port=0) as viewer:
        running = threading.Thread(target=viewer.run, daemon=True)
        running.start()

        def visit() -> Any:
            own = [f"viser-v{viser.__version__}"]
            return connect(f"ws://127.0.0.1:{viewer.port}", subprotocols=own, close_timeout=1, max_size=None)  # type: ignore[arg-type]

        for k in range(60):
            ask(viewer.port, (b"garbage\r\n\r\n", b"POST / HTTP/1.1\r\n\r\n")[k % 2])
            try:
                with visit() as page:
                    page.send((b"\xff\x00garbage", "text", msgspec.msgpack.encode({"type": "NoSuch"}))[k % 3])
            except ConnectionClosed:
                pass
        with visit() as page:
            camera = {"wxyz": [1, 0, 0, 0], "position": [0, 0, 1], "look_at": [0, 0, 0], "up_direction": [0, 0, 1]}
            lens = {"fov": 1.0, "near": 0.1, "far": 9.0, "image_height": 99, "image_width": 99}
            page.send(msgspec.msgpack.encode({"type": "ViewerCameraMessage", **camera, **lens}))
            assert _eventually(lambda: len(viewer._server.get_clients()) == 1)
            for k in range(100):
                for number in list(viewer._server.gui._gui_input_handle_from_uuid):
                    for update in ({"value": ("no", float("nan"), None, [1], 1e300)[k % 5]}, {"no": 1}):
                        message = {"type": "GuiUpdateMessage", "uuid": number, "updates": update}
                        page.send(msgspec.msgpack.encode(message))
            assert _eventually(lambda: not viewer._work)
            assert len(viewer._server.get_clients()) == 1
            assert _eventually(lambda: viewer.session.colour_by in viewer.session.choices)
        assert running.is_alive()
    running.join(5.0)
    assert lines() <= 100  # a few errors with their tracebacks


def test_what_pages_ask_for_does_not_pile_up() -> None:
    pytest.importorskip("viser")
    from parhelion.live.viewer import CloudStage, Viewer

    done: list[int] = []
    with Viewer(CloudStage(ph.PointCloud(np.eye(3)), "three points"), port=0) as viewer:
        for k in range(5000):
            viewer._later(("size", "pick")[k % 2], lambda k=k: done.append(k))  # type: ignore[misc]
        assert len(viewer._work) == 2
        viewer.step()
    assert done == [4998, 4999]


def _eventually(happens: Callable[[], bool], seconds: float = 10.0) -> bool:
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if happens():
            return True
        time.sleep(0.02)
    return False
