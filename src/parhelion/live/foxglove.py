"""Live scenario in Foxglove: a WebSocket server on this machine that the app connects to.

    server = FoxgloveServer(scenario)           # in the app: Open connection, ws://127.0.0.1:8765
    for step in scenario:
        server.take(step)
    server.close()

Clients may connect and disconnect at any time; late clients receive the scene, too. The SDK's server accepts pages of
any site, so it is hidden behind a relay that checks the origin of each request.
"""

from __future__ import annotations

import asyncio
import errno
import logging
import secrets
import socket
import threading
import time as wall
from collections.abc import Callable, Sequence
from contextlib import suppress
from http import HTTPStatus
from typing import Any

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError
from parhelion.core.image import Image
from parhelion.live.udp import checked_host
from parhelion.live.web import REFUSED, checked_origin, is_allowed_origin, of_an_app
from parhelion.makers import LOOPBACK
from parhelion.outputs.foxglove.feed import CLOCK, LATCHED, FoxgloveFeed
from parhelion.outputs.foxglove.messages import Channels, FoxgloveMessage, need_foxglove
from parhelion.scenario.scenario import Scenario, Step
from parhelion.scenario.schema import FoxgloveOutput

# ---- relay ----------------------------------------------------------------------------------------------------------
# A relay in front of a WebSocket server without request filters: it checks the origin, then forwards bytes. Only
# WebSocket upgrades pass: a browser might send a later request of another page over any other connection.


MOST_CONNECTIONS = 64
"""Maximum number of simultaneous connections; further ones are closed at once."""
HEAD_BYTES = 16384
"""Maximum length of a request header [bytes]."""
HEAD_S = 5.0
"""Time [s] within which a client must send the complete header."""
_LINGER_S = 1.0
"""Time [s] for which a half-closed connection stays open for remaining data."""
_LINGER_BYTES = 1 << 20
_TO_CLIENT, _TO_SERVER = 1 << 20, 1 << 16
"""Bytes forwarded at a time. Reading waits for sending, so a slow client slows the server as without a relay."""

Allow = Callable[[str | None, str | None], bool]
"""Function of Host and Origin; returns True if the request may pass."""


