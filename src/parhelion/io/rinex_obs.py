"""Ranges as a RINEX 3.04 observation file: code, carrier, Doppler and strength of each satellite and band."""

from __future__ import annotations

from os import PathLike

import numpy as np

from parhelion.core.gnss import GnssData
from parhelion.core.gps_time import WEEK_S, GpsTime
from parhelion.core.pose import Floats
from parhelion.io.atomic import atomic_write

CODES = {
    "L1": {"G": "1C", "E": "1C", "C": "1P", "R": "1C"},
    "L2": {"G": "2L", "E": "7Q", "C": "7D", "R": "2C"},
    "L5": {"G": "5Q", "E": "5Q", "C": "5P"},
}
"""What RINEX calls the signals of each band and system."""
_KINDS = ("C", "L", "D", "S")


def _line(text: str, label: str) -> str:
    return f"{text:<60}{label:<20}\n"


def _columns(data: GnssData) -> list[tuple[str, tuple[Floats, Floats, Floats, Floats]]]:
    """Band and its arrays, in the order of the file."""
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
    """All lines up to the end of the header."""
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
    """Epoch by epoch: the receiver's own time, and a line for each satellite that it tracks."""
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


def write(data: GnssData, path: str | PathLike[str]) -> None:
    """Write an observation file."""
    start = GpsTime(int(data.metadata["gps_week"]), 0.0)
    with atomic_write(path) as temporary, temporary.open("w", encoding="ascii", newline="") as stream:
        stream.write(header(data, start))
        stream.writelines(body(data, start))
