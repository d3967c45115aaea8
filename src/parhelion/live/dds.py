"""ROS 2 topics over DDS, without ROS: publishers and subscriptions on Cyclone DDS, on the loopback interface.

Names, quality of service and wire format are those of ROS 2, so ROS nodes treat the topics like any others.
"""

from __future__ import annotations

import ctypes
import os
import socket
import stat
import types
from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, Protocol

from parhelion.core.errors import ConfigError, MissingDependencyError, ParhelionError
from parhelion.core.interrupts import uninterrupted
from parhelion.io.ros.types import (
    DISTROS,
    HUMBLE,
    LATCHED_TYPES,
    Message,
    check_distro,
    field_definitions,
    hash_of,
    type_store,
)

if TYPE_CHECKING:
    from typing_extensions import Self

# ---- ROS 2 messages as DDS types, generated from their definitions, that carry serialised CDR bytes -----------------
# Cyclone checks every sample against its declared type, and newer ROS 2 peers compare types member by member (XTypes).
# So a type declares all its members; only the slow conversion between Python objects and bytes is skipped.


INSTALL_DDS = "live ROS 2 needs the package cyclonedds: pip install 'parhelion[ros]'"


def dds_topic(topic: str) -> str:
    """Name on the wire of a ROS 2 topic: '/points' is 'rt/points'."""
    return "rt/" + topic.lstrip("/")


def dds_type_name(name: str) -> str:
    """Name on the wire of a ROS 2 type: 'sensor_msgs/msg/Imu' is 'sensor_msgs::msg::dds_::Imu_'."""
    package, kind, message = name.split("/") if name.count("/") == 2 else ("", "", "")
    if not package or not message or kind not in ("msg", "srv", "action"):
        raise ConfigError(f"{name!r} is not a ROS 2 message: write it as in 'sensor_msgs/msg/Imu'")
    return f"{package}::{kind}::dds_::{message}_"


def ros_type_name(name: str) -> str:
    """ROS 2 name of a message type on the wire; other names are returned as they are."""
    package, _, message = name.partition("::msg::dds_::")
    return f"{package}/msg/{message.removesuffix('_')}" if message else name


def dds_type(name: str, distro: str = HUMBLE) -> Any:
    """DDS type of a message; an instance holds the CDR bytes of a message in `cdr`."""
    # One type for all distributions with the same definition.
    return _dds_type(name, distro if name in DISTROS[distro] else HUMBLE)


@cache
def _dds_type(name: str, distro: str) -> Any:
    definitions = field_definitions(type_store(distro))
    if name not in definitions:
        raise ConfigError(f"{name!r} is not a message that ROS 2 {distro.capitalize()} defines")
    return carrier(name, dds_type_name(name), distro=distro)


def carrier(name: str, wire_name: str, before: dict[str, Any] | None = None, *, distro: str = HUMBLE) -> Any:
    """DDS type with the members of a message, after those in `before`; an instance holds CDR bytes in `cdr`."""
    try:
        from cyclonedds.idl import IdlStruct
        from cyclonedds.idl.annotations import final
    except ImportError:
        raise MissingDependencyError(INSTALL_DDS) from None
    own = {member: _member_type(node) for member, node in field_definitions(type_store(distro))[name][1]}
    members = {**(before or {}), **own}

    def body(namespace: dict[str, Any]) -> None:
        namespace["__annotations__"] = members
        namespace.update(__init__=_init, serialize=_serialize)
        namespace["deserialize"] = namespace["deserialize_key"] = classmethod(_deserialize)

    typename = wire_name.replace("::", ".")
    return final(types.new_class(name.rpartition("/")[2], (IdlStruct,), {"typename": typename}, body))


def type_hash(name: str, distro: str = HUMBLE) -> str:
    """Hash of a message definition (RIHS01), which peers of ROS 2 Iron and later expect."""
    return hash_of(name, distro)


def _init(self: Any, cdr: bytes = b"") -> None:
    self.cdr = cdr


def _serialize(self: Any, *_: Any, **__: Any) -> bytes:
    return self.cdr  # type: ignore[no-any-return]


def _deserialize(cls: Any, data: bytes, *_: Any, **__: Any) -> Any:
    return cls(bytes(data))  # no copy if they are bytes already


def _member_type(node: Any) -> Any:
    """Type of a member, from the parsed definition."""
    from cyclonedds.idl import types as idl
    from rosbags.interfaces import Nodetype

    kind, what = node
    if kind == Nodetype.NAME:
        return dds_type(what)
    if kind == Nodetype.BASE:
        base, bound = what
        if base == "string":
            return idl.bounded_str[bound] if bound else str
        plain = {"bool": bool, "octet": idl.uint8, "byte": idl.uint8, "char": idl.uint8}
        return plain[base] if base in plain else getattr(idl, base)
    inner, count = what
    element = _member_type(inner)
    if kind == Nodetype.ARRAY:
        return idl.array[element, count]
    return idl.sequence[element, count] if count else idl.sequence[element]


