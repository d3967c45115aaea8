"""Odometry under test: the protocol of a method, and the table of named methods.

A custom method is a class with one function:

    class MyOdometry:
        def register(self, scan: PointCloud, imu: ImuData | None) -> Pose:
            ...                                  # pose of the lidar in the frame of the first scan

An instance is created for each run. The constructor receives the `Setup` of the run if it takes an argument.
"""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from parhelion.core.clouds import PointCloud
from parhelion.core.errors import ConfigError, MissingDependencyError, unknown_name
from parhelion.core.pose import Floats, Pose
from parhelion.core.streams import ImuData

Setting = float | int | bool | str


class Odometry(Protocol):
    """Estimator of the lidar pose, one scan after the other.

    If the class has an attribute `pose_at`, from 0 to 1, poses apply at that share of the time from the start of one
    scan to that of the next; by default they apply at the start.
    """

    def register(self, scan: PointCloud, imu: ImuData | None) -> Pose:
        """Pose of the lidar in any fixed frame. `imu` has the samples since the previous scan."""


@dataclass(frozen=True)
class Setup:
    """Information that a method receives before the first scan."""

    period_s: float
    """Time from one scan to the next [s]."""
    lidar_from_imu: Pose | None = None
    """Pose of the IMU in the frame of the lidar, if there is one."""
    max_range_m: float = 100.0
    """Largest range of used points [m]."""
    threads: int = 0
    """Number of threads that a method may use; 0 for no limit."""
    settings: Mapping[str, Setting] = field(default_factory=dict)
    """Settings of the method by name, as in 'kiss-icp:voxel_size=0.2'."""


@dataclass(frozen=True)
class Method:
    """Named method."""

    name: str
    package: str
    """Package to install."""
    place: str
    """'module:Class' of its adapter."""
    words: str
    needs_imu: bool = False


_HERE = "parhelion.evaluate.slam.odometry"
METHODS = {
    method.name: method
    for method in (
        Method("kiss-icp", "kiss-icp", f"{_HERE}:KissIcp", "point-to-point ICP (Vizzo et al. 2023)"),
        Method("genz-icp", "genz-icp", f"{_HERE}:GenzIcp", "ICP that weighs planes and points (Lee et al. 2025)"),
        Method("small-gicp", "small-gicp", f"{_HERE}:SmallGicp", "scan to map by VGICP (Koide 2024)"),
        Method("rko-lio", "rko-lio", f"{_HERE}:RkoLio", "lidar and IMU (Malladi et al. 2025)", needs_imu=True),
    )
}


def method_maker(text: str) -> Callable[[Setup], Odometry]:
    """Factory of a method, by its name or as 'module:Class' for a custom one.

    Settings follow after a colon: 'kiss-icp:voxel_size=0.2,max_range=30', 'module:Class:depth=3'. Those of a custom
    class are arguments of its constructor.
    """
    name, settings = name_and_settings(text)
    if ":" in name:
        return _own(name, settings)
    if name not in METHODS:
        raise unknown_name("method", name, METHODS, "(for a custom class, give 'module:Class')")
    method = METHODS[name]
    kind = _class_at(method.place)
    for key, value in settings.items():
        if key not in kind.SETTINGS:
            raise unknown_name(f"setting of {name}:", key, kind.SETTINGS)
        wanted = kind.SETTINGS[key]
        fits = isinstance(value, bool) if wanted is bool else isinstance(value, (int, float)) and value is not True
        if not fits or (wanted is int and value != int(value)) or (wanted is not bool and float(value) < 0.0):
            words = {bool: "true or false", int: "a whole number", float: "a number of at least 0"}[wanted]
            raise ConfigError(f"method {text!r}: {key} must be {words}, got {value!r}")

    def make(setup: Setup) -> Odometry:
        if method.needs_imu and setup.lidar_from_imu is None:
            raise ConfigError(f"{name} needs an IMU on the vehicle of the lidar, and there is none")
        try:
            found: Odometry = kind(replace(setup, settings=settings))
            return found
        except ImportError as error:
            raise MissingDependencyError(
                f"the method {name} needs the package {method.package} ({error}): run 'pip install {method.package}'"
            ) from None

    return make


