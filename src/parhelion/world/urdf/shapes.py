"""Shapes of links: boxes, cylinders, spheres, capsules and mesh files, as triangles in the frame of the link."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from os import PathLike
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from parhelion.core.errors import ConfigError, FormatError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.surfaces.library import match_material
from parhelion.world import shapes
from parhelion.world.loaders import MESH_SUFFIXES, LoadedMesh, LoadedPart, load_mesh
from parhelion.world.mesh import Mesh
from parhelion.world.part_materials import MaterialLike
from parhelion.world.xml import Node, guarded_text, parse_xml

# ---- Search of mesh files: `package://`, `file://` and plain paths --------------------------------------------------


Packages = Mapping[str, "str | PathLike[str]"]
"""Folders of packages, by name."""


class MeshPaths:
    """Finds the files that a URDF refers to, in the given folders and in those above the URDF."""

    def __init__(self, file: Path, packages: Packages | None) -> None:
        self.file = file
        self.packages = _checked(packages)
        # A workspace may contain symbolic links to files elsewhere: both folders are searched, the named one first.
        homes = dict.fromkeys([file.absolute().parent, file.resolve().parent])
        self.above = list(dict.fromkeys(folder for home in homes for folder in (home, *home.parents)))
        self._names: dict[Path, str | None] = {}

    def find(self, uri: str, where: str) -> Path:
        """Return the file of a `uri`; `where` is the element for the error message."""
        scheme, mark, rest = uri.strip().replace("\\", "/").partition("://")
        if not mark:
            scheme, rest = "", scheme
        if scheme in ("package", "model"):
            return self._in_package(rest, uri, where)
        if scheme == "file":
            rest = unquote(rest)
        elif scheme:
            raise ConfigError(f"{where}: filename {uri!r}: must be package://, model://, file:// or a plain path")
        for folder in self.above:
            # Joining leaves an absolute path unchanged.
            if _holds((folder / rest).is_file):
                return folder / rest
        raise ConfigError(f"{where}: filename {uri!r}: no such file in {self.above[0]} or a folder above it")

    def _in_package(self, rest: str, uri: str, where: str) -> Path:
        package, _, inside = rest.partition("/")
        if package in self.packages:
            path = self.packages[package] / inside
            if not _holds(path.is_file):
                raise ConfigError(f"{where}: filename {uri!r}: no such file {path}")
            return path
        searched = []
        for folder in self._folders(package):
            if _holds((folder / inside).is_file):
                return folder / inside
            searched.append(folder)
        if searched:
            raise ConfigError(f"{where}: filename {uri!r}: no such file {searched[0] / inside}")
        raise ConfigError(
            f"{where}: filename {uri!r}: no package {package!r} at or above {self.above[0]}; "
            f"pass packages={{{package!r}: its folder}}"
        )

    def _folders(self, package: str) -> Iterator[Path]:
        """Folders that may be the package, nearest first: by name, by package.xml, or as a subfolder of one above."""
        for folder in self.above:
            if folder.name == package or self._name_of(folder) == package:
                yield folder
            if package and _holds((folder / package).is_dir):
                yield folder / package

    def _name_of(self, folder: Path) -> str | None:
        """Name of a package in the package.xml of a folder."""
        if folder not in self._names:
            self._names[folder] = None
            manifest = folder / "package.xml"
            if _holds(manifest.is_file):
                try:
                    name = parse_xml(manifest, guarded_text(manifest)).findtext("name")
                except ParhelionError:
                    name = None  # a damaged file of another package is no reason to stop
                self._names[folder] = name.strip() if name else None
        return self._names[folder]


def _checked(packages: Any) -> dict[str, Path]:
    if packages is None:
        return {}
    if not isinstance(packages, Mapping):
        raise ConfigError(f"packages: must map names of packages to folders, got {type(packages).__name__}")
    folders = {}
    for name, folder in packages.items():
        if not isinstance(name, str) or not isinstance(folder, (str, PathLike)) or not _holds(Path(folder).is_dir):
            raise ConfigError(f"packages: {name!r} must name a folder that exists, got {str(folder)!r}")
        folders[name] = Path(folder)
    return folders


def _holds(test: Callable[[], bool]) -> bool:
    """Result of a test of a path; False for names that are too long, or have a null character."""
    try:
        return test()
    except (OSError, ValueError):
        return False


# ---- shapes ---------------------------------------------------------------------------------------------------------


Color = tuple[float, float, float, float]
"""Red, green, blue and opacity, each within 0 to 1."""

LARGEST_COLLADA_BYTES = 512 * 1024 * 1024

_UNIT = re.compile(r"<unit\b[^>]*?\bmeter\s*=\s*[\"']\s*([0-9.eE+-]+)\s*[\"']")


class MeshCache:
    """Mesh files of one robot, each read once and only when its triangles are needed."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[LoadedMesh, float]] = {}

    def read(self, file: Path) -> tuple[LoadedMesh, float]:
        """Return the content of a file, and the length of its unit [m]."""
        if file not in self._read:
            unit = collada_unit(file) if file.suffix.lower() == ".dae" else 1.0
            self._read[file] = load_mesh(file), unit
        return self._read[file]


