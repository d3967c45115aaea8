"""Ouster metadata: beam angles, frames, mode and packet layout of one sensor, as Ouster's own tools need them.

The document follows from directions and times of the shots, so a scan, a lidar, or any other object with a table of
shots can be its source. It has the sections of the sensor's `GET /api/v1/sensor/metadata`.
"""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Pose
from parhelion.core.reading import file_reader, read_bytes
from parhelion.makers.ouster.layout import COLUMNS_PER_PACKET, MODES, PROFILES, profile_called

Floats = NDArray[np.float64]

SINGLE, DUAL = "RNG19_RFL8_SIG16_NIR16", "RNG19_RFL8_SIG16_NIR16_DUAL"
FIRMWARE = "v3.1.0"
"""Firmware version of the written packets and documents."""
_IMU_PLACE = Pose(xyz=(0.006253, -0.011775, 0.007645))  # from the metadata of OS0 and OS1 units


@dataclass(frozen=True, eq=False)
class OusterBeams:
    """Beams and mode of an Ouster, derived from its table of shots."""

    altitude_deg: Floats
    """Elevation of each row, row 0 the highest, shape (rows,)."""
    azimuth_deg: Floats
    """Azimuth of each row's beam relative to the encoder, clockwise positive (Ouster's convention), shape (rows,)."""
    beam_offset_m: float
    """Distance of the beam exit from the axis; Ouster's ranges start at the axis, ours at the exit."""
    height_m: float
    """Height of the lidar frame over the sensor frame."""
    columns: int
    """Columns per revolution."""
    rate_hz: int
    first_column: int
    """Measurement number of the table's first column."""
    count: int
    """Number of columns of the table, from its first to its last."""

    @property
    def mode(self) -> str:
        return f"{self.columns}x{self.rate_hz}"

    @property
    def window(self) -> tuple[int, int]:
        """First and last measurement number."""
        return self.first_column, self.first_column + self.count - 1


def geometry(source: Any) -> OusterBeams:
    """Beams and mode of a scan, a lidar or a table of shots; raises ConfigError if no Ouster mode matches."""
    shots = _shots(source)
    ring, column = np.asarray(shots.ring), np.asarray(shots.column)
    if not len(ring):
        raise ConfigError("Ouster packets: the scan has no shots")
    rows = int(ring.max()) + 1
    first, last = int(column.min()), int(column.max())
    start, end = (np.flatnonzero(column == number) for number in (first, last))
    if rows > 128 or any(not np.array_equal(np.sort(ring[part]), np.arange(rows)) for part in (start, end)):
        raise ConfigError("Ouster packets: every column must have each ring once, at most 128 of them")
    if last == first:
        raise ConfigError("Ouster packets: the mode cannot be derived from a single column; at least two are needed")
    start, end = start[np.argsort(-ring[start].astype(int))], end[np.argsort(-ring[end].astype(int))]
    direction = np.asarray(shots.direction[start], np.float64)
    azimuth = np.arctan2(direction[:, 1], direction[:, 0])
    period = (float(shots.time[end[0]]) - float(shots.time[start[0]])) / (last - first)
    after = shots.direction[np.flatnonzero((column == first + 1) & (ring == ring[start[0]]))].astype(np.float64)
    step = _wrapped(np.arctan2(after[:, 1], after[:, 0]) - azimuth[0])
    columns, rate = _mode(float(-step[0]) if len(step) == 1 else 0.0, period)
    origin = np.asarray(shots.origin, np.float64)[start]
    if np.ptp(origin, axis=0).max() > 1e-6:
        raise ConfigError("Ouster packets: all beams of one column must have the same exit")
    offset = float(np.hypot(*origin[0, :2]))
    head = np.arctan2(origin[0, 1], origin[0, 0]) if offset > 1e-6 else np.pi
    # Encoder angle 0 points backwards; angles increase clockwise.
    number = round((np.pi - head) / (2.0 * np.pi) * columns) % columns
    head = np.pi - number * 2.0 * np.pi / columns
    if number + last - first >= columns:
        raise ConfigError(
            "Ouster packets: a revolution must start behind the sensor (azimuth_start_deg: 180), as Ouster's do"
        )
    return OusterBeams(
        altitude_deg=np.degrees(np.arcsin(np.clip(direction[:, 2], -1.0, 1.0))),
        azimuth_deg=np.degrees(-_wrapped(azimuth - head)),
        beam_offset_m=offset,
        height_m=float(origin[0, 2]),
        columns=columns,
        rate_hz=rate,
        first_column=number,
        count=last - first + 1,
    )


