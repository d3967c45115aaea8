"""Navigation files of RINEX 2 and 3 (IGS and RTCM, versions 2.10 to 3.05): broadcast ephemerides and ionosphere.

The reader supports GPS, Galileo and BeiDou. It counts and skips records of GLONASS, SBAS, QZSS and NavIC: GLONASS
broadcasts state vectors for numerical integration instead of orbital elements.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field, fields
from datetime import datetime, timedelta
from os import PathLike
from pathlib import Path

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import write_whole
from parhelion.core.gps_time import WEEK_S, GpsTime
from parhelion.core.pose import Floats
from parhelion.core.reading import file_reader, read_bytes
from parhelion.sensors.waves.gnss.satellites import FIT_S, Ephemerides

LARGEST_BYTES = 64 * 1024 * 1024
_LINES = {"G": 8, "E": 8, "C": 8, "J": 8, "I": 8, "R": 4, "S": 4}
"""Number of lines per record, by system."""
_BEIDOU_BEHIND_S = 14.0
"""Offset of BeiDou time from GPS time: BeiDou time does not include the leap seconds before 2006."""
_MOST_E, _ROOT_A = 0.3, (4000.0, 7000.0)
_ROWS = (
    ("iode", "crs", "dn", "m0"),
    ("cuc", "e", "cus", "root_a"),
    ("toe_second", "cic", "omega0", "cis"),
    ("i0", "crc", "omega", "omega_dot"),
    ("i_dot", "spare1", "week", "spare2"),
    ("accuracy_m", "health", "tgd", "iodc"),
)
"""Fields of a record after its first line, by line."""
_NEEDED = ("root_a", "e", "m0", "toe_second", "week", "omega0", "i0", "omega")


@dataclass(frozen=True, eq=False)
class Navigation:
    """Contents of a navigation file."""

    ephemerides: Ephemerides
    start: GpsTime
    """Start of the GPS week from which times of the ephemerides count."""
    klobuchar: tuple[Floats, Floats] | None = None
    """Klobuchar parameters alpha and beta of GPS, each of shape (4,); None if the file has none."""
    left_out: dict[str, int] = field(default_factory=dict)
    """Number of skipped records of unsupported systems, by system letter."""


@file_reader(FormatError)
def read_navigation(path: str | PathLike[str]) -> Navigation:
    """Read a navigation file; an error names the damaged line."""
    file = Path(path)
    text = read_bytes(file, FormatError, largest=LARGEST_BYTES, what="a RINEX navigation file")
    lines = text.decode("ascii", errors="replace").splitlines()
    version, klobuchar, first = _header(file, lines)
    rows: list[dict[str, float | str]] = []
    left_out: dict[str, int] = {}
    for number, system, record in _records(file, lines, first, version):
        if system not in "GEC":
            left_out[system] = left_out.get(system, 0) + 1
            continue
        rows.append(_row(file, number, record, version))
    if not rows:
        raise FormatError(f"{file}: has no ephemeris of GPS, Galileo or BeiDou")
    return _collected(rows, klobuchar, left_out)


# ---- header --------------------------------------------------------------------------------------------------------


def _header(file: Path, lines: list[str]) -> tuple[float, tuple[Floats, Floats] | None, int]:
    if not lines or "RINEX VERSION / TYPE" not in lines[0]:
        raise FormatError(f"{file}: is no RINEX file: its first line must end in 'RINEX VERSION / TYPE'")
    version = _number(file, 1, lines[0][:9])
    if not 2.0 <= version < 4.0:
        raise FormatError(f"{file}: is RINEX {version:g}; versions 2 and 3 can be read")
    if lines[0][20:21].upper() != "N":
        raise FormatError(f"{file}: holds no navigation messages; its type is {lines[0][20:40].strip()!r}")
    parts: dict[str, Floats] = {}
    for number, line in enumerate(lines, 1):
        label = line[60:].strip()
        if label == "END OF HEADER":
            alpha, beta = parts.get("alpha"), parts.get("beta")
            return version, None if alpha is None or beta is None else (alpha, beta), number
        if label in ("ION ALPHA", "ION BETA"):
            parts[label[4:].lower()] = _numbers(file, number, line, 2)
        elif label == "IONOSPHERIC CORR" and line[:4] in ("GPSA", "GPSB"):
            parts["alpha" if line[3] == "A" else "beta"] = _numbers(file, number, line, 5)
    raise FormatError(f"{file}: the header has no end: it is cut off")


def _numbers(file: Path, number: int, line: str, start: int) -> Floats:
    return np.array([_number(file, number, line[start + 12 * k : start + 12 * (k + 1)]) for k in range(4)])


def _number(file: Path, number: int, text: str) -> float:
    word = text.strip().replace("D", "E").replace("d", "e")
    if not word:
        return 0.0
    try:
        value = float(word)
    except ValueError:
        raise FormatError(f"{file}: line {number}: {text.strip()[:30]!r} is no number") from None
    if not np.isfinite(value):
        raise FormatError(f"{file}: line {number}: {text.strip()[:30]!r} is not finite")
    return value


# ---- records -------------------------------------------------------------------------------------------------------


def _records(file: Path, lines: list[str], first: int, version: float) -> Iterator[tuple[int, str, list[str]]]:
    """Line number, system and lines of each record."""
    at = first
    while at < len(lines):
        if not lines[at].strip():
            at += 1
            continue
        system = "G" if version < 3.0 else lines[at][:1]
        if system not in _LINES:
            raise FormatError(f"{file}: line {at + 1}: {lines[at][:4].strip()!r} is no satellite")
        record = lines[at : at + _LINES[system]]
        if len(record) < _LINES[system]:
            raise FormatError(
                f"{file}: is cut off: the record of line {at + 1} has {len(record)} of {_LINES[system]} lines"
            )
        yield at + 1, system, record
        at += _LINES[system]


def _row(file: Path, number: int, record: list[str], version: float) -> dict[str, float | str]:
    """Parse one record of Kepler elements."""
    head, wide = record[0], 3 if version < 3.0 else 4
    name = f"G{_whole(file, number, head[0:2]):02d}" if version < 3.0 else head[:3].replace(" ", "0")
    if not (name[0] in "GEC" and name[1:].isdigit() and name[1:] != "00"):
        raise FormatError(f"{file}: line {number}: {name!r} is no satellite")
    if version < 3.0:
        year, *rest = (_whole(file, number, head[k : k + 2]) for k in (3, 6, 9, 12, 15))
        year, second = year + (1900 if year >= 80 else 2000), _number(file, number, head[17:22])
    else:
        year, *rest = (_whole(file, number, head[a:b]) for a, b in ((4, 8), (9, 11), (12, 14), (15, 17), (18, 20)))
        second = float(_whole(file, number, head[21:23]))
    try:
        month, day, hour, minute = rest
        clock_time = GpsTime.from_calendar(datetime(year, month, day, hour, minute) + timedelta(seconds=second))
    except (ValueError, OverflowError, TypeError):
        raise FormatError(f"{file}: line {number}: no such time: {head[3:23].strip()!r}") from None
    start = 22 if version < 3.0 else 23
    values: dict[str, float | str] = {"satellite": name, "toc_week": clock_time.week, "toc_second": clock_time.second}
    for k, field_name in enumerate(("af0", "af1", "af2")):
        values[field_name] = _number(file, number, head[start + 19 * k : start + 19 * (k + 1)])
    for line, row in enumerate(_ROWS, 1):
        for column, field_name in enumerate(row):
            text = record[line][wide + 19 * column : wide + 19 * (column + 1)]
            if not text.strip() and field_name in _NEEDED:
                raise FormatError(f"{file}: line {number + line}: {field_name} is missing: the file is cut off")
            values[field_name] = _number(file, number + line, text)
    _check(file, number, values)
    return values


def _whole(file: Path, number: int, text: str) -> int:
    try:
        return int(text)
    except ValueError:
        raise FormatError(f"{file}: line {number}: {text.strip()[:30]!r} is no whole number") from None


def _check(file: Path, number: int, values: dict[str, float | str]) -> None:
    """Reject orbital elements that no satellite has; they would give plausible but wrong positions."""
    limits = {"e": (0.0, _MOST_E), "root_a": _ROOT_A, "toe_second": (0.0, WEEK_S), "week": (0.0, 10_000.0)}
    for name, (low, high) in limits.items():
        value = float(values[name])
        if not low <= value <= high:
            raise FormatError(f"{file}: line {number}: {name} must be from {low:g} to {high:g}, got {value:g}")


def _collected(
    rows: list[dict[str, float | str]], klobuchar: tuple[Floats, Floats] | None, left_out: dict[str, int]
) -> Navigation:
    week = min(int(row["toc_week"]) for row in rows)
    columns: dict[str, list[float | str]] = {}
    for row in rows:
        behind = _BEIDOU_BEHIND_S if str(row["satellite"])[0] == "C" else 0.0
        # The clock reference is a calendar time, so its week is known; the orbit reference is in the nearest week.
        toc = (float(row["toc_week"]) - week) * WEEK_S + float(row["toc_second"]) + behind
        toe = float(row["toe_second"]) + behind
        toe += round((toc - toe) / WEEK_S) * WEEK_S
        for name, value in {**row, "toe": toe, "toc": toc}.items():
            columns.setdefault(name, []).append(value)
    numbers = [one.name for one in fields(Ephemerides) if one.name not in ("satellite", "health", "fit_s")]
    satellite = np.array(columns["satellite"], dtype="U3")
    found = Ephemerides(
        satellite=satellite,
        fit_s=np.array([FIT_S[name[0]] for name in satellite.tolist()]),
        health=np.array(columns["health"], dtype=np.float64).astype(np.int64),
        **{name: np.array(columns[name], dtype=np.float64) for name in numbers},
    )
    return Navigation(found, GpsTime(week, 0.0), klobuchar, left_out)


def check_covers(navigation: Navigation, epoch: GpsTime, source: str) -> None:
    """Raise ConfigError if no ephemeris is valid at a time."""
    at = epoch.since(navigation.start)
    eph = navigation.ephemerides
    if np.any(eph.pick(np.array([at]), eph.names) >= 0):
        return
    first, last = (navigation.start.utc(float(toe)) for toe in (eph.toe.min(), eph.toe.max()))
    raise ConfigError(
        f"{source}: its ephemerides are for {first:%Y-%m-%d %H:%M} to {last:%Y-%m-%d %H:%M} UTC, none is within hours "
        f"of the epoch {epoch.utc():%Y-%m-%d %H:%M} UTC"
    )


# ---- writing --------------------------------------------------------------------------------------------------------
# Ephemerides as a RINEX 3.04 navigation file, so that other programs can use the ranges of a nominal constellation.


_BEIDOU_WEEK, _LEAP_S = 1356, 18


def _line(text: str, label: str) -> str:
    return f"{text:<60}{label:<20}\n"


def _written_number(value: float) -> str:
    return f"{value:19.12E}".replace("E", "D")


def _written_row(values: Iterable[float]) -> str:
    return "    " + "".join(map(_written_number, values)) + "\n"


def navigation_text(eph: Ephemerides, start: GpsTime, klobuchar: tuple[Floats, Floats]) -> str:
    """Text of a navigation file without GLONASS; times of the ephemerides count from `start`."""
    text = _line(f"{3.04:9.2f}{'':11}{'N: GNSS NAV DATA':20}{'M: MIXED':20}", "RINEX VERSION / TYPE")
    text += _line(f"{'Parhelion':20}{'':20}{'':20}", "PGM / RUN BY / DATE")
    for name, values in zip(("GPSA", "GPSB"), klobuchar, strict=True):
        text += _line(f"{name} " + "".join(f"{v:12.4E}".replace("E", "D") for v in values), "IONOSPHERIC CORR")
    text += _line(f"{_LEAP_S:6d}", "LEAP SECONDS") + _line("", "END OF HEADER")
    for k in np.flatnonzero(eph.satellite.astype("U1") != "R"):
        text += _record(eph, int(k), start)
    return text


def _record(eph: Ephemerides, k: int, start: GpsTime) -> str:
    name = str(eph.satellite[k])
    behind, week0 = (_BEIDOU_BEHIND_S, _BEIDOU_WEEK) if name[0] == "C" else (0.0, 0)
    toe, toc = start.second + eph.toe[k] - behind, start.second + eph.toc[k] - behind
    week, second = start.week + int(toe // WEEK_S), float(toe % WEEK_S)
    year, month, day, hour, minute, whole = GpsTime(start.week, 0.0).calendar(float(toc))
    # The longitude of the node refers to the start of the week of the message time.
    node = eph.omega0[k] + eph.constants[1][k] * (second - eph.toe_second[k])
    head = f"{name} {year:4d} {month:02d} {day:02d} {hour:02d} {minute:02d} {round(whole):02d}"
    text = head + "".join(_written_number(float(values[k])) for values in (eph.af0, eph.af1, eph.af2)) + "\n"
    rows = (
        (1.0, eph.crs[k], eph.dn[k], eph.m0[k]),
        (eph.cuc[k], eph.e[k], eph.cus[k], eph.root_a[k]),
        (second, eph.cic[k], node, eph.cis[k]),
        (eph.i0[k], eph.crc[k], eph.omega[k], eph.omega_dot[k]),
        (eph.i_dot[k], 517.0 if name[0] == "E" else 0.0, float(week - week0), 0.0),
        (eph.accuracy_m[k], float(eph.health[k]), eph.tgd[k], 0.0 if name[0] == "E" else 1.0),
        (second, 4.0 if name[0] == "G" else 0.0),
    )
    return text + "".join(map(_written_row, rows))


def write_navigation(
    path: str | PathLike[str], eph: Ephemerides, start: GpsTime, klobuchar: tuple[Floats, Floats]
) -> None:
    """Write a navigation file atomically."""
    write_whole(path, navigation_text(eph, start, klobuchar).encode("ascii"))
