"""Recordings as turns: captures of packets, bags, clouds and folders of them."""

from __future__ import annotations

from collections.abc import Iterator
from os import PathLike
from pathlib import Path

import numpy as np

from parhelion.calibrate.range_images import RangeImage, turn_of
from parhelion.core.clouds import PointCloud
from parhelion.core.errors import FormatError
from parhelion.io import FORMATS, format_of, read_cloud, read_turns
from parhelion.io.captures import named_models

MOST_TURNS = 40
"""Turns that are looked at; of longer recordings, as many evenly over their length."""


def clouds_of(
    path: str | PathLike[str], *, sensor: str | None = None, topic: str | None = None
) -> Iterator[PointCloud]:
    """Every cloud or scan of a recording, in order: a capture, a bag, a cloud file or a folder of such files."""
    from parhelion.io.ros import is_bag

    file = Path(path)
    if not file.exists():
        raise FormatError(f"{file}: no such file")
    if is_bag(file):
        yield from _of_bag(file, topic)
    elif file.is_dir():
        endings = tuple(ending for kind in FORMATS.values() for ending in kind.endings if kind.name != "semantickitti")
        found = sorted(one for one in file.iterdir() if one.name.lower().endswith(endings) and one.is_file())
        if not found:
            raise FormatError(f"{file}: no clouds in this folder ({', '.join(endings)})")
        for one in found:
            yield from clouds_of(one, sensor=sensor)
    elif format_of(file).name == "pcap":
        yield from read_turns(file, model=sensor if sensor in named_models() else None)
    else:
        yield read_cloud(file)


def _of_bag(file: Path, topic: str | None) -> Iterator[PointCloud]:
    from parhelion.io.ros import BagReader, cloud_of
    from parhelion.io.ros.messages import POINT_CLOUD

    bag = BagReader(file)
    topics = [one.name for one in bag.of_type(POINT_CLOUD)]
    if topic is not None:
        if topic not in topics:
            raise FormatError(
                f"{file}: {topic!r} is no topic of point clouds; there are: {', '.join(topics) or 'none'}"
            )
        topics = [topic]
    if not topics:
        raise FormatError(f"{file}: has no topic with point clouds")
    if len(topics) > 1:
        raise FormatError(f"{file}: has several topics of clouds, name one with --topic: {', '.join(topics)}")
    for message in bag.messages(topics):
        yield cloud_of(message)


def read_drive(
    path: str | PathLike[str], *, sensor: str | None = None, turn: int | None = None, topic: str | None = None
) -> list[RangeImage]:
    """The turns of a recording as images; `turn` chooses one. Refuses recordings of several sensors."""
    found: list[RangeImage] = []
    names: set[str] = set()
    number = -1
    for number, cloud in enumerate(clouds_of(path, sensor=sensor, topic=topic)):
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
