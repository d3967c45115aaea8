"""Weather on the packets of a lidar: the relay sends what decoding, weather and encoding of the recording give."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from ouster_scans import random_scan
from parhelion.core.errors import ConfigError
from parhelion.live.udp import TimedSender
from parhelion.live.weather import LiveSummary, Weathering, WeatherUdp
from parhelion.makers import Datagram, codecs
from velodyne_rigs import made_up_scan

HERE = "127.0.0.1"
START_S = 1_700_000_000.0


def free_port() -> int:
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one:
        one.bind((HERE, 0))
        return int(one.getsockname()[1])


class Driver(threading.Thread):
    """Driver of the sensor, which receives the packets in weather."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.payloads: list[bytes] = []
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8 << 20)
        self._socket.settimeout(0.05)
        self._socket.bind((HERE, 0))
        self.port = int(self._socket.getsockname()[1])
        self._done = threading.Event()
        self.start()

    def run(self) -> None:
        while True:
            try:
                self.payloads.append(self._socket.recv(65536))
            except TimeoutError:
                if self._done.is_set():
                    return

    def end(self) -> None:
        self._done.set()
        self.join()
        self._socket.close()


def sent(datagrams: Iterable[Datagram], is_lidar: Callable[[bytes], bool], port: int) -> list[Datagram]:
    return [one._replace(target=(HERE, port)) for one in datagrams if is_lidar(one.payload)]


def relayed(lidar: ph.Lidar, weather: ph.Weather, scans: list[Any], metadata: Any = None) -> tuple[Any, Any, Any]:
    """Scans that the sensor's decoder finds in the packets, those that the driver received, and the summary."""
    codec = codecs()[lidar.config.maker]
    stream, is_lidar = codec.stream(lidar.model, metadata=metadata), codec.recogniser(metadata)
    port_in, driver = free_port(), Driver()
    packets = [one for scan in scans for one in stream.add(scan)] + stream.finish()
    packets = sent(packets, is_lidar, port_in)
    job = Weathering(weather, lidar, seed=5)
    job.warm_up(scans[0])
    with WeatherUdp(job, port_in, driver.port, metadata=metadata, queue=100) as relay:
        with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as other:
            other.bind(("127.0.0.2", 0))
            other.sendto(b"hello", (HERE, port_in))
        player = threading.Thread(target=lambda: _play(packets))
        player.start()
        still = [time.monotonic()]

        def ended(summary: LiveSummary) -> None:
            if player.is_alive() or summary.sent.count < summary.received.count:
                still[0] = time.monotonic()
            if time.monotonic() - still[0] > 0.5:
                raise KeyboardInterrupt

        with pytest.raises(KeyboardInterrupt):
            relay.run(60.0, ended)
        assert relay.others == 1
        summary = relay.summary
    driver.end()
    model = lidar.model if codec.knows(lidar.model) else None

    def decoded(payloads: list[bytes]) -> list[Any]:
        found = [Datagram(START_S, one, (HERE, 1), (HERE, 2)) for one in payloads]
        return list(codec.frames(found, model=model, metadata=metadata, source="test"))

    return decoded([one.payload for one in packets]), decoded(driver.payloads), summary


def _play(packets: list[Datagram]) -> None:
    with TimedSender() as sender:
        sender.send(packets)


@pytest.mark.parametrize("weather", [ph.Weather(), ph.Weather(visibility_m=60)], ids=["clear", "fog"])
def test_velodyne(weather: ph.Weather) -> None:
    lidar = ph.Lidar("velodyne/vlp-16")
    scans = [made_up_scan(lidar, start=START_S + 0.1 * k, seed=k) for k in range(4)]
    before, after, summary = relayed(lidar, weather, scans)
    # The decoder finds the last revolution when the next begins, so the last one stays in the relay.
    assert len(after) >= len(before) - 1 >= 3
    assert summary.skipped == 0
    assert not summary.refused
    for old, new in zip(before, after, strict=False):
        wet = weather.apply(
            old, sensor=lidar, seed=5, frame=old.metadata["time_of_hour_us"],
            time=(round(old.start_time * 1e6) - round(before[0].start_time * 1e6)) * 1e-6,
        )  # fmt: skip
        assert new.metadata["time_of_hour_us"] == pytest.approx(old.metadata["time_of_hour_us"], abs=1)
        np.testing.assert_array_equal(new.shots.direction, old.shots.direction)
        order = np.argsort(wet.fields["shot"], kind="stable")
        np.testing.assert_allclose(new.fields["range"], wet.fields["range"][order], atol=0.0011)
        np.testing.assert_array_equal(new.fields["shot"], wet.fields["shot"][order])
    if not weather.is_clear():
        assert len(after[0]) != len(before[0])


@pytest.mark.parametrize("model", ["hesai/xt32", "robosense/helios-32", "livox/mid-360"])
def test_further_makers(model: str) -> None:
    """Rain drops a part of the returns of each revolution; times and shots stay."""
    lidar = ph.Lidar(model)
    scans = [made_up_scan(lidar, start=START_S + 0.1 * k, seed=k) for k in range(3)]
    before, after, summary = relayed(lidar, ph.Weather(rain_rate_mm_h=80), scans)
    assert len(after) >= len(before) - 1 >= 2
    assert not summary.refused
    for old, new in zip(before[:2], after, strict=False):
        assert abs(new.start_time - old.start_time) < 1e-4
        assert abs(len(new.shots) - len(old.shots)) <= 1000  # one packet
        assert 0.3 * len(old) < len(new) != len(old)


def test_ouster_keeps_numbers_and_times() -> None:
    lidar = ph.Lidar("ouster/os0-32")
    metadata = codecs()["ouster"].metadata(lidar)
    scans = [random_scan(lidar, k, start=100.0 + 0.1 * k) for k in range(3)]
    scans = [replace(one, metadata={**one.metadata, "frame_id": 41 + k}) for k, one in enumerate(scans)]
    before, after, _ = relayed(lidar, ph.Weather(rain_rate_mm_h=50), scans, metadata)
    assert [one.metadata["frame_id"] for one in before] == [41, 42, 43]
    assert [one.metadata["frame_id"] for one in after] == [41, 42, 43]
    assert [one.start_time for one in after] == [one.start_time for one in before]
    assert len(after[0]) != len(before[0])


def test_bad_settings() -> None:
    rain = ph.Weather(rain_rate_mm_h=5)
    velodyne = Weathering(rain, ph.Lidar("velodyne/vlp-16"))
    for job, ports, options, words in (
        (velodyne, (2368, 2368), {}, "cannot be the input and the output"),
        (velodyne, (0, 12368), {}, "udp_in"),
        (velodyne, (2368, 12368), {"host": "192.168.1.5"}, "not on this machine"),
        (Weathering(rain, ph.Lidar("sick/lms-111")), (2368, 12368), {}, "packets of sick/lms-111 are not known"),
        (Weathering(rain, ph.Lidar("hesai/at128")), (2368, 12368), {}, "Hesai model with packets"),
        (Weathering(rain, ph.Lidar("ouster/os1-128")), (7502, 17502), {}, "need the sensor's metadata"),
    ):
        with pytest.raises(ConfigError, match=words):
            WeatherUdp(job, *ports, **options)  # type: ignore[arg-type]
