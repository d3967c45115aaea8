"""Ouster recordings: a network capture of packets, and the sensor's metadata beside it."""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator, Mapping
from os import PathLike
from pathlib import Path
from typing import Any

from parhelion.core.clouds import Scan
from parhelion.core.errors import FormatError
from parhelion.core.reading import is_regular_file, reader
from parhelion.core.streams import ImuData
from parhelion.io.packets.ouster import OusterEncoder, Packets, decode_imu, encode_imu, frames, metadata
from parhelion.io.packets.ouster_layout import IMU
from parhelion.io.packets.ouster_metadata import read_metadata, write_metadata
from parhelion.io.packets.pcap import PcapWriter, read_pcap

SENSOR_ADDRESS = "127.0.0.1"
"""Address that captures give as the sensor's and as the receiver's."""


def write_capture(
    scans: Iterable[Scan],
    path: str | PathLike[str],
    *,
    imu: ImuData | None = None,
    document: Mapping[str, Any] | None = None,
    profile: str | None = None,
    first_frame: int = 0,
) -> dict[str, Any]:
    """Write scans, in the order of time, to a capture and the metadata to the .json beside it; returns the metadata.

    Metadata and, where no profile is named, the profile follow from the first scan unless given. Packets of the IMU
    are put between the lidar's by their times.
    """
    file = Path(path)
    source = iter(scans)
    first = next(source, None)
    if first is None:
        raise FormatError(f"{file}: there is no scan to write")
    known = dict(metadata(first, profile) if document is None else document)
    encoder = OusterEncoder(known)

    def lidar() -> Iterator[Packets]:
        yield encoder.packets(first, first_frame)
        for number, scan in enumerate(source, first_frame + 1):
            yield encoder.packets(scan, number)

    streams = [_timed(lidar())]
    if imu is not None:
        streams.append(_timed([encode_imu(imu, encoder.sensor.imu_port)]))
    with PcapWriter(file, nanoseconds=False) as capture:
        for time, payload, port in heapq.merge(*streams, key=lambda item: item[0]):
            capture.write(time, payload, source=(SENSOR_ADDRESS, port), target=(SENSOR_ADDRESS, port))
        write_metadata(known, file.with_suffix(".json"))
    return known


def _timed(groups: Iterable[Packets]) -> Iterator[tuple[float, bytes, int]]:
    for group in groups:
        for time, payload in zip(group.time.tolist(), group.data, strict=True):
            yield time, payload.tobytes(), group.port


def metadata_beside(path: str | PathLike[str]) -> Path | None:
    """The metadata file of a capture: the .json of the same name, or the one whose name the capture's begins with."""
    file = Path(path)
    exact = file.with_suffix(".json")
    if is_regular_file(exact):
        return exact
    try:
        found = [entry for entry in file.parent.glob("*.json") if file.stem.startswith(entry.stem)]
    except OSError:
        return None
    return max(found, key=lambda entry: (len(entry.stem), entry.name), default=None)


@reader()
def read_capture(path: str | PathLike[str], document: str | PathLike[str] | None = None) -> list[Scan]:
    """The scans of an Ouster recording, one a frame; `document` is the metadata file, by default the one beside it.

    Frames of which packets are missing have fewer columns. `parhelion.io.read_turns` gives them one by one.
    """
    file = Path(path)
    known = read_metadata(_document(file, document))
    return list(frames((datagram.payload for datagram in read_pcap(file)), known, str(file)))


@reader()
def read_imu(path: str | PathLike[str]) -> ImuData:
    """The IMU samples of an Ouster recording."""
    return decode_imu(part.payload for part in read_pcap(path) if len(part.payload) == IMU.itemsize)


def _document(file: Path, given: str | PathLike[str] | None) -> Path:
    if given is not None:
        return Path(given)
    found = metadata_beside(file)
    if found is None:
        raise FormatError(f"{file}: Ouster packets need the sensor's metadata; put it beside as {file.stem}.json")
    return found
