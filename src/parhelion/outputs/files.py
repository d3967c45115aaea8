"""Files of each type of record: one per frame, or one table of all samples."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.consumers import Consumer
from parhelion.core.errors import FormatError
from parhelion.core.files import atomic_write
from parhelion.core.frames import EchoScan, FramePoints
from parhelion.core.image import Image
from parhelion.core.streams import STATUS, GnssData, Samples
from parhelion.io import format_of, gnss, write_noting_drops
from parhelion.io.columns import plain_value
from parhelion.io.csv_table import format_rows
from parhelion.io.images import image_format_of, png, truth
from parhelion.io.images.metadata import metadata_of
from parhelion.io.images.plain import put

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import OnBoard

# ---- GNSS: tables of fixes and satellites, NMEA sentences, RINEX observations, UBX messages -------------------------


_HEAD = (
    "time_s,satellite,azimuth_deg,elevation_deg,status,used,cn0_dbhz,pseudorange_m,carrier_cycles,doppler_hz,residual_m"
)


def gnss_companions(file: Path) -> list[Path]:
    """Files that are written together with the table of fixes."""
    return [
        file.with_name(f"{file.stem}-satellites.csv"),
        *(file.with_suffix(one) for one in (".nmea", ".rnx", ".ubx")),
    ]


def fix_columns(data: GnssData) -> dict[str, np.ndarray]:
    """Columns of the table of fixes; NaN without a fix."""
    columns = {"time_s": data.time, "mode": data.mode}
    for name in ("position", "velocity", "true_position"):
        columns |= {f"{name}_{axis}": getattr(data, name)[:, k] for k, axis in enumerate("xyz")}
    columns |= {"latitude_deg": data.latitude, "longitude_deg": data.longitude, "altitude_m": data.altitude}
    columns |= {f"{name}dop": data.dop[:, k] for k, name in enumerate("gphv")}
    columns |= {"satellites": data.satellites_used, "consistent": data.consistent}
    columns |= {} if data.quality is None else {"quality": data.quality}
    return columns | {"clock_bias_s": data.clock_bias, "clock_drift": data.clock_drift}


def write_satellites(data: GnssData, file: Path) -> None:
    """Write one row per epoch and satellite above the horizon; cells without a measurement are empty."""
    with atomic_write(file) as temporary, temporary.open("w", encoding="ascii", newline="") as stream:
        stream.write(_HEAD + "\n")
        for k, j in np.argwhere(data.status > 0):
            numbers = (data.cn0, data.pseudorange, data.carrier, data.doppler, data.residual)
            cells = [f"{v[k, j]:.3f}" if np.isfinite(v[k, j]) else "" for v in numbers]
            angles = f"{np.degrees(data.azimuth[k, j]):.3f},{np.degrees(data.elevation[k, j]):.3f}"
            stream.write(
                f"{float(data.time[k])!r},{data.satellites[j]},{angles},{STATUS[data.status[k, j]]},{data.used[k, j]},"
                + ",".join(cells)
                + "\n"
            )


def write_gnss(data: GnssData, file: Path) -> list[str]:
    """Write all files of a GNSS receiver."""
    satellites, sentences, ranges, messages = gnss_companions(file)
    write_satellites(data, satellites)
    gnss.write_nmea(data, sentences)
    gnss.write_rinex(data, ranges)
    gnss.write_ubx(data, messages)
    if file.suffix == ".npz":
        return write_samples(data, file)
    write_columns(file, fix_columns(data))
    return []


# ---- cameras: the picture, and one folder per ground-truth array ----------------------------------------------------
# front/images/000000.png     picture
# front/depth/000000.png      and measured_depth, normal, label, instance, mobility, flow, window (parhelion.io.images)
# front/right/000000.png      second lens of a stereo pair
# front/info/000000.json      time, pose, lens, bands, names, objects, and the colour of each instance
#
# EXR and NPZ store everything in one file per frame, front/images/000000.exr.


FOLDER = "images"
"""Folder of the pictures, in the folder of the camera."""
INFO, RIGHT = "info", "right"
TRUTH: dict[str, Callable[[Any], NDArray[Any]]] = {
    "depth": truth.depth_pixels,
    "measured_depth": truth.depth_pixels,
    "normal": truth.normal_pixels,
    "label": lambda label: label,
    "instance": truth.instance_colours,
    "mobility": lambda mobility: mobility,
    "window": truth.window_pixels,
    "flow": truth.flow_pixels,
}
"""Functions that convert ground-truth arrays to the pixels of a PNG file, by name of the folder."""


def image_ending(sensor: OnBoard, scenario: Scenario) -> str:
    """File extension of pictures: the requested one, or by default PNG.

    The default is TIFF if PNG does not support the number of bands, and EXR for radiance without sensor model.
    """
    count = len(getattr(sensor.sensor, "bands", ()))
    default = "png" if count in (0, 1, 3, 4) else "tiff"
    default = default if getattr(sensor.sensor, "developed", True) else "exr"
    return image_format_of(Path("image"), sensor.entry.format or default).endings[0]


def write_frame(image: Image, file: Path) -> list[str]:
    """Write a frame: the ground truth first, so that an existing picture implies that its ground truth exists."""
    kind = image_format_of(file)
    if not kind.whole:
        for name, pixels in TRUTH.items():
            values = getattr(image, name)
            if values is not None:
                _write(_in_folder(file, name, ".png"), png.encode(pixels(values)))
        if image.right is not None:
            right = _in_folder(file, RIGHT, file.suffix)
            _make_folder(right)
            kind.write(_second(image), right)
        _write(_in_folder(file, INFO, ".json"), info(image))
    kind.write(image, file)
    return []


def image_companions(file: Path) -> list[Path]:
    """Files that belong to a picture: one in each existing folder of ground truth."""
    found = []
    for name in (*TRUTH, RIGHT, INFO):
        if (file.parent.parent / name).is_dir():
            found.append(_in_folder(file, name, {INFO: ".json", RIGHT: file.suffix}.get(name, ".png")))
    return [] if image_format_of(file).whole else found


def info(image: Image) -> bytes:
    """Metadata of an image, and its instances with their colours, as JSON."""
    content = metadata_of(image)
    if image.instance is not None:
        content["instances"] = _instances(image)
    try:
        return (json.dumps(content, indent=1, default=plain_value) + "\n").encode()
    except (TypeError, ValueError) as error:
        raise FormatError(f"the image's metadata cannot be written as JSON ({error})") from None


def _instances(image: Image) -> list[dict[str, Any]]:
    """Number, colour, label and pixels of each instance in the mask."""
    assert image.instance is not None
    numbers, first, counts = np.unique(image.instance, return_index=True, return_counts=True)
    colours = truth.instance_colours(numbers)
    rows = []
    for number, at, count, colour in zip(numbers.tolist(), first.tolist(), counts.tolist(), colours, strict=True):
        row: dict[str, Any] = {"instance": number, "rgb": colour.tolist(), "pixels": count}
        if image.label is not None:
            row["label"] = int(image.label.ravel()[at])
        rows.append(row)
    return [row for row in rows if row["instance"]]


def _second(image: Image) -> Image:
    """Picture of the second lens as a separate image, with the pose of that lens."""
    from parhelion.core.pose import Pose

    assert image.right is not None
    base = 0.0 if image.intrinsics is None else image.intrinsics.baseline_m
    return replace(
        image,
        colour=image.right,
        right=None,
        pose=image.pose @ Pose((0.0, -base, 0.0)),
        depth=None,
        normal=None,
        label=None,
        instance=None,
        flow=None,
        measured_depth=None,
        objects=(),
    )


def _in_folder(file: Path, folder: str, ending: str) -> Path:
    return file.parent.parent / folder / f"{file.stem}{ending}"


def _make_folder(file: Path) -> None:
    try:
        file.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise FormatError(f"{file}: cannot be written ({error.strerror or error})") from None


def _write(file: Path, data: bytes) -> None:
    _make_folder(file)
    put(file, data)


# ---- files ----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class FileRule:
    """Files of one type of record."""

    ending: Callable[[OnBoard, Scenario], str]
    """File extension, for example '.pcd'."""
    write: Callable[[Any, Path], list[str]]
    """Function that writes a record and returns notes on skipped fields."""
    folder: str = ""
    """Subfolder of the sensor's folder, if it has several."""
    companions: Callable[[Path], list[Path]] = lambda file: []
    """Further files that belong to the file of a record."""


