"""A client of Foxglove's WebSocket protocol, and a parser of its messages that does not use the SDK."""

from __future__ import annotations

import json
import struct
from dataclasses import dataclass
from typing import Any

import numpy as np
from websockets.sync.client import connect

SUBPROTOCOLS = ["foxglove.sdk.v1", "foxglove.websocket.v1"]
NUMERIC = {1: "u1", 2: "i1", 3: "<u2", 4: "<i2", 5: "<u4", 6: "<i4", 7: "<f4", 8: "<f8"}


@dataclass
class Received:
    topic: str
    time_ns: int
    data: bytes


class Client:
    """Client that connects, receives the list of topics and subscribes."""

    def __init__(self, url: str) -> None:
        self.socket = connect(
            url, subprotocols=SUBPROTOCOLS, max_size=None, max_queue=None, open_timeout=10, close_timeout=1
        )  # type: ignore[arg-type]
        self.topics: dict[str, dict[str, Any]] = {}
        self.info: dict[str, Any] = {}
        self.times: list[int] = []
        self._names: dict[int, str] = {}
        self._waiting: list[Received] = []
        while not (self.topics and self.info):
            self._read(10.0)

    def subscribe(self, *topics: str) -> None:
        first = len(self._names)
        self._names |= {first + k: topic for k, topic in enumerate(topics)}
        wanted = [{"id": first + k, "channelId": self.topics[topic]["id"]} for k, topic in enumerate(topics)]
        self.socket.send(json.dumps({"op": "subscribe", "subscriptions": wanted}))

    def next(self, seconds: float = 10.0) -> Received:
        """The next message; raises TimeoutError if none arrives."""
        while not self._waiting:
            self._read(seconds)
        return self._waiting.pop(0)

    def _read(self, seconds: float) -> None:
        frame = self.socket.recv(timeout=seconds)
        if isinstance(frame, str):
            content = json.loads(frame)
            if content["op"] == "advertise":
                self.topics |= {channel["topic"]: channel for channel in content["channels"]}
            elif content["op"] == "serverInfo":
                self.info = content
        elif frame[0] == 1:
            number, time_ns = struct.unpack_from("<IQ", frame, 1)
            self._waiting.append(Received(self._names[number], time_ns, frame[13:]))
        elif frame[0] == 2:
            self.times.append(struct.unpack_from("<Q", frame, 1)[0])

    def close(self) -> None:
        self.socket.close()

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


# ---- protocol buffers, by the wire format alone ----------------------------------------------------------------------


def wire(data: bytes) -> dict[int, list[Any]]:
    """Protobuf fields by number: integers, 8 or 4 raw bytes, or the bytes of a nested message."""
    found: dict[int, list[Any]] = {}
    place = 0

    def varint() -> int:
        nonlocal place
        value = shift = 0
        while True:
            byte = data[place]
            place += 1
            value |= (byte & 0x7F) << shift
            shift += 7
            if byte < 0x80:
                return value

    while place < len(data):
        key = varint()
        kind = key & 7
        value: Any
        if kind == 0:
            value = varint()
        else:
            size = {1: 8, 5: 4}.get(kind) or varint()
            assert kind in (1, 2, 5)
            value = data[place : place + size]
            assert len(value) == size
            place += size
        found.setdefault(key >> 3, []).append(value)
    return found


def numbers(data: bytes, count: int) -> list[float]:
    """Fields 1 to count of a vector, quaternion or similar, as doubles; omitted fields are 0."""
    fields = wire(data)
    return [struct.unpack("<d", fields[k][0])[0] if k in fields else 0.0 for k in range(1, count + 1)]


def stamp_ns(data: bytes) -> int:
    fields = wire(data)
    return fields.get(1, [0])[0] * 10**9 + fields.get(2, [0])[0]


@dataclass
class Cloud:
    time_ns: int
    frame: str
    points: Any
    """One record per point."""


def cloud(data: bytes) -> Cloud:
    """foxglove.PointCloud: 1 timestamp, 2 frame, 3 pose, 4 stride, 5 fields, 6 data."""
    fields = wire(data)
    names, offsets, kinds = [], [], []
    for packed in fields[5]:
        one = wire(packed)
        names.append(one[1][0].decode())
        offsets.append(one.get(2, [b"\0\0\0\0"])[0])
        kinds.append(NUMERIC[one[3][0]])
    starts = [struct.unpack("<I", offset)[0] for offset in offsets]
    stride = struct.unpack("<I", fields[4][0])[0]
    layout = np.dtype({"names": names, "formats": kinds, "offsets": starts, "itemsize": stride})
    assert numbers(wire(fields[3][0])[2][0], 4) == [0, 0, 0, 1]
    raw = fields.get(6, [b""])[0]
    return Cloud(stamp_ns(fields[1][0]), fields[2][0].decode(), np.frombuffer(raw, layout))


@dataclass
class Entity:
    name: str
    frame: str
    models: list[bytes]
    cubes: list[tuple[list[float], list[float], list[float]]]
    """Position, orientation and size."""


def entities(data: bytes) -> list[Entity]:
    """foxglove.SceneUpdate: 2 entities, each with 2 frame, 3 id, 8 cubes, 14 models."""
    found = []
    for raw in wire(data).get(2, []):
        one = wire(raw)
        models = [wire(model)[7][0] for model in one.get(14, [])]
        cubes = []
        for cube in map(wire, one.get(8, [])):
            place = wire(cube[1][0])
            cubes.append((numbers(place[1][0], 3), numbers(place[2][0], 4), numbers(cube[2][0], 3)))
        found.append(Entity(one[3][0].decode(), one[2][0].decode(), models, cubes))
    return found


def transforms(data: bytes) -> dict[str, tuple[str, list[float], list[float]]]:
    """foxglove.FrameTransforms by child: parent, translation and rotation."""
    return {
        one[3][0].decode(): (one[2][0].decode(), numbers(one[4][0], 3), numbers(one[5][0], 4))
        for one in map(wire, wire(data).get(1, []))
    }
