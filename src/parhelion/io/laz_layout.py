"""Does a LAZ file's own bookkeeping fit the file? Asked before the decompressor trusts it with memory.

The decompressor sets memory aside for whatever sizes it reads, and ends the program where there is none, so a few
damaged bytes could take the user's session with them. Layout: LASzip specification for LAS 1.4,
https://github.com/LAStools/LAStools/blob/master/LASzip/design/specification.rst
"""

from __future__ import annotations

import io
import struct

import numpy as np

_UNCHUNKED, _LAYERED = 1, 3
# Layers of each kind of item in a layered chunk: points, RGB, RGB with infrared, wave packets. Extra bytes (14)
# have a layer each.
_LAYERS = {10: 9, 11: 1, 12: 2, 13: 1}
_EXTRA_BYTES = 14


def check_layout(data: bytes, start: int, row_size: int, count: int, record: bytes) -> None:
    """Raise ValueError where items, chunks or layers do not add up.

    `start` is the offset of the point data, `row_size` the bytes of a point, `count` the number of points that the
    header promises, `record` the content of the LASzip record.
    """
    compressor, items = _items(record)
    if sum(size for _, size in items) != row_size:
        raise ValueError(f"its points of {row_size} bytes are not what is compressed")
    if count == 0 or compressor == _UNCHUNKED:
        return
    sizes = _chunk_sizes(data, start, row_size, record)
    if compressor == _LAYERED:
        layers = sum(size if kind == _EXTRA_BYTES else _LAYERS.get(kind, 0) for kind, size in items)
        _check_layers(data, start + 8, row_size, layers, sizes, count)


def _items(record: bytes) -> tuple[int, list[tuple[int, int]]]:
    """Kind of compressor, and kind and size of each item of a point."""
    if len(record) < 34:
        raise ValueError("its LASzip record is too short")
    compressor, number = struct.unpack_from("<H", record)[0], struct.unpack_from("<H", record, 32)[0]
    if len(record) < 34 + 6 * number or compressor not in (_UNCHUNKED, 2, _LAYERED):
        raise ValueError("its LASzip record is damaged")
    return compressor, [struct.unpack_from("<HH", record, 34 + 6 * i) for i in range(number)]


def _chunk_sizes(data: bytes, start: int, row_size: int, record: bytes) -> list[int]:
    """Bytes of each chunk, as the table of chunks says."""
    import lazrs  # type: ignore[import-untyped]

    if len(data) < start + 8:
        raise ValueError("it ends before its points")
    table = struct.unpack_from("<q", data, start)[0]
    if table == -1:  # written to a stream: the place follows at the very end
        table = struct.unpack_from("<q", data, len(data) - 8)[0]
    if not start + 8 <= table <= len(data) - 8:
        raise ValueError("its table of chunks is missing")
    chunks = struct.unpack_from("<I", data, table + 4)[0]
    # Each chunk starts with a whole point.
    if chunks * row_size > table - start - 8:
        raise ValueError(f"its table claims {chunks} chunks")
    source = io.BytesIO(data)
    source.seek(start)
    sizes = [size for _, size in lazrs.read_chunk_table(source, lazrs.LazVlr(record))]
    if sum(sizes) > table - start - 8:
        raise ValueError("its chunks are larger than the file")
    return sizes


def _check_layers(data: bytes, first: int, row_size: int, layers: int, sizes: list[int], count: int) -> None:
    size = np.array(sizes, np.int64)
    head = row_size + 4 + 4 * layers  # the first point, the number of points, the size of each layer
    if np.any(size < head):
        raise ValueError("a chunk is too small for its layers")
    begin = first + np.cumsum(size) - size
    words = (begin + row_size)[:, None] + np.arange(4 * (1 + layers))
    numbers = np.frombuffer(data, np.uint8)[words].view("<u4").astype(np.int64)
    if np.any(head + numbers[:, 1:].sum(axis=1) != size):
        raise ValueError("the layers of a chunk do not fill it")
    if numbers[:, 0].sum() != count:
        raise ValueError(f"{count} points are promised and {numbers[:, 0].sum()} are there")
