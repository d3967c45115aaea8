"""What files a run writes of each type of record: one a frame, or one table of all samples."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.core.echo import EchoScan
from parhelion.core.frame_points import FramePoints
from parhelion.core.gnss import GnssData
from parhelion.core.image import Image
from parhelion.core.inertial import Samples
from parhelion.core.readers import Readers
from parhelion.core.records import Scan
from parhelion.io import FORMATS, format_of, write_noting_drops
from parhelion.io.atomic import atomic_write
from parhelion.io.text_table import format_rows
from parhelion.outputs import gnss_files
from parhelion.outputs.image_files import FOLDER, files_beside, image_ending, write_frame

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import OnBoard


@dataclass(frozen=True)
class FileRule:
    """How records of one type become files."""

    ending: Callable[[OnBoard, Scenario], str]
    """Of the files of a sensor, such as '.pcd'."""
    write: Callable[[Any, Path], list[str]]
    """Write a record; what the file's format could not hold."""
    folder: str = ""
    """Where the files are in the sensor's folder, where that has several."""
    beside: Callable[[Path], list[Path]] = lambda file: []
    """Further files that belong to that of a record."""


def _cloud_ending(sensor: OnBoard, scenario: Scenario) -> str:
    chosen = format_of(Path("cloud"), sensor.entry.format or scenario.settings.cloud_format)
    return FORMATS[chosen.name].endings[0]


def _write_cloud(scan: Scan, file: Path) -> list[str]:
    return write_noting_drops(scan, file, format_of(file, None).name)


def write_samples(samples: Samples, file: Path) -> list[str]:
    """Samples of a sensor as a CSV file."""
    write_columns(file, columns_of(samples))
    return []


def _points_ending(sensor: OnBoard, scenario: Scenario) -> str:
    return FORMATS[format_of(Path("points"), sensor.entry.format or "csv").name].endings[0]


def write_points(points: FramePoints, file: Path) -> list[str]:
    """Detections or echoes; a waveform comes beside them as a WAV file."""
    heard = points.waveform if isinstance(points, EchoScan) else None
    if heard is not None:
        heard.save_wav(file.with_suffix(".wav"))
    return write_noting_drops(points, file, format_of(file, None).name)


FILES: Readers[FileRule] = Readers(
    "files",
    {
        Scan: FileRule(_cloud_ending, _write_cloud),
        FramePoints: FileRule(_points_ending, write_points),
        Samples: FileRule(lambda sensor, scenario: ".csv", write_samples),
        GnssData: FileRule(lambda sensor, scenario: ".csv", gnss_files.write_gnss, beside=gnss_files.files_beside),
        Image: FileRule(image_ending, write_frame, FOLDER, files_beside),
    },
)
"""How each type of record becomes files."""


def columns_of(samples: Samples) -> dict[str, Any]:
    """The arrays of a record that have a row a sample, one column a number."""
    columns: dict[str, Any] = {"time_s": samples.time}
    # By what the record declares: another array may have as many rows by chance.
    for name in samples._columns():
        values = getattr(samples, name)
        if name == "time":
            continue
        if values.ndim == 1:
            columns[name] = values
        elif values.ndim == 2:
            for k, part in enumerate(samples.column_names(name)):
                columns[f"{name}_{part}"] = values[:, k]
    return columns


def write_columns(file: Path, columns: dict[str, Any]) -> None:
    """A CSV file in which every number is written to its last digit."""
    with atomic_write(file) as temporary, temporary.open("wb") as stream:
        stream.write((",".join(columns) + "\n").encode())
        stream.writelines(format_rows([np.asarray(values, dtype=np.float64) for values in columns.values()], ","))
