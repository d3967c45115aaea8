"""`parhelion view` with wrong input: one sentence per error, before any page is served."""

from __future__ import annotations

import socket
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

import parhelion as ph
from parhelion.cli.app import app


def view(*arguments: object) -> Any:
    return CliRunner().invoke(app, ["view", *map(str, arguments)], prog_name="parhelion")


def the_error(*arguments: object) -> str:
    result = view(*arguments)
    assert result.exit_code == 1, result.output
    assert "Traceback" not in result.output
    lines = [line for line in result.stderr.splitlines() if line.startswith("error:")]
    assert len(lines) == 1, result.stderr
    return str(lines[0])


@pytest.fixture
def cloud(tmp_path: Path) -> Path:
    file = tmp_path / "scan.pcd"
    ph.PointCloud(np.eye(3), {"intensity": np.arange(3.0)}).save(file)
    return file


def test_a_port_in_use_is_one_sentence(cloud: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen(1)
        port = taken.getsockname()[1]
        assert f"127.0.0.1:{port}: Address already in use" in the_error(cloud, "--port", port)


def test_files_that_are_not_there_or_no_clouds(tmp_path: Path) -> None:
    assert "none.pcd" in the_error(tmp_path / "none.pcd", "--port", 0)
    assert "none.yaml" in the_error(tmp_path / "none.yaml", "--port", 0)
    (tmp_path / "cut.pcd").write_bytes(b"VERSION 0.7\nFIELDS x y z\n")
    assert "cut.pcd" in the_error(tmp_path / "cut.pcd", "--port", 0)


def test_unknown_names(cloud: Path) -> None:
    assert "did you mean 'city'" in the_error("--world", "citi", "--port", 0)
    assert "did you mean 'velodyne/vlp-16'" in the_error(
        "--world", "cuboids", "--sensor", "velodyne/vlp16", "--port", 0
    )
    assert "did you mean 'intensity'" in the_error(cloud, "--colour", "intensty", "--port", 0)


def test_options_that_do_not_go_together(cloud: Path) -> None:
    for options in (("--world", "city"), ("--pose", "0,0,2"), ("--seed", "3"), (str(cloud), str(cloud))):
        result = view(cloud, *options, "--port", 0)
        assert result.exit_code == 2, result.output
    assert "needs the model of the lidar: give it with --sensor" in the_error(cloud, "--rain", 5, "--port", 0)


def test_other_hosts_are_warned_of(cloud: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("parhelion.live.web.is_loopback", lambda host: False)
    result = view(tmp_path / "none.pcd", "--host", "127.0.0.1", "--port", 0)
    assert "warning: --host 127.0.0.1: everyone who can reach this machine" in result.stderr


WEBSOCKET = {
    "Upgrade": "websocket",
    "Connection": "Upgrade",
    "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
    "Sec-WebSocket-Version": "13",
}
OWN_PAGE = {**WEBSOCKET, "Host": "localhost"}
STRANGERS = (
    {**WEBSOCKET, "Host": "127.0.0.1", "Origin": "https://elsewhere.example"},
    {**WEBSOCKET, "Host": "elsewhere.example"},
    {"Host": "elsewhere.example:8080"},
    {"Host": "127.0.0.1", "Origin": "null"},
)


def first_line(port: int, headers: dict[str, str]) -> str:
    """First line of the answer to a request with these headers."""
    with socket.create_connection(("127.0.0.1", port), timeout=5) as line:
        head = "".join(f"{name}: {value}\r\n" for name, value in headers.items())
        line.sendall(f"GET / HTTP/1.1\r\n{head}\r\n".encode())
        return line.recv(64).decode("latin-1").splitlines()[0]


def test_a_cloud_is_served_until_it_is_stopped(cloud: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from parhelion.live.viewer import Viewer

    seen: list[str] = []

    def look(viewer: Viewer, *_: Any) -> None:
        with socket.create_connection((viewer.host, viewer.port), timeout=5) as line:
            line.sendall(b"GET / HTTP/1.1\r\nHost: 127.0.0.1\r\nConnection: close\r\n\r\n")
            seen.append(line.recv(64).decode("latin-1"))
        for headers in STRANGERS:
            seen.append(first_line(viewer.port, headers))
        seen.append(first_line(viewer.port, {**OWN_PAGE, "Origin": f"http://localhost:{viewer.port}"}))
        time.sleep(0.5)  # viser reports in a separate thread that a page has another version
        raise KeyboardInterrupt

    monkeypatch.setattr(Viewer, "run", look)
    result = view(cloud, "--port", 0)
    assert result.exit_code == 130, result.output
    assert result.stdout.splitlines()[0].startswith("scan.pcd: open http://127.0.0.1:")
    assert result.stdout.splitlines()[-1] == "closed"
    assert "viser" not in result.stdout
    assert seen[0].startswith("HTTP/1.1 200")
    assert [line.split()[1] for line in seen[1:-1]] == ["403"] * len(STRANGERS)
    assert seen[-1].startswith("HTTP/1.1 101")
