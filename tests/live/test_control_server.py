"""Control over WebSocket: the typed client, callers that are refused, floods, slow consumers and damaged messages."""

from __future__ import annotations

import json
import math
import os
import shutil
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import yaml
from typer.testing import CliRunner

pytest.importorskip("websockets", reason="the server is made with websockets")

from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import ClientConnection
from websockets.sync.client import connect as open_socket

import parhelion as ph
from control_rigs import YARD, yard
from parhelion.cli.app import app
from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.io.wire import packed, unpacked
from parhelion.live import control_server
from parhelion.live.client import Client, connect
from parhelion.live.control_server import LARGEST_MESSAGE, MOST_CLIENTS, MOST_PENDING, PROTOCOL, ControlServer
from parhelion.scenario.control import Control
from parhelion.scenario.verbs import Quit, VerbError

TOKEN = "a token of 26 characters.."
CPP = Path(__file__).resolve().parents[2] / "examples" / "cpp"


@pytest.fixture
def server() -> Iterator[ControlServer]:
    yield from served()


@pytest.fixture
def guarded() -> Iterator[ControlServer]:
    yield from served(TOKEN)


def served(token: str | None = None) -> Iterator[ControlServer]:
    control = Control(yard(duration_s=100.0, outputs=[]), playing=False, speed=float("inf"))
    thread = threading.Thread(target=control.run)
    with ControlServer(control, port=0, token=token) as server:
        thread.start()
        try:
            yield server
        finally:
            with suppress(VerbError):
                control.call(Quit(), 60.0)
            thread.join(60.0)
            assert not thread.is_alive()


def raw(server: ControlServer, **options: Any) -> ClientConnection:
    made = {"subprotocols": [PROTOCOL], "compression": None, "max_size": 1 << 28, "proxy": None, **options}
    return open_socket(server.url, **made)


def status_of(server: ControlServer, **headers: str) -> int:
    with pytest.raises(InvalidStatus) as error, raw(server, additional_headers=headers):
        pass
    return int(error.value.response.status_code)


# ---- the typed client ------------------------------------------------------------------------------------------------


def test_the_client_controls_a_scenario_and_receives_real_records(server: ControlServer) -> None:
    with connect(server.url) as client:
        assert (client.about["scenario"], client.about["seed"]) == ("yard", 3)
        assert client.step(12) == (12, 0.12)
        cloud = client.latest("top")
        assert type(cloud) is ph.PointCloud
        assert cloud.metadata["sensor"] == "velodyne/vlp-16"
        scan = client.latest("top", complete=True)
        assert isinstance(scan, ph.Scan)
        assert np.array_equal(scan.xyz, cloud.xyz)
        assert len(scan.shots) > len(scan)
        assert isinstance(client.latest("imu"), ph.ImuData)
        name = client.spawn("crate", ph.shapes.box(1, 1, 1), pose=ph.Pose((2, 0, 0.5)), material="wood", label="box")
        hits = client.rays((0, 0, 0.5), [[1, 0, 0], [0, 0, 1]])
        assert (hits.entity, hits.label) == ([name, None], ["box", None])
        assert hits.range == pytest.approx([1.5, np.inf], abs=1e-5)
        client.move(name, ph.Pose((3, 0, 0.5)), velocity=(1.0, 0.0, 0.0))
        state = client.state(name)
        assert (state.pose.xyz.tolist(), state.velocity.tolist()) == ([3, 0, 0.5], [1, 0, 0])
        low, high = client.bounds(name)  # type: ignore[misc]
        assert (high - low).tolist() == [1, 1, 1]
        assert client.weather(rain_rate_mm_h=10) == {"rain_rate_mm_h": 10.0}
        assert client.daylight(sun_elevation_deg=5) == {"sun_elevation_deg": 5.0}
        client.command("robot", ph.DriveCommand(0.5, yaw_rate_rad_s=0.1))
        client.attach("low", "lidar", "velodyne/vlp-16", vehicle="robot", mount=ph.Pose((0, 0, 0.4)))
        client.mount("top", ph.Pose((0, 0, 1.5)))
        assert [one["name"] for one in client.sensors()] == ["top", "imu", "low"]
        client.step(12)
        assert len(client.latest("low")) > 1000
        client.detach("low")
        assert client.height([0.0], 0.0) == pytest.approx([0.0], abs=1e-5)
        assert 0 < client.clearance("robot") < 10
        assert client.collisions() == []
        assert client.entities("cr*", kinds=["spawned"]) == ["crate"]
        client.remove(name)
        with pytest.raises(VerbError, match="no entity 'crate'") as error:
            client.state(name)
        assert error.value.code == "not_found"
        client.reset()
        assert (client.time_s, client.status["weather"]) == (0.0, {})
        client.play()
        client.pause()


