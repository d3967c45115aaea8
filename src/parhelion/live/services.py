"""ROS 2 services over DDS, as rmw_cyclonedds speaks them: server and client.

    server = ServiceServer(node)
    server.serve("/parhelion/step_simulation", "simulation_interfaces/srv/StepSimulation", handler)
    server.start()

A request or reply is a sample with 16 bytes before its body: a number that identifies the client, and a counter. The
server repeats them. rmw_fastrtps puts these numbers outside of the payload, where Cyclone's Python package cannot reach
them, so its clients are ignored; they can use rmw_cyclonedds.
"""

from __future__ import annotations

import itertools
import secrets
import struct
import threading
import time as wall
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.io.ros.service_types import VERSION_2, register_services
from parhelion.io.ros.types import decode, encode, hash_of, new
from parhelion.live.dds import DdsNode, carrier, dds_type_name

Handler = Callable[[Any], Any]
"""Function from the decoded request to the reply, or to a `Future` of it; called in a thread of the server."""
HEADER = struct.Struct("<Qq")
MOST_REQUESTS = 64
"""Largest number of requests that are handled at once; further ones are dropped."""
THREADS = 8
_DEPTH = 100
_POLL_S = 0.1
_MATCH_S, _MATCH_STEP_S = 0.1, 0.01
"""Longest wait [s] for the reader of a reply: samples for readers that are not matched yet are lost."""


@cache
def service_type(name: str) -> Any:
    """DDS type of one half of a service, such as 'simulation_interfaces/srv/StepSimulation_Request'."""
    from cyclonedds.idl import types as idl

    register_services()
    # Members of rmw_cyclonedds' header, with the names of its own structure.
    before: dict[str, Any] = {"guid": idl.uint64, "seq": idl.int64}
    wire = name
    for plain, second in VERSION_2.items():  # both variants have the same name on the wire
        wire = wire.replace(f"/{second}_", f"/{plain}_")
    return carrier(name, dds_type_name(wire), before)


def _qos(name: str, identity: str) -> Any:
    from cyclonedds.qos import Policy, Qos
    from cyclonedds.util import duration

    return Qos(
        Policy.Reliability.Reliable(duration(seconds=1)),
        Policy.Durability.Volatile,
        Policy.History.KeepLast(_DEPTH),
        Policy.DataRepresentation(use_cdrv0_representation=True),
        # The two members of the header have other names in other programs.
        Policy.TypeConsistency.AllowTypeCoercion(ignore_member_names=True),
        Policy.Userdata(f"{identity};typehash={hash_of(name)};".encode()),
    )


def _identity(kind: str, number: int) -> str:
    """'clientid=...' or 'serviceid=...' as rmw_cyclonedds writes it: 16 bytes in hex, without leading zeros."""
    content = secrets.token_bytes(12) + struct.pack(">I", number)
    return f"{kind}id=" + ".".join(f"{one:x}" for one in content)


def user_data(endpoint: Any) -> dict[str, str]:
    """Entries of the user data of a remote endpoint."""
    from cyclonedds.qos import Policy

    try:
        text = bytes(endpoint.qos[Policy.Userdata].data).decode("ascii", "replace")
    except (AttributeError, KeyError, TypeError):
        return {}
    return dict(entry.partition("=")[::2] for entry in text.split(";") if "=" in entry)


def with_header(cdr: bytes, client: int, number: int) -> bytes:
    """Sample of a message: the header follows the encapsulation of 4 bytes; 16 bytes do not change the alignment."""
    return cdr[:4] + HEADER.pack(client, number) + cdr[4:]


def split_header(sample: bytes) -> tuple[int, int, bytes]:
    """Client, number and CDR bytes of a sample. Raise FormatError if it is too short or big endian."""
    if len(sample) < 4 + HEADER.size or sample[:2] != b"\0\1":
        raise FormatError("ROS: a request is too short, or not little endian")
    client, number = HEADER.unpack_from(sample, 4)
    return client, number, sample[:4] + sample[4 + HEADER.size :]


@dataclass
class _Service:
    name: str
    type: str
    handler: Handler
    reader: Any
    writer: Any
    condition: Any = None


@dataclass
class ServiceCounts:
    """Statistics of a server."""

    answered: int = 0
    refused: int = 0
    """Damaged requests, and those of clients of another RMW."""
    dropped: int = 0
    """Requests beyond `MOST_REQUESTS`."""
    foreign: bool = False
    """True if a client of another RMW called."""
    failures: list[str] = field(default_factory=list)
    """Last unexpected errors of handlers."""


