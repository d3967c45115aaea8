"""Formats of the picture without ground truth: PNG and TIFF with metadata as text, and JPEG."""

from __future__ import annotations

import warnings
from io import BytesIO
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import FormatError
from parhelion.core.files import atomic_write
from parhelion.core.image import Image
from parhelion.core.reading import UnpackingBudget, read_bytes
from parhelion.io.images import metadata, png

QUALITY = 92
"""Default JPEG quality."""
_DESCRIPTION = 270
"""TIFF's tag ImageDescription."""
_LEFT_OUT = ("depth", "normal", "label", "instance", "mobility", "flow", "window", "measured_depth", "right")


def left_out(image: Image) -> tuple[str, ...]:
    """Names of the arrays that these formats do not store."""
    return tuple(name for name in _LEFT_OUT if getattr(image, name) is not None)


def write_png(image: Image, path: Path) -> tuple[str, ...]:
    """Write the picture as PNG, 8 or 16 bits, with all metadata as text. Return the names of skipped arrays."""
    if not png.fits(image.colour):
        raise FormatError(
            f"{path}: PNG stores 1, 3 or 4 bands of 8 or 16 bits, not {image.colour.dtype} {image.colour.shape}; "
            "use TIFF, EXR or NPZ"
        )
    put(path, png.encode(image.colour, {metadata.KEY: metadata.to_json(image)}))
    return left_out(image)


def read_png(path: Path) -> Image:
    """Read a PNG file, with the metadata if Parhelion wrote it."""
    pixels, text = png.read(path)
    return metadata.image_of({"colour": pixels}, text.get(metadata.KEY))


def put(path: Path, data: bytes) -> None:
    """Write bytes to a file atomically."""
    with atomic_write(path) as temporary:
        temporary.write_bytes(data)


# ---- JPEG ------------------------------------------------------------------------------------------------------------


def jpeg(pixels: NDArray[Any], quality: int = QUALITY) -> bytes:
    """Encode pixels (h, w) or (h, w, 3), uint8, as JPEG."""
    from PIL import Image as Picture

    if pixels.dtype != np.uint8 or (pixels.ndim == 3 and pixels.shape[2] != 3):
        raise FormatError(f"JPEG stores 1 or 3 bands of 8 bits, not {pixels.dtype} {pixels.shape}")
    stream = BytesIO()
    Picture.fromarray(np.ascontiguousarray(pixels)).save(stream, "JPEG", quality=int(quality))
    return stream.getvalue()


def compressed(pixels: NDArray[Any], bands: tuple[str, ...], format: str) -> tuple[bytes, NDArray[Any]]:
    """Encode a picture as PNG (lossless if PNG supports the pixels) or JPEG. Return bytes and encoded pixels."""
    if format == "png" and png.fits(pixels):
        return png.encode(pixels), pixels
    shown = shown_colours(pixels, bands)
    return png.encode(shown) if format == "png" else jpeg(shown), shown


def write_jpeg(image: Image, path: Path, *, quality: int = QUALITY) -> tuple[str, ...]:
    """Write the picture as 8-bit JPEG, which is lossy and has no metadata. Return the names of skipped arrays."""
    pixels = image.colour[:, :, 0] if image.colour.ndim == 3 and image.colour.shape[2] == 1 else image.colour
    put(path, jpeg(pixels, quality))
    return left_out(image)


def read_jpeg(path: Path) -> Image:
    """Read a JPEG file."""
    return Image(_pillow(path, "JPEG")[0])


# ---- TIFF ------------------------------------------------------------------------------------------------------------


def write_tiff(image: Image, path: Path) -> tuple[str, ...]:
    """Write the picture as TIFF: one page per band of any type, with all metadata in the description of page 1."""
    from PIL import Image as Picture
    from PIL.TiffImagePlugin import ImageFileDirectory_v2

    bands = image.colour[:, :, None] if image.colour.ndim == 2 else image.colour
    pages = [Picture.fromarray(np.ascontiguousarray(bands[:, :, k])) for k in range(bands.shape[2])]
    tags = ImageFileDirectory_v2()
    tags[_DESCRIPTION] = metadata.to_json(image)
    stream = BytesIO()
    pages[0].save(
        stream, "TIFF", save_all=True, append_images=pages[1:], tiffinfo=tags, compression="tiff_adobe_deflate"
    )
    put(path, stream.getvalue())
    return left_out(image)


