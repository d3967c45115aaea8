"""OpenEXR: everything that an image holds as named channels of 32 bits, with the facts in its header.

Channels of colour are R, G, B (and A) where the bands are those, else the names of the bands; truth comes in layers:
depth.Z, measured_depth.Z, normal.X normal.Y normal.Z, flow.X flow.Y, label.Y, instance.Y, right.R ... Values are kept
as they are; whole numbers up to 2^24 are exact. Mitsuba's reader and writer are used, which need no variant.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.image import Image
from parhelion.core.reading import UnpackingBudget, read_bytes
from parhelion.io.atomic import atomic_write
from parhelion.io.images import facts

_LAYERS = {
    "depth": "Z", "measured_depth": "Z", "normal": "XYZ", "flow": "XY", "label": "Y", "instance": "Y",
}  # fmt: skip
"""Channels of each array of truth."""
_TYPES = {"label": np.uint16, "instance": np.uint32}
_MOST_EXACT = 1 << 24
_RGB = ("red", "green", "blue")
_LARGEST_SIDE = 1 << 16


def write(image: Image, path: Path) -> tuple[str, ...]:
    """Write every array as channels."""
    import mitsuba as mi

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
            raise FormatError(f"{path}: EXR keeps {name} numbers up to 2^24 only; NPZ holds all")
        parts = values[:, :, None] if values.ndim == 2 else values
        channels |= {f"{name}.{axis}": parts[:, :, k] for k, axis in enumerate(axes)}
    stacked = np.stack([np.asarray(part, np.float32) for part in channels.values()], axis=2)
    bitmap = mi.Bitmap(
        np.ascontiguousarray(stacked),
        pixel_format=mi.Bitmap.PixelFormat.MultiChannel,
        channel_names=list(channels),
    )
    about = {"dtype": image.colour.dtype.name, "flat": image.colour.ndim == 2}
    bitmap.metadata()[facts.KEY] = f"{about['dtype']} {int(about['flat'])} {facts.to_json(image)}"
    with atomic_write(path) as temporary:
        stream = mi.MemoryStream()
        bitmap.write(stream, mi.Bitmap.FileFormat.OpenEXR)
        temporary.write_bytes(stream.raw_buffer())
    return ()


def _colour_names(image: Image, bands: int) -> list[str]:
    names = list(image.bands)
    if not names:
        names = {1: ["Y"], 3: [*_RGB], 4: [*_RGB, "alpha"]}.get(bands, [f"band{k}" for k in range(bands)])
    usual = {"red": "R", "green": "G", "blue": "B", "alpha": "A"}
    if tuple(names[:3]) == _RGB:
        names = [usual.get(name, name) for name in names]
    return [name.replace(".", "_") for name in names]


def read(path: Path) -> Image:
    """Read an image: channels of the layers above are truth, those without a layer are the picture."""
    import mitsuba as mi

    data = read_bytes(path)
    if data[:4] != b"\x76\x2f\x31\x01":
        raise FormatError(f"{path}: is no EXR file")
    _check_header(data, path)
    bitmap = mi.Bitmap(str(path))
    pixels = np.array(bitmap, dtype=np.float32)
    pixels = pixels[:, :, None] if pixels.ndim == 2 else pixels
    names = [field.name for field in getattr(bitmap, "struct_")()]  # noqa: B009 - its stubs do not know it
    there = {name: pixels[:, :, k] for k, name in enumerate(names)}
    metadata = bitmap.metadata()
    said = str(metadata[facts.KEY]) if facts.KEY in metadata else ""
    dtype, flat, text = said.split(" ", 2) if said.count(" ") >= 2 else ("float32", "0", None)
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
        raise FormatError(f"{path}: has no channels of a picture; it has: {', '.join(names)}")
    for field, layer_name in (("colour", ""), ("right", "right.")):
        if all(layer_name + name in there for name in order):
            values = np.stack([there[layer_name + name] for name in order], axis=2).astype(dtype)
            arrays[field] = values[:, :, 0] if len(order) == 1 and (flat == "1" or text is None) else values
    return facts.image_of(arrays, text)


def _file_order(names: list[str], text: str | None) -> list[str]:
    """Channels of the picture in the order of its bands: files keep channels by the alphabet."""
    if text is not None:
        import json

        bands = json.loads(text).get("bands") or []
        usual = {"red": "R", "green": "G", "blue": "B", "alpha": "A"}
        wanted = [usual[band] if usual.get(band) in names else str(band).replace(".", "_") for band in bands]
        if sorted(wanted) == sorted(names):
            return wanted
    if set(names) >= {"R", "G", "B"}:
        return [*"RGB", *sorted(set(names) - set("RGB"))]
    return sorted(names, key=lambda name: (len(name), name))


_LINES = {0: 1, 1: 1, 2: 1, 3: 16, 4: 32, 5: 16, 6: 32, 7: 32, 8: 32, 9: 256}
"""Lines of a chunk by the kind of compression."""
_SIZES = {
    b"box2i": 16, b"box2f": 16, b"int": 4, b"float": 4, b"double": 8, b"compression": 1, b"lineOrder": 1, b"v2i": 8,
    b"v2f": 8, b"v3i": 12, b"v3f": 12, b"m33f": 36, b"m44f": 64, b"rational": 8, b"timecode": 8, b"keycode": 28,
    b"chromaticities": 32, b"envmap": 1,
}  # fmt: skip
"""Bytes of the values that have a fixed size."""
_TEXTS = (b"string", b"chlist")
_SIDE_BY_SIDE = 32
"""Chunks that a machine of many cores unpacks at a time."""


def _check_header(data: bytes, path: Path) -> None:
    """Refuse headers that claim more than is there, before anything is allocated for it."""
    if int.from_bytes(data[4:8], "little") & ~0x4FF != 0 or data[4:5] != b"\x02":
        raise FormatError(f"{path}: is an EXR file of tiles, of several parts or of depths; plain pictures are read")
    attributes, end = _attributes(data, path)
    window = attributes.get(b"dataWindow", b"")
    if len(window) != 16:
        raise FormatError(f"{path}: is damaged (its header does not say how large it is)")
    left, top, right, bottom = np.frombuffer(window, "<i4").astype(np.int64).tolist()
    width, height = right - left + 1, bottom - top + 1
    if not (0 < width <= _LARGEST_SIDE and 0 < height <= _LARGEST_SIDE):
        raise FormatError(f"{path}: is damaged (its header claims {width} x {height} pixels)")
    channels = _channel_count(attributes.get(b"channels", b""), path)
    compression = attributes.get(b"compression", b"\0")
    # The reader unpacks chunks side by side, each in memory of its own, however few lines there are.
    lines = max(height, _SIDE_BY_SIDE * _LINES.get(compression[0], 1))
    UnpackingBudget(path, len(data)).spend(4 * channels * width * lines)
    _check_chunks(data, end, height, compression, path)


def _channel_count(said: bytes, path: Path) -> int:
    """How many channels the header lists; each has a name, a type, and a value for every pixel."""
    count, at = 0, 0
    while at < len(said) and said[at]:
        name_end = said.find(b"\0", at, at + 256)
        kind, _, across, down = np.frombuffer(said[name_end + 1 : name_end + 17].ljust(16, b"\0"), "<u4").tolist()
        if name_end < 0 or kind > 2 or across != 1 or down != 1:
            raise FormatError(f"{path}: is damaged (in its list of channels), or has channels of fewer pixels")
        count, at = count + 1, name_end + 17
    if count == 0 or at + 1 != len(said):
        raise FormatError(f"{path}: is damaged (in its list of channels)")
    return count


def _check_chunks(data: bytes, table: int, height: int, compression: bytes, path: Path) -> None:
    """See that the chunks of lines lie within the file, by the table after the header."""
    lines = _LINES.get(compression[0])
    if lines is None:
        raise FormatError(f"{path}: is damaged (its compression is not known)")
    count = -(-height // lines)
    starts = np.frombuffer(data[table : table + 8 * count], "<u8")
    if len(starts) < count or int(starts.max(initial=0)) > len(data) - 8:
        raise FormatError(f"{path}: is cut off or damaged (in its table of lines)")
    for start in starts.tolist():
        size = int.from_bytes(data[start + 4 : start + 8], "little")
        if start + 8 + size > len(data):
            raise FormatError(f"{path}: is cut off or damaged (in its lines)")


def _attributes(data: bytes, path: Path) -> tuple[dict[bytes, bytes], int]:
    """Values of the header by name, and where it ends.

    Each is a name, a type, a size and so many bytes; an empty name ends it. A name may stand there once: of two, our
    look and the reader's might take different ones.
    """
    found: dict[bytes, bytes] = {}
    at = 8
    while at < len(data) and data[at]:
        name_end = data.find(b"\0", at, at + 256)
        type_end = data.find(b"\0", name_end + 1, name_end + 257)
        size = int.from_bytes(data[type_end + 1 : type_end + 5], "little")
        start = type_end + 5
        if name_end < 0 or type_end < 0 or start + size > len(data):
            raise FormatError(f"{path}: is cut off or damaged (in its header)")
        kind, name = data[name_end + 1 : type_end], data[at:name_end]
        if name in found or (kind not in _TEXTS and _SIZES.get(kind) != size):
            raise FormatError(f"{path}: is damaged (in its header)")
        found[name] = data[start : start + size]
        at = start + size
    return found, at + 1
