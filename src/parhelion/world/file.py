"""Reading and writing of world files (YAML). `schema.py` defines their fields."""

from __future__ import annotations

import hashlib
import io
import os
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import yaml
from numpy.typing import NDArray

from parhelion.core import config
from parhelion.core.checks import check_budget
from parhelion.core.errors import ConfigError, ParhelionError
from parhelion.core.files import write_whole
from parhelion.core.pose import Pose
from parhelion.core.reading import file_reader
from parhelion.core.trajectory import ConstantTwist, Fixed, Trajectory, Waypoints
from parhelion.surfaces import library
from parhelion.surfaces.material import Material
from parhelion.weather.weather import Weather
from parhelion.world.emitters import WorldLamp, lamp_fields, sound_fields
from parhelion.world.mesh import Mesh
from parhelion.world.parts import WorldObject, WorldPart
from parhelion.world.schema import ChangeEntry, ObjectFields, WorldFile, weather_file

if TYPE_CHECKING:
    from parhelion.world.world import World

# ---- Meshes and textures of a saved world, written next to its file -------------------------------------------------


class MeshFolder:
    """The folder `<world>-files`. Files are named after a hash of their content, so saving never changes one."""

    def __init__(self, world_file: Path) -> None:
        self._home = world_file.parent
        self._folder = world_file.parent / f"{world_file.stem}-files"
        self._written: dict[int, str] = {}

    def relative(self, file: Path) -> str:
        """Return the path of `file` relative to the world file."""
        return Path(os.path.relpath(file.absolute(), self._home.absolute())).as_posix()

    def mesh(self, mesh: Mesh) -> str:
        """Write a mesh, once for all objects that share it; return its path relative to the world file."""
        if id(mesh) not in self._written:
            self._written[id(mesh)] = self._store("mesh", ".ply", ply_bytes(mesh))
        return self._written[id(mesh)]

    def image(self, texture: NDArray[np.float32] | NDArray[np.uint8]) -> str:
        """Write a texture, grey values rounded to 8 bits; return its path relative to the world file."""
        from PIL import Image

        if id(texture) not in self._written:
            stream = io.BytesIO()
            bits = texture if texture.dtype == np.uint8 else np.round(texture * 255.0).astype(np.uint8)
            Image.fromarray(bits).save(stream, format="png")
            self._written[id(texture)] = self._store("texture", ".png", stream.getvalue())
        return self._written[id(texture)]

    def _store(self, kind: str, suffix: str, data: bytes) -> str:
        file = self._folder / f"{kind}-{hashlib.sha256(data).hexdigest()[:16]}{suffix}"
        if not file.exists():
            write_whole(file, data)
        return self.relative(file)


def ply_bytes(mesh: Mesh) -> bytes:
    """Binary PLY with float64 vertices; with UVs, each corner is a separate vertex with properties s and t."""
    vertices, faces = np.asarray(mesh.vertices), np.asarray(mesh.faces)
    columns = [("x", "<f8"), ("y", "<f8"), ("z", "<f8")]
    if mesh.uv is not None:
        vertices, faces = vertices[faces].reshape(-1, 3), np.arange(3 * len(faces), dtype=np.int32).reshape(-1, 3)
        columns += [("s", "<f4"), ("t", "<f4")]
    points = np.empty(len(vertices), dtype=columns)
    points["x"], points["y"], points["z"] = vertices.T
    if mesh.uv is not None:
        points["s"], points["t"] = mesh.uv.reshape(-1, 2).T
    triangles = np.empty(len(faces), dtype=[("count", "u1"), ("rows", "<i4", (3,))])
    triangles["count"], triangles["rows"] = 3, faces
    header = [
        "ply",
        "format binary_little_endian 1.0",
        f"element vertex {len(points)}",
        *(f"property {'double' if kind == '<f8' else 'float'} {name}" for name, kind in columns),
        f"element face {len(triangles)}",
        "property list uchar int vertex_indices",
        "end_header\n",
    ]
    return "\n".join(header).encode("ascii") + points.tobytes() + triangles.tobytes()


# ---- file -----------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Base:
    """Built-in world from which a world was started."""

    name: str
    seed: int
    params: Mapping[str, Any]
    objects: tuple[WorldObject, ...]
    """Its objects."""
    path: Trajectory | None = None
    """Its drive."""
    lamps: tuple[WorldLamp, ...] = ()
    """Its lamps."""
    patterns: bool = False
    """True if it was built with patterns."""

    def is_whole(self, world: World) -> bool:
        """Return True if the world still has all objects and lamps of the built-in world, unchanged."""
        objects, lamps = {id(item) for item in world.objects}, {id(entry) for entry in world.lamps}
        return objects.issuperset(map(id, self.objects)) and lamps.issuperset(map(id, self.lamps))


