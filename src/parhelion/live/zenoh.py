"""ROS 2 topics over zenoh, in the format of rmw_zenoh, without ROS.

    with ZenohNode(domain=0, endpoint="tcp/localhost:7447") as node:    # the router: ros2 run rmw_zenoh_cpp rmw_zenohd
        node.publish(message)

The same interface as `DdsNode`, for topics. Keys, attachments and liveliness tokens are those of rmw_zenoh's design
document (github.com/ros2/rmw_zenoh, docs/design.md, Jazzy); there is no check against rmw_zenoh itself.
"""

from __future__ import annotations

import itertools
import json
import secrets
import struct
import threading
import time as wall
from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from parhelion.core.errors import ConfigError, MissingDependencyError, ParhelionError
from parhelion.io.ros.types import HUMBLE, Message
from parhelion.live.dds import (
    LOOPBACK,
    Node,
    Publisher,
    Quality,
    check_domain,
    check_topic,
    dds_type_name,
    is_latched,
    ros_type_name,
    type_hash,
)

INSTALL_ZENOH = "ROS 2 over zenoh needs the package eclipse-zenoh: pip install 'parhelion[zenoh]'"
ROUTER = "tcp/localhost:7447"
"""Default address of a router, as in rmw_zenoh."""
NODE_NAME = "parhelion"
_ADMIN = "@ros2_lv"
_NO_HASH = "TypeHashNotSupported"
"""In place of the hash of a type, in the port of rmw_zenoh to Humble."""
_ATTACHMENT = struct.Struct("<qqB16s")
_GID_BYTES = 16
_DEFAULT_DEPTH = 42
"""Depth that rmw_zenoh omits from a token."""
_PUBLISHER, _SUBSCRIPTION, _NODE = "MP", "MS", "NN"
_GET_S = 1.0
_LOCAL_HOSTS = ("localhost", "127.0.0.1", "[::1]")


class Token(NamedTuple):
    """Liveliness token of a publisher or subscription of any node."""

    session: str
    kind: str
    topic: str
    type: str
    """Message type, such as 'sensor_msgs/msg/Imu'."""
    reliable: bool


def topic_key(domain: int, topic: str, type_name: str, distro: str) -> str:
    """Key of a topic: domain, name, type and its hash."""
    return f"{domain}/{topic.strip('/')}/{dds_type_name(type_name)}/{_hash(type_name, distro)}"


def _hash(type_name: str, distro: str) -> str:
    return _NO_HASH if distro == HUMBLE else type_hash(type_name, distro)


def quality_text(quality: Quality) -> str:
    """Quality of service in a token; defaults are empty: reliable, volatile, keep last, automatic liveliness."""
    reliability, durability = "" if quality.reliable else "2", "1" if quality.latched else ""
    depth = "" if quality.depth == _DEFAULT_DEPTH else str(quality.depth)
    return f"{reliability}:{durability}:,{depth}:,:,:,,"


def entity_token(
    domain: int, session: str, number: int, kind: str, topic: str = "", type_name: str = "", more: str = ""
) -> str:
    """Liveliness token of the node (number 0), or of one of its publishers or subscriptions."""
    start = f"{_ADMIN}/{domain}/{session}/0/{number}/{kind}/%/%/{NODE_NAME}"
    return start if kind == _NODE else f"{start}/{topic.replace('/', '%')}/{dds_type_name(type_name)}/{more}"


def parsed_token(key: str) -> Token | None:
    """Parse a token; None for nodes, services and keys of other programs."""
    parts = key.split("/")
    if len(parts) != 13 or parts[0] != _ADMIN or parts[5] not in (_PUBLISHER, _SUBSCRIPTION):
        return None
    topic, kind = parts[9].replace("%", "/"), ros_type_name(parts[10])
    return Token(parts[2], parts[5], topic, kind, not parts[12].startswith("2"))


