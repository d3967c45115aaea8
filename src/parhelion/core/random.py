"""Counter-based random numbers: a pure function of seed, stream name, measurement, element and draw number.

There is no generator state, so results do not depend on the number of threads, on the split into batches, or on
previous draws. The function is Philox4x32 with ten rounds (Salmon et al., "Parallel random numbers: as easy as 1, 2,
3", SC'11). It accepts NumPy and Dr.Jit arrays.
"""

from __future__ import annotations

import hashlib
import struct
from dataclasses import dataclass
from typing import Any, overload

import numpy as np

from parhelion.core.arrays import Float, Int, Ints, Keys, namespace
from parhelion.core.errors import ConfigError
from parhelion.core.pose import Pose

_MULTIPLIER = (0xD2511F53, 0xCD9E8D57)
_WEYL = (0x9E3779B9, 0xBB67AE85)
_MASK = 0xFFFFFFFF


def philox(counter: tuple[Any, Any, Any, Any], key: tuple[Any, Any]) -> tuple[Any, Any, Any, Any]:
    """Four random 32-bit words from four counter words and two key words, all uint32 arrays of the same library."""
    xp = namespace(*counter, *key)
    c0, c1, c2, c3 = counter
    k0, k1 = key
    for _ in range(10):
        high0, low0 = xp.mul_hi(c0, _word(c0, _MULTIPLIER[0])), c0 * _word(c0, _MULTIPLIER[0])
        high1, low1 = xp.mul_hi(c2, _word(c2, _MULTIPLIER[1])), c2 * _word(c2, _MULTIPLIER[1])
        c0, c1, c2, c3 = high1 ^ c1 ^ k0, low1, high0 ^ c3 ^ k1, low0
        k0, k1 = k0 + _word(k0, _WEYL[0]), k1 + _word(k1, _WEYL[1])
    return c0, c1, c2, c3


def _word(like: Any, value: int) -> Any:
    return np.uint32(value) if isinstance(like, (np.ndarray, np.generic)) else type(like)(value)


@overload
def to_unit(word: Int) -> Float: ...
@overload
def to_unit(word: object) -> Any: ...
def to_unit(word: Any) -> Any:
    """Uniform numbers in the open interval (0, 1) from 32-bit words; never 0, so that the logarithm is finite."""
    xp = namespace(word)
    # 23 bits and a half step are exact in float32, so NumPy and Dr.Jit give the same numbers.
    return xp.float_of(word >> _word(word, 9)) * 2.0**-23 + 2.0**-24


@overload
def to_normal(word_a: Int, word_b: Int) -> tuple[Float, Float]: ...
@overload
def to_normal(word_a: object, word_b: object) -> tuple[Any, Any]: ...
def to_normal(word_a: Any, word_b: Any) -> tuple[Any, Any]:
    """Two independent standard normal numbers from two words (Box and Muller 1958)."""
    xp = namespace(word_a, word_b)
    radius = xp.sqrt(-2.0 * xp.log(to_unit(word_a)))
    angle = (2.0 * np.pi) * to_unit(word_b)
    return radius * xp.cos(angle), radius * xp.sin(angle)


def number_of(time: float, pose: Pose) -> int:
    """Default number of a measurement: 63 bits hashed from its time and pose.

    Scans at different times or places then have independent noise, and a scan has the same noise alone or in a batch.
    """
    digest = hashlib.blake2b(
        struct.pack("<8d", time, *pose.xyz, *pose.quat_xyzw), digest_size=8, person=b"frame"
    ).digest()
    return int.from_bytes(digest, "little") >> 1


def repeated(number: int, repeats: int) -> int:
    """Number of a measurement that repeats an earlier one of the same number for the `repeats`-th time."""
    digest = hashlib.blake2b(
        struct.pack("<QQ", number & (2**64 - 1), repeats), digest_size=8, person=b"repeat"
    ).digest()
    return int.from_bytes(digest, "little") >> 1


@dataclass(frozen=True)
class Stream:
    """A named source of random numbers. Different streams never share a draw."""

    seed: int
    """Integer from 0 to 2**64 - 1, chosen by the user."""
    name: str
    """Purpose of the numbers, for example 'lidar/range-noise'."""
    number: int = 0
    """Number of the measurement, from 0 to 2**64 - 1."""

    def __post_init__(self) -> None:
        for label, value in (("seed", self.seed), ("frame", self.number)):
            if isinstance(value, bool) or not isinstance(value, (int, np.integer)) or not 0 <= value < 2**64:
                raise ConfigError(f"{label}: must be a whole number from 0 to 2**64 - 1, got {value!r}")

    @property
    def key(self) -> tuple[int, int]:
        """Two key words, hashed from seed, name and number, so that neighbouring seeds are independent."""
        packed = struct.pack("<QQ", int(self.seed), int(self.number)) + self.name.encode()
        digest = hashlib.blake2b(packed, digest_size=8, person=b"stream").digest()
        low, high = struct.unpack("<II", digest)
        return low, high

    def words(self, element: Any, draw: Any = 0) -> tuple[Any, Any, Any, Any]:
        """Four random words per element number (uint32 array); `draw` selects further sets of four."""
        return words(self.key, element, draw)

    def generator(self) -> np.random.Generator:
        """Return a NumPy generator seeded by this stream, for set-up code that needs NumPy's distributions."""
        low, high = self.key
        return np.random.Generator(np.random.Philox(key=low | (high << 32)))


@overload
def words(key: Keys, element: Int, draw: Ints = 0) -> tuple[Int, Int, Int, Int]: ...
@overload
def words(key: Keys, element: object, draw: Ints = 0) -> tuple[Any, Any, Any, Any]: ...
def words(key: Keys, element: Any, draw: Any = 0) -> tuple[Any, Any, Any, Any]:
    """Four random words per element, like `Stream.words`, for a key of two words or two arrays (one key per scan).

    `draw` is a number, or an array of numbers like `element`.
    """
    if isinstance(element, (int, list, range, np.ndarray, np.generic)):
        element = np.asarray(element).astype(np.uint32)
    zero = element * _word(element, 0)
    k0, k1 = (zero + _word(element, k) if isinstance(k, int) else k for k in key)
    with np.errstate(over="ignore"):
        number = _word(element, draw & _MASK) if isinstance(draw, int) else draw
        return philox((element, zero + number, zero, zero), (k0, k1))
