"""A run's pictures as COCO's panoptic segmentation."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from parhelion.core.errors import ConfigError
from parhelion.core.image import Image
from parhelion.core.records import Scan
from parhelion.io.datasets.coco import PanopticTables, segments
from parhelion.io.images import png
from parhelion.io.images.eight_bit import shown_colours
from parhelion.outputs.dataset_base import DatasetSink
from parhelion.pictures.style import label_colours

if TYPE_CHECKING:
    from parhelion.scenario.scenario import Scenario
    from parhelion.scenario.sensors import FrameOnBoard


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
