"""LZF streams: against liblzf's own output, and back and forth."""

from __future__ import annotations

from contextlib import suppress

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from parhelion.io.pcd import LARGEST_EXPANSION, compress, decompress

# 40 float32 in steps of eight, 300 zeros, 20 uint16, as compressed by liblzf 3.6: literals, short and long copies,
# overlapping copies at distances 1 to 32.
RAW = (np.arange(40) // 8).astype("<f4").tobytes() + bytes(300) + np.arange(20).astype("<u2").tobytes()
BY_LIBLZF = bytes.fromhex(
    "010000e0170001803fe01503010040e015030040201fe013030080201fe01303e0ff00e01b001f0100020003000400050006000700080009"
    "000a000b000c000d000e000f00100005110012001300"
)


def test_streams_of_liblzf_are_read() -> None:
    assert decompress(BY_LIBLZF, len(RAW)) == RAW


@pytest.mark.parametrize("period", [1, 2, 4, 8])
def test_round_trip_and_gain_on_runs(period: int) -> None:
    packed = compress(RAW, period)
    assert decompress(packed, len(RAW)) == RAW
    assert len(packed) < len(RAW)


@settings(max_examples=200, deadline=None)
@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=5), st.integers(1, 300)), max_size=12),
    st.sampled_from([1, 2, 3, 4, 8, 300]),
)
def test_round_trip_of_any_bytes(runs: list[tuple[bytes, int]], period: int) -> None:
    raw = b"".join(piece * times for piece, times in runs)
    packed = compress(raw, period)
    assert decompress(packed, len(raw)) == raw
    assert len(packed) <= len(raw) + len(raw) // 32 + 1


def test_streams_may_be_joined() -> None:
    first, second = b"abcd" * 50, bytes(range(256))
    assert decompress(compress(first, 4) + compress(second, 1), 456) == first + second


def test_the_largest_expansion_is_reached_and_not_passed() -> None:
    raw = bytes(1 + 264 * 1000)
    packed = compress(raw, 1)
    assert len(packed) == 2 + 3 * 1000
    assert len(raw) <= LARGEST_EXPANSION * len(packed)


@pytest.mark.parametrize(
    ("stream", "size"),
    [
        (b"\x00a\x20\x01", 4),  # copy from before the start
        (b"\x00a\xe0", 10),  # ends within a copy
        (b"\x05ab", 6),  # ends within a literal
        (b"\x05ab", 2),  # the same, with as many bytes as declared
        (b"\x00a\xe0\xff\x00", 100),  # more than declared
        (b"\x00a", 2),  # less than declared
    ],
)
def test_damaged_streams_are_refused(stream: bytes, size: int) -> None:
    with pytest.raises(ValueError, match=r"truncated|declares"):
        decompress(stream, size)


@settings(max_examples=300, deadline=None)
@given(
    st.lists(st.tuples(st.binary(min_size=1, max_size=5), st.integers(1, 60)), min_size=1, max_size=8),
    st.lists(st.tuples(st.integers(0, 10_000), st.integers(0, 255)), max_size=3),
    st.integers(-2, 2),
)
def test_a_damaged_stream_is_refused_or_has_the_declared_size(
    runs: list[tuple[bytes, int]], damage: list[tuple[int, int]], more: int
) -> None:
    raw = b"".join(piece * times for piece, times in runs)
    packed = bytearray(compress(raw, 1))
    for place, value in damage:
        packed[place % len(packed)] = value
    size = max(1, len(raw) + more)
    with suppress(ValueError):  # any other exception fails
        assert len(decompress(bytes(packed), size)) == size
