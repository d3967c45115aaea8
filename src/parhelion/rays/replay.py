"""The rows that a recorded function (`Engine.frozen`) works on, as one argument.

A recorded function is traced once, for arrays of any length, so it must not ask how many rows there are. It would fall
into one of three traps:

- The length of an array, used as a number, stays what it was at the first call.
- So does the size of memory that the function asks for itself, by `dr.zeros`, `dr.empty` and `dr.ravel`. Results that
  have one value for each row of the kernel are not concerned.
- The number of a kernel's rows is the length of the arrays that it reads in order. Where it reads everything by index,
  Dr.Jit guesses.

`Rows` has an answer to each: `count` is the number of rows as the device knows it, `room` is the number of rows that
there is memory for, and `index` is an array to read in order.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import ref

from parhelion.core.arrays import Ints
from parhelion.rays.device import Engine, kernel_tree
from parhelion.rays.device import engine as running_engine

if TYPE_CHECKING:
    from parhelion.rays.scene import RayScene, Trace


@kernel_tree()
@dataclass
class Rows:
    """Rows of a recorded function, by number."""

    index: Ints
    """0, 1, 2 ... The function reads it in order, so that its kernels have as many rows."""
    count: Ints
    """How many there are, on the device: another number needs no other kernel."""
    room: int
    """How many rows there is memory for. Another number makes another recording; 0 where no memory is asked for."""

    @classmethod
    def kept(cls, engine: Engine, count: int) -> Rows:
        """Rows of a number that comes again, such as that of a sensor's beams: the index is kept for the next scan."""
        return cls(engine.counting(count), engine.whole(count), count)

    @classmethod
    def passing(cls, engine: Engine, count: int, room: int = 0) -> Rows:
        """Rows of a number that is another at the next scan, such as that of beams on edges."""
        return cls(engine.dr.arange(engine.mi.UInt32, count), engine.whole(count), room)

    def __len__(self) -> int:
        """How many there are, for those who call recorded functions; within them it would be a trap."""
        return len(self.index)

    def pick(self, flags: Ints, into: Rows | None = None) -> Picked:
        """Which rows have the flag 1, not 0. Only for recorded functions.

        There is memory for as many as these rows have. With `into` it is for as many as those have, and the others are
        left out.
        """
        engine = running_engine()
        dr, mi = engine.dr, engine.mi
        size = self.room if into is None else into.room
        assert size, "rows to pick from need memory"
        before = dr.prefix_sum(flags)
        numbers, count = dr.empty(mi.UInt32, size), dr.empty(mi.UInt32, 1)
        kept = flags != 0 if into is None else (flags != 0) & (before < into.count)
        dr.scatter(numbers, self.index, before, kept)
        dr.scatter(count, before + flags, 0, self.index + 1 == self.count)
        dr.eval(numbers, count)
        return Picked(numbers, count)


@kernel_tree()
@dataclass
class Picked:
    """Numbers of some rows, in order, on the device."""

    numbers: Ints = None
    """Those after the last mean nothing."""
    count: Ints = None
    """How many there are."""

    def wait(self) -> Ints:
        """The numbers in an array of their own length, in the same memory. Waits for the device.

        Recorded functions take arrays of one memory for one array: never hand them this and `numbers` together.
        """
        mi, dr, count = running_engine().mi, running_engine().dr, int(self.count[0])
        return dr.reshape(self.numbers, count, shrink=True) if count else mi.UInt32()


def room(rows: int) -> int:
    """Memory for this many rows and up to a quarter more, so that recordings can be used again for nearly as many."""
    step = 1 << max(8, rows.bit_length() - 3)
    return -(-rows // step) * step


# ---- Scenes as arguments of functions whose kernels are replayed (`Engine.frozen`) ----------------------------------
# Dr.Jit takes a Mitsuba scene as an argument, but then looks at every scene of the process at each call, and fails
# where
# one goes away meanwhile. All that a replayed cast reads are the addresses of the scene's acceleration structure and
# the
# tables beside it: those are handed over as arrays, and the scene itself in a cover that Dr.Jit does not look under.


# The first entries of a Mitsuba scene are the addresses that a cast reads; textures, meshes and emitters come after.
_ADDRESSES = 3


class CoveredScene:
    """A scene that recordings of all scenes of its kind take for the same one."""

    def __init__(self, scene: RayScene, kind: Hashable) -> None:
        # Recordings keep what they were made with: they must not keep a world's triangles.
        self._scene, self._kind = ref(scene), kind

    def __eq__(self, other: object) -> bool:
        return isinstance(other, CoveredScene) and self._kind == other._kind

    def __hash__(self) -> int:
        return hash(self._kind)

    def __call__(self) -> RayScene:
        """The scene itself."""
        scene = self._scene()
        if scene is None:
            raise ReferenceError("the scene is gone")
        return scene


@kernel_tree()
@dataclass
class SceneArrays:
    """A scene for one launch, with every array that casts at it read."""

    scene: CoveredScene
    arrays: tuple[Any, ...]

    def trace(self, *args: Any, **kwargs: Any) -> Trace:
        """As `RayScene.trace`."""
        return self.scene().trace(*args, **kwargs)

    def blocked(self, *args: Any, **kwargs: Any) -> Any:
        """As `RayScene.blocked`."""
        return self.scene().blocked(*args, **kwargs)


def addresses(engine: Engine, scene: Any) -> tuple[Any, ...]:
    """The arrays with the addresses that casts at a Mitsuba scene read; none where this Mitsuba does not tell them.

    Freezing then fails, and the engine falls back to tracing every call.
    """
    dr, mi = engine.dr, engine.mi
    try:
        with dr.scoped_set_flag(dr.JitFlag.EnableObjectTraversal, True):
            indices = dr.detail.collect_indices(scene)
        known = [index for index in indices[:_ADDRESSES] if index]
        return tuple(dr.detail.update_indices(mi.UInt64(0), [index]) for index in known)
    except (AttributeError, TypeError):
        return ()
