"""Point clouds, lidar scans and waveforms as frozen records. Every field has a name, a unit and a shape."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.labelled import Labelled
from parhelion.core.pose import Floats, Pose
from parhelion.core.records import ROW, Column, Record, as_html, cloud_repr_parts, column, components, scalar
from parhelion.core.trajectory import Fixed, Trajectory, Waypoints

if TYPE_CHECKING:
    from typing_extensions import Self


@dataclass(frozen=True)
class FieldSpec:
    """Type, unit and meaning of a point field."""

    dtype: str
    """NumPy type."""
    unit: str
    """Unit; '1' for a ratio, '' for a code or number."""
    meaning: str
    """Meaning, for the documentation."""
    columns: int = 1
    """Number of columns per point."""


# The single table of point fields: sensors fill them, file formats store them, the documentation prints them.
FIELDS: Mapping[str, FieldSpec] = MappingProxyType(
    {
        "range": FieldSpec("float32", "m", "measured distance from the beam's origin"),
        "intensity": FieldSpec("float32", "vendor scale", "intensity as the vendor's driver reports it"),
        "reflectivity": FieldSpec("float32", "1", "range-corrected reflectance of an equal Lambertian target"),
        "power": FieldSpec("float32", "P_min", "received signal in units of the detection threshold"),
        "near_ir": FieldSpec("float32", "counts", "sunlight reflected by the surface at the lidar's wavelength"),
        "ring": FieldSpec("uint16", "", "channel number, 0 is the lowest elevation"),
        "column": FieldSpec("uint16", "", "firing number within the scan"),
        "time": FieldSpec("float32", "s", "time of the shot after the start of the scan"),
        "return_index": FieldSpec("uint8", "", "number of this return within its shot, 0 is the nearest"),
        "return_count": FieldSpec("uint8", "", "number of returns of the shot"),
        "material": FieldSpec("uint16", "", "index into names['material']"),
        "label": FieldSpec("uint16", "", "semantic class; names['label'] holds the class names"),
        "instance": FieldSpec("uint32", "", "number of the object within the world"),
        "velocity": FieldSpec("float32", "m/s", "velocity of the surface in the world frame", 3),
        "origin": FieldSpec("uint8", "", "origin of the point: surface, rain, fog, ...; see names['origin']"),
        "shot": FieldSpec("uint32", "", "row of the shot in the scan's table of shots"),
        "rgb": FieldSpec("uint8", "", "colour, red green blue", 3),
        "normal": FieldSpec("float32", "1", "unit normal of the surface", 3),
        "azimuth": FieldSpec("float32", "rad", "direction in the sensor's frame, left is positive"),
        "elevation": FieldSpec("float32", "rad", "direction in the sensor's frame, up is positive"),
        "radial_velocity": FieldSpec("float32", "m/s", "speed along the line of sight, away is positive"),
        "rcs": FieldSpec("float32", "dBsm", "radar cross-section relative to 1 m^2"),
        "snr": FieldSpec("float32", "dB", "signal over the noise around it"),
        "bounces": FieldSpec("uint8", "", "reflections along the path; 1 is a direct echo"),
        "path_length": FieldSpec("float32", "m", "path length of the wave from the emitter to the receiver"),
        "source": FieldSpec("uint16", "", "emitter of the wave, 0 is the sensor itself; see names['source']"),
        "attenuation": FieldSpec("float32", "dB", "loss from the emitter, 1 m on its axis, to the receiver"),
    }
)

# Values of the `origin` field.
ORIGINS = (
    "surface", "rain", "fog", "snow", "dust", "multipath", "noise", "spray", "window", "smoke", "interference",
    "sunlight",
)  # fmt: skip
_further_origins: dict[int, str] = {}


def origin_names() -> dict[int, str]:
    """Names of the codes in the `origin` field: `ORIGINS`, and the media that other packages registered."""
    return {**dict(enumerate(ORIGINS)), **_further_origins}


def register_origin(code: int, name: str) -> None:
    """Add a name for a code of the `origin` field."""
    if code in (known := origin_names()) or name in known.values():
        raise ConfigError(f"origin: {code} or {name!r} is already registered")
    _further_origins[code] = name


def forget_origin(code: int) -> None:
    """Remove a name that `register_origin` added."""
    del _further_origins[code]


# Knots every 0.1 ms over a revolution of 0.1 s: the interpolation error a dt² / 8 is at most 2e-8 m at 10 m/s² and
# 2e-8 rad at 10 rad/s².
_MOTION_KNOTS = 1024


def _frozen(array: NDArray[Any]) -> NDArray[Any]:
    view = array.view()
    view.setflags(write=False)
    return view


@dataclass(frozen=True, eq=False, repr=False)
class PointCloud(Record):
    """Points with any number of further fields, each an array with one row per point.

    >>> cloud = ph.PointCloud([[1.0, 0.0, 0.0], [0.0, 2.0, 0.0]], {"intensity": np.array([10.0, 20.0], np.float32)})
    >>> cloud
    <PointCloud: 2 points, range 1 to 2 m, frame 'sensor'>
    >>> cloud.select(cloud.intensity > 15).xyz.tolist()
    [[0.0, 2.0, 0.0]]
    """

    xyz: NDArray[Any]
    """Cartesian coordinates [m], shape (n, 3), float32 or float64."""

    fields: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    """Further fields by name, each of shape (n,) or (n, k). `FIELDS` lists units and meanings of the standard names."""

    frame: str = "sensor"
    """Frame of `xyz`: 'sensor' (at the time of each shot), 'sensor-start' (deskewed to the scan's start), 'world'."""

    names: Mapping[str, Mapping[int, str]] = field(default_factory=dict)
    """Names of the codes in coded fields (label, material, origin)."""

    metadata: Mapping[str, Any] = field(default_factory=dict)
    """Plain values (numbers, strings, lists) stored with the cloud: sensor, seed, time, ..."""

    def __post_init__(self) -> None:
        xyz = np.asarray(self.xyz)
        if xyz.ndim != 2 or xyz.shape[1] != 3:
            raise ConfigError(f"point cloud: xyz must have shape (n, 3), got {xyz.shape}")
        if xyz.dtype not in (np.float32, np.float64):
            xyz = xyz.astype(np.float64)
        arrays: dict[str, NDArray[Any]] = {}
        for name, values in self.fields.items():
            array = np.asarray(values)
            if array.ndim not in (1, 2) or array.shape[0] != xyz.shape[0]:
                raise ConfigError(
                    f"point cloud: field {name!r} has shape {array.shape}, but there are {xyz.shape[0]} points"
                )
            arrays[name] = _frozen(array)
        object.__setattr__(self, "xyz", _frozen(xyz))
        object.__setattr__(self, "fields", MappingProxyType(arrays))
        object.__setattr__(self, "names", MappingProxyType(dict(self.names)))
        object.__setattr__(self, "metadata", MappingProxyType(dict(self.metadata)))

    def _units(self) -> dict[str, tuple[str, str]]:
        known = {name: (FIELDS[name].unit, "") for name in self.fields if name in FIELDS}
        return {"xyz": ("m", self.frame), **super()._units(), **known}

    def __len__(self) -> int:
        return int(self.xyz.shape[0])

    def __getattr__(self, name: str) -> Any:
        # Python calls this only for names that are not attributes. Fields have no private names.
        if not name.startswith("_"):
            fields = self.__dict__.get("fields", {})
            if name in fields:
                return fields[name]
            raise AttributeError(f"this cloud has no field {name!r}; it has: {', '.join(['xyz', *fields])}")
        raise AttributeError(name)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *(name for name in self.fields if name.isidentifier())})

    def _repr_parts(self) -> list[str]:
        return cloud_repr_parts(self)

    def table(self) -> list[Column]:
        xyz, units = [Column(axis, "m", self.xyz[:, k]) for k, axis in enumerate("xyz")], self.units
        fields = self.fields.items()
        return [*xyz, *(part for name, values in fields for part in components(name, units.get(name, ""), values))]

    def _labelled(self) -> list[Labelled]:
        found = [Labelled("xyz", "m", self.frame, self.xyz, ("point", "axis"), {"axis": "xyz"})]
        units = self.units
        for name, values in self.fields.items():
            axes = ["point", *(f"{name}_axis{k or ''}" for k in range(values.ndim - 1))]
            found.append(Labelled(name, units.get(name, ""), "", values, axes, {}))
        return found

    def _repr_html_(self) -> str:
        return as_html(self, FIELDS)

    # Mapping proxies cannot be copied or pickled.
    def __getstate__(self) -> dict[str, Any]:
        return {k: dict(v) if isinstance(v, MappingProxyType) else v for k, v in self.__dict__.items()}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self.__post_init__()

    def select(self, rows: NDArray[Any] | slice) -> Self:
        """Return the points selected by a boolean mask, an index array or a slice, with all their fields.

        A scan remains a scan and keeps the table of all its shots.
        """
        fields = {name: values[rows] for name, values in self.fields.items()}
        return replace(self, xyz=self.xyz[rows], fields=fields)

    def with_fields(self, **fields: NDArray[Any]) -> Self:
        """Return a copy with these fields added or replaced."""
        return replace(self, fields={**self.fields, **fields})


