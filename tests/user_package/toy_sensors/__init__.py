"""Three kinds of sensors that Parhelion does not have. Their modules are imported when they are first used."""

from __future__ import annotations

from parhelion import SensorKind

THERMOMETER = SensorKind(
    name="thermometer",
    class_path="toy_sensors.thermometer:Thermometer",
    presets="toy_sensors.thermometer:presets",
    output="samples",
    record="toy_sensors.thermometer:TemperatureData",
    summary="thermometers: air temperature",
)
CAMERA = SensorKind(
    name="toy-camera",
    class_path="toy_sensors.camera:ToyCamera",
    presets="toy_sensors.camera:presets",
    output="frames",
    record="parhelion.core.image:Image",
    summary="toy cameras",
)
SOUNDER = SensorKind(
    name="sounder",
    class_path="toy_sensors.sounder:Sounder",
    presets="toy_sensors.sounder:presets",
    output="frames",
    record="toy_sensors.sounder:Ping",
    summary="toy echo sounders: one range per ping",
)
