"""Captures as a cloud format: scans as the packets that the real sensor would send, and such packets as clouds."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.inertial import ImuData
from parhelion.core.reading import reader
from parhelion.core.records import PointCloud, Scan
from parhelion.io.packets.pcap import Datagram, PcapWriter, read_pcap
from parhelion.io.packets.velodyne_decode import decode, is_data_packet
from parhelion.io.packets.velodyne_models import MODELS
from parhelion.io.packets.velodyne_stream import VelodyneStream

FIELDS_HELD = ("range", "intensity", "ring", "column", "time", "return_index", "return_count")
"""Fields that packets of every maker carry."""
_OUSTER_TOO = ("reflectivity", "near_ir")
_BY_SHOT = ("shot",)  # every pulse has its place in the packets


class PacketStream(Protocol):
    """Makes the datagrams that one sensor sends, scan after scan."""

    def add(self, scan: Scan) -> list[Datagram]:
        """The datagrams that a further scan completes, in order of time."""
        ...

    def finish(self) -> list[Datagram]:
        """What is left at the end."""
        ...

    @property
    def document(self) -> Mapping[str, Any] | None:
        """What the sensor tells of itself, for makers whose packets cannot be read without it."""
        ...


class _Velodyne(VelodyneStream):
    document = None


class _Ouster:
    def __init__(self, document: Mapping[str, Any] | None, epoch_s: float) -> None:
        self._document, self._epoch_s = document, epoch_s
        self._encoder: Any = None
        self._frame = 0

    @property
    def document(self) -> Mapping[str, Any] | None:
        return self._document

    def add(self, scan: Scan) -> list[Datagram]:
        from parhelion.io.packets.ouster import OusterEncoder, metadata

        if self._encoder is None:
            self._document = metadata(scan) if self._document is None else self._document
            self._encoder = OusterEncoder(self._document)
        packets = self._encoder.packets(scan, self._frame, self._epoch_s)
        self._frame += 1
        return _of_ouster(packets)

    def finish(self) -> list[Datagram]:
        return []


def _of_ouster(packets: Any) -> list[Datagram]:
    from parhelion.io.packets.ouster_capture import SENSOR_ADDRESS

    end = (SENSOR_ADDRESS, packets.port)
    return [Datagram(t, row.tobytes(), end, end) for t, row in zip(packets.time.tolist(), packets.data, strict=True)]


def imu_datagrams(samples: ImuData, document: Mapping[str, Any], epoch_s: float = 0.0) -> list[Datagram]:
    """What an Ouster sends of its IMU; `document` is its metadata."""
    from parhelion.io.packets.ouster import encode_imu
    from parhelion.io.packets.ouster_metadata import describe

    return _of_ouster(encode_imu(samples, describe(document).imu_port, epoch_s))


def has_packets(sensor: str) -> bool:
    """Whether the packets of a sensor, by the name of its preset, are known."""
    return sensor in MODELS or sensor.startswith("ouster/")


def stream_of(
    sensor: str, *, returns: str | None = None, document: Mapping[str, Any] | None = None, epoch_s: float = 0.0
) -> PacketStream:
    """What makes the packets of a sensor, by the name of its preset.

    `returns` is the return mode, to be refused now where packets cannot hold it; by default as the scans have it.
    `document` is the metadata of an Ouster, by default made from its first scan.
    `epoch_s` is UTC [s since 1970] at time 0 of the scans' clock.
    """
    if sensor in MODELS:
        return _Velodyne(sensor, returns=returns, epoch_s=epoch_s)
    if sensor.startswith("ouster/"):
        return _Ouster(document, epoch_s)
    raise ConfigError(f"the packets of {sensor} are not known; known are {', '.join(MODELS)} and ouster/*")


def write_document(document: Mapping[str, Any] | None, capture: Path) -> list[Path]:
    """Put what a sensor tells of itself beside its capture; the files written."""
    if document is None:
        return []
    from parhelion.io.packets.ouster_metadata import write_metadata

    file = capture.with_suffix(".json")
    write_metadata(document, file)
    return [file]


def write(cloud: PointCloud, path: Path, *, epoch_s: float = 0.0) -> tuple[str, ...]:
    """Write a scan as a capture of its sensor's packets; the names of the fields that packets do not carry.

    Ouster's metadata is written beside it as .json. `epoch_s` is UTC [s since 1970] at time 0 of the scan's clock.
    """
    if not isinstance(cloud, Scan):
        raise FormatError(
            f"{path}: a capture holds every pulse of a scan, lost ones too; this cloud has no table of shots "
            "(write scans as they are measured, in the frame 'sensor')"
        )
    sensor = str(cloud.metadata.get("sensor", "a sensor without name"))
    try:
        stream = stream_of(sensor, epoch_s=epoch_s)
        with PcapWriter(path) as capture:
            for datagram in [*stream.add(cloud), *stream.finish()]:
                capture.write(*datagram)
            write_document(stream.document, path)
    except ConfigError as error:
        raise FormatError(f"{path}: {error}") from None
    held = (*FIELDS_HELD, *_BY_SHOT, *(_OUSTER_TOO if sensor.startswith("ouster/") else ()))
    return tuple(name for name in cloud.fields if name not in held)


@reader()
def read(
    path: str | PathLike[str],
    *,
    model: str | None = None,
    metadata: str | PathLike[str] | None = None,
    source: str | None = None,
    scan: int | None = None,
) -> PointCloud:
    """The points of a Velodyne's or an Ouster's packets in a capture, in the sensor's frame.

    `model` names the Velodyne where its packets do not, `metadata` is the Ouster's .json where it is not beside the
    capture, `source` the sensor's IP address where several sent, `scan` the number of one turn; else all turns come
    together, told apart by the field `turn`.
    """
    file = Path(path)
    payloads: dict[str, list[bytes]] = {}
    others: set[int] = set()
    for datagram in read_pcap(file):
        if is_data_packet(datagram.payload):
            payloads.setdefault(datagram.source[0], []).append(datagram.payload)
        else:
            others.add(len(datagram.payload))
    if payloads:
        cloud = _velodyne(file, payloads, model, source)
    elif metadata is not None or _describes_itself(file):
        from parhelion.io.packets.ouster_capture import read_capture

        cloud = _as_one(read_capture(file, metadata), file)
    else:
        sizes = ", ".join(map(str, sorted(others)[:8])) or "none"
        raise FormatError(
            f"{file}: no Velodyne data packets (1206 bytes), and no .json of an Ouster beside it; datagrams there: "
            f"{sizes}{' bytes' if others else ''}"
        )
    return cloud if scan is None else _one_turn(cloud, scan, file)


def _describes_itself(file: Path) -> bool:
    from parhelion.io.packets.ouster_capture import metadata_beside

    return metadata_beside(file) is not None


def _velodyne(file: Path, payloads: dict[str, list[bytes]], model: str | None, source: str | None) -> PointCloud:
    chosen = next(iter(payloads)) if source is None and len(payloads) == 1 else source
    if chosen not in payloads:
        there = ", ".join(sorted(payloads))
        raise FormatError(f"{file}: has packets of the sensors {there}; name one of them as source, got {source!r}")
    try:
        return decode(payloads[chosen], model)
    except (ConfigError, FormatError) as error:
        raise FormatError(f"{file}: {error}") from None


def _as_one(scans: list[Scan], file: Path) -> PointCloud:
    if not scans:
        raise FormatError(f"{file}: the capture holds no whole frame")
    if len(scans) == 1:
        return scans[0]
    start = scans[0].start_time
    names = [name for name in scans[0].fields if name != "shot"]
    fields = {name: np.concatenate([scan.fields[name] for scan in scans]) for name in names}
    fields["time"] = np.concatenate([scan.fields["time"] + (scan.start_time - start) for scan in scans])
    fields["turn"] = np.repeat(np.arange(len(scans)), [len(scan) for scan in scans]).astype(np.uint16)
    return PointCloud(np.concatenate([scan.xyz for scan in scans]), fields, metadata=scans[0].metadata)


def _one_turn(cloud: PointCloud, number: int, file: Path) -> PointCloud:
    turn = cloud.fields.get("turn", np.zeros(len(cloud), np.uint16))
    there = int(turn.max(initial=0)) + 1
    if not 0 <= number < there:
        raise FormatError(f"{file}: has the scans 0 to {there - 1}, not {number}")
    if "turn" not in cloud.fields:
        return cloud
    chosen = cloud.select(turn == number)
    return replace(chosen, fields={name: values for name, values in chosen.fields.items() if name != "turn"})
