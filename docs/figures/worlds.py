"""Pictures of the built-in worlds, as a camera would see them: docs/images/world-<name>.png.

    python docs/figures/worlds.py            all of them
    python docs/figures/worlds.py city       one

Colours are for looking at; they are not the reflectances that a lidar sees.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import numpy as np

from parhelion.world import builtin
from parhelion.world.world import World

IMAGES = Path(__file__).resolve().parents[1] / "images"
SIZE = (800, 500)
LARGEST_FILE = 200_000

COLOURS = {
    "aluminium": (0.75, 0.76, 0.78),
    "asphalt": (0.13, 0.13, 0.14),
    "bark": (0.22, 0.15, 0.10),
    "brick": (0.48, 0.20, 0.14),
    "car-paint-black": (0.03, 0.03, 0.035),
    "car-paint-blue": (0.06, 0.15, 0.45),
    "car-paint-green": (0.07, 0.26, 0.14),
    "car-paint-grey": (0.28, 0.29, 0.30),
    "car-paint-red": (0.55, 0.05, 0.05),
    "car-paint-silver": (0.55, 0.56, 0.58),
    "car-paint-white": (0.85, 0.85, 0.85),
    "car-paint-yellow": (0.85, 0.62, 0.06),
    "cardboard": (0.55, 0.40, 0.24),
    "concrete": (0.50, 0.49, 0.47),
    "cotton": (0.25, 0.30, 0.50),
    "fabric": (0.62, 0.55, 0.46),
    "foam": (0.65, 0.80, 0.90),
    "galvanised-steel": (0.55, 0.57, 0.59),
    "glass": (0.12, 0.20, 0.27),
    "granite": (0.42, 0.40, 0.39),
    "grass": (0.16, 0.32, 0.08),
    "gravel": (0.45, 0.42, 0.38),
    "leaf": (0.12, 0.30, 0.07),
    "limestone": (0.72, 0.66, 0.52),
    "mirror": (0.85, 0.88, 0.92),
    "plaster": (0.80, 0.75, 0.62),
    "plastic": (0.09, 0.09, 0.10),
    "retro-sheeting": (0.90, 0.80, 0.25),
    "road-paint": (0.85, 0.85, 0.83),
    "roof-tile": (0.40, 0.15, 0.10),
    "roofing-felt": (0.20, 0.20, 0.21),
    "rubber": (0.04, 0.04, 0.04),
    "sand": (0.60, 0.52, 0.36),
    "skin": (0.72, 0.50, 0.38),
    "soil": (0.27, 0.19, 0.12),
    "steel": (0.35, 0.36, 0.38),
    "water": (0.07, 0.16, 0.20),
    "wood": (0.45, 0.29, 0.15),
}

VIEWS: dict[str, tuple[tuple[float, float, float], tuple[float, float, float], float]] = {
    "city": ((-30.0, -3.0, 4.5), (20.0, 3.0, 3.5), 65.0),
    "harbour": ((-32.0, -8.0, 7.0), (60.0, 4.0, 3.0), 60.0),
    "test-range": ((-30.0, -2.0, 16.0), (30.0, 12.0, 0.0), 85.0),
    "boards-zigzag": ((-2.6, -1.6, 3.2), (1.6, 0.1, 1.1), 60.0),
    "boards-u": ((-2.6, -1.6, 3.2), (1.6, 0.1, 1.1), 60.0),
    "cylinders": ((-24.0, -24.0, 20.0), (0.0, 0.0, 1.5), 50.0),
    "mixed-objects": ((27.0, -17.0, 14.0), (-1.0, 3.0, 0.0), 60.0),
    "cuboids": ((-14.0, -8.0, 8.0), (24.0, 0.0, 0.0), 60.0),
}
"""Camera position, point looked at [m], and horizontal field of view [deg]."""


def colour(material: str) -> tuple[float, float, float]:
    """Display colour of a material; grey targets as grey as they are."""
    if material.startswith("lambert-"):
        grey = int(material.removeprefix("lambert-")) / 100.0
        return (grey, grey, grey)
    return COLOURS[material]


def shapes_of(world: World, mi: Any) -> dict[str, Any]:
    """One Mitsuba mesh per material, with a matt or a glossy surface."""
    corners: dict[str, list[np.ndarray[Any, Any]]] = {}
    for item in world.objects:
        for part in item.parts:
            corners.setdefault(part.material.name, []).append(part.placed[part.mesh.faces].reshape(-1, 3))
    shapes = {}
    for material, pieces in corners.items():
        points = np.concatenate(pieces).astype(np.float32)
        mesh = mi.Mesh(material, len(points), len(points) // 3, props=_surface(material, mi))
        parameters = mi.traverse(mesh)
        parameters["vertex_positions"] = points.ravel()
        parameters["faces"] = np.arange(len(points), dtype=np.uint32)
        parameters.update()
        shapes[f"mesh-{material}"] = mesh
    return shapes


def _surface(material: str, mi: Any) -> Any:
    reflectance = {"type": "rgb", "value": list(colour(material))}
    if material in ("glass", "water", "mirror") or material.startswith("car-paint"):
        base = {"type": "plastic", "diffuse_reflectance": reflectance}
    else:
        base = {"type": "diffuse", "reflectance": reflectance}
    props = mi.Properties()
    props["mesh_bsdf"] = mi.load_dict({"type": "twosided", "bsdf": base})
    return props


def render(world: World, view: tuple[Any, Any, float], samples: int = 40) -> np.ndarray[Any, Any]:
    """The picture (height, width, 3) uint8 under a clear sky with a low sun."""
    import mitsuba as mi

    mi.set_variant("scalar_rgb")
    origin, target, field_of_view = view
    scene = {
        "type": "scene",
        "integrator": {"type": "path", "max_depth": 3},
        "sky": {"type": "constant", "radiance": {"type": "rgb", "value": [0.55, 0.68, 0.90]}},
        "sun": {
            "type": "directional",
            "direction": [0.45, 0.62, -0.65],
            "irradiance": {"type": "rgb", "value": [3.2, 3.0, 2.6]},
        },
        "sensor": {
            "type": "perspective",
            "fov": field_of_view,
            "to_world": mi.ScalarTransform4f().look_at(list(origin), list(target), [0, 0, 1]),
            "film": {"type": "hdrfilm", "width": SIZE[0], "height": SIZE[1]},
        },
        **shapes_of(world, mi),
    }
    image = np.array(mi.render(mi.load_dict(scene), spp=samples))[..., :3]
    return (np.clip(0.9 * image, 0.0, 1.0) ** (1 / 2.2) * 255.0 + 0.5).astype(np.uint8)


def save(image: np.ndarray[Any, Any], path: Path) -> None:
    """As PNG of a reduced palette, so that the file stays small."""
    from PIL import Image

    full = Image.fromarray(image)
    for colours in (128, 64, 32, 16):
        full.quantize(colours, dither=Image.Dither.NONE).save(path, optimize=True)
        if path.stat().st_size <= LARGEST_FILE:
            return


def main(names: list[str]) -> None:
    IMAGES.mkdir(parents=True, exist_ok=True)
    for name in names or list(VIEWS):
        params = {"room": False} if name.startswith("boards-") else {}
        path = IMAGES / f"world-{name}.png"
        save(render(builtin.build(name, **params), VIEWS[name]), path)
        print(f"{path}  {path.stat().st_size / 1000:.0f} kB")


if __name__ == "__main__":
    main(sys.argv[1:])
