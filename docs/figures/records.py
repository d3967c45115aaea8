"""Records that draw themselves: docs/images/records.png."""

from __future__ import annotations

from typing import Any

import numpy as np
from page import IMAGES
from PIL import Image

import parhelion as ph

HEIGHT = 700
GAP = 10


def picture(record: Any) -> Image.Image:
    """Output of `record.plot()`, at the common height."""
    figure = record.plot()
    figure.set_dpi(110)
    figure.canvas.draw()
    drawn = Image.fromarray(np.asarray(figure.canvas.buffer_rgba())[:, :, :3])
    return drawn.resize((round(drawn.width * HEIGHT / drawn.height), HEIGHT), Image.Resampling.LANCZOS)


def main() -> None:
    """Draw all records, side by side."""
    warehouse, city = ph.World.load("warehouse"), ph.World.load("city")
    tag = ph.Uwb("qorvo/dw1000", cir=True)
    radar = ph.Radar("ti/iwr6843", cube=True)
    records = (
        tag.run(warehouse, warehouse.path, start=0.0, duration=4.0, seed=7, mount=ph.Pose((0, 0, 1.2))),
        radar.scan(city, trajectory=city.path, time=1.0, seed=7),
        ph.Gnss("u-blox/m8").run(city, city.path, start=0.0, duration=20.0, seed=7),
    )
    parts = [picture(record) for record in records]
    page = Image.new("RGB", (sum(part.width + GAP for part in parts) - GAP, HEIGHT), "white")
    left = 0
    for part in parts:
        page.paste(part, (left, 0))
        left += part.width + GAP
    few = page.quantize(256, Image.Quantize.MAXCOVERAGE, kmeans=3, dither=Image.Dither.NONE)
    few.save(IMAGES / "records.png", optimize=True)


if __name__ == "__main__":
    main()
