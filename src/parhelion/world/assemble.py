"""Conversion of a world's objects to the triangles of the ray engine; mesh sources and textures of a world."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union
from weakref import WeakKeyDictionary, ref

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.rays.geometry import EditedGeometry, MovingTriangles, Remainder, SceneGeometry, Triangles
from parhelion.world.loaders import LoadedMesh, LoadedPart, Up, from_trimesh, load_mesh
from parhelion.world.mesh import Mesh
from parhelion.world.part_materials import TextureLike, texture_image
from parhelion.world.parts import DescribedShape, Origin, PartedShape, WorldObject, WorldPart
from parhelion.world.water_surface import WaterSurface, Waves, is_sheet, sheet_corners

if TYPE_CHECKING:
    import trimesh

SENSOR_HEIGHT_M = 2.0
"""Height of the default viewpoint above the ground [m]."""


LARGE_BASE = 20_000
"""Number of static triangles from which the structures of unchanged objects are reused; smaller worlds build fast."""
MOST_ADDED = 20_000
"""Number of static triangles that are built again with each edit; beyond it, all are built as one."""
_MOST_BASES = 4


class Bases:
    """Geometry of the objects that were in a world when it was built last, per set of objects that sensors see."""

    def __init__(self) -> None:
        self._known: dict[tuple[int, ...], SceneGeometry] = {}
        self._counts: WeakKeyDictionary[SceneGeometry, NDArray[np.int64]] = WeakKeyDictionary()
        """Numbers of triangles and vertices of each object, shape (objects, 2)."""

    def __reduce__(self) -> tuple[type[Bases], tuple[()]]:
        return (Bases, ())  # copies start without geometry; weak references cannot be pickled

    def geometry(
        self, static: Sequence[WorldObject], actors: list[MovingTriangles], surface: WaterSurface | None
    ) -> SceneGeometry:
        """Geometry with all triangles in one, or with those of known objects apart if few others follow them."""
        indices = tuple(item.index for item in static)
        for known, base in self._known.items():
            if indices[: len(known)] == known and (added := self._few(static[len(known) :])) is not None:
                return EditedGeometry(base, added, actors, surface)
        # Objects that came later stay apart, because they are likely to be moved again.
        last = max((known[-1] for known in self._known if known), default=-1)
        count = sum(index <= last for index in indices)
        added = self._few(static[count:]) if count else None
        if added is None:
            count, added = len(static), Triangles.empty()
        whole, counts = self._remainder(indices[:count]) or _whole(static[:count])
        if len(whole.static) < LARGE_BASE:
            every = whole.static if count == len(static) else merged([part for item in static for part in item.parts])
            return SceneGeometry(every, actors, surface)
        while len(self._known) >= _MOST_BASES:
            del self._known[next(iter(self._known))]
        self._known[indices[:count]] = whole
        self._counts[whole] = counts
        return EditedGeometry(whole, added, actors, surface)

    def _remainder(self, indices: tuple[int, ...]) -> tuple[SceneGeometry, NDArray[np.int64]] | None:
        """Geometry of objects that are a part of a known geometry, and their numbers of triangles and vertices.

        It equals that of `_whole`, but blocks are copied from the known geometry.
        """
        for known, whole in reversed(self._known.items()):
            kept = np.isin(known, indices)
            if np.array_equal(np.array(known)[kept], indices):
                counts = self._counts[whole]
                remainder = Remainder(ref(whole), np.repeat(kept, counts[:, 0]))
                return SceneGeometry(whole.static.without(~kept, counts), remainder=remainder), counts[kept]
        return None

    @staticmethod
    def _few(rest: Sequence[WorldObject]) -> Triangles | None:
        """Triangles of objects, or None if there are too many."""
        if sum(item.triangle_count for item in rest) > MOST_ADDED:
            return None
        return merged([part for item in rest for part in item.parts])


def _whole(static: Sequence[WorldObject]) -> tuple[SceneGeometry, NDArray[np.int64]]:
    """Geometry of objects, and their numbers of triangles and vertices, shape (objects, 2)."""
    counts = [(item.triangle_count, sum(len(part.placed) for part in item.parts)) for item in static]
    return SceneGeometry(merged([part for item in static for part in item.parts])), np.array(counts).reshape(-1, 2)


def assemble(
    objects: Iterable[WorldObject], water: Waves | None = None, foam: Sequence[int] = (), bases: Bases | None = None
) -> SceneGeometry:
    """Merge static objects into one triangle soup; actors are separate bodies, and water follows its waves.

    `foam` are the part numbers of the water's foam.
    """
    static: list[WorldObject] = []
    actors: list[MovingTriangles] = []
    sheets: list[WorldPart] = []
    for item in objects:
        if item.trajectory is not None:
            actors.append(MovingTriangles(merged(item.parts), item.trajectory))
        elif water is not None and is_sheet(item, water):
            sheets.extend(item.parts)
        else:
            static.append(item)
    surface = None
    if water is not None and sheets:
        surface = WaterSurface(water, [(part.number, sheet_corners(part)) for part in sheets], foam)
    return (bases or Bases()).geometry(static, actors, surface)


def merged(parts: Sequence[WorldPart]) -> Triangles:
    """Return all triangles of the parts with their part numbers, and UVs if any part has a texture."""
    if not parts:
        return Triangles.empty()
    vertex_counts = np.array([len(part.placed) for part in parts])
    face_counts = np.array([len(part.mesh.faces) for part in parts])
    starts = np.cumsum(vertex_counts) - vertex_counts
    faces = np.concatenate([part.mesh.faces for part in parts])
    faces += np.repeat(starts, face_counts).astype(np.int32)[:, None]
    numbers = np.repeat(np.array([part.number for part in parts], dtype=np.uint32), face_counts)
    vertices = np.concatenate([part.placed for part in parts])
    return Triangles(vertices, faces, numbers, _texture_coordinates(parts, face_counts))


def _texture_coordinates(parts: Sequence[WorldPart], face_counts: NDArray[np.int64]) -> NDArray[np.float32] | None:
    needed = [part.texture >= 0 or (part.appearance is not None and part.appearance.has_pictures) for part in parts]
    if not any(needed):
        return None
    uv = np.zeros((int(face_counts.sum()), 3, 2), dtype=np.float32)
    ends = np.cumsum(face_counts)
    for part, end, count, uses in zip(parts, ends, face_counts, needed, strict=True):
        if uses and part.mesh.uv is not None:
            uv[end - count : end] = part.mesh.uv
    return uv


def default_viewpoint(static: Triangles) -> Pose:
    """Default pose of a sensor: at the centre, 2 m above the lowest ground with free space above it.

    Ground is a surface that faces up. Without ground at the centre, the height is half of that of the objects, and at
    most 2 m above the lowest point.
    """
    if len(static) == 0:
        return Pose(xyz=(0.0, 0.0, SENSOR_HEIGHT_M))
    lower, upper = static.vertices.min(axis=0), static.vertices.max(axis=0)
    centre = (lower + upper) / 2.0
    heights, faces_up = _surfaces_on_vertical(static, centre)
    if len(heights) == 0:
        return Pose(xyz=(centre[0], centre[1], min(centre[2], lower[2] + SENSOR_HEIGHT_M)))
    ceiling = np.append(heights[1:], np.inf)
    free = faces_up & (ceiling - heights > 1.25 * SENSOR_HEIGHT_M)
    ground = float(heights[free][0]) if free.any() else float(heights[-1])
    return Pose(xyz=(centre[0], centre[1], ground + SENSOR_HEIGHT_M))


def _surfaces_on_vertical(static: Triangles, centre: Floats) -> tuple[Floats, NDArray[np.bool_]]:
    """Sorted heights [m] at which the vertical line through `centre` hits triangles, and a mask of upward faces."""
    x, y, z = (static.vertices[:, axis][static.faces] for axis in range(3))
    x, y = x - centre[0], y - centre[1]
    # Twice the signed areas, seen from above, of the three triangles between the vertical line and the sides.
    weights = np.stack(
        [
            x[:, 1] * y[:, 2] - x[:, 2] * y[:, 1],
            x[:, 2] * y[:, 0] - x[:, 0] * y[:, 2],
            x[:, 0] * y[:, 1] - x[:, 1] * y[:, 0],
        ],
        axis=1,
    )
    area = weights.sum(axis=1)
    met = (area != 0) & (((weights >= 0).all(axis=1)) | ((weights <= 0).all(axis=1)))
    heights = (weights[met] * z[met]).sum(axis=1) / area[met]
    order = np.argsort(heights, kind="stable")
    return heights[order], (area[met] > 0)[order]


# ---- Mesh sources ---------------------------------------------------------------------------------------------------


MeshLike = Union[
    str,
    PathLike[str],
    Mesh,
    LoadedMesh,
    DescribedShape,
    "tuple[ArrayLike, ArrayLike]",
    "trimesh.Trimesh",
    "trimesh.Scene",
]
"""Path of a mesh file, a mesh, a primitive shape, vertices (n, 3) with faces (m, 3), or a trimesh mesh or scene."""


class MeshSources:
    """Meshes of a world; a file is read once for all objects that use it."""

    def __init__(self) -> None:
        self._files: dict[tuple[Any, ...], LoadedMesh] = {}

    def triangles(self, mesh: MeshLike, up: Up) -> tuple[LoadedMesh, Origin]:
        """Return the triangles by material, and their origin."""
        if isinstance(mesh, LoadedMesh):
            return mesh, Origin()
        if isinstance(mesh, Mesh):
            return LoadedMesh((LoadedPart(mesh, None),), "mesh"), Origin()
        if isinstance(mesh, PartedShape):
            parts = tuple(LoadedPart(one, name) for name, one in mesh.meshes().items())
            return LoadedMesh(parts, "shape"), Origin(shape=mesh.description())
        if isinstance(mesh, DescribedShape):
            return LoadedMesh((LoadedPart(mesh.mesh(), None),), "shape"), Origin(shape=mesh.description())
        if isinstance(mesh, (str, PathLike)):
            return self._file(Path(mesh), up), Origin(Path(mesh), up)
        if isinstance(mesh, (tuple, list)) and len(mesh) == 2:
            return LoadedMesh((LoadedPart(Mesh(np.asarray(mesh[0]), np.asarray(mesh[1])), None),), "mesh"), Origin()
        if type(mesh).__module__.partition(".")[0] == "trimesh":
            return from_trimesh(mesh), Origin()
        raise ConfigError(
            f"world: a mesh must be a path, a Mesh, (vertices, faces) or a trimesh mesh, got {type(mesh).__name__}"
        )

    def _file(self, path: Path, up: Up) -> LoadedMesh:
        key = file_key(path, up)
        if key not in self._files:
            loaded = load_mesh(path, up=up)
            # The old content of a file that was overwritten is no longer needed.
            for old in [old for old in self._files if (old[0], old[-1]) == (key[0], up)]:
                del self._files[old]
            self._files[key] = loaded
        return self._files[key]


def file_key(path: Path, *more: str) -> tuple[Any, ...]:
    """Cache key of a file's content, which changes when the file is overwritten; missing files have a key as well."""
    try:
        state = path.stat()
        return (str(path.absolute()), state.st_mtime_ns, state.st_size, *more)
    except (OSError, ValueError):
        return (str(path), *more)