def _mode(step_rad: float, period_s: float) -> tuple[int, int]:
    """Columns and rate of the mode with this step and period; the step is positive clockwise."""
    for columns, rate in MODES.values():
        if abs(step_rad * columns / (2.0 * np.pi) - 1.0) < 1e-2 and abs(period_s * columns * rate - 1.0) < 1e-3:
            return columns, rate
    raise ConfigError(
        f"Ouster packets: the scan rotates {np.degrees(step_rad):.6g} deg clockwise every {period_s * 1e6:.6g} us, "
        f"which matches none of Ouster's modes ({', '.join(MODES)})"
    )


def _shots(source: Any) -> Any:
    shots = getattr(source, "shots", source)
    shots = shots() if callable(shots) else shots
    if not all(hasattr(shots, name) for name in ("direction", "origin", "time", "ring", "column")):
        raise ConfigError(
            f"Ouster packets: expected a scan or a lidar with its table of shots, got {type(source).__name__}"
        )
    return shots


def _wrapped(angle: Floats) -> Floats:
    return (angle + np.pi) % (2.0 * np.pi) - np.pi


def default_profile(source: Any) -> str:
    """Profile that fits a scan or lidar: dual if it reports two returns, otherwise single."""
    config = getattr(source, "config", None)
    known = getattr(source, "metadata", {}).get("returns", "strongest") if config is None else config.receiver.returns
    return DUAL if known in ("dual", "all") else SINGLE


def metadata(
    source: Any,
    profile: str | None = None,
    *,
    name: str = "",
    imu: Pose | None = None,
    lidar_port: int = 7502,
    imu_port: int = 7503,
    host: str = "127.0.0.1",
) -> dict[str, Any]:
    """Metadata document of the sensor of a scan or lidar, ready for `json.dumps`.

    `profile` is the name of a lidar profile; by default single or dual according to the return mode. `name`
    distinguishes sensors of one model; the serial number follows from it. `imu` is the pose of the IMU in the sensor
    frame; `host` and the ports are the destination of the packets.
    """
    shape = geometry(source)
    kind = profile_called(default_profile(source) if profile is None else profile)
    recorded = getattr(source, "metadata", {})
    model = str(getattr(source, "model", "") or recorded.get("sensor", ""))
    called = str(getattr(getattr(source, "config", None), "name", "") or recorded.get("product", ""))
    shift = np.round(shape.azimuth_deg * shape.columns / 360.0).astype(int)
    offset_mm = round(shape.beam_offset_m * 1e3, 4)
    imu_place = (_IMU_PLACE if imu is None else imu).matrix
    imu_place[:3, 3] *= 1e3
    first, last = shape.window
    # The azimuth window is counter-clockwise, in thousandths of a degree.
    window = [0, 360000]
    if (first, last) != (0, shape.columns - 1):
        window = [round(360000 * (1 - (last + 1) / shape.columns)), round(360000 * (1 - first / shape.columns))]
    return {
        "beam_intrinsics": {
            # Shots are stored in single precision, which is finer than 1e-5 degrees.
            "beam_altitude_angles": np.round(shape.altitude_deg, 5).tolist(),
            "beam_azimuth_angles": np.round(shape.azimuth_deg, 5).tolist(),
            "beam_to_lidar_transform": _flat(offset_mm, 0.0, 0.0),
            "lidar_origin_to_beam_origin_mm": offset_mm,
        },
        "calibration_status": {"reflectivity": {"timestamp": "2023-12-05T00:00:00", "valid": True}},
        "config_params": {
            "azimuth_window": window,
            "columns_per_packet": COLUMNS_PER_PACKET,
            "lidar_mode": shape.mode,
            "multipurpose_io_mode": "OFF",
            "nmea_baud_rate": "BAUD_9600",
            "nmea_ignore_valid_char": 0,
            "nmea_in_polarity": "ACTIVE_HIGH",
            "nmea_leap_seconds": 0,
            "operating_mode": "NORMAL",
            "phase_lock_enable": False,
            "phase_lock_offset": 0,
            "return_order": "STRONGEST_TO_WEAKEST",
            "signal_multiplier": 1,
            "sync_pulse_in_polarity": "ACTIVE_HIGH",
            "sync_pulse_out_angle": 360,
            "sync_pulse_out_frequency": 1,
            "sync_pulse_out_polarity": "ACTIVE_HIGH",
            "sync_pulse_out_pulse_width": 10,
            "timestamp_mode": "TIME_FROM_INTERNAL_OSC",
            "udp_dest": host,
            "udp_port_imu": imu_port,
            "udp_port_lidar": lidar_port,
            "udp_profile_imu": "LEGACY",
            "udp_profile_lidar": kind.name,
        },
        "imu_intrinsics": {"imu_to_sensor_transform": imu_place.ravel().tolist()},
        "lidar_data_format": {
            "column_window": [first, last],
            "columns_per_frame": shape.columns,
            "columns_per_packet": COLUMNS_PER_PACKET,
            "fps": shape.rate_hz,
            "pixel_shift_by_row": (shift - shift.min()).tolist(),
            "pixels_per_column": len(shape.altitude_deg),
            "udp_profile_imu": "LEGACY",
            "udp_profile_lidar": kind.name,
        },
        "lidar_intrinsics": {
            # The lidar frame points backwards: rotated by 180 degrees about z.
            "lidar_to_sensor_transform": _flat(0.0, 0.0, round(shape.height_m * 1e3, 4), turned=True)
        },
        "sensor_info": {
            "base_pn": "",
            "base_sn": "",
            "build_date": "2023-12-05T00:00:00Z",
            "build_rev": FIRMWARE,
            "image_rev": f"ousteros-image-prod-bootes-{FIRMWARE}",
            "initialization_id": zlib.crc32(f"{model}/{name}/{shape.mode}/{kind.name}".encode()) & 0xFFFFFF,
            "prod_line": _product(model, called, shape.altitude_deg),
            "prod_pn": "",
            "prod_sn": str(990_000_000_000 + zlib.crc32(f"{model}/{name}".encode()) % 10**9),
            "proto_rev": "",
            "status": "RUNNING",
        },
    }


