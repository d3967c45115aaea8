"""What a world is made of: objects, their parts (one for each material), and the table that rays look parts up in."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from heapq import heappop, heappush
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Floats, Pose
from parhelion.core.trajectory import Trajectory
from parhelion.surfaces.material import Material
from parhelion.world.mesh import Mesh


@runtime_checkable
class DescribedShape(Protocol):
    """A plain shape as a world file describes it (`schema.py`); `World.add` takes one in place of a mesh."""

    def mesh(self) -> Mesh:
        """Its triangles."""
        ...

    def description(self) -> dict[str, Any]:
        """What a world file says of it."""
        ...


@dataclass(frozen=True, eq=False)
class WorldPart:
    """The triangles of one object that have one material."""

    number: int
    """Row in the world's table of parts."""
    mesh: Mesh
    """Triangles in the object's own frame."""
    placed: Floats
    """Vertices in the world frame [m], shape (n, 3); for actors the same as `mesh.vertices`."""
    material: Material
    texture: int = -1
    """Row in `world.textures`, or -1."""
    file_material: str | None = None
    """Name that the mesh file gives this material, where it gives one."""


@dataclass(frozen=True)
class Origin:
    """Where an object's triangles came from, so that a world file can name it instead of copying them."""

    file: Path | None = None
    """Mesh file."""
    up: str = "auto"
    """Which axis of the file points up."""
    shape: dict[str, Any] | None = None
    """A world file's own description of a plain shape."""
    scale: float = 1.0
    """Factor already applied to the triangles."""


@dataclass(frozen=True, eq=False)
class WorldObject:
    """One thing in a world. It does not change: to move or change it, remove it and add it anew."""

    index: int
    """Number in order of adding; never used again in the same world."""
    name: str
    label: str
    label_id: int
    instance: int
    """Number that points of this object carry; several objects may share one."""
    pose: Pose
    """Pose in the world; for actors the identity, since their trajectory says where they are."""
    parts: tuple[WorldPart, ...]
    trajectory: Trajectory | None = None
    """Motion in the world; None for what stands still."""
    hidden_from: tuple[str, ...] = ()
    origin: Origin = field(default=Origin(), repr=False)

    @property
    def is_actor(self) -> bool:
        """Whether it moves with time."""
        return self.trajectory is not None

    @property
    def triangle_count(self) -> int:
        """Number of triangles."""
        return sum(len(part.mesh.faces) for part in self.parts)

    def hides_from(self, sensor: Sequence[str]) -> bool:
        """Whether a sensor of these names (its kind, its own name) does not see it."""
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
    """One row a part, numbered world-wide. A part keeps its row; that of a removed one is free for another."""

    material: NDArray[np.uint16]
    """Row of `world.materials`, shape (n,)."""
    label: NDArray[np.uint16]
    """Label number, shape (n,)."""
    instance: NDArray[np.uint32]
    """Instance number, shape (n,)."""
    object_index: NDArray[np.int32]
    """`index` of the object, -1 in rows that are free, shape (n,)."""
    texture: NDArray[np.int32]
    """Row of `world.textures`, or -1, shape (n,)."""

    def __len__(self) -> int:
        return len(self.material)


class PartRows:
    """Rows of the table, added and freed one by one: the lowest free one is taken first."""

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int, int] | None] = []
        self._free: list[int] = []
        """A heap of rows that were freed; some may be in use again, or beyond the last row."""

    def append(self, *, material: int, label: int, instance: int, object_index: int, texture: int) -> int:
        """Add a row; its number."""
        values = (material, label, instance, object_index, texture)
        while self._free:
            row = heappop(self._free)
            if row < len(self._rows) and self._rows[row] is None:
                self._rows[row] = values
                return row
        self._rows.append(values)
        return len(self._rows) - 1

    def free(self, row: int) -> None:
        """Give a row back."""
        self._rows[row] = None
        heappush(self._free, row)
        while self._rows and self._rows[-1] is None:
            self._rows.pop()
        if not self._rows:
            self._free.clear()

    def __len__(self) -> int:
        return len(self._rows)

    def table(self) -> PartTable:
        """All rows as arrays."""
        # Free rows repeat the material of the last row, which is never free: tables of all materials in use stay so.
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
    """The names that an object is hidden from, checked: a sensor's kind or name, `*` standing for anything."""
    names = (hidden_from,) if isinstance(hidden_from, str) or not isinstance(hidden_from, Collection) else hidden_from
    for name in names:
        if not isinstance(name, str) or not name.strip():
            raise ConfigError(f"hidden_from: must hold sensor kinds or names such as 'lidar', got {name!r}")
    return tuple(name.strip().lower() for name in names)
