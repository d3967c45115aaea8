"""Parhelion simulates what a robot's sensors really see.

    import parhelion as ph

    world = ph.World.load("city")
    lidar = ph.Lidar("ouster/os1-128")
    scan = lidar.scan(world, pose=ph.Pose(xyz=(0, 0, 2)), seed=7)
    scan.save("scan.pcd")

Names are imported on first use, so that `import parhelion` is fast and does not touch the disk.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

__version__ = "0.1.0"

_HOME = {
    "AdcFrame": "core.frames",
    "Barometer": "sensors.body.barometer",
    "BarometerData": "core.streams",
    "Bridge": "scenario.bridge",
    "Camera": "sensors.optics.camera.camera",
    "CameraConfig": "sensors.optics.camera.config",
    "ConfigError": "core.errors",
    "ConstantTwist": "core.trajectory",
    "ContractError": "sensors.check",
    "CrossSections": "core.frames",
    "Daylight": "weather.daylight",
    "DriveCommand": "motion.vehicles.base",
    "DustCloud": "weather.media.dust",
    "DustTrail": "weather.media.dust",
    "Echo": "sensors.waves.echo.echo",
    "EchoConfig": "sensors.waves.echo.config",
    "EchoScan": "core.frames",
    "EchoWaveform": "core.frames",
    "EngineError": "core.errors",
    "Fixed": "core.trajectory",
    "Fog": "weather.media.fog",
    "FormatError": "core.errors",
    "Faults": "sensors.faults",
    "FrameSensor": "sensors.base",
    "Gnss": "sensors.waves.gnss.gnss",
    "GnssConfig": "sensors.waves.gnss.config",
    "GnssData": "core.streams",
    "Heterogeneity": "weather.parts",
    "Image": "core.image",
    "Imu": "sensors.body.imu",
    "ImuData": "core.streams",
    "Intrinsics": "core.image",
    "Lidar": "sensors.optics.lidar.lidar",
    "LidarConfig": "sensors.optics.lidar.config",
    "Magnetometer": "sensors.body.magnetometer",
    "MagnetometerData": "core.streams",
    "Maker": "makers",
    "Material": "surfaces.material",
    "Medium": "weather.media",
    "Mesh": "world.mesh",
    "MissingDependencyError": "core.errors",
    "MotionLimits": "motion.time_law",
    "Odometry": "sensors.body.odometry",
    "OdometryData": "core.streams",
    "ParhelionError": "core.errors",
    "PointCloud": "core.clouds",
    "Pose": "core.pose",
    "PositionCommand": "motion.vehicles.base",
    "Radar": "sensors.waves.radar.radar",
    "RadarConfig": "sensors.waves.radar.config",
    "RadarCube": "core.frames",
    "RadarScan": "core.frames",
    "Rain": "weather.media.rain",
    "Record": "core.records",
    "RecordedMotion": "motion.recorded",
    "Samples": "core.streams",
    "Scan": "core.clouds",
    "ScanDataset": "campaign.scan_dataset",
    "ScanTensors": "sensors.optics.lidar.points",
    "Scenario": "scenario.scenario",
    "Sensor": "sensors.base",
    "SensorKind": "sensors.kinds",
    "SmokeCloud": "weather.media.smoke",
    "Snow": "weather.media.snow",
    "SplineMotion": "motion.spline",
    "SprayCloud": "weather.media.spray",
    "SteerCommand": "motion.vehicles.base",
    "Step": "scenario.scenario",
    "StreamSensor": "sensors.base",
    "ThrustCommand": "motion.vehicles.base",
    "Trajectory": "core.trajectory",
    "Uwb": "sensors.waves.uwb.uwb",
    "UwbConfig": "sensors.waves.uwb.config",
    "UwbData": "core.streams",
    "VelocityCommand": "motion.vehicles.base",
    "Waveform": "core.clouds",
    "FlightLines": "motion.flight_lines",
    "Waypoints": "core.trajectory",
    "Weather": "weather.weather",
    "Window": "sensors.optics.window",
    "World": "world.world",
    "check_sensor": "sensors.check",
    "connect": "live.client",
    "load_urdf": "world.urdf",
    "material_names": "surfaces.library",
    "presets": "sensors.kinds",
    "read_frames": "io",
    "register_kind": "sensors.kinds",
    "register_maker": "makers",
    "register_medium": "weather.media",
    "sensor": "sensors.kinds",
    "vehicle_names": "motion.vehicles.library",
}
_MODULES = {
    "calibrate": "calibrate",
    "detect": "detect",
    "evaluate": "evaluate",
    "sensors": "sensors",
    "shapes": "world.shapes",
}
_PRESET_LISTS = frozenset(("barometer", "gnss", "imu", "lidar", "magnetometer", "odometry", "uwb"))
"""Kinds with a deprecated function `<kind>_names`; use `presets(kind)` instead."""
_OLD_NAMES = {"Uneven": "Heterogeneity", "read_turns": "read_frames"}

__all__ = [*_HOME, *_MODULES, "__version__"]

if TYPE_CHECKING:
    from parhelion import calibrate as calibrate
    from parhelion import detect as detect
    from parhelion import evaluate as evaluate
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
    from parhelion.core.frames import AdcFrame as AdcFrame
    from parhelion.core.frames import CrossSections as CrossSections
    from parhelion.core.frames import EchoScan as EchoScan
    from parhelion.core.frames import EchoWaveform as EchoWaveform
    from parhelion.core.frames import RadarCube as RadarCube
    from parhelion.core.frames import RadarScan as RadarScan
    from parhelion.core.image import Image as Image
    from parhelion.core.image import Intrinsics as Intrinsics
    from parhelion.core.pose import Pose as Pose
    from parhelion.core.records import Record as Record
    from parhelion.core.streams import BarometerData as BarometerData
    from parhelion.core.streams import GnssData as GnssData
    from parhelion.core.streams import ImuData as ImuData
    from parhelion.core.streams import MagnetometerData as MagnetometerData
    from parhelion.core.streams import OdometryData as OdometryData
    from parhelion.core.streams import Samples as Samples
    from parhelion.core.streams import UwbData as UwbData
    from parhelion.core.trajectory import ConstantTwist as ConstantTwist
    from parhelion.core.trajectory import Fixed as Fixed
    from parhelion.core.trajectory import Trajectory as Trajectory
    from parhelion.core.trajectory import Waypoints as Waypoints
    from parhelion.io import read_frames as read_frames
    from parhelion.live.client import connect as connect
    from parhelion.makers import Maker as Maker
    from parhelion.makers import register_maker as register_maker
    from parhelion.motion.flight_lines import FlightLines as FlightLines
    from parhelion.motion.recorded import RecordedMotion as RecordedMotion
    from parhelion.motion.spline import SplineMotion as SplineMotion
    from parhelion.motion.time_law import MotionLimits as MotionLimits
    from parhelion.motion.vehicles.base import DriveCommand as DriveCommand
    from parhelion.motion.vehicles.base import PositionCommand as PositionCommand
    from parhelion.motion.vehicles.base import SteerCommand as SteerCommand
    from parhelion.motion.vehicles.base import ThrustCommand as ThrustCommand
    from parhelion.motion.vehicles.base import VelocityCommand as VelocityCommand
    from parhelion.motion.vehicles.library import vehicle_names as vehicle_names
    from parhelion.scenario.bridge import Bridge as Bridge
    from parhelion.scenario.scenario import Scenario as Scenario
    from parhelion.scenario.scenario import Step as Step
    from parhelion.sensors.base import FrameSensor as FrameSensor
    from parhelion.sensors.base import Sensor as Sensor
    from parhelion.sensors.base import StreamSensor as StreamSensor
    from parhelion.sensors.body.barometer import Barometer as Barometer
    from parhelion.sensors.body.imu import Imu as Imu
    from parhelion.sensors.body.magnetometer import Magnetometer as Magnetometer
    from parhelion.sensors.body.odometry import Odometry as Odometry
    from parhelion.sensors.check import ContractError as ContractError
    from parhelion.sensors.check import check_sensor as check_sensor
    from parhelion.sensors.faults import Faults as Faults
    from parhelion.sensors.kinds import SensorKind as SensorKind
    from parhelion.sensors.kinds import presets as presets
    from parhelion.sensors.kinds import register_kind as register_kind
    from parhelion.sensors.kinds import sensor as sensor
    from parhelion.sensors.optics.camera.camera import Camera as Camera
    from parhelion.sensors.optics.camera.config import CameraConfig as CameraConfig
    from parhelion.sensors.optics.lidar.config import LidarConfig as LidarConfig
    from parhelion.sensors.optics.lidar.lidar import Lidar as Lidar
    from parhelion.sensors.optics.lidar.points import ScanTensors as ScanTensors
    from parhelion.sensors.optics.window import Window as Window
    from parhelion.sensors.waves.echo.config import EchoConfig as EchoConfig
    from parhelion.sensors.waves.echo.echo import Echo as Echo
    from parhelion.sensors.waves.gnss.config import GnssConfig as GnssConfig
    from parhelion.sensors.waves.gnss.gnss import Gnss as Gnss
    from parhelion.sensors.waves.radar.config import RadarConfig as RadarConfig
    from parhelion.sensors.waves.radar.radar import Radar as Radar
    from parhelion.sensors.waves.uwb.config import UwbConfig as UwbConfig
    from parhelion.sensors.waves.uwb.uwb import Uwb as Uwb
    from parhelion.surfaces.library import material_names as material_names
    from parhelion.surfaces.material import Material as Material
    from parhelion.weather.daylight import Daylight as Daylight
    from parhelion.weather.media import Medium as Medium
    from parhelion.weather.media import register_medium as register_medium
    from parhelion.weather.media.dust import DustCloud as DustCloud
    from parhelion.weather.media.dust import DustTrail as DustTrail
    from parhelion.weather.media.fog import Fog as Fog
    from parhelion.weather.media.rain import Rain as Rain
    from parhelion.weather.media.smoke import SmokeCloud as SmokeCloud
    from parhelion.weather.media.snow import Snow as Snow
    from parhelion.weather.media.spray import SprayCloud as SprayCloud
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
    elif name.removesuffix("_names") in _PRESET_LISTS:
        from parhelion.sensors.kinds import preset_list

        return preset_list(name.removesuffix("_names"))
    elif name in _OLD_NAMES:
        from parhelion.core.deprecation import deprecated_names

        return deprecated_names(__name__, _OLD_NAMES)(name)
    else:
        raise AttributeError(f"module 'parhelion' has no attribute {name!r}")
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
