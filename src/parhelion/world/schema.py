"""Fields of a world file (YAML). Units are part of the names; lengths without a unit in their name are in metres."""

from __future__ import annotations

import math
from collections.abc import Callable
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from parhelion.core.config import Config
from parhelion.core.errors import ConfigError
from parhelion.core.explain import got
from parhelion.core.pose import Pose
from parhelion.core.trajectory import ConstantTwist, Fixed, Trajectory, Waypoints
from parhelion.surfaces.material import Brdf, Glow, LambertModel, Material, Retro, SpectrumTable, Specular
from parhelion.surfaces.pattern import Pattern
from parhelion.weather.daylight import Daylight
from parhelion.world import shapes
from parhelion.world.emitters import Lamp, Sound
from parhelion.world.markers import Family, marker_cells, marker_meshes
from parhelion.world.mesh import LARGEST_COORDINATE_M, Mesh
from parhelion.world.sources import GeoOrigin

Coordinate = Annotated[float, Field(ge=-LARGEST_COORDINATE_M, le=LARGEST_COORDINATE_M)]
Xyz = tuple[Coordinate, Coordinate, Coordinate]
Angles = tuple[float, float, float]
Length = Annotated[float, Field(gt=0, le=1e6)]
Segments = Annotated[int, Field(ge=3, le=4096)]


class PoseEntry(Config):
    """A pose: position and either roll, pitch, yaw or a quaternion."""

    xyz: Xyz = (0.0, 0.0, 0.0)
    rpy_deg: Angles | None = None
    quat_xyzw: tuple[float, float, float, float] | None = None

    @model_validator(mode="after")
    def _one_rotation(self) -> PoseEntry:
        if self.rpy_deg is not None and self.quat_xyzw is not None:
            raise ValueError("give rpy_deg or quat_xyzw, not both")
        return self

    def pose(self) -> Pose:
        """Return the pose."""
        return Pose(self.xyz, self.quat_xyzw, rpy_deg=self.rpy_deg)


class ShapeEntry(Config):
    """Base class of primitive shapes: `kind` is a function of `shapes.py`, and the other fields are its arguments."""

    kind: str

    def mesh(self) -> Mesh:
        """Return the triangles."""
        values = [value for name, value in self if name != "kind"]
        sizes = [one for value in values for one in (value if isinstance(value, tuple) else (value,))]
        make: Callable[..., Mesh] = getattr(shapes, self.kind)
        return make(*sizes)

    def description(self) -> dict[str, Any]:
        """Return the fields of the world file."""
        return self.model_dump(mode="json")

    def many_triangles(self) -> int:
        """Return the number of triangles of a shape that can have very many, otherwise 0."""
        return 0


class BoxShape(ShapeEntry):
    """A box, centred."""

    kind: Literal["box"]
    size_m: tuple[Length, Length, Length]


class CylinderShape(ShapeEntry):
    """An upright cylinder, centred."""

    kind: Literal["cylinder"]
    radius_m: Length
    height_m: Length
    segments: Segments = 48


class ConeShape(ShapeEntry):
    """An upright cone, centred, with its tip up."""

    kind: Literal["cone"]
    radius_m: Length
    height_m: Length
    segments: Segments = 48


class SphereShape(ShapeEntry):
    """A sphere of 20 x 4^subdivisions triangles, centred."""

    kind: Literal["sphere"]
    radius_m: Length
    subdivisions: Annotated[int, Field(ge=0, le=7)] = 3

    def many_triangles(self) -> int:
        return 20 * 4**self.subdivisions


class PlaneShape(ShapeEntry):
    """A level rectangle that faces up."""

    kind: Literal["plane"]
    size_m: tuple[Length, Length]
    divisions: Annotated[int, Field(ge=1, le=1000)] = 1


class BoardShape(ShapeEntry):
    """An upright board whose faces point along x."""

    kind: Literal["board"]
    width_m: Length
    height_m: Length
    thickness_m: Length = 0.01


