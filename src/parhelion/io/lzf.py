"""LZF, the compression inside `binary_compressed` PCD files (as of liblzf 3.6).

A stream is a row of tokens. A first byte c < 32 is followed by c + 1 bytes to copy as they are. Any other first
byte points back: its upper three bits are the length less 2 (7 means that a further byte adds to it), its lower
five bits with the next byte are the distance less 1, up to 8192.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

LARGEST_EXPANSION = 88
"""No stream grows by more than this factor: the longest copy, 264 bytes, takes a token of 3 bytes."""

_LONGEST_LITERAL = 32
_LONGEST_COPY = 264
_SHORTEST_COPY = 4


def decompress(data: bytes, size: int) -> bytes:
    """The `size` bytes that `data` stands for. Raises ValueError where the stream is damaged.

    liblzf does it at about 900 MB/s of output on measured clouds. Where the package `python-neo-lzf` is missing, and
    for streams that it refuses, Python does it token by token at 25 to 75 MB/s, and says what is wrong.
    """
    quick = _by_liblzf(data, size)
    return _token_by_token(data, size) if quick is None else quick


def _by_liblzf(data: bytes, size: int) -> bytes | None:
    """The same by liblzf; None where it is not installed or where the stream is not `size` sound bytes."""
    try:
        from lzf import decompress as by_liblzf
    except ImportError:
        return None
    try:
        out: bytes | None = by_liblzf(data, size)
    except ValueError:
        return None
    return out if out is not None and len(out) == size else None


def _token_by_token(data: bytes, size: int) -> bytes:
    out = bytearray()
    position, end = 0, len(data)
    try:
        while position < end:
            control = data[position]
            position += 1
            if control < _LONGEST_LITERAL:
                stop = position + control + 1
                if stop > end:
                    raise IndexError
                out += data[position:stop]
                position = stop
                continue
            length = (control >> 5) + 2
            if length == 9:
                length += data[position]
                position += 1
            start = len(out) - ((control & 31) << 8) - data[position] - 1
            position += 1
            if start < 0:
                raise ValueError("a copy from before the start")
            piece = out[start : start + length]
            if len(piece) < length:  # the copy overlaps what it writes: the piece repeats
                piece = (piece * (length // len(piece) + 1))[:length]
            out += piece
            if len(out) > size:
                raise ValueError(f"more than the {size} bytes promised")
    except IndexError:
        raise ValueError("the stream ends within a token") from None
    if len(out) != size:
        raise ValueError(f"{len(out)} bytes instead of the {size} promised")
    return bytes(out)


def compress(data: bytes, period: int) -> bytes:
    """`data` as an LZF stream that points back by `period` bytes only.

    With the size of an array's element as period this packs what lidar fields have most of, runs of equal
    values, and is one pass of NumPy; everything else is stored as it is, at a cost of 1 byte in 32. Streams may
    be joined end to end. liblzf packs tighter and quicker, but a file must not depend on which packages are there.
    """
    if not 1 <= period <= 8192:
        raise ValueError(f"the period must be 1 to 8192 bytes, got {period}")
    raw = np.frombuffer(data, np.uint8)
    if raw.size == 0:
        return b""
    starts, lengths, copies = _tokens(_same_as_before(raw, period))
    heads = np.where(copies, np.where(lengths - 2 >= 7, 3, 2), 1)
    bodies = np.where(copies, 0, lengths)
    sizes = heads + bodies
    places = np.cumsum(sizes) - sizes
    out = np.empty(int(sizes.sum()), np.uint8)

    literal = ~copies
    out[places[literal]] = lengths[literal] - 1
    rows = np.repeat(np.flatnonzero(literal), lengths[literal])
    within = np.arange(rows.size) - np.repeat(np.cumsum(lengths[literal]) - lengths[literal], lengths[literal])
    out[places[rows] + 1 + within] = raw[starts[rows] + within]

    place, code = places[copies], lengths[copies] - 2
    high, low = (period - 1) >> 8, (period - 1) & 0xFF
    out[place] = (np.minimum(code, 7) << 5) | high
    long = code >= 7
    out[place[long] + 1] = code[long] - 7
    out[place + np.where(long, 2, 1)] = low
    return out.tobytes()


def _same_as_before(raw: NDArray[np.uint8], period: int) -> NDArray[np.bool_]:
    same = np.zeros(raw.size, bool)
    same[period:] = raw[period:] == raw[:-period]
    return same


def _tokens(same: NDArray[np.bool_]) -> tuple[NDArray[Any], NDArray[Any], NDArray[np.bool_]]:
    """Start, length and kind (copy or literal) of each token that covers the input."""
    bounds = np.flatnonzero(np.diff(same)) + 1
    starts = np.concatenate([[0], bounds])
    lengths = np.diff(np.concatenate([starts, [same.size]]))
    copies = same[starts] & (lengths >= _SHORTEST_COPY)
    # Runs too short to be worth a copy join the literals around them.
    first = np.concatenate([[True], (copies[1:] != copies[:-1]) | copies[1:]])
    starts, copies = starts[first], copies[first]
    lengths = np.diff(np.concatenate([starts, [same.size]]))
    # Long runs are cut to what a token can say; the last piece may be of any length that is left.
    largest = np.where(copies, _LONGEST_COPY, _LONGEST_LITERAL)
    pieces = -(-lengths // largest)
    run = np.repeat(np.arange(starts.size), pieces)
    number = np.arange(run.size) - np.repeat(np.cumsum(pieces) - pieces, pieces)
    offset = number * largest[run]
    cut = np.minimum(lengths[run] - offset, largest[run])
    # A copy needs three bytes at least: a shorter rest goes as a literal.
    return starts[run] + offset, cut, copies[run] & (cut >= 3)