def _flat(x: float, y: float, z: float, turned: bool = False) -> list[float]:
    sign = -1.0 if turned else 1.0
    return [sign, 0.0, 0.0, x, 0.0, sign, 0.0, y, 0.0, 0.0, 1.0, z, 0.0, 0.0, 0.0, 1.0]


def _product(model: str, called: str, altitude_deg: Floats) -> str:
    """Product line from the preset's name, from the name in its sheet, or from the vertical field of view."""
    names = (model,) if model.startswith("ouster/") else (called, model)
    found = next((match for match in (re.search(r"os-?([012])", name.lower()) for name in names) if match), None)
    # 90, 42.4 to 45 and 22.5 deg by Ouster's data sheets.
    spread = float(np.ptp(altitude_deg))
    line = found[1] if found else "0" if spread > 60.0 else "1" if spread > 30.0 else "2"
    return f"OS-{line}-{len(altitude_deg)}"


# ---- reading --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, eq=False)
class SensorDescription:
    """Content of a metadata document that packets need."""

    profile: str
    columns: int
    rate_hz: float
    window: tuple[int, int]
    altitude_deg: Floats
    azimuth_deg: Floats
    beam_offset_m: float
    lidar_to_sensor: Floats
    """Transform of shape (4, 4), lengths in metres."""
    product: str
    serial: int
    initialisation: int
    lidar_port: int
    imu_port: int
    firmware: tuple[int, int] | None = None
    """Major and minor version of the firmware; None if unknown."""
    reflectivity_valid: bool | None = None
    """Calibration status of the reflectivity; None if the document does not state it."""

    @property
    def channels(self) -> int:
        return len(self.altitude_deg)

    @property
    def wide_reflectivity(self) -> bool | None:
        """True if pixels hold 16-bit reflectivity, proportional to signal times range squared; None if unknown.

        Firmware 2.1 introduced the calibrated 8-bit reflectivity; earlier firmware has LEGACY packets only.
        """
        if self.profile != "LEGACY":
            return False
        return None if self.firmware is None else self.firmware < (2, 1)

    @property
    def model(self) -> str:
        """Name of the preset of this model, for example ouster/os1-128."""
        match = re.match(r"OS-?(\w)(?:-(\d+))?", self.product)
        return f"ouster/os{match[1].lower()}-{match[2] or self.channels}" if match else "ouster"


