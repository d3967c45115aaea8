"""ROS 2 topics over DDS, without ROS: publishers and subscriptions on Cyclone DDS, on the loopback interface.

Names, qualities of service and bytes on the wire are those of ROS 2, so ROS nodes see the topics as any others.
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
from typing import TYPE_CHECKING, Any

from parhelion.core.errors import ConfigError, MissingDependencyError, ParhelionError
from parhelion.io.ros.types import Message, definition_of, type_store

if TYPE_CHECKING:
    from typing_extensions import Self

# ---- ROS 2 messages as DDS types, made from their definitions, that take and give ready CDR bytes -------------------
# Cyclone checks every sample against the type that it was told, and newer ROS 2 peers compare types member by member
# (XTypes), so a type says all its members; what is skipped is only the slow way from Python objects to bytes and back.


INSTALL_DDS = "live ROS 2 needs the package cyclonedds: pip install 'parhelion[ros]'"


def dds_topic(topic: str) -> str:
    """Name on the wire of a ROS 2 topic: '/points' is 'rt/points'."""
    return "rt/" + topic.lstrip("/")


def dds_type_name(name: str) -> str:
    """Name on the wire of a ROS 2 message: 'sensor_msgs/msg/Imu' is 'sensor_msgs::msg::dds_::Imu_'."""
    package, _, message = name.partition("/msg/")
    if not package or not message or "/" in package + message:
        raise ConfigError(f"{name!r} is no message of ROS 2: write it as in 'sensor_msgs/msg/Imu'")
    return f"{package}::msg::dds_::{message}_"


@cache
def dds_type(name: str) -> Any:
    """The DDS type of a message: an instance holds the CDR bytes of one in `cdr`."""
    definitions = _definitions()
    if name not in definitions:
        raise ConfigError(f"{name!r} is no message that ROS 2 Humble defines")
    try:
        from cyclonedds.idl import IdlStruct
        from cyclonedds.idl.annotations import final
    except ImportError:
        raise MissingDependencyError(INSTALL_DDS) from None
    members = {member: _member_type(node) for member, node in definitions[name][1]}

    def body(namespace: dict[str, Any]) -> None:
        namespace["__annotations__"] = members
        namespace.update(__init__=_init, serialize=_serialize)
        namespace["deserialize"] = namespace["deserialize_key"] = classmethod(_deserialize)

    typename = dds_type_name(name).replace("::", ".")
    return final(types.new_class(name.rpartition("/")[2], (IdlStruct,), {"typename": typename}, body))


def type_hash(name: str) -> str:
    """The hash of a message's definition (RIHS01), which peers from ROS 2 Iron on look for."""
    return definition_of(name)[1]


def _init(self: Any, cdr: bytes = b"") -> None:
    self.cdr = cdr


def _serialize(self: Any, *_: Any, **__: Any) -> bytes:
    return self.cdr  # type: ignore[no-any-return]


def _deserialize(cls: Any, data: bytes, *_: Any, **__: Any) -> Any:
    return cls(bytes(data))


def _definitions() -> Any:
    store = type_store()
    # The name changed between versions of rosbags.
    return getattr(store, "fielddefs", None) or store.FIELDDEFS


def _member_type(node: Any) -> Any:
    """The type of a member, from what the parser of definitions made of it."""
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
"""Instead of an interface: those that Cyclone, or ROS, chooses by itself."""
HIGHEST_DOMAIN = 232
"""Beyond it the ports of a domain would pass 65535."""
SENSOR_TYPES = frozenset(f"sensor_msgs/msg/{name}" for name in (
    "PointCloud2", "LaserScan", "Imu", "MagneticField", "FluidPressure", "Range", "NavSatFix", "Image",
    "CompressedImage", "CameraInfo",
))  # fmt: skip
"""Messages that are sent as sensor data: best effort, the last few, unless all is to be reliable."""
LATCHED_TOPICS = frozenset({"/tf_static"})
"""Topics whose last messages are given to subscribers that come later."""
SENSOR_DEPTH, OTHER_DEPTH = 5, 10
_MOST_PARTICIPANTS = 32
"""Of one domain on the loopback interface: as many ports are called when looking for others."""
_LONGEST_DATAGRAM, _LONGEST_PIECE = 65_000, 63_000
"""Bytes; loopback carries them whole, and big clouds then need few."""
_QUEUE_BYTES = 256 << 20
_RECEIVE_BYTES = 64 << 20
"""Asked of the kernel, which gives as much as net.core.rmem_max allows."""
_BLOCK_S = 0.1
"""Longest time [s] for which a reliable subscriber may hold up the sender."""
_FATAL = 1
"""Cyclone's category of what it says before it ends the process."""