def name_and_settings(text: str) -> tuple[str, dict[str, Setting]]:
    """Name of a method, and its settings: 'kiss-icp:voxel_size=0.2' is 'kiss-icp' and {'voxel_size': 0.2}."""
    name, colon, rest = text.rpartition(":")
    if not colon or "=" not in rest:
        return text, {}
    from parhelion.core.config import yaml_data

    settings: dict[str, Setting] = {}
    for part in rest.split(","):
        key, equals, value = part.partition("=")
        read = yaml_data(Path("--method"), value) if equals and value.strip() else None
        if not key.strip() or not isinstance(read, (float, int, bool, str)):
            raise ConfigError(f"method {text!r}: expected NAME=VALUE, such as voxel_size=0.2, got {part!r}")
        if key.strip() in settings:
            raise ConfigError(f"method {text!r}: {key.strip()} is given twice")
        settings[key.strip()] = read
    return name, settings


def _own(name: str, settings: Mapping[str, Setting]) -> Callable[[Setup], Odometry]:
    here = str(Path.cwd())
    added = here not in sys.path
    if added:
        sys.path.insert(0, here)
    try:
        kind = _class_at(name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"method {name!r}: cannot be imported ({error})") from None
    finally:
        if added:
            sys.path.remove(here)
    if not callable(getattr(kind, "register", None)):
        raise ConfigError(f"method {name!r}: has no function register(scan, imu)")
    parameters = inspect.signature(kind).parameters.values()
    takes_setup = any(
        one.default is one.empty and one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD) for one in parameters
    )
    if not any(one.kind is one.VAR_KEYWORD for one in parameters):
        known = [one.name for one in parameters][int(takes_setup) :]
        for key in settings:
            if key not in known:
                raise unknown_name(f"setting of {name}:", key, known)

    def make(setup: Setup) -> Odometry:
        found: Odometry = kind(setup, **settings) if takes_setup else kind(**settings)
        return found

    return make


def _class_at(place: str) -> Any:
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


# ---- Adapters of odometry packages. Each package is imported when its method is created -----------------------------


def scan_points(scan: PointCloud, most_m: float, least_m: float = 1.0) -> tuple[Floats, Floats]:
    """Points (n, 3) [m] within the ranges and their times [s], float64."""
    xyz = np.asarray(scan.xyz, np.float64)
    ranges = np.linalg.norm(xyz, axis=1)
    kept = np.isfinite(ranges) & (ranges >= least_m) & (ranges <= most_m)
    times = np.asarray(scan.fields["time"], np.float64) if "time" in scan.fields else np.zeros(len(scan))
    return np.ascontiguousarray(xyz[kept]), times[kept]


_ICP_SETTINGS: dict[str, type] = {
    "voxel_size": float, "max_range": float, "min_range": float, "deskew": bool, "max_points_per_voxel": int,
    "initial_threshold": float, "min_motion_th": float, "max_num_iterations": int,
}  # fmt: skip
_ICP_SECTIONS = ("data", "mapping", "adaptive_threshold", "registration")


class _FrameIcp:
    """ICP of a package that registers points with their share of the scan time."""

    SETTINGS = _ICP_SETTINGS
    """Settings by their names in the package, with their types; lengths in m."""
    _icp: Any

    def __init__(self, setup: Setup) -> None:
        self._most_m = float(setup.settings.get("max_range", setup.max_range_m))
        self._least_m = float(setup.settings.get("min_range", 1.0))
        self._period_s = setup.period_s

    def _configure(self, config: Any, settings: Mapping[str, Setting]) -> None:
        """Set fields of the sections of the package's configuration."""
        for name, value in settings.items():
            section = next((one for one in _ICP_SECTIONS if hasattr(getattr(config, one, None), name)), None)
            if section is None:
                raise ConfigError(f"{type(self).__name__}: the installed version has no setting {name!r}")
            setattr(getattr(config, section), name, value)

    def register(self, scan: PointCloud, imu: ImuData | None) -> Pose:
        points, times = scan_points(scan, self._most_m, self._least_m)
        self._icp.register_frame(points, times / self._period_s)
        return Pose.from_matrix(self._icp.last_pose)


