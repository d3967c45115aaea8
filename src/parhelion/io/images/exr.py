"""OpenEXR: all arrays of an image as named 32-bit channels, with the metadata in the header.

Colour channels are R, G, B (and A) if the bands are red, green, blue (and alpha), otherwise the names of the bands.
Ground truth is in layers: depth.Z, measured_depth.Z, normal.X normal.Y normal.Z, flow.X flow.Y, label.Y, instance.Y,
mobility.Y, right.R, ... Values are stored unchanged; integers are exact up to 2^24.

The codec follows the public OpenEXR file layout: single-part scan-line images without compression, with run-length or
with ZIP compression. Compiled readers hang or crash on some damaged files; this one raises an error.
"""

from __future__ import annotations

import json
import zlib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.files import atomic_write
from parhelion.core.image import Image
from parhelion.core.reading import UnpackingBudget, read_bytes
from parhelion.io.images import metadata

_LAYERS = {
    "depth": "Z",
    "measured_depth": "Z",
    "normal": "XYZ",
    "flow": "XY",
    "label": "Y",
    "instance": "Y",
    "mobility": "Y",
    "window": "Y",
}
"""Channels of each ground-truth array."""
_TYPES = {"label": np.uint16, "instance": np.uint32, "mobility": np.uint8}
_MOST_EXACT = 1 << 24
_RGB = ("red", "green", "blue")
_CHANNELS = {"red": "R", "green": "G", "blue": "B", "alpha": "A"}
"""Standard channel names, by band."""

MAGIC = b"\x76\x2f\x31\x01"
_ZIP = 3
_LINES = {0: 1, 1: 1, 2: 1, _ZIP: 16}
"""Lines per chunk, by number of the compression: none, run-length, ZIP by line, ZIP by 16 lines."""
_OTHERS = {4: "PIZ", 5: "PXR24", 6: "B44", 7: "B44A", 8: "DWAA", 9: "DWAB"}
_KINDS = (np.dtype("<u4"), np.dtype("<f2"), np.dtype("<f4"))
"""Types of channels, by number."""
_LARGEST_SIDE = 1 << 16


@dataclass(frozen=True)
class Lines:
    """Content of a file: named channels, and the texts of the header."""

    channels: dict[str, NDArray[np.float32]]
    """Channels of shape (h, w), in file order."""
    texts: dict[str, str]
    """Further header attributes as text, by name."""


def write(image: Image, path: Path) -> tuple[str, ...]:
    """Write every array as channels."""
    channels: dict[str, NDArray[Any]] = {}
    for layer, pixels in (("", image.colour), ("right.", image.right)):
        if pixels is not None:
            bands = pixels[:, :, None] if pixels.ndim == 2 else pixels
            for k, name in enumerate(_colour_names(image, bands.shape[2])):
                channels[layer + name] = bands[:, :, k]
    for name, axes in _LAYERS.items():
        values = getattr(image, name)
        if values is None:
            continue
        if values.dtype.kind == "u" and int(values.max(initial=0)) > _MOST_EXACT:
            raise FormatError(f"{path}: EXR stores {name} numbers only up to 2^24; use NPZ")
        parts = values[:, :, None] if values.ndim == 2 else values
        channels |= {f"{name}.{axis}": parts[:, :, k] for k, axis in enumerate(axes)}
    about = f"{image.colour.dtype.name} {int(image.colour.ndim == 2)} {metadata.to_json(image)}"
    planes = {name: np.asarray(part, np.float32) for name, part in channels.items()}
    with atomic_write(path) as temporary:
        temporary.write_bytes(packed(planes, {metadata.KEY: about}))
    return ()


def _colour_names(image: Image, bands: int) -> list[str]:
    names = list(image.bands)
    if not names:
        names = {1: ["Y"], 3: [*_RGB], 4: [*_RGB, "alpha"]}.get(bands, [f"band{k}" for k in range(bands)])
    if tuple(names[:3]) == _RGB:
        names = [_CHANNELS.get(name, name) for name in names]
    return [name.replace(".", "_") for name in names]


def read(path: Path) -> Image:
    """Read an image: channels in the layers above are ground truth, channels without a layer are the picture."""
    lines = unpacked(read_bytes(path), path)
    there, names = lines.channels, list(lines.channels)
    about = lines.texts.get(metadata.KEY, "")
    dtype, flat, text = about.split(" ", 2) if about.count(" ") >= 2 else ("float32", "0", None)
    if dtype not in ("uint8", "uint16", "float32"):
        raise FormatError(f"{path}: the description of the image is damaged")
    arrays: dict[str, Any] = {}
    for name, axes in _LAYERS.items():
        layer = [f"{name}.{axis}" for axis in axes]
        if all(one in there for one in layer):
            values = np.stack([there[one] for one in layer], axis=2)
            whole = values[:, :, 0] if len(axes) == 1 else values
            arrays[name] = whole.astype(_TYPES.get(name, np.float32))
    order = _file_order([name for name in there if "." not in name], text)
    if not order:
        raise FormatError(f"{path}: has no picture channels; it has: {', '.join(names)}")
    for field, layer_name in (("colour", ""), ("right", "right.")):
        if all(layer_name + name in there for name in order):
            values = np.stack([there[layer_name + name] for name in order], axis=2).astype(dtype)
            arrays[field] = values[:, :, 0] if len(order) == 1 and (flat == "1" or text is None) else values
    return metadata.image_of(arrays, text)


