"""Arguments of recorded functions (`Engine.frozen`): the rows they process, and the scene they cast at.

A recorded function is traced once and replayed for arrays of other lengths. Its code must not depend on the number of
rows, for three reasons:

- An array length that is used as a number keeps its value from the first call.
- The size of memory that the function allocates (`dr.zeros`, `dr.empty`, `dr.ravel`) also keeps its first value.
  Results with one value per kernel row are not affected.
- The number of rows of a kernel is the length of the arrays that it reads in order. If a kernel reads everything by
  index, Dr.Jit guesses.

`Rows` addresses each of them: `count` is the number of rows in device memory, `capacity` the number of rows that are
allocated, and `index` an array to read in order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Hashable
from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any
from weakref import ref

import numpy as np

from parhelion.core.arrays import UNSET, Bool, Float, Int, Masks, Vectors
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine

if TYPE_CHECKING:
    from parhelion.rays.scene import RayScene, Trace


@kernel_tree()
@dataclass
class Rows:
    """Row numbers that a recorded function processes."""

    index: Int
    """Row numbers 0, 1, 2 ... The function reads them in order, which sets the number of rows of its kernels."""
    count: Int
    """Number of rows, in device memory: another value does not need another kernel."""
    capacity: int
    """Number of rows to allocate. Another value needs another recording; 0 if the function allocates nothing."""

    @classmethod
    def cached(cls, engine: Engine, count: int) -> Rows:
        """Rows whose number recurs, for example the beams of a sensor: the index array is cached for the next scan."""
        return cls(engine.counting(count), engine.whole(count), count)

    @classmethod
    def transient(cls, engine: Engine, count: int, capacity: int = 0) -> Rows:
        """Rows whose number changes from scan to scan, for example the beams that hit edges."""
        return cls(engine.dr.arange(engine.mi.UInt32, count), engine.whole(count), capacity)

    def __len__(self) -> int:
        """Number of rows. For callers of recorded functions only: within them it would be a constant."""
        return len(self.index)

    def pick(self, flags: Int, into: Rows | None = None) -> Picked:
        """Select the rows whose flag is 1 rather than 0. Only for use within recorded functions.

        The result has the capacity of these rows. With `into` it has the capacity of those, and rows beyond it are
        omitted.
        """
        engine = running_engine()
        dr, mi = engine.dr, engine.mi
        size = self.capacity if into is None else into.capacity
        assert size, "rows to pick from need a capacity"
        before = dr.prefix_sum(flags)
        numbers, count = dr.empty(mi.UInt32, size), dr.empty(mi.UInt32, 1)
        selected = flags != 0 if into is None else (flags != 0) & (before < into.count)
        dr.scatter(numbers, self.index, before, selected)
        dr.scatter(count, before + flags, 0, self.index + 1 == self.count)
        dr.eval(numbers, count)
        return Picked(numbers, count)


@kernel_tree()
@dataclass
class Picked:
    """Selected row numbers in increasing order, in device memory."""

    numbers: Int = UNSET
    """Row numbers; entries beyond `count` are undefined."""
    count: Int = UNSET
    """Number of selected rows."""

    def wait(self) -> Int:
        """Return the row numbers, shortened to `count`, in the same memory. Waits for the device.

        A recorded function treats two arrays with the same memory as one: never pass it this array and `numbers`.
        """
        mi, dr, count = running_engine().mi, running_engine().dr, int(self.count[0])
        return dr.reshape(self.numbers, count, shrink=True) if count else mi.UInt32()


def capacity(rows: int) -> int:
    """Number of rows rounded up, so that recordings are reused for similar numbers of rows.

    Up to 2048 rows there are two sizes, which cost little; above, the result is larger by at most a quarter.
    """
    step = 1 << max(10, rows.bit_length() - 3)
    return -(-rows // step) * step


# ---- Scenes as arguments of functions whose kernels are replayed (`Engine.frozen`) ----------------------------------
# Dr.Jit accepts a Mitsuba scene as an argument, but then inspects every scene of the process on each call, and fails
# if one of them is deleted meanwhile. A replayed cast only reads the addresses of the scene's acceleration structure
# and our own tables. These are passed as arrays; the scene itself is wrapped so that Dr.Jit does not inspect it.


# The first entries of a Mitsuba scene are the addresses that a cast reads; textures, meshes and emitters follow.
_ADDRESSES = 3


class CoveredScene:
    """Wrapper of a scene that compares equal for all scenes of the same kind, so that they share recordings."""

    def __init__(self, scene: RayScene, kind: Hashable) -> None:
        # Recordings keep a reference to their arguments. A weak reference lets the triangles of a world be freed.
        self._scene, self._kind = ref(scene), kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoveredScene) and self._kind == other._kind

    def __hash__(self) -> int:
        return hash(self._kind)

    def __call__(self) -> RayScene:
        """Return the scene."""
        scene = self._scene()
        if scene is None:
            raise ReferenceError("the ray scene was deleted")
        return scene


@kernel_tree()
@dataclass
class SceneArrays:
    """A scene for one launch, with every array that its casts read."""

    scene: CoveredScene
    arrays: tuple[Any, ...]

    def trace(
        self,
        origin: Vectors,
        direction: Vectors,
        time: Float,
        limit: Float,
        active: Masks = True,
        *,
        coherent: bool = False,
    ) -> Trace:
        """As `RayScene.trace`."""
        return self.scene().trace(origin, direction, time, limit, active, coherent=coherent)

    def blocked(
        self,
        origin: Vectors,
        direction: Vectors,
        time: Float,
        limit: Float,
        active: Masks = True,
        *,
        coherent: bool = False,
    ) -> Bool:
        """As `RayScene.blocked`."""
        return self.scene().blocked(origin, direction, time, limit, active, coherent=coherent)


def addresses(engine: Engine, scene: object) -> tuple[Int, ...]:
    """Return the arrays of addresses that casts at a Mitsuba scene read; empty if this Mitsuba does not expose them.

    Freezing then fails, and the engine falls back to tracing every call.

    On the CPU, each array is mapped to the place that its address leads to: an Embree scene, or a function of Embree.
    Dr.Jit needs another recording if the alignment of such a place differs, or if two arrays of a call share their
    memory in another way. Embree aligns scenes to 16 bytes, so arrays of single bytes are always aligned, and arrays of
    the functions, which are the same for all scenes, are cached.
    """
    dr, mi = engine.dr, engine.mi
    try:
        with dr.scoped_set_flag(dr.JitFlag.EnableObjectTraversal, True):
            indices = dr.detail.collect_indices(scene)
        known = [index for index in indices[:_ADDRESSES] if index]
        found = tuple(dr.detail.update_indices(mi.UInt64(0), [index]) for index in known)
    except (AttributeError, TypeError):
        return ()
    if engine.device != "cpu":
        return found
    return tuple(_byte_at(engine, one.numpy().ctypes.data) for one in found)


@lru_cache(maxsize=256)
def _byte_at(engine: Engine, address: int) -> Int:
    """Array of the byte at an address, in that memory. Casts use its address only, while the scene exists."""
    return engine.mi.UInt8(np.ctypeslib.as_array((ctypes.c_uint8 * 8).from_address(address)))
