"""One spelling for NumPy and Dr.Jit, so that a formula is written once.

    xp = namespace(x)
    y = xp.where(x > 0, xp.sqrt(x), 0.0)

Only names that physics functions really need are here; operators work on both kinds as they are.
"""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass, fields
from types import ModuleType, SimpleNamespace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from typing_extensions import Self

# What formulas and kernels work on: arrays of Dr.Jit or NumPy, or one number for all rows. The types of Dr.Jit's arrays
# are known only when the engine runs, so a type checker takes anything here. The names are for the reader.
Reals: TypeAlias = Any
"""Floating-point numbers: float32 in kernels, float64 in NumPy."""
Ints: TypeAlias = Any
"""Whole numbers that are not negative: uint32 in kernels. Numbers of rows, beams, parts, and packed bits."""
Masks: TypeAlias = Any
"""True or false."""
Vectors: TypeAlias = Any
"""Points, directions and quaternions, each component a column."""
Keys: TypeAlias = tuple[Ints, Ints]
"""Two words that key a random stream: of each scan, or of each row."""
State: TypeAlias = tuple[Any, ...]
"""What a loop of a kernel carries from step to step."""

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
    # dr.minimum and dr.maximum become LLVM's fminimum and fmaximum, which LLVM 14 and 15 cannot compile in some
    # places ("Cannot select", and the process ends). A comparison and a select work everywhere. dr.atan2 has the same
    # trouble, which is why there is no arctan2 here.
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
    """Whether `value` is a Dr.Jit array (Mitsuba's types are)."""
    # Where Dr.Jit was never imported there can be none of its arrays, and no reason to import it now.
    if "drjit" not in sys.modules:
        return False
    kind = type(value)
    known = _KINDS.get(kind)
    if known is None:  # kernels ask thousands of times, of a handful of types
        known = _KINDS[kind] = bool(sys.modules["drjit"].is_array_v(value))
    return known


def namespace(*values: Any) -> SimpleNamespace:
    """The functions that fit these arrays: Dr.Jit's where any of them is a Dr.Jit array, else NumPy's."""
    global _drjit
    if not any(is_drjit(value) for value in values):
        return _NUMPY
    if _drjit is None:
        import drjit

        _drjit = _drjit_namespace(drjit)
    return _drjit


@dataclass(frozen=True, eq=False)
class Table:
    """Base of records whose fields are arrays with one row per entry."""

    def __len__(self) -> int:
        return len(getattr(self, fields(self)[0].name))

    def rows(self, wanted: NDArray[np.int64] | NDArray[np.bool_] | slice) -> Self:
        """Some rows, by number, mask or slice."""
        return type(self)(*(getattr(self, one.name)[wanted] for one in fields(self)))

    @classmethod
    def joined(cls, parts: Iterable[Self]) -> Self:
        """All rows of several tables, at least one."""
        tables = list(parts)
        return cls(*(np.concatenate([getattr(part, one.name) for part in tables]) for one in fields(cls)))
