"""RoboSense's MSOP and DIFOP packets of spinning models: firing sequences of packets, and packets of sequences."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.errors import FormatError
from parhelion.makers import Datagram, Endpoint
from parhelion.makers.revolutions import Decoded, SpinningStream, batched, revolutions, seconds_of, utc_fields
from parhelion.makers.robosense.models import (
    AIRY,
    ANGLE,
    BLOCK_ID,
    DIFOP_ID,
    RETURN_MODES,
    RS_16,
    SIZE,
    RoboSenseModel,
    is_difop,
    spinning_model_of,
)
from parhelion.makers.spinning import Floats, LaserHead, Sequences

SENSOR_ADDRESS, HOST_ADDRESS = "192.168.1.200", "192.168.1.102"
_MODE_NAMES = {code: name for name, code in RETURN_MODES.items()}
_MODE_AT, _SPEED_AT = 300, 8
_TAIL = b"\x0f\xf0"
_DIFOP_EVERY_S = 0.1
_MOST_WAITING = 2048
"""MSOP packets that wait for the first DIFOP packet: about 1.5 s in dual mode."""
_AIRY_DISTANCE = 0x3FFF  # the upper two bits classify the echo


# ---- DIFOP ----------------------------------------------------------------------------------------------------------


def unit_of(payload: bytes, model: RoboSenseModel) -> LaserHead | None:
    """Lasers of a unit by its DIFOP packet; None if the packet has no angles."""
    lasers = model.rotor.channels
    if len(payload) != SIZE:
        return None
    if model is RS_16:
        # Three bytes each, in 0.0001 deg, the lower eight lasers negative.
        raw = np.frombuffer(payload, np.uint8, 48, model.pitch_at).reshape(16, 3).astype(np.int64)
        if not raw.any() or (raw[:, 0] == 255).any():
            return None
        elevation = (raw @ np.array([65536, 256, 1])) * np.where(np.arange(16) < 8, -1e-4, 1e-4)
        azimuth = np.zeros(16)
    else:
        angles = np.frombuffer(payload, ANGLE, 2 * lasers, model.pitch_at)
        if not angles["value"].any() or (angles["sign"] == 255).any():
            return None
        values = angles["value"].astype(np.float64) * np.where(angles["sign"] == 0, 0.01, -0.01)
        elevation, azimuth = values[:lasers], values[lasers:]
    if (np.abs(elevation) > 90.0).any() or (np.abs(azimuth) > 90.0).any():
        return None
    return replace(model.rotor, elevation_deg=tuple(elevation.tolist()), azimuth_deg=tuple((0.0 - azimuth).tolist()))


def difop_packet(model: RoboSenseModel, mode: str, rpm: float, ports: Mapping[str, int], time_s: float) -> bytes:
    """DIFOP packet of a sensor."""
    data = bytearray(SIZE)
    data[:8] = DIFOP_ID
    data[_SPEED_AT : _SPEED_AT + 2] = int(np.clip(round(rpm / 60.0) * 60, 0, 65535)).to_bytes(2, "big")
    for at, address in ((10, SENSOR_ADDRESS), (14, HOST_ADDRESS)):
        data[at : at + 4] = bytes(map(int, address.split(".")))
    for at, port in ((24, ports["msop"]), (26, ports["msop"]), (28, ports["difop"]), (30, ports["difop"])):
        data[at : at + 2] = port.to_bytes(2, "big")
    data[34:36] = (36000).to_bytes(2, "big")  # field of view from 0 to 360 deg
    data[_MODE_AT] = RETURN_MODES[mode]
    data[303:313] = _stamps(np.array([time_s]), model.utc_stamp)[0].tobytes()
    lasers = model.rotor.channels
    if model is RS_16:
        counts = np.rint(np.abs(model.rotor.elevation_deg) * 1e4).astype(np.int64)
        data[model.pitch_at : model.pitch_at + 48] = b"".join(int(one).to_bytes(3, "big") for one in counts)
    else:
        angles = np.zeros(2 * lasers, ANGLE)
        values = np.concatenate([model.rotor.elevation_deg, -model.rotor.offset_deg])
        angles["sign"], angles["value"] = values < 0.0, np.rint(np.abs(values) * 100.0)
        data[model.pitch_at : model.pitch_at + angles.nbytes] = angles.tobytes()
    data[-2:] = _TAIL
    return bytes(data)


# ---- MSOP -----------------------------------------------------------------------------------------------------------


def spinning_frames(payloads: Iterable[bytes], model: RoboSenseModel) -> Iterator[Scan]:
    """Revolutions of one sensor's MSOP packets, with the angles of its DIFOP packets."""
    yield from revolutions(_parts(payloads, model))


