"""One spelling for NumPy and Dr.Jit: every function of the namespace gives the same numbers on both."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from parhelion.core.arrays import is_drjit, namespace
from parhelion.rays.device import Engine, engine

Array = NDArray[Any]

RNG = np.random.default_rng(4)
ANY = RNG.uniform(-20, 20, 4001).astype(np.float32)
OTHER = RNG.uniform(-20, 20, 4001).astype(np.float32)
POSITIVE = RNG.uniform(1e-6, 50, 4001).astype(np.float32)
UNIT = np.append(RNG.uniform(-1, 1, 3999), [-1, 1]).astype(np.float32)

CASES: dict[str, tuple[Array, ...]] = {
    "sqrt": (POSITIVE,),
    "exp": (ANY,),
    "log": (POSITIVE,),
    "sin": (ANY,),
    "cos": (ANY,),
    "tan": (UNIT,),
    "arcsin": (UNIT,),
    "arccos": (UNIT,),
    "abs": (ANY,),
    "floor": (ANY,),
    "round": (ANY,),
    "minimum": (ANY, OTHER),
    "maximum": (ANY, OTHER),
    "power": (POSITIVE, UNIT),
}
EXACT = {"abs", "floor", "round", "minimum", "maximum"}


@pytest.fixture(scope="module")
def kernels() -> Engine:
    return engine()


@pytest.mark.parametrize("name", CASES)
def test_the_same_numbers(kernels: Engine, name: str) -> None:
    values = CASES[name]
    on_device = [kernels.mi.Float(v) for v in values]
    ours = getattr(namespace(*on_device), name)(*on_device).numpy()
    expected = getattr(namespace(*values), name)(*(v.astype(np.float64) for v in values))
    if name in EXACT:
        assert np.array_equal(ours, expected.astype(np.float32))
    else:
        assert np.allclose(ours, expected, rtol=2e-6, atol=3e-7)


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize("bound", [0.0, 3.5, -2])
def test_bounds_may_be_plain_numbers_on_either_side(kernels: Engine, name: str, bound: float) -> None:
    x = kernels.mi.Float(ANY)
    function = getattr(namespace(x), name)
    expected = getattr(np, name)(ANY, np.float32(bound))
    assert np.array_equal(function(x, bound).numpy(), expected)
    assert np.array_equal(function(bound, x).numpy(), expected)


def test_minimum_and_maximum_at_equal_and_infinite_values(kernels: Engine) -> None:
    a = np.array([1, np.inf, -np.inf, np.inf, 0, -3], np.float32)
    b = np.array([1, 2, 2, np.inf, 0, -3], np.float32)
    xp = namespace(kernels.mi.Float(a))
    for name in ("minimum", "maximum"):
        ours = getattr(xp, name)(kernels.mi.Float(a), kernels.mi.Float(b)).numpy()
        assert np.array_equal(ours, getattr(np, name)(a, b))


def test_where_and_clip(kernels: Engine) -> None:
    x, y = kernels.mi.Float(ANY), kernels.mi.Float(OTHER)
    xp = namespace(x, y)
    assert np.array_equal(xp.where(x > y, x, y).numpy(), np.where(ANY > OTHER, ANY, OTHER))
    assert np.array_equal(xp.where(x > 0.0, x, 0.0).numpy(), np.where(ANY > 0, ANY, np.float32(0)))
    assert np.array_equal(xp.clip(x, -2.0, 7.0).numpy(), np.clip(ANY, np.float32(-2), np.float32(7)))
    assert np.array_equal(namespace(ANY).clip(ANY, -2.0, 7.0), np.clip(ANY, -2.0, 7.0))


def test_whole_numbers(kernels: Engine) -> None:
    a = RNG.integers(0, 2**32, 3000, dtype=np.uint64).astype(np.uint32)
    b = RNG.integers(0, 2**32, 3000, dtype=np.uint64).astype(np.uint32)
    a[:3], b[:3] = [0, 2**32 - 1, 2**32 - 1], [5, 2**32 - 1, 1]
    expected = [int(p) * int(q) >> 32 for p, q in zip(a, b, strict=True)]
    assert namespace(a).mul_hi(a, b).tolist() == expected
    assert namespace(a).mul_hi(a, b).dtype == np.uint32
    x, y = kernels.mi.UInt32(a), kernels.mi.UInt32(b)
    assert namespace(x).mul_hi(x, y).numpy().tolist() == expected


def test_conversions(kernels: Engine) -> None:
    small = np.array([0, 1, 7, 2**23 - 1], np.uint32)
    x = kernels.mi.UInt32(small)
    as_float = namespace(x).float_of(x)
    assert type(as_float) is kernels.mi.Float
    assert np.array_equal(as_float.numpy(), small.astype(np.float32))
    assert namespace(small).float_of(small).dtype == np.float64
    fractions = np.array([0.0, 0.9, 3.99, 1e6], np.float32)
    y = kernels.mi.Float(fractions)
    assert type(namespace(y).uint32(y)) is kernels.mi.UInt32
    for result in (namespace(y).uint32(y).numpy(), namespace(fractions).uint32(fractions)):
        assert result.tolist() == [0, 0, 3, 1_000_000]
        assert result.dtype == np.uint32


def test_the_kind_of_array_decides(kernels: Engine) -> None:
    x = kernels.mi.Float([1.0, 2.0])
    assert namespace(np.ones(2), 3.0).name == "numpy"
    assert namespace(1.0).name == "numpy"
    assert namespace().name == "numpy"
    assert namespace(np.ones(2), x).name == "drjit"
    assert namespace(3.0, x).name == "drjit"
    assert is_drjit(x)
    assert is_drjit(kernels.mi.Vector3f(1, 2, 3))
    assert not is_drjit(np.ones(2))
    assert not is_drjit(2.0)


def test_both_kinds_have_the_same_names(kernels: Engine) -> None:
    ours: Callable[..., Any] = namespace
    numpy_names, kernel_names = vars(ours(1.0)), vars(ours(kernels.mi.Float(1.0)))
    assert numpy_names.keys() == kernel_names.keys()
    tested = {*CASES, "where", "clip", "mul_hi", "uint32", "float_of", "name"}
    assert numpy_names.keys() == tested
