"""Pictures of a run report: scans as panoramas, and all points in perspective."""

from __future__ import annotations

import base64
import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan, origin_names
from parhelion.core.pose import Pose
from parhelion.pictures.grids import azimuth_elevation, field_image, is_organised, panorama
from parhelion.pictures.relief import Relief
from parhelion.pictures.scan import PinholeView, behind_points, render
from parhelion.pictures.style import INTENSITY_COLOURS, RANGE_COLOURS, colour_labels, colour_table, rgb, robust_limits
from parhelion.weather import media

FIELD_COLOURS = {"range": RANGE_COLOURS, "intensity": INTENSITY_COLOURS}
"""Colour map per field."""

_NOTHING = 255
"""Palette entry of pixels without a return."""
_LEAST_HEIGHT, _LEAST_WIDTH = 64, 720
_WIDTH, _HEIGHT = 1320, 660
_BACKGROUND = (10 / 255, 12 / 255, 16 / 255)
_FALSE_POINTS = {"multipath": "#ff59bf", "noise": "#ff5959"}
"""Colours of points that are neither surfaces nor weather."""


def png_uri(picture: Any) -> str:
    """Pillow image as a `data:` URI, embedded in a page."""
    stream = io.BytesIO()
    picture.save(stream, format="PNG", compress_level=7)
    return "data:image/png;base64," + base64.b64encode(stream.getvalue()).decode("ascii")


def rgb_uri(image: NDArray[Any]) -> str:
    """Colours (rows, columns, 3 or 4) in [0, 1] as a `data:` URI with at most 128 colours."""
    from PIL import Image

    pixels = np.round(np.clip(image, 0.0, 1.0) * 255.0).astype(np.uint8)
    return png_uri(Image.fromarray(pixels).quantize(128, method=Image.Quantize.FASTOCTREE))


def photo_uri(pixels: NDArray[np.uint8]) -> str:
    """Photograph (rows, columns, 3) as a `data:` URI with 256 dithered colours."""
    from PIL import Image

    picture = Image.fromarray(np.ascontiguousarray(pixels))
    palette = picture.quantize(256, method=Image.Quantize.MEDIANCUT)
    return png_uri(picture.quantize(256, palette=palette, dither=Image.Dither.FLOYDSTEINBERG))


def field_limits(scans: Sequence[Scan], name: str) -> tuple[float, float]:
    """Values of the darkest and the brightest colour, common to several scans."""
    values = np.concatenate([np.asarray(scan.fields[name], np.float64) for scan in scans])
    return robust_limits(values[values > 0.0], 0.5, 99.5)


