"""The camera's light against Mitsuba's own path tracer, on scenes that both can describe."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.stats import t

import parhelion as ph
from parhelion.sensors.optics.camera import shot
from parhelion.sensors.optics.camera.device import CameraOnDevice
from parhelion.sensors.optics.sky import SkyLight, clear_sky
from parhelion.surfaces.bands import band_reflectance, named_band

SIZE = (64, 48)
BANDS = tuple(named_band(name) for name in ("red", "green", "blue"))
SUN = np.array([0.3, -0.5, 0.81]) / np.linalg.norm([0.3, -0.5, 0.81])
SKY = np.array([20.0, 30.0, 45.0])
BEAM = np.array([200.0, 180.0, 150.0])
BOUNCES = {"street": 3, "hills": 3, "room": 6}
"""Mitsuba counts panes and mirrors, we do not; walls of 0.3 leave below 0.1 % of the light after 6 bounces."""


def even_sky() -> SkyLight:
    """The same radiance from all around, and a sun so small that it is a direction."""
    plain = clear_sky(BANDS, SUN, shape=(8, 16))
    radiance = np.broadcast_to(SKY, plain.radiance.shape).astype(np.float32)
    return replace(plain, radiance=radiance, sun_irradiance=BEAM, sun_direction=SUN, sun_half_angle_rad=1e-5)


def street() -> tuple[ph.World, ph.Pose]:
    """Boxes on a plane: shadows, and light from wall to wall."""
    world = ph.World()
    world.add(ph.shapes.box(60, 60, 0.2), material="lambert-40", pose=ph.Pose((0, 0, -0.1)))
    boxes = [(8, 4, 5, "lambert-80"), (8, -4, 8, "lambert-20"), (14, 1, 3, "lambert-95"), (4, -2.5, 1, "lambert-50")]
    for row, (x, y, height, material) in enumerate(boxes):
        world.add(
            ph.shapes.box(2, 3, height), material=material, pose=ph.Pose((x, y, height / 2), rpy_deg=(0, 0, 20 * row))
        )
    return world, ph.Pose((-4, 0, 2.0), rpy_deg=(0, 5, 0))


def clear_glass() -> ph.Material:
    """Glass that mirrors and lets through, and neither absorbs nor scatters."""
    spectrum = {"wavelength_um": [0.3, 2.5], "reflectance": [0.0, 0.0]}
    pane = {"kind": "glass", "refractive_index": 1.5, "transmittance": 1.0}
    return ph.Material(name="clear-glass", sources=["a test"], spectrum=spectrum, specular=pane)


def room() -> tuple[ph.World, ph.Pose]:
    """A room with an open front, a mirror on one wall, and a pane of glass before a box."""
    world = ph.World()
    for size, place in (
        ((10, 10, 0.2), (0, 0, -0.1)), ((10, 10, 0.2), (0, 0, 5.1)), ((10, 0.2, 5), (0, 5.1, 2.5)),
        ((0.2, 10, 5), (5.1, 0, 2.5)), ((10, 0.2, 5), (0, -5.1, 2.5)),
    ):  # fmt: skip
        world.add(ph.shapes.box(*size), material="lambert-30", pose=ph.Pose(place))
    world.add(ph.shapes.box(0.02, 4, 3), material="mirror", pose=ph.Pose((4.9, 2, 2.5)))
    world.add(ph.shapes.box(1, 1, 1), material="lambert-30", pose=ph.Pose((3, -2, 0.5)))
    world.add(ph.shapes.plane(2, 2), material=clear_glass(), pose=ph.Pose((1.5, -2, 1.2), rpy_deg=(0, 90, 0)))
    return world, ph.Pose((-4.5, 0, 2.0))


def hills() -> tuple[ph.World, ph.Pose]:
    """A rough ground of triangles, seen from low down."""
    x, y = np.meshgrid(np.linspace(0, 40, 60), np.linspace(-20, 20, 60), indexing="ij")
    z = 1.5 * np.sin(0.5 * x) * np.cos(0.4 * y) + 0.05 * x
    vertices = np.stack([x, y, z], axis=-1).reshape(-1, 3)
    row, column = np.meshgrid(np.arange(59), np.arange(59), indexing="ij")
    a = (row * 60 + column).ravel()
    faces = np.concatenate([np.stack([a, a + 60, a + 61], 1), np.stack([a, a + 61, a + 1], 1)])
    world = ph.World()
    world.add((vertices, faces), material="lambert-60")
    return world, ph.Pose((-3, 0, 4.0), rpy_deg=(0, 8, 0))


ORACLE = """
import json, sys
import numpy as np
import mitsuba as mi