class MarkerShape(ShapeEntry):
    """A fiducial marker on a white plate: its face is at x = 0 and points along +x. Its materials are its own."""

    kind: Literal["marker"] = "marker"
    family: Family = "aruco"
    dictionary: str | None = None
    """Dictionary of the family, such as 4x4_50 or 36h11; None for these two."""
    number: Annotated[int, Field(ge=0, le=100_000)] = 0
    """Number of the marker in its dictionary."""
    size_m: Length = 0.2
    """Side of the dark square."""
    margin_cells: Annotated[int, Field(ge=1, le=100)] = 1
    """Width of the bright margin in cells."""

    def meshes(self) -> dict[str, Mesh]:
        """Return the triangles of each library material."""
        return marker_meshes(marker_cells(self.family, self.dictionary, self.number), self.size_m, self.margin_cells)

    def mesh(self) -> Mesh:
        return Mesh.merged(list(self.meshes().values()))


Shape = Annotated[
    BoxShape | CylinderShape | ConeShape | SphereShape | PlaneShape | BoardShape | MarkerShape,
    Field(discriminator="kind"),
]


class ObjectFields(Config):
    """Common fields of objects and actors."""

    mesh: str | None = None
    """Mesh file, relative to the folder of the world file."""
    shape: Shape | None = None
    """Primitive shape, instead of a mesh file."""
    name: str | None = None
    material: str | None = None
    """Material of the library or of this file."""
    materials: dict[str, str] = Field(default_factory=dict)
    """Materials of the library or of this file, by material name in the mesh file."""
    label: str = "object"
    scale: Annotated[float, Field(gt=0, le=1e6)] = 1.0
    up: Literal["auto", "y", "z"] = "auto"
    instance: Annotated[int, Field(ge=0, le=2**32 - 1)] | None = None
    hidden_from: list[str] = Field(default_factory=list)
    """Kinds or names of sensors that do not see it."""
    texture: str | None = None
    """Image file, relative to the folder of the world file."""

    @model_validator(mode="after")
    def _one_source(self) -> ObjectFields:
        if (self.mesh is None) == (self.shape is None):
            raise ValueError("give either mesh or shape")
        return self


class ObjectEntry(ObjectFields):
    """A static object."""

    pose: PoseEntry = PoseEntry()


class Waypoint(PoseEntry):
    """A pose at a time."""

    time_s: float


class ConstantMotion(PoseEntry):
    """A start pose, a constant velocity and a constant rotation about the z axis."""

    velocity_m_s: Angles = (0.0, 0.0, 0.0)
    turn_rate_deg_s: float = 0.0
    start_time_s: float = 0.0


class TrajectoryEntry(Config):
    """One of: timed poses, a constant motion, or a fixed pose."""

    waypoints: Annotated[list[Waypoint], Field(min_length=1)] | None = None
    constant: ConstantMotion | None = None
    fixed: PoseEntry | None = None

    @model_validator(mode="after")
    def _one_form(self) -> TrajectoryEntry:
        if sum(form is not None for _, form in self) != 1:
            raise ValueError(f"give one of {', '.join(type(self).model_fields)}")
        return self

    def trajectory(self) -> Trajectory:
        """Return the motion."""
        if self.waypoints is not None:
            return Waypoints([point.time_s for point in self.waypoints], [point.pose() for point in self.waypoints])
        if self.constant is not None:
            motion = self.constant
            rate = math.radians(motion.turn_rate_deg_s)
            return ConstantTwist(motion.pose(), motion.velocity_m_s, (0.0, 0.0, rate), motion.start_time_s)
        assert self.fixed is not None  # ensured by the validator
        return Fixed(self.fixed.pose())


class ChangeEntry(Config):
    """A change of one object of the base: another pose, label or material, or its removal."""

    object: Annotated[int, Field(ge=0)]
    """`index` of the object in the base."""
    name: str
    """Its name, which must be that of the object in the base."""
    remove: bool = False
    pose: PoseEntry | None = None
    """New pose of a static object."""
    label: str | None = None
    material: str | None = None
    """Material of the library or of this file for all its parts."""

    @model_validator(mode="after")
    def _something(self) -> ChangeEntry:
        others = (self.pose, self.label, self.material)
        if self.remove == any(one is not None for one in others):
            raise ValueError("give remove: true, or at least one of pose, label and material")
        return self


class ActorEntry(ObjectFields):
    """A moving object."""

    trajectory: TrajectoryEntry


