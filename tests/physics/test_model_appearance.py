"""Appearance of model files in cameras: the BRDF, flat light, Mitsuba's `principled`, holes, emission and classes."""

from __future__ import annotations

import json
import subprocess
import sys
from dataclasses import replace
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import parhelion as ph
from camera_rigs import above, camera_sheet
from model_rigs import Glb, chequer, one, quad, sphere
from parhelion.sensors.optics.camera import shot
from parhelion.sensors.optics.camera.device import CameraOnDevice
from parhelion.sensors.optics.sky import SkyLight, clear_sky
from parhelion.surfaces.appearance import SRGB_TO_LINEAR, metallic_roughness
from parhelion.surfaces.bands import named_band, radiant_per_lumen

Array = NDArray[Any]
BANDS = tuple(named_band(name) for name in ("red", "green", "blue"))
SUN = np.array([0.3, -0.5, 0.81]) / np.linalg.norm([0.3, -0.5, 0.81])
SKY, BEAM = np.array([20.0, 30.0, 45.0]), np.array([200.0, 180.0, 150.0])
RED, WHITE = (220, 20, 15), (235, 235, 235)


@lru_cache
def albedo(cos_o: float, n: int = 150, **surface: float) -> float:
    """Hemispherical albedo by quadrature."""
    nodes, weights = np.polynomial.legendre.leggauss(n)
    cos_i, turn = np.meshgrid((nodes + 1) / 2, (np.arange(n) + 0.5) / n * np.pi, indexing="ij")
    cos_io = cos_i * cos_o + np.sqrt((1 - cos_o**2) * (1 - cos_i**2)) * np.cos(turn)
    values = metallic_roughness(cos_i, np.full_like(cos_i, cos_o), cos_io, **surface)
    return float((values * cos_i * (weights / 2)[:, None]).sum() * 2 * np.pi / n)


# ---- BRDF -----------------------------------------------------------------------------------------------------------


def directions(count: int) -> tuple[Array, Array]:
    draw = np.random.default_rng(1)
    pair = draw.normal(size=(2, count, 3))
    pair /= np.linalg.norm(pair, axis=2, keepdims=True)
    pair[..., 2] = np.maximum(np.abs(pair[..., 2]), 0.02)
    pair /= np.linalg.norm(pair, axis=2, keepdims=True)
    return pair[0], pair[1]


@pytest.mark.slow
def test_the_brdf_is_reciprocal_and_is_that_of_mitsubas_principled() -> None:
    mi = pytest.importorskip("mitsuba")
    wi, wo = directions(300)
    io = (wi * wo).sum(axis=1)
    before = mi.variant()
    mi.set_variant("scalar_rgb")
    try:
        context, place = mi.BSDFContext(), mi.SurfaceInteraction3f()
        for base, metallic, roughness in ((0.5, 0.0, 0.4), (0.2, 0.0, 0.9), (0.6, 1.0, 0.3), (0.3, 0.5, 0.6)):
            values: dict[str, Any] = {"base": base, "metallic": metallic, "roughness": roughness}
            ours = metallic_roughness(wi[:, 2], wo[:, 2], io, **values)
            assert ours == pytest.approx(metallic_roughness(wo[:, 2], wi[:, 2], io, **values), rel=1e-9)
            bsdf = mi.load_dict(
                {"type": "principled", "base_color": {"type": "rgb", "value": base}, "metallic": metallic,
                 "roughness": roughness, "specular": 0.5}
            )  # fmt: skip
            theirs = []
            for a, b in zip(wi.tolist(), wo.tolist(), strict=True):
                place.wi = mi.Vector3f(*a)
                theirs.append(float(bsdf.eval(context, place, mi.Vector3f(*b))[0]) / b[2])
            assert ours == pytest.approx(np.array(theirs), rel=2e-3)
    finally:
        if before is not None:
            mi.set_variant(before)


@pytest.mark.parametrize("roughness", [0.35, 0.6, 1.0])
@pytest.mark.parametrize("metallic", [0.0, 1.0])
def test_no_surface_reflects_more_than_arrives(roughness: float, metallic: float) -> None:
    for cos in (0.05, 0.3, 1.0):
        assert albedo(cos, base=1.0, metallic=metallic, roughness=roughness) <= 1.0


