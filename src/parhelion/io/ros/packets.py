"""ROS 2 messages with the raw packets of lidars, as their drivers record them.

Types: velodyne_msgs/VelodyneScan, pandar_msgs/PandarScan, nebula_msgs/NebulaPackets and rslidar_msg/RslidarPacket.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator

from parhelion.core.errors import FormatError
from parhelion.io.ros.types import CdrReader, Message
from parhelion.makers import LOOPBACK, Datagram

_SENSOR = (LOOPBACK, 2368)
_LARGEST = 65507  # bytes of a UDP datagram

Packets = Iterator[tuple[float, bytes]]
"""Times [s since 1970] and payloads."""


def _stamp_s(read: CdrReader) -> float:
    return read.number("I") + 1e-9 * read.number("I")


def _payload(read: CdrReader, data: bytes, size: int) -> bytes:
    read.at += size
    if size > _LARGEST or read.at > len(data):
        raise ValueError("a packet is longer than its message")
    return data[read.at - size : read.at]


def _arrays(size: int, sized: bool) -> Callable[[CdrReader, bytes], Packets]:
    """Packets in arrays of a fixed size, which the length follows if `sized`."""

    def packets(read: CdrReader, data: bytes) -> Packets:
        for _ in range(read.number("I")):
            time_s = _stamp_s(read)
            payload = _payload(read, data, size)
            yield time_s, payload[: read.number("I")] if sized else payload

    return packets


def _sequences(read: CdrReader, data: bytes) -> Packets:
    for _ in range(read.number("I")):
        time_s = _stamp_s(read)
        yield time_s, _payload(read, data, read.number("I"))


PACKET_MESSAGES: dict[str, Callable[[CdrReader, bytes], Packets] | None] = {
    "velodyne_msgs/msg/VelodyneScan": _arrays(1206, sized=False),
    "pandar_msgs/msg/PandarScan": _arrays(1500, sized=True),
    "nebula_msgs/msg/NebulaPackets": _sequences,
    "rslidar_msg/msg/RslidarPacket": None,
}
"""Readers of the packets after the header, by type; None for one packet per message."""


def datagrams_of(message: Message) -> list[Datagram]:
    """Packets of a message as datagrams."""
    data = message.data
    try:
        read = CdrReader(data)
        stamp_s = _stamp_s(read)
        read.text()
        packets = PACKET_MESSAGES[message.type]
        if packets is None:
            read.at += 2  # two flags
            found = [(stamp_s, _payload(read, data, read.number("I")))]
        else:
            found = list(packets(read, data))
    except (struct.error, ValueError, IndexError) as error:
        raise FormatError(f"{message.topic}: a {message.type} cannot be decoded ({type(error).__name__})") from None
    return [Datagram(time_s, payload, _SENSOR, _SENSOR) for time_s, payload in found]
