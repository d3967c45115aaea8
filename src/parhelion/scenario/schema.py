"""Fields of a scenario file (YAML). Units are part of the names; lengths without a unit in their name are in metres."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, Field, field_validator, model_validator

from parhelion.core.config import Config
from parhelion.core.errors import nearest_name
from parhelion.core.explain import got
from parhelion.io.ros.returns import CLOUD_MESSAGES
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
from parhelion.scenario.raises import Raises
from parhelion.scenario.robots import UrdfEntry
from parhelion.sensors.faults import Faults
from parhelion.sensors.kinds import kinds
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import weather_fields
from parhelion.world.emitters import Sound
from parhelion.world.schema import PoseEntry, Shape, WeatherEntry, Xyz


class WorldEntry(Config):
    """A world by name or file, with its parameters."""

    name: str
    """Built-in name, or a world or mesh file relative to the scenario's folder."""
    seed: Seed | None = None
    params: dict[str, Any] = Field(default_factory=dict)


class FollowEntry(Config):
    """Points that a vehicle drives to, in order."""

    points: Annotated[list[Xyz], Field(min_length=1)]
    speed_m_s: Positive = 1.0
    repeat: bool = False
    """True to start again after the last point."""


class StoryboardEntry(Config):
    """Entities, routes and events of an OpenSCENARIO file, on the lanes of a world from OpenDRIVE."""

    file: str
    """OpenSCENARIO file (.xosc) relative to the scenario's folder."""
    parameters: dict[str, str | float | bool] = Field(default_factory=dict)
    """Values of the file's parameters."""
    without: list[str] = Field(default_factory=list)
    """Entities that get no body."""


class SumoEntry(Config):
    """Traffic of SUMO (extra `sumo`): vehicles and people of a configuration."""

    file: str
    """SUMO configuration (.sumocfg) relative to the scenario's folder."""
    begin_s: Annotated[float, Field(ge=0, le=1e7)] = 0.0
    """SUMO's time at the start of the scenario; the traffic before that fills the roads."""
    offset_m: tuple[float, float] | None = None
    """Position of the world's origin in SUMO's network; by default the network's `netOffset`."""
    step_s: Annotated[float, Field(ge=0.01, le=1)] = 0.1
    """Step of SUMO."""
    most: Annotated[int, Field(ge=1, le=2000)] = 200
    """Largest number of bodies; more are omitted and counted."""


class BodyShape(Config):
    """Visible body of a vehicle."""

    shape: Shape | None = None
    mesh: str | None = None
    """Mesh file relative to the scenario's folder."""
    material: str = "car-paint-silver"
    label: str = "vehicle"
    pose: PoseEntry = PoseEntry()
    """Pose of the shape in the vehicle frame."""

    @model_validator(mode="after")
    def _one_source(self) -> BodyShape:
        if (self.mesh is None) == (self.shape is None):
            raise ValueError("give either mesh or shape")
        return self


