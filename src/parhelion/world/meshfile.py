"""Meshes and textures that belong to a saved world, written beside its file."""

from __future__ import annotations

import hashlib
import io
import os
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parhelion.core.files import write_whole
from parhelion.world.mesh import Mesh


class MeshFolder:
    """The folder `<world>-files`. A file is named after its content, so that saving again never changes one."""

    def __init__(self, world_file: Path) -> None:
        self._home = world_file.parent
        self._folder = world_file.parent / f"{world_file.stem}-files"
        self._written: dict[int, str] = {}

    def relative(self, file: Path) -> str:
        """The path of `file` as seen from the world file."""
        return Path(os.path.relpath(file.absolute(), self._home.absolute())).as_posix()

    def mesh(self, mesh: Mesh) -> str:
        """Write a mesh, once however many objects share it; its path as seen from the world file."""
        if id(mesh) not in self._written:
            self._written[id(mesh)] = self._keep("mesh", ".ply", ply_bytes(mesh))
        return self._written[id(mesh)]

    def image(self, texture: NDArray[np.float32] | NDArray[np.uint8]) -> str:
        """Write a texture, grey values rounded to 8 bits; its path as seen from the world file."""
        from PIL import Image

        if id(texture) not in self._written:
            stream = io.BytesIO()
            bits = texture if texture.dtype == np.uint8 else np.round(texture * 255.0).astype(np.uint8)
            Image.fromarray(bits).save(stream, format="png")
            self._written[id(texture)] = self._keep("texture", ".png", stream.getvalue())
        return self._written[id(texture)]

    def _keep(self, kind: str, suffix: str, data: bytes) -> str:
        file = self._folder / f"{kind}-{hashlib.sha256(data).hexdigest()[:16]}{suffix}"
        if not file.exists():
            write_whole(file, data)
        return self.relative(file)


def ply_bytes(mesh: Mesh) -> bytes:
    """Binary PLY with vertices in float64; with UVs, each corner gets a vertex of its own with properties s and t."""
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