class MaterialEntry(Config):
    """A material of the file: one of reflectance, spectrum, spectrum_file, and its scattering."""

    reflectance: Annotated[float, Field(ge=0, le=1)] | None = None
    """Constant reflectance at all wavelengths."""
    spectrum: SpectrumTable | None = None
    spectrum_file: str | None = None
    """Spectrum file, relative to the folder of the world file."""
    brdf: Brdf = LambertModel()
    retro: Retro | None = None
    specular: Specular | None = None
    emissivity_thermal: Annotated[float, Field(ge=0, le=1)] | None = None
    """Mean emissivity from 8 to 14 um."""
    glow: Glow | None = None
    """Light that the surface emits."""
    pattern: Pattern | None = None
    """Variation of the reflectance over the surface, in worlds with patterns."""
    description: str = ""
    sources: list[str] = Field(default_factory=list)

    @model_validator(mode="after")
    def _one_reflectance(self) -> MaterialEntry:
        if sum(given is not None for given in (self.reflectance, self.spectrum, self.spectrum_file)) != 1:
            raise ValueError("give one of reflectance, spectrum, spectrum_file")
        return self

    def fields(self, name: str, source: str | PathLike[str]) -> dict[str, Any]:
        """Return the fields of `Material`; `source` is the world file."""
        if self.spectrum_file is not None:
            spectrum = Material.from_spectrum(Path(source).parent / self.spectrum_file, name=name).spectrum
        elif self.spectrum is not None:
            spectrum = self.spectrum
        else:
            # Covers the wavelengths of all sensors.
            spectrum = SpectrumTable(wavelength_um=[0.3, 20.0], reflectance=[self.reflectance or 0.0] * 2)
        return {
            "name": name,
            "description": self.description,
            "sources": self.sources or [f"world file {Path(source).name}"],
            "spectrum": spectrum,
            "brdf": self.brdf,
            "retro": self.retro,
            "specular": self.specular,
            "emissivity_thermal": self.emissivity_thermal,
            "glow": self.glow,
            "pattern": self.pattern,
        }


def weather_file(folder: Path, name: str) -> Path:
    """Weather file of an entry `weather: name`."""
    file = folder / name
    if file.suffix.lower() not in (".yaml", ".yml") and not file.exists():
        raise ConfigError(f"expected fields such as {{rain_rate_mm_h: 10}} or the name of a weather file, {got(name)}")
    return file


def _fields_or_file(value: Any) -> Any:
    if value is not None and not isinstance(value, (dict, str)):
        raise ValueError("give the fields of the weather, or the name of a weather file")
    return value


WeatherEntry = Annotated[dict[str, Any] | str | None, BeforeValidator(_fields_or_file)]


class WorldFile(Config):
    """A world file."""

    name: str = ""
    base: str | None = None
    """World to start from: a built-in one, or a file relative to the folder of the world file."""
    seed: Annotated[int, Field(ge=0, le=2**63 - 1)] = 0
    """Seed of the base."""
    params: dict[str, Any] = Field(default_factory=dict)
    """Parameters of the base."""
    patterns: bool | None = None
    """Patterns of materials, such as bricks; by default those of the base, and none without one."""
    changes: list[ChangeEntry] = Field(default_factory=list)
    """Changed and removed objects of the base."""
    materials: dict[str, MaterialEntry] = Field(default_factory=dict)
    objects: list[ObjectEntry] = Field(default_factory=list)
    actors: list[ActorEntry] = Field(default_factory=list)
    lamps: list[Lamp] = Field(default_factory=list)
    sounds: list[Sound] = Field(default_factory=list)
    """Sound sources, for pulse-echo sensors that listen."""
    viewpoint: PoseEntry | None = None
    """Suggested pose of a sensor."""
    path: TrajectoryEntry | None = None
    """Suggested drive through the world."""
    weather: WeatherEntry = None
    """Fields of a weather file, or its name, relative to the folder of the world file."""
    daylight: Daylight | None = None
    """Sun and sky."""
    origin: GeoOrigin | None = None
    """Position on Earth."""

    @model_validator(mode="after")
    def _params_of_something(self) -> WorldFile:
        if self.params and self.base is None:
            raise ValueError("params are those of a built-in world: give base as well")
        if self.changes and self.base is None:
            raise ValueError("changes are those of the objects of a base: give base as well")
        return self
