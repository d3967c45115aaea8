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
    "Barometer": "sensors.barometer",
    "ConfigError": "core.errors",
    "ConstantTwist": "core.trajectory",
    "CrossSections": "core.radar",
    "DriveCommand": "motion.vehicles.commands",
    "DustCloud": "weather.config",
    "DustTrail": "weather.config",
    "Echo": "sensors.echo.echo",
    "EchoConfig": "sensors.echo.config",
    "EchoScan": "core.echo",
    "EngineError": "core.errors",
    "Fixed": "core.trajectory",
    "Fog": "weather.config",
    "FormatError": "core.errors",
    "Camera": "sensors.camera.camera",
    "CameraConfig": "sensors.camera.config",
    "Daylight": "weather.daylight",
    "Gnss": "sensors.gnss.gnss",
    "GnssConfig": "sensors.gnss.config",
    "GnssData": "core.gnss",
    "Image": "core.image",
    "Intrinsics": "core.image",
    "Imu": "sensors.imu.imu",
    "ImuData": "core.inertial",
    "Lidar": "sensors.lidar.lidar",
    "LidarConfig": "sensors.lidar.config",
    "Magnetometer": "sensors.magnetometer",
    "Material": "surfaces.material",
    "Mesh": "world.mesh",
    "MissingDependencyError": "core.errors",
    "MotionLimits": "motion.time_law",
    "Odometry": "sensors.odometry",
    "ParhelionError": "core.errors",
    "PointCloud": "core.records",
    "Pose": "core.pose",
    "PositionCommand": "motion.vehicles.commands",
    "Rain": "weather.config",
    "Radar": "sensors.radar.radar",
    "RadarConfig": "sensors.radar.config",
    "RadarScan": "core.radar",
    "RecordedMotion": "motion.recorded",
    "Scan": "core.records",
    "ScanDataset": "campaign.scan_dataset",
    "ScanTensors": "sensors.lidar.tensors",
    "Scenario": "scenario.scenario",
    "Snow": "weather.config",
    "SplineMotion": "motion.spline",
    "SteerCommand": "motion.vehicles.commands",
    "Step": "scenario.scenario",
    "ThrustCommand": "motion.vehicles.commands",
    "Trajectory": "core.trajectory",
    "Uneven": "weather.config",
    "Uwb": "sensors.uwb.uwb",
    "UwbConfig": "sensors.uwb.config",
    "UwbData": "core.ranges",
    "VelocityCommand": "motion.vehicles.commands",
    "Waveform": "core.records",
    "Waypoints": "core.trajectory",
    "Weather": "weather.weather",
    "World": "world.world",
    "barometer_names": "sensors.barometer",
    "gnss_names": "sensors.gnss.gnss",
    "imu_names": "sensors.imu.imu",
    "lidar_names": "sensors",
    "load_urdf": "world.urdf",
    "magnetometer_names": "sensors.magnetometer",
    "material_names": "surfaces.library",
    "odometry_names": "sensors.odometry",
    "read_turns": "io",
    "uwb_names": "sensors.uwb.uwb",
    "vehicle_names": "motion.vehicles.library",
}
_MODULES = {"sensors": "sensors", "shapes": "world.shapes"}

__all__ = [*_HOME, *_MODULES, "__version__"]

