"""The live Ouster stream, received by Ouster's own client in a separate process, and the metadata that it requests."""

from __future__ import annotations

import dataclasses
import json
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from ouster_scans import random_scan
from parhelion.calibrate.sheet import with_changes, write_sheet
from parhelion.core.errors import ConfigError
from parhelion.live.udp import PacketUdp, SensorHttp
from parhelion.makers.ouster.codec import OusterApi
from parhelion.makers.ouster.packets import metadata
from parhelion.scenario.scenario import Scenario
from parhelion.sensors.optics.lidar.lidar import Lidar

pytest.importorskip("ouster.sdk.sensor", reason="ouster-sdk is not installed")

# Ouster's client holds the interpreter lock while it waits, so it runs in a separate process.
RECEIVER = """
import json, sys, time, warnings
warnings.simplefilter("ignore")
from ouster.sdk import core, sensor
import numpy as np

document, wanted, seconds = json.loads(sys.stdin.readline()), int(sys.argv[1]), float(sys.argv[2])
info = core.SensorInfo(json.dumps(document))
config = core.SensorConfig()
config.udp_port_lidar, config.udp_port_imu = info.config.udp_port_lidar, info.config.udp_port_imu
# Whatever happens, this ends: an iterator without packets raises after a second.
source = sensor.SensorPacketSource([sensor._Sensor("127.0.0.1", config)], [info], config_timeout=5, buffer_time=5.0)
layout, batcher, frame = core.PacketFormat(info), core.FrameBatcher(info), core.LidarFrame(info)
print("ready", flush=True)
lidar, imu, whole, ids, times, arrived, wrong = 0, 0, 0, [], [], [], 0
end = time.monotonic() + seconds
try:
    for _, packet in source:
        if isinstance(packet, core.LidarPacket):
            lidar += 1
            wrong += layout.crc(packet.buf) != layout.calculate_crc(packet.buf)
            times.append(int(layout.packet_header(core.ColHeader.TIMESTAMP, packet.buf)[0]))
            arrived.append(packet.host_timestamp)
            if batcher.batch(packet, frame):
                whole += frame.complete()
                ids.append(int(frame.frame_id))
                frame = core.LidarFrame(info)
        else:
            imu += 1
        if lidar + imu == wanted or time.monotonic() > end:
            break
except sensor.ClientTimeout:
    pass
if frame.status.any():
    whole += frame.complete()
    ids.append(int(frame.frame_id))
turns = np.array(arrived[: lidar // 32 * 32], float).reshape(-1, 32)
print(json.dumps({
    "lidar": lidar, "imu": imu, "whole": int(whole), "ids": ids, "wrong": int(wrong),
    "rising": bool((np.diff(times) > 0).all()), "dropped": int(source.dropped_packets),
    "spread_ms": float(np.median(np.ptp(turns, axis=1)) / 1e6) if len(turns) else -1.0,
}), flush=True)
"""


def free_ports() -> tuple[int, int]:
    with (
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as one,
        socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as two,
    ):
        one.bind(("127.0.0.1", 0))
        two.bind(("127.0.0.1", 0))
        return one.getsockname()[1], two.getsockname()[1]


def scenario_with(model: str, **options: Any) -> Scenario:
    return Scenario.from_mapping(
        {
            "duration_s": 1.0,
            "world": "boards-u",
            "vehicles": [{"name": "car", "motion": {"fixed": {"xyz": [0, 0, 1]}}}],
            "sensors": [
                {"name": "roof", "type": "lidar", "model": model, "vehicle": "car", "mount": {"xyz": [0, 0, 1]},
                 "options": options},
                {"name": "imu", "type": "imu", "model": "xsens/mti-3", "vehicle": "car", "rate_hz": 100,
                 "mount": {"xyz": [0.5, 0, 1]}},
            ],
        }
    )  # fmt: skip


