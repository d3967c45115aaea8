"""Mesh files, read with trimesh: triangles, texture coordinates, and names and appearance of materials.

Files are data: nothing in them is executed, nothing is fetched from a network, and referenced files are only searched
in the folder of the mesh file and below.
"""

from __future__ import annotations

import io
import re
import warnings
from dataclasses import dataclass
from os import PathLike
from pathlib import Path, PurePath, PureWindowsPath
from typing import Any, Literal
from urllib.parse import unquote

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError, ParhelionError
from parhelion.core.pose import Floats
from parhelion.core.reading import file_reader, missing_package, read_bytes, utf8
from parhelion.surfaces.appearance import Appearance
from parhelion.world.appearances import MtlLibrary
from parhelion.world.gltf import GltfFile, check_gltf
from parhelion.world.mesh import Mesh
from parhelion.world.usd import USD_SUFFIXES, UsdFile
from parhelion.world.xml import guarded_text

# ---- loaders --------------------------------------------------------------------------------------------------------


MESH_SUFFIXES = (".obj", ".ply", ".stl", ".glb", ".gltf", ".off", ".dae", *USD_SUFFIXES)
"""Extensions of supported mesh files; `.dae` needs the package pycollada, and USD files need usd-core."""

CONVERTED = {
    ".fbx": "convert it with Blender (File > Import > FBX, File > Export > glTF 2.0) or FBX2glTF",
    ".blend": "export it from Blender (File > Export > glTF 2.0)",
    ".max": "export it from 3ds Max as glTF or USD",
    ".ma": "export it from Maya as USD",
    ".mb": "export it from Maya as USD",
    ".skp": "export it from SketchUp as glTF or COLLADA",
    ".3ds": "convert it with Blender or assimp: assimp export model.3ds model.glb",
    ".step": "mesh it, for example with FreeCAD: export as OBJ or glTF",
    ".stp": "mesh it, for example with FreeCAD: export as OBJ or glTF",
    ".ifc": "convert it with IfcConvert: IfcConvert building.ifc building.glb",
    ".uasset": "export it from Unreal Engine as glTF or USD",
    ".unitypackage": "export it from Unity as glTF or USD",
}
"""Advice for files that are not supported, by extension."""

MOST_COPIED = 10_000_000
"""Largest number of triangles from repeated meshes; a short file could declare any number."""

Up = Literal["auto", "y", "z"]

_LARGEST_COLLADA_BYTES = 512 * 1024 * 1024
_Y_UP_SUFFIXES = (".glb", ".gltf")
_IMAGE_SUFFIXES = (".png", ".jpg", ".jpeg", ".bmp", ".tga", ".tif", ".tiff", ".webp", ".ktx2", ".basis", ".dds", ".exr")
_ONE_PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108000000003a7e9b55"
    "0000000a49444154789c636000000002000148afa4710000000049454e44ae426082"
)
"""A PNG of one pixel, for the parser of the geometry. `appearances.py` decodes images."""


@dataclass(frozen=True, eq=False)
class LoadedPart:
    """The triangles of one material."""

    mesh: Mesh
    material: str | None
    """Name of the material in the file, or None."""
    appearance: Appearance | None = None
    """Appearance of the material in visible light, or None if the file states none."""


@dataclass(frozen=True, eq=False)
class LoadedMesh:
    """Content of one file, one part per material, in a reproducible order."""

    parts: tuple[LoadedPart, ...]
    source: str
    """Name in messages: the file, or a description of another source."""
    omitted: tuple[str, ...] = ()
    """Properties of the file that are not supported."""

    @property
    def material_names(self) -> list[str]:
        """Names of the materials in the file."""
        return [part.material for part in self.parts if part.material is not None]