def _file_order(names: list[str], text: str | None) -> list[str]:
    """Picture channels in the order of the bands; files store channels alphabetically."""
    if text is not None:
        bands = json.loads(text).get("bands") or []
        wanted = [_CHANNELS[band] if _CHANNELS.get(band) in names else str(band).replace(".", "_") for band in bands]
        if sorted(wanted) == sorted(names):
            return wanted
    if set(names) >= {"R", "G", "B"}:
        return [*"RGB", *sorted(set(names) - set("RGB"))]
    return sorted(names, key=lambda name: (len(name), name))


# ---- codec: writing --------------------------------------------------------------------------------------------------


def packed(channels: dict[str, NDArray[np.float32]], texts: dict[str, str]) -> bytes:
    """Encode channels as a file of 32-bit numbers with ZIP compression."""
    names = sorted(channels)
    height, width = channels[names[0]].shape
    window = np.array([0, 0, width - 1, height - 1], "<i4").tobytes()
    listed = b"".join(name.encode() + b"\0" + np.array([2, 0, 1, 1], "<u4").tobytes() for name in names) + b"\0"
    attributes = [
        ("channels", "chlist", listed),
        ("compression", "compression", bytes([_ZIP])),
        ("dataWindow", "box2i", window),
        ("displayWindow", "box2i", window),
        ("lineOrder", "lineOrder", b"\0"),
        ("pixelAspectRatio", "float", np.array(1.0, "<f4").tobytes()),
        ("screenWindowCenter", "v2f", np.zeros(2, "<f4").tobytes()),
        ("screenWindowWidth", "float", np.array(1.0, "<f4").tobytes()),
        *((name, "string", text.encode()) for name, text in texts.items()),
    ]
    head = MAGIC + np.array(2, "<u4").tobytes()
    for name, kind, value in attributes:
        head += name.encode() + b"\0" + kind.encode() + b"\0" + np.array(len(value), "<u4").tobytes() + value
    head += b"\0"
    rows = np.stack([np.asarray(channels[name], "<f4") for name in names], axis=1)  # line, channel, column
    chunks = []
    for first in range(0, height, _LINES[_ZIP]):
        raw = rows[first : first + _LINES[_ZIP]].tobytes()
        small = zlib.compress(_differences(raw), 4)
        data = small if len(small) < len(raw) else raw
        chunks.append(np.array([first, len(data)], "<u4").tobytes() + data)
    starts = len(head) + 8 * len(chunks) + np.cumsum([0] + [len(chunk) for chunk in chunks[:-1]])
    return head + starts.astype("<u8").tobytes() + b"".join(chunks)


def _differences(raw: bytes) -> bytes:
    """Even bytes, then odd bytes, each as the difference from the previous one plus 128, which ZIP compresses well."""
    values = np.frombuffer(raw, np.uint8)
    parted = np.concatenate([values[0::2], values[1::2]])
    changed = parted.copy()
    changed[1:] = parted[1:] - parted[:-1] + np.uint8(128)
    return changed.tobytes()


def _summed(changed: bytes) -> bytes:
    """Inverse of `_differences`."""
    values = np.frombuffer(changed, np.uint8).copy()
    values[1:] -= np.uint8(128)
    parted = np.cumsum(values, dtype=np.uint8)
    half = (len(parted) + 1) // 2
    raw = np.empty_like(parted)
    raw[0::2], raw[1::2] = parted[:half], parted[half:]
    return raw.tobytes()


# ---- codec: reading --------------------------------------------------------------------------------------------------


