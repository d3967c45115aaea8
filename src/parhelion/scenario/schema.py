"""What a scenario file (YAML) may say. Units are in the names; lengths without a unit in their name are metres."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from parhelion.core.config import Config
from parhelion.core.errors import nearest_name
from parhelion.makers.layouts import layouts
from parhelion.scenario.actors import (
    MachineEntry,
    MovingObject,
    PedestriansEntry,
    PersonEntry,
    ScatterEntry,
    StaticObject,
    TrafficEntry,
)
from parhelion.scenario.motions import MotionEntry, Name, Positive, Seed
from parhelion.scenario.robots import UrdfEntry
from parhelion.sensors.kinds import kinds
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import weather_fields
from parhelion.world.emitters import Sound
from parhelion.world.schema import PoseEntry, Shape, WeatherEntry, Xyz


class WorldEntry(Config):
    """A world by name or file, with what its maker takes."""

    name: str
    """Built-in name, or a world or mesh file relative to the scenario's folder."""
    seed: Seed | None = None
    params: dict[str, Any] = Field(default_factory=dict)


class FollowEntry(Config):
    """Points that a vehicle makes for, one after the other."""

    points: Annotated[list[Xyz], Field(min_length=1)]
    speed_m_s: Positive = 1.0
    repeat: bool = False
    """Whether it begins anew after the last."""


class BodyShape(Config):
    """What other sensors see of a vehicle."""

    shape: Shape | None = None
    mesh: str | None = None
    """Mesh file relative to the scenario's folder."""
    material: str = "car-paint-silver"
    label: str = "vehicle"
    pose: PoseEntry = PoseEntry()
    """Of the shape on the vehicle."""

    @model_validator(mode="after")
    def _one_source(self) -> BodyShape:
        if (self.mesh is None) == (self.shape is None):
            raise ValueError("give either mesh or shape")
        return self


class VehicleEntry(Config):
    """Something that carries sensors: driven by a model of its dynamics, or moved as told."""

    name: Name
    model: str | None = None
    """A vehicle preset, such as clearpath/husky."""
    start: PoseEntry = PoseEntry()
    """Where a driven vehicle begins."""
    follow: FollowEntry | None = None
    """Where a driven vehicle goes; else it waits for commands."""
    motion: MotionEntry | None = None
    """The motion of one that is not driven."""
    body: BodyShape | None = None
    """What others see of it."""
    urdf: UrdfEntry | None = None
    """A robot's URDF file: its links are the body, and sensors may sit on them."""

    @model_validator(mode="after")
    def _driven_or_moved(self) -> VehicleEntry:
        if (self.model is None) == (self.motion is None):
            raise ValueError("give either model (driven) or motion (moved as told)")
        if self.follow is not None and self.model is None:
            raise ValueError("follow is for driven vehicles: give model, too")
        if self.body is not None and self.urdf is not None:
            raise ValueError("give body or urdf, not both")
        return self


class CalmEntry(Config):
    """Flat water."""

    kind: Literal["calm"]
    level_m: float = 0.0


class WaveEntry(Config):
    """One Gerstner wave."""

    amplitude_m: Annotated[float, Field(ge=0, le=20)]
    length_m: Annotated[float, Field(gt=0, le=1000)]
    direction_deg: float = 0.0
    phase_deg: float = 0.0


class GerstnerEntry(Config):
    """A few waves of given length and height."""

    kind: Literal["gerstner"]
    waves: Annotated[list[WaveEntry], Field(min_length=1, max_length=64)]
    level_m: float = 0.0


class OceanEntry(Config):
    """Waves that wind has raised (JONSWAP)."""

    kind: Literal["ocean"]
    wind_speed_m_s: Annotated[float, Field(ge=0.5, le=60)]
    fetch_m: Annotated[float, Field(gt=0, le=1e7)]
    direction_deg: float = 0.0
    level_m: float = 0.0


WaterEntry = Annotated[CalmEntry | GerstnerEntry | OceanEntry, Field(discriminator="kind")]


def _known_kind(name: str) -> str:
    found = kinds()
    if name not in found:
        nearest = nearest_name(name, found)
        hint = f" (did you mean {nearest!r}?)" if nearest else ""
        raise ValueError(f"must be one of {', '.join(found)}{hint}")
    return name


def _kinds_in_schema(schema: dict[str, Any]) -> None:
    schema["enum"] = list(kinds())


class SensorEntry(Config):
    """A sensor on a vehicle, or standing in the world."""

    name: Name
    type: Annotated[str, AfterValidator(_known_kind), Field(json_schema_extra=_kinds_in_schema)]
    """A kind of sensor: lidar, imu, ...; `parhelion sensors` lists them all."""
    model: str
    """A preset's name, or a YAML file relative to the scenario's folder."""
    vehicle: Name | None = None
    """The vehicle that carries it; else `mount` is its place in the world."""
    link: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """A link of the vehicle's URDF, or a sensor that it describes; `mount` then counts from there."""
    mount: PoseEntry = PoseEntry()
    rate_hz: Positive | None = None
    """Measurements a second; the sensor's own where not given."""
    phase_s: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """When its first measurement begins."""
    format: str | None = None
    """Format of clouds in place of the scenario's own; of pictures: png, exr, npz ...; of samples: csv or npz."""
    folder: Name | None = None
    """Folder of its frames, where that of its name is not wanted."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further choices, such as a lidar's returns or sub_rays."""


def _known_layout(name: str) -> str:
    known = ["driver", *layouts(), "all"]
    if name not in known:
        raise ValueError(f"expected {', '.join(map(repr, known))}")
    return name


