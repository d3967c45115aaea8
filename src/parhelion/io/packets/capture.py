"""Captures as a cloud format: scans as the packets that the real sensor would send, and such packets as clouds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.reading import reader
from parhelion.core.streams import ImuData
from parhelion.io.packets.pcap import Datagram, PcapWriter, read_pcap
from parhelion.io.packets.velodyne_decode import is_data_packet
from parhelion.io.packets.velodyne_match import Shots, matching_model
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
        self._frame_number = 0

    @property
    def document(self) -> Mapping[str, Any] | None:
        return self._document

    def add(self, scan: Scan) -> list[Datagram]:
        from parhelion.io.packets.ouster import OusterEncoder, metadata

        if self._encoder is None:
            self._document = metadata(scan) if self._document is None else self._document
            self._encoder = OusterEncoder(self._document)
        packets = self._encoder.packets(scan, self._frame_number, self._epoch_s)
        self._frame_number += 1
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


def sends_like(maker: str, shots: Shots) -> str:
    """What `stream_of` calls a sensor with a data sheet of its own, by its maker; the error says why there is none.

    A Velodyne's packets say its model and no angles, so it must have those of a model. An Ouster's metadata holds any.
    """
    if maker == "ouster":
        return "ouster/own-sheet"
    if maker not in ("", "velodyne"):
        raise ConfigError(f"packets of the maker {maker!r} are not known")
    return matching_model(shots).name


def _packets_of(scan: Scan) -> str:
    """What `stream_of` calls the sensor of a scan, which may have a data sheet of its own."""
    sensor, maker = (str(scan.metadata.get(key, "")) for key in ("sensor", "maker"))
    if sensor in MODELS or sensor.startswith("ouster/"):
        return sensor
    if maker in ("velodyne", "ouster") or sensor.lower().endswith((".yaml", ".yml")):
        return sends_like(maker, scan.shots)
    return sensor or "a sensor without name"


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
    try:
        sensor = _packets_of(cloud)
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
    capture, `source` the sensor's IP address where several sent, `scan` the number of one turn, which is a `Scan` with
    its lost shots; else all turns come together, told apart by the field `turn`. `read_turns` gives them one by one.
    """
    file = Path(path)
    turns = read_turns(file, model=model, metadata=metadata, source=source)
    if scan is None:
        return _as_one(list(turns), file)
    there = -1
    for there, turn in enumerate(turns):
        if there == scan:
            return turn
    raise FormatError(f"{file}: has the scans 0 to {there}, not {scan}")


def read_turns(
    path: str | PathLike[str],
    *,
    model: str | None = None,
    metadata: str | PathLike[str] | None = None,
    source: str | None = None,
) -> Iterator[Scan]:
    """The turns of a capture of a Velodyne or an Ouster, one `Scan` each, with the shots that met nothing.

        for scan in ph.read_turns("drive.pcap"):
            wet = weather.apply(scan, sensor=scan.metadata["sensor"])

    One turn is in memory at a time. The first and the last may be parts of a turn, and where packets were lost, shots
    are missing: `metadata['missing_columns']` says how many columns. `model`, `metadata` and `source` are as in `read`.
    """
    file = Path(path)
    datagrams = read_pcap(file)  # a file that is none is told at once
    return _turns(file, datagrams, model, metadata, source)


def _turns(
    file: Path,
    datagrams: Iterator[Datagram],
    model: str | None,
    metadata: str | PathLike[str] | None,
    source: str | None,
) -> Iterator[Scan]:
    from parhelion.io.packets.velodyne_turns import velodyne_turns

    trouble: list[FormatError] = []

    def until_the_end() -> Iterator[Datagram]:
        """A recording that breaks off is told after its last turn, not in place of it."""
        try:
            yield from datagrams
        except FormatError as error:
            trouble.append(error)

    packets = until_the_end()
    try:
        first, document = _maker(file, packets, metadata)
        stream = chain(first, packets)
        if document is not None:
            from parhelion.io.packets.ouster import frames

            yield from frames((d.payload for d in stream if source in (None, d.source[0])), document, str(file))
        else:
            yield from velodyne_turns(_of_one_sensor(file, stream, source), model)
        if trouble:
            raise trouble[0]
    except ConfigError as error:
        raise FormatError(f"{file}: {error}") from None
    except FormatError as error:
        text = str(error)
        told = error if text.startswith(str(file)) else FormatError(f"{file}: {text}")
        raise (trouble[0] if trouble else told) from None


def _maker(
    file: Path, datagrams: Iterator[Datagram], metadata: str | PathLike[str] | None
) -> tuple[list[Datagram], Mapping[str, Any] | None]:
    """The first packet of a lidar, and the metadata of an Ouster; None where it is a Velodyne's."""
    from parhelion.io.packets.ouster import frames
    from parhelion.io.packets.ouster_layout import packet_type
    from parhelion.io.packets.ouster_metadata import describe

    document, trouble = _document(file, metadata)
    size = None
    if document is not None:
        sensor = describe(document, str(file))
        size = packet_type(sensor.profile, sensor.channels).itemsize
    others: set[int] = set()
    for datagram in datagrams:
        if is_data_packet(datagram.payload) and metadata is None:
            return [datagram], None
        if len(datagram.payload) == size:
            return [datagram], document
        others.add(len(datagram.payload))
    if trouble is not None:
        raise trouble
    if document is not None:
        list(frames((bytes(length) for length in others), document, str(file)))  # says which sizes there are
    sizes = ", ".join(map(str, sorted(others)[:8])) or "none"
    raise FormatError(
        f"{file}: no Velodyne data packets (1206 bytes), and no .json of an Ouster beside it; datagrams there: "
        f"{sizes}{' bytes' if others else ''}"
    )


def _document(file: Path, metadata: str | PathLike[str] | None) -> tuple[Mapping[str, Any] | None, FormatError | None]:
    """An Ouster's metadata; that beside the capture may be another file, so why it is none is only kept."""
    from parhelion.io.packets.ouster_capture import metadata_beside
    from parhelion.io.packets.ouster_metadata import describe, read_metadata

    beside = metadata_beside(file) if metadata is None else Path(metadata)
    if beside is None:
        return None, None
    try:
        document = read_metadata(beside)
        describe(document, str(beside))
    except FormatError as error:
        if metadata is not None:
            raise
        return None, error
    return document, None


def _of_one_sensor(file: Path, datagrams: Iterable[Datagram], source: str | None) -> Iterator[Datagram]:
    """The data packets of the sensor that was named, or else of the only one."""
    seen: set[str] = set()
    for datagram in datagrams:
        if not is_data_packet(datagram.payload):
            continue
        seen.add(datagram.source[0])
        if source is None and len(seen) > 1:
            raise _several(file, seen, source)
        if source in (None, datagram.source[0]):
            yield datagram
    if source is not None and source not in seen:
        raise _several(file, seen, source)


def _several(file: Path, seen: set[str], source: str | None) -> FormatError:
    there = ", ".join(sorted(seen))
    return FormatError(f"{file}: has packets of the sensors {there}; name one of them as source, got {source!r}")


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
