"""Writes docs/images/camera-outputs.png: a picture of the city, a lidar's points over it, its depth and its labels."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image as Picture

import parhelion as ph
from parhelion import pictures

FILE = Path(__file__).resolve().parents[1] / "images" / "camera-outputs.png"
GAP = 8


def main() -> None:
    """Shoot, scan and draw."""
    world = ph.World.load("city")
    place = ph.Pose((-40.0, -1.75, 1.7))
    camera = ph.Camera("generic/vga", samples=32)
    image = camera.shoot(world, pose=place, seed=7)
    scan = ph.Lidar("ouster/os1-64").scan(world, pose=ph.Pose((-40.3, -1.75, 2.0)), seed=7)
    uv, inside = camera.project(image.pose.inverse().apply(scan.in_world().xyz))
    over = pictures.points_over(image, uv[inside], scan.range[inside], size=2)
    assert image.depth is not None
    assert image.label is not None
    labels = pictures.label_colours_of(image.label, image.names["label"])
    panels = [pictures.image_colours(image), over, pictures.depth_colours(image.depth), labels]
    height, width = panels[0].shape[:2]
    sheet = np.full((2 * height + GAP, 2 * width + GAP, 3), (14, 17, 22), np.uint8)
    for number, panel in enumerate(panels):
        top, left = (number // 2) * (height + GAP), (number % 2) * (width + GAP)
        sheet[top : top + height, left : left + width] = panel
    small = Picture.fromarray(sheet).resize((1100, round(1100 * sheet.shape[0] / sheet.shape[1])), Picture.LANCZOS)
    small.quantize(200, method=Picture.Quantize.MEDIANCUT).save(FILE, optimize=True)


if __name__ == "__main__":
    main()
