"""Images and their ground truth as viewable pictures: colour, depth, masks, and projected lidar points."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from os import PathLike
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError
from parhelion.core.image import Image
from parhelion.io.images.plain import red_green_blue
from parhelion.io.images.truth import instance_colours, window_pixels
from parhelion.pictures.style import (
    INK,
    INTENSITY_COLOURS,
    PANEL,
    RANGE_COLOURS,
    check_picture,
    colour_bar,
    colour_labels,
    colour_table,
    robust_limits,
    save,
    sheet,
)

Pixels = NDArray[np.uint8]

_NOTHING = (14, 17, 22)
"""Colour of pixels without a surface or without a value."""
_POINT_COLOURS = "turbo_r"
"""Colour map of projected points: near points are red, and all are brighter than the image."""


def image_colours(image: Image) -> Pixels:
    """Image as red, green, blue (h, w, 3) for any bands and type; in thermal images warm is bright."""
    if image.bands in (("thermal",), ("mwir",)):
        return _thermal_colours(image.colour.reshape(image.colour.shape[:2]))
    return red_green_blue(image.colour, image.bands)


def _thermal_colours(pixels: NDArray[Any]) -> Pixels:
    """Stretch from the coldest to the warmest pixel: a scene spans only part of the range of the camera."""
    from matplotlib import colormaps

    low, high = robust_limits(pixels, 0.5, 99.5)
    level = np.clip((pixels.astype(np.float64) - low) / (high - low), 0.0, 1.0)
    return np.round(255.0 * colormaps[INTENSITY_COLOURS](level)[:, :, :3]).astype(np.uint8)


def depth_colours(depth: NDArray[Any], limits: tuple[float, float] | None = None) -> Pixels:
    """Depth (h, w) [m] as colours of its logarithm: near is light, missing values are dark.

    `limits` are the depths of the first and the last colour; by default they follow from the image.
    """
    known = np.isfinite(depth) & (depth > 0.0)
    out = np.full((*depth.shape, 3), _NOTHING, np.uint8)
    if known.any():
        out[known] = range_colours(depth[known], limits)
    return out


def range_colours(
    distance: NDArray[Any], limits: tuple[float, float] | None = None, colours: str = RANGE_COLOURS
) -> Pixels:
    """Distances (n,) [m] as colours (n, 3), by their logarithm; `colours` is a Matplotlib colour map."""
    values = np.asarray(distance, np.float64)
    low, high = np.log(np.maximum(limits or robust_limits(values, 0.5, 99.5), 1e-3))
    level = (np.log(np.maximum(values, 1e-3)) - low) / max(float(high - low), 1e-9)
    return np.round(255.0 * colour_table(colours)[np.clip(level * 255.0, 0.0, 255.0).astype(np.intp)]).astype(np.uint8)


def label_colours_of(label: NDArray[Any], names: Mapping[int, str]) -> Pixels:
    """Class mask (h, w) in the label colours of all pictures; dark where no surface is visible."""
    out = np.round(255.0 * colour_labels(label.ravel(), {0: "unlabeled", **names})).astype(np.uint8)
    out[label.ravel() == 0] = _NOTHING
    return out.reshape(*label.shape, 3)


def normal_colours(normal: NDArray[Any]) -> Pixels:
    """Unit normals (h, w, 3) as colours; dark where no surface is visible."""
    out = np.round((np.asarray(normal, np.float64) + 1.0) * 127.5).astype(np.uint8)
    out[~np.any(normal, axis=2)] = _NOTHING
    return out


def points_over(
    picture: Image | Pixels,
    uv: NDArray[Any],
    distance: NDArray[Any],
    *,
    limits: tuple[float, float] | None = None,
    size: int = 2,
    light: float = 0.65,
) -> Pixels:
    """Image with projected points, coloured by distance [m]; near points are red and on top.

        uv, inside = camera.project(image.pose.inverse().apply(scan.in_world().xyz))
        pictures.points_over(image, uv[inside], scan.range[inside])

    `uv` (n, 2) are columns and rows as returned by `project`; points outside the image are omitted. A point is a square
    of `size` pixels. `light` darkens the image so that points stand out.
    """
    canvas = image_colours(picture) if isinstance(picture, Image) else np.asarray(picture)
    if uv.ndim != 2 or uv.shape != (len(distance), 2):
        raise ConfigError(f"points over a picture: uv must have shape ({len(distance)}, 2), got {uv.shape}")
    canvas = np.round(canvas * light).astype(np.uint8)
    height, width = canvas.shape[:2]
    with np.errstate(invalid="ignore"):
        framed = np.all((uv > -0.5) & (uv < (width - 0.5, height - 0.5)), axis=1)
    column, row = (np.round(uv[framed, k]).astype(np.intp) for k in range(2))
    order = np.argsort(-distance[framed], kind="stable")  # the last point drawn on a pixel remains
    column, row = column[order], row[order]
    if not framed.any():
        return canvas
    colours = range_colours(distance[framed], limits, _POINT_COLOURS)[order]
    first = -((size - 1) // 2)
    for down in range(first, first + size):
        for right in range(first, first + size):
            r, c = row + down, column + right
            inside = (r >= 0) & (r < height) & (c >= 0) & (c < width)
            canvas[r[inside], c[inside]] = colours[inside]
    return canvas


def thumbnail(image: Image, width: int) -> Image:
    """Image of limited width: the picture is averaged, the ground truth is subsampled.

    Lens, objects, flow and the second image are omitted.
    """
    step = max(1, -(-image.width // width))
    smooth = _averaged(image.colour, step)
    rows, columns = ((np.arange(count) * step + step // 2) for count in smooth.shape[:2])
    rows = np.minimum(rows, image.height - 1)  # an image lower than one step

    def thinned(values: NDArray[Any] | None) -> Any:
        return None if values is None else values[rows][:, columns]

    return replace(
        image,
        colour=smooth,
        right=None,
        intrinsics=None,
        objects=(),
        flow=None,
        depth=thinned(image.depth),
        normal=thinned(image.normal),
        label=thinned(image.label),
        instance=thinned(image.instance),
        mobility=thinned(image.mobility),
        window=thinned(image.window),
        measured_depth=thinned(image.measured_depth),
    )


def _averaged(pixels: NDArray[Any], step: int) -> NDArray[Any]:
    """Means over squares of `step` pixels, of the same type; incomplete squares at the edges are omitted."""
    if step == 1:
        return pixels
    rows, columns = max(1, pixels.shape[0] // step), max(1, pixels.shape[1] // step)
    blocks = pixels[: rows * step, : columns * step].reshape(rows, -1, columns, step, *pixels.shape[2:])
    mean = blocks.mean(axis=(1, 3))
    return (np.round(mean) if pixels.dtype.kind == "u" else mean).astype(pixels.dtype)


# ---- contact sheet of an image and its ground truth ------------------------------------------------------------------


def image_panels(image: Image) -> list[tuple[str, Pixels]]:
    """Title and colours of the image and of each available kind of ground truth."""
    found = [("picture", image_colours(image))]
    if image.right is not None:
        found.append(("right picture", red_green_blue(image.right, image.bands)))
    for name, depth in (("depth", image.depth), ("measured depth", image.measured_depth)):
        if depth is not None:
            low, high = robust_limits(depth[np.isfinite(depth)], 0.5, 99.5)
            found.append((f"{name}, {low:.3g} m light to {high:.3g} m dark", depth_colours(depth, (low, high))))
    if image.normal is not None:
        found.append(("normals", normal_colours(image.normal)))
    if image.label is not None:
        found.append(("labels", label_colours_of(image.label, image.names.get("label", {}))))
    if image.instance is not None:
        found.append(("instances", instance_colours(image.instance)))
    if image.window is not None:
        found.append(("window", np.repeat(window_pixels(image.window)[..., None], 3, axis=2)))
    return found


def draw_image(image: Image, path: str | PathLike[str]) -> None:
    """Draw the image and its ground truth on one sheet (.png, .jpg, .pdf, .svg)."""
    check_picture(path)
    panels = image_panels(image)
    across = 1 if len(panels) == 1 else 2 if len(panels) in (2, 4) else 3
    down = -(-len(panels) // across)
    wide = 4.6
    tall = wide * image.height / image.width + 0.35
    figure = sheet(across * wide + 0.3, down * tall + 0.3)
    for number, (title, pixels) in enumerate(panels):
        left, top = (number % across) * wide + 0.2, (number // across) * tall + 0.45
        width_in, height_in = figure.get_size_inches()
        axes = figure.add_axes(
            (left / width_in, 1.0 - (top + tall - 0.35) / height_in, (wide - 0.1) / width_in, (tall - 0.4) / height_in)
        )
        axes.set_facecolor(PANEL)
        axes.imshow(pixels, interpolation="nearest" if image.width < 400 else "antialiased")
        axes.set_axis_off()
        axes.set_title(title, loc="left", color=INK, fontsize=9, pad=4)
    save(figure, path)


def ndvi(image: Image, white: NDArray[Any]) -> NDArray[np.float64]:
    """Vegetation index (nir - red) / (nir + red) of reflectances, shape (h, w); NaN without light.

    `image` holds radiance; `white` is the radiance of a white surface in the same light, per band
    (`Camera.reflected_light`).
    """
    values = np.asarray(image.colour, np.float64) / np.asarray(white, np.float64)
    red, nir = values[..., image.bands.index("red")], values[..., image.bands.index("nir")]
    total = red + nir
    return np.divide(nir - red, total, out=np.full(red.shape, np.nan), where=total > 0.0)


def draw_ndvi(image: Image, path: str | PathLike[str], white: NDArray[Any]) -> None:
    """Draw the vegetation index with its colour bar; `image` and `white` as for `ndvi`."""
    check_picture(path)
    index = ndvi(image, white)
    if image.depth is not None:
        index[~np.isfinite(image.depth)] = np.nan  # the sky has no index
    width = 7.0
    figure = sheet(width, width * image.height / image.width + 0.4)
    axes = figure.add_axes((0.02, 0.02, 0.84, 0.9))
    axes.set_facecolor(PANEL)
    drawn = axes.imshow(index, vmin=-0.2, vmax=0.9, cmap="RdYlGn")
    axes.set_axis_off()
    axes.set_title("vegetation index (NDVI)", loc="left", color=INK, fontsize=10, pad=4)
    colour_bar(drawn, axes, "NDVI")
    save(figure, path)
