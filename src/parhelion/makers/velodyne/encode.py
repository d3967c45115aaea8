"""Encoding of scans into Velodyne data packets.

A packet has 1206 bytes: 12 blocks of flag, head azimuth and 32 records (distance, reflectivity), then the time of its
first firing [us of the hour] and two factory bytes (return mode, product). A block of a 16-laser sensor holds two
firing sequences. In dual mode, blocks come in pairs of one azimuth: first the last returns, then the strongest, or the
second strongest if the strongest is the last. A single return is written to both. Distance 0 means no return.

The sensors fire continuously, so a packet may start in one scan and end in the next.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from types import MappingProxyType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.arrays import Table
from parhelion.core.clouds import PointCloud, Scan
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.streams import ImuData
from parhelion.makers import Datagram
from parhelion.makers.spinning import measured, places
from parhelion.makers.velodyne.models import BLOCKS_PER_PACKET, RETURN_MODES, VelodyneModel, velodyne_model

Floats = NDArray[np.float64]

BLOCK_FLAG = 0xEEFF
"""Flag of a block: the bytes 0xFF 0xEE, read as a little-endian word."""
HOUR_US = 3_600_000_000
DATA_PORT = 2368
TITLE = "Velodyne"

RECORD = np.dtype([("distance", "<u2"), ("reflectivity", "u1")])
BLOCK = np.dtype([("flag", "<u2"), ("azimuth", "<u2"), ("records", RECORD, (32,))])
DATA_PACKET = np.dtype(
    [("blocks", BLOCK, (BLOCKS_PER_PACKET,)), ("timestamp", "<u4"), ("return_mode", "u1"), ("product", "u1")]
)
"""Layout of a data packet, 1206 bytes."""

# Longest gap between two scans of one stream, in firing periods: the head rotates on for less than one more period.
_LONGEST_PAUSE = 2.5


@dataclass(frozen=True, eq=False)
class Packets(Table):
    """Packets in the order in which they are sent."""

    time_s: Floats
    """Time at which each is sent, after its last firing sequence [s], on the clock of the scans, shape (n,)."""
    data: NDArray[np.void]
    """Packets, one record each, shape (n,)."""

    def payloads(self) -> list[bytes]:
        """Bytes of each packet."""
        size = self.data.dtype.itemsize
        joined = self.data.tobytes()
        return [joined[k * size : (k + 1) * size] for k in range(len(self))]


@dataclass(frozen=True, eq=False)
class _Sequences(Table):
    """Firing sequences of all lasers, in order of time."""

    time_s: Floats
    azimuth_deg: Floats
    """Azimuth of the head at the first firing, clockwise from x (the maker's convention), not wrapped."""
    distance: NDArray[np.uint16]
    """Counts, shape (n, returns, lasers)."""
    reflectivity: NDArray[np.uint8]


class VelodyneEncoder:
    """Encoder of the scans of one sensor, in order of time, into a continuous stream of data packets.

    encoder = VelodyneEncoder("velodyne/vlp-16")
    for scan in scans:
        packets = encoder.add(scan)
    rest = encoder.finish()
    """

    def __init__(self, model: str | VelodyneModel, *, returns: str | None = None, epoch_s: float = 0.0) -> None:
        """Create an encoder.

        `returns` is 'strongest', 'last' or 'dual', by default that of the first scan. `epoch_s` is UTC [s since 1970]
        at time 0 of the scans' clock.
        """
        self.model = velodyne_model(model)
        self.returns = None if returns is None else _checked_mode(returns)
        self.epoch_s = _finite("epoch_s", epoch_s)
        self._rest: _Sequences | None = None
        self._step_deg = 0.0

    def add(self, scan: PointCloud) -> Packets:
        """Packets completed by a further scan; the rest of the scan waits for the next."""
        new, mode = self._sequences(scan)
        done = []
        if self._rest is not None and len(self._rest):
            pause = (new.time_s[0] - self._rest.time_s[-1]) / (self.model.period_us * 1e-6)
            if not 0.5 <= pause <= _LONGEST_PAUSE or new.distance.shape[1] != self._rest.distance.shape[1]:
                done.append(self.finish())
            else:
                new = _Sequences.joined([self._rest, new])
        self.returns = mode
        per_packet = self.model.sequences_per_packet(mode == "dual")
        whole = len(new) // per_packet * per_packet
        self._rest = new.rows(slice(whole, None))
        done.append(self._packets(new.rows(slice(whole))))
        return done[0] if len(done) == 1 else joined(done)

    def finish(self) -> Packets:
        """Last packet: the waiting firings, padded with firings without a return."""
        rest, self._rest = self._rest, None
        if rest is None or not len(rest):
            return joined([])
        missing = self.model.sequences_per_packet(self.returns == "dual") - len(rest)
        ahead = np.arange(1, missing + 1)
        shape = (missing, *rest.distance.shape[1:])
        empty = _Sequences(
            rest.time_s[-1] + ahead * self.model.period_us * 1e-6,
            rest.azimuth_deg[-1] + ahead * self._step_deg,
            np.zeros(shape, np.uint16),
            np.zeros(shape, np.uint8),
        )
        return self._packets(_Sequences.joined([rest, empty]))

    def _sequences(self, scan: PointCloud) -> tuple[_Sequences, str]:
        """Firing sequences of a scan, and its return mode."""
        model = self.model
        if not isinstance(scan, Scan):
            raise ConfigError(
                "Velodyne packets: expected a Scan with its table of shots; this cloud holds points only "
                "(scan in the frame 'sensor', without lost shots as rows)"
            )
        mode = self.returns or _mode_of(scan)
        if scan.frame != "sensor" or "range" not in scan.fields or "shot" not in scan.fields:
            raise ConfigError(
                "Velodyne packets: the scan must be in the frame 'sensor' and have fields 'range' and 'shot'"
            )
        laser, column = places(scan, model, TITLE)
        first = np.empty(len(scan.shots) // model.channels, np.int64)
        first[column[laser == 0]] = np.flatnonzero(laser == 0)
        direction = scan.shots.direction[first].astype(np.float64)
        counter_clockwise = np.degrees(np.arctan2(direction[:, 1], direction[:, 0])) - model.offset_deg[0]
        azimuth = np.unwrap(-counter_clockwise, period=360.0)
        if len(azimuth) > 1:
            self._step_deg = float(np.median(np.diff(azimuth)))
        time = scan.start_time + scan.shots.time[first].astype(np.float64)
        distance, reflectivity = measured(scan, laser, column, model, TITLE, mode == "dual")
        return _Sequences(time, azimuth, distance, reflectivity), mode

    def _packets(self, sequences: _Sequences) -> Packets:
        """Packets of firing sequences that fill them completely."""
        model = self.model
        mode = self.returns or "strongest"
        dual = mode == "dual"
        count = len(sequences) // model.sequences_per_packet(dual)
        groups = BLOCKS_PER_PACKET // 2 if dual else BLOCKS_PER_PACKET
        lasers, together = model.channels, model.sequences_per_block
        data = np.zeros(count, DATA_PACKET)
        blocks = data["blocks"]
        blocks["flag"] = BLOCK_FLAG
        counts = np.rint(sequences.azimuth_deg * 100.0).astype(np.int64) % 36000
        heads = counts.reshape(count, groups, together)[:, :, 0]
        blocks["azimuth"] = np.repeat(heads, 2, axis=1) if dual else heads
        for name in ("distance", "reflectivity"):
            # (packet, group of blocks, sequence, return, laser): a block holds one return of its sequences.
            values = getattr(sequences, name).reshape(count, groups, together, 2 if dual else 1, lasers)
            blocks["records"][name] = values.swapaxes(2, 3).reshape(count, BLOCKS_PER_PACKET, together * lasers)
        per_packet = model.sequences_per_packet(dual)
        start = sequences.time_s[::per_packet]
        data["timestamp"] = np.rint((self.epoch_s + start) * 1e6).astype(np.int64) % HOUR_US
        data["return_mode"] = RETURN_MODES[mode]
        data["product"] = model.product
        return Packets(sequences.time_s[per_packet - 1 :: per_packet] + model.period_us * 1e-6, data)


def encode(
    scan: PointCloud, model: str | VelodyneModel | None = None, *, returns: str | None = None, epoch_s: float = 0.0
) -> Packets:
    """Data packets of one scan; the last one is padded with firings without a return.

    The model is by default that of the scan's sensor.
    """
    encoder = VelodyneEncoder(model_of(scan) if model is None else model, returns=returns, epoch_s=epoch_s)
    return joined([encoder.add(scan), encoder.finish()])


def joined(parts: list[Packets]) -> Packets:
    """Concatenated packets."""
    filled = [part for part in parts if len(part)]
    if not filled:
        return Packets(np.zeros(0), np.zeros(0, DATA_PACKET))
    return Packets.joined(filled)


def model_of(scan: PointCloud) -> VelodyneModel:
    """Model of the scan's sensor, from its metadata."""
    sensor = scan.metadata.get("sensor")
    if not isinstance(sensor, str):
        raise ConfigError("Velodyne packets: the scan's metadata names no sensor; pass the model")
    return velodyne_model(sensor)


def _mode_of(scan: Scan) -> str:
    mode = scan.metadata.get("returns")
    if mode is None:
        return "dual" if scan.shots.return_count.max(initial=0) > 1 else "strongest"
    return _checked_mode(mode)


def _checked_mode(mode: Any) -> str:
    if mode not in RETURN_MODES:
        raise unknown_name("return mode of Velodyne packets", str(mode), RETURN_MODES)
    return str(mode)


def _finite(name: str, value: float) -> float:
    if not np.isfinite(value):
        raise ConfigError(f"{name}: must be finite, got {value!r}")
    return float(value)


# ---- position packets -----------------------------------------------------------------------------------------------
# A position packet has 512 bytes with the time of the hour, the state of the clock and a GPRMC sentence.
# Sources: VLP-16 user manual 63-9243, section on position packets; NMEA 0183 for the sentence. The HDL-32E's gyroscopes
# and accelerometers, and the boards' temperatures, are left at 0.

POSITION_PORT = 8308
POSITION_PACKET = np.dtype(
    {
        "names": ["timestamp", "pps", "sentence"],
        "formats": ["<u4", "u1", "S128"],
        "offsets": [198, 202, 206],
        "itemsize": 512,
    }
)
"""Layout of a position packet; unnamed bytes are 0."""
PPS_LOCKED = 2
_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def gprmc(utc_s: float, latitude_deg: float | None = None, longitude_deg: float | None = None) -> bytes:
    """GPRMC sentence of a UTC time [s since 1970], rounded down to a whole second; void without a position."""
    known = latitude_deg is not None and longitude_deg is not None
    latitude, longitude = (latitude_deg or 0.0, longitude_deg or 0.0) if known else (0.0, 0.0)
    if not (abs(latitude) <= 90.0 and abs(longitude) <= 180.0):
        raise ConfigError(
            f"position: latitude must be within -90 and 90 deg, longitude within -180 and 180 deg, "
            f"got {latitude} and {longitude}"
        )
    moment = _EPOCH + timedelta(seconds=int(np.floor(utc_s)))
    north, east = "N" if latitude >= 0 else "S", "E" if longitude >= 0 else "W"
    place = f"{_degrees_and_minutes(latitude, 2)},{north},{_degrees_and_minutes(longitude, 3)},{east}"
    body = f"GPRMC,{moment:%H%M%S},{'A' if known else 'V'},{place},000.0,000.0,{moment:%d%m%y},000.0,E"
    total = int(np.bitwise_xor.reduce(np.frombuffer(body.encode("ascii"), np.uint8)))
    return f"${body}*{total:02X}\r\n".encode("ascii")


def _degrees_and_minutes(angle: float, digits: int) -> str:
    # Rounded to 1/10000 minutes first, so that 59.99999 minutes do not become 60.0000.
    whole, minutes = divmod(round(abs(angle) * 600000), 600000)
    return f"{whole:0{digits}d}{minutes / 10000:07.4f}"


def position_packets(
    time_s: NDArray[np.float64],
    *,
    epoch_s: float = 0.0,
    latitude_deg: float | None = None,
    longitude_deg: float | None = None,
) -> Packets:
    """One position packet per time [s], on the clock whose 0 is `epoch_s` in UTC [s since 1970].

    The clock is reported as locked to a pulse per second.
    """
    utc = epoch_s + np.asarray(time_s, np.float64)
    if not np.isfinite(utc).all():
        raise ConfigError("position packets: times must be finite")
    data = np.zeros(len(utc), POSITION_PACKET)
    data["timestamp"] = np.rint(utc * 1e6).astype(np.int64) % HOUR_US
    data["pps"] = PPS_LOCKED
    seconds, place = np.unique(np.floor(utc), return_inverse=True)
    sentences = np.array([gprmc(second, latitude_deg, longitude_deg) for second in seconds], "S128")
    data["sentence"] = sentences[place] if len(utc) else b""
    return Packets(np.asarray(time_s, np.float64), data)


# ---- stream ---------------------------------------------------------------------------------------------------------

SENSOR_ADDRESS = "192.168.1.201"
"""Default address of the sensors, which broadcast their packets."""
EVERYONE_ADDRESS = "255.255.255.255"
POSITION_INTERVAL_S = 0.007
"""Interval of position packets; a recorded VLP-16 sent one every 7.07 ms on average."""


class VelodyneStream:
    """Datagrams of one sensor in order of time, scan after scan."""

    metadata = None

    def __init__(
        self,
        model: str | VelodyneModel,
        *,
        returns: str | None = None,
        epoch_s: float = 0.0,
        position_interval_s: float | None = POSITION_INTERVAL_S,
        ports: Mapping[str, int] = MappingProxyType({"data": DATA_PORT, "position": POSITION_PORT}),
    ) -> None:
        """Create a stream; `epoch_s` is UTC [s since 1970] at time 0, interval None omits position packets."""
        if position_interval_s is not None and not 1e-4 <= position_interval_s < np.inf:
            raise ConfigError(f"position_interval_s: must be at least 0.0001 s, got {position_interval_s!r}")
        self._encoder = VelodyneEncoder(model, returns=returns, epoch_s=epoch_s)
        self._interval = position_interval_s
        self._next_position: float | None = None
        self._ports = ports

    def add(self, record: PointCloud | ImuData) -> list[Datagram]:
        """Datagrams up to the last packet that a further scan completes; none for IMU samples."""
        return [] if isinstance(record, ImuData) else self._datagrams(self._encoder.add(record))

    def finish(self) -> list[Datagram]:
        """Datagrams up to the last, padded packet."""
        return self._datagrams(self._encoder.finish())

    def _datagrams(self, data: Packets) -> list[Datagram]:
        if not len(data):
            return []
        epoch = self._encoder.epoch_s
        found = _addressed(data, self._ports["data"], epoch)
        if self._interval is not None:
            first, last = float(data.time_s[0]), float(data.time_s[-1])
            start = first if self._next_position is None else self._next_position
            if not first - 2 * self._interval <= start:
                start = first  # the sensor was off in between
            count = max(0, int(np.floor((last - start) / self._interval)) + 1)
            times = start + self._interval * np.arange(count, dtype=np.float64)
            self._next_position = start + self._interval * count
            places = position_packets(times, epoch_s=epoch)
            found = sorted(
                [*found, *_addressed(places, self._ports["position"], epoch)], key=lambda datagram: datagram.time_s
            )
        return found


def _addressed(packets: Packets, port: int, epoch_s: float) -> list[Datagram]:
    source, target = (SENSOR_ADDRESS, port), (EVERYONE_ADDRESS, port)
    times = (packets.time_s + epoch_s).tolist()
    return [Datagram(time, data, source, target) for time, data in zip(times, packets.payloads(), strict=True)]
