"""Bodies of USD stages: the visible geometry as meshes, and the poses of rigid bodies.

A prim with the schema `PhysicsRigidBodyAPI` is a body that moves, with the geometry below it up to the next body; all
other geometry is static. Lengths are converted to metres, and a stage with y up to z up.
"""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats, Pose, quat_from_matrix
from parhelion.core.reading import read_bytes
from parhelion.world import shapes
from parhelion.world.mesh import Mesh
from parhelion.world.usd import USD_SUFFIXES as SUFFIXES
from parhelion.world.usd import pxr_modules

MOST_TRIANGLES = 50_000_000
_MOST_BYTES = 2 * 1024**3
_MOST_LAYERS = 10_000
_TO_Z_UP = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])
_TO_AXIS = {
    "X": np.array([[0.0, 0.0, 1.0], [0.0, 1.0, 0.0], [-1.0, 0.0, 0.0]]),
    "Y": np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0], [0.0, -1.0, 0.0]]),
    "Z": np.eye(3),
}
"""Rotation of a shape along z to the axis of a USD shape."""


@dataclass(frozen=True, eq=False)
class UsdGeometry:
    """Visible triangles with one material."""

    name: str
    """Path of the prim."""
    material: str
    """Name of the bound material; may be empty."""
    mesh: Mesh
    """Mesh in the frame of its body [m]."""


@dataclass(frozen=True, eq=False)
class UsdBody:
    """A rigid body, or a static prim with geometry."""

    name: str
    """Name of the prim; its path with underscores if several have the same name."""
    path: str
    """Path of the prim."""
    moves: bool
    start: Pose
    """Pose at the first time of the stage; the identity for static prims."""
    geoms: tuple[UsdGeometry, ...]


@dataclass
class _Found:
    """Geometry of a body while it is collected."""

    path: str
    moves: bool
    start: Pose
    geoms: list[UsdGeometry] = field(default_factory=list)


