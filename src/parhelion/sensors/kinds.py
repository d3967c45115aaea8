"""The kinds of sensors: one row a kind.

A row says how scenario files call it, where its class and presets are, whether it gives frames (one record a turn or
exposure) or a stream of samples, and the type of its records. Nobody else asks what kind a sensor is: readers of
measurements go by the type of the record.

Other packages add kinds by an entry point of the group `parhelion.sensors` that names a `SensorKind`:

    [project.entry-points."parhelion.sensors"]
    thermometer = "my_package.thermometer:KIND"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from importlib import import_module
from importlib.metadata import entry_points
from os import PathLike
from typing import Any, Literal

from parhelion.core.config import read_yaml
from parhelion.core.errors import ConfigError, unknown_name

GROUP = "parhelion.sensors"


@dataclass(frozen=True)
class SensorKind:
    """One kind of sensor. Its modules are imported when they are first needed."""

    name: str
    """What scenario files call it."""
    home: str
    """Where its class is, as `module:Name`."""
    presets: str
    """Where the function is that lists its presets, as `module:name`."""
    gives: Literal["frames", "samples"]
    record: str
    """Where the type of its records is, as `module:Name`."""
    words: str
    """What it is, in a few words."""

    @property
    def sensor(self) -> Callable[..., Any]:
        """Its class: takes a preset's name or a YAML file, and `name`, `rate_hz` and options of its own."""
        return _imported(self.home)

    @property
    def record_type(self) -> type:
        """The type of what it measures."""
        found: type = _imported(self.record)
        return found

    def preset_names(self) -> list[str]:
        """Names of its presets, sorted."""
        found: list[str] = _imported(self.presets)()
        return found


_OWN = (
    SensorKind(
        "lidar", "parhelion.sensors.optics.lidar.lidar:Lidar", "parhelion.sensors.optics.lidar.presets:preset_names", "frames",
        "parhelion.core.clouds:Scan", "lidars: one cloud a turn or frame",
    ),
    SensorKind(
        "camera", "parhelion.sensors.optics.camera.camera:Camera", "parhelion.sensors.optics.camera.config:preset_names", "frames",
        "parhelion.core.image:Image", "cameras: one picture an exposure, with the truth of every pixel",
    ),
    SensorKind(
        "radar", "parhelion.sensors.waves.radar.radar:Radar", "parhelion.sensors.waves.radar.config:preset_names", "frames",
        "parhelion.core.frames:RadarScan", "radars: detections with speed and cross-section, one list a frame or turn",
    ),
    SensorKind(
        "echo", "parhelion.sensors.waves.echo.echo:Echo", "parhelion.sensors.waves.echo.config:preset_names", "frames",
        "parhelion.core.frames:EchoScan", "pulse-echo sensors: ultrasound in air, sonar in water",
    ),
    SensorKind(
        "imu", "parhelion.sensors.body.imu:Imu", "parhelion.sensors.body.imu:imu_names", "samples",
        "parhelion.core.streams:ImuData", "inertial measurement units: specific force and turn rate",
    ),
    SensorKind(
        "odometry", "parhelion.sensors.body.odometry:Odometry", "parhelion.sensors.body.odometry:odometry_names", "samples",
        "parhelion.core.streams:OdometryData", "wheel encoders: ticks and the pose that follows from them",
    ),
    SensorKind(
        "barometer", "parhelion.sensors.body.barometer:Barometer", "parhelion.sensors.body.barometer:barometer_names", "samples",
        "parhelion.core.streams:BarometerData", "barometers: pressure and altitude",
    ),
    SensorKind(
        "magnetometer", "parhelion.sensors.body.magnetometer:Magnetometer",
        "parhelion.sensors.body.magnetometer:magnetometer_names", "samples", "parhelion.core.streams:MagnetometerData",
        "magnetometers: the magnetic field",
    ),
    SensorKind(
        "gnss", "parhelion.sensors.waves.gnss.gnss:Gnss", "parhelion.sensors.waves.gnss.gnss:gnss_names", "samples",
        "parhelion.core.streams:GnssData", "satellite navigation: fixes, and the ranges behind them",
    ),
    SensorKind(
        "uwb", "parhelion.sensors.waves.uwb.uwb:Uwb", "parhelion.sensors.waves.uwb.uwb:uwb_names", "samples",
        "parhelion.core.streams:UwbData", "ranging radios: UWB, Wi-Fi and Bluetooth tags against anchors",
    ),
)  # fmt: skip
_added: dict[str, SensorKind] = {}


def kinds() -> dict[str, SensorKind]:
    """All kinds by name: ours, those of other packages, and those added by `add_kind`."""
    return {**{kind.name: kind for kind in _OWN}, **_of_other_packages(), **_added}


def kind_called(name: str) -> SensorKind:
    """A kind by name."""
    found = kinds()
    if name not in found:
        raise unknown_name("type of sensor", name, found)
    return found[name]


def add_kind(kind: SensorKind) -> None:
    """Make a kind known to this process; packages use an entry point instead."""
    if kind.name in {own.name for own in _OWN}:
        raise ConfigError(f"sensors: {kind.name!r} is a kind of Parhelion's own")
    _added[kind.name] = kind


def kind_of_sheet(path: str | PathLike[str]) -> SensorKind:
    """The kind of sensor whose data sheet a YAML file is, by the fields that it has.

    It is the one kind that knows more of the fields than any other, and most of them. A field that it does not know,
    such as a misspelt one, is left for that kind to complain about.
    """
    sheet = read_yaml(path)
    if not isinstance(sheet, dict):
        raise ConfigError(f"{path}: expected the fields of a data sheet, got {type(sheet).__name__}")
    known = {kind: fields for kind in kinds().values() if (fields := _sheet_fields(kind))}
    given = frozenset(map(str, sheet))
    most = max(len(given & fields) for fields in known.values())
    best = [kind for kind, fields in known.items() if len(given & fields) == most]
    if len(best) > 1 or 2 * most <= len(given):
        raise ConfigError(f"{path}: is not the data sheet of any kind of sensor ({', '.join(k.name for k in known)})")
    return best[0]


def _sheet_fields(kind: SensorKind) -> frozenset[str]:
    """The fields that data sheets of a kind may have; none where it has no presets, or none with a sheet."""
    names = kind.preset_names()
    config = getattr(kind.sensor(names[0]), "config", None) if names else None
    return frozenset(getattr(type(config), "model_fields", ()))


def presets() -> dict[str, list[str]]:
    """Every kind of sensor there is, with the names of its presets."""
    return {name: kind.preset_names() for name, kind in kinds().items()}


@cache
def _of_other_packages() -> dict[str, SensorKind]:
    found = {}
    for entry in entry_points(group=GROUP):
        kind = entry.load()
        if not isinstance(kind, SensorKind):
            raise ConfigError(f"sensors: the entry point {entry.name!r} names {entry.value}, which is no SensorKind")
        found[kind.name] = kind
    return found


def _imported(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)
