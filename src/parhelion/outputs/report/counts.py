"""Counts of every scan of a run, one line of JSON a scan, written as the run goes and read again when it goes on."""

from __future__ import annotations

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.records import ORIGINS, Scan
from parhelion.io.atomic import atomic_write

_LARGEST_TABLE = 1 << 20
"""Instance numbers beyond this are not counted: a table of them would not be small."""


@dataclass(frozen=True)
class ScanCounts:
    """What one scan gave."""

    lidar: str
    scan: int
    """Its number."""
    time_s: float
    """When it began."""
    points: int
    shots: int
    lost: int
    """Shots without a return."""
    range_m: tuple[float, float, float] | None
    """Least, median and largest range; None without points."""
    origins: dict[str, int]
    """Points by what made them: surface, rain, fog ..."""
    labels: dict[str, int]
    """Points by label."""
    instances: dict[str, int]
    """Points on each thing that moves, by its instance number."""


def counts_of(lidar: str, number: int, scan: Scan, moving: Collection[int]) -> ScanCounts:
    """Count a scan; `moving` holds the instance numbers of what moves."""
    distance = scan.fields["range"]
    range_m = None
    if len(scan):
        # Ranges come in steps of millimetres and more; the digits beyond would only fill the file.
        least, median, most = (round(float(v), 4) for v in (distance.min(), np.median(distance), distance.max()))
        range_m = (least, median, most)
    words = {0: "in the air", **scan.names.get("label", {})}
    label, origin, instance = (_counted(scan, name) for name in ("label", "origin", "instance"))
    return ScanCounts(
        lidar, number, float(scan.start_time), len(scan), len(scan.shots), int(scan.lost.sum()), range_m,
        {ORIGINS[row] if row < len(ORIGINS) else f"origin {row}": int(origin[row]) for row in np.flatnonzero(origin)},
        {words.get(int(row), f"label {row}"): int(label[row]) for row in np.flatnonzero(label)},
        {str(one): int(instance[one]) for one in sorted(moving) if one < len(instance) and instance[one]},
    )  # fmt: skip


def _counted(scan: Scan, name: str) -> NDArray[np.int64]:
    """How often each number occurs in a field; empty where there is no such field."""
    values = scan.fields.get(name)
    if values is None or not len(values) or int(values.max()) > _LARGEST_TABLE:
        return np.zeros(0, np.int64)
    return np.bincount(values)


class CountsFile:
    """The counts of a run in a file that grows by a line a scan, so that a run that is stopped loses none."""

    def __init__(self, file: Path, expected: Collection[tuple[str, int]]) -> None:
        """Of an earlier file only the scans that are `expected`, by lidar and number, are kept."""
        self.file = file
        self.rows: dict[tuple[str, int], ScanCounts] = {}
        """Counts by lidar and number."""
        if file.exists():
            try:
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError as error:
                raise FormatError(f"{file}: cannot be read ({error.strerror})") from None
            for line in lines:
                found = _parsed(line)
                if found is not None and (found.lidar, found.scan) in expected:
                    self.rows[found.lidar, found.scan] = found
            # A line that was cut off is not to be written on.
            self.finish()

    def add(self, counts: ScanCounts) -> None:
        """Take down one more scan."""
        self.rows[counts.lidar, counts.scan] = counts
        try:
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(_line(counts))
        except OSError as error:
            raise FormatError(f"{self.file}: cannot be written ({error.strerror})") from None

    def finish(self) -> None:
        """Write the file anew, in the order of lidars and scans."""
        with atomic_write(self.file) as temporary:
            temporary.write_text("".join(_line(self.rows[key]) for key in sorted(self.rows)), encoding="utf-8")


def _line(counts: ScanCounts) -> str:
    return json.dumps(asdict(counts)) + "\n"


def _parsed(line: str) -> ScanCounts | None:
    """The counts that a line holds; None for a line that was cut off, or that is none of ours."""
    try:
        values: dict[str, Any] = json.loads(line)
        values["range_m"] = None if values["range_m"] is None else tuple(map(float, values["range_m"]))
        numbers = [values["points"], values["shots"], values["lost"], values["scan"], values["time_s"]]
        numbers += [n for name in ("origins", "labels", "instances") for n in values[name].values()]
        good = all(isinstance(n, (int, float)) and n >= 0 for n in numbers) and isinstance(values["lidar"], str)
        return ScanCounts(**values) if good else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
