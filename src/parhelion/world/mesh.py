"""Triangle meshes: checked once at creation, immutable afterwards."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose

if TYPE_CHECKING:
    import trimesh

LARGEST_COORDINATE_M = 1e9
"""Largest coordinate [m]; larger ones indicate a damaged file, as earth-centred coordinates stay below 7e6 m."""

_SMALLEST_HEIGHT = 1e-12
"""Triangles whose height is a smaller share of their longest side are degenerate up to rounding."""


@dataclass(frozen=True, eq=False)
class Mesh:
    """Triangles in one frame. Triangles without area are dropped, with one warning that counts them.

    >>> mesh = Mesh([[0, 0, 0], [2, 0, 0], [0, 1, 0]], [[0, 1, 2]])
    >>> mesh, mesh.area()
    (Mesh(1 triangles, 3 vertices), 1.0)
    """

    vertices: NDArray[np.float64]
    """Corner positions [m], shape (n, 3)."""
    faces: NDArray[np.int32]
    """Rows of `vertices`, counter-clockwise seen from outside, shape (m, 3)."""
    uv: NDArray[np.float32] | None = None
    """Texture coordinates of each triangle's corners, shape (m, 3, 2), or None."""

    def __post_init__(self) -> None:
        count, dropped = self._check()
        if dropped == count:
            raise ConfigError("zero-area mesh: it has no triangle with an area")
        if dropped:
            plural = "s" if dropped > 1 else ""
            warnings.warn(f"mesh: dropped {dropped} triangle{plural} without area of {count}", stacklevel=3)

    def _check(self) -> tuple[int, int]:
        """Check and store the arrays; return the number of given and of dropped triangles."""
        vertices = _vertices(self.vertices)
        faces = _faces(self.faces, len(vertices))
        uv = _uv(self.uv, len(faces))
        solid = triangle_sizes(vertices, faces)[1] > _SMALLEST_HEIGHT
        count, dropped = len(solid), int(len(solid) - np.count_nonzero(solid))
        if dropped:
            faces = faces[solid]
            uv = None if uv is None else uv[solid]
        self._assign(vertices, faces, uv)
        return count, dropped

    @classmethod
    def cleaned(cls, vertices: ArrayLike, faces: ArrayLike, uv: ArrayLike | None = None) -> tuple[Mesh | None, int]:
        """Return the mesh, or None if no triangle has an area, and the number of dropped triangles, without a warning.

        For loaders, which warn once for all meshes of a file.
        """
        mesh = object.__new__(cls)
        for name, value in (("vertices", vertices), ("faces", faces), ("uv", uv)):
            object.__setattr__(mesh, name, value)
        count, dropped = mesh._check()
        return (None if dropped == count else mesh), dropped

    def _assign(self, vertices: Floats, faces: NDArray[np.int32], uv: NDArray[np.float32] | None) -> None:
        for name, array in (("vertices", vertices), ("faces", faces), ("uv", uv)):
            if array is not None:
                array.setflags(write=False)
            object.__setattr__(self, name, array)

    @classmethod
    def _trusted(cls, vertices: Floats, faces: NDArray[np.int32], uv: NDArray[np.float32] | None) -> Mesh:
        """Return a mesh of arrays from checked meshes, so that thousands of copies need no second check."""
        mesh = object.__new__(cls)
        mesh._assign(vertices, faces, uv)
        return mesh

    def __len__(self) -> int:
        return len(self.faces)

    def transformed(self, pose: Pose) -> Mesh:
        """Return the mesh with its frame placed at `pose`."""
        return Mesh._trusted(self.vertices @ pose.rotation.T + pose.xyz, self.faces, self.uv)

    def scaled(self, factor: float | Sequence[float]) -> Mesh:
        """Return the mesh scaled about its origin by one positive factor, or by one per axis."""
        try:
            factors = np.asarray(factor, dtype=np.float64)
        except (TypeError, ValueError):
            raise ConfigError(f"mesh: scale must be one or three positive numbers, got {factor!r}") from None
        if factors.shape not in ((), (3,)) or not np.all(np.isfinite(factors)) or not np.all(factors > 0):
            raise ConfigError(f"mesh: scale must be one or three positive numbers, got {factor!r}")
        vertices = self.vertices * factors
        if np.abs(vertices).max() > LARGEST_COORDINATE_M:
            raise ConfigError(f"mesh: scale {factor!r} puts vertices beyond {LARGEST_COORDINATE_M:g} m")
        return Mesh._trusted(vertices, self.faces, self.uv)

    @classmethod
    def merged(cls, meshes: Sequence[Mesh]) -> Mesh:
        """Return all triangles in one mesh, in the given order. Meshes without UVs get zeros if others have UVs."""
        if not meshes:
            raise ConfigError("zero-area mesh: nothing to merge")
        starts = np.cumsum([0, *(len(mesh.vertices) for mesh in meshes[:-1])])
        faces = np.concatenate([mesh.faces + np.int32(start) for mesh, start in zip(meshes, starts, strict=True)])
        uv = None
        if any(mesh.uv is not None for mesh in meshes):
            uv = np.concatenate([_uv_or_zeros(mesh) for mesh in meshes])
        return cls._trusted(np.concatenate([mesh.vertices for mesh in meshes]), faces, uv)

    def select(self, rows: NDArray[Any]) -> Mesh:
        """Return the triangles of a boolean mask or an index array, with the vertices that they use."""
        faces = self.faces[rows]
        if len(faces) == 0:
            raise ConfigError("zero-area mesh: no triangle selected")
        used = np.zeros(len(self.vertices), dtype=bool)
        used[faces] = True
        new_row = (np.cumsum(used) - 1).astype(np.int32)
        return Mesh._trusted(self.vertices[used], new_row[faces], None if self.uv is None else self.uv[rows])

    def area(self) -> float:
        """Total area of the triangles [m^2]."""
        return float(triangle_sizes(self.vertices, self.faces)[0].sum())

    @property
    def bounds(self) -> tuple[Floats, Floats]:
        """Lower and upper corner of the used vertices [m], each of shape (3,)."""
        corners = self.vertices[np.unique(self.faces)]
        return corners.min(axis=0), corners.max(axis=0)

    def as_trimesh(self) -> trimesh.Trimesh:
        """Return the triangles as a `trimesh.Trimesh` (without UVs), vertices unmerged."""
        import trimesh

        return trimesh.Trimesh(vertices=np.array(self.vertices), faces=np.array(self.faces), process=False)

    def __repr__(self) -> str:
        return (
            f"Mesh({len(self.faces)} triangles, {len(self.vertices)} vertices{', uv' if self.uv is not None else ''})"
        )


