"""A page on this machine that shows work in progress: one document, made anew when something has happened."""

from __future__ import annotations

import threading
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler

from parhelion.core.errors import ConfigError
from parhelion.live.callers import REFUSED, may_ask
from parhelion.live.web import Served

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


class _Handler(BaseHTTPRequestHandler):
    shown: LivePage
    timeout = _PATIENCE_S
    protocol_version = "HTTP/1.1"
    server_version = "parhelion"
    sys_version = ""

    def parse_request(self) -> bool:
        """Read the head of a request; pages of other sites are refused before anything is done."""
        if not super().parse_request():
            return False
        if may_ask(LOOPBACK, self.headers.get("Host"), self.headers.get("Origin")):
            return True
        self.close_connection = True
        self._reply(403, REFUSED.encode("utf-8"), "text/plain")
        return False

    def do_GET(self) -> None:
        if self.path.split("?")[0] != "/":
            self._reply(404, b"there is one page here: /\n", "text/plain")
            return
        content, final = self.shown.document()
        self._reply(200, content, "text/html", None if final else REFRESH_S)

    def _reply(self, status: int, content: bytes, kind: str, refresh_s: int | None = None) -> None:
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(content)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Frame-Options", "DENY")
        if refresh_s is not None:
            self.send_header("Refresh", str(refresh_s))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, format: str, *args: object) -> None:
        """Requests are nobody's news."""
