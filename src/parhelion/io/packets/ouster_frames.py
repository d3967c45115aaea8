"""Which of an Ouster's packets make one frame, told as they come in."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain, islice

from parhelion.core.errors import FormatError
from parhelion.io.packets.ouster_layout import LIDAR_PACKET, packet_type, profile_called
from parhelion.io.packets.ouster_metadata import SensorDescription

_LOOKED_AT = 64  # packets by which it is told whether the metadata's own sensor sent any


def by_frame(payloads: Iterable[bytes], sensor: SensorDescription, source: str) -> Iterator[list[bytes]]:
    """The lidar packets of each frame; at most two frames are held, so that a late packet finds its own."""
    waiting: dict[int, dict[int, bytes]] = {}
    newest: int | None = None
    has_header = profile_called(sensor.profile).has_header
    frame_at, column_at = (2, 40) if has_header else (10, 8)
    for packet in _own_packets(payloads, sensor, source):
        told = int.from_bytes(packet[frame_at : frame_at + 2], "little")
        # Frame numbers wrap at 16 bits.
        number = told if newest is None else newest + (told - newest + 0x8000) % 0x10000 - 0x8000
        if newest is not None and number < newest - 1:  # the sensor was started anew
            yield from (list(waiting.pop(done).values()) for done in sorted(waiting))
            newest, number = None, told
        newest = number if newest is None else max(newest, number)
        yield from (list(waiting.pop(done).values()) for done in sorted(waiting) if done < newest - 1)
        column = int.from_bytes(packet[column_at : column_at + 2], "little")
        if column < sensor.columns:
            # Of a packet that came twice, the first is kept.
            waiting.setdefault(number, {}).setdefault(column, packet)
    yield from (list(waiting[done].values()) for done in sorted(waiting))


def _own_packets(payloads: Iterable[bytes], sensor: SensorDescription, source: str) -> Iterator[bytes]:
    """The lidar packets of this sensor, or, where its serial number sent none, of all sensors of its kind."""
    has_header = profile_called(sensor.profile).has_header
    size = packet_type(sensor.profile, sensor.channels).itemsize
    others: set[int] = set()

    def lidar_packets() -> Iterator[bytes]:
        for payload in payloads:
            if len(payload) == size and (not has_header or int.from_bytes(payload[:2], "little") == LIDAR_PACKET):
                yield payload
            else:
                others.add(len(payload))

    packets = lidar_packets()
    first = list(islice(packets, _LOOKED_AT))
    if not first:
        there = ", ".join(map(str, sorted(others)[:8])) or "none"
        raise FormatError(
            f"{source}: no lidar packet of {size} bytes, which {sensor.profile} with {sensor.channels} "
            f"channels has; payloads there: {there}"
        )
    own = (sensor.serial & 0xFFFFFFFFFF).to_bytes(5, "little")
    only_own = has_header and any(packet[7:12] == own for packet in first)
    for packet in chain(first, packets):
        if not only_own or packet[7:12] == own:
            yield packet