class UsdScene:
    """Bodies of a USD stage.

    Layers, references and payloads are only read from the folder of the file and below.

    Args:
        file: .usd, .usda, .usdc or .usdz.
    """

    def __init__(self, file: str | PathLike[str]) -> None:
        self.path = Path(file)
        self._pxr = pxr_modules()
        if self.path.suffix.lower() not in SUFFIXES:
            raise ConfigError(f"{self.path}: not a USD file; extensions: {', '.join(SUFFIXES)}")
        read_bytes(self.path, ConfigError, largest=_MOST_BYTES, what="a USD file")
        self._check_layers()
        geom, usd = self._pxr.UsdGeom, self._pxr.Usd
        try:
            self.stage = usd.Stage.Open(str(self.path))
        except self._pxr.Tf.ErrorException as error:
            raise FormatError(f"{self.path}: {_first_line(error)}") from None
        self.metres_per_unit = float(geom.GetStageMetersPerUnit(self.stage))
        """Length of a unit of the stage [m]."""
        self.up = str(geom.GetStageUpAxis(self.stage))
        """Axis that points up: Y or Z."""
        self.omitted: list[str] = []
        """Paths of prims with geometry of unsupported types."""
        self._axes = _TO_Z_UP if self.up == "Y" else np.eye(3)
        self._transforms = geom.XformCache(usd.TimeCode.EarliestTime())
        self._count = 0
        self.bodies = self._bodies()
        """Bodies with visible geometry."""

    def _check_layers(self) -> None:
        """Raise FormatError if a layer refers to a file outside the folder of the stage."""
        sdf, folder = self._pxr.Sdf, self.path.resolve().parent
        waiting, seen = [str(self.path.resolve())], set()
        while waiting:
            name = waiting.pop()
            if name in seen:
                continue
            seen.add(name)
            if len(seen) > _MOST_LAYERS:
                raise FormatError(f"{self.path}: refers to more than {_MOST_LAYERS} layers")
            try:
                layer = sdf.Layer.FindOrOpen(name)
            except self._pxr.Tf.ErrorException as error:
                raise FormatError(f"{self.path}: {_first_line(error)}") from None
            if layer is None:
                if name == str(self.path.resolve()):
                    raise FormatError(f"{self.path}: cannot be read; the file may be damaged")
                continue  # a missing reference; the stage is opened without it
            for one in layer.GetCompositionAssetDependencies():
                # Layers in a package (.usdz) have the file in front of brackets.
                place = layer.ComputeAbsolutePath(one).partition("[")[0]
                if not Path(os.path.realpath(place)).is_relative_to(folder):
                    raise FormatError(f"{self.path}: refers to {one}, which is not below {folder}")
                waiting.append(layer.ComputeAbsolutePath(one))

    # ---- prims -----------------------------------------------------------------------------------------------------

    def _bodies(self) -> tuple[UsdBody, ...]:
        found: dict[str, _Found] = {}
        for prim, body in self._prims():
            key = str((body or prim).GetPath())
            if key not in found:
                start = Pose() if body is None else self.pose_of(self._transforms.GetLocalToWorldTransform(body))
                found[key] = _Found(key, body is not None, start)
            found[key].geoms += self._geometries(prim, found[key].start)
        kept = [one for one in found.values() if one.geoms]
        if not kept:
            omitted = f"; {len(self.omitted)} prims have unsupported types" if self.omitted else ""
            raise FormatError(f"{self.path}: has no visible geometry{omitted}")
        count = Counter(one.path.rpartition("/")[2] for one in kept)
        named = []
        for one in kept:
            short = one.path.rpartition("/")[2]
            name = short if count[short] == 1 else one.path.strip("/").replace("/", "_")
            named.append(UsdBody(name, one.path, one.moves, one.start, tuple(one.geoms)))
        return tuple(named)

    def _prims(self) -> Iterator[tuple[Any, Any]]:
        """Visible prims with geometry, each with the body that carries it or None."""
        usd, geom, physics = self._pxr.Usd, self._pxr.UsdGeom, self._pxr.UsdPhysics
        bodies: dict[Any, Any] = {}
        walk = iter(usd.PrimRange(self.stage.GetPseudoRoot(), usd.TraverseInstanceProxies()))
        for prim in walk:
            path = prim.GetPath()
            own = prim if prim.HasAPI(physics.RigidBodyAPI) else bodies.get(path.GetParentPath())
            bodies[path] = own
            shown = geom.Imageable(prim)
            if not shown:
                continue
            if shown.ComputeVisibility() == geom.Tokens.invisible:
                walk.PruneChildren()
            elif prim.IsA(geom.PointInstancer):
                self.omitted.append(str(path))
                walk.PruneChildren()
            elif prim.IsA(geom.Gprim) and shown.ComputePurpose() in (geom.Tokens.default_, geom.Tokens.render):
                yield prim, own

    def pose_of(self, matrix: ArrayLike) -> Pose:
        """Pose of a body from its transform (4, 4) to the world of the stage, in USD's convention: rows are axes.

        For example `omni.usd.get_world_transform_matrix(prim)`. Scale is ignored.
        """
        rows = np.asarray(matrix, np.float64)
        if rows.shape != (4, 4) or not np.all(np.isfinite(rows)):
            raise ConfigError(f"{self.path}: a transform must be 4 x 4 finite numbers")
        axes = rows[:3, :3].T
        rotation = axes / np.linalg.norm(axes, axis=0)
        if np.linalg.det(rotation) < 0.0:  # a mirror is part of the geometry
            rotation[:, 2] *= -1.0
        xyz = self.metres_per_unit * (self._axes @ rows[3, :3])
        # The frame of a body has z up as well, so that poses from other sources fit.
        return Pose(xyz, quat_from_matrix(self._axes @ rotation @ self._axes.T))

    def _geometries(self, prim: Any, body: Pose) -> list[UsdGeometry]:
        """Meshes of a prim in the frame of a body, one per material."""
        made = self._triangles(prim)
        if made is None:
            self.omitted.append(str(prim.GetPath()))
            return []
        vertices, faces, parts = made
        self._count += len(faces)
        if self._count > MOST_TRIANGLES:
            raise FormatError(f"{self.path}: has more than {MOST_TRIANGLES} triangles")
        matrix = np.asarray(self._transforms.GetLocalToWorldTransform(prim), np.float64)
        world = self.metres_per_unit * ((vertices @ matrix[:3, :3] + matrix[3, :3]) @ self._axes.T)
        placed = body.inverse().apply(world)
        if np.linalg.det(matrix[:3, :3]) < 0.0:  # a mirror turns surfaces inside out
            faces = faces[:, ::-1]
        found = []
        for material, chosen in parts:
            try:
                mesh, _ = Mesh.cleaned(placed, faces if chosen is None else faces[chosen], None)
            except ConfigError as error:
                raise FormatError(f"{self.path}: {prim.GetPath()}: {error}") from None
            if mesh is not None:
                found.append(UsdGeometry(str(prim.GetPath()), material, mesh))
        return found

    def _material(self, prim: Any) -> str:
        bound = self._pxr.UsdShade.MaterialBindingAPI(prim).ComputeBoundMaterial()[0]
        return str(bound.GetPrim().GetName()) if bound else ""

    # ---- shapes ----------------------------------------------------------------------------------------------------

    def _triangles(self, prim: Any) -> tuple[Floats, NDArray[np.intp], list[tuple[str, Any]]] | None:
        """Vertices in units of the stage, triangles, and material and triangles of each part; None if unsupported."""
        geom = self._pxr.UsdGeom
        if prim.IsA(geom.Mesh):
            return self._mesh(geom.Mesh(prim))
        mesh: Mesh | None = None
        axis = "Z"

        def value(name: str) -> float:
            return float(prim.GetAttribute(name).Get())

        if prim.IsA(geom.Cube):
            mesh = shapes.box(*3 * [value("size")])
        elif prim.IsA(geom.Sphere):
            mesh = shapes.sphere(value("radius"))
        elif prim.IsA(geom.Cylinder):
            mesh = shapes.cylinder(value("radius"), value("height"))
        elif prim.IsA(geom.Cone):
            mesh = shapes.cone(value("radius"), value("height"))
        elif prim.IsA(geom.Capsule):
            mesh = shapes.capsule(value("radius"), value("height"))
        elif prim.IsA(geom.Plane):
            mesh = shapes.plane(value("width"), value("length"))
        if mesh is None:
            return None
        if prim.HasAttribute("axis"):
            axis = str(prim.GetAttribute("axis").Get())
        return mesh.vertices @ _TO_AXIS[axis].T, mesh.faces.astype(np.intp), [(self._material(prim), None)]

    def _mesh(self, mesh: Any) -> tuple[Floats, NDArray[np.intp], list[tuple[str, Any]]] | None:
        time = self._pxr.Usd.TimeCode.EarliestTime()
        points, counts, corners = (
            attribute.Get(time)
            for attribute in (mesh.GetPointsAttr(), mesh.GetFaceVertexCountsAttr(), mesh.GetFaceVertexIndicesAttr())
        )
        if points is None or counts is None or corners is None:
            return None
        vertices = np.asarray(points, np.float64).reshape(-1, 3)
        sizes, order = np.asarray(counts, np.intp), np.asarray(corners, np.intp)
        where = f"{self.path}: {mesh.GetPath()}"
        if np.any(sizes < 3) or sizes.sum() != len(order):
            raise FormatError(f"{where}: faceVertexCounts does not fit faceVertexIndices")
        if len(order) and not (order.min() >= 0 and order.max() < len(vertices)):
            raise FormatError(f"{where}: faceVertexIndices names points that do not exist")
        faces, polygon = fans(sizes, order)
        if str(mesh.GetOrientationAttr().Get()) == "leftHanded":
            faces = faces[:, ::-1]
        return vertices, faces, self._subsets(mesh.GetPrim(), polygon, len(sizes))

    def _subsets(self, prim: Any, polygon: NDArray[np.intp], count: int) -> list[tuple[str, Any]]:
        """Material and triangles of each subset of polygons, and of the rest."""
        parts: list[tuple[str, Any]] = []
        rest = np.ones(count, bool)
        for subset in self._pxr.UsdShade.MaterialBindingAPI(prim).GetMaterialBindSubsets():
            chosen = np.zeros(count, bool)
            rows = np.asarray(subset.GetIndicesAttr().Get() or [], np.intp)
            chosen[rows[(rows >= 0) & (rows < count)]] = True
            parts.append((self._material(subset.GetPrim()), (chosen & rest)[polygon]))
            rest &= ~chosen
        return [*parts, (self._material(prim), rest[polygon])] if parts else [(self._material(prim), None)]


def fans(sizes: NDArray[np.intp], order: NDArray[np.intp]) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Triangles (n, 3) of polygons as fans around their first corners, and the polygon of each triangle (n,).

    `sizes` (p,) are the numbers of corners, at least 3; `order` are the corners of all polygons.

    >>> faces, polygon = fans(np.array([3, 4]), np.array([0, 1, 2, 2, 1, 3, 4]))
    >>> faces.tolist(), polygon.tolist()
    ([[0, 1, 2], [2, 1, 3], [2, 3, 4]], [0, 1, 1])
    """
    starts = np.cumsum(sizes) - sizes
    polygon = np.repeat(np.arange(len(sizes)), sizes - 2)
    within = np.arange(len(polygon)) - np.repeat(np.cumsum(sizes - 2) - (sizes - 2), sizes - 2)
    first = starts[polygon]
    return np.stack([order[first], order[first + within + 1], order[first + within + 2]], axis=1), polygon


def _first_line(error: Any) -> str:
    return " ".join(str(error).split())[:200]
