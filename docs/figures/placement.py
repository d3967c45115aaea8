"""The answers of the two examples of placement: docs/images/placement-city.png and placement-warehouse.png."""

from __future__ import annotations

import io

from page import IMAGES, MOST_BYTES
from PIL import Image

from parhelion.evaluate.placement import Placement
from parhelion.evaluate.placement.picture import answer_picture

EXAMPLES = IMAGES.parents[1] / "examples" / "placement"
WIDTH = 1400


def draw(example: str, name: str) -> None:
    """The picture of one example, as wide as a page shows it."""
    figure = answer_picture(Placement.load(EXAMPLES / f"{example}.yaml").solve())
    stream = io.BytesIO()
    figure.savefig(stream, format="png", facecolor=figure.get_facecolor())
    picture = Image.open(stream).convert("RGB")
    size = WIDTH, round(WIDTH * picture.height / picture.width)
    file = IMAGES / f"{name}.png"
    picture.resize(size, Image.Resampling.LANCZOS).save(file, optimize=True)
    print(f"{file}: {file.stat().st_size / 1e3:.0f} kB")
    if file.stat().st_size > MOST_BYTES:
        raise SystemExit(f"{file}: larger than {MOST_BYTES / 1e3:.0f} kB")


if __name__ == "__main__":
    draw("city-lidars", "placement-city")
    draw("warehouse-anchors", "placement-warehouse")
