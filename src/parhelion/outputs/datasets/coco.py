"""A run's pictures as COCO's panoptic segmentation."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from parhelion.core.clouds import Scan
from parhelion.core.errors import ConfigError, FormatError
from parhelion.core.image import Image
from parhelion.io.images import png
from parhelion.io.images.plain import shown_colours
from parhelion.outputs.datasets.base import DatasetSink
from parhelion.pictures.style import label_colours

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import FrameOnBoard

# ---- coco -----------------------------------------------------------------------------------------------------------
# COCO's panoptic segmentation: one PNG of segment numbers a picture, and one JSON file about all of them.
# Source: Kirillov et al., "Panoptic Segmentation", CVPR 2019, and the format at https://cocodataset.org/#format-data.
# A segment's number is red + 256 green + 65536 blue. Things have a segment for each instance, stuff one for each class.


FIRST_THING = 1 << 16
"""Segments of things are numbered from here on, by instance; below are those of classes."""
LARGEST = (1 << 24) - 1


def segments(
    label: NDArray[Any], instance: NDArray[Any], things: Collection[int]
) -> tuple[NDArray[np.uint8], list[dict[str, Any]]]:
    """The picture (h, w, 3) of segment numbers of masks (h, w), and a row about each segment.

    `things` are the labels whose instances count one by one. Pixels that show nothing are 0, COCO's void.
    """
    thing = np.isin(label, sorted(things)) & (instance > 0)
    numbers = np.where(thing, instance.astype(np.int64) + FIRST_THING, label.astype(np.int64))
    if int(numbers.max(initial=0)) > LARGEST:
        raise FormatError(f"COCO: instance numbers must be below {LARGEST - FIRST_THING}, got {int(instance.max())}")
    rows = []
    found, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    for number, at, area in zip(found.tolist(), first.tolist(), counts.tolist(), strict=True):
        if not number:
            continue
        where = numbers == number
        down, across = np.flatnonzero(where.any(axis=1)), np.flatnonzero(where.any(axis=0))
        box = [across[0], down[0], across[-1] + 1 - across[0], down[-1] + 1 - down[0]]
        kind = int(label.ravel()[at])
        # A thing without an instance is many that cannot be told apart.
        crowd = int(kind in things and number < FIRST_THING)
        rows.append(
            {"id": number, "category_id": kind, "area": area, "bbox": [int(side) for side in box], "iscrowd": crowd}
        )
    picture = np.stack([numbers & 255, numbers >> 8 & 255, numbers >> 16], axis=2)
    return picture.astype(np.uint8), rows


@dataclass
class PanopticTables:
    """The content of panoptic.json, built up picture by picture."""

    names: Mapping[int, str]
    """Words of the labels, by number."""
    things: Collection[int]
    """Labels whose instances count one by one."""
    colours: Mapping[int, tuple[int, int, int]]
    """Red, green, blue of each label."""
    images: list[dict[str, Any]] = field(default_factory=list)
    annotations: list[dict[str, Any]] = field(default_factory=list)

    def add(
        self, file_name: str, mask_name: str, size: tuple[int, int], rows: list[dict[str, Any]], **more: Any
    ) -> None:
        """A picture (width, height), the file of its segments, and what is said of them; `more` is our own."""
        number = len(self.images) + 1
        width, height = size
        self.images.append({"id": number, "file_name": file_name, "width": width, "height": height, **more})
        self.annotations.append({"image_id": number, "file_name": mask_name, "segments_info": rows})

    def file(self, description: str) -> bytes:
        """panoptic.json."""
        categories = [
            {
                "id": number,
                "name": word,
                "supercategory": word,
                "isthing": int(number in self.things),
                "color": list(self.colours.get(number, (128, 128, 128))),
            }
            for number, word in sorted(self.names.items())
            if number
        ]
        content = {
            "info": {"description": description, "version": "1.0"},
            "licenses": [],
            "images": self.images,
            "annotations": self.annotations,
            "categories": categories,
        }
        return (json.dumps(content, indent=1) + "\n").encode()


# ---- coco -----------------------------------------------------------------------------------------------------------


class CocoPanopticSink(DatasetSink):
    """images/, annotations/panoptic/ and annotations/panoptic.json; pictures of all cameras, as the lens saw them."""

    needs = (Image, "camera that takes a whole picture")

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        names = scenario.world.label_names
        movable = self.movable()
        words = {item.label for item in scenario.world.objects if item.instance in movable}
        colours = {n: tuple(np.round(255 * c).astype(int).tolist()) for n, c in label_colours(names).items()}
        self._tables = PanopticTables(names, {n for n, word in names.items() if word in words}, colours)

    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Scans have no place here."""

    def add_image(self, camera: FrameOnBoard, number: int, image: Image) -> None:
        """Write a picture and its segments."""
        if image.label is None or image.instance is None:
            raise ConfigError(
                f"outputs: coco-panoptic: the camera {camera.name!r} gives no masks of labels and instances; "
                "switch its truth on"
            )
        name = f"{camera.name}-{number:06d}.png"
        picture, rows = segments(image.label, image.instance, self._tables.things)
        self.folder.write(f"images/{name}", png.encode(shown_colours(image.colour, image.bands)))
        self.folder.write(f"annotations/panoptic/{name}", png.encode(picture))
        self._tables.add(
            name, name, (image.width, image.height), rows, camera=camera.name, time_s=float(image.start_time)
        )

    def finish(self) -> None:
        """Write the table of all pictures."""
        said = self.scenario.settings.name or "simulated"
        self.folder.write("annotations/panoptic.json", self._tables.file(said))
