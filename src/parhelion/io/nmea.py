"""Fixes as NMEA 0183 sentences (version 4.10): GGA, RMC, GSA and GSV, each with its checksum.

Heights are above the ellipsoid: no model of the geoid is at hand, so its separation is told as 0.
"""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike

import numpy as np

from parhelion.core.gnss import NO_FIX, GnssData
from parhelion.core.gps_time import GpsTime
from parhelion.io.atomic import atomic_write

SYSTEMS = {"G": ("GP", 1, 0), "R": ("GL", 2, 64), "E": ("GA", 3, 0), "C": ("GB", 4, 0)}
"""Talker, number of the system in GSA and GSV, and what is added to the satellite's number."""
KNOT_M_S = 1852.0 / 3600.0
_IN_GSA, _IN_GSV = 12, 4


def sentence(body: str) -> str:
    """A sentence with its frame and checksum: the exclusive or of all characters between $ and *."""
    total = 0
    for character in body.encode("ascii"):
        total ^= character
    return f"${body}*{total:02X}\r\n"


def _angle(degrees: float, wide: int, signs: str) -> str:
    """Degrees and minutes, such as 4807.03810,N."""
    # In whole steps of 1e-5 minutes: rounding must not give 60 minutes.
    steps = round(abs(degrees) * 60e5)
    whole, rest = divmod(steps, 60 * 10**5)
    return f"{whole:0{wide}d}{rest // 10**5:02d}.{rest % 10**5:05d},{signs[0] if degrees >= 0 else signs[1]}"


def sentences(data: GnssData) -> Iterator[str]:
    """The sentences of every fix, in the order of time."""
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
        yield sentence(f"GNGGA,{clock},{where},{int(known)},{count:02d},{hdop},{height},M,0.0,M,,")
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


def write(data: GnssData, path: str | PathLike[str]) -> None:
    """All sentences as a text file."""
    with atomic_write(path) as temporary, temporary.open("w", encoding="ascii", newline="") as stream:
        stream.writelines(sentences(data))