# ---- dds ------------------------------------------------------------------------------------------------------------


LOOPBACK = "lo"
ANY = "any"
"""Value for `interface`: let Cyclone or ROS choose."""
HIGHEST_DOMAIN = 232
"""Highest domain whose ports stay below 65536."""
SENSOR_TYPES = frozenset(
    f"sensor_msgs/msg/{name}"
    for name in (
        "PointCloud2",
        "LaserScan",
        "Imu",
        "MagneticField",
        "FluidPressure",
        "Range",
        "NavSatFix",
        "Image",
        "CompressedImage",
        "CameraInfo",
    )
)
"""Messages sent as sensor data: best effort with a short history, unless `reliable` is set."""
LATCHED_TOPICS = frozenset({"/tf_static", "/weather/state"})
"""Topics whose last messages are delivered to late subscribers."""
SENSOR_DEPTH, OTHER_DEPTH = 5, 10
_MOST_PUBLISHERS = 10_000
"""Maximum number of discovered publishers that are searched for a topic."""
_MOST_PARTICIPANTS = 32
"""Maximum number of participants of a domain on loopback, and number of ports probed by discovery."""
_LONGEST_DATAGRAM, _LONGEST_PIECE = 65_000, 63_000
"""Maximum datagram size [bytes]: loopback carries it unfragmented, so large clouds need few datagrams."""
_QUEUE_BYTES = 256 << 20
_RECEIVE_BYTES = 64 << 20
"""Requested receive buffer; the kernel grants up to net.core.rmem_max."""
_BLOCK_S = 0.1
"""Longest time [s] for which a reliable subscriber may block the sender."""
_FATAL = 1
"""Log category of Cyclone for fatal messages."""


def is_latched(topic: str, type_name: str) -> bool:
    """Return whether late subscribers of a topic receive its last messages."""
    return topic in LATCHED_TOPICS or type_name in LATCHED_TYPES


@dataclass(frozen=True)
class Quality:
    """Quality of service of a topic."""

    reliable: bool
    latched: bool = False
    """True for transient-local durability: late subscribers receive the last messages."""
    depth: int = OTHER_DEPTH
    """History depth."""

    @classmethod
    def of(cls, topic: str, type_name: str, all_reliable: bool = False) -> Quality:
        """Quality of service as in ROS drivers: best effort for sensor data, transient local for latched topics."""
        if is_latched(topic, type_name):
            return cls(reliable=True, latched=True)
        if type_name in SENSOR_TYPES:
            return cls(reliable=all_reliable, depth=SENSOR_DEPTH)
        return cls(reliable=True)


@dataclass(frozen=True)
class Publisher:
    """Publisher of a topic that discovery found."""

    type: str
    """Message type, such as 'sensor_msgs/msg/PointCloud2'."""
    reliable: bool
    """False for best effort, which a reliable subscription does not match."""


@dataclass
class Sent:
    """Statistics of a published topic."""

    type: str
    messages: int = 0
    bytes: int = 0
    refused: int = 0
    """Number of messages dropped because a reliable subscriber stopped reading."""


