"""Pictures of a run as COCO panoptic segmentation.

One PNG of segment numbers per picture, and one JSON file for all of them. Source: Kirillov et al., "Panoptic
Segmentation", CVPR 2019, and the format at https://cocodataset.org/#format-data. A segment number is red + 256 green +
65536 blue. Labels of movable objects have one segment per instance (`isthing` in COCO), other labels one per class.
"""

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

FIRST_INSTANCE = 1 << 16
"""Segments of instances are numbered from here; below are those of classes."""
LARGEST = (1 << 24) - 1


def segments(
    label: NDArray[Any], instance: NDArray[Any], countable: Collection[int]
) -> tuple[NDArray[np.uint8], list[dict[str, Any]]]:
    """Picture (h, w, 3) of the segment numbers of masks (h, w), and one row per segment.

    `countable` are the labels with one segment per instance. Pixels without a surface are 0, COCO's void.
    """
    single = np.isin(label, sorted(countable)) & (instance > 0)
    numbers = np.where(single, instance.astype(np.int64) + FIRST_INSTANCE, label.astype(np.int64))
    if int(numbers.max(initial=0)) > LARGEST:
        raise FormatError(f"COCO: instance numbers must be below {LARGEST - FIRST_INSTANCE}, got {int(instance.max())}")
    rows = []
    found, first, counts = np.unique(numbers, return_index=True, return_counts=True)
    for number, at, area in zip(found.tolist(), first.tolist(), counts.tolist(), strict=True):
        if not number:
            continue
        where = numbers == number
        down, across = np.flatnonzero(where.any(axis=1)), np.flatnonzero(where.any(axis=0))
        box = [across[0], down[0], across[-1] + 1 - across[0], down[-1] + 1 - down[0]]
        kind = int(label.ravel()[at])
        # A countable label without instance number is a crowd: several objects that cannot be distinguished.
        crowd = int(kind in countable and number < FIRST_INSTANCE)
        rows.append(
            {"id": number, "category_id": kind, "area": area, "bbox": [int(side) for side in box], "iscrowd": crowd}
        )
    picture = np.stack([numbers & 255, numbers >> 8 & 255, numbers >> 16], axis=2)
    return picture.astype(np.uint8), rows


@dataclass
class PanopticTables:
    """Content of panoptic.json, built picture by picture."""

    names: Mapping[int, str]
    """Names of the labels, by number."""
    countable: Collection[int]
    """Labels with one segment per instance."""
    colours: Mapping[int, tuple[int, int, int]]
    """Red, green, blue of each label."""
    images: list[dict[str, Any]] = field(default_factory=list)
    """Rows of the table of pictures."""
    annotations: list[dict[str, Any]] = field(default_factory=list)
    """Rows of the table of annotations."""

    def add(
        self, file_name: str, mask_name: str, size: tuple[int, int], rows: list[dict[str, Any]], **more: Any
    ) -> None:
        """Add a picture of `size` (width, height), the file of its segments, and their rows; `more` are our fields."""
        number = len(self.images) + 1
        width, height = size
        self.images.append({"id": number, "file_name": file_name, "width": width, "height": height, **more})
        self.annotations.append({"image_id": number, "file_name": mask_name, "segments_info": rows})

    def file(self, description: str) -> bytes:
        """Content of panoptic.json."""
        categories = [
            {
                "id": number,
                "name": word,
                "supercategory": word,
                "isthing": int(number in self.countable),
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


class CocoPanopticSink(DatasetSink):
    """Writes images/, annotations/panoptic/ and annotations/panoptic.json; distorted pictures of all cameras."""

    needs = (Image, "camera that completes a picture")

    def __init__(self, kind: str, scenario: Scenario, folder: Path) -> None:
        super().__init__(kind, scenario, folder)
        names = scenario.world.label_names
        movable = self.movable()
        words = {item.label for item in scenario.world.objects if item.instance in movable}
        colours = {n: tuple(np.round(255 * c).astype(int).tolist()) for n, c in label_colours(names).items()}
        self._tables = PanopticTables(names, {n for n, word in names.items() if word in words}, colours)

    def add(self, scanner: FrameOnBoard, number: int, scan: Scan) -> None:
        """Skip scans."""

    def add_image(self, camera: FrameOnBoard, number: int, image: Image) -> None:
        """Write a picture and its segments."""
        if image.label is None or image.instance is None:
            raise ConfigError(
                f"outputs: coco-panoptic: the camera {camera.name!r} has no masks of labels and instances; "
                "enable its ground truth"
            )
        name = f"{camera.name}-{number:06d}.png"
        picture, rows = segments(image.label, image.instance, self._tables.countable)
        self.folder.write(f"images/{name}", png.encode(shown_colours(image.colour, image.bands)))
        self.folder.write(f"annotations/panoptic/{name}", png.encode(picture))
        self._tables.add(
            name, name, (image.width, image.height), rows, camera=camera.name, time_s=float(image.start_time)
        )

    def finish(self) -> None:
        """Write the table of all pictures."""
        self.folder.write("annotations/panoptic.json", self._tables.file(self.scenario.settings.name or "simulated"))
