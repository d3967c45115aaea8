"""Vehicles and sensors of a `settings.json` of AirSim and Cosys-AirSim, as a scenario with data sheets.

Fields and defaults are those of the documentation of Cosys-AirSim (`settings.md`, `lidar.md`, `gpulidar.md`, `echo.md`,
`distance_sensor.md`). Its frames are x forward, y right, z down; ours are x forward, y left, z up. Worlds, graphics and
interfaces have no counterpart: each field that is not used is reported.
"""

from __future__ import annotations

import json
import math
import re
from dataclasses import dataclass, field
from datetime import datetime
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import yaml

from parhelion.core.errors import ConfigError
from parhelion.core.reading import shown

VEHICLES = {
    "physxcar": "bmw/320i",
    "boxcar": "bmw/320i",
    "simpleflight": "asctec/hummingbird",
    "px4multirotor": "asctec/hummingbird",
    "arducopter": "asctec/hummingbird",
    "arducoptersolo": "asctec/hummingbird",
    "cphusky": "clearpath/husky",
    "pioneer": "pioneer/p3-dx",
}
"""Vehicle preset for each `VehicleType`; the type is matched without regard to case."""
_FLYING = {"asctec/hummingbird"}
_STREAMS = {
    1: ("barometer", "te/ms5611"),
    2: ("imu", "invensense/mpu-9250"),
    3: ("gnss", "u-blox/m8"),
    4: ("magnetometer", "akm/ak8963"),
}
"""Kind and preset for the sensor types that have no geometry."""
_NO_COUNTERPART = {10: "UWB needs anchors at known places", 11: "Wi-Fi ranging needs anchors at known places"}
_POSE = ("X", "Y", "Z", "Roll", "Pitch", "Yaw")
_LIDAR_BASE, _CAMERA_BASE = "velodyne/vlp-16", "generic/vga"
_NOT_MEASURED = "AirSim states no number; that of {} is used"


@dataclass
class Imported:
    """Files of a scenario, and the fields that it does not use."""

    files: dict[str, str]
    """Text of each file by its name; the scenario is the first."""
    left_out: list[str]
    """One line per group of unused fields, with the reason where there is one."""
    vehicles: int = 0
    sensors: int = 0


def read_settings(path: str | PathLike[str]) -> dict[str, Any]:
    """Read a settings file; an error names the line."""
    try:
        text = Path(path).read_text(encoding="utf-8-sig")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(
            f"{shown(path)}: cannot be read ({getattr(error, 'strerror', None) or 'not UTF-8'})"
        ) from None
    try:
        found = json.loads(text)
    except (json.JSONDecodeError, RecursionError) as error:
        place = f"line {error.lineno}: {error.msg}" if isinstance(error, json.JSONDecodeError) else "nested too deep"
        raise ConfigError(f"{shown(path)}: is not JSON ({place}); AirSim rejects such a file, too") from None
    if not isinstance(found, dict) or not isinstance(found.get("Vehicles", {}), dict):
        raise ConfigError(f"{shown(path)}: is not a settings file of AirSim: expected an object with 'Vehicles'")
    return found


def imported(settings: dict[str, Any], name: str, source: str) -> Imported:
    """Translate settings. `name` is the stem of the scenario file, `source` the name of the settings file."""
    return _Translation(settings, name, source).result()