class Receiver:
    """Ouster's client, listening until it has a number of packets, or for a few seconds at most."""

    def __init__(self, document: dict[str, Any], wanted: int, seconds: float = 25.0) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", RECEIVER, str(wanted), str(seconds)],
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
        )  # fmt: skip
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(document) + "\n")
        self.process.stdin.flush()
        for line in self.process.stdout:
            if line.startswith("ready"):
                return
        raise AssertionError(self.process.communicate(timeout=10)[1])

    def result(self) -> dict[str, Any]:
        out, err = self.process.communicate(timeout=30)
        lines = [line for line in out.splitlines() if line.startswith("{")]
        assert lines, err
        return dict(json.loads(lines[-1]))


def steps_of(scenario: Scenario, scans: int) -> Iterator[Any]:
    """Steps of a tenth of a second with one scan each, all with the same points: the test covers sending, not
    measuring.
    """
    scanner = scenario.frame_sensors[0]
    scan = random_scan(scanner.sensor)
    imu = scenario.stream_sensor("imu").stream(scenario.world, 1)
    for number in range(scans):
        start = number * scanner.period_s
        one = dataclasses.replace(scan, start_time=start)
        yield SimpleNamespace(
            time=start + scanner.period_s,
            scans={"roof": [(number, one)]},
            samples=lambda name, end=start + scanner.period_s: imu.until(end),
        )


def stream(model: str, scans: int, **options: Any) -> tuple[dict[str, Any], PacketUdp, float]:
    scenario = scenario_with(model, **options)
    lidar_port, imu_port = free_ports()
    outlet = PacketUdp(scenario, "ouster", "127.0.0.1", {"lidar": lidar_port, "imu": imu_port})
    receiver = Receiver(outlet.metadata["roof"], 74 * scans, scans / 10 + 20.0)
    began = time.monotonic()
    try:
        for step in steps_of(scenario, scans):
            outlet.take(step)
        outlet.close()
        took = time.monotonic() - began
        return receiver.result(), outlet, took
    finally:
        outlet.close(drain=False)
        if receiver.process.poll() is None:
            receiver.process.kill()
            receiver.process.wait()


def test_no_packet_is_lost_at_the_full_rate_of_an_os1_128() -> None:
    scans = 50
    got, outlet, took = stream("ouster/os1-128", scans)
    assert got["lidar"] == 64 * scans
    assert got["whole"] == scans
    assert got["ids"] == list(range(scans))
    assert got["wrong"] == got["dropped"] == 0
    assert got["rising"]
    assert got["imu"] == 10 * scans
    assert outlet.sent == got["lidar"] + got["imu"]
    # Packets arrive in real time, each at its own time: 32 of them take 50 ms, not a burst. A busy machine takes
    # longer.
    assert took > scans / 10 - 0.5
    assert got["spread_ms"] > 35.0


def test_a_scenario_that_begins_anew_goes_on_in_time_and_frames() -> None:
    scenario = scenario_with("ouster/os0-32", columns=512)
    lidar_port, imu_port = free_ports()
    outlet = PacketUdp(scenario, "ouster", "127.0.0.1", {"lidar": lidar_port, "imu": imu_port})
    receiver = Receiver(outlet.metadata["roof"], 6 * 42)
    for _ in range(2):
        for step in steps_of(scenario, 3):
            outlet.take(step)
    outlet.close()
    outlet.close()
    got = receiver.result()
    assert got["ids"] == list(range(6))
    assert got["rising"]


def test_metadata_contains_the_imu_position() -> None:
    outlet = PacketUdp(scenario_with("ouster/os0-32"), "ouster", http_port=0)
    try:
        matrix = np.reshape(outlet.metadata["roof"]["imu_intrinsics"]["imu_to_sensor_transform"], (4, 4))
        np.testing.assert_allclose(matrix[:3, 3], [500.0, 0.0, 0.0], atol=1e-9)
        with urllib.request.urlopen(outlet.servers["roof"].url, timeout=5) as answer:
            assert json.load(answer) == outlet.metadata["roof"]
    finally:
        outlet.close(drain=False)


