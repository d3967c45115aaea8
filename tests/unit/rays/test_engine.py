"""The engine apart from casts: tables, picked rows, arguments of recorded functions, and the block size of threads."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.rays.device import Static, engine, kernel_tree
from parhelion.rays.replay import Picked, Rows


def _pick(values: Any, rows: Rows, into: Rows | None) -> Picked:
    dr, mi = engine().dr, engine().mi
    flags = dr.select(values > 0.5, mi.UInt32(1), 0)
    dr.eval(flags)
    return rows.pick(flags, into)


@settings(max_examples=60, deadline=None)
@given(st.integers(2, 6000), st.floats(0.0, 1.0), st.integers(0, 2**32 - 1))
def test_rows_are_picked_as_numpy_picks_them(count: int, share: float, seed: int) -> None:
    values = np.where(np.random.default_rng(seed).random(count) < share, 1.0, 0.0).astype(np.float32)
    running = engine()
    found = running.frozen(_pick)(running.table(values), Rows.transient(running, count, 8192), None).wait()
    np.testing.assert_array_equal(found.numpy(), np.flatnonzero(values))


def test_rows_beyond_the_capacity_are_counted_and_omitted() -> None:
    running, values = engine(), np.ones(3000, np.float32)
    picked = running.frozen(_pick)(running.table(values), Rows.cached(running, 3000), Rows.cached(running, 100))
    assert int(picked.count[0]) == 3000
    np.testing.assert_array_equal(picked.numbers.numpy(), np.arange(100))


@pytest.mark.parametrize("count", [1, 2, 1024, 1025, 70_000])
@pytest.mark.parametrize("dtype", [np.float64, np.uint16, np.bool_])
def test_tables_copy_their_values(count: int, dtype: Any) -> None:
    values = (np.arange(count) % 2 + (0.1 if dtype is np.float64 else 0)).astype(dtype)
    table = engine().table(values)
    expected = values.astype(np.float32 if dtype is np.float64 else np.uint32)
    values[:] = 0
    np.testing.assert_array_equal(table.numpy(), expected)
    assert table.state == engine().dr.VarState.Evaluated, "a constant would be compiled into kernels"


@kernel_tree(fixed=("scale", "name"))
@dataclass
class _Scaled:
    scale: float
    name: str
    values: Any


def _scaled(given: _Scaled) -> Any:
    return given.values * given.scale + len(given.name)


def test_fixed_fields_select_the_kernel() -> None:
    recorded: Any = engine().frozen(_scaled)
    values = np.arange(5, dtype=np.float32)
    for scale, name in ((2.0, "a"), (3.0, "a"), (2.0, "abc"), (2.0, "a"), (3.0, "a")):
        found = recorded(_Scaled(scale, name, engine().table(values))).numpy()
        np.testing.assert_array_equal(found, values * scale + len(name))
    assert recorded.n_recordings == 3
    assert Static((1, "a")) == Static((1, "a")) != Static((2, "a"))


def test_threads_take_small_blocks_of_work() -> None:
    if engine().device != "cpu":
        pytest.skip("a GPU distributes its work itself")
    libraries = list(Path(engine().dr.__file__).parent.glob("libdrjit-core.so*"))
    if not libraries:
        pytest.skip("Dr.Jit's library has another name here")
    assert ctypes.CDLL(str(libraries[0]))["_Z19jit_llvm_block_sizev"]() == 2048


@kernel_tree()
@dataclass
class _Chosen:
    first: bool
    values: Any
    second: bool
    factor: int


def _with_constants(one: _Chosen, other: _Chosen, third: bool, weight: int) -> Any:
    sum_of = one.values + other.values * other.factor + (10.0 if one.first else 0.0) + (20.0 if one.second else 0.0)
    return sum_of + (40.0 if other.first else 0.0) + (80.0 if third else 0.0) + 160.0 * weight


def test_every_combination_of_constants_has_its_own_recording() -> None:
    """Constants that are the same object (True, False, small numbers) must not hide each other."""
    running = engine()
    recorded: Any = running.frozen(_with_constants)
    combinations = list(product([True, False], [True, False], [True, False], [True, False], [0, 1]))
    for first, second, other, third, weight in (*combinations, *combinations[::-1]):
        args = (
            _Chosen(first, running.table(np.arange(4.0)), second, 1),
            _Chosen(other, running.table(np.ones(4)), False, 2),
        )
        got = recorded(*args, third, weight).numpy()
        wanted = np.arange(4.0) + 2.0 + 10 * first + 20 * second + 40 * other + 80 * third + 160 * weight
        np.testing.assert_array_equal(got, wanted)
    assert recorded.n_recordings == len(combinations)
