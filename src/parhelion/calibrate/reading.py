"""Recordings as range images: packet captures, bags, clouds and folders of clouds."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from parhelion.calibrate.range_images import RangeImage, range_image
from parhelion.core.errors import FormatError
from parhelion.io.recordings import clouds_of

MOST_FRAMES = 40
"""Largest number of frames that are used; longer recordings are sampled evenly."""


def read_drive(
    path: str | PathLike[str], *, sensor: str | None = None, turn: int | None = None, topic: str | None = None
) -> list[RangeImage]:
    """Frames of a recording as range images; `turn` selects one. Recordings of several sensors raise FormatError."""
    found: list[RangeImage] = []
    names: set[str] = set()
    number = -1
    for number, (_, cloud) in enumerate(clouds_of(path, sensor=sensor, topic=topic)):
        if "sensor" in cloud.metadata:
            names.add(str(cloud.metadata["sensor"]))
            if len(names) > 1:
                raise FormatError(f"{path}: mixes recordings of several sensors: {', '.join(sorted(names))}")
        if turn is None or turn == number:
            found.append(range_image(cloud, f"{Path(path).name} frame {number}"))
        if turn == number:
            break
    if not found:
        raise FormatError(
            f"{path}: has the frames 0 to {number}, not {turn}" if turn is not None else f"{path}: has no frames"
        )
    # The first and last frame of a capture may be partial; they are dropped if complete frames exist.
    widest = max(one.range.shape[1] for one in found)
    whole = [one for one in found if one.range.shape[1] > 0.9 * widest]
    chosen = np.unique(np.linspace(0, len(whole) - 1, min(len(whole), MOST_FRAMES)).astype(int))
    return [whole[k] for k in chosen]
