"""What the page of a run shows of each type of frame."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from parhelion.core.frame_points import FramePoints
from parhelion.core.image import Image
from parhelion.core.readers import Readers
from parhelion.core.records import Scan
from parhelion.outputs.report.tables import count
from parhelion.pictures import run_page as html
from parhelion.pictures.camera import depth_colours, image_colours, label_colours_of, thumbnail
from parhelion.pictures.grids import is_organised
from parhelion.pictures.radar import frame_pixels
from parhelion.pictures.run_images import field_limits, field_uri, gradient, photo_uri, rgb_uri
from parhelion.pictures.run_plots import Curve, line_plot


def scans_section(name: str, model: str, scans: dict[int, Scan]) -> str:
    title = f"{name}, {model}"
    whole = [scan for scan in scans.values() if len(scan)]
    if not whole:
        return html.figure(title, '<p class="note">No returns in the scans that were looked at.</p>')
    organised = is_organised(whole[0])
    if organised and len(np.unique(whole[0].shots.ring)) <= 2:
        return _profile(title, scans)
    figures = []
    units = {"range": "Range", "intensity": "Intensity"}
    for field, words in units.items():
        if field not in whole[0].fields:
            continue
        low, high = field_limits(whole, field)
        ends = (f"{low:.3g} m", f"{high:.3g} m") if field == "range" else (f"{low:.3g}", f"{high:.3g} (vendor scale)")
        lines = [html.scale(*ends, gradient(field))]
        for number, scan in scans.items():
            said = f"{words} of scan {number} at {scan.start_time:.2f} s"
            kind = "scan" if organised else "frame"
            lines.append(html.image(field_uri(scan, field, (low, high)), said, kind))
            lines.append(f'<p class="note">Scan {number}, {scan.start_time:.2f} s, {count(len(scan))} points</p>')
        figures.append(html.figure(f"{words}, {title}", "".join(lines)))
    # A turn is wide and low, so its pictures want the whole width; a frame has room beside it.
    return "".join(figures) if organised else html.pair(*figures)


def _profile(title: str, scans: dict[int, Scan]) -> str:
    """Range over azimuth, for sensors of one or two rings."""
    curves = []
    for k, (number, scan) in enumerate(scans.items()):
        azimuth = np.degrees(np.arctan2(scan.xyz[:, 1], scan.xyz[:, 0]))
        order = np.argsort(azimuth, kind="stable")
        name = f"scan {number}, {scan.start_time:.2f} s"
        distance = scan.fields["range"][order].astype(np.float64)
        curves.append(Curve(name, azimuth[order].astype(np.float64), distance, distance, distance, k))
    plot = line_plot(curves, unit="m", x_label="azimuth [°], left is positive", zero=True, dots=True)
    return html.pair(html.figure(f"Range, {title}", plot + html.key((c.name, c.colour) for c in curves)))


_THUMBNAIL_WIDTH = 320


def images_section(name: str, model: str, images: dict[int, Image]) -> str:
    """A contact sheet: frames spread over the run with their times, and the truth of the middle one."""
    cells = [
        html.cell(_picture(image_colours(image), f"Frame {number} of {name}"), f"{image.start_time:.2f} s")
        for number, image in images.items()
    ]
    middle = list(images.values())[len(images) // 2]
    truth = []
    if middle.depth is not None:
        truth.append(html.cell(_picture(depth_colours(middle.depth), f"Depth of {name}"), "depth, near is light"))
    if middle.label is not None:
        shown = label_colours_of(middle.label, middle.names.get("label", {}))
        truth.append(html.cell(_picture(shown, f"Labels of {name}"), "labels"))
    parts = html.figure(f"{name}, {model}", html.contact_sheet(*cells))
    if truth:
        parts += html.figure(f"{name}, the truth at {middle.start_time:.2f} s", html.contact_sheet(*truth))
    return parts


def _picture(pixels: Any, words: str) -> str:
    return html.image(photo_uri(pixels), words, "shot")


def points_section(name: str, model: str, found: dict[int, FramePoints]) -> str:
    """Detections or echoes of some frames from above, with the cube where it was kept."""
    figures = []
    for number, points in found.items():
        said = f"Frame {number} of {name} at {points.start_time:.2f} s: {count(len(points))} found"
        figures.append(html.image(rgb_uri(frame_pixels(points) / 255.0), said, "frame"))
        figures.append(f'<p class="note">{html.text(said)}</p>')
    return html.figure(f"{name}, {model}", "".join(figures))


FRAMES: Readers[Callable[[str, str, dict[int, Any]], str]] = Readers(
    "report, frames", {Scan: scans_section, Image: images_section, FramePoints: points_section}
)
"""A part of the page for some frames of a sensor, of its name, model and frames by number."""


@dataclass(frozen=True)
class Kept:
    """What the page keeps of frames while the run goes on."""

    most: int
    """Frames of all sensors of the type together, though at least three of each: they are spread over the run."""
    keep: Callable[[Any], Any]
    """What is kept of a frame."""
    anchor: str
    """Of the section that shows them."""
    title: str
    word: str
    """What several of them are called."""


KEPT: Readers[Kept] = Readers(
    "report, kept frames",
    {
        object: Kept(3, lambda record: record, "scans", "Scans", "frames"),
        FramePoints: Kept(3, lambda record: record, "waves", "Radar and echoes", "frames of radars and sounders"),
        Image: Kept(24, lambda image: thumbnail(image, _THUMBNAIL_WIDTH), "pictures", "Pictures", "pictures"),
    },
)
"""What is kept of each type of frame."""