# ---- reading -----------------------------------------------------------------------------------------------------


@file_reader(ConfigError)
def load_world(path: str | PathLike[str], *, seed: int | None = None, params: Mapping[str, Any] | None = None) -> World:
    """Read a world file; `seed` and `params` override those of the file for its built-in base."""
    file = Path(path)
    return build_world(config.load(WorldFile, file), file, seed=seed, params=params)


def build_world(
    content: WorldFile, file: Path, *, seed: int | None = None, params: Mapping[str, Any] | None = None
) -> World:
    """Build the world of checked fields; paths in them are relative to the folder of `file`."""
    if params and content.base is None:
        raise ConfigError(f"{file}: it has no built-in base that accepts the parameters {', '.join(params)}")
    world = _base_world(content, file, seed, params)
    own = _own_materials(content, file)
    objects = {item.index: item for item in world.objects}
    for row, change in enumerate(content.changes):
        with _at(file, f"changes[{row}]"):
            _apply_change(world, objects, change, own)
    shapes = [entry.shape for entry in (*content.objects, *content.actors) if entry.shape is not None]
    check_budget("triangles", sum(shape.many_triangles() for shape in shapes), str(file))  # before any is built
    for row, entry in enumerate(content.objects):
        with _at(file, f"objects[{row}]"):
            mesh, options = mesh_and_options(entry, file, own)
            world.add(mesh, pose=entry.pose.pose(), **options)
    for row, actor in enumerate(content.actors):
        with _at(file, f"actors[{row}]"):
            mesh, options = mesh_and_options(actor, file, own)
            world.add_actor(mesh, trajectory=actor.trajectory.trajectory(), **options)
    for row, lamp in enumerate(content.lamps):
        with _at(file, f"lamps[{row}]"):
            world.add_lamp(**lamp.model_dump(exclude_defaults=True))
    for row, sound in enumerate(content.sounds):
        with _at(file, f"sounds[{row}]"):
            world.add_sound(**sound.model_dump(exclude_defaults=True), folder=file.parent)
    with _at(file, "viewpoint"):
        if content.viewpoint is not None:
            world.viewpoint = content.viewpoint.pose()
    with _at(file, "path"):
        if content.path is not None:
            world.path = content.path.trajectory()
    if content.daylight is not None:
        world.daylight = content.daylight
    world.origin = content.origin or world.origin
    if content.patterns is not None:
        world.patterns = content.patterns
    if isinstance(content.weather, dict):
        world.weather = Weather.from_mapping(content.weather, config.At(file, "weather"))
    elif content.weather is not None:
        with _at(file, "weather"):
            world.weather = Weather.load(weather_file(file.parent, content.weather))
    return world


_LOADING: ContextVar[tuple[Path, ...]] = ContextVar("loading", default=())
"""World files that are being read, each the base of the one before."""


def _base_world(content: WorldFile, file: Path, seed: int | None, params: Mapping[str, Any] | None) -> World:
    """World to start from: empty, built-in, or from another file."""
    from parhelion.world.world import World

    if content.base is None:
        return World(content.name)
    with _at(file, "base"):
        is_file = Path(content.base).suffix != ""
        place = file.parent / content.base if is_file else None
        chain = (*_LOADING.get(), file.resolve())
        if place is not None and place.resolve() in chain:
            raise ConfigError(f"{content.base!r} starts from this file itself")
        chosen = content.seed if seed is None else seed
        given = {} if is_file and seed is None and not content.seed else {"seed": chosen}
        options: dict[str, Any] = {**given, **content.params, **(params or {})}
        token = _LOADING.set(chain)
        try:
            world = World.load(content.base if place is None else place, **options)
        finally:
            _LOADING.reset(token)
    world.name = content.name or world.name
    return world


def _apply_change(
    world: World, objects: Mapping[int, WorldObject], change: ChangeEntry, own: Mapping[str, Material]
) -> None:
    """Change or remove one object of the base."""
    item = objects.get(change.object)
    if item is None or item.name != change.name:
        found = "there is none" if item is None else f"it is {item.name!r}"
        raise ConfigError(f"object {change.object} must be {change.name!r}, but {found}: the base has changed")
    if change.remove:
        world.remove(item)
        return
    world.revise(
        item,
        pose=None if change.pose is None else change.pose.pose(),
        label=change.label,
        material=None if change.material is None else own.get(change.material, change.material),
    )