def listen(host: str, port: int) -> socket.socket:
    """Listening socket; raises if the address is not available."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # Allows immediate reuse of the port; on Windows this option would share it.
        if hasattr(socket, "SO_EXCLUSIVEADDRUSE"):
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_EXCLUSIVEADDRUSE, 1)
        else:
            listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listener.bind((host, port))
        listener.listen(MOST_CONNECTIONS)
    except OSError as error:
        listener.close()
        if error.errno == errno.EADDRINUSE:
            raise ConfigError(
                f"port: {port} on {host} is already in use; choose another one, or stop the program that uses it"
            ) from None
        raise ConfigError(f"cannot listen on {host}:{port} ({error.strerror or error})") from None
    listener.setblocking(False)
    return listener


class Relay:
    """Thread that forwards the connections of a listening socket to a server at another address."""

    def __init__(self, listener: socket.socket, inner: tuple[str, int], allow: Allow) -> None:
        self.refused = 0
        """Rejected requests."""
        self._listener, self._inner, self._allow = listener, inner, allow
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="parhelion-relay", daemon=True)
        self._thread.start()

    def close(self, seconds: float = _LINGER_S) -> None:
        """Stop accepting and close; connections whose server is gone have `seconds` for their last bytes."""
        if self._thread.is_alive():
            self._patience_s = seconds
            with suppress(RuntimeError):  # it may have ended in the meantime
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    _patience_s = _LINGER_S

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._serve())
        finally:
            self._listener.close()
            self._loop.close()

    async def _serve(self) -> None:
        door = asyncio.ensure_future(self._accept())
        await self._stop.wait()
        door.cancel()
        self._listener.close()
        if self._tasks:
            await asyncio.wait(self._tasks, timeout=self._patience_s)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(door, *self._tasks, return_exceptions=True)

    async def _accept(self) -> None:
        while True:
            try:
                client, _ = await self._loop.sock_accept(self._listener)
            except OSError:  # too many open files, or the client disconnected
                await asyncio.sleep(0.05)
                continue
            if len(self._tasks) >= MOST_CONNECTIONS:
                client.close()
                continue
            task = self._loop.create_task(self._answer(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, client: socket.socket) -> None:
        """Forward one client, or answer with the reason for the rejection."""
        with client, suppress(OSError, asyncio.TimeoutError):
            client.setblocking(False)
            start = await asyncio.wait_for(self._head(client), HEAD_S)
            if start is None:
                return
            status = self._judge(start)
            if status is not None:
                self.refused += 1
                await asyncio.wait_for(self._refuse(client, status), _LINGER_S)
                return
            with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as server:
                server.setblocking(False)
                for one in (client, server):
                    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    one.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
                await asyncio.wait_for(self._loop.sock_connect(server, self._inner), HEAD_S)
                await self._loop.sock_sendall(server, start)
                await self._pass_on(client, server)

    async def _head(self, client: socket.socket) -> bytes | None:
        """Header bytes of a client, until complete or too long; None if it disconnects before."""
        start = b""
        while b"\r\n\r\n" not in start and len(start) <= HEAD_BYTES:
            more = await self._loop.sock_recv(client, HEAD_BYTES)
            if not more:
                return None
            start += more
        return start

    def _judge(self, start: bytes) -> HTTPStatus | None:
        """Reason to reject a request, or None."""
        head, complete, _ = start.partition(b"\r\n\r\n")
        if not complete or len(head) > HEAD_BYTES:
            return HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE
        fields = read_head(head)
        if fields is None:
            return HTTPStatus.BAD_REQUEST
        if not self._allow(fields.get("host"), fields.get("origin")):
            return HTTPStatus.FORBIDDEN
        if fields.get("upgrade", "").strip().lower() != "websocket":
            return HTTPStatus.UPGRADE_REQUIRED
        return None

    async def _refuse(self, client: socket.socket, status: HTTPStatus) -> None:
        text = REFUSED if status == HTTPStatus.FORBIDDEN else f"{status.phrase.lower()}\n"
        upgrade = "Upgrade: websocket\r\n" if status == HTTPStatus.UPGRADE_REQUIRED else ""
        answer = (
            f"HTTP/1.1 {status.value} {status.phrase}\r\n{upgrade}Content-Type: text/plain; charset=utf-8\r\n"
            f"Content-Length: {len(text)}\r\nConnection: close\r\n\r\n{text}"
        )
        await self._loop.sock_sendall(client, answer.encode())
        client.shutdown(socket.SHUT_WR)
        # Closing with unread data would reset the connection and lose the answer.
        left = _LINGER_BYTES
        while left > 0 and (got := await self._loop.sock_recv(client, 65536)):
            left -= len(got)

    async def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        """Forward bytes in both directions until both sides end, or one ends and the other is silent."""
        ways = {
            self._loop.create_task(self._pipe(server, client, _TO_CLIENT)),
            self._loop.create_task(self._pipe(client, server, _TO_SERVER)),
        }
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
            await asyncio.wait(ways, timeout=_LINGER_S)
        finally:
            for way in ways:
                way.cancel()
            await asyncio.gather(*ways, return_exceptions=True)

    async def _pipe(self, source: socket.socket, sink: socket.socket, size: int) -> None:
        room = memoryview(bytearray(size))
        with suppress(OSError):
            while count := await self._loop.sock_recv_into(source, room):
                await self._loop.sock_sendall(sink, room[:count])
                await asyncio.sleep(0)  # reading and sending do not yield to other tasks while data is available
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def read_head(head: bytes) -> dict[str, str] | None:
    """Header fields of a request by lower-case name; None for a malformed header.

    Ambiguous headers, which the relay and the server could interpret differently, are rejected.
    """
    try:
        first, *lines = head.decode("latin-1").split("\r\n")
        method, target, version = first.split(" ")
    except ValueError:
        return None
    if method != "GET" or version != "HTTP/1.1" or not target.startswith("/"):
        return None
    fields: dict[str, str] = {}
    for line in lines:
        name, colon, value = line.partition(":")
        plain = name.replace("-", "").replace("_", "")
        if not (colon and plain.isascii() and plain.isalnum()) or any(sign in line for sign in "\r\n\0"):
            return None
        name = name.lower()
        if name in fields and name in ("host", "origin", "upgrade"):
            return None
        fields[name] = value.strip(" \t")
    return fields


# ---- foxglove -------------------------------------------------------------------------------------------------------


PORT = 8765
WEB_APP = "https://app.foxglove.dev"
"""Origin of the Foxglove web app, which is accepted only on request."""
BATCH_S = 0.1
"""Simulated time [s] per batch of messages."""
_QUEUE_BYTES = 256 << 20
_FEWEST, _MOST = 64, 1024
_GRACE_S = 0.3
_POINT_BYTES = 64
"""Approximate size of a point with all fields [bytes]."""
_PIXEL_BYTES = 4
"""Approximate size of a pixel [bytes]: compressed colour or raw depth."""


class FoxgloveServer:
    """Server of the messages of a scenario for Foxglove.

    A slow client loses its oldest waiting messages and blocks no one. The time of a scenario that restarts
    continues.
    """

    def __init__(
        self,
        scenario: Scenario,
        host: str = LOOPBACK,
        port: int = PORT,
        *,
        allow_remote: bool = False,
        origins: Sequence[str] = (),
        batch_s: float = BATCH_S,
    ) -> None:
        """Start the server. `port` 0 selects a free port; remote addresses require `allow_remote`.

        Programs and pages of this machine may connect, and pages of the sites listed in `origins`.
        """
        self.host = checked_host(host, allow_remote)
        self._origins = frozenset(checked_origin(origin) for origin in origins)
        self.missed_web_app = False
        """True if the Foxglove web app was rejected."""
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
            raise ConfigError(f"port: must be an integer from 0 to 65535, got {port!r}")
        foxglove = need_foxglove()
        # As in the recording of the scenario, otherwise a fast compression.
        asked = [entry.images for entry in scenario.settings.outputs if isinstance(entry, FoxgloveOutput)]
        self._feed = FoxgloveFeed(scenario, images=asked[0] if asked else "jpeg", batch_s=batch_s)
        self._stepwise = False
        self._latched = {message.topic: message for message in self._feed.first()}
        listener = listen(self.host, port)
        # Channels release their sinks with the context, so it is stored.
        self._context = foxglove.Context()
        # Channels exist before anyone can connect: a client sees all topics at once.
        self._channels = Channels(self._context, self._feed.topics)
        try:
            self._server, inner = _start(
                name=scenario.settings.name or "parhelion",
                capabilities=[foxglove.Capability.Time],
                server_listener=_listener(self),
                context=self._context,
                message_backlog_size=_backlog(scenario),
            )
        except BaseException:
            listener.close()
            self._channels.close()
            raise
        self.port = int(listener.getsockname()[1])
        """Port for clients."""
        self._relay = Relay(listener, inner, self._may_ask)

    def _may_ask(self, host: str | None, origin: str | None) -> bool:
        """Return True if a request with these headers is accepted; on loopback its Host must be this machine."""
        known = origin is not None and (origin.lower() in self._origins or of_an_app(origin))
        if is_allowed_origin(self.host, host, None if known else origin):
            return True
        self.missed_web_app |= origin == WEB_APP
        return False

    @property
    def url(self) -> str:
        """URL for 'Open connection' in Foxglove."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ws://{host}:{self.port}"

    # ---- sending -------------------------------------------------------------------------------------------------

    def take(self, step: Step | FoxgloveMessage) -> None:
        """Send the data of a step, or one message created by `prepare`."""
        if isinstance(step, FoxgloveMessage):
            self._send(step)
            return
        self._stepwise = True
        for _, message in self.prepare(step):
            self._send(message)

    def prepare(self, step: Step) -> list[tuple[float, FoxgloveMessage]]:
        """Messages completed by a step, with their send times [s]."""
        return self._feed.timed(step)

    def rest(self) -> list[tuple[float, FoxgloveMessage]]:
        """Remaining messages after the last step."""
        return self._feed.timed_rest()

    def close(self) -> None:
        """Send remaining messages and disconnect clients. Closing twice is allowed."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._stepwise:
            for message in self._feed.last():
                self._log(server, message)
        if self._channels.heard:
            wall.sleep(_GRACE_S)  # the SDK drops waiting messages when it stops, without a report
        self._channels.close()
        server.stop()
        self._relay.close()

    def _send(self, message: FoxgloveMessage) -> None:
        server = self._server
        if server is None:
            raise ConfigError(f"{self.url}: the server is already closed")
        self._log(server, message)

    def _log(self, server: Any, message: FoxgloveMessage) -> None:
        if message.topic == CLOCK:
            server.broadcast_time(message.time_ns)
        self._channels.log(message)

    def repeat_latched(self, topic: str) -> None:
        """Repeat the latched messages of a topic for a new subscriber; other subscribers receive them again."""
        message = self._latched.get(topic)
        if message is not None:
            self._channels.log(message)


def _listener(server: FoxgloveServer) -> Any:
    """Listener for new subscriptions."""
    from foxglove.websocket import ServerListener

    class Listener(ServerListener):  # type: ignore[misc]  # the package is optional, so its types are unknown
        def on_subscribe(self, client: Any, channel: Any) -> None:
            if channel.topic in LATCHED:
                server.repeat_latched(channel.topic)

    return Listener()


def _backlog(scenario: Scenario) -> int:
    """Maximum number of waiting messages per slow client, which bounds the memory."""
    sizes = [len(scanner.sensor.shots(0.0)) * _POINT_BYTES for scanner in scenario.giving(Scan)]
    for camera in scenario.giving(Image):
        lens = getattr(camera.sensor, "intrinsics", None)
        sizes.append(lens.width * lens.height * _PIXEL_BYTES if lens is not None else 0)
    largest = max((1, *sizes))
    return min(max(_QUEUE_BYTES // largest, _FEWEST), _MOST)


def _start(**options: Any) -> tuple[Any, tuple[str, int]]:
    """Server of the SDK and its address, which no page can guess: the port and, if possible, the host are random."""
    foxglove = need_foxglove()
    # It logs every unreadable message, so any client could flood the log.
    log = logging.getLogger("foxglove.websocket")
    if log.level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)
    reason = ""
    # Linux and Windows have 16 million loopback addresses, other systems have one.
    for host in (".".join(("127", *(str(1 + secrets.randbelow(254)) for _ in range(3)))), LOOPBACK):
        try:
            server = foxglove.start_server(host=host, port=0, **options)
        except RuntimeError as error:
            reason = str(error).rpartition("Failed to bind port:")[2].strip()
        else:
            return server, (host, int(server.port))
    raise ConfigError(f"Foxglove cannot be served ({reason})")