class TopicSubscription(Protocol):
    """Subscription to a topic."""

    topic: str

    def take(self) -> list[bytes]:
        """CDR bytes of the messages received since the last call, oldest first."""
        ...

    def take_timed(self) -> list[tuple[bytes, int]]:
        """Like `take`, each with the wall time of sending [ns since 1970], or of receiving if it is unknown."""
        ...

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a message; return True if there is one."""
        ...


class Node(ABC):
    """ROS 2 node in one domain that publishes and receives serialised CDR bytes; topics are created on first use."""

    def __init__(self, domain: int, interface: str, reliable: bool, distro: str = HUMBLE) -> None:
        self.domain, self.interface, self.reliable = domain, interface, reliable
        self.distro = check_distro(distro)
        """Distribution of ROS 2 that defines the messages."""
        self.sent: dict[str, Sent] = {}
        """By topic."""

    def publish(self, message: Message) -> bool:
        """Send a message; return False if it was dropped because a reliable subscriber blocked it for too long."""
        self.advertise(message.topic, message.type)
        topic = self.sent[message.topic]
        if topic.type != message.type:
            raise ConfigError(f"ROS: {message.topic} carries {topic.type}, not {message.type}")
        if not self._send(message):
            topic.refused += 1
            return False
        topic.messages += 1
        topic.bytes += len(message.data)
        return True

    def advertise(self, topic: str, type_name: str) -> None:
        """Advertise a topic before its first message."""
        if topic not in self.sent:
            self._announce(topic, type_name, Quality.of(topic, type_name, self.reliable))
            self.sent[topic] = Sent(type_name)

    @abstractmethod
    def _send(self, message: Message) -> bool:
        """Send a message on an advertised topic; return False if it was dropped."""

    @abstractmethod
    def _announce(self, topic: str, type_name: str, quality: Quality) -> None:
        """Create a topic."""

    @abstractmethod
    def subscribers(self, topic: str) -> int:
        """Number of subscribers of a topic published by this node."""

    @abstractmethod
    def subscribe(self, topic: str, type_name: str, quality: Quality | None = None) -> TopicSubscription:
        """Subscribe to a topic; reliable unless a quality of service is given."""

    @abstractmethod
    def publishers(self, topic: str) -> list[Publisher]:
        """Publishers of a topic in the domain, except this node."""

    @abstractmethod
    def close(self) -> None:
        """Leave the domain. Closing twice is allowed."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DdsNode(Node):
    """Node that publishes and subscribes in one DDS domain.

    node = DdsNode(domain=0)
    node.publish(message)                              # topics are created on first use
    commands = node.subscribe("/cmd_vel", "geometry_msgs/msg/Twist")
    commands.take()                                    # CDR bytes received since the last call
    node.close()

    All traffic, including discovery, stays on the loopback interface unless another one is given.
    """

    def __init__(
        self, domain: int = 0, interface: str = LOOPBACK, *, reliable: bool = False, distro: str = HUMBLE
    ) -> None:
        super().__init__(check_domain(domain), check_interface(interface), reliable, distro)
        self._writers: dict[str, Any] = {}
        self._topics: dict[tuple[str, str], Any] = {}
        self._readers: list[Any] = []
        self._discovered: Any = None
        self._open = False
        try:
            from cyclonedds.core import DDSException
            from cyclonedds.domain import Domain, DomainParticipant
            from cyclonedds.qos import Policy, Qos
        except ImportError:
            raise MissingDependencyError(INSTALL_DDS) from None
        self._failure = DDSException
        before = _sockets()
        try:
            self._domain = Domain(domain, configuration(interface))
            # ROS 2 recognises its own participants by this.
            self._participant = DomainParticipant(domain, Qos(Policy.Userdata(b"enclave=/;")))
        except DDSException as error:
            raise ConfigError(
                f"DDS: domain {domain} cannot be opened on {interface} ({_reason(error)}); it may be open in this "
                f"process, the interface may be down, or {_MOST_PARTICIPANTS} others use the domain"
            ) from None
        self._open = True
        _silence_messages()
        if interface == LOOPBACK:
            # Cyclone listens on all addresses regardless of its settings, so the kernel binds it to the interface.
            _hold_to_interface(_sockets() - before, interface)

    # ---- publishing --------------------------------------------------------------------------------------------

    def _send(self, message: Message) -> bool:
        try:
            self._writers[message.topic].write(dds_type(message.type, self.distro)(message.data))
        except self._failure as error:
            if error.code == error.DDS_RETCODE_TIMEOUT:
                return False
            raise ParhelionError(f"DDS: {message.topic} cannot be sent ({_reason(error)})") from None
        return True

    def _announce(self, topic: str, type_name: str, quality: Quality) -> None:
        from cyclonedds.pub import DataWriter

        self._writers[topic] = DataWriter(
            self._participant, self._topic(topic, type_name), self._qos(type_name, quality)
        )

    def subscribers(self, topic: str) -> int:
        """Number of subscribers of a topic published by this node."""
        writer = self._writers.get(topic)
        # Not the length of get_matched_subscriptions(): it queries twice, and fails if a subscriber joins in between.
        return 0 if writer is None else int(writer.get_publication_matched_status().current_count)

    # ---- subscribing -------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, type_name: str, quality: Quality | None = None) -> Subscription:
        """Subscribe to a topic; reliable unless a quality of service is given."""
        from cyclonedds.sub import DataReader

        quality = quality or Quality(reliable=True, latched=is_latched(topic, type_name))
        reader = DataReader(self._participant, self._topic(topic, type_name), self._qos(type_name, quality))
        self._readers.append(reader)
        return Subscription(topic, type_name, reader, quality.depth, self._participant)

    def publishers(self, topic: str) -> list[Publisher]:
        """Publishers of a topic in the domain, except this node."""
        from cyclonedds.builtin import BuiltinDataReader, BuiltinTopicDcpsPublication
        from cyclonedds.core import InstanceState
        from cyclonedds.qos import Policy

        check_topic(topic)
        if self._discovered is None:
            self._discovered = BuiltinDataReader(self._participant, BuiltinTopicDcpsPublication)
        found = []
        for one in self._discovered.read(_MOST_PUBLISHERS):
            there = one.sample_info.instance_state == InstanceState.Alive
            if there and one.topic_name == dds_topic(topic) and one.participant_key != self._participant.guid:
                reliable = one.qos[Policy.Reliability] != Policy.Reliability.BestEffort
                found.append(Publisher(ros_type_name(one.type_name), reliable))
        return found

    # ---- services ----------------------------------------------------------------------------------------------

    @property
    def participant(self) -> Any:
        """Participant of Cyclone."""
        return self._participant

    def endpoint(self, kind: Literal["reader", "writer"], wire_topic: str, dds_kind: Any, qos: Any) -> Any:
        """Reader or writer of a topic by its name on the wire, for services; it is closed with the node."""
        from cyclonedds.pub import DataWriter
        from cyclonedds.sub import DataReader
        from cyclonedds.topic import Topic

        if not self._open:
            raise ParhelionError("DDS: this node is closed")
        key = (wire_topic, dds_kind.__name__)
        if key not in self._topics:
            self._topics[key] = Topic(self._participant, wire_topic, dds_kind)
        if kind == "reader":
            self._readers.append(DataReader(self._participant, self._topics[key], qos))
            return self._readers[-1]
        self._writers[wire_topic] = DataWriter(self._participant, self._topics[key], qos)
        return self._writers[wire_topic]

    # ---- closing -----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the domain and notify subscribers. Closing twice is allowed."""
        if not self._open:
            return
        self._open = False
        # Children first: each deletes its own handle.
        children = (
            *(() if self._discovered is None else (self._discovered,)),
            *self._readers,
            *self._writers.values(),
            *self._topics.values(),
        )
        with uninterrupted:
            for entity in (*children, self._participant, self._domain):
                entity.__del__()
        self._readers.clear()
        self._writers.clear()
        self._topics.clear()

    def _topic(self, topic: str, type_name: str) -> Any:
        from cyclonedds.topic import Topic

        check_topic(topic)
        if not self._open:
            raise ParhelionError("DDS: this node is closed")
        if (topic, type_name) not in self._topics:
            try:
                made = Topic(self._participant, dds_topic(topic), dds_type(type_name, self.distro))
            except self._failure as error:
                raise ConfigError(f"DDS: {topic} cannot be created as {type_name} ({_reason(error)})") from None
            self._topics[topic, type_name] = made
        return self._topics[topic, type_name]

    def _qos(self, type_name: str, quality: Quality) -> Any:
        from cyclonedds.qos import Policy, Qos
        from cyclonedds.util import duration

        reliability = (
            Policy.Reliability.Reliable(duration(seconds=_BLOCK_S))
            if quality.reliable
            else Policy.Reliability.BestEffort
        )
        return Qos(
            reliability,
            Policy.Durability.TransientLocal if quality.latched else Policy.Durability.Volatile,
            Policy.History.KeepLast(quality.depth),
            Policy.DataRepresentation(use_cdrv0_representation=True),
            Policy.Userdata(f"typehash={type_hash(type_name, self.distro)};".encode()),
        )


