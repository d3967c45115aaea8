"""Network captures (pcap) of UDP datagrams: Ethernet, IPv4 and UDP with correct lengths and checksums.

Datagrams that exceed the MTU are split into IP fragments on writing and reassembled on reading.
Sources: libpcap's savefile format (https://www.tcpdump.org/manpages/pcap-savefile.5.html), RFC 791 (IPv4),
RFC 768 (UDP), RFC 815 (reassembly).
"""

from __future__ import annotations

import ipaddress
import struct
from collections.abc import Iterator
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import BinaryIO, NamedTuple

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write
from parhelion.core.reading import open_file, reading_each
from parhelion.makers import Datagram, Endpoint

SENSOR: Endpoint = ("192.168.1.201", 2368)
BROADCAST: Endpoint = ("255.255.255.255", 2368)
LARGEST_PAYLOAD = 65507
"""Largest payload of a UDP datagram over IPv4 [bytes]."""

_MAGIC = {0xA1B2C3D4: 1_000_000, 0xA1B23C4D: 1_000_000_000}  # time-stamp ticks per second
_ETHERNET, _RAW_IP, _COOKED, _NULL, _COOKED_2 = 1, 101, 113, 0, 276
_LINK_NAMES = {_ETHERNET: "Ethernet", _RAW_IP: "raw IP", _COOKED: "Linux cooked", _COOKED_2: "Linux cooked v2"}
_IPV4, _UDP = 0x0800, 17
_VLAN_TAGS = (0x8100, 0x88A8)
_MORE_FRAGMENTS = 0x2000
_DO_NOT_FRAGMENT = 0x4000
_SNAP_LENGTH = 262144
_MOST_WAITING = 256  # incomplete datagrams; beyond this, fragments were lost
_SOURCE_MAC = bytes.fromhex("020000000001")  # locally administered, so not assigned to any maker
_TARGET_MAC = bytes.fromhex("020000000002")
_BROADCAST_MAC = b"\xff" * 6


class PcapWriter:
    """Writer of captures. The file appears under its name, complete, on `close()`.

        with PcapWriter("drive.pcap") as capture:
            capture.write(0.0, packet, source=("192.168.1.201", 2368), target=("255.255.255.255", 2368))

    If an exception leaves the `with` block, or after `abandon()`, no file is written.
    """

    def __init__(self, path: str | PathLike[str], *, nanoseconds: bool = False, mtu: int = 1500) -> None:
        """Open a temporary file. `nanoseconds` selects time stamps in ns instead of us; `mtu` is in bytes."""
        if not 68 <= mtu <= 65535:
            raise ConfigError(f"mtu: must be from 68 to 65535 bytes, got {mtu}")
        self.path = Path(path)
        self.datagrams = 0
        self._ticks = 1_000_000_000 if nanoseconds else 1_000_000
        self._fragment = (mtu - 20) // 8 * 8
        self._identity = 0
        self._stack = ExitStack()
        temporary = self._stack.enter_context(atomic_write(self.path))
        try:
            self._file: BinaryIO | None = self._stack.enter_context(temporary.open("wb"))
            magic = 0xA1B23C4D if nanoseconds else 0xA1B2C3D4
            self._file.write(struct.pack("<IHHiIII", magic, 2, 4, 0, 0, _SNAP_LENGTH, _ETHERNET))
        except BaseException as error:
            self._stack.__exit__(type(error), error, error.__traceback__)
            raise

    def write(self, time_s: float, payload: bytes, source: Endpoint = SENSOR, target: Endpoint = BROADCAST) -> None:
        """Add one datagram captured at `time_s` [s since 1970]; above the MTU it becomes several frames."""
        if self._file is None:
            raise ConfigError(f"{self.path}: the capture is already closed")
        if not 0.0 <= time_s < 2.0**32:
            raise ConfigError(f"{self.path}: times in a capture must be from 0 to {2**32 - 1} s, got {time_s!r}")
        if len(payload) > LARGEST_PAYLOAD:
            raise ConfigError(
                f"{self.path}: a UDP datagram has at most {LARGEST_PAYLOAD} bytes of payload, got {len(payload)}"
            )
        sender, receiver = _packed(source), _packed(target)
        datagram = _udp(sender, source[1], receiver, target[1], payload)
        is_whole = len(datagram) <= self._fragment
        # As real senders do: fragments carry an identification number; unfragmented packets have none and set DF.
        self._identity = self._identity if is_whole else self._identity % 0xFFFF + 1
        broadcast = receiver[0] >= 224 or receiver == b"\xff\xff\xff\xff"
        ethernet = (_BROADCAST_MAC if broadcast else _TARGET_MAC) + _SOURCE_MAC + struct.pack(">H", _IPV4)
        ticks = round(time_s * self._ticks)
        stamp = divmod(ticks, self._ticks)
        frames = []
        for start in range(0, len(datagram), self._fragment):
            part = datagram[start : start + self._fragment]
            more = start + len(part) < len(datagram)
            flags = _DO_NOT_FRAGMENT if is_whole else (_MORE_FRAGMENTS if more else 0) | start // 8
            frame = ethernet + _ip_header(sender, receiver, len(part), 0 if is_whole else self._identity, flags) + part
            frames += [struct.pack("<IIII", *stamp, len(frame), len(frame)), frame]
        try:
            self._file.write(b"".join(frames))
        except OSError as error:
            self.abandon()
            raise FormatError(f"{self.path}: cannot be written ({error.strerror or error})") from None
        self.datagrams += 1

    def close(self) -> None:
        """Finish the file and rename it to its final name. A second call has no effect."""
        if self._file is not None:
            self._file = None
            self._stack.close()

    def abandon(self) -> None:
        """Remove the temporary file; an existing file at the path stays unchanged."""
        if self._file is not None:
            self._file = None
            stop = KeyboardInterrupt()
            try:
                self._stack.__exit__(KeyboardInterrupt, stop, None)
            except KeyboardInterrupt as error:
                if error is not stop:
                    raise

    def __enter__(self) -> PcapWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None:
            self.close()
        else:
            self.abandon()


