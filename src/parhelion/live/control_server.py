"""Control of a scenario over WebSocket: verbs as JSON, records as binary messages.

    control = Control(scenario)
    with ControlServer(control) as server:      # ws://127.0.0.1:8917, subprotocol parhelion.v1
        control.run()

| message | meaning |
| --- | --- |
| `{"id": 7, "op": "spawn", ...}` | a verb of `parhelion.scenario.verbs`, or `hello`, `subscribe`, `unsubscribe` |
| `{"id": 7, "ok": true, ...}` | its result |
| `{"id": 7, "ok": false, "error": {"code", "message"}}` | its refusal |
| binary | a record (`parhelion.io.wire`): the reply to `latest` with `id`, or of a subscription with `skipped` |

The server runs in its own thread and never touches the scenario: it submits verbs and sends replies.
"""

from __future__ import annotations

import asyncio
import hmac
import json
import logging
import threading
from collections import deque
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.io.wire import PackedRecord, packed
from parhelion.live.web import REFUSED, is_allowed_origin, is_loopback
from parhelion.outputs.manifest import version_of
from parhelion.scenario.control import Control, Reply
from parhelion.scenario.editor import FEATURES
from parhelion.scenario.verbs import VERBS, VerbError, verb_of

if TYPE_CHECKING:
    from typing_extensions import Self

PORT = 8917
LOOPBACK = "127.0.0.1"
PROTOCOL = "parhelion.v1"
INSTALL = "the control server needs the package websockets: pip install 'parhelion[serve]'"
LARGEST_MESSAGE = 1 << 20
"""Largest message of a client [bytes]."""
MOST_CLIENTS = 32
"""Largest number of connections; further ones are closed at once."""
MOST_PENDING = 64
"""Messages of one client without a reply that it has received; further ones are read later."""
MOST_SUBSCRIPTIONS = 64
SHORTEST_TOKEN = 16
_FIRST_S = 5.0
"""Time [s] for the handshake, and for the token of a browser."""


@dataclass(eq=False)
class _Client:
    """One connection."""

    socket: Any
    known: bool
    """True once the token was checked."""
    wanted: dict[str, bool] = field(default_factory=dict)
    """Subscribed sensors; True for complete records."""
    replies: deque[str | bytes] = field(default_factory=deque)
    records: dict[str, PackedRecord] = field(default_factory=dict)
    """Latest unsent record of each sensor."""
    skipped: dict[str, int] = field(default_factory=dict)
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    places: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MOST_PENDING))
    closing: int | None = None


