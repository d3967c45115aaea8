"""NPZ, NumPy's archive: keeps everything, a scan's table of shots and its motion included.

`numpy.load` reads the file as well: `xyz`, each field under its own name, `shots.direction` ..., `motion.times`
[s], `motion.xyz` [m], `motion.quat_xyzw`, and `parhelion`, JSON text as bytes. No pickle, neither way. The same
cloud gives the same bytes.
"""

from __future__ import annotations

import io
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan, Shots
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write
from parhelion.core.frames import FramePoints
from parhelion.core.pose import Pose
from parhelion.core.reading import UnpackingBudget, array_of, read_bytes
from parhelion.core.trajectory import Fixed, Waypoints
from parhelion.io.columns import Description, from_json, to_json

Arrays = dict[str, NDArray[Any]]

_SHOT_COLUMNS = tuple(entry.name for entry in dataclass_fields(Shots))
_NOT_ALWAYS = tuple(entry.name for entry in dataclass_fields(Shots) if entry.default is None)
"""Columns of the table of shots that only some sensors fill."""
_MOTION_COLUMNS = ("times", "xyz", "quat_xyzw")
# Steps of 0.1 ms over a turn of 0.1 s: within 2e-8 m at 10 m/s² and 2e-8 rad at 10 rad/s² (a dt² / 8).
_MOTION_SAMPLES = 1024
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def write(cloud: PointCloud, path: Path, *, compress: bool = False) -> tuple[str, ...]:
    """Write everything that the cloud or scan holds. `compress` makes a smaller file, more slowly.

    A scan's motion is stored as poses at the times of its shots (at most 1024 evenly spaced ones for other than
    `Waypoints`), and read back as `Waypoints`.
    """
    arrays, keys = _arrays(cloud)
    for key, values in arrays.items():
        if values.dtype.hasobject:
            raise FormatError(f"{path}: the field {key!r} holds Python objects, which NPZ files here never do")
    extras: dict[str, Any] = {"fields": keys}
    if isinstance(cloud, Scan):
        extras["start_time"] = float(cloud.start_time)
    elif isinstance(cloud, FramePoints):
        place = [*cloud.pose.xyz.tolist(), *cloud.pose.quat_xyzw.tolist()]
        extras["frame_points"] = {
            "start_time": float(cloud.start_time), "duration": float(cloud.duration), "pose": place
        }  # fmt: skip
    text = to_json(cloud, path, extras=extras)
    arrays["parhelion"] = np.frombuffer(text.encode("ascii"), np.uint8)
    write_archive(arrays, path, compress=compress)
    return ()


def write_archive(arrays: Mapping[str, NDArray[Any]], path: Path, *, compress: bool) -> None:
    """Write arrays by name, whole or not at all; the same arrays give the same bytes."""
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w", method) as archive:
        for key, values in arrays.items():
            # A fixed date, where NumPy's own writer puts the time of day.
            member = zipfile.ZipInfo(f"{key}.npy", _ZIP_EPOCH)
            member.compress_type = method
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(values), allow_pickle=False)


def _arrays(cloud: PointCloud) -> tuple[Arrays, dict[str, str]]:
    """Every array of the cloud by its key in the file, and the key of each field."""
    arrays: Arrays = {"xyz": cloud.xyz}
    keys: dict[str, str] = {}
    for i, (name, values) in enumerate(cloud.fields.items()):
        usable = name.isidentifier() and name.isascii() and name not in ("xyz", "parhelion")
        keys[name] = name if usable else f"field.{i}"
        arrays[keys[name]] = values
    for prefix, record in (("cube", getattr(cloud, "cube", None)), ("waveform", getattr(cloud, "waveform", None))):
        if isinstance(cloud, FramePoints) and record is not None:
            found = {one.name: getattr(record, one.name) for one in dataclass_fields(record)}
            arrays |= {f"{prefix}.{name}": np.asarray(values) for name, values in found.items()}
    if isinstance(cloud, Scan):
        there = [name for name in _SHOT_COLUMNS if getattr(cloud.shots, name) is not None]
        arrays |= {f"shots.{name}": np.asarray(getattr(cloud.shots, name)) for name in there}
        arrays |= {f"motion.{name}": values for name, values in zip(_MOTION_COLUMNS, _motion(cloud), strict=True)}
    return arrays, keys


def _motion(scan: Scan) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Times [s], positions [m] and quaternions that stand for the scan's motion while it lasts."""
    seconds = np.asarray(scan.shots.time, np.float64)
    first = scan.start_time + min(0.0, float(seconds.min(initial=0.0)))
    last = scan.start_time + max(0.0, float(seconds.max(initial=0.0)))
    if isinstance(scan.motion, Fixed) or last <= first:
        times = np.array([first])
    elif isinstance(scan.motion, Waypoints):
        inside = (scan.motion.times > first) & (scan.motion.times < last)
        times = np.concatenate([[first], scan.motion.times[inside], [last]])
    else:
        times = np.unique(np.concatenate([[first], scan.start_time + seconds, [last]]))
        if len(times) > _MOTION_SAMPLES:
            times = np.linspace(first, last, _MOTION_SAMPLES)
    return (times, *scan.motion.sample(times))


