"""Velodyne packets over UDP on this machine: no loss at the full rate, and each packet near its time."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError
from parhelion.live.udp import PacketUdp, TimedSender, checked_host
from parhelion.makers import Datagram
from parhelion.makers.velodyne.decode import decode
from parhelion.makers.velodyne.encode import VelodyneStream, encode
from velodyne_rigs import made_up_scan

HERE = "127.0.0.1"


class Receiver:
    """Receiver on a port of this machine."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self.times: list[float] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._socket.bind((HERE, 0))
        self._socket.settimeout(0.05)
        self.port: int = self._socket.getsockname()[1]
        self._done = threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        while True:
            try:
                payload = self._socket.recv(65536)
            except TimeoutError:
                if self._done.is_set():
                    return
                continue
            self.times.append(time.monotonic())
            self.payloads.append(payload)

    def close(self) -> None:
        self._done.set()
        self._thread.join(10.0)
        self._socket.close()


@contextmanager
def receivers(count: int) -> Iterator[list[Receiver]]:
    made = [Receiver() for _ in range(count)]
    try:
        yield made
    finally:
        for receiver in made:
            receiver.close()


def lidar_scene(*lidars: ph.Lidar) -> Any:
    """The part of a scenario that the streams use."""
    sensors = [SimpleNamespace(name=f"lidar{k}", sensor=lidar) for k, lidar in enumerate(lidars)]
    return SimpleNamespace(giving=lambda record: sensors)


def step(scans: dict[str, list[Any]], end: float = 1.0) -> Any:
    return SimpleNamespace(time=end, scans={name: list(enumerate(some)) for name, some in scans.items()})


def test_nothing_is_lost_in_five_seconds_at_the_highest_rate() -> None:
    lidar = ph.Lidar("velodyne/hdl-32e", returns="dual")  # 3617 data packets per second, the highest rate of all models
    first = made_up_scan(lidar, seed=1)
    with receivers(2) as (data, position):
        stream = PacketUdp(
            lidar_scene(lidar), "velodyne", HERE, {"data": data.port, "position": position.port}, epoch_s=0.0
        )
        began = time.monotonic()
        for number in range(50):
            stream.take(step({"lidar0": [replace(first, start_time=0.1 * number)]}, 0.1 * (number + 1)))
        stream.close()
        lasted = time.monotonic() - began
        assert stream.sent > 18_000
    again = VelodyneStream(lidar.model, epoch_s=0.0)
    wanted = [d for number in range(50) for d in again.add(replace(first, start_time=0.1 * number))] + again.finish()
    assert len(wanted) == stream.sent
    assert data.payloads == [d.payload for d in wanted if d.target[1] == 2368]
    assert position.payloads == [d.payload for d in wanted if d.target[1] == 8308]
    assert len(decode(data.payloads[:362])) == pytest.approx(len(first), abs=200)
    # Packets are spread over real time: a busy machine may be late, but never early.
    assert 4.8 < lasted < 12.0
    arrival = np.array(data.times) - data.times[0]
    due = np.arange(len(arrival)) * 6 * 46.08e-6
    assert (arrival - due).min() > -0.25  # the first packet may itself be late
    windows = np.bincount((arrival / 0.1).astype(int))
    assert windows.max() < 2.5 * 362  # late packets are sent at twice the pace


def test_two_lidars_have_ports_of_their_own() -> None:
    lidars = [ph.Lidar("velodyne/vlp-16", rate_hz=20.0), ph.Lidar("velodyne/vlp-32c", rate_hz=20.0)]
    scans = [made_up_scan(lidar, seed=k) for k, lidar in enumerate(lidars)]
    with receivers(1) as (first,):
        stream = PacketUdp(
            lidar_scene(*lidars), "velodyne", HERE, {"data": first.port, "position": first.port + 100}, epoch_s=0.0
        )
        assert stream.ports == {
            "lidar0": {"data": first.port, "position": first.port + 100},
            "lidar1": {"data": first.port + 1, "position": first.port + 101},
        }
        stream.take(step({"lidar0": [scans[0]], "lidar1": [scans[1]], "another": [scans[0]]}))
        stream.close()
        stream.close()
    assert first.payloads == encode(scans[0]).payloads()


def test_the_clock_goes_on_where_the_scenario_begins_anew() -> None:
    lidar = ph.Lidar("velodyne/vlp-16", rate_hz=20.0)
    scan = made_up_scan(lidar)
    with receivers(2) as (data, position):
        stream = PacketUdp(
            lidar_scene(lidar), "velodyne", HERE, {"data": data.port, "position": position.port}, epoch_s=0.0
        )
        for _ in range(3):
            stream.take(step({"lidar0": [scan]}, 0.05))
        stream.close()
    cloud = decode(data.payloads)
    assert len(cloud) == 3 * len(scan)
    assert (np.diff(cloud.time) >= 0).all()
    assert cloud.time[-1] == pytest.approx(0.15, abs=2e-4)