def _packed(endpoint: Endpoint) -> bytes:
    address, port = endpoint
    try:
        packed = ipaddress.IPv4Address(address).packed
    except ValueError:
        raise ConfigError(f"capture: {address!r} is not an IPv4 address such as 192.168.1.201") from None
    if not 0 <= port <= 65535:
        raise ConfigError(f"capture: a UDP port must be from 0 to 65535, got {port}")
    return packed


def checksum(data: bytes) -> int:
    """Internet checksum of RFC 1071: the complement of the ones' complement sum of 16-bit words."""
    words = np.frombuffer(data + b"\0" if len(data) % 2 else data, ">u2")
    total = int(words.sum(dtype=np.uint64))
    while total >> 16:
        total = (total & 0xFFFF) + (total >> 16)
    return ~total & 0xFFFF


def _udp(sender: bytes, source_port: int, receiver: bytes, target_port: int, payload: bytes) -> bytes:
    length = 8 + len(payload)
    ports = struct.pack(">HHH", source_port, target_port, length)
    pseudo = sender + receiver + struct.pack(">BBH", 0, _UDP, length)
    # 0 means "no checksum", so a sum of 0 is sent as 0xFFFF, which is equivalent.
    total = checksum(pseudo + ports + b"\0\0" + payload) or 0xFFFF
    return ports + struct.pack(">H", total) + payload


def _ip_header(sender: bytes, receiver: bytes, size: int, identity: int, flags: int) -> bytes:
    head = struct.pack(">BBHHHBB", 0x45, 0, 20 + size, identity, flags, 255, _UDP)
    return head + struct.pack(">H", checksum(head + b"\0\0" + sender + receiver)) + sender + receiver


# ---- reading --------------------------------------------------------------------------------------------------------


class _Header(NamedTuple):
    order: str
    ticks: int
    link: int


def read_pcap(path: str | PathLike[str]) -> Iterator[Datagram]:
    """Iterate over the UDP datagrams of a capture, in order. Frames of other protocols are skipped.

    The file header is checked immediately, the rest while reading. Fragments are reassembled; datagrams with missing
    fragments are skipped. A file that ends within a frame raises FormatError after its last complete datagram.
    """
    file = Path(path)
    header = _checked_header(file)
    return reading_each(file, _datagrams(file, header))


def _checked_header(file: Path) -> _Header:
    with open_file(file) as source:
        head = source.read(24)
    if not head:
        raise FormatError(f"{file}: the file is empty")
    if head[:4] == b"\x0a\x0d\x0d\x0a":
        raise FormatError(f"{file}: is a pcapng capture; convert it with `editcap -F pcap {file.name} new.pcap`")
    for order in "<>":
        magic = struct.unpack(f"{order}I", head[:4])[0] if len(head) >= 4 else 0
        if magic not in _MAGIC:
            continue
        if len(head) < 24:
            raise FormatError(f"{file}: truncated, the file ends within its header")
        # The upper bits of the link type describe frame checksums.
        link = struct.unpack_from(f"{order}I", head, 20)[0] & 0xFFFF
        if link not in (*_LINK_NAMES, _NULL):
            known = ", ".join(_LINK_NAMES.values())
            raise FormatError(f"{file}: frames of link type {link} are not supported; known are {known} and loopback")
        return _Header(order, _MAGIC[magic], link)
    raise FormatError(f"{file}: is not a pcap capture")


