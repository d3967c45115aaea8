"""The part of an Ouster's HTTP interface that tools ask before they listen to its packets: metadata and configuration.

Read-only: what the simulated sensor does is fixed by its scenario. Answers go to loopback unless told otherwise.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from http.server import BaseHTTPRequestHandler
from typing import Any
from urllib.parse import urlsplit

from parhelion.core.errors import ConfigError
from parhelion.io.packets.ouster_metadata import describe
from parhelion.live.udp import LOOPBACK, checked_host
from parhelion.live.web import REFUSED, Served, may_ask

PREFIX = "/api/v1"
_MOST_BODY = 65536  # bytes of a request; a configuration has some hundreds
_PATIENCE_S = 10.0


class OusterHttp(Served):
    """Serves the metadata of one Ouster until closed.

        with OusterHttp(metadata(lidar), port=8080) as server:
            print(server.url)                 # http://127.0.0.1:8080/api/v1/sensor/metadata

    `port` 0 takes a free one. A real sensor answers on port 80, which most systems keep for the administrator. Hosts
    beyond loopback are refused unless `allow_remote` is set.
    """

    def __init__(
        self, document: Mapping[str, Any], host: str = LOOPBACK, port: int = 0, *, allow_remote: bool = False
    ) -> None:
        describe(document)
        host = checked_host(host, allow_remote)
        if not 0 <= port <= 65535:
            raise ConfigError(f"Ouster HTTP: a port is within 0 and 65535, got {port}")
        answers = _answers(json.loads(json.dumps(document)))
        handler = type("Handler", (_Handler,), {"answers": answers, "bound": host})
        super().__init__(host, port, handler, "Ouster HTTP", "another port")

    @property
    def url(self) -> str:
        """Address of the metadata."""
        return f"http://{self.host}:{self.port}{PREFIX}/sensor/metadata"


def _answers(document: dict[str, Any]) -> dict[str, Any]:
    """What each path answers."""
    config, info = document.get("config_params", {}), document.get("sensor_info", {})
    metadata = f"{PREFIX}/sensor/metadata"
    return {
        metadata: document,
        **{f"{metadata}/{section}": content for section, content in document.items()},
        f"{PREFIX}/sensor/config": config,
        **{f"{PREFIX}/sensor/config/{name}": value for name, value in config.items()},
        f"{PREFIX}/sensor/cmd/get_config_param": config,
        f"{PREFIX}/sensor/cmd/get_sensor_info": info,
        f"{PREFIX}/sensor/alerts": {"active": [], "log": [], "next_cursor": 0},
        f"{PREFIX}/user/data": "",
        f"{PREFIX}/system/firmware": {"fw": info.get("image_rev", "")},
    }


class _Handler(BaseHTTPRequestHandler):
    answers: Mapping[str, Any]
    bound: str
    timeout = _PATIENCE_S
    protocol_version = "HTTP/1.1"
    server_version = "parhelion"
    sys_version = ""

    def parse_request(self) -> bool:
        """Read the head of a request; pages of other sites are refused before anything is done."""
        if not super().parse_request():
            return False
        if may_ask(self.bound, self.headers.get("Host"), self.headers.get("Origin")):
            return True
        self.close_connection = True
        self._reply(403, {"error": REFUSED.strip()})
        return False

    def do_GET(self) -> None:
        path = self._path()
        if path in self.answers:
            self._reply(200, self.answers[path])
        else:
            self._reply(404, {"error": f"no such resource: {path}"})

    def do_POST(self) -> None:
        self._configure()

    def do_PUT(self) -> None:
        self._configure()

    def do_DELETE(self) -> None:
        self.close_connection = True
        self._reply(405, {"error": "the simulated sensor's configuration is fixed by its scenario"})

    def _configure(self) -> None:
        """Accept a configuration that asks for nothing new, so that tools which always send theirs go on."""
        path, active = self._path(), self.answers[f"{PREFIX}/sensor/config"]
        base = f"{PREFIX}/sensor/config"
        size = self.headers.get("Content-Length", "0")
        if not size.isdigit() or int(size) > _MOST_BODY:
            self.close_connection = True
            self._reply(413, {"error": f"a request holds at most {_MOST_BODY} bytes"})
            return
        body = self.rfile.read(int(size))
        if path != base and not path.startswith(f"{base}/"):
            self._reply(405, {"error": f"{path} cannot be written"})
            return
        try:
            wanted = json.loads(body) if body else {}
        except (ValueError, RecursionError):
            self._reply(400, {"error": "the request's body is not JSON"})
            return
        if path != base:
            wanted = {path.removeprefix(f"{base}/"): wanted}
        changed = _differences(wanted, active, self.client_address[0])
        if changed:
            names = ", ".join(changed)
            self._reply(
                400, {"error": f"the simulated sensor's configuration is fixed by its scenario; it differs in {names}"}
            )
        else:
            self._reply(200, active)

    def _path(self) -> str:
        # A query only says "active" or "staged", and these are the same here.
        return urlsplit(self.path).path.rstrip("/")

    def _reply(self, status: int, content: Any) -> None:
        data = json.dumps(content).encode()
        self.send_response(status)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(data)))
        self.end_headers()
        self.wfile.write(data)

    def log_message(self, format: str, *args: Any) -> None:
        """Requests are not told on the terminal."""


def _differences(wanted: Any, active: Mapping[str, Any], client: str) -> list[str]:
    """Names of the settings that are asked to be other than they are."""
    if not isinstance(wanted, Mapping):
        return ["the whole"]
    if wanted.get("udp_dest") == "@auto":  # to whoever asks
        wanted = {**wanted, "udp_dest": client}
    return [str(name) for name, value in wanted.items() if name not in active or active[name] != value][:8]
