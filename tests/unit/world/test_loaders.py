"""Mesh files of every kind, whole and broken."""

from __future__ import annotations

import json
import sys
import time
import warnings
from pathlib import Path

import numpy as np
import pytest
import trimesh
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from trimesh.visual import TextureVisuals
from trimesh.visual.material import PBRMaterial

from model_rigs import png
from parhelion.core.errors import ConfigError, FormatError, MissingDependencyError, ParhelionError
from parhelion.core.reading import reading
from parhelion.world import World, load_mesh

OBJ = """mtllib wall.mtl
v 0 0 0
v 2 0 0
v 2 0 1
v 0 0 1
vt 0 0
vt 1 0
vt 1 1
vt 0 1
usemtl Brick Wall
f 1/1 2/2 3/3
usemtl Grass
f 1/1 3/3 4/4
"""
MTL = "newmtl Brick Wall\nKd 1 0 0\nmap_Kd brick.png\nnewmtl Grass\nKd 0 1 0\n"


def textured_box(material: str) -> trimesh.Trimesh:
    box = trimesh.creation.box((1, 2, 3))
    box.unmerge_vertices()
    uv = np.linspace(0.0, 1.0, 2 * len(box.vertices)).reshape(-1, 2)
    box.visual = TextureVisuals(uv=uv, material=PBRMaterial(name=material))
    return box


@pytest.fixture
def two_materials(tmp_path: Path) -> Path:
    """A GLB whose nodes are moved, one of them mirrored, with two named materials."""
    scene = trimesh.Scene()
    scene.add_geometry(textured_box("Asphalt_01"))
    scene.add_geometry(textured_box("Window.Glass"), transform=trimesh.transformations.translation_matrix((5, 1, 2)))
    mirrored = np.diag([-1.0, 1, 1, 1])
    mirrored[:3, 3] = (9, 0, 0)
    scene.add_geometry(textured_box("Window.Glass"), transform=mirrored)
    scene.export(tmp_path / "two.glb")
    return tmp_path / "two.glb"


@pytest.fixture
def wall(tmp_path: Path) -> Path:
    (tmp_path / "wall.mtl").write_text(MTL)
    (tmp_path / "wall.obj").write_text(OBJ)
    (tmp_path / "brick.png").write_bytes(png(np.full((2, 2, 3), 90, np.uint8)))
    return tmp_path / "wall.obj"


@pytest.mark.parametrize("suffix", ["ply", "stl", "obj", "off", "glb"])
def test_every_format_gives_the_same_box(tmp_path: Path, suffix: str) -> None:
    file = tmp_path / f"box.{suffix}"
    trimesh.creation.box((1, 2, 3)).export(file)
    (part,) = load_mesh(file, up="z").parts
    assert len(part.mesh) == 12
    assert part.mesh.area() == pytest.approx(22.0)
    np.testing.assert_allclose(part.mesh.bounds, [[-0.5, -1, -1.5], [0.5, 1, 1.5]])
    assert part.mesh.as_trimesh().volume == pytest.approx(6.0)
    assert part.material is None


def test_gltf_is_turned_from_y_up_to_z_up(two_materials: Path) -> None:
    # The box is 1 x 2 x 3 along x, y, z of the file; its y is up.
    loaded = load_mesh(two_materials)
    names = {part.material: part.mesh for part in loaded.parts}
    assert set(names) == {"Asphalt_01", "Window.Glass"}
    np.testing.assert_allclose(names["Asphalt_01"].bounds, [[-0.5, -1.5, -1], [0.5, 1.5, 1]])
    np.testing.assert_allclose(names["Window.Glass"].bounds, [[4.5, -3.5, -1], [9.5, 1.5, 2]])
    as_it_is = {part.material: part.mesh for part in load_mesh(two_materials, up="z").parts}
    np.testing.assert_allclose(as_it_is["Asphalt_01"].bounds, [[-0.5, -1, -1.5], [0.5, 1, 1.5]])
    with pytest.raises(ConfigError, match="up must be"):
        load_mesh(two_materials, up="x")  # type: ignore[arg-type]


def test_mirrored_nodes_are_not_turned_inside_out(two_materials: Path) -> None:
    glass = {part.material: part.mesh for part in load_mesh(two_materials).parts}["Window.Glass"]
    assert glass.as_trimesh().volume == pytest.approx(12.0)


