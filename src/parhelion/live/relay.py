"""A gate before a WebSocket server that lets no one look at a request first: it checks who asks, then passes bytes on.

Only upgrades to WebSocket pass: a browser might send a later request of another page over any other connection.
"""

from __future__ import annotations

import asyncio
import errno
import socket
import threading
from collections.abc import Callable
from contextlib import suppress
from http import HTTPStatus

from parhelion.core.errors import ConfigError
from parhelion.live.callers import REFUSED

MOST_CONNECTIONS = 64
"""At a time; those beyond are closed at once."""
HEAD_BYTES = 16384
"""Longest head of a request."""
HEAD_S = 5.0
"""A caller has to send the whole head within this time."""
_LINGER_S = 1.0
"""How long a connection stays after one side has ended, for what the other still has to say."""
_LINGER_BYTES = 1 << 20
_TO_CLIENT, _TO_SERVER = 1 << 20, 1 << 16
"""Bytes passed on at a time. No more is read than was sent on: a slow reader slows the server, as without a relay."""

Allow = Callable[[str | None, str | None], bool]
"""Whether a request with this Host and this Origin may pass."""


def listen(host: str, port: int) -> socket.socket:
    """A socket that others can connect to already; raises where the address cannot be had."""
    listener = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
    try:
        # As servers do, so that a port can be had again at once; on Windows this would share it.
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
                f"port: {port} on {host} is in use already; choose another one, or end what uses it"
            ) from None
        raise ConfigError(f"cannot listen on {host}:{port} ({error.strerror or error})") from None
    listener.setblocking(False)
    return listener


class Relay:
    """Passes the connections of a listening socket on to a server at another address, in a thread of its own."""

    def __init__(self, listener: socket.socket, inner: tuple[str, int], allow: Allow) -> None:
        self.refused = 0
        """Requests that were not let through."""
        self._listener, self._inner, self._allow = listener, inner, allow
        self._tasks: set[asyncio.Task[None]] = set()
        self._loop = asyncio.new_event_loop()
        self._stop = asyncio.Event()
        self._thread = threading.Thread(target=self._run, name="parhelion-relay", daemon=True)
        self._thread.start()

    def close(self, seconds: float = _LINGER_S) -> None:
        """Take no one in any more, and end: connections whose server is gone have `seconds` for their last bytes."""
        if self._thread.is_alive():
            self._patience_s = seconds
            with suppress(RuntimeError):  # it may have ended meanwhile
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
            except OSError:  # no more files may be open, or the caller is gone already
                await asyncio.sleep(0.05)
                continue
            if len(self._tasks) >= MOST_CONNECTIONS:
                client.close()
                continue
            task = self._loop.create_task(self._answer(client))
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)

    async def _answer(self, client: socket.socket) -> None:
        """Let one caller through, or tell it why not."""
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
        """What a caller sends until its head is complete or too long; None where it leaves before."""
        start = b""
        while b"\r\n\r\n" not in start and len(start) <= HEAD_BYTES:
            more = await self._loop.sock_recv(client, HEAD_BYTES)
            if not more:
                return None
            start += more
        return start

    def _judge(self, start: bytes) -> HTTPStatus | None:
        """Why a request must not pass, or None."""
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
        # Closed with something unread, the connection would be reset, and the answer lost.
        left = _LINGER_BYTES
        while left > 0 and (got := await self._loop.sock_recv(client, 65536)):
            left -= len(got)

    async def _pass_on(self, client: socket.socket, server: socket.socket) -> None:
        """Bytes both ways until both sides have ended, or one has and the other is silent."""
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
                await asyncio.sleep(0)  # reading and sending do not give way by themselves while there is more
        with suppress(OSError):
            sink.shutdown(socket.SHUT_WR)


def read_head(head: bytes) -> dict[str, str] | None:
    """Fields of a request's head by name, in small letters; None where it is not exactly as it should be.

    What could be understood in two ways, here in one and by the server in the other, is no request.
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