class KissIcp(_FrameIcp):
    """KISS-ICP with default settings. It deskews scans to their end."""

    pose_at = 1.0

    def __init__(self, setup: Setup) -> None:
        from kiss_icp.config import KISSConfig
        from kiss_icp.kiss_icp import KissICP

        super().__init__(setup)
        config = KISSConfig()
        config.data.max_range = setup.max_range_m
        config.mapping.voxel_size = setup.max_range_m / 100.0
        config.registration.max_num_threads = setup.threads
        self._configure(config, setup.settings)
        self.voxel_m = float(config.mapping.voxel_size)
        self._icp = KissICP(config)


class GenzIcp(_FrameIcp):
    """GenZ-ICP with its authors' settings for outdoor scans and deskewing."""

    pose_at = 0.5

    def __init__(self, setup: Setup) -> None:
        from genz_icp.config import GenZConfig
        from genz_icp.genz_icp import GenZICP

        super().__init__(setup)
        config = GenZConfig()
        config.data.max_range, config.data.min_range, config.data.deskew = setup.max_range_m, 1.0, True
        self._configure(config, setup.settings)
        self.voxel_m = float(config.mapping.voxel_size or setup.max_range_m / 100.0)
        self._icp = GenZICP(config)


class SmallGicp:
    """Scan-to-map registration on Gaussian voxels by small_gicp, deskewed with the motion of the previous scan.

    Poses and points refer to the end of the scan. Referring to the start would be unstable: a motion that is too long
    by d shifts the points ahead by d/2 on average, the pose falls back by d/2, the next motion is too short by d, and
    so on. At the end of the scan the sign is reversed, and the error decays.
    """

    pose_at = 1.0
    SETTINGS: Mapping[str, type] = {
        "voxel_size": float, "downsampling_resolution": float, "num_neighbors": int, "max_range": float,
    }  # fmt: skip
    _VOXEL_M, _POINTS_M, _NEIGHBOURS = 1.0, 0.25, 10

    def __init__(self, setup: Setup) -> None:
        import small_gicp

        self._package: Any = small_gicp
        given = setup.settings
        self.voxel_m = float(given.get("voxel_size", self._VOXEL_M))
        self._points_m = float(given.get("downsampling_resolution", self._POINTS_M))
        self._neighbours = int(given.get("num_neighbors", self._NEIGHBOURS))
        self._map: Any = small_gicp.GaussianVoxelMap(self.voxel_m)
        self._map.set_lru(horizon=100, clear_cycle=10)
        self._most_m, self._period_s = float(given.get("max_range", setup.max_range_m)), setup.period_s
        self._threads = setup.threads or 2
        self._pose, self._step = np.eye(4), np.eye(4)
        self._empty = True

    def register(self, scan: PointCloud, imu: ImuData | None) -> Pose:
        points, times = scan_points(scan, self._most_m)
        if len(points) <= self._neighbours:
            raise ConfigError(f"small-gicp: a scan has {len(points)} points, too few to register")
        still = carried(points, times / self._period_s - 1.0, self._step)
        cloud, _ = self._package.preprocess_points(
            still, downsampling_resolution=self._points_m, num_neighbors=self._neighbours, num_threads=self._threads
        )
        if not self._empty:
            result = self._package.align(
                self._map,
                cloud,
                init_T_target_source=self._pose @ self._step,
                max_iterations=50,
                num_threads=self._threads,
            )
            found = np.asarray(result.T_target_source)
            self._step = np.linalg.inv(self._pose) @ found
            self._pose = found
        self._map.insert(cloud, self._pose)
        self._empty = False
        return Pose.from_matrix(self._pose)