class VehicleEntry(Raises):
    """A carrier of sensors: driven by a dynamic model, or moved along a given motion."""

    name: Name
    model: str | None = None
    """Vehicle preset, for example clearpath/husky."""
    start: PoseEntry = PoseEntry()
    """Initial pose of a driven vehicle."""
    dynamics: Literal["kinematic", "rays", "hull", "mujoco", "recorded", "external"] | None = None
    """Driver of the motion: `kinematic` (own dynamics, ground vehicles in the plane of their start), `rays` (a rigid
    body that wheels carry over the ground and that walls stop), `hull` (a multirotor or vessel that walls, ground and
    quays stop), `mujoco` (a robot with joints, from `urdf` or `mjcf`), `recorded` (along `motion`), `external` (by
    states from outside). By default recorded with `motion`, rays for ground vehicles over ground, hull for multirotors
    and vessels, otherwise kinematic."""
    on_collision: Literal["log", "stop", "end"] = "log"
    """Effect of a collision in addition to its record: none, the vehicle brakes and stays, or the run ends."""
    follow: FollowEntry | None = None
    """Route of a driven vehicle; by default it waits for commands."""
    motion: MotionEntry | None = None
    """Motion of a vehicle that is not driven."""
    entity: str | None = None
    """Entity of the storyboard that carries the sensors, as a motion; its frame is that of the file."""
    body: BodyShape | None = None
    """Body that the sensors of others see."""
    urdf: UrdfEntry | None = None
    """URDF file of a robot: its links are the body, and sensors may be mounted on them. Without `model` and `motion`,
    its wheels, masses and shapes also determine how it drives."""
    mjcf: str | None = None
    """MJCF file of a robot, relative to the scenario's folder, for `dynamics: mujoco`; sensors see its `body` only."""
    wake: bool = False
    """True for ship waves and a bow wave on the scenario's `water` behind a vessel."""

    @model_validator(mode="after")
    def _driven_or_moved(self) -> VehicleEntry:
        if self.entity is not None:
            for field in ("model", "motion", "follow", "urdf", "mjcf", "dynamics"):
                if getattr(self, field) is not None:
                    raise ValueError(f"entity moves the vehicle as the storyboard does; omit {field}")
            return self
        if self.dynamics == "external":
            for field in ("model", "motion", "follow"):
                if getattr(self, field) is not None:
                    raise ValueError(f"dynamics: external gets its states from outside; omit {field}")
        elif self.motion is not None:
            if self.model is not None:
                raise ValueError("give either model (a driven vehicle) or motion (a given motion)")
            if self.follow is not None:
                raise ValueError("follow is for driven vehicles: give model as well")
        elif self.dynamics == "mujoco":
            if self.model is not None or (self.urdf is None) == (self.mjcf is None):
                raise ValueError("dynamics: mujoco moves a robot: give either urdf or mjcf, and no model")
        elif self.model is None and self.urdf is None:
            raise ValueError("give either model (a driven vehicle) or motion (a given motion)")
        if self.mjcf is not None and self.dynamics != "mujoco":
            raise ValueError("mjcf is for dynamics: mujoco")
        if self.motion is not None and self.dynamics not in (None, "recorded"):
            raise ValueError(f"dynamics: {self.dynamics} is for driven vehicles, but motion is given; omit one of them")
        if self.dynamics == "recorded" and self.motion is None:
            raise ValueError("dynamics: recorded needs motion")
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
    """Wind waves (JONSWAP spectrum)."""

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
    """A sensor on a vehicle, or at a fixed place in the world."""

    name: Name
    type: Annotated[str, AfterValidator(_known_kind), Field(json_schema_extra=_kinds_in_schema)]
    """Kind of sensor: lidar, imu, ...; `parhelion sensors` lists all kinds."""
    model: str
    """Preset name, or a YAML file relative to the scenario's folder."""
    vehicle: Name | None = None
    """Vehicle that carries the sensor; without one, `mount` is its pose in the world."""
    link: Annotated[str, Field(min_length=1, max_length=256)] | None = None
    """Link of the vehicle's URDF, or a sensor that it describes; `mount` is then relative to it."""
    mount: PoseEntry = PoseEntry()
    rate_hz: Positive | None = None
    """Measurements per second; by default that of the sensor."""
    phase_s: Annotated[float, Field(ge=0, le=1e6)] = 0.0
    """Start time of the first measurement."""
    format: str | None = None
    """File format: of clouds, instead of that of the scenario; of images: png, exr, npz ...; of samples: csv or npz."""
    folder: Name | None = None
    """Folder of the frames; by default the name of the sensor."""
    options: dict[str, Any] = Field(default_factory=dict)
    """Further options of the sensor, for example returns or sub_rays of a lidar."""
    faults: Faults = Faults()
    """Faults of this unit, for example a wrong mount; none by default."""


def _known_layout(name: str) -> str:
    known = ["driver", *layouts(), *CLOUD_MESSAGES, "all"]
    if name not in known:
        raise ValueError(f"expected {', '.join(map(repr, known))}")
    return name


class BagOutput(Config):
    """A ROS 2 bag with all measurements and the ground truth."""

    kind: Literal["bag"]
    storage: Literal["mcap", "sqlite3"] = "mcap"
    layout: Annotated[str, AfterValidator(_known_layout)] = "driver"
    """Fields of point clouds: `driver` for those of the sensor's driver, a maker's name for those of its driver, `all`
    for every field, or `livox-custom` for CustomMsg instead of PointCloud2."""
    images: Literal["raw", "png", "jpeg", "raw+png", "raw+jpeg"] = "raw"
    """Images as sensor_msgs/Image (raw), CompressedImage (png is lossless, jpeg is not), or both."""
    objects: bool = True
    """True to include the truth of movable and dynamic objects: boxes, poses and velocities."""
    ros_distro: Literal["humble", "iron", "jazzy", "kilted", "lyrical", "rolling"] = "humble"
    """Distribution of ROS 2 that defines the messages; since Iron, sensor_msgs/Range has one more field."""
    topics: dict[str, str] = Field(default_factory=dict)
    """Topics that replace those of the drivers, by sensor or vehicle name."""
    frames: dict[str, str] = Field(default_factory=dict)
    """Frame names that replace the default ones, by sensor or vehicle name."""
    epoch_s: Annotated[float, Field(ge=0, lt=2**31)] = 0.0
    """Time stamp of the scenario's start [s since 1970]; 0 is common for simulated time."""


class PcapOutput(Config):
    """UDP packets of the real sensors: one network capture per lidar with a packet format."""

    kind: Literal["pcap"]


class DatasetOutput(Config):
    """A folder in the layout of a public data set."""

    kind: Literal["kitti-odometry", "kitti-object", "semantic-kitti", "nuscenes", "coco-panoptic"]


