"""Worlds in SDF (Gazebo) and MJCF (MuJoCo): visual shapes as static objects with the colours of their materials.

SDF: http://sdformat.org/spec. Models, nested models, links, frames and includes by path or `model://` are read; poses
may be relative to a frame, a link or a model of the same scope. Physics, sensors, lights and plugins are omitted.
Materials take the class whose name or colour is nearest, see `guess.py`.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Pose
from parhelion.core.reading import file_reader, read_bytes
from parhelion.surfaces.appearance import Appearance
from parhelion.world import shapes
from parhelion.world.appearances import PictureStore
from parhelion.world.guess import guess
from parhelion.world.loaders import MESH_SUFFIXES, LoadedMesh, LoadedPart, load_mesh
from parhelion.world.mesh import Mesh
from parhelion.world.mjcf import MujocoScene
from parhelion.world.urdf.shapes import MeshPaths, collada_unit
from parhelion.world.xml import Node, guarded_text, parse_xml

if TYPE_CHECKING:
    from parhelion.world.world import World

SDF_SUFFIXES = (".sdf", ".world")
"""Extensions of SDF worlds."""
MJCF_SUFFIXES = (".xml", ".mjcf")
"""Extensions of MJCF models."""
DEEPEST_INCLUDE = 8
"""Largest depth of includes and nested models."""
MOST_MODELS = 10_000
"""Largest number of models, included ones counted each time."""
PLANE_M = 200.0
"""Side length of a plane that states none; planes are infinite in collisions only [m]."""


@dataclass
class _Scope:
    """A model, with the raw poses of its links, frames and models by name."""

    node: Node
    paths: MeshPaths
    pose: Pose
    """Pose in the world."""
    name: str
    depth: int
    raw: dict[str, tuple[Node, str]] = field(default_factory=dict)
    """Element and the frame that its pose is relative to by default, by name; "" is the scope itself."""

    def place(self, node: Node, default: str = "", seen: tuple[str, ...] = ()) -> Pose:
        """Pose of an element in this scope."""
        entry = node.child("pose")
        base = default if entry is None else (entry.element.get("relative_to") or entry.element.get("frame") or default)
        own = Pose() if entry is None else _pose(entry)
        if base in ("", "__model__", "world", self.name):
            return own
        if base in seen or len(seen) > 64:
            raise node.fail(f"relative_to {base!r} leads back to itself")
        if base not in self.raw:
            raise node.fail(f"relative_to {base!r}: no such link, frame or model in {self.name!r}")
        other, its_default = self.raw[base]
        return self.place(other, its_default, (*seen, base)) @ own


def _pose(entry: Node) -> Pose:
    words = (entry.element.text or "").split()
    if not words:
        return Pose()
    if (entry.element.get("rotation_format") or "") == "quat_xyzw":
        values = entry.text_numbers(7)
        return Pose(values[:3], values[3:])
    values = entry.text_numbers(6)
    angles = values[3:] if (entry.element.get("degrees") or "") in ("true", "1") else np.degrees(values[3:]).tolist()
    return Pose(values[:3], rpy_deg=angles)


class SdfReader:
    """Adds the models of an SDF file to a world, and counts what is omitted."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.omitted: dict[str, int] = {}
        self.guesses: dict[str, str] = {}
        self._models = 0
        self._meshes: dict[Path, LoadedMesh] = {}

    def read(self, file: Path, pose: Pose = Pose(), name: str | None = None, depth: int = 0) -> None:
        """Add the models of a file at a pose."""
        root = Node(parse_xml(file, guarded_text(file)), file)
        if root.tag != "sdf":
            raise FormatError(f"{file}: its root must be <sdf>, got <{root.tag}>")
        paths = MeshPaths(file, None)
        holders = root.children("world") or [root]
        for holder in holders:
            scope = _Scope(holder, paths, pose, "", depth)
            self._collect(scope)
            self._models_of(scope, name)
            self._count(holder, ("light", "actor", "plugin", "road", "population"))

    def _collect(self, scope: _Scope) -> None:
        for tag in ("frame", "link", "model"):
            for child in scope.node.children(tag):
                default = (child.element.get("attached_to") or "") if tag == "frame" else ""
                scope.raw[child.attribute("name")] = (child, default)

    def _models_of(self, scope: _Scope, name: str | None = None) -> None:
        for model in scope.node.children("model"):
            own = name or model.attribute("name")
            self._model(model, scope, scope.pose @ scope.place(model), own, scope.depth + 1)
        for include in scope.node.children("include"):
            uri = include.needed("uri").element.text or ""
            file = self._included(uri.strip(), include, scope.paths)
            if scope.depth >= DEEPEST_INCLUDE:
                raise include.fail(f"includes are nested deeper than {DEEPEST_INCLUDE}")
            entry = include.child("name")
            label = (entry.element.text or "").strip() if entry is not None else None
            self.read(file, scope.pose @ scope.place(include), label or None, scope.depth + 1)

    def _included(self, uri: str, node: Node, paths: MeshPaths) -> Path:
        """File of an include: the SDF itself, or `model.sdf` in the folder of a model."""
        if uri.startswith(("http://", "https://")):
            raise node.fail(f"uri {uri!r}: models are not downloaded; put the model next to the world and use its path")
        return paths.find(uri if uri.endswith(SDF_SUFFIXES) else f"{uri.rstrip('/')}/model.sdf", node.where)

    def _model(self, node: Node, parent: _Scope, pose: Pose, name: str, depth: int) -> None:
        self._models += 1
        if self._models > MOST_MODELS:
            raise node.fail(f"the world has more than {MOST_MODELS} models")
        if depth > 2 * DEEPEST_INCLUDE:
            raise node.fail(f"models are nested deeper than {2 * DEEPEST_INCLUDE}")
        scope = _Scope(node, parent.paths, pose, name, depth)
        self._collect(scope)
        instance: int | None = None
        for link in node.children("link"):
            at = pose @ scope.place(link)
            for visual in link.children("visual"):
                added = self._visual(visual, scope, at, f"{name}/{link.attribute('name')}", instance)
                instance = added if instance is None else instance
            self._count(link, ("sensor", "light"))
        self._count(node, ("plugin",))
        self._models_of(scope)

    def _visual(self, node: Node, scope: _Scope, pose: Pose, owner: str, instance: int | None) -> int | None:
        local = scope.place(node) if node.child("pose") is None or not _relative(node) else None
        if local is None:
            raise node.fail("the pose of a visual must be relative to its link")
        geometry = node.needed("geometry")
        forms = [one for one in geometry.children() if one.tag != "empty"]
        if not forms:
            return None
        look, title = self._appearance(node, scope.paths)
        loaded = self._shape(forms[0], scope.paths, look, title)
        if loaded is None:
            return None
        is_ground = forms[0].tag in ("plane", "heightmap")
        item = self.world.add(
            loaded,
            materials=None,
            label="ground" if is_ground else "object",
            name=f"{owner}/{node.attribute('name')}",
            pose=pose @ local,
            instance=instance,
        )
        return item.instance

    def _shape(self, form: Node, paths: MeshPaths, look: Appearance | None, title: str | None) -> LoadedMesh | None:
        if form.tag == "mesh":
            uri = (form.needed("uri").element.text or "").strip()
            scale_entry = form.child("scale")
            scale = np.array((1.0, 1.0, 1.0) if scale_entry is None else scale_entry.text_numbers(3))
            if np.any(scale == 0.0):
                raise form.fail("scale must not be zero")
            found = paths.find(uri, form.where)
            if found.suffix.lower() not in MESH_SUFFIXES:
                raise form.fail(f"{found.name} is not a supported mesh file; extensions: {', '.join(MESH_SUFFIXES)}")
            if found not in self._meshes:
                self._meshes[found] = load_mesh(found)
            loaded = self._meshes[found]
            unit = collada_unit(found) if found.suffix.lower() == ".dae" else 1.0
            parts = tuple(
                LoadedPart(_scaled(one.mesh, scale * unit), title or one.material, look or one.appearance)
                for one in loaded.parts
            )
            return LoadedMesh(parts, form.where)
        mesh = self._primitive(form)
        return None if mesh is None else LoadedMesh((LoadedPart(mesh, title, look),), form.where)

    def _primitive(self, form: Node) -> Mesh | None:
        def size(name: str, count: int = 1) -> tuple[float, ...]:
            values = form.needed(name).text_numbers(count)
            if not all(value > 0.0 for value in values):
                raise form.fail(f"{name} must be positive")
            return values

        if form.tag == "box":
            return shapes.box(*size("size", 3))
        if form.tag == "sphere":
            return shapes.sphere(size("radius")[0])
        if form.tag == "ellipsoid":
            return shapes.sphere(1.0).scaled(size("radii", 3))
        if form.tag == "cylinder":
            return shapes.cylinder(size("radius")[0], size("length")[0])
        if form.tag == "cone":
            return shapes.cone(size("radius")[0], size("length")[0])
        if form.tag == "capsule":
            radius, length = size("radius")[0], size("length")[0]
            ends = [shapes.sphere(radius).transformed(Pose((0, 0, z))) for z in (-length / 2, length / 2)]
            return Mesh.merged([shapes.cylinder(radius, length, caps=False), *ends])
        if form.tag == "plane":
            entry = form.child("size")
            width, length = (PLANE_M, PLANE_M) if entry is None else entry.text_numbers(2)
            plane = shapes.plane(width, length)
            normal = form.child("normal")
            return plane if normal is None else _facing(plane, np.array(normal.text_numbers(3)), form)
        self.omitted[f"<{form.tag}>"] = self.omitted.get(f"<{form.tag}>", 0) + 1
        return None

    def _appearance(self, node: Node, paths: MeshPaths) -> tuple[Appearance | None, str | None]:
        """Appearance and name of the material of a visual; None and None without one."""
        material = node.child("material")
        if material is None:
            return None, None
        script = material.child("script")
        names = [] if script is None else [one.element.text or "" for one in script.children("name")]
        name = names[0].rpartition("/")[2].strip() if names else None
        metal = None if material.child("pbr") is None else material.needed("pbr").child("metal")
        diffuse, emissive = material.child("diffuse"), material.child("emissive")
        if diffuse is None and metal is None and emissive is None:
            return None, name or None
        base = (0.7, 0.7, 0.7, 1.0) if diffuse is None else _rgba(diffuse)
        glow = (0.0, 0.0, 0.0, 1.0) if emissive is None else _rgba(emissive)
        store, values = PictureStore(node.file), {"roughness": 0.6, "metalness": 0.0}
        picture = None
        if metal is not None:
            for key in values:
                entry = metal.child(key)
                if entry is not None:
                    values[key] = float(np.clip(entry.text_numbers(1)[0], 0.0, 1.0))
            albedo = metal.child("albedo_map")
            if albedo is not None:
                file = paths.find((albedo.element.text or "").strip(), albedo.where)
                picture = store.picture(str(file), lambda _: (read_bytes(file), file.name))
                base = base if diffuse is not None else (1.0, 1.0, 1.0, 1.0)
        look = Appearance(
            base=base[:3],
            opacity=base[3],
            metallic=values["metalness"],
            roughness=values["roughness"],
            emission_cd_m2=glow[:3],
            alpha_mode="blend" if base[3] < 1.0 else "opaque",
            base_picture=picture,
        )
        title = name or "colour {:.2f} {:.2f} {:.2f}".format(*base[:3])
        self.guesses[title] = guess(name, look).name
        return look, title

    def _count(self, node: Node, tags: tuple[str, ...]) -> None:
        for tag in tags:
            found = len(node.children(tag))
            if found:
                self.omitted[f"<{tag}>"] = self.omitted.get(f"<{tag}>", 0) + found


