"""USD stages as bodies of a bridge: shapes, units, axes, materials and transforms, written by OpenUSD itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import parhelion as ph
from parhelion.core.errors import ConfigError, FormatError

pytest.importorskip("pxr", reason="needs the extra 'usd'")

from pxr import Gf, Sdf, Usd, UsdGeom, UsdPhysics, UsdShade

from parhelion.world.usd_bodies import UsdScene, fans


def stage(path: Path, up: str = "Z", unit_m: float = 1.0) -> Any:
    made = Usd.Stage.CreateNew(str(path))
    UsdGeom.SetStageUpAxis(made, up)
    UsdGeom.SetStageMetersPerUnit(made, unit_m)
    return made


def placed(prim: Any, xyz: tuple[float, float, float], yaw_deg: float = 0.0, scale: Any = None) -> Any:
    form = UsdGeom.Xformable(prim)
    form.AddTranslateOp().Set(Gf.Vec3d(*xyz))
    if yaw_deg:
        form.AddRotateZOp().Set(yaw_deg)
    if scale is not None:
        form.AddScaleOp().Set(Gf.Vec3f(*scale))
    return prim


def material(made: Any, prim: Any, name: str) -> None:
    found = UsdShade.Material.Define(made, f"/Looks/{name}")
    UsdShade.MaterialBindingAPI.Apply(prim).Bind(found)


def warehouse(path: Path, up: str = "Z", unit_m: float = 1.0) -> Any:
    """A crate on wheels, with a ball on a mast, next to a wall; lengths in units of the stage."""
    made, k = stage(path, up, unit_m), 1.0 / unit_m
    wall = UsdGeom.Cube.Define(made, "/World/wall")
    wall.GetSizeAttr().Set(1.0)
    crate = UsdGeom.Xform.Define(made, "/World/crate").GetPrim()
    UsdPhysics.RigidBodyAPI.Apply(crate)
    box = UsdGeom.Cube.Define(made, "/World/crate/box")
    box.GetSizeAttr().Set(2.0 * k)
    ball = UsdGeom.Sphere.Define(made, "/World/crate/ball")
    ball.GetRadiusAttr().Set(0.5 * k)
    hidden = UsdGeom.Cube.Define(made, "/World/crate/collision")
    UsdGeom.Imageable(hidden).CreatePurposeAttr().Set(UsdGeom.Tokens.guide)
    gone = UsdGeom.Cube.Define(made, "/World/gone")
    UsdGeom.Imageable(gone).MakeInvisible()
    material(made, box.GetPrim(), "Steel_Brushed")
    if up == "Z":
        placed(wall, (5 * k, 0, 1 * k), scale=(0.2 * k, 4 * k, 2 * k))
        placed(crate, (2 * k, 3 * k, 1 * k), yaw_deg=30.0)
        placed(ball, (0, 0, 1.5 * k))
    else:  # x right, y up, z towards the viewer: (x, y, z) is (x, -z, y) in a world with z up
        placed(wall, (5 * k, 1 * k, 0), scale=(0.2 * k, 2 * k, 4 * k))
        placed(crate, (2 * k, 1 * k, -3 * k))
        UsdGeom.Xformable(crate).AddRotateYOp().Set(30.0)
        placed(ball, (0, 1.5 * k, 0))
    made.Save()
    return made


@pytest.mark.parametrize(("up", "unit_m"), [("Z", 1.0), ("Z", 0.01), ("Y", 0.01)])
@pytest.mark.parametrize("suffix", [".usda", ".usdc"])
def test_bodies_shapes_units_and_axes(tmp_path: Path, up: str, unit_m: float, suffix: str) -> None:
    warehouse(tmp_path / f"a{suffix}", up, unit_m)
    found = {one.name: one for one in UsdScene(tmp_path / f"a{suffix}").bodies}
    assert set(found) == {"wall", "crate"}
    wall, crate = found["wall"], found["crate"]
    assert (wall.moves, crate.moves) == (False, True)
    points = wall.geoms[0].mesh.vertices
    np.testing.assert_allclose(points.min(axis=0), [4.9, -2.0, 0.0], atol=1e-6)
    np.testing.assert_allclose(points.max(axis=0), [5.1, 2.0, 2.0], atol=1e-6)
    np.testing.assert_allclose(crate.start.xyz, [2.0, 3.0, 1.0], atol=1e-6)
    np.testing.assert_allclose(crate.start.rotation, ph.Pose(rpy_deg=(0, 0, 30)).rotation, atol=1e-6)
    assert [one.name for one in crate.geoms] == ["/World/crate/box", "/World/crate/ball"]
    assert [one.material for one in crate.geoms] == ["Steel_Brushed", ""]
    # In the frame of the body, which keeps its pose apart.
    np.testing.assert_allclose(np.abs(crate.geoms[0].mesh.vertices), 1.0, atol=1e-6)
    ball = crate.geoms[1].mesh.vertices - [0.0, 0.0, 1.5]
    np.testing.assert_allclose(np.linalg.norm(ball, axis=1), 0.5, atol=1e-6)


def volume(vertices: Any, faces: Any) -> float:
    """Volume inside of triangles whose normals point outwards; negative if they point inwards."""
    a, b, c = (vertices[faces[:, k]] for k in range(3))
    return float(np.einsum("ij,ij->i", a, np.cross(b, c)).sum() / 6.0)


def test_every_shape_has_its_volume_and_axis(tmp_path: Path) -> None:
    made = stage(tmp_path / "shapes.usda")
    for axis in "XYZ":
        for kind, height in (("Cylinder", 3.0), ("Cone", 3.0), ("Capsule", 2.0)):
            prim = getattr(UsdGeom, kind).Define(made, f"/{kind}{axis}")
            prim.GetAxisAttr().Set(axis)
            prim.GetRadiusAttr().Set(0.5)
            prim.GetHeightAttr().Set(height)
    mirrored = UsdGeom.Cube.Define(made, "/Mirrored")
    placed(mirrored, (0, 0, 0), scale=(-1, 1, 1))
    made.Save()
    expected = {"Cylinder": np.pi * 0.25 * 3, "Cone": np.pi * 0.25, "Capsule": np.pi * 0.25 * 2 + np.pi / 6}
    found = {one.name: one.geoms[0].mesh for one in UsdScene(tmp_path / "shapes.usda").bodies}
    for kind, exact in expected.items():
        for row, axis in enumerate("XYZ"):
            mesh = found[f"{kind}{axis}"]
            assert volume(mesh.vertices, mesh.faces) == pytest.approx(exact, rel=0.02)
            size = np.ptp(mesh.vertices, axis=0)
            assert size[row] == pytest.approx(3.0, rel=1e-3)
            assert sorted(size)[:2] == pytest.approx([1.0, 1.0], rel=0.02)
    # The tip of a cone is at the positive end of its axis.
    tip = found["ConeX"].vertices
    assert np.abs(tip[tip[:, 0] > 1.4][:, 1:]).max() < 0.01
    mesh = found["Mirrored"]
    assert volume(mesh.vertices, mesh.faces) == pytest.approx(8.0)


def polygons(made: Any, path: str, left: bool = False) -> Any:
    """A cube of six squares; the first two have another material."""
    corners = [[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]
    squares = [0, 1, 3, 2, 4, 6, 7, 5, 0, 4, 5, 1, 2, 3, 7, 6, 0, 2, 6, 4, 1, 5, 7, 3]
    mesh = UsdGeom.Mesh.Define(made, path)
    mesh.GetPointsAttr().Set([Gf.Vec3f(*one) for one in corners])
    mesh.GetFaceVertexCountsAttr().Set([4] * 6)
    mesh.GetFaceVertexIndicesAttr().Set(squares if not left else squares[::-1])
    if left:
        mesh.GetOrientationAttr().Set("leftHanded")
    return mesh


def test_meshes_have_polygons_subsets_and_two_orientations(tmp_path: Path) -> None:
    made = stage(tmp_path / "mesh.usda")
    mesh = polygons(made, "/a")
    polygons(made, "/b", left=True)
    material(made, mesh.GetPrim(), "Paint")
    subset = UsdShade.MaterialBindingAPI(mesh.GetPrim()).CreateMaterialBindSubset("glass", [0, 1])
    material(made, subset.GetPrim(), "Glass")
    made.Save()
    found = {one.name: one for one in UsdScene(tmp_path / "mesh.usda").bodies}
    counts = {one.material: len(one.mesh.faces) for one in found["a"].geoms}
    assert counts == {"Glass": 4, "Paint": 8}
    both = [volume(one.mesh.vertices, one.mesh.faces) for one in found["a"].geoms]
    assert sum(both) == pytest.approx(8.0)
    assert volume(found["b"].geoms[0].mesh.vertices, found["b"].geoms[0].mesh.faces) == pytest.approx(8.0)


def test_references_and_instances(tmp_path: Path) -> None:
    part = stage(tmp_path / "part.usda")
    root = UsdGeom.Xform.Define(part, "/part")
    UsdGeom.Cube.Define(part, "/part/shell")
    part.SetDefaultPrim(root.GetPrim())
    part.Save()
    made = stage(tmp_path / "whole.usda")
    for k in range(2):
        prim = made.DefinePrim(f"/shelf{k}", "Xform")
        prim.GetReferences().AddReference("./part.usda")
        prim.SetInstanceable(True)
        placed(prim, (10.0 * k, 0, 0))
    points = UsdGeom.PointInstancer.Define(made, "/trees")
    UsdGeom.Cube.Define(made, "/trees/proto")
    points.CreatePrototypesRel().AddTarget("/trees/proto")
    made.Save()
    scene = UsdScene(tmp_path / "whole.usda")
    assert [one.name for one in scene.bodies] == ["shelf0_shell", "shelf1_shell"]
    middles = [one.geoms[0].mesh.vertices.mean(axis=0)[0] for one in scene.bodies]
    assert middles == pytest.approx([0.0, 10.0])
    assert scene.omitted == ["/trees"]


def test_files_outside_the_folder_are_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    secret = stage(tmp_path / "secret.usda")
    UsdGeom.Cube.Define(secret, "/cube")
    secret.Save()
    for number, path in enumerate(("../secret.usda", str(tmp_path / "secret.usda"))):
        made = stage(tmp_path / "in" / f"{number}.usda")
        made.DefinePrim("/a", "Xform").GetReferences().AddReference(path, "/cube")
        made.Save()
        with pytest.raises(FormatError, match=r"secret.usda, which is not below"):
            UsdScene(tmp_path / "in" / f"{number}.usda")
    sub = stage(tmp_path / "in" / "sub.usda")
    sub.GetRootLayer().subLayerPaths.append("/etc/passwd")
    sub.Save()
    with pytest.raises(FormatError, match="/etc/passwd, which is not below"):
        UsdScene(tmp_path / "in" / "sub.usda")


@pytest.mark.parametrize(
    "text", [b"", b"#usda 1.0\ndef Cube {", b"PXR-USDC" + bytes(80), b"PK\3\4 nothing", b"\0" * 64]
)
def test_damaged_files_are_one_clear_sentence(tmp_path: Path, text: bytes) -> None:
    for suffix in (".usd", ".usda", ".usdc", ".usdz"):
        (tmp_path / f"a{suffix}").write_bytes(text)
        with pytest.raises((FormatError, ConfigError), match=r"a\.usd"):
            UsdScene(tmp_path / f"a{suffix}")


def test_wrong_meshes_are_refused(tmp_path: Path) -> None:
    made = stage(tmp_path / "a.usda")
    mesh = polygons(made, "/a")
    mesh.GetFaceVertexIndicesAttr().Set([0, 1, 3, 99] + [0] * 20)
    made.Save()
    with pytest.raises(FormatError, match="/a: faceVertexIndices names points that do not exist"):
        UsdScene(tmp_path / "a.usda")
    mesh.GetFaceVertexCountsAttr().Set([4] * 7)
    made.Save()
    with pytest.raises(FormatError, match="does not fit"):
        UsdScene(tmp_path / "a.usda")
    empty = stage(tmp_path / "b.usda")
    empty.DefinePrim("/World", "Xform")
    empty.Save()
    with pytest.raises(FormatError, match="has no visible geometry"):
        UsdScene(tmp_path / "b.usda")
    with pytest.raises(ConfigError, match="not a USD file"):
        UsdScene(tmp_path / "c.obj")
    assert Sdf.Layer.FindOrOpen(str(tmp_path / "a.usda")) is not None


def test_fans_cover_polygons() -> None:
    faces, polygon = fans(np.array([5, 3]), np.arange(8))
    assert faces.tolist() == [[0, 1, 2], [0, 2, 3], [0, 3, 4], [5, 6, 7]]
    assert polygon.tolist() == [0, 0, 0, 1]


@pytest.mark.slow
def test_a_lidar_of_a_bridge_sees_the_bodies_where_they_are_pushed(tmp_path: Path) -> None:
    made = warehouse(tmp_path / "a.usda")
    bridge = ph.Bridge(ph.World(), seed=7)
    scene = bridge.add_usd(tmp_path / "a.usda", materials={"Steel_Brushed": "steel"}, label="machine")
    bridge.attach(ph.Lidar("velodyne/vlp-16", name="top", sub_rays=1), mount=ph.Pose((0, 0, 1)))
    assert {one.name for one in bridge.world.objects} == {"wall"}
    crate = UsdGeom.Xformable(made.GetPrimAtPath("/World/crate"))
    records = []
    for k in range(11):  # the other simulator moves the crate along y at 1 m/s, and its transforms are pushed
        crate.GetOrderedXformOps()[0].Set(Gf.Vec3d(2.0, 3.0 + 0.01 * k, 1.0))
        matrix = crate.ComputeLocalToWorldTransform(Usd.TimeCode.Default())
        records += bridge.step(0.01 * k, {"crate": scene.pose_of(matrix)})
    scan = records[0].record
    names = bridge.world.label_names
    mine = np.array([names[number] == "machine" for number in scan.label])
    assert mine.sum() > 500
    at = scan.xyz[mine] + [0, 0, 1] - [2, 3, 1] - np.outer(scan.time[mine], [0, 1, 0])
    turn = np.radians(30.0)
    local = np.stack([
        np.cos(turn) * at[:, 0] + np.sin(turn) * at[:, 1], np.cos(turn) * at[:, 1] - np.sin(turn) * at[:, 0], at[:, 2]
    ], axis=1)  # fmt: skip
    box = local[:, 2] < 0.95
    assert np.abs(np.abs(local[box]).max(axis=1) - 1.0).max() < 0.1
    assert abs(np.median(np.abs(local[box]).max(axis=1)) - 1.0) < 0.03
    assert {part.material.name for item in bridge.world.objects if item.is_actor for part in item.parts} == {
        "steel", "plastic"
    }  # fmt: skip
