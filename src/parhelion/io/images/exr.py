"""OpenEXR: everything that an image holds as named channels of 32 bits, with the facts in its header.

Channels of colour are R, G, B (and A) where the bands are those, else the names of the bands; truth comes in layers:
depth.Z, measured_depth.Z, normal.X normal.Y normal.Z, flow.X flow.Y, label.Y, instance.Y, right.R ... Values are kept
as they are; whole numbers up to 2^24 are exact.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.files import atomic_write
from parhelion.core.image import Image
from parhelion.core.reading import read_bytes
from parhelion.io.images import metadata
from parhelion.io.images.exr_lines import packed, unpacked

_LAYERS = {
    "depth": "Z", "measured_depth": "Z", "normal": "XYZ", "flow": "XY", "label": "Y", "instance": "Y",
}  # fmt: skip
"""Channels of each array of truth."""
_TYPES = {"label": np.uint16, "instance": np.uint32}
_MOST_EXACT = 1 << 24
_RGB = ("red", "green", "blue")


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
            raise FormatError(f"{path}: EXR keeps {name} numbers up to 2^24 only; NPZ holds all")
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
    usual = {"red": "R", "green": "G", "blue": "B", "alpha": "A"}
    if tuple(names[:3]) == _RGB:
        names = [usual.get(name, name) for name in names]
    return [name.replace(".", "_") for name in names]


def read(path: Path) -> Image:
    """Read an image: channels of the layers above are truth, those without a layer are the picture."""
    lines = unpacked(read_bytes(path), path)
    there, names = lines.channels, list(lines.channels)
    said = lines.texts.get(metadata.KEY, "")
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
    return metadata.image_of(arrays, text)


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
