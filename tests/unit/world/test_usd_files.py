"""USD files, written with `usd-core`: instances, references, materials, units and the up axis."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from model_rigs import chequer, png
from parhelion.core.errors import FormatError
from parhelion.world.loaders import load_mesh

pxr = pytest.importorskip("pxr")
from pxr import Gf, Sdf, Usd, UsdGeom, UsdShade  # noqa: E402

CORNERS = [(0, 0, 0), (2, 0, 0), (2, 1, 0), (0, 1, 0)]


def stage_at(path: Path, *, up: str = "Z", metres: float = 1.0) -> Usd.Stage:
    stage = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(stage, up)
    UsdGeom.SetStageMetersPerUnit(stage, metres)
    root = UsdGeom.Xform.Define(stage, "/Root")
    stage.SetDefaultPrim(root.GetPrim())
    return stage


def panel(stage: Usd.Stage, path: str) -> UsdGeom.Mesh:
    """A rectangle of 2 x 1 with texture coordinates."""
    mesh = UsdGeom.Mesh.Define(stage, path)
    mesh.CreatePointsAttr(CORNERS)
    mesh.CreateFaceVertexCountsAttr([4])
    mesh.CreateFaceVertexIndicesAttr([0, 1, 2, 3])
    uv = UsdGeom.PrimvarsAPI(mesh).CreatePrimvar("st", Sdf.ValueTypeNames.TexCoord2fArray, "faceVarying")
    uv.Set([(0, 0), (1, 0), (1, 1), (0, 1)])
    return mesh


def preview(stage: Usd.Stage, path: str, image: str | None = None, **values: Any) -> UsdShade.Material:
    material = UsdShade.Material.Define(stage, path)
    shader = UsdShade.Shader.Define(stage, f"{path}/Shader")
    shader.CreateIdAttr("UsdPreviewSurface")
    kinds = {tuple: Sdf.ValueTypeNames.Color3f, float: Sdf.ValueTypeNames.Float}
    for name, value in values.items():
        shader.CreateInput(name, kinds[type(value)]).Set(value)
    if image is not None:
        texture = UsdShade.Shader.Define(stage, f"{path}/Texture")
        texture.CreateIdAttr("UsdUVTexture")
        texture.CreateInput("file", Sdf.ValueTypeNames.Asset).Set(image)
        texture.CreateOutput("rgb", Sdf.ValueTypeNames.Float3)
        colour = shader.CreateInput("diffuseColor", Sdf.ValueTypeNames.Color3f)
        colour.ConnectToSource(texture.ConnectableAPI(), "rgb")
    material.CreateSurfaceOutput().ConnectToSource(shader.ConnectableAPI(), "surface")
    return material


def corners(world: ph.World) -> np.ndarray:
    return np.concatenate([part.placed for item in world.objects for part in item.parts])


def test_a_scene_with_references_and_instances_comes_back(tmp_path: Path) -> None:
    """Two instances of a referenced file and four of a point instancer: every corner is where USD places it."""
    part = stage_at(tmp_path / "panel.usda")
    panel(part, "/Root/Panel")
    part.Save()
    stage = stage_at(tmp_path / "scene.usda")
    want = []
    for number, (x, turn) in enumerate(((0.0, 0.0), (5.0, 90.0))):
        one = UsdGeom.Xform.Define(stage, f"/Root/Part{number}")
        one.GetPrim().GetReferences().AddReference("./panel.usda")
        one.GetPrim().SetInstanceable(True)
        one.AddTranslateOp().Set(Gf.Vec3d(x, 1.0, 2.0))
        one.AddRotateZOp().Set(turn)
        want.append(ph.Pose((x, 1, 2), rpy_deg=(0, 0, turn)).apply(np.array(CORNERS, float)))
    instancer = UsdGeom.PointInstancer.Define(stage, "/Root/Many")
    panel(stage, "/Root/Many/Proto")
    instancer.CreatePrototypesRel().SetTargets(["/Root/Many/Proto"])
    instancer.CreateProtoIndicesAttr([0, 0, 0, 0])
    places = [(float(k), 10.0, 0.0) for k in range(4)]
    instancer.CreatePositionsAttr(places)
    instancer.CreateScalesAttr([(1.0 + k, 1.0, 1.0) for k in range(4)])
    want += [np.array(CORNERS) * (1.0 + k, 1, 1) + place for k, place in enumerate(places)]
    stage.Save()
    with pytest.warns(UserWarning, match="concrete"):
        world = ph.World.load(tmp_path / "scene.usda")
    assert world.triangle_count == 12
    found = np.unique(corners(world).round(6), axis=0)
    assert found == pytest.approx(np.unique(np.concatenate(want).round(6), axis=0), abs=1e-6)
    # Saved as a world file, the scene refers to the USD file and stays the same.
    world.save(tmp_path / "world.yaml")
    assert np.array_equal(corners(ph.World.load(tmp_path / "world.yaml")), corners(world))


def test_units_and_up_axis_are_those_of_the_file(tmp_path: Path) -> None:
    stage = stage_at(tmp_path / "cm.usdc", up="Y", metres=0.01)
    panel(stage, "/Root/Panel")
    stage.Save()
    lower, upper = load_mesh(tmp_path / "cm.usdc").parts[0].mesh.bounds
    assert upper - lower == pytest.approx([0.02, 0.0, 0.01])
    lower, upper = load_mesh(tmp_path / "cm.usdc", up="z").parts[0].mesh.bounds
    assert upper - lower == pytest.approx([0.02, 0.01, 0.0])


def test_materials_have_their_colours_and_images(tmp_path: Path) -> None:
    (tmp_path / "tiles.png").write_bytes(png(chequer((200, 30, 20), (240, 240, 240))))
    stage = stage_at(tmp_path / "scene.usda")
    made = (
        ("Brick", preview(stage, "/Root/Looks/Brick", "./tiles.png", roughness=0.8)),
        ("Steel", preview(stage, "/Root/Looks/Steel", diffuseColor=(0.6, 0.6, 0.5), metallic=1.0, opacity=0.4)),
    )
    for name, material in made:
        UsdShade.MaterialBindingAPI.Apply(panel(stage, f"/Root/{name}Panel").GetPrim()).Bind(material)
    stage.Save()
    world = ph.World.load(tmp_path / "scene.usda")
    parts = {part.file_material: part for part in world.objects[0].parts}
    assert {name: part.material.name for name, part in parts.items()} == {"Brick": "brick", "Steel": "steel"}
    brick, steel = parts["Brick"].appearance, parts["Steel"].appearance
    assert brick is not None
    assert steel is not None
    assert brick.base_picture is not None
    assert brick.base_picture.pixels[8, 8].tolist() == [200, 30, 20, 255]
    assert brick.roughness == pytest.approx(0.8)
    assert steel.base == pytest.approx((0.6, 0.6, 0.5))
    assert (steel.metallic, steel.alpha_mode) == (1.0, "blend")


def test_files_outside_of_the_folder_are_refused(tmp_path: Path) -> None:
    other = stage_at(tmp_path / "other.usda")
    panel(other, "/Root/Panel")
    other.Save()
    inside = tmp_path / "inside"
    inside.mkdir()
    stage = stage_at(inside / "scene.usda")
    stage.GetDefaultPrim().GetReferences().AddReference("../other.usda")
    stage.Save()
    with pytest.raises(FormatError, match="outside of"):
        load_mesh(inside / "scene.usda")


def test_damaged_files_are_refused(tmp_path: Path) -> None:
    (tmp_path / "bad.usda").write_text("#usda 1.0\ndef Mesh 'a' {")
    with pytest.raises(FormatError, match="not a whole USD file"):
        load_mesh(tmp_path / "bad.usda")
    stage = stage_at(tmp_path / "far.usda")
    mesh = panel(stage, "/Root/Panel")
    mesh.GetFaceVertexIndicesAttr().Set([0, 1, 2, 9])
    stage.Save()
    with pytest.raises(FormatError, match="faceVertexIndices must be 0 to 3"):
        load_mesh(tmp_path / "far.usda")