def _datagrams(file: Path, header: _Header) -> Iterator[Datagram]:
    waiting: dict[tuple[bytes, int], _Fragments] = {}
    for number, (time_s, frame, missing) in enumerate(_frames(file, header), 1):
        start = _ip_start(frame, header.link)
        if start is None or len(frame) < start + 20 or frame[start] >> 4 != 4 or frame[start + 9] != _UDP:
            continue
        body = start + (frame[start] & 15) * 4
        total, identity, flags = struct.unpack_from(">HHH", frame, start + 2)
        if missing:
            raise FormatError(
                f"{file}: frame {number} was captured only in part ({len(frame)} of {len(frame) + missing} bytes)"
            )
        data = frame[body : start + total] if total else frame[body:]
        offset, more = (flags & 0x1FFF) * 8, bool(flags & _MORE_FRAGMENTS)
        ends = frame[start + 12 : start + 20]
        if offset or more:
            key = (ends, identity)
            parts = waiting.setdefault(key, _Fragments())
            whole = parts.add(offset, data, more)
            if whole is None:
                if len(waiting) > _MOST_WAITING:
                    del waiting[next(iter(waiting))]
                continue
            del waiting[key]
            data = whole
        payload = _payload(data)
        if payload is not None:
            source_port, target_port = struct.unpack_from(">HH", data)
            source, target = _address(ends[:4]), _address(ends[4:])
            yield Datagram(time_s, payload, (source, source_port), (target, target_port))


def _frames(file: Path, header: _Header) -> Iterator[tuple[float, bytes, int]]:
    """Time, bytes and number of missing bytes of each frame."""
    record = struct.Struct(f"{header.order}IIII")
    with open_file(file) as source:
        source.seek(24)
        number = 0
        while head := source.read(16):
            number += 1
            if len(head) < 16:
                raise FormatError(f"{file}: truncated within the header of frame {number}")
            seconds, ticks, stored, original = record.unpack(head)
            if stored > _SNAP_LENGTH or ticks >= header.ticks:
                raise FormatError(f"{file}: frame {number} is damaged ({stored} bytes, {ticks} ticks after the second)")
            frame = source.read(stored)
            if len(frame) < stored:
                raise FormatError(f"{file}: truncated, frame {number} has {len(frame)} of {stored} bytes")
            yield seconds + ticks / header.ticks, frame, max(original - stored, 0)


def _ip_start(frame: bytes, link: int) -> int | None:
    """Offset of the IPv4 packet in a frame; None for other protocols."""
    if link == _RAW_IP:
        return 0
    if link == _NULL:
        return 4 if frame[:4] in (b"\x02\0\0\0", b"\0\0\0\x02") else None
    if link == _COOKED_2:
        return 20 if frame[:2] == b"\x08\x00" else None
    place = 14 if link == _COOKED else 12
    while len(frame) >= place + 2:
        kind = int.from_bytes(frame[place : place + 2], "big")
        if kind == _IPV4:
            return place + 2
        if kind not in _VLAN_TAGS:
            return None
        place += 4
    return None


def _payload(data: bytes) -> bytes | None:
    """Payload of a UDP datagram; None if the data is shorter than its length field."""
    if len(data) < 8:
        return None
    length = int.from_bytes(data[4:6], "big")
    # Some sensors write a wrong IP length; receivers use the UDP length.
    return data[8:length] if 8 <= length <= len(data) else None


def _address(packed: bytes) -> str:
    return ".".join(map(str, packed))


class _Fragments:
    """Fragments of one datagram, received in any order."""

    def __init__(self) -> None:
        self._parts: dict[int, bytes] = {}
        self._size: int | None = None

    def add(self, offset: int, data: bytes, more: bool) -> bytes | None:
        """Add a fragment. Return the datagram when it is complete, None before."""
        self._parts[offset] = data
        if not more:
            self._size = offset + len(data)
        if self._size is None or sum(map(len, self._parts.values())) < self._size:
            return None
        whole = b"".join(self._parts[key] for key in sorted(self._parts))
        return whole if len(whole) == self._size else None
