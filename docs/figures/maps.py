"""Pictures of docs/maps.md: a map from above, streets of OpenDRIVE files, and the harbour of the tutorial."""

from __future__ import annotations

from pathlib import Path

import parhelion as ph

IMAGES = Path(__file__).resolve().parents[1] / "images"
EXAMPLES = Path(__file__).resolve().parents[2] / "examples"


def tiles(name: str, shots: list[tuple[ph.World, tuple[float, ...]]], size: tuple[int, int] = (600, 450)) -> None:
    """One picture of several shots side by side; a shot is a world, a position and angles."""
    from PIL import Image

    camera = ph.Camera("flir/blackfly-s-16s2c")
    whole = Image.new("RGB", (size[0] * len(shots), size[1]))
    for k, (world, place) in enumerate(shots):
        shot = camera.shoot(world, pose=ph.Pose(place[:3], rpy_deg=place[3:]), seed=1)
        file = IMAGES / f"{name}-{k}.png"
        shot.save(file)
        with Image.open(file) as picture:
            whole.paste(picture.convert("RGB").resize(size), (k * size[0], 0))
        file.unlink()
    whole.save(IMAGES / f"{name}.jpg", quality=82)


def main() -> None:
    """Draw all pictures."""
    harbour = ph.World.load(EXAMPLES / "westhafen.osm", origin=(52.5375, 13.34))
    tiles("westhafen", [(harbour, (-330, -110, 45, 0, 22, 45)), (harbour, (-225, 10, 1.0, 0, -3, 88))])
    roundabout, suburb = ph.World.load("roundabout"), ph.World.load("suburb")
    tiles("roads", [(roundabout, (-20, -50, 40, 0, 40, 70)), (suburb, (-20, -50, 40, 0, 40, 70))])


if __name__ == "__main__":
    main()