def triangle_sizes(vertices: Floats, faces: NDArray[np.int32]) -> tuple[Floats, Floats]:
    """Areas [m^2], and twice the area divided by the longest side squared (0 for degenerate triangles), each (m,)."""
    # By columns: NumPy's cross product takes several times as long on a million triangles.
    (ax, ay, az), (bx, by, bz), (cx, cy, cz) = (vertices.T[:, faces[:, k]] for k in range(3))
    ux, uy, uz = bx - ax, by - ay, bz - az
    vx, vy, vz = cx - ax, cy - ay, cz - az
    wx, wy, wz = cx - bx, cy - by, cz - bz
    twice_area = np.sqrt((uy * vz - uz * vy) ** 2 + (uz * vx - ux * vz) ** 2 + (ux * vy - uy * vx) ** 2)
    sides = (ux * ux + uy * uy + uz * uz, vx * vx + vy * vy + vz * vz, wx * wx + wy * wy + wz * wz)
    longest = np.maximum(np.maximum(sides[0], sides[1]), sides[2])
    height = np.divide(twice_area, longest, out=np.zeros_like(twice_area), where=longest > 0)
    return twice_area / 2.0, height


def _own(value: ArrayLike, dtype: type) -> NDArray[Any]:
    """Return a private array of the values; a read-only array of the right type is not copied."""
    if isinstance(value, np.ndarray) and value.dtype == dtype and not value.flags.writeable and value.base is None:
        return value
    return np.array(value, dtype=dtype)


def _vertices(value: ArrayLike) -> Floats:
    try:
        vertices = _own(value, np.float64)
    except (TypeError, ValueError):
        raise ConfigError("mesh: vertices must be numbers of shape (n, 3)") from None
    if vertices.ndim != 2 or vertices.shape[1] != 3:
        raise ConfigError(f"mesh: vertices must have shape (n, 3), got {vertices.shape}")
    if len(vertices) == 0:
        raise ConfigError("zero-area mesh: it has no vertices")
    bad = np.flatnonzero(~np.isfinite(vertices).all(axis=1))
    if len(bad):
        raise ConfigError(f"mesh: vertices must be finite, but {len(bad)} are not, the first is vertex {bad[0]}")
    if np.abs(vertices).max() > LARGEST_COORDINATE_M:
        raise ConfigError(f"mesh: vertices must lie within {LARGEST_COORDINATE_M:g} m of the origin")
    return vertices


def _faces(value: ArrayLike, vertex_count: int) -> NDArray[np.int32]:
    try:
        faces = np.asarray(value)
    except ValueError:
        raise ConfigError("mesh: faces must be whole numbers of shape (m, 3)") from None
    if faces.size == 0:
        raise ConfigError("zero-area mesh: it has no triangles")
    if faces.ndim != 2 or faces.shape[1] != 3:
        raise ConfigError(f"mesh: faces must have shape (m, 3), got {faces.shape}")
    if faces.dtype.kind not in "iu":
        raise ConfigError(f"mesh: faces must be whole numbers, got {faces.dtype}")
    low, high = int(faces.min()), int(faces.max())
    if low < 0 or high >= vertex_count:
        wrong = low if low < 0 else high
        raise ConfigError(f"mesh: face index {wrong} is outside 0 to {vertex_count - 1} ({vertex_count} vertices)")
    return _own(faces, np.int32)


def _uv(value: ArrayLike | None, face_count: int) -> NDArray[np.float32] | None:
    if value is None:
        return None
    try:
        uv = _own(value, np.float32)
    except (TypeError, ValueError):
        raise ConfigError("mesh: uv must be numbers of shape (m, 3, 2)") from None
    if uv.shape != (face_count, 3, 2):
        raise ConfigError(f"mesh: uv must have shape ({face_count}, 3, 2), one pair per corner, got {uv.shape}")
    if not np.isfinite(uv).all():
        raise ConfigError("mesh: uv must be finite")
    return uv


def _uv_or_zeros(mesh: Mesh) -> NDArray[np.float32]:
    return mesh.uv if mesh.uv is not None else np.zeros((len(mesh.faces), 3, 2), np.float32)