class RkoLio:
    """RKO-LIO with default settings: IMU and scans. It deskews scans to their end."""

    pose_at = 1.0
    SETTINGS: Mapping[str, type] = {
        "voxel_size": float, "max_range": float, "min_range": float, "deskew": bool, "max_points_per_voxel": int,
        "max_iterations": int, "max_correspondance_distance": float, "double_downsample": bool,
    }  # fmt: skip
    _NS = 1e9

    def __init__(self, setup: Setup) -> None:
        from rko_lio.config import LIOConfig
        from rko_lio.lio import LIO

        assert setup.lidar_from_imu is not None
        self._lio: Any = LIO(
            LIOConfig(**{"max_range": setup.max_range_m, "double_downsample": False, **setup.settings})
        )
        self.voxel_m = float(setup.settings.get("voxel_size", 1.0))
        self._lidar_from_imu = setup.lidar_from_imu.matrix
        self._period_s, self._number = setup.period_s, 0
        self._most_m = float(setup.settings.get("max_range", setup.max_range_m))

    def register(self, scan: PointCloud, imu: ImuData | None) -> Pose:
        if imu is None:
            raise ConfigError("rko-lio: there are no IMU samples")
        start = float(scan.metadata.get("time", getattr(scan, "start_time", self._number * self._period_s)))
        self._number += 1
        for row, time in enumerate(np.asarray(imu.time)):
            self._lio.add_imu_measurement(
                imu.specific_force[row], imu.angular_rate[row], _nanoseconds(time), self._lidar_from_imu
            )
        points, times = scan_points(scan, self._most_m)
        stamps = np.round((start + times) * self._NS).astype(np.int64) + _EPOCH_NS
        self._lio.register_scan(points, stamps, np.eye(4), _nanoseconds(start), _nanoseconds(start + self._period_s))
        return Pose.from_matrix(self._lio.pose())


_EPOCH_NS = 1_000_000_000
"""Offset that keeps times above 0, which the package interprets as missing."""


def _nanoseconds(time_s: float) -> int:
    return round(float(time_s) * 1e9) + _EPOCH_NS


def carried(points: Floats, share: Floats, step: Floats) -> Floats:
    """Points (n, 3) moved by shares (n,) of a motion (4, 4) at constant velocity and rotation rate: a screw motion.

    With the share of the scan time minus one, points are moved to their position relative to the end of the scan.
    """
    from scipy.spatial.transform import Rotation

    turn = Rotation.from_matrix(step[:3, :3]).as_rotvec()
    angle = float(np.linalg.norm(turn))
    axis = turn / angle if angle > 0.0 else np.array([0.0, 0.0, 1.0])
    velocity = np.linalg.solve(_mean_turn(np.array([1.0]), angle, axis)[0], step[:3, 3])
    shift = share[:, None] * (_mean_turn(share, angle, axis) @ velocity)
    return np.asarray(Rotation.from_rotvec(share[:, None] * turn).apply(points) + shift, np.float64)


def _mean_turn(share: Floats, angle: float, axis: Floats) -> Floats:
    """Mean of the rotations from 0 to a share of an angle [rad] about an axis, shape (n, 3, 3)."""
    part = share * angle
    near = np.abs(part) < 1e-6
    safe = np.where(near, 1.0, part)
    sine = np.where(near, 1.0, np.sin(safe) / safe)[:, None, None]
    rest = np.where(near, 0.5 * part, (1.0 - np.cos(safe)) / safe)[:, None, None]
    cross = np.cross(np.eye(3), axis)  # matrix of the cross product axis x vector
    along = np.outer(axis, axis)
    return np.asarray(sine * np.eye(3) + rest * cross + (1.0 - sine) * along, np.float64)
