"""Unpacking pieces of bags: no more than they say, and no more than a file of that size may become."""

from __future__ import annotations

from parhelion.core.errors import MissingDependencyError
from parhelion.core.reading import UnpackingBudget

LARGEST_PIECE = 256 * 1024 * 1024
"""Bytes of one chunk or message; rosbag2 makes chunks of less than 1 MiB, and clouds have some 10 MiB."""


def unpacked(kind: str, data: bytes, size: int | None, budget: UnpackingBudget) -> bytes:
    """What `data` stands for by the compression `kind`; `size` is how much that should be, None where it is not known.

    Raises ValueError where it is something else.
    """
    if kind == "":
        whole = data
    elif kind == "zstd":
        whole = _zstd(data, size, budget)
    elif kind == "lz4":
        whole = _lz4(data, size, budget)
    else:
        raise ValueError(f"the compression {kind[:20]!r} is not known")
    if size is not None and len(whole) != size:
        raise ValueError(f"a chunk of {size} bytes has another length")
    return whole


def _zstd(data: bytes, size: int | None, budget: UnpackingBudget) -> bytes:
    try:
        import zstandard
    except ImportError:
        raise MissingDependencyError("packed bags need the package zstandard: run 'pip install zstandard'") from None
    try:
        claimed = zstandard.get_frame_parameters(data).content_size
        known = claimed < zstandard.CONTENTSIZE_ERROR
        if known and size is not None and claimed != size:
            raise ValueError(f"a chunk of {size} bytes claims {claimed} when it is unpacked")
        if known or size is not None:
            most = claimed if known else size or 0
            budget.spend(most)
            return bytes(zstandard.ZstdDecompressor().decompress(data, max_output_size=most)) if most else b""
        with zstandard.ZstdDecompressor().stream_reader(data) as stream:
            whole = bytes(stream.read(min(LARGEST_PIECE, max(budget.left, 0)) + 1))
        budget.spend(len(whole))
        return whole
    except zstandard.ZstdError as error:
        raise ValueError(f"packed data are damaged: {error}") from None


def _lz4(data: bytes, size: int | None, budget: UnpackingBudget) -> bytes:
    try:
        import lz4.frame  # type: ignore[import-untyped]
    except ImportError:
        raise MissingDependencyError("packed bags need the package lz4: run 'pip install lz4'") from None
    most = LARGEST_PIECE if size is None else size
    budget.spend(most)
    try:
        return bytes(lz4.frame.LZ4FrameDecompressor().decompress(data, max_length=most + 1))
    except RuntimeError as error:
        raise ValueError(f"packed data are damaged: {error}") from None
