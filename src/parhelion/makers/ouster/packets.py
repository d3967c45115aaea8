"""Ouster's UDP packets: encoding of scans, and decoding into scans.

Conventions differ: Ouster's row 0 is the highest beam, our ring 0 the lowest; its ranges start at the axis, ours at the
beam exit; measurement 0 points backwards, and the encoder counts clockwise. A pixel without a return has range 0 and
keeps the near infrared and the noise count of the sensor.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import chain, islice
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import FIELDS, Scan, Shots
from parhelion.core.constants import STANDARD_GRAVITY_M_S2
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.streams import ImuData
from parhelion.makers.ouster.layout import (
    COLUMNS_PER_PACKET,
    ENCODER_TICKS,
    IMU,
    LIDAR_PACKET,
    Profile,
    crc64,
    packet_type,
    profile_called,
)
from parhelion.makers.ouster.metadata import OusterBeams, SensorDescription, describe, geometry, metadata
from parhelion.makers.ouster.ros import strength_rank
from parhelion.makers.ouster.scale import reflectivity_counts, reflectivity_of_counts

__all__ = ["OusterEncoder", "Packets", "decode", "decode_imu", "encode", "encode_imu", "frames", "metadata"]

_ANGLE_SLACK_DEG = 0.01
_LATEST_S = 9e9  # nanoseconds in 63 bits


@dataclass(frozen=True, eq=False)
class Packets:
    """Packets of one kind in the order in which they are sent."""

    time: NDArray[np.float64]
    """Time at which each packet is complete and sent [s], on the scan's clock, shape (n,)."""
    data: NDArray[np.uint8]
    """Payloads, shape (n, bytes)."""
    port: int = 7502
    """Destination UDP port."""

    def __len__(self) -> int:
        return len(self.data)