def describe(document: Mapping[str, Any], source: str = "metadata") -> SensorDescription:
    """Read a metadata document with current sections or in the flat form of firmware before 3.0."""
    get = _Getter(document, source)
    profile = str(get("lidar_data_format|data_format", "udp_profile_lidar", default="LEGACY"))
    if profile not in PROFILES:
        raise FormatError(f"{source}: lidar profile {profile!r} is not supported; supported: {', '.join(PROFILES)}")
    # A reduced document may hold the beam angles only; packets then have the most common mode.
    columns_known = int(get.numbers("lidar_data_format|data_format", "columns_per_frame", 1, [1024])[0])
    common = next((name for name, (columns, _) in MODES.items() if columns == columns_known), "1024x10")
    mode = str(get("config_params|", "lidar_mode", default=common))
    if mode not in MODES:
        raise FormatError(f"{source}: lidar_mode {mode!r} is not supported; supported: {', '.join(MODES)}")
    columns = int(get.numbers("lidar_data_format|data_format", "columns_per_frame", 1, [MODES[mode][0]])[0])
    packet = int(get.numbers("lidar_data_format|data_format", "columns_per_packet", 1, [COLUMNS_PER_PACKET])[0])
    if packet != COLUMNS_PER_PACKET or columns % packet or columns > 4096:
        raise FormatError(f"{source}: {columns} columns in packets of {packet} are not supported; packets hold 16")
    altitude = get.numbers("beam_intrinsics|", "beam_altitude_angles", None)
    azimuth = get.numbers("beam_intrinsics|", "beam_azimuth_angles", len(altitude))
    if not 1 <= len(altitude) <= 128:
        raise FormatError(f"{source}: beam_altitude_angles has {len(altitude)} entries; supported are 1 to 128")
    transform = get.numbers("lidar_intrinsics|", "lidar_to_sensor_transform", 16, _flat(0.0, 0.0, 36.18, turned=True))
    transform = transform.reshape(4, 4).copy()
    transform[:3, 3] *= 1e-3
    window = get.numbers("lidar_data_format|data_format", "column_window", 2, [0, columns - 1])
    ports = [get.numbers("config_params|", f"udp_port_{kind}", 1, [port])[0] for kind, port in _PORTS.items()]
    serial = str(get("sensor_info|", "prod_sn", default=""))
    return SensorDescription(
        profile,
        columns,
        float(MODES[mode][1]),
        (int(window[0]), int(window[1])),
        altitude,
        azimuth,
        float(get.numbers("beam_intrinsics|", "lidar_origin_to_beam_origin_mm", 1, [0.0])[0]) * 1e-3,
        transform,
        str(get("sensor_info|", "prod_line", default="")),
        int(serial) if serial.isdigit() else 0,
        int(get.numbers("sensor_info|", "initialization_id", 1, [0])[0]),
        int(ports[0]),
        int(ports[1]),
        _firmware(get),
        _reflectivity_valid(document),
    )


def _firmware(get: _Getter) -> tuple[int, int] | None:
    """Major and minor firmware version of a document."""
    for key in ("build_rev", "image_rev"):
        found = re.search(r"v?(\d+)\.(\d+)\.\d+", str(get("sensor_info|", key, default="")))
        if found:
            return int(found[1]), int(found[2])
    return None


def _reflectivity_valid(document: Mapping[str, Any]) -> bool | None:
    status = document.get("calibration_status")
    reflectivity = status.get("reflectivity") if isinstance(status, Mapping) else None
    valid = reflectivity.get("valid") if isinstance(reflectivity, Mapping) else None
    return valid if isinstance(valid, bool) else None


_PORTS = {"lidar": 7502, "imu": 7503}


class _Getter:
    """Lookup of a value in its section or in the flat form."""

    def __init__(self, document: Mapping[str, Any], source: str) -> None:
        if not isinstance(document, Mapping):
            raise FormatError(f"{source}: expected Ouster metadata, a mapping, got {type(document).__name__}")
        self._document, self._source = document, source

    def __call__(self, sections: str, key: str, default: Any = None) -> Any:
        for section in sections.split("|"):
            place = self._document.get(section) if section else self._document
            if isinstance(place, Mapping) and key in place:
                return place[key]
        if default is None:
            raise FormatError(f"{self._source}: is not Ouster metadata: {key!r} is missing")
        return default

    def numbers(self, sections: str, key: str, count: int | None, default: list[float] | None = None) -> Floats:
        value = self(sections, key, default)
        try:
            array = np.atleast_1d(np.asarray(value, dtype=np.float64))
        except (TypeError, ValueError):
            array = np.array([np.nan])
        if array.ndim != 1 or not np.isfinite(array).all() or (count is not None and len(array) != count):
            words = "numbers" if count is None else f"{count} number{'s' if count > 1 else ''}"
            raise FormatError(f"{self._source}: {key} must be {words}, got {str(value)[:60]}")
        return array


@file_reader()
def read_metadata(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a metadata file."""
    file = Path(path)
    try:
        document = json.loads(read_bytes(file))
    except (ValueError, RecursionError):
        raise FormatError(f"{file}: is not a JSON file") from None
    describe(document, str(file))
    return dict(document)