@dataclass
class Subscription:
    """Subscription to a topic."""

    topic: str
    type: str
    _reader: Any = field(repr=False)
    _depth: int = field(repr=False)
    _participant: Any = field(repr=False)
    _waiting: Any = field(repr=False, default=None)

    def take(self) -> list[bytes]:
        """CDR bytes of the messages received since the last call, oldest first."""
        return [data for data, _ in self.take_timed()]

    def take_timed(self) -> list[tuple[bytes, int]]:
        """Like `take`, each with the wall time of sending [ns since 1970] by the sender's clock."""
        samples = (sample for sample in self._reader.take(self._depth) if sample.sample_info.valid_data)
        return [(sample.cdr, int(sample.sample_info.source_timestamp)) for sample in samples]

    def wait(self, seconds: float) -> bool:
        """Wait up to `seconds` for a message; return True if there is one."""
        from cyclonedds.core import InstanceState, ReadCondition, SampleState, ViewState, WaitSet

        if self._waiting is None:
            self._waiting = WaitSet(self._participant)
            self._waiting.attach(ReadCondition(self._reader, SampleState.NotRead | ViewState.Any | InstanceState.Any))
        return bool(self._waiting.wait(max(round(seconds * 1e9), 1)))

    @property
    def lost(self) -> int:
        """Number of messages that the network lost, as far as the reader noticed."""
        return int(self._reader.get_sample_lost_status().total_count)

    @property
    def publishers(self) -> int:
        """Number of publishers."""
        return int(self._reader.get_subscription_matched_status().current_count)