def _relative(node: Node) -> bool:
    entry = node.child("pose")
    return entry is not None and bool(entry.element.get("relative_to"))


def _rgba(entry: Node) -> tuple[float, float, float, float]:
    count = len((entry.element.text or "").split())
    values = np.clip(entry.text_numbers(3 if count == 3 else 4), 0.0, 1.0).tolist()
    return values[0], values[1], values[2], values[3] if len(values) == 4 else 1.0


def _scaled(mesh: Mesh, factors: Any) -> Mesh:
    if np.all(factors == 1.0):
        return mesh
    step = -1 if np.prod(np.sign(factors)) < 0 else 1
    return Mesh(mesh.vertices * factors, mesh.faces[:, ::step], None if mesh.uv is None else mesh.uv[:, ::step])


def _facing(plane: Mesh, normal: Any, form: Node) -> Mesh:
    """Plane turned from z to another normal."""
    length = float(np.linalg.norm(normal))
    if length < 1e-9:
        raise form.fail("normal must not be zero")
    x, y, z = normal / length
    if z > 1.0 - 1e-12:
        return plane
    pitch, yaw = float(np.degrees(np.arccos(np.clip(z, -1.0, 1.0)))), float(np.degrees(np.arctan2(y, x)))
    return plane.transformed(Pose(rpy_deg=(0.0, pitch, yaw)))


