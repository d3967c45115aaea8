"""Parhelion simulates what a robot's sensors really see.

    import parhelion as ph

    world = ph.World.load("city")
    lidar = ph.Lidar("ouster/os1-128")
    scan = lidar.scan(world, pose=ph.Pose(xyz=(0, 0, 2)), seed=7)
    scan.save("scan.pcd")

Names are imported when they are first used, so that `import parhelion` is quick and touches nothing.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "Barometer": "sensors.body.barometer",
    "ConfigError": "core.errors",
    "ConstantTwist": "core.trajectory",
    "CrossSections": "core.frames",
    "DriveCommand": "motion.vehicles.base",
    "DustCloud": "weather.media.dust",
    "DustTrail": "weather.media.dust",
    "Echo": "sensors.waves.echo.echo",
    "EchoConfig": "sensors.waves.echo.config",
    "EchoScan": "core.frames",
    "EngineError": "core.errors",
    "Fixed": "core.trajectory",
    "Fog": "weather.media.fog",
    "FormatError": "core.errors",
    "Camera": "sensors.optics.camera.camera",
    "CameraConfig": "sensors.optics.camera.config",
    "Daylight": "weather.daylight",
    "Gnss": "sensors.waves.gnss.gnss",
    "GnssConfig": "sensors.waves.gnss.config",
    "GnssData": "core.streams",
    "Heterogeneity": "weather.parts",
    "Image": "core.image",
    "Intrinsics": "core.image",
    "Imu": "sensors.body.imu",
    "ImuData": "core.streams",
    "Lidar": "sensors.optics.lidar.lidar",
    "LidarConfig": "sensors.optics.lidar.config",
    "Magnetometer": "sensors.body.magnetometer",
    "Material": "surfaces.material",
    "Medium": "weather.media",
    "Mesh": "world.mesh",
    "MissingDependencyError": "core.errors",
    "MotionLimits": "motion.time_law",
    "Odometry": "sensors.body.odometry",
    "ParhelionError": "core.errors",
    "PointCloud": "core.clouds",
    "Pose": "core.pose",
    "PositionCommand": "motion.vehicles.base",
    "Rain": "weather.media.rain",
    "Radar": "sensors.waves.radar.radar",
    "RadarConfig": "sensors.waves.radar.config",
    "RadarScan": "core.frames",
    "RecordedMotion": "motion.recorded",
    "Scan": "core.clouds",
    "ScanDataset": "campaign.scan_dataset",
    "ScanTensors": "sensors.optics.lidar.points",
    "Scenario": "scenario.scenario",
    "Snow": "weather.media.snow",
    "SplineMotion": "motion.spline",
    "SteerCommand": "motion.vehicles.base",
    "Step": "scenario.scenario",
    "ThrustCommand": "motion.vehicles.base",
    "Trajectory": "core.trajectory",
    "Uwb": "sensors.waves.uwb.uwb",
    "UwbConfig": "sensors.waves.uwb.config",
    "UwbData": "core.streams",
    "VelocityCommand": "motion.vehicles.base",
    "Waveform": "core.clouds",
    "Waypoints": "core.trajectory",
    "Weather": "weather.weather",
    "World": "world.world",
    "barometer_names": "sensors.body.barometer",
    "gnss_names": "sensors.waves.gnss.gnss",
    "imu_names": "sensors.body.imu",
    "lidar_names": "sensors",
    "load_urdf": "world.urdf",
    "magnetometer_names": "sensors.body.magnetometer",
    "material_names": "surfaces.library",
    "odometry_names": "sensors.body.odometry",
    "read_turns": "io",
    "register_medium": "weather.media",
    "uwb_names": "sensors.waves.uwb.uwb",
    "vehicle_names": "motion.vehicles.library",
}
_OLD_NAMES = {"Uneven": "Heterogeneity"}
_MODULES = {"sensors": "sensors", "shapes": "world.shapes"}

__all__ = [*_HOME, *_MODULES, "__version__"]

if TYPE_CHECKING:
    from parhelion import sensors as sensors
    from parhelion.campaign.scan_dataset import ScanDataset as ScanDataset
    from parhelion.core.clouds import PointCloud as PointCloud
    from parhelion.core.clouds import Scan as Scan
    from parhelion.core.clouds import Waveform as Waveform
    from parhelion.core.errors import ConfigError as ConfigError
    from parhelion.core.errors import EngineError as EngineError
    from parhelion.core.errors import FormatError as FormatError
    from parhelion.core.errors import MissingDependencyError as MissingDependencyError
    from parhelion.core.errors import ParhelionError as ParhelionError
    from parhelion.core.frames import CrossSections as CrossSections
    from parhelion.core.frames import EchoScan as EchoScan
    from parhelion.core.frames import RadarScan as RadarScan
    from parhelion.core.image import Image as Image
    from parhelion.core.image import Intrinsics as Intrinsics
    from parhelion.core.pose import Pose as Pose
    from parhelion.core.streams import GnssData as GnssData
    from parhelion.core.streams import ImuData as ImuData
    from parhelion.core.streams import UwbData as UwbData
    from parhelion.core.trajectory import ConstantTwist as ConstantTwist
    from parhelion.core.trajectory import Fixed as Fixed
    from parhelion.core.trajectory import Trajectory as Trajectory
    from parhelion.core.trajectory import Waypoints as Waypoints
    from parhelion.io import read_turns as read_turns
    from parhelion.motion.recorded import RecordedMotion as RecordedMotion
    from parhelion.motion.spline import SplineMotion as SplineMotion
    from parhelion.motion.time_law import MotionLimits as MotionLimits
    from parhelion.motion.vehicles.base import DriveCommand as DriveCommand
    from parhelion.motion.vehicles.base import PositionCommand as PositionCommand
    from parhelion.motion.vehicles.base import SteerCommand as SteerCommand
    from parhelion.motion.vehicles.base import ThrustCommand as ThrustCommand
    from parhelion.motion.vehicles.base import VelocityCommand as VelocityCommand
    from parhelion.motion.vehicles.library import vehicle_names as vehicle_names
    from parhelion.scenario.scenario import Scenario as Scenario
    from parhelion.scenario.scenario import Step as Step
    from parhelion.sensors import lidar_names as lidar_names
    from parhelion.sensors.body.barometer import Barometer as Barometer
    from parhelion.sensors.body.barometer import barometer_names as barometer_names
    from parhelion.sensors.body.imu import Imu as Imu
    from parhelion.sensors.body.imu import imu_names as imu_names
    from parhelion.sensors.body.magnetometer import Magnetometer as Magnetometer
    from parhelion.sensors.body.magnetometer import magnetometer_names as magnetometer_names
    from parhelion.sensors.body.odometry import Odometry as Odometry
    from parhelion.sensors.body.odometry import odometry_names as odometry_names
    from parhelion.sensors.optics.camera.camera import Camera as Camera
    from parhelion.sensors.optics.camera.config import CameraConfig as CameraConfig
    from parhelion.sensors.optics.lidar.config import LidarConfig as LidarConfig
    from parhelion.sensors.optics.lidar.lidar import Lidar as Lidar
    from parhelion.sensors.optics.lidar.points import ScanTensors as ScanTensors
    from parhelion.sensors.waves.echo.config import EchoConfig as EchoConfig
    from parhelion.sensors.waves.echo.echo import Echo as Echo
    from parhelion.sensors.waves.gnss.config import GnssConfig as GnssConfig
    from parhelion.sensors.waves.gnss.gnss import Gnss as Gnss
    from parhelion.sensors.waves.gnss.gnss import gnss_names as gnss_names
    from parhelion.sensors.waves.radar.config import RadarConfig as RadarConfig
    from parhelion.sensors.waves.radar.radar import Radar as Radar
    from parhelion.sensors.waves.uwb.config import UwbConfig as UwbConfig
    from parhelion.sensors.waves.uwb.uwb import Uwb as Uwb
    from parhelion.sensors.waves.uwb.uwb import uwb_names as uwb_names
    from parhelion.surfaces.library import material_names as material_names
    from parhelion.surfaces.material import Material as Material
    from parhelion.weather.daylight import Daylight as Daylight
    from parhelion.weather.media import Medium as Medium
    from parhelion.weather.media import register_medium as register_medium
    from parhelion.weather.media.dust import DustCloud as DustCloud
    from parhelion.weather.media.dust import DustTrail as DustTrail
    from parhelion.weather.media.fog import Fog as Fog
    from parhelion.weather.media.rain import Rain as Rain
    from parhelion.weather.media.snow import Snow as Snow
    from parhelion.weather.parts import Heterogeneity as Heterogeneity
    from parhelion.weather.weather import Weather as Weather
    from parhelion.world import shapes as shapes
    from parhelion.world.mesh import Mesh as Mesh
    from parhelion.world.urdf import load_urdf as load_urdf
    from parhelion.world.world import World as World


def __getattr__(name: str) -> Any:
    if name in _HOME:
        value = getattr(import_module(f"parhelion.{_HOME[name]}"), name)
    elif name in _MODULES:
        value = import_module(f"parhelion.{_MODULES[name]}")
    elif name in _OLD_NAMES:
        from parhelion.core.deprecation import deprecated_names

        return deprecated_names(__name__, _OLD_NAMES)(name)
    else:
        raise AttributeError(f"module 'parhelion' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