@file_reader()
def load_mesh(path: str | PathLike[str], *, up: Up = "auto") -> LoadedMesh:
    """Read a mesh file in metres with z up; node transforms are applied.

    `up` is the axis of the file that points up: 'y' converts (x, y, z) to (x, -z, y); 'auto' is 'y' for glTF (.glb,
    .gltf), as its specification requires, the axis that a USD file states, and 'z' for all others.
    """
    file = Path(path)
    suffix = file.suffix.lower()
    if up not in ("auto", "y", "z"):
        raise ConfigError(f"{file}: up must be 'auto', 'y' or 'z', got {up!r}")
    refuse_unsupported(file)
    if suffix not in MESH_SUFFIXES:
        raise ConfigError(f"{file}: not a supported mesh file; extensions: {', '.join(MESH_SUFFIXES)}")
    data = read_bytes(file, ConfigError)
    if not data:
        raise FormatError(f"{file}: is empty")
    if suffix in USD_SUFFIXES:
        loaded = _from_usd(file, up)
        _warn_of_omitted(loaded)
        return loaded
    resolver = _Neighbours(file, data)
    looks: _Looks = _Looks()
    if suffix in _Y_UP_SUFFIXES:
        check_gltf(file, data)
        looks = _GltfLooks(GltfFile(file, data, resolver.content))
        data = looks.file.for_geometry()
    elif suffix == ".obj":
        looks = _MtlLooks(file, data, resolver)
    elif suffix == ".dae":
        guarded_text(file, _LARGEST_COLLADA_BYTES)  # refuses entities, which can expand to files or gigabytes
    scene = _parse(file, suffix.lstrip("."), data, resolver)
    if suffix == ".off":
        _check_off_is_whole(file, data, scene)
    y_up = up == "y" or (up == "auto" and suffix in _Y_UP_SUFFIXES)
    loaded = from_scene(scene, str(file), y_up=y_up, looks=looks)
    if resolver.missing:
        missing = ", ".join(dict.fromkeys(resolver.missing))
        warnings.warn(f"{file}: referenced files are missing: {missing}", stacklevel=3)
    _warn_of_omitted(loaded)
    return loaded


def refuse_unsupported(file: Path) -> None:
    """Raise ConfigError with advice for formats that have to be converted."""
    advice = CONVERTED.get(file.suffix.lower())
    if advice is not None:
        raise ConfigError(f"{file}: {file.suffix} files are not supported; {advice}, and load the result")


def _warn_of_omitted(loaded: LoadedMesh) -> None:
    if loaded.omitted:
        more = f" and {len(loaded.omitted) - 8} more" if len(loaded.omitted) > 8 else ""
        shown = ", ".join(loaded.omitted[:8]) + more
        warnings.warn(f"{loaded.source}: not supported and omitted: {shown}", stacklevel=4)


def _from_usd(file: Path, up: Up) -> LoadedMesh:
    read = UsdFile(file, up)
    if not read.gathered:
        raise FormatError(f"{file}: it has no triangles")
    if read.dropped:
        warnings.warn(f"{file}: dropped {read.dropped} triangles without area", stacklevel=4)
    parts = [
        LoadedPart(
            meshes[0] if len(meshes) == 1 else Mesh.merged(meshes),
            None if key is None else read.names[key],
            None if key is None else read.looks.get(key),
        )
        for key, meshes in read.gathered.items()
    ]
    return LoadedMesh(tuple(parts), str(file), tuple(read.omitted))


class _Looks:
    """Appearance of the materials of a file that states none."""

    def part(self, mesh: Mesh, name: str | None) -> LoadedPart:
        """Return the part of a material with the name that the parser gave it."""
        return LoadedPart(mesh, name)

    @property
    def omitted(self) -> tuple[str, ...]:
        """Properties that are not supported."""
        return ()


class _GltfLooks(_Looks):
    def __init__(self, file: GltfFile) -> None:
        self.file = file

    def part(self, mesh: Mesh, name: str | None) -> LoadedPart:
        own, number = self.file.named(name)
        if number is None:
            return LoadedPart(mesh, own)
        look = self.file.appearance(number)
        if mesh.uv is not None and look.has_pictures:
            mesh = Mesh(mesh.vertices, mesh.faces, self.file.transformed_uv(number, mesh.uv))
        return LoadedPart(mesh, own, look)

    @property
    def omitted(self) -> tuple[str, ...]:
        return tuple(self.file.materials.omitted)


class _MtlLooks(_Looks):
    def __init__(self, file: Path, data: bytes, resolver: _Neighbours) -> None:
        def image(name: str) -> tuple[bytes, str] | None:
            try:
                return resolver.content(name), name
            except FileNotFoundError:
                return None

        self._library = MtlLibrary(file, image)
        for name in re.findall(rb"^\s*mtllib[ \t]+([^\r\n]+)", data, re.MULTILINE):
            path = resolver.find(utf8(name).decode().strip())
            if path is not None:
                self._library.add(utf8(read_bytes(path)).decode())

    def part(self, mesh: Mesh, name: str | None) -> LoadedPart:
        return LoadedPart(mesh, name, None if name is None else self._library.appearance(name))

    @property
    def omitted(self) -> tuple[str, ...]:
        return tuple(self._library.omitted)


def from_trimesh(value: Any) -> LoadedMesh:
    """Return the triangles of a `trimesh.Trimesh` or `trimesh.Scene`; axes are unchanged."""
    import trimesh

    if isinstance(value, trimesh.Trimesh):
        return from_scene(trimesh.Scene(value), "trimesh mesh", y_up=False)
    if isinstance(value, trimesh.Scene):
        return from_scene(value, "trimesh scene", y_up=False)
    raise ConfigError(f"world: a trimesh {type(value).__name__} has no triangles; give a Trimesh or a Scene")


