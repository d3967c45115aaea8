"""GNSS files: NMEA 0183 sentences, u-blox UBX messages and RINEX observations.

NMEA version 4.10: GGA, RMC, GSA and GSV. Heights are above the ellipsoid: there is no geoid model, so the geoid
separation is given as 0.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from os import PathLike

import numpy as np

from parhelion.core.files import atomic_write
from parhelion.core.gps_time import WEEK_S, GpsTime
from parhelion.core.pose import Floats
from parhelion.core.streams import NO_FIX, RTK_FIXED, RTK_FLOAT, SINGLE, GnssData

SYSTEMS = {"G": ("GP", 1, 0), "R": ("GL", 2, 64), "E": ("GA", 3, 0), "C": ("GB", 4, 0)}
"""Talker, system number in GSA and GSV, and offset of the satellite number, by letter of the system."""
KNOT_M_S = 1852.0 / 3600.0
_IN_GSA, _IN_GSV = 12, 4


def sentence(body: str) -> str:
    """NMEA sentence with start, end and checksum, the exclusive or of all characters between $ and *."""
    total = 0
    for character in body.encode("ascii"):
        total ^= character
    return f"${body}*{total:02X}\r\n"


def _angle(degrees: float, wide: int, signs: str) -> str:
    """Degrees and minutes, for example 4807.03810,N."""
    # In integer steps of 1e-5 minutes, so that rounding never gives 60 minutes.
    steps = round(abs(degrees) * 60e5)
    whole, rest = divmod(steps, 60 * 10**5)
    return f"{whole:0{wide}d}{rest // 10**5:02d}.{rest % 10**5:05d},{signs[0] if degrees >= 0 else signs[1]}"


def sentences(data: GnssData) -> Iterator[str]:
    """NMEA sentences of every epoch, in chronological order."""
    start = GpsTime(int(data.metadata["gps_week"]), float(data.metadata["gps_second"]))
    moving = data.to_enu(data.velocity)
    for k, time in enumerate(data.time.tolist()):
        at = start.utc(time)
        clock = f"{at:%H%M%S}.{at.microsecond // 10_000:02d}"
        known = int(data.mode[k]) != NO_FIX
        where = ",,,"
        if known:
            where = f"{_angle(float(data.latitude[k]), 2, 'NS')},{_angle(float(data.longitude[k]), 3, 'EW')}"
        count, hdop = int(data.used[k].sum()), f"{data.dop[k, 2]:.2f}" if known else "99.99"
        height = f"{data.altitude[k]:.3f}" if known else ""
        quality = int(known) if data.quality is None else int(data.quality[k])
        yield sentence(f"GNGGA,{clock},{where},{quality},{count:02d},{hdop},{height},M,0.0,M,,")
        speed, course = "", ""
        if known:
            east, north, _ = moving[k].tolist()
            speed = f"{np.hypot(east, north) / KNOT_M_S:.3f}"
            course = f"{np.degrees(np.arctan2(east, north)) % 360.0:.2f}"
        yield sentence(
            f"GNRMC,{clock},{'A' if known else 'V'},{where},{speed},{course},{at:%d%m%y},,,{'A' if known else 'N'},V"
        )
        yield from _satellites(data, k, known)


def _satellites(data: GnssData, k: int, known: bool) -> Iterator[str]:
    dops = ",".join(f"{data.dop[k, row]:.2f}" if known else "99.99" for row in (1, 2, 3))
    letters = [letter for letter in SYSTEMS if any(name[0] == letter for name in data.satellites)]
    for letter in letters:
        _, system, first = SYSTEMS[letter]
        used = [
            int(data.satellites[j][1:]) + first for j in np.flatnonzero(data.used[k]) if data.satellites[j][0] == letter
        ]
        for start in range(0, max(len(used), 1), _IN_GSA):
            numbers = [f"{number:02d}" for number in used[start : start + _IN_GSA]]
            cells = ",".join(numbers + [""] * (_IN_GSA - len(numbers)))
            yield sentence(f"GNGSA,A,{3 if known else 1},{cells},{dops},{system}")
    for letter in letters:
        talker, _, first = SYSTEMS[letter]
        seen = [j for j, name in enumerate(data.satellites) if name[0] == letter and data.status[k, j] > 0]
        pages = max(1, -(-len(seen) // _IN_GSV))
        for page in range(pages):
            cells = ""
            for j in seen[page * _IN_GSV : (page + 1) * _IN_GSV]:
                strength = f"{round(float(data.cn0[k, j])):02d}" if np.isfinite(data.cn0[k, j]) else ""
                azimuth = round(float(np.degrees(data.azimuth[k, j]))) % 360
                number = int(data.satellites[j][1:]) + first
                cells += f",{number:02d},{round(float(np.degrees(data.elevation[k, j]))):02d},{azimuth:03d},{strength}"
            yield sentence(f"{talker}GSV,{pages},{page + 1},{len(seen):02d}{cells},1")


def write_nmea(data: GnssData, path: str | PathLike[str]) -> None:
    """Write all NMEA sentences to a text file."""
    with atomic_write(path) as temporary, temporary.open("w", encoding="ascii", newline="") as stream:
        stream.writelines(sentences(data))


# ---- UBX-NAV-PVT (protocol 27: u-blox F9 interface description, UBX-18010854) ---------------------------------------


_SYNC = b"\xb5\x62"
_NAV_PVT = (0x01, 0x07)
_LAYOUT = "<IHBBBBBBIiBBBBiiiiIIiiiiiIIHHIiHH"


def frame(kind: tuple[int, int], payload: bytes) -> bytes:
    """UBX message with its header and Fletcher checksum."""
    body = struct.pack("<BBH", *kind, len(payload)) + payload
    a = b = 0
    for value in body:
        a = (a + value) & 0xFF
        b = (b + a) & 0xFF
    return _SYNC + body + bytes((a, b))


def _flags(data: GnssData, k: int) -> int:
    """Flags of NAV-PVT: bit 0 fix, bit 1 corrections, bits 6 and 7 carrier solution (1 float, 2 fixed)."""
    quality = 0 if data.quality is None else int(data.quality[k])
    carrier = {RTK_FLOAT: 1, RTK_FIXED: 2}.get(quality, 0)
    return int(data.mode[k] != NO_FIX) | (quality > SINGLE) << 1 | carrier << 6


def messages(data: GnssData) -> Iterator[bytes]:
    """NAV-PVT messages, one per epoch."""
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
            _LAYOUT,
            tow,
            at.year,
            at.month,
            at.day,
            at.hour,
            at.minute,
            at.second,
            0x07,
            50,
            at.microsecond * 1000,
            3 if known else 0,
            _flags(data, k),
            0,
            int(data.used[k].sum()),
            round(where[0] * 1e7),
            round(where[1] * 1e7),
            round(where[2] * 1e3),
            round(where[2] * 1e3),
            *(min(round(v * 1e3), 2**32 - 1) for v in spread),
            *(round(v * 1e3) for v in speed),
            round(ground * 1e3),
            round(heading * 1e5),
            50,
            10_000_000,
            min(round(pdop * 100), 65_535),
            0,
            0,
            0,
            0,
            0,
        )
        yield frame(_NAV_PVT, payload)


def write_ubx(data: GnssData, path: str | PathLike[str]) -> None:
    """Write all UBX messages to a binary file."""
    with atomic_write(path) as temporary, temporary.open("wb") as stream:
        stream.writelines(messages(data))


# ---- RINEX 3.04 observations: code, carrier, Doppler and signal strength per satellite and band ---------------------


CODES = {
    "L1": {"G": "1C", "E": "1C", "C": "1P", "R": "1C"},
    "L2": {"G": "2L", "E": "7Q", "C": "7D", "R": "2C"},
    "L5": {"G": "5Q", "E": "5Q", "C": "5P"},
}
"""RINEX names of the signals, by band and system."""
_KINDS = ("C", "L", "D", "S")


def _line(text: str, label: str) -> str:
    return f"{text:<60}{label:<20}\n"


def _columns(data: GnssData) -> list[tuple[str, tuple[Floats, Floats, Floats, Floats]]]:
    """Bands with their arrays, in the order of the file."""
    bands = list(data.metadata["bands"])
    found = [(bands[0], (data.pseudorange, data.carrier, data.doppler, data.cn0))]
    if len(bands) > 1 and data.pseudorange_2 is not None and data.carrier_2 is not None:
        assert data.doppler_2 is not None
        assert data.cn0_2 is not None
        found.append((bands[1], (data.pseudorange_2, data.carrier_2, data.doppler_2, data.cn0_2)))
    return found


def _time(start: GpsTime, second: float) -> tuple[int, int, int, int, int, float]:
    whole = GpsTime(start.week + int(second // WEEK_S), 0.0)
    return whole.calendar(second - (whole.week - start.week) * WEEK_S)


def header(data: GnssData, start: GpsTime) -> str:
    """RINEX header."""
    from pymap3d import geodetic2ecef

    meta = data.metadata
    place = geodetic2ecef(meta["latitude_deg"], meta["longitude_deg"], meta["altitude_m"])
    known = np.flatnonzero(data.mode)
    if len(known):
        k = int(known[0])
        place = geodetic2ecef(float(data.latitude[k]), float(data.longitude[k]), float(data.altitude[k]))
    first = _time(start, float(data.receiver_time[0]) if len(data) else 0.0)
    systems = [letter for letter in "GREC" if any(name[0] == letter for name in data.satellites)]
    text = _line(f"{3.04:9.2f}{'':11}{'OBSERVATION DATA':20}{'M: MIXED':20}", "RINEX VERSION / TYPE")
    text += _line(f"{'Parhelion':20}{'':20}{'':20}", "PGM / RUN BY / DATE")
    text += _line("SIMULATED", "MARKER NAME")
    text += _line(f"{'':20}{'':40}", "OBSERVER / AGENCY")
    text += _line(f"{'1':20}{str(meta['sensor'])[:20]:20}{'':20}", "REC # / TYPE / VERS")
    text += _line(f"{'1':20}{'':20}", "ANT # / TYPE")
    text += _line("".join(f"{float(v):14.4f}" for v in place), "APPROX POSITION XYZ")
    text += _line(f"{0.0:14.4f}" * 3, "ANTENNA: DELTA H/E/N")
    for letter in systems:
        codes = [kind + CODES[band][letter] for band, _ in _columns(data) if letter in CODES[band] for kind in _KINDS]
        text += _line(f"{letter}  {len(codes):3d}" + "".join(f" {code}" for code in codes), "SYS / # / OBS TYPES")
    text += _line(f"{1.0 / float(meta['rate_hz']):10.3f}", "INTERVAL")
    text += _line("".join(f"{v:6d}" for v in first[:5]) + f"{first[5]:13.7f}     GPS", "TIME OF FIRST OBS")
    channels = sorted(dict(meta.get("glonass_channels", {})).items())
    for row in range(0, len(channels), 8):
        count = f"{len(channels):3d} " if row == 0 else "    "
        text += _line(
            count + "".join(f"{name} {channel:2d} " for name, channel in channels[row : row + 8]),
            "GLONASS SLOT / FRQ #",
        )
    if channels:
        text += _line("".join(f" {code} {0.0:8.3f}" for code in ("C1C", "C1P", "C2C", "C2P")), "GLONASS COD/PHS/BIS")
    return text + _line("", "END OF HEADER")


def _cell(value: float) -> str:
    return f"{value:14.3f}  " if np.isfinite(value) else " " * 16


def body(data: GnssData, start: GpsTime) -> list[str]:
    """Lines of all epochs: the receiver's time, then one line per tracked satellite."""
    columns, lines = _columns(data), []
    for k in range(len(data)):
        tracked = np.flatnonzero(data.tracked[k])
        year, month, day, hour, minute, second = _time(start, float(data.receiver_time[k]))
        lines.append(f"> {year:4d} {month:02d} {day:02d} {hour:02d} {minute:02d}{second:11.7f}  0{len(tracked):3d}\n")
        for j in tracked:
            letter = data.satellites[j][0]
            cells = "".join(
                _cell(float(values[k, j])) for band, arrays in columns if letter in CODES[band] for values in arrays
            )
            lines.append(f"{data.satellites[j]}{cells}".rstrip() + "\n")
    return lines


def write_rinex(data: GnssData, path: str | PathLike[str]) -> None:
    """Write a RINEX observation file."""
    start = GpsTime(int(data.metadata["gps_week"]), 0.0)
    with atomic_write(path) as temporary, temporary.open("w", encoding="ascii", newline="") as stream:
        stream.write(header(data, start))
        stream.writelines(body(data, start))
