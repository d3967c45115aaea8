"""Rows that a run records: all of them can be read, and memory does not grow with their number."""

from __future__ import annotations

import os
import tracemalloc

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.history import RECENT_BYTES, History
from parhelion.core.streams import ImuData, SampleHistory, joined


@pytest.mark.parametrize("recent", [1, 2, 5, 1000])
def test_every_row_can_be_read_wherever_it_is_stored(recent: int) -> None:
    history, whole = History((3,), recent_rows=recent), np.arange(96.0).reshape(32, 3)
    for count, row in enumerate(whole, 1):
        history.append(row)
        assert len(history) == count
        for begin, end in ((0, count), (count - 1, count), (count // 2, count - 1), (-3, 99), (count, count + 1)):
            assert np.array_equal(history.rows(begin, end), whole[:count][max(begin, 0) : end])


def test_blocks_of_rows_are_the_same_as_single_ones() -> None:
    single, blocks, whole = History((), recent_rows=4), History((), recent_rows=4), np.random.default_rng(1).random(50)
    for value in whole:
        single.append(value)
    for begin, end in ((0, 1), (1, 1), (1, 24), (24, 50)):
        blocks.extend(whole[begin:end])
    assert single.rows(0, 50).tobytes() == blocks.rows(0, 50).tobytes() == whole.tobytes()


def test_the_rows_around_numbers_enclose_them() -> None:
    history = History((), recent_rows=4)
    history.append(0.0)
    assert [(begin, rows.tolist()) for begin, rows in [history.around(-1.0, 5.0)]] == [(0, [0.0])]
    history.extend(np.arange(1.0, 11.0))
    for low, high, expected in (
        (2.5, 4.5, [2, 3, 4, 5]), (3.0, 3.0, [3, 4]), (-7.0, -2.0, [0, 1]), (10.0, 10.0, [9, 10]),
        (90.0, 99.0, [9, 10]),
    ):  # fmt: skip
        begin, rows = history.around(low, high)
        assert (begin, rows.tolist()) == (expected[0], expected)


def test_results_do_not_change_when_rows_move_to_the_file() -> None:
    history = History((), recent_rows=2)
    history.extend(np.arange(4.0))
    seen = history.rows(2, 4)
    history.extend(np.arange(4.0, 8.0))
    assert seen.tolist() == [2.0, 3.0]


def test_memory_stays_flat() -> None:
    history, row = History((20,)), np.ones(20)
    tracemalloc.start()
    try:
        for _ in range(30_000):  # 4.8 MB
            history.append(row)
        held, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert held < 2 * RECENT_BYTES + 100_000


def test_the_file_is_closed_with_the_history() -> None:
    before = len(os.listdir("/proc/self/fd"))
    history = History((), recent_rows=2)
    history.extend(np.arange(9.0))
    assert len(os.listdir("/proc/self/fd")) == before + 1
    del history
    assert len(os.listdir("/proc/self/fd")) == before


def test_samples_that_were_stored_in_parts_are_the_whole() -> None:
    imu = ph.Imu("xsens/mti-3")
    parts = [imu.run(None, ph.Pose(), start=0.5 * k, duration=0.5, seed=7) for k in range(4)]
    history: SampleHistory[ImuData] = SampleHistory()
    for part in parts:
        history.add(part)
    whole, expected = history.joined(), joined(parts)
    assert all(getattr(whole, name).tobytes() == getattr(expected, name).tobytes() for name in expected._columns())
    assert (len(whole), whole.metadata) == (200, expected.metadata)
