"""Network captures as a cloud format: scans are written as the packets of the real sensor, and packets read as scans.

The codec of each maker (`parhelion.makers.codec`) encodes and decodes the packets.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from itertools import chain
from os import PathLike
from pathlib import Path

import numpy as np

from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.reading import file_reader
from parhelion.core.streams import ImuData
from parhelion.io.pcap import PcapWriter, read_pcap
from parhelion.makers import Datagram, codecs, maker_called
from parhelion.makers.codec import Codec, Metadata, ShotPattern, write_metadata

FIELDS_HELD = ("range", "intensity", "ring", "column", "time", "return_index", "return_count")
"""Fields that the packets of every maker contain."""


# ---- choice of the codec --------------------------------------------------------------------------------------------


def codec_called(sensor: str) -> Codec:
    """Return the codec of the preset `sensor`. Raise ConfigError if there is none."""
    for codec in codecs().values():
        if codec.knows(sensor):
            return codec
    known = [pattern for codec in codecs().values() for pattern in codec.models]
    raise ConfigError(f"the packets of {sensor} are not supported; supported are {', '.join(known)}")


def codec_for(maker: str, shots: ShotPattern) -> tuple[Codec, str]:
    """Codec and model of a sensor with a user's data sheet. Raise ConfigError with the reason if there is none."""
    if maker:
        codec = maker_called(maker).load_codec()
        return codec, codec.model_for(shots)
    reason = ConfigError("its data sheet does not name a maker")
    for codec in codecs().values():
        try:
            if codec.checks_shots:
                return codec, codec.model_for(shots)
        except ConfigError as error:
            reason = error
    raise reason


def _codec_of(scan: Scan) -> tuple[Codec, str]:
    """Codec and model of the sensor of a scan, which may have a user's data sheet."""
    sensor, maker = (str(scan.metadata.get(key, "")) for key in ("sensor", "maker"))
    own_sheet = maker in codecs() or sensor.lower().endswith((".yaml", ".yml"))
    if own_sheet and not any(codec.knows(sensor) for codec in codecs().values()):
        return codec_for(maker, scan.shots)
    return codec_called(sensor or "a sensor without name"), sensor


def named_models() -> list[str]:
    """Presets that are accepted as `model`, because not all of their packets state it."""
    return [model for codec in codecs().values() for model in codec.models if "*" not in model]


# ---- writing --------------------------------------------------------------------------------------------------------


def write_metadata_beside(metadata: Metadata | None, capture: Path) -> list[Path]:
    """Write the metadata of a sensor, if any, next to its capture. Return the files written."""
    if metadata is None:
        return []
    file = capture.with_suffix(".json")
    write_metadata(metadata, file)
    return [file]


def write(cloud: PointCloud, path: Path, *, epoch_s: float = 0.0) -> tuple[str, ...]:
    """Write a scan as a capture of its sensor's packets. Return the names of fields that packets do not contain.

    If the packets need metadata, it is written to a .json file with the same name. `epoch_s` is the sensor's clock at
    time 0 of the scan's clock, in UTC [s since 1970] for sensors with a synchronised clock.
    """
    if not isinstance(cloud, Scan):
        raise FormatError(
            f"{path}: a capture contains every pulse of a scan, including lost ones, but this cloud has no table of "
            "shots; write scans as measured, in the frame 'sensor'"
        )
    codec = write_capture([cloud], path, epoch_s=epoch_s)
    return tuple(name for name in cloud.fields if name not in (*FIELDS_HELD, "shot", *codec.fields))


def write_capture(
    scans: Iterable[Scan],
    path: str | PathLike[str],
    *,
    imu: ImuData | None = None,
    metadata: Metadata | None = None,
    epoch_s: float = 0.0,
) -> Codec:
    """Write scans of one sensor, in chronological order, to a capture, and its metadata to a .json file next to it.

    `imu` are the samples of the sensor's built-in IMU, if it has one. `metadata` is by default derived from the first
    scan. Return the codec.
    """
    file = Path(path)
    source = iter(scans)
    first = next(source, None)
    if first is None:
        raise FormatError(f"{file}: there is no scan to write")
    try:
        codec, model = _codec_of(first)
        stream = codec.stream(model, metadata=metadata, epoch_s=epoch_s)
        begun = stream.add(first)
        samples = [] if imu is None else stream.add(imu)

        def lidar() -> Iterator[Datagram]:
            yield from begun
            for scan in source:
                yield from stream.add(scan)
            yield from stream.finish()

        with PcapWriter(file) as capture:
            for datagram in heapq.merge(lidar(), samples, key=lambda one: one.time_s):
                capture.write(*datagram)
            write_metadata_beside(stream.metadata, file)
    except ConfigError as error:
        raise FormatError(f"{file}: {error}") from None
    return codec


# ---- reading --------------------------------------------------------------------------------------------------------


@file_reader()
def read(
    path: str | PathLike[str],
    *,
    model: str | None = None,
    metadata: str | PathLike[str] | None = None,
    source: str | None = None,
    scan: int | None = None,
) -> PointCloud:
    """Read the points of a lidar capture, in the sensor frame.

    `model` is the sensor if its packets do not state it. `metadata` is the sensor's .json file if it is not next to the
    capture. `source` is the sensor's IP address if several sensors were recorded. `scan` is the number of one frame,
    returned as a `Scan` with its lost shots. By default all frames are returned as one cloud, whose field `turn` is the
    number of the frame. `read_frames` iterates over them.
    """
    file = Path(path)
    frames = read_frames(file, model=model, metadata=metadata, source=source)
    if scan is None:
        return as_one(list(frames), file)
    last = -1
    for last, frame in enumerate(frames):
        if last == scan:
            return frame
    raise FormatError(f"{file}: has the scans 0 to {last}, not {scan}")


