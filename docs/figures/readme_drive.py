"""Animation of the README: a drive through the built-in city while the weather changes, docs/images/readme-drive.webp.

Each frame shows one revolution of a lidar from behind and above the car, the picture of a camera on its roof, and the
lidar's intensity around the car. Points of rain, fog and snow have the colour of their medium.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import numpy as np
from matplotlib.colors import LogNorm, to_rgb
from numpy.typing import NDArray
from page import IMAGES
from PIL import Image, ImageDraw, ImageFont
from PIL.Image import Resampling

import parhelion as ph
from parhelion.core.clouds import ORIGINS
from parhelion.pictures.grids import field_image, panorama
from parhelion.pictures.scan import PinholeView, render
from parhelion.pictures.style import colour_labels
from parhelion.weather.media import colours

SENSOR, SEED = "ouster/os1-128", 7
START_S, STEP_S, FRAMES = 2.0, 0.25, 40
WIDTH, VIEW_HEIGHT, STRIP_HEIGHT, GAP, TITLE = 900, 380, 84, 6, 34
PICTURE_WIDTH = 300
EYE, AIM = (-24.0, -2.0, 19.0), (6.0, 0.5, 0.0)
"""Viewpoint and target of the point cloud in the sensor frame [m]."""
BACKGROUND = "#0a0c10"
LIMIT_BYTES = 3_000_000


def weather_at(phase: float) -> tuple[str, ph.Weather]:
    """Caption and weather at a phase from 0 to 1: clear, rain, fog, snow, clear; each grows and fades."""
    if phase < 0.12 or phase >= 0.97:
        return "clear air", ph.Weather()
    part, within = divmod((phase - 0.12) / 0.85 * 3.0, 1.0)
    strength = float(np.sin(np.pi * (0.08 + 0.84 * within)))
    if part == 0:
        rate = round(60 * strength)
        return f"rain {rate} mm/h", ph.Weather(rain_rate_mm_h=rate)
    if part == 1:
        visibility = round(25 / strength**2)
        return f"fog, visibility {visibility} m", ph.Weather(visibility_m=visibility)
    rate = round(3 * strength, 1)
    return f"snow {rate} mm/h as water", ph.Weather(snow_rate_mm_h=rate)


def cloud_view(scan: ph.Scan) -> NDArray[np.uint8]:
    """Points obliquely from above: colour by label or medium, brightness by reflectance."""
    points = scan.deskewed()
    light = 0.45 + 0.6 * np.sqrt(np.clip(points.reflectivity, 0.0, 1.0))
    colour = np.clip(colour_labels(points.label, scan.names["label"]) * light[:, None], 0.0, 1.0)
    for name, shade in colours().items():
        if name in ORIGINS:
            colour[points.origin == ORIGINS.index(name)] = to_rgb(shade)
    camera = PinholeView(ph.Pose.look_at(EYE, AIM), WIDTH, VIEW_HEIGHT, 66.0)
    image = render(
        np.asarray(points.xyz, np.float64),
        colour,
        camera,
        background=to_rgb(BACKGROUND),
        point_size_m=0.15,
        fade_m=260.0,
    )
    return np.asarray(np.clip(image, 0, 1) * 255, np.uint8)


def strip(scan: ph.Scan, size: tuple[int, int]) -> Image.Image:
    """Intensity around the sensor, logarithmic."""
    from matplotlib import colormaps

    image = field_image(scan, "intensity", panorama(scan))
    pixels = colormaps["inferno"](LogNorm(2.0, 2000.0, clip=True)(np.nan_to_num(image, nan=2.0)))[..., :3]
    return Image.fromarray(np.asarray(pixels * 255, np.uint8)).resize(size, Resampling.BILINEAR)


def frames() -> Iterator[Image.Image]:
    """Frames of the animation."""
    world = ph.World.load("city")
    lidar = ph.Lidar(SENSOR)
    camera = ph.Camera("generic/vga", width=PICTURE_WIDTH, samples=96)
    large, small = (ImageFont.load_default(size) for size in (20, 14))
    for number in range(FRAMES):
        time = START_S + number * STEP_S
        caption, world.weather = weather_at(number / FRAMES)
        scan = lidar.scan(world, trajectory=world.path, time=time, seed=SEED)
        picture = camera.shoot(world, trajectory=world.path, time=time, seed=SEED)
        shot = Image.fromarray(picture.colour)
        sheet = Image.new("RGB", (WIDTH, TITLE + VIEW_HEIGHT + GAP + STRIP_HEIGHT), BACKGROUND)
        sheet.paste(Image.fromarray(cloud_view(scan)), (0, TITLE))
        sheet.paste(strip(scan, (WIDTH, STRIP_HEIGHT)), (0, TITLE + VIEW_HEIGHT + GAP))
        sheet.paste(shot, (WIDTH - shot.width - GAP, TITLE + GAP))
        draw = ImageDraw.Draw(sheet)
        draw.text((8, 5), caption, fill="#e8ecf2", font=large)
        air = int(np.isin(scan.origin, [ORIGINS.index(name) for name in colours() if name in ORIGINS]).sum())
        words = f"OS1-128: {len(scan):_} points, {air:_} of them from the air".replace("_", " ")
        draw.text((WIDTH - 8, 9), words, fill="#9aa4b2", font=small, anchor="ra")
        draw.text((8, TITLE + VIEW_HEIGHT + GAP + 4), "intensity around the car", fill="#e8ecf2", font=small)
        print(f"\r{number + 1}/{FRAMES} {caption:<32}", end="", file=sys.stderr)
        yield sheet


def main() -> None:
    first, *others = frames()
    file = IMAGES / "readme-drive.webp"
    for quality in (72, 60, 50, 40):
        first.save(file, save_all=True, append_images=others, duration=180, loop=0, quality=quality, method=6)
        if file.stat().st_size < LIMIT_BYTES:
            break
    print(f"\n{file}: {file.stat().st_size / 1e6:.2f} MB at quality {quality}")


if __name__ == "__main__":
    main()
