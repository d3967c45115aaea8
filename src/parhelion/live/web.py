"""HTTP server for this machine in its own thread, with limits on clients and connection times."""

from __future__ import annotations

import ipaddress
import re
import socket
import threading
from collections.abc import Callable, Mapping
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from parhelion.core.errors import ConfigError

if TYPE_CHECKING:
    from typing_extensions import Self

_LONGEST_S = 60.0
"""Maximum duration of a connection [s]."""
_MOST_CONNECTIONS = 64


class BoundedServer(ThreadingHTTPServer):
    """Server with a bounded number of clients and a time limit per client."""

    daemon_threads = True
    # A port in use must raise an error instead of being shared.
    allow_reuse_address = False

    def __init__(self, *args: Any) -> None:
        self._places = threading.BoundedSemaphore(_MOST_CONNECTIONS)
        super().__init__(*args)

    def process_request(self, request: Any, client_address: Any) -> None:
        """Start a thread for a connection, unless too many exist."""
        if not self._places.acquire(blocking=False):
            self.shutdown_request(request)
            return
        super().process_request(request, client_address)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        """Answer within the time limit, so that slow or silent clients do not occupy a thread."""
        end = threading.Timer(_LONGEST_S, _hang_up, (request,))
        end.daemon = True
        end.start()
        try:
            super().process_request_thread(request, client_address)
        finally:
            end.cancel()
            self._places.release()

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignore clients that disconnect early."""


def _hang_up(connection: socket.socket) -> None:
    with suppress(OSError):  # it may already be closed
        connection.shutdown(socket.SHUT_RDWR)


class Served:
    """Server that runs until it is closed; `with` closes it."""

    def __init__(self, host: str, port: int, handler: type[BaseHTTPRequestHandler], who: str, instead: str) -> None:
        """Start the server. `port` 0 selects a free port; `who` and `instead` complete the message for a used port."""
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
        """Stop the server and free the port. A second call has no effect."""
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
        self._server.server_close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- callers --------------------------------------------------------------------------------------------------------
# Access control: programs and pages of this machine may connect, pages of other sites may not. A browser sends the
# requests of any open page to this machine, too. Two headers distinguish them: `Origin` names the site of the page, and
# `Host` the name that resolved to this machine, which may be the domain of an attacker.


REFUSED = "refused: this server accepts programs and pages of its own machine only\n"


def is_allowed_origin(bound: str, host: str | None, origin: str | None) -> bool:
    """Return True if a server bound to the address `bound` may answer a request with these headers.

    On loopback both headers must name this machine. A server opened to other machines accepts any host name, and pages
    of that name.
    """
    asked = _name(f"//{host}") if host else None
    page = _name(origin) if origin else None
    if origin is not None and page is None:  # 'null': a page from a file, or a page that hides its origin
        return False
    if is_loopback(bound):
        return (host is None or is_loopback(asked)) and (page is None or is_loopback(page))
    return page is None or page == asked


def of_an_app(origin: str) -> bool:
    """Return True for the origin of a desktop program with built-in pages.

    Such pages are files (`file://`) or have a custom scheme such as `app://`. Web pages have http or https, or hide
    their origin ('null').
    """
    scheme, there, _ = origin.partition("://")
    return bool(there) and _SCHEME.fullmatch(scheme) is not None and scheme.lower() not in _OF_THE_WEB


_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*")
_OF_THE_WEB = ("http", "https", "ws", "wss", "ftp")


def checked_origin(text: str) -> str:
    """An origin as browsers send it, such as https://app.foxglove.dev, or 'null'."""
    origin = text.strip().lower().removesuffix("/")
    if origin != "null" and re.fullmatch(r"[a-z][a-z0-9+.-]*://[^\s/?#@\\]*", origin) is None:
        raise ConfigError(f"origin: expected a site such as https://app.foxglove.dev, got {text!r}")
    return origin


def _name(address: str) -> str | None:
    """Lower-case host name of an address; None if there is none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def is_loopback(name: str | None) -> bool:
    """Return True if a host is loopback, so that only this machine can reach a server bound to it."""
    if name is None:
        return False
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.rstrip(".") == "localhost"


class LocalHandler(BaseHTTPRequestHandler):
    """Handler for requests of this machine; pages of other sites are rejected first."""

    bound = "127.0.0.1"
    """Bound address of the server."""
    protocol_version = "HTTP/1.1"
    server_version = "parhelion"
    sys_version = ""
    always: Mapping[str, str] = {}
    """Headers of every answer."""

    def parse_request(self) -> bool:
        """Read the header of a request and check its origin."""
        if not super().parse_request():
            return False
        if is_allowed_origin(self.bound, self.headers.get("Host"), self.headers.get("Origin")):
            return True
        self.close_connection = True
        self.refuse()
        return False

    def refuse(self) -> None:
        """Reject a page of another site."""
        self.reply(403, REFUSED.encode("utf-8"), "text/plain; charset=utf-8")

    def reply(self, status: int, content: bytes, kind: str, **more: str) -> None:
        """Answer with content of a MIME type; `more` are further headers."""
        self.send_response(status)
        self.send_header("Content-Type", kind)
        self.send_header("Content-Length", str(len(content)))
        for name, value in {**self.always, **more}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Do not log requests."""


# ---- page -----------------------------------------------------------------------------------------------------------
# Page that shows work in progress: one document, regenerated after each event.


LOOPBACK = "127.0.0.1"
REFRESH_S = 1
"""Refresh interval of browsers during the work [s]."""
_PATIENCE_S = 20.0


class LivePage(Served):
    """Page served to this machine until closed.

        with LivePage() as page:
            page.show(lambda: "<!doctype html>...")     # drawn on request of a browser
            page.show(lambda: "...", final=True)        # the last one: browsers stop refreshing

    The page is self-contained and runs no script; browsers reload it because of the header `Refresh`.
    """

    def __init__(self, port: int = 0) -> None:
        """Start the server; `port` 0 selects a free port."""
        if not 0 <= port <= 65535:
            raise ConfigError(f"port: must be from 0 to 65535, got {port}")
        self._lock = threading.Lock()
        """Lock held while a document is drawn: one request draws it, others wait. `show` never waits."""
        self._shown: tuple[Callable[[], str], bool] | None = None
        self._drawn: tuple[Callable[[], str], bytes] | None = None
        handler = type("Handler", (_Handler,), {"shown": self})
        super().__init__(LOOPBACK, port, handler, "port", "another with --port")

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{LOOPBACK}:{self.port}/"

    def show(self, render: Callable[[], str], *, final: bool = False) -> None:
        """Replace the document; it is drawn once, on the first request."""
        self._shown = render, final

    def document(self) -> tuple[bytes, bool]:
        """Current page, and True if it is the last."""
        with self._lock:
            if self._shown is None:
                return b"<!doctype html><title>Parhelion</title><p>Nothing to show yet.</p>", False
            render, final = self._shown
            if self._drawn is None or self._drawn[0] is not render:
                self._drawn = render, render().encode("utf-8")
            return self._drawn[1], final

    def wait(self) -> None:
        """Serve until interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.2)


class _Handler(LocalHandler):
    shown: LivePage
    timeout = _PATIENCE_S
    always: Mapping[str, str] = {"Cache-Control": "no-store", "X-Frame-Options": "DENY"}

    def do_GET(self) -> None:
        if self.path.split("?")[0] != "/":
            self.reply(404, b"the only page is /\n", "text/plain; charset=utf-8")
            return
        content, final = self.shown.document()
        again = {} if final else {"Refresh": str(REFRESH_S)}
        self.reply(200, content, "text/html; charset=utf-8", **again)