def _parts(payloads: Iterable[bytes], model: RoboSenseModel) -> Iterator[Decoded]:
    waiting: list[bytes] = []
    rotor: LaserHead | None = None
    mode: str | None = None
    for batch in batched(one for one in payloads if is_difop(one) or spinning_model_of(one) is model):
        for payload in batch:
            if not is_difop(payload):
                waiting.append(payload)
                continue
            rotor = unit_of(payload, model) or rotor
            mode = _MODE_NAMES.get(payload[_MODE_AT]) if len(payload) == SIZE else mode
        if waiting and (rotor is not None or len(waiting) >= _MOST_WAITING):
            yield from sequences_in(waiting, rotor or _nominal(model), model, mode)
            waiting = []
    if waiting:
        yield from sequences_in(waiting, rotor or _nominal(model), model, mode)


def _nominal(model: RoboSenseModel) -> LaserHead:
    if not model.nominal:
        raise FormatError(
            f"RoboSense packets: the angles of a {model.name} are in its DIFOP packets, of which there is none; record "
            "the port 7788 as well"
        )
    return model.rotor


def sequences_in(payloads: list[bytes], rotor: LaserHead, model: RoboSenseModel, mode: str | None) -> Iterator[Decoded]:
    """Firing sequences of packets; the return mode is by default that of the packets' azimuths."""
    data = np.frombuffer(b"".join(payloads), model.packet)
    blocks = data["blocks"]
    head = (blocks["azimuth"].astype(np.float64) % 36000.0) * 0.01
    distance, intensity = blocks["records"]["distance"].astype(np.uint16), blocks["records"]["intensity"]
    lasers = rotor.channels
    if model is AIRY:
        dual = bool(np.median(data["return_type"][:, 1]) == 3)
        distance = distance & np.uint16(_AIRY_DISTANCE)
        if np.median(data["lidar_mode"]) == 1:
            raise FormatError("RoboSense packets: those of the Airy with 48 channels are not supported")
        mode = "dual" if dual else "strongest"
    else:
        dual = _is_dual(data, head, model) if mode is None else mode == "dual"
        mode = mode or ("dual" if dual else "strongest")
    # (packet, group of blocks, sequence, return, laser)
    step = model.blocks_per_sequence * (2 if dual and model is not RS_16 else 1)
    groups, packets = head.shape[1] // step, len(data)
    if model is RS_16:
        together, order = (1, (0, 1, 2, 3, 4)) if dual else (2, (0, 1, 3, 2, 4))
        shape = (packets, groups, 1, 2, lasers)
        distance, intensity = (one.reshape(shape).transpose(order) for one in (distance, intensity))
    else:
        together, shape = 1, (packets, groups, 1, 2 if dual else 1, lasers)
        distance, intensity = distance.reshape(shape), intensity.reshape(shape)
    head = head[:, ::step]
    heads = np.repeat(head[:, :, None], together, axis=2)
    if together == 2:
        heads[:, :, 1] = (head + 0.5 * _step(head)) % 360.0
    period = rotor.period_us * 1e-6
    time = _times(data["stamp"], model.utc_stamp)[:, None, None] + period * (
        np.arange(groups)[:, None] * together + np.arange(together)
    )
    returns = 2 if dual else 1
    yield (
        Sequences(
            time.reshape(-1),
            heads.reshape(-1),
            np.ascontiguousarray(distance).reshape(-1, returns, lasers),
            np.ascontiguousarray(intensity).reshape(-1, returns, lasers),
        ),
        rotor,
        mode,
    )


def _step(head: Floats) -> Floats:
    """Rotation from each block to the next, within a packet; the last block turns like the one before."""
    step = np.diff(head, axis=1) % 360.0
    return np.concatenate([step, step[:, -1:]], axis=1)


def _is_dual(data: Any, head: Floats, model: RoboSenseModel) -> bool:
    """Return mode by azimuths: blocks come in pairs, or, for the RS-16, turn by one firing sequence each."""
    if model is not RS_16:
        return bool(np.median((np.diff(head, axis=1)[:, ::2] % 360.0) == 0.0))
    stamps = _times(data["stamp"], model.utc_stamp)
    between = np.diff(stamps)
    between = between[(between > 0.0) & (between < 0.01)]
    return bool(len(between)) and float(np.median(between)) < 18 * model.rotor.period_us * 1e-6


