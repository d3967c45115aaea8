"""Strip of six pictures in the README, cut from pictures of the documentation: docs/images/readme-strip.jpg."""

from __future__ import annotations

from page import IMAGES
from PIL import Image, ImageDraw, ImageFont, ImageOps

CELL, GAP, CAPTION = (440, 280), 8, 26
PICTURES = {
    "Camera in rain": ("camera-rain.jpg", (0.0, 0.0, 1.0, 1.0)),
    "Pixel truth: labels": ("camera-truth.jpg", (0.013, 0.555, 0.335, 0.985)),
    "Radar: range over speed": ("radar.png", (0.36, 0.03, 0.66, 1.0)),
    "GNSS among buildings": ("gnss.png", (0.0, 0.0, 0.27, 1.0)),
    "Calibration to your unit": ("calibration-overlap.png", (0.0, 0.0, 0.5, 1.0)),
    "Browser viewer": ("viewer-weather.png", (0.0, 0.0, 1.0, 1.0)),
}
"""Caption, file, and the part shown as fractions of its width and height: left, top, right, bottom."""
CHARTS = ("gnss.png", "calibration-overlap.png")


def main() -> None:
    width, height = CELL
    sheet = Image.new("RGB", (3 * width + 2 * GAP, 2 * (height + CAPTION) + GAP), "white")
    draw, font = ImageDraw.Draw(sheet), ImageFont.load_default(17)
    for number, (caption, (name, box)) in enumerate(PICTURES.items()):
        picture = Image.open(IMAGES / name).convert("RGB")
        left, top, right, bottom = (round(part * side) for part, side in zip(box, picture.size * 2, strict=True))
        x, y = (number % 3) * (width + GAP), (number // 3) * (height + CAPTION + GAP)
        part = picture.crop((left, top, right, bottom))
        # Photographs fill the cell; charts keep their axes.
        fitted = ImageOps.pad(part, CELL, color="white") if name in CHARTS else ImageOps.fit(part, CELL)
        sheet.paste(fitted, (x, y + CAPTION))
        draw.text((x + 2, y + 3), caption, fill="#1c2430", font=font)
    file = IMAGES / "readme-strip.jpg"
    sheet.save(file, quality=86, optimize=True)
    print(f"{file}: {file.stat().st_size / 1e3:.0f} kB")


if __name__ == "__main__":
    main()
