"""Images as files: one table of formats, and the two functions that use it."""

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
    """What `format=` calls it."""
    endings: tuple[str, ...]
    """File endings, lower case, with the dot."""
    description: str
    """One line for people."""
    read: Callable[[Path], Image]
    write: Callable[..., tuple[str, ...]]
    """`write(image, path, **options)`; returns the names of the arrays that it left out."""
    whole: bool = False
    """Whether it holds the truth, too, so that one file is enough for a frame."""


_ALL = (
    ImageFormat("png", (".png",), "PNG of 8 or 16 bits, 1, 3 or 4 bands", plain.read_png, plain.write_png),
    ImageFormat("jpeg", (".jpg", ".jpeg"), "JPEG, lossy, 8 bits", plain.read_jpeg, plain.write_jpeg),
    ImageFormat("tiff", (".tif", ".tiff"), "TIFF, one page a band, of any type", plain.read_tiff, plain.write_tiff),
    ImageFormat("exr", (".exr",), "OpenEXR: picture and truth as named float channels", exr.read, exr.write, True),
    ImageFormat("npz", (".npz",), "NumPy archive: everything, exactly", metadata.read, metadata.write, True),
)

IMAGE_FORMATS: dict[str, ImageFormat] = {entry.name: entry for entry in _ALL}
"""Every format of images by name."""


def image_format_of(path: str | PathLike[str], name: str | None = None) -> ImageFormat:
    """The format called `name`, or the one that the file's ending means."""
    if name is not None:
        if name not in IMAGE_FORMATS:
            raise unknown_name("image format", name, IMAGE_FORMATS)
        return IMAGE_FORMATS[name]
    by_ending = {ending: entry for entry in _ALL for ending in entry.endings}
    ending = Path(path).suffix.lower()
    if ending not in by_ending:
        raise FormatError(f"{path}: unknown file ending, known are {', '.join(sorted(by_ending))}; or name the format")
    return by_ending[ending]


def read_image(path: str | PathLike[str], *, format: str | None = None) -> Image:
    """Read an image file; the format follows from the file's ending unless named.

    Raises FormatError, which names the file and what is wrong with it.
    """
    file = Path(path)
    kind = image_format_of(file, format)
    with reading(file):
        return kind.read(file)


def write_image(image: Image, path: str | PathLike[str], *, format: str | None = None, **options: Any) -> None:
    """Write an image; the format follows from the file's ending unless named.

    An earlier file of that name is replaced only when the new one is whole. PNG, JPEG and TIFF hold the picture alone;
    EXR and NPZ hold its truth, too. A second picture that the format cannot hold is left out with one
    `FieldsDroppedWarning`. Options: `quality=` for JPEG, `compress=False` for NPZ.
    """
    file = Path(path)
    kind = image_format_of(file, format)
    check_options(kind.write, options, f"writing {kind.name}")
    dropped = kind.write(image, file, **options)
    if not kind.whole:
        # Who saves a picture means the picture: only another picture is missed.
        dropped = tuple(name for name in dropped if name == "right")
    if dropped:
        note = f"{file}: {kind.name} cannot hold {', '.join(dropped)}; left out"
        warnings.warn(note, FieldsDroppedWarning, stacklevel=2)