def read_frames(
    path: str | PathLike[str],
    *,
    model: str | None = None,
    metadata: str | PathLike[str] | None = None,
    source: str | None = None,
) -> Iterator[Scan]:
    """Iterate over the frames (revolutions) of a lidar capture, one `Scan` each, including shots without a return.

        for scan in ph.read_frames("drive.pcap"):
            wet = weather.apply(scan, sensor=scan.metadata["sensor"])

    One frame is in memory at a time. The first and the last may be incomplete. If packets were lost, shots are missing:
    `metadata['missing_columns']` is the number of missing columns. `model`, `metadata` and `source` are as in `read`.
    """
    file = Path(path)
    datagrams = read_pcap(file)  # raises here if the file is not a capture
    return frames_of(file, datagrams, model=model, metadata=metadata, source=source)


def frames_of(
    file: Path,
    datagrams: Iterator[Datagram],
    *,
    model: str | None = None,
    metadata: str | PathLike[str] | None = None,
    source: str | None = None,
) -> Iterator[Scan]:
    """Frames of the datagrams of a capture or bag; see `read_frames`."""
    problems: list[FormatError] = []

    def readable() -> Iterator[Datagram]:
        """All readable datagrams; a truncated recording is reported after its last frame, not instead of it."""
        try:
            yield from datagrams
        except FormatError as error:
            problems.append(error)

    packets = readable()
    try:
        first, codec, known = _recognised(file, packets, metadata)
        stream = _of_one_sensor(file, chain([first], packets), codec, known, source)
        yield from codec.frames(stream, model=model, metadata=known, source=str(file))
        if problems:
            raise problems[0]
    except ConfigError as error:
        raise FormatError(f"{file}: {error}") from None
    except FormatError as error:
        text = str(error)
        named = error if text.startswith(str(file)) else FormatError(f"{file}: {text}")
        raise (problems[0] if problems else named) from None


def _recognised(
    file: Path, datagrams: Iterator[Datagram], metadata: str | PathLike[str] | None
) -> tuple[Datagram, Codec, Metadata | None]:
    """First lidar packet of a capture, its codec and the metadata of the sensor."""
    found = [(codec, *_metadata_for(codec, file, metadata)) for codec in codecs().values()]
    if metadata is not None:
        readable = [one for one in found if one[1] is not None]
        problem = next((one[2] for one in found if one[2] is not None), None)
        if not readable and problem is not None:
            raise problem
        found = readable
    tests = [(codec.recogniser(known), codec, known) for codec, known, _ in found]
    others: set[int] = set()
    for datagram in datagrams:
        for is_own, codec, known in tests:
            if is_own(datagram.payload):
                return datagram, codec, known
        others.add(len(datagram.payload))
    for _, _, problem in found:
        if problem is not None:
            raise problem
    for codec, known, _ in found:
        if known is not None:  # the codec raises an error with the expected and the actual sizes
            empty = (Datagram(0.0, bytes(length), ("", 0), ("", 0)) for length in others)
            list(codec.frames(empty, model=None, metadata=known, source=str(file)))
    sizes = ", ".join(map(str, sorted(others)[:8])) or "none"
    expected = ", no ".join(codec.expects for codec in codecs().values())
    raise FormatError(f"{file}: contains no {expected}; sizes of its datagrams: {sizes}{' bytes' if others else ''}")


def _metadata_for(
    codec: Codec, file: Path, given: str | PathLike[str] | None
) -> tuple[Metadata | None, FormatError | None]:
    """Metadata of a capture, given or next to it, or the error if the file is not metadata of this maker."""
    if given is not None and not (codec.uses_metadata or codec.takes_metadata):
        return None, None
    beside = codec.metadata_beside(file) if given is None else Path(given)
    if beside is None:
        return None, None
    try:
        return codec.read_metadata(beside), None
    except FormatError as error:
        return None, error


def _of_one_sensor(
    file: Path, datagrams: Iterable[Datagram], codec: Codec, metadata: Metadata | None, source: str | None
) -> Iterator[Datagram]:
    """Datagrams of the sensor at `source`, or of the only sensor. Packets with a serial number need no address."""
    if codec.carries_serial:
        yield from (one for one in datagrams if source in (None, one.source[0]))
        return
    is_own = codec.recogniser(metadata)
    seen: set[str] = set()
    for datagram in datagrams:
        if not is_own(datagram.payload):
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
    return FormatError(f"{file}: has packets of the sensors {there}; pass one of them as source, got {source!r}")


def as_one(scans: list[Scan], file: Path) -> PointCloud:
    """Frames as one cloud, whose field `turn` is the number of the frame."""
    if not scans:
        raise FormatError(f"{file}: the capture contains no complete frame")
    if len(scans) == 1:
        return scans[0]
    start = scans[0].start_time
    names = [name for name in scans[0].fields if name != "shot"]
    fields = {name: np.concatenate([scan.fields[name] for scan in scans]) for name in names}
    fields["time"] = np.concatenate([scan.fields["time"] + (scan.start_time - start) for scan in scans])
    fields["turn"] = np.repeat(np.arange(len(scans)), [len(scan) for scan in scans]).astype(np.uint16)
    return PointCloud(np.concatenate([scan.xyz for scan in scans]), fields, metadata=scans[0].metadata)


@file_reader()
def read_imu(path: str | PathLike[str]) -> ImuData:
    """Read the IMU samples in a capture of a lidar with a built-in IMU."""
    for codec in codecs().values():
        found = codec.imu(one.payload for one in read_pcap(path)) if codec.has_imu else None
        if found is not None and len(found):
            return found
    raise FormatError(f"{path}: the capture contains no IMU packets")