def test_uvs_stay_with_their_corners(two_materials: Path) -> None:
    box = textured_box("x")
    known = {tuple(np.round(v, 4)): [] for v in box.vertices}
    for vertex, uv in zip(box.vertices, box.visual.uv, strict=True):
        known[tuple(np.round(vertex, 4))].append(np.round(uv, 4))
    mesh = {part.material: part.mesh for part in load_mesh(two_materials, up="z").parts}["Asphalt_01"]
    assert mesh.uv is not None
    for corner, uv in zip(mesh.vertices[mesh.faces].reshape(-1, 3), mesh.uv.reshape(-1, 2), strict=True):
        options = known[tuple(np.round(corner, 4))]
        assert min(np.abs(option - uv).max() for option in options) < 1e-3


def test_a_file_is_read_the_same_each_time(two_materials: Path) -> None:
    first, second = load_mesh(two_materials), load_mesh(two_materials)
    for a, b in zip(first.parts, second.parts, strict=True):
        assert a.material == b.material
        np.testing.assert_array_equal(a.mesh.vertices, b.mesh.vertices)
        np.testing.assert_array_equal(a.mesh.faces, b.mesh.faces)


# ---- materials ---------------------------------------------------------------------------------------------------


def test_material_names_of_a_file_are_found_in_the_library(two_materials: Path) -> None:
    world = World.load(two_materials)
    assert {m.name for m in world.materials} == {"asphalt", "glass"}
    (item,) = world.objects
    by_name = {part.file_material: part for part in item.parts}
    assert by_name["Asphalt_01"].material.name == "asphalt"
    scene = world.geometry().static
    np.testing.assert_array_equal(
        np.bincount(scene.part)[[by_name["Asphalt_01"].number, by_name["Window.Glass"].number]], [12, 24]
    )


def test_a_mapping_and_a_material_take_the_place_of_the_files(two_materials: Path) -> None:
    world = World.load(two_materials, materials={"Asphalt_01": "grass"})
    assert {m.name for m in world.materials} == {"grass", "glass"}
    world = World()
    world.add(two_materials, material="concrete", materials={"Window.Glass": "steel"}, label="building")
    assert {m.name for m in world.materials} == {"concrete", "steel"}
    world = World()
    world.add(str(two_materials), material="concrete")
    assert [m.name for m in world.materials] == ["concrete"]
    with pytest.raises(ConfigError, match="did you mean 'Asphalt_01'"):
        world.add(two_materials, materials={"Asphalt01": "grass"})


def test_unknown_material_names_are_listed_in_one_warning(tmp_path: Path) -> None:
    scene = trimesh.Scene([textured_box("Qqq7"), textured_box("Asphalt"), textured_box("Zzz9")])
    scene.export(tmp_path / "odd.glb")
    with pytest.warns(UserWarning, match="materials guessed") as caught:
        World.load(tmp_path / "odd.glb")
    assert len(caught) == 1
    message = str(caught[0].message)
    assert "odd.glb" in message
    assert "'Qqq7'" in message
    assert "'Zzz9'" in message
    assert "'Asphalt'" not in message


def test_a_file_without_materials_is_concrete_and_says_so(tmp_path: Path) -> None:
    trimesh.creation.box().export(tmp_path / "box.stl")
    with pytest.warns(UserWarning, match=r"box\.stl.*'concrete'"):
        world = World.load(tmp_path / "box.stl")
    assert [m.name for m in world.materials] == ["concrete"]


def test_obj_with_library_and_uvs(wall: Path) -> None:
    parts = {part.material: part.mesh for part in load_mesh(wall).parts}
    assert set(parts) == {"Brick Wall", "Grass"}
    brick = parts["Brick Wall"]
    assert brick.uv is not None
    corners = brick.vertices[brick.faces][0][:, [0, 2]] / [2, 1]
    np.testing.assert_allclose(brick.uv[0], corners)


def test_missing_library_or_texture_warns_and_keeps_the_names(wall: Path) -> None:
    (wall.parent / "brick.png").unlink()
    with pytest.warns(UserWarning, match=r"missing: brick\.png"):
        load_mesh(wall)
    (wall.parent / "wall.mtl").unlink()
    with pytest.warns(UserWarning, match=r"missing: wall\.mtl"):
        loaded = load_mesh(wall)
    assert set(loaded.material_names) == {"Brick Wall", "Grass"}


def test_obj_without_a_library_keeps_the_names(wall: Path) -> None:
    wall.write_text(OBJ.replace("mtllib wall.mtl\n", ""))
    assert set(load_mesh(wall).material_names) == {"Brick Wall", "Grass"}


def test_files_are_only_looked_for_below_the_meshs_own_folder(wall: Path, tmp_path: Path) -> None:
    inner = tmp_path / "inner"
    inner.mkdir()
    (inner / "wall.obj").write_text(OBJ.replace("wall.mtl", "../wall.mtl"))
    with pytest.warns(UserWarning, match=r"missing: \.\./wall\.mtl"):
        load_mesh(inner / "wall.obj")