class ServiceServer:
    """Serves ROS 2 services on a DDS node, in threads of its own."""

    def __init__(self, node: DdsNode) -> None:
        self.node, self.counts = node, ServiceCounts()
        self._services: list[_Service] = []
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._pending = 0
        self._pool = ThreadPoolExecutor(THREADS, thread_name_prefix="parhelion-service")
        self._thread = threading.Thread(target=self._listen, name="parhelion-services", daemon=True)

    def serve(self, name: str, service: str, handler: Handler) -> None:
        """Offer a service, such as '/parhelion/step_simulation' of 'simulation_interfaces/srv/StepSimulation'."""
        identity = _identity("service", len(self._services) + 1)
        request, reply = f"{service}_Request", f"{service}_Response"
        reader = self.node.endpoint("reader", f"rq{name}Request", service_type(request), _qos(request, identity))
        writer = self.node.endpoint("writer", f"rr{name}Reply", service_type(reply), _qos(reply, identity))
        self._services.append(_Service(name, service, handler, reader, writer))

    def start(self) -> None:
        """Begin to answer."""
        self._thread.start()

    def close(self) -> None:
        """Stop answering; the endpoints remain until the node is closed. A second call has no effect."""
        self._stop.set()
        if self._thread.is_alive():
            self._thread.join()
        self._pool.shutdown(wait=True, cancel_futures=True)

    # ---- requests ------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet
        from cyclonedds.util import duration

        waiting = WaitSet(self.node.participant)
        for service in self._services:
            service.condition = ReadCondition(service.reader, SampleState.NotRead | ViewState.Any | InstanceState.Any)
            waiting.attach(service.condition)
        while not self._stop.is_set():
            with suppress(Exception):  # a failed wait must not end the server
                waiting.wait(duration(seconds=_POLL_S))
            for service in self._services:
                try:
                    samples = service.reader.take(_DEPTH)
                except Exception as error:  # Cyclone raises for samples that it cannot convert
                    self._note(error)
                    continue
                for sample in samples:
                    if sample.sample_info.valid_data:
                        self._accept(service, sample)
        for service in self._services:
            waiting.detach(service.condition)

    def _accept(self, service: _Service, sample: Any) -> None:
        """Pass one request to a thread."""
        try:
            endpoint = service.reader.get_matched_publication_data(sample.sample_info.publication_handle)
        except Exception:  # the client left in the meantime; Cyclone raises several types
            endpoint = None
        client = user_data(endpoint).get("clientid") if endpoint is not None else None
        # Other RMWs have another header: their bytes could pass as a request with random values.
        if client is None:
            self.counts.refused += 1
            self.counts.foreign = True
            return
        with self._lock:
            if self._pending >= MOST_REQUESTS:
                self.counts.dropped += 1
                return
            self._pending += 1
        self._pool.submit(self._work, service, sample.cdr, client)

    def _work(self, service: _Service, data: bytes, client: str) -> None:
        """Answer one request, or leave it to a future."""
        try:
            guid, number, cdr = split_header(data)
            reply = service.handler(decode(f"{service.type}_Request", cdr))
            if isinstance(reply, Future):
                reply.add_done_callback(lambda done: self._answer_later(service, done, (guid, number), client))
            else:
                self._answer(service, reply, (guid, number), client)
        except FormatError:
            self.counts.refused += 1
        except Exception as error:  # a service must survive any request
            self._note(error)
        finally:
            with self._lock:
                self._pending -= 1

    def _answer(self, service: _Service, reply: Any, caller: tuple[int, int], client: str) -> None:
        body = encode(f"{service.type}_Response", reply)
        self._await_reader(service.writer, client)
        service.writer.write(service_type(f"{service.type}_Response")(with_header(body, *caller)))
        self.counts.answered += 1

    def _answer_later(self, service: _Service, done: Future[Any], caller: tuple[int, int], client: str) -> None:
        if done.cancelled() or self._stop.is_set():
            return
        try:
            self._answer(service, done.result(), caller, client)
        except Exception as error:
            self._note(error)

    def _note(self, error: BaseException) -> None:
        self.counts.failures = [*self.counts.failures[-9:], f"{type(error).__name__}: {error}"]

    def _await_reader(self, writer: Any, client: str) -> None:
        """Wait until the reader of a client is matched, like the server of rmw_cyclonedds."""
        until = wall.monotonic() + _MATCH_S
        while wall.monotonic() < until and not self._stop.is_set():
            # The list may change while it is read.
            with suppress(Exception):
                for handle in writer.get_matched_subscriptions():
                    endpoint = writer.get_matched_subscription_data(handle)
                    if endpoint is not None and user_data(endpoint).get("clientid") == client:
                        return
            wall.sleep(_MATCH_STEP_S)


class ServiceClient:
    """Client of one service, for tests and small tools; one call at a time."""

    def __init__(self, node: DdsNode, name: str, service: str) -> None:
        identity = _identity("client", secrets.randbelow(1 << 31))
        request, reply = f"{service}_Request", f"{service}_Response"
        self.name, self.type = name, service
        self._reader = node.endpoint("reader", f"rr{name}Reply", service_type(reply), _qos(reply, identity))
        self._writer = node.endpoint("writer", f"rq{name}Request", service_type(request), _qos(request, identity))
        self._guid, self._numbers = secrets.randbits(63), itertools.count(1)

    def wait(self, seconds: float = 10.0) -> None:
        """Wait for the server."""
        until = wall.monotonic() + seconds
        while wall.monotonic() < until:
            if (
                self._writer.get_publication_matched_status().current_count
                and self._reader.get_subscription_matched_status().current_count
            ):
                return
            wall.sleep(0.01)
        raise ConfigError(f"ROS: there is no service {self.name} within {seconds:g} s")

    def call(self, seconds: float = 10.0, /, **fields: Any) -> Any:
        """Send a request and return the decoded reply."""
        register_services()
        number = next(self._numbers)
        request = f"{self.type}_Request"
        body = encode(request, new(request, **fields))
        self._writer.write(service_type(request)(with_header(body, self._guid, number)))
        until = wall.monotonic() + seconds
        while wall.monotonic() < until:
            for sample in self._reader.take(_DEPTH):
                if sample.sample_info.valid_data and split_header(sample.cdr)[:2] == (self._guid, number):
                    return decode(f"{self.type}_Response", split_header(sample.cdr)[2])
            wall.sleep(0.002)
        raise ParhelionError(f"ROS: {self.name}: no reply within {seconds:g} s")