def configuration(interface: str) -> str:
    """Cyclone settings (XML) for an interface.

    On loopback, peers are discovered in two ways: by multicast on that interface, for peers with settings such as those
    of ROS_LOCALHOST_ONLY, and port by port, for peers without multicast. Data never uses multicast. On other interfaces
    the defaults of Cyclone apply.
    """
    if interface == ANY:
        return f"<CycloneDDS><Domain Id='any'>{_QUEUES}</Domain></CycloneDDS>"
    if interface != LOOPBACK:
        return (
            f"<CycloneDDS><Domain Id='any'><General><Interfaces><NetworkInterface name='{interface}'/></Interfaces>"
            f"</General>{_QUEUES}</Domain></CycloneDDS>"
        )
    return (
        "<CycloneDDS><Domain Id='any'><General><Interfaces>"
        f"<NetworkInterface name='{interface}' multicast='true'/></Interfaces>"
        "<AllowMulticast>spdp</AllowMulticast>"
        f"<MaxMessageSize>{_LONGEST_DATAGRAM} B</MaxMessageSize><FragmentSize>{_LONGEST_PIECE} B</FragmentSize>"
        "</General><Discovery><ParticipantIndex>auto</ParticipantIndex>"
        f"<MaxAutoParticipantIndex>{_MOST_PARTICIPANTS}</MaxAutoParticipantIndex>"
        "<Peers><Peer Address='127.0.0.1'/></Peers></Discovery>"
        f"{_QUEUES}</Domain></CycloneDDS>"
    )


# Large clouds for a slow subscriber must not block the sender: old messages are dropped by the history depth.
_QUEUES = (
    f"<Internal><Watermarks><WhcHigh>{_QUEUE_BYTES} B</WhcHigh><WhcHighInit>{_QUEUE_BYTES} B</WhcHighInit>"
    "<WhcAdaptive>false</WhcAdaptive></Watermarks>"
    f"<SocketReceiveBufferSize min='default' max='{_RECEIVE_BYTES} B'/></Internal>"
)


def check_domain(domain: int) -> int:
    """Return a valid domain number, or raise."""
    if not 0 <= domain <= HIGHEST_DOMAIN:
        raise ConfigError(f"DDS: the domain must be a number from 0 to {HIGHEST_DOMAIN}, got {domain}")
    return domain


def check_interface(interface: str) -> str:
    """Return the name of an existing network interface or 'any', or raise."""
    known = [name for _, name in socket.if_nameindex()]
    if interface not in (ANY, *known):
        raise ConfigError(f"no network interface {interface!r}; this machine has: {', '.join(known)}")
    return interface


def check_topic(topic: str) -> None:
    """Raise ConfigError for a topic that ROS 2 does not allow."""
    plain = topic.replace("/", "").replace("_", "")
    if not topic.startswith("/") or topic.endswith("/") or "//" in topic or not (plain.isascii() and plain.isalnum()):
        raise ConfigError(f"{topic!r} is not a valid ROS 2 topic: write /, then letters, digits, _ and single /")


def _reason(error: Any) -> str:
    return str(getattr(error, "msg", error)).split(". ")[0]


def _sockets() -> set[int]:
    """File descriptors of this process that are UDP sockets over IPv4."""
    found = set()
    for entry in Path("/proc/self/fd").iterdir():
        number = int(entry.name)
        try:
            if stat.S_ISSOCK(os.fstat(number).st_mode):
                with socket.socket(fileno=os.dup(number)) as one:
                    if one.family == socket.AF_INET and one.type == socket.SOCK_DGRAM:
                        found.add(number)
        except OSError:  # closed in the meantime
            continue
    return found


def _silence_messages() -> None:
    """Stop Cyclone from printing a line for every unreadable packet, whose number any sender controls.

    The XML settings do not affect these lines.
    """
    from cyclonedds.internal import DDS

    set_mask = getattr(DDS._dll_handle, "dds_set_log_mask", None)
    if set_mask is not None:
        set_mask.argtypes, set_mask.restype = [ctypes.c_uint32], None
        set_mask(_FATAL)


def _hold_to_interface(sockets: set[int], interface: str) -> None:
    """Let the kernel receive and send over one interface only."""
    for number in sockets:
        with socket.socket(fileno=os.dup(number)) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
