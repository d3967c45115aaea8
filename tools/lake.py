"""Writes examples/lake.tif: heights of a shore and a lake with a shoal, own geometry, in UTM zone 32N.

python tools/lake.py
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image
from PIL.TiffImagePlugin import ImageFileDirectory_v2

FILE = Path(__file__).resolve().parents[1] / "examples" / "lake.tif"
STEP_M, LEVEL_M = 2.0, 400.0
CORNER = (686_000.0, 5_330_000.0)
"""Easting and northing of the upper left corner."""


def heights() -> np.ndarray:
    """Heights [m], first row in the north: a beach in the west that falls to 10 m below the level of the lake."""
    x, y = np.meshgrid(STEP_M * np.arange(120) - 120.0, 80.0 - STEP_M * np.arange(80))
    ground = LEVEL_M + 3.0 - 13.0 / (1.0 + np.exp(-(x + 60.0) / 22.0))
    shoal = 6.0 * np.exp(-((x - 40.0) ** 2 + (y - 15.0) ** 2) / 400.0)
    return (ground + shoal + 0.3 * np.sin(x / 7.0) * np.cos(y / 9.0)).astype(np.float32)


def main() -> None:
    """Write the file."""
    tags = ImageFileDirectory_v2()
    tags[33550] = (STEP_M, STEP_M, 0.0)
    tags[33922] = (0.0, 0.0, 0.0, *CORNER, 0.0)
    tags[34735] = (1, 1, 0, 2, 1024, 0, 1, 1, 3072, 0, 1, 32632)
    for tag, kind in ((33550, 12), (33922, 12), (34735, 3)):
        tags.tagtype[tag] = kind
    Image.fromarray(heights()).save(FILE, tiffinfo=tags, compression="tiff_deflate")


if __name__ == "__main__":
    main()
