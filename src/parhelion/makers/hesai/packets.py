"""Hesai's point packets: firing sequences of packets, and packets of firing sequences."""

from __future__ import annotations

import csv
import io
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np

from parhelion.core.clouds import Scan
from parhelion.core.errors import FormatError
from parhelion.core.reading import open_file
from parhelion.makers import Endpoint
from parhelion.makers.codec import Metadata
from parhelion.makers.hesai.models import MODE_NAMES, RETURN_MODES, HesaiModel, model_of
from parhelion.makers.revolutions import Decoded, SpinningStream, batched, revolutions, seconds_of, utc_fields
from parhelion.makers.spinning import LaserHead, Sequences

SENSOR_ADDRESS, EVERYONE = "192.168.1.201", "255.255.255.255"
SOURCE_PORT = 10000
_FACTORY = 0x42
_MOST_TABLE = 65536  # bytes of an angle correction file; one of 128 lasers has 4000


# ---- decoding -------------------------------------------------------------------------------------------------------


def hesai_frames(payloads: Iterable[bytes], model: HesaiModel | None, metadata: Metadata | None) -> Iterator[Scan]:
    """Revolutions of one sensor's packets; the model is by default that of the first packet."""
    source = iter(payloads)
    first = next((one for one in source if model_of(one) is not None), None)
    if first is None:
        raise FormatError("Hesai packets: no packets found")
    sent = model_of(first)
    assert sent is not None
    if model is not None and model is not sent:
        raise FormatError(f"Hesai packets: they are of a {sent.rotor.name}, not of a {model.rotor.name}")
    rotor = calibrated(sent.rotor, metadata)

    def parts() -> Iterator[Decoded]:
        yield from sequences_in([first], sent, rotor)
        for batch in batched(one for one in source if model_of(one) is sent):
            yield from sequences_in(batch, sent, rotor)

    yield from revolutions(parts())


def sequences_in(payloads: Sequence[bytes], model: HesaiModel, rotor: LaserHead) -> Iterator[Decoded]:
    """Firing sequences of packets, one part per return mode."""
    size = model.packet.itemsize
    data = np.frombuffer(b"".join(one.ljust(size, b"\0") for one in payloads), model.packet)
    borders = (np.flatnonzero(np.diff(data["mode"].astype(np.int64))) + 1).tolist()
    for start, end in zip([0, *borders], [*borders, len(data)], strict=True):
        yield _of_one_mode(data[start:end], model), rotor, MODE_NAMES.get(int(data["mode"][start]), "dual")


def _of_one_mode(data: Any, model: HesaiModel) -> Sequences:
    pair = 1 if int(data["mode"][0]) in MODE_NAMES else 2
    groups, lasers = model.blocks // pair, model.rotor.channels
    number = np.arange(groups) if model.from_first else np.arange(groups) - (groups - 1)
    stamp = seconds_of(data["date"], model.year_zero) + data["micro"] * 1e-6
    time = stamp[:, None] + 1e-6 * (model.start_us + number * model.rotor.period_us)
    blocks = data["blocks"]
    records = blocks["records"].reshape(-1, pair, lasers)
    head = (blocks["azimuth"][:, ::pair] % 36000) * 0.01
    return Sequences(time.reshape(-1), head.reshape(-1), records["distance"].copy(), records["intensity"].copy())


# ---- angles of a unit -----------------------------------------------------------------------------------------------


def read_angles(path: str | PathLike[str]) -> dict[str, Any]:
    """Angles of an angle correction file as Hesai delivers it: lines of laser, elevation and azimuth [deg]."""
    with open_file(path) as stream:
        raw = stream.read(_MOST_TABLE + 1)
    if len(raw) > _MOST_TABLE:
        raise FormatError(f"{path}: too large for an angle correction file")
    try:
        lines = list(csv.reader(io.StringIO(raw.decode("utf-8-sig"))))
        known = bool(lines) and "elev" in ",".join(lines[0]).lower()
        rows = [[float(value) for value in line[:3]] for line in lines if known and line and line[0].strip().isdigit()]
    except (UnicodeDecodeError, ValueError, csv.Error):
        rows = []
    order = sorted(rows)
    table = np.array(order, np.float64) if order and all(len(row) == 3 for row in order) else np.zeros((0, 3))
    if (
        not len(table)
        or not np.array_equal(table[:, 0], np.arange(1, len(table) + 1))
        or not (np.abs(table) <= 360).all()
    ):
        raise FormatError(f"{path}: is no angle correction file (lines of laser, elevation, azimuth in degrees)")
    return {"elevation_deg": table[:, 1].tolist(), "azimuth_deg": table[:, 2].tolist()}


def calibrated(rotor: LaserHead, metadata: Metadata | None) -> LaserHead:
    """Lasers with the angles of a unit."""
    if metadata is None:
        return rotor
    elevation, azimuth = metadata["elevation_deg"], metadata["azimuth_deg"]
    if len(elevation) != rotor.channels:
        raise FormatError(
            f"Hesai packets: the angle correction file has {len(elevation)} lasers, a {rotor.name} has {rotor.channels}"
        )
    return replace(rotor, elevation_deg=tuple(elevation), azimuth_deg=tuple(-value for value in azimuth))


# ---- encoding -------------------------------------------------------------------------------------------------------


class HesaiStream(SpinningStream):
    """Point packets of one sensor."""

    title = "Hesai"
    modes: Mapping[str, int] = RETURN_MODES

    def __init__(self, model: HesaiModel, returns: str | None, port: int, epoch_s: float) -> None:
        ends: tuple[Endpoint, Endpoint] = ((SENSOR_ADDRESS, SOURCE_PORT), (EVERYONE, port))
        super().__init__(model.rotor, returns, epoch_s, ends)
        self.model = model
        self._number = 0

    def per_packet(self) -> int:
        """See `SpinningStream.per_packet`."""
        return self.model.blocks // (2 if self.dual else 1)

    def _packets(self, sequences: Sequences) -> list[bytes]:
        model, pair = self.model, 2 if self.dual else 1
        groups = self.per_packet()
        count = len(sequences) // groups
        data = np.zeros(count, model.packet)
        for name, value in model.head:
            data[name] = value
        if "returns" in (model.packet.names or ()):
            data["returns"], data["first_return"] = pair, pair - 1
        blocks = data["blocks"]
        if "flag" in (blocks.dtype.names or ()):
            blocks["flag"] = 0xEEFF
        azimuth = np.rint(sequences.head_deg * 100.0).astype(np.int64) % 36000
        blocks["azimuth"] = np.repeat(azimuth.reshape(count, groups), pair, axis=1)
        shape = (count, model.blocks, model.rotor.channels)
        blocks["records"]["distance"] = sequences.distance.reshape(shape)
        blocks["records"]["intensity"] = sequences.intensity.reshape(shape)
        reference = sequences.time_s[(0 if model.from_first else groups - 1) :: groups]
        data["date"], data["micro"] = utc_fields(reference - 1e-6 * model.start_us, model.year_zero)
        data["rpm"] = np.clip(round(self.turning_rpm), 0, 65535)
        data["mode"] = RETURN_MODES[self.mode or "last"]
        data["factory"] = _FACTORY
        data["number"] = (self._number + 1 + np.arange(count)) & 0xFFFFFFFF
        self._number += count
        return [row.tobytes() for row in data]
