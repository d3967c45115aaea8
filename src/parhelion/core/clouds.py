"""What sensors measure, as frozen records of NumPy arrays. Every field has a name, a unit and a shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.records import ROW, Column, Record, as_html, cloud_facts, column, components, scalar
from parhelion.core.trajectory import Fixed, Trajectory, Waypoints

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class FieldSpec:
    """What a field name means, wherever it appears."""

    dtype: str
    unit: str
    meaning: str
    columns: int = 1


# The one table of point fields: sensors fill them, formats keep them, the documentation prints them.
FIELDS: Mapping[str, FieldSpec] = MappingProxyType(
    {
        "range": FieldSpec("float32", "m", "measured distance from the beam's origin"),
        "intensity": FieldSpec("float32", "vendor scale", "intensity as the vendor's driver reports it"),
        "reflectivity": FieldSpec("float32", "1", "range-corrected reflectance of an equal Lambertian target"),
        "power": FieldSpec("float32", "P_min", "received signal in units of the detection threshold"),
        "near_ir": FieldSpec("float32", "counts", "sunlight that the surface sends back at the lidar's wavelength"),
        "ring": FieldSpec("uint16", "", "channel number, 0 is the lowest elevation"),
        "column": FieldSpec("uint16", "", "firing number within the scan"),
        "time": FieldSpec("float32", "s", "time of the shot after the start of the scan"),
        "return_index": FieldSpec("uint8", "", "number of this return within its shot, 0 is the nearest"),
        "return_count": FieldSpec("uint8", "", "number of returns of the shot"),
        "material": FieldSpec("uint16", "", "index into names['material']"),
        "label": FieldSpec("uint16", "", "semantic class; names['label'] gives the words"),
        "instance": FieldSpec("uint32", "", "number of the object within the world"),
        "velocity": FieldSpec("float32", "m/s", "velocity of the surface in the world frame", 3),
        "origin": FieldSpec("uint8", "", "what made the point; names['origin'] gives the words"),
        "shot": FieldSpec("uint32", "", "row of the shot in the scan's table of shots"),
        "rgb": FieldSpec("uint8", "", "colour, red green blue", 3),
        "normal": FieldSpec("float32", "1", "unit normal of the surface", 3),
        "azimuth": FieldSpec("float32", "rad", "direction in the sensor's frame, left is positive"),
        "elevation": FieldSpec("float32", "rad", "direction in the sensor's frame, up is positive"),
        "radial_velocity": FieldSpec("float32", "m/s", "speed along the line of sight, away is positive"),
        "rcs": FieldSpec("float32", "dBsm", "radar cross-section relative to 1 m^2"),
        "snr": FieldSpec("float32", "dB", "signal over the noise around it"),
        "bounces": FieldSpec("uint8", "", "surfaces on the way there and back; 1 is a direct echo"),
        "path_length": FieldSpec("float32", "m", "way of the wave from the emitter to the receiver"),
        "source": FieldSpec("uint16", "", "what sent the wave, 0 the sensor itself; names['source'] gives the words"),
        "attenuation": FieldSpec("float32", "dB", "loss from the emitter, 1 m on its axis, to the receiver"),
    }
)

# Values of the `origin` field.
ORIGINS = ("surface", "rain", "fog", "snow", "dust", "multipath", "noise")
_further_origins: dict[int, str] = {}


def origin_names() -> dict[int, str]:
    """Words for the values of the `origin` field: `ORIGINS`, and the media that other packages registered."""
    return {**dict(enumerate(ORIGINS)), **_further_origins}


def register_origin(code: int, name: str) -> None:
    """Add a word for a value of the `origin` field."""
    if code in (known := origin_names()) or name in known.values():
        raise ConfigError(f"origin: {code} or {name!r} is taken already")
    _further_origins[code] = name


def forget_origin(code: int) -> None:
    """Remove a word that `register_origin` added."""
    del _further_origins[code]


# Steps of 0.1 ms over a revolution of 0.1 s: within 2e-8 m at 10 m/s² and 2e-8 rad at 10 rad/s² (a dt² / 8).
_MOTION_KNOTS = 1024


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.setflags(write=False)
    return view


@dataclass(frozen=True, eq=False, repr=False)
class PointCloud(Record):
    """Points with any number of further fields, each an array with one row a point."""

    xyz: NDArray[Any]
    """Cartesian coordinates [m], shape (n, 3), float32 or float64."""

    fields: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Further fields by name, each of shape (n,) or (n, k). `FIELDS` says what the usual names mean."""

    frame: str = "sensor"
    """Frame of `xyz`: 'sensor' (at each shot's own time), 'sensor-start' (deskewed to the scan's start), 'world'."""

    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """For coded fields (label, material, origin): what each number stands for."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values (numbers, strings, lists) that came with the cloud: sensor, seed, time ..."""

    def __post_init__(self) -> None:
        xyz = np.asarray(self.xyz)
        if xyz.ndim != 2 or xyz.shape[1] != 3:
            raise ConfigError(f"point cloud: xyz must have shape (n, 3), got {xyz.shape}")
        if xyz.dtype not in (np.float32, np.float64):
            xyz = xyz.astype(np.float64)
        kept: dict[str, NDArray[Any]] = {}
        for name, values in self.fields.items():
            array = np.asarray(values)
            if array.ndim not in (1, 2) or array.shape[0] != xyz.shape[0]:
                raise ConfigError(
                    f"point cloud: field {name!r} has shape {array.shape}, but there are {xyz.shape[0]} points"
                )
            kept[name] = _frozen(array)
        object.__setattr__(self, "xyz", _frozen(xyz))
        object.__setattr__(self, "fields", MappingProxyType(kept))
        object.__setattr__(self, "names", MappingProxyType(dict(self.names)))
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    def _units(self) -> dict[str, tuple[str, str]]:
        known = {name: (FIELDS[name].unit, "") for name in self.fields if name in FIELDS}
        return {"xyz": ("m", self.frame), **super()._units(), **known}

    def __len__(self) -> int:
        return int(self.xyz.shape[0])

    def __getattr__(self, name: str) -> Any:
        # Only reached for names that are no attribute: the fields. Private names never are.
        if not name.startswith("_"):
            fields = self.__dict__.get("fields", {})
            if name in fields:
                return fields[name]
            raise AttributeError(f"this cloud has no field {name!r}; it has: {', '.join(['xyz', *fields])}")
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in self.fields if name.isidentifier())})

    def _facts(self) -> list[str]:
        return cloud_facts(self)

    def table(self) -> list[Column]:
        xyz, units = [Column(axis, "m", self.xyz[:, k]) for k, axis in enumerate("xyz")], self.units
        fields = self.fields.items()
        return [*xyz, *(part for name, values in fields for part in components(name, units.get(name, ""), values))]

    def _repr_html_(self) -> str:
        return as_html(self, FIELDS)

    # Read-only views cannot be copied or sent to another process as they are.
    def __getstate__(self) -> dict[str, Any]:
        return {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def select(self, rows: NDArray[Any] | slice) -> Self:
        """The points that a boolean mask, an index array or a slice picks, with all their fields.

        A scan stays a scan, with the table of all its shots.
        """
        fields = {name: values[rows] for name, values in self.fields.items()}
        return replace(self, xyz=self.xyz[rows], fields=fields)

    def with_fields(self, **fields: NDArray[Any]) -> Self:
        """A copy with these fields added or replaced."""
        return replace(self, fields={**self.fields, **fields})


def _per_shot(unit: str, frame: str, dtype: str, *more: int) -> dict[str, Any]:
    return column(unit, frame, ROW, *more, dtype=dtype, finite=False)


@dataclass(frozen=True, eq=False)
class Shots(Record):
    """Every pulse that a scan fired, returned or not, one row per pulse."""

    direction: NDArray[np.float32] = field(metadata=_per_shot("1", "sensor", "float32", 3))
    """Unit direction of the beam's axis in the sensor frame at the shot's time, shape (n, 3)."""
    origin: NDArray[np.float32] = field(metadata=_per_shot("m", "sensor", "float32", 3))
    """Where the beam leaves [m], sensor frame, shape (n, 3)."""
    time: NDArray[np.float32] = field(metadata=_per_shot("s", "", "float32"))
    """Time after the start of the scan [s], shape (n,)."""
    ring: NDArray[np.uint16] = field(metadata=_per_shot("", "", "uint16"))
    """Channel number, shape (n,)."""
    column: NDArray[np.uint16] = field(metadata=_per_shot("", "", "uint16"))
    """Firing number within the scan, shape (n,)."""
    return_count: NDArray[np.uint8] = field(metadata=_per_shot("", "", "uint8"))
    """Number of returns reported for the shot, shape (n,); 0 is a lost shot."""
    near_ir: NDArray[np.float32] | None = field(default=None, metadata=_per_shot("counts", "", "float32"))
    """Ambient light of each shot [counts], shape (n,), where the sensor measures it."""
    noise: NDArray[np.float32] | None = field(default=None, metadata=_per_shot("photons", "", "float32"))
    """Signal of a shot without a return [photons], 0 for others, shape (n,), where the sensor reports it."""

    def __len__(self) -> int:
        return int(self.time.shape[0])

    def _sizes(self) -> Mapping[str, int]:
        return {ROW: int(np.size(self.time))}

    def _facts(self) -> list[str]:
        return [f"{len(self)} shots", f"{int(np.sum(self.return_count == 0))} lost", *self._columns()]


@dataclass(frozen=True, eq=False, repr=False)
class Scan(PointCloud):
    """One turn or frame of a lidar: the returns as points, and the table of all shots."""

    shots: Shots = field(kw_only=True)
    """All shots; `scan.shot` names each point's row."""
    motion: Trajectory = field(default_factory=lambda: Fixed(Pose()), kw_only=True)
    """Motion of the sensor in the world, on the same clock as `start_time`."""
    start_time: float = field(default=0.0, kw_only=True, metadata=scalar("s"))
    """Time of the scan's start on the world's clock [s]."""

    def motion_knots(self) -> tuple[Floats, Floats, Floats]:
        """Times [s], positions [m] and quaternions that represent the motion during the scan.

        At the times of the shots (at most 1024 evenly spaced ones) for motions other than `Waypoints`, which have
        their own times.
        """
        seconds = np.asarray(self.shots.time, np.float64)
        first = self.start_time + min(0.0, float(seconds.min(initial=0.0)))
        last = self.start_time + max(0.0, float(seconds.max(initial=0.0)))
        if isinstance(self.motion, Fixed) or last <= first:
            times = np.array([first])
        elif isinstance(self.motion, Waypoints):
            inside = (self.motion.times > first) & (self.motion.times < last)
            times = np.concatenate([[first], self.motion.times[inside], [last]])
        else:
            times = np.unique(np.concatenate([[first], self.start_time + seconds, [last]]))
            if len(times) > _MOTION_KNOTS:
                times = np.linspace(first, last, _MOTION_KNOTS)
        return (times, *self.motion.sample(times))

    def _same_field(self, name: str, other: Any) -> bool:
        if name != "motion":
            return super()._same_field(name, other)
        # Files store the knots, so a motion counts by its poses there, up to the rounding of interpolation.
        times, xyz, quat = self.motion_knots()
        other_xyz, other_quat = other.sample(times)
        turned = np.abs(np.sum(quat * other_quat, axis=1))
        return np.allclose(xyz, other_xyz, rtol=1e-12, atol=1e-9) and bool(np.all(turned > 1.0 - 1e-12))

    @property
    def pose(self) -> Pose:
        """Pose of the sensor in the world at the start of the scan."""
        xyz, quat = self.motion.sample(np.array([self.start_time]))
        return Pose(xyz[0], quat[0])

    @property
    def lost(self) -> NDArray[np.bool_]:
        """Which shots have no return, shape (number of shots,)."""
        return self.shots.return_count == 0

    def _moved(self, frame: str) -> PointCloud:
        from parhelion.core.pose import quat_rotate

        if self.frame != "sensor":
            raise ConfigError(f"scan: points are in the frame {self.frame!r} already")
        # One pose a distinct time: all points of a column share it on most sensors.
        times, rows = np.unique(self.shots.time[self.fields["shot"]], return_inverse=True)
        positions, quats = self.motion.sample(self.start_time + times.astype(np.float64))
        points = quat_rotate(quats[rows], self.xyz.astype(np.float64)) + positions[rows]
        if frame == "sensor-start":
            points = self.pose.inverse().apply(points).astype(np.float32)
        return PointCloud(points, self.fields, frame, self.names, self.metadata)

    def in_world(self) -> PointCloud:
        """The points in the world frame (float64), each moved by the pose at its own shot."""
        return self._moved("world")

    def deskewed(self) -> PointCloud:
        """The points in the sensor frame at the start of the scan, the motion during the scan removed."""
        return self._moved("sensor-start")

    def with_lost_shots(self) -> PointCloud:
        """All shots as rows: the returns, then each lost shot with NaN coordinates and return_count 0.

        Ring, column and time of the lost shots are kept, and their direction as field `direction`,
        so that formats without a table of shots can still carry them.
        """
        lost = np.flatnonzero(self.lost)
        n = len(lost)
        xyz = np.concatenate([self.xyz, np.full((n, 3), np.nan, self.xyz.dtype)])
        known = {
            "ring": self.shots.ring[lost],
            "column": self.shots.column[lost],
            "time": self.shots.time[lost],
            "shot": lost,
        }
        fields: dict[str, NDArray[Any]] = {}
        for name, values in self.fields.items():
            tail = known.get(name, np.zeros((n, *values.shape[1:])))
            fields[name] = np.concatenate([values, np.asarray(tail).astype(values.dtype)])
        fields["direction"] = np.concatenate([self.shots.direction[self.fields["shot"]], self.shots.direction[lost]])
        return PointCloud(xyz, fields, self.frame, self.names, self.metadata)


@dataclass(frozen=True, eq=False)
class Waveform(Record):
    """Digitised received signal of chosen shots."""

    shot: NDArray[np.uint32] = field(metadata=column("", "", "s", dtype="uint32"))
    """Row of each waveform's shot, shape (s,)."""
    range_start: float = field(metadata=scalar("m", "sensor"))
    """Range of the first bin's centre [m]."""
    bin_size: float = field(metadata=scalar("m", "sensor"))
    """Range step between bins [m]."""
    samples: NDArray[np.float32] = field(metadata=column("P_min", "", "s", "b", dtype="float32"))
    """Signal in units of the detection threshold, noise included, shape (s, bins)."""
    noise_floor: float = field(metadata=scalar("P_min"))
    """Standard deviation of the noise in each bin, same unit."""

    def _sizes(self) -> Mapping[str, int]:
        return dict(zip("sb", np.shape(self.samples), strict=False))

    def table(self) -> list[Column]:
        signals = [Column(f"shot_{shot}", "P_min", row) for shot, row in zip(self.shot, self.samples, strict=True)]
        return [Column("range", "m", self.ranges), *signals]

    def _facts(self) -> list[str]:
        bins = self.samples.shape[1]
        return [f"{len(self.shot)} shots", f"{bins} bins of {self.bin_size:.4g} m from {self.range_start:.4g} m"]

    @property
    def ranges(self) -> NDArray[np.float64]:
        """Range of each bin's centre [m], shape (bins,)."""
        return self.range_start + self.bin_size * np.arange(self.samples.shape[1], dtype=np.float64)