def _per_shot(unit: str, frame: str, dtype: str, *more: int) -> dict[str, Any]:
    return column(unit, frame, ROW, *more, dtype=dtype, finite=False)


@dataclass(frozen=True, eq=False)
class Shots(Record):
    """Every pulse of a scan, with or without a return, one row per pulse."""

    direction: NDArray[np.float32] = field(metadata=_per_shot("1", "sensor", "float32", 3))
    """Unit direction of the beam axis in the sensor frame at the time of the shot, shape (n, 3)."""
    origin: NDArray[np.float32] = field(metadata=_per_shot("m", "sensor", "float32", 3))
    """Origin of the beam [m] in the sensor frame, shape (n, 3)."""
    time: NDArray[np.float32] = field(metadata=_per_shot("s", "", "float32"))
    """Time after the start of the scan [s], shape (n,)."""
    ring: NDArray[np.uint16] = field(metadata=_per_shot("", "", "uint16"))
    """Channel number, shape (n,)."""
    column: NDArray[np.uint16] = field(metadata=_per_shot("", "", "uint16"))
    """Firing number within the scan, shape (n,)."""
    return_count: NDArray[np.uint8] = field(metadata=_per_shot("", "", "uint8"))
    """Number of reported returns, shape (n,); 0 for a lost shot."""
    near_ir: NDArray[np.float32] | None = field(default=None, metadata=_per_shot("counts", "", "float32"))
    """Ambient light per shot [counts], shape (n,); None if the sensor does not measure it."""
    noise: NDArray[np.float32] | None = field(default=None, metadata=_per_shot("photons", "", "float32"))
    """Signal of shots without a return [photons], 0 for others, shape (n,); None if the sensor does not report it."""
    window: NDArray[np.float32] | None = field(default=None, metadata=_per_shot("1", "", "float32"))
    """Ground truth: share of the light that passes the dirty window, both ways, shape (n,); None for a clean one."""

    def __len__(self) -> int:
        return int(self.time.shape[0])

    def _sizes(self) -> Mapping[str, int]:
        return {ROW: int(np.size(self.time))}

    def _repr_parts(self) -> list[str]:
        return [f"{len(self)} shots", f"{int(np.sum(self.return_count == 0))} lost", *self._columns()]