def test_subscriptions_deliver_records_in_order(server: ControlServer) -> None:
    with connect(server.url) as client, connect(server.url) as other:
        seen: list[int] = []
        every = other.subscribe("*")
        records = client.subscribe("top", lambda found: seen.append(found.frame))
        for number in range(3):
            client.step(10)
            found = records.next(30.0)
            assert (found.sensor, found.frame, found.skipped) == ("top", number, 0)
            assert isinstance(found.record, ph.PointCloud)
            assert found.time_s == pytest.approx(0.1 * (number + 1))
        assert seen == [0, 1, 2]
        assert every.next(30.0).sensor in ("top", "imu")
        records.close()
        client.step(10)
        with pytest.raises(ParhelionError, match="the subscription was closed"):
            records.next(1.0)
        with pytest.raises(VerbError, match="no sensor 'bottom'; sensors: top, imu, or \\* for all"):
            client.subscribe("bottom")
        assert seen == [0, 1, 2]


@pytest.mark.parametrize(("ask", "words"), [
    (lambda c: c.height(math.nan, 0.0), "height: xy contains nan; all numbers must be finite"),
    (lambda c: c.weather(visibility_m=math.inf), "weather: changes contains inf; all numbers must be finite"),
    (lambda c: c.spawn("a", 7), "a mesh must be a path, a Mesh, .* or a trimesh mesh, got int"),
    (lambda c: c.spawn("a", (np.tile(np.eye(3) / 3.0, (20_000, 1)), [(0, 1, 2)])), "message has .* MB, more than"),
    (lambda c: c.spawn("a", {"kind": "box", "size_m": {1}}), "spawn: a set cannot be sent"),
    (lambda c: c.command("robot", "go"), "command: expected one of DriveCommand, .*, got str"),
    (lambda c: c.command("rob", ph.DriveCommand(1.0)), "no vehicle 'rob'; vehicles: robot, buggy"),
    (lambda c: c.reset(keep="spawn"), "keep.0.: expected 'spawned', .*, got 'spawn'"),
])  # fmt: skip
def test_mistakes_of_a_caller_are_explained_at_once(server: ControlServer, ask: Any, words: str) -> None:
    with connect(server.url, timeout_s=20.0) as client, pytest.raises(ParhelionError, match=words):
        ask(client)


def test_wrong_addresses_are_explained() -> None:
    for url in (5, "foo"):
        with pytest.raises(ConfigError, match=f"{url}: is not an address such as ws://127.0.0.1:8917"):
            connect(url)  # type: ignore[arg-type]


def test_meshes_of_other_kinds_are_spawned(server: ControlServer) -> None:
    trimesh = pytest.importorskip("trimesh")
    with connect(server.url) as client:
        client.spawn("a", trimesh.creation.box((1.0, 2.0, 3.0)), pose=ph.Pose((5, 5, 5)))
        client.spawn("b", (np.eye(3), [(0, 1, 2)]), pose=ph.Pose((5, 5, 5)))
        sizes = [np.subtract(*client.bounds(name)[::-1]).tolist() for name in ("a", "b")]  # type: ignore[index]
    assert sizes == [[1, 2, 3], [1, 1, 1]]


def test_failing_callbacks_and_closed_subscriptions(server: ControlServer, caplog: pytest.LogCaptureFixture) -> None:
    seen: list[int] = []

    def fail(found: Any) -> None:
        seen.append(found.frame)
        raise ZeroDivisionError

    with connect(server.url, timeout_s=20.0) as client:
        first = client.subscribe("top", fail)
        client.step(20)
        assert client.step(10) == (30, 0.3)  # the connection still works
        assert seen[0] == 0
        assert len(seen) == 1
        assert "the callback for top failed and is not called again" in caplog.text
        second = client.subscribe("top")
        with pytest.raises(ParhelionError, match="top: the subscription was closed"):
            first.next(5.0)
        first.close()
        client.step(10)
        assert second.next(20.0).sensor == "top"


def test_the_end_of_the_server_reaches_clients(server: ControlServer) -> None:
    client = connect(server.url)
    records = client.subscribe("top")
    client.quit()
    server.close()
    assert list(records) == []
    with pytest.raises(ParhelionError, match="the connection is closed"):
        client.pause()
    client.close()
    with pytest.raises(ConfigError, match="cannot connect"):
        connect(server.url)