class OusterEncoder:
    """Encoder of the scans of one sensor.

        encoder = OusterEncoder(metadata(lidar))
        packets = encoder.packets(scan, frame_number=7)

    `document` is the sensor's metadata, which defines profile, mode, beams, serial number and ports.
    """

    def __init__(self, document: Mapping[str, Any]) -> None:
        self.document = document
        self.sensor: SensorDescription = describe(document)
        self.profile: Profile = profile_called(self.sensor.profile)
        self._type = packet_type(self.profile.name, self.sensor.channels)
        self._known: tuple[Any, OusterBeams] | None = None

    def packets(self, scan: Scan, frame_number: int = 0, epoch_s: float = 0.0) -> Packets:
        """Lidar packets of a scan; packets hold the lower 16 bits of `frame_number`.

        `epoch_s` is the sensor's clock [s] at time 0 of the scan's clock. All packets of the sensor's column window are
        present; columns missing in the scan are marked invalid.
        """
        shape = self._geometry(scan)
        sensor, columns = self.sensor, self.sensor.columns
        first_packet, last_packet = (number // COLUMNS_PER_PACKET for number in sensor.window)
        data = np.zeros(last_packet - first_packet + 1, self._type)
        blocks = data["columns"]
        offset = shape.first_column - int(scan.shots.column.min()) - first_packet * COLUMNS_PER_PACKET
        number = first_packet * COLUMNS_PER_PACKET + np.arange(blocks.size).reshape(blocks.shape)
        period_ns = 1e9 / (sensor.rate_hz * columns)
        # Columns missing before the scan's first one have times before its start.
        start = scan.start_time + epoch_s
        if not 0.0 <= start < _LATEST_S:
            raise ConfigError(
                f"Ouster packets: times must be from 0 to {_LATEST_S:g} s; the scan starts at {start:g} s"
            )
        ns = round(start * 1e9) + np.rint((number - shape.first_column) * period_ns).astype(np.int64)
        ns = np.maximum(ns, 0)
        blocks["time"], blocks["number"] = ns, number
        present = np.zeros(blocks.size, bool)
        present[scan.shots.column.astype(np.int64) + offset] = True
        self._head(data, frame_number, present.reshape(blocks.shape), number)
        self._fill(blocks["pixels"], scan, offset)
        raw = data.view(np.uint8).reshape(len(data), -1)
        if self.profile.has_header:
            data["checksum"] = crc64(raw[:, :-8])
        return Packets(ns[:, -1] * 1e-9, raw, sensor.lidar_port)

    def _geometry(self, scan: Scan) -> OusterBeams:
        if not isinstance(scan, Scan):
            raise ConfigError(f"Ouster packets: expected a Scan with its table of shots, got a {type(scan).__name__}")
        if "shot" not in scan.fields or "range" not in scan.fields:
            raise ConfigError("Ouster packets: the scan needs the fields 'range' and 'shot'")
        # Scans of one lidar share their table, so its geometry is cached.
        if self._known is not None and self._known[0] is scan.shots.direction:
            return self._known[1]
        shape, sensor = geometry(scan), self.sensor
        if (shape.columns, shape.rate_hz, len(shape.altitude_deg)) != (sensor.columns, sensor.rate_hz, sensor.channels):
            raise ConfigError(
                f"Ouster packets: the scan is of mode {shape.mode} with {len(shape.altitude_deg)} channels, the "
                f"metadata of {sensor.columns}x{sensor.rate_hz:g} with {sensor.channels}"
            )
        same = [(shape.altitude_deg, sensor.altitude_deg), (shape.azimuth_deg, sensor.azimuth_deg)]
        if any(np.abs(ours - theirs).max() > _ANGLE_SLACK_DEG for ours, theirs in same):
            raise ConfigError("Ouster packets: the scan's beam angles differ from those of the metadata")
        if shape.window[0] < sensor.window[0] or shape.window[1] > sensor.window[1]:
            raise ConfigError(
                f"Ouster packets: the scan has columns {shape.window[0]} to {shape.window[1]}, outside the "
                f"metadata's column_window {sensor.window[0]} to {sensor.window[1]}"
            )
        self._known = (scan.shots.direction, shape)
        return shape

    def _head(
        self, data: NDArray[Any], frame_number: int, present: NDArray[np.bool_], number: NDArray[np.int64]
    ) -> None:
        """Packet and column headers."""
        if not self.profile.has_header:
            data["columns"]["frame"] = frame_number & 0xFFFF
            data["columns"]["encoder"] = number * ENCODER_TICKS // self.sensor.columns
            data["columns"]["status"] = np.where(present, 0xFFFFFFFF, 0)
            return
        data["type"], data["frame"] = LIDAR_PACKET, frame_number & 0xFFFF
        data["initialisation"] = np.frombuffer((self.sensor.initialisation & 0xFFFFFF).to_bytes(3, "little"), np.uint8)
        data["serial"] = np.frombuffer((self.sensor.serial & 0xFFFFFFFFFF).to_bytes(5, "little"), np.uint8)
        data["columns"]["status"] = present

    def _fill(self, pixels: NDArray[Any], scan: Scan, offset: int) -> None:
        """Write returns into their pixels, shape (packets, columns, channels), the strongest first."""
        profile, fields = self.profile, scan.fields
        step = profile.range_unit_mm * 1e-3
        counts = np.rint((fields["range"].astype(np.float64) + self.sensor.beam_offset_m) / step)
        with np.errstate(invalid="ignore"):
            held = np.flatnonzero((counts >= 1) & (counts < 1 << profile.range_bits))
        rank = strength_rank(scan, held)
        values: dict[str, NDArray[Any]] = {"range": counts}
        if "reflectivity" in fields:
            values["reflectivity"] = reflectivity_counts(fields["reflectivity"])
        if "intensity" in fields:
            values["signal"] = np.clip(np.rint(np.nan_to_num(fields["intensity"])), 0, 0xFFFF)
        most = (1 << 8 * profile.pixel["near_ir"].itemsize) - 1

        def near_ir(counted: NDArray[Any]) -> NDArray[Any]:
            return np.clip(np.rint(np.nan_to_num(counted) / profile.near_ir_unit), 0, most)

        if "near_ir" in fields:
            values["near_ir"] = near_ir(fields["near_ir"])
        shots = scan.shots

        def put(place: int, shot: NDArray[Any], quantities: Mapping[str, NDArray[Any]]) -> None:
            packet, column = np.divmod(shots.column[shot].astype(np.int64) + offset, COLUMNS_PER_PACKET)
            row = self.sensor.channels - 1 - shots.ring[shot].astype(np.int64)
            for quantity, value in quantities.items():
                name = profile.of(quantity, place)
                if name is not None:
                    pixels[name][packet, column, row] = value

        for place in range(profile.returns):
            rows = held[rank == place]
            put(place, fields["shot"][rows], {quantity: value[rows] for quantity, value in values.items()})
        lost = np.flatnonzero(scan.lost)
        if shots.near_ir is not None:
            put(0, lost, {"near_ir": near_ir(shots.near_ir[lost])})
        if shots.noise is not None:
            put(0, lost, {"signal": np.clip(np.rint(shots.noise[lost]), 0, 0xFFFF)})


def encode(
    scan: Scan, document: Mapping[str, Any] | None = None, *, profile: str | None = None, frame_number: int = 0
) -> Packets:
    """Lidar packets of one scan, by default with metadata derived from the scan itself; see `OusterEncoder`."""
    if document is not None and profile is not None:
        raise ConfigError("Ouster packets: the metadata contains the profile; pass either document or profile")
    if not isinstance(scan, Scan):
        raise ConfigError(f"Ouster packets: expected a Scan with its table of shots, got a {type(scan).__name__}")
    return OusterEncoder(metadata(scan, profile) if document is None else document).packets(scan, frame_number)


def encode_imu(samples: ImuData, port: int = 7503, epoch_s: float = 0.0) -> Packets:
    """IMU packets of 48 bytes, one per sample: specific force in g, angular rate in deg/s, in the IMU frame.

    `epoch_s` is the sensor's clock [s] at time 0 of the samples' clock.
    """
    time = samples.time + epoch_s
    if len(time) and not 0.0 <= time.min() <= time.max() < _LATEST_S:
        raise ConfigError(f"Ouster packets: times must be from 0 to {_LATEST_S:g} s; the IMU has {time.min():g} s")
    data = np.zeros(len(samples), IMU)
    for name in ("system_time", "accelerometer_time", "gyroscope_time"):
        data[name] = np.rint(time * 1e9).astype(np.uint64)
    data["specific_force"] = samples.specific_force / STANDARD_GRAVITY_M_S2
    data["angular_rate"] = np.degrees(samples.angular_rate)
    return Packets(time, data.view(np.uint8).reshape(-1, IMU.itemsize), port)


# ---- decoding -------------------------------------------------------------------------------------------------------


def decode(payloads: Iterable[bytes], document: Mapping[str, Any], source: str = "packets") -> list[Scan]:
    """Scans of lidar packets, one per frame, in the order of the packets; other payloads are skipped.

    A frame with missing packets has fewer columns. Coordinates are in Ouster's sensor frame. The motion of the sensor
    is unknown, so it is assumed to be stationary at the origin.
    """
    return list(frames(payloads, document, source))


def frames(payloads: Iterable[bytes], document: Mapping[str, Any], source: str = "packets") -> Iterator[Scan]:
    """Iterate over the scans of lidar packets; at most two frames are in memory at a time."""
    sensor = describe(document)
    for packets in by_frame(payloads, sensor, source):
        scan = _scan(np.frombuffer(b"".join(packets), packet_type(sensor.profile, sensor.channels)), sensor)
        if scan is not None:
            yield scan


def _scan(data: NDArray[Any], sensor: SensorDescription) -> Scan | None:
    profile, blocks = profile_called(sensor.profile), data["columns"].reshape(-1)
    blocks = blocks[(blocks["status"] & 1 == 1) & (blocks["number"] < sensor.columns)]
    # Of a duplicate column, the first is used.
    number, rows = np.unique(blocks["number"], return_index=True)
    if not len(rows):
        return None
    blocks = blocks[rows]
    ns = blocks["time"].astype(np.int64)
    start = int(ns.min())
    direction, origin = _beams(number, sensor)
    shape = (len(number), sensor.channels)
    ring = np.broadcast_to(sensor.channels - 1 - np.arange(sensor.channels), shape)
    column = np.broadcast_to(number[:, None], shape)
    time = np.broadcast_to(((ns - start) * 1e-9)[:, None], shape)
    pixels = blocks["pixels"]
    mask = (1 << profile.range_bits) - 1
    counts = np.stack([pixels[profile.of("range", k)] & mask for k in range(profile.returns)], axis=-1)
    total = (counts > 0).sum(axis=-1)
    shot, place = np.nonzero(counts.reshape(-1, profile.returns) > 0)
    metres = counts.reshape(-1, profile.returns)[shot, place] * (profile.range_unit_mm * 1e-3) - sensor.beam_offset_m
    order = np.lexsort((metres, shot))
    shot, place, metres = shot[order], place[order], metres[order]
    index = np.arange(len(shot)) - np.searchsorted(shot, shot)
    values: dict[str, NDArray[Any]] = {"range": metres}
    for name, quantity in (("intensity", "signal"), ("reflectivity", "reflectivity"), ("near_ir", "near_ir")):
        if profile.of(quantity, 0) is None:
            continue
        layers = [pixels[profile.of(quantity, k) or quantity].reshape(-1) for k in range(profile.returns)]
        values[name] = np.stack(layers, axis=-1)[shot, place]
    wide = _has_wide_reflectivity(sensor, pixels)
    if wide:
        del values["reflectivity"]
    else:
        values["reflectivity"] = reflectivity_of_counts(values["reflectivity"])
    values["near_ir"] = values["near_ir"].astype(np.float32) * profile.near_ir_unit
    values |= {"ring": ring.reshape(-1)[shot], "column": column.reshape(-1)[shot], "time": time.reshape(-1)[shot]}
    values |= {"return_index": index, "return_count": total.reshape(-1)[shot], "shot": shot}
    light = pixels["near_ir"].reshape(-1).astype(np.float32) * profile.near_ir_unit
    noise = None
    if profile.of("signal", 0) is not None:
        noise = np.where(total.reshape(-1) == 0, pixels[profile.of("signal", 0)].reshape(-1), 0).astype(np.float32)
    xyz = origin.reshape(-1, 3)[shot] + metres[:, None] * direction.reshape(-1, 3)[shot]
    first = data[0]["frame"] if profile.has_header else data[0]["columns"]["frame"][0]
    return Scan(
        xyz.astype(np.float32),
        {name: value.astype(FIELDS[name].dtype) for name, value in values.items()},
        metadata={
            "sensor": sensor.model,
            "time": start * 1e-9,
            "rate_hz": sensor.rate_hz,
            "frame_id": int(first),
            "returns": "dual" if profile.returns == 2 else "strongest",
            "missing_columns": int(number[-1]) - int(number[0]) + 1 - len(number),
            "recorded_columns": [int(number[0]), int(number[-1])],
            "reflectivity_calibrated": not wide and sensor.reflectivity_valid is not False,
        },
        shots=Shots(
            direction.reshape(-1, 3).astype(np.float32),
            origin.reshape(-1, 3).astype(np.float32),
            time.reshape(-1).astype(np.float32),
            ring.reshape(-1).astype(np.uint16),
            column.reshape(-1).astype(np.uint16),
            total.reshape(-1).astype(np.uint8),
            light,
            noise,
        ),
        start_time=start * 1e-9,
    )


def _has_wide_reflectivity(sensor: SensorDescription, pixels: NDArray[Any]) -> bool:
    """Return True for the uncalibrated 16-bit reflectivity of early firmware, by version or by the upper bytes."""
    if sensor.wide_reflectivity is not None:
        return sensor.wide_reflectivity
    upper = np.ascontiguousarray(pixels).view(np.uint8).reshape(-1, pixels.dtype.itemsize)[:, 5]
    return bool(upper.any())


def _beams(number: NDArray[Any], sensor: SensorDescription) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Directions and exits of the beams of columns in the sensor frame, each of shape (columns, channels, 3)."""
    encoder = -2.0 * np.pi * number.astype(np.float64)[:, None] / sensor.columns
    azimuth = encoder - np.radians(sensor.azimuth_deg)
    altitude = np.broadcast_to(np.radians(sensor.altitude_deg), azimuth.shape)
    level = np.cos(altitude)
    direction = np.stack([level * np.cos(azimuth), level * np.sin(azimuth), np.sin(altitude)], axis=-1)
    exit_place = np.stack([np.cos(encoder), np.sin(encoder), np.zeros_like(encoder)], axis=-1) * sensor.beam_offset_m
    rotation, place = sensor.lidar_to_sensor[:3, :3], sensor.lidar_to_sensor[:3, 3]
    return direction @ rotation.T, np.broadcast_to(exit_place @ rotation.T + place, direction.shape)


def decode_imu(payloads: Iterable[bytes]) -> ImuData:
    """Samples of IMU packets; payloads of other sizes are skipped. Packets contain no noise, so covariances are 0."""
    data = np.frombuffer(b"".join(part for part in payloads if len(part) == IMU.itemsize), IMU)
    none = np.zeros((3, 3))
    return ImuData(
        data["system_time"] * 1e-9,
        specific_force=data["specific_force"] * STANDARD_GRAVITY_M_S2,
        angular_rate=np.radians(data["angular_rate"]),
        specific_force_covariance=none,
        angular_rate_covariance=none,
    )


# ---- frames ---------------------------------------------------------------------------------------------------------

_SAMPLED = 64  # packets that are checked for the serial number of the metadata


def by_frame(payloads: Iterable[bytes], sensor: SensorDescription, source: str) -> Iterator[list[bytes]]:
    """Lidar packets of each frame, once it is complete.

    An incomplete frame is held until the second frame after it begins, so that late packets join their frame.
    """
    waiting: dict[int, dict[int, bytes]] = {}
    newest: int | None = None
    finished = -0x10000
    first_packet, last_packet = (number // COLUMNS_PER_PACKET for number in sensor.window)
    complete = last_packet - first_packet + 1
    has_header = profile_called(sensor.profile).has_header
    frame_at, column_at = (2, 40) if has_header else (10, 8)
    for packet in _own_packets(payloads, sensor, source):
        low = int.from_bytes(packet[frame_at : frame_at + 2], "little")
        # Frame numbers wrap at 16 bits.
        number = low if newest is None else newest + (low - newest + 0x8000) % 0x10000 - 0x8000
        if newest is not None and number < newest - 1:  # the sensor was restarted
            yield from (list(waiting.pop(done).values()) for done in sorted(waiting))
            newest, number, finished = None, low, -0x10000
        newest = number if newest is None else max(newest, number)
        yield from (list(waiting.pop(done).values()) for done in sorted(waiting) if done < newest - 1)
        column = int.from_bytes(packet[column_at : column_at + 2], "little")
        if column < sensor.columns and number > finished:
            # Of a duplicate packet, the first is used.
            waiting.setdefault(number, {}).setdefault(column, packet)
            if number == min(waiting) and len(waiting[number]) == complete:
                yield list(waiting.pop(number).values())
                finished = number
    yield from (list(waiting[done].values()) for done in sorted(waiting))


def _own_packets(payloads: Iterable[bytes], sensor: SensorDescription, source: str) -> Iterator[bytes]:
    """Lidar packets of this sensor, or of all sensors of its kind if none has its serial number."""
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
    first = list(islice(packets, _SAMPLED))
    if not first:
        sizes = ", ".join(map(str, sorted(others)[:8])) or "none"
        raise FormatError(
            f"{source}: no lidar packet of {size} bytes, the size of {sensor.profile} with {sensor.channels} "
            f"channels; sizes of payloads: {sizes}"
        )
    own = (sensor.serial & 0xFFFFFFFFFF).to_bytes(5, "little")
    only_own = has_header and any(packet[7:12] == own for packet in first)
    for packet in chain(first, packets):
        if not only_own or packet[7:12] == own:
            yield packet