class BagOutput(Config):
    """A ROS 2 bag of everything that is measured, with the truth beside it."""

    kind: Literal["bag"]
    storage: Literal["mcap", "sqlite3"] = "mcap"
    layout: Annotated[str, AfterValidator(_known_layout)] = "driver"
    """Fields of point clouds: `driver` for those of the sensor's own driver, a maker's name for those of its driver, or
    `all`."""
    images: Literal["raw", "png", "jpeg"] = "raw"
    """Pictures as sensor_msgs/Image, or as CompressedImage: png keeps every bit, jpeg does not."""
    topics: dict[str, str] = Field(default_factory=dict)
    """Other topics than the drivers' own, by sensor or vehicle name."""
    frames: dict[str, str] = Field(default_factory=dict)
    """Other frame names, by sensor or vehicle name."""
    epoch_s: Annotated[float, Field(ge=0, lt=2**31)] = 0.0
    """Time of the stamps at the scenario's start, in s since 1970; 0 is usual for simulated time."""


class PcapOutput(Config):
    """The UDP packets that the real sensors would send, as a network capture for each lidar that has such packets."""

    kind: Literal["pcap"]


class DatasetOutput(Config):
    """A folder laid out as a public data set, for tools that read it."""

    kind: Literal["kitti-odometry", "kitti-object", "semantic-kitti", "nuscenes", "coco-panoptic"]


class FoxgloveOutput(Config):
    """A recording for Foxglove with the scene, the clouds and the poses."""

    kind: Literal["foxglove"]
    images: Literal["png", "jpeg"] = "png"
    """How pictures are compressed: png keeps every bit, jpeg does not."""


OutputEntry = Annotated[BagOutput | PcapOutput | DatasetOutput | FoxgloveOutput, Field(discriminator="kind")]


def _usual_outputs() -> list[OutputEntry]:
    return [BagOutput(kind="bag")]


class ScenarioFile(Config):
    """A whole scenario."""

    name: str = ""
    seed: Seed = 0
    duration_s: Annotated[float, Field(gt=0, le=1e6)]
    step_s: Annotated[float, Field(ge=1e-4, le=1.0)] = 0.01
    """Step of the clock, in which vehicles are driven and commands are taken."""
    world: WorldEntry | str
    weather: WeatherEntry = None
    """What a weather file says, or the name of one; else the world's own."""
    daylight: Daylight | None = None
    """Sun and sky; else the world's own."""
    water: WaterEntry | None = None
    """What vessels float on; calm where not given."""
    vehicles: list[VehicleEntry] = Field(default_factory=list)
    objects: list[StaticObject] = Field(default_factory=list)
    """Further things that stand, as in a world file."""
    actors: list[MovingObject] = Field(default_factory=list)
    """Further things that move, as in a world file."""
    people: list[PersonEntry] = Field(default_factory=list)
    traffic: list[TrafficEntry] = Field(default_factory=list)
    """Cars on roads."""
    pedestrians: list[PedestriansEntry] = Field(default_factory=list)
    """People on sidewalks."""
    machines: list[MachineEntry] = Field(default_factory=list)
    """Forklifts, cars, doors, conveyors, robot arms and pallets."""
    scatter: list[ScatterEntry] = Field(default_factory=list)
    """Small things that lie about."""
    sounds: list[Sound] = Field(default_factory=list)
    """Sources of sound, for pulse-echo sensors that listen; `actor` may name a vehicle."""
    boxes: Literal["none", "kitti", "nuscenes"] = "none"
    """3D boxes of what has an instance number, for every scan."""
    sensors: Annotated[list[SensorEntry], Field(min_length=1)]
    cloud_format: str = "pcd"
    """Format of clouds, where a sensor names none."""
    outputs: list[OutputEntry] = Field(default_factory=_usual_outputs)
    """What is written beside the clouds, the samples and the truth: a bag, unless told otherwise."""
    report: bool = True
    """Whether a page tells what the run gave: report.html."""

    @classmethod
    def type_of(cls, field: str, data: Mapping[Any, Any]) -> Any:
        """Type of `weather` in full, for error messages."""
        return weather_fields() if field == "weather" else None

    @field_validator("world", mode="before")
    @classmethod
    def _name_or_fields(cls, value: Any) -> Any:
        if not isinstance(value, (str, dict, WorldEntry)):
            raise ValueError("give a world's name or file, or its name with seed and params")
        return value

    @model_validator(mode="after")
    def _names_fit(self) -> ScenarioFile:
        known = [vehicle.name for vehicle in self.vehicles]
        for kind, names in (("vehicles", known), ("sensors", [sensor.name for sensor in self.sensors])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{kind}: the name {twice[0]!r} is given twice")
        folders = [sensor.folder or sensor.name for sensor in self.sensors]
        shared = sorted({folder for folder in folders if folders.count(folder) > 1})
        if shared:
            raise ValueError(f"sensors: the folder {shared[0]!r} is that of two sensors")
        robots = [vehicle.name for vehicle in self.vehicles if vehicle.urdf is not None]
        for row, sensor in enumerate(self.sensors):
            if sensor.vehicle is not None and sensor.vehicle not in known:
                there = f"the name of a vehicle ({', '.join(known) or 'none here'})"
                raise ValueError(f"sensors[{row}].vehicle: expected {there}, got {sensor.vehicle!r}")
            if sensor.link is not None and sensor.vehicle not in robots:
                there = f"the name of a vehicle with a urdf ({', '.join(robots) or 'none here'})"
                got = "null" if sensor.vehicle is None else repr(sensor.vehicle)
                raise ValueError(f"sensors[{row}].vehicle: for a link, expected {there}, got {got}")
        return self


def json_schema() -> dict[str, Any]:
    """The schema of scenario files for editors."""
    schema = ScenarioFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Parhelion scenario", **schema}
