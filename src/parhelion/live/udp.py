"""Sending datagrams at their own times, as a sensor does, to a receiver on this machine."""

from __future__ import annotations

import errno
import ipaddress
import queue
import socket
import threading
import time
from collections.abc import Iterable
from types import TracebackType

from parhelion.core.errors import ConfigError
from parhelion.io.packets.pcap import Datagram

LOOPBACK = "127.0.0.1"
BATCH_S = 0.002
"""Datagrams that are due this close together leave together: the system's clock ticks are not much finer."""
CATCH_UP = 2.0
"""What is late follows this much faster than it should: no burst, which would overflow a receiver's buffer."""
BURST_S = 0.01
"""As much of a delay as is made up for at once; a receiver's buffer holds some 90 packets unless it was enlarged."""
GIVE_UP_S = 1.0
"""A sender that is later than this goes on from where it is."""
LEAD_S = 0.05
"""The first datagram waits this long, so that scans that come a little late do not show."""
AHEAD_S = 0.3
"""How far the simulation may be ahead of what was sent before it has to wait."""
_SEND_BUFFER = 4 << 20


def checked_host(host: str, allow_remote: bool = False) -> str:
    """An IPv4 address to send to or to serve on; one beyond this machine only where that is allowed explicitly."""
    try:
        address = ipaddress.IPv4Address(LOOPBACK if host == "localhost" else host)
    except ValueError:
        raise ConfigError(f"host: expected an IPv4 address such as {LOOPBACK}, got {host!r}") from None
    if not address.is_loopback and not allow_remote:
        raise ConfigError(
            f"host: {host} is beyond this machine; all stays on {LOOPBACK} unless going anywhere is allowed "
            "(allow_remote=True, --anywhere)"
        )
    return str(address)


def checked_port(name: str, port: int) -> int:
    """A UDP port that can be sent to."""
    if isinstance(port, bool) or not isinstance(port, int) or not 1 <= port <= 65535:
        raise ConfigError(f"{name}: a UDP port is a whole number within 1 and 65535, got {port!r}")
    return port


class TimedSender:
    """Sends datagrams in a thread, each when its time has come.

        with TimedSender("127.0.0.1") as sender:
            sender.send(datagrams, {2368: 2368})

    The first datagram leaves almost at once and sets the clock: one that is t seconds younger leaves t seconds later.
    `send` waits where the caller runs ahead of real time; what is late, since the caller fell behind, never
    leaves in a burst: it follows at twice its pace until the delay is made up for.
    """

    def __init__(self, host: str = LOOPBACK, *, allow_remote: bool = False, ahead_s: float = AHEAD_S) -> None:
        self.host = checked_host(host, allow_remote)
        self.sent = 0
        """Datagrams sent so far."""
        self.latest_s = 0.0
        """Longest delay of a datagram after its due time so far [s]."""
        self.restarts = 0
        """How often the caller fell so far behind that the clock was set anew."""
        self._ahead_s = ahead_s
        self._waiting: queue.SimpleQueue[tuple[float, bytes, int] | None] = queue.SimpleQueue()
        self._offset: float | None = None  # wall clock minus the datagrams' clock [s]
        self._failure: OSError | None = None
        self._closed = False
        self._stop = threading.Event()
        self._socket = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SEND_BUFFER)
        if allow_remote:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1)
        self._thread = threading.Thread(target=self._run, name="parhelion-udp", daemon=True)
        self._thread.start()

    def send(self, datagrams: Iterable[Datagram], ports: dict[int, int] | None = None) -> None:
        """Queue datagrams, in order of time; `ports` sends what is meant for one port to another."""
        self._check()
        last = None
        for datagram in datagrams:
            port = datagram.target[1]
            self._waiting.put((datagram.time_s, datagram.payload, port if ports is None else ports.get(port, port)))
            last = datagram.time_s
        if last is not None:
            self._hold_back(last)

    def _hold_back(self, last: float) -> None:
        """Wait until a datagram's time is near."""
        while not self._stop.is_set():
            offset = self._offset
            if offset is not None and last + offset - time.monotonic() <= self._ahead_s:
                break
            if offset is None and self._waiting.empty():
                break
            self._stop.wait(0.002)
        self._check()

    def _check(self) -> None:
        if self._failure is not None:
            reason = self._failure.strerror or str(self._failure)
            raise ConfigError(f"packets cannot be sent to {self.host} ({reason})")
        if self._closed:
            raise ConfigError(f"packets cannot be sent to {self.host}: the sender is closed already")

    def _run(self) -> None:
        before = paced = 0.0
        while not self._stop.is_set():
            entry = self._waiting.get()
            if entry is None:
                return
            when, payload, port = entry
            now = time.monotonic()
            if self._offset is None:
                self._offset = now - when + LEAD_S
                before, paced = when, now
            elif when < before or now - (when + self._offset) > GIVE_UP_S:
                self._offset = now - when
                before, paced = when, now
                self.restarts += 1
            due = when + self._offset
            paced = max(due, paced + (when - before) / CATCH_UP, now - BURST_S)
            before = when
            if paced > now + BATCH_S and self._stop.wait(paced - now):
                return
            self.latest_s = max(self.latest_s, time.monotonic() - due)
            try:
                self._socket.sendto(payload, (self.host, port))
            except OSError as error:
                # Nobody listening is the receiver's affair, as with a real sensor.
                if error.errno != errno.ECONNREFUSED:
                    self._failure = error
                    self._stop.set()
                    return
            self.sent += 1

    def close(self, *, drain: bool = True) -> None:
        """Send what waits, at its times, and end; without `drain` what waits is dropped."""
        if self._closed:
            return
        if not drain:
            self._stop.set()
        self._waiting.put(None)
        self._thread.join()
        self._socket.close()
        failed = self._failure
        self._closed = True
        if failed is not None and drain:
            self._check()

    def __enter__(self) -> TimedSender:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(drain=kind is None)