if TYPE_CHECKING:
    from parhelion import sensors as sensors
    from parhelion.campaign.scan_dataset import ScanDataset as ScanDataset
    from parhelion.core.echo import EchoScan as EchoScan
    from parhelion.core.errors import ConfigError as ConfigError
    from parhelion.core.errors import EngineError as EngineError
    from parhelion.core.errors import FormatError as FormatError
    from parhelion.core.errors import MissingDependencyError as MissingDependencyError
    from parhelion.core.errors import ParhelionError as ParhelionError
    from parhelion.core.gnss import GnssData as GnssData
    from parhelion.core.image import Image as Image
    from parhelion.core.image import Intrinsics as Intrinsics
    from parhelion.core.inertial import ImuData as ImuData
    from parhelion.core.pose import Pose as Pose
    from parhelion.core.radar import CrossSections as CrossSections
    from parhelion.core.radar import RadarScan as RadarScan
    from parhelion.core.ranges import UwbData as UwbData
    from parhelion.core.records import PointCloud as PointCloud
    from parhelion.core.records import Scan as Scan
    from parhelion.core.records import Waveform as Waveform
    from parhelion.core.trajectory import ConstantTwist as ConstantTwist
    from parhelion.core.trajectory import Fixed as Fixed
    from parhelion.core.trajectory import Trajectory as Trajectory
    from parhelion.core.trajectory import Waypoints as Waypoints
    from parhelion.io import read_turns as read_turns
    from parhelion.motion.recorded import RecordedMotion as RecordedMotion
    from parhelion.motion.spline import SplineMotion as SplineMotion
    from parhelion.motion.time_law import MotionLimits as MotionLimits
    from parhelion.motion.vehicles.commands import DriveCommand as DriveCommand
    from parhelion.motion.vehicles.commands import PositionCommand as PositionCommand
    from parhelion.motion.vehicles.commands import SteerCommand as SteerCommand
    from parhelion.motion.vehicles.commands import ThrustCommand as ThrustCommand
    from parhelion.motion.vehicles.commands import VelocityCommand as VelocityCommand
    from parhelion.motion.vehicles.library import vehicle_names as vehicle_names
    from parhelion.scenario.scenario import Scenario as Scenario
    from parhelion.scenario.scenario import Step as Step
    from parhelion.sensors import lidar_names as lidar_names
    from parhelion.sensors.barometer import Barometer as Barometer
    from parhelion.sensors.barometer import barometer_names as barometer_names
    from parhelion.sensors.camera.camera import Camera as Camera
    from parhelion.sensors.camera.config import CameraConfig as CameraConfig
    from parhelion.sensors.echo.config import EchoConfig as EchoConfig
    from parhelion.sensors.echo.echo import Echo as Echo
    from parhelion.sensors.gnss.config import GnssConfig as GnssConfig
    from parhelion.sensors.gnss.gnss import Gnss as Gnss
    from parhelion.sensors.gnss.gnss import gnss_names as gnss_names
    from parhelion.sensors.imu.imu import Imu as Imu
    from parhelion.sensors.imu.imu import imu_names as imu_names
    from parhelion.sensors.lidar.config import LidarConfig as LidarConfig
    from parhelion.sensors.lidar.lidar import Lidar as Lidar
    from parhelion.sensors.lidar.tensors import ScanTensors as ScanTensors
    from parhelion.sensors.magnetometer import Magnetometer as Magnetometer
    from parhelion.sensors.magnetometer import magnetometer_names as magnetometer_names
    from parhelion.sensors.odometry import Odometry as Odometry
    from parhelion.sensors.odometry import odometry_names as odometry_names
    from parhelion.sensors.radar.config import RadarConfig as RadarConfig
    from parhelion.sensors.radar.radar import Radar as Radar
    from parhelion.sensors.uwb.config import UwbConfig as UwbConfig
    from parhelion.sensors.uwb.uwb import Uwb as Uwb
    from parhelion.sensors.uwb.uwb import uwb_names as uwb_names
    from parhelion.surfaces.library import material_names as material_names
    from parhelion.surfaces.material import Material as Material
    from parhelion.weather.config import DustCloud as DustCloud
    from parhelion.weather.config import DustTrail as DustTrail
    from parhelion.weather.config import Fog as Fog
    from parhelion.weather.config import Rain as Rain
    from parhelion.weather.config import Snow as Snow
    from parhelion.weather.config import Uneven as Uneven
    from parhelion.weather.daylight import Daylight as Daylight
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
    else:
        raise AttributeError(f"module 'parhelion' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