def test_a_slow_simulation_does_not_cause_a_burst() -> None:
    datagrams = [Datagram(0.02 * k, b"x", (HERE, 1), (HERE, 1)) for k in range(10)]
    with receivers(1) as (receiver,), TimedSender(HERE) as sender:
        datagrams = [one._replace(target=(HERE, receiver.port)) for one in datagrams]
        sender.send(datagrams[:5])
        time.sleep(0.4)
        sender.send(datagrams[5:])
        sender.close()
        assert sender.latest_s > 0.1
    assert len(receiver.payloads) == 10
    # 0.08 s at twice the pace, minus the 0.01 s that are caught up at once: 0.03 s. A burst takes less than 1 ms.
    assert receiver.times[-1] - receiver.times[5] > 0.015


def test_a_fast_simulation_is_held_back() -> None:
    with receivers(1) as (receiver,), TimedSender(HERE, ahead_s=0.05) as sender:
        began = time.monotonic()
        for k in range(6):
            sender.send([Datagram(0.1 * k, bytes([k]), (HERE, 1), (HERE, receiver.port))])
        assert time.monotonic() - began > 0.4
    assert receiver.payloads == [bytes([k]) for k in range(6)]


def test_what_waits_can_be_dropped() -> None:
    with receivers(1) as (receiver,):
        sender = TimedSender(HERE, ahead_s=1e9)
        sender.send([Datagram(t, b"x", (HERE, 1), (HERE, receiver.port)) for t in (0.0, 60.0)])
        began = time.monotonic()
        sender.close(drain=False)
        assert time.monotonic() - began < 5.0
        with pytest.raises(ConfigError, match="already closed"):
            sender.send([])
    assert len(receiver.payloads) <= 1


@pytest.mark.parametrize("host", ["192.168.1.77", "255.255.255.255", "0.0.0.0", "8.8.8.8"])
def test_nothing_leaves_the_machine_unless_allowed(host: str) -> None:
    lidar = ph.Lidar("velodyne/vlp-16")
    with pytest.raises(ConfigError, match=r"is not on this machine; .*allow_remote=True, --anywhere"):
        PacketUdp(lidar_scene(lidar), "velodyne", host)
    with pytest.raises(ConfigError, match="is not on this machine"):
        TimedSender(host)
    assert checked_host(host, allow_remote=True) == host
    assert checked_host("localhost") == HERE


def test_scans_that_cannot_be_sent_are_reported() -> None:
    vlp = ph.Lidar("velodyne/vlp-16")
    with pytest.raises(ConfigError, match=r"expected an IPv4 address such as 127\.0\.0\.1, got 'sensor\.local'"):
        PacketUdp(lidar_scene(vlp), "velodyne", "sensor.local")
    with pytest.raises(ConfigError, match=r"has no lidar with Velodyne packets .*; its lidars: velodyne/hdl-64e"):
        PacketUdp(lidar_scene(ph.Lidar("velodyne/hdl-64e")), "velodyne")
    with pytest.raises(ConfigError, match="port: a UDP port is an integer from 1 to 65535, got 65536"):
        PacketUdp(lidar_scene(vlp, vlp), "velodyne", ports=65535)
    with pytest.raises(ConfigError, match="position_port: 5001 would send two packet streams of 2 lidars to one port"):
        PacketUdp(lidar_scene(vlp, vlp), "velodyne", ports={"data": 5000, "position": 5001})
    with pytest.raises(ConfigError, match="sensors: lidar0: unknown return mode of Velodyne packets 'first'"):
        PacketUdp(lidar_scene(ph.Lidar("velodyne/vlp-16", returns="first")), "velodyne")
    with pytest.raises(ConfigError, match="unknown maker with packets 'sick'"):
        PacketUdp(lidar_scene(vlp), "sick")
    with pytest.raises(ConfigError, match="unknown kind of Velodyne packets 'lidar'"):
        PacketUdp(lidar_scene(vlp), "velodyne", ports={"lidar": 5000})
    with pytest.raises(ConfigError, match="Velodyne sensors have no HTTP interface"):
        PacketUdp(lidar_scene(vlp), "velodyne", http_port=0)
    sender = TimedSender(HERE)
    with pytest.raises(ConfigError, match=r"packets cannot be sent to 127\.0\.0\.1 \(Message too long\)"):
        send_again_and_again(sender, Datagram(0.0, bytes(70_000), (HERE, 1), (HERE, 9)))
    sender.close(drain=False)


def test_any_clock_will_do() -> None:
    with receivers(1) as (receiver,), TimedSender(HERE) as sender:
        began = time.monotonic()
        start = 1.75e9  # seconds since 1970
        sender.send(Datagram(start + 0.01 * k, bytes([k]), (HERE, 1), (HERE, receiver.port)) for k in range(10))
        sender.close()
        assert time.monotonic() - began < 2.0
        assert sender.sent == 10


def send_again_and_again(sender: TimedSender, datagram: Datagram) -> None:
    for _ in range(200):
        sender.send([datagram])
        time.sleep(0.01)
