"""NPZ: every array of an image under its own name, and the facts as JSON text in `parhelion`. No pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from parhelion.core.errors import FormatError
from parhelion.core.image import Image
from parhelion.core.reading import read_bytes
from parhelion.io.images import facts
from parhelion.io.npz import read_archive, write_archive

ARRAYS = ("colour", "right", "depth", "measured_depth", "normal", "label", "instance", "flow")


def write(image: Image, path: Path, *, compress: bool = True) -> tuple[str, ...]:
    """Write everything; without `compress` it is faster and larger."""
    arrays: dict[str, Any] = {name: getattr(image, name) for name in ARRAYS if getattr(image, name) is not None}
    arrays[facts.KEY] = np.frombuffer(facts.to_json(image).encode("ascii"), np.uint8)
    write_archive(arrays, path, compress=compress)
    return ()


def read(path: Path) -> Image:
    """Read an image; a foreign archive needs an array `colour`."""
    arrays = read_archive(read_bytes(path), path)
    text = arrays.pop(facts.KEY, None)
    if "colour" not in arrays:
        raise FormatError(f"{path}: has no array 'colour'; it has: {', '.join(arrays) or 'none'}")
    known = {name: values for name, values in arrays.items() if name in ARRAYS}
    return facts.image_of(known, None if text is None else text.tobytes().decode("latin-1"))
