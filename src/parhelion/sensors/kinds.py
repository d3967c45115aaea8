"""Kinds of sensors: one row per kind.

A row holds the name in scenario files, the class, the presets, whether the kind outputs frames (one record per
revolution or exposure) or samples, and the type of its records. No other code checks the kind of a sensor: consumers of
measurements look up the type of the record.

Other packages add kinds by an entry point of the group `parhelion.sensors` that names a `SensorKind`:

    [project.entry-points."parhelion.sensors"]
    thermometer = "my_package.thermometer:KIND"
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial
from importlib.metadata import entry_points
from os import PathLike
from pathlib import Path
from pkgutil import resolve_name
from typing import Any, Literal

from parhelion.core.config import read_yaml
from parhelion.core.deprecation import deprecated_alias, deprecated_method
from parhelion.core.errors import ConfigError, unknown_name

GROUP = "parhelion.sensors"


@dataclass(frozen=True)
class SensorKind:
    """One kind of sensor. Its modules are imported on first use.

    >>> from parhelion.sensors.kinds import kind_named
    >>> kind_named("imu").output
    'samples'
    """

    name: str
    """Name in scenario files."""
    class_path: str
    """Class of the kind, as `module:Name`."""
    presets: str
    """Function that lists the names of its presets, as `module:name`; '' for kinds of Parhelion."""
    output: Literal["frames", "samples"]
    """Output of the kind: one record per frame, or samples at a rate."""
    record: str
    """Type of its records, as `module:Name`."""
    summary: str
    """Short description for lists."""

    home = deprecated_method("home", "class_path")
    gives = deprecated_method("gives", "output")
    words = deprecated_method("words", "summary")

    @property
    def sensor(self) -> Callable[..., Any]:
        """Its class: `Kind(model, *, name="", rate_hz=None, noise=True, ...)`."""
        return resolve_name(self.class_path)

    @property
    def record_type(self) -> type:
        """The type of its records."""
        found: type = resolve_name(self.record)
        return found

    def preset_names(self) -> list[str]:
        """Names of its presets, sorted."""
        if not self.presets:
            from parhelion.sensors.sheets import preset_names

            return preset_names(self.name)
        found: list[str] = resolve_name(self.presets)()
        return found


_OWN = (
    SensorKind(
        "lidar",
        "parhelion.sensors.optics.lidar.lidar:Lidar",
        "",
        "frames",
        "parhelion.core.clouds:Scan",
        "lidars: one cloud per revolution or frame",
    ),
    SensorKind(
        "camera",
        "parhelion.sensors.optics.camera.camera:Camera",
        "",
        "frames",
        "parhelion.core.image:Image",
        "cameras: one picture per exposure, with the truth of every pixel",
    ),
    SensorKind(
        "radar",
        "parhelion.sensors.waves.radar.radar:Radar",
        "",
        "frames",
        "parhelion.core.frames:RadarScan",
        "radars: detections with speed and cross-section, one list per frame or revolution",
    ),
    SensorKind(
        "echo",
        "parhelion.sensors.waves.echo.echo:Echo",
        "",
        "frames",
        "parhelion.core.frames:EchoScan",
        "pulse-echo sensors: ultrasound in air, sonar in water",
    ),
    SensorKind(
        "imu",
        "parhelion.sensors.body.imu:Imu",
        "",
        "samples",
        "parhelion.core.streams:ImuData",
        "inertial measurement units: specific force and angular rate",
    ),
    SensorKind(
        "odometry",
        "parhelion.sensors.body.odometry:Odometry",
        "",
        "samples",
        "parhelion.core.streams:OdometryData",
        "wheel encoders: ticks and the dead-reckoned pose",
    ),
    SensorKind(
        "barometer",
        "parhelion.sensors.body.barometer:Barometer",
        "",
        "samples",
        "parhelion.core.streams:BarometerData",
        "barometers: pressure and altitude",
    ),
    SensorKind(
        "magnetometer",
        "parhelion.sensors.body.magnetometer:Magnetometer",
        "",
        "samples",
        "parhelion.core.streams:MagnetometerData",
        "magnetometers: the magnetic field",
    ),
    SensorKind(
        "gnss",
        "parhelion.sensors.waves.gnss.gnss:Gnss",
        "",
        "samples",
        "parhelion.core.streams:GnssData",
        "satellite navigation: fixes, ranges and carrier phases",
    ),
    SensorKind(
        "uwb",
        "parhelion.sensors.waves.uwb.uwb:Uwb",
        "",
        "samples",
        "parhelion.core.streams:UwbData",
        "ranging radios: UWB, Wi-Fi and Bluetooth tags against anchors",
    ),
)
_added: dict[str, SensorKind] = {}


def kinds() -> dict[str, SensorKind]:
    """All kinds by name: built-in kinds, those of other packages, and those added by `register_kind`."""
    return {**{kind.name: kind for kind in _OWN}, **_of_other_packages(), **_added}


def kind_named(name: str) -> SensorKind:
    """A kind by name."""
    found = kinds()
    if name not in found:
        raise unknown_name("type of sensor", name, found)
    return found[name]


def register_kind(kind: SensorKind) -> None:
    """Add a kind to this process; packages use an entry point instead."""
    if kind.name in {own.name for own in _OWN}:
        raise ConfigError(f"sensors: {kind.name!r} is a kind of Parhelion's own")
    _added[kind.name] = kind


kind_called = deprecated_alias("kind_called", kind_named)
add_kind = deprecated_alias("add_kind", register_kind)


def presets(kind: str) -> list[str]:
    """Names of the presets of a kind of sensor, `maker/model`, sorted.

        ph.presets("radar")             # ["continental/ars408-21-far", ...]

    Args:
        kind: Name of the kind, such as "lidar"; `ph.sensors()` lists all kinds.
    """
    return kind_named(kind).preset_names()


def preset_list(kind: str) -> Callable[[], list[str]]:
    """The deprecated function `<kind>_names`."""
    return deprecated_alias(f"{kind}_names", partial(presets, kind), use=f'presets("{kind}")')


def sensor(kind: str, model: Any, **options: Any) -> Any:
    """Create a sensor of any kind; `ph.sensor("radar", "ti/iwr6843")` is the same as `ph.Radar("ti/iwr6843")`.

    Args:
        kind: Name of the kind, such as "lidar".
        model: Preset name, YAML file or configuration.
        options: `name`, `rate_hz`, `noise` and the options of the kind.
    """
    return kind_named(kind).sensor(model, **options)


def find_kind(model: str | PathLike[str]) -> SensorKind:
    """Find the kind of a sensor by the name of its preset, or by the fields of its YAML file."""
    from parhelion.sensors.sheets import RENAMED, YAML_SUFFIXES

    name = str(model).lower()
    for kind in kinds().values():
        if name in kind.preset_names() or name in RENAMED.get(kind.name, {}):
            return kind
    if Path(model).suffix.lower() in YAML_SUFFIXES:
        return kind_of_sheet(model)
    known = [preset for kind in kinds().values() for preset in kind.preset_names()]
    raise unknown_name("sensor", str(model), known, "(or give the path of a YAML file)")


def kind_of_sheet(path: str | PathLike[str]) -> SensorKind:
    """Kind of sensor that a YAML data sheet describes, determined by its fields.

    The result is the kind that knows more of the fields than any other, and more than half of them. That kind reports
    the fields that it does not know, such as misspelt ones.
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
    """Fields of the data sheets of a kind; empty if it has no presets or no data sheets."""
    names = kind.preset_names()
    config = getattr(kind.sensor(names[0]), "config", None) if names else None
    return frozenset(getattr(type(config), "model_fields", ()))


@cache
def _of_other_packages() -> dict[str, SensorKind]:
    found = {}
    for entry in entry_points(group=GROUP):
        kind = entry.load()
        if not isinstance(kind, SensorKind):
            raise ConfigError(f"sensors: the entry point {entry.name!r} names {entry.value}, which is no SensorKind")
        found[kind.name] = kind
    return found
