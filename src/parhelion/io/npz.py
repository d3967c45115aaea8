"""NPZ, NumPy's archive: stores every record completely, including shots and motion of a scan, radar cube and metadata.

`numpy.load` reads the file as well. Each array has the name of its field: `xyz`, each point field under its own name,
`shots.direction`, ..., `motion.times` [s], `motion.xyz` [m], `motion.quat_xyzw`, `cube.power`. The entry `parhelion` is
JSON text as bytes: the type of the record, units and frames, and every value that is not an array. Pickle is never
used. The same record gives the same bytes.
"""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import PointCloud, Scan, Shots
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.files import atomic_write
from parhelion.core.frames import EchoWaveform, RadarCube
from parhelion.core.image import TRUTH, Image
from parhelion.core.pose import Pose
from parhelion.core.reading import UnpackingBudget, array_of, read_bytes
from parhelion.core.records import Record
from parhelion.core.trajectory import Waypoints
from parhelion.io.columns import Description, from_json, to_json
from parhelion.io.record_values import decoded, encoded, made, record_type, safe_key

Arrays = dict[str, NDArray[Any]]
Kind = TypeVar("Kind", bound=Record)

TEXT = "parhelion"
"""Name of the JSON text in the archive."""
_SHOT_COLUMNS = tuple(entry.name for entry in dataclass_fields(Shots))
_NOT_ALWAYS = tuple(entry.name for entry in dataclass_fields(Shots) if entry.default is None)
"""Columns of the table of shots that only some sensors have."""
_MOTION_COLUMNS = ("times", "xyz", "quat_xyzw")
_OLD_FRAME = "frame_points"
"""Entry that marks radar detections and echoes in files of version 0.1."""
_ZIP_EPOCH = (1980, 1, 1, 0, 0, 0)


def write(cloud: PointCloud, path: Path, *, compress: bool = False) -> tuple[str, ...]:
    """Write a cloud or scan completely. `compress` makes the file smaller and writing slower.

    The motion of a scan is stored at its knots (`Scan.motion_knots`) and read back as `Waypoints`.
    """
    return write_record(cloud, path, compress=compress)


def write_record(record: Record, path: Path, *, compress: bool = False) -> tuple[str, ...]:
    """Write any record: each array under the name of its field, all other values as JSON."""
    arrays, text = described(record, path)
    _write_with_text(arrays, text, path, compress)
    return ()