@dataclass(frozen=True, eq=False, repr=False)
class Scan(PointCloud):
    """One revolution or frame of a lidar: the returns as points, and the table of all shots.

    >>> world = ph.World()
    >>> _ = world.add(ph.shapes.box(2, 2, 2), material="concrete", pose=ph.Pose(xyz=(5, 0, 0)))
    >>> scan = ph.Lidar("velodyne/vlp-16").scan(world, pose=ph.Pose(), seed=7)
    >>> bool(abs(scan.range[scan.ring == 8].min() - 4.0) < 0.2)
    True
    >>> len(scan) + int(scan.lost.sum()) == len(scan.shots)
    True
    """

    shots: Shots = field(kw_only=True)
    """All shots; `scan.shot` is the row of each point in this table."""
    motion: Trajectory = field(default_factory=lambda: Fixed(Pose()), kw_only=True)
    """Motion of the sensor in the world, on the same clock as `start_time`."""
    start_time: float = field(default=0.0, kw_only=True, metadata=scalar("s"))
    """Start of the scan [s] on the world's clock."""

    def motion_knots(self) -> tuple[Floats, Floats, Floats]:
        """Times [s], positions [m] and quaternions that represent the motion during the scan.

        `Waypoints` use their own times. Other motions are sampled at the times of the shots, or at 1024 evenly spaced
        times if there are more shots.
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
        # Files store the motion at its knots, so motions are compared by their poses there, up to rounding.
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
        """True for shots without a return, shape (number of shots,)."""
        return self.shots.return_count == 0

    def _moved(self, frame: str) -> PointCloud:
        from parhelion.core.pose import quat_rotate

        if self.frame != "sensor":
            raise ConfigError(f"scan: points are already in the frame {self.frame!r}")
        # One pose per distinct time: on most sensors, all points of a column share it.
        times, rows = np.unique(self.shots.time[self.fields["shot"]], return_inverse=True)
        positions, quats = self.motion.sample(self.start_time + times.astype(np.float64))
        points = quat_rotate(quats[rows], self.xyz.astype(np.float64)) + positions[rows]
        if frame == "sensor-start":
            points = self.pose.inverse().apply(points).astype(np.float32)
        return PointCloud(points, self.fields, frame, self.names, self.metadata)

    def in_world(self) -> PointCloud:
        """Return the points in the world frame (float64), each transformed by the pose at the time of its shot."""
        return self._moved("world")

    def deskewed(self) -> PointCloud:
        """Return the points in the sensor frame at the start of the scan, with the motion during the scan removed."""
        return self._moved("sensor-start")

    def with_lost_shots(self) -> PointCloud:
        """Return all shots as rows: the returns, then each lost shot with NaN coordinates and return_count 0.

        Rows of lost shots have ring, column, time and the field `direction`, so that formats without a table of shots
        can store them.
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
    """Digitised received signal of selected shots.

    >>> wave = ph.Waveform(shot=[7], range_start=1.0, bin_size=0.5, samples=[[0.1, 3.2, 0.2]], noise_floor=0.1)
    >>> float(wave.ranges[wave.samples[0].argmax()])
    1.5
    """

    shot: NDArray[np.uint32] = field(metadata=column("", "", "s", dtype="uint32"))
    """Row of each waveform in the table of shots, shape (s,)."""
    range_start: float = field(metadata=scalar("m", "sensor"))
    """Range at the centre of the first bin [m]."""
    bin_size: float = field(metadata=scalar("m", "sensor"))
    """Range step between bins [m]."""
    samples: NDArray[np.float32] = field(metadata=column("P_min", "", "s", "b", dtype="float32"))
    """Signal with noise [detection threshold P_min], shape (s, bins)."""
    noise_floor: float = field(metadata=scalar("P_min"))
    """Standard deviation of the noise per bin [P_min]."""

    def _sizes(self) -> Mapping[str, int]:
        return dict(zip("sb", np.shape(self.samples), strict=False))

    def table(self) -> list[Column]:
        signals = [Column(f"shot_{shot}", "P_min", row) for shot, row in zip(self.shot, self.samples, strict=True)]
        return [Column("range", "m", self.ranges), *signals]

    def _repr_parts(self) -> list[str]:
        bins = self.samples.shape[1]
        return [f"{len(self.shot)} shots", f"{bins} bins of {self.bin_size:.4g} m from {self.range_start:.4g} m"]

    @property
    def ranges(self) -> NDArray[np.float64]:
        """Range at the centre of each bin [m], shape (bins,)."""
        return self.range_start + self.bin_size * np.arange(self.samples.shape[1], dtype=np.float64)