def unpacked(data: bytes, path: Path) -> Lines:
    """Decode the channels of a file."""
    if data[:4] != MAGIC:
        raise FormatError(f"{path}: is not an EXR file")
    # Bit 10 of the version allows long names; the others mark tiled, multi-part and deep images.
    if data[4:5] != b"\x02" or int.from_bytes(data[5:8], "little") & ~0x4:
        raise FormatError(f"{path}: tiled, multi-part and deep EXR images are not supported; save it as scan lines")
    attributes, table = _attributes(data, path)
    window = attributes.get("dataWindow", b"")
    listed = attributes.get("channels", b"")
    compression = attributes.get("compression", b"\0")[:1]
    if len(window) != 16 or not listed or not compression:
        raise FormatError(f"{path}: is damaged (incomplete header)")
    if compression[0] not in _LINES:
        other = _OTHERS.get(compression[0], "unknown")
        raise FormatError(f"{path}: {other} compression is not supported; save it with ZIP or without compression")
    left, top, right, bottom = np.frombuffer(window, "<i4").astype(np.int64).tolist()
    width, height = right - left + 1, bottom - top + 1
    if not (0 < width <= _LARGEST_SIDE and 0 < height <= _LARGEST_SIDE):
        raise FormatError(f"{path}: is damaged (its header claims {width} x {height} pixels)")
    kinds = _channels(listed, path)
    line_bytes = width * sum(kind.itemsize for kind in kinds.values())
    UnpackingBudget(path, len(data)).spend(4 * len(kinds) * width * height + line_bytes * _LINES[compression[0]])
    found = {name: np.zeros((height, width), np.float32) for name in kinds}
    lines = _LINES[compression[0]]
    starts = np.frombuffer(data[table : table + 8 * -(-height // lines)], "<u8")
    if len(starts) * lines < height:
        raise FormatError(f"{path}: is truncated (in its table of lines)")
    for start in starts.tolist():
        _take_chunk(data, start, top, compression[0], line_bytes, kinds, found, path)
    texts = {name: value.decode("utf-8", "replace") for name, value in attributes.items() if name not in _PLAIN}
    return Lines(found, texts)


_PLAIN = ("dataWindow", "displayWindow", "channels", "compression")


def _take_chunk(
    data: bytes,
    start: int,
    top: int,
    compression: int,
    line_bytes: int,
    kinds: dict[str, np.dtype[np.generic]],
    found: dict[str, NDArray[np.float32]],
    path: Path,
) -> None:
    """Read the lines of one chunk into the channels."""
    height, width = next(iter(found.values())).shape
    if start + 8 > len(data):
        raise FormatError(f"{path}: is truncated or damaged (in its lines)")
    first, size = np.frombuffer(data[start : start + 8], "<i4").tolist()
    row, packed_lines = first - top, data[start + 8 : start + 8 + max(size, 0)]
    count = min(_LINES[compression], height - row)
    if not 0 <= row < height or size < 0 or len(packed_lines) < size:
        raise FormatError(f"{path}: is truncated or damaged (in its lines)")
    wanted = count * line_bytes
    raw = packed_lines
    if size < wanted and compression:
        try:
            raw = _run_lengths(packed_lines, wanted) if compression == 1 else _inflated(packed_lines, wanted)
        except (zlib.error, ValueError):
            raise FormatError(f"{path}: is damaged (its lines cannot be decompressed)") from None
        raw = _summed(raw)
    if len(raw) != wanted:
        raise FormatError(f"{path}: is damaged (its lines have the wrong length)")
    at = 0
    for line in range(row, row + count):
        for name, kind in kinds.items():
            found[name][line] = np.frombuffer(raw, kind, width, at)
            at += width * kind.itemsize


def _inflated(data: bytes, most: int) -> bytes:
    """Decompress ZIP data to at most `most` + 1 bytes."""
    return zlib.decompressobj().decompress(data, most + 1)


def _run_lengths(data: bytes, most: int) -> bytes:
    """Decompress runs: a negative count is followed by that many bytes, another count by one byte to repeat count + 1
    times."""
    out, at = bytearray(), 0
    while at < len(data):
        count = int.from_bytes(data[at : at + 1], "little", signed=True)
        if count < 0:
            out += data[at + 1 : at + 1 - count]
            at += 1 - count
        else:
            out += data[at + 1 : at + 2] * (count + 1)
            at += 2
        if len(out) > most:
            raise ValueError("too long")
    return bytes(out)


def _channels(listed: bytes, path: Path) -> dict[str, np.dtype[np.generic]]:
    """Names and types of channels. Raise FormatError for subsampled channels."""
    found: dict[str, np.dtype[np.generic]] = {}
    at = 0
    while at < len(listed) and listed[at]:
        end = listed.find(b"\0", at, at + 256)
        kind, _, across, down = np.frombuffer(listed[end + 1 : end + 17].ljust(16, b"\0"), "<u4").tolist()
        if end < 0 or kind >= len(_KINDS) or across != 1 or down != 1:
            raise FormatError(f"{path}: is damaged (in its list of channels), or has subsampled channels")
        found[listed[at:end].decode("utf-8", "replace")] = _KINDS[kind]
        at = end + 17
    if not found:
        raise FormatError(f"{path}: is damaged (it lists no channels)")
    return found


def _attributes(data: bytes, path: Path) -> tuple[dict[str, bytes], int]:
    """Attributes of the header by name, and its end. An attribute is a name, a type, a size and its bytes."""
    found: dict[str, bytes] = {}
    at = 8
    while at < len(data) and data[at]:
        name_end = data.find(b"\0", at, at + 256)
        type_end = data.find(b"\0", name_end + 1, name_end + 257)
        start = type_end + 5
        size = int.from_bytes(data[type_end + 1 : start], "little")
        if name_end < 0 or type_end < 0 or start + size > len(data):
            raise FormatError(f"{path}: is truncated or damaged (in its header)")
        found[data[at:name_end].decode("utf-8", "replace")] = data[start : start + size]
        at = start + size
    return found, at + 1
