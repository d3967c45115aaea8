"""Sections of the run report for each type of frame, and statistics of every scan."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

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
from parhelion.pictures.top_view import label_key

if TYPE_CHECKING:
    from parhelion.outputs.manifest import EarlierRun, Journal


def frame_name(word: str, number: int | str) -> str:
    """Name of a frame in a caption; in a comparison of runs, frames have titles instead of numbers."""
    return f"{word} {number}" if isinstance(number, int) else number


def scans_section(name: str, model: str, scans: Mapping[int | str, Scan]) -> str:
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
            text = f"{words} of {frame_name('scan', number)} at {scan.start_time:.2f} s"
            kind = "scan" if organised else "frame"
            lines.append(html.image(field_uri(scan, field, (low, high)), text, kind))
            caption = f"{frame_name('Scan', number)}, {scan.start_time:.2f} s, {count(len(scan))} points"
            lines.append(html.paragraph(caption))
        figures.append(html.figure(f"{words}, {title}", "".join(lines)))
    # Pictures of a full revolution are wide and low, so each takes the full width; others are shown in pairs.
    return "".join(figures) if organised else html.pair(*figures)


def _profile(title: str, scans: Mapping[int | str, Scan]) -> str:
    """Range over azimuth, for sensors with one or two rings."""
    curves = []
    for k, (number, scan) in enumerate(scans.items()):
        azimuth = np.degrees(np.arctan2(scan.xyz[:, 1], scan.xyz[:, 0]))
        order = np.argsort(azimuth, kind="stable")
        name = f"{frame_name('scan', number)}, {scan.start_time:.2f} s"
        curves.append(Curve.of(name, azimuth[order], scan.fields["range"][order], k, "dots"))
    chart = Chart(curves, "range [m]", "azimuth [°], left is positive", zero=True)
    return html.pair(chart.figure(f"Range, {title}"))


_THUMBNAIL_WIDTH = 320


def images_section(name: str, model: str, images: Mapping[int | str, Image]) -> str:
    """Contact sheet of frames spread over the run with their times, and the ground truth of the middle frame."""
    cells = [
        html.cell(
            _picture(image_colours(image), f"{frame_name('Frame', number)} of {name}"),
            f"{image.start_time:.2f} s" if isinstance(number, int) else f"{number}, {image.start_time:.2f} s",
        )
        for number, image in images.items()
    ]
    middle = list(images.values())[len(images) // 2]
    truth, legend = [], ""
    if middle.depth is not None:
        truth.append(html.cell(_picture(depth_colours(middle.depth), f"Depth of {name}"), "depth, near is light"))
    if middle.label is not None:
        shown = label_colours_of(middle.label, middle.names.get("label", {}))
        truth.append(html.cell(_picture(shown, f"Labels of {name}"), "labels"))
        legend = label_key(middle.label[middle.label > 0], middle.names.get("label", {}))
    parts = html.figure(f"{name}, {model}", html.contact_sheet(*cells))
    if truth:
        parts += html.figure(f"{name}, ground truth at {middle.start_time:.2f} s", html.contact_sheet(*truth) + legend)
    return parts


def _picture(pixels: Any, words: str) -> str:
    return html.image(photo_uri(pixels), words, "shot")


def points_section(name: str, model: str, found: Mapping[int | str, FramePoints]) -> str:
    """Detections or echoes of some frames from above, with the radar cube if available."""
    figures = []
    for number, points in found.items():
        text = f"{frame_name('Frame', number)} of {name} at {points.start_time:.2f} s: {count(len(points))} found"
        figures.append(html.image(rgb_uri(frame_pixels(points) / 255.0), text, "frame"))
        figures.append(html.paragraph(text))
    return html.figure(f"{name}, {model}", "".join(figures))


FRAMES: Consumer[Callable[[str, str, Mapping[int | str, Any]], str]] = Consumer(
    "report, frames", {Scan: scans_section, Image: images_section, FramePoints: points_section}
)
"""Function that returns the section for a sensor, from its name, model and frames by number or title."""


@dataclass(frozen=True)
class SampledFrames:
    """Frames of one type that the report stores during the run."""

    most: int
    """Number of frames of all sensors of the type, spread over the run; at least three per sensor."""
    keep: Callable[[Any], Any]
    """Function that reduces a frame to what is stored."""
    anchor: str
    """Anchor of the section."""
    title: str
    """Title of the section."""
    word: str
    """Plural noun for the frames."""


SAMPLED: Consumer[SampledFrames] = Consumer(
    "report, sampled frames",
    {
        object: SampledFrames(3, lambda record: record, "scans", "Scans", "frames"),
        FramePoints: SampledFrames(3, lambda record: record, "waves", "Radar and echoes", "radar and echo frames"),
        Image: SampledFrames(24, lambda image: thumbnail(image, _THUMBNAIL_WIDTH), "pictures", "Pictures", "pictures"),
    },
)
"""Sampled frames by type of record."""


# ---- counts ---------------------------------------------------------------------------------------------------------
# Statistics of every scan of a run, one line of JSON per scan, written during the run and read when it is resumed.


_LARGEST_TABLE = 1 << 20
"""Larger instance numbers are not counted, because the table would be too large."""


@dataclass(frozen=True)
class ScanCounts:
    """Statistics of one scan."""

    lidar: str
    """Name of the lidar."""
    scan: int
    """Number of the scan."""
    time_s: float
    """Start time [s]."""
    points: int
    """Number of points."""
    shots: int
    """Number of shots."""
    lost: int
    """Number of shots without a return."""
    range_m: tuple[float, float, float] | None
    """Smallest, median and largest range [m]; None without points."""
    origins: dict[str, int]
    """Number of points by origin: surface, rain, fog, ..."""
    labels: dict[str, int]
    """Number of points by label."""
    instances: dict[str, int]
    """Number of points on each moving object, by instance number."""


def counts_of(lidar: str, number: int, scan: Scan, moving: Collection[int]) -> ScanCounts:
    """Statistics of a scan; `moving` are the instance numbers of moving objects."""
    distance = scan.fields["range"]
    range_m = None
    if len(scan):
        # Ranges have a resolution of millimetres at best; further digits would only enlarge the file.
        least, median, most = (round(float(v), 4) for v in (distance.min(), np.median(distance), distance.max()))
        range_m = (least, median, most)
    names = origin_names()
    words = {0: "in the air", **scan.names.get("label", {})}
    label, origin, instance = (_counted(scan, name) for name in ("label", "origin", "instance"))
    return ScanCounts(
        lidar,
        number,
        float(scan.start_time),
        len(scan),
        len(scan.shots),
        int(scan.lost.sum()),
        range_m,
        {names.get(int(row), f"origin {row}"): int(origin[row]) for row in np.flatnonzero(origin)},
        {words.get(int(row), f"label {row}"): int(label[row]) for row in np.flatnonzero(label)},
        {str(one): int(instance[one]) for one in sorted(moving) if one < len(instance) and instance[one]},
    )


def _counted(scan: Scan, name: str) -> NDArray[np.int64]:
    """Number of occurrences of each value of a field; empty without the field."""
    values = scan.fields.get(name)
    if values is None or not len(values) or int(values.max()) > _LARGEST_TABLE:
        return np.zeros(0, np.int64)
    return np.bincount(values)


class CountsFile:
    """File of the statistics of a run; one line per scan is appended, so that an interrupted run loses none."""

    def __init__(self, file: Path, expected: Collection[tuple[str, int]], earlier: EarlierRun | None = None) -> None:
        """Read an existing file.

        Only scans in `expected`, by lidar and number, are used. With `earlier`, their lines must also match the
        manifest or the journal of that run.
        """
        self.file = file
        self._journal: Journal | None = None
        self.rows: dict[tuple[str, int], ScanCounts] = {}
        """Statistics by lidar and number."""
        if file.exists():
            try:
                lines = file.read_text(encoding="utf-8", errors="replace").splitlines()
            except OSError as error:
                raise FormatError(f"{file}: cannot be read ({error.strerror})") from None
            unchanged = earlier is None or earlier.matches(file)
            for line in lines:
                found = _parsed(line)
                if found is None or (found.lidar, found.scan) not in expected:
                    continue
                if earlier is None or unchanged or _entry(found).items() <= earlier.known.items():
                    self.rows[found.lidar, found.scan] = found
            # Rewrite the file, because its last line may be incomplete.
            self.finish()

    def start(self, journal: Journal) -> None:
        """Record the hash of every line in a journal, from now on."""
        self._journal = journal
        journal.add_hashes({name: value for row in self.rows.values() for name, value in _entry(row).items()})

    def add(self, counts: ScanCounts) -> None:
        """Append one scan."""
        self.rows[counts.lidar, counts.scan] = counts
        try:
            with self.file.open("a", encoding="utf-8") as stream:
                stream.write(_line(counts))
        except OSError as error:
            raise FormatError(f"{self.file}: cannot be written ({error.strerror})") from None
        if self._journal is not None:
            self._journal.add_hashes(_entry(counts))

    def finish(self) -> None:
        """Rewrite the file, sorted by lidar and scan."""
        with atomic_write(self.file) as temporary:
            temporary.write_text("".join(_line(self.rows[key]) for key in sorted(self.rows)), encoding="utf-8")


def _line(counts: ScanCounts) -> str:
    return json.dumps(asdict(counts)) + "\n"


def _entry(counts: ScanCounts) -> dict[str, str]:
    """Entry of the journal for the line of a scan."""
    return {f"#{counts.lidar}/{counts.scan}": hashlib.sha256(_line(counts).encode()).hexdigest()}


def _parsed(line: str) -> ScanCounts | None:
    """Statistics in a line; None if the line is incomplete or invalid."""
    try:
        values: dict[str, Any] = json.loads(line)
        values["range_m"] = None if values["range_m"] is None else tuple(map(float, values["range_m"]))
        numbers = [values["points"], values["shots"], values["lost"], values["scan"], values["time_s"]]
        numbers += [n for name in ("origins", "labels", "instances") for n in values[name].values()]
        good = all(isinstance(n, (int, float)) and n >= 0 for n in numbers) and isinstance(values["lidar"], str)
        return ScanCounts(**values) if good else None
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError, OverflowError):
        return None