class ControlServer:
    """WebSocket server of a `Control`; `with` closes it.

    Args:
        control: The control of the scenario.
        host: Address to listen on. Addresses beyond this machine require a `token`.
        port: Port; 0 selects a free one.
        token: Secret that clients must present, at least 16 characters.
    """

    def __init__(self, control: Control, host: str = LOOPBACK, port: int = PORT, *, token: str | None = None) -> None:
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
            raise ConfigError(f"port: must be an integer from 0 to 65535, got {port!r}")
        if token is not None and (len(token) < SHORTEST_TOKEN or not token.isascii()):
            raise ConfigError(f"token: must have at least {SHORTEST_TOKEN} ASCII characters")
        if token is None and not is_loopback(host):
            raise ConfigError(f"host: {host} can be reached by other machines; set a token, or listen on {LOOPBACK}")
        try:
            from websockets.asyncio.server import ServerConnection, serve
        except ImportError:
            raise MissingDependencyError(INSTALL) from None
        self.control, self.host, self.token = control, host, token
        self.refused = 0
        """Number of refused connections."""
        self._clients: set[_Client] = set()
        self._wanted: dict[str, bool] = {}
        """Sensors that any client subscribes to; True if one wants complete records."""
        self._loop = asyncio.new_event_loop()
        self._connection, self._serve, self._open = ServerConnection, serve, 0
        self._stop = asyncio.Event()
        started: threading.Event = threading.Event()
        self._failure: OSError | None = None
        self._thread = threading.Thread(target=self._run, args=[port, started], name="parhelion-control", daemon=True)
        self._thread.start()
        started.wait()
        if self._failure is not None:
            why = self._failure.strerror or self._failure
            raise ConfigError(f"port: cannot listen on {host}:{port} ({why}); choose another with --port")
        control.listeners.append(self._measured)

    @property
    def url(self) -> str:
        """Address for clients."""
        return f"ws://{f'[{self.host}]' if ':' in self.host else self.host}:{self.port}"

    def close(self) -> None:
        """Send the remaining replies, disconnect clients and free the port. A second call has no effect."""
        if self._measured in self.control.listeners:
            self.control.listeners.remove(self._measured)
        if self._thread.is_alive():
            with suppress(RuntimeError):  # it may have ended in the meantime
                self._loop.call_soon_threadsafe(self._stop.set)
            self._thread.join()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ---- records, in the simulation thread ------------------------------------------------------------------------

    def _measured(self, sensor: str, number: int, time_s: float, record: Any) -> None:
        for name in (sensor, "*"):
            if name in self._wanted:
                made = {
                    complete: packed(record, sensor, number, time_s, complete=complete)
                    for complete in {False, self._wanted[name]}
                }
                with suppress(RuntimeError):  # the loop may be closed
                    self._loop.call_soon_threadsafe(self._spread, sensor, made)
                return

    # ---- the server's thread --------------------------------------------------------------------------------------

    def _run(self, port: int, started: threading.Event) -> None:
        asyncio.set_event_loop(self._loop)
        try:
            self._loop.run_until_complete(self._main(port, started))
        finally:
            started.set()
            self._loop.close()

    async def _main(self, port: int, started: threading.Event) -> None:
        # The package logs every failed handshake, so any client could flood the log.
        log = logging.getLogger("parhelion.control")
        log.setLevel(logging.CRITICAL)
        try:
            server = await self._serve(
                self._talk,
                self.host,
                port,
                create_connection=self._bounded(),
                process_request=self._judge,
                subprotocols=[PROTOCOL],  # type: ignore[list-item]
                compression=None,
                max_size=LARGEST_MESSAGE,
                max_queue=4,
                open_timeout=_FIRST_S,
                close_timeout=1.0,
                logger=log,
                server_header="parhelion",
            )
        except OSError as error:
            self._failure = error
            return
        self.port = int(server.sockets[0].getsockname()[1])
        started.set()
        await self._stop.wait()
        await asyncio.sleep(0.05)  # the last replies
        server.close()
        await server.wait_closed()

    def _bounded(self) -> Any:
        """Connections with a limit on their number, which counts before the handshake."""
        owner = self

        class Bounded(self._connection):  # type: ignore[misc,name-defined]
            def connection_made(self, transport: Any) -> None:
                owner._open += 1
                super().connection_made(transport)
                if owner._open > MOST_CLIENTS:
                    owner.refused += 1
                    transport.abort()

            def connection_lost(self, error: Any) -> None:
                owner._open -= 1
                super().connection_lost(error)

        return Bounded

    def _judge(self, connection: Any, request: Any) -> Any:
        """Refuse pages of other sites and wrong tokens; None accepts the request."""
        heads = {name: request.headers.get_all(name) for name in ("Host", "Origin", "Authorization")}
        if any(len(values) > 1 for values in heads.values()):
            status, text = HTTPStatus.BAD_REQUEST, "ambiguous header\n"
        else:
            host, origin, given = (values[0] if values else None for values in heads.values())
            if not is_allowed_origin(self.host, host, origin):
                status, text = HTTPStatus.FORBIDDEN, REFUSED
            elif given is not None and not self._is_token(given.removeprefix("Bearer ")):
                status, text = HTTPStatus.UNAUTHORIZED, "wrong token\n"
            else:
                connection.parhelion_known = self.token is None or given is not None
                return None
        self.refused += 1
        return connection.respond(status, text)

    def _is_token(self, given: Any) -> bool:
        return self.token is None or (
            isinstance(given, str) and hmac.compare_digest(given.encode("utf-8", "replace"), self.token.encode())
        )

    async def _talk(self, socket: Any) -> None:
        """Serve one client until it disconnects."""
        client = _Client(socket, socket.parhelion_known)
        self._clients.add(client)
        # Either may end first: the reader may wait for replies that a broken connection never takes.
        tasks = [asyncio.ensure_future(self._read(client)), asyncio.ensure_future(self._send(client))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
            if client.closing is not None:
                client.changed.set()
                await asyncio.wait(tasks, timeout=1.0)
                await socket.close(client.closing)
        finally:
            self._clients.discard(client)
            self._count_wanted()
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

    async def _read(self, client: _Client) -> None:
        """Handle the messages of a client."""
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            try:
                if not client.known:
                    await asyncio.wait_for(self._present_token(client), _FIRST_S)
                while client.closing is None:
                    await self._hear(client, await client.socket.recv())
            except asyncio.TimeoutError:
                client.closing = 1008

    async def _present_token(self, client: _Client) -> None:
        """Wait for the first message of a client that could not set a header: {"op": "hello", "token": ...}."""
        await client.places.acquire()
        fields = _fields(await client.socket.recv(), [])
        if fields is None or fields.get("op") != "hello" or not self._is_token(fields.get("token")):
            self.refused += 1
            self._reply(client, None, VerbError("invalid", "the first message must be hello with the token"))
            client.closing = 1008
            return
        client.known = True
        self._hello(client, fields.get("id"))

    async def _hear(self, client: _Client, message: str | bytes) -> None:
        """Handle one message; each one has one reply."""
        # Waits while the client has not read its earlier replies, so that it is not read any further.
        await client.places.acquire()
        strange: list[str] = []
        fields = _fields(message, strange)
        if fields is None:
            self._reply(client, None, VerbError("invalid", "a message must be a JSON object as text"))
            return
        number = fields.pop("id", None)
        if not (number is None or isinstance(number, (int, str))) or len(str(number)) > 64:
            self._reply(client, None, VerbError("invalid", "id must be a number or a short text"))
            return
        if strange:
            text = f"message: {strange[0]} is not JSON; all numbers must be finite"
            self._reply(client, number, VerbError("invalid", text))
            return
        op = fields.get("op")
        if op == "hello":
            self._hello(client, number)
        elif op in ("subscribe", "unsubscribe"):
            self._subscribe(client, number, fields)
        else:
            self._submit(client, number, fields)

    def _submit(self, client: _Client, number: Any, fields: Mapping[str, Any]) -> None:
        complete = fields.get("op") == "latest" and fields.get("complete") is True
        if complete:
            fields = {name: value for name, value in fields.items() if name != "complete"}
        try:
            verb = verb_of(fields)
        except VerbError as error:
            self._reply(client, number, error)
            return
        try:
            self.control.submit(verb, partial(self._answered, client, number, complete))
        except VerbError as error:
            self._reply(client, number, error)

    def _answered(self, client: _Client, number: Any, complete: bool, reply: Reply) -> None:
        """Pass a reply from the simulation thread to the client; a record is packed here, while its motion is known."""
        result: Any = reply.error
        if reply.error is None:
            result = dict(reply.result)
            if "record" in result:
                try:
                    result = packed(
                        result["record"], result["sensor"], result["frame"], result["time_s"], complete=complete
                    )
                except FormatError as error:
                    result = VerbError("failed", str(error))
        with suppress(RuntimeError):  # the loop may be closed
            self._loop.call_soon_threadsafe(self._reply, client, number, result)

    # ---- replies and subscriptions ---------------------------------------------------------------------------------

    def _reply(self, client: _Client, number: Any, result: Mapping[str, Any] | PackedRecord | VerbError) -> None:
        if isinstance(result, PackedRecord):
            client.replies.append(result.message(id=number, ok=True))
        elif isinstance(result, VerbError):
            error = {"code": result.code, "message": str(result)[:2000]}
            client.replies.append(json.dumps({"id": number, "ok": False, "error": error}))
        else:
            client.replies.append(json.dumps({"id": number, "ok": True, **result}))
        client.changed.set()

    def _hello(self, client: _Client, number: Any) -> None:
        scenario = self.control.scenario
        limits = {"message_bytes": LARGEST_MESSAGE, "pending": MOST_PENDING, "subscriptions": MOST_SUBSCRIPTIONS}
        self._reply(
            client,
            number,
            {
                "protocol": PROTOCOL,
                "version": version_of("parhelion"),
                "features": list(FEATURES),
                "limits": limits,
                "ops": ["hello", "subscribe", "unsubscribe", *VERBS],
                "scenario": scenario.settings.name,
                "seed": scenario.seed,
                "step_s": scenario.settings.step_s,
            },
        )

    def _subscribe(self, client: _Client, number: Any, fields: Mapping[str, Any]) -> None:
        sensor, complete = fields.get("sensor"), fields.get("complete", False)
        known = [one.name for one in list(self.control.scenario.sensors)]
        unknown = sorted(set(fields) - {"op", "sensor", "complete"})
        if unknown or not isinstance(sensor, str) or not isinstance(complete, bool):
            self._reply(client, number, VerbError("invalid", "subscribe: fields are sensor and complete"))
            return
        if fields["op"] == "unsubscribe":
            client.wanted.pop(sensor, None)
        elif sensor != "*" and sensor not in known:
            text = f"no sensor {sensor[:60]!r}; sensors: {', '.join(known)}, or * for all"
            self._reply(client, number, VerbError("not_found", text))
            return
        elif len(client.wanted) >= MOST_SUBSCRIPTIONS:
            self._reply(client, number, VerbError("busy", f"{MOST_SUBSCRIPTIONS} subscriptions are open already"))
            return
        else:
            client.wanted[sensor] = complete
        self._count_wanted()
        self._reply(client, number, {"sensor": sensor})

    def _count_wanted(self) -> None:
        wanted: dict[str, bool] = {}
        for client in self._clients:
            for sensor, complete in client.wanted.items():
                wanted[sensor] = wanted.get(sensor, False) or complete
        if "*" in wanted:
            wanted["*"] = any(wanted.values())
        self._wanted = wanted  # replaced at once: the simulation thread reads it

    def _spread(self, sensor: str, made: Mapping[bool, PackedRecord]) -> None:
        """Put a record into the place of its sensor at each subscriber; one that was not sent yet is skipped."""
        for client in self._clients:
            complete = client.wanted.get(sensor, client.wanted.get("*"))
            if complete is None:
                continue
            if sensor in client.records:
                client.skipped[sensor] = client.skipped.get(sensor, 0) + 1
            client.records[sensor] = made.get(complete, made[False])
            client.changed.set()

    async def _send(self, client: _Client) -> None:
        """Send replies and records as fast as the client reads them."""
        from websockets.exceptions import ConnectionClosed

        with suppress(ConnectionClosed):
            while True:
                await client.changed.wait()
                client.changed.clear()
                while client.replies or client.records:
                    while client.replies:
                        await client.socket.send(client.replies.popleft())
                        client.places.release()
                    if client.records:
                        # In order of arrival, so that a fast sensor does not displace a slow one.
                        sensor = next(iter(client.records))
                        record = client.records.pop(sensor)
                        await client.socket.send(record.message(skipped=client.skipped.pop(sensor, 0)))
                if client.closing is not None:
                    return


def _fields(message: str | bytes, strange: list[str]) -> dict[str, Any] | None:
    """JSON object of a text message, None for anything else; NaN and infinities are added to `strange`."""
    if not isinstance(message, str):
        return None
    try:
        found = json.loads(message, parse_constant=strange.append)
    except (ValueError, RecursionError):
        return None
    return found if isinstance(found, dict) else None
