"""The checksum that ends Ouster's packets: CRC-64/XZ, of many packets at once.

Polynomial 0x42F0E1EBA9EA3693, bits reflected, start and end inverted: the same as in .xz files. A CRC is linear over
single bits, so words are taken each on its own and joined in pairs; only the pairing goes step by step.
"""

from __future__ import annotations

from functools import cache

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]

_POLYNOMIAL = np.uint64(0xC96C5795D7870F42)  # reflected
_ALL_ONES = np.uint64(0xFFFFFFFFFFFFFFFF)


def crc64(messages: NDArray[np.uint8]) -> Words:
    """CRC of each row, shape (n,). Rows are of equal length, at least 8 bytes."""
    count, size = messages.shape
    # Zeros in front change nothing while the start is zero, so rows are filled up to a power of two of words.
    words = 1 << max(0, (-(-size // 8) - 1).bit_length())
    padded = np.zeros((count, words * 8), np.uint8)
    padded[:, words * 8 - size :] = messages
    # A start of all ones is the same as the first eight bytes inverted.
    padded[:, words * 8 - size : words * 8 - size + 8] ^= 0xFF
    state = _apply(_advance(0), padded.view("<u8"))
    level = 0
    while state.shape[1] > 1:
        state = _apply(_advance(level), state[:, 0::2]) ^ state[:, 1::2]
        level += 1
    return state[:, 0] ^ _ALL_ONES


def _apply(tables: Words, states: NDArray[np.uint64]) -> Words:
    """A linear map of 64 bits, as eight tables of what each byte gives."""
    lanes = np.ascontiguousarray(states).view(np.uint8).reshape(*states.shape, 8)
    result = np.take(tables[0], lanes[..., 0])
    for lane in range(1, 8):
        result ^= np.take(tables[lane], lanes[..., lane])
    return result


@cache
def _advance(level: int) -> Words:
    """Tables of the map that 2**level words of zeros do to the state, shape (8, 256)."""
    bits = np.uint64(1) << np.arange(64, dtype=np.uint64)
    if level == 0:
        images = bits
        for _ in range(64):
            images = (images >> np.uint64(1)) ^ np.where(images & np.uint64(1), _POLYNOMIAL, np.uint64(0))
    else:
        half = _advance(level - 1)
        images = _apply(half, _apply(half, bits))
    tables = np.zeros((8, 256), np.uint64)
    byte = np.arange(256)
    for bit in range(8):
        tables ^= np.where(byte >> bit & 1, images[bit::8, None], np.uint64(0))
    tables.setflags(write=False)
    return tables