@contextmanager
def _at(file: Path, field: str) -> Iterator[None]:
    """Prefix errors with the file and the field."""
    try:
        yield
    except ParhelionError as error:
        inner = ".material" if str(error).startswith("unknown material ") and field.startswith("objects[") else ""
        raise type(error)(f"{file}: {field}{inner}: {error}") from None


def _own_materials(content: WorldFile, file: Path) -> dict[str, Material]:
    own = {}
    for name, entry in content.materials.items():
        with _at(file, f"materials.{name}"):
            own[name] = config.parse(Material, entry.fields(name, file), "material")
    return own


def mesh_and_options(entry: ObjectFields, file: Path, own: Mapping[str, Material]) -> tuple[Any, dict[str, Any]]:
    """Return the mesh and the arguments of `World.add` of one entry."""
    options: dict[str, Any] = {
        "material": own.get(entry.material, entry.material) if entry.material is not None else None,
        "materials": {name: own.get(chosen, chosen) for name, chosen in entry.materials.items()},
        "label": entry.label,
        "name": entry.name,
        "instance": entry.instance,
        "hidden_from": entry.hidden_from,
        "texture": None if entry.texture is None else file.parent / entry.texture,
        "scale": entry.scale,
        "up": entry.up,
    }
    if entry.shape is not None:
        return entry.shape, options
    assert entry.mesh is not None  # the schema's validator: mesh or shape
    return file.parent / entry.mesh, options


# ---- writing -----------------------------------------------------------------------------------------------------


def save_world(world: World, path: str | PathLike[str]) -> None:
    """Write a world file, and meshes and textures that came from no file to a folder next to it."""
    file = Path(path)
    if file.suffix.lower() not in (".yaml", ".yml"):
        raise ConfigError(f"{file}: the name of a world file must end in .yaml")
    folder = MeshFolder(file)
    base = world.base if isinstance(world.base, Base) and world.base.is_whole(world) else None
    of_base_objects = set() if base is None else {item.index for item in base.objects}
    written = [item for item in world.objects if item.index not in of_base_objects]
    content: dict[str, Any] = {"name": world.name}
    if base is not None:
        content |= {"base": base.name, "seed": base.seed, "params": _plain(dict(base.params))}
    content["materials"] = _foreign_materials(written)
    content["objects"] = [row for item in written if not item.is_actor for row in _entries(world, item, folder)]
    content["actors"] = [row for item in written if item.is_actor for row in _entries(world, item, folder)]
    of_base = set() if base is None else {id(entry) for entry in base.lamps}
    content["lamps"] = [lamp_fields(entry, world.objects) for entry in world.lamps if id(entry) not in of_base]
    content["sounds"] = [sound_fields(entry, world.objects, folder.relative) for entry in world.sounds]
    if world.has_own_viewpoint:
        content["viewpoint"] = pose_fields(world.viewpoint)
    if world.path is not None and (base is None or world.path is not base.path):
        content["path"] = trajectory_fields(world.path, "path")
    content = {name: value for name, value in content.items() if value not in ("", [], {})}
    if world.patterns != (base is not None and base.patterns):
        content["patterns"] = world.patterns
    if world.weather is not None:
        content["weather"] = world.weather.to_mapping()
    if world.daylight is not None:
        content["daylight"] = world.daylight.model_dump(mode="json", exclude_defaults=True)
    if world.origin is not None:
        content["origin"] = world.origin.model_dump(mode="json", exclude_defaults=True)
    config.parse(WorldFile, content, file)  # ensures that the file can be read again
    text = yaml.safe_dump(content, sort_keys=False, allow_unicode=True, default_flow_style=None, width=110)
    write_whole(file, text.encode("utf-8"))


def _foreign_materials(objects: list[WorldObject]) -> dict[str, Any]:
    """Materials that are not in the library, or differ from it."""
    used = {part.material.name: part.material for item in objects for part in item.parts}
    foreign = {}
    for name, material in used.items():
        try:
            known = library.material(name) == material
        except ConfigError:
            known = False
        if not known:
            foreign[name] = material.model_dump(mode="json", exclude={"name"}, exclude_defaults=True)
    return foreign


