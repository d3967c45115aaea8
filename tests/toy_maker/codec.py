"""Acme's packets: one column each, four shots with direction, range [mm] and intensity; range 0 is no return."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import groupby
from typing import Any, ClassVar

import numpy as np

from parhelion.core.clouds import Scan, Shots
from parhelion.core.errors import ConfigError
from parhelion.core.streams import ImuData
from parhelion.makers import LOOPBACK, Datagram
from parhelion.makers.codec import Codec, Metadata, ShotPattern

SHOT = np.dtype([("direction", "<f4", 3), ("mm", "<u4"), ("level", "u1")])
PACKET = np.dtype([("magic", "S4"), ("frame", "<u4"), ("column", "<u2"), ("time_s", "<f8"), ("shots", SHOT, 4)])


class AcmeStream:
    """Packets of one sensor."""

    metadata = None

    def __init__(self, port: int, epoch_s: float) -> None:
        self._end, self._epoch_s, self._frame = (LOOPBACK, port), epoch_s, 0

    def add(self, record: Scan | ImuData) -> list[Datagram]:
        """One packet per column; the sensor has no IMU."""
        if isinstance(record, ImuData):
            return []
        shots, place = record.shots, (record.shots.column.astype(int), record.shots.ring)
        data = np.zeros(int(shots.column.max()) + 1, PACKET)
        data["magic"], data["frame"], data["column"] = b"ACME", self._frame, np.arange(len(data))
        data["time_s"][shots.column] = record.start_time + self._epoch_s + shots.time
        data["shots"]["direction"][place] = shots.direction
        hit = tuple(axis[record.fields["shot"]] for axis in place)
        data["shots"]["mm"][hit] = np.rint(1000.0 * record.fields["range"])
        data["shots"]["level"][hit] = np.rint(record.fields["intensity"])
        self._frame += 1
        return [Datagram(float(row["time_s"]), row.tobytes(), self._end, self._end) for row in data]

    def finish(self) -> list[Datagram]:
        """Return no packets."""
        return []


class AcmeCodec(Codec):
    """See `Codec`."""

    title = "Acme"
    models = ("acme/*",)
    expects = "Acme packets ('ACME', 86 bytes)"
    ports: ClassVar[Mapping[str, int]] = {"data": 9100}

    def model_for(self, shots: ShotPattern) -> str:
        """See `Codec.model_for`."""
        if int(shots.ring.max()) != 3:
            raise ConfigError("Acme packets hold four channels")
        return "acme/a4"

    def stream(
        self, model: str, *, ports: Mapping[str, int] | None = None, epoch_s: float = 0.0, **_: Any
    ) -> AcmeStream:
        """See `Codec.stream`."""
        return AcmeStream((ports or self.ports)["data"], epoch_s)

    def recogniser(self, metadata: Metadata | None) -> Callable[[bytes], bool]:
        """See `Codec.recogniser`."""
        return lambda payload: len(payload) == PACKET.itemsize and payload.startswith(b"ACME")

    def frames(
        self, datagrams: Iterable[Datagram], *, model: str | None, metadata: Metadata | None, source: str
    ) -> Iterator[Scan]:
        """See `Codec.frames`."""
        packets = (np.frombuffer(one.payload, PACKET)[0] for one in datagrams)
        for _, frame in groupby(packets, key=lambda packet: int(packet["frame"])):
            yield _scan(np.array(list(frame)))


def _scan(data: Any) -> Scan:
    start = float(data["time_s"].min())
    shot, found = np.arange(4 * len(data)), data["shots"].reshape(-1)
    ring, column = (shot % 4).astype(np.uint16), np.repeat(data["column"], 4)
    time = np.repeat(data["time_s"] - start, 4).astype(np.float32)
    hit = np.flatnonzero(found["mm"])
    metres = (1e-3 * found["mm"][hit]).astype(np.float32)
    return Scan(
        metres[:, None] * found["direction"][hit],
        {
            "range": metres, "intensity": found["level"][hit].astype(np.float32), "ring": ring[hit],
            "column": column[hit], "time": time[hit], "shot": hit.astype(np.uint32),
        },
        metadata={"sensor": "acme/a4"}, start_time=start,
        shots=Shots(
            found["direction"], np.zeros((len(shot), 3), np.float32), time, ring, column,
            (found["mm"] > 0).astype(np.uint8),
        ),
    )  # fmt: skip


CODEC = AcmeCodec()