@dataclass(frozen=True)
class Quality:
    """Quality of service of a topic."""

    reliable: bool
    latched: bool = False
    """Whether it is kept for those who subscribe later (transient local)."""
    depth: int = OTHER_DEPTH
    """How many of the last messages are held."""

    @classmethod
    def of(cls, topic: str, type_name: str, all_reliable: bool = False) -> Quality:
        """What ROS drivers use: sensor data best effort, the rest reliable, what is told once latched."""
        if topic in LATCHED_TOPICS:
            return cls(reliable=True, latched=True)
        if type_name in SENSOR_TYPES:
            return cls(reliable=all_reliable, depth=SENSOR_DEPTH)
        return cls(reliable=True)


@dataclass
class Sent:
    """What went out on a topic."""

    type: str
    messages: int = 0
    bytes: int = 0
    refused: int = 0
    """Messages that were not taken in time, since a reliable subscriber had stopped reading."""


class Node(ABC):
    """A node of ROS 2 in one domain that publishes ready CDR bytes and receives them; topics are made as they come."""

    def __init__(self, domain: int, interface: str, reliable: bool) -> None:
        self.domain, self.interface, self.reliable = domain, interface, reliable
        self.sent: dict[str, Sent] = {}
        """By topic."""

    def publish(self, message: Message) -> bool:
        """Send a message; False where a reliable subscriber held it up for too long and it was given up."""
        self.advertise(message.topic, message.type)
        told = self.sent[message.topic]
        if told.type != message.type:
            raise ConfigError(f"ROS: {message.topic} carries {told.type}, not {message.type}")
        if not self._send(message):
            told.refused += 1
            return False
        told.messages += 1
        told.bytes += len(message.data)
        return True

    def advertise(self, topic: str, type_name: str) -> None:
        """Make a topic known before its first message."""
        if topic not in self.sent:
            self._announce(topic, type_name, Quality.of(topic, type_name, self.reliable))
            self.sent[topic] = Sent(type_name)

    @abstractmethod
    def _send(self, message: Message) -> bool:
        """Send a message on a topic that is known; False where it was given up."""

    @abstractmethod
    def _announce(self, topic: str, type_name: str, quality: Quality) -> None:
        """Make a topic."""

    @abstractmethod
    def subscribers(self, topic: str) -> int:
        """How many subscribe to a topic that is published here."""

    @abstractmethod
    def close(self) -> None:
        """Leave the domain. Closing twice does no harm."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class DdsNode(Node):
    """Publishes and subscribes in one DDS domain.

    node = DdsNode(domain=0)
    node.publish(message)                              # topics are made as they come
    commands = node.subscribe("/cmd_vel", "geometry_msgs/msg/Twist")
    commands.take()                                    # CDR bytes of what came since
    node.close()

    All traffic, that of discovery too, stays on the loopback interface unless another one is named.
    """

    def __init__(self, domain: int = 0, interface: str = LOOPBACK, *, reliable: bool = False) -> None:
        super().__init__(check_domain(domain), check_interface(interface), reliable)
        self._writers: dict[str, Any] = {}
        self._topics: dict[tuple[str, str], Any] = {}
        self._readers: list[Any] = []
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
            # By this ROS 2 tells its own participants from others.
            self._participant = DomainParticipant(domain, Qos(Policy.Userdata(b"enclave=/;")))
        except DDSException as error:
            raise ConfigError(
                f"DDS: domain {domain} cannot be opened on {interface} ({_reason(error)}); it may be open in this "
                f"process already, the interface may be down, or {_MOST_PARTICIPANTS} others use the domain"
            ) from None
        self._open = True
        _hush()
        if interface == LOOPBACK:
            # Cyclone listens on all addresses whatever it is told, so the kernel holds it to the interface.
            _hold_to_interface(_sockets() - before, interface)

    # ---- publishing --------------------------------------------------------------------------------------------

    def _send(self, message: Message) -> bool:
        try:
            self._writers[message.topic].write(dds_type(message.type)(message.data))
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
        """How many subscribe to a topic that is published here."""
        writer = self._writers.get(topic)
        # Not the length of get_matched_subscriptions(): that asks twice, and fails where one joins in between.
        return 0 if writer is None else int(writer.get_publication_matched_status().current_count)

    # ---- subscribing -------------------------------------------------------------------------------------------

    def subscribe(self, topic: str, type_name: str, quality: Quality | None = None) -> Subscription:
        """Receive a topic from now on; reliable unless a quality says otherwise."""
        from cyclonedds.sub import DataReader

        quality = quality or Quality(reliable=True, latched=topic in LATCHED_TOPICS)
        reader = DataReader(self._participant, self._topic(topic, type_name), self._qos(type_name, quality))
        self._readers.append(reader)
        return Subscription(topic, type_name, reader, quality.depth)

    # ---- the rest ----------------------------------------------------------------------------------------------

    def close(self) -> None:
        """Leave the domain; subscribers are told. Closing twice does no harm."""
        if not self._open:
            return
        self._open = False
        # Children first: each takes its own handle with it.
        children = (*self._readers, *self._writers.values(), *self._topics.values())
        for entity in (*children, self._participant, self._domain):
            entity.__del__()
        self._readers.clear()
        self._writers.clear()
        self._topics.clear()

    def _topic(self, topic: str, type_name: str) -> Any:
        from cyclonedds.topic import Topic

        _check_topic(topic)
        if not self._open:
            raise ParhelionError("DDS: this node is closed")
        if (topic, type_name) not in self._topics:
            try:
                made = Topic(self._participant, dds_topic(topic), dds_type(type_name))
            except self._failure as error:
                raise ConfigError(f"DDS: {topic} cannot be made as {type_name} ({_reason(error)})") from None
            self._topics[topic, type_name] = made
        return self._topics[topic, type_name]

    @staticmethod
    def _qos(type_name: str, quality: Quality) -> Any:
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
            Policy.Userdata(f"typehash={type_hash(type_name)};".encode()),
        )


@dataclass
class Subscription:
    """A topic that is received."""

    topic: str
    type: str
    _reader: Any = field(repr=False)
    _depth: int = field(repr=False)

    def take(self) -> list[bytes]:
        """The CDR bytes of messages that came since the last call, oldest first."""
        return [sample.cdr for sample in self._reader.take(self._depth) if sample.sample_info.valid_data]

    @property
    def publishers(self) -> int:
        """How many publish it."""
        return int(self._reader.get_subscription_matched_status().current_count)


def configuration(interface: str) -> str:
    """Cyclone's settings (XML) for an interface.

    On loopback others are looked for both ways: by multicast on that interface alone, for peers with settings such as
    ROS_LOCALHOST_ONLY makes, and one port after the other, for peers without multicast. Data never goes by multicast.
    Elsewhere Cyclone's own defaults hold.
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