def read(path: Path) -> PointCloud:
    """Read a cloud, or the scan where one was written. A foreign archive needs an array `xyz` of shape (n, 3)."""
    arrays = read_archive(read_bytes(path), path)
    text = arrays.pop("parhelion", None)
    description = Description() if text is None else from_json(text.tobytes().decode("latin-1"), path)
    if "xyz" not in arrays:
        raise FormatError(f"{path}: has no array 'xyz'; it has: {', '.join(arrays) or 'none'}")
    xyz = arrays.pop("xyz")
    if xyz.ndim != 2 or xyz.shape[1] != 3 or xyz.dtype.kind not in "fiu":
        raise FormatError(f"{path}: 'xyz' must be numbers of shape (n, 3), got {xyz.dtype} {xyz.shape}")
    try:
        fields = _fields(arrays, len(xyz), description.extras, path)
        common = (xyz, fields, description.frame, description.names, description.metadata)
        if "frame_points" in description.extras:
            return _read_frame_points(common, arrays, description.extras["frame_points"])
        if "start_time" not in description.extras:
            return PointCloud(*common)
        start_time = float(description.extras["start_time"])
        return Scan(*common, shots=_read_shots(arrays), motion=_read_motion(arrays), start_time=start_time)
    except KeyError as error:
        raise FormatError(f"{path}: the array {error} is missing") from None
    except (ConfigError, TypeError, ValueError) as error:
        raise FormatError(f"{path}: {error}") from None


def _fields(arrays: Arrays, points: int, extras: Mapping[str, Any], path: Path) -> Arrays:
    if "fields" in extras:
        keys = extras["fields"]
        if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys.values()):
            raise FormatError(f"{path}: the table of fields in it is damaged")
        return {name: arrays[key] for name, key in keys.items()}
    return {name: values for name, values in arrays.items() if values.ndim in (1, 2) and len(values) == points}


def _read_frame_points(common: tuple[Any, ...], arrays: Arrays, facts: Mapping[str, Any]) -> FramePoints:
    """Detections with their cube, or echoes with their waveform."""
    from parhelion.core.frames import EchoScan, EchoWaveform, RadarCube, RadarScan

    place = [float(value) for value in facts["pose"]]
    told: dict[str, Any] = {
        "pose": Pose(place[:3], place[3:]),
        "start_time": float(facts["start_time"]),
        "duration": float(facts["duration"]),
    }
    if "radial_velocity" in common[1]:
        if "cube.power" in arrays:
            names = ("power", "range", "radial_velocity", "elevation", "azimuth")
            told["cube"] = RadarCube(*(arrays[f"cube.{name}"] for name in names))
        return RadarScan(*common, **told)
    if "waveform.samples" in arrays:
        heard = (arrays["waveform.samples"], float(arrays["waveform.rate_hz"].ravel()[0]), arrays["waveform.position"])
        told["waveform"] = EchoWaveform(*heard)
    nearest = float(common[1]["range"].min()) if len(common[1].get("range", ())) else float("inf")
    return EchoScan(*common, **told, nearest=nearest)


def _read_shots(arrays: Arrays) -> Shots:
    there = [name for name in _SHOT_COLUMNS if name not in _NOT_ALWAYS or f"shots.{name}" in arrays]
    columns = {name: arrays[f"shots.{name}"] for name in there}
    count = len(columns["time"]) if columns["time"].ndim == 1 else -1
    for name, values in columns.items():
        shape = (count, 3) if name in ("direction", "origin") else (count,)
        if values.shape != shape or values.dtype.kind not in "fiu":
            raise ValueError(f"the array 'shots.{name}' has the wrong shape or type, {values.dtype} {values.shape}")
    return Shots(**columns)


def _read_motion(arrays: Arrays) -> Waypoints:
    times, xyz, quats = (arrays[f"motion.{name}"] for name in _MOTION_COLUMNS)
    if times.ndim != 1 or xyz.shape != (len(times), 3) or quats.shape != (len(times), 4):
        raise ValueError("the arrays of the motion do not fit together")
    return Waypoints(times.tolist(), [Pose(position, quat) for position, quat in zip(xyz, quats, strict=True)])


def read_archive(data: bytes, path: Path) -> Arrays:
    """Every array of an archive by name."""
    if not data:
        raise FormatError(f"{path}: the file is empty")
    budget = UnpackingBudget(path, len(data))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            for member in members:  # all of them before the first is unpacked
                budget.spend(member.file_size)
            return {member.filename.removesuffix(".npy"): _read_member(archive, member) for member in members}
    except zipfile.BadZipFile as error:
        raise FormatError(f"{path}: this is not an NPZ file, or it is damaged ({error})") from None
    except (ValueError, EOFError, OSError, zlib.error, RuntimeError) as error:
        raise FormatError(f"{path}: the archive is damaged ({error})") from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    name = member.filename
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} is compressed in an unknown way")
    content = archive.read(member)  # checks the sum as well, so that flipped bits do not pass
    try:
        return array_of(content)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
