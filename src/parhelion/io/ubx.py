"""Fixes as u-blox UBX-NAV-PVT messages (protocol 27: u-blox F9 interface description, UBX-18010854)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from os import PathLike

import numpy as np

from parhelion.core.gnss import NO_FIX, GnssData
from parhelion.core.gps_time import WEEK_S, GpsTime
from parhelion.io.atomic import atomic_write

_SYNC = b"\xb5\x62"
_NAV_PVT = (0x01, 0x07)
_LAYOUT = "<IHBBBBBBIiBBBBiiiiIIiiiiiIIHHIiHH"


def frame(kind: tuple[int, int], payload: bytes) -> bytes:
    """A message with its frame and Fletcher checksum."""
    body = struct.pack("<BBH", *kind, len(payload)) + payload
    a = b = 0
    for value in body:
        a = (a + value) & 0xFF
        b = (b + a) & 0xFF
    return _SYNC + body + bytes((a, b))


def messages(data: GnssData) -> Iterator[bytes]:
    """One NAV-PVT a fix."""
    start = GpsTime(int(data.metadata["gps_week"]), float(data.metadata["gps_second"]))
    moving = data.to_enu(data.velocity)
    for k, time in enumerate(data.time.tolist()):
        at, known = start.utc(time), int(data.mode[k]) != NO_FIX
        where, speed, spread, pdop = np.zeros(3), np.zeros(3), np.zeros(2), 99.99
        if known:
            where = np.array([data.longitude[k], data.latitude[k], data.altitude[k]])
            east, north, up = moving[k].tolist()
            speed = np.array([north, east, -up])
            variance = np.diag(data.position_covariance[k])
            spread, pdop = np.sqrt([variance[0] + variance[1], variance[2]]), float(data.dop[k, 1])
        ground = float(np.hypot(speed[0], speed[1]))
        heading = float(np.degrees(np.arctan2(speed[1], speed[0]))) % 360.0
        tow = round(((start.second + time) % WEEK_S) * 1000.0)
        payload = struct.pack(
            _LAYOUT, tow, at.year, at.month, at.day, at.hour, at.minute, at.second, 0x07, 50, at.microsecond * 1000,
            3 if known else 0, int(known), 0, int(data.used[k].sum()), round(where[0] * 1e7), round(where[1] * 1e7),
            round(where[2] * 1e3), round(where[2] * 1e3), *(min(round(v * 1e3), 2**32 - 1) for v in spread),
            *(round(v * 1e3) for v in speed), round(ground * 1e3), round(heading * 1e5), 50, 10_000_000,
            min(round(pdop * 100), 65_535), 0, 0, 0, 0, 0,
        )  # fmt: skip
        yield frame(_NAV_PVT, payload)


def write(data: GnssData, path: str | PathLike[str]) -> None:
    """All messages as a binary file."""
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        stream.writelines(messages(data))
