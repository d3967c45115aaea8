"""Clouds of a running lidar, from a ROS 2 topic or from UDP packets, which are recorded at the same time."""

from __future__ import annotations

import socket
import time as wall
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, FormatError
from parhelion.io.pcap import PcapWriter
from parhelion.io.ros import BagWriter
from parhelion.io.ros.returns import RETURN_MESSAGES
from parhelion.io.ros.types import Message
from parhelion.live.udp import checked_host, checked_port
from parhelion.makers import LOOPBACK, Datagram, codecs

if TYPE_CHECKING:
    from parhelion.live.dds import Node

POLL_S = 0.1
_LONGEST_DATAGRAM = 65536
_RECEIVE_BYTES = 8 << 20


class LiveClouds:
    """Measurements of a running lidar, one after another, each of which is recorded.

        with LiveClouds("udp://:2368", Path("plywood")) as source:
            for cloud in source.measurements(seconds=60):
                ...
            file = source.keep()

    `source` is a topic such as /scan (LaserScan, PointCloud2, CustomMsg) or udp://[HOST]:PORT. Without `keep`, the
    recording is removed.
    """

    def __init__(
        self,
        source: str,
        recording: Path,
        *,
        node: Node | None = None,
        domain: int = 0,
        allow_remote: bool = False,
        now: Callable[[], float] = wall.monotonic,
    ) -> None:
        """Open the source. `recording` is the file without its extension; `node` replaces an own DDS node."""
        self.source, self._now, self._node, self._domain = source, now, node, domain
        self._stack = ExitStack()
        self._bag: BagWriter | None = None
        self._capture: PcapWriter | None = None
        self._socket: socket.socket | None = None
        parts = urlsplit(source)
        if parts.scheme == "udp":
            try:
                host, port = parts.hostname or LOOPBACK, parts.port or 0
            except ValueError:
                raise ConfigError(f"--live: expected udp://HOST:PORT, got {source!r}") from None
            host, port = checked_host(host, allow_remote or host == "0.0.0.0"), checked_port("--live", port)
            self.file = recording.with_name(f"{recording.name}.pcap")
            self._socket = self._stack.enter_context(socket.socket(socket.AF_INET, socket.SOCK_DGRAM))
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, _RECEIVE_BYTES)
            self._socket.settimeout(POLL_S)
            try:
                self._socket.bind((host, port))
            except OSError as error:
                self._stack.close()
                raise ConfigError(f"--live: the port {port} cannot be opened ({error.strerror})") from None
        elif source.startswith("/"):
            self.file = recording.with_name(f"{recording.name}.mcap")
        else:
            raise ConfigError(f"--live: expected a topic such as /scan, or udp://:PORT, got {source!r}")

    def measurements(self, seconds: float) -> Iterator[PointCloud]:
        """Clouds of each scan or revolution, for a time [s]. Clouds of messages have a row per shot, NaN if lost."""
        until = self._now() + seconds
        yield from self._of_topic(until) if self._socket is None else self._of_packets(self._socket, until)

    def restart(self) -> None:
        """Discard the recording so far."""
        self._discard()

    def keep(self) -> Path:
        """Finish the recording and return its file."""
        bag, capture, self._bag, self._capture = self._bag, self._capture, None, None
        if bag is not None:
            bag.close()
        if capture is not None:
            capture.close()
        return self.file

    def close(self) -> None:
        """Close the source; a recording that is not kept is removed."""
        self._discard()
        self._stack.close()

    def __enter__(self) -> LiveClouds:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _discard(self) -> None:
        bag, capture, self._bag, self._capture = self._bag, self._capture, None, None
        if bag is not None:
            bag.discard()
        if capture is not None:
            capture.abandon()

    # ---- packets ----------------------------------------------------------------------------------------------------

    def _of_packets(self, receiver: socket.socket, until: float) -> Iterator[PointCloud]:
        tests = [(codec.recogniser(None), codec) for codec in codecs().values() if not codec.uses_metadata]
        packets = self._datagrams(receiver, until)
        for first in packets:
            codec = next((codec for is_own, codec in tests if is_own(first.payload)), None)
            if codec is not None:
                break
        else:
            names = ", ".join(codec.title for _, codec in tests)
            raise ConfigError(f"--live: no packets of {names} arrived at {self.source}")

        def rest() -> Iterator[Datagram]:
            yield first
            yield from (one for one in packets if one.source[0] == first.source[0])

        try:
            yield from codec.frames(rest(), model=None, metadata=None, source=self.source)
        except FormatError as error:
            raise ConfigError(f"--live: {self.source}: {error}") from None

    def _datagrams(self, receiver: socket.socket, until: float) -> Iterator[Datagram]:
        target = receiver.getsockname()
        while self._now() < until:
            try:
                payload, sender = receiver.recvfrom(_LONGEST_DATAGRAM)
            except TimeoutError:
                continue
            datagram = Datagram(wall.time(), payload, sender, target)
            if self._capture is None:
                self._capture = PcapWriter(self.file)
            self._capture.write(*datagram)
            yield datagram

    # ---- topics -----------------------------------------------------------------------------------------------------

    def _of_topic(self, until: float) -> Iterator[PointCloud]:
        from parhelion.live.dds import SENSOR_DEPTH, DdsNode, Quality

        node = self._stack.enter_context(DdsNode(self._domain)) if self._node is None else self._node
        kind, last = "", -1
        while not kind:
            if self._now() >= until:
                raise ConfigError(f"--live: there is no publisher of lidar returns on {self.source}")
            kind = next((one.type for one in node.publishers(self.source) if one.type in RETURN_MESSAGES), "")
            if not kind:
                wall.sleep(POLL_S / 5)
        topic = node.subscribe(self.source, kind, Quality(reliable=False, depth=SENSOR_DEPTH))
        while self._now() < until:
            topic.wait(POLL_S)
            for data, sent_ns in topic.take_timed():
                message = Message(self.source, kind, max(sent_ns, last + 1), data)
                last = message.time_ns
                if self._bag is None:
                    self._bag = BagWriter(self.file, overwrite=True)
                self._bag.write(message)
                yield RETURN_MESSAGES[kind].read(message)
