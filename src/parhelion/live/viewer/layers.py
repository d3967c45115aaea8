"""What the viewer shows of each type of record: a cloud in the scene, a picture, or lines of text beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.gnss import BLOCKED, DIRECT, MULTIPATH, NO_FIX, REFLECTED, STATUS, GnssData
from parhelion.core.image import Image
from parhelion.core.inertial import Samples, units
from parhelion.core.readers import Readers
from parhelion.core.records import Scan
from parhelion.pictures.camera import image_colours

Strokes = NDArray[Any]


@dataclass(frozen=True)
class ViewerLayer:
    """How the viewer shows records of one type."""

    in_scene: bool
    """Whether it is a cloud in the scene, chosen and coloured by the panel."""
    lines: Callable[[str, Any], list[str]]
    """Lines of text for the panel, of a sensor's name and its latest record."""
    picture: Callable[[Any], NDArray[np.uint8]] | None = None
    """Red, green, blue (h, w, 3) of what is a picture."""
    strokes: Callable[[Any], tuple[Strokes, Strokes]] | None = None
    """Lines in the scene of its latest record: their ends (k, 2, 3) [m], and colours of the ends."""


def _reading(name: str, samples: Samples) -> list[str]:
    """The last sample in numbers, with units."""
    if not len(samples):
        return []
    told, parts = units(samples), []
    for field in samples._columns():
        value = np.atleast_1d(getattr(samples, field)[-1])
        if field != "time" and field in told and value.size <= 3:
            numbers = ", ".join(f"{number:.4g}" for number in value.tolist())
            parts.append(f"{field.replace('_', ' ')} {numbers} {told[field][0]}".rstrip())
    return [f"{name}: {'; '.join(parts)}"]


def _size(name: str, image: Image) -> list[str]:
    return [f"{name}: {image.width} x {image.height} pixels at {image.start_time:.3f} s"]


SIGHT_M = 60.0
"""Length of the lines of sight in the scene."""
_SIGHT_COLOUR = {BLOCKED: (110, 116, 124), REFLECTED: (230, 150, 30), MULTIPATH: (230, 150, 30), DIRECT: (60, 200, 100)}


def _fix(name: str, fixes: GnssData) -> list[str]:
    """The last fix in words."""
    if not len(fixes):
        return []
    seen = [f"{int(np.sum(fixes.status[-1] == number))} {STATUS[number]}" for number in reversed(list(_SIGHT_COLOUR))]
    if fixes.mode[-1] == NO_FIX:
        return [f"{name}: no fix ({', '.join(seen)})"]
    x, y, z = fixes.error[-1].tolist()
    used = int(fixes.satellites_used[-1])
    return [f"{name}: error {x:.2f}, {y:.2f}, {z:.2f} m; {used} satellites used ({', '.join(seen)})"]


def sights(fixes: GnssData) -> tuple[Strokes, Strokes]:
    """Lines from the antenna towards the satellites: green direct, amber by or with mirrors, grey blocked."""
    if not len(fixes):
        return np.zeros((0, 2, 3), np.float32), np.zeros((0, 2, 3), np.uint8)
    status, start = fixes.status[-1], fixes.true_position[-1]
    seen = np.flatnonzero(status > 0)
    far = start + SIGHT_M * fixes.directions()[-1, seen]
    ends = np.stack([np.broadcast_to(start, far.shape), far], axis=1)
    colours = np.array([_SIGHT_COLOUR[int(number)] for number in status[seen]], np.uint8).reshape(-1, 3)
    return ends.astype(np.float64), np.repeat(colours[:, None], 2, axis=1)


VIEWER: Readers[ViewerLayer] = Readers(
    "viewer",
    {
        Scan: ViewerLayer(True, lambda name, scan: []),
        Samples: ViewerLayer(False, _reading),
        Image: ViewerLayer(False, _size, picture=image_colours),
        GnssData: ViewerLayer(False, _fix, strokes=sights),
    },
)
"""How the viewer shows each type of record."""