def test_an_own_sheet_has_its_own_beams(tmp_path: Path) -> None:
    preset = Lidar("ouster/os2-32").config
    channels = preset.pattern.channels  # type: ignore[union-attr]
    up = [round(angle + 0.05 * (-1) ** k, 3) for k, angle in enumerate(channels.elevation_deg)]
    write_sheet(with_changes(preset, {"pattern.channels.elevation_deg": up}), tmp_path / "my-lidar.yaml")
    outlet = PacketUdp(scenario_with(str(tmp_path / "my-lidar.yaml")), "ouster")
    outlet.close(drain=False)
    found = outlet.metadata["roof"]
    np.testing.assert_allclose(found["beam_intrinsics"]["beam_altitude_angles"], up, atol=1e-5)
    assert found["sensor_info"]["prod_line"] == "OS-2-32"


def test_wrong_settings_are_reported() -> None:
    scenario = scenario_with("ouster/os0-32")
    with pytest.raises(ConfigError, match=r"8\.8\.8\.8 is not on this machine"):
        PacketUdp(scenario, "ouster", "8.8.8.8")
    with pytest.raises(ConfigError, match="lidar_port: a UDP port is an integer from 1 to 65535, got 70000"):
        PacketUdp(scenario, "ouster", ports=70000)
    with pytest.raises(ConfigError, match="would send two packet streams of 1 lidars to one port"):
        PacketUdp(scenario, "ouster", ports={"lidar": 7502, "imu": 7502})
    with pytest.raises(ConfigError, match=r"sensors: roof: unknown Ouster lidar profile 'X'"):
        PacketUdp(scenario, "ouster", profile="X")
    with pytest.raises(ConfigError, match=r"no lidar with Ouster packets \(ouster/\*\); its lidars: velodyne/vlp-16"):
        PacketUdp(scenario_with("velodyne/vlp-16"), "ouster")


# ---- HTTP ----------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def document() -> dict[str, Any]:
    return metadata(Lidar("ouster/os1-128"), name="roof")


@pytest.fixture
def server(document: dict[str, Any]) -> Iterator[SensorHttp]:
    with SensorHttp(OusterApi(document)) as one:
        yield one


def get(server: SensorHttp, path: str, body: Any = None) -> tuple[int, Any]:
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(f"http://127.0.0.1:{server.port}/api/v1/{path}", data)
    try:
        with urllib.request.urlopen(request, timeout=5) as answer:
            return answer.status, json.load(answer)
    except urllib.error.HTTPError as error:
        with error:
            return error.code, json.load(error)


def test_sections_of_the_metadata(server: SensorHttp, document: dict[str, Any]) -> None:
    assert get(server, "sensor/metadata") == (200, document)
    for section, content in document.items():
        assert get(server, f"sensor/metadata/{section}") == (200, content)
    assert get(server, "sensor/config") == (200, document["config_params"])
    assert get(server, "sensor/config/lidar_mode") == (200, "1024x10")
    assert get(server, "system/firmware")[1]["fw"].endswith("v3.1.0")
    status, answer = get(server, "sensor/nothing")
    assert (status, answer["error"]) == (404, "no such resource: /api/v1/sensor/nothing")


def test_the_configuration_is_fixed(server: SensorHttp, document: dict[str, Any]) -> None:
    assert get(server, "sensor/config", {"lidar_mode": "1024x10"}) == (200, document["config_params"])
    status, answer = get(server, "sensor/config", {"lidar_mode": "2048x10"})
    assert status == 400
    assert "fixed by its scenario; it differs in lidar_mode" in answer["error"]
    # Ouster's SDK sends this request to every sensor that it opens: packets go to the address of the requester.
    assert get(server, "sensor/config?reinit=False&persist=False", {"udp_dest": "@auto"})[0] == 200
    assert get(server, "user/data") == (200, "")
    assert get(server, "sensor/metadata", {})[0] == 405
    assert get(server, "sensor/config", [1])[0] == 400


