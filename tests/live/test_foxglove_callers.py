"""Callers that the Foxglove server answers; no caller blocks it or fills the log."""

from __future__ import annotations

import copy
import json
import logging
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pytest

pytest.importorskip("foxglove", reason="the server is made with foxglove-sdk")
pytest.importorskip("websockets", reason="the rig speaks WebSocket")

from typer.testing import CliRunner, Result

from foxglove_rigs import SUBPROTOCOLS, Client
from parhelion.cli.app import app
from parhelion.core.errors import ConfigError
from parhelion.live import foxglove
from parhelion.live.foxglove import WEB_APP, FoxgloveServer
from parhelion.scenario import Scenario

FIELDS = {
    "name": "a wall",
    "duration_s": 0.2,
    "world": "cuboids",
    "vehicles": [{"name": "post", "motion": {"fixed": {"xyz": [0, 0, 1]}}}],
    "sensors": [{"name": "imu", "type": "imu", "model": "analog-devices/adis16470", "vehicle": "post", "rate_hz": 100}],
    "outputs": [],
}
UPGRADE = {
    "Host": "localhost:8765",
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
    "Sec-WebSocket-Protocol": ", ".join(SUBPROTOCOLS),
}


@pytest.fixture(scope="module")
def scenario() -> Scenario:
    return Scenario.from_mapping(copy.deepcopy(FIELDS))


@pytest.fixture(scope="module")
def server(scenario: Scenario) -> Iterator[FoxgloveServer]:
    made = FoxgloveServer(scenario, port=0)
    yield made
    made.close()


def answer_to(server: FoxgloveServer, data: bytes, *, seconds: float = 5.0) -> bytes:
    """First part of the answer; empty if the connection is closed without one."""
    with socket.create_connection(("127.0.0.1", server.port), timeout=seconds) as caller:
        caller.sendall(data)
        try:
            return caller.recv(4096)
        except ConnectionResetError:
            return b""


def head(*lines: str, **changed: str | None) -> bytes:
    fields = {**UPGRADE, **{name.replace("_", "-"): value for name, value in changed.items()}}
    every = ["GET / HTTP/1.1", *(f"{name}: {value}" for name, value in fields.items() if value is not None), *lines]
    return ("\r\n".join(every) + "\r\n\r\n").encode()


def status(server: FoxgloveServer, data: bytes) -> int:
    return int(answer_to(server, data).split(b" ")[1])


@pytest.mark.parametrize(
    "changed",
    [
        {"Host": "elsewhere.example"},
        {"Host": "elsewhere.example:8765", "Origin": "http://elsewhere.example:8765"},
        {"Host": "10.0.0.1", "Origin": "file://"},
        {"Origin": "https://elsewhere.example"},
        {"Origin": "https://localhost.elsewhere.example"},
        {"Origin": "null"},
        {"Origin": ""},
        {"Origin": WEB_APP},
    ],
)
def test_pages_of_other_sites_are_refused(server: FoxgloveServer, changed: dict[str, str]) -> None:
    answer = answer_to(server, head(**changed))
    assert answer.startswith(b"HTTP/1.1 403 Forbidden\r\n")
    assert answer.endswith(b"refused: this server accepts programs and pages of its own machine only\n")


@pytest.mark.parametrize("origin", [None, "http://localhost:3000", "https://127.0.0.1", "file://", "app://foxglove"])
def test_programs_and_pages_of_this_machine_may_ask(server: FoxgloveServer, origin: str | None) -> None:
    assert status(server, head(Origin=origin)) == 101


def test_the_web_app_is_let_in_where_asked(scenario: Scenario) -> None:
    server = FoxgloveServer(scenario, port=0, origins=[WEB_APP + "/"])
    try:
        assert status(server, head(Origin=WEB_APP)) == 101
        assert not server.missed_web_app
        assert status(server, head(Origin="https://elsewhere.example")) == 403
        assert status(server, head(Origin=WEB_APP, Host="elsewhere.example")) == 403
        assert server.missed_web_app
    finally:
        server.close()
    for wrong in ("app.foxglove.dev", "https://app.foxglove.dev/view", "*"):
        with pytest.raises(ConfigError, match="origin: expected a site such as"):
            FoxgloveServer(scenario, port=0, origins=[wrong])


