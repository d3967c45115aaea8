"""Recordings as turns: captures of packets, bags, clouds and folders of them."""

from __future__ import annotations

from os import PathLike
from pathlib import Path

import numpy as np

from parhelion.calibrate.range_images import RangeImage, turn_of
from parhelion.core.errors import FormatError
from parhelion.io.recordings import clouds_of

MOST_TURNS = 40
"""Turns that are looked at; of longer recordings, as many evenly over their length."""


def read_drive(
    path: str | PathLike[str], *, sensor: str | None = None, turn: int | None = None, topic: str | None = None
) -> list[RangeImage]:
    """The turns of a recording as images; `turn` chooses one. Refuses recordings of several sensors."""
    found: list[RangeImage] = []
    names: set[str] = set()
    number = -1
    for number, (_, cloud) in enumerate(clouds_of(path, sensor=sensor, topic=topic)):
        if "sensor" in cloud.metadata:
            names.add(str(cloud.metadata["sensor"]))
            if len(names) > 1:
                raise FormatError(f"{path}: mixes recordings of several sensors: {', '.join(sorted(names))}")
        if turn is None or turn == number:
            found.append(turn_of(cloud, f"{Path(path).name} turn {number}"))
        if turn == number:
            break
    if not found:
        raise FormatError(
            f"{path}: has the turns 0 to {number}, not {turn}" if turn is not None else f"{path}: is empty"
        )
    # A turn that the capture begins or ends within has few columns; where whole ones are there, it is left out.
    widest = max(one.range.shape[1] for one in found)
    whole = [one for one in found if one.range.shape[1] > 0.9 * widest]
    chosen = np.unique(np.linspace(0, len(whole) - 1, min(len(whole), MOST_TURNS)).astype(int))
    return [whole[k] for k in chosen]
