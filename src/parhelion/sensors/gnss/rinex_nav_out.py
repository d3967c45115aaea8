"""Ephemerides as a RINEX 3.04 navigation file, so that other programs can use the ranges of a nominal sky."""

from __future__ import annotations

from collections.abc import Iterable
from os import PathLike

import numpy as np

from parhelion.core.files import write_whole
from parhelion.core.gps_time import WEEK_S, GpsTime
from parhelion.core.pose import Floats
from parhelion.sensors.gnss.orbits import Ephemerides

_BEIDOU_BEHIND_S, _BEIDOU_WEEK = 14.0, 1356


def _line(text: str, label: str) -> str:
    return f"{text:<60}{label:<20}\n"


def _number(value: float) -> str:
    return f"{value:19.12E}".replace("E", "D")


def _row(values: Iterable[float]) -> str:
    return "    " + "".join(map(_number, values)) + "\n"


def navigation_text(eph: Ephemerides, start: GpsTime, klobuchar: tuple[Floats, Floats], leap: int = 18) -> str:
    """A navigation file; times of the ephemerides count from `start`. GLONASS, which has other records, is left out."""
    text = _line(f"{3.04:9.2f}{'':11}{'N: GNSS NAV DATA':20}{'M: MIXED':20}", "RINEX VERSION / TYPE")
    text += _line(f"{'Parhelion':20}{'':20}{'':20}", "PGM / RUN BY / DATE")
    for name, values in zip(("GPSA", "GPSB"), klobuchar, strict=True):
        text += _line(f"{name} " + "".join(f"{v:12.4E}".replace("E", "D") for v in values), "IONOSPHERIC CORR")
    text += _line(f"{leap:6d}", "LEAP SECONDS") + _line("", "END OF HEADER")
    for k in np.flatnonzero(eph.satellite.astype("U1") != "R"):
        text += _record(eph, int(k), start)
    return text


def _record(eph: Ephemerides, k: int, start: GpsTime) -> str:
    name = str(eph.satellite[k])
    behind, week0 = (_BEIDOU_BEHIND_S, _BEIDOU_WEEK) if name[0] == "C" else (0.0, 0)
    toe, toc = start.second + eph.toe[k] - behind, start.second + eph.toc[k] - behind
    week, second = start.week + int(toe // WEEK_S), float(toe % WEEK_S)
    year, month, day, hour, minute, whole = GpsTime(start.week, 0.0).calendar(float(toc))
    # The node's longitude counts from the start of the week of the message's own time.
    node = eph.omega0[k] + eph.constants[1][k] * (second - eph.toe_second[k])
    head = f"{name} {year:4d} {month:02d} {day:02d} {hour:02d} {minute:02d} {round(whole):02d}"
    text = head + "".join(_number(float(values[k])) for values in (eph.af0, eph.af1, eph.af2)) + "\n"
    rows = (
        (1.0, eph.crs[k], eph.dn[k], eph.m0[k]),
        (eph.cuc[k], eph.e[k], eph.cus[k], eph.root_a[k]),
        (second, eph.cic[k], node, eph.cis[k]),
        (eph.i0[k], eph.crc[k], eph.omega[k], eph.omega_dot[k]),
        (eph.i_dot[k], 517.0 if name[0] == "E" else 0.0, float(week - week0), 0.0),
        (eph.accuracy_m[k], float(eph.health[k]), eph.tgd[k], 0.0 if name[0] == "E" else 1.0),
        (second, 4.0 if name[0] == "G" else 0.0),
    )
    return text + "".join(map(_row, rows))


def write_navigation(
    path: str | PathLike[str], eph: Ephemerides, start: GpsTime, klobuchar: tuple[Floats, Floats]
) -> None:
    """Write the file whole or not at all."""
    from pathlib import Path

    write_whole(Path(path), navigation_text(eph, start, klobuchar).encode("ascii"))
