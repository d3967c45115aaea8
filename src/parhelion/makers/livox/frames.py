"""Livox frames: dots of 0.1 s as scans, and scans as dots."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, PointCloud, Scan, Shots
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.streams import ImuData
from parhelion.makers import Datagram
from parhelion.makers.livox.packets import (
    FRAME_S,
    HEAD_1,
    HEAD_2,
    IMU,
    IMU_1,
    IMU_2,
    Dots,
    LivoxModel,
    dots_of,
    head_1,
    is_imu,
    joined,
    model_of,
    packet_2,
    packets_of,
    sdk_of,
)

_AT_ONCE = 32  # packets that are decoded together, among which late ones are sorted
_PAUSE_S = 1.0  # beyond this step, the clock was adjusted or the recording paused
_MOST_DOTS = 200_000  # of a frame: twice the fastest sensor's
_MOST_COLUMNS = 65535
_SENSOR = "192.168.1.100"
_LONGEST_GAP_S = 0.01  # between scans of one stream


# ---- decoding -------------------------------------------------------------------------------------------------------


def livox_frames(payloads: Iterable[bytes], model: LivoxModel | None) -> Iterator[Scan]:
    """Frames of one sensor's packets; the model is by default that of the first packet."""
    known = (payload for payload in payloads if sdk_of(payload))
    first = next(known, None)
    if first is None:
        raise FormatError("Livox packets: no packets found")
    model = model_of(first) if model is None else model
    if sdk_of(first) != model.sdk:
        raise FormatError(
            f"Livox packets: they are of SDK {sdk_of(first)}, but a {model.name} sends those of SDK {model.sdk}"
        )
    sdk = model.sdk

    def batches() -> Iterator[Dots]:
        batch = [first]
        while batch:
            unique = list(dict.fromkeys(batch))
            yield dots_of(unique, model)
            batch = list(islice((one for one in known if sdk_of(one) == sdk), _AT_ONCE))

    yield from (scan for dots in cut(batches()) if (scan := scan_of(dots, model)) is not None)


def cut(parts: Iterable[Dots]) -> Iterator[Dots]:
    """Dots of each frame. Frames have equal length from the first dot of a recording, or after a pause."""
    waiting: Dots | None = None
    start = 0.0
    for part in parts:
        dots = part if waiting is None else joined([waiting, part])
        if waiting is None:
            start = float(part.time_s[0])
        while len(dots):
            jump = np.flatnonzero(np.abs(np.diff(dots.time_s)) > _PAUSE_S)
            whole = int(jump[0]) + 1 if len(jump) else len(dots)
            # Half the time between dots, since time stamps and intervals are rounded.
            step = np.diff(dots.time_s[: min(whole, 1000)])
            slack = 0.5 * float(np.median(step)) if len(step) else 0.0
            frame = np.floor((dots.time_s[:whole] - start + slack) / FRAME_S)
            other = np.flatnonzero(frame != frame[0])
            end = int(other[0]) if len(other) else whole
            if end == len(dots) and end < _MOST_DOTS:
                break
            yield dots.rows(slice(end))
            dots = dots.rows(slice(end, None))
            if end == whole and len(dots):
                start = float(dots.time_s[0])
        waiting = dots if len(dots) else None
    if waiting is not None:
        yield waiting


def scan_of(dots: Dots, model: LivoxModel) -> Scan | None:
    """Scan of a frame; None if it contains only the padding of a packet."""
    metres = np.linalg.norm(dots.xyz.astype(np.float64), axis=-1)
    valid = metres > 0.0
    # Firmware fills the returns that a dot lacks with zeros or with copies.
    for later in range(1, valid.shape[1]):
        for before in range(later):
            differs: NDArray[np.bool_] = np.any(dots.xyz[:, later] != dots.xyz[:, before], axis=1)
            valid[:, later] &= differs
    if not valid.any() and len(dots) <= 100:
        return None
    shot, place = np.nonzero(valid)
    ranges = metres[shot, place]
    order = np.lexsort((ranges, shot))
    shot, place, ranges = shot[order], place[order], ranges[order]
    total = valid.sum(axis=1).astype(np.uint8)
    start = float(dots.time_s[0])
    time = dots.time_s - start
    column = _columns(time, dots.line, model)
    ring = dots.line.astype(np.uint16)
    values = {
        "range": ranges,
        "intensity": dots.reflectivity[shot, place],
        "ring": ring[shot],
        "column": column[shot],
        "time": time[shot],
        "return_index": np.arange(len(shot)) - np.searchsorted(shot, shot),
        "return_count": total[shot],
        "shot": shot,
    }
    fields = {name: value.astype(FIELDS[name].dtype) for name, value in values.items()}
    return Scan(
        dots.xyz[shot, place],
        {**fields, "tag": dots.tag[shot, place]},
        metadata={
            "sensor": model.name,
            "returns": {1: "strongest", 2: "dual"}.get(valid.shape[1], "all"),
            "time": start,
            "rate_hz": 1.0 / FRAME_S,
            "missing_columns": _missing(column),
            "recorded_columns": [0, int(column.max())],
        },
        shots=Shots(
            _directions(dots.xyz, valid, dots.line),
            np.zeros((len(dots), 3), np.float32),
            time.astype(np.float32),
            ring,
            column,
            total,
        ),
        start_time=start,
    )


