"""What the viewer shows of each type of record: a cloud in the scene, a picture, or lines of text beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.frame_points import FramePoints
from parhelion.core.image import Image
from parhelion.core.inertial import Samples, units
from parhelion.core.readers import Readers
from parhelion.core.records import Scan
from parhelion.pictures.camera import image_colours


@dataclass(frozen=True)
class ViewerLayer:
    """How the viewer shows records of one type."""

    in_scene: bool
    """Whether it is a cloud in the scene, chosen and coloured by the panel."""
    lines: Callable[[str, Any], list[str]]
    """Lines of text for the panel, of a sensor's name and its latest record."""
    picture: Callable[[Any], NDArray[np.uint8]] | None = None
    """Red, green, blue (h, w, 3) of what is a picture."""


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


def _found(name: str, points: FramePoints) -> list[str]:
    if not len(points):
        return [f"{name}: nothing found at {points.start_time:.3f} s"]
    near = float(points.fields["range"].min())
    return [f"{name}: {len(points)} found at {points.start_time:.3f} s, the nearest at {near:.2f} m"]


VIEWER: Readers[ViewerLayer] = Readers(
    "viewer",
    {
        Scan: ViewerLayer(True, lambda name, scan: []),
        FramePoints: ViewerLayer(False, _found),
        Samples: ViewerLayer(False, _reading),
        Image: ViewerLayer(False, _size, image_colours),
    },
)
"""How the viewer shows each type of record."""