# ---- loading --------------------------------------------------------------------------------------------------------


@file_reader(ConfigError)
def load_sdf(path: str | PathLike[str]) -> World:
    """Return the world of an SDF file."""
    from parhelion.world.world import World

    file = Path(path)
    world = World(file.stem)
    reader = SdfReader(world)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*materials guessed")  # one warning for all below
        reader.read(file)
    if not world.objects:
        raise FormatError(f"{file}: it has no visual shapes")
    _warn(file, reader.guesses, reader.omitted)
    return world


@file_reader(ConfigError)
def load_mjcf(path: str | PathLike[str]) -> World:
    """Return the bodies of an MJCF model in its initial state, each with its own instance number."""
    from parhelion.world.world import World

    file = Path(path)
    scene = MujocoScene(file)
    world = World(file.stem)
    guesses: dict[str, str] = {}
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*materials guessed")
        for body in scene.bodies:
            instance: int | None = None
            for geom in body.geoms:
                look = _of_geom(scene, geom.name)
                if look is not None:
                    guesses[geom.material or geom.name] = guess(geom.material, look).name
                title = geom.material or (None if look is None else geom.name)
                loaded = LoadedMesh((LoadedPart(geom.mesh, title, look),), f"{file}: geom {geom.name!r}")
                is_ground = body.number == 0 and np.ptp(geom.mesh.vertices[:, 2]) == 0.0
                item = world.add(
                    loaded, label="ground" if is_ground else "object", name=f"{body.name}/{geom.name}", pose=body.start,
                    instance=instance,
                )  # fmt: skip
                instance = item.instance if instance is None else instance
    if not world.objects:
        raise FormatError(f"{file}: it has no visible geoms")
    _warn(file, guesses, {})
    return world


