"""Image files: the table of formats, and the functions that read and write them."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from parhelion.core.errors import FormatError, unknown_name
from parhelion.core.image import Image
from parhelion.core.reading import reading
from parhelion.io.columns import FieldsDroppedWarning
from parhelion.io.formats import check_options
from parhelion.io.images import exr, metadata, plain


@dataclass(frozen=True)
class ImageFormat:
    """One file format of images."""

    name: str
    """Name in `format=`."""
    endings: tuple[str, ...]
    """File extensions, lower case, with the dot."""
    description: str
    """One-line description."""
    read: Callable[[Path], Image]
    """`read(path)`."""
    write: Callable[..., tuple[str, ...]]
    """`write(image, path, **options)`; returns the names of the skipped arrays."""
    whole: bool = False
    """True if it stores ground truth as well, so that one file per frame is sufficient."""


_ALL = (
    ImageFormat("png", (".png",), "PNG of 8 or 16 bits, 1, 3 or 4 bands", plain.read_png, plain.write_png),
    ImageFormat("jpeg", (".jpg", ".jpeg"), "JPEG, lossy, 8 bits", plain.read_jpeg, plain.write_jpeg),
    ImageFormat("tiff", (".tif", ".tiff"), "TIFF, one page per band, of any type", plain.read_tiff, plain.write_tiff),
    ImageFormat("exr", (".exr",), "OpenEXR: picture and truth as named float channels", exr.read, exr.write, True),
    ImageFormat("npz", (".npz",), "NumPy archive: everything, exactly", metadata.read, metadata.write, True),
)

IMAGE_FORMATS: dict[str, ImageFormat] = {entry.name: entry for entry in _ALL}
"""Every format of images by name."""


def image_format_of(path: str | PathLike[str], name: str | None = None) -> ImageFormat:
    """Return the format called `name`, or the one selected by the file extension."""
    if name is not None:
        if name not in IMAGE_FORMATS:
            raise unknown_name("image format", name, IMAGE_FORMATS)
        return IMAGE_FORMATS[name]
    by_ending = {ending: entry for entry in _ALL for ending in entry.endings}
    ending = Path(path).suffix.lower()
    if ending not in by_ending:
        known = ", ".join(sorted(by_ending))
        raise FormatError(f"{path}: unknown file extension; use one of {known}, or name the format")
    return by_ending[ending]


def read_image(path: str | PathLike[str], *, format: str | None = None) -> Image:
    """Read an image file; the file extension selects the format unless `format` names it.

    Raise FormatError, which names the file and the problem.
    """
    file = Path(path)
    kind = image_format_of(file, format)
    with reading(file):
        return kind.read(file)


def write_image(image: Image, path: str | PathLike[str], *, format: str | None = None, **options: Any) -> None:
    """Write an image; the file extension selects the format unless `format` names it.

    An existing file is replaced only when the new one is complete. PNG, JPEG and TIFF store the picture only; EXR and
    NPZ store the ground truth as well. If the format cannot store a second picture, one `FieldsDroppedWarning` is
    issued. Options: `quality=` for JPEG, `compress=False` for NPZ.
    """
    file = Path(path)
    kind = image_format_of(file, format)
    check_options(kind.write, options, f"writing {kind.name}")
    dropped = kind.write(image, file, **options)
    if not kind.whole:
        # A user who saves a PNG, JPEG or TIFF wants the picture, so only a missing second picture deserves a warning.
        dropped = tuple(name for name in dropped if name == "right")
    if dropped:
        note = f"{file}: {kind.name} cannot store {', '.join(dropped)}; skipped"
        warnings.warn(note, FieldsDroppedWarning, stacklevel=2)
