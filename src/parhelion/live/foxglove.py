"""A scenario live in Foxglove: a WebSocket server on this machine that the app connects to.

    server = FoxgloveServer(scenario)           # in the app: Open connection, ws://127.0.0.1:8765
    for step in scenario:
        server.take(step)
    server.close()

Clients may come and go; those that come late get the scene, too. The SDK's server answers any page of any site, so it
is hidden, and a relay before it looks at who asks.
"""

from __future__ import annotations

import logging
import secrets
import time as wall
from collections.abc import Sequence
from typing import Any

from parhelion.core.errors import ConfigError
from parhelion.core.image import Image
from parhelion.core.records import Scan
from parhelion.live.callers import checked_origin, may_ask, of_an_app
from parhelion.live.relay import Relay, listen
from parhelion.live.udp import LOOPBACK, checked_host
from parhelion.outputs.foxglove.feed import CLOCK, LATCHED, FoxgloveFeed
from parhelion.outputs.foxglove.messages import Channels, FoxgloveMessage, need_foxglove
from parhelion.scenario.scenario import Scenario, Step
from parhelion.scenario.schema import FoxgloveOutput

PORT = 8765
WEB_APP = "https://app.foxglove.dev"
"""Origin of Foxglove's web app, which is let in where the user says so."""
BATCH_S = 0.1
"""Simulated time [s] whose messages are made together."""
_QUEUE_BYTES = 256 << 20
_FEWEST, _MOST = 64, 1024
_GRACE_S = 0.3
_POINT_BYTES = 64
"""About what a point takes with all its fields."""
_PIXEL_BYTES = 4
"""About what a pixel takes: packed colours, or raw depth."""


class FoxgloveServer:
    """Serves the messages of a scenario to Foxglove.

    A client that reads too slowly loses the oldest messages that wait for it, and holds up nobody. A scenario that
    begins anew goes on in time.
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
        """`port` 0 takes any that is free; see `port`. Addresses beyond this machine need `allow_remote`.

        Programs and pages of this machine may connect, and pages of the sites that `origins` names.
        """
        self.host = checked_host(host, allow_remote)
        self._origins = frozenset(checked_origin(origin) for origin in origins)
        self.missed_web_app = False
        """Whether Foxglove's web app asked and was refused."""
        if isinstance(port, bool) or not isinstance(port, int) or not 0 <= port <= 65535:
            raise ConfigError(f"port: must be a whole number from 0 to 65535, got {port!r}")
        foxglove = need_foxglove()
        self._scenario = scenario
        self._rounds, self._epoch_s = 0, 0.0
        # As the scenario's recording has them, else such as are quickly packed.
        asked = [entry.images for entry in scenario.settings.outputs if isinstance(entry, FoxgloveOutput)]
        self._feed = FoxgloveFeed(scenario, images=asked[0] if asked else "jpeg", batch_s=batch_s)
        self._stepwise = False
        self._latched = {message.topic: message for message in self._feed.first()}
        listener = listen(self.host, port)
        # Channels let go of their sinks with the context, so it is kept.
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
        """The port that clients connect to."""
        self._relay = Relay(listener, inner, self._may_ask)

    def _may_ask(self, host: str | None, origin: str | None) -> bool:
        """Whether a request with these headers is let in; on loopback its Host must be this machine in any case."""
        known = origin is not None and (origin.lower() in self._origins or of_an_app(origin))
        if may_ask(self.host, host, None if known else origin):
            return True
        self.missed_web_app |= origin == WEB_APP
        return False

    @property
    def url(self) -> str:
        """What to give to Foxglove's 'Open connection'."""
        host = f"[{self.host}]" if ":" in self.host else self.host
        return f"ws://{host}:{self.port}"

    # ---- sending -------------------------------------------------------------------------------------------------

    def take(self, step: Step | FoxgloveMessage) -> None:
        """Send what a step gave, or one message that `prepare` made of it."""
        if isinstance(step, FoxgloveMessage):
            self._send(step)
            return
        self._stepwise = True
        for _, message in self.prepare(step):
            self._send(message)

    def prepare(self, step: Step) -> list[tuple[float, FoxgloveMessage]]:
        """Messages that are complete with a step, and when each is to be sent [s]."""
        if step.number == 0:
            self._epoch_s = self._rounds * self._scenario.steps * self._scenario.settings.step_s
            self._feed.restart(self._epoch_s)
            self._rounds += 1
        return self._timed(self._feed.of(step))

    def rest(self) -> list[tuple[float, FoxgloveMessage]]:
        """Messages that were still held back, after the last step."""
        return self._timed(self._feed.last())

    def close(self) -> None:
        """Send what is held back and end; clients are disconnected. Closing twice does no harm."""
        server, self._server = self._server, None
        if server is None:
            return
        if self._stepwise:
            for message in self._feed.last():
                self._log(server, message)
        if self._channels.heard:
            wall.sleep(_GRACE_S)  # the SDK drops what still waits when it stops, and does not say whether any does
        self._channels.close()
        server.stop()
        self._relay.close()

    def _timed(self, messages: list[FoxgloveMessage]) -> list[tuple[float, FoxgloveMessage]]:
        return [(1e-9 * message.time_ns - self._epoch_s, message) for message in messages]

    def _send(self, message: FoxgloveMessage) -> None:
        server = self._server
        if server is None:
            raise ConfigError(f"{self.url}: the server is closed already")
        self._log(server, message)

    def _log(self, server: Any, message: FoxgloveMessage) -> None:
        if message.topic == CLOCK:
            server.broadcast_time(message.time_ns)
        self._channels.log(message)

    def tell_again(self, topic: str) -> None:
        """What was told once on a topic, for somebody who just came; the others get the same again."""
        message = self._latched.get(topic)
        if message is not None:
            self._channels.log(message)


def _listener(server: FoxgloveServer) -> Any:
    """Hears of clients that subscribe."""
    from foxglove.websocket import ServerListener

    class Listener(ServerListener):  # type: ignore[misc]  # the package is optional, so its types are not known
        def on_subscribe(self, client: Any, channel: Any) -> None:
            if channel.topic in LATCHED:
                server.tell_again(channel.topic)

    return Listener()


def _backlog(scenario: Scenario) -> int:
    """How many messages may wait for a slow client, so that clouds do not fill the memory."""
    sizes = [len(scanner.sensor.shots(0.0)) * _POINT_BYTES for scanner in scenario.giving(Scan)]
    for camera in scenario.giving(Image):
        lens = getattr(camera.sensor, "intrinsics", None)
        sizes.append(lens.width * lens.height * _PIXEL_BYTES if lens is not None else 0)
    largest = max((1, *sizes))
    return min(max(_QUEUE_BYTES // largest, _FEWEST), _MOST)


def _start(**options: Any) -> tuple[Any, tuple[str, int]]:
    """The SDK's server and its address, which no page can guess: the port, and the host if possible, are by chance."""
    foxglove = need_foxglove()
    # It tells of every message that it cannot read, and so whoever connects would decide how much is told.
    log = logging.getLogger("foxglove.websocket")
    if log.level == logging.NOTSET:
        log.setLevel(logging.CRITICAL)
    reason = ""
    # Linux and Windows have 16 million addresses of this machine alone, other systems one.
    for host in (".".join(("127", *(str(1 + secrets.randbelow(254)) for _ in range(3)))), LOOPBACK):
        try:
            server = foxglove.start_server(host=host, port=0, **options)
        except RuntimeError as error:
            reason = str(error).rpartition("Failed to bind port:")[2].strip()
        else:
            return server, (host, int(server.port))
    raise ConfigError(f"Foxglove cannot be served ({reason})")