# Mitsuba's path tracer ends the process with some LLVMs; the scalar variant needs none.
mi.set_variant("scalar_rgb")
asked = json.load(open(sys.argv[1]))
arrays = np.load(sys.argv[2])
rgb = lambda value: {"type": "rgb", "value": value}
parts = {
    "type": "scene",
    "sensor": {
        "type": "perspective", "fov": asked["fov"],
        "to_world": mi.ScalarTransform4f().look_at(origin=asked["from"], target=asked["at"], up=asked["up"]),
        "film": {"type": "hdrfilm", "width": asked["size"][0], "height": asked["size"][1],
                 "rfilter": {"type": "box"}, "pixel_format": "rgb"},
    },
}
for number, surface in enumerate(asked["surfaces"]):
    if "mirror" in surface:
        bsdf = {"type": "conductor", "material": "none", "specular_reflectance": rgb(surface["mirror"])}
    elif "glass" in surface:
        bsdf = {"type": "thindielectric", "int_ior": surface["glass"], "ext_ior": 1.0}
    else:
        bsdf = {"type": "twosided", "inner": {"type": "diffuse", "reflectance": rgb(surface["colour"])}}
    props = mi.Properties()
    props["bsdf"] = mi.load_dict(bsdf)
    vertices, faces = arrays[f"v{number}"], arrays[f"f{number}"]
    mesh = mi.Mesh(f"m{number}", len(vertices), len(faces), props=props)
    values = mi.traverse(mesh)
    values["vertex_positions"], values["faces"] = vertices.ravel(), faces.ravel()
    values.update()
    parts[f"m{number}"] = mesh
# A camera of ours asks the sun once more than its paths go on; the sky it sees where they leave.
lights = {
    asked["bounces"] + 1: {"type": "constant", "radiance": rgb(asked["sky"])},
    asked["bounces"] + 2: {"type": "directional", "direction": asked["beam_along"], "irradiance": rgb(asked["beam"])},
}
total = 0.0
for depth, light in lights.items():
    scene = mi.load_dict({**parts, "light": light})
    by = mi.load_dict({"type": "path", "max_depth": depth, "rr_depth": 99})
    seeds = range(asked["rounds"])
    total = total + np.stack([np.array(mi.render(scene, integrator=by, spp=asked["samples"], seed=k)) for k in seeds])
np.save(sys.argv[3], total)
"""


def by_mitsuba(
    folder: Path, world: ph.World, camera: ph.Camera, pose: ph.Pose, samples: int, rounds: int
) -> NDArray[np.float64]:
    """Pictures of the same triangles, materials and light by Mitsuba's own plugins, shape (rounds, h, w, 3)."""
    lens = camera.intrinsics
    surfaces, arrays = [], {}
    for item in world.objects:
        for part in item.parts:
            number, material = len(surfaces), part.material
            arrays[f"v{number}"], arrays[f"f{number}"] = (
                part.placed.astype(np.float32),
                part.mesh.faces.astype(np.uint32),
            )
            if material.specular is None:
                surfaces.append({"colour": [band_reflectance(material, band) for band in BANDS]})
            elif material.specular.kind == "mirror":
                surfaces.append({"mirror": material.specular.reflectance})
            else:
                surfaces.append({"glass": material.specular.refractive_index})
    asked = {
        "bounces": camera.bounces, "fov": float(np.degrees(2 * np.arctan(lens.width / 2 / lens.fx))), "size": SIZE,
        "from": pose.xyz.tolist(), "at": (pose.xyz + pose.rotation @ [1, 0, 0]).tolist(),
        "up": (pose.rotation @ [0, 0, 1]).tolist(), "sky": SKY.tolist(), "beam": BEAM.tolist(),
        "beam_along": (-SUN).tolist(), "surfaces": surfaces, "samples": samples, "rounds": rounds,
    }  # fmt: skip
    (folder / "asked.json").write_text(json.dumps(asked))
    np.savez(folder / "arrays.npz", **arrays)
    files = [str(folder / name) for name in ("asked.json", "arrays.npz", "pictures.npy")]
    subprocess.run([sys.executable, "-c", ORACLE, *files], check=True, timeout=240)
    return np.load(files[2]).astype(np.float64)


def tiles(picture: NDArray[Any]) -> NDArray[np.float64]:
    """Means over 8 x 8 pixels, shape (tiles, bands)."""
    h, w, bands = picture.shape
    return picture.reshape(h // 8, 8, w // 8, 8, bands).mean(axis=(1, 3)).reshape(-1, bands)


@pytest.mark.parametrize("make", [street, room, hills])
def test_light_agrees_with_mitsuba(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    world, pose = make()
    monkeypatch.setattr(shot, "lighting", lambda *args, **kwargs: even_sky())
    monkeypatch.setattr(CameraOnDevice, "_air", lambda *args: None)
    camera = ph.Camera(
        "generic/vga",
        width=SIZE[0],
        height=SIZE[1],
        samples=96,
        bounces=BOUNCES[make.__name__],
        developed=False,
        truth=(),
    )
    rounds = 8
    ours = np.stack([tiles(camera.shoot(world, pose=pose, seed=seed).colour) for seed in range(rounds)])
    theirs = np.stack([tiles(one) for one in by_mitsuba(tmp_path, world, camera, pose, 96, rounds)])
    assert ours.mean(axis=(0, 1)) == pytest.approx(theirs.mean(axis=(0, 1)), rel=0.01)
    # Student's test of each tile and band, corrected for their number; tiles of sky have no spread at all.
    spread = np.sqrt((ours.var(axis=0, ddof=1) + theirs.var(axis=0, ddof=1)) / rounds)
    difference = np.abs(ours.mean(axis=0) - theirs.mean(axis=0))
    limit = t.ppf(1 - 1e-3 / 2 / difference.size, df=2 * rounds - 2)
    assert np.all(difference <= limit * spread + 1e-4 * theirs.mean()), (difference / spread).max()