def _of_geom(scene: MujocoScene, name: str) -> Appearance | None:
    """Appearance of a geom by the colour of its material, or its own."""
    model = scene.model
    try:
        number = int(model.geom(name).id)
    except KeyError:
        number = int(name.rpartition("-")[2])  # geoms without a name are numbered
    material = int(model.geom_matid[number])
    rgba = model.mat_rgba[material] if material >= 0 else model.geom_rgba[number]
    red, green, blue, opacity = (float(value) for value in np.clip(rgba, 0.0, 1.0))
    glow = float(model.mat_emission[material]) if material >= 0 else 0.0
    return Appearance(
        base=(red, green, blue),
        opacity=opacity,
        roughness=0.6,
        emission_cd_m2=(glow * red, glow * green, glow * blue),
        alpha_mode="blend" if opacity < 1.0 else "opaque",
    )


def _warn(file: Path, guesses: Mapping[str, str], omitted: Mapping[str, int]) -> None:
    if guesses:
        shown = ", ".join(f"{name!r} -> {kind!r}" for name, kind in list(guesses.items())[:12])
        more = f" and {len(guesses) - 12} more" if len(guesses) > 12 else ""
        warnings.warn(f"{file}: materials guessed: {shown}{more}; save the world as YAML to change them", stacklevel=4)
    if omitted:
        listed = ", ".join(f"{count} {name}" for name, count in omitted.items())
        warnings.warn(f"{file}: omitted: {listed}", stacklevel=4)
