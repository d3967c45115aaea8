"""Picture of model files: a chequered board, spheres of several roughnesses, and a fence with holes."""

from __future__ import annotations

import sys
import warnings
from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np

import parhelion as ph

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests"))

from model_rigs import Glb, chequer, one, quad, sphere  # noqa: E402


def balls(path: Path) -> Path:
    """Two rows of spheres: dielectric in front, metallic behind."""
    glb = Glb()
    ball = sphere(0.42, rows=64)
    for metallic in (0.0, 1.0):
        for column, roughness in enumerate((0.15, 0.35, 0.6, 1.0)):
            colour = [0.75, 0.15, 0.1, 1] if metallic == 0.0 else [0.9, 0.7, 0.3, 1]
            material = glb.material(
                f"ball {metallic:.0f} {column}",
                baseColorFactor=colour,
                metallicFactor=metallic,
                roughnessFactor=roughness,
            )
            glb.node(mesh=glb.mesh(ball, material), translation=[metallic * 1.2, 0.42, column - 1.5])
    return glb.write(path)


def fence(path: Path) -> Path:
    """A board with round holes."""
    row, column = np.indices((256, 256)) % 64 - 31.5
    image = np.full((256, 256, 4), (120, 90, 60, 255), np.uint8)
    image[np.hypot(row, column) < 24, 3] = 0
    return one(path, quad(3.0), "wood", baseColorTexture=image, alphaMode="MASK", metallicFactor=0.0)


def scene(folder: Path) -> ph.World:
    """All of them on concrete."""
    world = ph.World("models")
    world.add(ph.shapes.plane(60, 60), material="concrete", label="ground")
    board = one(folder / "board.glb", quad(2.4), "board", baseColorTexture=chequer((215, 20, 15), (235, 235, 235)),
                metallicFactor=0.0, roughnessFactor=0.5)  # fmt: skip
    world.add(board, pose=ph.Pose((2.5, 2.6, 1.21), rpy_deg=(0, -80, 0)))
    world.add(balls(folder / "balls.glb"), pose=ph.Pose((0.5, 0, 0)))
    world.add(fence(folder / "fence.glb"), pose=ph.Pose((2.5, -2.9, 1.51), rpy_deg=(0, -90, 0)))
    return world


def main() -> None:
    """Write the picture."""
    warnings.simplefilter("ignore")
    with TemporaryDirectory() as name:
        world = scene(Path(name))
        world.daylight = ph.Daylight(sun_elevation_deg=40.0, sun_azimuth_deg=230.0)
        camera = ph.Camera("generic/vga", samples=128, truth=())
        image = camera.shoot(world, pose=ph.Pose((-4.5, 0, 1.9), rpy_deg=(0, 9, 0)), seed=1)
        image.save(ROOT / "docs" / "images" / "model-appearance.png")


if __name__ == "__main__":
    main()
