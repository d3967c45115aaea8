"""PNG files of 8 and 16 bits with up to four bands; none of our dependencies writes all of these variants."""

from __future__ import annotations

import struct
import zlib
from collections.abc import Mapping
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.reading import UnpackingBudget, read_bytes

SIGNATURE = b"\x89PNG\r\n\x1a\n"
_COLOUR_TYPES = {1: 0, 3: 2, 4: 6}
"""PNG colour type by number of bands: grey, colour, colour with alpha."""
_BANDS = {0: 1, 2: 3, 3: 3, 4: 2, 6: 4}
"""Number of bands by colour type; type 3 is a palette, which is read as its colours."""
_LEVEL = 2
"""zlib level. Higher levels shrink files of noisy pictures by 2 % and take twice as long."""


def fits(pixels: NDArray[Any]) -> bool:
    """Return whether PNG can store these pixels without conversion."""
    bands = 1 if pixels.ndim == 2 else pixels.shape[2]
    return pixels.dtype in (np.uint8, np.uint16) and bands in _COLOUR_TYPES


def encode(pixels: NDArray[Any], text: Mapping[str, str] | None = None) -> bytes:
    """Encode pixels (h, w) or (h, w, 1, 3 or 4), uint8 or uint16, as PNG; `text` holds ASCII texts by keyword.

    The same pixels give the same bytes.
    """
    if not fits(pixels):
        raise FormatError(f"PNG stores 1, 3 or 4 bands of 8 or 16 bits, not {pixels.dtype} {pixels.shape}")
    height, width = pixels.shape[:2]
    bands = 1 if pixels.ndim == 2 else pixels.shape[2]
    deep = pixels.dtype == np.uint16
    raw = np.ascontiguousarray(pixels, dtype=">u2" if deep else "u1")
    rows = raw.view(np.uint8).reshape(height, width * bands * raw.itemsize)
    header = struct.pack(">IIBBBBB", width, height, 16 if deep else 8, _COLOUR_TYPES[bands], 0, 0, 0)
    chunks = [_chunk(b"IHDR", header)]
    for keyword, words in (text or {}).items():
        chunks.append(_chunk(b"zTXt", keyword.encode("ascii") + b"\0\0" + zlib.compress(words.encode("ascii"), 6)))
    chunks.append(_chunk(b"IDAT", zlib.compress(_filtered(rows, bands * raw.itemsize).tobytes(), _LEVEL)))
    chunks.append(_chunk(b"IEND", b""))
    return SIGNATURE + b"".join(chunks)


def _chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def _filtered(rows: NDArray[np.uint8], step: int) -> NDArray[np.uint8]:
    """Filter each row by its left or upper neighbours, whichever gives smaller residuals; column 0 is the filter type.

    Masks are not filtered, because runs of equal bytes compress best.
    """
    out = np.zeros((rows.shape[0], rows.shape[1] + 1), np.uint8)
    out[:, 1:] = rows
    if len(np.unique(rows[:: max(1, len(rows) // 32)])) < 24:
        return out
    left, up = rows.copy(), rows.copy()
    left[:, step:] -= rows[:, :-step]
    up[1:] -= rows[:-1]
    sizes = [np.abs(part.view(np.int8).astype(np.int16)).sum(axis=1, dtype=np.int64) for part in (left, up)]
    use_up = sizes[1] < sizes[0]
    out[:, 0] = np.where(use_up, 2, 1)
    out[:, 1:] = np.where(use_up[:, None], up, left)
    return out


def read(path: Path) -> tuple[NDArray[Any], dict[str, str]]:
    """Read the pixels (h, w) or (h, w, bands) of a PNG file, and its texts by keyword."""
    data = read_bytes(path)
    if data[:8] != SIGNATURE or len(data) < 33 or data[12:16] != b"IHDR":
        raise FormatError(f"{path}: is not a PNG file")
    width, height, bits, kind = struct.unpack(">IIBB", data[16:26])
    if kind not in _BANDS or not width or not height:
        raise FormatError(f"{path}: is damaged (invalid header)")
    UnpackingBudget(path, len(data)).spend(width * height * _BANDS[kind] * max(bits, 8) // 8)
    text = _texts(data, path)
    if bits == 16 and kind in (2, 6):
        return _deep_colours(path), text  # Pillow would reduce them to 8 bits
    from PIL import Image

    with Image.open(BytesIO(data), formats=["PNG"]) as picture:
        if picture.mode == "1":
            return np.asarray(picture.convert("L")), text
        if picture.mode == "P":
            return np.asarray(picture.convert("RGBA" if "transparency" in picture.info else "RGB")), text
        pixels = np.asarray(picture)
    return pixels.astype(np.uint16) if pixels.dtype.kind in "iu" and pixels.itemsize > 1 else pixels, text


def _deep_colours(path: Path) -> NDArray[Any]:
    import mitsuba as mi

    # `mi.Bitmap` needs no Mitsuba variant, and does not set one.
    return np.array(mi.Bitmap(str(path))).astype(np.uint16, copy=False)


def _texts(data: bytes, path: Path) -> dict[str, str]:
    """Texts of a file by keyword; the checksum of every chunk is verified."""
    found: dict[str, str] = {}
    at, budget = 8, UnpackingBudget(path, len(data))
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        content = data[at + 8 : at + 8 + size]
        if data[at + 8 + size : at + 12 + size] != struct.pack(">I", zlib.crc32(kind + content)):
            raise FormatError(f"{path}: is truncated or damaged (wrong checksum of chunk {kind!r} at byte {at})")
        keyword, _, rest = content.partition(b"\0")
        if kind == b"tEXt":
            found[keyword.decode("latin-1")] = rest.decode("latin-1")
        elif kind == b"zTXt" and rest[:1] == b"\0":
            unpack = zlib.decompressobj()
            words = unpack.decompress(rest[1:], min(budget.left, 1 << 26))
            budget.spend(len(words))
            if not unpack.eof:
                raise FormatError(f"{path}: one of its texts is truncated, or larger than 64 MiB")
            found[keyword.decode("latin-1")] = words.decode("latin-1")
        if kind == b"IEND":
            break
        at += 12 + size
    return found
