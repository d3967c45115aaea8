"""A common namespace for NumPy and Dr.Jit, so that each formula is written once.

    xp = namespace(x)
    y = xp.where(x > 0, xp.sqrt(x), 0.0)

It contains only the functions that physics code needs. Operators work on both kinds of arrays.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

# Operands of formulas and kernels: arrays of Dr.Jit or NumPy, or one number for all rows. The classes of Dr.Jit depend
# on the backend chosen at run time; `kernel_types.pyi` describes them for type checkers.
if TYPE_CHECKING:
    from typing_extensions import Self

    from parhelion.core.kernel_types import Bool as Bool
    from parhelion.core.kernel_types import DrJit as DrJit
    from parhelion.core.kernel_types import Float as Float
    from parhelion.core.kernel_types import Int as Int
    from parhelion.core.kernel_types import Ints as Ints
    from parhelion.core.kernel_types import IntVector as IntVector
    from parhelion.core.kernel_types import Masks as Masks
    from parhelion.core.kernel_types import Mitsuba as Mitsuba
    from parhelion.core.kernel_types import Namespace as Namespace
    from parhelion.core.kernel_types import PreliminaryHit as PreliminaryHit
    from parhelion.core.kernel_types import Ray as Ray
    from parhelion.core.kernel_types import Reals as Reals
    from parhelion.core.kernel_types import Scene as Scene
    from parhelion.core.kernel_types import Vectors as Vectors
    from parhelion.core.kernel_types import Vectors2 as Vectors2
    from parhelion.core.kernel_types import Vectors4 as Vectors4
else:
    Reals = Any
    """Floating-point numbers: float32 in kernels, float64 in NumPy."""
    Ints = Any
    """Non-negative integers: uint32 in kernels. Indices of rows, beams and parts, and packed bits."""
    Masks = Any
    """Booleans."""
    Vectors = Any
    """Points and directions of kernels: `x`, `y` and `z`."""
    Vectors2 = Any
    """Points of images and textures."""
    Vectors4 = Any
    """Quaternions, and rows of tables with four columns."""
    Float = Int = Bool = IntVector = Any
    """Arrays of Dr.Jit only."""
    Scene = Ray = PreliminaryHit = Mitsuba = DrJit = Namespace = Any
UNSET: Any = None
"""Default of fields that are always set: Dr.Jit needs one for each field of a dataclass that kernels return."""
Keys: TypeAlias = tuple[Ints, Ints]
"""Two key words of a random stream, per scan or per row."""
State: TypeAlias = tuple[Any, ...]
"""Loop state of a kernel."""

_NUMPY = SimpleNamespace(
    name="numpy",
    sqrt=np.sqrt,
    exp=np.exp,
    log=np.log,
    sin=np.sin,
    cos=np.cos,
    tan=np.tan,
    arcsin=np.arcsin,
    arccos=np.arccos,
    abs=np.abs,
    floor=np.floor,
    round=np.round,
    minimum=np.minimum,
    maximum=np.maximum,
    where=np.where,
    power=np.power,
    clip=np.clip,
    mul_hi=lambda a, b: ((np.asarray(a, np.uint64) * np.asarray(b, np.uint64)) >> np.uint64(32)).astype(np.uint32),
    uint32=lambda a: np.asarray(a).astype(np.uint32),
    float_of=lambda a: np.asarray(a).astype(np.float64),
)

_drjit: SimpleNamespace | None = None


def _drjit_namespace(dr: ModuleType) -> SimpleNamespace:
    # dr.minimum and dr.maximum become LLVM's fminimum and fmaximum, which LLVM 14 and 15 cannot compile in some places
    # (the process aborts with "Cannot select"). A comparison and a select work everywhere. dr.atan2 has the same
    # problem, so there is no arctan2 here.
    def minimum(a: Any, b: Any) -> Any:
        return dr.select(a < b, a, b)

    def maximum(a: Any, b: Any) -> Any:
        return dr.select(a > b, a, b)

    return SimpleNamespace(
        name="drjit",
        sqrt=dr.sqrt,
        exp=dr.exp,
        log=dr.log,
        sin=dr.sin,
        cos=dr.cos,
        tan=dr.tan,
        arcsin=dr.asin,
        arccos=dr.acos,
        abs=dr.abs,
        floor=dr.floor,
        round=dr.round,
        minimum=minimum,
        maximum=maximum,
        where=dr.select,
        power=dr.power,
        clip=lambda a, low, high: minimum(maximum(a, low), high),
        mul_hi=dr.mul_hi,
        uint32=lambda a: dr.uint32_array_t(a)(a),
        float_of=lambda a: dr.float32_array_t(a)(a),
    )


_KINDS: dict[type, bool] = {}


def is_drjit(value: Any) -> bool:
    """Return whether `value` is a Dr.Jit array; Mitsuba's array types are."""
    # If Dr.Jit was never imported, `value` cannot be one of its arrays, and importing it would be slow.
    if "drjit" not in sys.modules:
        return False
    kind = type(value)
    known = _KINDS.get(kind)
    if known is None:  # kernels call this thousands of times with a handful of types
        known = _KINDS[kind] = bool(sys.modules["drjit"].is_array_v(value))
    return known


def namespace(*values: object) -> Namespace:
    """Return the functions for these arrays: Dr.Jit's if any of them is a Dr.Jit array, NumPy's otherwise."""
    global _drjit
    if not any(is_drjit(value) for value in values):
        return _NUMPY  # type: ignore[return-value]
    if _drjit is None:
        import drjit

        _drjit = _drjit_namespace(drjit)
    return _drjit  # type: ignore[return-value]


@dataclass(frozen=True, eq=False)
class Table:
    """Base of records whose fields are arrays with one row per entry."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def rows(self, wanted: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Self:
        """Return the rows selected by index, mask or slice."""
        return type(self)(*(getattr(self, one.name)[wanted] for one in fields(self)))

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """Concatenate the rows of at least one table."""
        tables = list(parts)
        return cls(*(np.concatenate([getattr(part, one.name) for part in tables]) for one in fields(cls)))