def _cloud_ending(sensor: OnBoard, scenario: Scenario) -> str:
    return format_of("cloud", sensor.entry.format or scenario.settings.cloud_format).endings[0]


def _write_cloud(scan: Scan, file: Path) -> list[str]:
    return write_noting_drops(scan, file, format_of(file, None).name)


def _samples_ending(sensor: OnBoard, scenario: Scenario) -> str:
    return f".{sensor.entry.format or 'csv'}"


def write_samples(samples: Samples, file: Path) -> list[str]:
    """Write samples of a sensor as a CSV table, or as an NPZ file with the complete record."""
    if file.suffix == ".npz":
        samples.save(file)  # type: ignore[attr-defined]
    else:
        write_columns(file, columns_of(samples))
    return []


def _points_ending(sensor: OnBoard, scenario: Scenario) -> str:
    return format_of("points", sensor.entry.format or "csv").endings[0]


def write_points(points: FramePoints, file: Path) -> list[str]:
    """Write detections or echoes; a waveform becomes a WAV file with the same name."""
    heard = points.waveform if isinstance(points, EchoScan) else None
    if heard is not None:
        heard.save_wav(file.with_suffix(".wav"))
    return write_noting_drops(points, file, format_of(file, None).name)


FILES: Consumer[FileRule] = Consumer(
    "files",
    {
        Scan: FileRule(_cloud_ending, _write_cloud),
        FramePoints: FileRule(_points_ending, write_points),
        Samples: FileRule(_samples_ending, write_samples),
        GnssData: FileRule(_samples_ending, write_gnss, companions=gnss_companions),
        Image: FileRule(image_ending, write_frame, FOLDER, image_companions),
    },
)
"""Files by type of record."""


def columns_of(samples: Samples) -> dict[str, Any]:
    """Columns of the arrays of a record with one row per sample."""
    columns: dict[str, Any] = {"time_s": samples.time}
    # Selected by declaration, because other arrays may have the same number of rows by chance.
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
    """Write a lossless CSV file."""
    with atomic_write(file) as temporary, temporary.open("wb") as stream:
        stream.write((",".join(columns) + "\n").encode())
        stream.writelines(format_rows([np.asarray(values, dtype=np.float64) for values in columns.values()], ","))