# ---- Textures of a world, by row: one row for all objects that use the same file or array ---------------------------


SPARE_BYTES = 32 * 1024 * 1024
"""Unused textures are cached up to this size, because moving an object means to remove it and add it again."""


class TextureRows:
    """Images with a count of the objects that use them; unused rows are reused for new textures."""

    def __init__(self) -> None:
        self.images: list[NDArray[np.float32]] = []
        """Factors on the reflectance in [0, 1], each of shape (height, width); a white texel in free rows."""
        self.colours: dict[int, NDArray[np.uint8]] = {}
        """Colours of the textures that are not grey, sRGB of 8 bits, shape (height, width, 3)."""
        self.files: dict[int, Path] = {}
        """Image files of the textures that came from a file."""
        self._row_of: dict[tuple[Any, ...], int] = {}
        self._given: dict[int, tuple[tuple[Any, ...], Any]] = {}
        self._uses: dict[int, int] = {}
        """Number of objects per row; unused rows are in the order in which they were released."""

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        # Arrays are keyed by their id, which differs in a copy.
        for row, (key, given) in list(self._given.items()):
            if row not in self.files:
                del self._row_of[key]
                self._given[row] = ((id(given),), given)
        self._row_of |= {key: row for row, (key, _) in self._given.items()}

    def row(self, texture: TextureLike) -> int:
        """Return the row of a texture; a new one is read."""
        path = Path(texture) if isinstance(texture, (str, PathLike)) else None
        key = (id(texture),) if path is None else file_key(path)
        if key not in self._row_of:
            image, colours = texture_image(texture)
            row = next((k for k in range(len(self.images)) if k not in self._uses), len(self.images))
            self.images[row : row + 1] = [image]
            # The row holds a reference to the array: while it lives, no other array can have its id.
            self._row_of[key], self._given[row], self._uses[row] = row, (key, texture), 0
            if path is not None:
                self.files[row] = path
            if colours is not None:
                self.colours[row] = colours
        return self._row_of[key]

    def use(self, row: int) -> None:
        """Count one more object that uses a row."""
        self._uses[row] += 1

    def leave(self, row: int) -> None:
        """Count one object less; unused textures beyond `SPARE_BYTES` are dropped, the longest unused first."""
        left = self._uses.pop(row) - 1
        self._uses[row] = left
        spare = [row for row, uses in self._uses.items() if uses == 0]
        size = sum(map(self._bytes, spare))
        for row in spare:
            if size <= SPARE_BYTES:
                break
            size -= self._bytes(row)
            self._forget(row)

    def _bytes(self, row: int) -> int:
        return self.images[row].nbytes + (self.colours[row].nbytes if row in self.colours else 0)

    def _forget(self, row: int) -> None:
        key, _ = self._given.pop(row)
        del self._row_of[key], self._uses[row]
        self.files.pop(row, None)
        self.colours.pop(row, None)
        self.images[row] = np.ones((1, 1), np.float32)
        while self.images and len(self.images) - 1 not in self._uses:
            self.images.pop()