# ---- callers ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://elsewhere.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1.elsewhere.example"},
    ],
)
def test_pages_of_other_sites_are_refused(server: ControlServer, headers: dict[str, str]) -> None:
    assert status_of(server, **headers) == 403


@pytest.mark.parametrize(
    ("head", "status"),
    [
        (b"GET / HTTP/1.1\r\nHost: elsewhere.example\r\n", b"403"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\nOrigin: http://localhost\r\nOrigin: http://evil\r\n", b"400"),
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n", b"426"),
        (b"POST / HTTP/1.1\r\nHost: localhost\r\n", None),
        (b"\x00\xff" * 2000, None),
        (b"GET / HTTP/1.1\r\n" + b"X: y\r\n" * 5000, None),
    ],
)
def test_other_requests_are_refused(server: ControlServer, head: bytes, status: bytes | None) -> None:
    upgrade = b"Upgrade: websocket\r\nConnection: Upgrade\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
    more = b"" if status == b"426" else upgrade + b"Sec-WebSocket-Version: 13\r\n"
    with socket.create_connection(("127.0.0.1", server.port), timeout=10) as caller:
        with suppress(ConnectionError):
            caller.sendall(head + more + b"\r\n")
        answer = b""
        with suppress(ConnectionError):
            while part := caller.recv(4096):
                answer += part
    assert answer.split(b" ")[1] == status if status else b"101" not in answer
    with connect(server.url) as client:
        assert client.status["state"] == "paused"


def test_a_token_is_required_where_it_is_set(guarded: ControlServer) -> None:
    assert status_of(guarded, Authorization="Bearer wrong") == 401
    with connect(guarded.url, token=TOKEN) as client:
        assert client.status["state"] == "paused"
    # A browser cannot set the header, so it sends the token in its first message.
    with raw(guarded) as page:
        page.send(json.dumps({"op": "hello", "token": TOKEN, "id": 1}))
        assert json.loads(page.recv())["ok"]
        page.send(json.dumps({"op": "status", "id": 2}))
        assert json.loads(page.recv())["state"] == "paused"
    for first in ({"op": "hello", "token": "wrong"}, {"op": "status"}, {"op": "hello", "token": 5}):
        with raw(guarded) as page:
            page.send(json.dumps(first))
            assert json.loads(page.recv())["error"]["code"] == "invalid"
            with pytest.raises(ConnectionClosed):
                page.recv(5.0)
            assert page.close_code == 1008
    with pytest.raises(ConfigError, match="refused the connection"):
        connect(guarded.url, token="another token, also long")


def test_a_client_without_a_token_is_disconnected(guarded: ControlServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(control_server, "_FIRST_S", 0.2)
    with raw(guarded) as page:
        with pytest.raises(ConnectionClosed):
            page.recv(10.0)
        assert page.close_code == 1008


def test_other_machines_need_a_token_and_ports_are_not_shared(server: ControlServer) -> None:
    control = server.control
    with pytest.raises(ConfigError, match=r"host: 0.0.0.0 can be reached by other machines; set a token"):
        ControlServer(control, "0.0.0.0", 0)
    with pytest.raises(ConfigError, match="token: must have at least 16 ASCII characters"):
        ControlServer(control, port=0, token="short")
    with pytest.raises(ConfigError, match=r"port: cannot listen on 127\.0\.0\.1"):
        ControlServer(control, port=server.port)


# ---- hostile clients -------------------------------------------------------------------------------------------------


def test_numbers_that_are_not_json_are_answered_by_their_id(server: ControlServer) -> None:
    with raw(server) as one:
        one.send('{"id": 7, "op": "height", "xy": [[NaN, 0]]}')
        reply = json.loads(one.recv(20.0))
    assert (reply["id"], reply["error"]) == (
        7, {"code": "invalid", "message": "message: NaN is not JSON; all numbers must be finite"},
    )  # fmt: skip


def test_damaged_messages_are_answered_and_harm_nobody(server: ControlServer) -> None:
    messages: list[str | bytes] = [
        "", "nonsense", "[]", "5", "null", '{"op": 5}', '{"op": "spawn"}', '{"op": "step", "steps": 1e99}',
        '{"op": "step", "steps": NaN}', '{"op": "status", "extra": 1}', b"binary", "[" * 100_000, '{"id": {}}',
        '{"id": "' + "x" * 100 + '", "op": "status"}', '{"op": "subscribe"}', '{"op": "subscribe", "sensor": []}',
        '{"op": "rays", "origins": [[0, 0]], "directions": []}', '{"op": "latest", "sensor": "\\ud800"}',
        '{"op": "weather", "changes": {"rain": {"rain_rate_mm_h": "wet"}}}', '{"op": "spawn", "mesh": "/etc/passwd"}',
        '{"op": "attach", "sensor": {"name": "../x", "type": "lidar", "model": "velodyne/vlp-16"}}',
    ]  # fmt: skip
    with raw(server) as client:
        for message in messages:
            client.send(message)
            reply = json.loads(client.recv(30.0))
            assert not reply["ok"], message
            assert reply["error"]["code"] in ("invalid", "unknown_op", "not_found")
            assert len(reply["error"]["message"]) <= 2000
        client.send(json.dumps({"op": "status", "id": "last"}))
        assert json.loads(client.recv(30.0))["id"] == "last"


def test_too_long_messages_end_the_connection_only(server: ControlServer) -> None:
    with raw(server) as client:
        client.send("x" * (LARGEST_MESSAGE + 1))
        with pytest.raises(ConnectionClosed):
            client.recv(30.0)
        assert client.close_code == 1009
    with connect(server.url) as other:
        assert other.status["state"] == "paused"


def test_a_flood_without_reading_is_held_back(server: ControlServer) -> None:
    """A client that sends verbs and reads no replies is not read any further, and others are served."""
    with raw(server) as flood:
        stop = threading.Event()

        def send() -> None:
            with suppress(ConnectionClosed, OSError):
                while not stop.is_set():
                    flood.send(json.dumps({"op": "entities", "id": 0}))

        # Nothing reads: the library's own reader is paused by a full queue.
        thread = threading.Thread(target=send, daemon=True)
        thread.start()
        time.sleep(1.0)
        with connect(server.url) as client:
            began = time.perf_counter()
            for _ in range(20):
                assert client.status["state"] == "paused"
            assert time.perf_counter() - began < 10.0
        assert all(len(one.replies) <= MOST_PENDING for one in server._clients)
        assert server.control._waiting.qsize() <= 2 * MOST_PENDING
        stop.set()
        flood.socket.shutdown(socket.SHUT_RDWR)
        thread.join(10.0)


def test_slow_consumers_get_the_latest_record_and_stop_nobody(server: ControlServer) -> None:
    # A raw socket that never reads fills its buffers; the simulation and another client go on.
    head = (
        f"GET / HTTP/1.1\r\nHost: 127.0.0.1:{server.port}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
        f"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
        f"Sec-WebSocket-Protocol: {PROTOCOL}\r\n\r\n"
    )
    text = json.dumps({"op": "subscribe", "sensor": "top", "complete": True}).encode()
    with socket.socket() as slow, connect(server.url) as client:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", server.port))
        slow.sendall(head.encode() + bytes([0x81, 0x80 | len(text), 0, 0, 0, 0]) + text)
        deadline = time.monotonic() + 10.0
        while not server._wanted and time.monotonic() < deadline:
            time.sleep(0.01)
        records = client.subscribe("top")
        for number in range(12):
            client.step(10)
            assert records.next(30.0).frame == number
        sleepy = next(one for one in server._clients if one.wanted == {"top": True})
        assert len(sleepy.records) <= 1
        assert sleepy.skipped.get("top", 0) > 0
        assert records.skipped == 0


def test_connections_are_limited(server: ControlServer) -> None:
    with ExitStack() as stack:
        for _ in range(MOST_CLIENTS):
            stack.enter_context(raw(server))
        with pytest.raises((OSError, EOFError, ConnectionClosed, Exception)):
            raw(server, open_timeout=5.0)
        assert server.refused == 1
    deadline = time.monotonic() + 10.0
    while server._open and time.monotonic() < deadline:
        time.sleep(0.01)
    with connect(server.url) as client:
        assert client.status["state"] == "paused"


# ---- records ---------------------------------------------------------------------------------------------------------


def test_damaged_records_raise_format_errors() -> None:
    cloud = ph.PointCloud([[1.0, 2.0, 3.0]], {"range": np.array([4.0], np.float32)})
    message = packed(cloud, "top", 3, 0.25).message(skipped=2)
    header, found = unpacked(message)
    assert found.equals(cloud)
    assert (header["sensor"], header["frame"], header["time_ns"], header["skipped"]) == ("top", 3, 250_000_000, 2)
    assert all(offset % 8 == 0 for *_, offset in header["columns"])
    replaced = [(b"PHR1", b"PHR2"), (b"[1,3]", b"[9,3]"), (b"float64", b"objects"), (b"[1,3]", b"[-1,3]")]
    for damaged in (b"", b"PHR1", message[:20], message[:-8], *(message.replace(*pair) for pair in replaced)):
        with pytest.raises(FormatError):
            unpacked(damaged)


def test_the_client_ignores_damaged_messages_of_a_server(server: ControlServer) -> None:
    with connect(server.url) as client:
        for message in ("nonsense", b"PHR1", "[]", '{"id": 1}'):
            with suppress(FormatError, ValueError, KeyError, TypeError, AttributeError):
                client._take(message)
        assert client.status["state"] == "paused"


# ---- other programs --------------------------------------------------------------------------------------------------


@pytest.mark.skipif(shutil.which("g++") is None, reason="g++ is not installed")
def test_the_example_in_cpp_controls_a_scenario(server: ControlServer, tmp_path: Path) -> None:
    program = tmp_path / "rain"
    build = ["g++", "-std=c++17", "-O1", "-Wall", "-Wextra", "-Werror", str(CPP / "rain.cpp"), "-o", str(program)]
    subprocess.run(build, check=True, capture_output=True, timeout=120)
    done = subprocess.run(
        [str(program), "127.0.0.1", str(server.port), "top"], capture_output=True, text=True, timeout=120,
        env={**os.environ},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert [line.split(":")[0] for line in lines[:3]] == ["0 mm/h", "25 mm/h", "100 mm/h"]
    means = [float(line.split()[-2]) for line in lines[:3]]
    assert means[0] > means[1] > means[2]  # drops return early, and far points are lost
    assert len(lines) == 6
    wrong = subprocess.run([str(program), "127.0.0.1", "1", "top"], capture_output=True, text=True, timeout=20)
    assert (wrong.returncode, wrong.stderr) == (1, "error: cannot connect to 127.0.0.1:1\n")


def test_ph_connect_is_the_client(server: ControlServer) -> None:
    with ph.connect(server.url) as client:
        assert isinstance(client, Client)
        assert repr(client) == f"<Client of {server.url}: yard>"


def test_the_command_serves_and_ends_with_a_client(tmp_path: Path) -> None:
    file = tmp_path / "yard.yaml"
    file.write_text(yaml.safe_dump({**YARD, "outputs": [], "duration_s": 0.5}))
    words = ["serve", str(file), "--port", "0", "--paused", "--speed", "0", "-o", str(tmp_path / "out")]
    process = subprocess.Popen([sys.executable, "-m", "parhelion", *words], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    try:
        first = process.stdout.readline()
        assert first.startswith("yard: ws://127.0.0.1:")
        assert first.endswith(", paused\n")
        with connect(first.split()[1].rstrip(",")) as client:
            client.step(12)
            client.weather(rain_rate_mm_h=5)
            client.quit()
        rest = process.stdout.read()
        assert process.wait(60) == 0
    finally:
        process.kill()
        process.wait()
    assert "3 in " in rest
    assert (tmp_path / "out" / "top" / "000000.pcd").is_file()
    ops = [json.loads(line).get("op") for line in (tmp_path / "out" / "events.jsonl").read_text().splitlines()]
    assert ops == [None, "step", "weather", "quit"]


def test_wrong_options_of_the_command_are_explained(tmp_path: Path) -> None:
    file = tmp_path / "yard.yaml"
    file.write_text(yaml.safe_dump({**YARD, "outputs": []}))
    remote = CliRunner().invoke(app, ["serve", str(file), "--host", "0.0.0.0"])
    assert remote.exit_code == 1
    assert "host: 0.0.0.0 can be reached by other machines; set a token" in remote.output
    events = CliRunner().invoke(app, ["serve", str(file), "--events", str(file)])
    assert events.exit_code == 2
    assert "choose another file" in events.output


@pytest.mark.slow
def test_random_verbs_with_a_robot_in_contact_and_hostile_clients_repeat(tmp_path: Path) -> None:
    """The short form of tests/soak/verbs.py."""
    from soak.verbs import soak

    assert soak(tmp_path, 60, 3, ("websocket",)) == []
    assert (tmp_path / "websocket" / "events.jsonl").read_text().count("\n") > 20


def test_a_sensor_is_wanted_whole_if_any_client_wants_it_whole() -> None:
    server = object.__new__(ControlServer)
    clients = [SimpleNamespace(wanted=wanted) for wanted in ({"top": False}, {"top": True, "imu": False}, {})]
    server._clients = clients  # type: ignore[assignment]
    server._count_wanted()
    assert server._wanted == {"top": True, "imu": False}
    clients[0].wanted["*"] = False
    server._count_wanted()
    assert server._wanted["*"] is True