def _columns(time: NDArray[np.float64], line: NDArray[np.uint8], model: LivoxModel) -> NDArray[np.uint16]:
    """Number of each firing of all lines, by time; dots of one firing follow each other."""
    firing = np.rint((time * model.dots_per_s - line + line[0]) / model.lines)
    return np.clip(firing - min(0.0, float(firing[0])), 0, _MOST_COLUMNS).astype(np.uint16)


def _missing(column: NDArray[np.uint16]) -> int:
    return int(column.max()) + 1 - len(np.unique(column))


def _directions(xyz: NDArray[np.float32], valid: NDArray[np.bool_], line: NDArray[np.uint8]) -> NDArray[np.float32]:
    """Unit vectors along the shots. Lost dots have none; theirs are interpolated along their line."""
    found: NDArray[np.bool_] = np.any(valid, axis=1)
    direction = np.zeros((len(xyz), 3))
    direction[:, 0] = 1.0
    farthest = np.argmax(np.where(valid, np.linalg.norm(xyz.astype(np.float64), axis=-1), -1.0), axis=1)
    direction[found] = xyz[np.flatnonzero(found), farthest[found]]
    for one in np.unique(line):
        rows = np.flatnonzero(line == one)
        known = rows[found[rows]]
        if len(known):
            unit = direction[known] / np.linalg.norm(direction[known], axis=1)[:, None]
            for axis in range(3):
                direction[rows, axis] = np.interp(rows, known, unit[:, axis])
    length = np.linalg.norm(direction, axis=1)
    direction[length == 0.0] = (1.0, 0.0, 0.0)
    return (direction / np.where(length > 0.0, length, 1.0)[:, None]).astype(np.float32)


def decode_imu(payloads: Iterable[bytes]) -> ImuData:
    """Samples of IMU packets; other payloads are skipped. Packets contain no noise, so covariances are 0."""
    samples: dict[int, list[bytes]] = {1: [], 2: []}
    for payload in payloads:
        sdk = is_imu(payload)
        if sdk:
            samples[sdk].append(payload)
    parts = []
    for head, packets in ((HEAD_1, samples[1]), (HEAD_2, samples[2])):
        kind = np.dtype([("time_ns", "V", head.itemsize - 8), ("stamp", "<u8"), ("sample", IMU)])
        data = np.frombuffer(b"".join(packets), kind)
        parts.append((data["stamp"] * 1e-9, data["sample"]["specific_force"], data["sample"]["angular_rate"]))
    time, force, rate = (np.concatenate(values) for values in zip(*parts, strict=True))
    none = np.zeros((3, 3))
    return ImuData(
        time,
        specific_force=force.astype(np.float64) * STANDARD_GRAVITY_M_S2,
        angular_rate=rate.astype(np.float64),
        specific_force_covariance=none,
        angular_rate_covariance=none,
    )


# ---- encoding -------------------------------------------------------------------------------------------------------


