"""HTTP for this machine: a server that no client can keep busy, in a thread of its own."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import TYPE_CHECKING, Any

from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

_LONGEST_S = 60.0
"""A connection ends after this time, however much its other end has to say."""
_MOST_CONNECTIONS = 64


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


class Served:
    """A server that answers until it is closed; `with` closes it."""

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler], who: str, instead: str) -> None:
        """`port` 0 takes a free one; `who` and `instead` are for the sentence that tells of a port in use."""
        try:
            self._server = BoundedServer((host, port), handler)
        except OSError as error:
            why = error.strerror or error
            raise ConfigError(f"{who}: cannot listen on {host}:{port} ({why}); choose {instead}") from None
        self.host, self.port = host, int(self._server.server_address[1])
        self._thread = threading.Thread(
            target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, name=who, daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """Stop answering and free the port. A second call does nothing."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