@dataclass
class _Translation:
    settings: dict[str, Any]
    name: str
    source: str
    used: set[tuple[str, ...]] = field(default_factory=set)
    skipped: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Objects that are left out as a whole, and the reason."""
    notes: dict[tuple[str, ...], str] = field(default_factory=dict)
    """Objects that are imported in part, and what differs."""
    sheets: dict[str, str] = field(default_factory=dict)
    sensors: list[dict[str, Any]] = field(default_factory=list)
    names: set[str] = field(default_factory=set)

    def result(self) -> Imported:
        vehicles = [
            made for key in self.settings.get("Vehicles", {}) if (made := self._vehicle(("Vehicles", key))) is not None
        ]
        if not self.sensors:
            raise ConfigError(f"{self.source}: no vehicle has an enabled sensor or camera that can be imported")
        scenario: dict[str, Any] = {"name": f"imported from {self.source}", "duration_s": 10, "world": "city"}
        scenario |= self._surroundings()
        scenario |= {"vehicles": vehicles, "sensors": self.sensors}
        head = (
            f"# Vehicles and sensors of {self.source}. Worlds of Unreal are not imported: set `world`.\n"
            "# AirSim moves vehicles by its API: give each a route, `follow: {points: [[10, 0, 0]], speed_m_s: 2}`.\n"
        )
        files = {f"{self.name}.yaml": head + _yaml(scenario)} | self.sheets
        return Imported(files, self._left_out(), len(vehicles), len(self.sensors))

    # ---- vehicles ---------------------------------------------------------------------------------------------------

    def _vehicle(self, path: tuple[str, ...]) -> dict[str, Any] | None:
        fields = self._at(path)
        if not isinstance(fields, dict):
            raise ConfigError(f"{self.source}: {'.'.join(path)}: expected an object, got {fields!r}")
        if self._take(path, "AutoCreate", True) is False:
            self.skipped[path] = "AutoCreate is false"
            return None
        kind = str(self._take(path, "VehicleType", "")).lower()
        model = VEHICLES.get(kind)
        if model is None and kind != "computervision":
            known = "PhysXCar, BoxCar, SimpleFlight, PX4Multirotor, ArduCopter, CPHusky, Pioneer or ComputerVision"
            raise ConfigError(
                f"{self.source}: {'.'.join(path)}.VehicleType: expected {known}, got {kind or 'nothing'!r}"
            )
        start = self._pose(path)
        if model not in _FLYING and model is not None:
            start.get("xyz", [0, 0, 0])[2] = 0.0  # ground vehicles stand on the ground of the world
        made: dict[str, Any] = {"name": _word(path[-1])}
        if model is None:
            made["motion"] = {"fixed": start or {"xyz": [0, 0, 2]}}
        else:
            made |= {"model": model, "start": start or {"xyz": [0, 0, 2.0 if model in _FLYING else 0.0]}}
        sensors, cameras = (self._at((*path, group)) or {} for group in ("Sensors", "Cameras"))
        for key in sensors:
            self._sensor((*path, "Sensors", key), made["name"])
        for key in cameras:
            self._camera((*path, "Cameras", key), made["name"])
        return made

    # ---- sensors ----------------------------------------------------------------------------------------------------

    def _sensor(self, path: tuple[str, ...], vehicle: str) -> None:
        number = self._take(path, "SensorType", None)
        if self._take(path, "Enabled", True) is False:
            self.skipped[path] = "Enabled is false"
            return
        entry = self._entry(path, vehicle)
        if number in _STREAMS:
            entry["type"], entry["model"] = _STREAMS[number]
            rate = self._take(path, "UpdateFrequency", None)
            if number == 3:
                entry["options"] = self._place()
        elif number in (5, 6, 8):
            rate = None
            entry |= {"type": "lidar", "model": self._lidar_sheet(path, entry["name"], number)}
            self._centre(entry, path, number)
        elif number == 7:
            entry |= {"type": "echo", "model": "cosys/ertis-array"}
            rate = self._take(path, "MeasurementFrequency", None)
        else:
            self.skipped[path] = _NO_COUNTERPART.get(number or 0, f"SensorType {number} has no counterpart")
            return
        if rate is not None:
            entry["rate_hz"] = float(rate)
        self._keep(entry)

    def _entry(self, path: tuple[str, ...], vehicle: str) -> dict[str, Any]:
        """Name, carrier and mount of a sensor."""
        name = _word(path[-1])
        if name in self.names:
            name = f"{vehicle}-{name}"
        self.names.add(name)
        entry: dict[str, Any] = {"name": name, "type": "", "model": ""}
        if not self._take(path, "External", False):
            entry["vehicle"] = vehicle
        mount = self._pose(path)
        if mount:
            entry["mount"] = mount
        return entry

    def _keep(self, entry: dict[str, Any]) -> None:
        self.sensors.append({key: value for key, value in entry.items() if value not in ({}, None)})

    def _lidar_sheet(self, path: tuple[str, ...], name: str, number: int) -> str:
        """Write the data sheet of a lidar or a distance sensor: its pattern and range, and the optics of a VLP-16."""
        sheet = _preset("lidar", _LIDAR_BASE)
        if number == 5:
            low, high = self._number(path, "MinDistance", 0.2), self._number(path, "MaxDistance", 40.0)
            rate, elevations, columns, sector = 10.0, [0.0], 1, 0.0
        else:
            channels = round(self._number(path, "NumberOfChannels", 16))
            upper, lower = (
                self._number(path, f"VerticalFOV{end}", value) for end, value in (("Upper", -15), ("Lower", -45))
            )
            low, high = sheet["range"]["min_m"], self._number(path, "Range", 100.0 if number == 6 else 50.0)
            rate = self._number(path, "RotationsPerSecond", 10.0)
            measured = round(self._number(path, "MeasurementsPerCycle", 512 if number == 6 else 2048))
            sector = self._sector(path)[1]
            if not (1 <= channels <= 4096 and 1 <= measured <= 65536 and sector > 0):
                raise ConfigError(f"{self.source}: {'.'.join(path)}: has no beams; check channels and fields of view")
            elevations = [upper] if channels == 1 else np.linspace(lower, upper, channels).round(4).tolist()
            columns = round(measured * 360.0 / sector)
        if sector:
            sheet["pattern"] = {
                "kind": "spinning", "rate_hz": rate, "direction": "clockwise", "columns": columns,
                "field_of_view_deg": sector, "channels": {"elevation_deg": elevations},
            }  # fmt: skip
        else:
            sheet["pattern"] = {
                "kind": "raster", "rate_hz": rate, "columns": 1, "rows": 1,
                "azimuth_deg": [0.0, 0.0], "elevation_deg": [0.0, 0.0],
            }  # fmt: skip
        sheet["range"] |= {"min_m": min(low, high), "max_m": high, "rated": [{"reflectance": 0.1, "range_m": high}]}
        sheet["noise"] = {"range_sigma_m": sheet["noise"]["range_sigma_m"]}
        if self._take(path, "GenerateNoise", None) and "MinNoiseStandardDeviation" in self._at(path):
            sheet["noise"]["range_sigma_m"] = self._number(path, "MinNoiseStandardDeviation", 0.0)
        sheet["intensity"] = {"scale": "reflectance"}
        covers = ["pattern", "range.max_m"]
        assumed = {
            "range.rated": "AirSim detects every surface up to its range; 10 % reflectance at the range comes close",
            **{key: _NOT_MEASURED.format(_LIDAR_BASE) for key in (
                "wavelength_nm", "beam", "range.min_m", "range.resolution_m", "range.overlap", "receiver", "noise",
                "intensity",
            )},
        }  # fmt: skip
        return self._sheet(name, sheet, covers, assumed)

    def _sector(self, path: tuple[str, ...]) -> tuple[float, float]:
        """Middle and width [deg] of the horizontal field of view; angles are positive to the right."""
        start, end = self._number(path, "HorizontalFOVStart", 0.0), self._number(path, "HorizontalFOVEnd", 360.0)
        width = end - start
        return (0.0, 360.0) if width >= 359.0 else ((start + end) / 2.0, width)

    def _centre(self, entry: dict[str, Any], path: tuple[str, ...], number: int) -> None:
        """Turn the mount to the middle of the field of view, which our spinning lidars have ahead."""
        middle = self._sector(path)[0] if number != 5 else 0.0
        if middle:
            mount = entry.setdefault("mount", {})
            roll, pitch, yaw = mount.get("rpy_deg", [0.0, 0.0, 0.0])
            if roll or pitch:
                self.notes[path] = "the sector of a tilted lidar is centred about the vertical axis of the vehicle"
            mount["rpy_deg"] = [roll, pitch, round(yaw - middle, 6)]

    def _camera(self, path: tuple[str, ...], vehicle: str) -> None:
        entry = self._entry(path, vehicle)
        width, height, hfov = 256.0, 144.0, 90.0
        defaults = ("CameraDefaults",)
        for place in (defaults, path):
            rows = [row for row in (self._at(place) or {}).get("CaptureSettings", []) if isinstance(row, dict)]
            for row in rows:
                if row.get("ImageType", 0) == 0:
                    width, height = row.get("Width", width), row.get("Height", height)
                    hfov = row.get("FOV_Degrees", hfov)
            if rows:
                self.used.add((*place, "CaptureSettings"))
                self.notes[place] = "CaptureSettings: only Width, Height and FOV_Degrees of ImageType 0 are used"
        sheet = _preset("camera", _CAMERA_BASE)
        sheet["image"] = {"width": int(width), "height": int(height)}
        sheet["lens"] |= {"hfov_deg": float(hfov)}
        assumed = {
            key: _NOT_MEASURED.format(_CAMERA_BASE)
            for key in ("rate_hz", "sensor", "exposure", "shutter", "lens.f_number")
        }
        entry |= {
            "type": "camera",
            "model": self._sheet(entry["name"], sheet, ["image", "lens"], assumed),
            "rate_hz": 1.0,
        }
        self._keep(entry)

    def _sheet(self, name: str, sheet: dict[str, Any], covers: list[str], assumed: dict[str, str]) -> str:
        """Add a data sheet to the files; return its name."""
        sheet = {"name": f"{name} of {self.source}", **{key: value for key, value in sheet.items() if key != "name"}}
        sheet.pop("maker", None)
        sheet.pop("description", None)
        sheet["sources"] = [{"title": self.source, "covers": covers, "note": "Imported; frames converted."}]
        sheet["assumed"] = assumed
        file = f"{self.name}-{name}.yaml"
        self.sheets[file] = _yaml(sheet)
        return file

    # ---- surroundings -----------------------------------------------------------------------------------------------

    def _place(self) -> dict[str, float]:
        """Latitude, longitude and altitude of the origin, for GNSS receivers."""
        if "OriginGeopoint" not in self.settings:
            return {}
        keys = {"Latitude": "latitude_deg", "Longitude": "longitude_deg", "Altitude": "altitude_m"}
        return {ours: self._number(("OriginGeopoint",), theirs, 0.0) for theirs, ours in keys.items()}

    def _surroundings(self) -> dict[str, Any]:
        """Wind, and the sun if the settings give a date."""
        found: dict[str, Any] = {}
        wind = [self._number(("Wind",), axis, 0.0) for axis in "XYZ"] if "Wind" in self.settings else []
        if any(wind):
            found["weather"] = {"wind_m_s": [value + 0.0 for value in (wind[0], -wind[1], -wind[2])]}
        if (self._at(("TimeOfDay",)) or {}).get("Enabled"):
            text, place = str(self._take(("TimeOfDay",), "StartDateTime", "")), self._place()
            self.used.add(("TimeOfDay", "Enabled"))
            try:
                moment = datetime.strptime(text, "%Y-%m-%d %H:%M:%S")
            except ValueError:
                self.notes[("TimeOfDay",)] = "without StartDateTime, AirSim takes the present"
                return found
            if place:
                place.pop("altitude_m")
                found["daylight"] = {"time": moment.isoformat() + "+00:00", **place}
                self.notes[("TimeOfDay",)] = "StartDateTime is local time in AirSim; check the zone of `daylight`"
        return found

    # ---- fields -----------------------------------------------------------------------------------------------------

    def _at(self, path: tuple[str, ...]) -> Any:
        found: Any = self.settings
        for key in path:
            found = found.get(key) if isinstance(found, dict) else None
        return found

    def _take(self, path: tuple[str, ...], key: str, default: Any) -> Any:
        """Value of a field, which then counts as used."""
        fields = self._at(path)
        if not isinstance(fields, dict) or key not in fields:
            return default
        self.used.add((*path, key))
        return fields[key]

    def _number(self, path: tuple[str, ...], key: str, default: float) -> float:
        value = self._take(path, key, default)
        if isinstance(value, bool) or not isinstance(value, (int, float)) or math.isinf(value):
            raise ConfigError(f"{self.source}: {'.'.join((*path, key))}: expected a number, got {value!r}")
        return default if math.isnan(value) else float(value)

    def _pose(self, path: tuple[str, ...]) -> dict[str, Any]:
        """Pose in our frames; an empty one is the origin."""
        x, y, z, roll, pitch, yaw = (self._number(path, key, 0.0) for key in _POSE)
        made = {"xyz": [x, -y, -z], "rpy_deg": [roll, -pitch, -yaw]}
        return {key: [value + 0.0 for value in values] for key, values in made.items() if any(values)}

    def _left_out(self) -> list[str]:
        """One line per object that is left out, differs, or has unused fields."""
        lines: list[str] = []

        def visit(path: tuple[str, ...], fields: dict[str, Any]) -> None:
            place = ".".join(path) or "top level"
            if path in self.skipped:
                lines.append(f"{place}: {self.skipped[path]}")
                return
            if path in self.notes:
                lines.append(f"{place}: {self.notes[path]}")
            parts = {key: value for key, value in fields.items() if isinstance(value, dict) and value}
            unused = [key for key in fields if key not in parts and (*path, key) not in self.used]
            if unused:
                lines.append(f"{place}: {', '.join(unused)}")
            for key, inner in parts.items():
                visit((*path, key), inner)

        visit((), self.settings)
        return lines


def _preset(kind: str, name: str) -> dict[str, Any]:
    from parhelion.sensors.sheets import PRESETS

    sheet: dict[str, Any] = yaml.safe_load((PRESETS / kind / f"{name}.yaml").read_text(encoding="utf-8"))
    return sheet


def _word(text: str) -> str:
    """Name of an AirSim object as a name of ours."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", text).strip("-_")[:48] or "unnamed"


def _yaml(content: dict[str, Any]) -> str:
    class Dumper(yaml.SafeDumper):
        pass

    def flow(dumper: yaml.SafeDumper, values: list[Any]) -> yaml.Node:
        plain = all(isinstance(value, (int, float, str)) for value in values)
        return dumper.represent_sequence("tag:yaml.org,2002:seq", values, flow_style=plain)

    Dumper.add_representer(list, flow)
    return yaml.dump(content, Dumper=Dumper, sort_keys=False, allow_unicode=True, width=110)
