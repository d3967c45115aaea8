"""Boxes of KITTI's label and detection files, and how much two boxes overlap.

Frame: KITTI's camera, x right, y down, z forward. Source: the readme of KITTI's object development kit.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.pose import Floats
from parhelion.core.reading import read_bytes, reader

_LABEL_WORDS, _DETECTION_WORDS = 15, 16
DONT_CARE = "DontCare"


@dataclass(frozen=True, eq=False)
class Boxes:
    """The boxes of one frame, one row each."""

    kind: tuple[str, ...]
    truncated: Floats
    """Share outside of the picture, 0 to 1, shape (n,); -1 where not known."""
    occluded: Floats
    """0 visible, 1 partly, 2 largely hidden, 3 not known, shape (n,)."""
    picture: Floats
    """Left, top, right, bottom in the picture [pixels], shape (n, 4)."""
    size: Floats
    """Length, width, height [m], shape (n, 3)."""
    foot: Floats
    """Middle of the lower face [m], shape (n, 3)."""
    turn: Floats
    """Rotation about the y axis [rad], shape (n,)."""
    score: Floats
    """Of detections, shape (n,); 0 of labels."""

    def __len__(self) -> int:
        return len(self.kind)

    @property
    def height_px(self) -> Floats:
        """Height in the picture [pixels], shape (n,)."""
        return np.abs(self.picture[:, 3] - self.picture[:, 1])

    @property
    def distance_m(self) -> Floats:
        """Level distance from the camera [m], shape (n,)."""
        return np.hypot(self.foot[:, 0], self.foot[:, 2])


_NONE = np.zeros(0)
_NOTHING = Boxes((), _NONE, _NONE, np.zeros((0, 4)), np.zeros((0, 3)), np.zeros((0, 3)), _NONE, _NONE)


@reader()
def read_boxes(path: Path, *, detections: bool) -> Boxes:
    """A label file (15 words a line, or 16) or a detection file (16 words, the last is the score)."""
    text = read_bytes(path).decode("utf-8-sig", "replace")
    kinds: list[str] = []
    rows: list[list[float]] = []
    for number, line in enumerate(text.splitlines(), start=1):
        words = line.split()
        if not words:
            continue
        enough = len(words) == _DETECTION_WORDS or (not detections and len(words) == _LABEL_WORDS)
        if not enough:
            wanted = "16 words a line, the last is the score" if detections else "15 words a line"
            raise FormatError(f"{path}: line {number}: KITTI has {wanted}, got {len(words)}")
        try:
            values = [float(word) for word in words[1:]]
        except ValueError as error:
            raise FormatError(f"{path}: line {number}: {error}") from None
        if not all(map(math.isfinite, values)):
            raise FormatError(f"{path}: line {number}: numbers must be finite")
        kinds.append(words[0])
        rows.append([*values, *([0.0] * (_LABEL_WORDS - len(values)))])
    table = np.array(rows, np.float64).reshape(-1, _LABEL_WORDS)
    return Boxes(
        tuple(kinds), table[:, 0], table[:, 1], table[:, 3:7], table[:, [9, 8, 7]], table[:, 10:13], table[:, 13],
        table[:, 14],
    )  # fmt: skip


def frames_of(labels: Path, detections: Path) -> list[tuple[str, Boxes, Boxes]]:
    """Name, labels and detections of every frame; a frame without a detection file has none."""
    for path in (labels, detections):
        if not path.exists():
            raise FormatError(f"{path}: no such file or folder")
    if labels.is_dir() != detections.is_dir():
        raise ConfigError(f"{labels} and {detections}: give two files or two folders")
    if not labels.is_dir():
        return [(labels.stem, read_boxes(labels, detections=False), read_boxes(detections, detections=True))]
    files = sorted(labels.glob("*.txt"))
    if not files:
        raise FormatError(f"{labels}: no label files (.txt) in this folder")
    found = {file.name for file in detections.glob("*.txt")}
    if not found & {file.name for file in files}:
        raise FormatError(f"{detections}: no file here has the name of a label file, such as {files[0].name}")
    return [
        (
            file.stem,
            read_boxes(file, detections=False),
            read_boxes(detections / file.name, detections=True) if file.name in found else _NOTHING,
        )
        for file in files
    ]


# ---- overlap ---------------------------------------------------------------------------------------------------------


def corners(size: Floats, foot: Floats, turn: float) -> Floats:
    """Corners of a box from above, in the plane of x and z [m], in turn, shape (4, 2)."""
    length, width = 0.5 * size[0], 0.5 * size[1]
    along = np.array([length, length, -length, -length])
    across = np.array([width, -width, -width, width])
    cosine, sine = math.cos(turn), math.sin(turn)
    return np.stack([foot[0] + cosine * along + sine * across, foot[2] - sine * along + cosine * across], axis=1)


def overlap_area(first: Floats, second: Floats) -> float:
    """Area [m²] that two convex polygons (n, 2) share: the first cut by each side of the second."""
    shape = first
    rest = _anticlockwise(second)
    for row in range(len(rest)):
        start, end = rest[row], rest[(row + 1) % len(rest)]
        edge = end - start
        inside = edge[0] * (shape[:, 1] - start[1]) - edge[1] * (shape[:, 0] - start[0])
        shape = _cut(shape, inside)
        if len(shape) < 3:
            return 0.0
    return abs(_signed_area(shape))


def _cut(shape: Floats, inside: Floats) -> Floats:
    """The part of a polygon where a linear function, known at its corners, is not negative."""
    kept: list[Floats] = []
    for row in range(len(shape)):
        after = (row + 1) % len(shape)
        here, there = float(inside[row]), float(inside[after])
        if here >= 0.0:
            kept.append(shape[row])
        if here * there < 0.0:
            kept.append(shape[row] + here / (here - there) * (shape[after] - shape[row]))
    return np.array(kept).reshape(-1, 2)


def _signed_area(shape: Floats) -> float:
    x, y = shape[:, 0], shape[:, 1]
    return 0.5 * float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))


def _anticlockwise(shape: Floats) -> Floats:
    return shape if _signed_area(shape) >= 0.0 else shape[::-1]


def overlaps(first: Boxes, second: Boxes) -> tuple[Floats, Floats]:
    """Intersection over union of every pair, in space and from above, each of shape (n, m)."""
    space, above = np.zeros((len(first), len(second))), np.zeros((len(first), len(second)))
    near = _may_touch(first, second)
    shapes = [
        [corners(boxes.size[k], boxes.foot[k], float(boxes.turn[k])) for k in range(len(boxes))]
        for boxes in (first, second)
    ]
    for a, b in np.argwhere(near):
        shared = overlap_area(shapes[0][a], shapes[1][b])
        if shared <= 0.0:
            continue
        areas = float(np.prod(first.size[a, :2])), float(np.prod(second.size[b, :2]))
        above[a, b] = shared / (areas[0] + areas[1] - shared)
        # y points down: a box goes from its foot up to foot - height.
        low = min(first.foot[a, 1], second.foot[b, 1])
        high = max(first.foot[a, 1] - first.size[a, 2], second.foot[b, 1] - second.size[b, 2])
        common = shared * max(0.0, float(low - high))
        volumes = areas[0] * float(first.size[a, 2]) + areas[1] * float(second.size[b, 2])
        space[a, b] = common / (volumes - common)
    return space, above


def _may_touch(first: Boxes, second: Boxes) -> NDArray[np.bool_]:
    """Pairs whose circles from above overlap; boxes without a size touch nothing."""
    reach = [0.5 * np.hypot(boxes.size[:, 0], boxes.size[:, 1]) for boxes in (first, second)]
    real = [np.all(boxes.size > 0.0, axis=1) for boxes in (first, second)]
    apart = np.hypot(first.foot[:, None, 0] - second.foot[None, :, 0], first.foot[:, None, 2] - second.foot[None, :, 2])
    return (apart < reach[0][:, None] + reach[1][None]) & real[0][:, None] & real[1][None]
