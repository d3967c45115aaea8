"""The forms that links have: boxes, cylinders, spheres, capsules and mesh files, as triangles in the link's frame."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from parhelion.core.errors import FormatError, ParhelionError
from parhelion.core.pose import Pose
from parhelion.world import shapes
from parhelion.world.loaders import MESH_SUFFIXES, LoadedMesh, LoadedPart, load_mesh
from parhelion.world.mesh import Mesh
from parhelion.world.urdf.paths import MeshPaths
from parhelion.world.urdf.xml import Node
from parhelion.world.xml_text import guarded_text

Color = tuple[float, float, float, float]
"""Red, green, blue and opacity, each within 0 to 1."""

LARGEST_COLLADA_BYTES = 512 * 1024 * 1024

_UNIT = re.compile(r"<unit\b[^>]*?\bmeter\s*=\s*[\"']\s*([0-9.eE+-]+)\s*[\"']")


class MeshShelf:
    """Mesh files of one robot, each read once and only when its triangles are asked for."""

    def __init__(self) -> None:
        self._read: dict[Path, tuple[LoadedMesh, float]] = {}

    def read(self, file: Path) -> tuple[LoadedMesh, float]:
        """What a file holds, and the length of its unit [m]."""
        if file not in self._read:
            unit = collada_unit(file) if file.suffix.lower() == ".dae" else 1.0
            self._read[file] = load_mesh(file), unit
        return self._read[file]


def collada_unit(file: Path) -> float:
    """Length [m] of the unit that a COLLADA file declares, 1 where it declares none; refuses files with entities.

    Viewers of robots apply the unit and leave the axes as they are (COLLADA's up axis is not heeded), and so do we.
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
    """Its name in the file, or its number within the link."""
    kind: str
    """'box', 'cylinder', 'sphere', 'capsule' or 'mesh'."""
    origin: Pose
    """Pose in the link's frame."""
    size: tuple[float, ...]
    """Sides of a box, radius of a sphere, radius and length of others [m]; factors along x, y, z of a mesh."""
    file: Path | None = None
    """Mesh file, which is read when triangles are asked for."""
    material: str | None = None
    """Name of the material in the URDF."""
    color: Color | None = None
    where: str = field(default="", repr=False)
    shelf: MeshShelf = field(default_factory=MeshShelf, repr=False)

    @cached_property
    def parts(self) -> tuple[LoadedPart, ...]:
        """Triangles in the link's frame, one part for each material that a mesh file names."""
        try:
            if self.file is None:
                return (LoadedPart(_plain(self.kind, self.size).transformed(self.origin), None),)
            loaded, unit = self.shelf.read(self.file)
            factors = np.array(self.size) * unit
            return tuple(
                LoadedPart(_stretched(part.mesh, factors).transformed(self.origin), part.material)
                for part in loaded.parts
            )
        except ParhelionError as error:
            raise type(error)(f"{self.where}: {error}") from None

    @property
    def mesh(self) -> Mesh:
        """All triangles in the link's frame."""
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
    """The mesh with each axis scaled; triangles keep their outside where the factors mirror."""
    if np.all(factors == 1.0):
        return mesh
    turn = -1 if np.prod(np.sign(factors)) < 0 else 1
    uv = None if mesh.uv is None else mesh.uv[:, ::turn]
    return Mesh(mesh.vertices * factors, mesh.faces[:, ::turn], uv)


def read_shape(
    node: Node,
    number: int,
    paths: MeshPaths,
    shelf: MeshShelf,
    material: str | None = None,
    color: Color | None = None,
) -> LinkShape:
    """The shape that a <visual> or <collision> describes."""
    geometry = node.needed("geometry")
    forms = geometry.children()
    if len(forms) != 1 or forms[0].tag not in ("box", "cylinder", "sphere", "capsule", "mesh"):
        found = ", ".join(f"<{form.tag}>" for form in forms) or "nothing"
        raise geometry.fail(f"must hold one of box, cylinder, sphere, capsule and mesh, got {found}")
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
            raise form.fail(f"{file.name} is no mesh file that can be read; endings known: {', '.join(MESH_SUFFIXES)}")
    else:
        size = (*form.positive("radius"), *form.positive("length"))
    name = (node.element.get("name") or "").strip() or str(number)
    return LinkShape(name, form.tag, node.origin(), size, file, material, color, node.where, shelf)


def _mesh_scale(form: Node) -> tuple[float, ...]:
    words = (form.element.get("scale") or "1 1 1").split()
    scale = form.numbers("scale", 1) * 3 if len(words) == 1 else form.numbers("scale", 3, (1, 1, 1))
    if 0.0 in scale:
        raise form.fail(f"scale must not be zero, got {form.element.get('scale')!r}")
    return scale


class MaterialTable:
    """The materials that a URDF defines: a name, and a colour where one is given."""

    def __init__(self, robot: Node) -> None:
        self.notes: list[str] = []
        self._colors: dict[str, Color] = {}
        inside = [m for link in robot.children("link") for v in link.children("visual") for m in v.children("material")]
        # Those of the robot go before one of the same name in a link.
        for node in [*robot.children("material"), *inside]:
            name, color = (node.element.get("name") or "").strip(), self._color(node)
            if name and color is not None:
                self._colors.setdefault(name, color)

    def of(self, visual: Node) -> tuple[str | None, Color | None]:
        """Name and colour of a visual's material, None for what is not said."""
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
            note = f"{entry.place}: rgba is not within 0 to 1 and is left out"
            if note not in self.notes:
                self.notes.append(note)
            return None
        return red, green, blue, opacity