# ---- flat light -----------------------------------------------------------------------------------------------------


def even_sky(sun: bool) -> SkyLight:
    """The same radiance from all around, and a sun that is a direction, or no sun."""
    plain = clear_sky(BANDS, SUN, shape=(8, 16))
    radiance = np.broadcast_to(SKY, plain.radiance.shape).astype(np.float32)
    beam = BEAM if sun else 0.0 * BEAM
    return replace(plain, radiance=radiance, sun_irradiance=beam, sun_direction=SUN, sun_half_angle_rad=1e-5)


def flat_light(monkeypatch: pytest.MonkeyPatch, *, sun: bool = False) -> None:
    monkeypatch.setattr(shot, "lighting", lambda *args, **kwargs: even_sky(sun))
    monkeypatch.setattr(CameraOnDevice, "_air", lambda *args: None)


def rgb_camera(size: int, samples: int, **more: Any) -> ph.Camera:
    sheet = camera_sheet(size, size, fx=float(size), sensor={"bands": ["red", "green", "blue"]})
    return ph.Camera(sheet, samples=samples, developed=False, noise=False, **more)


@pytest.mark.slow
def test_colours_of_a_chequer_are_exact_in_flat_light(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Radiance is the sky's times the albedo at this angle, by quadrature over the BRDF with the texel's colour."""
    flat_light(monkeypatch)
    colours = chequer(RED, WHITE)
    path = one(tmp_path / "board.glb", quad(40.0), baseColorTexture=colours, metallicFactor=0.0, roughnessFactor=0.9)
    # 4 x 4 tiles of 10 m; from 40 m, a pixel of 32 is 1.25 m.
    world = ph.World.load(path, materials={"thing": "concrete"})
    found = rgb_camera(32, 512, bounces=1, truth=()).shoot(world, pose=above(40.0), seed=2).colour / SKY
    tile = np.asarray(found, np.float64).reshape(4, 8, 4, 8, 3)[:, 2:6, :, 2:6].mean(axis=(1, 3))
    for row in range(4):
        for column in range(4):
            # The image's rows run along -x of the world and u along +x; v is symmetric in this chequer.
            light = SRGB_TO_LINEAR[colours[8 + 16 * column, 8 + 16 * (3 - row), :3]]
            want = [albedo(0.95, base=float(value), metallic=0.0, roughness=0.9) for value in light]
            assert tile[row, column] == pytest.approx(want, rel=0.015, abs=2e-3)


@pytest.mark.slow
def test_a_red_chequer_is_red(tmp_path: Path) -> None:
    path = one(tmp_path / "board.glb", quad(8.0), baseColorTexture=chequer(RED, WHITE), metallicFactor=0.0)
    with pytest.warns(UserWarning, match="materials guess board.glb"):
        world = ph.World.load(path)
    image = ph.Camera("generic/vga", width=64, height=64, samples=8, truth=()).shoot(world, pose=above(6.0), seed=1)
    pixels = np.asarray(image.colour, np.float64).reshape(-1, 3)
    red = (pixels[:, 0] > 2 * pixels[:, 1]) & (pixels[:, 0] > 2 * pixels[:, 2])
    # The white balance averages over the picture, so the white fields turn to cyan.
    white = pixels[:, 0] < 1.1 * pixels[:, 1:].min(axis=1)
    assert 0.35 < red.mean() < 0.55
    assert 0.35 < white.mean() < 0.55


# ---- Mitsuba --------------------------------------------------------------------------------------------------------


ORACLE = """
import json, sys
import numpy as np
import mitsuba as mi

mi.set_variant("scalar_rgb")
asked, arrays = json.load(open(sys.argv[1])), np.load(sys.argv[2])
rgb = lambda value: {"type": "rgb", "value": value}
parts = {
    "type": "scene",
    "sensor": {
        "type": "perspective", "fov": asked["fov"],
        "to_world": mi.ScalarTransform4f().look_at(origin=asked["from"], target=asked["at"], up=[0, 0, 1]),
        "film": {"type": "hdrfilm", "width": asked["size"], "height": asked["size"], "rfilter": {"type": "box"},
                 "pixel_format": "rgb"},
    },
}
for k, surface in enumerate(asked["surfaces"]):
    def picture(name, raw):
        return {"type": "bitmap", "bitmap": mi.Bitmap(arrays[f"{name}{k}"]), "raw": raw, "wrap_mode": "repeat"}
    bsdf = {"type": "principled", "specular": 0.5, "base_color": rgb(surface["base"]),
            "roughness": surface["roughness"], "metallic": surface["metallic"]}
    if f"base{k}" in arrays:
        bsdf["base_color"] = picture("base", True)
    if f"rough{k}" in arrays:
        bsdf["roughness"], bsdf["metallic"] = picture("rough", True), picture("metal", True)
    if f"normal{k}" in arrays:
        bsdf = {"type": "normalmap", "normalmap": picture("normal", True), "bsdf": bsdf}
    props = mi.Properties()
    props["bsdf"] = mi.load_dict(bsdf)
    vertices, uv = arrays[f"v{k}"], arrays[f"uv{k}"]
    mesh = mi.Mesh(f"m{k}", len(vertices), len(vertices) // 3, has_vertex_texcoords=True, props=props)
    values = mi.traverse(mesh)
    values["vertex_positions"], values["vertex_texcoords"] = vertices.ravel(), uv.ravel()
    values["faces"] = np.arange(len(vertices), dtype=np.uint32)
    values.update()
    parts[f"m{k}"] = mesh
lights = {
    asked["bounces"] + 1: {"type": "constant", "radiance": rgb(asked["sky"])},
    asked["bounces"] + 2: {"type": "directional", "direction": asked["along"], "irradiance": rgb(asked["beam"])},
}
total = 0.0
for depth, light in lights.items():
    by = mi.load_dict({"type": "path", "max_depth": depth, "rr_depth": 99})
    total = total + np.array(mi.render(mi.load_dict({**parts, "light": light}), integrator=by, spp=asked["samples"]))
np.save(sys.argv[3], total)
"""


def by_mitsuba(folder: Path, world: ph.World, pose: ph.Pose, size: int, samples: int, bounces: int) -> Array:
    surfaces, arrays = [], {}
    for number, part in enumerate(part for item in world.objects for part in item.parts):
        look, faces = part.appearance, part.mesh.faces
        assert look is not None
        arrays[f"v{number}"] = part.placed[faces].reshape(-1, 3).astype(np.float32)
        uv = np.zeros((len(faces), 3, 2), np.float32) if part.mesh.uv is None else np.array(part.mesh.uv)
        uv[..., 1] = 1.0 - uv[..., 1]  # Mitsuba's v runs down the image
        arrays[f"uv{number}"] = uv.reshape(-1, 2)
        surfaces.append({"base": look.base, "roughness": look.roughness, "metallic": look.metallic})
        if look.base_picture is not None:
            arrays[f"base{number}"] = SRGB_TO_LINEAR[look.base_picture.pixels[..., :3]] * np.float32(look.base)
        if look.surface_picture is not None:
            values = look.surface_picture.pixels.astype(np.float32) / 255
            arrays[f"rough{number}"] = (values[..., 1:2] * np.float32(look.roughness)).copy()
            arrays[f"metal{number}"] = (values[..., 2:3] * np.float32(look.metallic)).copy()
        if look.normal_picture is not None:
            # Mitsuba's bitangent is the cross product of normal and tangent, as ours for images that are not mirrored.
            arrays[f"normal{number}"] = look.normal_picture.pixels[..., :3].astype(np.float32) / 255
    asked = {
        "bounces": bounces, "fov": float(np.degrees(2 * np.arctan(0.5))), "size": size, "from": pose.xyz.tolist(),
        "at": (pose.xyz + pose.rotation @ [1, 0, 0]).tolist(), "sky": SKY.tolist(), "beam": BEAM.tolist(),
        "along": (-SUN).tolist(), "surfaces": surfaces, "samples": samples,
    }  # fmt: skip
    (folder / "asked.json").write_text(json.dumps(asked))
    np.savez(folder / "arrays.npz", **arrays)
    files = [str(folder / name) for name in ("asked.json", "arrays.npz", "picture.npy")]
    subprocess.run([sys.executable, "-c", ORACLE, *files], check=True, timeout=240)
    return np.load(files[2]).astype(np.float64)


def bumps(size: int = 64) -> Array:
    """Normal map of gentle waves."""
    row, column = np.indices((size, size)) * (2 * np.pi / size * 4)
    normal = np.stack([-0.4 * np.cos(column), -0.3 * np.sin(row), np.ones((size, size))], axis=-1)
    normal /= np.linalg.norm(normal, axis=-1, keepdims=True)
    return np.round((normal * 0.5 + 0.5) * 255).astype(np.uint8)


def spheres(path: Path) -> Path:
    """Nine spheres by metalness and roughness on a ground, as in Khronos' MetalRoughSpheres."""
    glb = Glb()
    ball = sphere(0.45, rows=24)
    for row, metallic in enumerate((0.0, 0.5, 1.0)):
        for column, roughness in enumerate((0.25, 0.5, 0.9)):
            material = glb.material(
                f"{row}{column}",
                baseColorFactor=[0.5, 0.4, 0.25, 1],
                metallicFactor=metallic,
                roughnessFactor=roughness,
            )
            glb.node(mesh=glb.mesh(ball, material), translation=[column - 1.0, 0.5, row - 1.0])
    ground = glb.material("ground", baseColorFactor=[0.4, 0.45, 0.5, 1], metallicFactor=0.0, roughnessFactor=0.8)
    glb.node(mesh=glb.mesh(quad(6.0), ground))
    return glb.write(path)


def painted(path: Path) -> Path:
    """A floor with images of colour, roughness, metalness and normals."""
    tiles = chequer((0, 90, 255), (0, 200, 0))
    glb = Glb()
    material = glb.material(
        "floor",
        baseColorTexture=glb.texture(chequer((180, 60, 40), (90, 120, 150))),
        metallicRoughnessTexture=glb.texture(tiles),
        normalTexture=glb.texture(bumps()),
    )
    glb.node(mesh=glb.mesh(quad(6.0), material))
    return glb.write(path)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*materials guessed")
@pytest.mark.parametrize("make", [spheres, painted])
def test_models_agree_with_mitsubas_principled(make: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat_light(monkeypatch, sun=True)
    world = ph.World.load(make(tmp_path / "model.glb"))
    pose = ph.Pose((-3.0, 0.0, 3.0), rpy_deg=(0, 45, 0))
    ours = np.asarray(rgb_camera(64, 64, bounces=2, truth=()).shoot(world, pose=pose, seed=1).colour, np.float64)
    theirs = by_mitsuba(tmp_path, world, pose, 64, 64, 2)
    assert ours.mean(axis=(0, 1)) == pytest.approx(theirs.mean(axis=(0, 1)), rel=0.02)
    # Tiles of 16 pixels: a wrong place or a wrong part of the model would differ by more.
    a, b = (one.reshape(4, 16, 4, 16, 3).mean(axis=(1, 3)) for one in (ours, theirs))
    assert a == pytest.approx(b, rel=0.08)


# ---- holes, emission, classes ---------------------------------------------------------------------------------------


def fence(path: Path, **material: Any) -> Path:
    """A square 1 m above the ground whose left half, u < 0.5, is transparent."""
    image = np.full((64, 64, 4), 255, np.uint8)
    image[:, :32, 3] = 0
    return one(path, quad(4.0), "wood", baseColorTexture=image, **material)


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["MASK", "BLEND"])
def test_rays_pass_through_holes(mode: str, tmp_path: Path) -> None:
    world = ph.World()
    world.add(ph.shapes.plane(20, 20), material="asphalt", label="ground")
    world.add(fence(tmp_path / "fence.glb", alphaMode=mode), label="fence", pose=ph.Pose((0, 0, 1)))
    camera = rgb_camera(48, 1, bounces=0)
    image = camera.shoot(world, pose=above(5.0), seed=1)
    assert image.depth is not None
    # Rows run along -x and u along +x: the upper rows see the opaque half.
    assert image.depth[12, 24] == pytest.approx(4.0, abs=0.01)
    assert image.depth[36, 24] == pytest.approx(5.0, abs=0.01)
    # A lidar that looks down: its rays end on the fence for x > 0 only.
    scan = ph.Lidar("velodyne/vlp-16").scan(world, pose=ph.Pose((0, 0, 3), rpy_deg=(0, 90, 0)), seed=1)
    points = scan.in_world().xyz
    near = np.all(np.abs(points[:, :2]) < 1.9, axis=1) & (np.abs(points[:, 0]) > 0.1)
    right = points[near, 0] > 0
    assert 50 < right.sum() < near.sum() - 50
    assert points[near][right, 2] == pytest.approx(1.0, abs=0.15)
    assert points[near][~right, 2] == pytest.approx(0.0, abs=0.15)


@pytest.mark.slow
def test_holes_let_the_sun_through(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    flat_light(monkeypatch, sun=True)
    world = ph.World()
    world.add(ph.shapes.plane(20, 20), material="lambert-50", label="ground")
    height = 2.0
    world.add(fence(tmp_path / "fence.glb", alphaMode="MASK"), pose=ph.Pose((0, 0, height)))
    shift = SUN[:2] / SUN[2] * height
    looks_at = [np.array([x, 0.0]) - shift for x in (-1.0, 1.0)]
    sheet = camera_sheet(8, 8, fx=80.0, sensor={"bands": ["red", "green", "blue"]})
    camera = ph.Camera(sheet, samples=8, bounces=0, developed=False, noise=False, truth=())
    # From below the fence, straight down.
    light, shade = (np.mean(camera.shoot(world, pose=above(1.0, *place), seed=1).colour[..., 0]) for place in looks_at)
    assert light == pytest.approx(0.5 / np.pi * BEAM[0] * SUN[2], rel=0.01)
    assert shade < 0.01 * light


@pytest.mark.slow
def test_emission_is_a_luminance(tmp_path: Path) -> None:
    strength = {"KHR_materials_emissive_strength": {"emissiveStrength": 400.0}}
    path = one(
        tmp_path / "screen.glb", quad(4.0), "plastic", baseColorFactor=[0, 0, 0, 1], metallicFactor=0.0,
        emissiveFactor=[1.0, 0.5, 0.0], extensions=strength,
    )  # fmt: skip
    world = ph.World.load(path)
    world.daylight = ph.Daylight(sun_elevation_deg=-30.0)
    seen = rgb_camera(8, 4, bounces=0, truth=()).shoot(world, pose=above(2.0), seed=1).colour.mean(axis=(0, 1))
    want = [400.0 * share * radiant_per_lumen(6504.0, band) for share, band in zip((1, 0.5, 0), BANDS, strict=True)]
    assert seen == pytest.approx(want, rel=0.01, abs=1e-3)


@pytest.mark.slow
def test_other_sensors_see_the_class(tmp_path: Path) -> None:
    """Lidar and near infrared see grass, although the model is red; the table changes both."""
    path = one(tmp_path / "lawn.glb", quad(8.0), "Lawn", baseColorFactor=[0.8, 0.05, 0.05, 1], metallicFactor=0.0)
    sheet = camera_sheet(8, 8, fx=8.0, sensor={"bands": ["red", "nir"]})

    def seen(world: ph.World) -> Array:
        camera = ph.Camera(sheet, samples=4, bounces=0, developed=False, noise=False, truth=())
        return np.asarray(camera.shoot(world, pose=above(2.0), seed=1).colour.mean(axis=(0, 1)))

    world = ph.World.load(path)
    assert [part.material.name for part in world.objects[0].parts] == ["grass"]
    plain = ph.World()
    plain.add(ph.shapes.plane(8, 8), material="grass")
    assert seen(world)[1] / seen(plain)[1] == pytest.approx(1.0, rel=1e-3)
    assert seen(world)[0] > 4 * seen(plain)[0]
    (tmp_path / "materials.yaml").write_text("models: {lawn.glb: {Lawn: {class: asphalt}}}")
    again = ph.World.load(path)
    assert [part.material.name for part in again.objects[0].parts] == ["asphalt"]
    assert seen(again)[1] < 0.5 * seen(world)[1]
    assert seen(again)[0] == pytest.approx(seen(world)[0], rel=1e-3)
