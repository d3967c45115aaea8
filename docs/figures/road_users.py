"""Writes docs/images/road-users.png: cyclist, motorcycle, bus, tram, truck with trailer and automated vehicle."""

from __future__ import annotations

from pathlib import Path

import numpy as np
from PIL import Image as Picture

import parhelion as ph
from parhelion import pictures
from parhelion.motion import MotionLimits, SplineMotion
from parhelion.motion.actors import add_agv, add_bus, add_cyclist, add_motorcycle, add_tram, add_truck

FILE = Path(__file__).resolve().parents[1] / "images" / "road-users.png"
GAP = 6


def main() -> None:
    """Shoot each vehicle from the side front, while it drives."""
    panels = []
    for add, distance, time in (
        (add_cyclist, 2.5, 4.30),
        (add_motorcycle, 2.7, 4.0),
        (add_agv, 2.5, 4.0),
        (add_bus, 11.0, 4.0),
        (add_tram, 18.0, 7.2),
        (add_truck, 12.5, 7.2),
    ):
        world = ph.World()
        world.add(ph.shapes.plane(300, 300), material="asphalt", label="road")
        turns = add in (add_tram, add_truck)
        points = [(-40, 0, 0), (0, 0, 0), (12, 3, 0), (24, 18, 0)] if turns else [(-20, 0, 0), (20, 0, 0)]
        motion = SplineMotion(points, limits=MotionLimits(8.0 if turns else 5.0, 3.0, 3.0))
        add(world, motion)
        at = motion.sample(np.array([time]))[0][0]
        middle = at + np.array([-4.0 if turns else 0.0, 0.0, 0.0])
        eye = middle + distance * np.array([0.62, -0.78, 0.22])
        look = middle + np.array([0.0, 0.0, 0.8 if distance < 5 else 1.4]) - eye
        yaw, pitch = np.degrees(np.arctan2(look[1], look[0])), -np.degrees(np.arctan2(look[2], np.hypot(*look[:2])))
        camera = ph.Camera("generic/vga", width=420, samples=64)
        pose = ph.Pose(tuple(eye), rpy_deg=(0.0, float(pitch), float(yaw)))
        panels.append(pictures.image_colours(camera.shoot(world, pose=pose, time=time, seed=3)))
    height, width = panels[0].shape[:2]
    sheet = np.full((2 * height + GAP, 3 * width + 2 * GAP, 3), 255, np.uint8)
    for number, panel in enumerate(panels):
        top, left = (number // 3) * (height + GAP), (number % 3) * (width + GAP)
        sheet[top : top + height, left : left + width] = panel
    small = Picture.fromarray(sheet).resize((960, round(960 * sheet.shape[0] / sheet.shape[1])), Picture.LANCZOS)
    small.quantize(128, method=Picture.Quantize.MEDIANCUT, dither=Picture.Dither.NONE).save(FILE, optimize=True)
    print(f"{FILE}: {FILE.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
