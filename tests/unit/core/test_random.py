"""Random numbers by counter: the published words of Philox, and the very words of a stream, which runs depend on."""

from __future__ import annotations

import hashlib
import math
import struct

import numpy as np
import pytest

from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose
from parhelion.core.random import Stream, number_of, philox, to_normal, to_unit, words

KEY_LOW, KEY_HIGH = 0x8016BABB, 0x76119743
WORDS = [[0xE4512C02, 0x15A9A3AC], [0x34260776, 0xB1FA751C], [0xFAB08AD5, 0x14219CC6], [0x5F127DBF, 0x7AB70DC6]]
"""Words of the elements 0 and 7, draw 3."""
FRAME = 0x62B1AC4C703F4A52


def block(*values: int) -> tuple[np.ndarray, ...]:
    return tuple(np.array([value], np.uint32) for value in values)


@pytest.mark.parametrize(
    ("counter", "key", "expected"),
    [
        ((0, 0, 0, 0), (0, 0), (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        ((0xFFFFFFFF,) * 4, (0xFFFFFFFF,) * 2, (0x408F276D, 0x41C83B0E, 0xA20BC7C6, 0x6D5451FD)),
        (
            (0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344), (0xA4093822, 0x299F31D0),
            (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1),
        ),
    ],
)  # fmt: skip
def test_philox_gives_the_published_words(
    counter: tuple[int, ...], key: tuple[int, ...], expected: tuple[int, ...]
) -> None:
    """`kat_vectors` of Random123 (Salmon et al. 2011), philox4x32 with ten rounds."""
    with np.errstate(over="ignore"):
        found = philox(block(*counter), block(*key))  # type: ignore[arg-type]
    assert tuple(int(word[0]) for word in found) == expected


def test_the_words_of_a_stream_are_pinned() -> None:
    """Every recorded scan and world hangs on these: another key or counter would be another simulation."""
    stream = Stream(12345, "lidar/range-noise", 99)
    packed = struct.pack("<QQ", 12345, 99) + b"lidar/range-noise"
    digest = hashlib.blake2b(packed, digest_size=8, person=b"stream").digest()
    assert stream.key == struct.unpack("<II", digest) == (KEY_LOW, KEY_HIGH)
    found = stream.words(np.array([0, 7]), 3)
    assert [[int(v) for v in word] for word in found] == WORDS
    with np.errstate(over="ignore"):
        by_hand = philox(block(7, 3, 0, 0), block(*stream.key))  # type: ignore[arg-type]
    assert [int(word[1]) for word in found] == [int(word[0]) for word in by_hand]


def test_elements_and_draws_of_any_kind_are_the_same() -> None:
    stream = Stream(5, "x")
    whole = stream.words(np.arange(4), 2)
    for other in (stream.words(range(4), 2), stream.words([0, 1, 2, 3], 2), stream.words(np.arange(4), 2 + 2**32)):
        assert all(np.array_equal(a, b) for a, b in zip(whole, other, strict=True))
    draws = words(stream.key, np.arange(4), np.full(4, 2, np.uint32))
    keys = tuple(np.full(4, part, np.uint32) for part in stream.key)
    of_arrays = words(keys, np.arange(4), 2)  # type: ignore[arg-type]
    for other in (draws, of_arrays):
        assert all(np.array_equal(a, b) for a, b in zip(whole, other, strict=True))
    assert int(stream.words(3, 2)[1]) == int(whole[1][3])
    assert not np.array_equal(whole[0], stream.words(np.arange(4))[0])


def test_units_are_the_middles_of_their_steps() -> None:
    """23 bits: (word >> 9 + 1/2) / 2^23, which is never 0 or 1."""
    found = to_unit(np.array([0, 511, 512, 0x80000000, 0xFFFFFFFF], np.uint32))
    assert found.tolist() == [2.0**-24, 2.0**-24, 3 * 2.0**-24, 0.5 + 2.0**-24, 1 - 2.0**-24]


def test_normal_numbers_are_box_and_mullers() -> None:
    a, b = 0x20000000, 0x0AAAAAAA
    u, v = ((word >> 9) / 2**23 + 2**-24 for word in (a, b))
    radius = math.sqrt(2 * math.log(1 / u))
    cos, sin = to_normal(*block(a, b))
    assert float(cos[0]) == pytest.approx(radius * math.cos(2 * math.pi * v), rel=1e-6)
    assert float(sin[0]) == pytest.approx(radius * math.sin(2 * math.pi * v), rel=1e-6)


def test_frames_of_time_and_pose() -> None:
    pose = Pose((1.0, -2.0, 0.5), rpy_deg=(0, 0, 90))
    packed = struct.pack("<8d", 0.1, *pose.xyz, *pose.quat_xyzw)
    digest = hashlib.blake2b(packed, digest_size=8, person=b"frame").digest()
    assert number_of(0.1, pose) == struct.unpack("<Q", digest)[0] // 2
    assert number_of(0.0, Pose()) == FRAME


@pytest.mark.parametrize("name", ["seed", "number"])
def test_seeds_and_frames_have_64_bits(name: str) -> None:
    for good in (0, 2**64 - 1, np.int64(7)):
        Stream(**{"seed": 1, "name": "x", name: good})  # type: ignore[arg-type]
    assert Stream(1, "x") == Stream(1, "x", 0)
    for bad in (-1, 2**64, 1.0, True, "1"):
        sent = "frame" if name == "number" else name  # users know it as the number of a frame
        with pytest.raises(ConfigError, match=f"{sent}: must be a whole number"):
            Stream(**{"seed": 1, "name": "x", name: bad})  # type: ignore[arg-type]


def test_generators_are_numpys_with_the_streams_key() -> None:
    stream = Stream(3, "world/terrain")
    low, high = stream.key
    expected = np.random.Generator(np.random.Philox(key=low + high * 2**32)).normal(size=5)
    assert np.array_equal(stream.generator().normal(size=5), expected)