@dataclass
class ZenohSubscription:
    """Subscription to a topic. Messages without the attachment of rmw_zenoh are ignored, as it does."""

    topic: str
    depth: int
    _kept: deque[tuple[bytes, int]] = field(init=False, repr=False)
    _arrived: threading.Condition = field(default_factory=threading.Condition, repr=False)

    def __post_init__(self) -> None:
        self._kept = deque(maxlen=self.depth)

    def keep(self, sample: Any) -> None:
        """Callback of zenoh, in a thread of its own."""
        attached = b"" if sample.attachment is None else sample.attachment.to_bytes()
        if len(attached) != _ATTACHMENT.size:
            return
        _, sent_ns, _, _ = _ATTACHMENT.unpack(attached)
        with self._arrived:
            self._kept.append((sample.payload.to_bytes(), sent_ns))
            self._arrived.notify_all()

    def take(self) -> list[bytes]:
        """CDR bytes of the messages received since the last call, oldest first."""
        return [data for data, _ in self.take_timed()]

    def take_timed(self) -> list[tuple[bytes, int]]:
        """Like `take`, each with the wall time of sending [ns since 1970] by the sender's clock."""
        with self._arrived:
            got = list(self._kept)
            self._kept.clear()
        return got

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a message; return True if there is one."""
        with self._arrived:
            return self._arrived.wait_for(lambda: bool(self._kept), seconds)


class ZenohNode(Node):
    """Node that publishes and subscribes over zenoh, as a peer that a router introduces to others.

    Args:
        domain: ROS 2 domain.
        endpoint: Address of the router.
        reliable: True to publish sensor data as reliable.
        distro: Distribution of the other nodes; that of Humble has no type hashes.
        allow_remote: True to accept an endpoint on another machine, and peers from there.
    """

    def __init__(
        self,
        domain: int = 0,
        endpoint: str = ROUTER,
        *,
        reliable: bool = False,
        distro: str = "jazzy",
        allow_remote: bool = False,
    ) -> None:
        super().__init__(check_domain(domain), LOOPBACK, reliable, distro)
        protocol, _, address = endpoint.partition("/")
        host, _, port = address.rpartition(":")
        if protocol not in ("tcp", "udp", "tls", "quic") or not host or not port.isdecimal():
            raise ConfigError(f"zenoh: expected an address such as {ROUTER}, got {endpoint!r}")
        if host not in _LOCAL_HOSTS and not allow_remote:
            raise ConfigError(f"zenoh: {host} is not this machine; allow_remote (--anywhere) permits it")
        try:
            import zenoh
            import zenoh.ext
        except ImportError:
            raise MissingDependencyError(INSTALL_ZENOH) from None
        self._zenoh, self._latching = zenoh, zenoh.ext
        settings = {
            "mode": "peer",
            "connect/endpoints": [endpoint],
            "listen/endpoints": [f"tcp/{'0.0.0.0' if allow_remote else '127.0.0.1'}:0"],
            "scouting/multicast/enabled": False,
            "timestamping/enabled": True,  # required by publishers with a cache
        }
        config = zenoh.Config()
        for name, value in settings.items():
            config.insert_json5(name, json.dumps(value))
        try:
            self._session: Any = zenoh.open(config)
        except zenoh.ZError as error:
            raise ConfigError(f"zenoh: cannot connect to {endpoint} ({str(error)[:160]})") from None
        self._id = str(self._session.info.zid())
        self._writers: dict[str, tuple[Any, bytes, itertools.count[int]]] = {}
        self._readers: list[Any] = []
        self._numbers = itertools.count(1)
        self._open = True
        self._tokens = [self._declare(entity_token(domain, self._id, 0, _NODE))]

    @property
    def connected(self) -> bool:
        """True if there is a router or another peer."""
        info = self._session.info
        return any(True for found in (info.routers_zid(), info.peers_zid()) for _ in found)

    def _declare(self, token: str) -> Any:
        return self._session.liveliness().declare_token(token)

    def _announced(self, kind: str, topic: str, type_name: str, quality: Quality) -> None:
        more = f"{_hash(type_name, self.distro)}/{quality_text(quality)}"
        number = next(self._numbers)
        self._tokens.append(self._declare(entity_token(self.domain, self._id, number, kind, topic, type_name, more)))

    # ---- publishing ------------------------------------------------------------------------------------------------

    def _announce(self, topic: str, type_name: str, quality: Quality) -> None:
        check_topic(topic)
        if not self._open:
            raise ParhelionError("zenoh: this node is closed")
        key, zenoh = topic_key(self.domain, topic, type_name, self.distro), self._zenoh
        reliability = zenoh.Reliability.RELIABLE if quality.reliable else zenoh.Reliability.BEST_EFFORT
        # By default zenoh drops messages that its queue cannot take; reliable topics wait for it instead.
        congestion = zenoh.CongestionControl.BLOCK if quality.reliable else zenoh.CongestionControl.DROP
        writer: Any
        if quality.latched:
            writer = self._latching.declare_advanced_publisher(
                self._session,
                key,
                congestion_control=congestion,
                reliability=reliability,
                cache=self._latching.CacheConfig(max_samples=quality.depth),
                publisher_detection=True,
            )
        else:
            writer = self._session.declare_publisher(key, congestion_control=congestion, reliability=reliability)
        self._writers[topic] = writer, secrets.token_bytes(_GID_BYTES), itertools.count(1)
        self._announced(_PUBLISHER, topic, type_name, quality)

    def _send(self, message: Message) -> bool:
        writer, gid, numbers = self._writers[message.topic]
        attached = _ATTACHMENT.pack(next(numbers), wall.time_ns(), _GID_BYTES, gid)
        try:
            writer.put(message.data, attachment=attached)
        except self._zenoh.ZError as error:
            raise ParhelionError(f"zenoh: {message.topic} cannot be sent ({str(error)[:160]})") from None
        return True

    def subscribers(self, topic: str) -> int:
        """Number of subscribers of a topic in the domain, except this node."""
        return sum(one.kind == _SUBSCRIPTION for one in self._others(topic))

    # ---- subscribing -----------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, type_name: str, quality: Quality | None = None) -> ZenohSubscription:
        """Subscribe to a topic; reliable unless a quality of service is given."""
        check_topic(topic)
        quality = quality or Quality(reliable=True, latched=is_latched(topic, type_name))
        received = ZenohSubscription(topic, quality.depth)
        key = topic_key(self.domain, topic, type_name, self.distro)
        reader: Any
        if quality.latched:
            history = self._latching.HistoryConfig(detect_late_publishers=True, max_samples=quality.depth)
            reader = self._latching.declare_advanced_subscriber(
                self._session, key, received.keep, history=history, subscriber_detection=True
            )
        else:
            reader = self._session.declare_subscriber(key, received.keep)
        self._readers.append(reader)
        self._announced(_SUBSCRIPTION, topic, type_name, quality)
        return received

    def publishers(self, topic: str) -> list[Publisher]:
        """Publishers of a topic in the domain, except this node."""
        return [Publisher(one.type, one.reliable) for one in self._others(topic) if one.kind == _PUBLISHER]

    def _others(self, topic: str) -> list[Token]:
        replies = self._session.liveliness().get(f"{_ADMIN}/{self.domain}/**", timeout=_GET_S)
        found = (parsed_token(str(one.ok.key_expr)) for one in replies if one.ok is not None)
        return [one for one in found if one is not None and one.topic == topic and one.session != self._id]

    def close(self) -> None:
        """Leave the network. Closing twice is allowed."""
        if not self._open:
            return
        self._open = False
        for one in (*self._tokens, *self._readers, *(writer for writer, _, _ in self._writers.values())):
            one.undeclare()
        self._session.close()