def _times(stamp: NDArray[np.uint8], utc: bool) -> Floats:
    """Time stamps [s since 1970]."""
    stamp = stamp.astype(np.int64)
    if not utc:
        return (
            seconds_of(stamp[:, :6], 2000)
            + (stamp[:, 6] * 256 + stamp[:, 7]) * 1e-3
            + (stamp[:, 8] * 256 + stamp[:, 9]) * 1e-6
        )
    seconds = stamp[:, :6].astype(np.float64) @ 256.0 ** np.arange(5, -1, -1)
    return seconds + (stamp[:, 6:] @ (256 ** np.arange(3, -1, -1))) * 1e-6


def utc_times(stamp: NDArray[np.uint8]) -> Floats:
    """Time stamps in seconds and microseconds [s since 1970], shape (n,), from bytes, shape (n, 10)."""
    return _times(stamp, True)


def _stamps(time_s: Floats, utc: bool) -> NDArray[np.uint8]:
    """Bytes of time stamps, shape (n, 10)."""
    date, micro = utc_fields(np.maximum(time_s, 0.0), 2000)
    if not utc:
        parts = [micro // 1000 // 256, micro // 1000 % 256, micro % 1000 // 256, micro % 1000 % 256]
        return np.concatenate([date, np.stack(parts, axis=-1).astype(np.uint8)], axis=1)
    seconds = (np.rint(np.maximum(time_s, 0.0) * 1e6).astype(np.int64) - micro) // 1_000_000
    parts = [seconds >> shift & 255 for shift in range(40, -1, -8)] + [micro >> shift & 255 for shift in (24, 16, 8, 0)]
    return np.stack(parts, axis=-1).astype(np.uint8)


class RoboSenseStream(SpinningStream):
    """MSOP packets of one sensor, and its DIFOP packets."""

    title = "RoboSense"
    modes: Mapping[str, int] = RETURN_MODES

    def __init__(self, model: RoboSenseModel, returns: str | None, ports: Mapping[str, int], epoch_s: float) -> None:
        ends: tuple[Endpoint, Endpoint] = ((SENSOR_ADDRESS, ports["msop"]), (HOST_ADDRESS, ports["msop"]))
        super().__init__(model.rotor, returns, epoch_s, ends)
        self.model, self.ports = model, ports
        self._next_difop: float | None = None

    def per_packet(self) -> int:
        """See `SpinningStream.per_packet`."""
        return 12 * self.model.sequences_per_block // (2 if self.dual else 1)

    def _packets(self, sequences: Sequences) -> list[bytes]:
        model, groups = self.model, self.per_packet()
        count = len(sequences) // groups
        data = np.zeros(count, model.packet)
        start = model.start.ljust(20, b"\0")
        data["start"] = np.void(start)
        data["lidar_type"] = model.lidar_type
        data["stamp"] = _stamps(sequences.time_s[::groups], model.utc_stamp)
        blocks = data["blocks"]
        blocks["id"] = BLOCK_ID
        azimuth = np.rint(sequences.head_deg * 100.0).astype(np.int64).reshape(count, groups) % 36000
        if model is RS_16:
            # A block holds two sequences, or two returns of one.
            blocks["azimuth"] = azimuth if self.dual else azimuth[:, ::2]
        else:
            blocks["azimuth"] = np.repeat(azimuth, 2, axis=1) if self.dual else azimuth
        shape = (count, 12, 32)
        blocks["records"]["distance"] = sequences.distance.reshape(shape)
        blocks["records"]["intensity"] = sequences.intensity.reshape(shape)
        data["tail"] = 0x00FF
        return [row.tobytes() for row in data]

    def _others(self, first_s: float, last_s: float) -> list[Datagram]:
        """DIFOP packets, the first one before the first MSOP packet."""
        port = self.ports["difop"]
        ends: tuple[Endpoint, Endpoint] = ((SENSOR_ADDRESS, port), (HOST_ADDRESS, port))
        due = first_s - 1e-6 if self._next_difop is None else self._next_difop
        if due < first_s - 1.0:
            due = first_s - 1e-6  # the sensor was off in between
        found = []
        while due <= last_s:
            packet = difop_packet(self.model, self.mode or "strongest", self.turning_rpm, self.ports, due)
            found.append(Datagram(due, packet, *ends))
            due += _DIFOP_EVERY_S
        self._next_difop = due
        return found