def from_scene(scene: Any, source: str, *, y_up: bool, looks: _Looks | None = None) -> LoadedMesh:
    """Return all placed meshes of a `trimesh.Scene`, grouped by material name."""
    looks = looks or _Looks()
    gathered: dict[str | None, list[Mesh]] = {}
    dropped = 0
    placements = _placements(scene)
    placed = sum(len(geometry.faces) for _, geometry in placements)
    if placed > max(MOST_COPIED, 2 * sum(len(g.faces) for g in scene.geometry.values() if hasattr(g, "faces"))):
        raise FormatError(f"{source}: its nodes repeat meshes to {placed} triangles; at most {MOST_COPIED} are allowed")
    for matrix, geometry in placements:
        for material, faces, uv in _by_material(geometry):
            try:
                vertices = _placed(np.asarray(geometry.vertices, dtype=np.float64), matrix, y_up)
                # A mirroring transform would turn the surface inside out.
                order = faces[:, ::-1] if np.linalg.det(matrix[:3, :3]) < 0 else faces
                uv = uv[:, ::-1] if uv is not None and order is not faces else uv
                mesh, without_area = Mesh.cleaned(vertices, order, uv)
            except ConfigError as error:
                raise FormatError(f"{source}: {error}") from None
            dropped += without_area
            if mesh is not None:
                gathered.setdefault(material, []).append(mesh)
    if not gathered:
        reason = "zero-area mesh, no triangle has an area" if dropped else "it has no triangles, or is truncated"
        raise FormatError(f"{source}: {reason}")
    if dropped:
        warnings.warn(f"{source}: dropped {dropped} triangle{'s' if dropped > 1 else ''} without area", stacklevel=3)
    parts = [
        looks.part(meshes[0] if len(meshes) == 1 else Mesh.merged(meshes), name) for name, meshes in gathered.items()
    ]
    return LoadedMesh(tuple(parts), source, looks.omitted)


def _placements(scene: Any) -> list[tuple[Floats, Any]]:
    """Transform and mesh of each node in a reproducible order (trimesh's names are random)."""
    rank = {name: row for row, name in enumerate(scene.geometry)}
    placed = [scene.graph[node] for node in scene.graph.nodes_geometry]
    placed.sort(key=lambda pair: (rank[pair[1]], tuple(np.ravel(pair[0]))))
    # Points and lines have no faces.
    return [(np.asarray(m, np.float64), scene.geometry[n]) for m, n in placed if hasattr(scene.geometry[n], "faces")]


def _placed(vertices: Floats, matrix: Floats, y_up: bool) -> Floats:
    if not np.all(np.isfinite(matrix)):
        raise ConfigError("a node's transform is not finite")
    placed = vertices if np.array_equal(matrix, np.eye(4)) else vertices @ matrix[:3, :3].T + matrix[:3, 3]
    return np.stack([placed[:, 0], -placed[:, 2], placed[:, 1]], axis=1) if y_up else placed


def _by_material(geometry: Any) -> list[tuple[str | None, NDArray[Any], NDArray[Any] | None]]:
    """Material name, faces and corner UVs of each material of one trimesh mesh."""
    faces = np.asarray(geometry.faces)
    visual = geometry.visual
    if getattr(visual, "kind", None) != "texture" or len(faces) == 0:
        return [(None, faces, None)]
    uv = _corner_uv(visual.uv, faces, len(geometry.vertices))
    several = getattr(visual.material, "materials", None)
    rows = getattr(visual, "face_materials", None)
    if several and rows is not None and len(rows) == len(faces):
        picked = [(_name(material), np.asarray(rows) == row) for row, material in enumerate(several)]
        return [(name, faces[mask], None if uv is None else uv[mask]) for name, mask in picked if mask.any()]
    return [(_name(visual.material), faces, uv)]


def _corner_uv(uv: Any, faces: NDArray[Any], vertex_count: int) -> NDArray[np.float32] | None:
    if uv is None or np.shape(uv) != (vertex_count, 2) or not np.isfinite(uv).all() or faces.max() >= vertex_count:
        return None
    corners: NDArray[np.float32] = np.asarray(uv, dtype=np.float32)[faces]
    return corners


def _name(material: Any) -> str | None:
    name = getattr(material, "name", None)
    return name.strip() or None if isinstance(name, str) else None