def test_ouster_s_http_client_reads_it(server: SensorHttp, document: dict[str, Any]) -> None:
    script = (
        "import json, sys; from ouster.sdk import core, sensor; host = sys.argv[1];"
        "http = sensor.SensorHttp.create(host);"
        "info = core.SensorInfo(http.metadata()); config = sensor.get_config(host);"
        "print(json.dumps([str(info.config.lidar_mode), info.prod_line, str(info.sn), config.udp_port_lidar]))"
    )
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", script, f"127.0.0.1:{server.port}"],
        capture_output=True, text=True, timeout=30, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    expected = ["1024x10", "OS-1-128", document["sensor_info"]["prod_sn"], 7502]
    assert json.loads(done.stdout.splitlines()[-1]) == expected


def test_a_client_that_goes_away_harms_nobody(server: SensorHttp) -> None:
    for request in (
        b"",
        b"GET /api",
        b"nonsense\r\n\r\n",
        b"POST /api/v1/sensor/config HTTP/1.1\r\nContent-Length: 9\r\n\r\n{",
    ):
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
            client.sendall(request)
    with socket.create_connection(("127.0.0.1", server.port), timeout=5) as client:
        client.sendall(b"POST /api/v1/sensor/config HTTP/1.1\r\nContent-Length: 99999999999\r\n\r\n")
        assert b"413" in client.recv(200)
    assert get(server, "sensor/config")[0] == 200


@pytest.mark.parametrize(
    ("headers", "status"),
    [
        ({"Host": "elsewhere.example"}, 403),
        ({"Origin": "https://elsewhere.example"}, 403),
        ({"Origin": "null"}, 403),
        ({"Origin": "http://localhost:3000"}, 200),
        ({"Host": "localhost:80"}, 200),
    ],
)
def test_pages_of_other_sites_are_refused(server: SensorHttp, headers: dict[str, str], status: int) -> None:
    for data in (None, b"{}"):
        url = f"http://127.0.0.1:{server.port}/api/v1/sensor/config"
        try:
            with urllib.request.urlopen(urllib.request.Request(url, data, headers), timeout=5) as answer:
                found = answer.status
        except urllib.error.HTTPError as error:
            with error:
                found = error.code
        assert found == status


def test_half_open_connections_are_closed(document: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parhelion.live.web._LONGEST_S", 0.6)
    monkeypatch.setattr("parhelion.live.web._MOST_CONNECTIONS", 2)
    with SensorHttp(OusterApi(document)) as server:
        slow = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(2)]
        for one in slow:
            one.sendall(b"GET /")
        time.sleep(0.2)
        with socket.create_connection(("127.0.0.1", server.port), timeout=5) as more:
            assert more.recv(10) == b""  # a third connection is refused
        for one in slow:
            one.sendall(b"a")  # still sending, but for too long
            assert one.recv(10) == b""
            one.close()
        time.sleep(0.1)
        assert get(server, "sensor/config")[0] == 200


def test_ports_and_hosts_are_checked(server: SensorHttp, document: dict[str, Any]) -> None:
    with pytest.raises(ConfigError, match=rf"cannot listen on 127.0.0.1:{server.port} .*in use.*choose another port"):
        SensorHttp(OusterApi(document), port=server.port)
    with pytest.raises(ConfigError, match="not on this machine"):
        SensorHttp(OusterApi(document), host="0.0.0.0")
    with pytest.raises(ConfigError, match="from 0 to 65535"):
        SensorHttp(OusterApi(document), port=70000)
    port = server.port
    server.close()
    server.close()
    with SensorHttp(OusterApi(document), port=port) as again:
        assert again.port == port