def _entries(world: World, item: WorldObject, folder: MeshFolder) -> list[dict[str, Any]]:
    """One entry of the file per object, or one per part if the triangles came from no file."""
    common: dict[str, Any] = {"name": item.name, "label": item.label, "instance": item.instance}
    if item.hidden_from:
        common["hidden_from"] = list(item.hidden_from)
    if item.trajectory is not None:
        common["trajectory"] = trajectory_fields(item.trajectory, f"actor {item.name!r}")
    elif item.pose != Pose():
        common["pose"] = pose_fields(item.pose)
    scale = {} if item.origin.scale == 1.0 else {"scale": item.origin.scale}
    if item.origin.shape is not None:
        source = {"shape": item.origin.shape, **scale}
        if item.parts[0].file_material is not None:  # a shape of several materials
            return [{**source, **common, "materials": {p.file_material: p.material.name for p in item.parts}}]
        return [{**source, **common, **_surface(world, item.parts[0], folder)}]
    if item.origin.file is not None:
        up = {} if item.origin.up == "auto" else {"up": item.origin.up}
        source = {"mesh": folder.relative(item.origin.file), **up, **scale}
        named = {part.file_material: part.material.name for part in item.parts if part.file_material is not None}
        unnamed = [part for part in item.parts if part.file_material is None]
        surface = _surface(world, (unnamed or item.parts)[0], folder)
        if any(part.appearance is not None for part in item.parts) and not unnamed:
            del surface["material"]  # it would replace the appearance
        if named:
            surface = {**surface, "materials": named}
        return [{**source, **common, **surface}]
    if any(part.appearance is not None for part in item.parts):
        warnings.warn(f"world: {item.name}: its colours came from no model file and are not saved", stacklevel=5)
    return [{"mesh": folder.mesh(part.mesh), **common, **_surface(world, part, folder)} for part in item.parts]


def _surface(world: World, part: WorldPart, folder: MeshFolder) -> dict[str, Any]:
    surface: dict[str, Any] = {"material": part.material.name}
    if part.texture >= 0:
        image = world.texture_files.get(part.texture)
        own = world.texture_colours.get(part.texture, world.textures[part.texture])
        surface["texture"] = folder.image(own) if image is None else folder.relative(image)
    return surface


def pose_fields(pose: Pose) -> dict[str, Any]:
    """Fields of a pose: angles if they reproduce the pose exactly, otherwise a quaternion."""
    fields: dict[str, Any] = {"xyz": pose.xyz.tolist()}
    if np.array_equal(pose.quat_xyzw, Pose().quat_xyzw):
        return fields
    angles = (np.round(pose.rpy_deg, 9) + 0.0).tolist()
    if Pose(pose.xyz, rpy_deg=angles) == pose:
        return {**fields, "rpy_deg": angles}
    return {**fields, "quat_xyzw": pose.quat_xyzw.tolist()}


def trajectory_fields(trajectory: Trajectory, whose: str) -> dict[str, Any]:
    """Fields of a trajectory; `whose` is for the error message if a world file cannot store it."""
    if isinstance(trajectory, Fixed):
        return {"fixed": pose_fields(trajectory.pose)}
    if isinstance(trajectory, Waypoints):
        poses = [Pose(xyz, quat) for xyz, quat in zip(trajectory.xyz, trajectory.quat_xyzw, strict=True)]
        times = trajectory.times.tolist()
        rows = [{"time_s": time, **pose_fields(pose)} for time, pose in zip(times, poses, strict=True)]
        return {"waypoints": rows}
    if isinstance(trajectory, ConstantTwist) and not any(trajectory.angular_velocity[:2]):
        return {
            "constant": {
                **pose_fields(trajectory.pose),
                "velocity_m_s": [float(v) for v in trajectory.velocity],
                "turn_rate_deg_s": float(np.degrees(trajectory.angular_velocity[2])),
                "start_time_s": float(trajectory.start_time),
            }
        }
    raise ConfigError(
        f"{whose}: a world file cannot store this {type(trajectory).__name__}; it can store fixed poses, waypoints, "
        "and constant motion with a rotation about z"
    )


def _plain(value: Any) -> Any:
    """Convert parameters for YAML: NumPy numbers, arrays and tuples become plain numbers and lists."""
    if isinstance(value, Mapping):
        return {str(name): _plain(entry) for name, entry in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(entry) for entry in value]
    return value.tolist() if isinstance(value, (np.ndarray, np.generic)) else value
