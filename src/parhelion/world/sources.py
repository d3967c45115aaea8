"""What a world takes for a mesh, and the triangles in it."""

from __future__ import annotations

from os import PathLike
from pathlib import Path
from typing import TYPE_CHECKING, Any, Union

import numpy as np
from numpy.typing import ArrayLike

from parhelion.core.errors import ConfigError
from parhelion.world.loaders import LoadedMesh, LoadedPart, Up, from_trimesh, load_mesh
from parhelion.world.mesh import Mesh
from parhelion.world.parts import DescribedShape, Origin

if TYPE_CHECKING:
    import trimesh

MeshLike = Union[
    str, PathLike[str], Mesh, DescribedShape, "tuple[ArrayLike, ArrayLike]", "trimesh.Trimesh", "trimesh.Scene"
]
"""A mesh file's path, a mesh, a described shape, vertices (n, 3) with faces (m, 3), or a trimesh mesh or scene."""


class MeshSources:
    """The meshes that a world was given; a file is read once for all the objects that use it."""

    def __init__(self) -> None:
        self._files: dict[tuple[Any, ...], LoadedMesh] = {}

    def triangles(self, mesh: MeshLike, up: Up) -> tuple[LoadedMesh, Origin]:
        """The triangles by material, and where they came from."""
        if isinstance(mesh, Mesh):
            return LoadedMesh((LoadedPart(mesh, None),), "mesh"), Origin()
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
            # Of a file that was written anew, the old content is asked for no more.
            for old in [old for old in self._files if (old[0], old[-1]) == (key[0], up)]:
                del self._files[old]
            self._files[key] = loaded
        return self._files[key]


def file_key(path: Path, *more: str) -> tuple[Any, ...]:
    """Names a file's content: another one after the file was written anew. Missing files get a key, too."""
    try:
        state = path.stat()
        return (str(path.absolute()), state.st_mtime_ns, state.st_size, *more)
    except (OSError, ValueError):
        return (str(path), *more)