def field_uri(scan: Scan, name: str, limits: tuple[float, float]) -> str:
    """Panorama of a field as a `data:` URI; pixels without a return are transparent.

    Colours follow the logarithm. Spinning and raster sensors have one row per ring; for other patterns, shots are
    binned by azimuth and elevation.
    """
    from PIL import Image

    image = field_image(scan, name, panorama(scan)) if is_organised(scan) else _scattered(scan, name)
    low, high = np.log(np.maximum(limits, 1e-6))
    with np.errstate(divide="ignore", invalid="ignore"):
        level = (np.log(np.maximum(image, 1e-6)) - low) / max(high - low, 1e-9)
    index = np.where(np.isfinite(image), np.clip(np.nan_to_num(level) * 254.0, 0.0, 254.0), _NOTHING).astype(np.uint8)
    index = index.repeat(-(-_LEAST_HEIGHT // index.shape[0]), axis=0).repeat(-(-_LEAST_WIDTH // index.shape[1]), axis=1)
    picture = Image.fromarray(index)
    picture.putpalette((colour_table(FIELD_COLOURS[name]) * 255.0).round().astype(np.uint8).ravel().tolist())
    picture.info["transparency"] = _NOTHING
    return png_uri(picture)


def gradient(name: str) -> str:
    """Colours of a field from low to high, as stops of a CSS gradient."""
    chosen = colour_table(FIELD_COLOURS[name])[np.linspace(0, 254, 9).astype(int)]
    return ", ".join("rgb({:.0f} {:.0f} {:.0f})".format(*(255.0 * colour)) for colour in chosen)


def _scattered(scan: Scan, name: str) -> NDArray[np.float32]:
    """A field over azimuth (left to right) and elevation, NaN without a return; about one cell per shot."""
    azimuth, elevation = azimuth_elevation(scan)
    if len(azimuth) == 0:
        return np.full((1, 1), np.nan, np.float32)
    wide, tall = max(float(np.ptp(azimuth)), 1e-3), max(float(np.ptp(elevation)), 1e-3)
    columns = int(np.clip(np.sqrt(len(azimuth) * wide / tall), 24, 720))
    rows = int(np.clip(columns * tall / wide, 8, 400))
    shot = scan.fields["shot"]
    column = ((azimuth.max() - azimuth[shot]) / wide * (columns - 1)).round().astype(np.intp)
    row = ((elevation.max() - elevation[shot]) / tall * (rows - 1)).round().astype(np.intp)
    image = np.full((rows, columns), np.nan, np.float32)
    image[row, column] = scan.fields[name]
    return image


def points_uri(
    points: NDArray[Any],
    label: NDArray[Any],
    origin: NDArray[Any],
    brightness: NDArray[Any],
    names: Mapping[int, str],
    ways: Sequence[NDArray[Any]],
    relief: Relief | None = None,
    start: NDArray[Any] | None = None,
) -> str:
    """Perspective view of points (n, 3) [m] from behind and above the sensor paths, as a `data:` URI.

    Colour shows the label and brightness the reflectance (`brightness`); echoes of the air have their own pale colours
    (`origin`, numbers of `origin_names`). Ceilings are omitted. `ways` holds the path (m, 3) [m] of each sensor.
    `relief` is the world for a dark background; all positions are relative to `start` (3,) [m] in it.
    """
    shown = ~np.isin(label, [number for number, word in names.items() if word == "ceiling"])
    points, label, origin, brightness = (values[shown] for values in (points, label, origin, brightness))
    if relief is not None and relief.ceiling is not None and start is not None:
        shown = points[:, 2] + start[2] < relief.ceiling
        points, label, origin, brightness = (values[shown] for values in (points, label, origin, brightness))
    light = 0.5 + 0.62 * np.sqrt(np.clip(brightness, 0.0, 1.0))
    colour = np.clip(colour_labels(label, names) * light[:, None], 0.0, 1.0)
    shades = air_colours()
    for code, word in origin_names().items():
        if word in shades:
            # Many near points would hide the others.
            colour[origin == code] = 0.8 * rgb(shades[word])
    gone = [way[-1, :2] - way[0, :2] for way in ways]
    ahead = max(gone, key=lambda step: float(np.linalg.norm(step)))
    places = np.concatenate(list(ways))
    low, high = places.min(axis=0), places.max(axis=0)
    middle = (low + high) / 2
    solid = points[origin == 0, :2]
    reach = np.linalg.norm(solid - middle[:2], axis=1) if len(solid) else np.ones(1)
    length = float(np.linalg.norm((high - low)[:2]))
    size = float(np.clip(np.percentile(reach, 70), max(3.0, 0.5 * length), max(45.0, 0.7 * length)))
    ahead = ahead if np.linalg.norm(ahead) > 0.5 else np.array([1.0, 0.0])
    heading = float(np.arctan2(ahead[1], ahead[0])) + np.radians(180.0 - 38.0)
    eye = middle + 1.55 * size * np.array([np.cos(heading), np.sin(heading), 0.62])
    camera = PinholeView(Pose.look_at(eye, middle - np.array([0.0, 0.0, 0.08 * size])), _WIDTH, _HEIGHT, 55.0)
    background: Any = _BACKGROUND
    if relief is not None and start is not None:
        background = behind_points(relief, camera, start, 7.0 * size)
    picture = render(points, colour, camera, background=background, point_size_m=0.0028 * size, fade_m=7.0 * size)
    return rgb_uri(picture) if relief is None else photo_uri(np.round(255.0 * np.clip(picture, 0, 1)).astype(np.uint8))


def air_colours() -> dict[str, str]:
    """Colour '#rrggbb' of points that are not from a surface, by origin: pale for media, bright for false points."""
    pale = {name: 255.0 * (0.4 * rgb(colour) + 0.6) for name, colour in media.colours().items()}
    return {name: "#" + "".join(f"{round(part):02x}" for part in value) for name, value in pale.items()} | _FALSE_POINTS
