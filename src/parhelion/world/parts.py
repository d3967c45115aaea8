"""Contents of a world: objects, their parts (one per material), and the table of parts that ray hits refer to."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from functools import cached_property
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Trajectory
from parhelion.surfaces.appearance import Appearance
from parhelion.surfaces.material import Material
from parhelion.world.mesh import Mesh


@runtime_checkable
class DescribedShape(Protocol):
    """A primitive shape of a world file (`schema.py`); `World.add` accepts it as a mesh."""

    def mesh(self) -> Mesh:
        """Return the triangles."""
        ...

    def description(self) -> dict[str, Any]:
        """Return the fields of a world file."""
        ...


@runtime_checkable
class PartedShape(DescribedShape, Protocol):
    """A shape of several materials."""

    def meshes(self) -> dict[str, Mesh]:
        """Return the triangles of each library material."""
        ...


@dataclass(frozen=True, eq=False)
class WorldPart:
    """The triangles of one object with one material."""

    number: int
    """Row in the world's table of parts."""
    mesh: Mesh
    """Triangles in the frame of the object."""
    placed: Floats
    """Vertices in the world frame [m], shape (n, 3); for actors the same as `mesh.vertices`."""
    material: Material
    texture: int = -1
    """Row in `world.textures`, or -1."""
    file_material: str | None = None
    """Name of the material in the mesh file, or None."""
    appearance: Appearance | None = None
    """Appearance in visible light, from the mesh file; None uses the material."""


@dataclass(frozen=True)
class Origin:
    """Source of an object's triangles, so that a world file can refer to it instead of copying them."""

    file: Path | None = None
    """Mesh file."""
    up: str = "auto"
    """Axis of the file that points up."""
    shape: dict[str, Any] | None = None
    """Description of a primitive shape in a world file."""
    scale: float = 1.0
    """Factor already applied to the triangles."""


@dataclass(frozen=True, eq=False)
class WorldObject:
    """An object or actor in a world. It is immutable: to change or move it, remove it and add another one."""

    index: int
    """Number in order of adding; never reused in the same world."""
    name: str
    label: str
    label_id: int
    instance: int
    """Instance number in point clouds; several objects may share one."""
    pose: Pose
    """Pose in the world; the identity for actors, which have a trajectory."""
    parts: tuple[WorldPart, ...]
    trajectory: Trajectory | None = None
    """Motion in the world; None for static objects."""
    hidden_from: tuple[str, ...] = ()
    origin: Origin = field(default=Origin(), repr=False)

    @property
    def is_actor(self) -> bool:
        """True if the object moves."""
        return self.trajectory is not None

    @cached_property
    def triangle_count(self) -> int:
        """Number of triangles."""
        return sum(len(part.mesh.faces) for part in self.parts)

    def hides_from(self, sensor: Sequence[str]) -> bool:
        """Return True if a sensor with these names (its kind, its own name) does not see the object."""
        return any(fnmatchcase(name.lower(), pattern) for pattern in self.hidden_from for name in sensor)

    def bounds(self, time: float = 0.0) -> tuple[Floats, Floats]:
        """Lower and upper corner in the world at `time` [s], each of shape (3,) [m]."""
        vertices = np.concatenate([part.placed for part in self.parts])
        if self.trajectory is not None:
            xyz, quat = self.trajectory.sample(np.array([time]))
            vertices = Pose(xyz[0], quat[0]).apply(vertices)
        return vertices.min(axis=0), vertices.max(axis=0)

    def __repr__(self) -> str:
        kind = "actor" if self.is_actor else "object"
        materials = ", ".join(dict.fromkeys(part.material.name for part in self.parts))
        return f"<{kind} {self.name!r}: {self.label}, {self.triangle_count} triangles of {materials}>"


@dataclass(frozen=True, eq=False)
class PartTable:
    """One row per part of a world. A part keeps its row; rows of removed parts are reused."""

    material: NDArray[np.uint16]
    """Row of `world.materials`, shape (n,)."""
    label: NDArray[np.uint16]
    """Label number, shape (n,)."""
    instance: NDArray[np.uint32]
    """Instance number, shape (n,)."""
    object_index: NDArray[np.int32]
    """`index` of the object, -1 in free rows, shape (n,)."""
    texture: NDArray[np.int32]
    """Row of `world.textures`, or -1, shape (n,)."""

    def __len__(self) -> int:
        return len(self.material)


class PartRows:
    """Rows of the table, added and freed one by one; the lowest free row is used first."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int] | None] = []
        self._free: list[int] = []
        """Heap of freed rows; some may be in use again, or beyond the last row."""

    def append(self, *, material: int, label: int, instance: int, object_index: int, texture: int) -> int:
        """Add a row and return its number."""
        values = (material, label, instance, object_index, texture)
        while self._free:
            row = heappop(self._free)
            if row < len(self._rows) and self._rows[row] is None:
                self._rows[row] = values
                return row
        self._rows.append(values)
        return len(self._rows) - 1

    def change(self, row: int, *, material: int, label: int) -> None:
        """Change the material and the label of a row in use."""
        values = self._rows[row]
        assert values is not None
        self._rows[row] = (material, label, *values[2:])

    def free(self, row: int) -> None:
        """Free a row."""
        self._rows[row] = None
        heappush(self._free, row)
        while self._rows and self._rows[-1] is None:
            self._rows.pop()
        if not self._rows:
            self._free.clear()

    def __len__(self) -> int:
        return len(self._rows)

    def table(self) -> PartTable:
        """Return all rows as arrays."""
        # Free rows repeat the material of the last row, which is never free, so that the table of materials in use
        # contains no others.
        free = (self._rows[-1][0] if self._rows and self._rows[-1] else 0, 0, 0, -1, -1)
        columns = np.array([free if row is None else row for row in self._rows], dtype=np.int64).reshape(-1, 5)
        columns.setflags(write=False)
        material, label, instance, object_index, texture = columns.T
        return PartTable(
            material.astype(np.uint16),
            label.astype(np.uint16),
            instance.astype(np.uint32),
            object_index.astype(np.int32),
            texture.astype(np.int32),
        )


def hidden_patterns(hidden_from: str | Collection[str]) -> tuple[str, ...]:
    """Check and normalise the patterns of sensor kinds or names from which an object is hidden; `*` matches all."""
    names = (hidden_from,) if isinstance(hidden_from, str) or not isinstance(hidden_from, Collection) else hidden_from
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"hidden_from: must be sensor kinds or names, for example 'lidar', got {name!r}")
    return tuple(name.strip().lower() for name in names)