def described(record: Record, source: str | PathLike[str]) -> tuple[Arrays, str]:
    """Arrays of a record by name, and JSON text with everything else; `rebuilt` is the inverse.

    `source` is the file or another description for error messages.
    """
    if type(record) is PointCloud or isinstance(record, Scan):
        arrays, keys = _arrays(record)
        for key, values in arrays.items():
            if values.dtype.hasobject:
                raise FormatError(f"{source}: the field {key!r} contains Python objects, which are never written")
        extras: dict[str, Any] = {"fields": keys}
        if isinstance(record, Scan):
            extras["start_time"] = float(record.start_time)
        return arrays, to_json(record, Path(source), extras=extras)
    found: Arrays = {}

    def stored(key: str, values: NDArray[Any]) -> dict[str, str]:
        name = safe_key(key.removeprefix("fields.") if isinstance(record, PointCloud) else key, {*found, TEXT})
        found[name] = values
        return {"array": name}

    try:
        values = encoded(record, stored)
        units = {k: list(v) for k, v in record._units().items()}
        return found, json.dumps({"record": values["type"], "units": units} | values, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise FormatError(f"{source}: this {type(record).__name__} cannot be written ({error})") from None


def _write_with_text(arrays: Arrays, text: str, path: Path, compress: bool) -> None:
    write_archive({**arrays, TEXT: np.frombuffer(text.encode("ascii"), np.uint8)}, path, compress=compress)


def write_archive(arrays: Mapping[str, NDArray[Any]], path: Path, *, compress: bool) -> None:
    """Write arrays by name, atomically; the same arrays give the same bytes."""
    method = zipfile.ZIP_DEFLATED if compress else zipfile.ZIP_STORED
    with atomic_write(path) as temporary, zipfile.ZipFile(temporary, "w", method) as archive:
        for key, values in arrays.items():
            # A fixed date: NumPy's own function stores the current time.
            member = zipfile.ZipInfo(f"{key}.npy", _ZIP_EPOCH)
            member.compress_type = method
            with archive.open(member, "w", force_zip64=True) as file:
                np.lib.format.write_array(file, np.ascontiguousarray(values), allow_pickle=False)


def _arrays(cloud: PointCloud) -> tuple[Arrays, dict[str, str]]:
    """All arrays of the cloud by key in the file, and the key of each field."""
    arrays: Arrays = {"xyz": cloud.xyz}
    keys: dict[str, str] = {}
    for i, (name, values) in enumerate(cloud.fields.items()):
        usable = name.isidentifier() and name.isascii() and name not in ("xyz", "parhelion")
        keys[name] = name if usable else f"field.{i}"
        arrays[keys[name]] = values
    if isinstance(cloud, Scan):
        there = [name for name in _SHOT_COLUMNS if getattr(cloud.shots, name) is not None]
        arrays |= {f"shots.{name}": np.asarray(getattr(cloud.shots, name)) for name in there}
        arrays |= {f"motion.{name}": values for name, values in zip(_MOTION_COLUMNS, cloud.motion_knots(), strict=True)}
    return arrays, keys


def read(path: Path) -> PointCloud:
    """Read a cloud, scan or frame of points. An archive from another program needs an array `xyz` (n, 3)."""
    return read_record(path, PointCloud)


def read_record(path: Path, expected: type[Kind]) -> Kind:
    """Read a record of the expected type or a subclass."""
    arrays = read_archive(read_bytes(path), path)
    text = arrays.pop(TEXT, np.zeros(0, np.uint8)).tobytes().decode("latin-1")
    return rebuilt(arrays, text, expected, path)


def rebuilt(arrays: Arrays, text: str, expected: type[Kind], path: Path) -> Kind:
    """Record of the expected type or a subclass from its arrays and its JSON text; `path` is for error messages."""
    about = _description(text, path)
    name = _stored_type(about, arrays, expected, path)
    kind = record_type(name, expected)
    if kind is None:
        raise FormatError(f"{path}: contains {name[:60]!r}, a type of record that no imported module defines")
    if not issubclass(kind, expected):
        raise FormatError(f"{path}: contains {name}, expected {expected.__name__}; read it with {name}.load")
    try:
        return cast(Kind, _record(kind, about, text, arrays, path))
    except KeyError as error:
        raise FormatError(f"{path}: the array {error} is missing") from None
    except (ConfigError, TypeError, ValueError, AttributeError, RecursionError) as error:
        raise FormatError(f"{path}: {error}") from None


def _description(text: str, path: Path) -> Mapping[str, Any]:
    """Unchecked JSON values of a file; empty for archives of other programs."""
    try:
        about = json.loads(text or "{}")
    except (ValueError, RecursionError) as error:
        raise FormatError(f"{path}: its parhelion description is damaged ({error})") from None
    if not isinstance(about, dict) or not isinstance(about.get("extras", {}), dict):
        raise FormatError(f"{path}: its parhelion description is damaged (expected a mapping)")
    return about


def _stored_type(about: Mapping[str, Any], arrays: Arrays, expected: type[Record], path: Path) -> str:
    """Name of the type of record in a file."""
    if "record" in about:
        return str(about["record"])
    if "colour" in arrays and "xyz" not in arrays:
        return "Image"
    if "xyz" in arrays:
        extras = about.get("extras", {})
        if _OLD_FRAME in extras:
            return "RadarScan" if "radial_velocity" in arrays else "EchoScan"
        return "Scan" if "start_time" in extras else "PointCloud"
    needed = "colour" if issubclass(expected, Image) else "xyz" if issubclass(expected, PointCloud) else TEXT
    raise FormatError(f"{path}: has no array {needed!r}; it has: {', '.join(arrays) or 'none'}")


def _record(kind: type[Record], about: Mapping[str, Any], text: str, arrays: Arrays, path: Path) -> Record:
    if "record" in about:
        return made(kind, {name: decoded(value, arrays) for name, value in about["values"].items()})
    if kind is Image:
        from parhelion.io.images.metadata import image_of

        return image_of({name: arrays[name] for name in ("colour", "right", *TRUTH) if name in arrays}, text or None)
    return _cloud(kind, arrays, Description() if not text else from_json(text, path), path)


def _cloud(kind: Any, arrays: Arrays, description: Description, path: Path) -> PointCloud:
    """Construct a cloud, a scan, or a frame of points in the layout of version 0.1."""
    xyz = arrays.pop("xyz")
    if xyz.ndim != 2 or xyz.shape[1] != 3 or xyz.dtype.kind not in "fiu":
        raise FormatError(f"{path}: 'xyz' must be numbers of shape (n, 3), got {xyz.dtype} {xyz.shape}")
    fields = _fields(arrays, len(xyz), description.extras, path)
    common = (xyz, fields, description.frame, description.names, description.metadata)
    if _OLD_FRAME in description.extras:
        return cast(PointCloud, kind(*common, **_old_frame(arrays, fields, description.extras[_OLD_FRAME])))
    if "start_time" not in description.extras:
        return PointCloud(*common)
    start_time = float(description.extras["start_time"])
    return Scan(*common, shots=_read_shots(arrays), motion=_read_motion(arrays), start_time=start_time)


def _fields(arrays: Arrays, points: int, extras: Mapping[str, Any], path: Path) -> Arrays:
    if "fields" in extras:
        keys = extras["fields"]
        if not isinstance(keys, dict) or not all(isinstance(key, str) for key in keys.values()):
            raise FormatError(f"{path}: its table of fields is damaged")
        return {name: arrays[key] for name, key in keys.items()}
    return {name: values for name, values in arrays.items() if values.ndim in (1, 2) and len(values) == points}


def _old_frame(arrays: Arrays, fields: Arrays, about: Mapping[str, Any]) -> dict[str, Any]:
    """Values of a radar or echo frame in the layout of version 0.1."""
    place = [float(value) for value in about["pose"]]
    found: dict[str, Any] = {name: float(about[name]) for name in ("start_time", "duration")}
    found["pose"] = Pose(place[:3], place[3:])
    if "cube.power" in arrays:
        found["cube"] = RadarCube(**{one.name: arrays[f"cube.{one.name}"] for one in dataclass_fields(RadarCube)})
    if "waveform.samples" in arrays:
        rate = float(arrays["waveform.rate_hz"].ravel()[0])
        found["waveform"] = EchoWaveform(arrays["waveform.samples"], rate, arrays["waveform.position"])
    if "radial_velocity" not in fields:  # version 0.1 did not store the nearest range
        found["nearest"] = float(fields["range"].min(initial=np.inf)) if "range" in fields else float("inf")
    return found


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
        raise ValueError("the arrays of the motion have inconsistent shapes")
    return Waypoints(times.tolist(), [Pose(position, quat) for position, quat in zip(xyz, quats, strict=True)])


def read_archive(data: bytes, path: Path) -> Arrays:
    """Read all arrays of an archive by name."""
    if not data:
        raise FormatError(f"{path}: the file is empty")
    budget = UnpackingBudget(path, len(data))
    try:
        with zipfile.ZipFile(io.BytesIO(data)) as archive:
            members = [member for member in archive.infolist() if member.filename.endswith(".npy")]
            for member in members:  # check all sizes before the first member is decompressed
                budget.spend(member.file_size)
            return {member.filename.removesuffix(".npy"): _read_member(archive, member) for member in members}
    except zipfile.BadZipFile as error:
        raise FormatError(f"{path}: this is not an NPZ file, or it is damaged ({error})") from None
    except (ValueError, EOFError, OSError, zlib.error, RuntimeError) as error:
        raise FormatError(f"{path}: the archive is damaged ({error})") from None


def _read_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> NDArray[Any]:
    name = member.filename
    if member.compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise ValueError(f"{name} uses an unsupported compression")
    content = archive.read(member)  # verifies the checksum
    try:
        return array_of(content)
    except ValueError as error:
        raise ValueError(f"{name}: {error}") from None
