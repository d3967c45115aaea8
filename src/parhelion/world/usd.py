"""USD files (.usd, .usda, .usdc, .usdz): meshes, instances, materials, units and the up axis, read with `usd-core`.

References, payloads, variants and instances are composed by USD itself. Layers and images must lie in the folder of the
file or below. Materials are those of UsdPreviewSurface, https://openusd.org/release/spec_usdpreviewsurface.html.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.checks import check_budget
from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError
from parhelion.core.pose import Floats, Pose
from parhelion.surfaces.appearance import Appearance, Picture
from parhelion.world import shapes
from parhelion.world.appearances import PictureStore
from parhelion.world.mesh import Mesh

USD_SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
"""Extensions of USD files."""
MOST_PRIMS = 1_000_000
"""Largest number of prims of a stage, instances included."""


def pxr_modules() -> Any:
    """Return the package `pxr` with its modules loaded."""
    try:
        import pxr
        from pxr import Ar, Gf, Sdf, Tf, Usd, UsdGeom, UsdPhysics, UsdShade  # noqa: F401
    except ImportError:
        raise MissingDependencyError("USD files need the package usd-core: pip install 'parhelion[usd]'") from None
    return pxr


class UsdFile:
    """Meshes of a stage by material, in metres with z up."""

    def __init__(self, file: Path, up: str) -> None:
        self.file, self._pxr = file, pxr_modules()
        self._folder = file.resolve().parent
        self._pictures = PictureStore(file)
        self.omitted = self._pictures.omitted
        self.looks: dict[str, Appearance] = {}
        """Appearance of each material by its path or colour."""
        self.names: dict[str, str] = {}
        """Names of the materials by their path or colour."""
        self.gathered: dict[str | None, list[Mesh]] = {}
        """Meshes by the path or colour of their material; None without one."""
        self.dropped = 0
        """Number of triangles without area."""
        self._triangles = 0
        self._stage = self._opened()
        geom = self._pxr.UsdGeom
        self.metres_per_unit = float(geom.GetStageMetersPerUnit(self._stage))
        if not 1e-9 < self.metres_per_unit < 1e9:
            raise FormatError(f"{file}: metersPerUnit must be positive, got {self.metres_per_unit:g}")
        self._y_up = up == "y" or (up == "auto" and geom.GetStageUpAxis(self._stage) == geom.Tokens.y)
        self._read()

    def _opened(self) -> Any:
        usd, tf = self._pxr.Usd, self._pxr.Tf
        try:
            stage = usd.Stage.Open(str(self.file), usd.Stage.LoadAll)
        except tf.ErrorException as error:
            reason = " ".join(str(error).split())[:200]
            raise FormatError(f"{self.file}: not a whole USD file: {reason}") from None
        if stage is None:
            raise FormatError(f"{self.file}: not a whole USD file")
        for layer in stage.GetUsedLayers():
            path = layer.realPath
            if path and not Path(path.partition("[")[0]).resolve().is_relative_to(self._folder):
                raise FormatError(f"{self.file}: it refers to {path}, which lies outside of {self._folder}")
        for problem in stage.GetCompositionErrors():
            raise FormatError(f"{self.file}: {' '.join(str(problem).split())[:200]}")
        return stage

    # ---- geometry -----------------------------------------------------------------------------------------------

    def _read(self) -> None:
        usd, geom = self._pxr.Usd, self._pxr.UsdGeom
        self._time = usd.TimeCode.EarliestTime()
        self._cache = geom.XformCache(self._time)
        for prim in self._visible(self._stage.GetPseudoRoot()):
            if prim.IsA(geom.PointInstancer):
                self._instancer(prim)
            elif prim.IsA(geom.Gprim) and not self._in_prototype(prim):
                self._add(prim, self._matrix(prim))

    def _visible(self, root: Any) -> Iterator[Any]:
        """Prims below `root` that are rendered by default, instances included."""
        usd, geom = self._pxr.Usd, self._pxr.UsdGeom
        walk = iter(usd.PrimRange(root, usd.TraverseInstanceProxies(usd.PrimDefaultPredicate)))
        for count, prim in enumerate(walk):
            if count > MOST_PRIMS:
                raise FormatError(f"{self.file}: it has more than {MOST_PRIMS} prims")
            image = geom.Imageable(prim)
            if image and (
                image.GetVisibilityAttr().Get(self._time) == geom.Tokens.invisible
                or image.GetPurposeAttr().Get() in (geom.Tokens.guide, geom.Tokens.proxy)
            ):
                walk.PruneChildren()
                continue
            if prim.IsA(geom.Curves) or prim.IsA(geom.Points):
                self._omit(f"{prim.GetTypeName()} prims")
            yield prim

    def _in_prototype(self, prim: Any) -> bool:
        """Return True for prims below a point instancer, which are only its prototypes."""
        above = prim.GetParent()
        while above:
            if above.IsA(self._pxr.UsdGeom.PointInstancer):
                return True
            above = above.GetParent()
        return False

    def _matrix(self, prim: Any) -> Floats:
        # USD multiplies row vectors.
        return np.array(self._cache.GetLocalToWorldTransform(prim), np.float64).T

    def _instancer(self, prim: Any) -> None:
        geom = self._pxr.UsdGeom
        instancer = geom.PointInstancer(prim)
        numbers = np.asarray(instancer.GetProtoIndicesAttr().Get(self._time) or [], np.int64)
        targets = instancer.GetPrototypesRel().GetTargets()
        if not len(numbers):
            return
        if numbers.min() < 0 or numbers.max() >= len(targets):
            raise FormatError(f"{self.file}: {prim.GetPath()}: protoIndices must be 0 to {len(targets) - 1}")
        # Transforms include those of the prototypes' roots.
        places = instancer.ComputeInstanceTransformsAtTime(
            self._time, self._time, geom.PointInstancer.IncludeProtoXform, geom.PointInstancer.IgnoreMask
        )
        if len(places) != len(numbers):
            raise FormatError(f"{self.file}: {prim.GetPath()}: its instances lack positions")
        own = self._matrix(prim)
        for number, target in enumerate(targets):
            root = self._stage.GetPrimAtPath(target)
            if not root:
                raise FormatError(f"{self.file}: {prim.GetPath()}: no prototype {target}")
            back = np.linalg.inv(self._matrix(root))
            for place in (np.array(places[int(k)], np.float64).T for k in np.flatnonzero(numbers == number)):
                for part in self._visible(root):
                    if part.IsA(geom.Gprim):
                        self._add(part, own @ place @ back @ self._matrix(part))

    def _add(self, prim: Any, matrix: Floats) -> None:
        """Add the triangles of a prim at a place in the stage."""
        if not np.all(np.isfinite(matrix)):
            raise FormatError(f"{self.file}: {prim.GetPath()}: its transform is not finite")
        try:
            vertices, faces, uv, rows = self._triangles_of(prim)
        except ConfigError as error:
            raise FormatError(f"{self.file}: {prim.GetPath()}: {error}") from None
        self._triangles += len(faces)
        check_budget("triangles", self._triangles, str(self.file))
        placed = (vertices @ matrix[:3, :3].T + matrix[:3, 3]) * self.metres_per_unit
        if self._y_up:
            placed = np.stack([placed[:, 0], -placed[:, 2], placed[:, 1]], axis=1)
        if np.linalg.det(matrix[:3, :3]) < 0:
            faces, uv = faces[:, ::-1], None if uv is None else uv[:, ::-1]
        for key, chosen in self._by_material(prim, rows):
            if not chosen.any():
                continue
            try:
                mesh, dropped = Mesh.cleaned(placed, faces[chosen], None if uv is None else uv[chosen])
            except ConfigError as error:
                raise FormatError(f"{self.file}: {prim.GetPath()}: {error}") from None
            self.dropped += dropped
            if mesh is not None:
                self.gathered.setdefault(key, []).append(mesh)

    def _triangles_of(self, prim: Any) -> tuple[Floats, NDArray[Any], NDArray[np.float32] | None, NDArray[Any]]:
        """Vertices, faces, texture coordinates of corners, and the number of the polygon of each triangle."""
        geom = self._pxr.UsdGeom
        if not prim.IsA(geom.Mesh):
            made = self._primitive(prim)
            return made.vertices, made.faces, made.uv, np.zeros(len(made.faces), np.int64)
        mesh = geom.Mesh(prim)
        points = np.asarray(mesh.GetPointsAttr().Get(self._time) or [], np.float64).reshape(-1, 3)
        counts = np.asarray(mesh.GetFaceVertexCountsAttr().Get(self._time) or [], np.int64)
        corners = np.asarray(mesh.GetFaceVertexIndicesAttr().Get(self._time) or [], np.int64)
        if counts.min(initial=0) < 0 or counts.sum() != len(corners):
            raise ConfigError("faceVertexCounts do not match faceVertexIndices")
        start = np.cumsum(counts) - counts
        # Fans: polygon k has the triangles (0, j + 1, j + 2) of its corners.
        extra = np.maximum(counts - 2, 0)
        rows = np.repeat(np.arange(len(counts)), extra)
        j = np.arange(len(rows)) - np.repeat(np.cumsum(extra) - extra, extra)
        places = np.stack([start[rows], start[rows] + j + 1, start[rows] + j + 2], axis=1)
        if mesh.GetOrientationAttr().Get() == geom.Tokens.leftHanded:
            places = places[:, ::-1]
        if len(corners) and (corners.min() < 0 or corners.max() >= len(points)):
            raise ConfigError(f"faceVertexIndices must be 0 to {len(points) - 1}")
        return points, corners[places].astype(np.int64), self._uv(prim, places, corners, len(points)), rows

    def _uv(
        self, prim: Any, places: NDArray[Any], corners: NDArray[Any], point_count: int
    ) -> NDArray[np.float32] | None:
        primvars = self._pxr.UsdGeom.PrimvarsAPI(prim)
        found = next((one for one in (primvars.GetPrimvar(name) for name in ("st", "UVMap", "st0")) if one), None)
        if found is None or not found.HasValue():
            return None
        values = np.asarray(found.ComputeFlattened(self._time), np.float64)
        if values.ndim != 2 or values.shape[1] != 2:
            return None
        if len(values) == len(corners):
            chosen = values[places]
        elif len(values) == point_count:
            chosen = values[corners[places]]
        else:
            self._omit("texture coordinates of another interpolation")
            return None
        return chosen.astype(np.float32)

    def _primitive(self, prim: Any) -> Mesh:
        """Triangles of a primitive shape."""
        geom, time = self._pxr.UsdGeom, self._time
        if prim.IsA(geom.Cube):
            size = float(geom.Cube(prim).GetSizeAttr().Get(time))
            return shapes.box(size, size, size)
        if prim.IsA(geom.Sphere):
            return shapes.sphere(float(geom.Sphere(prim).GetRadiusAttr().Get(time)))
        if prim.IsA(geom.Plane):
            plane = geom.Plane(prim)
            made = shapes.plane(float(plane.GetWidthAttr().Get(time)), float(plane.GetLengthAttr().Get(time)))
            return _turned(made, str(plane.GetAxisAttr().Get()))
        for kind, build in ((geom.Cylinder, shapes.cylinder), (geom.Cone, shapes.cone), (geom.Capsule, _capsule)):
            if prim.IsA(kind):
                one = kind(prim)
                made = build(float(one.GetRadiusAttr().Get(time)), float(one.GetHeightAttr().Get(time)))
                return _turned(made, str(one.GetAxisAttr().Get()))
        raise ConfigError(f"prims of the type {prim.GetTypeName()} are not supported")

    # ---- materials ----------------------------------------------------------------------------------------------

    def _by_material(self, prim: Any, rows: NDArray[Any]) -> Iterator[tuple[str | None, NDArray[np.bool_]]]:
        """Material and a mask of the triangles of each subset, then those of the rest; `rows` are polygons."""
        shade, geom = self._pxr.UsdShade, self._pxr.UsdGeom
        rest = np.ones(len(rows), bool)
        if prim.IsA(geom.Mesh):
            for subset in shade.MaterialBindingAPI(prim).GetMaterialBindSubsets():
                polygons = np.asarray(subset.GetIndicesAttr().Get(self._time) or [], np.int64)
                chosen = rest & np.isin(rows, polygons)
                rest &= ~chosen
                yield self._material(subset.GetPrim()), chosen
        yield self._material(prim), rest

    def _material(self, prim: Any) -> str | None:
        """Key of the material that is bound to a prim."""
        shade, geom = self._pxr.UsdShade, self._pxr.UsdGeom
        material, _ = shade.MaterialBindingAPI(prim).ComputeBoundMaterial()
        if material:
            key = str(material.GetPath())
            if key not in self.names:
                self.names[key] = material.GetPrim().GetName()
                look = self._appearance(material)
                if look is not None:
                    self.looks[key] = look
            return key
        colours = geom.Gprim(prim).GetDisplayColorAttr().Get(self._time) if prim.IsA(geom.Gprim) else None
        if not colours:
            return None
        red, green, blue = (float(value) for value in np.clip(np.asarray(colours, np.float64).mean(axis=0), 0.0, 1.0))
        key = f"colour-{red:.3f}-{green:.3f}-{blue:.3f}"
        self.names[key], self.looks[key] = key, Appearance(base=(red, green, blue), roughness=0.5)
        return key

    def _appearance(self, material: Any) -> Appearance | None:
        shader = material.ComputeSurfaceSource()[0]
        if not shader or shader.GetShaderId() != "UsdPreviewSurface":
            self._omit(f"shader of material {material.GetPrim().GetName()!r}, which is no UsdPreviewSurface")
            return None
        base, base_picture, _ = self._input(shader, "diffuseColor", (0.18, 0.18, 0.18))
        glow, glow_picture, _ = self._input(shader, "emissiveColor", (0.0, 0.0, 0.0))
        rough, rough_picture, rough_channel = self._input(shader, "roughness", 0.5)
        metal, metal_picture, metal_channel = self._input(shader, "metallic", 0.0)
        opacity, mask, mask_channel = self._input(shader, "opacity", 1.0)
        cutoff = float(self._input(shader, "opacityThreshold", 0.0)[0])
        _, normal_picture, _ = self._input(shader, "normal", (0.0, 0.0, 1.0))

        def surface(
            height: int, width: int, first: NDArray[np.uint8] | None, second: NDArray[np.uint8] | None
        ) -> NDArray[np.uint8]:
            made = np.full((height, width, 4), 255, np.uint8)
            for channel, image, source in ((1, first, rough_channel), (2, second, metal_channel)):
                if image is not None:
                    made[..., channel] = image[..., source]
            return made

        def with_alpha(
            height: int, width: int, colour: NDArray[np.uint8] | None, alpha: NDArray[np.uint8]
        ) -> NDArray[np.uint8]:
            made = np.full((height, width, 4), 255, np.uint8) if colour is None else colour.copy()
            made[..., 3] = alpha[..., mask_channel]
            return made

        key = str(material.GetPath())
        if mask is not None:
            base_picture = self._pictures.combined((key, "alpha"), (base_picture, mask), with_alpha)
        both = self._pictures.combined((key, "surface"), (rough_picture, metal_picture), surface)
        see_through = mask is not None or float(opacity) < 1.0
        return Appearance(
            base=_colour(base),
            opacity=float(np.clip(opacity, 0.0, 1.0)),
            metallic=float(np.clip(metal, 0.0, 1.0)),
            roughness=float(np.clip(rough, 0.0, 1.0)),
            emission_cd_m2=_colour(glow, 1e9),
            alpha_mode="opaque" if not see_through else "mask" if cutoff > 0.0 else "blend",
            alpha_cutoff=float(np.clip(cutoff, 0.0, 1.0)),
            base_picture=base_picture,
            surface_picture=both,
            normal_picture=normal_picture,
            glow_picture=glow_picture,
        )

    def _input(self, shader: Any, name: str, default: Any) -> tuple[Any, Picture | None, int]:
        """Value of an input, or 1 with the image that it is connected to, and the channel of the image."""
        shade = self._pxr.UsdShade
        entry = shader.GetInput(name)
        if not entry:
            return default, None, 0
        sources = entry.GetConnectedSources()[0]
        if not sources:
            value = entry.Get(self._time)
            return default if value is None else value, None, 0
        source = shade.Shader(sources[0].source.GetPrim())
        if not source or source.GetShaderId() != "UsdUVTexture":
            found = shade.Utils.GetValueProducingAttributes(entry)
            value = found[0].Get(self._time) if found else None
            return default if value is None else value, None, 0
        asset = source.GetInput("file").Get(self._time) if source.GetInput("file") else None
        picture = None if asset is None else self._pictures.picture(str(asset.path), lambda _: self._image(asset))
        if picture is None:
            return default, None, 0
        channel = {"r": 0, "g": 1, "b": 2, "a": 3}.get(str(sources[0].sourceName), 0)
        scale = source.GetInput("scale").Get(self._time) if source.GetInput("scale") else None
        factor = (1.0, 1.0, 1.0, 1.0) if scale is None or name == "normal" else tuple(scale)
        return (factor[:3] if isinstance(default, tuple) else factor[channel]), picture, channel

    def _image(self, asset: Any) -> tuple[bytes, str] | None:
        ar = self._pxr.Ar
        path = str(asset.resolvedPath)
        if not path:
            self._omit(f"image {asset.path}, which is missing")
            return None
        if not Path(path.partition("[")[0]).resolve().is_relative_to(self._folder):
            raise FormatError(f"{self.file}: image {path} lies outside of {self._folder}")
        opened = ar.GetResolver().OpenAsset(ar.ResolvedPath(path))
        return None if opened is None else (bytes(opened.GetBuffer()), str(asset.path))

    def _omit(self, what: str) -> None:
        if what not in self.omitted:
            self.omitted.append(what)


def _colour(value: Any, most: float = 1.0) -> tuple[float, float, float]:
    red, green, blue = (float(one) for one in np.clip(np.asarray(value, np.float64), 0.0, most))
    return red, green, blue


def _turned(mesh: Mesh, axis: str) -> Mesh:
    """Mesh whose z axis points along another axis."""
    if axis == "Z":
        return mesh
    order = [2, 0, 1] if axis == "X" else [1, 2, 0]
    return Mesh(mesh.vertices[:, order], mesh.faces, mesh.uv)


def _capsule(radius: float, height: float) -> Mesh:
    ball = shapes.sphere(radius)
    ends = [ball.transformed(Pose((0, 0, z))) for z in (-height / 2, height / 2)]
    return Mesh.merged([shapes.cylinder(radius, height, caps=False), *ends])
