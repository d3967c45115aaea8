"""Scenes as arguments of functions whose kernels are replayed (`Engine.frozen`).

Dr.Jit takes a Mitsuba scene as an argument, but then looks at every scene of the process at each call, and fails where
one goes away meanwhile. All that a replayed cast reads are the addresses of the scene's acceleration structure and the
tables beside it: those are handed over as arrays, and the scene itself in a cover that Dr.Jit does not look under.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any
from weakref import ref

from parhelion.rays.device import Engine, kernel_tree

if TYPE_CHECKING:
    from parhelion.rays.scene import RayScene, Trace

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
