"""What the page of a run shows of each type of frame."""

from __future__ import annotations

import json
from collections.abc import Callable, Collection
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan, origin_names
from parhelion.core.consumers import Consumer
from parhelion.core.errors import FormatError
from parhelion.core.files import atomic_write
from parhelion.core.frames import FramePoints
from parhelion.core.image import Image
from parhelion.pictures import html
from parhelion.pictures.camera import depth_colours, image_colours, label_colours_of, thumbnail
from parhelion.pictures.charts import Chart, Curve
from parhelion.pictures.grids import is_organised
from parhelion.pictures.html import count
from parhelion.pictures.images import field_limits, field_uri, gradient, photo_uri, rgb_uri
from parhelion.pictures.radar import frame_pixels


def scans_section(name: str, model: str, scans: dict[int, Scan]) -> str:
    title = f"{name}, {model}"
    whole = [scan for scan in scans.values() if len(scan)]
    if not whole:
        return html.figure(title, html.paragraph("No returns in these scans."))
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
            lines.append(html.paragraph(f"Scan {number}, {scan.start_time:.2f} s, {count(len(scan))} points"))
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
        curves.append(Curve.of(name, azimuth[order], scan.fields["range"][order], k, "dots"))
    chart = Chart(curves, "range [m]", "azimuth [°], left is positive", zero=True)
    return html.pair(chart.figure(f"Range, {title}"))


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
        figures.append(html.paragraph(said))
    return html.figure(f"{name}, {model}", "".join(figures))


FRAMES: Consumer[Callable[[str, str, dict[int, Any]], str]] = Consumer(
    "report, frames", {Scan: scans_section, Image: images_section, FramePoints: points_section}
)
"""A part of the page for some frames of a sensor, of its name, model and frames by number."""


@dataclass(frozen=True)
class SampledFrames:
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


KEPT: Consumer[SampledFrames] = Consumer(
    "report, kept frames",
    {
        object: SampledFrames(3, lambda record: record, "scans", "Scans", "frames"),
        FramePoints: SampledFrames(
            3, lambda record: record, "waves", "Radar and echoes", "frames of radars and sounders"
        ),
        Image: SampledFrames(24, lambda image: thumbnail(image, _THUMBNAIL_WIDTH), "pictures", "Pictures", "pictures"),
    },
)
"""What is kept of each type of frame."""


# ---- counts ---------------------------------------------------------------------------------------------------------
# Counts of every scan of a run, one line of JSON a scan, written as the run goes and read again when it goes on.


_LARGEST_TABLE = 1 << 20
"""Instance numbers beyond this are not counted: a table of them would not be small."""


@dataclass(frozen=True)
class ScanCounts:
    """What one scan gave."""

    lidar: str
    scan: int
    """Its number."""
    time_s: float
    """When it began."""
    points: int
    shots: int
    lost: int
    """Shots without a return."""
    range_m: tuple[float, float, float] | None
    """Least, median and largest range; None without points."""
    origins: dict[str, int]
    """Points by what made them: surface, rain, fog ..."""
    labels: dict[str, int]
    """Points by label."""
    instances: dict[str, int]
    """Points on each thing that moves, by its instance number."""


def counts_of(lidar: str, number: int, scan: Scan, moving: Collection[int]) -> ScanCounts:
    """Count a scan; `moving` holds the instance numbers of what moves."""
    distance = scan.fields["range"]
    range_m = None
    if len(scan):
        # Ranges come in steps of millimetres and more; the digits beyond would only fill the file.
        least, median, most = (round(float(v), 4) for v in (distance.min(), np.median(distance), distance.max()))
        range_m = (least, median, most)
    names = origin_names()
    words = {0: "in the air", **scan.names.get("label", {})}
    label, origin, instance = (_counted(scan, name) for name in ("label", "origin", "instance"))
    return ScanCounts(
        lidar, number, float(scan.start_time), len(scan), len(scan.shots), int(scan.lost.sum()), range_m,
        {names.get(int(row), f"origin {row}"): int(origin[row]) for row in np.flatnonzero(origin)},
        {words.get(int(row), f"label {row}"): int(label[row]) for row in np.flatnonzero(label)},
        {str(one): int(instance[one]) for one in sorted(moving) if one < len(instance) and instance[one]},
    )  # fmt: skip


def _counted(scan: Scan, name: str) -> NDArray[np.int64]:
    """How often each number occurs in a field; empty where there is no such field."""
    values = scan.fields.get(name)
    if values is None or not len(values) or int(values.max()) > _LARGEST_TABLE:
        return np.zeros(0, np.int64)
    return np.bincount(values)


class CountsFile:
    """The counts of a run in a file that grows by a line a scan, so that a run that is stopped loses none."""

    def __init__(self, file: Path, expected: Collection[tuple[str, int]]) -> None:
        """Of an earlier file only the scans that are `expected`, by lidar and number, are kept."""
        self.file = file
        self.rows: dict[tuple[str, int], ScanCounts] = {}
        """Counts by lidar and number."""
        if file.exists():
            try:
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError as error:
                raise FormatError(f"{file}: cannot be read ({error.strerror})") from None
            for line in lines:
                found = _parsed(line)
                if found is not None and (found.lidar, found.scan) in expected:
                    self.rows[found.lidar, found.scan] = found
            # A line that was cut off is not to be written on.
            self.finish()

    def add(self, counts: ScanCounts) -> None:
        """Take down one more scan."""
        self.rows[counts.lidar, counts.scan] = counts
        try:
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(_line(counts))
        except OSError as error:
            raise FormatError(f"{self.file}: cannot be written ({error.strerror})") from None

    def finish(self) -> None:
        """Write the file anew, in the order of lidars and scans."""
        with atomic_write(self.file) as temporary:
            temporary.write_text("".join(_line(self.rows[key]) for key in sorted(self.rows)), encoding="utf-8")


def _line(counts: ScanCounts) -> str:
    return json.dumps(asdict(counts)) + "\n"


def _parsed(line: str) -> ScanCounts | None:
    """The counts that a line holds; None for a line that was cut off, or that is none of ours."""
    try:
        values: dict[str, Any] = json.loads(line)
        values["range_m"] = None if values["range_m"] is None else tuple(map(float, values["range_m"]))
        numbers = [values["points"], values["shots"], values["lost"], values["scan"], values["time_s"]]
        numbers += [n for name in ("origins", "labels", "instances") for n in values[name].values()]
        good = all(isinstance(n, (int, float)) and n >= 0 for n in numbers) and isinstance(values["lidar"], str)
        return ScanCounts(**values) if good else None
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
