"""Contact sheet of the built-in worlds as a camera sees them: docs/images/worlds-contact-sheet.webp.

python docs/figures/contact_sheet.py --save FOLDER            # one picture per scene
python docs/figures/contact_sheet.py --earlier FOLDER         # pairs: earlier pictures from FOLDER, and those of now
python docs/figures/contact_sheet.py --night                  # docs/images/camera-night.webp: without and with glare
"""

from __future__ import annotations

import argparse
from pathlib import Path

from PIL import Image, ImageDraw

import parhelion as ph
from parhelion.motion.actors import add_car

OUT = Path(__file__).parents[1] / "images" / "worlds-contact-sheet.webp"
WIDTH, HEIGHT = 350, 234
SCENES = (
    ("city, street", "city", ph.Pose((-20.0, -1.75, 1.6)), "day"),
    ("city, parked car", "city", ph.Pose((27.0, 0.0, 1.5), rpy_deg=(0.0, 2.0, 20.0)), "day"),
    ("city, sidewalk", "city", ph.Pose((-26.0, -6.6, 1.65)), "day"),
    ("city, night", "city", ph.Pose((-20.0, -1.75, 1.6)), "night"),
    ("harbour", "harbour", None, "day"),
    ("warehouse", "warehouse", None, "day"),
    ("suburb", "suburb", None, "day"),
    ("park", "park", None, "day"),
    ("forest", "forest", None, "day"),
    ("mixed-objects", "mixed-objects", ph.Pose((-9.0, 6.5, 1.7), rpy_deg=(0.0, 0.0, 183.0)), "day"),
)


def pictures() -> list[Image.Image]:
    """Picture of each scene."""
    found, name, world = [], "", ph.World()
    for _, wanted, pose, mode in SCENES:
        if wanted != name:
            name, world = wanted, ph.World.load(wanted)
        world.daylight = ph.Daylight(sun_elevation_deg=-20.0) if mode == "night" else None
        colour = ph.Camera("generic/vga", truth=()).shoot(world, pose=pose or world.viewpoint, seed=7).colour
        scaled = Image.fromarray(colour).resize((WIDTH, WIDTH * colour.shape[0] // colour.shape[1]), Image.LANCZOS)
        top = (scaled.height - HEIGHT) // 2
        found.append(scaled.crop((0, top, WIDTH, top + HEIGHT)))
    return found


def night() -> None:
    """Two cars in the city at night, without and with glare of the lens."""
    world = ph.World.load("city")
    world.daylight = ph.Daylight(sun_elevation_deg=-20.0)
    coming = ph.ConstantTwist(ph.Pose((18.0, 1.75, 0.0), rpy_deg=(0.0, 0.0, 180.0)), velocity=(-5.0, 0.0, 0.0))
    add_car(world, coming, paint="car-paint-blue")
    going = ph.ConstantTwist(ph.Pose((6.0, -1.75, 0.0)), velocity=(5.0, 0.0, 0.0))
    add_car(world, going, "hatchback", name="car2", paint="car-paint-red")
    sheet, strip = ph.Camera("generic/vga").config, Image.new("RGB", (1280, 400))
    for number, glare in enumerate((0.0, 0.03)):
        lens = sheet.lens.model_copy(update={"glare": glare})
        camera = ph.Camera(sheet.model_copy(update={"lens": lens}), exposure_s=0.03, gain_db=12.0, truth=())
        colour = camera.shoot(world, pose=ph.Pose((-6.0, -1.0, 1.6)), seed=3).colour
        strip.paste(Image.fromarray(colour[40:440]), (640 * number, 0))
    strip.save(OUT.with_name("camera-night.webp"), quality=72, method=6)


def main() -> None:
    """Make the pictures, and the sheet."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--save", type=Path)
    parser.add_argument("--earlier", type=Path)
    parser.add_argument("--night", action="store_true")
    chosen = parser.parse_args()
    if chosen.night:
        night()
        return
    now = pictures()
    if chosen.save is not None:
        chosen.save.mkdir(parents=True, exist_ok=True)
        for number, one in enumerate(now):
            one.save(chosen.save / f"{number}.png")
    if chosen.earlier is None:
        return
    sheet = Image.new("RGB", (4 * WIDTH, 5 * HEIGHT))
    for number, (one, (title, *_)) in enumerate(zip(now, SCENES, strict=True)):
        left, top = number % 2 * 2 * WIDTH, number // 2 * HEIGHT
        with Image.open(chosen.earlier / f"{number}.png") as earlier:
            sheet.paste(earlier, (left, top))
        sheet.paste(one, (left + WIDTH, top))
        ImageDraw.Draw(sheet).text((left + 6, top + 4), title, fill="white")
    sheet.save(OUT, quality=72, method=6)


if __name__ == "__main__":
    main()
