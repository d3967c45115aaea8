"""A world: triangles with materials and labels, standing or moving, and what a sensor of it sees."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.rays.geometry import SceneGeometry
from parhelion.surfaces import library
from parhelion.surfaces.material import Material
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import Weather
from parhelion.world.assemble import MeshLike, MeshSources, TextureRows, assemble, default_viewpoint
from parhelion.world.emitters import HasEmitters
from parhelion.world.labels import LabelTable
from parhelion.world.loaders import MESH_SUFFIXES, Up
from parhelion.world.mesh import Mesh
from parhelion.world.part_materials import MaterialLike, TextureLike, choose_materials
from parhelion.world.parts import Origin, PartRows, PartTable, WorldObject, WorldPart, hidden_patterns
from parhelion.world.water_surface import Waves, check_water

LARGEST_INSTANCE = 2**32 - 1
_Made = TypeVar("_Made")


class World(HasEmitters):
    """Objects and actors with materials and labels. Frame: x east (or forward), y left, z up, metres.

    Args:
        name: Name in records and reports.
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.path: Trajectory | None = None
        """A drive through the world, where it has one."""
        self.materials: list[Material] = []
        """Materials in order of first use; a material's row is its number."""
        self._textures = TextureRows()
        self.textures: list[NDArray[np.float32]] = self._textures.images
        """Textures by row: factors on the reflectance in [0, 1], each of shape (height, width)."""
        self.texture_colours: dict[int, NDArray[np.uint8]] = self._textures.colours
        """Colours of the textures that are not grey, by row of `textures`: sRGB, each of shape (height, width, 3)."""
        self.texture_files: dict[int, Path] = self._textures.files
        """The image file of each texture that came from one, by row of `textures`."""
        self.base: Any = None
        """What the world was started from, where it came from a built-in one; see `parhelion.world.file`."""
        self._version = 0
        self._objects: dict[int, WorldObject] = {}
        self._next_index = 0
        self._rows = PartRows()
        self._labels = LabelTable()
        self._material_numbers: dict[str, int] = {}
        self._instances_used: set[int] = set()
        self._next_instance = 1
        self._viewpoint: Pose | None = None
        self._weather: Weather | None = None
        self._daylight: Daylight | None = None
        self._water: Waves | None = None
        self._lamps = ()
        self._sounds = ()
        self._meshes = MeshSources()
        self._cache: dict[Any, Any] = {}
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        # Neither locks nor what can be made again go into copies.
        return {**self.__dict__, "_lock": None, "_cache": {}}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()

    # ---- making ------------------------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        source: str | PathLike[str],
        *,
        seed: int | None = None,
        materials: Mapping[str, MaterialLike] | None = None,
        **params: Any,
    ) -> World:
        """A built-in world by name, a world file (.yaml), a mesh file (.obj, .ply, .stl, .glb, ...), or a list.

        Lists are layouts (.yaml, .json) and buildings of maps (.geojson); see `parhelion.world.procedural`.

        `seed` and `params` go to built-in worlds (a world file's own are overridden); for a mesh file `params` are
        those of `World.add`, and `materials` maps the file's material names to the library's.
        """
        if not isinstance(source, (str, PathLike)):
            raise ConfigError(f"world: load takes a name or a path, got {type(source).__name__}")
        suffix = Path(source).suffix.lower()
        if suffix in (".yaml", ".yml", ".json", ".geojson"):
            from parhelion.world.procedural.files import is_list, load_listed

            if is_list(source):
                if materials is not None or seed is not None:
                    raise ConfigError(f"{source}: a list of things takes neither seed nor materials")
                return load_listed(source, params)
            from parhelion.world.file import load_world

            if materials is not None:
                raise ConfigError(f"{source}: a world file maps materials itself, in each object's field materials")
            return load_world(source, seed=seed, params=params)
        if suffix in MESH_SUFFIXES:
            return cls._from_mesh_file(source, materials, params)
        return cls._from_builtin(str(source), seed, materials, params)

    @classmethod
    def _from_mesh_file(
        cls, source: str | PathLike[str], materials: Mapping[str, MaterialLike] | None, params: dict[str, Any]
    ) -> World:
        known = ("material", "label", "pose", "instance", "hidden_from", "texture", "scale", "up")
        for name in params:
            if name not in known:
                raise unknown_name(f"parameter for the mesh file {source}:", name, known)
        world = cls(Path(source).stem)
        world.add(source, materials=materials, **params)
        return world

    @classmethod
    def _from_builtin(
        cls, name: str, seed: int | None, materials: Mapping[str, MaterialLike] | None, params: dict[str, Any]
    ) -> World:
        from parhelion.world import builtin
        from parhelion.world.file import Base

        if name not in builtin.BUILTIN:
            hint = f"(or give a path: a world file .yaml, or a mesh file {' '.join(MESH_SUFFIXES)})"
            raise unknown_name("world", name, builtin.BUILTIN, hint)
        if materials is not None:
            raise ConfigError(f"world {name!r}: materials maps the names of a mesh file; a built-in world has its own")
        world: World = builtin.build(name, seed=0 if seed is None else seed, **params)
        world.base = Base(name, 0 if seed is None else seed, params, tuple(world._objects), world.path, world.lamps)
        return world

    def save(self, path: str | PathLike[str]) -> None:
        """Write a world file (.yaml); triangles that are in no file are written as PLY in a folder beside it."""
        from parhelion.world.file import save_world

        save_world(self, path)

    # ---- changing ----------------------------------------------------------------------------------------------

    @contextmanager
    def edits(self) -> Iterator[None]:
        """Several changes that other threads see as one: a scan in another thread comes before or after all of them.

        A single change needs no such block.
        """
        with self._lock:
            yield

    def add(
        self,
        mesh: MeshLike,
        *,
        material: MaterialLike | None = None,
        label: str = "object",
        pose: Pose = Pose(),
        name: str | None = None,
        materials: Mapping[str, MaterialLike] | None = None,
        instance: int | None = None,
        hidden_from: str | Collection[str] = (),
        texture: TextureLike | None = None,
        scale: float = 1.0,
        up: Up = "auto",
    ) -> WorldObject:
        """Add something that stands still.

        `material` is for the whole mesh. Without it a file's own material names are looked up in the library (one
        warning names the guesses), and meshes without any are concrete. `materials` maps names of the file to names
        of the library. `instance` is by default a number of the object's own; `hidden_from` holds kinds or names of
        sensors that do not see it ('lidar', 'velodyne/vlp-16', '*'); `texture` needs a mesh with UVs; `scale` acts
        before `pose`; `up` says which axis of a file points up ('auto': y for glTF, else z).
        """
        if not isinstance(pose, Pose):
            raise ConfigError(f"world: pose must be a Pose, got {type(pose).__name__}")
        with self._lock:
            return self._insert(
                mesh, material, materials, label, pose, None, name, instance, hidden_from, texture, scale, up
            )

    def add_actor(
        self,
        mesh: MeshLike,
        *,
        trajectory: Trajectory | Pose,
        material: MaterialLike | None = None,
        label: str = "object",
        name: str | None = None,
        materials: Mapping[str, MaterialLike] | None = None,
        instance: int | None = None,
        hidden_from: str | Collection[str] = (),
        texture: TextureLike | None = None,
        scale: float = 1.0,
        up: Up = "auto",
    ) -> WorldObject:
        """Add something that moves: its own frame follows `trajectory`. The rest is as in `add`."""
        motion = Fixed(trajectory) if isinstance(trajectory, Pose) else trajectory
        if not isinstance(motion, Trajectory):
            raise ConfigError(f"world: trajectory must have sample(times), got {type(trajectory).__name__}")
        with self._lock:
            return self._insert(
                mesh, material, materials, label, Pose(), motion, name, instance, hidden_from, texture, scale, up
            )

    def remove(self, item: WorldObject) -> None:
        """Take an object or actor out of the world. Numbers of the other parts stay as they are.

        Rows of its parts and textures are free for what is added next.
        """
        with self._lock:
            if self._objects.get(item.index) is not item:
                raise ConfigError(f"world: {item!r} is not in this world")
            del self._objects[item.index]
            self._leave_emitters_of(item)
            for part in item.parts:
                self._rows.free(part.number)
                if part.texture >= 0:
                    self._textures.leave(part.texture)
            self._changed()

    def set_water(self, water: Any) -> None:
        """Let waves run over the world's water: a `Water` of `parhelion.motion.water`, None for the sheets as they are.

        What stands, is labelled 'water' and lies within 1 m of the water's level follows its surface, inside of its
        own outline. Calm water leaves the sheets as they are. Rays then meet the waves of their own time.
        """
        with self._lock:
            self._water = check_water(water, self.objects)
            self._changed()

    def _insert(
        self,
        mesh: MeshLike,
        material: MaterialLike | None,
        materials: Mapping[str, MaterialLike] | None,
        label: str,
        pose: Pose,
        trajectory: Trajectory | None,
        name: str | None,
        instance: int | None,
        hidden_from: str | Collection[str],
        texture: TextureLike | None,
        scale: float,
        up: Up,
    ) -> WorldObject:
        loaded, origin = self._meshes.triangles(mesh, up)
        chosen = choose_materials(loaded, material, materials, self._material, from_file=origin.file is not None)
        meshes = [part.mesh if scale == 1.0 else part.mesh.scaled(scale) for part in loaded.parts]
        if texture is not None and any(m.uv is None for m in meshes):
            raise ConfigError(f"{loaded.source}: a texture needs a mesh with UV coordinates, and this one has none")
        hidden, number = hidden_patterns(hidden_from), self._instance(instance)
        texture_row = -1 if texture is None else self._textures.row(texture)
        index, label_id = self._next_index, self._labels.use(label)
        parts = []
        for part, placed, kind in zip(loaded.parts, meshes, chosen, strict=True):
            row = self._rows.append(
                material=self._material_numbers[kind.name],
                label=label_id,
                instance=number,
                object_index=index,
                texture=texture_row,
            )
            if texture_row >= 0:
                self._textures.use(texture_row)
            vertices = placed.vertices if trajectory is not None else _in_world(placed, pose)
            parts.append(WorldPart(row, placed, vertices, kind, texture_row, part.material))
        called = name or (origin.file.stem if origin.file else f"{label}-{index}")
        source = Origin(origin.file, origin.up, origin.shape, scale)
        item = WorldObject(index, called, label, label_id, number, pose, tuple(parts), trajectory, hidden, source)
        self._objects[index] = item
        self._next_index += 1
        self._changed()
        return item

    def _material(self, material: MaterialLike) -> Material:
        """The material itself, entered in the table."""
        if isinstance(material, str):
            number = self._material_numbers.get(material)
            found = library.material(material) if number is None else self.materials[number]
        else:
            found = material
        if not isinstance(found, Material):
            raise ConfigError(f"world: material must be a name or a Material, got {type(material).__name__}")
        number = self._material_numbers.setdefault(found.name, len(self.materials))
        if number == len(self.materials):
            self.materials.append(found)
        elif self.materials[number] is not found and self.materials[number] != found:
            raise ConfigError(
                f"world: it has another material named {found.name!r} already; give one of them a new name"
            )
        return self.materials[number]

    def _instance(self, instance: int | None) -> int:
        if instance is None:
            while self._next_instance in self._instances_used:
                self._instances_used.discard(self._next_instance)  # no number below the next is asked for again
                self._next_instance += 1
            instance, self._next_instance = self._next_instance, self._next_instance + 1
            return instance
        elif isinstance(instance, bool) or not isinstance(instance, (int, np.integer)):
            raise ConfigError(f"world: instance must be a whole number, got {instance!r}")
        elif not 0 <= instance <= LARGEST_INSTANCE:
            raise ConfigError(f"world: instance must be from 0 to {LARGEST_INSTANCE}, got {instance}")
        if instance >= self._next_instance:
            self._instances_used.add(int(instance))
        return int(instance)

    def _changed(self) -> None:
        self._version += 1
        self._cache.clear()

    def _kept(self, key: Any, make: Callable[[], _Made]) -> _Made:
        """What was made from the objects, kept until they change."""
        with self._lock:
            if key not in self._cache:
                self._cache[key] = make()
            made: _Made = self._cache[key]
            return made

    # ---- asking ------------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """A number that grows with every change of objects; what was made from the world may be kept under it."""
        return self._version

    @property
    def objects(self) -> list[WorldObject]:
        """Everything in the world, actors included, in order of adding."""
        with self._lock:
            return list(self._objects.values())

    @property
    def label_names(self) -> dict[int, str]:
        """What each label number in use stands for."""
        return self._labels.names

    @property
    def parts(self) -> PartTable:
        """Material, label, instance and texture of each part; triangles carry its row numbers."""
        return self._kept("parts", self._rows.table)

    def geometry(self, *sensor: str) -> SceneGeometry:
        """The triangles that a sensor can meet: `geometry("lidar")`, or with its own name too.

        Objects hidden from any of the names are left out. Without names: as for "lidar". The same object is handed
        out until the world changes.
        """
        names = sensor or ("lidar",)

        def made() -> SceneGeometry:
            hidden = frozenset(i for i, item in self._objects.items() if item.hidden_from and item.hides_from(names))
            seen = (item for i, item in self._objects.items() if i not in hidden)
            return self._kept(hidden, lambda: assemble(seen, self._water))

        return self._kept(names, made)

    @property
    def triangle_count(self) -> int:
        """Number of triangles, actors included."""
        return sum(item.triangle_count for item in self.objects)

    @property
    def bounds(self) -> tuple[Floats, Floats] | None:
        """Lower and upper corner [m] of everything, actors where they are at time 0; None for an empty world."""

        def made() -> tuple[Floats, Floats] | None:
            corners = [item.bounds() for item in self._objects.values()]
            lower, upper = (np.array([corner[k] for corner in corners]) for k in range(2))
            return (lower.min(axis=0), upper.max(axis=0)) if corners else None

        return self._kept("bounds", made)

    @property
    def viewpoint(self) -> Pose:
        """A sensible pose for a sensor: the one that was set, else above the ground at the centre of the bounds."""
        own = self._viewpoint
        if own is not None:
            return own

        def made() -> Pose:
            seen = [item for item in self._objects.values() if not item.hides_from(("lidar",))]
            return default_viewpoint(assemble(seen).static)

        return self._kept("viewpoint", made)

    @viewpoint.setter
    def viewpoint(self, pose: Pose | None) -> None:
        if pose is not None and not isinstance(pose, Pose):
            raise ConfigError(f"world: viewpoint must be a Pose, got {type(pose).__name__}")
        self._viewpoint = pose

    @property
    def has_own_viewpoint(self) -> bool:
        """Whether the viewpoint was set, and is not the default."""
        return self._viewpoint is not None

    @property
    def weather(self) -> Weather | None:
        """What the air holds; None is clear air."""
        return self._weather

    @weather.setter
    def weather(self, weather: Weather | None) -> None:
        if weather is not None and not isinstance(weather, Weather):
            raise ConfigError(f"world: weather must be a Weather, or None for clear air, got {type(weather).__name__}")
        self._weather = weather

    @property
    def daylight(self) -> Daylight | None:
        """Sun and sky; None is a clear day."""
        return self._daylight

    @daylight.setter
    def daylight(self, daylight: Daylight | None) -> None:
        if daylight is not None and not isinstance(daylight, Daylight):
            raise ConfigError(f"world: daylight must be a Daylight, or None, got {type(daylight).__name__}")
        self._daylight = daylight

    def __repr__(self) -> str:
        actors = sum(item.is_actor for item in self.objects)
        return (
            f"World({self.name!r}: {len(self.objects) - actors} objects, {actors} actors, "
            f"{self.triangle_count} triangles, {len(self.materials)} materials)"
        )


def _in_world(mesh: Mesh, pose: Pose) -> Floats:
    return mesh.vertices if pose == _ORIGIN else mesh.vertices @ pose.rotation.T + pose.xyz


_ORIGIN = Pose()