class FoxgloveOutput(Config):
    """A Foxglove recording with the scene, the clouds and the poses."""

    kind: Literal["foxglove"]
    images: Literal["png", "jpeg"] = "png"
    """Image compression: png is lossless, jpeg is not."""


class LasOutput(Config):
    """A survey: one LAS 1.4 file per lidar, in the coordinates of the world's origin."""

    kind: Literal["las"]
    waveforms: bool = False
    """True to write the full waveform of each shot, as external waveform packets (.wdp)."""
    epoch_s: Annotated[float, Field(ge=0, lt=2**31)] = 0.0
    """Time of the scenario's start [s since 1970], for GPS time; 0 writes the time of the scenario."""
    water_index: Annotated[float, Field(gt=1, lt=2)] | None = 1.34
    """Refractive index for the correction of points under water; null writes them uncorrected."""


OutputEntry = Annotated[
    BagOutput | PcapOutput | DatasetOutput | FoxgloveOutput | LasOutput, Field(discriminator="kind")
]


def _default_outputs() -> list[OutputEntry]:
    return [BagOutput(kind="bag")]


class ScenarioFile(Config):
    """A scenario file."""

    name: str = ""
    seed: Seed = 0
    duration_s: Annotated[float, Field(gt=0, le=1e6)]
    step_s: Annotated[float, Field(ge=1e-4, le=1.0)] = 0.01
    """Step of the clock: vehicles advance and receive commands once per step."""
    world: WorldEntry | str
    weather: WeatherEntry = None
    """Fields of a weather file, or its name; by default the weather of the world."""
    daylight: Daylight | None = None
    """Sun and sky; by default those of the world."""
    water: WaterEntry | None = None
    """Water that vessels float on; calm by default."""
    vehicles: list[VehicleEntry] = Field(default_factory=list)
    objects: list[StaticObject] = Field(default_factory=list)
    """Additional static objects, as in a world file."""
    actors: list[MovingObject] = Field(default_factory=list)
    """Additional moving objects, as in a world file."""
    people: list[PersonEntry] = Field(default_factory=list)
    traffic: list[TrafficEntry] = Field(default_factory=list)
    """Cars on roads."""
    storyboard: StoryboardEntry | None = None
    """OpenSCENARIO file whose entities move through the world."""
    sumo: SumoEntry | None = None
    """Traffic of SUMO."""
    pedestrians: list[PedestriansEntry] = Field(default_factory=list)
    """People on sidewalks."""
    machines: list[MachineEntry] = Field(default_factory=list)
    """Forklifts, cars, doors, conveyors, robot arms and pallets."""
    scatter: list[ScatterEntry] = Field(default_factory=list)
    """Small objects at random places."""
    sounds: list[Sound] = Field(default_factory=list)
    """Sound sources, for pulse-echo sensors that listen; `actor` may name a vehicle."""
    boxes: Literal["none", "kitti", "nuscenes"] = "none"
    """3D boxes of all instances, for every scan."""
    sensors: Annotated[list[SensorEntry], Field(min_length=1)]
    cloud_format: str = "pcd"
    """Format of clouds of sensors without their own `format`."""
    outputs: list[OutputEntry] = Field(default_factory=_default_outputs)
    """Outputs in addition to clouds, samples and ground truth; by default a bag."""
    report: bool = True
    """True to write the run report, report.html."""

    @classmethod
    def type_of(cls, field: str, data: Mapping[Any, Any]) -> Any:
        """Complete type of `weather`, for error messages."""
        return weather_fields() if field == "weather" else None

    @field_validator("world", mode="before")
    @classmethod
    def _name_or_fields(cls, value: Any) -> Any:
        if not isinstance(value, (str, dict, WorldEntry)):
            raise ValueError(
                f"expected the name or file of a world, or {{name: ..., seed: ..., params: ...}}, {got(value)}"
            )
        return value

    @model_validator(mode="after")
    def _names_fit(self) -> ScenarioFile:
        known = [vehicle.name for vehicle in self.vehicles]
        for row, vehicle in enumerate(self.vehicles):
            if vehicle.entity is not None and self.storyboard is None:
                raise ValueError(f"vehicles[{row}].entity: needs a storyboard with the entity {vehicle.entity!r}")
        for kind, names in (("vehicles", known), ("sensors", [sensor.name for sensor in self.sensors])):
            twice = sorted({name for name in names if names.count(name) > 1})
            if twice:
                raise ValueError(f"{kind}: the name {twice[0]!r} is given twice")
        folders = [sensor.folder or sensor.name for sensor in self.sensors]
        shared = sorted({folder for folder in folders if folders.count(folder) > 1})
        if shared:
            raise ValueError(f"sensors: two sensors have the folder {shared[0]!r}; set folder of one of them")
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
    """Return the JSON schema of scenario files, for editors."""
    schema = ScenarioFile.model_json_schema()
    return {"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "Parhelion scenario", **schema}