def test_a_ply_texture_comment_is_not_needed(tmp_path: Path) -> None:
    data = trimesh.creation.box().export(file_type="ply", encoding="ascii")
    text = data if isinstance(data, str) else data.decode()
    file = tmp_path / "box.ply"
    file.write_text(text.replace("element vertex", "comment TextureFile skin.png\nelement vertex", 1))
    with pytest.warns(UserWarning, match=r"missing: skin\.png"):
        assert len(load_mesh(file).parts[0].mesh) == 12


def test_a_file_used_often_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    trimesh.creation.box().export(tmp_path / "box.stl")
    calls = []
    monkeypatch.setattr("parhelion.world.assemble.load_mesh", lambda *a, **k: calls.append(a) or load_mesh(*a, **k))
    world = World()
    for _ in range(5):
        world.add(tmp_path / "box.stl", material="steel")
    assert len(calls) == 1
    assert world.triangle_count == 60


# ---- broken files ------------------------------------------------------------------------------------------------


def test_triangles_without_area_are_counted_once_a_file(tmp_path: Path) -> None:
    (tmp_path / "flat.obj").write_text("v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\nf 1 1 2\nf 2 2 2\n")
    with pytest.warns(UserWarning, match=r"flat\.obj: dropped 2 triangles without area") as caught:
        assert len(load_mesh(tmp_path / "flat.obj").parts[0].mesh) == 1
    assert len(caught) == 1
    (tmp_path / "none.obj").write_text("v 0 0 0\nv 1 0 0\nv 2 0 0\nf 1 2 3\n")
    with pytest.raises(FormatError, match=r"none\.obj: zero-area mesh"):
        load_mesh(tmp_path / "none.obj")


def _binary_ply(vertices: int, faces: int) -> bytes:
    header = f"ply\nformat binary_little_endian 1.0\nelement vertex {vertices}\n"
    header += "property float x\nproperty float y\nproperty float z\n"
    return (header + f"element face {faces}\nproperty list uchar int vertex_indices\nend_header\n").encode()


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("empty.stl", b"", "is empty"),
        ("words.stl", b"hello world " * 40, "no triangles"),
        ("words.glb", b"glTF" + b"hello world " * 40, "not a whole .glb"),
        ("words.gltf", b"{ not json", "not a whole .gltf"),
        ("words.ply", b"ply\nhello", "not a whole .ply"),
        ("words.off", b"OFF\n1000000000 3 0\nhello", "not a whole .off"),
        ("words.obj", b"hello\nworld\n", "no triangles"),
        ("range.obj", b"v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 9\n", "range.obj"),
        ("nan.obj", b"v 0 0 0\nv nan 0 0\nv 0 1 0\nf 1 2 3\n", "nan.obj"),
        ("far.obj", b"v 0 0 0\nv 1e30 0 0\nv 0 1 0\nf 1 2 3\n", "within 1e\\+09 m"),
        ("huge.ply", _binary_ply(10**12, 10**11) + b"\0" * 100, "not a whole .ply"),
    ],
)
def test_broken_files_are_named(tmp_path: Path, name: str, content: bytes, message: str) -> None:
    (tmp_path / name).write_bytes(content)
    with pytest.raises(FormatError, match=message) as caught:
        load_mesh(tmp_path / name)
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


def test_absent_and_foreign_files_are_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"absent\.glb: no such file"):
        load_mesh(tmp_path / "absent.glb")
    (tmp_path / "folder.obj").mkdir()
    with pytest.raises(ConfigError, match="is a folder"):
        load_mesh(tmp_path / "folder.obj")
    with pytest.raises(ConfigError, match=r"extensions: \.obj"):
        load_mesh(tmp_path / "scan.pcd")
    with pytest.raises(ConfigError, match="cannot be read"):
        load_mesh("nul\0name.obj")


def test_collada_without_its_package_says_what_to_install(tmp_path: Path) -> None:
    if "dae" in trimesh.available_formats():
        pytest.skip("pycollada is installed")
    (tmp_path / "x.dae").write_text("<COLLADA/>")
    with pytest.raises(MissingDependencyError, match="pip install pycollada"):
        load_mesh(tmp_path / "x.dae")


def test_a_gltf_whose_buffer_is_missing_or_remote_says_so(tmp_path: Path) -> None:
    for uri in ("absent.bin", "http://127.0.0.1:9/buffer.bin"):
        tree = {"asset": {"version": "2.0"}, "buffers": [{"uri": uri, "byteLength": 36}]}
        (tmp_path / "x.gltf").write_text(json.dumps(tree))
        with pytest.raises(FormatError, match=f"it needs {uri}, which is missing"):
            load_mesh(tmp_path / "x.gltf")