def read_tiff(path: Path) -> Image:
    """Read a TIFF file; several pages of the same size are bands."""
    pixels, text = _pillow(path, "TIFF")
    return metadata.image_of(
        {"colour": pixels}, text if text is not None and text.startswith('{"start_time"') else None
    )


def _pillow(path: Path, kind: str) -> tuple[NDArray[Any], str | None]:
    """All pages of a file as bands, and its description."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Pillow warns of damaged tags; the decoded values are checked below
        pages, text = _pages(path, kind)
    if len({page.shape for page in pages}) > 1:
        raise FormatError(f"{path}: its pages have different sizes, so they are not bands of one picture")
    return pages[0] if len(pages) == 1 else np.dstack(pages), text if isinstance(text, str) else None


def _pages(path: Path, kind: str) -> tuple[list[NDArray[Any]], Any]:
    from PIL import Image as Picture

    data = read_bytes(path)
    budget = UnpackingBudget(path, len(data))
    pages = []
    with Picture.open(BytesIO(data), formats=[kind]) as picture:
        text = picture.tag_v2.get(_DESCRIPTION) if kind == "TIFF" else None  # type: ignore[attr-defined]
        for number in range(getattr(picture, "n_frames", 1)):
            picture.seek(number)
            budget.spend(picture.width * picture.height * 4)
            if picture.mode not in ("L", "RGB", "RGBA", "F", "I;16", "I;16B"):
                raise FormatError(f"{path}: pixels of the kind {picture.mode} are not supported")
            page = np.asarray(picture)
            pages.append(page.astype(np.uint16) if page.dtype.kind in "iu" and page.itemsize > 1 else page)
    return pages, text


# ---- any picture as 8-bit colours, for display and for 8-bit formats ------------------------------------------------


_RGB = ("red", "green", "blue")


def shown_colours(colour: NDArray[Any], bands: tuple[str, ...] = ()) -> NDArray[np.uint8]:
    """Convert pixels (h, w) or (h, w, bands) to grey (h, w) or red, green, blue (h, w, 3), uint8.

    With more than three bands, those called red, green and blue are used, or the first three; with two bands, the
    first. 16-bit values keep their upper 8 bits. Floating-point values are scaled from 0 to their 99.5th percentile.
    """
    pixels = colour if colour.ndim == 3 else colour[:, :, None]
    if pixels.shape[2] != 3 and all(band in bands for band in _RGB):
        pixels = pixels[:, :, [bands.index(band) for band in _RGB]]
    elif pixels.shape[2] > 3:
        pixels = pixels[:, :, :3]
    elif pixels.shape[2] == 2:
        pixels = pixels[:, :, :1]
    if pixels.dtype == np.uint16:
        pixels = (pixels >> 8).astype(np.uint8)
    elif pixels.dtype != np.uint8:
        finite = pixels[np.isfinite(pixels)]
        top = max(float(np.percentile(finite, 99.5)) if finite.size else 0.0, 1e-12)
        known = np.nan_to_num(pixels, nan=0.0, posinf=top, neginf=0.0)
        pixels = np.round(np.clip(known / top, 0.0, 1.0) * 255.0).astype(np.uint8)
    return pixels[:, :, 0] if pixels.shape[2] == 1 else np.ascontiguousarray(pixels)


def red_green_blue(colour: NDArray[Any], bands: tuple[str, ...] = ()) -> NDArray[np.uint8]:
    """Like `shown_colours`, but always with shape (h, w, 3)."""
    pixels = shown_colours(colour, bands)
    return np.repeat(pixels[:, :, None], 3, axis=2) if pixels.ndim == 2 else pixels
