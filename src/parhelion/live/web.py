"""HTTP for this machine: a server that no client can keep busy, in a thread of its own."""

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

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- callers --------------------------------------------------------------------------------------------------------
# Who may ask a server on this machine: programs here and pages from here, but no page of another site.
# A browser sends the requests of any page that its user looks at to this machine, too. Two headers tell them apart:
# `Origin` names the site of the page, and `Host` the name that led here, which an attacker's domain may be made to do.


REFUSED = "refused: this server answers programs and pages of its own machine\n"


def is_allowed_origin(bound: str, host: str | None, origin: str | None) -> bool:
    """Whether a request with these headers may be answered by a server that is bound to the address `bound`.

    On loopback both must be names of this machine. A server that was opened to others is asked by whatever name leads
    to it, by pages of that name.
    """
    asked = _name(f"//{host}") if host else None
    page = _name(origin) if origin else None
    if origin is not None and page is None:  # 'null': a page from a file, or one that hides where it is from
        return False
    if is_loopback(bound):
        return (host is None or is_loopback(asked)) and (page is None or is_loopback(page))
    return page is None or page == asked


def of_an_app(origin: str) -> bool:
    """Whether an origin is of a program that is built like a browser, with pages of its own.

    Such pages are files (`file://`) or have a scheme that the program made up, as `app://`. A page of the web is of
    http or https, or hides where it is from ('null').
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
    """The host that an address names, in small letters; None if it names none."""
    try:
        return urlsplit(address).hostname
    except ValueError:
        return None


def is_loopback(name: str | None) -> bool:
    """Whether a host is this machine, so that only this machine can reach a server that binds to it."""
    if name is None:
        return False
    try:
        return ipaddress.ip_address(name).is_loopback
    except ValueError:
        return name.rstrip(".") == "localhost"


class LocalHandler(BaseHTTPRequestHandler):
    """Answers requests of this machine; pages of other sites are refused before anything is done."""

    bound = "127.0.0.1"
    """Address that the server is bound to."""
    protocol_version = "HTTP/1.1"
    server_version = "parhelion"
    sys_version = ""
    always: Mapping[str, str] = {}
    """Headers of every answer."""

    def parse_request(self) -> bool:
        """Read the head of a request and check who asks."""
        if not super().parse_request():
            return False
        if is_allowed_origin(self.bound, self.headers.get("Host"), self.headers.get("Origin")):
            return True
        self.close_connection = True
        self.refuse()
        return False

    def refuse(self) -> None:
        """Answer a page of another site."""
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
        """Requests are not logged."""


# ---- page -----------------------------------------------------------------------------------------------------------
# A page on this machine that shows work in progress: one document, made anew when something has happened.


LOOPBACK = "127.0.0.1"
REFRESH_S = 1
"""Seconds after which browsers look again, while the work goes on."""
_PATIENCE_S = 20.0


class LivePage(Served):
    """Serves a page to this machine until closed.

        with LivePage() as page:
            page.show(lambda: "<!doctype html>...")     # drawn when a browser asks for it
            page.show(lambda: "...", final=True)        # the last one: browsers look no more

    The page holds everything itself and runs no script; browsers fetch it again by the header `Refresh`.
    """

    def __init__(self, port: int = 0) -> None:
        """`port` 0 takes a free one."""
        if not 0 <= port <= 65535:
            raise ConfigError(f"port: must be from 0 to 65535, got {port}")
        self._lock = threading.Lock()
        """Held while a document is drawn: one browser draws it, others wait. Those who show never wait."""
        self._shown: tuple[Callable[[], str], bool] | None = None
        self._drawn: tuple[Callable[[], str], bytes] | None = None
        handler = type("Handler", (_Handler,), {"shown": self})
        super().__init__(LOOPBACK, port, handler, "port", "another with --port")

    @property
    def url(self) -> str:
        """Address of the page."""
        return f"http://{LOOPBACK}:{self.port}/"

    def show(self, render: Callable[[], str], *, final: bool = False) -> None:
        """Put another document in place of the last; it is drawn once, when it is first asked for."""
        self._shown = render, final

    def document(self) -> tuple[bytes, bool]:
        """The page as it is now, and whether it is the last."""
        with self._lock:
            if self._shown is None:
                return b"<!doctype html><title>Parhelion</title><p>Nothing to show yet.</p>", False
            render, final = self._shown
            if self._drawn is None or self._drawn[0] is not render:
                self._drawn = render, render().encode("utf-8")
            return self._drawn[1], final

    def wait(self) -> None:
        """Go on serving until interrupted."""
        while self._thread.is_alive():
            self._thread.join(0.2)


class _Handler(LocalHandler):
    shown: LivePage
    timeout = _PATIENCE_S
    always: Mapping[str, str] = {"Cache-Control": "no-store", "X-Frame-Options": "DENY"}

    def do_GET(self) -> None:
        if self.path.split("?")[0] != "/":
            self.reply(404, b"there is one page here: /\n", "text/plain; charset=utf-8")
            return
        content, final = self.shown.document()
        again = {} if final else {"Refresh": str(REFRESH_S)}
        self.reply(200, content, "text/html; charset=utf-8", **again)