@pytest.mark.parametrize("suffix", ["ply", "stl", "glb", "off"])
def test_files_cut_short_are_refused(tmp_path: Path, suffix: str) -> None:
    whole = tmp_path / f"whole.{suffix}"
    trimesh.creation.icosphere(subdivisions=2).export(whole)
    data = whole.read_bytes()
    for part in (0.2, 0.5, 0.95):
        (tmp_path / f"cut.{suffix}").write_bytes(data[: int(part * len(data))])
        with pytest.raises(FormatError, match="cut"):
            load_mesh(tmp_path / f"cut.{suffix}")


@pytest.mark.slow
@settings(
    max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow]
)
@given(
    suffix=st.sampled_from(["ply", "stl", "glb", "off", "obj"]),
    damage=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), min_size=1, max_size=6),
)
def test_damaged_bytes_never_give_a_traceback(tmp_path: Path, suffix: str, damage: list[tuple[float, int]]) -> None:
    file = tmp_path / f"damaged.{suffix}"
    exported = trimesh.creation.box().export(file_type=suffix)
    data = bytearray(exported.encode() if isinstance(exported, str) else exported)
    for place, value in damage:
        data[int(place * len(data))] = value
    file.write_bytes(bytes(data))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            loaded = load_mesh(file)
        except ParhelionError as error:
            complaint = str(error)
        else:
            assert all(np.isfinite(part.mesh.vertices).all() for part in loaded.parts)
            return
    assert complaint.startswith(str(file))


@pytest.mark.parametrize("suffix", ["ply", "stl"])
def test_large_files_load_in_seconds(tmp_path: Path, suffix: str) -> None:
    side = 400
    x, y = np.meshgrid(np.arange(side, dtype=float), np.arange(side, dtype=float))
    vertices = np.stack([x, y, np.sin(x / 9) + np.cos(y / 7)], axis=-1).reshape(-1, 3)
    corner = (np.arange(side - 1)[:, None] * side + np.arange(side - 1)).ravel()
    faces = np.concatenate(
        [np.stack([corner, corner + 1, corner + side], 1), np.stack([corner + 1, corner + side + 1, corner + side], 1)]
    )
    trimesh.Trimesh(vertices, faces, process=False).export(tmp_path / f"big.{suffix}")
    start = time.process_time()
    loaded = load_mesh(tmp_path / f"big.{suffix}")
    took = time.process_time() - start
    assert len(loaded.parts[0].mesh) == 2 * (side - 1) ** 2
    # 318 402 triangles: 0.3 s alone; the bound leaves room for other work on the same machine.
    assert took < 3.0


LATIN = {
    "obj": b"# Zur\xfcck\nusemtl Zur\xfcck\nv 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n",
    "stl": b"solid Zur\xfcck\nfacet normal 0 0 1\nouter loop\nvertex 0 0 0\nvertex 1 0 0\nvertex 0 1 0\nendloop\n"
    b"endfacet\nendsolid Zur\xfcck\n",
    "off": b"OFF\n# Zur\xfcck\n3 1 0\n0 0 0\n1 0 0\n0 1 0\n3 0 1 2\n",
    "ply": b"ply\nformat ascii 1.0\ncomment Zur\xfcck\nelement vertex 3\nproperty float x\nproperty float y\n"
    b"property float z\nelement face 1\nproperty list uchar int vertex_indices\nend_header\n0 0 0\n1 0 0\n0 1 0\n"
    b"3 0 1 2\n",
}


@pytest.mark.parametrize("kind", LATIN)
def test_text_in_latin_1_is_read_without_a_package_that_guesses_encodings(
    kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "charset_normalizer", None)
    file = tmp_path / f"a.{kind}"
    file.write_bytes(LATIN[kind])
    (part,) = load_mesh(file).parts
    assert len(part.mesh.faces) == 1
    assert part.material == ("Zurück" if kind == "obj" else None)


def test_a_missing_package_is_not_reported_as_damage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    import trimesh

    def lacks(*_: object, **__: object) -> None:
        raise ModuleNotFoundError("No module named 'chardet'", name="chardet")

    monkeypatch.setattr(trimesh, "load_scene", lacks)
    (tmp_path / "a.obj").write_bytes(LATIN["obj"])
    with pytest.raises(MissingDependencyError, match=r"a.obj: reading it needs the package chardet: pip install"):
        load_mesh(tmp_path / "a.obj")
    with pytest.raises(MissingDependencyError, match=r"a.las: reading it needs the package lazrs"), reading("a.las"):
        raise ModuleNotFoundError("No module named 'lazrs'", name="lazrs")