# Large clouds to a slow subscriber must not hold up the sender: old ones make room, as the history's depth says.
_QUEUES = (
    f"<Internal><Watermarks><WhcHigh>{_QUEUE_BYTES} B</WhcHigh><WhcHighInit>{_QUEUE_BYTES} B</WhcHighInit>"
    "<WhcAdaptive>false</WhcAdaptive></Watermarks>"
    f"<SocketReceiveBufferSize min='default' max='{_RECEIVE_BYTES} B'/></Internal>"
)


def check_domain(domain: int) -> int:
    """A domain's number, if it may be one."""
    if not 0 <= domain <= HIGHEST_DOMAIN:
        raise ConfigError(f"DDS: a domain is a number from 0 to {HIGHEST_DOMAIN}, got {domain}")
    return domain


def check_interface(interface: str) -> str:
    """A network interface's name, if this machine has it, or 'any'."""
    known = [name for _, name in socket.if_nameindex()]
    if interface not in (ANY, *known):
        raise ConfigError(f"no network interface {interface!r}; this machine has: {', '.join(known)}")
    return interface


def _check_topic(topic: str) -> None:
    plain = topic.replace("/", "").replace("_", "")
    if not topic.startswith("/") or topic.endswith("/") or "//" in topic or not (plain.isascii() and plain.isalnum()):
        raise ConfigError(f"{topic!r} is no topic of ROS 2: a slash, then letters, digits, _ and single slashes")


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
        except OSError:  # closed meanwhile
            continue
    return found


def _hush() -> None:
    """Keep Cyclone from printing a line for every packet that it cannot read: whoever sends decides how many come.

    Its settings in XML do not reach these lines.
    """
    from cyclonedds.internal import DDS

    set_mask = getattr(DDS._dll_handle, "dds_set_log_mask", None)
    if set_mask is not None:
        set_mask.argtypes, set_mask.restype = [ctypes.c_uint32], None
        set_mask(_FATAL)


def _hold_to_interface(sockets: set[int], interface: str) -> None:
    """Have the kernel take and send nothing but over one interface."""
    for number in sockets:
        with socket.socket(fileno=os.dup(number)) as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_BINDTODEVICE, interface.encode() + b"\0")
