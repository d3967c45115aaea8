"""A world: static and moving triangles with materials and labels, and the geometry that a sensor can see."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from os import PathLike
from pathlib import Path
from threading import RLock
from typing import Any, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.checks import check_budget
from parhelion.core.errors import ConfigError, unknown_name
from parhelion.core.pose import Floats, Pose, checked_pose
from parhelion.core.trajectory import Fixed, Trajectory
from parhelion.rays.geometry import SceneGeometry, Triangles
from parhelion.rays.records import Hits, Rays
from parhelion.rays.scene import RayScene
from parhelion.surfaces import library
from parhelion.surfaces.material import Material
from parhelion.weather.daylight import Daylight
from parhelion.weather.weather import Weather
from parhelion.world.assemble import Bases, MeshLike, MeshSources, TextureRows, assemble, default_viewpoint
from parhelion.world.coverage import Coverage
from parhelion.world.emitters import HasEmitters
from parhelion.world.guess import adjusted, check_table, read_table
from parhelion.world.labels import GROUND_LABELS, LabelTable
from parhelion.world.loaders import MESH_SUFFIXES, Up, refuse_unsupported
from parhelion.world.mesh import Mesh
from parhelion.world.part_materials import MaterialLike, TextureLike, choose_materials
from parhelion.world.parts import Origin, PartRows, PartTable, WorldObject, WorldPart, hidden_patterns
from parhelion.world.sources import Contents, GeoOrigin, source_of
from parhelion.world.sources import suffixes as source_suffixes
from parhelion.world.units import check_model_options, warn_of_units
from parhelion.world.water_surface import Waves, check_water, foam_materials, has_foam, is_sheet

LARGEST_INSTANCE = 2**32 - 1
_Made = TypeVar("_Made")
EditWatcher = Callable[[str, "WorldObject | None", Mapping[str, Any]], None]
"""Function that is called after each change with its name, the object and the arguments."""


class World(HasEmitters):
    """Objects and actors with materials and labels. Frame: x east (or forward), y left, z up, in metres.

    Args:
        name: Name in records and reports.

    >>> import parhelion as ph
    >>> world = ph.World("yard")
    >>> ground = world.add(ph.shapes.plane(50, 50), material="asphalt", label="road")
    >>> crate = world.add(ph.shapes.box(1, 1, 1), material="wood", label="box", pose=ph.Pose((5, 0, 0.5)))
    >>> world
    World('yard': 2 objects, 0 actors, 14 triangles, 2 materials)
    """

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.path: Trajectory | None = None
        """Suggested drive through the world, or None."""
        self.materials: list[Material] = []
        """Materials in order of first use; the row of a material is its number."""
        self._textures = TextureRows()
        self.textures: list[NDArray[np.float32]] = self._textures.images
        """Textures by row: factors on the reflectance in [0, 1], each of shape (height, width)."""
        self.texture_colours: dict[int, NDArray[np.uint8]] = self._textures.colours
        """Colours of the textures that are not grey, by row of `textures`: sRGB, each of shape (height, width, 3)."""
        self.texture_files: dict[int, Path] = self._textures.files
        """Image files of the textures that came from a file, by row of `textures`."""
        self.patterns = False
        """True if materials vary over their surfaces, such as the bricks of a wall; see `surfaces.pattern`."""
        self.origin: GeoOrigin | None = None
        """Position of the world on Earth; None if it is unknown. GNSS receivers use it."""
        self.contents: Contents | None = None
        """Record of what the loader of a map, of roads or of a floor plan read and omitted; None for other worlds."""
        self.coverage: Coverage | None = None
        """Space that the recording of a rebuilt world has observed; None for other worlds."""
        self.lanes: Any = None
        """Graph of lanes (`parhelion.world.roads.LaneGraph`) of a world from OpenDRIVE; None for other worlds."""
        self.base: Any = None
        """`Base` of a world that was started from a built-in one; see `parhelion.world.file`."""
        self._version = 0
        self._objects: dict[int, WorldObject] = {}
        self._next_index = 0
        self._triangles = 0
        self._rows = PartRows()
        self._labels = LabelTable()
        self._material_numbers: dict[str, int] = {}
        self._instances_used: set[int] = set()
        self._next_instance = 1
        self._viewpoint: Pose | None = None
        self._weather: Weather | None = None
        self._daylight: Daylight | None = None
        self._water: Waves | None = None
        self._foam: tuple[int, ...] = ()
        self._lamps = ()
        self._sounds = ()
        self._meshes = MeshSources()
        self._cache: dict[Any, Any] = {}
        self._bases = Bases()
        self.on_edit: EditWatcher | None = None
        """Function that is called after each change of objects, weather and daylight; None for none."""
        self._lock = RLock()

    def __getstate__(self) -> dict[str, Any]:
        # Copies have no lock, no cache and no watcher.
        return {**self.__dict__, "_lock": None, "_cache": {}, "_bases": Bases(), "on_edit": None}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._lock = RLock()

    # ---- loading -----------------------------------------------------------------------------------------------

    @classmethod
    def load(
        cls,
        source: str | PathLike[str],
        *,
        seed: int | None = None,
        materials: Mapping[str, MaterialLike] | None = None,
        **params: Any,
    ) -> World:
        """Load a built-in world, a world file, a mesh file, a layout, a map, roads or a floor plan.

        Args:
            source: Name of a built-in world, or the path of a world file (.yaml), mesh file (.obj, .ply, .stl, .glb,
                .usd, ...), SDF or MJCF world (.sdf, .world, .xml), layout (.yaml, .json), or a file of
                `parhelion.world.sources`: a map (.osm, .osm.pbf, .geojson, CityJSON), roads (.xodr) or a floor plan
                (ROS map, .svg, .dxf, image).
            seed: Seed of a built-in world or of the plants of a map; overrides that of a world file.
            materials: For a mesh file: library materials by material name in the file.
            params: Parameters of a built-in world or of the loader; for a mesh file, arguments of `World.add`, such as
                `up` and `scale`.
        """
        if not isinstance(source, (str, PathLike)):
            raise ConfigError(f"world: load accepts a name or a path, got {type(source).__name__}")
        from parhelion.world.urdf.sdf import MJCF_SUFFIXES, SDF_SUFFIXES, load_mjcf, load_sdf

        suffix = Path(source).suffix.lower()
        if suffix not in MESH_SUFFIXES:
            check_model_options(source, params)
        kind = source_of(source)
        if kind is not None:
            if materials is not None:
                raise ConfigError(f"{source}: materials is for mesh files; {kind.name} has its own materials")
            return kind.load(source, seed, params)
        if suffix in (".yaml", ".yml", ".json"):
            from parhelion.world.procedural.build import is_list, load_listed

            if is_list(source):
                if materials is not None or seed is not None:
                    raise ConfigError(f"{source}: a layout accepts neither seed nor materials")
                return load_listed(source, params)
            from parhelion.world.file import load_world

            if materials is not None:
                raise ConfigError(f"{source}: a world file maps materials in the field materials of each object")
            return load_world(source, seed=seed, params=params)
        if suffix in SDF_SUFFIXES or suffix in MJCF_SUFFIXES:
            if params or seed is not None or materials is not None:
                raise ConfigError(f"{source}: an SDF or MJCF world accepts no options")
            return load_sdf(source) if suffix in SDF_SUFFIXES else load_mjcf(source)
        refuse_unsupported(Path(source))
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
            files = " ".join(dict.fromkeys((*MESH_SUFFIXES, *source_suffixes())))
            hint = f"(or give the path of a world file .yaml, or of {files})"
            raise unknown_name("world", name, builtin.BUILTIN, hint)
        if materials is not None:
            raise ConfigError(f"world {name!r}: materials is for mesh files; a built-in world has its own materials")
        world: World = builtin.build(name, seed=0 if seed is None else seed, **params)
        objects = tuple(world._objects.values())
        world.base = Base(name, 0 if seed is None else seed, params, objects, world.path, world.lamps, world.patterns)
        return world

    def save(self, path: str | PathLike[str]) -> None:
        """Write a world file (.yaml); meshes that came from no file are written as PLY in a folder next to it."""
        from parhelion.world.file import save_world

        save_world(self, path)

    # ---- editing -----------------------------------------------------------------------------------------------

    @contextmanager
    def edits(self) -> Iterator[None]:
        """Group several changes: a scan in another thread sees either none or all of them.

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
        """Add a static object.

        Args:
            mesh: Path of a mesh file, a `Mesh`, (vertices, faces), or a trimesh mesh or scene.
            material: Material of the whole mesh. By default, material names of a file are looked up in the library
                (one warning lists the guesses), and meshes without names are concrete.
            label: Semantic class.
            pose: Pose of the mesh in the world.
            name: Name of the object; by default that of the file, or label and number.
            materials: Library materials by material name in the file.
            instance: Instance number; by default a new one.
            hidden_from: Kinds or names of sensors that do not see it ('lidar', 'velodyne/vlp-16', '*').
            texture: Image file or array; the mesh needs UV coordinates.
            scale: Factor that is applied before `pose`.
            up: Axis of the file that points up ('auto': y for glTF, otherwise z).
        """
        checked_pose("world: pose", pose)
        with self._lock:
            item = self._insert(
                mesh, material, materials, label, pose, None, name, instance, hidden_from, texture, scale, up
            )
        self._report(
            "add",
            item,
            mesh=mesh,
            material=material,
            materials=materials,
            label=label,
            pose=pose,
            name=name,
            instance=instance,
            hidden_from=item.hidden_from,
            texture=texture,
            scale=scale,
            up=up,
        )
        return item

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
        """Add a moving object, whose frame follows `trajectory`. All other arguments are those of `add`."""
        motion = Fixed(trajectory) if isinstance(trajectory, Pose) else trajectory
        if not isinstance(motion, Trajectory):
            raise ConfigError(f"world: trajectory must have sample(times), got {type(trajectory).__name__}")
        with self._lock:
            item = self._insert(
                mesh, material, materials, label, Pose(), motion, name, instance, hidden_from, texture, scale, up
            )
        self._report(
            "add_actor",
            item,
            mesh=mesh,
            material=material,
            materials=materials,
            label=label,
            trajectory=trajectory,
            name=name,
            instance=instance,
            hidden_from=item.hidden_from,
            texture=texture,
            scale=scale,
            up=up,
        )
        return item

    def _check_mine(self, item: WorldObject) -> None:
        if isinstance(item, str):
            raise ConfigError(f"world: give the object that add returned, or one of world.objects, not {item!r}")
        if self._objects.get(item.index) is not item:
            raise ConfigError(f"world: {item!r} is not in this world")

    def remove(self, item: WorldObject) -> None:
        """Remove an object or actor from the world. Part numbers of other objects do not change.

        The rows of its parts and textures are reused for objects that are added later.
        """
        with self._lock:
            self._check_mine(item)
            del self._objects[item.index]
            self._triangles -= item.triangle_count
            self._remove_emitters_of(item)
            for part in item.parts:
                self._rows.free(part.number)
                if part.texture >= 0:
                    self._textures.leave(part.texture)
            self._changed()
        self._report("remove", item)

    def revise(
        self,
        item: WorldObject,
        *,
        trajectory: Trajectory | None = None,
        hidden_from: Collection[str] | None = None,
        pose: Pose | None = None,
        label: str | None = None,
        material: MaterialLike | None = None,
    ) -> WorldObject:
        """Give an object another motion, pose, label or material, or hide it from other sensors.

        Its index, instance and parts remain. A static object becomes an actor with `trajectory`; `pose` is for static
        objects. Return the new description of the object.
        """
        with self._lock:
            self._check_mine(item)
            if pose is not None and (item.is_actor or trajectory is not None):
                raise ConfigError(f"world: {item.name!r} moves: give it a trajectory instead of a pose")
            changed = item
            if trajectory is not None:
                parts = tuple(replace(part, placed=part.mesh.vertices) for part in item.parts)
                changed = replace(changed, trajectory=trajectory, pose=Pose(), parts=parts)
            if pose is not None:
                parts = tuple(replace(part, placed=_in_world(part.mesh, pose)) for part in item.parts)
                changed = replace(changed, pose=pose, parts=parts)
            if hidden_from is not None:
                changed = replace(changed, hidden_from=hidden_patterns(hidden_from))
            if material is not None:
                kind = self._material(material)
                parts = tuple(replace(part, material=kind, appearance=None) for part in changed.parts)
                changed = replace(changed, parts=parts)
            if label is not None:
                changed = replace(changed, label=label, label_id=self._labels.use(label))
            for part in changed.parts if material is not None or label is not None else ():
                number = self._material_numbers[part.material.name]
                self._rows.change(part.number, material=number, label=changed.label_id)
            self._objects[item.index] = changed
            self._changed()
            return changed

    def restore(self, item: WorldObject) -> None:
        """Undo `revise`: give an object of this world the description that it had before."""
        with self._lock:
            if item.index not in self._objects:
                raise ConfigError(f"world: {item!r} is not in this world")
            self._objects[item.index] = item
            self._changed()

    def _report(self, edit: str, item: WorldObject | None = None, **arguments: Any) -> None:
        if self.on_edit is not None:
            self.on_edit(edit, item, arguments)

    def set_water(self, water: Any) -> None:
        """Set the waves on the world's water: a `Water` of `parhelion.motion.water`, or None for the original meshes.

        Static objects with the label 'water' within 1 m of the water's level follow its surface, inside of their own
        outline. Calm water leaves the meshes unchanged. Rays hit the waves at the time of the ray. Water with foam,
        such as that behind vessels, has mixtures of `sea-foam` and its own material there.
        """
        with self._lock:
            self._water = check_water(water, self.objects)
            for row in self._foam:
                self._rows.free(row)
            self._foam = self._foam_rows(self._water) if has_foam(self._water) else ()
            self._changed()
        self._report("set_water", water=water)

    def _foam_rows(self, water: Any) -> tuple[int, ...]:
        """Add the parts of the water's foam, from thin to dense."""
        sheet = next(item for item in self.objects if is_sheet(item, water))
        kinds = [self._material(one) for one in foam_materials(sheet.parts[0].material)]
        return tuple(
            self._rows.append(
                material=self._material_numbers[kind.name],
                label=sheet.label_id,
                instance=sheet.instance,
                object_index=sheet.index,
                texture=-1,
            )
            for kind in kinds
        )

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
        triangles = sum(len(part.mesh.faces) for part in loaded.parts)
        check_budget("triangles", self._triangles + triangles, "world")
        table = {} if origin.file is None or material is not None else read_table(origin.file)
        check_table(loaded.source, table, loaded.material_names)
        from_file = origin.file is not None
        chosen = choose_materials(loaded, material, materials, self._material, table=table, from_file=from_file)
        if from_file:
            warn_of_units(loaded, scale=scale, up=up)
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
            look = adjusted(part, table) if material is None and texture is None else None
            parts.append(WorldPart(row, placed, vertices, kind, texture_row, part.material, look))
        title = name or (origin.file.stem if origin.file else f"{label}-{index}")
        source = Origin(origin.file, origin.up, origin.shape, scale)
        item = WorldObject(index, title, label, label_id, number, pose, tuple(parts), trajectory, hidden, source)
        self._objects[index] = item
        self._next_index += 1
        self._triangles += triangles
        self._changed()
        return item

    def _material(self, material: MaterialLike) -> Material:
        """Return a material, and enter it in the world's table."""
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
            raise ConfigError(f"world: it already has another material named {found.name!r}; rename one of them")
        return self.materials[number]

    def _instance(self, instance: int | None) -> int:
        if instance is None:
            while self._next_instance in self._instances_used:
                self._instances_used.discard(self._next_instance)  # numbers below the next one are never needed again
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

    def _cached(self, key: Any, make: Callable[[], _Made]) -> _Made:
        """Return a result that is derived from the objects; cached until they change."""
        with self._lock:
            if key not in self._cache:
                self._cache[key] = make()
            made: _Made = self._cache[key]
            return made

    # ---- queries -----------------------------------------------------------------------------------------------

    @property
    def version(self) -> int:
        """Number that increases with every change of objects; usable as a cache key."""
        return self._version

    @property
    def objects(self) -> list[WorldObject]:
        """Everything in the world, actors included, in order of adding."""
        with self._lock:
            return list(self._objects.values())

    @property
    def label_names(self) -> dict[int, str]:
        """Label names by label number, of all labels in use."""
        return self._labels.names

    @property
    def parts(self) -> PartTable:
        """Material, label, instance and texture of each part; triangles carry the row numbers of this table."""
        return self._cached("parts", self._rows.table)

    def geometry(self, *sensor: str) -> SceneGeometry:
        """Return the triangles that a sensor can see: `geometry("lidar")`, optionally with the name of the sensor.

        Objects that are hidden from any of the names are omitted. The default is "lidar". The same object is returned
        until the world changes.
        """
        names = sensor or ("lidar",)

        def made() -> SceneGeometry:
            hidden = frozenset(i for i, item in self._objects.items() if item.hidden_from and item.hides_from(names))
            seen = (item for i, item in self._objects.items() if i not in hidden)
            return self._cached(hidden, lambda: assemble(seen, self._water, self._foam, self._bases))

        return self._cached(names, made)

    @property
    def triangle_count(self) -> int:
        """Number of triangles, actors included."""
        return sum(item.triangle_count for item in self.objects)

    @property
    def memory_bytes(self) -> int:
        """Memory of triangles and images [byte]; arrays that several parts share count once."""
        arrays: list[NDArray[Any] | None] = [*self.textures, *self.texture_colours.values()]
        for part in (part for item in self.objects for part in item.parts):
            arrays += [part.mesh.vertices, part.mesh.faces, part.mesh.uv, part.placed]
            if part.appearance is not None:
                arrays += [None if one is None else one.pixels for one in part.appearance.pictures]
        return sum({id(array): array.nbytes for array in arrays if array is not None}.values())

    @property
    def bounds(self) -> tuple[Floats, Floats] | None:
        """Lower and upper corner [m] of all objects, actors at time 0; None for an empty world."""

        def made() -> tuple[Floats, Floats] | None:
            corners = [item.bounds() for item in self._objects.values()]
            lower, upper = (np.array([corner[k] for corner in corners]) for k in range(2))
            return (lower.min(axis=0), upper.max(axis=0)) if corners else None

        return self._cached("bounds", made)

    def height(self, x: ArrayLike, y: ArrayLike) -> Any:
        """Return the height [m] of the ground at places [m]; NaN without ground.

        The ground is the highest static surface with a label of the ground, such as `road`, `floor` and `terrain`; in
        worlds without such labels, the highest static surface of all.

        >>> round(ph.World.load("off-road").height(-60.0, 30.0), 2)
        -1.83
        """
        east, north = np.broadcast_arrays(np.asarray(x, np.float64), np.asarray(y, np.float64))
        scene, top = self._cached("ground", self._ground)
        start = np.stack([east.ravel(), north.ravel(), np.full(east.size, top)], axis=1)
        found = scene.below(start)[0].reshape(east.shape)
        return float(found) if found.ndim == 0 else found

    def cast(self, origin: ArrayLike, direction: ArrayLike, time: float = 0.0, max_range: float = np.inf) -> Hits:
        """Return the nearest surface on each ray at a time [s], for all surfaces that lidars see.

        Args:
            origin: Start points (n, 3) or (3,) [m].
            direction: Directions (n, 3) or (3,), of any length.
            time: Time of all rays [s].
            max_range: Largest range [m].

        >>> world = ph.World()
        >>> wall = world.add(ph.shapes.box(1, 10, 10), material="concrete", pose=ph.Pose((5.5, 0, 0)))
        >>> world.cast((0, 0, 0), (1, 0, 0)).range.round(3).tolist()
        [5.0]
        """
        rays = Rays.of(origin, direction, time, max_range)
        return self._cached("rays", lambda: RayScene(self.geometry())).cast(rays)

    def _ground(self) -> tuple[RayScene, float]:
        """Ray scene of the ground, and a height [m] above all of it."""
        static, names = self.geometry().static, self.label_names
        ground = np.array([names.get(int(label)) in GROUND_LABELS for label in self.parts.label], bool)
        keep = ground[static.part] if len(static) else np.zeros(0, bool)
        if keep.any():
            static = Triangles(static.vertices, static.faces[keep], static.part[keep])
        top = float(static.vertices[:, 2].max(initial=0.0)) + 1.0
        return RayScene(SceneGeometry(static)), top

    @property
    def viewpoint(self) -> Pose:
        """Suggested pose of a sensor; by default 2 m above the ground at the centre of the bounds."""
        own = self._viewpoint
        if own is not None:
            return own

        def made() -> Pose:
            seen = [item for item in self._objects.values() if not item.hides_from(("lidar",))]
            return default_viewpoint(assemble(seen).static)

        return self._cached("viewpoint", made)

    @viewpoint.setter
    def viewpoint(self, pose: Pose | None) -> None:
        if pose is not None and not isinstance(pose, Pose):
            raise ConfigError(f"world: viewpoint must be a Pose, got {type(pose).__name__}")
        self._viewpoint = pose

    @property
    def has_own_viewpoint(self) -> bool:
        """True if the viewpoint was set."""
        return self._viewpoint is not None

    @property
    def weather(self) -> Weather | None:
        """Weather; None is clear air."""
        return self._weather

    @weather.setter
    def weather(self, weather: Weather | None) -> None:
        if weather is not None and not isinstance(weather, Weather):
            raise ConfigError(f"world: weather must be a Weather, or None for clear air, got {type(weather).__name__}")
        self._weather = weather
        self._report("weather", weather=weather)

    @property
    def daylight(self) -> Daylight | None:
        """Sun and sky; None is a clear day."""
        return self._daylight

    @daylight.setter
    def daylight(self, daylight: Daylight | None) -> None:
        if daylight is not None and not isinstance(daylight, Daylight):
            raise ConfigError(f"world: daylight must be a Daylight, or None, got {type(daylight).__name__}")
        self._daylight = daylight
        self._report("daylight", daylight=daylight)

    def __repr__(self) -> str:
        actors = sum(item.is_actor for item in self.objects)
        return (
            f"World({self.name!r}: {len(self.objects) - actors} objects, {actors} actors, "
            f"{self.triangle_count} triangles, {len(self.materials)} materials)"
        )


def _in_world(mesh: Mesh, pose: Pose) -> Floats:
    return mesh.vertices if pose == _ORIGIN else mesh.vertices @ pose.rotation.T + pose.xyz


_ORIGIN = Pose()