def collada_unit(file: Path) -> float:
    """Length [m] of the unit that a COLLADA file declares, by default 1; files with entities are refused.

    Like robot viewers, we apply the unit and ignore COLLADA's up axis.
    """
    found = _UNIT.search(guarded_text(file, LARGEST_COLLADA_BYTES))
    try:
        unit = float(found[1]) if found else 1.0
    except ValueError:
        unit = float("nan")
    if not (np.isfinite(unit) and unit > 0):
        raise FormatError(f"{file}: unit: meter must be a positive number, got {found[1] if found else ''!r}")
    return unit


@dataclass(frozen=True, eq=False)
class LinkShape:
    """One visual or collision shape of a link."""

    name: str
    """Name in the file, or number within the link."""
    kind: str
    """'box', 'cylinder', 'sphere', 'capsule' or 'mesh'."""
    origin: Pose
    """Pose in the link's frame."""
    size: tuple[float, ...]
    """Sides of a box, radius of a sphere, radius and length of others [m]; factors along x, y, z of a mesh."""
    file: Path | None = None
    """Mesh file, which is read when its triangles are needed."""
    material: str | None = None
    """Name of the material in the URDF."""
    color: Color | None = None
    where: str = field(default="", repr=False)
    cache: MeshCache = field(default_factory=MeshCache, repr=False)

    @cached_property
    def parts(self) -> tuple[LoadedPart, ...]:
        """Triangles in the frame of the link, one part per material of a mesh file."""
        try:
            if self.file is None:
                return (LoadedPart(_plain(self.kind, self.size).transformed(self.origin), None),)
            loaded, unit = self.cache.read(self.file)
            factors = np.array(self.size) * unit
            return tuple(
                LoadedPart(_stretched(part.mesh, factors).transformed(self.origin), part.material)
                for part in loaded.parts
            )
        except ParhelionError as error:
            raise type(error)(f"{self.where}: {error}") from None

    @property
    def mesh(self) -> Mesh:
        """All triangles in the frame of the link."""
        return Mesh.merged([part.mesh for part in self.parts])


def _plain(kind: str, size: tuple[float, ...]) -> Mesh:
    if kind == "box":
        return shapes.box(*size)
    if kind == "sphere":
        return shapes.sphere(size[0])
    radius, length = size
    if kind == "cylinder":
        return shapes.cylinder(radius, length)
    ball = shapes.sphere(radius)
    ends = [ball.transformed(Pose((0, 0, z))) for z in (-length / 2, length / 2)]
    return Mesh.merged([shapes.cylinder(radius, length, caps=False), *ends])


def _stretched(mesh: Mesh, factors: np.ndarray) -> Mesh:
    """Return the mesh with each axis scaled; mirroring factors reverse the winding of the triangles."""
    if np.all(factors == 1.0):
        return mesh
    step = -1 if np.prod(np.sign(factors)) < 0 else 1
    uv = None if mesh.uv is None else mesh.uv[:, ::step]
    return Mesh(mesh.vertices * factors, mesh.faces[:, ::step], uv)


def read_shape(
    node: Node, number: int, paths: MeshPaths, cache: MeshCache, material: str | None = None, color: Color | None = None
) -> LinkShape:
    """Return the shape of a <visual> or <collision>."""
    geometry = node.needed("geometry")
    forms = geometry.children()
    if len(forms) != 1 or forms[0].tag not in ("box", "cylinder", "sphere", "capsule", "mesh"):
        found = ", ".join(f"<{form.tag}>" for form in forms) or "nothing"
        raise geometry.fail(f"must be one of box, cylinder, sphere, capsule and mesh, got {found}")
    form = forms[0]
    file: Path | None = None
    if form.tag == "box":
        size = form.positive("size", 3)
    elif form.tag == "sphere":
        size = form.positive("radius")
    elif form.tag == "mesh":
        size = _mesh_scale(form)
        file = paths.find(form.attribute("filename"), form.where)
        if file.suffix.lower() not in MESH_SUFFIXES:
            raise form.fail(f"{file.name} is not a supported mesh file; extensions: {', '.join(MESH_SUFFIXES)}")
    else:
        size = (*form.positive("radius"), *form.positive("length"))
    name = (node.element.get("name") or "").strip() or str(number)
    return LinkShape(name, form.tag, node.origin(), size, file, material, color, node.where, cache)


