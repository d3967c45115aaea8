"""Reflectance spectra from text files: the ECOSTRESS / ASTER library format, and plain columns of two numbers."""

from __future__ import annotations

import re
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.reading import file_reader, read_bytes

LARGEST_SPECTRUM_BYTES = 8 * 1024 * 1024
LONGEST_FIELD = 10_000
"""Maximum number of characters of a header field; longer fields are truncated."""

MISSING_BELOW = -1e30
"""Values below this are missing: the USGS libraries write -1.23e34 for deleted channels."""

_KEY = re.compile(r"^([A-Z][\w .,/()-]{0,40}?):\s*(.*)$")
_SEPARATORS = re.compile(r"[,;\s]+")


@dataclass(frozen=True, eq=False)
class Spectrum:
    """One measured spectrum."""

    wavelength_um: NDArray[np.float64]
    """Wavelengths [um], ascending, shape (n,)."""
    reflectance: NDArray[np.float64]
    """Measured reflectance as a fraction, shape (n,); noise may exceed 0 to 1."""
    header: dict[str, str]
    """Header fields by name. `X Units` and `Y Units` are always present; '(by magnitude)' marks inferred units."""
    name: str
    """`Name` of the header, or the file name without extension."""


@file_reader()
def read_spectrum(
    path: str | PathLike[str], *, wavelength_unit: Literal["um", "nm"] | None = None, percent: bool | None = None
) -> Spectrum:
    """Read a spectrum. Units come from the arguments, from the header, or from the magnitude of the numbers.

    By magnitude, wavelengths are nm if the largest is above 100, otherwise um; reflectances are percent if the largest
    is above 1.5, otherwise fractions. Rows may ascend or descend. Rows of equal wavelength are averaged. Deleted
    channels are omitted.
    """
    file = Path(path)
    lines = _read_lines(file)
    header, rows = _split(file, lines)
    stated = header.get("Number of X Values", "")
    if re.fullmatch("[0-9]{1,18}", stated) and len(rows) < int(stated):
        raise FormatError(f"{file}: the header states {stated} values, but the file has {len(rows)}")
    table = np.array(rows, np.float64).reshape(-1, 2)
    table = table[~(table[:, 1] < MISSING_BELOW)]  # keeps NaN, which is an error below
    if len(table) < 2:
        raise FormatError(f"{file}: expected at least 2 rows of wavelength and reflectance, got {len(table)}")
    if not np.isfinite(table).all() or table[:, 0].min() <= 0:
        raise FormatError(f"{file}: wavelengths must be positive, and all values finite")

    x_scale, x_words = _wavelength_scale(file, header.get("X Units", ""), table[:, 0], wavelength_unit)
    y_scale, y_words = _reflectance_scale(file, header.get("Y Units", ""), table[:, 1], percent)
    wavelength, place = np.unique(table[:, 0] * x_scale, return_inverse=True)
    reflectance = np.bincount(place, table[:, 1] * y_scale) / np.bincount(place)
    if len(wavelength) < 2:
        raise FormatError(f"{file}: all rows have the same wavelength")
    header |= {"X Units": x_words, "Y Units": y_words}
    return Spectrum(wavelength, reflectance, header, header.get("Name") or file.stem)


def _read_lines(file: Path) -> list[str]:
    data = read_bytes(file, largest=LARGEST_SPECTRUM_BYTES, what="a spectrum")
    if b"\0" in data:
        raise FormatError(f"{file}: is not a text file")
    # Old library files contain degree signs and names in Latin-1; only header text is affected.
    return data.decode("utf-8", errors="replace").lstrip("\ufeff").splitlines()


def _split(file: Path, lines: list[str]) -> tuple[dict[str, str], list[tuple[float, float]]]:
    """Header fields and rows of numbers. Header values may continue on several lines."""
    header: dict[str, str] = {}
    rows: list[tuple[float, float]] = []
    key = ""
    for number, raw in enumerate(lines, start=1):
        line = raw.strip()
        if not line or line.startswith("#"):
            continue
        row = _row(line)
        if row is not None:
            rows.append(row)
        elif rows:
            raise FormatError(f"{file}: line {number} is not a wavelength and a reflectance: {line[:40]!r}")
        elif match := _KEY.match(line):
            key = match[1].strip()
            header[key] = match[2].strip()
        elif key:
            if len(header[key]) < LONGEST_FIELD:
                header[key] = f"{header[key]} {line}".strip()
        else:
            header |= _column_titles(line)
    if not rows:
        raise FormatError(f"{file}: contains no rows of wavelength and reflectance")
    return header, rows


def _row(line: str) -> tuple[float, float] | None:
    parts = [part for part in _SEPARATORS.split(line) if part]
    try:
        values = [float(part) for part in parts]
    except ValueError:
        return None
    return (values[0], values[1]) if len(values) >= 2 else None


def _column_titles(line: str) -> dict[str, str]:
    """Units from a title line such as `wavelength_nm,reflectance`; empty if it states none."""
    titles = [part.strip() for part in re.split(r"[,;\t]", line)]
    if len(titles) < 2:
        return {}
    found = {}
    if _unit_of(titles[0]):
        found["X Units"] = titles[0]
    if "%" in titles[1] or "percent" in titles[1].lower():
        found["Y Units"] = titles[1]
    return found


def _unit_of(words: str) -> str:
    text = words.lower()
    if "nano" in text or re.search(r"(?<![a-z])nm(?![a-z])", text):
        return "nm"
    if "micro" in text or re.search(r"(?<![a-z])[uµμ]m(?![a-z])", text):
        return "um"
    return ""


def _wavelength_scale(file: Path, words: str, values: NDArray[np.float64], asked: str | None) -> tuple[float, str]:
    unit = asked or _unit_of(words)
    if not unit and words:
        raise FormatError(f"{file}: X Units must be micrometers or nanometers, got {words!r}")
    note = ""
    if not unit:
        unit = "nm" if values.max() > 100 else "um"
        note = " (by magnitude)"
    return (1e-3, f"nanometers{note}") if unit == "nm" else (1.0, f"micrometers{note}")


def _reflectance_scale(file: Path, words: str, values: NDArray[np.float64], percent: bool | None) -> tuple[float, str]:
    text = words.lower()
    if any(other in text for other in ("transmi", "emissiv", "radiance", "absor")):
        raise FormatError(f"{file}: Y Units must be reflectance, got {words!r}")
    note = ""
    if percent is None:
        if words:
            percent = "percent" in text or "%" in text
        else:
            percent = bool(values.max() > 1.5)
            note = " (by magnitude)"
    return (1e-2, f"percent{note}") if percent else (1.0, f"fraction{note}")
