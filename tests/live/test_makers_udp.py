"""Packets of Hesai, RoboSense and Livox lidars on loopback: a receiver decodes what the scenario measured."""

from __future__ import annotations

import socket
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import parhelion as ph
from parhelion.live.udp import PacketUdp
from parhelion.makers import Datagram, codecs


def _read_until_silence(receiver: socket.socket) -> list[bytes]:
    found = []
    try:
        while True:
            found.append(receiver.recv(65536))
            receiver.settimeout(0.5)
    except TimeoutError:
        return found


@pytest.mark.parametrize(
    ("maker", "model"), [("hesai", "hesai/xt32"), ("robosense", "robosense/rs-16"), ("livox", "livox/mid-360")]
)
def test_received_frames_are_the_scans(maker: str, model: str) -> None:
    scenario = ph.Scenario.from_mapping({
        "duration_s": 0.21, "world": "mixed-objects", "report": False,
        "sensors": [{"name": "top", "type": "lidar", "model": model, "mount": {"xyz": [0, 0, 1]}}],
    })  # fmt: skip
    scans = []
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as receiver, ThreadPoolExecutor(1) as pool:
        receiver.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        receiver.bind(("127.0.0.1", 0))
        receiver.settimeout(60.0)
        kind = next(iter(codecs()[maker].ports))
        reading = pool.submit(_read_until_silence, receiver)
        sender = PacketUdp(scenario, maker, ports={kind: receiver.getsockname()[1]}, epoch_s=1.7e9)
        for step in scenario:
            scans += [scan for _, scan in step.scans.get("top", ())]
            sender.take(step)
        sender.close()
        received = reading.result()
    datagrams = [Datagram(0.0, one, ("127.0.0.1", 1), ("127.0.0.1", 2)) for one in received]
    frames = list(codecs()[maker].frames(datagrams, model=None, metadata=None, source="test"))
    assert len(scans) == len(frames) == 2
    for scan, frame in zip(scans, frames, strict=True):
        assert abs(len(frame) - len(scan)) <= 32  # one firing sequence at the seam
        assert frame.metadata["sensor"] == model
        assert abs(frame.start_time - 1.7e9 - scan.start_time) < 2e-4
        assert np.median(frame.range) == pytest.approx(np.median(scan.range), rel=0.01)