def _mesh_scale(form: Node) -> tuple[float, ...]:
    words = (form.element.get("scale") or "1 1 1").split()
    scale = form.numbers("scale", 1) * 3 if len(words) == 1 else form.numbers("scale", 3, (1, 1, 1))
    if 0.0 in scale:
        raise form.fail(f"scale must not be zero, got {form.element.get('scale')!r}")
    return scale


class MaterialTable:
    """Materials of a URDF: names, and colours if given."""

    def __init__(self, robot: Node) -> None:
        self.notes: list[str] = []
        self._colors: dict[str, Color] = {}
        inside = [m for link in robot.children("link") for v in link.children("visual") for m in v.children("material")]
        # Materials of the robot have priority over those of the same name in a link.
        for node in [*robot.children("material"), *inside]:
            name, color = (node.element.get("name") or "").strip(), self._color(node)
            if name and color is not None:
                self._colors.setdefault(name, color)

    def of(self, visual: Node) -> tuple[str | None, Color | None]:
        """Name and colour of the material of a visual; None if not given."""
        node = visual.child("material")
        if node is None:
            return None, None
        name = (node.element.get("name") or "").strip()
        color = self._color(node)
        return name or None, self._colors.get(name) if color is None else color

    def _color(self, node: Node) -> Color | None:
        entry = node.child("color")
        if entry is None:
            return None
        red, green, blue, opacity = entry.numbers("rgba", 4)
        if not all(0.0 <= value <= 1.0 for value in (red, green, blue, opacity)):
            note = f"{entry.place}: rgba is not within 0 to 1 and is ignored"
            if note not in self.notes:
                self.notes.append(note)
            return None
        return red, green, blue, opacity


# ---- Choice of a library material for a part of a robot -------------------------------------------------------------


DEFAULT_ROBOT_MATERIAL = "plastic"
"""Default material of a robot."""

PAINTS: Mapping[str, tuple[float, float, float]] = {
    "black": (0.05, 0.05, 0.05),
    "blue": (0.1, 0.2, 0.8),
    "green": (0.1, 0.6, 0.2),
    "grey": (0.4, 0.4, 0.4),
    "red": (0.8, 0.1, 0.1),
    "silver": (0.75, 0.75, 0.75),
    "white": (1.0, 1.0, 1.0),
    "yellow": (0.9, 0.8, 0.1),
}
"""Red, green and blue of each car paint of the library; rough values, because only the nearest paint counts."""


def choose_material(
    link: str, shape: LinkShape, part: LoadedPart, material: MaterialLike | None, materials: Mapping[str, MaterialLike]
) -> tuple[MaterialLike, str | None]:
    """Return the material of one part, and a note if it is a guess.

    In order of priority: `materials` by the name of the link, by the material name in the URDF and by that in the mesh
    file; `material`; a name in the library; the name of a colour in the material name, or the colour itself, as paint;
    plastic. As in robot viewers, the material of the URDF has priority over that of the mesh file.
    """
    names = [name for name in (shape.material, part.material) if name is not None]
    for key in (link, *names):
        if key in materials:
            return materials[key], None
    if material is not None:
        return material, None
    chosen, name = DEFAULT_ROBOT_MATERIAL, names[0] if names else None
    if name is not None:
        matched, guess = match_material(name)
        if guess is None:
            return matched.name, None
        chosen = matched.name
        words = re.findall(r"[a-z]+", name.lower().replace("gray", "grey"))
        paint = next((word for word in words if word in PAINTS), None)
        if paint is not None:
            return f"car-paint-{paint}", f"{name!r} -> 'car-paint-{paint}'"
    if shape.color is not None:
        chosen = nearest_paint(shape.color)
        source = repr(name) if name is not None else "colour {:g} {:g} {:g}".format(*shape.color[:3])
        return chosen, f"{source} -> {chosen!r}"
    return chosen, f"{'no material' if name is None else repr(name)} -> {chosen!r}"


def nearest_paint(color: Color) -> str:
    """Car paint whose colour is nearest to red, green and blue from 0 to 1."""
    table = np.array(list(PAINTS.values()))
    row = int(np.argmin(((table - np.array(color[:3])) ** 2).sum(axis=1)))
    return f"car-paint-{list(PAINTS)[row]}"