class LivoxStream:
    """Point and IMU packets of one sensor; the dots of a packet may belong to two scans."""

    metadata = None

    def __init__(self, model: LivoxModel, returns: str | None, ports: Mapping[str, int], epoch_s: float) -> None:
        self._model, self._ports, self._epoch_s = model, ports, epoch_s
        self._returns = None if returns is None else _return_number(returns, model)
        self._rest: Dots | None = None
        self._sent = {"points": 0, "imu": 0}

    def add(self, record: PointCloud | ImuData) -> list[Datagram]:
        """Packets that a further scan completes, or those of IMU samples."""
        if isinstance(record, ImuData):
            return self._imu(record) if self._model.has_imu else []
        if not isinstance(record, Scan):
            raise ConfigError("Livox packets: expected a Scan with its table of shots; this cloud holds points only")
        dots = scan_dots(record, self._model, self._returns, self._epoch_s)
        done = []
        if self._rest is not None and len(self._rest):
            gap = float(dots.time_s[0] - self._rest.time_s[-1])
            if not 0.0 <= gap < _LONGEST_GAP_S or dots.xyz.shape[1] != self._rest.xyz.shape[1]:
                done = self.finish()
            else:
                dots = Dots.joined([self._rest, dots])
        per_packet = self._model.layout(dots.xyz.shape[1])[1].per_packet
        whole = len(dots) // per_packet * per_packet
        self._rest = dots.rows(slice(whole, None))
        return done + self._points(dots.rows(slice(whole)))

    def finish(self) -> list[Datagram]:
        """Packet of the waiting dots."""
        rest, self._rest = self._rest, None
        return [] if rest is None else self._points(rest)

    def _points(self, dots: Dots) -> list[Datagram]:
        if not len(dots):
            return []
        per_packet = self._model.layout(dots.xyz.shape[1])[1].per_packet
        packets = packets_of(dots, self._model, self._sent["points"])
        last = np.minimum(np.arange(1, len(packets) + 1) * per_packet, len(dots)) - 1
        times = dots.time_s[last] + 1.0 / self._model.dots_per_s
        return self._datagrams("points", times, packets)

    def _imu(self, samples: ImuData) -> list[Datagram]:
        data = np.zeros(len(samples), IMU)
        data["angular_rate"] = samples.angular_rate
        data["specific_force"] = samples.specific_force / STANDARD_GRAVITY_M_S2
        times = samples.time + self._epoch_s
        stamps = [max(round(one * 1e9), 0) for one in times.tolist()]
        if self._model.sdk == 1:
            packets = [head_1(IMU_1, stamp) + row.tobytes() for stamp, row in zip(stamps, data, strict=True)]
        else:
            numbers = range(self._sent["imu"], self._sent["imu"] + len(data))
            packets = [
                packet_2(IMU_2, stamp, row.tobytes(), number, 1, 0.0)
                for stamp, row, number in zip(stamps, data, numbers, strict=True)
            ]
        return self._datagrams("imu", times, packets)

    def _datagrams(self, kind: str, times: NDArray[np.float64], packets: list[bytes]) -> list[Datagram]:
        self._sent[kind] += len(packets)
        port = self._ports[kind]
        source, target = (_SENSOR, max(port - 1, 1)), ("192.168.1.50", port)
        return [Datagram(time, packet, source, target) for time, packet in zip(times.tolist(), packets, strict=True)]


def _return_number(returns: str, model: LivoxModel) -> int:
    number = {"dual": 2, "all": 3}.get(returns, 1)
    if number > len(model.data_types):
        raise ConfigError(
            f"the packets of a {model.name} hold {len(model.data_types)} returns, not the mode {returns!r}"
        )
    return number


def scan_dots(scan: Scan, model: LivoxModel, returns: int | None = None, epoch_s: float = 0.0) -> Dots:
    """Dots of a scan in the order in which a packet holds them: line after line of each firing."""
    shots, fields = scan.shots, scan.fields
    if scan.frame != "sensor" or "shot" not in fields or not len(shots):
        raise ConfigError("Livox packets: the scan must be in the frame 'sensor' and have shots and the field 'shot'")
    most = int(shots.return_count.max()) if returns is None else returns
    most = min(max(most, 1), len(model.data_types))
    order = np.lexsort((shots.ring, shots.column))
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    shot = fields["shot"].astype(np.int64)
    if len(shot) and int(shot.max()) >= len(shots):
        raise ConfigError(f"Livox packets: a point refers to shot {int(shot.max())}, but the scan has {len(shots)}")
    index = fields.get("return_index", np.zeros(len(scan), np.uint8)).astype(np.int64)
    held = np.flatnonzero(np.isfinite(scan.xyz).all(axis=1) & (index < most) & (np.abs(scan.xyz) < 2e6).all(axis=1))
    rows = (place[shot[held]], index[held])
    shape = (len(order), most)
    xyz, level, tag = np.zeros((*shape, 3), np.float32), np.zeros(shape, np.uint8), np.zeros(shape, np.uint8)
    xyz[rows] = scan.xyz[held]
    if "intensity" in fields:
        level[rows] = np.rint(np.clip(np.nan_to_num(fields["intensity"][held]), 0.0, 255.0))
    # Bits 4 and 5 of a tag number the return (Livox SDK, point tag).
    tag[rows] = fields["tag"][held] if "tag" in fields else (index[held] << 4).astype(np.uint8)
    time = scan.start_time + epoch_s + shots.time[order].astype(np.float64)
    return Dots(time, shots.ring[order].astype(np.uint8), xyz, level, tag)