def _parse(file: Path, kind: str, data: bytes, resolver: _Neighbours) -> Any:
    import trimesh

    if kind not in trimesh.available_formats():
        raise MissingDependencyError(f"{file}: reading .{kind} needs the package pycollada: pip install pycollada")
    if kind in ("obj", "off") or (kind == "stl" and not _is_binary_stl(data)):
        data = utf8(data)  # trimesh guesses other encodings with a package that the base install lacks
    elif kind == "ply":
        header, end, body = data.partition(b"end_header")
        data = utf8(header) + end + body
    if kind == "obj":
        data = _with_material_library(data)
    try:
        with warnings.catch_warnings():
            # Mesh checks the data again and reports problems in our own words.
            warnings.simplefilter("ignore")
            return trimesh.load_scene(io.BytesIO(data), file_type=kind, resolver=resolver, process=False)
    except ParhelionError:
        raise
    except ImportError as error:
        raise missing_package(file, error) from error
    except (Exception, MemoryError) as error:  # third-party parsers: any failure means that the file is damaged
        missing = f" (it needs {', '.join(resolver.missing)}, which is missing)" if resolver.missing else ""
        reason = str(error).strip().splitlines()[0][:160] if str(error).strip() else type(error).__name__
        raise FormatError(f"{file}: not a whole .{kind} file{missing}: {reason}") from None


def _is_binary_stl(data: bytes) -> bool:
    """A binary STL file states its number of triangles, 50 bytes each, after a header of 80 bytes."""
    return len(data) >= 84 and len(data) == 84 + 50 * int.from_bytes(data[80:84], "little")


def _check_off_is_whole(file: Path, data: bytes, scene: Any) -> None:
    """Compare with the number of faces in the header, because trimesh accepts truncated files."""
    counts = re.search(rb"^\s*\w*OFF\s+(?:#[^\n]*\s+)*(\d+)\s+(\d+)", data)
    found = sum(len(geometry.faces) for geometry in scene.geometry.values() if hasattr(geometry, "faces"))
    if counts and found < int(counts[2]):
        raise FormatError(f"{file}: not a whole .off file: {found} of {int(counts[2])} faces")


def _with_material_library(data: bytes) -> bytes:
    """Add a material library to an OBJ that names materials but no library, so that the names are preserved."""
    if re.search(rb"^\s*usemtl\s", data, re.MULTILINE) and b"mtllib" not in data:
        return b"mtllib materials.mtl\n" + data
    return data


class _Neighbours:
    """trimesh resolver of referenced files: local files only; collects missing ones."""

    def __init__(self, file: Path, data: bytes) -> None:
        self.file_name = file.name
        self.folder = file.resolve().parent
        self.missing: list[str] = []
        self.used_materials: list[str] = []
        self.names_library = b"mtllib" in data
        if file.suffix.lower() == ".obj":
            names = re.findall(rb"^\s*usemtl[ \t]+([^\r\n]+)", data, re.MULTILINE)
            self.used_materials = list(dict.fromkeys(utf8(name).decode().strip() for name in names))

    def get(self, name: str) -> bytes:
        """Return the content of the file `name`; one pixel for images, all used materials for a material library."""
        name = unquote(name.strip())
        is_image = PurePath(name).suffix.lower() in _IMAGE_SUFFIXES
        if is_image and self.file_name.lower().endswith(".obj"):
            return _ONE_PIXEL  # the reader of MTL libraries reports missing images
        is_library = bool(self.used_materials) and not is_image
        path = self.find(name)
        if path is None:
            if not is_library or self.names_library:
                self.missing.append(name)
            if not (is_image or is_library):
                raise FileNotFoundError(f"{name} is missing")
        if is_image:
            return _ONE_PIXEL
        content = b"" if path is None else read_bytes(path)
        return _with_names(utf8(content), self.used_materials) if is_library else content

    __getitem__ = get

    def content(self, name: str) -> bytes:
        """Return the content of the file `name`, images included; a missing one raises FileNotFoundError."""
        path = self.find(unquote(name.strip()))
        if path is None:
            self.missing.append(name)
            raise FileNotFoundError(f"{name} is missing")
        return read_bytes(path)

    def find(self, name: str) -> Path | None:
        """Find a file in the folder of the mesh: by path, else by name (exporters write paths of other machines)."""
        for candidate in (name.replace("\\", "/"), PureWindowsPath(name).name):
            try:
                path = (self.folder / candidate).resolve()
                if path.is_relative_to(self.folder) and path.is_file():
                    return path
            except (OSError, ValueError):  # names too long, or with a null character
                continue
        return None


def _with_names(library: bytes, used: list[str]) -> bytes:
    """Complete an MTL library with the materials `used`, so that a missing library does not lose their names."""
    known = {name.decode("utf-8", "replace").strip() for name in re.findall(rb"newmtl[ \t]+([^\r\n]+)", library)}
    lacking = [name for name in used if name not in known]
    return library + "".join(f"\nnewmtl {name}\nKd 0.5 0.5 0.5\n" for name in lacking).encode()