@pytest.mark.parametrize(
    ("data", "answer"),
    [
        (b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n", 426),  # a browser would use this connection for other pages
        (head("Host: localhost"), 400),
        (head("Origin: http://localhost", Origin="http://localhost"), 400),
        (head(" Origin: http://localhost"), 400),
        (head("Origin : https://elsewhere.example"), 400),
        (head("X: 1\nOrigin: https://elsewhere.example"), 400),
        (head().replace(b"GET /", b"GET http://elsewhere.example/"), 400),
        (head().replace(b"GET", b"POST"), 400),
        (b"\x16\x03\x01\x02\x00\x01\r\n\r\n", 400),
        (head("X: " + 17000 * "x"), 431),
        (200_000 * b"x", 431),
    ],
)
def test_what_is_no_plain_request_is_refused(server: FoxgloveServer, data: bytes, answer: int) -> None:
    assert status(server, data) == answer


def test_half_open_connections_are_closed(scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(foxglove, "HEAD_S", 0.3)
    monkeypatch.setattr(foxglove, "MOST_CONNECTIONS", 4)
    server = FoxgloveServer(scenario, port=0)
    callers = [socket.create_connection(("127.0.0.1", server.port), timeout=5) for _ in range(4)]
    try:
        callers[0].sendall(head()[:-2])
        time.sleep(0.1)
        assert answer_to(server, head()) == b""  # all connections are in use
        for caller in callers:
            assert caller.recv(1) == b""
        with Client(server.url) as client:
            assert client.info["name"] == "a wall"
        began = time.monotonic()
        waiting = socket.create_connection(("127.0.0.1", server.port))
    finally:
        server.close()
        for caller in callers:
            caller.close()
    assert time.monotonic() - began < 3.0
    waiting.close()
    again = FoxgloveServer(scenario, port=server.port)  # the port is free immediately
    again.close()


def test_garbage_is_not_logged(
    server: FoxgloveServer, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    """Neither requests that the relay refuses nor those that reach the SDK are logged, so a stranger cannot fill the
    log.
    """
    with caplog.at_level(logging.WARNING), Client(server.url) as client:
        for k in range(500):
            answer_to(server, b"garbage\r\n\r\n")
            client.socket.send("{not json")
            client.socket.send(b"\x09garbage")
            client.socket.send(f'{{"op": "subscribe", "subscriptions": [{{"id": {k}, "channelId": 99999}}]}}')
        for _ in range(50):
            answer_to(server, head(Sec_WebSocket_Protocol=None))
        time.sleep(0.2)
    out, err = capfd.readouterr()
    assert len(out.splitlines()) + len(err.splitlines()) + len(caplog.records) <= 3
    with Client(server.url) as client:
        assert client.info["name"] == "a wall"


def stream(*arguments: object) -> Result:
    return CliRunner().invoke(app, ["stream", *map(str, arguments)], prog_name="parhelion")


def test_the_command_prints_how_to_allow_the_web_app(tmp_path: Path) -> None:
    file = tmp_path / "wall.yaml"
    file.write_text(json.dumps({**FIELDS, "duration_s": 1.0}))
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]

    def visit() -> None:
        for _ in range(500):
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), timeout=5) as caller:
                for _ in range(2):
                    caller.sendall(head(Origin=WEB_APP))
                return
            time.sleep(0.02)

    visitor = threading.Thread(target=visit)
    visitor.start()
    result = stream(file, "--foxglove", port)
    visitor.join()
    assert result.exit_code == 0, result.output
    assert result.stderr.count("warning: the Foxglove web app was refused; to allow it, add --foxglove-origin") == 1
    wrong = stream(file, "--foxglove", port, "--foxglove-origin", "elsewhere")
    assert wrong.exit_code == 1
    assert "error: origin: expected a site such as https://app.foxglove.dev, got 'elsewhere'" in wrong.stderr
    assert stream(file, "--ros2", "--foxglove-origin", WEB_APP).exit_code == 2
