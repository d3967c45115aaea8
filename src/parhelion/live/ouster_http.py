"""The part of an Ouster's HTTP interface that tools ask before they listen to its packets: metadata and configuration.

Read-only: what the simulated sensor does is fixed by its scenario. Answers go to loopback unless told otherwise.
"""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any
from urllib.parse import urlsplit

from parhelion.core.errors import ConfigError
from parhelion.io.packets.ouster_metadata import describe
from parhelion.live.callers import REFUSED, may_ask
from parhelion.live.udp import LOOPBACK, checked_host

PREFIX = "/api/v1"
_MOST_BODY = 65536  # bytes of a request; a configuration has some hundreds
_PATIENCE_S = 10.0
_LONGEST_S = 60.0
"""A connection ends after this time, however much its other end has to say."""
_MOST_CONNECTIONS = 64


class OusterHttp:
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
        try:
            self._server = BoundedServer((host, port), handler)
        except OSError as error:
            raise ConfigError(
                f"Ouster HTTP: cannot listen on {host}:{port} ({error.strerror or error}); choose another port"
            ) from None
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name="ouster-http", daemon=True
        )
        self._thread.start()

    @property
    def url(self) -> str:
        """Address of the metadata."""
        return f"http://{self.host}:{self.port}{PREFIX}/sensor/metadata"

    def close(self) -> None:
        """Stop answering and free the port. A second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> OusterHttp:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class BoundedServer(ThreadingHTTPServer):
    """Answers a bounded number of clients at a time, each for a while."""

    daemon_threads = True
    # A port that is in use must be told, not shared.
    allow_reuse_address = False

    def __init__(self, *args: Any) -> None:
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Give a connection a thread of its own, if not too many have one."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer, for a while: who sends a byte now and then, or nothing, does not keep a thread."""
        end = threading.Timer(_LONGEST_S, _hang_up, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that goes away in the middle is its own affair."""


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it may be gone already
        connection.shutdown(socket.SHUT_RDWR)


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
